"""What a newcomer meets in the first hour: lists of others, a folder of one's own, and slips of the hand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from mono_router.catalog import Catalog
from mono_router.cli import COMMANDS, MOST_LINES, main
from mono_router.runtime.manifest import endpoint_problems

FIELD = {"type": "string", "description": "where the message goes"}
FORM: dict[str, Any] = {
    "openapi": "3.0.1",
    "servers": [{"url": "https://api.example.com"}],
    "paths": {
        "/messages": {
            "post": {
                "operationId": "send",
                "requestBody": {
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {"type": "object", "required": ["to"], "properties": {"to": FIELD}}
                        }
                    }
                },
            },
            "put": {
                "operationId": "upload",
                "requestBody": {
                    "content": {
                        "multipart/form-data": {"schema": {"type": "object", "properties": {"to": FIELD}}}
                    }
                },
            },
            "get": {"operationId": "all", "security": [{"token": []}]},
        }
    },
    "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
}


@pytest.fixture
def mine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder as ``init`` writes it."""
    folder = tmp_path / "mine"
    assert main(["init", str(folder)]) == 0
    capsys.readouterr()
    return folder


def told(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The one line that a command line with a slip in it gets, without the program's name."""
    assert main(list(line)) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("mono-router: ")
    return captured.err.removeprefix("mono-router: ").strip()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("tun DIR", "argument COMMAND: unknown 'tun', did you mean 'tune'? (see mono-router --help)"),
        ("import mpc x.json", "unknown 'mpc', did you mean 'mcp'? (see mono-router import --help)"),
        ("data lst", "unknown 'lst', did you mean 'list'?"),
        ("data get clinc", "unknown public set 'clinc', did you mean 'clinc150'?"),
        ("eval DIR --offered cases", "unknown 'cases', did you mean 'case'?"),
        ("tune", "the following arguments are required: DIR (see mono-router tune --help)"),
        ("eval nowhere", "nowhere: no such file or folder"),
        ("chat nowhere", "nowhere: no such file or folder"),
        ("route nowhere hi", "nowhere: no such file or folder"),
        (
            "tune DIR/catalog.yaml",
            "catalog.yaml: a folder with a catalog and cases.jsonl is needed, got a file",
        ),
        (
            "route DIR/tune.ipynb hi",
            "tune.ipynb: a catalog is a .yaml or .jsonl[.gz] file, or a folder with one",
        ),
        ("eval DIR --split tset", "no case has split 'tset', did you mean 'test'?"),
        ("eval DIR --language fr", "no case has language 'fr', there are ar, en, es"),
        ("tune DIR --language fr", "no case has language 'fr', there are ar, en, es"),
        (
            "eval DIR --fail-under tool_acuracy=0.5",
            "--fail-under: unknown metric 'tool_acuracy', did you mean 'tool_accuracy'?",
        ),
        ("eval DIR --max ece=low", "--max: ece must be a number, got 'low'"),
        ("eval DIR --max ece", "expected NAME=VALUE, got 'ece'"),
        ("compare DIR --metric top_hit", "unknown metric 'top_hit', did you mean 'top1_hit'?"),
        ("compare DIR --after nope.json", "nope.json: no such file or directory"),
        ("compare DIR --after DIR/cases.json", "cases.json: no operating point"),
        ("route DIR hi --now yesterday", "now must be an ISO 8601 date and time, got 'yesterday'"),
        ("route DIR hi --encoder ligth", "unknown encoder 'ligth', did you mean 'light'?"),
        ("route DIR hi --set lexical.min_scroe=1", "unknown setting 'lexical.min_scroe', did you mean"),
        ("tune DIR --report nowhere/x.html", "--report nowhere/x.html: no folder nowhere"),
        ("tune DIR --save nowhere/x.json", "--save nowhere/x.json: no folder nowhere"),
        ("tune DIR --no-tool-prior 3", "--no-tool-prior must be in (0, 1), got 3.0"),
        ("init DIR/catalog.yaml", "catalog.yaml: is a file, a folder is needed"),
        ("import mcp nowhere.json", "nowhere.json: no such file or directory"),
        ("apply DIR nowhere.json", "nowhere.json: no such file or directory"),
        ("apply DIR DIR/cases.json", "cases.json: no proposal, `mono-router propose` writes one"),
        ("analyze DIR", "no journal (looked for a URL, journal: in config.yml, or a store)"),
    ],
    ids=lambda value: value.split(" ", 1)[0] if isinstance(value, str) else None,
)
def test_slips(mine: Path, capsys: pytest.CaptureFixture[str], line: str, says: str) -> None:
    """A slip gets one line that names it, with the nearest name where there is one, before any work."""
    (mine / "cases.json").write_text("{}", encoding="utf-8")
    assert says in told(capsys, *line.replace("DIR", str(mine)).split())


