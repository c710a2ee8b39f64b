"""The runtime: messages in, results out; nothing that a user or a host sends makes it raise.

:meth:`AgentRuntime.create` raises with every problem of a configuration at once. From then on each method
returns a :class:`~mono_router.runtime.results.Result`, and a fault is an error with a code.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mono_router.catalog import Catalog
from mono_router.records import Call, Log, Memory, Model
from mono_router.router import Router
from mono_router.runtime.acting import Parts
from mono_router.runtime.config import ConfigError
from mono_router.runtime.inputs import Refused, checked_arguments, checked_message, short
from mono_router.runtime.parts import Now, assemble
from mono_router.runtime.performing import ActingTurn
from mono_router.runtime.results import Result, ResultError, Tally
from mono_router.runtime.sessions import NoSession, Session, Sessions, Waiting, session_problem
from mono_router.runtime.turns import ChatTurn
from mono_router.schema import check_arguments
from mono_router.text import clean

Facts = Mapping[str, Any] | Callable[[str], Mapping[str, Any]] | None
MAX_ID_CHARS = 200
MAX_NOTE_CHARS = 2_000


class AgentRuntime:
    """An assistant over one catalog; safe to share between threads. Made by :meth:`create`.

    >>> from mono_router import Catalog, Tool
    >>> clock = Tool(id="clock.now", description="Tell the time", hints=("what time is it",))
    >>> with AgentRuntime.create(config={"catalog": Catalog([clock]), "encoder": "none"},
    ...                          tools={"clock.now": lambda: "09:30"}) as runtime:
    ...     result = runtime.chat("s1", "what time is it?")
    >>> result.status, result.tool, result.reply
    ('completed', 'clock.now', '09:30')
    """

    def __init__(self, parts: Parts, *, facts: Facts = None) -> None:
        self._parts = parts
        self._disposed = False
        self._lock = threading.Lock()

        def facts_of(session_id: str) -> Mapping[str, Any]:
            own = facts(session_id) if callable(facts) else facts or {}
            return {**parts.config.facts, **own}

        self._sessions = Sessions(parts.config.sessions, facts=facts_of, clock=parts.clock)

    @classmethod
    def create(
        cls,
        *,
        config_path: str | Path | None = None,
        config: Mapping[str, Any] | None = None,
        router: Router | None = None,
        model: Model | None = None,
        reasoning_model: Model | None = None,
        journal: Log | None = None,
        python_modules: Sequence[str] = (),
        auth: Mapping[str, str] | None = None,
        now: Now = None,
        debug: bool = False,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        facts: Facts = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> AgentRuntime:
        """Return a runtime.

        Parameters
        ----------
        config_path, config
            A ``config.yml``, or its content (there ``catalog`` may be a Catalog): one of the two.
        router
            A router that is there already, tuned or calibrated; None = one is made as configured. Its
            catalog, settings, encoder and model stand.
        model
            Routing model; None = the configured one, else the local selector.
        reasoning_model
            Answers in think and agent; None = the configured one, else data is returned as it is.
        journal
            Where decisions are logged; None = the configured one, else nowhere. It stays the caller's to
            close.
        python_modules
            Modules whose functions tools may run, beside those that the configuration lists.
        auth
            Environment variable to the origin that its credential may go to, beside the configured ones.
        now
            Local date and time with offset, or a function that gives it; None = the clock.
        debug
            Whether results say how they came about.
        tools
            Tool id to the function that runs it, whatever its ``run`` says.
        facts
            Session facts of the host, or a function from a session id to them.
        clock
            Seconds, for ages of sessions and time limits.

        Raises
        ------
        ConfigError
            If anything is wrong; all problems at once.
        """
        if config_path is not None and config is not None:
            raise ConfigError(["give config_path or config, not both"])
        if config_path is None and config is None and router is None:
            raise ConfigError(["give config_path or config"])
        source = config_path if config_path is not None else config or {}
        parts = assemble(
            source,
            router=router,
            model=model,
            reasoning_model=reasoning_model,
            journal=journal,
            python_modules=python_modules,
            auth=auth,
            now=now,
            debug=debug,
            tools=tools,
            clock=clock,
        )
        return cls(parts, facts=facts)

    def __enter__(self) -> AgentRuntime:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    def __repr__(self) -> str:
        state = "disposed" if self._disposed else f"{len(self._sessions)} sessions"
        return f"AgentRuntime({len(self._parts.catalog)} tools, {state})"

    # --- messages ---------------------------------------------------------------------------------

    def chat(self, session_id: str, message: str) -> Result:
        """Return what came of a message; never raises.

        Parameters
        ----------
        session_id
            Printable text of at most 200 characters; a new one begins a session.
        message
            What the user wrote, at most 100,000 characters.
        """

        def work() -> Result:
            text = checked_message(message)
            with self._sessions.use(session_id) as session:
                return ChatTurn(self._parts, session, text).chat()

        return self._guarded(session_id, work)

    def invoke(self, tool: str, arguments: Mapping[str, Any], session_id: str | None = None) -> Result:
        """Return what came of a call that the host makes, under the same checks; never raises."""
        own = session_id is None
        name = uuid.uuid4().hex if session_id is None else session_id

        def work() -> Result:
            if not isinstance(tool, str) or tool not in self._parts.catalog:
                raise Refused("INPUT_INVALID", f"unknown tool {short(tool)}")
            given = checked_arguments(tool, arguments)
            if not own:
                with self._sessions.use(name) as session:
                    return self._invoked(session, tool, given)
            session = self._sessions.alone(name)
            result = self._invoked(session, tool, given)
            if session.waiting:
                self._sessions.adopt(session)
            return result

        return self._guarded(name, work)

    def _invoked(self, session: Session, name: str, arguments: dict[str, Any]) -> Result:
        tool = self._parts.catalog[name]
        turn = ActingTurn(self._parts, session)
        rejections = check_arguments(tool, arguments)
        if rejections:
            text = "; ".join(f"{r.code}: {r.message}" for r in rejections)
            return turn.failed("INPUT_SCHEMA_VIOLATION", text[:1_000], tool=name)
        waiting = Waiting(
            kind="input", request_id=turn.request_id, message="", tool=name, arguments=arguments, mode="tool"
        )
        return turn.perform(waiting)

    # --- what waits -------------------------------------------------------------------------------

    def confirm(self, session_id: str, *, request_id: str | None = None) -> Result:
        """Run the call that waits for its confirmation; never raises.

        Parameters
        ----------
        session_id
            Session whose last ``needs_confirmation`` is meant.
        request_id
            That result's id, to confirm no other; None = whatever waits now.
        """

        def work() -> Result:
            with self._known(session_id) as session:
                waiting = session.confirmation()
                age = 0.0 if waiting is None else self._parts.clock() - waiting.since
                if waiting is not None and age > self._parts.config.sessions.confirm_s:
                    session.drop(waiting)
                    waiting = None
                if waiting is None or request_id not in (None, waiting.request_id):
                    raise Refused("CONFIRMATION_STALE", "nothing waits for this confirmation")
                session.drop(waiting)
                turn = ActingTurn(self._parts, session, request_id=waiting.request_id)
                turn.logged = waiting.decision is not None
                if waiting.resume is None:
                    return turn.perform(waiting, confirmed=True)
                ran = turn.run(Call(tool=waiting.tool, arguments=dict(waiting.arguments)))
                turn.message = waiting.message
                return turn.resume(waiting, ran)

        return self._guarded(session_id, work)

    def cancel(self, session_id: str) -> Result:
        """Drop the call that waits; never raises."""

        def work() -> Result:
            with self._known(session_id) as session:
                waiting = session.top
                turn = ChatTurn(self._parts, session)
                if waiting is None:
                    return turn.result("completed", turn.say("nothing_waits"))
                turn.request_id = waiting.request_id
                return turn.cancel(waiting)

        return self._guarded(session_id, work, unknown="SESSION_INVALID")

    @contextlib.contextmanager
    def _known(self, session_id: str) -> Any:
        with self._sessions.use(session_id, create=False) as session:
            yield session

    def feedback(self, request_id: str, value: str, note: str | None = None) -> Result:
        """Tell the log what a user thought of a result, "up" or "down"; never raises."""

        def work() -> Result:
            good = isinstance(request_id, str) and 0 < len(request_id) <= MAX_ID_CHARS
            if not good or not request_id.isprintable():
                raise Refused("INPUT_INVALID", "a request id is the request_id of a result")
            if value not in ("up", "down"):
                raise Refused("INPUT_INVALID", f"feedback must be 'up' or 'down', got {short(value)}")
            if note is not None and not isinstance(note, str):
                raise Refused("INPUT_INVALID", f"a note must be text, got {type(note).__name__}")
            tell = getattr(self._parts.log, "feedback", None)
            if tell is not None:
                with contextlib.suppress(Exception):
                    tell(request_id, value, note=None if note is None else clean(note[:MAX_NOTE_CHARS]))
            return Result(status="completed", request_id=request_id, session_id="", reply="Noted.")

        return self._guarded("", work, check_session=False)

    # --- the host's side --------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The catalog of the runtime's tools."""
        return self._parts.catalog

    @property
    def router(self) -> Router:
        """The router that messages go through."""
        return self._parts.router

    def memory(self, session_id: str) -> Memory | None:
        """Return what a session remembers, or None where there is no such session."""
        try:
            with self._sessions.use(session_id, create=False) as session:
                return session.memory
        except (NoSession, TypeError):
            return None

    def dispose(self) -> None:
        """Close what the runtime opened; every later call gives RUNTIME_DISPOSED. Twice does no harm."""
        with self._lock:
            if self._disposed:
                return
            self._disposed = True
        for close in self._parts.closing:
            with contextlib.suppress(Exception):
                close()
        self._sessions.clear()

    def _guarded(
        self,
        session_id: Any,
        work: Callable[[], Result],
        *,
        unknown: str = "CONFIRMATION_STALE",
        check_session: bool = True,
    ) -> Result:
        """Run a piece of work; whatever it raises becomes an error."""
        started, shown = time.perf_counter(), ""
        try:
            if type(session_id) is str:  # isinstance would ask the object, which may raise
                shown = clean(session_id[:MAX_ID_CHARS])
            if self._disposed:
                raise Refused("RUNTIME_DISPOSED", "the runtime was disposed")
            problem = session_problem(session_id) if check_session else None
            if problem is not None:
                raise Refused("SESSION_INVALID", problem)
            return work()
        except Refused as refused:
            code, text = refused.code, refused.message
        except NoSession:
            code, text = unknown, "no such session, or it has ended"
        except Exception as error:
            # Nothing is known to lead here; a caller still gets a result, and no text that may hold a secret.
            code, text = "INPUT_INVALID", f"this could not be worked on ({type(error).__name__})"
        return Result(
            status="error",
            request_id=uuid.uuid4().hex,
            session_id=shown,
            error=ResultError.of(code, text),
            meta=Tally().meta((time.perf_counter() - started) * 1e3),
        )
