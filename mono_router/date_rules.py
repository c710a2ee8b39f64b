"""The grammar of dates and times: a line of symbols in, pieces with days and clock times out.

One table of patterns over symbols, tried in order at every place, each with the function that works out the
value. The calendar arithmetic beside it is where a rule's meaning stands ("next friday", "end of the month").
"""

from __future__ import annotations

import calendar
import dataclasses
import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from mono_router.date_words import Line


@dataclass(slots=True)
class Piece:
    """What one rule read; the fields that a rule does not know stay empty."""

    first: int = 0
    """Index of its first symbol."""
    last: int = 0
    """Index behind its last symbol."""
    day: dt.date | None = None
    until: dt.date | None = None
    clock: tuple[int, int] | None = None
    until_clock: tuple[int, int] | None = None
    part: str = ""
    fixed: bool = False
    """Whether am or pm is known."""
    loose: bool = False
    """Whether the day is a weekday, which a full date or a week beside it overrules."""
    tonight: bool = False
    bare: bool = False
    """Whether it is a number alone, which the other end of a range may claim."""
    spans: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """Symbols that the day, the clock and the part came from."""
    spoken: bool = True
    """False for a bare "morning", which means nothing without a day or an hour."""


@dataclass(frozen=True, slots=True)
class _Context:
    now: dt.datetime | None
    language: str

    @property
    def today(self) -> dt.date:
        if self.now is None:
            raise _Unknown
        return self.now.date()


class _Unknown(Exception):
    """A relative expression met no ``now``, or the calendar has no such day."""


def _months_on(day: dt.date, months: int) -> dt.date:
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    return dt.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _days_on(day: dt.date, unit: str, count: int) -> dt.date:
    if unit in "my":
        return _months_on(day, count * (12 if unit == "y" else 1))
    return day + dt.timedelta(days=count * (7 if unit == "w" else 1))


def _dated(context: _Context, day: int, month: int, year: int | None) -> dt.date:
    """The date, or the next one of that day and month where the year is left out."""
    if year is not None:
        return dt.date(year + 2000 if year < 100 else year, month, day)
    today = context.today
    for ahead in range(9):
        try:
            found = dt.date(today.year + ahead, month, day)
        except ValueError:
            continue
        if found >= today:
            return found
    raise _Unknown


def _period(context: _Context, unit: str, ahead: int) -> tuple[dt.date, dt.date]:
    """First and last day of this (0) or the next (1) week, weekend, month or year."""
    today = context.today
    monday = today - dt.timedelta(days=today.weekday())
    if unit == "w":
        first = monday + dt.timedelta(weeks=ahead)
        return first, first + dt.timedelta(days=6)
    if unit == "k":
        first = monday + dt.timedelta(weeks=ahead, days=4 if context.language == "ar" else 5)
        if ahead == 0 and first + dt.timedelta(days=1) < today:
            first += dt.timedelta(weeks=1)
        return first, first + dt.timedelta(days=1)
    if unit == "y":
        return dt.date(today.year + ahead, 1, 1), dt.date(today.year + ahead, 12, 31)
    first = _months_on(today.replace(day=1), ahead)
    return first, _months_on(first, 1) - dt.timedelta(days=1)


_AHEAD = {"next": 1, "soon": 1, "soon2": 2, "last": -1, "past next": 2, "this": 0, "": 0}
_FRACTIONS = {"half": 1 / 2, "quarter": 1 / 4, "third": 1 / 3}
_Groups = dict[str, str]
"""What the named groups of a rule matched; those that took no part are left out."""
_Rule = Callable[[_Groups, _Context], Piece | None]


def _read_date(groups: _Groups, context: _Context) -> Piece:
    month, year = int(groups["m"]), int(groups["y"]) if "y" in groups else None
    if "d" in groups:
        return Piece(day=_dated(context, int(groups["d"]), month, year))
    if year is None and context.today.month == month:
        first = context.today.replace(day=1)
    else:
        first = _dated(context, 1, month, year)
    return Piece(day=first, until=_months_on(first, 1) - dt.timedelta(days=1))


def _read_numeric(groups: _Groups, context: _Context) -> Piece | None:
    one, two = int(groups["a"]), int(groups["b"])
    year = int(groups["y"]) if "y" in groups else None
    if year is None and (one, two) in ((24, 7), (50, 50)):
        return None
    month_first = context.language == "en"
    if (one if month_first else two) > 12:
        month_first = not month_first
    month, day = (one, two) if month_first else (two, one)
    return Piece(day=_dated(context, day, month, year))


