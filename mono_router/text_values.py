"""Texts and names, read for a slot: quotes, phrases behind a preposition, and what "saying" opens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from mono_router.pairing import Found, Reading, runs
from mono_router.value_words import PRONOUNS, stem_set, word_set
from mono_router.values import Phrase, overlaps

_Read = Iterator[Found]
_NAMES = ("place", "venue", "person")
# How well the preposition before a phrase fits a kind of slot.
_CUES: Mapping[str, Mapping[str, float]] = {
    kind: {word: score for score, said in rows for word in word_set(said)}
    for kind, rows in {
        "place": (
            (0.8, "for of de a para"),
            (2.0, "to from hacia desde على الى من"),
            (2.5, "in at near around en cerca في ب قرب عند"),
        ),
        "venue": ((0.5, "in for of para ب"), (1.5, "to from near around de"), (2.5, "at on en في")),
        "person": ((1.0, "of de"), (2.0, "from para a ل الى من for por"), (2.5, "with con مع to by عند")),
        "text": ((1.0, "about for sobre عن para por"),),
        "string": ((0.5, "for in on with by en con para por"),),
    }.items()
}
_NAMES_PARTED = re.compile(r"[\s,،\"'”“»«]*(?:and|y|e|و|&)?[\s,،\"'”“»«]*(?:the |el |la )?")


def read_string(reading: Reading) -> _Read:
    """Yield the texts that a slot could take."""
    slot, message = reading.slot, reading.message
    if slot.many:
        yield from _read_strings(reading)
        return
    yield from _read_opened(reading)
    yield from _read_reminded(reading)
    for i, word in enumerate(message.stems if slot.options else ()):
        for known, _ in slot.options.get(word, ()):
            if tuple(message.stems[i : i + len(known)]) == known:
                phrase = message.phrase(i, i + len(known))
                yield Found(3.0 + len(known) / 4, phrase.start, phrase.end, phrase.text, "text")
    if len(slot.words) > 1 and slot.words[-1] in ("type", "kind", "category"):
        for token in message.tokens:
            if token.stem == slot.words[-2] and len(token.stem) > 3:
                yield Found(2.5, token.start, token.end, token.text, "head")
    for phrase in message.phrases:
        fitted = _fitted(reading, phrase)
        if fitted and fitted[0] > 0:
            score, phrase = fitted
            yield Found(
                score + min(len(phrase.text), 40) / 400, phrase.start, phrase.end, phrase.text, "text"
            )
    if slot.kind == "person" and not any(other.kind == "email" for other in reading.slots):
        for match in message.emails:
            yield Found(3.5, *match.span(), match.group(), "text")


def _read_strings(reading: Reading) -> _Read:
    items: list[Phrase] = []
    scores: dict[Phrase, float] = {}
    for phrase in sorted(reading.message.phrases, key=lambda p: (p.start, -p.quoted, -p.capital, -p.end)):
        fitted = _fitted(reading, phrase)
        if fitted and not overlaps(phrase.start, phrase.end, [(p.start, p.end) for p in items]):
            items.append(fitted[1])
            scores[fitted[1]] = fitted[0]
    for run in runs(reading.message.text, items, _NAMES_PARTED):
        score = max(scores[phrase] for phrase in run)
        yield Found(score, run[0].start, run[-1].end, [phrase.text for phrase in run], "text")


def _opener(latin: str, arabic: str) -> re.Pattern[str]:
    """A pattern for what stands before a free text; blanks part the alternatives, "_" is a blank."""
    one, two = ("|".join(text.replace("_", " ") for text in part.split()) for part in (latin, arabic))
    return re.compile(rf"(?:\b(?:{one})\b|(?:^|\s)(?:{two})(?=\s))\s*:?\s*", re.IGNORECASE)


_SAYING = stem_set("text message body content note comment msg")
_NAMING = stem_set("name title label subject playlist event")
# What opens a free text: the pattern, the properties that it is for, the score, whether it runs to the end.
_OPENERS = (
    (_opener(
        "saying(?:_that)? says?_that that_says which_says to_say telling_(?:him|her|them)(?:_that)? "
        "diciendo(?:le)?(?:_que)? que_diga(?:_que)? diciéndole(?:_que)?",
        "ب?[أا]ن(?:ني|ه|ها|نا|ي)? تقول يقول قوله قولها",
    ), _SAYING, 6.0, True),
    (re.compile(r"\b(?:that|de que|que)\b\s*|:\s+|\sب?[أا]ن(?:ني|ه|ها|نا|ي)?\s+", re.I), _SAYING, 4.2, True),
    (_opener(
        "called named titled entitled labell?ed nam(?:e|ing)_it call_it the_name llamad[oa]s? titulad[oa]s? "
        "que_se_llam[ae] con_el_(?:nombre|título|asunto)(?:_de)? "
        "with_the_(?:name|title|subject|label)(?:_of)?",
        "اسمه اسمها بعنوان باسم بإسم",
    ), _NAMING, 5.0, False),
    (_opener("about regarding concerning on_the_topic_of sobre acerca_de", "عن حول بخصوص بشأن"),
     stem_set("topic subject query content about keyword theme question"), 4.0, False),
    (_opener("because since porque ya_que", "لأن لان لأني لاني عشان علشان"),
     stem_set("reason cause why motivo"), 5.0, False),
)  # fmt: skip
_SENTENCE_END = re.compile(r"[.!?؟\n](?:\s|$)|\n")
POLITE = re.compile(
    r"(?:[\s,،.!?؟]*(?:please|thanks|thank you|por favor|gracias|لو سمحت|من فضلك|رجاء|شكرا)?[\s,،.!?؟]*)$",
    re.IGNORECASE,
)
"""What is said at the end of a message and belongs to no value."""


@lru_cache(maxsize=10_000)
def _openers(words: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], float, bool], ...]:
    """What may open a value of a property with these words in its name."""
    return tuple(
        (pattern, score, whole) for pattern, names, score, whole in _OPENERS if names.intersection(words)
    )


_WANTING = word_set(
    "أريد اريد نريد أود اود نود أحب احب ممكن يمكن يمكنك أستطيع أرجو ارجو أرغب لازم ينبغي قبل بعد بدون "
    "quiero quisiera necesito gustaría espero antes después"
)


def _is_wanted(reading: Reading, start: int) -> bool:
    """Whether what opens a text there is the "to" of "I want to", «أريد أن»."""
    place, _ = reading.message.token_range(start, start)
    near = reading.message.tokens[max(0, place - 1) : place + 1]
    return any(token.norm in _WANTING for token in near if token.start <= start)


def _read_opened(reading: Reading) -> _Read:
    """What "called ...", "about ...", "saying ..." or a colon opens, where the property's name fits."""
    message = reading.message
    for pattern, score, whole in _openers(reading.slot.words):
        match = message.opened(pattern)
        if match is None or _is_wanted(reading, match.start()):
            continue
        start, end = match.end(), len(message.text)
        if not whole:
            stop = _SENTENCE_END.search(message.text, start)
            end = min([stop.start() if stop else end, *(s.start for s in message.times if s.start > start)])
        rest = POLITE.sub("", message.text[start:end]).rstrip(" .,،\"'”»")
        start += len(rest) - len(rest.lstrip(" \"'“«"))
        rest = rest.lstrip(" \"'“«")
        if rest:
            yield Found(score, start, start + len(rest), rest, "text")


