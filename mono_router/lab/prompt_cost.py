"""What each way of prompting costs per message: all manifests, recall and a shortlist, or a shortlist.

The very requests that the router would send are built and measured; nothing is sent. Offline a token is
estimated as four bytes of UTF-8 and every row says so; with a model that counts tokens the figures are
exact. Input only: what a model answers is short and the same in every way.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mono_router.catalog import Catalog
from mono_router.decision import decide
from mono_router.models.claude import ROUTING_MODEL
from mono_router.models.prices import Price, card_of, cost_usd
from mono_router.models.scripted import ScriptedModel
from mono_router.prompting import load_prompt
from mono_router.recall import recall_request
from mono_router.records import ModelRequest, Query, Tool, Usage, canonical_json
from mono_router.router import Router
from mono_router.selection import selection_request, wire_tool
from mono_router.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

BYTES_A_TOKEN = 4
WAYS = ("full manifests", "recall and shortlist", "shortlist alone", "as routed")
"""Rows of :func:`prompt_costs`. "as routed" takes, for each message, the way that the router would."""


class CountsTokens(Protocol):
    """A model that counts a request's input tokens exactly, without answering it."""

    @property
    def name(self) -> str: ...

    def count_tokens(self, request: ModelRequest) -> int: ...


def prompt_costs(
    catalog: Catalog,
    *,
    messages: Sequence[str],
    settings: Settings | None = None,
    model: CountsTokens | None = None,
    price_of: str = ROUTING_MODEL,
    prices: Mapping[str, Price] | None = None,
    now: str | None = None,
) -> pd.DataFrame:
    """Return input tokens and dollars per message, one row per way of prompting.

    Parameters
    ----------
    catalog
        The tools.
    messages
        Real messages: their words decide each shortlist and whether stage 1 is confident.
    settings
        Of the router; gates, limits, prompts and ``lexical.min_score`` count.
    model
        Counts tokens exactly, four requests a message; None = an estimate.
    price_of
        Model whose prices are taken.
    prices
        Stands in for the price table.
    now
        Local time that the requests carry.

    Returns
    -------
    pandas.DataFrame
        Index ``way``. Columns: ``input_tokens`` (mean per message), ``stable_tokens`` (of these, the
        part that is the same for every message), ``usd`` (mean, nothing cached), ``usd_cached`` (mean,
        the stable part read from the cache), ``model_calls`` (mean), ``n`` (messages), ``counted``
        ("estimate" or "exact").

    Raises
    ------
    ValueError
        If there are no messages, or the model has no price.

    >>> catalog = Catalog([Tool(id=f"t{i}", description=f"Tool number {i} " * 9) for i in range(40)])
    >>> costs = prompt_costs(catalog, messages=["use number 3"])
    >>> bool(costs.input_tokens["shortlist alone"] < costs.input_tokens["full manifests"] / 4)
    True
    """
    import pandas as pd

    if not messages:
        raise ValueError("messages must hold at least one message")
    price = card_of(price_of, None if prices is None else prices.get(price_of)).price
    count = estimate_tokens if model is None else model.count_tokens
    # With a model that is never asked, nothing but stage 1 is fitted and scored.
    router = Router(catalog, settings=settings, model=ScriptedModel(()))
    table = router.score([Query(message=message, now=now) for message in messages])
    rows: dict[str, list[_Cost]] = {way: [] for way in WAYS}
    for i, query in enumerate(table.queries):
        lexical = decide(table.row(i), router.settings, router.tools).lexical
        found = [hit.tool for hit in lexical.hits][: router.settings.candidate_limit]
        requests = _requests(catalog, query, found, router.settings)
        full, recall, filled, short = (_cost(request, count, price) for request in requests)
        rows["full manifests"].append(full)
        rows["recall and shortlist"].append(recall + filled)
        rows["shortlist alone"].append(short)
        rows["as routed"].append(short if lexical.confident else recall + filled)
    frame = pd.DataFrame({way: _mean(costs) for way, costs in rows.items()}).T
    frame.index.name = "way"
    frame["n"] = len(messages)
    frame["counted"] = "estimate" if model is None else "exact"
    return frame


