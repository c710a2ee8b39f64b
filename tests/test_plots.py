"""Plots draw what the results hold: the tests read the artists."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot

import mono_router as mr
from mono_router.lab import plots
from mono_router.lab.confusion import confusions

GRID = {
    "lexical.min_score": [0.1, None, 0.4],
    "candidate_limit": [6, 1],
    "fusion.method": ["rrf", "weighted"],
}


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def cases():
    return mr.load_cases("datasets/booking", split="dev")[:60]


@pytest.fixture(scope="module")
def sweep(cases):
    router = mr.Router(mr.Catalog.load("datasets/booking"), model=mr.SimulatedModel(cases))
    return mr.sweep(router, cases, GRID, progress=False)


@pytest.fixture(scope="module")
def point(sweep):
    return sweep.pick()


@pytest.fixture(scope="module")
def report(cases):
    return mr.evaluate(mr.Router(mr.Catalog.load("datasets/booking")), cases)


def rows_at_point(sweep, point, setting):
    """Combinations in order of the setting, null last, the other settings at the point's values."""
    held = {name: value for name, value in point.changes.items() if name != setting}
    rows = [i for i, c in enumerate(sweep.combinations) if all(c[n] == v for n, v in held.items())]
    return sorted(
        rows, key=lambda i: (sweep.combinations[i][setting] is None, sweep.combinations[i][setting])
    )


def test_threshold_draws_each_metric_at_the_points_other_settings(sweep, point):
    """A line per metric by rising value, null apart behind a gap, the band from the frame's bounds."""
    drawn = plots.plot_threshold(sweep, "lexical.min_score", point=point)
    rows = rows_at_point(sweep, point, "lexical.min_score")
    for name in ("tool_accuracy", "recall_rate"):
        x, y = drawn.lines[name].get_data()
        np.testing.assert_allclose(y[[0, 1, 3]], sweep.frame[name].to_numpy()[rows])
        assert np.isnan(y[2])
        assert x[0] == 0.1
        assert x[1] == 0.4
        assert x[3] > 0.4
    heights = drawn.bands["tool_accuracy"].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(sweep.frame["tool_accuracy_low"].to_numpy()[rows[:2]].min())
    assert heights.max() == pytest.approx(sweep.frame["tool_accuracy_high"].to_numpy()[rows[:2]].max())
    assert "null" in [label.get_text() for label in drawn.ax.get_xticklabels()]
    asked = drawn.bands["recall_rate"].get_paths()[0].vertices[:, 1]
    first, second = (sweep.report(i).metric("recall_rate") for i in rows[:2])
    assert asked.min() == pytest.approx(min(first.low, second.low))
    assert asked.max() == pytest.approx(max(first.high, second.high))


def test_threshold_marks_the_chosen_point_and_says_what_is_simulated(sweep, point):
    """The point stands on its curve; labels carry units and n."""
    drawn = plots.plot_threshold(sweep, "candidate_limit", point=point)
    assert drawn.point.get_xdata()[0] == point.changes["candidate_limit"]
    assert drawn.point.get_ydata()[0] == point.selected["metrics"]["tool_accuracy"]
    assert drawn.point.get_label() == "selected on dev"
    assert drawn.ax.get_xlabel() == "candidate_limit"
    assert drawn.ax.get_ylabel() == "share of cases / share of messages"
    assert "SIMULATED" in drawn.ax.get_title()
    assert f"n = {len(sweep.labels.cases)} cases" in drawn.ax.get_title()


def test_threshold_without_a_point_holds_the_best_combination(sweep):
    """The best by tool_accuracy is on the line."""
    drawn = plots.plot_threshold(sweep, "candidate_limit", ("tool_accuracy",))
    assert max(drawn.lines["tool_accuracy"].get_ydata()) == sweep.frame["tool_accuracy"].max()
    assert drawn.point is None


def test_threshold_of_a_choice_has_places_and_no_line(sweep, point):
    """Words have no order: their values are dots."""
    drawn = plots.plot_threshold(sweep, "fusion.method", point=point)
    assert drawn.lines["tool_accuracy"].get_linestyle() == "None"
    assert [label.get_text() for label in drawn.ax.get_xticklabels()] == ['"rrf"', '"weighted"']


