"""The runtime: what a message, an invocation, a confirmation and feedback give, and that nothing raises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import NOW, by_purpose, call
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_parts import CALENDAR, CATALOG, ROUTER, House, home

import mono_router
from mono_router.models.scripted import ScriptedModel
from mono_router.records import ModelError, ModelReply, Tool, Usage
from mono_router.runtime.agent import AgentRuntime
from mono_router.runtime.calls import CATEGORIES
from mono_router.runtime.config import ConfigError
from mono_router.runtime.results import STATUSES, Result
from mono_router.selection import REJECTIONS


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def runtime(house: House) -> Iterator[AgentRuntime]:
    with home(house, debug=True) as made:
        yield made


def say(runtime: AgentRuntime, *messages: str, session: str = "s") -> Result:
    """The result of the last of several messages."""
    for message in messages:
        result = runtime.chat(session, message)
    return result


# --- from outcome to status ---------------------------------------------------------------------------


def test_a_call_runs_and_its_answer_is_the_reply(runtime: AgentRuntime, house: House) -> None:
    """A message that names a tool and all it needs is done."""
    result = say(runtime, "what is the weather in Cairo?")
    assert (result.status, result.tool, result.arguments) == (
        "completed",
        "weather.forecast",
        {"city": "Cairo"},
    )
    assert result.data == {"city": "Cairo", "sky": "clear"}
    assert result.reply == "city: Cairo\nsky: clear"
    assert house.calls == ["weather.forecast"]


@pytest.mark.parametrize(
    ("first", "answers", "arguments"),
    [
        ("book a meeting", ["tomorrow at 17:00", "Dentist"], ("Dentist", "2026-03-11", "17:00")),
        ("agenda una reunión", ["mañana a las 17:00", "Dentista"], ("Dentista", "2026-03-11", "17:00")),
        ("احجز اجتماعا", ["غدا الساعة 17:00", "طبيب الأسنان"], ("طبيب الأسنان", "2026-03-11", "17:00")),
    ],
    ids=["en", "es", "ar"],
)
def test_what_is_missing_is_asked_for_and_answered(runtime, house, first, answers, arguments) -> None:
    """A call stays pending while it misses arguments, and bare answers fill them."""
    result = say(runtime, first)
    assert (result.status, result.tool) == ("needs_input", "calendar.create")
    assert result.missing == ("/title", "/date")
    result = say(runtime, answers[0])
    assert (result.status, result.missing) == ("needs_input", ("/title",))
    result = say(runtime, answers[1])
    assert result.status == "completed"
    title, date, start = arguments
    assert house.events == [
        {"event_id": "EV-1", "title": title, "date": date, "start": start, "calendar": CALENDAR}
    ]
    assert runtime.memory("s").pending is None


@pytest.mark.parametrize("name", ["Maria", "خالد", "a Begoña", "to my brother Juan"])
def test_a_bare_name_fills_the_person_alone(runtime, name) -> None:
    """A name answers for whom, and not what to say."""
    result = say(runtime, "send a message", name)
    assert (result.status, result.missing) == ("needs_input", ("/text",))
    assert result.arguments["to"] in name


def test_a_detour_keeps_the_call_waiting_and_returns_to_it(runtime, house) -> None:
    """Another request is served, the reply leads back, and the next answer counts for the waiting call."""
    result = say(runtime, "book a meeting", "what time is it?")
    assert (result.status, result.tool) == ("completed", "clock.now")
    assert result.reply.startswith("09:30\nBack to Create an event")
    assert runtime.memory("s").pending.tool == "calendar.create"
    result = say(runtime, "tomorrow", "Dentist")
    assert (result.status, result.tool) == ("completed", "calendar.create")


def test_a_detour_may_ask_for_more_itself(runtime, house) -> None:
    """The detour's own question comes first, then the earlier one."""
    result = say(runtime, "book a meeting", "turn on the light in the kitchen")
    assert (result.status, result.tool, result.missing) == ("needs_input", "light.switch", ("/state",))
    result = say(runtime, "on")
    assert house.lights == {"kitchen": "on"}
    assert "Back to Create an event" in result.reply


