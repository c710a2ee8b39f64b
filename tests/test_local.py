"""The local selector and its heads, each against its slow definition, and the calibrator on top."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.dialects import written_arabic
from mono_router.embedding import EmbeddingRetriever, FunctionEncoder
from mono_router.heads import (
    C_LEXICAL,
    NEUTRAL_WEIGHT,
    WORD_SHARE,
    LexicalHead,
    TrainingTexts,
    _logistic,
    log_softmax,
    training_texts,
)
from mono_router.lab.evaluation import evaluate
from mono_router.local import EXACT_ODDS, LocalSelector
from mono_router.records import SCORE_DECIMALS, Case, Example, Query, Tool
from mono_router.router import Router
from mono_router.settings import Settings

MESSAGES = (
    "can I move my haircut to friday",
    "cuánto cuesta la manicura",
    "عايز الغي ميعاد المساج",
    "who is the president",
    "hello",
)


def queries(*messages: str) -> list[Query]:
    return [Query(message=message) for message in messages]


# --- heads ---------------------------------------------------------------------------------------

TEXTS = st.lists(st.text("abcأبé ", max_size=14), min_size=1, max_size=8)


def training_of(texts: list[str], tools: list[int] | None = None) -> TrainingTexts:
    tool = np.array(tools if tools is not None else [0] * len(texts), dtype=np.int64)
    nothing = np.zeros(len(texts), dtype=bool)
    return TrainingTexts(tuple(texts), tool, nothing, np.zeros(len(texts), np.int64), int(tool.max()) + 1)


def by_scikit_learn(texts: list[str], asked: list[str]) -> dict[str, np.ndarray]:
    """Feature name to its values (n_asked,) as TfidfVectorizer makes them, words scaled."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    options = {"sublinear_tf": True, "lowercase": False, "dtype": np.float64}
    families = {
        "c": TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), **options),
        "w": TfidfVectorizer(tokenizer=str.split, token_pattern=None, ngram_range=(1, 2), **options),
    }
    found = {}
    for family, vectorizer in families.items():
        vectorizer.fit(texts)
        values = vectorizer.transform(asked).toarray() * (WORD_SHARE if family == "w" else 1.0)
        found |= {f"{family}{name}": values[:, i] for name, i in vectorizer.vocabulary_.items()}
    return found


@given(TEXTS.filter(lambda texts: any(text.strip() for text in texts)), TEXTS)
def test_features_are_those_of_scikit_learn(texts: list[str], others: list[str]) -> None:
    """Character and word n-grams weigh what TfidfVectorizer gives them, on fitted texts and on others."""
    head = LexicalHead(training_of(texts), (), str, head=False)
    asked = [*texts, *others]
    expected = by_scikit_learn(texts, asked)
    assert set(head._numbers) == set(expected)
    found = head._matrix([text.split() for text in asked]).toarray()
    for name, number in head._numbers.items():
        np.testing.assert_allclose(found[:, number], expected[name], atol=1e-12, err_msg=name)


@given(TEXTS.filter(lambda texts: any(text.strip() for text in texts)), TEXTS)
def test_nearest_is_the_best_character_cosine(texts: list[str], others: list[str]) -> None:
    """The nearest text is the one with the highest cosine of character n-grams."""
    head = LexicalHead(training_of(texts), (), str, head=False)
    names = [name for name in head._numbers if name[0] == "c"]
    values = by_scikit_learn(texts, [*texts, *others])
    rows = np.stack([values[name] for name in names], axis=1)
    known, asked = rows[: len(texts)], rows[len(texts) :]
    np.testing.assert_allclose(head.logits(others)[1], (asked @ known.T).max(axis=1), atol=1e-6)


def test_the_lexical_head_is_a_logistic_regression() -> None:
    """Fitting on the kernel gives what a regression on the features themselves gives."""
    from sklearn.linear_model import LogisticRegression

    texts = ["book a table", "reserve a table", "cancel it", "please cancel", "the price", "how much is it"]
    neutral = ("who wrote this", "how tall is it")
    training = training_of(texts, [0, 0, 1, 1, 2, 2])
    head = LexicalHead(training, neutral, str, head=True)
    rows = head._matrix([text.split() for text in (*texts, *neutral)]).toarray()
    weights = [1.0] * len(texts) + [NEUTRAL_WEIGHT] * len(neutral)
    model = LogisticRegression(C=C_LEXICAL, max_iter=5000, tol=1e-9)
    model.fit(rows, [*training.tool.tolist(), 3, 3], sample_weight=weights)
    asked = ["cancel the table", "price of it", "unknown words"]
    expected = model.predict_log_proba(head._matrix([text.split() for text in asked]).toarray())
    np.testing.assert_allclose(log_softmax(head.logits(asked)[0]), expected, atol=5e-3)


