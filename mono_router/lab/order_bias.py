"""Order bias: does a model choose a tool, or a place in the list?

Each case's shortlist is shown to the selector again in seeded random orders. What it chooses should not
depend on the order, and the place of what it chooses should be uniform: a permutation puts every tool at
every place alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mono_router.lab.asking import patient, progress_bar
from mono_router.lab.evaluation import Offered, offered_cases, score_cases
from mono_router.lab.intervals import NOTHING, Estimate, mean_interval
from mono_router.models.recorded import NotRecorded
from mono_router.records import Answer, Case
from mono_router.router import Router

if TYPE_CHECKING:
    import pandas as pd

N_NULL = 9_999
"""Draws of the null distribution of the test."""


@dataclass(frozen=True, kw_only=True)
class OrderBias:
    """How far the order of a shortlist moves a selector's choice."""

    changed: Estimate
    """Share of permuted orders in which another choice is made than in the order that the router gives."""
    ever_changed: Estimate
    """Share of cases in which some order changes the choice."""
    positions: pd.DataFrame = field(repr=False)
    """Per place (from 1): share of choices that stood there, low, high (95 %), uniform, n."""
    p_value: float
    """Of a chi-square test against uniform places, by its simulated null; 1.0 without a choice."""
    n_cases: int
    """Cases with a shortlist of at least two tools."""
    n_requests: int
    """Permuted shortlists that were answered."""
    n_failed: int
    """Answers that failed or broke a rule: they count for nothing above."""
    n_unrecorded: int
    """Requests that a recording could not answer."""
    simulated: bool

    def _repr_html_(self) -> str:
        from mono_router.lab.result_panels import order_bias_html

        return order_bias_html(self)


def order_bias(
    router: Router,
    cases: Sequence[Case],
    *,
    permutations: int = 4,
    offered: Offered = "case",
    jobs: int = 1,
    progress: bool | None = None,
    seed: int = 0,
) -> OrderBias:
    """Return how far the order of the shortlist moves what a model selects.

    Parameters
    ----------
    router
        With a model that selects; its settings make the shortlists.
    cases
        Their labels are not used.
    permutations
        Random orders of each shortlist, each one request.
    offered
        As in :func:`~mono_router.evaluate`.
    jobs
        Threads that ask the model.
    progress
        Whether to show a bar; default: from 20 cases.
    seed
        Of the orders.

    Raises
    ------
    ValueError
        If the selector scores every tool (it sees no order), or ``permutations`` is below 1.
    """
    if router.selector_scores:
        raise ValueError(f"{type(router.selector).__name__} scores every tool: it sees no order")
    if permutations < 1:
        raise ValueError(f"permutations must be >= 1, got {permutations}")
    kept, _ = offered_cases(cases, offered)
    shown = progress if progress is not None else len(kept) > 20
    with progress_bar(len(kept) * (1 + permutations), desc="order", unit="request", shown=shown) as bar:
        table = score_cases(router, kept, offered)
        with patient(router, bar):
            found = router.gather(table, router.settings, jobs=jobs, progress=bar)
            shortlists = [v.selection.shortlist if v.selection and v.decision else () for v in found]
            used = [i for i, names in enumerate(shortlists) if len(names) > 1 and names in table.answers[i]]

            def ask(place: tuple[int, int]) -> tuple[tuple[str, ...], Answer | None]:
                i, which = place
                order = np.random.default_rng((seed, i, which)).permutation(len(shortlists[i]))
                names = tuple(shortlists[i][k] for k in order.tolist())
                try:
                    return names, router.selector.select(table.queries[i], [router.tools[t] for t in names])
                except NotRecorded:
                    return names, None
                finally:
                    bar(1)

            places = list(itertools.product(used, range(permutations)))
            with ThreadPoolExecutor(max_workers=jobs) as pool:
                replies = list(pool.map(ask, places))
    base = {i: _choice(table.answers[i][shortlists[i]]) for i in used}
    return _measured(kept, places, replies, base, simulated=router.simulated)