def test_the_request_said_again_in_full_is_read_by_itself(runtime, house) -> None:
    """A message that repeats the request with its values fills them, and is not taken as a value whole."""
    say(runtime, "send a message to Maria")
    result = say(runtime, 'send a message to Juan saying "see you"')
    assert (result.status, result.arguments) == ("needs_confirmation", {"to": "Juan", "text": "see you"})
    say(runtime, "book a meeting")
    result = say(runtime, "book me a meeting with Juan tomorrow at 16:00")
    assert result.arguments["date"] == "2026-03-11"
    assert result.arguments["start"] == "16:00"


def test_small_talk_fills_nothing(runtime) -> None:
    """Thanks, a greeting and a bare yes are no title."""
    say(runtime, "book a meeting", "tomorrow")
    for message in ("thanks", "hello", "yes", "gracias", "شكرا", "نعم"):
        result = say(runtime, message)
        assert result.status in ("completed", "needs_input")
        assert runtime.memory("s").pending.arguments == {"date": "2026-03-11"}


@pytest.mark.parametrize(
    "word", ["cancel", "Never mind.", "إلغاء", "انسى الموضوع", "déjalo", "cancela, por favor"]
)
def test_a_word_drops_what_waits(runtime, word) -> None:
    """Cancel words in three languages drop the waiting call."""
    result = say(runtime, "book a meeting", word)
    assert (result.status, result.tool) == ("completed", "calendar.create")
    assert runtime.memory("s").pending is None
    assert say(runtime, "tomorrow at 5").tool != "calendar.create"


def test_cancel_without_anything_waiting_says_so(runtime) -> None:
    """The method drops what waits, once."""
    say(runtime, "book a meeting")
    assert runtime.cancel("s").tool == "calendar.create"
    assert runtime.cancel("s").reply == "There is nothing to cancel."
    assert runtime.cancel("never used").error.code == "SESSION_INVALID"


@pytest.mark.parametrize(
    "answer", ["2", "٢", "the second one", "الثاني", "la segunda", "Show what I have listed"]
)
def test_a_close_pair_is_chosen_from(answer) -> None:
    """Two tools that come out too close are shown, and the user numbers or names one."""
    pair = mono_router.Catalog(
        [
            Tool(id="a.find", title="Find a shop", description="shops nearby", hints=("something nearby",)),
            Tool(
                id="b.show",
                title="Show what I have listed",
                description="my list",
                hints=("something nearby",),
            ),
        ]
    )
    ran = []
    tools = {"a.find": lambda: ran.append("a"), "b.show": lambda: ran.append("b")}
    config = {"catalog": pair, "encoder": "none", "routing": {"selection": {"min_margin": 0.9}}}
    with AgentRuntime.create(config=config, tools=tools, now=NOW) as runtime:
        result = runtime.chat("s", "something nearby")
        assert result.status == "needs_selection"
        second = result.data[1]["tool"]
        assert [row["number"] for row in result.data] == [1, 2]
        if answer.startswith("Show"):
            second = "b.show"
        result = runtime.chat("s", answer)
        assert (result.status, result.tool) == ("completed", second)
        assert ran == [second[0]]


def test_no_tool_converses_or_is_an_error(house) -> None:
    """Small talk gets a reply without a tool; with conversation off it is ROUTING_NO_MATCH."""
    with home(house) as runtime:
        result = say(runtime, "hello")
        assert (result.status, result.tool) == ("completed", None)
        assert result.reply
    with home(house, {"assistant": {"conversation": {"enabled": False}}}) as runtime:
        result = say(runtime, "hello")
        assert (result.status, result.error.code, result.error.category) == (
            "error",
            "ROUTING_NO_MATCH",
            "routing",
        )
    assert house.calls == []


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (call("drop_all_tables"), "MODEL_TOOL_SELECTION_FAILED"),
        (call("weather_forecast-x", {"city": "Cairo"}, mode="think"), "MODEL_TOOL_SELECTION_FAILED"),
        ("no call at all", "MODEL_RESPONSE_MALFORMED"),
        (ModelError("MODEL_TIMEOUT", "no reply in 30 s"), "MODEL_TIMEOUT"),
        (ModelError("MODEL_PROVIDER_ERROR", "HTTP 500"), "MODEL_PROVIDER_ERROR"),
        (RuntimeError("sk-secret"), "MODEL_PROVIDER_ERROR"),
    ],
    ids=["outside", "outside-2", "malformed", "timeout", "provider", "raises"],
)
def test_a_model_that_fails_is_an_error_with_its_code(house, answer, code) -> None:
    """Rejections and failures of the routing model come back as errors; nothing runs."""
    model = by_purpose(recall={"candidates": ["weather.forecast"]}, selection=answer)
    with home(house, model=model) as runtime:
        result = say(runtime, "tell me about the sky")
    assert (result.status, result.error.code) == ("error", code)
    assert "sk-secret" not in result.to_json()
    assert house.calls == []


