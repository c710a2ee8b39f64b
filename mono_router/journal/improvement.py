"""Improvement: a proposal goes into the manifests only if it makes the router better.

A proposal and held cases go in, a :class:`Verdict` comes out: the cases are routed before and after, case
by case, and the change must be above -0.01 at its one-sided 95 % lower bound, and above -0.03 in every
language. The held cases take turns, and how often each turn was looked at is counted, since cases that are
asked again and again end up fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mono_router.catalog import Catalog
from mono_router.embedding import LightEncoder
from mono_router.journal.bounds import paired_lower_bound
from mono_router.journal.database import JournalError
from mono_router.journal.manifests import Applied, apply, undo
from mono_router.journal.proposal import Proposal, propose
from mono_router.journal.store import Journal
from mono_router.lab.comparison import Comparison, compare
from mono_router.lab.evaluation import Report, evaluate
from mono_router.local import LocalSelector
from mono_router.records import Case, Selector, digest
from mono_router.router import Router
from mono_router.text import normalize

__all__ = ["Applied", "Proposal", "Verdict", "apply", "gate", "propose", "undo"]

MARGIN = 0.01
"""Share of cases that a proposal may cost, at the bound."""
LANGUAGE_MARGIN = 0.03
"""Share of a language's cases that it may cost."""
ROTATIONS = 2
WORN = 10
"""Looks at one turn of the held cases after which they should be replaced; a guess."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a proposal is accepted, and why."""

    accepted: bool
    reasons: tuple[str, ...]
    """Why it is refused, one line each; empty when it is accepted."""
    before: float
    """Tool accuracy on the held cases."""
    after: float
    change: float
    low: float
    """One-sided 95 % lower bound of the change."""
    by_language: Mapping[str, float] = field(default_factory=dict)
    """Change per language."""
    n: int = 0
    n_groups: int = 0
    n_leaked: int = 0
    """Held cases left out because the proposal holds their message."""
    rotation: int = 0
    """Which turn of the held cases was used."""
    looks: int = 0
    """How often this turn had been used before."""
    warnings: tuple[str, ...] = ()
    comparison: Comparison | None = None
    """The paired comparison, with the cases that flipped."""

    def __str__(self) -> str:
        said = "accepted" if self.accepted else "refused: " + "; ".join(self.reasons)
        return (
            f"{said} (tool_accuracy {self.before:.3f} -> {self.after:.3f}, change {self.change:+.4f}, "
            f"lower bound {self.low:+.4f}, n {self.n} in {self.n_groups} groups)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data, without the comparison."""
        names = (n for n in self.__dataclass_fields__ if n != "comparison")
        return {name: getattr(self, name) for name in names}


def gate(
    proposal: Proposal,
    cases: Sequence[Case],
    *,
    router: Router | None = None,
    journal: Journal | None = None,
    n_rotations: int = ROTATIONS,
) -> Verdict:
    """Return whether a proposal makes the router better, or at least not worse, on held cases.

    Parameters
    ----------
    proposal
        From :func:`~mono_router.propose`.
    cases
        Labelled cases that nothing in the proposal comes from.
    router
        Gives settings, encoder and model; its catalog is that of the proposal. Default: the local one.
    journal
        Counts how often the held cases were looked at, and whose turn it is.
    n_rotations
        Turns that the held cases are parted into, by group.

    Raises
    ------
    ValueError
        If the router is over another catalog or cannot be built anew, or no case is left.
    """
    router = router or Router(proposal.catalog)
    if router.catalog.hash != proposal.catalog.hash:
        raise ValueError("the router is over another catalog than the proposal is for")
    if n_rotations < 1:
        raise ValueError(f"n_rotations must be >= 1, got {n_rotations}")
    added = {normalize(a.text) for a in proposal.additions}
    held = [case for case in cases if normalize(case.message) not in added]
    looks, rotation = _turn(journal, cases, n_rotations)
    turn = [case for case in held if _place(case.group, n_rotations) == rotation]
    if not turn:
        raise ValueError("gate needs held cases, none is left")
    before = evaluate(router, turn, latency=False, progress=False)
    after = evaluate(over(router, proposal.after), turn, latency=False, progress=False)
    return _verdict(before, after, len(cases) - len(held), rotation, looks, proposal)


def _verdict(
    before: Report, after: Report, n_leaked: int, rotation: int, looks: int, proposal: Proposal
) -> Verdict:
    comparison = compare(before, after, others=())
    difference = after.columns["tool_accuracy"] - before.columns["tool_accuracy"]
    groups = before.labels.groups.astype(str)
    _, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes)
    means = np.bincount(codes, weights=difference) / sizes
    low = paired_lower_bound(float(means[means > 0].sum()), float(-means[means < 0].sum()), len(means))
    languages: dict[str, float] = {}
    for language in sorted({case.language for case in before.cases}):
        mask = np.array([case.language == language for case in before.cases])
        languages[language or "?"] = round(float(difference[mask].mean()), 6)
    change = float(difference.mean())
    reasons = []
    if not proposal.additions:
        reasons.append("nothing is proposed")
    elif low <= -MARGIN:
        few = " (too few held cases to tell)" if change >= -MARGIN else ""
        reasons.append(
            f"tool_accuracy may fall by {-low:.3f}: the lower bound {low:+.4f} of the change {change:+.4f} "
            f"is not above {-MARGIN}{few}; {len(comparison.gained)} cases gained, {len(comparison.lost)} lost"
        )
    for language, fall in languages.items():
        if fall < -LANGUAGE_MARGIN:
            reasons.append(f"language {language} falls by {-fall:.3f}, more than {LANGUAGE_MARGIN}")
    warnings = []
    if looks >= WORN:
        warnings.append(f"these held cases were looked at {looks} times before: replace them")
    return Verdict(
        accepted=not reasons,
        reasons=tuple(reasons),
        before=float(before.columns["tool_accuracy"].mean()),
        after=float(after.columns["tool_accuracy"].mean()),
        change=change,
        low=low,
        by_language=languages,
        n=len(difference),
        n_groups=len(means),
        n_leaked=n_leaked,
        rotation=rotation,
        looks=looks,
        warnings=tuple(warnings),
        comparison=comparison,
    )


