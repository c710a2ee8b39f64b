"""Redaction: what may be a secret is taken out of a text before it becomes part of a row.

Text and arguments go in; the same come out with secrets replaced by ``[password]``, ``[key]``,
``[card]``, ``[address]`` or ``[secret]``. Patterns find secrets by their form, argument names by
:func:`mono_router.schema.is_sensitive`; a value that a sensitive name gave away is replaced wherever else
it stands in the row. A secret lost is worse than a word lost: whole addresses go, since their host, path
and query may each be one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mono_router.schema import is_sensitive
from mono_router.text import clean

MAX_TEXT = 4_000
"""Characters of one text field; the rest is cut and marked with an ellipsis."""
MIN_SECRET = 4
"""A sensitive value shorter than this is not looked for in other texts: it would match anywhere."""

MIN_FRAGMENT = 3
"""Characters from which a part of a secret counts as one."""

_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'،؛]+|\bwww\.[^\s<>\"'،؛]+"
    r"|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?:/[^\s<>\"']*)?(?![\w.])"
    r"|(?<![\w.-])(?:localhost|[\w-]++(?:\.[\w-]++)++):\d{2,5}(?:/[^\s<>\"']*)?",
    re.IGNORECASE,
)
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL)
_KEY = re.compile(
    r"\b(?:sk|pk|rk|key|api|tok|pat|ghp|gho|ghs|ghu|glpat|xox[abeprs]|hf|npm|pypi|dop_v1|shpat|whsec|live|test)"
    r"[-_][A-Za-z0-9_\-]{12,}"
    r"|\bgithub_pat_\w{20,}|\bA(?:KIA|SIA|ROA|IDA)[A-Z0-9]{12,}|\bAIza[\w-]{20,}"
    r"|\beyJ[\w-]{8,}(?:\.[\w-]+){0,2}"
)
_BEARER = re.compile(r"\b(bearer|basic|token|apikey|api-key)\s+([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_LONG = re.compile(r"(?<![\w/+=-])[A-Za-z0-9_/+=-]{20,}(?![\w/+=-])")
_WORD = re.compile(r"[^\s,;:()\"']+")
_DIGITS = re.compile(r"(?<!\d)\d(?:[ .\-–/]?\d){11,22}(?!\d)")
# What follows such a word, with or without "is", is a secret: in English, Spanish and Arabic.
_NAMES = (
    r"pass(?:word|code|phrase|wd)?s?|pwd|pin(?:\s*(?:code|number))?|otp|cvv2?|cvc|secret(?:\s*(?:key|word|code))?"
    r"|(?:api|access|private|secret|auth|client|session|security|verification)[\s_-]*(?:key|token|code|secret)"
    r"|credentials?|token|bearer|authorization|set-cookie|cookie|ssn"
    r"|contrase[nñ]as?|clave(?:\s+(?:secreta|de\s+acceso))?|c[oó]digo\s+(?:secreto|de\s+(?:seguridad|verificaci[oó]n))"
    r"|palabra\s+secreta"
    r"|(?:كلم[ةه]|كلمات)\s+(?:ال)?(?:سر|مرور)[يهـ]*|(?:ال)?باسوو?رد|(?:ال)?رقم\s+(?:ال)?سري|الرمز\s+السري"
    r"|رمز\s+(?:ال)?(?:دخول|تحقق|مرور|أمان|امان)|كود\s+(?:ال)?(?:تحقق|تفعيل|أمان|امان)|مفتاح\s+(?:ال)?(?:واجهة|سري|api)"
)
_LINK = (
    r"(?:\s*(?:is\s+now|is|was|are|equals|to|será|sera|es\s+ahora|es|era|son|ahora|هي|هو|هوه|بتاعي|بتاعتي|الخاصة\s+بي"
    r"|الخاص\s+بي|تكون|يكون)(?![\w])|\s*[:=،,→]+)*"
)
_VALUE = r"\"[^\"\n]+\"|'[^'\n]+'|«[^»\n]+»|“[^”\n]+”|\d(?:[ -]?\d)+(?!\w)|[^\s\"'»”,;،؛]+"
_TOLD = re.compile(rf"(?<!\w)(?:{_NAMES})(?P<link>{_LINK})\s*(?P<value>{_VALUE})", re.IGNORECASE)
_ORDINARY = frozenset(
    # Words that come after "password" without being one; told apart by being words, without a link.
    "reset change changed forgot forgotten please for and or of to in on at my the a an by with manager "
    "recovery policy protected is was de del para y o la el mi que por con olvidada من في على و او أو الى "
    "إلى القديمة الجديدة الجديده".split()
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without what may be a secret, without NUL and lone surrogates.

    Parameters
    ----------
    text
        Any text.
    secrets
        Further values that are known to be secret.

    >>> redact("my password is hunter2, card 4111 1111 1111 1111")
    'my password is [password], card [card]'
    >>> redact("reset my password please"), redact("كلمة السر هي ياسمين٧٧")
    ('reset my password please', 'كلمة السر هي [password]')
    """
    return redacted(text, secrets)[0]