@given(TEXTS)
def test_a_message_alone_has_the_logits_it_has_among_others(others: list[str]) -> None:
    """Sums that are kept by word give what the features themselves give, words said twice included."""
    texts = ["book a table", "reserve a table", "cancel it", "please cancel", "the price", "how much is it"]
    head = LexicalHead(training_of(texts, [0, 0, 1, 1, 2, 2]), ("who wrote this",), str, head=True)
    for message in [*others, "table a table banana cancel cancel", "zzz", " "]:
        logits, nearest = head.logits([message, ""])
        one, cosine = head.logits_of(message)
        np.testing.assert_allclose(one, logits[0], rtol=0, atol=1e-12)
        assert cosine == pytest.approx(nearest[0], abs=1e-12)


def test_two_classes_are_no_special_case() -> None:
    """scikit-learn keeps one row of weights for two classes; probabilities come out the same."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 3)), np.arange(20) % 2 * 2  # classes 0 and 2 of three
    weights, bias = _logistic(x, y, 10.0, np.ones(20), 3)
    expected = LogisticRegression(C=10.0, max_iter=300, tol=1e-4).fit(x, y).predict_log_proba(x)
    np.testing.assert_allclose(log_softmax(x @ weights + bias)[:, [0, 2]], expected, atol=1e-9)


def test_training_texts_take_each_text_once() -> None:
    """Description, hints, examples and labelled messages stand for a tool, a repeated one once."""
    tool = Tool(id="a", description="first", hints=("go", "go"), examples=(Example(message="go"),))
    cases = [
        Case(id="1", message="now", expected_tools=("a",)),
        Case(id="2", message="both", expected_tools=("a", "b")),
    ]
    found = training_texts(Catalog([tool, Tool(id="b", description="second")]), cases)
    assert [text for text, own in zip(found.texts, found.tool, strict=True) if own == 0][1:] == ["go", "now"]
    assert found.is_description.sum() == 2


# --- log-odds ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def selector(booking_router: Router) -> LocalSelector:
    return booking_router.selector


def test_order_of_the_catalog_changes_nothing(booking: Catalog, selector: LocalSelector) -> None:
    """A catalog that is given backwards gives the same log-odds, to the last of their decimals."""
    backwards = Catalog(list(booking)[::-1], booking.skills.values())
    assert backwards.ids == booking.ids
    found = LocalSelector(backwards).scores(queries(*MESSAGES))
    np.testing.assert_array_equal(found, selector.scores(queries(*MESSAGES)))


@pytest.mark.parametrize("with_encoder", [False, True], ids=["words", "encoder"])
def test_single_equals_batch(booking: Catalog, selector: LocalSelector, with_encoder: bool) -> None:
    """A message has the same log-odds alone, among others, and in any order."""
    if with_encoder:
        selector = LocalSelector(booking, encoder=oracle(booking))
    batch = selector.scores(queries(*MESSAGES))
    np.testing.assert_array_equal(batch, batch.round(SCORE_DECIMALS))
    np.testing.assert_array_equal(selector.scores(queries(*MESSAGES[::-1])), batch[::-1])
    for message, row in zip(MESSAGES, batch, strict=True):
        np.testing.assert_array_equal(selector.scores(queries(message))[0], row)


def test_an_exact_example_is_all_but_sure(booking: Catalog, selector: LocalSelector) -> None:
    """A message that is an example or a hint of a tool has at least EXACT_ODDS for it."""
    said = {
        text: column
        for column, tool in enumerate(booking)
        for text in (*tool.hints, *(example.message for example in tool.examples))
    }
    scores = selector.scores(queries(*said))
    assert (scores[np.arange(len(said)), list(said.values())] >= EXACT_ODDS).all()


@pytest.mark.parametrize("message", ["", " ", "\n\t"], ids=["empty", "space", "line break"])
def test_an_empty_message_wants_no_tool(booking: Catalog, selector: LocalSelector, message: str) -> None:
    """Nothing said is nothing wanted, and the selector is sure of it."""
    answer = selector.select(Query(message=message), booking.tools)
    assert not answer.calls
    assert answer.confidence > 0.99
    assert selector.scores(queries(message)).max() < -10


def test_an_empty_shortlist_is_no_tool(selector: LocalSelector) -> None:
    """Where nothing is offered nothing is chosen, and no messages give no rows."""
    assert not selector.select(Query(message="book"), []).calls
    assert selector.scores([]).shape[0] == 0


@examples(max_examples=25)
@given(st.sampled_from(MESSAGES), st.data())
def test_a_mask_only_masks(
    booking: Catalog, booking_router: Router, message: str, data: st.DataObject
) -> None:
    """Restricting a route takes tools away, and leaves the order of the others as their log-odds have it."""
    within = data.draw(st.sets(st.sampled_from(booking.ids), min_size=1))
    row = dict(zip(booking.ids, booking_router.selector.scores(queries(message))[0].tolist(), strict=True))
    trace = booking_router.route(message, within=within)
    ranked = [entry.tool for entry in trace.decision.ranked]
    assert set(ranked) == {candidate.tool for candidate in trace.candidates} <= within
    assert ranked == sorted(ranked, key=lambda tool: (-row[tool], tool))
    shortlist = [tool for tool in booking if tool.id in within]
    answer = booking_router.selector.select(Query(message=message), shortlist)
    best = min(within, key=lambda tool: (-row[tool], tool))
    assert not answer.calls or answer.calls[0].tool == best


# --- labelled cases ------------------------------------------------------------------------------


def test_evaluating_on_what_it_learned_from_is_refused(booking: Catalog, booking_dev) -> None:
    """A selector that took cases as examples names them, and is not evaluated on any of them."""
    fitted = LocalSelector(booking, cases=booking_dev[:10])
    assert fitted.fitted_on == {case.id for case in booking_dev[:10]}
    router = Router(booking, selector=fitted)
    with pytest.raises(ValueError, match=f"LocalSelector was fitted on case {booking_dev[9].id}"):
        evaluate(router, booking_dev[9:12], latency=False)
    assert len(evaluate(router, booking_dev[10:12], latency=False)) == 2


def test_labelled_cases_are_examples(booking: Catalog, booking_dev, selector: LocalSelector) -> None:
    """A case that it learned from makes its own tool likelier."""
    case = next(c for c in booking_dev if len(c.expected_tools) == 1 and "paraphrase" in c.tags)
    column = booking.position[case.expected_tools[0]]
    fitted = LocalSelector(booking, cases=[case])
    assert fitted.scores([case.query])[0, column] > selector.scores([case.query])[0, column]


# --- trust ---------------------------------------------------------------------------------------


def noise(texts: list[str]) -> np.ndarray:
    """A random direction for each text, always the same one."""
    seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) for text in texts]
    return np.stack([np.random.default_rng(seed).normal(size=48) for seed in seeds])


def oracle(catalog: Catalog) -> FunctionEncoder:
    """An encoder that knows which tool each text of the catalog stands for."""
    training = training_texts(catalog)
    own = dict(zip(map(written_arabic, training.texts), training.tool.tolist(), strict=True))

    def encode(texts: list[str]) -> np.ndarray:
        rows = 0.02 * noise(texts)
        for row, text in zip(rows, texts, strict=True):
            if text in own:
                row[own[text]] += 1.0
        return rows

    return FunctionEncoder("oracle", encode)


def test_a_good_encoder_is_trusted(booking: Catalog) -> None:
    """Trust is 1 where the first example of each tool finds the others, and heads are fitted."""
    retriever = EmbeddingRetriever(booking, oracle(booking), cache=None)
    assert retriever.trust == 1.0
    assert retriever.heads is not None


@pytest.mark.parametrize("said", [True, False], ids=["examples", "descriptions"])
def test_noise_is_not_trusted_and_changes_nothing(booking: Catalog, said: bool) -> None:
    """An encoder of random vectors has no trust; the fused list and the decision are those without it."""
    catalog = booking if said else Catalog(dataclasses.replace(t, hints=(), examples=()) for t in booking)
    settings = Settings().replace({"fusion.method": "weighted", "lexical.min_score": None})
    with_noise = Router(catalog, encoder=FunctionEncoder("noise", noise), settings=settings)
    alone = Router(catalog, settings=settings)
    assert with_noise.retriever.trust < 0.05
    assert with_noise.retriever.heads is None
    assert (with_noise.retriever.trust_of(MESSAGES) < 0.05).all()
    for message in MESSAGES:
        one, two = alone.route(message), with_noise.route(message)
        assert two.recall.used
        found = [candidate.tool for candidate in two.fused]
        expected = [candidate.tool for candidate in one.fused]
        assert found[: len(expected)] == expected
        if len(expected) >= settings.candidate_limit:
            assert two.decision == one.decision
