"""Reliability by slice: is the confidence the share right, in every language and for every tool?"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from mono_router.branches import CODES
from mono_router.decision_table import UNRECORDED
from mono_router.lab.metrics import ece

if TYPE_CHECKING:
    import pandas as pd

    from mono_router.lab.evaluation import Report

N_CHANCE = 200
MIN_CASES = 30
"""Cases that a slice needs to stand alone; a guess: two for each of the 15 bins."""


def calibration_table(
    report: Report, *, by: Literal["language", "tool"] = "language", min_cases: int = MIN_CASES
) -> pd.DataFrame:
    """Return the calibration of each language or tool, with intervals, and of all cases.

    A case belongs to the tool that the decision names first, not to the expected one: a confidence speaks
    of what was decided. Slices with fewer than ``min_cases`` cases are pooled into one row whose name says
    how many they are. ``ece_by_chance`` is what confidences that are exactly right would show with so few
    cases: a calibration error near it is no error.

    Parameters
    ----------
    by
        "language" or "tool".
    min_cases
        Cases that a slice needs to stand alone.

    Returns
    -------
    Table with one row a slice and columns ece, ece_low, ece_high, ece_by_chance, brier, brier_low,
    brier_high, confidence (mean), accuracy, n, n_groups; "(all)" first, pooled slices last.

    Raises
    ------
    ValueError
        If the slice is unknown or ``min_cases`` is below 1.
    """
    if by not in ("language", "tool"):
        raise ValueError(f"by must be 'language' or 'tool', got {by!r}")
    if min_cases < 1:
        raise ValueError(f"min_cases must be >= 1, got {min_cases}")
    import pandas as pd

    known = report.verdicts.outcome != UNRECORDED
    names = _languages(report) if by == "language" else _tools(report)
    rows = {"(all)": _row(report, known)}
    few = np.zeros(len(report), dtype=bool)
    n_few = 0
    for name in sorted(set(names[known].tolist())):
        there = known & (names == name)
        if there.sum() < min_cases:
            few |= there
            n_few += 1
        else:
            rows[name] = _row(report, there)
    if n_few:
        rows[f"({n_few} {by}s with fewer than {min_cases} cases)"] = _row(report, few)
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = by
    return table


def _languages(report: Report) -> NDArray[np.object_]:
    return np.array([case.language or "?" for case in report.cases], dtype=object)


def _tools(report: Report) -> NDArray[np.object_]:
    verdicts, ids = report.verdicts, report.verdicts.table.ids
    first = np.where(verdicts.outcome == CODES["ambiguous"], verdicts.ranked[:, 0], verdicts.tool)
    return np.array([ids[t] if t >= 0 else "(no tool)" for t in first.tolist()], dtype=object)


def _row(report: Report, mask: NDArray[np.bool_]) -> dict[str, float]:
    confidence, correct = report.verdicts.confidence[mask], report.columns["tool_accuracy"][mask]
    error, brier = report.metric("ece", mask), report.metric("brier", mask)
    return {
        "ece": error.value,
        "ece_low": error.low,
        "ece_high": error.high,
        "ece_by_chance": ece_by_chance(confidence),
        "brier": brier.value,
        "brier_low": brier.low,
        "brier_high": brier.high,
        "confidence": float(confidence.mean()),
        "accuracy": float(correct.mean()),
        **{name: float(value) for name, value in dataclasses.asdict(brier).items() if name.startswith("n")},
    }


def ece_by_chance(confidence: NDArray[np.float64], *, seed: int = 0) -> float:
    """Return the mean calibration error of confidences (n,) that are exactly right, over 200 draws.

    >>> ece_by_chance(np.array([0.0, 1.0]))
    0.0
    """
    rng = np.random.default_rng(seed)
    ones = np.ones(len(confidence))
    draws = rng.random((N_CHANCE, len(confidence))) < confidence
    return float(np.mean([ece(confidence, row.astype(np.float64), ones) for row in draws]))
