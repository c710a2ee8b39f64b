"""The explorer in a real JupyterLab and the report page in a real browser, as a reader sees them.

With MONO_ROUTER_SCREENS set to a folder the screenshots are kept there.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from chromium import CHROMIUM, jupyterlab, page, until
from conftest import ROOT

import mono_router as mr
from mono_router.lab.report import write_report
from mono_router.markup import number

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on this machine")
needs_lab = pytest.mark.skipif(
    find_spec("jupyterlab") is None or find_spec("ipywidgets") is None, reason="jupyterlab is not installed"
)
GRID = {"lexical.min_score": [0.3, 0.7, None], "candidate_limit": [1, 6]}
GRID["selection.min_confidence"] = [0.1, 0.3, 0.5, 0.7, 0.9]
CELL = f"""import mono_router as mr
cases = mr.load_cases({str(ROOT / "datasets" / "booking")!r}, split="dev")
router = mr.Router(mr.Catalog.load({str(ROOT / "datasets" / "booking")!r}), encoder=mr.LightEncoder())
grid = {GRID!r}
mr.explore(mr.sweep(router, cases, grid, progress=False))"""
# The notebook, once it has a kernel, becomes the current widget.
OPENED = """
(() => {
  const widgets = Array.from(window.jupyterapp?.shell?.widgets('main') ?? []);
  const notebook = widgets.find(w => w.sessionContext?.session?.kernel?.status === 'idle');
  if (notebook) window.jupyterapp.shell.activateById(notebook.id);
  return !!notebook;
})()
"""
FIGURES = """
Array.from(document.querySelectorAll('.jp-OutputArea-output .mr table')).map(
  t => Array.from(t.querySelectorAll('tbody tr')).map(r => Array.from(r.cells).map(c => c.innerText.trim()))
).find(rows => rows.length && rows[0][0] === 'tool_accuracy')
"""
FLIPS = """
Array.from(document.querySelectorAll('.jp-OutputArea-output .mr h3')).map(h => h.innerText)
"""
# Focus the slider's handle, and note when the figures' panel is written anew.
FOCUS = """
(name => {
  const row = Array.from(document.querySelectorAll('.widget-slider')).find(
    s => s.querySelector('.widget-label').innerText === name);
  const figures = Array.from(document.querySelectorAll('.widget-html-content')).find(
    p => p.innerText.includes('tool_accuracy'));
  window.written = [];
  new MutationObserver(() => window.written.push(performance.now())).observe(
    figures, {childList: true, subtree: true});
  const handle = row.querySelector('.noUi-handle');
  handle.addEventListener('keydown', () => { window.pressed = performance.now(); }, true);
  handle.focus();
  return document.activeElement === handle;
})('selection.min_confidence')
"""
READOUT = """
Array.from(document.querySelectorAll('.widget-slider')).map(
  s => [s.querySelector('.widget-label').innerText, s.querySelector('.widget-readout').innerText])
"""


@pytest.fixture
def screens(tmp_path) -> Path:
    """Folder of the screenshots."""
    folder = Path(os.environ.get("MONO_ROUTER_SCREENS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def swept(booking, booking_dev, booking_encoder):
    router = mr.Router(booking, encoder=booking_encoder)
    return mr.sweep(router, booking_dev, GRID, progress=False)


def shown(swept, i):
    """The figures of combination i as the widget writes them."""
    row = swept.frame.iloc[i]
    names = ("tool_accuracy", "top1_hit", "candidate_recall", "false_tool_rate", "missed_tool_rate")
    return {name: number(float(row[name])) for name in (*names, "recall_rate")}


@needs_lab
def test_a_slider_moved_in_jupyterlab(swept, tmp_path, screens):
    """An arrow key moves the slider; figures, curve and flips on the page are those of the sweep."""
    start = mr.explore(swept)
    values = GRID["selection.min_confidence"]
    at = values.index(start.combination["selection.min_confidence"])
    step, key, code = (1, "ArrowRight", 39) if at < len(values) - 1 else (-1, "ArrowLeft", 37)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "explore.ipynb")
    with jupyterlab(tmp_path) as address, page(tmp_path) as tab:
        tab.send("Page.navigate", url=f"{address}/lab/tree/explore.ipynb?reset")
        until(lambda: tab.run(OPENED), seconds=40, what="the notebook's kernel")
        tab.run("window.jupyterapp.commands.execute('application:toggle-left-area')")
        tab.run("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        before = until(lambda: tab.run(FIGURES), seconds=60, what="the widget")
        assert {row[0]: row[1] for row in before} == shown(swept, start.number)
        tab.screenshot(screens / "explore_before.png")
        assert tab.run(FOCUS)
        tab.press(key, code)
        until(lambda: tab.run("window.written.length"), seconds=10, what="new figures")
        start.move({"selection.min_confidence": values[at + step]})
        after = until(lambda: (rows := tab.run(FIGURES)) != before and rows, seconds=10, what="other figures")
        assert {row[0]: row[1] for row in after} == shown(swept, start.number)
        assert dict(tab.run(READOUT))["selection.min_confidence"] == str(values[at + step])
        told = {f"{len(start.gained)} became right", f"{len(start.lost)} became wrong"}
        until(lambda: told <= set(tab.run(FLIPS)), seconds=10, what="the flips")
        assert tab.run("document.querySelectorAll('.jp-OutputArea-output svg.chart circle').length")
        trip = tab.run("window.written[0] - window.pressed")
        print(f"from key to figures: {trip:.0f} ms")
        tab.screenshot(screens / "explore_after.png")


def test_the_report_page_in_a_browser(swept, booking, booking_dev, tmp_path, screens):
    """The page opens from a file: images are drawn, nothing is loaded, no script runs, no line overflows."""
    point = swept.pick()
    test = mr.load_cases(ROOT / "datasets" / "booking", split="test")
    estimate = point.report(swept.router, test, progress=False)
    best = swept.report(int(swept.frame["tool_accuracy"].argmax()))
    path = write_report(tmp_path / "report.html", best, sweep=swept, point=point, test_report=estimate)
    with page(tmp_path, width=1180, height=900) as tab:
        tab.send("Page.navigate", url=path.as_uri())
        until(lambda: tab.run("document.readyState === 'complete'"), seconds=20, what="the page")
        drawn = tab.run("Array.from(document.images).map(i => i.complete && i.naturalWidth > 0)")
        assert len(drawn) >= 10
        assert all(drawn)
        assert (
            tab.run("performance.getEntriesByType('resource').filter(r => /^http/.test(r.name)).length") == 0
        )
        assert tab.run("document.scripts.length") == 0
        assert tab.run("document.documentElement.scrollWidth <= window.innerWidth")
        height = tab.run("Math.ceil(document.documentElement.scrollHeight)")
        tab.send(
            "Emulation.setDeviceMetricsOverride",
            width=1180,
            height=min(height, 9000),
            deviceScaleFactor=1,
            mobile=False,
        )
        tab.screenshot(screens / "report.png")