def test_heatmap_holds_every_cell(sweep, point):
    """Cells are the frame's figures, in the order of the grid."""
    drawn = plots.plot_heatmap(sweep, "lexical.min_score", "candidate_limit", "recall_rate", point=point)
    cells = drawn.image.get_array().reshape(2, 3)
    held = point.changes["fusion.method"]
    for i, c in enumerate(sweep.combinations):
        if c["fusion.method"] == held:
            row, column = (GRID[n].index(c[n]) for n in ("candidate_limit", "lexical.min_score"))
            assert cells[row, column] == sweep.frame["recall_rate"].iloc[i]
    assert [t.get_text() for t in drawn.ax.get_xticklabels()] == ["0.1", "null", "0.4"]
    framed = drawn.point.get_xdata()  # the chosen cell's left and right edge
    assert np.mean([framed.min(), framed.max()]) == GRID["lexical.min_score"].index(
        point.changes["lexical.min_score"]
    )


def test_pareto_draws_every_combination_and_the_front(sweep, point):
    """The front is the sweep's own."""
    drawn = plots.plot_pareto(sweep, "recall_rate", "tool_accuracy", point=point)
    assert len(drawn.lines["combinations"].get_xdata()) == len(sweep)
    front = sweep.pareto()
    np.testing.assert_array_equal(drawn.lines["Pareto front"].get_xdata(), front["recall_rate"])
    np.testing.assert_array_equal(drawn.lines["Pareto front"].get_ydata(), front["tool_accuracy"])
    assert drawn.ax.get_xlabel() == "recall_rate (share of messages)"


def test_reliability_draws_bins_with_intervals(report):
    """One dot a bin, inside its bars, beside the diagonal."""
    drawn = plots.plot_reliability(report, n_bins=5)
    y = drawn.lines["decisions"].get_ydata()
    segments = drawn.bands["decisions"].get_segments()
    assert len(y) == len(segments) == 5
    assert all(s[0][1] <= v <= s[1][1] for v, s in zip(y, segments, strict=True))
    assert list(drawn.lines["calibrated"].get_xdata()) == [0, 1]
    assert "n = 60 cases" in drawn.ax.get_title()
    assert "SIMULATED" not in drawn.ax.get_title()


def test_risk_at_full_coverage_is_the_error_rate(report):
    """The curve ends where nothing is held back."""
    drawn = plots.plot_risk_coverage(report)
    x, y = drawn.lines["risk"].get_data()
    assert x[-1] == 1.0
    assert y[-1] == pytest.approx(1 - report.metric("tool_accuracy").value)


def test_confusions_count_the_wrong_cases(report):
    """All pairs together are the wrong cases; bars are the commonest."""
    pairs = confusions(report)
    assert sum(pair.n_cases for pair in pairs) == int((report.columns["tool_accuracy"] == 0).sum())
    drawn = plots.plot_confusions(report, most=3)
    assert [bar.get_width() for bar in drawn.bars] == [pair.n_cases for pair in pairs[:3]]
    first = drawn.ax.get_yticklabels()[0].get_text()
    assert first == f"{pairs[0].expected} → {pairs[0].got}"


def test_attribution_is_a_waterfall_of_the_gains(report):
    """Each bar starts where the one before ends; with all stages perfect every case is right."""
    diagnosis = mr.diagnose(report)
    drawn = plots.plot_attribution(diagnosis)
    found = diagnosis.attribution
    first, *steps = drawn.bars
    assert first.get_height() == pytest.approx(1 - len(diagnosis) / len(report))
    np.testing.assert_allclose([bar.get_height() for bar in steps], found["gain"])
    tops = [bar.get_y() + bar.get_height() for bar in drawn.bars]
    np.testing.assert_allclose([bar.get_y() for bar in steps], tops[:-1], atol=1e-12)
    assert tops[-1] == pytest.approx(1.0)
    spans = [segment[1][1] - segment[0][1] for segment in drawn.bands["gain"].get_segments()]
    np.testing.assert_allclose(spans, found["high"] - found["low"], atol=1e-12)


