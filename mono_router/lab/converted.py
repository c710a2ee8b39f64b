"""What the converters of public sets share: the result, samples and splits by our own hash, stand-ins.

A hash decides instead of a random generator, so that a sample is the same on every machine and a message
that is there twice is never in both splits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mono_router.records import digest

T = TypeVar("T")
Record = dict[str, Any]

DEV_SHARE = 0.4
N_EXAMPLES = 20
"""Examples a tool, at most."""

_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}")
_OWN_MAIL = re.compile(r"@(?:.+\.)?example\.(?:com|net|org)$", re.I)
_PHONE = re.compile(
    r"(?<![\w.+/-])"
    r"(?:\+\d{1,3}[ .-](?:\(?\d{1,4}\)?[ .-]?){2,4}\d{2,4}|\(?\d{3}\)?[ -]\d{3}-\d{4})"
    r"(?![\w.-]*\d)"
)
_HEX_KEY = re.compile(r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{32,}\b")


@dataclass(frozen=True, kw_only=True)
class Converted:
    """A public set in our own form."""

    tools: tuple[Record, ...]
    """Lines of ``catalog.jsonl``."""
    cases: tuple[Record, ...]
    """Lines of ``eval.jsonl``."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """What was left out or changed, counted."""


def sampled(items: Sequence[T], n: int, key: Callable[[T], str]) -> list[T]:
    """Return at most ``n`` items, those whose keys hash lowest, in their own order.

    >>> sampled("abcdef", 2, str)
    ['d', 'f']
    """
    ranked = sorted(range(len(items)), key=lambda i: (digest(key(items[i])), i))
    return [items[i] for i in sorted(ranked[:n])]


def split_of(message: str) -> str:
    """Return "dev" for 40 % of all messages, else "test", by the hash of their words.

    >>> split_of("Where is my card?") == split_of("where is  my card?")
    True
    """
    place = int(digest(" ".join(message.casefold().split())).removeprefix("sha256:")[:8], 16)
    return "dev" if place < DEV_SHARE * 16**8 else "test"


def words_of(label: str) -> str:
    """Return the words of a label, lower case.

    >>> words_of("getFilmInfo"), words_of("card_arrival"), words_of("C3_Glide")
    ('get film info', 'card arrival', 'c3 glide')
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", label)
    return " ".join(re.split(r"[\s_-]+", spaced)).strip().lower()


def case_record(
    id_: str,
    message: str,
    tools: Iterable[str],
    *,
    split: str,
    tags: Iterable[str],
    language: str = "en",
    **fields: Any,
) -> Record:
    """Return a line of ``eval.jsonl``; fields that are None are left out, ``n`` of tools becomes a tag."""
    expected = list(dict.fromkeys(tools))
    kind = "no_tool" if not expected else "single_tool" if len(expected) == 1 else "multi_tool"
    return {
        "id": id_,
        "message": message,
        "expected_tools": expected,
        **{name: value for name, value in fields.items() if value is not None},
        "language": language,
        "tags": [*tags, kind],
        "split": split,
    }


def intent_tool(label: str, messages: Sequence[str]) -> Record:
    """Return the tool that an intent becomes: its words, and examples sampled from its messages."""
    unique = list(dict.fromkeys(messages))
    return {
        "id": label,
        "title": words_of(label),
        "description": words_of(label),
        "examples": sampled(unique, N_EXAMPLES, lambda message: f"{label}\n{message}"),
    }


