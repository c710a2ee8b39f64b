"""Words of dates and times in English, Arabic and Spanish: text in, a line of symbols out.

A table per language maps phrases to symbols ("tomorrow", «mañana» and «بكرة» are all ``R1``), so that one
grammar serves the three. Words of the message's own language win; a few of the others are read as well,
since people mix them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mono_router.text import normalize

# symbol=word|word;... R day from today, W weekday (w: an everyday word too), M month (m likewise), U unit,
# C cardinal, O ordinal, F feminine ordinal (an hour), P part of the day that may follow an hour (q: only a
# day), T clock time, H feast.
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
Pm=por la mañana|de la mañana|en la mañana|a la mañana|toda la mañana;
Pd=del mediodía;Pa=por la tarde|de la tarde|
en la tarde|a la tarde;Pn=por la noche|de la noche|en la noche|a la noche;qa=tarde;qn=noche;
x=buenos días|buenas tardes|buenas noches;Pl=de la madrugada|por la madrugada|en la madrugada;
T12=mediodía;T0=medianoche;soon=próximo|próxima|que viene|que entra|entrante|siguiente;this=este|esta|
este próximo;last=pasado|pasada|último|última;in=en|dentro de|de aquí a;hace=hace;ago=atrás;from=desde;
till=hasta;to=al|a;between=entre;half=media;quarter=cuarto|un cuarto;minus=menos;and=y;end=fin|final|
finales|fines;start=principio|principios|inicio|comienzo|comienzos;lastday=último día;of=de;of the=del;
the=el;a=un;@=a las|a la;las=las|la|los;on=para;ok=por favor|o|si|con|gracias;by=antes de|sobre;
past=después de;oclock=en punto;H12-24=nochebuena;H12-25=navidad;H12-31=nochevieja;H1-1=año nuevo"""
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
أربعون;C50=خمسين|خمسون;O1=الأول|الحادي;F1=الأولى|الواحدة|الوحدة|الحادية;O2=الثاني;F2=الثانية|التانية;
O3=الثالث;F3=الثالثة|التالتة;O4=الرابع;F4=الرابعة;O5=الخامس;F5=الخامسة;O6=السادس;F6=السادسة;O7=السابع;
F7=السابعة;O8=الثامن;F8=الثامنة|التامنة;O9=التاسع;F9=التاسعة;O10=العاشر;F10=العاشرة;O11=الحادي عشر;
F11=الحادية عشرة;O12=الثاني عشر;F12=الثانية عشرة;O13=الثالث عشر;O14=الرابع عشر;O15=الخامس عشر;
O16=السادس عشر;O17=السابع عشر;O18=الثامن عشر;O19=التاسع عشر;O20=العشرين|العشرون;O30=الثلاثين|الثلاثون;
Ui=دقيقة|دقائق|دقايق;Uh=ساعة|ساعات;Ud=يوم|أيام|يوما;Uw=أسبوع|أسابيع|الأسبوع|أسبوعا;Um=شهر|شهور|أشهر|
الشهر|شهرا;Uy=سنة|سنوات|سنين|السنة|عام|العام|أعوام;C2 Ui=دقيقتين;C2 Uh=ساعتين;C2 Ud=يومين;C2 Uw=أسبوعين;
C2 Um=شهرين;C2 Uy=سنتين|عامين;Uk=نهاية الأسبوع|الويكند|الويك إند|عطلة نهاية الأسبوع;PA=ص;PP=م;Pm=صباحا|
الصبح|الصباح|في الصباح|الصبحية|صباح;Pl=فجرا|الفجر;Pd=ظهرا|الظهر|الضهر|بعد الظهر|بعد الضهر|وقت الظهر;
Pa=عصرا|العصر;Pe=مساء|المساء|المسا|في المساء;qe=المغرب|العشا;Pn=ليلا|الليل|بالليل|في الليل;
T0=منتصف الليل|نص الليل|نصف الليل;T12=منتصف النهار|نص النهار;soon=القادم|القادمة|المقبل|المقبلة|الجاي|
الجاية|الجي|جاي|جاية|اللي جاي|اللي جاية|التالي;soon2=بعد القادم|بعد القادمة|بعد المقبل|بعد الجاي|
بعد الجاية;this=هذا|هذه|هاد|هادا|ده|دي|هذي|الحالي;last=الماضي|الماضية|الفائت|اللي فات|اللي فاتت;in=بعد|
كمان|خلال;hace=قبل|منذ;from=من;till=حتى|لحد|لغاية;to=إلى|الى|لـ;between=بين;half=نصف|نص|النصف|النص;
quarter=ربع|الربع;third=ثلث|الثلث|تلت|التلت;minus=إلا|الا;end=نهاية|آخر|أواخر;start=بداية|أول|مطلع|
أوائل;lastday=آخر يوم;@=الساعة|الساعه;on=في|عند|على;ok=لو سمحت|من فضلك|او|مع;x=صباح الخير|مساء الخير|
صباح النور|مساء النور;H1-1=رأس السنة;x=ذلك اليوم|نفس اليوم|هذاك اليوم;now=الآن|دلوقتي|هلأ;and=و"""
LEXICONS = {"en": _ENGLISH, "es": _SPANISH, "ar": _ARABIC}
# Words that would be read as a number or a connective in a message of another language.
_NATIVE_ONLY = frozenset("once en de a un al la las el los y fin final media".split())

_Phrases = dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]]


_FINAL_HAMZA = re.compile("ء[\u064b-\u0652\u0670]*$")


@lru_cache(maxsize=20_000)
def folded(token: str) -> str:
    """Return one token normalised, as one word; a hamza at its end stays: «غداء» is lunch, «غدا» tomorrow.

    >>> folded("Mañana"), folded("غدًا"), folded("غداءً")
    ('manana', 'غدا', 'غداء')
    """
    found = normalize(token).replace(" ", "")
    return found + "ء" if _FINAL_HAMZA.search(token) else found


@lru_cache(maxsize=8)
def _phrases(languages: tuple[str, ...]) -> _Phrases:
    """Phrases by first word, longest first; where two languages share a phrase the first one keeps it."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for place, language in enumerate(languages):
        for line in LEXICONS[language].replace("\n", "").split(";"):
            symbols, _, words = line.partition("=")
            for word in filter(None, words.split("|")):
                # Words that end in a hamza are found without it too: many leave it out.
                plain = tuple(normalize(word).split()) or (word,)
                for key in dict.fromkeys((plain, tuple(map(folded, word.split())))):
                    if not (place and (len(key[0]) < 3 or key[0] in _NATIVE_ONLY)):
                        found.setdefault(key, tuple(symbols.split()))
    by_first: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for key in sorted(found, key=len, reverse=True):
        by_first.setdefault(key[0], []).append((key, found[key]))
    return {first: tuple(entries) for first, entries in by_first.items()}


