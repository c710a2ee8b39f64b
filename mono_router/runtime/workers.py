"""Calls with a time limit: plain functions on a bounded number of threads, coroutines on one loop.

Python cannot stop a running function, so a function that overruns is abandoned: its thread stays taken
(and counted) until the function ends by itself, and no more than ``limit`` threads are ever taken. The
threads are daemons: an abandoned call never keeps the interpreter from ending.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

PROBE_S = 1.0
"""How long a loop may take to answer before it counts as blocked (a guess)."""


class NoFreeThread(TimeoutError):
    """All threads were taken for the whole time limit."""


class WorkersClosed(RuntimeError):
    """The threads were let go of."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: with a value, or with the exception that it raised."""

    value: Any = None
    error: BaseException | None = field(default=None, repr=False)


@dataclass(slots=True)
class _Job:
    function: Callable[[], Any]
    context: contextvars.Context
    done: threading.Event = field(default_factory=threading.Event)
    outcome: Outcome = field(default_factory=Outcome)
    abandoned: bool = False


class Workers:
    """Threads that are started as needed, reused, and bounded in number.

    >>> workers = Workers(limit=2)
    >>> workers.run(lambda: 6 * 7, timeout_s=5).value
    42
    >>> workers.close()
    """

    def __init__(self, *, limit: int = 32, name: str = "mono-router-tool") -> None:
        if limit < 1:
            raise ValueError(f"limit must be >= 1, got {limit}")
        self.limit = limit
        self.name = name
        self.abandoned = 0
        """Calls over their time that still run."""
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._free = threading.BoundedSemaphore(limit)
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0
        self._closed = False

    def run(self, function: Callable[[], Any], *, timeout_s: float) -> Outcome:
        """Return how the function ended.

        Raises
        ------
        TimeoutError
            If it took longer than ``timeout_s``, the wait for a thread included (then NoFreeThread).
        WorkersClosed
            If the threads were let go of.
        """
        until = time.monotonic() + timeout_s
        if not self._free.acquire(timeout=max(timeout_s, 0)):
            raise NoFreeThread
        job = _Job(function, contextvars.copy_context())
        try:
            self._submit(job)
        except BaseException:
            self._free.release()
            raise
        try:
            job.done.wait(max(until - time.monotonic(), 0))
        finally:
            with self._lock:
                late = not job.done.is_set()
                if late:
                    job.abandoned = True
                    self.abandoned += 1
        if late:
            raise TimeoutError
        return job.outcome

    def close(self) -> None:
        """Let idle threads end; a running call's thread ends with it."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in range(self._threads):
                    self._jobs.put(None)

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise WorkersClosed
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._work, name=self.name, daemon=True).start()
                self._threads += 1
            self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                outcome = Outcome(job.context.run(job.function))
            except BaseException as error:  # SystemExit too: it would end the thread, not the program
                outcome = Outcome(error=error)
            with self._lock:
                job.outcome = outcome
                job.done.set()
                self.abandoned -= job.abandoned
                self._idle += 1
            self._free.release()
            del job, outcome


class Loop:
    """An event loop on a thread of its own, so that coroutines run inside a notebook's kernel too.

    A coroutine that overruns is cancelled. One that blocks the loop cannot be: the loop is abandoned
    and the next call gets a new one, at most ``limit`` times.

    >>> async def answer() -> int:
    ...     return 42
    >>> loop = Loop()
    >>> loop.run(answer, timeout_s=5).value
    42
    >>> loop.close()
    """

    def __init__(self, *, limit: int = 8, name: str = "mono-router-loop") -> None:
        self.limit = limit
        self.name = name
        self.abandoned = 0
        """Loops that a coroutine blocked for good or for long."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, start: Callable[[], Awaitable[Any]], *, timeout_s: float) -> Outcome:
        """Return how the awaitable that ``start`` makes, on the loop's thread, ended.

        Raises
        ------
        TimeoutError
            If it took longer than ``timeout_s``.
        WorkersClosed
            If the loop was let go of.
        """

        async def guarded() -> Outcome:
            try:
                return Outcome(await start())
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                return Outcome(error=error)  # the tool cancelled itself
            except BaseException as error:  # SystemExit would end the loop
                return Outcome(error=error)

        loop = self._running()
        coroutine = guarded()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:  # closed in between
            coroutine.close()
            raise WorkersClosed from None
        try:
            return future.result(max(timeout_s, 0))
        except concurrent.futures.CancelledError:
            raise WorkersClosed from None
        except TimeoutError:
            future.cancel()
            self._replace_if_blocked(loop)
            raise TimeoutError from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what runs and end the thread."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=PROBE_S)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise WorkersClosed
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_turn, args=(self._loop,), name=self.name, daemon=True)
                self._thread.start()
            return self._loop

    def _replace_if_blocked(self, loop: asyncio.AbstractEventLoop) -> None:
        answered = threading.Event()
        if loop.is_closed():
            return
        loop.call_soon_threadsafe(answered.set)
        if answered.wait(PROBE_S):
            return
        with self._lock:
            if self._loop is loop and self.abandoned < self.limit:
                self.abandoned += 1
                self._loop = self._thread = None
                loop.call_soon_threadsafe(loop.stop)


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then end what is left on it."""
    asyncio.set_event_loop(loop)
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=PROBE_S / 2))
    loop.run_until_complete(loop.shutdown_asyncgens())
    if not asyncio.all_tasks(loop):
        loop.close()
