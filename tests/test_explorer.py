"""The explorer shows what the sweep holds: moving a slider replays and nothing else."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mono_router as mr

GRID = {
    "lexical.min_score": [0.3, 0.7, None],
    "candidate_limit": [1, 6],
    "fusion.weights": [{"lexical": 0.3, "recall": 0.7}],
    "selection.min_confidence": [0.2, 0.5, 0.8],
}


@pytest.fixture(scope="module")
def swept(booking, booking_dev, booking_encoder):
    router = mr.Router(booking, encoder=booking_encoder)
    return mr.sweep(router, booking_dev[:90], GRID, progress=False)


@pytest.fixture(scope="module")
def explorer(swept):
    return mr.explore(swept)


def moves(combination):
    return {name: value for name, value in combination.items() if len(GRID[name]) > 1}


@settings(max_examples=5)
@given(st.data())
def test_figures_follow_the_sliders(swept, explorer, data):
    """At any position the figures are those of the sweep's frame and of evaluate under that setting."""
    i = data.draw(st.integers(0, len(swept) - 1))
    explorer.move(moves(swept.combinations[i]))
    assert explorer.number == i
    assert explorer.combination == swept.combinations[i]
    for name, found in explorer.figures.items():
        assert found.value == swept.frame[name].iloc[i]
    router = swept.router.with_settings(mr.Settings().replace(swept.combinations[i]))
    report = mr.evaluate(router, swept.labels.cases, progress=False, latency=False)
    assert {name: report.metric(name) for name in explorer.figures} == explorer.figures
    shown = re.sub(r"<[^>]+>", " ", explorer.panels["figures"].value)
    assert f"{explorer.figures['tool_accuracy'].value:.3f}" in shown


def test_flips_are_those_between_the_two_reports(swept, explorer):
    """What became right or wrong against the reference is what comparing the two reports says."""
    explorer.move(moves(swept.combinations[explorer.reference]))
    assert explorer.gained == explorer.lost == ()
    explorer.sliders["selection.min_confidence"].value = "0.8"
    explorer.sliders["candidate_limit"].value = "1"
    change = mr.compare(swept.report(explorer.reference), swept.report(explorer.number))
    assert [flip.case for flip in explorer.gained] == sorted(change.gained, key=order(swept))
    assert [flip.case for flip in explorer.lost] == sorted(change.lost, key=order(swept))
    assert explorer.lost
    shown = explorer.panels["flips"].value
    assert f"{len(explorer.lost)} became wrong" in shown
    assert explorer.lost[0].case in shown
    assert explorer.lost[0].before == explorer.lost[0].expected


def order(swept):
    ids = [case.id for case in swept.labels.cases]
    return ids.index


def test_the_button_takes_the_current_setting_as_reference(swept):
    """Afterwards nothing flips, and the panel names the new reference."""
    explorer = mr.explore(swept)
    explorer.sliders["selection.min_confidence"].value = "0.8"
    explorer.button.click()
    assert explorer.reference == explorer.number
    assert explorer.gained == explorer.lost == ()
    assert "selection.min_confidence = 0.8" in explorer.panels["flips"].value


def test_it_starts_at_the_point_or_at_the_best(swept):
    """The reference is the chosen point, and without one the best combination."""
    assert mr.explore(swept).reference == int(swept.frame["tool_accuracy"].argmax())
    point = swept.pick(maximize="tool_accuracy")
    assert mr.explore(swept, reference=point).combination == point.changes


def test_the_curve_stands_along_the_slider_that_moved_last(swept, explorer):
    """Its axis is that setting, null is set apart, and each value of it is one dot a line."""
    explorer.sliders["selection.min_confidence"].value = "0.2"
    explorer.sliders["lexical.min_score"].value = "null"
    explorer.sliders["lexical.min_score"].value = "0.7"
    drawn = explorer.panels["curve"].value
    assert ">lexical.min_score</text>" in drawn
    assert ">null</text>" in drawn
    n_lines = drawn.count("<polyline")
    assert drawn.count("<circle") == n_lines * len(GRID["lexical.min_score"])
    explorer.sliders["candidate_limit"].value = "6"
    explorer.sliders["candidate_limit"].value = "1"
    assert ">candidate_limit</text>" in explorer.panels["curve"].value


