"""HTML of every result: a record goes in, one escaped fragment comes out; nothing else writes HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mono_router.markup import (
    Html,
    badge,
    bar,
    card,
    code,
    esc,
    isolated,
    join,
    number,
    simulated,
    table,
    tag,
    value_text,
    whisker,
    wrap,
)

if TYPE_CHECKING:
    import pandas as pd

    from mono_router.catalog import Catalog
    from mono_router.lab.comparison import Comparison
    from mono_router.lab.evaluation import Report
    from mono_router.lab.picking import OperatingPoint
    from mono_router.lab.tuning import Sweep
    from mono_router.records import Decision, Hit, Tool, Trace
    from mono_router.runtime.results import Result

_TONES = {"call": "ok", "ask": "info", "ambiguous": "warn", "rejected": "bad", "error": "bad"}
_HEADLINES = {"call": "call", "ask": "ask for what is missing", "no_tool": "no tool"}
_SKIPPED = {
    "confident": "skipped: stage 1 is confident",
    "off": "off: no source is set",
    "max_catalog_tools": "skipped by the gate recall.max_catalog_tools",
    "max_catalog_chars": "skipped by the gate recall.max_catalog_chars",
    "nothing_offered": "skipped: no tool is offered",
}
_MODEL_METRICS = (
    "model_recall_calls",
    "model_calls",
    "input_tokens",
    "cache_write_tokens",
    "cache_read_tokens",
    "output_tokens",
    "cost_usd",
)
_SWEEP_METRICS = ("recall_rate", "false_tool_rate", "missed_tool_rate", "model_calls", "cost_usd")
N_HITS, N_TOOLS, N_WRONG, N_ROWS = 6, 200, 10, 15


def _more(n: int, what: str = "more") -> Html:
    return tag("p", f"+ {n} {what}", kind="muted") if n > 0 else Html("")


def _hits(hits: Sequence[Hit], mark: float | None) -> Html:
    rows = [(code(hit.tool), bar(hit.score, mark), hit.score) for hit in hits[:N_HITS]]
    return join(table((), rows) if rows else "", _more(len(hits) - N_HITS))


def _headline(decision: Decision) -> Html:
    label = badge(_HEADLINES.get(decision.outcome, decision.outcome), _TONES.get(decision.outcome, ""))
    tools = [join(" ", code(tool)) for tool in decision.tools]
    mode = f" in mode {decision.mode}" if decision.mode else ""
    odds = f" · confidence {number(decision.confidence)} · p_tool {number(decision.p_tool)}"
    lines = [tag("p", label, *tools, mode, tag("span", odds, " · ", code(decision.reason)), kind="head")]
    for call in decision.calls:
        rows = [(code(name), isolated(value_text(value))) for name, value in call.arguments.items()]
        several = join(code(call.tool), ":") if len(decision.calls) > 1 else ""
        lines.append(join(several, table((), rows) if rows else tag("p", "no arguments", kind="muted")))
    if decision.missing:
        lines.append(tag("p", "missing: ", *[join(code(name), " ") for name in decision.missing]))
    return join(*lines)


def trace_html(trace: Trace) -> str:
    """Return one decision with the four stages that led to it."""
    lexical, recall, chosen = trace.lexical, trace.recall, trace.selection
    threshold = "no threshold (min_score null)"
    if lexical.threshold is not None:
        sign = "≥" if lexical.best >= lexical.threshold else "<"
        threshold = f"best {number(lexical.best)} {sign} min_score {lexical.threshold:g}"
    verdict = badge("confident", "ok") if lexical.confident else badge("not confident")
    margin = f"; margin {number(lexical.margin)}"
    if recall.used:
        ran: Any = join(badge("ran", "ok"), f" source: {recall.source}")
    elif recall.skipped_because:
        ran = join(badge("not run"), " ", _SKIPPED.get(recall.skipped_because, recall.skipped_because))
    else:
        ran = join(badge("failed", "bad"), " ", code(trace.decision.reason))
    unknown = [tag("p", "unknown names dropped: ", *[join(code(name), " ") for name in recall.unknown])]
    fused = [
        (code(c.tool), ", ".join(f"{hit.source} #{hit.rank + 1}" for hit in c.hits)) for c in trace.candidates
    ]
    how = "bypassed: chosen on its lexical score" if chosen.bypassed else "no model"
    how = "a model was asked" if chosen.model_called else how
    if chosen.stated_confidence is not None:
        how += f"; stated confidence {number(chosen.stated_confidence)}"
    ranking = [(code(item.tool), bar(item.score), item.score) for item in chosen.ranked[:N_HITS]]
    refused = [
        tag("p", badge("rejected", "bad"), " ", code(r.code), " ", code(r.name), ": ", isolated(r.message))
        for r in dict.fromkeys((*chosen.rejections, *trace.decision.rejections))
    ]
    spent = [f"{name.removesuffix('_ms')} {number(ms)} ms" for name, ms in trace.timings.items()]
    if trace.usage.model_calls:
        tokens = f"{trace.usage.input_tokens:,} in, {trace.usage.output_tokens:,} out"
        spent += [f"{trace.usage.model_calls} model calls", f"tokens {tokens}", str(trace.model)]
    cut = _more(len(trace.fused) - len(trace.candidates), "cut by candidate_limit")
    return wrap(
        tag("p", "“", isolated(trace.query.message), "”", simulated(trace.simulated), kind="quote"),
        _headline(trace.decision),
        tag(
            "div",
            card("1 Lexical", join(verdict, " ", threshold, margin), _hits(lexical.hits, lexical.threshold)),
            card("2 Semantic recall", ran, _hits(recall.hits, None), *(unknown if recall.unknown else ())),
            card("3 Fusion", f"{len(trace.candidates)} candidates", table((), fused), cut),
            card("4 Selection", how, table((), ranking), _more(len(chosen.ranked) - N_HITS), *refused),
            kind="grid",
        ),
        tag("p", " · ".join(spent), kind="muted"),
    )


def _tool_row(tool: Tool) -> tuple[Any, ...]:
    arguments = [join(code(name + ("*" if name in tool.required else "")), " ") for name in tool.properties]
    effects = badge("write", "warn") if tool.effects == "write" else "read"
    return (code(tool.id), tool.description, join(*arguments), effects, len(tool.hints), len(tool.examples))


def catalog_html(catalog: Catalog) -> str:
    """Return a catalog's tools by skill; how the host runs them is not shown."""
    head = ("tool", "description", "arguments (* required)", "effects", "hints", "examples")
    shown, parts = 0, []
    for skill in catalog.skills.values():
        if shown >= N_TOOLS:
            break
        rows = [_tool_row(catalog[tool]) for tool in skill.tools[: N_TOOLS - shown]]
        shown += len(rows)
        if skill.tools != (skill.id,):
            parts.append(tag("h3", isolated(skill.id), " · ", isolated(skill.description)))
        parts.append(table(head if skill.tools != (skill.id,) or shown == 1 else (), rows))
    warnings = [tag("p", badge("warning", "warn"), " ", isolated(text)) for text in catalog.warnings[:N_ROWS]]
    size = f"{len(catalog)} tools in {len(catalog.skills)} skills · "
    more = join(_more(len(catalog) - shown, "more tools"), *warnings)
    return wrap(tag("p", size, code(catalog.hash[:19]), kind="head"), *parts, more)


