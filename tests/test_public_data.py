"""The public sets beside the repository load, with their warnings counted."""

from __future__ import annotations

import pytest

from mono_router.catalog import Catalog
from mono_router.lab.cases import load_cases
from mono_router.router import Router

# Set to tools and cases, as its README states them.
SETS = {
    "apibank": (53, 83), "arbanking77": (77, 3507), "banking77": (77, 2144), "bfcl": (1703, 2300),
    "bfcl_ar": (1703, 2300), "clinc150": (150, 6030), "livemcpbench": (527, 64), "massive": (60, 7398),
    "metatool": (199, 3280), "sealtools": (4076, 1429), "sgd": (38, 1799), "snips": (7, 306),
    "stabletoolbench": (2490, 529), "toolalpaca": (94, 148), "when2call": (None, 206),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_loads(shared_data, name: str) -> None:
    """A public set loads whole: its tools, its cases, and a warning for each thing that is doubtful."""
    tools, n_cases = SETS[name]
    catalog, cases = Catalog.load(shared_data / name), load_cases(shared_data / name)
    assert tools is None or len(catalog) == tools
    assert len(cases) == n_cases
    assert all("\n" not in w and str(shared_data) in w for w in (*catalog.warnings, *cases.warnings))
    assert catalog.hash.startswith("sha256:")
    named = {t for case in cases for t in (*case.expected_tools, *(case.candidate_tools or ()))}
    assert {catalog.variants.get(t, t) for t in named} <= set(catalog.ids)
    assert {case.split for case in cases} == {"dev", "test"}


@pytest.mark.parametrize("name", ["snips", "when2call", "apibank"])
def test_routes(shared_data, name: str) -> None:
    """Cases of a public set are routed within what was offered with them."""
    router = Router(Catalog.load(shared_data / name))
    for case in load_cases(shared_data / name)[:20]:
        trace = router.trace(case.query, within=case.candidate_tools)
        if case.candidate_tools is not None:
            offered = {router.catalog.variants.get(t, t) for t in case.candidate_tools}
            assert {c.tool for c in trace.candidates} <= offered
