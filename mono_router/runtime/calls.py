"""What running a tool takes and gives: the seam between the runtime and what executes calls.

A runner gets a tool, checked arguments and a :class:`CallContext`; it returns the tool's answer as plain
data or raises a :class:`ToolError` with one of the codes of :data:`CATEGORIES`. An error's message is
shown to users and logged, so it never holds a credential, an endpoint's query or a response's text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mono_router.records import Tool

CATEGORIES: dict[str, str] = {
    "CONFIG_INVALID": "config",
    "CATALOG_INVALID": "config",
    "MODEL_NOT_CONFIGURED": "config",
    "MODEL_PROVIDER_ERROR": "model",
    "MODEL_TIMEOUT": "model",
    "MODEL_RESPONSE_MALFORMED": "model",
    "MODEL_SCHEMA_VIOLATION": "model",
    "MODEL_TOOL_SELECTION_FAILED": "model",
    "ROUTING_NO_MATCH": "routing",
    "INPUT_INVALID": "input",
    "INPUT_SCHEMA_VIOLATION": "input",
    "SESSION_INVALID": "input",
    "CONFIRMATION_STALE": "input",
    "RUNTIME_DISPOSED": "lifecycle",
    "AUTH_REQUIRED": "auth",
    "AUTH_REJECTED": "auth",
    "TOOL_TIMEOUT": "network",
    "TOOL_NETWORK_ERROR": "network",
    "TOOL_CLIENT_ERROR": "response",
    "TOOL_SERVER_ERROR": "response",
    "TOOL_RATE_LIMITED": "response",
    "TOOL_RESPONSE_MALFORMED": "response",
    "TOOL_OUTPUT_LIMIT": "response",
    "TOOL_EXECUTION_FAILED": "execution",
    "DEPENDENCY_UNRESOLVED": "config",
}
"""Error code to its category."""


class ToolError(Exception):
    """A call could not be completed.

    >>> error = ToolError("TOOL_TIMEOUT", "weather.now took over 2.0 s")
    >>> error.category, str(error)
    ('network', 'TOOL_TIMEOUT: weather.now took over 2.0 s')
    """

    def __init__(self, code: str, message: str, *, retries: int = 0) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.retries = retries
        """Tries after the first."""

    @property
    def category(self) -> str:
        """Kind of the fault: config, auth, network, response, execution, ..."""
        return CATEGORIES[self.code]

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CallContext:
    """What a call may draw on beside its arguments; none of it is shown to a model or logged."""

    session_id: str = ""
    request_id: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Session facts of the host, by name."""
    run_tool: Callable[[str, Mapping[str, Any]], Any] | None = None
    """Checks and runs another tool of the catalog by id, for a dependency: its answer, or ToolError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswer:
    """What a call gave."""

    value: Any
    """Plain JSON-able data."""
    retries: int = 0
    """Tries after the first."""


class Runner(Protocol):
    """Executes the tools of one kind."""

    def problems(self, tool: Tool) -> list[str]:
        """Return what is wrong with the tool's ``run``, one line each; empty = it can run."""
        ...

    def run(self, tool: Tool, arguments: Mapping[str, Any], context: CallContext) -> ToolAnswer:
        """Run a call whose user arguments are checked; system arguments are the runner's to fill."""
        ...

    def close(self) -> None:
        """Let go of threads; afterwards calls raise RUNTIME_DISPOSED."""
        ...
