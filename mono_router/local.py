"""The local selector: stage 4 without a model.

It estimates log-odds of each tool against "no tool": from heads over the catalog's examples where there
are some, from descriptions and schemas where there are none. It scores every tool of the catalog, so
that a shortlist only masks and a sweep replays it exactly; it fills arguments by schema and chooses the
mode. Everything is learned from the catalog and our own neutral sentences alone.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mono_router import text as texts
from mono_router.catalog import Catalog
from mono_router.decision import probabilities
from mono_router.dialects import written_arabic
from mono_router.embedding import TRUSTED, EmbeddingRetriever
from mono_router.heads import (
    EmbeddingHeads,
    LexicalHead,
    Parts,
    TrainingTexts,
    log_softmax,
    neutral_sentences,
    training_texts,
)
from mono_router.lexical import LexicalRetriever
from mono_router.matching import DescriptionEvidence, standardized
from mono_router.mode_head import ModeHead, declares_modes
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
from mono_router.settings import SelectionSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Few examples: chosen on dev of seven sets at once (see heads).
SHARPNESS, SHARPNESS_LEXICAL = 1.6, 2.0
"""Factor on log-probabilities, with and without an encoder."""
LEXICAL_SHARE, GAUSSIAN_SHARE = 0.2, 0.2
NO_TOOL_PARTS: Mapping[str, tuple[float, float]] = {
    "neutral": (1.0, 1.6),
    "log_probability": (1.0, 0.95),
    "gaussian": (1.0, 0.8),
    "cosine": (0.5, 0.13),
    "lexical_cosine": (0.6, 0.17),
}
"""Evidence that some tool is right, each with its weight and the spread that makes it comparable."""
NO_TOOL_PARTS_LEXICAL: Mapping[str, tuple[float, float]] = {
    "neutral": (1.0, 1.6),
    "log_probability": (1.0, 0.95),
    "lexical_cosine": (1.5, 0.17),
}
NO_TOOL_SLOPE, NO_TOOL_LEVEL = 0.5, 1.5
"""Used where a catalog has too few examples to fit them."""
EXACT_ODDS = 6.0
"""Least log-odds of a tool that has this very message as a hint or an example."""
# Descriptions alone: chosen on dev of ten sets (see matching).
EMBEDDING_SHARE = 0.7
DESCRIPTION_SHARPNESS = 1.6
FAMILIAR, MATCHED, DESCRIPTION_LEVEL = 0.70, 2.75, -3.16
"""P(some tool): familiarity to the encoder, ln(1 + mass / floor), level; on dev of metatool and sgd."""
MATCHED_ALONE, LEVEL_ALONE = 3.6, -3.0
"""The same without an encoder."""
NAMED = {True: 0.1, False: 0.3}
"""Share of description evidence beside heads, with and without an encoder, where descriptions are names."""
DESCRIBED = 0.5
"""The same where most descriptions say more than the name."""
PENDING_ODDS = 3.0
"""A call that waits for an answer is the likelier by this, unless the message says something else."""


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
        Labelled cases whose messages are taken as further examples of their tools; their ids are in
        ``fitted_on``, and evaluating on them is refused.
    settings
        ``match_schema`` and ``match_clauses``; a Router gives its own.

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
        settings: SelectionSettings | None = None,
    ) -> None:
        self.catalog = catalog
        self.settings = settings or SelectionSettings()
        self.lexical = lexical or LexicalRetriever(catalog)
        if retriever is None and encoder is not None:
            retriever = EmbeddingRetriever(catalog, encoder)
        self.retriever = retriever
        self._cases = tuple(cases)
        self.fitted_on: frozenset[str] = frozenset(case.id for case in self._cases)
        self._lock = threading.Lock()
        self._evidence: _ExampleEvidence | _DescriptionEvidence | None = None
        self._declares_modes = declares_modes(catalog)

    def configured(self, settings: SelectionSettings) -> LocalSelector:
        """Return this selector under other settings."""
        if (settings.match_schema, settings.match_clauses) == (
            self.settings.match_schema, self.settings.match_clauses,
        ):  # fmt: skip
            return self
        return self._fitted_to(self._cases, settings)

    def without(self, groups: Container[str]) -> LocalSelector:
        """Return this selector as fitted without the labelled cases of these groups."""
        kept = [case for case in self._cases if case.group not in groups]
        return self._fitted_to(kept, self.settings)

    def _fitted_to(self, cases: Iterable[Case], settings: SelectionSettings) -> LocalSelector:
        """A selector on the same stages."""
        return LocalSelector(
            self.catalog, lexical=self.lexical, retriever=self.retriever, cases=cases, settings=settings
        )

    def scores(self, queries: Sequence[Query]) -> NDArray[np.float64]:
        """Return log-odds of each tool against "no tool", float64 (n_queries, n_tools), id order."""
        messages = [query.message for query in queries]
        embedding = None if self.retriever is None else self.retriever.scores(messages)
        return self.combined(queries, embedding)

    def combined(
        self, queries: Sequence[Query], embedding: NDArray[np.float32] | None
    ) -> NDArray[np.float64]:
        """Return :meth:`scores` where the embedding stage has scored already."""
        messages = [query.message for query in queries]
        if not messages or not len(self.catalog):
            return np.zeros((len(messages), len(self.catalog)))
        if len(queries) == 1 and embedding is None and self.retriever is None and messages[0].strip():
            return self._combined_alone(queries[0])[None]
        odds = self._fitted().log_odds(messages, embedding)
        if not all(message.strip() for message in messages):
            odds[[not message.strip() for message in messages]] = -20.0
        for row, query in zip(odds, queries, strict=True):
            self._add_certain(row, query)
        return np.round(odds, SCORE_DECIMALS)

    def _combined_alone(self, query: Query) -> NDArray[np.float64]:
        """:meth:`combined` of one message on words alone, (n_tools,): the same sums on plain rows."""
        odds = self._fitted().log_odds_of(query.message)
        self._add_certain(odds, query)
        return odds.round(SCORE_DECIMALS)

    def _add_certain(self, row: NDArray[np.float64], query: Query) -> None:
        """Raise, in place, the tools that have this very message, and the call that waits."""
        for column in self.lexical.exact(query.message):
            row[column] = max(row[column], EXACT_ODDS)
        pending = query.memory.pending if query.memory is not None else None
        if pending is not None and pending.tool in self.catalog:
            row[self.catalog.position[pending.tool]] += PENDING_ODDS

    def _fitted(self) -> _ExampleEvidence | _DescriptionEvidence:
        if self._evidence is None:
            with self._lock:
                if self._evidence is None:
                    training = training_texts(self.catalog, self._cases)
                    if training.exemplified:
                        self._evidence = _ExampleEvidence(self, training)
                    else:
                        self._evidence = _DescriptionEvidence(self)
        return self._evidence

    def parts(self, queries: Sequence[Query]) -> list[NDArray[np.float64]]:
        """Return the log-odds of each message's clauses, (n_clauses, n_tools); no rows for one clause."""
        found = [texts.clauses(query.message) for query in queries]
        if all(len(clauses) == 1 for clauses in found):
            return [np.empty((0, len(self.catalog)))] * len(found)
        flat = [Query(message=clause) for clauses in found if len(clauses) > 1 for clause in clauses]
        rows, nothing, at = [], np.empty((0, len(self.catalog))), 0
        scores = self.scores(flat) if flat else nothing
        for clauses in found:
            n = len(clauses) if len(clauses) > 1 else 0
            rows.append(scores[at : at + n] if n else nothing)
            at += n
        return rows

    def fill(self, query: Query, tool: Tool) -> Filled:
        """Return the arguments that the message gives for a tool, what is missing, and the mode."""
        from mono_router.extraction import extract

        found = extract(query, tool)
        mode = self._mode(query.message, tool)
        return Filled(arguments=found.arguments, missing=found.missing, mode=mode)

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
        if len(tool.modes) == 1 or not self._declares_modes:
            return tool.modes[0]
        return self._mode_head.mode(message, tool)

    @cached_property
    def _mode_head(self) -> ModeHead:
        return ModeHead(self.catalog, self.prepared)

    @cached_property
    def _layers(self) -> texts.Layers:
        return dataclasses.replace(self.lexical.layers, stem=False)

    def prepared(self, text: str) -> str:
        """Return a text as the lexical heads read it."""
        if self._layers.unicode and text.isascii():
            return " ".join(self.lexical.whole_words(text))
        text = written_arabic(text) if self.lexical.settings.rewrite_dialects else text
        return texts.normalize_words(text, self._layers)


