"""Public sets of queries over described tools, from their authors' format to ours: pure functions.

The form is that of :mod:`mono_router.lab.converters`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mono_router.lab.converted import (
    Converted,
    Record,
    case_record,
    json_schema,
    sampled,
    split_of,
    texts_by_label,
    words_of,
)
from mono_router.lab.source_files import check, mapping_of, objects_of, read_csv, read_json, read_jsonl

Files = Mapping[str, Path]

METATOOL_PER_TOOL = 16
METATOOL_RELIABILITY = 500
SEALTOOLS_PARTS = {"dev": "dev_set", "test_in_domain": "in_domain", "test_out_domain": "out_domain"}

_OFFERED = re.compile(r"^\s*\d+\. tool name: (.+?), tool description: ", re.M)
_RESULT = re.compile(r"\bAPI_call_\d+")


def convert_metatool(files: Files) -> Converted:
    """Return MetaTool: single and multi-tool queries, and two kinds of queries for which no tool is right.

    Raises
    ------
    SourceError
        If a file or a row is not in the source's format.
    """
    problems: list[str] = []
    described = mapping_of(read_json(files["plugin_des.json"], problems), files["plugin_des.json"], problems)
    tools = [{"id": i, "title": words_of(i), "description": str(t)} for i, t in sorted(described.items())]
    labels: dict[str, dict[str, None]] = {}
    for where, (query, tool) in read_csv(files["all_clean_data.csv"], ("Query", "Tool"), problems):
        _known([tool], described, where, problems)
        labels.setdefault(query.strip(), {})[tool] = None
    by_tool = texts_by_label((query, next(iter(found))) for query, found in labels.items() if len(found) == 1)
    cases: list[Record] = []

    def add(kind: str, i: int, query: str, tools: Sequence[str], *tags: str, **fields: Any) -> None:
        id_ = f"metatool-{kind}-{i:04d}"
        cases.append(case_record(id_, query, tools, split=split_of(query), tags=tags, **fields))

    singles = [
        (query, tool) for tool in sorted(by_tool) for query in sampled(by_tool[tool], METATOOL_PER_TOOL, str)
    ]
    for i, (query, tool) in enumerate(singles):
        add("single", i, query, (tool,), "single_query")
    file = files["multi_tool_query_golden.json"]
    for i, row in enumerate(objects_of(read_json(file, problems), ("query", "tool"), file, problems)):
        chosen = row["tool"] if isinstance(row["tool"], list) else [row["tool"]]
        _known(chosen, described, f"{file}[{i}]", problems)
        add("multi", i, row["query"].strip(), chosen, "multi_query")
    file = files["Task1.json"]
    found = objects_of(read_json(file, problems), ("query", "label"), file, problems)
    for i, row in enumerate(found):
        if row["label"] == "negative":
            add("aware", i, row["query"].strip(), (), "awareness")
    file = files["Task2-Subtask3.json"]
    found = objects_of(read_json(file, problems), ("query", "tool", "action_prompt"), file, problems)
    numbered = [(i, row) for i, row in enumerate(found) if isinstance(row["action_prompt"], str)]
    for i, (place, row) in enumerate(
        sampled(numbered, METATOOL_RELIABILITY, lambda pair: f"{pair[0]}\n{pair[1]['query']}")
    ):
        offered = _OFFERED.findall(row["action_prompt"])
        _known(offered, described, f"{file}[{place}]", problems)
        if not offered or row["tool"] in offered:
            problems.append(f"{file}[{place}]: must offer tools, and not the right one, {row['tool']!r}")
        tags = ("reliability", "near_miss")
        add("reliab", i, row["query"].strip(), (), *tags, candidate_tools=offered)
    check(problems)
    several = sum(len(found) > 1 for found in labels.values())
    return Converted(
        tools=tuple(tools), cases=tuple(cases), notes={"single_queries_with_several_labels": several}
    )


def convert_sealtools(files: Files) -> Converted:
    """Return Seal-Tools: its tools with their schemas; dev is dev, both tests are test.

    Raises
    ------
    SourceError
        If a file or a row is not in the source's format.
    """
    problems: list[str] = []
    tools: dict[str, Record] = {}
    for where, row in read_jsonl(files["tool.jsonl"], problems):
        tool = _seal_tool(row, where, problems)
        if tool is not None and tools.setdefault(tool["id"], tool) is not tool:
            problems.append(f"{where}: {tool['id']}: duplicate tool")
    cases = []
    for part, tag in SEALTOOLS_PARTS.items():
        for where, row in read_jsonl(files[f"{part}.jsonl"], problems):
            calls = _seal_calls(row, tools, where, problems)
            if calls is None:
                continue
            level = "hard" if "-difficult-" in row["id"] else "easy"
            tags = [tag, f"level:{level}"]
            names = [call["tool"] for call in calls]
            if any(_RESULT.search(value) for call in calls for value in _texts(call["arguments"])):
                tags.append("nested")
            cases.append(
                case_record(
                    f"sealtools-{row['id']}",
                    row["query"].strip(),
                    names,
                    split="dev" if part == "dev" else "test",
                    tags=tags,
                    expected_arguments=calls[0]["arguments"] if len(calls) == 1 else None,
                    expected_calls=calls if len(calls) > 1 else None,
                )
            )
    check(problems)
    return Converted(tools=tuple(tools.values()), cases=tuple(cases))


def _known(tools: Sequence[Any], described: Mapping[str, Any], where: str, problems: list[str]) -> None:
    for tool in tools:
        if not isinstance(tool, str) or tool not in described:
            problems.append(f"{where}: unknown tool {tool!r}")


def _seal_tool(row: Record, where: str, problems: list[str]) -> Record | None:
    name, parameters, required = row.get("api_name"), row.get("parameters"), row.get("required")
    if not isinstance(name, str) or not name or not isinstance(parameters, dict):
        problems.append(f"{where}: must have api_name and parameters")
        return None
    return {
        "id": name,
        "title": words_of(name),
        "description": str(row.get("api_description") or ""),
        "category": str(row.get("field") or ""),
        "input_schema": json_schema({"properties": parameters, "required": required or []}),
    }


def _seal_calls(
    row: Record, tools: Mapping[str, Record], where: str, problems: list[str]
) -> list[Record] | None:
    query, calling = row.get("query"), row.get("calling")
    if not isinstance(row.get("id"), str) or not isinstance(query, str) or not query.strip():
        problems.append(f"{where}: must have id and query")
        return None
    if not isinstance(calling, list) or not calling:
        problems.append(f"{where}: {row['id']}: calling must be a list of calls")
        return None
    calls = []
    for call in calling:
        if not isinstance(call, dict) or call.get("api") not in tools:
            named = call.get("api") if isinstance(call, dict) else call
            problems.append(f"{where}: {row['id']}: unknown tool {named!r}")
            return None
        calls.append({"tool": call["api"], "arguments": dict(call.get("parameters") or {})})
    return calls


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in _texts(item)]
