"""Working memory: its form, its bounds, and what a model may see of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.memory import (
    MAX_CHARS,
    MAX_ENTITIES,
    MAX_TURNS,
    memory_from_dict,
    remember,
    safe_view,
    user_memory,
)
from mono_router.models.scripted import ScriptedModel
from mono_router.records import Entity, Memory, PastCall, Query, canonical_json
from mono_router.router import Router
from mono_router.settings import Settings


def person(name: str, **fields) -> Entity:
    return Entity(type="person", value=name, **fields)


def test_a_turn_adds_what_it_brought() -> None:
    """Entities and calls carry the turn that they came up in; one that comes up again is renewed."""
    memory = remember(Memory(facts={"user": "u"}), entities=[person("Maria")], call=PastCall(tool="a"))
    memory = remember(memory, entities=[person("Juan"), person("Maria")], pending=PastCall(tool="b"))
    assert (memory.turn, memory.facts) == (2, {"user": "u"})
    assert [(e.value, e.turn) for e in memory.entities] == [("Juan", 2), ("Maria", 2)]
    assert [(c.tool, c.turn) for c in memory.calls] == [("a", 1)]
    assert memory.pending.tool == "b"
    assert remember(memory).pending is None


def test_old_turns_are_forgotten() -> None:
    """After the last few turns an entity and a call are gone."""
    memory = remember(Memory(), entities=[person("Maria")], call=PastCall(tool="a"))
    for _ in range(MAX_TURNS - 1):
        memory = remember(memory)
    assert memory.entities
    assert memory.calls
    memory = remember(memory)
    assert (memory.entities, memory.calls) == ((), ())


@given(st.lists(st.lists(st.text(max_size=600), max_size=12), max_size=8))
def test_bounds_hold(turns) -> None:
    """However much comes up, a memory stays within its entries and characters, newest first to stay."""
    memory = Memory()
    for values in turns:
        memory = remember(memory, entities=[person(v) for v in values])
        assert len(memory.entities) <= MAX_ENTITIES
        assert sum(len(e.value) for e in memory.entities) <= MAX_CHARS
        if values and len(values[-1]) <= MAX_CHARS:
            assert values[-1] in {e.value for e in memory.entities}


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ([], "memory must be a mapping"),
        ({"turns": 3}, "unknown field 'turns'"),
        ({"turn": "two"}, "memory is malformed"),
        ({"entities": [{"type": "person"}]}, "memory is malformed"),
        ({"entities": [{"type": "person", "value": "x", "age": 3}]}, "memory is malformed"),
        ({"calls": ["a"]}, "memory is malformed"),
        ({"pending": {}}, "memory is malformed"),
    ],
)
def test_what_is_no_memory(record, says: str) -> None:
    """A record that is no memory is refused in one line."""
    with pytest.raises(ValueError, match=says) as caught:
        memory_from_dict(record)
    assert "\n" not in str(caught.value)


def test_safe_view_hides_secrets() -> None:
    """No secret entity, no text or argument that holds its value, no sensitive argument, no fact is shown."""
    memory = Memory(
        turn=1,
        entities=(person("4111", secret=True), person("Maria", turn=1), person("Maria's 4111")),
        calls=(
            PastCall(
                tool="pay",
                arguments={"card": "x4111x", "token": "t", "to": "Maria", "deep": {"a": [{"apiKey": 1}]}},
            ),
        ),
        pending=PastCall(tool="pay", arguments={"list": ["4111"], "amount": 3}),
        facts={"iban": "DE00"},
    )
    assert safe_view(memory) == {
        "entities": [{"type": "person", "value": "Maria", "turn": 1}],
        "calls": [{"tool": "pay", "arguments": {"to": "Maria"}}],
        "pending": {"tool": "pay", "arguments": {"amount": 3}},
    }
    assert safe_view(None) == safe_view(Memory()) == {}


NAMES = st.sampled_from("abcd")
CALLS = st.builds(PastCall, tool=NAMES, arguments=st.dictionaries(NAMES, st.integers(), max_size=4))


@given(st.lists(CALLS, max_size=4), st.none() | CALLS, st.dictionaries(NAMES, st.lists(NAMES, max_size=3)))
def test_user_memory(calls, pending, system) -> None:
    """A past or waiting call keeps the user's arguments alone, and none where its tool is not known."""
    memory = Memory(turn=3, entities=(person("Maria"),), calls=tuple(calls), pending=pending, facts={"u": 1})
    kept = user_memory(memory, system)

    def expected(call: PastCall) -> PastCall:
        arguments = {k: v for k, v in call.arguments.items() if k not in system.get(call.tool, "abcd")}
        return PastCall(tool=call.tool, arguments=arguments, turn=call.turn)

    assert kept.calls == tuple(expected(call) for call in calls)
    assert kept.pending == (None if pending is None else expected(pending))
    assert (kept.turn, kept.entities, kept.facts) == (memory.turn, memory.entities, memory.facts)
    assert user_memory(kept, system) == kept


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("asks", [False, True])
def test_no_system_argument_of_a_past_call_is_shown(catalog, router, asks: bool, batched: bool) -> None:
    """What the host filled into an earlier call is in no request to a model and in no trace."""
    hidden = "SENTINEL-calendar"
    arguments = {"title": "dentist", "date": "2026-03-11", "calendar_id": hidden}
    memory = Memory(
        turn=2,
        calls=(
            PastCall(tool="calendar.create", arguments=arguments, turn=1),
            PastCall(tool="no.longer.there", arguments={"x": hidden}),
        ),
        pending=PastCall(tool="calendar.create", arguments=arguments, turn=2),
    )
    model = ScriptedModel(lambda request: '{"candidates": [], "calls": [], "confidence": 0.5}')
    if asks:
        settings = Settings().replace({"lexical.min_score": None})
        router = Router(catalog, model=model, settings=settings)
    if batched:
        table = router.score([Query(message="and one more", memory=memory)])
        router.decide(table)
        seen = repr(table.queries)
    else:
        trace = router.route("and one more", memory=memory)
        seen = trace.to_json()
        assert trace.memory["pending"]["arguments"] == {"title": "dentist", "date": "2026-03-11"}
    assert "dentist" in seen
    assert hidden not in seen
    assert len(model.requests) == (3 if asks else 0)  # recall, and selection in two ways
    assert all("dentist" in canonical_json(r) and hidden not in canonical_json(r) for r in model.requests)


def test_an_empty_secret_hides_nothing() -> None:
    """A secret without a value does not hide every other entity."""
    memory = Memory(entities=(person("", secret=True), person("Maria")))
    assert "Maria" in canonical_json(safe_view(memory))


def test_pending_tool_is_a_candidate(router) -> None:
    """A call that waits makes its tool the first candidate, whatever the message says."""
    memory = Memory(turn=1, pending=PastCall(tool="calendar.create", arguments={"title": "x"}))
    trace = router.route("what is the weather", memory=memory)
    assert trace.candidates[0].tool == "calendar.create"
    assert "pending" in trace.candidates[0].sources
    gone = Memory(turn=1, pending=PastCall(tool="no.longer.there"))
    assert router.route("umbrella", memory=gone).candidates[0].tool == "weather.forecast"
