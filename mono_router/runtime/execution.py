"""One call, run: checked arguments are handed to what runs the tool, and its answer or its error comes back.

Nothing raises: a call that cannot be completed comes back with its :class:`ToolError`. An exception that a
runner did not foresee is told by its type alone, since its text may hold anything.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from mono_router.catalog import Catalog
from mono_router.records import Call, Tool
from mono_router.runtime.calls import CallContext, Runner, ToolAnswer, ToolError
from mono_router.schema import check_arguments

MAX_CHAIN = 8
"""Dependencies of dependencies; cycles are errors when a runtime is made."""
SIDE_BY_SIDE = 3
"""Calls that run at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What came of a call."""

    call: Call
    value: Any = None
    """Plain data; None where it failed."""
    error: ToolError | None = None
    duration_ms: float = 0.0
    retries: int = 0

    @property
    def record(self) -> dict[str, Any]:
        """The call as think and agent report it."""
        shown: dict[str, Any] = {"tool": self.call.tool, "arguments": dict(self.call.arguments)}
        if self.error is None:
            return {**shown, "data": self.value}
        return {**shown, "error": {"code": self.error.code, "message": self.error.message}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """Runs the tools of a catalog."""

    catalog: Catalog
    runnable: Mapping[str, tuple[Runner, Tool]]
    """Tool id to what runs it, and the tool as that sees it; a tool that is not here cannot run."""

    def run(
        self,
        call: Call,
        *,
        session_id: str = "",
        request_id: str = "",
        facts: Mapping[str, Any] | None = None,
        depth: int = 0,
    ) -> Ran:
        """Return what came of a call whose arguments are checked."""
        started = time.perf_counter()
        error: ToolError | None = None
        answer = ToolAnswer(value=None)
        try:
            if call.tool not in self.runnable:
                raise ToolError("CONFIG_INVALID", f"{call.tool} has no run: nothing says how it is executed")
            runner, tool = self.runnable[call.tool]

            def run_tool(name: str, arguments: Mapping[str, Any]) -> Any:
                return self._dependency(
                    name, arguments, session_id=session_id, request_id=request_id, facts=facts, depth=depth
                )

            context = CallContext(
                session_id=session_id, request_id=request_id, facts=facts or {}, run_tool=run_tool
            )
            answer = runner.run(tool, call.arguments, context)
        except ToolError as failure:
            error = failure
        except Exception as failure:
            error = ToolError("TOOL_EXECUTION_FAILED", f"{call.tool} raised {type(failure).__name__}")
        return Ran(
            call=call,
            value=answer.value,
            error=error,
            duration_ms=(time.perf_counter() - started) * 1e3,
            retries=answer.retries if error is None else error.retries,
        )

    def _dependency(self, name: str, arguments: Mapping[str, Any], *, depth: int, **context: Any) -> Any:
        """Run a tool that supplies another's argument: read-only, and not without end."""
        if name not in self.catalog:
            raise ToolError("DEPENDENCY_UNRESOLVED", f"{name} is no tool of the catalog")
        if self.catalog[name].effects != "read":
            raise ToolError("DEPENDENCY_UNRESOLVED", f"{name} writes: a dependency may only read")
        if depth >= MAX_CHAIN:
            raise ToolError("DEPENDENCY_UNRESOLVED", f"{name}: more than {MAX_CHAIN} dependencies in a row")
        rejections = check_arguments(self.catalog[name], dict(arguments))
        if rejections:  # named without their values, which may be facts
            text = ", ".join(f"{r.name} ({r.code})" for r in rejections)
            raise ToolError("DEPENDENCY_UNRESOLVED", f"{name} does not take what it is given: {text}"[:1_000])
        ran = self.run(Call(tool=name, arguments=arguments), depth=depth + 1, **context)
        if ran.error is not None:
            raise ran.error
        return ran.value

    def run_side_by_side(self, calls: Sequence[Call], **context: Any) -> list[Ran]:
        """Return what came of several calls, in their order; they run in threads at the same time."""
        if len(calls) < 2:
            return [self.run(call, **context) for call in calls]
        with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
            return list(pool.map(lambda call: self.run(call, **context), calls))
