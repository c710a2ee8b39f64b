"""Commands of the laboratory: evaluate, and tune."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mono_router.commands.options import (
    Command,
    GateMissed,
    cases_of,
    common,
    limit,
    offer,
    records_of,
    router_of,
    table_of,
    writable,
)

if TYPE_CHECKING:
    from mono_router.lab.cases import Cases
    from mono_router.router import Router

FEW_GROUPS = 50
"""Below it one standard error of a share is over 0.06, and the cheapest setting within it says little."""


def _eval(arguments: argparse.Namespace) -> None:
    from mono_router.lab.evaluation import evaluate

    lows = [limit("--fail-under", text) for text in arguments.fail_under]
    highs = [limit("--max", text) for text in arguments.max]
    _, router = router_of(arguments)
    cases = cases_of(arguments, split=arguments.split)
    report = evaluate(router, cases, offered=arguments.offered)
    if arguments.json:
        print(json.dumps(records_of(report.summary()), ensure_ascii=False))
    else:
        print(f"{len(report)} cases, {len(router.catalog)} tools, offered={arguments.offered}")
        print(table_of(report.summary()))
    missed = []
    for name, bound, high in [(*low, False) for low in lows] + [(*high, True) for high in highs]:
        value = report.metric(name).value
        if not (value <= bound if high else value >= bound):
            missed.append(f"{name} {value:.4f} is {'over' if high else 'under'} {bound}")
    if missed:
        raise GateMissed("; ".join(missed))


def dev_and_test(cases: Cases) -> tuple[Cases, Cases, str]:
    """Return the dev and test halves of a set, and how they were told apart.

    Without splits, groups are halved by their hash, so that the halves stay the same from run to run.
    """
    dev, test = cases.where(lambda c: c.split == "dev"), cases.where(lambda c: c.split == "test")
    if dev and test:
        return dev, test, "the set's own splits"
    from mono_router.records import digest

    half = {group: int(digest(group)[7:15], 16) % 2 for group in {case.group for case in cases}}
    return (
        cases.where(lambda c: half[c.group] == 0),
        cases.where(lambda c: half[c.group] == 1),
        "no splits: groups halved by hash",
    )


def _tune(arguments: argparse.Namespace) -> None:
    from mono_router.lab.comparison import compare
    from mono_router.lab.evaluation import evaluate
    from mono_router.lab.tuning import sweep

    started = time.perf_counter()
    writable("--report", arguments.report)
    writable("--save", arguments.save)
    prior = arguments.no_tool_prior
    if prior is not None and not 0 < prior < 1:
        raise ValueError(f"--no-tool-prior must be in (0, 1), got {prior}")
    catalog, router = router_of(arguments)
    cases = cases_of(arguments)
    dev, test, how = dev_and_test(cases)
    if not dev or not test:
        raise ValueError(f"{arguments.dir}: tune needs cases for dev and for test, got {len(cases)}")
    swept = sweep(router, dev, default_grid(router), offered=arguments.offered)
    point = swept.pick(maximize="tool_accuracy", no_tool_prior=prior)
    before = evaluate(router, test, offered=arguments.offered)
    after = point.report(router, test, offered=arguments.offered)
    change = compare(before, after)
    if arguments.save:
        point.save(arguments.save)
    written = None
    if arguments.report:
        from mono_router.lab.report import write_report

        written = write_report(
            arguments.report,
            before,
            sweep=swept,
            point=point,
            test_report=after,
            title=Path(arguments.dir).name,
        )
    seconds = time.perf_counter() - started
    if arguments.json:
        record = {
            "tools": len(catalog),
            "dev": len(dev),
            "test": len(test),
            "split": how,
            "swept": len(swept),
            "chosen": point.changes,
            "reason": point.reason,
            "selected": point.selected,
            "default": records_of(before.summary()),
            "tuned": records_of(after.summary()),
            "change": records_of(change.table),
            "seconds": round(seconds, 1),
        }
        print(json.dumps(record, ensure_ascii=False, default=str))
        return
    encoder = getattr(router.retriever, "encoder", None)
    print(f"{arguments.dir}: {len(catalog)} tools, {len(dev)} dev and {len(test)} test cases ({how}),")
    name = "none" if encoder is None else str(encoder.id).split(":")[0]
    print(f"encoder {name}, selector {type(router.selector).__name__}, offered={arguments.offered}")
    print(f"\n{len(swept)} settings swept on dev; chosen ({point.reason}):")
    for setting, value in point.changes.items():
        print(f"  {setting} = {_shown(value)}")
    n_groups = len({case.group for case in dev})
    if n_groups < FEW_GROUPS:
        print(
            f"  note: {n_groups} independent dev cases cannot tell settings apart: keep the defaults until "
            f"there are {FEW_GROUPS}"
        )
    figures = point.selected
    print(f"  tool_accuracy on dev, selected: {figures['value']:.3f} (n {figures['n']})")
    print("\ntest, default settings\n" + table_of(before.summary()))
    print("\ntest, chosen settings (the estimate)\n" + table_of(after.summary()))
    row = change.table.loc["tool_accuracy"]
    print(
        f"\nchange of tool_accuracy: {row['change']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}], "
        f"p {row['p']:.3g}, {len(change.gained)} gained, {len(change.lost)} lost"
    )
    languages = after.by("language", ("tool_accuracy",))
    if len(languages) > 1:
        print("\n" + languages.round(3).to_string())
    print(f"\n{seconds:.1f} s" + (f", page written to {written}" if written else ""))


def default_grid(router: Router) -> dict[str, list[Any]]:
    """Return the grid of ``tune``: when stage 2 runs, how many candidates, when there is no tool."""
    grid: dict[str, list[Any]] = {
        "lexical.min_score": [None, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
        "candidate_limit": [3, 6, 12],
        "selection.min_confidence": [round(0.05 * i, 2) for i in range(20)],
    }
    if router.settings.recall.source == "none":
        del grid["lexical.min_score"]
    return grid


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)


def _tune_options(parser: argparse.ArgumentParser) -> None:
    common(parser)
    offer(parser)
    parser.add_argument(
        "--no-tool-prior", type=float, metavar="P", help="share of no-tool messages in real traffic"
    )
    parser.add_argument("--report", default="report.html", metavar="FILE", help="page to write; '' = none")
    parser.add_argument("--save", metavar="FILE", help="write the chosen operating point as JSON")


def _eval_options(parser: argparse.ArgumentParser) -> None:
    common(parser)
    offer(parser)
    parser.add_argument("--split", help="only cases of this split")
    for option, side in (("--fail-under", "lower"), ("--max", "higher")):
        parser.add_argument(
            option,
            action="append",
            default=[],
            metavar="METRIC=VALUE",
            help=f"exit 1 when the metric is {side} (repeatable)",
        )


COMMANDS = (
    Command(
        "tune",
        _tune,
        "evaluate, sweep and pick on dev, report on test",
        "mono-router tune datasets/booking",
        _tune_options,
    ),
    Command(
        "eval",
        _eval,
        "evaluate on labelled cases",
        "mono-router eval datasets/booking --split test --fail-under tool_accuracy=0.5",
        _eval_options,
    ),
)
