"""Bad input of every kind: the one line that says what is wrong, or the sensible result."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mono_router.catalog import Catalog
from mono_router.documents import DocumentError, parse_yaml
from mono_router.lab.cases import CasesError, load_cases
from mono_router.lab.comparison import compare
from mono_router.lab.evaluation import evaluate
from mono_router.lab.tuning import sweep
from mono_router.reading import CatalogError
from mono_router.records import Case, Example, Tool
from mono_router.router import Router
from mono_router.settings import Settings

TOOL = "tools: [{id: a, description: A"
BOMB = "\n".join(["a: &a [x, x, x, x, x, x, x, x, x]"] + [
    f"{two}: &{two} [{', '.join([f'*{one}'] * 9)}]" for one, two in zip("abcdefgh", "bcdefghi", strict=True)
])  # fmt: skip
CATALOGS = {
    "broken YAML": ("tools: [{id: a", r"catalog\.yaml:\d+: "),
    "not YAML at all": ("\x01\x02", r"catalog\.yaml"),
    "duplicate ids": (TOOL + "}, {id: a, description: B}]", r"catalog\.yaml:1: a: duplicate id"),
    "no JSON Schema": (
        TOOL + ", input_schema: {type: object, properties: {x: {type: 3}}}}]",
        r"a: input_schema is no JSON",
    ),
    "a bomb": (BOMB, r"catalog\.yaml:1: anchors are not allowed"),
    "an alias": (TOOL + ", hints: *x}]", r"catalog\.yaml:1: aliases are not allowed \(\*x\)"),
    "a duplicate key": (TOOL + ", description: B}]", r"catalog\.yaml:1: duplicate key 'description'"),
    "a tag": (TOOL + ", run: !!python/object/apply:os.system [ls]}]", r"tags are not allowed"),
    "no tools": ("version: 1\ntools: []", r": no tools"),
    "nested without end": ("a: " + "[" * 500, r"nested deeper than"),
    "effects: no": (TOOL + ", effects: no}]", r"effects must be read or write, got 'no'"),
    "a weight of .inf": (TOOL + ", keywords: {x: .inf}}]", r"keywords must map words to weights > 0"),
    "a weight of 1e999": (TOOL + ", keywords: {x: 1e999}}]", r"keywords must map words to weights > 0"),
}


@pytest.mark.parametrize("name", CATALOGS)
def test_catalogs(tmp_path, name: str) -> None:
    """A catalog that cannot be used is told in one line a fault, with its place."""
    text, says = CATALOGS[name]
    (tmp_path / "catalog.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError, match=says) as caught:
        Catalog.load(tmp_path)
    assert all("\n" not in problem and len(problem) < 500 for problem in caught.value.problems)


def test_no_and_a_clock_time_stay_text(tmp_path) -> None:
    """``no`` and ``16:30`` mean what a person wrote: hints, keywords, enums and defaults stay text."""
    (tmp_path / "catalog.yaml").write_text(
        "tools:\n  - id: a\n    description: A\n    hints: [no, 16:30]\n    keywords: {no: 1, 16:30: 2.0}\n"
        "    examples: [no, on, 16:30]\n"
        "    input_schema: {properties: {x: {enum: [no, 16:30], default: off}}}\n"
    )
    tool = Catalog.load(tmp_path)["a"]
    assert tool.hints == ("no", "16:30")
    assert dict(tool.keywords) == {"no": 1.0, "16:30": 2.0}
    assert [e.message for e in tool.examples] == ["no", "on", "16:30"]
    assert tool.input_schema["properties"]["x"] == {"enum": ["no", "16:30"], "default": "off"}


def test_settings_from_yaml() -> None:
    """A setting that is misspelt in YAML is told with the nearest name, and ``no`` is no switch."""
    wrong = parse_yaml("routing: {lexical: {min_scroe: 0.4}}").value["routing"]
    with pytest.raises(
        ValueError, match=r"unknown setting 'lexical.min_scroe', did you mean 'lexical.min_score'\?"
    ):
        Settings.from_dict(wrong)
    switch = parse_yaml("routing: {lexical: {enabled: no}}").value["routing"]
    with pytest.raises(ValueError, match=r"lexical\.enabled must be true or false, got 'no'"):
        Settings.from_dict(switch)


def test_case_with_an_unknown_tool(tmp_path) -> None:
    """A case that names a tool that is not there is told with file, line, id and the nearest tool."""
    (tmp_path / "catalog.yaml").write_text("tools: [{id: price, description: P}]")
    case = {"id": "c-1", "message": "m", "expected_tools": ["prices"]}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case))
    says = r"cases\.jsonl:1: c-1: expected_tools names unknown tool 'prices', did you mean 'price'\?"
    with pytest.raises(CasesError, match=says):
        load_cases(tmp_path)


def test_messages(router) -> None:
    """An empty message is no tool; one of a megabyte is refused; unwritable characters are replaced."""
    assert router.route("").decision.outcome == "no_tool"
    with pytest.raises(ValueError, match="at most 100000 characters, got 1000000"):
        router.route("x" * 1_000_000)
    trace = router.route("what time is it \ud800\x00")
    assert trace.query.message.endswith("\ufffd\ufffd")
    assert trace.candidates[0].tool == "clock.now"


def test_cases_with_odd_messages(tmp_path, catalog) -> None:
    """A set whose messages hold NUL and lone surrogates is evaluated and reported like any other."""
    messages = ["what time is it\x00", "\ud800", "turn on the light \udfff"]
    cases = [Case(id=str(i), message=m, expected_tools=()) for i, m in enumerate(messages)]
    report = evaluate(Router(catalog), cases, progress=False, latency=False)
    assert len(report.frame) == 3
    report.to_json().encode("utf-8", "surrogatepass")


def test_catalogs_at_the_edge() -> None:
    """No tools, one tool, and tools that all score alike each route sensibly."""
    nothing = Router(Catalog([])).route("hello").decision
    assert (nothing.outcome, nothing.reason) == ("no_tool", "NO_CANDIDATES")
    one = Router(Catalog([Tool(id="a", description="Tell the time", hints=("what time is it",))]))
    assert one.route("what time is it").decision.tool == "a"
    same = Router(Catalog(Tool(id=f"t{i}", description="the very same") for i in range(5)))
    assert [r.tool for r in same.route("the very same").decision.ranked] == [f"t{i}" for i in range(5)]


def test_a_file_that_is_no_text(tmp_path) -> None:
    """A catalog that is not UTF-8 is told with the place of the first bad byte."""
    (tmp_path / "catalog.yaml").write_bytes(b"tools: \xff\xfe")
    with pytest.raises(CatalogError, match="not UTF-8 at byte 7"):
        Catalog.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["a:\n\t- b", "%", "@a", "a: b: c", "- a\nb", "{", "'", '"\\x"', "? ? ?", "\ud800"]
)
def test_one_error_of_the_parser(text: str) -> None:
    """Whatever the parser trips over, it is one error of ours in one line."""
    with pytest.raises(DocumentError) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)


EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>\u202e&amp;</td></table>'


class Tags(HTMLParser):
    """Collects the elements and the attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag, attrs) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}


