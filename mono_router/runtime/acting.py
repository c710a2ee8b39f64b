"""What is done with chosen calls: asked for, confirmed, run in their mode; and the result that this gives.

A :class:`Turn` is one message, invocation or confirmation of one session, worked on under the session's
lock. It gathers what is spent, lets calls wait, takes what ran into the memory, and tells the log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mono_router.catalog import Catalog
from mono_router.records import (
    Call,
    Decision,
    Entity,
    Log,
    Mode,
    Model,
    ModelReply,
    PastCall,
    Query,
    Tool,
    Trace,
)
from mono_router.router import Router
from mono_router.runtime import mentions
from mono_router.runtime.config import RuntimeConfig
from mono_router.runtime.execution import Ran, Runs
from mono_router.runtime.phrases import argument_name, argument_names, language_of, say, tool_title
from mono_router.runtime.results import Fields, Result, ResultError, Status, Tally, routing_debug
from mono_router.runtime.sessions import Session, Waiting
from mono_router.runtime.showing import Hidden, reply_text
from mono_router.schema import missing_arguments

MAX_PREFETCH = 3


class Responder(Protocol):
    """Replies where no tool is right."""

    def reply(
        self, query: Query, *, facts_to_show: Mapping[str, Any] = ..., language: str | None = ...
    ) -> ModelReply: ...


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a runtime is made of."""

    config: RuntimeConfig
    catalog: Catalog
    router: Router
    runs: Runs
    hidden: Hidden
    now: Callable[[], str | None]
    clock: Callable[[], float]
    """Seconds, of the sessions too."""
    responder: Responder | None = None
    """None = conversation is off."""
    reasoning: Model | None = None
    log: Log | None = None
    debug: bool = False
    closing: tuple[Callable[[], object], ...] = ()
    """What is closed with the runtime."""