@pytest.mark.parametrize(
    "arguments", [{"city": 5}, {"town": "Cairo"}, {"api_key": "x"}], ids=["schema", "unknown", "sensitive"]
)
def test_arguments_that_break_the_schema_are_a_violation(house, arguments) -> None:
    """What a model may not pass is MODEL_SCHEMA_VIOLATION."""
    from mono_router.catalog import wire_name

    answer = call(wire_name("weather.forecast"), arguments)
    model = by_purpose(recall={"candidates": ["weather.forecast"]}, selection=answer)
    with home(house, model=model) as runtime:
        result = say(runtime, "tell me about the sky")
    assert result.error.code == "MODEL_SCHEMA_VIOLATION"
    assert house.calls == []


def test_a_pending_call_is_filled_through_a_model(house) -> None:
    """With a routing model the answer of its choice is merged into what waits."""
    from mono_router.catalog import wire_name

    name = wire_name("calendar.create")
    answers = iter([call(name, {"title": "Dentist"}), call(name, {"date": "2026-03-11"})])
    model = ScriptedModel(
        lambda request: {"candidates": ["calendar.create"]} if request.purpose == "recall" else next(answers)
    )
    with home(house, model=model) as runtime:
        assert say(runtime, "put the dentist down").missing == ("/date",)
        result = say(runtime, "tomorrow")
        assert result.status == "completed"
        assert result.arguments == {"title": "Dentist", "date": "2026-03-11"}
        assert result.meta.tool_selection_calls == 1
    pending = model.requests[-1].messages[0]["content"]
    assert '"pending": {"arguments": {"title": "Dentist"}' in pending
    assert not any(CALENDAR in json.dumps(request.messages) for request in model.requests)


# --- confirmation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("agreement", ["yes", "ok, do it", "confirm", "sí", "نعم", "أكد"])
def test_only_confirm_runs_a_write_that_wants_it(runtime, house, agreement) -> None:
    """A bare yes in the chat runs nothing and says how to confirm; confirm runs it, once."""
    result = say(runtime, "send a message to Maria saying hello")
    assert (result.status, result.arguments) == ("needs_confirmation", {"to": "Maria", "text": "hello"})
    for message in (agreement, agreement):
        result = say(runtime, message)
        assert result.status == "needs_confirmation"
    assert house.sent == []
    result = runtime.confirm("s")
    assert (result.status, result.reply) == ("completed", "Sent to Maria.")
    assert house.sent == [("Maria", "hello")]
    assert runtime.confirm("s").error.code == "CONFIRMATION_STALE"
    assert house.sent == [("Maria", "hello")]


def test_a_confirmation_goes_stale(house) -> None:
    """A confirmation too late, of a dropped call, of another call or of no session runs nothing."""
    clock = [0.0]
    with home(house, {"sessions": {"confirm_s": 60}}, clock=lambda: clock[0]) as runtime:
        first = say(runtime, "send a message to Maria saying hello")
        clock[0] += 61
        assert runtime.confirm("s").error.code == "CONFIRMATION_STALE"
        first = say(runtime, "send a message to Maria saying hello")
        second = say(runtime, "send a message to Juan saying bye")
        stale = runtime.confirm("s", request_id=first.request_id)
        assert stale.error.code == "CONFIRMATION_STALE"
        assert runtime.confirm("s", request_id=second.request_id).status == "completed"
        say(runtime, "send a message to Maria saying hello", "no")
        assert runtime.confirm("s").error.code == "CONFIRMATION_STALE"
        assert runtime.confirm("nobody").error.code == "CONFIRMATION_STALE"
    assert house.sent == [("Juan", "bye")]


def test_a_confirmation_waits_through_a_detour(runtime, house) -> None:
    """Something else in between is served, and the call still waits."""
    result = say(runtime, "send a message to Maria saying hello", "what time is it?")
    assert result.tool == "clock.now"
    assert "still waits for its confirmation" in result.reply
    assert runtime.confirm("s").tool == "message.send"


