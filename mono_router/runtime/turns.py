"""One message of a session: what it does to what waits, else where it is routed.

A message is tried against the call that waits first: it may drop it, choose, or answer what was asked. A
message that is plainly about another tool is a detour: it is served, and the waiting call stays.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from mono_router.extraction import extract
from mono_router.records import Call, Decision, ModelError, Query, Tool, Trace
from mono_router.runtime.acting import waiting_of
from mono_router.runtime.filling import (
    SAYING,
    answered,
    from_found,
    is_bare,
    is_question,
    visible_memory,
    without_pronouns,
)
from mono_router.runtime.performing import ActingTurn
from mono_router.runtime.phrases import (
    chosen_option,
    is_agreement,
    is_cancel,
    is_refusal,
    is_small_talk,
    tool_title,
)
from mono_router.runtime.results import Result
from mono_router.runtime.sessions import Waiting
from mono_router.schema import check_arguments, missing_arguments
from mono_router.slots import plan_of
from mono_router.value_words import stems

DETOUR = 0.6
"""Confidence at which a message is about another tool than the one that waits; a guess."""
DETOUR_TEXT = 0.85
"""The same while a free text is waited for, which may be about anything; a guess."""
LITERAL = 0.9
"""Lexical score of a message that is a trigger phrase of a tool."""
ANSWER = "ANSWER"
"""Reason of a decision that a waiting call was answered; such a decision is not the router's alone."""
TALK = "TALK"
"""Reason of a decision that a message only greets, agrees or cancels; such a decision is not the router's."""
_REJECTED = {
    "MALFORMED_ANSWER": "MODEL_RESPONSE_MALFORMED",
    "TOOL_OUTSIDE_CANDIDATES": "MODEL_TOOL_SELECTION_FAILED",
    "TOO_MANY_CALLS": "MODEL_TOOL_SELECTION_FAILED",
    "MODE_UNSUPPORTED": "MODEL_TOOL_SELECTION_FAILED",
}
"""Code of a rejection to that of an error; what is wrong with arguments is MODEL_SCHEMA_VIOLATION."""