def redacted(text: str, secrets: Iterable[str] = ()) -> tuple[str, set[str]]:
    """Return a redacted text and the secrets that were taken out of it.

    >>> redacted("the pin is 4821")
    ('the pin is [password]', {'4821'})
    """
    text = clean(text[: 2 * MAX_TEXT])  # bounded first: patterns run over no more than a row could hold
    found: set[str] = set()

    def taken(mark: str) -> Callable[[re.Match[str]], str]:
        def replace(match: re.Match[str]) -> str:
            found.add(match[0])
            return mark

        return replace

    def token(match: re.Match[str]) -> str:
        if not _is_token(match[match.lastindex or 0]):
            return match[0]
        found.add(match[match.lastindex or 0])
        return f"{match[1]} [key]" if match.lastindex else "[key]"

    def card(match: re.Match[str]) -> str:
        return taken("[card]")(match) if is_card(match[0]) else match[0]

    def told(match: re.Match[str]) -> str:
        start = _secret_start(match)
        if start is None:
            return match[0]
        value = match["value"]
        tail = value[len(value.rstrip(".!?؟")) :]
        found.add(value.rstrip(".!?؟").strip("\"'«»“”"))
        return match[0][:start] + "[password]" + tail

    for secret in sorted({clean(s) for s in secrets}, key=len, reverse=True):
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, "[secret]")
    text = _KEY_BLOCK.sub(taken("[key]"), text)
    text = _ADDRESS.sub(taken("[address]"), text)
    text = _BEARER.sub(token, text)
    text = _KEY.sub(taken("[key]"), text)
    text = _TOLD.sub(told, text)
    text = _DIGITS.sub(card, text)
    text = _LONG.sub(token, text)
    return (text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"), found


def _secret_start(match: re.Match[str]) -> int | None:
    """Where in the match a secret begins that was told by its name; None = it is ordinary talk."""
    value = match["value"]
    bare = value.strip(".!?؟:\"'«»“”")
    if value.startswith("[") or not bare:  # redacted already, or nothing
        return None
    # Without "is" or ":" only what does not look like a word is taken.
    if bare.casefold() in _ORDINARY or not (match["link"].strip() or any(c.isdigit() for c in bare)):
        return None
    return match.start("value") - match.start()


def is_card(digits: str) -> bool:
    """Return whether 12 to 19 digits, however spaced and in whatever script, pass Luhn's check.

    >>> is_card("4111-1111-1111-1111"), is_card("4111 1111 1111 1112"), is_card("٤١١١١١١١١١١١١١١١")
    (True, False, True)
    """
    values = [int(c) for c in digits if c.isdigit()]
    if not 12 <= len(values) <= 19:
        return False
    total = 0
    for place, digit in enumerate(reversed(values)):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _is_token(text: str) -> bool:
    """Whether a long run of letters and digits is no word, number or id that people write."""
    bare = text.strip("-_=/+")
    letters = sum(c.isalpha() for c in bare)
    digits = sum(c.isdigit() for c in bare)
    return digits >= 2 and letters >= 2 and len(bare) >= 8


def redact_value(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Return plain data with every text redacted, and with every member of a sensitive name replaced.

    >>> redact_value({"title": "call", "apiKey": "k1", "to": ["pin: 1234"]})
    {'title': 'call', 'apiKey': '[secret]', 'to': ['pin: [password]']}
    """
    secrets = tuple(secrets)
    if isinstance(value, str):
        # An argument may hold a part of a secret of the message, cut where a date or a number began.
        parted = _WORD.sub(lambda m: "[secret]" if _is_fragment(m[0], secrets) else m[0], value)
        return redact(parted, secrets)
    if isinstance(value, Mapping):
        return {
            redact(str(name), secrets): "[secret]" if is_sensitive(str(name)) else redact_value(item, secrets)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact_value(item, secrets) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        text = str(value)
        return "[secret]" if is_card(text) or _is_fragment(text.removesuffix(".0"), secrets) else value
    return value


def _is_fragment(text: str, secrets: tuple[str, ...]) -> bool:
    """Whether a value was cut out of a secret, as an argument may be that was read from a message."""
    text = text.strip().casefold()
    return len(text) >= MIN_FRAGMENT and any(text in secret.casefold() for secret in secrets)


def secrets_in(value: Any) -> set[str]:
    """Return the texts that stand under sensitive names, at any depth.

    >>> secrets_in({"login": {"password": "pearl"}, "n": 1})
    {'pearl'}
    """
    if isinstance(value, Mapping):
        found: set[str] = set()
        for name, item in value.items():
            found |= _leaves(item) if is_sensitive(str(name)) else secrets_in(item)
        return found
    if isinstance(value, (list, tuple)):
        return set().union(*(secrets_in(item) for item in value))
    return set()


def _leaves(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return set().union(*(_leaves(item) for item in value.values()))
    if isinstance(value, (list, tuple)):
        return set().union(*(_leaves(item) for item in value))
    return set() if value is None or isinstance(value, bool) else {str(value)}
