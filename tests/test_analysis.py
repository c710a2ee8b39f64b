"""The analyzer tells from what users did next which decisions did not help, and analyses no row twice."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.journal.analysis import analyze
from mono_router.journal.corrections import is_correction
from mono_router.journal.findings import load_findings
from mono_router.journal.likeness import word_likeness
from mono_router.journal.rates import Rates
from mono_router.journal.rows import Choice, Privacy, decision_row, feedback_row, outcome_row
from mono_router.journal.simulation import Habits, simulate
from mono_router.journal.store import Journal
from mono_router.lab.cases import Cases
from mono_router.records import Call, Decision, Ranked, Trace
from mono_router.router import Router

START = 1_700_000_000.0


class Story:
    """Writes decisions at times of one's own choosing."""

    def __init__(self, journal: Journal, trace: Trace) -> None:
        self.journal, self.trace, self.n = journal, trace, 0

    def say(
        self,
        message: str,
        ranked: dict[str, float],
        *,
        at: float,
        session: str = "s",
        outcome: Any = "call",
        feedback: str = "",
        error: str = "",
        privacy: Privacy | None = None,
    ) -> str:
        """Store a decision of these ranked tools; return its request id."""
        self.n += 1
        request = f"{int((START + at) * 1e6):016x}{self.n:016x}"
        order = tuple(Ranked(tool=t, score=p) for t, p in ranked.items())
        calls = (Call(tool=order[0].tool),) if outcome in ("call", "ask") else ()
        confidence = order[0].score if calls else 1 - sum(ranked.values())
        decision = Decision(outcome=outcome, calls=calls, ranked=order, confidence=confidence)
        query = dataclasses.replace(self.trace.query, message=message)
        trace = dataclasses.replace(self.trace, query=query, decision=decision, scored=None)
        row = decision_row(request, trace, session_id=session, privacy=privacy or Privacy(), choice=Choice())
        self.journal.database.insert("decision", [row])
        key = f"{int((START + at + 1) * 1e6):016x}{self.n:016x}"
        if feedback:
            made = feedback_row(key, request, value=feedback, note=None)
            self.journal.database.insert("feedback", [made])
        if error:
            made = outcome_row(key, request, status="error", error=error, re_asked=False)
            self.journal.database.insert("outcome", [made])
        return request


@pytest.fixture
def story(router: Router) -> Iterator[Story]:
    with Journal("mem://") as journal:
        yield Story(journal, router.route("hello"))


UNSURE = {"a": 0.4, "b": 0.3, "c": 0.05}
SURE_B = {"b": 0.9, "a": 0.02}


