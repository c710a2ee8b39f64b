"""What intervals and tests promise, on populations whose truth is known: 2,000 seeded draws of each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from mono_router.lab.comparison import mcnemar_exact, sign_flip
from mono_router.lab.intervals import mean_interval, share_intervals, wilsons
from mono_router.lab.risk import fixed_sequences, sample_size

N_DRAWS = 2000
SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)


def drawn(share: float, n: int, size: int, *, alike: float, seed: int) -> np.ndarray:
    """Rows of right and wrong (draws, n): groups of a size, in a share ``alike`` of which all rows agree."""
    rng = np.random.default_rng(seed)
    right = rng.random((N_DRAWS, n // size, size)) < share
    same = rng.random((N_DRAWS, n // size, 1)) < alike
    return np.where(same, right[:, :, :1], right).reshape(N_DRAWS, -1)


@pytest.mark.parametrize("n", [60, 120, 300, 600, 2000])
def test_shares_are_covered_exactly(n: int) -> None:
    """Over all outcomes by their chance, the interval of a share holds the truth in 93 to 97 %."""
    right = np.arange(n + 1)
    low, high = wilsons(right / n, np.full(n + 1, float(n)))
    for share in SHARES:
        covered = binom.pmf(right, n, share)[(low <= share) & (share <= high)].sum()
        # Where three errors or fewer are expected, outcomes are too coarse for an upper bound.
        assert 0.93 <= covered <= (0.97 if (1 - share) * n > 3.5 else 1.0), (share, covered)


@pytest.mark.parametrize(("size", "alike"), [(1, 0.0), (3, 0.0), (3, 0.5)], ids=["one", "three", "alike"])
@pytest.mark.parametrize("n", [60, 120, 300, 600, 2000])
def test_shares_are_covered(n: int, size: int, alike: float) -> None:
    """The interval of a share holds the truth in 93 to 97 % of draws, but for two standard errors of them."""
    groups = np.repeat(np.arange(n // size), size).astype(object)
    for share in SHARES:
        values = drawn(share, n, size, alike=alike, seed=n + int(100 * share))
        low, high = share_intervals(values, groups)
        covered = ((low <= share + 1e-12) & (share <= high + 1e-12)).mean()
        rare = (1 - share) * n < 15 * max(1.0, size * alike)  # Wilson's reach: it may cover more, never less
        assert 0.93 - 0.011 <= covered <= (1.0 if rare else 0.97 + 0.008), (share, covered)


@pytest.mark.parametrize("n", [60, 300])
def test_other_figures_are_covered(n: int) -> None:
    """So does the bootstrap of a figure that is no share, here a recall in thirds, by one and by three."""
    n_draws, chances = N_DRAWS // 4, [0.2, 0.2, 0.3, 0.3]
    truth = float(np.dot([0, 1 / 3, 2 / 3, 1], chances))
    for size in (1, 3):
        rng = np.random.default_rng(n + size)
        groups = np.repeat(np.arange(n // size), size).astype(object)
        covered = 0
        for _ in range(n_draws):
            of_group = rng.choice([0.0, 1 / 3, 2 / 3, 1.0], p=chances, size=n // size)
            of_case = rng.choice([0.0, 1 / 3, 2 / 3, 1.0], p=chances, size=n // size * size)
            values = np.where(rng.random(len(of_case)) < 0.5, np.repeat(of_group, size), of_case)
            found = mean_interval(values, groups, share=False)
            covered += found.low <= truth <= found.high
        room = 2 * np.sqrt(0.05 * 0.95 / n_draws)
        assert 0.93 - room <= covered / n_draws <= 0.97 + room, size


@pytest.mark.parametrize("n_groups", [40, 100])
def test_the_group_test_rejects_a_true_null_as_often_as_it_says(n_groups: int) -> None:
    """Where nothing changed, 5 % of comparisons by groups of three come out below 0.05."""
    rng = np.random.default_rng(n_groups)
    flips = rng.choice([-1.0, 0.0, 1.0], p=[0.15, 0.7, 0.15], size=(N_DRAWS, n_groups, 3))
    rejected = np.mean([sign_flip(one) <= 0.05 for one in flips.mean(axis=2)])
    assert rejected == pytest.approx(0.05, abs=0.01)


def test_mcnemar_never_rejects_a_true_null_more_often() -> None:
    """The exact test of single cases is discrete: it stays below its level."""
    rng = np.random.default_rng(3)
    better = rng.binomial(60, 0.5, N_DRAWS)
    p_values = np.array([mcnemar_exact(k, 60 - k) for k in range(61)])
    assert np.mean(p_values[better] <= 0.05) <= 0.055


def promised(
    errors: np.ndarray, shares: np.ndarray, *, n: int, alpha: float, delta: float, of_all: bool = False
) -> float:
    """Share of draws in which the chosen threshold has a risk above alpha.

    ``errors`` and ``shares`` (k,) are the error rate and the share of messages between two thresholds,
    strictest first.
    """
    rng = np.random.default_rng(7)
    reached = np.cumsum(shares)
    truth = np.cumsum(errors * shares) / (1.0 if of_all else reached)
    counts = rng.multinomial(n, [*shares, 1 - reached[-1]], size=N_DRAWS)[:, :-1]
    wrong = np.cumsum(rng.binomial(counts, errors), axis=1)
    tested = np.full_like(wrong, n) if of_all else np.cumsum(counts, axis=1)
    places, _ = fixed_sequences(wrong, tested, alpha=alpha, delta=delta)
    return float(np.mean((places >= 0) & (truth[places] > alpha)))


RISING = np.linspace(0.0, 0.5, 20)
BUMPED = np.array([0.3, 0.2, 0.02, 0.02, 0.02, *np.linspace(0.05, 0.5, 15)])
"""Wrong where it is most confident: no threshold on confidence should be, but some are."""


@pytest.mark.parametrize("delta", [0.05, 0.1])
@pytest.mark.parametrize("n", [100, 500, 2000])
@pytest.mark.parametrize("errors", [RISING, BUMPED, np.full(20, 0.1001)], ids=["rising", "bumped", "at"])
def test_risk_control_keeps_its_promise(errors, n: int, delta: float) -> None:
    """The risk at the chosen threshold is above alpha in at most delta of draws + three standard errors."""
    room = 3 * np.sqrt(delta * (1 - delta) / N_DRAWS)
    for of_all in (False, True):
        shares = np.full(20, 0.045)
        assert promised(errors, shares, n=n, alpha=0.1, delta=delta, of_all=of_all) <= delta + room


def test_risk_control_is_of_use() -> None:
    """With enough cases it does find a threshold, near the one that the truth would give."""
    rng = np.random.default_rng(1)
    counts = rng.multinomial(2000, np.full(20, 0.05), size=200)
    wrong, n = np.cumsum(rng.binomial(counts, RISING), axis=1), np.cumsum(counts, axis=1)
    places, _ = fixed_sequences(wrong, n, alpha=0.1, delta=0.1)
    best = np.flatnonzero(np.cumsum(RISING) / np.arange(1, 21) <= 0.1)[-1]
    assert np.mean(places >= best - 2) > 0.9


def test_a_stated_prior_keeps_the_promise() -> None:
    """Sampled to a prior that the cases do not have, the threshold keeps its promise for that traffic."""
    rng, delta, alpha, prior = np.random.default_rng(5), 0.1, 0.1, 0.3
    n_with, n_without = 900, 100
    size = sample_size(n_with, n_without, prior)
    rates, acted = np.array([[0.02, 0.08], [0.6, 0.9]]), np.array([[0.5, 0.3], [0.02, 0.2]])
    mix = np.array([1 - prior, prior])
    truth = np.cumsum((mix[:, None] * acted * rates).sum(axis=0)) / np.cumsum(mix @ acted)
    assert truth[0] <= alpha < truth[1]  # the looser of the two would break the promise
    as_they_come = np.array([n_with, n_without]) / (n_with + n_without)
    for shares, keeps in ((mix, True), (as_they_come, False)):
        kinds = rng.binomial(size, shares[1], N_DRAWS)
        wrong, n = np.zeros((N_DRAWS, 2), dtype=np.int64), np.zeros((N_DRAWS, 2), dtype=np.int64)
        for kind, sizes in ((0, size - kinds), (1, kinds)):
            counts = rng.multinomial(sizes, [*acted[kind], 1 - acted[kind].sum()])[:, :2]
            n += np.cumsum(counts, axis=1)
            wrong += np.cumsum(rng.binomial(counts, rates[kind]), axis=1)
        places, _ = fixed_sequences(wrong, n, alpha=alpha, delta=delta)
        broken = np.mean((places >= 0) & (truth[places] > alpha))
        assert (broken <= delta + 3 * np.sqrt(delta * (1 - delta) / N_DRAWS)) == keeps
