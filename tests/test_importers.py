"""Tool lists of other systems become catalogs, and nothing is lost in silence."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mono_router.catalog import Catalog
from mono_router.cli import main
from mono_router.importers import fitting_ids
from mono_router.reading import ID_PATTERN, CatalogError
from mono_router.schema import check_arguments, schema_problem

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
MCP = {
    "jsonrpc": "2.0",
    "id": 1,
    "result": {
        "tools": [
            {
                "name": "get weather",
                "description": "Weather of a city",
                "inputSchema": SCHEMA,
                "outputSchema": {"type": "object"},
                "annotations": {"title": "Weather", "readOnlyHint": True},
            },
            {
                "name": "files/delete",
                "title": "Delete a file",
                "inputSchema": {"type": "object", "properties": {"path": {}, "api_key": {"type": "string"}}},
                "annotations": {"readOnlyHint": False, "destructiveHint": True},
            },
            {"name": "get_weather", "description": "Another", "inputSchema": {"type": "object"}},
        ],
        "nextCursor": "page2",
    },
}


FUNCTION = {"name": "f", "description": "F", "parameters": SCHEMA, "strict": True}


def test_mcp() -> None:
    """Titles, schemas and effects are kept; ids are mapped; what is left out is told."""
    catalog = Catalog.from_mcp(MCP)
    assert catalog.ids == ("files/delete", "get_weather", "get_weather-2")
    weather = catalog["get_weather-2"]
    assert (weather.title, weather.effects, dict(weather.input_schema)) == ("Weather", "read", SCHEMA)
    delete = catalog["files/delete"]
    assert (delete.effects, delete.confirm, delete.system_arguments) == ("write", True, ("api_key",))
    assert delete.description == "Delete a file"
    told = "\n".join(catalog.warnings)
    for text in (
        "get weather: is no id here, renamed get_weather-2",
        "left out: outputSchema (1 tool, first get weather)",
        "says nothing of its effects: taken as write (1 tool, first get_weather)",
        "has no description: its name stands for it (1 tool, first files/delete)",
        "nextCursor names a further page",
        "'api_key' may carry a credential",
    ):
        assert text in told


@pytest.mark.parametrize(
    "listed",
    [
        [{"type": "function", "function": FUNCTION}],
        [{"type": "function", **FUNCTION}],
        {"tools": [FUNCTION]},
        [{"type": "namespace", "name": "n", "tools": [{"type": "function", **FUNCTION}]}],
    ],
    ids=["chat", "responses", "functions", "namespace"],
)
def test_openai(listed: Any) -> None:
    """Every form in which a function is offered gives the same tool."""
    catalog = Catalog.from_openai(listed)
    assert dict(catalog["f"].input_schema) == SCHEMA
    assert catalog.warnings == ("left out: strict (1 tool, first f)",)


def test_tools_that_run_elsewhere_are_told() -> None:
    """A provider's own tools have no place in a catalog, and are named."""
    openai = Catalog.from_openai([{"type": "web_search"}, {"type": "function", "name": "f"}])
    assert openai.ids == ("f",)
    assert "tool 0: left out: a web_search tool runs elsewhere" in openai.warnings
    anthropic = Catalog.from_anthropic(
        [{"type": "bash_20250124", "name": "bash"}, {"name": "f", "description": "F", "input_schema": SCHEMA}]
    )
    assert dict(anthropic["f"].input_schema) == SCHEMA
    assert anthropic.warnings == ("bash: left out: a bash_20250124 tool runs elsewhere",)


