"""Speed, as ratios measured in one run: ``python -m mono_router.lab.speed``.

Tools are generated: 25 words each, drawn by Zipf's law from a vocabulary of 20,000 words made of
syllables. Both sides of a ratio run in turn, each is warmed up, and medians are compared, so that a busy
machine slows both alike. bm25s does the same work on word features: texts in, the best 12 out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mono_router.catalog import Catalog
from mono_router.embedding import EmbeddingRetriever, FunctionEncoder, SentenceTransformerEncoder
from mono_router.lab.cases import load_cases
from mono_router.lexical import LexicalRetriever
from mono_router.records import Tool
from mono_router.router import Router
from mono_router.settings import Settings
from mono_router.text import identifier_words
from mono_router.vectors import VectorCache

K = 12
SIZES = (47, 1_000, 16_000, 100_000)
D = 384
"""Length of the generated vectors, as MiniLM's."""
WORDS_ALONE = Settings().replace({"lexical.char_ngrams": False})


def generated_words(n: int, *, seed: int = 0, n_vocabulary: int = 20_000) -> list[str]:
    """Return words by Zipf's law from a vocabulary of words of two to four syllables.

    >>> generated_words(3) == generated_words(3)
    True
    """
    rng = np.random.default_rng(1)
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in "aeiou"]
    vocabulary = ["".join(rng.choice(syllables, rng.integers(2, 5))) for _ in range(n_vocabulary)]
    shares = 1.0 / np.arange(10, n_vocabulary + 10)
    chosen = np.random.default_rng(seed).choice(n_vocabulary, n, p=shares / shares.sum())
    return [vocabulary[i] for i in chosen.tolist()]


def generated_tools(n_tools: int, *, n_words: int = 25, seed: int = 0) -> list[Tool]:
    """Return tools with a description of so many words."""
    words = generated_words(n_tools * n_words, seed=seed)
    return [
        Tool(id=f"t{i:06d}", description=" ".join(words[i * n_words : (i + 1) * n_words]))
        for i in range(n_tools)
    ]


def generated_messages(n: int, *, n_words: int = 10, seed: int = 7) -> list[str]:
    """Return messages of so many words of the same language."""
    words = generated_words(n * n_words, seed=seed)
    return [" ".join(words[i * n_words : (i + 1) * n_words]) for i in range(n)]


def seconds(*works: Callable[..., object], n: int) -> list[float]:
    """Return the median time of each work, called with 0 .. n - 1, the works in turn."""
    for work in works:
        work(0)
    spent = np.empty((n, len(works)))
    for i in range(n):
        for j, work in enumerate(works):
            start = time.perf_counter()
            work(i)
            spent[i, j] = time.perf_counter() - start
    return [float(value) for value in np.median(spent, axis=0)]


def tool_text(tool: Tool) -> str:
    """Return what bm25s indexes of a tool."""
    return f"{identifier_words(tool.id)} {tool.description}"


def bm25s_index(tools: Sequence[Tool]) -> Any:
    """Return a bm25s index of the tools."""
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize([tool_text(t) for t in tools], show_progress=False), show_progress=False)
    return index


def bm25s_query(n_tools: int) -> Callable[[int], object]:
    """Return a work that has bm25s find the best of generated tools for one of 200 messages."""
    import bm25s

    index, messages = bm25s_index(generated_tools(n_tools)), generated_messages(200)

    def query(i: int) -> object:
        tokens = bm25s.tokenize([messages[i % len(messages)]], show_progress=False)
        return index.retrieve(tokens, k=K, show_progress=False)

    return query


def lexical_rows(n_tools: int) -> list[tuple[str, float, str]]:
    """Ratios of query and index time to bm25s's, on words alone and by default."""
    tools = generated_tools(n_tools)
    catalog = Catalog(tools)
    messages = generated_messages(200 if n_tools < 50_000 else 60)
    builds: tuple[Callable[[int], Any], ...] = (
        lambda _: bm25s_index(tools),
        lambda _: LexicalRetriever(catalog, WORDS_ALONE),
        lambda _: LexicalRetriever(catalog),
    )
    words, default = (build(0) for build in builds[1:])
    peer = bm25s_query(n_tools)
    query = seconds(
        peer,
        lambda i: words.search(messages[i], K),
        lambda i: default.search(messages[i], K),
        n=len(messages),
    )
    build = seconds(*builds, n=3 if n_tools > 2_000 else 15)
    rows = []
    for kind, place, retriever in (("words", 1, words), ("default", 2, default)):
        stored = retriever.postings
        n_bytes = (stored.data.nbytes + stored.indices.nbytes + stored.indptr.nbytes) / n_tools
        ms = f"{query[place] * 1e3:.3f} ms against {query[0] * 1e3:.3f} ms"
        rows.append((f"lexical query, {kind}, {n_tools} tools / bm25s", query[place] / query[0], ms))
        note = f"{build[place]:.3f} s against {build[0]:.3f} s; {n_bytes:.0f} bytes of postings a tool"
        rows.append((f"lexical index, {kind}, {n_tools} tools / bm25s", build[place] / build[0], note))
    return rows


