"""Values of one form: choices, switches, times, numbers, addresses and codes, read for a slot.

One reader a kind of slot, in :data:`READERS`; each takes a reading and yields values with their scores.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mono_router.dates import TimeSpan, parse_now
from mono_router.pairing import Found, Reading, runs
from mono_router.slots import Slot, roots, same_root
from mono_router.value_words import NEGATIONS, UNITS, stem_set, word_set
from mono_router.values import Number, figure, overlaps

_Read = Iterator[Found]


def _read_enum(reading: Reading) -> _Read:
    slot, message = reading.slot, reading.message
    # "one-stop" reads as two words, in the value and in the message.
    tokens = [token for token in message.tokens if token.text not in "-_/"]
    said = tuple(token.stem for token in tokens)
    matches: list[tuple[float, int, int, Any]] = []
    for i, word in enumerate(said):
        for phrase, value in slot.options.get(word, ()):
            size = len(phrase)
            plain = size == 1 and tokens[i].text.islower() and not word.isdigit()
            # "una" is no "uña", though both read alike without their marks.
            small = plain and (
                len(word) < 3 or (tokens[i].text.isascii() and tokens[i].norm in message.articles)
            )
            if said[i : i + size] == phrase and not (
                small and (tokens[i].norm in message.stops or tokens[i].norm in message.prepositions)
            ):
                matches.append((4.0 + size + min(len("".join(phrase)), 12) / 24, i, i + size, value))
        kin = [slot.roots[word]] if word in slot.roots else []
        kin += [v for root in roots(word) for phrase, v in slot.options.get(root, ()) if phrase == (root,)]
        matches.extend((3.5, i, i + 1, value) for value in kin)
    if slot.many and matches:
        values = list(dict.fromkeys(value for *_, value in matches))
        low, high = matches[0][1], max(last for _, _, last, _ in matches)
        yield Found(5.0, tokens[low].start, tokens[high - 1].end, values, slot.name)
        return
    key = "enum" + str(sorted(map(str, slot.schema.get("enum", ()))))
    for score, first, last, value in matches:
        score += reading.near(first, last) / 6
        yield Found(score, tokens[first].start, tokens[last - 1].end, value, key)


_AVOIDING = stem_set("avoid exclude skip no")


def _read_boolean(reading: Reading) -> _Read:
    content, message = reading.slot.content, reading.message
    for i, token in enumerate(message.tokens):
        word = token.stem
        if word in content or (len(word) > 4 and any(same_root(word, other) for other in content)):
            hits = len(content.intersection(message.stems))
            if hits * 2 >= len(content):
                before = {token.norm for token in message.tokens[max(0, i - 3) : i]}
                after = {token.norm for token in message.tokens[i + 1 : i + 3]}
                denied = bool(before & NEGATIONS or after & {"avoided", "free"})
                value = denied == bool(_AVOIDING.intersection(reading.slot.words))
                yield Found(2.0 + hits, token.start, token.end, value, "bool" + reading.slot.name)
            return


_CORRECTIONS = word_set("wait rather actually mean digo mejor prefiero sorry perdón قصدي اقصد أقصد")
# A change of date has an old and a new value, which are no two ends of a range.
_MOVED = word_set("new old current original")


def _read_time(reading: Reading) -> _Read:
    slot, message = reading.slot, reading.message
    if not message.times:
        return
    kinds = {other.kind for other in reading.slots if other is not slot}
    closing = reading.paired and slot.role == 1
    places = (0, len(message.times) - 1)
    for place, span in enumerate(message.times):
        first, last = message.token_range(span.start, span.end)
        fit = reading.near(first, last) / 2
        if span.date and re.search(r"\d{4}", span.text):
            fit += 0.5  # the full date beside "tomorrow" or "this weekend" is the exact one
        # "no wait", "mejor" or the like before a value: it replaces an earlier one.
        fit += 1.5 * any(t.norm in _CORRECTIONS for t in message.tokens[max(0, first - 3) : first])
        if reading.paired and len(message.times) > 1 and place == places[slot.role]:
            fit += 0.4
        whole = span.kind == "range" and span.end_date and slot.format == "date"
        if whole and (not reading.paired or _MOVED.intersection(slot.words)):
            continue
        for value, score, ending in _time_values(slot, span, message.now, reading.plan.open_hours, kinds):
            if value and (closing or not ending):
                key = f"{slot.kind}{ending}"
                yield Found(score + fit + 2.5 * ending, span.start, span.end, value, key)


def _time_values(
    slot: Slot, span: TimeSpan, now: str | None, hours: tuple[int, int] | None, kinds: set[str]
) -> Iterator[tuple[str | None, float, bool]]:
    """Values of a time for one slot, with their score and whether each is the end of a range."""
    clock, closing = (_opened(time, span.certain, hours) for time in (span.time, span.end_time))
    if slot.format == "date":
        yield span.date, 8.0, False
        yield span.end_date or (span.date if span.end_time else None), 8.0, True
    elif slot.format == "time":
        yield clock, 8.0, False
        yield closing, 8.0, True
    elif slot.format == "date-time":
        yield _moment(span.date, clock, now), 8.0, False
    elif span.end_text and slot.role == 1 and not slot.format and slot.kind != "part":
        yield _bare(span.end_text), 6.0, True
    elif slot.kind == "part":
        yield _PART_CUES.sub("", span.part_text or ""), 6.0, False
    elif stated := _stated_format(slot, span, clock, now):
        yield stated, 6.0, False
    elif slot.kind == "date" and span.day_text and "time" in kinds:
        # "in three hours" is a time, not a day.
        yield _bare(span.day_text), 2.0 if span.day_text == span.clock_text else 6.0, False
    elif slot.kind == "date":
        yield _bare(span.text) if span.date else None, 6.0, False
    elif span.clock_text and "date" in kinds:
        yield _bare(span.clock_text), 6.0, False
    elif span.time or "date" not in kinds:
        yield _bare(span.text), 6.0 if span.time else 4.0, False


_PART_CUES = re.compile(r"^(?:in the|at|por la|de la|en la|a la|في)\s+", re.IGNORECASE)
_LEADING = re.compile(r"^(?:the|el|la|las|los|del|a las|a la|يوم|الساعة|الساعه)\s+", re.IGNORECASE)
_DAY_FORMAT = re.compile(r"%Y-%m-%d|yyyy-mm-dd", re.IGNORECASE)
_CLOCK_FORMAT = re.compile(r"%H:%M(:%S)?|hh:mm(:ss)?", re.IGNORECASE)


def _bare(text: str) -> str:
    """The words of a time without the article or cue that leads them."""
    return _LEADING.sub("", text)


def _stated_format(slot: Slot, span: TimeSpan, clock: str | None, now: str | None) -> str | None:
    """The value in the format that the property's description spells out, such as "%Y-%m-%d %H:%M:%S"."""
    if not _DAY_FORMAT.search(slot.description):
        return None
    with_clock = _CLOCK_FORMAT.search(slot.description)
    if not with_clock:
        return span.date
    day = span.date or (parse_now(now).date().isoformat() if now else None)
    return f"{day} {clock}" + (":00" if with_clock.lastindex else "") if day and clock else None