def _read_weekday(groups: _Groups, context: _Context) -> Piece | None:
    weekday, modifier, today = int(groups["w"]), groups.get("n", ""), context.today
    ahead = (weekday - today.weekday() - 1) % 7 + 1
    if modifier == "last":
        ahead = (weekday - today.weekday()) % 7 - 7
    elif modifier == "soon2":
        ahead += 7
    elif modifier in ("next", "past next"):
        ahead = (7 if modifier == "next" else 14) - today.weekday() + weekday
    return Piece(day=today + dt.timedelta(days=ahead), loose=True)


def _read_relative(groups: _Groups, context: _Context) -> Piece | None:
    return Piece(day=context.today + dt.timedelta(days=int(groups["r"])))


def _read_ahead(groups: _Groups, context: _Context) -> Piece | None:
    """ "in 2 hours", "3 days ago": hours are elapsed time, days are dates."""
    unit, sign = groups["u"], -1 if "ago" in groups else 1
    # «من يومين» and «بعد شهر» say so without a count or a further word; "from" and "in" do not.
    if context.language != "ar" and ("bare" in groups or groups.get("ago") == "from"):
        return None
    count = 0.0 if "only" in groups else float(groups.get("c", 1))
    count += _FRACTIONS.get(groups.get("f", ""), 0)
    if unit in "hi":
        if context.now is None:
            raise _Unknown
        minutes = count * (60 if unit == "h" else 1) + int(groups.get("i", 0))
        moment = context.now.astimezone(dt.UTC) + dt.timedelta(minutes=sign * round(minutes))
        moment = moment.astimezone(context.now.tzinfo)
        return Piece(day=moment.date(), clock=(moment.hour, moment.minute), fixed=True)
    if "f" in groups and unit != "w":
        return None
    start = context.today + dt.timedelta(days=int(groups.get("r", 0)))
    if "w" in groups:
        start += dt.timedelta(days=(int(groups["w"]) - start.weekday() - 1) % 7 + 1)
    return Piece(day=_days_on(start, unit, sign * int(count)))


def _read_period(groups: _Groups, context: _Context) -> Piece | None:
    if "n" not in groups and groups["u"] != "k":
        return None
    first, last = _period(context, groups["u"], _AHEAD[groups.get("n", "")])
    return Piece(day=first, until=last)


def _read_edge(groups: _Groups, context: _Context) -> Piece | None:
    """The end or the start of a week, a month or a year."""
    if "m" in groups:
        month = _read_date({name: groups[name] for name in ("m", "y") if name in groups}, context)
        first, last = month.day, month.until
    else:
        ahead = _AHEAD[groups.get("n", "")]
        first, last = _period(context, groups["u"], ahead)
        if groups["edge"] == "start" and ahead == 0 and first < context.today:
            first, last = _period(context, groups["u"], 1)
    return Piece(day=first if groups["edge"] == "start" else last)


def _read_day(groups: _Groups, context: _Context) -> Piece | None:
    """A day of the month: "the 14th", «el 5 del mes que viene», «يوم ١٤»."""
    day, today = int(groups["d"]), context.today
    if "of" in groups:
        return Piece(day=_months_on(today.replace(day=1), _AHEAD[groups.get("n", "")]).replace(day=day))
    weekday = int(groups["w"]) if "w" in groups else None
    for ahead in range(4 if weekday is None else 13):
        first = _months_on(today.replace(day=1), ahead)
        if day <= calendar.monthrange(first.year, first.month)[1]:
            found = first.replace(day=day)
            if found >= today and weekday in (None, found.weekday()):
                return Piece(day=found, bare=weekday is None)
    return None


def _read_clock(groups: _Groups, context: _Context) -> Piece | None:
    hour, minute, part = int(groups["h"]), int(groups.get("i", 0)), groups.get("p", "")[-1:]
    if fraction := groups.get("f"):
        minute = round(60 * _FRACTIONS[fraction]) if fraction in _FRACTIONS else int(fraction[1:])
    if "minus" in groups:
        hour, minute = (hour - 1) % 24 or (12 if hour <= 12 else 0), 60 - minute
    written = "h24" in groups or hour > 12 or hour == 0 or groups["h"][0] == "0"
    if hour > 24 or minute > 59 or (part in ("A", "P") and hour > 12 and not groups.get("i")):
        return None
    return Piece(clock=(hour % 24, minute), fixed=written, part=part)


