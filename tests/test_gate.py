"""The gate of a model's threads: one slows down for all, and an evaluation loses no answer to a limit."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages_server import KEY, Answer, MessagesServer, error, message, no_tool

from mono_router.catalog import Catalog
from mono_router.lab.asking import PATIENCE_S, Bar
from mono_router.lab.evaluation import evaluate
from mono_router.lab.tuning import sweep
from mono_router.models.attempts import Attempts, Failure, GaveUp
from mono_router.models.claude import AnthropicModel
from mono_router.models.gate import FIRST_QUIET, SPREAD_S, Gate, TooLate, patience
from mono_router.models.recorded import RecordedModel
from mono_router.records import Case, ModelReply, ModelRequest
from mono_router.router import Router
from mono_router.settings import Settings

SELECT = Settings().replace({"lexical.min_score": 0.0})
"""Every message is confident: one request a case."""
CASES = [Case(id=f"c{i}", message=f"what time is it in room {i}", expected_tools=()) for i in range(40)]


class Clock:
    """Time that passes only where something sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def made(**options: Any) -> tuple[Gate, Clock]:
    clock = Clock()
    return Gate(seed=0, clock=clock, sleep=clock.sleep, **options), clock


# --- the gate alone --------------------------------------------------------------------------


def test_open_until_the_first_refusal() -> None:
    """Any number may be under way, at once, until the server says "too many"."""
    gate, clock = made()
    admitted = [gate.enter(0.0, 1.0) for _ in range(100)]
    for one in admitted:
        gate.leave(one, answered=True)
    assert gate.width == math.inf
    assert clock.slept == []


def test_a_burst_narrows_to_what_passed() -> None:
    """However many of one burst are refused, it narrows once: to half, or to as many as were not refused."""
    for n, refused, width in ((16, 1, 8), (16, 12, 4), (16, 16, 1), (1, 1, 1), (3, 1, 1)):
        gate, _ = made()
        admitted = [gate.enter(0.0, 1.0) for _ in range(n)]
        for i, one in enumerate(admitted):
            gate.leave(one, answered=i >= refused, resume=2.0 if i < refused else None)
        assert gate.width == width, (n, refused)


def test_all_wait_as_long_as_the_server_asks() -> None:
    """After a refusal the next to enter sleeps until the time that was named, and is let in."""
    gate, clock = made()
    gate.leave(gate.enter(0.0, 1.0), resume=3.0)
    admitted = gate.enter(0.0, 10.0)
    assert 3.0 <= clock.now <= 3.0 + SPREAD_S
    assert admitted.waited_s == clock.now
    gate.leave(admitted, answered=True)


def test_too_late_is_told_at_once() -> None:
    """A wait beyond the time that is left is not begun."""
    gate, clock = made()
    gate.leave(gate.enter(0.0, 1.0), resume=30.0)
    with pytest.raises(TooLate, match=r"could start in 30\.\d s, 5\.0 s are left"):
        gate.enter(0.0, 5.0)
    assert clock.slept == []
    assert gate.enter(0.0, 60.0).waited_s >= 30.0  # the one that gave up left the queue


def test_it_widens_again() -> None:
    """Up to what passed it widens by one a round; beyond that only after a quiet time, longer each time."""
    gate, clock = made()
    clock.now = 1.0
    burst = [gate.enter(0.0, 2.0) for _ in range(8)]
    for i, one in enumerate(burst):
        gate.leave(one, answered=i > 0, resume=1.0 if i == 0 else None)
    assert gate.width == 4
    seen = []
    for _ in range(60):
        round_ = [gate.enter(0.0, 100.0) for _ in range(int(gate.width))]
        for one in round_:
            gate.leave(one, answered=True)
        seen.append(gate.width)
    assert seen == sorted(seen)
    assert 7 in seen
    assert seen.index(8) - seen.index(7) >= 2 * FIRST_QUIET
    assert clock.slept == [pytest.approx(0.0, abs=SPREAD_S)]


def test_room_that_nobody_uses_teaches_nothing() -> None:
    """One after the other does not show that two at once would pass."""
    gate, _ = made()
    for one in [gate.enter(0.0, 1.0) for _ in range(8)]:
        gate.leave(one, resume=0.0)
    width = gate.width
    assert width == 1
    wide, _ = made()
    burst = [wide.enter(0.0, 1.0) for _ in range(8)]
    for i, one in enumerate(burst):
        wide.leave(one, answered=i > 0, resume=0.0 if i == 0 else None)
    for _ in range(500):
        wide.leave(wide.enter(0.0, 1e9), answered=True)
    assert wide.width == 4


def test_a_failure_that_is_no_refusal_changes_nothing() -> None:
    gate, _ = made()
    burst = [gate.enter(0.0, 1.0) for _ in range(2)]
    gate.leave(burst[0], resume=0.0)
    gate.leave(burst[1])
    for _ in range(500):
        gate.leave(gate.enter(0.0, 1e9))
    assert gate.width == 1