def kinds(story: Story, **options: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in analyze(story.journal, **options):
        if finding.kind != "helped":
            found.setdefault(finding.request, set()).add(finding.kind)
    return found


def test_a_second_try_flags_the_first_and_names_the_tool_that_worked(story: Story) -> None:
    """Other words for one wish, routed to a rival of the first choice: re-asked, and what worked is known."""
    first = story.say("cancel the thing on friday", UNSURE, at=0)
    story.say("please cancel my friday booking", SURE_B, at=30)
    story.say("what is the weather", {"w": 0.95}, at=60)
    found = analyze(story.journal).misroutes()
    assert set(found) == {first}
    finding = found[first]
    assert (finding.kind, finding.worked, finding.worked_message) == (
        "re_asked", "b", "please cancel my friday booking",
    )  # fmt: skip
    assert finding.score > 0.7
    assert finding.worked_score > 0.7
    assert finding.evidence["words"] > 0.5


def test_a_new_topic_flags_nothing(story: Story) -> None:
    """Another wish in other words, routed elsewhere, says that the first was fine."""
    story.say("cancel the thing on friday", {"a": 0.8, "b": 0.1}, at=0)
    story.say("how tall is the eiffel tower", {"z": 0.9, "y": 0.05}, at=30)
    assert kinds(story) == {}


def test_the_same_words_to_the_same_tool_are_a_spurious_repeat(story: Story) -> None:
    """An exact repeat is no re-ask; after a failure the failure itself is what is found."""
    story.say("cancel friday", {"a": 0.8}, at=0)
    story.say("cancel friday", {"a": 0.8}, at=5)
    assert kinds(story) == {}


def test_a_correction_flags_what_came_before(story: Story) -> None:
    """In three languages, and the correction itself is no finding."""
    wanted = {}
    for n, text in enumerate(("no, I meant the other one", "لا، أقصد الموعد", "no, quería cancelar")):
        first = story.say("move it", {"a": 0.9}, at=n, session=f"s{n}")
        story.say(text, {"c": 0.9}, at=n + 10, session=f"s{n}")
        wanted[first] = {"re_asked"}
    assert kinds(story) == wanted


def test_outcome_and_feedback_are_findings(story: Story) -> None:
    """Thumbs down, a failed call, low confidence, and no match then success, each by its kind."""
    down = story.say("one", {"a": 0.9}, at=0, session="1", feedback="down")
    failed = story.say("two", {"a": 0.9}, at=1, session="2", error="INPUT_SCHEMA_VIOLATION")
    low = story.say("three", {"a": 0.2, "b": 0.1}, at=2, session="3")
    none = story.say("book a room for me", {"b": 0.3, "a": 0.1}, at=3, session="4", outcome="no_tool")
    story.say("i want to book a room", SURE_B, at=20, session="4")
    found = kinds(story)
    assert found == {
        down: {"thumbs_down"}, failed: {"failed"}, low: {"low_confidence"}, none: {"no_match_then_success"},
    }  # fmt: skip
    scores = {f.kind: f.score for f in analyze(story.journal)}
    assert scores["thumbs_down"] > scores["failed"] > scores["low_confidence"]
    assert scores["low_confidence"] < 0.5


def test_the_window_and_the_session_bound_a_second_try(story: Story) -> None:
    """Too late, or by somebody else, it is another wish."""
    story.say("cancel the thing on friday", UNSURE, at=0, session="a")
    story.say("please cancel my friday booking", SURE_B, at=700, session="a")
    story.say("cancel the thing on friday", UNSURE, at=800, session="b")
    story.say("please cancel my friday booking", SURE_B, at=830, session="c")
    assert kinds(story) == {}
    assert len(kinds(story, window_s=701)) == 1
    with pytest.raises(ValueError, match="window_s must be > 0, got 0"):
        analyze(story.journal, window_s=0)


def test_without_texts_routes_still_tell(story: Story) -> None:
    """Hashed messages leave the ranked tools, and a correction was told before it was hashed."""
    hashed = Privacy(messages="hash", key=b"k")
    first = story.say("cancel it", UNSURE, at=0, privacy=hashed)
    story.say("do away with it", SURE_B, at=10, privacy=hashed)
    second = story.say("book", {"w": 0.9}, at=20, privacy=hashed)
    story.say("no, I meant cancel", {"w": 0.9}, at=30, privacy=hashed)
    found = analyze(story.journal).misroutes()
    assert set(found) == {first, second}
    assert {f.message for f in found.values()} == {""}


def test_no_row_is_analysed_twice(story: Story) -> None:
    """Runs that go on where the last one ended find what one run finds, each once, whenever they run."""
    for n in range(40):
        story.say("cancel the thing on friday", UNSURE, at=100 * n, session=f"s{n}")
        story.say("please cancel my friday booking", SURE_B, at=100 * n + 20, session=f"s{n}")
    whole = {f.request for f in analyze(story.journal) if f.kind == "re_asked"}
    seen: list[str] = []
    for now in range(600, 6000, 700):
        part = analyze(story.journal, resume=True, now=START + now)
        seen += [f.request for f in part if f.kind == "re_asked"]
    assert len(seen) == len(set(seen))
    assert set(seen) == whole
    stored = load_findings(story.journal.database, after="0")
    assert {f.request for f in stored if f.kind == "re_asked"} == whole
    assert len(analyze(story.journal, resume=True, now=START + 6000)) == 0
    assert story.journal.cases()
    assert {case.expected_tools for case in story.journal.cases()} == {("b",)}


def test_late_feedback_is_found_once(story: Story) -> None:
    """A thumbs down that comes after the analysis of its decision is still a finding, once."""
    request = story.say("cancel friday", {"a": 0.9}, at=0)
    assert len(analyze(story.journal, resume=True, now=time.time())) == 0
    story.journal.feedback(request, "down")
    late = analyze(story.journal, resume=True, now=time.time())
    assert [(f.kind, f.request) for f in late] == [("thumbs_down", request)]
    assert len(analyze(story.journal, resume=True, now=time.time())) == 0


def test_the_overall_rate_is_learned_from_what_follows() -> None:
    """Where many next messages look like second tries, decisions are held for wrong more easily."""
    often, seldom = Rates(), Rates()
    for n in range(400):
        often.note(0.0, 5.0 if n % 2 else 0.3)
        seldom.note(0.0, 5.0 if n % 50 == 0 else 0.3)
    often.update()
    seldom.update()
    assert often.level > seldom.level
    assert Rates(often.to_dict()).level == often.level


def test_simulated_users_are_seeded(booking_router: Router, booking_dev: Cases) -> None:
    """One seed gives one log; and the analyzer holds mostly wrong routes for wrong."""
    cases = [case for case in booking_dev if len(case.expected_tools) < 2][:120]
    logs = []
    for _ in range(2):
        with Journal("mem://") as journal:
            turns = simulate(booking_router, cases, journal, seed=3)
            logs.append([(t.case.id if t.case else None, t.right, t.trace.query.message) for t in turns])
            flagged = set(analyze(journal).misroutes())
    assert logs[0] == logs[1]
    used = [case for case, _, _ in logs[0] if case]
    assert set(used) == {case.id for case in cases}
    truth = {t.request: t.right for t in turns if t.case}
    hits = [truth[request] for request in flagged if request in truth]
    assert len(hits) >= 10
    assert sum(hits) / len(hits) < sum(truth.values()) / len(truth)
    with pytest.raises(ValueError, match="habits must be shares"):
        Habits(reask=0.9, correct=0.2)


@given(one=st.text(max_size=30), other=st.text(max_size=30))
def test_likeness_is_symmetric_and_bounded(one: str, other: str) -> None:
    """Two texts are as alike one way as the other, and a text with words is wholly like itself."""
    assert word_likeness(one, other) == word_likeness(other, one)
    assert 0 <= word_likeness(one, other) <= 1
    assert word_likeness("cancel " + one, "cancel " + one) == 1.0


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("that's not what I asked", True), ("wrong", True), ("sorry, I meant tomorrow", True), ("no", True),
        ("ليس هذا ما أريد", True), ("هذا خطأ", True), ("eso no es lo que quería", True),
        ("te equivocas", True),
        ("no smoking room please", False), ("I wanted to ask about my card", False), ("", False),
        ("quería reservar una mesa", False), ("لا تنسى تذكيري", False), ("no hay wifi en la oficina", False),
    ],
)  # fmt: skip
def test_corrections_open_a_message(message: str, expected: bool) -> None:
    """Phrases that say the last answer was wrong, told apart from requests that begin alike."""
    assert is_correction(message) is expected
