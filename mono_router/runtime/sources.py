"""Where a call's values come from: the sources that a tool's ``run`` maps its arguments and fields to.

A source is one of ``{argument: name}``, ``{fact: name}`` (a session fact), ``{dependency: tool id,
select: /json/pointer, arguments: {name: source}}``, ``{constant: value}`` and ``{uuid: true}``. They
stand in ``run.system`` (a system argument without one takes the fact of its own name) and in the groups
``path``, ``query``, ``body`` and ``headers`` of ``run.http``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mono_router.records import Tool, canonical_json
from mono_router.schema import pointer_parts

Kind = Literal["argument", "fact", "dependency", "constant", "uuid"]

GROUPS = ("path", "query", "body", "headers")

_KINDS: tuple[Kind, ...] = ("argument", "fact", "dependency", "constant", "uuid")
_FORMS = "{argument: name}, {fact: name}, {dependency: tool id}, {constant: value} or {uuid: true}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where one value comes from."""

    kind: Kind
    name: str = ""
    """Argument, fact or tool id."""
    constant: Any = None
    select: str = ""
    """JSON pointer into a dependency's answer; "" is all of it."""
    arguments: Mapping[str, Source] = field(default_factory=dict)
    """A dependency's arguments."""

    def walk(self) -> Iterator[Source]:
        """Yield the source and those inside it."""
        yield self
        for inner in self.arguments.values():
            yield from inner.walk()


def read_source(raw: Any) -> Source:
    """Return the source that a mapping describes.

    Raises
    ------
    ValueError
        If it describes none.

    >>> read_source({"dependency": "account.find", "select": "/id"}).name
    'account.find'
    >>> read_source({"secret": "KEY"})
    Traceback (most recent call last):
    ValueError: unknown source 'secret'
    """
    if not isinstance(raw, Mapping):
        raise ValueError(f"must be {_FORMS}")
    kinds = [kind for kind in _KINDS if kind in raw]
    extra = [
        k for k in raw if k not in kinds and not ("dependency" in kinds and k in ("select", "arguments"))
    ]
    if extra:
        raise ValueError(f"unknown source {str(extra[0])!r}")
    if len(kinds) != 1:
        raise ValueError(f"must be one of {_FORMS}")
    kind = kinds[0]
    value = raw[kind]
    if kind == "constant":
        canonical_json(value)  # no NaN, no type beyond JSON
        return Source(kind=kind, constant=value)
    if kind == "uuid":
        if value is not True:
            raise ValueError("uuid must be true")
        return Source(kind=kind)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{kind} must be a name, got {value!r}")
    select = raw.get("select", "")
    if not isinstance(select, str):
        raise ValueError(f"select must be a JSON pointer, got {select!r}")
    pointer_parts(select)
    inner = raw.get("arguments") or {}
    if not isinstance(inner, Mapping):
        raise ValueError("arguments must map names to sources")
    arguments = {str(name): read_source(item) for name, item in inner.items()}
    return Source(kind=kind, name=value, select=select, arguments=arguments)


def system_sources(tool: Tool) -> dict[str, Source]:
    """Return the source of every system argument; the default is the fact of the same name.

    >>> tool = Tool(id="t", input_schema={"properties": {"user_id": {}}}, system_arguments=("user_id",))
    >>> system_sources(tool)["user_id"].kind
    'fact'
    """
    given = (tool.run or {}).get("system") or {}
    return {
        name: read_source(given[name]) if name in given else Source(kind="fact", name=name)
        for name in tool.system_arguments
    }


def group_sources(tool: Tool) -> dict[str, dict[str, Source]]:
    """Return the sources of an HTTP tool's groups, by group and name.

    A tool with no group at all sends its arguments in the query (GET, DELETE) or in the body.

    >>> tool = Tool(id="t", input_schema={"properties": {"q": {}}}, run={"http": {"method": "GET"}})
    >>> group_sources(tool)["query"]["q"].kind
    'argument'
    """
    http = (tool.run or {}).get("http") or {}
    groups = {group: {str(k): read_source(v) for k, v in (http.get(group) or {}).items()} for group in GROUPS}
    if not any(group in http for group in GROUPS):
        place = "query" if str(http.get("method", "GET")).upper() in ("GET", "DELETE") else "body"
        names = tool.input_schema.get("properties", {})
        groups[place] = {name: Source(kind="argument", name=name) for name in names}
    return groups
