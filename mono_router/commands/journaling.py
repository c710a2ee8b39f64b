"""Commands of the journal: analyze the log, propose what manifests should learn, apply it, take it back."""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mono_router.commands.options import Command, GateMissed, common, router_of

if TYPE_CHECKING:
    from mono_router.journal.findings import Findings
    from mono_router.journal.store import Journal

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def span(text: str) -> float:
    """Return the seconds of a span of time.

    >>> span("6h"), span("90s")
    (21600.0, 90.0)

    Raises
    ------
    ValueError
        If it is no number with a unit.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if not found or float(found[1]) <= 0:
        raise ValueError(f"expected a span such as 6h, 30m or 2d, got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def journal_at(place: str) -> str:
    """Return the URL of the journal at a place: a URL, a folder with a config.yml, or a store's own folder.

    Raises
    ------
    ValueError
        If there is no journal.
    """
    if "://" in place:
        return place
    from mono_router.documents import read_yaml
    from mono_router.runtime.config import journal_url

    folder = Path(place)
    config = folder / "config.yml"
    if config.is_file():
        document = read_yaml(config)
        url = document.value.get("journal") if isinstance(document.value, dict) else None
        if isinstance(url, str) and url:
            return journal_url(url, folder)
    if (folder / "manifest").is_dir():
        return f"surrealkv://{folder.resolve()}"
    raise ValueError(f"{place}: no journal (looked for a URL, journal: in config.yml, or a store)")


def _journal(place: str) -> Journal:
    from mono_router.journal.store import Journal

    return Journal(journal_at(place))


def _analyze(arguments: argparse.Namespace) -> None:
    from mono_router.journal.analysis import analyze

    every = None if arguments.every is None else span(arguments.every)
    since = None if arguments.since is None else span(arguments.since)
    while True:
        # Opened anew each time: between two runs the store is free for the process that writes.
        with _journal(arguments.journal) as journal:
            lower = None if since is None else time.time() - since
            findings = analyze(journal, lower, arguments.window, resume=True)
        _show_findings(findings, arguments.json)
        if every is None:
            return
        time.sleep(every)


def _show_findings(findings: Findings, as_json: bool) -> None:
    from mono_router.records import plain

    if as_json:
        record = {"decisions": findings.n_rows, "findings": plain(findings.rows)}
        print(json.dumps(record, ensure_ascii=False), flush=True)
        return
    print(f"{findings.n_rows} decisions read, {len(findings.misroutes())} held for wrong", flush=True)
    if len(findings):
        print(findings.summary().round(3).to_string(), flush=True)


def _propose(arguments: argparse.Namespace) -> None:
    from mono_router.journal.findings import load_findings
    from mono_router.journal.improvement import gate, propose
    from mono_router.journal.proposal import save_proposal
    from mono_router.journal.reader import since_key
    from mono_router.lab.cases import load_cases

    catalog, router = router_of(arguments)
    since = None if arguments.since is None else time.time() - span(arguments.since)
    with _journal(arguments.journal or arguments.dir) as journal:
        findings = load_findings(journal.database, after=since_key(since))
        proposal = propose(findings, catalog, confirmed=journal.cases(since))
        verdict = None
        if proposal.additions:
            cases = load_cases(arguments.cases or arguments.dir, split=arguments.split)
            verdict = gate(proposal, cases, router=router, journal=journal)
    diff = proposal.diff(arguments.dir) if proposal.additions else ""
    record = None if verdict is None else verdict.to_dict()
    save_proposal(proposal, arguments.out, verdict=record)
    if arguments.json:
        shown = {"proposal": proposal.to_dict(), "verdict": record, "diff": diff, "file": arguments.out}
        print(json.dumps(shown, ensure_ascii=False))
    else:
        print(diff, end="")
        for row in proposal.unlabelled:
            print(f"disliked, right tool unknown: {row.message!r} went to {row.tool or 'no tool'}")
        print(f"{proposal}, written to {arguments.out}")
        print("nothing to gate" if verdict is None else f"gate: {verdict}")
    if verdict is not None and not verdict.accepted:
        raise GateMissed("; ".join(verdict.reasons))


def _apply(arguments: argparse.Namespace) -> None:
    from mono_router.catalog import Catalog
    from mono_router.journal.improvement import Applied, apply, undo
    from mono_router.journal.proposal import Proposal

    file = Path(arguments.proposal)
    kept = file.with_suffix(".applied.json")
    if arguments.undo:
        if not kept.is_file():
            raise ValueError(f"{kept}: nothing was applied from {file}")
        applied = Applied.load(kept)
        undo(applied)
        kept.unlink()
        said: dict[str, Any] = {"undone": [edit.path for edit in applied.edits]}
    else:
        if kept.is_file():
            raise ValueError(f"{file} is applied already, take it back with --undo")
        record = _proposal_record(file)
        verdict = record.get("verdict")
        if not arguments.force and not (verdict and verdict["accepted"]):
            why = "; ".join(verdict["reasons"]) if verdict else "it was never gated"
            if not record.get("additions"):
                raise ValueError(f"{file}: proposes nothing")
            raise GateMissed(f"not applied: {why} (--force applies it all the same)")
        proposal = Proposal.from_dict(record, Catalog.load(arguments.dir))
        applied = apply(proposal, arguments.dir)
        applied.save(kept)
        said = {"applied": [edit.path for edit in applied.edits]}
    if arguments.json:
        print(json.dumps(said))
    else:
        for word, paths in said.items():
            print(f"{word}: {', '.join(paths) or 'nothing'}")


def _proposal_record(file: Path) -> dict[str, Any]:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        record = None
    if not isinstance(record, dict) or "additions" not in record:
        raise ValueError(f"{file}: no proposal, `mono-router propose` writes one")
    return record


def _analyze_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("journal", metavar="DIR|URL", help="folder with a journal, or its URL")
    parser.add_argument("--since", metavar="SPAN", help="only decisions of the last e.g. 6h")
    parser.add_argument("--every", metavar="SPAN", help="go on for ever, once every e.g. 6h")
    parser.add_argument(
        "--window", type=float, default=600.0, metavar="S", help="seconds in which a re-ask counts"
    )


def _propose_options(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("--journal", metavar="DIR|URL", help="the journal; default: that of DIR")
    parser.add_argument("--since", metavar="SPAN", help="only findings of the last e.g. 7d")
    parser.add_argument("--cases", metavar="PATH", help="held cases; default: those of DIR")
    parser.add_argument("--split", help="only held cases of this split")
    parser.add_argument("--out", default="proposal.json", metavar="FILE", help="where the proposal goes")


def _apply_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", help="folder with the catalog")
    parser.add_argument("proposal", metavar="PROPOSAL", help="file that propose wrote")
    parser.add_argument("--undo", action="store_true", help="take back what was applied from it")
    parser.add_argument("--force", action="store_true", help="apply what the gate refused")


COMMANDS = (
    Command(
        "analyze",
        _analyze,
        "find the decisions that did not help",
        "mono-router analyze surrealkv://decisions --since 6h",
        _analyze_options,
    ),
    Command(
        "propose",
        _propose,
        "turn findings into a diff of the manifests, and gate it on held cases",
        "mono-router propose datasets/booking --journal surrealkv://decisions",
        _propose_options,
    ),
    Command(
        "apply",
        _apply,
        "write a proposal into the manifests, or take it back",
        "mono-router apply datasets/booking proposal.json",
        _apply_options,
    ),
)