def test_first_come_first_served() -> None:
    """Threads that wait for a place are let in in the order in which they came."""
    gate = Gate()
    gate.leave(gate.enter(0.0, math.inf), resume=0.0)
    holder, order = gate.enter(0.0, math.inf), []

    def work(i: int) -> None:
        admitted = gate.enter(0.0, math.inf)
        order.append(i)
        gate.leave(admitted)

    threads = []
    for i in range(6):
        threads.append(threading.Thread(target=work, args=(i,)))
        threads[-1].start()
        while len(gate._queue) < i + 1:
            time.sleep(0.001)
    gate.leave(holder)
    for thread in threads:
        thread.join()
    assert order == list(range(6))


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=30))
def test_never_more_than_its_width(rounds: list[tuple[int, int]]) -> None:
    """Whatever is answered and refused, no more are under way than its width, which is at least one."""
    gate, clock = made()
    for n, refused in rounds:
        admitted = []
        for _ in range(n):
            if len(admitted) + 1 > gate.width:
                break
            admitted.append(gate.enter(clock.now, math.inf))
        assert 1 <= len(admitted) <= gate.width
        for i, one in enumerate(admitted):
            gate.leave(one, answered=i >= refused, resume=clock.now + 0.5 if i < refused else None)
        assert gate.width >= 1


# --- patience --------------------------------------------------------------------------------


def refused(seconds: float) -> Failure:
    return Failure(code="MODEL_PROVIDER_ERROR", message="HTTP 429", retry=True, delay_s=seconds, limited=True)


def test_patience_costs_time_and_no_answer() -> None:
    """Waits for a turn do not count while someone has patience, and refusals are no attempts."""
    clock, told = Clock(), []
    attempts = Attempts(max_attempts=3, timeout_s=60.0, seed=0, sleep=clock.sleep, clock=clock)
    answers = iter([*[refused(40.0)] * 5, b"{}"])
    with attempts.gate.patience(600.0, told.append):
        assert attempts.run(lambda left_s: next(answers), deadline=60.0) == (b"{}", 5)
    assert attempts.gate.patience_s == 0.0
    assert 200.0 <= clock.now <= 230.0
    assert len(told) == 5
    assert all(40.0 <= seconds <= 40.0 + SPREAD_S for seconds in told)


@pytest.mark.parametrize("seconds", [0.0, 100.0])
def test_little_patience(seconds: float) -> None:
    """The time of an answer is bounded by its own and by the patience, no more."""
    clock = Clock()
    attempts = Attempts(max_attempts=3, timeout_s=60.0, seed=0, sleep=clock.sleep, clock=clock)
    with attempts.gate.patience(seconds, lambda s: None), pytest.raises(GaveUp, match="HTTP 429"):
        attempts.run(lambda left_s: refused(40.0), deadline=60.0)
    assert clock.now < 60.0 + seconds


def test_patience_has_an_end() -> None:
    """A server that refuses for ever is given up, and not asked all the while, though it names no wait."""
    clock = Clock()
    attempts = Attempts(max_attempts=3, timeout_s=60.0, seed=0, sleep=clock.sleep, clock=clock)
    asked: list[float] = []

    def attempt(left_s: float) -> Failure:
        assert 0 < left_s <= 60.0
        asked.append(clock.now)
        clock.now += 0.1
        return refused(0.0)

    with attempts.gate.patience(600.0, lambda s: None), pytest.raises(GaveUp):
        attempts.run(attempt, deadline=60.0)
    assert 600.0 <= clock.now <= 661.0
    assert len(asked) < 150


def test_a_fault_that_is_no_limit_keeps_its_attempts() -> None:
    """Patience is for rate limits: a server that fails is left after as many attempts as ever."""
    clock = Clock()
    attempts = Attempts(max_attempts=3, timeout_s=60.0, seed=0, sleep=clock.sleep, clock=clock)
    failure = Failure(code="MODEL_PROVIDER_ERROR", message="HTTP 500", retry=True)
    with (
        attempts.gate.patience(600.0, lambda s: None),
        pytest.raises(GaveUp, match="after 3 attempts"),
    ):
        attempts.run(lambda left_s: failure, deadline=60.0)


def test_who_has_no_patience() -> None:
    """A model that knows no patience, or a recording without a model, is simply asked."""
    with patience(object(), 1.0), patience(None, 1.0):
        pass


# --- an evaluation against a server that refuses bursts ----------------------------------------


class Crowded:
    """Answers as long as no more than ``most`` requests are under way; else 429 and when to come back."""

    def __init__(self, most: int, answer_s: float = 0.06, retry_ms: int = 50) -> None:
        self.most, self.answer_s, self.retry_ms = most, answer_s, retry_ms
        self.until: list[float] = []
        self.n_refused = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        now = time.monotonic()
        self.until = [t for t in self.until if t > now]
        if len(self.until) >= self.most:
            self.n_refused += 1
            return error(429, "rate_limit_error", "slow down", retry_after_ms=str(self.retry_ms))
        self.until.append(now + self.answer_s)
        return Answer(body=message(no_tool()).body, hang_s=self.answer_s)


