"""HTML of results: readable, escaped, and without reach outside itself."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

import pytest

import mono_router as mr
from mono_router import markup
from mono_router.records import Call, Query, Ranked, RecallTrace, Rejection, Usage

HOSTILE = "<script>alert(\"1\")</script><img src=x onerror='y'>\u202eevil\u2066 & \x00"
VOID = {"meta", "img", "path", "circle"}


class Markup(HTMLParser):
    """Reads markup: elements, attributes and text; ``open`` is empty at the end where it is balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += data


def check(fragment: str) -> Markup:
    """Read a fragment and assert that it is balanced, inert and keeps directions apart."""
    found = Markup(fragment)
    assert found.open == []
    assert not {"script", "img", "iframe", "link"} & set(found.elements)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "href")]
    assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00") & set(fragment)
    return found


@pytest.fixture(scope="module")
def catalog():
    return mr.Catalog.load("datasets/booking")


@pytest.fixture(scope="module")
def cases():
    return mr.load_cases("datasets/booking", split="dev")[:60]


@pytest.fixture(scope="module")
def router(catalog):
    return mr.Router(catalog)


@pytest.fixture(scope="module")
def report(router, cases):
    return mr.evaluate(router, cases)


@pytest.fixture(scope="module")
def sweep(router, cases):
    return mr.sweep(router, cases, {"candidate_limit": [1, 6], "lexical.min_score": [None, 0.5]})


@pytest.fixture(scope="module")
def hostile():
    tools = [
        mr.Tool(
            id=f"{HOSTILE}{n}",
            title=HOSTILE,
            description=HOSTILE,
            hints=(f"{HOSTILE} {n}",),
            skill=HOSTILE,
            input_schema={"type": "object", "properties": {HOSTILE: {"type": "string"}}},
            run={"http": {"url": "https://secret.example/endpoint"}},
        )
        for n in ("alpha", "beta")
    ]
    return mr.Router(mr.Catalog(tools, [mr.Skill(id=HOSTILE, description=HOSTILE)], warnings=[HOSTILE]))


@pytest.fixture(scope="module")
def hostile_cases(hostile):
    ids = hostile.catalog.ids
    return [
        mr.Case(
            id=f"{HOSTILE}{i}",
            message=f"{HOSTILE} {name} {i}",
            expected_tools=(ids[i % 2],),
            language=f"{HOSTILE}{i % 2}",
            tags=(HOSTILE,),
        )
        for i, name in enumerate(["beta", "beta", "alpha", "nothing", "alpha", "alpha"])
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a < b & 'c' \"d\"", "a &lt; b &amp; &#x27;c&#x27; &quot;d&quot;"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("a\x00\ud800b", "a\ufffd\ufffdb"),
        (markup.Html("<b>"), "<b>"),
        (3, "3"),
    ],
    ids=["markup", "direction", "unprintable", "markup of ours", "number"],
)
def test_esc_escapes_all_but_markup(value, expected):
    """Text is escaped for tags and attributes; what would reorder or break a page is shown by name."""
    assert markup.esc(value) == expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.5, "0.500"), (208, "208"), (12345.6, "12,346"), (float("nan"), "–")],
)
def test_numbers_are_short(value, shown):
    """Shares have three digits, counts have none, and nothing is a dash."""
    assert markup.number(value) == shown


def test_long_text_is_cut():
    """A message of a megabyte does not make a page of one."""
    assert len(markup.isolated("x" * 1_000_000)) < 2200
    assert "998,000 characters" in markup.isolated("x" * 1_000_000)


def test_table_escapes_cells_and_heads():
    """A cell is text unless it was made here."""
    found = check(markup.table((HOSTILE,), [(HOSTILE, 1.0, markup.code(HOSTILE))]))
    assert found.text.count("<script>") == 3


def test_trace_shows_the_decision_and_four_stages(router):
    """Message, outcome, tool, arguments, every stage, threshold and timings are there."""
    strict = router.with_settings(mr.Settings().replace({"lexical.min_score": 0.9}))
    trace = strict.route("What times are available tomorrow?", now="2026-03-02T10:00:00+01:00")
    text = check(trace._repr_html_()).text
    for part in ("What times are available tomorrow?", "call", trace.decision.tool, '"2026-03-03"'):
        assert part in text
    for part in ("1 Lexical", "2 Semantic recall", "3 Fusion", "4 Selection", "off: no source", "total "):
        assert part in text
    assert f"best {trace.lexical.best:.3f} < min_score 0.9" in text
    assert "simulated" not in text


def test_trace_says_what_is_simulated_and_why_recall_did_not_run(catalog, cases):
    """The badge follows trace.simulated, the gate is named."""
    router = mr.Router(
        catalog,
        settings=mr.Settings().replace({"recall.max_catalog_tools": 3}),
        model=mr.SimulatedModel(cases),
    )
    text = check(router.trace(cases[0].query)._repr_html_()).text
    assert "simulated" in text
    assert "skipped by the gate recall.max_catalog_tools" in text
    assert "1 model calls" in text


