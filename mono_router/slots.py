"""What a tool's properties ask for: a tool in, a plan of slots out, compiled once a tool.

A slot says what kind of value a property takes and which words point to it; everything about it that needs no
message is worked out here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mono_router.records import Tool
from mono_router.schema import is_sensitive
from mono_router.text import identifier_words
from mono_router.value_words import STOP_STEMS, UNITS, exact_set, stem_set, stems

# Kind of value by a word of the property's name (the last word that tells wins), then of its description.
_KINDS = """
email: email mail correo بريد
phone: phone telephone mobile tel telefono هاتف
url: url link uri website webpage
id: id ids code reference ref sku isbn uuid identifier number_id codigo رقم
date: date day dates fecha birthday deadline dob تاريخ
part: timeofday daypart
time: time hour hora timestamp datetime range وقت
number: count amount quantity size total price cost budget fee rating value percentage percent age year limit
 max min maximum minimum minutes hours seconds weeks months years days nights rooms beds baths guests people
 adults children tickets seats passengers travelers riders distance radius speed weight height temperature
 duration length width score level rate salary
venue: restaurant hotel theater theatre venue store shop cafe bar museum cinema salon property poi
place: city location place destination origin address country state region area airport station town county
 province street where source ciudad lugar
person: person contact recipient attendee attendees doctor artist author owner sender receiver staff driver
 employee patient friend user customer director actor singer to persona therapist stylist dentist
text: message body text content note notes comment description query question topic reason subject title
 reminder task item label keyword keywords caption symptom sentence phrase song track movie album event
"""
KINDS = tuple(
    (kind, stem_set(said))
    for kind, _, said in (line.partition(":") for line in re.split(r"\n(?=\w)", _KINDS.strip()))
)
"""Kinds of values with the stems that name them; the first that fits wins."""
_FORMATS = {
    "date": "date",
    "time": "time",
    "date-time": "datetime",
    "email": "email",
    "uri": "url",
    "uuid": "id",
}
_SORTS = stem_set("unit type kind category name description relation label select sort order mode method")
_OPENING = stem_set(
    "start from begin beginning current original departure depart departing source origin pickup since min "
    "minimum after outbound checkin in old first lower"
)
_CLOSING = stem_set(
    "end to until finish return returning arrival destination dropoff max maximum before inbound checkout "
    "out new target last upper due"
)
_SWITCHES = stem_set(
    "is has include includes included enable use with allow show get only return should be flag"
)
# With further keywords the schema is checked by jsonschema.
_PLAIN_KEYS = exact_set(
    "type enum minimum maximum minLength maxLength pattern format description title default examples example "
    "items"
)
_ROOT_KEYS = exact_set("type properties required additionalProperties description title")


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One property, and what points to its value."""

    name: str
    schema: Mapping[str, Any]
    kind: str
    """boolean, enum, number, date, part, time, datetime, email, phone, url, id, place, venue, person, text or
    string."""
    type: str
    """JSON type; of the items where ``many``."""
    many: bool
    words: tuple[str, ...]
    """Stems of the name."""
    hints: frozenset[str]
    """Stems of the description."""
    role: int
    """0 = opens a pair (start, from), 1 = closes it (end, to), -1 = neither."""
    options: Mapping[str, Sequence[tuple[tuple[str, ...], Any]]]
    """Stemmed phrases with the value they stand for, by first stem: of the enum, else of the examples."""
    roots: Mapping[str, Any]
    """What says as much as a one-word option: its beginning, or its end in Arabic."""
    content: frozenset[str]
    """Stems of the name that tell what a switch is about."""
    unit: float | None
    """Minutes of the unit that a length is wanted in."""
    required: bool
    order: tuple[int, str]
    format: str
    description: str


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A tool as extraction sees it."""

    slots: tuple[Slot, ...]
    carriers: frozenset[str]
    """Stems that the tool's own texts use: they frame a value and are none."""
    strict: bool
    """Whether the schema holds more than our own checks understand."""
    open_hours: tuple[int, int] | None
    """First and last hour that a description states."""
    targets: frozenset[str]
    """Stems of all that the tool says of itself, keywords included: where "add milk to ..." puts a value."""


