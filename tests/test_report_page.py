"""The report page stands alone and is inert, whatever its texts hold."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import pytest

import mono_router as mr
from mono_router.lab.report import write_report

HOSTILE = "<script>alert(\"1\")</script><img src=x onerror='y'>\u202e & $\\frac{1$"


@pytest.fixture(scope="module")
def cases():
    return mr.load_cases("datasets/booking", split="dev")[:60]


@pytest.fixture(scope="module")
def sweep(cases):
    router = mr.Router(mr.Catalog.load("datasets/booking"), model=mr.SimulatedModel(cases))
    grid = {"lexical.min_score": [0.1, 0.4, None], "candidate_limit": [1, 6]}
    return mr.sweep(router, cases, grid, progress=False)


@pytest.fixture(scope="module")
def page(sweep, tmp_path_factory):
    point = sweep.pick()
    test = mr.load_cases("datasets/booking", split="test")[:40]
    router = mr.Router(sweep.router.catalog, model=mr.SimulatedModel(test))
    estimate = point.report(router, test, progress=False)
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert write_report(path, sweep.report(0), sweep=sweep, point=point, test_report=estimate) == path
    return path.read_text(encoding="utf-8")


def images(page):
    return [base64.b64decode(text) for text in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)]


def test_page_has_every_part(page):
    """Estimate, summary, point, sweep, plots, slices, errors, provenance, and the marks they need."""
    heads = re.findall(r"<h2>(.*?)</h2>", page)
    assert heads == [
        "Estimate on test",
        "Summary on dev",
        "Operating point",
        "Sweep",
        "Diagnosis",
        "Plots",
        "Slices",
        "Wrong decisions, most confident first",
        "Provenance",
        "Provenance of the estimate",
    ]
    assert "selected on dev" in page
    assert "simulated" in page
    assert "right tools, or rightly none" in page
    assert "sha256:" in page
    assert len(images(page)) == 11


def test_page_loads_and_runs_nothing(page):
    """No request, no script, and a policy that forbids both; under 3 MB."""
    assert not re.search(r"<(script|link|iframe|object|embed)\b", page)
    assert not re.search(r'\b(src|href)=(?!"data:image/svg)', page)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert len(page.encode()) < 3_000_000


def test_images_are_well_formed_and_alone(page):
    """Every plot is one SVG that names nothing outside itself."""
    for image in images(page):
        for element in ElementTree.fromstring(image).iter():
            assert element.tag.rpartition("}")[2] not in ("script", "foreignObject")
            for name, value in element.attrib.items():
                assert not name.endswith("href") or value.startswith(("#", "data:image/png"))


def test_same_results_give_the_same_page(sweep, tmp_path):
    """Nothing of the day or the run is in the page."""
    report = sweep.report(1)
    first, second = (write_report(tmp_path / f"{n}.html", report, title="t").read_bytes() for n in "ab")
    assert first == second


def test_hostile_texts_are_inert(tmp_path):
    """Tools, messages, ids, languages, tags and the title are text, in tables and in images."""
    tools = [mr.Tool(id=HOSTILE + n, description=HOSTILE, hints=(f"say {n}",)) for n in ("alpha", "beta")]
    router = mr.Router(mr.Catalog(tools))
    cases = [
        mr.Case(
            id=f"{HOSTILE}{i}",
            message=f"{HOSTILE} say alpha {i}",
            expected_tools=(tools[i % 2].id,),
            language=f"{HOSTILE}{i % 2}",
            tags=(HOSTILE,),
            split=HOSTILE,
        )
        for i in range(6)
    ]
    report = mr.evaluate(router, cases)
    page = write_report(tmp_path / "page.html", report, title=HOSTILE).read_text(encoding="utf-8")
    assert not re.search(r"<(script|img src=x)", page)
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page
    for image in images(page):
        assert b"<script" not in image
        ElementTree.fromstring(image)


def test_page_of_a_report_alone(tmp_path):
    """One case, nothing wrong, no sweep: a page without what there is nothing of."""
    router = mr.Router(mr.Catalog([mr.Tool(id="a", description="book a table", hints=("book a table",))]))
    report = mr.evaluate(router, [mr.Case(id="1", message="book a table", expected_tools=("a",))])
    page = write_report(tmp_path / "page.html", report).read_text(encoding="utf-8")
    assert "Report on 1 cases and 1 tools" in page
    assert "<h2>Sweep" not in page
    assert "Confusions" not in page
    assert len(images(page)) == 4
