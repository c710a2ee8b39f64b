"""Spreading: batches of messages scored by joblib's workers, on this machine or on a cluster.

Scoring is what costs; deciding is cheap and stays here. A worker gets the fitted router without its model
and returns arrays; models are asked from here, in threads, where their keys, recordings and rate limits
are. Which workers there are is joblib's matter: ``jobs`` starts processes here (loky), and inside
``joblib.parallel_config(backend="dask")`` the same call runs on that cluster.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import pickle
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router.evidence_table import EvidenceTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mono_router.records import Query
    from mono_router.router import Router
    from mono_router.settings import Settings

Offer = Sequence[str] | None
LEAST_HERE = 512
"""Messages that make a process of our own worth starting (it takes seconds); a guess."""
LEAST_GIVEN = 32
"""Messages that are worth sending to workers that the caller has set up."""
PER_WORKER = 2
"""Batches for each worker, so that a slow one does not hold up the rest."""
_HOME = ("facts", "fill")
"""Fields of a table that do not travel: the router here has them."""


def n_workers(jobs: int | None) -> int:
    """Return how many workers score: ``jobs``, or what an active ``joblib.parallel_config`` gives.

    >>> n_workers(None), n_workers(1)
    (1, 1)
    """
    if jobs == 1 or (jobs is None and "joblib" not in sys.modules):
        return 1  # nobody can have set up workers
    import joblib

    found = int(joblib.effective_n_jobs(jobs))
    # Threads that ask models may be many more than there are processors to score with.
    return found if jobs is None else min(found, int(joblib.cpu_count()))


def batch_bounds(router: Router, n: int, *, workers: int, least: int) -> list[tuple[int, int]]:
    """Return the bounds of the batches that n messages are scored in, none larger than the router's own.

    One worker, or too few messages for two batches of ``least``: the router's own.
    """
    own = router.chunks(n)
    count = min(workers * PER_WORKER, n // least)
    if workers < 2 or count < 2:
        return own
    count = max(count, len(own))
    return list(itertools.pairwise(round(k * n / count) for k in range(count + 1)))


def score_batches(
    router: Router,
    queries: Sequence[Query],
    within: Sequence[Offer],
    *,
    widest: Sequence[Settings] = (),
    include: Sequence[Sequence[str]] | None = None,
    jobs: int | None = None,
) -> list[EvidenceTable]:
    """Return the evidence on messages in batches, in order.

    Parameters
    ----------
    router, queries, within, widest, include
        As :meth:`~mono_router.Router.score` takes them.
    jobs
        Processes that score; None: the workers of an active ``joblib.parallel_config``, else this process
        alone. Whoever scores, the evidence is the same (to 1e-5 where vectors of an encoder depend on the
        batch that it is given).

    Raises
    ------
    TypeError
        If workers are to score and a part of the router cannot be sent to them.
    """
    # A worker has no model: what settings leave to the router's parts is resolved before they travel.
    resolved = [router.resolved(one) for one in widest]
    workers, least = n_workers(jobs), LEAST_GIVEN if jobs is None else LEAST_HERE
    bounds = batch_bounds(router, len(queries), workers=workers, least=least)
    tasks = [
        (queries[start:stop], within[start:stop], resolved, None if include is None else include[start:stop])
        for start, stop in bounds
    ]
    if workers < 2 or len(tasks) < 2:
        return [_score(router, *task) for task in tasks]
    import joblib

    _score(router, queries[:1], within[:1], resolved, None)  # fits, once and here, what is fitted when needed
    sent = _packed(_without_model(router))
    run = joblib.Parallel(n_jobs=None if jobs is None else workers)
    found = run(joblib.delayed(_arrays)(sent, *task) for task in tasks)
    fill = getattr(router.selector, "fill", None)
    return [EvidenceTable(**arrays, facts=router.facts, fill=fill) for arrays in found]


def _score(
    router: Router,
    queries: Sequence[Query],
    within: Sequence[Offer],
    widest: Sequence[Settings],
    include: Sequence[Sequence[str]] | None,
) -> EvidenceTable:
    return router.score(queries, within=within, widest=widest, include=include)


def _arrays(sent: NDArray[np.uint8], *task: Any) -> Mapping[str, Any]:
    """What a worker returns of the table it scored."""
    router = _unpacked(sent.tobytes())
    table = _score(router, *task)
    flush = getattr(getattr(router.retriever, "cache", None), "flush", None)
    if flush is not None:
        flush()  # vectors that a worker made are not made again
    return {
        item.name: getattr(table, item.name)
        for item in dataclasses.fields(EvidenceTable)
        if item.name not in _HOME
    }


def _packed(router: Router) -> NDArray[np.uint8]:
    """The router as bytes, in an array because joblib sends that once and not with every batch.

    Packed here and not by joblib's backends: Dask's waits for ever for what cannot be packed.
    """
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:  # joblib before 1.6 brings its own
        from joblib.externals import cloudpickle

    lock = type(threading.Lock())

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            # A lock guards one process; a copy of what it guards has its own.
            return (threading.Lock, ()) if isinstance(obj, lock) else super().reducer_override(obj)

    packed = io.BytesIO()
    Packer(packed).dump(router)
    return np.frombuffer(packed.getvalue(), dtype=np.uint8)


@lru_cache(maxsize=2)
def _unpacked(sent: bytes) -> Router:
    router: Router = pickle.loads(sent)
    return router


def _without_model(router: Router) -> Router:
    """The router as far as scoring needs it: a client, its key and a recording stay here."""
    bare = object.__new__(type(router))
    bare.__dict__.update(router.__dict__)
    bare.model = None
    bare.calibrator = None
    if not router.selector_scores:
        nobody: Any = None
        bare.selector = bare._given_selector = nobody
    return bare
