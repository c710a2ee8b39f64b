"""Intervals over groups against what is known of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from mono_router.lab.intervals import (
    N_RESAMPLES,
    NOTHING,
    Z95,
    effective_n,
    group_codes,
    group_weights,
    mean_interval,
    resampled_interval,
    share_intervals,
    widened,
    wilson,
)


def labels(values) -> np.ndarray:
    return np.array(list(values), dtype=object)


@given(st.integers(0, 50), st.integers(1, 50))
def test_wilson(successes: int, n: int) -> None:
    """Wilson's interval is scipy's, holds its share, and stays in [0, 1]."""
    from scipy.stats import binomtest

    successes = min(successes, n)
    low, high = wilson(successes, n)
    expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert 0 <= low <= successes / n + 1e-12
    assert successes / n - 1e-12 <= high <= 1


def test_wilson_of_nothing() -> None:
    """Without cases everything is possible."""
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("share", [True, False])
def test_many_groups_agree_with_the_normal_interval(share: bool) -> None:
    """With many groups of one case, Wilson's and the bootstrap are the textbook interval of a mean."""
    values = (np.random.default_rng(1).random(2000) < 0.3).astype(float)
    found = mean_interval(values, labels(range(2000)), share=share)
    half = 1.96 * np.sqrt(values.mean() * (1 - values.mean()) / 2000)
    assert found.value == values.mean()
    assert found.low == pytest.approx(values.mean() - half, abs=0.003)
    assert found.high == pytest.approx(values.mean() + half, abs=0.003)
    assert (found.n, found.n_groups) == (2000, 2000)


def test_copies_are_no_evidence() -> None:
    """Repeating every case in its group leaves the interval as wide as it was; as new groups narrows it."""
    values = (np.random.default_rng(2).random(150) < 0.5).astype(float)
    groups = labels(range(150))
    once = mean_interval(values, groups)
    copied = mean_interval(np.repeat(values, 4), np.repeat(groups, 4))
    claimed = mean_interval(np.repeat(values, 4), labels(range(600)))
    assert copied.high - copied.low == pytest.approx(once.high - once.low, rel=1e-6)
    assert claimed.high - claimed.low < 0.7 * (once.high - once.low)


@pytest.mark.parametrize("wrong", [0, 1, 9, 30])
def test_shares_are_wilsons(wrong: int) -> None:
    """The interval of a share is Wilson's: no error at all does not mean certainty."""
    values = np.ones(60)
    values[:wrong] = 0
    found = mean_interval(values, labels(range(60)))
    assert (found.low, found.high) == pytest.approx(wilson(60 - wrong, 60))
    assert found.low < found.value
    assert found.value < found.high or found.value == found.high == 1.0


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([0.0, 1.0, np.nan])), max_size=30))
def test_any_rows(rows) -> None:
    """NaN rows do not count, the interval holds the value, and without rows there is nothing."""
    values = np.array([v for _, v in rows])
    found = mean_interval(values, labels(g for g, _ in rows))
    known = values[~np.isnan(values)] if len(values) else values
    if not len(known):
        assert found == NOTHING
        return
    assert found.value == pytest.approx(known.mean())
    assert found.n == len(known)
    assert np.isnan(found.low) or found.low - 1e-9 <= found.value <= found.high + 1e-9


def test_same_seed_same_interval() -> None:
    """An interval is drawn from a seed: it repeats, and the order of rows changes nothing of note."""
    rng = np.random.default_rng(3)
    values, groups = (rng.random(200) < 0.6).astype(float), labels(rng.integers(0, 60, 200))
    assert mean_interval(values, groups) == mean_interval(values, groups)
    assert mean_interval(values[::-1], groups[::-1]) == mean_interval(values, groups)


ROWS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([0.0, 0.25, 1.0])), min_size=2, max_size=25
)


def widened_slowly(low: float, high: float, value: float, n: int) -> tuple[float, float]:
    """Few groups widen bootstrap bounds: t quantile over z, and the variance that a bootstrap lacks."""
    factor = scipy.stats.t.ppf(0.975, n - 1) / Z95 * math.sqrt(n / (n - 1))
    return value + (low - value) * factor, value + (high - value) * factor


@given(ROWS)
def test_bootstrap_is_its_definition(rows) -> None:
    """A bootstrap draws as many groups as there are, with all their rows, and takes the mean of the rows."""
    names = sorted({group for group, _ in rows})
    values, groups = np.array([value for _, value in rows]), labels(group for group, _ in rows)
    found = mean_interval(values, groups, share=False)
    if len(names) < 2:
        assert np.isnan(found.low)
        return
    means = []
    for draws in np.random.default_rng(0).integers(0, len(names), size=(N_RESAMPLES, len(names))):
        drawn = [value for k in draws for group, value in rows if group == names[k]]
        means.append(sum(drawn) / len(drawn))
    low, high = np.quantile(means, [0.025, 0.975])
    expected = widened_slowly(low, high, values.mean(), len(names))
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-6)


