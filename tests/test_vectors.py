"""The vector cache: what reaches the encoder, and what survives on disk."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mono_router import vectors as cached
from mono_router.embedding import EmbeddingRetriever, FunctionEncoder
from mono_router.vectors import VectorCache


class Counting:
    """An encoder that remembers what it was given; a text's vector is its hash."""

    def __init__(self, id: str = "counting:1", d: int = 8) -> None:
        self.id = id
        self.d = d
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str], kind: str = "passage") -> np.ndarray:
        self.seen.extend(texts)
        rows = [hashlib.sha256(f"{self.id}{kind}{t}".encode()).digest()[: self.d] for t in texts]
        found = np.array([list(r) for r in rows], dtype=np.float32).reshape(len(texts), self.d)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


TEXTS = [f"text {i}" for i in range(40)]


def parts(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.npz"))


def test_only_unknown_texts_encode() -> None:
    """A text is encoded once, whatever batch it comes in, and rows keep the texts' order."""
    encoder = Counting()
    cache = VectorCache(encoder, None)
    first = cache.encode(["a", "b", "a"], "query")
    second = cache.encode(["b", "c", "a"], "query")
    assert encoder.seen == ["a", "b", "c"]
    assert cache.n_encoded == 3
    np.testing.assert_array_equal(first[[0, 1]], second[[2, 0]])
    np.testing.assert_array_equal(first[0], first[2])


def test_query_and_passage_are_apart() -> None:
    """The same text as a query and as a passage has two vectors."""
    cache = VectorCache(Counting(), None)
    assert (cache.encode(["a"], "query") != cache.encode(["a"], "passage")).any()


def test_no_texts() -> None:
    """An empty batch asks for nothing."""
    encoder = Counting()
    cache = VectorCache(encoder, None)
    assert cache.encode([], "query").shape[0] == 0
    cache.encode(["a"], "query")
    assert cache.encode([], "query").shape == (0, 8)


def test_reload_from_disk(tmp_path) -> None:
    """A second cache on the folder encodes nothing that the first one did."""
    first = VectorCache(Counting(), tmp_path)
    expected = first.encode(TEXTS, "passage")
    first.flush()
    again = Counting()
    np.testing.assert_array_equal(VectorCache(again, tmp_path).encode(TEXTS, "passage"), expected)
    assert again.seen == []


def test_another_encoder_never_reuses(tmp_path) -> None:
    """Vectors of an encoder with another id are never met."""
    one = VectorCache(Counting("m:1"), tmp_path)
    one.encode(TEXTS, "passage")
    one.flush()
    other = Counting("m:2", d=4)
    assert VectorCache(other, tmp_path).encode(TEXTS, "passage").shape == (40, 4)
    assert other.seen == TEXTS


def test_a_changed_tool_encodes_alone(tmp_path, catalog) -> None:
    """After one description changed, only texts with that description go through the encoder."""
    import dataclasses

    from mono_router.catalog import Catalog

    first = EmbeddingRetriever(catalog, Counting(), cache=tmp_path)
    first.cache.flush()
    encoder = Counting()
    tools = [
        dataclasses.replace(t, description="Say the hour") if t.id == "clock.now" else t for t in catalog
    ]
    EmbeddingRetriever(Catalog(tools), encoder, cache=tmp_path)
    assert encoder.seen
    assert all("Say the hour" in text for text in encoder.seen)


def garbage(part: Path) -> None:
    part.write_bytes(b"not a zip at all")


def cut(part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-40])


def empty(part: Path) -> None:
    part.write_bytes(b"")


def other_arrays(part: Path) -> None:
    np.savez(part, something=np.zeros(3))


def uneven(part: Path) -> None:
    np.savez(part, keys=np.array([b"a", b"b"], dtype="S32"), vectors=np.zeros((1, 8), dtype=np.float32))


def one_array(part: Path) -> None:
    with part.open("wb") as opened:
        np.save(opened, np.zeros(3))


