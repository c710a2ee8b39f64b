"""The journal keeps what was decided, gives it back exactly, and is never in the way of a route."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import by_purpose, call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.journal.database import SCHEMA, Database, JournalError
from mono_router.journal.evidence import packed, tool_facts, tools_of, unpacked
from mono_router.journal.redaction import redact
from mono_router.journal.replay import SCORE_NAMES
from mono_router.journal.rows import COLUMNS, signed
from mono_router.journal.store import Journal
from mono_router.journal.writer import Job, Writer
from mono_router.records import Entity, Memory, ModelReply, PastCall, Trace
from mono_router.router import Router
from mono_router.settings import FIELDS, Settings

MESSAGES = (
    "book me a meeting with Juan at 4pm", "what is on my calendar", "remind me to call Maria tomorrow",
    "احجز اجتماعا مع سارة غدا", "ponme una reunión con Ana el viernes", "hello", "play some music", "",
    "send Maria a message and tell me the weather tomorrow",
)  # fmt: skip
EVIL = "a\x00b\ud800'\"; REMOVE TABLE decision; --`⟩\u202e\x1f\x1e"


@pytest.fixture
def journal() -> Iterator[Journal]:
    with Journal("mem://") as opened:
        yield opened


def only_row(journal: Journal) -> dict[str, Any]:
    journal.flush()
    rows = [row for page in journal.pages() for row in page]
    assert len(rows) == 1
    return rows[0]


# --- writing and reading back -----------------------------------------------------------------------


def test_a_decision_comes_back_as_it_was(journal: Journal, router: Router) -> None:
    """Every column of a row says what the trace said, and the row is what was signed."""
    trace = router.route(MESSAGES[0])
    request = journal.record(trace, session_id="s")
    row = only_row(journal)
    assert row["id"] == request
    assert set(row) == {"id", *COLUMNS}
    assert (row["message"], row["session"], row["tool"]) == (MESSAGES[0], "s", trace.decision.tool)
    assert (row["p_tool"], row["confidence"]) == (trace.decision.p_tool, trace.decision.confidence)
    assert json.loads(row["ranked"]) == [[r.tool, r.score] for r in trace.decision.ranked]
    assert (row["catalog_hash"], row["settings_hash"]) == (trace.catalog_hash, trace.settings_hash)
    assert (row["schema"], row["propensity"]) == (SCHEMA, 1.0)
    assert journal.verify() == []


def test_outcomes_and_feedback_join_their_decision(journal: Journal, router: Router) -> None:
    """The frame folds them into the request; the last feedback counts, an error is not wiped by silence."""
    request = journal.record(router.route("hello"), session_id="s")
    journal.outcome(request, status="error", error="TOOL_TIMEOUT")
    journal.outcome(request, re_asked=True)
    journal.feedback(request, "up")
    journal.feedback(request, "down", note="no")
    journal.flush()
    row = journal.frame().iloc[0]
    assert (row["status"], row["error"], row["re_asked"]) == ("error", "TOOL_TIMEOUT", True)
    assert (row["feedback"], row["note"]) == ("down", "no")


def test_only_told_labels_become_cases(journal: Journal, router: Router) -> None:
    """A thumbs up labels a message, silence and a thumbs down do not."""
    traces = [router.route(message) for message in MESSAGES[:3]]
    up, down, _ = (journal.record(trace, session_id=f"s{i}") for i, trace in enumerate(traces))
    journal.feedback(up, "up")
    journal.feedback(down, "down")
    journal.flush()
    (case,) = journal.cases()
    assert (case.id, case.message) == (up, MESSAGES[0])
    assert case.expected_tools == traces[0].decision.tools


def test_a_dropped_request_takes_no_outcome(journal: Journal) -> None:
    """None stands for a request that was dropped; what is no id of ours is refused."""
    journal.outcome(None, status="completed")
    journal.feedback(None, "up")
    journal.flush()
    assert journal.status.written == 0
    with pytest.raises(ValueError, match="request_id must be what record"):
        journal.outcome("decision:1; REMOVE TABLE decision", status="completed")
    with pytest.raises(ValueError, match="feedback must be 'up' or 'down', got 'meh'"):
        journal.feedback("0" * 32, "meh")  # type: ignore[arg-type]


def test_a_session_can_be_forgotten(journal: Journal, router: Router) -> None:
    """Nothing of a forgotten session is left, and everything of the others is."""
    for session in ("gone", "kept", "gone"):
        request = journal.record(router.route("hello"), session_id=session)
        journal.outcome(request, status="completed")
        journal.feedback(request, "down", note="mine")
    assert journal.forget("gone") == 2
    assert journal.frame()["session"].tolist() == ["kept"]
    assert [journal.database.count(table) for table in ("decision", "outcome", "feedback")] == [1, 1, 1]


def test_export_writes_every_row(journal: Journal, router: Router, tmp_path: Path) -> None:
    """JSON lines and Parquet hold the same rows with their outcomes."""
    import pandas as pd

    for message in MESSAGES:
        journal.record(router.route(message), session_id="s")
    journal.flush()
    assert journal.export(tmp_path / "log.jsonl") == journal.export(tmp_path / "log.parquet") == len(MESSAGES)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text("utf-8").splitlines()]
    table = pd.read_parquet(tmp_path / "log.parquet")
    assert table["message"].tolist() == [line["message"] for line in lines] == list(MESSAGES)
    with pytest.raises(ValueError, match=r"path must end in .jsonl or .parquet"):
        journal.export(tmp_path / "log.csv")


# --- replay -------------------------------------------------------------------------------------


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "lexical.min_score": st.sampled_from([None, 0.0, 0.3, 0.6, 0.9, 1.0]),
        "lexical.min_margin": st.sampled_from([0.0, 0.1, 0.4]),
        "lexical.candidate_limit": st.integers(1, 12),
        "recall.candidate_limit": st.integers(1, 6),
        "recall.min_score": st.sampled_from([None, 0.0, 0.2, 0.5]),
        "fusion.method": st.sampled_from(["interleave", "rrf", "weighted"]),
        "fusion.rrf_k": st.integers(0, 80),
        "candidate_limit": st.integers(1, 8),
        "selection.min_confidence": st.sampled_from([None, 0.0, 0.3, 0.7, 1.0]),
        "selection.min_margin": st.sampled_from([0.0, 0.2, 0.5]),
        "selection.min_write_confidence": st.sampled_from([0.0, 0.6, 0.9]),
        "selection.bypass_score": st.sampled_from([None, 0.5, 0.9]),
    },
)


@pytest.fixture(scope="module")
def logged(embedding_router: Router) -> Iterator[Journal]:
    with Journal("mem://") as opened:
        memory = Memory(turn=1, pending=PastCall(tool=embedding_router.catalog.ids[0]))
        for message in MESSAGES:
            opened.record(embedding_router.route(message))
        opened.record(embedding_router.route("at 5pm", memory=memory))
        opened.flush()
        yield opened


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES)
def test_replay_decides_what_the_router_would(
    logged: Journal, embedding_router: Router, changes: dict[str, Any]
) -> None:
    """Under any decide, truncate or select setting a replayed row is the route itself, or unrecorded."""
    wanted = Settings().replace(changes)
    replayed = logged.replay(wanted)
    other = embedding_router.with_settings(wanted)
    memory = Memory(turn=1, pending=PastCall(tool=embedding_router.catalog.ids[0]))
    traces = [*(other.route(message) for message in MESSAGES), other.route("at 5pm", memory=memory)]
    for row, trace in zip(replayed.rows, traces, strict=True):
        if row.after is not None:
            assert row.after == (trace.decision.outcome, tuple(c.tool for c in trace.decision.calls))
            assert (row.p_tool, row.recalled) == (trace.decision.p_tool, trace.recall.used)
    assert replayed.n_unrecorded <= len(MESSAGES) // 2


def test_replay_under_its_own_settings_changes_nothing(logged: Journal) -> None:
    """What was decided is what the evidence says."""
    replayed = logged.replay(Settings())
    assert (replayed.n_changed, replayed.n_unrecorded, len(replayed)) == (0, 0, len(MESSAGES) + 1)
    assert replayed.summary().loc["changed", "high"] == 0.0
    assert not replayed.frame["changed"].any()


@pytest.mark.parametrize("name", [n for n in SCORE_NAMES if FIELDS[n].metadata["kind"] == "bool"])
def test_a_setting_that_shapes_scores_is_unrecorded(logged: Journal, name: str) -> None:
    """The rows say which setting it was; nothing is guessed."""
    replayed = logged.replay(Settings().replace({name: not Settings().get(name)}))
    assert replayed.reasons == {f"{name} changes scores": len(replayed)}


def test_more_hits_than_were_kept_are_unrecorded(logged: Journal) -> None:
    """A wider limit is known only where the kept list had ended by itself."""
    replayed = logged.replay(Settings().replace({"recall.candidate_limit": 7, "recall.ask_limit": 12}))
    assert set(replayed.reasons) <= {"recall.candidate_limit is wider than what was kept"}
    assert replayed.n_unrecorded > 0


def test_a_confident_row_has_no_answer_of_model_recall(catalog: Catalog) -> None:
    """Raising min_score asks for an answer that was never given; lowering it needs none."""
    model = by_purpose(
        recall=ModelReply(text=json.dumps({"candidates": [catalog.ids[0]]})),
        selection=ModelReply(tool_calls=(call("no_tool"),)),
    )
    router = Router(catalog, model=model, settings=Settings().replace({"lexical.min_score": 0.1}))
    with Journal("mem://") as journal:
        journal.record(router.route("book a meeting"))
        journal.flush()
        raised = journal.replay(router.settings.replace({"lexical.min_score": None}))
        assert raised.reasons == {"model recall was not asked": 1}
        assert raised.summary().loc["recall_rate", "high"] == 1.0
        same = journal.replay(router.settings.replace({"selection.min_margin": 0.0}))
        assert (same.n_unrecorded, same.n_changed) == (0, 0)


def test_evidence_survives_its_text(embedding_router: Router) -> None:
    """Packed and unpacked evidence is equal in all that a decision reads."""
    for message in MESSAGES:
        scored = embedding_router.route(message).scored
        tools = tools_of(tool_facts(scored.tools))
        again = unpacked(packed(scored), tools)
        for name in (
            "lexical", "embedding", "lexical_scores", "embedding_scores", "log_odds", "parts",
            "lexical_scale",
            "embedding_scale", "pending", "n_offered", "selector_scores",
        ):  # fmt: skip
            assert getattr(again, name) == getattr(scored.evidence, name), name
    with pytest.raises(ValueError, match="evidence is malformed"):
        unpacked("{}", {})


# --- in nobody's way ----------------------------------------------------------------------------


class Stuck(Database):
    """A database whose inserts wait, and then fail as often as they are told to."""

    def __init__(self) -> None:
        super().__init__("mem://")
        self.gate = threading.Event()
        self.failures = 0

    def insert(self, table: str, rows: Any) -> None:
        self.gate.wait(30)
        if self.failures:
            self.failures -= 1
            raise JournalError("disk full")
        super().insert(table, rows)


def row(i: int) -> dict[str, Any]:
    return signed({"id": f"{i:032x}", "schema": SCHEMA})


def test_a_full_queue_drops_and_counts() -> None:
    """Whoever puts never waits; what was dropped is counted and told."""
    database = Stuck()
    writer = Writer(database, queue_size=5, batch=2)
    took = [writer.put(Job("decision", lambda i=i: row(i))) for i in range(20)]
    assert took.count(False) == writer.status.dropped >= 13
    assert "queue full (5 rows)" in writer.status.error
    with pytest.raises(JournalError, match="rows are not written after"):
        writer.flush(0.01)
    database.gate.set()
    assert writer.flush(10) == took.count(False)
    assert database.count("decision") == took.count(True)
    writer.close(5)
    assert not writer.put(Job("decision", lambda: row(99)))
    database.close()


def test_a_failing_store_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """A batch that fails is written later, once, and the failure is reported."""
    database = Stuck()
    database.gate.set()
    database.failures = 1
    writer = Writer(database)
    writer.put(Job("decision", lambda: row(1)))
    assert writer.flush(10) == 0
    assert database.count("decision") == 1
    assert writer.status.error == "disk full"
    assert "disk full" in caplog.text
    database.insert("decision", [row(1)])  # a retry after an unclear failure doubles nothing
    assert database.count("decision") == 1
    writer.close(5)
    database.close()


def test_a_row_that_cannot_be_made_stops_no_other(journal: Journal, router: Router) -> None:
    """It is dropped and counted; the rows around it are kept."""

    def broken() -> dict[str, Any]:
        raise RuntimeError("boom")

    journal.record(router.route("hello"))
    journal._put("decision", broken)
    journal.record(router.route("hello"))
    assert journal.flush() == 1
    assert (journal.status.written, journal.status.error) == (2, "a row could not be made: boom")


def test_record_never_raises_even_when_closed(router: Router) -> None:
    """A closed journal drops, a route goes on."""
    journal = Journal("mem://")
    journal.close()
    journal.close()
    assert journal.record(router.route("hello")) is None
    with pytest.raises(JournalError, match="is closed"):
        journal.frame()


# --- one handle -----------------------------------------------------------------------------------


def test_one_handle_per_path_in_a_process(tmp_path: Path, router: Router) -> None:
    """A second journal on a path shares the first one's store; the last one out closes it."""
    url = f"surrealkv://{tmp_path / 'log'}"
    first, second = Journal(url), Journal(f"surrealkv://{tmp_path}/./log")
    assert first.database is second.database
    first.record(router.route("hello"))
    first.close()
    second.record(router.route("hello"))
    second.close()
    with Journal(url) as third:
        assert len(third.frame()) == 2
        assert third.verify() == []


