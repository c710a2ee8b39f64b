"""How a controlled risk and an order bias show themselves in a notebook: fragments of escaped markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mono_router.markup import badge, code, isolated, number, simulated, table, tag, whisker, wrap

if TYPE_CHECKING:
    from mono_router.lab.order_bias import OrderBias
    from mono_router.lab.risk import RiskControl

N_TESTS = 30
"""Tested thresholds that are shown, the last ones."""


def risk_html(control: RiskControl) -> str:
    """Return a controlled risk: the threshold, what it promises, what it costs, and the tests behind it."""
    found = control.threshold is not None
    label = badge(f"min_confidence {control.threshold:g}", "ok") if found else badge("no threshold", "bad")
    share = (
        "wrong decisions, of those acted on" if control.risk == "wrong_of_acted" else "wrong calls, of all"
    )
    promise = f" {share} ≤ {control.alpha:g} in all but {control.delta:g} of draws · {control.reason}"
    origin = "stated" if control.prior_stated else "that of the cases"
    rows = [("assumed share of no-tool messages", control.no_tool_prior, origin)]
    if found:
        cost, change = control.coverage, control.coverage_change
        rows = [
            ("risk", control.observed, f"at most {number(control.bound)} (n = {control.n:,})"),
            ("coverage", cost.value, f"{number(cost.low)} – {number(cost.high)}"),
            ("change of coverage", change.value, f"{number(change.low)} – {number(change.high)}"),
            *rows,
        ]
    path = [
        (f"{row['threshold']:g}", int(row["n"]), int(row["wrong"]), row["p_value"], row["coverage"])
        for row in control.path.tail(N_TESTS).to_dict("records")
    ]
    warnings = [tag("p", badge("warning", "warn"), " ", isolated(text)) for text in control.warnings]
    tests = table(("threshold", "n", "wrong", "p", "coverage"), path)
    return wrap(
        *warnings,
        tag("p", label, promise, kind="head"),
        table(("", "value", "95 %"), rows),
        tag("details", tag("summary", f"{len(control.path):,} thresholds, strictest first"), tests),
    )


def order_bias_html(bias: OrderBias) -> str:
    """Return how far the order of a shortlist moves a model: choices that change, and places chosen."""
    rows = [
        (code(name), one.value, whisker(one.value, one.low, one.high), one.n)
        for name, one in (("changed", bias.changed), ("ever_changed", bias.ever_changed))
    ]
    places = [
        (
            str(place),
            row["share"],
            f"{number(row['low'])} – {number(row['high'])}",
            row["uniform"],
            int(row["n"]),
        )
        for place, row in bias.positions.to_dict("index").items()
    ]
    size = f"{bias.n_requests:,} permuted shortlists of {bias.n_cases:,} cases"
    lost = ((bias.n_failed, "failed"), (bias.n_unrecorded, "unrecorded"))
    size += "".join(f" · {n:,} {what}" for n, what in lost if n)
    return wrap(
        tag("p", size, simulated(bias.simulated), kind="head"),
        table(("choice", "share", "95 %", "n"), rows),
        table(("position", "chosen", "95 %", "uniform", "n"), places),
        tag("p", f"p = {number(bias.p_value)} that places are uniform", kind="muted"),
    )
