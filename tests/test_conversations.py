"""Whole conversations over our own data sets, as users have them: local selector, light encoder, real tools.

The scripts are in ``tests/conversations``; what they leave in the SQLite file is checked row by row.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from conftest import HERE, NOW, ROOT

from mono_router.documents import read_yaml
from mono_router.router import Router
from mono_router.runtime.agent import AgentRuntime
from mono_router.runtime.results import Result

SCRIPTS = sorted((HERE / "conversations").glob("*.yaml"))
TURN_KEYS = {
    "say", "do", "with", "status", "tool", "arguments", "missing", "mode", "error", "options", "reply",
}  # fmt: skip
PICKY = {"selection.min_margin": 0.5}
"""With these settings close candidates are shown instead of chosen from."""
OWN = {"id", "user_id", "customer_id"}
"""Columns that no script states."""
_routers: dict[str, Router] = {}


def script_of(path: Path) -> dict[str, Any]:
    found = read_yaml(path).value
    assert isinstance(found, dict)
    return found


def runtime_over(
    name: str, *, conversation: bool = True, settings: dict[str, Any] | None = None
) -> AgentRuntime:
    """The data set as its config.yml has it; its router is fitted once for all scripts."""
    folder = ROOT / "datasets" / name
    if name not in _routers:
        with AgentRuntime.create(config_path=folder / "config.yml", now=NOW) as first:
            _routers[name] = first.router
    router = _routers[name]
    if settings:
        router = router.with_settings(router.settings.replace(settings))
    config = {
        k: v for k, v in read_yaml(folder / "config.yml").value.items() if k not in ("evaluation", "routing")
    }
    config |= {"folder": str(folder), "assistant": {"conversation": {"enabled": conversation}}}
    return AgentRuntime.create(config=config, router=router, now=NOW)


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "rows.sqlite"
    for name in ("ASSISTANT", "BOOKING"):
        monkeypatch.setenv(f"{name}_DB", str(path))
    monkeypatch.setenv("ASSISTANT_TODAY", NOW[:10])
    return path


def differences(turn: dict[str, Any], result: Result) -> list[str]:
    """What of a turn is not as its script states."""
    decision = result.decision
    came = {
        "status": result.status,
        "tool": result.tool,
        "arguments": dict(result.arguments),
        "missing": [pointer.lstrip("/") for pointer in result.missing],
        "mode": None if decision is None else decision.mode,
        "error": None if result.error is None else result.error.code,
        "options": [row["tool"] for row in result.data or ()] if result.status == "needs_selection" else [],
    }
    stated = {"status": "completed", "error": None, "missing": [], **turn}
    found = [
        f"{key}: {stated[key]!r} expected, {came[key]!r} came"
        for key in came
        if key in stated and stated[key] != came[key]
    ]
    if turn.get("reply", "") not in result.reply:
        found.append(f"reply: {turn['reply']!r} expected in {result.reply!r}")
    return found


def rows_of(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """All rows of all tables, without ids and empty columns."""
    with sqlite3.connect(path) as database:
        database.row_factory = sqlite3.Row
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = [
            (name, {k: row[k] for k in row.keys() if k not in OWN and row[k] is not None})  # noqa: SIM118
            for name in names
            for row in database.execute(f'SELECT * FROM "{name}" ORDER BY id')
        ]
    database.close()
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_conversation(path: Path, database: Path) -> None:
    """Each turn comes out as its script states, and the rows that the tools wrote are those it states."""
    script = script_of(path)
    name = script["data_set"]
    runtimes = {
        None: runtime_over(name),
        "quiet": runtime_over(name, conversation=False),
        "picky": runtime_over(name, settings=PICKY),
    }
    # What a new file holds before anything is said, so that only what was written is compared.
    first = next(tool.id for tool in runtimes[None].catalog if tool.effects == "read" and not tool.required)
    runtimes[None].invoke(first, {})
    before = rows_of(database)
    wrong = []
    for number, turn in enumerate(script["turns"], 1):
        assert set(turn) <= TURN_KEYS, (number, set(turn) - TURN_KEYS)
        runtime = runtimes[turn.get("with")]
        result = runtime.chat("s", turn["say"]) if "say" in turn else getattr(runtime, turn["do"])("s")
        said = turn.get("say", turn.get("do"))
        wrong += [f"{number}. {said}: {text}" for text in differences(turn, result)]
    for runtime in runtimes.values():
        runtime.dispose()
    assert not wrong, "\n".join(wrong)
    left = rows_of(database)
    written = [row for row in left if row not in before or left.count(row) > before.count(row)]
    stated = [(row["table"], {k: v for k, v in row.items() if k != "table"}) for row in script["rows"]]
    assert sorted(written, key=repr) == sorted(stated, key=repr)


@pytest.mark.parametrize("language", ["en", "es", "ar"])
def test_the_scripts_hold_what_conversations_are_made_of(language: str) -> None:
    """Per language: thirty turns on each set, and each kind of turn that a conversation can take."""
    turns: list[dict[str, Any]] = []
    for name in ("assistant", "booking"):
        script = script_of(HERE / "conversations" / f"{name}_{language}.yaml")
        assert (script["data_set"], script["language"]) == (name, language)
        assert len(script["turns"]) >= 30
        turns += script["turns"]
    statuses = [turn.get("status", "completed") for turn in turns]
    assert {"needs_input", "needs_confirmation", "needs_selection", "error"} <= set(statuses)
    assert {turn.get("mode") for turn in turns} >= {"think", "agent"}
    assert any(turn.get("do") == "confirm" for turn in turns)
    assert any(turn.get("with") == "quiet" and turn.get("error") == "ROUTING_NO_MATCH" for turn in turns)
    # A bare "yes" asks for the confirmation again.
    asked = [i for i, status in enumerate(statuses) if status == "needs_confirmation"]
    assert any(i + 1 in asked and turns[i]["tool"] == turns[i + 1]["tool"] for i in asked)
    # A question in between is served, and the reply leads back.
    back = {"en": "Back to", "es": "Volviendo", "ar": "نعود"}[language]
    assert sum(turn.get("reply", "").startswith(back) for turn in turns) >= 3
