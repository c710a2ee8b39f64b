"""The rows: what the journal keeps of a decision, an outcome, a feedback, and how a row is checked.

A row is a contract: flat columns of text, numbers and booleans, its schema number, its time in UTC, and
the hash of all its columns. JSON stands in ``skills``, ``calls``, ``ranked``, ``spent`` and ``evidence``.
There is no null: a text that is not there is empty, a choice that was not randomised has propensity 1.
Rows of older schemas are read by :func:`upgraded`; a newer one is refused by name.
"""

from __future__ import annotations

import datetime
import hmac
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mono_router.journal.corrections import is_correction
from mono_router.journal.database import SCHEMA, JournalError
from mono_router.journal.evidence import packed
from mono_router.journal.redaction import redact, redact_value, redacted, secrets_in
from mono_router.records import Trace, canonical_json, digest
from mono_router.text import guess_language

Messages = Literal["keep", "hash", "drop"]
MESSAGES: tuple[Messages, ...] = ("keep", "hash", "drop")
REQUEST = re.compile(r"[0-9a-f]{32}")
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
COLUMNS = (
    "schema", "at", "session", "message", "kept", "language", "correction", "outcome", "reason", "skills",
    "tool", "mode", "calls", "ranked", "p_tool", "confidence", "confident", "recalled", "catalog_hash",
    "settings_hash", "model", "simulated", "version", "spent", "policy", "propensity", "support", "evidence",
    "hash",
)  # fmt: skip
"""Columns of a decision, in order; ``id`` stands beside them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Which of several settings decided, where the choice was randomised."""

    policy: str = ""
    """Name of the settings that decided; empty = no choice was made."""
    propensity: float = 1.0
    """Probability that this action was taken, (0, 1]."""
    support: Mapping[str, float] = field(default_factory=dict)
    """Probability of every action that could have been taken."""


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """What may be kept of a message."""

    messages: Messages = "keep"
    key: bytes | None = None
    """Key of the hash, so that nobody can find a message by guessing it."""

    def __post_init__(self) -> None:
        if self.messages not in MESSAGES:
            raise ValueError(f"messages must be one of {', '.join(MESSAGES)}, got {self.messages!r}")
        if self.messages == "hash" and not self.key:
            raise ValueError("messages='hash' needs a key")

    def kept(self, message: str) -> str:
        """Return what is stored of a redacted message.

        >>> Privacy(messages="drop").kept("hello")
        ''
        """
        if self.messages == "keep":
            return message
        if self.messages == "drop":
            return ""
        assert self.key is not None
        return "hmac-sha256:" + hmac.new(self.key, message.encode(), "sha256").hexdigest()


