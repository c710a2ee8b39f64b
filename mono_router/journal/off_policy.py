"""Off-policy what-if: what a setting would have earned, from traffic that was decided at random now and then.

:class:`Randomised` gives a few sessions other settings, by a keyed hash of the session, and records how
likely each action was. :func:`estimate` weighs what was earned by how much likelier the wanted settings
make each action: the self-normalised inverse-propensity estimate (SNIPS; Swaminathan and Joachims 2015, "The
Self-Normalized Estimator for Counterfactual Learning", NIPS 28, eq. 5),

    V = sum_i w_i r_i / sum_i w_i,   w_i = 1[wanted action = taken action] / P(taken action),

with an interval over sessions. Nothing that writes is ever explored: there the estimate keeps what was done,
and says for how many decisions. Where the wanted action could not have been taken there is no estimate.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mono_router.decision import Calibration, decide
from mono_router.journal.analysis import analyze
from mono_router.journal.replay import SCORE_NAMES
from mono_router.journal.rows import Choice
from mono_router.journal.store import Journal
from mono_router.records import Decision, Memory, Query, Tool, Trace
from mono_router.settings import FIELDS, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

BASE, GUARDED = "base", "guarded"
"""Names of the router's own settings, and of a decision that was not explored since it might write."""
MIN_EFFECTIVE = 50.0
"""Effective sample size under which an estimate says nothing; a guess."""
MAX_UNKNOWN = 0.05
"""Share of decisions that may be unrecorded or without overlap."""
_CUT = tuple(name for name, item in FIELDS.items() if item.metadata["replay"] == "truncate")


class Routable(Protocol):
    """A router, as far as a choice between settings needs it."""

    settings: Settings
    tools: Mapping[str, Tool]
    calibrator: Calibration | None

    @property
    def selector_scores(self) -> bool: ...

    def resolved(self, settings: Settings) -> Settings: ...

    def with_settings(self, settings: Settings) -> Any: ...

    def trace(self, query: Query, *, within: Iterable[str] | None = None) -> Trace: ...


class Randomised:
    """A router that gives some sessions other settings, and knows how likely what it did was.

    Parameters
    ----------
    router
        Decides sessions that are not explored. Its selector must score (the local one does), so that what
        the other settings would have done is known for every message.
    alternatives
        Settings by name.
    explore_rate
        Share of sessions that get one of the alternatives, evenly; 0 = off.
    key
        Of the hash that draws: whoever does not know it cannot tell which settings a session gets.
    journal
        Records each route with its propensity, where given.

    Raises
    ------
    ValueError
        If the rate is out of range, the selector only selects, or an alternative needs other scores.
    """

    def __init__(
        self,
        router: Routable,
        alternatives: Mapping[str, Settings],
        *,
        explore_rate: float = 0.0,
        key: str | bytes,
        journal: Journal | None = None,
    ) -> None:
        if not 0.0 <= explore_rate <= 1.0:
            raise ValueError(f"explore_rate must be in [0, 1], got {explore_rate}")
        if explore_rate > 0 and not alternatives:
            raise ValueError("explore_rate > 0 needs alternatives")
        if {BASE, GUARDED} & set(alternatives):
            raise ValueError(f"an alternative cannot be named {BASE!r} or {GUARDED!r}")
        if not router.selector_scores or router.settings.recall.source in ("model", "both"):
            raise ValueError("only a router that scores every tool without a model can be randomised")
        self.router = router
        self.explore_rate = explore_rate
        self._key = key.encode() if isinstance(key, str) else key
        self.journal = journal
        self.policies = {BASE: router.settings}
        self._routers = {BASE: router}
        for name in sorted(alternatives):
            settings = router.resolved(alternatives[name])
            wrong = [n for n in SCORE_NAMES if settings.get(n) != router.settings.get(n)]
            wrong += [n for n in _CUT if _wider(settings.get(n), router.settings.get(n))]
            if wrong:
                raise ValueError(
                    f"alternative {name!r}: {wrong[0]} needs scores that the router does not take"
                )
            self.policies[name] = settings
            self._routers[name] = router.with_settings(settings)
        n = len(alternatives)
        self.shares = {p: explore_rate / n if n else 0.0 for p in self.policies if p != BASE}
        self.shares[BASE] = 1.0 - sum(self.shares.values())
        """Probability of each policy."""

    def policy(self, session_id: str) -> str:
        """Return the name of the settings that a session gets; always the same for one session."""
        drawn = hmac.new(self._key, session_id.encode("utf-8", "replace"), "sha256").digest()
        place = int.from_bytes(drawn[:8], "big") / 2**64
        for name in self.policies:
            place -= self.shares[name]
            if place < 0:
                return name
        return BASE

    def route(
        self, message: str, *, session_id: str, memory: Memory | None = None, now: str | None = None
    ) -> Trace:
        """Return the trace of a message under the settings of its session, and record it."""
        trace, choice = self.choose(Query(message=message, memory=memory, now=now), session_id)
        if self.journal is not None:
            self.journal.record(trace, session_id=session_id, choice=choice)
        return trace

    def choose(self, query: Query, session_id: str) -> tuple[Trace, Choice]:
        """Return the trace of a query and how likely its action was."""
        trace = self.router.trace(query)
        if self.explore_rate == 0:
            return trace, Choice(policy=BASE, support={action(trace.decision): 1.0})
        decisions = {BASE: trace.decision}
        for name, settings in self.policies.items():
            if name != BASE:
                verdict = decide(trace.scored.evidence, settings, self.router.tools, self.router.calibrator)
                assert verdict.decision is not None, "a selector that scores leaves nothing open"
                decisions[name] = verdict.decision
        if any(self._writes(decision) for decision in decisions.values()):
            return trace, Choice(policy=GUARDED, support={action(trace.decision): 1.0})
        support: dict[str, float] = {}
        for name, decision in decisions.items():
            support[action(decision)] = support.get(action(decision), 0.0) + self.shares[name]
        chosen = self.policy(session_id)
        if chosen != BASE:
            trace = self._routers[chosen].trace(query)
        taken = action(trace.decision)
        return trace, Choice(policy=chosen, propensity=support[taken], support=support)

    def _writes(self, decision: Decision) -> bool:
        return any(self.router.tools[tool].effects == "write" for tool in decision.tools)


