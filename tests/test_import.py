"""Importing the package: fast, light, and every public name there."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

import mono_router

HEAVY = (
    "torch",
    "sklearn",
    "pandas",
    "matplotlib",
    "anthropic",
    "surrealdb",
    "jsonschema",
    "scipy",
    "dateparser",
)
TIMED = """
import json, sys, time
started = time.perf_counter()
import mono_router
seconds = time.perf_counter() - started
print(json.dumps([seconds, sorted(m for m in sys.modules if "." not in m)]))
"""
RESOLVED = """
import json, sys
import mono_router as mr
for name in mr.__all__:
    getattr(mr, name)
catalog = mr.Catalog([mr.Tool(id="a", description="Tell the time", hints=("what time is it",))])
mr.Router(catalog).route("what time is it")
print(json.dumps(sorted(m for m in sys.modules if "." not in m)))
"""


def run(code: str):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    return json.loads(done.stdout)


def test_import_is_fast_and_light() -> None:
    """Importing takes less than 0.3 s, the best of five, and loads none of the heavy libraries."""
    times = []
    for _ in range(5):
        seconds, loaded = run(TIMED)
        times.append(seconds)
        assert not set(HEAVY) & set(loaded)
    assert min(times) < 0.3


def test_a_first_route_is_light_too() -> None:
    """All public names, a router and a route on the local selector load no model and no data library."""
    assert not {"torch", "sklearn", "pandas", "matplotlib", "anthropic", "surrealdb"} & set(run(RESOLVED))


def test_public_names() -> None:
    """Every public name resolves, is listed once, in order, and is known to type checkers from its home."""
    names = mono_router.__all__
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert set(names) == set(mono_router._HOMES)
    for name in names:
        assert getattr(mono_router, name).__name__ == name
    tree = ast.parse((ROOT / "mono_router" / "__init__.py").read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If))
    typed = {
        alias.name: node.module.removeprefix("mono_router.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == dict(mono_router._HOMES)
    assert set(names) <= set(dir(mono_router))


def test_unknown_name() -> None:
    """A name that is not public is told as any module tells it."""
    with pytest.raises(AttributeError, match="module 'mono_router' has no attribute 'Routre'"):
        _ = mono_router.Routre
