"""Plots of results: each function draws one result on an axes and returns the artists it made.

Nothing is computed here: figures come from a sweep's frame, a report or :mod:`mono_router.lab.curves`.
Axes carry units and n, intervals are drawn where there are any, the chosen point is on its curve, and
what is simulated says so. No style is set globally and nothing is shown; colours are those of Okabe and
Ito (2008), which colour-blind readers can tell apart.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router.lab.curves import (
    SettingScale,
    confusions,
    held_combination,
    held_rows,
    reliability_curve,
    risk_coverage_curve,
    setting_key,
    sweep_column,
)
from mono_router.records import canonical_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from mono_router.lab.evaluation import Report
    from mono_router.lab.tuning import OperatingPoint, Sweep

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#666666"
_BAND: Any = {"alpha": 0.18, "linewidth": 0}
_MARK: Any = {"marker": "D", "markersize": 8, "fillstyle": "none", "zorder": 5}
_PER_MESSAGE = ("model_recall_calls", "model_calls", "input_tokens", "output_tokens", "cost_usd")
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


def plot_threshold(
    sweep: Sweep,
    setting: str,
    metrics: Sequence[str] = ("tool_accuracy", "recall_rate"),
    *,
    point: OperatingPoint | None = None,
    ax: Axes | None = None,
) -> Artists:
    """Draw metrics over one swept setting, the others at the point's values or the best combination's.

    Raises
    ------
    ValueError
        If the setting or a metric was not swept, or the point is of another grid.
    """
    ax = _axes(ax)
    fixed = held_combination(sweep, point)
    if setting not in sweep.grid:
        raise ValueError(f"setting must be one of {', '.join(sweep.grid)}, got {setting!r}")
    rows = held_rows(sweep, fixed, free=(setting,))
    scale = SettingScale([sweep.combinations[i][setting] for i in rows])
    rows = [rows[i] for i in scale.order]
    lines, bands = {}, {}
    for name, color in zip(metrics, itertools.cycle(COLORS), strict=False):
        values = sweep_column(sweep, name)[rows]
        style: Any = {
            "color": color,
            "marker": "o",
            "markersize": 4,
            "linestyle": "-" if scale.numeric else "",
        }
        (lines[name],) = ax.plot(scale.gapped(scale.places), scale.gapped(values), label=_text(name), **style)
        if name == "tool_accuracy":
            low, high = (sweep_column(sweep, f"{name}_{side}")[rows] for side in ("low", "high"))
            bands[name] = _band(ax, scale, low, high, color)
    mark = None
    if point is not None and point.settings is not None:
        mark = _mark(ax, scale.place_of(fixed[setting]), point, metrics)
    _ticks(ax, scale)
    others = ", ".join(f"{n} = {canonical_json(v)}" for n, v in fixed.items() if n != setting)
    ax.set_xlabel(_text(setting))
    ax.set_ylabel(" / ".join(dict.fromkeys(_unit(name) for name in metrics)))
    if not any(name in _PER_MESSAGE for name in metrics):
        ax.set_ylim(-0.02, 1.02)
    _title(ax, f"{_size(sweep)}{'; ' + others if others else ''}", sweep.router.simulated)
    ax.legend(frameon=False, fontsize="small")
    return Artists(ax, lines=lines, bands=bands, point=mark)


def plot_heatmap(
    sweep: Sweep,
    x: str,
    y: str,
    metric: str = "tool_accuracy",
    *,
    point: OperatingPoint | None = None,
    ax: Axes | None = None,
) -> Artists:
    """Draw a metric over two swept settings, the others at the point's values or the best combination's.

    Raises
    ------
    ValueError
        If a setting or the metric was not swept, both settings are one, or the point is of another grid.
    """
    ax = _axes(ax)
    fixed = held_combination(sweep, point)
    if x == y or x not in sweep.grid or y not in sweep.grid:
        raise ValueError(f"x and y must be two of {', '.join(sweep.grid)}, got {x!r} and {y!r}")
    across, down = ([setting_key(value) for value in sweep.grid[name]] for name in (x, y))
    values, found = np.full((len(down), len(across)), np.nan), sweep_column(sweep, metric)
    for i in held_rows(sweep, fixed, free=(x, y)):
        own = sweep.combinations[i]
        values[down.index(setting_key(own[y])), across.index(setting_key(own[x]))] = found[i]
    image = ax.pcolormesh(np.arange(len(across)), np.arange(len(down)), values, cmap="cividis")
    ax.set_xticks(range(len(across)), [_text(v) for v in across], rotation=45 if len(across) > 8 else 0)
    ax.set_yticks(range(len(down)), [_text(v) for v in down])
    if values.size <= 80 and np.isfinite(values).any():
        middle = (np.nanmax(values) + np.nanmin(values)) / 2
        for (row, column), value in np.ndenumerate(values):
            color = "black" if value > middle else "white"
            ax.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize="small", color=color)
    mark = None
    if point is not None and point.settings is not None:
        place = across.index(setting_key(fixed[x])), down.index(setting_key(fixed[y]))
        size: Any = {"marker": "s", "markersize": 22, "fillstyle": "none", "markeredgewidth": 2}
        (mark,) = ax.plot(*place, color=COLORS[1], linestyle="", label="selected", **size)
    ax.set_xlabel(_text(x))
    ax.set_ylabel(_text(y))
    ax.figure.colorbar(image, ax=ax, label=f"{_text(metric)} ({_unit(metric)})")
    _title(ax, _size(sweep) + ("; frame: selected on dev" if mark else ""), sweep.router.simulated)
    return Artists(ax, image=image, point=mark)


def plot_pareto(
    sweep: Sweep,
    cost: str = "recall_rate",
    value: str = "tool_accuracy",
    *,
    point: OperatingPoint | None = None,
    ax: Axes | None = None,
) -> Artists:
    """Draw every combination by its cost and value, and the front that no other beats in both.

    Raises
    ------
    ValueError
        If a metric was not swept, or the point is of another grid.
    """
    ax = _axes(ax)
    costs, values = sweep_column(sweep, cost), sweep_column(sweep, value)
    front = sweep.pareto(cost=cost, value=value)
    dots: Any = {"linestyle": "", "marker": ".", "color": GREY, "alpha": 0.45}
    (every,) = ax.plot(costs, values, label="combinations", **dots)
    (best,) = ax.step(
        front[cost], front[value], where="post", marker="o", color=COLORS[0], label="Pareto front"
    )
    bands = {}
    if value == "tool_accuracy":
        low, high = front["tool_accuracy_low"], front["tool_accuracy_high"]
        bars = np.maximum(0.0, [front[value] - low, high - front[value]])
        bands["Pareto front"] = ax.errorbar(
            front[cost], front[value], yerr=bars, fmt="none", color=COLORS[0], capsize=3, alpha=0.6
        )
    mark = None
    if point is not None and point.settings is not None:
        held_combination(sweep, point)
        mark = _mark(ax, float(point.selected["metrics"][cost]), point, (value,))
    ax.set_xlabel(f"{_text(cost)} ({_unit(cost)})")
    ax.set_ylabel(f"{_text(value)} ({_unit(value)})")
    _title(ax, f"{len(sweep)} combinations, {_size(sweep)}", sweep.router.simulated)
    ax.legend(frameon=False, fontsize="small")
    return Artists(ax, lines={"combinations": every, "Pareto front": best}, bands=bands, point=mark)


def plot_reliability(report: Report, *, n_bins: int = 15, ax: Axes | None = None) -> Artists:
    """Draw the share of right decisions over the stated confidence, in bins of equal mass."""
    ax = _axes(ax)
    columns = (report.verdicts.confidence, report.columns["tool_accuracy"], report.labels.groups)
    curve = reliability_curve(*columns, n_bins=n_bins)
    (ideal,) = ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
    bars = np.maximum(0.0, [curve.accuracy - curve.low, curve.high - curve.accuracy])
    style: Any = {"color": COLORS[0], "marker": "o", "capsize": 3, "label": "decisions, 95 %"}
    drawn = ax.errorbar(curve.confidence, curve.accuracy, yerr=bars, **style)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="mean confidence", ylabel="share right")
    _title(ax, f"{len(curve.n)} bins of equal mass, n = {curve.n.sum()} cases", report.router.simulated)
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    lines = {"calibrated": ideal, "decisions": drawn.lines[0]}
    return Artists(ax, lines=lines, bands={"decisions": drawn.lines[2][0]})


def plot_risk_coverage(report: Report, *, ax: Axes | None = None) -> Artists:
    """Draw the error rate among the most confident decisions over the share of cases they are."""
    ax = _axes(ax)
    columns = (report.verdicts.confidence, report.columns["tool_accuracy"], report.labels.groups)
    curve = risk_coverage_curve(*columns)
    (line,) = ax.step(curve.coverage, curve.risk, where="post", color=COLORS[0], label="risk")
    style: Any = {"step": "post", "color": COLORS[0], "rasterized": len(curve.coverage) > 1000, **_BAND}
    band = ax.fill_between(curve.coverage, curve.low, curve.high, **style)
    ax.set(xlim=(0, 1.02), ylim=(-0.02, 1.02))
    ax.set(xlabel="coverage (share of cases kept, most confident first)", ylabel="risk (share wrong)")
    n = int(np.isfinite(columns[1]).sum())
    _title(ax, f"n = {n} cases; band: 95 %, pointwise", report.router.simulated)
    return Artists(ax, lines={"risk": line}, bands={"risk": band})


def plot_confusions(report: Report, *, most: int = 15, ax: Axes | None = None) -> Artists:
    """Draw how often what was expected became something else, commonest first."""
    ax = _axes(ax)
    pairs = confusions(report)
    shown = pairs[:most]
    counts = [pair.n_cases for pair in shown]
    bars = ax.barh(range(len(shown)), counts, color=COLORS[0])
    ax.set_yticks(
        range(len(shown)), [f"{_text(p.expected, 40)} → {_text(p.got, 40)}" for p in shown], fontsize="small"
    )
    ax.invert_yaxis()
    ax.bar_label(bars, padding=3, fontsize="small")
    total = sum(pair.n_cases for pair in pairs)
    ax.set(xlabel=f"cases ({sum(counts)} of {total} wrong, n = {len(report)})", ylabel="expected → got")
    _title(ax, "", report.router.simulated)
    return Artists(ax, bars=tuple(bars))


def plot_scores(
    report: Report, *, score: str = "confidence", n_bins: int = 20, ax: Axes | None = None
) -> Artists:
    """Draw how "confidence" or "p_tool" is distributed over right and wrong decisions.

    Raises
    ------
    ValueError
        If the score is another.
    """
    if score not in ("confidence", "p_tool"):
        raise ValueError(f"score must be 'confidence' or 'p_tool', got {score!r}")
    ax = _axes(ax)
    values, correct = getattr(report.verdicts, score), report.columns["tool_accuracy"]
    edges = np.linspace(0.0, 1.0, n_bins + 1).tolist()
    bars: list[Any] = []
    for name, wanted, color in (("right", 1.0, COLORS[0]), ("wrong", 0.0, COLORS[1])):
        rows = correct == wanted
        label = f"{name} (n = {int(rows.sum())})"
        patches: Any
        _, _, patches = ax.hist(values[rows], bins=edges, color=color, alpha=0.55, label=label)
        bars += list(patches)
    lines = {}
    threshold = report.settings.selection.min_confidence
    if score == "p_tool" and threshold is not None:
        style: Any = {"color": "black", "linestyle": "--", "linewidth": 1}
        lines["min_confidence"] = ax.axvline(threshold, label="selection.min_confidence", **style)
    ax.set(xlabel=f"{score} (probability)", ylabel="cases", xlim=(0, 1))
    _title(ax, f"n = {int(np.isfinite(correct).sum())} cases", report.router.simulated)
    ax.legend(frameon=False, fontsize="small")
    return Artists(ax, lines=lines, bars=tuple(bars))


def plot_languages(
    report: Report, *, metrics: Sequence[str] = ("tool_accuracy", "top1_hit"), ax: Axes | None = None
) -> Artists:
    """Draw metrics by language, with their intervals."""
    ax = _axes(ax)
    frame = report.by("language", metrics).reset_index()
    languages = sorted(frame["language"].unique())
    lines, bands = {}, {}
    for k, (metric, color) in enumerate(zip(metrics, itertools.cycle(COLORS), strict=False)):
        rows = frame[frame["metric"] == metric]
        shift = 0.16 * (k - (len(metrics) - 1) / 2)
        places = [languages.index(language) + shift for language in rows["language"]]
        bars = np.maximum(0.0, [rows["value"] - rows["low"], rows["high"] - rows["value"]])
        drawn = ax.errorbar(
            places, rows["value"], yerr=bars, fmt="o", color=color, capsize=4, label=_text(metric)
        )
        lines[metric], bands[metric] = drawn.lines[0], drawn.lines[2][0]
    sizes = frame.groupby("language")["n"].max()
    ax.set_xticks(range(len(languages)), [f"{_text(name)}\nn = {sizes[name]}" for name in languages])
    ax.set(xlabel="language", ylabel=" / ".join(dict.fromkeys(_unit(name) for name in metrics)))
    ax.set_xlim(-0.5, len(languages) - 0.5)
    if not any(name in _PER_MESSAGE for name in metrics):
        ax.set_ylim(-0.02, 1.02)
    _title(ax, f"n = {len(report)} cases; bars: 95 %", report.router.simulated)
    ax.legend(frameon=False, fontsize="small")
    return Artists(ax, lines=lines, bands=bands)


# --- parts ---------------------------------------------------------------------------------------


def _band(
    ax: Axes, scale: SettingScale, low: NDArray[np.float64], high: NDArray[np.float64], color: str
) -> Any:
    style: Any = {"color": color, "alpha": 0.3, "linewidth": 2}
    if not scale.numeric:
        return ax.vlines(scale.places, low, high, **style)
    if scale.has_null:
        ax.vlines(scale.places[-1], low[-1], high[-1], **style)
    return ax.fill_between(scale.places, low, high, where=scale.places != scale.null, color=color, **_BAND)


def _ticks(ax: Axes, scale: SettingScale) -> None:
    if scale.has_null:
        ticks = [t for t in ax.get_xticks() if scale.places[0] <= t < scale.places[-1]]
        ax.set_xticks([*ticks, scale.null], [*(f"{t:g}" for t in ticks), "null"])
    elif not scale.numeric:
        ax.set_xticks(scale.places, [_text(key, 24) for key in scale.keys])


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    _, made = pyplot.subplots(layout="constrained")
    return made


def _mark(ax: Axes, x: float, point: OperatingPoint, metrics: Sequence[str]) -> Any:
    """The chosen point, with its interval where it has one."""
    figures = {name: float(value) for name, value in point.selected["metrics"].items()}
    places, values = [x] * len(metrics), [figures[name] for name in metrics]
    (mark,) = ax.plot(places, values, linestyle="", color="black", label="selected on dev", **_MARK)
    if "tool_accuracy" in metrics:
        low, high = figures["tool_accuracy_low"], figures["tool_accuracy_high"]
        ax.vlines(x, low, high, color="black", linewidth=1.2)
    return mark


def _unit(metric: str) -> str:
    if metric not in _PER_MESSAGE:
        return "share of messages" if metric == "recall_rate" else "share of cases"
    units = {"cost_usd": "USD", "input_tokens": "tokens", "output_tokens": "tokens"}
    return f"{units.get(metric, 'calls')} per message"


def _size(sweep: Sweep) -> str:
    unrecorded = int(sweep.frame["unrecorded"].max())
    left_out = f", up to {unrecorded} unrecorded" if unrecorded else ""
    return f"n = {len(sweep.labels.cases)} cases in {len(set(sweep.labels.groups.tolist()))} groups{left_out}"


def _title(ax: Axes, text: str, simulated: bool) -> None:
    parts = ["SIMULATED"] * simulated + [text] * bool(text)
    ax.set_title(_text(" · ".join(parts), 110), fontsize="medium")


def _text(value: Any, most: int = 60) -> str:
    """Text from data as matplotlib may draw it: no markup of formulas, no control characters, not endless."""
    text = _UNPRINTABLE.sub(" ", str(value))
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")
