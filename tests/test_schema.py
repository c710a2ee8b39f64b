"""Argument checks: sensitive names, partial schemas, formats, what is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.records import Tool
from mono_router.schema import (
    check_arguments,
    is_sensitive,
    missing_arguments,
    nested_names,
    partial_schema,
    schema_problem,
    user_schema,
    valid_date,
    valid_datetime,
    valid_time,
)

SENSITIVE = """authorization bearer cookie set_cookie session credential credentials password passwd secret
    token api_key x_api_key access_token refresh_token id_token auth_token session_token private_key pin
    cvv cvc otp user_password db_secret aws_credential aws_credentials github_token stripe_api_key""".split()
WRITTEN = """apiKey API_KEY ApiKey X-Api-Key accessToken setCookie Set-Cookie userPassword privateKey PIN
    cardPin_token ID_TOKEN dbSecret awsCredentials""".split()
HARMLESS = """token_count tokenizer keyboard monkey passenger passengers pinned pinCode opinion
    secretary
    sessions_per_day cookies_count author authorize title key
    api id keyword tokens_left password_length""".split()


@pytest.mark.parametrize("name", SENSITIVE + WRITTEN)
def test_sensitive_names(name: str) -> None:
    """Names that may carry a credential are known in every way of writing them."""
    assert is_sensitive(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_names(name: str) -> None:
    """A name that only resembles one is let through."""
    assert not is_sensitive(name)


@given(st.text(max_size=30))
def test_any_name_is_judged(name: str) -> None:
    """Any text is a name that can be judged."""
    assert is_sensitive(name) in (True, False)


TOOL = Tool(
    id="t",
    input_schema={
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "time"},
            "when": {"type": "string", "format": "date-time"},
            "mail": {"type": "string", "format": "email"},
            "kind": {"enum": ["a", "b"]},
            "part": {"$ref": "#/$defs/part"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "user": {"type": "string"},
        },
        "$defs": {"part": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
        "required": ["n", "day", "user"],
        "x-internal": "host",
        "minProperties": 2,
        "dependentRequired": {"n": ["user"]},
    },
    system_arguments=("user",),
)


def test_user_schema_hides_system_arguments() -> None:
    """A model sees no system argument, required or not, and no extension of the root."""
    shown = user_schema(TOOL)
    assert "user" not in shown["properties"]
    assert shown["required"] == ["n", "day"]
    assert "x-internal" not in shown
    assert TOOL.input_schema["required"] == ["n", "day", "user"]


def test_partial_schema_asks_for_nothing() -> None:
    """Given arguments are checked one by one: none is required, none is added."""
    schema = partial_schema(TOOL)
    assert "required" not in schema
    assert schema["additionalProperties"] is False
    assert "minProperties" not in schema
    assert "dependentRequired" not in schema


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"n": 3}, {"day": "2028-02-29"}, {"at": "23:59"}, {"when": "2026-03-10T09:00:00+01:00"},
        {"mail": "a@example.com"}, {"kind": "b"}, {"part": {"x": 1.5}}, {"tags": ["x", "y"]},
    ],
)  # fmt: skip
def test_good_arguments(arguments) -> None:
    """What the schema takes is taken, whatever else is not given."""
    assert check_arguments(TOOL, arguments) == ()


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        ({"n": "3"}, "ARGUMENT_SCHEMA", "n"),
        ({"n": 1.5}, "ARGUMENT_SCHEMA", "n"),
        ({"n": True}, "ARGUMENT_SCHEMA", "n"),
        ({"n": 0}, "ARGUMENT_SCHEMA", "n"),
        ({"day": "2026-02-29"}, "ARGUMENT_SCHEMA", "day"),
        ({"day": "10/03/2026"}, "ARGUMENT_SCHEMA", "day"),
        ({"at": "24:00"}, "ARGUMENT_SCHEMA", "at"),
        ({"at": "09:00:00"}, "ARGUMENT_SCHEMA", "at"),
        ({"when": "2026-03-10"}, "ARGUMENT_SCHEMA", "when"),
        ({"mail": "@"}, "ARGUMENT_SCHEMA", "mail"),
        ({"kind": "c"}, "ARGUMENT_SCHEMA", "kind"),
        ({"part": {}}, "ARGUMENT_SCHEMA", "part"),
        ({"tags": "x"}, "ARGUMENT_SCHEMA", "tags"),
        ({"user": "u1"}, "SYSTEM_ARGUMENT", "user"),
        ({"token": "x"}, "SENSITIVE_ARGUMENT", "token"),
        ({"tags": [{"password": "x"}]}, "SENSITIVE_ARGUMENT", "password"),
        ({"other": 1}, "UNKNOWN_ARGUMENT", "other"),
        ([1], "MALFORMED_ANSWER", "t"),
        (None, "MALFORMED_ANSWER", "t"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, code: str, name: str) -> None:
    """What breaks a rule is told with its code and name, and nothing is coerced."""
    found = check_arguments(TOOL, arguments)
    assert (code, name) in {(r.code, r.name) for r in found}
    assert all("t" in r.message and "\n" not in r.message for r in found)


def test_a_remote_reference_is_never_fetched() -> None:
    """A reference to elsewhere is refused when a catalog is read, and a check does not follow it."""
    schema = {"properties": {"a": {"$ref": "https://example.com/schema.json"}}}
    assert "must stay inside the schema" in schema_problem(schema)
    with pytest.raises(Exception, match="Unresolvable"):
        check_arguments(Tool(id="t", input_schema=schema), {"a": 1})


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"properties": {"a": {"type": "string"}}}, None),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["a"]}, None),
        ({}, None),
        ("x", "must be a mapping, got str"),
        ({"type": "string"}, "type must be object"),
        ({"properties": []}, "properties"),
        ({"properties": {"a": 3}}, "properties.a"),
        ({"properties": {"a": {"type": "text"}}}, "properties.a.type"),
        ({"properties": {"a": {"enum": "x"}}}, "properties.a.enum"),
        ({"properties": {"a": {"minimum": "x"}}}, "properties.a.minimum"),
        ({"required": "a"}, "required"),
        ({"required": [["a"]]}, "required"),
        ({"properties": {"a": {}}, "required": ["b"]}, "required names 'b'"),
        ({"description": 3}, "description"),
    ],
)  # fmt: skip
def test_schema_problem(schema, says: str | None) -> None:
    """What is no JSON Schema of an object is told in one line that names the place."""
    found = schema_problem(schema)
    if says is None:
        assert found is None
    else:
        assert says in found
        assert "\n" not in found


def test_the_fast_check_agrees_with_the_meta_schema(monkeypatch, catalog, booking) -> None:
    """Schemas that are settled without the meta-schema are settled alike by it."""
    from jsonschema import Draft202012Validator

    for tool in (*catalog, *booking):
        assert schema_problem(tool.input_schema) is None
        assert Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(dict(tool.input_schema))


def test_missing_arguments() -> None:
    """Required user arguments that were not given are named as JSON pointers; null counts as given."""
    assert missing_arguments(TOOL, {}) == ("/n", "/day")
    assert missing_arguments(TOOL, {"n": None, "day": "x"}) == ()


def test_nested_names() -> None:
    """All member names inside a value are found, at any depth."""
    assert list(nested_names({"a": [{"b": {"c": 1}}, 2]})) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (
            valid_date,
            ["2026-01-31", 5, None],
            ["2026-1-31", "2026-01-32", "", "٢٠٢٦-٠١-٠١x", "2026-01-01T00:00"],
        ),
        (valid_time, ["00:00", "23:59", 9], ["24:00", "9:00", "09:60", "09:00:00", "9am"]),
        (valid_datetime, ["2026-01-01T09:00", "2026-01-01T09:00Z", 3], ["2026-01-01", "noon", ""]),
    ],
)
def test_formats(check, good, bad) -> None:
    """Formats are checked by one rule, whatever else is installed; what is not text passes."""
    assert all(check(value) for value in good)
    assert not any(check(value) for value in bad)


def test_root_alternatives_that_require_do_not_refuse_partial_arguments() -> None:
    """A root anyOf of required lists says what a whole call needs, not what a partial one may give."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a", "b"]}],
    }
    assert check_arguments(Tool(id="t", input_schema=schema), {"a": "x"}) == ()
