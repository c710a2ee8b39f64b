"""One decision code: a sweep, an evaluation and single routes give the same decision, for any settings.

Settings are drawn from a grid that holds every replay class. Single routes are made by fresh routers, so
that nothing that a sweep shares or keeps can make both sides wrong alike.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.decision_table import UNRECORDED
from mono_router.embedding import EmbeddingRetriever, LightEncoder
from mono_router.lab.evaluation import evaluate
from mono_router.lab.tuning import SWEPT, sweep
from mono_router.models.recorded import NotRecorded, RecordedModel
from mono_router.models.simulated import SimulatedModel
from mono_router.records import OUTCOMES, Case, Memory, PastCall, Selector, Trace, canonical_json
from mono_router.router import Router
from mono_router.settings import FIELDS, Settings

WEIGHTS = [{"lexical": a, "recall": b} for a, b in ((0.5, 0.5), (1.0, 0.0), (0.2, 0.8), (0.0, 1.0))]
GRID = {
    # decide
    "lexical.min_score": [None, 0.0, 0.2, 0.4, 0.6, 0.9],
    "lexical.min_margin": [0.0, 0.02, 0.2],
    "recall.max_catalog_tools": [0, 5, 17, 18, 100],
    "recall.max_catalog_chars": [400, 2000, 100_000],
    "fusion.method": ["interleave", "rrf", "weighted"],
    "fusion.weights": WEIGHTS,
    "fusion.rrf_k": [0, 60],
    "selection.min_confidence": [None, 0.0, 0.3, 0.7, 0.9],
    "selection.min_margin": [0.0, 0.05, 0.3],
    "selection.min_write_confidence": [0.0, 0.5, 0.8],
    "selection.bypass_score": [None, 0.3, 0.6],
    # truncate
    "lexical.candidate_limit": [1, 2, 6, 12, 30],
    "recall.candidate_limit": [1, 3, 6, 30],
    "recall.min_score": [None, 0.1, 0.4, 0.9],
    # select
    "candidate_limit": [1, 2, 4, 6, 30],
    "selection.max_skills": [1, 3],
    "selection.fallback_attempts": [0, 2],
    # score
    "lexical.enabled": [True, False],
    "lexical.char_ngrams": [True, False],
    "lexical.stem": [True, False],
    "lexical.strip_clitics": [True, False],
    "selection.match_schema": [True, False],
    "selection.match_clauses": [True, False],
    "recall.ask_limit": [2, 12],
    "recall.catalog_examples": [0, 2],
    "recall.level": ["tool", "skill"],
}  # fmt: skip
BY_CLASS = {
    replay: [name for name in GRID if FIELDS[name].metadata["replay"] == replay]
    for replay in ("decide", "truncate", "select", "score")
}


def test_every_class_is_drawn() -> None:
    """The grid holds settings of each replay class, and every setting that is not drawn is named here."""
    assert all(BY_CLASS.values())
    # The sources have tests of their own below; prompts are files; further layers work as those drawn.
    assert set(FIELDS) - set(GRID) == {
        "recall.source",
        "recall.prompt",
        "selection.prompt",
        "lexical.normalize_unicode",
        "lexical.field_weights",
        "lexical.rewrite_dialects",
        "lexical.normalize_arabic",
        "lexical.phrase_matching",
        "lexical.fold_hamza_forms",
    }


@st.composite
def grids(draw, classes=("decide", "truncate", "select", "score")) -> dict[str, list]:
    """One to three settings with up to two values each; one of a class that is drawn first."""
    first = draw(st.sampled_from(BY_CLASS[draw(st.sampled_from(classes))]))
    pool = [name for c in classes for name in BY_CLASS[c]]
    names = dict.fromkeys([first, *draw(st.lists(st.sampled_from(pool), max_size=2))])
    return {
        name: draw(st.lists(st.sampled_from(GRID[name]), min_size=1, max_size=2, unique_by=canonical_json))
        for name in names
    }


@pytest.fixture(scope="module")
def cases(booking: Catalog, booking_dev) -> list[Case]:
    """Dev cases of every kind, and some that are restricted to a few tools or wait for arguments."""
    picked = list(booking_dev)[::5]
    extra = [
        Case(
            id="within",
            message="cancel it please",
            expected_tools=("booking.cancel",),
            candidate_tools=("booking.cancel", "booking.list", "waitlist.leave"),
        ),
        Case(
            id="one",
            message="how much is a massage",
            expected_tools=("services.price",),
            candidate_tools=("services.price",),
        ),
        Case(id="none", message="how much is a massage", expected_tools=(), candidate_tools=()),
        Case(
            id="waits",
            message="on friday",
            expected_tools=("booking.create",),
            memory=Memory(turn=1, pending=PastCall(tool="booking.create", arguments={"service": "haircut"})),
        ),
        Case(
            id="waits apart",
            message="on friday",
            expected_tools=(),
            candidate_tools=("studio.hours",),
            memory=Memory(turn=1, pending=PastCall(tool="booking.create")),
        ),
        Case(id="unknown words", message="ᏣᎳᎩᏱ", expected_tools=()),
    ]
    return [*extra, *picked]


def some(data, cases: list[Case], n: int) -> list[Case]:
    """A few cases, drawn."""
    places = data.draw(st.lists(st.integers(0, len(cases) - 1), min_size=1, max_size=n, unique=True))
    return [cases[i] for i in places]


def routed(router: Router, case: Case) -> tuple[Trace | None, NotRecorded | None]:
    """The trace of a case alone, or the gap in the recording that it meets."""
    try:
        return router.trace(case.query, within=case.candidate_tools), None
    except NotRecorded as gap:
        return None, gap


def assert_replayed(router: Router, cases: list[Case], grid: dict[str, list], fresh) -> int:
    """Sweep, evaluation and single routes agree on every case under every combination.

    Returns how many cases were unrecorded.
    """
    swept = sweep(router, cases, grid, progress=False)
    unrecorded = 0
    for i, changes in enumerate(swept.combinations):
        settings = router._given_settings.replace(changes)
        other = fresh(settings)
        report = evaluate(other, cases, latency=False, progress=False)
        replayed = swept.report(i)
        row = swept.frame.iloc[i]
        assert row["unrecorded"] == report.n_unrecorded == replayed.n_unrecorded
        for name in SWEPT:
            known = report.columns[name][~np.isnan(report.columns[name])]
            mean = known.mean() if len(known) else math.nan
            assert row[name] == pytest.approx(mean, nan_ok=True), name
        alone = fresh(settings)
        for j, case in enumerate(cases):
            where = (case.id, changes)
            verdicts = [r.verdicts.verdict(j) for r in (report, replayed)]
            outcomes = [int(r.verdicts.outcome[j]) for r in (report, replayed)]
            trace, gap = routed(alone, case)
            if gap is not None:
                assert gap.case == case.id
                assert outcomes == [UNRECORDED] * 2, where
                assert all(v.needs is not None and v.decision is None for v in verdicts)
                unrecorded += 1
                continue
            assert [OUTCOMES[o] for o in outcomes] == [trace.decision.outcome] * 2, where
            expected = canonical_json(trace.decision)
            for one, verdict in zip((report, replayed), verdicts, strict=True):
                assert canonical_json(verdict.decision) == expected, where
                assert verdict.candidates == trace.candidates, where
                assert verdict.fused == trace.fused, where
                assert (verdict.lexical, verdict.recall) == (trace.lexical, trace.recall), where
                assert one.verdicts.usage(j) == trace.usage, where
                assert one.verdicts.p_tool[j] == trace.decision.p_tool
                assert one.verdicts.confidence[j] == trace.decision.confidence
        assert list(report.frame["outcome"]) == list(replayed.frame["outcome"])
    return unrecorded


@pytest.fixture(scope="module")
def lean(booking: Catalog) -> Catalog:
    """Booking without examples and most hints: quick to fit, for settings that score anew."""
    tools = [
        dataclasses.replace(t, examples=(), hints=t.hints[:1] if i % 4 == 0 else ())
        for i, t in enumerate(booking)
    ]
    return Catalog(tools, booking.skills.values())


@pytest.fixture(scope="module")
def local(booking_router) -> Selector:
    """The local selector over booking, fitted once."""
    return booking_router.selector


@pytest.mark.parametrize("replay", ["decide", "truncate", "select"])
@examples(max_examples=5)
@given(data=st.data())
def test_local_without_encoder(booking, booking_router, local, cases, replay, data) -> None:
    """With the local selector and lexical evidence alone, what is decided anew replays exactly."""
    grid = data.draw(grids((replay,) if replay != "select" else ("select", "truncate")))

    def fresh(settings: Settings) -> Router:
        return Router(booking, settings=settings, selector=local)

    assert assert_replayed(booking_router, some(data, cases, 8), grid, fresh) == 0


@examples(max_examples=5)
@given(data=st.data())
def test_local_scored_anew(lean, cases, data) -> None:
    """What is scored anew is fitted anew, and gives what a new router gives."""
    grid = data.draw(grids(("score", "decide")))
    assert assert_replayed(Router(lean), some(data, cases, 8), grid, lambda s: Router(lean, settings=s)) == 0


@pytest.fixture(scope="module")
def light(booking, booking_encoder) -> Router:
    return Router(booking, encoder=booking_encoder)


@pytest.mark.parametrize("replay", ["decide", "truncate", "select"])
@examples(max_examples=5)
@given(data=st.data())
def test_local_with_embedding(booking, light, cases, replay, data) -> None:
    """With the embedding stage, what is decided anew replays exactly."""

    def fresh(settings: Settings) -> Router:
        return Router(booking, settings=settings, retriever=light.retriever, selector=light.selector)

    assert assert_replayed(light, some(data, cases, 8), data.draw(grids((replay, "decide"))), fresh) == 0


@examples(max_examples=4)
@given(data=st.data())
def test_embedding_scored_anew(lean, cases, data) -> None:
    """With the embedding stage, as a source or not, what is scored anew is what a new router gives."""
    retriever = EmbeddingRetriever(lean, LightEncoder(), cache=None)
    grid = data.draw(grids(("score", "decide"))) | {"recall.source": ["embedding", "none"]}

    def fresh(settings: Settings) -> Router:
        return Router(lean, settings=settings, retriever=retriever)

    assert assert_replayed(fresh(Settings()), some(data, cases, 6), grid, fresh) == 0


RECORDED_UNDER = [
    {},
    {"lexical.min_score": None},
    {"lexical.min_score": 0.4, "candidate_limit": 2, "fusion.method": "interleave"},
    {"recall.ask_limit": 2, "lexical.min_score": None},
]
"""Settings under which the model was asked; others find some of their answers in what these recorded."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory, booking, cases) -> Path:
    """Answers of a simulated model, to some of the cases under some settings."""
    path = tmp_path_factory.mktemp("recording") / "simulated.jsonl"
    model = RecordedModel(path, SimulatedModel(cases, accuracy=0.9))
    for changes in RECORDED_UNDER:
        router = Router(booking, model=model, settings=Settings().replace(changes))
        for case in cases[: len(cases) * 2 // 3]:
            router.trace(case.query, within=case.candidate_tools)
    assert len(model) > 100
    return path


@pytest.fixture(scope="module")
def replaying(recording) -> RecordedModel:
    """The recording without a model: what was not asked raises."""
    return RecordedModel(recording)


@pytest.mark.parametrize("replay", BY_CLASS)
@examples(max_examples=5)
@given(data=st.data())
def test_recorded_model(booking, cases, replaying, replay, data) -> None:
    """With a recorded model, what was answered replays exactly; what was not is unrecorded, and counted."""
    base = Settings().replace(data.draw(st.sampled_from(RECORDED_UNDER)))
    router = Router(booking, model=replaying, settings=base)
    assert_replayed(
        router, some(data, cases, 8), data.draw(grids((replay, "decide"))),
        lambda s: Router(booking, model=replaying, settings=s),
    )  # fmt: skip


def test_recorded_answers_and_gaps(booking, cases, replaying) -> None:
    """A replay has both: cases that the recording answers and cases that it does not."""
    router = Router(booking, model=replaying)
    grid = {"candidate_limit": [2, 5, 6], "lexical.min_score": [None, 0.4]}
    gaps = assert_replayed(router, cases, grid, lambda s: Router(booking, model=replaying, settings=s))
    swept = sweep(router, cases, grid, progress=False)
    assert gaps == swept.frame["unrecorded"].sum() > 0
    assert (swept.frame["unrecorded"] < len(cases)).all()
    summary = swept.report(0).summary(["tool_accuracy"]).loc["tool_accuracy"]
    assert summary["worst"] <= summary["value"] <= summary["best"]
    assert summary["n"] + swept.report(0).n_unrecorded == len(cases)


@pytest.mark.parametrize("source", ["model", "both", "embedding", "none"])
@examples(max_examples=5)
@given(data=st.data())
def test_simulated_model(booking, light, cases, source, data) -> None:
    """With a model that can be asked, from any source of recall, nothing is unrecorded and all is equal."""
    model = SimulatedModel(cases)
    base = Settings().replace({"recall.source": source})

    def fresh(settings: Settings) -> Router:
        return Router(booking, settings=settings, retriever=light.retriever, model=model)

    grid = data.draw(grids())
    assert assert_replayed(fresh(base), some(data, cases, 8), grid, fresh) == 0


@examples(max_examples=5)
@given(data=st.data())
def test_model_recall_with_local_selector(booking, light, cases, data) -> None:
    """A model that recalls for the local selector replays exactly too."""
    model, selector = SimulatedModel(cases), light.selector

    def fresh(settings: Settings) -> Router:
        return Router(booking, settings=settings, model=model, selector=selector)

    grid = data.draw(grids(("decide", "truncate", "select")))
    assert assert_replayed(fresh(Settings()), some(data, cases, 8), grid, fresh) == 0


def test_a_sweep_asks_nothing_twice(booking, cases) -> None:
    """Over a whole sweep no request goes to the model twice."""
    from mono_router.models.scripted import ScriptedModel

    simulated = SimulatedModel(cases)
    model = ScriptedModel(simulated.complete)
    sweep(
        Router(booking, model=model),
        cases[:20],
        {
            "lexical.min_score": [None, 0.4, 0.9],
            "candidate_limit": [3, 6],
            "selection.min_confidence": [0.0, 0.8],
        },
        progress=False,
    )
    asked = [(request.case, request.hash) for request in model.requests]
    assert len(asked) == len(set(asked))


def test_jobs_change_nothing(booking, cases) -> None:
    """Asking a model in eight threads gives the report that asking in one gives."""
    router = Router(booking, model=SimulatedModel(cases))
    reports = [evaluate(router, cases, jobs=jobs, progress=False) for jobs in (1, 8)]
    assert reports[0].to_json() == reports[1].to_json()
