"""What a host sends, checked at the door: messages, arguments and names, of any type and size.

What cannot be worked on is refused with a code and one line that names it; values are never repeated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from mono_router.router import MAX_MESSAGE_CHARS
from mono_router.text import clean

MAX_ARGUMENT_DEPTH = 32
MAX_ARGUMENT_NODES = 20_000
MAX_ARGUMENT_CHARS = 1_000_000


class Refused(Exception):
    """What was sent cannot be worked on."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def checked_message(message: Any) -> str:
    """Return a message cleaned once.

    Raises
    ------
    Refused
        If it is no text, or too long.
    """
    if not isinstance(message, str):
        raise Refused("INPUT_INVALID", f"a message must be text, got {type(message).__name__}")
    if len(message) > MAX_MESSAGE_CHARS:
        raise Refused("INPUT_INVALID", f"a message must be at most {MAX_MESSAGE_CHARS} characters")
    return clean(message)


def checked_arguments(tool: str, arguments: Any) -> dict[str, Any]:
    """Return a call's arguments as a cleaned copy.

    Raises
    ------
    Refused
        If they are no mapping, or hold what JSON cannot.
    """
    if not isinstance(arguments, Mapping):
        raise Refused(
            "INPUT_INVALID", f"arguments of {tool} must be a mapping, got {type(arguments).__name__}"
        )
    try:
        given: dict[str, Any] = json_value(arguments)
    except NotJson as error:
        raise Refused("INPUT_INVALID", f"an argument of {tool} {error}") from None
    return given


def short(value: Any) -> str:
    """Return a name as it is told in an error: cut, or its type."""
    text = value if isinstance(value, str) else type(value).__name__
    return repr(clean(text[:80]))


class NotJson(ValueError):
    """A value is no JSON, or too big to be an argument."""


def json_value(value: Any) -> Any:
    """Return a cleaned copy of a value that JSON can hold, within bounds.

    Raises
    ------
    NotJson
        If it holds another type, NaN, a key that is no text, or is too deep or too large.

    >>> json_value({"a": [1, "x\\x00"]})
    {'a': [1, 'x�']}
    """
    budget = [MAX_ARGUMENT_NODES, MAX_ARGUMENT_CHARS]
    return _copied(value, MAX_ARGUMENT_DEPTH, budget)


def _copied(value: Any, depth: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise NotJson(f"holds more than {MAX_ARGUMENT_NODES} values")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) >= 10**18:
            raise NotJson("holds a number that is too large")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson("holds a number that is not finite")
        return float(value)
    if isinstance(value, str):
        return _text(value, budget)
    if depth <= 0:
        raise NotJson(f"is nested deeper than {MAX_ARGUMENT_DEPTH}")
    if isinstance(value, Mapping):
        return dict(_members(value, depth, budget))
    if isinstance(value, (list, tuple)):
        return [_copied(item, depth - 1, budget) for item in value]
    raise NotJson(f"holds a {type(value).__name__}, which is no JSON")


def _members(value: Mapping[Any, Any], depth: int, budget: list[int]) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if not isinstance(key, str):
            raise NotJson(f"holds a key that is no text ({type(key).__name__})")
        yield _text(key, budget), _copied(item, depth - 1, budget)


def _text(text: str, budget: list[int]) -> str:
    budget[1] -= len(text)
    if budget[1] < 0:
        raise NotJson(f"holds more than {MAX_ARGUMENT_CHARS} characters")
    return clean(text)