def test_another_process_is_told_the_server_way(tmp_path: Path) -> None:
    """The error is one line and names ws://; after a close the path is free."""
    url = f"surrealkv://{tmp_path / 'log'}"
    code = f"from mono_router.journal.store import Journal; Journal({url!r}).close()"

    def other() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    with Journal(url):
        said = other().stderr.strip().splitlines()[-1]
    assert "JournalError" in said
    assert "is open in another process" in said
    assert "ws://HOST:PORT" in said
    assert other().returncode == 0


def test_a_forked_child_does_not_write(tmp_path: Path, router: Router) -> None:
    """The handle belongs to the process that opened it."""
    with Journal(f"surrealkv://{tmp_path / 'log'}") as journal:
        journal.database._pid += 1
        with pytest.raises(JournalError, match="was opened before this process was forked"):
            journal.frame()
        journal.database._pid = os.getpid()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file://x", "journal url must be surrealkv://PATH, mem:// or ws://HOST:PORT"),
        ("surrealkv://", "must name a folder"),
    ],
)
def test_bad_urls_are_named(url: str, message: str) -> None:
    """An unknown scheme or a missing path is an error of one line."""
    with pytest.raises(ValueError, match=message):
        Journal(url)


def test_a_lost_server_is_one_line_without_credentials() -> None:
    """Whatever class of error the client raises, it is a JournalError that names the place."""
    with pytest.raises(JournalError, match=r"journal ws://127.0.0.1:1: ") as caught:
        Journal("ws://user:hunter2@127.0.0.1:1")
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


