"""Whole sessions, run closed-loop: what a runtime really answers, turn after turn, is compared.

Unlike cases, which are given the memory that they need, a session makes its own: an early mistake costs
later turns. A session is therefore evaluated as a whole too, and never swept. The runtime is any object
with ``chat``, ``confirm`` and ``cancel``; what it runs, runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from mono_router.lab.metrics import same_value
from mono_router.records import Outcome

if TYPE_CHECKING:
    import pandas as pd

    from mono_router.lab.evaluation import Report

Does = Literal["chat", "confirm", "cancel"]
EXPECTED = ("status", "tool", "arguments", "missing", "error", "mode", "reply_has")
"""What a turn may expect; ``arguments`` are those that must be there, ``reply_has`` a part of the reply."""


@runtime_checkable
class Conversing(Protocol):
    """A runtime, as far as sessions need one."""

    def chat(self, session_id: str, message: str) -> Any: ...

    def confirm(self, session_id: str) -> Any: ...

    def cancel(self, session_id: str) -> Any: ...


class Invoking(Protocol):
    """A runtime, as far as executions need one."""

    def invoke(self, tool: str, arguments: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionTurn:
    """One turn and what is expected of it."""

    does: Does = "chat"
    message: str = ""
    """What the user says; empty unless the turn chats."""
    expect: Mapping[str, Any] = field(default_factory=dict)
    """Some of :data:`EXPECTED`; empty = the turn is run and not judged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionCase:
    """A whole session."""

    id: str
    turns: tuple[SessionTurn, ...]
    language: str = ""