@pytest.mark.parametrize("damage", [garbage, cut, empty, other_arrays, uneven, one_array])
def test_a_broken_part_only_costs_encoding(tmp_path, damage) -> None:
    """A part that cannot be read is encoded anew, and the other parts still count."""
    for texts in (TEXTS[:20], TEXTS[20:]):
        cache = VectorCache(Counting(), tmp_path)
        expected = cache.encode(texts, "query")
        cache.flush()
    # Of the two parts the one that holds the first texts breaks.
    first = next(
        p for p in parts(tmp_path) if b"".join(np.load(p)["keys"]).startswith(cache._key("text 0", "query"))
    )
    damage(first)
    encoder = Counting()
    again = VectorCache(encoder, tmp_path)
    np.testing.assert_array_equal(again.encode(TEXTS[20:], "query"), expected)
    assert encoder.seen == []
    assert again.encode(TEXTS[:20], "query").shape == (20, 8)
    assert encoder.seen == TEXTS[:20]
    again.flush()
    fresh = Counting()
    VectorCache(fresh, tmp_path).encode(TEXTS, "query")
    assert fresh.seen == []


def test_two_writers_keep_each_others(tmp_path) -> None:
    """Two caches on one folder, filled at the same time, lose nothing of each other."""
    caches = [VectorCache(Counting(), tmp_path) for _ in range(2)]

    def fill(cache: VectorCache, texts: list[str]) -> None:
        for text in texts:
            cache.encode([text], "query")
            cache.flush()

    threads = [
        threading.Thread(target=fill, args=pair)
        for pair in zip(caches, (TEXTS[:8], TEXTS[4:12]), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    encoder = Counting()
    VectorCache(encoder, tmp_path).encode(TEXTS[:12], "query")
    assert encoder.seen == []
    assert not list(tmp_path.rglob("*.part"))


def test_one_cache_in_many_threads() -> None:
    """Threads that share a cache get right vectors, and no text is encoded twice."""
    encoder = Counting()
    cache = VectorCache(encoder, None)
    expected = Counting().encode(TEXTS, "query")
    wrong: list[int] = []

    def read(start: int) -> None:
        for i in range(len(TEXTS)):
            at = (start + i) % len(TEXTS)
            if (cache.encode([TEXTS[at]], "query")[0] != expected[at]).any():
                wrong.append(at)

    threads = [threading.Thread(target=read, args=(7 * i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert sorted(encoder.seen) == sorted(TEXTS)


def test_many_parts_are_merged(tmp_path, monkeypatch) -> None:
    """A folder of many small parts becomes one part with the same vectors."""
    monkeypatch.setattr(cached, "_MERGE_AT", 4)
    for text in TEXTS[:5]:
        cache = VectorCache(Counting(), tmp_path)
        cache.encode([text], "query")
        cache.flush()
    VectorCache(Counting(), tmp_path)
    assert len(parts(tmp_path)) < 4
    encoder = Counting()
    VectorCache(encoder, tmp_path).encode(TEXTS[:5], "query")
    assert encoder.seen == []


def test_a_full_batch_is_written_at_once(tmp_path, monkeypatch) -> None:
    """Enough new vectors are written without being asked to."""
    monkeypatch.setattr(cached, "_FLUSH_AT", 10)
    cache = VectorCache(Counting(), tmp_path)
    cache.encode(TEXTS[:9], "query")
    assert not parts(tmp_path)
    cache.encode(TEXTS[9:11], "query")
    assert len(parts(tmp_path)) == 1


def test_folder_that_cannot_be_written(tmp_path) -> None:
    """Where nothing can be written the cache lives in memory."""
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be")
    cache = VectorCache(Counting(), blocked)
    cache.encode(["a"], "query")
    cache.flush()
    assert cache.encode(["a"], "query").shape == (1, 8)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda texts: np.zeros((1, 3)), r"must return \(2, d\)"),
        (lambda texts: np.zeros(6), r"must return \(2, d\)"),
    ],
)
def test_encoder_of_another_shape(function, says: str) -> None:
    """An encoder that returns another number of rows is named."""

    class Odd:
        id = "odd"

        def encode(self, texts, kind="passage"):
            return function(texts)

    with pytest.raises(ValueError, match="encoder odd " + says):
        VectorCache(Odd(), None).encode(["a", "b"], "query")


def test_texts_that_utf8_cannot_hold(tmp_path) -> None:
    """A lone surrogate has a key like any other text."""
    cache = VectorCache(FunctionEncoder("ones", lambda texts: [[1.0]] * len(texts)), tmp_path)
    assert cache.encode(["\ud800", "\udc00"], "query").shape == (2, 1)
    assert cache.n_encoded == 2
