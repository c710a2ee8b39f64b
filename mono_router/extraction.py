"""Arguments of one chosen tool, read from a message by the tool's JSON Schema; no model takes part.

A query and a tool come in, a :class:`~mono_router.records.Filled` goes out. Slots (what the tool asks for)
and what the message carries are paired greedily by score, so that the order of properties plays no part.
Memory fills what the message leaves open. What breaks the schema is dropped; nothing is invented: no default,
no sensitive or system argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mono_router.pairing import Found, Reading
from mono_router.records import Entity, Filled, Memory, Query, Tool
from mono_router.schema import check_arguments, missing_arguments, valid_date, valid_time
from mono_router.slots import KINDS, Plan, Slot, plan_of
from mono_router.text_values import POLITE, read_string
from mono_router.typed_values import READERS
from mono_router.value_words import PRONOUNS, word_set, word_stem
from mono_router.values import Message, carried, overlaps, read_message

_Arguments = dict[str, Any]
_EMPTY = Filled()


def extract(query: Query, tool: Tool) -> Filled:
    """Return the arguments of a chosen tool that the message and the memory give, and what is missing.

    Parameters
    ----------
    query : Query
        Message, memory and now; without now no relative date is read.
    tool : Tool
        The tool that was chosen.

    Returns
    -------
    Filled
        Arguments that satisfy the tool's schema, and JSON pointers of required user arguments that are open.

    Raises
    ------
    ValueError
        If ``query.now`` is malformed.

    >>> tool = Tool(id="book", input_schema={"properties": {"guests": {"type": "integer"},
    ...             "day": {"type": "string", "format": "date"}, "name": {"type": "string"}},
    ...             "required": ["day", "name"]})
    >>> now = "2026-03-10T09:30:00+01:00[Europe/Madrid]"
    >>> filled = extract(Query(message="a table for four people tomorrow", now=now), tool)
    >>> filled.arguments["day"], filled.arguments["guests"], filled.missing
    ('2026-03-11', 4, ('/name',))
    """
    if not tool.input_schema.get("properties"):
        return Filled(missing=missing_arguments(tool, {})) if tool.input_schema.get("required") else _EMPTY
    plan, memory, message = plan_of(tool), query.memory, read_message(query.message, query.now)
    pending = memory.pending if memory is not None else None
    answering = pending is not None and pending.tool == tool.id
    filled: _Arguments = {}
    if pending is not None and answering:
        filled = {s.name: pending.arguments[s.name] for s in plan.slots if s.name in pending.arguments}
    open_ = [slot for slot in plan.slots if slot.name not in filled]
    paired, spans = _paired(message, plan, open_, answering)
    filled |= paired
    if memory is not None:
        if answering:
            _answer(message, plan, filled, spans)
        else:
            _carry_over(message, plan, memory, tool, filled)
        _from_memory(message, plan, memory, filled)
    filled = _checked(tool, plan, filled)
    return Filled(arguments=filled, missing=missing_arguments(tool, filled))


# --- pairing -------------------------------------------------------------------------------------


def _paired(
    message: Message, plan: Plan, slots: Sequence[Slot], answering: bool
) -> tuple[_Arguments, list[tuple[int, int]]]:
    """Pair slots with what the message carries, the best fit first; then the one open text takes the rest.

    With the values, the stretches of the message that they stand in.
    """
    found: list[tuple[Found, Slot]] = []
    chosen: list[tuple[int, int]] = []
    for slot in sorted(slots, key=lambda slot: slot.kind != "enum"):
        reading = Reading(slot, message, plan, slots, chosen)
        read = list(READERS.get(slot.kind, read_string)(reading))
        paired = slot.role >= 0 and reading.paired
        for item in read:
            if paired:
                item = Found(item.score + reading.role_fit(item.start), *item[1:])
            found.append((item, slot))
        if slot.kind == "enum":
            chosen.extend((item.start, item.end) for item in read)
    found.sort(key=lambda pair: (-pair[0].score, pair[1].order, pair[0].start, -pair[0].end))
    filled: _Arguments = {}
    used: dict[str, list[tuple[int, int]]] = {}
    for item, slot in found:
        if slot.name in filled or item.score < _floor(slot, answering):
            continue
        taken = used.setdefault(item.key, [])
        value = None if overlaps(item.start, item.end, taken) else _coerced(slot, item.value)
        if value is not None:
            filled[slot.name] = value
            taken.append((item.start, item.end))
    texts = [
        slot for slot in slots if slot.kind in ("text", "string") and slot.type == "string" and not slot.many
    ]
    texts = [slot for slot in texts if slot.name not in filled and (slot.required or len(plan.slots) == 1)]
    taken_up = [span for spans in used.values() for span in spans]
    if answering and texts and _is_bare(message, taken_up):
        # A bare answer is the value of what was asked for first: "Maria" says to whom, and not what.
        asked = next((s for s in slots if s.required and s.name not in filled and s.kind in _TEXTS), None)
        texts = [slot for slot in texts if slot is asked]
    if len(texts) == 1:
        rest = _remainder(message, plan, message.spans + taken_up)
        value = _coerced(texts[0], rest)
        if value is not None:
            filled[texts[0].name] = value
            start = message.text.find(rest)
            taken_up.append((start, start + len(rest)))
    return filled, taken_up


def _is_bare(message: Message, taken: Sequence[tuple[int, int]]) -> bool:
    """Whether what is left of a message is a few words that ask for nothing."""
    frame = message.stops | message.prepositions
    left = [
        token
        for token in message.tokens
        if token.text[0].isalnum() and token.norm not in frame and not overlaps(token.start, token.end, taken)
    ]
    return len(left) <= 4 and not any(token.verb for token in left)


def _floor(slot: Slot, answering: bool) -> float:
    """The score that a value must reach: guesses for what nobody asked for have to be better."""
    if slot.kind == "number":
        return 0.8
    if slot.required or answering:
        return 1.0
    return 2.0 if slot.kind in ("string", "text", "place", "venue", "person") else 1.5


def _remainder(message: Message, plan: Plan, spans: Sequence[tuple[int, int]]) -> str:
    """The longest stretch between used spans, without the words of the request itself."""
    tokens, best = message.tokens, ""
    stretches: list[list[int]] = [[]]
    for i, token in enumerate(tokens):
        if token.text in _ENDS or overlaps(token.start, token.end, spans):
            stretches.append([])
        else:
            stretches[-1].append(i)
    for run in stretches:
        colon = next((k for k, i in enumerate(run) if tokens[i].text == ":"), None)
        if colon is not None:
            run = run[colon + 1 :] or run
        commas = [k for k, i in enumerate(run) if tokens[i].text in ",،"]
        if commas and len(run) - commas[-1] <= 4:
            run = run[: commas[-1]]
        framing = [_frames(message, plan, i) for i in run]
        while colon is None and framing and framing[0] and not _opens_company(message, run):
            del framing[0], run[0]
        while framing and framing[-1]:
            del framing[-1], run[-1]
        if colon is None:
            run = _without_target(message, plan, run)
        if run:
            text = message.text[tokens[run[0]].start : tokens[run[-1]].end]
            best = text if len(text) > len(best) else best
    return best


_COMPANY = word_set("with con مع")


def _opens_company(message: Message, run: Sequence[int]) -> bool:
    """Whether a noun, of the tool's own words too, opens what is had with somebody: "a meeting with Ana"."""
    if len(run) < 3 or message.tokens[run[1]].norm not in _COMPANY:
        return False
    first = message.tokens[run[0]]
    small = first.norm in message.stops or first.norm in message.prepositions or first.norm in PRONOUNS
    return run[0] > 0 and first.text[0].isalnum() and not small


