"""A folder to start from: it checks, tunes, and holds what its comments say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mono_router.catalog import Catalog
from mono_router.cli import main
from mono_router.embedding import LightEncoder
from mono_router.lab.cases import load_cases
from mono_router.lab.evaluation import evaluate
from mono_router.router import Router


def test_what_init_writes_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check finds no fault, tune runs to its end, and most of the cases are routed right."""
    folder = tmp_path / "mine"
    assert main(["init", str(folder)]) == 0
    assert sorted(p.name for p in folder.iterdir()) == [
        "cases.jsonl", "catalog.yaml", "config.yml", "library_tools.py", "tune.ipynb",
    ]  # fmt: skip
    capsys.readouterr()
    assert main(["check", str(folder), "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert (checked["warnings"], checked["tools"], checked["languages"]) == ([], 4, ["ar", "en", "es"])
    assert main(["tune", str(folder), "--report", ""]) == 0
    router = Router(Catalog.load(folder), encoder=LightEncoder())
    assert evaluate(router, load_cases(folder), latency=False).metric("top1_hit").value > 0.7


def test_the_starter_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells run from the folder that was written."""
    main(["init", str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((tmp_path / "tune.ipynb").read_text(encoding="utf-8"))
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    for cell in code:
        exec(cell, names)
    assert names["point"].settings is not None


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is there stops the command before anything is written."""
    (tmp_path / "catalog.yaml").write_text("mine", encoding="utf-8")
    assert main(["init", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"mono-router: {tmp_path / 'catalog.yaml'}: is there already\n"
    assert [p.name for p in tmp_path.iterdir()] == ["catalog.yaml"]
