"""Confusions: what was expected and what came instead, with what makes the two alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mono_router.text import ALL, STOP_WORDS, Layers, reduced, words

if TYPE_CHECKING:
    from mono_router.lab.evaluation import Report
    from mono_router.records import Tool


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """A kind of wrong decision."""

    expected: str
    """Tool, tools joined by " + ", or "(no tool)"."""
    got: str
    """Tools likewise, or the outcome in brackets."""
    n_cases: int
    expected_description: str = ""
    """Where one tool was expected and one other came, likewise the next two."""
    got_description: str = ""
    shared_words: tuple[str, ...] = ()
    """Words that both tools' texts hold, as the expected one writes them, sorted; endings do not count."""
    between_tools: bool = False
    """Whether one tool was expected and one other came."""


def confusions(report: Report) -> tuple[Confusion, ...]:
    """Return what was expected and what came instead, commonest first; ties by name.

    Together they are the decisions that tool_accuracy counts as wrong.

    >>> from mono_router.catalog import Catalog
    >>> from mono_router.lab.evaluation import evaluate
    >>> from mono_router.records import Case, Tool
    >>> from mono_router.router import Router
    >>> tools = [Tool(id="book", hints=("book a table",)), Tool(id="move", hints=("move a table",))]
    >>> case = Case(id="1", message="book a table", expected_tools=("move",))
    >>> [(c.expected, c.got, c.shared_words) for c in confusions(evaluate(Router(Catalog(tools)), [case]))]
    [('move', 'book', ('table',))]
    """
    frame = report.frame
    wrong = frame[frame["tool_accuracy"] == 0]
    columns = (wrong["expected"], wrong["tools"], wrong["outcome"])
    pairs = Counter(
        (tuple(sorted(set(expected))), tuple(sorted(tools)), "" if tools else outcome)
        for expected, tools, outcome in zip(*columns, strict=True)
    )
    found = [_confusion(report, *key, n) for key, n in pairs.items()]
    return tuple(sorted(found, key=lambda c: (-c.n_cases, c.expected, c.got)))


def _confusion(
    report: Report, expected: tuple[str, ...], got: tuple[str, ...], outcome: str, n: int
) -> Confusion:
    named = " + ".join(expected) or "(no tool)"
    came = " + ".join(got) or f"({outcome})".replace("_", " ")
    if len(expected) != 1 or len(got) != 1 or expected == got:
        return Confusion(expected=named, got=came, n_cases=n)
    one, two = report.router.catalog[expected[0]], report.router.catalog[got[0]]
    first, second = _tool_words(one), _tool_words(two)
    return Confusion(
        expected=named,
        got=came,
        n_cases=n,
        expected_description=one.description,
        got_description=two.description,
        shared_words=tuple(sorted(first[stem] for stem in first.keys() & second.keys())),
        between_tools=True,
    )


def _tool_words(tool: Tool) -> dict[str, str]:
    """Stem to a word as it is written, words that mean little left out."""
    examples = (example.message for example in tool.examples)
    text = " ".join([tool.title, tool.description, *tool.hints, *examples])
    written = words(text, Layers(stem=False, clitics=False))
    return {reduced(word, ALL): word for word in written if word not in STOP_WORDS}