def _opened(clock: str | None, certain: bool, hours: tuple[int, int] | None) -> str | None:
    """A bare hour outside the hours that the schema states, moved by twelve where that is inside them."""
    if clock is None or certain or hours is None:
        return clock
    hour, (low, high) = int(clock[:2]), hours
    return f"{hour + 12}{clock[2:]}" if hour < low <= hour + 12 <= high else clock


def _moment(day: str | None, clock: str | None, now: str | None) -> str | None:
    if clock is None or now is None:
        return None
    current = parse_now(now)
    date = dt.date.fromisoformat(day) if day else current.date()
    moment = dt.datetime.combine(date, dt.time.fromisoformat(clock), tzinfo=current.tzinfo)
    if not day and moment <= current:
        moment += dt.timedelta(days=1)
    return moment.isoformat()


_SCALE_WORDS = stem_set("best max maximum scale total")
_MONEY = stem_set("price cost budget amount fee money salary payment loan principal value income total")


def _read_number(reading: Reading) -> _Read:
    slot, message = reading.slot, reading.message
    if slot.many:
        yield from _read_numbers(reading)
        return
    if not (message.numbers or slot.unit):
        return
    taken = message.spans + message.addresses + [m.span() for m in (*message.phones, *message.codes)]
    after = [*message.stems, ""]
    free = [
        number
        for number in message.numbers
        if not overlaps(number.start, number.end, taken) or (slot.unit and after[number.last] in UNITS)
    ]
    rivals = [Reading(other, message, reading.plan, ()) for other in reading.rivals if not other.many]
    marked = any(number.bound for number in free)
    for number in free:
        near, value = reading.near(number.first, number.last), number.value
        score = near + (1.6 if slot.required else 0.9)
        if any(rival.near(number.first, number.last) > near for rival in rivals):
            score -= 0.8
        if not rivals and len(free) == 1:
            score += 0.7
        if _is_article(reading, number, after[number.last]):
            continue
        if value == 1 and number.text.isalpha():
            score -= 1.2 if len(free) > 1 else 0.4  # "una" and "one" are articles and pronouns too
        minutes = UNITS.get(after[number.last])
        if minutes and slot.unit:
            value, score = value * minutes / slot.unit, score + 2.0
        if marked:
            score += 1.5 if number.bound == bool(_SCALE_WORDS.intersection(slot.words)) else -1.5
        if slot.type == "number" and message.text[number.end : number.end + 1] == "%":
            value = value if slot.hints & {"percent", "percentag"} else round(value / 100, 10)
        if number.money and _MONEY.intersection(slot.words):
            score += 2.5
        yield Found(score, number.start, number.end, value, "number")
    if slot.unit:
        for token in message.tokens:
            if token.norm in _DUALS:
                yield Found(3.5, token.start, token.end, 2 * _DUALS[token.norm] / slot.unit, "number")
        for match in _HALF.finditer(message.text):
            length = 60.0 if match[1] is None else 30.0 if match[1][0].lower() in "hmن" else 15.0
            yield Found(2.5, *match.span(), length / slot.unit, "number")


