"""The array twin of :mod:`mono_router.decision`: many messages, many settings, the same verdicts.

A table holds, for each message, the union of what the stages found (as wide as any setting keeps) with
all scores, as arrays (n, n_union) whose columns stand in id order within a row. Parts of a decision
that several settings share (a fused order, a ranking) are computed once and kept. Where a model
recalls or selects, its answers differ by shortlist and rows are decided one by one with :func:`decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mono_router.decision import SIGNALS, Calibration, Evidence, Verdict, decide, joint_mode, several
from mono_router.fusion import MISSED, Scale, fused_scores
from mono_router.records import (
    OUTCOMES,
    SCORE_DECIMALS,
    Answer,
    Decision,
    Filled,
    Hit,
    Query,
    RecallAnswer,
    Tool,
    Usage,
)
from mono_router.settings import FusionSettings, Settings

_NO_PARTS: NDArray[np.float64] = np.empty((0, 0))
UNRECORDED = -1
"""Outcome code of a case whose decision needs an answer that was never recorded."""
CODES = {name: code for code, name in enumerate(OUTCOMES)}
N_FUSED = 10
"""Length of the fused list that is kept for recall at k."""


@dataclass(frozen=True)
class ToolFacts:
    """What decisions need to know of a catalog's tools; the arrays end in a False for tool -1."""

    tools: Mapping[str, Tool]
    ids: tuple[str, ...]
    """Ids by tool number."""
    writes: NDArray[np.bool_]
    requires_arguments: NDArray[np.bool_]
    """Whether there are required user arguments."""
    takes_arguments: NDArray[np.bool_]

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> ToolFacts:
        """Return the facts of tools in id order."""
        return cls(
            tools={tool.id: tool for tool in tools},
            ids=tuple(tool.id for tool in tools),
            writes=np.array([*(tool.effects == "write" for tool in tools), False]),
            requires_arguments=np.array([*(bool(tool.required) for tool in tools), False]),
            takes_arguments=np.array([*(bool(tool.properties) for tool in tools), False]),
        )


