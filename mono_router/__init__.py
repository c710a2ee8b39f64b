"""A tool router for LLM agents, and the laboratory in which its decisions are tuned."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mono_router.adaptation import PretrainRecipe, Recipe, TunedEncoder, adapt, pretrain
    from mono_router.catalog import Catalog
    from mono_router.embedding import (
        EmbeddingRetriever,
        FunctionEncoder,
        LightEncoder,
        SentenceTransformerEncoder,
    )
    from mono_router.journal.analysis import analyze
    from mono_router.journal.database import JournalError
    from mono_router.journal.improvement import gate, propose
    from mono_router.journal.store import Journal
    from mono_router.lab.calibration import Calibrator
    from mono_router.lab.cases import CasesError, load_cases
    from mono_router.lab.comparison import Comparison, compare
    from mono_router.lab.diagnosis import Diagnosis, diagnose
    from mono_router.lab.evaluation import Report, evaluate
    from mono_router.lab.explorer import Explorer, explore
    from mono_router.lab.order_bias import OrderBias, order_bias
    from mono_router.lab.overlap import Overlap, find_overlaps
    from mono_router.lab.picking import Costs, OperatingPoint
    from mono_router.lab.reliability import calibration_table
    from mono_router.lab.risk import RiskControl, control_risk
    from mono_router.lab.sessions import evaluate_sessions, execute_cases, load_sessions
    from mono_router.lab.tuning import Sweep, sweep
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
    from mono_router.runtime.agent import AgentRuntime
    from mono_router.runtime.config import ConfigError
    from mono_router.runtime.results import Result
    from mono_router.selection import ModelSelector
    from mono_router.settings import Settings

_HOMES = {
    "AgentRuntime": "runtime.agent",
    "AnthropicModel": "models.claude",
    "Calibrator": "lab.calibration",
    "Call": "records",
    "Case": "records",
    "CasesError": "lab.cases",
    "Catalog": "catalog",
    "CatalogError": "reading",
    "Comparison": "lab.comparison",
    "ConfigError": "runtime.config",
    "Costs": "lab.picking",
    "Decision": "records",
    "Diagnosis": "lab.diagnosis",
    "EmbeddingRetriever": "embedding",
    "Entity": "records",
    "Example": "records",
    "Explorer": "lab.explorer",
    "FunctionEncoder": "embedding",
    "Journal": "journal.store",
    "JournalError": "journal.database",
    "LexicalRetriever": "lexical",
    "LightEncoder": "embedding",
    "LocalSelector": "local",
    "Memory": "records",
    "ModelError": "records",
    "ModelSelector": "selection",
    "NotRecorded": "models.recorded",
    "OperatingPoint": "lab.picking",
    "OrderBias": "lab.order_bias",
    "Overlap": "lab.overlap",
    "PretrainRecipe": "adaptation",
    "Query": "records",
    "Recipe": "adaptation",
    "RecordedModel": "models.recorded",
    "Report": "lab.evaluation",
    "Result": "runtime.results",
    "RiskControl": "lab.risk",
    "Router": "router",
    "ScriptedModel": "models.scripted",
    "SentenceTransformerEncoder": "embedding",
    "Settings": "settings",
    "SimulatedModel": "models.simulated",
    "Skill": "records",
    "Sweep": "lab.tuning",
    "Tool": "records",
    "Trace": "records",
    "TunedEncoder": "adaptation",
    "adapt": "adaptation",
    "analyze": "journal.analysis",
    "calibration_table": "lab.reliability",
    "compare": "lab.comparison",
    "control_risk": "lab.risk",
    "diagnose": "lab.diagnosis",
    "evaluate": "lab.evaluation",
    "evaluate_sessions": "lab.sessions",
    "execute_cases": "lab.sessions",
    "explore": "lab.explorer",
    "find_overlaps": "lab.overlap",
    "gate": "journal.improvement",
    "load_cases": "lab.cases",
    "load_sessions": "lab.sessions",
    "order_bias": "lab.order_bias",
    "pretrain": "adaptation",
    "propose": "journal.improvement",
    "sweep": "lab.tuning",
}

__all__ = [  # sorted; a test holds it equal to the table above
    "AgentRuntime",
    "AnthropicModel",
    "Calibrator",
    "Call",
    "Case",
    "CasesError",
    "Catalog",
    "CatalogError",
    "Comparison",
    "ConfigError",
    "Costs",
    "Decision",
    "Diagnosis",
    "EmbeddingRetriever",
    "Entity",
    "Example",
    "Explorer",
    "FunctionEncoder",
    "Journal",
    "JournalError",
    "LexicalRetriever",
    "LightEncoder",
    "LocalSelector",
    "Memory",
    "ModelError",
    "ModelSelector",
    "NotRecorded",
    "OperatingPoint",
    "OrderBias",
    "Overlap",
    "PretrainRecipe",
    "Query",
    "Recipe",
    "RecordedModel",
    "Report",
    "Result",
    "RiskControl",
    "Router",
    "ScriptedModel",
    "SentenceTransformerEncoder",
    "Settings",
    "SimulatedModel",
    "Skill",
    "Sweep",
    "Tool",
    "Trace",
    "TunedEncoder",
    "adapt",
    "analyze",
    "calibration_table",
    "compare",
    "control_risk",
    "diagnose",
    "evaluate",
    "evaluate_sessions",
    "execute_cases",
    "explore",
    "find_overlaps",
    "gate",
    "load_cases",
    "load_sessions",
    "order_bias",
    "pretrain",
    "propose",
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
