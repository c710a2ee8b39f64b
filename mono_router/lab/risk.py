"""Risk control: the lowest confidence to act on at which errors stay below a bound, with a promise.

Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei 2021, "Learn then Test", sections 3 and 5):
every threshold is a hypothesis "its risk is above alpha", tested by an exact binomial tail, from the
strictest threshold down until one cannot be rejected. The last that was rejected keeps its risk at most
alpha in all but a share delta of draws of the cases.

What makes the tail exact: one case per group, drawn by a seed, so that cases are independent; and, for a
stated share of messages without a tool, a sample that has that share in distribution. Kinds are drawn
first, each "no tool" with the stated chance, and each drawn kind takes a random unused case of it: the
sample is then independent draws from traffic of that prior, which weights would not give. Its size is set
so that a kind runs out in one sample of 10,000; such a sample is drawn again, and delta is lowered by as
much. Of decisions acted on, how many there are is known before any is looked at: thresholds with so few
that one unlucky error would end the sequence are stepped over (:func:`first_size`). That is exact where
risk does not rise with the threshold, which is what a threshold on confidence is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mono_router.branches import CODES
from mono_router.decision_table import UNRECORDED
from mono_router.lab.evaluation import Report, check_unseen
from mono_router.lab.intervals import Estimate, group_codes, mean_interval
from mono_router.lab.picking import prior_weights
from mono_router.lab.replay import Replay
from mono_router.lab.tuning import Sweep
from mono_router.records import digest
from mono_router.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

Risk = Literal["wrong_of_acted", "wrong_of_all"]
NAME = "selection.min_confidence"
THRESHOLDS: tuple[float, ...] = tuple(round(0.01 * i, 2) for i in range(101))
POWER = 0.9
SHORTAGE = 1e-4
"""Chance that a sample of the stated prior asks for more cases of a kind than there are."""


@dataclass(frozen=True, kw_only=True)
class RiskControl:
    """A threshold with what it promises, on which cases and for which traffic."""

    threshold: float | None
    """Of ``selection.min_confidence``; None where nothing qualifies, ``reason`` says why."""
    settings: Settings | None
    """The settings with that threshold."""
    reason: str
    risk: Risk
    alpha: float
    """The risk is at most this, in all but a share ``delta`` of draws of the cases."""
    delta: float
    bound: float
    """Upper limit of the risk by the same test (Clopper and Pearson 1934) at 1 - delta; at most alpha."""
    observed: float
    """Risk in the tested sample; NaN where nothing was acted on."""
    n: int
    """Cases that the risk was tested on: those acted on, or all of the sample."""
    n_sample: int
    """Independent cases, one per group, with the assumed share of no-tool messages."""
    coverage: Estimate
    """Share of messages that are acted on."""
    coverage_change: Estimate
    """The same, minus that under the settings that the report had."""
    no_tool_prior: float
    """Share of messages without a right tool that is assumed of real traffic."""
    prior_stated: bool
    """Whether that share was stated; else it is that of the cases."""
    path: pd.DataFrame = field(repr=False, compare=False)
    """The thresholds that were tested, strictest first: n, wrong, p_value, coverage."""
    warnings: tuple[str, ...] = ()
    valid_for: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Hashes of catalog, cases and settings."""

    def _repr_html_(self) -> str:
        from mono_router.lab.result_panels import risk_html

        return risk_html(self)


def tail_p_value(wrong: int, n: int, alpha: float) -> float:
    """Return P(at most this many errors in n) if their rate were alpha: small = the rate is below it.

    >>> round(tail_p_value(0, 22, 0.1), 3)
    0.098
    """
    from scipy.stats import binom

    return float(binom.cdf(wrong, n, alpha)) if n else 1.0


