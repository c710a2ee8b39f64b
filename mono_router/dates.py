"""Dates and clock times in English, Arabic and Spanish: text and ``now`` in, spans with ISO values out.

Words become symbols first ("tomorrow", «mañana» and «بكرة» are all ``R1``), so that one small grammar
serves the three languages; dateparser is asked only where the grammar finds nothing and a number stands
beside a word of time. The rules where people differ:

- A weekday alone, "this" or "coming" is the first one strictly after today. English "next friday" is the
  Friday of the next week (Monday first); «el próximo viernes» and «الجمعة القادمة» the first after today.
- 3/4 is 4 March in English, 3 April in Spanish and Arabic, unless the other order alone is possible.
- A date without a year is the next one, today included. A bare hour is read on the 24-hour clock and is not
  ``certain``; a part of the day moves it. The weekend is Saturday and Sunday, in Arabic Friday and Saturday.
"""

from __future__ import annotations

import calendar
import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mono_router.text import normalize


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeSpan:
    """A date, a clock time or both, and where in the text it was said."""

    start: int
    """Offset of its first character."""
    end: int
    """Offset behind its last character."""
    text: str
    kind: str
    """"date", "time", "datetime", "range", or "part" (a part of the day alone, which has no value)."""
    date: str | None = None
    """YYYY-MM-DD; the first day of a range."""
    time: str | None = None
    """HH:mm; the first time of a range."""
    end_date: str | None = None
    """Last day of a range."""
    end_time: str | None = None
    certain: bool = True
    """Whether am or pm is known: said, or an hour of the 24-hour clock. "at 5" is not certain."""
    day_text: str | None = None
    """The words of the day alone: "tomorrow" in "at 5 tomorrow morning"."""
    clock_text: str | None = None
    """The words of the clock time alone."""
    part_text: str | None = None
    """The words of the part of the day alone."""


