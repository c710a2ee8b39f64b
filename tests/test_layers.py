"""Which module may import which: the table of the package's layers, held as data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "mono_router"
STAGES = {"lexical", "recall", "fusion", "selection"}
CORE = {
    "records",
    "settings",
    "documents",
    "schema",
    "text",
    "reading",
    "catalog",
    "lexical",
    "vectors",
    "embedding",
    "adaptation",
    "memory",
    "prompting",
    "recall",
    "fusion",
    "selection",
    "decision",
    "evidence_table",
    "branches",
    "branch_table",
    "decision_table",
    "local",
    "router",
    "extraction",
    "models",
    "html",
}
# Module to what it may import; a package's name stands for all of its modules.
ALLOWED: dict[str, set[str]] = {
    "records": set(),
    "templates": set(),
    "settings": {"records"},
    "documents": set(),
    "schema": {"records"},
    "text": set(),
    "dialects": {"text"},
    "neutral": {"text"},
    "heads": {"records", "text", "dialects", "neutral", "catalog"},
    "date_words": {"text"},
    "date_rules": {"text", "date_words"},
    "dates": {"text", "date_words", "date_rules"},
    "value_words": {"text"},
    "values": {"text", "dates", "date_words", "value_words"},
    "slots": {"records", "schema", "text", "value_words"},
    "pairing": {"records", "text", "dates", "slots", "values", "value_words"},
    "text_values": {"pairing", "slots", "value_words", "values"},
    "typed_values": {"dates", "pairing", "slots", "value_words", "values"},
    "extraction": {
        "records", "schema", "dates", "text", "slots", "pairing", "values", "value_words", "text_values",
        "typed_values",
    },
    "reading": {"records", "schema", "documents"},
    "importers": {"reading"},
    "openapi": {"importers", "reading", "schema"},
    "catalog": {"records", "schema", "documents", "reading", "importers", "openapi"},
    "lexical": {"records", "settings", "text", "dialects", "catalog"},
    "vectors": {"records"},
    "embedding": {
        "records", "settings", "text", "dialects", "catalog", "vectors", "lexical", "heads", "neutral",
    },
    "adaptation": {"records", "dialects", "catalog", "embedding", "heads"},
    "matching": {"records", "settings", "text", "dialects", "neutral", "heads", "catalog", "lexical"},
    "memory": {"records", "text", "schema"},
    "prompting": {"records", "memory"},
    "recall": {"records", "settings", "catalog", "prompting"},
    "fusion": {"records", "settings"},
    "selection": {"records", "settings", "schema", "catalog", "prompting"},
    "decision": {"records", "settings", "fusion"},
    "evidence_table": {"records", "fusion", "decision"},
    "branches": {"records", "settings", "decision", "evidence_table"},
    "branch_table": {"records", "settings", "fusion", "decision", "evidence_table", "branches"},
    "decision_table": {"records", "settings", "decision", "evidence_table", "branches", "branch_table"},
    "local": {
        "records", "settings", "text", "catalog", "lexical", "embedding", "extraction", "decision", "heads",
        "dialects", "neutral", "matching", "mode_head",
    },
    "mode_sentences": set(),
    "mode_head": {"records", "catalog", "heads", "mode_sentences", "neutral"},
    "router": CORE - {"html"},
    "markup": {"records"},
    "html": {"records", "markup"},
    "models": {"models", "records", "catalog", "prompting", "text"},
    "runtime": CORE | {"runtime", "dates", "slots", "values", "value_words"},
    "lab": CORE | {"adaptation", "lab", "heads", "markup"},
    "journal": {"journal", "records", "settings", "schema", "text", "fusion", "decision"},
    "journal.manifests": {"journal", "records", "catalog", "reading"},
    "journal.proposal": {"journal", "records", "text", "catalog"},
    "journal.improvement": {
        "journal", "records", "settings", "text", "decision", "catalog", "embedding", "local", "router",
        "lab",
    },
    "commands": CORE | {"commands", "lab", "runtime", "journal", "importers", "dates"},
    "cli": {"commands"},
}  # fmt: skip
# Results take no drawing with them: these serve others in the lab, or stand at its end.
LAB_ALLOWED = {
    "lab.metrics": {"branches", "catalog", "decision_table", "records", "schema"},
    "lab.intervals": set(),
    "lab.curves": {"lab.evaluation", "lab.picking", "lab.tuning", "lab.intervals", "lab.metrics", "records"},
    "lab.advice": set(),
    "lab.comparison": {"lab.evaluation", "lab.intervals", "lab.metrics"},
    "lab.confusion": {"text"},
    "lab.drawing": set(),
    "lab.panels": {"markup"},
    "lab.result_panels": {"markup"},
    "lab.provenance": {"records", "settings"},
    "lab.overlap": {"catalog", "records", "text"},
    "lab.cases": {"catalog", "documents", "memory", "reading", "records", "text"},
}
HEAVY = {
    "torch",
    "sklearn",
    "pandas",
    "matplotlib",
    "anthropic",
    "surrealdb",
    "sentence_transformers",
    "jsonschema",
    "dateparser",
    "scipy",
    "yaml",
    "ipywidgets",
    "dask",
    "joblib",
    "tqdm",
    "httpcore",
    "httpx",
    "referencing",
}


def modules() -> dict[str, Path]:
    """Dotted name within the package to file, packages' own files left out."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] != "__init__":
            found[".".join(parts)] = path
    return found