# --- memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "then", "to"),
    [
        ("Maria called me", "send her a message", "Maria"),
        ("ayer hablé con Begoña", "envíale un mensaje", "Begoña"),
        ("اتصلت بي مريم", "أرسل لها رسالة", "مريم"),
    ],
    ids=["en", "es", "ar"],
)
def test_a_pronoun_means_the_last_person(runtime, first, then, to) -> None:
    """ "send her a message" after Maria goes to Maria, two turns later too."""
    result = say(runtime, first, "what time is it?", then)
    assert (result.status, result.tool, result.missing) == ("needs_input", "message.send", ("/text",))
    assert result.arguments == {"to": to}


def test_a_new_request_does_not_take_the_date_of_another(runtime) -> None:
    """A date of an earlier turn is used only where the message points back to it."""
    result = say(runtime, "am I busy on Friday", "book a meeting with Ana")
    assert result.missing == ("/date",)


def test_what_a_result_names_fills_here_and_is_shown_to_no_one(house) -> None:
    """One record's id serves the next call; neither a model nor a log sees it."""
    catalog = mono_router.Catalog(
        [
            Tool(id="next", title="Next appointment", description="d", hints=("show my next appointment",)),
            Tool(
                id="drop",
                title="Cancel an appointment",
                description="d",
                hints=("cancel my appointment",),
                input_schema={
                    "properties": {"appointment_id": {"type": "string", "pattern": "^PA-[0-9]+$"}},
                    "required": ["appointment_id"],
                },
                effects="write",
            ),
        ]
    )
    dropped: list[str] = []
    tools = {
        "next": lambda: {"appointment_id": "PA-7788", "token": "tok-1"},
        "drop": lambda appointment_id: dropped.append(appointment_id),
    }
    log = Notes()
    config = {"catalog": catalog, "encoder": "none"}
    with AgentRuntime.create(config=config, tools=tools, journal=log, now=NOW) as runtime:
        assert "PA-7788" in say(runtime, "show my next appointment").reply
        assert "tok-1" not in say(runtime, "show my next appointment").reply
        assert say(runtime, "cancel my appointment").status == "completed"
    assert dropped == ["PA-7788"]
    assert "tok-1" not in repr(log.rows)
    assert not any("PA-7788" in trace.to_json() for trace, _ in log.rows[:2])


# --- invoke -------------------------------------------------------------------------------------------


def test_invoke_runs_under_the_same_checks(runtime, house) -> None:
    """The host's own call is checked, asked about and confirmed like any other; no model takes part."""
    result = runtime.invoke("weather.forecast", {"city": "Cairo"})
    assert (result.status, result.data["city"], result.meta.model_calls) == ("completed", "Cairo", 0)
    assert runtime.invoke("calendar.create", {"title": "x"}, "s").missing == ("/date",)
    assert say(runtime, "tomorrow").status == "completed"
    result = runtime.invoke("message.send", {"to": "Maria", "text": "hello"})
    assert (result.status, house.sent) == ("needs_confirmation", [])
    assert runtime.confirm(result.session_id).status == "completed"
    assert house.sent == [("Maria", "hello")]


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "says"),
    [
        ("no.such", {}, "INPUT_INVALID", "unknown tool"),
        (5, {}, "INPUT_INVALID", "unknown tool"),
        ("clock.now", [1], "INPUT_INVALID", "must be a mapping"),
        ("clock.now", {"a": {1, 2}}, "INPUT_INVALID", "no JSON"),
        ("clock.now", {"a": float("nan")}, "INPUT_INVALID", "not finite"),
        ("clock.now", {1: 2}, "INPUT_INVALID", "no text"),
        ("clock.now", {"a": 1}, "INPUT_SCHEMA_VIOLATION", "UNKNOWN_ARGUMENT"),
        ("weather.forecast", {"city": 5}, "INPUT_SCHEMA_VIOLATION", "ARGUMENT_SCHEMA"),
        ("calendar.create", {"calendar_id": "x"}, "INPUT_SCHEMA_VIOLATION", "SYSTEM_ARGUMENT"),
        ("clock.now", {"password": "hunter2"}, "INPUT_SCHEMA_VIOLATION", "SENSITIVE_ARGUMENT"),
    ],
)
def test_invoke_refuses_what_is_wrong(runtime, house, tool, arguments, code, says) -> None:
    """Bad input has its code, and the message names what is wrong without its value."""
    result = runtime.invoke(tool, arguments)
    assert (result.status, result.error.code) == ("error", code)
    assert says in result.error.message
    assert "hunter2" not in result.to_json()
    assert house.calls == []


