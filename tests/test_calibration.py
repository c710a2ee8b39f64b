"""The calibrator: probabilities that can be read as such, chosen so that nothing gets worse."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.decision import SIGNALS
from mono_router.lab.calibration import Calibrator
from mono_router.lab.cases import load_cases
from mono_router.lab.evaluation import evaluate
from mono_router.lab.intervals import group_codes
from mono_router.lab.metrics import aurc, ece
from mono_router.lab.probability_maps import METHODS, Map, Maps
from mono_router.lab.reliability import calibration_table, ece_by_chance
from mono_router.router import Router


@pytest.fixture(scope="module")
def report(booking_router: Router, booking_dev):
    return evaluate(booking_router, booking_dev, latency=False, progress=False)


@pytest.fixture(scope="module")
def tested(booking_router: Router):
    """A report on test cases."""
    cases = load_cases(ROOT / "datasets" / "booking", split="test")
    return evaluate(booking_router, cases, latency=False, progress=False)


@pytest.fixture(scope="module")
def with_tool(booking_router: Router, booking_dev):
    """A report on cases that all have a right tool."""
    cases = [case for case in booking_dev if case.expected_tools]
    return evaluate(booking_router, cases, latency=False, progress=False)


@pytest.fixture(scope="module")
def fitted(report) -> dict[str, Calibrator]:
    return {method: Calibrator(method=method).fit(report) for method in METHODS}


SHARES = st.floats(0, 1)


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_round_trip(report, with_tool, tmp_path, method: str) -> None:
    """What is saved and loaded maps as before and knows its cases and its prior."""
    for found, prior in ((report, 0.2), (with_tool, None)):
        made = Calibrator(method=method, no_tool_prior=prior).fit(found)
        made.save(tmp_path / "calibrator.json")
        loaded = Calibrator.load(tmp_path / "calibrator.json")
        assert loaded.fitted_on == made.fitted_on == {case.id for case in found.cases}
        assert loaded.fitted_groups == made.fitted_groups == {case.group for case in found.cases}
        assert (loaded.no_tool_prior, loaded.scores) == (made.no_tool_prior, made.scores)
        signals = found.verdicts.signals
        for one, two in zip(made.apply(signals), loaded.apply(signals), strict=True):
            np.testing.assert_array_equal(one, two)
    (tmp_path / "old.json").write_text('{"schema": 1}')
    with pytest.raises(ValueError, match="schema 1 is not 2: fit the calibrator again"):
        Calibrator.load(tmp_path / "old.json")


@given(st.lists(st.tuples(*[SHARES] * len(SIGNALS)), min_size=1, max_size=5))
@pytest.mark.parametrize("method", METHODS)
def test_calibrated_figures_are_probabilities(fitted, method: str, rows) -> None:
    """Any signals give three probabilities; P(first) is never above P(tool), and no tool is what is left."""
    tool, first, none = fitted[method].apply(np.array(rows))
    assert ((first >= 0) & (first <= tool) & (tool <= 1)).all()
    np.testing.assert_allclose(none, 1 - tool)


def slow_figures(report, pair: tuple[str, str], prior: float | None) -> dict[str, float]:
    """Cross-validated Brier score, AURC and ECE of a pair of methods, fold by fold, by fits of their own."""
    verdicts, labels = report.verdicts, report.labels
    wants, hit = labels.wants_tool, np.nan_to_num(report.columns["top1_hit"]).astype(bool)
    codes, n_groups = group_codes(labels.groups)
    fold = np.random.default_rng(0).permutation(n_groups)[codes] % 5
    weights = np.ones(len(wants))
    if prior is not None:
        weights = np.where(wants, (1 - prior) / wants.mean(), prior / (~wants).mean())
    confidence, correct, area = np.zeros(len(wants)), np.zeros(len(wants)), 0.0
    for k in range(5):
        tool, first = verdicts.signals[:, 4], verdicts.signals[:, 5]
        if pair != ("raw", "raw"):
            tool, first = (
                fitted_column(verdicts.signals, target, column, method, weights, fold != k)
                for target, column, method in ((wants, 4, pair[0]), (hit, 5, pair[1]))
            )
        held, called = fold == k, tool >= report.settings.selection.min_confidence
        confidence[held] = np.where(called, np.minimum(first, tool), 1 - tool)[held]
        correct[held] = np.where(called, hit, ~wants)[held]
        area += aurc(confidence[held], correct[held], weights[held]) * weights[held].sum()
    brier = float(np.average((confidence - correct) ** 2, weights=weights))
    return {"brier": brier, "aurc": area / weights.sum(), "ece": ece(confidence, correct, weights)}


def fitted_column(signals, target, column: int, method: str, weights, inside) -> np.ndarray:
    """Platt's map by scikit-learn itself, or the raw column."""
    from sklearn.linear_model import LogisticRegression

    if method == "raw":
        return signals[:, column]
    p = np.clip(signals[:, column], 1e-6, 1 - 1e-6)
    x = np.log(p / (1 - p))[:, None]
    model = LogisticRegression(C=1.0, max_iter=1000)
    return model.fit(x[inside], target[inside], sample_weight=weights[inside]).predict_proba(x)[:, 1]


