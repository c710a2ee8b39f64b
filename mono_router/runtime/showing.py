"""What a tool gave, as text: bounded, without what nobody may see, as a table for people or JSON for a model.

A value comes in as plain data; the copies made here are bounded in depth, entries and characters. Nothing
here reaches a routing model or a log: only replies to the user and prompts of the reasoning model are made
of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mono_router.schema import is_sensitive
from mono_router.text import clean, identifier_words

HIDDEN = "•••"
MAX_DEPTH = 6
N_ROWS = 20
"""Rows of a table in a reply."""
CELL_CHARS = 80
REPLY_CHARS = 6_000


class Hidden:
    """What no model and no reply may show: names of system arguments and facts, and secret values.

    >>> hidden = Hidden(names=["user_id"], values=["s3cr3t-key"])
    >>> hidden.of({"user_id": 7, "note": "key s3cr3t-key", "token": "x"})
    {'note': 'key •••'}
    """

    def __init__(self, *, names: Iterable[str] = (), values: Iterable[Any] = ()) -> None:
        self._names = frozenset(names)
        texts = {str(v) for v in values if isinstance(v, (str, int)) and not isinstance(v, bool)}
        # A short value ("1", "es") occurs by chance; whoever needs it hidden hides its name.
        self._values = tuple(sorted((t for t in texts if len(t) >= 4), key=len, reverse=True))

    def joined(self, *, names: Iterable[str] = (), values: Iterable[Any] = ()) -> Hidden:
        """Return what hides this and more."""
        return Hidden(names=[*self._names, *names], values=[*self._values, *values])

    def text(self, text: str) -> str:
        """Return a text with every secret value covered."""
        for value in self._values:
            if value in text:
                text = text.replace(value, HIDDEN)
        return text

    def of(self, value: Any, *, most: int = 200, chars: int = 4_000, depth: int = MAX_DEPTH) -> Any:
        """Return plain data without what is hidden, cut to ``most`` entries a list and ``chars`` a text."""
        if isinstance(value, str):
            text = self.text(clean(value[: chars + 1]))
            return text if len(text) <= chars else text[:chars] + "…"
        if isinstance(value, Mapping):
            if depth <= 0:
                return "…"
            shown = {
                str(name): self.of(item, most=most, chars=chars, depth=depth - 1)
                for name, item in list(value.items())[:most]
                if str(name) not in self._names and not is_sensitive(str(name))
            }
            return {self.text(clean(name[:chars])): item for name, item in shown.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            if depth <= 0:
                return "…"
            items = [self.of(item, most=most, chars=chars, depth=depth - 1) for item in list(value)[:most]]
            return items if len(value) <= most else [*items, f"… {len(value) - most} more"]
        if value is None or isinstance(value, (bool, int, float)):
            return HIDDEN if self._values and str(value) in self._values else value
        return self.of(str(value), chars=chars)


def bounded(value: Any, hidden: Hidden, *, most_chars: int) -> Any:
    """Return plain data whose JSON has at most ``most_chars`` characters, cut evenly until it fits.

    >>> len(json.dumps(bounded(["x" * 50] * 1000, Hidden(), most_chars=500))) <= 500
    True
    """
    for most, chars, depth in ((200, 4_000, 6), (50, 1_000, 6), (20, 300, 5), (8, 120, 4), (3, 60, 3)):
        shown = hidden.of(value, most=most, chars=chars, depth=depth)
        if len(json.dumps(shown, ensure_ascii=True, default=str)) <= most_chars:
            return shown
    return "… too large to show"


def table_text(value: Any, *, rows: int = N_ROWS) -> str:
    """Return plain data as text: records as a table, a mapping as lines, everything else as itself.

    >>> print(table_text([{"day": "Monday", "n": 1}, {"day": "Friday", "n": 12}]))
    day     n
    Monday  1
    Friday  12
    >>> table_text({"temperature": 21, "sky": "clear"})
    'temperature: 21\\nsky: clear'
    """
    if isinstance(value, Mapping):
        return "\n".join(_line(name, item, rows) for name, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        records = [item for item in value if isinstance(item, Mapping)]
        if records and len(records) == len(value):
            return _table(records, rows)
        shown = [f"- {_cell(item)}" for item in value[:rows]]
        return "\n".join(shown + ([f"… {len(value) - rows} more"] if len(value) > rows else []))
    return "" if value is None else str(value)


def _line(name: str, item: Any, rows: int) -> str:
    label = identifier_words(str(name)) or str(name)
    nested = isinstance(item, (Mapping, list)) and bool(item)
    if nested and (isinstance(item, Mapping) or any(isinstance(part, Mapping) for part in item)):
        inner = table_text(item, rows=rows).replace("\n", "\n  ")
        return f"{label}:\n  {inner}"
    return f"{label}: {_cell(item)}"


def _table(records: Sequence[Mapping[str, Any]], rows: int) -> str:
    names = list(dict.fromkeys(str(name) for record in records for name in record))[:10]
    lines = [names, *([_cell(record.get(name)) for name in names] for record in records[:rows])]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    text = ["  ".join(cell.ljust(widths[i]) for i, cell in enumerate(line)).rstrip() for line in lines]
    return "\n".join(text + ([f"… {len(records) - rows} more"] if len(records) > rows else []))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def _listed(value: Any) -> Any:
    """A record without empty members, and records alone where all else is their number."""
    if not isinstance(value, Mapping):
        return value
    kept = {name: item for name, item in value.items() if item is not None}
    lists = [item for item in kept.values() if isinstance(item, list)]
    if len(kept) == 2 and len(lists) == 1 and len(lists[0]) in kept.values():
        return lists[0]
    return kept


def reply_text(value: Any, hidden: Hidden) -> str:
    """Return what a tool gave as a reply: its own ``message`` or ``reply`` where it states one."""
    shown = bounded(value, hidden, most_chars=4 * REPLY_CHARS)
    if isinstance(shown, Mapping):
        for name in ("reply", "message", "summary"):
            if isinstance(shown.get(name), str) and shown[name].strip():
                return str(shown[name])[:REPLY_CHARS]
    text = table_text(_listed(shown))
    return text if len(text) <= REPLY_CHARS else text[:REPLY_CHARS] + "…"
