"""Proposals: what findings say should stand in the manifests. Findings and a catalog in, additions out.

A message that was routed wrong becomes an example of the tool that finally worked, and so does the message
that it worked for; beside them stand messages that were just sure enough and that their users moved on
from. Tools grow evenly, a few examples a proposal: on public data the hard messages alone made routers
worse, since odd examples blur where no tool is right. A message that several sessions said becomes a hint;
two tools that are mixed up again and again get a boundary; a message that was disliked and whose tool
nobody knows is handed to a person. Nothing is ever taken away from a manifest.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mono_router.catalog import Catalog
from mono_router.journal.findings import Finding, Findings
from mono_router.records import Case, Example, Tool, digest, plain
from mono_router.text import normalize

AdditionKind = Literal["example", "hint", "boundary"]
MIN_WORKED = 0.8
"""P(the tool that finally worked is right) that an example needs; four of five such tools were, measured."""
MAX_EXAMPLES = 3
"""New examples a tool and a proposal, so that tools stay even."""
MAX_CHARS = 200
MIN_SESSIONS = 2
"""Sessions that must have said a message before it becomes a hint."""
MIN_MIXED = 3
"""Findings of one tool taken for another before a boundary tells them apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Addition:
    """One line that a manifest should get."""

    tool: str
    kind: AdditionKind
    text: str
    language: str = ""
    because: tuple[str, ...] = ()
    """Requests that it comes from."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Additions to a catalog."""

    catalog: Catalog
    """As it is."""
    additions: tuple[Addition, ...] = ()
    unlabelled: tuple[Finding, ...] = ()
    """Disliked messages whose right tool nobody knows: for a person."""

    def __len__(self) -> int:
        return len(self.additions)

    def __iter__(self) -> Iterator[Addition]:
        return iter(self.additions)

    def __repr__(self) -> str:
        plurals = {"example": "examples", "hint": "hints", "boundary": "boundaries"}
        counts = ", ".join(
            f"{sum(a.kind == kind for a in self.additions)} {name}" for kind, name in plurals.items()
        )
        return f"Proposal({counts}, {len(self.unlabelled)} unlabelled)"

    @property
    def after(self) -> Catalog:
        """The catalog with the additions."""
        mine: dict[str, list[Addition]] = {}
        for addition in self.additions:
            mine.setdefault(addition.tool, []).append(addition)
        tools: list[Tool] = []
        for tool in self.catalog:
            own = mine.get(tool.id, [])
            examples = [
                Example(message=a.text, language=a.language or None) for a in own if a.kind == "example"
            ]
            tools.append(
                dataclasses.replace(
                    tool,
                    examples=(*tool.examples, *examples),
                    hints=(*tool.hints, *(a.text for a in own if a.kind == "hint")),
                    boundaries=(*tool.boundaries, *(a.text for a in own if a.kind == "boundary")),
                )
                if own
                else tool
            )
        return Catalog(tools, self.catalog.skills.values(), variants=self.catalog.variants)

    @property
    def hash(self) -> str:
        """Hash of the catalog that it is for and of the additions."""
        return digest({"catalog": self.catalog.hash, "additions": self.additions})

    def where(self, kinds: Iterable[AdditionKind]) -> Proposal:
        """Return the proposal with these kinds of additions alone."""
        wanted = set(kinds)
        kept = tuple(a for a in self.additions if a.kind in wanted)
        return dataclasses.replace(self, additions=kept)

    def to_dict(self) -> dict[str, Any]:
        """Return the proposal as plain data, without the catalog but with its hash."""
        return {
            "schema": 1,
            "catalog_hash": self.catalog.hash,
            "additions": plain(self.additions),
            "unlabelled": plain(self.unlabelled),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], catalog: Catalog) -> Proposal:
        """Return the proposal that :meth:`to_dict` wrote down, for the same catalog.

        Raises
        ------
        ValueError
            If it is for another catalog, or of a later version.
        """
        if record.get("schema", 0) > 1:
            raise ValueError(f"proposal has schema {record['schema']}, this version reads up to 1")
        if record["catalog_hash"] != catalog.hash:
            raise ValueError("the proposal is for another catalog: the manifests changed since, propose anew")
        return cls(
            catalog=catalog,
            additions=tuple(Addition(**{**a, "because": tuple(a["because"])}) for a in record["additions"]),
            unlabelled=tuple(Finding(**f) for f in record["unlabelled"]),
        )

    def diff(self, path: str | Path) -> str:
        """Return what would change in the manifests at a path, as a unified diff."""
        from mono_router.journal.manifests import edited, unified

        return unified(edited(self, Path(path)))


