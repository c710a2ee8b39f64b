"""Stage 4 with a model: every refusal, how it asks again, and what a model never sees."""

from __future__ import annotations

import json

import pytest
from conftest import NOW, by_purpose, call
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mono_router.catalog import NO_TOOL, Catalog, wire_name
from mono_router.models.scripted import ScriptedModel
from mono_router.records import (
    Entity,
    Memory,
    ModelError,
    ModelReply,
    PastCall,
    Query,
    Tool,
    ToolCall,
    Usage,
    canonical_json,
)
from mono_router.router import Router
from mono_router.selection import REJECTIONS, ModelSelector, wire_tool
from mono_router.settings import SelectionSettings, Settings

CREATE, LIST, SEND, CLOCK, LIGHT, WEATHER = (
    wire_name(i)
    for i in (
        "calendar.create", "calendar.list", "message.send", "clock.now", "light.switch", "weather.forecast",
    )
)  # fmt: skip
GOOD = {"title": "dentist", "date": "2026-03-11"}


def several(*calls: ToolCall) -> ModelReply:
    return ModelReply(tool_calls=calls)


REFUSED = {
    "TOOL_OUTSIDE_CANDIDATES": [
        (call("drop_all_tables"), "drop_all_tables"),
        (call("calendar.create", GOOD), "calendar.create"),  # the id instead of the name that was shown
        (several(call(LIST, mode="think"), call("ghost", mode="think")), "ghost"),
    ],
    "UNKNOWN_ARGUMENT": [
        (call(CREATE, GOOD | {"colour": "red"}), "colour"),
        (call(CLOCK, {"zone": "UTC"}), "zone"),
    ],
    "SENSITIVE_ARGUMENT": [
        (call(CREATE, GOOD | {"apiKey": "k"}), "apiKey"),
        (call(SEND, {"to": {"password": "x"}, "text": "hi"}), "password"),
    ],
    "ARGUMENT_SCHEMA": [
        (call(LIGHT, {"room": "garage", "state": "on"}), "room"),
        (call(LIGHT, {"room": ["hall"], "state": "on"}), "room"),
        (call(CREATE, GOOD | {"date": "tomorrow"}), "date"),
        (call(CREATE, GOOD | {"date": "2026-02-30"}), "date"),
        (call(CREATE, GOOD | {"start": "9:30"}), "start"),
        (call(WEATHER, {"days": "3"}), "days"),
        (call(WEATHER, {"days": 0}), "days"),
    ],
    "SYSTEM_ARGUMENT": [(call(CREATE, GOOD | {"calendar_id": "c-1"}), "calendar_id")],
    "TOO_MANY_CALLS": [
        (several(call(CLOCK), call(LIST)), LIST),
        (several(*[call(LIST, mode="agent")] * 4), LIST),
    ],
    "MODE_UNSUPPORTED": [
        (call(CLOCK, mode="agent"), "clock.now"),
        (call(CREATE, GOOD, mode="think"), "calendar.create"),
    ],
    "MALFORMED_ANSWER": [
        (ModelReply(text="I would call the clock"), "answer"),
        (call(CLOCK, confidence=1.5), "confidence"),
        (call(CLOCK, confidence="high"), "confidence"),
        (call(CLOCK, confidence=True), "confidence"),
        (call(CLOCK, mode="walk"), "mode"),
        (call(CLOCK, ["a"]), "clock.now"),
        (ToolCall(name=CLOCK, arguments={"zone": "UTC", "mode": "tool", "confidence": 1}), "answer"),
        (ToolCall(name=CLOCK, arguments="{}"), "answer"),
        (several(call(CLOCK), ToolCall(name=NO_TOOL, arguments={"confidence": 0.5})), NO_TOOL),
        (several(call(LIST, mode="think"), call(LIST, mode="agent")), "mode"),
        (ModelReply(tool_calls=(call(CLOCK),), stop_reason="max_tokens"), "answer"),
    ],
}
CASES = [(code, i) for code, answers in REFUSED.items() for i in range(len(answers))]


def test_every_code_is_reached_here() -> None:
    """The refusals below are all that there are."""
    assert set(REFUSED) == set(REJECTIONS)


@pytest.mark.parametrize(("code", "i"), CASES, ids=[f"{code}-{i}" for code, i in CASES])
def test_refused(catalog, code: str, i: int) -> None:
    """A refused answer has its code and the offending name, and leaves no call in the decision."""
    answer, name = REFUSED[code][i]
    settings = Settings().replace(
        {"selection.fallback_attempts": 0, "recall.source": "model", "lexical.min_score": None}
    )
    model = by_purpose(recall={"candidates": list(catalog.ids)}, selection=answer)
    decision = Router(catalog, model=model, settings=settings).route("do it", now=NOW).decision
    assert decision.outcome == "rejected"
    assert decision.reason in {r.code for r in decision.rejections}
    assert (code, name) in {(r.code, r.name) for r in decision.rejections}
    said = next(r.message for r in decision.rejections if (r.code, r.name) == (code, name))
    assert name in said or name == "answer"
    assert decision.calls == ()
    assert (decision.tool, decision.missing, decision.skills) == (None, (), ())


