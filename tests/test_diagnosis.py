"""Diagnosis: one stage and cause a wrong case, and what a perfect stage would buy."""

from __future__ import annotations

import numpy as np
import pytest

from mono_router.catalog import Catalog
from mono_router.lab.diagnosis import ADVICE, STAGES, diagnose, stage_counts
from mono_router.lab.evaluation import evaluate
from mono_router.records import Case, Outcome, Tool
from mono_router.router import Router
from mono_router.settings import Settings

TOOLS = [
    Tool(id="book", description="Book a table", hints=("book a table",)),
    Tool(id="cancel", description="Cancel a booking", hints=("cancel my booking",)),
    Tool(id="menu", description="Show the menu and the dishes", hints=("what is on the menu",)),
    Tool(
        id="remind",
        description="Set a reminder on a date",
        hints=("remind me on a date",),
        input_schema={"type": "object", "properties": {"date": {"type": "string", "format": "date"}}},
    ),
]


@pytest.fixture(scope="module")
def booking_diagnosis(booking_router, booking_dev):
    return diagnose(evaluate(booking_router, booking_dev, progress=False, latency=False))


def test_counts_add_up(booking_diagnosis) -> None:
    """Every wrong case is lost at exactly one stage, with a cause that has advice."""
    counts = booking_diagnosis.counts()
    assert counts["n"].sum() == len(booking_diagnosis) == sum(stage_counts(booking_diagnosis).values())
    assert len({loss.case.id for loss in booking_diagnosis.losses}) == len(booking_diagnosis)
    assert set(counts["stage"]) <= set(STAGES)
    assert all(loss.advice == ADVICE[loss.cause] for loss in booking_diagnosis.losses)


def test_wrong_tools_are_among_the_losses(booking_diagnosis) -> None:
    """Whatever tool_accuracy counts as wrong is diagnosed."""
    report = booking_diagnosis.report
    wrong = {c.id for c, ok in zip(report.cases, report.columns["tool_accuracy"], strict=True) if ok == 0}
    assert wrong <= {loss.case.id for loss in booking_diagnosis.losses}


def test_perfect_stages_end_at_all_right(booking_diagnosis) -> None:
    """Gains are never negative but for discovery, and with every stage perfect every case is right."""
    table = booking_diagnosis.attribution
    assert list(table.index) == list(STAGES)
    assert (table["gain"].iloc[1:] >= 0).all()
    assert table["right"].iloc[-1] == 1.0
    start = 1 - len(booking_diagnosis) / len(booking_diagnosis.report)
    assert np.isclose(start + table["gain"].sum(), 1.0)


def test_it_shows_itself(booking_diagnosis) -> None:
    """The HTML names each cause and escapes what comes from data."""
    text = booking_diagnosis._repr_html_()
    assert all(cause in text for cause in booking_diagnosis.counts()["cause"])
    assert "<script" not in text


@pytest.mark.parametrize(
    ("case", "settings", "stage", "cause"),
    [
        (
            Case(id="limit", message="cancel the table booking", expected_tools=("book",)),
            {"candidate_limit": 1, "lexical.min_score": None},
            "discovery",
            "limit_candidate_limit",
        ),
        (
            Case(id="false", message="book a table", expected_tools=()),
            {},
            "selection",
            "false_tool",
        ),
        (
            Case(
                id="date",
                message="remind me tomorrow",
                expected_tools=("remind",),
                expected_arguments={"date": "2026-03-11"},
            ),
            {"selection.min_confidence": 0.0},
            "extraction",
            "no_date_context",
        ),
        (
            Case(id="bar", message="what is on the menu", expected_tools=("menu",)),
            {"selection.min_confidence": 1.0},
            "selection",
            "low_confidence",
        ),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else None,
)
def test_planted_faults_are_named(case, settings, stage, cause) -> None:
    """A fault that was planted is found at its stage, under its name."""
    router = Router(Catalog(TOOLS), settings=Settings().replace(settings))
    losses = diagnose(evaluate(router, [case], progress=False, latency=False)).losses
    assert [(loss.stage, loss.cause) for loss in losses] == [(stage, cause)]


def test_execution_comes_last() -> None:
    """A right call whose service refuses the credential is lost at execution."""
    case = Case(id="1", message="book a table", expected_tools=("book",))
    report = evaluate(Router(Catalog(TOOLS)), [case], progress=False, latency=False)
    assert diagnose(report).losses == ()
    refused = diagnose(report, executions={"1": Outcome(status="error", error="AUTH_REJECTED")})
    assert [(loss.stage, loss.cause) for loss in refused.losses] == [("execution", "auth")]
