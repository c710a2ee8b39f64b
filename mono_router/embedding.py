"""Stage 2 from vectors: encoders, their cache, and the embedding retriever.

Texts go in, L2-normalised vectors come out, and a score for each tool from them. A tool is encoded as
several views (its name and description, each example, each hint); vectors are cached by what the
encoder is and what the text says, so a changed tool encodes alone and a changed encoder never meets
old vectors. Search is exact: dot products are taken in float64 (float32 in a large catalog) and
rounded, so that a batch and a single message agree.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mono_router import text as texts
from mono_router.catalog import Catalog
from mono_router.dialects import written_arabic
from mono_router.heads import (
    EmbeddingHeads,
    description_views,
    log_softmax,
    neutral_sentences,
    training_texts,
)
from mono_router.lexical import top_hits
from mono_router.neutral import LANGUAGES, REQUESTS, SMALL_TALK
from mono_router.records import SCORE_DECIMALS, Encoder, Hit
from mono_router.vectors import VectorCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["query", "passage"]
_CHUNK_CELLS = 8_000_000
_FIT_TOOLS = 4096
"""Tools whose views are held at once while the index is built."""
LARGE = 20_000
"""Tools above which products are taken in float32: half the memory and time, scores equal to 1e-6."""
_BLOCK = 32
"""Tools of which the best is looked at first when the best k are sought."""
_WIDTH = 4
"""There, messages are padded to a multiple of this, so that one and many meet the same sums."""
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
        if not len(texts):
            return np.empty((0, 0), dtype=np.float32)
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
        parts.update(f"{file.relative_to(folder)}:{file.stat().st_size};".encode())
        with file.open("rb") as opened:
            while chunk := opened.read(1 << 20):
                parts.update(chunk)
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
        if not len(texts):
            return np.empty((0, 0), dtype=np.float32)
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
        self.trust = 0.15
        """It knows nothing beyond the catalog's words, which the lexical stage reads better."""
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
        if not len(texts):
            return np.empty((0, self._basis.shape[1]), dtype=np.float32)
        return normalized((self._vectorizer.transform(list(texts)) @ self._basis).astype(np.float32))


def _light_features(text: str) -> list[str]:
    words = texts.words(text)
    return words + [gram for word in words for gram in texts.char_ngrams(word)]


