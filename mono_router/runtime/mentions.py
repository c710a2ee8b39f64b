"""What a turn mentions: typed entities of a message, of a call's arguments and of its result.

A message gives addresses, ids, dates and names; arguments give what the tool's schema calls them; a result
gives the values of one record. Entities of results are for this machine alone: they fill arguments here and
are never part of a memory that a model or a log sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mono_router.records import Entity, Tool
from mono_router.schema import is_sensitive, valid_date, valid_time
from mono_router.slots import KINDS, plan_of
from mono_router.text import identifier_words, normalize
from mono_router.value_words import PRONOUNS, stem_set, stems, word_stem
from mono_router.values import Message, overlaps, read_message

MAX_CHARS = 200
"""A longer value is no entity."""
MAX_FOUND = 20
"""Entities of one message, call or result."""
_TYPES = {
    "person": "person",
    "place": "place",
    "venue": "place",
    "date": "date",
    "time": "time",
    "id": "id",
    "email": "email",
    "phone": "phone",
    "url": "url",
}
"""Kind of a slot to the type of an entity; other texts go by the argument's name."""
_PERSON_CUES = frozenset(
    normalize(word) for word in "with to from by con a de para مع ل الى إلى من عن عند about sobre".split()
)
_WEAK_CUES = frozenset(normalize(word) for word in "to a de from ل الى إلى من about sobre عن".split())
_PLACE_CUES = frozenset(normalize(word) for word in "in at near around en cerca في ب قرب".split())
# Given names that need no capital and no preposition to be read as a person: the commonest alone.
GIVEN_NAMES = frozenset(
    normalize(name)
    for name in """
    maria juan ana jose luis carlos carmen pedro pablo laura lucia sofia elena marta sara diego javier miguel
    antonio manuel jorge andres alejandro fernando isabel teresa paula julia clara rosa nora lina omar ali
    john mary james emma olivia noah liam sophie sarah anna tom peter paul david daniel michael robert susan
    linda karen lisa kate alice bob jack emily george henry william thomas
    محمد أحمد احمد خالد علي عمر يوسف إبراهيم ابراهيم حسن حسين مصطفى محمود عبدالله سعيد سامي سالم طارق كريم
    زياد ياسر وليد ماجد فهد سعود ناصر راشد بدر فيصل سلمان جمال رامي هاني
    مريم فاطمة عائشة خديجة زينب سارة نورة نورا نور ليلى سلمى هند هدى منى رنا دينا ياسمين آمنة لينا ريم
    سعاد سميرة نادية أمل دعاء رانيا عبير غادة ماريا
    """.split()
)
# Arabic has no capitals: a name is told by what stands before it, and by what a name is not.
_WITH = frozenset(normalize(word) for word in "مع وعند عند".split())
_TOWARDS = frozenset(normalize(word) for word in "إلى الى من عن".split())
_SENDING = stem_set(
    "send tell write call message mail email text transfer give ask remind share invite pay lend "
    "manda envía escribe llama dile diles avisa transfiere pregunta comparte invita paga dale "
    "أرسل ارسل أرسلي ابعث ابعت اكتب راسل كلم كلمي اتصل قل أخبر اخبر حول حولي اسأل شارك ادع رسالة رد"
)
"""What is done to people: behind these words "to" leads to a person, else often to a place."""
_ROLES = stem_set(
    "طبيب طبيبة دكتور مدير مديرة فريق عميل زبون صديق صديقة زميل زميلة شركة مكتب بنك محام محامي مهندس "
    "مدرس معلم جار أخ أخت أب أم زوج زوجة ابن بنت عائلة أهل ناس أحد شخص كل بعض جميع نفس غير لجنة قسم "
    "موقع مطعم فندق رقم اسم عنوان بريد كلب قطة موعد اجتماع وقت"
)
_ENDINGS = ("ات", "تي", "نا", "هم", "ها", "ين", "ون", "كم")
_ARABIC_PREFIX = re.compile(r"^(?:و?ل|و|ب|ف)(?=\w{3})")
_HONORIFICS = frozenset(
    normalize(word)
    for word in (
        "dr mr mrs ms prof sr sra don doña الدكتور الدكتورة السيد السيدة الأستاذ الأستاذة المهندس الشيخ"
    ).split()
)