def length_rows(n_tools: int) -> list[tuple[str, float, str]]:
    """Ratios of the time a character takes in a message of 20,000 to that in a short one."""
    catalog = Catalog(generated_tools(n_tools))
    retriever, router = LexicalRetriever(catalog), Router(catalog)
    short = generated_messages(41)
    works: dict[str, Callable[[str], object]] = {
        "search": lambda message: retriever.search(message, K),
        "route": router.route,
    }
    rows = []
    for name, work in works.items():
        for kind, long in long_messages().items():
            spent = seconds(
                lambda i, w=work: w(short[i]), lambda i, w=work, m=long: w(f"{m[:-2]}{i:02}"), n=len(short)
            )
            ratio = (spent[1] / len(long)) / (spent[0] / len(short[0]))
            note = f"{spent[1] * 1e3:.1f} ms against {spent[0] * 1e3:.2f} ms"
            rows.append((f"{name}, 20,000 characters ({kind}) / short, a character", ratio, note))
    return rows


def long_messages() -> dict[str, str]:
    """Messages of 20,000 characters: words, one word, spaces, punctuation."""
    words = " ".join(generated_words(4_000, seed=3))
    found = {"words": words, "one word": "ab" * 10_000, "spaces": " " * 20_000, "marks": "?!., " * 4_000}
    return {kind: ("hello " + text)[:20_000] for kind, text in found.items()}


def route_rows(data: Path, model: str | None) -> list[tuple[str, float, str]]:
    """Messages a second on massive, and the encoder's share of the time."""
    catalog = Catalog.load(data).with_examples(limit=3, language="en")
    messages = [case.message for case in load_cases(data, language="en")][:400]
    router = Router(catalog)
    alone, peer = seconds(lambda i: router.route(messages[i]), bm25s_query(47), n=len(messages))
    note = f"{len(catalog)} tools, {1.0 / alone:.0f} messages a second here"
    rows = [("route without an encoder / bm25s query of 47 tools", alone / peer, note)]
    if model is not None:
        encoder = TimedEncoder(model)
        router = Router(catalog, retriever=EmbeddingRetriever(catalog, encoder, cache=None))
        for message in messages[-20:]:
            router.route(message)
        encoder.spent, start = 0.0, time.process_time()
        for message in messages[:100]:
            router.route(message)
        total = time.process_time() - start
        note = f"{(total - encoder.spent) * 10:.2f} ms of {total * 10:.2f} ms are not the encoder's"
        rows.append(("route with the encoder, its share of the time", encoder.spent / total, note))
    return rows


class TimedEncoder(SentenceTransformerEncoder):
    """An encoder that adds up the processor time that it takes."""

    spent = 0.0
    """Seconds."""

    def encode(
        self, texts: Sequence[str], kind: Literal["query", "passage"] = "passage"
    ) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return float32 (n_texts, d), rows of length 1."""
        start = time.process_time()
        found = super().encode(texts, kind)
        self.spent += time.process_time() - start
        return found


def generated_vectors(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return vectors that cost little: seeded by the text."""
    rng = np.random.default_rng(len(texts) + sum(map(ord, texts[0])))
    return rng.standard_normal((len(texts), D), dtype=np.float32)


def embedding_rows(n_tools: int) -> list[tuple[str, float, str]]:
    """Search against one float32 product, loading, and what one changed tool encodes."""
    tools = generated_tools(n_tools, n_words=8)
    messages = generated_messages(64)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        encoder = FunctionEncoder("generated", generated_vectors)
        retriever = EmbeddingRetriever(Catalog(tools), encoder, cache=folder)
        retriever.trust_of(messages)
        queries = retriever.encode(messages).astype(np.float32)
        vectors = generated_vectors([str(i) for i in range(n_tools)])
        works: dict[tuple[int, str], Callable[[list[str]], object]] = {
            (64, "scores of 64 messages"): retriever.scores,
            (64, "search of 64 messages"): lambda part: retriever.search_many(part, K),
            (1, "search of 1 message"): lambda part: retriever.search(part[0], K),
        }
        for (n, what), work in works.items():
            spent = seconds(
                lambda _, n=n: vectors @ queries[:n].T, lambda _, n=n, w=work: w(messages[:n]), n=9
            )
            note = f"{spent[1] * 1e3:.0f} ms against {spent[0] * 1e3:.0f} ms"
            rows.append((f"{what}, {n_tools} tools / float32 product", spent[1] / spent[0], note))
        retriever.cache.flush()
        changed = [*tools[:-1], Tool(id=tools[-1].id, description="something else")]
        start = time.perf_counter()
        again = EmbeddingRetriever(Catalog(changed), encoder, cache=folder)
        spent_all = time.perf_counter() - start
        note = f"of this one tool; index of all in {spent_all:.1f} s"
        rows.append(("texts encoded after one tool changed", float(again.cache.n_encoded), note))
    with tempfile.TemporaryDirectory() as folder:
        cache = VectorCache(encoder, folder)
        cache.encode([tool.description + tool.id for tool in tools], "passage")
        cache.flush()
        (load,) = seconds(lambda _: VectorCache(encoder, folder), n=3)
        rows.append((f"loading {n_tools} x {D} vectors from disk, seconds", load, ""))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/massive"))
    parser.add_argument("--model", help="a sentence-transformers model or folder, for the encoder's share")
    parser.add_argument("--parts", nargs="+", default=["lexical", "length", "route", "embedding"])
    given = parser.parse_args()
    for part in given.parts:
        if part == "lexical":
            tables = map(lexical_rows, SIZES)
        elif part == "length":
            tables = map(length_rows, [60])
        elif part == "route":
            tables = map(route_rows, [given.data], [given.model])
        else:
            tables = map(embedding_rows, [100_000])
        for name, value, note in chain.from_iterable(tables):
            print(f"{name:<62} {value:10.3f}  {note}", flush=True)


if __name__ == "__main__":
    main()