def normalized(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows scaled to length 1; zero and non-finite rows become 0."""
    vectors = np.nan_to_num(vectors, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


CLAUSE = 0.3
"""Share of the best clause against the whole message, where a message has several."""
LOG_RANGE = 20.0
"""With examples the score is 1 + log-probability / LOG_RANGE, cut at 0: linear in what fusion weighs."""
MIN_CHECKED = 8
"""Least number of tools with two examples in a language for a self-check on them."""
TRUSTED = 0.5
"""Trust from which an encoder's vectors are worth fitting heads on."""
TRUST_LOW, TRUST_SPAN = 1.0, 1.5
"""A self-check at or below the first: the encoder knows nothing of the catalog; above their sum: all."""


class EmbeddingRetriever:
    """Exact search over the vectors of a catalog.

    A tool's vector is the mean of four views of its description, and tools are centred on their mean.
    Where at least half of the tools have examples, a multinomial head over those scores instead (see
    :mod:`mono_router.heads`). Trust in [0, 1] tells whether the encoder knows a language at all: how well
    a tool's name finds its own description, an example its tool, a sentence its translation, among all.

    Parameters
    ----------
    catalog
        Tools to search.
    encoder
        Any :class:`~mono_router.records.Encoder`.
    cache
        Folder of the vector cache, or a :class:`~mono_router.vectors.VectorCache` that is shared;
        None keeps vectors in memory only. Default: the user's cache folder.
    dialects
        Whether Arabic dialect words are written out before encoding.

    >>> from mono_router.records import Tool
    >>> catalog = Catalog([Tool(id="a", description="book a table"), Tool(id="b", description="weather")])
    >>> EmbeddingRetriever(catalog, LightEncoder(), cache=None).search("a table please", 1)[0].tool
    'a'
    """

    def __init__(
        self,
        catalog: Catalog,
        encoder: Encoder,
        *,
        cache: VectorCache | str | Path | None = "user",
        dialects: bool = True,
    ) -> None:
        self.ids = catalog.ids
        self._dialects = dialects
        self._training = training_texts(catalog)
        self._exemplified = self._training.exemplified
        views = [text for tool in catalog for text in description_views(tool)]
        if isinstance(encoder, LightEncoder):
            cache = None  # encoding costs less than looking up
            if not encoder.fitted:
                encoder.fit([*views, *self._training.texts])
        self.encoder = encoder
        if isinstance(cache, VectorCache):
            self.cache = cache
        else:
            self.cache = VectorCache(encoder, user_folder() if cache == "user" else cache)
        self._lock = threading.Lock()
        self._heads: EmbeddingHeads | None = None
        self._languages = [texts.guess_language(text) for text in self._training.texts]
        self._trusts: dict[str, float] = {}
        self._fit(views)
        self._limit = float(getattr(encoder, "trust", 1.0))
        self.trust *= self._limit
        """How far the fusion may rely on these scores, over all languages of the catalog, [0, 1]."""

    def encode(self, messages: Sequence[str], kind: Kind = "query") -> NDArray[np.float64]:
        """Return cached vectors (n, d) of texts as the encoder is shown them."""
        prepared = [written_arabic(m) for m in messages] if self._dialects else list(messages)
        return self.cache.encode(prepared, kind).astype(np.float64)

    @property
    def heads(self) -> EmbeddingHeads | None:
        """Heads over the catalog's examples; None where there are too few, or the encoder is not trusted."""
        if self._heads is None:
            if not self._exemplified or self.trust < TRUSTED:
                return None
            with self._lock:
                if self._heads is None:
                    self._heads = EmbeddingHeads(self._training, neutral_sentences(), self.encode)
        return self._heads

    def _fit(self, views: Sequence[str]) -> None:
        n_tools = len(self.ids)
        if not n_tools:
            self._centred = self.encode((), "passage")
            self._norms, self.trust, self._typical = np.ones(0), 0.0, (0.0, 1.0)
            return
        parts = [views[start : start + 4 * _FIT_TOOLS] for start in range(0, len(views), 4 * _FIT_TOOLS)]
        tools = np.concatenate(
            [self.encode(part, "passage").reshape(len(part) // 4, 4, -1).mean(axis=1) for part in parts]
        )
        self._typical = _typical_cosine(tools)
        self._centre = tools.mean(axis=0) if n_tools > 1 else np.zeros(tools.shape[1])
        tools -= self._centre
        self._norms = np.linalg.norm(tools, axis=1) + 1e-9
        tools /= self._norms[:, None]
        self._centred = tools.astype(np.float32) if n_tools > LARGE else tools
        self.trust = self._self_check(views)

    def _self_check(self, views: Sequence[str]) -> float:
        """How well examples find their tool's others, or names their descriptions."""
        found = self._examples_check(None)
        if found is None:
            n_tools = len(self.ids)
            step = 4 * max(1, n_tools // 1000)
            names, described = (self.encode(views[view::step], "passage") for view in (0, 1))
            found = _trust(names, described) if n_tools > 2 else 1.0
        return found

    def _examples_check(self, language: str | None) -> float | None:
        """How well the first example of a tool finds the tool's others, in one language or in all."""
        training = self._training
        rows: dict[int, list[int]] = {}
        for i, own in enumerate(self._languages):
            if not training.is_description[i] and language in (None, own):
                rows.setdefault(int(training.tool[i]), []).append(i)
        several = [row[:4] for row in rows.values() if len(row) > 1]
        if len(several) < MIN_CHECKED:
            return None
        several = several[:: max(1, len(several) // 1000)]
        one = self.encode([training.texts[row[0]] for row in several])
        rest = [self.encode([training.texts[i] for i in row[1:]]).mean(axis=0) for row in several]
        return _trust(one, np.stack(rest))

    def trust_of(self, messages: Sequence[str]) -> NDArray[np.float64]:
        """Return how far the scores of each message may be relied on, (n,), by the message's language.

        A language that the catalog's examples hold is checked on them; another one by whether our
        neutral sentences in it find their translation into the catalog's main language.
        """
        found = np.empty(len(messages))
        for i, message in enumerate(messages):
            language = texts.guess_language(message)
            if language not in self._trusts:
                self._trusts[language] = self._limit * self._language_trust(language)
            found[i] = self._trusts[language]
        return found

    def _language_trust(self, language: str) -> float:
        main = max(LANGUAGES, key=self._languages.count) if self._languages else "en"
        if language == main or self.trust == 0:
            return self.trust / self._limit if self._limit else 0.0
        inside = self._examples_check(language)
        if inside is not None:
            return inside
        one, other = (LANGUAGES.index(name) for name in (language, main))
        parallel = SMALL_TALK + REQUESTS
        vectors = [self.encode([row[place] for row in parallel]) for place in (one, other)]
        return _trust(vectors[0], vectors[1])

    def scores(self, messages: Sequence[str]) -> NDArray[np.float32]:
        """Return the similarity of every tool, float32 (n_messages, n_tools), id order, about [-1, 1]."""
        found = np.zeros((len(messages), len(self.ids)), dtype=np.float32)
        if not len(self.ids) or not len(messages):
            return found
        heads = self.heads
        if heads is not None:
            logits, _, _ = heads.logits(messages)
            rows = np.clip(1.0 + log_softmax(logits[:, :-1]) / LOG_RANGE, 0.0, 1.0)
            return np.round(rows, SCORE_DECIMALS).astype(np.float32)
        queries = self.encode(messages)
        clauses = self._clause_vectors(messages)
        step = max(1, _CHUNK_CELLS // len(self.ids))
        for start in range(0, len(messages), step):
            part = queries[start : start + step]
            rows = self._centred_likeness(part)
            for i in range(len(part)):
                vectors = clauses.get(start + i)
                if vectors is not None:
                    best = self._likeness(vectors).max(axis=0)
                    rows[i] = (1 - CLAUSE) * rows[i] + CLAUSE * (best - best.mean()) / self._norms
                found[start + i] = np.round(rows[i], SCORE_DECIMALS)
        return found

    def _centred_likeness(self, vectors: NDArray[np.float64]) -> NDArray[Any]:
        """Dot products with the centred tools, (n, n_tools)."""
        if self._centred.dtype == np.float64:
            return vectors @ self._centred.T
        n = len(vectors)
        padded = np.zeros((n + -n % _WIDTH, vectors.shape[1]), dtype=np.float32)
        padded[:n] = vectors
        return (padded @ self._centred.T)[:n]

    def _likeness(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Dot products with the tools as they are, (n, n_tools)."""
        found: NDArray[np.float64] = self._centred_likeness(vectors) * self._norms
        found += (vectors @ self._centre)[:, None]
        return found

    def _clause_vectors(self, messages: Sequence[str]) -> dict[int, NDArray[np.float64]]:
        """Vectors of the clauses of each message that has several."""
        parts = {i: found for i, m in enumerate(messages) if len(found := texts.clauses(m)) > 1}
        flat = self.encode([clause for found in parts.values() for clause in found])
        bounds = np.cumsum([0, *(len(found) for found in parts.values())]).tolist()
        return {i: flat[bounds[place] : bounds[place + 1]] for place, i in enumerate(parts)}

    def familiarity(self, messages: Sequence[str]) -> NDArray[np.float64]:
        """Return how close each message comes to any tool, (n,), in spreads of the tools' own likeness."""
        if not len(self.ids):
            return np.zeros(len(messages))
        mean, spread = self._typical
        nearest = self._likeness(self.encode(messages)).max(axis=1)
        found: NDArray[np.float64] = (nearest - mean) / spread
        return found

    def search(self, message: str, k: int) -> tuple[Hit, ...]:
        """Return the ``k`` nearest tools, best first, ties by id; none at or below 0."""
        return self.search_many([message], k)[0]

    def search_many(self, messages: Sequence[str], k: int) -> list[tuple[Hit, ...]]:
        """Return each message's ``k`` nearest tools, as :meth:`search` does.

        In a large catalog one float32 product tells which tools may be among the best; these alone are
        scored in float64, so that the hits are those of float64 products with every tool.
        """
        if k < 1 or not messages or self.heads is not None or self._centred.dtype == np.float64:
            rows = self.scores(messages).astype(np.float64).round(SCORE_DECIMALS)
            return [top_hits(row, self.ids, k, "embedding") for row in rows]
        queries = self.encode(messages)
        clauses = self._clause_vectors(messages)
        found: list[tuple[Hit, ...]] = []
        step = max(1, _CHUNK_CELLS // len(self.ids))
        for start in range(0, len(messages), step):
            part = queries[start : start + step]
            narrow = part.astype(np.float32)
            tools: NDArray[Any] = self._centred
            near = (tools @ narrow[0])[:, None] if len(part) == 1 else tools @ narrow.T
            reached = _reached(near, k, margin=_margin(part))
            for i, columns in enumerate(reached):
                vectors = clauses.get(start + i)
                if vectors is not None:
                    columns = np.arange(len(self.ids))  # a clause may lift any tool
                scores = self._exact_scores(part[i], vectors, columns)
                hits = top_hits(scores, [self.ids[c] for c in columns.tolist()], k, "embedding")
                found.append(hits)
        return found

    def _exact_scores(
        self, query: NDArray[np.float64], clauses: NDArray[np.float64] | None, columns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Scores of some tools for one message, (n_columns,), all of it in float64."""
        parts = [columns[start : start + _FIT_TOOLS] for start in range(0, len(columns), _FIT_TOOLS)]
        asked = query[None] if clauses is None else np.concatenate([query[None], clauses])
        products = np.concatenate([self._centred[part].astype(np.float64) @ asked.T for part in parts])
        scores: NDArray[np.float64] = products[:, 0]
        if clauses is not None:
            best = (products[:, 1:] * self._norms[:, None] + clauses @ self._centre).max(axis=1)
            scores = (1 - CLAUSE) * scores + CLAUSE * (best - best.mean()) / self._norms
        return scores.round(SCORE_DECIMALS)


def _margin(queries: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far below another tool's product a float32 product may stand and yet be the better one, (n,).

    A sum of d products is off by at most (d + 2) units of roundoff (Higham 2002, section 3.1); twice
    that, and the step of a rounded score.
    """
    off = (queries.shape[1] + 4) * 2.0**-24 * (np.linalg.norm(queries, axis=1) + 1e-6)
    found: NDArray[np.float64] = 2.0 * off + 10.0**-SCORE_DECIMALS
    return found


def _reached(near: NDArray[np.float32], k: int, *, margin: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Rows of (n_tools, n) that each column's best ``k`` are among, ascending.

    The k-th best of the blocks' best is reached by k rows, and only blocks that reach it are looked into.
    """
    n_rows, n = near.shape
    n_blocks = n_rows // _BLOCK
    if n_blocks <= k:
        return [np.arange(n_rows)] * n
    whole = n_blocks * _BLOCK
    tops = near[:whole].reshape(_BLOCK, n_blocks, n).max(axis=0)
    rest = np.arange(whole, n_rows)
    found = []
    columns = np.ascontiguousarray(tops.T)
    levels = np.partition(columns, n_blocks - k, axis=1)[:, n_blocks - k] - margin
    for i, (top, level) in enumerate(zip(columns, levels.tolist(), strict=True)):
        blocks = np.flatnonzero(top >= level)
        rows = (blocks + n_blocks * np.arange(_BLOCK)[:, None]).ravel()
        rows = np.concatenate([rows[near[rows, i] >= level], rest])
        rows.sort()
        found.append(rows)
    return found


def _typical_cosine(tools: NDArray[np.float64], most: int = 2000) -> tuple[float, float]:
    """Mean and spread of the likeness of two tools, over an even sample of a large catalog."""
    if len(tools) < 2:
        return 0.0, 1.0
    sample = tools[:: max(1, len(tools) // most)]
    likeness = (sample @ sample.T)[~np.eye(len(sample), dtype=bool)]
    return float(likeness.mean()), float(likeness.std()) + 1e-9


def _trust(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Map the mean standardised likeness of matching rows, among all rows, to [0, 1]."""
    likeness = _centred(one) @ _centred(other).T
    z = (np.diag(likeness) - likeness.mean(axis=1)) / (likeness.std(axis=1) + 1e-9)
    return float(np.clip((z.mean() - TRUST_LOW) / TRUST_SPAN, 0.0, 1.0))


def _centred(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    moved = rows - rows.mean(axis=0)
    found: NDArray[np.float64] = moved / (np.linalg.norm(moved, axis=1, keepdims=True) + 1e-9)
    return found


def user_folder() -> Path:
    """Return the folder of the vector cache: MONO_ROUTER_CACHE, else under the user's cache folder."""
    given = os.environ.get("MONO_ROUTER_CACHE")
    return (
        Path(given)
        if given
        else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mono_router"
    )
