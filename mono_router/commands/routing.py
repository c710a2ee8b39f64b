"""Commands that route and check: one message, one catalog."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mono_router.commands.options import Command, common, router_of, settings_of
from mono_router.dates import parse_now


def _route(arguments: argparse.Namespace) -> None:
    if arguments.now is not None:
        parse_now(arguments.now)
    _, router = router_of(arguments)
    trace = router.route(arguments.message, now=arguments.now)
    if arguments.json:
        print(trace.to_json())
        return
    decision = trace.decision
    print(f"outcome     {decision.outcome} ({decision.reason})")
    if decision.calls:
        print(f"tool        {decision.tool} (mode {decision.mode})")
        print(f"arguments   {json.dumps(dict(decision.arguments), ensure_ascii=False)}")
    if decision.missing:
        print(f"missing     {', '.join(decision.missing)}")
    print(f"p_tool      {decision.p_tool:.3f}   confidence {decision.confidence:.3f}")
    print(f"ranked      {', '.join(f'{r.tool} {r.score:.3f}' for r in decision.ranked)}")
    ran = "ran" if trace.recall.used else f"skipped: {trace.recall.skipped_because}"
    print(f"stage 1     best {trace.lexical.best:.3f}, stage 2 {ran} ({trace.recall.source})")


def _check(arguments: argparse.Namespace) -> None:
    from mono_router.catalog import Catalog
    from mono_router.lab.cases import Cases, load_cases

    catalog = Catalog.load(arguments.dir)
    settings_of(arguments.dir, ())
    try:
        cases = load_cases(arguments.dir) if Path(arguments.dir).is_dir() else Cases()
    except FileNotFoundError:
        cases = Cases()
    warnings = [*catalog.warnings, *cases.warnings]
    counts = {s: sum(c.split == s for c in cases) for s in sorted({c.split for c in cases})}
    chars = catalog.compressed().n_chars
    record = {
        "tools": len(catalog),
        "skills": len(catalog.skills),
        "hash": catalog.hash,
        "compressed_chars": chars,
        "cases": len(cases),
        "groups": len({case.group for case in cases}),
        "languages": sorted({case.language for case in cases}),
        "splits": counts,
        "warnings": warnings,
    }
    if arguments.json:
        print(json.dumps(record, ensure_ascii=False))
        return
    for warning in warnings:
        print(f"warning: {warning}")
    splits = ", ".join(f"{name or 'no split'} {n}" for name, n in counts.items())
    print(f"{len(catalog)} tools in {len(catalog.skills)} skills, {chars} characters compressed")
    print(f"{len(cases)} cases in {record['groups']} groups" + (f" ({splits})" if splits else ""))
    print(f"{len(warnings)} warnings")


def _version(arguments: argparse.Namespace) -> None:
    from mono_router import __version__

    print(json.dumps({"version": __version__}) if arguments.json else f"mono-router {__version__}")


def _route_options(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("message", metavar="MESSAGE", help="what the user says")
    parser.add_argument("--now", help="local date and time with offset, e.g. 2026-03-10T09:30:00+01:00")


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", help="folder with a catalog (and cases), or a catalog file")


COMMANDS = (
    Command(
        "route",
        _route,
        "route one message",
        "mono-router route datasets/booking 'how much is a haircut?'",
        _route_options,
    ),
    Command(
        "check", _check, "check a catalog and its cases", "mono-router check datasets/booking", _check_options
    ),
    Command("version", _version, "print the version", "mono-router version"),
)