def _wider(wanted: Any, own: Any) -> bool:
    """Whether a limit keeps more than what the router keeps; None is no limit and no number."""
    return isinstance(wanted, int) and isinstance(own, int) and max(2, wanted) > max(2, own)


def action(decision: Decision) -> str:
    """Return what a decision does, as far as its reward depends on it.

    >>> action(Decision(outcome="no_tool"))
    'no_tool'
    """
    return " ".join((decision.outcome, *decision.tools))


@dataclass(frozen=True, kw_only=True)
class OffPolicy:
    """What settings would have earned; ``value`` is None where the traffic cannot tell."""

    value: float | None
    """Mean reward a decision, [0, 1]."""
    low: float = float("nan")
    """95 % interval over sessions."""
    high: float = float("nan")
    n: int = 0
    n_sessions: int = 0
    n_effective: float = 0.0
    """(sum w)^2 / sum w^2 (Kish 1965)."""
    mean_weight: float = 0.0
    """About 1 where the traffic covers what is wanted."""
    n_uncovered: int = 0
    """Decisions whose wanted action could not have been taken."""
    n_unrecorded: int = 0
    n_guarded: int = 0
    """Decisions that were not explored since they might write: what was done there is kept."""
    logged: float = float("nan")
    """Mean reward of what was done."""
    reason: str = ""
    """Why there is no estimate."""


