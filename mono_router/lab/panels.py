"""Panels: what diagnosis and the explorer show, as escaped HTML; figures come from their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mono_router.markup import (
    Html,
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
    from mono_router.lab.confusion import Confusion
    from mono_router.lab.diagnosis import Diagnosis
    from mono_router.lab.explorer import Flip
    from mono_router.lab.intervals import Estimate

N_FLIPS = 12
"""Flipped cases shown each way."""
N_PAIRS = 15
_PER_MESSAGE = ("model_recall_calls", "model_calls", "input_tokens", "output_tokens", "cost_usd")


# --- diagnosis -----------------------------------------------------------------------------------


def diagnosis_body(diagnosis: Diagnosis) -> Html:
    """Return where wrong cases were lost, what each stage would buy, and which tools are confused."""
    lost = [
        (code(row.stage), code(row.cause), row.n, row.share, row.advice)
        for row in diagnosis.counts().itertuples()
    ]
    report = diagnosis.report
    size = f"{len(diagnosis):,} of {len(report):,} cases are wrong"
    left_out = f"; {report.n_unrecorded:,} are unrecorded" if report.n_unrecorded else ""
    return join(
        tag("p", size, left_out, simulated(report.router.simulated), kind="head"),
        card("Lost at", "", table(("stage", "cause", "n", "share", "what to do"), lost)),
        card(
            "A perfect stage adds",
            "cumulative: each stage stands on the perfect ones before it",
            _attribution_table(diagnosis),
        ),
        card("Taken for each other", "", _pair_table(diagnosis.confusions(N_PAIRS))),
    )


def _attribution_table(diagnosis: Diagnosis) -> Html:
    found = diagnosis.attribution
    some = bool(found["unrecorded"].any())
    rows = []
    for stage, row in found.iterrows():
        span = f"{row['low']:+.3f} – {row['high']:+.3f}"
        known = (code(stage), Html(esc(f"{row['gain']:+.3f}")), span, row["right"], int(row["n"]))
        rows.append((*known, *((int(row["unrecorded"]), row["at_most"]) if some else ())))
    head = ("stage", "gain", "95 % interval", "share right then", "n")
    return table((*head, *(("unrecorded", "at most") if some else ())), rows)


def _pair_table(pairs: Sequence[Confusion]) -> Html:
    rows = [
        (
            join(code(pair.expected), tag("p", isolated(pair.expected_description), kind="muted")),
            join(code(pair.got), tag("p", isolated(pair.got_description), kind="muted")),
            pair.n_cases,
            ", ".join(pair.shared_words[:12]),
        )
        for pair in pairs
    ]
    return table(("expected", "got", "n", "words they share"), rows) if rows else Html("none")


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """Return a diagnosis."""
    return wrap(diagnosis_body(diagnosis))


# --- explorer ------------------------------------------------------------------------------------


def explorer_head(n_settings: int, n_cases: int, n_groups: int, fixed: Mapping[str, Any], sim: bool) -> str:
    """Return what an explorer moves over, and the swept settings that have one value."""
    held = "".join(f" · {name} = {value_text(value)}" for name, value in fixed.items())
    size = f"{n_settings:,} combinations on {n_cases:,} cases in {n_groups:,} groups; nothing is scored again"
    return wrap(tag("p", size, held, simulated(sim), kind="head"))


def figures_html(figures: Mapping[str, Estimate], reference: Mapping[str, Estimate]) -> str:
    """Return metrics with intervals, beside the reference's."""
    rows = []
    for name, found in figures.items():
        drawn = Html("") if name in _PER_MESSAGE else whisker(found.value, found.low, found.high)
        before = reference[name].value
        change = Html("") if found.value == before else esc(f"{found.value - before:+.3f}")
        span = f"{number(found.low)} – {number(found.high)}"
        rows.append((code(name), found.value, drawn, span, found.n, before, change))
    return wrap(table(("metric", "value", "", "95 % interval", "n", "reference", "change"), rows))


def flips_html(
    reference: Mapping[str, Any], gained: Sequence[Flip], lost: Sequence[Flip], n_unknown: int
) -> str:
    """Return the cases that became right and wrong against the reference setting."""
    named = ", ".join(f"{name} = {value_text(value)}" for name, value in reference.items())
    parts: list[Any] = [tag("p", "Against the reference ", code(named), kind="muted")]
    for what, flips in (("became right", gained), ("became wrong", lost)):
        parts.append(tag("h3", f"{len(flips):,} {what}"))
        rows = [
            (code(flip.case), flip.message, flip.expected, flip.before, flip.after)
            for flip in flips[:N_FLIPS]
        ]
        parts.append(table(("case", "message", "expected", "reference", "now"), rows) if rows else "")
        if len(flips) > N_FLIPS:
            parts.append(tag("p", f"+ {len(flips) - N_FLIPS:,} more", kind="muted"))
    if n_unknown:
        parts.append(tag("p", f"{n_unknown:,} cases are unrecorded in one of the two", kind="muted"))
    return wrap(*parts)
