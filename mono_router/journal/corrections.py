"""Corrections: phrases that say the last answer was not what was meant, in three languages.

A message goes in, a verdict comes out. The phrases open a message, since "I meant" inside one is talk;
what a message may also open with by itself ("I wanted ...") counts only after a word such as "no" or
"sorry", and what may begin a request ("try again") only where it is the whole message. Phrases are
compared as :func:`mono_router.text.normalize` writes them.
"""

from __future__ import annotations

from mono_router.text import normalize

_FILLERS = frozenset(
    normalize(
        "no nope nah oh oops sorry wait ok hmm actually um uh hey well but "
        "perdón espera oye ay pero bueno لا كلا عفوا آسف معلش مش مو يا طيب بس"
    ).split()
)
_OPENS = tuple(
    normalize(phrase)
    for phrase in (
        "that's not what, that is not what, that isn't what, that wasn't what, not what I, this is not what, "
        "this isn't what, it's not what, that's wrong, that is wrong, that was wrong, that's not right, "
        "that is not right, that isn't right, that's not it, that is not it, that's not the, "
        "that is incorrect, "
        "that's incorrect, wrong answer, wrong tool, wrong one, you misunderstood, you got me wrong, "
        "you got it wrong, you got that wrong, you didn't understand, you did not understand, I meant, "
        "eso no es, eso no era, no era eso, no es eso, eso no, no es lo que, no era lo que, no me refería, "
        "me refería, no quise decir, quise decir, quería decir, te equivocas, te has equivocado, "
        "te equivocaste, "
        "me has entendido mal, me entendiste mal, no me has entendido, no me entendiste, "
        "ليس هذا, هذا ليس, مش هذا, مو هذا, مش ده, مش كده, هذا خطأ, هذا غلط, لم أقصد, ما قصدت, "
        "كنت أقصد, أقصد, "
        "قصدي, كان قصدي, لم أطلب هذا, ما طلبت هذا, فهمتني غلط, لم تفهمني, ما فهمتني, ليس ما أردت, ليس ما طلبت"
    ).split(",")
)
_AFTER_FILLER = tuple(
    normalize(phrase)
    for phrase in (
        "I mean, I said, I wanted, I was asking, I asked, not that, that's not, that is not, "
        "that isn't, wrong, "
        "quería, quiero decir, te pedí, dije, te pregunté, eso no, "
        "كنت أريد, أنا أريد, طلبت, قلت, أنا قلت, ليس"
    ).split(",")
)
_WHOLE = frozenset(
    normalize(phrase)
    for phrase in (
        "no, nope, wrong, incorrect, not that, not that one, no not that, try again, wrong again, not this, "
        "incorrecto, mal, otra vez no, inténtalo de nuevo, así no, لا, كلا, غلط, خطأ, "
        "حاول مرة أخرى, لا مش كده"
    ).split(",")
)


def is_correction(message: str) -> bool:
    """Return whether a message opens by saying that the last answer was wrong.

    >>> [is_correction(m) for m in ("no, I meant the other one", "لا، أقصد الموعد", "no, quería cancelar")]
    [True, True, True]
    >>> [is_correction(m) for m in ("no smoking room please", "is there no bus today?", "I want a refund")]
    [False, False, False]
    """
    found = normalize(message).split()
    rest = found
    while rest and rest[0] in _FILLERS:
        rest = rest[1:]
    whole, tail = " ".join(found), " ".join(rest)
    if whole in _WHOLE or (found and not rest):
        return bool(found)
    if _begins(whole, _OPENS) or _begins(tail, _OPENS):
        return True
    return len(rest) < len(found) and (_begins(tail, _AFTER_FILLER) or tail in _WHOLE)


def _begins(text: str, phrases: tuple[str, ...]) -> bool:
    return any(text == phrase or text.startswith(phrase + " ") for phrase in phrases)
