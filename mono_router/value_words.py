"""Words that frame what a message carries: function words, request verbs, negations, numbers and units.

Tables alone, in English, Spanish and Arabic, beside the two forms in which words are compared: normalised,
and as stems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from mono_router.text import normalize, strip_clitics


def exact_set(text: str) -> frozenset[str]:
    """Return the words of a text as they are."""
    return frozenset(text.split())


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, each normalised.

    >>> sorted(word_set("Año day"))
    ['ano', 'day']
    """
    return frozenset(normalize(word) for word in text.split())


# The stems of the search stages cut derivations too, which makes "artist" out of "art".
_INFLECTION = re.compile(r"(?<=\w{4})(?:ing|ed|ando|iendo|ar|ir|(?<=\w{5})er)$|(?<=\w{5})[ao]$")


@lru_cache(maxsize=50_000)
def word_stem(word: str) -> str:
    """Return one word normalised and without its inflection or its Arabic clitics, never a derivation.

    >>> word_stem("Bookings"), word_stem("artist"), word_stem("والموعد")
    ('book', 'artist', 'موعد')
    """
    stem = normalize(word).replace(" ", "")
    if not stem.isascii():
        return strip_clitics(stem)
    if len(stem) < 4 or stem.isdigit():
        return stem
    if stem.endswith("s") and not stem.endswith(("ss", "us", "is")):
        stem = stem[:-3] + "y" if stem.endswith("ies") and len(stem) > 5 else stem[:-1]
        stem = stem[:-1] if stem.endswith(("sse", "xe", "che", "she")) else stem
    cut = _INFLECTION.sub("", stem)
    doubled = cut != stem and stem[-1] not in "ao" and cut[-1] == cut[-2] and cut[-1] not in "aeios"
    return cut[:-1] if doubled else cut


def stem_set(text: str) -> frozenset[str]:
    """Return the stems of the words of a text."""
    return frozenset(word_stem(word) for word in text.split())


_WORD = re.compile(r"[^\W_]+(?:[\u064b-\u065f]+[^\W_]*)*")


def stems(text: str) -> tuple[str, ...]:
    """Return the stems of a text in order.

    >>> stems("two one-stop flights")
    ('two', 'one', 'stop', 'flight')
    """
    return tuple(filter(None, (word_stem(word) for word in _WORD.findall(text))))


