"""The command line: arguments in, tables or JSON out, and nothing else happens here.

Exit 0 = ok, 1 = a gate was missed, 2 = usage or bad input, told in one line a problem, never with a
stack trace.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from mono_router.catalog import Catalog
    from mono_router.lab.cases import Cases
    from mono_router.records import Encoder
    from mono_router.router import Router
    from mono_router.settings import Settings

SHOWN = (
    "tool_accuracy",
    "top1_hit",
    "recall_at_1",
    "recall_at_5",
    "recall_at_10",
    "candidate_recall",
    "no_tool_precision",
    "no_tool_recall",
    "false_tool_rate",
    "missed_tool_rate",
    "skill_f1",
    "mode_accuracy",
    "argument_accuracy",
    "ask_accuracy",
    "no_tool_auroc",
    "ece",
    "brier",
    "aurc",
    "recall_rate",
    "model_recall_calls",
    "latency_ms_p50",
    "latency_ms_p95",
)
"""Metrics of the terminal's tables; ``--json`` has all."""


class GateMissed(Exception):
    """A figure is on the wrong side of what the command line asked for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    >>> main(["version"])
    mono-router 0.1.0
    0
    """
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        run: Callable[[argparse.Namespace], None] = arguments.run
        run(arguments)
    except GateMissed as missed:
        print(f"mono-router: {missed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("mono-router: interrupted", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    except (ValueError, OSError, ImportError, LookupError, TypeError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        for line in str(text).splitlines() or [type(error).__name__]:
            print(f"mono-router: {line}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mono-router", description="Route messages to tools, and tune how it is done."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], None], text: str, example: str) -> Any:
        made = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run=run)
        made.add_argument("--json", action="store_true", help="print JSON")
        return made

    def common(made: Any) -> None:
        made.add_argument("dir", metavar="DIR", help="folder with a catalog (and cases), or a catalog file")
        made.add_argument(
            "--encoder",
            default="light",
            help="light (default), none, or a sentence-transformers name or folder",
        )
        made.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="a setting, e.g. candidate_limit=4",
        )

    def offer(made: Any) -> None:
        made.add_argument("--offered", choices=("case", "catalog"), default="case")
        made.add_argument("--language", help="only cases in this language")

    tune = command(
        "tune", _tune, "evaluate, sweep and pick on dev, report on test", "mono-router tune datasets/booking"
    )
    common(tune)
    offer(tune)
    tune.add_argument(
        "--no-tool-prior", type=float, metavar="P", help="share of no-tool messages in real traffic"
    )
    tune.add_argument("--report", default="report.html", metavar="FILE", help="page to write; '' = none")
    tune.add_argument("--save", metavar="FILE", help="write the chosen operating point as JSON")

    evaluate = command(
        "eval", _eval, "evaluate on labelled cases",
        "mono-router eval datasets/booking --split test --fail-under tool_accuracy=0.6",
    )  # fmt: skip
    common(evaluate)
    offer(evaluate)
    evaluate.add_argument("--split", help="only cases of this split")
    evaluate.add_argument("--fail-under", action="append", default=[], metavar="METRIC=VALUE")
    evaluate.add_argument("--max", action="append", default=[], metavar="METRIC=VALUE")

    route = command(
        "route", _route, "route one message", "mono-router route datasets/booking 'how much is a haircut?'"
    )
    common(route)
    route.add_argument("message")
    route.add_argument("--now", help="local date and time with offset, e.g. 2026-03-10T09:30:00+01:00")

    check = command("check", _check, "check a catalog and its cases", "mono-router check datasets/booking")
    check.add_argument("dir", metavar="DIR")
    command("version", _version, "print the version", "mono-router version")
    return parser


def _version(arguments: argparse.Namespace) -> None:
    from mono_router import __version__

    print(json.dumps({"version": __version__}) if arguments.json else f"mono-router {__version__}")


def _check(arguments: argparse.Namespace) -> None:
    from mono_router.catalog import Catalog
    from mono_router.lab.cases import Cases, load_cases

    catalog = Catalog.load(arguments.dir)
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


def _encoder(name: str) -> Encoder | None:
    if name == "none":
        return None
    from mono_router.embedding import LightEncoder, SentenceTransformerEncoder

    return LightEncoder() if name == "light" else SentenceTransformerEncoder(name)


