"""Claude through the real SDK, against a local server that enforces the API's rules."""

from __future__ import annotations

import json
import threading
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from anthropic.types.model import Model as SdkModel
from hypothesis import given, settings
from hypothesis import strategies as st
from messages_server import KEY, Answer, MessagesServer, error, message, no_tool, refusal, text, thinking, use
from pydantic import TypeAdapter

from mono_router.catalog import Catalog, wire_name
from mono_router.models.attempts import Attempts, Failure, GaveUp
from mono_router.models.claude import REASONING_MODEL, ROUTING_MODEL, AnthropicModel
from mono_router.models.parameters import structured
from mono_router.models.prices import CARDS, Price
from mono_router.prompting import load_prompt, query_text
from mono_router.records import (
    Entity,
    Example,
    Memory,
    Model,
    ModelError,
    ModelRequest,
    ModelTool,
    PastCall,
    Query,
    Tool,
)
from mono_router.router import Router
from mono_router.settings import Settings

NOW = "2026-03-10T09:30:00+01:00[Europe/Madrid]"
ASK = ModelRequest(purpose="conversation", system="Talk.", messages=({"role": "user", "content": "hi"},))
SELECT = Settings().replace({"lexical.min_score": 0.0})
"""Every message is confident: selection alone."""


class Clock:
    """Time that passes only where something sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_CUSTOM_HEADERS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


class Served:
    """Servers and the models that talk to them; all closed, and all bodies checked, at the end."""

    def __init__(self) -> None:
        self.servers: list[MessagesServer] = []
        self.models: list[AnthropicModel] = []

    def __call__(
        self, *answers: Answer | Callable[[dict[str, Any]], Answer], **options: Any
    ) -> AnthropicModel:
        script: Any = answers[0] if len(answers) == 1 and callable(answers[0]) else answers
        self.servers.append(MessagesServer(script))
        clock = Clock()
        given = {"api_key": KEY, "seed": 0, "clock": clock, "sleep": clock.sleep, **options}
        model = AnthropicModel(given.pop("name", ROUTING_MODEL), base_url=self.servers[-1].url, **given)
        self.models.append(model)
        return model

    @property
    def server(self) -> MessagesServer:
        return self.servers[-1]


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    for model in found.models:
        model.close()
    for server in found.servers:
        server.close()
        assert server.refused == []
        for body in server.bodies:
            check_types(body)


CREATE: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)
COUNT: TypeAdapter[Any] = TypeAdapter(MessageCountTokensParams)


def check_types(body: Mapping[str, Any]) -> None:
    """The body is what the SDK's own types describe; lazily checked parts are read to their end."""
    exhaust((CREATE if "max_tokens" in body else COUNT).validate_python(body))


def exhaust(value: Any) -> None:
    if isinstance(value, Mapping):
        for item in value.values():
            exhaust(item)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for item in value:
            exhaust(item)


def failure(model: AnthropicModel, request: ModelRequest = ASK) -> ModelError:
    with pytest.raises(ModelError) as caught:
        model.complete(request)
    return caught.value


# --- what it is ------------------------------------------------------------------------------


def test_default_models_lead_the_sdk_list() -> None:
    """The defaults are the newest Haiku and Sonnet that the installed SDK names."""
    names = typing.get_args(typing.get_args(SdkModel)[0])
    assert next(name for name in names if "haiku" in name) == ROUTING_MODEL
    assert next(name for name in names if "sonnet" in name) == REASONING_MODEL
    assert {card.name for card in CARDS} <= set(names)


def test_it_is_a_model(served: Served) -> None:
    model = served(text("hello"))
    assert isinstance(model, Model)
    assert (model.name, repr(model)) == (ROUTING_MODEL, f"AnthropicModel({ROUTING_MODEL!r})")
    assert served(effort="low").name == f"{ROUTING_MODEL}(effort=low)"
    assert model.complete(ASK).text == "hello"


@pytest.mark.parametrize("key", [None, "", "  "])
def test_no_key(key: str | None) -> None:
    """Without a key nothing is built, and the error says what to set."""
    with pytest.raises(ModelError, match=r"MODEL_NOT_CONFIGURED.*ANTHROPIC_API_KEY"):
        AnthropicModel(api_key=key)