def propose(
    findings: Findings,
    catalog: Catalog,
    *,
    confirmed: Iterable[Case] = (),
    min_worked: float = MIN_WORKED,
    max_examples: int = MAX_EXAMPLES,
) -> Proposal:
    """Return what the findings say should stand in the manifests.

    Parameters
    ----------
    findings
        From :func:`~mono_router.analyze`.
    catalog
        The catalog as it is.
    confirmed
        Further cases whose tool is known, as from ``journal.cases()``: a thumbs up, or a label of yours.
    min_worked
        Least probability of the tool that finally worked.
    max_examples
        Most new examples a tool.

    Raises
    ------
    ValueError
        If ``min_worked`` is no probability.

    >>> found = Finding(kind="re_asked", request="r1", score=0.9, message="bin day?", tool="a", worked="b",
    ...                 worked_score=0.95, worked_message="when is the rubbish collected", language="en")
    >>> catalog = Catalog([Tool(id="a", description="A"), Tool(id="b", description="B")])
    >>> [a.text for a in propose(Findings((found,)), catalog)]
    ['bin day?', 'when is the rubbish collected']
    """
    if not 0 <= min_worked <= 1:
        raise ValueError(f"min_worked must be in [0, 1], got {min_worked}")
    misroutes = findings.misroutes()
    wanted: dict[tuple[str, str], Addition] = {}
    sessions: dict[tuple[str, str], set[str]] = {}
    tools_of: dict[str, set[str]] = {}

    def add(tool: str, message: str, language: str, request: str, session: str) -> None:
        text = " ".join(message.split())
        key = (tool, normalize(text))
        if not _usable(text, key[1]) or tool not in catalog:
            return
        tools_of.setdefault(key[1], set()).add(tool)
        sessions.setdefault(key, set()).add(session)
        known = wanted.get(key)
        because = (*(known.because if known else ()), request)
        wanted[key] = Addition(
            tool=tool, kind="example", text=known.text if known else text, language=language, because=because
        )

    for row in misroutes.values():
        if row.worked and row.worked_score >= min_worked:
            # The last try needs the tool to be right, the first one also that both were one wish.
            if row.score * row.worked_score >= min_worked:
                add(row.worked, row.message, row.language, row.request, row.session)
            add(row.worked, row.worked_message, row.language, row.request, row.session)
    for case in confirmed:
        if len(case.expected_tools) == 1:
            add(case.expected_tools[0], case.message, case.language, case.id, case.group)
    for row in findings.helped:
        add(row.worked, row.message, row.language, row.request, row.session)
    known = {(tool.id, normalize(e.message)) for tool in catalog for e in tool.examples}
    hinted = {(tool.id, normalize(hint)) for tool in catalog for hint in tool.hints}
    additions: list[Addition] = []
    counts: dict[str, int] = {}
    for key, addition in wanted.items():
        if len(tools_of[key[1]]) > 1:  # said for two tools: it teaches neither
            continue
        said_often = len(sessions[key]) >= MIN_SESSIONS and len(key[1].split()) <= 6
        if said_often and key not in hinted:
            additions.append(dataclasses.replace(addition, kind="hint"))
        elif key not in known and counts.get(addition.tool, 0) < max_examples:
            counts[addition.tool] = counts.get(addition.tool, 0) + 1
            additions.append(addition)
    additions.extend(_boundaries(misroutes.values(), catalog))
    unlabelled = tuple(
        row for row in misroutes.values() if row.kind == "thumbs_down" and row.message and not row.worked
    )
    return Proposal(catalog=catalog, additions=tuple(additions), unlabelled=unlabelled)


def _usable(text: str, normal: str) -> bool:
    """Whether a message may stand in a manifest: short, with words, and with nothing redacted in it."""
    return len(normal) >= 2 and len(text) <= MAX_CHARS and "[" not in text and "…" not in text


def _boundaries(rows: Iterable[Finding], catalog: Catalog) -> Iterator[Addition]:
    """Tools that are taken for another again and again."""
    mixed: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.worked and row.tool in catalog and row.worked in catalog and row.worked_score >= MIN_WORKED:
            mixed.setdefault((row.tool, row.worked), []).append(row.request)
    for (tool, other), requests in sorted(mixed.items()):
        name = catalog[other].title or catalog[other].description or other
        text = f"not for: {name[0].lower() + name[1:]}"[:MAX_CHARS]
        if len(requests) >= MIN_MIXED and text not in catalog[tool].boundaries:
            yield Addition(tool=tool, kind="boundary", text=text, because=tuple(requests))


def save_proposal(proposal: Proposal, path: str | Path, **beside: Any) -> None:
    """Write a proposal as JSON, with what is to stand beside it."""
    text = json.dumps({**proposal.to_dict(), **beside}, ensure_ascii=False, indent=1)
    Path(path).write_text(text + "\n", encoding="utf-8")
