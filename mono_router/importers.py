"""Tool lists of other systems to catalog records: MCP, OpenAI and Anthropic.

A list goes in; records in the form of our JSONL come out, with a line for everything that was changed or
left behind. Nothing is guessed in silence: an id that our catalogs do not allow is rewritten and told,
and a field without a place here is named once, with how many tools had it. OpenAPI documents are read by
:mod:`mono_router.openapi`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mono_router.reading import ID_PATTERN, CatalogError

_UNFIT = re.compile(r"[^A-Za-z0-9_.:~/-]+")
MAX_ID = 128


@dataclass(frozen=True)
class Imported:
    """What a list became."""

    records: tuple[Mapping[str, Any], ...]
    """One tool each, in the form of a JSONL catalog, in the order of the list."""
    notes: tuple[str, ...]
    """What was changed or left behind, one line each."""
    skills: tuple[Mapping[str, Any], ...] = ()
    """Skills that the tools belong to: ``id`` and ``description``."""


@dataclass
class Notes:
    """Lines on single tools, and counts of what many have in common."""

    lines: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def say(self, tool: str, text: str) -> None:
        self.lines.append(f"{tool}: {text}")

    def count(self, tool: str, text: str) -> None:
        self.counts[text] += 1
        self.first.setdefault(text, tool)

    def all(self) -> tuple[str, ...]:
        counted = (
            f"{text} ({n} tool{'s' if n > 1 else ''}, first {self.first[text]})"
            for text, n in self.counts.items()
        )
        return (*self.lines, *counted)


def fitted(name: str, n_chars: int) -> str:
    """Return a name with what our ids do not allow as ``_``, at most so long; empty where nothing is left.

    >>> fitted(" get weather ", 128), fitted("天気", 128)
    ('get_weather', '')
    """
    return _UNFIT.sub("_", name).strip("_")[:n_chars]


def fitting_ids(names: Sequence[str]) -> list[str]:
    """Return an id for each name: itself where our catalogs allow it, else rewritten; no two alike.

    >>> fitting_ids(["get weather", "get_weather", "a.b", "天気"])
    ['get_weather-2', 'get_weather', 'a.b', 'tool']
    """
    taken = {name for name in names if ID_PATTERN.fullmatch(name)}
    found = []
    for name in names:
        if ID_PATTERN.fullmatch(name):
            found.append(name)
            continue
        stem = fitted(name, MAX_ID - 6) or "tool"
        made, n = stem, 1
        while made in taken:
            n += 1
            made = f"{stem}-{n}"
        taken.add(made)
        found.append(made)
    return found


def with_fitting_ids(records: Iterable[dict[str, Any]], notes: Notes) -> list[dict[str, Any]]:
    """Return records whose ids our catalogs allow; a name that comes twice is kept once."""
    kept: dict[str, dict[str, Any]] = {}
    for record in records:
        if record["id"] in kept:
            notes.say(record["id"], "comes twice, the first is kept")
        else:
            kept[record["id"]] = record
    for record, made in zip(kept.values(), fitting_ids(list(kept)), strict=True):
        if made != record["id"]:
            notes.say(record["id"], f"is no id here, renamed {made}")
            record["id"] = made
        if not str(record["description"]).strip():
            record["description"] = record.get("title") or re.sub(r"[^A-Za-z0-9]+", " ", made).strip()
            notes.count(made, "has no description: its name stands for it")
    return list(kept.values())


def _entries(source: Any, key: str, kind: str) -> list[Any]:
    """The list within a document: itself, under a key, or under a JSON-RPC result."""
    found = source
    for step in ("result", key):
        if isinstance(found, Mapping) and step in found:
            found = found[step]
    if not isinstance(found, list):
        raise CatalogError([f"{kind} must be a list of tools, or hold one under {key!r}"])
    return found


def _named(entries: Iterable[Any], kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and entry of each tool; everything that is none is one problem."""
    problems = []
    found = []
    for i, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if isinstance(entry, Mapping) and isinstance(name, str) and name.strip():
            found.append((name, entry))
        else:
            problems.append(f"{kind} {i}: needs a name, got {str(entry)[:80]}")
    if problems:
        raise CatalogError(problems)
    yield from found


