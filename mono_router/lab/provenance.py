"""Provenance: what produced a report, so that a figure can be traced to code, cases and settings."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any

from mono_router.records import digest, fitted_on
from mono_router.settings import Settings

if TYPE_CHECKING:
    from mono_router.lab.evaluation import Report

PACKAGES = (
    "mono-router",
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "joblib",
    "dateparser",
    "jsonschema",
    "anthropic",
    "sentence-transformers",
    "torch",
)
"""Packages whose version can move a figure, told where they are installed."""


def provenance_of(report: Report) -> dict[str, Any]:
    """Return hashes, names, versions and commit of what produced a report; plain values, no timings."""
    router, cases = report.router, report.cases
    encoder = getattr(router.retriever, "encoder", None)
    model = router.model or getattr(router.selector, "model", None)
    defaults = Settings().to_dict()
    record: dict[str, Any] = {
        "catalog_hash": router.catalog.hash,
        "n_tools": len(router.catalog),
        "settings_hash": report.settings.hash,
        "settings": {k: v for k, v in report.settings.to_dict().items() if v != defaults[k]},
        "cases_hash": digest(cases),
        "n_cases": len(cases),
        "splits": sorted({case.split for case in cases} - {""}),
        "languages": sorted({case.language for case in cases} - {""}),
        "selected_on": report.selected_on,
        "prompts": dict(router.prompts),
        "retriever": None if router.retriever is None else type(router.retriever).__name__,
        "encoder": None if encoder is None else encoder.id,
        "encoder_cases_hash": _learnt(encoder),
        "model": None if model is None else model.name,
        "simulated": router.simulated,
        "selector": type(router.selector).__name__,
        "selector_cases_hash": _learnt(router.selector),
        "calibrator": None if router.calibrator is None else type(router.calibrator).__name__,
        "calibrator_cases_hash": _learnt(router.calibrator),
        "offered": report.offered,
    }
    if report.repeats:
        record["repeats"] = 1 + len(report.repeats)
    return {**record, "versions": _versions(), **_commit()}


def _learnt(part: Any) -> str | None:
    """Hash of the ids that a part was fitted on; None where it was fitted on none."""
    seen = fitted_on(part)
    return digest(sorted(seen)) if seen else None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> dict[str, Any]:
    """Commit and dirty flag of the working folder, None outside a repository."""
    import subprocess

    try:
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain"], capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}
    return {"commit": head, "dirty": bool(changed)}
