"""Losses: the rules that say at which stage one wrong case was lost, and why.

A case is lost at the first stage that failed. A limit is named where lifting it alone makes the missing
tool a candidate: that is decided again, not guessed from ranks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mono_router.decision import Evidence, Verdict, decide
from mono_router.lab.advice import ADVICE, Stage
from mono_router.lab.evaluation import Report, score_cases
from mono_router.lab.metrics import argument_scores, same_value
from mono_router.records import Case, Decision, Filled, Outcome, Query, Tool
from mono_router.schema import is_sensitive, pointer

if TYPE_CHECKING:
    from collections.abc import Callable

    from mono_router.settings import Settings

_ARGUMENT_CODES = {
    "UNKNOWN_ARGUMENT": "unknown_key",
    "SENSITIVE_ARGUMENT": "sensitive",
    "SYSTEM_ARGUMENT": "unknown_key",
    "ARGUMENT_SCHEMA": "schema",
}
_MISSED = "missed"
"""Cause of a discovery loss until :func:`discovery_causes` has found the right one."""
_ANY_TIME = "2026-03-10T09:30:00+00:00"
"""A time to try whether a date would have been read had there been one; which one does not matter."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Where one wrong case was lost."""

    row: int
    """Place of the case in the report."""
    case: Case
    stage: Stage
    cause: str
    """A key of the table of advice."""
    detail: str
    """What was expected against what came, or the code."""
    got: str
    """Tool that was named, or the outcome."""

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE[self.cause]


@dataclass(frozen=True)
class _Lost:
    """A stage and a cause, before they are tied to their case."""

    stage: Stage
    cause: str
    detail: str


def loss_of(report: Report, row: int, verdict: Verdict, run: Outcome | None = None) -> Loss | None:
    """Return where a case of a report was lost under its verdict; None = it is right.

    What a discovery loss is owed to is left open: :func:`discovery_causes` says it for all at once.
    """
    case, decision = report.cases[row], verdict.decision
    assert decision is not None
    if not report.columns["tool_accuracy"][row]:
        found: _Lost | None = _tool_loss(report, row, case, verdict, decision)
    else:
        found = _later_loss(report, row, decision)
        if found is None and run is not None and run.error is not None:
            found = _Lost("execution", _execution_cause(run.error), run.error)
    if found is None:
        return None
    got = " / ".join(decision.tools) or decision.outcome
    return Loss(row=row, case=case, stage=found.stage, cause=found.cause, detail=found.detail, got=got)


def is_well_made(report: Report, row: int, decision: Decision) -> bool:
    """Return whether a decision for the right tool also has the right mode and arguments."""
    return _later_loss(report, row, decision) is None


def _later_loss(report: Report, row: int, decision: Decision) -> _Lost | None:
    """What is wrong beside the tool; where none is called or asked for, nothing is decided beside it."""
    if decision.outcome not in ("call", "ask"):
        return None
    case = report.cases[row]
    if case.expected_mode not in (None, decision.mode):
        return _Lost("selection", "wrong_mode", f"{case.expected_mode} expected, {decision.mode} chosen")
    return _argument_loss(report, row, case, decision)


def _tool_loss(report: Report, row: int, case: Case, verdict: Verdict, decision: Decision) -> _Lost:
    catalog = report.router.catalog
    if decision.outcome == "error" and verdict.selection is None:
        return _Lost("discovery", "recall_error", decision.reason)
    expected = list(dict.fromkeys(catalog.kept_id(t) for t in case.expected_tools))
    names = {c.tool for c in verdict.candidates}
    acceptable = {catalog.kept_id(t) for t in case.acceptable_tools} if report.labels.whole[row] else set()
    missing = [t for t in expected if t not in names]
    if missing and not (len(expected) == 1 and acceptable & names):
        return _Lost("discovery", _MISSED, missing[0])
    detail = f"{', '.join(expected) or 'no tool'} expected"
    if decision.outcome == "error":
        return _Lost("selection", "error", decision.reason)
    if decision.outcome == "rejected":
        first = decision.rejections[0]
        cause = _ARGUMENT_CODES.get(first.code)
        if cause is not None and expected:
            return _Lost("extraction", cause, f"{first.code} {first.name}")
        return _Lost("selection", "rejected", f"{first.code} {first.name}")
    if not expected:
        return _Lost("selection", "false_tool", detail)
    if decision.outcome == "no_tool":
        first_ranked = decision.ranked[0].tool if decision.ranked else None
        refused = decision.reason in ("LOW_CONFIDENCE", "LOW_WRITE_CONFIDENCE")
        cause = "low_confidence" if refused and first_ranked in {*expected, *acceptable} else "false_none"
        return _Lost("selection", cause, f"{detail}, {decision.reason}")
    if decision.outcome == "ambiguous":
        return _Lost("selection", "ambiguous", detail)
    several = set(decision.tools) & {*expected, *acceptable}
    return _Lost("selection", "incomplete_set" if several else "neighbour_tool", detail)


# --- discovery -----------------------------------------------------------------------------------