class Turn:
    """One message, invocation or confirmation."""

    def __init__(self, parts: Parts, session: Session, message: str = "", *, request_id: str = "") -> None:
        self.parts = parts
        self.session = session
        self.message = message
        self.request_id = request_id or uuid.uuid4().hex
        self.logged = False
        """Whether the log has a decision under this request id."""
        self.tally = Tally()
        self.trace: Trace | None = None
        self.entities: tuple[Entity, ...] = ()
        """What the turn mentioned so far."""
        self.call: PastCall | None = None
        """The call that the memory keeps of this turn."""
        self.now = parts.now()
        if message:
            session.language = language_of(message, session.language)
            self.entities = mentions.from_message(message, self.now)
        self._started = time.perf_counter()

    # --- results ----------------------------------------------------------------------------------

    def result(self, status: Status, reply: str, **fields: Any) -> Result:
        """Return the turn's result and end it: reminder, memory, log."""
        reply = reply.strip()
        if status in ("completed", "error"):
            reply = "\n".join(part for part in (reply, self.reminder()) if part)
        self.session.end_turn(self.message, reply, entities=self.entities, call=self.call)
        debug = None
        if self.parts.debug:
            routing = routing_debug(self.trace) if self.trace is not None else {}
            debug = Fields({"routing": routing, "steps": self.tally.steps})
        error = fields.get("error")
        self._tell_outcome(status, error)
        return Result(
            status=status,
            request_id=self.request_id,
            session_id=self.session.id,
            reply=reply,
            decision=self.trace.decision if self.trace is not None else None,
            meta=self.tally.meta((time.perf_counter() - self._started) * 1e3),
            debug=debug,
            **fields,
        )

    def failed(self, code: str, message: str, *, reply: str = "", **fields: Any) -> Result:
        """Return an error."""
        error = ResultError.of(code, self.parts.hidden.text(message))
        return self.result("error", reply, error=error, **fields)

    def _tell_outcome(self, status: Status, error: ResultError | None) -> None:
        """Tell the log what came of a decision that it has, if it takes this; it is never in the way."""
        tell = getattr(self.parts.log, "outcome", None) if self.logged else None
        if tell is not None:
            with contextlib.suppress(Exception):
                tell(self.request_id, status=status, error=None if error is None else error.code)

    def say(self, key: str, **values: str) -> str:
        """Return one of the runtime's own sentences in the language of the session."""
        return say(key, self.session.language, **values)

    def reminder(self) -> str:
        """Return what still waits, so that a detour does not lose it."""
        waiting = self.session.top
        if waiting is None:
            return ""
        if waiting.kind == "selection":
            return self.say("still_select")
        tool = self.parts.catalog[waiting.tool]
        if waiting.kind == "confirmation":
            return self.say("still_confirm", title=self.title(tool))
        return self.say("back", title=self.title(tool), names=self._asked_for(tool, waiting.arguments))

    def title(self, tool: Tool) -> str:
        """Return how a tool is named in the language of the session."""
        return tool_title(tool, self.session.language)

    def _asked_for(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        open_ = [name for name in tool.required if name not in arguments]
        return argument_names(tool, open_, self.session.language)

    def _values(self, tool: Tool, shown: Mapping[str, Any]) -> str:
        """Names and values in brackets, or nothing."""
        language = self.session.language
        pairs = [f"{argument_name(tool, name, language)}: {value}" for name, value in shown.items()]
        return f" ({('، ' if language == 'ar' else ', ').join(pairs)})" if pairs else ""

    # --- waiting ----------------------------------------------------------------------------------

    def wait(self, waiting: Waiting) -> None:
        """Let a call wait from now on."""
        self.session.push(dataclasses.replace(waiting, since=self.parts.clock()))

    def ask(self, waiting: Waiting) -> Result:
        """Ask for what a call misses."""
        tool = self.parts.catalog[waiting.tool]
        missing = missing_arguments(tool, waiting.arguments)
        self.wait(dataclasses.replace(waiting, kind="input", missing=missing))
        self._mention(tool, waiting.arguments)
        names = self._asked_for(tool, waiting.arguments)
        reply = self.say("missing", title=self.title(tool), names=names)
        return self.result(
            "needs_input", reply, tool=tool.id, arguments=dict(waiting.arguments), missing=missing
        )

    def ask_confirmation(self, waiting: Waiting) -> Result:
        """Ask the host to confirm a call."""
        tool = self.parts.catalog[waiting.tool]
        self.wait(dataclasses.replace(waiting, kind="confirmation"))
        self._mention(tool, waiting.arguments)
        shown = self.parts.hidden.of(dict(waiting.arguments), chars=200)
        reply = self.say("confirm", title=self.title(tool), values=self._values(tool, shown))
        return self.result("needs_confirmation", reply, tool=tool.id, arguments=dict(waiting.arguments))

    def _mention(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        self.entities = (*self.entities, *mentions.from_arguments(tool, arguments))

    # --- running ----------------------------------------------------------------------------------

    def run(self, call: Call) -> Ran:
        """Run one checked call; what it gave goes into the memory."""
        return self._took(self.parts.runs.run(call, **self._context()))

    def _context(self) -> dict[str, Any]:
        return {
            "session_id": self.session.id,
            "request_id": self.request_id,
            "facts": self.session.memory.facts,
        }

    def _took(self, ran: Ran) -> Ran:
        self.tally.add_tool(ran.duration_ms, ran.retries)
        tool = self.parts.catalog[ran.call.tool]
        self._mention(tool, ran.call.arguments)
        self.call = PastCall(tool=tool.id, arguments=dict(ran.call.arguments))
        if ran.error is None:
            hidden = {*self.session.memory.facts, *tool.system_arguments}
            self.session.find(mentions.from_result(ran.value, hidden=hidden))
        return ran

    def hidden(self) -> Hidden:
        """What no prompt of this session may show: the host's facts by name and by value, and secrets."""
        memory = self.session.memory
        secrets = [entity.value for entity in memory.entities if entity.secret]
        return self.parts.hidden.joined(names=memory.facts, values=[*_leaves(memory.facts), *secrets])

    def unsaid(self) -> Hidden:
        """What no reply shows; a fact's value may be the user's own city, so only its name is hidden."""
        memory = self.session.memory
        secrets = [entity.value for entity in memory.entities if entity.secret]
        return self.parts.hidden.joined(names=memory.facts, values=secrets)

    def reply_of(self, ran: Ran) -> str:
        """Return what a call gave as a reply."""
        tool = self.parts.catalog[ran.call.tool]
        written = tool.effects == "write" and isinstance(ran.value, Mapping)
        if written and ran.value.get("changed") == 0:
            return self.say("unchanged", title=self.title(tool))
        row = _row(ran) if written else None
        if row:
            values = self._values(tool, self.unsaid().of(row, chars=200))
            return self.say("done_with", title=self.title(tool), values=values)
        text = reply_text(ran.value, self.unsaid())
        if text.strip():
            return text
        key = "done" if tool.effects == "write" or ran.value is None else "nothing"
        return self.say(key, title=self.title(tool))


def needs_confirmation(tool: Tool) -> bool:
    """Return whether a call of the tool waits for the host's confirmation."""
    return tool.effects == "write" and tool.confirm


def _row(ran: Ran) -> Mapping[str, Any] | None:
    """What a call wrote, where it gave the row and no text of its own."""
    sent = [str(value) for value in ran.call.arguments.values()]
    for name in ("reply", "message", "summary"):
        # A column that repeats what was sent ("message": "happy birthday") is no answer.
        if isinstance(ran.value.get(name), str) and ran.value[name] not in sent:
            return None
    row = {k: v for k, v in ran.value.items() if k != "changed" and v is not None}
    return None if len(row) > 10 or any(isinstance(v, (Mapping, list)) for v in row.values()) else row


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def waiting_of(
    decision: Decision, *, request_id: str, message: str, arguments: Mapping[str, Any] | None = None
) -> Waiting:
    """Return a decision's calls as something that can wait."""
    first = decision.calls[0]
    mode: Mode = decision.mode or "tool"
    return Waiting(
        kind="input",
        request_id=request_id,
        message=message,
        tool=first.tool,
        arguments=dict(first.arguments if arguments is None else arguments),
        mode=mode,
        others=decision.calls[1:],
        skills=decision.skills,
        decision=decision,
    )
