"""Stage 1: lexical retrieval.

A catalog is indexed once; messages come in, a score in [0, 1] for each tool comes out. The score is
BM25F (Robertson and Zaragoza 2009, section 3.6) over words and character n-grams, divided by the most
that the message could reach: 1.0 would need every feature of the message, saturated, in one tool. So
the score reads as the share of the message that a tool explains, and is comparable between messages
and catalogs. A hint that is contained in the message lifts its tool; a message that *is* a hint or
an example scores 1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router import text as texts
from mono_router.catalog import Catalog
from mono_router.records import SCORE_DECIMALS, Hit, Tool
from mono_router.settings import LexicalSettings, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1 = 1.2
"""Saturation of the term frequency (the usual BM25 value)."""
B = 0.4
"""Length normalisation; low, since tool texts are short and of like length."""
NGRAM_SHARE = 0.4
"""Share of the n-gram part in the score."""
CONTAINED = 0.8
"""Score of a tool whose hint is contained in a long message; grows to 1.0 with the hint's share of it."""
_DENSE_CELLS = 4_000_000
_CHUNK_CELLS = 8_000_000


def fields(tool: Tool) -> dict[str, list[tuple[str, float]]]:
    """Return the texts of each indexed field of a tool, each with a weight within its field.

    >>> fields(Tool(id="get_price", description="Price of a service"))["id"]
    [('get price', 1.0)]
    """
    arguments = [(texts.identifier_words(name), 1.0) for name in tool.properties]
    for sub in tool.properties.values():
        if isinstance(sub, dict) and isinstance(sub.get("description"), str):
            arguments.append((sub["description"], 0.5))
        if isinstance(sub, dict):
            arguments.extend((str(value), 0.5) for value in sub.get("enum", ()) if isinstance(value, str))
    return {
        "id": [(texts.identifier_words(tool.id), 1.0)],
        "title": [(texts.identifier_words(tool.title), 1.0)] if tool.title else [],
        "description": [(tool.description, 1.0)],
        "hints": [(hint, 1.0) for hint in tool.hints],
        "keywords": list(tool.keywords.items()),
        "examples": [(example.message, 1.0) for example in tool.examples],
        "arguments": arguments,
    }


@dataclass(frozen=True)
class _Part:
    """One family of features: vocabulary, postings and inverse document frequencies."""

    vocabulary: dict[str, int]
    indptr: NDArray[np.int64]
    tools: NDArray[np.int32]
    weights: NDArray[np.float64]
    """idf times saturated frequency, in [0, idf)."""
    idf: NDArray[np.float64]
    unknown_idf: float
    """idf of a feature that no tool has."""
    dense: NDArray[np.float64] | None

    def scores(self, features: Sequence[str], n_tools: int) -> tuple[NDArray[np.float64], float]:
        """Return (n_tools,) sums and the most that they could be."""
        ids = [self.vocabulary[f] for f in features if f in self.vocabulary]
        reach = float(self.idf[ids].sum()) + self.unknown_idf * (len(features) - len(ids))
        if not ids:
            return np.zeros(n_tools), reach
        if self.dense is not None:
            return self.dense[ids].sum(axis=0), reach
        spans = [slice(self.indptr[i], self.indptr[i + 1]) for i in ids]
        tools = np.concatenate([self.tools[span] for span in spans])
        weights = np.concatenate([self.weights[span] for span in spans])
        return np.bincount(tools, weights=weights, minlength=n_tools).astype(np.float64, copy=False), reach


def _build_part(counts: Sequence[dict[str, float]]) -> _Part:
    n_tools = len(counts)
    lengths = np.array([sum(c.values()) for c in counts], dtype=np.float64)
    mean = lengths.mean() if n_tools and lengths.any() else 1.0
    vocabulary = {f: i for i, f in enumerate(sorted({f for c in counts for f in c}))}
    n_entries = sum(len(c) for c in counts)
    rows = np.fromiter((vocabulary[f] for c in counts for f in c), np.int64, n_entries)
    cols = np.repeat(np.arange(n_tools, dtype=np.int32), [len(c) for c in counts])
    tf = np.fromiter((v for c in counts for v in c.values()), np.float64, n_entries)
    df = np.bincount(rows, minlength=len(vocabulary))
    idf = np.log1p((n_tools - df + 0.5) / (df + 0.5))
    norm = 1 - B + B * lengths / mean
    weights = idf[rows] * tf / (tf + K1 * norm[cols])
    order = np.argsort(rows, kind="stable")
    indptr = np.zeros(len(vocabulary) + 1, dtype=np.int64)
    np.cumsum(df, out=indptr[1:])
    dense = None
    if len(vocabulary) * n_tools <= _DENSE_CELLS:
        dense = np.zeros((len(vocabulary), n_tools))
        dense[rows, cols] = weights
    unknown = float(np.log1p((n_tools + 0.5) / 0.5))
    return _Part(vocabulary, indptr, cols[order], weights[order], idf, unknown, dense)