# --- results of the laboratory -------------------------------------------------------------------


def _asks(router: Any) -> bool:
    return router.model is not None or getattr(router.selector, "model", None) is not None


def report_header(report: Report) -> Html:
    """Return what a report covers: cases, groups, catalog, and what is left out."""
    groups, router = len(set(report.labels.groups.tolist())), report.router
    facts = [f"{len(report):,} cases in {groups:,} groups", f"{len(router.catalog):,} tools"]
    facts += [f"offered: {report.offered}", f"selector {type(router.selector).__name__}"]
    left_out = ((report.n_dropped, "dropped"), (report.n_unrecorded, "unrecorded"))
    facts += [
        f"{n:,} {what}" for n, what in (*left_out, (report.n_without_candidates, "without candidates")) if n
    ]
    return tag("p", " · ".join(facts), simulated(router.simulated), kind="head")


def metric_table(report: Report, meanings: Mapping[str, str] | None = None) -> Html:
    """Return the summary with intervals drawn; metrics of models are left out where none took part."""
    rows = []
    for name, row in report.summary().to_dict("index").items():
        if name in _MODEL_METRICS and row["value"] == 0 and not _asks(report.router):
            continue
        span = f"{number(row['low'])} – {number(row['high'])}"
        if "worst" in row and row["worst"] == row["worst"]:
            span += f" (all cases: {number(row['worst'])} – {number(row['best'])})"
        share = name not in _MODEL_METRICS and not str(name).startswith("latency")
        drawn = whisker(row["value"], row["low"], row["high"]) if share else ""
        meaning = () if meanings is None else (meanings.get(str(name), ""),)
        rows.append((code(name), row["value"], drawn, span, row["n"], row["n_groups"], *meaning))
    head = (
        "metric",
        "value",
        "",
        "95 % interval",
        "n",
        "groups",
        *(() if meanings is None else ("meaning",)),
    )
    return table(head, rows)


