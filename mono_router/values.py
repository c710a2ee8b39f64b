"""What a message carries: words, numbers, codes, addresses, quotes, names and other phrases, with offsets.

A message comes in; each kind of value is found when it is first asked for, with no tool in mind, so that
one reading serves every tool that is tried on it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from mono_router.date_words import cardinals, language_of
from mono_router.dates import TimeSpan, find_times
from mono_router.text import normalize
from mono_router.value_words import CURRENCIES, FRAMES, SCALES, TENS, VERB_STEMS, word_stem

_TOKEN = re.compile(
    r"(?:Dr|Mr|Mrs|Ms|Prof|Sr|Sra|St)\.(?=\s)|\d+(?:[.,٫٬]\d+)*|[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u064b-\u065f\u0670]|['’.&](?=[^\W\d_]))*|[^\w\s]|_"
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
_CLITICS = re.compile(r"(?:me|te|se|le|lo|la|nos|les|los|las)$")
_MONEY_SIGNS = frozenset(tuple("$€£¥"))
_MEASURE = re.compile(r"\d+(?:st|nd|rd|th|[a-z]{1,3}|%)?", re.IGNORECASE)


_T = TypeVar("_T")


class lazy(Generic[_T]):
    """A property that is computed once: functools.cached_property without its lock, which costs as much
    as most of these values and is gone from Python 3.12 on.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make, self._name, self.__doc__ = make, make.__name__, make.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> _T:
        found = instance.__dict__[self._name] = self._make(instance)
        return found


class Token(NamedTuple):
    """A word or a mark of a message."""

    text: str
    start: int
    end: int
    norm: str
    stem: str
    verb: bool
    """Whether it asks for something: "book", "resérvame"."""
    upper: bool


class Phrase(NamedTuple):
    """A candidate for a string: a run of words without function words, a quote or a name."""

    start: int
    end: int
    text: str
    first: int
    """Index of its first token."""
    last: int
    """Index behind its last token."""
    cue: str = ""
    """Preposition before it."""
    capital: bool = False
    quoted: bool = False


class Number(NamedTuple):
    """A number in figures or in words."""

    start: int
    end: int
    text: str
    value: float
    first: int
    last: int
    money: bool
    bound: bool
    """Whether it is the scale of a mark: the 6 of "4 out of 6"."""


_READ_CHARS = 5_000
"""A request stands in the first characters of a message; a pasted document behind it is not searched."""


@lru_cache(maxsize=50_000)
def _word(word: str) -> tuple[str, str, bool, bool]:
    norm, stemmed = normalize(word).replace(" ", ""), word_stem(word)
    bare = _CLITICS.sub("", norm)
    asks = stemmed in VERB_STEMS or (bare != norm and bool(VERB_STEMS & {bare, word_stem(bare)}))
    return norm, stemmed or word, asks, word[:1].isupper()