TEXT = {"type": "string"}
OPENAPI: dict[str, Any] = {
    "openapi": "3.0.3",
    "servers": [
        {"url": "https://{region}.example.com/v1", "variables": {"region": {"default": "eu"}}},
    ],
    "tags": [{"name": "pet shop", "description": "Everything about pets"}],
    "security": [{"key": []}],
    "paths": {
        "/pets/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {
                "tags": ["pet shop"],
                "operationId": "get pet",
                "summary": "One pet",
                "parameters": [
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": TEXT}},
                    {"name": "X-Trace", "in": "header", "schema": TEXT},
                    {"name": "sid", "in": "cookie", "schema": {}},
                ],
            },
            "put": {
                "tags": ["pet shop"],
                "operationId": "putPet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
            },
            "delete": {"operationId": "del", "deprecated": True, "security": []},
        },
        "/photo": {"post": {"requestBody": {"content": {"image/png": {}}}, "security": [{"login": ["x"]}]}},
    },
    "components": {
        "parameters": {
            "id": {
                "name": "id", "in": "path", "required": True,
                "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            }
        },
        "schemas": {
            "Pet": {
                "allOf": [
                    {"$ref": "#/components/schemas/Base"},
                    {"properties": {"parent": {"$ref": "#/components/schemas/Pet"}, "id": TEXT}},
                ]
            },
            "Base": {
                "required": ["name"],
                "properties": {"name": {"type": "string", "nullable": True}, "example": {"type": "integer"}},
            },
        },
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "login": {"type": "oauth2", "flows": {}},
        },
    },
}  # fmt: skip


def test_openapi() -> None:
    """Each operation is a tool whose schema is valid and whose values all have a place."""
    catalog = Catalog.from_openapi(OPENAPI)
    assert catalog.ids == ("del", "get_pet", "post_photo", "putPet")
    assert catalog.skills["pet_shop"].description == "Everything about pets"
    assert catalog.skills["pet_shop"].tools == ("get_pet", "putPet")
    get = catalog["get_pet"]
    assert get.run == {
        "http": {
            "method": "GET",
            "url": "https://eu.example.com/v1/pets/{id}",
            "path": {"id": {"argument": "id"}},
            "query": {"fields": {"argument": "fields"}},
            "headers": {"X-Trace": {"argument": "X-Trace"}},
            "auth": {"type": "api_key", "env": "KEY", "header": "X-Key"},
        }
    }
    assert (get.effects, catalog["putPet"].effects, catalog["del"].confirm) == ("read", "write", True)
    assert "auth" not in catalog["del"].run["http"]
    assert catalog["post_photo"].run["http"]["auth"] == {"type": "bearer", "env": "LOGIN_TOKEN"}
    put = catalog["putPet"]
    assert put.required == ("id", "name")
    assert put.run["http"]["body"] == {
        "parent": {"argument": "parent"}, "id": {"argument": "body_id"},
        "name": {"argument": "name"}, "example": {"argument": "example"},
    }  # fmt: skip
    assert not check_arguments(
        put, {"id": 3, "name": None, "parent": {"name": "Rex", "parent": {"name": "A"}}}
    )
    assert check_arguments(put, {"id": 0, "name": "Rex"})  # 0 is excluded
    assert check_arguments(put, {"parent": {"parent": {"id": 4}}})  # deep inside a recursive schema
    for tool in catalog:
        assert schema_problem(tool.input_schema) is None
    told = "\n".join(catalog.warnings)
    for text in (
        "get pet: left out: cookie parameter sid",
        "get pet: is no id here, renamed get_pet",
        "is marked as deprecated (1 tool, first del)",
        "left out: a body of image/png (1 tool, first post_photo)",
    ):
        assert text in told


def test_http_tools_of_openapi_can_run() -> None:
    """What an import says of calls is what the runtime reads."""
    from mono_router.runtime.manifest import endpoint_problems
    from mono_router.runtime.mapping import mapping_problems

    for tool in Catalog.from_openapi(OPENAPI):
        assert endpoint_problems(tool) == []
        assert mapping_problems(tool) == []


