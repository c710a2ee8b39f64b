"""A local server that speaks the Messages API: scripted answers, and the API's own rules enforced.

It refuses what the API refuses (unknown parameters, tool names, forced tools and thinking settings by
model, structured schemas, empty text, changed thinking blocks), each with a 400 and a reason, and keeps
every request. What a model takes is written down here apart from the package's own table.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-ant-test-0123456789"
PARAMETERS = {
    "max_tokens", "messages", "model", "cache_control", "container", "diagnostics", "inference_geo",
    "metadata", "output_config", "service_tier", "speed", "stop_sequences", "stream", "system", "thinking",
    "tool_choice", "tools",
}  # fmt: skip
TOOL_KEYS = {"name", "description", "input_schema", "cache_control", "strict", "type"}
THINKING = {
    "claude-haiku-5-5": {"adaptive", "disabled"},
    "claude-sonnet-5-5": {"adaptive", "between_tools"},
    "claude-opus-5-5": {"adaptive"},
}
"""``thinking.type`` by model."""
UNFORCED = {"claude-sonnet-5-5", "claude-opus-5-5"}
"""Models that refuse a forced tool."""
FORMAT_KEYS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "allOf",
    "$ref", "$defs", "description", "title", "format", "minItems", "default",
}  # fmt: skip


@dataclass
class Answer:
    """One scripted answer."""

    status: int = 200
    body: Any = None
    """A mapping is sent as JSON, bytes as they are."""
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_s: float = 0.0
    reset: bool = False
    """Whether the connection is reset instead."""
    drip_s: float = 0.0
    """Pause between bytes."""


def thinking(text: str) -> dict[str, Any]:
    """A thinking block that the server knows again."""
    return {"type": "thinking", "thinking": text, "signature": _sign(text)}


def _sign(text: str) -> str:
    return hashlib.sha256(f"server:{text}".encode()).hexdigest()


def message(
    *blocks: Mapping[str, Any], stop: str | None = None, output_tokens: int = 20, **more: Any
) -> Answer:
    """An answer of content blocks."""
    tool = any(block["type"] == "tool_use" for block in blocks)
    return Answer(
        body={
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": list(blocks),
            "stop_reason": stop or ("tool_use" if tool else "end_turn"),
            "stop_sequence": None,
            "usage": {"output_tokens": output_tokens},
            **more,
        }
    )


def text(content: str, **more: Any) -> Answer:
    """An answer of one text."""
    return message({"type": "text", "text": content}, **more)


def use(
    name: str, arguments: Any = None, *, mode: Any = "tool", confidence: Any = 0.9, id_: str = "toolu_1"
) -> Any:
    """A tool call as selection asks for it."""
    wrapped = {"mode": mode, "confidence": confidence, "arguments": {} if arguments is None else arguments}
    return {"type": "tool_use", "id": id_, "name": name, "input": wrapped, "caller": {"type": "direct"}}


def no_tool(confidence: float = 0.9) -> dict[str, Any]:
    """The call of ``no_tool``."""
    return {"type": "tool_use", "id": "toolu_0", "name": "no_tool", "input": {"confidence": confidence}}


def error(status: int, kind: str, said: str = "no", **headers: str) -> Answer:
    """An error of the API."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_1"}
    return Answer(status=status, body=body, headers={"request-id": "req_1", **named})


Script = Callable[[dict[str, Any]], Answer]


