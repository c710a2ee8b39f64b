"""Intervals: how sure a figure is, given that versions of one case are no independent evidence.

A share of cases has Wilson's interval (1927) on the effective number of cases: n over the design effect
(Kish 1965), which tells what versions of one case are worth. Any other figure has a bootstrap that draws
groups, not rows (the cluster bootstrap; Cameron, Gelbach and Miller 2008), widened for few groups as
Hesterberg (2015) does. Both were chosen by their coverage of known populations (tests/test_honesty.py):
a percentile bootstrap of a share covers less than it says where errors are rare or groups are few.
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
PRIOR_GROUPS = 1.0
"""Erring groups that the worst design effect counts as, beside those that were seen."""


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
    low, high = wilsons(np.array([successes / n]), np.array([n]))
    return float(low[0]), float(high[0])


def wilsons(
    shares: NDArray[np.float64], n: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Wilson's 95 % bounds of many shares (k,) on effective numbers (k,); 0 and 1 where n is 0."""
    worth = np.where(n > 0, n, 1.0)
    centre = (shares + Z95**2 / (2 * worth)) / (1 + Z95**2 / worth)
    spread = np.sqrt(np.maximum(shares * (1 - shares), 0.0) / worth + Z95**2 / (4 * worth**2))
    half = Z95 / (1 + Z95**2 / worth) * spread
    # Rounding must not move a bound off 0 or 1 where nothing, or everything, is right.
    low = np.where(shares <= 0, 0.0, np.maximum(0.0, centre - half))
    high = np.where(shares >= 1, 1.0, np.minimum(1.0, centre + half))
    return np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)


@lru_cache(maxsize=16)
def group_weights(n_groups: int, seed: int, n_resamples: int) -> NDArray[np.float32]:
    """Return how often each resample draws each group, (n_resamples, n_groups)."""
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
        Whether values of 0 and 1 are a share of cases: then the interval is Wilson's.
    """
    known = ~np.isnan(values)
    values, groups = values[known], groups[known]
    rows = np.ones(len(values)) if weights is None else weights[known]
    if not len(values) or rows.sum() <= 0:
        return NOTHING
    codes, n_groups = group_codes(groups)
    value = float((values * rows).sum() / rows.sum())
    if share and bool(np.isin(values, (0.0, 1.0)).all()):
        low, high = wilson(value * (n_eff := effective_n(values, codes, n_groups, rows)), n_eff)
        return Estimate(value, low, high, len(values), n_groups)
    if n_groups < 2:
        return Estimate(value, float("nan"), float("nan"), len(values), n_groups)
    sums = np.bincount(codes, weights=values * rows, minlength=n_groups)
    sizes = np.bincount(codes, weights=rows, minlength=n_groups)
    drawn = group_weights(n_groups, seed, N_RESAMPLES)
    tops, bottoms = drawn @ sums.astype(np.float64), drawn @ sizes.astype(np.float64)
    means = tops / np.where(bottoms > 0, bottoms, np.nan)
    low, high = widened(np.nanquantile(means, [0.025, 0.975]), value, n_groups)
    if share and float(values.min()) >= 0.0 and float(values.max()) <= 1.0:
        low, high = max(0.0, low), min(1.0, high)  # with two or three groups widening leaves the scale
    return Estimate(value, low, high, len(values), n_groups)


def share_intervals(
    values: NDArray[np.bool_], groups: NDArray[np.object_], *, weights: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the 95 % bounds (k,) of the shares of k rows of cases (k, n), each as of ``mean_interval``."""
    codes, n_groups = group_codes(groups)
    rows = np.ones(values.shape[1]) if weights is None else weights
    worth = np.array([effective_n(row.astype(np.float64), codes, n_groups, rows) for row in values])
    return wilsons((values @ rows) / rows.sum(), worth)


def widened(bounds: NDArray[np.float64], value: float, n_groups: int) -> tuple[float, float]:
    """Return bootstrap bounds moved away from the value as far as few groups call for.

    Percentiles of a bootstrap are too narrow by sqrt((g - 1) / g) and know no t quantile (Hesterberg
    2015, section 4.4); with 30 groups the two make 6 %, with 1,000 nothing.
    """
    from scipy.special import stdtrit

    factor = float(stdtrit(n_groups - 1, 0.975)) / Z95 * np.sqrt(n_groups / (n_groups - 1))
    low, high = value + (np.asarray(bounds) - value) * factor
    return float(low), float(high)


def effective_n(
    values: NDArray[np.float64],
    codes: NDArray[np.int64],
    n_groups: int,
    weights: NDArray[np.float64] | None = None,
) -> float:
    """Return how many independent cases n grouped ones are worth: n over the design effect.

    The design effect is the variance of the mean over groups, divided by that of independent rows, and is
    never read as below 1. Few erring groups tell little of it, so the worst case (all rows of a group
    agree) counts as one more of them.
    """
    rows = np.ones(len(values)) if weights is None else weights
    kish = float(rows.sum() ** 2 / (rows**2).sum())
    if n_groups == len(values):
        return kish
    p = float((values * rows).sum() / rows.sum())
    sizes = np.bincount(codes, weights=rows, minlength=n_groups)
    worst = float((sizes**2).sum() / (rows**2).sum())
    if p in (0.0, 1.0) or n_groups < 2:
        return kish / worst  # nothing tells how groups vary
    residuals = np.bincount(codes, weights=(values - p) * rows, minlength=n_groups)
    seen = float((residuals**2).sum() / (rows**2).sum() / (p * (1 - p)))
    seen = min(seen * n_groups / (n_groups - 1), max(seen, worst))
    sums = np.bincount(codes, weights=values, minlength=n_groups)
    n_erring = min(int((sums > 0).sum()), int((sums < np.bincount(codes, minlength=n_groups)).sum()))
    effect = (n_erring * seen + PRIOR_GROUPS * worst) / (n_erring + PRIOR_GROUPS)
    return kish / max(1.0, effect)


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
    drawn = group_weights(n_groups, seed, n_resamples).astype(np.float64)
    found = np.array([statistic(row[codes]) for row in drawn])
    if np.isnan(found).all():
        return Estimate(value, float("nan"), float("nan"), len(groups), n_groups)
    bounds = np.nanquantile(found - np.nanmean(found) + value, [0.025, 0.975])
    low, high = widened(bounds, value, n_groups)
    return Estimate(value, max(0.0, low), high, len(groups), n_groups)
