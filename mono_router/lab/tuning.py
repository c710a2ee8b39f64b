"""Tuning: score once, decide many times.

A sweep evaluates every combination of a grid. Evidence is scored once per distinct set of score
settings, as wide as the widest setting needs, and replayed; nothing is scored or asked twice. Each
combination's verdicts equal what ``evaluate`` gives under it. With ``cv``, what was fitted on the swept
cases is fitted anew for each fold without that fold's groups.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mono_router.decision_table import UNRECORDED, Verdicts
from mono_router.lab.asking import Bar, patient, progress_bar
from mono_router.lab.evaluation import Offered, Report, check_unseen, offered_cases, score_cases
from mono_router.lab.folds import fitted_without, fold_numbers, folded
from mono_router.lab.intervals import share_intervals
from mono_router.lab.metrics import SPENT, Labels, labels_of
from mono_router.lab.picking import Costs as Costs
from mono_router.lab.picking import Kept, pick_point
from mono_router.lab.picking import OperatingPoint as OperatingPoint
from mono_router.lab.replay import Outcomes, Replay
from mono_router.records import Case, plain
from mono_router.router import Router, score_key
from mono_router.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

SWEPT = (
    "tool_accuracy",
    "top1_hit",
    "candidate_recall",
    "recall_at_5",
    "no_tool_precision",
    "no_tool_recall",
    "false_tool_rate",
    "missed_tool_rate",
    "recall_rate",
    "model_recall_calls",
    *SPENT,
)
"""Metrics of every combination, in the frame's order."""


def swept_place(metric: str) -> int:
    """Return the place of a metric among :data:`SWEPT`.

    Raises
    ------
    ValueError
        If the metric was not swept.
    """
    if metric not in SWEPT:
        raise ValueError(f"unknown metric {metric!r}, known: {', '.join(SWEPT)}")
    return SWEPT.index(metric)


_TOKENS = [SPENT.index(name) for name in SPENT if name.endswith("_tokens")]


