"""Tools in Python: only what the host lists runs, in bounded time, and answers in plain data."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import json
import logging
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mono_router.records import Tool
from mono_router.runtime.calls import CallContext, ToolError
from mono_router.runtime.tools import PythonRunner
from mono_router.runtime.workers import Loop, NoFreeThread, Workers, WorkersClosed

SECRET = "exception-sentinel-77ab"
MODULE = """
    from __future__ import annotations

    import functools
    import subprocess
    from dataclasses import dataclass
    from os import system
    from subprocess import run as launch

    from {name}_store import ROWS

    __all__ = ["add", "shared"]

    @dataclass
    class Event:
        title: str
        guests: tuple[str, ...] = ()

    def add(title: str, user_id: str) -> Event:
        return Event(title, (user_id, *ROWS))

    async def later(n: int) -> dict[str, int]:
        return {{"n": n}}

    def logged(function):
        @functools.wraps(function)
        def inner(**arguments):
            return function(**arguments)
        return inner

    @logged
    def wrapped(n: int) -> int:
        return n + 1

    def _hidden() -> int:
        return 1

    number = 3
    shared = functools.partial(pow, 2)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of tools, the module that it needs, and one that cannot be imported."""
    place = tmp_path_factory.mktemp("tools")
    (place / "my_tools_test.py").write_text(textwrap.dedent(MODULE.format(name="my_tools_test")))
    (place / "my_tools_test_store.py").write_text("ROWS = ['Ana']\n")
    (place / "broken_tools_test.py").write_text(f"raise RuntimeError('{SECRET}')\n")
    (place / "exiting_tools_test.py").write_text("raise SystemExit(3)\n")
    (place / "json.py").write_text("def loads(): return 1\n")
    return place


@pytest.fixture(scope="module")
def listed(folder: Path) -> Iterator[PythonRunner]:
    names = ("my_tools_test", "broken_tools_test", "exiting_tools_test", "json", "gone_test")
    runner = PythonRunner(names, search_path=folder)
    yield runner
    runner.close()


def tool_of(reference: Any, arguments: str = "", system: str = "", **run: Any) -> Tool:
    names = [*arguments.split(), *system.split()]
    return Tool(
        id="my.tool",
        input_schema={"properties": {name: {} for name in names}, "required": system.split()},
        system_arguments=tuple(system.split()),
        run={"python": reference, **run},
    )


@pytest.fixture
def run() -> Iterator[Callable[..., Any]]:
    """Runs a function as a tool: its answer."""
    made: list[PythonRunner] = []

    def run_function(function: Callable[..., Any], *, limit: int = 10_000, **arguments: Any) -> Any:
        runner = PythonRunner(objects={"f": function}, timeout_ms=limit, max_chars=10_000)
        made.append(runner)
        return runner.run(tool_of("f", " ".join(arguments)), arguments, CallContext()).value

    yield run_function
    for runner in made:
        runner.close()


def failure(run: Callable[..., Any], function: Callable[..., Any], **options: Any) -> ToolError:
    """The error of a call, which has no cause that tells more."""
    with pytest.raises(ToolError) as caught:
        run(function, **options)
    error = caught.value
    assert SECRET not in f"{error} {error!r} {error.__context__!r} {error.__cause__!r}"
    return error


# --- what may run ----------------------------------------------------------------------------


def test_a_listed_module_is_imported_and_its_functions_run(listed: PythonRunner) -> None:
    """From the given folder, with the modules beside it; the import path stays as it was."""
    path = list(sys.path)
    add = tool_of("my_tools_test:add", "title", "user_id")
    later = tool_of("my_tools_test:later", "n")
    wrapped = tool_of("my_tools_test:wrapped", "n")
    shared = tool_of("my_tools_test:shared", "exp")
    assert [listed.problems(tool) for tool in (add, later, wrapped, shared)] == [[], [], [], []]
    context = CallContext(facts={"user_id": "u1"})
    assert listed.run(add, {"title": "x"}, context).value == {"title": "x", "guests": ["u1", "Ana"]}
    assert listed.run(later, {"n": 2}, context).value == {"n": 2}
    assert listed.run(wrapped, {"n": 2}, context).value == 3
    assert listed.run(shared, {"exp": 3}, context).value == 8
    assert sys.path == path


UNLISTED = ", which the host does not list (python_modules)"
NOT_ITS_OWN = "which is no function of 'my_tools_test' itself"
REFUSED = {
    "os:system": "names module 'os'" + UNLISTED,
    "subprocess:run": "names module 'subprocess'" + UNLISTED,
    "builtins:eval": "names module 'builtins'" + UNLISTED,
    "my_tools_test.os:system": "names module 'my_tools_test.os'" + UNLISTED,
    "my_tools_test_store:ROWS": "names module 'my_tools_test_store'" + UNLISTED,
    "my_tools_test:system": "names 'system', " + NOT_ITS_OWN,
    "my_tools_test:launch": "names 'launch', " + NOT_ITS_OWN,
    "my_tools_test:subprocess": "names 'subprocess', " + NOT_ITS_OWN,
    "my_tools_test:_hidden": "names '_hidden', " + NOT_ITS_OWN,
    "my_tools_test:__builtins__": "names '__builtins__', " + NOT_ITS_OWN,
    "my_tools_test:Event": "names 'Event', " + NOT_ITS_OWN,
    "my_tools_test:number": "names 'number', " + NOT_ITS_OWN,
    "my_tools_test:gone": "names 'gone', which 'my_tools_test' does not have",
    "my_tools_test:subprocess.run": "must be module:function or the name of a given object",
    "my_tools_test:add()": "must be module:function or the name of a given object",
    "../my_tools_test:add": "must be module:function or the name of a given object",
    "add": "must be module:function or the name of a given object",
    "broken_tools_test:f": "names module 'broken_tools_test', which cannot be imported: RuntimeError",
    "exiting_tools_test:f": "names module 'exiting_tools_test', which cannot be imported: SystemExit",
    "gone_test:f": "names module 'gone_test', which cannot be imported: 'gone_test' is not found",
    "json:loads": "names module 'json', which cannot be imported: another module of that name is loaded",
}  # fmt: skip


@pytest.mark.parametrize("reference", REFUSED)
def test_what_the_host_does_not_list_is_refused_by_name(listed: PythonRunner, reference: str) -> None:
    """Other modules, what a listed module merely imported, hidden names: not at load, not at a call."""
    tool = tool_of(reference)
    assert listed.problems(tool) == [f"my.tool: run.python {REFUSED[reference]}"]
    with pytest.raises(ToolError) as caught:
        listed.run(tool, {}, CallContext())
    assert caught.value.code == "CONFIG_INVALID"
    assert SECRET not in str(caught.value)


def test_nothing_is_listed_by_default(tmp_path: Path) -> None:
    """Without the host's word nothing is imported, not even to look."""
    mark = tmp_path / "imported"
    (tmp_path / "eager_tools_test.py").write_text(f"open({str(mark)!r}, 'w').close()\ndef f(): return 1\n")
    runner = PythonRunner(search_path=tmp_path)
    assert len(runner.problems(tool_of("eager_tools_test:f"))) == 1
    assert not mark.exists()
    assert (
        PythonRunner(["eager_tools_test"], search_path=tmp_path).problems(tool_of("eager_tools_test:f")) == []
    )
    assert mark.exists()
    with pytest.raises(ValueError, match="modules must be a list of names, got 'os'"):
        PythonRunner("os")