def assert_escaped(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert not tags.seen & {"script", "img", "iframe", "object", "a", "link"}
    assert not {name for name in tags.attributes if name.startswith("on")}
    assert "<script" not in page.lower()
    assert "\u202e" not in page


def test_markup_is_escaped_everywhere(tmp_path: Path) -> None:
    """A tool, a case and a setting full of markup show as text in every representation."""
    pytest.importorskip("mono_router.html")
    schema = {"type": "object", "properties": {EVIL: {"type": "string", "description": EVIL}}}
    tools = [
        Tool(id=f"<b>{i}</b>", title=EVIL, description=EVIL, hints=(EVIL,), examples=(Example(message=EVIL),),
             keywords={EVIL: 1.0}, input_schema=schema, boundaries=(EVIL,))
        for i in range(2)
    ]  # fmt: skip
    catalog = Catalog(tools)
    router = Router(catalog)
    cases = [
        Case(id=f"<i>{i}</i>", message=f"{EVIL} {i}", expected_tools=(tools[i % 2].id,) if i % 3 else (),
             language="<u>", tags=(EVIL,), group=f"<g>{i}")
        for i in range(6)
    ]  # fmt: skip
    report = evaluate(router, cases, progress=False, latency=False)
    harsh = router.with_settings(Settings().replace({"selection.min_confidence": 1.0}))
    other = evaluate(harsh, cases, progress=False, latency=False)
    swept = sweep(router, cases, {"selection.min_confidence": [0.0, 0.5, 1.0]}, progress=False)
    shown = [catalog, router.route(EVIL), report, compare(report, other), swept]
    shown += [swept.pick(subject_to={"tool_accuracy": (">=", 2.0)})]
    for one in shown:
        page = one._repr_html_()
        assert re.search(r"<\w+", page), type(one).__name__
        assert_escaped(page)


def test_jsonl_that_is_not_utf8_names_file_and_line(tmp_path: Path) -> None:
    """A byte that is no UTF-8 gives one line with the file and the line, not a decoder's message."""
    (tmp_path / "catalog.jsonl").write_bytes(b'{"id": "a", "description": "A"}\n{"id": "\xff"}\n')
    with pytest.raises(CatalogError, match=r"catalog\.jsonl:\d: not UTF-8"):
        Catalog.load(tmp_path)
    (tmp_path / "catalog.jsonl").unlink()
    (tmp_path / "catalog.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(CatalogError, match="not a whole gzip file"):
        Catalog.load(tmp_path)
