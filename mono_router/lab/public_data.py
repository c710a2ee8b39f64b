"""Public sets by name: what each is, where its files are, under which licence, and how it is converted.

The table pins every file to a commit and a hash. Nothing of a set is part of the package: its files are
fetched by :mod:`mono_router.lab.downloads` and converted on the user's machine.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mono_router
from mono_router.catalog import Catalog
from mono_router.lab.call_converters import convert_bfcl
from mono_router.lab.cases import load_cases
from mono_router.lab.converted import Converted, without_contacts
from mono_router.lab.converters import convert_banking77, convert_clinc150, convert_massive
from mono_router.lab.downloads import fetch_files, file_hash, find_files
from mono_router.lab.public_files import (
    BANKING77_COMMIT,
    BANKING77_FILES,
    BFCL_COMMIT,
    BFCL_FILES,
    CLINC150_COMMIT,
    CLINC150_FILES,
    MASSIVE_FILES,
    MASSIVE_VERSION,
    METATOOL_COMMIT,
    METATOOL_FILES,
    SEALTOOLS_COMMIT,
    SEALTOOLS_FILES,
    SourceFile,
)
from mono_router.lab.source_files import read_members
from mono_router.lab.tool_converters import convert_metatool, convert_sealtools
from mono_router.records import did_you_mean


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """A public evaluation set."""

    name: str
    about: str
    """What it is good for, in one line."""
    repository: str
    version: str
    """Commit or version that the files are of."""
    files: tuple[SourceFile, ...]
    licence: str
    citation: str
    converted: str
    """What becomes what."""
    limits: str
    """Known faults of the labels."""
    convert: Callable[..., Converted]
    has_languages: bool = False
    """Whether the converter takes ``languages``."""

    @property
    def n_bytes(self) -> int:
        """Size of all files."""
        return sum(file.n_bytes for file in self.files)

    @property
    def unhashed(self) -> tuple[str, ...]:
        """Names of the files that are not hash-checked."""
        return tuple(file.name for file in self.files if file.sha256 is None)


def public_set(name: str) -> PublicSet:
    """Return a public set by its name.

    Raises
    ------
    ValueError
        If there is none of that name; the nearest one is suggested.

    >>> public_set("clinc150").licence
    'CC BY 3.0'
    """
    for found in PUBLIC_SETS:
        if found.name == name:
            return found
    names = [found.name for found in PUBLIC_SETS]
    hint = did_you_mean(name, names)
    raise ValueError(f"unknown public set {name!r}{hint}; there are {', '.join(names)}")


PUBLIC_SETS = (
    PublicSet(
        name="clinc150",
        about="150 intents with real out-of-scope messages (en)",
        repository="github.com/clinc/oos-eval",
        version=CLINC150_COMMIT,
        files=CLINC150_FILES,
        licence="CC BY 3.0",
        citation="Larson et al., An Evaluation Dataset for Intent Classification and Out-of-Scope"
        " Prediction, EMNLP-IJCNLP 2019",
        converted="One tool an intent; its description is the label's words, its examples are 20 messages"
        " of the train split by hash. Every val and oos_val message is a dev case, every test and oos_test"
        " message a test case; out of scope = no tool (tag `oos`). The tag `domain:...` is the source's."
        " The oos_train messages are not used.",
        limits="Some out-of-scope messages lie close to an intent. Small talk (`yes`, `thank_you`) counts"
        " as tools, as in the source.",
        convert=convert_clinc150,
    ),
    PublicSet(
        name="banking77",
        about="77 close intents of one domain (en)",
        repository="github.com/PolyAI-LDN/task-specific-datasets",
        version=BANKING77_COMMIT,
        files=BANKING77_FILES,
        licence="CC BY 4.0",
        citation="Casanueva et al., Efficient Intent Detection with Dual Sentence Encoders, NLP4ConvAI 2020",
        converted="One tool a category; its description is the label's words, its examples are 20 texts of"
        " train.csv by hash. Every text of test.csv is a case, 40 % of them dev by hash.",
        limits="Labels are noisy and overlap (Ying & Thomas 2022). No no-tool cases.",
        convert=convert_banking77,
    ),
    PublicSet(
        name="massive",
        about="60 intents with slots, the same messages in 52 languages (en, ar, es by default)",
        repository="github.com/alexa/massive",
        version=MASSIVE_VERSION,
        files=MASSIVE_FILES,
        licence="CC BY 4.0",
        citation="FitzGerald et al., MASSIVE, ACL 2023; Bastianelli et al., SLURP, EMNLP 2020 (the English)",
        converted="One tool an intent; its description is the label's words, its schema the slots that"
        " occur at least 3 times with it in the English train split, its examples 20 English train messages"
        " by hash and the same ones in each language. Every test id and 700 dev ids by hash are cases, in"
        " each language (the id ends in it). Arguments are the annotated slots, as text; a slot that occurs"
        " twice is a list.",
        limits="`general_quirky` is a catch-all; `calendar_*`, `play_*`, `qa_*` and `iot_hue_*` overlap."
        " Values are localised, so they differ between languages. No no-tool cases.",
        convert=convert_massive,
        has_languages=True,
    ),
    PublicSet(
        name="bfcl",
        about="function calls with accepted argument values, and no-tool cases (mostly en)",
        repository="github.com/ShishirPatil/gorilla",
        version=BFCL_COMMIT,
        files=BFCL_FILES,
        licence="Apache-2.0",
        citation="Patil et al., The Berkeley Function Calling Leaderboard, ICML 2025",
        converted="The single-turn categories in Python's notation. Every function that is offered with a"
        " case is a tool, once a distinct definition (`name`, then `name~2` with `variant_of`)."
        " `candidate_tools` = the functions offered with the case: the label holds within them."
        " The irrelevance categories are no-tool cases; of live_relevance only cases with one function are"
        " kept, without arguments. `expected_arguments` has the first accepted value, `argument_alternatives`"
        " all, `optional_arguments` what may be left out; several calls are in `expected_calls`. `message` is"
        " the user's turns, `context` all turns where there are several. 40 % are dev by hash.",
        limits="No-tool holds only against the offered functions. Live messages are raw user input.",
        convert=convert_bfcl,
    ),
    PublicSet(
        name="metatool",
        about="199 plugin-like tools: single, multi-tool and no-tool queries (en)",
        repository="github.com/HowieHwong/MetaTool",
        version=METATOOL_COMMIT,
        files=METATOOL_FILES,
        licence="MIT",
        citation="Huang et al., MetaTool Benchmark, ICLR 2024",
        converted="The tools of plugin_des.json (no parameters in the source). Single-tool cases: of the"
        " queries with one label 16 a tool by hash. Multi-tool: all. No-tool: Task1's negatives (tag"
        " `awareness`), and 500 of Task2-Subtask3 by hash (tag `reliability`; the ten offered tools are"
        " `candidate_tools`, the right one is not among them). 40 % are dev by hash.",
        limits="Queries are generated, many are vague, several tools overlap. A writing or coding request"
        " among the awareness negatives may fit a plugin.",
        convert=convert_metatool,
    ),
    PublicSet(
        name="sealtools",
        about="4,076 tools with schemas: single, multiple and nested calls (en)",
        repository="github.com/fairyshine/Seal-Tools",
        version=SEALTOOLS_COMMIT,
        files=SEALTOOLS_FILES,
        licence="Apache-2.0",
        citation="Wu et al., Seal-Tools, NLPCC 2024",
        converted="All tools (response schemas left out). Every row of dev.jsonl is a dev case, every row of"
        " the two test files a test case (tags `in_domain`, `out_domain`, `level:easy|hard`). One call ->"
        " `expected_arguments`, several -> `expected_calls` (tag `nested` where an argument is another call's"
        " result, `API_call_N`).",
        limits="Generated throughout. Many near-duplicate tools, of which one is labelled: read recall_at_k."
        " Some values have another JSON type than the schema. No no-tool cases.",
        convert=convert_sealtools,
    ),
)
"""All sets that can be had by name."""


@dataclass(frozen=True, kw_only=True)
class FetchedSet:
    """A public set as it was written."""

    name: str
    folder: Path
    n_tools: int
    n_cases: int
    warnings: tuple[str, ...]
    """What loading it finds doubtful: same messages, leaks, loosened schemas."""
    notes: Mapping[str, int]
    """What the conversion left out or changed, counted."""


def get_public_set(
    chosen: PublicSet,
    folder: str | Path,
    *,
    source: str | None = None,
    checked: bool = True,
    languages: Sequence[str] = (),
    force: bool = False,
    progress: bool = False,
) -> FetchedSet:
    """Write a public set in our own form: ``catalog.jsonl``, ``eval.jsonl``, ``SOURCE.md``, ``LICENSE``.

    Parameters
    ----------
    chosen
        The set; see :func:`public_set`.
    folder
        Where to write it; nothing is written before all of it is converted and loads.
    source
        A folder with the source's files, or the address of a mirror; default: each file's own address.
    checked
        Whether files must have the published hash.
    languages
        For a set in many languages: those to convert; default its own choice.
    force
        Whether a set that is there may be written over.
    progress
        Whether downloads draw a bar.

    Raises
    ------
    DownloadError
        If a file cannot be had or has another hash.
    SourceError
        If a file is not in the source's format.
    ValueError
        If the folder is taken, or the set has no choice of languages.
    """
    folder = Path(folder)
    if folder.exists() and not force and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder}: is there already (--force writes over it)")
    rivals = [name for name in ("catalog.yaml", "catalog", "cases.jsonl") if (folder / name).exists()]
    if rivals:
        raise ValueError(f"{folder}: holds another set ({', '.join(rivals)}), which would be read instead")
    if languages and not chosen.has_languages:
        raise ValueError(f"{chosen.name}: has no choice of languages")
    if source is None or source.startswith(("http://", "https://")):
        files = fetch_files(chosen.name, chosen.files, mirror=source, checked=checked, progress=progress)
    elif Path(source).is_dir():
        files = find_files(chosen.name, chosen.files, Path(source), checked=checked)
    else:
        raise ValueError(f"{source}: no folder and no http address")
    options = {"languages": tuple(languages)} if languages else {}
    found = without_contacts(chosen.convert(files, **options))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{chosen.name}-") as made:
        new = Path(made)
        _write_lines(new / "catalog.jsonl", found.tools)
        _write_lines(new / "eval.jsonl", found.cases)
        (new / "LICENSE").write_text(_licence(chosen, files), encoding="utf-8")
        (new / "SOURCE.md").write_text(_source_text(chosen, files, found), encoding="utf-8")
        catalog, cases = Catalog.load(new), load_cases(new)
        folder.mkdir(exist_ok=True)
        for file in sorted(new.iterdir()):
            shutil.move(file, folder / file.name)
    warnings = tuple(text.replace(str(new), str(folder)) for text in (*catalog.warnings, *cases.warnings))
    return FetchedSet(
        name=chosen.name,
        folder=folder,
        n_tools=len(found.tools),
        n_cases=len(found.cases),
        warnings=warnings,
        notes=found.notes,
    )


def _write_lines(path: Path, records: Sequence[Mapping[str, object]]) -> None:
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def _licence(chosen: PublicSet, files: Mapping[str, Path]) -> str:
    """The licence's text where the source has one, else its name."""
    if "LICENSE" in files:
        return files["LICENSE"].read_text(encoding="utf-8", errors="replace")
    archives = [path for name, path in files.items() if name.endswith(".tar.gz")]
    texts = [read_members(path, ["LICENSE"], []).get("LICENSE") for path in archives]
    return next((text for text in texts if text), f"{chosen.licence}\n")