class Message:
    """A message with what it carries.

    >>> message = Message("a table at The Ivy for 4, tomorrow", None)
    >>> [number.value for number in message.numbers], [p.text for p in message.phrases if p.capital]
    ([4.0], ['The Ivy'])
    """

    def __init__(self, text: str, now: str | None) -> None:
        self.text, self.now = text[:_READ_CHARS], now
        found = _TOKEN.finditer(self.text)
        self.tokens = [Token(m[0], m.start(), m.end(), *_word(m[0])) for m in found]
        self.stems = [token.stem for token in self.tokens]
        self.figures = any(token.text[0].isdecimal() for token in self.tokens)
        self.language = language_of(self.text, words=[token.norm for token in self.tokens])
        self.prepositions, self.articles, words = FRAMES[self.language]
        self.stops = self.articles | words

    @lazy
    def stem_set(self) -> frozenset[str]:
        """Stems of its words, each once."""
        return frozenset(self.stems)

    @lazy
    def number_starts(self) -> frozenset[int]:
        """Indices of the tokens that numbers begin with."""
        return frozenset([number.first for number in self.numbers])

    @lazy
    def _found(self) -> dict[re.Pattern[str], re.Match[str] | None]:
        return {}

    def opened(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return the first match of a pattern behind the first characters, searched once for all slots."""
        if pattern not in self._found:
            self._found[pattern] = pattern.search(self.text, 3)
        return self._found[pattern]

    @lazy
    def times(self) -> tuple[TimeSpan, ...]:
        """Dates and clock times."""
        return find_times(self.text, self.now)

    @lazy
    def emails(self) -> list[re.Match[str]]:
        """E-mail addresses."""
        return list(_EMAIL.finditer(self.text)) if "@" in self.text else []

    @lazy
    def urls(self) -> list[re.Match[str]]:
        """Web addresses."""
        return list(_URL.finditer(self.text)) if "." in self.text else []

    @lazy
    def phones(self) -> list[re.Match[str]]:
        """Telephone numbers, of 7 to 15 digits."""
        return [
            m
            for m in (_PHONE.finditer(self.text) if self.figures else ())
            if 7 <= sum(c.isdigit() for c in m.group()) <= 15 and not overlaps(m.start(), m.end(), self.spans)
        ]

    @lazy
    def codes(self) -> list[re.Match[str]]:
        """Words of letters and digits, such as "A-113"; ordinals and measures are none."""
        found = _CODE.finditer(self.text) if self.figures else ()
        return [m for m in found if not _MEASURE.fullmatch(m.group())]

    @lazy
    def quotes(self) -> list[Phrase]:
        """What stands in quotation marks."""
        found = (m.span(m.lastindex or 0) for m in _QUOTED.finditer(self.text))
        return [Phrase(a, b, self.text[a:b], *self.token_range(a, b), quoted=True) for a, b in found]

    @lazy
    def spans(self) -> list[tuple[int, int]]:
        """Stretches that dates and clock times take."""
        return [(span.start, span.end) for span in self.times]

    @lazy
    def addresses(self) -> list[tuple[int, int]]:
        """Stretches that e-mail and web addresses take."""
        return [m.span() for m in (*self.emails, *self.urls)]

    @lazy
    def numbers(self) -> list[Number]:
        """Numbers in figures and in words, in order."""
        return list(_numbers(self))

    @lazy
    def phrases(self) -> list[Phrase]:
        """Quotes, runs of content words and runs of capitals."""
        return [*self.quotes, *_phrases(self)]

    @lazy
    def walls(self) -> list[int]:
        """How many marks of punctuation stand before each token."""
        counts = [0]
        for token in self.tokens:
            counts.append(counts[-1] + (token.text in _WALLS))
        return counts

    @lazy
    def has_names(self) -> bool:
        """Whether capitals mark names in this message."""
        return any(
            token.upper
            and len(token.text) > 1
            and token.norm not in self.stops
            and not _opens_sentence(self.tokens, i)
            for i, token in enumerate(self.tokens)
        )

    @lazy
    def _starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def token_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the indices of the first token at or behind ``start`` and of that at or behind ``end``."""
        return bisect_left(self._starts, start), bisect_left(self._starts, end)

    def phrase(self, first: int, last: int, cue: str = "", capital: bool = False) -> Phrase:
        """Return the phrase of a range of tokens."""
        start, end = self.tokens[first].start, self.tokens[last - 1].end
        return Phrase(start, end, self.text[start:end], first, last, cue, capital)


@lru_cache(maxsize=64)
def read_message(text: str, now: str | None) -> Message:
    """Return a message ready to be searched; the last ones are kept, since several tools are tried on one."""
    return Message(text, now)


def overlaps(start: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether a stretch shares a character with one of the spans.

    >>> overlaps(0, 3, [(2, 5)]), overlaps(0, 2, [(2, 5)])
    (True, False)
    """
    return bool(spans) and any(start < high and low < end for low, high in spans)


def _numbers(message: Message) -> Iterator[Number]:
    tokens, text = message.tokens, message.text
    words = cardinals(message.language)
    said = [_number_word(t.norm, words) for t in tokens]
    if not message.figures and _number_words(message.language).isdisjoint(said):
        return
    i, ended = 0, -1
    while i < len(tokens):
        token, j = tokens[i], i + 1
        value = figure(token.text) if token.text[0].isdecimal() else None
        if value is None:
            word = _number_word(token.norm, words)
            known = word in words or word in TENS or word in SCALES
            value, j = _spelled(tokens, i, words) if known else (None, i)
            if value is None:
                i += 1
                continue
        elif scale := SCALES.get(tokens[j].norm if j < len(tokens) else ""):
            thousands = tokens[j].norm != "k" or tokens[j].start == token.end  # "2k", never "2 k"
            value, j = (value * scale, j + 1) if thousands else (value, j)
        before, after = tokens[i - 1].text if i else "", tokens[j] if j < len(tokens) else None
        minus = before in ("-", "−") and tokens[i - 1].end == token.start
        if minus and (i < 2 or not tokens[i - 2].text[-1].isalnum()):
            value = -value
        money = before in _MONEY_SIGNS or (
            after is not None and (after.text in _MONEY_SIGNS or after.stem in CURRENCIES)
        )
        back = [t.norm for t in tokens[max(0, i - 3) : i]]
        bound = back[1:] == ["out", "of"] or (
            len(back) == 3 and back[-1] in ("of", "sobre") and tokens[i - 2].end == ended
        )
        ended = tokens[j - 1].end
        yield Number(token.start, ended, text[token.start : ended], value, i, j, money, bound)
        i = j


def _number_word(word: str, words: Mapping[str, int]) -> str:
    """A word, without an Arabic preposition that is written onto a number: «لعشرين دقيقة»."""
    if len(word) > 4 and word[0] in "لب" and (word[1:] in words or word[1:] in TENS or word[1:] in SCALES):
        return word[1:]
    return word


@lru_cache(maxsize=4)
def _number_words(language: str) -> frozenset[str]:
    return frozenset([*cardinals(language), *TENS, *SCALES])


def figure(text: str) -> float | None:
    plain = "".join(str(int(c)) if c.isdecimal() else {"٫": ".", "٬": ","}.get(c, c) for c in text)
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(",", "")
    if re.fullmatch(r"\d+,\d+", plain):
        plain = plain.replace(",", ".")
    try:
        return float(plain) if len(plain) < 25 else None
    except ValueError:
        return None


def _spelled(tokens: Sequence[Token], i: int, words: Mapping[str, int]) -> tuple[float | None, int]:
    """Value of "two hundred and fifty", and the index behind it."""
    total, current, seen = 0.0, 0.0, False
    while i < len(tokens):
        word = _number_word(tokens[i].norm, words)
        small, scale = words.get(word, TENS.get(word)), SCALES.get(word) if word != "k" else None
        if small is not None:
            fits = current % 100 == 0 or (current % 100 >= 20 and small < 10) or small >= 20
            if seen and current and not fits:
                break
            current += small
        elif scale is not None and (seen or word not in ("million", "mil")):
            if scale >= 1000:
                total, current = total + (current or 1) * scale, 0.0
            else:
                current = (current or 1) * scale
        elif word in ("and", "y") and seen and current >= 20 and i + 1 < len(tokens):
            if not {tokens[i + 1].norm} & (words.keys() | TENS.keys()):
                break
        else:
            break
        seen, i = True, i + 1
    return (total + current if seen else None), i


_WALLS = frozenset(".,;:!?،؛؟")
_BREAKS = frozenset('.,;:!?()[]{}"«»“”،؛؟¿¡\n/=<>|')


def _phrases(message: Message) -> Iterator[Phrase]:
    """Runs of content words with the preposition before them, each followed by the names inside it."""
    tokens, taken = message.tokens, set[int]()
    prepositions, stops = message.prepositions, message.stops
    for low, high in (*message.spans, *message.addresses):
        first = bisect_right(tokens, low, key=lambda token: token.end)
        taken.update(range(first, message.token_range(low, high)[1]))
    cue, run = "", list[int]()
    runs: list[tuple[str, list[int]]] = []
    for i, token in enumerate(tokens):
        norm = token.norm
        framing = norm in prepositions or norm in stops
        if framing and token.upper and _titled(tokens, i):
            framing = False
        if not (framing or token.text in _BREAKS or i in taken):
            run.append(i)
            continue
        if run:
            runs.append((cue, run))
            cue, run = "", []
        if norm in prepositions:
            cue = norm
        elif norm not in message.articles:
            cue = ""
    if run:
        runs.append((cue, run))
    for cue, run in runs:
        yield message.phrase(run[0], run[-1] + 1, cue)
        if any([tokens[i].upper for i in run]):
            yield from _names(message, run, cue)
        for i in run[1:]:
            # «سجلتها لنورا»: a name behind a preposition that is written onto it.
            token = tokens[i]
            if token.norm[:1] == "ل" and len(token.norm) > 3 and token.norm[1] != "ل":
                yield Phrase(token.start + 1, token.end, token.text[1:], i, i + 1, "ل")


def _names(message: Message, run: Sequence[int], cue: str) -> Iterator[Phrase]:
    """Runs of capitals, a figure between two of them included."""
    tokens = message.tokens
    current: list[int] = []
    for i in [*run, -1]:
        inner = bool(current) and i + 1 in run and tokens[i + 1].upper and tokens[i].text[0].isdecimal()
        if i >= 0 and (tokens[i].upper or inner):
            current.append(i)
        elif current:
            yield message.phrase(
                current[0], current[-1] + 1, cue if current[0] == run[0] else "", capital=True
            )
            current = []


def _opens_sentence(tokens: Sequence[Token], i: int) -> bool:
    return i == 0 or tokens[i - 1].text in '.!?؟¿¡:"“'


def _titled(tokens: Sequence[Token], i: int) -> bool:
    """Whether a capitalised function word is part of a title: "As You Like It", "Los Ángeles"."""
    return any(token.upper for token in (*tokens[max(0, i - 1) : i], *tokens[i + 1 : i + 2]))


def carried(message: Message) -> frozenset[str]:
    """Return which kinds of values a message carries, in the words of ``message_types``."""
    named = any(
        token.upper and i and message.tokens[i - 1].text not in ".!?" and token.norm not in message.stops
        for i, token in enumerate(message.tokens)
    )
    coded = [m.span() for m in message.codes if not overlaps(*m.span(), message.addresses)]
    taken = message.spans + message.addresses + [m.span() for m in (*message.phones, *message.codes)]
    found = {
        "time": any(span.time for span in message.times),
        "date": any(span.date or span.day_text for span in message.times),
        "number": any(not overlaps(number.start, number.end, taken) for number in message.numbers),
        "email": bool(message.emails),
        "phone": bool(message.phones),
        "url": bool(message.urls),
        "quoted": bool(message.quotes),
        "id": bool(coded),
        "name": named,
    }
    return frozenset(kind for kind, present in found.items() if present)
