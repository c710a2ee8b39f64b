"""Per-case metrics and their aggregates: verdicts and labels in, columns out.

Rows come first and aggregates are derived from them. Every mean metric is one float column with NaN
where a case does not count for it; metrics of the whole (AUROC, ECE, AURC) read two columns. The same
functions serve evaluation and sweeps.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mono_router.branches import CODES
from mono_router.catalog import Catalog
from mono_router.decision_table import UNRECORDED, Verdicts
from mono_router.records import Case, Tool
from mono_router.schema import is_sensitive, pointer

RECALL_AT = (1, 3, 5, 10)
MEANS: tuple[tuple[str, str], ...] = (
    ("tool_accuracy", "right tools, or rightly none"),
    ("top1_hit", "first of the ranking is right (tool cases, no threshold)"),
    ("recall_at_1", "share of expected tools first in the fused list"),
    ("recall_at_3", "share of expected tools in the first 3"),
    ("recall_at_5", "share of expected tools in the first 5"),
    ("recall_at_10", "share of expected tools in the first 10"),
    ("candidate_recall", "share of expected tools among the candidates"),
    ("no_tool_precision", "rightly none, of all that were given none"),
    ("no_tool_recall", "given none, of all that need none"),
    ("false_tool_rate", "call or ask where no tool is right"),
    ("missed_tool_rate", "none given where a tool is right"),
    ("skill_f1", "F1 of the named skills"),
    ("mode_accuracy", "right execution mode"),
    ("argument_accuracy", "share of expected arguments right, where the tool is"),
    ("date_accuracy", "share of expected dates and times right, where the tool is"),
    ("argument_exact", "all arguments right and none more, where the tool is"),
    ("ask_accuracy", "asks for what is missing"),
    ("schema_failures", "answers that broke a schema, per message"),
    ("brier", "squared error of the confidence"),
    ("recall_rate", "messages for which stage 2 ran"),
    ("model_recall_calls", "model recall calls per message"),
    ("model_calls", "model calls per message"),
    ("input_tokens", "input tokens per message, neither read from nor written to a prompt cache"),
    ("cache_write_tokens", "input tokens per message that were written to the prompt cache"),
    ("cache_read_tokens", "input tokens per message that were read from the prompt cache"),
    ("output_tokens", "output tokens per message, thinking included"),
    ("cost_usd", "US dollars per message, at the prices of the day it was asked"),
)
"""Mean metrics in table order, with their meaning."""
SPENT = (
    "model_calls",
    "input_tokens",
    "cache_write_tokens",
    "cache_read_tokens",
    "output_tokens",
    "cost_usd",
)
"""Mean metrics that are fields of :class:`~mono_router.records.Usage`."""
COUNTS = frozenset({*SPENT, "brier"})
"""Mean metrics that are amounts, not shares of cases."""
AGREEMENT = (
    ("agreement", "every asking decided the same tools"),
    ("pairwise_agreement", "share of pairs of askings that decided the same tools"),
)
"""Mean metrics of a report with several askings per case, with their meaning."""
WHOLE = ("no_tool_auroc", "ece", "aurc")


@dataclass(frozen=True)
class Labels:
    """The labels of n cases as arrays over a catalog's tool numbers (-1 = nothing)."""

    cases: tuple[Case, ...]
    expected: NDArray[np.int32]
    """(n, most expected tools)"""
    acceptable: NDArray[np.int32]
    n_expected: NDArray[np.int64]
    whole: NDArray[np.bool_]
    """Whether the whole catalog is offered: acceptable tools count then."""
    groups: NDArray[np.object_]

    def take(self, rows: NDArray[np.intp]) -> Labels:
        """Return the labels of some cases, by their places."""
        return Labels(
            cases=tuple(self.cases[i] for i in rows.tolist()),
            expected=self.expected[rows],
            acceptable=self.acceptable[rows],
            n_expected=self.n_expected[rows],
            whole=self.whole[rows],
            groups=self.groups[rows],
        )

    @property
    def accepted(self) -> NDArray[np.int32]:
        """Tools that count as right (n, k): the expected ones, and the acceptable where all are offered."""
        acceptable = np.where(self.whole[:, None], self.acceptable, -1)
        return np.concatenate([self.expected, acceptable], axis=1).astype(np.int32)

    @property
    def wants_tool(self) -> NDArray[np.bool_]:
        """Whether some tool is right."""
        return self.n_expected > 0


