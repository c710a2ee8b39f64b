"""Tools in Python: one call in, what the function returned as plain data out, or an error with its code.

``run.python`` names ``module:function``, and only modules that the host lists are imported; or it names
an object that the host gave. Functions run on threads of their own with a time limit, coroutines on a loop
of their own. An exception is told by its type alone, since its text may hold anything.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from mono_router.records import Tool
from mono_router.runtime.answers import AnswerError, plain_answer
from mono_router.runtime.calls import CallContext, ToolAnswer, ToolError
from mono_router.runtime.mapping import CallValues, mapping_problems
from mono_router.runtime.workers import Loop, NoFreeThread, Outcome, Workers, WorkersClosed

TIMEOUT_MS = 10_000
MAX_TIMEOUT_MS = 600_000
MAX_CHARS = 1_000_000
"""Characters of an answer."""
_RUN_KEYS = ("python", "system", "timeout_ms")
_REFERENCE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")
_IMPORTS = threading.RLock()


class PythonRunner:
    """Runs the tools that have ``run.python``.

    >>> runner = PythonRunner(objects={"double": lambda n: 2 * n})
    >>> schema = {"properties": {"n": {"type": "integer"}}}
    >>> double = Tool(id="double", input_schema=schema, run={"python": "double"})
    >>> runner.run(double, {"n": 21}, CallContext()).value
    42
    >>> runner.problems(Tool(id="x", run={"python": "os:system"}))
    ["x: run.python names module 'os', which the host does not list (python_modules)"]
    >>> runner.close()
    """

    def __init__(
        self,
        modules: Iterable[str | ModuleType] = (),
        objects: Mapping[str, Callable[..., Any]] | None = None,
        *,
        search_path: str | Path | None = None,
        timeout_ms: int = TIMEOUT_MS,
        max_threads: int = 32,
        max_chars: int = MAX_CHARS,
    ) -> None:
        """Make a runner of the host's functions.

        Parameters
        ----------
        modules
            Names of the modules that may be imported, or modules themselves.
        objects
            Functions by the id of the tool that each stands for (whatever its ``run`` says), or by the name
            or ``module:function`` that ``run.python`` gives them.
        search_path
            Folder in which modules are looked for before the usual places.
        timeout_ms
            Time limit of a call whose ``run`` states none.
        max_threads
            Functions that run at once, those over their time included.
        max_chars
            Characters of an answer.

        Raises
        ------
        ValueError
            If ``modules`` is one name and no list.
        """
        if isinstance(modules, str):
            raise ValueError(f"modules must be a list of names, got {modules!r}")
        modules = tuple(modules)
        self._loaded: dict[str, ModuleType] = {m.__name__: m for m in modules if isinstance(m, ModuleType)}
        self._modules = {m for m in modules if isinstance(m, str)} | set(self._loaded)
        self._objects = dict(objects or {})
        self._search_path = None if search_path is None else Path(search_path).resolve()
        self.timeout_ms = timeout_ms
        self.max_chars = max_chars
        self._workers = Workers(limit=max_threads)
        self._loop = Loop()

    @property
    def abandoned(self) -> int:
        """Calls over their time that still hold a thread, and loops that were given up."""
        return self._workers.abandoned + self._loop.abandoned

    def close(self) -> None:
        """Cancel coroutines and let idle threads end; a function that runs ends by itself."""
        self._workers.close()
        self._loop.close()

    def problems(self, tool: Tool) -> list[str]:
        """Return what is wrong with the tool's ``run``, one line each; empty = it can run.

        Modules that the host lists are imported for it.
        """
        run = tool.run or {}
        known = (*_RUN_KEYS, "http") if tool.id in self._objects else _RUN_KEYS
        found = [f"{tool.id}: run has unknown key {key!r}" for key in run if key not in known]
        limit = run.get("timeout_ms", self.timeout_ms)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_TIMEOUT_MS:
            text = f"run.timeout_ms must be a whole number in [1, {MAX_TIMEOUT_MS}], got {limit!r}"
            found.append(f"{tool.id}: {text}")
        found += mapping_problems(tool)
        try:
            function = self._function(tool)
        except ToolError as error:
            return [*found, error.message]
        return [*found, *_signature_problems(tool, function)]

    def run(self, tool: Tool, arguments: Mapping[str, Any], context: CallContext) -> ToolAnswer:
        """Return the answer to a call whose user arguments are checked.

        Raises
        ------
        ToolError
            If it could not be completed.
        """
        function = self._function(tool)
        limit_s = (tool.run or {}).get("timeout_ms", self.timeout_ms) / 1e3
        values = CallValues(tool, copy.deepcopy(dict(arguments)), context).all()
        until = time.monotonic() + limit_s
        try:
            outcome = self._call(partial(function, **values), until)
        except NoFreeThread:
            code = "TOOL_TIMEOUT"
            text = f"found no free thread ({self._workers.abandoned} calls are over their time)"
        except TimeoutError:
            code, text = "TOOL_TIMEOUT", f"took over {limit_s:g} s"
        except WorkersClosed:
            code, text = "RUNTIME_DISPOSED", "cannot run: its runner is closed"
        else:
            code, text, value = self._read(outcome)
            if not code:
                return ToolAnswer(value=value)
        # Raised outside the handlers: the cause may hold what nobody may read.
        raise ToolError(code, f"{tool.id} {text}")

    def _call(self, function: Callable[[], Any], until: float) -> Outcome:
        if _is_async(function):
            return self._loop.run(function, timeout_s=until - time.monotonic())
        outcome = self._workers.run(function, timeout_s=until - time.monotonic())
        if inspect.isawaitable(outcome.value):
            return self._loop.run(lambda: outcome.value, timeout_s=until - time.monotonic())
        return outcome

    def _read(self, outcome: Outcome) -> tuple[str, str, Any]:
        if outcome.error is not None:
            return "TOOL_EXECUTION_FAILED", f"raised {type(outcome.error).__name__}", None
        try:
            return "", "", plain_answer(outcome.value, max_chars=self.max_chars)
        except AnswerError as error:
            return error.code, str(error), None
        except Exception as error:  # a container of the tool's own, whose methods may do anything
            return "TOOL_RESPONSE_MALFORMED", f"gave an answer that raised {type(error).__name__}", None

    def _function(self, tool: Tool) -> Callable[..., Any]:
        reference = (tool.run or {}).get("python")
        for name in (tool.id, reference):
            if isinstance(name, str) and name in self._objects:
                return self._objects[name]
        found = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
        if found is None:
            raise _refused(tool, "must be module:function or the name of a given object")
        name = found["module"]
        if name not in self._modules:
            raise _refused(tool, f"names module {name!r}, which the host does not list (python_modules)")
        module = self._module(tool, name)
        function = getattr(module, found["name"], None)
        if function is None:
            raise _refused(tool, f"names {found['name']!r}, which {name!r} does not have")
        public = found["name"] in getattr(module, "__all__", ())
        # What a listed module merely imported (subprocess.run, os.system) is not the host's choice.
        home = f"{getattr(function, '__module__', '')}."
        own = home.startswith(f"{module.__name__}.") and not found["name"].startswith("_")
        if not callable(function) or inspect.isclass(function) or not (own or public):
            raise _refused(tool, f"names {found['name']!r}, which is no function of {name!r} itself")
        checked: Callable[..., Any] = function
        return checked

    def _module(self, tool: Tool, name: str) -> ModuleType:
        if name not in self._loaded:
            failure = ""
            with _IMPORTS:
                try:
                    self._loaded[name] = self._import(name)
                except ModuleNotFoundError as error:
                    failure = f"{error.name!r} is not found"
                except BaseException as error:  # whatever the module's own code raises
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    failure = str(error) if isinstance(error, _Elsewhere) else type(error).__name__
            if failure:
                raise _refused(tool, f"names module {name!r}, which cannot be imported: {failure}")
        return self._loaded[name]

    def _import(self, name: str) -> ModuleType:
        folder = self._search_path
        if folder is None or not _is_in(folder, name):
            return importlib.import_module(name)
        first = name.split(".")[0]
        if _FOLDERS.get(first, folder) != folder:
            # Another catalog's folder has a module of this name; its functions stay with whoever took them.
            for loaded in [key for key in sys.modules if key == first or key.startswith(f"{first}.")]:
                del sys.modules[loaded]
        sys.path.insert(0, str(folder))
        try:
            importlib.invalidate_caches()
            module = importlib.import_module(name)
        finally:
            sys.path.remove(str(folder))
        # A module of the same name that was loaded before would run in its place.
        file = getattr(module, "__file__", None)
        if file is None or folder not in Path(os.path.realpath(file)).parents:
            raise _Elsewhere("another module of that name is loaded")
        _FOLDERS[first] = folder
        return module


_FOLDERS: dict[str, Path] = {}
"""Names that were imported from a catalog's folder, and the folder."""


class _Elsewhere(Exception):
    """A module was found in another place than the one asked for."""


def _is_in(folder: Path, name: str) -> bool:
    first = folder / name.split(".")[0]
    return first.is_dir() or first.with_suffix(".py").is_file()


def _is_async(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )


def _signature_problems(tool: Tool, function: Callable[..., Any]) -> Iterator[str]:
    """Arguments that a call could never pass."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that states none
        return
    names = tool.input_schema.get("properties", {})
    by_name = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for name in names:
            if name not in {p.name for p in by_name}:
                yield f"{tool.id}: run.python takes no argument {name!r}"
    for p in parameters:
        needed = p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        if needed and (p.kind is p.POSITIONAL_ONLY or p.name not in names):
            yield f"{tool.id}: run.python needs {p.name!r}, which is no argument of the tool"


def _refused(tool: Tool, text: str) -> ToolError:
    return ToolError("CONFIG_INVALID", f"{tool.id}: run.python {text}")
