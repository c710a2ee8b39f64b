"""Diagnosis: one stage and cause a wrong case, and what a perfect stage would buy."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import by_purpose, call
from hypothesis import given, settings
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.lab.advice import ADVICE, STAGES
from mono_router.lab.confusion import confusions
from mono_router.lab.diagnosis import diagnose, stage_counts
from mono_router.lab.evaluation import evaluate
from mono_router.models.simulated import SimulatedModel
from mono_router.records import Case, Outcome, Tool, ToolCall
from mono_router.router import Router
from mono_router.settings import Settings

DATED = {"type": "object", "properties": {"date": {"type": "string", "format": "date"}}}
TOOLS = [
    Tool(id="book", description="Book a table", hints=("book a table",)),
    Tool(id="cancel", description="Cancel a booking", hints=("cancel my booking",)),
    Tool(id="menu", description="Show the menu and the dishes", hints=("what is on the menu",)),
    Tool(
        id="remind",
        description="Set a reminder on a date",
        hints=("remind me on a date",),
        input_schema=DATED,
    ),
    # Twins: the same words, and only the hint of the first says which one is meant.
    Tool(id="party.large", description="Reserve the hall for a party", hints=("reserve the hall",)),
    Tool(id="party.small", description="Reserve the room for a party"),
    Tool(id="zither", description="Zither"),
]
NAMES = sorted(tool.id for tool in TOOLS)


def lost(case, changes, **parts):
    """Where one case is lost."""
    router = Router(Catalog(TOOLS), settings=Settings().replace(changes), **parts)
    return diagnose(evaluate(router, [case], progress=False, latency=False))


class Near:
    """A retriever that finds the same tools for every message, in the order given."""

    def __init__(self, *tools):
        self.row = [1.0 - 0.1 * tools.index(name) if name in tools else 0.0 for name in NAMES]

    def scores(self, messages):
        return np.array([self.row] * len(messages), dtype=np.float32)

    def search(self, message, k):
        raise AssertionError("nothing here searches one by one")


def failed_rows(report):
    """The metric columns' own account of which cases are wrong: tools, or what was decided beside them."""
    wrong = report.columns["tool_accuracy"] == 0
    called = np.array([bool(report.verdicts.called(i)) for i in range(len(report))])
    for name in ("mode_accuracy", "argument_exact", "ask_accuracy"):
        wrong |= called & (report.columns[name] == 0)
    return np.flatnonzero(wrong).tolist()


@pytest.fixture(scope="module")
def booking_diagnosis(booking_router, booking_dev):
    return diagnose(evaluate(booking_router, booking_dev, progress=False, latency=False))


# --- counts --------------------------------------------------------------------------------------


def test_counts_add_up(booking_diagnosis) -> None:
    """Every wrong case is lost at exactly one stage, with a cause that has advice."""
    counts = booking_diagnosis.counts()
    assert counts["n"].sum() == len(booking_diagnosis) == sum(stage_counts(booking_diagnosis).values())
    assert set(counts["stage"]) <= set(STAGES)
    assert all(loss.advice == ADVICE[loss.cause] for loss in booking_diagnosis.losses)


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "lexical.min_score": st.sampled_from([None, 0.0, 0.3, 0.6, 1.0]),
        "lexical.min_margin": st.sampled_from([0.0, 0.2]),
        "lexical.candidate_limit": st.integers(1, 6),
        "recall.candidate_limit": st.integers(1, 4),
        "recall.min_score": st.sampled_from([None, 0.0, 0.5]),
        "fusion.method": st.sampled_from(["interleave", "rrf", "weighted"]),
        "candidate_limit": st.integers(1, 6),
        "selection.min_confidence": st.sampled_from([0.0, 0.5, 0.95]),
        "selection.min_margin": st.sampled_from([0.0, 0.4]),
        "selection.min_write_confidence": st.sampled_from([0.0, 0.8]),
        "recall.max_catalog_tools": st.sampled_from([0, 5, 100]),
    },
)


@pytest.fixture(scope="module")
def routers(booking, booking_dev, booking_encoder):
    cases = booking_dev[:45]
    return [
        Router(booking),
        Router(booking, encoder=booking_encoder),
        Router(booking, model=SimulatedModel(cases, accuracy=0.7)),
    ], cases


