"""Findings become examples in the manifests, and only if they make the router better."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from mono_router.catalog import Catalog
from mono_router.cli import main
from mono_router.embedding import LightEncoder
from mono_router.journal.bounds import paired_lower_bound
from mono_router.journal.findings import Finding, Findings
from mono_router.journal.improvement import apply, gate, over, propose, undo
from mono_router.journal.manifests import Applied
from mono_router.journal.proposal import Addition, Proposal
from mono_router.journal.store import Journal
from mono_router.lab.cases import Cases
from mono_router.records import Case, Example
from mono_router.router import Router


def found(message: str, worked: str, **changes: Any) -> Finding:
    values: dict[str, Any] = {
        "kind": "re_asked", "request": message, "session": message, "score": 0.95, "message": message,
        "tool": "clock.now", "worked": worked, "worked_score": 0.95, "language": "en",
    }  # fmt: skip
    return Finding(**(values | changes))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the booking set."""
    shutil.copytree(ROOT / "datasets" / "booking", tmp_path / "booking")
    return tmp_path / "booking"


# --- proposing --------------------------------------------------------------------------------------


def test_what_finally_worked_becomes_an_example(catalog: Catalog) -> None:
    """Both messages of a wish, with the request that they come from; what is known already is left out."""
    known = catalog["calendar.create"].examples[0].message
    rows = (
        found("squeeze Ana in on friday", "calendar.create", worked_message="put Ana on my calendar"),
        found(known, "calendar.create"),
        found("doubtful", "calendar.create", worked_score=0.3),
        found("unsure that it was one wish", "calendar.create", score=0.5),
        found("nobody knows", ""),
    )
    proposal = propose(Findings(rows), catalog).where(["example"])
    assert [(a.text, a.tool, a.because) for a in proposal] == [
        ("squeeze Ana in on friday", "calendar.create", ("squeeze Ana in on friday",)),
        ("put Ana on my calendar", "calendar.create", ("squeeze Ana in on friday",)),
    ]
    after = proposal.after["calendar.create"].examples
    assert after[-1] == Example(message="put Ana on my calendar", language="en")
    assert len(after) == len(catalog["calendar.create"].examples) + 2


def test_thumbs_down_joins_whatever_the_analyzer_thinks(catalog: Catalog) -> None:
    """A disliked message whose tool nobody knows is handed to a person."""
    row = found("make it snappy", "", kind="thumbs_down")
    assert propose(Findings((row,)), catalog).unlabelled == (row,)


def test_a_message_said_for_two_tools_teaches_neither(catalog: Catalog) -> None:
    """Contradicting findings cancel out; redacted and endless messages are no examples."""
    rows = (
        found("move it", "calendar.create", request="1"),
        found("Move it!", "calendar.list", request="2"),
        found("my pin is [password]", "calendar.list"),
        found("long " * 60, "calendar.list"),
    )
    assert len(propose(Findings(rows), catalog).where(["example", "hint"])) == 0


def test_hints_boundaries_and_even_growth(catalog: Catalog) -> None:
    """Said by several sessions: a hint; mixed up often: a boundary; and tools grow evenly."""
    rows = [found("diary please", "calendar.list", request=f"{n}", session=f"{n}") for n in range(3)]
    rows += [
        found(f"agenda number {n} {'xyz'[n % 3] * n}", "calendar.list", request=f"r{n}") for n in range(9)
    ]
    proposal = propose(Findings(tuple(rows)), catalog)
    by_kind = {kind: [a for a in proposal if a.kind == kind] for kind in ("hint", "boundary", "example")}
    assert [a.text for a in by_kind["hint"]] == ["diary please"]
    assert [(a.tool, a.text[:8]) for a in by_kind["boundary"]] == [("clock.now", "not for:")]
    assert len(by_kind["example"]) == 3
    assert proposal.where(["hint"]).additions == tuple(by_kind["hint"])
    assert "1 hints" in repr(proposal)
    with pytest.raises(ValueError, match=r"min_worked must be in \[0, 1\], got 2"):
        propose(Findings(), catalog, min_worked=2)


# --- the manifests ----------------------------------------------------------------------------------


ADDED = (
    Addition(tool="booking.check_availability", kind="example", text='say "when", é: #1', language="en"),
    Addition(tool="booking.cancel", kind="hint", text="scrap it"),
    Addition(tool="booking.cancel", kind="boundary", text="not for: moving an appointment"),
)


