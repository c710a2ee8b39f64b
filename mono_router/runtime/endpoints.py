"""Tools behind HTTP: one call in, the selected part of a JSON answer out, or an error with its code.

The manifest says what is sent where (:mod:`~mono_router.runtime.manifest`), the host says what is allowed:
which credential may go to which origin, and which addresses beside the public ones may be reached. A call
has one time limit over all of its tries; only read-only calls are tried again. Error texts name the tool
and say what happened: no URL, no credential, no word of a response.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mono_router.models.attempts import retry_after_s
from mono_router.records import Tool
from mono_router.runtime.addresses import AddressRules, literal_address
from mono_router.runtime.answers import AnswerError, pick_part, plain_answer
from mono_router.runtime.calls import CallContext, ToolAnswer, ToolError
from mono_router.runtime.connections import Deadline, Reply, Resolve, Wire, WireError
from mono_router.runtime.manifest import Endpoint, endpoint_problems, origin_of, read_endpoint
from mono_router.runtime.mapping import CallValues, mapping_problems
from mono_router.runtime.requests import Request, make_request
from mono_router.runtime.sources import Source, system_sources
from mono_router.schema import is_sensitive

if TYPE_CHECKING:
    import ssl

RETRIES = 2
"""Tries after the first, of read-only calls (a guess: what common clients do)."""
BACKOFF_S = 0.2
"""Wait before the first of them; it doubles, with up to half of it added at random."""
_RUN_KEYS = ("http", "system")
_CREDENTIAL = re.compile(r"[\x21-\x7e]+")


class HttpRunner:
    """Runs the tools that have ``run.http``.

    >>> runner = HttpRunner(auth={"SHOP_KEY": "https://shop.example.com"})
    >>> http = {"url": "https://other.example.com/orders", "auth": {"type": "bearer", "env": "SHOP_KEY"}}
    >>> runner.problems(Tool(id="orders", run={"http": http}))
    ['orders: run.http.auth asks for SHOP_KEY, which the host gives to another origin']
    >>> runner.close()
    """

    def __init__(
        self,
        *,
        auth: Mapping[str, str] | None = None,
        allow_addresses: Sequence[str] = (),
        allow_private: bool = False,
        retries: int = RETRIES,
        backoff_s: float = BACKOFF_S,
        environ: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """Make a runner under the host's rules.

        Parameters
        ----------
        auth
            Name of a credential (an environment variable, or a session fact whose name is that of a
            credential) to the one origin that it may be sent to.
        allow_addresses
            Addresses, networks or "localhost", each with or without a port, that may be reached though
            they are not public.
        allow_private
            Whether all private and loopback addresses may be reached (metadata addresses may not).
        retries, backoff_s
            Tries after the first, and the wait before the first of them in seconds.
        environ
            Where credentials are read, at each call; default: the environment.
        ssl_context
            What TLS trusts; default: the public authorities.
        resolve
            Looks up ``(host, port)``; default: the system's resolver.

        Raises
        ------
        ValueError
            If an entry of ``auth`` or ``allow_addresses`` is none.
        """
        self._auth: dict[str, tuple[str, str, int]] = {}
        for name, origin in (auth or {}).items():
            try:
                self._auth[name] = origin_of(origin)
            except (ValueError, TypeError, AttributeError):
                text = f"auth.{name} must be an origin such as https://api.example.com"
                raise ValueError(text) from None
        self.retries = retries
        self.backoff_s = backoff_s
        self._environ = os.environ if environ is None else environ
        self._rules = AddressRules.of(allow_addresses, allow_private=allow_private)
        self._wire = Wire(self._rules, ssl_context=ssl_context, resolve=resolve)
        self._endpoints: dict[str, tuple[Tool, Endpoint]] = {}

    def close(self) -> None:
        """Let go of the lookup threads; what runs ends by its own limit."""
        self._wire.close()

    def problems(self, tool: Tool) -> list[str]:
        """Return what is wrong with the tool's ``run``, one line each; empty = it can run."""
        run = tool.run or {}
        found = [f"{tool.id}: run has unknown key {key!r}" for key in run if key not in _RUN_KEYS]
        found += [*endpoint_problems(tool), *mapping_problems(tool)]
        return found or list(self._refusals(tool, read_endpoint(tool)))

    def _refusals(self, tool: Tool, endpoint: Endpoint) -> Iterator[str]:
        """What the host does not allow."""
        literal = literal_address(endpoint.host)
        if literal is not None and not self._rules.allows(str(literal), endpoint.port):
            yield f"{tool.id}: run.http.url has an address that is not public and that the host does not list"
        if endpoint.auth is not None:
            yield from self._not_given(f"{tool.id}: run.http.auth asks for", endpoint.auth.env, endpoint)
        for fact in _facts_sent(tool, endpoint):
            if is_sensitive(fact):
                yield from self._not_given(f"{tool.id}: run sends fact", fact, endpoint)

    def _not_given(self, what: str, name: str, endpoint: Endpoint) -> Iterator[str]:
        given = self._auth.get(name)
        if given is None:
            yield f"{what} {name}, which the host gives to no origin (config.yml, auth: {{{name}: https://...}})"
        elif given != endpoint.origin:
            yield f"{what} {name}, which the host gives to another origin"

    def run(self, tool: Tool, arguments: Mapping[str, Any], context: CallContext) -> ToolAnswer:
        """Return the answer to a call whose user arguments are checked.

        Raises
        ------
        ToolError
            If it could not be completed.
        """
        endpoint = self._endpoint(tool)
        credential = self._credential(tool, endpoint)
        values = CallValues(tool, arguments, context)
        request = make_request(tool, endpoint, values, credential=credential)
        reply, retries = self._try(tool, endpoint, request)
        code, text = _refused(reply.status)
        value: Any = None
        if not code:
            code, text, value = _read_answer(reply.body, endpoint)
        if code:
            raise ToolError(code, f"{tool.id} {text}", retries=retries)
        return ToolAnswer(value=_without(value, credential), retries=retries)

    def _endpoint(self, tool: Tool) -> Endpoint:
        known = self._endpoints.get(tool.id)
        if known is None or known[0] is not tool:
            problems = self.problems(tool)
            if problems:
                raise ToolError("CONFIG_INVALID", problems[0])
            known = self._endpoints[tool.id] = (tool, read_endpoint(tool))
        return known[1]

    def _credential(self, tool: Tool, endpoint: Endpoint) -> str:
        if endpoint.auth is None:
            return ""
        name = endpoint.auth.env
        value = self._environ.get(name, "").strip()
        if not value:
            raise ToolError("AUTH_REQUIRED", f"{tool.id} needs the environment variable {name}")
        if not _CREDENTIAL.fullmatch(value):
            raise ToolError("AUTH_REQUIRED", f"{tool.id}: {name} holds what no credential can hold")
        return value

    def _try(self, tool: Tool, endpoint: Endpoint, request: Request) -> tuple[Reply, int]:
        """The last reply within the time limit, and how many tries came before it."""
        again = self.retries if tool.effects == "read" and endpoint.method in ("GET", "POST") else 0
        deadline = Deadline(endpoint.timeout_s)
        for retries in range(again + 1):
            reply: Reply | None = None
            failed: WireError | None = None
            try:
                reply = self._wire.send(endpoint, request, deadline)
            except WireError as error:
                failed = error
            wait = self.backoff_s * 2**retries * (1 + random.random() / 2)
            if reply is not None and reply.retry_after:
                asked = retry_after_s({"retry-after": reply.retry_after}, time.time())
                wait = max(wait, math.inf if asked is None else asked)
            if retries < again and _passing(reply, failed) and wait < deadline.left():
                time.sleep(wait)
            elif failed is not None:
                break
            elif reply is not None:
                return reply, retries
        code, text = (failed.code, failed.reason) if failed else ("TOOL_TIMEOUT", "took too long")
        limit = f" (limit {endpoint.timeout_s:g} s)" if code == "TOOL_TIMEOUT" else ""
        raise ToolError(code, f"{tool.id} {text}{limit}", retries=retries)