@settings(max_examples=15)
@given(which=st.integers(0, 2), changes=CHANGES)
def test_stage_counts_always_add_up(routers, which, changes) -> None:
    """Under any settings and selector the losses are the wrong cases, each once, and so are the gains."""
    given_routers, cases = routers
    router = given_routers[which].with_settings(Settings().replace(changes))
    found = diagnose(evaluate(router, cases, progress=False, latency=False))
    assert [loss.row for loss in found.losses] == failed_rows(found.report)
    assert sum(stage_counts(found).values()) == len(found) == found.counts()["n"].sum()
    table = found.attribution
    assert list(table.index) == list(STAGES)
    assert (table["gain"] >= 0).all()
    assert (table["low"] <= table["gain"] + 1e-12).all()
    start = 1 - len(found) / len(found.report)
    assert np.isclose(start + table["gain"].sum(), table["right"].iloc[-1])
    fits = found.report.labels.n_expected <= router.settings.candidate_limit
    assert np.isclose(table["right"].iloc[-1], fits.mean())


# --- planted faults ------------------------------------------------------------------------------


def test_a_missing_hint_is_a_discovery_loss() -> None:
    """Words that no tool has: the advice is to add a hint or an example."""
    case = Case(id="1", message="anything tasty today", expected_tools=("menu",))
    (loss,) = lost(case, {}).losses
    assert (loss.stage, loss.cause) == ("discovery", "recall_off")
    assert "hints" in loss.advice
    few = {"recall.candidate_limit": 1, "candidate_limit": 1}
    (loss,) = lost(case, few, retriever=Near("cancel", "book")).losses
    assert (loss.stage, loss.cause) == ("discovery", "recall_miss")
    assert "hint" in loss.advice


def test_a_neighbour_with_the_same_words_is_named() -> None:
    """The pair, both descriptions and the words they share stand beside the loss."""
    case = Case(id="1", message="reserve the hall for my party", expected_tools=("party.small",))
    found = lost(case, {"selection.min_confidence": 0.0})
    (loss,) = found.losses
    assert (loss.stage, loss.cause, loss.got) == ("selection", "neighbour_tool", "party.large")
    assert "set the two descriptions apart" in loss.advice
    (pair,) = found.confusions()
    assert (pair.expected, pair.got, pair.n_cases) == ("party.small", "party.large", 1)
    assert pair.expected_description == "Reserve the room for a party"
    assert pair.got_description == "Reserve the hall for a party"
    assert pair.shared_words == ("party", "reserve")
    assert all(
        word in found._repr_html_() for word in ("Reserve the room", "Reserve the hall", "party, reserve")
    )


@pytest.mark.parametrize("gate", ["max_catalog_tools", "max_catalog_chars"])
def test_a_gate_set_too_low_is_named(gate) -> None:
    """Recall never ran because the catalog is over the gate: which gate, and that it can be raised."""
    model = by_purpose(recall={"candidates": ["menu"]}, selection=ToolCall(name="no_tool", arguments={}))
    case = Case(id="1", message="anything tasty today", expected_tools=("menu",))
    (loss,) = lost(case, {f"recall.{gate}": 3}, model=model).losses
    assert (loss.stage, loss.cause) == ("discovery", f"gate_{gate}")
    assert f"recall.{gate}: raise the gate" in loss.advice


def test_a_stage_that_was_too_sure_is_named() -> None:
    """A misleading hint made stage 1 confident, and recall was skipped."""
    model = by_purpose(recall={"candidates": ["menu"]}, selection=call("book"))
    case = Case(id="1", message="book a table", expected_tools=("zither",))
    (loss,) = lost(case, {"lexical.min_score": 0.5}, model=model).losses
    assert (loss.stage, loss.cause) == ("discovery", "skipped_confident")
    assert "raise lexical.min_score" in loss.advice


@pytest.mark.parametrize("limit", ["candidate_limit", "lexical.candidate_limit"])
def test_a_limit_of_one_is_named(limit) -> None:
    """The tool was found, second, and the limit cut it: the advice is to raise that limit."""
    case = Case(id="1", message="cancel my booking of a table", expected_tools=("book",))
    (loss,) = lost(case, {limit: 1}).losses
    assert (loss.stage, loss.cause) == ("discovery", f"limit_{limit}")
    assert limit in loss.advice
    assert "raise it" in loss.advice


