"""Calibration: from what a decision saw to probabilities that can be read as such.

Fitted here on dev cases, applied in the core: a Router takes the fitted object. Two maps are learned from
the signals of :data:`mono_router.decision.SIGNALS`: P(some tool is right) and P(the first tool of the
ranking is right). Of several pairs of maps the one is taken that does best under grouped
cross-validation, among those that worsen neither Brier score nor AURC; keeping the raw figures is one of
them. Where no case is without a right tool, nothing tells when no tool is right: P(some tool) stays raw
for the thresholds, and the confidence of "no tool" is shifted to how rarely that is right on these cases.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mono_router.branches import CODES
from mono_router.decision import SIGNALS
from mono_router.decision_table import UNRECORDED
from mono_router.lab.intervals import group_codes
from mono_router.lab.metrics import aurc, ece
from mono_router.lab.picking import prior_weights
from mono_router.lab.probability_maps import METHODS, Map, Maps, Method, logit, sigmoid, signal_features

if TYPE_CHECKING:
    from mono_router.lab.evaluation import Report

N_FOLDS = 5
TOOL, FIRST = SIGNALS.index("p_tool"), SIGNALS.index("p_first")


@dataclass(frozen=True)
class _Rows:
    """What a fit sees of n cases."""

    signals: NDArray[np.float64]
    wants: NDArray[np.bool_]
    hit: NDArray[np.bool_]
    """Whether the first of the ranking is right."""
    none: NDArray[np.bool_]
    """Whether the selector answered "no tool" itself, whatever the threshold."""
    weights: NDArray[np.float64]
    codes: NDArray[np.int64]

    def where(self, kept: NDArray[np.bool_]) -> _Rows:
        return _Rows(**{name: array[kept] for name, array in vars(self).items()})

    def decided(self, maps: Maps, threshold: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Confidence and correctness (n,) of the decisions that the threshold makes of the maps."""
        tool, first, none = maps.apply(self.signals)
        called = (tool >= threshold) & ~self.none
        return np.where(called, first, none), np.where(called, self.hit, ~self.wants).astype(np.float64)