def _read_named_clock(groups: _Groups, context: _Context) -> Piece | None:
    return Piece(clock=(int(groups["t"]), 0), fixed=True)


def _read_part(groups: _Groups, context: _Context) -> Piece | None:
    return Piece(part=groups["p"][-1], spoken=groups["p"][0] == "P")


# What may stand behind a day of the month; a noun ("the 5th floor") may not.
_FOLLOW = (
    r"(?=$|, |\| |~ |- |@ |at |on |by |in |to |till |and |P|q|T|Y|R|from |past |this |next |soon |a |ok |"
    r"the |las |D\d+ : )"
)
_NO_NOUN = r"(?!xs |U|: |[DC]\d|- D|/ )"
_THE = r"(?:the |las )?"
_ANY, _N, _N2 = r"[DCO](?P<d>\d+) ", r"[DC](?P<c>\d+) ", r"[DC](?P<c2>\d+) "
_MONTH = r"[Mm](?P<m>\d+) "
_YEAR = r"(?:(?:of |, |of the |on )?(?:Uy )?Y(?P<y>\d+) )?"
_NEXT = r"(?P<n>next |this |last |soon |soon2 )?"
_AFTER = r"(?P<n2>(?:next |this |last |soon |soon2 |past next )(?!U))?"
_PART = r"(?:(?P<p>P[AP]) )?"
_FRACTION = r"(?P<f>half|quarter|third|[DC]\d+) (?:Ui )?(?!xs )"
# Tried in this order at every symbol; the first that reads something wins. A name that is needed twice takes
# a digit at its end. An empty group (?P<es>) or
# (?P<ar>) keeps a rule to that language, (?P<h24>) says that the hour is on the 24-hour clock.
_RULES: tuple[tuple[str, _Rule], ...] = (
    (r"Y(?P<y>\d+) ([-/.]) D(?P<m>\d+) \2 D(?P<d>\d+) (?:h (?=D))?", _read_date),
    (r"D(?P<a>\d+) ([-/.]) D(?P<b>\d+) \2 [YD](?P<y>\d{4}|\d\d) ", _read_numeric),
    (r"D(?P<a>\d+) / D(?P<b>\d+) (?!of xs? |of las xs? |/ |xs |x )", _read_numeric),
    (rf"(?:the )?(?:Ud )?{_ANY}(?:Ud )?(?:of |from |of the )?(?:Um )?M(?P<m>\d+) {_YEAR}", _read_date),
    (rf"(?:the )?{_ANY}(?:of |from )m(?P<m>\d+) {_YEAR}", _read_date),
    (rf"(?:the )?(?:Ud )?{_ANY}m(?P<m>\d+) {_YEAR}{_FOLLOW}", _read_date),
    (rf"M(?P<m>\d+) (?:the )?{_ANY}(?!: |U|P[AP] |oclock |/ ){_YEAR}", _read_date),
    (rf"(?<!I )m(?P<m>\d+) (?:the )?{_ANY}(?!: |U|P[AP] |oclock |/ ){_YEAR}{_FOLLOW}", _read_date),
    (r"(?<!I )m(?P<m>\d+) D(?P<d>\d+) (?!: |U|P[AP] |oclock |/ |xs |D|C|- )", _read_date),
    (rf"{_MONTH}(?:of |of the |, )?(?:Uy )?Y(?P<y>\d+) ", _read_date),
    (rf"(?:(?<=in )|(?<=this )|(?<=next )|(?<=soon )){_MONTH}", _read_date),
    (r"(?<=on )M(?P<m>\d+) ", _read_date),
    (
        rf"(?:the )?(?P<edge>end|start|lastday) (?:of |of the |from )?{_THE}{_NEXT}"
        rf"(?:U(?P<u>[wmyk]) {_AFTER}|{_MONTH}{_YEAR})",
        _read_edge,
    ),
    (rf"{_THE}(?P<n>next |this )?U(?P<u>[wmy]) (?:s )?(?P<edge>end) (?!U)", _read_edge),
    (rf"(?:the )?(?:Ud )?{_ANY}(?P<of>of the |of |from )(?:the )?{_NEXT}Um {_AFTER}", _read_day),
    (
        r"(?:in )?(?:the )?(?:a |[DC](?P<c>\d+) )?U(?P<u>[dwmy]) (?:from |of the |past |in )(?:the )?"
        r"(?:now |R(?P<r>-?\d+) |W(?P<w>\d) )",
        _read_ahead,
    ),
    (r"in (?:the )?(?P<f>half|quarter|third) (?:of )?(?:a )?(?P<only>U(?P<u>h)) ", _read_ahead),
    (
        rf"in (?:the )?(?:a |{_N})?U(?P<u>[hi]) "
        r"(?:and (?:a )?(?:(?P<f>half|quarter|third) |[DC](?P<i>\d+) Ui ))?",
        _read_ahead,
    ),
    (rf"in (?:the )?(?:a |{_N})U(?P<u>[dwmy]) ", _read_ahead),
    (r"in (?P<bare>)U(?P<u>[dwmy]) ", _read_ahead),
    (rf"(?:a |{_N})U(?P<u>[hidwmy]) (?:and (?:a )?(?P<f>half) )?(?P<ago>ago) ", _read_ahead),
    (
        rf"(?:(?P<ago>hace) (?:a |{_N})?|(?P<ago2>from) {_N2})U(?P<u>[hidwmy]) (?:and (?P<f>half) )?",
        _read_ahead,
    ),
    (r"(?P<f>half|quarter) (?:a )?(?:of a )?(?P<only>U(?P<u>h)) (?P<ago>ago) ", _read_ahead),
    (r"(?P<ago>hace|from) (?P<f>half|quarter|third) (?P<only>U(?P<u>h)) ", _read_ahead),
    (rf"(?:a |{_N})U(?P<u>[hi]) from now ", _read_ahead),
    (rf"{_THE}{_NEXT}U(?P<u>[wkmy]) {_AFTER}", _read_period),
    (r"R(?P<r>-?\d+) ", _read_relative),
    (rf"(?:the )?(?:Ud )?W(?P<w>\d) (?:, )?(?:the )?(?:Ud )?O(?P<d>\d+) {_FOLLOW}", _read_day),
    (rf"(?:the )?(?:Ud )?W(?P<w>\d) (?:Ud )?D(?P<d>\d+) (?!P|q|and |U|minus |D){_FOLLOW}", _read_day),
    (rf"(?:the )?(?:Ud )?{_NEXT}(?:the )?W(?P<w>\d) {_AFTER}", _read_weekday),
    (
        r"(?:(?:(?<=on )|(?<=by )|(?<=till )|(?<=from )|(?<=to ))w(?P<w>\d) |"
        r"(?P<n>next |this |last )w(?P<w2>\d) |Ud w(?P<w3>\d) )" + _AFTER,
        _read_weekday,
    ),
    (rf"(?:the Ud |the )O(?P<d>\d+) {_FOLLOW}", _read_day),
    (rf"(?P<es>)the D(?P<d>\d+) (?!- D)(?!/ D){_FOLLOW}", _read_day),
    (r"(?:the )?Ud [DO](?P<d>\d+) (?!: |U)", _read_day),
    (rf"(?:(?<=on )|(?<=till )|(?<=from )|(?<=to )|(?<=by ))O(?P<d>\d+) {_FOLLOW}", _read_day),
    (
        r"(?:(?<=on )|(?<=by )|(?<=till )|(?<=in )|(?<=the )|(?<=at )|(?<=past ))H(?P<m>\d+)-(?P<d>\d+) ",
        _read_date,
    ),
    (rf"(?:@ )?(?P<h24>)D(?P<h>\d\d) : D(?P<i>\d\d) (?:: D\d\d )?(?:h )?{_PART}", _read_clock),
    (rf"(?:@ )?D(?P<h>\d) : D(?P<i>\d\d) (?:: D\d\d )?(?:h )?{_PART}", _read_clock),
    (r"(?:@ )?D(?P<h>\d+) \. D(?P<i>\d\d) (?P<p>P[AP]) ", _read_clock),
    (r"(?P<h24>)(?:@ |las )?D(?P<h>1[3-9]|2[0-3]|0\d) (?:h|Uh) (?![UxD])", _read_clock),
    (
        r"(?:[DC](?P<i>5|10|20|25) (?:Ui )?|(?:a )?(?P<f>half|quarter) )past [DC](?P<h>\d+) (?:oclock )?"
        + _PART,
        _read_clock,
    ),
    (
        r"(?:(?<!from )(?<!between )C(?P<i>5|10|20|25) |[DC](?P<i2>\d+) Ui |(?:a )?(?P<f>quarter) )"
        rf"(?P<minus>to )[DC](?P<h>\d+) (?:oclock )?{_PART}",
        _read_clock,
    ),
    (rf"(?:@ |las )[DCOF](?P<h>\d+) (?:and )?(?P<minus>minus ){_FRACTION}{_PART}", _read_clock),
    (rf"@ (?:the )?[DCOF](?P<h>\d+) and {_FRACTION}(?:oclock )?{_PART}", _read_clock),
    (rf"las [DC](?P<h>\d+) and (?P<f>half|quarter) {_PART}", _read_clock),
    (rf"(?P<ar>)[DCOF](?P<h>\d+) and (?P<f>half|quarter|third) {_PART}", _read_clock),
    (rf"(?P<ar>)[DCOF](?P<h>\d+) (?P<minus>minus )(?P<f>quarter|third|[DC]\d+) {_PART}", _read_clock),
    (rf"C(?P<h>\d+) C(?P<i>15|30|45) (?:oclock )?{_PART}{_NO_NOUN}", _read_clock),
    (r"[DC](?P<h>\d+) (?:oclock )?(?P<p>P[AP]) ", _read_clock),
    (r"(?:@ |las )?[DC](?P<h>\d+) oclock ", _read_clock),
    (rf"@ (?:the )?[DCOF](?P<h>\d+) {_PART}{_NO_NOUN}", _read_clock),
    (r"(?:las )?[DC](?P<h>\d+) (?=R0 Pn |P[madenl] )", _read_clock),
    (r"(?P<ar>)[DCOF](?P<h>\d+) (?:Uh )?(?=R0 Pn |P[madenl] |qe )", _read_clock),
    (rf"(?P<p>q[aen]) (?:at )?[DC](?P<h>\d+) {_NO_NOUN}", _read_clock),
    (r"(?P<ar>)(?<=on )F(?P<h>\d+) ", _read_clock),
    (rf"(?:(?<=at )|(?<=till )|(?<=by )|(?<=past ))(?:las )?[DC](?P<h>\d+) {_NO_NOUN}", _read_clock),
    (rf"(?:(?<=from )|(?<=of )|(?<=on ))las [DC](?P<h>\d+) {_NO_NOUN}", _read_clock),
    (r"T(?P<t>\d+) ", _read_named_clock),
    (r"(?P<p>[Pq][a-z]) ", _read_part),
)


