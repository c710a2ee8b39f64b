"""Markup: the pieces that HTML of results is made of; data becomes markup in one place, :func:`esc`.

Whatever is not :class:`Html` is escaped when it is joined into a fragment. Direction is isolated with
``<bdi>``, and characters that could reorder what stands around them are shown by name. Fragments need no
script and bring a style that reaches nothing outside them; colours follow JupyterLab's theme and stay
readable without one.
"""

from __future__ import annotations

import html as _html
import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mono_router.records import plain

STYLE = """
.mr{font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--jp-ui-font-color1,inherit);
max-width:1080px;overflow:auto hidden}.mr bdi{overflow-wrap:anywhere}.mr code bdi{overflow-wrap:normal}
.mr td:first-child code{white-space:nowrap}
.mr.mr h3{font-size:13px;font-weight:600;margin:12px 0 2px}.mr.mr p{margin:3px 0}
.mr.mr table{border-collapse:collapse;border:0;margin:2px 0 8px;font-size:12px;table-layout:auto}
.mr.mr tr{background:none}.mr.mr td,.mr.mr th{text-align:start;padding:2px 12px 2px 0;border:0;max-width:none;
border-bottom:1px solid rgba(128,128,128,.22);vertical-align:middle;white-space:normal;color:inherit}
.mr.mr th{font-weight:600;color:var(--jp-ui-font-color2,#777)}
.mr .row{display:flex;flex-wrap:wrap;gap:0 44px;align-items:flex-start}
.mr.mr .n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.mr.mr code{background:none;color:inherit;padding:0;
font:12px var(--jp-code-font-family,ui-monospace,monospace)}.mr .quote{font-size:15px}
.mr .muted{color:var(--jp-ui-font-color2,#777)}.mr .head{margin:6px 0;font-size:14px}
.mr.mr .head code{font-size:14px}
.mr .grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(380px,1fr));gap:8px;margin:8px 0}
.mr .card{border:1px solid rgba(128,128,128,.35);border-radius:6px;padding:6px 10px;min-width:0}
.mr.mr .card h3{margin:0}.mr.mr .card table{width:100%}.mr.mr .card td:last-child{padding-right:0}
.mr .badge{display:inline-block;border-radius:9px;padding:0 8px;font-size:11px;line-height:17px;color:#fff;
background:#666}.mr .ok{background:#2c7a3f}.mr .warn{background:#9a5b00}.mr .bad{background:#b3261e}
.mr .info{background:#1f6aa5}.mr .bar{position:relative;display:inline-block;width:90px;height:9px;
background:rgba(128,128,128,.2);vertical-align:middle}.mr .bar i{position:absolute;inset:0 auto 0 0;
background:var(--jp-brand-color1,#1f77b4)}.mr .bar b{position:absolute;top:-3px;bottom:-3px;width:2px;
background:#d55e00}.mr svg{vertical-align:middle;color:var(--jp-brand-color1,#1f77b4)}
.mr svg.chart{color:inherit;max-width:100%;height:auto}.mr .legend i{font-style:normal}
.mr summary{cursor:pointer}.mr.mr tr.best td{font-weight:600}
"""
_REORDERS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
CHART_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Of Okabe and Ito (2008), which colour-blind readers can tell apart."""
N_CHARS = 2000
"""Characters of a text that are shown."""


class Html(str):
    """Markup that is safe to join; any other value is escaped first."""

    __slots__ = ()


def esc(value: Any) -> Html:
    """Return a value as markup: escaped unless it is :class:`Html`, safe between tags and in attributes.

    >>> esc("<b> & '\u202e'")
    '&lt;b&gt; &amp; &#x27;⟨U+202E⟩&#x27;'
    """
    if isinstance(value, Html):
        return value
    text = _UNPRINTABLE.sub("\ufffd", str(value))
    return Html(_html.escape(_REORDERS.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text), quote=True))


def join(*parts: Any) -> Html:
    """Return the parts, escaped where they are not markup, one after the other."""
    return Html("".join(esc(part) for part in parts))


def tag(name: str, *parts: Any, kind: str = "", title: str = "") -> Html:
    """Return the parts inside an element; ``kind`` is its class."""
    attributes = f' class="{esc(kind)}"' if kind else ""
    attributes += f' title="{esc(title)}"' if title else ""
    return Html(f"<{name}{attributes}>{join(*parts)}</{name}>")


def isolated(value: Any) -> Html:
    """Return text in its own direction, cut where it is very long."""
    if not isinstance(value, Html) and len(text := str(value)) > N_CHARS:
        value = f"{text[:N_CHARS]}… (+ {len(text) - N_CHARS:,} characters)"
    return Html(f'<bdi dir="auto">{esc(value)}</bdi>')


def code(value: Any) -> Html:
    """Return a name: a tool, a setting, a hash."""
    return tag("code", isolated(value))


def badge(text: str, kind: str = "") -> Html:
    """Return a label; kinds: ok, info, warn, bad."""
    return tag("span", text, kind=f"badge {kind}".strip())


def simulated(flag: bool) -> Html:
    """Return the mark of what a simulated model took part in, or nothing."""
    return join(" ", badge("simulated", "warn")) if flag else Html("")


def number(value: Any) -> str:
    """Return a number as it is shown.

    >>> number(0.12345), number(1234), number(float("nan"))
    ('0.123', '1,234', '–')
    """
    value = plain(value)
    if isinstance(value, str):
        return value
    if value != value:
        return "–"
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}"


def value_text(value: Any) -> str:
    """Return a setting or an argument as JSON writes it."""
    return json.dumps(plain(value), ensure_ascii=False, default=str)


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], best: int | None = None) -> Html:
    """Return a table: numbers to the right, text isolated, markup as it is; row ``best`` stands out."""
    lines = []
    numeric: set[int] = set()
    for place, row in enumerate(rows):
        cells = []
        for column, value in enumerate(plain(item) for item in row):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if is_number:
                numeric.add(column)
            shown = number(value) if is_number else value if isinstance(value, Html) else isolated(value)
            cells.append(tag("td", shown, kind="n" if is_number else ""))
        lines.append(tag("tr", *cells, kind="best" if place == best else ""))
    top = [tag("th", name, kind="n" if column in numeric else "") for column, name in enumerate(head)]
    shown_head = tag("thead", tag("tr", *top)) if head else ""
    return tag("table", shown_head, tag("tbody", *lines))


def bar(value: float, mark: float | None = None) -> Html:
    """Return a bar of a share in [0, 1], with a mark at a threshold."""
    width, inner = 100 * min(1.0, max(0.0, value)), ""
    if mark is not None:
        inner = f'<b style="left:{100 * min(1.0, max(0.0, mark)):.1f}%" title="threshold {mark:g}"></b>'
    return Html(f'<span class="bar"><i style="width:{width:.1f}%"></i>{inner}</span>')


def whisker(value: float, low: float, high: float, *, reach: tuple[float, float] = (0.0, 1.0)) -> Html:
    """Return a dot with its interval on a scale over ``reach``; a tick marks zero where it lies inside."""
    start, stop = reach
    if value != value or not (start <= value <= stop):
        return Html("")
    x, a, b, zero = (
        4 + 112 * (min(stop, max(start, v if v == v else value)) - start) / (stop - start)
        for v in (value, low, high, 0.0)
    )
    tick = f'<path d="M{zero:.1f} 2V12" stroke="#888"/>' if start < 0 < stop else ""
    return Html(
        '<svg width="120" height="14" role="img"><path d="M4 7H116" stroke="#888" stroke-opacity=".35"/>'
        f'{tick}<path d="M{a:.1f} 7H{b:.1f}M{a:.1f} 4V10M{b:.1f} 4V10" stroke="currentColor" '
        f'stroke-width="1.5"/><circle cx="{x:.1f}" cy="7" r="3.2" fill="currentColor"/></svg>'
    )


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart; all sequences of one length, NaN = no value."""

    name: str
    values: Sequence[float]
    low: Sequence[float] = ()
    """95 % bounds; empty = none are known."""
    high: Sequence[float] = ()