# symbol=word|word;... R day from today, W weekday (w: an everyday word too), M month (m likewise), U unit,
# C cardinal, O ordinal, P part of the day that may follow an hour (q: only a day), T clock time, H feast.
_ENGLISH = """
R-2=day before yesterday|the day before yesterday;R-1=yesterday;R0=today;R1=tomorrow|tomorow|tommorow|
tmrw|tmr;R2=day after tomorrow|the day after tomorrow|overmorrow;R0 Pn=tonight|tonite;
R0 qm=this morning;R0 qa=this afternoon;R0 qe=this evening;W0=monday;W1=tuesday;W2=wednesday;
W3=thursday;W4=friday;W5=saturday;W6=sunday;w0=mon;w1=tue|tues;w2=wed|weds;w3=thu|thur|thurs;w4=fri;
w5=sat;w6=sun;M1=january|jan;M2=february|feb;m3=march|mar;M4=april|apr;m5=may;M6=june|jun;M7=july|jul;
M8=august|aug;M9=september|sept|sep;M10=october|oct;M11=november|nov;M12=december|dec;C1=one;C2=two|
couple of|a couple of;C3=three;C4=four;C5=five;C6=six;C7=seven;C8=eight;C9=nine;C10=ten;C11=eleven;
C12=twelve;C13=thirteen;C14=fourteen;C15=fifteen;C16=sixteen;C17=seventeen;C18=eighteen;C19=nineteen;
C20=twenty;C30=thirty;C40=forty;C50=fifty;O1=first;O2=second;O3=third;O4=fourth;O5=fifth;O6=sixth;
O7=seventh;O8=eighth;O9=ninth;O10=tenth;O11=eleventh;O12=twelfth;O13=thirteenth;O14=fourteenth;
O15=fifteenth;O16=sixteenth;O17=seventeenth;O18=eighteenth;O19=nineteenth;O20=twentieth;O30=thirtieth;
Ui=minute|minutes|min|mins;Uh=hour|hours|hr|hrs;Ud=day|days;Uw=week|weeks;Uk=weekend;Um=month|months;
Uy=year|years;PA=am|a m;PP=pm|p m;Pm=in the morning;Pa=in the afternoon;Pe=in the evening;Pn=at night|
in the night;qm=morning;qa=afternoon;qe=evening;qn=night;T12=noon|midday;T0=midnight;next=next;
this=this|coming|upcoming|this coming|this upcoming;last=last;in=in;ago=ago;from=from|since;till=until|
till|through|thru;to=to;between=between;past=past|after;half=half;quarter=quarter|a quarter;and=and;
end=end;start=start|beginning;lastday=last day;of=of;the=the;a=a|an;on=on|for;by=by|before;ok=please|
works|thanks|instead|if|or|with;at=at|around|@;oclock=oclock|o clock|sharp;now=now;s=s;I=i|you|we|they|
he|she|it|who|which|that;x=good morning|good afternoon|good evening|good night;H12-24=christmas eve;
H12-25=christmas|christmas day|xmas;H12-31=new years eve|new year s eve;H1-1=new years day|
new year s day;H10-31=halloween;H2-14=valentines day|valentine s day"""
_SPANISH = """
R-2=anteayer|antes de ayer|antier;R-1=ayer;R0=hoy;R1=mañana;R2=pasado mañana;R0 Pn=esta noche;
R0 Pa=esta tarde;R0 Pm=esta mañana;W0=lunes;W1=martes;W2=miércoles;W3=jueves;W4=viernes;W5=sábado;
W6=domingo;M1=enero|ene;M2=febrero|feb;M3=marzo;M4=abril|abr;M5=mayo;M6=junio|jun;M7=julio|jul;
M8=agosto;M9=septiembre|setiembre|sept|sep;M10=octubre|oct;M11=noviembre|nov;M12=diciembre|dic;C1=uno|
una;C2=dos|un par de;C3=tres;C4=cuatro;C5=cinco;C6=seis;C7=siete;C8=ocho;C9=nueve;C10=diez;C11=once;
C12=doce;C13=trece;C14=catorce;C15=quince;C16=dieciséis;C17=diecisiete;C18=dieciocho;C19=diecinueve;
C20=veinte;C21=veintiuno|veintiún|veintiuna;C22=veintidós;C23=veintitrés;C24=veinticuatro;
C25=veinticinco;C26=veintiséis;C27=veintisiete;C28=veintiocho;C29=veintinueve;C30=treinta;
C31=treinta y uno;C40=cuarenta;C50=cincuenta;O1=primero|primer;Ui=minuto|minutos|min;Uh=hora|horas;
Ud=día|días;Uw=semana|semanas;Uk=fin de semana|finde;Um=mes|meses;Uy=año|años;PA=am|a m;PP=pm|p m;
Pm=por la mañana|de la mañana|en la mañana|a la mañana;Pd=del mediodía;Pa=por la tarde|de la tarde|
en la tarde|a la tarde;Pn=por la noche|de la noche|en la noche|a la noche;qa=tarde;qn=noche;
x=buenos días|buenas tardes|buenas noches;Pl=de la madrugada|por la madrugada|en la madrugada;
T12=mediodía;T0=medianoche;soon=próximo|próxima|que viene|que entra|entrante|siguiente;this=este|esta|
este próximo;last=pasado|pasada|último|última;in=en|dentro de|de aquí a;hace=hace;ago=atrás;from=desde;till=hasta;
to=al|a;between=entre;half=media;quarter=cuarto|un cuarto;minus=menos;and=y;end=fin|final|finales|fines;
start=principio|principios|inicio|comienzo|comienzos;lastday=último día;of=de;of the=del;the=el;a=un;
@=a las|a la;las=las|la|los;on=para;ok=por favor|o|si|con|gracias;by=antes de|sobre;past=después de;
oclock=en punto;H12-24=nochebuena;H12-25=navidad;H12-31=nochevieja;H1-1=año nuevo"""
_ARABIC = """
R-2=أول أمس|أول امبارح|اول البارح;R-1=أمس|امبارح|البارح|البارحة|مبارح;R0=اليوم|النهارده|النهاردة|هاليوم;
R1=غدا|غد|الغد|بكرة|بكرا|باكر|غدوة|يوم غد;R2=بعد غد|بعد الغد|بعد بكرة|بعد بكرا|بعد باكر|بعد غدوة;
R0 Pn=الليلة|هالليلة;W0=الاثنين|الإثنين|الاتنين|التنين|اثنين;W1=الثلاثاء|الثلاثا|التلات|التلاتا;
w1=الثلاث;W2=الأربعاء|الاربعا;w2=الاربع;W3=الخميس;W4=الجمعة;W5=السبت;W6=الأحد;w6=الحد;M1=يناير|
كانون الثاني|جانفي;M2=فبراير|شباط|فيفري;M3=مارس|آذار;M4=أبريل|إبريل|نيسان|أفريل;M5=مايو|أيار;m5=ماي;
M6=يونيو|يونيه|حزيران|جوان;M7=يوليو|يوليه|تموز|جويلية|يوليوز;M8=أغسطس|غشت|أوت;m8=آب;M9=سبتمبر|أيلول|
شتنبر;M10=أكتوبر|تشرين الأول;M11=نوفمبر|تشرين الثاني|نونبر;M12=ديسمبر|كانون الأول|دجنبر;C1=واحد|واحدة|
وحدة;C2=اثنين|اثنان|اتنين|تنين|اثنتين|تنتين|ثنتين|جوج;C3=ثلاثة|ثلاث|تلاتة|تلات|تلت;C4=أربعة|أربع;
C5=خمسة|خمس;C6=ستة|ست;C7=سبعة|سبع;C8=ثمانية|ثماني|ثمان|تمانية|تمنية|تمن;C9=تسعة|تسع;C10=عشرة|عشر;
C11=أحد عشر|إحدى عشرة|احداشر|حداشر|احدعش;C12=اثنا عشر|اثني عشر|اثنتا عشرة|اتناشر|اثناشر|اطنعش;
C13=ثلاثة عشر|تلتاشر;C14=أربعة عشر|اربعتاشر;C15=خمسة عشر|خمستاشر|خمسطعش;C16=ستة عشر|ستاشر;C17=سبعة عشر|
سبعتاشر;C18=ثمانية عشر|تمنتاشر;C19=تسعة عشر|تسعتاشر;C20=عشرين|عشرون;C30=ثلاثين|ثلاثون|تلاتين;C40=أربعين|
أربعون;C50=خمسين|خمسون;O1=الأول|الأولى|الواحدة|الوحدة|الحادي|الحادية;O2=الثاني|الثانية|التانية;
O3=الثالث|الثالثة|التالتة;O4=الرابع|الرابعة;O5=الخامس|الخامسة;O6=السادس|السادسة;O7=السابع|السابعة;
O8=الثامن|الثامنة|التامنة;O9=التاسع|التاسعة;O10=العاشر|العاشرة;O11=الحادي عشر|الحادية عشرة;
O12=الثاني عشر|الثانية عشرة;O13=الثالث عشر;O14=الرابع عشر;O15=الخامس عشر;O16=السادس عشر;O17=السابع عشر;
O18=الثامن عشر;O19=التاسع عشر;O20=العشرين|العشرون;O30=الثلاثين|الثلاثون;Ui=دقيقة|دقائق|دقايق;Uh=ساعة|
ساعات;Ud=يوم|أيام|يوما;Uw=أسبوع|أسابيع|الأسبوع|أسبوعا;Um=شهر|شهور|أشهر|الشهر|شهرا;Uy=سنة|سنوات|سنين|
السنة|عام|العام|أعوام;C2 Ui=دقيقتين;C2 Uh=ساعتين;C2 Ud=يومين;C2 Uw=أسبوعين;C2 Um=شهرين;C2 Uy=سنتين|
عامين;Uk=نهاية الأسبوع|الويكند|الويك إند|عطلة نهاية الأسبوع;PA=ص;PP=م;Pm=صباحا|الصبح|الصباح|في الصباح|
الصبحية|صباح;Pl=فجرا|الفجر;Pd=ظهرا|الظهر|الضهر|بعد الظهر|بعد الضهر|وقت الظهر;Pa=عصرا|العصر;Pe=مساء|
المساء|المسا|في المساء;qe=المغرب|العشا;Pn=ليلا|الليل|بالليل|في الليل;T0=منتصف الليل|نص الليل|نصف الليل;
T12=منتصف النهار|نص النهار;soon=القادم|القادمة|المقبل|المقبلة|الجاي|الجاية|الجي|جاي|جاية|اللي جاي|
اللي جاية|التالي;soon2=بعد القادم|بعد القادمة|بعد المقبل|بعد الجاي|بعد الجاية;this=هذا|هذه|هاد|هادا|ده|
دي|هذي|الحالي;last=الماضي|الماضية|الفائت|اللي فات|اللي فاتت;in=بعد|كمان|خلال;hace=قبل|منذ;from=من;
till=حتى|لحد|لغاية;to=إلى|الى|لـ;between=بين;half=نصف|نص|النصف|النص;quarter=ربع|الربع;third=ثلث|الثلث|
تلت|التلت;minus=إلا|الا;end=نهاية|آخر|أواخر;start=بداية|أول|مطلع|أوائل;lastday=آخر يوم;@=الساعة|الساعه;
on=في|عند;ok=لو سمحت|من فضلك|او|مع;x=صباح الخير|مساء الخير|صباح النور|مساء النور;H1-1=رأس السنة;now=الآن|دلوقتي|هلأ;
and=و"""
_LEXICONS = {"en": _ENGLISH, "es": _SPANISH, "ar": _ARABIC}
# Words that would be read as a number or a connective in a message of another language.
_NATIVE_ONLY = frozenset(
    ("once", "en", "de", "a", "un", "al", "la", "las", "el", "los", "y", "fin", "final", "media")
)

_Phrases = dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]]


@lru_cache(maxsize=20_000)
def _folded(token: str) -> str:
    return normalize(token)


