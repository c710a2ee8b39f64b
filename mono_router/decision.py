"""The decision: evidence and settings in, a verdict out. Pure, and the only place that decides.

:func:`decide` is the definition, for one message. When it meets evidence that is not there yet (a
model was not asked, arguments were not extracted) it says what it needs instead of guessing: the
router fetches that and decides again; a replay counts the case as unrecorded. ``decision_table`` has
the array twin that decides many messages under many settings at once and is tested equal to this one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from mono_router.fusion import Scale, fuse
from mono_router.records import (
    SCORE_DECIMALS,
    Answer,
    Call,
    Candidate,
    Decision,
    Filled,
    Hit,
    LexicalTrace,
    Mode,
    Ranked,
    RecallAnswer,
    RecallTrace,
    SelectionTrace,
    Tool,
    accepts,
)
from mono_router.settings import FusionSettings, Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NeedKind = Literal["embedding", "recall", "scores", "selection", "fill"]
SIGNALS = (
    "lexical_score",
    "lexical_margin",
    "embedding_score",
    "embedding_margin",
    "p_tool",
    "p_first",
    "p_second",
)
"""What a calibration sees of a decision, in this order; embedding signals are 0 where stage 2 had none."""


UNIT = Scale()
"""Leaves scores as they are."""


class Calibration(Protocol):
    """Maps signals (n, len(SIGNALS)) to probabilities (n,).

    P(some tool is right), which thresholds read, and the confidence of the first tool and of no tool. The
    last is one minus the first where the calibration learned when no tool is right.
    """

    def apply(
        self, signals: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that was scored for one message; what is None was not scored."""

    lexical: tuple[Hit, ...] = ()
    """Hits of stage 1, best first, at least as many as any setting keeps."""
    embedding: tuple[Hit, ...] | None = None
    """Hits of the embedding retriever, likewise."""
    lexical_scores: Mapping[str, float] = field(default_factory=dict)
    embedding_scores: Mapping[str, float] = field(default_factory=dict)
    """Scores by tool, for every tool that any list names."""
    log_odds: Mapping[str, float] | None = None
    """Log-odds of each such tool against "no tool", from a selector that scores; None: it only selects."""
    parts: tuple[Mapping[str, float], ...] = ()
    """Log-odds of each such tool for each clause of the message, where it has several."""
    selector_scores: bool = True
    """Whether the selector scores (then ``log_odds`` decides) or is asked (then ``answers`` do)."""
    lexical_scale: Scale = UNIT
    embedding_scale: Scale = UNIT
    pending: str | None = None
    offered: tuple[str, ...] | None = None
    """Tools that this message may use, in id order; None = the whole catalog."""
    catalog_chars: int = 0
    """Characters of the compressed catalog of the offered tools."""
    n_offered: int = 0
    tool_chars: Mapping[str, int] = field(default_factory=dict)
    """Characters of each tool in the compressed catalog, line break included (source "both" alone)."""
    recall_answers: Mapping[tuple[str, ...] | None, RecallAnswer] = field(default_factory=dict)
    """Answers of model recall by the tools it was shown; None = all that are offered."""
    answers: Mapping[tuple[str, ...], Answer] = field(default_factory=dict)
    """Answers of the selector by shortlist."""
    filled: Mapping[str, Filled] = field(default_factory=dict)
    """Arguments and mode by tool, from a selector that scores."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """All that a decision was made from: enough to decide again under other settings."""

    evidence: Evidence
    settings: Settings
    """Resolved."""
    tools: Mapping[str, Tool]
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """Evidence that a decision waits for."""

    kind: NeedKind
    tools: tuple[str, ...] | None = None
    """Shortlist, tool to fill, or tools to recall from (None = all that are offered)."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A decision with every stage's part in it; ``needs`` is set where evidence is missing."""

    lexical: LexicalTrace
    recall: RecallTrace
    fused: tuple[Candidate, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    selection: SelectionTrace | None = None
    decision: Decision | None = None
    needs: Need | None = None


def decide(
    evidence: Evidence,
    settings: Settings,
    tools: Mapping[str, Tool],
    calibration: Calibration | None = None,
) -> Verdict:
    """Return the verdict on one message.

    Parameters
    ----------
    evidence
        What was scored.
    settings
        Resolved: ``recall.source`` and ``selection.min_confidence`` are not None.
    tools
        Tools by id.
    calibration
        Fitted map from signals to probabilities, or None.

    >>> hit = Hit(tool="a", score=0.9, source="lexical", rank=0)
    >>> resolved = Settings().replace({"recall.source": "none", "selection.min_confidence": 0.5})
    >>> verdict = decide(Evidence(lexical=(hit,), log_odds={"a": 2.0}, filled={"a": Filled(mode="tool")}),
    ...                  resolved, {"a": Tool(id="a")})
    >>> verdict.decision.outcome, verdict.decision.tool, round(verdict.decision.p_tool, 3)
    ('call', 'a', 0.881)
    """
    lexical = _lexical(evidence, settings)
    recall = _recall(evidence, settings, lexical)
    if isinstance(recall, Need):
        skipped = RecallTrace(used=False, skipped_because=None, source=str(settings.recall.source))
        return Verdict(lexical=lexical, recall=skipped, needs=recall)
    if recall.error is not None:
        decision = Decision(outcome="error", reason=recall.error)
        return Verdict(lexical=lexical, recall=recall.trace, decision=decision)
    fused = _fused(evidence, settings, lexical, recall.trace)
    stage = _Stage(
        evidence=evidence,
        settings=settings,
        tools=tools,
        calibration=calibration,
        lexical=lexical,
        recall=recall.trace,
        candidates=fused[: settings.candidate_limit],
    )
    selection, found = stage.select()
    needs = found if isinstance(found, Need) else None
    return Verdict(
        lexical=lexical,
        recall=recall.trace,
        fused=fused,
        candidates=stage.candidates,
        selection=selection,
        decision=None if isinstance(found, Need) else found,
        needs=needs,
    )


def decide_among(
    verdict: Verdict,
    candidates: Sequence[str],
    evidence: Evidence,
    settings: Settings,
    tools: Mapping[str, Tool],
    calibration: Calibration | None = None,
) -> Verdict:
    """Return the verdict as it would be had discovery given these candidates: stage 4 alone decides anew.

    Diagnosis asks with it what a perfect discovery would have bought.
    """
    known = {candidate.tool: candidate for candidate in verdict.fused}
    stage = _Stage(
        evidence=evidence,
        settings=settings,
        tools=tools,
        calibration=calibration,
        lexical=verdict.lexical,
        recall=verdict.recall,
        candidates=tuple(known.get(tool) or Candidate(tool=tool, score=0.0) for tool in candidates),
    )
    selection, found = stage.select()
    needs = found if isinstance(found, Need) else None
    return dataclasses.replace(
        verdict,
        candidates=stage.candidates,
        selection=selection,
        decision=found if isinstance(found, Decision) else None,
        needs=needs,
    )


def _lexical(evidence: Evidence, settings: Settings) -> LexicalTrace:
    own = settings.lexical
    hits = evidence.lexical[: own.candidate_limit] if own.enabled else ()
    # The margin is measured before the limit: keeping one hit must not make it look unrivalled.
    best = evidence.lexical[0].score if hits else 0.0
    second = evidence.lexical[1].score if hits and len(evidence.lexical) > 1 else 0.0
    margin = round(best - second, SCORE_DECIMALS)
    confident = (
        bool(hits)
        and own.min_score is not None
        and accepts(best, own.min_score)
        and accepts(margin, own.min_margin)
    )
    return LexicalTrace(hits=hits, confident=confident, best=best, margin=margin, threshold=own.min_score)


@dataclass(frozen=True)
class _Recall:
    trace: RecallTrace
    error: str | None = None


def _recall(evidence: Evidence, settings: Settings, lexical: LexicalTrace) -> _Recall | Need:
    own = settings.recall
    source = str(own.source)
    keep = min(own.candidate_limit, own.ask_limit)

    def skipped(reason: str) -> _Recall:
        return _Recall(RecallTrace(used=False, skipped_because=reason, source=source))

    if lexical.confident:
        return skipped("confident")
    if source == "none":
        return skipped("off")
    if source == "embedding":
        if evidence.embedding is None:
            return Need("embedding")
        hits = evidence.embedding[:keep]
        if own.min_score is not None:
            hits = tuple(hit for hit in hits if accepts(hit.score, own.min_score))
        return _Recall(RecallTrace(used=True, skipped_because=None, source=source, hits=hits))
    if not evidence.n_offered:
        return skipped("nothing_offered")
    shown, gate = shown_to_model(evidence, settings)
    if gate is not None:
        return skipped(gate)
    if shown is not None and evidence.embedding is None:
        return Need("embedding")
    answer = evidence.recall_answers.get(shown)
    if answer is None:
        return Need("recall", shown)
    hits = tuple(
        Hit(tool=tool, score=model_score(rank, own.ask_limit), source="model", rank=rank)
        for rank, tool in enumerate(answer.candidates[:keep])
    )
    if own.min_score is not None:
        hits = tuple(hit for hit in hits if accepts(hit.score, own.min_score))
    trace = RecallTrace(
        used=answer.error is None,
        skipped_because=None,
        source=source,
        hits=hits,
        model_called=True,
        unknown=answer.unknown,
    )
    return _Recall(trace, answer.error)


def model_score(rank: int, ask_limit: int) -> float:
    """Return the score that a place in a model's ranked answer stands for, (0, 1].

    >>> model_score(0, 12), model_score(6, 12)
    (1.0, 0.5)
    """
    return round(1.0 - rank / ask_limit, SCORE_DECIMALS)


def shown_to_model(evidence: Evidence, settings: Settings) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the tools that model recall is shown (None = all offered) and the gate that stops it, if any.

    With source "both" a catalog over a gate is cut to it, nearest tools first.
    """
    own = settings.recall
    over_tools = evidence.n_offered > own.max_catalog_tools
    over_chars = evidence.catalog_chars > own.max_catalog_chars
    if not (over_tools or over_chars):
        return None, None
    if own.source != "both" or evidence.embedding is None:
        gate = "max_catalog_tools" if over_tools else "max_catalog_chars"
        return ((), None) if own.source == "both" else (None, gate)
    kept: list[str] = []
    chars = 0
    for hit in evidence.embedding:
        chars += evidence.tool_chars.get(hit.tool, 0)
        # The last line of a catalog has no line break, hence the one that may stand over.
        if len(kept) >= own.max_catalog_tools or chars - 1 > own.max_catalog_chars:
            break
        kept.append(hit.tool)
    if not kept:
        return None, "max_catalog_tools" if own.max_catalog_tools < 1 else "max_catalog_chars"
    return tuple(sorted(kept)), None


def _fused(
    evidence: Evidence, settings: Settings, lexical: LexicalTrace, recall: RecallTrace
) -> tuple[Candidate, ...]:
    if not recall.used:
        # One list alone keeps its own order, whatever the method.
        if evidence.pending is None:
            # What "interleave" makes of it, without a table of ranks.
            hits = lexical.hits
            return tuple([Candidate(tool=h.tool, score=-(2.0 * h.rank + 1.0), hits=(h,)) for h in hits])
        return fuse(lexical.hits, (), FusionSettings(method="interleave"), pending=evidence.pending)
    by_model = recall.model_called
    return fuse(
        lexical.hits,
        recall.hits,
        settings.fusion,
        pending=evidence.pending,
        lexical_scores=evidence.lexical_scores,
        recall_scores={hit.tool: hit.score for hit in recall.hits} if by_model else evidence.embedding_scores,
        lexical_scale=evidence.lexical_scale,
        recall_scale=MODEL_SCALE if by_model else evidence.embedding_scale,
    )


MODEL_SCALE = Scale(0.0, 0.25)
"""A model's first choice counts like a tool four spreads above the mean; a guess, swept by the weights."""


def probabilities(log_odds: Sequence[float]) -> tuple[list[float], float]:
    """Return P(tool) of each candidate and P(some tool), from log-odds against "no tool".

    With odds o_t = exp(s_t): P(t) = o_t / (1 + sum o), P(some tool) = sum o / (1 + sum o). So a
    candidate that is taken away leaves the others' odds as they were.

    >>> probabilities([0.0])
    ([0.5], 0.5)
    """
    top = max([0.0, *log_odds])
    odds = [math.exp(s - top) for s in log_odds]
    total = sum(odds) + math.exp(-top)
    shares = [rounded(o / total) for o in odds]
    return shares, rounded(sum(odds) / total)


_SCALE = 10.0**SCORE_DECIMALS


def rounded(value: float) -> float:
    """Return a value at the decimals of scores, rounded as numpy does it (``round`` differs at halves).

    >>> rounded(0.4019705), round(0.4019705, 6)
    (0.40197, 0.401971)
    """
    return round(value * _SCALE) / _SCALE


SEVERAL = 0.8
"""P(tool) that a clause must give its tool to count beside another clause's; by dev of seven sets."""
MAX_CALLS = 3


def several(parts: Sequence[Mapping[str, float]], shortlist: Sequence[str]) -> tuple[str, ...]:
    """Return the tools that a message's clauses ask for, in the order of the clauses, at most three.

    >>> several([{"a": 3.0, "b": -2.0}, {"a": -3.0, "b": 4.0}, {"a": 0.1, "b": 0.0}], ["a", "b"])
    ('a', 'b')
    """
    found: dict[str, None] = {}
    for part in parts:
        first = min(shortlist, key=lambda tool: (-part[tool], tool))
        shares, _ = probabilities([part[tool] for tool in shortlist])
        if accepts(shares[list(shortlist).index(first)], SEVERAL):
            found[first] = None
    return tuple(found)[:MAX_CALLS]


def joint_mode(tools: Sequence[Tool]) -> Mode | None:
    """Return the mode that several calls run in: think where all only read, else agent; None = no such mode.

    >>> joint_mode([Tool(id="a"), Tool(id="b", effects="write")])
    'agent'
    """
    wanted: Mode = "think" if all(tool.effects == "read" for tool in tools) else "agent"
    modes: tuple[Mode, ...] = (wanted, "agent")
    return next((mode for mode in modes if all(mode in tool.modes for tool in tools)), None)


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """Stage 4 for one message."""

    evidence: Evidence
    settings: Settings
    tools: Mapping[str, Tool]
    calibration: Calibration | None
    lexical: LexicalTrace
    recall: RecallTrace
    candidates: tuple[Candidate, ...]

    @property
    def shortlist(self) -> tuple[str, ...]:
        return tuple([candidate.tool for candidate in self.candidates])

    def select(self) -> tuple[SelectionTrace | None, Decision | Need]:
        if not self.candidates:
            trace = SelectionTrace(shortlist=(), ranked=(), rejections=())
            return trace, Decision(outcome="no_tool", reason="NO_CANDIDATES", confidence=1.0)
        if self.bypassed():
            return self.bypass()
        return self.by_scores() if self.evidence.selector_scores else self.by_answer()

    def bypassed(self) -> bool:
        level = self.settings.selection.bypass_score
        if level is None or not self.lexical.hits or not accepts(self.lexical.best, level):
            return False
        first = self.tools[self.lexical.hits[0].tool]
        return not first.properties and first.id in self.shortlist

    def bypass(self) -> tuple[SelectionTrace, Decision]:
        tool = self.tools[self.lexical.hits[0].tool]
        score = min(1.0, self.lexical.best)
        rest = (Ranked(tool=t, score=0.0) for t in self.shortlist if t != tool.id)
        ranked = (Ranked(tool=tool.id, score=score), *rest)
        trace = SelectionTrace(shortlist=self.shortlist, ranked=ranked, rejections=(), bypassed=True)
        return trace, Decision(
            outcome="call",
            reason="BYPASS",
            skills=(tool.skill,),
            mode=tool.modes[0],
            calls=(Call(tool=tool.id),),
            ranked=ranked,
            p_tool=score,
            confidence=score,
        )

    def by_scores(self) -> tuple[SelectionTrace, Decision | Need]:
        known, shortlist = self.evidence.log_odds, self.shortlist
        if known is None or not all([t in known for t in shortlist]):
            return SelectionTrace(shortlist=shortlist, ranked=(), rejections=()), Need("scores")
        order = sorted(shortlist, key=lambda t: (-known[t], t))
        shares, p_tool = probabilities([known[t] for t in order])
        p_first, p_second = shares[0], shares[1] if len(shares) > 1 else 0.0
        signals = self.signals(p_tool, p_first, p_second)
        p_tool, p_first, p_second, p_none = self.calibrated(signals)
        ranked = tuple([Ranked(tool=t, score=p) for t, p in zip(order, shares, strict=True)])
        trace = SelectionTrace(shortlist=shortlist, ranked=ranked, rejections=(), signals=signals)
        first = self.tools[order[0]]
        named = several(self.evidence.parts, shortlist) if self.evidence.parts else ()
        chosen = [self.tools[tool] for tool in named]
        mode = joint_mode(chosen) if len(chosen) > 1 else None
        if mode is not None:
            writes = next((tool for tool in chosen if tool.effects == "write"), first)
            # Two clauses that each name their tool are no tie, however close the tools come.
            refused = self.refusal(writes, p_tool, p_none, 1.0, ranked)
            return trace, refused or self.joint(chosen, mode, ranked, p_tool, p_first)
        refused = self.refusal(first, p_tool, p_none, p_first - p_second, ranked)
        if refused is not None:
            return trace, refused
        filled = self.evidence.filled.get(first.id)
        if filled is None:
            return trace, Need("fill", (first.id,))
        return trace, Decision(
            outcome="ask" if filled.missing else "call",
            reason="MISSING_ARGUMENTS" if filled.missing else "SELECTED",
            skills=(first.skill,),
            mode=filled.mode,
            calls=(Call(tool=first.id, arguments=filled.arguments),),
            missing=filled.missing,
            ranked=ranked,
            p_tool=p_tool,
            confidence=p_first,
        )

    def joint(
        self, chosen: Sequence[Tool], mode: Mode, ranked: tuple[Ranked, ...], p_tool: float, p_first: float
    ) -> Decision | Need:
        """Several calls of one message."""
        filled = []
        for tool in chosen:
            known = self.evidence.filled.get(tool.id)
            if known is None:
                return Need("fill", (tool.id,))
            filled.append(known)
        missing = next((f.missing for f in filled if f.missing), ())
        skills = tuple(dict.fromkeys(tool.skill for tool in chosen))
        return Decision(
            outcome="ask" if missing else "call",
            reason="MISSING_ARGUMENTS" if missing else "SELECTED",
            skills=skills[: self.settings.selection.max_skills],
            mode=mode,
            calls=tuple(
                Call(tool=tool.id, arguments=f.arguments) for tool, f in zip(chosen, filled, strict=True)
            ),
            missing=missing,
            ranked=ranked,
            p_tool=p_tool,
            confidence=p_first,
        )

    def by_answer(self) -> tuple[SelectionTrace, Decision | Need]:
        answer = self.evidence.answers.get(self.shortlist)
        empty = SelectionTrace(shortlist=self.shortlist, ranked=(), rejections=(), model_called=True)
        if answer is None:
            return empty, Need("selection", self.shortlist)
        if answer.error is not None:
            return empty, Decision(outcome="error", reason=answer.error)
        called = tuple(dict.fromkeys(call.tool for call in answer.calls))
        stated = answer.confidence if called else 1.0 - answer.confidence
        rest = [t for t in self.shortlist if t not in called]
        shares, _ = answer_shares(len(called), len(rest), stated)
        ranked = tuple(Ranked(tool=t, score=p) for t, p in zip((*called, *rest), shares, strict=True))
        p_first, p_second = shares[0], shares[len(called)] if rest and called else 0.0
        signals = self.signals(round(stated, SCORE_DECIMALS), p_first, p_second)
        p_tool, p_first, p_second, p_none = self.calibrated(signals)
        trace = SelectionTrace(
            shortlist=self.shortlist,
            ranked=ranked,
            rejections=answer.rejections,
            model_called=True,
            stated_confidence=answer.confidence,
            signals=signals,
        )
        if answer.rejections:
            return trace, Decision(
                outcome="rejected",
                reason=answer.rejections[0].code,
                ranked=ranked,
                p_tool=p_tool,
                rejections=answer.rejections,
            )
        if not called:
            return trace, Decision(
                outcome="no_tool", reason="NO_TOOL", ranked=ranked, p_tool=p_tool, confidence=p_none
            )
        first = self.tools[called[0]]
        writes = next((t for t in called if self.tools[t].effects == "write"), called[0])
        refused = self.refusal(self.tools[writes], p_tool, p_none, p_first - p_second, ranked)
        if refused is not None:
            return trace, refused
        skills = tuple(dict.fromkeys(self.tools[t].skill for t in called))
        return trace, Decision(
            outcome="ask" if answer.missing else "call",
            reason="MISSING_ARGUMENTS" if answer.missing else "SELECTED",
            skills=skills[: self.settings.selection.max_skills],
            mode=answer.mode or first.modes[0],
            calls=answer.calls,
            missing=answer.missing,
            ranked=ranked,
            p_tool=p_tool,
            confidence=p_first,
        )

    def refusal(
        self, tool: Tool, p_tool: float, p_none: float, margin: float, ranked: tuple[Ranked, ...]
    ) -> Decision | None:
        """The decision that a threshold forces, or None."""
        own = self.settings.selection
        assert own.min_confidence is not None
        if not accepts(p_tool, own.min_confidence):
            reason = "LOW_CONFIDENCE"
        elif tool.effects == "write" and not accepts(p_tool, own.min_write_confidence):
            reason = "LOW_WRITE_CONFIDENCE"
        elif len(ranked) > 1 and not accepts(round(margin, SCORE_DECIMALS), own.min_margin):
            pair = [self.tools[item.tool].skill for item in ranked[:2]]
            both = round(min(1.0, ranked[0].score + ranked[1].score), SCORE_DECIMALS)
            return Decision(
                outcome="ambiguous",
                reason="AMBIGUOUS",
                skills=tuple(dict.fromkeys(pair))[: own.max_skills],
                ranked=ranked,
                p_tool=p_tool,
                confidence=both,
            )
        else:
            return None
        return Decision(outcome="no_tool", reason=reason, ranked=ranked, p_tool=p_tool, confidence=p_none)

    def signals(self, p_tool: float, p_first: float, p_second: float) -> tuple[float, ...]:
        near = self.recall.hits if self.recall.used and not self.recall.model_called else ()
        best = near[0].score if near else 0.0
        margin = round(best - near[1].score, SCORE_DECIMALS) if len(near) > 1 else best
        return (self.lexical.best, self.lexical.margin, best, margin, p_tool, p_first, p_second)

    def calibrated(self, signals: tuple[float, ...]) -> tuple[float, float, float, float]:
        p_tool, p_first, p_second = signals[-3:]
        if self.calibration is None:
            return p_tool, p_first, p_second, round(1.0 - p_tool, SCORE_DECIMALS)
        import numpy as np

        tool, first, none = self.calibration.apply(np.array([signals]))
        scaled = float(first[0]) / p_first * p_second if p_first > 0 else p_second
        found = (float(tool[0]), float(first[0]), min(scaled, float(first[0])), float(none[0]))
        one, two, three, four = (rounded(value) for value in found)
        return one, two, three, four


def answer_shares(n_called: int, n_rest: int, stated: float) -> tuple[list[float], float]:
    """Return scores that rank a model's answer: the called tools at its confidence, the rest by halves.

    >>> answer_shares(1, 2, 0.8)[0]
    [0.8, 0.1, 0.05]
    """
    rest = (1.0 - stated if n_called else stated) if n_rest else 0.0
    shares = [stated] * n_called + [rest / 2 ** (i + 1) for i in range(n_rest)]
    return [round(s, SCORE_DECIMALS) for s in shares], stated
