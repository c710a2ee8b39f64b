"""Curves and counts behind the plots: a report's columns in, small records out.

What a plot draws is computed here, so that it can be read and tested without drawing. Bins are those of
``ece``, runs of equal confidence those of ``aurc``: the area under a curve is the metric of that name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router.lab.intervals import effective_n, group_codes, mean_interval, wilson
from mono_router.lab.metrics import COUNTS, case_columns
from mono_router.records import canonical_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mono_router.lab.tuning import OperatingPoint, Sweep


@dataclass(frozen=True, kw_only=True)
class ReliabilityCurve:
    """Confidence against truth in bins of equal mass; all arrays (n_bins,), by rising confidence."""

    confidence: NDArray[np.float64]
    """Mean confidence of the bin."""
    accuracy: NDArray[np.float64]
    """Share of right decisions."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """Wilson's 95 % bounds of the share, on the effective n of the bin."""
    n: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RiskCoverageCurve:
    """Error rate among the most confident decisions; all arrays (n_thresholds,), by rising coverage."""

    threshold: NDArray[np.float64]
    """Confidence from which on decisions are kept, falling."""
    coverage: NDArray[np.float64]
    """Share of cases kept."""
    risk: NDArray[np.float64]
    """Share of wrong decisions among them."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """Wilson's 95 % bounds, pointwise, with the design effect of all cases."""


def reliability_curve(
    confidence: NDArray[np.float64],
    correct: NDArray[np.float64],
    groups: NDArray[np.object_],
    *,
    n_bins: int = 15,
) -> ReliabilityCurve:
    """Return the reliability of confidences (n,) against outcomes (n,), 0 or 1; NaN outcomes are left out.

    Raises
    ------
    ValueError
        If there is no known outcome or ``n_bins`` is below 1.

    >>> curve = reliability_curve(np.array([0.2, 0.9]), np.array([0.0, 1.0]), np.array(["a", "b"]), n_bins=2)
    >>> curve.confidence.tolist(), curve.accuracy.tolist()
    ([0.2, 0.9], [0.0, 1.0])
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be >= 1, got {n_bins}")
    confidence, correct, groups = _known(confidence, correct, groups)
    order = np.argsort(confidence, kind="stable")
    middle = (np.arange(len(order)) + 0.5) / len(order)
    bins = np.minimum((middle * n_bins).astype(np.int64), n_bins - 1)
    means, shares, bounds, sizes = [], [], [], []
    for b in np.unique(bins):
        rows = order[bins == b]
        codes, n_groups = group_codes(groups[rows])
        share, worth = float(correct[rows].mean()), effective_n(correct[rows], codes, n_groups)
        means.append(float(confidence[rows].mean()))
        shares.append(share)
        bounds.append(wilson(share * worth, worth))
        sizes.append(len(rows))
    low, high = np.array(bounds).T
    return ReliabilityCurve(
        confidence=np.array(means), accuracy=np.array(shares), low=low, high=high, n=np.array(sizes)
    )


def risk_coverage_curve(
    confidence: NDArray[np.float64], correct: NDArray[np.float64], groups: NDArray[np.object_]
) -> RiskCoverageCurve:
    """Return the risk at each coverage (El-Yaniv and Wiener 2010), one point per distinct confidence.

    Raises
    ------
    ValueError
        If there is no known outcome.

    >>> curve = risk_coverage_curve(np.array([0.9, 0.5]), np.array([1.0, 0.0]), np.array(["a", "b"]))
    >>> curve.coverage.tolist(), curve.risk.tolist()
    ([0.5, 1.0], [0.0, 0.5])
    """
    confidence, correct, groups = _known(confidence, correct, groups)
    falling, codes = np.unique(-confidence, return_inverse=True)
    reached = np.cumsum(np.bincount(codes))
    wrong = np.cumsum(np.bincount(codes, weights=1.0 - correct))
    members, n_groups = group_codes(groups)
    worth = effective_n(correct, members, n_groups) / len(correct)
    bounds = [wilson(w * worth, k * worth) for w, k in zip(wrong.tolist(), reached.tolist(), strict=True)]
    low, high = np.array(bounds).T
    return RiskCoverageCurve(
        threshold=-falling, coverage=reached / len(correct), risk=wrong / reached, low=low, high=high
    )


def setting_key(value: Any) -> str:
    """Return a setting's value as text: equal values give the same text.

    >>> setting_key(2.0), setting_key(None)
    ('2', 'null')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return canonical_json(value)


