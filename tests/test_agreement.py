"""Several askings per case: how far a model repeats itself, recorded and replayed."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import call
from hypothesis import given
from hypothesis import strategies as st

from mono_router.catalog import NO_TOOL, Catalog, wire_name
from mono_router.lab.evaluation import evaluate
from mono_router.lab.metrics import agreement_columns
from mono_router.models.recorded import RecordedModel
from mono_router.models.scripted import ScriptedModel
from mono_router.models.simulated import SimulatedModel
from mono_router.records import Answer, Call, Case, ModelError, ModelRequest, ToolCall
from mono_router.router import Router
from mono_router.settings import Settings

SELECT = Settings().replace({"lexical.min_score": 0.0})
"""Every message is confident: selection alone."""
MESSAGE = "turn on the light, what time is it, what is on my calendar"
CASES = [Case(id=f"c{i}", message=f"{MESSAGE} {i}", expected_tools=("clock.now",)) for i in range(3)]
KINDS: dict[str, Any] = {
    "clock": call(wire_name("clock.now")),
    "calendar": call(wire_name("calendar.list")),
    "asks": call(wire_name("light.switch"), {"room": "hall"}),
    "calls": call(wire_name("light.switch"), {"room": "hall", "state": "on"}),
    "none": ToolCall(name=NO_TOOL, arguments={"confidence": 0.9}),
    "bad": call("made_up"),
    "worse": call(wire_name("clock.now"), {"zone": 1}),
    "failed": ModelError("MODEL_TIMEOUT", "slow"),
}
DECIDED = {
    "clock": {"clock.now"}, "calendar": {"calendar.list"}, "asks": {"light.switch"},
    "calls": {"light.switch"}, "none": set(), "bad": "rejected", "worse": "rejected", "failed": None,
}  # fmt: skip
"""What counts as the same decision."""


def scripted(answers: dict[str, list[str]]) -> ScriptedModel:
    """A model with one kind of answer for each asking of each case."""
    return ScriptedModel(lambda r: KINDS[answers[str(r.case)][r.repeat]])


@given(
    st.integers(2, 4).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from(sorted(KINDS)), min_size=n, max_size=n), min_size=3, max_size=3
        )
    )
)
def test_slow_definition(catalog: Catalog, kinds: list[list[str]]) -> None:
    """All the same, and the share of pairs that are: over tools alone, where every asking gave an answer."""
    model = scripted({case.id: row for case, row in zip(CASES, kinds, strict=True)})
    router = Router(catalog, model=model, settings=SELECT)
    report = evaluate(router, CASES, repeats=len(kinds[0]), latency=False, progress=False)
    for i, row in enumerate(kinds):
        decided = [DECIDED[kind] for kind in row]
        found = [report.frame[name].iloc[i] for name in ("agreement", "pairwise_agreement")]
        if None in decided:
            assert np.isnan(found).all()
            continue
        pairs = [one == two for one, two in itertools.combinations(decided, 2)]
        assert found == [float(all(pairs)), pytest.approx(sum(pairs) / len(pairs))]
    known = [row for row in kinds if "failed" not in row]
    assert report.metric("agreement").n == len(known)


def test_the_first_asking_is_the_evaluation(catalog: Catalog) -> None:
    """All other metrics, spending included, are those of one asking; the summary has two more rows."""
    model = scripted({"c0": ["clock", "calendar"], "c1": ["clock", "clock"], "c2": ["none", "none"]})
    once, twice = (
        evaluate(
            Router(catalog, model=model, settings=SELECT), CASES, repeats=n, latency=False, progress=False
        )
        for n in (1, 2)
    )
    assert len(model.requests) == 3 * len(CASES)
    summary = twice.summary()
    added = ["agreement", "pairwise_agreement"]
    assert set(summary.index) - set(once.summary().index) == set(added)
    assert summary.drop(added).equals(once.summary())
    assert list(twice.frame["agreement"]) == [0.0, 1.0, 1.0]
    row = summary.loc["agreement"]
    assert (row["value"], row["n"], row["n_groups"]) == (pytest.approx(2 / 3), 3, 3)
    assert row["low"] < row["value"] < row["high"]
    assert (twice.provenance["repeats"], "repeats" in once.provenance) == (2, False)
    assert once.repeats == ()
    assert "agreement" not in once.frame
    with pytest.raises(ValueError, match="unknown metric 'agreement'"):
        once.metric("agreement")


def test_one_asking_is_what_it_was(booking: Catalog, booking_dev: Any) -> None:
    """``repeats=1`` gives, byte for byte, the report of an evaluation that says nothing of repeats."""
    router = Router(booking, model=SimulatedModel(booking_dev))
    plain, once = (
        evaluate(router, booking_dev[:30], latency=False, progress=False, **options)
        for options in ({}, {"repeats": 1})
    )
    assert plain.to_json() == once.to_json()


def test_recall_is_asked_again_too(catalog: Catalog) -> None:
    """An asking starts from nothing: recall may differ, and the shortlist with it."""

    def rule(request: ModelRequest) -> Any:
        if request.purpose == "recall":
            return {"candidates": [["clock.now"], ["weather.forecast"]][request.repeat]}
        return call(request.tools[0].name)

    case = Case(id="c", message="qqq zzz", expected_tools=("clock.now",))
    model = ScriptedModel(rule)
    report = evaluate(Router(catalog, model=model), [case], repeats=2, progress=False)
    assert [(r.purpose, r.repeat) for r in model.requests] == [
        ("recall", 0), ("selection", 0), ("recall", 1), ("selection", 1),
    ]  # fmt: skip
    assert report.metric("agreement").value == 0.0
    assert report.repeats[0].called(0) == ("weather.forecast",)


def test_nothing_is_asked_of_a_selector_that_scores(booking_router: Router, booking_dev: Any) -> None:
    """What is deterministic agrees with itself, and costs nothing more."""
    cases = booking_dev[:20]
    once, report = (evaluate(booking_router, cases, repeats=n, latency=False) for n in (1, 5))
    assert (report.frame[["agreement", "pairwise_agreement"]] == 1.0).all(axis=None)
    assert report.summary().drop(["agreement", "pairwise_agreement"]).equals(once.summary())
    assert all(verdicts is report.verdicts for verdicts in report.repeats)


class Fickle:
    """A selector of someone's own, which says another tool each time."""

    def __init__(self) -> None:
        self.n = 0

    def select(self, query: Any, shortlist: Any) -> Answer:
        self.n += 1
        return Answer(calls=(Call(tool=shortlist[self.n % len(shortlist)].id),), mode="tool", confidence=0.9)


