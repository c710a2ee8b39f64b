"""Tuning: score once, decide many times, choose an operating point.

A sweep evaluates every combination of a grid. Evidence is scored once per distinct set of score
settings, as wide as the widest setting needs, and replayed; nothing is scored or asked twice. Each
combination's verdicts equal what ``evaluate`` gives under it. Points are chosen on dev and carry the
label *selected*: what they show on the cases they were chosen on is no estimate.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mono_router.decision_table import CODES, UNRECORDED, TableDecider, Verdicts
from mono_router.lab.evaluation import (
    Report,
    check_unseen,
    evaluate,
    offered_cases,
    progress_bar,
    score_cases,
)
from mono_router.lab.intervals import N_RESAMPLES, Z95, _weights, group_codes
from mono_router.lab.metrics import Labels, case_columns, correctness, labels_of
from mono_router.records import Case, canonical_json, digest, plain
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
    "model_calls",
    "input_tokens",
    "output_tokens",
)
"""Metrics of every combination, in the frame's order."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Price of each kind of error and of each call, in any one unit.

    >>> Costs(wrong_tool=5, missed_tool=1).wrong_tool
    5
    """

    wrong_tool: float = 1.0
    """A tool was called and another was right."""
    missed_tool: float = 1.0
    """No tool was called and one was right (rejections and errors too)."""
    false_tool: float = 1.0
    """A tool was called and none was right."""
    wrong_write: float = 0.0
    """Added where a wrong or false call writes."""
    ask: float = 0.0
    """The user is asked to choose or to say more."""
    recall_call: float = 0.0
    """Stage 2 ran."""
    selection_call: float = 0.0
    """A model was asked to select."""
    token: float = 0.0
    """One input or output token."""


@dataclass(frozen=True)
class _Outcomes:
    """What a sweep keeps of one combination, per case."""

    correct: NDArray[np.bool_]
    outcome: NDArray[np.int8]
    wrote: NDArray[np.bool_]
    recalled: NDArray[np.bool_]
    selected: NDArray[np.bool_]
    tokens: NDArray[np.float32] | None


def sweep(
    router: Router,
    cases: Sequence[Case],
    grid: Mapping[str, Sequence[Any]],
    *,
    offered: str = "case",
    jobs: int | None = None,
    progress: bool | None = None,
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
    offered
        As in :func:`~mono_router.evaluate`.
    jobs
        Threads that ask a model.
    progress
        Whether to show a bar; default: from 50 combinations.

    Raises
    ------
    ValueError
        If the grid is empty or names an unknown setting, or a case is of the test split.

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
    check_unseen(router, kept)
    names = list(grid)
    values_of = [[plain(value) for value in values] for values in grid.values()]
    combinations = [dict(zip(names, values, strict=True)) for values in itertools.product(*values_of)]
    base = router._given_settings
    settings = [base.replace(changes) for changes in combinations]
    labels = labels_of(kept, router.catalog, offered)
    families: dict[Any, list[int]] = {}
    for i, one in enumerate(settings):
        key = (score_key(router.resolved(one)), one.selection.fallback_attempts, one.selection.max_skills)
        families.setdefault(key, []).append(i)
    outcomes: list[_Outcomes | None] = [None] * len(settings)
    rows: list[dict[str, float]] = [{} for _ in settings]
    sources: list[tuple[Router, TableDecider]] = []
    home = [0] * len(settings)
    shown = progress if progress is not None else len(settings) >= 50
    with progress_bar(len(settings), desc="sweep", unit="setting", shown=shown) as advance:
        for members in families.values():
            fitted = router.with_settings(settings[members[0]])
            table = score_cases(fitted, kept, offered, widest=[settings[i] for i in members])
            decider = TableDecider(table, fitted.calibrator)
            asks = not table.selector_scores
            for i in members:
                resolved = fitted.resolved(settings[i])
                if asks or resolved.recall.source in ("model", "both"):
                    fitted.gather(table, resolved, jobs=jobs or 1)
                verdicts = decider.decide(resolved)
                rows[i], outcomes[i] = _measure(verdicts, labels)
                home[i] = len(sources)
                advance(1)
            sources.append((fitted, decider))
    return Sweep(
        router=router,
        labels=labels,
        offered=offered,
        grid=dict(zip(names, values_of, strict=True)),
        settings=settings,
        combinations=combinations,
        rows=rows,
        outcomes=[o for o in outcomes if o is not None],
        sources=sources,
        home=home,
    )


def _measure(verdicts: Verdicts, labels: Labels) -> tuple[dict[str, float], _Outcomes]:
    columns = case_columns(verdicts, labels, arguments=False)
    row = {}
    for name in SWEPT:
        known = columns[name][~np.isnan(columns[name])]
        row[name] = float(known.mean()) if len(known) else float("nan")
    row["unrecorded"] = float((verdicts.outcome == UNRECORDED).sum())
    tokens = columns["input_tokens"] + columns["output_tokens"]
    kept = _Outcomes(
        correct=correctness(verdicts, labels),
        outcome=verdicts.outcome,
        wrote=verdicts.table.facts.writes[verdicts.tool] & (verdicts.tool >= 0),
        recalled=verdicts.recalled,
        selected=verdicts.selection_asked,
        tokens=np.nan_to_num(tokens).astype(np.float32) if tokens.any() else None,
    )
    return row, kept


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
        rows: list[dict[str, float]],
        outcomes: list[_Outcomes],
        sources: list[tuple[Router, TableDecider]],
        home: list[int],
    ) -> None:
        self.router = router
        self.labels = labels
        self.offered = offered
        self.grid = grid
        """Setting name to the values tried."""
        self.settings = settings
        self.combinations = combinations
        self._rows = rows
        self._outcomes = outcomes
        self._sources = sources
        self._home = home

    def __len__(self) -> int:
        return len(self.settings)

    def __repr__(self) -> str:
        return f"Sweep({len(self)} settings, {len(self.labels.cases)} cases)"

    def _repr_html_(self) -> str:
        from mono_router.html import sweep_html

        return sweep_html(self)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per combination, in the grid's order: settings, metrics, tool_accuracy's interval."""
        import pandas as pd

        rows = [
            {**combination, **row} for combination, row in zip(self.combinations, self._rows, strict=True)
        ]
        frame = pd.DataFrame(rows)
        low, high = self.interval(np.stack([o.correct for o in self._outcomes]).astype(np.float64))
        place = list(frame.columns).index("tool_accuracy") + 1
        frame.insert(place, "tool_accuracy_low", low)
        frame.insert(place + 1, "tool_accuracy_high", high)
        return frame

    def verdicts(self, i: int) -> Verdicts:
        """Return the verdicts under combination ``i``, replayed."""
        fitted, decider = self._sources[self._home[i]]
        return decider.decide(fitted.resolved(self.settings[i]))

    def report(self, i: int) -> Report:
        """Return the report of combination ``i``, replayed: nothing is scored or asked again."""
        fitted, _ = self._sources[self._home[i]]
        return Report(
            router=fitted.with_settings(self.settings[i]),
            labels=self.labels,
            verdicts=self.verdicts(i),
            offered=self.offered,
            n_dropped=0,
            latencies=None,
        )

    def interval(
        self, values: NDArray[np.float64], weights: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return 95 % bounds of the mean of each row of values (n_settings, n_cases), over groups."""
        codes, n_groups = group_codes(self.labels.groups)
        rows = np.ones(values.shape[1]) if weights is None else weights
        sizes = np.bincount(codes, weights=rows, minlength=n_groups)
        sums = np.stack([np.bincount(codes, weights=v * rows, minlength=n_groups) for v in values])
        if n_groups < 2:
            nothing = np.full(len(values), np.nan)
            return nothing, nothing
        drawn = _weights(n_groups, 0, N_RESAMPLES)
        means = (drawn @ sums.T.astype(np.float32)) / np.maximum(drawn @ sizes.astype(np.float32), 1e-9)[
            :, None
        ]
        low, high = np.quantile(means, [0.025, 0.975], axis=0)
        return low.astype(np.float64), high.astype(np.float64)

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
        if maximize is not None and costs is not None:
            raise ValueError("give maximize or costs, not both")
        maximize = maximize or ("" if costs is not None else "tool_accuracy")
        weights = self._prior_weights(no_tool_prior)
        if costs is not None:
            values = -np.stack([self._cost(o, costs) for o in self._outcomes])
        else:
            values = self._values(maximize)
        reach, spread = self._means(values, weights)
        feasible = np.ones(len(self), dtype=bool)
        for name, (sign, bound) in (subject_to or {}).items():
            if sign not in ("<=", ">="):
                raise ValueError(f"subject_to {name}: must be '<=' or '>=', got {sign!r}")
            low, high = self._bounds(name, weights)
            feasible &= (high <= bound) if sign == "<=" else (low >= bound)
        objective = maximize if costs is None else "cost"
        selected = {
            "objective": objective,
            "subject_to": {name: list(rule) for name, rule in (subject_to or {}).items()},
            "no_tool_prior": no_tool_prior,
            "costs": dataclasses.asdict(costs) if costs is not None else None,
        }
        if not feasible.any():
            wanted = ", ".join(f"{k} {s} {b}" for k, (s, b) in (subject_to or {}).items())
            reason = f"no setting meets {wanted} at the 95 % bound"
            return OperatingPoint(settings=None, reason=reason, selected=selected, valid_for=self._hashes())
        if np.isnan(reach).all():
            raise ValueError(f"{objective} applies to none of these cases")
        if len(self) > 1 and np.nanmax(reach) == np.nanmin(reach):
            raise ValueError(f"every setting has the same {objective}: there is nothing to choose")
        best = int(np.nanargmax(np.where(feasible, reach, -np.inf)))
        close = feasible & (reach >= reach[best] - spread[best])
        frame = self.frame
        spent = frame["recall_rate"].to_numpy() + 1e-9, frame["model_calls"].to_numpy()
        order = np.lexsort((np.arange(len(self)), -reach, spent[1], spent[0]))
        chosen = int(next(i for i in order if close[i]))
        row = {k: v for k, v in frame.iloc[chosen].to_dict().items() if k not in self.grid}
        direction = -1.0 if costs is not None else 1.0
        figures = {
            "value": direction * float(reach[chosen]),
            "best": direction * float(reach[best]),
            "standard_error": float(spread[best]),
            "n": len(self.labels.cases),
            "metrics": row,
        }
        cheaper = "the cheapest within one standard error of the best"
        return OperatingPoint(
            settings=self.settings[chosen],
            changes=self.combinations[chosen],
            reason=cheaper if chosen != best else "the best",
            selected={**selected, **figures},
            valid_for=self._hashes(),
            router=self._sources[self._home[chosen]][0],
        )

    def _prior_weights(self, prior: float | None) -> NDArray[np.float64]:
        n = len(self.labels.cases)
        if prior is None:
            return np.ones(n)
        if not 0 < prior < 1:
            raise ValueError(f"no_tool_prior must be in (0, 1), got {prior}")
        wants = self.labels.wants_tool
        share = float((~wants).mean())
        if share in (0.0, 1.0):
            raise ValueError("no_tool_prior needs cases with and without a right tool")
        return np.where(wants, (1 - prior) / (1 - share), prior / share)

    def _values(self, metric: str) -> NDArray[np.float64]:
        if metric == "tool_accuracy":
            return np.stack([o.correct for o in self._outcomes]).astype(np.float64)
        if metric == "recall_rate":
            return np.stack([o.recalled for o in self._outcomes]).astype(np.float64)
        if metric not in SWEPT:
            raise ValueError(f"unknown metric {metric!r}, known: {', '.join(SWEPT)}")
        return np.stack(
            [case_columns(self.verdicts(i), self.labels, arguments=False)[metric] for i in range(len(self))]
        )

    def _means(
        self, values: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weighted mean and its standard error over groups, per combination."""
        codes, n_groups = group_codes(self.labels.groups)
        means, errors = np.full(len(values), np.nan), np.zeros(len(values))
        for i, row in enumerate(values):
            known = ~np.isnan(row)
            rows = np.where(known, weights, 0.0)
            total = rows.sum()
            if total <= 0:
                continue
            filled = np.where(known, row, 0.0)
            means[i] = (filled * rows).sum() / total
            residuals = np.bincount(codes, weights=(filled - means[i]) * rows, minlength=n_groups)
            errors[i] = np.sqrt((residuals**2).sum()) / total
        return means, errors

    def _bounds(
        self, name: str, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        means, errors = self._means(self._values(name), weights)
        return means - Z95 * errors, means + Z95 * errors

    def _cost(self, outcomes: _Outcomes, costs: Costs) -> NDArray[np.float64]:
        wants = self.labels.wants_tool
        called = (outcomes.outcome == CODES["call"]) | (outcomes.outcome == CODES["ask"])
        shown = outcomes.outcome == CODES["ambiguous"]
        wrong = ~outcomes.correct
        price = costs.wrong_tool * (wrong & wants & (called | shown))
        price = price + costs.missed_tool * (wrong & wants & ~called & ~shown)
        price = price + costs.false_tool * (wrong & ~wants)
        price = price + costs.wrong_write * (wrong & outcomes.wrote)
        asks = (outcomes.outcome == CODES["ask"]) | shown
        price = price + costs.ask * asks + costs.recall_call * outcomes.recalled
        price = price + costs.selection_call * outcomes.selected
        if outcomes.tokens is not None:
            price = price + costs.token * outcomes.tokens
        return np.asarray(price, dtype=np.float64)

    def _hashes(self) -> dict[str, Any]:
        encoder = getattr(self.router.retriever, "encoder", None)
        model = self.router.model
        return {
            "catalog": self.router.catalog.hash,
            "cases": digest(self.labels.cases),
            "encoder": None if encoder is None else encoder.id,
            "model": None if model is None else model.name,
            "prompts": dict(self.router.prompts),
        }


@dataclass
class OperatingPoint:
    """Settings that were chosen on dev, with what they are valid for."""

    settings: Settings | None
    """None where nothing qualified; ``reason`` says why."""
    reason: str
    selected: Mapping[str, Any]
    """Objective, constraints and the figures on the cases it was chosen on: *selected*, no estimate."""
    valid_for: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """The swept settings and their chosen values."""
    n_looks: int = 0
    """How often the point was reported on."""
    router: Router | None = field(default=None, repr=False, compare=False)

    def report(self, router: Router, cases: Sequence[Case], **options: Any) -> Report:
        """Return the estimate: the report of these settings on cases that did not choose them.

        Raises
        ------
        ValueError
            If nothing qualified, or the point was chosen on these very cases.
        """
        if self.settings is None:
            raise ValueError(f"there is no operating point: {self.reason}")
        if digest(list(cases)) == self.valid_for["cases"]:
            raise ValueError("the point was chosen on these cases: report on others")
        self.n_looks += 1
        report = evaluate(router.with_settings(self.settings), cases, **options)
        report.selected_on = self.valid_for["cases"]
        return report

    def stale(self, router: Router) -> list[str]:
        """Return what has changed since the point was chosen: catalog, encoder, model, prompts."""
        encoder = getattr(router.retriever, "encoder", None)
        now = {
            "catalog": router.catalog.hash,
            "encoder": None if encoder is None else encoder.id,
            "model": None if router.model is None else router.model.name,
            "prompts": dict(router.prompts),
        }
        return [name for name, value in now.items() if self.valid_for.get(name) != value]

    def save(self, path: str | Path) -> None:
        """Write the point as JSON."""
        record = {
            "schema": 1,
            "settings": None if self.settings is None else self.settings.to_dict(),
            "changes": dict(self.changes),
            "reason": self.reason,
            "selected": self.selected,
            "valid_for": self.valid_for,
            "n_looks": self.n_looks,
        }
        Path(path).write_text(canonical_json(_without_nan(record)) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> OperatingPoint:
        """Return a saved point; :meth:`stale` tells whether it still fits a router.

        Raises
        ------
        ValueError
            If the file is of a newer schema.
        """
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        if record["schema"] > 1:
            raise ValueError(f"{path}: schema {record['schema']} is newer than 1")
        settings = None if record["settings"] is None else Settings().replace(record["settings"])
        return cls(
            settings=settings,
            reason=record["reason"],
            selected=record["selected"],
            valid_for=record["valid_for"],
            changes=record["changes"],
            n_looks=record["n_looks"],
        )

    def _repr_html_(self) -> str:
        from mono_router.html import point_html

        return point_html(self)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and np.isnan(value):
        return "nan"
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, (list, tuple)) else value
