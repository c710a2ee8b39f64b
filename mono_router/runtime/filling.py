"""What a message does for a call that waits: which arguments it answers, and whether it answers at all.

The question that was asked narrows what an answer can mean: a bare value ("tomorrow at 5", "Maria",
«خالد») is the value of what is missing, whatever else it could be. Values are read by the package's own
extraction; here it is decided what of them counts as an answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mono_router.extraction import extract
from mono_router.records import Entity, Memory, PastCall, Query, Tool
from mono_router.runtime.mentions import from_message
from mono_router.runtime.phrases import is_agreement, is_refusal, is_small_talk
from mono_router.schema import check_arguments
from mono_router.slots import Slot, plan_of
from mono_router.text import normalize
from mono_router.value_words import stem_set, word_set
from mono_router.values import Message, overlaps, read_message

BARE_WORDS = 3
"""An answer of more words of its own than this is a sentence, which may be about something else."""
_WRITTEN = ("string", "text", "place", "venue", "person", "id")
_NAMED = ("person", "place", "venue")
_PRONOUNS = frozenset(
    normalize(word)
    for word in "her him them she he they it this that ella él ellos ellas le lo la les esto eso "
    "لها له لهم لهن هو هي هم إليه إليها اليه اليها معه معها معهم عنه عنها هذا هذه ذلك".split()
)
_POINTS_BACK = frozenset(
    normalize(word)
    for word in "then same that there it this entonces mismo misma ese esa eso esto "
    "نفس ذلك ذاك هذا هذه وقتها حينها".split()
)
_SAYING = stem_set(
    "tell say saying says said write text put call called name named titled dile diles di diga "
    "escribe escríbele pon ponle llama llámalo قل قولي اكتب اكتبي اسمه اسمها سمه"
)
"""What opens the words that are meant: "tell her that ..."."""
SAYING = stem_set("text message body content note comment description query question hint")
"""Names of arguments that take what somebody says, in their own sentences."""
_KEPT_TYPES = frozenset(("person", "place", "id", "email", "phone", "url"))
"""Types that a later request may take up without a word that points back."""


def points_back(message: str) -> bool:
    """Return whether a message points back to what was said before: "the same day", "it", «نفس اليوم»."""
    return any(word in _POINTS_BACK for word in normalize(message[:500]).split())


def visible_memory(memory: Memory, message: str, pending: PastCall | None) -> Memory:
    """Return the memory as this message is routed with.

    Dates, times and texts of earlier turns are left out unless the message points back: a new request
    without a date is asked for one, and does not silently take that of another.

    >>> day, ana = Entity(type="date", value="2026-03-11"), Entity(type="person", value="Ana")
    >>> memory = Memory(entities=(day, ana))
    >>> [len(visible_memory(memory, m, None).entities) for m in ("book a table", "book it that day")]
    [1, 2]
    """
    kept = memory.entities
    if not points_back(message):
        kept = tuple(entity for entity in kept if entity.type in _KEPT_TYPES or entity.secret)
    return dataclasses.replace(memory, entities=kept, pending=pending)


def is_question(message: str) -> bool:
    """Return whether a message ends as a question does."""
    return message.rstrip().endswith(("?", "؟")) or "¿" in message


_ASKING = word_set(
    "who whom whose what which when where why how is are was were do does did can could will would "
    "quién quiénes qué cuál cuáles cuándo dónde adónde cómo cuánto cuánta cuántos cuántas "
    "من ما ماذا متى أين وين كيف كم لماذا ليش هل مين ايه امتى فين بكم"
)


def is_asking(message: str) -> bool:
    """Return whether a message is a question that a question word opens, and no value said in doubt.

    >>> [is_asking(m) for m in ("who won in 1998?", "¿quién ganó?", "متى تفتحون؟", "at 5?", "mañana?")]
    [True, True, True, False, False]
    """
    said = normalize(message[:500]).split()[:2]
    return is_question(message) and any(word in _ASKING for word in said)


def is_bare(message: str, now: str | None) -> bool:
    """Return whether a message is a value and little else: no request, no question.

    >>> now = "2026-03-10T09:30:00+01:00[Europe/Madrid]"
    >>> [is_bare(m, now) for m in ("tomorrow at 5", "Maria", "خالد", "in the kitchen")]
    [True, True, True, True]
    >>> [is_bare(m, now) for m in ("book a table", "who is Maria?", "thanks")]
    [False, False, False]
    """
    if is_question(message) or is_small_talk(message) or not message.strip():
        return False
    read = read_message(message, now)
    left = _own_words(read)
    return len(left) <= BARE_WORDS and not any(read.tokens[i].verb for i in left)


def _own_words(read: Message) -> list[int]:
    """Indices of the words that are no value of a known kind and no function word."""
    spans = read.spans + read.addresses + [m.span() for m in (*read.phones, *read.codes)]
    spans += [(n.start, n.end) for n in read.numbers] + [(q.start, q.end) for q in read.quotes]
    frame = read.stops | read.prepositions
    return [
        i
        for i, token in enumerate(read.tokens)
        if token.text[0].isalnum() and not overlaps(token.start, token.end, spans) and token.norm not in frame
    ]


def answered(
    tool: Tool, arguments: Mapping[str, Any], message: str, *, memory: Memory, now: str | None
) -> dict[str, Any]:
    """Return the arguments that a message adds to a call that waits; empty = it answers nothing.

    >>> properties = {"to": {"type": "string"}, "text": {"type": "string"}}
    >>> tool = Tool(id="t", input_schema={"properties": properties, "required": ["to", "text"]})
    >>> answered(tool, {}, "Maria", memory=Memory(), now=None)
    {'to': 'Maria'}
    >>> answered(tool, {"to": "Maria"}, "I will be late, sorry", memory=Memory(), now=None)
    {'text': 'I will be late, sorry'}
    """
    open_ = [name for name in tool.required if name not in arguments]
    slots = {slot.name: slot for slot in plan_of(tool).slots}
    kinds = [slots[name].kind for name in open_ if name in slots]
    if is_small_talk(message) or not message.strip():
        return {}
    if (is_agreement(message) or is_refusal(message)) and "boolean" not in kinds:
        return {}
    said = any(not SAYING.isdisjoint(slots[name].words) for name in open_ if name in slots)
    read = read_message(message, now)
    asks = is_asking(message) or (is_question(message) and len(_own_words(read)) > BARE_WORDS)
    if asks and not said:
        return {}  # the year in "who won in 1998?" is no answer to "how many minutes?"
    waiting = PastCall(tool=tool.id, arguments=arguments)
    query = Query(message=message, memory=visible_memory(memory, message, waiting), now=now)
    filled = extract(query, tool).arguments
    new = {name: value for name, value in filled.items() if name not in arguments}
    new |= _named_options([slots[name] for name in open_ if name in slots and name not in new], read)
    _sort_texts(new, slots, open_, read)
    if not any(name in new for name in open_):
        whole = _whole_answer(slots, open_, read)
        if whole is not None and not check_arguments(tool, whole):
            new.update(whole)
    new = without_pronouns(tool, new, memory)
    return new if any(name in new for name in open_) else {}


def _named_options(slots: Iterable[Slot], read: Message) -> dict[str, Any]:
    """Values of enums that the answer names outright, function words too: "on", "the second"."""
    said = f" {normalize(read.text[:500])} "
    found = {}
    for slot in slots:
        if slot.kind == "enum" and not slot.many:
            named = [o for o in slot.schema.get("enum", ()) if f" {normalize(str(o))} " in said]
            if len(named) == 1:
                found[slot.name] = named[0]
    return found


def _sort_texts(new: dict[str, Any], slots: Mapping[str, Slot], open_: Sequence[str], read: Message) -> None:
    """Keep what is read twice where it was asked for first; what is no name is no answer for a name."""
    typed = [name for name in new if name in slots and slots[name].kind not in _WRITTEN]
    texts = [name for name in new if name in slots and slots[name].kind in _WRITTEN]
    texts = [name for name in texts if isinstance(new[name], str)]
    texts.sort(key=lambda name: slots[name].order)
    bare = is_bare(read.text, read.now)
    mentioned = {entity.value for entity in from_message(read.text, read.now)}
    kept: list[str] = []
    for name in texts:
        value, kind = str(new[name]), slots[name].kind
        start = read.text.find(value)
        span = (start, start + len(value)) if start >= 0 else None
        named = bare or value in mentioned or span is None or normalize(value) in _PRONOUNS
        if kind in _NAMED and not (named and _is_name(value, read.now)):
            del new[name]
        elif typed and span is not None and _covered(span, read):
            del new[name]  # "tomorrow at 5" is a date and a time, and no title
        elif any(value in str(new[other]) or str(new[other]) in value for other in kept):
            del new[name]
        else:
            kept.append(name)
    gained = [name for name in open_ if name in new]
    if len(gained) == 1 and gained[0] in kept and slots[gained[0]].kind in ("text", "string") and not typed:
        new[gained[0]] = _worded(str(new[gained[0]]), slots[gained[0]], read)


def _worded(value: str, slot: Slot, read: Message) -> str:
    """The words that were asked for: all of the message, unless it says that a part of it is meant."""
    if any(quote.text == value for quote in read.quotes):
        return value
    whole = read.text.strip()
    start = read.text.rfind(value)
    if start < 0 or not whole.rstrip(" .!").endswith(value.rstrip(" .!")):
        return whole
    opens = [token for token in read.tokens if token.end <= start]
    meant = any(t.stem in slot.words or t.stem in _SAYING or t.text == ":" for t in opens)
    return value if meant or len(opens) <= 1 else whole


def _covered(span: tuple[int, int], read: Message) -> bool:
    words = [t for t in read.tokens if span[0] <= t.start < span[1] and t.text[0].isalnum()]
    frame = read.stops | read.prepositions
    return bool(words) and all(overlaps(t.start, t.end, read.spans) or t.norm in frame for t in words)


def _is_name(value: str, now: str | None) -> bool:
    read = read_message(value, now)
    words = [t for t in read.tokens if t.text[0].isalnum()]
    own = len(_own_words(read)) >= 1 or normalize(value) in _PRONOUNS
    return 0 < len(words) <= 5 and not any(t.verb for t in words) and own


def _whole_answer(slots: Mapping[str, Slot], open_: Sequence[str], read: Message) -> dict[str, Any] | None:
    """The message itself, where the one thing that is missing is a text."""
    if len(open_) != 1 or open_[0] not in slots:
        return None
    slot = slots[open_[0]]
    if slot.kind not in ("text", "string") or slot.many or slot.type != "string":
        return None
    return {slot.name: read.text.strip()}


def without_pronouns(tool: Tool, arguments: Mapping[str, Any], memory: Memory) -> dict[str, Any]:
    """Return arguments with a pronoun in a name's place resolved, and dropped everywhere else.

    >>> tool = Tool(id="t", input_schema={"properties": {"to": {"type": "string"}}})
    >>> known = Memory(entities=(Entity(type="person", value="Maria"),))
    >>> without_pronouns(tool, {"to": "her"}, known), without_pronouns(tool, {"to": "her"}, Memory())
    ({'to': 'Maria'}, {})
    """
    kinds = {slot.name: slot.kind for slot in plan_of(tool).slots}
    people = [e for e in memory.entities if e.type == "person" and not e.secret]
    # Where no person is asked for, a pronoun may be the very text that is meant: "translate 'her'".
    meant = frozenset(() if "person" in kinds.values() else ("string", "text"))
    kept = {}
    for name, value in arguments.items():
        written = kinds.get(name) in _WRITTEN and kinds.get(name) not in meant
        if written and isinstance(value, str) and normalize(value) in _PRONOUNS:
            if kinds[name] == "person" and people:
                kept[name] = max(people, key=lambda e: e.turn).value
            continue
        kept[name] = value
    return kept


def from_found(
    tool: Tool, arguments: Mapping[str, Any], message: str, *, found: Iterable[Entity], now: str | None
) -> dict[str, Any]:
    """Return the arguments with required gaps filled from what results named, on this machine alone."""
    known = tuple(found)
    gaps = [name for name in tool.required if name not in arguments]
    if not known or not gaps:
        return dict(arguments)
    turn = max(entity.turn for entity in known)
    memory = visible_memory(Memory(turn=turn, entities=known), message, None)
    filled = extract(Query(message=message, memory=memory, now=now), tool).arguments
    values = {entity.value for entity in known}
    gained = {name: filled[name] for name in gaps if filled.get(name) in values}
    return {**arguments, **gained}
