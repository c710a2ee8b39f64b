"""What can be read out of a journal: rows, frames, labelled cases, replays, checks, exports.

The reading half of :class:`mono_router.journal.store.Journal`, on the database alone. Everything is read a
page at a time in order of the request's time, and outcomes and feedback are folded into their request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mono_router.decision import Calibration
from mono_router.journal.cases import labelled
from mono_router.journal.database import FIRST, LAST, PAGE, Database
from mono_router.journal.evidence import tools_of
from mono_router.journal.export import export_rows
from mono_router.journal.replay import Replayed, replay_rows
from mono_router.journal.rows import key_at, row_hash, seconds_of, time_of, upgraded
from mono_router.records import Case
from mono_router.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

ROW_TABLES = ("decision", "outcome", "feedback")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """What is known of a request beside its decision, folded from its outcomes and feedbacks."""

    status: str = ""
    error: str = ""
    re_asked: bool = False
    feedback: str = ""
    """"up", "down" or empty; the last one counts."""
    note: str = ""


class Reader:
    """Reads a journal; :class:`~mono_router.Journal` is one.

    Parameters
    ----------
    database
        Open.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def pages(
        self, table: str = "decision", *, since: float | str | None = None, size: int = PAGE
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of "decision", "outcome" or "feedback" in order of time of the request, in pages.

        Parameters
        ----------
        since
            UTC text or seconds since 1970.

        Raises
        ------
        JournalError
            If a row was written by a later version.
        ValueError
            If there is no such table.
        """
        if table not in ROW_TABLES:
            raise ValueError(f"table must be one of {', '.join(ROW_TABLES)}, got {table!r}")
        for rows in self.database.pages(table, after=since_key(since), size=size):
            yield [upgraded(row, table) for row in rows]

    def folds(self, after: str, until: str) -> dict[str, Fold]:
        """Return outcomes and feedback of the requests between two keys, folded by request."""
        found: dict[str, dict[str, Any]] = {}
        for rows in self.database.pages("outcome", after=after, until=until + LAST):
            for row in rows:
                upgraded(row, "outcome")
                known = found.setdefault(row["request"], {})
                known["status"] = row["status"] or known.get("status", "")
                known["error"] = row["error"] or known.get("error", "")
                known["re_asked"] = row["re_asked"] or known.get("re_asked", False)
        for rows in self.database.pages("feedback", after=after, until=until + LAST):
            for row in rows:
                upgraded(row, "feedback")
                found.setdefault(row["request"], {}).update(feedback=row["value"], note=row["note"])
        return {request: Fold(**known) for request, known in found.items()}

    def frame(self, since: float | str | None = None) -> pd.DataFrame:
        """Return one row per decision with its outcome and feedback; evidence is left out."""
        import pandas as pd

        parts = []
        for rows in self.pages(since=since):
            folds = self.folds(before(rows[0]["id"]), rows[-1]["id"])
            table = [
                {
                    **{name: value for name, value in row.items() if name not in ("evidence", "hash")},
                    **json.loads(row["spent"])["timings"],
                    **_fold_columns(folds.get(row["id"], Fold())),
                }
                for row in rows
            ]
            parts.append(pd.DataFrame(table))
        if not parts:
            return pd.DataFrame(columns=["request", "at", "session", "message", "outcome", "tool"])
        frame = pd.concat(parts, ignore_index=True)
        frame["at"] = pd.to_datetime(frame["at"], utc=True)
        return frame.rename(columns={"id": "request"}).drop(columns="spent")

    def cases(self, since: float | str | None = None) -> list[Case]:
        """Return labelled cases: messages whose right tool feedback, or what followed, has told.

        Thumbs up confirms the tool; a stored finding that names the tool that finally worked labels the
        message that went wrong; silence labels nothing. Rows whose message was not kept give none.
        """
        found: list[Case] = []
        for rows in self.pages(since=since):
            first, last = before(rows[0]["id"]), rows[-1]["id"]
            worked = {
                row["request"]: row["worked"]
                for page in self.database.pages("finding", after=first, until=last + LAST)
                for row in page
                if row["worked"] and row["kind"] != "helped"
            }
            found.extend(labelled(rows, self.folds(first, last), worked))
        return found

    def replay(
        self,
        settings: Settings,
        *,
        since: float | str | None = None,
        calibration: Calibration | None = None,
    ) -> Replayed:
        """Return what the settings would have decided on the kept traffic; no model runs.

        Raises
        ------
        JournalError
            If a row was written by a later version.
        """
        return replay_rows(
            (row for rows in self.pages(since=since) for row in rows),
            settings,
            tools=_Notes(self.database, "catalog", tools_of),
            recorded=_Notes(self.database, "settings", lambda text: Settings().replace(json.loads(text))),
            calibration=calibration,
        )

    def verify(self) -> list[str]:
        """Return the rows that are not what was written: table, id and what disagrees; empty = all are."""
        found = []
        for table in ROW_TABLES:
            for rows in self.database.pages(table):
                for row in rows:
                    if row.get("hash") != row_hash(row):
                        found.append(f"{table} {row['id']}: hash disagrees")
                    elif table == "decision" and row["at"] != time_of(row["id"]):
                        found.append(f"{table} {row['id']}: time disagrees")
        return found

    def export(self, path: str | Path) -> int:
        """Write all decisions with their outcomes to ``.jsonl`` or ``.parquet``; return how many.

        Raises
        ------
        ValueError
            If the path ends in neither.
        """

        def pages() -> Iterator[list[dict[str, Any]]]:
            for rows in self.pages():
                folds = self.folds(before(rows[0]["id"]), rows[-1]["id"])
                yield [{**row, **_fold_columns(folds.get(row["id"], Fold()))} for row in rows]

        return export_rows(pages(), Path(path))


class _Notes(Mapping[str, Any]):
    """Settings or catalogs by hash, read when first asked for."""

    def __init__(self, database: Database, kind: str, read: Callable[[str], Any]) -> None:
        self._database, self._kind, self._read = database, kind, read
        self._known: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._known:
            text = self._database.note(f"{self._kind} {key}")
            self._known[key] = self._read(text) if text else None
        if self._known[key] is None:
            raise KeyError(key)
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def since_key(since: float | str | None) -> str:
    """Return the key before the rows of a time, given as UTC text or as seconds since 1970.

    >>> since_key(None), since_key(1.0)
    ('0', '00000000000f4240')
    """
    if since is None:
        return FIRST
    return key_at(seconds_of(since) if isinstance(since, str) else float(since))


def before(key: str) -> str:
    """Return the key that comes just before one, for ranges that leave their start out."""
    return f"{int(key[:16], 16) - 1:016x}{LAST}"


def _fold_columns(fold: Fold) -> dict[str, Any]:
    return {
        "status": fold.status,
        "error": fold.error,
        "re_asked": fold.re_asked,
        "feedback": fold.feedback,
        "note": fold.note,
    }
