"""The API reference can be made from the docstrings, and every public name is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

import mono_router


def test_the_reference_is_made(tmp_path: Path) -> None:
    """pdoc renders the public module; each public name has an entry and a docstring."""
    pdoc = pytest.importorskip("pdoc")
    pdoc.pdoc("mono_router", output_directory=tmp_path)
    pages = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert {"mono_router.html", "index.html"} <= set(pages)
    for name in mono_router.__all__:
        value = getattr(mono_router, name)
        home = value.__module__.replace("mono_router.", "").replace(".", "/").split("/")[-1] + ".html"
        assert f'id="{name}"' in pages[home], name
        assert (value.__doc__ or "").strip(), name
