"""Files of public sets as their authors publish them, read with errors that name file and line.

Paths go in, plain JSON values and rows come out; what cannot be read is a line in ``problems``, so that a
set tells all of them at once.
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

MAX_MEMBER_BYTES = 100_000_000
"""An archive's member over this size is refused: the largest that is read here has 5 MB."""


class SourceError(ValueError):
    """Files of a public set are not what they should be; ``problems`` holds one line each."""

    def __init__(self, problems: Collection[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def read_json(path: Path, problems: list[str]) -> Any:
    """Return the value of a JSON file; None with a problem where it is none."""
    text = _text(path, problems)
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        problems.append(f"{path}: not JSON: {error}")
        return None


def read_jsonl(path: Path, problems: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines, each with ``file:line``."""
    text = _text(path, problems)
    if text is not None:
        yield from jsonl_rows(text, str(path), problems)


def jsonl_rows(text: str, name: str, problems: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of JSON lines, each with its place.

    >>> problems: list[str] = []
    >>> list(jsonl_rows('{"a": 1}\\n\\n[]', "x.jsonl", problems)), problems
    ([('x.jsonl:1', {'a': 1})], ['x.jsonl:3: must be an object'])
    """
    # Not splitlines(): U+2028 and its like may stand in a JSON text.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            problems.append(f"{name}:{number}: not JSON: {error}")
            continue
        if isinstance(record, dict):
            yield f"{name}:{number}", record
        else:
            problems.append(f"{name}:{number}: must be an object")


def read_csv(
    path: Path, columns: tuple[str, ...], problems: list[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the rows of a CSV file with this header, each with ``file:line``."""
    text = _text(path, problems)
    if text is None:
        return
    rows = csv.reader(io.StringIO(text, newline=""))
    header = next(rows, [])
    if tuple(header) != columns:
        problems.append(f"{path}:1: header must be {','.join(columns)}, got {','.join(header)}")
        return
    for row in rows:
        where = f"{path}:{rows.line_num}"
        if len(row) == len(columns):
            yield where, tuple(row)
        elif row:
            problems.append(f"{where}: must have {len(columns)} columns, got {len(row)}")


def read_members(path: Path, wanted: Collection[str], problems: list[str]) -> dict[str, str]:
    """Return texts of members of a gzipped tar archive, by their path below its top folder.

    Nothing is unpacked to disk: links, devices and members that are too large are problems.
    """
    found: dict[str, str] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = str(PurePosixPath(*PurePosixPath(member.name).parts[1:]))
                if name not in wanted:
                    continue
                if not member.isfile() or member.size > MAX_MEMBER_BYTES:
                    problems.append(f"{path}: {member.name}: not a plain file of a sane size")
                    continue
                opened = archive.extractfile(member)
                found[name] = opened.read().decode("utf-8") if opened is not None else ""
    except UnicodeDecodeError:
        problems.append(f"{path}: {member.name}: not UTF-8")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        problems.append(f"{path}: not a whole tar.gz archive: {error}")
    return found


def member_names(path: Path, folder: str) -> list[str]:
    """Return the names of the files in a folder of a gzipped tar archive, sorted.

    Raises
    ------
    SourceError
        If it is no such archive.
    """
    try:
        with tarfile.open(path, "r:gz") as archive:
            parts = [PurePosixPath(member.name).parts for member in archive]
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise SourceError([f"{path}: not a whole tar.gz archive: {error}"]) from None
    return sorted(part[-1] for part in parts if part[1:-1] == (folder,))


def mapping_of(value: Any, file: Path, problems: list[str]) -> dict[str, Any]:
    """Return a JSON value that must be an object; anything else is a problem."""
    if isinstance(value, dict):
        return value
    if value is not None:
        problems.append(f"{file}: must be an object")
    return {}


def objects_of(value: Any, keys: Sequence[str], file: Path, problems: list[str]) -> list[dict[str, Any]]:
    """Return the rows of a JSON list that have these keys, the first of them text; others are problems."""
    if value is not None and not isinstance(value, list):
        problems.append(f"{file}: must be a list")
        return []
    found = []
    for i, row in enumerate(value or ()):
        missing = [k for k in keys if k not in row] if isinstance(row, dict) else list(keys)
        if missing or not isinstance(row[keys[0]], str) or not row[keys[0]].strip():
            problems.append(f"{file}[{i}]: must be an object with {', '.join(keys)}")
        else:
            found.append(row)
    return found


def check(problems: Sequence[str]) -> None:
    """Raise what was found, if anything.

    Raises
    ------
    SourceError
        If there is a problem.
    """
    if problems:
        raise SourceError(problems)


def _text(path: Path, problems: list[str]) -> str | None:
    try:
        # Line ends are kept: a CSV field may hold one.
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        problems.append(f"{path}: not UTF-8")
    except OSError as error:
        problems.append(f"{path}: {error.strerror or error}")
    return None
