"""What a message says about time, worked out by hand for a fixed now."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mono_router.dates import TimeSpan, find_times, parse_now

TUESDAY = "2026-03-10T09:30:00+01:00[Europe/Madrid]"
MONTH_END = "2026-01-31T18:00:00+01:00[Europe/Madrid]"
YEAR_END = "2026-12-31T22:15:00+01:00[Europe/Madrid]"
LEAP = "2028-02-28T12:00:00+01:00[Europe/Madrid]"
SPRING = "2026-03-28T23:30:00+01:00[Europe/Madrid]"
AUTUMN = "2026-10-31T23:30:00-04:00[America/New_York]"

# now, then lines "expression = date time end_date end_time", "-" where there is none.
ENGLISH = (
    (
        TUESDAY,
        """
        today = 2026-03-10
        tomorrow = 2026-03-11
        the day after tomorrow = 2026-03-12
        yesterday = 2026-03-09
        the day before yesterday = 2026-03-08
        tonight at 8 = 2026-03-10 20:00
        half past seven tonight = 2026-03-10 19:30
        tonight at 12 = 2026-03-11 00:00
        tomorrow morning at 8 = 2026-03-11 08:00
        tomorrow at 5pm = 2026-03-11 17:00
        what times are available tomorrow? = 2026-03-11
        friday = 2026-03-13
        tuesday = 2026-03-17
        this friday = 2026-03-13
        next friday = 2026-03-20
        next monday = 2026-03-16
        last friday = 2026-03-06
        on Wed at 3 pm = 2026-03-11 15:00
        friday after next = 2026-03-27
        wednesday of next week = 2026-03-18
        on sunday evening at 7 = 2026-03-15 19:00
        in 3 days = 2026-03-13
        in two weeks = 2026-03-24
        in a month = 2026-04-10
        3 days ago = 2026-03-07
        a week ago = 2026-03-03
        a week from tomorrow = 2026-03-18
        two weeks from today = 2026-03-24
        in 2 hours = 2026-03-10 11:30
        in half an hour = 2026-03-10 10:00
        in an hour and a half = 2026-03-10 11:00
        in 45 minutes = 2026-03-10 10:15
        end of the month = 2026-03-31
        next month's end = 2026-04-30
        the end of next month = 2026-04-30
        the beginning of next month = 2026-04-01
        the last day of february = 2027-02-28
        next week = 2026-03-16 - 2026-03-22
        this weekend = 2026-03-14 - 2026-03-15
        next month = 2026-04-01 - 2026-04-30
        in june = 2026-06-01 - 2026-06-30
        June 3rd = 2026-06-03
        the 3rd of June = 2026-06-03
        3 June 2027 = 2027-06-03
        march the fifth = 2027-03-05
        the twenty-first of may = 2026-05-21
        December 25, 2026 = 2026-12-25
        on may 5 = 2026-05-05
        on the 14th = 2026-03-14
        the 5th please = 2026-04-05
        the 14th of next month = 2026-04-14
        june 3-5 = 2026-06-03 - 2026-06-05
        from june 3 to june 9 = 2026-06-03 - 2026-06-09
        3/4 = 2027-03-04
        12/25/2026 = 2026-12-25
        25/12/2026 = 2026-12-25
        2026-04-09 = 2026-04-09
        2026-12-01T10:00 = 2026-12-01 10:00
        christmas is on hold until christmas day = 2026-12-25
        """,
    ),
    (
        TUESDAY,
        """
        at 5 = - 05:00
        at 5 pm = - 17:00
        5:30 p.m. = - 17:30
        at 17:45 = - 17:45
        quarter to nine = - 08:45
        a quarter past six in the evening = - 18:15
        twenty past 4 pm = - 16:20
        ten to five = - 04:50
        seven thirty pm = - 19:30
        noon = - 12:00
        midnight = - 00:00
        12 am = - 00:00
        12 pm = - 12:00
        5 in the afternoon = - 17:00
        8 o'clock = - 08:00
        from 3 to 5 pm = - 15:00 - 17:00
        from 9 to 5 pm tomorrow = 2026-03-11 09:00 - 17:00
        9 am - 11 am = - 09:00 - 11:00
        by 6.30 pm on friday = 2026-03-13 18:30
        book me a meeting with Juan at 4pm = - 16:00
        """,
    ),
    (
        MONTH_END,
        "in a month = 2026-02-28\n tomorrow = 2026-02-01\n on the 30th = 2026-03-30\n the 31st = 2026-01-31",
    ),
    (MONTH_END, "end of the month = 2026-01-31\n next friday = 2026-02-06\n friday = 2026-02-06"),
    (YEAR_END, "tomorrow = 2027-01-01\n in 2 hours = 2027-01-01 00:15\n january 3rd = 2027-01-03"),
    (
        YEAR_END,
        "next month = 2027-01-01 - 2027-01-31\n december 30 = 2027-12-30\n"
        "next year = 2027-01-01 - 2027-12-31",
    ),
    (
        LEAP,
        "tomorrow = 2028-02-29\n february 29 = 2028-02-29\n in a year = 2029-02-28\n"
        "end of february = 2028-02-29",
    ),
    (
        SPRING,
        "in 3 hours = 2026-03-29 03:30\n in 24 hours = 2026-03-30 00:30\ntomorrow at 2:30 = 2026-03-29 02:30",
    ),
    (AUTUMN, "in 2 hours = 2026-11-01 01:30\n in 3 hours = 2026-11-01 01:30\n in 4 hours = 2026-11-01 02:30"),
)
SPANISH = (
    (
        TUESDAY,
        """
        hoy = 2026-03-10
        mañana = 2026-03-11
        manana a las 5 de la tarde = 2026-03-11 17:00
        mañana por la mañana = 2026-03-11
        pasado mañana = 2026-03-12
        pasado mañana a las siete y media de la tarde = 2026-03-12 19:30
        ayer = 2026-03-09
        anteayer = 2026-03-08
        esta noche a las nueve = 2026-03-10 21:00
        el viernes = 2026-03-13
        el próximo viernes = 2026-03-13
        el viernes que viene = 2026-03-13
        este viernes a las 10 de la mañana = 2026-03-13 10:00
        el viernes pasado = 2026-03-06
        el martes = 2026-03-17
        el lunes de la semana que viene = 2026-03-16
        el sábado a las 11 = 2026-03-14 11:00
        dentro de dos semanas = 2026-03-24
        en 3 días = 2026-03-13
        dentro de un mes = 2026-04-10
        en quince días = 2026-03-25
        hace 3 días = 2026-03-07
        hace una semana = 2026-03-03
        en dos horas = 2026-03-10 11:30
        en media hora = 2026-03-10 10:00
        en hora y media = 2026-03-10 11:00
        dentro de 20 minutos = 2026-03-10 09:50
        fin de mes = 2026-03-31
        a finales del próximo mes = 2026-04-30
        el último día de abril = 2026-04-30
        a principios del mes que viene = 2026-04-01
        la semana que viene = 2026-03-16 - 2026-03-22
        la próxima semana = 2026-03-16 - 2026-03-22
        este fin de semana = 2026-03-14 - 2026-03-15
        el mes que viene = 2026-04-01 - 2026-04-30
        en marzo = 2026-03-01 - 2026-03-31
        el 5 de junio = 2026-06-05
        5 de junio de 2027 = 2027-06-05
        cinco de mayo = 2026-05-05
        el primero de enero = 2027-01-01
        treinta y uno de diciembre = 2026-12-31
        el martes 14 de julio a las 17:30 = 2026-07-14 17:30
        el 14 = 2026-03-14
        el día 20 a las 10 de la mañana = 2026-03-20 10:00
        el 5 del mes que viene = 2026-04-05
        del 3 al 5 de junio = 2026-06-03 - 2026-06-05
        quiero cita para el 3/4 = 2026-04-03
        cita el 13/4/2026 = 2026-04-13
        el 2026-04-09 a las 12:30 = 2026-04-09 12:30
        para el 25 de diciembre = 2026-12-25
        """,
    ),
    (
        TUESDAY,
        """
        a las 5 = - 05:00
        a la una = - 01:00
        a la una de la tarde = - 13:00
        a las 8 menos cuarto = - 07:45
        las ocho y cuarto de la noche = - 20:15
        las siete y media = - 07:30
        a las 5 y 20 = - 05:20
        a las 18:45 = - 18:45
        a las 5 p. m. = - 17:00
        a las 10 a.m. = - 10:00
        a mediodía = - 12:00
        a medianoche = - 00:00
        a las dos de la madrugada = - 02:00
        a las 12 de la noche = - 00:00
        a las 12 del mediodía = - 12:00
        las 9 en punto = - 09:00
        de 3 a 5 de la tarde = - 15:00 - 17:00
        desde las 9 hasta las 11 = - 09:00 - 11:00
        resérvame un corte el viernes a las seis = 2026-03-13 06:00
        """,
    ),
    (
        MONTH_END,
        "dentro de un mes = 2026-02-28\n mañana = 2026-02-01\n fin de mes = 2026-01-31\n"
        "el domingo = 2026-02-01",
    ),
    (YEAR_END, "mañana = 2027-01-01\n en dos horas = 2027-01-01 00:15\n el 3 de enero = 2027-01-03"),
    (LEAP, "pasado mañana = 2028-03-01\n el 29 de febrero = 2028-02-29\n en un año = 2029-02-28"),
    (SPRING, "en tres horas = 2026-03-29 03:30\n dentro de 24 horas = 2026-03-30 00:30"),
    (AUTUMN, "en dos horas = 2026-11-01 01:30\n en tres horas = 2026-11-01 01:30"),
)
ARABIC = (
    (
        TUESDAY,
        """
        اليوم = 2026-03-10
        النهارده = 2026-03-10
        غدا = 2026-03-11
        بكرة = 2026-03-11
        بكره الصبح = 2026-03-11
        بكرا = 2026-03-11
        غدوة = 2026-03-11
        بعد غد = 2026-03-12
        بعد بكرة الساعة ٥ = 2026-03-12 05:00
        أمس = 2026-03-09
        امبارح = 2026-03-09
        أول أمس = 2026-03-08
        الليلة الساعة ٩ = 2026-03-10 21:00
        مساء اليوم = 2026-03-10
        يوم الخميس = 2026-03-12
        الجمعة القادمة = 2026-03-13
        الجمعة الجاية العصر = 2026-03-13
        الجمعة بعد القادمة = 2026-03-20
        يوم الجمعة الماضي = 2026-03-06
        الثلاثاء = 2026-03-17
        يوم الحد الساعه ١٢ = 2026-03-15 12:00
        للخميس ٥:٣٠ م = 2026-03-12 17:30
        الاثنين من الأسبوع القادم = 2026-03-16
        بعد يومين = 2026-03-12
        بعد ٣ أيام = 2026-03-13
        بعد أسبوع = 2026-03-17
        بعد أسبوعين = 2026-03-24
        بعد شهر = 2026-04-10
        كمان يومين = 2026-03-12
        قبل يومين = 2026-03-08
        منذ أسبوع = 2026-03-03
        بعد ساعتين = 2026-03-10 11:30
        بعد نص ساعة = 2026-03-10 10:00
        بعد ساعة ونص = 2026-03-10 11:00
        بعد ربع ساعة = 2026-03-10 09:45
        بعد ٢٠ دقيقة = 2026-03-10 09:50
        نهاية الشهر = 2026-03-31
        آخر الشهر الجاي = 2026-04-30
        نهاية الشهر القادم = 2026-04-30
        بداية الشهر القادم = 2026-04-01
        الأسبوع الجاي = 2026-03-16 - 2026-03-22
        الأسبوع القادم = 2026-03-16 - 2026-03-22
        الشهر المقبل = 2026-04-01 - 2026-04-30
        نهاية الأسبوع = 2026-03-13 - 2026-03-14
        ٥ يونيو = 2026-06-05
        ۵ یونیو = 2026-06-05
        ١٥ مارس ٢٠٢٧ = 2027-03-15
        الخامس عشر من أبريل = 2026-04-15
        خمسة وعشرين مايو = 2026-05-25
        ٣ كانون الثاني = 2027-01-03
        ٢٠ تشرين الأول = 2026-10-20
        ٧ جويلية = 2026-07-07
        يوم ١٤ = 2026-03-14
        يوم ١٤ من الشهر القادم = 2026-04-14
        من ٣ إلى ٥ يونيو = 2026-06-03 - 2026-06-05
        ٣/٤ = 2026-04-03
        ١٣/٤/٢٠٢٦ = 2026-04-13
        """,
    ),
    (
        TUESDAY,
        """
        الساعة ٥ = - 05:00
        الساعة السابعة والنصف مساء = - 19:30
        الساعةُ السابعةُ والنصفُ مساءً = - 19:30
        الساعة الـخامسة مساءً = - 17:00
        ٧ ونص = - 07:30
        ٧ ونص المسا = - 19:30
        الساعة ٨ إلا ربع = - 07:45
        الساعة الثامنة إلا ثلث = - 07:40
        الساعة الخامسة والربع = - 05:15
        الساعة ١٢ الظهر = - 12:00
        الساعة ٢ بعد الظهر = - 14:00
        ٥ العصر = - 17:00
        الساعة ٦ المغرب = - 18:00
        ١٠ بالليل = - 22:00
        الساعة العاشرة صباحا = - 10:00
        منتصف الليل = - 00:00
        الساعة ١٨:٤٥ = - 18:45
        من ٣ الى ٥ العصر = - 15:00 - 17:00
        غدا في الساعة الخامسة والربع مساء = 2026-03-11 17:15
        """,
    ),
    (MONTH_END, "بعد شهر = 2026-02-28\n بكرة = 2026-02-01\n نهاية الشهر = 2026-01-31"),
    (YEAR_END, "غدا = 2027-01-01\n بعد ساعتين = 2027-01-01 00:15\n ٣ يناير = 2027-01-03"),
    (LEAP, "بعد بكرة = 2028-03-01\n ٢٩ فبراير = 2028-02-29"),
    (SPRING, "بعد ٣ ساعات = 2026-03-29 03:30\n بعد ٢٤ ساعة = 2026-03-30 00:30"),
    (AUTUMN, "بعد ساعتين = 2026-11-01 01:30\n بعد ثلاث ساعات = 2026-11-01 01:30"),
)


def _rows(table: tuple[tuple[str, str], ...]) -> list[tuple[str, str, tuple[str | None, ...]]]:
    rows = []
    for now, lines in table:
        for line in filter(None, map(str.strip, lines.splitlines())):
            said, _, values = line.rpartition(" = ")
            parts = [None if part == "-" else part for part in values.split()]
            rows.append((said, now, tuple(parts + [None] * (4 - len(parts)))))
    return rows


ROWS = [*_rows(ENGLISH), *_rows(SPANISH), *_rows(ARABIC)]


@pytest.mark.parametrize(("said", "now", "expected"), ROWS, ids=[f"{r[0]} @ {r[1][:10]}" for r in ROWS])
def test_expression(said: str, now: str, expected: tuple[str | None, ...]) -> None:
    """Each expression holds exactly one span, with the value that a person would work out."""
    spans = find_times(said, now)
    assert [(s.date, s.time, s.end_date, s.end_time) for s in spans] == [expected]


def test_the_table_is_wide_enough() -> None:
    """At least sixty expressions a language stand behind the promise."""
    assert [len(_rows(table)) >= 60 for table in (ENGLISH, SPANISH, ARABIC)] == [True] * 3


NOTHING = (
    "I may want 2 tickets",
    "march on",
    "they march 3 miles",
    "sun cream",
    "I sat down",
    "second opinion",
    "a second chance",
    "the second option",
    "the 5th floor",
    "play some music",
    "may I ask something",
    "you may go",
    "these 2 may be late",
    "the second may be better",
    "2 tickets for 4 people",
    "one more thing",
    "it costs $20",
    "50% off",
    "call 5551234567",
    "order 66",
    "he will wed her",
    "a date with destiny",
    "good morning",
    "24/7 support",
    "version 3.12",
    "room 12",
    "at 5 people the group is full",
    "add 2 and 3",
    "half of it",
    "a quarter pounder",
    "table for 3",
    "10,000 steps",
    "the first of many",
    "turn the volume to 30",
    "segundo plato",
    "mayor tamaño",
    "buenas tardes",
    "los 3 amigos",
    "dos entradas para el concierto",
    "a las chicas",
    "quiero una pizza",
    "media pizza",
    "un cuarto doble",
    "el mar está frío",
    "pon el volumen a 30",
    "once in a while",
    "ثاني مرة",
    "صباح الخير",
    "مساء الخير",
    "احجز لي موعدا",
    "اريد ٣ تذاكر",
    "واحد شاي",
    "خمسة اشخاص",
    "ارفع الصوت الى ٣٠",
    "ربع كيلو",
    "اول مرة",
    "الف شكر",
    "",
    "???",
)


@pytest.mark.parametrize("message", NOTHING)
def test_no_time_is_found_where_none_is_said(message: str) -> None:
    """Verbs, nouns, counts and greetings are no dates."""
    assert [s for s in find_times(message, TUESDAY) if s.kind != "part"] == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("book it for tomorrow at 5 pm, please", "tomorrow at 5 pm"),
        ("on the 14th works", "14th"),
        ("احجز بكرة الساعة ٥ لو سمحت", "بكرة الساعة ٥"),
    ],
)
def test_span_is_what_was_said(said: str, text: str) -> None:
    """Offsets point at the words of the message."""
    (span,) = find_times(said, TUESDAY)
    assert (span.text, said[span.start : span.end]) == (text, text)


def test_without_now_only_absolute_values_are_read() -> None:
    """A relative word has no value without a now; a year or a clock time has."""
    assert find_times("tomorrow", None) == ()
    assert find_times("june 5", None) == ()
    assert [s.date for s in find_times("june 5, 2027", None)] == ["2027-06-05"]
    assert [s.time for s in find_times("tomorrow at 5 pm", None)] == ["17:00"]


def test_order_of_day_and_month_follows_the_language() -> None:
    """3/4 alone is read in the first language that was given."""
    assert find_times("3/4", TUESDAY, languages=("es",))[0].date == "2026-04-03"
    assert find_times("3/4", TUESDAY, languages=("en",))[0].date == "2027-03-04"


def test_bare_hour_is_not_certain() -> None:
    """ "at 5" leaves am or pm open, "at 17:00" and "at 5 pm" do not."""
    certain = [find_times(said, TUESDAY)[0].certain for said in ("at 5", "at 17:00", "at 5 pm")]
    assert certain == [False, True, True]


def test_dateparser_stands_behind_the_grammar() -> None:
    """A form that the grammar does not know is still read, and never a bare word."""
    (span,) = find_times("what happened 2 decades ago", TUESDAY)
    assert (span.text, span.date) == ("2 decades ago", "2006-03-10")


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ("yesterday", "now must be an ISO 8601 date and time, got 'yesterday'"),
        ("2026-03-10T09:30:00", "now must carry an offset or a zone"),
        ("2026-03-10T09:30:00+01:00[Mars/Base]", "now must name a known time zone"),
    ],
)
def test_malformed_now(now: str, message: str) -> None:
    """A bad now is an error that names it."""
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        parse_now(now)


def test_unknown_language() -> None:
    """A language without a grammar is an error."""
    with pytest.raises(ValueError, match="languages must be among"):
        find_times("demain", TUESDAY, languages=("fr",))


WORDS = sorted({word for said, _, _ in ROWS for word in said.split()})
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))


@settings(max_examples=300, deadline=None)
@given(text=TEXTS, now=st.sampled_from((None, TUESDAY, YEAR_END, LEAP, AUTUMN)))
def test_any_text_gives_valid_spans(text: str, now: str | None) -> None:
    """No text raises; spans lie inside it, in order, and every value is ISO."""
    position = 0
    for span in find_times(text, now):
        assert isinstance(span, TimeSpan)
        assert position <= span.start < span.end <= len(text)
        assert text[span.start : span.end] == span.text
        position = span.end
        for day in (span.date, span.end_date):
            assert day is None or dt.date.fromisoformat(day).isoformat() == day
        for clock in (span.time, span.end_time):
            assert clock is None or dt.time.fromisoformat(clock).strftime("%H:%M") == clock


@pytest.mark.parametrize(
    ("message", "date"),
    [
        ("احجز لي غداء مع سارة", None),
        ("احجز لي غداءً مع سارة", None),
        ("احجز لي غداء غدا", "2026-03-11"),
        ("مساء الأربعاء", "2026-03-11"),
        ("مسا الاربعا", "2026-03-11"),
        ("estoy libre toda la mañana", None),
        ("estoy libre mañana", "2026-03-11"),
    ],
)
def test_words_that_look_like_tomorrow(message: str, date: str | None) -> None:
    """Lunch is no tomorrow, a whole morning is none either, and a hamza may be left out."""
    found = [span.date for span in find_times(message, TUESDAY) if span.date]
    assert found == ([] if date is None else [date])
