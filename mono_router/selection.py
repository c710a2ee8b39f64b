"""Stage 4 with a model: ask for a choice among the shortlist, check everything that comes back.

A selector sees the query and the shortlist only. Its answer is checked name by name and argument by
argument; what fails is reported as a rejection and never becomes a call. An answer that cannot be read
is asked for again in another way: native tool use, then structured output, then one JSON object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mono_router.catalog import NO_TOOL, wire_name
from mono_router.prompting import Prompt, load_prompt, parse_object, query_text
from mono_router.records import (
    MODES,
    Answer,
    Call,
    Mode,
    Model,
    ModelError,
    ModelReply,
    ModelRequest,
    ModelTool,
    Query,
    Rejection,
    Tool,
    Usage,
)
from mono_router.schema import check_arguments, missing_arguments, user_schema
from mono_router.settings import SelectionSettings

REJECTIONS = (
    "TOOL_OUTSIDE_CANDIDATES",
    "UNKNOWN_ARGUMENT",
    "SENSITIVE_ARGUMENT",
    "ARGUMENT_SCHEMA",
    "SYSTEM_ARGUMENT",
    "TOO_MANY_CALLS",
    "MODE_UNSUPPORTED",
    "MALFORMED_ANSWER",
)
"""Codes of refused answers."""
MAX_THINK_CALLS = 3


@dataclass(frozen=True)
class Choice:
    """One call as an answer states it, before any check."""

    name: str
    arguments: Any
    mode: Any
    confidence: Any


class ModelSelector:
    """Asks a model to choose.

    Parameters
    ----------
    model
        The routing model.
    settings
        ``prompt``, ``fallback_attempts`` and ``max_skills``; a Router gives its own.
    """

    min_confidence = 0.0
    """Level of ``selection.min_confidence`` when it is null: the model's own "no tool" stands."""

    def __init__(self, model: Model, *, settings: SelectionSettings | None = None) -> None:
        self.model = model
        self.settings = settings or SelectionSettings()
        self.prompt: Prompt = load_prompt("selection", self.settings.prompt)

    def configured(self, settings: SelectionSettings) -> ModelSelector:
        """Return this selector under other settings."""
        return self if settings == self.settings else ModelSelector(self.model, settings=settings)

    def select(self, query: Query, shortlist: Sequence[Tool]) -> Answer:
        """Return the checked answer to a shortlist.

        A model that fails gives an answer with its error code; an answer that breaks a rule gives
        rejections and no calls.
        """
        usage = Usage()
        answer = Answer()
        for attempt in range(self.settings.fallback_attempts + 1):
            request = selection_request(query, shortlist, self.prompt, attempt)
            try:
                reply = self.model.complete(request)
            except ModelError as error:
                usage += error.usage
                return Answer(error=error.code, error_message=error.message, usage=usage)
            usage += reply.usage
            answer = check_answer(read_choices(reply, attempt), shortlist, self.settings.max_skills)
            if all(r.code != "MALFORMED_ANSWER" for r in answer.rejections):
                break
        return dataclasses.replace(answer, usage=usage)


def selection_request(
    query: Query, shortlist: Sequence[Tool], prompt: Prompt, attempt: int = 0
) -> ModelRequest:
    """Return the request for a choice: attempt 0 by tool use, 1 by structured output, 2 by plain JSON."""
    common: dict[str, Any] = {
        "purpose": "selection",
        "messages": ({"role": "user", "content": query_text(query)},),
        "prompt_hash": prompt.hash,
        "case": query.id,
    }
    if attempt == 0:
        tools = (*(wire_tool(tool) for tool in shortlist), NO_TOOL_WIRE)
        return ModelRequest(system=prompt.text, tools=tools, force_tool=True, **common)
    from mono_router.records import canonical_json

    offered = [
        {"tool": wire_name(t.id), "title": t.title, "description": t.description, "modes": list(t.modes),
         "arguments": user_schema(t)}
        for t in shortlist
    ]  # fmt: skip
    lines = "\n".join(canonical_json(entry).replace("<", "\\u003c") for entry in offered)
    shape = (
        'Answer with one JSON object: {"calls": [{"tool": name, "arguments": {...}}], "mode": mode, '
        '"confidence": number}; "calls" is empty for no_tool.'
    )
    system = f"{prompt.text}\n\n<tools>\n{lines}\n</tools>\n\n{shape}"
    return ModelRequest(system=system, schema=answer_schema(shortlist) if attempt == 1 else None, **common)


