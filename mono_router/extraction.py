"""Arguments of one chosen tool, read from a message by the tool's JSON Schema; no model takes part.

A query and a tool come in, a :class:`~mono_router.records.Filled` goes out. Each property becomes a slot (what
kind of value, which words point to it), the message becomes candidates (times, numbers, codes, quotes, phrases
with the preposition before them), and slots and candidates are paired greedily by score, so that the order of
properties plays no part. Memory fills what the message leaves open. What breaks the schema is dropped; nothing
is invented: no default, no sensitive or system argument.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from mono_router.dates import TimeSpan, cardinals, find_times, language_of, parse_now
from mono_router.records import Entity, Filled, Memory, Query, Tool
from mono_router.schema import check_arguments, is_sensitive, missing_arguments, valid_date, valid_time
from mono_router.text import identifier_words, normalize, stem, strip_clitics

# --- words ---------------------------------------------------------------------------------------


def _set(text: str) -> frozenset[str]:
    return frozenset(normalize(word) for word in text.split())


# Kind of value by a word of the property's name (first match wins), then of its description.
_KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("email", _set("email mail correo بريد")),
    ("phone", _set("phone telephone mobile tel telefono هاتف")),
    ("url", _set("url link uri website webpage")),
    ("id", _set("id ids code reference ref sku isbn uuid identifier number_id codigo رقم")),
    ("date", _set("date day dates fecha birthday deadline dob تاريخ")),
    ("part", _set("timeofday daypart")),
    ("time", _set("time hour hora timestamp datetime range وقت")),
    (
        "number",
        _set(
            "count amount quantity size total price cost budget fee rating value percentage percent age year limit "
            "max min maximum minimum minutes hours seconds weeks months years days nights rooms beds baths guests people "
            "adults children tickets seats passengers travelers riders distance radius speed weight height "
            "temperature duration length width score level rate salary"
        ),
    ),
    (
        "place",
        _set(
            "city location place destination origin address country state region area airport station town county "
            "province street where venue restaurant hotel source ciudad lugar poi"
        ),
    ),
    (
        "person",
        _set(
            "person contact recipient attendee attendees doctor artist author owner sender receiver staff driver "
            "employee patient friend user customer director actor singer to persona therapist stylist dentist"
        ),
    ),
    (
        "text",
        _set(
            "message body text content note notes comment description query question topic reason subject title "
            "reminder task item label keyword keywords caption symptom sentence phrase song track movie album event"
        ),
    ),
)
# Prepositions, articles and further function words by language; a value begins or ends at them.
_FRAMES: Mapping[str, tuple[frozenset[str], frozenset[str], frozenset[str]]] = {
    "en": (
        _set(
            "in at near from to with for by on onto into of about around through via towards between under over within "
            "against per"
        ),
        _set("the a an my our your his her their its this that these those some any"),
        _set(
            "i me we us you he she it they them is are was were be been am do does did can could would should will shall "
            "may might please and or but if then so as not no yes what which who whom whose when where why how there here "
            "have has had want wants need needs like let lets just also too very up out off thanks thank hi hello hey okay "
            "ok alexa olly google siri im ive id ill youre its thats dont didnt cant wont isnt whats whos wheres hows "
            "theres couldnt doesnt were got looking going because than more pls one"
        ),
    ),
    "es": (
        _set("en a al de del desde hacia con para por sobre cerca entre hasta contra según"),
        _set("el la los las un una unos unas mi mis tu tus su sus este esta estos estas ese esa"),
        _set(
            "que qué quien cual cuál cuando cuándo donde dónde como cómo y o e u pero si no sí es son era está están ser hay "
            "he ha me te se lo le les nos yo él ella por favor gracias hola quiero quisiera necesito puedes podrías puede "
            "puedo muy más oye vale tengo voy porque ok alexa olly google siri"
        ),
    ),
    "ar": (
        _set("في من إلى الى على مع عن عند ب ل لـ حتى بين قرب عشان"),
        _set("هذا هذه هاي ال ده دي"),
        _set(
            "هل ما ماذا متى اين أين كيف كم هو هي انا أنا انت نحن هم و او أو ثم لا نعم لو سمحت فضلك رجاء ممكن اريد أريد ابغى أبي "
            "عايز عاوز عايزة بدي يا لي لك ان أن إن التي الذي اللي هناك هنا كان يكون قد جدا ايضا وش شو ايش ايه فين "
            "alexa olly google siri"
        ),
    ),
}
_ALL_PREPOSITIONS = frozenset(word for preps, _, _ in _FRAMES.values() for word in preps)
_ALL_STOPS = frozenset(word for _, articles, stops in _FRAMES.values() for word in articles | stops)
_VERBS = _set(
    "add put set get find search show give tell look book reserve make play open close start stop create schedule send "
    "write remind call text order buy rate check list change move cancel delete remove update turn switch calculate "
    "compute convert translate help provide determine retrieve fetch identify locate plan know see search save "
    "añade pon busca muestra dime dame reserva haz crea envía manda escribe recuérdame llama pide compra cambia mueve "
    "cancela borra quita apaga enciende enseña enséñame ponme agrega apunta guarda reproduce abre avísame "
    "أضف ضع ابحث اعرض اظهر أخبرني قل أرسل ابعث اكتب ذكرني فكرني اتصل اطلب اشتر غير انقل الغ ألغ احذف شغل افتح اغلق احجز حط ابعت ضيف سجل هات اعطني خلي"
)
_NEGATIONS = _set("no not without never dont doesnt didnt cant wont isnt shouldnt shouldn't don't avoid exclude skip sin ningún بدون لا مش غير بلا")
# What opens a free text, by the kind of property it belongs to.
_OPENERS = re.compile(
    r"(?:\b(?:saying(?: that)?|say(?:s)? that|that says|which says|to say|telling (?:him|her|them)(?: that)?|"
    r"diciendo(?:le)?(?: que)?|que diga(?: que)?|diciéndole(?: que)?)\b|(?:^|\s)(?:ب?[أا]ن(?:ني|ه|ها|نا|ي)?|تقول|يقول|قوله|قولها)(?=\s))\s*:?\s*",
    re.IGNORECASE,
)
_NAMERS = re.compile(
    r"(?:\b(?:called|named|titled|entitled|labell?ed|nam(?:e|ing) it|call it|the name|llamad[oa]s?|titulad[oa]s?|que se llam[ae]|con el (?:nombre|título|asunto)(?: de)?|"
    r"with the (?:name|title|subject|label)(?: of)?)\b|(?:^|\s)(?:اسمه|اسمها|بعنوان|باسم|بإسم)(?=\s))\s*:?\s*",
    re.IGNORECASE,
)
_TOPICS = re.compile(
    r"(?:\b(?:about|regarding|concerning|on the topic of|sobre|acerca de)\b|(?:^|\s)(?:عن|حول|بخصوص|بشأن)(?=\s))\s*",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?؟\n](?:\s|$)|\n")
_POLITE = re.compile(
    r"(?:[\s,،.!?؟]*(?:please|thanks|thank you|por favor|gracias|لو سمحت|من فضلك|رجاء|شكرا)?[\s,،.!?؟]*)$",
    re.IGNORECASE,
)

# --- slots ---------------------------------------------------------------------------------------

_OPENING = _set(
    "start from begin beginning current original departure depart departing source origin pickup since min minimum after outbound checkin in old first lower"
)
_CLOSING = _set(
    "end to until finish return returning arrival destination dropoff max maximum before inbound checkout out new target last upper due"
)
_PLAIN_KEYS = frozenset(
    "type enum minimum maximum minLength maxLength pattern format description title default examples example items".split()
)


@dataclass(frozen=True, slots=True)
class _Slot:
    """One property, and what points to its value."""

    name: str
    schema: Mapping[str, Any]
    kind: str
    """boolean, enum, number, date, time, datetime, email, phone, url, id, place, person, text or string."""
    type: str
    """JSON type; of the items where ``many``."""
    many: bool
    words: tuple[str, ...]
    """Stems of the name."""
    hints: frozenset[str]
    """Stems of the description."""
    role: int
    """0 = opens a pair (start, from), 1 = closes it (end, to), -1 = neither."""
    options: tuple[tuple[tuple[str, ...], Any], ...]
    """Stemmed phrases with the enum value that they stand for, longest first."""
    required: bool
    order: tuple[int, str]
    format: str


@dataclass(frozen=True, slots=True)
class _Plan:
    slots: tuple[_Slot, ...]
    carriers: frozenset[str]
    """Stems that the tool's own texts use: they frame a value and are none."""
    strict: bool
    """Whether the schema holds more than our own checks understand."""
    open_hours: tuple[int, int] | None


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    folded = normalize(word).replace(" ", "")
    if folded.isascii():
        return stem(folded)
    return strip_clitics(folded)