@lru_cache(maxsize=1)
def _telling_words() -> frozenset[str]:
    """One word of every phrase that could make a date or a time: a Latin text without any holds none."""
    return frozenset(
        max(key, key=len)
        for entries in _phrases(("en", "es", "ar")).values()
        for key, symbols in entries
        if symbols[0][0] in "RWwMmTPqUHFOC" or symbols[0] in ("@", "oclock", "half", "quarter")
    ) | {"@"}


_ARABIC_SCRIPT = re.compile("[\u0600-\u06ff]")
_SMALL = {
    "es": "¿ ¡ el la los las de del que para por con en un una mi me y es hay al lo se a su tengo quiero",
    "en": "the a of for to in on at my me and is i what with this that it you please from",
}


@lru_cache(maxsize=2)
def _marks(language: str) -> frozenset[str]:
    shortest = 4 if language == "es" else 3
    words = (word for word in _phrases((language,)) if len(word) >= shortest)
    return frozenset(_SMALL[language].split()).union(words)


def _ordered(text: str, words: Sequence[str], languages: tuple[str, ...]) -> tuple[str, ...]:
    """Languages with the message's own first: Arabic by its script, Spanish by more of its small words."""
    if "ar" in languages and not text.isascii() and _ARABIC_SCRIPT.search(text):
        first = "ar"
    else:
        spanish, english = (len(_marks(name).intersection(words)) for name in ("es", "en"))
        latin = next((name for name in languages if name != "ar"), "ar")
        first = "es" if "es" in languages and spanish > english else latin
    return (first, *(name for name in languages if name != first))


