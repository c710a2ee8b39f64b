"""``mono-router chat``: a conversation over lines, with the commands of the terminal."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import NOW

from mono_router.cli import main

CATALOG = """
version: 1
tools:
  - id: garden.water
    title: Water the garden
    description: Water the garden
    hints: [water the garden]
    input_schema: {type: object, properties: {minutes: {type: integer}}, required: [minutes]}
    effects: write
    confirm: true
    run: {python: "hose_tools_3:water"}
  - id: garden.look
    title: Look at the garden
    description: Tell how the garden is
    hints: [how is the garden]
    run: {python: "hose_tools_3:look"}
"""
MODULE = (
    "def water(minutes):\n    return f'Watered for {minutes} minutes.'\n\n\ndef look():\n    return 'Dry.'\n"
)


@pytest.fixture
def garden(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "catalog.yaml").write_text(CATALOG, encoding="utf-8")
    (tmp_path / "hose_tools_3.py").write_text(MODULE, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("hose_tools_3", None)  # the next test has one of its own


def talk(monkeypatch, capsys, lines: list[str], *arguments: str) -> tuple[int, list[str], str]:
    """Exit code, lines of output, and what was said on standard error."""
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(line + "\n" for line in lines)))
    code = main(["chat", *arguments, "--now", NOW])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_a_conversation_over_lines(garden, monkeypatch, capsys) -> None:
    """Messages, a confirmation, feedback, each with its reply; what follows /quit is not read."""
    lines = [
        "how is the garden?",
        "water the garden",
        "10",
        "yes",
        "/confirm",
        "/up fine",
        "/nonsense",
        "/quit",
        "x",
    ]
    given = (str(garden), "--python-module", "hose_tools_3")
    code, out, err = talk(monkeypatch, capsys, lines, *given)
    assert code == 0
    assert out[0] == "Dry."
    assert out[1] == "[garden.look]"
    assert out[2].startswith("Water the garden: I still need minutes")
    assert sum("[/confirm or /cancel]" in line for line in out) == 2
    assert out[-3:] == ["Watered for 10 minutes.", "[garden.water]", "Noted."]
    assert "unknown command /nonsense" in err


def test_results_as_json_lines(garden, monkeypatch, capsys) -> None:
    """With --json each line is a result."""
    (garden / "config.yml").write_text("python_modules: [hose_tools_3]\nencoder: none\n", encoding="utf-8")
    given = (str(garden), "--json")
    code, out, err = talk(monkeypatch, capsys, ["how is the garden?", "/cancel", "/confirm"], *given)
    assert (code, err) == (0, "")
    records = [json.loads(line) for line in out]
    assert [record["status"] for record in records] == ["completed", "completed", "error"]
    assert records[0]["data"] == "Dry."
    assert records[2]["error"]["code"] == "CONFIRMATION_STALE"


def test_what_cannot_be_made_is_told_in_lines(garden, monkeypatch, capsys) -> None:
    """Modules that the host did not list, and a folder that is none, are one line each and exit 2."""
    code, out, err = talk(monkeypatch, capsys, [], str(garden))
    assert (code, out) == (2, [])
    assert "garden.look: run.python names module 'hose_tools_3', which the host does not list" in err
    code, out, err = talk(monkeypatch, capsys, [], str(garden / "nowhere"))
    assert (code, err.count("\n")) == (2, 1)