def _record(name: str, entry: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    record: dict[str, Any] = {"id": name, "description": entry.get("description") or ""}
    if isinstance(entry.get("title"), str):
        record["title"] = entry["title"]
    if isinstance(schema, Mapping) and schema:
        record["input_schema"] = schema
    return record


def _left(name: str, entry: Mapping[str, Any], known: set[str], notes: Notes) -> None:
    for key in entry:
        if key not in known and entry[key] not in (None, {}, []):
            notes.count(name, f"left out: {key}")


def read_mcp(source: Any) -> Imported:
    """Return the tools of an MCP ``tools/list`` answer: the list, its result, or the whole response.

    A tool reads only where its annotations say so (``readOnlyHint``), else it writes, as the protocol has
    it; ``destructiveHint`` asks for confirmation.

    Raises
    ------
    CatalogError
        If it is no tool list, or a tool has no name.

    >>> tool = {"name": "clock", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    >>> read_mcp({"tools": [tool]}).records[0]["effects"]
    'read'
    """
    notes = Notes()
    records = []
    listed = source.get("result", source) if isinstance(source, Mapping) else source
    for name, entry in _named(_entries(source, "tools", "MCP list"), "MCP tool"):
        record = _record(name, entry, entry.get("inputSchema"))
        hints = entry.get("annotations")
        hints = hints if isinstance(hints, Mapping) else {}
        if "title" not in record and isinstance(hints.get("title"), str):
            record["title"] = hints["title"]
        record["effects"] = "read" if hints.get("readOnlyHint") is True else "write"
        if record["effects"] == "write" and hints.get("destructiveHint") is True:
            record["confirm"] = True
        if "readOnlyHint" not in hints:
            notes.count(name, "says nothing of its effects: taken as write")
        _left(name, entry, {"name", "title", "description", "inputSchema", "annotations"}, notes)
        records.append(record)
    if isinstance(listed, Mapping) and listed.get("nextCursor"):
        notes.lines.append("the list goes on: nextCursor names a further page")
    return Imported(tuple(with_fitting_ids(records, notes)), notes.all())


def read_openai(source: Any) -> Imported:
    """Return the tools of an OpenAI request: chat completions, responses, or bare functions.

    Raises
    ------
    CatalogError
        If it is no tool list, or a tool has no name.

    >>> tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    >>> read_openai([tool]).records[0]["input_schema"]
    {'type': 'object'}
    """
    notes = Notes()
    inner = []
    for i, entry in enumerate(_flat(_entries(source, "tools", "OpenAI list"))):
        kind = entry.get("type", "function") if isinstance(entry, Mapping) else "function"
        if kind != "function":
            notes.say(str(entry.get("name") or f"tool {i}"), f"left out: a {kind} tool runs elsewhere")
        elif isinstance(entry, Mapping) and isinstance(entry.get("function"), Mapping):
            inner.append(entry["function"])
        else:
            inner.append(entry)
    return _functions(inner, "OpenAI tool", "parameters", {"type", "parameters"}, notes)


def read_anthropic(source: Any) -> Imported:
    """Return the tools of an Anthropic Messages request.

    Raises
    ------
    CatalogError
        If it is no tool list, or a tool has no name.

    >>> read_anthropic([{"type": "bash_20250124", "name": "bash"}]).notes
    ('bash: left out: a bash_20250124 tool runs elsewhere',)
    """
    notes = Notes()
    inner = []
    for i, entry in enumerate(_entries(source, "tools", "Anthropic list")):
        kind = entry.get("type") if isinstance(entry, Mapping) else None
        if kind not in (None, "custom"):
            notes.say(str(entry.get("name") or f"tool {i}"), f"left out: a {kind} tool runs elsewhere")
        else:
            inner.append(entry)
    return _functions(inner, "Anthropic tool", "input_schema", {"type", "input_schema"}, notes)


def _flat(entries: Iterable[Any]) -> Iterator[Any]:
    """Entries, those inside namespaces too."""
    for entry in entries:
        if isinstance(entry, Mapping) and entry.get("type") == "namespace":
            yield from _flat(entry.get("tools") or [])
        else:
            yield entry


def _functions(entries: Sequence[Any], kind: str, schema: str, known: set[str], notes: Notes) -> Imported:
    records = []
    for name, entry in _named(entries, kind):
        records.append(_record(name, entry, entry.get(schema)))
        _left(name, entry, {"name", "title", "description", *known}, notes)
    return Imported(tuple(with_fitting_ids(records, notes)), notes.all())
