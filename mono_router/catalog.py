"""The catalog: tools and skills, loaded, checked, hashed, compressed.

Files or objects go in, an unchanging :class:`Catalog` comes out, its tools in id order, so that the
order in which they were written changes nothing. Loading never imports or calls what ``run`` names.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from mono_router.documents import dump_yaml
from mono_router.importers import Imported, read_anthropic, read_mcp, read_openai
from mono_router.openapi import read_openapi
from mono_router.reading import CatalogError, Reading, catalog_files
from mono_router.records import MODES, Example, Skill, Tool, digest, plain

_WIRE = re.compile(r"[A-Za-z0-9_-]{1,128}")
_WIRE_HASHED = re.compile(r".*-x[0-9a-f]{16}")
NO_TOOL = "no_tool"
"""Wire name of the tool that says "none of these"."""


@dataclass(frozen=True)
class Compressed:
    """A catalog as a model is shown it."""

    text: str
    """One JSON object a line."""
    n_tools: int

    @property
    def n_chars(self) -> int:
        """Length in characters: what the gate ``recall.max_catalog_chars`` is compared with."""
        return len(self.text)

    @property
    def n_tokens(self) -> int:
        """Tokens by an estimate (four bytes of UTF-8 a token), not by a model's own count."""
        return math.ceil(len(self.text.encode("utf-8", "replace")) / 4)