@lru_cache(maxsize=8)
def _phrases(languages: tuple[str, ...]) -> _Phrases:
    """Phrases by first word, longest first; where two languages share a phrase the first one keeps it."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for place, language in enumerate(languages):
        for line in _LEXICONS[language].replace("\n", "").split(";"):
            symbols, _, words = line.partition("=")
            for word in filter(None, words.split("|")):
                key = tuple(_folded(word).split()) or (word,)
                if not (place and (len(key[0]) < 3 or key[0] in _NATIVE_ONLY)):
                    found.setdefault(key, tuple(symbols.split()))
    by_first: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for key in sorted(found, key=len, reverse=True):
        by_first.setdefault(key[0], []).append((key, found[key]))
    return {first: tuple(entries) for first, entries in by_first.items()}


_ARABIC_SCRIPT = re.compile("[\u0600-\u06ff]")
_SMALL_ES = "¿ ¡ el la los las de del que para por con en un una mi me y es hay al lo se a su tengo quiero"
_SMALL_EN = "the a of for to in on at my me and is i what with this that it you please from"


@lru_cache(maxsize=1)
def _es_marks() -> frozenset[str]:
    return frozenset(_SMALL_ES.split()) | {word for word in _phrases(("es",)) if len(word) > 3}


@lru_cache(maxsize=1)
def _en_marks() -> frozenset[str]:
    return frozenset(_SMALL_EN.split()) | {word for word in _phrases(("en",)) if len(word) > 2}


def _ordered(text: str, words: Sequence[str], languages: tuple[str, ...]) -> tuple[str, ...]:
    """Languages with the message's own first: Arabic by its script, Spanish by more of its small words."""
    if "ar" in languages and not text.isascii() and _ARABIC_SCRIPT.search(text):
        first = "ar"
    else:
        spanish, english = (len(marks.intersection(words)) for marks in (_es_marks(), _en_marks()))
        latin = next((name for name in languages if name != "ar"), "ar")
        first = "es" if "es" in languages and spanish > english else latin
    return (first, *(name for name in languages if name != first))


def language_of(text: str, languages: Sequence[str] = ("en", "ar", "es")) -> str:
    """Return the language of a text among those given: by script, then by its small words.

    >>> language_of("quiero una mesa"), language_of("احجز طاولة"), language_of("a table")
    ('es', 'ar', 'en')
    """
    return _ordered(text, normalize(text).split(), tuple(languages))[0]


@lru_cache(maxsize=4)
def cardinals(language: str) -> Mapping[str, int]:
    """Return the one-word cardinals of a language, normalised, with their values.

    >>> cardinals("es")["dieciseis"], cardinals("en")["twelve"]
    (16, 12)
    """
    return {
        key[0]: int(symbols[0][1:])
        for entries in _phrases((language,)).values()
        for key, symbols in entries
        if len(key) == 1 and len(symbols) == 1 and symbols[0][0] == "C"
    }


_MARKS = "\u0300-\u036f\u0640\u064b-\u065f\u0670"
_TOKEN = re.compile(
    rf"\d{{1,3}}(?:[.,٬]\d{{3}})+(?!\d)|\d+|[aApP]\.\s?[mM]\b\.?|[^\W\d_](?:[^\W\d_]|[{_MARKS}])*|[^\w\s]"
)
_SUFFIXES = frozenset(("st", "nd", "rd", "th", "ro", "º", "°", "ª"))
_MONEY = frozenset("$€£%#")


@dataclass(frozen=True, slots=True)
class _Line:
    """The text as symbols: one string, each symbol followed by a space, with offsets both ways."""

    text: str
    symbols: tuple[str, ...]
    bounds: tuple[tuple[int, int], ...]
    joined: str
    places: dict[int, int]
    """Offset in ``joined`` to the index of the symbol there."""


def _line(text: str, languages: Sequence[str]) -> tuple[_Line | None, str]:
    tokens = [(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text) if m.group() not in "'’"]
    words = [token if token in "@¿¡" else _folded(token).replace(" ", "") for token, _, _ in tokens]
    order = _ordered(text, words, tuple(languages))
    phrases = _phrases(order)
    found: list[tuple[str, int, int]] = []
    i, n = 0, len(tokens)
    while i < n:
        token, start, end = tokens[i]
        if token[0].isdecimal():
            symbol = _digits(token)
            behind = tokens[i + 1][0].lower() if i + 1 < n and tokens[i + 1][1] == end else ""
            before = tokens[i - 1][0] if i and tokens[i - 1][2] == start else ""
            if behind in _MONEY or (before in _MONEY and before):
                symbol = "x"
            elif behind in _SUFFIXES and symbol[0] == "D":
                symbol, end, i = "O" + symbol[1:], tokens[i + 1][2], i + 1
            found.append((symbol, start, end))
        elif words[i] and (token[0].isalpha() or token == "@"):
            step = _looked_up(phrases, words, tokens, i, found)
            if step:
                i += step
                continue
            capital = token[0].isupper() and order[0] == "en" and i > 0
            noun = capital or words[i] == "people" or (len(token) > 3 and token[-1] in "sS")
            glued = words[i] in ("h", "t") and i > 0 and tokens[i - 1][2] == start
            found.append(("h" if glued else "xs" if noun else "x", start, end))
        elif token == "." and found and found[-1][0][0] in "mMw" and found[-1][2] == start:
            pass  # an abbreviated month: "Oct. 16"
        else:
            inside = (
                0 < i < n - 1
                and tokens[i - 1][2] == start
                and tokens[i + 1][1] == end
                and tokens[i - 1][0].isdecimal()
                and tokens[i + 1][0].isdecimal()
            )
            found.append(
                (
                    token
                    if inside and token in ":/.-"
                    else {"-": "~", "–": "~", "—": "~"}.get(token, "," if token in ",،" else "|"),
                    start,
                    end,
                )
            )
        i += 1
    found = _composed(found, order[0])
    joined = "".join(symbol + " " for symbol, _, _ in found)
    if not _ANCHOR.search(joined):
        return None, order[0]
    places: dict[int, int] = {}
    position = 0
    for index, (symbol, _, _) in enumerate(found):
        places[position] = index
        position += len(symbol) + 1
    places[position] = len(found)
    symbols, bounds = tuple(f[0] for f in found), tuple((f[1], f[2]) for f in found)
    return _Line(text, symbols, bounds, joined, places), order[0]


# Without one of these no rule can match, and most messages end here.
_ANCHOR = re.compile(
    r"(?:^| )(?:[RWwMmYTPqUH]|@ |h |[:/] D|O\d+ |(?:at|by|till|past|las|half|quarter) (?:las )?[DC]|oclock |(?:half|quarter|minus|the D\d+) |C(?:5|10|20|25) to )"
)


def _digits(token: str) -> str:
    if not token.isdecimal() or len(token) > 4:
        return "x"
    plain = "".join(str(int(char)) for char in token)
    if len(plain) == 4 and 1900 <= int(plain) <= 2199:
        return "Y" + plain
    return "D" + plain if len(plain) <= 2 else "x"


def _looked_up(
    phrases: _Phrases,
    words: list[str],
    tokens: list[tuple[str, int, int]],
    i: int,
    found: list[tuple[str, int, int]],
) -> int:
    """Append the symbols of the longest phrase that begins here; return how many tokens it takes, 0 = none."""
    word, start = words[i], tokens[i][1]
    starts: list[tuple[str, str]] = [("", word)]
    if word[0] >= "\u0600":
        # One-letter conjunctions and prepositions are written onto the word; "هال" is "this".
        if word.startswith("لل"):
            starts.append(("on", "ال" + word[2:]))
        if word.startswith("هال"):
            starts.append(("this", word[1:]))
        if len(word) > 2 and word[0] in "وفبلع":
            starts.append(("and" if word[0] == "و" else "on", word[1:]))
    for prefix, first in starts:
        for key, symbols in phrases.get(first, ()):
            size = len(key)
            if size == 1 or (first, *words[i + 1 : i + size]) == key:
                if prefix:
                    found.append((prefix, start, start + 1))
                    start += word[:2] != "لل"
                end = tokens[i + size - 1][2]
                found.extend((symbol, start, end) for symbol in symbols)
                return size
    return 0