class SettingScale:
    """Where the values of a setting stand on an axis: numbers by size, null apart, others one by one.

    >>> SettingScale([0.5, None, 0.1]).order, SettingScale(["rrf", "weighted"]).places.tolist()
    ([2, 0, 1], [0.0, 1.0])
    """

    def __init__(self, values: Sequence[Any]) -> None:
        numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
        self.numeric = bool(numbers) and all(
            v is None or (isinstance(v, (int, float)) and not isinstance(v, bool)) for v in values
        )
        self.has_null = self.numeric and None in values
        self.null = float("nan")
        """Place of null, right of all numbers."""
        places = [float(i) for i in range(len(values))]
        if self.numeric:
            self.null = max(numbers) + 0.12 * ((max(numbers) - min(numbers)) or 1.0)
            places = [self.null if v is None else float(v) for v in values]
        self.order = sorted(range(len(values)), key=places.__getitem__)
        """Numbers of the values, by place."""
        self.places = np.array([places[i] for i in self.order])
        self.keys = [setting_key(values[i]) for i in self.order]

    def place_of(self, value: Any) -> float:
        """Return where a value stands."""
        return float(self.places[self.keys.index(setting_key(value))])

    def gapped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values in order of place with a gap before null, so that no line leads to it."""
        return np.insert(values, len(values) - 1, np.nan) if self.has_null else values


def held_combination(sweep: Sweep, point: OperatingPoint | None) -> Mapping[str, Any]:
    """Return the combination that a plot holds: the point's, else the best by tool_accuracy.

    Raises
    ------
    ValueError
        If the point is none of the sweep's combinations.
    """
    if point is None or point.settings is None:
        return sweep.combinations[int(np.nanargmax(sweep_column(sweep, "tool_accuracy")))]
    wanted = {name: setting_key(point.settings.get(name)) for name in sweep.grid}
    for combination in sweep.combinations:
        if all(setting_key(combination[name]) == key for name, key in wanted.items()):
            return combination
    raise ValueError("point must be one of the sweep's combinations")


def held_rows(sweep: Sweep, fixed: Mapping[str, Any], *, free: Sequence[str]) -> list[int]:
    """Return the numbers of the combinations that agree with ``fixed`` in all but the free settings."""
    held = {name: setting_key(fixed[name]) for name in sweep.grid if name not in free}
    return [
        i
        for i, combination in enumerate(sweep.combinations)
        if all(setting_key(combination[name]) == key for name, key in held.items())
    ]


def sweep_column(sweep: Sweep, name: str) -> NDArray[np.float64]:
    """Return a metric of every combination, float64 (n_settings,).

    Raises
    ------
    ValueError
        If it was not swept.
    """
    if name in sweep.grid or name not in sweep.frame:
        known = [c for c in sweep.frame.columns if c not in sweep.grid]
        raise ValueError(f"metric must be one of {', '.join(known)}, got {name!r}")
    return np.asarray(sweep.frame[name], dtype=np.float64)


def swept_bounds(
    sweep: Sweep, name: str, rows: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 95 % bounds of a metric in some combinations, each (n_rows,); replays what the frame lacks."""
    if f"{name}_low" in sweep.frame:
        low, high = (sweep_column(sweep, f"{name}_{side}")[list(rows)] for side in ("low", "high"))
        return low, high
    found = []
    for i in rows:
        values = case_columns(sweep.verdicts(i), sweep.labels, arguments=False)[name]
        found.append(mean_interval(values, sweep.labels.groups, share=name not in COUNTS))
    return np.array([x.low for x in found]), np.array([x.high for x in found])


def _known(
    confidence: NDArray[np.float64], correct: NDArray[np.float64], groups: NDArray[np.object_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.object_]]:
    known = ~np.isnan(correct)
    if not known.any():
        raise ValueError("correct must hold at least one known outcome")
    return confidence[known], correct[known], groups[known]
