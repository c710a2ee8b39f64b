"""Evaluation sets: what is refused, what is doubtful, what is derived."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from mono_router.lab.cases import CasesError, derived_group, load_cases
from mono_router.records import Call

CATALOG = (
    "tools:\n  - {id: price, description: Price, examples: ['how much']}\n  - {id: book, description: Book}\n"
)
GOOD = {"id": "1", "message": "what does it cost", "expected_tools": ["price"]}


@pytest.fixture
def write(tmp_path):
    """Writes cases beside a catalog of two tools."""
    (tmp_path / "catalog.yaml").write_text(CATALOG)

    def writes(*cases, name: str = "cases.jsonl"):
        text = "".join((c if isinstance(c, str) else json.dumps(c, ensure_ascii=False)) + "\n" for c in cases)
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        return tmp_path

    return writes


def test_every_field(write) -> None:
    """A case keeps every field that it states."""
    record = GOOD | {
        "expected_arguments": {"service": "cut"},
        "expected_calls": [{"tool": "price", "arguments": {"a": 1}}],
        "argument_alternatives": {"service": ["cut", "haircut"]},
        "optional_arguments": ["day"],
        "missing_arguments": ["service"],
        "expected_skills": ["price"],
        "expected_mode": "tool",
        "candidate_tools": ["price", "book"],
        "acceptable_tools": ["book"],
        "ambiguous_with": ["book"],
        "context": [{"role": "user", "content": "hi"}],
        "now": "2026-01-01T09:00:00+00:00",
        "language": "en",
        "memory": {"turn": 2, "entities": [{"type": "person", "value": "Ana"}]},
        "tags": ["direct"],
        "group": "g",
        "split": "dev",
    }
    (case,) = load_cases(write(record))
    assert case.expected_calls == (Call(tool="price", arguments={"a": 1}),)
    assert case.memory.entities[0].value == "Ana"
    for name in ("candidate_tools", "acceptable_tools", "ambiguous_with", "tags", "missing_arguments"):
        assert list(getattr(case, name)) == record[name]
    for name in ("expected_arguments", "now", "language", "group", "split", "expected_mode"):
        assert getattr(case, name) == record[name]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", ":1: not JSON"),
        ("[]", ":1: must be an object"),
        (GOOD | {"id": ""}, "id must be non-empty text"),
        (GOOD | {"message": "  "}, "1: message must be non-empty text"),
        (GOOD | {"message": None}, "1: message must be non-empty text"),
        ({"id": "1", "message": "x"}, "1: expected_tools must be a list of texts, got None"),
        (GOOD | {"expected_tools": "price"}, "1: expected_tools must be a list of texts"),
        (
            GOOD | {"expected_tools": ["prise"]},
            "1: expected_tools names unknown tool 'prise', did you mean 'price'?",
        ),
        (GOOD | {"candidate_tools": ["zzz"]}, "1: candidate_tools names unknown tool 'zzz'"),
        (GOOD | {"expected_calls": [{"tool": "bok"}]}, "1: expected_calls names unknown tool 'bok'"),
        (GOOD | {"expected_calls": ["price"]}, "1: expected_calls must be a list of {tool, arguments}"),
        (GOOD | {"expected_arguments": []}, "1: expected_arguments must be a mapping"),
        (GOOD | {"expected_mode": "walk"}, "1: expected_mode must be of tool, think, agent"),
        (GOOD | {"memory": {"turns": 1}}, "1: memory has unknown field 'turns'"),
        (GOOD | {"tags": [1]}, "1: tags must be a list of texts"),
    ],
)
def test_refused(write, line, says: str) -> None:
    """What makes a case unusable is one line with file, line and id."""
    with pytest.raises(CasesError, match=re.escape(says)) as caught:
        load_cases(write(line))
    assert re.match(r".*cases\.jsonl:1", caught.value.problems[0])
    assert all("\n" not in p for p in caught.value.problems)


def test_all_problems_at_once(write) -> None:
    """Every unusable line is told, duplicates of an id too."""
    folder = write(GOOD, GOOD | {"message": "other"}, GOOD | {"id": "2", "expected_tools": ["x"]}, "{")
    with pytest.raises(CasesError) as caught:
        load_cases(folder)
    assert [re.search(r"jsonl:(\d)", p).group(1) for p in caught.value.problems] == ["2", "3", "4"]
    assert "duplicate id, first on line 1" in caught.value.problems[0]


def test_doubts_are_warnings(write) -> None:
    """The same message twice, a group across splits and a message that is an example are told."""
    folder = write(
        GOOD | {"split": "dev", "group": "g"},
        GOOD | {"id": "2", "message": "What does it COST?!", "split": "dev"},
        GOOD | {"id": "3", "message": "and now", "group": "g", "split": "test"},
        GOOD | {"id": "4", "message": "How much?"},
    )
    cases = load_cases(folder)
    assert [re.search(r": (\d): (.*)", w).groups() for w in cases.warnings] == [
        ("2", "same message as 1"), ("3", "group g crosses splits"), ("4", "message is an example of price"),
    ]  # fmt: skip
    assert repr(cases) == "Cases(4 cases, 3 groups, 3 warnings)"
    assert len(cases.where(lambda c: c.split == "dev")) == 2
    assert cases.where(lambda c: False).warnings == cases.warnings


def test_filters(write) -> None:
    """Split, language and tags each keep what fits them; all tags must be there."""
    folder = write(*(
        GOOD | {"id": str(i), "message": f"m {i}", "split": s, "language": lang, "tags": tags}
        for i, (s, lang, tags) in enumerate(
            [("dev", "en", ["a"]), ("dev", "ar", ["a", "b"]), ("test", "en", []), ("test", "ar", ["b"])]
        )
    ))  # fmt: skip
    assert [c.id for c in load_cases(folder, split="dev")] == ["0", "1"]
    assert [c.id for c in load_cases(folder, language="ar")] == ["1", "3"]
    assert [c.id for c in load_cases(folder, tags=["a", "b"])] == ["1"]
    assert [c.id for c in load_cases(folder, split="test", tags=["b"])] == ["3"]


@pytest.mark.parametrize("name", ["cases.jsonl", "eval.jsonl", "eval.jsonl.gz"])
def test_names_of_files(write, name: str) -> None:
    """A folder's cases stand in one of three files, and a file is read by its own path too."""
    folder = write(GOOD, name=name)
    assert len(load_cases(folder)) == len(load_cases(folder / name)) == 1


