"""What a manifest says of an HTTP tool: ``run.http`` checked, and read into an :class:`Endpoint`.

The origin (scheme, host, port) comes from here and from nowhere else. Everything that can be known before
a call is told when the catalog is loaded, all problems at once; their texts name tools and fields and hold
no URL, which may carry what is nobody's to read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from mono_router.records import Tool
from mono_router.runtime.addresses import host_problem, is_localhost, literal_address
from mono_router.runtime.sources import Source, group_sources
from mono_router.schema import is_sensitive, pointer_parts

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
MAX_TIMEOUT_MS = 600_000
MAX_RESPONSE_BYTES = 100_000_000

BODY_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}
"""How a body is written, and the content type of each."""

_KEYS = ("method", "url", "path", "query", "body", "body_type", "headers", "timeout_ms", "auth", "response")
PLACEHOLDER = re.compile(r"\{([^{}/]+)\}")
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|\{[^{}/]+\})*)*")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOP_HEADERS = frozenset(
    """
    host authorization proxy-authorization proxy-connection connection keep-alive content-length
    transfer-encoding te trailer upgrade expect cookie accept-encoding content-type content-encoding
    forwarded x-forwarded-host x-forwarded-for x-forwarded-proto x-host x-original-url x-rewrite-url
    x-http-method-override x-http-method x-method-override
    """.split()
)
"""Headers that route, frame or authorise a request: the connection's to set, not a mapping's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Auth:
    """Where a credential of the environment goes."""

    env: str
    header: str = ""
    """Header that carries it; "" = the query does."""
    query: str = ""
    prefix: str = ""
    """Text before it, such as "Bearer "."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """A tool's ``run.http``, read."""

    method: str
    scheme: str
    host: str
    port: int
    path: str
    """Template, with {placeholders}."""
    groups: Mapping[str, Mapping[str, Source]]
    body_type: str
    """One of :data:`BODY_TYPES`."""
    auth: Auth | None
    timeout_s: float
    max_bytes: int
    """Bytes of a response, decoded."""
    select: str
    """JSON pointer into the response."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host, port."""
        return (self.scheme, self.host, self.port)


