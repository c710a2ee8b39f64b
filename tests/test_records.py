"""Records: canonical JSON, hashes, and what a trace may show."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.memory import memory_from_dict
from mono_router.records import (
    Call,
    Candidate,
    Case,
    Decision,
    Entity,
    Hit,
    Memory,
    ModelRequest,
    PastCall,
    Ranked,
    Tool,
    Usage,
    accepts,
    canonical_json,
    digest,
    plain,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_canonical_json_round_trip(value: object) -> None:
    """Canonical JSON reads back as the same value."""
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(), st.integers(), min_size=2, max_size=6))
def test_hash_ignores_key_order(record: dict[str, int]) -> None:
    """The order in which keys were written changes no hash."""
    assert digest(record) == digest(dict(reversed(record.items())))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_nan_is_hashed(value: float) -> None:
    """NaN and infinities have no canonical form."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": value})


def test_hash_takes_lone_surrogates() -> None:
    """A text with a lone surrogate still has a hash."""
    assert digest("a\ud800").startswith("sha256:")


def test_accepts_at_equality() -> None:
    """A score at its threshold passes, ties included."""
    assert accepts(0.5, 0.5)
    assert not accepts(0.499999, 0.5)


def test_plain_takes_arrays_and_sets() -> None:
    """Numpy scalars become numbers and sets become sorted lists."""
    assert plain({"a": np.float64(0.5), "b": {"y", "x"}, 3: (1,)}) == {"a": 0.5, "b": ["x", "y"], "3": [1]}


def test_tool_alone_is_its_own_skill() -> None:
    """A tool without a skill is a skill of its own."""
    assert Tool(id="a").skill == "a"
    assert Tool(id="a", skill="s").skill == "s"


def test_user_arguments_leave_out_system_ones(catalog) -> None:
    """System arguments are neither properties nor required for a user."""
    tool = catalog["calendar.create"]
    assert list(tool.properties) == ["title", "date", "start"]
    assert tool.required == ("title", "date")


def test_case_without_group_is_its_own_group() -> None:
    """A case that states no group is a group of one, and its query carries no label."""
    case = Case(id="c", message="hi", expected_tools=("a",), now="2026-01-01T00:00:00+00:00")
    assert case.group == "c"
    assert case.query.id == "c"
    assert "expected" not in canonical_json(case.query)


def test_decision_names_both_of_an_ambiguous_pair() -> None:
    """An ambiguous decision names its first two; a call names what it calls, each once."""
    ranked = tuple(Ranked(tool=t, score=0.3) for t in "abc")
    assert Decision(outcome="ambiguous", ranked=ranked).tools == ("a", "b")
    calls = (Call(tool="a", arguments={"x": 1}), Call(tool="a"), Call(tool="b"))
    decision = Decision(outcome="call", calls=calls, ranked=ranked)
    assert (decision.tools, decision.tool, dict(decision.arguments)) == (("a", "b"), "a", {"x": 1})
    assert (Decision(outcome="no_tool").tool, Decision(outcome="no_tool").arguments) == (None, {})


def test_candidate_lists_its_sources() -> None:
    """A candidate says which stages found it."""
    hits = tuple(Hit(tool="a", score=1.0, source=s, rank=0) for s in ("lexical", "embedding"))
    assert Candidate(tool="a", score=1.0, hits=hits).sources == ("lexical", "embedding")


def test_usage_adds_up() -> None:
    """Usage sums field by field."""
    total = Usage(model_calls=1, cost_usd=0.5) + Usage(model_calls=2, output_tokens=7)
    assert (total.model_calls, total.cost_usd, total.output_tokens) == (3, 0.5, 7)


def test_request_hash_leaves_out_the_case() -> None:
    """Two requests that a model sees alike have one hash, whatever case they come from."""
    one, two = (ModelRequest(purpose="recall", system="s", messages=(), case=c) for c in ("a", "b"))
    assert one.hash == two.hash
    assert one.hash != ModelRequest(purpose="recall", system="t", messages=()).hash


def test_trace_hides_secrets(router) -> None:
    """A trace as data has no secret entity and no session fact, and keeps the rest of the memory."""
    entities = (Entity(type="id", value="4111", secret=True), Entity(type="person", value="Maria"))
    memory = Memory(
        turn=2, entities=entities, facts={"account": "fact-9"}, pending=PastCall(tool="clock.now")
    )
    text = router.route("what time is it", memory=memory).to_json()
    assert "4111" not in text
    assert "fact-9" not in text
    assert "Maria" in text


@given(
    st.lists(st.tuples(st.text(min_size=1), st.text(), st.booleans()), max_size=4),
    st.integers(0, 9),
    st.none() | st.text(min_size=1),
)
def test_memory_to_json_and_back(entities, turn, pending) -> None:
    """A memory written as JSON and read back is the same memory."""
    memory = Memory(
        turn=turn,
        entities=tuple(Entity(type=t, value=v, secret=s) for t, v, s in entities),
        pending=None if pending is None else PastCall(tool=pending, arguments={"a": 1}),
    )
    assert memory_from_dict(json.loads(canonical_json(memory))) == memory
