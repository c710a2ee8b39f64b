"""Fast paths against slow ones, and bounds that hold on any machine; figures: mono_router.lab.speed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mono_router import embedding
from mono_router.catalog import Catalog
from mono_router.embedding import EmbeddingRetriever, FunctionEncoder
from mono_router.lab.speed import (
    WORDS_ALONE,
    generated_messages,
    generated_tools,
    generated_vectors,
    long_messages,
    seconds,
)
from mono_router.lexical import LexicalRetriever, top_hits
from mono_router.records import Example
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


def test_one_changed_tool_encodes_alone(tools, tmp_path) -> None:
    """Of 2,000 tools only the changed one's texts go through the encoder."""
    encoder = FunctionEncoder("generated", generated_vectors)
    EmbeddingRetriever(Catalog(tools), encoder, cache=tmp_path).cache.flush()
    changed = [dataclasses.replace(tools[0], description="Say the hour"), *tools[1:]]
    assert EmbeddingRetriever(Catalog(changed), encoder, cache=tmp_path).cache.n_encoded <= 4
