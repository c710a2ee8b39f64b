"""Where values come from: sources read and checked at load, resolved at the call."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.records import Tool
from mono_router.runtime.answers import AnswerError, pick_part, plain_answer
from mono_router.runtime.calls import CallContext, ToolAnswer, ToolError
from mono_router.runtime.mapping import CallValues, dependency_problems, mapping_problems
from mono_router.runtime.sources import read_source
from mono_router.schema import pointer, pointer_parts


def tool_of(id_: str, system: Mapping[str, Any] | None = None, *, user: str = "", **more: Any) -> Tool:
    """A Python tool whose required system arguments have these sources."""
    names = list(system or {})
    run: dict[str, Any] = {"python": "m:f"}
    given = {name: source for name, source in (system or {}).items() if source is not None}
    if given:
        run["system"] = given
    return Tool(
        id=id_,
        input_schema={
            "properties": {name: {} for name in (*user.split(), *names)},
            "required": more.pop("required", names),
        },
        system_arguments=tuple(names),
        run=more.pop("run", run),
        **more,
    )


def runs(**answers: Any) -> tuple[CallContext, list[tuple[str, Any]]]:
    """A context whose tools give these answers, and what was run."""
    asked: list[tuple[str, Any]] = []

    def run_tool(tool_id: str, arguments: Mapping[str, Any]) -> Any:
        asked.append((tool_id, dict(arguments)))
        answer = answers[tool_id]
        if isinstance(answer, ToolError):
            raise answer
        return answer

    return CallContext(facts={"user_id": "u1", "none": None}, run_tool=run_tool), asked


def values(tool: Tool, context: CallContext, **arguments: Any) -> dict[str, Any]:
    return CallValues(tool, arguments, context).all()


# --- read and checked ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("user_id", "must be {argument: name}"),
        ({}, "must be one of {argument: name}"),
        ({"argument": "a", "fact": "b"}, "must be one of"),
        ({"env": "KEY"}, "unknown source 'env'"),
        ({"argument": "a", "select": "/x"}, "unknown source 'select'"),
        ({"argument": ""}, "argument must be a name, got ''"),
        ({"fact": 3}, "fact must be a name, got 3"),
        ({"uuid": False}, "uuid must be true"),
        ({"constant": float("nan")}, "JSON compliant"),
        ({"dependency": "a", "select": "id"}, "must be a JSON pointer"),
        ({"dependency": "a", "arguments": {"x": "y"}}, "must be {argument: name}"),
    ],
)
def test_what_is_no_source_is_refused(raw: Any, says: str) -> None:
    """Each kind has one form."""
    with pytest.raises(ValueError, match=says.replace("{", r"\{")):
        read_source(raw)
    tool = tool_of("t", {"s": raw})
    assert [text.startswith("t: run.system.s: ") for text in mapping_problems(tool)] == [True]


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        (tool_of("t", {"s": {"argument": "x"}}, user="y"), ["t: run.system.s: unknown argument 'x'"]),
        (
            tool_of("t", user="y", run={"python": "m:f", "system": {"y": {"uuid": True}}}),
            ["t: run.system.y: 'y' is no system argument"],
        ),
        (
            tool_of("t", run={"python": "m:f", "system": ["s"]}),
            ["t: run.system must map system arguments to sources"],
        ),
        (tool_of("t", run={"http": {"query": ["q"]}}), ["t: run.http.query must map names to sources"]),
        (
            tool_of("t", run={"http": {"query": {"q": {"argument": "x"}}}}),
            ["t: run.http.query.q: unknown argument 'x'"],
        ),
        (
            tool_of("t", user="a b", run={"http": {"query": {"q": {"argument": "a"}}}}),
            ["t: run.http sends argument 'b' nowhere"],
        ),
        (
            tool_of("t", {"s": {"dependency": "d", "arguments": {"x": {"fact": "api_token"}}}}),
            ["t: run.system.s: fact 'api_token' may carry a credential, which no dependency is given"],
        ),
    ],
)
def test_what_a_tool_alone_tells(tool: Tool, says: list[str]) -> None:
    """Unknown arguments, wrong shapes, arguments that would be dropped in silence."""
    assert mapping_problems(tool) == says
    assert set(says) <= set(dependency_problems(Catalog([tool])))


def test_a_dependency_must_be_able_to_run() -> None:
    """Unknown tools, tools that write or wait for a person, and unmapped arguments are told at load."""
    catalog = Catalog(
        [
            tool_of("read", user="name", required=["name"]),
            tool_of("write", effects="write"),
            tool_of("asks", confirm=True),
            tool_of("a", {"s": {"dependency": "gone"}}),
            tool_of("b", {"s": {"dependency": "write"}}),
            tool_of("c", {"s": {"dependency": "read"}}),
            tool_of(
                "d",
                {"s": {"dependency": "read", "arguments": {"name": {"constant": 1}, "x": {"uuid": True}}}},
            ),
            tool_of("e", {"s": {"dependency": "asks"}}),
            tool_of("f", run={"http": {"body": {"x": {"dependency": "read"}}}}),
        ]
    )
    assert dependency_problems(catalog) == [
        "a: run.system.s: unknown tool 'gone'",
        "b: run.system.s: dependency 'write' must be read-only (effects: read)",
        "c: run.system.s: dependency 'read' needs argument 'name', which is not mapped",
        "d: run.system.s: 'x' is no user argument of 'read'",
        "e: run.system.s: dependency 'asks' waits for a confirmation",
        "f: run.http.body.x: dependency 'read' needs argument 'name', which is not mapped",
    ]


def depends(id_: str, *others: str) -> Tool:
    return tool_of(id_, {f"s{i}": {"dependency": other} for i, other in enumerate(others)})


def test_cycles_are_named_once() -> None:
    """A ring of three, a tool that needs itself, a ring behind a chain; a diamond is none."""
    tools = [
        depends("a", "b"),
        depends("b", "c"),
        depends("c", "a"),
        depends("self", "self"),
        depends("z", "a"),
    ]
    assert dependency_problems(Catalog(tools)) == [
        "dependency cycle: a -> b -> c -> a",
        "dependency cycle: self -> self",
    ]
    diamond = [depends("a", "b", "c"), depends("b", "d"), depends("c", "d"), depends("d")]
    assert dependency_problems(Catalog(diamond)) == []
    nested = {"dependency": "d", "arguments": {"x": {"dependency": "a"}}}
    inside = [tool_of("a", {"s": nested}), tool_of("d", user="x")]
    assert dependency_problems(Catalog(inside)) == ["dependency cycle: a -> a"]
    http = [
        tool_of("a", run={"http": {"headers": {"X": {"dependency": "b"}}}}),
        tool_of("b", {"s": {"dependency": "a"}}),
    ]
    assert dependency_problems(Catalog(http)) == ["dependency cycle: a -> b -> a"]
    long = [depends(f"t{i:04}", f"t{i + 1:04}") for i in range(2_000)] + [depends("t2000")]
    assert dependency_problems(Catalog(long)) == []


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"), max_size=3), max_size=6))
def test_a_cycle_is_told_exactly_where_there_is_one(edges: dict[str, set[str]]) -> None:
    """Told iff some tool reaches itself; each cycle that is told is one."""
    tools = [depends(node, *sorted(edges.get(node, ()))) for node in "abcdef"]
    told = [
        text.removeprefix("dependency cycle: ").split(" -> ") for text in dependency_problems(Catalog(tools))
    ]
    reach = {node: set(edges.get(node, ())) for node in "abcdef"}
    for _ in range(6):
        reach = {node: found.union(*(reach[other] for other in found)) for node, found in reach.items()}
    assert bool(told) == any(node in found for node, found in reach.items())
    for cycle in told:
        assert cycle[0] == cycle[-1] == min(cycle)
        assert all(after in edges[before] for before, after in pairwise(cycle))


# --- resolved --------------------------------------------------------------------------------


def test_every_kind_of_source_gives_its_value() -> None:
    """Argument, fact, constant, uuid, dependency; a fact of the same name stands in for none."""
    context, asked = runs(find={"items": [{"id": 7}]})
    tool = tool_of(
        "t",
        {
            "user_id": None,
            "copy": {"argument": "name"},
            "kind": {"constant": {"a": 1}},
            "key": {"uuid": True},
            "found": {
                "dependency": "find",
                "select": "/items/0/id",
                "arguments": {
                    "name": {"argument": "name"},
                    "user": {"fact": "user_id"},
                    "gone": {"argument": "x"},
                },
            },
        },
        user="name x",
    )
    assert mapping_problems(tool) == []
    got = values(tool, context, name="Ana", user_id="forged")
    key = got.pop("key")
    assert len(key) == 36
    assert got == {"name": "Ana", "user_id": "u1", "copy": "Ana", "kind": {"a": 1}, "found": 7}
    assert asked == [("find", {"name": "Ana", "user": "u1"})]


def test_a_dependency_runs_once_a_call() -> None:
    """Two arguments that need the same answer share it; other arguments ask anew."""
    context, asked = runs(find=ToolAnswer(value={"a": 1, "b": 2}))
    same = {name: {"dependency": "find", "select": f"/{name}"} for name in ("a", "b")}
    tool = tool_of("t", {**same, "c": {"dependency": "find", "arguments": {"x": {"constant": 1}}}})
    assert values(tool, context) == {"a": 1, "b": 2, "c": {"a": 1, "b": 2}}
    assert asked == [("find", {}), ("find", {"x": 1})]


def test_optional_system_arguments_may_have_no_value() -> None:
    """An absent or null fact leaves an optional argument out, and stops a required one by its name."""
    context, _ = runs()
    tool = tool_of("t", {"user_id": None, "none": None, "gone": None}, required=["user_id"])
    assert values(tool, context) == {"user_id": "u1"}
    tool = tool_of("t", {"gone": None})
    with pytest.raises(
        ToolError, match="DEPENDENCY_UNRESOLVED: t: gone has no value: fact 'gone' is not there"
    ):
        values(tool, context)


def test_a_failed_dependency_keeps_its_code() -> None:
    """A wrong credential behind a dependency is a wrong credential, and both tools are named."""
    context, _ = runs(find=ToolError("AUTH_REJECTED", "find was refused", retries=1), empty={"id": None})
    with pytest.raises(ToolError, match="AUTH_REJECTED: t needs find: find was refused") as caught:
        values(tool_of("t", {"s": {"dependency": "find"}}), context)
    assert caught.value.retries == 1
    for select in ("/id", "/other", "/id/0"):
        with pytest.raises(ToolError, match=f"DEPENDENCY_UNRESOLVED: t: empty gave nothing at '{select}'"):
            values(tool_of("t", {"s": {"dependency": "empty", "select": select}}), context)
    with pytest.raises(ToolError, match="DEPENDENCY_UNRESOLVED: t: nothing here can run find"):
        values(tool_of("t", {"s": {"dependency": "find"}}), CallContext())
    bad = {"dependency": "find", "arguments": {"x": {"fact": "thing"}}}
    with pytest.raises(ToolError, match="DEPENDENCY_UNRESOLVED: t: an argument for find is no JSON"):
        values(tool_of("t", {"s": bad}), CallContext(facts={"thing": object()}, run_tool=context.run_tool))


def test_a_cycle_ends_at_the_call_too() -> None:
    """A catalog that was never checked does not run round and round."""
    tools = {"a": depends("a", "b"), "b": depends("b", "a")}

    def run_tool(tool_id: str, arguments: Mapping[str, Any]) -> Any:
        return values(tools[tool_id], CallContext(run_tool=run_tool))

    with pytest.raises(ToolError, match="DEPENDENCY_UNRESOLVED: a needs b: b: dependency cycle: a -> b -> a"):
        values(tools["a"], CallContext(run_tool=run_tool))


# --- plain answers and pointers --------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text("a/~0 é", max_size=3), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_json_is_plain_already(value: Any) -> None:
    """JSON goes through unchanged, and everything in it is found again by its pointer."""
    assert plain_answer(value, max_chars=100_000) == value

    def walk(part: Any, place: str) -> None:
        assert pick_part(value, place) == part
        if isinstance(part, dict):
            for name, item in part.items():
                walk(item, place + pointer(name))
        elif isinstance(part, list):
            for i, item in enumerate(part):
                walk(item, f"{place}/{i}")

    walk(value, "")


def test_what_a_pointer_does_not_name_is_no_guess() -> None:
    """No negative index, no index of text, no way through a scalar."""
    for value, place in (
        ([1, 2], "/-1"),
        ([1], "/x"),
        ("text", "/0"),
        ({"a": 1}, "/a/b"),
        ({}, "/a"),
        ([], "/0"),
    ):
        with pytest.raises(LookupError):
            pick_part(value, place)
    with pytest.raises(ValueError, match="must be a JSON pointer such as /items/0, got 'a'"):
        pointer_parts("a")


@given(st.lists(st.text("ab", max_size=30), max_size=20), st.integers(1, 400))
def test_the_bound_on_an_answer_holds(texts: list[str], limit: int) -> None:
    """What is let through is no longer than the bound."""
    try:
        answer = plain_answer(texts, max_chars=limit)
    except AnswerError:
        assert sum(map(len, texts)) + 4 * len(texts) + 2 > limit
    else:
        assert sum(map(len, answer)) <= limit
