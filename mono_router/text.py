"""Normalisation and tokens. Text in, tokens out; every layer is a switch.

Letters and digits of every script make tokens. Scripts that are written without spaces (Han, kana,
Thai, Lao, Khmer, Myanmar) are cut into character bigrams, since a whole clause would otherwise be
one token. Arabic has its own layers, each of which can be turned off to measure it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

# Harakat and the other marks of U+064B-065F, the dagger alef U+0670, and tatweel U+0640.
_ARABIC_MARKS = dict.fromkeys([*range(0x064B, 0x0660), 0x0670, 0x0640])
_ALEF = {ord(c): "ا" for c in "أإآٱ"}
# Hamza carriers lose the hamza, ta marbuta reads as ha, alef maqsura and Persian ya as ya, Persian kaf
# as Arabic kaf.
_HAMZA_FORMS = {ord(a): b for a, b in zip("ؤئةىیک", "ويهييك", strict=True)} | {ord("ء"): None}
_BAD = re.compile("[\x00\ud800-\udfff]")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002ffff]+"
)
_ARABIC_WORD = re.compile("^[\u0621-\u064a\u0671-\u06d3]+$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Layers:
    """Which layers of normalisation run."""

    unicode: bool = True
    arabic: bool = True
    hamza: bool = True
    clitics: bool = True
    stem: bool = True


ALL = Layers()


def clean(text: str) -> str:
    """Return the text with NUL and lone surrogates replaced by U+FFFD.

    >>> clean("a\\x00b")
    'a\\ufffdb'
    """
    return _BAD.sub("\ufffd", text) if _BAD.search(text) else text


class _Words(dict[int, str]):
    """Translation table filled as characters are met (the whole table would take a second)."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if category == "Nd":
            found = str(unicodedata.digit(char))
        elif category[0] in "LNM" or category == "So":
            found = char
        elif category == "Cf" or char in "'’":
            found = ""
        else:
            found = " "
        self[code] = found
        return found


_WORDS = _Words()


def normalize(text: str, layers: Layers = ALL) -> str:
    """Return the text in the form that tokens are cut from, digits in ASCII, words parted by spaces.

    >>> normalize("Ｂook  a TABLE, please!")
    'book a table please'
    >>> normalize("إِلغاء الـمـوعد")
    'الغا الموعد'
    """
    if layers.unicode:
        if not text.isascii():
            text = unicodedata.normalize("NFKC", text)
        text = text.casefold()
    if not text.isascii():
        if layers.arabic:
            text = text.translate(_ARABIC_MARKS).translate(_ALEF)
        if layers.hamza:
            text = text.translate(_HAMZA_FORMS)
        if layers.unicode:
            text = _strip_latin_accents(text)
    return " ".join(text.translate(_WORDS).split())


_ACCENT = re.compile("[\u0300-\u036f]")


def _strip_latin_accents(text: str) -> str:
    """Fold á to a: people leave accents out as they type. Other scripts keep their marks."""
    if not any("\u00c0" <= c <= "\u024f" or "\u0300" <= c <= "\u036f" for c in text):
        return text
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))


def words(text: str, layers: Layers = ALL) -> list[str]:
    """Return the word tokens of a text, in order.

    >>> words("What's the WiFi code?")
    ['what', 'the', 'wifi', 'code']
    >>> words("明天天气")
    ['明天', '天天', '天气']
    """
    found: list[str] = []
    for raw in normalize(text, layers).split():
        if raw.isascii() or not _UNSPACED.search(raw):
            found.append(_reduced(raw, layers.clitics, layers.stem))
        else:
            found.extend(_unspaced(raw))
    return [token for token in found if token]


def _unspaced(raw: str) -> Iterable[str]:
    position = 0
    for match in _UNSPACED.finditer(raw):
        if match.start() > position:
            yield raw[position : match.start()]
        run = match.group()
        yield from (run[i : i + 2] for i in range(max(1, len(run) - 1)))
        position = match.end()
    if position < len(raw):
        yield raw[position:]


@lru_cache(maxsize=100_000)
def _reduced(token: str, clitics: bool, stemmed: bool) -> str:
    if _ARABIC_WORD.match(token):
        if clitics:
            token = strip_clitics(token)
        return _stem_arabic(token) if stemmed else token
    return stem(token) if stemmed else token


_PREFIXES = ("وال", "فال", "بال", "كال", "ولل", "لل", "ال", "و", "ف", "ب", "ك", "ل")


def strip_clitics(word: str) -> str:
    """Return an Arabic word without its conjunction, preposition and article.

    At least three letters stay, since shorter remainders are mostly roots that begin with the letter.

    >>> strip_clitics("والموعد"), strip_clitics("بكرة")
    ('موعد', 'بكرة')
    """
    for prefix in _PREFIXES:
        if word.startswith(prefix):
            rest = word[len(prefix) :]
            if len(rest) >= (3 if len(prefix) > 1 else 4):
                return rest
    return word


_ARABIC_SUFFIXES = (
    "هما",
    "كما",
    "ات",
    "ون",
    "ين",
    "ان",
    "ها",
    "هم",
    "كم",
    "نا",
    "ني",
    "وا",
    "ه",
    "ي",
    "ك",
    "ت",
)


def _stem_arabic(word: str) -> str:
    for suffix in _ARABIC_SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


def stem(token: str) -> str:
    """Return a Latin-script word without its common English or Spanish inflection.

    A light cut on purpose: plural, -ing, -ed, Spanish -ar/-er/-ir and gender, never a derivation.

    >>> [stem(w) for w in ("bookings", "cancelled", "prices", "reservas", "cancelar", "this")]
    ['book', 'cancel', 'price', 'reserv', 'cancel', 'this']
    """
    n = len(token)
    if n < 4 or not token.isascii() or token.isdigit():
        return token
    if token.endswith("s") and not token.endswith(("ss", "us", "is")):
        token = token[:-3] + "y" if token.endswith("ies") and n > 5 else token[:-1]
        if token.endswith(("sse", "xe", "che", "she")):
            token = token[:-1]
    for suffix, keep in (("ing", 4), ("ed", 4), ("ando", 4), ("iendo", 4), ("ar", 4), ("er", 5), ("ir", 4)):
        if token.endswith(suffix) and len(token) - len(suffix) >= keep:
            token = token[: -len(suffix)]
            if len(token) > 3 and token[-1] == token[-2] and token[-1] not in "aeiosl":
                return token[:-1]
            return token[:-1] if token.endswith("ll") else token
    if len(token) > 5 and token[-1] in "ao":
        return token[:-1]
    return token


def identifier_words(identifier: str) -> str:
    """Return an identifier with its parts set apart.

    >>> identifier_words("calendar.createEvent_v2")
    'calendar create Event v 2'
    """
    return " ".join(re.split(r"[\W_]+", _CAMEL.sub(" ", identifier))).strip()


def char_ngrams(tokens: Iterable[str], low: int = 3, high: int = 4) -> list[str]:
    """Return the character n-grams of each token, with ``<`` and ``>`` at its ends.

    >>> char_ngrams(["cat"], 3, 3)
    ['<ca', 'cat', 'at>']
    """
    found: list[str] = []
    for token in tokens:
        padded = f"<{token}>"
        for n in range(low, high + 1):
            found.extend(padded[i : i + n] for i in range(len(padded) - n + 1))
    return found
