"""Curves and counts behind the plots equal their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.lab.curves import reliability_curve, risk_coverage_curve, setting_key
from mono_router.lab.metrics import aurc, ece

ROWS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=60)


def columns(rows):
    confidence = np.array([c / 20 for c, _ in rows])
    correct = np.array([float(right) for _, right in rows])
    return confidence, correct, np.array([str(i) for i in range(len(rows))], dtype=object)


@given(ROWS)
def test_gaps_of_the_reliability_curve_are_the_calibration_error(rows):
    """The mean distance from the diagonal, weighted by bin, is ECE; bins differ by at most one case."""
    confidence, correct, groups = columns(rows)
    curve = reliability_curve(confidence, correct, groups)
    gap = (curve.n * np.abs(curve.confidence - curve.accuracy)).sum() / curve.n.sum()
    assert gap == pytest.approx(ece(confidence, correct, np.ones(len(rows))), abs=1e-12)
    assert curve.n.sum() == len(rows)
    assert curve.n.max() - curve.n.min() <= 1
    assert (curve.low - 1e-12 <= curve.accuracy).all()
    assert (curve.accuracy <= curve.high + 1e-12).all()


@given(ROWS)
def test_risk_coverage_is_the_error_rate_of_what_is_kept(rows):
    """Each point is what keeping everything at or above its threshold gives; the area is AURC."""
    confidence, correct, groups = columns(rows)
    curve = risk_coverage_curve(confidence, correct, groups)
    for threshold, coverage, risk in zip(curve.threshold, curve.coverage, curve.risk, strict=True):
        kept = confidence >= threshold
        assert coverage == pytest.approx(kept.mean())
        assert risk == pytest.approx(1 - correct[kept].mean())
    steps = np.diff(curve.coverage, prepend=0.0)
    assert (steps * curve.risk).sum() == pytest.approx(aurc(confidence, correct, np.ones(len(rows))))
    assert curve.coverage[-1] == 1.0


def test_versions_of_one_case_widen_the_interval():
    """Thirty rows in ten groups that agree within are worth ten."""
    correct = np.repeat([1.0, 0.0] * 5, 3)
    confidence = np.full(30, 0.5)
    alone = np.array([str(i) for i in range(30)], dtype=object)
    grouped = np.repeat(np.array([str(i) for i in range(10)], dtype=object), 3)
    wide = reliability_curve(confidence, correct, grouped, n_bins=1)
    narrow = reliability_curve(confidence, correct, alone, n_bins=1)
    assert wide.high[0] - wide.low[0] > narrow.high[0] - narrow.low[0]


def test_unknown_outcomes_are_left_out():
    """A case that was not recorded is in no bin."""
    correct = np.array([1.0, np.nan])
    groups = np.array(["a", "b"], dtype=object)
    assert reliability_curve(np.array([0.5, 0.6]), correct, groups).n.tolist() == [1]
    with pytest.raises(ValueError, match="at least one known outcome"):
        risk_coverage_curve(np.array([0.5]), np.array([np.nan]), np.array(["a"], dtype=object))
    with pytest.raises(ValueError, match="n_bins must be >= 1, got 0"):
        reliability_curve(np.array([0.5]), np.array([1.0]), np.array(["a"], dtype=object), n_bins=0)


def test_equal_values_have_one_key():
    """2 and 2.0 are one value of a setting; null and text are their own."""
    assert setting_key(2) == setting_key(2.0)
    assert setting_key(True) != setting_key(1)
    assert len({setting_key(v) for v in (None, "null", 0, 0.5)}) == 4
