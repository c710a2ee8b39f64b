"""Tools behind HTTP, against a server that answers and attacks: what is sent, what comes back."""

from __future__ import annotations

import json
import logging
import re
import shutil
import ssl
import subprocess
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tool_server import SECRET_OF_THE_SERVER, ToolServer, tool_server

from mono_router.catalog import Catalog
from mono_router.records import Call, Tool
from mono_router.runtime.addresses import AddressRules
from mono_router.runtime.calls import CallContext, ToolAnswer, ToolError
from mono_router.runtime.connections import Wire
from mono_router.runtime.endpoints import HttpRunner
from mono_router.runtime.execution import Runs
from mono_router.runtime.manifest import read_endpoint
from mono_router.runtime.mapping import CallValues, dependency_problems
from mono_router.runtime.requests import make_request
from mono_router.text import clean

CREDENTIAL = "credential-sentinel-9a7d"
FACT = "fact-sentinel-33b0"
ARGUMENT = "argument-sentinel-8c2e"
SECRETS = (CREDENTIAL, FACT, ARGUMENT, SECRET_OF_THE_SERVER)


@pytest.fixture(scope="module")
def server() -> Iterator[ToolServer]:
    with tool_server() as running:
        yield running


@pytest.fixture
def runner(server: ToolServer) -> Iterator[HttpRunner]:
    """A runner that may reach the server, with one credential for it."""
    made = HttpRunner(
        auth={"TOOL_KEY": server.origin, "access_token": server.origin},
        allow_addresses=["127.0.0.1"],
        environ={"TOOL_KEY": CREDENTIAL, "OTHER_KEY": "other-service"},
        backoff_s=0.001,
    )
    yield made
    made.close()


def tool_of(url: str, *, arguments: str = "", system: str = "", effects: Any = "read", **http: Any) -> Tool:
    """An HTTP tool with text arguments."""
    names = [*arguments.split(), *system.split()]
    run_system = http.pop("run_system", None)
    run: dict[str, Any] = {"http": {"url": url, **http}}
    if run_system is not None:
        run["system"] = run_system
    return Tool(
        id="shop.tool",
        input_schema={"type": "object", "properties": {n: {} for n in names}, "required": system.split()},
        system_arguments=tuple(system.split()),
        effects=effects,
        run=run,
    )


def arg(name: str) -> dict[str, str]:
    return {"argument": name}


def answer(runner: HttpRunner, tool: Tool, context: CallContext | None = None, **arguments: Any) -> Any:
    """The value of a call to a tool without problems."""
    assert runner.problems(tool) == []
    return runner.run(tool, arguments, context or CallContext()).value


def failure(
    runner: HttpRunner, tool: Tool, context: CallContext | None = None, **arguments: Any
) -> ToolError:
    """The error of a call; it tells no secret and no endpoint, and has no cause that does."""
    with pytest.raises(ToolError) as caught:
        runner.run(tool, arguments, context or CallContext())
    error = caught.value
    shown = f"{error} {error!r} {error.__context__!r} {error.__cause__!r}"
    assert not any(secret in shown for secret in SECRETS), shown
    assert "127.0.0.1" not in shown
    assert "http://" not in shown
    return error


# --- what is sent ----------------------------------------------------------------------------


