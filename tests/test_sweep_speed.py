"""What a joint sweep costs is measured in one run, and what it decided is checked in the same run."""

from __future__ import annotations

import pytest
from conftest import ROOT

from mono_router.lab.sweep_speed import GRID, main, sweep_speed
from mono_router.router import Router


def test_a_sweep_is_quicker_than_one_by_one(booking, booking_encoder, booking_dev) -> None:
    """Every decision of the sample is that of a single route, and a sweep costs far less than they do."""
    router = Router(booking, encoder=booking_encoder)
    grid = {name: values[:2] for name, values in GRID.items()} | {"selection.min_confidence": [0.3, 0.5, 0.7]}
    found = sweep_speed(router, booking_dev[:80], grid, n_checked=25)
    assert (found.n_settings, found.n_cases) == (96, 80)
    assert (found.n_checked, found.n_different) == (25, 0)
    assert found.ratio > 20
    assert found.replay_s > 0
    assert found.peak_mb > 10


def test_the_command_prints_a_line_a_set(capsys) -> None:
    """It names settings, cases, seconds, the ratio, memory and what differs."""
    assert main([str(ROOT / "datasets"), "--sets", "booking", "--checked", "3"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("booking: 1,040 settings x ")
    assert "times as long" in line
    assert "0 of 3 decisions differ" in line


@pytest.mark.parametrize("name", ["clinc150", "massive"])
def test_a_thousand_settings_over_a_public_set(shared_data, name: str) -> None:
    """1,040 joint settings over a public set decide as single routes do, in a small part of their time."""
    from mono_router.catalog import Catalog
    from mono_router.embedding import LightEncoder
    from mono_router.lab.cases import load_cases

    catalog = Catalog.load(shared_data / name).with_examples(limit=3)
    cases = load_cases(shared_data / name)[::6]  # the whole set is for the command
    found = sweep_speed(Router(catalog, encoder=LightEncoder()), cases, n_checked=40)
    assert found.n_settings == 1040
    assert found.n_different == 0
    assert found.ratio > 300  # the aim is 1,000 over the whole set; here settings have fewer cases to share
