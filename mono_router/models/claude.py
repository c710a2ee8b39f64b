"""Claude as a routing or reasoning model, on the official SDK.

A :class:`~mono_router.records.ModelRequest` goes in, a reply or a
:class:`~mono_router.records.ModelError` comes out; nothing is ever read as an empty answer. The SDK builds
and sends; it does not retry. The loop here does, because it must bound the total time, count what it
did, and make every thread wait when one is told to slow down. Replies are read as the JSON that was
sent, so that an agent loop hands back the very blocks that it was given, thinking included.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from mono_router.models.attempts import Attempts, Failure, GaveUp, retry_after_s
from mono_router.models.gate import OnWait, nobody
from mono_router.models.parameters import Thinking, request_body
from mono_router.models.prices import PRICES, Price, card_of, cost_usd
from mono_router.records import ModelError, ModelReply, ModelRequest, ToolCall, Usage, digest

ROUTING_MODEL = "claude-haiku-5-5"
"""Current Haiku of the SDK's list of models: fast and cheap, for recall and selection."""
REASONING_MODEL = "claude-sonnet-5-5"
"""Current Sonnet of that list, for think and agent."""
CONNECT_S = 5.0
"""Bound on opening a connection, as the SDK has it."""


class AnthropicModel:
    """A Claude model that answers requests; safe to share between threads.

    Parameters
    ----------
    name
        Model id of the API.
    api_key
        Default: ``ANTHROPIC_API_KEY``, else ``ANTHROPIC_AUTH_TOKEN``, from the environment.
    base_url
        Default: the SDK's own.
    max_attempts
        Requests for one answer, the first included, >= 1.
    timeout_s
        Bound on the total time of one answer, waits and retries included. A reply that trickles in is
        dropped at the first bytes after it.
    prices
        Stands in for the price table; needed for a model that it lacks.
    cache
        Whether the stable text of recall is marked for the prompt cache.
    effort
        "low" to "max"; None = the model's default ("low" where thinking cannot be turned off).
    thinking
        "off" (or the least that the model takes) or "adaptive"; None = adaptive for think and agent only.
    seed
        Seed of the jitter between attempts; None = another one for each object.
    sleep, clock
        Stand in for :func:`time.sleep` and :func:`time.monotonic` in tests.

    Raises
    ------
    ModelError
        MODEL_NOT_CONFIGURED, if there is no key.
    ValueError
        If the model has no known price, or takes no such effort.
    ImportError
        If the SDK is not installed.
    """

    def __init__(
        self,
        name: str = ROUTING_MODEL,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_attempts: int = 4,
        timeout_s: float = 60.0,
        prices: Mapping[str, Price] | None = None,
        cache: bool = True,
        effort: str | None = None,
        thinking: Thinking | None = None,
        seed: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if thinking not in (None, "off", "adaptive"):
            raise ValueError(f"thinking must be 'off', 'adaptive' or None, got {thinking!r}")
        self.model = name
        self.prices = PRICES if prices is None else prices
        self.card = card_of(name, self.prices.get(name))
        if effort is not None and effort not in self.card.efforts:
            known = ", ".join(self.card.efforts) or "None"
            raise ValueError(f"effort must be one of {known} for {name}, got {effort!r}")
        self._cache, self._effort, self._thinking = cache, effort, thinking
        self._attempts = Attempts(
            max_attempts=max_attempts, timeout_s=timeout_s, seed=seed, sleep=sleep, clock=clock
        )
        try:
            import anthropic
        except ImportError:
            raise ImportError("AnthropicModel needs the SDK: pip install 'mono-router[anthropic]'") from None
        credential = _credential(api_key)
        self._secret = next(iter(credential.values()))
        self._client = anthropic.Anthropic(
            api_key=credential.get("api_key"),
            auth_token=credential.get("auth_token"),
            base_url=base_url,
            max_retries=0,
            timeout=timeout_s,
        )

    @property
    def name(self) -> str:
        """Model id, with what else shapes its answers, so that a recording never mixes two."""
        shaped = {"effort": self._effort, "thinking": self._thinking}
        given = ", ".join(f"{key}={value}" for key, value in shaped.items() if value is not None)
        return f"{self.model}({given})" if given else self.model

    def __repr__(self) -> str:
        return f"AnthropicModel({self.name!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    # --- asking -------------------------------------------------------------------------------

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's reply.

        A reply that was cut off has ``stop_reason`` "max_tokens".

        Raises
        ------
        ModelError
            MODEL_NOT_CONFIGURED for a key that is refused (401); MODEL_TIMEOUT when the time is up;
            MODEL_RESPONSE_MALFORMED for a reply that cannot be read or is empty; MODEL_PROVIDER_ERROR
            for everything else, a model that refuses to answer included.
        """
        attempts, body = self._attempts, self.body(request)
        asked, spare = attempts.clock(), attempts.gate.patience_s
        deadline = asked + attempts.timeout_s
        cached = request.purpose == "recall" and self._cache and "system" in body
        with attempts.one_writer(digest(body["system"]) if cached else None, deadline + spare):
            started = attempts.clock()
            answer, spent = self._ask("create", body, deadline + min(spare, started - asked))
            spent += Usage(latency_ms=(attempts.clock() - started) * 1e3)
        return self._reply(answer, spent)

    def count_tokens(self, request: ModelRequest) -> int:
        """Return the exact number of input tokens of a request, as the API counts them.

        Raises
        ------
        ModelError
            As for :meth:`complete`.
        """
        body = self.body(request)
        body.pop("max_tokens")
        answer, spent = self._ask("count_tokens", body, self._attempts.clock() + self._attempts.timeout_s)
        count = answer.get("input_tokens")
        if not isinstance(count, int):
            self._fail("MODEL_RESPONSE_MALFORMED", "no token count in the answer", spent)
        return int(count)

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the parameters that are sent for a request, as :func:`request_body` makes them."""
        return request_body(
            request, self.card, cache=self._cache, effort=self._effort, thinking=self._thinking
        )

    def patience(self, seconds: float, *, on_wait: OnWait = nobody) -> AbstractContextManager[None]:
        """Return a context in which a rate limit costs time and no answers.

        Meanwhile every answer, of any thread, may spend ``seconds`` more on waiting for its turn, and a
        refusal for the rate does not count as one of its attempts. For work that no person waits for.

        Parameters
        ----------
        on_wait
            Told the seconds of each wait that the API asks for.
        """
        return self._attempts.gate.patience(seconds, on_wait)

    # --- sending ------------------------------------------------------------------------------

    def _ask(self, method: str, body: Mapping[str, Any], deadline: float) -> tuple[dict[str, Any], Usage]:
        """The JSON object that was sent back, and the retries that it took."""
        gave_up: GaveUp | None = None
        raw, retries = b"", 0
        try:
            raw, retries = self._attempts.run(
                lambda left_s: self._attempt(method, body, left_s), deadline=deadline
            )
        except GaveUp as error:
            gave_up = error
        # Raised out here, so that no exception of the SDK, which holds the headers, hangs on to it.
        if gave_up is not None:
            spent = Usage(model_calls=1, retries=gave_up.retries)
            self._fail(gave_up.failure.code, str(gave_up), spent)
        spent = Usage(model_calls=1, retries=retries)
        try:
            record = json.loads(raw)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            self._fail("MODEL_RESPONSE_MALFORMED", f"the reply is no JSON object ({len(raw)} bytes)", spent)
        return dict(record), spent

    def _attempt(self, method: str, body: Mapping[str, Any], left_s: float) -> bytes | Failure:
        import anthropic
        import httpx2

        deadline = self._attempts.clock() + left_s

        send: Any = getattr(self._client.messages.with_streaming_response, method)
        timeout = anthropic.Timeout(left_s, connect=min(left_s, CONNECT_S))
        late = Failure(
            code="MODEL_TIMEOUT",
            message=f"no complete reply within {self._attempts.timeout_s:g} s",
            retry=True,
        )
        try:
            with send(**body, timeout=timeout) as response:
                parts = []
                for part in response.iter_bytes():
                    parts.append(part)
                    if self._attempts.clock() > deadline:
                        return late
                return b"".join(parts)
        except (anthropic.APITimeoutError, httpx2.TimeoutException):
            return late
        except anthropic.APIStatusError as error:
            return _status_failure(error)
        except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
            kind = type(error.__cause__ or error).__name__
            return Failure(code="MODEL_PROVIDER_ERROR", message=f"the connection failed ({kind})", retry=True)

    def _fail(self, code: str, message: str, usage: Usage) -> NoReturn:
        text = f"{self.model}: {message}".replace(self._secret, "***")
        raise ModelError(code, text, usage=usage)

    # --- reading ------------------------------------------------------------------------------

    def _reply(self, record: Mapping[str, Any], spent: Usage) -> ModelReply:
        usage = self._usage(record.get("usage"), spent)
        stop, blocks = record.get("stop_reason"), record.get("content")
        if stop == "refusal":
            details = record.get("stop_details")
            category = details.get("category") if isinstance(details, dict) else None
            text = f"the model refused to answer (category {category or 'not given'})"
            self._fail("MODEL_PROVIDER_ERROR", text, usage)
        if not isinstance(stop, str) or not _well_formed(blocks):
            self._fail("MODEL_RESPONSE_MALFORMED", "the reply is no message", usage)
        if stop == "model_context_window_exceeded":
            text = "the reply was cut off at the end of the model's context window"
            self._fail("MODEL_RESPONSE_MALFORMED", text, usage)
        found: list[dict[str, Any]] = list(blocks or ())
        text = "".join(block["text"] for block in found if block["type"] == "text")
        calls = tuple(
            ToolCall(name=block["name"], arguments=block.get("input"), id=block["id"])
            for block in found
            if block["type"] == "tool_use"
        )
        if not text.strip() and not calls and stop != "max_tokens":
            kinds = ", ".join(sorted({block["type"] for block in found})) or "none"
            self._fail("MODEL_RESPONSE_MALFORMED", f"the reply is empty (blocks: {kinds})", usage)
        return ModelReply(text=text, tool_calls=calls, usage=usage, stop_reason=stop, turn=found)

    def _usage(self, record: Any, spent: Usage) -> Usage:
        counts = record if isinstance(record, dict) else {}

        def count(key: str) -> int:
            value = counts.get(key)
            return value if isinstance(value, int) and value > 0 else 0

        tokens = Usage(
            input_tokens=count("input_tokens"),
            cache_write_tokens=count("cache_creation_input_tokens"),
            cache_read_tokens=count("cache_read_input_tokens"),
            output_tokens=count("output_tokens"),
        )
        cost = cost_usd(tokens, self.model, {self.model: self.card.price})
        return spent + tokens + Usage(cost_usd=cost)


def _status_failure(error: Any) -> Failure:
    """What an HTTP error means; ``error`` is the SDK's ``APIStatusError``."""
    status, headers = int(error.status_code), error.response.headers
    said = error.api_message if isinstance(error.api_message, str) else "no message"
    kind = f" {error.type}" if isinstance(error.type, str) else ""
    text = f"HTTP {status}{kind}: {said[:300]}"
    if error.request_id:
        text += f" (request {str(error.request_id)[:80]})"
    retry = status in (408, 409, 429) or status >= 500
    if headers.get("x-should-retry") in ("true", "false"):
        retry = headers["x-should-retry"] == "true"
    code = "MODEL_TIMEOUT" if status in (408, 504) else "MODEL_PROVIDER_ERROR"
    if status == 401:
        code = "MODEL_NOT_CONFIGURED"
        text += "; set ANTHROPIC_API_KEY to a valid key, or give api_key"
    return Failure(
        code=code,
        message=text,
        retry=retry,
        delay_s=retry_after_s(headers, time.time()),
        limited=status == 429 and retry,
    )


def _credential(api_key: str | None) -> dict[str, str]:
    """The one credential, as the SDK's argument; the SDK's own search (profiles on disk) is not used."""
    found = {
        "api_key": (api_key if api_key is not None else os.environ.get("ANTHROPIC_API_KEY", "")).strip(),
        "auth_token": "" if api_key is not None else os.environ.get("ANTHROPIC_AUTH_TOKEN", "").strip(),
    }
    for argument, value in found.items():
        if value and not (value.isascii() and value.isprintable()):
            raise ModelError("MODEL_NOT_CONFIGURED", f"{argument} holds characters that no key has")
        if value:
            return {argument: value}
    raise ModelError(
        "MODEL_NOT_CONFIGURED",
        "no key for Claude: set ANTHROPIC_API_KEY in the environment, or give api_key",
    )


def _well_formed(blocks: Any) -> bool:
    """Whether content blocks hold what is read of them; kinds that are not read may hold anything."""
    needs = {"text": ("text",), "tool_use": ("name", "id")}
    return isinstance(blocks, list) and all(
        isinstance(block, dict)
        and isinstance(block.get("type"), str)
        and all(isinstance(block.get(key), str) for key in needs.get(block["type"], ()))
        for block in blocks
    )
