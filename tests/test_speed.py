"""Fast paths against slow ones, and bounds that hold on any machine; figures: mono_router.lab.speed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router import embedding
from mono_router.catalog import Catalog
from mono_router.embedding import EmbeddingRetriever, FunctionEncoder
from mono_router.lab.speed import (
    WORDS_ALONE,
    bm25s_query,
    generated_messages,
    generated_tools,
    generated_vectors,
    long_messages,
    seconds,
)
from mono_router.lexical import LexicalRetriever, top_hits
from mono_router.local import LocalSelector
from mono_router.matching import DescriptionEvidence
from mono_router.records import Example, Query
from mono_router.router import Router
from mono_router.settings import Settings
from mono_router.text import clauses


@pytest.fixture(scope="module")
def tools():
    """2,000 generated tools; some share a description, some have an example."""
    made = generated_tools(2_000)
    return [
        dataclasses.replace(
            tool,
            description=made[i // 3].description if i % 3 else tool.description,
            examples=(Example(message=f"open {i}"),) if i % 50 == 0 else (),
        )
        for i, tool in enumerate(made)
    ]


@pytest.mark.parametrize("settings", [Settings(), WORDS_ALONE])
def test_search_is_the_best_of_all_scores(tools, settings) -> None:
    """A search that looks at few tools finds what sorting all scores finds, ties included."""
    retriever = LexicalRetriever(Catalog(tools), settings)
    messages = [
        *generated_messages(40),
        *(t.description for t in tools[:40]),
        "open 50",
        "open 51",
        "zzz",
        "",
    ]
    rows = retriever.scores(messages).astype(np.float64)
    for message, row in zip(messages, rows, strict=True):
        for k in (1, 12, 100):
            found = [(hit.tool, hit.score) for hit in retriever.search(message, k)]
            whole = top_hits(row.round(6), retriever.ids, k, "lexical")
            assert found == [(hit.tool, pytest.approx(hit.score, abs=2e-6)) for hit in whole]


def test_time_grows_with_length() -> None:
    """A character of a long message takes no more than many times one of a short message."""
    retriever = LexicalRetriever(Catalog(generated_tools(60)))
    short = generated_messages(5)[0]
    for long in long_messages().values():
        for work in (lambda message: retriever.search(message, 12), clauses):
            one, many = seconds(
                lambda i, w=work: w(f"{short} {i}"), lambda i, w=work, m=long: w(f"{m} {i}"), n=5
            )
            assert many / len(long) < 100 * one / len(short)


def test_a_route_of_spaces_ends() -> None:
    """A message of spaces alone costs what other messages of its length cost."""
    assert Router(Catalog(generated_tools(10))).route(" " * 20_000).decision.outcome == "no_tool"


def test_float32_products_agree(tools, monkeypatch) -> None:
    """A catalog above LARGE scores as one below it, one message as many."""
    encoder = FunctionEncoder("generated", lambda texts: np.stack([generated_vectors([t])[0] for t in texts]))
    messages = [*generated_messages(9), "open the door for me, and close the window for her"]
    catalog = Catalog(tools)
    exact = EmbeddingRetriever(catalog, encoder, cache=None).scores(messages)
    monkeypatch.setattr(embedding, "LARGE", 100)
    retriever = EmbeddingRetriever(catalog, encoder, cache=None)
    found = retriever.scores(messages)
    np.testing.assert_allclose(found, exact, atol=2e-6)
    for message, row in zip(messages, found, strict=True):
        np.testing.assert_allclose(retriever.scores([message])[0], row, atol=1e-7)


@given(seed=st.integers(0, 10**6), n_tools=st.integers(1, 700), k=st.integers(1, 14), equal=st.booleans())
def test_search_is_that_of_float64_products(seed, n_tools, k, equal) -> None:
    """A search that looks at few tools in float64 finds what float64 products with all tools rank first."""
    rng = np.random.default_rng(seed)
    tools = rng.standard_normal((n_tools, 24)) * 1e-4 + rng.standard_normal(24)
    if equal:
        tools = tools[rng.integers(0, n_tools, n_tools)]
    tools = (tools / np.linalg.norm(tools, axis=1, keepdims=True)).astype(np.float32)
    queries = rng.standard_normal((3, 24)) * 1e-3 + tools[:1]
    near = tools @ queries.astype(np.float32).T
    reached = embedding._reached(near, k, margin=embedding._margin(queries))
    for query, columns in zip(queries, reached, strict=True):
        exact = (tools.astype(np.float64) @ query).round(6)
        best = np.argsort(-exact, kind="stable")[:k]
        assert set(best.tolist()) <= set(columns.tolist())
        assert columns[np.argsort(-exact[columns], kind="stable")[:k]].tolist() == best.tolist()


def test_a_large_catalog_is_searched_like_a_small_one(tools, monkeypatch) -> None:
    """Above LARGE one message and many give the hits of float64 scores, clauses included."""
    encoder = FunctionEncoder("generated", lambda texts: np.stack([generated_vectors([t])[0] for t in texts]))
    messages = [*generated_messages(9), "open the door for me, and close the window for her"]
    catalog = Catalog([dataclasses.replace(tool, examples=()) for tool in tools])
    small = EmbeddingRetriever(catalog, encoder, cache=None).search_many(messages, 12)
    monkeypatch.setattr(embedding, "LARGE", 100)
    retriever = EmbeddingRetriever(catalog, encoder, cache=None)
    assert retriever.search_many(messages, 12) == [retriever.search(message, 12) for message in messages]
    for one, other in zip(small, retriever.search_many(messages, 12), strict=True):
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=2e-6)


MESSAGES = [
    "book it and then call her mother now, and also play some music",
    "wake me up at 7, 8 and 9 please please please",
    "بكرة الساعة ٥",
    "明天 天气 weather",
    "",
    "zzz",
]


@pytest.mark.parametrize("n_examples", [0, 3])
def test_one_message_scores_as_among_many(booking, n_examples) -> None:
    """The path of one message gives the scores of the path of many, in every part."""
    catalog = booking.with_examples(limit=n_examples)
    messages = [*MESSAGES, *(example.message for tool in booking for example in tool.examples[:5])]
    lexical, selector = LexicalRetriever(catalog), LocalSelector(catalog)
    described = DescriptionEvidence(catalog, lexical)
    queries = [Query(message=message) for message in messages]
    for i, message in enumerate(messages):
        np.testing.assert_array_equal(
            lexical.scores_of(message).astype(np.float32), lexical.scores(messages)[i]
        )
        np.testing.assert_allclose(
            described.scores([message])[0], described.scores(messages)[i], rtol=0, atol=1e-12
        )
        np.testing.assert_array_equal(selector.scores([queries[i]])[0], selector.scores(queries)[i])


def test_a_route_costs_few_bm25s_queries() -> None:
    """A route over 60 tools, arguments included, takes no more than some dozens of plain BM25 queries."""
    pytest.importorskip("bm25s")
    router, messages = Router(Catalog(generated_tools(60))), generated_messages(30)
    route, peer = seconds(lambda i: router.route(messages[i]), bm25s_query(47), n=len(messages))
    assert route < 40 * peer


def test_one_changed_tool_encodes_alone(tools, tmp_path) -> None:
    """Of 2,000 tools only the changed one's texts go through the encoder."""
    encoder = FunctionEncoder("generated", generated_vectors)
    EmbeddingRetriever(Catalog(tools), encoder, cache=tmp_path).cache.flush()
    changed = [dataclasses.replace(tools[0], description="Say the hour"), *tools[1:]]
    assert EmbeddingRetriever(Catalog(changed), encoder, cache=tmp_path).cache.n_encoded <= 4
