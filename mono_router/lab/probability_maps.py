"""Maps from what a decision saw to a probability; :mod:`mono_router.lab.calibration` fits them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["auto", "raw", "platt", "isotonic", "signals"]
METHODS: tuple[Method, ...] = ("raw", "platt", "isotonic", "signals")
_EPSILON = 1e-6


@dataclass(frozen=True)
class Map:
    """One fitted map from signals to a probability."""

    method: Method
    column: int
    """Signal that is the raw probability."""
    weights: tuple[float, ...] = ()
    """Bias, then one weight per feature (platt: the raw logit; signals: see :func:`signal_features`)."""
    knots: tuple[tuple[float, float], ...] = ()
    """Raw and calibrated probability (isotonic)."""

    def apply(self, signals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities (n,) of signals (n, len(SIGNALS))."""
        raw = signals[:, self.column]
        if self.method == "raw":
            return raw
        if self.method == "isotonic":
            x, y = np.array(self.knots).T
            stepped: NDArray[np.float64] = np.interp(raw, x, y)
            return stepped
        features = logit(raw)[:, None] if self.method == "platt" else signal_features(signals)
        found: NDArray[np.float64] = sigmoid(self.weights[0] + features @ np.array(self.weights[1:]))
        return found


@dataclass(frozen=True)
class Maps:
    """The two maps of a calibrator, and what "no tool" is worth."""

    tool: Map
    first: Map
    none_shift: float | None = None
    """Added to the logit of 1 - P(some tool); None: no tool is right exactly where no tool is."""

    def apply(
        self, signals: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return P(some tool), P(first) and the confidence of "no tool", (n,) each."""
        tool, first = self.tool.apply(signals), self.first.apply(signals)
        if self.none_shift is None:
            return tool, np.minimum(first, tool), 1.0 - tool
        return tool, first, sigmoid(self.none_shift - logit(tool))


def logit(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-odds of probabilities, kept off 0 and 1."""
    clipped = np.clip(p, _EPSILON, 1 - _EPSILON)
    found: NDArray[np.float64] = np.log(clipped) - np.log1p(-clipped)
    return found


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of log-odds."""
    found: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(x, -40, 40)))
    return found


def signal_features(signals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logits of the three shares, and the scores with their margins, all of like size."""
    shares = [logit(signals[:, i]) for i in (4, 5, 6)]
    scores = [4 * signals[:, i] for i in range(4)]
    return np.column_stack([*shares, *scores])
