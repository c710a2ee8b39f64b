"""The journal: every decision with its outcome and its feedback, on SurrealDB.

Traces go in through a bounded queue and one writer thread; rows, frames, labelled cases and replays come
out. The promise: :meth:`Journal.record` never raises and never waits; what :meth:`Journal.flush` has
acknowledged survives ``kill -9`` (a power cut may take the last rows, since the store leaves it to the
system when it writes through); what could not be kept is counted in :attr:`Journal.status`.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from mono_router.journal.database import LAST, Database, JournalError
from mono_router.journal.evidence import tool_facts
from mono_router.journal.reader import Reader
from mono_router.journal.rows import (
    REQUEST,
    Choice,
    Clock,
    Messages,
    Privacy,
    decision_row,
    feedback_row,
    outcome_row,
    tidy,
)
from mono_router.journal.writer import BATCH, QUEUE, Job, Status, Writer
from mono_router.records import Trace, canonical_json


class _Shared:
    """An open database and its writer, shared by the journals of a process that name one path."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self.database = database
        self.writer = writer
        self.clock = Clock()
        self.noted: set[str] = set()
        """Settings and catalogs that are kept already."""
        self.n_open = 1


_open: dict[Path, _Shared] = {}
_open_lock = threading.Lock()


class Journal(Reader):
    """Keeps decisions, outcomes and feedback.

    Parameters
    ----------
    url
        ``surrealkv://PATH`` (embedded), ``mem://``, or ``ws://HOST:PORT`` of a server. A second journal on
        one path within a process shares the first one's handle; another process gets a
        :class:`JournalError`.
    messages
        "keep", "hash" (keyed: give ``key``) or "drop". Secrets are redacted in any case.
    key
        Key of the message hash.
    user, password
        Of a server.
    queue_size, batch
        Rows that may wait, and rows of one insert (at most 50).

    Raises
    ------
    ValueError
        If an argument is out of range.
    JournalError
        If the store cannot be opened, is open in another process, or was written by a later version.
    ImportError
        If surrealdb is not installed.

    >>> with Journal("mem://") as journal:
    ...     journal.status.written
    0
    """

    def __init__(
        self,
        url: str,
        *,
        messages: Messages = "keep",
        key: str | bytes | None = None,
        user: str | None = None,
        password: str | None = None,
        queue_size: int = QUEUE,
        batch: int = BATCH,
    ) -> None:
        self.privacy = Privacy(messages=messages, key=key.encode() if isinstance(key, str) else key)
        self.url = url
        self._closed = False
        path = (
            Path(url.partition("://")[2]).expanduser().resolve() if url.startswith("surrealkv://") else None
        )
        with _open_lock:
            shared = _open.get(path) if path is not None else None
            if shared is not None:
                shared.n_open += 1
            else:
                database = Database(url, user=user, password=password)
                shared = _Shared(database, Writer(database, queue_size=queue_size, batch=batch))
                if path is not None:
                    _open[path] = shared
        super().__init__(shared.database)
        self._shared = shared
        self._path = path
        _journals.add(self)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Journal({self.database.label!r})"

    @property
    def status(self) -> Status:
        """Rows written, queued and dropped, and what the last failure said."""
        return self._shared.writer.status

    # --- writing ------------------------------------------------------------------------------

    def record(
        self, trace: Trace, *, session_id: str | None = None, choice: Choice | None = None
    ) -> str | None:
        """Take a decision; return its request id, or None where it was dropped. Never raises, never waits.

        Parameters
        ----------
        choice
            How the settings were drawn, where they were (see ``off_policy.Randomised``).
        """
        shared = self._shared
        request_id = shared.clock.next()
        picked = choice or Choice()

        def make() -> dict[str, Any]:
            self._note_parts(trace)
            return decision_row(request_id, trace, session_id=session_id, privacy=self.privacy, choice=picked)

        return request_id if self._put("decision", make) else None

    def outcome(
        self, request_id: str | None, *, status: str = "", error: str | None = None, re_asked: bool = False
    ) -> None:
        """Take what came of a decision; a dropped request (None) is passed over.

        Raises
        ------
        ValueError
            If it is no request id.
        """
        if request_id is None:
            return
        self._put(
            "outcome",
            _Made(outcome_row, _request(request_id), self._shared.clock.next()).given(
                status=status, error=error, re_asked=re_asked
            ),
        )

    def feedback(self, request_id: str | None, value: Literal["up", "down"], note: str | None = None) -> None:
        """Take what a user thought of a decision.

        Raises
        ------
        ValueError
            If the value is neither "up" nor "down", or it is no request id.
        """
        if value not in ("up", "down"):
            raise ValueError(f"feedback must be 'up' or 'down', got {value!r}")
        if request_id is None:
            return
        made = _Made(feedback_row, _request(request_id), self._shared.clock.next())
        self._put("feedback", made.given(value=value, note=note))

    def _put(self, table: str, make: Callable[[], dict[str, Any]]) -> bool:
        if self._closed:
            return False
        return self._shared.writer.put(Job(table, make))

    def _note_parts(self, trace: Trace) -> None:
        """Keep the settings and what decisions need of the catalog, once."""
        scored = trace.scored
        if scored is None:
            return
        shared = self._shared
        name = f"settings {trace.settings_hash}"
        if name not in shared.noted:
            shared.database.set_note(name, canonical_json(scored.settings.to_dict()))
            shared.noted.add(name)
        name = f"catalog {trace.catalog_hash}"
        if name not in shared.noted:
            shared.database.set_note(name, tool_facts(scored.tools))
            shared.noted.add(name)

    def flush(self, timeout: float = 30.0) -> int:
        """Wait until everything taken so far is stored; return how many rows were dropped in all.

        What was acknowledged so survives ``kill -9``.

        Raises
        ------
        JournalError
            If it is not stored in time.
        """
        try:
            return self._shared.writer.flush(timeout)
        except JournalError as error:
            raise JournalError(f"journal {self.database.label}: {error}") from None

    def close(self, timeout: float = 30.0) -> None:
        """Store what is queued and let go of the store; the last journal on a path closes it."""
        with _open_lock:
            if self._closed:
                return
            self._closed = True
            shared = self._shared
            shared.n_open -= 1
            if shared.n_open > 0:
                return
            if self._path is not None:
                _open.pop(self._path, None)
            shared.writer.close(timeout)
            shared.database.close()

    def forget(self, session_id: str) -> int:
        """Delete a session: its decisions, outcomes, feedback and findings; return how many decisions.

        What is queued is stored first, so that nothing of the session comes after.
        """
        self.flush()
        database = self.database
        session = tidy(session_id)
        ids = database.query("SELECT VALUE id FROM decision WHERE session = $wanted", wanted=session)
        for record in ids:
            request = str(record.id)
            for table in ("outcome", "feedback", "finding"):
                database.query("DELETE $ids", ids=database.range(table, request, request + LAST))
            database.query("DELETE $id", id=record)
        return len(ids)


class _Made:
    """Makes a row of a request when the writer asks for it."""

    def __init__(self, make: Any, request_id: str, key: str) -> None:
        self._make, self._request, self._key = make, request_id, key
        self._values: dict[str, Any] = {}

    def given(self, **values: Any) -> _Made:
        self._values = values
        return self

    def __call__(self) -> dict[str, Any]:
        row: dict[str, Any] = self._make(self._key, self._request, **self._values)
        return row


def _request(request_id: str) -> str:
    if not isinstance(request_id, str) or not REQUEST.fullmatch(request_id):
        raise ValueError("request_id must be what record() returned")
    return request_id


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Store what is queued when the interpreter ends."""
    for journal in list(_journals):
        journal.close(timeout=5.0)