def test_a_broken_tool_is_told_by_type_alone(house) -> None:
    """What a tool raises never reaches a result."""
    house.broken = {"clock.now"}
    with home(house) as runtime:
        for result in (say(runtime, "what time is it"), runtime.invoke("clock.now", {})):
            assert (result.status, result.error.code) == ("error", "TOOL_EXECUTION_FAILED")
            assert (result.tool, result.error.category) == ("clock.now", "execution")
            assert "sk-broken-1" not in result.to_json()


# --- results ------------------------------------------------------------------------------------------


def test_meta_and_debug_have_their_names(runtime) -> None:
    """Fields read by name and by key, as DESIGN 10 names them."""
    result = say(runtime, "what is the weather in Cairo?")
    names = (
        "model_calls model_recall_calls tool_selection_calls conversation_calls tool_calls input_tokens "
        "output_tokens cost_usd retry_count duration_ms lexical_ms recall_ms selection_ms "
        "conversation_ms tool_ms"
    )
    assert [result.meta[name] for name in names.split()]
    assert (result.meta.tool_calls, result.meta["model_calls"]) == (1, 0)
    assert result.meta.duration_ms >= result.meta.tool_ms > 0
    routing = result.debug.routing
    assert set(routing) == {"lexical", "model_recall", "candidates", "tool_selection", "outcome"}
    assert routing.lexical.candidates[0]["tool"] == "weather.forecast"
    assert set(routing.model_recall) == {"used", "skipped_because", "candidates"}
    assert routing.tool_selection.selected == ["weather.forecast"]
    assert routing["outcome"] == "call"
    record = json.loads(result.to_json())
    assert record["debug"]["routing"]["outcome"] == "call"
    assert record["meta"]["tool_calls"] == 1


def test_results_show_themselves_as_html(runtime) -> None:
    """A result is one escaped fragment."""
    html = say(runtime, "send a message to Maria saying <script>alert(1)</script>")._repr_html_()
    assert "<script" not in html
    assert "needs confirmation" in html


def test_without_debug_there_is_none(house) -> None:
    """Debug is None unless asked for."""
    with home(house) as runtime:
        assert say(runtime, "what time is it").debug is None


# --- the log ------------------------------------------------------------------------------------------


