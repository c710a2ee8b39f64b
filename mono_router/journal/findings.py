"""Findings: decisions that probably did not help, and some that did, each with its evidence and its score.

What :mod:`mono_router.journal.analysis` finds goes in; tables, misroutes and rows of the journal come out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from mono_router.journal.database import SCHEMA, Database
from mono_router.journal.rows import signed, upgraded
from mono_router.records import canonical_json, plain

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["re_asked", "failed", "no_match_then_success", "thumbs_down", "low_confidence", "helped"]
KINDS: tuple[Kind, ...] = (
    "thumbs_down", "re_asked", "no_match_then_success", "failed", "low_confidence", "helped",
)  # fmt: skip
"""From the surest to the weakest; "helped" is the other side: the user went on to something else."""
MISROUTE = 0.5
"""A finding of at least this score says that the route was more likely wrong than right."""
_INSERTED = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A decision that probably did not help, or (kind "helped") one that did."""

    kind: Kind
    request: str
    score: float
    """Probability that the route was wrong, as far as what followed tells, [0, 1]."""
    session: str = ""
    at: str = ""
    """UTC time of the decision."""
    language: str = ""
    message: str = ""
    """Empty where the journal did not keep it."""
    tool: str = ""
    """What was called or asked for; empty = none."""
    outcome: str = ""
    worked: str = ""
    """The tool that finally worked for the same wish; empty where that is not known."""
    worked_score: float = 0.0
    """Probability that this tool is right, from all tries at the wish, [0, 1]."""
    worked_message: str = ""
    """The message that it worked for; empty where the journal did not keep it."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What the score comes from."""


@dataclass(frozen=True)
class Findings:
    """Findings in order of time."""

    rows: tuple[Finding, ...] = ()
    n_rows: int = 0
    """Decisions that were looked at."""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.rows)

    def misroutes(self, min_score: float = MISROUTE) -> dict[str, Finding]:
        """Return the findings that say a route was wrong, the surest of each request."""
        best: dict[str, Finding] = {}
        for row in self.rows:
            known = best.get(row.request)
            if row.score >= min_score and (known is None or row.score > known.score):
                best[row.request] = row
        told = {row.request: row for row in self.rows if row.worked and row.kind != "helped"}
        for request, row in best.items():
            if not row.worked and request in told:
                other = told[request]
                best[request] = dataclasses.replace(
                    row,
                    worked=other.worked,
                    worked_score=other.worked_score,
                    worked_message=other.worked_message,
                )
        return best

    @property
    def helped(self) -> tuple[Finding, ...]:
        """Decisions that helped, the least sure ones of each tool, least sure first."""
        return tuple(
            sorted((r for r in self.rows if r.kind == "helped"), key=lambda r: (-r.score, r.request))
        )

    @property
    def frame(self) -> pd.DataFrame:
        """One row per finding."""
        import pandas as pd

        return pd.DataFrame([plain(row) for row in self.rows])

    def summary(self) -> pd.DataFrame:
        """Return findings, requests and mean score by kind."""
        import pandas as pd

        rows = {}
        for kind in KINDS:
            own = [row for row in self.rows if row.kind == kind]
            if own:
                rows[kind] = {
                    "findings": len(own),
                    "worked_known": sum(bool(row.worked) for row in own),
                    "mean_score": sum(row.score for row in own) / len(own),
                }
        return pd.DataFrame.from_dict(rows, orient="index")


def finding_row(finding: Finding) -> dict[str, Any]:
    """Return a finding as a row of the journal; the same finding has the same id."""
    record = plain(finding)
    record["evidence"] = canonical_json(record["evidence"])
    return signed({"id": f"{finding.request}.{finding.kind}", "schema": SCHEMA, **record})


def store_findings(database: Database, findings: Sequence[Finding]) -> None:
    """Write findings; those that are there already are left as they are."""
    for start in range(0, len(findings), _INSERTED):
        database.insert("finding", [finding_row(f) for f in findings[start : start + _INSERTED]])


def load_findings(database: Database, *, after: str) -> Findings:
    """Return the stored findings of requests after a key."""
    found = []
    for rows in database.pages("finding", after=after):
        for stored in rows:
            row = upgraded(stored, "finding")
            values = {name: row[name] for name in Finding.__dataclass_fields__ if name != "evidence"}
            found.append(Finding(**values, evidence=json.loads(row["evidence"])))
    return Findings(tuple(found), n_rows=len(found))