class MessagesServer:
    """The server, on a port of its own; a context manager.

    Parameters
    ----------
    answers
        In order, or a function from a request body to an answer.
    """

    def __init__(self, answers: Iterable[Answer] | Script) -> None:
        self._script = answers if callable(answers) else None
        self._answers = iter(()) if callable(answers) else iter(answers)
        self.bodies: list[dict[str, Any]] = []
        """Bodies of all requests, in order."""
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.refused: list[str] = []
        """Reasons for which a request was refused."""
        self._cached: set[str] = set()
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer._handle(self)

            def log_message(self, *_: Any) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def __enter__(self) -> MessagesServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        raw = request.rfile.read(int(request.headers["content-length"]))
        body = json.loads(raw)
        counting = request.path.endswith("/count_tokens")
        with self._lock:
            self.bodies.append(body)
            self.headers.append({name.lower(): value for name, value in request.headers.items()})
            self.times.append(time.monotonic())
            problem = refusal(body, counting=counting)
            if problem is not None:
                self.refused.append(problem)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            answer = error(401, "authentication_error", "invalid credentials")
        elif problem is not None:
            answer = error(400, "invalid_request_error", problem)
        elif counting:
            answer = Answer(body={"input_tokens": tokens(body)})
        else:
            with self._lock:
                answer = self._script(body) if self._script else next(self._answers)
        self._send(request, answer, body)

    def _send(self, request: BaseHTTPRequestHandler, answer: Answer, body: dict[str, Any]) -> None:
        if answer.reset:
            # Linger of zero: the connection is reset, not closed.
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            request.close_connection = True
            request.connection.close()
            return
        time.sleep(answer.hang_s)
        content = answer.body
        if isinstance(content, dict):
            if content.get("type") == "message":
                content = {**content, "model": body["model"], "usage": self._usage(body, content["usage"])}
            content = json.dumps(content, ensure_ascii=False).encode("utf-8")
        try:
            request.send_response(answer.status)
            request.send_header("content-type", "application/json")
            request.send_header("content-length", str(len(content)))
            for name, value in answer.headers.items():
                request.send_header(name, value)
            request.end_headers()
            if not answer.drip_s:
                request.wfile.write(content)
                return
            for byte in content:
                request.wfile.write(bytes([byte]))
                request.wfile.flush()
                time.sleep(answer.drip_s)
        except OSError:
            request.close_connection = True  # the client went away

    def _usage(self, body: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Token counts with the prompt cache as the API bills it: written once, then read."""
        counts = {
            "input_tokens": tokens(body),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        }
        marked = [
            b["text"] for b in body.get("system") or () if isinstance(b, dict) and b.get("cache_control")
        ]
        if marked:
            prefix = json.dumps([body["model"], body.get("tools"), marked])
            size = math.ceil(len("".join(marked).encode()) / 4)
            with self._lock:
                kind = "cache_read_input_tokens" if prefix in self._cached else "cache_creation_input_tokens"
                self._cached.add(prefix)
            counts["input_tokens"] -= size
            counts[kind] = size
        return {**counts, **given}


def tokens(body: Mapping[str, Any]) -> int:
    """Input tokens as this server counts them: four bytes each."""
    parts = [body.get("system"), body["messages"], body.get("tools")]
    return math.ceil(len(json.dumps(parts, ensure_ascii=False).encode()) / 4)


def refusal(body: Mapping[str, Any], *, counting: bool = False) -> str | None:
    """The API's reason to refuse a request, or None."""
    unknown = set(body) - PARAMETERS
    if unknown:
        return f"{sorted(unknown)[0]}: Extra inputs are not permitted"
    if not counting and not (isinstance(body.get("max_tokens"), int) and 0 <= body["max_tokens"] <= 128_000):
        return "max_tokens: out of range"
    kind = (body.get("thinking") or {}).get("type")
    allowed = THINKING.get(body["model"])
    if kind is not None and allowed is not None and kind not in allowed:
        return f'"thinking.type.{kind}" is not supported for this model'
    choice = (body.get("tool_choice") or {}).get("type")
    if choice is not None and not body.get("tools"):
        return "tool_choice may only be specified while providing tools"
    if choice in ("any", "tool") and body["model"] in UNFORCED:
        return f'tool_choice "{choice}" is not supported for this model'
    if choice in ("any", "tool") and kind not in (None, "disabled"):
        return "Thinking may not be enabled when tool_choice forces tool use."
    return _tools_problem(body) or _output_problem(body, kind) or _texts_problem(body)


def _tools_problem(body: Mapping[str, Any]) -> str | None:
    names = []
    for i, tool in enumerate(body.get("tools") or ()):
        if set(tool) - TOOL_KEYS:
            return f"tools.{i}: Extra inputs are not permitted"
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]):
            return f"tools.{i}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if tool["input_schema"].get("type") != "object":
            return f"tools.{i}.custom.input_schema.type: Input should be 'object'"
        if set(tool["input_schema"]) & {"oneOf", "anyOf", "allOf"}:
            return f"tools.{i}.custom.input_schema: does not support oneOf, allOf, or anyOf at the top level"
        names.append(tool["name"])
    return "tools: Tool names must be unique." if len(set(names)) < len(names) else None


def _output_problem(body: Mapping[str, Any], kind: str | None) -> str | None:
    output = body.get("output_config") or {}
    if set(output) - {"effort", "format"}:
        return "output_config: Extra inputs are not permitted"
    if output.get("effort") in ("xhigh", "max") and kind in ("disabled", "between_tools"):
        return f"effort {output['effort']} is not supported with thinking {kind}"
    if output.get("format"):
        return _format_problem(output["format"]["schema"])
    return None


def _format_problem(node: Any) -> str | None:
    if not isinstance(node, dict):
        return None
    if set(node) - FORMAT_KEYS:
        return f"output_config.format.schema: {sorted(set(node) - FORMAT_KEYS)[0]!r} is not supported"
    if node.get("type") == "object" and node.get("additionalProperties") is not False:
        return "output_config.format.schema: 'additionalProperties' must be explicitly set to false"
    inner = [*(node.get("properties") or {}).values(), *(node.get("anyOf") or ()), node.get("items")]
    return next((problem for sub in inner if (problem := _format_problem(sub))), None)


def _texts_problem(body: Mapping[str, Any]) -> str | None:
    for block in body.get("system") or ():
        if not block["text"]:
            return "system: text content blocks must be non-empty"
    if not body["messages"] or body["messages"][-1]["role"] != "user":
        return "This model does not support assistant message prefill."
    open_calls: set[str] = set()
    for i, entry in enumerate(body["messages"]):
        if set(entry) != {"role", "content"} or entry["role"] not in ("user", "assistant"):
            return f"messages.{i}: Extra inputs are not permitted"
        blocks = entry["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        results = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
        if entry["role"] == "user" and results != open_calls:
            return f"messages.{i}: tool_use ids were found without tool_result blocks immediately after"
        open_calls = {b["id"] for b in blocks if b["type"] == "tool_use"}
        for block in blocks:
            if block["type"] == "text" and not block["text"]:
                return f"messages.{i}: text content blocks must be non-empty"
            if block["type"] == "thinking" and block["signature"] != _sign(block["thinking"]):
                return f"messages.{i}: `thinking` blocks in the latest assistant message cannot be modified"
    return None