def test_check_reads_the_settings_too(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt setting in config.yml is a fault of the folder."""
    (mine / "config.yml").write_text("routing: {candidate_limt: 3}\n", encoding="utf-8")
    assert "config.yml:1: unknown setting 'candidate_limt', did you mean" in told(capsys, "check", str(mine))


def test_a_broken_catalog_is_told_before_its_cases(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where both are missing or broken, the catalog comes first."""
    (mine / "catalog.yaml").write_text("tools: [{id: a", encoding="utf-8")
    (mine / "cases.jsonl").unlink()
    for command in ("tune", "eval", "diagnose", "compare", "check"):
        assert "catalog.yaml:" in told(capsys, command, str(mine))


def test_many_problems_are_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is wrong in every line does not fill the terminal."""
    (tmp_path / "catalog.jsonl").write_text("nothing\n" * 100, encoding="utf-8")
    assert main(["check", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == f"mono-router: {100 - MOST_LINES} problems more"


def test_a_list_of_another_kind_is_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Read as another kind a list would lose its schemas: it is refused, by what it looks like."""
    file, out = tmp_path / "tools.json", str(tmp_path / "catalog.yaml")
    for kind, document in {
        "mcp": {"tools": [{"name": "a", "inputSchema": {}}]},
        "anthropic": [{"name": "a", "input_schema": {}}],
        "openai": [{"type": "function", "function": {"name": "a"}}],
        "openapi": FORM,
    }.items():
        file.write_text(json.dumps(document), encoding="utf-8")
        for other in sorted({"mcp", "anthropic", "openai", "openapi"} - {kind}):
            says = f"{file}: no {other} list, it looks like {kind}"
            assert told(capsys, "import", other, str(file), "--out", out, "--force") == says
        assert main(["import", kind, str(file), "--out", out, "--force"]) == 0
        capsys.readouterr()


def test_form_bodies_keep_their_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A form's fields route and are extracted; what cannot be sent from here has no run, and is told."""
    catalog = Catalog.from_openapi(FORM)
    assert catalog["send"].required == ("to",)
    assert dict(catalog["send"].properties["to"]) == FIELD
    assert catalog["send"].run["http"]["body_type"] == "form"
    assert endpoint_problems(catalog["send"]) == []
    assert dict(catalog["upload"].properties["to"]) == FIELD
    assert catalog["upload"].run is None
    assert catalog["all"].run["http"]["auth"]["env"] == "TOKEN"
    file = tmp_path / "api.json"
    file.write_text(json.dumps(FORM), encoding="utf-8")
    assert main(["import", "openapi", str(file), "--out", str(tmp_path / "catalog.yaml")]) == 0
    printed = capsys.readouterr().out
    assert "a body of multipart/form-data is not sent from here" in printed
    assert "auth: {TOKEN: https://...}" in printed
    assert '"expected_tools": ["all"]' in printed


def test_notes_on_many_tools_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is said of many tools is printed once, with how many and the first."""
    schema = {"type": "object", "properties": {"api_key": {"type": "string"}}}
    file = tmp_path / "tools.json"
    file.write_text(
        json.dumps([{"name": f"t{i}", "inputSchema": schema} for i in range(9)]), encoding="utf-8"
    )
    assert main(["import", "mcp", str(file), "--out", str(tmp_path / "catalog.yaml")]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "credential" in line]
    says = "argument 'api_key' may carry a credential: made a system argument (9 tools, first t0)"
    assert notes == [f"note: {says}"]


def test_few_cases_are_told(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A choice among settings on a dozen cases is made with a warning."""
    assert main(["tune", str(mine), "--report", ""]) == 0
    assert "note: 12 independent dev cases cannot tell settings apart" in capsys.readouterr().out


def test_cases_without_splits_are_compared(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without splits, compare takes the half that tune tests on; intervals stay on their scale."""
    file = mine / "cases.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    lines = [json.dumps({k: v for k, v in row.items() if k != "split"}) for row in rows]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert main(["compare", str(mine), "--after", "selection.min_confidence=0.9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["cases"] < len(rows)
    for row in found["change"].values():
        assert -1 <= row["low"] <= row["change"] <= row["high"] <= 1


def test_the_starter_answers(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder that init writes talks: its tools run, and what changes something asks first."""
    import io

    says = "find a book by Herman Melville\nrenew Dune\n/confirm\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(says))
    assert main(["chat", str(mine), "--json"]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["status"] for r in results] == ["completed", "needs_confirmation", "completed"]
    assert "Moby Dick" in results[0]["reply"]


QUICK = {"check", "route", "version", "init", "eval", "diagnose", "compare"}
"""Commands whose example runs in a moment; tune, chat and import have tests of their own."""


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.name in QUICK], ids=lambda c: c.name)
def test_examples_work_as_printed(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of ``--help`` runs from the repository's folder."""
    assert main([command.name, "--help"]) == 0
    assert f"example: {command.example}" in capsys.readouterr().out
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    monkeypatch.chdir(tmp_path)
    name, *line = shlex.split(command.example)
    assert name == "mono-router"
    assert main(line) == 0


def test_the_example_of_import_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list that is piped in becomes a catalog."""
    import io

    example = next(c.example for c in COMMANDS if c.name == "import")
    found = re.fullmatch(r"echo '(.*)' \| mono-router (.*)", example)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(found[1]))
    assert main(shlex.split(found[2])) == 0
    assert Catalog.load("clock").ids == ("clock",)
