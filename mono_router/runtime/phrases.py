"""What the runtime understands and says by itself, in English, Spanish and Arabic; no model takes part.

Understood are whole messages alone ("cancel", «إلغاء», "la segunda"): a message that says more is routed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mono_router.records import Tool
from mono_router.text import STOP_WORDS, guess_language, identifier_words, normalize, words
from mono_router.value_words import FRAMES


def _phrases(text: str) -> frozenset[str]:
    parts = (part.strip() for line in text.splitlines() for part in line.split("|"))
    return frozenset(normalize(part) for part in parts if part)


CANCEL = _phrases(
    """
    cancel | cancel it | cancel that | cancel this | cancel the request | never mind | nevermind
    forget it | forget that | forget about it | stop | stop it | drop it | drop that | leave it | abort
    scrap that | don't do it | do not do it | don't | cancela | cancelar | cancélalo | cancélala
    cancela eso | cancela esto | déjalo | déjala | déjalo estar | olvídalo | olvídala | da igual | ya no
    no importa | anula | anúlalo | anular | para | no lo hagas | mejor no | إلغاء | الغاء | ألغ | الغ
    ألغه | ألغها | الغي | الغيه | الغيها | ألغ الأمر | إلغاء الأمر | الغ الطلب | انس | انسى | انس الأمر
    انسى الموضوع | انسَ ذلك | لا تهتم | لا داعي | خلاص | خلص | اتركه | اتركها | اترك الأمر | كنسل | بطلت
    لا تفعل | توقف
    """
)
DECLINE = _phrases(
    """
    no | nope | nah | no thanks | no thank you | not now | no way | no gracias | ahora no | لا | لا شكرا
    ليس الآن | مش الآن | كلا
    """
)
AGREE = _phrases(
    """
    yes | yeah | yep | yup | y | ok | okay | k | sure | confirm | confirmed | i confirm | go ahead
    do it | please do | yes please | right | correct | of course | absolutely | send it | yes do it
    yes go ahead | sounds good | fine | all right | alright | sí | si | sí por favor | claro | vale
    de acuerdo | adelante | confirmo | confirma | confirmar | hazlo | correcto | bueno | sí hazlo
    perfecto | نعم | اي | أجل | ايوه | ايوا | أيوة | تمام | موافق | موافقة | أكد | اكد | أؤكد | تأكيد
    أكيد | اوكي | أوك | ماشي | حسنا | طيب | صح | صحيح | نعم من فضلك | افعل
    """
)
SMALL_TALK = _phrases(
    """
    hi | hello | hey | hi there | hello there | good morning | good afternoon | good evening
    good night | thanks | thank you | thanks a lot | thank you very much | many thanks | cheers | bye
    goodbye | see you | how are you | how are you doing | how's it going | great | cool | nice | hola
    buenas | buenos días | buenas tardes | buenas noches | gracias | muchas gracias | adiós
    hasta luego | qué tal | cómo estás | genial | مرحبا | أهلا | اهلا وسهلا | السلام عليكم | صباح الخير
    مساء الخير | شكرا | شكرا لك | شكرا جزيلا | مع السلامة | كيف حالك | كيف الحال | ممتاز
    """
)
_POLITE_FIRST = r"please|ok|okay|oh|well|actually|no|vale|bueno|por favor|pues|ay|من فضلك|لو سمحت|طيب|حسنا|لا"
_POLITE_LAST = r"please|thanks|thank you|then|por favor|gracias|entonces|mejor|من فضلك|لو سمحت|شكرا"
_POLITE = re.compile(rf"^(?:(?:{_POLITE_FIRST})\s+)+|(?:\s+(?:{_POLITE_LAST}))+$")
_ORDINALS: Mapping[str, int] = {
    normalize(word): i
    for i, said in enumerate(
        (
            "first 1st one uno una primero primera primer الأول الأولى أول أولى الاول الاولى واحد واحدة",
            "second 2nd two dos segundo segunda الثاني الثانية ثاني ثانية التاني التانية اثنان اثنين",
            "third 3rd three tres tercero tercera tercer الثالث الثالثة ثالث ثالثة التالت التالتة ثلاثة",
            "fourth 4th four cuatro cuarto cuarta الرابع الرابعة رابع أربعة",
            "fifth 5th five cinco quinto quinta الخامس الخامسة خامس خمسة",
            "sixth 6th six seis sexto sexta السادس السادسة سادس ستة",
        )
    )
    for word in said.split()
}
_LAST = frozenset(normalize(w) for w in "last último última ultimo ultima الأخير الأخيرة الاخير".split())
_FILLERS = frozenset(
    normalize(w)
    for w in "the number option choice no n la el lo opción número num رقم الخيار خيار the please that this "
    "por favor مع ال من فضلك i mean want take quiero prefiero اريد أريد اختار أختار".split()
)


def plain_words(message: str) -> str:
    """Return a message normalised and without what is said for politeness alone.

    >>> plain_words("No, cancel it, please!")
    'cancel it'
    """
    text = normalize(message[:200])
    if text in CANCEL | DECLINE | AGREE | SMALL_TALK:
        return text
    return _POLITE.sub("", text)


def is_cancel(message: str) -> bool:
    """Return whether a whole message only drops what waits.

    >>> [is_cancel(m) for m in ("never mind", "Déjalo.", "إلغاء", "cancel my appointment")]
    [True, True, True, False]
    """
    return plain_words(message) in CANCEL


def is_agreement(message: str) -> bool:
    """Return whether a whole message only agrees: it confirms nothing by itself.

    >>> [is_agreement(m) for m in ("Yes!", "sí, por favor", "نعم", "yes, at five")]
    [True, True, True, False]
    """
    return plain_words(message) in AGREE


def is_refusal(message: str) -> bool:
    """Return whether a whole message only says no."""
    return plain_words(message) in DECLINE


def is_small_talk(message: str) -> bool:
    """Return whether a whole message is a greeting or thanks, which answers no question."""
    return plain_words(message) in SMALL_TALK


def chosen_option(message: str, options: Sequence[Tool]) -> Tool | None:
    """Return the one of several tools that a message numbers or names, or None.

    >>> pair = (Tool(id="a", title="Show appointments"), Tool(id="b", title="Cancel an appointment"))
    >>> [chosen_option(m, pair).id for m in ("2", "٢", "the second one", "الثاني", "la segunda", "cancel it")]
    ['b', 'b', 'b', 'b', 'b', 'b']
    >>> chosen_option("what is the weather?", pair) is None
    True
    """
    said = [word for word in normalize(message[:300]).split() if word not in _FILLERS]
    if len(said) == 2 and said[1] in ("one", "una", "uno", "واحد"):
        said = said[:1]
    if len(said) == 1:
        place = int(said[0]) - 1 if said[0].isdecimal() else _ORDINALS.get(said[0])
        place = len(options) - 1 if said[0] in _LAST else place
        if place is not None:
            return options[place] if 0 <= place < len(options) else None
    whole = normalize(message[:300])
    for tool in options:
        if whole in (normalize(tool.title), normalize(tool.id), *(normalize(hint) for hint in tool.hints)):
            return tool
    wanted = {word for word in words(message[:300]) if word not in _SMALL}
    if not wanted or len(wanted) > 6:
        return None
    texts = [
        set(words(" ".join((identifier_words(tool.id), tool.title, *tool.hints, *tool.keywords))))
        for tool in options
    ]
    counts = [len(wanted & own) for own in texts]
    best = max(counts)
    if best == len(wanted) and counts.count(best) == 1:
        return options[counts.index(best)]
    return None


_SMALL = frozenset(word for stop in STOP_WORDS | _FILLERS for word in words(stop))

_SAID: Mapping[str, tuple[str, str, str]] = {
    "done": ("Done: {title}.", "Hecho: {title}.", "تم: {title}."),
    "done_with": ("Done: {title}{values}.", "Hecho: {title}{values}.", "تم: {title}{values}."),
    "unchanged": (
        "{title}: I found nothing that fits, so nothing was changed.",
        "{title}: no encontré nada que encaje, así que no se cambió nada.",
        "{title}: لم أجد ما يطابق ذلك، فلم يتغير شيء.",
    ),
    "nothing": ("{title}: nothing found.", "{title}: no hay nada.", "{title}: لا يوجد شيء."),
    "missing": (
        "{title}: I still need {names}.",
        "{title}: todavía me falta: {names}.",
        "{title}: ما زلت أحتاج إلى: {names}.",
    ),
    "select": ("Which one do you mean?", "¿Cuál de ellas quieres?", "أيهما تقصد؟"),
    "confirm": (
        "{title}{values}. This changes something: confirm it to run it, or cancel. "
        "An answer in the chat does not confirm.",
        "{title}{values}. Esto cambia algo: confírmalo para ejecutarlo, o cancélalo. "
        "Una respuesta en el chat no confirma.",
        "{title}{values}. هذا يغير شيئا: أكده لتنفيذه أو ألغه. الرد في المحادثة ليس تأكيدا.",
    ),
    "cancelled": ("Cancelled: {title}.", "Cancelado: {title}.", "ألغيت: {title}."),
    "nothing_asked": (
        "Nothing is waiting for an answer. What can I do for you?",
        "No hay nada pendiente de respuesta. ¿En qué puedo ayudarte?",
        "لا يوجد شيء ينتظر جوابا. بماذا أساعدك؟",
    ),
    "nothing_waits": ("There is nothing to cancel.", "No hay nada que cancelar.", "لا يوجد شيء لإلغائه."),
    "back": (
        "Back to {title}: I still need {names}.",
        "Volviendo a {title}: todavía me falta: {names}.",
        "نعود إلى {title}: ما زلت أحتاج إلى: {names}.",
    ),
    "still_confirm": (
        "{title} still waits for its confirmation.",
        "{title} sigue esperando la confirmación.",
        "{title} ما زال ينتظر التأكيد.",
    ),
    "still_select": (
        "Your choice is still open.",
        "Tu elección sigue pendiente.",
        "ما زال اختيارك مفتوحا.",
    ),
    "no_match": (
        "I could not match that to anything I can do.",
        "No he podido relacionarlo con nada de lo que sé hacer.",
        "لم أستطع ربط ذلك بشيء يمكنني فعله.",
    ),
    "no_reasoning": (
        "No reasoning model is set, so this is what was found, without an answer composed from it.",
        "No hay un modelo de razonamiento, así que esto es lo que se encontró, sin una respuesta elaborada.",
        "لا يوجد نموذج للاستدلال، لذلك هذا ما عثر عليه دون إجابة مركبة منه.",
    ),
    "not_run": ("Not run: {names}.", "No se ejecutó: {names}.", "لم ينفذ: {names}."),
    "stopped": (
        "Stopped at the limit of {names}.",
        "Detenido al llegar al límite: {names}.",
        "توقف عند الحد: {names}.",
    ),
    "failed": (
        "{title} did not work ({names}).",
        "{title} no ha funcionado ({names}).",
        "لم ينجح {title} ({names}).",
    ),
    "noted": ("Noted.", "Anotado.", "تم التسجيل."),
}


def language_of(message: str, before: str = "en") -> str:
    """Return the language that a reply takes: that of the message, where it has words.

    >>> language_of("احجز موعدا"), language_of("5", "es")
    ('ar', 'es')
    """
    if not any(char.isalpha() for char in message):
        return before
    said = normalize(message[:500]).split()
    arabic = sum(guess_language(word) == "ar" for word in said)
    if 2 * arabic >= len(said) and arabic:
        return "ar"
    english = sum(word in _ENGLISH for word in said)
    spanish = sum(word in _SPANISH for word in said) + 2 * bool(_SPANISH_MARKS.search(message[:500]))
    if english == spanish:
        # A plain word ("Maria") says nothing about the language, nor does what both languages share.
        return "en" if before == "ar" and len(said) > 2 else before
    return "es" if spanish > english else "en"


_TOLD = {
    language: frozenset(word for said in FRAMES[language] for word in said if len(word) > 1)
    for language in ("en", "es")
}
_ENGLISH = (_TOLD["en"] | {"hello", "hi", "thanks", "cancel", "show", "book", "tell"}) - _TOLD["es"]
_SPANISH = (
    _TOLD["es"]
    | frozenset(
        normalize("buenas buenos buen tardes noches adiós hasta claro adelante anula dime pon").split()
    )
) - _TOLD["en"]
"""Small words that one of the two languages has alone."""
_OPEN_ENDS = frozenset(
    word for language in ("es", "ar") for part in FRAMES[language] for word in part if word not in _TOLD["en"]
)
_SPANISH_MARKS = re.compile(r"[¿¡ñ]|\b[a-z]*[áéíóú][a-záéíóú]*\b")


def say(key: str, language: str, *, title: str = "", names: str = "", values: str = "") -> str:
    """Return one of the runtime's own sentences.

    >>> say("cancelled", "es", title="Enviar un mensaje")
    'Cancelado: Enviar un mensaje.'
    """
    texts = _SAID[key]
    text = texts[{"es": 1, "ar": 2}.get(language, 0)]
    return text.format(title=title, names=names, values=values)


def tool_title(tool: Tool, language: str = "en") -> str:
    """Return how a tool is named to a user: its title, or what users call it in another language.

    >>> tool = Tool(id="t", title="Send a message", hints=("text someone", "manda un mensaje"))
    >>> tool_title(tool), tool_title(tool, "es")
    ('Send a message', '«manda un mensaje»')
    """
    title = tool.title or identifier_words(tool.id)
    if language not in ("es", "ar") or language_of(title) == language:
        return title
    named = next((hint for hint in tool.hints if language_of(hint) == language), None)
    if named is None:
        return title
    said = named.split()
    while len(said) > 1 and normalize(said[-1]) in _OPEN_ENDS:
        del said[-1]  # "manda un mensaje a"
    return f"«{' '.join(said)}»"


# Argument names as people say them; others are shown as the schema has them.
_NAMES: Mapping[str, tuple[str, str]] = {
    "text": ("texto", "النص"), "message": ("mensaje", "نص الرسالة"), "title": ("título", "العنوان"),
    "name": ("nombre", "الاسم"), "to": ("destinatario", "المستلم"), "person": ("persona", "الشخص"),
    "date": ("fecha", "التاريخ"), "due date": ("fecha límite", "تاريخ الاستحقاق"),
    "new date": ("nueva fecha", "التاريخ الجديد"), "start date": ("primer día", "أول يوم"),
    "time": ("hora", "الوقت"), "start": ("hora", "وقت البداية"), "new time": ("nueva hora", "الوقت الجديد"),
    "amount": ("cantidad", "المبلغ"), "quantity": ("cantidad", "الكمية"), "item": ("artículo", "الصنف"),
    "minutes": ("minutos", "عدد الدقائق"), "hours": ("horas", "عدد الساعات"),
    "service": ("servicio", "الخدمة"), "rating": ("puntuación", "التقييم"), "topic": ("tema", "الموضوع"),
    "email": ("correo", "البريد الإلكتروني"), "phone": ("teléfono", "رقم الهاتف"),
    "category": ("categoría", "الفئة"), "currency": ("moneda", "العملة"), "city": ("ciudad", "المدينة"),
    "place": ("lugar", "المكان"), "destination": ("destino", "الوجهة"), "event": ("evento", "الحدث"),
    "note": ("nota", "الملاحظة"), "query": ("búsqueda", "عبارة البحث"), "channel": ("canal", "الوسيلة"),
    "target language": ("idioma", "اللغة"), "activity": ("actividad", "النشاط"),
    "file": ("archivo", "الملف"), "state": ("estado", "الحالة"), "staff": ("profesional", "الموظف"),
    "location": ("lugar", "المكان"), "reason": ("motivo", "السبب"), "room": ("habitación", "الغرفة"),
    "recipient": ("destinatario", "المستلم"),
    "duration minutes": ("duración en minutos", "المدة بالدقائق"), "party size": ("personas", "عدد الأشخاص"),
    "priority": ("prioridad", "الأولوية"), "recipient name": ("para quién", "اسم المستلم"),
    "hours before": ("horas antes", "قبل كم ساعة"), "label": ("etiqueta", "الوصف"),
}  # fmt: skip


def argument_name(tool: Tool, name: str, language: str = "en") -> str:
    """Return how an argument is named to a user.

    >>> argument_name(Tool(id="t"), "due_date"), argument_name(Tool(id="t"), "due_date", "es")
    ('due date', 'fecha límite')
    """
    own = tool.properties.get(name, {})
    own = own if isinstance(own, Mapping) else {}
    text = str(own.get("title") or identifier_words(name).lower() or name)
    known = _NAMES.get(text)
    return text if known is None or language not in ("es", "ar") else known[language == "ar"]


def argument_names(tool: Tool, names: Sequence[str], language: str = "en") -> str:
    """Return arguments as they are asked for: title or name, and the options or what it is.

    >>> properties = {"start_date": {"description": "first day; no time"}}
    >>> tool = Tool(id="t", input_schema={"properties": properties})
    >>> argument_names(tool, ["start_date"]), argument_names(tool, ["start_date"], "es")
    ('start date (first day)', 'primer día')
    """
    shown = []
    for name in names:
        own = tool.properties.get(name, {})
        own = own if isinstance(own, Mapping) else {}
        text = argument_name(tool, name, language)
        options = [_option(own, option, language) for option in own.get("enum", ()) if option is not None]
        # What stands behind a semicolon tells how to read a value, which is no question to a user.
        what = str(own.get("description", "")).partition(";")[0] if text == argument_name(tool, name) else ""
        what = ", ".join(options) if 0 < len(options) <= 10 else what
        shown.append(f"{text} ({what})" if 0 < len(what) <= 100 and what.lower() != text else text)
    return ("، " if language == "ar" else ", ").join(shown)


def _option(schema: Mapping[str, Any], option: Any, language: str) -> str:
    """A value of an enum as the user's language has it, where the schema's synonyms say."""
    synonyms = schema.get("x-synonyms")
    said = synonyms.get(str(option), ()) if isinstance(synonyms, Mapping) else ()
    said = [word for word in ((said,) if isinstance(said, str) else said) if isinstance(word, str)]
    if language == "ar":
        return next((word for word in said if guess_language(word) == "ar"), str(option))
    return identifier_words(str(option)).lower() or str(option)
