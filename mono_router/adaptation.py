"""Adaptation: an encoder that learns a catalog's own tools from the catalog's own texts.

A sentence-transformers encoder and a catalog with examples go in, a tuned copy of the encoder comes out
in which texts of one tool lie closer together than texts of different tools. Nothing is labelled and no
case is seen: the texts are the ones that the heads learn from (see :mod:`mono_router.heads`). The copy
carries an id over its base, texts, recipe and weights, so that cached vectors are never mixed.

The method is supervised contrastive learning (Khosla et al. 2020, equation 2) over few examples a class
as in SetFit (Tunstall et al. 2022). Token embeddings stay as they are: few texts touch few of them.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router.catalog import Catalog
from mono_router.dialects import written_arabic
from mono_router.embedding import SentenceTransformerEncoder
from mono_router.heads import training_texts
from mono_router.records import Encoder, digest

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

RECORD = "adaptation.json"
"""File beside the saved model that says what it was tuned on."""
_SCHEMA = 1
_WARM = 0.1
"""Share of the steps in which the learning rate rises; over the rest it falls to 0."""
_EXCLUDED = -1e9
"""Logit of a text against itself: finite, so that a batch of one text has a gradient."""
_WEIGHT_DECAY, _MOST_GRADIENT = 0.01, 1.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How an encoder is tuned; the defaults were chosen on dev of clinc150, banking77 and massive (en)."""

    learning_rate: float = 5e-5
    """Highest learning rate of AdamW."""
    epochs: int = 5
    """Passes over the texts."""
    temperature: float = 0.05
    """Of the softmax over cosines in a batch."""
    batch_size: int = 64
    """Texts a step, whole tools side by side."""
    seed: int = 0
    """Of the order of tools and of dropout."""

    def __post_init__(self) -> None:
        for name, least in (("learning_rate", 0.0), ("temperature", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > least):
                raise ValueError(f"{name} must be > {least:g}, got {value!r}")
        for name, fewest in (("epochs", 1), ("batch_size", 2), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < fewest:
                raise ValueError(f"{name} must be an integer >= {fewest}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """What an encoder was tuned on."""

    base: str
    """Id of the encoder before."""
    texts: str
    """Hash of the texts and which of them stand for one tool; the texts themselves are not kept."""
    recipe: Recipe
    weights: str
    """Hash of the weights after."""


class TunedEncoder(SentenceTransformerEncoder):
    """An encoder that :func:`adapt` made, or that was loaded from a folder.

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
            adaptation = Adaptation(**{**record, "recipe": Recipe(**record["recipe"])})
        except FileNotFoundError:
            raise ValueError(f"{path} must be there: {folder} is no saved TunedEncoder") from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(f"{path} must be the record of a TunedEncoder, schema {_SCHEMA}") from None
        model = SentenceTransformerEncoder(folder, device=device)._model
        if weights_hash(model) != adaptation.weights:
            raise ValueError(f"{folder} must hold the weights that {RECORD} names, got others")
        return cls(model, adaptation)


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
    if not isinstance(encoder, SentenceTransformerEncoder):
        raise TypeError(
            f"encoder must be a SentenceTransformerEncoder to adapt, got {type(encoder).__name__}"
        )
    recipe = recipe or Recipe()
    training = training_texts(catalog)
    if not training.exemplified:
        n_said = len(np.unique(training.tool[~training.is_description]))
        raise ValueError(
            "catalog must have an example or a hint for half of its tools to adapt to, "
            f"got {n_said} of {training.n_tools}"
        )
    import torch

    messages = [written_arabic(text) for text in training.texts]  # as the retriever shows them
    model = copy.deepcopy(encoder._model).float()
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        _tune(model, messages, training.tool, recipe, progress=progress)
    adaptation = Adaptation(
        base=encoder.id,
        texts=digest([list(pair) for pair in zip(messages, training.tool.tolist(), strict=True)]),
        recipe=recipe,
        weights=weights_hash(model),
    )
    return TunedEncoder(model, adaptation)


def _tune(
    model: SentenceTransformer,
    messages: list[str],
    tool: NDArray[np.int64],
    recipe: Recipe,
    *,
    progress: bool,
) -> None:
    """Tune a model in place."""
    import torch
    from tqdm.auto import tqdm

    frozen = {name: "embeddings." in name for name, _ in model.named_parameters()}
    trained = [p for name, p in model.named_parameters() if not frozen[name]]
    if not trained:
        raise ValueError("encoder must have layers above its token embeddings to adapt, got none")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not frozen[name])
    n_steps = math.ceil(len(messages) / recipe.batch_size)
    total = n_steps * recipe.epochs
    optimizer = torch.optim.AdamW(trained, lr=recipe.learning_rate, weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (_WARM * total)) * (1.0 - step / total)
    )
    random = np.random.default_rng(recipe.seed)
    rows = [np.flatnonzero(tool == number) for number in np.unique(tool)]
    prompt = model.prompts.get("query") or None
    model.train()
    with tqdm(total=total, desc="adapt", unit="step", leave=False, disable=not progress) as bar:
        for _ in range(recipe.epochs):
            order = np.concatenate([rows[i] for i in random.permutation(len(rows))])
            for part in np.array_split(order, n_steps):
                features = model.preprocess([messages[i] for i in part.tolist()], prompt=prompt)
                features = {
                    key: value.to(model.device) if isinstance(value, torch.Tensor) else value
                    for key, value in features.items()
                }
                vectors = torch.nn.functional.normalize(model(features)["sentence_embedding"], dim=1)
                loss = contrastive_loss(vectors, torch.as_tensor(tool[part]), recipe.temperature)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(trained, _MOST_GRADIENT)
                optimizer.step()
                schedule.step()
                bar.update()
    optimizer.zero_grad()
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