@dataclass
class Calibrator:
    """Turns raw confidences into probabilities.

    Parameters
    ----------
    method
        "raw" (none), "platt" (logistic in the raw logit; Platt 1999), "isotonic" (Zadrozny and Elkan
        2002), "signals" (logistic in all signals), or "auto": the best by grouped cross-validation.
    no_tool_prior
        Share of no-tool messages in real traffic, in (0, 1); cases are weighted to it. None: as they come.

    Examples
    --------
    ``calibrator = Calibrator(no_tool_prior=0.2).fit(report)``, then
    ``Router(catalog, calibrator=calibrator)``.
    """

    method: Method = "auto"
    no_tool_prior: float | None = None
    fitted_on: frozenset[str] = frozenset()
    """Ids of the cases that it learned from; evaluating on them is refused."""
    fitted_groups: frozenset[str] = frozenset()
    """Groups of those cases."""
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Cross-validated brier, aurc and ece of every pair of methods that was tried, as "tool, first"."""
    _maps: Maps | None = None

    def __post_init__(self) -> None:
        if self.method not in ("auto", *METHODS):
            raise ValueError(f"method must be auto or one of {', '.join(METHODS)}, got {self.method!r}")
        if self.no_tool_prior is not None and not 0 < self.no_tool_prior < 1:
            raise ValueError(f"no_tool_prior must be in (0, 1), got {self.no_tool_prior}")

    @property
    def chosen(self) -> tuple[str, str]:
        """Methods of the two maps: P(some tool), P(first).

        Raises
        ------
        ValueError
            If it is not fitted.
        """
        maps = self._fitted()
        return maps.tool.method, maps.first.method

    def unfitted(self) -> Calibrator:
        """Return a calibrator of the same kind that has learned from nothing."""
        return Calibrator(method=self.method, no_tool_prior=self.no_tool_prior)

    def fit(self, report: Report) -> Calibrator:
        """Learn from a report on dev cases; returns itself.

        Raises
        ------
        ValueError
            If the report's router is calibrated already, or the report holds test cases.
        """
        if report.router.calibrator is not None:
            raise ValueError("fit needs a report of an uncalibrated router")
        tested = next((case.id for case in report.cases if case.split == "test"), None)
        if tested is not None:
            raise ValueError(f"case {tested} is of the test split: fit on dev")
        threshold = float(report.settings.selection.min_confidence or 0.0)
        rows = self._rows(report, threshold)
        methods: Sequence[Method] = METHODS if self.method == "auto" else (self.method,)
        pairs = [
            (one, two)
            for one, two in itertools.product(methods if _both(rows.wants) else METHODS[:1], methods)
            if _both(rows.hit) or two == "raw"
        ] or [("raw", "raw")]
        found = _cross_validated(rows, pairs, threshold) if len(pairs) > 1 else {}
        best = _chosen(found, rows.codes) if found else pairs[0]
        self.scores = {", ".join(pair): one.figures for pair, one in found.items()}
        self._maps = RAW if best == ("raw", "raw") else _fit(rows, *best)
        self.fitted_on = frozenset(case.id for case in report.cases)
        self.fitted_groups = frozenset(case.group for case in report.cases)
        return self

    def _rows(self, report: Report, threshold: float) -> _Rows:
        verdicts, labels = report.verdicts, report.labels
        kept = ~np.isin(verdicts.outcome, (UNRECORDED, CODES["rejected"], CODES["error"]))
        codes, _ = group_codes(labels.groups[kept])
        wants = labels.wants_tool[kept]
        refused = verdicts.outcome[kept] == CODES["no_tool"]
        return _Rows(
            signals=verdicts.signals[kept],
            wants=wants,
            hit=np.nan_to_num(report.columns["top1_hit"][kept]).astype(bool),
            none=refused & (verdicts.p_tool[kept] >= threshold),
            weights=prior_weights(wants, self.no_tool_prior),
            codes=codes,
        )

    def _fitted(self) -> Maps:
        if self._maps is None:
            raise ValueError("Calibrator must be fitted before it is given to a Router")
        return self._maps

    def apply(
        self, signals: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return P(some tool is right), P(the first is) and the confidence of "no tool", float64 (n,) each.

        Raises
        ------
        ValueError
            If it is not fitted.
        """
        return self._fitted().apply(signals)

    def save(self, path: str | Path) -> None:
        """Write the fitted maps as JSON."""
        maps = self._maps
        record = {
            "schema": 2,
            "method": self.method,
            "signals": list(SIGNALS),
            "no_tool_prior": self.no_tool_prior,
            "fitted_on": sorted(self.fitted_on),
            "fitted_groups": sorted(self.fitted_groups),
            "scores": self.scores,
            "maps": None if maps is None else [vars(maps.tool), vars(maps.first)],
            "none_shift": None if maps is None else maps.none_shift,
        }
        Path(path).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Calibrator:
        """Return a saved calibrator.

        Raises
        ------
        ValueError
            If it is of another schema, or was fitted on other signals.
        """
        record: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        if record["schema"] != 2:
            raise ValueError(f"{path}: schema {record['schema']} is not 2: fit the calibrator again")
        if record["signals"] != list(SIGNALS):
            raise ValueError(f"{path}: fitted on other signals, {', '.join(record['signals'])}")
        made = cls(
            method=record["method"],
            no_tool_prior=record["no_tool_prior"],
            fitted_on=frozenset(record["fitted_on"]),
            fitted_groups=frozenset(record["fitted_groups"]),
        )
        made.scores = record["scores"]
        if record["maps"] is not None:
            tool, first = (
                Map(m["method"], m["column"], tuple(m["weights"]), tuple(map(tuple, m["knots"])))
                for m in record["maps"]
            )
            made._maps = Maps(tool, first, record["none_shift"])
        return made


def _both(flags: NDArray[np.bool_]) -> bool:
    return bool(flags.any() and not flags.all())


def _fit(rows: _Rows, tool: Method, first: Method) -> Maps:
    one = Map("raw", TOOL)
    if _both(rows.wants):
        one = _fit_map(tool, rows, rows.wants, TOOL)
    two = _fit_map(first, rows, rows.hit, FIRST) if _both(rows.hit) else Map("raw", FIRST)
    if not rows.wants.all():
        return Maps(one, two)
    return Maps(one, two, _none_shift(rows.signals[:, TOOL], rows.weights))


