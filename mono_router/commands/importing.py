"""Commands that bring tools in: from other systems' lists, or from nothing."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mono_router.commands.options import Command

KINDS = ("mcp", "openai", "anthropic", "openapi")


def read_document(path: str) -> Any:
    """Return the content of a JSON or YAML file, or of standard input (``-``), as plain data.

    Raises
    ------
    ValueError
        If it is neither; the message names the file.
    """
    name = "standard input" if path == "-" else path
    try:
        raw = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: not UTF-8") from None
    try:
        return json.loads(raw)
    except ValueError as error:
        if path == "-" or Path(path).suffix not in (".yaml", ".yml"):
            raise ValueError(f"{name}: not JSON: {error}") from None
    from mono_router.documents import DocumentError, parse_yaml

    try:
        return parse_yaml(raw, path).value
    except DocumentError as error:
        raise ValueError(str(error)) from None


def kind_of(document: Any) -> str | None:
    """Return what a document looks like, or None where no form gives itself away.

    >>> kind_of({"tools": [{"name": "clock", "inputSchema": {}}]}), kind_of({"openapi": "3.1.0"})
    ('mcp', 'openapi')
    """
    if isinstance(document, dict) and ("openapi" in document or "swagger" in document):
        return "openapi"
    found = document
    for step in ("result", "tools"):
        found = found.get(step, found) if isinstance(found, dict) else found
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    keys = {key for entry in entries for key in entry}
    marks = (
        ("inputSchema", "mcp"),
        ("input_schema", "anthropic"),
        ("function", "openai"),
        ("parameters", "openai"),
    )
    return next((kind for mark, kind in marks if mark in keys), None)


def _import(arguments: argparse.Namespace) -> None:
    from mono_router.catalog import Catalog
    from mono_router.reading import CatalogError

    out = Path(arguments.out)
    if out.suffix not in (".yaml", ".jsonl"):
        raise ValueError(f"--out must end in .yaml or .jsonl, got {arguments.out!r}")
    if out.exists() and not arguments.force:
        raise ValueError(f"{out}: is there already (--force writes over it)")
    document = read_document(arguments.file)
    looks = kind_of(document)
    if looks not in (None, arguments.kind):
        raise ValueError(f"{arguments.file}: no {arguments.kind} list, it looks like {looks}")
    try:
        catalog: Catalog = getattr(Catalog, f"from_{arguments.kind}")(document)
    except CatalogError as error:
        raise ValueError("\n".join(f"{arguments.file}: {line}" for line in error.problems)) from None
    out.parent.mkdir(parents=True, exist_ok=True)
    catalog.save(out)
    if arguments.json:
        record = {"tools": len(catalog), "skills": len(catalog.skills), "hash": catalog.hash}
        print(json.dumps({**record, "out": str(out), "notes": list(catalog.warnings)}, ensure_ascii=False))
        return
    for note in folded(catalog.warnings):
        print(f"note: {note}")
    print(f"{len(catalog)} tools in {len(catalog.skills)} skills written to {out}")
    asked = sorted({env for tool in catalog if (env := _credential(tool.run))})
    if asked:
        print(f"they run where config.yml says which origin gets {', '.join(asked)}:")
        print(f"  auth: {{{asked[0]}: https://...}}")
    print(f"next: write cases.jsonl beside it, one line each, then mono-router tune {out.parent}, e.g.")
    example = {"id": "case-01", "message": "...", "expected_tools": [min(catalog.ids)]}
    print(f"  {json.dumps(example, ensure_ascii=False)}   ([] where no tool is right)")


def folded(notes: Sequence[str]) -> list[str]:
    """Return notes with those that say the same of several tools drawn into one.

    >>> folded(["a: is old", "b: is new", "MCP list:3: c: is old"])
    ['is old (2 tools, first a)', 'b: is new']
    """
    said: dict[str, list[str]] = {}
    whole: dict[str, str] = {}
    for note in notes:
        found = re.fullmatch(r"(?:[^:]*:\d+: )?(\S+): (.*)", note)
        tool, text = found.groups() if found else ("", note)
        text = text.replace(": name it in system_arguments; made", ": made")
        said.setdefault(text, []).append(tool)
        whole.setdefault(text, f"{tool}: {text}" if tool else text)
    return [
        whole[text] if len(tools) == 1 else f"{text} ({len(tools)} tools, first {tools[0]})"
        for text, tools in said.items()
    ]


def _credential(run: Any) -> str | None:
    """The environment variable that a tool's run takes its credential from."""
    auth = ((run or {}).get("http") or {}).get("auth") or {}
    return auth.get("env")


def _import_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="what the file is")
    parser.add_argument("file", metavar="FILE", help="JSON (OpenAPI also YAML); - reads standard input")
    parser.add_argument(
        "--out", default="catalog.yaml", metavar="FILE", help="catalog to write (.yaml or .jsonl)"
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def _init(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.dir)
    if folder.is_file():
        raise ValueError(f"{folder}: is a file, a folder is needed")
    source = Path(__file__).parents[1] / "templates"
    names = sorted(path.name for path in source.iterdir() if path.suffix in _STARTERS)
    there = [name for name in names if (folder / name).exists()]
    if there:
        raise ValueError("\n".join(f"{folder / name}: is there already" for name in there))
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text((source / name).read_text(encoding="utf-8"), encoding="utf-8")
    if arguments.json:
        print(json.dumps({"dir": str(folder), "files": names}))
        return
    print(f"{', '.join(names)} written to {folder}")
    print(f"next: mono-router check {folder}; mono-router tune {folder}; mono-router chat {folder}")
    print(f"in JupyterLab (pip install 'mono-router[notebooks]'): jupyter lab {folder / 'tune.ipynb'}")


_STARTERS = (".yaml", ".yml", ".jsonl", ".ipynb", ".py")


def _init_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", help="folder to write; nothing in it is written over")


COMMANDS = (
    Command(
        "init",
        _init,
        "write a small catalog, cases and a notebook to start from",
        "mono-router init my_tools",
        _init_options,
    ),
    Command(
        "import",
        _import,
        "turn a list of tools of another system into a catalog",
        """echo '[{"name": "clock"}]' | mono-router import mcp - --out clock/catalog.yaml""",
        _import_options,
    ),
)
