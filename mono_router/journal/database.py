"""The database under a journal: one handle per path, one statement a call, one kind of error.

A URL goes in; an open :class:`Database` comes out, which several journals of a process may share. An
embedded store is guarded by a lock file, since a second process would read stale rows or fail in the
middle. Values travel as ``$params`` and ids as ``RecordID`` alone, so that no text can become a statement;
whatever class of error the client raises becomes a :class:`JournalError` of one line.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SCHEMA = 2
"""Schema of the rows that this version writes; it reads all from 1 on."""
NAMESPACE, NAME = "mono_router", "journal"
PAGE = 1000
"""Rows that one read holds in memory."""
CACHE_BYTES = 16 * 2**20
"""Values that the embedded engine keeps in memory, unless the environment says otherwise."""
FIRST, LAST = "0", "~"
"""Ids before and after all others."""
SEPARATOR = "\x1f"
"""Parts the columns of a row that is read as text; no text of a row holds it."""

_TABLES = ("decision", "outcome", "feedback", "finding", "note", "contract")
# None over decisions: the store holds its keys in memory, and an index on sessions would double them.
_INDEXES = (
    ("outcome_at", "outcome", "at"),
    ("feedback_at", "feedback", "at"),
)
_COLUMN = re.compile(r"[a-z_]+")


class JournalError(OSError):
    """The journal cannot be opened, read or written; the message is one line."""


def one_line(error: BaseException) -> str:
    """Return an error as one line, without a trace of what was sent.

    >>> one_line(ValueError("bad\\n --> [1:9]"))
    'bad'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


def import_surrealdb() -> Any:
    """Return the database client.

    Raises
    ------
    ImportError
        If it is not installed; the message has the line that installs it.
    """
    # By itself the embedded engine keeps every value it has read: 2 GB after reading a million rows.
    os.environ.setdefault("SURREAL_SURREALKV_MAX_VALUE_CACHE_SIZE", str(CACHE_BYTES))
    try:
        import surrealdb
    except ImportError:
        raise ImportError("the journal needs surrealdb: pip install 'mono-router[journal]'") from None
    return surrealdb