def full_request(query: Query, catalog: Catalog, settings: Settings) -> ModelRequest:
    """Return the request that this package exists to avoid: every manifest, whole, in one prompt.

    It holds all that a model may see of a tool, and nothing more.
    """
    prompt = load_prompt("selection", settings.selection.prompt)
    lines = "\n".join(canonical_json(manifest(tool)).replace("<", "\\u003c") for tool in catalog)
    short = selection_request(query, (), prompt, attempt=0)
    system = f"{prompt.text}\n\n<catalog>\n{lines}\n</catalog>"
    return dataclasses.replace(short, system=system, tools=(), force_tool=False)


def manifest(tool: Tool) -> dict[str, Any]:
    """Return a tool's manifest as a model may see it, with hints, keywords and examples.

    >>> manifest(Tool(id="a", description="A", hints=("do a",), run={"python": "x:y"}))["hints"]
    ['do a']
    """
    shown = {
        "id": tool.id,
        "title": tool.title,
        "description": tool.description,
        "skill": tool.skill,
        "boundaries": list(tool.boundaries),
        "hints": list(tool.hints),
        "keywords": dict(tool.keywords),
        "examples": [example.message for example in tool.examples],
        "effects": tool.effects,
        "schema": wire_tool(tool).schema,
    }
    return {key: value for key, value in shown.items() if value}


def estimate_tokens(request: ModelRequest) -> int:
    """Return input tokens by an estimate: four bytes of UTF-8 a token, over all that is sent.

    >>> estimate_tokens(ModelRequest(purpose="recall", system="a" * 40, messages=()))
    10
    """
    return math.ceil(_size(request) / BYTES_A_TOKEN)


@dataclasses.dataclass(frozen=True)
class _Cost:
    """Of one message."""

    input_tokens: float = 0.0
    stable_tokens: float = 0.0
    usd: float = 0.0
    usd_cached: float = 0.0
    model_calls: float = 0.0

    def __add__(self, other: _Cost) -> _Cost:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return _Cost(*(a + b for a, b in pairs))


def _mean(costs: Sequence[_Cost]) -> dict[str, float]:
    total = sum(costs, _Cost())
    return {name: value / len(costs) for name, value in dataclasses.asdict(total).items()}


def _requests(
    catalog: Catalog, query: Query, found: Sequence[str], settings: Settings
) -> tuple[ModelRequest, ModelRequest, ModelRequest, ModelRequest]:
    """Full, recall, selection from a whole shortlist, selection from what stage 1 found."""
    recall = recall_request(
        query, catalog, settings.recall, load_prompt("recall", settings.recall.prompt), None
    )
    prompt = load_prompt("selection", settings.selection.prompt)
    # Recall fills the shortlist up; with which tools, only a model can say: the next ones by id stand in.
    others = [tool for tool in catalog.ids if tool not in set(found)]
    filled = [*found, *others][: settings.candidate_limit]
    return (
        full_request(query, catalog, settings),
        recall,
        selection_request(query, [catalog[t] for t in filled], prompt),
        selection_request(query, [catalog[t] for t in found], prompt),
    )


def _cost(request: ModelRequest, count: Callable[[ModelRequest], int], price: Price) -> _Cost:
    tokens = count(request)
    # A shortlist varies with the message, so its system text alone is not worth a cache.
    share = 0.0 if request.tools else len(request.system.encode("utf-8", "replace")) / _size(request)
    stable = min(tokens, round(tokens * share))
    table = {"": price}
    return _Cost(
        input_tokens=tokens,
        stable_tokens=stable,
        usd=cost_usd(Usage(input_tokens=tokens), "", table),
        usd_cached=cost_usd(Usage(input_tokens=tokens - stable, cache_read_tokens=stable), "", table),
        model_calls=1,
    )


def _size(request: ModelRequest) -> int:
    """Bytes of all that is sent."""
    rest = canonical_json([request.messages, request.tools, request.schema or {}])
    if not (request.messages or request.tools or request.schema):
        rest = ""
    return len(request.system.encode("utf-8", "replace")) + len(rest.encode("utf-8", "replace"))
