"""Tuned encoders: one that learns a catalog's own tools, one that learns what tools are from other catalogs.

A sentence-transformers encoder goes in, a tuned copy comes out in which texts of one tool lie closer
together than texts of different tools. :func:`adapt` learns from the texts of the catalog itself: nothing
is labelled and no case is seen, the texts are the ones that the heads learn from (see
:mod:`mono_router.heads`). :func:`pretrain` learns from other catalogs with labelled messages, once for all
catalogs to come; one may follow the other. The copy carries an id over its base, texts, recipe and
weights, so that cached vectors are never mixed, and the ids of the cases that it saw, so that evaluating
on them is refused.

The method is supervised contrastive learning (Khosla et al. 2020, equation 2), over few examples a class
as in SetFit (Tunstall et al. 2022), over many intents of others as in IntentBERT (Zhang et al. 2021).
Token embeddings stay as they are: few texts touch few of them.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mono_router.catalog import Catalog
from mono_router.dialects import written_arabic
from mono_router.embedding import SentenceTransformerEncoder
from mono_router.heads import TrainingTexts, training_texts
from mono_router.records import Case, Encoder, digest, fitted_on

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

RECORD = "adaptation.json"
"""File beside the saved model that says what it was tuned on."""
_SCHEMA = 2
_WARM = 0.1
"""Share of the steps in which the learning rate rises; over the rest it falls to 0."""
_EXCLUDED = -1e9
"""Logit of a text against itself: finite, so that a batch of one text has a gradient."""
_WEIGHT_DECAY, _MOST_GRADIENT = 0.01, 1.0
_MOST_TOKENS = 64
"""Longer texts are cut while the encoder is tuned: few are, and they cost the most."""


@dataclass(frozen=True, kw_only=True)
class _Training:
    """What every recipe has."""

    _least: ClassVar[Mapping[str, int]]
    """Least value of each whole number."""

    learning_rate: float
    """Highest learning rate of AdamW."""
    temperature: float = 0.05
    """Of the softmax over cosines in a batch."""
    batch_size: int = 64
    """Texts a step, at most."""
    seed: int = 0
    """Of the order of what is drawn and of dropout."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "temperature"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be > 0, got {value!r}")
        for name, fewest in self._least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < fewest:
                raise ValueError(f"{name} must be an integer >= {fewest}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Recipe(_Training):
    """How an encoder is tuned; the defaults were chosen on dev of clinc150, banking77 and massive (en)."""

    _least: ClassVar[Mapping[str, int]] = {"epochs": 1, "batch_size": 2, "seed": 0}

    learning_rate: float = 5e-5
    """Highest learning rate of AdamW."""
    epochs: int = 5
    """Passes over the texts, whole tools side by side."""


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe(_Training):
    """How an encoder is pretrained; the defaults were chosen on dev of sets that were left out."""

    _least: ClassVar[Mapping[str, int]] = {"steps": 1, "batch_size": 4, "tools": 2, "seed": 0}

    learning_rate: float = 3e-5
    """Highest learning rate of AdamW."""
    steps: int = 800
    """Batches; each comes from one set, drawn by the square root of how many texts share a tool in it."""
    tools: int = 24
    """Tools a step, at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if 2 * self.tools > self.batch_size:
            raise ValueError(f"tools must be <= batch_size / 2, got {self.tools} of {self.batch_size}")


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """What an encoder was tuned on."""

    base: str
    """Id of the encoder before."""
    texts: str
    """Hash of the texts and which of them stand for one tool; the texts themselves are not kept."""
    recipe: Recipe | PretrainRecipe
    weights: str
    """Hash of the weights after."""
    cases: tuple[str, ...] = ()
    """Ids of the labelled cases that it or its base saw, sorted."""


class TunedEncoder(SentenceTransformerEncoder):
    """An encoder that :func:`adapt` or :func:`pretrain` made, or that was loaded from a folder.

    Parameters
    ----------
    model
        The tuned sentence-transformers model.
    adaptation
        What it was tuned on.
    """

    def __init__(self, model: SentenceTransformer, adaptation: Adaptation) -> None:
        self._model = model
        self.adaptation = adaptation
        self._id = f"{adaptation.base}+{digest(dataclasses.asdict(adaptation))[7:23]}"
        self.fitted_on: frozenset[str] = frozenset(adaptation.cases)

    def save(self, folder: str | Path) -> None:
        """Write the model, as sentence-transformers saves it, and what it was tuned on."""
        self._model.save(str(folder), create_model_card=False)
        record = {"schema": _SCHEMA, **dataclasses.asdict(self.adaptation)}
        (Path(folder) / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> TunedEncoder:
        """Return the encoder that was saved in a folder.

        Raises
        ------
        ValueError
            If the folder holds no such record, or weights other than the recorded ones.
        """
        path = Path(folder) / RECORD
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record.pop("schema") != _SCHEMA:
                raise ValueError("schema")
            kind = PretrainRecipe if "steps" in record["recipe"] else Recipe
            cases = tuple(map(str, record["cases"]))
            adaptation = Adaptation(**{**record, "recipe": kind(**record["recipe"]), "cases": cases})
        except FileNotFoundError:
            raise ValueError(f"{path} must be there: {folder} is no saved TunedEncoder") from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(f"{path} must be the record of a TunedEncoder, schema {_SCHEMA}") from None
        model = SentenceTransformerEncoder(folder, device=device)._model
        if weights_hash(model) != adaptation.weights:
            raise ValueError(f"{folder} must hold the weights that {RECORD} names, got others")
        return cls(model, adaptation)


def saved_encoder(name_or_path: str | Path, *, device: str | None = None) -> SentenceTransformerEncoder:
    """Return the :class:`TunedEncoder` that a folder holds, or else the model of this name or folder.

    Raises
    ------
    ImportError
        If sentence-transformers is not installed.
    ValueError
        If a record is there that cannot be read.
    """
    if (Path(name_or_path) / RECORD).is_file():
        return TunedEncoder.load(name_or_path, device=device)
    return SentenceTransformerEncoder(name_or_path, device=device)


def adapt(
    encoder: Encoder,
    catalog: Catalog,
    *,
    recipe: Recipe | None = None,
    progress: bool = True,
) -> TunedEncoder:
    """Return a copy of an encoder, tuned on the examples, hints and descriptions of a catalog.

    The same encoder, catalog and recipe give the same weights on one machine with one number of threads.
    The global random state is left as it was. It pays on some catalogs and does nothing on others: the
    benchmark's ``--adapt`` measures it. The selector's level of "no tool" is then learned from texts that
    the encoder has seen, so thresholds and a Calibrator are to be fitted anew.

    Parameters
    ----------
    encoder
        Stays as it is.
    catalog
        At least half of its tools need an example or a hint: one text has nothing to lie close to.
    recipe
        Default: ``Recipe()``.
    progress
        Whether a bar is drawn.

    Raises
    ------
    TypeError
        If the encoder is no sentence-transformers model.
    ValueError
        If the catalog has too few examples, or the model has nothing above its token embeddings.

    >>> from mono_router.embedding import LightEncoder
    >>> adapt(LightEncoder(), Catalog([]))
    Traceback (most recent call last):
    TypeError: encoder must be a SentenceTransformerEncoder to adapt, got LightEncoder
    """
    base = _trainable(encoder, "adapt")
    recipe = recipe or Recipe()
    training = training_texts(catalog)
    if not training.exemplified:
        n_said = len(np.unique(training.tool[~training.is_description]))
        raise ValueError(
            "catalog must have an example or a hint for half of its tools to adapt to, "
            f"got {n_said} of {training.n_tools}"
        )
    given = _Texts.of(training)
    return _tuned(base, [given], list(_epochs(given, recipe)), recipe, (), bar="adapt", progress=progress)


def pretrain(
    encoder: Encoder,
    sets: Iterable[tuple[Catalog, Iterable[Case]]],
    *,
    recipe: PretrainRecipe | None = None,
    progress: bool = True,
) -> TunedEncoder:
    """Return a copy of an encoder, tuned on the texts and labelled cases of catalogs.

    It learns which differences between two messages tell tools apart, and is meant for catalogs that it
    has not seen: the benchmark's ``--pretrain`` measures it on each set with that set, and every set made
    from the same source, left out. The same encoder, sets and recipe give the same weights on one machine
    with one number of threads. The global random state is left as it was.

    Parameters
    ----------
    encoder
        Stays as it is.
    sets
        Catalogs, each with cases whose messages stand for the one tool that they expect. Cases that expect
        none or several, or whose label is only sure within ``candidate_tools``, are passed over. Ids of
        cases are kept, in ``fitted_on``, and evaluating on these cases is refused.
    recipe
        Default: ``PretrainRecipe()``.
    progress
        Whether a bar is drawn.

    Raises
    ------
    TypeError
        If the encoder is no sentence-transformers model.
    ValueError
        If no set has two tools with two texts each, or the model has nothing above its token embeddings.

    >>> from mono_router.embedding import LightEncoder
    >>> pretrain(LightEncoder(), [])
    Traceback (most recent call last):
    TypeError: encoder must be a SentenceTransformerEncoder to pretrain, got LightEncoder
    """
    base = _trainable(encoder, "pretrain")
    recipe = recipe or PretrainRecipe()
    given, seen = [], []
    for catalog, cases in sets:
        used = [c for c in cases if len(c.expected_tools) == 1 and c.candidate_tools is None]
        training = training_texts(catalog, used)
        texts = _Texts.of(training)
        if len(texts.rows) > 1:
            given.append(texts)
            seen += [case.id for case in used]
    if not given:
        raise ValueError("sets must hold a catalog with two texts for each of two tools to pretrain on")
    batches = list(_drawn(given, recipe))
    return _tuned(base, given, batches, recipe, seen, bar="pretrain", progress=progress)


@dataclass(frozen=True)
class _Texts:
    """Texts as the retriever shows them, with the tool each stands for."""

    texts: list[str]
    tool: NDArray[np.int64]

    @classmethod
    def of(cls, training: TrainingTexts) -> _Texts:
        return cls([written_arabic(text) for text in training.texts], training.tool)

    @cached_property
    def by_tool(self) -> list[NDArray[np.intp]]:
        """Places of each tool's texts."""
        return [np.flatnonzero(self.tool == number) for number in np.unique(self.tool)]

    @cached_property
    def rows(self) -> list[NDArray[np.intp]]:
        """The same, of the tools that have several."""
        return [row for row in self.by_tool if len(row) > 1]

    def batch(self, part: NDArray[np.intp]) -> _Batch:
        """The texts at these places."""
        return [self.texts[i] for i in part.tolist()], self.tool[part]


_Batch = tuple[list[str], "NDArray[np.int64]"]
"""Texts and their tools."""


def _epochs(given: _Texts, recipe: Recipe) -> Iterator[_Batch]:
    """Every text once an epoch, whole tools side by side."""
    random = np.random.default_rng(recipe.seed)
    n_steps = math.ceil(len(given.texts) / recipe.batch_size)
    for _ in range(recipe.epochs):
        order = np.concatenate([given.by_tool[i] for i in random.permutation(len(given.by_tool))])
        for part in np.array_split(order, n_steps):
            yield given.batch(part)


def _drawn(given: Sequence[_Texts], recipe: PretrainRecipe) -> Iterator[_Batch]:
    """A few texts of each of some tools of one set."""
    random = np.random.default_rng(recipe.seed)
    shares = np.sqrt([sum(map(len, own.rows)) for own in given])
    shares /= shares.sum()
    for _ in range(recipe.steps):
        own = given[int(random.choice(len(given), p=shares))]
        tools = random.choice(len(own.rows), min(recipe.tools, len(own.rows)), replace=False)
        each = recipe.batch_size // len(tools)
        drawn = [random.choice(own.rows[i], min(each, len(own.rows[i])), replace=False) for i in tools]
        yield own.batch(np.concatenate(drawn))


def _trainable(encoder: Encoder, verb: str) -> SentenceTransformerEncoder:
    if not isinstance(encoder, SentenceTransformerEncoder):
        raise TypeError(
            f"encoder must be a SentenceTransformerEncoder to {verb}, got {type(encoder).__name__}"
        )
    return encoder


def _tuned(
    encoder: SentenceTransformerEncoder,
    given: Sequence[_Texts],
    batches: Sequence[_Batch],
    recipe: Recipe | PretrainRecipe,
    seen: Iterable[str],
    *,
    bar: str,
    progress: bool,
) -> TunedEncoder:
    """A copy of the encoder after these batches."""
    import torch

    model = copy.deepcopy(encoder._model).float()
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        _train(model, batches, recipe, bar=bar, progress=progress)
    pairs = [[list(pair) for pair in zip(own.texts, own.tool.tolist(), strict=True)] for own in given]
    adaptation = Adaptation(
        base=encoder.id,
        texts=digest(pairs),
        recipe=recipe,
        weights=weights_hash(model),
        cases=tuple(sorted({*fitted_on(encoder), *seen})),
    )
    return TunedEncoder(model, adaptation)


def _train(
    model: SentenceTransformer,
    batches: Sequence[_Batch],
    recipe: Recipe | PretrainRecipe,
    *,
    bar: str,
    progress: bool,
) -> None:
    """Tune a model in place."""
    import torch
    from tqdm.auto import tqdm

    frozen = {name: "embeddings." in name for name, _ in model.named_parameters()}
    trained = [p for name, p in model.named_parameters() if not frozen[name]]
    if not trained:
        raise ValueError(f"encoder must have layers above its token embeddings to {bar}, got none")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not frozen[name])
    total = len(batches)
    optimizer = torch.optim.AdamW(trained, lr=recipe.learning_rate, weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (_WARM * total)) * (1.0 - step / total)
    )
    prompt = model.prompts.get("query") or None
    longest = model.max_seq_length
    model.max_seq_length = min(longest or _MOST_TOKENS, _MOST_TOKENS)
    model.train()
    for messages, tool in tqdm(batches, desc=bar, unit="step", leave=False, disable=not progress):
        features = model.preprocess(messages, prompt=prompt)
        features = {
            key: value.to(model.device) if isinstance(value, torch.Tensor) else value
            for key, value in features.items()
        }
        vectors = torch.nn.functional.normalize(model(features)["sentence_embedding"], dim=1)
        loss = contrastive_loss(vectors, torch.as_tensor(tool), recipe.temperature)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(trained, _MOST_GRADIENT)
        optimizer.step()
        schedule.step()
    optimizer.zero_grad()
    model.max_seq_length = longest
    model.requires_grad_(True)
    model.eval()


def contrastive_loss(vectors: Tensor, tool: Tensor, temperature: float) -> Tensor:
    """Return the supervised contrastive loss of unit vectors (n, d), 0 where no two share a tool.

    For each text that has another of its tool in the batch: the mean negative log-probability of those
    others under a softmax over the cosines with all texts but itself.

    >>> import torch
    >>> round(float(contrastive_loss(torch.eye(3), torch.tensor([0, 0, 1]), 0.05)), 4)
    0.6931
    """
    import torch

    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    tool = tool.to(vectors.device)
    likeness = (vectors @ vectors.T / temperature).masked_fill(itself, _EXCLUDED)
    shares = likeness - torch.logsumexp(likeness, dim=1, keepdim=True)
    same = (tool[:, None] == tool[None, :]) & ~itself
    counts = same.sum(dim=1)
    means = (shares * same).sum(dim=1) / counts.clamp(min=1)
    return means[counts > 0].sum().neg() / (counts > 0).sum().clamp(min=1)


def weights_hash(model: Any) -> str:
    """Return a hash of the weights of a torch module, by name."""
    import torch

    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        found.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return "sha256:" + found.hexdigest()
