"""Prices, and what each way of prompting costs."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.lab.prompt_cost import (
    WAYS,
    estimate_tokens,
    full_request,
    manifest,
    prompt_costs,
)
from mono_router.models.prices import CARDS, PRICES, Price, card_of, cost_usd, with_prices
from mono_router.records import ModelRequest, Query, Tool, Usage
from mono_router.settings import Settings

MESSAGES = ["what time is it", "turn on the light in the kitchen", "zzz"]
COUNTS = st.integers(0, 10**6)
USAGES = st.builds(
    Usage, input_tokens=COUNTS, cache_write_tokens=COUNTS, cache_read_tokens=COUNTS, output_tokens=COUNTS
)


def test_every_card_is_priced_and_named_once() -> None:
    names = [card.name for card in CARDS]
    assert len(set(names)) == len(names)
    assert set(PRICES) == set(names)
    for price in PRICES.values():
        assert 0 < price.cache_read < price.input < price.cache_write < price.output


@given(USAGES, st.sampled_from(CARDS))
def test_cost_is_the_sum_of_its_parts(usage: Usage, card: object) -> None:
    """Pinned to the plain definition, band by band."""
    name = card.name  # type: ignore[attr-defined]
    price = PRICES[name]
    prompt = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens
    if price.above is not None and prompt > 100_000:
        price = price.above
    slow = (
        usage.input_tokens / 1e6 * price.input
        + usage.cache_write_tokens / 1e6 * price.cache_write
        + usage.cache_read_tokens / 1e6 * price.cache_read
        + usage.output_tokens / 1e6 * price.output
    )
    assert cost_usd(usage, name) == pytest.approx(slow, abs=1e-11)


def test_prices_are_replaceable() -> None:
    free = Price(input=0.0, cache_write=0.0, cache_read=0.0, output=0.0)
    table = with_prices({"claude-haiku-5-5": free, "nova": free})
    assert cost_usd(Usage(input_tokens=9), "claude-haiku-5-5", table) == 0.0
    assert cost_usd(Usage(input_tokens=9), "nova", table) == 0.0
    assert PRICES["claude-haiku-5-5"].input > 0
    assert card_of("claude-haiku-5-5", free).price == free


def test_no_price_is_no_zero() -> None:
    """A model without a price is an error, never free."""
    with pytest.raises(ValueError, match="must have a price, got 'nova'"):
        cost_usd(Usage(), "nova")
    with pytest.raises(ValueError, match="known price"):
        card_of("nova")


def test_ways(catalog: Catalog) -> None:
    """One row per way, estimated and labelled so; the columns agree with each other."""
    costs = prompt_costs(catalog, messages=MESSAGES)
    assert tuple(costs.index) == WAYS
    assert list(costs.columns) == [
        "input_tokens", "stable_tokens", "usd", "usd_cached", "model_calls", "n", "counted",
    ]  # fmt: skip
    assert set(costs["counted"]) == {"estimate"}
    assert set(costs["n"]) == {3}
    assert costs["model_calls"].to_dict() == {
        "full manifests": 1, "recall and shortlist": 2, "shortlist alone": 1,
        "as routed": pytest.approx(4 / 3),
    }  # fmt: skip
    assert (costs["usd_cached"] <= costs["usd"]).all()
    assert costs.loc["shortlist alone", "stable_tokens"] == 0
    assert costs.loc["full manifests", "stable_tokens"] > 0


def test_as_routed_lies_between(catalog: Catalog) -> None:
    """A threshold that is never met costs recall every time; one that always is, never."""
    never = prompt_costs(catalog, messages=MESSAGES, settings=Settings().replace({"lexical.min_score": None}))
    always = prompt_costs(
        catalog, messages=MESSAGES[:2], settings=Settings().replace({"lexical.min_score": 0.0})
    )
    assert never.loc["as routed", "usd"] == never.loc["recall and shortlist", "usd"]
    assert always.loc["as routed", "usd"] == always.loc["shortlist alone", "usd"]


def test_large_catalog_shows_the_point() -> None:
    """47 manifests of about 800 tokens: the full prompt is tens of thousands, the shortlist is not."""
    words = "Books, moves and cancels what the user names, in every time zone. " * 48
    tools = [Tool(id=f"skill.{i}", description=f"Skill {i}", hints=(words,)) for i in range(47)]
    costs = prompt_costs(Catalog(tools), messages=["skill 3 please"], price_of="claude-sonnet-5-5")
    tokens = costs["input_tokens"]
    assert tokens["full manifests"] > 35_000
    assert tokens["recall and shortlist"] < tokens["full manifests"] / 5
    assert tokens["shortlist alone"] < tokens["recall and shortlist"]


class Counter:
    """Counts tokens its own way."""

    name = "counter"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def count_tokens(self, request: ModelRequest) -> int:
        self.requests.append(request)
        return 1000


def test_exact(catalog: Catalog) -> None:
    """With a model that counts, the figures are its own, and labelled so."""
    model = Counter()
    costs = prompt_costs(catalog, messages=MESSAGES, model=model)
    assert set(costs["counted"]) == {"exact"}
    assert costs["input_tokens"].tolist()[:3] == [1000, 2000, 1000]
    assert len(model.requests) == 4 * len(MESSAGES)
    assert costs.loc["full manifests", "usd"] == pytest.approx(1000 * 0.1 / 1e6)


def test_long_prompts_pay_the_higher_price(catalog: Catalog) -> None:
    class Long(Counter):
        def count_tokens(self, request: ModelRequest) -> int:
            return 100_001

    costs = prompt_costs(catalog, messages=["x"], model=Long())
    assert costs.loc["full manifests", "usd"] == pytest.approx(100_001 * 0.5 / 1e6)


def test_full_prompt_is_a_safe_view(catalog: Catalog) -> None:
    """Even the prompt that is only measured holds nothing that a model may not see."""
    request = full_request(Query(message="x"), catalog, Settings())
    assert "calendar_id" not in request.system
    assert "messages.example.com" not in request.system
    assert "MESSAGES_KEY" not in request.system
    assert request.tools == ()
    assert json.loads(json.dumps(manifest(catalog["message.send"])))["effects"] == "write"


@given(st.text(max_size=50))
def test_estimate_is_four_bytes_a_token(system: str) -> None:
    request = ModelRequest(purpose="recall", system=system, messages=())
    assert estimate_tokens(request) == math.ceil(len(system.encode("utf-8", "replace")) / 4)
    longer = dataclasses.replace(request, messages=({"role": "user", "content": "hi"},))
    assert estimate_tokens(longer) > estimate_tokens(request)


def test_no_messages(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="at least one message"):
        prompt_costs(catalog, messages=[])