def _composed(found: list[tuple[str, int, int]], language: str) -> list[tuple[str, int, int]]:
    """Join "twenty five", "twenty-first" and «خمسة وعشرين» into one number."""
    done: list[tuple[str, int, int]] = []
    for item in found:
        symbol, start, end = item
        if symbol[0] in "CO" and done:
            value, back = int(symbol[1:]), 2 if len(done) > 1 and done[-1][0] in ("~", "and") else 1
            head = done[-back]
            if head[0][0] in "CO" and head[0][1:].isdecimal():
                first, joint = int(head[0][1:]), done[-1][0] if back == 2 else ""
                tens = first in (20, 30, 40, 50) and value < 10 and joint in ("", "~") and head[0][0] == "C"
                if tens or (language == "ar" and joint == "and" and first < 10 and value in (20, 30, 40, 50)):
                    kind = "O" if "O" in (symbol[0], head[0][0]) else "C"
                    del done[-back:]
                    item = (f"{kind}{first + value}", head[1], end)
        done.append(item)
    return done


# --- now -----------------------------------------------------------------------------------------------------------

_ZONE = re.compile(r"\s*\[!?([^\]]+)\]\s*$")


def parse_now(now: str) -> dt.datetime:
    """Return an aware datetime from ISO 8601 with an offset and, optionally, an RFC 9557 zone.

    Raises
    ------
    ValueError
        If the text is no ISO date and time, carries no offset, or names an unknown zone.

    >>> parse_now("2026-03-28T09:30:00+01:00[Europe/Madrid]").tzname()
    'CET'
    """
    found = _ZONE.search(now)
    try:
        moment = dt.datetime.fromisoformat(now[: found.start()].strip() if found else now.strip())
    except ValueError:
        raise ValueError(f"now must be an ISO 8601 date and time, got {now!r}") from None
    if found:
        from zoneinfo import ZoneInfo

        try:
            zone = ZoneInfo(found.group(1))
        except (KeyError, ValueError, OSError):
            raise ValueError(f"now must name a known time zone, got {now!r}") from None
        return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)
    if moment.tzinfo is None:
        raise ValueError(f"now must carry an offset or a zone, got {now!r}")
    return moment


# --- grammar -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Piece:
    """What one rule read; the fields that a rule does not know stay empty."""

    first: int
    """Index of its first symbol."""
    last: int
    """Index behind its last symbol."""
    day: dt.date | None = None
    until: dt.date | None = None
    clock: tuple[int, int] | None = None
    until_day: dt.date | None = None
    until_clock: tuple[int, int] | None = None
    part: str = ""
    fixed: bool = False
    """Whether am or pm is known."""
    loose: bool = False
    """Whether the day is a weekday, which a full date or a week beside it overrules."""
    tonight: bool = False
    bare: bool = False
    """Whether it is a number alone, which the other end of a range may claim."""
    spans: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """Symbols that the day, the clock and the part came from."""
    spoken: bool = True
    """False for a bare "morning", which means nothing without a day or an hour."""


@dataclass(frozen=True, slots=True)
class _Context:
    now: dt.datetime | None
    language: str
    line: _Line

    @property
    def today(self) -> dt.date:
        if self.now is None:
            raise _Unknown
        return self.now.date()


class _Unknown(Exception):
    """A relative expression met no ``now``, or the calendar has no such day."""


def _months_on(day: dt.date, months: int) -> dt.date:
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    return dt.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _days_on(day: dt.date, unit: str, count: int) -> dt.date:
    if unit in "my":
        return _months_on(day, count * (12 if unit == "y" else 1))
    return day + dt.timedelta(days=count * (7 if unit == "w" else 1))


def _dated(context: _Context, day: int, month: int, year: int | None) -> dt.date:
    """The date, or the next one of that day and month where the year is left out."""
    if year is not None:
        return dt.date(year + 2000 if year < 100 else year, month, day)
    today = context.today
    for ahead in range(9):
        try:
            found = dt.date(today.year + ahead, month, day)
        except ValueError:
            continue
        if found >= today:
            return found
    raise _Unknown


def _period(context: _Context, unit: str, ahead: int) -> tuple[dt.date, dt.date]:
    """First and last day of this (0) or the next (1) week, weekend, month or year."""
    today = context.today
    monday = today - dt.timedelta(days=today.weekday())
    if unit == "w":
        first = monday + dt.timedelta(weeks=ahead)
        return first, first + dt.timedelta(days=6)
    if unit == "k":
        first = monday + dt.timedelta(weeks=ahead, days=4 if context.language == "ar" else 5)
        if ahead == 0 and first + dt.timedelta(days=1) < today:
            first += dt.timedelta(weeks=1)
        return first, first + dt.timedelta(days=1)
    if unit == "y":
        return dt.date(today.year + ahead, 1, 1), dt.date(today.year + ahead, 12, 31)
    first = _months_on(today.replace(day=1), ahead)
    return first, _months_on(first, 1) - dt.timedelta(days=1)


_AHEAD = {"next": 1, "soon": 1, "soon2": 2, "last": -1, "past next": 2, "this": 0, None: 0, "": 0}
_Groups = dict[str, str | None]
_Rule = Callable[[_Groups, _Context], _Piece | None]


def _piece(**values: object) -> _Piece:
    return _Piece(0, 0, **values)  # type: ignore[arg-type]


def _number(groups: _Groups, name: str) -> int | None:
    found = groups.get(name)
    return None if found is None else int(found)


def _read_date(groups: _Groups, context: _Context) -> _Piece | None:
    month, day, year = (_number(groups, name) for name in ("m", "d", "y"))
    assert month is not None
    if day is None:
        if year is None:
            first = _dated(context, 1, month, None)
            if context.today.month == month:
                first = context.today.replace(day=1)
        else:
            first = dt.date(year, month, 1)
        return _piece(day=first, until=_months_on(first, 1) - dt.timedelta(days=1))
    return _piece(day=_dated(context, day, month, year))


def _read_numeric(groups: _Groups, context: _Context) -> _Piece | None:
    one, two, year = (_number(groups, name) for name in ("a", "b", "y"))
    assert one is not None and two is not None
    if year is None and (one, two) in ((24, 7), (50, 50)):
        return None
    month_first = context.language == "en"
    if (one if month_first else two) > 12:
        month_first = not month_first
    month, day = (one, two) if month_first else (two, one)
    return _piece(day=_dated(context, day, month, year)) if month <= 12 else None


def _read_weekday(groups: _Groups, context: _Context) -> _Piece | None:
    weekday, modifier = int(groups["w"] or 0), groups.get("n") or groups.get("n2") or ""
    today = context.today
    ahead = (weekday - today.weekday() - 1) % 7 + 1
    if modifier == "last":
        ahead = (weekday - today.weekday()) % 7 - 7
    elif modifier == "soon2":
        ahead += 7
    elif modifier in ("next", "past next"):
        ahead = (7 if modifier == "next" else 14) - today.weekday() + weekday
    return _piece(day=today + dt.timedelta(days=ahead), loose=True)


