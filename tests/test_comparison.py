"""Paired tests against their definitions, and what a comparison of two reports says."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from mono_router.lab.comparison import compare, holm, mcnemar_exact, sign_flip
from mono_router.lab.evaluation import evaluate
from mono_router.models.simulated import SimulatedModel
from mono_router.router import Router
from mono_router.settings import Settings


def test_mcnemar_of_statsmodels() -> None:
    """McNemar's exact test is statsmodels', where that is installed."""
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    for better, worse in ((0, 1), (3, 9), (12, 12), (40, 21)):
        expected = tables.mcnemar([[5, better], [worse, 7]], exact=True).pvalue
        assert mcnemar_exact(better, worse) == pytest.approx(expected)


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar(better: int, worse: int) -> None:
    """McNemar's exact test is the two-sided binomial test of the discordant pairs."""
    found = mcnemar_exact(better, worse)
    assert found == pytest.approx(binomtest(better, better + worse).pvalue if better + worse else 1.0)
    assert found == mcnemar_exact(worse, better)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), max_size=9))
def test_sign_flip_is_exhaustive_where_it_can_be(differences) -> None:
    """With few groups every pattern of signs is tried: the p-value is the share that is as extreme."""
    values = np.array(differences)
    used = [d for d in differences if d]
    observed = abs(sum(used))
    sums = [abs(sum(s * d for s, d in zip(signs, used, strict=True)))
            for signs in itertools.product([1, -1], repeat=len(used))]  # fmt: skip
    expected = sum(s >= observed - 1e-9 for s in sums) / len(sums)
    assert sign_flip(values) == pytest.approx(expected)


def test_sign_flip_of_single_cases_is_mcnemars() -> None:
    """Where every group is right or wrong as a whole, the test is McNemar's, with mid-p from 20 groups on."""
    values = np.array([1.0] * 30 + [-1.0] * 14 + [0.0] * 50)
    assert sign_flip(values) == pytest.approx(mcnemar_exact(30, 14) - binom.pmf(14, 44, 0.5))
    assert sign_flip(values[20:]) == pytest.approx(mcnemar_exact(10, 14) - binom.pmf(10, 24, 0.5))
    assert sign_flip(values[30:]) == pytest.approx(mcnemar_exact(0, 14))
    assert sign_flip(np.ones(60)) < 1e-9


def test_sign_flip_by_draws() -> None:
    """With many groups that all differ by another amount signs are drawn from a seed: the p-value repeats."""
    rng = np.random.default_rng(5)
    values = rng.normal(0.2, 1.0, 60)
    assert sign_flip(values) == sign_flip(values)
    signs = rng.choice([-1, 1], size=(20_000, 60))
    expected = (np.abs(signs @ values) >= abs(values.sum()) - 1e-9).mean()
    assert sign_flip(values) == pytest.approx(expected, abs=0.015)
    assert sign_flip(np.arange(1.0, 61.0)) <= 2 / 10_001


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm(p_values) -> None:
    """Holm's adjustment by its definition: step down, never falling, never over 1."""
    m = len(p_values)
    order = sorted(range(m), key=lambda i: p_values[i])
    expected = [0.0] * m
    for place, i in enumerate(order):
        expected[i] = max(min(1.0, (m - j) * p_values[order[j]]) for j in range(place + 1))
    assert holm(p_values) == pytest.approx(expected, abs=1e-9)
    assert holm([]) == []


def test_a_report_against_itself(booking_router, booking_dev) -> None:
    """Nothing changed: no flip, no change, p = 1."""
    report = evaluate(booking_router, booking_dev[:50], progress=False, latency=False)
    found = compare(report, report)
    assert (found.gained, found.lost) == ((), ())
    row = found.table.loc["tool_accuracy"]
    assert (row["change"], row["p"], row["p_holm"]) == (0.0, 1.0, 1.0)
    assert row["n"] == 50


def test_flips_both_ways(booking_router, booking_dev) -> None:
    """Cases that became right and wrong are listed, and the change is their difference over n."""
    cases = booking_dev[:100]
    router = booking_router
    before = evaluate(router, cases, progress=False, latency=False)
    harsh = router.with_settings(Settings().replace({"selection.min_confidence": 0.97}))
    after = evaluate(harsh, cases, progress=False, latency=False)
    found = compare(before, after)
    assert found.lost
    change = (len(found.gained) - len(found.lost)) / 100
    assert found.table.loc["tool_accuracy", "change"] == pytest.approx(change)
    assert found.table.loc["tool_accuracy", "p"] < 0.05
    other = compare(after, before)
    assert (other.gained, other.lost) == (found.lost, found.gained)
    assert np.isnan(found.table.loc["top1_hit", "p_holm"])


def test_groups_are_the_unit(booking_router, booking_dev) -> None:
    """Where a group has several cases, signs are flipped by group, not by case."""
    router = booking_router
    one = [dataclasses.replace(case, group=f"g{i // 3:02}") for i, case in enumerate(booking_dev[:90])]
    before = evaluate(router, one, progress=False, latency=False)
    after = evaluate(
        router.with_settings(Settings().replace({"selection.min_confidence": 0.9})), one,
        progress=False, latency=False,
    )  # fmt: skip
    found = compare(before, after).table.loc["tool_accuracy"]
    difference = after.columns["tool_accuracy"] - before.columns["tool_accuracy"]
    assert found["n_groups"] == 30
    assert found["p"] == sign_flip(difference.reshape(30, 3).mean(axis=1))


def test_family_is_adjusted_together(booking_router, booking_dev) -> None:
    """Holm runs over the metrics that were named beforehand, and over no other."""
    router = booking_router
    before = evaluate(router, booking_dev[::3], progress=False, latency=False)
    after = evaluate(
        router.with_settings(Settings().replace({"selection.min_confidence": 0.8})), booking_dev[::3],
        progress=False, latency=False,
    )  # fmt: skip
    table = compare(before, after, family=("tool_accuracy", "no_tool_recall")).table
    family = ["tool_accuracy", "no_tool_recall"]
    assert table.loc[family, "p_holm"].tolist() == pytest.approx(holm(table.loc[family, "p"].tolist()))


def test_other_cases_are_refused(booking_router, booking_dev) -> None:
    """Two reports on other cases, or in another order, are not compared."""
    router = booking_router
    reports = [
        evaluate(router, cases, progress=False, latency=False)
        for cases in (booking_dev[:9], booking_dev[8::-1], booking_dev[:8])
    ]
    for other in reports[1:]:
        with pytest.raises(ValueError, match="the same cases in the same order"):
            compare(reports[0], other)


def test_warnings(booking, booking_router, booking_dev) -> None:
    """A simulated side, and settings that were chosen on these very cases, are told."""
    cases = booking_dev[:30]
    plain = evaluate(booking_router, cases, progress=False, latency=False)
    simulated = evaluate(Router(booking, model=SimulatedModel(cases)), cases, progress=False)
    assert compare(plain, simulated).warnings == ("after is simulated",)
    plain.selected_on = plain.provenance["cases_hash"]
    assert "before were chosen on these very cases" in compare(plain, plain).warnings[0]
