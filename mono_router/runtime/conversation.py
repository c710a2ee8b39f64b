"""What is said when no tool is right: a model's reply, or a fixed one without a model.

A query goes in, a reply comes out; no tool ran and none can run from here, which the prompt says to the
model and the fixed reply says to the user. The model sees the safe view of the memory, a bounded summary
of what the catalog can do, and facts that the host gives to be shown; never a credential, a session fact
or an argument that the host filled in.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from mono_router.catalog import Catalog
from mono_router.memory import user_memory
from mono_router.prompting import load_prompt, query_text, tagged
from mono_router.records import (
    Memory,
    Model,
    ModelError,
    ModelReply,
    ModelRequest,
    Query,
    Skill,
    canonical_json,
)
from mono_router.runtime.phrases import is_small_talk, tool_title
from mono_router.schema import is_sensitive, nested_names
from mono_router.text import guess_language

MAX_TOKENS = 400
MAX_CAPABILITIES = 12
MAX_NAMED = 5
"""Capabilities that the fixed reply names."""
MAX_LINE = 160
"""Characters of one capability or fact."""
MAX_FACTS = 8
MIN_HIDDEN = 4
"""A session fact shorter than this ("es", "1") occurs by chance; longer ones hide what repeats them."""

_HELLO = {
    "en": "Happy to help!",
    "es": "¡Encantado de ayudar!",
    "ar": "يسعدني أن أساعدك!",
}
_SORRY = {
    "en": "Sorry, I found nothing that I can do for this message, so I did nothing.",
    "es": "Lo siento, no encontré nada que pueda hacer con este mensaje, así que no hice nada.",
    "ar": "عذرا، لم أجد ما يمكنني فعله بهذه الرسالة، ولم أفعل شيئا.",
}
_CAN = {"en": "I can help with: ", "es": "Puedo ayudar con: ", "ar": "يمكنني المساعدة في: "}
_COMMA = {"en": "; ", "es": "; ", "ar": "؛ "}

# One word says too little to a guess of the language, and greetings are often one word.
_HOLA = re.compile(r"\b(?:hola|gracias|buenos|buenas|adi[oó]s)\b", re.IGNORECASE)


class ConversationResponder:
    """Replies to a message for which no tool is right.

    Parameters
    ----------
    model
        Writes the reply; None = a fixed reply in English, Arabic or Spanish.
    catalog
        What the assistant can do.
    prompt
        Path of another prompt; None = the one that is shipped.
    max_capabilities
        Skills that the model is told of, those with most tools first, >= 0.

    Raises
    ------
    ValueError
        If the prompt cannot be read, or ``max_capabilities`` is negative.

    >>> from mono_router.records import Tool
    >>> catalog = Catalog([Tool(id="book", title="Book a table", description="Book a table")])
    >>> ConversationResponder(None, catalog).reply(Query(message="thanks")).text
    'Happy to help! I can help with: Book a table.'
    """

    def __init__(
        self,
        model: Model | None,
        catalog: Catalog,
        *,
        prompt: str | None = None,
        max_capabilities: int = MAX_CAPABILITIES,
    ) -> None:
        if max_capabilities < 0:
            raise ValueError(f"max_capabilities must be >= 0, got {max_capabilities}")
        self.model = model
        self.prompt = load_prompt("conversation", prompt)
        self._system_arguments = catalog.system_arguments
        skills = sorted(catalog.skills.values(), key=lambda skill: (-len(skill.tools), skill.id))
        self._named = {
            language: tuple(_name(skill, catalog, language) for skill in skills[:MAX_NAMED])
            for language in _HELLO
        }
        told = [_line(skill.description or skill.id) for skill in skills[:max_capabilities]]
        self.system = f"{self.prompt.text}\n\n{tagged('capabilities', told)}"
        """Stable text of every request."""

    def reply(
        self,
        query: Query,
        *,
        facts_to_show: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        language: str | None = None,
    ) -> ModelReply:
        """Return a reply to a message that runs no tool.

        Parameters
        ----------
        query
            The message, with its memory and time.
        facts_to_show
            Names and values that the user is waiting to be told, at most eight. One with a sensitive name,
            or that repeats a secret or a session fact of the memory, is left out.
        language
            Of a fixed reply: "en", "es" or "ar"; None = that of the message.

        Raises
        ------
        ModelError
            If the model fails; MODEL_RESPONSE_MALFORMED if its reply holds no text.
        """
        if self.model is None:
            return ModelReply(text=self._fixed(query.message, language))
        reply = self.model.complete(self.request(query, facts_to_show=facts_to_show))
        text = reply.text.strip()
        if not text:
            message = "the conversation model answered without any text"
            raise ModelError("MODEL_RESPONSE_MALFORMED", message, usage=reply.usage)
        if reply.stop_reason == "max_tokens":
            text += "…"
        return dataclasses.replace(reply, text=text, tool_calls=())

    def request(
        self, query: Query, *, facts_to_show: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()
    ) -> ModelRequest:
        """Return the request for a reply: instructions and capabilities first, the message last."""
        facts = _shown(dict(facts_to_show), query.memory or Memory())
        if query.memory is not None:
            query = dataclasses.replace(query, memory=user_memory(query.memory, self._system_arguments))
        parts = [tagged("facts", facts)] if facts else []
        return ModelRequest(
            purpose="conversation",
            system=self.system,
            messages=({"role": "user", "content": "\n".join([*parts, query_text(query)])},),
            max_tokens=MAX_TOKENS,
            prompt_hash=self.prompt.hash,
            case=query.id,
        )

    def _fixed(self, message: str, language: str | None) -> str:
        if language not in _HELLO:
            language = "es" if _HOLA.search(message[:200]) else guess_language(message)
        start = _HELLO[language] if is_small_talk(message) else _SORRY[language]
        if not self._named[language]:
            return start
        return f"{start} {_CAN[language]}{_COMMA[language].join(self._named[language])}."


def _name(skill: Skill, catalog: Catalog, language: str) -> str:
    """What a user is told that a skill is for: its description, or a phrase in the user's own language."""
    if language != "en":
        titles = [tool_title(catalog[id_], language) for id_ in skill.tools]
        said = next((title for title in titles if title.startswith("«")), None)
        if said is not None:
            return _line(said)
    alone = len(skill.tools) == 1 and skill.tools[0] == skill.id
    text = tool_title(catalog[skill.id]) if alone else skill.description or skill.id
    return _line(text).rstrip(".؟ ")


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1].rstrip() + "…"


def _shown(facts: Mapping[str, Any], memory: Memory) -> dict[str, str]:
    """The facts that may be shown, as text."""
    secrets = {entity.value for entity in memory.entities if entity.secret and entity.value}
    secrets |= {v for v in memory.facts.values() if isinstance(v, str) and len(v) >= MIN_HIDDEN}
    shown = {}
    for name, value in facts.items():
        text = value if isinstance(value, str) else canonical_json(value)
        if any(is_sensitive(part) for part in (name, *nested_names(value))):
            continue
        if not any(secret in part for secret in secrets for part in (name, text)):
            shown[_line(name)] = _line(text)
    return dict(list(shown.items())[:MAX_FACTS])
