"""The host's configuration: ``config.yml`` or a mapping in, a checked :class:`RuntimeConfig` out.

Every problem is found before any is told, each with file and line, so that one start shows all of them.
What may run and where a credential may go is said here, by the host, and nowhere in a catalog.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mono_router.dates import parse_now
from mono_router.documents import Document, DocumentError, read_yaml
from mono_router.records import did_you_mean
from mono_router.settings import Settings

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ConfigError(ValueError):
    """A runtime cannot be made; ``problems`` holds one line each."""

    code = "CONFIG_INVALID"

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of an agent's loop."""

    max_steps: int = 8
    """Answers of the reasoning model."""
    max_calls: int = 16
    """Tools that run."""
    timeout_s: float = 60.0
    max_tokens: int = 50_000
    """Input and output together."""


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """Bounds of the sessions."""

    max_sessions: int = 1_000
    """The one that was used longest ago goes first."""
    ttl_s: float = 1_800.0
    """A session that is not used for so long is forgotten."""
    max_turns: int = 6
    """Turns that the memory and the history keep."""
    confirm_s: float = 300.0
    """A confirmation that comes later is stale."""


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """What a host sets.

    >>> read_config({"routing": {"candidate_limit": 4}}).settings.candidate_limit
    4
    """

    catalog: Any = None
    """Path, Catalog, or None = the configuration's folder."""
    folder: Path | None = None
    """Where ``python_modules`` are looked up beside the installed ones."""
    settings: Settings = field(default_factory=Settings)
    encoder: str = "light"
    """"light", "none", or a sentence-transformers name or folder."""
    routing_model: str | None = None
    reasoning_model: str | None = None
    conversation: bool = True
    timezone: str | None = None
    """IANA name; None = the machine's own."""
    now: str | None = None
    """``evaluation.now``: what cases are evaluated at; a runtime goes by the clock."""
    python_modules: tuple[str, ...] = ()
    auth: Mapping[str, str] = field(default_factory=dict)
    """Environment variable to the one origin that its credential may go to."""
    allow_addresses: tuple[str, ...] = ()
    """Private and loopback addresses that tools may reach."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Session facts that hold for every session."""
    limits: Limits = field(default_factory=Limits)
    sessions: SessionLimits = field(default_factory=SessionLimits)
    journal: str | None = None
    """URL of the journal."""


_Check = Callable[[Any], str | None]


def _is_text(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else f"must be text, got {value!r}"


def _is_flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"must be true or false, got {value!r}"


def _is_mapping(value: Any) -> str | None:
    return None if isinstance(value, Mapping) else f"must be a mapping, got {value!r}"


def _count(value: Any) -> str | None:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return None if good else f"must be a whole number >= 1, got {value!r}"


def _seconds(value: Any) -> str | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e9
    return None if good else f"must be a number of seconds > 0, got {value!r}"


def _zone(value: Any) -> str | None:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError, TypeError):
        return f"must be a time zone such as Europe/Madrid, got {value!r}"
    return None


def _moment(value: Any) -> str | None:
    try:
        parse_now(str(value))
    except ValueError as error:
        return str(error).removeprefix("now ")
    return None


def _modules(value: Any) -> str | None:
    if not isinstance(value, (list, tuple)):
        return f"must be a list of module names, got {value!r}"
    bad = next((v for v in value if not isinstance(v, str) or not _MODULE.fullmatch(v)), None)
    return None if bad is None else f"must hold module names, got {bad!r}"


def _texts(value: Any) -> str | None:
    good = isinstance(value, (list, tuple)) and all(isinstance(v, str) and v for v in value)
    return None if good else f"must be a list of texts, got {value!r}"


def _origins(value: Any) -> str | None:
    from urllib.parse import urlsplit

    if not isinstance(value, Mapping):
        return f"must map environment variables to origins, got {value!r}"
    for name, origin in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"must be keyed by environment variables, got {name!r}"
        try:
            parts = urlsplit(origin) if isinstance(origin, str) else None
            good = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
            good = good and parts is not None and parts.path in ("", "/") and not parts.query
            good = good and parts is not None and not parts.username and not parts.fragment
        except ValueError:
            good = False
        if not good:
            return f"{name} must name an origin such as https://api.example.com"
    return None


# Dotted name in the file, what it must be, and the field that it fills.
_KEYS: tuple[tuple[str, _Check, str], ...] = (
    ("catalog", _is_text, "catalog"),
    ("encoder", _is_text, "encoder"),
    ("models.routing", _is_text, "routing_model"),
    ("models.reasoning", _is_text, "reasoning_model"),
    ("assistant.conversation.enabled", _is_flag, "conversation"),
    ("assistant.timezone", _zone, "timezone"),
    ("assistant.agent.max_steps", _count, "limits.max_steps"),
    ("assistant.agent.max_calls", _count, "limits.max_calls"),
    ("assistant.agent.timeout_s", _seconds, "limits.timeout_s"),
    ("assistant.agent.max_tokens", _count, "limits.max_tokens"),
    ("evaluation.now", _moment, "now"),
    ("python_modules", _modules, "python_modules"),
    ("auth", _origins, "auth"),
    ("allow_addresses", _texts, "allow_addresses"),
    ("facts", _is_mapping, "facts"),
    ("sessions.max_sessions", _count, "sessions.max_sessions"),
    ("sessions.ttl_s", _seconds, "sessions.ttl_s"),
    ("sessions.max_turns", _count, "sessions.max_turns"),
    ("sessions.confirm_s", _seconds, "sessions.confirm_s"),
    ("journal", _is_text, "journal"),
)
_LEAVES = {name: (check, target) for name, check, target in _KEYS}
_NULLABLE = frozenset(
    {"models.routing", "models.reasoning", "journal", "assistant.timezone", "evaluation.now"}
)
_BRANCHES = frozenset(name.rsplit(".", n)[0] for name in _LEAVES for n in range(1, name.count(".") + 1))


