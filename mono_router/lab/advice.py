"""Stages that lose cases, and the advice that fits each cause; a table, read by diagnosis and its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Stage = Literal["discovery", "selection", "extraction", "execution"]
STAGES: tuple[Stage, ...] = ("discovery", "selection", "extraction", "execution")
"""In the order in which a message passes them: a case is lost at the first that failed."""
ADVICE: Mapping[str, str] = {
    "skipped_confident": (
        "The lexical stage was sure of another tool: raise lexical.min_score or lexical.min_margin, or "
        "take the hint that misleads out of that tool."
    ),
    "gate_max_catalog_tools": (
        "The catalog is over recall.max_catalog_tools: raise the gate, or use source both or embedding."
    ),
    "gate_max_catalog_chars": (
        "The catalog is over recall.max_catalog_chars: raise the gate, shorten descriptions, or use "
        "source both or embedding."
    ),
    "recall_off": (
        "Words alone did not find the tool and stage 2 is off: give an encoder or a model, or add hints "
        "and examples in the user's words."
    ),
    "recall_miss": (
        "Neither stage found the tool: add an example or a hint in the user's words, or say in the "
        "description what users call it."
    ),
    "recall_error": "The model failed at recall: see the error code; this is no routing fault.",
    "limit_lexical.candidate_limit": (
        "The lexical stage had the tool below lexical.candidate_limit: raise it."
    ),
    "limit_recall.candidate_limit": "Recall had the tool below recall.candidate_limit: raise it.",
    "limit_recall.ask_limit": "Recall had the tool below recall.ask_limit: raise it.",
    "limit_recall.min_score": "Recall had the tool below recall.min_score: lower it.",
    "limit_candidate_limit": (
        "The fused list had the tool below candidate_limit: raise it, or sweep fusion.weights."
    ),
    "neighbour_tool": (
        "A neighbour was chosen: set the two descriptions apart (see confusions), and give each an "
        "example that the other must not take."
    ),
    "incomplete_set": (
        "The message needs several tools and not all, or others, were chosen: check the limits of think "
        "mode, or split the request."
    ),
    "false_tool": (
        "A tool was called where none is right: raise selection.min_confidence, or add boundaries."
    ),
    "false_none": (
        "The right tool was a candidate, and none was chosen: lower selection.min_confidence, or add an "
        "example close to the message."
    ),
    "low_confidence": (
        "The right tool came first and a threshold refused it: lower selection.min_confidence or "
        "selection.min_write_confidence, or calibrate."
    ),
    "ambiguous": (
        "Two tools came out too close and neither is right: lower selection.min_margin or set them apart."
    ),
    "wrong_mode": "The tool is right and its mode is not: give examples with a mode.",
    "rejected": "The answer broke a rule: see the rejection; the prompt or the schema invites it.",
    "error": "The model failed: see the error code; this is no routing fault.",
    "missing": (
        "A value that the message gives was not found: describe the property, give its format or enum, or"
        " x-synonyms."
    ),
    "wrong_value": (
        "A value was read wrongly: describe the property; for dates give the case or the request its now."
    ),
    "no_date_context": "A relative date had no now to count from: give the request its date and time zone.",
    "unknown_key": "An argument was given that the tool does not take from a user.",
    "sensitive": "An argument may carry a credential: make it a system argument.",
    "schema": "A value does not fit the schema: check its type, enum and format.",
    "asked_in_vain": "The user was asked for what the message gives: see what was not extracted.",
    "not_asked": "A required value is missing and the user was not asked: check required in the schema.",
    "config": "The tool is not configured: check run and the modules that the host allows.",
    "raised": (
        "The tool's own code raised: call runtime.invoke with the same arguments; if it fails there too, the "
        "function is broken, else tighten the schema so that values that it cannot take are refused before."
    ),
    "refused_request": (
        "The service refused the request as wrong: check how arguments map to path, query and body, and "
        "whether the schema's types, formats and enums are those of the service."
    ),
    "auth": "The service refused the credential: check auth and its environment variable.",
    "network": "The service was not reached in time: check the endpoint and timeout_ms.",
    "response": "The service answered with what could not be read: check response.select and max_bytes.",
}
"""Advice by cause."""
