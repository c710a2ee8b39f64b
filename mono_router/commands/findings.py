"""Commands that explain figures: where wrong cases are lost, and whether one setting beats another."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from mono_router.commands.lab import dev_and_test
from mono_router.commands.options import (
    Command,
    assigned,
    cases_of,
    common,
    metric_named,
    offer,
    records_of,
    router_of,
)

if TYPE_CHECKING:
    from mono_router.router import Router
    from mono_router.settings import Settings


def _diagnose(arguments: argparse.Namespace) -> None:
    from mono_router.lab.diagnosis import diagnose
    from mono_router.lab.evaluation import evaluate

    _, router = router_of(arguments)
    cases = cases_of(arguments, split=arguments.split)
    report = evaluate(router, cases, offered=arguments.offered, latency=False)
    found = diagnose(report)
    frame = found.frame
    if arguments.json:
        record = {
            "cases": len(report),
            "wrong": len(found),
            "counts": found.counts().reset_index().to_dict(orient="records"),
            "attribution": records_of(found.attribution),
            "rows": frame.to_dict(orient="records"),
        }
        print(json.dumps(record, ensure_ascii=False, default=str))
        return
    print(f"{len(found)} of {len(report)} cases are wrong\n")
    print(found.counts().to_string())
    print("\nwhat a perfect stage would add to tool_accuracy, in stage order")
    print(found.attribution.round(3).to_string())
    for _, row in frame.head(arguments.show).iterrows():
        print(f"\n{row['case']}: {row['message']}")
        print(f"  {row['stage']}, {row['cause']}: {row['advice']}")
    if len(frame) > arguments.show:
        print(f"\n{len(frame) - arguments.show} more: --show N, or --json for all")


def _compare(arguments: argparse.Namespace) -> None:
    from mono_router.lab.comparison import compare
    from mono_router.lab.evaluation import evaluate

    family = tuple(metric_named(name) for name in arguments.metric or ("tool_accuracy",))
    _, router = router_of(arguments)
    split = arguments.split
    if split is None:
        _, cases, how = dev_and_test(cases_of(arguments))
        if not cases:
            raise ValueError(f"{arguments.dir}: compare needs test cases ({how})")
    else:
        cases = cases_of(arguments, split=split)
    settings = [changed(router, given) for given in (arguments.before, arguments.after)]
    reports = [
        evaluate(router.with_settings(one), cases, offered=arguments.offered, latency=False)
        for one in settings
    ]
    change = compare(reports[0], reports[1], family=family)
    if arguments.json:
        record = {
            "cases": len(reports[0]),
            "change": records_of(change.table),
            "gained": list(change.gained),
            "lost": list(change.lost),
            "warnings": list(change.warnings),
        }
        print(json.dumps(record, ensure_ascii=False, default=str))
        return
    for warning in change.warnings:
        print(f"warning: {warning}")
    print(f"{len(reports[0])} cases, paired by group")
    print(change.table.round(4).to_string())
    print(f"gained ({len(change.gained)}): {', '.join(map(str, change.gained[:20]))}")
    print(f"lost ({len(change.lost)}): {', '.join(map(str, change.lost[:20]))}")


def changed(router: Router, given: list[str]) -> Settings:
    """Return a router's settings with values, or a saved operating point, in their place."""
    from mono_router.lab.tuning import OperatingPoint

    settings = router.settings
    for text in given:
        if Path(text).suffix == ".json":
            point = OperatingPoint.load(text)
            if point.settings is None:
                raise ValueError(f"{text}: holds no settings: {point.reason}")
            settings = point.settings
        else:
            settings = settings.replace(assigned([text]))
    return settings


def _diagnose_options(parser: argparse.ArgumentParser) -> None:
    common(parser)
    offer(parser)
    parser.add_argument("--split", help="only cases of this split")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="wrong cases to print (10)")


def _compare_options(parser: argparse.ArgumentParser) -> None:
    common(parser)
    offer(parser)
    parser.add_argument(
        "--split", help="cases of this split (test; without splits the half that tune tests on)"
    )
    for side in ("before", "after"):
        parser.add_argument(
            f"--{side}",
            action="append",
            default=[],
            metavar="NAME=VALUE|POINT.json",
            help=f"settings of the router {side}, on top of its own",
        )
    parser.add_argument(
        "--metric", action="append", metavar="NAME", help="of the named family (tool_accuracy)"
    )


COMMANDS = (
    Command(
        "diagnose",
        _diagnose,
        "say at which stage each wrong case is lost, and what fixing it would buy",
        "mono-router diagnose datasets/booking --split dev",
        _diagnose_options,
    ),
    Command(
        "compare",
        _compare,
        "compare two settings, case by case",
        "mono-router compare datasets/booking --after candidate_limit=3",
        _compare_options,
    ),
)
