"""The decision: its array twin on random evidence, and what no setting may break."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mono_router.branches import CODES, N_FUSED
from mono_router.decision import (
    Evidence,
    Verdict,
    answer_shares,
    decide,
    model_score,
    probabilities,
    shown_to_model,
)
from mono_router.decision_table import UNRECORDED, TableDecider
from mono_router.evidence_table import EvidenceTable, ToolFacts
from mono_router.fusion import MISSED
from mono_router.records import Answer, Call, Filled, Hit, Query, RecallAnswer, Rejection, Tool, accepts
from mono_router.settings import Settings

SCHEMA = {"properties": {"x": {"type": "string"}}, "required": ["x"]}
OPTIONAL = {"properties": {"x": {"type": "string"}}}
TOOLS = {
    tool.id: tool
    for tool in (
        Tool(id="a", description="A"),
        Tool(id="b", description="B", effects="write", skill="s"),
        Tool(id="c", description="C", input_schema=SCHEMA),
        Tool(id="d", description="D", input_schema=OPTIONAL, skill="s", modes=("tool",)),
        Tool(id="e", description="E", input_schema=SCHEMA, effects="write"),
        Tool(id="f", description="F", skill="t"),
        Tool(id="g", description="G", input_schema=OPTIONAL, skill="t"),
    )
}
IDS = tuple(TOOLS)
GRID = st.sampled_from([0.0, 0.0, 0.2, 0.35, 0.5, 0.5, 0.7, 0.7, 0.9, 1.0])
ODDS = st.sampled_from([-4.0, -1.0, -0.25, 0.0, 0.0, 0.4, 1.5, 1.5, 3.0])
THRESHOLD = st.sampled_from([0.0, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0])


def fill(query: Query, tool: Tool) -> Filled:
    """Arguments that depend on the message: odd ones state x."""
    given_ = {"x": "y"} if tool.properties and len(query.message) % 2 else {}
    missing = tuple(f"/{name}" for name in tool.required if name not in given_)
    return Filled(arguments=given_, missing=missing, mode=tool.modes[0])


class Stub:
    """A calibration that bends every signal a little."""

    def apply(self, signals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        s = signals.T
        tool = np.clip(0.1 + 0.5 * s[4] + 0.2 * s[0] + 0.1 * s[2] - 0.05 * s[1] + 0.02 * s[3], 0, 1)
        return tool, np.clip(tool * (0.2 + 0.7 * s[5]) - 0.1 * s[6], 0, 1), np.clip(0.7 - tool, 0, 1)


def ranks(scores: np.ndarray, width: int, least: float) -> np.ndarray:
    """Rank of each tool among the best ``width`` that score above ``least``, ties by id."""
    found = np.full(len(scores), MISSED)
    order = [i for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)) if scores[i] > least]
    found[order[:width]] = np.arange(len(order[:width]))
    return found


@st.composite
def tables(draw, *, embedding: bool | None = None) -> EvidenceTable:
    n = draw(st.integers(1, 5))
    t = len(IDS)
    width = draw(st.integers(2, t))
    has_embedding = draw(st.booleans()) if embedding is None else embedding

    def matrix(values) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=n * t, max_size=n * t))).reshape(n, t)

    lexical, near, odds = matrix(GRID), matrix(GRID), matrix(ODDS)
    pending = np.array(draw(st.lists(st.sampled_from([-1, -1, *range(t)]), min_size=n, max_size=n)), np.int32)
    lexical_rank = np.array([ranks(row, width, 0.0) for row in lexical])
    near_rank = np.array([ranks(row, width, -1.0) for row in near])
    members = [
        [
            j
            for j in range(t)
            if lexical_rank[i, j] < MISSED or pending[i] == j or (has_embedding and near_rank[i, j] < MISSED)
        ]
        for i in range(n)
    ]
    union = np.full((n, max(1, *(len(m) for m in members))), -1, dtype=np.int32)
    for i, row in enumerate(members):
        union[i, : len(row)] = row
    known = np.where(union >= 0, union, 0)

    def taken(full: np.ndarray, absent: float) -> np.ndarray:
        return np.where(union >= 0, np.take_along_axis(full, known, axis=1), absent)

    def scale() -> np.ndarray:
        spread, trust = st.sampled_from([0.0, 0.1, 0.3]), st.sampled_from([1.0, 0.0, 0.4])
        return np.array([[draw(GRID), draw(spread), draw(trust)] for _ in range(n)])

    def clauses(i: int) -> np.ndarray:
        n_clauses = draw(st.sampled_from([0, 0, 2, 3]))
        parts = np.array([[draw(ODDS) * 3 for _ in range(t)] for _ in range(n_clauses)]).reshape(n_clauses, t)
        return np.where(union[i] >= 0, parts[:, known[i]], -np.inf)

    messages = draw(st.lists(st.sampled_from(["odd", "even"]), min_size=n, max_size=n))
    return EvidenceTable(
        queries=tuple(Query(message=m) for m in messages),
        facts=ToolFacts.of(list(TOOLS.values())),
        union=union,
        lexical=taken(lexical, 0.0),
        lexical_rank=taken(lexical_rank, MISSED).astype(np.int64),
        lexical_scale=scale(),
        embedding=taken(near, -np.inf) if has_embedding else None,
        embedding_rank=taken(near_rank, MISSED).astype(np.int64) if has_embedding else None,
        embedding_scale=scale() if has_embedding else None,
        log_odds=taken(odds, -np.inf),
        part_odds=[clauses(i) for i in range(n)],
        pending=pending,
        offered=[None] * n,
        n_offered=np.full(n, t),
        catalog_chars=np.zeros(n, dtype=np.int64),
        fill=fill,
    )


@st.composite
def any_settings(draw, *, embedding: bool) -> Settings:
    limit = st.integers(1, 8)
    sources = ["embedding", "none"] if embedding else ["none"]
    return Settings().replace(
        {
            "lexical.enabled": draw(st.sampled_from([True, True, True, False])),
            "lexical.min_score": draw(st.none() | THRESHOLD),
            "lexical.min_margin": draw(st.sampled_from([0.0, 0.0, 0.15, 0.2, 0.5])),
            "lexical.candidate_limit": draw(limit),
            "recall.source": draw(st.sampled_from(sources)),
            "recall.candidate_limit": draw(limit),
            "recall.ask_limit": draw(limit),
            "recall.min_score": draw(st.none() | THRESHOLD),
            "fusion.method": draw(st.sampled_from(["interleave", "rrf", "weighted"])),
            "fusion.weights": {n: draw(st.sampled_from([0.0, 0.5, 1.0])) for n in ("lexical", "recall")},
            "fusion.rrf_k": draw(st.sampled_from([0, 60])),
            "candidate_limit": draw(limit),
            "selection.min_confidence": draw(THRESHOLD),
            "selection.min_margin": draw(st.sampled_from([0.0, 0.0, 0.1, 0.4])),
            "selection.min_write_confidence": draw(st.sampled_from([0.0, 0.0, 0.5, 0.9])),
            "selection.bypass_score": draw(st.none() | THRESHOLD),
        }
    )


def scalar(table: EvidenceTable, i: int, settings: Settings, calibration=None) -> Verdict:
    """The verdict by the definition, arguments filled when they are asked for."""
    while True:
        verdict = decide(table.row(i), settings, TOOLS, calibration)
        if verdict.needs is None:
            return verdict
        assert verdict.needs.kind == "fill"
        table.fill_for(i, verdict.needs.tools[0])


def names(numbers: np.ndarray) -> list[str]:
    return [IDS[t] for t in numbers.tolist() if t >= 0]


@examples(max_examples=250)
@given(st.data())
def test_arrays_equal_the_definition(data) -> None:
    """Deciding a table gives, row by row, what the scalar definition gives."""
    table = data.draw(tables())
    calibration = data.draw(st.sampled_from([None, Stub()]))
    decider = TableDecider(table, calibration)
    for _ in range(3):  # one decider serves several settings and keeps what they share
        settings = data.draw(any_settings(embedding=table.embedding is not None))
        found = decider.decide(settings)
        for i in range(len(table)):
            verdict = scalar(table, i, settings, calibration)
            decision = verdict.decision
            assert found.outcome[i] == CODES[decision.outcome]
            assert names(found.tool[i : i + 1]) == ([decision.tool] if decision.tool else [])
            assert found.called(i) == tuple(dict.fromkeys(c.tool for c in decision.calls))
            shown = [r.tool for r in decision.ranked]
            assert names(found.ranked[i]) == shown
            assert names(found.fused[i]) == [c.tool for c in verdict.fused[:N_FUSED]]
            assert names(found.candidates[i]) == [c.tool for c in verdict.candidates]
            assert found.p_tool[i] == decision.p_tool
            assert found.confidence[i] == decision.confidence
            assert bool(found.confident[i]) == verdict.lexical.confident
            assert bool(found.recalled[i]) == verdict.recall.used
            bypassed = verdict.selection is not None and verdict.selection.bypassed
            assert bool(found.bypassed[i]) == bypassed
            assert found.verdict(i) == verdict


@given(st.data())
def test_a_higher_bar_never_accepts_more(data) -> None:
    """Raising min_confidence never turns a message without a tool into one with a tool."""
    table = data.draw(tables())
    base = data.draw(any_settings(embedding=table.embedding is not None))
    low, high = sorted(data.draw(st.tuples(THRESHOLD, THRESHOLD)))
    accepted = [
        TableDecider(table).decide(base.replace({"selection.min_confidence": level})).outcome
        != CODES["no_tool"]
        for level in (low, high)
    ]
    assert (accepted[0] | ~accepted[1]).all()


@given(st.data())
def test_a_higher_write_bar_never_writes_more(data) -> None:
    """Raising min_write_confidence never adds a call that writes."""
    table = data.draw(tables())
    base = data.draw(any_settings(embedding=table.embedding is not None))
    low, high = sorted(data.draw(st.tuples(THRESHOLD, THRESHOLD)))
    wrote = []
    for level in (low, high):
        found = TableDecider(table).decide(base.replace({"selection.min_write_confidence": level}))
        wrote.append(table.facts.writes[found.tool] & (found.tool >= 0))
    assert (wrote[0] | ~wrote[1]).all()


@given(st.data())
def test_a_higher_min_score_is_never_more_confident(data) -> None:
    """Raising min_score never lets stage 2 be skipped more often, and null never skips it."""
    table = data.draw(tables(embedding=True))
    base = data.draw(any_settings(embedding=True)).replace({"recall.source": "embedding"})
    low, high = sorted(data.draw(st.tuples(THRESHOLD, THRESHOLD)))
    decider = TableDecider(table)
    found = [decider.decide(base.replace({"lexical.min_score": x})).confident for x in (low, high, None)]
    assert (found[0] | ~found[1]).all()
    assert not found[2].any()


@given(st.data())
def test_only_what_was_retrieved_is_chosen(data) -> None:
    """A tool that no stage found, and that does not wait for arguments, is never named."""
    table = data.draw(tables())
    settings = data.draw(any_settings(embedding=table.embedding is not None))
    for i in range(len(table)):
        verdict = scalar(table, i, settings)
        found = {h.tool for h in (*verdict.lexical.hits, *verdict.recall.hits)} | {table.row(i).pending}
        assert set(verdict.decision.tools) <= found
        assert {c.tool for c in verdict.candidates} <= found
        assert len(verdict.candidates) <= settings.candidate_limit


@given(st.lists(st.floats(-8, 8), max_size=8))
def test_probabilities_add_up(log_odds) -> None:
    """The shares of the tools add up to P(some tool), and taking one away leaves the odds of the others."""
    shares, p_tool = probabilities(log_odds)
    assert sum(shares) == pytest.approx(p_tool, abs=1e-5)
    if len(log_odds) > 1 and shares[0] > 1e-3 and shares[1] > 1e-3:
        fewer, _ = probabilities(log_odds[:2])
        assert fewer[0] / fewer[1] == pytest.approx(shares[0] / shares[1], rel=1e-2)


# --- models: needs, gates, answers ------------------------------------------------------------


def resolved(**changes) -> Settings:
    base = {"recall.source": "none", "selection.min_confidence": 0.0, "lexical.min_score": None}
    return Settings().replace(base | {name.replace("__", "."): v for name, v in changes.items()})


def hits(tools: str, source: str = "lexical", top: float = 0.8) -> tuple[Hit, ...]:
    return tuple(
        Hit(tool=t, score=round(top - i / 10, 6), source=source, rank=i) for i, t in enumerate(tools)
    )


def test_it_asks_for_what_it_lacks() -> None:
    """A decision names the evidence that it waits for, one kind after the other."""
    settings = resolved(recall__source="both", recall__max_catalog_tools=2)
    evidence = Evidence(lexical=hits("ab"), selector_scores=False, n_offered=5)
    assert decide(evidence, settings, TOOLS).needs.kind == "embedding"
    evidence = dataclasses.replace(evidence, embedding=hits("cba", "embedding"))
    need = decide(evidence, settings, TOOLS).needs
    assert (need.kind, need.tools) == ("recall", ("b", "c"))
    evidence = dataclasses.replace(evidence, recall_answers={("b", "c"): RecallAnswer(candidates=("c",))})
    need = decide(evidence, settings, TOOLS).needs
    assert need.kind == "selection"
    assert set(need.tools) == {"a", "b", "c"}
    evidence = dataclasses.replace(evidence, answers={need.tools: Answer(calls=(Call(tool="c"),))})
    assert decide(evidence, settings, TOOLS).decision.tool == "c"
    local = Evidence(lexical=hits("a"))
    assert decide(local, resolved(), TOOLS).needs.kind == "scores"
    local = dataclasses.replace(local, log_odds={"a": 1.0})
    assert decide(local, resolved(), TOOLS).needs.tools == ("a",)


@pytest.mark.parametrize(
    ("tools", "chars", "gate"),
    [
        (5, 100, None),
        (6, 100, "max_catalog_tools"),
        (5, 101, "max_catalog_chars"),
        (6, 101, "max_catalog_tools"),
    ],
)
def test_gates(tools: int, chars: int, gate: str | None) -> None:
    """A catalog at its gate is shown, one over it is not, and the trace says which gate."""
    settings = resolved(recall__source="model", recall__max_catalog_tools=5, recall__max_catalog_chars=100)
    evidence = Evidence(
        lexical=hits("a"), n_offered=tools, catalog_chars=chars, log_odds={"a": 1.0}, filled={"a": Filled()}
    )
    verdict = decide(evidence, settings, TOOLS)
    assert verdict.recall.skipped_because == gate
    assert (verdict.needs is not None) == (gate is None)


def test_both_cuts_to_the_gates() -> None:
    """With source "both" the nearest tools that fit both gates are shown, in id order."""
    chars = dict.fromkeys(IDS, 10)
    evidence = Evidence(n_offered=7, catalog_chars=69, embedding=hits("gbda", "embedding"), tool_chars=chars)

    def shown(tools: int, characters: int):
        settings = resolved(
            recall__source="both", recall__max_catalog_tools=tools, recall__max_catalog_chars=characters
        )
        return shown_to_model(evidence, settings)

    assert shown(7, 100) == (None, None)
    assert shown(3, 100) == (("b", "d", "g"), None)
    assert shown(7, 29) == (("b", "d", "g"), None)
    assert shown(7, 28) == (("b", "g"), None)
    assert shown(0, 100) == (None, "max_catalog_tools")
    assert shown(7, 5) == (None, "max_catalog_chars")


def test_a_failing_model_is_an_error() -> None:
    """A failure in recall or in selection is an error with its code, never "no tool"."""
    settings = resolved(recall__source="model")
    evidence = Evidence(
        lexical=hits("a"), n_offered=3, selector_scores=False,
        recall_answers={None: RecallAnswer(error="MODEL_TIMEOUT")},
    )  # fmt: skip
    verdict = decide(evidence, settings, TOOLS)
    assert (verdict.decision.outcome, verdict.decision.reason) == ("error", "MODEL_TIMEOUT")
    assert verdict.recall.model_called
    assert not verdict.recall.used
    evidence = Evidence(
        lexical=hits("a"), selector_scores=False, answers={("a",): Answer(error="MODEL_PROVIDER_ERROR")}
    )
    decision = decide(evidence, resolved(), TOOLS).decision
    assert (decision.outcome, decision.reason, decision.calls) == ("error", "MODEL_PROVIDER_ERROR", ())


def by_answer(answer: Answer, tools: str = "abc", **changes):
    evidence = Evidence(lexical=hits(tools), selector_scores=False, answers={tuple(tools): answer})
    return decide(evidence, resolved(**changes), TOOLS).decision


def test_answers_become_decisions() -> None:
    """Calls, questions, "no tool" and rejections of a model each have their outcome."""
    call = by_answer(Answer(calls=(Call(tool="b"),), mode="tool", confidence=0.8))
    assert (call.outcome, call.tool, call.mode, call.skills, call.p_tool) == (
        "call",
        "b",
        "tool",
        ("s",),
        0.8,
    )
    assert [r.tool for r in call.ranked] == ["b", "a", "c"]
    asked = by_answer(Answer(calls=(Call(tool="c"),), confidence=0.8, missing=("/x",)))
    assert (asked.outcome, asked.missing, asked.reason) == ("ask", ("/x",), "MISSING_ARGUMENTS")
    none = by_answer(Answer(confidence=0.9))
    assert (none.outcome, none.p_tool, none.confidence) == ("no_tool", pytest.approx(0.1), pytest.approx(0.9))
    refused = by_answer(Answer(rejections=(Rejection(code="SYSTEM_ARGUMENT", name="u", message="u"),)))
    assert (refused.outcome, refused.reason, refused.calls) == ("rejected", "SYSTEM_ARGUMENT", ())


def test_thresholds_on_stated_confidence() -> None:
    """A stated confidence under a bar is no tool; writes have a bar of their own; close ones are shown."""
    answer = Answer(calls=(Call(tool="b"),), mode="tool", confidence=0.6)
    assert by_answer(answer, selection__min_confidence=0.7).reason == "LOW_CONFIDENCE"
    assert by_answer(answer, selection__min_write_confidence=0.7).reason == "LOW_WRITE_CONFIDENCE"
    assert by_answer(answer, selection__min_confidence=0.6).outcome == "call"
    close = by_answer(answer, selection__min_margin=0.5)
    assert (close.outcome, close.tools, close.calls) == ("ambiguous", ("b", "a"), ())


def test_one_write_among_several_needs_the_write_bar() -> None:
    """Where one of several calls writes, the bar for writing holds."""
    answer = Answer(calls=(Call(tool="a"), Call(tool="b")), mode="agent", confidence=0.6)
    assert by_answer(answer, selection__min_write_confidence=0.7).reason == "LOW_WRITE_CONFIDENCE"


def test_bypass_asks_no_model() -> None:
    """A high lexical score of a tool without arguments is a call without a model; with arguments it asks."""
    settings = resolved(selection__bypass_score=0.8)
    found = decide(Evidence(lexical=hits("a"), selector_scores=False), settings, TOOLS)
    assert (found.decision.reason, found.decision.tool, found.selection.bypassed) == ("BYPASS", "a", True)
    assert not found.selection.model_called
    assert (
        decide(Evidence(lexical=hits("d"), selector_scores=False), settings, TOOLS).needs.kind == "selection"
    )


def test_no_candidates_is_no_tool() -> None:
    """Where nothing was found, no tool is right, and no model is asked."""
    found = decide(Evidence(selector_scores=False), resolved(), TOOLS)
    assert (found.decision.outcome, found.decision.reason) == ("no_tool", "NO_CANDIDATES")


def test_nothing_offered_asks_no_model() -> None:
    """A message that may use no tool asks no model to recall."""
    evidence = Evidence(offered=(), n_offered=0, selector_scores=False)
    verdict = decide(evidence, resolved(recall__source="model"), TOOLS)
    assert verdict.needs is None
    assert verdict.decision.outcome == "no_tool"


def test_margin_is_measured_before_the_limit() -> None:
    """Keeping one lexical hit does not make it look unrivalled."""
    settings = resolved(lexical__candidate_limit=1, lexical__min_score=0.5, lexical__min_margin=0.2)
    verdict = decide(
        Evidence(lexical=hits("ab"), log_odds={"a": 1.0}, filled={"a": Filled()}), settings, TOOLS
    )
    assert verdict.lexical.margin == 0.1
    assert not verdict.lexical.confident


@given(THRESHOLD, THRESHOLD)
def test_thresholds_hold_at_equality(score: float, level: float) -> None:
    """Stage 1 is confident exactly where its best score reaches min_score."""
    evidence = Evidence(lexical=hits("a", top=score), log_odds={"a": 1.0}, filled={"a": Filled()})
    verdict = decide(evidence, resolved(lexical__min_score=level), TOOLS)
    assert verdict.lexical.confident == accepts(score, level)


def test_scores_of_places() -> None:
    """A model's ranks and its confidence become falling scores."""
    assert [model_score(i, 4) for i in range(4)] == [1.0, 0.75, 0.5, 0.25]
    shares, stated = answer_shares(1, 3, 0.6)
    assert (shares, stated) == ([0.6, 0.2, 0.1, 0.05], 0.6)
    assert answer_shares(0, 2, 0.4)[0] == [0.2, 0.1]


def test_unrecorded_is_no_outcome() -> None:
    """The code of an unrecorded case is none of the outcomes."""
    assert UNRECORDED not in CODES.values()
