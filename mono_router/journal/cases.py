"""Labelled cases out of the journal: messages whose right tool somebody, or what followed, has told.

Rows with their outcomes go in, :class:`~mono_router.records.Case` objects come out. A thumbs up confirms
what was done; a finding that names the tool that finally worked labels the message that went wrong.
Silence labels nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Protocol

from mono_router.records import Case


class Known(Protocol):
    """What labels need to know of a request beside its decision."""

    @property
    def feedback(self) -> str: ...


def labelled(
    rows: Iterable[Mapping[str, object]], known: Mapping[str, Known], worked: Mapping[str, str] | None = None
) -> list[Case]:
    """Return the cases among rows whose message was kept.

    Parameters
    ----------
    known
        Outcome and feedback by request.
    worked
        Tool that finally worked, by request; "" = no tool was right.
    """
    found = []
    for row in rows:
        request, message = str(row["id"]), str(row["message"])
        if row["kept"] != "keep" or not message.strip():
            continue
        fold = known.get(request)
        expected: tuple[str, ...] | None = None
        source = ""
        if worked is not None and request in worked:
            expected, source = ((worked[request],) if worked[request] else ()), "worked"
        elif fold is not None and fold.feedback == "up" and row["outcome"] in ("call", "ask", "no_tool"):
            calls = json.loads(str(row["calls"]))
            expected, source = tuple(dict.fromkeys(call[0] for call in calls)), "up"
        if expected is not None:
            found.append(
                Case(
                    id=request,
                    message=message,
                    expected_tools=expected,
                    language=str(row["language"]),
                    tags=(f"journal:{source}",),
                    # Messages of a session speak of one thing: intervals must not count them as many.
                    group=f"session {row['session']}" if row["session"] else request,
                )
            )
    return found
