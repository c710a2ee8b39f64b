"""Metrics against their slow definitions, and the table of what counts as right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import by_purpose, call
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from mono_router.catalog import Catalog, wire_name
from mono_router.lab.evaluation import evaluate
from mono_router.lab.metrics import (
    MEANS,
    SPENT,
    argument_scores,
    aurc,
    auroc,
    date_score,
    ece,
    same_value,
)
from mono_router.models.scripted import ScriptedModel
from mono_router.records import Case, Memory, ModelReply, Tool, Usage
from mono_router.router import Router
from mono_router.settings import Settings

SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5, 0.75, 0.9, 1.0])
ROWS = st.lists(st.tuples(SCORES, st.booleans(), st.integers(0, 3)), min_size=1, max_size=20)


def columns(rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores, flags, weights = zip(*rows, strict=True)
    return np.array(scores), np.array(flags, dtype=bool), np.array(weights, dtype=float)


def repeated(rows) -> list[tuple[float, bool]]:
    """Rows as often as their weight says."""
    return [(s, f) for s, f, w in rows for _ in range(w)]


@given(ROWS)
def test_auroc(rows) -> None:
    """The area is the share of pairs in the right order, ties half, and that of scikit-learn."""
    found = auroc(*columns(rows))
    up = [s for s, f in repeated(rows) if f]
    down = [s for s, f in repeated(rows) if not f]
    if not up or not down:
        assert math.isnan(found)
        return
    pairs = sum((a > b) + (a == b) / 2 for a in up for b in down) / (len(up) * len(down))
    assert found == pytest.approx(pairs)
    scores, flags, weights = columns(rows)
    assert found == pytest.approx(roc_auc_score(flags, scores, sample_weight=weights))


@given(ROWS, st.integers(1, 15))
def test_ece(rows, n_bins: int) -> None:
    """Rows in order of confidence, cut into bins of equal weight: the weighted mean of the gaps."""
    scores, flags, _ = columns(rows)
    found = ece(scores, flags.astype(float), np.ones(len(rows)), n_bins)
    order = sorted(range(len(rows)), key=lambda i: scores[i])
    bins: dict[int, list[int]] = {}
    for place, i in enumerate(order):
        bins.setdefault(min(n_bins - 1, int((place + 0.5) / len(rows) * n_bins)), []).append(i)
    gap = sum(abs(sum(scores[i] - flags[i] for i in rows_)) for rows_ in bins.values()) / len(rows)
    assert found == pytest.approx(gap)
    assert 0 <= found <= 1


@given(ROWS)
def test_aurc(rows) -> None:
    """The mean, over rows in order of falling confidence, of the error rate so far; ties share their end."""
    found = aurc(*(columns(rows)[0], columns(rows)[1].astype(float), columns(rows)[2]))
    flat = repeated(rows)
    if not flat:
        assert math.isnan(found)
        return
    risks = []
    for score, _ in flat:
        reached = [right for s, right in flat if s >= score]
        risks.append(sum(not right for right in reached) / len(reached))
    assert found == pytest.approx(sum(risks) / len(risks))


@given(ROWS)
def test_weights_are_copies(rows) -> None:
    """A weight of three is three rows, for every metric of the whole that sorts."""
    scores, flags, weights = columns(rows)
    flat = repeated(rows)
    if flat:
        s, f = np.array([a for a, _ in flat]), np.array([b for _, b in flat])
        ones = np.ones(len(flat))
        for metric in (auroc, aurc):
            one, two = metric(scores, flags, weights), metric(s, f, ones)
            assert one == pytest.approx(two, nan_ok=True)


# --- what counts as right -----------------------------------------------------------------------

CATALOG = Catalog(
    [
        Tool(id="a", description="A", skill="s"),
        Tool(id="b", description="B", skill="s"),
        Tool(
            id="c", description="C", input_schema={"properties": {"x": {"type": "string"}}, "required": ["x"]}
        ),
    ]
)
EVERYTHING = {"recall.source": "model", "lexical.min_score": None, "selection.fallback_attempts": 0}


def measured(answer, case: Case, offered: str = "case", **changes):
    model = by_purpose(recall={"candidates": ["a", "b", "c"]}, selection=answer)
    settings = Settings().replace(EVERYTHING | {k.replace("__", "."): v for k, v in changes.items()})
    return evaluate(Router(CATALOG, model=model, settings=settings), [case], offered=offered, progress=False)


NONE = ModelReply(tool_calls=(call("no_tool"),), usage=Usage(model_calls=1))
TWO = ModelReply(tool_calls=(call("a", mode="agent"), call("b", mode="agent")))
TABLE = {
    # answer, expected tools, further fields of the case, settings, right?
    "right tool": (call("a"), ("a",), {}, {}, True),
    "wrong tool": (call("b"), ("a",), {}, {}, False),
    "asked for": (call("c"), ("c",), {}, {}, True),
    "right none": (NONE, (), {}, {}, True),
    "false tool": (call("a"), (), {}, {}, False),
    "false none": (NONE, ("a",), {}, {}, False),
    "two of two": (TWO, ("a", "b"), {}, {}, True),
    "two of two, other order": (TWO, ("b", "a"), {}, {}, True),
    "one of two": (call("a"), ("a", "b"), {}, {}, False),
    "two for one": (TWO, ("a",), {}, {}, False),
    "rejected on a tool case": (call("ghost"), ("a",), {}, {}, False),
    "rejected on a no-tool case": (call("ghost"), (), {}, {}, False),
    "error on a no-tool case": ({"oops": 1}, (), {}, {}, False),
    "ambiguous with the right one": (
        call("a", confidence=0.5),
        ("a",),
        {},
        {"selection__min_margin": 0.9},
        True,
    ),
    "ambiguous on a no-tool case": (call("a", confidence=0.5), (), {}, {"selection__min_margin": 0.9}, False),
    "under the bar, rightly": (call("a", confidence=0.3), (), {}, {"selection__min_confidence": 0.5}, True),
}


@pytest.mark.parametrize("name", TABLE)
def test_tool_accuracy(name: str) -> None:
    """A decision is right exactly where the table says so."""
    answer, expected, fields, changes, right = TABLE[name]
    report = measured(answer, Case(id="1", message="hi", expected_tools=expected, **fields), **changes)
    assert report.metric("tool_accuracy").value == right


def test_a_failing_model_is_wrong() -> None:
    """An error of the model is wrong, on a no-tool case too."""
    from mono_router.records import ModelError

    for expected in ((), ("a",)):
        case = Case(id="1", message="hi", expected_tools=expected)
        report = measured(ModelError("MODEL_TIMEOUT", "slow"), case)
        assert report.frame["outcome"].tolist() == ["error"]
        assert report.metric("tool_accuracy").value == 0


def test_acceptable_tools_count_over_the_whole_catalog() -> None:
    """Another definition of the same function is right where the whole catalog is offered, there alone."""
    case = Case(
        id="1", message="hi", expected_tools=("a",), acceptable_tools=("b",), candidate_tools=("a", "b")
    )
    assert measured(call("b"), case, "case").metric("tool_accuracy").value == 0
    assert measured(call("b"), case, "catalog").metric("tool_accuracy").value == 1


def test_offered_catalog_drops_what_it_cannot_judge() -> None:
    """A no-tool label that holds within its candidates alone does not count over the whole catalog."""
    cases = [
        Case(id="1", message="hi", expected_tools=(), candidate_tools=("b",)),
        Case(id="2", message="a", expected_tools=("a",)),
    ]
    router = Router(CATALOG)
    report = evaluate(router, cases, offered="catalog", progress=False)
    assert (len(report), report.n_dropped) == (1, 1)
    with pytest.raises(ValueError, match="offered must be 'case' or 'catalog'"):
        evaluate(router, cases, offered="all")


def test_rates() -> None:
    """Each rate counts its own kind of case alone."""
    answers = {"right": call("a"), "missed": NONE, "false": call("b"), "none": NONE}
    cases = [
        Case(id=k, message=k, expected_tools=("a",) if k in ("right", "missed") else ()) for k in answers
    ]

    def rule(request):
        from mono_router.prompting import message_of

        return {"candidates": ["a", "b"]} if request.purpose == "recall" else answers[message_of(request)]

    router = Router(CATALOG, model=ScriptedModel(rule), settings=Settings().replace(EVERYTHING))
    report = evaluate(router, cases, progress=False)
    values = {name: report.metric(name).value for name in report.metrics}
    assert values["tool_accuracy"] == 0.5
    assert values["no_tool_precision"] == 0.5
    assert values["no_tool_recall"] == 0.5
    assert values["false_tool_rate"] == 0.5
    assert values["missed_tool_rate"] == 0.5
    assert values["model_recall_calls"] == 1.0
    assert values["model_calls"] == 2.0
    assert values["recall_rate"] == 1.0
    assert report.metric("missed_tool_rate").n == 2


def test_recall_at_k() -> None:
    """The share of expected tools in the first k of the fused list, before the candidate limit."""
    case = Case(id="1", message="hi", expected_tools=("a", "c"))
    report = measured(NONE, case, candidate_limit=1)
    values = {k: report.metric(f"recall_at_{k}").value for k in (1, 3, 5)}
    assert values == {1: 0.5, 3: 1.0, 5: 1.0}
    assert report.metric("candidate_recall").value == 0.5


def test_arguments_mode_and_skills() -> None:
    """Arguments count where the tool is right, modes and skills where a case states them."""
    case = Case(
        id="1",
        message="hi",
        expected_tools=("c",),
        expected_arguments={"x": "New York"},
        expected_mode="agent",
        expected_skills=("c",),
    )
    report = measured(call("c", {"x": "new york!"}, mode="agent"), case)
    for name in ("argument_accuracy", "argument_exact", "mode_accuracy", "skill_f1"):
        assert report.metric(name).value == 1.0
    wrong = measured(call("a"), case)
    assert wrong.metric("argument_accuracy").n == 0
    assert wrong.metric("mode_accuracy").value == 0.0
    asked = Case(id="1", message="hi", expected_tools=("c",), missing_arguments=("x",))
    assert measured(call("c"), asked).metric("ask_accuracy").value == 1.0
    assert measured(call("c", {"x": "1"}), asked).metric("ask_accuracy").value == 0.0
    assert measured(call("c", {"x": 3}), asked).metric("schema_failures").value == 1.0


@pytest.mark.parametrize(
    ("expected", "given_", "score"),
    [
        ({"day": "2026-03-11", "at": "17:00"}, {"day": "2026-03-11", "at": "05:00"}, 0.5),
        ({"day": "2026-03-11", "who": "Ana"}, {"day": "2026-03-11"}, 1.0),
        ({"day": "2026-03-11"}, {"who": "Ana"}, 0.0),
        ({"until": "2026-03-11"}, {}, math.nan),
        ({"days": ["2026-03-11"]}, {"days": ["2026-03-11"]}, 1.0),
        ({"host_day": "2026-03-11", "who": "Ana"}, {"who": "Ana"}, math.nan),
    ],
    ids=["half", "other arguments", "not read", "optional", "a list", "the host's"],
)
def test_date_score(expected, given_, score) -> None:
    """Dates and times alone count, by the format that the schema declares."""
    properties = {
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "time"},
        "until": {"type": "string", "format": "date-time"},
        "days": {"type": "array", "items": {"type": "string", "format": "date"}},
        "host_day": {"type": "string", "format": "date"},
        "who": {"type": "string"},
    }
    tool = Tool(id="t", input_schema={"properties": properties}, system_arguments=("host_day",))
    case = Case(
        id="1",
        message="m",
        expected_tools=("t",),
        expected_arguments=expected,
        optional_arguments=("until",),
    )
    assert date_score(case, given_, tool) == pytest.approx(score, nan_ok=True)


@pytest.mark.parametrize(
    ("expected", "given_", "optional", "scores"),
    [
        ({"a": 1, "b": "x"}, {"a": 1, "b": "X."}, (), (1.0, 1.0)),
        ({"a": 1, "b": "x"}, {"a": 1}, (), (0.5, 0.0)),
        ({"a": 1, "b": "x"}, {"a": 1}, ("b",), (1.0, 1.0)),
        ({"a": 1}, {"a": 1, "z": 2}, (), (1.0, 0.0)),
        ({}, {}, (), (math.nan, 1.0)),
        ({"password": "p", "a": 1}, {"a": 1}, (), (1.0, 1.0)),
        ({"a": "later"}, {"a": "soon"}, (), (1.0, 1.0)),
    ],
    ids=["lenient", "missing", "optional", "surplus", "none", "sensitive", "alternative"],
)
def test_argument_scores(expected, given_, optional, scores) -> None:
    """Shares of right arguments: optional ones may be left out, sensitive ones do not count."""
    case = Case(
        id="1", message="m", expected_tools=("t",), expected_arguments=expected, optional_arguments=optional,
        argument_alternatives={"a": ["soon"]} if expected.get("a") == "later" else {},
    )  # fmt: skip
    assert argument_scores(case, given_) == pytest.approx(scores, nan_ok=True)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("New York,", "new  york", True),
        (5, "5.0", True),
        ("٣", 3, True),
        ("３", "3", True),
        (True, 1, False),
        (True, True, True),
        (["a", "B"], ["A", "b"], True),
        (["a"], "a", True),
        (["a", "b"], "a", False),
        ({"x": 1}, {"x": "1"}, True),
        ({"x": 1}, {"y": 1}, False),
        ("a", "b", False),
        (None, "none", True),
    ],
)
def test_same_value(one, two, same: bool) -> None:
    """Values are the same but for case, spaces, punctuation and the script of digits; truth is no number."""
    assert same_value(one, two) is same
    assert same_value(two, one) is same


def test_every_mean_metric_has_a_meaning() -> None:
    """No metric is without a line that says what it counts."""
    assert all(meaning for _, meaning in MEANS)
    assert len({name for name, _ in MEANS}) == len(MEANS)


def test_evaluation_refuses() -> None:
    """No cases, an unknown tool, and a case that the selector learned from are refused by name."""
    router = Router(CATALOG)
    with pytest.raises(ValueError, match="at least one case"):
        evaluate(router, [])
    with pytest.raises(ValueError, match=r"1: unknown tool 'z' \(and 1 more\)"):
        evaluate(router, [Case(id=str(i), message="x", expected_tools=("z",)) for i in (1, 2)])
    case = Case(id="seen", message="a", expected_tools=("a",))
    from mono_router.local import LocalSelector

    fitted = Router(CATALOG, selector=LocalSelector(CATALOG, cases=[case]))
    with pytest.raises(ValueError, match="LocalSelector was fitted on case seen"):
        evaluate(fitted, [case])
    with pytest.raises(ValueError, match="unknown metric 'accuracy'"):
        evaluate(router, [case], progress=False).metric("accuracy")
    with pytest.raises(ValueError, match="slice must be"):
        evaluate(router, [case], progress=False).by("colour")
    with pytest.raises(KeyError, match="unknown case 'x'"):
        evaluate(router, [case], progress=False).verdict("x")


def test_slices(booking_router, booking_dev) -> None:
    """Slices by language, tag, tool and mode add up to what they slice."""
    report = evaluate(booking_router, booking_dev[:80], progress=False, latency=False)
    by = report.by("language", ["tool_accuracy"])
    assert by["n"].sum() == 80
    weighted = (by["value"] * by["n"]).sum() / 80
    assert weighted == pytest.approx(report.metric("tool_accuracy").value)
    assert set(report.by("tag").index.get_level_values(0)) == {t for c in booking_dev[:80] for t in c.tags}
    assert len(report.by("tool"))
    assert len(report.by("mode"))
    assert report.frame.shape[0] == 80
    summary = report.summary()
    assert {"value", "low", "high", "n", "n_groups"} <= set(summary.columns)
    assert (summary["low"].dropna() <= summary["value"][summary["low"].notna()] + 1e-9).all()


def test_memory_is_given(booking_router) -> None:
    """Evaluation is teacher-forced: a case brings its own memory."""
    from mono_router.records import PastCall

    memory = Memory(turn=1, pending=PastCall(tool="booking.create"))
    case = Case(id="1", message="friday", expected_tools=("booking.create",), memory=memory)
    report = evaluate(booking_router, [case], progress=False)
    assert report.verdict("1").candidates[0].tool == "booking.create"
    assert wire_name("a") == "a"


def test_spending_per_message(catalog: Catalog) -> None:
    """Calls, tokens of each kind and dollars are those of the calls that a message took, per message."""
    spent = Usage(
        model_calls=1, input_tokens=7, cache_write_tokens=2, cache_read_tokens=30, output_tokens=5,
        cost_usd=0.25,
    )  # fmt: skip
    recall = ModelReply(text='{"candidates": ["clock.now"]}', usage=spent)
    chosen = ModelReply(tool_calls=(call("no_tool"),), usage=spent + Usage(cost_usd=0.5))
    model = ScriptedModel(lambda request: recall if request.purpose == "recall" else chosen)
    cases = [
        Case(id="a", message="umbrella", expected_tools=()),
        Case(id="b", message="zzz", expected_tools=()),
    ]
    router = Router(catalog, model=model, settings=Settings().replace({"lexical.min_score": 0.0}))
    report = evaluate(router, cases, progress=False)
    assert [int(n) for n in report.frame["model_calls"]] == [1, 2]
    assert list(report.frame["cost_usd"]) == [0.75, 1.0]
    means = {name: report.metric(name).value for name in SPENT}
    assert means == {
        "model_calls": 1.5, "input_tokens": 10.5, "cache_write_tokens": 3.0, "cache_read_tokens": 45.0,
        "output_tokens": 7.5, "cost_usd": 0.875,
    }  # fmt: skip
    assert list(report.summary(SPENT)["n"]) == [2] * len(SPENT)
