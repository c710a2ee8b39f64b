"""Normalisation and tokens in every script that users type."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mono_router.text import (
    Layers,
    char_ngrams,
    clean,
    identifier_words,
    normalize,
    stem,
    strip_clitics,
    words,
)

BARE = Layers(unicode=False, arabic=False, hamza=False, clitics=False, stem=False)


@pytest.mark.parametrize(
    "spellings",
    [
        ("إلغاء", "الغاء", "إِلْغَاء", "إلغـــاء"),
        ("مكتبة", "مكتبه", "مَكْتَبَة", "مكـتـبـة"),
        ("أحمد", "احمد", "أَحْمَد", "ﺃﺣﻤﺪ"),
        ("مستشفى", "مستشفي", "مُسْتَشْفى", "مستشـفى"),
        ("مسؤول", "مسوول", "مَسْؤُول", "ﻣﺴﺆﻭﻝ"),
        ("الساعة ٣", "الساعه 3", "السَّاعَة ۳", "الســاعة ３"),
    ],
    ids=["cancel", "library", "name", "hospital", "official", "digits"],
)
def test_arabic_spellings_meet(spellings: tuple[str, ...]) -> None:
    """One Arabic word in its usual four spellings has one form."""
    assert len({normalize(s) for s in spellings}) == 1
    assert len({tuple(words(s)) for s in spellings}) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("明天天气怎么样", ["明天", "天天", "天气", "气怎", "怎么", "么样"]),
        ("東京へ行きたい", ["東京", "京へ", "へ行", "行き", "きた", "たい"]),
        ("日", ["日"]),
        ("내일 회의를 예약해 줘", ["내일", "회의를", "예약해", "줘"]),
        ("จองโต๊ะ", ["จอ", "อง", "งโ", "โต", "ต๊", "๊ะ"]),
        ("कल का मौसम", ["कल", "का", "मौसम"]),
        ("هوای فردا", None),
        ("قيمة 3.5٪", None),
        ("Straße ＣＡＦＥ́ naïve", ["strasse", "cafe", "naive"]),
        ("iPhone 15 を予約", None),
        ("👍🏽 ok", None),
        ("!!! ...", []),
        ("", []),
    ],
    ids=["chinese", "japanese", "one-char", "korean", "thai", "hindi", "persian", "arabic", "latin", "mixed",
         "emoji", "marks-only", "empty"],
)  # fmt: skip
def test_words_of_every_script(text: str, expected: list[str] | None) -> None:
    """Letters and digits of every script are tokens; scripts without spaces are cut into bigrams."""
    found = words(text, dataclasses.replace(Layers(), stem=False, clitics=False))
    if expected is not None:
        assert found == expected
    else:
        assert found
        assert all(token.strip() and token == token.casefold() for token in found)


def test_persian_and_arabic_keyboards_meet() -> None:
    """The kaf and ya of a Persian keyboard are those of an Arabic one."""
    assert normalize("کتابی") == normalize("كتابي")


def test_mixed_scripts_part() -> None:
    """A run of Han inside Latin text is cut, and the Latin stays whole."""
    assert words("預約table明天") == ["預約", "table", "明天"]


def test_emoji_is_a_token() -> None:
    """An emoji says something: it is kept, and its skin tone does not make a word of nothing."""
    assert "👍" in words("👍 great")


@pytest.mark.parametrize(
    ("layer", "one", "two"),
    [
        ("unicode", "ＢＯＯＫ", "book"),
        ("arabic", "أَهلاً", "اهلا"),
        ("hamza", "مكتبة", "مكتبه"),
        ("clitics", "والموعد", "موعد"),
        ("stem", "bookings", "book"),
    ],
)
def test_each_layer_is_a_switch(layer: str, one: str, two: str) -> None:
    """A layer joins two spellings when it is on, and leaves them apart when it is off."""
    assert words(one) == words(two)
    off = dataclasses.replace(Layers(), **{layer: False})
    assert words(one, off) != words(two, off)


def test_clean_replaces_what_no_file_can_hold() -> None:
    """NUL and lone surrogates become U+FFFD; whole pairs stay."""
    assert clean("a\x00b\ud800c😀") == "a\ufffdb\ufffdc😀"
    assert clean("untouched") == "untouched"


@given(st.text())
@example("ǰ̣")
@example("ﷺ")
@example("ᾼͅ")
@example("ﾞ")
@example("أ\u0653")
def test_normalize_is_idempotent(text: str) -> None:
    """Normalising twice is normalising once."""
    once = normalize(text)
    assert normalize(once) == once


@given(st.text())
def test_words_never_fail_and_never_are_empty(text: str) -> None:
    """Any text gives tokens without spaces, the same ones each time, under any layers."""
    for layers in (Layers(), BARE):
        found = words(text, layers)
        assert found == words(text, layers)
        assert all(token and not token.isspace() for token in found)


@given(st.text())
def test_clean_is_idempotent_and_encodable(text: str) -> None:
    """What is cleaned can be written as UTF-8 and is clean."""
    assert clean(clean(text)) == clean(text)
    clean(text).encode("utf-8")


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("get_weather", "get weather"),
        ("getHTTPResponse2", "get HTTP Response 2"),
        ("a.b/c-d", "a b c d"),
        ("", ""),
    ],
)
def test_identifier_words(identifier: str, expected: str) -> None:
    """An identifier reads as words."""
    assert identifier_words(identifier) == expected


def test_char_ngrams_mark_the_ends() -> None:
    """n-grams of a word carry its ends, and a word that is shorter than one gram is one."""
    assert char_ngrams("cats", 4) == ["^cat", "cats", "ats$"]
    assert char_ngrams("at", 4) == ["^at$"]
    assert char_ngrams("a", 4) == ["^a$"]


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=14))
def test_stem_only_shortens(token: str) -> None:
    """A stem is the start of its word, but for an ending in y, and is never lost."""
    found = stem(token)
    assert found
    assert token.startswith(found.removesuffix("y"))
    assert len(found) <= len(token)


@given(st.text("ابتثجحخدذرزسشصضطظعغفقكلمنهوي", min_size=1, max_size=10))
def test_clitics_leave_three_letters(word: str) -> None:
    """What is left of an Arabic word is its end, of three letters at least."""
    found = strip_clitics(word)
    assert word.endswith(found)
    assert found == word or len(found) >= 3
