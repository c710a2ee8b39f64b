"""The catalog: loading, every refusal, hash, subsets, compression, saving, wire names."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.catalog import NO_TOOL, Catalog, wire_name
from mono_router.reading import CatalogError
from mono_router.records import Example, Skill, Tool

HERE = Path(__file__).parent


def loads(tmp_path: Path, text: str, **options) -> Catalog:
    (tmp_path / "catalog.yaml").write_text(text, encoding="utf-8")
    return Catalog.load(tmp_path, **options)


def test_six_tools(catalog) -> None:
    """The catalog of the tests holds six tools, one of its skills has two, and fields have defaults."""
    assert catalog.ids == (
        "calendar.create", "calendar.list", "clock.now", "light.switch", "message.send", "weather.forecast",
    )  # fmt: skip
    assert catalog.skills["calendar"].tools == ("calendar.create", "calendar.list")
    assert catalog["calendar.list"].effects == "read"
    assert catalog["calendar.list"].modes == ("tool", "think", "agent")
    assert catalog["calendar.list"].boundaries == ("not for reminders without a time",)
    assert catalog["clock.now"].skill == "clock.now"
    assert catalog["message.send"].confirm
    assert catalog.warnings == ()
    assert repr(catalog) == "Catalog(6 tools, 5 skills)"


def test_order_changes_nothing(catalog) -> None:
    """Tools stand in id order however they were given, and the hash says the same."""
    again = Catalog(reversed(catalog.tools), reversed(list(catalog.skills.values())))
    assert again.ids == catalog.ids
    assert again.hash == catalog.hash
    assert catalog.hash.startswith("sha256:")


def test_any_change_changes_the_hash(catalog) -> None:
    """A changed description, hint, weight or schema is another catalog."""
    for change in (
        {"description": "x"},
        {"hints": ("x",)},
        {"keywords": {"x": 2.0}},
        {"input_schema": {"properties": {"x": {}}}},
        {"effects": "write"},
        {"run": {"python": "a:b"}},
    ):
        tools = [dataclasses.replace(t, **change) if t.id == "clock.now" else t for t in catalog]
        assert Catalog(tools, catalog.skills.values()).hash != catalog.hash, change


PROBLEMS = {
    "unknown key": (
        "tools: [{id: a, description: A, hint: [x]}]",
        "a: unknown key 'hint', did you mean 'hints'?",
    ),
    "unknown top key": ("tool: []\ntools: [{id: a, description: A}]", "unknown key 'tool'"),
    "duplicate id": ("tools: [{id: a, description: A}, {id: a, description: B}]", "a: duplicate id"),
    "duplicate skill": (
        "skills: [{id: s, description: S, tools: [{id: a, description: A}]},"
        " {id: s, description: S, tools: [{id: b, description: B}]}]",
        "s: duplicate skill id",
    ),
    "no id": ("tools: [{description: A}]", "a tool needs an id"),
    "bad id": ("tools: [{id: 'a b', description: A}]", "a b: id must match"),
    "number id": ("tools: [{id: 12, description: A}]", "a tool needs an id, got 12"),
    "empty description": ("tools: [{id: a, description: ' '}]", "a: empty description"),
    "no tools in skill": ("skills: [{id: s, description: S}]", "s: a skill needs at least one tool"),
    "no JSON Schema": (
        "tools: [{id: a, description: A, input_schema: {properties: {x: {type: strin}}}}]",
        "a: input_schema is no JSON Schema: properties.x.type",
    ),
    "schema is a list": ("tools: [{id: a, description: A, input_schema: []}]", "must be a mapping, got list"),
    "schema is text": ("tools: [{id: a, description: A, input_schema: ''}]", "must be a mapping, got str"),
    "schema of an array": (
        "tools: [{id: a, description: A, input_schema: {type: array}}]",
        "type must be object",
    ),
    "required unhashable": ("tools: [{id: a, description: A, input_schema: {required: [[x]]}}]", "required"),
    "required unknown": (
        "tools: [{id: a, description: A, input_schema: {properties: {}, required: [x]}}]",
        "required names 'x', which is not in properties",
    ),
    "remote reference": (
        "tools: [{id: a, description: A, input_schema: {properties: {x: {$ref: 'https://e.com/s'}}}}]",
        "$ref must stay inside the schema",
    ),
    "example of another": (
        "tools: [{id: a, description: A, examples: [{message: hi, tool: b}]}]",
        "a: an example names another tool, 'b'",
    ),
    "example without message": (
        "tools: [{id: a, description: A, examples: [{mode: tool}]}]",
        "needs a message",
    ),
    "example mode": (
        "tools: [{id: a, description: A, examples: [{message: x, mode: run}]}]",
        "mode must be of",
    ),
    "example arguments": (
        "tools: [{id: a, description: A, examples: [{message: x, arguments: [1]}]}]",
        "arguments must be a mapping",
    ),
    "sensitive": (
        "tools: [{id: a, description: A, input_schema: {properties: {apiKey: {type: string}}}}]",
        "a: argument 'apiKey' may carry a credential",
    ),
    "system argument": (
        "tools: [{id: a, description: A, system_arguments: [u]}]",
        "'u' is not in input_schema",
    ),
    "modes": ("tools: [{id: a, description: A, modes: [walk]}]", "modes must be of tool, think, agent"),
    "effects": ("tools: [{id: a, description: A, effects: delete}]", "effects must be read or write"),
    "confirm": ("tools: [{id: a, description: A, confirm: yes}]", "confirm must be true or false, got 'yes'"),
    "run": ("tools: [{id: a, description: A, run: x}]", "run must be a mapping"),
    "hints": ("tools: [{id: a, description: A, hints: x}]", "hints must be a list of non-empty texts"),
    "keywords": (
        "tools: [{id: a, description: A, keywords: {x: 0}}]",
        "keywords must map words to weights > 0",
    ),
    "title": ("tools: [{id: a, description: A, title: 3}]", "title must be text"),
    "tools no list": ("tools: {id: a}", "tools must be a list"),
    "tool no mapping": ("tools: [a]", "tools must hold mappings, got 'a'"),
    "version": ("version: 2\ntools: [{id: a, description: A}]", "version must be 1, got 2"),
    "list": ("- a", "must be a mapping with 'skills' or 'tools'"),
    "broken": ("tools: [", "catalog.yaml:"),
    "nothing": ("version: 1", "no tools"),
    "empty file": ("", "must be a mapping"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_strict_problems(tmp_path, name: str) -> None:
    """Each fault of a YAML catalog is one line that names file, line and id."""
    text, says = PROBLEMS[name]
    with pytest.raises(CatalogError, match=re.escape(says)) as caught:
        loads(tmp_path, text)
    for problem in caught.value.problems:
        assert "\n" not in problem
        if name != "nothing":
            assert re.match(r".*catalog\.yaml:\d+", problem), problem


def test_all_problems_at_once(tmp_path) -> None:
    """Every fault of a catalog is told in one error, each with its own line."""
    text = "tools:\n  - {id: a, description: ''}\n  - {id: b, description: B, effects: no}\n  - {id: 'c d'}\n"
    with pytest.raises(CatalogError) as caught:
        loads(tmp_path, text)
    assert [re.search(r"yaml:(\d+): (.*?):", p).groups() for p in caught.value.problems] == [
        ("2", "a"), ("3", "b"), ("4", "c d"), ("4", "c d"),
    ]  # fmt: skip


def test_a_folder_of_files_is_one_catalog(tmp_path) -> None:
    """A folder with catalog/*.yaml is read whole, and a duplicate across files is found."""
    (tmp_path / "catalog").mkdir()
    for name in "ab":
        (tmp_path / "catalog" / f"{name}.yaml").write_text(f"tools: [{{id: {name}, description: D}}]")
    assert Catalog.load(tmp_path).ids == ("a", "b")
    (tmp_path / "catalog" / "c.yaml").write_text("tools: [{id: a, description: D}]")
    with pytest.raises(CatalogError, match=r"c\.yaml:1: a: duplicate id"):
        Catalog.load(tmp_path)


def test_missing_path(tmp_path) -> None:
    """A path without a catalog says what was looked for."""
    with pytest.raises(FileNotFoundError, match=r"no catalog \(looked for"):
        Catalog.load(tmp_path)


LENIENT = [
    {"id": "any id at all!", "description": ""},
    {"id": "pay", "description": "Pay", "input_schema": {"properties": {"password": {"type": "string"}}}},
    {"id": "odd", "description": "Odd", "input_schema": {"properties": {"n": {"type": "float"}, "m": {}}}},
    {
        "id": "fly",
        "description": "Fly",
        "examples": ["to Rome", "to Rome"],
        "examples_by_language": {"en": ["to Rome"]},
    },
    {"id": "fly~2", "description": "Fly again", "variant_of": "fly"},
]


@pytest.mark.parametrize("name", ["catalog.jsonl", "catalog.jsonl.gz"])
def test_jsonl_is_lenient(tmp_path, name: str) -> None:
    """JSON lines keep what can be read, and say what was changed."""
    text = "".join(json.dumps(record) + "\n" for record in LENIENT) + "\n"
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    catalog = Catalog.load(tmp_path)
    assert catalog.ids == ("any id at all!", "fly", "odd", "pay")
    assert catalog.variants == {"fly~2": "fly"}
    assert catalog["pay"].system_arguments == ("password",)
    assert catalog["odd"].input_schema["properties"] == {"n": {}, "m": {}}
    assert catalog["fly"].examples == (Example(message="to Rome", language="en"),)
    assert [re.search(r":(\d): (.*?): ", w).groups() for w in catalog.warnings] == [
        ("1", "any id at all!"), ("2", "pay"), ("3", "odd"),
    ]  # fmt: skip
    assert Catalog.load(tmp_path, variants="keep").ids[2] == "fly~2"
    with pytest.raises(CatalogError):
        Catalog.load(tmp_path, strict=True)


def test_jsonl_that_is_not_json(tmp_path) -> None:
    """A broken line is an error with its number, also where reading is lenient."""
    (tmp_path / "catalog.jsonl").write_text('{"id": "a", "description": "A"}\n{"id": \n[1]\n')
    with pytest.raises(CatalogError) as caught:
        Catalog.load(tmp_path)
    assert [re.search(r"jsonl:(\d)", p).group(1) for p in caught.value.problems] == ["2", "3"]


def test_unknown_variants_option(tmp_path) -> None:
    """Variants are merged or kept, nothing else."""
    with pytest.raises(ValueError, match="variants must be 'merge' or 'keep'"):
        Catalog.load(tmp_path, variants="drop")


def test_loading_never_runs(tmp_path) -> None:
    """Loading a catalog does not import what ``run`` names."""
    loads(tmp_path, "tools: [{id: a, description: A, run: {python: 'antigravity:x'}}]")
    import sys

    assert "antigravity" not in sys.modules


def test_subset_and_unknown(catalog) -> None:
    """A subset holds those tools alone with their skills; an unknown id is named."""
    part = catalog.subset(["clock.now", "calendar.list"])
    assert part.ids == ("calendar.list", "clock.now")
    assert part.skills["calendar"].tools == ("calendar.list",)
    with pytest.raises(KeyError, match="unknown tool 'nope'"):
        catalog.subset(["nope"])


def test_duplicate_objects() -> None:
    """Two tools of one id are refused, with the id."""
    with pytest.raises(CatalogError, match="a: duplicate id"):
        Catalog([Tool(id="a"), Tool(id="a")])


def test_with_examples(catalog) -> None:
    """A few-example study keeps the first n, of one language where that is asked for."""
    first = catalog.with_examples(limit=1)
    assert [e.message for e in first["calendar.create"].examples] == ["book me a meeting with Juan at 4pm"]
    spanish = catalog.with_examples(limit=9, language="es")["calendar.create"].examples
    assert [e.language for e in spanish] == [None, "es"]
    assert not catalog.with_examples(limit=0)["weather.forecast"].examples
    with pytest.raises(ValueError, match="limit must be >= 0"):
        catalog.with_examples(limit=-1)


def test_compressed(catalog) -> None:
    """The compressed catalog is one JSON object a line: id, title, description and examples, no more."""
    shown = catalog.compressed(examples=1)
    entries = [json.loads(line) for line in shown.text.splitlines()]
    assert [e["id"] for e in entries] == list(catalog.ids)
    assert {key for e in entries for key in e} == {"id", "title", "description", "examples"}
    assert all(len(e.get("examples", [])) <= 1 for e in entries)
    assert shown.n_chars == len(shown.text)
    assert shown.n_tools == 6
    assert 0 < shown.n_tokens <= shown.n_chars
    skills = [json.loads(line) for line in catalog.compressed(level="skill").text.splitlines()]
    assert [s["id"] for s in skills] == sorted(catalog.skills)
    assert skills[0]["not_for"] == ["not for reminders without a time"]
    few = catalog.compressed(ids=["message.send", "clock.now"]).text
    assert [json.loads(line)["id"] for line in few.splitlines()] == ["clock.now", "message.send"]
    for options, says in (({"examples": 4}, "examples must be in"), ({"level": "page"}, "level must be")):
        with pytest.raises(ValueError, match=says):
            catalog.compressed(**options)


def test_saved_yaml_loads_the_same(tmp_path, catalog, booking) -> None:
    """A catalog written as YAML and read back has the same hash."""
    for one in (catalog, booking):
        one.save(tmp_path / "saved.yaml")
        assert Catalog.load(tmp_path / "saved.yaml").hash == one.hash


def test_saved_jsonl_loads_the_same(tmp_path, catalog) -> None:
    """A catalog written as JSON lines and read back has the same tools."""
    catalog.save(tmp_path / "saved.jsonl")
    again = Catalog.load(tmp_path / "saved.jsonl")
    assert list(again) == list(catalog)


WORD = st.text("abc é؟本", min_size=1, max_size=6).filter(str.strip)
MODES = st.sampled_from([("tool",), ("tool", "think"), ("tool", "think", "agent")])


@st.composite
def catalogs(draw) -> Catalog:
    skills = [
        Skill(
            id=f"s{i}",
            description=draw(WORD),
            modes=draw(MODES),
            boundaries=tuple(draw(st.lists(WORD, max_size=1))),
        )
        for i in range(draw(st.integers(0, 2)))
    ]
    tools = []
    for i in range(draw(st.integers(1, 4))):
        skill = draw(st.sampled_from([None, *skills]))
        own = draw(st.booleans())
        tools.append(
            Tool(
                id=draw(st.sampled_from([f"t{i}", f"a.b{i}", f"s{i}"])) if skill is None else f"u{i}",
                description=draw(WORD),
                title=draw(st.just("") | WORD),
                hints=tuple(draw(st.lists(WORD, max_size=2))),
                keywords=draw(st.dictionaries(WORD, st.floats(0.5, 3), max_size=2)),
                skill=skill.id if skill else "",
                modes=draw(MODES) if own or skill is None else skill.modes,
                boundaries=tuple(draw(st.lists(WORD, max_size=1)))
                if own or skill is None
                else skill.boundaries,
                effects=draw(st.sampled_from(["read", "write"])),
                examples=tuple(Example(message=m) for m in draw(st.lists(WORD, max_size=2, unique=True))),
            )
        )
    taken = {tool.skill for tool in tools if tool.skill != tool.id}
    return Catalog([t for t in tools if t.skill != t.id or t.id not in taken], skills)


@given(catalogs())
def test_any_catalog_saved_loads_the_same(tmp_path_factory, catalog: Catalog) -> None:
    """Whatever a catalog holds, its YAML gives the same hash."""
    path = tmp_path_factory.mktemp("saved") / "catalog.yaml"
    catalog.save(path)
    assert Catalog.load(path).hash == catalog.hash


IDS = st.text(max_size=140) | st.text("ab.-_x0123456789/ ", min_size=1, max_size=140)


@given(st.lists(IDS | st.just("no_tool"), min_size=2, max_size=8, unique=True))
def test_wire_names_are_injective(ids: list[str]) -> None:
    """No two ids share a wire name, every wire name fits an API, none is that of "no tool"."""
    names = [wire_name(i) for i in ids] + [wire_name(n) for i in ids if (n := wire_name(i)) not in ids]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,128}", name) for name in names)
    assert NO_TOOL not in names
    assert names[: len(ids)] == [wire_name(i) for i in ids]