def from_message(text: str, now: str | None) -> tuple[Entity, ...]:
    """Return what a message mentions.

    >>> found = from_message("Maria is in Cairo, her mail is maria@example.com", None)
    >>> [(e.type, e.value) for e in found]
    [('email', 'maria@example.com'), ('person', 'Maria'), ('place', 'Cairo')]
    """
    message = read_message(text, now)
    found = [Entity(type="email", value=m.group()) for m in message.emails]
    found += [Entity(type="url", value=m.group()) for m in message.urls]
    found += [Entity(type="phone", value=m.group()) for m in message.phones]
    found += [
        Entity(type="id", value=m.group().lstrip("#"))
        for m in message.codes
        if not overlaps(m.start(), m.end(), message.addresses + message.spans)
    ]
    for span in message.times:
        if span.date:
            found.append(Entity(type="date", value=span.date))
        if span.time:
            found.append(Entity(type="time", value=span.time))
    return _kept([*found, *_names(message)])


def _names(message: Message) -> Iterator[Entity]:
    """People and places: by the names list, else by capitals and the preposition before them."""
    taken = message.addresses + message.spans
    used: list[tuple[int, int]] = []
    sends = not message.stem_set.isdisjoint(_SENDING)
    for phrase in sorted(message.phrases, key=lambda p: (not p.capital, p.start)):
        span = (phrase.start, phrase.end)
        if phrase.quoted or not phrase.capital or overlaps(*span, taken) or overlaps(*span, used):
            continue
        tokens = message.tokens[phrase.first : phrase.last]
        if len(tokens) > 4 or any(t.text.isupper() and len(t.text) > 1 for t in tokens):
            continue
        opens = phrase.first == 0 or message.tokens[phrase.first - 1].text in ".!?؟¿¡:"
        while tokens and (tokens[0].verb or tokens[0].norm in message.stops) and opens:
            tokens = tokens[1:]
        if not tokens:
            continue
        value = message.text[tokens[0].start : tokens[-1].end]
        names = {token.norm for token in tokens}
        if names & GIVEN_NAMES or (names & _HONORIFICS and len(tokens) > 1):
            yield Entity(type="person", value=value)
        elif opens:
            continue
        elif phrase.cue in _PLACE_CUES:
            yield Entity(type="place", value=value)
        elif phrase.cue in _PERSON_CUES and (phrase.cue not in _WEAK_CUES or sends):
            yield Entity(type="person", value=value)
        else:
            continue
        used.append(span)
    for token in message.tokens:
        if overlaps(token.start, token.end, used) or overlaps(token.start, token.end, taken):
            continue
        bare = _ARABIC_PREFIX.sub("", token.norm) if not token.norm.isascii() else token.norm
        if token.norm in GIVEN_NAMES and (not token.norm.isascii() or token.upper):
            yield Entity(type="person", value=token.text)
        elif bare != token.norm and bare in GIVEN_NAMES:
            yield Entity(type="person", value=token.text[len(token.text) - len(bare) :])
        else:
            continue
        used.append((token.start, token.end))
    for span in _arabic_names(message, taken + used, sends):
        yield Entity(type="person", value=message.text[span[0] : span[1]])


def _arabic_names(
    message: Message, taken: Sequence[tuple[int, int]], sends: bool
) -> Iterator[tuple[int, int]]:
    """Where words stand that their place alone tells to be names: «مع وائل», «أرسل إلى نجلاء»."""
    if message.language != "ar":
        return
    tokens = message.tokens
    for i, token in enumerate(tokens):
        follows = token.norm in _WITH or (sends and token.norm in _TOWARDS) or token.norm in _HONORIFICS
        if follows and i + 1 < len(tokens) and _may_name(message, i + 1, taken):
            yield tokens[i + 1].start, tokens[i + 1].end
        onto = sends and i and token.norm.startswith("ل") and token.norm[1:2] != "ل"
        if onto and not follows and _may_name(message, i, taken, skip=1):
            yield token.start + 1, token.end