class RouteFailed(Exception):
    """A message could not be routed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ChatTurn(ActingTurn):
    """A message."""

    def chat(self) -> Result:
        """Return what came of the message."""
        try:
            waiting = self.session.top
            if waiting is not None:
                result = self._settled(waiting)
                if result is not None:
                    return result
            if waiting is not None and waiting.kind == "input":
                return self._with_pending(waiting)
            return self._decided(self._recorded(self._alone()))
        except RouteFailed as failure:
            return self.failed(failure.code, failure.message)

    # --- what waits -------------------------------------------------------------------------------

    def _settled(self, waiting: Waiting) -> Result | None:
        """The result of a message that only drops, chooses or agrees; None = it says something else."""
        message = self.message
        refuses = is_refusal(message) and waiting.kind != "input"
        if is_cancel(message) or refuses:
            return self.cancel(waiting)
        if waiting.kind == "confirmation" and is_agreement(message):
            return self.ask_confirmation(waiting)
        if waiting.kind == "selection":
            options = [self.parts.catalog[name] for name in waiting.options]
            tool = chosen_option(message, options)
            if tool is not None:
                self.session.drop(waiting)
                return self._chosen(waiting, tool)
        if waiting.kind == "input" and is_agreement(message) and not self._answers(waiting):
            return self.ask(waiting)
        return None

    def cancel(self, waiting: Waiting) -> Result:
        """Drop a call that waits."""
        self.session.drop(waiting)
        tools = [waiting.tool] if waiting.tool else list(waiting.options)
        titles = " / ".join(self.title(self.parts.catalog[name]) for name in tools)
        return self.result("completed", self.say("cancelled", title=titles), tool=waiting.tool or None)

    def _chosen(self, waiting: Waiting, tool: Tool) -> Result:
        """Run the tool that was chosen for the message that was ambiguous."""
        memory = visible_memory(self.session.memory, waiting.message, None)
        query = Query(message=waiting.message, memory=memory, now=self.now)
        trace = self._routed(query, within=(tool.id,))
        decision = trace.decision
        if decision.outcome not in ("call", "ask") or decision.tool != tool.id:
            call = Call(tool=tool.id, arguments=extract(query, tool).arguments)
            decision = Decision(
                outcome="call", reason="CHOSEN", skills=(tool.skill,), mode=tool.modes[0], calls=(call,)
            )
        self._recorded(dataclasses.replace(trace, decision=decision))
        return self._called(decision, waiting.message)

    def _answers(self, waiting: Waiting) -> dict[str, Any]:
        tool = self.parts.catalog[waiting.tool]
        memory = self.session.memory
        return answered(tool, waiting.arguments, self.message, memory=memory, now=self.now)

    def _with_pending(self, waiting: Waiting) -> Result:
        """Serve a message while a call misses arguments."""
        new = self._answers(waiting)
        aside = is_small_talk(self.message) or (is_refusal(self.message) and not new)
        if aside:
            return self._decided(self._recorded(self._alone()))
        if self.parts.router.selector_scores:
            # What the message is about by itself: a waiting call is no reason to miss another request.
            alone = self._alone()
            if alone.decision.tool != waiting.tool and (not new or self._is_detour(alone, waiting)):
                if alone.decision.outcome == "no_tool" and is_bare(self.message, self.now):
                    self._recorded(alone)
                    return self.ask(dataclasses.replace(waiting, request_id=self.request_id))
                return self._decided(self._recorded(alone))
            if self._is_repeated(alone.decision, waiting):
                # What the request says by itself counts, not its words as an answer.
                tool = self.parts.catalog[waiting.tool]
                new = without_pronouns(tool, alone.decision.arguments, self.session.memory)
        trace = self._routed(self._query(waiting))
        decision = trace.decision
        given: Mapping[str, Any] = {}
        if not self.parts.router.selector_scores:
            # A model reads the message with the waiting call before it.
            if decision.tool != waiting.tool and not (new and decision.outcome == "no_tool"):
                return self._decided(self._recorded(trace))
            given = decision.arguments if decision.tool == waiting.tool else {}
        elif decision.tool == waiting.tool and not new:
            tool = self.parts.catalog[waiting.tool]
            given = without_pronouns(tool, decision.arguments, self.session.memory)
        return self._filled(waiting, trace, {**new, **given})

    def _is_detour(self, trace: Trace, waiting: Waiting) -> bool:
        """Whether a message is confidently about another tool than the one that waits."""
        decision = trace.decision
        if decision.outcome not in ("call", "ask", "ambiguous"):
            return False
        if trace.lexical.best >= LITERAL:
            return True
        return decision.outcome != "ambiguous" and self._is_sentence(trace, waiting)

    def _is_repeated(self, decision: Decision, waiting: Waiting) -> bool:
        """Whether a message makes the waiting request again, in full."""
        return (
            decision.tool == waiting.tool
            and bool(decision.arguments)
            and decision.confidence >= DETOUR
            and not is_bare(self.message, self.now)
        )

    def _is_sentence(self, trace: Trace, waiting: Waiting) -> bool:
        """Whether a message is more than a value, and confidently about the tool it was routed to."""
        if is_bare(self.message, self.now) and not self._opens_request(trace):
            return False
        tool = self.parts.catalog[waiting.tool]
        open_ = [name for name in tool.required if name not in waiting.arguments]
        slots = {slot.name: slot for slot in plan_of(tool).slots}
        slot = slots.get(open_[0]) if len(open_) == 1 else None
        free = slot is not None and slot.kind in ("text", "string") and not SAYING.isdisjoint(slot.words)
        bar = DETOUR_TEXT if free and not is_question(self.message) else DETOUR
        return trace.decision.confidence >= bar

    def _opens_request(self, trace: Trace) -> bool:
        """Whether a message begins as requests to the tool do that it was routed to: "transfer 20 to Ana"."""
        tool = self.parts.catalog[trace.decision.calls[0].tool] if trace.decision.calls else None
        first = stems(self.message[:100])[:1]
        if tool is None or not first or trace.decision.confidence < DETOUR_TEXT:
            return False
        return first[0] in {stems(said)[0] for said in (tool.title, *tool.hints) if stems(said)}

    def _filled(self, waiting: Waiting, trace: Trace, new: Mapping[str, Any]) -> Result:
        """Take an answer into the call that waits, and run it once it is whole."""
        tool = self.parts.catalog[waiting.tool]
        merged = {**waiting.arguments, **new}
        refused = {rejection.name for rejection in check_arguments(tool, merged)}
        merged = {name: value for name, value in merged.items() if name not in refused}
        missing = missing_arguments(tool, merged)
        # What was done with the message is the answer's call, whatever it looks like by itself.
        decision = dataclasses.replace(
            trace.decision,
            outcome="ask" if missing else "call",
            reason=ANSWER,
            skills=waiting.skills or (tool.skill,),
            mode=waiting.mode,
            calls=(Call(tool=tool.id, arguments=merged), *waiting.others),
            missing=missing,
            rejections=(),
        )
        self._recorded(dataclasses.replace(trace, decision=decision))
        self.session.drop(waiting)
        return self.perform(
            dataclasses.replace(
                waiting, arguments=merged, request_id=self.request_id, message=self._whole(waiting)
            )
        )

    def _whole(self, waiting: Waiting) -> str:
        """The request with its answers: what an agent or a later choice works from."""
        return f"{waiting.message}\n{self.message}"[-2_000:]

    # --- routing ----------------------------------------------------------------------------------

    def _query(self, waiting: Waiting | None = None) -> Query:
        pending = self.session.pending if waiting is not None else None
        memory = visible_memory(self.session.memory, self.message, pending)
        return Query(message=self.message, memory=memory, now=self.now)

    def _alone(self) -> Trace:
        """The message routed by itself; what only greets, thanks, agrees or cancels asks for no tool."""
        trace = self._routed(self._query())
        said = is_small_talk(self.message) or self._only_answers()
        if not said or not self.parts.router.selector_scores or trace.lexical.best >= LITERAL:
            return trace
        decision = dataclasses.replace(
            trace.decision, outcome="no_tool", reason=TALK, skills=(), mode=None, calls=(), missing=()
        )
        return dataclasses.replace(trace, decision=decision)

    def _only_answers(self) -> bool:
        """Whether a message only agrees, refuses or cancels, whatever was asked."""
        return is_agreement(self.message) or is_refusal(self.message) or is_cancel(self.message)

    def _routed(self, query: Query, within: tuple[str, ...] | None = None) -> Trace:
        try:
            trace = self.parts.router.trace(query, within=within)
        except ModelError as error:
            raise RouteFailed(error.code, error.message) from None
        except Exception as error:
            code = "MODEL_PROVIDER_ERROR" if self.parts.router.model is not None else "INPUT_INVALID"
            raise RouteFailed(code, f"the message could not be routed ({type(error).__name__})") from None
        self.tally.add_trace(trace)
        return trace

    def _recorded(self, trace: Trace) -> Trace:
        """Take a trace as that of this turn, and tell the log."""
        self.trace = trace
        log = self.parts.log
        if log is not None:
            try:
                recorded = log.record(trace, session_id=self.session.id)
            except Exception:
                recorded = None
            if isinstance(recorded, str) and recorded:
                self.request_id, self.logged = recorded, True
        return trace

    def _decided(self, trace: Trace) -> Result:
        """Do what the router decided."""
        decision = trace.decision
        if decision.outcome in ("call", "ask"):
            return self._called(decision, self.message)
        if decision.outcome == "ambiguous":
            return self._ambiguous(decision)
        if decision.outcome == "rejected":
            first = decision.rejections[0]
            code = _REJECTED.get(first.code, "MODEL_SCHEMA_VIOLATION")
            return self.failed(code, f"the answer was refused: {first.code} {first.name}"[:300])
        if decision.outcome == "error":
            return self.failed(decision.reason, f"the routing model failed ({decision.reason})")
        return self._no_tool()

    def _called(self, decision: Decision, message: str) -> Result:
        """Run the calls that were chosen, with the gaps of the first filled from memory."""
        tool = self.parts.catalog[decision.calls[0].tool]
        arguments = dict(decision.calls[0].arguments)
        if self.parts.router.selector_scores:
            arguments = without_pronouns(tool, arguments, self.session.memory)
        arguments = from_found(tool, arguments, message, found=self.session.found, now=self.now)
        # A new request for the tool that waits takes its place.
        for old in [w for w in self.session.waiting if w.tool == tool.id]:
            self.session.drop(old)
        return self.perform(
            waiting_of(decision, request_id=self.request_id, message=message, arguments=arguments)
        )

    def _ambiguous(self, decision: Decision) -> Result:
        options = [self.parts.catalog[name] for name in decision.tools]
        self.wait(
            Waiting(
                kind="selection",
                request_id=self.request_id,
                message=self.message,
                options=decision.tools,
                decision=decision,
            )
        )
        shown = [
            {"number": i, "tool": tool.id, "title": tool_title(tool), "description": tool.description}
            for i, tool in enumerate(options, 1)
        ]
        lines = [f"{i}. {self.title(tool)}" for i, tool in enumerate(options, 1)]
        return self.result("needs_selection", "\n".join([self.say("select"), *lines]), data=shown)

    def _no_tool(self) -> Result:
        responder = self.parts.responder
        if responder is None:
            text = "no tool fits this message, and conversation is switched off"
            return self.failed("ROUTING_NO_MATCH", text, reply=self.say("no_match"))
        unmodelled = self.parts.reasoning is None and self.parts.router.model is None
        if unmodelled and self.session.top is None and self._only_answers():
            key = "nothing_waits" if is_cancel(self.message) else "nothing_asked"
            return self.result("completed", self.say(key))
        started = time.perf_counter()
        try:
            waits = self.reminder()
            query = dataclasses.replace(self._query(), memory=self.session.memory)
            shown = {"waiting": waits} if waits else {}
            answer = responder.reply(query, facts_to_show=shown, language=self.session.language)
        except ModelError as error:
            self.tally.usage += error.usage
            return self.failed(error.code, error.message)
        except Exception as error:
            text = f"the conversation could not be continued ({type(error).__name__})"
            return self.failed("MODEL_PROVIDER_ERROR", text)
        self.tally.add("conversation_ms", (time.perf_counter() - started) * 1e3)
        self.tally.add("conversation_calls", answer.usage.model_calls)
        self.tally.usage += answer.usage
        return self.result("completed", answer.text)
