"""Messages that stand twice, or nearly: all of them are found, and nothing else."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.lab.overlap import find_overlaps, like_pairs, overlap_frame, trigrams
from mono_router.records import Case, Example, Tool

CATALOG = Catalog(
    [
        Tool(
            id="book",
            description="Book",
            hints=("book a table",),
            examples=(Example(message="a table for two please"),),
        ),
        Tool(id="cancel", description="Cancel", hints=("cancel it",)),
    ]
)


def case(id_: str, message: str, *, group: str = "", split: str = "dev") -> Case:
    return Case(id=id_, message=message, expected_tools=("book",), group=group, split=split)


TEXTS = st.lists(st.text(alphabet="abc d", max_size=12), max_size=8)


@given(TEXTS, TEXTS, st.sampled_from([0.1, 0.5, 0.75, 0.8, 1.0]))
def test_pairs_are_their_definition(first, second, least: float) -> None:
    """All pairs of at least this likeness are found, no other: the Jaccard index of their trigrams."""

    def likeness(one: str, two: str) -> float:
        a, b = trigrams(one), trigrams(two)
        return len(a & b) / len(a | b)

    expected = [
        (i, j, likeness(one, two))
        for i, one in enumerate(first)
        for j, two in enumerate(second)
        if likeness(one, two) >= least - 1e-12
    ]
    assert list(like_pairs(first, second, least)) == expected


def test_every_kind_is_told() -> None:
    """Examples, hints and other cases; exact ones first; versions of one case are no repeat."""
    cases = [
        case("1", "a table for two please!"),
        case("2", "a table for two, pleas"),
        case("3", "Cancel  it."),
        case("4", "what is the weather"),
        case("5", "what is the weather?", split="test"),
        case("6", "what is the weather", group="4"),
    ]
    found = find_overlaps(cases, CATALOG)
    told = [(o.case, o.kind, o.other) for o in found]
    assert told[: told.index(("2", "case", "1"))] == [
        ("1", "example", "book"), ("3", "hint", "cancel"), ("5", "case", "4"), ("6", "case", "5"),
    ]  # fmt: skip
    assert ("4", "case", "6") not in told
    assert [o.across_splits for o in found if (o.case, o.other) == ("5", "4")] == [True]
    assert all(0.8 <= o.likeness <= 1 for o in found)
    assert ("2", "example", "book") in told
    assert len(find_overlaps(cases)) == sum(o.kind == "case" for o in found)


def test_a_frame(booking, booking_dev) -> None:
    """Overlaps are shown as a table; the project's own set has no case that a catalog text repeats."""
    found = find_overlaps(booking_dev, booking)
    assert [o for o in found if o.kind != "case" and o.likeness == 1.0] == []
    assert (
        list(overlap_frame(found).columns) == [f.name for f in dataclasses.fields(type(found[0]))]
        if found
        else True
    )
    assert len(overlap_frame(())) == 0


def test_refused() -> None:
    """A likeness that nothing or everything has is refused."""
    for bad in (0.0, 1.5):
        with pytest.raises(ValueError, match=r"min_likeness must be in \(0, 1\]"):
            find_overlaps([], CATALOG, min_likeness=bad)


def test_public_sets(shared_data) -> None:
    """A few thousand cases against a catalog of 60 tools with 20 examples each take a moment."""
    from mono_router.lab.cases import load_cases

    cases = load_cases(shared_data / "massive", language="en")
    found = find_overlaps(cases, Catalog.load(shared_data / "massive"))
    assert {o.kind for o in found} >= {"example"}
    assert all(o.likeness >= 0.8 for o in found)
