"""What the tests of the runtime share: the six tools as Python functions, and runtimes over them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from conftest import HERE, NOW

from mono_router.catalog import Catalog
from mono_router.router import Router
from mono_router.runtime.agent import AgentRuntime

CALENDAR = "cal-9-sentinel"
"""Session fact that fills calendar_id."""


class House:
    """The six tools; what they did is kept."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.sent: list[tuple[str, str]] = []
        self.lights: dict[str, str] = {}
        self.calls: list[str] = []
        self.broken: set[str] = set()
        self._lock = threading.Lock()

    def did(self, name: str) -> None:
        with self._lock:
            self.calls.append(name)
        if name in self.broken:
            raise RuntimeError("the secret reason sk-broken-1")

    def create(self, title: str, date: str, calendar_id: str, start: str | None = None) -> dict[str, Any]:
        self.did("calendar.create")
        event = {"event_id": f"EV-{len(self.events) + 1}", "title": title, "date": date}
        self.events.append({**event, "start": start, "calendar": calendar_id})
        return event

    def list(self, date: str | None = None) -> list[dict[str, Any]]:
        self.did("calendar.list")
        return [{"title": "Standup", "date": "2026-03-10", "token": "tok-sentinel"}] * 2

    def send(self, to: str, text: str, after: int | None = None) -> dict[str, Any]:
        self.did("message.send")
        self.sent.append((to, text))
        return {"message": f"Sent to {to}."}

    def switch(self, room: str, state: str) -> None:
        self.did("light.switch")
        self.lights[room] = state

    def now(self) -> str:
        self.did("clock.now")
        return "09:30"

    def forecast(self, city: str | None = None, days: int | None = None) -> dict[str, Any]:
        self.did("weather.forecast")
        return {"city": city, "sky": "clear"}

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        return {
            "calendar.create": self.create,
            "calendar.list": self.list,
            "message.send": self.send,
            "light.switch": self.switch,
            "clock.now": self.now,
            "weather.forecast": self.forecast,
        }


CATALOG = Catalog.load(HERE / "six_tools.yaml")
ROUTER = Router(CATALOG)
"""Fitted when it first routes, for all tests."""


def home(house: House | None = None, config: dict[str, Any] | None = None, **given: Any) -> AgentRuntime:
    """A runtime over the six tools: local selector, no encoder."""
    given.setdefault("now", NOW)
    given.setdefault("facts", {"calendar_id": CALENDAR})
    if "model" not in given:
        given["router"] = ROUTER
    return AgentRuntime.create(
        config={"catalog": CATALOG, "encoder": "none", **(config or {})},
        tools=(house or House()).tools,
        **given,
    )