def _may_name(message: Message, i: int, taken: Sequence[tuple[int, int]], skip: int = 0) -> bool:
    """Whether an Arabic word can be a name: indefinite, no function word, no verb, no role of somebody."""
    token = message.tokens[i]
    word = token.norm[skip:]
    if word.isascii() or len(word) < 3 or not word.isalpha() or overlaps(token.start, token.end, taken):
        return False
    if word.startswith("ال") or word.endswith(_ENDINGS) or token.text.endswith(("اً", "ًا")):
        return False
    small = word in message.stops or word in message.prepositions or word in PRONOUNS
    after = message.tokens[i + 1].norm if i + 1 < len(message.tokens) else ""
    # "the doctor of the teeth" is a role; a name with a family name, «خالد العتيبي», is known by its list.
    return not (small or token.verb or after.startswith("ال") or word_stem(word) in _ROLES)


def from_arguments(tool: Tool, arguments: Mapping[str, Any]) -> tuple[Entity, ...]:
    """Return what a call's arguments name, typed by the tool's schema; a secret is marked as one.

    >>> properties = {"to": {"type": "string"}, "item": {"type": "string"}}
    >>> tool = Tool(id="t", input_schema={"properties": properties})
    >>> [(e.type, e.value) for e in from_arguments(tool, {"to": "Maria", "item": "eggs"})]
    [('person', 'Maria'), ('item', 'eggs')]
    """
    kinds = {slot.name: slot.kind for slot in plan_of(tool).slots}
    found = []
    for name, value in arguments.items():
        kind = kinds.get(name, "string")
        if kind in ("enum", "boolean", "number", "datetime", "part"):
            continue
        type_ = _TYPES.get(kind) or _type_of_name(name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                secret = is_sensitive(name) or name in tool.system_arguments
                found.append(Entity(type=type_, value=item, secret=secret))
    return _kept(found)


def from_result(value: Any, *, hidden: Iterable[str] = ()) -> tuple[Entity, ...]:
    """Return what one record of a result names; of several records nothing, since none is meant more.

    >>> from_result({"appointment_id": "PA-1234", "day": "2026-03-11"})[0].value
    'PA-1234'
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, Mapping):
        return ()
    inner = [item for item in value.values() if isinstance(item, (Mapping, list)) and item]
    if len(value) <= 3 and len(inner) == 1 and (isinstance(inner[0], Mapping) or len(inner[0]) == 1):
        nested = from_result(inner[0], hidden=hidden)
        if nested:
            return nested
    kept, unseen = [], frozenset(hidden)
    for name, item in value.items():
        if not isinstance(item, str) or str(name) in unseen:
            continue
        if is_sensitive(str(name)):
            kept.append(Entity(type="id", value=item, secret=True))
        else:
            kept.append(Entity(type=_type_of_value(str(name), item), value=item))
    return _kept(kept)


def _type_of_value(name: str, value: str) -> str:
    if valid_date(value):
        return "date"
    return "time" if valid_time(value) else _type_of_name(name)


def _type_of_name(name: str) -> str:
    """The type that a name tells: "appointment_id" is an id, "attendee" a person; else its last word."""
    said = stems(identifier_words(name))
    kind = next((kind for word in reversed(said) for kind, known in KINDS if word in known), "")
    return _TYPES.get(kind) or (said[-1] if said else "text")


def _kept(found: Iterable[Entity]) -> tuple[Entity, ...]:
    """The first of each, within bounds."""
    kept: dict[tuple[str, str], Entity] = {}
    for entity in found:
        if len(entity.value.strip()) > 0 and len(entity.value) <= MAX_CHARS:
            kept.setdefault((entity.type, entity.value), entity)
    return tuple(kept.values())[:MAX_FOUND]