def selected(catalog: Catalog, *answers, tools=None, **options):
    model = ScriptedModel(answers)
    selector = ModelSelector(model, settings=SelectionSettings(**options))
    shortlist = [catalog[i] for i in tools] if tools else list(catalog)
    return selector.select(Query(message="do it", now=NOW, id="c-1"), shortlist), model.requests


def test_too_many_skills(catalog) -> None:
    """More skills than a decision may name are refused, with the first one over."""
    answer, _ = selected(catalog, several(call(CLOCK, mode="tool")), max_skills=1)
    assert answer.calls
    both = several(call(LIST, {}, mode="agent"), call("other", {}, mode="agent"))
    tools = [catalog["calendar.list"], Tool(id="other", description="O")]
    model = ScriptedModel([both])
    found = ModelSelector(model, settings=SelectionSettings(max_skills=1)).select(Query(message="x"), tools)
    assert [(r.code, r.name) for r in found.rejections] == [("TOO_MANY_CALLS", "other")]


def test_accepted(catalog) -> None:
    """A good answer becomes a call under the tool's own id, with what is still missing."""
    answer, _ = selected(catalog, call(CREATE, {"title": "dentist"}, mode="agent", confidence=0.75))
    assert [c.tool for c in answer.calls] == ["calendar.create"]
    assert (answer.mode, answer.confidence, answer.missing) == ("agent", 0.75, ("/date",))
    none, _ = selected(catalog, ToolCall(name=NO_TOOL, arguments={"confidence": 0.8}))
    assert (none.calls, none.confidence, none.rejections) == ((), 0.8, ())
    think, _ = selected(
        catalog, several(call(LIST, mode="think"), call(LIST, {"date": "2026-03-11"}, mode="think"))
    )
    assert len(think.calls) == 2


def test_null_is_dropped_unless_it_is_allowed(catalog) -> None:
    """Null reads as "not said", but for an argument whose schema takes null."""
    answer, _ = selected(catalog, call(CREATE, {"title": "x", "date": None, "start": None}))
    assert dict(answer.calls[0].arguments) == {"title": "x"}
    assert answer.missing == ("/date",)
    answer, _ = selected(catalog, call(SEND, {"to": "Ana", "text": "hi", "after": None}))
    assert dict(answer.calls[0].arguments) == {"to": "Ana", "text": "hi", "after": None}
    answer, _ = selected(catalog, call(CLOCK, {"zone": None}), fallback_attempts=0)
    assert [r.code for r in answer.rejections] == ["UNKNOWN_ARGUMENT"]


def test_fallback_order(catalog) -> None:
    """An answer that cannot be read is asked for by tool use, then structured output, then plain JSON."""
    good = {"calls": [{"tool": CLOCK, "arguments": {}}], "mode": "tool", "confidence": 0.7}
    reply = ModelReply(text="hm", usage=Usage(model_calls=1))
    answer, requests = selected(catalog, reply, reply, "Here: " + json.dumps(good))
    assert answer.calls[0].tool == "clock.now"
    assert answer.usage.model_calls == 3
    first, second, third = requests
    assert first.force_tool
    assert [t.name for t in first.tools] == [*(wire_name(i) for i in catalog.ids), NO_TOOL]
    assert first.schema is None
    assert second.schema is not None
    assert third.schema is None
    assert second.tools == third.tools == ()
    assert second.system == third.system
    assert {r.case for r in requests} == {"c-1"}
    assert all(r.messages == first.messages for r in requests)


@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_fallback_is_bounded(catalog, attempts: int) -> None:
    """It asks as often as it is allowed to, and then the answer is refused."""
    answer, requests = selected(catalog, *["no"] * 3, fallback_attempts=attempts)
    assert len(requests) == attempts + 1
    assert [r.code for r in answer.rejections] == ["MALFORMED_ANSWER"]


def test_a_broken_rule_is_not_asked_again(catalog) -> None:
    """Only what cannot be read is asked again: a forbidden argument stands as refused."""
    answer, requests = selected(catalog, call(CREATE, {"calendar_id": "c"}))
    assert len(requests) == 1
    assert answer.rejections[0].code == "SYSTEM_ARGUMENT"


def test_plain_answers(catalog) -> None:
    """An empty list of calls in a text is "no tool"; a call without a tool cannot be read."""
    answer, _ = selected(catalog, "no", {"calls": [], "mode": "tool", "confidence": 0.6})
    assert (answer.calls, answer.confidence) == ((), 0.6)
    answer, _ = selected(catalog, "no", {"calls": [{"arguments": {}}]}, "{}")
    assert answer.rejections[0].code == "MALFORMED_ANSWER"


def test_a_failing_model_is_an_error(catalog) -> None:
    """A provider's failure is an error with its code, whatever was tried before."""
    answer, requests = selected(catalog, "no", ModelError("MODEL_TIMEOUT", "30 s"))
    assert (answer.error, answer.rejections, answer.usage.model_calls, len(requests)) == (
        "MODEL_TIMEOUT",
        (),
        2,
        2,
    )


