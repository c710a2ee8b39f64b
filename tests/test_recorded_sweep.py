"""A sweep recorded once through the real SDK, and replayed with the server gone.

A local server that speaks the Messages API answers from the labels, with errors of its own. What is
recorded there must be enough: the same sweep without server, key or model gives the same reports.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages_server import KEY, Answer, MessagesServer, error, message, no_tool, text, use

from mono_router.catalog import Catalog, wire_name
from mono_router.lab.evaluation import evaluate
from mono_router.lab.metrics import SPENT
from mono_router.lab.tuning import Sweep, sweep
from mono_router.models.claude import ROUTING_MODEL, AnthropicModel
from mono_router.models.recorded import NotRecorded, RecordedModel
from mono_router.records import Case
from mono_router.router import Router
from mono_router.settings import FIELDS, Settings

DECIDE = {
    "selection.min_confidence": [0.0, 0.6, 0.9],
    "selection.min_write_confidence": [0.0, 0.8],
    "selection.min_margin": [0.0, 0.2],
}
"""Thresholds on stored confidences: decided anew from the same answers."""
SELECT = {"lexical.min_score": [None, 0.5, 0.8], "candidate_limit": [4, 6]}
"""What changes the shortlist, or whether a model runs."""


class Answering:
    """Answers recall and selection as a fallible model would, the same every time."""

    def __init__(self, cases: Sequence[Case], ids: Sequence[str]) -> None:
        self._cases = {case.message: case for case in cases}
        self._ids = ids

    def __call__(self, body: dict[str, Any]) -> Answer:
        content = body["messages"][0]["content"]
        said = json.loads(content.rsplit("<message>", 1)[1].removesuffix("</message>"))
        case = self._cases[said]
        draws = random.Random(case.id + json.dumps(body.get("tools"), sort_keys=True))
        expected = list(case.expected_tools)
        if "tools" not in body:
            found = draws.sample(list(self._ids), 5)
            return text(json.dumps({"candidates": found[:2] + expected + found[2:]}))
        names = [tool["name"] for tool in body["tools"][:-1]]
        right = [wire_name(tool) for tool in expected if wire_name(tool) in names]
        if right and draws.random() < 0.85:
            mode = body["tools"][names.index(right[0])]["input_schema"]["properties"]["mode"]["enum"][0]
            return message(use(right[0], mode=mode, confidence=round(draws.uniform(0.5, 1.0), 2)))
        if names and draws.random() < 0.3:
            return message(use(draws.choice(names), confidence=round(draws.uniform(0.3, 0.8), 2)))
        return message(no_tool(round(draws.uniform(0.4, 1.0), 2)))


@pytest.fixture(scope="module")
def cases(booking_dev: Any) -> list[Case]:
    return list(booking_dev)[::9]


class Recording:
    """What was recorded, and what it took."""

    def __init__(self, path: Path, catalog: Catalog, cases: Sequence[Case]) -> None:
        self.path, self.bodies = path, {}
        with MessagesServer(Answering(cases, catalog.ids)) as server:
            self.model = AnthropicModel(api_key=KEY, base_url=server.url)
            recorded = RecordedModel(path, self.model)
            router = Router(catalog, model=recorded)
            self.first = evaluate(router, cases, jobs=4, progress=False)
            self.n_first = len(server.bodies)
            self.decided = sweep(router, cases, DECIDE, jobs=4, progress=False)
            self.n_decided = len(server.bodies) - self.n_first
            self.selected = sweep(router, cases, SELECT, jobs=4, progress=False)
            self.bodies = list(server.bodies)
            assert server.refused == []


@pytest.fixture(scope="module")
def recording(
    booking: Catalog, cases: list[Case], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recording]:
    """The sweeps, recorded; the server is closed and the model cannot reach it any more."""
    patch = pytest.MonkeyPatch()
    patch.setenv("NO_PROXY", "127.0.0.1")
    found = Recording(tmp_path_factory.mktemp("recorded") / "claude.jsonl", booking, cases)
    patch.undo()
    yield found
    found.model.close()


def replayed(recording: Recording, catalog: Catalog, cases: Sequence[Case], grid: Mapping[str, Any]) -> Sweep:
    model = RecordedModel(recording.path)
    assert model.name == ROUTING_MODEL
    return sweep(Router(catalog, model=model), cases, grid, progress=False)


def test_the_grids_are_what_they_say() -> None:
    assert {FIELDS[name].metadata["replay"] for name in DECIDE} == {"decide"}


def test_decide_settings_ask_nothing(recording: Recording, cases: list[Case]) -> None:
    """Thresholds on what was answered are swept with no further call."""
    assert recording.n_first > len(cases)
    assert recording.n_decided == 0
    frame = recording.decided.frame
    assert (frame["unrecorded"] == 0).all()
    assert frame["tool_accuracy"].nunique() > 1


def test_select_settings_ask_once_per_distinct_request(recording: Recording) -> None:
    """No two of all the requests are the same, and all of them are on file."""
    seen = [json.dumps(body, sort_keys=True) for body in recording.bodies]
    assert len(seen) == len(set(seen))
    assert len(RecordedModel(recording.path)) == len(seen)
    n_settings = len(recording.selected)
    assert len(seen) < 2 * n_settings * len(recording.first)


def test_replay_is_identical(recording: Recording, booking: Catalog, cases: list[Case]) -> None:
    """Without server, key or model: the same table, and under every setting the same report, to the byte."""
    for live, grid in ((recording.decided, DECIDE), (recording.selected, SELECT)):
        again = replayed(recording, booking, cases, grid)
        assert again.frame.equals(live.frame)
        for i in range(len(live)):
            new, old = again.report(i), live.report(i)
            assert new.frame.equals(old.frame)
            if i % 4 == 0:  # the whole report, with intervals and provenance
                assert new.to_json() == old.to_json()
    once = evaluate(Router(booking, model=RecordedModel(recording.path)), cases, progress=False)
    assert once.to_json() == recording.first.to_json()
    assert once.provenance["model"] == ROUTING_MODEL
    assert not once.provenance["simulated"]


def test_spending_is_recomputed(recording: Recording, booking: Catalog, cases: list[Case]) -> None:
    """Calls, tokens and dollars are what each setting would have spent, as an evaluation under it counts."""
    frame = recording.selected.frame
    for i, settings in enumerate(recording.selected.settings):
        router = Router(booking, model=RecordedModel(recording.path), settings=settings)
        report = evaluate(router, cases, progress=False)
        for name in SPENT:
            assert frame[name][i] == pytest.approx(report.metric(name).value, rel=1e-12), name
    assert (frame["cost_usd"] > 0).all()
    for _, group in frame.groupby("candidate_limit"):
        costs = group.set_index("lexical.min_score")["cost_usd"]
        assert costs[costs.index.isna()].item() > costs[0.8] > costs[0.5]  # the less recall, the cheaper
    # Recall reads the catalog from the cache: all but the first of its requests.
    assert (frame["cache_read_tokens"] > 10 * frame["cache_write_tokens"]).all()


def test_what_was_never_asked(recording: Recording, booking: Catalog, cases: list[Case]) -> None:
    """Other shortlists have no answer: those cases are counted, and every figure says what they could do."""
    grid = {"candidate_limit": [2], "lexical.min_score": [None, 0.65]}
    swept = replayed(recording, booking, cases, grid)
    missing = swept.frame["unrecorded"]
    assert (missing > 0).all()
    for i in range(len(swept)):
        report = swept.report(i)
        assert report.n_unrecorded == missing[i]
        row = report.summary(["tool_accuracy"]).loc["tool_accuracy"] if missing[i] < len(cases) else None
        if row is not None:
            assert row["n"] == len(cases) - missing[i]
            right = row["value"] * row["n"]
            assert row["worst"] == pytest.approx(right / len(cases))
            assert row["best"] == pytest.approx((right + missing[i]) / len(cases))
    router = Router(booking, model=RecordedModel(recording.path), settings=swept.settings[0])
    case = next(
        c for c, out in zip(cases, swept.report(0).frame["outcome"], strict=True) if out == "unrecorded"
    )
    with pytest.raises(NotRecorded, match=f"no selection reply recorded for case {case.id}"):
        router.trace(case.query)


def test_bounds_hold(recording: Recording, booking: Catalog, cases: list[Case]) -> None:
    """With half of the recording gone, the bounds hold what the whole would have given."""
    lines = recording.path.read_text().splitlines(keepends=True)
    half = recording.path.with_name("half.jsonl")
    half.write_text("".join(lines[::2]))
    report = evaluate(Router(booking, model=RecordedModel(half)), cases, progress=False)
    assert 0 < report.n_unrecorded < len(cases)
    for name in ("tool_accuracy", "recall_rate", "model_recall_calls"):
        row = report.summary([name]).loc[name]
        whole = recording.first.metric(name).value
        assert row["worst"] - 1e-12 <= whole <= row["best"] + 1e-12, name


def test_a_changed_prompt_matches_nothing(
    recording: Recording, booking: Catalog, cases: list[Case], tmp_path: Path
) -> None:
    """Another prompt or catalog finds no old answer, and the recording says which lines are left behind."""
    prompt = tmp_path / "selection.txt"
    prompt.write_text("Choose a tool, or none.")
    model = RecordedModel(recording.path)
    settings = Settings().replace({"selection.prompt": str(prompt)})
    report = evaluate(Router(booking, model=model, settings=settings), cases, progress=False)
    assert report.n_unrecorded == len(cases)
    row = report.summary(["tool_accuracy"]).loc["tool_accuracy"]
    assert (row["n"], row["worst"], row["best"]) == (0, 0.0, 1.0)
    assert np.isnan(row["value"])
    assert "unrecorded" in report._repr_html_()
    left = model.stale()
    assert {line["purpose"] for line in left} >= {"selection"}
    assert all(line["model"] == ROUTING_MODEL for line in left)


def test_a_failure_is_asked_again(booking: Catalog, cases: list[Case], tmp_path: Path) -> None:
    """A provider failure is no line and no "no tool": the next run asks for it alone."""
    n_failing = iter([True] * 3)
    answering = Answering(cases, booking.ids)

    def script(body: dict[str, Any]) -> Answer:
        if "tools" in body and next(n_failing, False):
            return error(500, "api_error")
        return answering(body)

    with pytest.MonkeyPatch.context() as patch, MessagesServer(script) as server:
        patch.setenv("NO_PROXY", "127.0.0.1")
        model = AnthropicModel(api_key=KEY, base_url=server.url, max_attempts=1)
        router = Router(booking, model=RecordedModel(tmp_path / "r.jsonl", model))
        first = evaluate(router, cases[:8], progress=False)
        n = len(server.bodies)
        second = evaluate(router, cases[:8], progress=False)
        model.close()
    assert (first.frame["outcome"] == "error").sum() == 3
    assert (second.frame["outcome"] != "error").all()
    assert len(server.bodies) - n == 3
    same = first.frame["outcome"] != "error"
    assert np.array_equal(first.frame["tools"][same], second.frame["tools"][same])
