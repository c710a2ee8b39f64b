"""Diagnosis: which stage lost a case, why, and what a perfect stage would buy.

A report goes in. Each wrong case is lost at exactly one stage, the first that failed: discovery (a right
tool is not among the candidates), selection, extraction, execution. Stage counts add up to the wrong
cases. Oracle attribution replaces the stages by perfect ones, in order, and decides again.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from mono_router.decision import Verdict, decide_among
from mono_router.decision_table import UNRECORDED
from mono_router.lab.evaluation import Report, score_cases
from mono_router.lab.intervals import Estimate, mean_interval
from mono_router.lab.metrics import argument_scores, same_value
from mono_router.records import Call, Case, Decision, Outcome, Tool
from mono_router.schema import is_sensitive, pointer
from mono_router.text import words

if TYPE_CHECKING:
    import pandas as pd

Stage = Literal["discovery", "selection", "extraction", "execution"]
STAGES: tuple[Stage, ...] = ("discovery", "selection", "extraction", "execution")
_ARGUMENT_CODES = {
    "UNKNOWN_ARGUMENT": "unknown_key",
    "SENSITIVE_ARGUMENT": "sensitive",
    "SYSTEM_ARGUMENT": "unknown_key",
    "ARGUMENT_SCHEMA": "schema",
}
ADVICE: Mapping[str, str] = {
    "skipped_confident": (
        "The lexical stage was sure of another tool: raise lexical.min_score or lexical.min_margin, or "
        "take the hint that misleads out of that tool."
    ),
    "gate_max_catalog_tools": (
        "The catalog is over recall.max_catalog_tools: raise the gate, or use source both or embedding."
    ),
    "gate_max_catalog_chars": (
        "The catalog is over recall.max_catalog_chars: raise the gate, shorten descriptions, or use "
        "source both or embedding."
    ),
    "recall_off": (
        "Words alone did not find the tool and stage 2 is off: give an encoder or a model, or add hints "
        "and examples in the user's words."
    ),
    "recall_miss": (
        "Neither stage found the tool: add an example or a hint in the user's words, or say in the "
        "description what users call it."
    ),
    "limit_lexical.candidate_limit": (
        "The lexical stage had the tool below lexical.candidate_limit: raise it."
    ),
    "limit_recall.candidate_limit": "Recall had the tool below recall.candidate_limit: raise it.",
    "limit_recall.min_score": "Recall had the tool below recall.min_score: lower it.",
    "limit_candidate_limit": (
        "The fused list had the tool below candidate_limit: raise it, or sweep fusion.weights."
    ),
    "neighbour_tool": (
        "A neighbour was chosen: set the two descriptions apart (see confusions), and give each an "
        "example that the other must not take."
    ),
    "incomplete_set": (
        "The message needs several tools and not all, or others, were chosen: check the limits of think "
        "mode, or split the request."
    ),
    "false_tool": (
        "A tool was called where none is right: raise selection.min_confidence, or add boundaries."
    ),
    "false_none": (
        "The right tool was a candidate, and none was chosen: lower selection.min_confidence, or add an "
        "example close to the message."
    ),
    "low_confidence": (
        "The right tool came first and a threshold refused it: lower selection.min_confidence or "
        "selection.min_write_confidence, or calibrate."
    ),
    "ambiguous": (
        "Two tools came out too close and neither pair member is right: lower selection.min_margin or set"
        " them apart."
    ),
    "wrong_mode": "The tool is right and its mode is not: give examples with a mode.",
    "rejected": "The answer broke a rule: see the rejection; the prompt or the schema invites it.",
    "error": "The model failed: see the error code; this is no routing fault.",
    "missing": (
        "A value that the message gives was not found: describe the property, give its format or enum, or"
        " x-synonyms."
    ),
    "wrong_value": (
        "A value was read wrongly: describe the property; for dates give the case or the request its now."
    ),
    "no_date_context": "A relative date had no now to count from: give the request its date and time zone.",
    "unknown_key": "An argument was given that the tool does not take from a user.",
    "sensitive": "An argument may carry a credential: make it a system argument.",
    "schema": "A value does not fit the schema: check its type, enum and format.",
    "asked_in_vain": "The user was asked for what the message gives: see what was not extracted.",
    "not_asked": "A required value is missing and the user was not asked: check required in the schema.",
    "config": "The tool is not configured: check run and the modules that the host allows.",
    "auth": "The service refused the credential: check auth and its environment variable.",
    "network": "The service was not reached in time: check the endpoint and timeout_ms.",
    "response": "The service answered with what could not be read: check response.select and max_bytes.",
}
"""Advice by sub-cause."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Where one wrong case was lost."""

    case: Case
    stage: Stage
    cause: str
    detail: str
    """What was expected against what came, or the code."""
    got: str
    """Tool that was named, or the outcome."""

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE[self.cause.split(":")[0]]


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Two tools that are taken for each other."""

    expected: str
    got: str
    n: int
    expected_description: str
    got_description: str
    shared_words: tuple[str, ...]
    """Words that both tools' texts hold."""