_INTO = word_set("to on onto in into a al en إلى الى على في ل ب")


def _without_target(message: Message, plan: Plan, run: list[int]) -> list[int]:
    """Without the closing "to the shopping list", which names what the tool is about and no value."""
    tokens = message.tokens
    for k in range(len(run) - 1, 0, -1):
        if tokens[run[k]].norm in _INTO:
            named = [tokens[i] for i in run[k + 1 :]]
            about = [t for t in named if t.norm not in message.stops and t.norm not in message.prepositions]
            return run[:k] if about and all(t.stem in plan.targets for t in about) else run
    return run


_ENDS = frozenset(".!?؟;\n¿¡")


def _frames(message: Message, plan: Plan, i: int) -> bool:
    token = message.tokens[i]
    words = token.norm in message.stops or token.norm in message.prepositions or token.stem in plan.carriers
    words = words or token.norm in PRONOUNS
    return words or token.verb or not token.text[0].isalnum()


# --- checks --------------------------------------------------------------------------------------


def _coerced(slot: Slot, value: Any) -> Any:
    """The value in the property's type, or None where it breaks the property's schema."""
    if not slot.many:
        return _typed(slot, slot.schema, value)
    items = [
        _typed(slot, slot.schema.get("items", {}), item)
        for item in (value if isinstance(value, list) else [value])
    ]
    fits = slot.schema.get("minItems", 0) <= len(items) <= slot.schema.get("maxItems", len(items))
    return items if fits and None not in items else None


