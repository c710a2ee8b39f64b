"""Evaluation sets: JSON lines in, checked cases out.

What makes a case unusable is an error (all at once, with file, line and id); what makes a set doubtful
(duplicates, leaks, a group that crosses splits) is told in ``warnings``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mono_router.catalog import Catalog
from mono_router.documents import DocumentError, read_yaml
from mono_router.memory import memory_from_dict
from mono_router.reading import catalog_files, open_text
from mono_router.records import MODES, Call, Case, did_you_mean
from mono_router.text import normalize

_FILES = ("cases.jsonl", "eval.jsonl", "eval.jsonl.gz")
_SGD = re.compile(r"sgd-(\d+_\d+)-\d+")
_BFCL = re.compile(r"(?:bfcl|bfcl_ar|when2call)-(.+)")


class CasesError(ValueError):
    """A set of cases is not usable; ``problems`` holds one line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Cases(list[Case]):
    """A list of cases that remembers what is doubtful about its set."""

    def __init__(self, cases: Iterable[Case] = (), warnings: Iterable[str] = ()) -> None:
        super().__init__(cases)
        self.warnings: tuple[str, ...] = tuple(warnings)

    def where(self, keep: Callable[[Case], bool]) -> Cases:
        """Return the cases that a function keeps."""
        return Cases((case for case in self if keep(case)), self.warnings)

    def __repr__(self) -> str:
        n_groups = len({case.group for case in self})
        return f"Cases({len(self)} cases, {n_groups} groups, {len(self.warnings)} warnings)"