_Lost = Callable[[Stage, str, str], Loss]


def diagnose(report: Report, *, executions: Mapping[str, Outcome] | None = None) -> Diagnosis:
    """Return where each wrong case of a report was lost.

    Parameters
    ----------
    executions
        Case id to what came of running its call, from the runtime; None = nothing was run.

    A case is wrong if its tools are, or where its labels say so its mode, its arguments or what was
    asked for, or if running it failed. Unrecorded cases are counted apart.
    """
    losses = []
    for i, case in enumerate(report.cases):
        if report.verdicts.outcome[i] == UNRECORDED:
            continue
        verdict = report.verdicts.verdict(i)
        loss = _loss(report, i, case, verdict, (executions or {}).get(case.id))
        if loss is not None:
            losses.append(loss)
    return Diagnosis(report, tuple(losses))


def _loss(report: Report, i: int, case: Case, verdict: Verdict, run: Outcome | None) -> Loss | None:
    decision = verdict.decision
    assert decision is not None
    got = decision.tool or (
        decision.outcome if decision.outcome != "ambiguous" else " / ".join(decision.tools)
    )

    def lost(stage: Stage, cause: str, detail: str) -> Loss:
        return Loss(case=case, stage=stage, cause=cause, detail=detail, got=got)

    if not report.columns["tool_accuracy"][i]:
        return _tool_loss(report, i, case, verdict, decision, lost)
    acted = decision.outcome in ("call", "ask")
    if acted and case.expected_mode not in (None, decision.mode):
        return lost("selection", "wrong_mode", f"{case.expected_mode} expected, {decision.mode} chosen")
    found = _argument_loss(report, case, decision, lost)
    if found is not None:
        return found
    if run is not None and run.error is not None:
        return lost("execution", _execution_cause(run.error), run.error)
    return None


def _tool_loss(report: Report, i: int, case: Case, verdict: Verdict, decision: Decision, lost: _Lost) -> Loss:
    catalog = report.router.catalog
    if decision.outcome == "error" and not verdict.candidates:
        return lost("selection", "error", decision.reason)
    expected = [catalog.kept_id(t) for t in case.expected_tools]
    names = {c.tool for c in verdict.candidates}
    acceptable = {catalog.kept_id(t) for t in case.acceptable_tools} if report.labels.whole[i] else set()
    missing = [t for t in expected if t not in names]
    if missing and not (len(expected) == 1 and acceptable & names):
        return lost("discovery", _discovery_cause(report, i, missing[0], verdict), missing[0])
    detail = f"{', '.join(expected) or 'no tool'} expected"
    if decision.outcome == "error":
        return lost("selection", "error", decision.reason)
    if decision.outcome == "rejected":
        first = decision.rejections[0]
        chosen = verdict.selection.ranked[0].tool if verdict.selection and verdict.selection.ranked else ""
        cause = _ARGUMENT_CODES.get(first.code)
        if cause is not None and expected:
            return lost("extraction", cause, f"{first.code} {first.name}")
        return lost("selection", "rejected", f"{first.code} {first.name} {chosen}".strip())
    if not expected:
        return lost("selection", "false_tool", detail)
    if decision.outcome == "no_tool":
        first_ranked = decision.ranked[0].tool if decision.ranked else None
        refused = decision.reason in ("LOW_CONFIDENCE", "LOW_WRITE_CONFIDENCE")
        cause = "low_confidence" if refused and first_ranked in {*expected, *acceptable} else "false_none"
        return lost("selection", cause, f"{detail}, {decision.reason}")
    if decision.outcome == "ambiguous":
        return lost("selection", "ambiguous", detail)
    several = len(expected) > 1 and set(decision.tools) & set(expected)
    return lost("selection", "incomplete_set" if several else "neighbour_tool", detail)