def round_levels(least: float, most: float) -> list[float]:
    """Return three to seven round numbers from ``least`` to ``most``, ascending.

    >>> round_levels(0.03, 0.87), round_levels(-0.2, 9)
    ([0.2, 0.4, 0.6, 0.8], [0.0, 2.0, 4.0, 6.0, 8.0])
    """
    width = most - least
    power = 10.0 ** math.floor(math.log10(width / 3))
    step = next(step for step in (5 * power, 2 * power, power) if width / step >= 3)
    first, last = math.ceil(least / step), math.floor(most / step)
    return [round(k * step, 10) for k in range(first, last + 1)]


def line_chart(
    lines: Sequence[Line],
    *,
    places: Sequence[float],
    ticks: Sequence[str],
    at: int,
    joined: int,
    reach: tuple[float, float],
    label: str,
) -> Html:
    """Return lines over an axis as SVG, their values at one place marked with the interval.

    ``places`` (n,) ascend and ``ticks`` name them; place ``at`` is marked, the first ``joined`` are joined by
    a line. The y axis spans ``reach``, so that it stays where it is while values move.
    """
    left, right, top, bottom = 36.0, 432.0, 8.0, 172.0
    least, most = reach
    pad = 0.05 * (most - least) or 0.05
    least, most = least - pad, most + pad
    span = (places[-1] - places[0]) or 1.0

    def x(k: int) -> float:
        return left + 12 + (right - left - 24) * (places[k] - places[0]) / span

    def y(value: float) -> float:
        return bottom - (bottom - top) * (value - least) / (most - least)

    parts = []
    for level in round_levels(least, most):
        parts.append(
            f'<path d="M{left} {y(level):.1f}H{right}" stroke="#888" stroke-opacity=".25"/>'
            f'<text x="{left - 5}" y="{y(level) + 4:.1f}" text-anchor="end">{level:g}</text>'
        )
    every = max(1, -(-len(places) // 12))
    for k in range(0, len(places), every):
        parts.append(f'<text x="{x(k):.1f}" y="{bottom + 16}" text-anchor="middle">{esc(ticks[k])}</text>')
    parts.append(f'<path d="M{x(at):.1f} {top}V{bottom}" stroke="#888" stroke-dasharray="3 3"/>')
    for line, color in zip(lines, itertools.cycle(CHART_COLORS), strict=False):
        known = [k for k, value in enumerate(line.values) if value == value]
        path = [k for k in known if k < joined]
        if line.low:
            ends = [k for k in path if line.low[k] == line.low[k]]
            edge = [f"{x(k):.1f},{y(line.high[k]):.1f}" for k in ends]
            edge += [f"{x(k):.1f},{y(line.low[k]):.1f}" for k in reversed(ends)]
            parts.append(f'<polygon points="{" ".join(edge)}" fill="{color}" fill-opacity=".15"/>')
            if line.low[at] == line.low[at]:
                span_at = f"M{x(at):.1f} {y(line.low[at]):.1f}V{y(line.high[at]):.1f}"
                parts.append(f'<path d="{span_at}" stroke="{color}" stroke-width="1.6"/>')
        points = " ".join(f"{x(k):.1f},{y(line.values[k]):.1f}" for k in path)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        for k in known:
            size = 5 if k == at else 2.4
            parts.append(f'<circle cx="{x(k):.1f}" cy="{y(line.values[k]):.1f}" r="{size}" fill="{color}"/>')
    middle = (left + right) / 2
    parts.append(f'<text x="{middle}" y="{bottom + 36}" text-anchor="middle">{esc(label)}</text>')
    swatches = [
        tag("span", Html(f'<i style="color:{color}">●</i> '), line.name, "\u2003")
        for line, color in zip(lines, itertools.cycle(CHART_COLORS), strict=False)
    ]
    return join(
        Html(
            f'<svg class="chart" viewBox="0 0 440 212" width="440" height="212" role="img" '
            f'font-size="11" fill="currentColor">{"".join(parts)}</svg>'
        ),
        tag("div", *swatches, kind="legend"),
    )


def card(title: str, note: Any, *body: Any) -> Html:
    """Return a framed block."""
    return tag("div", tag("h3", title), tag("p", note, kind="muted"), *body, kind="card")


def wrap(*parts: Any) -> str:
    """Return a whole fragment with its style."""
    return str(join(Html(f"<style>{STYLE}</style>"), tag("div", *parts, kind="mr")))


# --- trace and catalog ---------------------------------------------------------------------------
