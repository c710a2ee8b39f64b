"""The analyzer: which decisions did not help, told from what their users did next. It sees no labels.

Decisions stream by in order of time, a page at a time, and only the open sessions are held. For each
message and the next one of its session, Bayes' rule weighs how unsure the decision was against how likely
the next message is another try at the same wish: by its words, and by whether the tools that it is routed
to were rivals of the first choice, beyond what chance would bring. How many routes are wrong in all is
estimated from the stream itself.
"""

from __future__ import annotations

import heapq
import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mono_router.journal.database import FIRST, LAST, number
from mono_router.journal.findings import MISROUTE, Finding, Findings, Kind, store_findings
from mono_router.journal.rates import SURE, Rates, Seen, agreement, follow_ratio, sigmoid, unsure_odds
from mono_router.journal.reader import Fold, before, since_key
from mono_router.journal.rows import key_at
from mono_router.journal.store import Journal

WINDOW_S = 600.0
COLUMNS = (
    "session", "at", "message", "kept", "correction", "outcome", "tool", "ranked", "confidence", "language",
)  # fmt: skip
CORRECTED, DISLIKED, TOLD = 0.95, 0.95, 0.9
"""Scores of a correction, of a thumbs down, and of a re-ask that the host reports."""
FAILED, FAILED_INPUT = 0.3, 0.5
"""Scores of a failed call: most fail for reasons of their own, bad input hints at a wrong tool."""
LOW = 0.4
"""Confidence below which a decision is a finding by itself, scored under :data:`MISROUTE`."""
HELPED = 0.75
"""P(the route was right) from which a message that its user moved on from may serve as an example."""
N_HELPED = 50
"""Such messages that are kept of each tool and run: the least sure ones, which teach the most."""
NOTE = "analysis"


@dataclass
class _Chain:
    """Messages of one session that may be tries at one wish."""

    rows: list[Seen]
    last: float
    """Time of the last message, repeats included."""
    scores: dict[int, tuple[float, Kind, dict[str, Any]]] = field(default_factory=dict)
    """Place to score, kind and evidence."""

    @property
    def asked(self) -> Seen | None:
        """The last message that is no mere correction."""
        return next((row for row in reversed(self.rows) if not row.correction), None)


