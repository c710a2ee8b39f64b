"""Many sessions at once: what a runtime carries, and that no session ever sees another's words.

Each session has a word of its own and puts it into every message that takes one. After the run, and at
every reply, only that word may stand in the session's memory, arguments and data.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mono_router.records import canonical_json
from mono_router.runtime.agent import AgentRuntime
from mono_router.runtime.results import Result


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a run under load gave."""

    n_messages: int
    n_sessions: int
    n_threads: int
    seconds: float
    n_errors: int
    """Results with status error."""
    crossed: tuple[str, ...]
    """Sessions in which another session's word turned up; none may."""
    memory_kb: tuple[float, ...]
    """Python memory in use, kilobytes, after each tenth of the messages; empty where it was not traced."""

    @property
    def per_second(self) -> float:
        """Messages a second, over all threads."""
        return self.n_messages / self.seconds if self.seconds > 0 else float("inf")

    @property
    def growth(self) -> float:
        """Memory at the end over that at half the run; 1.0 = flat."""
        half = self.memory_kb[len(self.memory_kb) // 2] if self.memory_kb else 0.0
        return self.memory_kb[-1] / half if half else 1.0


def sentinel(i: int) -> str:
    """Return the word of session ``i``: letters alone, and no word is part of another.

    >>> sentinel(0), sentinel(27)
    ('Zqaaax', 'Zqabbx')
    """
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "Zq" + letters[i // 676 % 26] + letters[i // 26 % 26] + letters[i % 26] + "x"


def run_load(
    runtime: AgentRuntime,
    templates: Sequence[str],
    *,
    n_sessions: int = 200,
    n_threads: int = 16,
    n_messages: int = 10_000,
    seed: int = 0,
    trace_memory: bool = False,
) -> Load:
    """Return how a runtime did under load.

    Parameters
    ----------
    runtime
        What is loaded; its tools are really run.
    templates
        Messages; ``{word}`` stands for the session's own word.
    n_sessions, n_threads, n_messages
        Sessions in turn, threads at once, messages over all.
    seed
        Seed of which session says what, and when.
    trace_memory
        Whether memory is measured, which makes everything slower.
    """
    order = random.Random(seed)
    plan = [(order.randrange(n_sessions), order.randrange(len(templates))) for _ in range(n_messages)]
    words = [sentinel(i) for i in range(n_sessions)]

    def one(step: tuple[int, int]) -> tuple[int, bool, bool]:
        session, which = step
        result = runtime.chat(f"load-{session}", templates[which].replace("{word}", words[session]))
        return session, result.ok, _is_own(_texts(runtime, result), words[session])

    memory: list[float] = []
    n_errors, crossed = 0, set[int]()
    if trace_memory:
        tracemalloc.start()
    started = time.perf_counter()
    with ThreadPoolExecutor(max_workers=n_threads) as pool:
        for start in range(0, n_messages, max(1, n_messages // 10)):
            # Counted as they come: what the measurement keeps must not grow with the messages.
            for session, ok, own in pool.map(one, plan[start : start + max(1, n_messages // 10)]):
                n_errors += not ok
                if not own:
                    crossed.add(session)
            if trace_memory:
                memory.append(tracemalloc.get_traced_memory()[0] / 1e3)
    seconds = time.perf_counter() - started
    if trace_memory:
        tracemalloc.stop()
    return Load(
        n_messages=n_messages,
        n_sessions=n_sessions,
        n_threads=n_threads,
        seconds=seconds,
        n_errors=n_errors,
        crossed=tuple(f"load-{session}" for session in sorted(crossed)),
        memory_kb=tuple(memory),
    )


def _texts(runtime: AgentRuntime, result: Result) -> str:
    memory = runtime.memory(result.session_id)
    return result.to_json() + ("" if memory is None else canonical_json(memory))


def _is_own(text: str, word: str) -> bool:
    """Whether no other session's word stands in a text."""
    found = {text[at : at + 6] for at in _places(text)}
    return found <= {word}


def _places(text: str) -> list[int]:
    places, at = [], text.find("Zq")
    while at >= 0:
        places.append(at)
        at = text.find("Zq", at + 1)
    return places
