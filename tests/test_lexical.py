"""Stage 1 against its textbook definition, and what must hold whatever the constants are."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router import lexical
from mono_router import text as texts
from mono_router.catalog import Catalog
from mono_router.dialects import written_arabic
from mono_router.lexical import (
    CONTAINED,
    GRAM_FIELDS,
    GRAM_K1,
    GRAM_SHARE,
    LENGTH_B,
    SAID,
    WORD_K1,
    LexicalRetriever,
    fields,
)
from mono_router.records import Example, Tool
from mono_router.settings import Settings

MESSAGES = [
    "book a meeting with Ana tomorrow",
    "what time is it",
    "what time is it in Cairo please",
    "احجز اجتماعا غدا",
    "manda un mensaje a Luis",
    "turn of the ligth in the kitchen",
    "do I need an umbrella in Cairo",
    "nothing known",
    "meeting meeting meeting",
    "",
    "!!!",
    "qué tiempo hace en Sevilla",
    "send a message about the weather",
    "明天",
]


def textbook(catalog: Catalog, message: str, settings: Settings) -> list[float]:
    """The score of each tool, computed from its definition one tool and one feature at a time."""
    own = settings.lexical
    common = {
        "unicode": own.normalize_unicode,
        "arabic": own.normalize_arabic,
        "hamza": own.fold_hamza_forms,
    }
    layers = texts.Layers(**common, clitics=own.strip_clitics, stem=own.stem)
    whole = texts.Layers(**common, clitics=False, stem=False)
    n = len(catalog)

    def prepared(text: str) -> str:
        return written_arabic(text) if own.rewrite_dialects else text

    def features(text: str, family: str, *, described: bool = False) -> list[str]:
        """Words, or 4-grams within words; stop words tell nothing where a tool is described."""
        raw, reduced = texts.words(prepared(text), whole), texts.words(prepared(text), layers)
        kept = [
            (a, b) for a, b in zip(raw, reduced, strict=True) if not (described and a in texts.STOP_WORDS)
        ]
        if family == "words":
            return [b for _, b in kept]
        return [gram for a, _ in kept for gram in texts.char_ngrams(a)]

    def bm25f(family: str) -> list[dict[str, float]]:
        """BM25F weight of every feature of every tool."""
        counts = [
            {
                field: Counter(
                    (feature, share)
                    for text, share in entries
                    for feature in features(text, family, described=field not in SAID)
                )
                for field, entries in fields(tool).items()
            }
            for tool in catalog
        ]
        tf: list[dict[str, float]] = [{} for _ in range(n)]
        for field, weight in own.field_weights.items():
            if family == "grams":
                weight *= GRAM_FIELDS.get(field, 1.0)
            lengths = [sum(c * share for (_, share), c in tool[field].items()) for tool in counts]
            filled = [length for length in lengths if length > 0]
            for i, tool in enumerate(counts):
                for (feature, share), count in tool[field].items() if weight else ():
                    norm = 1 - LENGTH_B + LENGTH_B * lengths[i] / (sum(filled) / len(filled))
                    tf[i][feature] = tf[i].get(feature, 0.0) + weight * count * share / norm
        k1 = WORD_K1 if family == "words" else GRAM_K1
        found: list[dict[str, float]] = []
        for one in tf:
            found.append({})
            for feature, value in one.items():
                df = sum(feature in other for other in tf)
                idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
                found[-1][feature] = idf * value * (k1 + 1) / (k1 + value)
        return found

    mass = [0.0] * n
    for i, tool in enumerate(bm25f("words")):
        mass[i] += sum(tool.get(feature, 0.0) for feature in set(features(message, "words")))
    if own.char_ngrams:
        said = Counter(features(message, "grams"))
        for i, tool in enumerate(bm25f("grams")):
            mass[i] += GRAM_SHARE * sum((1 + math.log(c)) * tool.get(f, 0.0) for f, c in said.items())
    scores = [m / (m + math.log(1 + 2 * max(1, n))) for m in mass]
    said_words = texts.words(prepared(message), layers)
    if own.phrase_matching:
        for i, tool in enumerate(catalog):
            for phrase in [*tool.hints, *(k for k in tool.keywords if " " in k.strip())]:
                tokens = texts.words(prepared(phrase), layers)
                starts = range(len(said_words) - len(tokens) + 1)
                inside = any(said_words[j : j + len(tokens)] == tokens for j in starts)
                if len(tokens) > 1 and inside:
                    share = len(tokens) / len(said_words)
                    scores[i] = max(scores[i], CONTAINED + (1 - CONTAINED) * share)
            for trigger in [*tool.hints, *(e.message for e in tool.examples)]:
                if said_words and texts.words(prepared(trigger), layers) == said_words:
                    scores[i] = 1.0
    return scores


SETTINGS = {
    "default": {},
    "no dialects": {"lexical.rewrite_dialects": False},
    "no n-grams": {"lexical.char_ngrams": False},
    "no phrases": {"lexical.phrase_matching": False},
    "bare": {
        f"lexical.{name}": False
        for name in ("normalize_unicode", "normalize_arabic", "fold_hamza_forms", "strip_clitics", "stem")
    },
    "weights": {
        "lexical.field_weights": {
            "id": 0.0,
            "title": 3.0,
            "description": 1.0,
            "hints": 2.0,
            "keywords": 0.5,
            "examples": 0.0,
            "arguments": 1.0,
        }
    },
}


@pytest.mark.parametrize("name", SETTINGS)
def test_equals_its_definition(catalog, name: str) -> None:
    """The fast scores are those of the textbook formula, under every layer and weight."""
    settings = Settings().replace(SETTINGS[name])
    expected = np.array([textbook(catalog, m, settings) for m in MESSAGES])
    found = LexicalRetriever(catalog, settings).scores(MESSAGES)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert found.dtype == np.float32


def test_sparse_path_equals_the_dense_one(catalog, monkeypatch) -> None:
    """A large catalog is scored from postings, a small one from a matrix: the scores are the same."""
    dense = LexicalRetriever(catalog).scores(MESSAGES)
    monkeypatch.setattr(lexical, "_DENSE_CELLS", 0)
    np.testing.assert_array_equal(LexicalRetriever(catalog).scores(MESSAGES), dense)


WORDS = st.sampled_from(
    [
        "book",
        "meeting",
        "time",
        "rain",
        "light",
        "send",
        "message",
        "كم",
        "الساعة",
        "reunión",
        "hora",
        "the",
        "a",
        "is",
        "明天",
    ]
)
SENTENCE = st.lists(WORDS, max_size=6).map(" ".join)


@st.composite
def small_catalogs(draw) -> Catalog:
    return Catalog(
        Tool(
            id=f"tool_{i}",
            description=draw(SENTENCE),
            hints=tuple(h for h in draw(st.lists(SENTENCE, max_size=2)) if h),
            keywords=draw(st.dictionaries(WORDS, st.floats(0.5, 3.0), max_size=2)),
            examples=tuple(Example(message=m) for m in draw(st.lists(SENTENCE, max_size=2)) if m),
        )
        for i in range(draw(st.integers(1, 5)))
    )


@given(small_catalogs(), SENTENCE)
def test_any_catalog_equals_its_definition(catalog: Catalog, message: str) -> None:
    """Fast and textbook scores agree on any small catalog; they lie in [0, 1]."""
    found = LexicalRetriever(catalog).scores([message])[0]
    np.testing.assert_allclose(found, textbook(catalog, message, Settings()), atol=2e-6)
    assert ((found >= 0) & (found <= 1)).all()


@given(small_catalogs(), SENTENCE, st.integers(1, 3))
def test_unknown_words_never_raise_a_score(catalog: Catalog, message: str, n: int) -> None:
    """A word that no tool has matches nothing, and makes a hint a smaller share of the message."""
    retriever = LexicalRetriever(catalog)
    before, after = retriever.scores([message, message + " ᏣᎳᎩᏱ" * n])
    assert (after <= before).all()


@given(small_catalogs(), SENTENCE, SENTENCE)
def test_more_words_never_match_less(catalog: Catalog, message: str, more: str) -> None:
    """But for phrases, whose share falls, a longer message matches every tool at least as well."""
    retriever = LexicalRetriever(catalog, Settings().replace({"lexical.phrase_matching": False}))
    before, after = retriever.scores([message, f"{message} {more}"])
    assert (after >= before).all()


@given(small_catalogs(), SENTENCE)
def test_a_hint_is_at_least_contained(catalog: Catalog, rest: str) -> None:
    """A message that is a hint or an example scores 1, one that contains a longer hint scores high."""
    retriever = LexicalRetriever(catalog)
    for i, tool in enumerate(catalog):
        for text in (*tool.hints, *(e.message for e in tool.examples)):
            assert retriever.scores([text])[0, i] == 1.0
        for hint in tool.hints:
            if len(texts.words(hint)) > 1:
                assert retriever.scores([f"{hint} {rest}"])[0, i] >= np.float32(CONTAINED)


@given(small_catalogs(), SENTENCE, st.randoms(use_true_random=False))
def test_order_of_the_catalog_changes_nothing(catalog: Catalog, message: str, draws: random.Random) -> None:
    """However the tools were given, each has the same score."""
    shuffled = list(catalog)
    draws.shuffle(shuffled)
    again = LexicalRetriever(Catalog(shuffled))
    assert again.search(message, 3) == LexicalRetriever(catalog).search(message, 3)


@given(st.lists(SENTENCE, max_size=5))
def test_a_batch_is_its_messages(router, messages: list[str]) -> None:
    """Messages score alike alone and together."""
    both = router.lexical.scores(messages)
    assert both.shape == (len(messages), 6)
    for row, message in zip(both, messages, strict=True):
        np.testing.assert_array_equal(row, router.lexical.scores([message])[0])


def test_search_is_the_head_of_the_scores(router) -> None:
    """Search gives the best tools of the scores, ties by id, none at 0, ranks from 0."""
    for message in MESSAGES:
        row = router.lexical.scores([message])[0]
        order = [i for i in sorted(range(6), key=lambda i: (-row[i], i)) if row[i] > 0]
        for k in (1, 3, 6):
            hits = router.lexical.search(message, k)
            assert [h.tool for h in hits] == [router.catalog.ids[i] for i in order[:k]]
            assert [h.rank for h in hits] == list(range(len(hits)))
            assert all(h.source == "lexical" for h in hits)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_hits_of_many_ties(k: int) -> None:
    """Ties break by id also where the list is cut by partition."""
    row = np.array([0.5, 0.7] * 20 + [0.9])
    ids = [f"t{i:02}" for i in range(41)]
    hits = lexical.top_hits(row, ids, k, "lexical")
    assert [h.tool for h in hits] == ["t40", "t01", "t03", "t05", "t07"][:k]


def test_disabled_scores_nothing(catalog) -> None:
    """With stage 1 off every score is 0."""
    off = LexicalRetriever(catalog, Settings().replace({"lexical.enabled": False}))
    assert not off.scores(["what time is it"]).any()


def test_no_tools_and_no_messages(catalog) -> None:
    """An empty catalog and an empty batch give empty arrays."""
    assert LexicalRetriever(Catalog([])).scores(["hi"]).shape == (1, 0)
    assert LexicalRetriever(catalog).scores([]).shape == (0, 6)
    assert LexicalRetriever(Catalog([])).search("hi", 3) == ()
