"""Sessions: their bounds and ages, that none sees another, and that whole sessions can be evaluated."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_parts import House, home

from mono_router.lab.sessions import (
    SessionCase,
    SessionTurn,
    evaluate_sessions,
    load_sessions,
    session_from,
)
from mono_router.records import Entity, PastCall
from mono_router.runtime.config import SessionLimits
from mono_router.runtime.load import run_load, sentinel
from mono_router.runtime.mentions import from_message, from_result
from mono_router.runtime.sessions import MAX_WAITING, NoSession, Session, Sessions, Waiting, session_problem

# --- the store ----------------------------------------------------------------------------------------


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_is_made_once_and_kept() -> None:
    """The same id gives the same session, with the host's facts."""
    sessions = Sessions(facts=lambda id_: {"user": id_})
    with sessions.use("a") as one:
        one.language = "ar"
    with sessions.use("a") as two:
        assert two is one
        assert two.memory.facts == {"user": "a"}


def test_a_session_ends_by_age() -> None:
    """What is not used for the time to live is forgotten; use renews it."""
    clock = Clock()
    sessions = Sessions(SessionLimits(ttl_s=10), clock=clock)
    with sessions.use("a"):
        pass
    clock.now = 9
    with sessions.use("a", create=False):
        pass
    clock.now = 19
    with sessions.use("a", create=False):
        pass
    clock.now = 30
    with pytest.raises(NoSession), sessions.use("a", create=False):
        pass
    assert len(sessions) == 0


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 6))
def test_the_least_recently_used_give_way(ids, limit) -> None:
    """At most the limit is kept, and it is the sessions used last."""
    sessions = Sessions(SessionLimits(max_sessions=limit))
    for i in ids:
        with sessions.use(str(i)):
            pass
    last = list(dict.fromkeys(reversed(ids)))[:limit]
    assert {str(i) for i in range(10) if str(i) in sessions} == {str(i) for i in last}


def test_a_session_at_work_is_not_taken_away() -> None:
    """While a turn runs its session stays, whatever the limits say."""
    clock = Clock()
    sessions = Sessions(SessionLimits(max_sessions=1, ttl_s=10), clock=clock)
    with sessions.use("a") as a:
        clock.now = 100
        for i in range(5):
            with sessions.use(f"other-{i}"):
                pass
        with sessions.use("a", create=False) as again:
            assert again is a
    assert len(sessions) == 1


def test_turns_of_one_session_do_not_cross() -> None:
    """A session is used by one thread at a time."""
    sessions = Sessions()
    inside, most = 0, 0
    lock = threading.Lock()

    def work(_: int) -> None:
        nonlocal inside, most
        with sessions.use("a"):
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(400)))
    assert most == 1


def test_what_waits_is_bounded_and_one_confirmation_is_there() -> None:
    """The oldest waiting call gives way; a newer confirmation replaces the one before."""
    session = Session("s", facts={}, max_turns=6)
    for i in range(5):
        session.push(Waiting(kind="input", request_id=str(i), message="m", tool=f"t{i}"))
    assert [w.tool for w in session.waiting] == ["t2", "t3", "t4"][-MAX_WAITING:]
    for i in range(2):
        session.push(Waiting(kind="confirmation", request_id=str(i), message="m", tool="w"))
    assert [w.request_id for w in session.waiting if w.kind == "confirmation"] == ["1"]
    assert session.pending is None


def test_history_and_memory_are_bounded() -> None:
    """Only the last turns are kept, and what results named goes with them."""
    session = Session("s", facts={"user": "u"}, max_turns=3)
    for i in range(10):
        session.find([Entity(type="id", value=f"r{i}"), Entity(type="id", value=f"k{i}", secret=True)])
        people = [Entity(type="person", value=f"p{i}")]
        session.end_turn(f"message {i}", "x" * 9_999, entities=people, call=PastCall(tool="t"))
    assert [exchange.message for exchange in session.history] == ["message 7", "message 8", "message 9"]
    assert all(len(exchange.reply) == 500 for exchange in session.history)
    assert {e.value for e in session.memory.entities if not e.secret} == {"p7", "p8", "p9"}
    assert [e.value for e in session.found] == ["r7", "r8", "r9"]
    assert session.memory.facts == {"user": "u"}


@pytest.mark.parametrize("bad", ["", "a\x00", "x" * 201, "\u202e", 5, None, "a\nb"])
def test_ids_of_sessions_are_printable_text(bad) -> None:
    """Anything else is no session."""
    assert session_problem(bad) is not None


# --- what turns mention -------------------------------------------------------------------------------

NOW = "2026-03-10T09:30:00+01:00[Europe/Madrid]"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "lunch with Zoe in Berlin on Friday",
            {("person", "Zoe"), ("place", "Berlin"), ("date", "2026-03-13")},
        ),
        ("quedé con Begoña en Sevilla", {("person", "Begoña"), ("place", "Sevilla")}),
        ("أرسل رسالة لخالد", {("person", "خالد")}),
        ("call maria@example.com about PA-1234", {("email", "maria@example.com"), ("id", "PA-1234")}),
        ("قهوة مع نجلاء", {("person", "نجلاء")}),
        ("حوّل ٢٠ يورو إلى شهد", {("person", "شهد")}),
        ("اكتب لهيثم أنني سأتأخر", {("person", "هيثم")}),
        ("كلم الأستاذ حاتم", {("person", "حاتم")}),
        ("plan my trip to Lisbon", set()),
        ("رحلة إلى روما", set()),
        ("موعد مع طبيب الأسنان", set()),
        ("أرسل لها رسالة", set()),
        ("Book a Table", set()),
        ("What time is it in the office?", set()),
    ],
)
def test_messages_name_people_places_and_times(message, expected) -> None:
    """Entities are typed; a capital alone makes no person, and in Arabic the place of a word may."""
    assert {(e.type, e.value) for e in from_message(message, NOW)} == expected


