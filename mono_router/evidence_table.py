"""The evidence on many messages as arrays: what the stages found, as wide as any setting keeps.

A table holds, for each message, the union of the tools that its stages found with all their scores, as
arrays (n, n_union) whose columns stand in id order within a row. Answers of models and extracted
arguments are kept beside them, by shortlist and by tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mono_router.decision import Evidence
from mono_router.fusion import MISSED, Scale
from mono_router.records import Answer, Filled, Hit, Query, RecallAnswer, Tool

_NO_PARTS: NDArray[np.float64] = np.empty((0, 0))


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
