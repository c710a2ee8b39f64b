"""Plots of results: each function draws one result on an axes and returns the artists it made.

Nothing is computed here: figures come from a sweep's frame, a report or :mod:`mono_router.lab.curves`.
Axes carry units and n, intervals are drawn where there are any, the chosen point is on its curve, and
what is simulated says so. No style is set globally and nothing is shown; colours are those of Okabe and
Ito (2008), which colour-blind readers can tell apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router.lab import drawing
from mono_router.lab.confusion import confusions
from mono_router.lab.curves import (
    SettingScale,
    held_combination,
    held_rows,
    reliability_curve,
    risk_coverage_curve,
    setting_key,
    sweep_column,
    swept_bounds,
)
from mono_router.lab.drawing import Artists
from mono_router.records import canonical_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mono_router.lab.diagnosis import Diagnosis
    from mono_router.lab.evaluation import Report
    from mono_router.lab.tuning import OperatingPoint, Sweep


def plot_threshold(
    sweep: Sweep,
    setting: str,
    metrics: Sequence[str] = ("tool_accuracy", "recall_rate"),
    *,
    point: OperatingPoint | None = None,
    ax: Axes | None = None,
) -> Artists:
    """Draw metrics over one swept setting, the others at the point's values or the best combination's.

    Bands are 95 % intervals.

    Raises
    ------
    ValueError
        If the setting or a metric was not swept, or the point is of another grid.
    """
    ax = drawing.axes(ax)
    fixed = held_combination(sweep, point)
    if setting not in sweep.grid:
        raise ValueError(f"setting must be one of {', '.join(sweep.grid)}, got {setting!r}")
    rows = held_rows(sweep, fixed, free=(setting,))
    scale = SettingScale([sweep.combinations[i][setting] for i in rows])
    rows = [rows[i] for i in scale.order]
    lines, bands = {}, {}
    for name, color in zip(metrics, itertools.cycle(drawing.COLORS), strict=False):
        values = sweep_column(sweep, name)[rows]
        style: Any = {
            "color": color,
            "marker": "o",
            "markersize": 4,
            "linestyle": "-" if scale.numeric else "",
        }
        (lines[name],) = ax.plot(
            scale.gapped(scale.places), scale.gapped(values), label=drawing.text(name), **style
        )
        bands[name] = drawing.band(ax, scale, *swept_bounds(sweep, name, rows), color)
    mark = None
    if point is not None and point.settings is not None:
        mark = drawing.mark(ax, scale.place_of(fixed[setting]), point, metrics)
    drawing.ticks(ax, scale)
    others = ", ".join(f"{n} = {canonical_json(v)}" for n, v in fixed.items() if n != setting)
    ax.set_xlabel(drawing.text(setting))
    ax.set_ylabel(" / ".join(dict.fromkeys(drawing.unit(name) for name in metrics)))
    if not any(name in drawing.PER_MESSAGE for name in metrics):
        ax.set_ylim(-0.02, 1.02)
    drawing.title(ax, f"{drawing.size(sweep)}{'; ' + others if others else ''}", sweep.router.simulated)
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
    ax = drawing.axes(ax)
    fixed = held_combination(sweep, point)
    if x == y or x not in sweep.grid or y not in sweep.grid:
        raise ValueError(f"x and y must be two of {', '.join(sweep.grid)}, got {x!r} and {y!r}")
    across, down = ([setting_key(value) for value in sweep.grid[name]] for name in (x, y))
    values, found = np.full((len(down), len(across)), np.nan), sweep_column(sweep, metric)
    for i in held_rows(sweep, fixed, free=(x, y)):
        own = sweep.combinations[i]
        values[down.index(setting_key(own[y])), across.index(setting_key(own[x]))] = found[i]
    image = ax.pcolormesh(np.arange(len(across)), np.arange(len(down)), values, cmap="cividis")
    ax.set_xticks(
        range(len(across)), [drawing.text(v) for v in across], rotation=45 if len(across) > 8 else 0
    )
    ax.set_yticks(range(len(down)), [drawing.text(v) for v in down])
    if values.size <= 80 and np.isfinite(values).any():
        middle = (np.nanmax(values) + np.nanmin(values)) / 2
        for (row, column), value in np.ndenumerate(values):
            color = "black" if value > middle else "white"
            ax.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize="small", color=color)
    mark = None
    if point is not None and point.settings is not None:
        column, row = across.index(setting_key(fixed[x])), down.index(setting_key(fixed[y]))
        left, right, low, high = column - 0.5, column + 0.5, row - 0.5, row + 0.5
        frame = [left, right, right, left, left], [low, low, high, high, low]
        (mark,) = ax.plot(*frame, color=drawing.COLORS[1], linewidth=3, label="selected", clip_on=False)
    ax.set_xlabel(drawing.text(x))
    ax.set_ylabel(drawing.text(y))
    ax.figure.colorbar(image, ax=ax, label=f"{drawing.text(metric)} ({drawing.unit(metric)})")
    drawing.title(
        ax, drawing.size(sweep) + ("; frame: selected on dev" if mark else ""), sweep.router.simulated
    )
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
    ax = drawing.axes(ax)
    costs, values = sweep_column(sweep, cost), sweep_column(sweep, value)
    front = sweep.pareto(cost=cost, value=value)
    dots: Any = {"linestyle": "", "marker": ".", "color": drawing.GREY, "alpha": 0.45}
    (every,) = ax.plot(costs, values, label="combinations", **dots)
    (best,) = ax.step(
        front[cost], front[value], where="post", marker="o", color=drawing.COLORS[0], label="Pareto front"
    )
    bands = {}
    if value == "tool_accuracy":
        low, high = front["tool_accuracy_low"], front["tool_accuracy_high"]
        bars = np.maximum(0.0, [front[value] - low, high - front[value]])
        bands["Pareto front"] = ax.errorbar(
            front[cost], front[value], yerr=bars, fmt="none", color=drawing.COLORS[0], capsize=3, alpha=0.6
        )
    mark = None
    if point is not None and point.settings is not None:
        held_combination(sweep, point)
        mark = drawing.mark(ax, float(point.selected["metrics"][cost]), point, (value,))
    ax.set_xlabel(f"{drawing.text(cost)} ({drawing.unit(cost)})")
    ax.set_ylabel(f"{drawing.text(value)} ({drawing.unit(value)})")
    drawing.title(ax, f"{len(sweep)} combinations, {drawing.size(sweep)}", sweep.router.simulated)
    ax.legend(frameon=False, fontsize="small")
    return Artists(ax, lines={"combinations": every, "Pareto front": best}, bands=bands, point=mark)


def plot_reliability(report: Report, *, n_bins: int = 15, ax: Axes | None = None) -> Artists:
    """Draw the share of right decisions over the stated confidence, in bins of equal mass."""
    ax = drawing.axes(ax)
    columns = (report.verdicts.confidence, report.columns["tool_accuracy"], report.labels.groups)
    curve = reliability_curve(*columns, n_bins=n_bins)
    (ideal,) = ax.plot([0, 1], [0, 1], color=drawing.GREY, linestyle="--", linewidth=1, label="calibrated")
    bars = np.maximum(0.0, [curve.accuracy - curve.low, curve.high - curve.accuracy])
    style: Any = {"color": drawing.COLORS[0], "marker": "o", "capsize": 3, "label": "decisions, 95 %"}
    drawn = ax.errorbar(curve.confidence, curve.accuracy, yerr=bars, **style)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="mean confidence", ylabel="share right")
    drawing.title(
        ax, f"{len(curve.n)} bins of equal mass, n = {curve.n.sum()} cases", report.router.simulated
    )
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    lines = {"calibrated": ideal, "decisions": drawn.lines[0]}
    return Artists(ax, lines=lines, bands={"decisions": drawn.lines[2][0]})


def plot_risk_coverage(report: Report, *, ax: Axes | None = None) -> Artists:
    """Draw the error rate among the most confident decisions over the share of cases they are."""
    ax = drawing.axes(ax)
    columns = (report.verdicts.confidence, report.columns["tool_accuracy"], report.labels.groups)
    curve = risk_coverage_curve(*columns)
    (line,) = ax.step(curve.coverage, curve.risk, where="post", color=drawing.COLORS[0], label="risk")
    style: Any = {
        "step": "post",
        "color": drawing.COLORS[0],
        "rasterized": len(curve.coverage) > 1000,
        **drawing.BAND,
    }
    band = ax.fill_between(curve.coverage, curve.low, curve.high, **style)
    ax.set(xlim=(0, 1.02), ylim=(-0.02, 1.02))
    ax.set(xlabel="coverage (share of cases kept, most confident first)", ylabel="risk (share wrong)")
    n = int(np.isfinite(columns[1]).sum())
    drawing.title(ax, f"n = {n} cases; band: 95 %, pointwise", report.router.simulated)
    return Artists(ax, lines={"risk": line}, bands={"risk": band})


def plot_confusions(report: Report, *, most: int = 15, ax: Axes | None = None) -> Artists:
    """Draw how often what was expected became something else, commonest first."""
    from matplotlib.ticker import MaxNLocator

    ax = drawing.axes(ax)
    pairs = confusions(report)
    shown = pairs[:most]
    counts = [pair.n_cases for pair in shown]
    bars = ax.barh(range(len(shown)), counts, color=drawing.COLORS[0])
    ax.set_yticks(
        range(len(shown)),
        [f"{drawing.text(p.expected, 40)} → {drawing.text(p.got, 40)}" for p in shown],
        fontsize="small",
    )
    ax.invert_yaxis()
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.bar_label(bars, padding=3, fontsize="small")
    total = sum(pair.n_cases for pair in pairs)
    ax.set(xlabel=f"cases ({sum(counts)} of {total} wrong, n = {len(report)})", ylabel="expected → got")
    drawing.title(ax, "", report.router.simulated)
    return Artists(ax, bars=tuple(bars))


def plot_attribution(diagnosis: Diagnosis, *, ax: Axes | None = None) -> Artists:
    """Draw what each perfect stage adds to the share of right cases, as a waterfall with 95 % intervals."""
    ax = drawing.axes(ax)
    found, report = diagnosis.attribution, diagnosis.report
    tops, gains = found["right"].to_numpy(), found["gain"].to_numpy()
    starts, places = tops - gains, np.arange(1, len(found) + 1)
    first = ax.bar([0], [starts[0]], color=drawing.GREY, width=0.7)
    steps = ax.bar(places, gains, bottom=starts, color=drawing.COLORS[: len(found)], width=0.7)
    bars = np.maximum(0.0, [gains - found["low"], found["high"] - gains])
    drawn = ax.errorbar(places, tops, yerr=bars, fmt="none", ecolor="black", capsize=4, linewidth=1)
    for k, (left, right) in enumerate(itertools.pairwise([starts[0], *tops])):
        ax.plot([k - 0.35, k + 1.35], [left, left], color=drawing.GREY, linewidth=0.8)
        text = f"{100 * (right - left):+.1f}"
        height = max(left, right) + bars[1][k]
        ax.annotate(text, (k + 1, height), xytext=(0, 3), textcoords="offset points", ha="center")
    ax.annotate(f"{100 * starts[0]:.1f}", (0, starts[0]), (0, 3), textcoords="offset points", ha="center")
    ax.set_xticks([0, *places], ["as it is", *(f"perfect\n{stage}" for stage in found.index)])
    ax.set(ylabel="share of cases right", ylim=(0, 1.12))
    unrecorded = int(found["unrecorded"].sum())
    left_out = f"; {unrecorded} not told by the recording, drawn as not gained" if unrecorded else ""
    drawing.title(
        ax, f"n = {int(found['n'].max())} cases; bars: 95 % of the gain{left_out}", report.router.simulated
    )
    return Artists(ax, bars=(*first, *steps), bands={"gain": drawn.lines[2][0]})


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
    ax = drawing.axes(ax)
    values, correct = getattr(report.verdicts, score), report.columns["tool_accuracy"]
    edges = np.linspace(0.0, 1.0, n_bins + 1).tolist()
    bars: list[Any] = []
    for name, wanted, color in (("right", 1.0, drawing.COLORS[0]), ("wrong", 0.0, drawing.COLORS[1])):
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
    drawing.title(ax, f"n = {int(np.isfinite(correct).sum())} cases", report.router.simulated)
    ax.legend(frameon=False, fontsize="small")
    return Artists(ax, lines=lines, bars=tuple(bars))


def plot_languages(
    report: Report, *, metrics: Sequence[str] = ("tool_accuracy", "top1_hit"), ax: Axes | None = None
) -> Artists:
    """Draw metrics by language, with their intervals."""
    ax = drawing.axes(ax)
    frame = report.by("language", metrics).reset_index()
    languages = sorted(frame["language"].unique())
    lines, bands = {}, {}
    for k, (metric, color) in enumerate(zip(metrics, itertools.cycle(drawing.COLORS), strict=False)):
        rows = frame[frame["metric"] == metric]
        shift = 0.16 * (k - (len(metrics) - 1) / 2)
        places = [languages.index(language) + shift for language in rows["language"]]
        bars = np.maximum(0.0, [rows["value"] - rows["low"], rows["high"] - rows["value"]])
        drawn = ax.errorbar(
            places, rows["value"], yerr=bars, fmt="o", color=color, capsize=4, label=drawing.text(metric)
        )
        lines[metric], bands[metric] = drawn.lines[0], drawn.lines[2][0]
    sizes = frame.groupby("language")["n"].max()
    ax.set_xticks(range(len(languages)), [f"{drawing.text(name)}\nn = {sizes[name]}" for name in languages])
    ax.set(xlabel="language", ylabel=" / ".join(dict.fromkeys(drawing.unit(name) for name in metrics)))
    ax.set_xlim(-0.5, len(languages) - 0.5)
    if not any(name in drawing.PER_MESSAGE for name in metrics):
        ax.set_ylim(-0.02, 1.02)
    drawing.title(ax, f"n = {len(report)} cases; bars: 95 %", report.router.simulated)
    ax.legend(frameon=False, fontsize="small")
    return Artists(ax, lines=lines, bands=bands)