def test_nothing_there(write, tmp_path) -> None:
    """A folder without cases and a file without lines are told apart."""
    with pytest.raises(FileNotFoundError, match="no cases"):
        load_cases(tmp_path)
    with pytest.raises(CasesError, match="no cases"):
        load_cases(write(""))


def test_default_now(write) -> None:
    """The now of config.yml is that of cases that state none; one that is no text is refused."""
    folder = write(GOOD, GOOD | {"id": "2", "message": "x", "now": "2020-01-01T00:00:00+00:00"})
    (folder / "config.yml").write_text('evaluation: {now: "2026-03-10T09:30:00+01:00"}')
    assert [c.now[:4] for c in load_cases(folder)] == ["2026", "2020"]
    (folder / "config.yml").write_text("evaluation: {now: 3}")
    with pytest.raises(CasesError, match=r"config\.yml:1: evaluation\.now must be text"):
        load_cases(folder)
    (folder / "config.yml").write_text("evaluation: [")
    with pytest.raises(CasesError, match=r"config\.yml:"):
        load_cases(folder)


@pytest.mark.parametrize(
    ("id_", "language", "group"),
    [
        ("massive-00012-ar", "ar", "massive-00012"), ("sgd-17_00007-14", "en", "sgd-17_00007"),
        ("bfcl-live_simple_3", "en", "live_simple_3"), ("when2call-x", "en", "x"), ("c-1", "", "c-1"),
        ("c-en", "ar", "c-en"),
    ],
)  # fmt: skip
def test_derived_groups(id_: str, language: str, group: str) -> None:
    """Versions of one case of a public set share the group that their ids tell."""
    assert derived_group(id_, language) == group
