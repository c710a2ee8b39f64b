"""The tools of our own data sets: they match their schemas, and they really write rows."""

from __future__ import annotations

import importlib.util
import inspect
import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

from mono_router.catalog import Catalog


def module(name: str) -> ModuleType:
    """The tools of a data set, apart from those that others have loaded."""
    path = ROOT / "datasets" / name / f"{name}_tools.py"
    spec = importlib.util.spec_from_file_location(f"tests_{name}_tools", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def tools(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("ASSISTANT_TODAY", "2026-03-10")
    found = module(request.param)
    found.use(tmp_path / "rows.sqlite")
    return found


def value_of(schema: dict[str, Any]) -> Any:
    """Some valid value."""
    if "enum" in schema:
        return schema["enum"][0]
    by_format = {
        "date": "2026-03-12",
        "time": "10:00",
        "email": "a@example.com",
        "uri": "https://example.com",
    }
    by_type = {"integer": 2, "number": 2.5, "boolean": True, "string": "x"}
    return by_format.get(schema.get("format", ""), by_type[schema["type"]])


@pytest.mark.parametrize(
    ("name", "tools"), [("assistant", "assistant"), ("booking", "booking")], indirect=["tools"]
)
def test_every_tool_runs_on_required_and_on_all_arguments(name: str, tools: ModuleType) -> None:
    """Functions take just what the schemas declare, and what is not required has a default."""
    for tool in Catalog.load(ROOT / "datasets" / name):
        assert tool.run is not None
        function = getattr(tools, tool.run["python"].split(":")[1])
        properties = tool.input_schema.get("properties", {})
        parameters = inspect.signature(function).parameters
        assert set(parameters) == set(properties), tool.id
        needed = {n for n, p in parameters.items() if p.default is p.empty}
        assert needed <= set(tool.input_schema.get("required", ())), tool.id
        for names in (tool.input_schema.get("required", ()), properties):
            answer = function(**{n: value_of(properties[n]) for n in names})
            assert isinstance(answer, dict), tool.id
            wrote = {"id", "changed"} & set(answer)
            assert wrote or tool.effects == "read", tool.id


@pytest.mark.parametrize("tools", ["assistant"], indirect=True)
def test_rows_of_the_assistant(tools: ModuleType, tmp_path: Path) -> None:
    """What one tool writes the others read, and users see their own rows alone."""
    tools.create_event("demo with Ana", "2026-03-11", "09:00", user_id="u1")
    assert [e["title"] for e in tools.list_events(range="this_week", user_id="u1")["items"]] == [
        "demo with Ana"
    ]
    assert tools.list_events(user_id="u2")["count"] == 0
    assert "09:00" not in [s["start"] for s in tools.find_free_time("2026-03-11", user_id="u1")["items"]]
    assert tools.move_event("DEMO", date="2026-03-20", user_id="u1")["changed"] == 1
    assert tools.delete_event("demo ana", user_id="u2") == {"changed": 0}
    rows = sqlite3.connect(tmp_path / "rows.sqlite").execute(
        "SELECT title, date FROM event WHERE user_id = 'u1'"
    )
    assert rows.fetchall() == [("demo with Ana", "2026-03-20")]
    tools.log_expense(12, category="restaurants", user_id="demo")
    assert tools.check_budget("restaurants", user_id="demo")["items"][0]["left"] == 170
    assert tools.find_contact("خالد", user_id="demo")["count"] == 1
    assert tools.search_email(topic="DEMO", unread=True, user_id="demo")["count"] == 1
    quoted = "'); DROP TABLE note; --"
    tools.create_note(quoted, user_id="u1")
    assert tools.search_notes("drop table", user_id="u1")["items"][0]["text"] == quoted


@pytest.mark.parametrize("tools", ["booking"], indirect=True)
def test_rows_of_the_salon(tools: ModuleType) -> None:
    """A booked hour is no longer free, a moved one is free again."""
    free = tools.check_availability("2026-03-12", time="10:00", service="massage")
    assert free["items"] == [{"date": "2026-03-12", "time": "10:00", "staff": "carlos"}]
    made = tools.create("massage", "2026-03-12", "10:00", customer_id="c1")
    assert tools.check_availability("2026-03-12", time="10:00", service="massage")["count"] == 0
    assert tools.reschedule("2026-03-13", appointment_id=str(made["id"]), customer_id="c1")["changed"] == 1
    assert tools.check_availability("2026-03-12", time="10:00", service="massage")["count"] == 1
    assert tools.cancel(service="massage", customer_id="c2") == {"changed": 0}
    assert tools.cancel(service="massage", customer_id="c1")["changed"] == 1
    assert tools.list_appointments(customer_id="c1")["count"] == 0
    assert tools.check_availability("2026-03-15")["count"] == 0  # a Sunday
