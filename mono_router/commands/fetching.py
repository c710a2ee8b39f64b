"""The command that brings public evaluation sets in: by name, from their sources, in our own form."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from mono_router.commands.options import Command


def _list(arguments: argparse.Namespace) -> None:
    from mono_router.lab.downloads import cached, data_folder
    from mono_router.lab.public_data import PUBLIC_SETS

    rows: list[dict[str, Any]] = [
        {
            "name": one.name,
            "about": one.about,
            "licence": one.licence,
            "bytes": one.n_bytes,
            "files": len(one.files),
            "not_hash_checked": list(one.unhashed),
            "cached": cached(one.name, one.files),
            "repository": one.repository,
            "version": one.version,
            "citation": one.citation,
        }
        for one in PUBLIC_SETS
    ]
    if arguments.json:
        print(json.dumps({"cache": str(data_folder()), "sets": rows}, ensure_ascii=False))
        return
    for row in rows:
        size = f"{row['bytes'] / 1e6:.1f} MB"
        print(f"{row['name']:<11}{row['licence']:<12}{size:>8}  {row['about']}")
        told = ["in the cache"] if row["cached"] else []
        if row["not_hash_checked"]:
            told.append(f"not hash-checked: {', '.join(row['not_hash_checked'])}")
        if told:
            print(f"{'':<33}{'; '.join(told)}")
    print(f"cache: {data_folder()} (MONO_ROUTER_DATA)")


def _get(arguments: argparse.Namespace) -> None:
    from mono_router.lab.public_data import get_public_set, public_set

    if arguments.name is None:
        raise ValueError("data get needs the NAME of a set: see `mono-router data list`")
    chosen = public_set(arguments.name)
    fetched = get_public_set(
        chosen,
        arguments.to or arguments.name,
        source=arguments.source,
        checked=not arguments.any_hash,
        languages=arguments.language,
        force=arguments.force,
        progress=sys.stderr.isatty() and not arguments.json,
    )
    if arguments.json:
        record = {
            "name": fetched.name,
            "dir": str(fetched.folder),
            "tools": fetched.n_tools,
            "cases": fetched.n_cases,
            "notes": dict(fetched.notes),
            "warnings": list(fetched.warnings),
        }
        print(json.dumps(record, ensure_ascii=False))
        return
    for name, n in fetched.notes.items():
        print(f"note: {name} {n}")
    if fetched.warnings:
        print(f"note: {len(fetched.warnings)} warnings, all by `mono-router check {fetched.folder}`")
    print(f"{fetched.n_tools} tools and {fetched.n_cases} cases written to {fetched.folder}")
    print(f"licence: {chosen.licence}; cite: {chosen.citation}")
    print(f"next: mono-router tune {fetched.folder}")


def _data(arguments: argparse.Namespace) -> None:
    (_list if arguments.action == "list" else _get)(arguments)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "get"), help="show the sets, or fetch and convert one")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the set to get")
    parser.add_argument("--to", type=Path, metavar="DIR", help="folder to write (default: NAME)")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="DIR_OR_URL",
        help="a folder with the source's files (a clone of its repository will do), or a mirror of the cache",
    )
    parser.add_argument(
        "--language",
        action="append",
        default=[],
        metavar="CODE",
        help="for a set in many languages: one to convert (repeatable)",
    )
    parser.add_argument("--any-hash", action="store_true", help="take files whose hash is another")
    parser.add_argument("--force", action="store_true", help="write over a set that is there")


COMMANDS = (
    Command(
        "data",
        _data,
        "list public evaluation sets, or fetch one and convert it",
        "mono-router data get clinc150 --to clinc150",
        _options,
    ),
)