MODULES = modules()


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(node: ast.AST, inside: str = "") -> Iterator[tuple[str, str, str]]:
    """Every import that runs: (module, name, function it stands in)."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, "", inside) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield from ((child.module or "", alias.name, inside) for alias in child.names)
        name = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else inside
        yield from imports(child, name)


def used(module: str) -> set[str]:
    """Modules of the package that a module imports, at any place but for showing itself as HTML."""
    found = set()
    for source, name, inside in imports(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if source != "mono_router" and not source.startswith("mono_router."):
            continue
        target = source.removeprefix("mono_router").removeprefix(".")
        if f"{target}.{name}".strip(".") in MODULES:
            target = f"{target}.{name}".strip(".")
        if target and not (target == "html" and inside == "_repr_html_"):
            found.add(target)
    return found - {"lab", "models", "runtime", "journal", "commands"}


def allowed(module: str) -> set[str]:
    return ALLOWED.get(module, ALLOWED.get(module.split(".")[0], set()))


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_up(module: str) -> None:
    """A module imports only what the table grants it."""
    assert module.split(".")[0] in ALLOWED, f"{module} is not in the table"
    granted = allowed(module)
    wrong = {
        target for target in used(module) if target not in granted and target.split(".")[0] not in granted
    }
    assert not wrong, f"{module} may not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("module", LAB_ALLOWED)
def test_the_lab_is_layered_too(module: str) -> None:
    """What others in the lab stand on imports nothing of theirs."""
    assert used(module) <= LAB_ALLOWED[module]


def test_the_four_stages_do_not_know_each_other() -> None:
    """No stage imports another; the embedding retriever takes one function of stage 1."""
    for stage in STAGES:
        assert not used(stage) & (STAGES | {"embedding"})
    assert used("embedding") & STAGES == {"lexical"}
    taken = [
        name
        for source, name, _ in imports(ast.parse(MODULES["embedding"].read_text(encoding="utf-8")))
        if source == "mono_router.lexical"
    ]
    assert taken == ["top_hits"]


def test_lab_runtime_and_journal_do_not_import_each_other() -> None:
    """The three wings stand apart, but for the journal's improvement, which evaluates."""
    wings = ("lab", "runtime", "journal")
    for module in MODULES:
        wing = module.split(".")[0]
        if wing in wings and module != "journal.improvement":
            others = {w for w in wings if w != wing}
            assert not {t for t in used(module) if t.split(".")[0] in others}, module


def test_nothing_but_html_writes_html() -> None:
    """Markup comes from one module, and from the page that is made of its parts."""
    for module, path in MODULES.items():
        if module not in ("html", "markup", "lab.report"):
            text = path.read_text(encoding="utf-8")
            assert "<div" not in text, module
            assert "</td>" not in text, module


@pytest.mark.parametrize("module", MODULES)
def test_heavy_libraries_are_imported_late(module: str) -> None:
    """No module loads a heavy library before it is used."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    early = {source.split(".")[0] for source, _, inside in imports(tree) if not inside}
    assert not early & HEAVY