_OWN_HASH = (
    'Samples and splits "by hash" are by the SHA-256 of canonical JSON (`mono_router.records.digest`):'
    " another conversion of this set may have taken other messages. E-mail addresses (other than example.com,"
    " .net, .org), phone numbers and long hex keys are replaced by stand-ins, one for each."
)


def _source_text(chosen: PublicSet, files: Mapping[str, Path], found: Converted) -> str:
    lines = [f"# {chosen.name}", "", f"Licence: {chosen.licence} (`LICENSE` in this folder).", ""]
    lines += ["## Source", f"- {chosen.repository}, {chosen.version}", f"- {chosen.citation}"]
    for file in chosen.files:
        got = file_hash(files[file.name])
        told = "not hash-checked" if file.sha256 is None else "as published"
        told = told if file.sha256 in (None, got) else "NOT the published file"
        lines.append(f"- `{file.path}`: {file.url} (sha256 {got}, {told})")
    cases = found.cases
    splits, languages = Counter(c["split"] for c in cases), Counter(c["language"] for c in cases)
    kinds = Counter(
        tag for c in cases for tag in c["tags"] if tag in ("single_tool", "multi_tool", "no_tool")
    )
    lines += [
        "",
        "## What was converted and how",
        chosen.converted,
        f"Converted by mono_router {mono_router.__version__}. {_OWN_HASH}",
        "",
        "## Known label problems and limits",
        chosen.limits,
        "",
        "## Counts",
        f"- tools: {len(found.tools)}",
        f"- cases: {len(cases)} ({_counts(splits)}); {_counts(kinds)}; languages {_counts(languages)}",
    ]
    if found.notes:
        lines.append(f"- notes: {_counts(found.notes)}")
    return "\n".join(lines) + "\n"


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counted.items()))
