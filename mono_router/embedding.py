"""Stage 2 from vectors: encoders, their cache, and the embedding retriever.

Texts go in, L2-normalised vectors come out, and a score for each tool from them. A tool is encoded as
several views (its name and description, each example, each hint); vectors are cached by what the
encoder is and what the text says, so a changed tool encodes alone and a changed encoder never meets
old vectors. Search is exact: dot products are taken in float64 and rounded, so that a batch and a
single message agree.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mono_router import text as texts
from mono_router.catalog import Catalog
from mono_router.lexical import top_hits
from mono_router.records import SCORE_DECIMALS, Encoder, Hit, Tool
from mono_router.vectors import VectorCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["query", "passage"]
_CHUNK_CELLS = 4_000_000
TOOL_BATCH = 64
"""Tools' texts are encoded in id order in batches of this size, so that a run repeats."""


class SentenceTransformerEncoder:
    """A sentence-transformers model, by name or from a folder.

    Prompts that the model declares for queries and documents are used.

    Parameters
    ----------
    name_or_path
        What ``SentenceTransformer`` takes.
    device
        Torch device; default: sentence-transformers' choice.

    Raises
    ------
    ImportError
        If sentence-transformers is not installed; the message has the install line.
    """

    def __init__(self, name_or_path: str | Path, *, device: str | None = None) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise ImportError(
                "SentenceTransformerEncoder needs sentence-transformers: pip install 'mono-router[local]'"
            ) from None
        self._model = SentenceTransformer(str(name_or_path), device=device)
        self._id = f"sentence-transformers:{Path(name_or_path).name}:{_model_hash(Path(name_or_path))}"

    @property
    def id(self) -> str:
        """Name of the model and, from a folder, a hash of its files."""
        return self._id

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> NDArray[np.float32]:
        """Return float32 (n_texts, d), rows of length 1."""
        encode = self._model.encode_query if kind == "query" else self._model.encode_document
        found = encode(
            list(texts),
            batch_size=TOOL_BATCH,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return np.asarray(found, dtype=np.float32).reshape(len(texts), -1)


def _model_hash(folder: Path) -> str:
    if not folder.is_dir():
        return "hub"
    parts = hashlib.sha256()
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        size = file.stat().st_size
        parts.update(f"{file.relative_to(folder)}:{size};".encode())
        with file.open("rb") as opened:
            parts.update(opened.read(65536))
            if size > 131072:
                opened.seek(size // 2)
                parts.update(opened.read(65536))
    return parts.hexdigest()[:16]


class FunctionEncoder:
    """Any function or object that turns texts into vectors, as an encoder.

    Parameters
    ----------
    id
        Names the model and its version; vectors are cached under it.
    query, passage
        ``texts -> (n_texts, d)``; rows are normalised here. ``passage`` defaults to ``query``.

    >>> encoder = FunctionEncoder("ones", lambda texts: [[1.0, 1.0]] * len(texts))
    >>> encoder.encode(["a", "b"]).shape
    (2, 2)
    """

    def __init__(self, id: str, query: Any, passage: Any = None) -> None:
        self._id = id
        self._query = query
        self._passage = passage or query

    @property
    def id(self) -> str:
        """Name of the model."""
        return self._id

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> NDArray[np.float32]:
        """Return float32 (n_texts, d), rows of length 1."""
        found = (self._query if kind == "query" else self._passage)(list(texts))
        return normalized(np.asarray(found, dtype=np.float32).reshape(len(texts), -1))


class LightEncoder:
    """Latent semantic analysis of a catalog's own texts, on scikit-learn alone.

    Words and character n-grams are weighted by TF-IDF and reduced by a truncated SVD (Deerwester et
    al. 1990). Needs no download; knows only what the catalog says. ``EmbeddingRetriever`` fits it.

    Parameters
    ----------
    dimensions
        Largest vector length d; fewer where the texts have fewer.
    """

    def __init__(self, *, dimensions: int = 256) -> None:
        if dimensions < 1:
            raise ValueError(f"dimensions must be >= 1, got {dimensions}")
        self.dimensions = dimensions
        self._id = ""
        self._vectorizer: Any = None
        self._basis: NDArray[np.float64] | None = None

    @property
    def id(self) -> str:
        """Hash of the texts that it was fitted on."""
        return self._id

    @property
    def fitted(self) -> bool:
        """Whether :meth:`fit` has run."""
        return self._basis is not None

    def fit(self, passages: Sequence[str]) -> LightEncoder:
        """Learn the vocabulary and the latent directions of these texts."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.utils.extmath import randomized_svd

        passages = sorted(set(passages)) or [""]
        self._vectorizer = TfidfVectorizer(analyzer=_light_features, sublinear_tf=True, dtype=np.float64)
        try:
            matrix = self._vectorizer.fit_transform(passages)
        except ValueError:  # no text holds a token
            matrix = self._vectorizer.fit_transform([*passages, "empty"])
        rank = min(self.dimensions, min(matrix.shape))
        _, _, components = randomized_svd(matrix, rank, n_iter=4, random_state=0)
        self._basis = components.T
        self._id = (
            "light:"
            + hashlib.sha256(json.dumps([self.dimensions, passages], ensure_ascii=True).encode()).hexdigest()
        )
        return self

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> NDArray[np.float32]:
        """Return float32 (n_texts, d), rows of length 1 (0 for a text with nothing known).

        Raises
        ------
        ValueError
            If it is not fitted.
        """
        if self._basis is None:
            raise ValueError(
                "LightEncoder must be fitted before it encodes: give it to a Router, or call fit"
            )
        return normalized((self._vectorizer.transform(list(texts)) @ self._basis).astype(np.float32))


def _light_features(text: str) -> list[str]:
    words = texts.words(text)
    return words + texts.char_ngrams(words)


def normalized(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows scaled to length 1; zero and non-finite rows become 0."""
    vectors = np.nan_to_num(vectors, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def tool_views(tool: Tool) -> list[str]:
    """Return the texts that stand for a tool: name and description first, then hints and examples.

    >>> tool_views(Tool(id="get_price", description="Price of a service"))
    ['get price: Price of a service']
    """
    name = tool.title or texts.identifier_words(tool.id)
    first = f"{name}: {tool.description}" if tool.description and tool.description != name else name
    return [first, *tool.hints, *(example.message for example in tool.examples)]


class EmbeddingRetriever:
    """Exact search over the vectors of a catalog.

    Parameters
    ----------
    catalog
        Tools to search.
    encoder
        Any :class:`~mono_router.records.Encoder`.
    cache
        Folder of the vector cache, or a :class:`~mono_router.vectors.VectorCache` that is shared;
        None keeps vectors in memory only. Default: the user's cache folder.

    >>> catalog = Catalog([Tool(id="a", description="book a table"), Tool(id="b", description="weather")])
    >>> EmbeddingRetriever(catalog, LightEncoder(), cache=None).search("a table please", 1)[0].tool
    'a'
    """

    def __init__(
        self,
        catalog: Catalog,
        encoder: Encoder,
        *,
        cache: VectorCache | str | Path | Literal["user"] | None = "user",
    ) -> None:
        self.ids = catalog.ids
        views = [tool_views(tool) for tool in catalog]
        self._starts = np.cumsum([0, *(len(v) for v in views)])
        passages = [text for tool in views for text in tool]
        if isinstance(encoder, LightEncoder):
            cache = None  # encoding costs less than looking up
            if not encoder.fitted:
                encoder.fit(passages)
        self.encoder = encoder
        self.cache = (
            cache
            if isinstance(cache, VectorCache)
            else VectorCache(encoder, user_folder() if cache == "user" else cache)
        )
        self.vectors = self.cache.encode(passages, "passage")
        """float32 (n_views, d)"""
        self._wide = self.vectors.astype(np.float64)

    def scores(self, messages: Sequence[str]) -> NDArray[np.float32]:
        """Return the best cosine over each tool's views, float32 (n_messages, n_tools), [-1, 1]."""
        found = np.empty((len(messages), len(self.ids)), dtype=np.float32)
        if not len(self.ids):
            return found
        queries = self.cache.encode(messages, "query").astype(np.float64)
        step = max(1, _CHUNK_CELLS // max(1, len(self._wide)))
        for start in range(0, len(messages), step):
            views = queries[start : start + step] @ self._wide.T
            best = np.maximum.reduceat(views, self._starts[:-1], axis=1)
            found[start : start + step] = np.round(best, SCORE_DECIMALS)
        return found

    def search(self, message: str, k: int) -> tuple[Hit, ...]:
        """Return the ``k`` nearest tools, best first, ties by id; none at or below 0."""
        return top_hits(self.scores([message])[0].astype(np.float64), self.ids, k, "embedding")


def user_folder() -> Path:
    """Return the folder of the vector cache: MONO_ROUTER_CACHE, else under the user's cache folder."""
    given = os.environ.get("MONO_ROUTER_CACHE")
    return (
        Path(given)
        if given
        else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mono_router"
    )
