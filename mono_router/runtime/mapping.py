"""The values of a call: every source checked when a catalog is loaded, and resolved when a tool runs.

A catalog goes in and problems come out, one line each; a tool, its arguments and a
:class:`~mono_router.runtime.calls.CallContext` go in and values come out. A dependency is a read-only tool
whose answer supplies a value; it runs once a call, through the context, with the checks of any other call.
"""

from __future__ import annotations

import contextvars
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from mono_router.catalog import Catalog
from mono_router.records import Tool, canonical_json
from mono_router.runtime.answers import pick_part
from mono_router.runtime.calls import CallContext, ToolAnswer, ToolError
from mono_router.runtime.sources import GROUPS, Source, group_sources, read_source, system_sources
from mono_router.schema import is_sensitive

ABSENT: Any = object()
"""What an optional argument that was not given has for a value."""
_CHAIN: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("chain", default=())


def mapping_problems(tool: Tool) -> list[str]:
    """Return what is wrong with a tool's sources, as far as the tool alone tells; one line each.

    >>> run = {"python": "m:f", "system": {"user": {"argument": "name"}}}
    >>> mapping_problems(Tool(id="t", system_arguments=("user",), run=run,
    ...                       input_schema={"properties": {"user": {}}}))
    ["t: run.system.user: unknown argument 'name'"]
    """
    run = tool.run or {}
    found: list[str] = []
    system = run.get("system", {})
    if not isinstance(system, Mapping):
        found.append(f"{tool.id}: run.system must map system arguments to sources")
        system = {}
    for name, raw in system.items():
        place = f"{tool.id}: run.system.{name}"
        if name not in tool.system_arguments:
            found.append(f"{place}: {name!r} is no system argument")
        found.extend(_source_problems(raw, place, set(tool.properties)))
    http = run.get("http")
    http = http if isinstance(http, Mapping) else {}
    for group in GROUPS:
        mapped = http.get(group, {})
        if not isinstance(mapped, Mapping):
            found.append(f"{tool.id}: run.http.{group} must map names to sources")
            continue
        known = set(tool.input_schema.get("properties", {}))
        for name, raw in mapped.items():
            found.extend(_source_problems(raw, f"{tool.id}: run.http.{group}.{name}", known))
    if http and not found:
        found.extend(_unsent(tool))
    return found


def _source_problems(raw: Any, place: str, known: set[str]) -> list[str]:
    try:
        source = read_source(raw)
    except ValueError as error:
        return [f"{place}: {error}"]
    inner = [part for part in source.walk() if part is not source]
    secret = [part.name for part in inner if part.kind == "fact" and is_sensitive(part.name)]
    names = [part.name for part in source.walk() if part.kind == "argument"]
    return [
        *(f"{place}: unknown argument {name!r}" for name in names if name not in known),
        *(f"{place}: fact {name!r} may carry a credential, which no dependency is given" for name in secret),
    ]


def _unsent(tool: Tool) -> list[str]:
    """A user argument that goes nowhere would be dropped in silence."""
    used = {
        source.name
        for top in [*system_sources(tool).values(), *_group_list(tool)]
        for source in top.walk()
        if source.kind == "argument"
    }
    lost = [name for name in tool.properties if name not in used]
    return [f"{tool.id}: run.http sends argument {name!r} nowhere" for name in lost]


def _group_list(tool: Tool) -> list[Source]:
    return [source for group in group_sources(tool).values() for source in group.values()]


def dependency_problems(catalog: Catalog) -> list[str]:
    """Return what is wrong with the sources of a catalog's tools, one line each; cycles are named.

    A dependency must be a read-only tool, with a source for each user argument it requires.

    >>> run = {"python": "m:f", "system": {"x": {"dependency": "a"}}}
    >>> tool = Tool(id="a", input_schema={"properties": {"x": {}}}, system_arguments=("x",), run=run)
    >>> dependency_problems(Catalog([tool]))
    ['dependency cycle: a -> a']
    """
    found: list[str] = []
    edges: dict[str, list[str]] = {}
    for tool in catalog:
        own = mapping_problems(tool)
        found.extend(own)
        if own or tool.run is None:
            continue
        groups = group_sources(tool) if isinstance(tool.run.get("http"), Mapping) else {}
        places = {f"run.system.{name}": source for name, source in system_sources(tool).items()}
        for group, sources in groups.items():
            places.update({f"run.http.{group}.{name}": source for name, source in sources.items()})
        for place, top in places.items():
            for source in top.walk():
                if source.kind == "dependency":
                    found.extend(f"{tool.id}: {place}: {text}" for text in _target_problems(catalog, source))
                    edges.setdefault(tool.id, []).append(source.name)
    return found + [f"dependency cycle: {' -> '.join(cycle)}" for cycle in _cycles(edges)]


