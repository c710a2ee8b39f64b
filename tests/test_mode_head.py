"""Execution modes that the local selector chooses."""

from __future__ import annotations

import pytest
from conftest import ROOT

from mono_router.catalog import Catalog
from mono_router.lab.cases import load_cases
from mono_router.lab.evaluation import evaluate
from mono_router.local import LocalSelector
from mono_router.mode_head import declares_modes
from mono_router.mode_sentences import AGENT, THINK
from mono_router.records import Example, Query, Tool
from mono_router.router import Router

NOTES = Catalog(
    [
        Tool(id="notes.list", description="List notes", examples=(Example(message="my notes", mode="tool"),)),
        Tool(id="notes.add", description="Add a note", effects="write"),
        Tool(id="notes.count", description="Count notes", modes=("tool",)),
    ]
)


@pytest.mark.parametrize(
    ("message", "mode"),
    [
        ("list my notes of monday please", "tool"),
        ("which of my notes matters most, and should I worry?", "think"),
        ("¿debería preocuparme por lo que dicen mis notas?", "think"),
        ("go through my notes one by one and clean them up from start to finish", "agent"),
        ("راجع ملاحظاتي واحدة واحدة ورتبها من البداية إلى النهاية", "agent"),
    ],
)
def test_a_message_chooses_its_mode(message: str, mode: str) -> None:
    """Judgement thinks, a job of many steps is an agent's, the rest is one call."""
    assert LocalSelector(NOTES).fill(Query(message=message), NOTES["notes.list"]).mode == mode


@pytest.mark.parametrize("row", [*THINK, *AGENT], ids=lambda row: row[0][:30])
def test_no_mode_that_a_skill_lacks(row: tuple[str, str, str]) -> None:
    """Whatever is said, a tool runs in a mode that it supports, and one that writes never thinks."""
    selector = LocalSelector(NOTES)
    for sentence in row:
        query = Query(message=sentence)
        assert selector.fill(query, NOTES["notes.count"]).mode == "tool"
        assert selector.fill(query, NOTES["notes.add"]).mode != "think"


def test_a_catalog_that_says_nothing_of_modes_has_the_first(shared_data) -> None:
    """Without a declared mode anywhere every call is a tool call."""
    catalog = Catalog.load(shared_data / "sgd")
    assert not declares_modes(catalog)
    selector = LocalSelector(catalog)
    assert {selector.fill(Query(message=row[0]), tool).mode for row in AGENT for tool in catalog} == {"tool"}


def test_modes_of_the_assistant_set() -> None:
    """On dev the head is right far more often than always answering "tool" would be."""
    catalog = Catalog.load(ROOT / "datasets" / "assistant")
    cases = [
        case
        for case in load_cases(ROOT / "datasets" / "assistant", split="dev")
        if case.expected_mode and case.expected_tools
    ]
    selector = LocalSelector(catalog)
    right = [
        selector.fill(case.query, catalog[case.expected_tools[0]]).mode == case.expected_mode
        for case in cases
    ]
    always = sum(case.expected_mode == "tool" for case in cases)
    assert sum(right) > always + 0.1 * len(cases)
    report = evaluate(Router(catalog), cases[:50], latency=False)
    assert 0.0 < report.metric("mode_accuracy").value < 1.0