def labels_of(cases: Sequence[Case], catalog: Catalog, offered: str) -> Labels:
    """Return the labels of cases, ids of merged definitions read as what stands for them.

    Raises
    ------
    ValueError
        If a case names a tool that the catalog does not have.
    """
    expected: list[list[int]] = []
    acceptable: list[list[int]] = []
    unknown: list[str] = []
    for case in cases:
        rows: list[list[int]] = []
        for tools in (case.expected_tools, case.acceptable_tools):
            named = dict.fromkeys(catalog.kept_id(t) for t in tools)
            unknown.extend(f"{case.id}: unknown tool {t!r}" for t in named if t not in catalog.position)
            rows.append([catalog.position.get(t, -1) for t in named])
        expected.append(rows[0])
        acceptable.append([t for t in rows[1] if t not in rows[0]])
    if unknown:
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        raise ValueError(unknown[0] + more)
    whole = np.array([offered == "catalog" or case.candidate_tools is None for case in cases], dtype=bool)
    return Labels(
        cases=tuple(cases),
        expected=_padded(expected),
        acceptable=_padded(acceptable),
        n_expected=np.array([len(row) for row in expected], dtype=np.int64),
        whole=whole,
        groups=np.array([case.group for case in cases], dtype=object),
    )


def _padded(rows: list[list[int]]) -> NDArray[np.int32]:
    width = max([1, *(len(row) for row in rows)])
    array = np.full((len(rows), width), -1, dtype=np.int32)
    for i, row in enumerate(rows):
        array[i, : len(row)] = row
    return array


