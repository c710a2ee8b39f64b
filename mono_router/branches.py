"""What stages 3 and 4 make of many messages before any threshold of selection, as arrays.

A message takes one of two branches: lexical hits alone, or those fused with what recall found. Which of
them, and what thresholds then make of it, differs from setting to setting at the cost of a comparison;
the branch itself is worked out once for all settings that share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mono_router.decision import Calibration
from mono_router.evidence_table import EvidenceTable
from mono_router.records import OUTCOMES, SCORE_DECIMALS
from mono_router.settings import SelectionSettings

CODES = {name: code for code, name in enumerate(OUTCOMES)}
N_FUSED = 10
"""Length of the fused list that is kept for recall at k."""
UNKNOWN = -1
"""Outcome of an accepted message whose arguments were not extracted yet."""


@dataclass(kw_only=True)
class Branch:
    """Stages 3 and 4 of n messages, arrays (n,) unless said; tool numbers are -1 where there is none."""

    ranked: NDArray[np.int32]
    """Candidates as selection ranks them (n, candidate_limit)."""
    candidates: NDArray[np.int32]
    """Candidates in fused order (n, candidate_limit)."""
    fused: NDArray[np.int32]
    """Start of the fused list (n, 10)."""
    fixed: NDArray[np.bool_]
    """Whether no threshold has a say: no candidate, bypassed, refused or failed answers."""
    accepted: NDArray[np.int8]
    """Outcome where no threshold objects; UNKNOWN until arguments are extracted."""
    tool: NDArray[np.int32]
    """Tool that is then called or asked for."""
    writes: NDArray[np.bool_]
    """Whether a tool that is then called writes."""
    ties: NDArray[np.bool_]
    """Whether the first two can be too close: two candidates, and not two clauses that name one each."""
    p_tool: NDArray[np.float64]
    p_first: NDArray[np.float64]
    """Confidence where no threshold objects."""
    p_none: NDArray[np.float64]
    """Confidence where a threshold refuses the tool."""
    p_both: NDArray[np.float64]
    """Confidence where the first two are too close."""
    margin: NDArray[np.float64]
    signals: NDArray[np.float64]
    """What a calibration sees (n, len(SIGNALS)), raw."""
    bypassed: NDArray[np.bool_]
    joint: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Tools of the messages that get several calls."""

    def outcome(self, table: EvidenceTable, own: SelectionSettings) -> NDArray[np.int8]:
        """Return the outcome codes (n,) under thresholds; arguments are extracted where they decide."""
        refused, tied = self.objections(own)
        chosen = ~(refused | tied)
        self.extract(table, chosen)
        found = np.where(refused, CODES["no_tool"], self.accepted)
        return np.where(tied, CODES["ambiguous"], found).astype(np.int8)

    def objections(self, own: SelectionSettings) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return where a threshold refuses the tool, and where the first two are too close, (n,) each."""
        return objections(own, fixed=self.fixed, p_tool=self.p_tool, writes=self.writes, ties=self.ties,
                          margin=self.margin)  # fmt: skip

    def extract(self, table: EvidenceTable, rows: NDArray[np.bool_]) -> None:
        """Find out whether arguments are missing, for those of these rows for which it is not known."""
        for i in np.flatnonzero(rows & (self.accepted == UNKNOWN)).tolist():
            named = self.joint.get(i) or (table.ids[self.tool[i]],)
            missing = any(table.fill_for(i, name).missing for name in named if table.tools[name].required)
            self.accepted[i] = CODES["ask"] if missing else CODES["call"]


def objections(
    own: SelectionSettings,
    *,
    fixed: NDArray[np.bool_],
    p_tool: NDArray[np.float64],
    writes: NDArray[np.bool_],
    ties: NDArray[np.bool_],
    margin: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where a threshold refuses the tool, and where the first two are too close, (n,) each."""
    assert own.min_confidence is not None
    refused = p_tool < own.min_confidence
    if own.min_write_confidence > own.min_confidence:
        refused |= writes & (p_tool < own.min_write_confidence)
    refused &= ~fixed
    return refused, (margin < own.min_margin) & ties & ~refused


def calibrated(
    calibration: Calibration, signals: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return P(some tool), P(first), P(second) and P(none) (n,) as a calibration has them, rounded."""
    tool, first, none = calibration.apply(signals)
    p_first, p_second = signals[:, -2], signals[:, -1]
    scaled = np.where(p_first > 0, first / np.where(p_first > 0, p_first, 1.0) * p_second, p_second)
    capped: NDArray[np.float64] = np.minimum(scaled, first)
    return (
        np.round(tool, SCORE_DECIMALS),
        np.round(first, SCORE_DECIMALS),
        np.round(capped, SCORE_DECIMALS),
        np.round(none, SCORE_DECIMALS),
    )


def numbered(names: Sequence[Sequence[str]], ids: Sequence[str], width: int) -> NDArray[np.int32]:
    """Return lists of tool ids as numbers (n, width), -1 where a list is shorter."""
    place = {id_: i for i, id_ in enumerate(ids)}
    array = np.full((len(names), width), -1, dtype=np.int32)
    for i, row in enumerate(names):
        array[i, : len(row[:width])] = [place[name] for name in row[:width]]
    return array