@pytest.mark.parametrize(
    ("read", "source", "problem"),
    [
        (Catalog.from_mcp, {"tools": 3}, "MCP list must be a list of tools, or hold one under 'tools'"),
        (Catalog.from_openai, [{"name": ""}, 7], "OpenAI tool 0: needs a name"),
        (Catalog.from_anthropic, [{"description": "x"}], "Anthropic tool 0: needs a name"),
        (Catalog.from_mcp, [], "MCP list: no tools"),
        (
            Catalog.from_openapi,
            {"swagger": "2.0"},
            "an OpenAPI 3.x document is needed, got Swagger 2.0, convert it first",
        ),
        (
            Catalog.from_openapi,
            {"openapi": "3.1.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "#/components/x"}]}}}},
            "get_a: reference #/components/x leads nowhere",
        ),
        (
            Catalog.from_openapi,
            {"openapi": "3.1.0", "paths": {"/a": {"$ref": "other.yaml#/a"}}},
            "reference other.yaml#/a lies in another document",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_lists(read: Any, source: Any, problem: str) -> None:
    """What is no list of tools is said in one line."""
    with pytest.raises(CatalogError) as error:
        read(source)
    assert problem in str(error.value)


@given(st.lists(st.text(max_size=140), max_size=12, unique=True))
def test_ids_always_fit_and_never_meet(names: list[str]) -> None:
    """Each name gets an id that our catalogs allow, its own where it is one, and no two the same."""
    found = fitting_ids(names)
    assert len(set(found)) == len(names)
    assert all(ID_PATTERN.fullmatch(made) for made in found)
    assert all(made == name for name, made in zip(names, found, strict=True) if ID_PATTERN.fullmatch(name))


KEYS = ("name", "tools", "type", "$ref", "paths", "get", "schema", "properties", "x")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(string.ascii_letters, max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_any_json_gives_a_catalog_or_one_kind_of_error(source: Any) -> None:
    """No document, however odd, breaks an importer."""
    for read in (Catalog.from_mcp, Catalog.from_openai, Catalog.from_anthropic, Catalog.from_openapi):
        for document in (source, {"tools": source}, {"openapi": "3.1.0", "paths": {"/a": source}}):
            try:
                catalog = read(document)
            except CatalogError:
                continue
            assert len(catalog) > 0


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    """``mono-router import`` writes a catalog that loads, says what changed, and never writes over a file."""
    (tmp_path / "tools.json").write_text(json.dumps(MCP), encoding="utf-8")
    out = tmp_path / "my" / f"catalog{suffix}"
    line = ["import", "mcp", str(tmp_path / "tools.json"), "--out", str(out)]
    assert main(line) == 0
    assert "note: get weather: is no id here, renamed get_weather-2" in capsys.readouterr().out
    assert Catalog.load(out).ids == Catalog.from_mcp(MCP).ids
    assert Catalog.load(out).hash == Catalog.from_mcp(MCP).hash
    assert main(line) == 2
    assert "is there already" in capsys.readouterr().err
    assert main([*line, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tools"] == 3


def test_openapi_in_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An OpenAPI document may be YAML; a broken one is told by file and line."""
    from mono_router.documents import dump_yaml

    spec = tmp_path / "api.yaml"
    spec.write_text(dump_yaml(OPENAPI), encoding="utf-8")
    out = str(tmp_path / "catalog.yaml")
    assert main(["import", "openapi", str(spec), "--out", out]) == 0
    spec.write_text("openapi: [", encoding="utf-8")
    assert main(["import", "openapi", str(spec), "--out", out, "--force"]) == 2
    assert capsys.readouterr().err.startswith(f"mono-router: {spec}:")


def test_a_public_list_of_mcp_tools(shared_data: Path) -> None:
    """527 tools of 70 real servers go through the MCP form and come back with their schemas."""
    original = Catalog.load(shared_data / "livemcpbench")
    listed = [
        {"name": tool.id, "description": tool.description, "inputSchema": dict(tool.input_schema)}
        for tool in original
    ]
    catalog = Catalog.from_mcp({"tools": listed})
    assert len(catalog) == len(original) == 527
    for tool, made in zip(original, fitting_ids(original.ids), strict=True):
        assert dict(catalog[made].properties) == dict(tool.properties)
