"""One request over one connection, with everything that a server could do to us bounded.

The address is resolved, judged and connected to by number, so that no second lookup can change it, while
TLS still checks the host's name. One deadline holds for the lookup, the connection and every read and
write: a server that sends a byte a second gains nothing by it. Bodies are decoded here, a bounded piece at a
time. A connection serves one request: no pool, no cookies, no proxies, no redirects.

httpcore, the connection layer of httpx, is used by itself: httpx's client logs every URL with its query, its
decoders inflate a whole chunk before anyone can look at it, and it has no place to judge an address.
"""

from __future__ import annotations

import contextvars
import logging
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from mono_router.runtime.addresses import AddressRules, is_loopback
from mono_router.runtime.manifest import Endpoint
from mono_router.runtime.requests import Request
from mono_router.runtime.workers import Workers, WorkersClosed

if TYPE_CHECKING:
    import ssl

    import httpcore

Resolve = Callable[[str, int], Sequence[str]]

_PIECE = 65_536
_PART = 16_384


class WireError(Exception):
    """No response came; ``code`` is that of a tool error and the text says why, naming no address."""

    def __init__(self, code: str, reason: str, *, passing: bool = False) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason
        self.passing = passing
        """Whether it may be over in a moment."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered."""

    status: int
    retry_after: str
    """That header's text; "" = none."""
    body: bytes = field(repr=False)
    """Decoded; empty unless the status is 2xx."""


class Deadline:
    """A moment that a call must not pass."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, >= 0."""
        return max(self._at - time.monotonic(), 0.0)

    def check(self) -> float:
        """Return the seconds that are left.

        Raises
        ------
        WireError
            If none are.
        """
        left = self.left()
        if left <= 0:
            raise WireError("TOOL_TIMEOUT", "took too long")
        return left


def system_resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order in which the system prefers them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


# --- silence ---------------------------------------------------------------------------------

_QUIET: contextvars.ContextVar[bool] = contextvars.ContextVar("quiet", default=False)


class _Silence(logging.Filter):
    """Drops the connection layer's own records of our requests: they hold hosts and response headers."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _QUIET.get()


_SILENCE = _Silence()


def _silence() -> None:
    for name in ("connection", "http11", "http2", "proxy"):
        logging.getLogger(f"httpcore.{name}").addFilter(_SILENCE)  # a second time changes nothing


# --- the wire --------------------------------------------------------------------------------


class _Stream:
    """A network stream whose every step ends at the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self.inner = inner
        self.deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.inner.read(max_bytes, timeout=self.deadline.check())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # Small parts: within one, the time limit holds for each of its sends.
        for start in range(0, len(buffer), _PART):
            self.inner.write(buffer[start : start + _PART], timeout=self.deadline.check())

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        inner = self.inner.start_tls(ssl_context, server_hostname, timeout=self.deadline.check())
        return _Stream(inner, self.deadline)

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