def test_only_what_was_swept_has_a_slider(explorer):
    """A setting with one value is named, not moved."""
    assert list(explorer.sliders) == [name for name in GRID if name != "fusion.weights"]
    assert "fusion.weights" in explorer.panels["head"].value
    assert explorer.sliders["lexical.min_score"].options == ("0.3", "0.7", "null")


def test_moving_asks_no_model(booking, booking_dev):
    """Answers come from the sweep: not one more request, whatever is moved."""
    model = mr.SimulatedModel(booking_dev)
    asked = []
    counted = mr.ScriptedModel(lambda request: asked.append(request) or model.complete(request))
    cases = booking_dev[:20]
    grid = {"recall.max_catalog_tools": [5, 100], "selection.min_confidence": [0.0, 0.9]}
    explorer = mr.explore(mr.sweep(mr.Router(booking, model=counted), cases, grid, progress=False))
    before = len(asked)
    for tools in (100, 5, 100):
        explorer.move({"recall.max_catalog_tools": tools})
    explorer.sliders["selection.min_confidence"].value = "0.9"
    assert len(asked) == before > 0
    assert explorer.figures["model_calls"].value > 0


def test_texts_from_data_are_inert():
    """Ids and messages are escaped wherever they are shown."""
    bad = "<img src=x onerror=alert(1)>\u202e"
    tools = [mr.Tool(id=bad + n, hints=(f"say {n}",)) for n in ("alpha", "beta")]
    cases = [mr.Case(id=tool.id, message=tool.hints[0], expected_tools=(tool.id,)) for tool in tools]
    swept = mr.sweep(mr.Router(mr.Catalog(tools)), cases, {"selection.min_confidence": [0.0, 1.0]})
    explorer = mr.explore(swept)
    explorer.sliders["selection.min_confidence"].value = "1.0"
    shown = "".join(panel.value for panel in explorer.panels.values())
    assert len(explorer.lost) == 2
    assert "<img" not in shown
    assert "\u202e" not in shown
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown


def test_unrecorded_cases_flip_nowhere(booking, booking_dev, tmp_path):
    """A case that a recording cannot answer is counted, not shown as a flip."""
    cases = booking_dev[:8]
    recorded = mr.RecordedModel(tmp_path / "a.jsonl", mr.SimulatedModel(cases))
    mr.evaluate(mr.Router(booking, model=recorded), cases[:5], progress=False)
    replayed = mr.Router(booking, model=mr.RecordedModel(tmp_path / "a.jsonl"))
    swept = mr.sweep(replayed, cases, {"selection.min_confidence": [0.0, 1.0]}, progress=False)
    explorer = mr.explore(swept)
    assert int(swept.frame["unrecorded"].iloc[0]) == 3
    assert "3 cases are unrecorded" in explorer.panels["flips"].value
    assert np.isfinite(explorer.figures["tool_accuracy"].value)
    assert explorer.figures["tool_accuracy"].n == 5


def test_without_ipywidgets_the_install_line_is_named(swept, monkeypatch):
    """A missing extra says what to install."""
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match=r"pip install 'mono-router\[notebooks\]'"):
        mr.explore(swept)


def test_moves_that_lead_nowhere_are_refused(explorer):
    """The error names what there is."""
    with pytest.raises(ValueError, match=r"setting must be one of lexical\.min_score, candidate_limit"):
        explorer.move({"fusion.weights": None})
    with pytest.raises(ValueError, match="candidate_limit must be one of 1, 6, got 2"):
        explorer.move({"candidate_limit": 2})