def test_every_group_maps_every_source(server: ToolServer, runner: HttpRunner) -> None:
    """Path, query, body and headers take arguments, facts, constants and a uuid; lists repeat in a query."""
    tool = tool_of(
        server.origin + "/echo/{city}/days/{n}",
        arguments="city n tags text after",
        system="user_id",
        method="POST",
        effects="write",
        path={"city": arg("city"), "n": arg("n")},
        query={"tag": arg("tags"), "flag": {"constant": True}, "gone": arg("after")},
        body={"text": arg("text"), "/user/id": arg("user_id"), "/user/kind": {"constant": {"a": [1]}}},
        headers={"X-User": {"fact": "user_id"}, "Idempotency-Key": {"uuid": True}},
    )
    told = answer(
        runner,
        tool,
        CallContext(facts={"user_id": "u1"}),
        city="Málaga",
        n=3,
        tags=["a b", "c&d"],
        text="سلام",
    )
    assert told["path"] == "/echo/M%C3%A1laga/days/3"
    assert told["query"] == [["tag", "a b"], ["tag", "c&d"], ["flag", "true"]]
    assert told["body"] == {"text": "سلام", "user": {"id": "u1", "kind": {"a": [1]}}}
    assert told["headers"]["x-user"] == "u1"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", told["headers"]["idempotency-key"])
    assert told["headers"]["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(("method", "place"), [("GET", "query"), ("DELETE", "query"), ("POST", "body")])
def test_without_a_group_arguments_go_where_the_method_has_them(
    server: ToolServer, runner: HttpRunner, method: str, place: str
) -> None:
    """A tool that maps nothing sends its arguments in the query, or as a JSON body."""
    told = answer(runner, tool_of(server.origin + "/echo", arguments="q n", method=method), q="x")
    assert told[place] == ([["q", "x"]] if place == "query" else {"q": "x"})
    assert told["method"] == method


def test_a_system_argument_is_one_value_wherever_it_goes(server: ToolServer, runner: HttpRunner) -> None:
    """A uuid that fills a system argument is the same in the header and in the body."""
    tool = tool_of(
        server.origin + "/echo",
        system="key",
        method="POST",
        headers={"X-Key": arg("key")},
        body={"key": arg("key")},
        run_system={"key": {"uuid": True}},
    )
    told = answer(runner, tool)
    assert told["headers"]["x-key"] == told["body"]["key"] != ""


def test_a_dependency_chain_supplies_an_argument(server: ToolServer, runner: HttpRunner) -> None:
    """The account's id comes from a tool that needs the name that another tool gives."""
    schema = {"properties": {"name": {}}, "required": ["name"]}
    name = Tool(
        id="a.name", run={"http": {"url": server.origin + "/echo/ana", "response": {"select": "/path"}}}
    )
    account = Tool(
        id="b.account",
        input_schema=schema,
        run={"http": {"url": server.origin + "/account/{n}", "path": {"n": arg("name")}}},
    )
    find = {
        "dependency": "b.account",
        "select": "/items/0/id",
        "arguments": {"name": {"dependency": "a.name"}},
    }
    top = tool_of(server.origin + "/echo", system="account_id", run_system={"account_id": find})
    catalog = Catalog([name, account, top])
    assert dependency_problems(catalog) == []

    def run_tool(tool_id: str, arguments: Any) -> ToolAnswer:
        return runner.run(catalog[tool_id], arguments, CallContext(run_tool=run_tool))

    before = len(server.seen)
    told = answer(runner, top, CallContext(run_tool=run_tool))
    assert told["query"] == [["account_id", "id-of-/echo/ana"]]
    assert [seen.path for seen in server.seen[before:]] == ["/echo/ana", "/account/%2Fecho%2Fana", "/echo"]


def test_a_dependency_is_given_only_what_it_takes(server: ToolServer, runner: HttpRunner) -> None:
    """What a user wrote, or a fact, does not pass by a dependency's schema on its way to a server."""
    schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    path = {"n": arg("n")}
    find = Tool(
        id="find", input_schema=schema, run={"http": {"url": server.origin + "/account/{n}", "path": path}}
    )
    source = {"dependency": "find", "select": "/items/0/id", "arguments": {"n": {"fact": "number"}}}
    top = tool_of(server.origin + "/echo", system="account_id", run_system={"account_id": source})
    catalog = Catalog([find, top])
    runs = Runs(catalog=catalog, runnable={tool.id: (runner, tool) for tool in catalog})
    before = len(server.seen)
    ran = runs.run(Call(tool=top.id, arguments={}), facts={"number": "sentinel-7"})
    assert ran.error is not None
    assert ran.error.code == "DEPENDENCY_UNRESOLVED"
    assert "find does not take what it is given: n (ARGUMENT_SCHEMA)" in ran.error.message
    assert "sentinel-7" not in ran.error.message
    assert len(server.seen) == before
    ran = runs.run(Call(tool=top.id, arguments={}), facts={"number": 7})
    assert ran.error is None
    assert [seen.path for seen in server.seen[before:]] == ["/account/7", "/echo"]


@pytest.mark.parametrize(
    ("auth", "header", "query"),
    [
        ({"type": "bearer", "env": "TOOL_KEY"}, ("authorization", f"Bearer {CREDENTIAL}"), []),
        ({"type": "api_key", "env": "TOOL_KEY"}, ("x-api-key", CREDENTIAL), []),
        ({"type": "api_key", "env": "TOOL_KEY", "header": "X-Shop"}, ("x-shop", CREDENTIAL), []),
        ({"type": "api_key", "env": "TOOL_KEY", "query": "key"}, None, [("key", CREDENTIAL)]),
    ],
    ids=["bearer", "key in the usual header", "key in a header", "key in the query"],
)
def test_a_credential_goes_where_the_manifest_says(
    server: ToolServer, runner: HttpRunner, auth: Any, header: Any, query: Any
) -> None:
    """It is read from the environment at the call, and a server that echoes it gives it to nobody."""
    told = answer(runner, tool_of(server.origin + "/echo", auth=auth))
    if header:
        assert server.last.headers[header[0]] == header[1]
    assert server.last.query == query
    assert CREDENTIAL not in json.dumps(told)


def test_a_missing_or_unusable_credential_is_told_before_anything_is_sent(server: ToolServer) -> None:
    """AUTH_REQUIRED names the variable; what would break a header is not sent."""
    tool = tool_of(server.origin + "/echo", auth={"type": "bearer", "env": "TOOL_KEY"})
    before = len(server.seen)
    for value in (None, "", "  ", "a\r\nX-Evil: 1", "zwölf"):
        runner = HttpRunner(
            auth={"TOOL_KEY": server.origin},
            allow_addresses=["localhost"],
            environ={} if value is None else {"TOOL_KEY": value},
        )
        error = failure(runner, tool)
        assert error.code == "AUTH_REQUIRED"
        assert error.category == "auth"
        assert "TOOL_KEY" in error.message
        runner.close()
    assert len(server.seen) == before


# --- what comes back -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "TOOL_CLIENT_ERROR"), (401, "AUTH_REJECTED"), (403, "AUTH_REJECTED"),
        (404, "TOOL_CLIENT_ERROR"), (409, "TOOL_CLIENT_ERROR"), (429, "TOOL_RATE_LIMITED"),
        (500, "TOOL_SERVER_ERROR"), (503, "TOOL_SERVER_ERROR"), (304, "TOOL_CLIENT_ERROR"),
    ],
)  # fmt: skip
def test_a_status_has_its_code(server: ToolServer, runner: HttpRunner, status: int, code: str) -> None:
    """Refused credential, wrong call, broken server: told apart, with nothing of the answer's text."""
    error = failure(runner, tool_of(f"{server.origin}/status/{status}"))
    assert error.code == code
    assert str(status) in error.message


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/broken/json", "TOOL_RESPONSE_MALFORMED"),
        ("/broken/html", "TOOL_RESPONSE_MALFORMED"),
        ("/broken/nan", "TOOL_RESPONSE_MALFORMED"),
        ("/broken/bytes", "TOOL_RESPONSE_MALFORMED"),
        ("/broken/deep", "TOOL_RESPONSE_MALFORMED"),
        ("/broken/nested", "TOOL_RESPONSE_MALFORMED"),
        ("/broken/digits", "TOOL_RESPONSE_MALFORMED"),
        ("/encoded/br", "TOOL_RESPONSE_MALFORMED"),
        ("/gzip/cut", "TOOL_RESPONSE_MALFORMED"),
        ("/gzip/bad", "TOOL_RESPONSE_MALFORMED"),
        ("/gzip/more", "TOOL_RESPONSE_MALFORMED"),
        ("/garbage", "TOOL_NETWORK_ERROR"),
        ("/cut", "TOOL_NETWORK_ERROR"),
        ("/head", "TOOL_NETWORK_ERROR"),
        ("/huge", "TOOL_OUTPUT_LIMIT"),
        ("/empty-blocks", "TOOL_OUTPUT_LIMIT"),
    ],
)
def test_a_broken_answer_has_its_code(server: ToolServer, runner: HttpRunner, path: str, code: str) -> None:
    """Broken, endless and undecodable answers are errors of their own kind, never an exception."""
    assert failure(runner, tool_of(server.origin + path, effects="write")).code == code