def _read_relative(groups: _Groups, context: _Context) -> _Piece | None:
    return _piece(day=context.today + dt.timedelta(days=int(groups["r"] or 0)))


def _read_ahead(groups: _Groups, context: _Context) -> _Piece | None:
    """ "in 2 hours", "3 days ago": hours are elapsed time, days are dates."""
    unit, halves = groups["u"] or "", 0.0
    if groups.get("ago") == "from" and context.language != "ar":
        return None
    if groups.get("bare") is not None and context.language != "ar":
        return None
    count = float(groups.get("c") or 1)
    if groups.get("f"):
        halves = {"half": 0.5, "quarter": 0.25, "third": 1 / 3}[groups["f"] or ""]
        count = 0.0 if groups.get("only") else count
    sign = -1 if groups.get("ago") else 1
    if unit in "hi":
        if context.now is None:
            raise _Unknown
        minutes = (count + halves) * (60 if unit == "h" else 1) + float(groups.get("i") or 0)
        moment = context.now.astimezone(dt.UTC) + dt.timedelta(minutes=sign * round(minutes))
        moment = moment.astimezone(context.now.tzinfo)
        return _piece(day=moment.date(), clock=(moment.hour, moment.minute), fixed=True)
    if halves and unit != "w":
        return None
    start = context.today
    if groups.get("w") is not None:
        weekday = _read_weekday({"w": groups["w"]}, context)
        start = weekday.day if weekday and weekday.day else start
    elif groups.get("r") is not None:
        start += dt.timedelta(days=int(groups["r"] or 0))
    return _piece(day=_days_on(start, unit, sign * int(count)))


def _read_period(groups: _Groups, context: _Context) -> _Piece | None:
    modifier = groups.get("n") or groups.get("n2")
    if modifier is None and groups["u"] != "k":
        return None
    first, last = _period(context, groups["u"] or "", _AHEAD[modifier])
    return _piece(day=first, until=last)


def _read_edge(groups: _Groups, context: _Context) -> _Piece | None:
    """The end or the start of a week, a month or a year."""
    if groups.get("m"):
        whole = _read_date({"m": groups["m"], "y": groups.get("y")}, context)
        assert whole is not None and whole.day is not None and whole.until is not None
        first, last = whole.day, whole.until
    else:
        ahead = _AHEAD[groups.get("n") or groups.get("n2")]
        first, last = _period(context, groups["u"] or "", ahead)
        if groups["edge"] == "start" and ahead == 0 and first < context.today:
            first, last = _period(context, groups["u"] or "", 1)
    return _piece(day=first if groups["edge"] == "start" else last)


def _read_day(groups: _Groups, context: _Context) -> _Piece | None:
    """A day of the month: "the 14th", «el 5 del mes que viene», «يوم ١٤»."""
    day, modifier, today = int(groups["d"] or 0), groups.get("n") or groups.get("n2"), context.today
    if groups.get("of"):
        return _piece(day=_months_on(today.replace(day=1), _AHEAD[modifier]).replace(day=day))
    weekday = _number(groups, "w")
    for ahead in range(13 if weekday is not None else 4):
        first = _months_on(today.replace(day=1), ahead)
        if day <= calendar.monthrange(first.year, first.month)[1] and first.replace(day=day) >= today:
            if weekday is None or first.replace(day=day).weekday() == weekday:
                return _piece(day=first.replace(day=day), bare=weekday is None)
    return None


def _read_feast(groups: _Groups, context: _Context) -> _Piece | None:
    return _piece(day=_dated(context, int(groups["d"] or 0), int(groups["m"] or 0), None))


def _read_clock(groups: _Groups, context: _Context) -> _Piece | None:
    hour, minute = int(groups["h"] or 0), int(groups.get("i") or 0)
    fraction = groups.get("f")
    if fraction:
        minute = {"half": 30, "quarter": 15, "third": 20}.get(fraction) or int(fraction[1:])
    if groups.get("minus"):
        hour, minute = (hour - 1) % 24 or (12 if hour <= 12 else 0), 60 - minute
    part = (groups.get("p") or groups.get("q") or "")[-1:]
    written = groups.get("h24") is not None or hour > 12 or hour == 0 or (groups["h"] or "").startswith("0")
    if hour > 24 or minute > 59 or (part in ("A", "P") and hour > 12 and not groups.get("i")):
        return None
    return _piece(clock=(hour % 24, minute), fixed=written, part=part)


def _read_named_clock(groups: _Groups, context: _Context) -> _Piece | None:
    return _piece(clock=(int(groups["t"] or 0), 0), fixed=True)


def _read_part(groups: _Groups, context: _Context) -> _Piece | None:
    return _piece(part=(groups["p"] or "")[-1:], spoken=(groups["p"] or "")[0] == "P")


