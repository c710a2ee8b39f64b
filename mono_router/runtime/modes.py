"""Think and agent: what the reasoning model makes of results, and of tools.

Think prefetches one to three read-only calls side by side and asks for one answer over their bounded
results. Agent lets the model call the tools of the chosen skills: every call passes the checks of stage 4, a
write that wants a confirmation stops the loop, and limits of steps, calls, time and tokens end it with what
it has. Results go into prompts as data inside tags, without credentials and session facts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mono_router.catalog import wire_name
from mono_router.prompting import load_prompt, query_text, tagged
from mono_router.records import (
    Call,
    Model,
    ModelError,
    ModelReply,
    ModelRequest,
    ModelTool,
    Query,
    Tool,
    ToolCall,
)
from mono_router.runtime.config import Limits
from mono_router.runtime.execution import Ran
from mono_router.runtime.results import Tally
from mono_router.runtime.showing import Hidden, bounded
from mono_router.schema import user_schema
from mono_router.selection import Choice, check_answer

RESULT_CHARS = 24_000
"""Characters of results in one prompt of think; split evenly over the calls."""
STEP_CHARS = 8_000
"""Characters of one result in an agent's loop."""
ANSWER_TOKENS = 1_500
"""Tokens of one answer, thinking apart."""


# --- think --------------------------------------------------------------------------------------------


def think_request(
    query: Query, ran: Sequence[Ran], *, hidden: Hidden, earlier: Sequence[str] = ()
) -> ModelRequest:
    """Return the request for one answer over the results of prefetched calls."""
    prompt = load_prompt("think")
    share = RESULT_CHARS // max(1, len(ran))
    results = [bounded(one.record, hidden, most_chars=share) for one in ran]
    parts = [tagged("earlier_messages", list(earlier))] if earlier else []
    parts += [tagged("results", results), query_text(query)]
    return ModelRequest(
        purpose="think",
        system=prompt.text,
        messages=({"role": "user", "content": "\n".join(parts)},),
        max_tokens=ANSWER_TOKENS,
        prompt_hash=prompt.hash,
    )


def think(model: Model, request: ModelRequest, tally: Tally) -> str:
    """Return the reasoning model's answer.

    Raises
    ------
    ModelError
        If the model fails or answers nothing.
    """
    reply = asked(model, request, tally)
    tally.steps.append({"kind": "answer", "tokens": reply.usage.input_tokens + reply.usage.output_tokens})
    if not reply.text.strip():
        raise ModelError("MODEL_RESPONSE_MALFORMED", "the reasoning model answered nothing")
    return reply.text.strip()


def asked(model: Model, request: ModelRequest, tally: Tally) -> ModelReply:
    """Return a model's reply, its use counted; whatever else a model raises is a provider's error.

    Raises
    ------
    ModelError
        If the model fails.
    """
    try:
        reply = model.complete(request)
    except ModelError as error:
        tally.usage += error.usage
        raise
    except Exception as error:
        raise ModelError("MODEL_PROVIDER_ERROR", f"the model raised {type(error).__name__}") from None
    tally.usage += reply.usage
    return reply


# --- agent --------------------------------------------------------------------------------------------


@dataclass
class AgentState:
    """Where an agent's loop stands; kept while a call waits for its confirmation."""

    tools: tuple[Tool, ...]
    """What it may call: the tools of the chosen skills."""
    messages: list[Mapping[str, Any]]
    ran: list[Ran] = field(default_factory=list)
    n_steps: int = 0
    n_tokens: int = 0
    text: str = ""
    """What the model said last."""
    results: list[Mapping[str, Any]] = field(default_factory=list)
    """Results of the turn that is being worked on."""
    left: list[tuple[str, ToolCall]] = field(default_factory=list)
    """Calls of that turn which did not run yet, each with its id."""


@dataclass(frozen=True, kw_only=True)
class AgentEnd:
    """Why a loop stopped."""

    text: str = ""
    ask: Call | None = None
    """A call that waits for the user's confirmation."""
    stopped: str | None = None
    """The limit that was reached."""
    error: ModelError | None = None