_plans: dict[int, tuple[Tool, Plan]] = {}


def plan_of(tool: Tool) -> Plan:
    """Return a tool's plan; a tool is no key of a cache, so it is kept and its id() stays its own.

    >>> tool = Tool(id="t", input_schema={"properties": {"start_date": {"format": "date"}}})
    >>> [(slot.kind, slot.role) for slot in plan_of(tool).slots]
    [('date', 0)]
    """
    known = _plans.get(id(tool))
    if known is None or known[0] is not tool:
        if len(_plans) >= 20_000:
            _plans.clear()
        known = _plans[id(tool)] = (tool, _compile(tool))
    return known[1]


_HOURS = re.compile(r"(\d{1,2})(?::\d\d)? ?(?:to|-|–|until|a|hasta|إلى) ?(\d{1,2}):\d\d")
_POSSESSIVE = re.compile(r"\b\w+['’]s\b")
_CAPITALISED = re.compile(r"(?<=\s)[A-ZÁÉÍÓÚÑ][\w'’-]*")


def _compile(tool: Tool) -> Plan:
    slots = []
    for name, schema in tool.properties.items():
        if isinstance(schema, Mapping) and not is_sensitive(name):
            given = (example.arguments.get(name) for example in tool.examples if example.arguments)
            known = sorted({value for value in given if isinstance(value, str) and len(value) > 2})
            slot = _slot(tool, name, schema, known)
            if slot is not None:
                slots.append(slot)
    schemas = [slot.schema for slot in slots]
    schemas += [schema["items"] for schema in schemas if isinstance(schema.get("items"), Mapping)]
    keys = {key for schema in schemas for key in schema} - _PLAIN_KEYS | set(tool.input_schema) - _ROOT_KEYS
    carriers = {word for text in (tool.id, tool.title, *tool.hints) for word in stems(identifier_words(text))}
    for language in {example.language for example in tool.examples}:
        messages = [example.message for example in tool.examples if example.language == language]
        # A name that returns in the examples is a value all the same.
        said = [word for message in messages for word in set(stems(_CAPITALISED.sub(" ", message)))]
        carriers |= {word for word in set(said) if said.count(word) >= max(3, len(messages) // 6)}
    hours = _HOURS.search(" ".join(slot.description for slot in slots if slot.kind == "time"))
    return Plan(
        tuple(sorted(slots, key=lambda slot: slot.order)),
        frozenset(carriers),
        not all(key.startswith(("x-", "$schema")) for key in keys),
        (int(hours[1]), int(hours[2])) if hours else None,
        frozenset(carriers)
        | {word for text in (tool.description, *tool.keywords) for word in stems(text)} - STOP_STEMS,
    )


def _slot(tool: Tool, name: str, schema: Mapping[str, Any], known: Sequence[str]) -> Slot | None:
    json_type, inner = _type_of(schema), schema
    many = json_type == "array"
    if many:
        inner = schema["items"] if isinstance(schema.get("items"), Mapping) else {}
        json_type = _type_of(inner)
    if json_type in ("object", "array", "null"):
        return None
    words = stems(identifier_words(name))
    description = f"{schema.get('description', '')} {inner.get('description', '') if many else ''}"
    form = str(inner.get("format", ""))
    kind = _kind(json_type, inner, words, description, form)
    if many and kind == "number" and json_type == "string":
        kind = "person"  # a list of "guests" or "people" names them
    role = 0 if _OPENING.intersection(words) else 1 if _CLOSING.intersection(words) else -1
    named = tuple(word for word in words if word not in STOP_STEMS or word in ("from", "to")) or words
    hints = frozenset(stems(description)) - STOP_STEMS
    options = _phrases(schema, inner) if kind == "enum" else {stems(v): v for v in known if stems(v)}
    units = [UNITS[word] for word in named if word in UNITS]
    if "duration" in named:
        units += [UNITS[word] for word in sorted(hints) if word in UNITS]
    by_first: dict[str, list[tuple[tuple[str, ...], Any]]] = {}
    for phrase, value in options.items():
        by_first.setdefault(phrase[0], []).append((phrase, value))
    return Slot(
        name=name,
        schema=schema,
        kind=kind,
        type=json_type,
        many=many,
        words=named,
        hints=hints,
        role=role,
        options=by_first,
        roots={
            part: value for phrase, value in options.items() if len(phrase) == 1 for part in roots(phrase[0])
        },
        content=frozenset(named) - _SWITCHES - STOP_STEMS or frozenset(named),
        unit=units[0] if units else None,
        required=name in tool.required,
        order=(tool.required.index(name) if name in tool.required else len(tool.required), name),
        format=form,
        description=str(schema.get("description", "")),
    )


def _type_of(schema: Mapping[str, Any]) -> str:
    found = schema.get("type", "string")
    if isinstance(found, (list, tuple)):
        found = next((item for item in found if item != "null"), "string")
    return {"float": "number", "dict": "object", "any": "string"}.get(str(found), str(found))


def _kind(
    json_type: str, schema: Mapping[str, Any], words: Sequence[str], description: str, form: str
) -> str:
    options = {str(option).lower() for option in schema.get("enum", ()) if option is not None}
    if options:
        if all(option.isdecimal() for option in options):
            return "number"
        return "boolean" if "true" in options and options <= {"true", "false", "dontcare", "none"} else "enum"
    if json_type in ("boolean", "integer", "number"):
        return "boolean" if json_type == "boolean" else "number"
    if form in _FORMATS:
        return _FORMATS[form]
    if words == ("name",) and not description.strip():
        return "person"
    named = next((kind for word in reversed(words) for kind, said in KINDS if word in said), "")
    if named == "number" and words[-1] in _SORTS:
        named = "string"
    if "number" in words and named not in ("number", "phone"):
        return "id"
    # A description tells what the value is about; that it mentions a number or a text says little.
    # "in the user's words" is about no person.
    description = _POSSESSIVE.sub(" ", description)
    told = (kind for word in stems(description)[:8] for kind, said in KINDS if word in said)
    return named or next((kind for kind in told if kind not in ("number", "text")), "string")


def _phrases(schema: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Phrases that stand for a value of an enum: the value itself and its synonyms, the longest first."""
    synonyms = schema.get("x-synonyms") or inner.get("x-synonyms") or {}
    found: dict[tuple[str, ...], Any] = {}
    for value in inner.get("enum", ()):
        if not isinstance(value, bool) and value is not None:
            more = synonyms.get(str(value), ()) if isinstance(synonyms, Mapping) else ()
            for said in (
                identifier_words(str(value)),
                str(value),
                *((more,) if isinstance(more, str) else more),
            ):
                found.setdefault(stems(str(said)), value)
    found.pop((), None)
    return dict(sorted(found.items(), key=lambda item: (-len(item[0]), item[0])))


@lru_cache(maxsize=50_000)
def roots(word: str) -> tuple[str, ...]:
    """Return the forms of a word that count as the word: up to four letters shorter, from five letters on.

    >>> roots("turistas")
    ('turistas', 'turista', 'turist', 'turis')
    """
    found = [word[:n] for n in range(len(word), max(4, len(word) - 5), -1)]
    if not word.isascii():
        found += [word[n:] for n in (1, 2) if len(word) - n >= 4]
    return tuple(found)


def same_root(one: str, two: str) -> bool:
    """Return whether one of two words is the other with an ending, or in Arabic with a beginning."""
    return one in roots(two) or two in roots(one)