def upper_bound(wrong: int, n: int, delta: float) -> float:
    """Return Clopper and Pearson's one-sided upper limit of a rate at level 1 - delta.

    >>> round(upper_bound(0, 22, 0.1), 3)
    0.099
    """
    from scipy.stats import beta

    return 1.0 if wrong >= n else float(beta.ppf(1 - delta, wrong + 1, n - wrong))


def fixed_sequence(
    wrong: NDArray[np.int64], n: NDArray[np.int64], *, alpha: float, delta: float
) -> tuple[int | None, NDArray[np.float64]]:
    """Return the place of the last rejected hypothesis (None: none) and the p-values up to the first kept.

    Parameters
    ----------
    wrong, n
        Errors and cases of each threshold (k,), strictest first. One with fewer cases than
        :func:`first_size` is stepped over (its p-value is NaN).

    >>> fixed_sequence(np.array([0, 0, 9]), np.array([5, 30, 60]), alpha=0.1, delta=0.1)[0]
    1
    """
    (place,), p_values = fixed_sequences(wrong[None], n[None], alpha=alpha, delta=delta)
    kept = np.flatnonzero(p_values[0] > delta)
    n_tested = int(kept[0]) + 1 if len(kept) else len(wrong)
    return None if place < 0 else int(place), p_values[0, :n_tested]


