"""Folds: what was fitted on the swept cases is fitted anew without the cases it is then tried on.

Groups are dealt to folds as a whole, so that no version of a case helps to decide another one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mono_router.decision import Verdict
from mono_router.decision_table import Verdicts
from mono_router.evidence_table import EvidenceTable
from mono_router.lab.calibration import Calibrator
from mono_router.lab.evaluation import Offered, encoders_of, evaluate, joined_tables
from mono_router.lab.intervals import group_codes
from mono_router.records import Case, Usage, fitted_on
from mono_router.router import Router


def fold_numbers(groups: NDArray[np.object_], n_folds: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Return the fold (n,) of each case: groups in seeded order, dealt in turn.

    Raises
    ------
    ValueError
        If there are fewer than two folds, or fewer groups than folds.

    >>> fold_numbers(np.array(["a", "a", "b", "c"], dtype=object), 2).tolist()
    [1, 1, 0, 0]
    """
    codes, n_groups = group_codes(groups)
    if not 2 <= n_folds <= n_groups:
        raise ValueError(f"cv must be from 2 to the {n_groups} groups of the cases, got {n_folds}")
    place = np.empty(n_groups, dtype=np.int64)
    place[np.random.default_rng(seed).permutation(n_groups)] = np.arange(n_groups)
    return place[codes] % n_folds


def fitted_without(router: Router, cases: Sequence[Case], held: Sequence[Case], offered: Offered) -> Router:
    """Return the router with what was fitted on the held cases' groups fitted without them.

    Parameters
    ----------
    router
        Whose calibrator, selector or encoder, with ``fitted_on``, may have seen the held cases.
    cases
        All that are known; the calibrator learns from those of them that it was fitted on.
    held
        The cases that the result is tried on.

    Raises
    ------
    ValueError
        If a part that saw held cases cannot be fitted without them.
    """
    groups = {case.group for case in held}
    ids = {case.id for case in cases if case.group in groups}
    selector, calibrator = router._given_selector, router.calibrator
    changed = False
    for encoder in encoders_of(router):
        if fitted_on(encoder) & ids:
            raise ValueError(f"cv cannot fit {type(encoder).__name__} anew: pretrain it without these cases")
    if fitted_on(selector) & ids:
        without = getattr(selector, "without", None)
        if without is None:
            raise ValueError(f"cv cannot fit {type(selector).__name__} anew: it has no without(groups)")
        selector, changed = without(groups), True
    learnt = fitted_on(calibrator)
    if learnt & ids:
        if not isinstance(calibrator, Calibrator):
            raise ValueError(f"cv cannot fit {type(calibrator).__name__} anew: it is no Calibrator")
        known = {case.id for case in cases}
        lost = next((id_ for id_ in sorted(learnt) if id_ not in known), None)
        if lost is not None:
            raise ValueError(f"cv cannot fit Calibrator anew: case {lost} of its fit is not swept")
        bare = router.with_parts(selector=selector, calibrator=None)
        rest = [case for case in cases if case.id in learnt and case.id not in ids]
        report = evaluate(bare, rest, offered=offered, latency=False, progress=False)
        calibrator, changed = calibrator.unfitted().fit(report), True
    return router.with_parts(selector=selector, calibrator=calibrator) if changed else router


@dataclass(kw_only=True)
class FoldedVerdicts(Verdicts):
    """Verdicts that were made fold by fold, in the order of the cases."""

    places: Sequence[tuple[Verdicts, int]]
    """For each case the verdicts of its fold, and its row in them."""

    def verdict(self, i: int) -> Verdict:
        """Return the verdict on message i, by the parts of its fold."""
        part, row = self.places[i]
        return part.verdict(row)

    def called(self, i: int) -> tuple[str, ...]:
        """Return the tools that the decision on message i calls or asks for."""
        part, row = self.places[i]
        return part.called(row)

    def usage(self, i: int) -> Usage:
        """Return what the models cost message i."""
        part, row = self.places[i]
        return part.usage(row)


def folded(parts: Sequence[tuple[NDArray[np.intp], Verdicts]]) -> Verdicts:
    """Return the verdicts of folds, each given with the places of its cases, in the order of the cases."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
    given = [(verdicts, row) for _, verdicts in parts for row in range(len(verdicts))]
    places = [given[i] for i in order.tolist()]
    values: dict[str, Any] = {}
    for item in dataclasses.fields(Verdicts):
        found = [getattr(verdicts, item.name) for _, verdicts in parts]
        if isinstance(found[0], np.ndarray):
            values[item.name] = np.concatenate(found)[order]
        elif item.name == "table":
            values[item.name] = _reordered(joined_tables(found), order)
        elif item.name == "decided":
            values[item.name] = (
                None if found[0] is None else [v.decided[row] for v, row in places if v.decided]
            )
        elif item.name == "joint":
            values[item.name] = {i: v.joint[row] for i, (v, row) in enumerate(places) if row in v.joint}
        else:
            values[item.name] = found[0]
    return FoldedVerdicts(places=places, **values)


def _reordered(table: EvidenceTable, order: NDArray[np.intp]) -> EvidenceTable:
    n = len(table)
    values: dict[str, Any] = {}
    for item in dataclasses.fields(EvidenceTable):
        value = getattr(table, item.name)
        if isinstance(value, np.ndarray):
            values[item.name] = value[order]
        elif isinstance(value, (list, tuple)) and len(value) == n:
            values[item.name] = type(value)(value[i] for i in order.tolist())
        else:
            values[item.name] = value
    return EvidenceTable(**values)
