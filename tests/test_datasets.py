"""Our own data sets: counted, hashed, clean, described."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from manifest import DATASETS, manifest

from mono_router.catalog import Catalog
from mono_router.lab.cases import load_cases
from mono_router.schema import check_arguments
from mono_router.text import normalize

SETS = ("booking", "assistant")


@pytest.fixture(scope="module", params=SETS)
def one_set(request):
    """A set: its name, catalog, cases and card."""
    folder = DATASETS / request.param
    card = (folder / "CARD.md").read_text(encoding="utf-8")
    return request.param, Catalog.load(folder, strict=True), load_cases(folder), card


def test_manifest() -> None:
    """The manifest has every file of every set, with hash, count and label counts, recomputed here."""
    stored = json.loads((DATASETS / "manifest.json").read_text(encoding="utf-8"))
    found = manifest()
    assert sorted(found) == sorted(SETS)
    for name in SETS:
        assert sorted(stored[name]) == sorted(found[name])
        for file in found[name]:
            assert stored[name][file] == found[name][file], f"{name}/{file}: run python tests/manifest.py"


def test_loads_without_a_doubt(one_set) -> None:
    """A set is read strictly, with no warning: no duplicate, no leak, no group across splits."""
    _, catalog, cases, _ = one_set
    assert catalog.warnings == ()
    assert cases.warnings == ()


def test_groups_do_not_cross_splits(one_set) -> None:
    """Every group stands in one split, and every case in dev or test."""
    cases = one_set[2]
    splits: dict[str, set[str]] = {}
    for case in cases:
        splits.setdefault(case.group, set()).add(case.split)
    assert all(len(found) == 1 for found in splits.values())
    assert {case.split for case in cases} == {"dev", "test"}


def test_no_leaks(one_set) -> None:
    """No message of a case is a hint or an example of the catalog."""
    _, catalog, cases, _ = one_set
    known = {normalize(t) for tool in catalog for t in (*tool.hints, *(e.message for e in tool.examples))}
    assert [case.id for case in cases if normalize(case.message) in known] == []


def test_truths_fit_the_schemas(one_set) -> None:
    """Expected arguments, alternatives included, are such as the tool takes."""
    _, catalog, cases, _ = one_set
    for case in cases:
        pairs = [(c.tool, c.arguments) for c in case.expected_calls or ()]
        if case.expected_arguments is not None:
            pairs += [(tool, case.expected_arguments) for tool in case.expected_tools]
            for name, values in case.argument_alternatives.items():
                pairs += [(case.expected_tools[0], {name: value}) for value in values]
        for tool, arguments in pairs:
            assert check_arguments(catalog[tool], arguments) == (), case.id
        for name in case.missing_arguments or ():
            assert name in catalog[case.expected_tools[0]].required, case.id


def test_labels_agree(one_set) -> None:
    """Skills are those of the expected tools, modes are such as these support, first tags say how many."""
    _, catalog, cases, _ = one_set
    for case in cases:
        skills = {catalog[tool].skill for tool in case.expected_tools}
        assert set(case.expected_skills or ()) == skills, case.id
        if case.expected_mode:
            assert all(case.expected_mode in catalog[tool].modes for tool in case.expected_tools), case.id
        kind = {0: "no_tool", 1: "single_tool"}.get(len(case.expected_tools), "multi_tool")
        assert case.tags[0] == kind, case.id
        assert ("ask" in case.tags) == (case.missing_arguments is not None), case.id
        assert ("ambiguous" in case.tags) == bool(case.ambiguous_with), case.id


def test_memory_is_readable(one_set) -> None:
    """Follow-ups bring a memory whose calls name tools of the catalog."""
    _, catalog, cases, _ = one_set
    follow_ups = [case for case in cases if "follow_up" in case.tags]
    assert follow_ups
    for case in follow_ups:
        assert case.memory is not None, case.id
        named = [c.tool for c in case.memory.calls]
        named += [case.memory.pending.tool] if case.memory.pending else []
        assert all(tool in catalog for tool in named), case.id


def test_the_card(one_set) -> None:
    """The card names the licence, and every tag that the cases have."""
    _, _, cases, card = one_set
    assert "Apache-2.0" in card
    tags = {tag for case in cases for tag in case.tags}
    missing = [tag for tag in tags if f"`{tag}`" not in card and f"`{tag.split(':')[0]}:" not in card]
    assert not missing


def test_booking_is_what_was_promised() -> None:
    """At least 12 tools and 300 cases in three languages, with every kind of message that is evaluated."""
    catalog, cases = Catalog.load(DATASETS / "booking"), load_cases(DATASETS / "booking")
    assert len(catalog) >= 12
    assert len(cases) >= 300
    languages = Counter(case.language for case in cases)
    assert set(languages) == {"en", "ar", "es"}
    assert min(languages.values()) >= 80
    tags = Counter(tag for case in cases for tag in case.tags)
    wanted = (
        "direct",
        "paraphrase",
        "ambiguous",
        "several_intents",
        "typo",
        "thanks",
        "greeting",
        "near_miss",
        "far",
        "ask",
        "relative_date",
        "follow_up",
        "dialect:msa",
        "dialect:egyptian",
    )
    assert not [tag for tag in wanted if tags[tag] < 10]
    groups: dict[str, set[str]] = {}
    for case in cases:
        groups.setdefault(case.group, set()).add(case.language)
    assert sum(found == {"en", "ar", "es"} for found in groups.values()) >= 50
    assert all(case.now for case in cases)
    used = {tool for case in cases for tool in case.expected_tools}
    assert used == set(catalog.ids)
    formats = {
        sub.get("format") or ("enum" if "enum" in sub else "text")
        for tool in catalog
        for sub in tool.properties.values()
    }
    assert {"date", "time", "enum", "phone", "text"} <= formats
    assert sum(tool.effects == "write" for tool in catalog) >= 5
    assert all(tool.hints and tool.keywords and tool.examples for tool in catalog)


def test_booking_card_counts() -> None:
    """The counts in the card of booking are those of its cases."""
    cases = load_cases(DATASETS / "booking")
    card = (DATASETS / "booking" / "CARD.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `?([\w.:]+|no tool)`? \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", card, re.M
    )
    assert len(rows) > 30
    for name, *counts in rows:
        kept = [
            c
            for c in cases
            if name == "all"
            or name in c.tags
            or name in c.expected_tools
            or (name == "no tool" and not c.expected_tools)
        ]
        found = [len(kept), *(sum(c.language == x for c in kept) for x in ("en", "ar", "es"))]
        found += [sum(c.split == x for c in kept) for x in ("dev", "test")]
        assert found == [int(n) for n in counts], name