def test_trace_escapes_everything_that_came_from_outside(hostile):
    """Message, tools, arguments, missing names, unknown names, rejections and model names are inert."""
    trace = hostile.route(HOSTILE + " alpha")
    name = hostile.catalog.ids[0]
    decision = dataclasses.replace(
        trace.decision,
        outcome="rejected",
        reason=HOSTILE,
        calls=(Call(tool=name, arguments={HOSTILE: [HOSTILE]}), Call(tool=HOSTILE)),
        missing=(f"/{HOSTILE}",),
        ranked=(Ranked(tool=HOSTILE, score=0.5),),
        rejections=(Rejection(code="UNKNOWN_ARGUMENT", name=HOSTILE, message=HOSTILE),),
    )
    recall = RecallTrace(used=False, skipped_because=None, source=HOSTILE, unknown=(HOSTILE,))
    changed = dataclasses.replace(
        trace, decision=decision, recall=recall, model=HOSTILE, simulated=True, usage=Usage(model_calls=1)
    )
    text = check(changed._repr_html_()).text
    assert "UNKNOWN_ARGUMENT" in text
    assert "unknown names dropped" in text
    assert text.count("<script>") > 10


def test_trace_hides_session_facts_and_secret_entities(router):
    """What no model and no log may see is not in the HTML either."""
    memory = mr.Memory(
        turn=1,
        entities=(mr.Entity(type="card", value="SENTINEL-1", secret=True),),
        facts={"key": "SENTINEL-2"},
    )
    trace = router.trace(Query(message="cancel my appointment", memory=memory))
    assert "SENTINEL" not in trace._repr_html_()


def test_catalog_lists_tools_without_how_they_run(catalog, hostile):
    """Every tool is there with its arguments; endpoints are not."""
    text = check(catalog._repr_html_()).text
    assert all(tool.id in text for tool in catalog)
    assert "18 tools in 5 skills" in text
    inert = check(hostile.catalog._repr_html_()).text
    assert "warning" in inert
    assert "secret.example" not in inert


def test_catalog_without_tools_is_shown():
    """Nothing is a sensible result."""
    assert "0 tools in 0 skills" in check(mr.Catalog([])._repr_html_()).text


def test_report_shows_metrics_languages_and_confident_errors(report):
    """The header counts, the metrics have intervals, the worst errors come first."""
    text = check(report._repr_html_()).text
    assert "60 cases in" in text
    assert "18 tools" in text
    wrong = report.frame[report.frame["tool_accuracy"] == 0].sort_values(
        "confidence", ascending=False, kind="stable"
    )
    shown = [text.index(case) for case in wrong["case"].head(3)]
    assert shown == sorted(shown)
    assert wrong["case"].iloc[0] in text
    row = report.summary().loc["tool_accuracy"]
    assert f"{row['low']:.3f} – {row['high']:.3f}" in text
    assert "By language" in text


def test_report_leaves_out_model_metrics_where_no_model_took_part(report, catalog, cases):
    """Rows of zeros say nothing; with a model they are figures."""
    assert "model_recall_calls" not in report._repr_html_()
    asked = mr.evaluate(mr.Router(catalog, model=mr.SimulatedModel(cases)), cases, progress=False)
    text = check(asked._repr_html_()).text
    assert "model_recall_calls" in text
    assert "simulated" in text


def test_hostile_cases_are_inert_in_reports_sweeps_points_and_comparisons(hostile, hostile_cases):
    """No text of a case or a tool becomes markup in any result."""
    report = mr.evaluate(hostile, hostile_cases)
    assert "<script>" in check(report._repr_html_()).text
    sweep = mr.sweep(hostile, hostile_cases, {"selection.min_confidence": [0.0, 1.0]})
    check(sweep._repr_html_())
    comparison = mr.compare(sweep.report(0), sweep.report(1))
    warned = dataclasses.replace(comparison, warnings=(HOSTILE,), gained=(HOSTILE,))
    assert check(warned._repr_html_()).text.count("<script>") >= 2
    point = mr.OperatingPoint(
        settings=mr.Settings(),
        reason=HOSTILE,
        selected={"objective": HOSTILE, "metrics": {HOSTILE: 0.5}, "n": 3},
        valid_for={},
        changes={HOSTILE: HOSTILE},
    )
    assert check(point._repr_html_()).text.count("<script>") >= 4
    assert "<script>" in check(dataclasses.replace(point, settings=None)._repr_html_()).text


def test_sweep_lists_its_grid_and_best_rows(sweep):
    """The first row is the best, settings as JSON writes them."""
    text = check(sweep._repr_html_()).text
    assert "4 combinations on 60 cases" in text
    assert "null, 0.5" in text
    best = sweep.frame["tool_accuracy"].max()
    assert text.index(f"{best:.3f}") <= text.index(f"{sweep.frame['tool_accuracy'].min():.3f}")
    assert "model_calls" not in text


def test_sweep_table_stops_at_fifteen_rows(router, cases):
    """A large sweep stays readable."""
    grid = {"candidate_limit": [1, 2, 3, 4, 5], "lexical.min_score": [None, 0.2, 0.5, 0.8]}
    found = Markup(mr.sweep(router, cases[:20], grid)._repr_html_())
    assert found.elements.count("tr") == (1 + 2) + (1 + 15)


def test_point_is_labelled_as_selected(sweep):
    """A chosen point shows what was chosen and says that its figures are no estimate."""
    point = sweep.pick()
    text = check(point._repr_html_()).text
    assert "selected on dev, no estimate" in text
    assert "candidate_limit" in text
    assert "n = 60 cases" in text
    none = sweep.pick(subject_to={"tool_accuracy": (">=", 0.999)})
    assert "no operating point" in check(none._repr_html_()).text


def test_comparison_draws_the_change_about_zero(sweep):
    """Before, after, change, interval, p and the flips both ways."""
    text = check(mr.compare(sweep.report(0), sweep.report(2))._repr_html_()).text
    for part in ("tool_accuracy", "p (Holm)", "became right", "became wrong"):
        assert part in text
