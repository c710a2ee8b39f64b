"""The manifest of our own data sets: ``python tests/manifest.py`` writes datasets/manifest.json anew."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from mono_router.catalog import Catalog

DATASETS = Path(__file__).parent.parent / "datasets"
STATE = ("assistant.sqlite", "booking.sqlite")
"""What the working tools leave beside a set: rows of whoever tried them, no part of it."""


def entry(path: Path) -> dict[str, Any]:
    """Hash of a file, how many records it holds, and how often each label comes up."""
    data = path.read_bytes()
    found: dict[str, Any] = {"sha256": hashlib.sha256(data).hexdigest()}
    if path.suffix == ".jsonl":
        cases = [json.loads(line) for line in data.decode().splitlines()]
        count = {
            name: Counter(str(case[name]) for case in cases if name in case)
            for name in ("language", "split", "expected_mode")
        }
        count["tags"] = Counter(tag for case in cases for tag in case["tags"])
        count["expected_tools"] = Counter(
            t for case in cases for t in case["expected_tools"] or ["(no tool)"]
        )
        found["count"] = len(cases)
        found["groups"] = len({case["group"] for case in cases})
        found["labels"] = {name: dict(sorted(values.items())) for name, values in count.items()}
    elif path.suffix == ".yaml":
        tools = list(Catalog.load(path))
        found["count"] = len(tools)
        found["labels"] = {"effects": dict(sorted(Counter(tool.effects for tool in tools).items()))}
    else:
        found["count"] = len(data.splitlines())
    return found


def manifest() -> dict[str, Any]:
    """Every file of every set: path to its entry."""
    sets = sorted(path for path in DATASETS.iterdir() if path.is_dir())
    return {
        folder.name: {
            str(path.relative_to(folder)): entry(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(STATE) and path.suffix != ".pyc"
        }
        for folder in sets
    }


if __name__ == "__main__":
    text = json.dumps(manifest(), indent=1, ensure_ascii=False) + "\n"
    (DATASETS / "manifest.json").write_text(text, encoding="utf-8")