class _Backend:
    """Connects to the judged address of the one host, and to nothing else."""

    def __init__(self, wire: Wire, endpoint: Endpoint, deadline: Deadline) -> None:
        self.wire = wire
        self.endpoint = endpoint
        self.deadline = deadline

    def connect_tcp(self, host: str, port: int, **options: Any) -> _Stream:
        import httpcore

        failed: Exception | None = None
        for address in self.wire.addresses(self.endpoint, self.deadline):
            try:
                inner = httpcore.SyncBackend().connect_tcp(address, port, timeout=self.deadline.check())
            except httpcore.ConnectError as error:
                failed = error  # the next address may answer
                continue
            return _Stream(inner, self.deadline)
        raise failed or WireError("TOOL_NETWORK_ERROR", "has a host without an address")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Wire:
    """Sends requests under the host's rules."""

    def __init__(
        self,
        rules: AddressRules,
        *,
        ssl_context: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self.rules = rules
        self._ssl_context = ssl_context
        self._resolve = resolve or system_resolve
        self._lookups = Workers(limit=16, name="mono-router-lookup")
        _silence()

    def close(self) -> None:
        """Let the lookup threads end."""
        self._lookups.close()

    def addresses(self, endpoint: Endpoint, deadline: Deadline) -> list[str]:
        """Return the addresses of an endpoint's host that may be connected to.

        Raises
        ------
        WireError
            If the name is unknown, the lookup takes too long, or no address is allowed.
        """
        host, port = endpoint.host, endpoint.port
        try:
            outcome = self._lookups.run(lambda: self._resolve(host, port), timeout_s=deadline.check())
        except TimeoutError:
            raise WireError("TOOL_TIMEOUT", "took too long to look up") from None
        except WorkersClosed:
            raise WireError("RUNTIME_DISPOSED", "was let go of") from None
        if outcome.error is not None:
            raise WireError("TOOL_NETWORK_ERROR", "has a host that could not be looked up", passing=True)
        allowed = [
            address
            for address in outcome.value
            if self.rules.allows(address, port) and (endpoint.scheme == "https" or is_loopback(address))
        ]
        if not allowed:
            raise WireError("TOOL_NETWORK_ERROR", "has a host whose address is not allowed")
        return allowed

    def send(self, endpoint: Endpoint, request: Request, deadline: Deadline) -> Reply:
        """Return the answer to a request.

        Raises
        ------
        WireError
            If none came, whole, in time and within the endpoint's bounds.
        """
        import httpcore

        token, passing = _QUIET.set(True), False
        try:
            return self._exchange(endpoint, request, deadline)
        except WireError as error:
            code, reason, passing = error.code, error.reason, error.passing
        except httpcore.TimeoutException:
            code, reason = "TOOL_TIMEOUT", "took too long"
        except (httpcore.NetworkError, httpcore.RemoteProtocolError, OSError):
            code, reason = "TOOL_NETWORK_ERROR", "could not be reached, or broke the connection"
            passing = True
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol):
            code, reason = "TOOL_NETWORK_ERROR", "cannot be sent this request"
        finally:
            _QUIET.reset(token)
        # Raised outside the handlers: the cause may hold what nobody may read.
        raise WireError(code, reason, passing=passing)

    def _exchange(self, endpoint: Endpoint, request: Request, deadline: Deadline) -> Reply:
        import httpcore

        origin = (endpoint.scheme.encode(), endpoint.host.encode(), endpoint.port)
        connection = httpcore.HTTPConnection(
            httpcore.Origin(*origin),
            ssl_context=self._context() if endpoint.scheme == "https" else None,
            network_backend=cast("httpcore.NetworkBackend", _Backend(self, endpoint, deadline)),
        )
        body, target = request.body, request.target.encode("ascii")
        length = [] if request.method == "GET" else [("Content-Length", str(len(body or b"")))]
        named = [("Host", _host_header(endpoint)), ("Connection", "close"), *length, *request.headers]
        message = httpcore.Request(
            request.method.encode("ascii"),
            httpcore.URL(scheme=origin[0], host=origin[1], port=origin[2], target=target),
            headers=[(name.encode("ascii"), text.encode("utf-8")) for name, text in named],
            content=body,
        )
        try:
            response = connection.handle_request(message)
            try:
                headers = {name.lower(): text for name, text in response.headers}
                good = 200 <= response.status < 300
                content = _read_body(response, headers, endpoint.max_bytes) if good else b""
            finally:
                response.close()
        finally:
            connection.close()
        retry_after = headers.get(b"retry-after", b"").decode("latin-1")
        return Reply(response.status, retry_after, content)

    def _context(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            import httpcore

            self._ssl_context = httpcore.default_ssl_context()
        return self._ssl_context


def _host_header(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    usual = {"https": 443, "http": 80}[endpoint.scheme]
    return host if endpoint.port == usual else f"{host}:{endpoint.port}"


def _read_body(response: httpcore.Response, headers: dict[bytes, bytes], max_bytes: int) -> bytes:
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    pieces = response.iter_stream()
    if encoding in (b"gzip", b"x-gzip"):
        pieces = _inflated(pieces, max_bytes)
    elif encoding not in (b"identity", b""):
        raise WireError("TOOL_RESPONSE_MALFORMED", "answered in an encoding that was not asked for")
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) > max_bytes:
            raise WireError("TOOL_OUTPUT_LIMIT", f"answered with more than {max_bytes} bytes")
    return bytes(found)


def _inflated(pieces: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield decoded bytes, never more than a bounded piece at a time."""
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
    n_encoded, broken = 0, False
    for piece in pieces:
        n_encoded += len(piece)
        if n_encoded > max_bytes + max_bytes // 100 + 1_000:  # endless blocks of nothing
            raise WireError("TOOL_OUTPUT_LIMIT", f"answered with more than {max_bytes} bytes")
        try:
            yield from _decoded(decoder, piece)
        except zlib.error:
            broken = True
        if broken or decoder.unused_data:
            break
    if broken or decoder.unused_data or not decoder.eof:
        raise WireError("TOOL_RESPONSE_MALFORMED", "answered with a gzip body that is broken")


def _decoded(decoder: Any, piece: bytes) -> Iterator[bytes]:
    """What one received piece decodes to; a full part may have more behind it."""
    part = decoder.decompress(piece, _PIECE)
    yield part
    while not decoder.eof and (decoder.unconsumed_tail or len(part) == _PIECE):
        part = decoder.decompress(decoder.unconsumed_tail, _PIECE)
        yield part
