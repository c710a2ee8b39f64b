"""Attempts at one answer: how often, how long, through the one gate of all threads.

It knows no model and no network: an attempt is a function that gives bytes or a :class:`Failure`. The
total time of an answer is bounded, a server's own delay goes before ours, and a delay that ends after
the bound fails at once instead of being slept through. Only patience, which an evaluation asks for,
keeps the time that is spent waiting for a turn apart.
"""

from __future__ import annotations

import email.utils
import math
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mono_router.models.gate import Gate, TooLate

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 8.0
CACHE_LIFE_S = 300.0
"""How long a written prompt cache lives after its last use."""
MAX_PREFIXES = 1_000
_NUMBER = re.compile(r"\s*\d{1,9}(\.\d{0,9})?\s*", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why one attempt gave no reply."""

    code: str
    message: str
    retry: bool = False
    delay_s: float | None = None
    """Wait that the server asks for."""
    limited: bool = False
    """Whether every thread should wait, not this one alone."""


class GaveUp(Exception):
    """No attempt gave a reply."""

    def __init__(self, failure: Failure, why: str, retries: int) -> None:
        super().__init__(f"{failure.message}{'; ' if why else ''}{why}")
        self.failure = failure
        self.retries = retries


class Attempts:
    """Runs attempts for many threads.

    Parameters
    ----------
    max_attempts
        For one answer, the first included, >= 1.
    timeout_s
        Bound on the total time of one answer, > 0.
    seed
        Seed of the jitter; None = another one for each object.
    sleep, clock
        Seconds; stand in for those of :mod:`time` in tests.

    >>> Attempts(max_attempts=1, timeout_s=1.0).run(lambda left_s: b"{}", deadline=math.inf)
    (b'{}', 0)
    """

    def __init__(
        self,
        *,
        max_attempts: int,
        timeout_s: float,
        seed: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_attempts < 1:
            raise ValueError(f"max_attempts must be >= 1, got {max_attempts}")
        if not 0 < timeout_s < math.inf:
            raise ValueError(f"timeout_s must be a number > 0, got {timeout_s!r}")
        self.max_attempts = max_attempts
        self.timeout_s = timeout_s
        self.clock = clock
        self.gate = Gate(seed=seed, sleep=sleep, clock=clock)
        """When threads may send, and how many at once."""
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._warmed: dict[str, float] = {}
        self._writing: dict[str, threading.Event] = {}

    def run(self, attempt: Callable[[float], bytes | Failure], *, deadline: float) -> tuple[bytes, int]:
        """Return what the first successful attempt gave, and the retries before it.

        Parameters
        ----------
        attempt
            Called with the seconds that are left.
        deadline
            Reading of ``clock`` after which nothing is started. While the gate has patience, waiting for
            a turn moves it, and a refusal for the rate is no attempt.

        Raises
        ------
        GaveUp
            With the last failure.
        """
        failure = Failure(code="MODEL_PROVIDER_ERROR", message="rate limited", limited=True)
        earliest = self.clock()
        spare = self.gate.patience_s
        made = counted = 0
        while True:
            try:
                admitted = self.gate.enter(earliest, deadline + spare)
            except TooLate as error:
                raise GaveUp(failure, str(error), max(0, made - 1)) from None
            moved = min(spare, admitted.waited_s)
            deadline, spare = deadline + moved, spare - moved
            answered, resume = False, None
            try:
                found = attempt(deadline - self.clock())
                if isinstance(found, bytes):
                    answered = True
                    return found, made
                failure = found
                delay = self._backoff(made) if found.delay_s is None else found.delay_s
                earliest = self.clock() + max(delay, self._further(made))
                resume = self.clock() + delay if found.limited else None
            finally:
                self.gate.leave(admitted, answered=answered, resume=resume)
            made += 1
            counted += not (found.limited and spare > 0)
            if not found.retry or counted == self.max_attempts:
                raise GaveUp(failure, f"after {made} attempts" if made > 1 else "", made - 1)

    def _further(self, made: int) -> float:
        """More time for a server that keeps refusing those who wait as long as it asks."""
        return 0.0 if made < self.max_attempts else self._backoff(made - self.max_attempts)

    def _backoff(self, count: int) -> float:
        with self._lock:
            jitter = 1 - 0.25 * self._random.random()
        return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(count, 10)) * jitter

    @contextmanager
    def one_writer(self, prefix: str | None, deadline: float) -> Iterator[None]:
        """Let one thread write a prefix to the prompt cache before the others read it; None = no cache."""
        if prefix is None:
            yield
            return
        with self._lock:
            warm = self.clock() - self._warmed.get(prefix, -math.inf) < CACHE_LIFE_S
            others = self._writing.get(prefix)
            if not warm and others is None:
                own = self._writing[prefix] = threading.Event()
            else:
                own = None
        if own is None and not warm and others is not None:
            others.wait(max(0.0, min(threading.TIMEOUT_MAX, deadline - self.clock())))
        try:
            yield
            with self._lock:
                if len(self._warmed) >= MAX_PREFIXES:
                    self._warmed.clear()
                self._warmed[prefix] = self.clock()
        finally:
            if own is not None:
                with self._lock:
                    self._writing.pop(prefix, None)
                own.set()


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a server asks to wait, or None.

    ``retry-after-ms`` goes before ``retry-after``, which holds seconds or a date; ``now`` is Unix time.

    >>> retry_after_s({"retry-after": "7"}, 0.0), retry_after_s({"retry-after-ms": "250"}, 0.0)
    (7.0, 0.25)
    >>> retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:00:09 GMT"}, 4.0), retry_after_s({}, 0.0)
    (5.0, None)
    """
    for key, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        found = headers.get(key, "")
        if _NUMBER.fullmatch(found):
            return float(found) * scale
    parsed = email.utils.parsedate_tz(headers.get("retry-after", ""))
    if parsed is None:
        return None
    try:
        return max(0.0, email.utils.mktime_tz(parsed) - now)
    except (ValueError, OverflowError):
        return None
