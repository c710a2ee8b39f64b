"""A local server that plays every kind of API that a tool may meet, well-behaved and hostile.

The first segment of a path says how it behaves (``/echo``, ``/status/404``, ``/slow``, ``/bomb``, ...);
every request is kept as it came over the wire.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SECRET_OF_THE_SERVER = "response-secret-5f1c"
"""Stands in the body and the headers of every answer that is an error."""


@dataclass(frozen=True)
class Seen:
    """One request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case; a header that came twice is joined by "|"."""
    body: bytes

    @property
    def path(self) -> str:
        """Path as it was sent, still encoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)

    @property
    def content(self) -> Any:
        """What the body says, by its content type."""
        if self.headers.get("content-type") == "application/x-www-form-urlencoded":
            return parse_qsl(self.body.decode("ascii"), keep_blank_values=True)
        return json.loads(self.body)


@dataclass
class ToolServer:
    """Where the server is and what it was asked."""

    port: int
    scheme: str = "http"
    seen: list[Seen] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)
    """Path to how often it was asked for."""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def last(self) -> Seen:
        return self.seen[-1]


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    own: ToolServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        headers: dict[str, str] = {}
        for name, text in self.headers.items():
            headers[name.lower()] = f"{headers[name.lower()]}|{text}" if name.lower() in headers else text
        seen = Seen(self.command, self.path, headers, self.rfile.read(length))
        self.own.seen.append(seen)
        path = urlsplit(self.path).path
        self.own.times[path] = self.own.times.get(path, 0) + 1
        kind, _, rest = path.strip("/").partition("/")
        self.close_connection = True
        with suppress(OSError):  # the other side goes early in some tests
            getattr(self, f"answer_{kind.replace('-', '_')}", self.answer_echo)(seen, rest)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        if status >= 300:
            self.send_header("Set-Cookie", f"session={SECRET_OF_THE_SERVER}")
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def answer_echo(self, seen: Seen, rest: str) -> None:
        told = {
            "method": seen.method,
            "path": seen.path,
            "query": seen.query,
            "headers": dict(seen.headers),
            "body": seen.content if seen.body else None,
        }
        self.reply(200, json.dumps(told).encode(), Content_Type="application/json")

    def answer_account(self, seen: Seen, rest: str) -> None:
        name = unquote(rest) or "nobody"
        self.reply(200, json.dumps({"items": [{"id": f"id-of-{name}", "gone": None}]}).encode())

    def answer_status(self, seen: Seen, rest: str) -> None:
        status, _, wait = rest.partition("/")
        headers = {"Retry_After": wait} if wait else {}
        self.reply(int(status), f"{SECRET_OF_THE_SERVER} {seen.target}".encode(), **headers)

    def answer_flaky(self, seen: Seen, rest: str) -> None:
        """``/flaky/<n>/<status>``: fails n times, then answers."""
        n, _, status = rest.partition("/")
        if self.own.times[urlsplit(seen.target).path] > int(n):
            self.reply(200, b'{"fine": true}')
        elif status == "cut":
            self.connection.close()
        else:
            self.reply(int(status), SECRET_OF_THE_SERVER.encode(), Retry_After="0")

    def answer_redirect(self, seen: Seen, rest: str) -> None:
        """``/redirect/<status>/<port>``: points at /stolen on that port."""
        status, _, port = rest.partition("/")
        target = f"http://127.0.0.1:{port}/stolen?token={SECRET_OF_THE_SERVER}"
        self.reply(int(status), b"", Location=target)

    def answer_slow(self, seen: Seen, rest: str) -> None:
        time.sleep(float(rest))
        self.reply(200, b"{}")

    def answer_drip(self, seen: Seen, rest: str) -> None:
        """``/drip/head|body``: a byte at a time, each well within any pause that is allowed."""
        if rest == "body":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        else:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        for _ in range(2_000):
            self.wfile.write(b"1")
            self.wfile.flush()
            time.sleep(0.02)

    def answer_huge(self, seen: Seen, rest: str) -> None:
        """More than anybody wants, and no word of how much."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[")
        for _ in range(int(rest or 2_000)):
            self.wfile.write(b"1," * 5_000)

    def answer_head(self, seen: Seen, rest: str) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: " + b"1" * 1_000_000 + b"\r\n\r\n{}")

    def answer_bomb(self, seen: Seen, rest: str) -> None:
        """Half a GB of zeros in half a MB of gzip."""
        packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        head = packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
        block = packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + head)
        for _ in range(500):
            self.wfile.write(block)

    def answer_empty_blocks(self, seen: Seen, rest: str) -> None:
        """Gzip that decodes to nothing, without end."""
        packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
        self.wfile.write(packer.compress(b"[") + packer.flush(zlib.Z_FULL_FLUSH))
        for _ in range(2_000):
            self.wfile.write(b"\x00\x00\x00\xff\xff" * 1_000)

    def answer_gzip(self, seen: Seen, rest: str) -> None:
        """``/gzip/whole|cut|bad|more``: a list of numbers."""
        packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        whole = packer.compress(json.dumps(list(range(50_000))).encode()) + packer.flush()
        body = {
            "whole": whole,
            "cut": whole[:-20],
            "bad": whole[:200] + bytes(200) + whole[400:],
            "more": whole + b"more",
        }[rest]
        self.reply(200, body, Content_Encoding="gzip")

    def answer_encoded(self, seen: Seen, rest: str) -> None:
        self.reply(200, b"{}", Content_Encoding=rest)

    def answer_broken(self, seen: Seen, rest: str) -> None:
        bodies = {
            "json": f'{{"a": "{SECRET_OF_THE_SERVER}", '.encode(),
            "html": f"<p>{SECRET_OF_THE_SERVER}</p>".encode(),
            "nan": b'{"a": NaN}',
            "bytes": b'{"a": "\xff\xfe"}',
            "deep": b"[" * 100_000,
            "nested": b"[" * 500 + b"]" * 500,
            "digits": b"1" * 10_000,
            "surrogate": b'{"a": "\\ud800"}',
            "empty": b"",
        }
        self.reply(200, bodies[rest])

    def answer_garbage(self, seen: Seen, rest: str) -> None:
        self.wfile.write(b"\x00\x01 no HTTP at all " + SECRET_OF_THE_SERVER.encode() + b"\r\n\r\n")

    def answer_cut(self, seen: Seen, rest: str) -> None:
        """The connection ends in the middle of the body."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[1, 2")


@contextmanager
def tool_server(*, context: ssl.SSLContext | None = None) -> Iterator[ToolServer]:
    """A server that runs until the block ends."""
    own = ToolServer(port=0, scheme="http" if context is None else "https")
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), type("Answers", (_Answers,), {"own": own}))
    httpd.daemon_threads = True
    httpd.handle_error = lambda request, address: None  # type: ignore[method-assign]
    if context is not None:
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    own.port = httpd.server_address[1]
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield own
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