# What may stand behind a day of the month; a noun ("the 5th floor") may not.
_FOLLOW = r"(?=$|, |\| |~ |- |@ |at |on |by |in |to |till |and |P|q|T|Y|R|from |past |this |next |soon |a |ok |the |las |D\d+ : )"
_NO_NOUN = r"(?!xs |U|: |[DC]\d|- D|/ )"
_THE = r"(?:the |las )?"
_ANY, _N, _N2 = r"[DCO](?P<d>\d+) ", r"[DC](?P<c>\d+) ", r"[DC](?P<c2>\d+) "
_MONTH = r"[Mm](?P<m>\d+) "
_YEAR = r"(?:(?:of |, |of the |on )?(?:Uy )?Y(?P<y>\d+) )?"
_NEXT = r"(?P<n>next |this |last |soon |soon2 )?"
_AFTER = r"(?P<n2>(?:next |this |last |soon |soon2 |past next )(?!U))?"
_PART = r"(?:(?P<p>P[AP]) )?"
_FRACTION = r"(?P<f>half|quarter|third|[DC]\d+) (?:Ui )?(?!xs )"
# Tried in this order at every symbol; the first that reads something wins. An empty group (?P<es>) or (?P<ar>)
# keeps a rule to that language, (?P<h24>) says that the hour is on the 24-hour clock.
_RULES: tuple[tuple[str, _Rule], ...] = (
    (r"Y(?P<y>\d+) ([-/.]) D(?P<m>\d+) \2 D(?P<d>\d+) (?:h (?=D))?", _read_date),
    (r"D(?P<a>\d+) ([-/.]) D(?P<b>\d+) \2 [YD](?P<y>\d{4}|\d\d) ", _read_numeric),
    (r"D(?P<a>\d+) / D(?P<b>\d+) (?!of xs? |of las xs? |/ |xs |x )", _read_numeric),
    (r"(?:(?<=on )|(?<=by )|(?<=the )|(?<=till )|(?<=Ud ))D(?P<a>\d+) / D(?P<b>\d+) ", _read_numeric),
    (rf"(?:the )?(?:Ud )?{_ANY}(?:Ud )?(?:of |from |of the )?(?:Um )?M(?P<m>\d+) {_YEAR}", _read_date),
    (rf"(?:the )?{_ANY}(?:of |from )m(?P<m>\d+) {_YEAR}", _read_date),
    (rf"(?:the )?(?:Ud )?{_ANY}m(?P<m>\d+) {_YEAR}{_FOLLOW}", _read_date),
    (rf"M(?P<m>\d+) (?:the )?{_ANY}(?!: |U|P[AP] |oclock |/ ){_YEAR}", _read_date),
    (rf"(?<!I )m(?P<m>\d+) (?:the )?{_ANY}(?!: |U|P[AP] |oclock |/ ){_YEAR}{_FOLLOW}", _read_date),
    (rf"(?<!I )m(?P<m>\d+) D(?P<d>\d+) (?!: |U|P[AP] |oclock |/ |xs |D|C|- )", _read_date),
    (rf"{_MONTH}(?:of |of the |, )?(?:Uy )?Y(?P<y>\d+) ", _read_date),
    (rf"(?:(?<=in )|(?<=this )|(?<=next )|(?<=soon )){_MONTH}", _read_date),
    (r"(?<=on )M(?P<m>\d+) ", _read_date),
    (
        rf"(?:the )?(?P<edge>end|start|lastday) (?:of |of the |from )?{_THE}{_NEXT}(?:U(?P<u>[wmyk]) {_AFTER}|{_MONTH}{_YEAR})",
        _read_edge,
    ),
    (rf"{_THE}(?P<n>next |this )?U(?P<u>[wmy]) (?:s )?(?P<edge>end) (?!U)", _read_edge),
    (rf"(?:the )?(?:Ud )?{_ANY}(?P<of>of the |of |from )(?:the )?{_NEXT}Um {_AFTER}", _read_day),
    (
        r"(?:in )?(?:the )?(?:a |[DC](?P<c>\d+) )?U(?P<u>[dwmy]) (?:from |of the |past |in )(?:the )?"
        r"(?:now |R(?P<r>-?\d+) |W(?P<w>\d) )",
        _read_ahead,
    ),
    (r"in (?:the )?(?P<f>half|quarter|third) (?:of )?(?:a )?(?P<only>U(?P<u>h)) ", _read_ahead),
    (
        rf"in (?:the )?(?:a |{_N})?U(?P<u>[hi]) (?:and (?:a )?(?:(?P<f>half|quarter|third) |[DC](?P<i>\d+) Ui ))?",
        _read_ahead,
    ),
    (rf"in (?:the )?(?:a |{_N})U(?P<u>[dwmy]) ", _read_ahead),
    (r"in (?P<bare>)U(?P<u>[dwmy]) ", _read_ahead),
    (rf"(?:a |{_N})U(?P<u>[hidwmy]) (?:and (?:a )?(?P<f>half) )?(?P<ago>ago) ", _read_ahead),
    (r"(?P<f>half|quarter) (?:a )?(?:of a )?(?P<only>U(?P<u>h)) (?P<ago>ago) ", _read_ahead),
    (
        rf"(?:(?P<ago>hace) (?:a |{_N})?|(?P<ago2>from) {_N2})U(?P<u>[hidwmy]) (?:and (?P<f>half) )?",
        _read_ahead,
    ),
    (r"(?P<ago>hace|from) (?P<f>half|quarter|third) (?P<only>U(?P<u>h)) ", _read_ahead),
    (rf"(?:a |{_N})U(?P<u>[hi]) from now ", _read_ahead),
    (rf"{_THE}{_NEXT}U(?P<u>[wkmy]) {_AFTER}", _read_period),
    (r"R(?P<r>-?\d+) ", _read_relative),
    (rf"(?:the )?(?:Ud )?W(?P<w>\d) (?:, )?(?:the )?(?:Ud )?(?:O(?P<d>\d+)|D(?P<d2>\d+)) {_FOLLOW}", _read_day),
    (rf"(?:the )?(?:Ud )?{_NEXT}(?:the )?W(?P<w>\d) {_AFTER}", _read_weekday),
    (
        r"(?:(?:(?<=on )|(?<=by )|(?<=till )|(?<=from )|(?<=to ))w(?P<w>\d) |(?P<n>next |this |last )w(?P<w2>\d) |Ud w(?P<w3>\d) )"
        rf"{_AFTER}",
        _read_weekday,
    ),
    (r"w(?P<w>\d) (?=at |, [DmMO]|[DmMOPT])", _read_weekday),
    (rf"(?:the Ud |the )O(?P<d>\d+) {_FOLLOW}", _read_day),
    (rf"(?P<es>)the D(?P<d>\d+) (?!- D)(?!/ D){_FOLLOW}", _read_day),
    (r"(?:the )?Ud [DO](?P<d>\d+) (?!: |U)", _read_day),
    (rf"(?:(?<=on )|(?<=till )|(?<=from )|(?<=to )|(?<=by ))O(?P<d>\d+) {_FOLLOW}", _read_day),
    (
        r"(?:(?<=on )|(?<=by )|(?<=till )|(?<=in )|(?<=the )|(?<=at )|(?<=past ))H(?P<m>\d+)-(?P<d>\d+) ",
        _read_feast,
    ),
    (rf"(?:@ )?(?P<h24>)D(?P<h>\d\d) : D(?P<i>\d\d) (?:: D\d\d )?(?:h )?{_PART}", _read_clock),
    (rf"(?:@ )?D(?P<h>\d) : D(?P<i>\d\d) (?:: D\d\d )?(?:h )?{_PART}", _read_clock),
    (r"(?:@ )?D(?P<h>\d+) \. D(?P<i>\d\d) (?P<p>P[AP]) ", _read_clock),
    (r"(?:(?<=at )|@ )D(?P<h>\d+) \. D(?P<i>\d\d) ", _read_clock),
    (r"(?P<h24>)(?:@ |las )?D(?P<h>\d+) h D(?P<i>\d\d) ", _read_clock),
    (r"(?P<h24>)(?:@ |las )?D(?P<h>1[3-9]|2[0-3]|0\d) (?:h|Uh) (?![UxD])", _read_clock),
    (
        r"(?:[DC](?P<i>5|10|20|25) (?:Ui )?|(?:a )?(?P<f>half|quarter) )past [DC](?P<h>\d+) (?:oclock )?"
        + _PART,
        _read_clock,
    ),
    (
        r"(?:(?<!from )(?<!between )C(?P<i>5|10|20|25) |[DC](?P<i2>\d+) Ui |(?:a )?(?P<f>quarter) )(?P<minus>to )"
        rf"[DC](?P<h>\d+) (?:oclock )?{_PART}",
        _read_clock,
    ),
    (rf"(?:@ |las )[DCO](?P<h>\d+) (?:and )?(?P<minus>minus ){_FRACTION}{_PART}", _read_clock),
    (rf"@ (?:the )?[DCO](?P<h>\d+) and {_FRACTION}(?:oclock )?{_PART}", _read_clock),
    (rf"las [DC](?P<h>\d+) and (?P<f>half|quarter) {_PART}", _read_clock),
    (rf"las [DC](?P<h>\d+) and (?P<f>[DC]\d+) {_PART}(?=P)", _read_clock),
    (r"[DC](?P<h>\d+) and (?P<f>half|quarter) (?=P)", _read_clock),
    (rf"(?P<ar>)[DCO](?P<h>\d+) and (?P<f>half|quarter|third) {_PART}", _read_clock),
    (rf"(?P<ar>)[DCO](?P<h>\d+) (?P<minus>minus )(?P<f>quarter|third|[DC]\d+) {_PART}", _read_clock),
    (r"C(?P<h>\d+) (?P<minus>minus )(?P<f>quarter) ", _read_clock),
    (rf"[DC](?P<h>\d+) [DC](?P<i>[1-5]\d) (?P<p>P[AP]) ", _read_clock),
    (rf"(?:(?<=at )|(?<=@ )|(?<=by ))[DC](?P<h>\d+) [DC](?P<i>[1-5]\d) {_NO_NOUN}", _read_clock),
    (rf"C(?P<h>\d+) C(?P<i>15|30|45) (?:oclock )?{_PART}{_NO_NOUN}", _read_clock),
    (r"[DC](?P<h>\d+) (?:oclock )?(?P<p>P[AP]) ", _read_clock),
    (r"(?:@ |las )?[DC](?P<h>\d+) oclock ", _read_clock),
    (rf"@ (?:the )?[DCO](?P<h>\d+) {_PART}{_NO_NOUN}", _read_clock),
    (r"(?:las )?[DC](?P<h>\d+) (?=R0 Pn |P[madenl] )", _read_clock),
    (r"(?P<ar>)[DCO](?P<h>\d+) (?:Uh )?(?=R0 Pn |P[madenl] |qe )", _read_clock),
    (rf"(?P<p>q[aen]) (?:at )?[DC](?P<h>\d+) {_NO_NOUN}", _read_clock),
    (rf"(?:(?<=at )|(?<=till )|(?<=by )|(?<=past ))(?:las )?[DC](?P<h>\d+) {_NO_NOUN}", _read_clock),
    (rf"(?:(?<=from )|(?<=of )|(?<=on ))las [DC](?P<h>\d+) {_NO_NOUN}", _read_clock),
    (r"T(?P<t>\d+) ", _read_named_clock),
    (r"(?P<p>[Pq][a-z]) ", _read_part),
)


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[re.Pattern[str], _Rule], ...]:
    return tuple((re.compile(pattern), rule) for pattern, rule in _RULES)