class Clock:
    """Makes request ids that sort by time: 16 hexadecimal digits of microseconds, 16 of chance."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> str:
        """Return a new id, after all before it."""
        with self._lock:
            self._last = max(self._last + 1, time.time_ns() // 1000)
            return f"{self._last:016x}{os.urandom(8).hex()}"


def time_of(request_id: str) -> str:
    """Return the UTC time that an id stands for.

    >>> time_of("0000000000000000" + "f" * 16)
    '1970-01-01T00:00:00.000000Z'
    """
    return utc(int(request_id[:16], 16) / 1e6)


def utc(seconds: float) -> str:
    """Return seconds since 1970 as UTC text that sorts by time."""
    when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(at: str) -> float:
    """Return the seconds since 1970 of such a text.

    >>> seconds_of("1970-01-01T00:01:00.500000Z")
    60.5
    """
    return datetime.datetime.fromisoformat(at).timestamp()


def key_at(seconds: float) -> str:
    """Return the least request id of a time."""
    return f"{max(0, int(seconds * 1e6)):016x}"


def tidy(text: str) -> str:
    """Return a redacted text without control characters, which part the columns of a read."""
    return _CONTROL.sub(" ", redact(text))


def decision_row(
    request_id: str, trace: Trace, *, session_id: str | None, privacy: Privacy, choice: Choice
) -> dict[str, Any]:
    """Return the row of a decision."""
    decision = trace.decision
    secrets: set[str] = set()
    for call in decision.calls:
        secrets |= secrets_in(call.arguments)
    if trace.scored is not None:
        known = trace.scored.evidence.filled
        for tool in tuple(known):
            secrets |= secrets_in(known[tool].arguments)
    message, told = redacted(trace.query.message, secrets)
    message = _CONTROL.sub(" ", message)
    secrets |= told  # arguments may have been read from them
    usage = trace.usage
    spent = {
        "timings": dict(trace.timings),
        "model_calls": usage.model_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
    }
    calls = [[call.tool, redact_value(call.arguments, secrets)] for call in decision.calls]
    row = {
        "id": request_id,
        "schema": SCHEMA,
        "at": time_of(request_id),
        "session": tidy(session_id or ""),
        "message": privacy.kept(message),
        "kept": privacy.messages,
        "language": guess_language(message),
        # Told before the message may be hashed or dropped: a phrase of five languages' worth, no content.
        "correction": is_correction(message),
        "outcome": decision.outcome,
        "reason": decision.reason,
        "skills": canonical_json(list(decision.skills)),
        "tool": decision.tool or "",
        "mode": decision.mode or "",
        "calls": canonical_json(calls),
        "ranked": canonical_json([[item.tool, item.score] for item in decision.ranked]),
        "p_tool": float(decision.p_tool),
        "confidence": float(decision.confidence),
        "confident": trace.lexical.confident,
        "recalled": trace.recall.used,
        "catalog_hash": trace.catalog_hash,
        "settings_hash": trace.settings_hash,
        "model": trace.model or "",
        "simulated": trace.simulated,
        "version": trace.version,
        "spent": canonical_json(spent),
        "policy": tidy(choice.policy),
        "propensity": float(choice.propensity),
        "support": canonical_json(dict(choice.support)),
        "evidence": packed(trace.scored, secrets) if trace.scored is not None else "",
    }
    return signed(row)


def outcome_row(
    key: str, request_id: str, *, status: str, error: str | None, re_asked: bool
) -> dict[str, Any]:
    """Return the row of an outcome; several of one request add up."""
    row = {
        "id": f"{request_id}.{key[:20]}",
        "schema": SCHEMA,
        "at": time_of(key),
        "request": request_id,
        "status": tidy(status)[:80],
        "error": tidy(error or "")[:200],
        "re_asked": bool(re_asked),
    }
    return signed(row)


def feedback_row(key: str, request_id: str, *, value: str, note: str | None) -> dict[str, Any]:
    """Return the row of a feedback."""
    row = {
        "id": f"{request_id}.{key[:20]}",
        "schema": SCHEMA,
        "at": time_of(key),
        "request": request_id,
        "value": value,
        "note": tidy(note or ""),
    }
    return signed(row)


def signed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the hash of its other columns, its id among them."""
    return {**row, "hash": row_hash(row)}


def row_hash(row: Mapping[str, Any]) -> str:
    """Return the hash of a row as it is stored, whatever its schema."""
    return digest({name: value for name, value in row.items() if name != "hash"})


def upgraded(row: Mapping[str, Any], table: str = "decision") -> dict[str, Any]:
    """Return a row of any older schema as one of today's.

    Raises
    ------
    JournalError
        If a later version wrote it.

    >>> upgraded({"id": "a", "schema": 1, "tool": "t"})["propensity"]
    1.0
    """
    schema = row.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise JournalError(
            f"{table} {row.get('id')} has schema {schema}, this version reads up to {SCHEMA}: "
            "update mono-router"
        )
    found = dict(row)
    if schema < 2 and table == "decision":
        # Schema 1 knew no randomised choices.
        found |= {"policy": "", "propensity": 1.0, "support": "{}"}
    return found