def answer_schema(shortlist: Sequence[Tool]) -> dict[str, Any]:
    """Return the schema of a structured answer: calls of these tools, one mode, one confidence."""
    calls = [
        {
            "type": "object",
            "properties": {
                "tool": {"type": "string", "enum": [wire_name(tool.id)]},
                "arguments": _moved(
                    user_schema(tool), f"properties/calls/items/anyOf/{i}/properties/arguments"
                ),
            },
            "required": ["tool", "arguments"],
            "additionalProperties": False,
        }
        for i, tool in enumerate(shortlist)
    ]
    return {
        "type": "object",
        "properties": {
            "calls": {"type": "array", "items": {"anyOf": calls}},
            "mode": {"type": "string", "enum": list(MODES)},
            "confidence": {"type": "number"},
        },
        "required": ["calls", "mode", "confidence"],
        "additionalProperties": False,
    }


def _moved(schema: Any, place: str) -> Any:
    """A schema whose references still point at its own parts when it stands at a place in another."""
    if isinstance(schema, Mapping):
        return {
            key: f"#/{place}{value[1:]}"
            if key == "$ref" and isinstance(value, str) and value.startswith("#")
            else _moved(value, place)
            for key, value in schema.items()
        }
    return [_moved(item, place) for item in schema] if isinstance(schema, list) else schema


_CONFIDENCE = {"type": "number", "description": "How likely this choice is right, 0 to 1"}
NO_TOOL_WIRE = ModelTool(
    name=NO_TOOL,
    description="None of the tools does what the user wants",
    schema={"type": "object", "properties": {"confidence": _CONFIDENCE}, "required": ["confidence"]},
)


def wire_tool(tool: Tool) -> ModelTool:
    """Return a tool as a model may see it: its schema wrapped in mode, confidence and arguments.

    >>> wire_tool(Tool(id="a.b", description="B")).schema["required"]
    ['mode', 'confidence', 'arguments']
    """
    title = f"{tool.title}. " if tool.title and tool.title != tool.description else ""
    return ModelTool(
        name=wire_name(tool.id),
        description=title + tool.description,
        schema={
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": list(tool.modes)},
                "confidence": _CONFIDENCE,
                "arguments": _moved(user_schema(tool), "properties/arguments"),
            },
            "required": ["mode", "confidence", "arguments"],
        },
    )


def read_choices(reply: ModelReply, attempt: int) -> tuple[Choice, ...] | str:
    """Return the choices that a reply states, or one line that says why it cannot be read."""
    if reply.stop_reason == "max_tokens":
        return "the answer was cut off at max_tokens"
    if attempt == 0:
        if not reply.tool_calls:
            return f"no tool was called: {reply.text[:120]!r}"
        choices = []
        for call in reply.tool_calls:
            wrapped = call.arguments
            if not isinstance(wrapped, Mapping):
                return f"arguments of {call.name} are not an object"
            if call.name == NO_TOOL:
                choices.append(Choice(NO_TOOL, {}, "tool", wrapped.get("confidence")))
            else:
                unknown = sorted(set(wrapped) - {"mode", "confidence", "arguments"})
                if unknown:
                    return f"{call.name} was called with {unknown[0]!r} beside its arguments"
                choices.append(
                    Choice(
                        call.name, wrapped.get("arguments"), wrapped.get("mode"), wrapped.get("confidence")
                    )
                )
        return tuple(choices)
    record = parse_object(reply.text)
    if record is None or not isinstance(record.get("calls"), list):
        return f"no JSON object with calls: {reply.text[:120]!r}"
    mode, confidence = record.get("mode"), record.get("confidence")
    found = []
    for item in record["calls"]:
        if not isinstance(item, Mapping) or not isinstance(item.get("tool"), str):
            return f"a call without a tool: {str(item)[:120]}"
        found.append(Choice(item["tool"], item.get("arguments"), mode, confidence))
    return tuple(found) or (Choice(NO_TOOL, {}, "tool", confidence),)


