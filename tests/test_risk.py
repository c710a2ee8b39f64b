"""Risk control on real decisions: its arithmetic, its sample, what it refuses and what it costs."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mono_router.branches import CODES
from mono_router.lab.calibration import Calibrator
from mono_router.lab.evaluation import evaluate
from mono_router.lab.risk import (
    SHORTAGE,
    control_risk,
    first_size,
    fixed_sequence,
    sample_size,
    tail_p_value,
    upper_bound,
)
from mono_router.lab.tuning import sweep
from mono_router.router import Router

NAME = "selection.min_confidence"


@pytest.fixture(scope="module")
def report(booking_router, booking_dev):
    return evaluate(booking_router, booking_dev, latency=False, progress=False)


@given(st.integers(0, 30), st.integers(0, 30), st.sampled_from([0.01, 0.1, 0.5, 0.9]))
def test_the_tail_is_binomial(wrong: int, n: int, alpha: float) -> None:
    """The p-value is the chance of so few errors at a rate of alpha, term by term."""
    wrong = min(wrong, n)
    slow = sum(math.comb(n, k) * alpha**k * (1 - alpha) ** (n - k) for k in range(wrong + 1))
    assert tail_p_value(wrong, n, alpha) == pytest.approx(slow if n else 1.0)


@given(st.integers(0, 30), st.integers(1, 30), st.sampled_from([0.05, 0.1, 0.5]))
def test_the_bound_is_where_the_tail_is_delta(wrong: int, n: int, delta: float) -> None:
    """Clopper and Pearson's limit is the rate at which so few errors have chance delta, as the tests say."""
    wrong = min(wrong, n)
    bound = upper_bound(wrong, n, delta)
    assert tail_p_value(wrong, n, bound) == pytest.approx(delta if wrong < n else 1.0, abs=1e-6)
    for alpha in (0.05, 0.2, 0.6):
        if abs(bound - alpha) > 1e-9:
            assert (tail_p_value(wrong, n, alpha) <= delta) == (bound <= alpha)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 60)), min_size=1, max_size=12),
    st.sampled_from([0.1, 0.3]),
)
def test_the_sequence_is_its_definition(steps, alpha: float) -> None:
    """From the strictest threshold down, one with few cases is stepped over, the first kept one ends it."""
    n = np.cumsum([size for _, size in steps])
    wrong = np.minimum(np.cumsum([errors for errors, _ in steps]), n)
    chosen, tested = None, 0
    for place in range(len(steps)):
        tested += 1
        if n[place] < first_size(n[-1:], alpha=alpha, delta=0.1)[0]:
            continue
        if tail_p_value(int(wrong[place]), int(n[place]), alpha) > 0.1:
            break
        chosen = place
    found, p_values = fixed_sequence(wrong, n, alpha=alpha, delta=0.1)
    assert (found, len(p_values)) == (chosen, tested)