# --- schema -----------------------------------------------------------------------------------------


def test_older_rows_are_read_and_newer_ones_refused(journal: Journal, router: Router) -> None:
    """Schema 1 knew no propensity; schema 3 is refused by name; both keep their hash."""
    journal.record(router.route("hello"))
    old = {k: v for k, v in only_row(journal).items() if k not in ("policy", "propensity", "support")}
    old |= {"id": "0" * 31 + "1", "at": "1970-01-01T00:00:00.000000Z", "schema": 1}
    journal.database.insert("decision", [signed(old)])
    rows = [row for page in journal.pages() for row in page]
    assert (rows[0]["schema"], rows[0]["propensity"], rows[0]["policy"]) == (1, 1.0, "")
    assert journal.verify() == []
    assert journal.replay(Settings()).n_changed == 0
    journal.database.insert("decision", [signed({**old, "id": "0" * 31 + "2", "schema": 3})])
    with pytest.raises(JournalError, match=r"decision 0{31}2 has schema 3, this version reads up to 2"):
        journal.frame()


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    """The contract of the whole store is checked before anything is read."""
    url = f"surrealkv://{tmp_path / 'log'}"
    with Journal(url) as journal:
        ids = journal.database.id("contract", "journal")
        journal.database.query("UPSERT $id SET schema = $schema", id=ids, schema=SCHEMA + 1)
    with pytest.raises(JournalError, match=f"has schema {SCHEMA + 1}, this version reads up to {SCHEMA}"):
        Journal(url)