def _typed(slot: Slot, schema: Mapping[str, Any], value: Any) -> Any:
    options = schema.get("enum")
    if options:
        if isinstance(value, (bool, float, int)) and not any(
            type(option) is type(value) for option in options
        ):
            said = str(value).lower() if isinstance(value, bool) else f"{value:g}"
            return next((option for option in options if str(option).lower() == said), None)
        return value if any(value == option and type(value) is type(option) for option in options) else None
    if slot.type == "boolean":
        return value if isinstance(value, bool) else None
    if slot.type in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if float(value).is_integer():
            value = int(value)
        elif slot.type == "integer":
            return None
        low, high = schema.get("minimum"), schema.get("maximum")
        return None if (low is not None and value < low) or (high is not None and value > high) else value
    if slot.type != "string":
        return None
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 10**6) or not text:
        return None
    if (slot.format == "date" and not valid_date(text)) or (slot.format == "time" and not valid_time(text)):
        return None
    pattern = schema.get("pattern")
    if pattern is not None:
        try:
            return text if re.search(pattern, text) else None
        except re.error:
            return None
    return text


def _checked(tool: Tool, plan: Plan, filled: _Arguments) -> _Arguments:
    """Without what the schema forbids; kept and remembered values are checked like read ones."""
    by_name = {slot.name: slot for slot in plan.slots}
    good = {name: value for name, value in filled.items() if _coerced(by_name[name], value) is not None}
    while plan.strict and good:
        bad = {rejection.name for rejection in check_arguments(tool, good)}
        if not bad:
            break
        remaining = {name: value for name, value in good.items() if name not in bad}
        good = remaining if len(remaining) < len(good) else {}
    return good


# --- memory --------------------------------------------------------------------------------------

_FOLLOWING = re.compile(
    r"\s*¿?\s*(?:(?:and|what about|how about|also|or|instead|actually|make (?:it|that)|y|que tal|o|mejor|"
    r"qué tal|también|طيب|ماذا عن|وماذا عن)\b|و)",
    re.IGNORECASE,
)
_PRONOUNS: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (
        word_set(
            "her him them she he they hers his ella él ellos ellas le lo la لها له معها معه اليه "
            "اليها إليه إليها عنه عنها"
        ),
        frozenset(("person", "contact", "staff")),
    ),
    (word_set("there here allí allá ahí هناك هنالك"), frozenset(("place", "city", "location"))),
    (
        word_set("it that this same one eso esto mismo misma lo la نفس هذا ذلك ذاك هاد"),
        frozenset(("id", "item", "date", "time", "place", "person", "title")),
    ),
    (word_set("then same entonces mismo وقتها نفس"), frozenset(("date", "time"))),
)


def _answer(message: Message, plan: Plan, filled: _Arguments, spans: Sequence[tuple[int, int]]) -> None:
    """A bare answer ("Maria") is the value of the first text that the pending call still misses.

    What was read for another argument is no second answer: "tomorrow at 5" is a day and a time, no title.
    """
    frame = message.stops | message.prepositions
    left = [t for t in message.tokens if t.text[0].isalnum() and not overlaps(t.start, t.end, spans)]
    if spans and all(t.norm in frame or t.norm in PRONOUNS for t in left):
        return
    slot = next((s for s in plan.slots if s.required and s.name not in filled), None)
    if slot is None or slot.many or slot.kind not in _TEXTS or len(message.tokens) > 12:
        return
    rest = POLITE.sub("", message.text).strip()
    words = [t for t in message.tokens if t.end <= len(rest) + 1]
    while len(words) > 1 and (words[0].norm in message.prepositions or words[0].norm in message.stops):
        del words[0]
    value = _coerced(slot, message.text[words[0].start : len(rest)] if words else rest)
    if value is not None:
        filled[slot.name] = value


