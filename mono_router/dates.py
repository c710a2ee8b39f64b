"""Dates and clock times in English, Arabic and Spanish: text and ``now`` in, spans with ISO values out.

Words become symbols first ("tomorrow", «mañana» and «بكرة» are all ``R1``), so that one small grammar
serves the three languages; dateparser is asked only where the grammar finds nothing and a number stands
beside a word of time. The rules where people differ:

- A weekday alone, "this" or "coming" is the first one strictly after today. English "next friday" is the
  Friday of the next week (Monday first); «el próximo viernes» and «الجمعة القادمة» the first after today.
- 3/4 is 4 March in English, 3 April in Spanish and Arabic, unless the other order alone is possible.
- A date without a year is the next one, today included. A bare hour is read on the 24-hour clock and is not
  ``certain``; a part of the day moves it. The weekend is Saturday and Sunday, in Arabic Friday and Saturday.
"""

from __future__ import annotations

import calendar
import dataclasses
import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mono_router.date_rules import Piece, scan
from mono_router.date_words import LEXICONS, Line, read_line


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeSpan:
    """A date, a clock time or both, and where in the text it was said."""

    start: int
    """Offset of its first character."""
    end: int
    """Offset behind its last character."""
    text: str
    kind: str
    """"date", "time", "datetime", "range", or "part" (a part of the day alone, which has no value)."""
    date: str | None = None
    """YYYY-MM-DD; the first day of a range."""
    time: str | None = None
    """HH:mm; the first time of a range."""
    end_date: str | None = None
    """Last day of a range."""
    end_time: str | None = None
    certain: bool = True
    """Whether am or pm is known: said, or an hour of the 24-hour clock. "at 5" is not certain."""
    day_text: str | None = None
    """The words of the day alone: "tomorrow" in "at 5 tomorrow morning"."""
    clock_text: str | None = None
    """The words of the clock time alone."""
    end_text: str | None = None
    """The words of the second end of a range, where it has its own: "June 9" in "June 3 to June 9"."""
    part_text: str | None = None
    """The words of the part of the day alone."""


_ZONE = re.compile(r"\s*\[!?([^\]]+)\]\s*$")


@lru_cache(maxsize=256)
def parse_now(now: str) -> dt.datetime:
    """Return an aware datetime from ISO 8601 with an offset and, optionally, an RFC 9557 zone.

    Raises
    ------
    ValueError
        If the text is no ISO date and time, carries no offset, or names an unknown zone.

    >>> parse_now("2026-03-28T09:30:00+01:00[Europe/Madrid]").tzname()
    'CET'
    """
    found = _ZONE.search(now)
    try:
        moment = dt.datetime.fromisoformat(now[: found.start()].strip() if found else now.strip())
    except ValueError:
        raise ValueError(f"now must be an ISO 8601 date and time, got {now!r}") from None
    if found:
        from zoneinfo import ZoneInfo

        try:
            zone = ZoneInfo(found.group(1))
        except (KeyError, ValueError, OSError):
            raise ValueError(f"now must name a known time zone, got {now!r}") from None
        return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)
    if moment.tzinfo is None:
        raise ValueError(f"now must carry an offset or a zone, got {now!r}")
    return moment


# --- from pieces to spans ---------------------------------------------------------------------------

_GLUE = frozenset(", at @ on the in by of las Ud from".split())
_RANGE = frozenset("to till ~ -".split())


def _merged(one: Piece, two: Piece) -> Piece | None:
    """Both as one, or None where they say the same kind of thing twice."""
    if (one.clock and two.clock) or (one.part and two.part and one.part != two.part):
        return None
    day = two if one.day is None else one
    if one.day and two.day:
        if one.loose == two.loose:
            return None
        weekday, day = (one, two) if one.loose else (two, one)
        if day.until and weekday.day and day.day:
            ahead = (weekday.day.weekday() - day.day.weekday()) % 7
            day = Piece(day=day.day + dt.timedelta(days=ahead))
        else:
            day = Piece(day=day.day)
    clock = two if two.clock else one
    return dataclasses.replace(
        one, last=two.last, spoken=True, day=day.day, until=day.until, loose=day.loose, clock=clock.clock,
        fixed=clock.fixed, part=one.part or two.part, tonight=one.tonight or two.tonight,
        spans={**one.spans, **two.spans},
    )  # fmt: skip


