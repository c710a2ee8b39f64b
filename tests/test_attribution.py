"""Oracle attribution is exact: a router whose stage is perfect scores what attribution says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import mono_router as mr
from mono_router.lab.attribution import perfect_shortlists, with_expected
from mono_router.lab.losses import loss_of
from mono_router.records import Answer, Call

CHANGES = {"candidate_limit": 2, "lexical.candidate_limit": 2, "recall.candidate_limit": 1}
# Behind a shortlist that is given, discovery may cut nothing.
OPEN = {"lexical.min_score": None, "recall.candidate_limit": 200, "recall.ask_limit": 200}


@pytest.fixture(scope="module", params=["booking", "assistant"])
def report(request):
    catalog = mr.Catalog.load(f"datasets/{request.param}")
    cases = mr.load_cases(f"datasets/{request.param}", split="dev")[:150]
    router = mr.Router(catalog, settings=mr.Settings().replace(CHANGES), encoder=mr.LightEncoder())
    return mr.evaluate(router, cases, progress=False, latency=False)


def shortlisted(report):
    """The cases, each offered the candidates of a perfect discovery and no other tool."""
    names = perfect_shortlists(report, range(len(report)))
    return [
        dataclasses.replace(case, candidate_tools=tuple(tools))
        for case, tools in zip(report.cases, names, strict=True)
    ]


def share_right(router, cases):
    """The share of cases that nothing is wrong with, evaluated anew."""
    report = mr.evaluate(router, cases, progress=False, latency=False)
    lost = [loss_of(report, i, report.verdicts.verdict(i)) for i in range(len(report))]
    return 1 - sum(loss is not None for loss in lost) / len(report)


class PerfectSelector:
    """Chooses the right tools of known cases in the right mode, where it is shown them."""

    def __init__(self, report, arguments=None):
        self.cases = {case.message: case for case in report.cases}
        self.catalog = report.router.catalog
        self.fill = report.router.selector.fill
        self.perfect_arguments = arguments

    def select(self, query, shortlist):
        case = self.cases[query.message]
        right = [self.catalog.kept_id(tool) for tool in case.expected_tools]
        if not set(right) <= {tool.id for tool in shortlist}:
            return Answer(confidence=0.0)
        mode, missing, arguments = case.expected_mode, (), {}
        if len(right) == 1:
            filled = self.fill(query, self.catalog[right[0]])
            mode = case.expected_mode or filled.mode
            arguments, missing = filled.arguments, filled.missing
            if self.perfect_arguments:
                arguments = case.expected_arguments or {}
                missing = tuple(f"/{name}" for name in case.missing_arguments or ())
        calls = tuple(Call(tool=tool, arguments=arguments) for tool in right)
        return Answer(calls=calls, mode=mode if calls else None, missing=missing if calls else ())


def test_perfect_discovery_gains_what_is_stated(report) -> None:
    """The same selector among the perfect shortlists, evaluated anew, is right as often as stated."""
    found = mr.diagnose(report).attribution
    router = report.router.with_settings(mr.Settings().replace({**CHANGES, **OPEN}))
    again = share_right(router, shortlisted(report))
    assert again == pytest.approx(found.loc["discovery", "right"], abs=1e-12)
    before = 1 - len(mr.diagnose(report)) / len(report)
    assert again - before == pytest.approx(found.loc["discovery", "gain"], abs=1e-12)
    assert sum(loss.stage == "discovery" for loss in mr.diagnose(report).losses) > 5


@pytest.mark.parametrize(("stage", "arguments"), [("selection", False), ("extraction", True)])
def test_perfect_selection_and_extraction_gain_what_is_stated(report, stage, arguments) -> None:
    """A selector that knows the labels, behind perfect discovery, is right as often as stated."""
    found = mr.diagnose(report).attribution
    selector = PerfectSelector(report, arguments=arguments)
    settings = mr.Settings().replace({**CHANGES, **OPEN})
    router = mr.Router(
        report.router.catalog, settings=settings, retriever=report.router.retriever, selector=selector
    )
    again = share_right(router, shortlisted(report))
    assert again == pytest.approx(found.loc[stage, "right"], abs=1e-12)


def test_gains_are_paired_over_groups(report) -> None:
    """The interval is that of the mean of the paired change, over groups."""
    found = mr.diagnose(report).attribution
    assert (found["low"] <= found["gain"] + 1e-12).all()
    assert (found["gain"] <= found["high"]).all()
    assert (found["n"] == len(report)).all()
    assert (found["unrecorded"] == 0).all()
    np.testing.assert_allclose(found["at_most"], found["gain"])


def test_what_a_model_alone_could_tell_is_not_counted_as_gained(booking, booking_dev) -> None:
    """Nothing is asked: cases whose new shortlist was never answered are counted, and bound the gain."""
    cases = booking_dev[:60]
    asked = []
    model = mr.SimulatedModel(cases, accuracy=0.6)
    counted = mr.ScriptedModel(lambda request: asked.append(1) or model.complete(request))
    router = mr.Router(booking, model=counted, settings=mr.Settings().replace({"candidate_limit": 2}))
    report = mr.evaluate(router, cases, progress=False)
    before = len(asked)
    diagnosis = mr.diagnose(report)
    found = diagnosis.attribution
    assert len(asked) == before
    n_discovery = sum(loss.stage == "discovery" for loss in diagnosis.losses)
    assert found.loc["discovery", "unrecorded"] == n_discovery > 0
    assert found.loc["discovery", "gain"] == 0
    assert found.loc["discovery", "at_most"] == pytest.approx(n_discovery / len(report))
    assert found["right"].iloc[-1] == 1.0


def test_an_expected_tool_is_never_replaced() -> None:
    """The lowest of the others go, whatever stands where."""
    assert with_expected(["x", "y", "a"], ["a", "b"], 3) == ["x", "a", "b"]
    assert with_expected(["a", "b"], ["a", "b"], 1) == ["a"]
    assert with_expected([], ["a"], 3) == ["a"]