def slice_table(frame: pd.DataFrame, name: str, most: int = 50) -> Html:
    """Return a slice of a report (:meth:`Report.by`), one row per value and metric."""
    rows = []
    for row in frame.reset_index().head(most).to_dict("records"):
        drawn = whisker(row["value"], row["low"], row["high"])
        rows.append((row[name], code(row["metric"]), row["value"], drawn, row["n"]))
    return join(table((name, "metric", "value", "95 % interval", "n"), rows), _more(len(frame) - most))


def wrong_table(report: Report, most: int = N_WRONG) -> Html:
    """Return the wrong decisions, most confident first."""
    wrong = report.frame[report.frame["tool_accuracy"] == 0]
    worst = wrong.sort_values("confidence", ascending=False, kind="stable").head(most)
    rows = []
    for row in worst.to_dict("records"):
        expected = [join(code(tool), " ") for tool in row["expected"]] or [esc("no tool")]
        got = [join(code(tool), " ") for tool in row["tools"]]
        shown = row["outcome"].replace("_", " ") if row["outcome"] != "call" or not got else ""
        outcome = badge(shown, _TONES.get(row["outcome"], "")) if shown else ""
        rows.append(
            (code(row["case"]), row["message"], join(*expected), join(outcome, " ", *got), row["confidence"])
        )
    head = ("case", "message", "expected", "got", "confidence")
    return (
        join(table(head, rows), _more(len(wrong) - len(rows), "more wrong cases")) if rows else Html("none")
    )


def report_html(report: Report) -> str:
    """Return a report: what it covers, its metrics, languages and the most confident errors."""
    beside = Html("")
    if len({case.language for case in report.cases}) > 1:
        languages = report.by("language", ("tool_accuracy",))
        beside = tag("div", tag("h3", "By language"), slice_table(languages, "language"))
    tables = tag("div", tag("div", metric_table(report)), beside, kind="row")
    return wrap(report_header(report), tables, tag("h3", "Wrong, most confident first"), wrong_table(report))


def sweep_body(sweep: Sweep, most: int = N_ROWS) -> Html:
    """Return a sweep's grid and its best combinations."""
    n_groups = len(set(sweep.labels.groups.tolist()))
    size = f"{len(sweep):,} combinations on {len(sweep.labels.cases):,} cases in {n_groups:,} groups"
    grid = [(code(name), ", ".join(value_text(v) for v in values)) for name, values in sweep.grid.items()]
    names = [name for name, values in sweep.grid.items() if len(values) > 1]
    frame = sweep.frame.sort_values("tool_accuracy", ascending=False, kind="stable")
    asks = _asks(sweep.router)
    kept = [m for m in _SWEEP_METRICS if m in frame and (asks or m not in _MODEL_METRICS)]
    kept += ["unrecorded"] if frame["unrecorded"].any() else []
    front = set(sweep.pareto().index)
    rows = []
    for i, row in zip(frame.index.tolist(), frame.head(most).to_dict("records"), strict=False):
        drawn = whisker(row["tool_accuracy"], row["tool_accuracy_low"], row["tool_accuracy_high"])
        values = [value_text(sweep.combinations[i][name]) for name in names]
        mark = "◆" if i in front else ""
        rows.append((*values, row["tool_accuracy"], drawn, *[row[m] for m in kept], mark))
    head = (*names, "tool_accuracy", "95 % interval", *kept, "front")
    note = "◆ no other combination has a lower recall_rate and a higher tool_accuracy"
    return join(
        tag("p", size, simulated(sweep.router.simulated), kind="head"),
        table(("setting", "values"), grid),
        tag("h3", f"Best {len(rows)} by tool_accuracy"),
        table(head, rows, best=0),
        tag("p", note, kind="muted"),
    )


def sweep_html(sweep: Sweep) -> str:
    """Return a sweep: its grid and its best combinations."""
    return wrap(sweep_body(sweep))


