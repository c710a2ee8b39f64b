"""Commands that bring tools in: from other systems' lists, or from nothing."""

from __future__ import annotations

import argparse
import json
import sys
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
    try:
        raw = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8") from None
    try:
        return json.loads(raw)
    except ValueError as error:
        if path == "-" or Path(path).suffix not in (".yaml", ".yml"):
            raise ValueError(f"{path}: not JSON: {error}") from None
    from mono_router.documents import DocumentError, parse_yaml

    try:
        return parse_yaml(raw, path).value
    except DocumentError as error:
        raise ValueError(str(error)) from None


def _import(arguments: argparse.Namespace) -> None:
    from mono_router.catalog import Catalog

    out = Path(arguments.out)
    if out.suffix not in (".yaml", ".jsonl"):
        raise ValueError(f"--out must end in .yaml or .jsonl, got {arguments.out!r}")
    if out.exists() and not arguments.force:
        raise ValueError(f"{out}: is there already (--force writes over it)")
    document = read_document(arguments.file)
    catalog: Catalog = getattr(Catalog, f"from_{arguments.kind}")(document)
    out.parent.mkdir(parents=True, exist_ok=True)
    catalog.save(out)
    if arguments.json:
        record = {"tools": len(catalog), "skills": len(catalog.skills), "hash": catalog.hash}
        print(json.dumps({**record, "out": str(out), "notes": list(catalog.warnings)}, ensure_ascii=False))
        return
    for note in catalog.warnings:
        print(f"note: {note}")
    print(f"{len(catalog)} tools in {len(catalog.skills)} skills written to {out}")
    print(f"next: add hints and examples, then `mono-router check {out.parent}`")


def _import_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="what the file is")
    parser.add_argument("file", metavar="FILE", help="JSON (OpenAPI also YAML); - reads standard input")
    parser.add_argument(
        "--out", default="catalog.yaml", metavar="FILE", help="catalog to write (.yaml or .jsonl)"
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def _init(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.dir)
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
    print(f"next: mono-router check {folder}; mono-router tune {folder}; jupyter lab {folder / 'tune.ipynb'}")


_STARTERS = (".yaml", ".yml", ".jsonl", ".ipynb")


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
        "mono-router import mcp tools.json --out my_tools/catalog.yaml",
        _import_options,
    ),
)
