"""Works out the branches of a table whose selector scores, keeping what settings share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mono_router.branches import CODES, N_FUSED, UNKNOWN, Branch, calibrated
from mono_router.decision import Calibration, joint_mode, several
from mono_router.evidence_table import EvidenceTable
from mono_router.fusion import MISSED, fused_scores
from mono_router.records import SCORE_DECIMALS
from mono_router.settings import FusionSettings, Settings


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


class BranchTable:
    """Works out branches of a table whose selector scores, keeping what settings share."""

    def __init__(self, table: EvidenceTable, calibration: Calibration | None = None) -> None:
        self.table = table
        self.calibration = calibration
        self._orders: dict[Any, _Order] = {}
        self._rankings: dict[Any, _Ranking] = {}
        self._branches: dict[Any, Branch] = {}
        self._fused_lists: dict[Any, NDArray[np.int32]] = {}
        self._nearest: dict[Any, NDArray[np.float64]] = {}
        self._named: dict[Any, tuple[str, ...]] = {}
        self._standard: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None = None
        self._clauses = [i for i, part in enumerate(table.part_odds) if len(part) > 1]
        top = np.where(table.lexical_rank == 0, table.lexical, 0.0)
        second = np.where(table.lexical_rank == 1, table.lexical, 0.0)
        self.best: NDArray[np.float64] = top.max(axis=1, initial=0.0)
        """Best lexical score of each message (n,), 0 without a hit."""
        self.margin = np.round(self.best - second.max(axis=1, initial=0.0), SCORE_DECIMALS)
        self._any_hit = (table.lexical_rank == 0).any(axis=1)

    def confident(self, settings: Settings) -> NDArray[np.bool_]:
        """Return whether stage 1 is confident of each message (n,), as ``decide`` has it."""
        own = settings.lexical
        if own.min_score is None or not own.enabled:
            return np.zeros(len(self.table), dtype=bool)
        found: NDArray[np.bool_] = self._any_hit & (self.best >= own.min_score)
        found &= self.margin >= own.min_margin
        return found

    def key(self, settings: Settings, *, recalled: bool) -> Any:
        """Return what a branch depends on: settings with one key share it."""
        lexical, own = settings.lexical, settings.selection
        limit = lexical.candidate_limit if lexical.enabled else 0
        shared = (limit, settings.candidate_limit, own.bypass_score if lexical.enabled else None)
        if not recalled:
            return ("alone", *shared)
        recall, fusion = settings.recall, settings.fusion
        rest: tuple[Any, ...] = ()
        if fusion.method != "interleave":
            rest = (fusion.weights["lexical"], fusion.weights["recall"])
        if fusion.method == "rrf":
            rest += (fusion.rrf_k,)
        keep = min(recall.candidate_limit, recall.ask_limit)
        return ("both", *shared, keep, recall.min_score, fusion.method, *rest)

    def branch(self, settings: Settings, *, recalled: bool) -> Branch:
        """Return the branch of all messages as if recall had run for each, or for none."""
        key = self.key(settings, recalled=recalled)
        if key not in self._branches:
            self._branches[key] = self._branch(settings, key, recalled=recalled)
        return self._branches[key]

    def _branch(self, settings: Settings, key: Any, *, recalled: bool) -> Branch:
        table = self.table
        order_key = (key[0], key[1], *key[4:])
        ranking = self._ranking(order_key, settings, recalled=recalled)
        empty = ranking.size == 0
        ranked, candidates = self._numbers(ranking.columns), self._numbers(ranking.candidates)
        first = ranked[:, 0]
        p_tool = np.where(empty, 0.0, ranking.p_tool)
        p_first = np.where(empty, 0.0, ranking.shares[:, 0])
        p_second = ranking.shares[:, 1] if ranking.shares.shape[1] > 1 else np.zeros(len(table))
        p_both = np.minimum(1.0, p_first + p_second).round(SCORE_DECIMALS)
        signals = self._signals(settings, p_tool, p_first, p_second, recalled=recalled)
        p_none = np.round(1.0 - p_tool, SCORE_DECIMALS)
        if self.calibration is not None:
            p_tool, p_first, p_second, p_none = calibrated(self.calibration, signals)
        writes, together = table.facts.writes[first], np.zeros(len(table), dtype=bool)
        for i, named in ranking.joint.items():
            together[i] = True
            writes[i] = any(table.tools[tool].effects == "write" for tool in named)
        tool = first.copy()
        joint = dict(ranking.joint)
        number = {id_: place for place, id_ in enumerate(table.ids)} if joint else {}
        for i, named in joint.items():
            tool[i] = number[named[0]]
        asks = table.facts.requires_arguments[first] | together
        accepted = np.where(asks, UNKNOWN, CODES["call"]).astype(np.int8)
        accepted[empty] = CODES["no_tool"]
        tool[empty] = -1
        p_tool, p_first = np.where(empty, 0.0, p_tool), np.where(empty, 1.0, p_first)
        bypassed, shown = self._bypassed(settings, candidates)
        if bypassed.any():
            level = np.minimum(1.0, self.best)
            accepted[bypassed] = CODES["call"]
            tool[bypassed] = shown[bypassed]
            writes = np.where(bypassed, table.facts.writes[shown], writes)
            p_tool, p_first = np.where(bypassed, level, p_tool), np.where(bypassed, level, p_first)
            ranked = _moved_first(ranked, candidates, bypassed, shown)
            joint = {i: named for i, named in joint.items() if not bypassed[i]}
        return Branch(
            ranked=ranked,
            candidates=candidates,
            fused=self._fused(order_key),
            fixed=empty | bypassed,
            accepted=accepted,
            tool=tool,
            writes=writes,
            ties=(ranking.size > 1) & ~together & ~bypassed,
            p_tool=p_tool,
            p_first=p_first,
            p_none=p_none,
            p_both=p_both,
            margin=np.round(p_first - p_second, SCORE_DECIMALS),
            signals=signals,
            bypassed=bypassed,
            joint=joint,
        )

    def _ordered(self, key: Any, settings: Settings, *, recalled: bool) -> _Order:
        if key not in self._orders:
            table, limit = self.table, key[1]
            lexical = np.where(table.lexical_rank < limit, table.lexical_rank, MISSED)
            found, fusion = np.full_like(lexical, MISSED), FusionSettings(method="interleave")
            if recalled:
                assert table.embedding is not None
                assert table.embedding_rank is not None
                recall, fusion = settings.recall, settings.fusion
                kept = table.embedding_rank < min(recall.candidate_limit, recall.ask_limit)
                if recall.min_score is not None:
                    kept &= table.embedding >= recall.min_score
                found = np.where(kept, table.embedding_rank, MISSED)
            self._orders[key] = self._order(lexical, found, fusion)
        return self._orders[key]

    def _order(
        self, lexical_rank: NDArray[np.int64], recall_rank: NDArray[np.int64], fusion: FusionSettings
    ) -> _Order:
        table = self.table
        if self._standard is None:
            standard = _standardized(table.lexical, table.lexical_scale)
            recall_standard, trust = np.zeros_like(standard), np.ones((len(table), 1))
            if table.embedding is not None and table.embedding_scale is not None:
                recall_standard = _standardized(table.embedding, table.embedding_scale)
                trust = table.embedding_scale[:, 2:]
            self._standard = standard, recall_standard, trust
        standard, recall_standard, trust = self._standard
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
        table, order = self.table, self._ordered(order_key, settings, recalled=recalled)
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
        for i in self._clauses:
            if size[i] < 2:
                continue
            columns = np.sort(candidates[i, : size[i]])  # the order of candidates breaks no tie
            key = (i, columns.tobytes())
            if key not in self._named:
                names = [table.ids[t] for t in table.union[i, columns].tolist()]
                odds = [dict(zip(names, row[columns].tolist(), strict=True)) for row in table.part_odds[i]]
                named = several(odds, names)
                if len(named) < 2 or joint_mode([table.tools[tool] for tool in named]) is None:
                    named = ()
                self._named[key] = named
            if self._named[key]:
                found[i] = self._named[key]
        return found

    def _numbers(self, columns: NDArray[np.intp]) -> NDArray[np.int32]:
        known = columns < MISSED
        found = np.take_along_axis(self.table.union, np.where(known, columns, 0), axis=1)
        return np.where(known, found, -1).astype(np.int32)

    def _fused(self, key: Any) -> NDArray[np.int32]:
        if key not in self._fused_lists:
            order = self._orders[key]
            columns = _padded(order.columns[:, :N_FUSED], N_FUSED)
            shown = np.where(np.arange(N_FUSED) < order.size[:, None], columns, MISSED)
            self._fused_lists[key] = self._numbers(shown)
        return self._fused_lists[key]

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
        return (best >= 0) & (self.best >= level) & ~table.facts.takes_arguments[best] & among, best

    def _signals(
        self, settings: Settings, *shares: NDArray[np.float64], recalled: bool
    ) -> NDArray[np.float64]:
        """What a calibration sees, (n, len(SIGNALS))."""
        near = np.zeros((len(self.table), 2))
        if recalled:
            keep = min(2, settings.recall.candidate_limit, settings.recall.ask_limit)
            near[:, :keep] = self._near(settings.recall.min_score)[:, :keep]
        margin = np.round(near[:, 0] - near[:, 1], SCORE_DECIMALS)
        on = float(settings.lexical.enabled)
        return np.column_stack([on * self.best, on * self.margin, near[:, 0], margin, *shares])

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
