"""A tool router for LLM agents, and the laboratory in which its decisions are tuned."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mono_router.catalog import Catalog
    from mono_router.embedding import (
        EmbeddingRetriever,
        FunctionEncoder,
        LightEncoder,
        SentenceTransformerEncoder,
    )
    from mono_router.lab.calibration import Calibrator
    from mono_router.lab.cases import CasesError, load_cases
    from mono_router.lab.comparison import Comparison, compare
    from mono_router.lab.diagnosis import Diagnosis, diagnose
    from mono_router.lab.evaluation import Report, evaluate
    from mono_router.lab.tuning import Costs, OperatingPoint, Sweep, sweep
    from mono_router.lexical import LexicalRetriever
    from mono_router.local import LocalSelector
    from mono_router.models.claude import AnthropicModel
    from mono_router.models.recorded import NotRecorded, RecordedModel
    from mono_router.models.scripted import ScriptedModel
    from mono_router.models.simulated import SimulatedModel
    from mono_router.reading import CatalogError
    from mono_router.records import (
        Call,
        Case,
        Decision,
        Entity,
        Example,
        Memory,
        ModelError,
        Query,
        Skill,
        Tool,
        Trace,
    )
    from mono_router.router import Router
    from mono_router.selection import ModelSelector
    from mono_router.settings import Settings

_HOMES = {
    "AnthropicModel": "models.claude",
    "Calibrator": "lab.calibration",
    "Call": "records",
    "Case": "records",
    "CasesError": "lab.cases",
    "Catalog": "catalog",
    "CatalogError": "reading",
    "Comparison": "lab.comparison",
    "Costs": "lab.tuning",
    "Decision": "records",
    "Diagnosis": "lab.diagnosis",
    "EmbeddingRetriever": "embedding",
    "Entity": "records",
    "Example": "records",
    "FunctionEncoder": "embedding",
    "LexicalRetriever": "lexical",
    "LightEncoder": "embedding",
    "LocalSelector": "local",
    "Memory": "records",
    "ModelError": "records",
    "ModelSelector": "selection",
    "NotRecorded": "models.recorded",
    "OperatingPoint": "lab.tuning",
    "Query": "records",
    "RecordedModel": "models.recorded",
    "Report": "lab.evaluation",
    "Router": "router",
    "ScriptedModel": "models.scripted",
    "SentenceTransformerEncoder": "embedding",
    "Settings": "settings",
    "SimulatedModel": "models.simulated",
    "Skill": "records",
    "Sweep": "lab.tuning",
    "Tool": "records",
    "Trace": "records",
    "compare": "lab.comparison",
    "diagnose": "lab.diagnosis",
    "evaluate": "lab.evaluation",
    "load_cases": "lab.cases",
    "sweep": "lab.tuning",
}

__all__ = [  # sorted; a test holds it equal to the table above
    "AnthropicModel",
    "Calibrator",
    "Call",
    "Case",
    "CasesError",
    "Catalog",
    "CatalogError",
    "Comparison",
    "Costs",
    "Decision",
    "Diagnosis",
    "EmbeddingRetriever",
    "Entity",
    "Example",
    "FunctionEncoder",
    "LexicalRetriever",
    "LightEncoder",
    "LocalSelector",
    "Memory",
    "ModelError",
    "ModelSelector",
    "NotRecorded",
    "OperatingPoint",
    "Query",
    "RecordedModel",
    "Report",
    "Router",
    "ScriptedModel",
    "SentenceTransformerEncoder",
    "Settings",
    "SimulatedModel",
    "Skill",
    "Sweep",
    "Tool",
    "Trace",
    "compare",
    "diagnose",
    "evaluate",
    "load_cases",
    "sweep",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mono_router' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"mono_router.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
