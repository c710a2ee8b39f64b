"""One Arabic request in its usual spellings reaches one tool; every script that users type routes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.dialects import written_arabic
from mono_router.router import Router
from mono_router.text import normalize, words

# One request per tool, fully vocalised; the other spellings follow from it by rule.
VOCALISED = {
    "booking.check_availability": "هَلْ تُوجَدُ أَوْقَاتٌ مُتَاحَةٌ يَوْمَ الأَحَدِ القَادِمِ لِجَلْسَةِ تَدْلِيكٍ؟",
    "booking.create": "أُرِيدُ أَنْ أَحْجِزَ مَوْعِدًا لِقَصَّةِ شَعْرٍ غَدًا السَّاعَةَ الرَّابِعَةَ",
    "booking.reschedule": "أَرْجُو تَأْجِيلَ مَوْعِدِي مِنَ الأَحَدِ إِلَى الأَرْبِعَاءِ",
    "booking.cancel": "أُرِيدُ إِلْغَاءَ مَوْعِدِ البَادِيكِيرِ غَدًا",
    "booking.list": "أَرِنِي حُجُوزَاتِي فِي الأَيَّامِ القَادِمَةِ",
    "waitlist.join": "أَضِيفُونِي إِلَى قَائِمَةِ الِانْتِظَارِ لِجَلْسَةِ الشَّمْعِ",
    "waitlist.leave": "اِحْذِفُوا اسْمِي مِنْ قَائِمَةِ انْتِظَارِ الصَّبْغَةِ",
    "services.list": "مَا الخِدْمَاتُ وَالعِلَاجَاتُ المُتَوَفِّرَةُ لِلأَظَافِرِ؟",
    "services.price": "كَمْ سِعْرُ جَلْسَةِ تَنْظِيفِ البَشَرَةِ؟",
    "staff.find": "مَنْ هُمْ أَعْضَاءُ فَرِيقِ العَمَلِ مِنَ المُصَفِّفِينَ؟",
    "studio.hours": "مَتَى تُغْلِقُونَ مَسَاءَ الأَحَدِ وَمَا سَاعَاتُ العَمَلِ؟",
    "studio.directions": "كَيْفَ أَصِلُ إِلَى العُنْوَانِ وَأَيْنَ مَوْقِفُ السَّيَّارَاتِ؟",
    "studio.policy": "مَا سِيَاسَةُ إِلْغَاءِ الحَجْزِ وَهَلِ الدَّفْعُ بِالبِطَاقَةِ مُمْكِنٌ؟",
    "voucher.buy": "أُرِيدُ شِرَاءَ بِطَاقَةِ هَدِيَّةٍ لِأُخْتِي",
    "feedback.leave": "أُرِيدُ كِتَابَةَ تَقْيِيمٍ لِلزِّيَارَةِ الأَخِيرَةِ",
    "contact.update_phone": "أُرِيدُ تَغْيِيرَ رَقْمِ الهَاتِفِ إِلَى رَقْمٍ جَدِيدٍ",
    "contact.update_email": "أَرْجُو تَغْيِيرَ البَرِيدِ الإِلِكْتُرُونِيِّ المُسَجَّلِ لَدَيْكُمْ",
    "reminder.set": "ذَكِّرُونِي بِالمَوْعِدِ بِرِسَالَةٍ نَصِّيَّةٍ قَبْلَهُ بِسَاعَةٍ",
}
_MARKS = re.compile("[\u064b-\u065f\u0670]")
_CARELESS = str.maketrans({"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ؤ": "و", "ئ": "ي", "ء": "", "ة": "ه"})
_JOINS = re.compile("(?<=[بتثجحخسشصضطظعغفقكلمنهي])(?=[\u0621-\u064a])")


def plain(text: str) -> str:
    """As print has it: no vowel marks."""
    return _MARKS.sub("", text)


def careless(text: str) -> str:
    """As people type: no hamza, ta marbuta as ha."""
    return plain(text).translate(_CARELESS)


def stretched(text: str) -> str:
    """With tatweel after every letter that joins the next one."""
    return _JOINS.sub("ـ", plain(text))


SPELLINGS = {"careless": careless, "vocalised": str, "tatweel": stretched}


def test_every_tool_has_a_request_of_its_own(booking: Catalog) -> None:
    """There is one request per tool, and none of them is an example or a hint."""
    assert set(VOCALISED) == set(booking.ids)
    said = {normalize(hint) for tool in booking for hint in tool.hints}
    said |= {normalize(example.message) for tool in booking for example in tool.examples}
    assert not said & {normalize(text) for text in VOCALISED.values()}


def test_the_spellings_differ() -> None:
    """Each request is written in four different ways."""
    for text in VOCALISED.values():
        assert len({plain(text), *(write(text) for write in SPELLINGS.values())}) == 4, text


@pytest.mark.parametrize("tool", VOCALISED)
def test_four_spellings_reach_one_tool(booking_router: Router, tool: str) -> None:
    """The four spellings of a request have one first tool, the right one, with one score."""
    expected = booking_router.route(plain(VOCALISED[tool])).decision.ranked
    assert expected[0].tool == tool
    for name, write in SPELLINGS.items():
        found = booking_router.route(write(VOCALISED[tool])).decision.ranked
        assert found[0] == expected[0], name


@pytest.mark.parametrize("write", [str, stretched], ids=["vocalised", "tatweel"])
def test_dialect_words_are_known_through_marks(write: Callable[[str], str]) -> None:
    """A dialect word is written out with its vowel marks and with tatweel as without."""
    assert words(written_arabic(write("عَايِزَة أَحْجِز دِلْوَقْتِي"))) == words(written_arabic("عايزة أحجز دلوقتي"))


MESSAGES = {
    "chinese": ("我想取消明天的预约", {"取消", "明天"}),
    "chinese and latin": ("帮我book一个haircut吧", {"book", "haircut", "一个"}),
    "traditional chinese": ("請問營業時間？", {"營業", "時間"}),
    "japanese": ("予約をキャンセルしたいです", {"予約", "ャン"}),
    "korean": ("예약 취소해 주세요!", {"예약", "취소해", "주세요"}),
    "thai": ("ราคาเท่าไหร่ครับ", {"รา", "คา"}),
    "hindi": ("मेरा अपॉइंटमेंट रद्द करें।", {"मेरा", "रद्द", "करें"}),
    "hindi and latin": ("कल haircut का price क्या है?", {"कल", "haircut", "का"}),
    "persian": ("می‌خواهم وقت آرایشگاه را لغو کنم", {"وقت", "لغو"}),
    "persian digits": ("ساعت ۱۴:۳۰ چهارشنبه", {"14", "30"}),
    "emoji": ("💇‍♀️💅 mañana?", {"manan"}),
    "emoji alone": ("💈", {"💈"}),
    "arabic and latin": ("عايز احجز haircut بكرة at 5pm", {"haircut", "5pm"}),
    "spanish and arabic": ("quiero una cita يوم الخميس por favor", {"cit", "خميس"}),
    "russian": ("отмените мою запись", {"отмените", "запись"}),
    "hebrew": ("אני רוצה לבטל את התור", {"לבטל", "התור"}),
    "greek": ("Θέλω να ακυρώσω το ραντεβού", {"το"}),
}


@pytest.mark.parametrize(("message", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_tokens_of_what_users_type(message: str, expected: set[str]) -> None:
    """Words, or bigrams where a script has no spaces, are tokens; punctuation is none."""
    found = words(message)
    assert expected <= set(found)
    assert not any(unicodedata.category(char)[0] in "PZ" for token in found for char in token)


@pytest.mark.parametrize("message", [message for message, _ in MESSAGES.values()], ids=MESSAGES)
def test_every_script_routes(booking_router: Router, message: str) -> None:
    """A message in any script gets a decision, and the same one twice."""
    trace = booking_router.route(message)
    assert trace.decision.outcome in {"call", "ask", "no_tool"}
    assert 0 <= trace.decision.p_tool <= 1
    assert booking_router.route(message).to_json(timings=False) == trace.to_json(timings=False)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("我想取消明天的预约", "我想取消明天的预约。"),
        ("ＨＡＩＲＣＵＴ　ｐｒｉｃｅ", "haircut price"),
        ("नमस्ते, कल मिलेंगे", "नमस्ते कल मिलेंगे"),
        ("कहाँ", unicodedata.normalize("NFD", "कहाँ")),
        ("예약", unicodedata.normalize("NFD", "예약")),
        ("وقت آرایشگاه", "وقت ارايشگاه"),
    ],
    ids=["chinese-stop", "full-width", "hindi-comma", "hindi-decomposed", "korean-jamo", "persian-keyboard"],
)
def test_writings_that_mean_the_same_meet(one: str, two: str) -> None:
    """Two ways to type one message have the same tokens."""
    assert words(one) == words(two)


@pytest.mark.parametrize(
    ("message", "tool"),
    [
        ("예약 취소해 주세요: cancel my appointment", "booking.cancel"),
        ("我想 cancel my appointment 谢谢", "booking.cancel"),
        ("नमस्ते, opening hours?", "studio.hours"),
        ("🎁 gift card 🎁", "voucher.buy"),
        ("سلام، gift voucher می‌خواهم", "voucher.buy"),
    ],
)
def test_what_is_known_counts_beside_what_is_not(booking_router: Router, message: str, tool: str) -> None:
    """Words of a script that the catalog does not have do not hide those that it has."""
    assert booking_router.route(message).decision.ranked[0].tool == tool


SCRIPTS = st.sampled_from(
    ["明天", "예약", "ราคา", "कल", "وقت", "موعد", "💇", "cita", "book", "12", "：", "\u200f", "\u200d", " "]
)


@given(st.lists(SCRIPTS, max_size=12))
def test_any_mixture_routes(booking_router: Router, parts: list[str]) -> None:
    """Any mixture of scripts, marks and joiners routes without an error."""
    message = "".join(parts)
    assert all(token and not token.isspace() for token in words(message))
    assert booking_router.route(message).decision.outcome in {"call", "ask", "no_tool"}