class Database:
    """An open connection, safe to use from several threads.

    Parameters
    ----------
    url
        ``surrealkv://PATH`` (embedded), ``mem://`` or ``ws://HOST:PORT`` (``wss://``).
    user, password
        Of a server.
    """

    def __init__(self, url: str, *, user: str | None = None, password: str | None = None) -> None:
        scheme, _, rest = url.partition("://")
        if scheme not in ("surrealkv", "mem", "ws", "wss"):
            raise ValueError(f"journal url must be surrealkv://PATH, mem:// or ws://HOST:PORT, got {url!r}")
        if scheme == "surrealkv" and not rest:
            raise ValueError(f"journal url must name a folder after surrealkv://, got {url!r}")
        self.path = Path(rest).expanduser().resolve() if scheme == "surrealkv" else None
        self.remote = scheme in ("ws", "wss")
        self.label = str(self.path) if self.path is not None else re.sub(r"//[^/@]*@", "//", url)
        """The journal in error messages: no credentials."""
        self._url = url if self.path is None else f"surrealkv://{self.path}"
        self._login = None if user is None else {"username": user, "password": password or ""}
        self._surreal = import_surrealdb()
        from surrealdb.data.types.range import BoundExcluded, BoundIncluded, Range

        self._bounds = (Range, BoundExcluded, BoundIncluded)
        self._lock = threading.RLock()
        self._guard: int | None = None
        self._pid = os.getpid()
        self._handle: Any = None
        if self.path is not None:
            self._guard = self._lock_path(self.path)
        try:
            self.connect()
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _lock_path(self, path: Path) -> int:
        import fcntl

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            guard = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise JournalError(f"journal {path}: {error.strerror}") from None
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(guard)
            raise JournalError(
                f"journal {path} is open in another process: run one SurrealDB server on it and give all "
                "processes its address (ws://HOST:PORT), or close it there"
            ) from None
        return guard

    def connect(self) -> None:
        """Open the connection, anew where there was one.

        Raises
        ------
        JournalError
            If it cannot be opened.
        """
        with self._lock:
            self._disconnect()
            try:
                self._handle = self._surreal.Surreal(self._url)
                if self.remote:
                    self._handle.socket = self._socket(self._handle.raw_url)
                else:
                    self._handle.connect()
                if self._login is not None:
                    self._handle.signin(dict(self._login))
                self._handle.use(NAMESPACE, NAME)
            except Exception as error:
                self._handle = None
                raise JournalError(f"journal {self.label}: {one_line(error)}") from None

    def _socket(self, url: str) -> Any:
        """Open the client's WebSocket as its library wants it opened, which the client does not."""
        from websockets.sync.client import connect
        from websockets.typing import Subprotocol

        return connect(url, max_size=None, subprotocols=[Subprotocol("cbor")]).__enter__()

    def _prepare(self) -> None:
        """Define what is missing, and refuse what a later version wrote."""
        found = self.query("SELECT VALUE schema FROM $id", id=self.id("contract", "journal"))
        stored = int(found[0]) if found and found[0] is not None else None
        if stored is not None and stored > SCHEMA:
            raise JournalError(
                f"journal {self.label} has schema {stored}, this version reads up to {SCHEMA}: "
                "update mono-router"
            )
        if stored == SCHEMA:
            return
        for table in _TABLES:
            self.query(f"DEFINE TABLE IF NOT EXISTS {table} SCHEMALESS")
        for name, table, column in _INDEXES:
            self.query(f"DEFINE INDEX IF NOT EXISTS {name} ON {table} FIELDS {column}")
        # Rows keep the schema that they were written in; only the contract says what may come next.
        self.query("UPSERT $id SET schema = $schema", id=self.id("contract", "journal"), schema=SCHEMA)

    def id(self, table: str, key: str) -> Any:
        """Return the id of a row."""
        return self._surreal.RecordID(table, key)

    def range(self, table: str, after: str = FIRST, until: str = LAST) -> Any:
        """Return the ids of a table after one key and up to another."""
        Range, Excluded, Included = self._bounds
        return self._surreal.RecordID(table, Range(Excluded(after), Included(until)))

    def query(self, statement: str, **params: Any) -> Any:
        """Return what one statement gives.

        Raises
        ------
        JournalError
            If it fails, whatever the client raises.
        """
        if os.getpid() != self._pid:
            raise JournalError(
                f"journal {self.label} was opened before this process was forked: open it anew"
            )
        with self._lock:
            if self._handle is None:
                raise JournalError(f"journal {self.label} is closed")
            try:
                return self._handle.query(statement, params)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # a panic of the engine is no Exception
                raise JournalError(f"journal {self.label}: {one_line(error)}") from None

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows that have a key under ``id``; a key that is there already is left as it is."""
        ready = [{**row, "id": self.id(table, row["id"])} for row in rows]
        self.query(f"INSERT IGNORE INTO {_named(table)} $rows RETURN NONE", rows=ready)

    def pages(
        self, table: str, *, after: str = FIRST, until: str = LAST, size: int = PAGE
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of a table in order of their keys, a page at a time; keys stand under ``id``."""
        while True:
            found = self.query("SELECT * FROM $ids LIMIT $n", ids=self.range(table, after, until), n=size)
            rows = [{**row, "id": str(row["id"].id)} for row in found]
            if rows:
                yield rows
                after = rows[-1]["id"]
            if len(rows) < size:
                return

    def text_pages(
        self,
        table: str,
        columns: Sequence[str],
        *,
        after: str = FIRST,
        until: str = LAST,
        size: int = 2 * PAGE,
    ) -> Iterator[list[list[str]]]:
        """Yield the keys and the given columns of a table as texts, a page at a time.

        One text a row crosses the boundary of the engine: decoding a row value by value costs thrice that.
        """
        parts = ", ".join(f"<string>({_named(column)} ?? '')" for column in columns)
        # The engine's own text of a float ends in "f".
        statement = f"SELECT VALUE array::join([<string>record::id(id), {parts}], $by) FROM $ids LIMIT $n"
        while True:
            ids = self.range(table, after, until)
            found = self.query(statement, ids=ids, by=SEPARATOR, n=size)
            rows = [text.split(SEPARATOR) for text in found]
            if rows:
                yield rows
                after = rows[-1][0]
            if len(rows) < size:
                return

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        found = self.query(f"SELECT count() AS n FROM {_named(table)} GROUP ALL")
        return int(found[0]["n"]) if found else 0

    def note(self, name: str) -> str:
        """Return a text that was kept under a name; empty where there is none."""
        found = self.query("SELECT VALUE text FROM $id", id=self.id("note", name))
        return str(found[0]) if found and found[0] is not None else ""

    def set_note(self, name: str, text: str) -> None:
        """Keep a text under a name."""
        self.query("UPSERT $id SET text = $text", id=self.id("note", name), text=text)

    def _disconnect(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                handle.close()
            except Exception:  # what is lost already cannot be closed; that is why it is let go of
                return

    def close(self) -> None:
        """Close the connection and release the path."""
        with self._lock:
            self._disconnect()
            if self._guard is not None:
                os.close(self._guard)
                self._guard = None


def _named(name: str) -> str:
    """A name of ours that goes into a statement; nothing else may."""
    if not _COLUMN.fullmatch(name):
        raise ValueError(f"not a name of the journal: {name!r}")
    return name


def number(text: str) -> float:
    """Return a number that was read as text.

    >>> number("0.9f"), number("3"), number("")
    (0.9, 3.0, 0.0)
    """
    return float(text.removesuffix("f").removesuffix("dec")) if text else 0.0