def _target_problems(catalog: Catalog, source: Source) -> Iterator[str]:
    if source.name not in catalog:
        yield f"unknown tool {source.name!r}"
        return
    target = catalog[source.name]
    if target.effects != "read":
        yield f"dependency {target.id!r} must be read-only (effects: read)"
    if target.confirm:
        yield f"dependency {target.id!r} waits for a confirmation"
    for name in source.arguments:
        if name not in target.properties:
            yield f"{name!r} is no user argument of {target.id!r}"
    for name in target.required:
        if name not in source.arguments:
            yield f"dependency {target.id!r} needs argument {name!r}, which is not mapped"


def _cycles(edges: Mapping[str, list[str]]) -> list[list[str]]:
    """Every cycle that a depth-first walk closes, once each, from its smallest id."""
    found: dict[tuple[str, ...], None] = {}
    done: set[str] = set()
    for start in sorted(edges):
        path: list[str] = []
        stack = [iter([start])]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                if path:
                    done.add(path.pop())
            elif node in path:
                cycle = path[path.index(node) :]
                first = cycle.index(min(cycle))
                found[(*cycle[first:], *cycle[:first])] = None
            elif node not in done:
                path.append(node)
                stack.append(iter(sorted(set(edges.get(node, ())))))
    return [[*cycle, cycle[0]] for cycle in found]


class CallValues:
    """The values of one call; each dependency runs once, when it is first needed."""

    def __init__(self, tool: Tool, arguments: Mapping[str, Any], context: CallContext) -> None:
        self.tool = tool
        self.arguments = arguments
        self.context = context
        self._sources = system_sources(tool)
        self._system: dict[str, Any] = {}
        self._answers: dict[str, Any] = {}

    def all(self) -> dict[str, Any]:
        """Return user and system arguments by name.

        Raises
        ------
        ToolError
            If a required system argument has no value, or a dependency failed.
        """
        values = {name: value for name, value in self.arguments.items() if name not in self._sources}
        values.update({name: self.argument(name) for name in self._sources})
        return {name: value for name, value in values.items() if value is not ABSENT}

    def argument(self, name: str) -> Any:
        """Return an argument's value, or ABSENT where an optional one has none."""
        if name not in self._sources:
            return self.arguments.get(name, ABSENT)
        if name not in self._system:
            self._system[name] = self.of(self._sources[name])
        value = self._system[name]
        if value is ABSENT and name in self.tool.input_schema.get("required", ()):
            source = self._sources[name]
            raise self._unresolved(f"{name} has no value: {source.kind} {source.name!r} is not there")
        return value

    def of(self, source: Source) -> Any:
        """Return a source's value, or ABSENT.

        Raises
        ------
        ToolError
            If a dependency failed or its answer lacks the selected part.
        """
        if source.kind == "argument":
            return self.argument(source.name)
        if source.kind == "fact":
            value = self.context.facts.get(source.name)
            return ABSENT if value is None else value
        if source.kind == "constant":
            return source.constant
        if source.kind == "uuid":
            return str(uuid.uuid4())
        return self._dependency(source)

    def _dependency(self, source: Source) -> Any:
        given = {name: self.of(inner) for name, inner in source.arguments.items()}
        arguments = {name: value for name, value in given.items() if value is not ABSENT}
        try:
            key = canonical_json([source.name, arguments])
        except (TypeError, ValueError):
            key = ""
        if not key:
            raise self._unresolved(f"an argument for {source.name} is no JSON")
        if key not in self._answers:
            self._answers[key] = self._run(source.name, arguments)
        try:
            value = pick_part(self._answers[key], source.select)
        except LookupError:
            value = None
        if value is None:
            raise self._unresolved(f"{source.name} gave nothing at {source.select or 'its root'!r}")
        return value

    def _run(self, tool_id: str, arguments: Mapping[str, Any]) -> Any:
        if self.context.run_tool is None:
            raise self._unresolved(f"nothing here can run {tool_id}")
        chain = (*_CHAIN.get(), self.tool.id)
        if tool_id in chain:
            raise self._unresolved(f"dependency cycle: {' -> '.join((*chain, tool_id))}")
        token = _CHAIN.set(chain)
        try:
            answer = self.context.run_tool(tool_id, arguments)
        except ToolError as error:
            failed = error
        else:
            return answer.value if isinstance(answer, ToolAnswer) else answer
        finally:
            _CHAIN.reset(token)
        # The code of what failed is kept: it tells a wrong credential from a broken endpoint.
        text = f"{self.tool.id} needs {tool_id}: {failed.message}"
        raise ToolError(failed.code, text, retries=failed.retries)

    def _unresolved(self, text: str) -> ToolError:
        return ToolError("DEPENDENCY_UNRESOLVED", f"{self.tool.id}: {text}")