def test_objects_stand_in_for_modules() -> None:
    """A function by its name, by module:function or by the tool's id; a module that the host made."""
    made = ModuleType("made_tools_test")
    exec("def f(n): return n * 2", made.__dict__)
    runner = PythonRunner([made], {"g": lambda n: n, "os:system": lambda n: -n, "by.id": lambda n: n + 1})
    for reference, answer in (("made_tools_test:f", 42), ("g", 21), ("os:system", -21)):
        assert runner.problems(tool_of(reference, "n")) == []
        assert runner.run(tool_of(reference, "n"), {"n": 21}, CallContext()).value == answer
    bare = Tool(id="by.id", input_schema={"properties": {"n": {}}}, run={"http": {"url": "https://x.com"}})
    assert runner.problems(bare) == []
    assert runner.run(bare, {"n": 21}, CallContext()).value == 22
    assert len(runner.problems(tool_of(["g"], "n"))) == 1
    runner.close()


def test_a_function_that_cannot_take_the_arguments_is_told_at_load() -> None:
    """Names that it does not take, and names that it needs and the tool does not have."""
    objects: dict[str, Callable[..., Any]] = {
        "narrow": lambda a: a,
        "wide": lambda **arguments: arguments,
        "needy": lambda a, b, *, c, d=1: a,
        "placed": lambda a, /: a,
    }
    runner = PythonRunner(objects=objects)
    assert runner.problems(tool_of("narrow", "a b")) == ["my.tool: run.python takes no argument 'b'"]
    assert runner.problems(tool_of("wide", "a b")) == []
    assert runner.problems(tool_of("needy", "a b")) == [
        "my.tool: run.python needs 'c', which is no argument of the tool"
    ]
    assert len(runner.problems(tool_of("placed", "a"))) == 2
    assert runner.problems(tool_of("wide", timeout_ms="1", shell="ls")) == [
        "my.tool: run has unknown key 'shell'",
        "my.tool: run.timeout_ms must be a whole number in [1, 600000], got '1'",
    ]


