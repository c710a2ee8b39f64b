"""The writer: one thread that turns finished decisions into rows, so that no route waits for a disk.

Jobs go into a bounded queue; a full queue drops the job and counts it. The thread makes rows (which costs
more than a route may) and inserts them in small batches, since an insert holds the interpreter. A batch
that fails is tried again, over a new connection, and then dropped and counted: the queue must move on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mono_router.journal.database import Database, JournalError, one_line

QUEUE = 4096
BATCH = 32
"""Rows of one insert; 50 at most, as the time that an insert holds the interpreter grows with them."""
WAITS = (0.05, 0.5, 2.0)
"""Seconds before a failed batch is tried again."""
_log = logging.getLogger("mono_router.journal")


@dataclass(frozen=True, slots=True)
class Job:
    """A row to be written."""

    table: str
    make: Callable[[], Mapping[str, Any]]
    """Makes the row, in the writer's thread."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """What became of the rows."""

    written: int
    queued: int
    dropped: int
    """Rows that were lost because the queue was full, the store failed, or they could not be made."""
    error: str
    """What the last failure said; empty without one."""


class Writer:
    """Writes jobs to a database in the order in which they came."""

    def __init__(self, database: Database, *, queue_size: int = QUEUE, batch: int = BATCH) -> None:
        if queue_size < 1:
            raise ValueError(f"queue_size must be >= 1, got {queue_size}")
        if not 1 <= batch <= 50:
            raise ValueError(f"batch must be in [1, 50], got {batch}")
        self._database = database
        self._size, self._batch = queue_size, batch
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._accepted = self._done = self._written = self._dropped = 0
        self._error = ""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="mono_router journal", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> bool:
        """Take a job without waiting; False = the queue is full or closed, the job is dropped and counted."""
        with self._changed:
            if self._closing or len(self._jobs) >= self._size:
                self._dropped += 1
                self._error = "the journal is closed" if self._closing else f"queue full ({self._size} rows)"
                return False
            self._jobs.append(job)
            self._accepted += 1
            self._changed.notify_all()
            return True

    @property
    def status(self) -> Status:
        with self._changed:
            return Status(
                written=self._written,
                queued=self._accepted - self._done,
                dropped=self._dropped,
                error=self._error,
            )

    def flush(self, timeout: float) -> int:
        """Wait until all that was taken so far is written or dropped; return how many are dropped in all.

        Raises
        ------
        JournalError
            If that takes longer than ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            wanted = self._accepted
            while self._done < wanted:
                left = deadline - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    waiting = self._accepted - self._done
                    reason = f": {self._error}" if self._error else ""
                    raise JournalError(f"{waiting} rows are not written after {timeout:g} s{reason}")
                self._changed.wait(left)
            return self._dropped

    def close(self, timeout: float) -> None:
        """Write what is queued, for at most ``timeout`` seconds, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._jobs and not self._closing:
                    self._changed.wait()
                if not self._jobs:
                    return
                jobs = [self._jobs.popleft() for _ in range(min(self._batch, len(self._jobs)))]
            written = self._write(jobs)
            with self._changed:
                self._done += len(jobs)
                self._written += written
                self._dropped += len(jobs) - written
                self._changed.notify_all()

    def _write(self, jobs: list[Job]) -> int:
        """Write jobs, table by table in the order they came; return how many rows are stored."""
        written = 0
        rows: list[Mapping[str, Any]] = []
        for place, job in enumerate(jobs):
            try:
                rows.append(job.make())
            except Exception as error:  # a row that cannot be made must not stop those behind it
                self._failed(f"a row could not be made: {one_line(error)}")
            last = place + 1 == len(jobs) or jobs[place + 1].table != job.table
            if last and rows:
                written += self._insert(job.table, rows)
                rows = []
            time.sleep(0)  # let a waiting route go first
        return written

    def _insert(self, table: str, rows: list[Mapping[str, Any]]) -> int:
        for wait in (*WAITS, None):
            try:
                self._database.insert(table, rows)
                return len(rows)
            except JournalError as error:
                self._failed(str(error))
            with self._changed:
                if wait is None or self._closing:
                    return 0
                self._changed.wait_for(lambda: self._closing, wait)
            if self._database.remote:
                try:
                    self._database.connect()
                except JournalError as error:
                    self._failed(str(error))
        return 0

    def _failed(self, text: str) -> None:
        with self._changed:
            new = text != self._error
            self._error = text
        if new:
            _log.warning("%s", text)