_TEXTS = ("string", "text", "place", "venue", "person", "id", "part")


def _carry_over(message: Message, plan: Plan, memory: Memory, tool: Tool, filled: _Arguments) -> None:
    """ "and on saturday?" repeats the last call with what it changes."""
    last = memory.calls[-1] if memory.calls else None
    if last is None or last.tool != tool.id or len(message.tokens) > 8 or not _FOLLOWING.match(message.text):
        return
    # "also put eggs on it" makes a request of its own; "and on saturday?" says what changes alone.
    elliptical = not any(token.verb for token in message.tokens)
    for slot in plan.slots:
        kept = elliptical and slot.kind in ("text", "string")
        if slot.name in last.arguments and (kept or slot.name not in filled):
            filled[slot.name] = last.arguments[slot.name]


def _from_memory(message: Message, plan: Plan, memory: Memory, filled: _Arguments) -> None:
    """Fill gaps with what was mentioned: required ones by type, others where a pronoun refers back."""
    words = {token.norm for i, token in enumerate(message.tokens) if not _leads(message, i)}
    referred = {kind for pronouns, kinds in _PRONOUNS if words & pronouns for kind in kinds}
    entities = sorted((e for e in memory.entities if not e.secret), key=lambda e: -e.turn)
    for slot in plan.slots:
        for entity in entities:
            wanted = slot.required or entity.type in referred
            if slot.name not in filled and not slot.many and wanted and _fits(entity, slot):
                value = _coerced(slot, entity.value)
                if value is not None:
                    filled[slot.name] = value


_LEADING = word_set("la lo los las that")
_DETERMINERS = word_set("i you we they he she the a an my our your his her their there is are was")


def _leads(message: Message, i: int) -> bool:
    """Whether a word that may point back is the article or the conjunction of what follows it."""
    token = message.tokens[i]
    if token.norm not in _LEADING or i + 1 == len(message.tokens):
        return False
    after = message.tokens[i + 1]
    if token.norm == "that":
        return after.norm in _DETERMINERS
    small = after.norm in message.stops and after.norm not in message.articles
    return after.text[0].isalnum() and not after.verb and not small


def _fits(entity: Entity, slot: Slot) -> bool:
    kind = word_stem(entity.type)
    return (
        kind in slot.words
        or entity.type == slot.kind
        or any(kind in said and slot.kind == name for name, said in KINDS)
    )


# --- types ---------------------------------------------------------------------------------------


def message_types(message: str, now: str | None = None) -> frozenset[str]:
    """Return which kinds of values a message carries: a cheap signal for ranking, with no tool in mind.

    Some of "date", "time", "number", "email", "phone", "url", "id", "quoted", "name".

    >>> sorted(message_types("mail ana@example.com about order A-113 for 3 people at 17:30"))
    ['email', 'id', 'number', 'time']
    """
    return carried(read_message(message, now))


# Kinds of slots that go by another word in a message; what is no kind of value is a text.
_CARRIED = {"place": ("name",), "venue": ("name",), "person": ("name",), "datetime": ("date", "time")}
_PLAIN = ("date", "time", "number", "email", "phone", "url", "id")


def schema_types(tool: Tool, *, required: bool = False) -> frozenset[str]:
    """Return which kinds of values a tool asks for, in the words of :func:`message_types`.

    >>> properties = {"day": {"format": "date"}, "guests": {"type": "integer"}}
    >>> tool = Tool(id="t", input_schema={"properties": properties})
    >>> sorted(schema_types(tool))
    ['date', 'number']
    """
    kinds = {slot.kind for slot in plan_of(tool).slots if slot.required or not required}
    return frozenset(
        word for kind in kinds for word in _CARRIED.get(kind, (kind if kind in _PLAIN else "text",))
    )
