"""Sweeps and operating points: what is chosen, what is refused, what goes stale."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mono_router.catalog import Catalog
from mono_router.embedding import LightEncoder
from mono_router.lab.cases import load_cases
from mono_router.lab.evaluation import evaluate
from mono_router.lab.intervals import Z95
from mono_router.lab.tuning import Costs, OperatingPoint, sweep
from mono_router.models.simulated import SimulatedModel
from mono_router.records import Case, Tool
from mono_router.router import Router

GRID = {
    "lexical.min_score": [0.2, 0.4, 0.6, 0.8, None],
    "selection.min_confidence": [0.2, 0.35, 0.5, 0.65, 0.8],
}


@pytest.fixture(scope="module")
def swept(booking, booking_encoder, booking_dev):
    return sweep(Router(booking, encoder=booking_encoder), booking_dev, GRID, progress=False)


@pytest.fixture(scope="module")
def booking_test():
    from conftest import ROOT

    return load_cases(ROOT / "datasets" / "booking", split="test")


def test_the_frame(swept) -> None:
    """One row per combination in the grid's order, settings first, with metrics and an interval."""
    assert len(swept) == 25
    assert repr(swept).startswith("Sweep(25 settings, ")
    frame = swept.frame
    assert list(frame.columns[:2]) == list(GRID)
    assert frame["selection.min_confidence"].tolist()[:5] == GRID["selection.min_confidence"]
    assert (frame["tool_accuracy_low"] <= frame["tool_accuracy"]).all()
    assert (frame["tool_accuracy"] <= frame["tool_accuracy_high"]).all()
    assert (frame["unrecorded"] == 0).all()
    assert frame["recall_rate"].iloc[-1] == 1.0


def test_thresholds_are_monotone(swept) -> None:
    """A higher bar for tools means more "no tool", a higher min_score more recall."""
    frame = swept.frame
    for _, rows in frame.groupby("lexical.min_score", dropna=False):
        assert rows["no_tool_recall"].is_monotonic_increasing
        assert rows["missed_tool_rate"].is_monotonic_increasing
    for _, rows in frame.groupby("selection.min_confidence"):
        assert rows["recall_rate"].is_monotonic_increasing


def test_pareto(swept) -> None:
    """The front holds exactly the combinations that no other beats in cost and value."""
    frame = swept.frame
    front = swept.pareto(cost="recall_rate", value="tool_accuracy")
    assert front["recall_rate"].is_monotonic_increasing
    for i, row in frame.iterrows():
        beaten = (
            (frame["recall_rate"] <= row["recall_rate"]) & (frame["tool_accuracy"] >= row["tool_accuracy"])
            & ((frame["recall_rate"] < row["recall_rate"]) | (frame["tool_accuracy"] > row["tool_accuracy"]))
        ).any()  # fmt: skip
        equal = front[["recall_rate", "tool_accuracy"]].eq(row[["recall_rate", "tool_accuracy"]]).all(axis=1)
        assert beaten != equal.any(), i


def test_pick_then_check(swept, booking_dev) -> None:
    """The chosen settings, evaluated again, have the value and meet the constraint of their choice."""
    point = swept.pick(maximize="tool_accuracy", subject_to={"recall_rate": ("<=", 0.9)})
    report = evaluate(
        swept.router.with_settings(point.settings), booking_dev,
        progress=False, latency=False,
    )  # fmt: skip
    assert report.metric("tool_accuracy").value == pytest.approx(point.selected["value"])
    assert report.metric("recall_rate").value <= 0.9
    assert point.selected["metrics"]["tool_accuracy"] == pytest.approx(point.selected["value"])
    assert point.selected["n"] == len(booking_dev)


def bound(swept, i: int, name: str, sign: float) -> float:
    """Mean plus or minus 1.96 standard errors over groups, by the definition."""
    report = swept.report(i)
    values = report.columns[name]
    groups = {}
    mean = values.mean()
    for value, group in zip(values, report.labels.groups, strict=True):
        groups[group] = groups.get(group, 0.0) + value - mean
    return mean + sign * Z95 * np.sqrt(sum(r**2 for r in groups.values())) / len(values)