def sweep(
    router: Router,
    cases: Sequence[Case],
    grid: Mapping[str, Sequence[Any]],
    *,
    cv: int | None = None,
    offered: Offered = "case",
    jobs: int | None = None,
    progress: bool | None = None,
    seed: int = 0,
) -> Sweep:
    """Return the metrics of every combination of settings over the cases.

    Parameters
    ----------
    router
        Its settings are the base that the grid changes.
    cases
        Dev cases; cases of the test split are refused.
    grid
        Dotted setting name to the values to try, combined jointly.
    cv
        Number of folds of groups. A calibrator or selector that was fitted on some of the cases is then
        fitted anew for each fold without it, so that every case is decided by parts that never saw its
        group; the frame has the figures over all folds, and how much they differ from fold to fold.
    offered
        As in :func:`~mono_router.evaluate`.
    jobs
        Processes that score, and threads that ask a model, as in :func:`~mono_router.evaluate`: inside
        ``joblib.parallel_config(backend="dask")`` a cluster scores, once per set of score settings, and
        every combination is replayed here.
    progress
        Whether to show a bar; default: from 50 combinations.
    seed
        Of the folds.

    Raises
    ------
    ValueError
        If the grid is empty or names an unknown setting, a case is of the test split, or something was
        fitted on a case and ``cv`` is not given.

    >>> from mono_router.catalog import Catalog
    >>> from mono_router.records import Tool
    >>> router = Router(Catalog([Tool(id="a", description="book a table")]))
    >>> cases = [Case(id="1", message="book a table", expected_tools=("a",))]
    >>> len(sweep(router, cases, {"candidate_limit": [1, 2], "lexical.min_score": [None, 0.5]}))
    4
    """
    kept, _ = offered_cases(cases, offered)
    tested = next((case.id for case in kept if case.split == "test"), None)
    if tested is not None:
        raise ValueError(f"case {tested} is of the test split: choose settings on dev, report on test")
    if not grid or any(not len(values) for values in grid.values()):
        raise ValueError("grid must give at least one value to at least one setting")
    names = list(grid)
    values_of = [[plain(value) for value in values] for values in grid.values()]
    combinations = [dict(zip(names, values, strict=True)) for values in itertools.product(*values_of)]
    settings = [router._given_settings.replace(changes) for changes in combinations]
    labels = labels_of(kept, router.catalog, offered)
    folds = np.zeros(len(kept), dtype=np.int64) if cv is None else fold_numbers(labels.groups, cv, seed=seed)
    shown = progress if progress is not None else len(settings) >= 50
    n_folds = int(folds.max()) + 1
    with progress_bar(len(settings) * n_folds, desc="sweep", unit="setting", shown=shown) as bar:
        parts = []
        for fold in range(n_folds):
            rows = np.flatnonzero(folds == fold)
            held = [kept[i] for i in rows.tolist()]
            own = router if cv is None else fitted_without(router, kept, held, offered)
            check_unseen(own, held)
            parts.append(_Part.of(own, rows, labels.take(rows), settings, offered, jobs, bar))
    return Sweep(
        router=router,
        labels=labels,
        offered=offered,
        grid=dict(zip(names, values_of, strict=True)),
        settings=settings,
        combinations=combinations,
        parts=parts,
        cv=cv,
    )


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The cases of one fold (of all, without folds) under every setting."""

    rows: NDArray[np.intp]
    """Places of its cases."""
    replays: list[Replay]
    home: list[int]
    """Which of the replays has each setting's evidence."""
    kept: Kept
    sums: NDArray[np.float64]
    """(n_settings, len(SWEPT)), as the counts."""
    counts: NDArray[np.float64]
    scoring_s: float
    """Seconds that scoring took."""

    @classmethod
    def of(
        cls,
        router: Router,
        rows: NDArray[np.intp],
        labels: Labels,
        settings: Sequence[Settings],
        offered: str,
        jobs: int | None,
        bar: Bar,
    ) -> _Part:
        families: dict[Any, list[int]] = {}
        resolved = [router.resolved(one) for one in settings]
        for i, one in enumerate(resolved):
            key = (score_key(one), one.selection.fallback_attempts, one.selection.max_skills)
            families.setdefault(key, []).append(i)
        shape = (len(settings), len(labels.cases))
        flags = {name: np.zeros(shape, dtype=bool) for name in ("correct", "wrote", "recalled", "selected")}
        kept = Kept(outcome=np.zeros(shape, dtype=np.int8), tokens=None, **flags)
        sums, counts = np.zeros((len(settings), len(SWEPT))), np.zeros((len(settings), len(SWEPT)))
        replays: list[Replay] = []
        home = [0] * len(settings)
        tokens: dict[int, NDArray[np.float32]] = {}
        scoring_s = 0.0
        for members in families.values():
            fitted = router.with_settings(settings[members[0]])
            wide = [resolved[i] for i in members]
            started = time.perf_counter()
            table = score_cases(fitted, labels.cases, offered, widest=wide, jobs=jobs)
            scoring_s += time.perf_counter() - started
            replay = Replay(fitted, table, labels, jobs=jobs or 1)
            # What settings share is kept for one group at a time: neighbours in this order share most.
            keys = {i: replay.key(resolved[i]) for i in members}
            places = {key: place for place, key in enumerate(dict.fromkeys(k for k, _ in keys.values()))}
            last, done = None, -1
            with patient(fitted, bar):
                for i in sorted(members, key=lambda i: (places[keys[i][0]], keys[i][1], i)):
                    if keys[i] != last:
                        _keep(replay.outcomes(resolved[i]), i, kept, tokens, sums, counts)
                    else:
                        _copy(done, i, kept, tokens, sums, counts)
                    last, done = keys[i], i
                    home[i] = len(replays)
                    bar(1)
            replays.append(replay)
        if tokens:
            spent = np.zeros(shape, dtype=np.float32)
            for i, row in tokens.items():
                spent[i] = row
            kept = Kept(**{**vars(kept), "tokens": spent})
        return cls(
            rows=rows,
            replays=replays,
            home=home,
            kept=kept,
            sums=sums,
            counts=counts,
            scoring_s=scoring_s,
        )

    def verdicts(self, i: int, settings: Settings) -> Verdicts:
        """The verdicts under setting i, replayed."""
        replay = self.replays[self.home[i]]
        return replay.decider.decide(replay.router.resolved(settings))

    def outcomes(self, i: int, settings: Settings) -> Outcomes:
        """What setting i makes of each case."""
        replay = self.replays[self.home[i]]
        return replay.outcomes(replay.router.resolved(settings))