_REMINDING = stem_set(
    "remind reminder remember recuérdame recuérdanos recuérdale recordarme recordatorio avísame avísanos "
    "acuérdame ذكرني ذكريني ذكرنا فكرني فكريني فكرنا تذكير"
)
_REMINDED = stem_set("text reminder task title")
_THAT = word_set("to that que أن بأن ان بان إني اني")
_INFINITIVE = re.compile(r"\w{2,}(?:ar|er|ir)(?:(?:me|te|se|nos)?(?:l[aeo]s?)?)$")
_BEFORE_TIME = re.compile(r"(?:\s+(?:at|on|by|in|for|a|el|la|las|para|في|عند|يوم))+$", re.IGNORECASE)


def _read_reminded(reading: Reading) -> _Read:
    """What "remind me to ...", "recuérdame llamar ..." or «ذكرني بشراء ...» asks for, its verb included."""
    message, slot = reading.message, reading.slot
    if not _REMINDED.intersection(slot.words) or message.stem_set.isdisjoint(_REMINDING):
        return
    tokens = message.tokens
    opener = next(i for i, token in enumerate(tokens) if token.stem in _REMINDING)
    for token in tokens[opener + 1 :]:
        if token.text in ".!?؟" or overlaps(token.start, token.end, message.spans):
            continue
        if token.norm in _THAT:
            start = token.end
        elif message.language == "es" and _INFINITIVE.fullmatch(token.norm):
            start = token.start
        elif message.language == "ar" and token.norm.startswith("ب") and len(token.norm) > 3:
            start = token.start + 1  # the preposition is written onto the verbal noun
        else:
            continue
        stop = _SENTENCE_END.search(message.text, start)
        ends = [span.start for span in message.times if span.start > start]
        rest = message.text[start : min([stop.start() if stop else len(message.text), *ends])]
        rest = _BEFORE_TIME.sub("", POLITE.sub("", rest).rstrip(" .,،")) if ends else POLITE.sub("", rest)
        start += len(rest) - len(rest.lstrip())
        rest = rest.strip(" .,،")
        if rest:
            yield Found(5.0, start, start + len(rest), rest, "text")
        return