def _discovery_cause(report: Report, i: int, tool: str, verdict: Verdict) -> str:
    settings = report.settings
    if any(c.tool == tool for c in verdict.fused):
        return "limit_candidate_limit"
    if verdict.recall.skipped_because == "confident":
        return "skipped_confident"
    if verdict.recall.skipped_because in ("max_catalog_tools", "max_catalog_chars"):
        return f"gate_{verdict.recall.skipped_because}"
    query = report.verdicts.table.queries[i]
    within = report.verdicts.table.offered[i]
    number = report.router.catalog.position[tool]
    if verdict.recall.used and not verdict.recall.model_called and report.router.retriever is not None:
        row = np.asarray(report.router.retriever.scores([query.message])[0], dtype=np.float64)
        own = settings.recall
        if (
            own.min_score is not None
            and row[number] < own.min_score
            and _rank(row, number, within, report) < min(own.candidate_limit, own.ask_limit)
        ):
            return "limit_recall.min_score"
        if _rank(row, number, within, report) < 2 * min(own.candidate_limit, own.ask_limit):
            return "limit_recall.candidate_limit"
    row = report.router.lexical.scores([query.message])[0].astype(np.float64)
    if row[number] > 0 and _rank(row, number, within, report) < 2 * settings.lexical.candidate_limit:
        return "limit_lexical.candidate_limit"
    return "recall_off" if verdict.recall.skipped_because == "off" else "recall_miss"


def _rank(row: NDArray[np.float64], number: int, within: tuple[str, ...] | None, report: Report) -> int:
    """Place of a tool among those offered, from 0, ties by id."""
    numbers = (
        np.arange(len(row))
        if within is None
        else np.array([report.router.catalog.position[t] for t in within], dtype=np.int64)
    )
    others = row[numbers]
    ahead = (others > row[number]) | ((others == row[number]) & (numbers < number))
    return int(ahead.sum())


def _argument_loss(report: Report, case: Case, decision: Decision, lost: _Lost) -> Loss | None:
    if decision.outcome not in ("call", "ask"):
        return None
    if case.missing_arguments is not None:
        pointers = {pointer(name) for name in case.missing_arguments}
        if decision.outcome != "ask":
            return lost("extraction", "not_asked", ", ".join(sorted(pointers)))
        if set(decision.missing) != pointers:
            return lost("extraction", "asked_in_vain", ", ".join(decision.missing))
    if case.expected_arguments is None or len(case.expected_tools) != 1:
        return None
    tool = report.router.catalog[decision.calls[0].tool]
    given = decision.arguments
    share, exact = argument_scores(case, given, tool.system_arguments)
    if exact or (not np.isnan(share) and share == 1.0 and exact):
        return None
    truth = {k: v for k, v in case.expected_arguments.items() if not is_sensitive(k)}
    for name, value in truth.items():
        if name in tool.system_arguments or (name not in given and name in case.optional_arguments):
            continue
        if name not in given:
            dated = tool.properties.get(name, {}).get("format") in ("date", "time", "date-time")
            cause = "no_date_context" if dated and case.now is None else "missing"
            return lost("extraction", cause, f"{name} = {value!r}")
        options = [value, *case.argument_alternatives.get(name, ())]
        if not any(same_value(given[name], option) for option in options):
            return lost("extraction", "wrong_value", f"{name}: {value!r} expected, {given[name]!r} read")
    surplus = [name for name in given if name not in case.expected_arguments]
    return lost("extraction", "unknown_key", f"{surplus[0]} = {given[surplus[0]]!r}") if surplus else None


def _tool_words(tool: Tool) -> set[str]:
    return set(
        words(" ".join([tool.title, tool.description, *tool.hints, *(e.message for e in tool.examples)]))
    )