class Rated(Crowded):
    """Answers ``most`` requests in any tenth of a second; else 429 and when that has passed."""

    def __call__(self, body: dict[str, Any]) -> Answer:
        now = time.monotonic()
        self.until = [t for t in self.until if t > now - 0.1]
        if len(self.until) >= self.most:
            self.n_refused += 1
            left_ms = math.ceil((self.until[0] + 0.1 - now) * 1e3)
            return error(429, "rate_limit_error", "slow down", retry_after_ms=str(left_ms))
        self.until.append(now)
        return Answer(body=message(no_tool()).body, hang_s=self.answer_s / 4)


class OneEach:
    """A model object for every thread: nobody learns from another's refusal."""

    name = "one each"

    def __init__(self, make: Callable[[], AnthropicModel]) -> None:
        self._make, self._own = make, threading.local()

    def complete(self, request: ModelRequest) -> ModelReply:
        if not hasattr(self._own, "model"):
            self._own.model = self._make()
        found: ModelReply = self._own.model.complete(request)
        return found


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Callable[..., AnthropicModel]]]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    servers: list[MessagesServer] = []
    models: list[AnthropicModel] = []

    def serving(script: Any) -> Callable[..., AnthropicModel]:
        server = MessagesServer(script)
        servers.append(server)

        def make(**options: Any) -> AnthropicModel:
            models.append(AnthropicModel(api_key=KEY, base_url=server.url, seed=len(models), **options))
            return models[-1]

        return make

    yield serving
    for model in models:
        model.close()
    for server in servers:
        server.close()
        assert server.refused == []


@pytest.mark.parametrize("kind", [Crowded, Rated], ids=["at once", "per time"])
def test_evaluation_slows_down(kind: type[Crowded], serve: Any, catalog: Catalog) -> None:
    """Ten threads share one gate: every case is answered, in order, and few requests are refused."""
    polite = kind(2)
    router = Router(catalog, model=serve(polite)(), settings=SELECT)
    report = evaluate(router, CASES, jobs=10, progress=False)
    assert [str(outcome) for outcome in report.frame["outcome"]] == ["no_tool"] * len(CASES)
    assert list(report.frame["case"]) == [case.id for case in CASES]
    retries = sum(report.verdicts.usage(i).retries for i in range(len(CASES)))
    assert retries == polite.n_refused > 0

    rude = kind(2)
    make = serve(rude)
    model = OneEach(lambda: make(max_attempts=50))
    crowd = evaluate(Router(catalog, model=model, settings=SELECT), CASES, jobs=10, progress=False)
    assert crowd.metric("no_tool_recall").value == 1.0
    assert polite.n_refused * 2 < rude.n_refused
    assert polite.n_refused < len(CASES)


def test_a_shared_limit_loses_no_case(serve: Any, catalog: Catalog, tmp_path: Any) -> None:
    """Where a few attempts would not do, an evaluation waits, through a recording too; a chat gives up."""
    script = Crowded(1, answer_s=0.05, retry_ms=120)
    model = serve(script)(max_attempts=1)
    recorded = RecordedModel(tmp_path / "r.jsonl", model)
    report = evaluate(Router(catalog, model=recorded, settings=SELECT), CASES[:12], jobs=4, progress=False)
    assert report.metric("no_tool_recall").value == 1.0
    assert script.n_refused > 0
    assert len(recorded) == 12
    busy = Router(catalog, model=serve(Crowded(0))(max_attempts=1), settings=SELECT)
    assert busy.route("what time is it").decision.outcome == "error"


def test_sweeps_wait_too(serve: Any, catalog: Catalog) -> None:
    """A sweep asks with the same patience."""
    script = Crowded(1, retry_ms=60)
    router = Router(catalog, model=serve(script)(max_attempts=1), settings=SELECT)
    swept = sweep(router, CASES[:8], {"candidate_limit": [6]}, jobs=4, progress=False)
    assert swept.frame["no_tool_recall"][0] == 1.0
    assert script.n_refused > 0


def test_progress_shows_the_wait(serve: Any, catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    """The bar says that the rate is limited and for how long, and nothing of it afterwards."""
    answers = iter([error(429, "rate_limit_error", "slow down", retry_after_ms="300")])

    def script(body: dict[str, Any]) -> Answer:
        return next(answers, message(no_tool()))

    router = Router(catalog, model=serve(script)(), settings=SELECT)
    evaluate(router, CASES[:4], progress=True)
    shown = capsys.readouterr().err.split("\r")
    assert any("rate limited, waiting 0." in line for line in shown)
    assert "rate limited" not in shown[-2]


def test_a_bar_that_is_not_drawn() -> None:
    bar = Bar()
    bar(3)
    bar.wait(1.0)
    assert PATIENCE_S > 60