def test_a_selector_of_ones_own(catalog: Catalog) -> None:
    """A selector that does not score is asked again as it is."""
    selector = Fickle()
    report = evaluate(
        Router(catalog, selector=selector, settings=SELECT), CASES[:1], repeats=3, progress=False
    )
    assert selector.n == 3
    assert report.metric("agreement").value == 0.0


def test_recorded_and_replayed(booking: Catalog, booking_dev: Any, tmp_path: Path) -> None:
    """A recording keeps every asking; replayed it gives the same report, and what it lacks is not known."""
    cases = booking_dev[:24]
    path = tmp_path / "r.jsonl"
    live = RecordedModel(path, SimulatedModel(booking_dev, accuracy=0.85))
    report = evaluate(Router(booking, model=live), cases, repeats=3, jobs=4, progress=False)
    assert 0.3 < report.metric("agreement").value < 1.0
    assert report.metric("agreement").value <= report.metric("pairwise_agreement").value
    n = len(live)
    again = evaluate(Router(booking, model=RecordedModel(path)), cases, repeats=3, progress=False)
    assert again.to_json() == report.to_json()
    more = evaluate(Router(booking, model=RecordedModel(path)), cases, repeats=4, progress=False)
    assert (more.n_unrecorded, more.metric("agreement").n) == (0, 0)
    assert more.metric("tool_accuracy") == report.metric("tool_accuracy")
    extended = evaluate(Router(booking, model=live), cases, repeats=4, progress=False)
    assert extended.metric("agreement").n == len(cases)
    assert len(live) - n < n  # the fourth asking alone


def test_jobs_change_nothing(booking: Catalog, booking_dev: Any) -> None:
    router = Router(booking, model=SimulatedModel(booking_dev, accuracy=0.8))
    reports = [evaluate(router, booking_dev[:30], repeats=3, jobs=jobs, progress=False) for jobs in (1, 6)]
    assert reports[0].to_json() == reports[1].to_json()


def test_an_ambiguous_pair_is_its_two_tools(catalog: Catalog, booking_router: Router) -> None:
    """Showing two tools is another decision than calling one of them; their order does not matter."""
    settings = booking_router.settings.replace({"selection.min_margin": 1.0})
    router = booking_router.with_settings(settings)
    case = Case(id="a", message="how much is a haircut", expected_tools=("services.price",))
    pair = evaluate(router, [case], latency=False).verdicts
    one = evaluate(booking_router, [case], latency=False).verdicts
    turned = dataclasses.replace(pair, ranked=pair.ranked[:, [1, 0, *range(2, pair.ranked.shape[1])]])
    assert agreement_columns([pair, turned])["agreement"][0] == 1.0
    assert agreement_columns([pair, one])["agreement"][0] == 0.0


def test_repeats_must_be_positive(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="repeats must be >= 1, got 0"):
        evaluate(Router(catalog), CASES, repeats=0)
