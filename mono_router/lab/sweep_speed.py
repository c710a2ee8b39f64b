"""What a joint sweep costs once the evidence is scored: ``python -m mono_router.lab.sweep_speed DATA``.

Seconds for all settings over all cases, peak memory, the ratio to routing every case under every setting
one by one (estimated from a random sample of both, timed in the same run), and whether the sweep decided
each of that sample as the single route did.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mono_router.catalog import Catalog
from mono_router.decision_table import UNRECORDED
from mono_router.embedding import LightEncoder
from mono_router.lab.cases import load_cases
from mono_router.lab.evaluation import offered_cases
from mono_router.lab.tuning import sweep
from mono_router.records import OUTCOMES, Case, canonical_json
from mono_router.router import Router

GRID: Mapping[str, Sequence[Any]] = {
    "lexical.min_score": [0.3, 0.5, 0.7, 0.9, None],
    "candidate_limit": [2, 6],
    "recall.candidate_limit": [3, 6],
    "recall.max_catalog_tools": [50, 200],
    "fusion.method": ["interleave", "weighted"],
    "selection.min_confidence": [0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9],
}
"""1,040 joint settings."""


@dataclass(frozen=True, kw_only=True)
class SweepSpeed:
    """What a sweep cost."""

    n_settings: int
    n_cases: int
    scoring_s: float
    """Seconds for the evidence alone."""
    replay_s: float
    """Seconds of the sweep without scoring: all settings, every metric, intervals."""
    one_by_one_s: float
    """Seconds that routing each case under each setting would take, from the sample."""
    peak_mb: float
    """Most memory that the process ever held."""
    n_checked: int
    """Random pairs of a setting and a case that were routed alone."""
    n_different: int
    """How many of them the sweep decided otherwise."""

    @property
    def ratio(self) -> float:
        """Time one by one, over the time of the replay."""
        return self.one_by_one_s / self.replay_s


def sweep_speed(
    router: Router,
    cases: Sequence[Case],
    grid: Mapping[str, Sequence[Any]] = GRID,
    *,
    n_checked: int = 200,
    seed: int = 0,
) -> SweepSpeed:
    """Return what a sweep of the grid costs on these cases, of whatever split: nothing is chosen by it.

    Parameters
    ----------
    router
        Without a model.
    cases
        All of them are swept.
    grid
        As in :func:`~mono_router.sweep`.
    n_checked
        Random pairs of a setting and a case that are routed alone, timed and compared.
    seed
        Of these pairs.
    """
    given = [dataclasses.replace(case, split="") for case in offered_cases(cases, "case")[0]]
    router.route("warm up")
    started = time.perf_counter()
    found = sweep(router, given, grid, progress=False)
    n_settings = len(found.frame)
    whole = time.perf_counter() - started
    rng, spent, n_different = np.random.default_rng(seed), 0.0, 0
    for i, j in zip(
        rng.integers(0, n_settings, n_checked).tolist(),
        rng.integers(0, len(given), n_checked).tolist(),
        strict=True,
    ):
        alone, case = router.with_settings(found.settings[i]), given[j]
        started = time.perf_counter()
        trace = alone.trace(case.query, within=case.candidate_tools)
        spent += time.perf_counter() - started
        code = int(found.kept.outcome[i, j])
        same = code != UNRECORDED and OUTCOMES[code] == trace.decision.outcome
        replayed = found.verdicts(i).verdict(j).decision if same else None
        n_different += replayed is None or canonical_json(replayed) != canonical_json(trace.decision)
    return SweepSpeed(
        n_settings=n_settings,
        n_cases=len(given),
        scoring_s=found.scoring_s,
        replay_s=whole - found.scoring_s,
        one_by_one_s=spent / max(1, n_checked) * n_settings * len(given),
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        n_checked=n_checked,
        n_different=n_different,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure sets of a folder and print what they cost."""
    parser = argparse.ArgumentParser(prog="python -m mono_router.lab.sweep_speed", description=__doc__)
    parser.add_argument("data", type=Path, help="folder of sets")
    parser.add_argument("--sets", nargs="*", default=["clinc150", "massive"])
    parser.add_argument("--checked", type=int, default=200, help="pairs that are routed alone")
    given = parser.parse_args(argv)
    for name in given.sets:
        catalog = Catalog.load(given.data / name).with_examples(limit=3)
        router = Router(catalog, encoder=LightEncoder())
        found = sweep_speed(router, load_cases(given.data / name), n_checked=given.checked)
        print(
            f"{name}: {found.n_settings:,} settings x {found.n_cases:,} cases in {found.replay_s:.1f} s "
            f"after {found.scoring_s:.1f} s of scoring; one by one {found.one_by_one_s:,.0f} s, "
            f"{found.ratio:,.0f} times as long; peak {found.peak_mb:,.0f} MB; "
            f"{found.n_different} of {found.n_checked} decisions differ",
            file=sys.stdout,
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
