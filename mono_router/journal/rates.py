"""How likely it is that a route was wrong, given the next message of its session: the analyzer's arithmetic.

Two decisions go in, as they were ranked, and a likelihood ratio comes out; :class:`Rates` holds what the
stream tells of itself: how often each tool comes up, how many routes are wrong, how often satisfied users
stay with a tool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mono_router.journal.likeness import word_likeness
from mono_router.journal.reader import Fold

# Fitted on simulated users (see simulation) over banking77, arbanking77, snips and sgd, two examples a tool.
UNSURE = 0.82
"""Weight of the log-odds that the decision is wrong by its own confidence."""
RIVALS = 0.87
"""Weight of the log-ratio of being routed to a rival of the first choice."""
WORDS, LEVEL = 3.25, -0.36
"""Weight of the likeness of words, and what makes the ratio 1 on average where the route was right."""
TRIES = 0.6
"""Share of wrong routes that are followed by another try; a guess."""
AGAIN = 0.4
"""Share of such tries that the same tool takes once more; a guess."""
SURE = 0.8
"""Confidence from which a decision tells how often a satisfied user stays with one tool."""
N_PAIRS = 4000
"""Pairs of messages that the overall rate is estimated from, the last ones."""


@dataclass(slots=True)
class Seen:
    """A decision as the analyzer holds it."""

    id: str
    session: str
    at: str
    message: str
    kept: bool
    correction: bool
    outcome: str
    tool: str
    ranked: dict[str, float]
    confidence: float
    language: str
    fold: Fold

    @property
    def seconds(self) -> float:
        return int(self.id[:16], 16) / 1e6

    @property
    def acted(self) -> bool:
        return self.outcome in ("call", "ask") and self.fold.status not in ("error", "failed")


class Rates:
    """What the stream tells of itself: how often each tool comes up, and how many routes are wrong."""

    def __init__(self, record: Mapping[str, Any] | None = None) -> None:
        record = record or {}
        self.tools: dict[str, float] = dict(record.get("tools", {}))
        self.total = sum(self.tools.values())
        self.level = float(record.get("level", 0.0))
        """Added to the log-odds that a decision is wrong by its own confidence."""
        self._pairs: list[tuple[float, float]] = [(a, b) for a, b in record.get("pairs", ())]
        self.stays: list[int] = list(record.get("stays", (1, 10)))
        """Next messages of sure decisions that went to the same tool, and all of them; begun at 1 of 10."""

    def to_dict(self) -> dict[str, Any]:
        pairs = self._pairs[-N_PAIRS // 4 :]
        return {"tools": self.tools, "level": self.level, "pairs": pairs, "stays": self.stays}

    def count(self, ranked: Mapping[str, float]) -> None:
        for tool, score in ranked.items():
            self.tools[tool] = self.tools.get(tool, 0.0) + score
            self.total += score

    def share(self, tool: str) -> float:
        """How often a tool comes up, (0, 1]."""
        return (self.tools.get(tool, 0.0) + 1.0) / (self.total + len(self.tools) + 1.0)

    def wrong(self, unsure: float, ratio: float) -> float:
        """P(the route was wrong), from the log-odds of the decision and the ratio of what followed."""
        return sigmoid(self.level + unsure + math.log(ratio))

    def note(self, unsure: float, ratio: float) -> None:
        self._pairs.append((unsure, ratio))

    def update(self) -> None:
        """Estimate the level anew: the one that makes what followed likeliest (Saerens et al. 2002)."""
        self._pairs = self._pairs[-N_PAIRS:]
        if len(self._pairs) < 20:
            return
        unsure, ratio = np.array(self._pairs).T
        levels = np.linspace(-2.0, 2.0, 81)
        prior = 1.0 / (1.0 + np.exp(-(levels[:, None] + unsure)))
        likely = np.log(prior * ratio + 1.0 - prior).sum(axis=1) - levels**2 / 2
        self.level = float(levels[int(np.argmax(likely))])


def sigmoid(x: float) -> float:
    """Return the probability of log-odds."""
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, x))))


def unsure_odds(row: Seen) -> float:
    """Return the log-odds that a decision is wrong by its own confidence, weighed."""
    confidence = min(0.98, max(0.02, row.confidence))
    return UNSURE * math.log((1.0 - confidence) / confidence)


def follow_ratio(first: Seen, second: Seen, rates: Rates) -> tuple[float, dict[str, Any]]:
    """Return how much likelier this next message is after a wrong route than after a right one.

    With P(t | m) as the router ranks tools and P(t) as they come up, the ratio of "one wish, and not the
    first choice" to "two wishes" is the sum over the rivals t of P(t | m1) P(t | m2) / P(t). Where the same
    tool takes both messages, it is how often a second try fails alike, over how often satisfied users
    stay with a tool.
    """
    if first.tool and first.tool == second.tool:
        stays = max(rates.share(first.tool), rates.stays[0] / rates.stays[1])
        ratio = min(10.0, max(0.1, TRIES * AGAIN / stays))
        return ratio, {"same_tool": True, "stays": round(stays, 3)}
    rivals = {tool: score for tool, score in first.ranked.items() if tool != first.tool}
    mass, other = sum(rivals.values()), sum(second.ranked.values())
    shared = 0.0
    if mass > 0 and other > 0:
        shared = sum(
            score * second.ranked[tool] / rates.share(tool)
            for tool, score in rivals.items()
            if tool in second.ranked
        ) / (mass * other)
    log_ratio = RIVALS * math.log(TRIES * min(shared, 1000.0) + 1.0 - TRIES)
    evidence: dict[str, Any] = {"rivals": round(shared, 3)}
    if first.kept and second.kept:
        words = word_likeness(first.message, second.message)
        evidence["words"] = round(words, 3)
        log_ratio += WORDS * words + LEVEL
    return math.exp(log_ratio), evidence


def agreement(rows: Sequence[Seen], refuted: set[str], tool: str, rates: Rates) -> float:
    """Return P(the tool is right) from all tries at one wish; those that failed rule their tools out.

    The tries are taken as independent given the wish (naive Bayes), the shares of the tools as the prior.
    """
    names = {name for row in rows for name in row.ranked} - (refuted - {tool})
    if tool not in names:
        return 0.0
    weights = {}
    for name in names:
        share = rates.share(name)
        tries = (math.log((row.ranked.get(name, 0.0) + 0.01 * share) / share) for row in rows)
        weights[name] = math.log(share) + sum(tries)
    top = max(weights.values())
    odds = {name: math.exp(weight - top) for name, weight in weights.items()}
    return round(odds[tool] / sum(odds.values()), 4)
