"""Stage 3: from hits to one list of candidates. Pure functions, no retriever in sight.

:func:`fuse` is the definition, for one message; :func:`fused_scores` is its array twin, for many. A
pending tool comes first whatever the method says; ties break by tool id.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mono_router.records import Candidate, Hit
from mono_router.settings import FusionSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MISSED = 1_000_000
"""Rank that stands for "not among the hits" in arrays."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Mean and spread of a retriever's scores over the offered tools, for one message."""

    mean: float = 0.0
    spread: float = 1.0
    """Standard deviation; 0 = every tool scored alike, so the scorer tells nothing."""
    trust: float = 1.0
    """How far this scorer's weight is used, [0, 1]; what it loses goes to the other scorer."""

    def standardize(self, score: float) -> float:
        """Return how many spreads a score lies above the mean; 0 without a spread.

        >>> Scale(0.2, 0.1).standardize(0.4), Scale(0.2, 0.0).standardize(0.9)
        (2.0, 0.0)
        """
        return (score - self.mean) / self.spread if self.spread > 0 else 0.0


def fuse(
    lexical: Sequence[Hit],
    recalled: Sequence[Hit],
    settings: FusionSettings,
    *,
    pending: str | None = None,
    lexical_scores: Mapping[str, float] | None = None,
    recall_scores: Mapping[str, float] | None = None,
    lexical_scale: Scale | None = None,
    recall_scale: Scale | None = None,
) -> tuple[Candidate, ...]:
    """Return the merged candidates, best first, each tool once, with the hits it came from.

    Parameters
    ----------
    lexical, recalled
        Hits of stage 1 and stage 2, best first.
    pending
        Tool of a call that waits for arguments: comes first.
    lexical_scores, recall_scores
        Scores by tool, also of tools that the other stage found ("weighted" alone uses them).
    lexical_scale, recall_scale
        Scales of those scores over the catalog, for "weighted".

    >>> a, b = (Hit(tool=t, score=1.0, source="lexical", rank=i) for i, t in enumerate("ab"))
    >>> c = Hit(tool="c", score=0.9, source="embedding", rank=0)
    >>> [x.tool for x in fuse([a, b], [c], FusionSettings(method="interleave"))]
    ['c', 'a', 'b']
    """
    hits: dict[str, list[Hit]] = {}
    for hit in (*lexical, *recalled):
        hits.setdefault(hit.tool, []).append(hit)
    if pending is not None:
        hits.setdefault(pending, []).insert(0, Hit(tool=pending, score=1.0, source="pending", rank=0))
    lexical_rank = {hit.tool: hit.rank for hit in lexical}
    recall_rank = {hit.tool: hit.rank for hit in recalled}
    one, lexical_scores = lexical_scale or Scale(), lexical_scores or {}
    two, recall_scores = recall_scale or Scale(), recall_scores or {}
    recall_weight = settings.weights["recall"] * two.trust
    lexical_weight = sum(settings.weights.values()) - recall_weight
    scores: dict[str, float] = {}
    for tool in hits:
        if tool == pending:
            scores[tool] = math.inf
            continue
        first, second = lexical_rank.get(tool), recall_rank.get(tool)
        if settings.method == "interleave":
            places = [2 * second] if second is not None else []
            places += [2 * first + 1] if first is not None else []
            scores[tool] = -float(min(places))
        elif settings.method == "rrf":
            scores[tool] = sum(
                settings.weights[name] / (settings.rrf_k + 1 + rank)
                for name, rank in (("lexical", first), ("recall", second))
                if rank is not None
            )
        else:
            near = lexical_weight * one.standardize(lexical_scores.get(tool, 0.0))
            scores[tool] = near + recall_weight * two.standardize(recall_scores.get(tool, 0.0))
    scores = {tool: round(score, 9) if tool != pending else score for tool, score in scores.items()}
    order = sorted(hits, key=lambda tool: (-scores[tool], tool))
    return tuple(
        Candidate(tool=tool, score=scores[tool] if tool != pending else 1e6, hits=tuple(hits[tool]))
        for tool in order
    )


def fused_scores(
    lexical_rank: NDArray[np.int64],
    recall_rank: NDArray[np.int64],
    settings: FusionSettings,
    *,
    lexical_standard: NDArray[np.float64],
    recall_standard: NDArray[np.float64],
    trust: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the scores of :func:`fuse` for many messages at once.

    Parameters
    ----------
    lexical_rank, recall_rank
        int (n_messages, n_union): rank among the hits that are kept, :data:`MISSED` where there is none.
    lexical_standard, recall_standard
        float64 (n_messages, n_union): standardised scores.
    trust
        float64 (n_messages, 1): trust in the recall scores.

    Returns
    -------
    float64 (n_messages, n_union), -inf where neither stage has the tool.
    """
    import numpy as np

    absent = (lexical_rank >= MISSED) & (recall_rank >= MISSED)
    scores: NDArray[np.float64]
    if settings.method == "interleave":
        scores = -np.minimum(2 * recall_rank, 2 * lexical_rank + 1).astype(np.float64)
    elif settings.method == "rrf":
        k = settings.rrf_k + 1
        one = np.where(lexical_rank < MISSED, settings.weights["lexical"] / (k + lexical_rank), 0.0)
        two = np.where(recall_rank < MISSED, settings.weights["recall"] / (k + recall_rank), 0.0)
        scores = one + two
    else:
        weight = settings.weights["recall"] * trust
        scores = (sum(settings.weights.values()) - weight) * lexical_standard + weight * recall_standard
    return np.where(absent, -np.inf, np.round(scores, 9))