def check_answer(choices: tuple[Choice, ...] | str, shortlist: Sequence[Tool], max_skills: int) -> Answer:
    """Return the answer that choices make, with every rule that they break.

    >>> bad = Choice("drop_all", {}, "tool", 0.9)
    >>> check_answer((bad,), [Tool(id="a")], 3).rejections[0].code
    'TOOL_OUTSIDE_CANDIDATES'
    """
    if isinstance(choices, str):
        return _rejected([Rejection(code="MALFORMED_ANSWER", name="answer", message=choices)])
    confidence = choices[0].confidence
    stated = isinstance(confidence, (int, float)) and not isinstance(confidence, bool)
    if not stated or not 0 <= confidence <= 1:
        text = f"confidence must be a number in [0, 1], got {confidence!r}"
        return _rejected([Rejection(code="MALFORMED_ANSWER", name="confidence", message=text)])
    if any(choice.name == NO_TOOL for choice in choices):
        if len(choices) > 1:
            text = "no_tool was chosen beside a tool"
            return _rejected([Rejection(code="MALFORMED_ANSWER", name=NO_TOOL, message=text)])
        return Answer(confidence=float(confidence))
    by_name = {wire_name(tool.id): tool for tool in shortlist}
    found: list[Rejection] = []
    calls: list[Call] = []
    missing: tuple[str, ...] = ()
    chosen: list[Tool] = []
    for choice in choices:
        tool = by_name.get(choice.name)
        if tool is None:
            text = f"{choice.name} is not among the candidates"
            found.append(Rejection(code="TOOL_OUTSIDE_CANDIDATES", name=choice.name, message=text))
            continue
        arguments = _without_nulls(tool, choice.arguments)
        found.extend(check_arguments(tool, arguments))
        if isinstance(arguments, Mapping):
            calls.append(Call(tool=tool.id, arguments=dict(arguments)))
            missing = missing or missing_arguments(tool, arguments)
        chosen.append(tool)
    found.extend(_mode_rejections(choices, chosen))
    found.extend(_count_rejections(choices, chosen, max_skills))
    if found:
        return dataclasses.replace(_rejected(found), confidence=float(confidence))
    mode: Mode = choices[0].mode
    return Answer(calls=tuple(calls), mode=mode, confidence=float(confidence), missing=missing)


def _rejected(found: Sequence[Rejection]) -> Answer:
    return Answer(rejections=tuple(found), confidence=0.0)


def _without_nulls(tool: Tool, arguments: Any) -> Any:
    """Drop null where the schema does not take it: models write null for "not said"."""
    if not isinstance(arguments, Mapping):
        return arguments
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in tool.properties or _takes_null(tool.properties[name])
    }


def _takes_null(sub: Any) -> bool:
    if not isinstance(sub, Mapping):
        return False
    kinds = sub.get("type")
    if isinstance(kinds, list):
        return "null" in kinds
    branches = [*sub.get("anyOf", ()), *sub.get("oneOf", ())]
    return kinds == "null" or None in sub.get("enum", ()) or any(_takes_null(b) for b in branches)


def _mode_rejections(choices: Sequence[Choice], chosen: Sequence[Tool]) -> list[Rejection]:
    modes = {str(choice.mode) for choice in choices}
    mode = choices[0].mode
    if len(modes) > 1 or mode not in MODES:
        text = f"mode must be one of {', '.join(MODES)} for all calls, got {', '.join(sorted(modes))}"
        return [Rejection(code="MALFORMED_ANSWER", name="mode", message=text)]
    found = []
    for tool in chosen:
        if mode not in tool.modes:
            text = f"{tool.skill} does not support mode {mode} ({tool.id})"
            found.append(Rejection(code="MODE_UNSUPPORTED", name=tool.id, message=text))
        elif mode == "think" and tool.effects == "write":
            text = f"think prefetches read-only tools, {tool.id} writes"
            found.append(Rejection(code="MODE_UNSUPPORTED", name=tool.id, message=text))
    return found


def _count_rejections(choices: Sequence[Choice], chosen: Sequence[Tool], max_skills: int) -> list[Rejection]:
    mode = choices[0].mode
    limit = 1 if mode == "tool" else MAX_THINK_CALLS
    if len(choices) > limit:
        name = choices[limit].name
        text = f"mode {mode} takes at most {limit} calls, got {len(choices)}: {name} is one too many"
        return [Rejection(code="TOO_MANY_CALLS", name=name, message=text)]
    skills = list(dict.fromkeys(tool.skill for tool in chosen))
    if len(skills) > max_skills:
        text = f"at most {max_skills} skills, got {', '.join(skills)}"
        return [Rejection(code="TOO_MANY_CALLS", name=skills[max_skills], message=text)]
    return []
