"""The router end to end: repeatable, indifferent to order, safe on any message."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest
import yaml
from conftest import HERE, NOW, REGENERATE, by_purpose, call
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mono_router.catalog import Catalog, wire_name
from mono_router.embedding import LightEncoder
from mono_router.lab.evaluation import evaluate
from mono_router.records import Case, Entity, Memory, PastCall, Query, Tool
from mono_router.router import MAX_MESSAGE_CHARS, Router
from mono_router.settings import Settings

GOLDEN = HERE / "golden" / "trace.json"
MESSAGES = [
    "what time is it",
    "book a meeting with Ana tomorrow at 5pm",
    "احجز اجتماعا غدا",
    "hola",
    "umbrella?",
    "",
]


def test_same_run_twice(catalog) -> None:
    """Two routers give byte-identical traces but for timings, and byte-identical reports."""

    def run() -> list[str]:
        router = Router(catalog, encoder=LightEncoder())
        traces = [router.route(m, now=NOW).to_json(timings=False) for m in MESSAGES]
        cases = [
            Case(id=str(i), message=m or "?", expected_tools=(), now=NOW) for i, m in enumerate(MESSAGES)
        ]
        report = evaluate(Router(catalog, encoder=LightEncoder()), cases, progress=False)
        return [*traces, report.to_json()]

    assert run() == run()


def test_batch_and_single_agree(embedding_router) -> None:
    """Messages routed together and one by one have the same traces."""
    together = embedding_router.route_many(MESSAGES)
    alone = [embedding_router.route(m) for m in MESSAGES]
    assert [t.to_json(timings=False) for t in together] == [t.to_json(timings=False) for t in alone]
    assert set(alone[0].timings) == {"lexical_ms", "recall_ms", "selection_ms", "total_ms"}


def test_order_of_the_yaml_changes_nothing(tmp_path, catalog) -> None:
    """A catalog whose skills, tools and keys are written in another order routes alike, byte for byte."""
    draws = random.Random(3)

    def shuffled(value):
        if isinstance(value, dict):
            items = [(k, shuffled(v)) for k, v in value.items()]
            draws.shuffle(items)
            return dict(items)
        if isinstance(value, list):
            return [shuffled(v) for v in value]
        return value

    record = yaml.safe_load((HERE / "six_tools.yaml").read_text(encoding="utf-8"))
    schemas = {t["id"]: t.get("input_schema") for s in record["skills"] for t in s["tools"]}
    schemas |= {t["id"]: t.get("input_schema") for t in record["tools"]}
    record = shuffled(record)
    for tool in [*record["tools"], *(t for s in record["skills"] for t in s["tools"])]:
        if schemas[tool["id"]] is not None:
            tool["input_schema"] = schemas[tool["id"]]  # properties keep their order: it is shown to users
    for tools in (record["skills"], record["tools"], *(s["tools"] for s in record["skills"])):
        draws.shuffle(tools)
    path = tmp_path / "catalog.yaml"
    path.write_text(yaml.safe_dump(record, allow_unicode=True, sort_keys=False), encoding="utf-8")
    other = Catalog.load(path)
    assert other.hash == catalog.hash
    for encoder in (None, LightEncoder):
        one, two = (Router(c, encoder=encoder() if encoder else None) for c in (catalog, other))
        for message in MESSAGES:
            assert two.route(message).to_json(timings=False) == one.route(message).to_json(timings=False)


def golden_trace(catalog: Catalog) -> dict:
    model = by_purpose(
        recall={"candidates": ["calendar.create", "message.send", "clock.later"]},
        selection=call(
            wire_name("calendar.create"),
            {"title": "lunch with Ana", "date": "2026-03-11", "start": None},
            confidence=0.84,
        ),
    )
    memory = Memory(
        turn=3,
        entities=(Entity(type="person", value="Ana", turn=2), Entity(type="card", value="4111", secret=True)),
        calls=(PastCall(tool="calendar.list", arguments={"date": "2026-03-11"}, turn=2),),
        facts={"account": "a-1"},
    )
    router = Router(catalog, model=model, settings=Settings().replace({"candidate_limit": 4}))
    trace = router.trace(
        Query(message="lunch with Ana tomorrow, put it in", memory=memory, now=NOW, id="golden")
    )
    return trace.to_dict(timings=False)


def test_golden_trace(catalog) -> None:
    """One trace through all four stages stands as readable JSON: a change there is a decision."""
    found = json.dumps(golden_trace(catalog), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    if REGENERATE:
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")
    assert "4111" not in found
    assert "a-1" not in found


def test_within(router) -> None:
    """Only the tools that are named may be found, chosen or shown; an unknown one is refused by name."""
    trace = router.route("what time is it", within=["light.switch", "message.send"])
    named = {h.tool for h in trace.lexical.hits} | {c.tool for c in trace.candidates}
    assert named <= {"light.switch", "message.send"}
    assert router.route("what time is it", within=["clock.now"]).decision.tool == "clock.now"
    with pytest.raises(ValueError, match=r"within names unknown tool 'clock\.later'"):
        router.route("x", within=["clock.later"])


@pytest.mark.parametrize("message", ["", " ", "\n\t", "\u200b", "!!!"])
def test_empty_message(embedding_router, message: str) -> None:
    """A message that says nothing is no tool, without an error."""
    decision = embedding_router.route(message).decision
    assert decision.outcome == "no_tool"
    assert decision.confidence > 0.5


def test_empty_message_and_nothing_offered_ask_no_model(catalog) -> None:
    """A message that says nothing, and one that may use nothing, cost no model call."""
    model = by_purpose()
    router = Router(catalog, model=model)
    for trace in (router.route("  "), router.route("what time is it", within=[])):
        assert (trace.decision.outcome, trace.decision.reason) == ("no_tool", "NO_CANDIDATES")
        assert trace.usage.model_calls == 0
    assert model.requests == []


def test_long_messages(router) -> None:
    """The longest message is routed; one character more is refused with both lengths."""
    assert router.route("x" * MAX_MESSAGE_CHARS).decision.outcome == "no_tool"
    with pytest.raises(ValueError, match="at most 100000 characters, got 100001"):
        router.route("x" * 100_001)
    with pytest.raises(ValueError, match="got 1000000"):
        router.route("a " * 500_000)


def test_no_text(router) -> None:
    """What is no text is refused with its type."""
    for bad in (None, 3, b"time"):
        with pytest.raises(TypeError, match="message must be text, got " + type(bad).__name__):
            router.route(bad)


def test_unwritable_characters(router) -> None:
    """NUL and lone surrogates become U+FFFD in the trace, and the rest of the message counts."""
    trace = router.route("what\x00 time is it \ud800")
    assert trace.query.message == "what\ufffd time is it \ufffd"
    assert trace.lexical.hits[0].tool == "clock.now"
    trace.to_json().encode("utf-8")


@examples(max_examples=120)
@given(st.text(max_size=80))
def test_any_message(embedding_router, message: str) -> None:
    """Any text has a trace that can be written, and a decision within its bounds."""
    trace = embedding_router.route(message, now=NOW)
    trace.to_json().encode("utf-8")
    decision = trace.decision
    assert decision.outcome in ("call", "ask", "ambiguous", "no_tool")
    assert 0 <= decision.p_tool <= 1
    assert 0 <= decision.confidence <= 1
    assert {c.tool for c in trace.candidates} >= set(decision.tools)
    for one in decision.calls:
        assert set(one.arguments) <= set(embedding_router.catalog[one.tool].properties)


def test_catalog_of_one_tool() -> None:
    """One tool is chosen where the message is about it, and not where it is not."""
    router = Router(Catalog([Tool(id="price", description="Price of a service", hints=("how much is it",))]))
    assert router.route("how much is it").decision.tool == "price"
    assert router.route("sing a song").decision.outcome == "no_tool"
    assert router.route("how much is it", within=["price"]).decision.tool == "price"


def test_catalog_without_tools() -> None:
    """A router over no tools routes everything to none."""
    for encoder in (None, LightEncoder()):
        decision = Router(Catalog([]), encoder=encoder).route("hello").decision
        assert (decision.outcome, decision.reason) == ("no_tool", "NO_CANDIDATES")


def test_all_equal_scores() -> None:
    """Where every tool scores alike the order is that of the ids, and a margin makes it ambiguous."""
    same = Catalog(Tool(id=f"t{i}", description="same words", hints=("same words",)) for i in range(9))
    router = Router(same, encoder=LightEncoder())
    trace = router.route("same words")
    assert [c.tool for c in trace.candidates] == [f"t{i}" for i in range(6)]
    assert [r.tool for r in trace.decision.ranked] == [f"t{i}" for i in range(6)]
    close = (
        router.with_settings(Settings().replace({"selection.min_margin": 0.1})).route("same words").decision
    )
    assert (close.outcome, close.tools) == ("ambiguous", ("t0", "t1"))


def test_with_settings(catalog, embedding_router) -> None:
    """Other settings give what a new router gives; what they do not shape is shared."""
    for changes in (
        {"selection.min_confidence": 0.9},
        {"candidate_limit": 1},
        {"lexical.char_ngrams": False},
        {"recall.source": "none"},
        {"selection.max_skills": 1},
    ):
        settings = Settings().replace(changes)
        other = embedding_router.with_settings(settings)
        fresh = Router(catalog, encoder=LightEncoder(), settings=settings)
        for message in MESSAGES:
            assert other.route(message).to_json(timings=False) == fresh.route(message).to_json(timings=False)
    assert (
        embedding_router.with_settings(Settings().replace({"candidate_limit": 1})).lexical
        is embedding_router.lexical
    )
    assert embedding_router.settings.candidate_limit == 6


def test_an_encoder_or_a_retriever(catalog) -> None:
    """Only one of the two ways to embed is given."""
    with pytest.raises(ValueError, match="give an encoder or a retriever, not both"):
        Router(catalog, encoder=LightEncoder(), retriever=object())


def test_own_retriever_and_selector(catalog, embedding_router) -> None:
    """A user's own retriever takes the place of stage 2's, and one of another shape is refused."""

    class Own:
        def scores(self, messages):
            import numpy as np

            return np.tile(np.linspace(0, 1, 6, dtype=np.float32), (len(messages), 1))

        def search(self, message, k):
            return ()

    trace = Router(catalog, retriever=Own()).route("anything at all")
    assert trace.recall.hits[0].tool == "weather.forecast"

    class Narrow(Own):
        def scores(self, messages):
            return super().scores(messages)[:, :2]

    with pytest.raises(ValueError, match=r"retriever\.scores must return \(1, 6\), got \(1, 2\)"):
        Router(catalog, retriever=Narrow()).route("x")


def test_a_trace_shows_its_origin(catalog, router) -> None:
    """A trace names what made it: catalog, settings, version, and no model where there was none."""
    trace = router.route("what time is it")
    assert trace.catalog_hash == catalog.hash
    assert trace.settings_hash == router.settings.hash
    assert (trace.model, trace.simulated, trace.prompts) == (None, False, {})
    assert json.loads(trace.to_json())["version"] == trace.version


def test_merged_variants_stand_in(tmp_path: Path) -> None:
    """A variant's id in ``within`` is read as the tool that stands for it."""
    lines = [{"id": "f", "description": "Fly"}, {"id": "f~2", "description": "Fly", "variant_of": "f"}]
    (tmp_path / "catalog.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    router = Router(Catalog.load(tmp_path))
    assert router.route("fly", within=["f~2"]).candidates[0].tool == "f"


def test_traces_are_frozen(router) -> None:
    """A trace cannot be changed after the fact."""
    trace = router.route("hi")
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.decision = None