@dataclass(kw_only=True)
class EvidenceTable:
    """Evidence on n messages over one catalog. Columns that a row does not use hold tool -1."""

    queries: tuple[Query, ...]
    facts: ToolFacts
    union: NDArray[np.int32]
    """Tool numbers (n, n_union), ascending, then -1."""
    lexical: NDArray[np.float64]
    lexical_rank: NDArray[np.int64]
    lexical_scale: NDArray[np.float64]
    """Mean, spread and trust (n, 3), as :class:`~mono_router.fusion.Scale` has them."""
    embedding: NDArray[np.float64] | None = None
    embedding_rank: NDArray[np.int64] | None = None
    embedding_scale: NDArray[np.float64] | None = None
    log_odds: NDArray[np.float64] | None = None
    part_odds: list[NDArray[np.float64]] = field(default_factory=list)
    """Log-odds of the union's tools for each clause of a message, (n_clauses, n_union); no rows for one."""
    selector_scores: bool = True
    pending: NDArray[np.int32]
    """Tool number (n,), -1 = none."""
    offered: list[tuple[str, ...] | None]
    n_offered: NDArray[np.int64]
    catalog_chars: NDArray[np.int64]
    tool_chars: Mapping[str, int] = field(default_factory=dict)
    fill: Callable[[Query, Tool], Filled] | None = None
    recall_answers: list[dict[tuple[str, ...] | None, RecallAnswer]] = field(default_factory=list)
    answers: list[dict[tuple[str, ...], Answer]] = field(default_factory=list)
    filled: list[dict[str, Filled]] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = len(self.queries)
        self.recall_answers = self.recall_answers or [{} for _ in range(n)]
        self.answers = self.answers or [{} for _ in range(n)]
        self.filled = self.filled or [{} for _ in range(n)]
        self.part_odds = self.part_odds or [_NO_PARTS] * n
        self._asks = np.where(self.facts.requires_arguments[self.union], -1, 0).astype(np.int8)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Tools by id."""
        return self.facts.tools

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the catalog, by tool number."""
        return self.facts.ids

    @property
    def n_bytes(self) -> int:
        """Memory of the arrays."""
        return sum(v.nbytes for v in vars(self).values() if isinstance(v, np.ndarray))

    def fill_for(self, i: int, tool: str) -> Filled:
        """Return the arguments and the mode of a tool for message i, extracted once."""
        known = self.filled[i].get(tool)
        if known is None:
            chosen = self.tools[tool]
            known = Filled(mode=chosen.modes[0]) if self.fill is None else self.fill(self.queries[i], chosen)
            self.filled[i][tool] = known
        return known

    def asks(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return whether required arguments are missing for the tools at these places."""
        state = self._asks[rows, columns]
        for at in np.flatnonzero(state < 0).tolist():
            i, column = int(rows[at]), int(columns[at])
            missing = self.fill_for(i, self.ids[self.union[i, column]]).missing
            self._asks[i, column] = state[at] = bool(missing)
        return state > 0

    def row(self, i: int) -> Evidence:
        """Return the evidence on message i as :func:`decide` takes it."""
        used = np.flatnonzero(self.union[i] >= 0)
        names = [self.ids[t] for t in self.union[i, used].tolist()]
        lexical = dict(zip(names, self.lexical[i, used].tolist(), strict=True))
        embedding_hits = None
        embedding: dict[str, float] = {}
        scale = Scale()
        if self.embedding is not None and self.embedding_rank is not None:
            embedding = dict(zip(names, self.embedding[i, used].tolist(), strict=True))
            embedding_hits = _hits(names, embedding, self.embedding_rank[i, used], "embedding")
            assert self.embedding_scale is not None
            scale = Scale(*self.embedding_scale[i].tolist())
        log_odds = None
        if self.log_odds is not None:
            log_odds = dict(zip(names, self.log_odds[i, used].tolist(), strict=True))
        pending = int(self.pending[i])
        parts = tuple(dict(zip(names, row[used].tolist(), strict=True)) for row in self.part_odds[i])
        return Evidence(
            lexical=_hits(names, lexical, self.lexical_rank[i, used], "lexical"),
            embedding=embedding_hits,
            lexical_scores=lexical,
            embedding_scores=embedding,
            log_odds=log_odds,
            parts=parts,
            selector_scores=self.selector_scores,
            lexical_scale=Scale(*self.lexical_scale[i].tolist()),
            embedding_scale=scale,
            pending=self.ids[pending] if pending >= 0 else None,
            offered=self.offered[i],
            catalog_chars=int(self.catalog_chars[i]),
            n_offered=int(self.n_offered[i]),
            tool_chars=self.tool_chars,
            recall_answers=self.recall_answers[i],
            answers=self.answers[i],
            filled=LazyFill(lambda tool: self.fill_for(i, tool)) if self.fill is not None else self.filled[i],
        )


class LazyFill(Mapping[str, Filled]):
    """What a selector fills in for one message, extracted when a tool is first asked for."""

    def __init__(self, fill: Callable[[str], Filled]) -> None:
        self._fill = fill
        self._known: dict[str, Filled] = {}

    def __getitem__(self, tool: str) -> Filled:
        if tool not in self._known:
            self._known[tool] = self._fill(tool)
        return self._known[tool]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _hits(
    names: Sequence[str], scores: Mapping[str, float], ranks: NDArray[np.int64], source: Any
) -> tuple[Hit, ...]:
    found = sorted((rank, name) for rank, name in zip(ranks.tolist(), names, strict=True) if rank < MISSED)
    return tuple(Hit(tool=name, score=scores[name], source=source, rank=rank) for rank, name in found)


@dataclass(kw_only=True)
class Verdicts:
    """Verdicts on the messages of a table, as arrays; tool numbers are -1 where there is none."""

    table: EvidenceTable
    settings: Settings
    outcome: NDArray[np.int8]
    """Index into OUTCOMES, or UNRECORDED."""
    tool: NDArray[np.int32]
    """Tool called or asked for."""
    ranked: NDArray[np.int32]
    """Candidates as selection ranks them (n, candidate_limit)."""
    fused: NDArray[np.int32]
    """Start of the fused list (n, 10)."""
    candidates: NDArray[np.int32]
    confident: NDArray[np.bool_]
    recalled: NDArray[np.bool_]
    recall_asked: NDArray[np.bool_]
    """Whether a model was asked to recall."""
    selection_asked: NDArray[np.bool_]
    p_tool: NDArray[np.float64]
    confidence: NDArray[np.float64]
    bypassed: NDArray[np.bool_]
    signals: NDArray[np.float64]
    """What a calibration sees (n, len(SIGNALS)), raw."""
    joint: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Tools of the messages that get several calls."""
    decided: list[Verdict] | None = None
    """Scalar verdicts, where rows were decided one by one."""
    calibration: Calibration | None = None

    def __len__(self) -> int:
        return len(self.outcome)

    def verdict(self, i: int) -> Verdict:
        """Return the verdict on message i with every stage's part, by :func:`decide` itself."""
        if self.decided is not None:
            return self.decided[i]
        return decide(self.table.row(i), self.settings, self.table.tools, self.calibration)

    def called(self, i: int) -> tuple[str, ...]:
        """Return the tools that the decision on message i calls or asks for."""
        if self.decided is not None:
            decision = self.decided[i].decision
            return () if decision is None else tuple(dict.fromkeys(c.tool for c in decision.calls))
        if i in self.joint:
            return self.joint[i]
        tool = int(self.tool[i])
        return (self.table.ids[tool],) if tool >= 0 else ()

    def usage(self, i: int) -> Usage:
        """Return what the models cost message i under these settings."""
        total = Usage()
        if self.decided is None:
            return total
        verdict = self.decided[i]
        if self.recall_asked[i]:
            for answer in _recall_answer(self.table, i, verdict, self.settings):
                total += answer.usage
        if self.selection_asked[i] and verdict.selection is not None:
            found = self.table.answers[i].get(verdict.selection.shortlist)
            total += found.usage if found is not None else Usage()
        return total


def _recall_answer(table: EvidenceTable, i: int, verdict: Verdict, settings: Settings) -> list[RecallAnswer]:
    from mono_router.decision import shown_to_model

    shown, _ = shown_to_model(table.row(i), settings)
    found = table.recall_answers[i].get(shown)
    return [found] if found is not None else []


@dataclass(frozen=True)
class _Order:
    """A fused order: columns of the union, best first, and how many of them count."""

    columns: NDArray[np.intp]
    size: NDArray[np.int64]


@dataclass(frozen=True)
class _Ranking:
    """What a selector that scores makes of the first candidates of an order."""

    columns: NDArray[np.intp]
    shares: NDArray[np.float64]
    p_tool: NDArray[np.float64]
    size: NDArray[np.int64]
    candidates: NDArray[np.intp]
    joint: dict[int, tuple[str, ...]]
    """Tools that several clauses of a message ask for, where they can run together."""


class TableDecider:
    """Decides a table under one setting after another, keeping what settings share."""

    def __init__(self, table: EvidenceTable, calibration: Calibration | None = None) -> None:
        self.table = table
        self.calibration = calibration
        self._orders: dict[Any, _Order] = {}
        self._rankings: dict[Any, _Ranking] = {}
        self._rows: dict[int, Evidence] = {}
        self._number = {id_: number for number, id_ in enumerate(table.ids)}
        self._nearest: dict[Any, NDArray[np.float64]] = {}
        top = np.where(table.lexical_rank == 0, table.lexical, 0.0)
        second = np.where(table.lexical_rank == 1, table.lexical, 0.0)
        self._best: NDArray[np.float64] = top.max(axis=1, initial=0.0)
        self._margin = np.round(self._best - second.max(axis=1, initial=0.0), SCORE_DECIMALS)
        self._any_hit = (table.lexical_rank == 0).any(axis=1)

    def decide(self, settings: Settings) -> Verdicts:
        """Return the verdicts under resolved settings; equal to :func:`decide` row by row."""
        source = settings.recall.source
        if not self.table.selector_scores or source in ("model", "both"):
            return self._one_by_one(settings)
        own = settings.lexical
        confident = self._any_hit if own.enabled else np.zeros(len(self.table), dtype=bool)
        if own.min_score is None:
            confident = np.zeros(len(self.table), dtype=bool)
        else:
            confident = confident & (self._best >= own.min_score) & (self._margin >= own.min_margin)
        recalled = ~confident if source == "embedding" else np.zeros(len(self.table), dtype=bool)
        alone = self._ranking(self._alone(settings), settings, recalled=False)
        if not recalled.any():
            return self._finish(settings, confident, recalled, alone, self._alone(settings))
        both_key = self._both(settings)
        both = self._ranking(both_key, settings, recalled=True)
        ranking = _Ranking(
            columns=np.where(recalled[:, None], both.columns, alone.columns),
            shares=np.where(recalled[:, None], both.shares, alone.shares),
            p_tool=np.where(recalled, both.p_tool, alone.p_tool),
            size=np.where(recalled, both.size, alone.size),
            candidates=np.where(recalled[:, None], both.candidates, alone.candidates),
            joint={i: t for i, t in alone.joint.items() if not recalled[i]}
            | {i: t for i, t in both.joint.items() if recalled[i]},
        )
        return self._finish(settings, confident, recalled, ranking, self._alone(settings), both_key)

    def _alone(self, settings: Settings) -> Any:
        """Key of the order of lexical hits alone."""
        key = ("lexical", settings.lexical.candidate_limit if settings.lexical.enabled else 0)
        if key not in self._orders:
            kept = np.where(self.table.lexical_rank < key[1], self.table.lexical_rank, MISSED)
            none = np.full_like(kept, MISSED)
            self._orders[key] = self._order(kept, none, FusionSettings(method="interleave"))
        return key

    def _both(self, settings: Settings) -> Any:
        """Key of the fused order of lexical and embedding hits."""
        table, recall, fusion = self.table, settings.recall, settings.fusion
        assert table.embedding is not None
        assert table.embedding_rank is not None
        limit = settings.lexical.candidate_limit if settings.lexical.enabled else 0
        keep = min(recall.candidate_limit, recall.ask_limit)
        rest = (
            (fusion.rrf_k, *fusion.weights.values())
            if fusion.method == "rrf"
            else tuple(fusion.weights.values())
        )
        key = (limit, keep, recall.min_score, fusion.method, *(rest if fusion.method != "interleave" else ()))
        if key not in self._orders:
            lexical = np.where(table.lexical_rank < limit, table.lexical_rank, MISSED)
            kept = table.embedding_rank < keep
            if recall.min_score is not None:
                kept &= table.embedding >= recall.min_score
            self._orders[key] = self._order(lexical, np.where(kept, table.embedding_rank, MISSED), fusion)
        return key

    def _order(
        self, lexical_rank: NDArray[np.int64], recall_rank: NDArray[np.int64], fusion: FusionSettings
    ) -> _Order:
        table = self.table
        standard = _standardized(table.lexical, table.lexical_scale)
        recall_standard, trust = np.zeros_like(standard), np.ones((len(table), 1))
        if table.embedding is not None and table.embedding_scale is not None:
            recall_standard = _standardized(table.embedding, table.embedding_scale)
            trust = table.embedding_scale[:, 2:]
        scores = fused_scores(
            lexical_rank,
            recall_rank,
            fusion,
            lexical_standard=standard,
            recall_standard=recall_standard,
            trust=trust,
        )
        scores = np.where(table.union < 0, -np.inf, scores)
        is_pending = (table.union == table.pending[:, None]) & (table.pending >= 0)[:, None]
        scores = np.where(is_pending, np.inf, scores)
        columns = np.argsort(-scores, axis=1, kind="stable")
        return _Order(columns, (scores > -np.inf).sum(axis=1))

    def _ranking(self, order_key: Any, settings: Settings, *, recalled: bool) -> _Ranking:
        limit = settings.candidate_limit
        key = (order_key, limit)
        if key in self._rankings:
            return self._rankings[key]
        table, order = self.table, self._orders[order_key]
        assert table.log_odds is not None
        width = min(limit, order.columns.shape[1])
        candidates = _padded(order.columns[:, :width], limit)
        size = np.minimum(order.size, width)
        valid = np.arange(limit) < size[:, None]
        candidates = np.where(valid, candidates, MISSED)
        # Columns stand in id order, so sorting them first makes the stable sort break ties by id.
        columns = np.sort(candidates, axis=1)
        known = columns < MISSED
        odds = np.take_along_axis(table.log_odds, np.where(known, columns, 0), axis=1)
        odds = np.where(known, odds, -np.inf)
        best = np.argsort(-odds, axis=1, kind="stable")
        columns, odds = np.take_along_axis(columns, best, axis=1), np.take_along_axis(odds, best, axis=1)
        top = np.maximum(odds.max(axis=1, initial=0.0), 0.0)
        weights = np.exp(odds - top[:, None])
        total = weights.sum(axis=1) + np.exp(-top)
        ranking = _Ranking(
            columns=columns,
            shares=np.round(weights / total[:, None], SCORE_DECIMALS),
            p_tool=np.round(weights.sum(axis=1) / total, SCORE_DECIMALS),
            size=size,
            candidates=candidates,
            joint=self._joint(candidates, size),
        )
        self._rankings[key] = ranking
        return ranking

    def _joint(self, candidates: NDArray[np.intp], size: NDArray[np.int64]) -> dict[int, tuple[str, ...]]:
        table, found = self.table, {}
        for i, part in enumerate(table.part_odds):
            if len(part) < 2 or size[i] < 2:
                continue
            columns = candidates[i, : size[i]]
            names = [table.ids[t] for t in table.union[i, columns].tolist()]
            odds = [dict(zip(names, row[columns].tolist(), strict=True)) for row in part]
            named = several(odds, names)
            if len(named) > 1 and joint_mode([table.tools[tool] for tool in named]) is not None:
                found[i] = named
        return found

    def _finish(
        self,
        settings: Settings,
        confident: NDArray[np.bool_],
        recalled: NDArray[np.bool_],
        ranking: _Ranking,
        alone_key: Any,
        both_key: Any = None,
    ) -> Verdicts:
        table, own = self.table, settings.selection
        rows = np.arange(len(table))
        empty = ranking.size == 0
        ranked = self._numbers(ranking.columns)
        candidates = self._numbers(ranking.candidates)
        first = ranked[:, 0]
        p_tool = np.where(empty, 0.0, ranking.p_tool)
        p_first = np.where(empty, 0.0, ranking.shares[:, 0])
        p_second = ranking.shares[:, 1] if ranking.shares.shape[1] > 1 else np.zeros(len(table))
        both = np.round(np.minimum(1.0, p_first + p_second), SCORE_DECIMALS)
        signals = self._signals(settings, recalled, p_tool, p_first, p_second)
        if self.calibration is not None:
            p_tool, p_first, p_second = self._calibrated(signals)
        assert own.min_confidence is not None
        writes, together = table.facts.writes[first], np.zeros(len(table), dtype=bool)
        for i, named in ranking.joint.items():
            together[i] = True
            writes[i] = any(table.tools[tool].effects == "write" for tool in named)
        refused = (p_tool < own.min_confidence) | (writes & (p_tool < own.min_write_confidence))
        close = (np.round(p_first - p_second, SCORE_DECIMALS) < own.min_margin) & ~together
        ambiguous = ~refused & close & (ranking.size > 1)
        chosen = ~refused & ~ambiguous & ~empty
        outcome = np.full(len(table), CODES["no_tool"], dtype=np.int8)
        outcome[ambiguous & ~empty] = CODES["ambiguous"]
        outcome[chosen] = CODES["call"]
        joint = {i: named for i, named in ranking.joint.items() if chosen[i]}
        asked_rows = rows[chosen & ~together]
        asking = table.asks(asked_rows, ranking.columns[asked_rows, 0])
        outcome[asked_rows[asking]] = CODES["ask"]
        confidence = np.where(chosen, p_first, np.round(1.0 - p_tool, SCORE_DECIMALS))
        confidence = np.where(ambiguous, both, confidence)
        confidence, p_tool = np.where(empty, 1.0, confidence), np.where(empty, 0.0, p_tool)
        tool = np.where(chosen, first, -1).astype(np.int32)
        for i, named in joint.items():
            tool[i] = self._number[named[0]]
            if any(table.fill_for(i, name).missing for name in named if table.tools[name].required):
                outcome[i] = CODES["ask"]
        bypassed, shown = self._bypassed(settings, candidates)
        if bypassed.any():
            level = np.minimum(1.0, self._best)
            outcome[bypassed] = CODES["call"]
            tool = np.where(bypassed, shown, tool).astype(np.int32)
            p_tool, confidence = np.where(bypassed, level, p_tool), np.where(bypassed, level, confidence)
            ranked = _moved_first(ranked, candidates, bypassed, shown)
            joint = {i: named for i, named in joint.items() if not bypassed[i]}
        fused = self._fused(alone_key)
        if both_key is not None:
            fused = np.where(recalled[:, None], self._fused(both_key), fused)
        nobody = np.zeros(len(table), dtype=bool)
        return Verdicts(
            table=table,
            settings=settings,
            outcome=outcome,
            tool=tool,
            ranked=ranked,
            fused=fused,
            candidates=candidates,
            confident=confident,
            recalled=recalled,
            recall_asked=nobody,
            selection_asked=nobody,
            p_tool=p_tool,
            confidence=confidence,
            bypassed=bypassed,
            signals=signals,
            joint=joint,
            calibration=self.calibration,
        )

    def _numbers(self, columns: NDArray[np.intp]) -> NDArray[np.int32]:
        known = columns < MISSED
        found = np.take_along_axis(self.table.union, np.where(known, columns, 0), axis=1)
        return np.where(known, found, -1).astype(np.int32)

    def _fused(self, key: Any) -> NDArray[np.int32]:
        order = self._orders[key]
        width = min(N_FUSED, order.columns.shape[1])
        columns = _padded(order.columns[:, :width], N_FUSED)
        return self._numbers(np.where(np.arange(N_FUSED) < order.size[:, None], columns, MISSED))

    def _bypassed(
        self, settings: Settings, candidates: NDArray[np.int32]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
        table = self.table
        best = np.full(len(table), -1, dtype=np.int32)
        level = settings.selection.bypass_score
        if level is None or not settings.lexical.enabled:
            return np.zeros(len(table), dtype=bool), best
        rows, columns = np.nonzero(table.lexical_rank == 0)
        best[rows] = table.union[rows, columns]
        among = (candidates == best[:, None]).any(axis=1)
        return (best >= 0) & (self._best >= level) & ~table.facts.takes_arguments[best] & among, best

    def _signals(
        self, settings: Settings, recalled: NDArray[np.bool_], *shares: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """What a calibration sees, (n, len(SIGNALS))."""
        near = np.zeros((len(self.table), 2))
        if self.table.embedding is not None and self.table.embedding_rank is not None:
            keep = min(2, settings.recall.candidate_limit, settings.recall.ask_limit)
            near[:, :keep] = np.where(recalled[:, None], self._near(settings.recall.min_score)[:, :keep], 0.0)
        margin = np.round(near[:, 0] - near[:, 1], SCORE_DECIMALS)
        on = float(settings.lexical.enabled)
        return np.column_stack([on * self._best, on * self._margin, near[:, 0], margin, *shares])

    def _near(self, min_score: float | None) -> NDArray[np.float64]:
        """Scores of the two nearest tools, (n, 2), 0 where they are below the bar."""
        key = ("near", min_score)
        if key not in self._nearest:
            table = self.table
            assert table.embedding is not None
            assert table.embedding_rank is not None
            found = np.zeros((len(table), 2))
            for place in range(2):
                there = table.embedding_rank == place
                if min_score is not None:
                    there &= table.embedding >= min_score
                found[:, place] = np.where(there, table.embedding, 0.0).sum(axis=1)
            self._nearest[key] = found
        return self._nearest[key]

    def _calibrated(
        self, signals: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        assert self.calibration is not None
        tool, first = self.calibration.apply(signals)
        p_first, p_second = signals[:, -2], signals[:, -1]
        scaled = np.where(p_first > 0, first / np.where(p_first > 0, p_first, 1.0) * p_second, p_second)
        capped: NDArray[np.float64] = np.minimum(scaled, first)
        return (
            np.round(tool, SCORE_DECIMALS),
            np.round(first, SCORE_DECIMALS),
            np.round(capped, SCORE_DECIMALS),
        )

    def _one_by_one(self, settings: Settings) -> Verdicts:
        found = []
        for i in range(len(self.table)):
            if i not in self._rows:
                self._rows[i] = self.table.row(i)
            verdict = decide(self._rows[i], settings, self.table.tools, self.calibration)
            while verdict.needs is not None and verdict.needs.kind == "fill":
                assert verdict.needs.tools is not None
                self.table.fill_for(i, verdict.needs.tools[0])
                verdict = decide(self._rows[i], settings, self.table.tools, self.calibration)
            found.append(verdict)
        return verdicts_from(found, self.table, settings)


def verdicts_from(found: list[Verdict], table: EvidenceTable, settings: Settings) -> Verdicts:
    """Return scalar verdicts in array form."""
    number = {id_: i for i, id_ in enumerate(table.ids)}

    def numbers(names: list[list[str]], width: int) -> NDArray[np.int32]:
        array = np.full((len(names), width), -1, dtype=np.int32)
        for i, row in enumerate(names):
            array[i, : len(row[:width])] = [number[name] for name in row[:width]]
        return array

    decisions = [verdict.decision or Decision(outcome="error") for verdict in found]
    outcome = [
        UNRECORDED if v.needs is not None else CODES[d.outcome] for v, d in zip(found, decisions, strict=True)
    ]
    limit = settings.candidate_limit
    nothing = (0.0,) * len(SIGNALS)
    return Verdicts(
        table=table,
        settings=settings,
        outcome=np.array(outcome, dtype=np.int8),
        tool=numbers([[d.tool] if d.tool else [] for d in decisions], 1)[:, 0],
        ranked=numbers([[r.tool for r in d.ranked] for d in decisions], limit),
        fused=numbers([[c.tool for c in v.fused] for v in found], N_FUSED),
        candidates=numbers([[c.tool for c in v.candidates] for v in found], limit),
        confident=np.array([v.lexical.confident for v in found], dtype=bool),
        recalled=np.array([v.recall.used for v in found], dtype=bool),
        recall_asked=np.array([v.recall.model_called for v in found], dtype=bool),
        selection_asked=np.array(
            [v.needs is None and v.selection is not None and v.selection.model_called for v in found],
            dtype=bool,
        ),
        p_tool=np.array([d.p_tool for d in decisions], dtype=np.float64),
        confidence=np.array([d.confidence for d in decisions], dtype=np.float64),
        bypassed=np.array([v.selection is not None and v.selection.bypassed for v in found], dtype=bool),
        signals=np.array(
            [v.selection.signals if v.selection and v.selection.signals else nothing for v in found]
        ).reshape(len(found), len(SIGNALS)),
        decided=found,
    )


def _standardized(scores: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    mean, spread = scale[:, :1], scale[:, 1:2]
    scores = np.where(np.isfinite(scores), scores, 0.0)  # a weight of 0 on a column that is not used
    return np.where(spread > 0, (scores - mean) / np.where(spread > 0, spread, 1.0), 0.0)


def _padded(columns: NDArray[np.intp], width: int) -> NDArray[np.intp]:
    short = width - columns.shape[1]
    return np.pad(columns, ((0, 0), (0, short)), constant_values=MISSED) if short > 0 else columns


def _moved_first(
    ranked: NDArray[np.int32],
    candidates: NDArray[np.int32],
    bypassed: NDArray[np.bool_],
    best: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Rank the bypassed tool first and the other candidates behind it in fused order."""
    ranked = ranked.copy()
    for i in np.flatnonzero(bypassed).tolist():
        rest = [t for t in candidates[i].tolist() if t not in (best[i], -1)]
        ranked[i] = ([int(best[i]), *rest] + [-1] * ranked.shape[1])[: ranked.shape[1]]
    return ranked
