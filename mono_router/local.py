"""The local selector: stage 4 without a model.

It estimates log-odds of each tool against "no tool" from what the lexical and the embedding stage
scored, fills arguments by schema and chooses the mode. It scores every tool of the catalog, so that a
shortlist only masks and a sweep replays it exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mono_router import text as texts
from mono_router.catalog import Catalog
from mono_router.decision import probabilities
from mono_router.embedding import EmbeddingRetriever
from mono_router.lexical import LexicalRetriever
from mono_router.records import (
    SCORE_DECIMALS,
    Answer,
    Call,
    Case,
    Encoder,
    Filled,
    Mode,
    Query,
    Retriever,
    Tool,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SLOPE, _LEVEL = 9.0, 0.45


class LocalSelector:
    """Chooses from the catalog's own texts.

    Parameters
    ----------
    catalog
        Tools to choose from.
    encoder
        Adds embedding evidence; None = lexical evidence alone.
    lexical, retriever
        Stages that are already built over this catalog, to share.
    cases
        Labelled cases to learn from; their ids are in ``fitted_on`` and evaluating on them is refused.

    >>> catalog = Catalog([Tool(id="price", description="Price of a service"),
    ...                    Tool(id="book", description="Book an appointment")])
    >>> selector = LocalSelector(catalog)
    >>> selector.select(Query(message="book an appointment please"), catalog.tools).calls[0].tool
    'book'
    """

    min_confidence = 0.5
    """Level of ``selection.min_confidence`` when it is null: a tool is likelier than none."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        encoder: Encoder | None = None,
        lexical: LexicalRetriever | None = None,
        retriever: Retriever | None = None,
        cases: Iterable[Case] = (),
    ) -> None:
        self.catalog = catalog
        self.lexical = lexical or LexicalRetriever(catalog)
        if retriever is None and encoder is not None:
            retriever = EmbeddingRetriever(catalog, encoder)
        self.retriever = retriever
        self.fitted_on: frozenset[str] = frozenset(case.id for case in cases)

    def scores(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Return log-odds of each tool against "no tool", float64 (n_queries, n_tools), id order."""
        messages = [query.message for query in queries]
        lexical = self.lexical.scores(messages)
        embedding = None if self.retriever is None else self.retriever.scores(messages)
        return self.combined(queries, lexical, embedding)

    def combined(
        self,
        queries: Sequence[Query],
        lexical: NDArray[np.float32],
        embedding: NDArray[np.float32] | None,
    ) -> NDArray[np.float64]:
        """Return :meth:`scores` from what the stages have scored already."""
        mixed = lexical.astype(np.float64)
        if embedding is not None:
            mixed = 0.4 * mixed + 0.6 * embedding
        odds = _SLOPE * (mixed - _LEVEL)
        for i, query in enumerate(queries):
            pending = query.memory.pending if query.memory is not None else None
            if pending is not None and pending.tool in self.catalog:
                # Waiting for an answer makes the tool likely, unless the message says something else.
                odds[i, self.catalog.position[pending.tool]] += 4.0
        return np.round(odds, SCORE_DECIMALS)

    def fill(self, query: Query, tool: Tool) -> Filled:
        """Return the arguments that the message gives for a tool, what is missing, and the mode."""
        from mono_router.extraction import extract

        return dataclasses.replace(extract(query, tool), mode=self._mode(query.message, tool))

    def select(self, query: Query, shortlist: Sequence[Tool]) -> Answer:
        """Return the likeliest tool of a shortlist, or no tool."""
        if not shortlist:
            return Answer()
        row = self.scores([query])[0]
        order = sorted(shortlist, key=lambda tool: (-row[self.catalog.position[tool.id]], tool.id))
        shares, p_tool = probabilities([float(row[self.catalog.position[tool.id]]) for tool in order])
        if p_tool < self.min_confidence:
            return Answer(confidence=round(1.0 - p_tool, SCORE_DECIMALS))
        filled = self.fill(query, order[0])
        return Answer(
            calls=(Call(tool=order[0].id, arguments=filled.arguments),),
            mode=filled.mode,
            confidence=shares[0],
            missing=filled.missing,
        )

    def _mode(self, message: str, tool: Tool) -> Mode:
        if len(tool.modes) == 1:
            return tool.modes[0]
        said = set(texts.words(message))
        best: tuple[float, Mode] = (0.0, tool.modes[0])
        for example in tool.examples:
            if example.mode in tool.modes and example.mode is not None:
                words = set(texts.words(example.message))
                likeness = len(said & words) / max(1, len(said | words))
                if likeness > best[0]:
                    best = (likeness, example.mode)
        return best[1] if best[0] >= 0.5 else tool.modes[0]
