"""Intervals: how sure a figure is, given that versions of one case are no independent evidence.

Groups are resampled, not rows (the cluster bootstrap; Cameron, Gelbach and Miller 2008). Where fewer
than ten groups err, a bootstrap sees too few of the errors, and the interval is Wilson's (1927) on the
effective number of cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_RESAMPLES = 1000
Z95 = 1.959963984540054
FEW = 10
"""Fewer erring groups than this: Wilson instead of the bootstrap."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int
    n_groups: int


NOTHING = Estimate(float("nan"), float("nan"), float("nan"), 0, 0)


def wilson(successes: float, n: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; ``n`` may be an effective, broken number.

    >>> tuple(round(x, 3) for x in wilson(10, 10))
    (0.722, 1.0)
    """
    if n <= 0:
        return (0.0, 1.0)
    p = successes / n
    centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * np.sqrt(p * (1 - p) / n + Z95**2 / (4 * n**2))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


@lru_cache(maxsize=16)
def _weights(n_groups: int, seed: int, n_resamples: int) -> NDArray[np.float32]:
    """How often each resample draws each group, (n_resamples, n_groups)."""
    draws = np.random.default_rng(seed).integers(0, n_groups, size=(n_resamples, n_groups))
    offsets = draws + np.arange(n_resamples)[:, None] * n_groups
    counts = np.bincount(offsets.ravel(), minlength=n_resamples * n_groups)
    return counts.reshape(n_resamples, n_groups).astype(np.float32)


def group_codes(groups: NDArray[np.object_]) -> tuple[NDArray[np.int64], int]:
    """Return a number (n,) for each row's group and how many groups there are."""
    _, codes = np.unique(groups.astype(str), return_inverse=True)
    return codes.astype(np.int64), int(codes.max(initial=-1)) + 1


def mean_interval(
    values: NDArray[np.float64],
    groups: NDArray[np.object_],
    *,
    seed: int = 0,
    weights: NDArray[np.float64] | None = None,
    share: bool = True,
) -> Estimate:
    """Return the mean of the values that are not NaN, with its 95 % interval over groups.

    Parameters
    ----------
    values
        float64 (n,); NaN rows do not count.
    groups
        (n,) labels.
    weights
        float64 (n,) weights of the rows, or None.
    share
        Whether values of 0 and 1 are a share of cases, for which few errors call for Wilson.
    """
    known = ~np.isnan(values)
    values, groups = values[known], groups[known]
    rows = np.ones(len(values)) if weights is None else weights[known]
    if not len(values) or rows.sum() <= 0:
        return NOTHING
    codes, n_groups = group_codes(groups)
    value = float((values * rows).sum() / rows.sum())
    binary = share and bool(np.isin(values, (0.0, 1.0)).all())
    sums = np.bincount(codes, weights=values * rows, minlength=n_groups)
    sizes = np.bincount(codes, weights=rows, minlength=n_groups)
    if binary:
        erring = min(len(np.unique(codes[values == 0.0])), len(np.unique(codes[values == 1.0])))
        if erring < FEW:
            low, high = wilson(value * (n_eff := effective_n(values, codes, n_groups, rows)), n_eff)
            return Estimate(value, low, high, len(values), n_groups)
    if n_groups < 2:
        return Estimate(value, float("nan"), float("nan"), len(values), n_groups)
    drawn = _weights(n_groups, seed, N_RESAMPLES)
    tops, bottoms = drawn @ sums.astype(np.float64), drawn @ sizes.astype(np.float64)
    means = tops / np.where(bottoms > 0, bottoms, np.nan)
    low, high = np.nanquantile(means, [0.025, 0.975])
    return Estimate(value, float(low), float(high), len(values), n_groups)


def effective_n(
    values: NDArray[np.float64],
    codes: NDArray[np.int64],
    n_groups: int,
    weights: NDArray[np.float64] | None = None,
) -> float:
    """Return how many independent cases n grouped ones are worth: n over the design effect.

    The design effect is the variance of the mean over groups, divided by that of independent rows;
    where rows agree within groups it is the mean group size, and it is never read as below 1.
    """
    rows = np.ones(len(values)) if weights is None else weights
    kish = float(rows.sum() ** 2 / (rows**2).sum())
    p = float((values * rows).sum() / rows.sum())
    if n_groups == len(values):
        return kish
    sizes = np.bincount(codes, weights=rows, minlength=n_groups)
    if p in (0.0, 1.0):
        return float(sizes.sum() ** 2 / (sizes**2).sum())  # nothing tells how groups vary: the worst case
    residuals = np.bincount(codes, weights=(values - p) * rows, minlength=n_groups)
    clustered = (residuals**2).sum() / rows.sum() ** 2
    independent = (rows**2).sum() / rows.sum() ** 2 * p * (1 - p)
    return kish / max(1.0, float(clustered / independent))


def resampled_interval(
    statistic: Callable[[NDArray[np.float64]], float],
    groups: NDArray[np.object_],
    *,
    seed: int = 0,
    n_resamples: int = 300,
) -> Estimate:
    """Return a statistic of weighted rows with its 95 % interval over groups.

    Parameters
    ----------
    statistic
        Takes row weights float64 (n,), returns a number >= 0 or NaN.

    The resamples are moved so that their mean is the figure itself: a calibration error is larger on a
    resample than on the cases (bins are noisier), and plain percentiles would lie above it.
    """
    if not len(groups):
        return NOTHING
    codes, n_groups = group_codes(groups)
    value = statistic(np.ones(len(groups)))
    if n_groups < 2 or np.isnan(value):
        return Estimate(value, float("nan"), float("nan"), len(groups), n_groups)
    drawn = _weights(n_groups, seed, n_resamples).astype(np.float64)
    found = np.array([statistic(row[codes]) for row in drawn])
    if np.isnan(found).all():
        return Estimate(value, float("nan"), float("nan"), len(groups), n_groups)
    low, high = np.nanquantile(found - np.nanmean(found) + value, [0.025, 0.975])
    return Estimate(value, max(0.0, float(low)), float(high), len(groups), n_groups)
