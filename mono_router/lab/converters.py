"""Public sets of intents and of queries, from their authors' format to ours: pure functions.

Each takes the paths of a set's files by their names and returns a :class:`Converted`; every row that is
not in the source's format is a problem with file and line, all told at once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mono_router.lab.converted import (
    N_EXAMPLES,
    Converted,
    Record,
    case_record,
    intent_tool,
    sampled,
    split_of,
    texts_by_label,
    words_of,
)
from mono_router.lab.source_files import (
    SourceError,
    check,
    jsonl_rows,
    mapping_of,
    member_names,
    read_csv,
    read_json,
    read_members,
)

Files = Mapping[str, Path]

MASSIVE_ARCHIVE = "amazon-massive-dataset-1.1.tar.gz"
MASSIVE_DEV_IDS = 700
RARE_SLOT = 3
"""A slot seen less often than this with an intent is left out of its schema: mostly annotation slips."""

_CLINC_PARTS = ("train", "val", "test", "oos_val", "oos_test")
_SLOT = re.compile(r"\[\s*([^\[\]:]+?)\s*:\s*([^\[\]]*?)\s*\]")


def convert_clinc150(files: Files) -> Converted:
    """Return CLINC150: one tool an intent; val is dev, test is test, out of scope is no tool.

    Raises
    ------
    SourceError
        If a file or a row is not in the source's format.
    """
    problems: list[str] = []
    file = files["data_full.json"]
    parts = mapping_of(read_json(file, problems), file, problems)
    domains = mapping_of(read_json(files["domains.json"], problems), files["domains.json"], problems)
    domain_of = {intent: name for name, intents in domains.items() for intent in intents}
    rows: dict[str, list[tuple[str, str]]] = {}
    for part in _CLINC_PARTS if not problems else ():
        rows[part] = []
        if not isinstance(parts.get(part), list):
            problems.append(f"{file}: {part}: must be a list of [message, intent]")
            continue
        for i, row in enumerate(parts[part]):
            if isinstance(row, list) and len(row) == 2 and all(isinstance(v, str) and v for v in row):
                rows[part].append((row[0], row[1]))
            else:
                problems.append(f"{file}: {part}[{i}]: must be [message, intent], got {row!r}")
    by_intent = texts_by_label(rows.get("train", ()))
    cases = []
    for part in ("val", "oos_val", "test", "oos_test"):
        for i, (message, intent) in enumerate(rows.get(part, ())):
            outside = part.startswith("oos")
            if not outside and intent not in by_intent:
                problems.append(f"{file}: {part}[{i}]: intent {intent!r} is not in train")
            domain = domain_of.get(intent, "unknown")
            cases.append(
                case_record(
                    f"clinc150-{part}-{i:04d}",
                    message,
                    () if outside else (intent,),
                    split="dev" if part.endswith("val") else "test",
                    tags=("oos",) if outside else (f"domain:{domain}",),
                )
            )
    check(problems)
    tools = tuple(intent_tool(intent, by_intent[intent]) for intent in sorted(by_intent))
    return Converted(tools=tools, cases=tuple(cases))


def convert_banking77(files: Files) -> Converted:
    """Return BANKING77: one tool a category; test.csv is the cases, split by hash.

    Raises
    ------
    SourceError
        If a file or a row is not in the source's format.
    """
    problems: list[str] = []
    header = ("text", "category")
    # Some texts have two spaces in a row, or end in a line break.
    train = [
        (" ".join(text.split()), label) for _, (text, label) in read_csv(files["train.csv"], header, problems)
    ]
    by_label = texts_by_label(train)
    cases = []
    for i, (where, (text, label)) in enumerate(read_csv(files["test.csv"], header, problems)):
        if label not in by_label:
            problems.append(f"{where}: category {label!r} is not in train.csv")
        message, tool = " ".join(text.split()), _category_id(label)
        cases.append(
            case_record(f"banking77-test-{i:04d}", message, (tool,), split=split_of(message), tags=())
        )
    check(problems)
    tools = [intent_tool(_category_id(label), texts) for label, texts in by_label.items()]
    return Converted(tools=tuple(sorted(tools, key=lambda tool: str(tool["id"]))), cases=tuple(cases))


def convert_massive(files: Files, *, languages: Sequence[str] = ("en", "ar", "es")) -> Converted:
    """Return MASSIVE: one tool an intent, the annotated slots as arguments, each message in each language.

    Parameters
    ----------
    files
        The archive alone.
    languages
        ISO 639-1 codes, or a locale where a language has two ("zh-TW").

    Raises
    ------
    SourceError
        If the archive lacks a language, or a row is not in the source's format.
    """
    archive = files[MASSIVE_ARCHIVE]
    locales = _locales(archive, languages)
    wanted = {"en-US": "en"} | {locale: language for language, locale in locales.items()}
    problems: list[str] = []
    texts = read_members(archive, [f"data/{locale}.jsonl" for locale in wanted], problems)
    rows: dict[str, dict[str, Record]] = {}
    for locale, language in wanted.items():
        name = f"data/{locale}.jsonl"
        found = jsonl_rows(texts.get(name, ""), f"{archive}:{name}", problems)
        rows[language] = _massive_rows(found, problems)
    check(problems)
    english = rows["en"]
    train = [row for row in english.values() if row["partition"] == "train"]
    slots: dict[str, Counter[str]] = defaultdict(Counter)
    for row in train:
        slots[row["intent"]].update(name for name, _ in _SLOT.findall(row["annot_utt"]))
    known = {i: [n for n, count in c.most_common() if count >= RARE_SLOT] for i, c in slots.items()}
    examples: dict[str, list[Record]] = defaultdict(list)
    for row in train:
        examples[row["intent"]].append(row)
    tools = []
    for intent in sorted(examples):
        chosen = sampled(examples[intent], N_EXAMPLES, lambda row: f"{row['intent']}\n{row['id']}")
        by_language = {
            language: [rows[language][row["id"]]["utt"] for row in chosen if row["id"] in rows[language]]
            for language in dict.fromkeys(("en", *locales))
        }
        properties = {n: {"type": "string", "description": words_of(n)} for n in known.get(intent, ())}
        tools.append(
            {
                "id": intent,
                "title": words_of(intent),
                "description": words_of(intent),
                "examples": by_language["en"],
                "examples_by_language": by_language,
                "input_schema": {"type": "object", "properties": properties},
            }
        )
    dev = sampled(
        [r for r in english.values() if r["partition"] == "dev"], MASSIVE_DEV_IDS, lambda r: r["id"]
    )
    chosen_ids = [r["id"] for r in english.values() if r["partition"] == "test"] + [r["id"] for r in dev]
    cases, dropped, untaught = [], 0, 0
    for id_ in sorted(chosen_ids, key=int):
        intent, scenario = english[id_]["intent"], english[id_]["scenario"]
        if intent not in examples:
            untaught += 1
            continue
        for language in locales:
            if id_ not in rows[language]:
                continue
            row = rows[language][id_]
            arguments, rare = _slot_values(row["annot_utt"], known.get(intent, ()))
            dropped += rare
            cases.append(
                case_record(
                    f"massive-{int(id_):05d}-{language}",
                    row["utt"],
                    (intent,),
                    split=row["partition"],
                    tags=(f"scenario:{scenario}",),
                    language=language,
                    expected_arguments=arguments,
                )
            )
    notes = {"rare_slots_dropped": dropped} | ({"intents_without_train": untaught} if untaught else {})
    return Converted(tools=tuple(tools), cases=tuple(cases), notes=notes)


def _category_id(label: str) -> str:
    """One category is written with a capital, one with a question mark."""
    return label.lower().strip("?")


def _locales(archive: Path, languages: Sequence[str]) -> dict[str, str]:
    """Language to the locale that the archive has for it."""
    there = [name.removesuffix(".jsonl") for name in member_names(archive, "data") if name.endswith(".jsonl")]
    preferred = ["en-US", "ar-SA", "es-ES", *there]
    found: dict[str, str] = {}
    for given in languages:
        language = given.split("-")[0]
        fitting = [p for p in preferred if p in there and (p == given or p.split("-")[0] == given)]
        if not fitting:
            raise SourceError([f"{archive}: no language {given!r}; there are {', '.join(there)}"])
        if found.setdefault(language, fitting[0]) != fitting[0]:
            raise SourceError([f"{archive}: {given} and {found[language]} are one language: take one"])
    return found


def _massive_rows(found: Any, problems: list[str]) -> dict[str, Record]:
    rows: dict[str, Record] = {}
    keys = ("id", "partition", "scenario", "intent", "utt", "annot_utt")
    for where, row in found:
        bad = [key for key in keys if not isinstance(row.get(key), str) or not row[key].strip()]
        if bad or not row["id"].isdigit() or row["partition"] not in ("train", "dev", "test"):
            named = bad or [key for key in keys[:2] if key == "partition" or not row["id"].isdigit()]
            problems.append(f"{where}: {', '.join(named[:1])} is not as in MASSIVE: {row.get(named[0])!r}")
            continue
        rows[row["id"]] = row
    return rows


def _slot_values(annotated: str, known: Sequence[str]) -> tuple[Record, int]:
    """The slots of an annotated message (one that occurs twice as a list), and how many are unknown."""
    values: dict[str, Any] = {}
    rare = 0
    for name, value in _SLOT.findall(annotated):
        if name not in known:
            rare += 1
        elif name in values:
            before = values[name]
            values[name] = [*(before if isinstance(before, list) else [before]), value]
        else:
            values[name] = value
    return values, rare
