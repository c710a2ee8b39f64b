"""Argument checks: sensitive names, the partial schema, and what is missing.

A schema comes in with its tool; rejections come out. Nothing is coerced and nothing is fetched:
references resolve inside the schema only. jsonschema is imported when first needed.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from mono_router.records import Rejection, Tool, canonical_json

_WORD_EDGES = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SENSITIVE = {
    "authorization", "bearer", "cookie", "set_cookie", "session", "credential", "credentials", "password",
    "passwd", "secret", "token", "api_key", "x_api_key", "access_token", "refresh_token", "id_token",
    "auth_token", "session_token", "private_key", "pin", "cvv", "cvc", "otp",
}  # fmt: skip
_SENSITIVE_ENDS = ("_password", "_secret", "_credential", "_credentials", "_token", "_api_key")
_TIME = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def is_sensitive(name: str) -> bool:
    """Return whether an argument of this name may carry a credential.

    >>> [is_sensitive(n) for n in ("apiKey", "user_password", "X-Api-Key", "PIN")]
    [True, True, True, True]
    >>> [is_sensitive(n) for n in ("token_count", "tokenizer", "keyboard", "passenger")]
    [False, False, False, False]
    """
    snake = re.sub(r"[^A-Za-z0-9]+", "_", _WORD_EDGES.sub("_", name)).strip("_").lower()
    return snake in _SENSITIVE or snake.endswith(_SENSITIVE_ENDS)


def user_schema(tool: Tool) -> dict[str, Any]:
    """Return a tool's schema as a model may see it: without system arguments.

    >>> user_schema(Tool(id="t", input_schema={"properties": {"a": {}, "u": {}}, "required": ["u"]},
    ...                  system_arguments=("u",)))["properties"]
    {'a': {}}
    """
    schema = {key: value for key, value in tool.input_schema.items() if not key.startswith("x-")}
    schema["type"] = "object"
    schema["properties"] = dict(tool.properties)
    if "required" in schema:
        schema["required"] = list(tool.required)
    return schema


def partial_schema(tool: Tool) -> dict[str, Any]:
    """Return the schema that checks given arguments: none required at the root, no further ones allowed."""
    schema = user_schema(tool)
    schema.pop("required", None)
    schema["additionalProperties"] = False
    # Root-level alternatives may require too; what was given is checked property by property.
    for keyword in ("dependentRequired", "minProperties"):
        schema.pop(keyword, None)
    for keyword in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and any(isinstance(b, Mapping) and "required" in b for b in branches):
            schema.pop(keyword)
    return schema


def schema_problem(schema: Any) -> str | None:
    """Return one line that says why this is no JSON Schema of an object, or None.

    >>> schema_problem({"type": "object", "properties": {"a": {"type": "strin"}}})
    "properties.a.type: 'strin' is not valid under any of the given schemas"
    """
    if not isinstance(schema, Mapping):
        return f"must be a mapping, got {type(schema).__name__}"
    if schema.get("type", "object") != "object":
        return f"type must be object, got {schema['type']!r}"
    if _plainly_valid(schema):
        return None
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema))
    if error is not None:
        place = ".".join(str(part) for part in error.absolute_path)
        return f"{place}: {error.message}" if place else error.message
    unknown = [name for name in schema.get("required", ()) if name not in schema.get("properties", {})]
    if unknown:
        return f"required names {unknown[0]!r}, which is not in properties"
    reference = next((r for r in _references(schema) if not r.startswith("#")), None)
    return f"$ref must stay inside the schema, got {reference!r}" if reference else None


_TYPES = frozenset(["object", "array", "string", "integer", "number", "boolean", "null"])
_ANNOTATIONS = frozenset({"description", "title", "default", "examples"})


def _plainly_valid(schema: Mapping[str, Any]) -> bool:
    """Settle the common schemas without the meta-schema, which costs a millisecond a tool."""
    for key, value in schema.items():
        if key in _ANNOTATIONS or key.startswith("x-"):
            continue
        if key == "type":
            known = isinstance(value, str) and value in _TYPES
        elif key == "properties":
            known = isinstance(value, Mapping) and all(
                isinstance(sub, Mapping) and _plainly_valid(sub) for sub in value.values()
            )
        elif key == "items":
            known = isinstance(value, Mapping) and _plainly_valid(value)
        elif key == "required":
            names = schema.get("properties", {})
            known = isinstance(value, list) and all(isinstance(name, str) for name in value)
            known = known and len(set(value)) == len(value)
            known = known and isinstance(names, Mapping) and all(name in names for name in value)
        elif key == "enum":
            known = isinstance(value, list) and bool(value)
        elif key == "format":
            known = isinstance(value, str)
        elif key == "additionalProperties":
            known = isinstance(value, bool)
        else:
            known = False
        if not known:
            return False
    return isinstance(schema.get("description", ""), str) and isinstance(schema.get("title", ""), str)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def check_arguments(tool: Tool, arguments: Any) -> tuple[Rejection, ...]:
    """Return why these arguments may not be passed to the tool; empty = they may.

    >>> tool = Tool(id="t", input_schema={"properties": {"n": {"type": "integer"}}})
    >>> [r.code for r in check_arguments(tool, {"n": "3", "extra": 1})]
    ['UNKNOWN_ARGUMENT', 'ARGUMENT_SCHEMA']
    """
    if not isinstance(arguments, Mapping):
        return (_rejection("MALFORMED_ANSWER", tool.id, f"arguments of {tool.id} must be an object"),)
    found = []
    known = tool.properties
    for name in arguments:
        if name in tool.system_arguments:
            text = f"{name} of {tool.id} is filled by the host, never by an answer"
            found.append(_rejection("SYSTEM_ARGUMENT", name, text))
        elif is_sensitive(str(name)):
            text = f"{name} of {tool.id} may carry a credential"
            found.append(_rejection("SENSITIVE_ARGUMENT", str(name), text))
        elif name not in known:
            text = f"{name} is no argument of {tool.id}"
            found.append(_rejection("UNKNOWN_ARGUMENT", str(name), text))
    for name in (part for value in arguments.values() for part in nested_names(value)):
        if is_sensitive(name):
            text = f"{name}, inside an argument of {tool.id}, may carry a credential"
            found.append(_rejection("SENSITIVE_ARGUMENT", name, text))
    given = {name: value for name, value in arguments.items() if name in known}
    if given:
        for error in sorted(_validator(tool).iter_errors(given), key=lambda e: list(map(str, e.path))):
            place = "/" + "/".join(str(part) for part in error.absolute_path)
            name = str(error.absolute_path[0]) if error.absolute_path else tool.id
            text = f"{place} of {tool.id}: {error.message[:200]}"
            found.append(_rejection("ARGUMENT_SCHEMA", name, text))
    return tuple(found)


def _rejection(code: str, name: str, message: str) -> Rejection:
    return Rejection(code=code, name=name, message=message)


def nested_names(value: Any) -> Iterator[str]:
    """Yield the names of all members inside a value.

    >>> list(nested_names({"a": [{"b": 1}]}))
    ['a', 'b']
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from nested_names(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from nested_names(item)


def pointer(name: str) -> str:
    """Return the JSON pointer (RFC 6901) of an argument at the root.

    >>> pointer("a/b")
    '/a~1b'
    """
    return "/" + name.replace("~", "~0").replace("/", "~1")


def pointer_parts(text: str) -> tuple[str, ...]:
    """Return the member names of a JSON pointer (RFC 6901); "" is the whole value.

    Raises
    ------
    ValueError
        If the text is no JSON pointer.

    >>> pointer_parts("/a~1b/0")
    ('a/b', '0')
    """
    if text and not text.startswith("/"):
        raise ValueError(f"must be a JSON pointer such as /items/0, got {text!r}")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def missing_arguments(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the JSON pointers of required user arguments that are not given.

    >>> tool = Tool(id="t", input_schema={"properties": {"a/b": {}, "c": {}}, "required": ["a/b", "c"]})
    >>> missing_arguments(tool, {"c": 1})
    ('/a~1b',)
    """
    gaps = (name for name in tool.required if name not in arguments)
    return tuple(pointer(name) for name in gaps)


def _validator(tool: Tool) -> Any:
    return _compiled(canonical_json(partial_schema(tool)))


@lru_cache(maxsize=4096)
def _compiled(schema_text: str) -> Any:
    import json

    from jsonschema import Draft202012Validator
    from referencing import Registry

    # An empty registry: a reference to elsewhere is an error, never a download.
    return Draft202012Validator(
        json.loads(schema_text), format_checker=_format_checker(), registry=Registry()
    )


@lru_cache(maxsize=1)
def _format_checker() -> Any:
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    checker.checkers = {}
    for name, check in (("date", valid_date), ("time", valid_time), ("date-time", valid_datetime)):
        checker.checkers[name] = (check, ())
    checker.checkers["email"] = (lambda v: not isinstance(v, str) or "@" in v.strip("@"), ())
    return checker


def valid_date(value: Any) -> bool:
    """Return whether text is a calendar date YYYY-MM-DD (what is not text passes).

    >>> valid_date("2026-02-29"), valid_date("2028-02-29")
    (False, True)
    """
    if not isinstance(value, str):
        return True
    if not _DATE.fullmatch(value):
        return False
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return True


def valid_time(value: Any) -> bool:
    """Return whether text is a clock time HH:mm (what is not text passes).

    >>> valid_time("24:00"), valid_time("9:30"), valid_time("09:30")
    (False, False, True)
    """
    return not isinstance(value, str) or _TIME.fullmatch(value) is not None


def valid_datetime(value: Any) -> bool:
    """Return whether text is an ISO 8601 date and time (what is not text passes)."""
    if not isinstance(value, str):
        return True
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        return False
    return "T" in value