_COMPANY = word_set("with con مع")


def _fitted(reading: Reading, phrase: Phrase) -> tuple[float, Phrase] | None:
    """How well a phrase fits, and the phrase without words that only frame the value."""
    slot, message, carriers = reading.slot, reading.message, reading.plan.carriers
    tokens, named = message.tokens, False
    low, high, cue, start, end = phrase.first, phrase.last, phrase.cue, phrase.start, phrase.end
    if not phrase.quoted:
        while (
            low < high and not (phrase.capital and low) and (tokens[low].verb or tokens[low].stem in carriers)
        ):
            named |= tokens[low].stem in slot.words
            low += 1
        if slot.kind in _NAMES:
            while low < high - 1 and overlaps(tokens[high - 1].start, tokens[high - 1].end, reading.chosen):
                high -= 1
        while high > low and tokens[high - 1].stem in carriers and not tokens[high - 1].upper:
            named |= tokens[high - 1].stem in slot.words
            high -= 1
        while low < high - 1 and tokens[low].stem in slot.words:
            named, low = True, low + 1
        while low < high - 1 and tokens[high - 1].stem in slot.words:
            named = True
            if tokens[high - 1].upper:
                break  # "British Museum" keeps its museum
            high -= 1
        if low >= high or (high - low == 1 and tokens[low].stem in slot.words and slot.kind != "string"):
            return None
        if (low, high) != (phrase.first, phrase.last):
            start, end = start if low == phrase.first else tokens[low].start, tokens[high - 1].end
            cue = cue if low == phrase.first else ""
        if all(token.norm in PRONOUNS for token in tokens[low:high]):
            return None
    if slot.kind in _NAMES and message.text.endswith(("'s", "’s"), 0, end):
        end -= 2
    if (start, end, low, high, cue) != (phrase.start, phrase.end, phrase.first, phrase.last, phrase.cue):
        phrase = Phrase(start, end, message.text[start:end], low, high, cue, phrase.capital, phrase.quoted)
    score = max(2.5 if named else 0.0, reading.near(low, high))
    score += _CUES.get(slot.kind, _CUES["string"]).get(cue, 0.0)
    if slot.kind == "text" and cue in _COMPANY and phrase.capital:
        score -= 1.2
    if phrase.quoted:
        score += 2.5 if slot.kind in ("text", "string") else 1.5
    elif phrase.capital:
        score += 0.6 if slot.kind not in (*_NAMES, "string") else 1.2
        score += 1.0 if slot.kind in ("string", "text") and _NAMING.intersection(slot.words) else 0.0
    elif slot.kind in _NAMES and message.has_names:
        score -= 1.0
    if not (phrase.quoted or phrase.capital) and low in message.number_starts:
        score -= 1.5  # "four people" is a count
    return score, phrase
