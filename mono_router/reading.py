"""Catalog files to tools and skills, checked.

Our own YAML is strict: every problem is an error that names file, line and id, and all are reported at
once. JSONL is lenient: what can be read is kept, and what was changed is told in ``warnings``.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mono_router import schema as schemas
from mono_router.documents import Document, DocumentError, read_yaml
from mono_router.records import MODES, Example, Skill, Tool, did_you_mean

ID_PATTERN = re.compile(r"[A-Za-z0-9_.:~/-]{1,128}")
_SKILL_KEYS = {"id", "description", "boundaries", "modes", "tools"}
_TOOL_KEYS = {
    "id", "title", "description", "hints", "keywords", "examples", "input_schema", "system_arguments",
    "effects", "confirm", "run", "modes", "boundaries",
}  # fmt: skip
_EXAMPLE_KEYS = {"message", "mode", "arguments", "language", "tool"}


class CatalogError(ValueError):
    """A catalog is not usable; ``problems`` holds one line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def catalog_files(path: Path) -> list[Path]:
    """Return the catalog files of a path, in name order."""
    if path.is_file():
        if not path.name.endswith((".yaml", ".yml", ".jsonl", ".jsonl.gz", ".json")):
            raise CatalogError([f"{path}: a catalog is a .yaml or .jsonl[.gz] file, or a folder with one"])
        return [path]
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    single = [path / name for name in ("catalog.yaml", "catalog.jsonl", "catalog.jsonl.gz")]
    found = [p for p in single if p.is_file()][:1]
    found = found or sorted((path / "catalog").glob("*.yaml"))
    if not found:
        raise FileNotFoundError(
            f"{path}: no catalog (looked for a file, catalog.yaml, catalog/*.yaml, catalog.jsonl[.gz])"
        )
    return found