_ARTICLES = frozenset(("un", "una", "uno"))


def _is_article(reading: Reading, number: Number, after: str) -> bool:
    """Whether "un", "una" or "uno" only leads a noun: "una reunión" counts nothing else."""
    counted = after in UNITS or after in reading.slot.words or after in reading.slot.hints
    return number.text.lower() in _ARTICLES and bool(after) and after[0].isalpha() and not counted


# Arabic says "two hours" in one word.
_DUALS = {
    word: minutes
    for said, minutes in (
        ("دقيقتين دقيقتان", 1), ("ساعتين ساعتان", 60), ("يومين يومان", 1440), ("أسبوعين أسبوعان", 10080),
    )
    for word in word_set(said)
}  # fmt: skip
_HALF = re.compile(
    r"\b(?:(?:an?|one|una?) )?(half an|half|quarter of an|media|cuarto de|نص|نصف|ربع)? ?"
    r"(?:hour|hora|ساعة|ساعه)\b",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\[([^\[\]]+)\]")
_NUMBERS_PARTED = re.compile(r"[\s,،]*(?:and|y|و|&)?[\s,،]*")


def _read_numbers(reading: Reading) -> _Read:
    text = reading.message.text
    for match in _BRACKETED.finditer(text):
        values = [figure(part.strip()) for part in match[1].split(",")]
        if None not in values:
            yield Found(5.0, *match.span(), values, "list")
    for run in runs(text, reading.message.numbers, _NUMBERS_PARTED):
        score = 1.0 + reading.near(run[0].first, run[-1].last)
        yield Found(score, run[0].start, run[-1].end, [number.value for number in run], "list")


def _read_pattern(reading: Reading) -> _Read:
    slot, message = reading.slot, reading.message
    for match in {"email": message.emails, "url": message.urls, "phone": message.phones}[slot.kind]:
        yield Found(9.0, *match.span(), match.group().rstrip(".,;:!?"), "text")
    if slot.kind == "url" and slot.format != "uri":
        for match in _DOMAIN.finditer(message.text):
            yield Found(6.0, *match.span(), match.group(), "text")


_DOMAIN = re.compile(
    r"\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|io|es|dev|app|edu|gov)\b(?:/\S*)?", re.IGNORECASE
)
_ID_CUES = word_set("id number no code ref reference # order numero número código pedido رقم كود الطلب رقمه")


def _read_id(reading: Reading) -> _Read:
    message = reading.message
    for match in message.codes:
        if not overlaps(*match.span(), message.addresses):
            score = 6.0 + reading.near(*message.token_range(*match.span())) / 2
            yield Found(score, *match.span(), match.group().lstrip("#"), "text")
    for number in message.numbers:
        if number.text.isdecimal() and not overlaps(number.start, number.end, message.spans):
            before = {token.norm for token in message.tokens[max(0, number.first - 2) : number.first]}
            score = reading.near(number.first, number.last) + 3.0 * bool(before & _ID_CUES)
            yield Found(score + 1.5 * (len(number.text) >= 4), number.start, number.end, number.text, "text")
    for quote in message.quotes:
        yield Found(3.0 + reading.near(quote.first, quote.last), quote.start, quote.end, quote.text, "text")


READERS: Mapping[str, Callable[[Reading], _Read]] = {
    "enum": _read_enum, "boolean": _read_boolean, "number": _read_number, "id": _read_id,
    "date": _read_time, "time": _read_time, "part": _read_time, "datetime": _read_time,
    "email": _read_pattern, "url": _read_pattern, "phone": _read_pattern,
}  # fmt: skip
"""Readers by the kind of slot."""