def first_size(n_most: NDArray[np.int64], *, alpha: float, delta: float) -> NDArray[np.int64]:
    """Return how many cases the first threshold of a sequence needs, given how many the last one has (d,).

    Enough that a risk of alpha / 2 would pass nine times of ten, or half of the most there are where that
    is less; and at least as many as can pass at all, with no error among them.
    """
    from scipy.stats import binom

    sizes = np.arange(1, int(n_most.max(initial=0)) + 1)
    allowed = binom.ppf(delta, sizes, alpha)
    allowed -= binom.cdf(allowed, sizes, alpha) > delta
    strong = np.flatnonzero(binom.cdf(allowed, sizes, alpha / 2) >= POWER)
    enough = int(sizes[strong[0]]) if len(strong) else np.iinfo(np.int64).max
    least = int(np.ceil(np.log(delta) / np.log(1 - alpha) - 1e-9))
    return np.maximum(least, np.minimum(enough, n_most // 2))


def fixed_sequences(
    wrong: NDArray[np.int64], n: NDArray[np.int64], *, alpha: float, delta: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return :func:`fixed_sequence` of many draws (d, k): places (d,), -1 = none, and all p-values (d, k)."""
    from scipy.stats import binom

    p_values = np.where(n > 0, binom.cdf(wrong, n, alpha), 1.0)
    least = first_size(n.max(axis=1), alpha=alpha, delta=delta)
    p_values[n < least[:, None]] = np.nan
    open_ = np.cumsum(p_values > delta, axis=1) == 0
    rejected = open_ & (p_values <= delta)
    last = rejected.shape[1] - 1 - np.argmax(rejected[:, ::-1], axis=1)
    return np.where(rejected.any(axis=1), last, -1), p_values


def control_risk(
    report: Report | Sweep,
    *,
    alpha: float,
    delta: float = 0.1,
    risk: Risk = "wrong_of_acted",
    no_tool_prior: float | None = None,
    thresholds: Sequence[float] | None = None,
    seed: int = 0,
) -> RiskControl:
    """Return the lowest ``selection.min_confidence`` whose risk is at most alpha, as far as can be promised.

    Parameters
    ----------
    report
        A report or a sweep of this threshold alone, on cases that neither the calibrator nor the selector
        has seen; nothing is scored or asked again.
    alpha
        Bound of the risk, in (0, 1).
    delta
        Chance that the promise is broken, in (0, 1), over draws of the cases.
    risk
        "wrong_of_acted": wrong decisions, of those that call a tool or ask for its arguments.
        "wrong_of_all": wrong calls, of all messages.
    no_tool_prior
        Share of no-tool messages in real traffic, in (0, 1). None: that of the cases.
    thresholds
        Values to test; default 0 to 1 in steps of 0.01, or those of the sweep.
    seed
        Of the choice of one case per group, and of the sample of the prior.

    Raises
    ------
    ValueError
        If alpha, delta or the prior is out of range, a case is of the test split, something was fitted on a
        case or a group of these, or the sweep varies other settings too.
    """
    for name, value in (("alpha", alpha), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must be in (0, 1), got {value}")
    if risk not in ("wrong_of_acted", "wrong_of_all"):
        raise ValueError(f"risk must be 'wrong_of_acted' or 'wrong_of_all', got {risk!r}")
    if isinstance(report, Sweep):
        thresholds, report = _swept(report, thresholds)
    _check(report)
    tried = sorted({float(t) for t in (THRESHOLDS if thresholds is None else thresholds)}, reverse=True)
    if not tried:
        raise ValueError("thresholds must hold at least one value")
    settings = [report.settings.replace({NAME: t}) for t in tried]
    acted, wrong, known = _decisions(report, settings)
    labels = report.labels
    sample = _sample(labels.wants_tool, labels.groups, known, no_tool_prior, seed=seed)
    level = delta if no_tool_prior is None else delta * (1 - SHORTAGE)
    n_wrong = wrong[:, sample].sum(axis=1)
    n_tested = acted[:, sample].sum(axis=1) if risk == "wrong_of_acted" else np.full(len(tried), len(sample))
    place, p_values = fixed_sequence(n_wrong, n_tested, alpha=alpha, delta=level)
    weights = prior_weights(labels.wants_tool[known], no_tool_prior)
    groups = labels.groups[known]

    def mean(flags: NDArray[Any], *, share: bool = True) -> Estimate:
        return mean_interval(flags[known].astype(np.float64), groups, weights=weights, share=share)

    import pandas as pd

    n_done = len(p_values)
    path = pd.DataFrame(
        {
            "threshold": tried[:n_done],
            "n": n_tested[:n_done],
            "wrong": n_wrong[:n_done],
            "p_value": p_values,
            "coverage": [mean(row).value for row in acted[:n_done]],
        }
    )
    wants = labels.wants_tool[known]
    before = _acted(report.verdicts.outcome)
    # Where nothing qualifies, figures are those of the test that failed, or of acting as often as can be.
    tested = np.flatnonzero(~np.isnan(p_values))
    shown = place if place is not None else int(tested[0]) if len(tested) else len(tried) - 1
    return RiskControl(
        threshold=None if place is None else tried[place],
        settings=None if place is None else settings[place],
        reason=_reason(place, n_tested, alpha, level),
        risk=risk,
        alpha=alpha,
        delta=delta,
        bound=1.0 if place is None else upper_bound(int(n_wrong[place]), int(n_tested[place]), level),
        observed=float(n_wrong[shown] / n_tested[shown]) if n_tested[shown] else float("nan"),
        n=int(n_tested[shown]),
        n_sample=len(sample),
        coverage=mean(acted[shown]),
        coverage_change=mean(acted[shown].astype(np.float64) - before, share=False),
        no_tool_prior=float((~wants).mean()) if no_tool_prior is None else no_tool_prior,
        prior_stated=no_tool_prior is not None,
        path=path,
        warnings=_warnings(report, known),
        valid_for={
            "catalog": report.router.catalog.hash,
            "cases": digest(report.cases),
            "settings": report.settings.hash,
        },
    )


def _swept(sweep: Sweep, thresholds: Sequence[float] | None) -> tuple[Sequence[float], Report]:
    others = [name for name, values in sweep.grid.items() if name != NAME and len(values) > 1]
    if others or NAME not in sweep.grid:
        more = f", got {', '.join(sweep.grid)}"
        raise ValueError(f"control_risk needs a sweep of {NAME} alone{more}")
    if sweep.cv is not None:
        raise ValueError("control_risk needs a sweep without folds: each fold has a calibrator of its own")
    values = [0.0 if value is None else float(value) for value in sweep.grid[NAME]]
    return values if thresholds is None else thresholds, sweep.report(0)


def _check(report: Report) -> None:
    tested = next((case.id for case in report.cases if case.split == "test"), None)
    if tested is not None:
        raise ValueError(f"case {tested} is of the test split: control risk on dev, report on test")
    check_unseen(report.router, report.cases)
    seen: frozenset[str] = getattr(report.router.calibrator, "fitted_groups", frozenset())
    clash = next((case.id for case in report.cases if case.group in seen), None)
    if clash is not None:
        name = type(report.router.calibrator).__name__
        raise ValueError(f"{name} was fitted on the group of case {clash}: control risk on other groups")


def _acted(outcome: NDArray[np.int8]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (outcome == CODES["call"]) | (outcome == CODES["ask"])
    return found


def _decisions(
    report: Report, settings: Sequence[Settings]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each threshold acts on each case, and is wrong there (k, n); and which cases are known (n,)."""
    replay = Replay(report.router, report.verdicts.table, report.labels)
    shape = (len(settings), len(report))
    acted, wrong = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    for i, one in enumerate(settings):
        found = replay.outcomes(one)
        acted[i] = _acted(found.outcome)
        wrong[i] = acted[i] & ~found.correct
    return acted, wrong, report.verdicts.outcome != UNRECORDED


def _sample(
    wants: NDArray[np.bool_],
    groups: NDArray[np.object_],
    known: NDArray[np.bool_],
    prior: float | None,
    *,
    seed: int,
) -> NDArray[np.intp]:
    """Places of independent cases with the stated share of no-tool messages in distribution."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(known))
    codes, _ = group_codes(groups[rows])
    # The first of each group in a random order is a random one of it.
    _, firsts = np.unique(codes, return_index=True)
    rows = rows[np.sort(firsts)]
    if prior is None:
        return rows
    prior_weights(wants[rows], prior)  # refuses a prior that these cases cannot have
    with_tool, without = rows[wants[rows]], rows[~wants[rows]]
    size = sample_size(len(with_tool), len(without), prior)
    n_none = rng.binomial(size, prior)
    while n_none > len(without) or size - n_none > len(with_tool):
        n_none = rng.binomial(size, prior)
    return np.concatenate([with_tool[: size - n_none], without[:n_none]])


def sample_size(n_with: int, n_without: int, prior: float) -> int:
    """Return the largest sample of traffic with a no-tool prior for which neither kind is likely to run out.

    >>> sample_size(1000, 100, 0.2)
    356
    """
    from scipy.stats import binom

    sizes = np.arange(1, n_with + n_without + 1)
    short = binom.sf(n_without, sizes, prior) + binom.sf(n_with, sizes, 1 - prior)
    enough = np.flatnonzero(short <= SHORTAGE)
    return int(sizes[enough[-1]]) if len(enough) else 1


def _reason(place: int | None, n: NDArray[np.int64], alpha: float, delta: float) -> str:
    if place is not None:
        return "the lowest threshold of the sequence whose risk is below the bound"
    needed = int(np.ceil(np.log(delta) / np.log(1 - alpha)))
    if n.max(initial=0) < needed:
        return f"too few cases: even without an error {needed} are needed, and there are {n.max(initial=0)}"
    return "at the strictest threshold that could pass, the risk is not shown to be below the bound"


def _warnings(report: Report, known: NDArray[np.bool_]) -> tuple[str, ...]:
    found = []
    if report.selected_on is not None and report.selected_on == digest(report.cases):
        found.append(
            "the settings were chosen on these very cases: the promise holds for the threshold alone"
        )
    if report.router.simulated:
        found.append("simulated")
    if not known.all():
        found.append(f"{int((~known).sum())} unrecorded cases are left out")
    return tuple(found)
