"""How alike two messages are, by their words and by where they were routed.

Two texts or two lists of ranked tools go in, a number in [0, 1] comes out. Words are compared as character
n-grams of their stems, so that inflection, clitics and typing errors cost little, in any script; the rank
lists catch what words cannot: two ways of asking for one thing are weighed between the same tools.
"""

from __future__ import annotations

from functools import lru_cache

from mono_router import text as texts


@lru_cache(maxsize=65_536)
def _grams(word: str) -> frozenset[str]:
    return frozenset(texts.char_ngrams(word, 3))


def content_words(message: str) -> frozenset[str]:
    """Return the stems of a message that say something; all of them where none does.

    >>> sorted(content_words("please book the table"))
    ['book', 'tabl']
    """
    words = texts.normalize(message).split()
    said = [word for word in words if word not in texts.STOP_WORDS] or words
    return frozenset(texts.reduced(word, texts.ALL) for word in said)


def word_likeness(one: str, other: str) -> float:
    """Return how much of what two messages say is the same, [0, 1].

    Each word finds its best match on the other side (Dice over character trigrams); the mean over both
    sides is returned.

    >>> word_likeness("cancel my booking", "please cancel bookings"), word_likeness("price", "weather")
    (1.0, 0.0)
    """
    first, second = content_words(one), content_words(other)
    if not first or not second:
        return 0.0
    total = sum(_best(word, second) for word in first) + sum(_best(word, first) for word in second)
    return round(total / (len(first) + len(second)), 6)


def _best(word: str, words: frozenset[str]) -> float:
    if word in words:
        return 1.0
    grams = _grams(word)
    best = 0.0
    for other in words:
        theirs = _grams(other)
        best = max(best, 2 * len(grams & theirs) / (len(grams) + len(theirs)))
    return best if best >= 0.5 else 0.0