def _settings(folder: str, changes: Sequence[str]) -> Settings:
    from mono_router.documents import core_scalar, read_yaml
    from mono_router.settings import Settings

    settings = Settings()
    config = Path(folder) / "config.yml"
    if config.is_file():
        document = read_yaml(config)
        routing = document.value.get("routing") if isinstance(document.value, dict) else None
        if routing is not None:
            try:
                settings = Settings.from_dict(routing)
            except ValueError as error:
                raise ValueError(f"{config}:{document.line('routing')}: {error}") from None
    return settings.replace({name: core_scalar(value) for name, value in map(_pair, changes)})


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise ValueError(f"expected NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


def _router(arguments: argparse.Namespace) -> tuple[Catalog, Router]:
    from mono_router.catalog import Catalog
    from mono_router.router import Router

    catalog = Catalog.load(arguments.dir)
    settings = _settings(arguments.dir, arguments.set)
    return catalog, Router(catalog, settings=settings, encoder=_encoder(arguments.encoder))


def _route(arguments: argparse.Namespace) -> None:
    _, router = _router(arguments)
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


def _eval(arguments: argparse.Namespace) -> None:
    from mono_router.lab.cases import load_cases
    from mono_router.lab.evaluation import evaluate

    cases = load_cases(arguments.dir, split=arguments.split, language=arguments.language)
    _, router = _router(arguments)
    report = evaluate(router, cases, offered=arguments.offered)
    if arguments.json:
        print(json.dumps(_records(report.summary()), ensure_ascii=False))
    else:
        print(f"{len(report)} cases, {len(router.catalog)} tools, offered={arguments.offered}")
        print(_table(report.summary()))
    missed = []
    for text, high in [(t, False) for t in arguments.fail_under] + [(t, True) for t in arguments.max]:
        name, bound = _pair(text)
        value, limit = report.metric(name).value, float(bound)
        if not (value <= limit if high else value >= limit):
            missed.append(f"{name} {value:.4f} is {'over' if high else 'under'} {limit}")
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
    from mono_router.lab.cases import load_cases
    from mono_router.lab.comparison import compare
    from mono_router.lab.evaluation import evaluate
    from mono_router.lab.tuning import sweep

    started = time.perf_counter()
    cases = load_cases(arguments.dir, language=arguments.language)
    catalog, router = _router(arguments)
    dev, test, how = dev_and_test(cases)
    if not dev or not test:
        raise ValueError(f"{arguments.dir}: tune needs cases for dev and for test, got {len(cases)}")
    swept = sweep(router, dev, default_grid(router), offered=arguments.offered)
    point = swept.pick(maximize="tool_accuracy", no_tool_prior=arguments.no_tool_prior)
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
            "default": _records(before.summary()),
            "tuned": _records(after.summary()),
            "change": _records(change.table),
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
    figures = point.selected
    print(f"  tool_accuracy on dev, selected: {figures['value']:.3f} (n {figures['n']})")
    print("\ntest, default settings\n" + _table(before.summary()))
    print("\ntest, chosen settings (the estimate)\n" + _table(after.summary()))
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


def _records(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    return {
        str(index): {str(k): (None if v != v else v) for k, v in row.items()}
        for index, row in frame.to_dict(orient="index").items()
    }


def _table(summary: pd.DataFrame) -> str:
    """Metric, value, interval and n as a plain table."""
    lines = [f"  {'metric':<20}{'value':>8}   {'95 % interval':<18}{'n':>6}{'groups':>8}"]
    idle = {"recall_rate", "model_recall_calls"}
    for name in SHOWN:
        if name not in summary.index or (name in idle and summary.loc[name, "value"] == 0):
            continue
        row: Any = summary.loc[name]
        digits = 2 if name.startswith("latency") else 3
        interval = f"[{row['low']:.{digits}f}, {row['high']:.{digits}f}]"
        counts = f"{int(row['n']):>6}{int(row['n_groups']):>8}"
        lines.append(f"  {name:<20}{row['value']:>8.{digits}f}   {interval:<18}{counts}")
    return "\n".join(lines)