def _facts_sent(tool: Tool, endpoint: Endpoint) -> list[str]:
    """Names of the facts that a tool's requests hold."""
    system = system_sources(tool)

    def facts(source: Source) -> Iterator[str]:
        if source.kind == "fact":
            yield source.name
        elif source.kind == "argument" and source.name in system:
            yield from facts(system[source.name])

    sources = [source for group in endpoint.groups.values() for source in group.values()]
    return sorted({fact for source in sources for fact in facts(source)})


def _passing(reply: Reply | None, failed: WireError | None) -> bool:
    """Whether what went wrong may be over in a moment."""
    if failed is not None:
        return failed.passing
    return reply is not None and (reply.status == 429 or reply.status >= 500)


def _refused(status: int) -> tuple[str, str]:
    """Code and text of a status that is no success, or two empty texts."""
    if 200 <= status < 300:
        return "", ""
    if status in (401, 403):
        return "AUTH_REJECTED", f"was refused its credential (status {status})"
    if status == 429:
        return "TOOL_RATE_LIMITED", "was called too often (status 429)"
    if status >= 500:
        return "TOOL_SERVER_ERROR", f"failed on its server (status {status})"
    if 300 <= status < 400:
        return "TOOL_CLIENT_ERROR", f"was redirected, which is never followed (status {status})"
    return "TOOL_CLIENT_ERROR", f"was refused by its server (status {status})"


def _read_answer(body: bytes, endpoint: Endpoint) -> tuple[str, str, Any]:
    """Code and text of what is wrong with a body, and the selected part of it."""
    if not body.strip():
        if endpoint.select:
            return "TOOL_RESPONSE_MALFORMED", f"answered without {endpoint.select}", None
        return "", "", None
    try:
        content = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
        value = plain_answer(pick_part(content, endpoint.select), max_chars=4 * endpoint.max_bytes + 100)
    except AnswerError as error:
        return error.code, str(error), None
    except LookupError:
        return "TOOL_RESPONSE_MALFORMED", f"answered without {endpoint.select}", None
    except (ValueError, RecursionError):
        return "TOOL_RESPONSE_MALFORMED", "answered with what is no JSON", None
    return "", "", value


def _without(value: Any, credential: str) -> Any:
    """An answer in which a server's echo of the credential is struck out.

    >>> _without({"headers": ["Bearer abcd1234"]}, "abcd1234")
    {'headers': ['Bearer ***']}
    """
    if len(credential) < 8:  # so short a text may stand anywhere by chance
        return value
    if isinstance(value, str):
        return value.replace(credential, "***")
    if isinstance(value, list):
        return [_without(item, credential) for item in value]
    if isinstance(value, dict):
        return {_without(k, credential): _without(item, credential) for k, item in value.items()}
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