def point_body(point: OperatingPoint) -> Html:
    """Return an operating point: what was chosen, why, and its figures where it was chosen."""
    selected, figures = point.selected, point.selected.get("metrics", {})
    rules = [f"{name} {sign} {bound:g}" for name, (sign, bound) in selected.get("subject_to", {}).items()]
    aim = f"objective {selected.get('objective', '?')}" + "".join(f", {rule}" for rule in rules)
    if selected.get("no_tool_prior") is not None:
        aim += f", no-tool prior {selected['no_tool_prior']:g}"
    if point.settings is None:
        return tag("p", badge("no operating point", "bad"), " ", point.reason, " · ", aim, kind="head")
    label = badge("selected on dev, no estimate", "warn")
    rows = []
    for name, value in figures.items():
        low, high = figures.get(f"{name}_low"), figures.get(f"{name}_high")
        if name.endswith(("_low", "_high")) or (name in (*_MODEL_METRICS, "unrecorded") and not value):
            continue
        span = "" if low is None or high is None else f"{number(low)} – {number(high)}"
        rows.append((code(name), value, span))
    looks = f"n = {number(selected.get('n', 0))} cases · reported on {point.n_looks} times"
    return join(
        tag("p", label, f" {point.reason} · {aim}", kind="head"),
        table(("setting", "chosen"), [(code(k), value_text(v)) for k, v in point.changes.items()]),
        table(("metric", "value", "95 % interval"), rows),
        tag("p", looks, kind="muted"),
    )


def point_html(point: OperatingPoint) -> str:
    """Return an operating point, labelled as selected."""
    return wrap(point_body(point))


def _p_value(p: float) -> Any:
    return "< 0.001" if p < 0.001 else p


def comparison_html(comparison: Comparison) -> str:
    """Return what changed between two reports, with the flips both ways."""
    rows = []
    found = comparison.table.to_dict("index")
    reach = max(
        [0.01, *(abs(v) for r in found.values() for v in (r["low"], r["high"], r["change"]) if v == v)]
    )
    for name, row in found.items():
        drawn = whisker(row["change"], row["low"], row["high"], reach=(-reach, reach))
        span = f"{number(row['low'])} – {number(row['high'])}"
        sizes = (*(_p_value(row[name]) for name in ("p", "p_holm")), row["n"], row["n_groups"])
        rows.append((code(name), row["before"], row["after"], row["change"], drawn, span, *sizes))
    head = ("metric", "before", "after", "change", "", "95 % interval", "p", "p (Holm)", "n", "groups")
    flips = []
    for what, ids in (("became right", comparison.gained), ("became wrong", comparison.lost)):
        names = [join(code(name), " ") for name in ids[:N_TOOLS]]
        flips.append(
            tag("details", tag("summary", f"{len(ids):,} {what}"), *names, _more(len(ids) - N_TOOLS))
        )
    warnings = [tag("p", badge("warning", "warn"), " ", isolated(text)) for text in comparison.warnings]
    return wrap(*warnings, table(head, rows), *flips)


_STATUSES = {"completed": "ok", "error": "bad", "needs_input": "info"}


def result_html(result: Result) -> str:
    """Return what came of a message: its status, the reply, the call, and what it cost."""
    head = [badge(result.status.replace("_", " "), _STATUSES.get(result.status, "warn"))]
    if result.tool is not None:
        head += [join(" ", code(result.tool))]
    if result.error is not None:
        head += [join(" ", code(result.error.code), " ", isolated(result.error.message))]
    arguments = [(code(name), isolated(value_text(value))) for name, value in result.arguments.items()]
    missing = [tag("p", "missing: ", *[join(code(name), " ") for name in result.missing])]
    lines = [tag("p", isolated(line), kind="quote") for line in result.reply.splitlines() if line.strip()]
    meta = result.meta
    spent = [f"{number(meta.duration_ms)} ms", f"{meta.tool_calls} tool calls"]
    if meta.model_calls:
        tokens = f"{meta.input_tokens:,} in, {meta.output_tokens:,} out"
        spent += [f"{meta.model_calls} model calls", f"tokens {tokens}", f"{meta.cost_usd:.4f} USD"]
    return wrap(
        tag("p", *head, kind="head"),
        *lines[:N_TOOLS],
        table((), arguments) if arguments else "",
        *(missing if result.missing else ()),
        tag("p", " · ".join(spent), kind="muted"),
    )