def test_verify_names_the_row_that_was_changed(journal: Journal, router: Router) -> None:
    """A changed column, a changed hash and a changed id are each found."""
    requests = [journal.record(router.route("hello")) for _ in range(3)]
    journal.flush()
    database = journal.database
    database.query("UPDATE $id SET tool = 'x'", id=database.id("decision", str(requests[1])))
    assert journal.verify() == [f"decision {requests[1]}: hash disagrees"]


# --- privacy ----------------------------------------------------------------------------------------

SENTINELS = {
    "password": "my password is Zebra-77-Quilt",
    "contraseña": "mi contraseña es Zebra-77-Quilt gracias",
    "كلمة السر": "كلمة السر هي Zebra-77-Quilt شكرا",
    "key": "use sk-live-Zebra77QuiltAAAAbbbb1111 please",
    "bearer": "Authorization: Bearer Zebra77Quiltcccc2222",
    "card": "charge 4111 1111 1111 1111 now",
    "card in Arabic digits": "البطاقة ٤١١١١١١١١١١١١١١١",
    "endpoint": "call https://user:Zebra77@internal.example/v1?k=Quilt",
    "address": "the box is 10.11.12.13:8080/Quilt",
}
LEAKS = ("Zebra", "Quilt", "4111 1111", "41111111", "٤١١١", "internal.example", "10.11.12.13")