# Prepositions, articles and further function words by language; a value begins or ends at them.
FRAMES: Mapping[str, tuple[frozenset[str], frozenset[str], frozenset[str]]] = {
    "en": (
        word_set(
            "in at near from to with for by on onto into of about around through via towards between "
            "under over within against per"
        ),
        word_set("the a an my our your his her their its this that these those some any"),
        word_set(
            "saying telling called named titled i me we us you he she it they them is are was were be "
            "been am do does did can could would should will shall may might please and or but if "
            "then so as not no yes what which who whom whose when where why how there here have has "
            "had want wants need needs like let lets just also too very up out off thanks thank hi "
            "hello hey okay ok alexa olly google siri im ive id ill youre its thats dont didnt cant "
            "wont isnt whats whos wheres hows theres couldnt doesnt were got looking going because "
            "than more pls one go see do watch eat buy visit now great sounds alright all fine nice "
            "sure perfect good cool awesome right well something somewhere anything"
        ),
    ),
    "es": (
        word_set("en a al de del desde hacia con para por sobre cerca entre hasta contra según"),
        word_set("el la los las un una unos unas mi mis tu tus su sus este esta estos estas ese esa"),
        word_set(
            "diciendo llamado llamada que qué quien cual cuál cuando cuándo donde dónde como cómo y o "
            "e u pero si no sí es son era está están ser hay he ha me te se lo le les nos yo él ella "
            "por favor gracias hola quiero quisiera necesito puedes podrías puede puedo muy más oye "
            "vale tengo voy porque bueno perfecto genial listo anda mejor algo ok alexa olly google "
            "siri"
        ),
    ),
    "ar": (
        word_set("في من إلى الى على مع عن عند ب ل لـ حتى بين قرب عشان"),
        word_set("هذا هذه هاي ال ده دي"),
        word_set(
            "لازم لماذا ليش لكن لدي لديك هل ما ماذا متى اين أين كيف كم هو هي انا أنا انت نحن هم و او "
            "أو ثم لا نعم لو سمحت فضلك رجاء ممكن اريد أريد ابغى أبي أنني أني انني اني أنه انه بأن "
            "بأنني ذلك خلاص عايز عاوز عايزة بدي يا لي لك ان أن إن التي الذي اللي هناك هنا كان يكون قد "
            "جدا ايضا وش شو ايش ايه فين alexa olly google siri"
        ),
    ),
}
_PREPOSITIONS = frozenset(word for preps, _, _ in FRAMES.values() for word in preps)
_STOPS = frozenset(word for _, articles, stops in FRAMES.values() for word in articles | stops)
STOP_STEMS = frozenset(word_stem(word) for word in _STOPS | _PREPOSITIONS)
"""Stems of the function words of all languages."""
_VERBS = word_set(
    "add put set get find search show give tell look book reserve make play open close start stop "
    "take make bring meet pick attend finish create schedule send write remind call text order buy "
    "rate check list change move cancel delete remove update turn switch calculate compute convert "
    "translate help provide determine retrieve fetch identify locate plan know see search save añade "
    "pon busca muestra dime dame reserva haz crea envía manda escribe recuérdame llama pide compra "
    "cambia mueve mandar enviar escribir buscar poner reservar crear llamar pedir comprar cambiar "
    "mover cancelar borrar guardar añadir apuntar anotar recordar avisar bloquea anota avisa recuerda "
    "cancela borra quita apaga enciende enseña enséñame ponme agrega apunta guarda reproduce abre "
    "avísame أضف ضع ابحث اعرض اظهر أخبرني قل أرسل ابعث اكتب ذكرني فكرني اتصل اطلب اشتر غير انقل الغ "
    "ألغ احذف شغل افتح اغلق احجز حط ابعت ضيف سجل هات اعطني خلي organize organise transfer arrange "
    "organiza prepara programa agenda transfiere planifica compara traduce archiva paga registra convierte "
    "crear enviar أنشئ أنشئي اعمل اعملي رتب رتبي رتبوا نظم حول حولي ادفع ترجم احفظ ضعي ضعني سجلني حطني "
    "أخبر أرني قارن قارني شارك انقلي ألغي أضيفي ابعثي أرسلي احجزي اكتبي ذكريني أيقظني صحني اضبط أضبط "
    "أرشف خطط حدد أكتب أحجز أضيف أشتري إرسال إصدار إنشاء إضافة كتابة شراء"
)
VERB_STEMS = frozenset(word_stem(word) for word in _VERBS)
PRONOUNS = word_set(
    "me him her it us them myself himself herself itself themselves mí ti él ella ello ellos ellas nosotros "
    "لي لك له لها لنا لهم لهن لكم إلي إليك إليه إليها إلينا إليهم معي معك معه معها معنا معهم عليه عليها "
    "منه منها عنه عنها به بها"
)
"""Words that stand for somebody or something said before: by themselves they are no text and no name."""
NEGATIONS = word_set(
    "no not without never dont doesnt didnt cant wont isnt shouldnt shouldn't don't avoid exclude "
    "skip sin ningún بدون لا مش غير بلا"
)
SCALES = {
    "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "dozen": 12, "k": 1000,
    "cien": 100, "ciento": 100, "doscientos": 200, "quinientos": 500, "mil": 1000,
    "millon": 10**6, "millones": 10**6,
    "ميه": 100, "مايه": 100, "ميتين": 200, "مايتين": 200, "الف": 1000, "الاف": 1000, "مليون": 10**6,
}  # fmt: skip
CURRENCIES = stem_set(
    "euro euros dollar dollars usd eur gbp pound bucks peso pesos dólar dólares libra دولار يورو ريال "
    "جنيه درهم دينار"
)
TENS = {
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "sesenta": 60, "setenta": 70, "ochenta": 80,
    "noventa": 90, "ستين": 60, "سبعين": 70, "ثمانين": 80, "تمانين": 80, "تسعين": 90,
    "zero": 0, "cero": 0, "صفر": 0,
}  # fmt: skip
_MINUTES = {
    "second": 1 / 60, "sec": 1 / 60, "minute": 1, "min": 1, "hour": 60, "hr": 60, "day": 1440, "week": 10080,
    "segundo": 1 / 60, "minuto": 1, "hora": 60, "dia": 1440, "semana": 10080, "ثانيه": 1 / 60, "دقيقه": 1,
    "دقايق": 1, "ساعه": 60, "ساعات": 60, "يوم": 1440, "ايام": 1440, "اسبوع": 10080,
}  # fmt: skip
UNITS = {word_stem(word): minutes for word, minutes in _MINUTES.items()}
"""Minutes of a unit of time, by its stem."""
