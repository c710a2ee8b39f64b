"""Stage 1: lexical retrieval.

A catalog is indexed once; messages come in, a score in [0, 1] for each tool comes out. Features are
stemmed words and character 4-grams within words, in one matrix of postings. What a tool matches is
weighed by BM25F (Robertson and Zaragoza 2009, section 3.6); the matched mass m becomes the score
m / (m + ln(1 + 2 n_tools)), which keeps it absolute: dividing by the best that a message could reach
would call a message of unknown words a half match. A hint that is contained in the message lifts its
tool; a message that *is* a hint or an example scores 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router import text as texts
from mono_router.catalog import Catalog
from mono_router.dialects import written_arabic
from mono_router.records import SCORE_DECIMALS, Hit, Tool
from mono_router.settings import LexicalSettings, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Constants below were chosen on the dev splits of ten public sets; each is flat around its value.
WORD_K1, GRAM_K1 = 0.9, 2.0
"""Saturation of the term frequency (Robertson and Zaragoza's k1)."""
LENGTH_B = 0.5
"""Length normalisation within a field (their b)."""
GRAM_SHARE = 0.1
"""Weight of a 4-gram's part beside a word's."""
GRAM_FIELDS: Mapping[str, float] = {
    "id": 0.5,
    "description": 1.4,
    "arguments": 0.5,
    "hints": 3.0,
    "examples": 3.0,
}
"""4-grams want other field weights than words: factors on ``lexical.field_weights``."""
SAID = frozenset({"hints", "examples"})
"""Fields that hold what users say."""
CONTAINED = 0.8
"""Score of a tool whose hint of several words is contained in a long message; grows to 1.0 with its share."""
_DENSE_CELLS = 4_000_000
_CHUNK_CELLS = 8_000_000
_DEPTH = 2


@dataclass(frozen=True)
class Parameter:
    """What a schema says of one argument."""

    name: str
    description: str
    enum: tuple[str, ...]
    type: str
    required: bool


def parameters(
    schema: Mapping[str, Any], *, hidden: Sequence[str] = (), depth: int = 0
) -> Iterator[Parameter]:
    """Yield a schema's arguments, those of nested objects included, two levels deep.

    >>> [p.name for p in parameters({"properties": {"city": {"type": "string"}}})]
    ['city']
    """
    required = schema.get("required")
    needed = set(required) if isinstance(required, list) else set()
    properties = schema.get("properties")
    for name, sub in properties.items() if isinstance(properties, Mapping) else ():
        if not isinstance(sub, Mapping) or (depth == 0 and name in hidden):
            continue
        items = sub.get("items")
        item: Mapping[str, Any] = items if isinstance(items, Mapping) else {}
        branches = [b for b in sub.get("anyOf") or () if isinstance(b, Mapping)]
        values = [v for part in (sub, item, *branches) for v in part.get("enum") or ()]
        synonyms = sub.get("x-synonyms")
        if isinstance(synonyms, Mapping):
            values += [w for words in synonyms.values() if isinstance(words, list) for w in words]
        described = [part.get("description") for part in (sub, *branches)]
        kind = sub.get("type")
        yield Parameter(
            name=name,
            description=" ".join(text for text in described if isinstance(text, str)),
            enum=tuple(str(v) for v in values if v is not None),
            type=kind if isinstance(kind, str) else "",
            required=depth == 0 and name in needed,
        )
        if depth < _DEPTH:
            for part in (sub, item):
                if part.get("properties"):
                    yield from parameters(part, depth=depth + 1)


def tool_parameters(tool: Tool) -> list[Parameter]:
    """Return the user arguments of a tool, nested ones included."""
    return list(parameters(tool.input_schema, hidden=tool.system_arguments))


def fields(tool: Tool) -> dict[str, list[tuple[str, float]]]:
    """Return the texts of each indexed field of a tool, each with a weight within its field.

    >>> fields(Tool(id="get_price", description="Price of a service"))["id"]
    [('get price', 1.0)]
    """
    found = tool_parameters(tool)
    return {
        "id": [(texts.identifier_words(tool.id), 1.0)],
        "title": [(texts.identifier_words(tool.title), 1.0)],
        "description": [(text, 1.0) for text in (tool.description, *tool.other_descriptions)],
        "hints": [(hint, 1.0) for hint in tool.hints],
        "keywords": list(tool.keywords.items()),
        "examples": [(example.message, 1.0) for example in tool.examples],
        "arguments": [
            *((texts.identifier_words(p.name), 1.0) for p in found),
            *((p.description, 0.6) for p in found),
            *((" ".join(p.enum), 0.8) for p in found),
        ],
    }


class LexicalRetriever:
    """Stage 1 over one catalog.

    >>> from mono_router.records import Tool
    >>> catalog = Catalog([Tool(id="price", description="Price of a service", hints=("how much",)),
    ...                    Tool(id="book", description="Book an appointment")])
    >>> retriever = LexicalRetriever(catalog)
    >>> retriever.search("how much is it", 2)[0].tool
    'price'
    >>> retriever.scores(["how much", "book it"]).shape
    (2, 2)
    """

    def __init__(self, catalog: Catalog, settings: Settings | LexicalSettings | None = None) -> None:
        if isinstance(settings, Settings):
            settings = settings.lexical
        self.settings = own = settings or LexicalSettings()
        self.ids = catalog.ids
        self.layers = texts.Layers(
            unicode=own.normalize_unicode,
            arabic=own.normalize_arabic,
            hamza=own.fold_hamza_forms,
            clitics=own.strip_clitics,
            stem=own.stem,
        )
        # 4-grams carry inflection by themselves and want the word whole.
        self._whole_words = texts.Layers(
            unicode=own.normalize_unicode,
            arabic=own.normalize_arabic,
            hamza=own.fold_hamza_forms,
            clitics=False,
            stem=False,
        )
        self.floor = math.log(1 + 2 * max(1, len(catalog)))
        """Mass that scores one half."""
        self._recent: dict[str, tuple[list[str], tuple[str, ...]]] = {}
        self._numbers: dict[str, int] = {}
        self._known: dict[str, NDArray[np.int64]] = {}
        self._index([fields(tool) for tool in catalog])
        self._phrases: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        self._exact: dict[tuple[str, ...], list[int]] = {}
        if own.phrase_matching:
            for column, tool in enumerate(catalog):
                self._add_phrases(tool, column)

    # --- features -----------------------------------------------------------------------------

    def _keys(self, raw: str, reduced: str) -> list[str]:
        """Features of one word."""
        grams = texts.char_ngrams(raw) if self.settings.char_ngrams else ()
        return [f"w{reduced}", *(f"#{gram}" for gram in grams)]

    def _split(self, text: str) -> tuple[list[str], tuple[str, ...]]:
        """Words as they stand and reduced; the last texts are kept, since stages ask for them in turn."""
        found = self._recent.get(text)
        if found is None:
            raw = texts.words(
                written_arabic(text) if self.settings.rewrite_dialects else text, self._whole_words
            )
            found = raw, tuple(texts.reduced(word, self.layers) for word in raw)
            if len(self._recent) > 256:
                self._recent = {}
            self._recent[text] = found
        return found

    def features(self, message: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return a message's feature numbers and weights: 1 for a word, 1 + ln(count) for a 4-gram."""
        parts = []
        for raw, reduced in zip(*self._split(message), strict=True):
            known = self._known.get(raw)
            if known is None:
                here = [self._numbers[k] for k in self._keys(raw, reduced) if k in self._numbers]
                known = np.array(here, dtype=np.int64)
                if len(self._known) < 200_000:
                    self._known[raw] = known
            parts.append(known)
        if not parts:
            return np.empty(0, dtype=np.int64), np.empty(0)
        found, counts = np.unique(np.concatenate(parts), return_counts=True)
        numbers: NDArray[np.int64] = found
        return numbers, np.where(self.is_gram[numbers], 1.0 + np.log(counts), 1.0)

    # --- index --------------------------------------------------------------------------------

    def _index(self, tools: Sequence[dict[str, list[tuple[str, float]]]]) -> None:
        counts = {
            name: self._counts([fields[name] for fields in tools], said=name in SAID)
            for name in self.settings.field_weights
            if self.settings.field_weights[name] > 0
        }
        n_features, n_tools = len(self._numbers), len(tools)
        self.is_gram = np.fromiter((key[0] == "#" for key in self._numbers), bool, n_features)
        one = self._weighted(counts, n_features, n_tools, grams=False)
        two = self._weighted(counts, n_features, n_tools, grams=True)
        self.idf = np.where(self.is_gram, two.idf, one.idf)
        import scipy.sparse as sp

        rows = np.concatenate([one.rows, two.rows])
        columns = np.concatenate([one.columns, two.columns])
        values = np.concatenate([one.values, GRAM_SHARE * two.values])
        self.postings = sp.csr_matrix((values, (rows, columns)), shape=(n_features, n_tools))
        """float64 (n_features, n_tools)"""
        self.dense: NDArray[np.float64] | None = None
        if n_features * n_tools <= _DENSE_CELLS:
            self.dense = self.postings.toarray()

    def _counts(
        self, entries: Sequence[list[tuple[str, float]]], *, said: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Feature number, tool number and weighted count of one field.

        Stop words count where users speak (``said``): "how do i" tells much beside other messages and
        nothing beside descriptions.
        """
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        for column, texts_ in enumerate(entries):
            for text, share in texts_:
                for raw, reduced in zip(*self._split(text), strict=True):
                    if not said and raw in texts.STOP_WORDS:
                        continue
                    for key in self._keys(raw, reduced):
                        rows.append(self._numbers.setdefault(key, len(self._numbers)))
                        columns.append(column)
                        values.append(share)
        return np.array(rows, np.int64), np.array(columns, np.int64), np.array(values, np.float64)

    def _weighted(
        self, counts: Mapping[str, Any], n_features: int, n_tools: int, *, grams: bool
    ) -> _Weighted:
        """BM25F weights of the words or of the 4-grams."""
        cells: list[NDArray[np.int64]] = []
        amounts: list[NDArray[np.float64]] = []
        for name, (rows, columns, values) in counts.items():
            kept = self.is_gram[rows] == grams
            rows, columns, values = rows[kept], columns[kept], values[kept]
            if not len(rows):
                continue
            lengths = np.bincount(columns, weights=values, minlength=n_tools)
            mean = lengths[lengths > 0].mean()
            weight = self.settings.field_weights[name] * (GRAM_FIELDS.get(name, 1.0) if grams else 1.0)
            norm = 1 - LENGTH_B + LENGTH_B * lengths / mean
            cells.append(rows * n_tools + columns)
            amounts.append(weight * values / norm[columns])
        if not cells:
            nothing = np.empty(0, dtype=np.int64)
            return _Weighted(nothing, nothing, np.empty(0), np.zeros(n_features))
        found, place = np.unique(np.concatenate(cells), return_inverse=True)
        tf = np.bincount(place, weights=np.concatenate(amounts))
        rows, columns = found // n_tools, found % n_tools
        df = np.bincount(rows, minlength=n_features)
        idf = np.log1p((n_tools - df + 0.5) / (df + 0.5))
        k1 = GRAM_K1 if grams else WORD_K1
        return _Weighted(rows, columns, idf[rows] * tf * (k1 + 1) / (k1 + tf), idf)

    def _add_phrases(self, tool: Tool, column: int) -> None:
        for phrase in (*tool.hints, *(word for word in tool.keywords if " " in word.strip())):
            tokens = self._tokens(phrase)
            if len(tokens) > 1:
                self._phrases.setdefault(tokens[0], []).append((tokens, column))
        for text in (*tool.hints, *(example.message for example in tool.examples)):
            tokens = self._tokens(text)
            if tokens:
                self._exact.setdefault(tokens, []).append(column)

    def _tokens(self, text: str) -> tuple[str, ...]:
        return self._split(text)[1]

    # --- scores -------------------------------------------------------------------------------

    def mass(self, messages: Sequence[str]) -> NDArray[np.float64]:
        """Return the matched mass, float64 (n_messages, n_tools), in units of idf."""
        n_tools = len(self.ids)
        if len(messages) < 4 or self.dense is not None:
            found = np.empty((len(messages), n_tools))
            for i, message in enumerate(messages):
                found[i] = self._mass(message)
            return found
        masses: NDArray[np.float64] = (self.query_matrix(messages) @ self.postings).toarray()
        return masses

    def query_matrix(self, messages: Sequence[str]) -> Any:
        """Return the messages' feature weights as a sparse float64 (n_messages, n_features) matrix."""
        import scipy.sparse as sp

        found = [self.features(message) for message in messages]
        bounds = np.cumsum([0, *(len(numbers) for numbers, _ in found)])
        numbers = np.concatenate([n for n, _ in found]) if found else np.empty(0, dtype=np.int64)
        values = np.concatenate([v for _, v in found]) if found else np.empty(0)
        return sp.csr_matrix((values, numbers, bounds), shape=(len(messages), len(self._numbers)))

    def _mass(self, message: str) -> NDArray[np.float64]:
        numbers, values = self.features(message)
        if not len(numbers):
            return np.zeros(len(self.ids))
        if self.dense is not None:
            return values @ self.dense[numbers]
        indptr, tools, weights = self.postings.indptr, self.postings.indices, self.postings.data
        spans = [slice(indptr[i], indptr[i + 1]) for i in numbers.tolist()]
        columns = np.concatenate([tools[span] for span in spans])
        sizes = indptr[numbers + 1] - indptr[numbers]
        amounts = np.concatenate([weights[span] for span in spans]) * np.repeat(values, sizes)
        return np.bincount(columns, weights=amounts, minlength=len(self.ids)).astype(np.float64, copy=False)

    def scores(self, messages: Sequence[str]) -> NDArray[np.float32]:
        """Return the score of every tool for every message, float32 (n_messages, n_tools), [0, 1].

        Columns are in id order; values hold 6 decimals; 0 = nothing in common.
        """
        found = np.zeros((len(messages), len(self.ids)), dtype=np.float32)
        if not self.settings.enabled:
            return found
        step = max(4, _CHUNK_CELLS // max(1, len(self.ids)))
        for start in range(0, len(messages), step):
            part = messages[start : start + step]
            found[start : start + step] = self.from_mass(part, self.mass(part))
        return found

    def from_mass(self, messages: Sequence[str], mass: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores (n_messages, n_tools) that matched masses and phrases make, rounded."""
        rows = mass / (mass + self.floor)
        if self._phrases or self._exact:
            for i, message in enumerate(messages):
                self._lift_phrases(self._tokens(message), rows[i])
        return np.round(rows, SCORE_DECIMALS)

    def _lift_phrases(self, words: tuple[str, ...], row: NDArray[np.float64]) -> None:
        for start, word in enumerate(words):
            for tokens, column in self._phrases.get(word, ()):
                if words[start : start + len(tokens)] == tokens:
                    lifted = CONTAINED + (1 - CONTAINED) * len(tokens) / len(words)
                    row[column] = max(row[column], lifted)
        for column in self._exact.get(words, ()):
            row[column] = 1.0

    def exact(self, message: str) -> tuple[int, ...]:
        """Return the numbers of the tools that have this very message as a hint or an example."""
        return tuple(self._exact.get(self._tokens(message), ()))

    def search(self, message: str, k: int) -> tuple[Hit, ...]:
        """Return the best ``k`` tools with a score above 0, best first, ties by id."""
        if not self.settings.enabled:
            return ()
        row = self.from_mass([message], self._mass(message)[None])[0]
        return top_hits(row, self.ids, k, "lexical")


@dataclass(frozen=True)
class _Weighted:
    """Postings of one family of features, and its inverse document frequencies."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]
    idf: NDArray[np.float64]


def top_hits(row: NDArray[Any], ids: Sequence[str], k: int, source: Any) -> tuple[Hit, ...]:
    """Return the best ``k`` positive entries of a (n_tools,) row as hits, ties by position."""
    found = np.flatnonzero(row > 0)
    if len(found) > 4 * k:
        least = np.partition(row[found], len(found) - k)[len(found) - k]
        found = found[row[found] >= least]
    best = found[np.argsort(-row[found], kind="stable")][:k]
    return tuple(
        Hit(tool=ids[column], score=float(row[column]), source=source, rank=rank)
        for rank, column in enumerate(best.tolist())
    )
