"""The README's code runs and shows what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_readme_snippet(monkeypatch) -> None:
    """The snippet gives the output that stands under it."""
    monkeypatch.chdir(ROOT)
    found = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert found.attempted > 5
    assert found.failed == 0


def test_ci_runs_the_readme_command() -> None:
    """What CI runs is cut out of the README, so the two cannot differ."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- test command -->\n```bash\n(.*?)```", text, re.S)
    assert block is not None
    assert "pytest" in block[1]
    assert "nbmake" in block[1]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script
    assert "pytest" not in script