class Notes:
    """A log that keeps what it is told; ``fails`` makes it raise."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.rows: list[tuple[Any, str | None]] = []
        self.outcomes: list[tuple[Any, ...]] = []
        self.said: list[tuple[Any, ...]] = []

    def record(self, trace: Any, *, session_id: str | None = None) -> str:
        if self.fails:
            raise OSError("disk full")
        self.rows.append((trace, session_id))
        return f"row-{len(self.rows)}"

    def outcome(self, request_id: str, status: str, error: str | None) -> None:
        if self.fails:
            raise OSError("disk full")
        self.outcomes.append((request_id, status, error))

    def feedback(self, request_id: str, value: str, note: str | None) -> None:
        if self.fails:
            raise OSError("disk full")
        self.said.append((request_id, value, note))


def test_the_log_is_told_of_decisions_outcomes_and_feedback(house) -> None:
    """Each routed message is one row; outcome and feedback name it."""
    log = Notes()
    house.broken = {"clock.now"}
    with home(house, journal=log) as runtime:
        result = say(runtime, "what time is it")
        assert result.request_id == "row-1"
        result = say(runtime, "send a message to Maria saying hello")
        runtime.confirm("s")
        assert runtime.feedback(result.request_id, "down", note="wrong one").status == "completed"
    assert [session for _, session in log.rows] == ["s", "s"]
    assert log.outcomes == [
        ("row-1", "error", "TOOL_EXECUTION_FAILED"),
        ("row-2", "needs_confirmation", None),
        ("row-2", "completed", None),
    ]
    assert log.said == [("row-2", "down", "wrong one")]
    assert CALENDAR not in "".join(trace.to_json() for trace, _ in log.rows)


def test_an_answer_is_logged_as_the_call_that_it_completed(house) -> None:
    """The row of a bare answer names the waiting tool, whatever the words look like."""
    log = Notes()
    with home(house, journal=log) as runtime:
        say(runtime, "turn on the light", "the kitchen", "on")
    decisions = [trace.decision for trace, _ in log.rows]
    assert [d.tool for d in decisions] == ["light.switch"] * 3
    assert [d.reason for d in decisions[1:]] == ["ANSWER", "ANSWER"]


def test_a_failing_log_fails_no_chat(house) -> None:
    """Whatever the log raises stays there."""
    with home(house, journal=Notes(fails=True)) as runtime:
        assert say(runtime, "what time is it").status == "completed"
        assert runtime.feedback("x", "up").status == "completed"


def test_a_log_that_only_records_is_enough(house) -> None:
    """outcome and feedback are optional."""

    class Plain:
        def record(self, trace: Any, *, session_id: str | None = None) -> str | None:
            return None

    with home(house, journal=Plain()) as runtime:
        result = say(runtime, "what time is it")
        assert (result.status, len(result.request_id)) == ("completed", 32)


# --- create -------------------------------------------------------------------------------------------


def test_create_tells_every_problem_at_once(tmp_path) -> None:
    """Unknown keys, bad values and what the catalog may not run are told together, with file and line."""
    (tmp_path / "catalog.yaml").write_text(
        "version: 1\ntools:\n"
        "  - {id: a, description: A, run: {python: 'os:system'}}\n"
        "  - {id: b, description: B, run: {http: {url: 'https://api.example.com/b', "
        "auth: {type: bearer, env: OTHER_KEY}}}}\n",
        encoding="utf-8",
    )
    (tmp_path / "config.yml").write_text(
        "routng: {}\nsessions: {ttl_s: -1}\nmodels: {routing: no-such-model}\n"
        "assistant:\n  conversation: {enabled: perhaps}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        AgentRuntime.create(config_path=tmp_path / "config.yml", now="half past nine")
    text = str(caught.value)
    for says in (
        "config.yml:1: unknown key 'routng', did you mean 'routing'?",
        "config.yml:2: sessions.ttl_s must be a number of seconds > 0, got -1",
        "models.routing: ",
        "config.yml:5: assistant.conversation.enabled must be true or false, got 'perhaps'",
        "now must be an ISO 8601 date and time",
        "a: run.python names module 'os', which the host does not list",
        "b: run.http.auth asks for OTHER_KEY, which the host gives to no origin",
    ):
        assert says in text
    assert len(caught.value.problems) == 7


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "give config_path or config"),
        ({"config": {}, "config_path": "x"}, "not both"),
        ({"router": ROUTER, "model": ScriptedModel([])}, "a router has its own"),
        ({"config": {}}, "catalog is missing"),
        ({"config": {"catalog": "/no/such/place"}}, "catalog: "),
        ({"config_path": "/no/such/config.yml"}, "no such file"),
        ({"config": {"catalog": CATALOG}, "tools": {"x": print}}, "tools names 'x', which is no tool"),
    ],
)
def test_create_raises_for_what_cannot_be_made(given, says) -> None:
    """A runtime that could not work is not made."""
    with pytest.raises(ConfigError, match=says):
        AgentRuntime.create(**given)


def test_modules_beside_the_configuration_are_the_hosts_to_list(tmp_path) -> None:
    """A module beside config.yml runs when listed, by the file or by the argument, and not otherwise."""
    (tmp_path / "garden_tools_7.py").write_text(
        "def water(minutes=5):\n    return {'watered': minutes}\n", encoding="utf-8"
    )
    (tmp_path / "catalog.yaml").write_text(
        "version: 1\ntools:\n  - id: garden.water\n    description: Water the garden\n"
        "    hints: [water the garden]\n"
        "    input_schema: {type: object, properties: {minutes: {type: integer}}}\n"
        "    run: {python: 'garden_tools_7:water'}\n",
        encoding="utf-8",
    )
    config = tmp_path / "config.yml"
    config.write_text("encoder: none\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="does not list"):
        AgentRuntime.create(config_path=config)
    with AgentRuntime.create(config_path=config, python_modules=["garden_tools_7"], now=NOW) as runtime:
        assert runtime.chat("s", "water the garden").data == {"watered": 5}


def test_a_tool_without_a_run_is_routed_to_and_cannot_run() -> None:
    """A catalog alone makes a runtime; a call says that nothing executes it."""
    config = {"catalog": mono_router.Catalog([Tool(id="t", description="d", hints=("do it now",))])}
    with AgentRuntime.create(config={**config, "encoder": "none"}, now=NOW) as runtime:
        result = runtime.chat("s", "do it now")
    assert (result.tool, result.error.code) == ("t", "CONFIG_INVALID")


# --- nothing raises -----------------------------------------------------------------------------------

_HOSTILE_TEXT = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="\x00\u202e\u2066\ud800\ufeff\u200f\x1b\n\r\t/\"'{}<>\\٠a ", max_size=80),
    st.sampled_from(
        [
            "",
            " ",
            "\x00",
            "\u202e" * 50,
            "a" * 100_001,
            "{" * 5_000,
            "../../admin",
            "/confirm",
            "yes",
            "2",
            "٢",
        ]
    ),
)
_DEEP = st.integers(1, 3_000).map(lambda n: json.loads("[" * min(n, 900) + "]" * min(n, 900)))


class _Odd:
    """An object whose every method raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


