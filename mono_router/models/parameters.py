"""A model request as parameters of the Messages API, for one model's card.

Pure: the same request and card give the same parameters. The stable text goes first, the volatile part
last; nothing is sent that the model's card does not allow, and no sampling parameter ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from mono_router.models.prices import ModelCard
from mono_router.records import ModelRequest, plain
from mono_router.text import clean

REASONING = ("think", "agent")
"""Purposes that think where the model can; for the others thinking is off, or as small as can be."""
THINKING_ROOM = 8_192
"""Tokens added to ``max_tokens`` where thinking is on, because it counts there; a guess."""
NOTES_ROOM = 1_024
"""The same where only short notes between tool calls are left; a guess."""

Thinking = Literal["off", "adaptive"]


def request_body(
    request: ModelRequest,
    card: ModelCard,
    *,
    cache: bool = True,
    effort: str | None = None,
    thinking: Thinking | None = None,
) -> dict[str, Any]:
    """Return the parameters of ``messages.create`` for a request.

    Parameters
    ----------
    request
        What is asked; its messages may carry an earlier reply's ``turn`` as content.
    card
        What the model allows.
    cache
        Whether the system text of recall is marked for the prompt cache; a shortlist never is.
    effort
        None = the model's default ("low" where thinking was to be off and cannot be).
    thinking
        None = adaptive for think and agent, else off.

    >>> from mono_router.models.prices import card_of
    >>> said = {"role": "user", "content": "hi"}
    >>> ask = ModelRequest(purpose="recall", system="Route.", messages=(said,))
    >>> body = request_body(ask, card_of("claude-haiku-5-5"))
    >>> body["max_tokens"], body["thinking"], body["system"][0]["cache_control"]
    (1024, {'type': 'disabled'}, {'type': 'ephemeral'})
    """
    kind, room, effort = _thinking_for(request.purpose, card, effort, thinking)
    body: dict[str, Any] = {
        "model": card.name,
        "max_tokens": min(request.max_tokens + room, card.max_output),
        "messages": [{"role": m["role"], "content": m["content"]} for m in request.messages],
    }
    if request.system:
        block: dict[str, Any] = {"type": "text", "text": request.system}
        if cache and request.purpose == "recall":
            block["cache_control"] = {"type": "ephemeral"}
        body["system"] = [block]
    if kind is not None:
        body["thinking"] = {"type": kind}
    if request.tools:
        body["tools"] = [
            {
                "name": tool.name,
                **({"description": tool.description} if tool.description else {}),
                "input_schema": tool.schema,
            }
            for tool in request.tools
        ]
        if request.force_tool:
            # A model that thinks first cannot be forced; the prompt still asks for a call.
            forced = card.forced_tools and kind is not None and kind == card.off
            body["tool_choice"] = {"type": "any" if forced else "auto"}
    output: dict[str, Any] = {} if effort is None else {"effort": effort}
    schema = None if request.schema is None else structured(request.schema)
    if schema is not None:
        output["format"] = {"type": "json_schema", "schema": schema}
    if output:
        body["output_config"] = output
    cleaned: dict[str, Any] = _cleaned(plain(body))
    return cleaned


def _thinking_for(
    purpose: str, card: ModelCard, effort: str | None, thinking: Thinking | None
) -> tuple[str | None, int, str | None]:
    """``thinking.type``, the tokens to add for it, and the effort."""
    wanted = thinking or ("adaptive" if purpose in REASONING else "off")
    if wanted == "off" and card.off is not None and (effort is None or effort in card.off_efforts):
        return card.off, NOTES_ROOM if card.off == "between_tools" else 0, effort
    if wanted == "off" and card.off is None and card.adaptive and effort is None:
        effort = card.efforts[0]
    if card.adaptive:
        return "adaptive", THINKING_ROOM, effort
    return None, THINKING_ROOM if card.off is None else 0, effort


def structured(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a JSON Schema as structured output takes it, or None where it cannot be expressed.

    Structured output knows no object with free keys; sent anyway, it would come back empty. The prompt
    asks for the same JSON, so such a schema is left out of the request instead.

    >>> structured({"type": "object", "properties": {"a": {"type": ["integer", "null"]}}})["properties"]
    {'a': {'anyOf': [{'type': 'integer'}, {'type': 'null'}]}}
    >>> structured({"type": "object", "properties": {"arguments": {"type": "object"}}}) is None
    True
    """
    import anthropic

    try:
        found: dict[str, Any] = anthropic.transform_schema(_closed(schema))
    except (ValueError, TypeError, AttributeError, AssertionError):
        return None
    return found


def _closed(node: Any) -> Any:
    """The schema with type lists as alternatives; ValueError where an object has free keys."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    kinds = node.get("type")
    if isinstance(kinds, list):
        rest = {key: value for key, value in node.items() if key != "type"}
        return {"anyOf": [_closed({**rest, "type": kind}) for kind in kinds]}
    free = node.get("additionalProperties") not in (None, False)
    if kinds == "object" and (free or not node.get("properties")):
        raise ValueError("an object with free keys")
    names = ("properties", "$defs")
    return {
        key: {name: _closed(sub) for name, sub in value.items()} if key in names else _closed(value)
        for key, value in node.items()
    }


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value
