"""Settings: one frozen record per stage, composed in :class:`Settings`.

Dotted names (``"lexical.min_score"``) address one value, in YAML (under ``routing:``), in
:meth:`Settings.replace` and in sweeps. :data:`FIELDS` is the table behind all of it: default,
replay class (how a sweep knows the effect of a change), range and meaning of every setting.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from mono_router.records import did_you_mean, digest, plain

Replay = Literal["decide", "truncate", "select", "score"]
FIELD_NAMES = ("id", "title", "description", "hints", "keywords", "examples", "arguments")
DEFAULT_FIELD_WEIGHTS: Mapping[str, float] = {
    "id": 2.0,
    "title": 0.5,
    "description": 0.7,
    "hints": 1.0,
    "keywords": 1.0,
    "examples": 1.0,
    "arguments": 0.5,
}


def _setting(default: Any, replay: Replay, kind: str, meaning: str, **limits: Any) -> Any:
    metadata = {"replay": replay, "kind": kind, "meaning": meaning, **limits}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class LexicalSettings:
    """Stage 1."""

    enabled: bool = _setting(True, "score", "bool", "stage 1 on")
    min_score: float | None = _setting(
        0.8, "decide", "float?", "best lexical score at or above it: confident, stage 2 is skipped"
    )
    min_margin: float = _setting(
        0.0, "decide", "float", "confident also needs this distance to the second tool", low=0.0
    )
    candidate_limit: int = _setting(12, "truncate", "int", "lexical hits kept", low=1)
    normalize_unicode: bool = _setting(True, "score", "bool", "NFKC and casefold")
    normalize_arabic: bool = _setting(True, "score", "bool", "drop diacritics and tatweel, unify alef")
    phrase_matching: bool = _setting(True, "score", "bool", "hints and keyword phrases score as phrases")
    fold_hamza_forms: bool = _setting(
        True, "score", "bool", "fold hamza carriers, ta marbuta and alef maqsura"
    )
    rewrite_dialects: bool = _setting(
        True, "score", "bool", "write out Arabic dialect words, also for the encoder"
    )
    strip_clitics: bool = _setting(True, "score", "bool", "cut Arabic clitics")
    stem: bool = _setting(True, "score", "bool", "cut suffixes (English, Spanish, Arabic)")
    char_ngrams: bool = _setting(True, "score", "bool", "character n-grams beside words")
    field_weights: Mapping[str, float] = _setting(
        DEFAULT_FIELD_WEIGHTS, "score", "weights", "weight of each indexed field", keys=FIELD_NAMES
    )

    def __post_init__(self) -> None:
        _check(self, "lexical.")


@dataclass(frozen=True, kw_only=True)
class RecallSettings:
    """Stage 2."""

    source: str | None = _setting(
        None,
        "score",
        "choice?",
        "where recall looks; null: model with a model, else embedding with an encoder, else none",
        choices=("model", "embedding", "both", "none"),
    )
    ask_limit: int = _setting(12, "score", "int", "ranked ids that the model is asked for", low=1)
    candidate_limit: int = _setting(6, "truncate", "int", "recalled hits kept", low=1)
    min_score: float | None = _setting(None, "truncate", "float?", "recalled hits below it are dropped")
    max_catalog_tools: int = _setting(100, "decide", "int", "gate: tools that a model may be shown", low=0)
    max_catalog_chars: int = _setting(
        100_000, "decide", "int", "gate: characters of compressed catalog that a model may be shown", low=0
    )
    catalog_examples: int = _setting(
        0, "score", "int", "examples a tool in the compressed catalog", low=0, high=3
    )
    level: str = _setting(
        "tool", "score", "choice", "what the compressed catalog lists", choices=("tool", "skill")
    )
    prompt: str | None = _setting(None, "score", "str?", "prompt file of stage 2; null = the shipped one")

    def __post_init__(self) -> None:
        _check(self, "recall.")


@dataclass(frozen=True, kw_only=True)
class FusionSettings:
    """Stage 3."""

    method: str = _setting(
        "weighted",
        "decide",
        "choice",
        "how hits are merged",
        choices=("interleave", "rrf", "weighted"),
    )
    weights: Mapping[str, float] = _setting(
        {"lexical": 0.3, "recall": 0.7},
        "decide",
        "weights",
        "weights of the sources (rrf, weighted)",
        keys=("lexical", "recall"),
    )
    rrf_k: int = _setting(60, "decide", "int", "rank constant of reciprocal rank fusion", low=0)

    def __post_init__(self) -> None:
        _check(self, "fusion.")


@dataclass(frozen=True, kw_only=True)
class SelectionSettings:
    """Stage 4."""

    prompt: str | None = _setting(None, "score", "str?", "prompt file of stage 4; null = the shipped one")
    min_confidence: float | None = _setting(
        None,
        "decide",
        "float?",
        "p_tool below it: no tool; null: the selector's own level (local 0.5, model 0)",
        low=0.0,
        high=1.0,
    )
    min_margin: float = _setting(
        0.0, "decide", "float", "first and second closer than this: ambiguous", low=0.0, high=1.0
    )
    min_write_confidence: float = _setting(
        0.0, "decide", "float", "p_tool that a tool with effects: write needs", low=0.0, high=1.0
    )
    max_skills: int = _setting(3, "select", "int", "skills that one decision may name", low=1, high=3)
    fallback_attempts: int = _setting(
        2, "select", "int", "further ways of asking after an unusable answer", low=0, high=2
    )
    bypass_score: float | None = _setting(
        None,
        "decide",
        "float?",
        "lexical score at which a tool without user arguments is chosen with no model call",
    )
    match_schema: bool = _setting(
        True,
        "score",
        "bool",
        "local selector: values that the message carries count for the tools whose schemas ask for them",
    )
    match_clauses: bool = _setting(
        True, "score", "bool", "local selector: the best clause of a message counts beside the whole"
    )

    def __post_init__(self) -> None:
        _check(self, "selection.")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a router.

    >>> Settings().replace({"lexical.min_score": 0.4, "candidate_limit": 3}).lexical.min_score
    0.4
    """

    lexical: LexicalSettings = field(default_factory=LexicalSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    fusion: FusionSettings = field(default_factory=FusionSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    candidate_limit: int = _setting(6, "select", "int", "the bounded set that stage 4 sees", low=1)

    def __post_init__(self) -> None:
        for name, part in _PARTS.items():
            if not isinstance(getattr(self, name), part):
                raise ValueError(f"{name} must be a {part.__name__}, got {getattr(self, name)!r}")
        _check(self, "")

    def replace(self, changes: Mapping[str, Any]) -> Settings:
        """Return settings with the values under dotted names replaced.

        Raises
        ------
        ValueError
            If a name is unknown (the nearest known one is suggested) or a value is out of range.
        """
        unknown = [_suggest(name) for name in changes if name not in FIELDS]
        if unknown:
            raise ValueError("; ".join(unknown))
        top: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {}
        for name, given in changes.items():
            value = plain(given)  # numbers of numpy's, as a grid holds them, become Python's
            part, _, leaf = name.rpartition(".")
            if part:
                parts.setdefault(part, {})[leaf] = value
            else:
                top[leaf] = value
        for part, values in parts.items():
            top[part] = dataclasses.replace(getattr(self, part), **values)
        return dataclasses.replace(self, **top)

    def get(self, name: str) -> Any:
        """Return the value under a dotted name."""
        if name not in FIELDS:
            raise ValueError(_suggest(name))
        part, _, leaf = name.rpartition(".")
        return getattr(getattr(self, part) if part else self, leaf)

    def to_dict(self) -> dict[str, Any]:
        """Return ``{dotted name: value}`` for every setting, in table order."""
        return {name: self.get(name) for name in FIELDS}

    @classmethod
    def from_dict(cls, nested: Mapping[str, Any]) -> Settings:
        """Return settings from a nested or dotted mapping, as under ``routing:`` in YAML.

        >>> Settings.from_dict({"lexical": {"min_score": None}, "candidate_limit": 4}).candidate_limit
        4
        """
        if not isinstance(nested, Mapping):
            raise ValueError(f"routing must be a mapping, got {nested!r}")
        flat: dict[str, Any] = {}
        for name, value in nested.items():
            if name in _PARTS:
                if not isinstance(value, Mapping):
                    raise ValueError(f"routing.{name} must be a mapping, got {value!r}")
                flat.update({f"{name}.{leaf}": item for leaf, item in value.items()})
            else:
                flat[str(name)] = value
        return cls().replace(flat)

    @cached_property
    def hash(self) -> str:
        """Hash over all values, defaults included."""
        return digest(self.to_dict())


_PARTS: dict[str, type] = {
    "lexical": LexicalSettings,
    "recall": RecallSettings,
    "fusion": FusionSettings,
    "selection": SelectionSettings,
}


def _table() -> dict[str, dataclasses.Field[Any]]:
    table: dict[str, dataclasses.Field[Any]] = {}
    for name, part in _PARTS.items():
        for item in dataclasses.fields(part):
            table[f"{name}.{item.name}"] = item
    table["candidate_limit"] = next(f for f in dataclasses.fields(Settings) if f.name == "candidate_limit")
    return table


FIELDS = _table()
"""Dotted name to dataclass field; ``.metadata`` has replay, kind, meaning, low, high, choices."""


def _suggest(name: str) -> str:
    return f"unknown setting {name!r}{did_you_mean(str(name), FIELDS, cutoff=0.5)}"


def _check(part: Any, prefix: str) -> None:
    problems = []
    for item in dataclasses.fields(part):
        if "kind" in item.metadata:
            problem = _problem(prefix + item.name, getattr(part, item.name), item.metadata)
            if problem:
                problems.append(problem)
    if problems:
        raise ValueError("; ".join(problems))


def _problem(name: str, value: Any, rule: Mapping[str, Any]) -> str | None:
    kind = rule["kind"]
    if value is None:
        return None if kind.endswith("?") else f"{name} must not be null"
    kind = kind.rstrip("?")
    if kind == "bool":
        return None if isinstance(value, bool) else f"{name} must be true or false, got {value!r}"
    if kind == "str":
        return None if isinstance(value, str) else f"{name} must be text, got {value!r}"
    if kind == "choice":
        choices = rule["choices"]
        return None if value in choices else f"{name} must be one of {', '.join(choices)}, got {value!r}"
    if kind == "weights":
        return _weights_problem(name, value, rule["keys"])
    number = isinstance(value, int if kind == "int" else (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        return f"{name} must be {'a whole number' if kind == 'int' else 'a number'}, got {value!r}"
    low, high = rule.get("low"), rule.get("high")
    if (low is not None and value < low) or (high is not None and value > high):
        limits = f">= {low}" if high is None else f"in [{low}, {high}]"
        return f"{name} must be {limits}, got {value!r}"
    return None


def _weights_problem(name: str, value: Any, keys: tuple[str, ...]) -> str | None:
    if not isinstance(value, Mapping) or set(value) != set(keys):
        return f"{name} must give a weight to each of {', '.join(keys)}, got {value!r}"
    bad = {
        k: w
        for k, w in value.items()
        if not isinstance(w, (int, float)) or isinstance(w, bool) or not 0 <= w < math.inf
    }
    return f"{name} must hold weights >= 0, got {bad!r}" if bad else None
