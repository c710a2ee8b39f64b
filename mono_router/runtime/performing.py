"""Calls run in their mode: tool, think or agent; with the reasoning model, or as a table without one.

Whatever a mode needs first is asked for here: what a call misses, and the confirmation of a write.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from mono_router.records import Call, Memory, ModelError, Query, Tool
from mono_router.runtime.acting import Turn, needs_confirmation
from mono_router.runtime.execution import Ran
from mono_router.runtime.filling import visible_memory
from mono_router.runtime.modes import Agent, AgentEnd, AgentState, agent_state, think, think_request
from mono_router.runtime.results import Result
from mono_router.runtime.sessions import Waiting
from mono_router.runtime.showing import bounded, table_text
from mono_router.schema import missing_arguments

MAX_PREFETCH = 3


class ActingTurn(Turn):
    """A turn that runs calls."""

    def perform(self, waiting: Waiting, *, confirmed: bool = False) -> Result:
        """Run calls in their mode, or ask for what the first of them misses, or for a confirmation."""
        catalog, mode = self.parts.catalog, waiting.mode
        calls = (Call(tool=waiting.tool, arguments=dict(waiting.arguments)), *waiting.others)
        tools = [catalog[call.tool] for call in calls]
        if mode != "agent" or self.parts.reasoning is None:
            # An agent with a model finds out or asks by itself; every other call must be whole.
            for i, (call, tool) in enumerate(zip(calls, tools, strict=True)):
                if missing_arguments(tool, call.arguments):
                    others = (*calls[:i], *calls[i + 1 :])
                    first = dataclasses.replace(waiting, tool=call.tool, arguments=call.arguments)
                    return self.ask(dataclasses.replace(first, others=others))
        if mode == "think" and any(tool.effects == "write" for tool in tools):
            mode = "tool" if len(calls) == 1 else "agent"
        if mode == "tool":
            if needs_confirmation(tools[0]) and not confirmed:
                return self.ask_confirmation(waiting)
            return self._one(calls[0], tools[0])
        if mode == "think":
            return self._think(calls)
        return self.agent(waiting, calls)

    def _one(self, call: Call, tool: Tool) -> Result:
        ran = self.run(call)
        shown = {"tool": tool.id, "arguments": dict(call.arguments)}
        if ran.error is not None:
            reply = self.say("failed", title=self.title(tool), names=ran.error.code)
            return self.failed(ran.error.code, ran.error.message, reply=reply, **shown)
        return self.result("completed", self.reply_of(ran), data=ran.value, **shown)

    # --- think and agent --------------------------------------------------------------------------

    def query(self) -> Query:
        """The message as a reasoning model may see it."""
        memory: Memory = visible_memory(self.session.memory, self.message, None)
        return Query(message=self.message, memory=memory, now=self.now)

    def earlier(self) -> list[str]:
        """What the user said in the turns before."""
        return [exchange.message for exchange in self.session.history if exchange.message]

    def _think(self, calls: Sequence[Call]) -> Result:
        query, earlier = self.query(), self.earlier()
        done = self.parts.runs.run_side_by_side(calls[:MAX_PREFETCH], **self._context())
        for ran in done:
            self._took(ran)
            error = None if ran.error is None else ran.error.code
            self.tally.steps.append({"kind": "call", "tool": ran.call.tool, "error": error})
        if all(ran.error is not None for ran in done):
            return self._all_failed(done)
        if self.parts.reasoning is None:
            return self._table(done, "no_reasoning")
        request = think_request(query, done, hidden=self.hidden(), earlier=earlier)
        try:
            text = think(self.parts.reasoning, request, self.tally)
        except ModelError as error:
            return self._model_failed(error, done)
        return self.result("completed", text, **_of(done))

    def agent(self, waiting: Waiting, calls: Sequence[Call]) -> Result:
        """Let the reasoning model work with the tools of the chosen skills."""
        skills = waiting.skills or tuple(dict.fromkeys(self.parts.catalog[c.tool].skill for c in calls))
        names = dict.fromkeys(
            [call.tool for call in calls]
            + [tool for skill in skills for tool in self.parts.catalog.skills[skill].tools]
        )
        tools = [self.parts.catalog[name] for name in names]
        tools = [tool for tool in tools if "agent" in tool.modes]
        if self.parts.reasoning is None:
            return self._without_reasoning(calls, tools)
        state = agent_state(self.query(), tools, self.earlier())
        return self._agent_end(waiting, state, self._agent().go(state))

    def resume(self, waiting: Waiting, ran: Ran) -> Result:
        """Go on with the loop that a confirmed call had stopped."""
        state: AgentState = waiting.resume
        return self._agent_end(waiting, state, self._agent().resume(state, ran))

    def _agent(self) -> Agent:
        assert self.parts.reasoning is not None
        return Agent(
            self.parts.reasoning,
            run=self.run,
            needs_confirmation=needs_confirmation,
            limits=self.parts.config.limits,
            hidden=self.hidden(),
            tally=self.tally,
            clock=self.parts.clock,
        )

    def _agent_end(self, waiting: Waiting, state: AgentState, end: AgentEnd) -> Result:
        if end.ask is not None:
            held = dataclasses.replace(
                waiting, tool=end.ask.tool, arguments=end.ask.arguments, mode="agent", resume=state
            )
            return self.ask_confirmation(dataclasses.replace(held, others=(), request_id=self.request_id))
        if end.error is not None:
            return self._model_failed(end.error, state.ran)
        if end.stopped is not None:
            self.tally.steps.append({"kind": "stopped", "limit": end.stopped})
            text = end.text or self._texts(state.ran)
            return self.result(
                "completed", f"{text}\n{self.say('stopped', names=end.stopped)}", **_of(state.ran)
            )
        return self.result("completed", end.text, **_of(state.ran))

    def _without_reasoning(self, calls: Sequence[Call], tools: Sequence[Tool]) -> Result:
        """Prefetch what can be read, say what was not run."""
        catalog = self.parts.catalog
        reads = [call for call in calls if catalog[call.tool].effects == "read"]
        known = {call.tool for call in reads}
        more = [
            Call(tool=tool.id)
            for tool in tools
            if tool.effects == "read" and not tool.required and tool.id not in known
        ]
        reads = [*reads, *more][:MAX_PREFETCH]
        done = [self._took(ran) for ran in self.parts.runs.run_side_by_side(reads, **self._context())]
        writes = [self.title(catalog[call.tool]) for call in calls if catalog[call.tool].effects == "write"]
        if not done and not writes:
            text = "agent mode needs a reasoning model: set models.reasoning"
            return self.failed("MODEL_NOT_CONFIGURED", text)
        return self._table(done, "no_reasoning", writes, tool=calls[0].tool)

    def _table(
        self, done: Sequence[Ran], key: str, not_run: Sequence[str] = (), tool: str | None = None
    ) -> Result:
        failed = [self.title(self.parts.catalog[r.call.tool]) for r in done if r.error is not None]
        missing = [*not_run, *failed]
        parts = [self.say(key), self._texts(done)]
        parts += [self.say("not_run", names=", ".join(missing))] if missing else []
        fields = _of(done)
        if tool is not None:
            fields["tool"] = tool
        return self.result("completed", "\n".join(part for part in parts if part), **fields)

    def _texts(self, done: Sequence[Ran]) -> str:
        hidden = self.unsaid()
        texts = []
        for ran in done:
            if ran.error is None:
                shown = table_text(bounded(ran.value, hidden, most_chars=8_000)) or "–"
                texts.append(f"{self.title(self.parts.catalog[ran.call.tool])}\n{shown}")
        return "\n\n".join(texts)

    def _all_failed(self, done: Sequence[Ran]) -> Result:
        first = done[0]
        assert first.error is not None
        title = self.title(self.parts.catalog[first.call.tool])
        reply = self.say("failed", title=title, names=first.error.code)
        return self.failed(first.error.code, first.error.message, reply=reply, **_of(done))

    def _model_failed(self, error: ModelError, done: Sequence[Ran]) -> Result:
        return self.failed(error.code, error.message, reply=self._texts(done), **_of(done))


def _of(done: Sequence[Ran]) -> dict[str, Any]:
    """The fields of a result that several calls share."""
    first = done[0].call if done else None
    return {
        "tool": first.tool if first is not None else None,
        "arguments": dict(first.arguments) if first is not None else {},
        "data": [ran.record for ran in done],
    }