def _keep(
    found: Outcomes,
    i: int,
    kept: Kept,
    tokens: dict[int, NDArray[np.float32]],
    sums: NDArray[np.float64],
    counts: NDArray[np.float64],
) -> None:
    shared = found.shared
    kept.correct[i], kept.outcome[i], kept.wrote[i] = found.correct, found.outcome, found.wrote
    kept.recalled[i], kept.selected[i] = shared.recalled, shared.selection_asked
    if shared.spent is not None:
        tokens[i] = shared.spent[:, _TOKENS].sum(axis=1).astype(np.float32)
    one, two = found.sums()
    sums[i], counts[i] = [one[name] for name in SWEPT], [two[name] for name in SWEPT]


def _copy(
    source: int,
    i: int,
    kept: Kept,
    tokens: dict[int, NDArray[np.float32]],
    sums: NDArray[np.float64],
    counts: NDArray[np.float64],
) -> None:
    """Setting i decides as another one does: only what it cannot change differs."""
    for array in (kept.correct, kept.outcome, kept.wrote, kept.recalled, kept.selected, sums, counts):
        array[i] = array[source]
    if source in tokens:
        tokens[i] = tokens[source]


class Sweep:
    """Metrics of many combinations of settings over the same cases."""

    def __init__(
        self,
        *,
        router: Router,
        labels: Labels,
        offered: str,
        grid: Mapping[str, list[Any]],
        settings: list[Settings],
        combinations: list[dict[str, Any]],
        parts: list[_Part],
        cv: int | None,
    ) -> None:
        self.router = router
        self.labels = labels
        self.offered = offered
        self.grid = grid
        """Setting name to the values tried."""
        self.settings = settings
        self.combinations = combinations
        self.cv = cv
        """Number of folds, or None."""
        self._parts = parts

    def __len__(self) -> int:
        return len(self.settings)

    def __repr__(self) -> str:
        folds = f", {self.cv} folds" if self.cv is not None else ""
        return f"Sweep({len(self)} settings, {len(self.labels.cases)} cases{folds})"

    def _repr_html_(self) -> str:
        from mono_router.html import sweep_html

        return sweep_html(self)

    @property
    def scoring_s(self) -> float:
        """Seconds that scoring the evidence took; the rest of a sweep is replay."""
        return sum(part.scoring_s for part in self._parts)

    @cached_property
    def kept(self) -> Kept:
        """What every combination made of every case."""
        if len(self._parts) == 1:
            return self._parts[0].kept
        found: dict[str, Any] = {}
        for name, first in vars(self._parts[0].kept).items():
            parts = [getattr(part.kept, name) for part in self._parts]
            if any(part is None for part in parts):
                found[name] = None
                continue
            array = np.empty((len(self), len(self.labels.cases)), dtype=first.dtype)
            for part, values in zip(self._parts, parts, strict=True):
                array[:, part.rows] = values
            found[name] = array
        return Kept(**found)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per combination, in the grid's order: settings, metrics, tool_accuracy's interval.

        With ``cv`` a metric is that of all cases, each decided by the parts of its fold, and
        ``tool_accuracy_spread`` is the standard deviation of the folds' figures.
        """
        import pandas as pd

        sums = np.sum([part.sums for part in self._parts], axis=0)
        counts = np.sum([part.counts for part in self._parts], axis=0)
        means = np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
        columns = {name: means[:, j] for j, name in enumerate(SWEPT)}
        columns["unrecorded"] = (self.kept.outcome == UNRECORDED).sum(axis=1).astype(np.float64)
        frame = pd.concat([pd.DataFrame(self.combinations), pd.DataFrame(columns)], axis=1)
        low, high = self._accuracy_bounds()
        place = list(frame.columns).index("tool_accuracy") + 1
        frame.insert(place, "tool_accuracy_low", low)
        frame.insert(place + 1, "tool_accuracy_high", high)
        if self.cv is not None:
            frame.insert(place + 2, "tool_accuracy_spread", self.by_fold("tool_accuracy").std(axis=1, ddof=1))
        return frame

    def by_fold(self, metric: str) -> NDArray[np.float64]:
        """Return a swept metric of every combination in each fold, (n_settings, n_folds).

        Raises
        ------
        ValueError
            If the metric was not swept.
        """
        place = swept_place(metric)
        with np.errstate(invalid="ignore"):
            return np.stack([part.sums[:, place] / part.counts[:, place] for part in self._parts], axis=1)

    def _accuracy_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """95 % bounds of tool_accuracy, as a report of each combination has them."""
        low, high = np.empty(len(self)), np.empty(len(self))
        unrecorded = self.kept.outcome == UNRECORDED
        whole = ~unrecorded.any(axis=1)
        low[whole], high[whole] = share_intervals(self.kept.correct[whole], self.labels.groups)
        for i in np.flatnonzero(~whole).tolist():
            found = self.report(i).metric("tool_accuracy")
            low[i], high[i] = found.low, found.high
        return low, high

    def values(self, metric: str) -> NDArray[np.float64]:
        """Return a swept metric of every combination and case, (n_settings, n_cases), NaN = does not count.

        Raises
        ------
        ValueError
            If the metric was not swept.
        """
        swept_place(metric)
        found = np.empty((len(self), len(self.labels.cases)))
        for i, one in enumerate(self.settings):
            for part in self._parts:
                found[i, part.rows] = part.outcomes(i, one).column(metric)
        return found

    def verdicts(self, i: int) -> Verdicts:
        """Return the verdicts under combination ``i``, replayed."""
        return folded([(part.rows, part.verdicts(i, self.settings[i])) for part in self._parts])

    def report(self, i: int) -> Report:
        """Return the report of combination ``i``, replayed: nothing is scored or asked again."""
        part = self._parts[0]
        return Report(
            router=part.replays[part.home[i]].router.with_settings(self.settings[i]),
            labels=self.labels,
            verdicts=self.verdicts(i),
            offered=self.offered,
            n_dropped=0,
            latencies=None,
        )

    def pareto(self, *, cost: str = "recall_rate", value: str = "tool_accuracy") -> pd.DataFrame:
        """Return the combinations that no other beats in both, by rising cost."""
        frame = self.frame.sort_values([cost, value], ascending=[True, False], kind="stable")
        best = frame[value].cummax().shift(fill_value=-np.inf)
        return frame[frame[value] > best]

    def pick(
        self,
        *,
        maximize: str | None = None,
        costs: Costs | None = None,
        subject_to: Mapping[str, tuple[str, float]] | None = None,
        no_tool_prior: float | None = None,
    ) -> OperatingPoint:
        """Return the chosen combination.

        Parameters
        ----------
        maximize
            A mean metric of the frame; default tool_accuracy where no costs are given.
        costs
            Minimise the expected cost instead.
        subject_to
            Metric to ("<=" or ">=", bound); it must hold at the 95 % bound on its bad side.
        no_tool_prior
            Share of no-tool messages in real traffic, in (0, 1): cases are weighted to it.

        Settings within one standard error of the best give way to the one of them with the lowest
        recall_rate, then the fewest model calls, then the best value, then the first in the grid.

        Raises
        ------
        ValueError
            If both or an unknown objective is given, or every combination does equally.
        """
        return pick_point(
            self, maximize=maximize, costs=costs, subject_to=subject_to, no_tool_prior=no_tool_prior
        )