def origin_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL.

    Raises
    ------
    ValueError
        If it has none.

    >>> origin_of("https://API.example.com/v1")
    ('https', 'api.example.com', 443)
    """
    parts = urlsplit(url)
    ports = {"https": 443, "http": 80}
    if parts.scheme not in ports or not parts.hostname:
        raise ValueError("must be an origin such as https://api.example.com")
    port = ports[parts.scheme] if parts.port is None else parts.port
    return (parts.scheme, parts.hostname.removesuffix("."), port)


def endpoint_problems(tool: Tool) -> list[str]:
    """Return what is wrong with a tool's ``run.http``, its sources apart; one line each.

    >>> endpoint_problems(Tool(id="t", run={"http": {"url": "http://example.com/x"}}))
    ['t: run.http.url must be https (http is for loopback alone)']
    """
    http = (tool.run or {}).get("http")
    if not isinstance(http, Mapping):
        return [f"{tool.id}: run.http must be a mapping"]
    found = [f"{key} is no key of it: {', '.join(_KEYS)}" for key in http if key not in _KEYS]
    if http.get("method", "GET") not in METHODS:
        found.append(f"method must be one of {', '.join(METHODS)}, got {http['method']!r}")
    if http.get("method", "GET") == "GET" and http.get("body"):
        found.append("body cannot be sent with GET")
    if http.get("body_type", "json") not in BODY_TYPES:
        found.append(f"body_type must be one of {', '.join(BODY_TYPES)}, got {http['body_type']!r}")
    found.extend(f"url {text}" for text in _url_problems(http))
    found.extend(_number_problem(http, "timeout_ms", MAX_TIMEOUT_MS))
    response = http.get("response", {})
    if isinstance(response, Mapping):
        found.extend(f"response has unknown key {k!r}" for k in response if k not in ("max_bytes", "select"))
        found.extend(f"response.{t}" for t in _number_problem(response, "max_bytes", MAX_RESPONSE_BYTES))
        try:
            pointer_parts(str(response.get("select", "")))
        except ValueError as error:
            found.append(f"response.select {error}")
    else:
        found.append("response must be a mapping")
    found.extend(_name_problems(http))
    found.extend(_auth_problems(http))
    return [f"{tool.id}: run.http.{text}" for text in found]


def _url_problems(http: Mapping[str, Any]) -> Iterator[str]:
    url = http.get("url")
    if not isinstance(url, str) or not url:
        yield "is missing"
        return
    if not url.isascii() or CONTROL.search(url) or " " in url or "\\" in url:
        yield "holds a character that a URL cannot"
        return
    try:
        scheme, host, _ = origin_of(url)
        parts = urlsplit(url)
    except ValueError:
        yield "must start with an origin such as https://api.example.com"
        return
    if "@" in parts.netloc:
        yield "must not hold a user or a password: use auth"
    if "?" in url or "#" in url:
        yield "must end with its path: name query values under query"
    if "{" in parts.netloc:
        yield "has a placeholder in its origin, which is fixed"
        return
    problem = host_problem(host)
    if problem is not None:
        yield problem
        return
    if scheme == "http" and not is_localhost(host):
        literal = literal_address(host)
        if literal is None or not literal.is_loopback:
            yield "must be https (http is for loopback alone)"
    if not _PATH.fullmatch(parts.path):
        yield "has a path with a character that must be percent-encoded"
    if escapes(PLACEHOLDER.sub("x", parts.path).lstrip("/")):
        yield "has a path with . or .. in it"
    mapped = http.get("path")
    named = set(mapped) if isinstance(mapped, Mapping) else set()
    for name in sorted(named ^ set(PLACEHOLDER.findall(parts.path))):
        yield f"and path must name the same placeholders: {name!r} is in one of them"


def _number_problem(record: Mapping[str, Any], name: str, high: int) -> Iterator[str]:
    value = record.get(name, 1)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        yield f"{name} must be a whole number in [1, {high}], got {value!r}"


def _name_problems(http: Mapping[str, Any]) -> Iterator[str]:
    auth = http.get("auth")
    auth = auth if isinstance(auth, Mapping) else {}
    headers, query, body = (
        mapped if isinstance(mapped := http.get(group) or {}, Mapping) else {}
        for group in ("headers", "query", "body")
    )
    for name in headers:
        if not _HEADER_NAME.fullmatch(str(name)):
            yield f"headers has a name that is no header's: {name!r}"
        elif str(name).lower() in _HOP_HEADERS:
            yield f"headers must not set {name!r}: it is not a mapping's to set"
        elif str(name).lower() == str(auth.get("header", "X-Api-Key" if auth else "")).lower():
            yield f"headers must not set {name!r}: auth does"
    if auth.get("query") in query:
        yield f"query must not set {auth['query']!r}: auth does"
    for group, mapped in (("headers", headers), ("query", query), ("body", body)):
        for name, raw in mapped.items():
            if isinstance(raw, Mapping) and "constant" in raw and is_sensitive(str(name)):
                yield f"{group}.{name} must not be a constant: a catalog holds no credential, use auth"
    places = [body_place(str(name)) for name in body]
    if http.get("body_type") == "form":
        for place in places:
            if len(place) > 1:
                yield f"body cannot set {'/'.join(place)!r} in a form, which is flat"
    for i, one in enumerate(places):
        if any(one == two[: len(one)] for j, two in enumerate(places) if i != j):
            yield f"body sets {'/'.join(one)!r} twice"


def body_place(name: str) -> tuple[str, ...]:
    """Return the names that lead to a member: its own, or those of a JSON pointer.

    >>> body_place("title"), body_place("/customer/id")
    (('title',), ('customer', 'id'))
    """
    return pointer_parts(name) if name.startswith("/") else (name,)


def _auth_problems(http: Mapping[str, Any]) -> Iterator[str]:
    if "auth" not in http:
        return
    auth = http["auth"]
    if not isinstance(auth, Mapping):
        yield "auth must be a mapping"
        return
    kind = auth.get("type")
    keys = {"bearer": ("type", "env"), "api_key": ("type", "env", "header", "query")}.get(str(kind))
    if keys is None:
        yield f"auth.type must be bearer or api_key, got {kind!r}"
        return
    for key in auth:
        if key not in keys:
            yield f"auth has unknown key {key!r}"
    if not isinstance(auth.get("env"), str) or not _ENV.fullmatch(auth["env"]):
        yield "auth.env must name an environment variable"
    if "header" in auth and "query" in auth:
        yield "auth must go to a header or to the query, not to both"
    header = str(auth.get("header", "X-Api-Key"))
    if not _HEADER_NAME.fullmatch(header) or header.lower() in _HOP_HEADERS - {"authorization"}:
        yield f"auth.header cannot be {header!r}"
    if "query" in auth and (not isinstance(auth["query"], str) or not auth["query"]):
        yield "auth.query must be a name"


def read_endpoint(tool: Tool) -> Endpoint:
    """Return the endpoint of a tool that has no problems."""
    http: Mapping[str, Any] = (tool.run or {})["http"]
    scheme, host, port = origin_of(http["url"])
    response = http.get("response", {})
    return Endpoint(
        method=http.get("method", "GET"),
        scheme=scheme,
        host=host,
        port=port,
        path=urlsplit(http["url"]).path or "/",
        groups=group_sources(tool),
        body_type=http.get("body_type", "json"),
        auth=_read_auth(http["auth"]) if "auth" in http else None,
        timeout_s=http.get("timeout_ms", 10_000) / 1e3,
        max_bytes=response.get("max_bytes", 1_000_000),
        select=response.get("select", ""),
    )


def _read_auth(raw: Mapping[str, Any]) -> Auth:
    if raw["type"] == "bearer":
        return Auth(env=raw["env"], header="Authorization", prefix="Bearer ")
    if "query" in raw:
        return Auth(env=raw["env"], query=raw["query"])
    return Auth(env=raw["env"], header=raw.get("header", "X-Api-Key"))


def escapes(text: str) -> bool:
    """Return whether some server could read ``.`` or ``..`` as a segment of this text.

    >>> [escapes(text) for text in ("..", "%2e%2e", "a%2F..%2Fb", "..;x", "1.2..3")]
    [True, True, True, True, False]
    """
    for _ in range(4):  # servers and proxies decode once, some of them again
        shown = unicodedata.normalize("NFKC", text)
        for part in re.split(r"[/\\]", shown):
            if part.partition(";")[0].strip() in (".", ".."):
                return True
        text = unquote(text)
    return False
