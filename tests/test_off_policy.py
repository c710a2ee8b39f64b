"""Randomised settings know how likely each action was, and traffic tells what others would have earned."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from conftest import by_purpose

from mono_router.catalog import Catalog
from mono_router.journal.off_policy import Randomised, action, estimate, snips
from mono_router.journal.store import Journal
from mono_router.lab.cases import Cases
from mono_router.records import Query
from mono_router.router import Router
from mono_router.settings import Settings

STRICT = Settings().replace({"selection.min_confidence": 0.9})
LAX = Settings().replace({"selection.min_confidence": 0.0})
ALTERNATIVES = {"strict": STRICT, "lax": LAX}


def test_exploring_is_off_by_default(booking_router: Router) -> None:
    """Without a rate every session is decided as ever, at propensity 1."""
    plain = Randomised(booking_router, ALTERNATIVES, key="k")
    trace, choice = plain.choose(Query(message="how much is a haircut"), "s")
    assert choice.policy == "base"
    assert choice.propensity == 1.0
    assert choice.support == {action(trace.decision): 1.0}
    assert trace.decision == booking_router.route("how much is a haircut").decision


def test_sessions_are_drawn_by_a_keyed_hash(booking_router: Router) -> None:
    """One session keeps its settings, the shares are those asked for, and another key draws others."""
    chosen = Randomised(booking_router, ALTERNATIVES, explore_rate=0.4, key="k")
    drawn = [chosen.policy(f"s{n}") for n in range(4000)]
    assert drawn == [chosen.policy(f"s{n}") for n in range(4000)]
    shares = Counter(drawn)
    assert shares["base"] / 4000 == pytest.approx(0.6, abs=0.03)
    assert shares["lax"] / 4000 == pytest.approx(0.2, abs=0.02)
    other = Randomised(booking_router, ALTERNATIVES, explore_rate=0.4, key="other")
    assert [other.policy(f"s{n}") for n in range(4000)] != drawn


def test_propensities_are_those_of_the_actions(booking_router: Router, booking_dev: Cases) -> None:
    """The support adds up to 1, holds what each setting would do, and nothing that writes is explored."""
    chosen = Randomised(booking_router, ALTERNATIVES, explore_rate=0.5, key="k")
    routers = {"base": booking_router} | {n: booking_router.with_settings(s) for n, s in ALTERNATIVES.items()}
    explored = 0
    for n, case in enumerate(booking_dev[:60]):
        trace, choice = chosen.choose(case.query, f"s{n}")
        decided = {name: r.trace(case.query).decision for name, r in routers.items()}
        assert sum(choice.support.values()) == pytest.approx(1.0)
        assert choice.propensity == choice.support[action(trace.decision)]
        writes = any(booking_router.tools[t].effects == "write" for d in decided.values() for t in d.tools)
        if writes:
            assert choice.policy == "guarded"
            assert choice.propensity == 1.0
            assert trace.decision == decided["base"]
        else:
            assert set(choice.support) == {action(d) for d in decided.values()}
            assert trace.decision == decided[choice.policy]
            explored += choice.propensity < 1.0
    assert explored > 5


def test_the_estimate_finds_what_other_settings_earn(booking_router: Router, booking_dev: Cases) -> None:
    """On randomised traffic the interval holds what the settings do earn when they decide everything."""
    cases = [c for c in booking_dev if len(c.expected_tools) < 2]

    def reward(decision: object, expected: tuple[str, ...]) -> float:
        return float(tuple(decision.tools) == expected)  # type: ignore[attr-defined]

    chosen = Randomised(booking_router, {"strict": STRICT}, explore_rate=0.5, key="k")
    rewards: dict[str, float] = {}
    with Journal("mem://") as journal:
        for n in range(3):
            for m, case in enumerate(cases):
                session = f"{n} {m}"
                trace, choice = chosen.choose(case.query, session)
                request = journal.record(trace, session_id=session, choice=choice)
                rewards[str(request)] = reward(trace.decision, case.expected_tools)
        journal.flush()
        found = estimate(journal, STRICT, rewards=rewards)
        wider = estimate(journal, LAX, rewards=rewards)
        few = estimate(journal, STRICT, rewards=rewards, min_effective=1e9)
    strict = booking_router.with_settings(STRICT)
    earned = []
    for case in cases:
        _, choice = chosen.choose(case.query, "s")
        router = booking_router if choice.policy == "guarded" else strict
        earned.append(reward(router.trace(case.query).decision, case.expected_tools))
    truth = float(np.mean(earned))
    assert 0 < found.n_guarded < found.n
    assert found.value is not None
    assert found.low <= truth <= found.high
    assert found.n_effective > 100
    assert found.mean_weight == pytest.approx(1.0, abs=0.1)
    assert wider.value is None
    assert "no overlap" in wider.reason
    assert "effective sample size" in few.reason


def test_snips_covers_as_often_as_it_says() -> None:
    """Over seeded simulations with like-minded sessions, 95 % intervals hold the truth that often."""
    rng = np.random.default_rng(7)
    hits = 0
    rounds = 400
    for _ in range(rounds):
        n_sessions, size = 250, 4
        mood = rng.beta(2, 2, n_sessions)  # reward of the wanted action differs by session
        explored = rng.random(n_sessions) < 0.3
        wanted_is_base = rng.random((n_sessions, size)) < 0.5
        matched = wanted_is_base | explored[:, None]
        propensity = np.where(wanted_is_base, 1.0, 0.3)
        reward = (rng.random((n_sessions, size)) < np.where(matched, mood[:, None], 0.1)).astype(float)
        weights = np.where(matched, 1.0 / propensity, 0.0)
        sessions = [str(i) for i in range(n_sessions) for _ in range(size)]
        _, low, high, _ = snips(reward.ravel(), weights.ravel(), sessions)
        hits += low <= 0.5 <= high
    assert 0.92 <= hits / rounds <= 0.98


def test_snips_is_the_plain_mean_without_randomness() -> None:
    """Weights of 1 give the mean and count every row; no weight at all gives nothing."""
    rewards = np.array([1.0, 0.0, 1.0])
    assert snips(rewards, np.ones(3), ["a", "b", "c"])[0] == pytest.approx(2 / 3)
    assert snips(rewards, 5 * np.ones(3), ["a", "b", "c"])[3] == pytest.approx(3)
    assert np.isnan(snips(rewards, np.zeros(3), ["a", "b", "c"])[0])


def test_what_cannot_be_randomised_is_refused(booking_router: Router, catalog: Catalog) -> None:
    """Other scores, wider limits, a model, a bad rate: each named."""
    stemless = {"x": Settings().replace({"lexical.stem": False})}
    with pytest.raises(ValueError, match=r"alternative 'x': lexical\.stem needs scores"):
        Randomised(booking_router, stemless, explore_rate=0.1, key="k")
    wide = {"x": Settings().replace({"lexical.candidate_limit": 30})}
    with pytest.raises(ValueError, match=r"alternative 'x': lexical\.candidate_limit needs scores"):
        Randomised(booking_router, wide, explore_rate=0.1, key="k")
    with pytest.raises(ValueError, match=r"explore_rate must be in \[0, 1\], got 2"):
        Randomised(booking_router, ALTERNATIVES, explore_rate=2, key="k")
    with pytest.raises(ValueError, match="explore_rate > 0 needs alternatives"):
        Randomised(booking_router, {}, explore_rate=0.1, key="k")
    modelled = Router(catalog, model=by_purpose())
    with pytest.raises(ValueError, match="only a router that scores every tool"):
        Randomised(modelled, ALTERNATIVES, key="k")
    with Journal("mem://") as journal:
        assert estimate(journal, STRICT).reason == "the journal holds no decision"
        with pytest.raises(ValueError, match=r"reward of r must be in \[0, 1\], got 7"):
            estimate(journal, STRICT, rewards={"r": 7})
