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
    ['what', 'the', 'wif', 'cod']
    >>> words("明天天气")
    ['明天', '天天', '天气']
    """
    if text.isascii() and layers.unicode:
        # What most messages are: no layer but case and endings has anything to do.
        plain = text.casefold().translate(_WORDS).split()
        return [_reduced(token, False, True) for token in plain] if layers.stem else plain
    normal = normalize(text, layers)
    if not (layers.clitics or layers.stem) and (normal.isascii() or not _UNSPACED.search(normal)):
        return normal.split()
    found: list[str] = []
    for raw in normal.split():
        if raw.isascii() or not _UNSPACED.search(raw):
            found.append(_reduced(raw, layers.clitics, layers.stem))
        else:
            found.extend(_unspaced(raw))
    return [token for token in found if token]


def normalize_words(text: str, layers: Layers = ALL) -> str:
    """Return the word tokens of a text joined by spaces."""
    return " ".join(words(text, layers))


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


def reduced(token: str, layers: Layers) -> str:
    """Return a normalised word after the layers that cut it: clitics and endings."""
    return _reduced(token, layers.clitics, layers.stem)


@lru_cache(maxsize=100_000)
def _reduced(token: str, clitics: bool, stemmed: bool) -> str:
    if _ARABIC_WORD.match(token):
        if clitics:
            token = strip_clitics(token)
        return _stem_arabic(token) if stemmed else token
    return stem(token) if stemmed else token


_PREFIXES = ("وال", "بال", "كال", "فال", "لل", "ال")


def strip_clitics(word: str) -> str:
    """Return an Arabic word without its conjunction, preposition and article.

    At least three letters stay, four of the word before a single letter is cut, since shorter words
    mostly begin with that letter by root.

    >>> strip_clitics("والموعد"), strip_clitics("بكرة")
    ('موعد', 'بكرة')
    """
    if len(word) <= 4:
        return word
    for prefix in _PREFIXES:
        if word.startswith(prefix) and len(word) - len(prefix) >= 3:
            return word[len(prefix) :]
    return word[1:] if word[0] in "وفبلك" else word


_ARABIC_SUFFIXES = ("ات", "ين", "ون", "ان", "يه", "ها", "هم", "نا", "ه", "ي")


def _stem_arabic(word: str) -> str:
    for suffix in _ARABIC_SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


_SUFFIXES = tuple(
    "izations ization ational fulness iveness ations ation ments ment ities ity ings ing edly ed "
    "ers er ors or ions ion ives ive ably able ally al ly ness es e y ando iendo adas ados ada "
    "ado ar ir as os a o".split()
)
_DOUBLING = frozenset(("ing", "ings", "ed", "er", "ers"))


def stem(token: str) -> str:
    """Return a Latin-script word without its common English or Spanish endings.

    One pass over a list of endings, a stem of three letters with a vowel stays. On the public sets it
    does as well as Porter's stemmer.

    >>> [stem(w) for w in ("bookings", "cancelled", "prices", "cancellation", "reservas", "cancelar")]
    ['book', 'cancell', 'pric', 'cancell', 'reserv', 'cancel']
    """
    if len(token) < 4 or not token.isascii() or token.isdigit():
        return token
    if token.endswith("s") and not token.endswith(("ss", "us", "is")):
        if token.endswith("ies") and len(token) > 4:
            token = token[:-3] + "y"
        else:
            token = token[:-2] if token.endswith(("ches", "shes", "xes", "sses", "zes")) else token[:-1]
    for suffix in _SUFFIXES:
        kept = token[: -len(suffix)]
        if token.endswith(suffix) and len(kept) >= 3 and any(c in "aeiouy" for c in kept):
            token = kept
            if suffix in _DOUBLING and len(token) > 3 and token[-1] == token[-2] and token[-1] not in "lsz":
                token = token[:-1]
            break
    return token[:-1] if token.endswith("i") else token


def identifier_words(identifier: str) -> str:
    """Return an identifier with its parts set apart.

    >>> identifier_words("calendar.createEvent_v2")
    'calendar create Event v 2'
    """
    return " ".join(re.split(r"[\W_]+", _CAMEL.sub(" ", identifier))).strip()


def char_ngrams(token: str, n: int = 4) -> list[str]:
    """Return the character n-grams of a word with ``^`` and ``$`` at its ends; a short word is one.

    >>> char_ngrams("cats"), char_ngrams("at")
    (['^cat', 'cats', 'ats$'], ['^at$'])
    """
    padded = f"^{token}$"
    return [padded[i : i + n] for i in range(max(1, len(padded) - n + 1))]


STOP_WORDS = frozenset(
    "a an the of for to in on at by with and or is are be was were been it its this that these "
    "those i me my we our us you your he she his her them they their as from can could would "
    "should will shall may might do does did have has had please if so than then there here not "
    "no what which who whom how when where why any some all also just about into out up am im ll "
    "ve re s t d m let need want like help thanks thank hi hello hey de la el los las un una unos "
    "unas que en y o por para con del al se mi tu su es lo le les في من علي الي عن مع هذا هذه ذلك "
    "التي الذي هل ما ماذا كم كيف ان او ثم و يا لي لا كل بعد قبل تم هو هي اريد يمكنك يمكن احتاج "
    "عند بين".split()
)
"""Words that say little of what is wanted, as :func:`normalize` writes them."""

_SPANISH = frozenset(
    "el la los las un una de del que y en por para con mi me es son qué cómo cuál cuándo dónde "
    "está hay al se lo su pon hoy mañana".split()
)
_ARABIC_LETTER = re.compile("[\u0600-\u06ff]")
_LATIN_LETTER = re.compile("[A-Za-z\u00c0-\u00ff]")
_SPANISH_LETTER = re.compile("[ñ¿¡áéíóú]")
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=256)
def guess_language(text: str) -> str:
    """Return "ar" by script, "es" by its letters and small words, else "en".

    >>> guess_language("احجز موعدا"), guess_language("quiero una cita"), guess_language("book it")
    ('ar', 'es', 'en')
    """
    if not text.isascii() and len(_ARABIC_LETTER.findall(text)) > len(_LATIN_LETTER.findall(text)):
        return "ar"
    lowered = text.casefold()
    found = lowered.split()
    small = sum(word in _SPANISH for word in _WORD.findall(lowered))
    if _SPANISH_LETTER.search(lowered) or small >= max(1.0, 0.2 * len(found)):
        return "es"
    return "en"


_SENTENCE = re.compile(r"(?<=[.!?؟。;؛])\s+|\n+")
# A run of spaces is tried at its start alone and taken whole: any other way is quadratic in its length.
_JOIN = re.compile(
    r"(?:,|(?<!\s))\s++\b(?:and then|and also|and|then|also|additionally|furthermore|moreover|next|lastly"
    r"|finally|after that|afterwards|plus|as well as|besides|y también|y luego|además|luego|y)\b[,:]?\s+"
    r"|[,،]\s*(?=و)|(?<!\s)\s++(?:ثم|وأيضا|وأيضًا|بالإضافة إلى ذلك|كذلك)\s+",
    re.IGNORECASE,
)
_CLAUSE_WORDS = 3
_MAX_CLAUSES = 24


def clauses(message: str) -> list[str]:
    """Return the parts of a message: sentences, cut at connectives where each part has three words.

    >>> clauses("book me a haircut and tell me the price of a manicure")
    ['book me a haircut', 'tell me the price of a manicure']
    """
    return list(_clauses(message))


@lru_cache(maxsize=64)
def _clauses(message: str) -> tuple[str, ...]:
    # Several stages ask for the clauses of one message in turn.
    found: list[str] = []
    for sentence in _SENTENCE.split(message):
        current = ""
        for part in filter(None, map(str.strip, _JOIN.split(sentence))):
            if not current:
                current = part
            elif len(current.split()) < _CLAUSE_WORDS:
                current = f"{current} {part}"
            else:
                found.append(current)
                current = part
        if current and found and len(current.split()) < _CLAUSE_WORDS:
            found[-1] = f"{found[-1]} {current}"
        elif current:
            found.append(current)
    kept = [part for part in found if _WORD.search(part)]
    return tuple(kept[:_MAX_CLAUSES]) or (message,)