def discovery_causes(report: Report, losses: list[Loss]) -> list[Loss]:
    """Return the losses, each discovery loss with what it is owed to."""
    open_ = [loss for loss in losses if loss.cause == _MISSED]
    if not open_:
        return losses
    lifts = _lifts(report)
    cases = [loss.case for loss in open_]
    # Evidence as wide as the lifted limits; what models answered is kept, nothing is asked.
    table = score_cases(
        report.router,
        cases,
        report.offered,
        widest=[lifted for _, lifted in lifts],
        include=[[loss.detail] for loss in open_],
    )
    known = report.verdicts.table
    causes = {}
    for place, loss in enumerate(open_):
        evidence = dataclasses.replace(
            table.row(place),
            recall_answers=known.recall_answers[loss.row],
            answers=known.answers[loss.row],
        )
        causes[loss.row] = _discovery_cause(report, loss, evidence, lifts)
    return [dataclasses.replace(x, cause=causes[x.row]) if x.cause == _MISSED else x for x in losses]


def _lifts(report: Report) -> list[tuple[str, Settings]]:
    """Each limit of discovery that may have cut a tool, and the settings without it."""
    settings, n = report.settings, max(1, len(report.router.catalog))
    recall = settings.recall
    found = [("lexical.candidate_limit", settings.replace({"lexical.candidate_limit": n}))]
    if recall.source in ("model", "both"):
        # A model's list is as long as it was asked for: only what was cut of it can be brought back.
        wider = {"recall.candidate_limit": max(recall.candidate_limit, recall.ask_limit)}
        found.append(("recall.candidate_limit", settings.replace(wider)))
    elif recall.source == "embedding":
        name = "candidate_limit" if recall.candidate_limit <= recall.ask_limit else "ask_limit"
        found.append(
            (f"recall.{name}", settings.replace({"recall.candidate_limit": n, "recall.ask_limit": n}))
        )
    if recall.min_score is not None:
        found.append(("recall.min_score", settings.replace({"recall.min_score": None})))
    return found


def _discovery_cause(
    report: Report, loss: Loss, evidence: Evidence, lifts: list[tuple[str, Settings]]
) -> str:
    router, tool, verdict = report.router, loss.detail, report.verdicts.verdict(loss.row)
    if any(c.tool == tool for c in verdict.fused):
        return "limit_candidate_limit"
    for name, lifted in lifts:
        again = decide(evidence, lifted, router.tools, router.calibrator)
        if any(c.tool == tool for c in again.candidates):
            return f"limit_{name}"
    skipped = verdict.recall.skipped_because
    if skipped == "confident":
        return "skipped_confident"
    if skipped in ("max_catalog_tools", "max_catalog_chars"):
        return f"gate_{skipped}"
    return "recall_off" if skipped == "off" else "recall_miss"


# --- extraction and execution --------------------------------------------------------------------


def _argument_loss(report: Report, row: int, case: Case, decision: Decision) -> _Lost | None:
    if case.missing_arguments is not None:
        pointers = {pointer(name) for name in case.missing_arguments}
        if decision.outcome != "ask":
            return _Lost("extraction", "not_asked", ", ".join(sorted(pointers)))
        if set(decision.missing) != pointers:
            return _Lost("extraction", "asked_in_vain", ", ".join(decision.missing))
    if case.expected_arguments is None or len(case.expected_tools) != 1:
        return None
    tool = report.router.catalog[decision.calls[0].tool]
    given = decision.arguments
    _, exact = argument_scores(case, given, tool.system_arguments)
    if exact:
        return None
    truth = {k: v for k, v in case.expected_arguments.items() if not is_sensitive(k)}
    for name, value in truth.items():
        if name in tool.system_arguments or (name not in given and name in case.optional_arguments):
            continue
        options = [value, *case.argument_alternatives.get(name, ())]
        if name in given and any(same_value(given[name], option) for option in options):
            continue
        if _lacks_now(report, row, tool, name, given):
            return _Lost("extraction", "no_date_context", f"{name} = {value!r}")
        if name not in given:
            return _Lost("extraction", "missing", f"{name} = {value!r}")
        return _Lost("extraction", "wrong_value", f"{name}: {value!r} expected, {given[name]!r} read")
    surplus = next(name for name in given if name not in case.expected_arguments)
    return _Lost("extraction", "unknown_key", f"{surplus} = {given[surplus]!r}")


def _lacks_now(report: Report, row: int, tool: Tool, name: str, given: Mapping[str, Any]) -> bool:
    """Whether a date was not read for want of a time to count from."""
    query = report.verdicts.table.queries[row]
    if query.now is not None or tool.properties.get(name, {}).get("format") not in ("date", "date-time"):
        return False
    fill: Callable[[Query, Tool], Filled] | None = getattr(report.router.selector, "fill", None)
    if fill is None:
        return name not in given  # what a model would have made of a time is not known
    read = fill(dataclasses.replace(query, now=_ANY_TIME), tool).arguments
    return name in read and not same_value(read[name], given.get(name))


def _execution_cause(code: str) -> str:
    if code in ("AUTH_REQUIRED", "AUTH_REJECTED"):
        return "auth"
    if code in ("TOOL_TIMEOUT", "TOOL_NETWORK_ERROR", "TOOL_SERVER_ERROR", "TOOL_RATE_LIMITED"):
        return "network"
    if code in ("TOOL_RESPONSE_MALFORMED", "TOOL_OUTPUT_LIMIT"):
        return "response"
    if code == "TOOL_EXECUTION_FAILED":
        return "raised"
    if code == "TOOL_CLIENT_ERROR":
        return "refused_request"
    return "config"
