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
from collections import Counter
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

    _Said = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

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
_SHORT = 200
"""Mean length of postings below which they are taken by one index."""
_BLOCK = 64
"""Tools of which the best is looked at first when the best k are sought."""
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
        self._last: tuple[str, NDArray[np.float64]] | None = None
        self._words_are_plain = self._whole_words == texts.Layers(clitics=False, stem=False)
        self._asked: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        self._words, self._grams = _Numbers(), _Numbers()
        self._known: dict[str, list[int]] = {}
        self._index(catalog)
        self._phrases: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        self._exact: dict[tuple[str, ...], list[int]] = {}
        if own.phrase_matching:
            for column, tool in enumerate(catalog):
                self._add_phrases(tool, column)

    # --- features -----------------------------------------------------------------------------

    def _split(self, text: str) -> tuple[list[str], tuple[str, ...]]:
        """Words as they stand and reduced; the last texts are kept, since stages ask for them in turn."""
        found = self._recent.get(text)
        if found is None:
            raw = self._whole(text)
            found = raw, tuple([texts.reduced(word, self.layers) for word in raw])
            if len(self._recent) > 256:
                self._recent = {}
            self._recent[text] = found
        return found

    def _whole(self, text: str) -> list[str]:
        if self.settings.rewrite_dialects and not text.isascii():
            text = written_arabic(text)
        return texts.words(text, self._whole_words)

    def whole_words(self, message: str) -> list[str]:
        """Return the words of a message, neither stemmed nor cut, dialect words written out."""
        return self._split(message)[0]

    def plain_words(self, message: str) -> list[str]:
        """Return the words of a message as it stands, under every layer that leaves words whole."""
        if self._words_are_plain and message.isascii():
            return self._split(message)[0]
        return texts.words(message, _PLAIN)

    def features(self, message: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return a message's feature numbers and weights: 1 for a word, 1 + ln(count) for a 4-gram."""
        found = self._asked.get(message)
        if found is None:
            found = self._features(message)
            if len(self._asked) >= 16:
                self._asked = {}
            self._asked[message] = found
        return found

    def _features(self, message: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        found: list[int] = []
        known = self._known
        for raw, reduced in zip(*self._split(message), strict=True):
            here = known.get(raw)
            found += self._features_of(raw, reduced) if here is None else here
        # Lists, since a message has some dozens of features: an array costs more than they do.
        distinct = sorted(set(found))
        numbers = np.array(distinct, dtype=np.int64)
        if len(distinct) == len(found):
            return numbers, np.ones(len(distinct))
        first_gram = len(self._words)
        counts = Counter(found)
        values = [1.0 + math.log(counts[n]) if n >= first_gram else 1.0 for n in distinct]
        return numbers, np.array(values)

    def _features_of(self, raw: str, reduced: str) -> list[int]:
        """Numbers of the features of one word that the index has."""
        here = [self._words[reduced]] if reduced in self._words else []
        if self.settings.char_ngrams:
            first = len(self._words)
            here += [first + self._grams[g] for g in texts.char_ngrams(raw) if g in self._grams]
        if len(self._known) < 200_000:
            self._known[raw] = here
        return here

    # --- index --------------------------------------------------------------------------------

    def _index(self, catalog: Catalog) -> None:
        import scipy.sparse as sp

        spoken = _Numbers()
        counts = self._counts(catalog, spoken)
        words = [self._words[texts.reduced(raw, self.layers)] for raw in spoken]
        grams: list[int] = []
        sizes = []
        for raw in spoken if self.settings.char_ngrams else ():
            found = texts.char_ngrams(raw)
            grams += [self._grams[gram] for gram in found]
            sizes.append(len(found))
        said = {name: count.arrays() for name, count in counts.items()}
        self.postings, self.idf = self._family(said, words, [1] * len(spoken), grams=False)
        """float64 (n_features, n_tools); words come before 4-grams"""
        n_words = len(self.idf)
        if grams:
            more, idf = self._family(said, grams, sizes, grams=True)
            self.idf = np.concatenate([self.idf, idf])
            self.postings = sp.vstack([self.postings, more], format="csr")
        self.is_gram = np.arange(len(self.idf)) >= n_words
        self.dense: NDArray[np.float64] | None = None
        if self.postings.shape[0] * self.postings.shape[1] <= _DENSE_CELLS:
            self.dense = self.postings.toarray()

    def _counts(self, catalog: Catalog, spoken: _Numbers) -> dict[str, _Counts]:
        """Words of each field, numbered as they stand, not reduced.

        Stop words count where users speak: "how do i" tells much beside other messages and nothing
        beside descriptions.
        """
        found = {name: _Counts() for name, weight in self.settings.field_weights.items() if weight > 0}
        number = spoken.__getitem__
        for column, tool in enumerate(catalog):
            for name, entries in fields(tool).items():
                if name not in found:
                    continue
                dropped = frozenset() if name in SAID else texts.STOP_WORDS
                for text, share in entries:
                    if text:
                        kept = [number(word) for word in self._whole(text) if word not in dropped]
                        found[name].add(kept, column, share)
        return found

    def _family(
        self, said: Mapping[str, _Said], features: list[int], sizes: list[int], *, grams: bool
    ) -> tuple[Any, NDArray[np.float64]]:
        """BM25F weights (n_features, n_tools) and idf of the words or the 4-grams.

        Each spoken word has the next ``sizes`` of ``features``. BM25F adds what the fields say before it
        saturates, so a word's features are counted after the fields are added.
        """
        import scipy.sparse as sp

        n_features, n_tools = len(self._grams if grams else self._words), len(self.ids)
        bounds = np.cumsum([0, *sizes])
        numbers = np.array(features, dtype=np.int64)
        split = sp.csc_matrix((np.ones(len(numbers)), numbers, bounds), shape=(n_features, len(sizes)))
        tf = split.tocsr() @ self._weighted(said, np.diff(bounds), n_tools, grams=grams)
        df = np.diff(tf.indptr)
        idf = np.log1p((n_tools - df + 0.5) / (df + 0.5))
        k1, share = (GRAM_K1, GRAM_SHARE) if grams else (WORD_K1, 1.0)
        tf.data *= (k1 + 1) / (k1 + tf.data)
        tf.data *= np.repeat(share * idf, df)
        return tf, idf

    def _weighted(
        self, said: Mapping[str, _Said], sizes: NDArray[np.int64], n_tools: int, *, grams: bool
    ) -> Any:
        """Sparse (n_spoken, n_tools): weight of each word in each tool, over all fields.

        ``sizes`` holds the number of features of each word; lengths of fields are counted in them.
        """
        import scipy.sparse as sp

        parts = []
        for name, (numbers, columns, values) in said.items():
            lengths = np.bincount(columns, weights=values * sizes[numbers], minlength=n_tools)
            if not lengths.any():
                continue
            norm = 1 - LENGTH_B + LENGTH_B * lengths / lengths[lengths > 0].mean()
            weight = self.settings.field_weights[name] * (GRAM_FIELDS.get(name, 1.0) if grams else 1.0)
            parts.append((weight * values / norm[columns], numbers, columns))
        shape = len(sizes), n_tools
        if not parts:
            return sp.csr_matrix(shape)
        amounts, numbers, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
        return sp.csr_matrix((amounts, (numbers, columns)), shape=shape)

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
        if len(messages) == 1:
            return self.mass_of(messages[0])[None].copy()
        if len(messages) < 4 or self.dense is not None:
            found = np.empty((len(messages), len(self.ids)))
            for i, message in enumerate(messages):
                found[i] = self._mass(message)
            return found
        masses: NDArray[np.float64] = (self.query_matrix(messages) @ self.postings).toarray()
        return masses

    def mass_of(self, message: str) -> NDArray[np.float64]:
        """Return one row of :meth:`mass`, (n_tools,), to be read only: the stages ask for it in turn."""
        last = self._last
        if last is None or last[0] != message:
            self._last = last = message, self._mass(message)
        return last[1]

    def query_matrix(self, messages: Sequence[str]) -> Any:
        """Return the messages' feature weights as a sparse float64 (n_messages, n_features) matrix."""
        import scipy.sparse as sp

        found = [self.features(message) for message in messages]
        bounds = np.cumsum([0, *(len(numbers) for numbers, _ in found)])
        numbers = np.concatenate([n for n, _ in found]) if found else np.empty(0, dtype=np.int64)
        values = np.concatenate([v for _, v in found]) if found else np.empty(0)
        return sp.csr_matrix((values, numbers, bounds), shape=(len(messages), len(self.idf)))

    def _mass(self, message: str) -> NDArray[np.float64]:
        numbers, values = self.features(message)
        if not len(numbers):
            return np.zeros(len(self.ids))
        if self.dense is not None:
            return values @ self.dense.take(numbers, axis=0)
        indptr, tools, weights = self.postings.indptr, self.postings.indices, self.postings.data
        starts, stops = indptr[numbers], indptr[numbers + 1]
        sizes = stops - starts
        ends = np.cumsum(sizes)
        if ends[-1] < _SHORT * len(numbers):
            # Postings of a few tools each: one index of all of them costs less than a slice of each.
            places = np.arange(ends[-1]) + np.repeat(starts - (ends - sizes), sizes)
            found = weights.take(places) * np.repeat(values, sizes)
            return np.bincount(tools.take(places), weights=found, minlength=len(self.ids)).astype(
                np.float64, copy=False
            )
        spans = [slice(start, stop) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
        amounts = [
            weights[span] if value == 1.0 else value * weights[span]
            for span, value in zip(spans, values.tolist(), strict=True)
        ]
        columns = np.concatenate([tools[span] for span in spans])
        return np.bincount(columns, weights=np.concatenate(amounts), minlength=len(self.ids)).astype(
            np.float64, copy=False
        )

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

    def scores_of(self, message: str) -> NDArray[np.float64]:
        """Return one row of :meth:`scores`, float64 (n_tools,)."""
        if not self.settings.enabled:
            return np.zeros(len(self.ids))
        mass = self.mass_of(message)
        row = mass / (mass + self.floor)
        for column, lifted in self._lifted(message).items():
            row[column] = max(row[column], lifted)
        return row.round(SCORE_DECIMALS)

    def from_mass(self, messages: Sequence[str], mass: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores (n_messages, n_tools) that matched masses and phrases make, rounded."""
        rows = mass / (mass + self.floor)
        if self._phrases or self._exact:
            for i, message in enumerate(messages):
                for column, lifted in self._lifted(message).items():
                    rows[i, column] = max(rows[i, column], lifted)
        return np.round(rows, SCORE_DECIMALS)

    def _lifted(self, message: str) -> dict[int, float]:
        """Least score of the tools whose hints or examples the message contains or is."""
        found: dict[int, float] = {}
        if not (self._phrases or self._exact):
            return found
        words = self._tokens(message)
        for start, word in enumerate(words):
            for tokens, column in self._phrases.get(word, ()):
                if words[start : start + len(tokens)] == tokens:
                    lifted = CONTAINED + (1 - CONTAINED) * len(tokens) / len(words)
                    found[column] = max(found.get(column, 0.0), lifted)
        found.update(dict.fromkeys(self._exact.get(words, ()), 1.0))
        return found

    def exact(self, message: str) -> tuple[int, ...]:
        """Return the numbers of the tools that have this very message as a hint or an example."""
        return tuple(self._exact.get(self._tokens(message), ()))

    def search(self, message: str, k: int) -> tuple[Hit, ...]:
        """Return the best ``k`` tools with a score above 0, best first, ties by id."""
        if not self.settings.enabled:
            return ()
        mass = self._mass(message)
        lifted = self._lifted(message)
        columns = np.flatnonzero(mass > self._reached(mass, k))
        if lifted:
            columns = np.union1d(columns, list(lifted))
        scores = mass[columns] / (mass[columns] + self.floor)
        for column, least in lifted.items():
            place = np.searchsorted(columns, column)
            scores[place] = max(scores[place], least)
        return _hits(columns, np.round(scores, SCORE_DECIMALS), self.ids, k, "lexical")

    def _reached(self, mass: NDArray[np.float64], k: int) -> float:
        """A mass that every tool among the best ``k`` is above, ties after rounding included; at least 0.

        The best of each block of tools are taken; the k-th best of these is reached by k tools.
        """
        n_blocks = len(mass) // _BLOCK
        if n_blocks <= k:
            return 0.0
        tops = mass[: n_blocks * _BLOCK].reshape(_BLOCK, n_blocks).max(axis=0)
        level = float(np.partition(tops, n_blocks - k)[n_blocks - k])
        score = level / (level + self.floor) - 10.0**-SCORE_DECIMALS
        return max(0.0, self.floor * score / (1.0 - score))


_PLAIN = texts.Layers(clitics=False, stem=False)


class _Numbers(dict[str, int]):
    """Numbers keys in the order in which they are met."""

    def __missing__(self, key: str) -> int:
        self[key] = found = len(self)
        return found


class _Counts:
    """Words of one field over all tools."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.sizes: list[int] = []
        self.columns: list[int] = []
        self.shares: list[float] = []

    def add(self, numbers: list[int], column: int, share: float) -> None:
        """Add the words of one text of a tool."""
        self.numbers += numbers
        self.sizes.append(len(numbers))
        self.columns.append(column)
        self.shares.append(share)

    def arrays(self) -> _Said:
        """Return word number, tool number and share of each word."""
        columns, shares = np.array(self.columns, np.int64), np.array(self.shares, np.float64)
        return np.array(self.numbers, np.int64), np.repeat(columns, self.sizes), np.repeat(shares, self.sizes)


def top_hits(row: NDArray[Any], ids: Sequence[str], k: int, source: Any) -> tuple[Hit, ...]:
    """Return the best ``k`` positive entries of a (n_tools,) row as hits, ties by position."""
    found = np.flatnonzero(row > 0)
    if len(found) > 4 * k:
        least = np.partition(row[found], len(found) - k)[len(found) - k]
        found = found[row[found] >= least]
    return _hits(found, row[found], ids, k, source)


def _hits(
    columns: NDArray[np.int64], scores: NDArray[Any], ids: Sequence[str], k: int, source: Any
) -> tuple[Hit, ...]:
    order = np.argsort(-scores, kind="stable")[:k]
    found = enumerate(zip(columns[order].tolist(), scores[order].tolist(), strict=True))
    return tuple(
        [Hit(tool=ids[c], score=score, source=source, rank=rank) for rank, (c, score) in found if score > 0]
    )