def read_config(source: str | Path | Mapping[str, Any]) -> RuntimeConfig:
    """Return a checked configuration.

    Parameters
    ----------
    source
        A YAML file, or its content as a mapping. In a mapping ``catalog`` may be a Catalog, and ``folder``
        is where a file would stand: relative places and ``python_modules`` are looked up there.

    Raises
    ------
    ConfigError
        If anything is wrong; all problems at once.

    >>> read_config({"routng": {}, "sessions": {"ttl_s": -1}})
    Traceback (most recent call last):
    mono_router.runtime.config.ConfigError: config: unknown key 'routng', did you mean 'routing'?
    config: sessions.ttl_s must be a number of seconds > 0, got -1
    """
    config, problems = checked_config(source)
    if problems:
        raise ConfigError(problems)
    return config


def journal_url(url: str, folder: Path) -> str:
    """Return a configuration's journal: an embedded store stands relative to the configuration's folder.

    >>> journal_url("surrealkv://decisions", Path("/srv/shop")), journal_url("mem://", Path("/srv/shop"))
    ('surrealkv:///srv/shop/decisions', 'mem://')
    """
    scheme, _, place = url.partition("://")
    if scheme == "surrealkv" and not Path(place).is_absolute():
        return f"{scheme}://{(folder / place).resolve()}"
    return url


def checked_config(source: str | Path | Mapping[str, Any]) -> tuple[RuntimeConfig, list[str]]:
    """Return what can be read of a configuration, and its problems."""
    folder: Path | None = None
    if isinstance(source, Mapping):
        content: Any = {key: value for key, value in source.items() if key != "folder"}
        folder = None if source.get("folder") is None else Path(source["folder"])
        document = Document("config", None, {})
    else:
        path = Path(source)
        folder = path.parent
        try:
            document = read_yaml(path)
        except FileNotFoundError:
            return RuntimeConfig(), [f"{path}: no such file"]
        except (OSError, DocumentError) as error:
            return RuntimeConfig(), str(error).splitlines()[:1]
        content = {} if document.value is None else document.value
    reading = _Reading(document, folder)
    if not isinstance(content, Mapping):
        return RuntimeConfig(), [f"{document.name}:1: a configuration must be a mapping, got {content!r}"]
    reading.read(content)
    return reading.config(), reading.problems


class _Reading:
    """One pass over a configuration."""

    def __init__(self, document: Document, folder: Path | None) -> None:
        self.document = document
        self.folder = folder
        self.problems: list[str] = []
        self.values: dict[str, Any] = {}

    def problem(self, path: tuple[str, ...], text: str) -> None:
        line = f":{self.document.line(*path)}" if self.document.lines else ""
        self.problems.append(f"{self.document.name}{line}: {text}")

    def read(self, content: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
        for key, value in content.items():
            here = (*path, str(key))
            name = ".".join(here)
            if name == "routing":
                self.routing(value)
            elif name in _LEAVES:
                self.leaf(here, name, value)
            elif name in _BRANCHES:
                if isinstance(value, Mapping):
                    self.read(value, here)
                elif value is not None:
                    self.problem(here, f"{name} must be a mapping, got {value!r}")
            else:
                known = ["routing", *_LEAVES, *_BRANCHES]
                self.problem(here, f"unknown key {name!r}{did_you_mean(name, known)}")

    def routing(self, value: Any) -> None:
        if isinstance(value, Settings):
            self.values["settings"] = value
            return
        try:
            self.values["settings"] = Settings.from_dict({} if value is None else value)
        except (ValueError, TypeError) as error:
            self.problem(("routing",), f"routing: {error}")

    def leaf(self, path: tuple[str, ...], name: str, value: Any) -> None:
        check, target = _LEAVES[name]
        if value is None and name in _NULLABLE:
            return
        if name == "catalog" and not isinstance(value, str):
            from mono_router.catalog import Catalog

            if isinstance(value, (Catalog, Path)):
                self.values["catalog"] = value
                return
        found = check(value)
        if found is not None:
            self.problem(path, f"{name} {found}")
            return
        self.values[target] = tuple(value) if isinstance(value, list) else value

    def config(self) -> RuntimeConfig:
        own = {name: value for name, value in self.values.items() if "." not in name}
        if self.folder is not None:
            place = own.get("catalog")
            if place is None or isinstance(place, str):
                own["catalog"] = self.folder if place is None else self.folder / place
        parts: dict[str, dict[str, Any]] = {"limits": {}, "sessions": {}}
        for name, value in self.values.items():
            part, _, leaf = name.partition(".")
            if leaf:
                parts[part][leaf] = value
        return RuntimeConfig(
            **own,
            folder=self.folder,
            limits=Limits(**parts["limits"]),
            sessions=SessionLimits(**parts["sessions"]),
        )
