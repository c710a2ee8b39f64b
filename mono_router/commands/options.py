"""What the commands share: their options, the router that these ask for, tables and JSON of figures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mono_router.records import did_you_mean

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
    "date_accuracy",
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


@dataclass(frozen=True)
class Command:
    """One command of the command line."""

    name: str
    run: Callable[[argparse.Namespace], None]
    text: str
    """What it does, in one line."""
    example: str
    """A command line that works on the sets of the repository."""
    options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    """Adds its arguments; ``--json`` is there already."""


def common(parser: argparse.ArgumentParser) -> None:
    """Add what every command that builds a router takes."""
    parser.add_argument("dir", metavar="DIR", help="folder with a catalog (and cases), or a catalog file")
    parser.add_argument(
        "--encoder",
        default="light",
        help="light (default), none, or a sentence-transformers name or folder",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting, e.g. candidate_limit=4 (repeatable)",
    )


def offer(parser: argparse.ArgumentParser) -> None:
    """Add what every command that evaluates takes."""
    parser.add_argument(
        "--offered",
        choices=("case", "catalog"),
        default="case",
        help="tools on offer: a case's own candidate_tools where it has some (default), or all",
    )
    parser.add_argument("--language", help="only cases in this language")


def cases_of(arguments: argparse.Namespace, *, split: str | None = None) -> Cases:
    """Return the cases of a folder that the command line asks for.

    Raises
    ------
    ValueError
        If none is of that split or language; the message names those that there are.
    """
    from mono_router.lab.cases import load_cases

    place = Path(arguments.dir)
    if not place.exists():
        raise ValueError(f"{place}: no such file or folder")
    if place.is_file():
        raise ValueError(f"{place}: a folder with a catalog and cases.jsonl is needed, got a file")
    cases = load_cases(place)
    for name, wanted in (("split", split), ("language", arguments.language)):
        there = sorted({str(getattr(case, name)) for case in cases} - {""})
        if wanted is not None and wanted not in there:
            hint = did_you_mean(wanted, there) or f", there are {', '.join(there) or 'none'}"
            raise ValueError(f"{place}: no case has {name} {wanted!r}{hint}")
    language = arguments.language
    kept = cases.where(
        lambda c: (split is None or c.split == split) and (language is None or c.language == language)
    )
    if not kept:
        raise ValueError(f"{place}: no case has split {split!r} and language {language!r}")
    return kept


def metric_named(name: str) -> str:
    """Return the name of a metric that a report can have.

    Raises
    ------
    ValueError
        If there is none of that name; the message has the nearest.
    """
    from mono_router.lab.metrics import AGREEMENT, MEANS, WHOLE

    known = [one for one, _ in (*MEANS, *AGREEMENT)] + [*WHOLE, "latency_ms_p50", "latency_ms_p95"]
    if name not in known:
        hint = did_you_mean(name, known) or f", known: {', '.join(known)}"
        raise ValueError(f"unknown metric {name!r}{hint}")
    return name


def limit(option: str, text: str) -> tuple[str, float]:
    """Return the metric and the number of ``METRIC=VALUE``.

    Raises
    ------
    ValueError
        If it is not of that form, or names no metric.
    """
    name, value = pair(text)
    try:
        return metric_named(name), float(value)
    except ValueError as error:
        why = error if "metric" in str(error) else f"{name} must be a number, got {value!r}"
        raise ValueError(f"{option}: {why}") from None


def writable(option: str, path: str | None) -> None:
    """Check that a file can be written where it is asked for, before the work is done.

    Raises
    ------
    ValueError
        If its folder is not there.
    """
    if path and not Path(path).parent.is_dir():
        raise ValueError(f"{option} {path}: no folder {Path(path).parent}")


def encoder_of(name: str) -> Encoder | None:
    if name == "none":
        return None
    hint = did_you_mean(name, ("light", "none"), cutoff=0.7)
    if name != "light" and hint and not Path(name).exists():
        raise ValueError(f"unknown encoder {name!r}{hint}")
    from mono_router.adaptation import saved_encoder
    from mono_router.embedding import LightEncoder

    return LightEncoder() if name == "light" else saved_encoder(name)


def settings_of(folder: str, changes: Sequence[str]) -> Settings:
    from mono_router.documents import read_yaml
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
    return settings.replace(assigned(changes))


def assigned(changes: Sequence[str]) -> dict[str, Any]:
    """Return the settings that ``NAME=VALUE`` texts name, each value as YAML has it."""
    from mono_router.documents import core_scalar

    return {name: core_scalar(value) for name, value in map(pair, changes)}


def pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise ValueError(f"expected NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


def router_of(arguments: argparse.Namespace) -> tuple[Catalog, Router]:
    from mono_router.catalog import Catalog
    from mono_router.router import Router

    catalog = Catalog.load(arguments.dir)
    settings = settings_of(arguments.dir, arguments.set)
    return catalog, Router(catalog, settings=settings, encoder=encoder_of(arguments.encoder))


def records_of(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    return {
        str(index): {str(k): (None if v != v else v) for k, v in row.items()}
        for index, row in frame.to_dict(orient="index").items()
    }


def table_of(summary: pd.DataFrame) -> str:
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
