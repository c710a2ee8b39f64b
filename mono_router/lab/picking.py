"""Picking: from the figures of a sweep to one operating point.

Points are chosen on dev and carry the label *selected*: what they show on the cases they were chosen on
is no estimate. A point keeps the hashes that it is valid for, and counts how often it was looked at.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mono_router.branches import CODES
from mono_router.lab.evaluation import Report, evaluate
from mono_router.lab.intervals import Z95, group_codes
from mono_router.lab.metrics import Labels
from mono_router.records import Case, canonical_json, digest
from mono_router.router import Router
from mono_router.settings import Settings

if TYPE_CHECKING:
    from mono_router.lab.tuning import Sweep


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
    """One input or output token, cached or not."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a sweep keeps of each combination and case, arrays (n_settings, n_cases)."""

    correct: NDArray[np.bool_]
    outcome: NDArray[np.int8]
    wrote: NDArray[np.bool_]
    recalled: NDArray[np.bool_]
    selected: NDArray[np.bool_]
    """Whether a model was asked to select."""
    tokens: NDArray[np.float32] | None
    """None where no model was asked."""


def expected_costs(kept: Kept, labels: Labels, costs: Costs) -> NDArray[np.float64]:
    """Return the price of each combination and case, float64 (n_settings, n_cases)."""
    wants = labels.wants_tool
    asks = kept.outcome == CODES["ask"]
    called = asks | (kept.outcome == CODES["call"])
    shown = kept.outcome == CODES["ambiguous"]
    wrong = ~kept.correct
    price = costs.wrong_tool * (wrong & wants & (called | shown))
    price = price + costs.missed_tool * (wrong & wants & ~called & ~shown)
    price = price + costs.false_tool * (wrong & ~wants)
    price = price + costs.wrong_write * (wrong & kept.wrote)
    price = price + costs.ask * (asks | shown) + costs.recall_call * kept.recalled
    price = price + costs.selection_call * kept.selected
    if kept.tokens is not None:
        price = price + costs.token * kept.tokens
    return np.asarray(price, dtype=np.float64)


def prior_weights(wants: NDArray[np.bool_], prior: float | None) -> NDArray[np.float64]:
    """Return the weights (n,) that give messages without a tool the share they have in real traffic.

    Raises
    ------
    ValueError
        If the prior is not in (0, 1), or the cases are of one kind only.

    >>> prior_weights(np.array([True, True, True, False]), 0.5).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    if prior is None:
        return np.ones(len(wants))
    if not 0 < prior < 1:
        raise ValueError(f"no_tool_prior must be in (0, 1), got {prior}")
    share = float((~wants).mean())
    if share in (0.0, 1.0):
        raise ValueError("no_tool_prior needs cases with and without a right tool")
    return np.where(wants, (1 - prior) / (1 - share), prior / share)


def group_means(
    values: NDArray[np.float64], groups: NDArray[np.object_], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weighted mean of each row of values (k, n) and its standard error over groups, (k,) each."""
    codes, n_groups = group_codes(groups)
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


def pick_point(
    sweep: Sweep,
    *,
    maximize: str | None,
    costs: Costs | None,
    subject_to: Mapping[str, tuple[str, float]] | None,
    no_tool_prior: float | None,
) -> OperatingPoint:
    """Return the chosen combination of a sweep; see :meth:`Sweep.pick`."""
    if maximize is not None and costs is not None:
        raise ValueError("give maximize or costs, not both")
    maximize = maximize or ("" if costs is not None else "tool_accuracy")
    labels, rules = sweep.labels, dict(subject_to or {})
    weights = prior_weights(labels.wants_tool, no_tool_prior)
    values = sweep.values(maximize) if costs is None else -expected_costs(sweep.kept, labels, costs)
    reach, spread = group_means(values, labels.groups, weights)
    feasible = np.ones(len(sweep), dtype=bool)
    for name, (sign, bound) in rules.items():
        if sign not in ("<=", ">="):
            raise ValueError(f"subject_to {name}: must be '<=' or '>=', got {sign!r}")
        means, errors = group_means(sweep.values(name), labels.groups, weights)
        feasible &= means + Z95 * errors <= bound if sign == "<=" else means - Z95 * errors >= bound
    objective = maximize if costs is None else "cost"
    selected: dict[str, Any] = {
        "objective": objective,
        "subject_to": {name: list(rule) for name, rule in rules.items()},
        "no_tool_prior": no_tool_prior,
        "costs": dataclasses.asdict(costs) if costs is not None else None,
        "cv": sweep.cv,
    }
    valid_for = {**router_hashes(sweep.router), "cases": digest(labels.cases)}
    if not feasible.any():
        wanted = ", ".join(f"{k} {s} {b}" for k, (s, b) in rules.items())
        reason = f"no setting meets {wanted} at the 95 % bound"
        return OperatingPoint(settings=None, reason=reason, selected=selected, valid_for=valid_for)
    if np.isnan(reach).all():
        raise ValueError(f"{objective} applies to none of these cases")
    if len(sweep) > 1 and np.nanmax(reach) == np.nanmin(reach):
        raise ValueError(f"every setting has the same {objective}: there is nothing to choose")
    best = int(np.nanargmax(np.where(feasible, reach, -np.inf)))
    close = feasible & (reach >= reach[best] - spread[best])
    frame = sweep.frame
    spent = frame["recall_rate"].to_numpy() + 1e-9, frame["model_calls"].to_numpy()
    order = np.lexsort((np.arange(len(sweep)), -reach, spent[1], spent[0]))
    chosen = int(next(i for i in order if close[i]))
    direction = -1.0 if costs is not None else 1.0
    figures = {
        "value": direction * float(reach[chosen]),
        "best": direction * float(reach[best]),
        "standard_error": float(spread[best]),
        "n": len(labels.cases),
        "metrics": {k: v for k, v in frame.iloc[chosen].to_dict().items() if k not in sweep.grid},
    }
    cheaper = "the cheapest within one standard error of the best"
    return OperatingPoint(
        settings=sweep.settings[chosen],
        changes=sweep.combinations[chosen],
        reason=cheaper if chosen != best else "the best",
        selected={**selected, **figures},
        valid_for=valid_for,
    )


def router_hashes(router: Router) -> dict[str, Any]:
    """Return what a router's figures hold for: catalog, encoder, model, prompts."""
    encoder = getattr(router.retriever, "encoder", None)
    return {
        "catalog": router.catalog.hash,
        "encoder": None if encoder is None else encoder.id,
        "model": None if router.model is None else router.model.name,
        "prompts": dict(router.prompts),
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
        now = router_hashes(router)
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
            If the file holds no point, or one of a newer schema.
        """
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: not JSON: {error}") from None
        if not isinstance(record, dict) or not isinstance(record.get("schema"), int):
            raise ValueError(f"{path}: no operating point")
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