def _scan(context: _Context) -> list[_Piece]:
    line, found = context.line, []
    position, size = 0, len(line.joined)
    while position < size:
        index = line.places[position]
        piece = None
        if line.symbols[index] not in _SKIPPED:
            piece = _read_at(context, position)
        if piece is None:
            position += len(line.symbols[index]) + 1
            continue
        position += sum(len(symbol) + 1 for symbol in line.symbols[index : piece.last])
        found.append(piece)
    return found


_SKIPPED = frozenset(
    ("x", "xs", "|", ",", "ok", "and", "I", "s", "h", ":", "/", "-", ".", "~", "of", "to", "on", "at")
)


def _read_at(context: _Context, position: int) -> _Piece | None:
    line = context.line
    for pattern, rule in _compiled():
        match = pattern.match(line.joined, position)
        if match is None or match.end() == position:
            continue
        groups = {name: value and value.strip() for name, value in match.groupdict().items()}
        if ("es" in groups and context.language != "es") or ("ar" in groups and context.language != "ar"):
            continue
        for name in ("w2", "w3", "i2", "c2", "d2", "ago2"):
            if groups.get(name) is not None:
                groups[name.rstrip("23")] = groups[name]
        try:
            piece = rule(groups, context)
        except (_Unknown, ValueError, OverflowError):
            continue
        if piece is not None:
            piece.first, piece.last = line.places[position], line.places[match.end()]
            for name, known in (("day", piece.day), ("clock", piece.clock), ("part", piece.part)):
                if known:
                    piece.spans[name] = (piece.first, piece.last)
            return piece
    return None


# --- from pieces to spans ------------------------------------------------------------------------------------------

_GLUE = frozenset((",", "at", "@", "on", "the", "in", "by", "of", "las", "Ud", "from"))
_RANGE = frozenset(("to", "till", "~", "-"))


def _merge(one: _Piece, two: _Piece) -> _Piece | None:
    """Both as one, or None where they say the same kind of thing twice."""
    if (one.clock and two.clock) or (one.part and two.part and one.part != two.part):
        return None
    merged = dataclasses.replace(one, last=two.last, spoken=True, spans={**one.spans, **two.spans})
    if one.day and two.day:
        if one.loose == two.loose:
            return None
        weekday, other = (one, two) if one.loose else (two, one)
        assert weekday.day is not None and other.day is not None
        merged.day, merged.until, merged.loose = other.day, None, False
        if other.until:
            merged.day = other.day + dt.timedelta(days=(weekday.day.weekday() - other.day.weekday()) % 7)
    elif two.day:
        merged.day, merged.until, merged.loose = two.day, two.until, two.loose
    merged.tonight = one.tonight or two.tonight
    if two.clock:
        merged.clock, merged.fixed = two.clock, two.fixed
    merged.part = one.part or two.part
    return merged


def _on_the_clock(piece: _Piece) -> None:
    """Apply the part of the day to the hour."""
    if piece.clock is None or piece.part == "":
        return
    hour, minute = piece.clock
    part = piece.part
    if hour <= 12 and not (piece.fixed and part not in "AP"):
        if part in "Aml":
            hour %= 12
        elif part == "d":
            hour += 12 if hour < 6 else 0
        elif part in "Pa" or (part == "e" and hour < 12):
            hour = hour % 12 + 12
        elif part in "en":
            hour = 0 if hour == 12 else hour + 12 if hour > 4 else hour
        piece.fixed = True
    if piece.tonight and hour < 5 and piece.day:
        piece.day += dt.timedelta(days=1)
    piece.clock = (hour, minute)


def _grouped(context: _Context, pieces: list[_Piece]) -> list[_Piece]:
    symbols = context.line.symbols
    groups: list[_Piece] = []
    for piece in pieces:
        piece.tonight = piece.part == "n" or symbols[piece.first : piece.last] == ("R0",)
        if groups and _is_glue(symbols[groups[-1].last : piece.first]):
            merged = _merge(groups[-1], piece)
            if merged is not None:
                groups[-1] = merged
                continue
        groups.append(piece)
    return [g for g in groups if g.day or g.clock or g.spoken]


def _is_glue(gap: tuple[str, ...]) -> bool:
    return len(gap) <= 3 and all(symbol in _GLUE for symbol in gap)