def snips(
    rewards: NDArray[np.float64], weights: NDArray[np.float64], sessions: Sequence[str]
) -> tuple[float, float, float, float]:
    """Return the SNIPS estimate, its 95 % interval over sessions, and the effective sample size.

    Parameters
    ----------
    rewards, weights
        float64 (n,); a weight is 0 where another action was taken.
    sessions
        (n,) labels; decisions of one session are not independent.

    The variance is that of a ratio, linearised: with u_g the sum of w (r - V) over session g,
    Var(V) = G / (G - 1) sum u_g^2 / (sum w)^2, and Student's t has the sessions that weigh, by Kish, less one
    degrees of freedom.

    >>> value, low, high, n = snips(np.array([1.0, 0.0, 1.0, 1.0]), np.ones(4), ["a", "b", "c", "d"])
    >>> value, n
    (0.75, 4.0)
    """
    from scipy.stats import t

    total = float(weights.sum())
    if total <= 0:
        return float("nan"), float("nan"), float("nan"), 0.0
    value = float(weights @ rewards) / total
    effective = total**2 / float(weights @ weights)
    _, codes = np.unique(np.asarray(sessions, dtype=str), return_inverse=True)
    n_groups = int(codes.max()) + 1
    sums = np.bincount(codes, weights=weights * (rewards - value), minlength=n_groups)
    masses = np.bincount(codes, weights=weights, minlength=n_groups)
    if n_groups < 2:
        return value, float("nan"), float("nan"), effective
    spread = math.sqrt(n_groups / (n_groups - 1) * float(sums @ sums)) / total
    degrees = max(1.0, total**2 / float(masses @ masses) - 1.0)
    half = float(t.ppf(0.975, degrees)) * spread
    return value, max(0.0, value - half), min(1.0, value + half), effective


def estimate(
    journal: Journal,
    settings: Settings,
    *,
    rewards: Mapping[str, float] | None = None,
    since: float | str | None = None,
    calibration: Calibration | None = None,
    min_effective: float = MIN_EFFECTIVE,
) -> OffPolicy:
    """Return what settings would have earned on the journal's randomised traffic.

    Parameters
    ----------
    rewards
        Reward by request, [0, 1]; a request that is not in it earns 1. Default: 0 for what the analyzer holds
        for a wrong route, 1 for all else.
    min_effective
        Effective sample size under which there is no estimate.

    Raises
    ------
    ValueError
        If a reward is outside [0, 1].
    """
    if rewards is None:
        rewards = dict.fromkeys(analyze(journal, since).misroutes(), 0.0)
    outside = next((r for r, v in rewards.items() if not 0 <= v <= 1), None)
    if outside is not None:
        raise ValueError(f"reward of {outside} must be in [0, 1], got {rewards[outside]}")
    replayed = journal.replay(settings, since=since, calibration=calibration)
    wanted = {row.request: row for row in replayed.rows}
    earned, weights, sessions = [], [], []
    unrecorded = uncovered = guarded = 0
    logged = []
    for rows in journal.pages(since=since):
        for row in rows:
            again = wanted.get(row["id"])
            reward = rewards.get(row["id"], 1.0)
            logged.append(reward)
            if again is None or again.after is None:
                unrecorded += 1
                continue
            support: dict[str, float] = json.loads(row["support"])
            taken = " ".join((again.before[0], *again.before[1]))
            target = " ".join((again.after[0], *again.after[1]))
            if row["policy"] == GUARDED:
                guarded += 1
                target = taken
            if not support:
                support = {taken: 1.0}
            if support.get(target, 0.0) <= 0:
                uncovered += 1
            earned.append(reward)
            weights.append(1.0 / row["propensity"] if target == taken else 0.0)
            sessions.append(row["session"] or row["id"])
    n = len(logged)
    found = OffPolicy(
        value=None,
        n=n,
        n_sessions=len(set(sessions)),
        n_uncovered=uncovered,
        n_unrecorded=unrecorded,
        n_guarded=guarded,
        logged=float(np.mean(logged)) if logged else float("nan"),
    )
    return _told(found, np.array(earned), np.array(weights), sessions, min_effective)


def _told(
    found: OffPolicy,
    rewards: NDArray[np.float64],
    weights: NDArray[np.float64],
    sessions: Sequence[str],
    min_effective: float,
) -> OffPolicy:
    import dataclasses

    if not found.n:
        return dataclasses.replace(found, reason="the journal holds no decision")
    unknown = (found.n_uncovered + found.n_unrecorded) / found.n
    if unknown > MAX_UNKNOWN:
        return dataclasses.replace(
            found,
            reason=f"no overlap: for {unknown:.0%} of the decisions the wanted action was never possible "
            "or is not known",
        )
    value, low, high, effective = snips(rewards, weights, sessions)
    found = dataclasses.replace(
        found, n_effective=round(effective, 1), mean_weight=round(float(weights.mean()), 4)
    )
    if effective < min_effective:
        return dataclasses.replace(
            found, reason=f"too little overlap: effective sample size {effective:.0f} < {min_effective:g}"
        )
    return dataclasses.replace(found, value=value, low=low, high=high)