class _Stream:
    """The open sessions, and what is found as decisions come by."""

    def __init__(self, window_s: float, rates: Rates) -> None:
        self.window_s = window_s
        self.rates = rates
        self.open: dict[str, _Chain] = {}
        self.helped: dict[str, list[tuple[float, str, Finding]]] = {}
        """Of each tool a heap, the surest on top."""

    def add(self, row: Seen) -> Iterator[Finding]:
        """Take the next decision; yield what is settled by it."""
        if not row.correction:
            self.rates.count(row.ranked)
        chain = self.open.get(row.session) if row.session else None
        if chain is None or row.seconds - chain.last > self.window_s:
            if chain is not None:
                yield from self._settle(chain)
            yield from self._begin(row)
            return
        asked = chain.asked
        last = chain.rows[-1]
        chain.last = row.seconds
        if row.correction:
            self._mark(chain, CORRECTED, "re_asked", {"correction": True, "next": row.id})
            chain.rows.append(row)
        elif asked is None:
            yield from self._settle(chain)
            yield from self._begin(row)
        elif row.message and row.message == asked.message and row.tool == asked.tool:
            return  # the same words to the same tool: a spurious repeat, not another try
        else:
            unsure = unsure_odds(asked)
            ratio, evidence = follow_ratio(asked, row, self.rates)
            corrected = last.correction
            if asked.confidence >= SURE and asked.tool:
                self.rates.stays[0] += asked.tool == row.tool
                self.rates.stays[1] += 1
            if not corrected:
                self.rates.note(unsure, ratio)
            # After a correction the route was wrong: what is asked is whether this is another try.
            score = sigmoid(math.log(ratio) + 1.0) if corrected else self.rates.wrong(unsure, ratio)
            if score < MISROUTE:
                if len(chain.rows) == 1 and asked.acted and asked.fold.feedback != "down":
                    self._keep(asked, score)
                yield from self._settle(chain)
                yield from self._begin(row)
                return
            if not corrected:
                none = asked.outcome == "no_tool" and row.acted
                kind: Kind = "no_match_then_success" if none else "re_asked"
                self._mark(chain, score, kind, {**evidence, "next": row.id})
            chain.rows.append(row)

    def _keep(self, row: Seen, wrong: float) -> None:
        """Remember a message that its user moved on from."""
        if 1.0 - wrong < HELPED or not row.kept or not row.tool:
            return
        finding = Finding(
            kind="helped",
            request=row.id,
            score=round(wrong, 4),
            session=row.session,
            at=row.at,
            language=row.language,
            message=row.message,
            tool=row.tool,
            outcome=row.outcome,
            worked=row.tool,
            worked_score=round(1.0 - wrong, 4),
        )
        heap = self.helped.setdefault(row.tool, [])
        heapq.heappush(heap, (wrong, row.id, finding))
        if len(heap) > N_HELPED:
            heapq.heappop(heap)

    def _begin(self, row: Seen) -> Iterator[Finding]:
        chain = _Chain([row], row.seconds)
        if row.session:
            self.open[row.session] = chain
        else:
            yield from self._settle(chain)

    def _mark(self, chain: _Chain, score: float, kind: Kind, evidence: dict[str, Any]) -> None:
        """Score the last message that is no correction."""
        for place in range(len(chain.rows) - 1, -1, -1):
            if not chain.rows[place].correction:
                if place not in chain.scores or chain.scores[place][0] < score:
                    chain.scores[place] = (round(score, 4), kind, evidence)
                return

    def _settle(self, chain: _Chain) -> Iterator[Finding]:
        """Yield the findings of a chain that has ended."""
        self.open.pop(chain.rows[0].session, None)
        final = chain.rows[-1]
        good = len(chain.rows) > 1 and final.acted and final.fold.feedback != "down"
        if final.correction:
            good = good and final.confidence >= 0.5
        worked, sure = "", 0.0
        if good and len(chain.rows) - 1 not in chain.scores:
            tried = {row.tool for place, row in enumerate(chain.rows) if place in chain.scores}
            told = [row for row in chain.rows if not row.correction]
            worked, sure = final.tool, agreement(told, tried, final.tool, self.rates)
        for place, row in enumerate(chain.rows):
            if row.correction:
                continue
            found = dict(_alone(row))
            if place in chain.scores:
                score, kind, evidence = chain.scores[place]
                found[kind] = (score, evidence)
                found.pop("low_confidence", None)
            for kind, (score, evidence) in found.items():
                yield Finding(
                    kind=kind,
                    request=row.id,
                    score=score,
                    session=row.session,
                    at=row.at,
                    language=row.language,
                    message=row.message if row.kept else "",
                    tool=row.tool,
                    outcome=row.outcome,
                    worked=worked if worked != row.tool else "",
                    worked_score=sure if worked != row.tool else 0.0,
                    worked_message=final.message if worked != row.tool and worked and final.kept else "",
                    evidence=evidence,
                )

    def expire(self, now: float) -> Iterator[Finding]:
        """Settle the sessions that have been silent for longer than the window."""
        for chain in [c for c in self.open.values() if now - c.last > self.window_s]:
            yield from self._settle(chain)

    def finish(self) -> Iterator[Finding]:
        """Settle all sessions."""
        for chain in list(self.open.values()):
            yield from self._settle(chain)


def _alone(row: Seen) -> Iterator[tuple[Kind, tuple[float, dict[str, Any]]]]:
    """What a decision's own outcome, feedback and confidence say."""
    fold = row.fold
    if fold.feedback == "down":
        yield "thumbs_down", (DISLIKED, {"note": fold.note} if fold.note else {})
    if fold.re_asked:
        yield "re_asked", (TOLD, {"reported": True})
    if fold.error or fold.status in ("error", "failed"):
        score = FAILED_INPUT if fold.error.startswith(("INPUT_", "MODEL_")) else FAILED
        yield "failed", (score, {"status": fold.status, "error": fold.error})
    if row.outcome in ("call", "ask") and row.confidence < LOW:
        score = round((MISROUTE - 0.01) * (1.0 - row.confidence), 4)
        yield "low_confidence", (score, {"confidence": row.confidence})