def _stems(text: str) -> tuple[str, ...]:
    return tuple(
        filter(None, (_stem(word) for word in re.findall(r"[^\W_]+(?:[\u064b-\u065f]+[^\W_]*)*", text)))
    )


_plans: dict[int, tuple[Tool, _Plan]] = {}


def _plan(tool: Tool) -> _Plan:
    """The tool's slots, compiled once; the tool itself is kept so that its id() stays its own."""
    known = _plans.get(id(tool))
    if known is not None and known[0] is tool:
        return known[1]
    if len(_plans) >= 20_000:
        _plans.clear()
    plan = _compile(tool)
    _plans[id(tool)] = (tool, plan)
    return plan


def _compile(tool: Tool) -> _Plan:
    required = tool.required
    slots = []
    for name, schema in tool.properties.items():
        if isinstance(schema, Mapping) and not is_sensitive(name):
            order = (required.index(name) if name in required else len(required), name)
            slot = _slot(name, schema, name in required, order)
            if slot is not None:
                slots.append(slot)
    schemas = [slot.schema for slot in slots] + [
        s.schema["items"] for s in slots if isinstance(s.schema.get("items"), Mapping)
    ]
    known_keys = all(key in _PLAIN_KEYS or key.startswith("x-") for schema in schemas for key in schema)
    root = set(tool.input_schema) - {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "description",
        "title",
    }
    texts = [tool.id, tool.title, *tool.hints]
    carriers = {word for text in texts for word in _stems(identifier_words(text))}
    for language in {example.language for example in tool.examples}:
        messages = [example.message for example in tool.examples if example.language == language]
        seen: dict[str, int] = {}
        for message in messages:
            # A name that returns in the examples is a value all the same.
            for word in set(_stems(re.sub(r"(?<=\s)[A-ZÁÉÍÓÚÑ][\w'’-]*", " ", message))):
                seen[word] = seen.get(word, 0) + 1
        carriers |= {word for word, count in seen.items() if count >= max(3, len(messages) // 6)}
    hours = re.search(
        r"(\d{1,2})(?::\d\d)? ?(?:to|-|–|until|a|hasta|إلى) ?(\d{1,2}):\d\d",
        " ".join(str(slot.schema.get("description", "")) for slot in slots if slot.kind == "time"),
    )
    return _Plan(
        tuple(sorted(slots, key=lambda slot: slot.order)),
        frozenset(carriers),
        not known_keys or any(not key.startswith(("x-", "$schema")) for key in root),
        (int(hours.group(1)), int(hours.group(2))) if hours else None,
    )


def _slot(name: str, schema: Mapping[str, Any], required: bool, order: tuple[int, str]) -> _Slot | None:
    json_type = _type_of(schema)
    many = json_type == "array"
    inner = schema.get("items") if many else schema
    inner = inner if isinstance(inner, Mapping) else {}
    if many:
        json_type = _type_of(inner)
    if json_type in ("object", "array", "null"):
        return None
    words = _stems(identifier_words(name))
    description = f"{schema.get('description', '')} {inner.get('description', '') if many else ''}"
    hints = frozenset(_stems(description)) - _STOP_STEMS
    form = str(inner.get("format", ""))
    kind = _kind(json_type, inner, words, description, form)
    named = tuple(word for word in words if word not in _STOP_STEMS or word in ("from", "to"))
    role = 0 if _OPENING.intersection(words) else 1 if _CLOSING.intersection(words) else -1
    options = tuple(_options(schema, inner)) if kind == "enum" else ()
    return _Slot(name, schema, kind, json_type, many, named or words, hints, role, options, required, order, form)


def _type_of(schema: Mapping[str, Any]) -> str:
    found = schema.get("type", "string")
    if isinstance(found, (list, tuple)):
        found = next((item for item in found if item != "null"), "string")
    return {"float": "number", "dict": "object", "any": "string"}.get(str(found), str(found))


def _kind(
    json_type: str, schema: Mapping[str, Any], words: Sequence[str], description: str, form: str
) -> str:
    if schema.get("enum"):
        return "enum"
    if json_type == "boolean":
        return "boolean"
    if json_type in ("integer", "number"):
        return "number"
    if form in _FORMAT_KINDS:
        return _FORMAT_KINDS[form]
    named = next((k for word in reversed(words) for k, names in _KIND_STEMS if word in names), "")
    if {"part", "day"} <= set(words):
        return "part"
    if "number" in words and named not in ("number", "phone"):
        return "id"
    # A description tells what the value is about; that it mentions a number or a text says little.
    told = (k for word in _stems(description)[:8] for k, names in _KIND_STEMS if word in names)
    return named or next((kind for kind in told if kind not in ("number", "text")), "string")


_FORMAT_KINDS = {
    "date": "date",
    "time": "time",
    "date-time": "datetime",
    "email": "email",
    "uri": "url",
    "uuid": "id",
}
_KIND_STEMS = tuple((kind, frozenset(_stem(word) for word in names)) for kind, names in _KINDS)
_STOP_STEMS = frozenset(_stem(word) for word in _ALL_STOPS | _ALL_PREPOSITIONS)
_VERB_STEMS = frozenset(_stem(word) for word in _VERBS)


def _options(schema: Mapping[str, Any], inner: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    """Phrases for each enum value: the value itself, its synonyms, then single words of its description."""
    synonyms = schema.get("x-synonyms") or inner.get("x-synonyms") or {}
    found: dict[tuple[str, ...], Any] = {}
    for value in inner.get("enum", ()):
        if isinstance(value, bool) or value is None:
            continue
        said = [identifier_words(str(value)), str(value)]
        for key in {str(value), value} if isinstance(value, str) else {str(value)}:
            more = synonyms.get(key, ()) if isinstance(synonyms, Mapping) else ()
            said.extend(str(item) for item in ((more,) if isinstance(more, str) else more))
        for phrase in said:
            stems = _stems(phrase)
            if stems:
                found.setdefault(stems, value)
    return sorted(found.items(), key=lambda item: (-len(item[0]), item[0]))


# --- the message ---------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\d+(?:[.,٫٬]\d+)*|[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u064b-\u065f\u0670]|['’.&-](?=[^\W\d_]))*|[^\w\s]|_"
)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(r"https?://[^\s<>\"'»”]+|www\.[^\s<>\"'»”]+", re.IGNORECASE)
_PHONE = re.compile(r"(?<![\w-])\+?\(?\d{1,4}\)?(?:[\s.-]?\(?\d{2,4}\)?){1,5}(?![\w-])")
_CODE = re.compile(
    r"(?<!\w)#?(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z_-])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*(?!\w)"
)
_QUOTED = re.compile(
    r"“([^”]+)”|«([^»]+)»|\"([^\"]+)\"|(?<!\w)['‘]([^'’]+(?:['’]\w+[^'’]*)*)['’](?!\w)|„([^“]+)“"
)
_LIST = re.compile(r"\[([^\[\]]+)\]")
_SCALES = {
    "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "dozen": 12, "k": 1000,
    "cien": 100, "ciento": 100, "doscientos": 200, "quinientos": 500, "mil": 1000, "millon": 10**6, "millones": 10**6,
    "ميه": 100, "مايه": 100, "ميتين": 200, "مايتين": 200, "الف": 1000, "الاف": 1000, "مليون": 10**6,
}  # fmt: skip
_TENS = {
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "sesenta": 60, "setenta": 70, "ochenta": 80,
    "noventa": 90, "ستين": 60, "سبعين": 70, "ثمانين": 80, "تمانين": 80, "تسعين": 90, "zero": 0, "cero": 0, "صفر": 0,
}  # fmt: skip
_UNITS = {
    "second": 1 / 60, "sec": 1 / 60, "minute": 1, "min": 1, "hour": 60, "hr": 60, "day": 1440, "week": 10080,
    "segundo": 1 / 60, "minuto": 1, "hora": 60, "dia": 1440, "semana": 10080, "ثانيه": 1 / 60, "دقيقه": 1, "دقايق": 1,
    "ساعه": 60, "ساعات": 60, "يوم": 1440, "ايام": 1440, "اسبوع": 10080,
}  # fmt: skip
_UNIT_STEMS = {_stem(word): value for word, value in _UNITS.items()}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    norm: str
    stem: str


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A candidate for a string: a run of words without function words, a quote or a name."""

    start: int
    end: int
    text: str
    cue: str = ""
    """Preposition before it."""
    first: int = 0
    """Index of its first token."""
    last: int = 0
    """Index behind its last token."""
    capital: bool = False
    quoted: bool = False
    joined: bool = False
    """Whether a preposition or a comma stands inside."""


@dataclass(frozen=True, slots=True)
class _Number:
    start: int
    end: int
    text: str
    value: float
    first: int
    last: int
    money: bool = False
    bound: bool = False
    """Whether it is the scale of a mark: the 6 of "4 out of 6"."""


class _Message:
    """A message with its candidates, each found when first asked for."""

    def __init__(self, text: str, now: str | None, carriers: frozenset[str]) -> None:
        self.text, self.now, self.carriers = text, now, carriers

    @cached_property
    def tokens(self) -> tuple[_Token, ...]:
        found = []
        for match in _TOKEN.finditer(self.text):
            said = match.group()
            norm = _normal(said)
            found.append(_Token(said, match.start(), match.end(), norm, _stem(said) or said))
        return tuple(found)

    @cached_property
    def times(self) -> tuple[TimeSpan, ...]:
        return find_times(self.text, self.now)

    @cached_property
    def emails(self) -> tuple[re.Match[str], ...]:
        return tuple(_EMAIL.finditer(self.text)) if "@" in self.text else ()

    @cached_property
    def urls(self) -> tuple[re.Match[str], ...]:
        return tuple(_URL.finditer(self.text))

    @cached_property
    def phones(self) -> tuple[re.Match[str], ...]:
        times = [(s.start, s.end) for s in self.times]
        return tuple(
            m
            for m in _PHONE.finditer(self.text)
            if 7 <= sum(c.isdigit() for c in m.group()) <= 15 and not _overlaps(m.start(), m.end(), times)
        )

    @cached_property
    def codes(self) -> tuple[re.Match[str], ...]:
        return tuple(
            m
            for m in _CODE.finditer(self.text)
            if not re.fullmatch(r"\d+(?:st|nd|rd|th|am|pm|k|m|h|%)?", m.group(), re.I)
        )

    @cached_property
    def quotes(self) -> tuple[_Phrase, ...]:
        found = []
        for match in _QUOTED.finditer(self.text):
            group = next(i for i in range(1, 6) if match.group(i) is not None)
            start, end = match.span(group)
            found.append(self._phrase(start, end, quoted=True))
        return tuple(found)

    @cached_property
    def language(self) -> str:
        return language_of(self.text)

    @cached_property
    def _frame(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        return _FRAMES[self.language]

    @property
    def prepositions(self) -> frozenset[str]:
        return self._frame[0]

    @property
    def articles(self) -> frozenset[str]:
        return self._frame[1]

    @cached_property
    def stops(self) -> frozenset[str]:
        return self._frame[1] | self._frame[2]

    def _phrase(self, start: int, end: int, **flags: Any) -> _Phrase:
        first = next((i for i, t in enumerate(self.tokens) if t.start >= start), len(self.tokens))
        last = next((i for i, t in enumerate(self.tokens) if t.start >= end), len(self.tokens))
        return _Phrase(start, end, self.text[start:end], first=first, last=last, **flags)

    @cached_property
    def numbers(self) -> tuple[_Number, ...]:
        return tuple(_numbers(self))

    @cached_property
    def phrases(self) -> tuple[_Phrase, ...]:
        return (*self.quotes, *_phrases(self))

    @cached_property
    def stems(self) -> tuple[str, ...]:
        return tuple(token.stem for token in self.tokens)


@lru_cache(maxsize=50_000)
def _normal(word: str) -> str:
    return normalize(word).replace(" ", "")


def _overlaps(start: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start < high and low < end for low, high in spans)


def _numbers(message: _Message) -> Iterator[_Number]:
    tokens = message.tokens
    words = cardinals(message.language)
    i, ended = 0, -1
    while i < len(tokens):
        token = tokens[i]
        value = _digits(token.text) if token.text[0].isdecimal() else None
        j, spelled = i, value is None
        if value is None:
            value, j = _spelled(tokens, i, words)
        else:
            j = i + 1
        if value is None:
            i += 1
            continue
        if j < len(tokens) and tokens[j].norm in _SCALES and not spelled:
            scale = _SCALES[tokens[j].norm]
            if tokens[j].norm != "k" or tokens[j].start == tokens[j - 1].end:
                value, j = value * scale, j + 1
        start, before = tokens[i].start, tokens[i - 1].text if i else ""
        if (
            before in ("-", "−")
            and tokens[i - 1].end == start
            and (i < 2 or not tokens[i - 2].text[-1].isalnum())
        ):
            value = -value
        after = tokens[j].text if j < len(tokens) else ""
        money = before in tuple("$€£¥") or after in tuple("$€£¥")
        back = [t.norm for t in tokens[max(0, i - 3) : i]]
        bound = len(back) == 3 and (back[1:] == ["out", "of"] or (back[-1] in ("of", "sobre") and tokens[i - 2].end == ended))
        ended = tokens[j - 1].end
        yield _Number(start, tokens[j - 1].end, message.text[start : tokens[j - 1].end], value, i, j, money, bound)
        i = j


def _digits(text: str) -> float | None:
    plain = "".join(str(int(c)) if c.isdecimal() else {"٫": ".", "٬": ","}.get(c, c) for c in text)
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(",", "")
    if re.fullmatch(r"\d+,\d+", plain):
        plain = plain.replace(",", ".")
    try:
        return float(plain) if len(plain) < 25 else None
    except ValueError:
        return None


def _spelled(tokens: Sequence[_Token], i: int, words: Mapping[str, int]) -> tuple[float | None, int]:
    """Value of "two hundred and fifty", and the index behind it."""
    total, current, seen, j = 0.0, 0.0, False, i
    while j < len(tokens):
        word = tokens[j].norm
        small = words.get(word, _TENS.get(word))
        if small is None and seen and word[:1] == "و":
            small = words.get(word[1:], _TENS.get(word[1:]))
            word = word[1:]
        scale = _SCALES.get(word) if word != "k" else None
        if small is not None:
            if (
                seen
                and current
                and not (current % 100 == 0 or (current % 100 >= 20 and small < 10) or small >= 20)
            ):
                break
            current += small
        elif scale is not None and (seen or word not in ("million", "mil")):
            if scale >= 1000:
                total, current = total + (current or 1) * scale, 0.0
            else:
                current = (current or 1) * scale
        elif word in ("and", "y") and seen and j + 1 < len(tokens):
            follow = tokens[j + 1].norm
            if current < 20 or follow not in words and follow not in _TENS:
                break
            j += 1
            continue
        else:
            break
        seen, j = True, j + 1
    return (total + current, j) if seen else (None, i)


_BREAKS = frozenset('.,;:!?()[]{}"«»“”،؛؟¿¡\n/=<>|')


def _phrases(message: _Message) -> Iterator[_Phrase]:
    """Runs of content words with the preposition before them, then the capitalised runs inside them."""
    tokens, text = message.tokens, message.text
    spans = [(s.start, s.end) for s in message.times]
    spans += [(m.start(), m.end()) for m in (*message.emails, *message.urls)]
    cue = ""
    run: list[int] = []
    runs: list[tuple[str, list[int]]] = []
    for i, token in enumerate(tokens):
        framing = token.norm in message.prepositions or token.norm in message.stops
        if framing and token.text[:1].isupper() and _titled(tokens, i):
            framing = False
        if framing or token.text in _BREAKS or _overlaps(token.start, token.end, spans):
            if run:
                runs.append((cue, run))
                cue, run = "", []
            if token.norm in message.prepositions:
                cue = token.norm
            elif token.norm not in message.articles:
                cue = ""
        else:
            run.append(i)
    if run:
        runs.append((cue, run))
    capitals = sum(t.text[:1].isupper() for t in tokens) < 0.7 * len(tokens) or len(tokens) < 4
    for place, (cue, run) in enumerate(runs):
        yield _of_tokens(message, run[0], run[-1] + 1, cue)
        if place + 1 < len(runs):
            following, other = runs[place + 1]
            gap = text[tokens[run[-1]].end : tokens[other[0]].start]
            inner = re.fullmatch(r"\s(?:of|de|del|the|of the|de la|de los|and|y|&|in|on)\s|,\s", gap)
            both = tokens[run[-1]].text[:1].isupper() and tokens[other[0]].text[:1].isupper()
            if inner and (both or following in ("of", "de", "del")):
                yield _of_tokens(message, run[0], other[-1] + 1, cue, joined=True)
        if capitals:
            yield from _capital_runs(message, run, cue)
        head = tokens[run[0]]
        # «لسارة», «بلندن»: the preposition is written onto the word.
        if head.norm[:1] in ("ل", "ب") and len(head.norm) > 3 and not cue:
            skip = 2 if head.norm.startswith("لل") else 1
            start = head.start + skip
            yield _Phrase(
                start,
                tokens[run[-1]].end,
                text[start : tokens[run[-1]].end],
                head.norm[0],
                run[0],
                run[-1] + 1,
            )


def _opens_sentence(tokens: Sequence[_Token], i: int) -> bool:
    return i == 0 or tokens[i - 1].text in ".!?؟¿¡:\"“"


def _titled(tokens: Sequence[_Token], i: int) -> bool:
    """Whether a capitalised function word is part of a title: "As You Like It", "Los Ángeles"."""
    if len(tokens[i].text) < 2 or _opens_sentence(tokens, i):
        return False
    before = tokens[i - 1].text[:1].isupper() and not _opens_sentence(tokens, i - 1)
    return before or (i + 1 < len(tokens) and tokens[i + 1].text[:1].isupper())


def _of_tokens(message: _Message, first: int, last: int, cue: str, **flags: Any) -> _Phrase:
    start, end = message.tokens[first].start, message.tokens[last - 1].end
    return _Phrase(start, end, message.text[start:end], cue, first, last, **flags)


def _capital_runs(message: _Message, run: list[int], cue: str) -> Iterator[_Phrase]:
    tokens = message.tokens
    current: list[int] = []
    for i in [*run, -1]:
        upper = i >= 0 and tokens[i].text[:1].isupper()
        opens = upper and _opens_sentence(tokens, i)
        if opens and (tokens[i].stem in message.carriers or tokens[i].stem in _VERB_STEMS):
            upper = False
        if upper or (i >= 0 and current and tokens[i].text[:1].isdecimal()):
            current.append(i)
        elif current:
            yield _of_tokens(
                message, current[0], current[-1] + 1, cue if current[0] == run[0] else "", capital=True
            )
            current = []


# --- pairing -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """A value that a slot could take, and how well it fits."""

    score: float
    slot: _Slot
    start: int
    end: int
    value: Any
    key: str
    """What is used up: two slots never share a stretch of the message under one key."""


_OPEN_CUES = _set("from since starting leaving departing between de desde del entre من بين")
_CLOSE_CUES = _set(
    "to until till through into returning return ending arriving a al hasta hacia الى إلى حتى لحد ل"
)
_KIND_CUES: Mapping[str, Mapping[str, float]] = {
    "place": {
        **dict.fromkeys(_set("in at near around en cerca في ب قرب عند"), 2.5),
        **dict.fromkeys(_set("to from hacia desde على الى من"), 2.0),
        **dict.fromkeys(_set("for of de a para"), 0.8),
    },
    "person": {
        **dict.fromkeys(_set("with con مع to by عند"), 2.5),
        **dict.fromkeys(_set("from para a ل الى من for por"), 2.0),
        **dict.fromkeys(_set("of de"), 1.0),
    },
    "text": dict.fromkeys(_set("about for sobre عن para por"), 1.0),
    "string": dict.fromkeys(_set("for in on with by en con para por"), 0.5),
}


def _near(slot: _Slot, message: _Message, first: int, last: int) -> float:
    """How closely words of the slot's name, or of its description, stand to a stretch of tokens."""
    stems, best = message.stems, 0.0
    for distance in range(1, 5):
        for index, weight in (
            (first - distance, 3.0 - 0.4 * distance),
            (last + distance - 1, 3.2 - 0.6 * distance),
        ):
            if 0 <= index < len(stems) and not _walled(message, index, first, last):
                if stems[index] in slot.words:
                    best = max(best, weight - 0.3 * (len(slot.words) - 1))
                elif stems[index] in slot.hints and len(stems[index]) > 1:
                    best = max(best, weight - 1.2)
    return best


def _walled(message: _Message, index: int, first: int, last: int) -> bool:
    low, high = (index, first) if index < first else (last, index)
    return any(token.text in ",.;:!?،؛؟" for token in message.tokens[low:high])


def _role_fit(slot: _Slot, message: _Message, start: int, paired: bool) -> float:
    if slot.role < 0 or not paired:
        return 0.0
    before = [token.norm for token in message.tokens if token.start < start][-3:]
    opens = any(word in _OPEN_CUES for word in before[-2:])
    closes = any(word in _CLOSE_CUES for word in before[-2:])
    if opens == closes:
        return 0.0
    return 2.0 if opens == (slot.role == 0) else -2.0


def _fill(
    message: _Message, plan: _Plan, slots: Sequence[_Slot], *, answering: bool = False
) -> dict[str, Any]:
    """Pair slots with candidates, the best fit first."""
    found: list[_Found] = []
    for slot in slots:
        found.extend(_candidates(slot, message, plan, slots))
    found.sort(key=lambda item: (-item.score, item.slot.order, item.start, -item.end))
    filled: dict[str, Any] = {}
    used: list[tuple[int, int, str]] = []
    for item in found:
        if item.slot.name in filled or item.score < _floor(item.slot, answering):
            continue
        if any(item.start < high and low < item.end and item.key == key for low, high, key in used):
            continue
        value = _coerced(item.slot, item.value)
        if value is None:
            continue
        filled[item.slot.name] = value
        used.append((item.start, item.end, item.key))
    spans = [(low, high) for low, high, _ in used]
    _fill_texts(message, plan, slots, filled, spans)
    return filled


def _floor(slot: _Slot, answering: bool) -> float:
    if slot.kind == "text" and slot.required:
        return 2.2
    if slot.kind == "number":
        return 0.8
    return 1.0 if slot.required or answering else 2.0 if slot.kind in ("string", "text", "place", "person") else 1.5


def _candidates(slot: _Slot, message: _Message, plan: _Plan, slots: Sequence[_Slot]) -> Iterator[_Found]:
    peers = [other for other in slots if other is not slot and other.kind == slot.kind]
    paired = any(other.role >= 0 and other.role != slot.role for other in peers)
    reader = _READERS.get(slot.kind, _read_string)
    for score, start, end, value, key in reader(slot, message, plan, slots):
        if slot.kind not in ("boolean",):
            score += _role_fit(slot, message, start, paired)
        yield _Found(score, slot, start, end, value, key)


_Read = Iterator[tuple[float, int, int, Any, str]]


def _read_enum(slot: _Slot, message: _Message, plan: _Plan, slots: Sequence[_Slot]) -> _Read:
    stems, tokens = message.stems, message.tokens
    matches: list[tuple[float, int, int, Any]] = []
    for phrase, value in slot.options:
        size = len(phrase)
        for i in range(len(stems) - size + 1):
            said = stems[i : i + size]
            if said == phrase:
                score = 4.0 + size + min(len("".join(phrase)), 12) / 24
            elif size == 1 and len(phrase[0]) >= 4 and _same_root(said[0], phrase[0]):
                score = 3.5
            else:
                continue
            if (
                size == 1
                and len(phrase[0]) < 3
                and not phrase[0].isdigit()
                and tokens[i].text.islower()
                and tokens[i].norm in message.stops | message.prepositions
            ):
                continue
            matches.append((score + _near(slot, message, i, i + size) / 6, i, i + size, value))
    if slot.many:
        matches.sort(key=lambda item: item[1])
        if matches:
            values = list(dict.fromkeys(value for _, _, _, value in matches))
            yield 5.0, tokens[matches[0][1]].start, tokens[matches[-1][2] - 1].end, values, "enum" + slot.name
        return
    key = "enum" + str(sorted(map(str, slot.schema.get("enum", ()))))
    for score, first, last, value in matches:
        yield score, tokens[first].start, tokens[last - 1].end, value, key


def _same_root(one: str, two: str) -> bool:
    short, long = sorted((one, two), key=len)
    return (
        len(short) >= 5
        and long.startswith(short)
        and len(long) - len(short) <= 4
        or (len(short) >= 4 and not short.isascii() and long.endswith(short) and len(long) - len(short) <= 2)
    )


_SWITCHES = frozenset(
    map(
        _stem,
        "is has include includes included enable use with allow show get only return should be flag".split(),
    )
)


def _read_boolean(slot: _Slot, message: _Message, plan: _Plan, slots: Sequence[_Slot]) -> _Read:
    content = [word for word in slot.words if word not in _SWITCHES and word not in _STOP_STEMS] or list(
        slot.words
    )
    for i, word in enumerate(message.stems):
        if word in content or (len(word) > 4 and any(_same_root(word, other) for other in content)):
            before = [token.norm for token in message.tokens[max(0, i - 3) : i]]
            after = [token.norm for token in message.tokens[i + 1 : i + 3]]
            avoiding = bool({"avoid", "exclude", "skip", "no"} & set(slot.words))
            denied = (
                any(w in _NEGATIONS  for w in before)
                or "avoided" in after
                or "free" in after
            )
            hits = sum(w in message.stems for w in content)
            if hits * 2 >= len(content):
                token = message.tokens[i]
                yield (
                    2.0 + hits,
                    token.start,
                    token.end,
                    denied == avoiding if avoiding else not denied,
                    "bool" + slot.name,
                )
            return


def _read_time(slot: _Slot, message: _Message, plan: _Plan, slots: Sequence[_Slot]) -> _Read:
    kinds = {other.kind for other in slots if other is not slot}
    paired = any(other.kind == slot.kind and other.role != slot.role for other in slots if other is not slot)
    for span in message.times:
        first = next((i for i, t in enumerate(message.tokens) if t.start >= span.start), 0)
        last = next((i for i, t in enumerate(message.tokens) if t.start >= span.end), len(message.tokens))
        near = _near(slot, message, first, last) / 2
        place = message.times.index(span)
        for value, score, ending in _time_values(slot, span, message, plan, kinds):
            if ending and not (paired and slot.role == 1):
                continue
            if (
                span.kind == "range"
                and span.end_date
                and slot.format == "date"
                and not (paired and slot.role >= 0)
            ):
                continue
            score += near + (2.5 if ending else 0.0) + (1.5 if _corrects(message, first) else 0.0)
            if paired and slot.role >= 0 and len(message.times) > 1 and place in (0, len(message.times) - 1):
                score += 0.4 if (place == 0) == (slot.role == 0) else 0.0
            yield score, span.start, span.end, value, f"{slot.kind}{ending}"


_CORRECTIONS = _set("wait rather actually mean digo mejor prefiero sorry perdón قصدي اقصد أقصد")


def _corrects(message: _Message, first: int) -> bool:
    """Whether "no wait", "mejor" or the like stands before a value: it replaces an earlier one."""
    return any(token.norm in _CORRECTIONS for token in message.tokens[max(0, first - 3) : first])


def _time_values(
    slot: _Slot, span: TimeSpan, message: _Message, plan: _Plan, kinds: set[str]
) -> Iterator[tuple[str, float, bool]]:
    clock, closing = _adjusted(span.time, span, plan), _adjusted(span.end_time, span, plan)
    if slot.format == "date":
        if span.date:
            yield span.date, 8.0, False
        if span.end_date or (span.end_time and span.date):
            yield span.end_date or str(span.date), 8.0, True
    elif slot.format == "time":
        if clock:
            yield clock, 8.0, False
        if closing:
            yield closing, 8.0, True
    elif slot.format == "date-time":
        moment = _moment(span.date, clock, message.now)
        if moment:
            yield moment, 8.0, False
    elif slot.kind == "part":
        if span.part_text:
            yield _PART_CUES.sub("", span.part_text), 6.0, False
    elif stated := _stated_format(slot, span, clock, message.now):
        yield stated, 6.0, False
    elif slot.kind == "date":
        if span.day_text and "time" in kinds:
            # "in three hours" is a time, not a day.
            yield _bare(span.day_text), 2.0 if span.day_text == span.clock_text else 6.0, False
        elif span.date:
            yield _bare(span.text), 6.0, False
    elif slot.kind == "time":
        if span.clock_text and "date" in kinds:
            yield _bare(span.clock_text), 6.0, False
        elif span.time:
            yield _bare(span.text), 6.0, False
        elif "date" not in kinds:
            yield _bare(span.text), 4.0, False
    else:
        yield span.text, 6.0, False


_PART_CUES = re.compile(r"^(?:in the|at|por la|de la|en la|a la|في)\s+", re.IGNORECASE)
_LEADING = re.compile(r"^(?:the|el|la|las|los|del|a las|a la|يوم|الساعة|الساعه)\s+", re.IGNORECASE)


def _bare(text: str) -> str:
    """The words of a time without the article or cue that leads them."""
    return _LEADING.sub("", text)


def _stated_format(slot: _Slot, span: TimeSpan, clock: str | None, now: str | None) -> str | None:
    """The value in the format that the property's description spells out, such as "%Y-%m-%d %H:%M:%S"."""
    description = str(slot.schema.get("description", ""))
    if not re.search(r"%Y-%m-%d|yyyy-mm-dd", description, re.IGNORECASE):
        return None
    with_clock = re.search(r"%H:%M(:%S)?|hh:mm(:ss)?", description, re.IGNORECASE)
    if not with_clock:
        return span.date
    day = span.date or (parse_now(now).date().isoformat() if now and clock else None)
    if day is None or clock is None:
        return None
    return f"{day} {clock}" + (":00" if with_clock.group(1) or with_clock.group(2) else "")


def _adjusted(clock: str | None, span: TimeSpan, plan: _Plan) -> str | None:
    """A bare hour outside the hours that the schema states, moved by twelve where that is inside them."""
    if clock is None or span.certain or plan.open_hours is None:
        return clock
    hour, (low, high) = int(clock[:2]), plan.open_hours
    return f"{hour + 12}{clock[2:]}" if hour < low and low <= hour + 12 <= high else clock


def _moment(day: str | None, clock: str | None, now: str | None) -> str | None:
    if clock is None or now is None:
        return None
    current = parse_now(now)
    date = dt.date.fromisoformat(day) if day else current.date()
    moment = dt.datetime.combine(date, dt.time.fromisoformat(clock), tzinfo=current.tzinfo)
    if not day and moment <= current:
        moment += dt.timedelta(days=1)
    return moment.isoformat()


def _read_number(slot: _Slot, message: _Message, plan: _Plan, slots: Sequence[_Slot]) -> _Read:
    if slot.many:
        yield from _read_number_list(slot, message)
        return
    spans = [(s.start, s.end) for s in message.times]
    spans += [(m.start(), m.end()) for m in (*message.emails, *message.urls, *message.phones, *message.codes)]
    rivals = [other for other in slots if other.kind == "number" and other is not slot and not other.many]
    unit = next((_UNIT_STEMS[word] for word in slot.words if word in _UNIT_STEMS), None)
    unit = unit or next(
        (_UNIT_STEMS[w] for w in sorted(slot.hints) if w in _UNIT_STEMS and "duration" in slot.words), None
    )
    free = [n for n in message.numbers if not _overlaps(n.start, n.end, spans)]
    text = slot.type == "string"
    for number in free:
        near = _near(slot, message, number.first, number.last)
        rival = max((_near(other, message, number.first, number.last) for other in rivals), default=0.0)
        score = (1.6 if slot.required else 0.9) + near - (0.8 if rival > near else 0.0)
        if not rivals and len(free) == 1:
            score += 0.7
        if not number.text[:1].isdecimal() and any(other.text[:1].isdecimal() for other in free):
            score -= 0.6
        after = message.stems[number.last] if number.last < len(message.stems) else ""
        value: Any = number.value
        if after in _UNIT_STEMS:
            if unit:
                value, score = number.value * _UNIT_STEMS[after] / unit, score + 2.0
            elif not near:
                score -= 1.0
        elif unit and not near:
            score -= 0.5
        if number.bound:
            score += 1.5 if _SCALE_WORDS.intersection(slot.words) else -1.5
        elif _SCALE_WORDS.intersection(slot.words) and any(other.bound for other in free):
            score -= 1.5
        if slot.type == "number" and not text and message.text[number.end : number.end + 1] == "%":
            value = value if "percent" in slot.hints or "percentag" in slot.hints else round(value / 100, 10)
        if number.money and _MONEY.intersection(slot.words):
            score += 2.5
        yield score, number.start, number.end, _figure(value) if text else value, "number"
    if unit:
        yield from _read_duration(message, unit)


_SCALE_WORDS = frozenset(map(_stem, "best max maximum scale total".split()))


def _figure(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


_MONEY = frozenset(
    map(_stem, "price cost budget amount fee money salary payment loan principal value income total".split())
)
_HALF = re.compile(
    r"\b(?:(an?|one|una?) )?(half an|half|quarter of an|media|cuarto de|نص|نصف|ربع)? ?(hour|hora|ساعة|ساعه)\b(?: (?:and a|y|و) ?(half|quarter|media|cuarto|نص|نصف|ربع))?",
    re.IGNORECASE,
)


def _read_duration(message: _Message, unit: float) -> _Read:
    """ "half an hour", "una hora y media", «نص ساعة»: lengths without a figure."""
    for match in _HALF.finditer(message.text):
        if any(n.end <= match.start() <= n.end + 1 for n in message.numbers) and not match.group(1):
            continue
        part = {"h": 30.0, "m": 30.0, "ن": 30.0, "q": 15.0, "c": 15.0, "ر": 15.0}
        length = part[match.group(2)[0].lower()] if match.group(2) else 60.0
        if match.group(4):
            length += part[match.group(4)[0].lower()]
        yield 2.5, match.start(), match.end(), length / unit, "number"


def _read_number_list(slot: _Slot, message: _Message) -> _Read:
    for match in _LIST.finditer(message.text):
        values = [_digits(part.strip().lstrip("-")) for part in match.group(1).split(",")]
        if values and None not in values:
            signs = [-1 if part.strip().startswith("-") else 1 for part in match.group(1).split(",")]
            first = sum(t.start < match.start() for t in message.tokens)
            last = sum(t.start < match.end() for t in message.tokens)
            numbers = [sign * value for sign, value in zip(signs, values, strict=True) if value is not None]
            yield 5.0 + _near(slot, message, first, last), match.start(), match.end(), numbers, "list"
    run: list[_Number] = []
    for number in (*message.numbers, None):
        gap = message.text[run[-1].end : number.start] if run and number else ""
        if number and run and re.fullmatch(r"[\s,،]*(?:and|y|و|&)?[\s,،]*", gap):
            run.append(number)
            continue
        if run:
            near = _near(slot, message, run[0].first, run[-1].last)
            yield (
                1.0 + near + (1.5 if len(run) > 1 else 0.0),
                run[0].start,
                run[-1].end,
                [n.value for n in run],
                "list",
            )
        run = [number] if number else []


def _read_pattern(slot: _Slot, message: _Message, plan: _Plan, slots: Sequence[_Slot]) -> _Read:
    for match in {"email": message.emails, "url": message.urls, "phone": message.phones}[slot.kind]:
        yield 9.0, match.start(), match.end(), match.group().rstrip(".,;:!?"), "text"
    if slot.kind == "url" and slot.format != "uri":
        for match in re.finditer(
            r"\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|io|es|dev|app|edu|gov)\b(?:/\S*)?",
            message.text,
            re.I,
        ):
            yield 6.0, match.start(), match.end(), match.group(), "text"
    if slot.kind == "phone":
        for number in message.numbers:
            if len(number.text) >= 5 and number.text.isdecimal():
                yield 5.0, number.start, number.end, number.text, "text"


def _read_id(slot: _Slot, message: _Message, plan: _Plan, slots: Sequence[_Slot]) -> _Read:
    for match in message.codes:
        if not any(m.start() <= match.start() < m.end() for m in (*message.emails, *message.urls)):
            first = sum(t.start < match.start() for t in message.tokens)
            last = sum(t.start < match.end() for t in message.tokens)
            yield (
                6.0 + _near(slot, message, first, last) / 2,
                match.start(),
                match.end(),
                match.group().lstrip("#"),
                "text",
            )
    times = [(s.start, s.end) for s in message.times]
    for number in message.numbers:
        if number.text.isdecimal() and not _overlaps(number.start, number.end, times):
            near = _near(slot, message, number.first, number.last)
            before = {token.norm for token in message.tokens[max(0, number.first - 2) : number.first]}
            cued = bool(before & _ID_CUES)
            size = len(number.text)
            yield (
                near + 3.0 * cued + (1.5 if size >= 4 else 0.0),
                number.start,
                number.end,
                number.text,
                "text",
            )
    for quote in message.quotes:
        yield 3.0 + _near(slot, message, quote.first, quote.last), quote.start, quote.end, quote.text, "text"
    if not slot.required or True:
        for phrase in message.phrases:
            near = _near(slot, message, phrase.first, phrase.last)
            if near > 2 and phrase.capital and phrase.last - phrase.first == 1:
                yield near, phrase.start, phrase.end, phrase.text, "text"


_ID_CUES = _set("id number no code ref reference # order numero número código pedido رقم كود الطلب رقمه")


def _read_string(slot: _Slot, message: _Message, plan: _Plan, slots: Sequence[_Slot]) -> _Read:
    if slot.many:
        yield from _read_string_list(slot, message, plan)
        return
    yield from _read_opened(slot, message)
    if len(slot.words) > 1 and slot.words[-1] in ("type", "kind", "category"):
        for token in message.tokens:
            if token.stem == slot.words[-2] and len(token.stem) > 3:
                yield 2.5, token.start, token.end, token.text, "head"
    for phrase in message.phrases:
        trimmed = _trimmed(phrase, slot, message, plan)
        if trimmed is None:
            continue
        score, phrase = trimmed
        if score > 0:
            yield score + min(len(phrase.text), 40) / 400, phrase.start, phrase.end, phrase.text, "text"
    if slot.kind == "person" and not any(other.kind == "email" for other in slots):
        for match in message.emails:
            yield 3.5, match.start(), match.end(), match.group(), "text"


def _read_opened(slot: _Slot, message: _Message) -> _Read:
    """What "called ...", "about ...", "saying ..." or a colon opens, where the property's name fits."""
    for pattern, names, score in ((_OPENERS, _SAYING, 6.0), (_WEAK_OPENERS, _SAYING, 4.2), (_NAMERS, _NAMING, 5.0), (_TOPICS, _ABOUT, 4.0)):
        match = pattern.search(message.text, 3) if names.intersection(slot.words) else None
        if match is None:
            continue
        start, end = match.end(), len(message.text)
        if names is not _SAYING:
            stop = _SENTENCE_END.search(message.text, start)
            later = [s.start for s in message.times if s.start > start]
            end = min([end, *([stop.start()] if stop else []), *later])
        rest = message.text[start:end]
        if names is not _SAYING:
            rest = _TAIL.sub("", rest)
        rest = _POLITE.sub("", rest).rstrip(" .,،\"'”»")
        start += len(rest) - len(rest.lstrip(" \"'“«"))
        rest = rest.lstrip(" \"'“«")
        if rest:
            yield score, start, start + len(rest), rest, "text"


_TAIL = re.compile(r"\s(?:at|on|for|in|by|from|to|a|el|para|en|de|this|في|يوم|على|,|،)?\s*$", re.IGNORECASE)
_WEAK_OPENERS = re.compile(r"\b(?:that|de que|que)\b\s*|:\s+|\s(?:[أا]ن(?:ني|ه|ها|نا|ي)?|بأن(?:ني|ه|ها|نا|ي)?)\s+", re.IGNORECASE)


def _trimmed(phrase: _Phrase, slot: _Slot, message: _Message, plan: _Plan) -> tuple[float, _Phrase] | None:
    """The phrase without words that only frame the value, and how well it fits the slot."""
    tokens, first, last = message.tokens, phrase.first, phrase.last
    score = 0.0
    if not phrase.quoted:
        low = first
        while (
            low < last
            and tokens[low].stem in _VERB_STEMS | plan.carriers
            and not (phrase.capital and low > 0)
        ):
            score = max(score, 2.5 if tokens[low].stem in slot.words else 0.0)
            low += 1
        high = last
        while high > low and tokens[high - 1].stem in plan.carriers and not phrase.capital:
            score = max(score, 2.5 if tokens[high - 1].stem in slot.words else 0.0)
            high -= 1
        while low < high - 1 and tokens[low].stem in slot.words:
            score, low = max(score, 2.5), low + 1
        while high - 1 > low and tokens[high - 1].stem in slot.words:
            score, high = max(score, 2.5), high - 1
        if low >= high or (high - low == 1 and tokens[low].stem in slot.words and slot.kind != "string"):
            return None
        if (low, high) != (first, last):
            start = phrase.start if low == first else tokens[low].start
            end = tokens[high - 1].end
            cue = phrase.cue if low == first else ""
            phrase = _Phrase(
                start, end, message.text[start:end], cue, low, high, phrase.capital, False, phrase.joined
            )
    if not phrase.text.strip() or not any(c.isalnum() for c in phrase.text):
        return None
    score = max(score, _near(slot, message, phrase.first, phrase.last))
    cues = _KIND_CUES.get(slot.kind, _KIND_CUES["string"])
    score += cues.get(phrase.cue, 0.0)
    if phrase.cue and phrase.cue in slot.words:
        score += 2.5
    if phrase.quoted:
        score += 2.5 if slot.kind in ("text", "string") else 1.5
    elif phrase.capital:
        score += 1.2 if slot.kind in ("place", "person", "string") else 0.6
        if slot.kind in ("string", "text") and _NAMING.intersection(slot.words):
            score += 1.0
    if phrase.joined:
        score += 0.2 if phrase.text[:1].isupper() else 0.3 if slot.kind == "text" else -0.6
    if all(token.text[:1].isdecimal() for token in tokens[phrase.first : phrase.last]):
        score -= 1.5
    return score, phrase


def _read_string_list(slot: _Slot, message: _Message, plan: _Plan) -> _Read:
    bracketed = _LIST.search(message.text)
    if bracketed:
        parts = [part.strip().strip("'\"") for part in bracketed.group(1).split(",")]
        yield 5.0, bracketed.start(), bracketed.end(), [part for part in parts if part], "text"
    items = sorted(
        (p for p in message.phrases if not p.joined), key=lambda p: (p.start, -p.quoted, -p.capital, -p.end)
    )
    kept: list[_Phrase] = []
    for phrase in items:
        if not _overlaps(phrase.start, phrase.end, [(p.start, p.end) for p in kept]):
            kept.append(phrase)
    run: list[tuple[float, _Phrase]] = []
    for phrase in (*kept, None):
        trimmed = _trimmed(phrase, slot, message, plan) if phrase else None
        gap = message.text[run[-1][1].end : trimmed[1].start] if run and trimmed else "x"
        if (
            run
            and trimmed
            and re.fullmatch(r"[\s,،\"'”“»«]*(?:and|y|e|و|&)?[\s,،\"'”“»«]*(?:the |el |la )?", gap)
        ):
            run.append(trimmed)
            continue
        if run:
            score = max(item[0] for item in run) + (1.2 if len(run) > 1 else 0.0)
            yield score, run[0][1].start, run[-1][1].end, [item[1].text for item in run], "text"
        run = [trimmed] if trimmed else []


_READERS = {
    "enum": _read_enum, "boolean": _read_boolean, "date": _read_time, "time": _read_time, "part": _read_time, "datetime": _read_time,
    "number": _read_number, "email": _read_pattern, "url": _read_pattern, "phone": _read_pattern, "id": _read_id,
}  # fmt: skip

# --- free text -----------------------------------------------------------------------------------


def _fill_texts(
    message: _Message,
    plan: _Plan,
    slots: Sequence[_Slot],
    filled: dict[str, Any],
    used: list[tuple[int, int]],
) -> None:
    """What a cue opens ("saying ...", "called ..."), then the rest of the message for one open free text."""
    texts = [
        slot for slot in slots if slot.kind in ("text", "string") and slot.type == "string" and not slot.many
    ]
    open_texts = [slot for slot in texts if slot.name not in filled and (slot.required or len(texts) == 1)]
    if len(open_texts) == 1:
        rest = _remainder(message, plan, used)
        value = _coerced(open_texts[0], rest) if rest else None
        if value is not None:
            filled[open_texts[0].name] = value


_SAYING = frozenset(map(_stem, "text message body content note comment msg".split()))
_NAMING = frozenset(map(_stem, "name title label subject playlist event".split()))
_ABOUT = frozenset(map(_stem, "topic subject query content about keyword theme question".split()))


def _remainder(message: _Message, plan: _Plan, used: list[tuple[int, int]]) -> str:
    """The longest stretch between used spans, without the words of the request itself."""
    spans = used + [(s.start, s.end) for s in message.times]
    stretches: list[list[int]] = [[]]
    for i, token in enumerate(message.tokens):
        if _overlaps(token.start, token.end, spans) or (token.text in ".!?؟;\n¿¡" and len(token.text) == 1):
            stretches.append([])
        else:
            stretches[-1].append(i)
    tokens, best = message.tokens, ""
    for run in stretches:
        colon = next((k for k, i in enumerate(run) if tokens[i].text == ":"), None)
        run = run[colon + 1 :] if colon is not None and colon + 1 < len(run) else run
        low, high = 0, len(run)
        while low < high and colon is None and _frames(tokens[run[low]], message, plan):
            low += 1
        while high > low and (
            _frames(tokens[run[high - 1]], message, plan) or not tokens[run[high - 1]].text[0].isalnum()
        ):
            high -= 1
        if low < high:
            text = message.text[tokens[run[low]].start : tokens[run[high - 1]].end]
            best = text if len(text) > len(best) else best
    return best


def _frames(token: _Token, message: _Message, plan: _Plan) -> bool:
    return (
        token.norm in message.stops
        or token.norm in message.prepositions
        or token.stem in _VERB_STEMS
        or token.stem in plan.carriers
        or not token.text[0].isalnum()
    )


# --- checks, memory ------------------------------------------------------------------------------


def _coerced(slot: _Slot, value: Any) -> Any:
    """The value in the property's type, or None where it breaks the property's schema."""
    if slot.many:
        items = value if isinstance(value, list) else [value]
        items = [_typed(slot, item) for item in items]
        low, high = slot.schema.get("minItems", 0), slot.schema.get("maxItems", 10_000)
        return None if None in items or not low <= len(items) <= high else items
    return _typed(slot, value)


def _typed(slot: _Slot, value: Any) -> Any:
    schema = slot.schema.get("items", {}) if slot.many else slot.schema
    options = schema.get("enum")
    if options:
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


_FOLLOWING = re.compile(
    r"\s*[¿]?\s*(?:and|what about|how about|also|or|instead|y|que tal|qué tal|o|mejor|también|و|طيب|ماذا عن|وماذا عن)\b",
    re.IGNORECASE,
)
_PRONOUNS: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (
        _set(
            "her him them she he they hers his ella él ellos ellas le lo la لها له معها معه اليه اليها إليه إليها عنه عنها"
        ),
        frozenset(("person", "contact", "staff")),
    ),
    (_set("there here allí allá ahí هناك هنالك"), frozenset(("place", "city", "location"))),
    (
        _set("it that this same one eso esto mismo misma lo la نفس هذا ذلك ذاك هاد"),
        frozenset(("id", "item", "date", "time", "place", "person", "title")),
    ),
    (_set("then same entonces mismo وقتها نفس"), frozenset(("date", "time"))),
)


def _from_memory(message: _Message, plan: _Plan, memory: Memory, filled: dict[str, Any]) -> None:
    """Fill gaps with what was mentioned: required ones by type, others where a pronoun refers back."""
    words = {token.norm for token in message.tokens}
    referred = {kind for pronouns, kinds in _PRONOUNS if words & pronouns for kind in kinds}
    entities = sorted((e for e in memory.entities if not e.secret), key=lambda e: -e.turn)
    for slot in plan.slots:
        if slot.name in filled or slot.many:
            continue
        for entity in entities:
            if not _fits(entity, slot):
                continue
            same = entity.type == slot.kind or entity.type in referred or _stem(entity.type) in slot.words
            if slot.required or (same and entity.type in referred):
                value = _coerced(slot, _entity_value(slot, entity))
                if value is not None:
                    filled[slot.name] = value
                    break


def _fits(entity: Entity, slot: _Slot) -> bool:
    kind = _stem(entity.type)
    if kind in slot.words or entity.type == slot.kind:
        return True
    if slot.kind == "string" and kind in slot.hints:
        return True
    return any(kind in names and slot.kind == name for name, names in _KIND_STEMS)


def _entity_value(slot: _Slot, entity: Entity) -> Any:
    if slot.kind == "enum":
        stems = _stems(entity.value)
        return next(
            (value for phrase, value in slot.options if phrase == stems or str(value) == entity.value), None
        )
    if slot.type in ("integer", "number"):
        return _digits(entity.value.strip())
    return entity.value


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
        Arguments that satisfy the tool's schema, and JSON pointers of its required user arguments without a value.

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
    plan, memory = _plan(tool), query.memory
    message = _Message(query.message, query.now, plan.carriers)
    kept: dict[str, Any] = {}
    pending = memory.pending if memory is not None else None
    answering = pending is not None and pending.tool == tool.id
    if pending is not None and answering:
        kept = {s.name: pending.arguments[s.name] for s in plan.slots if s.name in pending.arguments}
    slots = [slot for slot in plan.slots if slot.name not in kept]
    filled = {**kept, **_fill(message, plan, slots, answering=answering)}
    if memory is not None:
        if answering:
            _answer(message, plan, filled)
        else:
            _carry_over(message, plan, memory, tool, filled)
        _from_memory(message, plan, memory, filled)
    filled = _checked(tool, plan, filled)
    return Filled(arguments=filled, missing=missing_arguments(tool, filled))


_EMPTY = Filled()


def _answer(message: _Message, plan: _Plan, filled: dict[str, Any]) -> None:
    """A bare answer ("Maria") is the value of the first text that the pending call still misses."""
    slot = next((s for s in plan.slots if s.required and s.name not in filled), None)
    if slot is None or slot.many or slot.type != "string" or slot.kind in ("enum", "email", "url", "phone"):
        return
    if slot.kind in ("date", "time", "datetime") or len(message.tokens) > 12:
        return
    rest = _POLITE.sub("", message.text).strip()
    words = [t for t in message.tokens if t.end <= len(rest) + 1]
    while words and (words[0].norm in message.prepositions or words[0].norm in message.stops) and len(words) > 1:
        words = words[1:]
    value = _coerced(slot, message.text[words[0].start : len(rest)] if words else rest)
    if value is not None:
        filled[slot.name] = value


def _carry_over(message: _Message, plan: _Plan, memory: Memory, tool: Tool, filled: dict[str, Any]) -> None:
    """ "and on saturday?" repeats the last call with what it changes."""
    last = memory.calls[-1] if memory.calls else None
    if last is None or last.tool != tool.id or len(message.tokens) > 8 or not _FOLLOWING.match(message.text):
        return
    for slot in plan.slots:
        if slot.name in last.arguments:
            filled.setdefault(slot.name, last.arguments[slot.name])


def _checked(tool: Tool, plan: _Plan, filled: dict[str, Any]) -> dict[str, Any]:
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


# --- types ---------------------------------------------------------------------------------------


def message_types(message: str, now: str | None = None) -> frozenset[str]:
    """Return which kinds of values a message carries: a cheap signal for ranking, with no tool in mind.

    Some of "date", "time", "number", "email", "phone", "url", "id", "quoted", "name".

    >>> sorted(message_types("mail ana@example.com about order A-113 for 3 people at 17:30"))
    ['email', 'id', 'number', 'time']
    """
    read = _Message(message, now, frozenset())
    found = {"time" for span in read.times if span.time} | {
        "date" for span in read.times if span.date or span.day_text
    }
    spans = [(s.start, s.end) for s in read.times]
    spans += [(m.start(), m.end()) for m in (*read.emails, *read.urls, *read.phones, *read.codes)]
    if any(not _overlaps(n.start, n.end, spans) for n in read.numbers):
        found.add("number")
    for name, values in (
        ("email", read.emails),
        ("phone", read.phones),
        ("url", read.urls),
        ("quoted", read.quotes),
    ):
        if values:
            found.add(name)
    if any(
        not _overlaps(m.start(), m.end(), [e.span() for e in (*read.emails, *read.urls)]) for m in read.codes
    ):
        found.add("id")
    if any(
        t.text[:1].isupper() and i and read.tokens[i - 1].text not in ".!?" and t.norm not in read.stops
        for i, t in enumerate(read.tokens)
    ):
        found.add("name")
    return frozenset(found)


_SCHEMA_TYPES = {
    "date": "date",
    "time": "time",
    "number": "number",
    "email": "email",
    "phone": "phone",
    "url": "url",
    "id": "id",
    "place": "name",
    "person": "name",
}


def schema_types(tool: Tool, *, required: bool = False) -> frozenset[str]:
    """Return which kinds of values a tool asks for, in the words of :func:`message_types`.

    >>> tool = Tool(id="t", input_schema={"properties": {"day": {"format": "date"}, "guests": {"type": "integer"}}})
    >>> sorted(schema_types(tool))
    ['date', 'number']
    """
    found = set()
    for slot in _plan(tool).slots:
        if slot.required or not required:
            found |= {"date", "time"} if slot.kind == "datetime" else {_SCHEMA_TYPES.get(slot.kind, "text")}
    return frozenset(found)