class Catalog:
    """Tools and the skills that group them.

    >>> catalog = Catalog([Tool(id="b", description="B"), Tool(id="a", description="A")])
    >>> catalog.ids, len(catalog), catalog["a"].description
    (('a', 'b'), 2, 'A')
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        skills: Iterable[Skill] = (),
        *,
        warnings: Sequence[str] = (),
        variants: Mapping[str, str] | None = None,
    ) -> None:
        self.tools: tuple[Tool, ...] = tuple(sorted(tools, key=lambda tool: tool.id))
        self.ids: tuple[str, ...] = tuple(tool.id for tool in self.tools)
        self.position: Mapping[str, int] = {id_: i for i, id_ in enumerate(self.ids)}
        """Tool id to its place in ``tools``."""
        if len(self.position) != len(self.ids):
            twice = next(a for a, b in zip(self.ids, self.ids[1:], strict=False) if a == b)
            raise CatalogError([f"{twice}: duplicate id"])
        self.warnings: tuple[str, ...] = tuple(warnings)
        self.variants: Mapping[str, str] = dict(variants or {})
        """Ids of merged definitions to the id that stands for them."""
        self.skills: Mapping[str, Skill] = _skills(self.tools, skills)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        strict: bool | None = None,
        variants: Literal["merge", "keep"] = "merge",
    ) -> Catalog:
        """Return the catalog in a file or a folder.

        Parameters
        ----------
        path
            A YAML or JSONL file (also gzipped), or a folder with ``catalog.yaml``, ``catalog/*.yaml``
            or ``catalog.jsonl[.gz]``.
        strict
            Whether doubtful content is an error; default: YAML yes, JSONL no.
        variants
            "merge" keeps one tool per name where ``variant_of`` marks further definitions.

        Raises
        ------
        CatalogError
            If anything is wrong; all problems at once, each with file, line and id.
        FileNotFoundError
            If there is no catalog at the path.
        """
        if variants not in ("merge", "keep"):
            raise ValueError(f"variants must be 'merge' or 'keep', got {variants!r}")
        files = catalog_files(Path(path))
        reading = Reading(strict=strict)
        for file in files:
            if file.suffix in (".yaml", ".yml"):
                reading.read_yaml(file)
            else:
                reading.read_jsonl(file)
        tools, merged = reading.finish(merge=variants == "merge", name=str(path))
        return cls(tools, reading.skills.values(), warnings=reading.warnings, variants=merged)

    @classmethod
    def from_mcp(cls, tools: Any) -> Catalog:
        """Return the catalog of an MCP ``tools/list`` answer; ``warnings`` say what was changed or left out.

        Raises
        ------
        CatalogError
            If it is no tool list, or a tool has no name.

        >>> Catalog.from_mcp([{"name": "clock", "description": "Tell the time"}]).ids
        ('clock',)
        """
        return cls._imported(read_mcp(tools), "MCP list")

    @classmethod
    def from_openai(cls, tools: Any) -> Catalog:
        """Return the catalog of the tools of an OpenAI request; see :meth:`from_mcp`."""
        return cls._imported(read_openai(tools), "OpenAI list")

    @classmethod
    def from_anthropic(cls, tools: Any) -> Catalog:
        """Return the catalog of the tools of an Anthropic Messages request; see :meth:`from_mcp`."""
        return cls._imported(read_anthropic(tools), "Anthropic list")

    @classmethod
    def from_openapi(cls, spec: Any) -> Catalog:
        """Return the catalog of an OpenAPI 3.x document, one tool an operation; see :meth:`from_mcp`.

        Tools are grouped in skills by their first tag, and ``run.http`` says how each is called.
        """
        return cls._imported(read_openapi(spec), "OpenAPI document")

    @classmethod
    def _imported(cls, found: Imported, name: str) -> Catalog:
        reading = Reading(strict=False)
        reading.read_records(name, found.records, found.skills)
        tools, _ = reading.finish(merge=False, name=name)
        return cls(tools, reading.skills.values(), warnings=(*found.notes, *reading.warnings))

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __contains__(self, tool_id: object) -> bool:
        return tool_id in self.position

    def __getitem__(self, tool_id: str) -> Tool:
        try:
            return self.tools[self.position[tool_id]]
        except KeyError:
            raise KeyError(f"unknown tool {tool_id!r}") from None

    def __repr__(self) -> str:
        return f"Catalog({len(self)} tools, {len(self.skills)} skills)"

    def _repr_html_(self) -> str:
        from mono_router.html import catalog_html

        return catalog_html(self)

    @cached_property
    def hash(self) -> str:
        """Hash over all tools and skills, independent of their order."""
        return digest({"tools": self.tools, "skills": [self.skills[k] for k in sorted(self.skills)]})

    @property
    def system_arguments(self) -> dict[str, tuple[str, ...]]:
        """Arguments that the host fills, by tool id, ids of merged definitions included."""
        found = {tool.id: tool.system_arguments for tool in self.tools}
        return found | {id_: found[kept] for id_, kept in self.variants.items() if kept in found}

    def kept_id(self, tool_id: str) -> str:
        """Return the id that stands for a tool: its own, unless its definition was merged into another's."""
        return self.variants.get(tool_id, tool_id)

    def subset(self, ids: Iterable[str]) -> Catalog:
        """Return the catalog of these tools alone.

        Raises
        ------
        KeyError
            If an id is unknown.
        """
        return Catalog([self[i] for i in set(ids)], self.skills.values(), warnings=self.warnings)

    def with_examples(self, *, limit: int, language: str | None = None) -> Catalog:
        """Return the catalog with the first ``limit`` examples of each tool.

        With a language, only examples in it count; examples that state no language count for any.

        >>> catalog = Catalog([Tool(id="a", examples=(Example(message="x"), Example(message="y")))])
        >>> len(catalog.with_examples(limit=1)["a"].examples)
        1
        """
        if limit < 0:
            raise ValueError(f"limit must be >= 0, got {limit}")
        tools = []
        for tool in self.tools:
            fitting = [e for e in tool.examples if language is None or e.language in (language, None)]
            tools.append(dataclasses.replace(tool, examples=tuple(fitting[:limit])))
        return Catalog(tools, self.skills.values(), warnings=self.warnings, variants=self.variants)

    def compressed(
        self,
        *,
        examples: int = 0,
        level: Literal["tool", "skill"] = "tool",
        ids: Iterable[str] | None = None,
    ) -> Compressed:
        """Return the catalog as a model is shown it in recall: id, title, description, 0-3 examples.

        Parameters
        ----------
        examples
            Examples a tool, 0 to 3.
        level
            "tool" lists tools, "skill" lists skills.
        ids
            Tools to list; default all.
        """
        if not 0 <= examples <= 3:
            raise ValueError(f"examples must be in [0, 3], got {examples}")
        chosen = self.tools if ids is None else [self[i] for i in sorted(set(ids))]
        if level == "tool":
            entries = [_tool_entry(tool, examples) for tool in chosen]
        elif level == "skill":
            shown = [self.skills[s] for s in sorted({tool.skill for tool in chosen})]
            entries = [_skill_entry(skill, self, examples) for skill in shown]
        else:
            raise ValueError(f"level must be 'tool' or 'skill', got {level!r}")
        lines = (json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in entries)
        return Compressed("\n".join(lines), len(chosen))

    def save(self, path: str | Path) -> None:
        """Write the catalog as YAML (``.yaml``), from which it loads with the same hash, or JSONL.

        JSONL (``.jsonl``) holds the tools alone: of a skill only the id is kept.
        """
        path = Path(path)
        if path.suffix == ".jsonl":
            lines = [json.dumps(_tool_record(t), ensure_ascii=False) for t in self.tools]
            path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            return
        skills, alone = [], []
        for skill in sorted(self.skills.values(), key=lambda s: s.id):
            tools = [self[i] for i in skill.tools]
            if len(tools) == 1 and skill == _lone_skill(tools[0]):
                alone.append(_tool_record(tools[0]))
                continue
            record: dict[str, Any] = {"id": skill.id, "description": skill.description}
            if skill.boundaries:
                record["boundaries"] = list(skill.boundaries)
            record["modes"] = list(skill.modes)
            record["tools"] = [_tool_record(t, skill) for t in tools]
            skills.append(record)
        content = {"version": 1, "skills": skills, "tools": alone}
        path.write_text(dump_yaml({k: v for k, v in content.items() if v}), encoding="utf-8")


def wire_name(tool_id: str) -> str:
    """Return the name of a tool on a model's API: ``[A-Za-z0-9_-]{1,128}``, one per id.

    Ids that fit are kept; others are rewritten and end in a hash, and so do those that would look
    rewritten, so that no two ids share a name.

    >>> wire_name("get_weather"), wire_name("calendar.create")
    ('get_weather', 'calendar_create-x5a357e893be9bd29')
    """
    if _WIRE.fullmatch(tool_id) and not _WIRE_HASHED.fullmatch(tool_id) and tool_id != NO_TOOL:
        return tool_id
    tail = hashlib.sha256(tool_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return re.sub(r"[^A-Za-z0-9_-]+", "_", tool_id)[:100] + "-x" + tail


def _skills(tools: Sequence[Tool], given: Iterable[Skill]) -> dict[str, Skill]:
    members: dict[str, list[Tool]] = {}
    for tool in tools:
        members.setdefault(tool.skill, []).append(tool)
    known = {skill.id: skill for skill in given}
    found = {}
    for id_ in sorted(members):
        own = members[id_]
        skill = known.get(id_) or dataclasses.replace(_lone_skill(own[0]), id=id_)
        found[id_] = dataclasses.replace(skill, tools=tuple(tool.id for tool in own))
    return found


def _lone_skill(tool: Tool) -> Skill:
    """The skill that a tool without one is."""
    return Skill(
        id=tool.id,
        description=tool.description,
        boundaries=tool.boundaries,
        modes=tool.modes,
        tools=(tool.id,),
    )


def _tool_entry(tool: Tool, examples: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": tool.id}
    if tool.title and tool.title != tool.id:
        entry["title"] = tool.title
    entry["description"] = tool.description
    if examples and tool.examples:
        entry["examples"] = [e.message for e in tool.examples[:examples]]
    return entry


def _skill_entry(skill: Skill, catalog: Catalog, examples: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": skill.id, "description": skill.description}
    if skill.boundaries:
        entry["not_for"] = list(skill.boundaries)
    shown = [e.message for i in skill.tools if i in catalog for e in catalog[i].examples[:1]][:examples]
    if shown:
        entry["examples"] = shown
    return entry


def _tool_record(tool: Tool, skill: Skill | None = None) -> dict[str, Any]:
    """The tool as a file holds it, inside a skill or alone; what goes without saying is left out."""
    record: dict[str, Any] = {"id": tool.id}
    for name in ("title", "description", "hints", "keywords"):
        if value := getattr(tool, name):
            record[name] = plain(value)
    if tool.examples:
        record["examples"] = [_example_record(e) for e in tool.examples]
    for name in ("input_schema", "system_arguments", "run"):
        if value := getattr(tool, name):
            record[name] = plain(value)
    if tool.effects != "read":
        record["effects"] = tool.effects
    if tool.confirm:
        record["confirm"] = True
    if skill is None and tool.skill != tool.id:
        record["skill"] = tool.skill
    if tool.modes != (MODES if skill is None else skill.modes):
        record["modes"] = list(tool.modes)
    if tool.boundaries != (() if skill is None else skill.boundaries):
        record["boundaries"] = list(tool.boundaries)
    return record


def _example_record(example: Example) -> Any:
    given = {k: v for k, v in plain(example).items() if v is not None}
    return given["message"] if len(given) == 1 else given
