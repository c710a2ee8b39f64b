"""The report page: results in, one self-contained HTML file out.

Tables are the fragments of :mod:`mono_router.html`, plots are SVG images inside the page: it loads nothing,
runs nothing and can be opened from an archive. A plot that a result has nothing for is left out.
"""

from __future__ import annotations

import base64
import io
import itertools
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mono_router.html import metric_table, point_body, report_header, slice_table, sweep_body, wrong_table
from mono_router.lab import plots
from mono_router.lab.diagnosis import diagnose
from mono_router.lab.drawing import Artists
from mono_router.lab.metrics import AGREEMENT, MEANS
from mono_router.lab.panels import diagnosis_body
from mono_router.markup import Html, code, esc, isolated, join, simulated, table, tag, value_text, wrap

if TYPE_CHECKING:
    from mono_router.lab.diagnosis import Diagnosis
    from mono_router.lab.evaluation import Report
    from mono_router.lab.tuning import OperatingPoint, Sweep

MEANINGS = {
    **dict((*MEANS, *AGREEMENT)),
    "no_tool_auroc": "how well p_tool tells messages with a tool from those without",
    "ece": "mean distance of confidence from truth, 15 bins of equal mass",
    "aurc": "error rate averaged over coverage, lower is better",
    "latency_ms_p50": "median milliseconds of one route",
    "latency_ms_p95": "95th percentile",
}
N_WRONG = 40
Drawing = Callable[..., Artists]
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = (
    "body{margin:24px auto;max-width:1080px;padding:0 16px;font-family:system-ui,sans-serif}"
    ".mr h2{margin:30px 0 6px;font-size:18px}.mr img{width:100%;background:#fff;border-radius:6px}"
    ".mr .plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(460px,1fr));gap:14px}"
    ".mr figure{margin:0}.mr figcaption{font-weight:600}"
)


def write_report(
    path: str | Path,
    report: Report,
    *,
    sweep: Sweep | None = None,
    point: OperatingPoint | None = None,
    test_report: Report | None = None,
    diagnosis: Diagnosis | None = None,
    title: str | None = None,
) -> Path:
    """Write one page about a report and return its path.

    Parameters
    ----------
    path
        File to write; its folder must exist.
    report
        What the page is about.
    sweep, point
        The sweep on the same cases and what was picked from it: shown as *selected*, no estimate.
    test_report
        The point's report on cases that did not choose it: the estimate.
    diagnosis
        Of the report, where executions are known; default: made here without them.
    title
        Heading; default: names the number of cases and tools.
    """
    named = title or f"Report on {len(report):,} cases and {len(report.router.catalog):,} tools"
    parts: list[Any] = [tag("h1", isolated(named))]
    if test_report is not None:
        note = "The chosen settings on cases that did not choose them: this is the estimate."
        parts += [_heading("Estimate", test_report), tag("p", note), *_summary(test_report)]
    parts += [_heading("Summary", report), *_summary(report)]
    if point is not None:
        parts += [tag("h2", "Operating point"), point_body(point)]
    if sweep is not None:
        parts += [tag("h2", "Sweep"), sweep_body(sweep)]
    found = diagnose(report) if diagnosis is None else diagnosis
    if len(found):
        parts += [tag("h2", "Diagnosis"), diagnosis_body(found)]
    figures = [_figure(*drawn) for drawn in _drawings(report, sweep, point, found)]
    parts += [tag("h2", "Plots"), tag("div", *figures, kind="plots")]
    parts += [tag("h2", "Slices"), *_slices(report)]
    parts += [tag("h2", "Wrong decisions, most confident first"), wrong_table(report, N_WRONG)]
    for label, one in (("Provenance", report), ("Provenance of the estimate", test_report)):
        if one is not None:
            parts += [tag("h2", label), _provenance(one)]
    target = Path(path)
    target.write_text(_page(named, wrap(*parts)), encoding="utf-8")
    return target


def _page(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{esc(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def _heading(name: str, report: Report) -> Html:
    splits = ", ".join(sorted({case.split for case in report.cases} - {""}))
    return tag("h2", name, f" on {splits}" if splits else "")


def _summary(report: Report) -> list[Html]:
    return [report_header(report), metric_table(report, MEANINGS)]


def _slices(report: Report) -> list[Html]:
    found = []
    for name in ("language", "mode", "tag", "tool"):
        frame = report.by(name)
        if len(frame):
            n = frame.index.get_level_values(0).nunique()
            shown = slice_table(frame, name, most=200)
            found.append(tag("details", tag("summary", f"By {name} ({n})"), shown))
    return found


def _provenance(report: Report) -> Html:
    rows = []
    for name, value in report.provenance.items():
        text = value if isinstance(value, str) else value_text(value)
        rows.append((code(name), join(code(text), simulated(name == "simulated" and bool(value)))))
    return table(("what", "value"), rows)


def _drawings(
    report: Report, sweep: Sweep | None, point: OperatingPoint | None, diagnosis: Diagnosis
) -> Iterator[tuple[str, Drawing]]:
    """Caption and drawing of every plot that the results have something for; each takes ``ax``."""
    if sweep is not None:
        swept = [name for name, values in sweep.grid.items() if len(values) > 1]
        for name in swept:
            yield name, partial(plots.plot_threshold, sweep, name, point=point)
        for x, y in itertools.combinations(swept[:3], 2):
            yield f"{x} and {y}", partial(plots.plot_heatmap, sweep, x, y, point=point)
        if sweep.frame["recall_rate"].nunique() > 1:
            yield "What accuracy costs", partial(plots.plot_pareto, sweep, point=point)
    if (report.columns["tool_accuracy"] >= 0).any():
        yield "Is the confidence the share right?", partial(plots.plot_reliability, report)
        yield "Risk and coverage", partial(plots.plot_risk_coverage, report)
        yield "Confidence of right and wrong decisions", partial(plots.plot_scores, report)
        yield "p_tool of right and wrong decisions", partial(plots.plot_scores, report, score="p_tool")
        if len({case.language for case in report.cases}) > 1:
            yield "Languages", partial(plots.plot_languages, report)
    if (report.columns["tool_accuracy"] == 0).any():
        yield "Confusions", partial(plots.plot_confusions, report)
    if len(diagnosis):
        yield "What a perfect stage adds", partial(plots.plot_attribution, diagnosis)


def _figure(caption: str, draw: Drawing) -> Html:
    return tag("figure", tag("figcaption", isolated(caption)), _image(draw, caption))


def _image(draw: Drawing, caption: str) -> Html:
    """The drawing as an SVG image: markup inside an image cannot run, whatever its texts hold."""
    import matplotlib
    from matplotlib.figure import Figure

    figure, buffer = Figure(figsize=(6.4, 4.4), layout="constrained"), io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    fixed: Any = {"svg.hashsalt": "mono-router", "svg.fonttype": "path"}
    with matplotlib.rc_context(fixed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a script that the font does not have
        draw(ax=figure.subplots())
        figure.savefig(buffer, format="svg", metadata=nothing)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Html(f'<img alt="{esc(caption)}" src="data:image/svg+xml;base64,{encoded}">')
