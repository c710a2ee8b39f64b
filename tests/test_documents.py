"""YAML under the 1.2 core schema, with what it refuses."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.documents import MAX_DEPTH, DocumentError, dump_yaml, parse_yaml, read_yaml

SCALARS = {
    "no": "no", "yes": "yes", "on": "on", "off": "off", "16:30": "16:30", "1:30:00": "1:30:00",
    "2026-03-10": "2026-03-10", "true": True, "False": False, "null": None, "~": None, "": None,
    "010": 10, "0o10": 8, "0x1F": 31, "1e3": 1000.0, "1_000": "1_000", ".5": 0.5, "+3": 3, "-2.50": -2.5,
    '"no"': "no", "'12'": "12", "=": "=", "<<": "<<", ".inf": ".inf", ".nan": ".nan", "0b1": "0b1",
}  # fmt: skip


@pytest.mark.parametrize("text", SCALARS)
def test_core_schema(text: str) -> None:
    """A plain scalar means what the YAML 1.2 core schema says."""
    value = parse_yaml(f"a: {text}").value["a"]
    assert value == SCALARS[text]
    assert type(value) is type(SCALARS[text])


def test_huge_exponent_is_no_infinity() -> None:
    """A number that no float can hold stays text."""
    assert parse_yaml("a: 1e999").value["a"] == "1e999"


def test_lines() -> None:
    """Every value knows its line, and an unknown path that of its nearest parent."""
    document = parse_yaml("a:\n  b: 1\n  c:\n    - x\n    - y\n")
    assert document.line("a", "b") == 2
    assert document.line("a", "c", 1) == 5
    assert document.line("a", "nothing", "here") == 2
    assert document.line("z") == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: &x 1\nb: *x", ":1: anchors are not allowed (&x)"),
        ("a: *x", ":1: aliases are not allowed (*x)"),
        ("a: !!python/object:os.system x", ":1: tags are not allowed"),
        ("a: !mine 1", ":1: tags are not allowed"),
        ("a: 1\nb: 2\na: 3", ":3: duplicate key 'a'"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("? [1, 2]\n: x", "a key must be a plain value"),
        ("a: [1, 2", "<text>:2: did not find expected"),
        ("a: 'x", "<text>:"),
        ("a:\n\tb: 1", "<text>:2"),
        ("a: \x00", "<text>"),
    ],
    ids=["anchor", "alias", "python-tag", "tag", "duplicate", "two", "key", "open", "quote", "tab", "nul"],
)
def test_refused(text: str, says: str) -> None:
    """What is no plain document is refused in one line with its place."""
    with pytest.raises(DocumentError, match=re.escape(says)) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)


def test_bomb_is_refused_before_it_is_built() -> None:
    """A document that would unfold to billions of values is refused at its first anchor."""
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 64)]
    with pytest.raises(DocumentError, match="anchors are not allowed"):
        parse_yaml("\n".join(lines))


def test_depth_and_size_are_bounded(monkeypatch) -> None:
    """Too deep and too large are told, not suffered."""
    with pytest.raises(DocumentError, match=f"nested deeper than {MAX_DEPTH}"):
        parse_yaml("[" * (MAX_DEPTH + 1))
    with pytest.raises(DocumentError, match="nest"):
        parse_yaml("[" * 100_000)
    assert parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH).value is not None
    monkeypatch.setattr("mono_router.documents.MAX_BYTES", 10)
    with pytest.raises(DocumentError, match="larger than 10 bytes"):
        parse_yaml("a: 12345678901")


def test_file_that_is_not_utf8(tmp_path) -> None:
    """A file in another encoding is refused with the place of the byte."""
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: \xff")
    with pytest.raises(DocumentError, match=r"a\.yaml: not UTF-8 at byte 3"):
        read_yaml(path)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\u2028\u2029\x85"))
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT | st.sampled_from(list(SCALARS)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUE, max_size=4))
def test_dump_and_back(value: dict[str, object]) -> None:
    """What is dumped reads back as the same value, texts that look like numbers included."""
    assert parse_yaml(dump_yaml(value)).value == value