@lru_cache(maxsize=1)
def _compiled() -> tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], _Rule], ...]]:
    """All rules as one pattern, whose last group tells the first rule that matches, and each alone."""
    bare = (re.sub(r"\(\?P<\w+>", "(?:", pattern).replace("\\2", "[-/.]") for pattern, _ in _RULES)
    joined = "|".join(f"(?P<r{index}>{pattern})" for index, pattern in enumerate(bare))
    return re.compile(joined), tuple((re.compile(pattern), rule) for pattern, rule in _RULES)


_SKIPPED = frozenset(
    ("x", "xs", "|", ",", "ok", "and", "I", "s", "h", ":", "/", "-", ".", "~", "of", "to", "on", "at")
)


def scan(line: Line, now: dt.datetime | None) -> list[Piece]:
    """Return what the rules read in a line, in order; each stretch is read once."""
    found: list[Piece] = []
    context, joined = _Context(now, line.language), _compiled()[0]
    for position, index in line.places.items():
        if (
            (found and index < found[-1].last)
            or index == len(line.symbols)
            or line.symbols[index] in _SKIPPED
        ):
            continue
        match = joined.match(line.joined, position)
        piece = _read_at(line, position, context, int((match.lastgroup or "")[1:])) if match else None
        if piece is not None:
            found.append(piece)
    return found


def _read_at(line: Line, position: int, context: _Context, first: int) -> Piece | None:
    for pattern, rule in _compiled()[1][first:]:
        match = pattern.match(line.joined, position)
        if match is None:
            continue
        groups = {name: value.strip() for name, value in match.groupdict().items() if value is not None}
        if ("es" in groups and context.language != "es") or ("ar" in groups and context.language != "ar"):
            continue
        groups = {**{name[:-1]: value for name, value in groups.items() if name[-1] in "23"}, **groups}
        try:
            piece = rule(groups, context)
        except (_Unknown, ValueError, OverflowError):
            continue
        if piece is not None:
            piece.first, piece.last = line.places[position], line.places[match.end()]
            part = "" if piece.clock else piece.part
            for name, known in (("day", piece.day), ("clock", piece.clock), ("part", part)):
                if known:
                    piece.spans[name] = (piece.first, piece.last)
            return piece
    return None
