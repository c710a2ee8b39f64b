"""Settings: names, ranges, replay classes, hash."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.settings import FIELDS, Settings

# Name to replay class, as users rely on it.
REPLAY = {
    "decide": {
        "lexical.min_score",
        "lexical.min_margin",
        "recall.max_catalog_tools",
        "recall.max_catalog_chars",
        "fusion.method",
        "fusion.weights",
        "fusion.rrf_k",
        "selection.min_confidence",
        "selection.min_margin",
        "selection.min_write_confidence",
        "selection.bypass_score",
    },
    "truncate": {"lexical.candidate_limit", "recall.candidate_limit", "recall.min_score"},
    "select": {"candidate_limit", "selection.max_skills", "selection.fallback_attempts"},
    "score": {
        "lexical.enabled",
        "lexical.normalize_unicode",
        "lexical.normalize_arabic",
        "lexical.phrase_matching",
        "lexical.fold_hamza_forms",
        "lexical.strip_clitics",
        "lexical.stem",
        "lexical.char_ngrams",
        "lexical.field_weights",
        "lexical.rewrite_dialects",
        "recall.source",
        "recall.ask_limit",
        "recall.catalog_examples",
        "recall.level",
        "recall.prompt",
        "selection.prompt",
        "selection.match_schema",
        "selection.match_clauses",
    },
}


@pytest.mark.parametrize("replay", REPLAY)
def test_replay_classes(replay: str) -> None:
    """Each setting has the replay class that it is documented with."""
    assert REPLAY[replay] <= {n for n, f in FIELDS.items() if f.metadata["replay"] == replay}


def test_every_setting_has_a_class_and_a_meaning() -> None:
    """No setting is without a replay class, a meaning, and a default that passes its own check."""
    for name, item in FIELDS.items():
        assert item.metadata["replay"] in REPLAY, name
        assert item.metadata["meaning"], name
        assert Settings().replace({name: Settings().get(name)}) == Settings()


def test_replace_and_get_by_dotted_name() -> None:
    """Dotted names reach every part, and what was not named stays."""
    changed = Settings().replace({"lexical.min_score": None, "candidate_limit": 3, "fusion.rrf_k": 10})
    assert [changed.get(n) for n in ("lexical.min_score", "candidate_limit", "fusion.rrf_k")] == [None, 3, 10]
    assert changed.recall == Settings().recall


@pytest.mark.parametrize(
    ("name", "suggested"),
    [("lexical.minscore", "lexical.min_score"), ("candidat_limit", "candidate_limit"), ("zzz", None)],
)
def test_unknown_name_suggests(name: str, suggested: str | None) -> None:
    """An unknown name is refused, with the nearest known one."""
    expected = f"unknown setting {name!r}" + (f", did you mean {suggested!r}?" if suggested else "")
    with pytest.raises(ValueError, match=re.escape(expected)):
        Settings().replace({name: 1})
    with pytest.raises(ValueError, match="unknown setting"):
        Settings().get(name)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("lexical.enabled", "yes", "must be true or false"),
        ("lexical.enabled", None, "must not be null"),
        ("lexical.min_score", "high", "must be a number"),
        ("lexical.min_score", True, "must be a number"),
        ("lexical.min_score", math.nan, "must be a number"),
        ("lexical.min_score", math.inf, "must be a number"),
        ("lexical.min_margin", -0.1, "must be >= 0"),
        ("lexical.candidate_limit", 0, "must be >= 1"),
        ("candidate_limit", 4.0, "must be a whole number"),
        ("lexical.candidate_limit", 2.5, "must be a whole number"),
        ("lexical.candidate_limit", math.inf, "must be a whole number"),
        ("lexical.field_weights", {"id": 1.0}, "must give a weight to each of id, title"),
        ("recall.source", "web", "must be one of model, embedding, both, none"),
        ("recall.catalog_examples", 4, r"must be in \[0, 3\]"),
        ("recall.prompt", 3, "must be text"),
        ("fusion.weights", {"lexical": -1, "recall": 1}, "must hold weights >= 0"),
        ("fusion.weights", {"lexical": math.nan, "recall": 1}, "must hold weights >= 0"),
        ("fusion.weights", [1, 2], "must give a weight"),
        ("selection.min_confidence", 1.5, r"must be in \[0.0, 1.0\]"),
        ("selection.max_skills", 4, r"must be in \[1, 3\]"),
    ],
)  # fmt: skip
def test_bad_values_are_refused(name: str, value: object, says: str) -> None:
    """A value out of its range is refused with its name and what it must be."""
    with pytest.raises(ValueError, match=re.escape(name) + " .*" + says):
        Settings().replace({name: value})


def test_all_problems_of_a_part_at_once() -> None:
    """Two bad values of one part are told together."""
    with pytest.raises(ValueError, match=r"lexical.min_margin .*; lexical.candidate_limit"):
        Settings().replace({"lexical.min_margin": -1, "lexical.candidate_limit": 0})


@pytest.mark.parametrize(
    ("nested", "says"),
    [([], "routing must be a mapping"), ({"lexical": 3}, "routing.lexical must be a mapping"),
     ({"lexical": {"min_scor": 0.4}}, "did you mean 'lexical.min_score'")],
)  # fmt: skip
def test_from_dict_refuses(nested: object, says: str) -> None:
    """What is no mapping, or names an unknown setting, is refused."""
    with pytest.raises(ValueError, match=says):
        Settings.from_dict(nested)


def test_parts_must_be_parts() -> None:
    """A part that is no settings record is refused."""
    with pytest.raises(ValueError, match="lexical must be a LexicalSettings"):
        Settings(lexical={"min_score": 1})


@given(st.sampled_from(sorted(FIELDS)), st.data())
def test_to_dict_and_back(name: str, data) -> None:
    """Settings written as dotted names and read back are the same, with the same hash."""
    rule = FIELDS[name].metadata
    kind = rule["kind"].rstrip("?")
    low, high = rule.get("low", 0), rule.get("high", 9)
    drawn = {
        "bool": st.booleans(),
        "int": st.integers(int(low), int(high)),
        "float": st.floats(float(low or 0), float(high)),
        "choice": st.sampled_from(rule.get("choices", ("x",))),
        "str": st.text(),
        "weights": st.fixed_dictionaries({k: st.floats(0, 5) for k in rule.get("keys", ())}),
    }[kind]
    changed = Settings().replace({name: data.draw(drawn)})
    again = Settings.from_dict(changed.to_dict())
    assert again == changed
    assert again.hash == changed.hash
    assert (changed.hash == Settings().hash) == (changed == Settings())


def test_frozen() -> None:
    """Settings cannot be changed in place."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().candidate_limit = 3


def test_defaults_that_depend_on_parts_are_hashed_resolved(router, embedding_router) -> None:
    """The hash in a trace covers defaults as they were resolved."""
    assert router.settings.recall.source == "none"
    assert embedding_router.settings.recall.source == "embedding"
    assert router.settings.selection.min_confidence == 0.5
    assert router.settings.hash != embedding_router.settings.hash
