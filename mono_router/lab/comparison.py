"""Paired comparison of two reports on the same cases.

The unit of the tests is the group, while a change is shown as the metrics are, per case. Where every
group has one case and the metric is right or wrong, McNemar's exact test counts the discordant pairs;
else group means of the differences have their signs flipped at random (a permutation test). P-values of
a family of metrics named beforehand are adjusted by Holm (1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mono_router.lab.evaluation import Report
from mono_router.lab.intervals import group_codes, mean_interval
from mono_router.lab.metrics import COUNTS

if TYPE_CHECKING:
    import pandas as pd

N_FLIPS = 10_000
N_PATTERNS = 200_000
"""Patterns of signs that differ in their sum: up to so many are all tried."""
MID_P = 20
"""From so many differing groups on, ties with what was observed count half."""


def mcnemar_exact(better: int, worse: int) -> float:
    """Return the two-sided exact p-value for discordant counts (McNemar 1947; binomial, p = 1/2).

    >>> round(mcnemar_exact(1, 9), 4)
    0.0215
    """
    from scipy.stats import binomtest

    n = better + worse
    return 1.0 if n == 0 else float(binomtest(min(better, worse), n, 0.5).pvalue)


def sign_flip(differences: NDArray[np.float64], *, seed: int = 0, n_flips: int = N_FLIPS) -> float:
    """Return the two-sided p-value of the mean of group differences (n_groups,) under random signs.

    Of groups that differ by the same amount only the number of those that keep their sign matters, and
    that is binomial. Where the numbers have at most 200,000 combinations, all 2^n patterns of signs count,
    each with its probability; else ``n_flips`` patterns are drawn. From 20 differing groups on, patterns
    exactly as extreme as the observed one count half (mid-p; Lancaster 1961): sums of few distinct
    differences are so coarse that the plain test rejects a true null in 3 % of draws, not in 5 %.

    >>> sign_flip(np.array([1.0, 1.0, 1.0]))
    0.25
    """
    from scipy.stats import binom

    used = differences[differences != 0]
    if not len(used):
        return 1.0
    sizes, counts = np.unique(np.round(np.abs(used), 12), return_counts=True)
    observed, ties = abs(used.sum()), 0.5 if len(used) >= MID_P else 1.0
    if np.prod(counts + 1.0) <= N_PATTERNS:
        sums, mass = np.zeros(1), np.ones(1)
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            kept = np.arange(count + 1)
            sums = np.add.outer(sums, size * (2 * kept - count)).ravel()
            mass = np.multiply.outer(mass, binom.pmf(kept, count, 0.5)).ravel()
        return min(1.0, float((mass * _extreme(np.abs(sums), observed, ties)).sum()))
    rng = np.random.default_rng(seed)
    hits, done = 0.0, 0
    while done < n_flips:
        n = min(n_flips - done, max(1, 4_000_000 // len(sizes)))
        signed = 2 * rng.binomial(counts, 0.5, size=(n, len(sizes))) - counts
        hits += float(_extreme(np.abs(signed @ sizes), observed, ties).sum())
        done += n
    return (hits + 1) / (n_flips + 1)


def _extreme(sums: NDArray[np.float64], observed: float, ties: float) -> NDArray[np.float64]:
    """1 where a sum is more extreme than what was observed, ``ties`` where it is as extreme, else 0."""
    return np.where(sums > observed + 1e-9, 1.0, np.where(sums >= observed - 1e-9, ties, 0.0))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number (Holm 1979, step-down).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    adjusted, least = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order.tolist()):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = round(least, 12)
    return adjusted


@dataclass(frozen=True)
class Comparison:
    """What changed between two reports."""

    table: pd.DataFrame
    """Per metric: before, after, change, low, high (95 %), p, p_holm (the family alone), n, n_groups."""
    gained: tuple[str, ...]
    """Ids of cases that became right (tool_accuracy)."""
    lost: tuple[str, ...]
    """Ids of cases that became wrong."""
    warnings: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        from mono_router.html import comparison_html

        return comparison_html(self)


def compare(
    before: Report,
    after: Report,
    *,
    family: Sequence[str] = ("tool_accuracy",),
    others: Sequence[str] = ("top1_hit", "recall_rate", "model_recall_calls"),
) -> Comparison:
    """Return the paired comparison of two reports on the same cases.

    Parameters
    ----------
    family
        Metrics that were named beforehand as what the comparison is about; Holm runs over them.
    others
        Metrics that are shown beside them, unadjusted.

    Raises
    ------
    ValueError
        If the reports are not on the same cases.
    """
    if [c.id for c in before.cases] != [c.id for c in after.cases]:
        raise ValueError("compare needs two reports on the same cases in the same order")
    rows: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys((*family, *others)):
        row = _row(before, after, name)
        if row is not None:
            rows[name] = row
    tested = [name for name in family if name in rows]
    for name, p in zip(tested, holm([rows[name]["p"] for name in tested]), strict=True):
        rows[name]["p_holm"] = p
    import pandas as pd

    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "metric"
    was, now = before.columns["tool_accuracy"], after.columns["tool_accuracy"]
    ids = [case.id for case in before.cases]
    gained = tuple(ids[i] for i in np.flatnonzero((was == 0) & (now == 1)).tolist())
    lost = tuple(ids[i] for i in np.flatnonzero((was == 1) & (now == 0)).tolist())
    return Comparison(table, gained, lost, tuple(_warnings(before, after)))


def _row(before: Report, after: Report, name: str) -> dict[str, Any] | None:
    one, two = before.columns[name], after.columns[name]
    known = ~np.isnan(one) & ~np.isnan(two)
    if not known.any():
        return None
    difference, groups = (two - one)[known], before.labels.groups[known]
    change = mean_interval(difference, groups, share=False)  # a difference, no share of cases
    codes, n_groups = group_codes(groups)
    low, high = change.low, change.high
    if name not in COUNTS:
        low, high = max(-1.0, low), min(1.0, high)  # no share changes by more
    if n_groups == len(difference) and np.isin(difference, (-1.0, 0.0, 1.0)).all():
        p = mcnemar_exact(int((difference > 0).sum()), int((difference < 0).sum()))
    else:
        sizes = np.bincount(codes, minlength=n_groups)
        p = sign_flip(np.bincount(codes, weights=difference, minlength=n_groups) / sizes)
    return {
        "before": float(one[known].mean()),
        "after": float(two[known].mean()),
        "change": change.value,
        "low": low,
        "high": high,
        "p": p,
        "p_holm": float("nan"),
        "n": int(known.sum()),
        "n_groups": n_groups,
    }


def _warnings(before: Report, after: Report) -> list[str]:
    found = []
    for name, report in (("before", before), ("after", after)):
        if report.selected_on == report.provenance["cases_hash"]:
            found.append(f"the settings of {name} were chosen on these very cases")
        if report.router.simulated:
            found.append(f"{name} is simulated")
    return found
