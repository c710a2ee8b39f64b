"""Diagnosis of what a runtime really ran: discovery, selection, extraction and execution told apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from conftest import NOW
from runtime_parts import CALENDAR, CATALOG, House

from mono_router.catalog import Catalog
from mono_router.lab.diagnosis import diagnose
from mono_router.lab.evaluation import evaluate
from mono_router.lab.sessions import execute_cases
from mono_router.records import Case
from mono_router.router import Router
from mono_router.runtime.agent import AgentRuntime
from mono_router.settings import Settings

KEY = "right-key-0123"


class _Weather(BaseHTTPRequestHandler):
    """A weather service with a key, and a path that is broken."""

    def do_GET(self) -> None:
        if self.headers.get("authorization") != f"Bearer {KEY}":
            self._answer(401, b'{"error": "no"}')
        elif self.path.startswith("/refusing"):
            self._answer(422, b'{"error": "sentinel-of-the-service"}')
        elif self.path.startswith("/broken"):
            self._answer(500, b'{"error": "sentinel-of-the-service"}')
        else:
            self._answer(200, b'{"sky": "clear"}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Weather)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


CASES = [
    Case(id="right", message="what time is it", expected_tools=("clock.now",), now=NOW),
    # Planted: the words are another tool's trigger phrase, and one candidate alone is kept.
    Case(id="discovery", message="what time is it", expected_tools=("calendar.list",), now=NOW),
    # Planted: a tool is named where none is right.
    Case(id="selection", message="turn on the light in the hall", expected_tools=(), now=NOW),
    # Planted: the label wants another room.
    Case(
        id="extraction",
        message="turn on the light in the kitchen, state on",
        expected_tools=("light.switch",),
        expected_arguments={"room": "hall", "state": "on"},
        now=NOW,
    ),
    # Planted: the tool's endpoint is broken, or its credential is wrong.
    Case(
        id="execution",
        message="what is the weather in Cairo?",
        expected_tools=("weather.forecast",),
        expected_arguments={"city": "Cairo"},
        now=NOW,
    ),
]


def runtime_over(url: str, path: str) -> AgentRuntime:
    """The six tools at home, but for the weather, which is a service."""
    run = {
        "http": {
            "method": "GET",
            "url": f"{url}{path}",
            "query": {"city": {"argument": "city"}, "days": {"argument": "days"}},
            "auth": {"type": "bearer", "env": "WEATHER_TEST_KEY"},
        }
    }
    tools = [dataclasses.replace(t, run=run) if t.id == "weather.forecast" else t for t in CATALOG]
    catalog = Catalog(tools, CATALOG.skills.values())
    functions = {name: f for name, f in House().tools.items() if name != "weather.forecast"}
    return AgentRuntime.create(
        config={"allow_addresses": ["127.0.0.1"], "auth": {"WEATHER_TEST_KEY": url}},
        router=Router(catalog, settings=Settings().replace({"candidate_limit": 1})),
        tools=functions,
        facts={"calendar_id": CALENDAR},
        now=NOW,
    )


@pytest.mark.parametrize(
    ("path", "key", "cause", "code"),
    [
        ("/broken", KEY, "network", "TOOL_SERVER_ERROR"),
        ("/refusing", KEY, "refused_request", "TOOL_CLIENT_ERROR"),
        ("/v1", "wrong-key-0123", "auth", "AUTH_REJECTED"),
        ("/v1", "", "auth", "AUTH_REQUIRED"),
    ],
    ids=["broken endpoint", "refused request", "wrong credential", "no credential"],
)
def test_four_kinds_of_failure_are_told_apart(service, monkeypatch, path, key, cause, code) -> None:
    """Each planted fault is lost at its own stage, and a misroute is told from a broken tool."""
    monkeypatch.setenv("WEATHER_TEST_KEY", key)
    with runtime_over(service, path) as runtime:
        report = evaluate(runtime.router, CASES, offered="catalog")
        executions = execute_cases(runtime, report)
        result = runtime.chat("s", "what is the weather in Cairo?")
    assert (result.error.code, executions["execution"].error) == (code, code)
    assert (key or "-none-") not in result.to_json()
    assert "sentinel-of-the-service" not in result.to_json()
    assert executions["right"].error is None
    losses = {loss.case.id: loss for loss in diagnose(report, executions=executions).losses}
    stages = {name: loss.stage for name, loss in losses.items()}
    assert stages == {
        "discovery": "discovery",
        "selection": "selection",
        "extraction": "extraction",
        "execution": "execution",
    }
    assert losses["selection"].cause == "false_tool"
    assert losses["extraction"].cause == "wrong_value"
    assert (losses["execution"].cause, losses["execution"].detail) == (cause, code)


def test_a_tool_that_raises_has_a_cause_of_its_own() -> None:
    """A function that raises is no matter of configuration, and its reason stays in it."""
    house = House()
    house.broken.add("clock.now")
    with AgentRuntime.create(
        config={}, router=Router(CATALOG), tools=house.tools, facts={"calendar_id": CALENDAR}, now=NOW
    ) as runtime:
        report = evaluate(runtime.router, CASES[:1], offered="catalog")
        diagnosis = diagnose(report, executions=execute_cases(runtime, report))
    (loss,) = diagnosis.losses
    assert (loss.stage, loss.cause, loss.detail) == ("execution", "raised", "TOOL_EXECUTION_FAILED")
    assert "invoke" in loss.advice
    assert "sk-broken-1" not in f"{loss}"


def test_a_tool_that_works_is_no_loss(service, monkeypatch) -> None:
    """With the right credential the execution fault is gone, and the others stay."""
    monkeypatch.setenv("WEATHER_TEST_KEY", KEY)
    with runtime_over(service, "/v1") as runtime:
        report = evaluate(runtime.router, CASES, offered="catalog")
        executions = execute_cases(runtime, report)
        assert runtime.invoke("weather.forecast", {"city": "Cairo"}).data == {"sky": "clear"}
    assert executions["execution"].error is None
    assert {loss.case.id for loss in diagnose(report, executions=executions).losses} == {
        "discovery",
        "selection",
        "extraction",
    }