# --- answers ---------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    inner: Any = None


def row() -> sqlite3.Row:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    found: sqlite3.Row = connection.execute("select 1 as a, 'x' as b").fetchone()
    connection.close()
    return found


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None), (True, True), (3, 3), (2.5, 2.5), ("é", "é"), ("a\ud800", "a\ufffd"),
        ((1, [2]), [1, [2]]), ({3, 1}, [1, 3]), ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        (Point(1, Point(2)), {"x": 1, "inner": {"x": 2, "inner": None}}),
        (namedtuple("Pair", "a b")(1, 2), {"a": 1, "b": 2}),
        (datetime.datetime(2026, 3, 10, 9, 30), "2026-03-10T09:30:00"), (datetime.time(9, 30), "09:30:00"),
        (decimal.Decimal("1.50"), "1.50"), (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"), (np.int64(3), 3), (np.float64(0.5), 0.5), (np.array([[1, 2]]), [[1, 2]]),
        (row(), {"a": 1, "b": "x"}),
    ],
)  # fmt: skip
def test_answers_become_plain_data(run: Callable[..., Any], value: Any, plain: Any) -> None:
    """Records, rows, dates and numbers of every kind, ready for JSON."""
    answer = run(lambda: value)
    assert answer == plain
    assert json.loads(json.dumps(answer)) == plain