@pytest.mark.parametrize("score", ["confidence", "p_tool"])
def test_scores_count_every_case_once(report, score):
    """Right and wrong decisions add up to the cases; p_tool shows the threshold that it meets."""
    drawn = plots.plot_scores(report, score=score)
    assert sum(bar.get_height() for bar in drawn.bars) == len(report)
    assert ("min_confidence" in drawn.lines) == (score == "p_tool")


def test_languages_draw_the_slice(report):
    """Values and n by language are those of report.by."""
    drawn = plots.plot_languages(report, metrics=("tool_accuracy",))
    expected = report.by("language", ("tool_accuracy",))
    np.testing.assert_array_equal(drawn.lines["tool_accuracy"].get_ydata(), expected["value"])
    labels = [label.get_text() for label in drawn.ax.get_xticklabels()]
    assert labels == [f"{name}\nn = {n}" for (name, _), n in expected["n"].items()]


def test_plots_draw_on_the_given_axes_and_leave_the_style_alone(report):
    """An axes is used where one is given; rcParams stay."""
    before = dict(mpl.rcParams)
    _, ax = pyplot.subplots()
    assert plots.plot_scores(report, ax=ax).ax is ax
    plots.plot_confusions(report)
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, r: plots.plot_threshold(s, "candidate_limits"), "setting must be one of"),
        (lambda s, r: plots.plot_threshold(s, "candidate_limit", ("accuracy",)), "metric must be one of"),
        (lambda s, r: plots.plot_heatmap(s, "candidate_limit", "candidate_limit"), "x and y must be two of"),
        (lambda s, r: plots.plot_pareto(s, "candidate_limit"), "metric must be one of"),
        (lambda s, r: plots.plot_scores(r, score="margin"), "score must be 'confidence' or 'p_tool'"),
    ],
    ids=["setting", "metric", "one setting twice", "a setting as metric", "score"],
)
def test_unknown_names_are_refused(sweep, report, call, message):
    """The error names what there is."""
    with pytest.raises(ValueError, match=message):
        call(sweep, report)


def test_a_point_of_another_sweep_is_refused(sweep, cases, point):
    """A point is not drawn on a curve that it is not on."""
    other = mr.sweep(sweep.router, cases, {"candidate_limit": [3, 4]}, progress=False)
    with pytest.raises(ValueError, match="one of the sweep's combinations"):
        plots.plot_threshold(other, "candidate_limit", point=point)


def test_a_loaded_point_is_drawn(sweep, point, tmp_path):
    """A saved point still knows its figures."""
    point.save(tmp_path / "point.json")
    loaded = mr.OperatingPoint.load(tmp_path / "point.json")
    drawn = plots.plot_threshold(sweep, "candidate_limit", point=loaded)
    assert drawn.point.get_ydata()[0] == pytest.approx(point.selected["metrics"]["tool_accuracy"])
    assert "selected on dev" in loaded._repr_html_()


def test_no_operating_point_draws_no_mark(sweep):
    """Where nothing qualified there is nothing to mark."""
    none = sweep.pick(subject_to={"tool_accuracy": (">=", 0.9999)})
    assert none.settings is None
    assert plots.plot_threshold(sweep, "candidate_limit", point=none).point is None


def test_names_are_not_read_as_formulas():
    """Dollars, control and direction characters of a tool's name are drawn or dropped, never interpreted."""
    tools = [mr.Tool(id=f"$\\frac{{{n}$ <b>\u202e\x00", hints=(f"price {n}",)) for n in ("one", "two")]
    router = mr.Router(mr.Catalog(tools))
    wrong = [mr.Case(id="1", message="price one", expected_tools=(tools[1].id,))]
    drawn = plots.plot_confusions(mr.evaluate(router, wrong))
    drawn.ax.figure.canvas.draw()
    label = drawn.ax.get_yticklabels()[0].get_text()
    assert "\\$" in label
    assert not set("\u202e\x00") & set(label)