def test_a_diff_adds_lines_and_keeps_comments(folder: Path) -> None:
    """Only what is added changes, comments stay, and the manifests load as the proposal says."""
    catalog = Catalog.load(folder)
    proposal = Proposal(catalog=catalog, additions=ADDED)
    before = (folder / "catalog.yaml").read_text("utf-8")
    diff = proposal.diff(folder)
    assert (folder / "catalog.yaml").read_text("utf-8") == before
    removed = [line for line in diff.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert len(removed) <= 2  # the flow lists that grew
    assert '+          - {message: "say \\"when\\", é: #1", language: en}' in diff
    applied = apply(proposal, folder)
    again = Catalog.load(folder)
    assert again.hash == proposal.after.hash
    text = (folder / "catalog.yaml").read_text("utf-8")
    assert [line for line in text.splitlines() if line.strip().startswith("#")] == [
        line for line in before.splitlines() if line.strip().startswith("#")
    ]
    applied.save(folder / "applied.json")
    undo(Applied.load(folder / "applied.json"))
    assert (folder / "catalog.yaml").read_text("utf-8") == before


def test_a_changed_manifest_is_not_overwritten(folder: Path) -> None:
    """A proposal for another catalog is refused, and so is taking back what was edited since."""
    proposal = Proposal(catalog=Catalog.load(folder), additions=ADDED)
    applied = apply(proposal, folder)
    with pytest.raises(ValueError, match="the manifests are not those that the proposal is for"):
        apply(proposal, folder)
    file = folder / "catalog.yaml"
    file.write_text(file.read_text("utf-8") + "# mine\n", "utf-8")
    with pytest.raises(ValueError, match="changed since it was applied, nothing is undone"):
        undo(applied)
    record = json.loads(json.dumps(proposal.to_dict()))
    assert Proposal.from_dict(record, proposal.catalog) == proposal
    with pytest.raises(ValueError, match="the proposal is for another catalog"):
        Proposal.from_dict(record, Catalog.load(folder))


def test_json_lines_are_edited_line_by_line(tmp_path: Path) -> None:
    """The other tools' lines stay as they were, byte for byte."""
    lines = ['{"id":"a",  "description": "A"}\n', '{"id": "b", "description": "B", "examples": ["x"]}\n']
    file = tmp_path / "catalog.jsonl"
    file.write_text("".join(lines), "utf-8")
    catalog = Catalog.load(file)
    apply(Proposal(catalog=catalog, additions=(Addition(tool="b", kind="example", text="y"),)), file)
    written = file.read_text("utf-8").splitlines(keepends=True)
    assert written[0] == lines[0]
    assert [e.message for e in Catalog.load(file)["b"].examples] == ["x", "y"]


# --- the gate ---------------------------------------------------------------------------------------


def test_the_gate_refuses_what_makes_the_router_worse(booking: Catalog, booking_dev: Cases) -> None:
    """Wrong labels are refused with the reason in figures, their own messages not counting."""
    cases = [case for case in booking_dev if len(case.expected_tools) == 1]
    wrong = {case.expected_tools[0]: booking.ids[(n * 7 + 3) % len(booking)] for n, case in enumerate(cases)}
    planted = tuple(
        Addition(
            tool=wrong[case.expected_tools[0]], kind="example", text=case.message, language=case.language
        )
        for case in cases[::2]
    )
    verdict = gate(Proposal(catalog=booking, additions=planted), cases, n_rotations=1)
    assert not verdict.accepted
    assert verdict.change < -0.01
    assert verdict.n_leaked >= len(planted)
    assert "tool_accuracy may fall by" in verdict.reasons[0]
    assert "cases gained" in str(verdict)
    assert json.dumps(verdict.to_dict())


def test_the_gate_accepts_what_makes_it_better(booking: Catalog, booking_dev: Cases) -> None:
    """A catalog without examples gains from right ones."""
    bare = booking.with_examples(limit=0)
    added = tuple(
        Addition(tool=tool.id, kind="example", text=e.message, language=e.language or "")
        for tool in booking
        for e in tool.examples
    )
    proposal = Proposal(catalog=bare, additions=added)
    verdict = gate(proposal, booking_dev, router=Router(bare, encoder=LightEncoder()), n_rotations=1)
    assert verdict.accepted == (not verdict.reasons)
    assert verdict.comparison is not None
    assert verdict.after == pytest.approx(verdict.before + verdict.change)
    assert verdict.accepted, str(verdict)


def test_the_held_cases_take_turns_and_looks_are_counted(booking: Catalog, booking_dev: Cases) -> None:
    """Two turns hold different groups; the journal remembers how often each was used."""
    proposal = Proposal(catalog=booking, additions=ADDED)
    router = Router(booking)
    with Journal("mem://") as journal:
        seen = [gate(proposal, booking_dev[:60], router=router, journal=journal) for _ in range(3)]
    assert [(v.rotation, v.looks) for v in seen] == [(0, 0), (1, 0), (0, 1)]
    groups = [{case.group for case in booking_dev[:60] if case.id in _ids(v)} for v in seen[:2]]
    assert not groups[0] & groups[1]
    assert seen[0].n + seen[1].n == 60


def _ids(verdict: Any) -> set[str]:
    comparison = verdict.comparison
    return {*comparison.gained, *comparison.lost}


def test_an_empty_proposal_and_strangers_are_refused(booking: Catalog, catalog: Catalog) -> None:
    """Nothing proposed is nothing accepted; a router over another catalog is an error."""
    case = Case(id="1", message="how much is a haircut", expected_tools=("services.price",))
    verdict = gate(Proposal(catalog=booking), [case], n_rotations=1)
    assert verdict.reasons == ("nothing is proposed",)
    with pytest.raises(ValueError, match="the router is over another catalog"):
        gate(Proposal(catalog=booking), [case], router=Router(catalog))
    with pytest.raises(ValueError, match="needs held cases, none is left"):
        gate(Proposal(catalog=booking), [])
    encoded = Router(catalog, encoder=LightEncoder())
    assert over(encoded, catalog).encoder is not encoded.encoder
    own = Router(catalog, retriever=encoded.retriever)
    with pytest.raises(ValueError, match="has a retriever of its own"):
        over(own, catalog)


@given(better=st.integers(0, 40), worse=st.integers(0, 40), same=st.integers(1, 400))
def test_the_bound_lies_below_the_change(better: int, worse: int, same: int) -> None:
    """More cases raise it, one more loss lowers it."""
    n = better + worse + same
    low = paired_lower_bound(better, worse, n)
    assert -1 <= low <= (better - worse) / n
    assert paired_lower_bound(better, worse + 1, n + 1) <= low + 1e-9
    if better >= worse:
        assert paired_lower_bound(2 * better, 2 * worse, 2 * n) >= low - 1e-9


def test_the_bound_covers_as_often_as_it_says() -> None:
    """Over seeded draws the true change lies above it about 95 times in a hundred."""
    rng = np.random.default_rng(5)
    for n, up, down in ((300, 0.05, 0.04), (150, 0.03, 0.03), (400, 0.04, 0.01)):
        drawn = rng.multinomial(n, [up, down, 1 - up - down], size=2000)
        covered = np.mean([paired_lower_bound(b, c, n) <= up - down for b, c, _ in drawn])
        assert 0.925 <= covered <= 0.985


# --- commands ---------------------------------------------------------------------------------------


def test_the_commands_walk_the_loop(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """analyze, propose, apply and take back, on a folder whose config names its journal."""
    monkeypatch.chdir(folder.parent)
    config = folder / "config.yml"
    config.write_text(config.read_text("utf-8") + "journal: surrealkv://log\n", "utf-8")
    router = Router(Catalog.load(folder))
    with Journal(f"surrealkv://{folder / 'log'}") as journal:
        request = journal.record(router.route("I would like a quiet corner"), session_id="s")
        journal.feedback(request, "down")
        good = journal.record(router.route("what does a manicure cost these days"), session_id="t")
        journal.feedback(good, "up")
        journal.flush()
        expected = journal.cases()[0].expected_tools
    assert main(["analyze", "booking", "--window", "0.001", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [f["kind"] for f in printed["findings"] if f["kind"] == "thumbs_down"] == ["thumbs_down"]
    assert main(["analyze", "booking", "--window", "0.001", "--since", "6h"]) == 0
    assert "0 decisions read" in capsys.readouterr().out
    code = main(["propose", "booking", "--encoder", "none", "--split", "dev"])
    out = capsys.readouterr().out
    assert "disliked, right tool unknown: 'I would like a quiet corner'" in out
    assert "proposal.json" in out
    before = (folder / "catalog.yaml").read_text("utf-8")
    if code == 1:
        assert main(["apply", "booking", "proposal.json"]) == 1
        assert "not applied" in capsys.readouterr().err
    assert len(expected) == 1
    assert main(["apply", "booking", "proposal.json", "--force"]) == 0
    assert (folder / "catalog.yaml").read_text("utf-8") != before
    assert main(["apply", "booking", "proposal.json", "--force"]) == 2
    assert main(["apply", "booking", "proposal.json", "--undo"]) == 0
    assert (folder / "catalog.yaml").read_text("utf-8") == before
    assert main(["apply", "booking", "proposal.json", "--undo"]) == 2
    capsys.readouterr()
    assert main(["analyze", "tests", "--since", "6 hours"]) == 2
    assert "expected a span such as 6h" in capsys.readouterr().err
    assert main(["analyze", str(folder.parent)]) == 2
    assert "no journal (looked for a URL" in capsys.readouterr().err


def test_a_frozen_proposal_is_a_value(catalog: Catalog) -> None:
    """Its hash depends on the additions and the catalog alone."""
    proposal = Proposal(catalog=catalog, additions=ADDED[:1])
    assert proposal.hash == dataclasses.replace(proposal, unlabelled=()).hash
    assert proposal.hash != dataclasses.replace(proposal, additions=()).hash