def _choice(answer: Answer) -> tuple[str, ...] | None:
    """Tools that an answer calls, () for no tool; None where it failed."""
    if answer.error is not None or answer.rejections:
        return None
    return tuple(dict.fromkeys(call.tool for call in answer.calls))


def _measured(
    cases: Sequence[Case],
    places: Sequence[tuple[int, int]],
    replies: Sequence[tuple[tuple[str, ...], Answer | None]],
    base: dict[int, tuple[str, ...] | None],
    *,
    simulated: bool,
) -> OrderBias:
    moved: dict[int, list[bool]] = {}
    at, sizes, groups = [], [], []
    n_failed = 0
    for (i, _), (names, answer) in zip(places, replies, strict=True):
        if answer is None:
            continue
        chosen, usual = _choice(answer), base[i]
        if chosen is None:
            n_failed += 1
            continue
        if usual is not None:
            moved.setdefault(i, []).append(set(chosen) != set(usual))
        if chosen:
            at.append(names.index(chosen[0]))
            sizes.append(len(names))
            groups.append(cases[i].group)
    of_case = np.array([cases[i].group for i in moved], dtype=object)
    changed = np.array([np.mean(flags) for flags in moved.values()])
    ever = np.array([float(any(flags)) for flags in moved.values()])
    return OrderBias(
        changed=mean_interval(changed, of_case) if len(changed) else NOTHING,
        ever_changed=mean_interval(ever, of_case) if len(ever) else NOTHING,
        positions=position_table(np.array(at), np.array(sizes), np.array(groups, dtype=object)),
        p_value=uniform_p_value(np.array(at, dtype=np.int64), np.array(sizes, dtype=np.int64)),
        n_cases=len(base),
        n_requests=sum(answer is not None for _, answer in replies),
        n_failed=n_failed,
        n_unrecorded=sum(answer is None for _, answer in replies),
        simulated=simulated,
    )


def position_table(
    at: NDArray[np.int64], sizes: NDArray[np.int64], groups: NDArray[np.object_]
) -> pd.DataFrame:
    """Return, for each place, how often it was chosen where there is one, against chance.

    Parameters
    ----------
    at, sizes, groups
        Place of each choice from 0, length of its list, group of its case, (n,) each.
    """
    import pandas as pd

    rows = []
    for place in range(int(sizes.max(initial=0))):
        there = sizes > place
        found = mean_interval((at[there] == place).astype(np.float64), groups[there])
        uniform = float((1.0 / sizes[there]).mean())
        rows.append((place + 1, found.value, found.low, found.high, uniform, found.n))
    columns = ["position", "share", "low", "high", "uniform", "n"]
    return pd.DataFrame(rows, columns=columns).set_index("position")


def uniform_p_value(at: NDArray[np.int64], sizes: NDArray[np.int64], *, seed: int = 0) -> float:
    """Return the p-value of places (n,) in lists of these sizes (n,) against uniform places.

    The statistic is Pearson's over all lists together, its null is drawn: given the list, each place of a
    random order is as likely as any other, whatever the selector chooses.

    >>> uniform_p_value(np.array([0, 1, 2, 0, 1, 2]), np.full(6, 3))
    1.0
    """
    if not len(at):
        return 1.0
    width = int(sizes.max())
    expected, draws = np.zeros(width), np.zeros((N_NULL, width))
    rng = np.random.default_rng(seed)
    for size, n in zip(*np.unique(sizes, return_counts=True), strict=True):
        expected[:size] += n / size
        draws[:, :size] += rng.multinomial(n, np.full(size, 1.0 / size), size=N_NULL)

    def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = ((counts - expected) ** 2 / expected).sum(axis=-1)
        return found

    observed = statistic(np.bincount(at, minlength=width).astype(np.float64))
    return float((1 + (statistic(draws) >= observed - 1e-9).sum()) / (N_NULL + 1))
