"""What a chat or a call gives back: one record, whatever happened.

Fields answer by name and by key (``result.meta.model_calls``, ``result.meta["model_calls"]``), so that a
record and its JSON read the same. A :class:`Tally` gathers what a turn spent while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from mono_router.records import Decision, Trace, Usage, canonical_json, plain
from mono_router.runtime.calls import CATEGORIES

Status = Literal["completed", "needs_input", "needs_selection", "needs_confirmation", "error"]
STATUSES: tuple[Status, ...] = (
    "completed",
    "needs_input",
    "needs_selection",
    "needs_confirmation",
    "error",
)


class _Keyed:
    """Fields by key as well as by name."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        if name not in {item.name for item in fields(self)}:  # type: ignore[arg-type]
            raise KeyError(name)
        return getattr(self, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultError(_Keyed):
    """Why there is no answer.

    >>> error = ResultError.of("TOOL_TIMEOUT", "weather.now took over 2.0 s")
    >>> error.category, error["code"]
    ('network', 'TOOL_TIMEOUT')
    """

    code: str
    """One of the codes of :data:`mono_router.runtime.calls.CATEGORIES`."""
    category: str
    """Kind of the fault: config, model, routing, input, auth, network, response, ..."""
    message: str

    @classmethod
    def of(cls, code: str, message: str) -> ResultError:
        """Return the error of a code, with its category."""
        return cls(code=code, category=CATEGORIES[code], message=message)


@dataclass(frozen=True, kw_only=True, slots=True)
class Meta(_Keyed):
    """What a turn spent."""

    model_calls: int = 0
    """All of them: recall, selection, conversation, and the reasoning model's."""
    model_recall_calls: int = 0
    tool_selection_calls: int = 0
    conversation_calls: int = 0
    tool_calls: int = 0
    """Tools that ran, dependencies left out."""
    input_tokens: int = 0
    """Read from or written to a prompt cache included."""
    output_tokens: int = 0
    cost_usd: float = 0.0
    retry_count: int = 0
    """Further tries of models and tools."""
    duration_ms: float = 0.0
    """Of the whole turn; the parts below do not add up to it."""
    lexical_ms: float = 0.0
    recall_ms: float = 0.0
    selection_ms: float = 0.0
    conversation_ms: float = 0.0
    tool_ms: float = 0.0
    """Summed over the calls, side by side or not."""


class Fields(Mapping[str, Any]):
    """A mapping whose keys are names too.

    >>> Fields({"routing": {"outcome": "call"}}).routing.outcome
    'call'
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {k: Fields(v) if isinstance(v, dict) else v for k, v in values.items()}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Fields({self._values!r})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What came of a message, an invocation or a confirmation.

    >>> Result(status="completed", request_id="r1", session_id="s1", reply="Done.").ok
    True
    """

    status: Status
    request_id: str
    """What :meth:`AgentRuntime.feedback` takes; the journal's id of the decision, where one is kept."""
    session_id: str
    reply: str = ""
    """Text for the user, in the language of the message."""
    tool: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    data: Any = None
    """What the tool gave; of think and agent, a list of ``{tool, arguments, data | error}``."""
    missing: tuple[str, ...] = ()
    """JSON pointers of the arguments that are waited for."""
    decision: Decision | None = None
    """The router's decision; None where nothing was routed."""
    error: ResultError | None = None
    meta: Meta = field(default_factory=Meta)
    debug: Fields | None = None
    """``debug.routing`` and ``debug.steps``; None unless the runtime was made with debug."""

    @property
    def ok(self) -> bool:
        """Whether this is no error."""
        return self.status != "error"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        record: dict[str, Any] = plain(self)
        return record

    def to_json(self) -> str:
        """Return canonical JSON; what a tool gave that is no JSON is written as text."""
        try:
            return canonical_json(self)
        except (TypeError, ValueError):
            import json

            return json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=True, default=str)

    def _repr_html_(self) -> str:
        from mono_router.html import result_html

        return result_html(self)


class Tally:
    """Adds up what a turn spends; tools that run side by side add to one."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.counts: dict[str, float] = {}
        self.steps: list[dict[str, Any]] = []
        """What think and agent did, one record a step."""

    def add(self, name: str, amount: float) -> None:
        """Add to one field of :class:`Meta`."""
        self.counts[name] = self.counts.get(name, 0) + amount

    def add_trace(self, trace: Trace) -> None:
        """Add a route: its model calls by stage, and its times."""
        recalled = int(trace.recall.model_called)
        self.usage += trace.usage
        self.add("model_recall_calls", recalled)
        self.add("tool_selection_calls", max(0, trace.usage.model_calls - recalled))
        for name in ("lexical_ms", "recall_ms", "selection_ms"):
            self.add(name, trace.timings.get(name, 0.0))

    def add_tool(self, duration_ms: float, retries: int) -> None:
        """Add a tool that ran."""
        self.add("tool_calls", 1)
        self.add("tool_ms", duration_ms)
        self.add("retry_count", retries)

    def meta(self, duration_ms: float) -> Meta:
        """Return the sums."""
        usage, counts = self.usage, dict(self.counts)
        whole = {name: int(value) for name, value in counts.items() if not name.endswith("_ms")}
        times = {name: round(value, 3) for name, value in counts.items() if name.endswith("_ms")}
        whole["retry_count"] = whole.get("retry_count", 0) + usage.retries
        filled: dict[str, Any] = {**whole, **times}
        return Meta(
            **filled,
            model_calls=usage.model_calls,
            input_tokens=usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
            duration_ms=round(duration_ms, 3),
        )


def routing_debug(trace: Trace) -> dict[str, Any]:
    """Return how a message was routed: what stands under ``debug.routing``."""
    decision = trace.decision
    refused = dict.fromkeys((*trace.selection.rejections, *decision.rejections))
    return {
        "lexical": {
            "candidates": [{"tool": hit.tool, "score": hit.score} for hit in trace.lexical.hits],
            "confident": trace.lexical.confident,
            "duration_ms": trace.timings.get("lexical_ms", 0.0),
        },
        "model_recall": {
            "used": trace.recall.used,
            "skipped_because": trace.recall.skipped_because,
            "candidates": [hit.tool for hit in trace.recall.hits],
        },
        "candidates": [
            {"tool": c.tool, "score": c.score, "sources": [hit.source for hit in c.hits]}
            for c in trace.candidates
        ],
        "tool_selection": {
            "selected": list(decision.tools) if decision.outcome in ("call", "ask") else [],
            "rejected": [plain(rejection) for rejection in refused],
        },
        "outcome": decision.outcome,
    }
