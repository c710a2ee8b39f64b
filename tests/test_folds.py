"""Sweeps by folds: every case is decided by parts that never saw its group, as a slow loop has it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.lab.calibration import Calibrator
from mono_router.lab.evaluation import evaluate
from mono_router.lab.folds import fold_numbers
from mono_router.lab.intervals import mean_interval
from mono_router.lab.tuning import sweep
from mono_router.local import LocalSelector
from mono_router.records import canonical_json
from mono_router.router import Router

GRID = {"selection.min_confidence": [0.3, 0.6], "candidate_limit": [2, 6]}


@pytest.fixture(scope="module")
def cases(booking_dev):
    return list(booking_dev)[:90]


@pytest.fixture(scope="module")
def calibrated(booking_router, cases) -> Router:
    report = evaluate(booking_router, cases, latency=False, progress=False)
    made = Calibrator(method="platt").fit(report)
    return booking_router.with_parts(selector=None, calibrator=made)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=40), st.integers(2, 4), st.integers(0, 3))
def test_folds_hold_whole_groups(labels, n_folds: int, seed: int) -> None:
    """A group is in one fold, folds differ by at most one group, and a seed repeats them."""
    groups = np.array([str(x) for x in labels], dtype=object)
    n_groups = len(set(labels))
    if n_groups < n_folds:
        with pytest.raises(ValueError, match=f"cv must be from 2 to the {n_groups} groups"):
            fold_numbers(groups, n_folds, seed=seed)
        return
    folds = fold_numbers(groups, n_folds, seed=seed)
    of_group = {group: set(folds[groups == group].tolist()) for group in groups}
    assert all(len(found) == 1 for found in of_group.values())
    sizes = [sum(fold in found for found in of_group.values()) for fold in range(n_folds)]
    assert max(sizes) - min(sizes) <= 1
    assert folds.tolist() == fold_numbers(groups, n_folds, seed=seed).tolist()


def slow(router: Router, refit, cases, grid, n_folds: int):
    """Correctness (n_settings, n_cases) by a loop: fold by fold, setting by setting, evaluated."""
    groups = np.array([case.group for case in cases], dtype=object)
    folds = fold_numbers(groups, n_folds)
    found, reports = None, []
    for fold in range(n_folds):
        held = [case for case, f in zip(cases, folds, strict=True) if f == fold]
        rest = [case for case, f in zip(cases, folds, strict=True) if f != fold]
        own = refit(rest)
        for i, one in enumerate(grid):
            report = evaluate(own.with_settings(one), held, latency=False, progress=False)
            found = np.zeros((len(grid), len(cases))) if found is None else found
            found[i, folds == fold] = report.columns["tool_accuracy"]
            reports.append((fold, i, report))
    return found, folds, reports


def test_a_calibrator_is_fitted_anew(booking_router, calibrated, cases) -> None:
    """With folds the frame has figures of cases that no calibrator saw, with their interval and spread."""
    with pytest.raises(ValueError, match="Calibrator was fitted on case"):
        sweep(calibrated, cases, GRID, progress=False)
    found = sweep(calibrated, cases, GRID, cv=3, progress=False)
    assert repr(found) == "Sweep(4 settings, 90 cases, 3 folds)"

    def refit(rest):
        report = evaluate(booking_router, rest, latency=False, progress=False)
        made = Calibrator(method="platt").fit(report)
        return booking_router.with_parts(selector=None, calibrator=made)

    expected, folds, reports = slow(calibrated, refit, cases, found.settings, 3)
    np.testing.assert_array_equal(found.kept.correct, expected == 1.0)
    assert found.frame["tool_accuracy"].tolist() == pytest.approx(expected.mean(axis=1).tolist())
    by_fold = np.array([[row[folds == k].mean() for k in range(3)] for row in expected])
    np.testing.assert_allclose(found.by_fold("tool_accuracy"), by_fold)
    assert found.frame["tool_accuracy_spread"].tolist() == pytest.approx(by_fold.std(axis=1, ddof=1).tolist())
    for i, row in enumerate(expected):
        bounds = mean_interval(row, found.labels.groups)
        assert found.frame["tool_accuracy_low"][i] == pytest.approx(bounds.low)
        assert found.frame["tool_accuracy_high"][i] == pytest.approx(bounds.high)
        whole = found.report(i)
        np.testing.assert_array_equal(whole.columns["tool_accuracy"], row)
        for fold, j, report in reports:
            if j == i:
                rows = np.flatnonzero(folds == fold).tolist()
                for place, k in enumerate(rows):
                    one, two = whole.verdicts.verdict(k), report.verdicts.verdict(place)
                    assert canonical_json(one.decision) == canonical_json(two.decision)
                    assert whole.verdicts.called(k) == report.verdicts.called(place)
                    assert whole.verdicts.confidence[k] == report.verdicts.confidence[place]
    assert found.pick().selected["cv"] == 3


def test_a_selector_is_fitted_anew(booking, cases) -> None:
    """A selector that learned from the cases learns for each fold from the others."""
    some = cases[:45]
    router = Router(booking, selector=LocalSelector(booking, cases=some))
    grid = {"selection.min_confidence": [0.5]}
    found = sweep(router, some, grid, cv=2, progress=False)

    def refit(rest):
        return Router(booking, selector=LocalSelector(booking, cases=rest))

    expected, _, _ = slow(router, refit, some, found.settings, 2)
    np.testing.assert_array_equal(found.kept.correct, expected == 1.0)


def test_nothing_to_fit_anew(booking_router, cases) -> None:
    """Where nothing was fitted on the cases, folds change no figure."""
    one = sweep(booking_router, cases, GRID, progress=False)
    two = sweep(booking_router, cases, GRID, cv=4, progress=False)
    np.testing.assert_array_equal(one.kept.correct, two.kept.correct)
    columns = list(one.frame.columns)
    np.testing.assert_allclose(one.frame.to_numpy(float), two.frame[columns].to_numpy(float))
    for name in ("top1_hit", "no_tool_recall", "recall_at_5"):
        np.testing.assert_array_equal(one.values(name), two.values(name))


def test_refused(booking_router, calibrated, cases) -> None:
    """What cannot be fitted anew is refused by name."""
    with pytest.raises(ValueError, match=r"cv cannot fit Calibrator anew: case .* of its fit is not swept"):
        sweep(calibrated, cases[:40], GRID, cv=2, progress=False)
    with pytest.raises(ValueError, match="cv must be from 2 to the"):
        sweep(booking_router, cases, GRID, cv=1, progress=False)

    class Fixed:
        fitted_on = frozenset(case.id for case in cases)

        def apply(self, signals):
            return signals[:, 4], signals[:, 5], 1 - signals[:, 4]

    foreign = booking_router.with_parts(selector=None, calibrator=Fixed())
    with pytest.raises(ValueError, match="cv cannot fit Fixed anew: it is no Calibrator"):
        sweep(foreign, cases, GRID, cv=2, progress=False)
    with pytest.raises(ValueError, match="unknown metric 'accuracy'"):
        sweep(booking_router, cases, GRID, progress=False).by_fold("accuracy")
