"""The API reference can be made from the docstrings, and every public name is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

import mono_router


def test_the_reference_is_made(tmp_path: Path) -> None:
    """pdoc renders the public module; each public name has an entry and a docstring."""
    pdoc = pytest.importorskip("pdoc")
    pdoc.pdoc("mono_router", output_directory=tmp_path)
    page = (tmp_path / "mono_router.html").read_text(encoding="utf-8")
    for name in mono_router.__all__:
        assert f'id="{name}"' in page, name
        assert (getattr(mono_router, name).__doc__ or "").strip(), name