@pytest.mark.parametrize("prior", [None, 0.3])
def test_cross_validation_is_its_definition(report, prior) -> None:
    """The figures by which maps are chosen are those of decisions about cases that no fit has seen."""
    scores = Calibrator(no_tool_prior=prior).fit(report).scores
    assert len(scores) == len(METHODS) ** 2
    for pair in (("raw", "raw"), ("platt", "platt"), ("raw", "platt"), ("platt", "raw")):
        expected = slow_figures(report, pair, prior)
        assert dict(scores[", ".join(pair)]) == pytest.approx(expected, abs=1e-6), pair


@pytest.mark.parametrize("seed", range(3))
def test_nothing_gets_worse(booking_router: Router, booking_dev, seed: int) -> None:
    """The chosen pair has no higher Brier score and no higher AURC than none, by cross-validation."""
    groups = sorted({case.group for case in booking_dev})
    kept = {groups[i] for i in np.random.default_rng(seed).permutation(len(groups))[: len(groups) // 2]}
    cases = [case for case in booking_dev if case.group in kept]
    made = Calibrator().fit(evaluate(booking_router, cases, latency=False, progress=False))
    raw, best = made.scores["raw, raw"], made.scores[", ".join(made.chosen)]
    assert best["brier"] <= raw["brier"]
    assert best["aurc"] <= raw["aurc"]


def test_without_a_no_tool_case(booking_router: Router, with_tool) -> None:
    """Where every case has a tool, thresholds read what they did, and "no tool" is as sure as it is right."""
    made = Calibrator().fit(with_tool)
    assert made.chosen[0] == "raw"
    signals = with_tool.verdicts.signals
    tool, _, none = made.apply(signals)
    np.testing.assert_array_equal(tool, signals[:, 4])
    assert none.mean() == pytest.approx(0.5 / (len(with_tool) + 1), rel=1e-3)
    assert (
        np.diff(none[np.argsort(tool, kind="stable")]) <= 1e-12
    ).all()  # the less a tool is likely, the more
    calibrated = booking_router.with_parts(selector=None, calibrator=made)
    others = [dataclasses.replace(case, id=f"{case.id}-again") for case in with_tool.cases]
    again = evaluate(calibrated, others, latency=False, progress=False)
    assert again.verdicts.outcome.tolist() == with_tool.verdicts.outcome.tolist()
    for metric in ("ece", "brier", "aurc"):
        assert again.metric(metric).value < with_tool.metric(metric).value
    trace = calibrated.trace(others[0].query)
    assert trace.decision.confidence == again.verdicts.confidence[0]


def test_a_single_route_is_calibrated_alike(booking_router: Router, report, tested) -> None:
    """A route, an evaluation and a refused tool have the confidences that the maps give."""
    made = Calibrator(method="platt").fit(report)
    calibrated = booking_router.with_parts(selector=None, calibrator=made)
    found = evaluate(calibrated, tested.cases, latency=False, progress=False)
    for i, case in enumerate(tested.cases[:40]):
        decision = calibrated.trace(case.query).decision
        assert (decision.p_tool, decision.confidence) == (
            found.verdicts.p_tool[i],
            found.verdicts.confidence[i],
        )
        if decision.reason == "LOW_CONFIDENCE":
            assert decision.confidence == pytest.approx(1 - decision.p_tool, abs=2e-6)


def test_refused(booking: Catalog, booking_dev, report, tested) -> None:
    """Test cases, a calibrated router and the very cases of the fit are refused; so is an unfitted map."""
    case = tested.cases[0].id
    with pytest.raises(ValueError, match=f"case {case} is of the test split: fit on dev"):
        Calibrator().fit(tested)
    for call in (lambda c: c.apply(report.verdicts.signals), lambda c: c.chosen):
        with pytest.raises(ValueError, match="must be fitted before"):
            call(Calibrator())
    router = Router(booking, calibrator=Calibrator(method="platt").fit(report))
    with pytest.raises(ValueError, match=f"Calibrator was fitted on case {booking_dev[0].id}"):
        evaluate(router, booking_dev, latency=False)
    with pytest.raises(ValueError, match="needs a report of an uncalibrated router"):
        Calibrator().fit(evaluate(router, tested.cases[:5], latency=False))
    with pytest.raises(ValueError, match="method must be auto or one of raw, platt"):
        Calibrator(method="beta")
    with pytest.raises(ValueError, match=r"no_tool_prior must be in \(0, 1\)"):
        Calibrator(no_tool_prior=1.0)


def test_a_refit_starts_anew(fitted) -> None:
    """A calibrator of the same kind has learned from nothing."""
    made = Calibrator(method="platt", no_tool_prior=0.3).unfitted()
    assert (made.method, made.no_tool_prior, made.fitted_on) == ("platt", 0.3, frozenset())
    assert Maps(Map("raw", 4), Map("raw", 5)).apply(np.full((1, 7), 0.25))[2] == 0.75


# --- reliability by slice --------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["language", "tool"])
def test_slices_are_reports_of_their_own(booking_router, booking_dev, report, by: str) -> None:
    """A slice's figures are those of its cases alone; small slices are pooled, and n adds up."""
    table = calibration_table(report, by=by, min_cases=20)
    assert table.index[0] == "(all)"
    rest = table.iloc[1:]
    assert rest["n"].sum() == table.loc["(all)", "n"] == len(report)
    assert table.loc["(all)", "ece"] == report.metric("ece").value
    names = [case.language for case in report.cases]
    if by == "tool":
        named = [report.verdicts.called(i) for i in range(len(report))]
        names = [tools[0] if tools else "(no tool)" for tools in named]
        pooled = rest.index[-1]
        n_few = len(set(names)) - (len(rest) - 1)
        assert pooled == f"({n_few} tools with fewer than 20 cases)"
    alone = max(set(names), key=names.count)
    rows = np.array([name == alone for name in names])
    confidence, correct = report.verdicts.confidence[rows], report.columns["tool_accuracy"][rows]
    assert table.loc[alone, "ece"] == pytest.approx(ece(confidence, correct, np.ones(rows.sum())))
    assert table.loc[alone, "brier"] == pytest.approx(((confidence - correct) ** 2).mean())
    assert table.loc[alone, "accuracy"] == pytest.approx(correct.mean())
    for name in ("ece", "brier"):
        assert (table[f"{name}_low"] <= table[name] + 1e-12).all()
        assert (table[name] <= table[f"{name}_high"] + 1e-12).all()


def test_chance_has_a_calibration_error(report) -> None:
    """Confidences that are exactly right show an error too, more with fewer cases; bad slices are refused."""
    sure = np.full(1000, 0.7)
    assert ece_by_chance(sure[:50]) > ece_by_chance(sure) > 0
    with pytest.raises(ValueError, match="by must be 'language' or 'tool', got 'tag'"):
        calibration_table(report, by="tag")
    with pytest.raises(ValueError, match="min_cases must be >= 1, got 0"):
        calibration_table(report, min_cases=0)