_HOSTILE = st.one_of(
    _HOSTILE_TEXT,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=20),
    st.just(object()),
    st.builds(_Odd),
    _DEEP,
    st.recursive(
        st.one_of(st.none(), st.integers(), st.floats(), _HOSTILE_TEXT),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(_HOSTILE_TEXT, inner, max_size=4)
        ),
        max_leaves=12,
    ),
)
_TOOLS = st.one_of(st.sampled_from(CATALOG.ids), _HOSTILE)
_SESSIONS = st.one_of(st.sampled_from(["s", "t", "u"]), _HOSTILE)
_MESSAGES = st.one_of(
    _HOSTILE, st.sampled_from(["book a meeting", "send a message to Maria saying hi", "turn on the light"])
)


@pytest.fixture(scope="module")
def besieged() -> Iterator[AgentRuntime]:
    with home(journal=Notes()) as made:
        yield made


@settings(max_examples=200)
@given(data=st.data())
def test_nothing_that_is_sent_raises(besieged, data) -> None:
    """Five hostile calls an example, 1,000 in all: each returns a result with a known status and code."""
    runtime = besieged
    session = data.draw(_SESSIONS)
    results = [
        runtime.chat(session, data.draw(_MESSAGES)),
        runtime.invoke(data.draw(_TOOLS), data.draw(_HOSTILE), data.draw(st.one_of(st.none(), _SESSIONS))),
        runtime.confirm(session),
        runtime.cancel(session),
        runtime.feedback(data.draw(_HOSTILE), data.draw(_HOSTILE), data.draw(_HOSTILE)),
    ]
    for result in results:
        assert result.status in STATUSES
        assert (result.error is None) == (result.status != "error")
        if result.error is not None:
            assert result.error.category == CATEGORIES[result.error.code]
        assert result.to_json().encode("utf-8")
        assert result._repr_html_().encode("utf-8")


def test_every_code_of_a_rejection_has_its_error() -> None:
    """No rejection falls through."""
    from mono_router.runtime.turns import _REJECTED

    assert set(_REJECTED) <= set(REJECTIONS)


def test_after_dispose_everything_is_disposed(house) -> None:
    """A disposed runtime answers RUNTIME_DISPOSED, and may be disposed twice."""
    runtime = home(house)
    say(runtime, "send a message to Maria saying hello")
    runtime.dispose()
    runtime.dispose()
    for result in (
        runtime.chat("s", "hi"),
        runtime.invoke("clock.now", {}),
        runtime.confirm("s"),
        runtime.cancel("s"),
        runtime.feedback("x", "up"),
    ):
        assert (result.status, result.error.code) == ("error", "RUNTIME_DISPOSED")
    assert house.sent == []


def test_conversation_calls_are_counted(house) -> None:
    """A conversation model's reply is the answer, and what it cost stands in meta."""
    reply = ModelReply(text="Hello there!", usage=Usage(model_calls=1, input_tokens=50, output_tokens=5))
    selection = call("no_tool")
    model = by_purpose(recall={"candidates": []}, selection=selection, conversation=reply)
    with home(house, model=model) as runtime:
        result = say(runtime, "hello")
    assert result.reply == "Hello there!"
    assert (result.meta.conversation_calls, result.meta.output_tokens) == (1, 5)
    assert result.meta.model_calls == sum(
        (result.meta.model_recall_calls, result.meta.tool_selection_calls, result.meta.conversation_calls)
    )