def _execution_cause(code: str) -> str:
    if code in ("AUTH_REQUIRED", "AUTH_REJECTED"):
        return "auth"
    if code in ("TOOL_TIMEOUT", "TOOL_NETWORK_ERROR", "TOOL_SERVER_ERROR", "TOOL_RATE_LIMITED"):
        return "network"
    if code in ("TOOL_RESPONSE_MALFORMED", "TOOL_OUTPUT_LIMIT"):
        return "response"
    return "config"


@dataclass(frozen=True)
class Diagnosis:
    """Where the wrong cases of a report were lost."""

    report: Report
    losses: tuple[Loss, ...]

    def __len__(self) -> int:
        return len(self.losses)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per wrong case: case, message, stage, cause, detail, got, advice."""
        import pandas as pd

        columns = ["case", "message", "language", "stage", "cause", "detail", "got", "advice"]
        rows = [
            (x.case.id, x.case.message, x.case.language, x.stage, x.cause, x.detail, x.got, x.advice)
            for x in self.losses
        ]
        return pd.DataFrame(rows, columns=columns)

    def counts(self) -> pd.DataFrame:
        """Return one row per stage and cause: n, share of all cases, advice; n adds up to the wrong cases."""
        import pandas as pd

        found = Counter((x.stage, x.cause) for x in self.losses)
        order = sorted(found, key=lambda key: (STAGES.index(key[0]), -found[key], key[1]))
        rows = [(*key, found[key], found[key] / max(1, len(self.report)), ADVICE[key[1]]) for key in order]
        return pd.DataFrame(rows, columns=["stage", "cause", "n", "share", "advice"])

    def confusions(self, most: int = 15) -> tuple[Confusion, ...]:
        """Return the pairs of tools that are taken for each other, most frequent first."""
        catalog = self.report.router.catalog
        pairs: Counter[tuple[str, str]] = Counter()
        for loss in self.losses:
            if loss.cause == "neighbour_tool":
                pairs[(catalog.kept_id(loss.case.expected_tools[0]), loss.got)] += 1
        found = []
        for (expected, got), n in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:most]:
            one, two = catalog[expected], catalog[got]
            found.append(
                Confusion(
                    expected=expected,
                    got=got,
                    n=n,
                    expected_description=one.description,
                    got_description=two.description,
                    shared_words=tuple(sorted(_tool_words(one) & _tool_words(two))),
                )
            )
        return tuple(found)

    @cached_property
    def attribution(self) -> pd.DataFrame:
        """What perfect stages would buy, cumulative in stage order.

        One row per stage: right (share of cases right with this stage and those before it perfect), gain
        over the row before, low, high (95 %, paired over groups), n, unrecorded. Perfect discovery:
        missing expected tools replace the lowest candidates, the limit unchanged. Perfect selection:
        right tools in the right mode wherever the candidates allow; perfect extraction: right arguments.
        """
        import pandas as pd

        known = self.report.verdicts.outcome != UNRECORDED
        wrong = {loss.case.id: loss for loss in self.losses}
        base = np.array([c.id not in wrong for c in self.report.cases], dtype=np.float64)
        found, unrecorded = self._perfect_discovery(base)
        reached = [("as it is", base, 0), ("discovery", found, unrecorded)]
        # Behind perfect discovery every expected tool is a candidate, as far as the limit holds them all.
        fits = self._fits()
        selected = np.where(fits, self._right_but_for("selection", found), found)
        reached.append(("selection", selected, 0))
        failed_run = np.array(
            [(x := wrong.get(c.id)) is not None and x.stage == "execution" for c in self.report.cases]
        )
        extracted = np.where(fits & ~failed_run, 1.0, selected)
        reached.append(("extraction", extracted, 0))
        reached.append(("execution", np.where(fits, 1.0, extracted), 0))
        rows = []
        groups = self.report.labels.groups
        for (_, before, _), (name, after, lost) in itertools.pairwise(reached):
            usable = known & ~np.isnan(after) & ~np.isnan(before)
            gain: Estimate = mean_interval((after - before)[usable], groups[usable])
            rows.append(
                {
                    "stage": name,
                    "right": float(after[usable].mean()),
                    "gain": gain.value,
                    "low": gain.low,
                    "high": gain.high,
                    "n": gain.n,
                    "unrecorded": lost,
                }
            )
        return pd.DataFrame(rows).set_index("stage")

    def _fits(self) -> NDArray[np.bool_]:
        """Whether the candidate limit can hold every expected tool."""
        return self.report.labels.n_expected <= self.report.settings.candidate_limit

    def _perfect_discovery(self, base: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
        report = self.report
        rows = [
            i for i, c in enumerate(report.cases) if (x := self._by_id.get(c.id)) and x.stage == "discovery"
        ]
        found, unrecorded = base.copy(), 0
        if not rows:
            return found, 0
        router = report.router
        cases = [report.cases[i] for i in rows]
        expected = [[router.catalog.kept_id(t) for t in case.expected_tools] for case in cases]
        table = score_cases(router, cases, report.offered, include=expected)
        for place, i in enumerate(rows):
            verdict = report.verdicts.verdict(i)
            names = [c.tool for c in verdict.candidates]
            missing = [t for t in expected[place] if t not in names]
            limit = report.settings.candidate_limit
            kept = names[: max(0, limit - len(missing))] if len(names) + len(missing) > limit else names
            shortlist = [*kept, *missing][:limit]
            evidence = table.row(place)
            again = decide_among(
                verdict, shortlist, evidence, report.settings, router.tools, router.calibrator
            )
            if again.decision is None:
                found[i] = np.nan
                unrecorded += 1
                continue
            found[i] = self._right(i, cases[place], again)
        return found, unrecorded

    @cached_property
    def _by_id(self) -> Mapping[str, Loss]:
        return {loss.case.id: loss for loss in self.losses}

    def _right(self, i: int, case: Case, verdict: Verdict) -> float:
        decision = verdict.decision
        assert decision is not None
        expected = {self.report.router.catalog.kept_id(t) for t in case.expected_tools}
        if decision.outcome == "ambiguous":
            return float(bool(set(decision.tools) & expected))
        if set(decision.tools) != expected:
            return 0.0
        if case.expected_mode is not None and decision.mode != case.expected_mode:
            return 0.0
        return 0.0 if self._badly_filled(case, decision) else 1.0

    def _right_but_for(self, stage: Stage, found: NDArray[np.float64]) -> NDArray[np.float64]:
        """Right cases when selection is perfect too: what extraction would then make of the right tool."""
        report = self.report
        result = found.copy()
        for i, case in enumerate(report.cases):
            if found[i] == 1.0 or report.verdicts.outcome[i] == UNRECORDED:
                continue
            result[i] = self._right_tool_arguments(i, case)
        return result

    def _right_tool_arguments(self, i: int, case: Case) -> float:
        if not case.expected_tools or len(case.expected_tools) > 1:
            return 1.0
        if case.expected_arguments is None and case.missing_arguments is None:
            return 1.0
        loss = self._by_id.get(case.id)
        if loss is not None and loss.stage in ("extraction", "execution"):
            return 0.0
        report = self.report
        tool = report.router.catalog[report.router.catalog.kept_id(case.expected_tools[0])]
        fill = getattr(report.router.selector, "fill", None)
        if fill is None:
            return 1.0  # a model's arguments for a tool that it did not choose are not known
        filled = fill(report.verdicts.table.queries[i], tool)
        decision = Decision(
            outcome="ask" if filled.missing else "call",
            calls=(Call(tool=tool.id, arguments=filled.arguments),),
            missing=filled.missing,
        )
        return 0.0 if self._badly_filled(case, decision) else 1.0

    def _badly_filled(self, case: Case, decision: Decision) -> bool:
        def lost(stage: Stage, cause: str, detail: str) -> Loss:
            return Loss(case=case, stage=stage, cause=cause, detail=detail, got="")

        return _argument_loss(self.report, case, decision, lost) is not None

    def _repr_html_(self) -> str:
        from mono_router.html import diagnosis_html

        return diagnosis_html(self)


def stage_counts(diagnosis: Diagnosis) -> Mapping[str, int]:
    """Return how many wrong cases each stage lost, zeros included."""
    found: Counter[str] = Counter(loss.stage for loss in diagnosis.losses)
    return {stage: found[stage] for stage in STAGES}