def load_cases(
    path: str | Path,
    *,
    split: str | None = None,
    language: str | None = None,
    tags: Iterable[str] | None = None,
) -> Cases:
    """Return the cases of a file or folder.

    Parameters
    ----------
    path
        A JSONL file (also gzipped), or a folder with ``cases.jsonl`` or ``eval.jsonl[.gz]``. A catalog
        beside it is used for the checks; ``evaluation.now`` of a ``config.yml`` beside it is the ``now``
        of cases that state none.
    split, language, tags
        Keep only cases of this split, in this language, with all of these tags.

    Raises
    ------
    CasesError
        If a line is malformed or names an unknown tool; all problems at once.
    FileNotFoundError
        If there are no cases at the path.
    """
    path = Path(path)
    file = _file(path)
    folder = path if path.is_dir() else path.parent
    catalog = _catalog(folder)
    default_now = _default_now(folder)
    problems: list[str] = []
    found: list[tuple[int, Case]] = []
    ids: dict[str, int] = {}
    for number, line in enumerate(open_text(file, problems), 1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            problems.append(f"{where}: not JSON: {error}")
            continue
        case = _case(record, where, problems, default_now)
        if case is None:
            continue
        if case.id in ids:
            problems.append(f"{where}: {case.id}: duplicate id, first on line {ids[case.id]}")
        ids.setdefault(case.id, number)
        if catalog is not None:
            problems.extend(f"{where}: {case.id}: {text}" for text in _unknown_tools(case, catalog))
        found.append((number, case))
    if not found and not problems:
        problems.append(f"{file}: no cases")
    if problems:
        raise CasesError(problems)
    warnings = _warnings(found, catalog, str(file))
    wanted = set(tags or ())
    kept = (
        case
        for _, case in found
        if (split is None or case.split == split)
        and (language is None or case.language == language)
        and wanted <= set(case.tags)
    )
    return Cases(kept, warnings)


def _file(path: Path) -> Path:
    if path.is_file():
        return path
    for name in _FILES:
        if (path / name).is_file():
            return path / name
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    raise FileNotFoundError(f"{path}: no cases (looked for a file, {', '.join(_FILES)})")


def _catalog(folder: Path) -> Catalog | None:
    try:
        catalog_files(folder)
    except FileNotFoundError:
        return None
    return Catalog.load(folder, variants="keep")


def _default_now(folder: Path) -> str | None:
    config = folder / "config.yml"
    if not config.is_file():
        return None
    try:
        document = read_yaml(config)
    except DocumentError as error:
        raise CasesError([str(error)]) from None
    section = document.value.get("evaluation") if isinstance(document.value, dict) else None
    now = section.get("now") if isinstance(section, dict) else None
    if now is not None and not isinstance(now, str):
        raise CasesError([f"{config}:{document.line('evaluation', 'now')}: evaluation.now must be text"])
    return now


def derived_group(id_: str, language: str) -> str:
    """Return the group that an id tells, for sets that state none.

    >>> derived_group("massive-00012-es", "es"), derived_group("sgd-17_00007-14", "en")
    ('massive-00012', 'sgd-17_00007')
    >>> derived_group("bfcl_ar-live_simple_3-1-0", "ar"), derived_group("x-1", "en")
    ('live_simple_3-1-0', 'x-1')
    """
    if match := _SGD.fullmatch(id_):
        return f"sgd-{match[1]}"
    if match := _BFCL.fullmatch(id_):
        return match[1]
    return id_.removesuffix(f"-{language}") if language else id_


def _case(record: Any, where: str, problems: list[str], default_now: str | None) -> Case | None:
    if not isinstance(record, dict):
        problems.append(f"{where}: must be an object")
        return None
    id_ = record.get("id")
    name = id_ if isinstance(id_, str) and id_ else "?"
    before = len(problems)

    def need(ok: bool, text: str) -> None:
        if not ok:
            problems.append(f"{where}: {name}: {text}")

    def texts(key: str, *, required: bool = False) -> tuple[str, ...] | None:
        value = record.get(key)
        if value is None and not required:
            return None
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
        need(False, f"{key} must be a list of texts, got {value!r}")
        return ()

    def mapping(key: str) -> Any:
        value = record.get(key)
        need(value is None or isinstance(value, dict), f"{key} must be a mapping, got {value!r}")
        return value if isinstance(value, dict) else None

    need(name != "?", "id must be non-empty text")
    message = record.get("message")
    need(isinstance(message, str) and bool(message.strip()), "message must be non-empty text")
    expected = texts("expected_tools", required=True)
    mode = record.get("expected_mode")
    need(mode is None or mode in MODES, f"expected_mode must be of {', '.join(MODES)}, got {mode!r}")
    calls = _calls(record.get("expected_calls"), need)
    memory = None
    if record.get("memory") is not None:
        try:
            memory = memory_from_dict(record["memory"])
        except ValueError as error:
            need(False, str(error))
    language = str(record.get("language") or "")
    values: dict[str, Any] = {
        "expected_arguments": mapping("expected_arguments"),
        "argument_alternatives": mapping("argument_alternatives") or {},
        "optional_arguments": texts("optional_arguments") or (),
        "missing_arguments": texts("missing_arguments"),
        "expected_skills": texts("expected_skills"),
        "candidate_tools": texts("candidate_tools"),
        "acceptable_tools": texts("acceptable_tools") or (),
        "ambiguous_with": texts("ambiguous_with") or (),
        "tags": texts("tags") or (),
    }
    if len(problems) > before:
        return None
    return Case(
        id=name,
        message=str(message),
        expected_tools=expected or (),
        expected_calls=calls,
        expected_mode=mode,
        context=tuple(record.get("context") or ()),
        memory=memory,
        now=record.get("now") or default_now,
        language=language,
        group=str(record.get("group") or derived_group(name, language)),
        split=str(record.get("split") or ""),
        **values,
    )


def _calls(value: Any, need: Callable[[bool, str], None]) -> tuple[Call, ...] | None:
    if value is None:
        return None
    good = isinstance(value, list) and all(
        isinstance(c, dict) and isinstance(c.get("tool"), str) for c in value
    )
    need(good, "expected_calls must be a list of {tool, arguments}")
    if not good:
        return None
    return tuple(Call(tool=c["tool"], arguments=c.get("arguments") or {}) for c in value)


def _unknown_tools(case: Case, catalog: Catalog) -> list[str]:
    found = []
    named = {
        "expected_tools": case.expected_tools,
        "candidate_tools": case.candidate_tools or (),
        "acceptable_tools": case.acceptable_tools,
        "ambiguous_with": case.ambiguous_with,
        "expected_calls": tuple(call.tool for call in case.expected_calls or ()),
    }
    for key, tools in named.items():
        for tool in tools:
            if tool not in catalog:
                found.append(f"{key} names unknown tool {tool!r}{did_you_mean(tool, catalog.ids)}")
    return found


def _warnings(found: list[tuple[int, Case]], catalog: Catalog | None, file: str) -> list[str]:
    warnings = []
    first: dict[str, str] = {}
    splits: dict[str, str] = {}
    leaks: dict[str, str] = {}
    if catalog is not None:
        leaks = {normalize(hint): f"a hint of {tool.id}" for tool in catalog for hint in tool.hints}
        leaks |= {normalize(e.message): f"an example of {tool.id}" for tool in catalog for e in tool.examples}
    for number, case in found:
        where = f"{file}:{number}: {case.id}"
        key = normalize(case.message)
        if key in first:
            warnings.append(f"{where}: same message as {first[key]}")
        else:
            first[key] = case.id
        if splits.setdefault(case.group, case.split) != case.split:
            warnings.append(f"{where}: group {case.group} crosses splits")
        if key in leaks:
            warnings.append(f"{where}: message is {leaks[key]}")
    return warnings