def _none_shift(p_tool: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Shift of the logit of 1 - p_tool after which "no tool" is right as rarely as was seen: never in n.

    A change of prior leaves the ratio of likelihoods alone and moves the logit (Elkan 2001; Saerens et al.
    2002); half a case of n + 1 (Jeffreys) stands for none of n.
    """
    from scipy.optimize import brentq

    target, odds = 0.5 / (len(p_tool) + 1), -logit(p_tool)
    return float(brentq(lambda b: np.average(sigmoid(odds + b), weights=weights) - target, -60.0, 60.0))


def _fit_map(method: Method, rows: _Rows, target: NDArray[np.bool_], column: int) -> Map:
    if method == "raw":
        return Map("raw", column)
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        model.fit(rows.signals[:, column], target.astype(float), sample_weight=rows.weights)
        knots = zip(model.X_thresholds_.tolist(), model.y_thresholds_.tolist(), strict=True)
        return Map("isotonic", column, knots=tuple(knots))
    from sklearn.linear_model import LogisticRegression

    features = logit(rows.signals[:, column])[:, None] if method == "platt" else signal_features(rows.signals)
    model = LogisticRegression(C=1.0, max_iter=1000)
    model.fit(features, target, sample_weight=rows.weights)
    return Map(method, column, weights=(float(model.intercept_[0]), *model.coef_[0].tolist()))


@dataclass(frozen=True)
class _Tried:
    """A pair of methods under cross-validation."""

    figures: Mapping[str, float]
    """brier, aurc, ece."""
    losses: NDArray[np.float64]
    """Weighted squared error of each case (n,), weights summing to n."""


def _cross_validated(
    rows: _Rows, pairs: Sequence[tuple[Method, Method]], threshold: float
) -> dict[tuple[Method, Method], _Tried]:
    """Try pairs of methods (raw, raw: no calibration at all) on cases that they were not fitted on."""
    n_groups = int(rows.codes.max()) + 1
    n_folds = min(N_FOLDS, n_groups)
    fold = np.random.default_rng(0).permutation(n_groups)[rows.codes] % n_folds
    shares = rows.weights / rows.weights.mean()
    found: dict[tuple[Method, Method], _Tried] = {}
    for pair in pairs:
        confidence, correct = np.zeros(len(fold)), np.zeros(len(fold))
        area = 0.0
        for one in range(n_folds):
            inside, outside = fold != one, fold == one
            maps = RAW if pair == ("raw", "raw") else _fit(rows.where(inside), *pair)
            held = rows.where(outside)
            confidence[outside], correct[outside] = held.decided(maps, threshold)
            # Per fold: maps of two folds put their cases on scales that differ a little.
            area += aurc(confidence[outside], correct[outside], held.weights) * held.weights.sum()
        losses = shares * (confidence - correct) ** 2
        figures = {
            "brier": float(losses.mean()),
            "aurc": float(area / rows.weights.sum()),
            "ece": ece(confidence, correct, rows.weights),
        }
        found[pair] = _Tried(figures, losses)
    return found


RAW = Maps(Map("raw", TOOL), Map("raw", FIRST))
"""No calibration at all."""


def _chosen(found: Mapping[tuple[Method, Method], _Tried], codes: NDArray[np.int64]) -> tuple[Method, Method]:
    """Return the pair of least calibration error among those whose Brier score is near the best.

    Near: within one standard error of the difference, over groups. A pair that has a higher Brier score or
    AURC than no calibration is not taken.
    """
    raw = found["raw", "raw"].figures
    fair = [
        pair
        for pair, one in found.items()
        if all(one.figures[name] <= raw[name] + 1e-12 for name in ("brier", "aurc"))
    ]
    best = min(fair, key=lambda pair: found[pair].figures["brier"])
    near = []
    for pair in fair:
        difference = found[pair].losses - found[best].losses
        sums = np.bincount(codes, weights=difference - difference.mean())
        error = np.sqrt((sums**2).sum()) / len(codes)
        if difference.mean() <= error:
            near.append(pair)
    return min(near, key=lambda pair: found[pair].figures["ece"])