@given(ROWS)
def test_resampled_statistic_is_its_definition(rows) -> None:
    """Any statistic is worked out on each resample, and the resamples are moved to the figure itself."""
    names = sorted({group for group, _ in rows})
    values, groups = np.array([value for _, value in rows]), labels(group for group, _ in rows)

    def spread(kept: list[float]) -> float:
        mean = sum(kept) / len(kept)
        return math.sqrt(sum((v - mean) ** 2 for v in kept) / len(kept))

    def weighted(w: np.ndarray) -> float:
        mean = (values * w).sum() / w.sum()
        return float(np.sqrt((w * (values - mean) ** 2).sum() / w.sum()))

    found = resampled_interval(weighted, groups, n_resamples=40)
    assert found.value == pytest.approx(spread(values.tolist()), abs=1e-9)
    if len(names) < 2:
        return
    draws = np.random.default_rng(0).integers(0, len(names), size=(40, len(names)))
    slow = [spread([v for k in row for group, v in rows if group == names[k]]) for row in draws]
    moved = np.array(slow) - np.mean(slow) + found.value
    low, high = widened_slowly(*np.quantile(moved, [0.025, 0.975]), found.value, len(names))
    assert (found.low, found.high) == pytest.approx((max(0.0, low), high), abs=1e-6)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), min_size=1, max_size=25))
def test_effective_n_is_its_definition(rows) -> None:
    """n over the variance of groups against that of independent rows; the worst case is one group more."""
    values, groups = np.array([float(v) for _, v in rows]), labels(group for group, _ in rows)
    codes, n_groups = group_codes(groups)
    members = [[float(v) for g, v in rows if g == name] for name in sorted(set(groups))]
    n, p = len(rows), values.mean()
    worst = sum(len(m) ** 2 for m in members) / n
    if n_groups == n:
        expected = float(n)
    elif p in (0, 1) or n_groups < 2:
        expected = n / worst
    else:
        between = sum(sum(v - p for v in m) ** 2 for m in members)
        seen = between / (n * p * (1 - p))
        seen = min(seen * n_groups / (n_groups - 1), max(seen, worst))
        erring = min(sum(any(v == one for v in m) for m in members) for one in (0.0, 1.0))
        expected = n / max(1.0, (erring * seen + worst) / (erring + 1))
    assert effective_n(values, codes, n_groups) == pytest.approx(expected)


@given(st.integers(0, 2**16 - 1), st.integers(1, 4))
def test_many_shares_at_once(bits: int, n_groups: int) -> None:
    """The bounds of many rows are those that each row has alone."""
    values = np.array([[bool(bits >> (8 * i + j) & 1) for j in range(8)] for i in range(2)])
    groups = labels(f"g{j % n_groups}" for j in range(8))
    low, high = share_intervals(values, groups)
    for row, a, b in zip(values, low, high, strict=True):
        found = mean_interval(row.astype(float), groups)
        assert (found.low, found.high) == pytest.approx((a, b))


def test_group_weights_count_draws() -> None:
    """Each resample draws as many groups as there are."""
    drawn = group_weights(7, 3, 20)
    slow = np.random.default_rng(3).integers(0, 7, size=(20, 7))
    assert drawn.tolist() == [[float((row == g).sum()) for g in range(7)] for row in slow]


def test_widening_vanishes() -> None:
    """With many groups a bootstrap's bounds stay as they are."""
    assert widened(np.array([0.4, 0.6]), 0.5, 5000) == pytest.approx((0.4, 0.6), abs=1e-4)
    low, high = widened(np.array([0.4, 0.6]), 0.5, 10)
    assert low < 0.39
    assert high > 0.61


def test_effective_n() -> None:
    """Cases of one group that agree count as one; independent ones count each; never more than there are."""
    values = np.repeat([0.0, 1.0, 1.0, 0.0], 5)
    codes, n_groups = group_codes(labels(np.repeat(range(4), 5)))
    assert effective_n(values, codes, n_groups) == pytest.approx(4)
    assert effective_n(values, np.arange(20), 20) == 20
    assert effective_n(np.ones(20), codes, n_groups) == pytest.approx(4)


def test_weights() -> None:
    """A weighted mean is that of repeated rows."""
    values, groups = np.array([0.0, 1.0, 1.0]), labels("abc")
    found = mean_interval(values, groups, weights=np.array([2.0, 1.0, 1.0]))
    assert found.value == pytest.approx(0.5)
    assert mean_interval(values, groups, weights=np.zeros(3)) == NOTHING


def test_resampled_statistic() -> None:
    """Any statistic of weighted rows has an interval; one that no resample gives has none."""
    values = np.random.default_rng(4).random(300)
    found = resampled_interval(lambda w: float((values * w).sum() / w.sum()), labels(range(300)))
    assert found.low < found.value < found.high
    assert np.isnan(resampled_interval(lambda w: float("nan"), labels("ab")).low)
    assert np.isnan(resampled_interval(lambda w: 1.0, labels("aa")).low)
    assert resampled_interval(lambda w: 1.0, labels("")) == NOTHING
