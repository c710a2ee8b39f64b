"""Sessions: what is kept of each conversation, for how long, and for how many at once.

A session is worked on under its own lock, so that two messages of one session never cross and two sessions
never wait for each other. Sessions end by age and, where there are too many, by last use; one that is being
worked on is never taken away.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from mono_router.memory import remember
from mono_router.records import Call, Decision, Entity, Memory, Mode, PastCall
from mono_router.runtime.config import SessionLimits

MAX_ID_CHARS = 200
MAX_WAITING = 3
"""Calls that may wait at once: one asked about, and those that it interrupted."""
HISTORY_CHARS = 500
"""Characters of a message or a reply that are kept."""

WaitingKind = Literal["input", "selection", "confirmation"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A call that cannot run yet."""

    kind: WaitingKind
    request_id: str
    """Of the message that it came from."""
    message: str
    """That message."""
    tool: str = ""
    """Empty while the tool itself is to be chosen."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """JSON pointers that it waits for."""
    options: tuple[str, ...] = ()
    """Tools to choose among."""
    mode: Mode = "tool"
    others: tuple[Call, ...] = ()
    """Further calls of the same decision."""
    skills: tuple[str, ...] = ()
    decision: Decision | None = None
    since: float = 0.0
    """Seconds of the sessions' clock."""
    resume: Any = None
    """State of an agent's loop that goes on once the call has run; opaque here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """A message and what was replied."""

    message: str
    reply: str


class NoSession(LookupError):
    """A session is unknown, or it has ended."""


class Session:
    """One conversation; used under its ``lock``."""

    def __init__(self, id_: str, *, facts: Mapping[str, Any], max_turns: int) -> None:
        self.id = id_
        self.lock = threading.RLock()
        self.memory = Memory(facts=dict(facts))
        self.found: tuple[Entity, ...] = ()
        """Entities of results: used on this machine alone, in no memory that is shown or logged."""
        self.waiting: list[Waiting] = []
        """What waits, the last one first to be answered."""
        self.history: list[Exchange] = []
        self.language = "en"
        self.used = 0.0
        self.n_users = 0
        self._max_turns = max_turns

    @property
    def top(self) -> Waiting | None:
        """What waits and is asked about now."""
        return self.waiting[-1] if self.waiting else None

    def push(self, waiting: Waiting) -> None:
        """Let a call wait; there is one confirmation at most, and the oldest waiting call gives way."""
        if waiting.kind == "confirmation":
            self.waiting = [w for w in self.waiting if w.kind != "confirmation"]
        same = (waiting.kind, waiting.tool, waiting.options)
        self.waiting = [w for w in self.waiting if (w.kind, w.tool, w.options) != same]
        self.waiting = [*self.waiting, waiting][-MAX_WAITING:]

    def drop(self, waiting: Waiting) -> None:
        """Let a call wait no longer."""
        self.waiting = [w for w in self.waiting if w is not waiting]

    def confirmation(self) -> Waiting | None:
        """Return the call that waits for a confirmation."""
        return next((w for w in reversed(self.waiting) if w.kind == "confirmation"), None)

    @property
    def pending(self) -> PastCall | None:
        """The waiting call as the router knows it: only one that misses arguments."""
        waiting = self.top
        if waiting is None or waiting.kind != "input":
            return None
        return PastCall(tool=waiting.tool, arguments=waiting.arguments, turn=self.memory.turn)

    def end_turn(
        self, message: str, reply: str, *, entities: Iterable[Entity] = (), call: PastCall | None = None
    ) -> None:
        """Take one turn into the memory and the history."""
        limit = self._max_turns
        once = {(entity.type, entity.value, entity.secret): entity for entity in entities}
        self.memory = remember(
            self.memory, entities=once.values(), call=call, pending=self.pending, max_turns=limit
        )
        oldest = self.memory.turn - limit
        self.found = tuple(entity for entity in self.found if entity.turn > oldest)
        said = Exchange(message=message[:HISTORY_CHARS], reply=reply[:HISTORY_CHARS])
        self.history = [*self.history, said][-limit:]

    def find(self, entities: Iterable[Entity]) -> None:
        """Take what a result named; the secrets among it go into the memory, which then covers them."""
        turn = self.memory.turn + 1
        fresh = [dataclasses.replace(entity, turn=turn) for entity in entities]
        secret = tuple(entity for entity in fresh if entity.secret)
        known = {(entity.type, entity.value) for entity in fresh}
        kept = [entity for entity in self.found if (entity.type, entity.value) not in known]
        self.found = (*kept, *(entity for entity in fresh if not entity.secret))[-50:]
        if secret:
            self.memory = dataclasses.replace(self.memory, entities=(*self.memory.entities, *secret))


class Sessions:
    """All sessions of a runtime; safe to share between threads.

    >>> sessions = Sessions(SessionLimits(max_sessions=1))
    >>> with sessions.use("a") as a, sessions.use("b") as b:
    ...     len(sessions)
    2
    >>> with sessions.use("b"):
    ...     len(sessions), "a" in sessions
    (1, False)
    """

    def __init__(
        self,
        limits: SessionLimits | None = None,
        *,
        facts: Callable[[str], Mapping[str, Any]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or SessionLimits()
        self.clock = clock
        self._facts = facts or (lambda session_id: {})
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._known

    @contextmanager
    def use(self, session_id: str, *, create: bool = True) -> Iterator[Session]:
        """Give a session to one thread at a time.

        Raises
        ------
        NoSession
            If it is unknown or has ended, and ``create`` is false.
        """
        session = self._taken(session_id, create)
        try:
            with session.lock:
                yield session
        finally:
            with self._lock:
                session.n_users -= 1
                session.used = self.clock()
                self._tidy()

    def alone(self, session_id: str) -> Session:
        """Return a session that no other call sees: for one invocation."""
        return Session(session_id, facts=self._facts(session_id), max_turns=self.limits.max_turns)

    def adopt(self, session: Session) -> None:
        """Keep a session that was alone, since something waits in it."""
        with self._lock:
            session.used = self.clock()
            self._known[session.id] = session
            self._tidy()

    def _taken(self, session_id: str, create: bool) -> Session:
        facts: Mapping[str, Any] | None = None
        while True:
            with self._lock:
                self._tidy()
                session = self._known.get(session_id)
                if session is None and not create:
                    raise NoSession(session_id)
                if session is None and facts is not None:
                    session = Session(session_id, facts=facts, max_turns=self.limits.max_turns)
                    self._known[session_id] = session
                if session is not None:
                    session.used = self.clock()
                    session.n_users += 1
                    self._known.move_to_end(session_id)
                    self._tidy()
                    return session
            # The host's own code may be slow or ask for another session: never under the lock.
            facts = self._facts(session_id)

    def _tidy(self) -> None:
        """End what is too old, then what was used longest ago while there are too many."""
        now, limits = self.clock(), self.limits
        while self._known:
            first = next(iter(self._known.values()))
            if first.n_users or now - first.used <= limits.ttl_s:
                break
            del self._known[first.id]
        surplus = len(self._known) - limits.max_sessions
        if surplus > 0:
            idle = [session.id for session in self._known.values() if not session.n_users]
            for session_id in idle[:surplus]:
                del self._known[session_id]

    def clear(self) -> None:
        """Forget all sessions."""
        with self._lock:
            self._known.clear()


def session_problem(session_id: Any) -> str | None:
    """Return why this is no id of a session, or None.

    >>> session_problem("routing-check-1"), session_problem("a\\x00b")
    (None, 'a session id must be printable text of 1 to 200 characters')
    """
    good = isinstance(session_id, str) and 0 < len(session_id) <= MAX_ID_CHARS and session_id.isprintable()
    return None if good else f"a session id must be printable text of 1 to {MAX_ID_CHARS} characters"
