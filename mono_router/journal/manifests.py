"""Manifests: additions written into catalog files, with every comment and every other line as it was.

A proposal and the path of a catalog go in; the texts of the changed files come out, and only
:func:`apply` writes them. YAML goes through ruamel.yaml, which keeps comments, quotes and order; of JSON
lines only those of the changed tools are written anew.
"""

from __future__ import annotations

import difflib
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mono_router.catalog import Catalog
from mono_router.journal.proposal import Addition, Proposal
from mono_router.reading import CatalogError, catalog_files
from mono_router.records import plain

_INDENTS = ((2, 4, 2), (2, 2, 0), (4, 4, 2), (4, 6, 4), (4, 4, 0))
"""Ways of indenting (mapping, sequence, offset); the one that a file is written in is found by trying."""


_WIDTHS = (1_000_000, 100, 80)
"""Widths at which long lines may have been folded."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One file before and after."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What :func:`apply` has written, so that :func:`undo` can take it back."""

    edits: tuple[Edit, ...]

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        record = {"schema": 1, "edits": plain(self.edits)}
        Path(path).write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Applied:
        """Return what :meth:`save` wrote."""
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        return cls(edits=tuple(Edit(**edit) for edit in record["edits"]))


def edited(proposal: Proposal, path: Path) -> tuple[Edit, ...]:
    """Return the files that would change, before and after; none is written.

    Raises
    ------
    ValueError
        If the manifests are not those of the proposal's catalog, or a tool stands in no file.
    ImportError
        If ruamel.yaml is missing.
    """
    files = catalog_files(path)
    if Catalog.load(path).hash != proposal.catalog.hash:
        raise ValueError(f"{path}: the manifests are not those that the proposal is for: propose anew")
    mine: dict[str, list[Addition]] = {}
    for addition in proposal.additions:
        mine.setdefault(addition.tool, []).append(addition)
    left = dict(mine)
    edits = []
    for file in files:
        if file.suffix == ".gz":
            raise ValueError(f"{file}: a gzipped catalog is not edited, unpack it first")
        before = file.read_text(encoding="utf-8")
        change = _edit_yaml if file.suffix in (".yaml", ".yml") else _edit_jsonl
        after = change(before, mine, left)
        if after != before:
            edits.append(Edit(path=str(file), before=before, after=after))
    if left:
        raise ValueError(f"{path}: no file holds tool {sorted(left)[0]!r}")
    return tuple(edits)


def _edit_yaml(text: str, mine: Mapping[str, Sequence[Addition]], left: dict[str, Any]) -> str:
    try:
        from ruamel.yaml import YAML
    except ImportError:
        raise ImportError("editing manifests needs ruamel.yaml: pip install 'mono-router[journal]'") from None

    def dumped(yaml: Any, document: Any) -> str:
        out = io.StringIO()
        yaml.dump(document, out)
        return out.getvalue()

    lines = set(text.splitlines())
    best: tuple[int, Any, Any] | None = None
    for width in _WIDTHS:
        for mapping, sequence, offset in _INDENTS:
            yaml = YAML(typ="rt")
            yaml.preserve_quotes = True
            yaml.width = width
            yaml.allow_unicode = True
            yaml.indent(mapping=mapping, sequence=sequence, offset=offset)
            document = yaml.load(text)
            again = dumped(yaml, document)
            changed = 0 if again == text else 1 + len(lines.symmetric_difference(again.splitlines()))
            if best is None or changed < best[0]:
                best = (changed, yaml, document)
            if changed == 0:
                break
        if best is not None and best[0] == 0:
            break
    assert best is not None
    _, yaml, document = best
    touched = False
    for tool, skill in _tools_in(document):
        for addition in mine.get(str(tool["id"]), ()):
            touched = True
            left.pop(addition.tool, None)
            _add(tool, skill, addition)
    return dumped(yaml, document) if touched else text


def _tools_in(document: Any) -> list[tuple[Any, Any]]:
    """Tools of a document, each with its skill or None."""
    found = [(tool, None) for tool in document.get("tools") or ()]
    for skill in document.get("skills") or ():
        found.extend((tool, skill) for tool in skill.get("tools") or ())
    return found


def _add(tool: Any, skill: Any, addition: Addition) -> None:
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString as Quoted

    text = Quoted(addition.text)
    if addition.kind == "example":
        entry: Any = text
        if addition.language:
            entry = CommentedMap({"message": text, "language": addition.language})
            entry.fa.set_flow_style()
        _list_of(tool, "examples", flow=False).append(entry)
    elif addition.kind == "hint":
        _list_of(tool, "hints", flow=True).append(text)
    else:
        # A tool's own boundaries stand in place of its skill's, which therefore come with them.
        if "boundaries" not in tool and skill is not None and skill.get("boundaries"):
            _list_of(tool, "boundaries", flow=False).extend(Quoted(str(b)) for b in skill["boundaries"])
        _list_of(tool, "boundaries", flow=False).append(text)


def _list_of(tool: Any, name: str, *, flow: bool) -> Any:
    from ruamel.yaml.comments import CommentedSeq

    if tool.get(name) is None:
        made = CommentedSeq()
        if flow:
            made.fa.set_flow_style()
        place = next((i for i, key in enumerate(tool) if key == "input_schema"), len(tool))
        if name in tool:
            tool[name] = made
        else:
            tool.insert(place, name, made)
    return tool[name]


def _edit_jsonl(text: str, mine: Mapping[str, Sequence[Addition]], left: dict[str, Any]) -> str:
    lines = text.splitlines(keepends=True)
    for place, line in enumerate(lines):
        record = json.loads(line) if line.strip() else {}
        additions = mine.get(record.get("id", ""), ())
        for addition in additions:
            left.pop(addition.tool, None)
            name = {"example": "examples", "hint": "hints", "boundary": "boundaries"}[addition.kind]
            entry: Any = addition.text
            if addition.kind == "example" and addition.language:
                entry = {"message": addition.text, "language": addition.language}
            record.setdefault(name, []).append(entry)
        if additions:
            lines[place] = json.dumps(record, ensure_ascii=False) + "\n"
    return "".join(lines)


def unified(edits: Sequence[Edit]) -> str:
    """Return edits as a unified diff."""
    parts: list[str] = []
    for edit in edits:
        before, after = edit.before.splitlines(keepends=True), edit.after.splitlines(keepends=True)
        parts.extend(difflib.unified_diff(before, after, f"a/{edit.path}", f"b/{edit.path}", n=2))
    return "".join(parts)


def apply(proposal: Proposal, path: str | Path) -> Applied:
    """Write a proposal into the manifests at a path; all files or none.

    Raises
    ------
    ValueError
        If the manifests are not those of the proposal's catalog.
    CatalogError
        If what was written does not load; the files are then as they were.
    """
    edits = edited(proposal, Path(path))
    applied = Applied(edits=edits)
    for edit in edits:
        _replace(Path(edit.path), edit.after)
    try:
        Catalog.load(path)
    except CatalogError:
        for edit in edits:
            _replace(Path(edit.path), edit.before)
        raise
    return applied


def undo(applied: Applied) -> None:
    """Write the files as they were before.

    Raises
    ------
    ValueError
        If one was changed since; none is then written.
    """
    for edit in applied.edits:
        if Path(edit.path).read_text(encoding="utf-8") != edit.after:
            raise ValueError(f"{edit.path}: changed since it was applied, nothing is undone")
    for edit in applied.edits:
        _replace(Path(edit.path), edit.before)


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is never half written."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(name, path.stat().st_mode & 0o777)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
