"""Replay for sweeps: one setting after another, compared with the labels, at the cost of a few comparisons.

What settings share is worked out once: a branch (stages 3 and 4 for every case, before thresholds) is
compared with the labels once, the mix of two branches once per confidence of stage 1, and only then do
thresholds differ. Figures equal those that ``case_columns`` derives from full verdicts.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mono_router.branches import CODES, N_FUSED, UNKNOWN, Branch, calibrated, numbered, objections
from mono_router.decision import SIGNALS, Verdict
from mono_router.decision_table import UNRECORDED, TableDecider, spent
from mono_router.evidence_table import EvidenceTable
from mono_router.lab.metrics import SPENT, Labels, among, recall_share
from mono_router.records import SCORE_DECIMALS
from mono_router.router import Router
from mono_router.settings import Settings

_NO_THRESHOLDS = {
    "selection.min_confidence": 0.0,
    "selection.min_margin": 0.0,
    "selection.min_write_confidence": 0.0,
}


@dataclass(kw_only=True)
class JudgedBranch:
    """A branch compared with the labels: arrays (n,), ready for thresholds."""

    fixed: NDArray[np.bool_]
    accepted: NDArray[np.int8]
    writes: NDArray[np.bool_]
    ties: NDArray[np.bool_]
    p_tool: NDArray[np.float64]
    margin: NDArray[np.float64]
    right: NDArray[np.bool_]
    """Whether the decision is right where no threshold objects and a tool is called."""
    right_tied: NDArray[np.bool_]
    """Whether showing the first two is right."""
    hit: NDArray[np.bool_]
    """Whether the first of the ranking is right."""
    candidate_recall: NDArray[np.float64]
    recall_at_5: NDArray[np.float64]
    recalled: NDArray[np.bool_]
    recall_asked: NDArray[np.bool_]
    selection_asked: NDArray[np.bool_]
    unrecorded: NDArray[np.bool_]
    spent: NDArray[np.float64] | None = None
    """What models cost (n, len(SPENT)); None where none has a say."""
    sums: tuple[dict[str, float], dict[str, float]] | None = None
    """Sums and numbers of cases of the metrics that thresholds do not change, once they are known."""


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """What one setting makes of each case; arrays (n,)."""

    labels: Labels
    outcome: NDArray[np.int8]
    """Index into OUTCOMES, or UNRECORDED."""
    correct: NDArray[np.bool_]
    wrote: NDArray[np.bool_]
    """Whether a tool that writes was called or asked for."""
    shared: JudgedBranch
    """What settings that differ in thresholds alone share."""

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a swept metric's column, float64 (n,), NaN where a case does not count."""
        wants, shared = self.labels.wants_tool, self.shared
        none = self.outcome == CODES["no_tool"]
        called = (self.outcome == CODES["call"]) | (self.outcome == CODES["ask"])
        if name in SPENT:
            zeros = np.zeros(len(none))
            found: NDArray[Any] = zeros if shared.spent is None else shared.spent[:, SPENT.index(name)]
        elif name == "tool_accuracy":
            found = self.correct
        elif name == "top1_hit":
            found = np.where(wants, shared.hit, np.nan)
        elif name in ("candidate_recall", "recall_at_5"):
            found = getattr(shared, name)
        elif name == "no_tool_precision":
            found = np.where(none, ~wants, np.nan)
        elif name == "no_tool_recall":
            found = np.where(wants, np.nan, none)
        elif name == "false_tool_rate":
            found = np.where(wants, np.nan, called)
        elif name == "missed_tool_rate":
            found = np.where(wants, none, np.nan)
        elif name == "recall_rate":
            found = shared.recalled
        elif name == "model_recall_calls":
            found = shared.recall_asked
        else:
            raise ValueError(f"unknown metric {name!r}")
        return np.where(self.outcome == UNRECORDED, np.nan, found).astype(np.float64)

    def sums(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return the sum of each swept metric's column, and over how many cases it runs."""
        wants, known = self.labels.wants_tool, ~self.shared.unrecorded
        none = self.outcome == CODES["no_tool"]
        called = (self.outcome == CODES["call"]) | (self.outcome == CODES["ask"])
        n_none, n_wanting = _count(none), _count(wants & known)
        rightly_none, n_unwanting = _count(none & ~wants), _count(~wants & known)
        shared_sums, shared_counts = self._shared_sums()
        sums = {
            "tool_accuracy": _count(self.correct),
            "no_tool_precision": rightly_none,
            "no_tool_recall": rightly_none,
            "false_tool_rate": _count(called & ~wants),
            "missed_tool_rate": n_none - rightly_none,
        }
        counts = {
            "tool_accuracy": _count(known),
            "no_tool_precision": n_none,
            "no_tool_recall": n_unwanting,
            "false_tool_rate": n_unwanting,
            "missed_tool_rate": n_wanting,
        }
        return {**sums, **shared_sums}, {**counts, **shared_counts}

    def _shared_sums(self) -> tuple[dict[str, float], dict[str, float]]:
        if self.shared.sums is None:
            names = (
                "top1_hit",
                "candidate_recall",
                "recall_at_5",
                "recall_rate",
                "model_recall_calls",
                *SPENT,
            )
            columns = {name: self.column(name) for name in names}
            self.shared.sums = (
                {name: float(np.nansum(column)) for name, column in columns.items()},
                {name: _count(~np.isnan(column)) for name, column in columns.items()},
            )
        return self.shared.sums


def _count(flags: NDArray[np.bool_]) -> float:
    return float(np.count_nonzero(flags))


class Replay:
    """Decides the cases of a table under one setting after another.

    Parameters
    ----------
    router
        Fitted for the score settings that all settings share.
    table
        Evidence on the cases.
    labels
        Of the same cases, in order.
    jobs
        Threads that ask a model.
    """

    def __init__(self, router: Router, table: EvidenceTable, labels: Labels, *, jobs: int = 1) -> None:
        self.router = router
        self.labels = labels
        self.decider = TableDecider(table, router.calibrator)
        self._jobs = jobs
        self._accepted = labels.accepted
        self._judged: dict[Any, JudgedBranch] = {}
        self._mixed: tuple[Any, JudgedBranch] | None = None
        self._answered: dict[Any, NDArray[np.bool_]] = {}

    def key(self, settings: Settings) -> tuple[Any, ...]:
        """Return what a setting's outcomes depend on: settings with one key have the same.

        Its first part is what settings share that differ in thresholds of selection alone.
        """
        lexical, own = settings.lexical, settings.selection
        confidence = (lexical.min_score, lexical.min_margin) if lexical.min_score is not None else None
        one, two = (self._key(settings, recalled=recalled) for recalled in (False, True))
        thresholds = (own.min_confidence, own.min_margin, own.min_write_confidence)
        return (one, two, confidence), thresholds

    def _key(self, settings: Settings, *, recalled: bool) -> Any:
        recall = settings.recall
        if recall.source == "none":
            recalled = False
        found = self.decider.branches.key(settings, recalled=recalled)
        if not recalled or recall.source == "embedding":
            return found
        return (*found, recall.source, recall.max_catalog_tools, recall.max_catalog_chars)

    def outcomes(self, settings: Settings) -> Outcomes:
        """Return what resolved settings make of each case; models are asked for what was not answered."""
        shared = self._shared(settings)
        refused, tied = objections(
            settings.selection,
            fixed=shared.fixed,
            p_tool=shared.p_tool,
            writes=shared.writes,
            ties=shared.ties,
            margin=shared.margin,
        )
        accepted = shared.accepted
        if (unknown := ~(refused | tied) & (accepted == UNKNOWN)).any():
            self._extract(settings, unknown)
            shared = self._shared(settings)
            accepted = shared.accepted
        none = refused | (accepted == CODES["no_tool"])
        outcome = accepted.copy()
        outcome[refused] = CODES["no_tool"]
        outcome[tied] = CODES["ambiguous"]
        called = (outcome == CODES["call"]) | (outcome == CODES["ask"])
        correct = (called & shared.right) | (tied & shared.right_tied) | (none & ~self.labels.wants_tool)
        if shared.unrecorded.any():
            outcome[shared.unrecorded] = UNRECORDED
            correct &= ~shared.unrecorded
            called &= ~shared.unrecorded
        return Outcomes(
            labels=self.labels, outcome=outcome, correct=correct, wrote=called & shared.writes, shared=shared
        )

    def _shared(self, settings: Settings) -> JudgedBranch:
        key, _ = self.key(settings)
        if self._mixed is not None and self._mixed[0] == key:
            return self._mixed[1]
        (one, two, _), confident = key, self.decider.branches.confident(settings)
        if self.decider.scores(settings):
            first, second = (self._branch(settings, k) for k in (one, two))
        elif one == two:
            first = second = self._answers(settings, one, np.ones_like(confident))
        else:
            first, second = self._answers(settings, one, confident), self._answers(settings, two, ~confident)
        found = first if one == two else _mix(first, second, ~confident)
        self._mixed = (key, found)
        return found

    def _branch(self, settings: Settings, key: Any) -> JudgedBranch:
        """The branch of a selector that scores."""
        if key not in self._judged:
            recalled = key[0] == "both"
            branch = self.decider.branches.branch(settings, recalled=recalled)
            self._judged[key] = self._judge(branch, recalled=recalled)
        return self._judged[key]

    def _judge(self, branch: Branch, *, recalled: bool) -> JudgedBranch:
        n = len(self.decider.table)
        labels, accepted = self.labels, self._accepted
        right = among(branch.tool[:, None], accepted)[:, 0] & (labels.n_expected == 1)
        for i, named in branch.joint.items():
            right[i] = self._all_right(i, named)
        nobody = np.zeros(n, dtype=bool)
        return JudgedBranch(
            fixed=branch.fixed,
            accepted=branch.accepted,
            writes=branch.writes,
            ties=branch.ties,
            p_tool=branch.p_tool,
            margin=branch.margin,
            right=right,
            right_tied=labels.wants_tool & among(branch.ranked[:, :2], accepted).any(axis=1),
            hit=among(branch.ranked[:, :1], accepted)[:, 0],
            candidate_recall=recall_share(branch.candidates, labels, accepted),
            recall_at_5=recall_share(branch.fused[:, :5], labels, accepted),
            recalled=np.full(n, recalled),
            recall_asked=nobody,
            selection_asked=nobody,
            unrecorded=nobody,
        )

    def _all_right(self, i: int, named: tuple[str, ...]) -> bool:
        ids, tools = self.decider.table.ids, set(named)
        names = {ids[t] for t in self._accepted[i].tolist() if t >= 0}
        return tools <= names and len(tools) == int(self.labels.n_expected[i])

    def _extract(self, settings: Settings, rows: NDArray[np.bool_]) -> None:
        """Extract arguments for these rows, on the branch that each takes."""
        branches, table = self.decider.branches, self.decider.table
        recalled = np.zeros(len(rows), dtype=bool)
        if settings.recall.source == "embedding":
            recalled = ~branches.confident(settings)
        for taken, which in ((rows & ~recalled, False), (rows & recalled, True)):
            if taken.any():
                branches.branch(settings, recalled=which).extract(table, taken)
        self._mixed = None

    # --- models ----------------------------------------------------------------------------------

    def _answers(self, settings: Settings, key: Any, rows: NDArray[np.bool_]) -> JudgedBranch:
        """The branch of models' answers, these rows at least: decided without thresholds, each row once."""
        n = len(self.decider.table)
        if key not in self._judged:
            self._judged[key] = _nothing(n)
            self._answered[key] = np.zeros(n, dtype=bool)
        todo = np.flatnonzero(rows & ~self._answered[key]).tolist()
        self._answered[key] |= rows
        self._judged[key].sums = None
        relaxed = settings.replace(_NO_THRESHOLDS)
        found = {i: self.decider.decide_row(i, relaxed) for i in todo}
        open_ = [i for i, verdict in found.items() if verdict.needs is not None]
        if open_:
            self.router.gather(self.decider.table, relaxed, jobs=self._jobs, rows=open_)
            found |= {i: self.decider.decide_row(i, relaxed) for i in open_}
        if found:
            self._judge_answers(self._judged[key], found, relaxed)
        return self._judged[key]

    def _judge_answers(self, into: JudgedBranch, found: dict[int, Verdict], settings: Settings) -> None:
        """Write decided rows into a branch; equal to what arrays make of a selector that scores."""
        table, rows = self.decider.table, np.array(list(found), dtype=np.intp)
        verdicts = list(found.values())
        nothing = (0.0,) * len(SIGNALS)
        seen = [v.selection.signals if v.selection and v.selection.signals else nothing for v in verdicts]
        signals = np.array(seen).reshape(len(rows), len(SIGNALS))
        p_tool, p_first, p_second = signals[:, -3], signals[:, -2], signals[:, -1]
        if self.router.calibrator is not None:
            p_tool, p_first, p_second, _ = calibrated(self.router.calibrator, signals)
        into.p_tool[rows], into.margin[rows] = p_tool, np.round(p_first - p_second, SCORE_DECIMALS)
        decisions = [v.decision for v in verdicts]
        limit = settings.candidate_limit
        ranked = numbered([[r.tool for r in d.ranked] if d else [] for d in decisions], table.ids, limit)
        candidates = numbered([[c.tool for c in v.candidates] for v in verdicts], table.ids, limit)
        fused = numbered([[c.tool for c in v.fused] for v in verdicts], table.ids, N_FUSED)
        labels = self.labels.take(rows)
        accepted = self._accepted[rows]
        into.hit[rows] = among(ranked[:, :1], accepted)[:, 0]
        into.right_tied[rows] = labels.wants_tool & among(ranked[:, :2], accepted).any(axis=1)
        into.candidate_recall[rows] = recall_share(candidates, labels, accepted)
        into.recall_at_5[rows] = recall_share(fused[:, :5], labels, accepted)
        assert into.spent is not None
        for i, verdict in found.items():
            self._judge_row(into, i, verdict)
            usage = spent(self.decider.row(i), verdict, settings)
            into.spent[i] = [getattr(usage, name) for name in SPENT]

    def _judge_row(self, into: JudgedBranch, i: int, verdict: Verdict) -> None:
        decision, selection = verdict.decision, verdict.selection
        into.recalled[i] = verdict.recall.used
        into.recall_asked[i] = verdict.recall.model_called
        asked = selection is not None and selection.model_called
        into.selection_asked[i] = asked and verdict.needs is None
        if decision is None:
            into.fixed[i] = into.unrecorded[i] = True
            return
        calls, outcome = decision.calls, decision.outcome
        bypassed = selection is not None and selection.bypassed
        into.fixed[i] = bypassed or outcome in ("no_tool", "rejected", "error")
        if outcome == "ambiguous":
            # A stated confidence may lie below what is left for the others: tied under every margin.
            assert selection is not None
            outcome, calls = "call", self.decider.row(i).answers[selection.shortlist].calls
        tools = self.decider.table.tools
        named = tuple(dict.fromkeys(call.tool for call in calls))
        into.accepted[i] = CODES[outcome]
        into.writes[i] = any(tools[name].effects == "write" for name in named)
        # Two clauses that each name their tool are no tie, however close the tools come.
        into.ties[i] = len(decision.ranked) > 1 and not into.fixed[i] and (asked or len(named) == 1)
        into.right[i] = self._all_right(i, named)


def _nothing(n: int) -> JudgedBranch:
    arrays: dict[str, Any] = {item.name: np.zeros(n, dtype=bool) for item in dataclasses.fields(JudgedBranch)}
    for name in ("p_tool", "margin", "candidate_recall", "recall_at_5"):
        arrays[name] = np.zeros(n)
    arrays["sums"] = None
    arrays["accepted"] = np.zeros(n, dtype=np.int8)
    arrays["spent"] = np.zeros((n, len(SPENT)))
    return JudgedBranch(**arrays)


def _mix(one: JudgedBranch, two: JudgedBranch, second: NDArray[np.bool_]) -> JudgedBranch:
    """Return the branch that each case takes: the second where it says so."""
    found: dict[str, Any] = {}
    for item in dataclasses.fields(JudgedBranch):
        a, b = getattr(one, item.name), getattr(two, item.name)
        if item.name == "sums":
            continue
        if a is b or a is None:
            found[item.name] = a
        else:
            found[item.name] = np.where(second[:, None] if a.ndim == 2 else second, b, a)
    return JudgedBranch(**found)