def among(tools: NDArray[np.int32], accepted: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether each tool (n, k) is in its row's list (n, m); -1 never is."""
    same = (tools[:, :, None] == accepted[:, None, :]) & (tools >= 0)[:, :, None]
    found: NDArray[np.bool_] = np.any(same, axis=2)
    return found


def case_columns(
    verdicts: Verdicts, labels: Labels, *, arguments: bool = True
) -> dict[str, NDArray[np.float64]]:
    """Return the mean metrics' columns, float64 (n,), NaN where a case does not count.

    Unrecorded cases are NaN everywhere: nothing is known of them.
    """
    outcome, wants = verdicts.outcome, labels.wants_tool
    accepted = labels.accepted
    known = outcome != UNRECORDED
    none = outcome == CODES["no_tool"]
    called = (outcome == CODES["call"]) | (outcome == CODES["ask"])
    correct = correctness(verdicts, labels, accepted)
    columns: dict[str, NDArray[np.float64]] = {"tool_accuracy": correct.astype(np.float64)}
    hit = among(verdicts.ranked[:, :1], accepted)[:, 0]
    columns["top1_hit"] = np.where(wants, hit, np.nan)
    for k in RECALL_AT:
        columns[f"recall_at_{k}"] = recall_share(verdicts.fused[:, :k], labels, accepted)
    columns["candidate_recall"] = recall_share(verdicts.candidates, labels, accepted)
    columns["no_tool_precision"] = np.where(none, ~wants, np.nan)
    columns["no_tool_recall"] = np.where(~wants, none, np.nan)
    columns["false_tool_rate"] = np.where(~wants, called, np.nan)
    columns["missed_tool_rate"] = np.where(wants, none, np.nan)
    columns["brier"] = (verdicts.confidence - correct) ** 2
    columns["recall_rate"] = verdicts.recalled.astype(np.float64)
    columns["model_recall_calls"] = verdicts.recall_asked.astype(np.float64)
    usages = [verdicts.usage(i) for i in range(len(verdicts))] if verdicts.decided is not None else None
    for name in SPENT:
        spent = (
            np.zeros(len(verdicts)) if usages is None else np.array([getattr(u, name) for u in usages], float)
        )
        columns[name] = spent
    rejected = outcome == CODES["rejected"]
    failures = np.zeros(len(verdicts))
    for i in np.flatnonzero(rejected).tolist():
        decision = verdicts.verdict(i).decision
        failures[i] = decision is not None and any(r.code == "ARGUMENT_SCHEMA" for r in decision.rejections)
    columns["schema_failures"] = failures
    if arguments:
        columns.update(_label_columns(verdicts, labels, called, correct))
    return {name: np.where(known, column, np.nan).astype(np.float64) for name, column in columns.items()}


def correctness(
    verdicts: Verdicts, labels: Labels, accepted: NDArray[np.int32] | None = None
) -> NDArray[np.bool_]:
    """Return whether each decision is right, as tool_accuracy counts it."""
    accepted = labels.accepted if accepted is None else accepted
    outcome, wants = verdicts.outcome, labels.wants_tool
    called = (outcome == CODES["call"]) | (outcome == CODES["ask"])
    right: NDArray[np.bool_] = ~wants & (outcome == CODES["no_tool"])
    one = among(verdicts.tool[:, None], accepted)[:, 0]
    right |= called & (labels.n_expected == 1) & one
    if verdicts.decided is None:
        rows = [i for i in verdicts.joint if called[i] and wants[i]]
        right[rows] = False
    else:
        rows = np.flatnonzero(called & wants).tolist()
    for i in rows:
        ids = verdicts.table.ids
        names = {ids[t] for t in accepted[i].tolist() if t >= 0}
        tools = set(verdicts.called(i))
        right[i] = tools <= names and len(tools) == labels.n_expected[i]
    shown = among(verdicts.ranked[:, :2], accepted).any(axis=1)
    right |= (outcome == CODES["ambiguous"]) & wants & shown
    return right


def agreement_columns(askings: Sequence[Verdicts]) -> dict[str, NDArray[np.float64]]:
    """Return how far several askings of each case decided the same tools, float64 (n,) a column.

    No tool is a decision too, an ambiguous pair is its two tools, a rejected answer is like every other
    rejected one. NaN where an asking failed or was not recorded: nothing is known of what it would say.
    """
    found = np.full((len(AGREEMENT), len(askings[0])), np.nan)
    for i in range(found.shape[1]):
        decided = [_decided_tools(verdicts, i) for verdicts in askings]
        if None in decided:
            continue
        pairs = [one == two for one, two in itertools.combinations(decided, 2)]
        found[:, i] = all(pairs), np.mean(pairs)
    return {name: column for (name, _), column in zip(AGREEMENT, found, strict=True)}


def _decided_tools(verdicts: Verdicts, i: int) -> tuple[str, frozenset[str]] | None:
    code = int(verdicts.outcome[i])
    if code in (UNRECORDED, CODES["error"]):
        return None
    if code == CODES["ambiguous"]:
        return "", frozenset(verdicts.table.ids[t] for t in verdicts.ranked[i, :2].tolist() if t >= 0)
    return "rejected" if code == CODES["rejected"] else "", frozenset(verdicts.called(i))


def recall_share(
    tools: NDArray[np.int32], labels: Labels, accepted: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Return the share of expected tools (n,) among the given ones (n, k), NaN where no tool is expected."""
    found = among(tools, accepted).sum(axis=1)
    share = np.minimum(1.0, found / np.maximum(1, labels.n_expected))
    return np.where(labels.wants_tool, share, np.nan)


def _label_columns(
    verdicts: Verdicts, labels: Labels, called: NDArray[np.bool_], correct: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    n = len(verdicts)
    names = (
        "skill_f1",
        "mode_accuracy",
        "argument_accuracy",
        "date_accuracy",
        "argument_exact",
        "ask_accuracy",
    )
    columns = {name: np.full(n, np.nan) for name in names}
    table = verdicts.table
    for i, case in enumerate(labels.cases):
        if verdicts.outcome[i] == UNRECORDED:
            continue
        asked = case.missing_arguments is not None
        args = case.expected_arguments is not None and len(case.expected_tools) == 1
        if not (asked or args or case.expected_mode or case.expected_skills is not None):
            continue
        decision = None
        if verdicts.decided is not None:
            decision = verdicts.decided[i].decision
        elif i in verdicts.joint:
            decision = verdicts.verdict(i).decision
        tools = verdicts.called(i)
        if decision is not None:
            given, mode, missing = decision.arguments, decision.mode, decision.missing
        elif called[i]:
            filled = table.fill_for(i, tools[0])
            given, mode, missing = filled.arguments, filled.mode, filled.missing
        else:
            given, mode, missing = {}, None, ()
        if case.expected_skills is not None:
            skills = {table.tools[t].skill for t in tools}
            columns["skill_f1"][i] = _f1(skills, set(case.expected_skills))
        if case.expected_mode is not None:
            columns["mode_accuracy"][i] = mode == case.expected_mode
        if asked:
            pointers = {pointer(name) for name in case.missing_arguments or ()}
            asks = verdicts.outcome[i] == CODES["ask"]
            columns["ask_accuracy"][i] = bool(asks and correct[i] and set(missing) == pointers)
        if args and called[i] and correct[i]:
            right, exact = argument_scores(case, given, table.tools[tools[0]].system_arguments)
            columns["argument_accuracy"][i], columns["argument_exact"][i] = right, exact
            columns["date_accuracy"][i] = date_score(case, given, table.tools[tools[0]])
    return columns


def _f1(found: set[str], expected: set[str]) -> float:
    if not found and not expected:
        return 1.0
    return 2 * len(found & expected) / (len(found) + len(expected))


def argument_scores(case: Case, given: Mapping[str, Any], hidden: Sequence[str] = ()) -> tuple[float, float]:
    """Return the share of expected arguments that are right (NaN without any) and whether all are exact.

    Sensitive and system arguments are left out. An optional argument that was not given does not count.
    """
    truth = _counted(case, given, hidden)
    right = sum(_is_right(case, given, name) for name in truth)
    surplus = [name for name in given if name not in (case.expected_arguments or {})]
    share = right / len(truth) if truth else float("nan")
    return share, float(right == len(truth) and not surplus)


def date_score(case: Case, given: Mapping[str, Any], tool: Tool) -> float:
    """Return the share of expected dates and times that are right, NaN where the case expects none.

    These are arguments whose schema declares the format date, time or date-time; they are counted as
    :func:`argument_scores` counts all, so that a date that was not read is wrong.

    >>> properties = {"day": {"format": "date"}, "at": {"format": "time"}}
    >>> tool = Tool(id="t", input_schema={"properties": properties})
    >>> truth = {"day": "2026-03-11", "at": "17:00", "who": "Ana"}
    >>> case = Case(id="1", message="m", expected_tools=("t",), expected_arguments=truth)
    >>> date_score(case, {"day": "2026-03-11", "who": "Ana"}, tool)
    0.5
    """
    names = [
        name
        for name in _counted(case, given, tool.system_arguments)
        if _format_of(tool.properties.get(name)) in ("date", "time", "date-time")
    ]
    return sum(_is_right(case, given, name) for name in names) / len(names) if names else float("nan")


def _format_of(schema: Any) -> str:
    """The format of a property, or of its items."""
    if not isinstance(schema, Mapping):
        return ""
    inner = schema.get("items")
    return str(schema.get("format") or (inner.get("format") if isinstance(inner, Mapping) else None) or "")


def _counted(case: Case, given: Mapping[str, Any], hidden: Sequence[str]) -> list[str]:
    """Names of the expected arguments that count."""
    return [
        name
        for name in case.expected_arguments or {}
        if name not in hidden
        and not is_sensitive(name)
        and (name in given or name not in case.optional_arguments)
    ]


def _is_right(case: Case, given: Mapping[str, Any], name: str) -> bool:
    accepted = [(case.expected_arguments or {})[name], *case.argument_alternatives.get(name, ())]
    return name in given and any(same_value(given[name], option) for option in accepted)


def same_value(one: Any, two: Any) -> bool:
    """Return whether two argument values are the same but for case, spaces, punctuation and digit script.

    >>> same_value("New York,", "new york"), same_value(5, "5.0"), same_value("٣", 3), same_value(True, 1)
    (True, True, True, False)
    """
    if isinstance(one, bool) or isinstance(two, bool):
        return type(one) is type(two) and one == two
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        return len(one) == len(two) and all(same_value(a, b) for a, b in zip(one, two, strict=True))
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return set(one) == set(two) and all(same_value(one[k], two[k]) for k in one)
    if isinstance(one, (list, tuple)) != isinstance(two, (list, tuple)):
        single, many = (two, one) if isinstance(one, (list, tuple)) else (one, two)
        return len(many) == 1 and same_value(single, many[0])
    first, second = _number(one), _number(two)
    if first is not None and second is not None:
        return first == second
    return _surface(one) == _surface(two)


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        digits = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in value.strip())
        try:
            return float(digits)
        except ValueError:
            return None
    return None


def _surface(value: Any) -> str:
    text = unicodedata.normalize("NFKC", str(value)).casefold()
    kept = []
    for char in text:
        if char.isalpha():
            kept.append(char)
        elif char.isdecimal():
            kept.append(str(unicodedata.decimal(char)))
    return "".join(kept)


# --- metrics of the whole ----------------------------------------------------------------------


def auroc(scores: NDArray[np.float64], positive: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    """Return the weighted area under the ROC curve (ties count half); NaN without both classes.

    >>> auroc(np.array([0.1, 0.4, 0.8]), np.array([False, False, True]), np.ones(3))
    1.0
    """
    up = np.where(positive, weights, 0.0)
    down = np.where(positive, 0.0, weights)
    if up.sum() <= 0 or down.sum() <= 0:
        return float("nan")
    _, codes = np.unique(scores, return_inverse=True)
    ups = np.bincount(codes, weights=up)
    downs = np.bincount(codes, weights=down)
    below = np.cumsum(downs) - downs
    return float((ups * (below + downs / 2)).sum() / (up.sum() * down.sum()))


def ece(
    confidence: NDArray[np.float64],
    correct: NDArray[np.float64],
    weights: NDArray[np.float64],
    n_bins: int = 15,
) -> float:
    """Return the expected calibration error over equal-mass bins (Nixon et al. 2019).

    Rows in order of confidence are cut into bins of equal weight; the error is the weighted mean of
    |mean confidence - share right|.

    >>> ece(np.array([1.0, 1.0]), np.array([1.0, 0.0]), np.ones(2))
    0.5
    """
    order = np.argsort(confidence, kind="stable")
    weight = weights[order]
    total = weight.sum()
    if total <= 0:
        return float("nan")
    middle = (np.cumsum(weight) - weight / 2) / total
    bins = np.minimum((middle * n_bins).astype(np.int64), n_bins - 1)
    gaps = np.bincount(bins, weights=weight * (confidence[order] - correct[order]), minlength=n_bins)
    return float(np.abs(gaps).sum() / total)


def aurc(
    confidence: NDArray[np.float64], correct: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    """Return the area under the risk-coverage curve (Geifman and El-Yaniv 2017), lower is better.

    The mean, over the rows in order of falling confidence, of the error rate among the rows so far.
    Rows of equal confidence share the rate at the end of their run.

    >>> aurc(np.array([0.9, 0.5]), np.array([1.0, 0.0]), np.ones(2))
    0.25
    """
    _, codes = np.unique(-confidence, return_inverse=True)
    mass = np.bincount(codes, weights=weights)
    wrong = np.bincount(codes, weights=weights * (1.0 - correct))
    if mass.sum() <= 0:
        return float("nan")
    reached = np.cumsum(mass)
    risk = np.cumsum(wrong) / np.where(reached > 0, reached, 1.0)
    return float((mass * risk).sum() / mass.sum())