def language_of(
    text: str, languages: Sequence[str] = ("en", "ar", "es"), *, words: Sequence[str] | None = None
) -> str:
    """Return the language of a text among those given: by script, then by its small words.

    ``words`` are those of the text, normalised, where they are at hand.

    >>> language_of("quiero una mesa"), language_of("احجز طاولة"), language_of("a table")
    ('es', 'ar', 'en')
    """
    return _ordered(text, normalize(text).split() if words is None else words, tuple(languages))[0]


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
_SIGNS = {"-": "~", "–": "~", "—": "~", ",": ",", "،": ","}
# Without one of these no rule can match, and most messages end here.
_ANCHOR = re.compile(
    r"(?:^| )(?:[RWwMmYTPqUHF]|@ |h |[:/] D|O\d+ |(?:at|by|till|past|las|half|quarter) (?:las )?[DC]|oclock |"
    r"(?:half|quarter|minus|the D\d+) |C(?:5|10|20|25) to )"
)
_Symbol = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Line:
    """A text as symbols: one string, each symbol followed by a space, with offsets both ways."""

    text: str
    language: str
    symbols: tuple[str, ...]
    bounds: tuple[tuple[int, int], ...]
    """Offsets of each symbol in the text."""
    joined: str
    places: Mapping[int, int]
    """Offset in ``joined`` to the index of the symbol there."""


def read_line(text: str, languages: Sequence[str]) -> Line | None:
    """Return the text as symbols, or None where no date or time can be in it.

    >>> read_line("tomorrow at 5 pm", ("en",)).joined
    'R1 at D5 PP '
    >>> read_line("play some music", ("en",)) is None
    True
    """
    tokens = [(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text) if m.group() not in "'’"]
    words = [token if token in "@¿¡" else folded(token) for token, _, _ in tokens]
    latin = text.isascii() or not _ARABIC_SCRIPT.search(text)
    if latin and _telling_words().isdisjoint(words) and not any(word[:1].isdecimal() for word in words):
        return None
    order = _ordered(text, words, tuple(languages))
    phrases = _phrases(order)
    found: list[_Symbol] = []
    i, n = 0, len(tokens)
    while i < n:
        token, start, end = tokens[i]
        behind = tokens[i + 1][0] if i + 1 < n and tokens[i + 1][1] == end else ""
        before = tokens[i - 1][0] if i and tokens[i - 1][2] == start else ""
        if token[0].isdecimal():
            symbol = _digits(token)
            if behind in _MONEY or before in _MONEY:
                symbol = "x"
            elif behind.lower() in _SUFFIXES and symbol[0] == "D":
                symbol, end, i = "O" + symbol[1:], tokens[i + 1][2], i + 1
            found.append((symbol, start, end))
        elif words[i] and (token[0].isalpha() or token == "@"):
            size = _looked_up(phrases, words, tokens, i, found)
            if size:
                i += size
                continue
            noun = (token[0].isupper() and order[0] == "en" and i > 0) or words[i] == "people"
            noun = noun or (len(token) > 3 and token[-1] in "sS")
            glued = words[i] in ("h", "t") and before
            found.append(("h" if glued else "xs" if noun else "x", start, end))
        elif not (token == "." and found and found[-1][0][0] in "mMw" and found[-1][2] == start):
            # The point of an abbreviated month ("Oct. 16") is left out.
            inside = before[:1].isdecimal() and behind[:1].isdecimal() and token in ":/.-"
            found.append((token if inside else _SIGNS.get(token, "|"), start, end))
        i += 1
    found = _composed(found, order[0])
    joined = "".join(symbol + " " for symbol, _, _ in found)
    if not _ANCHOR.search(joined):
        return None
    places: dict[int, int] = {}
    position = 0
    for index, (symbol, _, _) in enumerate(found):
        places[position] = index
        position += len(symbol) + 1
    places[position] = len(found)
    symbols, bounds = tuple(f[0] for f in found), tuple((f[1], f[2]) for f in found)
    return Line(text, order[0], symbols, bounds, joined, places)


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
    tokens: list[_Symbol],
    i: int,
    found: list[_Symbol],
) -> int:
    """Append the symbols of the longest phrase that begins here; return how many tokens it takes."""
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


def _composed(found: list[_Symbol], language: str) -> list[_Symbol]:
    """Join "twenty five", "twenty-first" and «خمسة وعشرين» into one number."""
    done: list[_Symbol] = []
    for item in found:
        symbol, _, end = item
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