class Rude(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError(SECRET)


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (object(), "TOOL_RESPONSE_MALFORMED"), (float("nan"), "TOOL_RESPONSE_MALFORMED"),
        ([float("inf")], "TOOL_RESPONSE_MALFORMED"), (b"x", "TOOL_RESPONSE_MALFORMED"),
        (LOOP, "TOOL_RESPONSE_MALFORMED"), ({(1, 2): 3}, "TOOL_RESPONSE_MALFORMED"),
        (Point, "TOOL_RESPONSE_MALFORMED"), ((i for i in [1]), "TOOL_RESPONSE_MALFORMED"),
        (Rude(a=1), "TOOL_RESPONSE_MALFORMED"),
        ("x" * 20_000, "TOOL_OUTPUT_LIMIT"), (["x"] * 20_000, "TOOL_OUTPUT_LIMIT"),
        (10**40_000, "TOOL_OUTPUT_LIMIT"), ({str(i): i for i in range(9_999)}, "TOOL_OUTPUT_LIMIT"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 else type(value).__name__,
)  # fmt: skip
def test_an_answer_without_a_plain_form_has_its_code(run: Callable[..., Any], value: Any, code: str) -> None:
    """Named by its type, never shown."""
    assert failure(run, lambda: value).code == code


def boom() -> None:
    raise ValueError(SECRET)


def leave() -> None:
    raise SystemExit(SECRET)


async def boom_later() -> None:
    await asyncio.sleep(0)
    raise KeyError(SECRET)


async def leave_later() -> None:
    raise SystemExit(SECRET)


@pytest.mark.parametrize(
    ("function", "name"),
    [(boom, "ValueError"), (leave, "SystemExit"), (boom_later, "KeyError"), (leave_later, "SystemExit")],
)
def test_an_exception_is_told_by_its_type(
    run: Callable[..., Any], function: Callable[..., Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its text stands in no error and no log."""
    caplog.set_level(logging.DEBUG)
    error = failure(run, function)
    assert (error.code, error.message) == ("TOOL_EXECUTION_FAILED", f"my.tool raised {name}")
    assert SECRET not in caplog.text
    assert run(lambda: 1) == 1


def test_a_tool_cannot_change_the_callers_arguments(run: Callable[..., Any]) -> None:
    """It gets a copy."""
    given = {"a": [1]}
    assert run(lambda a: a["a"].append(2) or a, a=given) == {"a": [1, 2]}
    assert given == {"a": [1]}


# --- time ------------------------------------------------------------------------------------


def test_a_function_over_its_time_is_left_behind_and_counted() -> None:
    """The call ends at the limit; the thread is taken until the function ends, then it serves again."""
    release = threading.Event()
    runner = PythonRunner(objects={"wait": release.wait, "quick": lambda: 1}, max_threads=1)
    slow = tool_of("wait", timeout_ms=50)
    with pytest.raises(ToolError, match=r"TOOL_TIMEOUT: my\.tool took over 0\.05 s"):
        runner.run(slow, {}, CallContext())
    assert runner.abandoned == 1
    with pytest.raises(ToolError, match=r"TOOL_TIMEOUT: my\.tool found no free thread \(1 calls are over"):
        runner.run(tool_of("quick", timeout_ms=50), {}, CallContext())
    release.set()
    assert runner.run(tool_of("quick"), {}, CallContext()).value == 1
    assert runner.abandoned == 0
    runner.close()


def test_a_coroutine_over_its_time_is_cancelled() -> None:
    """It sees the cancellation; the loop serves on."""
    seen = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.set()

    runner = PythonRunner(objects={"f": forever, "g": partial(asyncio.sleep, 0, 7)})
    with pytest.raises(ToolError, match="TOOL_TIMEOUT"):
        runner.run(tool_of("f", timeout_ms=50), {}, CallContext())
    assert seen.wait(5)
    assert runner.run(tool_of("g"), {}, CallContext()).value == 7
    assert runner.abandoned == 0
    runner.close()


def test_a_coroutine_that_blocks_the_loop_is_left_behind() -> None:
    """The next call gets another loop."""
    release = threading.Event()

    async def blocking() -> None:
        release.wait()

    async def answer() -> int:
        return 1

    runner = PythonRunner(objects={"f": blocking, "g": answer})
    with pytest.raises(ToolError, match="TOOL_TIMEOUT"):
        runner.run(tool_of("f", timeout_ms=50), {}, CallContext())
    assert runner.abandoned == 1
    assert runner.run(tool_of("g"), {}, CallContext()).value == 1
    release.set()
    runner.close()


def test_coroutines_run_inside_a_running_loop() -> None:
    """As in a notebook's kernel, where a loop runs already; a function may return an awaitable too."""

    async def answer() -> str:
        return threading.current_thread().name

    class Callable_:
        async def __call__(self) -> str:
            return threading.current_thread().name

    runner = PythonRunner(objects={"f": answer, "g": lambda: answer(), "h": Callable_()})

    async def kernel() -> list[str]:
        return [runner.run(tool_of(name), {}, CallContext()).value for name in "fgh"]

    assert asyncio.run(kernel()) == ["mono-router-loop"] * 3
    runner.close()


def test_threads_are_bounded_and_reused() -> None:
    """Many calls from many threads: never more at once than the limit, none lost, threads reused."""
    now, most, names, lock = [0], [0], set(), threading.Lock()

    def work(n: int) -> int:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            names.add(threading.get_ident())
        time.sleep(0.001)
        with lock:
            now[0] -= 1
        return n

    runner = PythonRunner(objects={"f": work}, max_threads=4)
    found: list[int] = []

    def caller(first: int) -> None:
        for n in range(first, first + 20):
            value = runner.run(tool_of("f", "n"), {"n": n}, CallContext()).value
            with lock:
                found.append(value)

    callers = [threading.Thread(target=caller, args=(20 * i,)) for i in range(12)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert sorted(found) == list(range(240))
    assert most[0] <= 4
    assert len(names) <= 4
    runner.close()


def test_a_closed_runner_says_so() -> None:
    """RUNTIME_DISPOSED for functions and coroutines; closing twice is fine."""

    async def answer() -> int:
        return 1

    runner = PythonRunner(objects={"f": answer, "g": lambda: 1})
    assert runner.run(tool_of("f"), {}, CallContext()).value == 1
    runner.close()
    runner.close()
    for name in "fg":
        with pytest.raises(ToolError, match=r"RUNTIME_DISPOSED: my\.tool cannot run: its runner is closed"):
            runner.run(tool_of(name), {}, CallContext())


def test_workers_and_loops_say_what_ended() -> None:
    """The seam beneath: outcomes, limits, and the errors of closed ones."""
    workers, loop = Workers(limit=1), Loop()
    assert isinstance(workers.run(boom, timeout_s=5).error, ValueError)
    release = threading.Event()
    with pytest.raises(TimeoutError):
        workers.run(release.wait, timeout_s=0.02)
    with pytest.raises(NoFreeThread):
        workers.run(boom, timeout_s=0.02)
    release.set()
    workers.close()
    loop.close()
    with pytest.raises(WorkersClosed):
        workers.run(boom, timeout_s=1)
    with pytest.raises(WorkersClosed):
        loop.run(boom_later, timeout_s=1)
    with pytest.raises(ValueError, match="limit must be >= 1, got 0"):
        Workers(limit=0)


def test_an_abandoned_call_does_not_keep_the_program() -> None:
    """The interpreter ends though a function still runs."""
    code = """
        import time
        from mono_router.records import Tool
        from mono_router.runtime.calls import CallContext, ToolError
        from mono_router.runtime.tools import PythonRunner
        runner = PythonRunner(objects={"f": lambda: time.sleep(600)}, timeout_ms=20)
        try:
            runner.run(Tool(id="t", run={"python": "f"}), {}, CallContext())
        except ToolError as error:
            print(error.code)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "TOOL_TIMEOUT\n"


def test_two_folders_may_hold_a_module_of_the_same_name(tmp_path: Path) -> None:
    """Each runner runs its own folder's functions, the first one too after the second was made."""
    runners = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        text = f"from twin_part_test import PLACE\ndef where():\n    return PLACE + {place!r}\n"
        (tmp_path / place / "twin_tools_test.py").write_text(text, encoding="utf-8")
        (tmp_path / place / "twin_part_test.py").write_text("PLACE = 'in '\n", encoding="utf-8")
        runner = PythonRunner(["twin_tools_test"], search_path=tmp_path / place)
        assert runner.problems(tool_of("twin_tools_test:where")) == []
        runners.append(runner)
    found = [r.run(tool_of("twin_tools_test:where"), {}, CallContext()).value for r in (*runners, runners[0])]
    assert found == ["in one", "in two", "in one"]