@pytest.mark.parametrize("text", SENTINELS.values(), ids=SENTINELS.keys())
def test_sentinels_reach_no_row(text: str, journal: Journal, router: Router) -> None:
    """Secrets in a message, an argument, a session, a note or an error are in no column of any table."""
    trace = router.route(text)
    secret = Memory(
        entities=(Entity(type="id", value="Zebra-entity", secret=True),), facts={"k": "Quilt-fact"}
    )
    traced = router.route("remind me: " + text, memory=secret)
    for one in (trace, traced):
        request = journal.record(one, session_id=text)
        journal.outcome(request, status="error", error=text)
        journal.feedback(request, "down", note=text)
    journal.flush()
    found = ""
    for table in ("decision", "outcome", "feedback", "note", "finding", "contract"):
        found += json.dumps(journal.database.query(f"SELECT * FROM {table}"), default=str, ensure_ascii=False)
    assert found.count("correction") == 2
    for leak in LEAKS:
        assert leak not in found


def test_an_argument_of_a_sensitive_name_is_nowhere(journal: Journal, router: Router) -> None:
    """Its value goes from the arguments, and from the message that it was taken from."""
    import dataclasses

    from mono_router.records import Call

    trace = router.route("open it with mellon77x")
    decision = dataclasses.replace(
        trace.decision, outcome="call", calls=(Call(tool="t", arguments={"a": {"apiKey": "mellon77x"}}),)
    )
    journal.record(dataclasses.replace(trace, decision=decision))
    stored = only_row(journal)
    assert json.loads(stored["calls"]) == [["t", {"a": {"apiKey": "[secret]"}}]]
    assert stored["message"] == "open it with [secret]"
    assert "mellon" not in json.dumps(stored)


@pytest.mark.parametrize("messages", ["hash", "drop"])
def test_messages_can_be_hashed_or_dropped(messages: Any, router: Router) -> None:
    """No text is left, replay still works, and only the key's owner can tell equal messages."""
    with Journal("mem://", messages=messages, key="k") as journal:
        for text in ("remind me of aardvarks", "remind me of aardvarks"):
            journal.record(router.route(text), session_id="s")
        journal.flush()
        rows = [row for page in journal.pages() for row in page]
        assert journal.replay(Settings()).n_changed == 0
        assert journal.cases() == []
    assert len({r["message"] for r in rows}) == 1
    assert rows[0]["message"].startswith("hmac-sha256:" if messages == "hash" else "")
    assert "aardvark" not in rows[0]["message"]
    with pytest.raises(ValueError, match="messages='hash' needs a key"):
        Journal("mem://", messages="hash")
    with pytest.raises(ValueError, match="messages must be one of keep, hash, drop, got 'x'"):
        Journal("mem://", messages="x")  # type: ignore[arg-type]


