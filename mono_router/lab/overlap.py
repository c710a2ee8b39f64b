"""Overlap: messages that stand twice, or nearly, where they should not.

A case that repeats a catalog's example or hint measures memory; two cases of different groups that say
the same are one case counted twice, and across splits a leak. Likeness is the Jaccard index of the sets
of character trigrams of the normalised texts; equal texts have likeness 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mono_router.catalog import Catalog
from mono_router.records import Case
from mono_router.text import normalize

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """A case and what it repeats."""

    case: str
    """Id of the case."""
    kind: Literal["example", "hint", "case"]
    """What it repeats."""
    other: str
    """Id of the tool, or of the other case."""
    likeness: float
    """In (0, 1]; 1 = the same but for case, marks and spaces."""
    message: str
    other_message: str
    across_splits: bool = False
    """Whether the other case is of another split."""


def trigrams(text: str) -> frozenset[str]:
    """Return the character trigrams of a normalised text, padded so that every text has one.

    >>> sorted(trigrams("Hi!"))
    [' hi', 'hi ']
    """
    padded = f" {normalize(text)} "
    return frozenset(padded[i : i + 3] for i in range(max(1, len(padded) - 2)))


def find_overlaps(
    cases: Iterable[Case], catalog: Catalog | None = None, *, min_likeness: float = 0.8
) -> tuple[Overlap, ...]:
    """Return the repeats among cases of different groups, and of a catalog's examples and hints in them.

    Parameters
    ----------
    cases
        Of all splits that are to be compared.
    catalog
        Whose examples and hints are compared with each case; None = cases alone.
    min_likeness
        Least likeness that is told, in (0, 1].

    Returns
    -------
    Exact repeats first, then by falling likeness; ties in the order of the cases.

    Raises
    ------
    ValueError
        If ``min_likeness`` is out of range.

    >>> from mono_router.records import Tool
    >>> catalog = Catalog([Tool(id="book", description="Book", hints=("book a table for two",))])
    >>> cases = [Case(id="1", message="Book a table, for two!", expected_tools=("book",))]
    >>> [(o.case, o.kind, o.other, o.likeness) for o in find_overlaps(cases, catalog)]
    [('1', 'hint', 'book', 1.0)]
    """
    if not 0 < min_likeness <= 1:
        raise ValueError(f"min_likeness must be in (0, 1], got {min_likeness}")
    given = list(cases)
    messages = [case.message for case in given]
    found: list[tuple[int, Overlap]] = []
    for i, j, likeness in like_pairs(messages, messages, min_likeness):
        one, two = given[i], given[j]
        if i < j and one.group != two.group:
            overlap = Overlap(
                case=two.id,
                kind="case",
                other=one.id,
                likeness=likeness,
                message=two.message,
                other_message=one.message,
                across_splits=one.split != two.split,
            )
            found.append((j, overlap))
    kinds: tuple[Literal["example", "hint"], ...] = ("example", "hint")
    for kind in kinds:
        texts = [] if catalog is None else list(_texts(catalog, kind))
        for i, j, likeness in like_pairs(messages, [text for _, text in texts], min_likeness):
            tool, text = texts[j]
            overlap = Overlap(
                case=given[i].id,
                kind=kind,
                other=tool,
                likeness=likeness,
                message=messages[i],
                other_message=text,
            )
            found.append((i, overlap))
    found.sort(key=lambda item: (-item[1].likeness, item[0]))
    return tuple(overlap for _, overlap in found)


def overlap_frame(overlaps: Sequence[Overlap]) -> pd.DataFrame:
    """Return overlaps as a table, one row each."""
    import pandas as pd

    return pd.DataFrame([vars(one) for one in overlaps], columns=list(Overlap.__dataclass_fields__))


def _texts(catalog: Catalog, kind: str) -> Iterator[tuple[str, str]]:
    for tool in catalog:
        for text in tool.hints if kind == "hint" else (example.message for example in tool.examples):
            yield tool.id, text


def like_pairs(
    first: Sequence[str], second: Sequence[str], min_likeness: float
) -> Iterator[tuple[int, int, float]]:
    """Yield the places of all pairs of texts of at least this likeness, with it.

    Two sets of that likeness share one of the rarest trigrams of each: of n sorted by rarity, the first
    n - ceil(t n) + 1 (Chaudhuri, Ganti and Kaushik 2006). Only pairs that do are compared.
    """
    one, two = [trigrams(text) for text in first], [trigrams(text) for text in second]
    n_texts = Counter(gram for grams in (*one, *two) for gram in grams)

    def rarest(grams: frozenset[str]) -> list[str]:
        n_kept = len(grams) - math.ceil(min_likeness * len(grams) - 1e-9) + 1
        return sorted(grams, key=lambda gram: (n_texts[gram], gram))[:n_kept]

    places: dict[str, list[int]] = {}
    for j, grams in enumerate(two):
        for gram in rarest(grams):
            places.setdefault(gram, []).append(j)
    for i, grams in enumerate(one):
        near = {j for gram in rarest(grams) for j in places.get(gram, ())}
        for j in sorted(near):
            n_shared = len(grams & two[j])
            likeness = n_shared / (len(grams) + len(two[j]) - n_shared)
            if likeness >= min_likeness - 1e-12:
                yield i, j, likeness
