"""The gate that all threads of one model go through: when they may send, and how many at once.

Open until the server first says "too many". Then everyone waits for as long as it asked, goes on with
fewer at once, and comes back up: quickly to what was last seen to pass, carefully beyond it. It knows no
request and no network; an evaluation may ask it for patience, and be told of each wait.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

OnWait = Callable[[float], object]
"""Told the seconds of a wait that has begun."""
SPREAD_S = 0.25
"""Processes that share a key start again within this time of each other."""
FIRST_QUIET = 16
"""Answers at the level that last passed before one more at once is tried; doubled by each refusal."""
LONGEST_QUIET = 1_024
LOOK_S = 1.0
"""How often a thread that waits for a place looks at the clock."""


class TooLate(Exception):
    """The gate does not open before the time is up."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The right to send one request."""

    refusals: int
    """How often the gate had been narrowed when it was given."""
    waited_s: float


class Gate:
    """Lets threads through.

    Parameters
    ----------
    seed
        Seed of the jitter after a wait; None = another one for each object.
    sleep, clock
        Seconds; stand in for those of :mod:`time` in tests.

    >>> gate = Gate()
    >>> admitted = gate.enter(0.0, math.inf)
    >>> gate.leave(admitted, answered=True)
    >>> gate.width
    inf
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sleep = sleep
        self._clock = clock
        self._random = random.Random(seed)
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._busy = 0
        self._resume = -math.inf
        self._width = math.inf
        self._passed = math.inf
        """Width that is taken to pass: the last one that did."""
        self._refusals = self._refused = self._peak = self._calm = 0
        self._quiet = FIRST_QUIET
        self._patient: list[tuple[float, OnWait]] = []

    @property
    def width(self) -> float:
        """How many may be under way at once; infinite before the first refusal."""
        return self._width

    def enter(self, earliest: float, latest: float) -> Pass:
        """Wait until this thread may send, in the order of arrival.

        Parameters
        ----------
        earliest, latest
            Readings of the clock between which the thread wants to start.

        Raises
        ------
        TooLate
            If it may not start before ``latest``; as soon as that is known.
        """
        ticket, started = object(), self._clock()
        queued = False
        try:
            while True:
                with self._changed:
                    now = self._clock()
                    if not queued and earliest <= now:
                        self._queue.append(ticket)
                        queued = True
                    wait, left = max(earliest, self._resume) - now, max(0.0, latest - now)
                    if left <= 0 or wait >= left:
                        raise TooLate(
                            f"the next attempt could start in {max(0.0, wait):.1f} s, {left:.1f} s are left"
                        )
                    if wait <= 0:
                        if self._queue[0] is ticket and self._busy + 1 <= self._width:
                            self._busy += 1
                            return Pass(self._refusals, now - started)
                        self._changed.wait(min(left, LOOK_S))
                        continue
                self._sleep(wait)
        finally:
            if queued:
                with self._changed:
                    self._queue.remove(ticket)
                    self._changed.notify_all()

    def leave(self, admitted: Pass, *, answered: bool = False, resume: float | None = None) -> None:
        """Give a place back.

        Parameters
        ----------
        answered
            Whether the server answered.
        resume
            Where it said "too many": reading of the clock before which nobody may send.
        """
        told: list[OnWait] = []
        with self._changed:
            if answered:
                if admitted.refusals == self._refusals:  # not one that was under way when it narrowed
                    self._widen()
            elif resume is not None:
                if admitted.refusals == self._refusals:
                    told = [on_wait for _, on_wait in self._patient]
                    resume += SPREAD_S * self._random.random()
                    self._narrow()
                elif admitted.refusals == self._refusals - 1:
                    self._refused += 1  # the same burst: it tells how many of it passed
                    self._passed = max(1.0, self._peak - self._refused)
                    self._width = min(self._width, self._passed)
                self._resume = max(self._resume, resume)
            self._busy -= 1
            self._changed.notify_all()
        for on_wait in told:
            on_wait(max(0.0, (resume or 0.0) - self._clock()))

    def _narrow(self) -> None:
        self._refusals += 1
        self._peak, self._refused, self._calm = self._busy, 1, 0
        self._passed = max(1.0, self._peak - 1)
        self._width = max(1.0, min(self._passed, self._peak // 2))
        self._quiet = min(LONGEST_QUIET, 2 * self._quiet)

    def _widen(self) -> None:
        if self._busy + 1 <= self._width:
            return  # there was room: nothing is learned
        if self._width < self._passed:
            self._width = min(self._passed, self._width + 1 / self._width)
            return
        self._calm += 1
        if self._calm >= self._quiet:
            self._calm = 0
            self._width = self._passed = math.floor(self._width) + 1

    @contextmanager
    def patience(self, seconds: float, on_wait: OnWait) -> Iterator[None]:
        """Let every answer that is asked for meanwhile wait ``seconds`` more for its turn."""
        entry = (seconds, on_wait)
        with self._changed:
            self._patient.append(entry)
        try:
            yield
        finally:
            with self._changed:
                self._patient.remove(entry)

    @property
    def patience_s(self) -> float:
        """Seconds that an answer may wait for its turn beyond its time."""
        with self._changed:
            return max((seconds for seconds, _ in self._patient), default=0.0)


def nobody(seconds: float) -> None:
    """Tell nobody of a wait."""


def patience(model: Any, seconds: float, *, on_wait: OnWait = nobody) -> AbstractContextManager[None]:
    """Return a context in which a model, if it can, waits for its turn instead of failing.

    For work that no person waits for: a rate limit then costs time and no answers.

    >>> with patience(object(), 60.0):
    ...     pass
    """
    own = getattr(model, "patience", None)
    found: AbstractContextManager[None] = nullcontext() if own is None else own(seconds, on_wait=on_wait)
    return found
