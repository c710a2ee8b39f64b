"""Public sets of function calls, from their authors' format to ours: pure functions.

The form is that of :mod:`mono_router.lab.converters`; here tools have schemas and cases have arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mono_router.lab.converted import Converted, Record, case_record, json_schema, language_of, split_of
from mono_router.lab.source_files import check, read_jsonl
from mono_router.records import canonical_json

Files = Mapping[str, Path]

BFCL_CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "irrelevance",
    "live_irrelevance",
    "live_relevance",
)
BFCL_WITHOUT_TRUTH = ("irrelevance", "live_irrelevance", "live_relevance")


def convert_bfcl(files: Files) -> Converted:
    """Return the single-turn categories of the Berkeley leaderboard in Python's notation.

    Every function that is offered with some case is a tool, once for each distinct definition: ``name``,
    then ``name~2`` and on with ``variant_of``.

    Raises
    ------
    SourceError
        If a file or a row is not in the source's format.
    """
    problems: list[str] = []
    catalog = _Definitions()
    notes: Counter[str] = Counter()
    found: list[tuple[str, Record, list[str], list[Record] | None]] = []
    for category in BFCL_CATEGORIES:
        truths = {}
        if category not in BFCL_WITHOUT_TRUTH:
            answers = files[f"possible_answer/BFCL_v4_{category}.json"]
            for where, row in read_jsonl(answers, problems):
                truths[row.get("id")] = _truth(row, where, problems)
        for where, row in read_jsonl(files[f"BFCL_v4_{category}.json"], problems):
            if not _bfcl_row(row, where, problems):
                continue
            offered = list(dict.fromkeys(catalog.tool_id(function) for function in row["function"]))
            truth = truths.get(row["id"])
            if category not in BFCL_WITHOUT_TRUTH and truth is None:
                problems.append(f"{where}: {row['id']}: no answer in possible_answer/")
                continue
            if category == "live_relevance" and len(offered) != 1:
                notes["live_relevance_without_one_candidate"] += 1
                continue
            found.append((category, row, offered, truth))
    cases = [_bfcl_case(*item, catalog=catalog, notes=notes) for item in found]
    check(problems)
    return Converted(tools=tuple(catalog.tools.values()), cases=tuple(c for c in cases if c), notes=notes)


class _Definitions:
    """Functions by their definition: an id for each, and which share a name."""

    def __init__(self) -> None:
        self.tools: dict[str, Record] = {}
        self.names: dict[str, list[str]] = {}
        self._known: dict[str, str] = {}

    def tool_id(self, function: Record) -> str:
        name, schema = function["name"], json_schema(function.get("parameters"))
        key = canonical_json([name, function.get("description"), schema])
        if key not in self._known:
            ids = self.names.setdefault(name, [])
            id_ = f"{name}~{len(ids) + 1}" if ids else name
            variant = {"title": name, "variant_of": name} if ids else {}
            ids.append(id_)
            self._known[key] = id_
            description = str(function.get("description") or "")
            self.tools[id_] = {"id": id_, "description": description, **variant, "input_schema": schema}
        return self._known[key]

    def others(self, ids: Sequence[str]) -> list[str]:
        """Other definitions of the same names."""
        names = [str(self.tools[id_].get("variant_of", id_)) for id_ in ids]
        return [other for name in dict.fromkeys(names) for other in self.names[name] if other not in ids]


def _bfcl_row(row: Record, where: str, problems: list[str]) -> bool:
    turns, functions = row.get("question"), row.get("function")
    said = turns[0] if isinstance(turns, list) and len(turns) == 1 else None
    good = isinstance(row.get("id"), str) and isinstance(said, list)
    if not good or not all(
        isinstance(turn, dict) and isinstance(turn.get("content"), str) and isinstance(turn.get("role"), str)
        for turn in said or ()
    ):
        problems.append(f"{where}: must have an id and one list of {{role, content}} as question")
        return False
    if not isinstance(functions, list) or not all(
        isinstance(f, dict) and isinstance(f.get("name"), str) and f["name"] for f in functions
    ):
        problems.append(f"{where}: {row['id']}: function must be a list of named functions")
        return False
    return True


def _truth(row: Record, where: str, problems: list[str]) -> list[Record] | None:
    calls = row.get("ground_truth")
    if isinstance(calls, list) and all(
        isinstance(c, dict)
        and len(c) == 1
        and all(isinstance(p, dict) and all(isinstance(v, list) for v in p.values()) for p in c.values())
        for c in calls
    ):
        return calls
    problems.append(
        f"{where}: {row.get('id')}: ground_truth must be a list of {{function: {{name: values}}}}"
    )
    return None


def _bfcl_case(
    category: str,
    row: Record,
    offered: list[str],
    truth: list[Record] | None,
    *,
    catalog: _Definitions,
    notes: Counter[str],
) -> Record | None:
    turns = row["question"][0]
    spoken = [t["content"].strip() for t in turns if t["role"] == "user"]
    message = "\n".join(text for text in spoken if text)
    if not message:
        notes["cases_without_a_message"] += 1
        return None
    tags = [f"category:{category}"]
    if any(turn["role"] == "system" for turn in turns):
        tags.append("had_system_prompt")
    if len(spoken) > 1:
        tags.append("joined_turns")
    if not offered:
        tags.append("no_candidates")
    by_name = {catalog.tools[id_].get("variant_of", id_): id_ for id_ in offered}
    fields: Record = {}
    calls: list[Record] = []
    if truth is not None:
        named = [(name, values) for call in truth for name, values in call.items()]
        if any(name not in by_name for name, _ in named):
            notes["answers_outside_the_offered"] += 1
            return None
        calls = [{"tool": by_name[name], **accepted_values(values)} for name, values in named]
    elif category == "live_relevance":
        calls = [{"tool": offered[0]}]
    tools = list(dict.fromkeys(call["tool"] for call in calls))
    if len(calls) > len(tools) == 1:
        tags.append("parallel_calls")
    if truth is not None and not _fit(calls, catalog):
        # The names of the truth are not those of the definition: the tool stands, the arguments do not.
        notes["args_schema_mismatch"] += 1
        tags.append("args_schema_mismatch")
    elif truth is not None and len(calls) == 1:
        given = calls[0]
        fields = {f"expected_{k}" if k == "arguments" else k: v for k, v in given.items() if k != "tool"}
    elif truth is not None:
        fields = {"expected_calls": calls}
    return case_record(
        f"bfcl-{row['id']}",
        message,
        tools,
        split=split_of(message),
        tags=tags,
        language=language_of(message),
        **fields,
        candidate_tools=offered,
        context=[dict(turn) for turn in turns] if len(turns) > 1 else None,
        acceptable_tools=catalog.others(tools) or None,
    )


def _fit(calls: Sequence[Record], catalog: _Definitions) -> bool:
    return all(
        set(call["arguments"]) <= set(catalog.tools[call["tool"]]["input_schema"]["properties"])
        for call in calls
    )


def accepted_values(values: Mapping[str, Sequence[Any]]) -> Record:
    """Return the arguments of a ground truth: the first accepted value, all of them, what may be left out.

    An empty text among the accepted values says that the parameter may be left out.

    >>> accepted_values({"place": ["NY", "New York"], "unit": ["", "C"]})["arguments"]
    {'place': 'NY', 'unit': 'C'}
    """
    arguments, alternatives, optional = {}, {}, []
    for name, accepted in values.items():
        if "" in accepted:
            optional.append(name)
        real = [_first(value) for value in accepted if value != ""]
        if real:
            arguments[name] = real[0]
        if len(real) > 1 or any(real[i] != value for i, value in enumerate(v for v in accepted if v != "")):
            alternatives[name] = real
    found: Record = {"arguments": arguments}
    if alternatives:
        found["argument_alternatives"] = alternatives
    if optional:
        found["optional_arguments"] = optional
    return found


def _first(value: Any) -> Any:
    """A value with the lists of accepted values inside objects cut to their first one."""
    if isinstance(value, list):
        return [_first(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, accepted in value.items():
        if not isinstance(accepted, list):
            found[name] = _first(accepted)
        elif any(item != "" for item in accepted):
            found[name] = _first(accepted[0])
    return found