def test_constraint_holds_at_its_bound(swept) -> None:
    """A constraint must hold at the 95 % bound on its bad side, not at the mean alone."""
    bounds = np.array([bound(swept, i, "recall_rate", 1) for i in range(25)])
    between = (float(np.median(swept.frame["recall_rate"])) + float(np.median(bounds))) / 2
    point = swept.pick(subject_to={"recall_rate": ("<=", between)})
    chosen = swept.settings.index(point.settings)
    assert bounds[chosen] <= between
    tight = swept.pick(subject_to={"recall_rate": ("<=", float(bounds.min()))})
    assert bounds[swept.settings.index(tight.settings)] == pytest.approx(bounds.min())
    under = float(bounds.min()) - 1e-6
    assert (swept.frame["recall_rate"] <= under).any()  # the mean would do
    assert swept.pick(subject_to={"recall_rate": ("<=", under)}).settings is None
    lows = np.array([bound(swept, i, "tool_accuracy", -1) for i in range(25)])
    best = swept.pick(subject_to={"tool_accuracy": (">=", float(lows.max()) - 1e-9)})
    assert lows[swept.settings.index(best.settings)] == pytest.approx(lows.max())


def test_nothing_qualifies(swept, booking) -> None:
    """Where no setting meets a constraint there is no point, and it says why; it has no report."""
    point = swept.pick(subject_to={"tool_accuracy": (">=", 0.9999), "recall_rate": ("<=", 0.0)})
    assert point.settings is None
    assert point.reason == "no setting meets tool_accuracy >= 0.9999, recall_rate <= 0.0 at the 95 % bound"
    with pytest.raises(ValueError, match="there is no operating point: no setting meets"):
        point.report(Router(booking), [Case(id="1", message="x", expected_tools=())])


def test_one_standard_error(swept) -> None:
    """Within one standard error of the best, the settings that recall least are chosen."""
    point = swept.pick(maximize="tool_accuracy")
    frame, best = swept.frame, point.selected["best"]
    assert best == pytest.approx(frame["tool_accuracy"].max())
    close = frame["tool_accuracy"] >= best - point.selected["standard_error"] - 1e-12
    chosen = swept.settings.index(point.settings)
    assert close[chosen]
    assert frame["recall_rate"][chosen] == frame["recall_rate"][close].min()
    if chosen != frame["tool_accuracy"].argmax():
        assert point.reason == "the cheapest within one standard error of the best"


def test_costs(swept) -> None:
    """Expected cost is summed by kind of error, and dear errors move the choice."""
    frame = swept.frame
    point = swept.pick(costs=Costs(wrong_tool=0, missed_tool=0, false_tool=1))
    assert point.changes["selection.min_confidence"] >= 0.65
    eager = swept.pick(costs=Costs(wrong_tool=0, missed_tool=1, false_tool=0))
    assert eager.changes["selection.min_confidence"] <= 0.35
    frugal = swept.pick(costs=Costs(wrong_tool=0, missed_tool=0, false_tool=0, recall_call=1))
    assert frugal.selected["value"] == pytest.approx(frame["recall_rate"].min())
    assert point.selected["objective"] == "cost"
    assert point.selected["costs"]["false_tool"] == 1


def test_prior_reweights(swept) -> None:
    """With a prior, cases count as often as such messages come: the value is the mix of both kinds."""
    prior = 0.8
    point = swept.pick(no_tool_prior=prior)
    report = swept.report(swept.settings.index(point.settings))
    wants, right = report.labels.wants_tool, report.columns["tool_accuracy"]
    mix = (1 - prior) * right[wants].mean() + prior * right[~wants].mean()
    assert point.selected["value"] == pytest.approx(mix)
    assert point.changes["selection.min_confidence"] >= swept.pick().changes["selection.min_confidence"]
    for bad in (0, 1, -0.5):
        with pytest.raises(ValueError, match=r"no_tool_prior must be in \(0, 1\)"):
            swept.pick(no_tool_prior=bad)


def test_pick_refuses(swept) -> None:
    """Two objectives, an unknown metric and an unknown sign are refused by name."""
    with pytest.raises(ValueError, match="maximize or costs, not both"):
        swept.pick(maximize="tool_accuracy", costs=Costs())
    with pytest.raises(ValueError, match="unknown metric 'accuracy'"):
        swept.pick(maximize="accuracy")
    with pytest.raises(ValueError, match="must be '<=' or '>=', got '<'"):
        swept.pick(subject_to={"recall_rate": ("<", 0.5)})
    with pytest.raises(ValueError, match="unknown metric"):
        swept.pick(subject_to={"recalls": ("<=", 0.5)})


def test_equal_scores_are_no_choice() -> None:
    """Where every setting does equally there is nothing to choose."""
    router = Router(Catalog([Tool(id="a", description="book a table")]))
    cases = [Case(id=str(i), message="book a table", expected_tools=("a",)) for i in range(4)]
    same = sweep(router, cases, {"candidate_limit": [1, 2]}, progress=False)
    with pytest.raises(ValueError, match="every setting has the same tool_accuracy"):
        same.pick()