def _grouped(line: Line, pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces with nothing but small words between them, as one."""
    groups: list[Piece] = []
    for piece in pieces:
        piece.tonight = piece.part == "n" or line.symbols[piece.first : piece.last] == ("R0",)
        gap = line.symbols[groups[-1].last : piece.first] if groups else ()
        if groups and len(gap) <= 3 and _GLUE.issuperset(gap):
            merged = _merged(groups[-1], piece)
            if merged is not None:
                groups[-1] = merged
                continue
        groups.append(piece)
    return [group for group in groups if group.day or group.clock or group.spoken]


def _on_the_clock(piece: Piece) -> None:
    """Apply the part of the day to the hour."""
    if piece.clock is None or piece.part == "":
        return
    hour, minute = piece.clock
    part = piece.part
    if hour <= 12 and not (piece.fixed and part not in "AP"):
        if part in "Aml":
            hour %= 12
        elif part == "d":
            hour += 12 if hour < 6 else 0
        elif part in "Pa" or (part == "e" and hour < 12):
            hour = hour % 12 + 12
        elif part in "en":
            hour = 0 if hour == 12 else hour + 12 if hour > 4 else hour
        piece.fixed = True
    if piece.tonight and hour < 5 and piece.day:
        piece.day += dt.timedelta(days=1)
    piece.clock = (hour, minute)


def _widen(line: Line, group: Piece, before: Piece | None) -> None:
    """Widen a group by the bare number of "3 to 5 pm", "from 3 to 5 June" or "June 3-5"."""
    symbols, first, last = ("", "", "", "", *line.symbols, "", "", ""), group.first + 4, group.last + 4
    skip = first - (symbols[first - 1] in ("las", "@", "the", "at"))
    number, link = symbols[skip - 2 : skip]
    opened = symbols[skip - 4 if symbols[skip - 3] in ("las", "the") else skip - 3]
    claimed = before is not None and before.last + 4 > skip - 2
    if claimed and before is not None and not (before.bare and before.last + 4 <= skip - 1):
        number = ""
    if number[:1] in ("D", "C") and (link in _RANGE or (link == "and" and opened == "between")):
        value, free = int(number[1:]), not group.until and not group.loose
        if group.clock and group.fixed and value <= 12 and (group.part or opened in ("from", "between")):
            hour = value + 12 if group.clock[0] > 12 and value % 12 + 12 < group.clock[0] else value
            group.until_clock, group.clock = group.clock, (hour, 0)
        elif group.day and not group.clock and free and 0 < value < group.day.day:
            group.until, group.day = group.day, group.day.replace(day=value)
        else:
            return
        group.first = skip - 2 - 4
        if claimed and before is not None:
            before.last = 0
    elif symbols[last] in _RANGE and symbols[last + 1][:1] in ("D", "O") and group.day and not group.clock:
        value = int(symbols[last + 1][1:])
        month = any(symbol[0] in "mM" for symbol in symbols[first:last])
        longest = calendar.monthrange(group.day.year, group.day.month)[1]
        if month and symbols[last + 2] not in (":", "/") and group.day.day < value <= longest:
            group.until, group.last = group.day.replace(day=value), group.last + 2


def _ranged(line: Line, groups: Sequence[Piece]) -> list[Piece]:
    """Join the two ends of "from 3 June to 5 June" and "9 am - 5 pm"."""
    found: list[Piece] = []
    for group in groups:
        if found and _is_end(line, found[-1], group):
            before = found[-1]
            if group.clock:
                before.day = before.day or group.day
                before.until = group.day if before.day != group.day else None
                before.until_clock = group.clock
            else:
                before.until = group.day
            before.last = group.last
            before.spans["end"] = (group.first, group.last)
        else:
            found.append(group)
    return found


def _is_end(line: Line, before: Piece, group: Piece) -> bool:
    gap = line.symbols[before.last : group.first]
    link = gap[0] if gap and _GLUE.issuperset(gap[1:]) else ""
    between = link == "and" and before.first > 0 and line.symbols[before.first - 1] == "between"
    if not (link in _RANGE or between) or before.until or before.until_clock or group.until:
        return False
    if group.clock:
        return before.clock is not None
    return bool(before.day and group.day and not before.clock)


def _span(line: Line, group: Piece) -> TimeSpan:
    first, bounds = group.first, line.bounds
    # The cue of a clock time («الساعة», "a las") belongs to the phrase; "the" before an ordinal does not.
    if line.symbols[first] == "the" and line.symbols[first + 1][0] == "O":
        first += 1
    start, end = bounds[first][0], bounds[group.last - 1][1]
    spans = dict(group.spans)
    if "clock" in spans and "part" in spans:  # "five in the afternoon" is one clock time
        (low, high), (left, right) = spans["clock"], spans["part"]
        spans["clock"] = (left if right == low else low, right if left == high else high)
    said = {
        f"{name}_text": line.text[bounds[low][0] : bounds[high - 1][1]] for name, (low, high) in spans.items()
    }
    if group.until or group.until_clock:
        kind = "range"
    elif group.day:
        kind = "datetime" if group.clock else "date"
    else:
        kind = "time" if group.clock else "part"
    return TimeSpan(
        start=start,
        end=end,
        text=line.text[start:end],
        kind=kind,
        date=group.day.isoformat() if group.day else None,
        time=_hhmm(group.clock),
        end_date=group.until.isoformat() if group.until else None,
        end_time=_hhmm(group.until_clock),
        certain=group.fixed or not group.clock,
        **said,
    )


def _hhmm(clock: tuple[int, int] | None) -> str | None:
    return f"{clock[0]:02d}:{clock[1]:02d}" if clock else None


def find_times(
    text: str, now: str | None, *, languages: Sequence[str] = ("en", "ar", "es")
) -> tuple[TimeSpan, ...]:
    """Return the dates and clock times that a text says, in order, with their ISO values.

    Parameters
    ----------
    text : str
        A message of a user.
    now : str or None
        Local date and time with offset, optionally with a zone (:func:`parse_now`). None = only dates with a
        year and clock times are read.
    languages : sequence of str
        Some of "en", "ar", "es"; a message that shows no language of its own is read as the first.

    Raises
    ------
    ValueError
        If ``now`` is malformed or a language is unknown.

    >>> now = "2026-03-10T09:30:00+01:00[Europe/Madrid]"
    >>> [(s.text, s.date, s.time) for s in find_times("pasado mañana a las siete y media de la tarde", now)]
    [('pasado mañana a las siete y media de la tarde', '2026-03-12', '19:30')]
    >>> [(s.date, s.time) for s in find_times("بكرة الساعة ٧ ونص مساء", now)]
    [('2026-03-11', '19:30')]
    >>> find_times("I may want 2 tickets", now)
    ()
    """
    unknown = [name for name in languages if name not in LEXICONS]
    if unknown:
        raise ValueError(f"languages must be among 'en', 'ar' and 'es', got {unknown[0]!r}")
    moment = None if now is None else parse_now(now)
    line = read_line(text, languages)
    found: list[TimeSpan] = []
    if line is not None:
        groups = _grouped(line, scan(line, moment))
        for index, group in enumerate(groups):
            _on_the_clock(group)
            _widen(line, group, groups[index - 1] if index else None)
        for group in _ranged(line, [group for group in groups if group.last]):
            span = _span(line, group)
            # One word may give two symbols ("tonight"); it belongs to one span only.
            if not found or span.start >= found[-1].end:
                found.append(span)
    # dateparser needs milliseconds a word, and a long text holds much that it takes for a date.
    if not found and moment is not None and len(text) <= 300 and _OTHER.search(text):
        found = _by_dateparser(text, moment, languages)
    return tuple(found)


# A count beside a unit of time and a direction: what dateparser may know and the grammar does not.
_OTHER = re.compile(
    r"\d.*\b(?:ago|decades?|fortnights?|hence|later|earlier|utc|gmt)\b|\bhace\b.*\d|\d.*\b(?:despu[eé]s)\b",
    re.IGNORECASE | re.DOTALL,
)


def _by_dateparser(text: str, now: dt.datetime, languages: Sequence[str]) -> list[TimeSpan]:
    from dateparser.search import search_dates

    settings = {"RELATIVE_BASE": now.replace(tzinfo=None), "PREFER_DATES_FROM": "future"}
    found = []
    position = 0
    for said, moment in search_dates(text, languages=list(languages), settings=settings) or ():
        start = text.find(said, position)
        # A bare number or a bare word is no date: "2", "may", "second".
        if start < 0 or not re.search(r"\d", said) or not re.search(r"[^\W\d_]{3}", said):
            continue
        position = start + len(said)
        clock = re.search(r"\d:\d\d|hour|minute|hora|minuto", said) is not None
        found.append(
            TimeSpan(
                start=start,
                end=position,
                text=said,
                kind="datetime" if clock else "date",
                date=moment.date().isoformat(),
                time=f"{moment:%H:%M}" if clock else None,
            )
        )
    return found