def test_answers_are_selected_and_cleaned(server: ToolServer, runner: HttpRunner) -> None:
    """A pointer picks a part; a gzip body is read; an empty body is None; surrogates become U+FFFD."""
    url = server.origin
    assert answer(runner, tool_of(url + "/account/ana", response={"select": "/items/0/id"})) == "id-of-ana"
    assert answer(runner, tool_of(url + "/gzip/whole"))[-1] == 49_999
    assert answer(runner, tool_of(url + "/broken/empty")) is None
    assert answer(runner, tool_of(url + "/broken/surrogate")) == {"a": "\ufffd"}
    error = failure(runner, tool_of(url + "/account/ana", response={"select": "/items/7"}))
    assert (error.code, error.message) == ("TOOL_RESPONSE_MALFORMED", "shop.tool answered without /items/7")


def test_the_bound_is_on_decoded_bytes(server: ToolServer, runner: HttpRunner) -> None:
    """A body of exactly the limit passes; one byte less of limit does not."""
    size = len(json.dumps(list(range(50_000))))
    assert len(answer(runner, tool_of(server.origin + "/gzip/whole", response={"max_bytes": size}))) == 50_000
    error = failure(runner, tool_of(server.origin + "/gzip/whole", response={"max_bytes": size - 1}))
    assert error.code == "TOOL_OUTPUT_LIMIT"


