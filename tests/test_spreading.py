"""Scoring spreads over joblib's workers, and nothing comes out differently for it."""

from __future__ import annotations

import dataclasses

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mono_router as mr
from mono_router.evidence_table import EvidenceTable
from mono_router.lab import spreading
from mono_router.lab.evaluation import score_cases
from mono_router.lab.spreading import batch_bounds, n_workers

GRID = {
    "lexical.min_score": [0.4, None],
    "lexical.stem": [True, False],  # two scorings
    "candidate_limit": [1, 6],
    "selection.min_confidence": [0.3, 0.6],
}


@pytest.fixture(scope="module")
def router(booking, booking_encoder):
    return mr.Router(booking, encoder=booking_encoder)


def assert_same_evidence(one, two):
    for item in dataclasses.fields(EvidenceTable):
        a, b = getattr(one, item.name), getattr(two, item.name)
        if item.name == "fill":
            assert a == b
        elif item.name in ("lexical", "embedding", "log_odds", "lexical_rank", "embedding_rank"):
            # Columns that a row does not use hold anything.
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_array_equal(a[one.union >= 0], b[two.union >= 0])
        elif item.name == "part_odds":
            used = [(row >= 0).sum() for row in one.union]
            assert all(np.array_equal(x[:, :n], y[:, :n]) for x, y, n in zip(a, b, used, strict=True))
        elif isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b


def same_frames(one, two):
    return one.frame.equals(two.frame) and all(
        np.array_equal(one.verdicts(i).outcome, two.verdicts(i).outcome) for i in range(len(one))
    )


@given(n=st.integers(0, 10_000), workers=st.integers(1, 64), least=st.integers(1, 600))
def test_batches_cover_the_messages_in_order(router, n, workers, least):
    """Bounds join without gap or overlap, no batch is larger than the router's own, few are small."""
    bounds = batch_bounds(router, n, workers=workers, least=least)
    assert [i for start, stop in bounds for i in range(start, stop)] == list(range(n))
    sizes = [stop - start for start, stop in bounds]
    own = [stop - start for start, stop in router.chunks(n)]
    assert max(sizes, default=0) <= max(own, default=0)
    if len(bounds) > len(own):
        assert min(sizes) >= least - 1
        assert len(bounds) <= workers * spreading.PER_WORKER


@pytest.mark.parametrize("offered", ["case", "catalog"])
def test_evidence_is_the_same_in_batches(router, booking_dev, offered):
    """Every array of the table equals that of one process, bit for bit."""
    cases = [
        dataclasses.replace(c, candidate_tools=router.catalog.ids[i % 3 :]) if i % 2 else c
        for i, c in enumerate(booking_dev[:96])
    ]
    alone = score_cases(router, cases, offered, include=[["staff.find"]] * len(cases))
    with joblib.parallel_config(backend="threading", n_jobs=3):
        assert n_workers(None) == 3
        spread = score_cases(router, cases, offered, include=[["staff.find"]] * len(cases))
    assert len(spread) == len(cases)
    assert_same_evidence(alone, spread)


def test_outside_of_a_configuration_one_worker_scores():
    """Without jobs and without joblib's configuration nothing is started; jobs are bounded by processors."""
    assert n_workers(None) == n_workers(1) == 1
    assert n_workers(1000) == joblib.cpu_count()


def test_what_travels_has_no_model(booking, booking_dev):
    """A worker gets neither the model nor what belongs to it, and can still score."""

    class Secret:
        name = "secret"

        def complete(self, request):
            raise AssertionError("nothing is asked while scoring")

        def __reduce__(self):
            raise AssertionError("a model must not travel")

    router = mr.Router(booking, model=Secret())
    sent = spreading._unpacked(spreading._packed(spreading._without_model(router)).tobytes())
    queries = [case.query for case in booking_dev[:5]]
    own = router.score(queries)
    there = sent.score(queries)
    assert sent.model is None
    assert not there.selector_scores
    np.testing.assert_array_equal(own.lexical, there.lexical)
    np.testing.assert_array_equal(own.union, there.union)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        spread = score_cases(router, booking_dev[:96])
    assert all(not answers for answers in spread.answers)
    assert_same_evidence(score_cases(router, booking_dev[:96]), spread)


def test_a_part_that_cannot_travel_is_refused(booking, booking_dev):
    """The error comes at once, whatever the workers are."""

    class Fixed:
        def __init__(self):
            self.rows = (row for row in ())

        def scores(self, messages):
            return np.zeros((len(messages), len(booking)), dtype=np.float32)

    router = mr.Router(booking, retriever=Fixed())
    with (
        joblib.parallel_config(backend="threading", n_jobs=2),
        pytest.raises(TypeError, match="cannot pickle"),
    ):
        score_cases(router, booking_dev[:96])


def test_processes_of_this_machine_score_the_same(router, booking_dev, monkeypatch):
    """jobs=2 starts two processes (loky) where there are cases enough, and the report is the same."""
    from joblib.externals.loky import get_reusable_executor

    monkeypatch.setattr(spreading, "LEAST_HERE", 64)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    alone = mr.evaluate(router, booking_dev[:130], progress=False, latency=False)
    try:
        spread = mr.evaluate(router, booking_dev[:130], jobs=2, progress=False, latency=False)
    finally:
        get_reusable_executor().shutdown(wait=True)
    assert_same_evidence(alone.verdicts.table, spread.verdicts.table)
    assert spread.to_json() == alone.to_json()


def test_a_dask_cluster_scores_the_same(booking_router, booking_dev):
    """Two workers of a local Dask cluster take part; evaluation and sweep equal those of this process."""
    distributed = pytest.importorskip("distributed")
    router, cases = booking_router, booking_dev[:130]
    alone = mr.evaluate(router, cases, progress=False, latency=False)
    swept = mr.sweep(router, cases, GRID, progress=False)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        with joblib.parallel_config(backend="dask"):
            assert n_workers(None) == 2
            spread = mr.evaluate(router, cases, progress=False, latency=False)
            spread_sweep = mr.sweep(router, cases, GRID, progress=False)
        took_part = client.run(lambda dask_worker: len(dask_worker.state.tasks) + len(dask_worker.state.log))
    assert len(took_part) == 2
    assert all(n > 0 for n in took_part.values())
    assert_same_evidence(alone.verdicts.table, spread.verdicts.table)
    assert spread.to_json() == alone.to_json()
    assert same_frames(swept, spread_sweep)