def analyze(
    journal: Journal,
    since: float | str | None = None,
    window_s: float = WINDOW_S,
    *,
    resume: bool = False,
    now: float | None = None,
) -> Findings:
    """Return which decisions did not help, with evidence and score, and the least sure ones that did.

    Parameters
    ----------
    since
        UTC text or seconds since 1970; None = from the first row.
    window_s
        Seconds within which a next message may be another try.
    resume
        Go on where the last such run ended and keep what is found in the journal: no row is analysed
        twice, whatever is interrupted. Rows whose window is still open are left for the next run.
    now
        Seconds since 1970; default: the clock.

    Raises
    ------
    ValueError
        If ``window_s`` is not positive.
    JournalError
        If the journal cannot be read.
    """
    if not window_s > 0:
        raise ValueError(f"window_s must be > 0, got {window_s}")
    journal.flush()
    if resume:
        return _resumed(journal, since, window_s, time.time() if now is None else now)
    rates, found, n_rows = Rates(), [], 0
    for findings, n in _pages(journal, _Stream(window_s, rates), since_key(since), LAST):
        found.extend(findings)
        n_rows += n
    return Findings(tuple(sorted(found, key=lambda f: f.request)), n_rows)


def _pages(journal: Journal, stream: _Stream, after: str, until: str) -> Iterator[tuple[list[Finding], int]]:
    """Yield what each page of decisions settles, and how many decisions it held."""
    for rows in journal.database.text_pages("decision", COLUMNS, after=after, until=until):
        first, last = rows[0][0], rows[-1][0]
        folds = journal.folds(before(first), last)
        found: list[Finding] = []
        for row in rows:
            found.extend(stream.add(_seen(row, folds)))
        found.extend(stream.expire(int(last[:16], 16) / 1e6))
        stream.rates.update()
        yield found, len(rows)
    helped = [finding for heap in stream.helped.values() for _, _, finding in heap]
    yield [*stream.finish(), *helped], 0


def _seen(row: list[str], folds: Mapping[str, Fold]) -> Seen:
    id_, session, at, message, kept, correction, outcome, tool, ranked, confidence, language = row
    return Seen(
        id=id_,
        session=session,
        at=at,
        message=message,
        kept=kept == "keep",
        correction=correction == "true",
        outcome=outcome,
        tool=tool,
        ranked=dict(json.loads(ranked)),
        confidence=number(confidence),
        language=language,
        fold=folds.get(id_, _NOTHING),
    )


_NOTHING = Fold()


def _resumed(journal: Journal, since: float | str | None, window_s: float, now: float) -> Findings:
    """Analyse the rows after the cursor whose window has closed; store the findings, move the cursor."""
    database = journal.database
    text = database.note(NOTE)
    kept = json.loads(text) if text else {}
    cursor = max(str(kept.get("cursor", FIRST)), since_key(since))
    end = key_at(now - window_s)
    if end <= cursor:
        return Findings()
    # Rows before the cursor are context: their chains may go on behind it.
    start = key_at(int(cursor[:16], 16) / 1e6 - window_s) if cursor != FIRST else FIRST
    stream = _Stream(window_s, Rates(kept.get("rates")))
    found: list[Finding] = []
    n_rows = 0
    for findings, n in _pages(journal, stream, start, key_at(now)):
        own = [f for f in findings if cursor < f.request <= end]
        store_findings(database, own)
        found.extend(own)
        n_rows += n
    late = _late_feedback(journal, str(kept.get("feedback", "")), cursor)
    store_findings(database, late)
    seen = database.query("SELECT VALUE at FROM feedback ORDER BY at DESC LIMIT 1")
    record = {
        "cursor": end,
        "feedback": seen[0] if seen else "",
        "rates": stream.rates.to_dict(),
    }
    database.set_note(NOTE, json.dumps(record))
    return Findings(tuple(sorted([*late, *found], key=lambda f: f.request)), n_rows)


def _late_feedback(journal: Journal, after: str, cursor: str) -> list[Finding]:
    """Thumbs down that came since the last run for decisions that were analysed before."""
    database = journal.database
    rows = database.query(
        "SELECT request, note FROM feedback WHERE at > $last AND value = 'down'", last=after
    )
    found = []
    for row in rows:
        if row["request"] > cursor:
            continue
        for decision in database.query("SELECT * FROM $id", id=database.id("decision", row["request"])):
            found.append(
                Finding(
                    kind="thumbs_down",
                    request=row["request"],
                    score=DISLIKED,
                    session=decision["session"],
                    at=decision["at"],
                    language=decision["language"],
                    message=decision["message"] if decision["kept"] == "keep" else "",
                    tool=decision["tool"],
                    outcome=decision["outcome"],
                    evidence={"note": row["note"]} if row["note"] else {},
                )
            )
    return found