def load_sessions(path: str | Path) -> list[SessionCase]:
    """Return the sessions of a JSONL file: ``{"id", "language", "turns": [{"say" | "do", "expect"}]}``.

    Raises
    ------
    ValueError
        If a line is malformed; all problems at once, with file and line.
    """
    problems: list[str] = []
    found: list[SessionCase] = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(session_from(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        raise ValueError("\n".join(problems))
    return found


def session_from(record: Mapping[str, Any]) -> SessionCase:
    """Return a session from its JSON form.

    Raises
    ------
    ValueError
        If it is no session.

    >>> session = session_from({"id": "s", "turns": [{"say": "hi"}, {"do": "confirm"}]})
    >>> [(turn.does, turn.message) for turn in session.turns]
    [('chat', 'hi'), ('confirm', '')]
    """
    if not isinstance(record, Mapping) or not isinstance(record.get("id"), str) or "turns" not in record:
        raise ValueError("a session needs an id and turns")
    turns = []
    for i, turn in enumerate(record["turns"]):
        unknown = set(turn) - {"say", "do", "expect"}
        does = turn.get("do", "chat")
        expect = dict(turn.get("expect") or {})
        wrong = set(expect) - set(EXPECTED)
        if (
            unknown
            or wrong
            or does not in ("chat", "confirm", "cancel")
            or ("say" in turn) != (does == "chat")
        ):
            what = sorted(unknown | wrong) or [does]
            raise ValueError(f"{record['id']}: turn {i + 1}: {what[0]!r} is not known here")
        turns.append(SessionTurn(does=does, message=str(turn.get("say", "")), expect=expect))
    return SessionCase(id=record["id"], turns=tuple(turns), language=str(record.get("language", "")))


def evaluate_sessions(
    runtime: Conversing | Callable[[], Conversing],
    sessions: Iterable[SessionCase],
    *,
    jobs: int = 1,
    progress: Callable[[int], object] | None = None,
) -> SessionReport:
    """Return how a runtime did in whole sessions.

    Parameters
    ----------
    runtime
        One for all sessions, or a function that makes one for each (``dispose`` is called where it has it).
    sessions
        Sessions to run; each runs in its own order, under its id.
    jobs
        Sessions at once, in threads.
    progress
        Called with 1 after each session.
    """
    wanted = list(sessions)

    def one(session: SessionCase) -> list[dict[str, Any]]:
        if isinstance(runtime, Conversing):
            rows = _run(runtime, session)
        else:
            made = runtime()
            try:
                rows = _run(made, session)
            finally:
                dispose = getattr(made, "dispose", None)
                if dispose is not None:
                    dispose()
        if progress is not None:
            progress(1)
        return rows

    if jobs == 1:
        found = [one(session) for session in wanted]
    else:
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            found = list(pool.map(one, wanted))
    return SessionReport(tuple(wanted), tuple(row for rows in found for row in rows))


def _run(runtime: Conversing, session: SessionCase) -> list[dict[str, Any]]:
    rows = []
    for number, turn in enumerate(session.turns, 1):
        if turn.does == "chat":
            result = runtime.chat(session.id, turn.message)
        else:
            result = getattr(runtime, turn.does)(session.id)
        wrong = _differences(turn.expect, result)
        rows.append(
            {
                "session": session.id,
                "turn": number,
                "language": session.language,
                "does": turn.does,
                "message": turn.message,
                "status": result.status,
                "tool": result.tool,
                "error": result.error.code if result.error is not None else None,
                "right": None if not turn.expect else not wrong,
                "wrong": "; ".join(wrong),
                "request_id": result.request_id,
                "model_calls": result.meta.model_calls,
                "tool_calls": result.meta.tool_calls,
                "cost_usd": result.meta.cost_usd,
                "duration_ms": result.meta.duration_ms,
            }
        )
    return rows


def _differences(expect: Mapping[str, Any], result: Any) -> list[str]:
    """What came otherwise than expected, one line each."""
    decision = result.decision
    got: dict[str, Any] = {
        "status": result.status,
        "tool": result.tool,
        "missing": sorted(result.missing),
        "error": result.error.code if result.error is not None else None,
        "mode": decision.mode if decision is not None else None,
    }
    wrong = []
    for name, value in expect.items():
        if name == "arguments":
            given = result.arguments
            bad = {k: v for k, v in value.items() if k not in given or not same_value(given[k], v)}
            wrong += [f"{k}: {v!r} expected, {given.get(k)!r} came" for k, v in bad.items()]
        elif name == "reply_has":
            if value.casefold() not in result.reply.casefold():
                wrong.append(f"reply without {value!r}")
        elif got[name] != (sorted(value) if name == "missing" else value):
            wrong.append(f"{name}: {value!r} expected, {got[name]!r} came")
    return wrong


@dataclass(frozen=True)
class SessionReport:
    """How a runtime did in whole sessions."""

    sessions: Sequence[SessionCase]
    rows: Sequence[Mapping[str, Any]]
    """One record a turn, in order."""

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row a turn: session, turn, language, message, status, tool, right, wrong, calls, times."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def summary(self) -> pd.DataFrame:
        """Return turn_accuracy, session_success (every judged turn right) and error_rate with intervals.

        Turns of one session are no independent evidence: intervals resample sessions.
        """
        import numpy as np
        import pandas as pd

        from mono_router.lab.intervals import mean_interval

        judged = [row for row in self.rows if row["right"] is not None]
        whole: dict[str, bool] = {}
        for row in judged:
            whole[row["session"]] = whole.get(row["session"], True) and bool(row["right"])
        columns = {
            "turn_accuracy": [(row["right"], row["session"]) for row in judged],
            "session_success": [(right, session) for session, right in whole.items()],
            "error_rate": [(row["status"] == "error", row["session"]) for row in self.rows],
        }
        found = {}
        for name, pairs in columns.items():
            values = np.array([float(value) for value, _ in pairs], dtype=np.float64)
            groups = np.array([group for _, group in pairs], dtype=object)
            estimate = mean_interval(values, groups)
            found[name] = {
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "n": estimate.n,
                "n_groups": estimate.n_groups,
            }
        return pd.DataFrame.from_dict(found, orient="index")

    def wrong(self) -> list[str]:
        """Return the turns that went otherwise than expected, one line each."""
        return [
            f"{row['session']} turn {row['turn']} {row['message'] or row['does']!r}: {row['wrong']}"
            for row in self.rows
            if row["right"] is False
        ]


def execute_cases(runtime: Invoking, report: Report) -> dict[str, Outcome]:
    """Return what came of running the calls that a report decided on: ``executions`` of a diagnosis.

    Each decided call runs by itself, with the very arguments of the decision, in a session of its own; a
    misroute can so be told from a broken tool. Decisions without a call, or that ask first, run nothing.
    """
    found = {}
    for case in report.cases:
        decision = report.verdict(case.id).decision
        if decision is None or decision.outcome != "call":
            continue
        error = None
        status = "completed"
        for call in decision.calls:
            result = runtime.invoke(call.tool, call.arguments)
            status = result.status
            if result.error is not None:
                error = result.error.code
                break
        found[case.id] = Outcome(status=status, error=error)
    return found