@pytest.mark.parametrize("limit", ["candidate_limit", "ask_limit"])
def test_a_limit_of_recall_is_named(limit) -> None:
    """What the encoder found second is cut by recall's limit, and by nothing else."""
    case = Case(id="1", message="qqq www", expected_tools=("menu",))
    changes = {f"recall.{limit}": 1, "lexical.min_score": None}
    (loss,) = lost(case, changes, retriever=Near("cancel", "menu")).losses
    assert (loss.stage, loss.cause) == ("discovery", f"limit_recall.{limit}")


def test_what_recalls_bar_cut_is_named() -> None:
    """A hit below recall.min_score is lost to it."""
    model = by_purpose(recall={"candidates": ["cancel", "menu"]}, selection=call("cancel"))
    case = Case(id="1", message="qqq www", expected_tools=("menu",))
    (loss,) = lost(case, {"recall.min_score": 0.99}, model=model).losses
    assert (loss.stage, loss.cause) == ("discovery", "limit_recall.min_score")
    (loss,) = lost(case, {"recall.candidate_limit": 1}, model=model).losses
    assert (loss.stage, loss.cause) == ("discovery", "limit_recall.candidate_limit")


def test_a_date_without_context_is_told_from_a_value_that_was_not_found() -> None:
    """Only where a time to count from would have given the date is its absence the cause."""
    sure = {"selection.min_confidence": 0.0}
    told = {"expected_tools": ("remind",), "expected_arguments": {"date": "2026-03-11"}}
    (loss,) = lost(Case(id="1", message="remind me on a date tomorrow", **told), sure).losses
    assert (loss.stage, loss.cause) == ("extraction", "no_date_context")
    assert "date and time zone" in loss.advice
    (loss,) = lost(Case(id="1", message="remind me on a date", **told), sure).losses
    assert (loss.stage, loss.cause) == ("extraction", "missing")
    now = "2026-03-10T09:30:00+01:00[Europe/Madrid]"
    assert lost(Case(id="1", message="remind me on a date tomorrow", now=now, **told), sure).losses == ()
    (loss,) = lost(Case(id="1", message="remind me on a date in two days", now=now, **told), sure).losses
    assert (loss.stage, loss.cause) == ("extraction", "wrong_value")


@pytest.mark.parametrize(
    ("case", "changes", "cause"),
    [
        (Case(id="false", message="book a table", expected_tools=()), {}, "false_tool"),
        (
            Case(id="bar", message="what is on the menu", expected_tools=("menu",)),
            {"selection.min_confidence": 1.0},
            "low_confidence",
        ),
        (
            Case(id="mode", message="book a table", expected_tools=("book",), expected_mode="agent"),
            {},
            "wrong_mode",
        ),
    ],
    ids=lambda value: value.id if isinstance(value, Case) else None,
)
def test_faults_of_selection_are_named(case, changes, cause) -> None:
    """A fault that was planted is found at its stage, under its name."""
    assert [(x.stage, x.cause) for x in lost(case, changes).losses] == [("selection", cause)]


def test_execution_comes_last() -> None:
    """A right call whose service refuses the credential is lost at execution; perfect execution mends it."""
    case = Case(id="1", message="book a table", expected_tools=("book",))
    report = evaluate(Router(Catalog(TOOLS)), [case], progress=False, latency=False)
    assert diagnose(report).losses == ()
    refused = diagnose(report, executions={"1": Outcome(status="error", error="AUTH_REJECTED")})
    assert [(loss.stage, loss.cause) for loss in refused.losses] == [("execution", "auth")]
    assert refused.attribution["gain"].tolist() == [0.0, 0.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="executions must name cases of the report, got 'other'"):
        diagnose(report, executions={"other": Outcome(status="ok")})


# --- confusions and display ----------------------------------------------------------------------


def test_there_is_one_account_of_confusions(booking_diagnosis) -> None:
    """The pairs of tools are those of all confusions that have a tool on both sides."""
    report = booking_diagnosis.report
    every = confusions(report)
    assert sum(pair.n_cases for pair in every) == int((report.columns["tool_accuracy"] == 0).sum())
    assert list(booking_diagnosis.confusions(10_000)) == [pair for pair in every if pair.between_tools]
    neighbours = [x for x in booking_diagnosis.losses if x.cause == "neighbour_tool"]
    assert len(neighbours) <= sum(pair.n_cases for pair in every if pair.between_tools)


def test_it_shows_itself(booking_diagnosis) -> None:
    """The HTML names each cause, and is escaped."""
    text = booking_diagnosis._repr_html_()
    assert all(cause in text for cause in booking_diagnosis.counts()["cause"])
    assert "<script" not in text
