"""The probe of order bias: it finds a planted one, and none where there is none."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.catalog import NO_TOOL
from mono_router.lab.order_bias import order_bias, position_table, uniform_p_value
from mono_router.models.recorded import RecordedModel
from mono_router.models.scripted import ScriptedModel
from mono_router.models.simulated import SimulatedModel
from mono_router.records import ModelReply, ModelRequest, ToolCall
from mono_router.router import Router


def biased(cases, share: float) -> ScriptedModel:
    """The simulated model, but for a share of selections in which it takes the first tool that is shown."""
    simulated, draws = SimulatedModel(cases), random.Random(0)

    def rule(request: ModelRequest) -> ModelReply:
        if request.purpose != "selection" or draws.random() >= share:
            return simulated.complete(request)
        first = next(tool.name for tool in request.tools if tool.name != NO_TOOL)
        arguments = {"mode": "tool", "confidence": 0.9, "arguments": {}}
        return ModelReply(tool_calls=(ToolCall(name=first, arguments=arguments),))

    return ScriptedModel(rule)


@pytest.fixture(scope="module")
def cases(booking_dev):
    return [case for case in booking_dev if case.expected_tools][:60]


def test_a_planted_bias_is_found(booking, cases) -> None:
    """A model that takes the first tool in 3 of 10 shortlists is found out, where and how far."""
    found = order_bias(Router(booking, model=biased(cases, 0.3)), cases, progress=False)
    assert found.p_value < 0.001
    first = found.positions.loc[1]
    assert first["low"] > first["uniform"]
    assert first["share"] == pytest.approx(0.3 + 0.7 * first["uniform"], abs=0.1)
    assert found.changed.low > 0.1
    assert found.ever_changed.value >= found.changed.value
    assert found.n_requests == 4 * found.n_cases
    assert "permuted shortlists" in found._repr_html_()


def test_without_a_bias_nothing_is_found(booking, cases) -> None:
    """The simulated model does not look at the order: no choice changes, places are uniform."""
    found = order_bias(Router(booking, model=SimulatedModel(cases)), cases, progress=False)
    assert found.changed.value == found.ever_changed.value == 0.0
    assert found.p_value > 0.05
    assert (found.positions["low"] <= found.positions["uniform"] + 0.01).all()
    assert (found.positions["uniform"] <= found.positions["high"] + 0.01).all()
    assert found.simulated
    assert "simulated" in found._repr_html_()


def test_same_seed_same_orders(booking, cases) -> None:
    """Orders come from the seed, whatever the number of threads."""
    one, two = (
        order_bias(Router(booking, model=SimulatedModel(cases)), cases[:20], jobs=jobs, seed=3)
        for jobs in (1, 4)
    )
    assert one.positions.equals(two.positions)
    other = order_bias(Router(booking, model=SimulatedModel(cases)), cases[:20], seed=4)
    assert not one.positions.equals(other.positions)


def test_a_recording_has_its_gaps(booking, cases, tmp_path) -> None:
    """Orders that were never recorded are counted, and count for nothing."""
    model = RecordedModel(tmp_path / "answers.jsonl", SimulatedModel(cases))
    order_bias(Router(booking, model=model), cases[:8], permutations=1, progress=False)
    replay = Router(booking, model=RecordedModel(tmp_path / "answers.jsonl"))
    found = order_bias(replay, cases[:8], permutations=2, progress=False)
    assert found.n_requests + found.n_unrecorded == 2 * found.n_cases
    assert found.n_requests >= found.n_cases > 0


def test_failures_are_counted(booking, cases) -> None:
    """An answer that breaks a rule is no choice."""

    def rule(request: ModelRequest) -> ModelReply:
        if request.purpose == "recall":
            return SimulatedModel(cases).complete(request)
        call = ToolCall(name="no_such_tool", arguments={"mode": "tool", "confidence": 1, "arguments": {}})
        return ModelReply(tool_calls=(call,))

    found = order_bias(Router(booking, model=ScriptedModel(rule)), cases[:5], progress=False)
    assert found.n_failed == found.n_requests > 0
    assert (found.p_value, found.changed.n, len(found.positions)) == (1.0, 0, 0)


def test_refused(booking, booking_router, cases) -> None:
    """A selector that scores sees no order; no order is no probe."""
    with pytest.raises(ValueError, match="LocalSelector scores every tool: it sees no order"):
        order_bias(booking_router, cases)
    with pytest.raises(ValueError, match="permutations must be >= 1, got 0"):
        order_bias(Router(booking, model=SimulatedModel(cases)), cases, permutations=0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(2, 4)), min_size=1, max_size=30))
def test_the_table_is_its_definition(rows) -> None:
    """At each place, the share of choices among lists that are so long; chance is one over the length."""
    at, sizes = np.array([min(p, n - 1) for p, n in rows]), np.array([n for _, n in rows])
    table = position_table(at, sizes, np.array([str(i) for i in range(len(rows))], dtype=object))
    for place in range(1, max(sizes) + 1):
        there = [(p, n) for p, n in zip(at, sizes, strict=True) if n >= place]
        row = table.loc[place]
        assert row["n"] == len(there)
        assert row["share"] == pytest.approx(sum(p == place - 1 for p, _ in there) / len(there))
        assert row["uniform"] == pytest.approx(sum(1 / n for _, n in there) / len(there))


def test_the_p_value_is_exact() -> None:
    """For few lists of two, the drawn null gives the binomial test's p-value."""
    for n_first, n in ((9, 10), (6, 10), (12, 12)):
        at = np.array([0] * n_first + [1] * (n - n_first))
        mass = [math.comb(n, k) / 2**n for k in range(n + 1)]
        exact = sum(m for k, m in enumerate(mass) if abs(k - n / 2) >= abs(n_first - n / 2) - 1e-9)
        assert uniform_p_value(at, np.full(n, 2)) == pytest.approx(exact, abs=0.02)