def test_the_wire_schema(catalog) -> None:
    """A tool on the wire wraps mode, confidence and the user's arguments."""
    wired = wire_tool(catalog["calendar.create"])
    assert wired.schema["required"] == ["mode", "confidence", "arguments"]
    inner = wired.schema["properties"]["arguments"]
    assert set(inner["properties"]) == {"title", "date", "start"}
    assert inner["required"] == ["title", "date"]
    assert wire_tool(catalog["clock.now"]).schema["properties"]["mode"]["enum"] == ["tool"]


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from([CREATE, LIST, SEND, CLOCK, LIGHT, WEATHER, NO_TOOL, "ghost", ""])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["title", "date", "room", "state", "password", "calendar_id", "mode", "x"]),
    JSONISH,
    max_size=4,
)
WRAPPED = st.fixed_dictionaries(
    {}, optional={"mode": st.sampled_from(["tool", "think", "agent"]) | JSONISH, "confidence": JSONISH,
                  "arguments": ARGUMENTS | JSONISH, "extra": JSONISH},
)  # fmt: skip
REPLIES = st.builds(
    ModelReply,
    text=st.text(max_size=20)
    | JSONISH.map(json.dumps)
    | st.dictionaries(st.just("calls"), JSONISH).map(json.dumps),
    tool_calls=st.lists(st.builds(ToolCall, name=NAMES, arguments=WRAPPED | JSONISH), max_size=4).map(tuple),
)


@examples(max_examples=150)
@given(st.lists(REPLIES, min_size=3, max_size=3))
def test_any_reply_is_safe(catalog, replies) -> None:
    """Whatever a model answers: no failure, and a call only if it is clean."""
    answer, _ = selected(catalog, *replies)
    assert 0 <= answer.confidence <= 1
    assert not (answer.calls and answer.rejections)
    for one in answer.calls:
        assert one.tool in catalog
        assert set(one.arguments) <= set(catalog[one.tool].properties)
        assert answer.mode in catalog[one.tool].modes


SENTINELS = [f"SENTINEL{i}QX" for i in range(12)]


@st.composite
def planted(draw) -> tuple[Catalog, Memory, list[str]]:
    """A catalog and a memory with sentinels in what no model may see, and those sentinels."""
    s = iter(draw(st.permutations(SENTINELS)))
    used: list[str] = []

    def plant() -> str:
        used.append(next(s))
        return used[-1]

    system = plant() + "_id"
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, system: {"type": "string", "description": plant()}},
        "required": ["city", system],
        "x-endpoint": plant(),
    }
    http = {"url": f"https://{plant()}.example.com", "auth": {"type": "bearer", "env": plant()},
            "headers": {plant(): plant()}}  # fmt: skip
    tools = [
        Tool(id="weather", description="Weather of a city", input_schema=schema, system_arguments=(system,),
             run=draw(st.sampled_from([{"http": http}, {"python": http["url"]}]))),
        Tool(id="clock", description="Tell the time", run={"python": plant() + ":now"}),
    ]  # fmt: skip
    secret = plant()
    entities = [
        Entity(type="card", value=secret, turn=1, secret=True),
        Entity(type="city", value="Cairo", turn=1),
    ]
    if draw(st.booleans()):
        entities.append(Entity(type="note", value=f"card {secret}", turn=1))
    shape = draw(st.sampled_from(["flat", "nested", "value"]))
    arguments = {
        "flat": {"city": "Cairo", "api_key": plant()},
        "nested": {"city": {"name": "Cairo", "password": plant()}},
        "value": {"city": [f"near {secret}"]},
    }[shape]
    past = PastCall(tool="weather", arguments=arguments, turn=1)
    memory = Memory(
        turn=2, entities=tuple(entities), calls=(past,), pending=past if draw(st.booleans()) else None,
        facts={"account": plant()},
    )  # fmt: skip
    return Catalog(tools), memory, used


@given(planted(), st.sampled_from(["tool", "skill"]), st.integers(0, 3))
def test_no_secret_reaches_a_model(case, level: str, n_examples: int) -> None:
    """No request has what was planted in run, system arguments, secret entities and session facts."""
    catalog, memory, sentinels = case
    model = by_purpose(recall={"candidates": ["weather", "clock"]}, selection="unreadable")
    settings = Settings().replace(
        {"lexical.min_score": None, "recall.level": level, "recall.catalog_examples": n_examples}
    )
    trace = Router(catalog, model=model, settings=settings).route("the weather", memory=memory, now=NOW)
    assert [r.purpose for r in model.requests] == ["recall"] + ["selection"] * 3
    for request in model.requests:
        sent = canonical_json(request)
        assert not [s for s in sentinels if s in sent]
        assert "Cairo" in sent or memory.calls[0].arguments["city"] != "Cairo"
    assert memory.facts["account"] not in trace.to_json()
