"""Drawing: what the plots share, from axes and units to how texts from data may be drawn."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from mono_router.lab.curves import SettingScale
    from mono_router.lab.tuning import OperatingPoint, Sweep

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#666666"
BAND: Any = {"alpha": 0.18, "linewidth": 0}
_MARK: Any = {"marker": "D", "markersize": 8, "fillstyle": "none", "zorder": 5}
_TOKENS = ("input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens")
PER_MESSAGE = ("model_recall_calls", "model_calls", *_TOKENS, "cost_usd")
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


@dataclass(frozen=True)
class Artists:
    """What a plot drew, for restyling and for tests."""

    ax: Axes
    lines: Mapping[str, Any] = field(default_factory=dict)
    """Line2D by name."""
    bands: Mapping[str, Any] = field(default_factory=dict)
    """Intervals by name: a filled band, or the lines of error bars."""
    bars: tuple[Any, ...] = ()
    """Rectangles, in drawing order."""
    image: Any = None
    """The mesh of a heat map."""
    point: Any = None
    """Marker of the chosen operating point."""

    def __repr__(self) -> str:
        return f"Artists({self.ax.get_title() or ', '.join(self.lines)})"


def band(
    ax: Axes, scale: SettingScale, low: NDArray[np.float64], high: NDArray[np.float64], color: str
) -> Any:
    """Draw an interval over a scale: filled where values are joined, a line each where they are not."""
    style: Any = {"color": color, "alpha": 0.3, "linewidth": 2}
    if not scale.numeric:
        return ax.vlines(scale.places, low, high, **style)
    if scale.has_null:
        ax.vlines(scale.places[-1], low[-1], high[-1], **style)
    return ax.fill_between(scale.places, low, high, where=scale.places != scale.null, color=color, **BAND)


def ticks(ax: Axes, scale: SettingScale) -> None:
    """Name what the numbers of an axis do not say: null, and values that are words."""
    if scale.has_null:
        ticks = [t for t in ax.get_xticks() if scale.places[0] <= t < scale.places[-1]]
        ax.set_xticks([*ticks, scale.null], [*(f"{t:g}" for t in ticks), "null"])
    elif not scale.numeric:
        ax.set_xticks(scale.places, [text(key, 24) for key in scale.keys])


def axes(ax: Axes | None) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    _, made = pyplot.subplots(layout="constrained")
    return made


def mark(ax: Axes, x: float, point: OperatingPoint, metrics: Sequence[str]) -> Any:
    """Draw the chosen point, with its interval where it has one."""
    figures = {name: float(value) for name, value in point.selected["metrics"].items()}
    places, values = [x] * len(metrics), [figures[name] for name in metrics]
    (mark,) = ax.plot(places, values, linestyle="", color="black", label="selected on dev", **_MARK)
    if "tool_accuracy" in metrics:
        low, high = figures["tool_accuracy_low"], figures["tool_accuracy_high"]
        ax.vlines(x, low, high, color="black", linewidth=1.2)
    return mark


def unit(metric: str) -> str:
    """Return what a metric is counted in.

    >>> unit("tool_accuracy"), unit("model_calls")
    ('share of cases', 'calls per message')
    """
    if metric not in PER_MESSAGE:
        return "share of messages" if metric == "recall_rate" else "share of cases"
    units = {"cost_usd": "USD", **dict.fromkeys(_TOKENS, "tokens")}
    return f"{units.get(metric, 'calls')} per message"


def size(sweep: Sweep) -> str:
    """Return n and groups of a sweep's cases."""
    unrecorded = int(sweep.frame["unrecorded"].max())
    left_out = f", up to {unrecorded} unrecorded" if unrecorded else ""
    return f"n = {len(sweep.labels.cases)} cases in {len(set(sweep.labels.groups.tolist()))} groups{left_out}"


def title(ax: Axes, words: str, simulated: bool) -> None:
    """Set the title, which says what is simulated."""
    parts = ["SIMULATED"] * simulated + [words] * bool(words)
    ax.set_title("\n".join(textwrap.wrap(text(" · ".join(parts), 140), 68)), fontsize="medium")


def text(value: Any, most: int = 60) -> str:
    """Return text from data as matplotlib may draw it: no formulas, no control characters, not endless."""
    shown = _UNPRINTABLE.sub(" ", str(value))
    return (shown if len(shown) <= most else shown[: most - 1] + "…").replace("$", r"\$")
