"""A report tells what produced it."""

from __future__ import annotations

import json

import numpy as np

from mono_router.lab.calibration import Calibrator
from mono_router.lab.evaluation import evaluate
from mono_router.lab.provenance import provenance_of
from mono_router.local import LocalSelector
from mono_router.models.simulated import SimulatedModel
from mono_router.records import canonical_json, digest
from mono_router.router import Router
from mono_router.settings import Settings


def test_a_report_tells_what_produced_it(booking, booking_encoder, booking_dev) -> None:
    """Catalog, settings, cases, encoder, versions and commit; the same run tells the same."""
    cases = list(booking_dev)[:20]
    settings = Settings().replace({"candidate_limit": 3})
    router = Router(booking, encoder=booking_encoder, settings=settings)
    report = evaluate(router, cases, latency=False, progress=False)
    found = report.provenance
    assert found["catalog_hash"] == booking.hash
    assert found["cases_hash"] == digest(report.cases)
    assert found["settings_hash"] == report.settings.hash
    assert found["settings"] == {
        "candidate_limit": 3,
        "recall.source": "embedding",
        "selection.min_confidence": 0.5,
    }
    assert (found["encoder"], found["retriever"]) == (booking_encoder.id, "EmbeddingRetriever")
    assert (found["n_cases"], found["splits"], found["selected_on"]) == (20, ["dev"], None)
    assert found["languages"] == sorted({case.language for case in cases})
    assert found["versions"]["numpy"] == np.__version__
    assert {"python", "mono-router", "scipy", "pandas"} <= set(found["versions"])
    assert set(found) >= {"commit", "dirty", "prompts", "model", "simulated", "offered"}
    assert canonical_json(found) == canonical_json(provenance_of(report))
    assert json.loads(report.to_json())["provenance"]["encoder"] == booking_encoder.id


def test_what_was_fitted_is_told(booking, booking_router, booking_dev) -> None:
    """A calibrator and a selector are told with the hash of the cases that they learned from; models too."""
    fit, held = list(booking_dev)[:60], list(booking_dev)[60:70]
    made = Calibrator(method="platt").fit(evaluate(booking_router, fit, latency=False, progress=False))
    own = booking_router.with_parts(selector=None, calibrator=made)
    found = evaluate(own, held, latency=False, progress=False).provenance
    assert (found["calibrator"], found["selector_cases_hash"]) == ("Calibrator", None)
    assert found["calibrator_cases_hash"] == digest(sorted(case.id for case in fit))
    learnt = Router(booking, selector=LocalSelector(booking, cases=fit[:5]))
    found = evaluate(learnt, held[:2], latency=False, progress=False).provenance
    assert found["selector_cases_hash"] == digest(sorted(case.id for case in fit[:5]))
    model = SimulatedModel(held)
    found = evaluate(Router(booking, model=model), held, progress=False).provenance
    assert (found["model"], found["simulated"]) == (model.name, True)
    assert set(found["prompts"]) == {"recall", "selection"}