def _elided(context: _Context, group: _Piece, before: _Piece | None) -> None:
    """Widen a group by the bare number of "3 to 5 pm", "from 3 to 5 June" or "June 3-5"."""
    symbols, first, last = context.line.symbols, group.first, group.last
    skip = first - 1 if first and symbols[first - 1] in ("las", "@", "the", "at") else first
    link = symbols[skip - 1] if skip > 1 else ""
    number = symbols[skip - 2] if skip > 1 else ""
    opened = symbols[skip - 3] if skip > 2 else ""
    opened = symbols[skip - 4] if opened in ("las", "the") and skip > 3 else opened
    claimed = before is not None and before.last > skip - 2
    if claimed and before is not None and not (before.bare and before.last <= skip - 1):
        number = ""
    if number and number[0] in "DC" and (link in _RANGE or (link == "and" and opened == "between")):
        value = int(number[1:])
        if group.clock and group.fixed and value <= 12 and (group.part or opened in ("from", "between")):
            hour = value + 12 if group.clock[0] > 12 and value % 12 + 12 < group.clock[0] else value
            group.until_clock, group.clock = group.clock, (hour, 0)
        elif (
            group.day
            and not group.clock
            and not group.until
            and not group.loose
            and 0 < value < group.day.day
        ):
            group.until, group.day = group.day, group.day.replace(day=value)
        else:
            return
        group.first = skip - 2
        if claimed and before is not None:
            before.last = 0
    elif symbols[last : last + 1] and symbols[last] in _RANGE and last + 1 < len(symbols):
        number = symbols[last + 1]
        behind = symbols[last + 2] if last + 2 < len(symbols) else ""
        month = any(s[0] in "mM" for s in symbols[first:last])
        if (
            number
            and number[0] in "DO"
            and month
            and group.day
            and not group.clock
            and behind not in (":", "/")
        ):
            if group.day.day < int(number[1:]) <= calendar.monthrange(group.day.year, group.day.month)[1]:
                group.until, group.last = group.day.replace(day=int(number[1:])), last + 2


def _ranged(context: _Context, groups: list[_Piece]) -> list[_Piece]:
    """Join the two ends of "from 3 June to 5 June" and "9 am - 5 pm"."""
    symbols = context.line.symbols
    found: list[_Piece] = []
    for group in groups:
        before = found[-1] if found else None
        gap = symbols[before.last : group.first] if before else ()
        link = gap[0] if gap and all(g in _GLUE for g in gap[1:]) else ""
        opened = symbols[before.first - 1] if before and before.first else ""
        joined = link in _RANGE or (link == "and" and opened == "between")
        open_ended = before and not before.until and not before.until_clock and not group.until
        if before and joined and open_ended and bool(before.clock) >= bool(group.clock) > 0:
            before.day = before.day or group.day
            if group.day and before.day != group.day:
                before.until = group.day
            before.until_clock, before.last = group.clock, group.last
            continue
        if (
            before
            and joined
            and open_ended
            and before.day
            and group.day
            and not before.clock
            and not group.clock
        ):
            before.until, before.last = group.day, group.last
            continue
        found.append(group)
    return found


def _span(context: _Context, group: _Piece) -> TimeSpan:
    bounds = context.line.bounds
    first = group.first
    # The cue of a clock time («الساعة», "a las") belongs to the phrase; an article before an ordinal does not.
    if context.line.symbols[first] == "the" and context.line.symbols[first + 1][0] == "O":
        first += 1
    start, end = bounds[first][0], bounds[group.last - 1][1]
    ranged = group.until is not None or group.until_clock is not None
    kind = "range" if ranged else "datetime" if group.day and group.clock else "date" if group.day else "time"
    if not group.day and not group.clock:
        kind = "part"
    return TimeSpan(
        start=start,
        end=end,
        text=context.line.text[start:end],
        kind=kind,
        date=group.day.isoformat() if group.day else None,
        time=_hhmm(group.clock),
        end_date=group.until.isoformat() if group.until else None,
        end_time=_hhmm(group.until_clock),
        certain=group.fixed or not group.clock,
        day_text=_words_of(context, group, "day"),
        clock_text=_words_of(context, group, "clock"),
        part_text=_words_of(context, group, "part"),
    )


def _words_of(context: _Context, group: _Piece, name: str) -> str | None:
    if name not in group.spans:
        return None
    first, last = group.spans[name]
    part = group.spans.get("part")
    if name == "clock" and part and part[0] == last:
        last = part[1]  # "five in the afternoon" is one clock time
    return context.line.text[context.line.bounds[first][0] : context.line.bounds[last - 1][1]]


def _hhmm(clock: tuple[int, int] | None) -> str | None:
    return f"{clock[0]:02d}:{clock[1]:02d}" if clock else None


def find_times(
    text: str, now: str | None, *, languages: Sequence[str] = ("en", "ar", "es")
) -> tuple[TimeSpan, ...]:
    """Return the dates and clock times that a text says, in order, with their ISO values.

    Parameters
    ----------
    text : str
        A message of a user.
    now : str or None
        Local date and time with offset, optionally with a zone (:func:`parse_now`). None = only dates with a year
        and clock times are read.
    languages : sequence of str
        Some of "en", "ar", "es"; a message that shows no language of its own is read as the first.

    Raises
    ------
    ValueError
        If ``now`` is malformed or a language is unknown.

    >>> now = "2026-03-10T09:30:00+01:00[Europe/Madrid]"
    >>> [(s.text, s.date, s.time) for s in find_times("pasado mañana a las siete y media de la tarde", now)]
    [('pasado mañana a las siete y media de la tarde', '2026-03-12', '19:30')]
    >>> [(s.date, s.time) for s in find_times("بكرة الساعة ٧ ونص مساء", now)]
    [('2026-03-11', '19:30')]
    >>> find_times("I may want 2 tickets", now)
    ()
    """
    unknown = [name for name in languages if name not in _LEXICONS]
    if unknown:
        raise ValueError(f"languages must be among 'en', 'ar' and 'es', got {unknown[0]!r}")
    moment = None if now is None else parse_now(now)
    line, language = _line(text, languages)
    found: list[TimeSpan] = []
    if line is not None:
        context = _Context(moment, language, line)
        groups = _grouped(context, _scan(context))
        for index, group in enumerate(groups):
            _on_the_clock(group)
            _elided(context, group, groups[index - 1] if index else None)
        groups = [group for group in groups if group.last]
        found = [_span(context, group) for group in _ranged(context, groups)]
    if not found and moment is not None and _OTHER.search(text):
        found = _by_dateparser(text, moment, languages)
    return tuple(found)


# A count beside a unit of time and a direction: what dateparser may know and the grammar does not.
_OTHER = re.compile(
    r"\d.*\b(?:ago|decades?|fortnights?|hence|later|earlier|utc|gmt)\b|\bhace\b.*\d|\d.*\b(?:despu[eé]s)\b",
    re.IGNORECASE | re.DOTALL,
)


def _by_dateparser(text: str, now: dt.datetime, languages: Sequence[str]) -> list[TimeSpan]:
    if len(text) > 300:
        return []
    from dateparser.search import search_dates

    settings = {"RELATIVE_BASE": now.replace(tzinfo=None), "PREFER_DATES_FROM": "future"}
    found = []
    position = 0
    for said, moment in search_dates(text, languages=list(languages), settings=settings) or ():
        start = text.find(said, position)
        # A bare number or a bare word is no date: "2", "may", "second".
        if start < 0 or not re.search(r"\d", said) or not re.search(r"[^\W\d_]{3}", said):
            continue
        position = start + len(said)
        clock = re.search(r"\d:\d\d|hour|minute|hora|minuto", said) is not None
        found.append(
            TimeSpan(
                start=start,
                end=position,
                text=said,
                kind="datetime" if clock else "date",
                date=moment.date().isoformat(),
                time=f"{moment:%H:%M}" if clock else None,
            )
        )
    return found
