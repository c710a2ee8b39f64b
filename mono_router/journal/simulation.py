"""Simulated users: seeded sessions over labelled cases, so that the loop can be measured end to end.

These are no people. A user brings one case after another; where the route was wrong the user asks again
in other words, corrects without naming anything, sends a thumbs down or says nothing, and where it was
right now and then repeats the message. The journal sees what it would see of people: messages, sessions
and feedback, no labels. The labels stay in the :class:`Turn` list, to measure the analyzer against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from mono_router.journal.store import Journal
from mono_router.records import Case, Trace

Reaction = Literal["reask", "correct", "down", "nothing"]
CORRECTIONS = {
    "en": (
        "no, that's not what I meant", "that is wrong", "no", "not what I asked for", "you misunderstood me",
        "I need something else", "huh? why would you do that",
    ),
    "ar": (
        "لا، ليس هذا ما أقصد", "هذا خطأ", "لا", "ليس ما طلبت", "لم تفهمني",
        "أحتاج شيئا آخر", "ما علاقة هذا بكلامي",
    ),
    "es": (
        "no, eso no es lo que quería", "te equivocas", "no", "no me refería a eso", "me has entendido mal",
        "necesito otra cosa", "¿y eso qué tiene que ver?",
    ),
}  # fmt: skip
"""The last two of each are phrases that the analyzer's table does not hold."""


class Routes(Protocol):
    """Routes many messages, as :class:`~mono_router.Router` does."""

    def route_many(self, messages: Sequence[str]) -> list[Trace]: ...


@dataclass(frozen=True, kw_only=True)
class Habits:
    """What simulated users do; shares of wrong routes add up to 1."""

    reask: float = 0.60
    """Asks again with another utterance of the same intent; where no tool was right, there is none."""
    correct: float = 0.15
    """Says that it was wrong, names nothing."""
    down: float = 0.05
    """Thumbs down."""
    repeat: float = 0.05
    """Share of right routes whose message is sent again."""
    session_length: int = 8
    """Topics that one user brings."""

    def __post_init__(self) -> None:
        shares = (self.reask, self.correct, self.down)
        if min(*shares, self.repeat) < 0 or sum(shares) > 1 or self.repeat > 1:
            raise ValueError(f"habits must be shares that add up to at most 1, got {self}")
        if self.session_length < 1:
            raise ValueError(f"session_length must be >= 1, got {self.session_length}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One message of a simulated user, with the truth that the journal does not have."""

    request: str
    """Request id in the journal."""
    case: Case | None
    """None: a correction, which no tool is right for."""
    right: bool
    """Whether the route was right."""
    trace: Trace


def is_right(trace: Trace, case: Case) -> bool:
    """Return whether a route is right: the tools named are those expected, or none is."""
    decision = trace.decision
    if not case.expected_tools:
        return decision.outcome == "no_tool"
    return decision.outcome in ("call", "ask") and set(decision.tools) == set(case.expected_tools)


def simulate(
    router: Routes,
    cases: Iterable[Case],
    journal: Journal,
    *,
    seed: int,
    habits: Habits | None = None,
    prefix: str = "simulated",
    progress: Callable[[int], object] | None = None,
) -> list[Turn]:
    """Run simulated users over cases into a journal; each case is used at most once.

    Parameters
    ----------
    router
        Anything with ``route_many``.
    seed
        Of everything that is random.
    prefix
        Begins the session ids.

    Returns
    -------
    The turns in order, with the truth.
    """
    habits = habits or Habits()
    rng = np.random.default_rng(seed)
    queue = list(cases)
    queue = [queue[i] for i in rng.permutation(len(queue)).tolist()]
    said = [text for texts in CORRECTIONS.values() for text in texts]
    messages = [case.message for case in queue] + said
    traces = router.route_many(messages)
    by_case = {case.id: trace for case, trace in zip(queue, traces, strict=False)}
    by_text = dict(zip(said, traces[len(queue) :], strict=True))
    waiting: dict[tuple[tuple[str, ...], str], list[Case]] = {}
    for case in reversed(queue):
        waiting.setdefault((case.expected_tools, case.language), []).append(case)
    used: set[str] = set()
    turns: list[Turn] = []
    n_topics = 0

    def say(trace: Trace, session: str, case: Case | None, right: bool) -> Turn:
        request = journal.record(trace, session_id=session)
        if request is None:  # the queue is full: a user types slower than this loop
            journal.flush()
            request = journal.record(trace, session_id=session)
        turn = Turn(request=request or "", case=case, right=right, trace=trace)
        turns.append(turn)
        if progress is not None:
            progress(1)
        return turn

    def another(case: Case) -> Case | None:
        """Another utterance of the same intent that nobody has used; there is none for "no tool"."""
        pool = waiting[(case.expected_tools, case.language)] if case.expected_tools else []
        while pool and pool[-1].id in used:
            pool.pop()
        return pool.pop() if pool else None

    for first in queue:
        if first.id in used:
            continue
        session = f"{prefix}-{n_topics // habits.session_length}"
        n_topics += 1
        wish: Case | None = first
        while wish is not None:
            case = wish
            used.add(case.id)
            trace = by_case[case.id]
            right = is_right(trace, case)
            turn = say(trace, session, case, right)
            if right:
                if rng.random() < habits.repeat:
                    say(trace, session, case, right)
                break
            reaction = _reaction(rng, habits, bool(case.expected_tools))
            if reaction == "correct":
                texts = CORRECTIONS.get(case.language, CORRECTIONS["en"])
                say(by_text[texts[int(rng.integers(len(texts)))]], session, None, True)
            elif reaction == "down":
                journal.feedback(turn.request or None, "down")
            wish = another(case) if reaction == "reask" else None
    journal.flush(timeout=600.0)
    return turns


def _reaction(rng: np.random.Generator, habits: Habits, wants_tool: bool) -> Reaction:
    """Draw what a user does; for "no tool" there are no other words, so the other ways share that part."""
    reask = habits.reask if wants_tool else 0.0
    silent = 1.0 - habits.reask - habits.correct - habits.down
    shares = np.array([reask, habits.correct, habits.down, silent])
    if shares.sum() <= 0:
        return "nothing"
    names: tuple[Reaction, ...] = ("reask", "correct", "down", "nothing")
    bounds = np.cumsum(shares / shares.sum())
    return names[min(3, int(np.searchsorted(bounds, rng.random(), side="right")))]
