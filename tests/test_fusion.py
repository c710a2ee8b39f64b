"""Stage 3: the scalar definition, its array twin, and what holds for every method."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.fusion import MISSED, Scale, fuse, fused_scores
from mono_router.records import Hit
from mono_router.settings import FusionSettings

METHODS = ("interleave", "rrf", "weighted")
TOOLS = "abcdefg"
GRID = [0.0, 0.1, 0.25, 0.5, 0.5, 0.9, 1.0]


def hits(tools: str, source: str = "lexical") -> list[Hit]:
    return [Hit(tool=t, score=1 - i / 10, source=source, rank=i) for i, t in enumerate(tools)]


def order(found) -> str:
    return "".join(candidate.tool for candidate in found)


def test_interleave_takes_turns_recall_first() -> None:
    """Lists are taken in turns, recall first, and a tool keeps its best place."""
    settings = FusionSettings(method="interleave")
    assert order(fuse(hits("abc"), hits("xay", "embedding"), settings)) == "xaby" + "c"


def test_rrf_is_the_sum_of_reciprocal_ranks() -> None:
    """A tool's score is the weighted sum of 1 / (k + 1 + rank) over the lists it is in."""
    settings = FusionSettings(method="rrf", weights={"lexical": 2.0, "recall": 1.0}, rrf_k=10)
    found = {c.tool: c.score for c in fuse(hits("ab"), hits("bc", "model"), settings)}
    assert found == pytest.approx({"a": 2 / 11, "b": 2 / 12 + 1 / 11, "c": 1 / 12})


def test_weighted_adds_standard_scores() -> None:
    """A tool's score is the weighted sum of how far it lies above each scorer's mean."""
    settings = FusionSettings(method="weighted", weights={"lexical": 1.0, "recall": 0.5})
    found = fuse(
        hits("a"), hits("b", "embedding"), settings,
        lexical_scores={"a": 0.9, "b": 0.5}, recall_scores={"a": 0.2, "b": 0.4},
        lexical_scale=Scale(0.5, 0.2), recall_scale=Scale(0.2, 0.1),
    )  # fmt: skip
    assert {c.tool: c.score for c in found} == pytest.approx({"a": 2.0, "b": 1.0})


def test_trust_moves_weight_to_the_words() -> None:
    """What a scorer that is not trusted loses of its weight goes to the other one."""
    settings = FusionSettings(method="weighted", weights={"lexical": 0.5, "recall": 0.5})
    scores = {"lexical_scores": {"a": 1.0}, "recall_scores": {"b": 1.0}}
    for trust, expected in (
        (1.0, {"a": 0.5, "b": 0.5}),
        (0.2, {"a": 0.9, "b": 0.1}),
        (0.0, {"a": 1.0, "b": 0.0}),
    ):
        found = fuse(hits("a"), hits("b", "embedding"), settings, recall_scale=Scale(trust=trust), **scores)
        assert {c.tool: c.score for c in found} == pytest.approx(expected)


def test_a_scorer_that_tells_nothing_counts_nothing() -> None:
    """Without a spread every tool stands at 0, and ids decide."""
    assert Scale(0.3, 0.0).standardize(0.9) == 0.0
    settings = FusionSettings(method="weighted")
    flat = {"lexical_scores": dict.fromkeys("cab", 0.3), "lexical_scale": Scale(0.3, 0.0)}
    assert order(fuse(hits("cab"), [], settings, **flat)) == "abc"


@pytest.mark.parametrize("method", METHODS)
def test_pending_comes_first(method: str) -> None:
    """A tool that waits for arguments is the first candidate, whether it was found or not."""
    for pending in ("c", "z"):
        found = fuse(hits("abc"), hits("x", "model"), FusionSettings(method=method), pending=pending)
        assert found[0].tool == pending
        assert found[0].sources[0] == "pending"
        assert len({c.tool for c in found}) == len(found)
    assert found[0].sources == ("pending",)


def test_candidates_keep_their_hits() -> None:
    """A candidate carries the hits that it came from, lexical before recall."""
    found = fuse(hits("ab"), hits("b", "embedding"), FusionSettings(method="rrf"))
    assert {c.tool: c.sources for c in found} == {"a": ("lexical",), "b": ("lexical", "embedding")}
    assert fuse([], [], FusionSettings()) == ()


@st.composite
def two_lists(draw):
    """Scores of both stages over seven tools, and how much of each ranking is kept."""
    rows = {}
    for name in ("lexical", "recall"):
        scores = dict(zip(TOOLS, draw(st.lists(st.sampled_from(GRID), min_size=7, max_size=7)), strict=True))
        ranked = sorted((t for t in TOOLS if scores[t] > 0), key=lambda t: (-scores[t], t))
        rows[name] = (scores, ranked[: draw(st.integers(0, 7))])
    weights = {n: draw(st.sampled_from([0.0, 0.3, 1.0])) for n in ("lexical", "recall")}
    settings = FusionSettings(
        method=draw(st.sampled_from(METHODS)), weights=weights, rrf_k=draw(st.sampled_from([0, 10, 60]))
    )
    scales = [
        Scale(
            draw(st.sampled_from([0.0, 0.3])),
            draw(st.sampled_from([0.0, 0.2, 1.0])),
            draw(st.sampled_from([1.0, 0.0, 0.35])),
        )
        for _ in range(2)
    ]
    return rows, settings, scales, draw(st.none() | st.sampled_from(TOOLS))


def scalar(case):
    rows, settings, scales, pending = case
    lists = [
        [Hit(tool=t, score=scores[t], source=source, rank=i) for i, t in enumerate(ranked)]
        for (scores, ranked), source in zip(rows.values(), ("lexical", "embedding"), strict=True)
    ]
    return fuse(
        *lists, settings, pending=pending,
        lexical_scores=rows["lexical"][0], recall_scores=rows["recall"][0],
        lexical_scale=scales[0], recall_scale=scales[1],
    )  # fmt: skip


@given(two_lists())
def test_arrays_equal_the_definition(case) -> None:
    """The array twin gives every tool the score of the scalar definition."""
    rows, settings, scales, _ = case
    ranks, standard = [], []
    for (scores, ranked), scale in zip(rows.values(), scales, strict=True):
        ranks.append(np.array([[ranked.index(t) if t in ranked else MISSED for t in TOOLS]]))
        standard.append(np.array([[scale.standardize(scores[t]) for t in TOOLS]]))
    trust = np.array([[scales[1].trust]])
    found = fused_scores(
        *ranks, settings, lexical_standard=standard[0], recall_standard=standard[1], trust=trust
    )[0]
    expected = {c.tool: c.score for c in scalar((rows, settings, scales, None))}
    for tool, score in zip(TOOLS, found.tolist(), strict=True):
        assert score == expected.get(tool, -math.inf)


@given(two_lists())
def test_each_tool_once_best_first(case) -> None:
    """Candidates are exactly the tools that were found, each once, by falling score, ties by id."""
    rows, _, _, pending = case
    found = scalar(case)
    known = {t for _, ranked in rows.values() for t in ranked} | ({pending} if pending else set())
    assert {c.tool for c in found} == known
    assert len(found) == len(known)
    assert list(found) == sorted(found, key=lambda c: (-c.score, c.tool))
    assert pending is None or found[0].tool == pending
