"""The router: the only place where the stages meet and times are taken.

``score`` turns messages into evidence (the expensive part, batched); ``decide`` turns evidence into
verdicts (the cheap part, pure). A route is one message through both; evaluation, sweeps and replay are
many messages through the very same two.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router.catalog import Catalog
from mono_router.decision import Calibration, Evidence, Need, Scored, Verdict, decide, shown_to_model
from mono_router.decision_table import TableDecider, Verdicts
from mono_router.embedding import EmbeddingRetriever
from mono_router.evidence_table import EvidenceTable, LazyFill, ToolFacts
from mono_router.fusion import MISSED, Scale
from mono_router.lexical import LexicalRetriever
from mono_router.local import LocalSelector
from mono_router.memory import safe_view, user_memory
from mono_router.models.recorded import NotRecorded
from mono_router.prompting import load_prompt
from mono_router.recall import ask_recall
from mono_router.records import (
    SCORE_DECIMALS,
    Answer,
    Encoder,
    Filled,
    Hit,
    Memory,
    Model,
    Query,
    RecallAnswer,
    Retriever,
    SelectionTrace,
    Selector,
    Tool,
    Trace,
    Usage,
)
from mono_router.selection import ModelSelector
from mono_router.settings import FIELDS, Settings
from mono_router.text import clean

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_MESSAGE_CHARS = 100_000
_CHUNK_CELLS = 16_000_000
"""Scores that one chunk of messages may hold, per stage: bounds memory at 128 MB a stage."""
_SORTED = 512
"""Tools up to which a row is sorted whole to find its best."""
Progress = Callable[[int], object]


class Router:
    """Routes messages over one catalog.

    Parameters
    ----------
    catalog
        Tools to route to.
    settings
        All thresholds and switches.
    encoder
        Turns on the embedding retriever, and embedding evidence in the local selector.
    model
        Routing model: recalls (``recall.source``) and, unless a selector is given, selects.
    selector
        Stands in for stage 4; default: the model if there is one, else :class:`LocalSelector`.
    retriever
        Stands in for stage 2's embedding retriever.
    calibrator
        Fitted :class:`~mono_router.Calibrator`: turns raw confidences into probabilities.

    >>> catalog = Catalog([Tool(id="price", description="Price of a service", hints=("how much is it",)),
    ...                    Tool(id="book", description="Book an appointment")])
    >>> Router(catalog).route("how much is it?").decision.tool
    'price'
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        settings: Settings | None = None,
        encoder: Encoder | None = None,
        model: Model | None = None,
        selector: Selector | None = None,
        retriever: Retriever | None = None,
        calibrator: Calibration | None = None,
    ) -> None:
        if encoder is not None and retriever is not None:
            raise ValueError("give an encoder or a retriever, not both")
        self.catalog = catalog
        self.encoder = encoder
        self.model = model
        self.calibrator = calibrator
        self._given_selector = selector
        self._given_settings = settings or Settings()
        self.retriever: Retriever | None = retriever
        if encoder is not None:
            self.retriever = EmbeddingRetriever(catalog, encoder)
        self.facts = ToolFacts.of(catalog.tools)
        self.tools: Mapping[str, Tool] = self.facts.tools
        self._system_arguments = catalog.system_arguments
        self._build(self._given_settings)

    def _build(self, settings: Settings) -> None:
        """Fit what the score settings shape."""
        source = settings.recall.source or self._default_source()
        if source in ("model", "both") and self.model is None:
            raise ValueError(f"recall.source {source} needs a model")
        if source in ("embedding", "both") and self.retriever is None:
            raise ValueError(f"recall.source {source} needs an encoder or a retriever")
        self.lexical = LexicalRetriever(self.catalog, settings)
        selector = self._given_selector
        if selector is None and self.model is not None:
            selector = ModelSelector(self.model, settings=settings.selection)
        elif selector is None:
            selector = LocalSelector(
                self.catalog,
                lexical=self.lexical,
                retriever=self.retriever,
                settings=settings.selection,
            )
        elif isinstance(selector, (ModelSelector, LocalSelector)):
            selector = selector.configured(settings.selection)
        self.selector: Selector = selector
        self.settings = self.resolved(settings)
        self.prompts: dict[str, str] = {}
        if source in ("model", "both"):
            self.prompts["recall"] = load_prompt("recall", settings.recall.prompt).hash
        if isinstance(selector, ModelSelector):
            self.prompts["selection"] = selector.prompt.hash

    def _default_source(self) -> str:
        if self.model is not None:
            return "model"
        return "embedding" if self.retriever is not None else "none"

    def resolved(self, settings: Settings) -> Settings:
        """Return settings with the defaults filled in that depend on the router's parts."""
        changes: dict[str, Any] = {}
        if settings.recall.source is None:
            changes["recall.source"] = self._default_source()
        if settings.selection.min_confidence is None:
            changes["selection.min_confidence"] = float(getattr(self.selector, "min_confidence", 0.0))
        return settings.replace(changes) if changes else settings

    def with_settings(self, settings: Settings) -> Router:
        """Return this router under other settings; only what those settings shape is fitted again."""
        other = object.__new__(Router)
        other.__dict__.update(self.__dict__)
        other._given_settings = settings
        if score_key(self.resolved(settings)) == score_key(self.settings) and (
            settings.selection.fallback_attempts == self.settings.selection.fallback_attempts
            and settings.selection.max_skills == self.settings.selection.max_skills
        ):
            other.settings = self.resolved(settings)
        else:
            other._build(settings)
        return other

    def with_parts(self, *, selector: Selector | None, calibrator: Calibration | None) -> Router:
        """Return this router with another selector (None = the default) and calibrator; the rest stays."""
        other = object.__new__(Router)
        other.__dict__.update(self.__dict__)
        other.calibrator = calibrator
        if selector is not self._given_selector:
            other._given_selector = selector
            other._build(self._given_settings)
        return other

    @property
    def selector_scores(self) -> bool:
        """Whether the selector scores every tool (then replay is exact) or must be asked."""
        return hasattr(self.selector, "scores")

    @property
    def simulated(self) -> bool:
        """Whether a simulated model takes part."""
        models = (self.model, getattr(self.selector, "model", None))
        return any(getattr(model, "simulated", False) for model in models)

    def route(
        self,
        message: str,
        *,
        memory: Memory | None = None,
        now: str | None = None,
        within: Iterable[str] | None = None,
    ) -> Trace:
        """Return the trace of one message.

        Parameters
        ----------
        message
            What the user wrote, at most 100,000 characters.
        memory
            Working memory of the session.
        now
            Local date and time with offset, ISO 8601, optionally with ``[Zone/Name]``; without it
            relative dates stay words.
        within
            Ids of the tools that may be used; default all.

        Raises
        ------
        ValueError
            If the message is too long, or ``within`` names an unknown tool.
        NotRecorded
            If a recording is replayed that lacks an answer.
        """
        return self.trace(Query(message=message, memory=memory, now=now), within=within)

    def trace(self, query: Query, *, within: Iterable[str] | None = None) -> Trace:
        """Return the trace of a query."""
        start = time.perf_counter()
        if self.selector_scores and self.settings.recall.source in ("embedding", "none"):
            return self._trace_alone(self._checked(query), within, start)
        table = self.score([query], within=[within])
        scored = time.perf_counter()
        verdict, spent = self._complete(table, 0)
        done = time.perf_counter()
        timings = dict(table.timings)
        timings["recall_ms"] += spent["recall"]
        timings["selection_ms"] += (done - scored) * 1e3 - spent["recall"]
        timings["total_ms"] = (done - start) * 1e3
        return self._trace(table, 0, verdict, timings)

    def _trace_alone(self, query: Query, within: Iterable[str] | None, start: float) -> Trace:
        """One message without the tables that many share: the same evidence, an order faster to build."""
        lexical = self.lexical.scores_of(query.message)
        first = time.perf_counter()
        embedding, shown = self._embedding([query], [self.settings])
        second = time.perf_counter()
        log_odds = self._log_odds([query], embedding)
        assert log_odds is not None
        evidence = self._evidence(
            query,
            self._offered(within),
            lexical,
            embedding[0] if embedding is not None and shown else None,
            log_odds[0],
            self._parts([query])[0],
        )
        verdict = decide(evidence, self.settings, self.tools, self.calibrator)
        third = time.perf_counter()
        timings = {
            "lexical_ms": (first - start) * 1e3,
            "recall_ms": (second - first) * 1e3,
            "selection_ms": (third - second) * 1e3,
            "total_ms": (third - start) * 1e3,
        }
        return self._made_trace(query, verdict, Usage(), timings, evidence)

    def _evidence(
        self,
        query: Query,
        offered: tuple[str, ...] | None,
        lexical: NDArray[np.float64],
        embedding: NDArray[np.float32] | None,
        log_odds: NDArray[np.float64],
        parts: NDArray[np.float64],
    ) -> Evidence:
        """What ``score`` and :meth:`EvidenceTable.row` make of one message."""
        ids, own = self.catalog.ids, self.settings
        mask = None
        if offered is not None or not query.message.strip():
            mask = self._mask([query.message], [offered])
        row = lexical if mask is None else np.where(mask[0], lexical, 0.0)
        hits, columns = _hits(row, ids, max(2, own.lexical.candidate_limit), 0.0, "lexical")
        near_hits, near_scale, near = None, Scale(), row
        if embedding is not None:
            near = _rounded(embedding)
            near_scale = _scale(near, mask, float(self._trust([query.message])[0]))
            if mask is not None:
                near = np.where(mask[0], near, -np.inf)
            width = max(2, min(own.recall.candidate_limit, own.recall.ask_limit))
            near_hits, near_columns = _hits(near, ids, width, -np.inf, "embedding")
            columns = [*dict.fromkeys([*columns, *near_columns])]
        pending = self._pending(query, mask, 0)
        if pending >= 0 and pending not in columns:
            columns.append(pending)
        names = [ids[column] for column in columns]
        fill = getattr(self.selector, "fill", None)

        def named(scores: NDArray[np.float64]) -> dict[str, float]:
            return dict(zip(names, scores.take(columns).tolist(), strict=True))

        return Evidence(
            lexical=hits,
            embedding=near_hits,
            lexical_scores=named(row),
            embedding_scores={} if embedding is None else named(near),
            log_odds=named(log_odds),
            parts=tuple([named(part) for part in parts]),
            lexical_scale=_scale(row, mask),
            embedding_scale=near_scale,
            pending=ids[pending] if pending >= 0 else None,
            offered=offered,
            n_offered=len(ids) if offered is None else len(offered),
            filled=LazyFill(lambda name: _filled(fill, query, self.tools[name])),
        )

    def route_many(
        self,
        messages: Sequence[str],
        *,
        jobs: int = 1,
        progress: Progress | None = None,
    ) -> list[Trace]:
        """Return the traces of many messages, scored in batches; ``jobs`` threads ask a model."""
        queries = [Query(message=message) for message in messages]
        traces: list[Trace] = []
        for start, stop in self.chunks(len(queries)):
            begun = time.perf_counter()
            table = self.score(queries[start:stop])
            verdicts = self.gather(table, self.settings, jobs=jobs, progress=progress)
            share = (time.perf_counter() - begun) * 1e3 / max(1, stop - start)
            for i in range(stop - start):
                timings = {name: value / (stop - start) for name, value in table.timings.items()}
                timings["total_ms"] = share
                verdict = verdicts[i]
                if verdict.needs is not None:
                    self._require(table, i, verdict)
                traces.append(self._trace(table, i, verdict, timings))
        return traces

    def chunks(self, n: int) -> list[tuple[int, int]]:
        """Return the bounds of the batches that ``n`` messages are scored in."""
        step = max(1, min(4096, _CHUNK_CELLS // max(1, len(self.catalog))))
        return [(start, min(n, start + step)) for start in range(0, n, step)]

    # --- scoring ------------------------------------------------------------------------------

    def score(
        self,
        queries: Sequence[Query],
        *,
        within: Sequence[Iterable[str] | None] | None = None,
        widest: Sequence[Settings] = (),
        include: Sequence[Iterable[str]] | None = None,
    ) -> ScoredTable:
        """Return the evidence on messages, wide enough for the router's and the given settings.

        Parameters
        ----------
        queries
            Messages with their memory and time.
        within
            Tools that each message may use; None = all.
        widest
            Settings that the evidence must be able to replay.
        include
            Further tools of each message whose scores are kept, found or not.
        """
        plans = [self.settings, *(self.resolved(s) for s in widest)]
        queries = [self._checked(query) for query in queries]
        messages = [query.message for query in queries]
        offered = [self._offered(ids) for ids in within] if within is not None else [None] * len(queries)
        mask = self._mask(messages, offered)
        timings = {"lexical_ms": 0.0, "recall_ms": 0.0, "selection_ms": 0.0}
        started = time.perf_counter()
        lexical = self.lexical.scores(messages)
        timings["lexical_ms"] = (time.perf_counter() - started) * 1e3
        started = time.perf_counter()
        embedding, shown = self._embedding(queries, plans)
        timings["recall_ms"] = (time.perf_counter() - started) * 1e3
        started = time.perf_counter()
        log_odds = self._log_odds(queries, embedding)
        timings["selection_ms"] = (time.perf_counter() - started) * 1e3
        table = self._table(
            queries, offered, mask, lexical, embedding if shown else None, log_odds, plans, include
        )
        table.part_odds = [
            _taken(part, np.broadcast_to(row, (len(part), len(row))))
            for part, row in zip(self._parts(queries), table.union, strict=True)
        ]
        table.timings = timings
        return table

    def _embedding(
        self, queries: Sequence[Query], plans: Sequence[Settings]
    ) -> tuple[NDArray[np.float32] | None, bool]:
        """Scores of the embedding stage (n, n_tools) where anything needs them, and whether stage 2 does."""
        shown = any(p.recall.source in ("embedding", "both") for p in plans)
        if self.retriever is None or not (shown or self._shares_retriever):
            return None, shown
        scores = np.asarray(self.retriever.scores([query.message for query in queries]), dtype=np.float32)
        expected = (len(queries), len(self.catalog))
        if scores.shape != expected:
            raise ValueError(f"retriever.scores must return {expected}, got {scores.shape}")
        return scores, shown

    @property
    def _shares_retriever(self) -> bool:
        return isinstance(self.selector, LocalSelector) and self.selector.retriever is self.retriever

    def _trust(self, messages: Sequence[str]) -> NDArray[np.float64]:
        """How far the embedding scores of each message may be relied on, (n,)."""
        trust_of = getattr(self.retriever, "trust_of", None)
        if trust_of is None:
            return np.ones(len(messages))
        found: NDArray[np.float64] = trust_of(messages)
        return found

    def _log_odds(
        self, queries: Sequence[Query], embedding: NDArray[np.float32] | None
    ) -> NDArray[np.float64] | None:
        """The selector's scores (n, n_tools); None where it only selects."""
        if not self.selector_scores:
            return None
        if isinstance(self.selector, LocalSelector) and self._shares_retriever:
            return self.selector.combined(queries, embedding)
        scores: NDArray[np.float64] = np.asarray(self.selector.scores(queries), dtype=np.float64)  # type: ignore[attr-defined]
        expected = (len(queries), len(self.catalog))
        if scores.shape != expected:
            raise ValueError(f"selector.scores must return {expected}, got {scores.shape}")
        return scores.round(SCORE_DECIMALS)

    def _parts(self, queries: Sequence[Query]) -> list[NDArray[np.float64]]:
        """The selector's scores of each message's clauses, (n_clauses, n_tools) each; no rows without."""
        parts = getattr(self.selector, "parts", None)
        if parts is None:
            return [np.empty((0, len(self.catalog)))] * len(queries)
        found: list[NDArray[np.float64]] = parts(queries)
        return found

    def _checked(self, query: Query) -> Query:
        if not isinstance(query.message, str):
            raise TypeError(f"message must be text, got {type(query.message).__name__}")
        if len(query.message) > MAX_MESSAGE_CHARS:
            size = len(query.message)
            raise ValueError(f"message must be at most {MAX_MESSAGE_CHARS} characters, got {size}")
        cleaned, memory = clean(query.message), query.memory
        if memory is not None:
            memory = user_memory(memory, self._system_arguments)
        if cleaned == query.message and memory is query.memory:
            return query
        return Query(message=cleaned, memory=memory, now=query.now, id=query.id)

    def _offered(self, ids: Iterable[str] | None) -> tuple[str, ...] | None:
        if ids is None:
            return None
        known = {self.catalog.kept_id(i) for i in ids}
        unknown = sorted(i for i in known if i not in self.catalog)
        if unknown:
            raise ValueError(f"within names unknown tool {unknown[0]!r}")
        return tuple(sorted(known))

    def _mask(
        self, messages: Sequence[str], offered: Sequence[tuple[str, ...] | None]
    ) -> NDArray[np.bool_] | None:
        """Tools that each message may use, (n, n_tools); None = all may use all."""
        if all(ids is None for ids in offered) and all(m.strip() for m in messages):
            return None
        mask = np.ones((len(messages), len(self.catalog)), dtype=bool)
        for i, ids in enumerate(offered):
            if not messages[i].strip():
                mask[i] = False  # an empty message asks for nothing
            elif ids is not None:
                mask[i] = False
                mask[i, [self.catalog.position[t] for t in ids]] = True
        return mask

    def _table(
        self,
        queries: Sequence[Query],
        offered: Sequence[tuple[str, ...] | None],
        mask: NDArray[np.bool_] | None,
        lexical: NDArray[np.float32],
        embedding: NDArray[np.float32] | None,
        log_odds: NDArray[np.float64] | None,
        plans: Sequence[Settings],
        include: Sequence[Iterable[str]] | None,
    ) -> ScoredTable:
        n, n_tools = lexical.shape
        exact = _rounded(lexical)
        if mask is not None:
            exact = np.where(mask, exact, 0.0)
        lexical_scale = _scales(exact, mask)
        width = max(2, *(p.lexical.candidate_limit for p in plans))
        lexical_top = _top(exact, width, above=0.0)
        members = [lexical_top]
        near: NDArray[np.float64] | None = None
        near_top = near_scale = None
        if embedding is not None:
            near = _rounded(embedding)
            near_scale = _scales(near, mask, self._trust([query.message for query in queries]))
            if mask is not None:
                near = np.where(mask, near, -np.inf)
            width = max(2, *(min(p.recall.candidate_limit, p.recall.ask_limit) for p in plans))
            if any(p.recall.source == "both" for p in plans):
                width = max(width, *(min(n_tools, p.recall.max_catalog_tools) for p in plans))
            near_top = _top(near, width, above=-np.inf)
            members.append(near_top)
        pending = np.array([self._pending(q, mask, i) for i, q in enumerate(queries)], dtype=np.int32)
        members.append(pending[:, None].astype(np.int64))
        if include is not None:
            members.append(self._numbers(include))
        if any(p.recall.source in ("model", "both") for p in plans):
            members.append(self._askable(plans, mask, n))
        union = _union(members, n_tools)
        known = np.where(union >= 0, union, 0)
        n_offered = np.full(n, n_tools) if mask is None else mask.sum(axis=1)
        chars, tool_chars = self._chars(offered, plans)
        return ScoredTable(
            queries=tuple(queries),
            facts=self.facts,
            union=union,
            lexical=np.take_along_axis(exact, known, axis=1) if n_tools else np.zeros(union.shape),
            lexical_rank=_ranks(lexical_top, union),
            lexical_scale=lexical_scale,
            embedding=None if near is None else _taken(near, union),
            embedding_rank=None if near_top is None else _ranks(near_top, union),
            embedding_scale=near_scale,
            log_odds=None if log_odds is None else _taken(log_odds, union),
            selector_scores=self.selector_scores,
            pending=pending,
            offered=list(offered),
            n_offered=n_offered.astype(np.int64),
            catalog_chars=chars,
            tool_chars=tool_chars,
            fill=getattr(self.selector, "fill", None),
        )

    def _numbers(self, names: Sequence[Iterable[str]]) -> NDArray[np.int64]:
        rows = [[self.catalog.position[tool] for tool in row] for row in names]
        found = np.full((len(rows), max(1, *(len(row) for row in rows))), -1, dtype=np.int64)
        for i, row in enumerate(rows):
            found[i, : len(row)] = row
        return found

    def _pending(self, query: Query, mask: NDArray[np.bool_] | None, i: int) -> int:
        waiting = query.memory.pending if query.memory is not None else None
        place = self.catalog.position.get(waiting.tool, -1) if waiting is not None else -1
        return place if place < 0 or mask is None or mask[i, place] else -1

    def _askable(
        self, plans: Sequence[Settings], mask: NDArray[np.bool_] | None, n: int
    ) -> NDArray[np.int64]:
        """Tools that a model may be shown and so may name: all that are offered, under the widest gate."""
        n_tools = len(self.catalog)
        gate = max(p.recall.max_catalog_tools for p in plans)
        rows = np.full((n, min(n_tools, gate)), -1, dtype=np.int64)
        for i in range(n):
            allowed = np.arange(n_tools) if mask is None else np.flatnonzero(mask[i])
            if len(allowed) <= gate:
                rows[i, : len(allowed)] = allowed
        return rows

    def _chars(
        self, offered: Sequence[tuple[str, ...] | None], plans: Sequence[Settings]
    ) -> tuple[NDArray[np.int64], dict[str, int]]:
        """Size of the compressed catalog for each message, and of each tool's line in it."""
        chars = np.zeros(len(offered), dtype=np.int64)
        if not any(p.recall.source in ("model", "both") for p in plans):
            return chars, {}
        own = self.settings.recall
        sizes: dict[tuple[str, ...] | None, int] = {}
        for i, ids in enumerate(offered):
            if ids not in sizes:
                level: Any = own.level
                sizes[ids] = self.catalog.compressed(
                    examples=own.catalog_examples, level=level, ids=ids
                ).n_chars
            chars[i] = sizes[ids]
        lines = self.catalog.compressed(examples=own.catalog_examples).text.split("\n")
        return chars, {t: len(line) + 1 for t, line in zip(self.catalog.ids, lines, strict=False)}

    # --- deciding -----------------------------------------------------------------------------

    def gather(
        self,
        table: EvidenceTable,
        settings: Settings,
        *,
        jobs: int = 1,
        progress: Progress | None = None,
        ask: bool = True,
        rows: Sequence[int] | None = None,
    ) -> list[Verdict]:
        """Return the verdict of each row (default: of all), asking models for what is missing (``ask``).

        ``jobs`` are asked at a time.

        A verdict that a recording cannot answer keeps its ``needs``.
        """

        def one(i: int) -> Verdict:
            verdict, _ = self._complete(table, i, settings=settings, ask=ask, strict=False)
            if progress is not None:
                progress(1)
            return verdict

        rows = range(len(table)) if rows is None else rows
        if jobs == 1 or (self.model is None and not isinstance(self.selector, ModelSelector)):
            return [one(i) for i in rows]
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            return list(pool.map(one, rows))

    def decide(
        self,
        table: EvidenceTable,
        settings: Settings | None = None,
        *,
        jobs: int = 1,
        progress: Progress | None = None,
        ask: bool = True,
    ) -> Verdicts:
        """Return the verdicts on a table as arrays, after asking models for what is missing."""
        resolved = self.resolved(settings or self.settings)
        if not table.selector_scores or resolved.recall.source in ("model", "both"):
            self.gather(table, resolved, jobs=jobs, progress=progress, ask=ask)
        return TableDecider(table, self.calibrator).decide(resolved)

    def _complete(
        self,
        table: EvidenceTable,
        i: int,
        *,
        settings: Settings | None = None,
        ask: bool = True,
        strict: bool = True,
    ) -> tuple[Verdict, dict[str, float]]:
        """Decide row i, fetching evidence until the decision stands."""
        settings = settings or self.settings
        spent = {"recall": 0.0, "selection": 0.0}
        evidence = table.row(i)
        while True:
            verdict = decide(evidence, settings, self.tools, self.calibrator)
            need = verdict.needs
            if need is None:
                return verdict, spent
            started = time.perf_counter()
            if need.kind == "fill":
                assert need.tools is not None
                table.fill_for(i, need.tools[0])
            elif not ask:
                return verdict, spent
            else:
                try:
                    self._ask(table, i, need, settings)
                except NotRecorded:
                    if strict:
                        raise
                    return verdict, spent
            kind = "recall" if need.kind == "recall" else "selection"
            spent[kind] += (time.perf_counter() - started) * 1e3

    def _ask(self, table: EvidenceTable, i: int, need: Need, settings: Settings) -> None:
        query = table.queries[i]
        if need.kind == "recall":
            assert self.model is not None
            prompt = load_prompt("recall", settings.recall.prompt)
            table.recall_answers[i][need.tools] = self._recall_answer(query, need, settings, prompt, table, i)
        elif need.kind == "selection":
            assert need.tools is not None
            answer: Answer = self.selector.select(query, [self.tools[t] for t in need.tools])
            table.answers[i][need.tools] = answer
        else:
            raise RuntimeError(f"evidence of kind {need.kind} was not scored")

    def _recall_answer(
        self, query: Query, need: Need, settings: Settings, prompt: Any, table: EvidenceTable, i: int
    ) -> RecallAnswer:
        assert self.model is not None
        shown = need.tools if need.tools is not None else table.offered[i]
        return ask_recall(self.model, query, self.catalog, settings.recall, prompt, shown)

    def _require(self, table: EvidenceTable, i: int, verdict: Verdict) -> None:
        assert verdict.needs is not None
        self._ask(table, i, verdict.needs, self.settings)

    def _trace(self, table: EvidenceTable, i: int, verdict: Verdict, timings: Mapping[str, float]) -> Trace:
        usage = Usage()
        evidence = table.row(i)
        if verdict.recall.model_called:
            shown, _ = shown_to_model(evidence, self.settings)
            usage += table.recall_answers[i][shown].usage
        selection = verdict.selection
        if selection is not None and selection.model_called and selection.shortlist in table.answers[i]:
            usage += table.answers[i][selection.shortlist].usage
        return self._made_trace(table.queries[i], verdict, usage, timings, evidence)

    def _made_trace(
        self, query: Query, verdict: Verdict, usage: Usage, timings: Mapping[str, float], evidence: Evidence
    ) -> Trace:
        from mono_router import __version__

        assert verdict.decision is not None
        return Trace(
            query=query if query.memory is None else dataclasses.replace(query, memory=None),
            memory=safe_view(query.memory),
            lexical=verdict.lexical,
            recall=verdict.recall,
            fused=verdict.fused,
            candidates=verdict.candidates,
            selection=verdict.selection or SelectionTrace(shortlist=(), ranked=(), rejections=()),
            decision=verdict.decision,
            usage=usage,
            timings={name: round(value, 3) for name, value in timings.items()},
            catalog_hash=self.catalog.hash,
            settings_hash=self.settings.hash,
            prompts=self.prompts,
            model=self._model_name(),
            simulated=self.simulated,
            version=__version__,
            scored=Scored(
                evidence=evidence, settings=self.settings, tools=self.tools, calibration=self.calibrator
            ),
        )

    def _model_name(self) -> str | None:
        model = self.model or getattr(self.selector, "model", None)
        return None if model is None else str(model.name)


class ScoredTable(EvidenceTable):
    """An evidence table with the time that scoring took."""

    timings: dict[str, float]


def score_key(settings: Settings) -> tuple[Any, ...]:
    """Return the values that shape scores: settings that share them share their evidence."""
    names = [name for name, item in FIELDS.items() if item.metadata["replay"] == "score"]
    values = (settings.get(name) for name in names)
    return tuple(tuple(v.items()) if isinstance(v, Mapping) else v for v in values)


def _filled(fill: Callable[[Query, Tool], Filled] | None, query: Query, tool: Tool) -> Filled:
    return Filled(mode=tool.modes[0]) if fill is None else fill(query, tool)


def _hits(
    row: NDArray[np.float64], ids: Sequence[str], k: int, above: float, source: Any
) -> tuple[tuple[Hit, ...], list[int]]:
    """The best k entries of a row above a level, best first, ties by id, and their columns."""
    if len(row) <= _SORTED:
        values = row.tolist()
        # Reversed, a sort keeps the order of equals.
        columns = sorted(range(len(values)), key=values.__getitem__, reverse=True)[:k]
        columns = [column for column in columns if values[column] > above]
        best = [values[column] for column in columns]
    else:
        columns = [column for column in _top(row[None], k, above=above)[0].tolist() if column >= 0]
        best = row.take(columns).tolist()
    hits = [
        Hit(tool=ids[column], score=score, source=source, rank=rank)
        for rank, (column, score) in enumerate(zip(columns, best, strict=True))
    ]
    return tuple(hits), columns


def _rounded(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    exact: NDArray[np.float64] = scores.astype(np.float64)
    return exact.round(SCORE_DECIMALS)


def _scale(row: NDArray[np.float64], mask: NDArray[np.bool_] | None, trust: float = 1.0) -> Scale:
    """:func:`_scales` of one row."""
    n = len(row)
    if mask is not None or not n:
        return Scale(*_scales(row[None], mask, np.array([trust]))[0].tolist())
    mean = float(np.add.reduce(row)) / n
    moved = row - mean
    spread = math.sqrt(float(np.add.reduce(moved * moved)) / n)
    return Scale(*[round(value * 1e9) / 1e9 for value in (mean, spread, trust)])


def _scales(
    scores: NDArray[np.float64], mask: NDArray[np.bool_] | None, trust: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Mean, standard deviation and trust of each row over the offered tools, (n, 3), rounded."""
    n = len(scores)
    if trust is None:
        trust = np.ones(n)
    if not scores.shape[1]:
        return np.column_stack([np.zeros(n), np.zeros(n), trust])
    if mask is None:
        mean, spread = scores.mean(axis=1), scores.std(axis=1)
    else:
        count = np.maximum(1, mask.sum(axis=1))
        mean = np.where(mask, scores, 0.0).sum(axis=1) / count
        spread = np.sqrt((np.where(mask, scores - mean[:, None], 0.0) ** 2).sum(axis=1) / count)
    return np.round(np.column_stack([mean, spread, trust]), 9)


def _top(scores: NDArray[np.float64], k: int, *, above: float) -> NDArray[np.int64]:
    """Columns of the best k scores above a level, (n, <=k), best first, ties by column, then -1."""
    n, n_tools = scores.shape
    k = min(k, n_tools)
    found = np.full((n, max(1, k)), -1, dtype=np.int64)
    if n_tools <= _SORTED:
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(scores, order, axis=1)
        found[:, :k] = np.where(best > above, order, -1)
        return found
    for i, row in enumerate(scores):
        least = np.partition(row, n_tools - k)[n_tools - k]
        columns = np.flatnonzero((row >= least) & (row > above))
        columns = columns[np.argsort(-row[columns], kind="stable")][:k]
        found[i, : len(columns)] = columns
    return found


def _union(members: Sequence[NDArray[np.int64]], n_tools: int) -> NDArray[np.int32]:
    """Distinct columns of each row over all members, ascending, then -1."""
    joined = np.concatenate(members, axis=1)
    joined = np.sort(np.where(joined < 0, n_tools, joined), axis=1)
    again = np.zeros(joined.shape, dtype=bool)
    again[:, 1:] = joined[:, 1:] == joined[:, :-1]
    joined = np.sort(np.where(again, n_tools, joined), axis=1)
    width = max(1, int((joined < n_tools).sum(axis=1).max(initial=0)))
    return np.where(joined < n_tools, joined, -1)[:, :width].astype(np.int32)


def _ranks(top: NDArray[np.int64], union: NDArray[np.int32]) -> NDArray[np.int64]:
    """Rank of each union column within a top list, MISSED where it is not in it."""
    ranks = np.full(union.shape, MISSED, dtype=np.int64)
    for place in range(top.shape[1] - 1, -1, -1):
        column = top[:, place : place + 1]
        ranks[(union == column) & (column >= 0)] = place
    return ranks


def _taken(scores: NDArray[np.float64], union: NDArray[np.int32]) -> NDArray[np.float64]:
    """Scores at the union's columns; -inf where a row has none."""
    if not scores.shape[1]:
        return np.full(union.shape, -np.inf)
    found = np.take_along_axis(scores, np.where(union >= 0, union, 0), axis=1)
    return np.where(union >= 0, found, -np.inf)
