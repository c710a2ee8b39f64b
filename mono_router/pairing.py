"""A slot held against a message: how near its words stand, and whether a value opens or closes a pair.

What a reader yields is a :class:`Found`: a value with its place, and a score for how well it fits. The
constants were set by hand on the development splits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from mono_router.slots import Plan, Slot
from mono_router.value_words import word_set
from mono_router.values import Message, Number, Phrase, lazy


class Found(NamedTuple):
    """A value that a slot could take."""

    score: float
    start: int
    end: int
    value: Any
    key: str
    """What is used up: two slots never share a stretch of the message under one key."""


_OPEN_CUES = word_set("from since starting leaving departing between de desde del entre من بين")
_CLOSE_CUES = word_set(
    "to until till through into returning return ending arriving a al hasta hacia الى إلى حتى لحد ل"
)


@dataclass
class Reading:
    """One slot held against one message, with the slots that compete for the same values."""

    slot: Slot
    message: Message
    plan: Plan
    slots: Sequence[Slot]
    chosen: Sequence[tuple[int, int]] = ()
    """Where values of enumerations were said: they end a name."""

    @lazy
    def rivals(self) -> list[Slot]:
        """Other slots of the same kind."""
        return [other for other in self.slots if other is not self.slot and other.kind == self.slot.kind]

    @lazy
    def paired(self) -> bool:
        """Whether the slot is one end of a pair: start and end, from and to."""
        return self.slot.role >= 0 and any(other.role == 1 - self.slot.role for other in self.rivals)

    @lazy
    def _marks(self) -> list[tuple[int, float]]:
        """Where words of the name (0) and of the description stand, with how much less these say."""
        words, hints = self.slot.words, self.slot.hints
        said = self.message.stem_set
        if said.isdisjoint(words) and said.isdisjoint(hints):
            return []
        lead = 0.6 - 0.6 * min(len(words) - 1, 2)
        return [
            (i, lead if word in words else -1.2)
            for i, word in enumerate(self.message.stems)
            if word in words or (word in hints and len(word) > 1)
        ]

    def near(self, first: int, last: int) -> float:
        """Return how closely words of the property's name, or of its description, stand to some tokens."""
        best = 0.0
        for i, lead in self._marks:
            before = first - i if i < first else i - last + 1
            if 1 <= before <= 4:
                low, high = (i, first) if i < first else (last, i)
                if self.message.walls[high] == self.message.walls[low]:
                    best = max(best, lead + (3.0 - 0.4 * before if i < first else 3.2 - 0.6 * before))
        return best

    def role_fit(self, start: int) -> float:
        """Return what the word before a value adds: it opens or closes a range, as the slot does or not."""
        if not self.paired:
            return 0.0
        first, _ = self.message.token_range(start, start)
        cue = self.message.tokens[first - 1].norm if first else ""
        opens = cue in _OPEN_CUES
        if opens == (cue in _CLOSE_CUES and (cue != "a" or self.message.language == "es")):
            return 0.0
        return 2.0 if opens == (self.slot.role == 0) else -2.0


_Item = TypeVar("_Item", Number, Phrase)


def runs(text: str, items: Sequence[_Item], parted: re.Pattern[str]) -> Iterator[list[_Item]]:
    """Yield items with nothing but a comma or "and" between them."""
    run: list[_Item] = []
    for item in items:
        if run and not parted.fullmatch(text, run[-1].end, item.start):
            yield run
            run = []
        run.append(item)
    if run:
        yield run