@given(text=st.text(max_size=200))
def test_redaction_keeps_what_is_no_secret_and_is_stable(text: str) -> None:
    """Redacting twice changes nothing more; letters alone are never touched."""
    once = redact(text)
    assert redact(once) == once
    assert "\x00" not in once
    words = " ".join(text.split()) if text.isascii() and text.replace(" ", "").isalpha() else None
    if words and "pass" not in words.lower() and " is " not in words.lower():
        assert redact(words) == words or any(len(w) > 19 for w in words.split())


@pytest.mark.parametrize(
    "text",
    ["reset my password please", "order 123456789012 is late", "at 16:30 on 12/03/2026",
     "call +34 600 123 456",
     "I forgot the password for my account", "version 1.2.3", "antidisestablishmentarianism"],
)  # fmt: skip
def test_ordinary_messages_are_left_alone(text: str) -> None:
    """Numbers, dates, telephones and talk of passwords are no secrets."""
    assert redact(text) == text


def test_hostile_text_is_stored_and_nothing_else_happens(journal: Journal, router: Router) -> None:
    """NUL, surrogates, quotes and statements in every text field leave the tables as they are."""
    import dataclasses

    request = journal.record(router.route(EVIL), session_id=EVIL)
    trace = router.route("hello")
    decision = dataclasses.replace(trace.decision, reason=EVIL.replace("\x00", "").replace("\ud800", ""))
    journal.record(
        dataclasses.replace(trace, decision=decision, model="m'; REMOVE TABLE note"), session_id="t"
    )
    journal.outcome(request, status=EVIL, error=EVIL)
    journal.feedback(request, "down", note=EVIL)
    assert journal.flush() == 0
    database = journal.database
    assert [database.count(t) for t in ("decision", "outcome", "feedback")] == [2, 1, 1]
    assert journal.verify() == []
    first = journal.frame().iloc[0]
    assert "; REMOVE TABLE decision; --" in first["message"]
    assert "\ufffd" in first["session"]
    texts = next(iter(database.text_pages("decision", ("session", "message", "tool"))))
    assert [len(parts) for parts in texts] == [4, 4]
    assert journal.forget(EVIL) == 1


# --- a server -----------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[str]:
    """The embedded engine behind a WebSocket on this machine: the client's own protocol, one store."""
    from surrealdb._surrealdb_ext import SyncEmbeddedDB
    from websockets.sync.server import serve

    engine = SyncEmbeddedDB("mem://")
    engine.connect()
    lock = threading.Lock()

    def relay(socket: Any) -> None:
        for request in socket:
            with lock:
                socket.send(engine.execute(request))

    with serve(relay, "127.0.0.1", 0, subprotocols=["cbor"]) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{serving.socket.getsockname()[1]}"
        serving.shutdown()


def test_two_journals_share_a_server(server: str, router: Router) -> None:
    """What one writes over ws:// the other reads, each over its own connection."""
    with Journal(server) as one, Journal(server) as two:
        assert one.database is not two.database
        one.record(router.route("hello"), session_id="a")
        two.record(router.route("hello"), session_id="b")
        one.flush()
        two.flush()
        assert sorted(one.frame()["session"]) == sorted(two.frame()["session"]) == ["a", "b"]


def test_a_lost_connection_is_opened_anew(server: str, router: Router) -> None:
    """A broken connection costs a retry, no row and no route."""
    with Journal(server) as journal:
        journal.record(router.route("hello"))
        journal.flush()
        journal.database._handle.socket.close()
        trace: Trace = router.route("hello")
        started = time.perf_counter()
        assert journal.record(trace) is not None
        assert time.perf_counter() - started < 1.0
        assert journal.flush() == 0
        assert len(journal.frame()) == 2
