"""What-if: rows of the journal decided again under other settings, by the one decision code.

Rows and settings go in; a :class:`Replayed` comes out. No model runs. Where a row's evidence does not hold
what the settings ask for, the row is counted as unrecorded, with the reason, and never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mono_router.decision import Calibration, decide
from mono_router.journal.evidence import unpacked
from mono_router.records import Decision, Tool
from mono_router.settings import FIELDS, Settings

if TYPE_CHECKING:
    import pandas as pd

SCORE_NAMES = tuple(name for name, item in FIELDS.items() if item.metadata["replay"] == "score")
ASKED_NAMES = ("selection.max_skills", "selection.fallback_attempts")
"""Settings that shape how a model selector asks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """One row, decided again."""

    request: str
    before: tuple[str, tuple[str, ...]]
    """Outcome, and tools called or asked for."""
    after: tuple[str, tuple[str, ...]] | None
    """The same under the other settings; None = unrecorded."""
    unrecorded: str = ""
    """Why it is not known."""
    p_tool: float = 0.0
    confidence: float = 0.0
    recalled: bool = False
    """Whether stage 2 runs under the other settings."""
    recalled_before: bool = False

    @property
    def changed(self) -> bool:
        """Whether the decision is another one."""
        return self.after is not None and self.after != self.before


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """Rows under other settings."""

    settings: Settings
    rows: tuple[Again, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_unrecorded(self) -> int:
        """Rows that cannot be known."""
        return sum(row.after is None for row in self.rows)

    @property
    def n_changed(self) -> int:
        """Rows that are decided otherwise."""
        return sum(row.changed for row in self.rows)

    @property
    def reasons(self) -> dict[str, int]:
        """Why rows cannot be known, and how many."""
        found: dict[str, int] = {}
        for row in self.rows:
            if row.after is None:
                found[row.unrecorded] = found.get(row.unrecorded, 0) + 1
        return dict(sorted(found.items()))

    def summary(self) -> pd.DataFrame:
        """Return shares of outcomes and of stage 2 before and after, with what unrecorded rows leave open.

        Shares are over all rows; ``low`` and ``high`` bound what the unrecorded ones could make of them.
        """
        import pandas as pd

        n = max(1, len(self.rows))
        unknown = self.n_unrecorded / n
        names = sorted({r.before[0] for r in self.rows} | {r.after[0] for r in self.rows if r.after})
        table: dict[str, dict[str, float]] = {}
        for name in names:
            before = sum(row.before[0] == name for row in self.rows) / n
            after = sum(row.after is not None and row.after[0] == name for row in self.rows) / n
            table[name] = {"before": before, "low": after, "high": after + unknown}
        before = sum(row.recalled_before for row in self.rows) / n
        after = sum(row.recalled for row in self.rows if row.after is not None) / n
        table["recall_rate"] = {"before": before, "low": after, "high": after + unknown}
        table["changed"] = {"before": 0.0, "low": self.n_changed / n, "high": self.n_changed / n + unknown}
        return pd.DataFrame.from_dict(table, orient="index")

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per decision: before, after, why it is unrecorded."""
        import pandas as pd

        rows = [
            {
                "request": row.request,
                "outcome_before": row.before[0],
                "tools_before": row.before[1],
                "outcome": row.after[0] if row.after else "unrecorded",
                "tools": row.after[1] if row.after else (),
                "changed": row.changed,
                "unrecorded": row.unrecorded,
                "p_tool": row.p_tool if row.after else float("nan"),
                "confidence": row.confidence if row.after else float("nan"),
            }
            for row in self.rows
        ]
        return pd.DataFrame(rows)


def replay_rows(
    rows: Iterable[Mapping[str, Any]],
    settings: Settings,
    *,
    tools: Mapping[str, Mapping[str, Tool]],
    recorded: Mapping[str, Settings],
    calibration: Calibration | None = None,
) -> Replayed:
    """Return rows decided again.

    Parameters
    ----------
    tools
        Tools of each catalog, by its hash.
    recorded
        Settings that rows were decided under, by their hash.
    calibration
        What the router was calibrated with; rows of a calibrated router are unrecorded without it.
    """
    found = []
    for row in rows:
        own = recorded.get(row["settings_hash"])
        known = tools.get(row["catalog_hash"])
        found.append(_again(row, settings, own, known, calibration))
    return Replayed(settings=settings, rows=tuple(found))


def _again(
    row: Mapping[str, Any],
    settings: Settings,
    own: Settings | None,
    tools: Mapping[str, Tool] | None,
    calibration: Calibration | None,
) -> Again:
    import json

    before = (str(row["outcome"]), tuple(dict.fromkeys(call[0] for call in json.loads(row["calls"]))))
    recalled = bool(row["recalled"])

    def unknown(reason: str) -> Again:
        return Again(
            request=row["id"], before=before, after=None, unrecorded=reason, recalled_before=recalled
        )

    if not row["evidence"] or own is None or tools is None:
        return unknown("no evidence was kept")
    wanted = resolved(settings, own)
    evidence = unpacked(row["evidence"], tools)
    for name in SCORE_NAMES if evidence.selector_scores else (*SCORE_NAMES, *ASKED_NAMES):
        if wanted.get(name) != own.get(name):
            return unknown(f"{name} changes scores")
    calibrated = json.loads(row["evidence"]).get("calibrated", False)
    if calibrated and calibration is None:
        return unknown("the calibration is not given")
    if _cut(len(evidence.lexical), own.lexical.candidate_limit, wanted.lexical.candidate_limit):
        return unknown("lexical.candidate_limit is wider than what was kept")
    verdict = decide(evidence, wanted, tools, calibration if calibrated else None)
    if verdict.recall.used and evidence.embedding is not None and wanted.recall.source == "embedding":
        widths = [min(s.recall.candidate_limit, s.recall.ask_limit) for s in (own, wanted)]
        if _cut(len(evidence.embedding), widths[0], widths[1]):
            return unknown("recall.candidate_limit is wider than what was kept")
    if verdict.decision is None:
        assert verdict.needs is not None
        return unknown(_REASONS[verdict.needs.kind])
    return Again(
        request=row["id"],
        before=before,
        after=(verdict.decision.outcome, _tools(verdict.decision)),
        p_tool=verdict.decision.p_tool,
        confidence=verdict.decision.confidence,
        recalled=verdict.recall.used,
        recalled_before=recalled,
    )


_REASONS = {
    "embedding": "stage 2 did not run",
    "recall": "model recall was not asked",
    "scores": "a tool of the shortlist was not scored",
    "selection": "the model was not asked about this shortlist",
    "fill": "arguments of the tool were not extracted",
}


def _tools(decision: Decision) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.tool for call in decision.calls))


def _cut(n_kept: int, own: int, wanted: int) -> bool:
    """Whether more hits are asked for than were kept, where keeping was what ended the list."""
    return wanted > max(2, own) and n_kept >= max(2, own)


def resolved(settings: Settings, own: Settings) -> Settings:
    """Return settings with what depends on the router's parts taken from how the row was decided.

    >>> own = Settings().replace({"recall.source": "none", "selection.min_confidence": 0.5})
    >>> resolved(Settings(), own).selection.min_confidence
    0.5
    """
    changes: dict[str, Any] = {}
    for name in ("recall.source", "selection.min_confidence"):
        if settings.get(name) is None:
            changes[name] = own.get(name)
    return settings.replace(changes) if changes else settings