def agent_state(query: Query, tools: Sequence[Tool], earlier: Sequence[str] = ()) -> AgentState:
    """Return a loop that has not begun."""
    parts = [tagged("earlier_messages", list(earlier))] if earlier else []
    content = "\n".join([*parts, query_text(query)])
    return AgentState(tools=tuple(tools), messages=[{"role": "user", "content": content}])


def agent_tool(tool: Tool) -> ModelTool:
    """Return a tool as an agent may see it: no system argument, no way to run it."""
    title = f"{tool.title}. " if tool.title and tool.title != tool.description else ""
    # At the root of a tool's schema the API takes no alternatives; the checks hold a call to them.
    schema = {k: v for k, v in user_schema(tool).items() if k not in ("anyOf", "oneOf", "allOf")}
    return ModelTool(name=wire_name(tool.id), description=title + tool.description, schema=schema)


class Agent:
    """Runs loops.

    Parameters
    ----------
    model
        The reasoning model.
    run
        Runs one checked call.
    needs_confirmation
        Whether a tool's call stops the loop.
    limits, hidden, tally
        Bounds, what no prompt may show, and where use and steps are counted.
    clock
        Seconds; stands in for the time in tests.
    """

    def __init__(
        self,
        model: Model,
        *,
        run: Callable[[Call], Ran],
        needs_confirmation: Callable[[Tool], bool],
        limits: Limits,
        hidden: Hidden,
        tally: Tally,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model = model
        self.run = run
        self.needs_confirmation = needs_confirmation
        self.limits = limits
        self.hidden = hidden
        self.tally = tally
        self.clock = clock

    def go(self, state: AgentState) -> AgentEnd:
        """Return why the loop stopped; the state holds what it did."""
        prompt = load_prompt("agent")
        until = self.clock() + self.limits.timeout_s
        while True:
            call = self._work_off(state)
            if call is not None:
                return AgentEnd(text=state.text, ask=call)
            limit = self._reached(state, until)
            if limit is not None:
                return AgentEnd(text=state.text, stopped=limit)
            request = ModelRequest(
                purpose="agent",
                system=prompt.text,
                messages=tuple(state.messages),
                tools=tuple(agent_tool(tool) for tool in state.tools),
                max_tokens=ANSWER_TOKENS,
                prompt_hash=prompt.hash,
            )
            try:
                reply = asked(self.model, request, self.tally)
            except ModelError as error:
                return AgentEnd(text=state.text, error=error)
            state.n_steps += 1
            use = reply.usage
            state.n_tokens += use.input_tokens + use.output_tokens
            state.n_tokens += use.cache_read_tokens + use.cache_write_tokens
            state.text = reply.text.strip() or state.text
            self.tally.steps.append({"kind": "answer", "calls": [call.name for call in reply.tool_calls]})
            if not reply.tool_calls:
                if reply.text.strip():
                    return AgentEnd(text=reply.text.strip())
                nothing = ModelError("MODEL_RESPONSE_MALFORMED", "the reasoning model answered nothing")
                return AgentEnd(text=state.text, error=nothing)
            self._take(state, reply)

    def resume(self, state: AgentState, ran: Ran) -> AgentEnd:
        """Go on after the call that the loop stopped for has run."""
        call_id, _ = state.left.pop(0)
        self._ran(state, call_id, ran)
        return self.go(state)

    # --- one turn -------------------------------------------------------------------------------

    def _take(self, state: AgentState, reply: ModelReply) -> None:
        """Hand the model's turn back as it came, and line its calls up."""
        ids = [call.id or f"call_{state.n_steps}_{i}" for i, call in enumerate(reply.tool_calls)]
        turn = reply.turn
        if turn is None:
            turn = [{"type": "text", "text": reply.text}] if reply.text.strip() else []
            turn += [
                {"type": "tool_use", "id": id_, "name": call.name, "input": call.arguments}
                for id_, call in zip(ids, reply.tool_calls, strict=True)
            ]
        state.messages.append({"role": "assistant", "content": turn})
        state.left = list(zip(ids, reply.tool_calls, strict=True))
        if reply.stop_reason == "max_tokens":
            for id_, _ in state.left:
                self._refuse(state, id_, "", "MALFORMED_ANSWER: the call was cut off, make it again")
            state.left = []

    def _work_off(self, state: AgentState) -> Call | None:
        """Run the calls of a turn in order; return the one that waits for a confirmation."""
        while state.left:
            call_id, wire = state.left[0]
            call, problem = self._checked(state, wire)
            if call is None:
                self._refuse(state, call_id, wire.name, problem)
            else:
                tool = next(tool for tool in state.tools if tool.id == call.tool)
                if tool.effects == "write" and self._done(state, call):
                    self._refuse(state, call_id, tool.id, "already done: this very change was made before")
                elif len(state.ran) >= self.limits.max_calls:
                    self._refuse(state, call_id, tool.id, "not run: the limit of calls is reached")
                elif self.needs_confirmation(tool):
                    return call
                else:
                    self._ran(state, call_id, self.run(call))
            state.left.pop(0)
        if state.results:
            state.messages.append({"role": "user", "content": state.results})
            state.results = []
        return None

    def _checked(self, state: AgentState, wire: ToolCall) -> tuple[Call | None, str]:
        """The call if it may run, else every rule that it breaks: the checks of stage 4."""
        choice = Choice(wire.name, wire.arguments, "agent", 1.0)
        answer = check_answer((choice,), state.tools, 1)
        if answer.rejections:
            return None, "; ".join(f"{r.code}: {r.message}" for r in answer.rejections)
        if not answer.calls:
            return None, f"TOOL_OUTSIDE_CANDIDATES: {wire.name} is no tool here"
        if answer.missing:
            return None, f"missing: {', '.join(answer.missing)}"
        return answer.calls[0], ""

    @staticmethod
    def _done(state: AgentState, call: Call) -> bool:
        return any(ran.call == call and ran.error is None for ran in state.ran)

    def _ran(self, state: AgentState, call_id: str, ran: Ran) -> None:
        state.ran.append(ran)
        step: dict[str, Any] = {"kind": "call", "tool": ran.call.tool, "arguments": dict(ran.call.arguments)}
        step["error"] = None if ran.error is None else ran.error.code
        step["duration_ms"] = round(ran.duration_ms, 3)
        self.tally.steps.append(step)
        shown = ran.record
        shown = {key: shown[key] for key in ("data", "error") if key in shown}
        self._result(
            state, call_id, bounded(shown, self.hidden, most_chars=STEP_CHARS), ran.error is not None
        )

    def _refuse(self, state: AgentState, call_id: str, name: str, why: str) -> None:
        self.tally.steps.append({"kind": "refused", "tool": name, "why": why})
        self._result(state, call_id, {"refused": self.hidden.text(why)}, True)

    @staticmethod
    def _result(state: AgentState, call_id: str, shown: Any, failed: bool) -> None:
        content = tagged("result", json.loads(json.dumps(shown, default=str)))
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        state.results.append({**result, "is_error": True} if failed else result)

    def _reached(self, state: AgentState, until: float) -> str | None:
        """The limit that ends the loop, if one does."""
        limits = self.limits
        if state.n_steps >= limits.max_steps:
            return f"max_steps {limits.max_steps}"
        if state.n_tokens >= limits.max_tokens:
            return f"max_tokens {limits.max_tokens}"
        if len(state.ran) >= limits.max_calls and self._only_refused(state):
            return f"max_calls {limits.max_calls}"
        return f"timeout_s {limits.timeout_s:g}" if self.clock() >= until else None

    @staticmethod
    def _only_refused(state: AgentState) -> bool:
        """Whether the model was told that no call runs any more, and called all the same."""
        last = state.messages[-1]["content"]
        return isinstance(last, list) and all("not run: the limit" in str(item["content"]) for item in last)