class LexicalRetriever:
    """Stage 1 over one catalog.

    >>> from mono_router.records import Tool
    >>> catalog = Catalog([Tool(id="price", description="Price of a service", hints=("how much",)),
    ...                    Tool(id="book", description="Book an appointment")])
    >>> retriever = LexicalRetriever(catalog)
    >>> retriever.search("how much is it", 2)[0].tool
    'price'
    >>> retriever.scores(["how much", "book it"]).shape
    (2, 2)
    """

    def __init__(self, catalog: Catalog, settings: Settings | LexicalSettings | None = None) -> None:
        if isinstance(settings, Settings):
            settings = settings.lexical
        self.settings = settings or LexicalSettings()
        self.ids = catalog.ids
        own = self.settings
        self.layers = texts.Layers(
            unicode=own.normalize_unicode,
            arabic=own.normalize_arabic,
            hamza=own.fold_hamza_forms,
            clitics=own.strip_clitics,
            stem=own.stem,
        )
        # n-grams carry inflection by themselves and want the word whole.
        self._raw = texts.Layers(
            unicode=own.normalize_unicode, arabic=own.normalize_arabic, hamza=own.fold_hamza_forms,
            clitics=False, stem=False,
        )  # fmt: skip
        tool_fields = [fields(tool) for tool in catalog]
        self._words = _build_part([self._counts(f, self._word_features) for f in tool_fields])
        self._ngrams = None
        if own.char_ngrams:
            self._ngrams = _build_part([self._counts(f, self._ngram_features) for f in tool_fields])
        self._phrases: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        self._whole: dict[tuple[str, ...], list[int]] = {}
        if own.phrase_matching:
            for column, tool in enumerate(catalog):
                self._add_phrases(tool, column)

    def _word_features(self, text: str) -> list[str]:
        return texts.words(text, self.layers)

    def _ngram_features(self, text: str) -> list[str]:
        return texts.char_ngrams(texts.words(text, self._raw))

    def _counts(
        self, tool_fields: dict[str, list[tuple[str, float]]], features: Callable[[str], list[str]]
    ) -> dict[str, float]:
        counts: dict[str, float] = {}
        for name, entries in tool_fields.items():
            weight = self.settings.field_weights[name]
            if weight:
                for text, share in entries:
                    for feature in features(text):
                        counts[feature] = counts.get(feature, 0.0) + weight * share
        return counts

    def _add_phrases(self, tool: Tool, column: int) -> None:
        phrases = [*tool.hints, *(word for word in tool.keywords if " " in word.strip())]
        for phrase in phrases:
            tokens = tuple(self._word_features(phrase))
            if tokens:
                self._phrases.setdefault(tokens[0], []).append((tokens, column))
        for text in (*tool.hints, *(example.message for example in tool.examples)):
            tokens = tuple(self._word_features(text))
            if tokens:
                self._whole.setdefault(tokens, []).append(column)

    def _row(self, message: str) -> NDArray[np.float64]:
        """Scores of one message, (n_tools,), rounded."""
        n_tools = len(self.ids)
        if not self.settings.enabled:
            return np.zeros(n_tools)
        words = self._word_features(message)
        sums, reach = self._words.scores(words, n_tools)
        row: NDArray[np.float64] = sums / reach if reach else sums
        if self._ngrams is not None:
            sums, reach = self._ngrams.scores(self._ngram_features(message), n_tools)
            row = (1 - NGRAM_SHARE) * row + NGRAM_SHARE * (sums / reach if reach else sums)
        self._lift_phrases(tuple(words), row)
        return np.round(row, SCORE_DECIMALS)

    def _lift_phrases(self, words: tuple[str, ...], row: NDArray[np.float64]) -> None:
        if self._phrases:
            for start, word in enumerate(words):
                for tokens, column in self._phrases.get(word, ()):
                    if words[start : start + len(tokens)] == tokens:
                        lifted = CONTAINED + (1 - CONTAINED) * len(tokens) / len(words)
                        row[column] = max(row[column], lifted)
        for column in self._whole.get(words, ()):
            row[column] = 1.0

    def scores(self, messages: Sequence[str]) -> NDArray[np.float32]:
        """Return the score of every tool for every message, float32 (n_messages, n_tools), [0, 1].

        Columns are in id order; values hold 6 decimals; 0 = nothing in common.
        """
        found = np.empty((len(messages), len(self.ids)), dtype=np.float32)
        for i, message in enumerate(messages):
            found[i] = self._row(message)
        return found

    def search(self, message: str, k: int) -> tuple[Hit, ...]:
        """Return the best ``k`` tools with a score above 0, best first, ties by id."""
        return top_hits(self._row(message), self.ids, k, "lexical")


def top_hits(row: NDArray[Any], ids: Sequence[str], k: int, source: Any) -> tuple[Hit, ...]:
    """Return the best ``k`` positive entries of a (n_tools,) row as hits, ties by position."""
    found = np.flatnonzero(row > 0)
    if len(found) > 4 * k:
        least = np.partition(row[found], len(found) - k)[len(found) - k]
        found = found[row[found] >= least]
    best = found[np.argsort(-row[found], kind="stable")][:k]
    return tuple(
        Hit(tool=ids[column], score=float(row[column]), source=source, rank=rank)
        for rank, column in enumerate(best.tolist())
    )