def test_key_of_the_environment(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    """A key in the environment is enough; stray white space around it is dropped."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY + "\n")
    assert served(text("hello"), api_key=None).complete(ASK).text == "hello"


def test_key_with_foreign_characters() -> None:
    """A key that no header can carry is refused before the SDK could show it."""
    with pytest.raises(ModelError, match="characters that no key has") as caught:
        AnthropicModel(api_key="sk-secret\nX: 1")
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_attempts": 0}, "max_attempts must be >= 1"),
        ({"timeout_s": 0.0}, "timeout_s must be a number > 0"),
        ({"timeout_s": float("nan")}, "timeout_s must be a number > 0"),
        ({"effort": "huge"}, "effort must be one of low, medium"),
        ({"thinking": "on"}, "thinking must be"),
        ({"name": "claude-nova-9"}, "known price"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AnthropicModel(options.pop("name", ROUTING_MODEL), api_key=KEY, **options)


# --- request bodies --------------------------------------------------------------------------

TOOL = ModelTool(name="a", description="A", schema={"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("name", "purpose", "thinks", "choice", "effort", "room"),
    [
        ("claude-haiku-5-5", "selection", {"type": "disabled"}, "any", None, 0),
        ("claude-haiku-5-5", "agent", {"type": "adaptive"}, "auto", None, 8192),
        ("claude-sonnet-5-5", "selection", {"type": "between_tools"}, "auto", None, 1024),
        ("claude-sonnet-5-5", "think", {"type": "adaptive"}, "auto", None, 8192),
        ("claude-opus-5-5", "selection", {"type": "adaptive"}, "auto", "low", 8192),
        ("claude-haiku-4-5", "selection", {"type": "disabled"}, "any", None, 0),
        ("claude-haiku-4-5", "agent", None, "auto", None, 0),
    ],
)
def test_thinking_and_forced_tools_by_model(
    name: str, purpose: str, thinks: Any, choice: str, effort: str | None, room: int
) -> None:
    """Thinking is off or small for routing, and a tool is forced only where the model takes it."""
    request = ModelRequest(purpose=purpose, system="S", messages=ASK.messages, tools=(TOOL,), force_tool=True)
    body = AnthropicModel(name, api_key=KEY).body(request)
    assert body.get("thinking") == thinks
    assert body["tool_choice"] == {"type": choice}
    assert body.get("output_config", {}).get("effort") == effort
    assert body["max_tokens"] == request.max_tokens + room
    assert refusal(body) is None
    check_types(body)


def test_effort_that_thinking_off_excludes() -> None:
    """At an effort beside which thinking cannot be off it stays on, and no tool is forced."""
    request = ModelRequest(
        purpose="selection", system="S", messages=ASK.messages, tools=(TOOL,), force_tool=True
    )
    body = AnthropicModel(api_key=KEY, effort="max").body(request)
    assert (body["thinking"], body["tool_choice"]) == ({"type": "adaptive"}, {"type": "auto"})
    assert refusal(body) is None


def test_unknown_model_is_asked_for_nothing_special() -> None:
    price = Price(input=1.0, cache_write=1.25, cache_read=0.1, output=5.0)
    model = AnthropicModel("claude-nova-9", api_key=KEY, prices={"claude-nova-9": price})
    request = ModelRequest(
        purpose="selection", system="S", messages=ASK.messages, tools=(TOOL,), force_tool=True
    )
    body = model.body(request)
    assert "thinking" not in body
    assert "output_config" not in body
    assert body["tool_choice"] == {"type": "auto"}


def test_no_sampling_parameters(router_bodies: list[dict[str, Any]]) -> None:
    for body in router_bodies:
        assert not {"temperature", "top_p", "top_k"} & set(body)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, True),
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}, True),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, True),
        ({"type": "object"}, False),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}}, False),
        ({"type": "object", "properties": {"a": {}}}, False),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}, False),
    ],
)
def test_structured_output(schema: dict[str, Any], sent: bool) -> None:
    """A schema is sent in the form that the API takes, or not at all where it has free keys."""
    assert (structured(schema) is not None) == sent
    body = AnthropicModel(api_key=KEY).body(
        ModelRequest(purpose="selection", system="S", messages=ASK.messages, schema=schema)
    )
    assert ("format" in body.get("output_config", {})) == sent
    assert refusal(body) is None
    check_types(body)


def test_odd_characters_are_sent_as_replacement() -> None:
    """A lone surrogate in a lenient catalog cannot stop a request."""
    tool = ModelTool(
        name="a", description="bad \ud800", schema={"type": "object", "properties": {"x\x00": {}}}
    )
    request = ModelRequest(purpose="selection", system="S", messages=ASK.messages, tools=(tool,))
    json.dumps(AnthropicModel(api_key=KEY).body(request), ensure_ascii=False).encode()


# --- through the router ----------------------------------------------------------------------


def answer_all(body: dict[str, Any]) -> Answer:
    """Recall names two tools; selection chooses the weather."""
    if "format" in body.get("output_config", {}):
        return text('{"candidates": ["weather.forecast", "clock.now", "made.up"]}')
    return message(use(wire_name("weather.forecast"), {"city": "Cairo"}))


@pytest.fixture
def router_bodies(catalog: Catalog, served: Served) -> list[dict[str, Any]]:
    router = Router(catalog, model=served(answer_all))
    router.route("shall I take something against the wet", now=NOW)
    return served.server.bodies


def test_recall_and_selection(catalog: Catalog, served: Served) -> None:
    """A message goes through recall and selection; usage is summed and priced."""
    router = Router(catalog, model=served(answer_all))
    trace = router.route("shall I take something against the wet", now=NOW)
    assert trace.decision.tool == "weather.forecast"
    assert trace.decision.arguments == {"city": "Cairo"}
    assert trace.recall.unknown == ("made.up",)
    assert (trace.model, trace.usage.model_calls, trace.usage.retries) == (ROUTING_MODEL, 2, 0)
    select = served.server.bodies[1]
    assert NOW in select["messages"][0]["content"]
    spent = trace.usage
    assert spent.cache_write_tokens > 0
    assert spent.cache_read_tokens == 0
    dollars = spent.input_tokens * 0.1 + spent.cache_write_tokens * 0.125 + spent.output_tokens * 0.5
    assert spent.cost_usd == pytest.approx(dollars / 1e6)
    assert served.server.headers[0]["anthropic-version"]
    assert served.server.headers[0]["x-stainless-retry-count"] == "0"


def test_cache_markers_only_in_recall(catalog: Catalog, served: Served) -> None:
    """The stable text of recall is marked, first, and the same for every message; nothing else is."""
    router = Router(catalog, model=served(answer_all))
    traces = [router.route(f"shall I take something against the wet {i}", now=NOW) for i in range(3)]
    recalls = [b for b in served.server.bodies if "tools" not in b]
    assert len(recalls) == 3
    assert all("cache_control" not in json.dumps(b) for b in served.server.bodies if "tools" in b)
    assert len({json.dumps(b["system"]) for b in recalls}) == 1
    assert recalls[0]["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in json.dumps(recalls[0]["messages"])
    assert traces[0].usage.cache_write_tokens == traces[1].usage.cache_read_tokens > 0
    assert traces[1].usage.cost_usd < traces[0].usage.cost_usd


def test_cache_off(catalog: Catalog, served: Served) -> None:
    Router(catalog, model=served(answer_all, cache=False)).route("shall I take something against the wet")
    assert "cache_control" not in json.dumps(served.server.bodies)


def test_modes(catalog: Catalog, served: Served) -> None:
    """tool, think, agent and no tool each come out as decided."""
    create, events = wire_name("calendar.create"), wire_name("calendar.list")
    model = served(
        message(use(create, {"title": "x", "date": "2026-03-11"})),
        message(use(events, {"date": "2026-03-11"}, mode="think")),
        message(use(create, {"title": "x", "date": "2026-03-12"}, mode="agent")),
        message(no_tool(0.8)),
    )
    router = Router(catalog, model=model, settings=SELECT)
    found = [router.route("book a meeting, what is on my calendar", now=NOW).decision for _ in range(4)]
    assert [d.outcome for d in found] == ["call", "call", "call", "no_tool"]
    assert [d.mode for d in found] == ["tool", "think", "agent", None]
    assert found[3].confidence == pytest.approx(0.8)


def test_fallback_order(catalog: Catalog, served: Served) -> None:
    """Native tool use, then structured output (where the schema has that form), then JSON in text."""
    model = served(
        text("let me see"), text("still no JSON"), text('{"calls": [], "mode": "tool", "confidence": 0.7}')
    )
    trace = Router(catalog, model=model, settings=SELECT).route("book a meeting", now=NOW)
    assert (trace.decision.outcome, trace.usage.model_calls) == ("no_tool", 3)
    native, second, third = served.server.bodies
    assert "tools" in native
    assert "tools" not in second
    assert "tools" not in third
    assert "format" in second["output_config"]
    assert "format" not in third.get("output_config", {})


def test_fallback_is_bounded(catalog: Catalog, served: Served) -> None:
    model = served(lambda body: text("no"))
    limited = SELECT.replace({"selection.fallback_attempts": 1})
    trace = Router(catalog, model=model, settings=limited).route("book a meeting")
    assert (trace.decision.outcome, trace.decision.reason) == ("rejected", "MALFORMED_ANSWER")
    assert len(served.server.bodies) == 2


def test_model_that_takes_no_forced_tool(catalog: Catalog, served: Served) -> None:
    """Sonnet routes too: the tool is asked for, not forced, and notes before the call are passed over."""
    answer = message(thinking("brief"), use(wire_name("clock.now")))
    trace = Router(catalog, model=served(answer, name=REASONING_MODEL), settings=SELECT).route(
        "what time is it"
    )
    assert trace.decision.tool == "clock.now"


def test_conversation(served: Served) -> None:
    """A conversation request brings the text of all text blocks, past thinking ones."""
    prompt = load_prompt("conversation")
    request = ModelRequest(
        purpose="conversation",
        system=prompt.text,
        messages=({"role": "user", "content": query_text(Query(message="شكرا"))},),
    )
    reply = served(
        message(thinking(""), {"type": "text", "text": "على "}, {"type": "text", "text": "الرحب"})
    ).complete(request)
    assert (reply.text, reply.stop_reason, reply.tool_calls) == ("على الرحب", "end_turn", ())
    assert "cache_control" not in json.dumps(served.server.bodies)


def test_thinking_blocks_are_handed_back(served: Served) -> None:
    """A loop of several rounds hands back the blocks it was given, unchanged; the server checks them."""

    def ask(i: int) -> dict[str, Any]:
        return {"type": "tool_use", "id": f"toolu_{i}", "name": "a", "input": {"x": i}}

    rounds = [message(thinking(f"thought {i}"), ask(i)) for i in range(3)]
    model = served(*rounds, message(thinking("last"), {"type": "text", "text": "done"}), name=REASONING_MODEL)
    messages: tuple[Mapping[str, Any], ...] = ASK.messages
    for i in range(3):
        reply = model.complete(ModelRequest(purpose="agent", system="S", messages=messages, tools=(TOOL,)))
        assert json.loads(json.dumps(reply.turn)) == reply.turn
        result = {"type": "tool_result", "tool_use_id": reply.tool_calls[0].id, "content": str(i)}
        messages = (
            *messages,
            {"role": "assistant", "content": reply.turn},
            {"role": "user", "content": [result]},
        )
    last = model.complete(ModelRequest(purpose="agent", system="S", messages=messages, tools=(TOOL,)))
    assert (last.text, last.tool_calls) == ("done", ())
    for i, body in enumerate(served.server.bodies):
        sent = body["messages"]
        assert len(sent) == 1 + 2 * i
        assert body["thinking"] == {"type": "adaptive"}
        assert [m["content"] for m in sent[1::2]] == [[thinking(f"thought {n}"), ask(n)] for n in range(i)]


def test_changed_thinking_is_refused() -> None:
    """The server's own rule: the test above would fail if a block were touched."""
    block = {**thinking("a"), "thinking": "b"}
    messages = [{"role": "assistant", "content": [block]}, {"role": "user", "content": "go on"}]
    assert "cannot be modified" in str(refusal({"model": "m", "max_tokens": 1, "messages": messages}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": 0}, "Extra inputs"),
        ({"tools": [{"name": "a.b", "input_schema": {"type": "object"}}]}, "should match pattern"),
        (
            {"tools": [{"name": "a", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"}},
            "any",
        ),
        ({"thinking": {"type": "disabled"}}, "not supported"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "prefill"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}, "explicitly"),
    ],
)
def test_server_enforces_the_rules(change: dict[str, Any], words: str) -> None:
    body = {"model": REASONING_MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    assert refusal(body) is None
    assert words in str(refusal({**body, **change}))


def test_the_rules_hold_over_the_wire(served: Served) -> None:
    """What breaks a rule comes back through the SDK as a 400 that says which; it is not retried."""
    import anthropic

    with MessagesServer([]) as server:
        client = anthropic.Anthropic(auth_token=KEY, base_url=server.url, max_retries=0)
        said: Any = [{"role": "user", "content": "hi"}]
        tool: Any = {"name": "a", "input_schema": {"type": "object"}}
        for model, more, words in (
            (ROUTING_MODEL, {"extra_body": {"temperature": 0}}, "temperature: Extra inputs"),
            (ROUTING_MODEL, {"tools": [{**tool, "name": "a.b"}]}, "should match pattern"),
            (REASONING_MODEL, {"tools": [tool], "tool_choice": {"type": "any"}}, '"any" is not supported'),
        ):
            with pytest.raises(anthropic.BadRequestError, match=words):
                client.messages.create(model=model, max_tokens=9, messages=said, **more)
        client.close()
        assert len(server.refused) == len(server.bodies) == 3


def test_count_tokens(served: Served) -> None:
    """The count comes from the API's own counting, for the same parameters."""
    model = served()
    assert model.count_tokens(ASK) > 0
    assert "max_tokens" not in served.server.bodies[0]


# --- failures --------------------------------------------------------------------------------


def rate_limited(**headers: str) -> Answer:
    return error(429, "rate_limit_error", "slow down", **headers)


@pytest.mark.parametrize(
    ("answer", "code", "calls", "words"),
    [
        (error(400, "invalid_request_error", "bad"), "MODEL_PROVIDER_ERROR", 1, "invalid_request_error: bad"),
        (error(401, "authentication_error"), "MODEL_NOT_CONFIGURED", 1, "ANTHROPIC_API_KEY"),
        (error(402, "billing_error"), "MODEL_PROVIDER_ERROR", 1, "402"),
        (error(403, "permission_error"), "MODEL_PROVIDER_ERROR", 1, "403"),
        (error(404, "not_found_error", "model: nova"), "MODEL_PROVIDER_ERROR", 1, "nova"),
        (error(408, "timeout_error"), "MODEL_TIMEOUT", 4, "after 4 attempts"),
        (rate_limited(retry_after="1"), "MODEL_PROVIDER_ERROR", 4, "after 4 attempts"),
        (rate_limited(retry_after="3600"), "MODEL_PROVIDER_ERROR", 1, "next attempt could start in 3600"),
        (rate_limited(x_should_retry="false"), "MODEL_PROVIDER_ERROR", 1, "429"),
        (error(500, "api_error"), "MODEL_PROVIDER_ERROR", 4, "HTTP 500"),
        (error(504, "timeout_error"), "MODEL_TIMEOUT", 4, "504"),
        (error(529, "overloaded_error"), "MODEL_PROVIDER_ERROR", 4, "529"),
        (Answer(status=502, body=b"<html>"), "MODEL_PROVIDER_ERROR", 4, "502"),
        (Answer(reset=True), "MODEL_PROVIDER_ERROR", 4, "the connection failed"),
        (Answer(body=b'{"type": "mess'), "MODEL_RESPONSE_MALFORMED", 1, "no JSON object"),
        (Answer(body=b"[]"), "MODEL_RESPONSE_MALFORMED", 1, "no JSON object"),
        (Answer(body={"type": "x"}), "MODEL_RESPONSE_MALFORMED", 1, "no message"),
        (message({"type": "text"}), "MODEL_RESPONSE_MALFORMED", 1, "no message"),
        (message(), "MODEL_RESPONSE_MALFORMED", 1, "empty"),
        (text("  "), "MODEL_RESPONSE_MALFORMED", 1, "empty"),
        (message(thinking("hm")), "MODEL_RESPONSE_MALFORMED", 1, "blocks: thinking"),
        (text("half", stop="model_context_window_exceeded"), "MODEL_RESPONSE_MALFORMED", 1, "cut off"),
        (
            message(stop="refusal", stop_details={"type": "refusal", "category": "cyber"}),
            "MODEL_PROVIDER_ERROR",
            1,
            "refused to answer (category cyber)",
        ),
        (text("I cannot", stop="refusal"), "MODEL_PROVIDER_ERROR", 1, "refused"),
    ],
)  # fmt: skip
def test_failures(
    answer: Answer, code: str, calls: int, words: str, served: Served, catalog: Catalog
) -> None:
    """Each failure has its code, is retried or not, and ends as an error, in recall and in selection."""
    caught = failure(served(lambda body: answer))
    assert caught.code == code
    assert words in caught.message
    assert len(served.server.bodies) == calls
    assert caught.usage.retries == calls - 1
    for settings_, message_ in (
        (Settings(), "shall I take something against the wet"),
        (SELECT, "book a meeting"),
    ):
        decision = (
            Router(catalog, model=served(lambda body: answer), settings=settings_).route(message_).decision
        )
        assert (decision.outcome, decision.reason) == ("error", code)


def test_retry_is_counted(served: Served) -> None:
    """What a retry mends is a reply, with the number of retries and the waits that were asked for."""
    clock = Clock()
    model = served(
        error(529, "overloaded_error"), rate_limited(retry_after_ms="1500"), Answer(reset=True),
        text("hello"), clock=clock, sleep=clock.sleep,
    )  # fmt: skip
    reply = model.complete(ASK)
    assert (reply.text, reply.usage.retries, reply.usage.model_calls) == ("hello", 3, 1)
    assert reply.usage.latency_ms >= 1500
    assert 0.375 <= clock.slept[0] <= 0.5
    assert 1.5 <= sum(clock.slept[1:-1]) <= 1.75
    assert 1.5 <= clock.slept[-1] <= 2.0


def test_timeout(served: Served) -> None:
    """A silent server is left after the bound, not later."""
    import time

    model = served(Answer(hang_s=1.0, body=b"{}"), timeout_s=0.2, clock=time.monotonic, sleep=time.sleep)
    started = time.monotonic()
    assert failure(model).code == "MODEL_TIMEOUT"
    assert time.monotonic() - started < 0.8


@pytest.mark.parametrize("min_score", [None, 0.0], ids=["recall", "selection"])
def test_timeout_is_an_error(min_score: float | None, served: Served, catalog: Catalog) -> None:
    """A silent server ends a route as an error with its code, in either stage; never as "no tool"."""
    import time

    model = served(
        lambda body: Answer(hang_s=0.5, body=b"{}"), timeout_s=0.15, clock=time.monotonic, sleep=time.sleep
    )
    chosen = Settings().replace({"lexical.min_score": min_score})
    trace = Router(catalog, model=model, settings=chosen).route("what time is it")
    assert (trace.decision.outcome, trace.decision.reason) == ("error", "MODEL_TIMEOUT")
    assert trace.recall.model_called == (min_score is None)
    assert trace.usage.model_calls == 1


def test_reply_that_trickles_in(served: Served) -> None:
    """A reply that comes byte by byte is dropped at the bound, though no single read is late."""
    import time

    slow = Answer(body=text("hello").body, drip_s=0.02)
    model = served(slow, timeout_s=0.3, clock=time.monotonic, sleep=time.sleep)
    started = time.monotonic()
    assert failure(model).code == "MODEL_TIMEOUT"
    assert time.monotonic() - started < 1.0


def test_cut_off(served: Served, catalog: Catalog) -> None:
    """A reply that was cut off says so; recall reads it as malformed, selection asks in another way."""
    cut = text('{"candidates": ["clock', stop="max_tokens")
    assert served(cut).complete(ASK).stop_reason == "max_tokens"
    assert served(message(thinking("hm"), stop="max_tokens")).complete(ASK).text == ""
    decision = Router(catalog, model=served(cut)).route("shall I take something against the wet").decision
    assert (decision.outcome, decision.reason) == ("error", "MODEL_RESPONSE_MALFORMED")
    model = served(
        message(use(wire_name("clock.now")), stop="max_tokens"), text('{"calls": [], "confidence": 0.6}')
    )
    trace = Router(catalog, model=model, settings=SELECT).route("what time is it")
    assert (trace.decision.outcome, trace.usage.model_calls) == ("no_tool", 2)


LIGHT = wire_name("light.switch")


@pytest.mark.parametrize(
    ("blocks", "code"),
    [
        (
            [use(LIGHT, {"room": "hall", "state": "on"}), use(wire_name("clock.now"), id_="toolu_2")],
            "TOO_MANY_CALLS",
        ),
        ([use("open_the_safe")], "TOOL_OUTSIDE_CANDIDATES"),
        ([use(LIGHT, {"room": "hall", "colour": "red"})], "UNKNOWN_ARGUMENT"),
        ([use(LIGHT, {"room": "hall", "api_key": "x"})], "SENSITIVE_ARGUMENT"),
        ([use(LIGHT, {"room": 3, "state": "on"})], "ARGUMENT_SCHEMA"),
        ([use(wire_name("calendar.create"), {"title": "x", "calendar_id": "c"})], "SYSTEM_ARGUMENT"),
        ([use(LIGHT, {"room": "hall", "state": "on"}, mode="agent")], "MODE_UNSUPPORTED"),
        ([use(LIGHT, {"room": "hall", "state": "on"}, confidence=7)], "MALFORMED_ANSWER"),
        ([{"type": "tool_use", "id": "toolu_1", "name": LIGHT, "input": None}], "MALFORMED_ANSWER"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_that_break_a_rule(blocks: list[Any], code: str, served: Served, catalog: Catalog) -> None:
    """A call that breaks a rule is rejected with its code and never becomes a call."""
    router = Router(catalog, model=served(lambda body: message(*blocks)), settings=SELECT)
    decision = router.route("turn on the light, tell me what time is it, book a meeting").decision
    assert {r.code for r in decision.rejections} == {code}
    assert (decision.outcome, decision.reason, decision.calls) == ("rejected", code, ())


def test_null_argument(served: Served, catalog: Catalog) -> None:
    """null for "not said" is dropped; what is then missing is asked for."""
    router = Router(
        catalog, model=served(message(use(LIGHT, {"room": "hall", "state": None}))), settings=SELECT
    )
    decision = router.route("turn on the light").decision
    assert (decision.outcome, decision.missing, decision.arguments) == ("ask", ("/state",), {"room": "hall"})


# --- many threads ----------------------------------------------------------------------------


def test_all_threads_slow_down(served: Served) -> None:
    """After one 429 no thread sends before the time that the server named."""
    import time

    seen = threading.Event()

    def script(body: dict[str, Any]) -> Answer:
        if not seen.is_set():
            seen.set()
            return rate_limited(retry_after_ms="400")
        return text("hello")

    model = served(script, clock=time.monotonic, sleep=time.sleep, timeout_s=20.0)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(model.complete, ASK)
        assert seen.wait(5)
        time.sleep(0.1)
        rest = [pool.submit(model.complete, ASK) for _ in range(5)]
        replies = [f.result() for f in (first, *rest)]
    assert {reply.text for reply in replies} == {"hello"}
    assert sum(reply.usage.retries for reply in replies) == 1
    times = served.server.times
    assert min(times[1:]) - times[0] >= 0.4


def test_one_thread_writes_the_cache(served: Served) -> None:
    """Threads that start together let one write the prompt cache; the others read it."""
    import time

    def script(body: dict[str, Any]) -> Answer:
        return Answer(body=text("{}").body, hang_s=0.1)

    model = served(script, clock=time.monotonic, sleep=time.sleep)
    ask = ModelRequest(purpose="recall", system="S" * 4000, messages=ASK.messages)
    with ThreadPoolExecutor(6) as pool:
        usages = [reply.usage for reply in pool.map(model.complete, [ask] * 6)]
    assert sum(u.cache_write_tokens > 0 for u in usages) == 1
    times = sorted(served.server.times)
    assert times[1] - times[0] >= 0.1


def test_attempts_forget_a_failed_writer() -> None:
    """A writer that fails lets the next one write."""
    attempts = Attempts(max_attempts=1, timeout_s=1.0)
    for _ in range(2):
        with pytest.raises(KeyError), attempts.one_writer("p", 0.0):
            raise KeyError
    with attempts.one_writer("p", 0.0):
        pass


@given(st.lists(st.none() | st.floats(0, 30), max_size=8), st.floats(0.5, 60), st.integers(1, 8))
@settings(max_examples=200)
def test_attempts_keep_the_bound(delays: list[float | None], timeout_s: float, most: int) -> None:
    """Whatever a server asks for, waits end before the bound and attempts are counted."""
    clock = Clock()
    attempts = Attempts(max_attempts=most, timeout_s=timeout_s, seed=1, sleep=clock.sleep, clock=clock)
    script = iter(delays)
    made = 0

    def attempt(left_s: float) -> bytes | Failure:
        nonlocal made
        made += 1
        assert 0 < left_s <= timeout_s
        try:
            delay = next(script)
        except StopIteration:
            return b"x"
        return Failure(code="C", message="m", retry=True, delay_s=delay, limited=delay is not None)

    try:
        _, retries = attempts.run(attempt, deadline=timeout_s)
    except GaveUp as error:
        retries = error.retries
    assert retries == made - 1
    assert made <= most
    assert clock.now < timeout_s


# --- secrets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        error(401, "authentication_error", f"key {KEY} is wrong"),
        error(500, "api_error", KEY),
        Answer(reset=True),
    ],
)
def test_no_secret_in_errors(answer: Answer, served: Served, caplog: pytest.LogCaptureFixture) -> None:
    """The key is in no error, no traceback, no exception behind it, no repr and no log."""
    caplog.set_level("DEBUG")
    model = served(answer, max_attempts=1)
    caught = failure(model)
    seen = "".join(traceback.format_exception(caught)) + repr(model) + repr(caught.__dict__) + caplog.text
    assert KEY not in seen
    assert caught.__context__ is None


SECRET = "SENTINEL"


def sentinel_catalog() -> Catalog:
    """Tools with sentinels in everything that no model may see."""
    auth = {"type": "bearer", "env": f"{SECRET}_ENV"}
    run = {
        "http": {
            "method": "POST", "url": f"https://{SECRET}.example.com", "auth": auth,
            "body": {"a": {"from": f"{SECRET}_fact"}}, "response": {"select": f"{SECRET}_response"},
        },
        "dependencies": {"account": f"{SECRET}_tool"},
    }  # fmt: skip
    properties = {"city": {"type": "string"}, f"{SECRET}_account": {"type": "string", "description": SECRET}}
    schema = {"type": "object", "properties": properties, "required": ["city", f"{SECRET}_account"]}
    return Catalog(
        Tool(
            id=f"tool.{i}", title=f"Tool {i}", description=f"Weather report number {i}",
            hints=(f"weather {i}",), examples=(Example(message=f"weather {i} please"),), input_schema=schema,
            system_arguments=(f"{SECRET}_account",), run=run,
        )
        for i in range(4)
    )  # fmt: skip


PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)


@given(PLAIN, PLAIN, st.integers(0, 3), st.sampled_from(["tool", "skill"]), st.integers(0, 2))
def test_request_contract(message_: str, person: str, examples: int, level: str, attempt: int) -> None:
    """No request, of any purpose or attempt, holds anything of what a model may not see."""
    memory = Memory(
        turn=2,
        entities=(
            Entity(type="person", value=person, turn=1),
            Entity(type="id", value=f"{SECRET}-4111", turn=1, secret=True),
        ),
        calls=(PastCall(tool="tool.1", arguments={"city": "Cairo", "token": f"{SECRET}_token"}, turn=1),),
        pending=PastCall(tool="tool.2", arguments={"city": f"near {SECRET}-4111"}, turn=2),
        facts={"user": f"{SECRET}_fact", "response": f"{SECRET}_response"},
    )
    model = AnthropicModel(api_key=f"{SECRET}-key")
    from mono_router.recall import recall_request
    from mono_router.selection import selection_request

    catalog = sentinel_catalog()
    query = Query(message=message_, memory=memory, now=NOW, id=f"{SECRET}_case")
    chosen = Settings().replace({"recall.catalog_examples": examples, "recall.level": level}).recall
    recall = recall_request(query, catalog, chosen, load_prompt("recall"), None)
    select = selection_request(query, catalog.tools, load_prompt("selection"), attempt)
    for request in (recall, select):
        body = model.body(request)
        assert SECRET not in json.dumps(body, ensure_ascii=False)
        assert refusal(body) is None
        check_types(body)
        assert set(body) <= {
            "model",
            "max_tokens",
            "messages",
            "system",
            "thinking",
            "tools",
            "tool_choice",
            "output_config",
        }
        assert [m["role"] for m in body["messages"]] == ["user"]
        content = body["messages"][0]["content"]
        assert content.endswith("</message>")
        assert content.count("<message>") == content.count("</message>") == 1
        assert json.dumps(message_, ensure_ascii=False).replace("<", "\\u003c") in content
        if request is select and attempt == 0:
            assert [t["name"] for t in body["tools"]] == [*map(wire_name, catalog.ids), "no_tool"]