@examples(max_examples=15)
@given(st.integers(1, 80), st.sampled_from([0.1, 0.3]), st.sampled_from([0.05, 0.1]))
def test_the_first_threshold_has_cases_enough(n_most: int, alpha: float, delta: float) -> None:
    """A risk of half the bound passes there nine times of ten, unless that takes over half of the cases."""
    found = int(first_size(np.array([n_most]), alpha=alpha, delta=delta)[0])
    least = next(n for n in range(1, 1000) if tail_p_value(0, n, alpha) <= delta)

    def power(n: int) -> float:
        passing = list(itertools.takewhile(lambda k: tail_p_value(k, n, alpha) <= delta, range(n + 1)))
        return tail_p_value(passing[-1], n, alpha / 2) if passing else 0.0

    strong = next((n for n in range(1, n_most + 1) if power(n) >= 0.9), n_most)
    assert found == max(least, min(strong, n_most // 2))


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([0.05, 0.3, 0.8]))
def test_a_sample_rarely_runs_out(n_with: int, n_without: int, prior: float) -> None:
    """The sample is as large as it can be while a kind runs out in one draw of 10,000."""
    from scipy.stats import binom

    def short(size: int) -> float:
        return float(binom.sf(n_without, size, prior) + binom.sf(n_with, size, 1 - prior))

    size = sample_size(n_with, n_without, prior)
    assert size == 1 or short(size) <= SHORTAGE
    assert short(size + 1) > SHORTAGE


@pytest.mark.parametrize("risk", ["wrong_of_acted", "wrong_of_all"])
def test_the_threshold_has_the_risk_that_is_told(report, booking_router, booking_dev, risk: str) -> None:
    """Evaluated anew at the threshold, cases show the stated errors, and coverage is what is acted on."""
    alpha = 0.6 if risk == "wrong_of_acted" else 0.4
    found = control_risk(report, alpha=alpha, risk=risk, seed=3)
    assert found.threshold is not None
    again = evaluate(booking_router.with_settings(found.settings), booking_dev, latency=False, progress=False)
    acted = np.isin(again.verdicts.outcome, (CODES["call"], CODES["ask"]))
    assert found.coverage.value == pytest.approx(acted.mean())
    before = np.isin(report.verdicts.outcome, (CODES["call"], CODES["ask"]))
    assert found.coverage_change.value == pytest.approx(acted.mean() - before.mean())
    groups = {case.group for case in booking_dev}
    assert found.n_sample == len(groups)
    assert found.bound <= alpha
    last = found.path[found.path["p_value"] <= 0.1].iloc[-1]
    assert last["threshold"] == found.threshold
    assert found.observed == pytest.approx(last["wrong"] / last["n"])
    wrong = acted & (again.columns["tool_accuracy"] == 0)
    assert found.observed == pytest.approx(
        wrong.sum() / (acted.sum() if risk == "wrong_of_acted" else len(acted)), abs=0.1
    )
    assert (found.no_tool_prior, found.prior_stated) == (
        pytest.approx((~report.labels.wants_tool).mean()),
        False,
    )
    assert "min_confidence" in found._repr_html_()


def test_a_sweep_does_as_well(report, booking_router, booking_dev) -> None:
    """A sweep of the threshold alone gives the same, on its own values; other sweeps are refused."""
    values = [0.2, 0.5, 0.8, 0.95]
    swept = sweep(booking_router, booking_dev, {NAME: values}, progress=False)
    one = control_risk(swept, alpha=0.6)
    two = control_risk(report, alpha=0.6, thresholds=values)
    assert one.threshold is not None
    assert (one.threshold, one.observed, one.n) == (two.threshold, two.observed, two.n)
    with pytest.raises(ValueError, match=f"needs a sweep of {NAME} alone, got candidate_limit"):
        control_risk(sweep(booking_router, booking_dev[:20], {"candidate_limit": [1, 2]}), alpha=0.1)


def test_a_stricter_bound_acts_less(report) -> None:
    """The lower alpha, the stricter the threshold; where nothing can be shown it says so."""
    found = [control_risk(report, alpha=a, risk="wrong_of_all") for a in (0.05, 0.1, 0.2)]
    thresholds = [1.01 if one.threshold is None else one.threshold for one in found]
    assert thresholds == sorted(thresholds, reverse=True)
    nothing = control_risk(report, alpha=1e-4)
    assert (nothing.threshold, nothing.settings, nothing.bound) == (None, None, 1.0)
    assert nothing.reason.startswith("too few cases: even without an error 23025 are needed, and there are ")
    assert "no threshold" in nothing._repr_html_()
    bad = control_risk(report, alpha=0.02, thresholds=[0.0])
    assert (
        bad.reason
        == "at the strictest threshold that could pass, the risk is not shown to be below the bound"
    )


def test_the_prior(report) -> None:
    """A stated prior is kept with the answer; more messages without a tool ask for a stricter threshold."""
    found = [control_risk(report, alpha=0.4, no_tool_prior=prior, seed=1) for prior in (0.1, 0.4)]
    assert [one.no_tool_prior for one in found] == [0.1, 0.4]
    assert all(one.prior_stated for one in found)
    assert (found[0].threshold or 1.01) <= (found[1].threshold or 1.01)
    for bad in (0, 1):
        with pytest.raises(ValueError, match=r"no_tool_prior must be in \(0, 1\)"):
            control_risk(report, alpha=0.1, no_tool_prior=bad)


def test_same_seed_same_answer(report) -> None:
    """One case per group is drawn from a seed."""
    one, two = (control_risk(report, alpha=0.4, no_tool_prior=0.3, seed=5) for _ in range(2))
    assert one == two
    assert one.path.equals(two.path)


def test_refused(report, booking_router, booking_dev) -> None:
    """Bad bounds, test cases, and cases or groups that the calibrator has seen are refused by name."""
    for name, options in (("alpha", {"alpha": 0.0}), ("delta", {"alpha": 0.1, "delta": 1.0})):
        with pytest.raises(ValueError, match=rf"{name} must be in \(0, 1\)"):
            control_risk(report, **options)
    with pytest.raises(ValueError, match="risk must be 'wrong_of_acted' or 'wrong_of_all', got 'all'"):
        control_risk(report, alpha=0.1, risk="all")
    with pytest.raises(ValueError, match="thresholds must hold at least one value"):
        control_risk(report, alpha=0.1, thresholds=[])
    moved = [dataclasses.replace(case, split="test") for case in booking_dev[:5]]
    tested = evaluate(booking_router, moved, latency=False, progress=False)
    with pytest.raises(
        ValueError, match=f"case {booking_dev[0].id} is of the test split: control risk on dev"
    ):
        control_risk(tested, alpha=0.1)
    fitted = booking_router.with_parts(selector=None, calibrator=Calibrator(method="platt").fit(report))
    others = [dataclasses.replace(case, id=case.id + "-again") for case in booking_dev[:30]]
    seen = evaluate(fitted, others, latency=False, progress=False)
    with pytest.raises(ValueError, match=f"Calibrator was fitted on the group of case {others[0].id}"):
        control_risk(seen, alpha=0.1)
    assert isinstance(report.router, Router)
    assert report.router.calibrator is None


def test_warnings(report) -> None:
    """Settings that were chosen on these very cases are told."""
    report.selected_on = report.provenance["cases_hash"]
    try:
        assert "chosen on these very cases" in control_risk(report, alpha=0.1).warnings[0]
    finally:
        report.selected_on = None
    assert control_risk(report, alpha=0.1).warnings == ()
