"""A tool's answer as plain data: what Python returned made JSON-able, and parts picked out of it.

Values of any type go in; dicts with text keys, lists, text, finite numbers, booleans and None come out,
bounded in size and depth. What has no such form is refused by its type, never by its content.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from collections.abc import Mapping
from typing import Any

from mono_router.schema import pointer_parts
from mono_router.text import clean

MAX_DEPTH = 64
_SHOWN_AS_TEXT = (uuid.UUID, decimal.Decimal, datetime.timedelta)
_DATES = (datetime.date, datetime.time)  # a datetime is a date


class AnswerError(ValueError):
    """An answer has no plain form, or is too big; ``code`` is that of a tool error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def plain_answer(value: Any, *, max_chars: int) -> Any:
    """Return a value as JSON-able data.

    Dataclasses, mappings, named tuples and database rows become dicts, other sequences and sets lists,
    dates ISO text. NUL and lone surrogates become U+FFFD, as in messages.

    Raises
    ------
    AnswerError
        If a part has no such form, is nested too deeply, or the whole exceeds ``max_chars`` characters.

    >>> import datetime, dataclasses
    >>> Event = dataclasses.make_dataclass("Event", ["day", "guests"])
    >>> plain_answer(Event(datetime.date(2026, 3, 10), ("Ana",)), max_chars=100)
    {'day': '2026-03-10', 'guests': ['Ana']}
    """
    return _Walk(max_chars).plain(value, 0)


class _Walk:
    """One pass over an answer, with what is left of its characters."""

    def __init__(self, max_chars: int) -> None:
        self.max_chars = max_chars
        self.left = max_chars

    def spend(self, n_chars: int) -> None:
        self.left -= n_chars
        if self.left < 0:
            raise AnswerError("TOOL_OUTPUT_LIMIT", f"gave more than {self.max_chars} characters")

    def plain(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise AnswerError("TOOL_RESPONSE_MALFORMED", f"gave an answer nested deeper than {MAX_DEPTH}")
        if isinstance(value, enum.Enum):
            return self.plain(value.value, depth)
        if isinstance(value, str):
            self.spend(len(value) + 2)
            return clean(str(value))
        if value is None or isinstance(value, bool):
            self.spend(4)
            return value
        if isinstance(value, int):
            self.spend(value.bit_length() // 4 + 1)
            return int(value)
        if isinstance(value, float):
            return self.number(value)
        if isinstance(value, _DATES):
            return self.plain(value.isoformat(), depth)
        if isinstance(value, _SHOWN_AS_TEXT):
            return self.plain(str(value), depth)
        return self.composed(value, depth)

    def number(self, value: float) -> float:
        if not math.isfinite(value):
            raise AnswerError("TOOL_RESPONSE_MALFORMED", "gave a number that is not finite")
        self.spend(8)
        return float(value)

    def composed(self, value: Any, depth: int) -> Any:
        self.spend(2)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self.members({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, depth)
        if isinstance(value, Mapping):
            return self.members(value, depth)
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return self.members(value._asdict(), depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            items = [self.plain(item, depth + 1) for item in value]
            return sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items
        kind = type(value)
        if kind.__module__ == "sqlite3" and kind.__name__ == "Row":
            return self.members({name: value[name] for name in value.keys()}, depth)  # noqa: SIM118
        if kind.__module__ == "numpy" and hasattr(value, "tolist"):
            return self.plain(value.tolist(), depth + 1)
        text = f"gave a value of type {kind.__name__}, which has no JSON form"
        raise AnswerError("TOOL_RESPONSE_MALFORMED", text)

    def members(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in value.items():
            name = self.plain(key, depth + 1)
            if isinstance(name, (dict, list)):
                raise AnswerError("TOOL_RESPONSE_MALFORMED", "gave a mapping whose keys are no text")
            found[name if isinstance(name, str) else json.dumps(name)] = self.plain(item, depth + 1)
        return found


def pick_part(value: Any, pointer: str) -> Any:
    """Return what a JSON pointer names inside a value.

    Raises
    ------
    LookupError
        If there is nothing at that place.

    >>> pick_part({"items": [{"id": 7}]}, "/items/0/id")
    7
    """
    for part in pointer_parts(pointer):
        if isinstance(value, Mapping):
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit():
            value = value[int(part)]
        else:
            raise LookupError(part)
    return value
