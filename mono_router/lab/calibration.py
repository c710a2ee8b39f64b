"""Calibration: from what a decision saw to probabilities that can be read as such.

Fitted here on dev cases, applied in the core: a Router takes the fitted object. Two maps are learned
from the signals of :data:`mono_router.decision.SIGNALS`: P(some tool is right) and P(the first tool of
the ranking is right). The map is the one of several that does best under grouped cross-validation;
keeping the raw figures is one of them, so that calibrating never has to make things worse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mono_router.decision import SIGNALS
from mono_router.decision_table import UNRECORDED
from mono_router.lab.intervals import group_codes

if TYPE_CHECKING:
    from mono_router.lab.evaluation import Report

Method = Literal["auto", "raw", "platt", "isotonic", "signals"]
METHODS: tuple[Method, ...] = ("raw", "platt", "isotonic", "signals")
_EPSILON = 1e-6
N_FOLDS = 5


@dataclass(frozen=True)
class _Map:
    """One fitted map from signals to a probability."""

    method: Method
    column: int
    """Signal that is the raw probability."""
    weights: tuple[float, ...] = ()
    """Bias, then one weight per feature (platt: the raw logit; signals: see :func:`_features`)."""
    knots: tuple[tuple[float, float], ...] = ()
    """Raw and calibrated probability (isotonic)."""

    def apply(self, signals: NDArray[np.float64]) -> NDArray[np.float64]:
        raw = signals[:, self.column]
        if self.method == "raw":
            return raw
        if self.method == "isotonic":
            x, y = np.array(self.knots).T
            stepped: NDArray[np.float64] = np.interp(raw, x, y)
            return stepped
        features = _logit(raw)[:, None] if self.method == "platt" else _features(signals, self.column)
        found: NDArray[np.float64] = _sigmoid(self.weights[0] + features @ np.array(self.weights[1:]))
        return found


def _logit(p: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.clip(p, _EPSILON, 1 - _EPSILON)
    found: NDArray[np.float64] = np.log(clipped) - np.log1p(-clipped)
    return found


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(x, -40, 40)))
    return found


def _features(signals: NDArray[np.float64], column: int) -> NDArray[np.float64]:
    """Logits of the three shares and the scores with their margins, all of like size."""
    shares = [_logit(signals[:, i]) for i in (4, 5, 6)]
    scores = [4 * signals[:, i] for i in range(4)]
    return np.column_stack([*shares, *scores])


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
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Cross-validated Brier score of each method, for both maps."""
    _tool: _Map | None = None
    _first: _Map | None = None

    def __post_init__(self) -> None:
        if self.method not in ("auto", *METHODS):
            raise ValueError(f"method must be auto or one of {', '.join(METHODS)}, got {self.method!r}")
        if self.no_tool_prior is not None and not 0 < self.no_tool_prior < 1:
            raise ValueError(f"no_tool_prior must be in (0, 1), got {self.no_tool_prior}")

    def fit(self, report: Report) -> Calibrator:
        """Learn from a report on dev cases; returns itself.

        Raises
        ------
        ValueError
            If the report's router is calibrated already, holds test cases, or all cases agree.
        """
        if report.router.calibrator is not None:
            raise ValueError("fit needs a report of an uncalibrated router")
        tested = next((case.id for case in report.cases if case.split == "test"), None)
        if tested is not None:
            raise ValueError(f"case {tested} is of the test split: fit on dev")
        verdicts, labels = report.verdicts, report.labels
        kept = verdicts.outcome != UNRECORDED
        signals, wants = verdicts.signals[kept], labels.wants_tool[kept]
        hit = np.nan_to_num(report.columns["top1_hit"][kept]).astype(bool)
        codes, n_groups = group_codes(labels.groups[kept])
        weights = self._weights(wants)
        found = []
        scores: dict[str, Mapping[str, float]] = {}
        for name, target, column in (("p_tool", wants, 4), ("p_first", hit, 5)):
            chosen, scores[name] = self._choose(signals, target, weights, codes, n_groups, column)
            found.append(chosen)
        self.scores = scores
        self._tool, self._first = found
        self.fitted_on = frozenset(case.id for case in report.cases)
        return self

    def _weights(self, wants: NDArray[np.bool_]) -> NDArray[np.float64]:
        share = float((~wants).mean())
        if self.no_tool_prior is None:
            return np.ones(len(wants))
        if share in (0.0, 1.0):
            raise ValueError("no_tool_prior needs cases with and without a right tool")
        return np.where(wants, (1 - self.no_tool_prior) / (1 - share), self.no_tool_prior / share)

    def _choose(
        self,
        signals: NDArray[np.float64],
        target: NDArray[np.bool_],
        weights: NDArray[np.float64],
        codes: NDArray[np.int64],
        n_groups: int,
        column: int,
    ) -> tuple[_Map, dict[str, float]]:
        if target.all() or not target.any():
            return _Map("raw", column), {}
        tried: Sequence[Method] = METHODS if self.method == "auto" else (self.method,)
        fold = np.random.default_rng(0).permutation(n_groups)[codes] % min(N_FOLDS, n_groups)
        scores: dict[str, float] = {}
        for method in tried:
            guess = np.zeros(len(target))
            for one in range(int(fold.max()) + 1):
                inside = fold != one
                if target[inside].all() or not target[inside].any():
                    guess[~inside] = signals[~inside, column]
                    continue
                fitted = _fit(method, signals[inside], target[inside], weights[inside], column)
                guess[~inside] = fitted.apply(signals[~inside])
            scores[method] = float(np.average((guess - target) ** 2, weights=weights))
        best = min(tried, key=lambda method: (scores[method], tried.index(method)))
        return _fit(best, signals, target, weights, column), scores

    def apply(self, signals: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P(some tool is right) and P(the first tool is right), float64 (n,) each.

        Raises
        ------
        ValueError
            If it is not fitted.
        """
        if self._tool is None or self._first is None:
            raise ValueError("Calibrator must be fitted before it is given to a Router")
        tool = self._tool.apply(signals)
        return tool, np.minimum(self._first.apply(signals), tool)

    def save(self, path: str | Path) -> None:
        """Write the fitted maps as JSON."""
        record = {
            "schema": 1,
            "method": self.method,
            "signals": list(SIGNALS),
            "no_tool_prior": self.no_tool_prior,
            "fitted_on": sorted(self.fitted_on),
            "scores": self.scores,
            "maps": [None if m is None else vars(m) for m in (self._tool, self._first)],
        }
        Path(path).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Calibrator:
        """Return a saved calibrator.

        Raises
        ------
        ValueError
            If it was fitted on other signals.
        """
        record: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        if record["schema"] > 1:
            raise ValueError(f"{path}: schema {record['schema']} is newer than 1")
        if record["signals"] != list(SIGNALS):
            raise ValueError(f"{path}: fitted on other signals, {', '.join(record['signals'])}")
        made = cls(
            method=record["method"],
            no_tool_prior=record["no_tool_prior"],
            fitted_on=frozenset(record["fitted_on"]),
        )
        made.scores = record["scores"]
        maps = [
            None
            if m is None
            else _Map(m["method"], m["column"], tuple(m["weights"]), tuple(map(tuple, m["knots"])))
            for m in record["maps"]
        ]
        made._tool, made._first = maps
        return made


def _fit(
    method: Method,
    signals: NDArray[np.float64],
    target: NDArray[np.bool_],
    weights: NDArray[np.float64],
    column: int,
) -> _Map:
    if method == "raw":
        return _Map("raw", column)
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        model.fit(signals[:, column], target.astype(float), sample_weight=weights)
        knots = zip(model.X_thresholds_.tolist(), model.y_thresholds_.tolist(), strict=True)
        return _Map("isotonic", column, knots=tuple(knots))
    from sklearn.linear_model import LogisticRegression

    raw = _logit(signals[:, column])[:, None]
    features = raw if method == "platt" else _features(signals, column)
    model = LogisticRegression(C=1.0, max_iter=1000)
    model.fit(features, target, sample_weight=weights)
    return _Map(method, column, weights=(float(model.intercept_[0]), *model.coef_[0].tolist()))
