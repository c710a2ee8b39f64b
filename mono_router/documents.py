"""YAML documents under the 1.2 core schema, with the line of every value.

Text goes in; plain dicts, lists and scalars come out, with :meth:`Document.line` for error messages.
``no`` stays text and ``16:30`` stays text, as in YAML 1.2. Aliases, anchors, tags, duplicate keys and
documents over the limits of size and depth are refused before anything is built.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_BYTES = 20_000_000
MAX_DEPTH = 40

_NULL = re.compile(r"(?:null|Null|NULL|~|)")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


class DocumentError(ValueError):
    """A document could not be read; the message names file and line."""


@dataclass(frozen=True)
class Document:
    """A parsed document."""

    name: str
    value: Any
    lines: dict[tuple[str | int, ...], int]

    def line(self, *path: str | int) -> int:
        """Return the line (from 1) of the value at a path, or of its nearest known parent."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(path: str | Path) -> Document:
    """Return the document in a file.

    Raises
    ------
    DocumentError
        If the file is not UTF-8 or its content is refused.
    """
    path = Path(path)
    if path.stat().st_size > MAX_BYTES:
        raise DocumentError(f"{path}: larger than {MAX_BYTES} bytes")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path}: not UTF-8 at byte {error.start}") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str = "<text>") -> Document:
    """Return the document in a text.

    >>> parse_yaml("a: no\\nb: 16:30\\nc: 010").value
    {'a': 'no', 'b': '16:30', 'c': 10}

    Raises
    ------
    DocumentError
        If the text is no YAML, is not one document, or uses what is refused.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise DocumentError(f"{name}: larger than {MAX_BYTES} bytes")
    try:
        _check_events(yaml.parse(text, Loader=loader), name)
        node = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise DocumentError(f"{name}:{line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, DocumentError):
            raise
        first = str(error).splitlines()[0]
        raise DocumentError(f"{name}: {first}") from None
    lines: dict[tuple[str | int, ...], int] = {}
    value = None if node is None else _build(node, (), lines, name)
    return Document(name, value, lines)


def _check_events(events: Any, name: str) -> None:
    import yaml

    depth = documents = 0
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise DocumentError(f"{name}:{line}: aliases are not allowed (*{event.anchor})")
        if getattr(event, "anchor", None):
            raise DocumentError(f"{name}:{line}: anchors are not allowed (&{event.anchor})")
        tag = getattr(event, "tag", None)
        if tag and isinstance(event, yaml.NodeEvent):
            raise DocumentError(f"{name}:{line}: tags are not allowed ({tag})")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise DocumentError(f"{name}:{line}: more than one document")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise DocumentError(f"{name}:{line}: nested deeper than {MAX_DEPTH}")


def _build(node: Any, path: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int], name: str) -> Any:
    import yaml

    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise DocumentError(f"{name}:{line}: a key must be a plain value")
            key = key_node.value
            if key in found:
                raise DocumentError(f"{name}:{line}: duplicate key {key!r}")
            found[key] = _build(value_node, (*path, key), lines, name)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*path, i), lines, name) for i, item in enumerate(node.value)]
    return node.value if node.style else core_scalar(node.value)  # only plain scalars have no style


def core_scalar(text: str) -> Any:
    """Return what a plain scalar means under the YAML 1.2 core schema.

    >>> [core_scalar(t) for t in ("true", "yes", "0x1F", "1e3", "12:30", "~")]
    [True, 'yes', 31, 1000.0, '12:30', None]
    """
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _INT.fullmatch(text):
        return int(text) if len(text) < 4000 else text
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    # .inf, .nan and what overflows are left as text: no setting and no schema takes them.
    return float(text) if _FLOAT.fullmatch(text) and math.isfinite(float(text)) else text


def dump_yaml(value: Any) -> str:
    """Return YAML that :func:`parse_yaml` reads back as the same value."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        quoted = not isinstance(core_scalar(value), str)
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if quoted else None)

    Dumper.add_representer(str, text)
    return str(yaml.dump(value, Dumper=Dumper, allow_unicode=True, sort_keys=False, width=100))