def texts_by_label(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the texts of each label, of rows (text, label)."""
    found: dict[str, list[str]] = {}
    for text, label in rows:
        found.setdefault(label, []).append(text.strip())
    return found


def without_contacts(found: Converted) -> Converted:
    """Return a set with e-mail addresses, phone numbers and long hex keys replaced by stand-ins.

    The same address gets the same stand-in everywhere, so that messages and truths still agree.
    Addresses at example.com, .net and .org stay.
    """
    counts: dict[str, set[str]] = {"email": set(), "phone": set(), "key": set()}

    def mail(match: re.Match[str]) -> str:
        # git@ is how a repository is reached, nobody's address.
        if _OWN_MAIL.search(match[0]) or match[0].startswith("git@"):
            return match[0]
        counts["email"].add(match[0])
        return f"user{_hex(match[0])[:6]}@example.com"

    def phone(match: re.Match[str]) -> str:
        counts["phone"].add(match[0])
        # 555-0100 to 555-0199 are set apart for examples.
        return f"+1 555-01{int(_hex(match[0])[:8], 16) % 100:02d}"

    def key(match: re.Match[str]) -> str:
        counts["key"].add(match[0])
        return "0" * len(match[0])

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return _HEX_KEY.sub(key, _PHONE.sub(phone, _EMAIL.sub(mail, value)))
        if isinstance(value, dict):
            return {name: clean(item) for name, item in value.items()}
        return [clean(item) for item in value] if isinstance(value, list) else value

    tools = tuple(
        {name: value if name in _NAMES else clean(value) for name, value in t.items()} for t in found.tools
    )
    cases = tuple(
        {name: value if name in _NAMES else clean(value) for name, value in c.items()} for c in found.cases
    )
    replaced = {f"{name}s_replaced": len(values) for name, values in counts.items() if values}
    return Converted(tools=tools, cases=cases, notes={**found.notes, **replaced})


_NAMES = {"id", "variant_of", "expected_tools", "candidate_tools", "acceptable_tools", "tags", "split"}


def _hex(text: str) -> str:
    return digest(text.casefold()).removeprefix("sha256:")


# Scripts tell most languages apart; of those in Latin letters only these two are looked for.
_SCRIPTS = (
    ("ko", re.compile(r"[\uac00-\ud7a3]")),
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("ar", re.compile(r"[\u0620-\u064a]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("vi", re.compile(r"[ạảấầẩẫậắằẳẵặẹẻẽếềểễệịỉọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹđ]", re.I)),
)
_SPANISH = frozenset("el la los las que de del en para por un una cual quiero hora mi es".split())


def language_of(message: str) -> str:
    """Return the language of a message by its script and stop words; English where nothing else shows.

    >>> language_of("¿A qué hora pasa el autobús?"), language_of("你是谁"), language_of("who are you")
    ('es', 'zh', 'en')
    """
    letters = sum(char.isalpha() for char in message) or 1
    for language, script in _SCRIPTS:
        share = len(script.findall(message)) / letters
        if share > (0.05 if language == "vi" else 0.25):
            return language
    found = re.findall(r"\w+", message.lower())
    spanish = sum(word in _SPANISH for word in found)
    return "es" if spanish >= 2 and spanish > 0.2 * len(found) else "en"


_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "hashmap": "object",
    "list": "array",
    "tuple": "array",
}
_JSON_TYPES = {"string", "integer", "number", "boolean", "object", "array", "null"}


def json_schema(parameters: Any) -> Record:
    """Return parameters in the sources' notation (Python's type names) as a JSON Schema.

    >>> json_schema({"type": "dict", "properties": {"x": {"type": "float", "optional": True}}})
    {'type': 'object', 'properties': {'x': {'type': 'number'}}}
    """
    found = _schema(parameters) if isinstance(parameters, dict) else {}
    return {**found, "type": "object", "properties": found.get("properties", {})}


def _schema(given: Mapping[str, Any]) -> Record:
    made: Record = {}
    for key, value in given.items():
        if key == "type":
            named = _TYPES.get(str(value).lower(), str(value).lower())
            if named in _JSON_TYPES:
                made["type"] = named
            # "any" is no type of JSON Schema: without one, every value is allowed.
        elif key == "properties" and isinstance(value, dict):
            made[key] = {
                str(name): _schema(sub) if isinstance(sub, dict) else {} for name, sub in value.items()
            }
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            made[key] = _schema(value)
        elif key == "required" and isinstance(value, list):
            if value:
                made[key] = [str(name) for name in value]
        elif key in ("description", "default", "format", "minimum", "maximum", "minItems", "maxItems") or (
            key == "enum" and isinstance(value, list) and value
        ):
            made[key] = value
    return made
