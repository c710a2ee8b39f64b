"""The README's code runs and shows what it says."""

from __future__ import annotations

import doctest
import json
import re
from typing import Any

from conftest import REGENERATE, ROOT

from mono_router.settings import FIELDS, Settings

README = ROOT / "README.md"


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


def settings_table() -> str:
    """Name, default, what a sweep does with it, and meaning of every setting."""

    def shown(value: Any) -> str:
        if hasattr(value, "items"):
            return ", ".join(f"{name} {number:g}" for name, number in value.items())
        return json.dumps(value) if value is None or isinstance(value, bool) else f"{value}"

    lines = ["| setting | default | replay | meaning |", "| --- | --- | --- | --- |"]
    for name, field in FIELDS.items():
        meaning = field.metadata["meaning"]
        lines.append(f"| `{name}` | {shown(Settings().get(name))} | {field.metadata['replay']} | {meaning} |")
    return "\n".join(lines)


def test_the_settings_table_is_that_of_the_code() -> None:
    """The README's table of settings is generated: MONO_ROUTER_GOLDEN=1 writes it anew."""
    text = README.read_text(encoding="utf-8")
    start, end = "<!-- settings -->\n", "\n<!-- end of settings -->"
    before, _, rest = text.partition(start)
    table, _, after = rest.partition(end)
    if REGENERATE:
        README.write_text(before + start + settings_table() + end + after, encoding="utf-8")
        return
    assert table == settings_table()


def test_every_notebook_and_command_is_told() -> None:
    """No notebook and no command is missing from the README, and it names none that is not there."""
    from mono_router.cli import COMMANDS

    text = README.read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\d\d_\w+)` \|", text, re.M))
    assert named == {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert set(re.findall(r"^\| `mono-router (\w+)", text, re.M)) == {command.name for command in COMMANDS}
