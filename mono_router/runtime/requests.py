"""What an HTTP tool sends: one request, made of an endpoint and the values of a call.

The origin is not part of it: values become percent-encoded path segments, query values, JSON members or
form fields, and header values, and nothing else. A value that a lenient server could read as a way out of
its place (``..``, a control character) is refused. Error texts name tools, fields and arguments, and hold no
value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from mono_router.records import Tool
from mono_router.runtime.calls import ToolError
from mono_router.runtime.manifest import BODY_TYPES, CONTROL, PLACEHOLDER, Endpoint, body_place, escapes
from mono_router.runtime.mapping import ABSENT, CallValues
from mono_router.text import clean

MAX_TARGET = 16_000
"""Characters of path and query; common servers take 8,000 to 64,000."""
MAX_HEADER = 8_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request, ready to send; its content is never shown."""

    method: str
    target: str = field(repr=False)
    """Path and query, ASCII."""
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes | None = field(repr=False)


def make_request(tool: Tool, endpoint: Endpoint, values: CallValues, *, credential: str = "") -> Request:
    """Return the request of one call.

    Raises
    ------
    ToolError
        If a value does not fit its place, or a source has none.
    """
    auth = endpoint.auth
    headers = [("Accept", "application/json"), ("Accept-Encoding", "gzip"), ("User-Agent", "mono-router")]
    for name, value in _present(endpoint, values, "headers"):
        text = _text(tool, name, value).strip()
        if CONTROL.search(text) or len(text) > MAX_HEADER:
            raise _unfit(tool, f"header {name}", "holds what a header cannot carry, or is too long")
        headers.append((name, text))
    query = list(_pairs(tool, endpoint, values, "query"))
    if auth is not None and auth.query:
        query.append((auth.query, credential))
    elif auth is not None:
        headers.append((auth.header, auth.prefix + credential))
    target = _path(tool, endpoint, values)
    if query:
        target += "?" + _encoded(query)
    if len(target) > MAX_TARGET:
        raise _unfit(tool, "path and query", "are too long")
    body = _body(tool, endpoint, values)
    if body is not None:
        headers.append(("Content-Type", BODY_TYPES[endpoint.body_type]))
    return Request(method=endpoint.method, target=target, headers=tuple(headers), body=body)


def _present(endpoint: Endpoint, values: CallValues, group: str) -> Iterator[tuple[str, Any]]:
    """Names and values of a group, without optional arguments that were not given; JSON alone has a null."""
    has_null = group == "body" and endpoint.body_type == "json"
    for name, source in endpoint.groups[group].items():
        value = values.of(source)
        if value is not ABSENT and (value is not None or has_null):
            yield name, value


def _pairs(tool: Tool, endpoint: Endpoint, values: CallValues, group: str) -> Iterator[tuple[str, str]]:
    """Names and texts of a group, a list's items one by one under its name."""
    for name, value in _present(endpoint, values, group):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            yield name, _text(tool, name, item)


def _encoded(pairs: Iterable[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in pairs)


def _path(tool: Tool, endpoint: Endpoint, values: CallValues) -> str:
    given = dict(_present(endpoint, values, "path"))
    texts = {name: _text(tool, name, value) for name, value in given.items()}

    def filled(found: re.Match[str]) -> str:
        if found[1] not in texts:
            raise _unfit(tool, found[1], "is needed in the path")
        return quote(texts[found[1]], safe="")

    segments = endpoint.path.split("/")[1:]
    done = []
    for segment in segments:
        text = PLACEHOLDER.sub(filled, segment)
        names = PLACEHOLDER.findall(segment)
        if names and (not text or escapes(text) or any(CONTROL.search(texts[name]) for name in names)):
            raise _unfit(tool, names[0], "is no name that can stand in a path")
        done.append(text)
    return "/" + "/".join(done)


def _body(tool: Tool, endpoint: Endpoint, values: CallValues) -> bytes | None:
    if endpoint.method == "GET" or not endpoint.groups["body"]:
        return None
    if endpoint.body_type == "form":
        pairs = _pairs(tool, endpoint, values, "body")
        return _encoded((body_place(name)[0], text) for name, text in pairs).encode("ascii")
    body: dict[str, Any] = {}
    for name, value in _present(endpoint, values, "body"):
        *parents, last = body_place(name)
        place = body
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return clean(_json(tool, "body", body)).encode("utf-8")


def _text(tool: Tool, name: str, value: Any) -> str:
    """A value as text: text as it is, anything else as JSON."""
    return clean(value if isinstance(value, str) else _json(tool, name, value))


def _json(tool: Tool, name: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        pass
    raise _unfit(tool, name, "has no JSON form")


def _unfit(tool: Tool, name: str, why: str) -> ToolError:
    return ToolError("INPUT_INVALID", f"{tool.id}: {name} {why}")