def test_a_list_of_results_names_nothing() -> None:
    """Of several records none is meant more than another; of one, all its values are."""
    rows = [{"id": "A-1"}, {"id": "A-2"}]
    assert from_result(rows) == ()
    assert [e.value for e in from_result({"items": rows[:1]})] == ["A-1"]
    [secret] = from_result({"access_token": "t"})
    assert secret.secret


@given(st.recursive(st.none() | st.text(max_size=300), lambda s: st.lists(s) | st.dictionaries(st.text(), s)))
def test_entities_of_results_are_bounded(value) -> None:
    """Whatever a tool returns, few and short entities come of it."""
    found = from_result(value)
    assert len(found) <= 20
    assert all(0 < len(entity.value) <= 200 for entity in found)


# --- load ---------------------------------------------------------------------------------------------

TEMPLATES = (
    "what time is it?",
    "send a message to {word} saying hello",
    "what is the weather in {word}?",
    "book a meeting",
    "with {word}, tomorrow at 17:00",
    "{word}",
    "Maria called me",
    "send her a message",
    "cancel",
    "yes",
    "turn on the light",
    "the kitchen",
    "thanks",
)


def test_no_state_crosses_between_sessions() -> None:
    """1,000 messages of 50 sessions on 16 threads: each session holds its own word and no other's."""
    house = House()
    with home(house, {"sessions": {"max_sessions": 40}}) as runtime:
        load = run_load(runtime, TEMPLATES, n_sessions=50, n_messages=1_000)
        assert load.crossed == ()
        assert load.n_errors == 0
        assert load.per_second > 0
        assert 0 < len(runtime._sessions) <= 40
        held = 0
        for i in range(50):
            memory = runtime.memory(f"load-{i}")
            if memory is None:
                continue
            words = {e.value for e in memory.entities if e.value.startswith("Zq")}
            assert words <= {sentinel(i)}
            held += bool(words)
        assert held > 10
    assert house.calls.count("clock.now") > 20


def test_a_crossing_would_be_seen() -> None:
    """A runtime that mixes sessions up is caught by the same check."""
    with home(House()) as runtime:
        chat = runtime.chat
        runtime.chat = lambda session_id, message: chat("load-0", message)  # type: ignore[method-assign]
        load = run_load(runtime, TEMPLATES, n_sessions=5, n_threads=2, n_messages=60)
    assert load.crossed


# --- whole sessions -----------------------------------------------------------------------------------

SCRIPT = {
    "id": "maria",
    "language": "en",
    "turns": [
        {"say": "hello", "expect": {"status": "completed", "tool": None}},
        {"say": "Maria called me"},
        {"say": "send her a message", "expect": {"status": "needs_input", "missing": ["/text"]}},
        {"say": "what time is it?", "expect": {"tool": "clock.now", "reply_has": "back to send"}},
        {"say": "See you at 17:00", "expect": {"status": "needs_confirmation", "arguments": {"to": "maria"}}},
        {"do": "confirm", "expect": {"status": "completed", "tool": "message.send"}},
        {"do": "confirm", "expect": {"status": "error", "error": "CONFIRMATION_STALE"}},
    ],
}


def test_whole_sessions_are_run_closed_loop() -> None:
    """Each turn is judged on what really came; the summary counts turns and whole sessions."""
    wrong = {"id": "wrong", "turns": [{"say": "what time is it?", "expect": {"tool": "light.switch"}}]}
    house = House()
    with home(house) as runtime:
        report = evaluate_sessions(runtime, [session_from(SCRIPT), session_from(wrong)], jobs=2)
    assert report.wrong() == [
        "wrong turn 1 'what time is it?': tool: 'light.switch' expected, 'clock.now' came"
    ]
    assert house.sent == [("Maria", "See you at 17:00")]
    summary = report.summary()
    assert (summary.loc["turn_accuracy", "n"], summary.loc["session_success", "value"]) == (7, 0.5)
    assert summary.loc["turn_accuracy", "value"] == pytest.approx(6 / 7)
    assert list(report.frame["turn"]) == [1, 2, 3, 4, 5, 6, 7, 1]


def test_a_runtime_for_each_session() -> None:
    """A function makes one for each session, and it is disposed afterwards."""
    made = []

    def make():
        made.append(home(House()))
        return made[-1]

    report = evaluate_sessions(make, [session_from(SCRIPT)] * 2)
    assert report.wrong() == []
    assert [runtime.chat("s", "hi").error.code for runtime in made] == ["RUNTIME_DISPOSED"] * 2


def test_sessions_are_read_from_a_file(tmp_path) -> None:
    """One JSON line a session; what is wrong is told with file and line."""
    file = tmp_path / "sessions.jsonl"
    file.write_text(json.dumps(SCRIPT) + "\n\n", encoding="utf-8")
    [session] = load_sessions(file)
    assert session.turns[0] == SessionTurn(message="hello", expect={"status": "completed", "tool": None})
    assert isinstance(session, SessionCase)
    bad = [{"id": "x"}, {"id": "y", "turns": [{"say": "a", "expect": {"toll": "b"}}]}]
    file.write_text("\n".join(json.dumps(b) for b in bad) + "\n{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"sessions.jsonl:1: a session needs an id and turns") as caught:
        load_sessions(file)
    assert "sessions.jsonl:2: y: turn 1: 'toll' is not known here" in str(caught.value)
    assert "sessions.jsonl:3: " in str(caught.value)