class _ExampleEvidence:
    """Log-odds from heads over examples; words alone where the encoder does not know the language."""

    def __init__(self, selector: LocalSelector, training: TrainingTexts) -> None:
        self._selector = selector
        retriever = selector.retriever
        self._retriever: EmbeddingRetriever | None = None
        if isinstance(retriever, EmbeddingRetriever) and retriever.trust >= TRUSTED:
            self._retriever = retriever
        self._descriptions = DescriptionEvidence(selector.catalog, selector.lexical, selector.settings)
        self._rich = _described(selector.catalog)
        neutral = neutral_sentences()
        self._lexical = LexicalHead(training, neutral, selector.prepared, head=True)
        self._embedding = None
        if self._retriever is not None and selector.fitted_on:
            self._embedding = EmbeddingHeads(training, neutral, self._retriever.encode)
        elif self._retriever is not None:
            self._embedding = self._retriever.heads
        self._levels = self._no_tool_levels(training, neutral)

    def _no_tool_levels(
        self, training: TrainingTexts, neutral: Sequence[str]
    ) -> dict[bool, tuple[float, float]]:
        """Slope and level of the no-tool score with and without the encoder.

        Heads on one half of the catalog's examples and neutral sentences score the other half.
        """
        held = training.place % 2 == 1
        default = (NO_TOOL_SLOPE, NO_TOOL_LEVEL)
        if held.sum() < 10:
            return {True: default, False: default}
        half = training.where(~held)
        lexical = LexicalHead(half, neutral[::2], self._selector.prepared, head=True)
        embedding = None
        if self._retriever is not None:
            embedding = EmbeddingHeads(half, neutral[::2], self._retriever.encode)
        places = np.flatnonzero(held)
        places = places[:: max(1, len(places) // 300)]
        inside = [training.texts[i] for i in places]
        levels = {False: self._level(inside, neutral[1::2], lexical, None)}
        levels[True] = levels[False]
        if embedding is not None:
            levels[True] = self._level(inside, neutral[1::2], lexical, embedding)
        return levels

    def _level(
        self,
        inside: Sequence[str],
        outside: Sequence[str],
        lexical: LexicalHead,
        embedding: EmbeddingHeads | None,
    ) -> tuple[float, float]:
        from sklearn.linear_model import LogisticRegression

        one = _some_tool(self._parts(inside, lexical, embedding))
        two = _some_tool(self._parts(outside, lexical, embedding))
        y = np.r_[np.ones(len(one)), np.zeros(len(two))]
        weights = np.where(y == 1, 100.0 / len(one), 100.0 / len(two))
        model = LogisticRegression(C=1.0).fit(np.r_[one, two][:, None], y, sample_weight=weights)
        return float(model.coef_[0, 0]), float(model.intercept_[0])

    def _parts(
        self, messages: Sequence[str], lexical: LexicalHead, embedding: EmbeddingHeads | None
    ) -> Parts:
        logits, nearest = lexical.logits(messages)
        by_words = log_softmax(logits[:, :-1])
        if embedding is None:
            features = {
                "neutral": logits[:, :-1].max(axis=1) - logits[:, -1],
                "log_probability": by_words.max(axis=1),
                "lexical_cosine": nearest,
            }
            return Parts(SHARPNESS_LEXICAL * by_words, features)
        logits, gaussian, cosine = embedding.logits(messages)
        rank = log_softmax(logits[:, :-1])
        features = {
            "neutral": logits[:, :-1].max(axis=1) - logits[:, -1],
            "log_probability": rank.max(axis=1),
            "cosine": cosine,
            "lexical_cosine": nearest,
        }
        rank = rank + LEXICAL_SHARE * by_words
        if gaussian is not None:
            features["gaussian"] = gaussian.max(axis=1)
            rank = rank + GAUSSIAN_SHARE * log_softmax(gaussian)
        return Parts(SHARPNESS * rank, features)

    def log_odds_of(self, message: str) -> NDArray[np.float64]:
        """Return one message's log-odds on words alone, (n_tools,)."""
        logits, nearest = self._lexical.logits_of(message)
        of_tools = logits[:-1]
        by_words = of_tools - np.logaddexp.reduce(of_tools)
        features = {
            "neutral": float(of_tools.max()) - float(logits[-1]),
            "log_probability": float(by_words.max()),
            "lexical_cosine": nearest,
        }
        some = 0.0
        for name, (weight, spread) in NO_TOOL_PARTS_LEXICAL.items():
            some += weight * features[name] / spread
        slope, level = self._levels[False]
        described = self._descriptions.scores([message])[0]
        rank = SHARPNESS_LEXICAL * by_words + (DESCRIBED if self._rich else NAMED[False]) * described
        found: NDArray[np.float64] = (slope * some + level) + (rank - np.logaddexp.reduce(rank))
        return found

    def log_odds(self, messages: Sequence[str], embedding: NDArray[np.float32] | None) -> NDArray[np.float64]:
        found = np.empty((len(messages), len(self._selector.catalog)))
        trusted = np.zeros(len(messages), dtype=bool)
        if self._embedding is not None and self._retriever is not None:
            trusted = self._retriever.trust_of(messages) >= TRUSTED
        described = self._descriptions.scores(messages)
        for with_encoder in (True, False):
            rows = np.flatnonzero(trusted == with_encoder)
            if not len(rows):
                continue
            part = [messages[i] for i in rows.tolist()]
            parts = self._parts(part, self._lexical, self._embedding if with_encoder else None)
            slope, level = self._levels[with_encoder]
            share = DESCRIBED if self._rich else NAMED[with_encoder]
            ranked = log_softmax(parts.rank + share * described[rows])
            found[rows] = (slope * _some_tool(parts) + level)[:, None] + ranked
        return found


def _some_tool(parts: Parts) -> NDArray[np.float64]:
    """Evidence that some tool is right, (n,)."""
    table = NO_TOOL_PARTS if "cosine" in parts.features else NO_TOOL_PARTS_LEXICAL
    found = np.zeros(len(parts.rank))
    for name, values in parts.features.items():
        weight, spread = table[name]
        found += weight * values / spread
    return found


def _described(catalog: Catalog) -> bool:
    """Whether the descriptions of most tools say more than their names do."""
    n_rich = 0
    for tool in catalog:
        named = set(texts.words(texts.identifier_words(f"{tool.id} {tool.title}")))
        said = {w for w in texts.words(tool.description) if w not in texts.STOP_WORDS}
        n_rich += len(said - named) >= 2
    return 2 * n_rich >= len(catalog)


class _DescriptionEvidence:
    """Log-odds from descriptions and schemas."""

    def __init__(self, selector: LocalSelector) -> None:
        self._selector = selector
        self._evidence = DescriptionEvidence(selector.catalog, selector.lexical, selector.settings)

    def log_odds_of(self, message: str) -> NDArray[np.float64]:
        """Return one message's log-odds on words alone, (n_tools,)."""
        lexical = self._selector.lexical
        rank = DESCRIPTION_SHARPNESS * self._evidence.scores([message])[0]
        matched = float(np.log1p(lexical.mass_of(message).max() / lexical.floor))
        found: NDArray[np.float64] = (MATCHED_ALONE * matched + LEVEL_ALONE) + (
            rank - np.logaddexp.reduce(rank)
        )
        return found

    def log_odds(self, messages: Sequence[str], embedding: NDArray[np.float32] | None) -> NDArray[np.float64]:
        lexical, retriever = self._selector.lexical, self._selector.retriever
        rank = self._evidence.scores(messages)
        matched = np.log1p(lexical.mass(messages).max(axis=1, initial=0.0) / lexical.floor)
        some = MATCHED_ALONE * matched + LEVEL_ALONE
        if embedding is not None:
            trust = np.ones(len(messages))
            if isinstance(retriever, EmbeddingRetriever):
                trust = retriever.trust_of(messages)
                near = FAMILIAR * retriever.familiarity(messages) + MATCHED * matched + DESCRIPTION_LEVEL
                some = np.where(trust >= TRUSTED, near, some)
            share = EMBEDDING_SHARE * trust[:, None]
            rank = (1 - share) * rank + share * standardized(embedding.astype(np.float64))
        odds: NDArray[np.float64] = some[:, None] + log_softmax(DESCRIPTION_SHARPNESS * rank)
        return odds
