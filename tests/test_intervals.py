"""Intervals over groups against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.lab.intervals import (
    FEW,
    NOTHING,
    effective_n,
    group_codes,
    mean_interval,
    resampled_interval,
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


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    """With many groups of one case, the bootstrap is the textbook interval of a mean."""
    values = (np.random.default_rng(1).random(2000) < 0.3).astype(float)
    found = mean_interval(values, labels(range(2000)))
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


@pytest.mark.parametrize("wrong", [0, 1, FEW - 1])
def test_few_errors_are_wilsons(wrong: int) -> None:
    """With few erring groups the interval is Wilson's: no error at all does not mean certainty."""
    values = np.ones(60)
    values[:wrong] = 0
    found = mean_interval(values, labels(range(60)))
    assert (found.low, found.high) == pytest.approx(wilson(60 - wrong, 60))
    assert found.low < found.value
    assert found.low < 1


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
