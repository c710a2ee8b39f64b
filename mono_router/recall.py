"""Stage 2 from a model: the compressed catalog goes out, ranked ids come back.

The stable part (instructions, catalog) is the system text, so that it can be cached; the message comes
last. Ids that the catalog does not have are dropped and counted. A failure is an error in the answer,
never an empty list.
"""

from __future__ import annotations

from mono_router.catalog import Catalog
from mono_router.prompting import Prompt, parse_object, query_text
from mono_router.records import Model, ModelError, ModelReply, ModelRequest, Query, RecallAnswer
from mono_router.settings import RecallSettings

ANSWER_SCHEMA = {
    "type": "object",
    "properties": {"candidates": {"type": "array", "items": {"type": "string"}}},
    "required": ["candidates"],
    "additionalProperties": False,
}


def recall_request(
    query: Query,
    catalog: Catalog,
    settings: RecallSettings,
    prompt: Prompt,
    shown: tuple[str, ...] | None,
) -> ModelRequest:
    """Return the request that asks for ``ask_limit`` ranked ids.

    Parameters
    ----------
    shown
        Tools that the model may choose from; None = the whole catalog.
    """
    compressed = catalog.compressed(
        examples=settings.catalog_examples,
        level="skill" if settings.level == "skill" else "tool",
        ids=shown,
    )
    listed = compressed.text.replace("<", "\\u003c")  # a description cannot close its tag
    system = f"{prompt.text}\n\nAt most {settings.ask_limit} ids.\n\n<catalog>\n{listed}\n</catalog>"
    return ModelRequest(
        purpose="recall",
        system=system,
        messages=({"role": "user", "content": query_text(query)},),
        schema=ANSWER_SCHEMA,
        max_tokens=64 + 48 * settings.ask_limit,
        prompt_hash=prompt.hash,
        case=query.id,
    )


def ask_recall(
    model: Model,
    query: Query,
    catalog: Catalog,
    settings: RecallSettings,
    prompt: Prompt,
    shown: tuple[str, ...] | None,
) -> RecallAnswer:
    """Return a model's answer, read and checked; a failing model gives an answer with its error code."""
    request = recall_request(query, catalog, settings, prompt, shown)
    try:
        reply = model.complete(request)
    except ModelError as error:
        return RecallAnswer(error=error.code, error_message=error.message, usage=error.usage)
    return read_recall(reply, catalog, settings, shown)


def read_recall(
    reply: ModelReply, catalog: Catalog, settings: RecallSettings, shown: tuple[str, ...] | None
) -> RecallAnswer:
    """Return what a reply says: known ids in order, at most ``ask_limit``; unknown ones apart.

    >>> from mono_router.records import Tool
    >>> read_recall(ModelReply(text='{"candidates": ["b", "x"]}'), Catalog([Tool(id="b")]),
    ...             RecallSettings(), None).unknown
    ('x',)
    """
    usage = reply.usage
    record = parse_object(reply.text)
    names = record.get("candidates") if record else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        text = f"recall answered without a list of candidates: {reply.text[:200]!r}"
        return RecallAnswer(error="MODEL_RESPONSE_MALFORMED", error_message=text, usage=usage)
    allowed = set(catalog.ids if shown is None else shown)
    known: list[str] = []
    unknown: list[str] = []
    for name in dict.fromkeys(names):
        if settings.level == "skill" and name in catalog.skills:
            known.extend(tool for tool in catalog.skills[name].tools if tool in allowed)
        elif settings.level == "tool" and name in allowed:
            known.append(name)
        else:
            unknown.append(name)
    kept = tuple(dict.fromkeys(known))[: settings.ask_limit]
    return RecallAnswer(candidates=kept, unknown=tuple(unknown), usage=usage)
