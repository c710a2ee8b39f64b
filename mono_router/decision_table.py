"""The array twin of :mod:`mono_router.decision`: many messages, many settings, the same verdicts.

Where the selector scores, :mod:`mono_router.branches` works out what settings share and a setting costs
a few comparisons. Where a model recalls or selects, answers differ by shortlist and rows are decided one
by one with :func:`decide`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mono_router.branch_table import BranchTable
from mono_router.branches import CODES, N_FUSED, Branch, numbered
from mono_router.decision import SIGNALS, Calibration, Evidence, Verdict, decide, shown_to_model
from mono_router.evidence_table import EvidenceTable
from mono_router.records import Decision, RecallAnswer, Usage
from mono_router.settings import Settings

UNRECORDED = -1
"""Outcome code of a case whose decision needs an answer that was never recorded."""


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
        if self.decided is None:
            return Usage()
        return spent(self.table.row(i), self.decided[i], self.settings)


def spent(evidence: Evidence, verdict: Verdict, settings: Settings) -> Usage:
    """Return what the models cost that a verdict asked, as recorded in its evidence."""
    total = Usage()
    if verdict.recall.model_called:
        shown, _ = shown_to_model(evidence, settings)
        recalled: RecallAnswer | None = evidence.recall_answers.get(shown)
        total += recalled.usage if recalled is not None else Usage()
    selection = verdict.selection
    if verdict.needs is None and selection is not None and selection.model_called:
        answer = evidence.answers.get(selection.shortlist)
        total += answer.usage if answer is not None else Usage()
    return total


class TableDecider:
    """Decides a table under one setting after another, keeping what settings share."""

    def __init__(self, table: EvidenceTable, calibration: Calibration | None = None) -> None:
        self.table = table
        self.calibration = calibration
        self.branches = BranchTable(table, calibration)
        self._rows: dict[int, Evidence] = {}

    def scores(self, settings: Settings) -> bool:
        """Return whether all that these resolved settings need is scored: no model has a say."""
        return self.table.selector_scores and settings.recall.source in ("embedding", "none")

    def row(self, i: int) -> Evidence:
        """Return the evidence on message i, made once; answers that come later are in it too."""
        if i not in self._rows:
            self._rows[i] = self.table.row(i)
        return self._rows[i]

    def decide_row(self, i: int, settings: Settings) -> Verdict:
        """Return the verdict on message i by :func:`decide`, arguments extracted where it asks for them."""
        while True:
            verdict = decide(self.row(i), settings, self.table.tools, self.calibration)
            if verdict.needs is None or verdict.needs.kind != "fill":
                return verdict
            assert verdict.needs.tools is not None
            self.table.fill_for(i, verdict.needs.tools[0])

    def decide(self, settings: Settings) -> Verdicts:
        """Return the verdicts under resolved settings; equal to :func:`decide` row by row."""
        if not self.scores(settings):
            found = [self.decide_row(i, settings) for i in range(len(self.table))]
            return verdicts_from(found, self.table, settings)
        confident = self.branches.confident(settings)
        alone = self.branches.branch(settings, recalled=False)
        recalled = ~confident if settings.recall.source == "embedding" else np.zeros_like(confident)
        if not recalled.any():
            return self._verdicts(settings, confident, recalled, alone)
        both = self.branches.branch(settings, recalled=True)
        return self._verdicts(settings, confident, recalled, mixed(alone, both, recalled))

    def _verdicts(
        self, settings: Settings, confident: NDArray[np.bool_], recalled: NDArray[np.bool_], branch: Branch
    ) -> Verdicts:
        outcome = branch.outcome(self.table, settings.selection)
        chosen = (outcome == CODES["call"]) | (outcome == CODES["ask"])
        confidence = np.where(chosen | branch.fixed, branch.p_first, branch.p_none)
        nobody = np.zeros(len(self.table), dtype=bool)
        return Verdicts(
            table=self.table,
            settings=settings,
            outcome=outcome,
            tool=np.where(chosen, branch.tool, -1).astype(np.int32),
            ranked=branch.ranked,
            fused=branch.fused,
            candidates=branch.candidates,
            confident=confident,
            recalled=recalled,
            recall_asked=nobody,
            selection_asked=nobody,
            p_tool=branch.p_tool,
            confidence=np.where(outcome == CODES["ambiguous"], branch.p_both, confidence),
            bypassed=branch.bypassed,
            signals=branch.signals,
            joint={i: named for i, named in branch.joint.items() if chosen[i]},
            calibration=self.calibration,
        )


def mixed(alone: Branch, both: Branch, recalled: NDArray[np.bool_]) -> Branch:
    """Return the branch that each message takes: ``both`` where recall ran."""
    found: dict[str, Any] = {}
    for item in dataclasses.fields(Branch):
        one, two = getattr(alone, item.name), getattr(both, item.name)
        if item.name == "joint":
            found[item.name] = {i: t for i, t in one.items() if not recalled[i]} | {
                i: t for i, t in two.items() if recalled[i]
            }
        else:
            found[item.name] = np.where(recalled[:, None] if one.ndim == 2 else recalled, two, one)
    return Branch(**found)


def verdicts_from(found: list[Verdict], table: EvidenceTable, settings: Settings) -> Verdicts:
    """Return scalar verdicts in array form."""
    ids = table.ids
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
        tool=numbered([[d.tool] if d.tool else [] for d in decisions], ids, 1)[:, 0],
        ranked=numbered([[r.tool for r in d.ranked] for d in decisions], ids, limit),
        fused=numbered([[c.tool for c in v.fused] for v in found], ids, N_FUSED),
        candidates=numbered([[c.tool for c in v.candidates] for v in found], ids, limit),
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