def test_a_gzip_bomb_fills_no_memory(server: ToolServer, runner: HttpRunner) -> None:
    """Half a GB in half a MB is dropped at the limit, a small piece at a time."""
    failure(runner, tool_of(server.origin + "/bomb", effects="write"))
    tracemalloc.start()
    error = failure(runner, tool_of(server.origin + "/bomb", effects="write"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.code == "TOOL_OUTPUT_LIMIT"
    assert peak < 12_000_000  # the limit is 1 MB; the server's own part is in this figure too


@pytest.mark.parametrize("path", ["/slow/8", "/drip/head", "/drip/body"])
def test_the_whole_call_ends_at_its_limit(server: ToolServer, runner: HttpRunner, path: str) -> None:
    """A server that waits, or sends a byte at a time, costs the time limit and no more."""
    started = time.monotonic()
    error = failure(runner, tool_of(server.origin + path, timeout_ms=250))
    assert error.code == "TOOL_TIMEOUT"
    assert error.message == "shop.tool took too long (limit 0.25 s)"
    assert time.monotonic() - started < 6  # the slow answer takes 8 s, drips go on for 40


def test_a_slow_lookup_ends_at_the_limit() -> None:
    """A resolver that hangs is left behind."""
    runner = HttpRunner(resolve=lambda host, port: time.sleep(8) or [])
    started = time.monotonic()
    error = failure(runner, tool_of("https://api.example.com/x", timeout_ms=100))
    assert (error.code, time.monotonic() - started < 6) == ("TOOL_TIMEOUT", True)
    runner.close()


def test_nobody_listens(runner: HttpRunner) -> None:
    """A refused connection and an unknown host are network errors; a read-only call was tried again."""
    with tool_server() as gone:
        url = gone.origin + "/echo"
    error = failure(runner, tool_of(url))
    assert (error.code, error.category, error.retries) == ("TOOL_NETWORK_ERROR", "network", 2)
    assert failure(runner, tool_of(url, effects="write")).retries == 0

    def unknown(host: str, port: int) -> list[str]:
        raise OSError(f"no such host {ARGUMENT}")

    lost = HttpRunner(resolve=unknown, retries=0)
    assert failure(lost, tool_of("https://nowhere.example.com/")).code == "TOOL_NETWORK_ERROR"
    lost.close()


# --- trying again ----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["429", "500", "503", "cut"])
@pytest.mark.parametrize(
    ("effects", "method", "tries"),
    [("read", "GET", 3), ("read", "POST", 3), ("write", "POST", 1), ("read", "PUT", 1)],
)
def test_only_read_only_calls_are_tried_again(
    server: ToolServer, runner: HttpRunner, fault: str, effects: Any, method: str, tries: int
) -> None:
    """A read gets over two faults in a row; a write is sent once, and so is a PUT that says it reads."""
    path = f"/flaky/2/{fault}"
    server.times[path] = 0
    tool = tool_of(server.origin + path, effects=effects, method=method)
    if tries == 3:
        got = runner.run(tool, {}, CallContext())
        assert (got.value, got.retries) == ({"fine": True}, 2)
    else:
        assert failure(runner, tool).retries == 0
    assert server.times[path] == tries


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_is_not_tried_again(server: ToolServer, runner: HttpRunner, status: int) -> None:
    """What the server will refuse again is sent once."""
    before = len(server.seen)
    failure(runner, tool_of(f"{server.origin}/status/{status}"))
    assert len(server.seen) == before + 1


@pytest.mark.parametrize("wait", ["3600", "soon", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_a_wait_beyond_the_limit_is_not_waited(server: ToolServer, runner: HttpRunner, wait: str) -> None:
    """Retry-After is honoured within the call's time limit, or the call ends at once."""
    started = time.monotonic()
    error = failure(
        runner, tool_of(f"{server.origin}/status/429/{wait.replace(' ', '%20')}", timeout_ms=60_000)
    )
    assert (error.code, error.retries) == ("TOOL_RATE_LIMITED", 0)
    assert time.monotonic() - started < 20


# --- attacks on what is sent -----------------------------------------------------------------

WAYS_OUT = [
    "../../admin", "..", ".", "%2e%2e", "%2e%2e%2fadmin", "..%2fadmin", "%252e%252e", "%252e%252e%252fadmin",
    "..\\admin", "a/../../admin", "..;/admin", "．．/admin", "‥/admin", " .. ", "", "a\x1bb", "a\r\nb",
]  # fmt: skip


@pytest.mark.parametrize("value", WAYS_OUT)
def test_a_way_out_of_the_path_is_refused(server: ToolServer, runner: HttpRunner, value: str) -> None:
    """Dot segments in any spelling reach no server, not even one that decodes too often."""
    before = len(server.seen)
    tool = tool_of(server.origin + "/users/{id}/orders", arguments="id", path={"id": arg("id")})
    assert failure(runner, tool, id=value).code == "INPUT_INVALID"
    assert len(server.seen) == before


def test_dots_made_of_two_arguments_are_refused(server: ToolServer, runner: HttpRunner) -> None:
    """A segment is judged whole."""
    tool = tool_of(server.origin + "/u/{a}{b}/x", arguments="a b", path={"a": arg("a"), "b": arg("b")})
    assert failure(runner, tool, a=".", b=".").code == "INPUT_INVALID"
    assert answer(runner, tool, a=".", b="git")["path"] == "/u/.git/x"
    assert failure(runner, tool, a="x").message == "shop.tool: b is needed in the path"


@pytest.mark.parametrize(
    "value", ["a/b", "//evil.example.com", "@evil.example.com", "?x=1", "#x", "a%2Fb", "ü", "1.2"]
)
def test_other_texts_stay_one_segment(server: ToolServer, runner: HttpRunner, value: str) -> None:
    """Slashes, question marks and percent signs are encoded."""
    tool = tool_of(server.origin + "/users/{id}/orders", arguments="id", path={"id": arg("id")})
    path = answer(runner, tool, id=value)["path"]
    _, users, segment, orders = path.split("/")
    assert (users, orders, unquote(segment)) == ("users", "orders", value)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x1bb", "a\x7fb", "x" * 9_000])
def test_a_header_carries_no_line_break(server: ToolServer, runner: HttpRunner, value: str) -> None:
    """What would begin another header is refused."""
    before = len(server.seen)
    tool = tool_of(server.origin + "/echo", arguments="v", headers={"X-V": arg("v")})
    error = failure(runner, tool, v=value)
    assert error.message == "shop.tool: header X-V holds what a header cannot carry, or is too long"
    assert len(server.seen) == before
    assert answer(runner, tool, v="سلام x")["headers"]["x-v"].encode("latin-1").decode() == "سلام x"


TEXTS = st.text(st.characters(codec=None), max_size=60)
PIECES = st.sampled_from(
    ["..", "/", "\\", "%2e", "%2f", "@", ":", "?", "#", "\r\n", "Host: x", "http://e.com/", "&"]
)
HOSTILE = TEXTS | st.lists(PIECES | TEXTS, max_size=6).map("".join)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
@example("http://evil.example.com/", "x&admin=1", "\ud800", "a")
def test_no_text_changes_where_a_request_goes(a: str, b: str, c: str, d: str) -> None:
    """Whatever the arguments say: same method, path around them, names in query, body and headers."""
    tool = tool_of(
        "https://api.example.com/v1/users/{id}/orders",
        arguments="id q t h",
        method="POST",
        path={"id": arg("id")},
        query={"q": arg("q"), "fixed": {"constant": 1}},
        body={"t": arg("t")},
        headers={"X-H": arg("h")},
    )
    endpoint = read_endpoint(tool)
    assert endpoint.origin == ("https", "api.example.com", 443)
    values = CallValues(tool, {"id": a, "q": b, "t": c, "h": d}, CallContext())
    try:
        request = make_request(tool, endpoint, values)
    except ToolError as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        assert refused.code == "INPUT_INVALID"
        assert not any(len(text) > 6 and text in str(refused) for text in (a, b, c, d))
        return
    assert re.fullmatch(r"/v1/users/[A-Za-z0-9_.~%-]+/orders\?q=[A-Za-z0-9_.~%-]*&fixed=1", request.target)
    segment = request.target.split("/")[3]
    assert segment not in (".", "..")
    assert request.method == "POST"
    assert [name for name, _ in request.headers] == [
        "Accept",
        "Accept-Encoding",
        "User-Agent",
        "X-H",
        "Content-Type",
    ]
    assert not any(re.search(r"[\x00-\x1f\x7f]", text) for _, text in request.headers)
    assert list(json.loads(request.body or b"")) == ["t"]


def test_a_form_is_flat_and_encoded(server: ToolServer, runner: HttpRunner) -> None:
    """Lists repeat, objects are JSON, null and what was not given are left out."""
    tool = tool_of(
        server.origin + "/echo",
        arguments="to tags more gone none",
        method="POST",
        effects="write",
        body_type="form",
        body={
            "To": arg("to"),
            "tag": arg("tags"),
            "more": arg("more"),
            "gone": arg("gone"),
            "none": arg("none"),
            "n": {"constant": 3},
        },
    )
    told = answer(runner, tool, to="+20 a&b=c سلام", tags=["x y", "z"], more={"a": [1]}, none=None)
    assert told["headers"]["content-type"] == "application/x-www-form-urlencoded"
    assert told["body"] == [
        ["To", "+20 a&b=c سلام"],
        ["tag", "x y"],
        ["tag", "z"],
        ["more", '{"a":[1]}'],
        ["n", "3"],
    ]


@given(HOSTILE, HOSTILE)
@example("x&admin=1", "a=b;c")
def test_no_text_adds_a_field_to_a_form(a: str, b: str) -> None:
    """A form has the fields of the manifest, with what was given."""
    body = {"a": arg("a"), "b": arg("b")}
    tool = tool_of("https://api.example.com/x", arguments="a b", method="POST", body_type="form", body=body)
    values = CallValues(tool, {"a": a, "b": b}, CallContext())
    request = make_request(tool, read_endpoint(tool), values)
    assert request.body is not None
    sent = parse_qsl(request.body.decode("ascii"), keep_blank_values=True, strict_parsing=True)
    assert sent == [("a", clean(a)), ("b", clean(b))]


def test_no_text_changes_where_a_request_arrives(server: ToolServer, runner: HttpRunner) -> None:
    """The same over the wire: every request that is sent arrives at its place, with its own headers."""
    tool = tool_of(
        server.origin + "/echo/{id}/x",
        arguments="id q h",
        path={"id": arg("id")},
        query={"q": arg("q")},
        headers={"X-H": arg("h")},
    )

    @given(HOSTILE, HOSTILE, HOSTILE)
    def arrives(a: str, b: str, c: str) -> None:
        try:
            told = runner.run(tool, {"id": a, "q": b, "h": c}, CallContext()).value
        except ToolError as error:
            if error.code != "INPUT_INVALID":
                raise
            return
        assert re.fullmatch(r"/echo/[^/]+/x", told["path"])
        assert [name for name, _ in told["query"]] == ["q"]
        assert set(told["headers"]) == {
            "host", "connection", "accept", "accept-encoding", "user-agent", "x-h"
        }  # fmt: skip
        assert told["headers"]["host"] == f"127.0.0.1:{server.port}"

    arrives()


# --- attacks on where it goes ----------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(server: ToolServer, runner: HttpRunner, status: int) -> None:
    """Neither to this machine nor anywhere else, and no credential goes along."""
    with tool_server() as other:
        tool = tool_of(
            f"{server.origin}/redirect/{status}/{other.port}", auth={"type": "bearer", "env": "TOOL_KEY"}
        )
        error = failure(runner, tool)
        assert error.code == "TOOL_CLIENT_ERROR"
        assert error.message == f"shop.tool was redirected, which is never followed (status {status})"
        assert other.seen == []


PRIVATE_HOSTS = [
    "127.0.0.1", "localhost", "api.localhost", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "192.168.1.1",
    "172.16.0.1", "100.64.0.1", "169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "0.0.0.0", "[::]",
    "[::ffff:169.254.169.254]", "[64:ff9b::10.0.0.1]", "[2002:7f00:1::]", "168.63.129.16", "224.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", PRIVATE_HOSTS)
def test_an_address_that_is_not_public_is_refused_at_load(host: str) -> None:
    """Private, loopback, link-local, metadata: a manifest that names one does not load."""
    strict = HttpRunner()
    tool = tool_of(f"https://{host}/x")
    says = "shop.tool: run.http.url has an address that is not public and that the host does not list"
    assert strict.problems(tool) == [says]
    assert failure(strict, tool).code == "CONFIG_INVALID"
    strict.close()


@pytest.mark.parametrize(
    "host", ["2130706433", "0177.0.0.1", "0x7f000001", "127.1", "0x7f.0.0.1", "017700000001"]
)
def test_an_unusual_spelling_of_an_address_is_refused_at_load(host: str) -> None:
    """Decimal, octal and hexadecimal forms do not load, even where the address is listed."""
    listing = HttpRunner(allow_addresses=["127.0.0.0/8"])
    says = "shop.tool: run.http.url has a host that is an unusual spelling of an address"
    assert listing.problems(tool_of(f"https://{host}/x")) == [says]
    listing.close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "fe80::1%lo",
        "0.0.0.0",
        "x",
        "127.1",
    ],
)
def test_a_name_that_resolves_to_one_is_refused_at_the_connection(server: ToolServer, address: str) -> None:
    """The address is judged, not the name."""
    runner = HttpRunner(resolve=lambda host, port: [address], retries=0)
    before = len(server.seen)
    error = failure(runner, tool_of(f"https://api.example.com:{server.port}/echo"))
    assert error.message == "shop.tool has a host whose address is not allowed"
    assert len(server.seen) == before
    runner.close()


def test_a_name_is_looked_up_once_and_its_address_pinned(server: ToolServer) -> None:
    """A name that changes its address after it was judged is connected to at the address that was judged."""
    asked: list[str] = []

    def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.2"] if len(asked) == 1 else ["127.0.0.1"]

    runner = HttpRunner(allow_addresses=["127.0.0.2"], resolve=rebinding, retries=0)
    before = len(server.seen)
    error = failure(runner, tool_of(f"https://api.example.com:{server.port}/echo"))
    assert error.message == "shop.tool could not be reached, or broke the connection"  # nobody is there
    assert (asked, len(server.seen)) == (["api.example.com"], before)
    runner.close()


def test_what_the_host_lists_is_reached(server: ToolServer) -> None:
    """An address, a network, a name for this machine, each with or without a port; metadata only by name."""
    for entry in (
        "127.0.0.1",
        "127.0.0.0/8",
        "localhost",
        f"127.0.0.1:{server.port}",
        f"localhost:{server.port}",
    ):
        listing = HttpRunner(allow_addresses=[entry])
        assert answer(listing, tool_of(server.origin + "/echo"))["path"] == "/echo"
        listing.close()
    rules = AddressRules.of(["127.0.0.1:1", "[::1]:2", "169.254.169.254"])
    assert [rules.allows("127.0.0.1", port) for port in (1, 2)] == [True, False]
    assert [rules.allows("::1", port) for port in (1, 2)] == [False, True]
    assert rules.allows("169.254.169.254", 80)
    private = AddressRules.of(allow_private=True)
    assert all(private.allows(a, 80) for a in ("127.0.0.1", "::1", "10.0.0.1", "fd12::1", "::ffff:10.0.0.1"))
    assert not any(
        private.allows(a, 80) for a in ("169.254.169.254", "fd00:ec2::254", "0.0.0.0", "100.100.100.200")
    )
    with pytest.raises(ValueError, match=r"allow_addresses must hold an address, .*, got 'example.com'"):
        HttpRunner(allow_addresses=["example.com"])


def test_plain_http_never_leaves_this_machine() -> None:
    """A name below localhost that resolves to elsewhere is refused, even to an address that is listed."""
    runner = HttpRunner(allow_addresses=["10.0.0.1", "localhost"], resolve=lambda host, port: ["10.0.0.1"])
    assert failure(runner, tool_of("http://api.localhost/x")).code == "TOOL_NETWORK_ERROR"
    runner.close()


def test_proxies_of_the_environment_are_ignored(
    server: ToolServer, runner: HttpRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that the environment names sees nothing."""
    with tool_server() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.origin)
        assert answer(runner, tool_of(server.origin + "/echo"))["path"] == "/echo"
        assert proxy.seen == []


# --- attacks by a catalog --------------------------------------------------------------------


def test_another_services_credential_is_refused_at_load(server: ToolServer, runner: HttpRunner) -> None:
    """A credential goes to its own origin: another host, port, scheme or variable does not load."""
    auth = {"type": "bearer", "env": "TOOL_KEY"}
    before = len(server.seen)
    wrong = {
        "https://evil.example.com/x": auth,
        f"http://127.0.0.1:{server.port + 1}/x": auth,
        f"https://127.0.0.1:{server.port}/x": auth,
        f"http://127.0.0.2:{server.port}/x": auth,
    }
    for url, asked in wrong.items():
        says = "shop.tool: run.http.auth asks for TOOL_KEY, which the host gives to another origin"
        tool = tool_of(url, auth=asked)
        assert says in runner.problems(tool)
        assert failure(runner, tool).code == "CONFIG_INVALID"
    other = tool_of(server.origin + "/echo", auth={"type": "bearer", "env": "OTHER_KEY"})
    says = "shop.tool: run.http.auth asks for OTHER_KEY, which the host gives to no origin"
    assert runner.problems(other) == [f"{says} (config.yml, auth: {{OTHER_KEY: https://...}})"]
    assert failure(runner, other).code == "CONFIG_INVALID"
    assert len(server.seen) == before
    with pytest.raises(ValueError, match=r"auth\.KEY must be an origin"):
        HttpRunner(auth={"KEY": "api.example.com"})


def test_a_fact_that_is_a_credential_goes_where_the_host_says(server: ToolServer, runner: HttpRunner) -> None:
    """By a mapping, by its default source, or behind an argument: only to its origin."""
    context = CallContext(facts={"access_token": FACT})
    told = answer(
        runner, tool_of(server.origin + "/echo", headers={"X-T": {"fact": "access_token"}}), context
    )
    assert told["headers"]["x-t"] == FACT
    says = "shop.tool: run sends fact access_token, which the host gives to another origin"
    for tool in (
        tool_of("https://evil.example.com/x", headers={"X-T": {"fact": "access_token"}}),
        tool_of("https://evil.example.com/x", system="access_token"),
        tool_of("https://evil.example.com/x", system="t", run_system={"t": {"fact": "access_token"}}),
    ):
        assert runner.problems(tool) == [says]


MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "no url": ({"url": None}, "url is missing"),
    "no origin": ({"url": "/orders"}, "url must start with an origin"),
    "other scheme": ({"url": "file:///etc/passwd"}, "url must start with an origin"),
    "plain http": ({"url": "http://api.example.com/x"}, "url must be https"),
    "plain http to an address": ({"url": "http://8.8.8.8/x"}, "url must be https"),
    "user in url": ({"url": f"https://u:{CREDENTIAL}@api.example.com/"}, "url must not hold a user"),
    "query in url": ({"url": f"https://api.example.com/?key={CREDENTIAL}"}, "url must end with its path"),
    "fragment": ({"url": "https://api.example.com/#x"}, "url must end with its path"),
    "placeholder in host": ({"url": "https://{host}/x"}, "url has a placeholder in its origin"),
    "placeholder in port": ({"url": "https://api.example.com:{port}/x"}, "url (has a place|must start)"),
    "port out of range": ({"url": "https://api.example.com:99999/x"}, "url must start with an origin"),
    "line break": ({"url": "https://api.example.com/\r\nx"}, "url holds a character"),
    "backslash": ({"url": "https://api.example.com\\@evil.com/"}, "url holds a character"),
    "not ASCII": ({"url": "https://аpi.example.com/"}, "url holds a character"),
    "dots": ({"url": "https://api.example.com/a/../b"}, r"url has a path with \. or \.\."),
    "encoded dots": ({"url": "https://api.example.com/a/%2e%2e/b"}, r"url has a path with \. or \.\."),
    "bad host": ({"url": "https://a..b/"}, "url has a host that is no ASCII host name"),
    "zone": ({"url": "https://[fe80::1%25eth0]/"}, "url has a host"),
    "unmapped placeholder": ({"url": "https://api.example.com/{id}"}, "url and path must name .*'id'"),
    "method": ({"method": "TRACE"}, "method must be one of GET, .*, got 'TRACE'"),
    "body with GET": ({"body": {"a": {"constant": 1}}}, "body cannot be sent with GET"),
    "Host": ({"headers": {"hOst": {"constant": "x"}}}, "headers must not set 'hOst'"),
    "Authorization": ({"headers": {"Authorization": {"constant": "x"}}}, "headers must not set"),
    "Transfer-Encoding": ({"headers": {"Transfer-Encoding": {"constant": "x"}}}, "headers must not set"),
    "header with a break": ({"headers": {"X\r\nY": {"constant": "x"}}}, "headers has a name"),
    "auth's own header": (
        {"headers": {"x-api-key": arg("q")}, "auth": {"type": "api_key", "env": "K"}},
        "headers must not set 'x-api-key': auth does",
    ),
    "auth's own query": (
        {"query": {"key": arg("q")}, "auth": {"type": "api_key", "env": "K", "query": "key"}},
        "query must not set 'key': auth does",
    ),
    "constant credential": ({"query": {"api_key": {"constant": CREDENTIAL}}}, r"query\.api_key must not be"),
    "body twice": (
        {"method": "POST", "body": {"/a": {"constant": 1}, "/a/b": {"constant": 1}}},
        "body sets 'a' twice",
    ),
    "auth type": ({"auth": {"type": "basic", "env": "K"}}, "auth.type must be bearer or api_key"),
    "auth value": ({"auth": {"type": "bearer", "token": CREDENTIAL}}, "auth has unknown key 'token'"),
    "auth env": ({"auth": {"type": "bearer", "env": "a b"}}, "auth.env must name an environment variable"),
    "auth in Host": ({"auth": {"type": "api_key", "env": "K", "header": "Host"}}, "auth.header cannot be"),
    "auth twice": ({"auth": {"type": "api_key", "env": "K", "header": "A", "query": "b"}}, "auth must go"),
    "timeout": ({"timeout_ms": 0}, r"timeout_ms must be a whole number in \[1, 600000\], got 0"),
    "timeout without end": ({"timeout_ms": 10**9}, "timeout_ms must be a whole number"),
    "max_bytes": ({"response": {"max_bytes": "1"}}, r"response\.max_bytes must be a whole number"),
    "select": ({"response": {"select": "items"}}, r"response\.select must be a JSON pointer"),
    "response key": ({"response": {"format": "xml"}}, "response has unknown key 'format'"),
    "body type": ({"body_type": "xml"}, "body_type must be one of json, form, got 'xml'"),
    "nested form": (
        {"method": "POST", "body_type": "form", "body": {"/a/b": {"constant": 1}}},
        "body cannot set 'a/b' in a form, which is flat",
    ),
    "unknown key": ({"verify": False}, "verify is no key of it"),
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_wrong_manifest_is_told_at_load(runner: HttpRunner, name: str) -> None:
    """One line that names tool and field and shows no credential; the tool does not run."""
    http, says = MANIFESTS[name]
    tool = tool_of(**{"url": "https://api.example.com/x", "arguments": "q", **http})  # type: ignore[arg-type]
    problems = runner.problems(tool)
    assert any(re.match(rf"shop\.tool: run\.http\.({says})", text) for text in problems), problems
    assert all("\n" not in text and CREDENTIAL not in text for text in problems)
    assert failure(runner, tool).code == "CONFIG_INVALID"


def test_a_run_that_is_no_http_is_told() -> None:
    """Unknown keys and a mapping that is none."""
    strict = HttpRunner()
    assert strict.problems(Tool(id="t", run={"http": "https://x.com"})) == ["t: run.http must be a mapping"]
    http = {"url": "https://api.example.com/"}
    assert strict.problems(Tool(id="t", run={"http": http, "shell": "ls"})) == [
        "t: run has unknown key 'shell'"
    ]
    strict.close()


# --- secrets ---------------------------------------------------------------------------------


def test_secrets_stand_in_no_log_and_no_error(
    server: ToolServer, runner: HttpRunner, caplog: pytest.LogCaptureFixture
) -> None:
    """At DEBUG, from every logger, over good and bad answers: no credential, fact, argument or host."""
    caplog.set_level(logging.DEBUG)
    context = CallContext(facts={"user": FACT, "access_token": FACT}, session_id="s")
    paths = [
        "/echo",
        "/status/401",
        "/status/500",
        "/broken/json",
        "/redirect/302/1",
        "/cut",
        "/garbage",
        "/head",
    ]
    for path in paths:
        tool = tool_of(
            server.origin + path + "/{a}",
            arguments="a",
            path={"a": arg("a")},
            query={"a": arg("a"), "u": {"fact": "user"}},
            headers={"X-T": {"fact": "access_token"}},
            auth={"type": "api_key", "env": "TOOL_KEY", "query": "key"},
        )
        if path == "/echo":
            answer(runner, tool, context, a=ARGUMENT)
        else:
            failure(runner, tool, context, a=ARGUMENT)
    with tool_server() as gone:
        pass
    failure(runner, tool_of(gone.origin + "/x", arguments="a"), a=ARGUMENT)
    assert CREDENTIAL in server.last.target  # they were really sent
    text = "\n".join(f"{record.getMessage()} {record.args} {record.exc_text}" for record in caplog.records)
    assert not any(secret in text for secret in (*SECRETS, "127.0.0.1", str(server.port)))
    assert FACT not in repr(context)


def test_the_hosts_own_use_of_the_connection_layer_is_still_logged(
    server: ToolServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Only our requests are silent."""
    import httpcore

    Wire(AddressRules()).close()
    caplog.set_level(logging.DEBUG)
    httpcore.request("GET", server.origin + "/echo")
    assert any("receive_response_headers" in record.getMessage() for record in caplog.records)


# --- TLS and the rest ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for api.example.com in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not on this machine")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x -keyout key.pem -out cert.pem"
    names = ["-addext", "subjectAltName=DNS:api.example.com"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return both


def test_tls_checks_the_name_though_the_address_is_pinned(certificate: Path) -> None:
    """The manifest's host passes with its certificate; another host, or an unknown authority, does not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    with tool_server(context=context) as secure:
        for host, trust, good in (
            ("api.example.com", trusting, True),
            ("other.example.com", trusting, False),
            ("api.example.com", None, False),
        ):
            runner = HttpRunner(
                allow_addresses=["localhost"],
                resolve=lambda host, port: ["::1", "127.0.0.1"],
                ssl_context=trust,
                retries=0,
            )
            tool = tool_of(f"https://{host}:{secure.port}/echo")
            if good:
                assert answer(runner, tool)["headers"]["host"] == f"{host}:{secure.port}"
            else:
                assert failure(runner, tool).code == "TOOL_NETWORK_ERROR"
            runner.close()


def test_a_closed_runner_says_so(server: ToolServer) -> None:
    """RUNTIME_DISPOSED, not an exception of the threads'."""
    runner = HttpRunner(allow_addresses=["localhost"])
    runner.close()
    assert failure(runner, tool_of(server.origin + "/echo")).code == "RUNTIME_DISPOSED"