def test_the_prior_needs_both_kinds() -> None:
    """Without no-tool cases there is nothing to reweight."""
    router = Router(Catalog([Tool(id="a", description="book a table")]))
    cases = [Case(id=str(i), message="book a table", expected_tools=("a",)) for i in range(4)]
    with pytest.raises(ValueError, match="with and without a right tool"):
        sweep(router, cases, {"candidate_limit": [1]}, progress=False).pick(no_tool_prior=0.5)


def test_sweep_refuses(booking, booking_test, booking_dev) -> None:
    """Test cases, an empty grid and unknown settings are refused."""
    router = Router(booking)
    with pytest.raises(ValueError, match=f"case {booking_test[0].id} is of the test split"):
        sweep(router, [booking_dev[0], *booking_test], GRID)
    for empty in ({}, {"candidate_limit": []}):
        with pytest.raises(ValueError, match="grid must give at least one value"):
            sweep(router, booking_dev[:3], empty)
    with pytest.raises(ValueError, match=r"did you mean 'lexical\.min_score'"):
        sweep(router, booking_dev[:3], {"lexical.minscore": [0.1]})
    with pytest.raises(ValueError, match="candidate_limit must be >= 1"):
        sweep(router, booking_dev[:3], {"candidate_limit": [0]})


def test_report_on_test(swept, booking_dev, booking_test) -> None:
    """The estimate comes from cases that did not choose the point, and each look at it is counted."""
    point, router = swept.pick(), swept.router
    report = point.report(router, booking_test, progress=False, latency=False)
    assert report.cases == tuple(booking_test)
    assert report.settings.get("selection.min_confidence") == point.changes["selection.min_confidence"]
    point.report(router, booking_test, progress=False, latency=False)
    assert point.n_looks == 2
    with pytest.raises(ValueError, match="the point was chosen on these cases"):
        point.report(router, booking_dev)


def test_save_and_load(swept, tmp_path) -> None:
    """A saved point comes back as it was; one that was never found does too."""
    for point in (swept.pick(), swept.pick(subject_to={"tool_accuracy": (">=", 1.0)})):
        point.n_looks = 3
        point.save(tmp_path / "point.json")
        again = OperatingPoint.load(tmp_path / "point.json")
        assert again.settings == point.settings
        assert (again.n_looks, again.reason, dict(again.changes)) == (3, point.reason, dict(point.changes))
        assert again.valid_for == point.valid_for
    (tmp_path / "new.json").write_text('{"schema": 9}')
    with pytest.raises(ValueError, match="schema 9 is newer than 1"):
        OperatingPoint.load(tmp_path / "new.json")


def test_stale(swept, booking, booking_encoder, booking_dev) -> None:
    """Another catalog, encoder, model or prompt is told; the same router is not stale."""
    point = swept.pick()
    assert point.stale(Router(booking, encoder=booking_encoder)) == []
    tools = [dataclasses.replace(t, description=t.description + "!") for t in booking]
    changed = Catalog(tools, booking.skills.values())
    assert point.stale(Router(changed, encoder=booking_encoder)) == ["catalog"]
    other = LightEncoder(dimensions=8).fit(["x y", "z"])
    assert point.stale(Router(booking, encoder=other)) == ["encoder"]
    assert point.stale(Router(booking)) == ["encoder"]
    model = SimulatedModel(booking_dev)
    assert point.stale(Router(booking, encoder=booking_encoder, model=model)) == ["model", "prompts"]


def test_model_calls_are_recomputed(booking, booking_dev) -> None:
    """Calls and tokens are what each setting would have spent, though the sweep asked only once."""
    cases = booking_dev[:40]
    router = Router(booking, model=SimulatedModel(cases))
    found = sweep(router, cases, {"lexical.min_score": [0.2, None]}, progress=False)
    frame = found.frame
    assert frame["model_recall_calls"][1] == 1.0
    assert frame["model_recall_calls"][0] < 1.0
    assert frame["input_tokens"][0] < frame["input_tokens"][1]
    for i in range(2):
        settings = found.settings[i]
        report = evaluate(
            Router(booking, model=SimulatedModel(cases), settings=settings), cases, progress=False
        )
        for name in ("model_calls", "input_tokens", "output_tokens", "model_recall_calls"):
            assert frame[name][i] == pytest.approx(report.metric(name).value)
