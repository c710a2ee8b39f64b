"""What differs from one Claude model to the next: prices, thinking, forced tools, effort, limits.

One table of dated records, :data:`CARDS`; nothing else in the package knows a model by its name. It is
typed in from the vendor's model pages and will age: a newer price is given as
``AnthropicModel(prices=with_prices({...}))``, and a model that the table lacks needs a price before it
can be used, so that no report ever counts it as free. Prices are those of single requests at the standard
tier: message batches (half the price, up to a day) are not used, because a case takes two to four
requests that wait for each other, and a read from the prompt cache saves recall more than a batch would.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mono_router.records import Usage

CARDS_DATE = "2026-10-24"
"""Day on which the table was last compared with the vendor's pages; models and prices change."""
EFFORTS = ("low", "medium", "high", "xhigh", "max")
MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """US dollars per million tokens, for one request.

    >>> Price(input=1.0, cache_write=1.25, cache_read=0.1, output=5.0).above is None
    True
    """

    input: float
    cache_write: float
    """Writing the cache for five minutes, the only life that is used here."""
    cache_read: float
    output: float
    threshold: int | None = None
    """Prompt tokens (input, cache write and read) above which ``above`` holds for the whole request."""
    above: Price | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCard:
    """What a request to one model may hold."""

    name: str
    price: Price
    off: Literal["disabled", "between_tools"] | None
    """``thinking.type`` that turns thinking off, or keeps it smallest; None = it cannot be turned off."""
    off_efforts: tuple[str, ...] = EFFORTS[:3]
    """Effort levels beside which ``off`` is accepted."""
    adaptive: bool = True
    """Whether ``thinking.type`` may be adaptive."""
    forced_tools: bool = True
    """Whether ``tool_choice`` may be "any"."""
    efforts: tuple[str, ...] = EFFORTS
    """Values of ``output_config.effort``; empty = the parameter is refused."""
    max_output: int = 128_000
    """Largest ``max_tokens``, thinking included."""
    min_cached: int = 512
    """Shortest prefix that is cached, tokens; a shorter one is billed as plain input."""


def _price(input_: float, output: float, *, read: float = 0.1) -> Price:
    """Price with the usual write of 1.25 times the input; ``read`` is a share of the input, too."""
    return Price(
        input=input_,
        cache_write=round(1.25 * input_, 6),
        cache_read=round(read * input_, 6),
        output=output,
    )


_HAIKU_55 = dataclasses.replace(_price(0.1, 0.5), threshold=100_000, above=_price(0.5, 2.5))
_FOUR = (*EFFORTS[:3], "max")

CARDS: tuple[ModelCard, ...] = (
    ModelCard(name="claude-haiku-5-5", price=_HAIKU_55, off="disabled"),
    ModelCard(
        name="claude-sonnet-5-5", price=_price(2.0, 10.0, read=0.05), off="between_tools", forced_tools=False
    ),
    ModelCard(name="claude-opus-5-5", price=_price(4.0, 20.0, read=0.05), off=None, forced_tools=False),
    ModelCard(name="claude-fable-5-1", price=_price(10.0, 50.0, read=0.025), off=None, forced_tools=False),
    ModelCard(name="claude-mythos-5-1", price=_price(10.0, 50.0, read=0.025), off=None, forced_tools=False),
    # Forced tools with thinking that is always on: not stated for these two, so not asked for.
    ModelCard(name="claude-fable-5", price=_price(10.0, 50.0), off=None, forced_tools=False),
    ModelCard(name="claude-mythos-5", price=_price(10.0, 50.0), off=None, forced_tools=False),
    ModelCard(name="claude-sonnet-5", price=_price(2.0, 10.0), off="disabled", min_cached=1024),
    ModelCard(name="claude-opus-5", price=_price(5.0, 25.0), off="disabled", min_cached=1024),
    ModelCard(name="claude-opus-4-8", price=_price(5.0, 25.0), off="disabled", min_cached=4096),
    ModelCard(name="claude-opus-4-7", price=_price(5.0, 25.0), off="disabled", min_cached=4096),
    ModelCard(
        name="claude-opus-4-6", price=_price(5.0, 25.0), off="disabled", efforts=_FOUR, min_cached=4096
    ),
    ModelCard(
        name="claude-sonnet-4-6", price=_price(3.0, 15.0), off="disabled", efforts=_FOUR, min_cached=2048
    ),
    *(
        ModelCard(
            name=name,
            price=_price(1.0, 5.0),
            off="disabled",
            adaptive=False,
            efforts=(),
            max_output=64_000,
            min_cached=4096,
        )
        for name in ("claude-haiku-4-5", "claude-haiku-4-5-20251001")
    ),
)
"""Known models, newest first."""
PRICES: Mapping[str, Price] = {card.name: card.price for card in CARDS}
"""Model to its price; replaceable, see :func:`with_prices`."""


def with_prices(changes: Mapping[str, Price]) -> dict[str, Price]:
    """Return the price table with some prices changed or added.

    >>> dear = Price(input=9.0, cache_write=9.0, cache_read=9.0, output=9.0)
    >>> with_prices({"claude-haiku-5-5": dear})["claude-haiku-5-5"].output
    9.0
    """
    return {**PRICES, **changes}


def card_of(name: str, price: Price | None = None) -> ModelCard:
    """Return what is known of a model, at another price if one is given.

    An unknown model gets the card that no model refuses: nothing said about thinking, no forced tool.

    Raises
    ------
    ValueError
        If the model is unknown and no price was given.

    >>> card_of("claude-haiku-5-5").forced_tools, card_of("claude-sonnet-5-5").forced_tools
    (True, False)
    """
    for card in CARDS:
        if card.name == name:
            return card if price is None else dataclasses.replace(card, price=price)
    if price is None:
        known = ", ".join(card.name for card in CARDS)
        raise ValueError(
            f"name must be a model with a known price or come with prices={{{name!r}: Price(...)}}; "
            f"the table of {CARDS_DATE} holds {known}"
        )
    return ModelCard(name=name, price=price, off=None, adaptive=False, forced_tools=False)


def cost_usd(usage: Usage, model: str, prices: Mapping[str, Price] | None = None) -> float:
    """Return what one request cost, in US dollars.

    Parameters
    ----------
    usage
        Of a single request: where the price depends on the prompt's length, a sum over several
        requests would be read as one long prompt.
    model
        Name of the model.
    prices
        Stands in for :data:`PRICES`.

    Raises
    ------
    ValueError
        If the model has no price.

    >>> cost_usd(Usage(input_tokens=100_000, output_tokens=2_000), "claude-haiku-5-5")
    0.011
    >>> cost_usd(Usage(input_tokens=100_001), "claude-haiku-5-5")
    0.0500005
    """
    price = (PRICES if prices is None else prices).get(model)
    if price is None:
        raise ValueError(f"model must have a price, got {model!r} (table of {CARDS_DATE})")
    prompt = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens
    if price.threshold is not None and price.above is not None and prompt > price.threshold:
        price = price.above
    dollars = (
        usage.input_tokens * price.input
        + usage.cache_write_tokens * price.cache_write
        + usage.cache_read_tokens * price.cache_read
        + usage.output_tokens * price.output
    )
    return round(dollars / MILLION, 12)
