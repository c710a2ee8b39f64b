"""Heads: classifiers over a catalog's own texts, for tools that come with examples.

Examples, hints and descriptions of each tool are its training texts; neutral sentences of our own are
one class more and stand for "no tool". A multinomial head and a Gaussian head work on an encoder's
vectors, a lexical head on TF-IDF of character and word n-grams. Nothing here sees a labelled case.
Fitting is deterministic and does not depend on the order of the catalog.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mono_router import text as texts
from mono_router.catalog import Catalog
from mono_router.neutral import LANGUAGES, REQUESTS, SMALL_TALK
from mono_router.records import Case, Tool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Logits = tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float64]]

Encode = Callable[[Sequence[str]], "NDArray[np.float64]"]

# Chosen on the dev splits of clinc150, banking77, snips, massive (en, ar, es) and arbanking77 at once.
C_EMBEDDING = 10.0
"""Inverse L2 penalty of the multinomial head on unit vectors."""
C_LEXICAL = 10.0
DESCRIPTION_WEIGHT = 3.0
"""A description counts as so many examples."""
NEUTRAL_WEIGHT = 0.2
"""Weight of one neutral sentence."""
CENTRED = 0.5
"""Share of the examples' mean that is taken off the vectors."""
LDA_SHRINK, LDA_SHARPNESS = 0.8, 10.0
"""Gaussian head: shrinkage of the pooled scatter to a sphere, and sharpness of its scores."""
WORD_SHARE = 0.5
"""Word n-grams against character n-grams in the lexical head."""
CHAR_N, WORD_N = (2, 5), (1, 2)
N_COMPONENTS, MAX_EIGEN = 400, 1000
"""Kernel components of the lexical head; above so many texts it is a ridge on the same kernel instead."""
_DENSE_CELLS = 12_000_000
_WORD_CELLS = 4_000_000
"""Values that are kept of words."""


class _Counted(dict[int, float]):
    """Term frequency of a count, computed as it is met."""

    def __missing__(self, count: int) -> float:
        self[count] = found = 1.0 + math.log(count)
        return found


_COUNTED = _Counted()


@dataclass(frozen=True)
class TrainingTexts:
    """Texts of a catalog with the tool each stands for."""

    texts: tuple[str, ...]
    tool: NDArray[np.int64]
    is_description: NDArray[np.bool_]
    place: NDArray[np.int64]
    """Place among the tool's examples, -1 for a description."""
    n_tools: int

    def where(self, kept: NDArray[np.bool_]) -> TrainingTexts:
        """Return the texts that a mask keeps."""
        chosen = tuple(text for text, keep in zip(self.texts, kept.tolist(), strict=True) if keep)
        return TrainingTexts(
            chosen, self.tool[kept], self.is_description[kept], self.place[kept], self.n_tools
        )

    @property
    def exemplified(self) -> bool:
        """Whether at least half of two or more tools have an example or a hint."""
        n_said = len(np.unique(self.tool[~self.is_description]))
        return self.n_tools > 1 and 2 * n_said >= self.n_tools

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each text: descriptions weigh more where there are examples too."""
        if self.is_description.all():
            return np.ones(len(self.texts))
        return np.where(self.is_description, DESCRIPTION_WEIGHT, 1.0)


def tool_views(tool: Tool) -> list[str]:
    """Return the texts that stand for a tool: name and description first, then hints and examples.

    >>> tool_views(Tool(id="get_price", description="Price of a service"))
    ['get price: Price of a service']
    """
    return [description_views(tool)[2], *tool.hints, *(example.message for example in tool.examples)]


def description_views(tool: Tool) -> list[str]:
    """Return four views of a tool's description: name, description, both, both with argument names.

    >>> description_views(Tool(id="get_price", description="Price of a service"))[:3]
    ['get price', 'Price of a service', 'get price: Price of a service']
    """
    name = tool.title or texts.identifier_words(tool.id)
    described = tool.description or name
    both = f"{name}: {described}" if described != name else name
    arguments = ", ".join(dict.fromkeys(texts.identifier_words(n) for n in tool.properties))
    return [name, described, both, f"{both} ({arguments})" if arguments else both]


def training_texts(catalog: Catalog, cases: Iterable[Case] = ()) -> TrainingTexts:
    """Return the texts that stand for each tool: description, hints, examples, labelled messages."""
    extra: dict[str, list[str]] = {}
    for case in cases:
        if len(case.expected_tools) == 1:
            extra.setdefault(catalog.kept_id(case.expected_tools[0]), []).append(case.message)
    found: list[tuple[str, int, bool, int]] = []
    for number, tool in enumerate(catalog):
        found.append((description_views(tool)[2], number, True, -1))
        said = dict.fromkeys([*tool.hints, *(e.message for e in tool.examples), *extra.get(tool.id, ())])
        found.extend((text, number, False, place) for place, text in enumerate(said))
    return TrainingTexts(
        texts=tuple(row[0] for row in found),
        tool=np.array([row[1] for row in found], dtype=np.int64),
        is_description=np.array([row[2] for row in found], dtype=bool),
        place=np.array([row[3] for row in found], dtype=np.int64),
        n_tools=len(catalog),
    )


@dataclass(frozen=True)
class Parts:
    """What heads make of messages."""

    rank: NDArray[np.float64]
    """Log-probabilities of the tools among each other, (n, n_tools), not normalised."""
    features: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """Evidence that some tool is right, (n,) each: see :data:`mono_router.local.NO_TOOL_PARTS`."""


def log_softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log-probabilities along the last axis."""
    found: NDArray[np.float64] = z - np.logaddexp.reduce(z, axis=1)[:, None]
    return found


def unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows scaled to length 1."""
    found: NDArray[np.float64] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return found


def _logistic(
    x: NDArray[np.float64], y: NDArray[np.int64], c: float, weights: NDArray[np.float64], n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (d, n_classes) and biases of a multinomial logistic regression; absent classes stay out."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=c, max_iter=300, tol=1e-4).fit(x, y, sample_weight=weights)
    coefficients = np.zeros((x.shape[1], n_classes))
    biases = np.full(n_classes, -50.0)
    if len(model.classes_) == 2:  # scikit-learn keeps one row for two classes
        one, other = model.classes_.tolist()
        coefficients[:, one], coefficients[:, other] = -model.coef_[0] / 2, model.coef_[0] / 2
        biases[one], biases[other] = -model.intercept_[0] / 2, model.intercept_[0] / 2
    else:
        coefficients[:, model.classes_] = model.coef_.T
        biases[model.classes_] = model.intercept_
    return coefficients, biases


# --- lexical head ------------------------------------------------------------------------------


def char_grams(word: str) -> list[str]:
    """Return the character n-grams of a word with a space on each side, as scikit-learn's char_wb has them.

    >>> char_grams("a")
    [' a', 'a ', ' a ']
    """
    padded = f" {word} "
    found: list[str] = []
    for n in range(CHAR_N[0], CHAR_N[1] + 1):
        found.extend(padded[i : i + n] for i in range(len(padded) - n + 1))
        if len(padded) <= n:
            break
    return found


def word_grams(words: Sequence[str]) -> list[str]:
    """Return the words and their neighbouring pairs.

    >>> word_grams(["a", "b"])
    ['a', 'b', 'a b']
    """
    found = list(words)
    for n in range(max(2, WORD_N[0]), WORD_N[1] + 1):
        found.extend(" ".join(words[i : i + n]) for i in range(len(words) - n + 1))
    return found


class _WordSum(NamedTuple):
    """What the character n-grams of one word add."""

    numbers: list[int]
    squares: float
    row: NDArray[np.float64]
    """Weights of each tool and of "no tool", then the product with each text."""


class LexicalHead:
    """TF-IDF of character and word n-grams with a multinomial head.

    Term frequencies are 1 + ln(count), inverse document frequencies 1 + ln((1 + n) / (1 + df)), and each
    family of features has length 1, as scikit-learn's TfidfVectorizer makes them.
    """

    def __init__(
        self, training: TrainingTexts, neutral: Sequence[str], prepare: Callable[[str], str], *, head: bool
    ) -> None:
        import scipy.sparse as sp

        self._prepare = prepare
        self.n_tools = training.n_tools
        prepared = [prepare(text).split() for text in training.texts]
        self._numbers: dict[str, int] = {}
        self._known: dict[str, list[int]] = {}
        df: list[int] = []
        for words in prepared:
            features = {f"c{gram}" for word in words for gram in char_grams(word)}
            for feature in sorted(features | {f"w{gram}" for gram in word_grams(words)}):
                number = self._numbers.setdefault(feature, len(self._numbers))
                if number == len(df):
                    df.append(0)
                df[number] += 1
        self._is_word = np.array([feature[0] == "w" for feature in self._numbers], dtype=bool)
        self._word_mask = self._is_word.astype(np.float64)
        self._idf = 1.0 + np.log((1 + len(prepared)) / (1 + np.array(df, dtype=np.float64)))
        self._idf_of = self._idf.tolist()
        self._texts = self._matrix(prepared)
        self._by_feature = self._texts.T.tocsr()
        self._dense: NDArray[np.float32] | None = None
        if self._texts.shape[0] * self._texts.shape[1] <= _DENSE_CELLS:
            self._dense = np.asarray(self._by_feature.toarray(), dtype=np.float32)
        self.weights: NDArray[np.float32] | None = None
        self._table: NDArray[np.float32] | None = None
        """Both side by side, so that one message takes its rows once."""
        self._word_sums: dict[str, _WordSum] = {}
        if not head:
            return
        rows = sp.csr_matrix(
            sp.vstack([self._texts, self._matrix([prepare(text).split() for text in neutral])])
        )
        y = np.r_[training.tool, np.full(len(neutral), training.n_tools)]
        w = np.r_[training.weights, np.full(len(neutral), NEUTRAL_WEIGHT)]
        coefficients, self._bias = _kernel_head(np.asarray((rows @ rows.T).toarray()), y, w, self.n_tools + 1)
        self.weights = np.asarray(rows.T @ coefficients, dtype=np.float32)
        if self._dense is not None:
            self._table = np.hstack([self.weights, self._dense])
            self.weights = self._table[:, : self.n_tools + 1]
            self._dense = self._table[:, self.n_tools + 1 :]

    def _row(self, words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Feature numbers and values of a prepared text."""
        numbering, known = self._numbers, self._known
        found: list[int] = []
        for word in words:
            here = known.get(word)
            found += self._char_numbers(word) if here is None else here
        found += [numbering[key] for gram in word_grams(words) if (key := f"w{gram}") in numbering]
        # Lists, since a message has some dozens of features: an array costs more than they do.
        distinct = sorted(set(found))
        numbers = np.array(distinct, dtype=np.int64)
        values = self._idf.take(numbers)
        if len(distinct) < len(found):
            counts = Counter(found)
            values *= np.array([_COUNTED[counts[n]] for n in distinct])
        word_mask = self._word_mask.take(numbers)
        char_mask = 1.0 - word_mask
        squares = values * values
        by_word = WORD_SHARE / max(math.sqrt(squares @ word_mask), 1e-12)
        by_char = 1.0 / max(math.sqrt(squares @ char_mask), 1e-12)
        return numbers, values * (word_mask * by_word + char_mask * by_char)

    def _char_numbers(self, word: str) -> list[int]:
        here = [self._numbers[key] for gram in char_grams(word) if (key := f"c{gram}") in self._numbers]
        if len(self._known) < 200_000:
            self._known[word] = here
        return here

    def _matrix(self, prepared: Sequence[Sequence[str]]) -> Any:
        import scipy.sparse as sp

        found = [self._row(words) for words in prepared]
        bounds = np.cumsum([0, *(len(numbers) for numbers, _ in found)])
        numbers = np.concatenate([n for n, _ in found]) if found else np.empty(0, dtype=np.int64)
        values = np.concatenate([v for _, v in found]) if found else np.empty(0)
        return sp.csr_matrix((values, numbers, bounds), shape=(len(prepared), len(self._numbers)))

    def logits(self, messages: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return logits (n, n_tools + 1), 0 without a head, and the nearest text's character cosine (n,)."""
        found = np.zeros((len(messages), self.n_tools + 1))
        nearest = np.zeros(len(messages))
        if len(messages) == 1 and self._table is not None:
            found[0], nearest[0] = self.logits_of(messages[0])
            return found, nearest
        for i, message in enumerate(messages):
            numbers, values = self._row(self._prepare(message).split())
            if not len(numbers):
                found[i] = 0.0 if self.weights is None else self._bias
                continue
            if self.weights is not None:
                found[i] = values @ self.weights[numbers] + self._bias
            char = ~self._is_word[numbers]
            nearest[i] = self._nearest(numbers[char], values[char])
        return found, nearest

    def logits_of(self, message: str) -> tuple[NDArray[np.float64], float]:
        """Return :meth:`logits` of one message, (n_tools + 1,), and its nearest text's cosine.

        What a word's character n-grams add is kept by word, as if each came once: what comes again in
        other words is put right by 1 + ln(count) - count.
        """
        if self._table is None:
            logits, cosines = self.logits([message])
            return logits[0], float(cosines[0])
        words = self._prepare(message).split()
        sums = [self._word_sums.get(word) or self._word_sum(word) for word in words]
        width = self.n_tools + 1
        row = np.zeros(self._table.shape[1])
        char_squares, word_squares = 0.0, 0.0
        chars: list[int] = []
        for own in sums:
            if own.numbers:
                chars += own.numbers
                char_squares += own.squares
                row += own.row
        counts = Counter([self._numbers[key] for g in word_grams(words) if (key := f"w{g}") in self._numbers])
        numbers, values = list(counts), []
        for number, count in counts.items():
            value = _COUNTED[count] * self._idf_of[number]
            values.append(value)
            word_squares += value * value
        again = [item for item in Counter(chars).items() if item[1] > 1]
        factors = []
        for number, count in again:
            idf, weight = self._idf_of[number], _COUNTED[count]
            factors.append((weight - count) * idf)
            char_squares += (weight * weight - count) * idf * idf
        rows = self._table.take([*numbers, *(number for number, _ in again)], axis=0)
        if again:
            row += np.array(factors) @ rows[len(numbers) :]
        row /= max(math.sqrt(char_squares), 1e-12)
        logits = row[:width] + self._bias
        if numbers:
            by_word = WORD_SHARE / math.sqrt(word_squares)
            logits += by_word * (np.array(values) @ rows[: len(numbers), :width])
        return logits, float(row[width:].max()) if chars else 0.0

    def _word_sum(self, word: str) -> _WordSum:
        assert self._table is not None
        numbers = self._known[word] if word in self._known else self._char_numbers(word)
        idf = self._idf.take(numbers)
        found = _WordSum(numbers, float(idf @ idf), idf @ self._table.take(numbers, axis=0))
        if len(self._word_sums) * self._table.shape[1] > _WORD_CELLS:
            self._word_sums = {}
        self._word_sums[word] = found
        return found

    def _nearest(self, numbers: NDArray[np.int64], values: NDArray[np.float64]) -> float:
        if not len(numbers):
            return 0.0
        if self._dense is not None:
            return float((values @ self._dense[numbers]).max())
        part = self._by_feature
        spans = [slice(part.indptr[i], part.indptr[i + 1]) for i in numbers.tolist()]
        rows = np.concatenate([part.indices[span] for span in spans])
        if not len(rows):
            return 0.0
        sizes = part.indptr[numbers + 1] - part.indptr[numbers]
        amounts = np.concatenate([part.data[span] for span in spans]) * np.repeat(values, sizes)
        return float(np.bincount(rows, weights=amounts).max())


def _kernel_head(
    kernel: NDArray[np.float64], y: NDArray[np.int64], weights: NDArray[np.float64], n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients (n_texts, n_classes) on the texts' features, and biases."""
    if len(kernel) <= MAX_EIGEN:
        values, vectors = np.linalg.eigh(kernel)
        kept = (values > 1e-7 * values[-1]) & (np.arange(len(values)) >= len(values) - N_COMPONENTS)
        vectors = vectors[:, kept] / np.sqrt(values[kept])
        coefficients, biases = _logistic(kernel @ vectors, y, C_LEXICAL, weights, n_classes)
        return vectors @ coefficients, biases
    targets = np.eye(n_classes)[y] - 1.0 / n_classes
    solved: Any = np.linalg.solve(kernel + np.diag(1.0 / weights), targets)
    return 10.0 * solved, np.zeros(n_classes)


# --- embedding heads ---------------------------------------------------------------------------
# An encoder is shown text as people write it, dialect words written out: folding hamza or alef before
# it costs accuracy.


class EmbeddingHeads:
    """A multinomial and a Gaussian head on an encoder's vectors.

    Each text's vector loses the mean vector of its language (from the neutral sentences), so that
    messages and examples in different languages meet, and a share of the examples' own mean.
    """

    def __init__(self, training: TrainingTexts, neutral: Sequence[str], encode: Encode) -> None:
        self._encode = encode
        self._last: tuple[str, _Logits] | None = None
        pairs = SMALL_TALK + REQUESTS
        self._means = {
            language: np.asarray(encode([row[i] for row in pairs]), dtype=np.float64).mean(axis=0)
            for i, language in enumerate(LANGUAGES)
        }
        x = self.vectors(training.texts)
        examples = ~training.is_description
        source = x[examples] if examples.any() else x
        self._mean = CENTRED * source.mean(axis=0)
        self.texts = unit(x - self._mean)
        spare = unit(self.vectors(neutral) - self._mean)
        y = np.r_[training.tool, np.full(len(neutral), training.n_tools)]
        w = np.r_[training.weights, np.full(len(neutral), NEUTRAL_WEIGHT)]
        rows = np.concatenate([self.texts, spare])
        self._weights, self._bias = _logistic(rows, y, C_EMBEDDING, w, training.n_tools + 1)
        self._gaussian: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        if examples.any() and np.bincount(training.tool, minlength=training.n_tools).min() > 0:
            self._fit_gaussian(x, training, examples)

    def _fit_gaussian(
        self, x: NDArray[np.float64], training: TrainingTexts, examples: NDArray[np.bool_]
    ) -> None:
        """Linear discriminant analysis with the pooled within-tool scatter shrunk to a sphere."""
        self._example_mean = x[examples].mean(axis=0)
        described = ~examples
        means = np.where(
            examples[:, None], self._example_mean, x[described].mean(axis=0) if described.any() else 0
        )
        z = unit(x - means)
        n_tools = training.n_tools
        counts = np.bincount(training.tool, minlength=n_tools)[:, None]
        centres = np.zeros((n_tools, x.shape[1]))
        np.add.at(centres, training.tool, z)
        centres /= counts
        residuals = z - centres[training.tool]
        scatter = residuals.T @ residuals / max(1, len(z) - n_tools)
        d = len(scatter)
        level = float(np.trace(scatter)) / d
        if level <= 0:
            return
        shrunk = (1 - LDA_SHRINK) * scatter + LDA_SHRINK * level * np.eye(d)
        solved: Any = np.linalg.solve(shrunk, centres.T)
        weights: NDArray[np.float64] = solved * LDA_SHARPNESS * level
        self._gaussian = weights, -0.5 * (centres.T * weights).sum(axis=0)

    def vectors(self, messages: Sequence[str]) -> NDArray[np.float64]:
        """Return vectors (n, d) without their language's mean."""
        found = np.asarray(self._encode(messages), dtype=np.float64)
        means = np.stack([self._means[texts.guess_language(m)] for m in messages]) if messages else found
        return found - means

    def logits(self, messages: Sequence[str]) -> _Logits:
        """Return multinomial logits (n, n_tools + 1), Gaussian scores (n, n_tools), nearest cosine (n,)."""
        # The retriever and the selector ask for the same message in turn.
        last = self._last
        if len(messages) == 1 and last is not None and last[0] == messages[0]:
            return last[1]
        v = self.vectors(messages)
        q = unit(v - self._mean)
        gaussian = None
        if self._gaussian is not None:
            weights, bias = self._gaussian
            gaussian = unit(v - self._example_mean) @ weights + bias
        found = q @ self._weights + self._bias, gaussian, (q @ self.texts.T).max(axis=1)
        if len(messages) == 1:
            self._last = messages[0], found
        return found


def neutral_sentences() -> tuple[str, ...]:
    """Return the sentences that stand for "no tool", every language in turn."""
    return tuple(sentence for row in SMALL_TALK for sentence in row)