def over(router: Router, catalog: Catalog) -> Router:
    """Return a router like this one over another catalog, as it would be built anew.

    Raises
    ------
    ValueError
        If it has a retriever or a fitted selector of its own, which belong to its catalog.
    """
    selector: Selector | None = router.selector
    if isinstance(selector, LocalSelector):
        if selector.fitted_on:
            raise ValueError(
                "the router's selector was fitted on cases: build the router over a catalog alone"
            )
        selector = None
    encoder: Any = router.encoder
    if encoder is None and router.retriever is not None:
        raise ValueError("the router has a retriever of its own: give it an encoder")
    if isinstance(encoder, LightEncoder):
        encoder = LightEncoder(dimensions=encoder.dimensions)  # it learns the new catalog's words
    return Router(
        catalog,
        settings=router.settings,
        encoder=encoder,
        model=router.model,
        selector=selector if router.model is None else None,
        calibrator=router.calibrator,
    )


def _place(group: str, n_rotations: int) -> int:
    return int(digest(group)[7:15], 16) % n_rotations


def _turn(journal: Journal | None, cases: Sequence[Case], n_rotations: int) -> tuple[int, int]:
    """How often the turn was used before, and which it is; counted in the journal where there is one."""
    if journal is None:
        return 0, 0
    name = f"gate {digest([case.id for case in cases])} {n_rotations}"
    try:
        text = journal.database.note(name)
        used = int(text) if text else 0
        journal.database.set_note(name, str(used + 1))
    except JournalError as error:
        raise ValueError(f"looks at the held cases cannot be counted: {error}") from None
    return used // n_rotations, used % n_rotations