def open_text(path: Path, problems: list[str]) -> Iterator[str]:
    """Yield the lines of a text file, gzipped or not.

    A file that is not UTF-8, or no gzip file though its name says so, ends there with a line in
    ``problems``.
    """
    opened: Any = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opened(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                number += 1
                yield line
    except UnicodeDecodeError:
        problems.append(f"{path}:{number + 1}: not UTF-8")
    except (gzip.BadGzipFile, EOFError, zlib.error):
        problems.append(f"{path}:{number + 1}: not a whole gzip file")


class Reading:
    """Gathers tools, problems and warnings over the files of one catalog."""

    def __init__(self, *, strict: bool | None) -> None:
        self.strict = strict
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.tools: dict[str, Tool] = {}
        self.skills: dict[str, Skill] = {}
        self.variants: dict[str, str] = {}

    def finish(self, *, merge: bool, name: str) -> tuple[list[Tool], dict[str, str]]:
        """Return the tools, and the ids of merged definitions with the id that stands for each.

        Raises
        ------
        CatalogError
            If there was any problem, or no tool.
        """
        if not self.tools and not self.problems:
            self.problems.append(f"{name}: no tools")
        if self.problems:
            raise CatalogError(self.problems)
        merged = {k: base for k, base in self.variants.items() if merge and base in self.tools}
        others: dict[str, dict[str, None]] = {}
        for id_, base in merged.items():
            others.setdefault(base, {})[self.tools[id_].description] = None
        tools = []
        for id_, tool in self.tools.items():
            if id_ in merged:
                continue
            further = tuple(d for d in others.get(id_, ()) if d.strip() and d != tool.description)
            tools.append(replace(tool, other_descriptions=further) if further else tool)
        return tools, merged

    def read_yaml(self, path: Path) -> None:
        try:
            document = read_yaml(path)
        except DocumentError as error:
            self.problems.append(str(error))
            return
        top = document.value
        if not isinstance(top, dict):
            self.problems.append(f"{path}:1: must be a mapping with 'skills' or 'tools'")
            return
        read = _Part(self, document, strict=self.strict is not False)
        read.unknown_keys(top, {"version", "skills", "tools"}, (), "catalog")
        if top.get("version", 1) != 1:
            read.problem(("version",), "catalog", f"version must be 1, got {top['version']!r}")
        for place in read.entries(top, "skills", (), "catalog"):
            read.skill(place)
        for place in read.entries(top, "tools", (), "catalog"):
            read.tool(place, None)

    def read_jsonl(self, path: Path) -> None:
        for number, line in enumerate(open_text(path, self.problems), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                self.problems.append(f"{path}:{number}: not JSON: {error}")
                continue
            document = Document(str(path), record, {(): number})
            read = _Part(self, document, strict=bool(self.strict))
            if not isinstance(record, dict):
                read.problem((), "?", "must be an object")
                continue
            if isinstance(record.get("variant_of"), str):
                self.variants[str(record.get("id"))] = record["variant_of"]
            read.tool((), None)

    def read_records(
        self, name: str, records: Iterable[Mapping[str, Any]], skills: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        """Read tools from plain records, as lines of JSONL are read; places count from 1."""
        for record in skills:
            self.skills[record["id"]] = Skill(id=record["id"], description=record["description"])
        for number, record in enumerate(records, 1):
            _Part(self, Document(name, record, {(): number}), strict=False).tool((), None)


class _Part:
    """Reads the entries of one document into a :class:`Reading`."""

    def __init__(self, reading: Reading, document: Document, *, strict: bool) -> None:
        self.reading = reading
        self.document = document
        self.strict = strict

    def problem(self, path: tuple[Any, ...], id_: str, text: str, *, lenient: str | None = None) -> None:
        """Note an error, or in lenient reading a warning that says what was done instead."""
        where = f"{self.document.name}:{self.document.line(*path)}: {id_}: {text}"
        if lenient is None or self.strict:
            self.reading.problems.append(where)
        else:
            self.reading.warnings.append(f"{where}; {lenient}")

    def at(self, path: tuple[Any, ...]) -> Any:
        value = self.document.value
        for step in path:
            value = value[step]
        return value

    def entries(self, parent: Mapping[str, Any], key: str, path: tuple[Any, ...], id_: str) -> list[Any]:
        value = parent.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.problem((*path, key), id_, f"{key} must be a list")
            return []
        places = []
        for i, item in enumerate(value):
            if isinstance(item, dict):
                places.append((*path, key, i))
            else:
                self.problem((*path, key, i), id_, f"{key} must hold mappings, got {item!r}")
        return places

    def unknown_keys(
        self, record: Mapping[str, Any], known: set[str], path: tuple[Any, ...], id_: str
    ) -> None:
        for key in record:
            if key not in known and self.strict:
                self.problem((*path, key), id_, f"unknown key {key!r}{did_you_mean(str(key), known)}")

    def text(self, record: Mapping[str, Any], key: str, path: tuple[Any, ...], id_: str) -> str:
        value = record.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.problem((*path, key), id_, f"{key} must be text, got {value!r}", lenient="read as text")
            return str(value)
        return value

    def texts(self, record: Mapping[str, Any], key: str, path: tuple[Any, ...], id_: str) -> tuple[str, ...]:
        value = record.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
            text = f"{key} must be a list of non-empty texts, got {value!r}"
            self.problem((*path, key), id_, text, lenient="left out")
            return ()
        return tuple(value)

    def modes(self, record: Mapping[str, Any], path: tuple[Any, ...], id_: str) -> Any:
        found = self.texts(record, "modes", path, id_)
        for mode in found:
            if mode not in MODES:
                self.problem((*path, "modes"), id_, f"modes must be of {', '.join(MODES)}, got {mode!r}")
        return tuple(m for m in MODES if m in found) or None

    def identifier(self, record: Mapping[str, Any], path: tuple[Any, ...], kind: str) -> str | None:
        value = record.get("id")
        if not isinstance(value, str) or not value.strip():
            self.problem(path, "?", f"{kind} needs an id, got {value!r}")
            return None
        if self.strict and not ID_PATTERN.fullmatch(value):
            self.problem((*path, "id"), value, f"id must match {ID_PATTERN.pattern}")
        return value

    def skill(self, path: tuple[Any, ...]) -> None:
        record = self.at(path)
        id_ = self.identifier(record, path, "a skill")
        if id_ is None:
            return
        self.unknown_keys(record, _SKILL_KEYS, path, id_)
        if id_ in self.reading.skills:
            self.problem((*path, "id"), id_, "duplicate skill id")
        description = self.text(record, "description", path, id_)
        if not description.strip():
            self.problem(path, id_, "empty description", lenient="kept")
        skill = Skill(
            id=id_,
            description=description,
            boundaries=self.texts(record, "boundaries", path, id_),
            modes=self.modes(record, path, id_) or MODES,
        )
        self.reading.skills[id_] = skill
        places = self.entries(record, "tools", path, id_)
        if not places:
            self.problem(path, id_, "a skill needs at least one tool")
        for place in places:
            self.tool(place, skill)

    def tool(self, path: tuple[Any, ...], skill: Skill | None) -> None:
        record = self.at(path)
        id_ = self.identifier(record, path, "a tool")
        if id_ is None:
            return
        self.unknown_keys(record, _TOOL_KEYS | ({"skill"} if skill is None else set()), path, id_)
        if id_ in self.reading.tools:
            self.problem((*path, "id"), id_, "duplicate id")
            return
        description = self.text(record, "description", path, id_)
        if not description.strip():
            self.problem(path, id_, "empty description", lenient="kept")
        input_schema, system = self.schema(record, path, id_)
        effects = record.get("effects", "read")
        if effects not in ("read", "write"):
            self.problem((*path, "effects"), id_, f"effects must be read or write, got {effects!r}")
        confirm = record.get("confirm", False)
        if not isinstance(confirm, bool):
            self.problem((*path, "confirm"), id_, f"confirm must be true or false, got {confirm!r}")
        run = record.get("run")
        if run is not None and not isinstance(run, dict):
            self.problem((*path, "run"), id_, f"run must be a mapping, got {run!r}")
        own_modes = self.modes(record, path, id_)
        self.reading.tools[id_] = Tool(
            id=id_,
            title=self.text(record, "title", path, id_),
            description=description,
            hints=self.texts(record, "hints", path, id_),
            keywords=self.keywords(record, path, id_),
            examples=self.examples(record, path, id_),
            input_schema=input_schema,
            system_arguments=system,
            effects=effects,
            confirm=confirm is True,
            run=run,
            skill=skill.id if skill else self.text(record, "skill", path, id_),
            modes=own_modes or (skill.modes if skill else MODES),
            boundaries=(
                self.texts(record, "boundaries", path, id_)
                if skill is None or "boundaries" in record
                else skill.boundaries
            ),
        )

    def keywords(self, record: Mapping[str, Any], path: tuple[Any, ...], id_: str) -> dict[str, float]:
        value = record.get("keywords")
        if value is None:
            return {}
        if isinstance(value, list):
            value = dict.fromkeys(value, 1.0)
        good = isinstance(value, dict) and all(
            isinstance(w, (int, float)) and not isinstance(w, bool) and w > 0 for w in value.values()
        )
        if not good:
            text = f"keywords must map words to weights > 0, got {value!r}"
            self.problem((*path, "keywords"), id_, text, lenient="left out")
            return {}
        return {str(word): float(weight) for word, weight in value.items()}

    def examples(self, record: Mapping[str, Any], path: tuple[Any, ...], id_: str) -> tuple[Example, ...]:
        found: list[Example] = []
        by_language = record.get("examples_by_language")
        seen: set[str] = set()
        if isinstance(by_language, dict):
            for language, messages in by_language.items():
                found.extend(Example(message=m, language=language) for m in messages)
            seen = {example.message for example in found}
        raw = record.get("examples") or []
        if not isinstance(raw, list):
            self.problem((*path, "examples"), id_, "examples must be a list", lenient="left out")
            raw = []
        for i, item in enumerate(raw):
            example = self.example(item, (*path, "examples", i), id_)
            if example is not None and example.message not in seen:
                found.append(example)
        return tuple(found)

    def example(self, item: Any, path: tuple[Any, ...], id_: str) -> Example | None:
        if isinstance(item, str):
            item = {"message": item}
        if not isinstance(item, dict) or not str(item.get("message") or "").strip():
            self.problem(path, id_, f"an example needs a message, got {item!r}", lenient="left out")
            return None
        self.unknown_keys(item, _EXAMPLE_KEYS, path, id_)
        if item.get("tool", id_) != id_:
            self.problem(path, id_, f"an example names another tool, {item['tool']!r}")
        mode = item.get("mode")
        if mode is not None and mode not in MODES:
            self.problem(path, id_, f"an example's mode must be of {', '.join(MODES)}, got {mode!r}")
        arguments = item.get("arguments")
        if arguments is not None and not isinstance(arguments, dict):
            self.problem(path, id_, f"an example's arguments must be a mapping, got {arguments!r}")
            arguments = None
        return Example(
            message=str(item["message"]), mode=mode, arguments=arguments, language=item.get("language")
        )

    def schema(
        self, record: Mapping[str, Any], path: tuple[Any, ...], id_: str
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        value = record.get("input_schema")
        system = self.texts(record, "system_arguments", path, id_)
        if value is None:
            value = {}
        place = (*path, "input_schema")
        problem = schemas.schema_problem(value) if value != {} else None
        if problem:
            self.problem(place, id_, f"input_schema is no JSON Schema: {problem}", lenient="loosened")
            value = loosened(value)
        names = value.get("properties", {})
        for name in system:
            if name not in names:
                text = f"system argument {name!r} is not in input_schema"
                self.problem((*path, "system_arguments"), id_, text, lenient="left out")
        system = tuple(name for name in system if name in names)
        for name in names:
            if schemas.is_sensitive(name) and name not in system:
                text = f"argument {name!r} may carry a credential: name it in system_arguments"
                self.problem((*place, "properties", name), id_, text, lenient="made a system argument")
                system = (*system, name)
        return value, system


def loosened(schema: Any) -> dict[str, Any]:
    """Return a schema with what is no JSON Schema taken out, property by property."""
    if not isinstance(schema, Mapping):
        return {}
    properties = {}
    declared = schema.get("properties")
    for name, sub in declared.items() if isinstance(declared, Mapping) else ():
        if isinstance(sub, Mapping) and not schemas.schema_problem({"properties": {name: sub}}):
            properties[name] = sub
        else:
            text = sub.get("description") if isinstance(sub, Mapping) else None
            properties[name] = {"description": text} if isinstance(text, str) else {}
    named = schema.get("required")
    named = [n for n in named if isinstance(n, str)] if isinstance(named, list) else []
    required = [n for n in dict.fromkeys(named) if n in properties]
    return {"type": "object", "properties": properties, "required": required}
