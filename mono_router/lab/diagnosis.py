"""Diagnosis: which stage lost a case, why, and what a perfect stage would buy.

A report goes in. Each wrong case is lost at exactly one stage, the first that failed: discovery (a right
tool is not among the candidates), selection, extraction, execution. Stage counts add up to the wrong
cases. The rules stand in :mod:`mono_router.lab.losses`, what perfect stages would buy in
:mod:`mono_router.lab.attribution`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mono_router.decision_table import UNRECORDED
from mono_router.lab.advice import ADVICE, STAGES
from mono_router.lab.attribution import attribution
from mono_router.lab.confusion import Confusion, confusions
from mono_router.lab.evaluation import Report
from mono_router.lab.losses import Loss, discovery_causes, loss_of
from mono_router.records import Outcome

if TYPE_CHECKING:
    import pandas as pd


def diagnose(report: Report, *, executions: Mapping[str, Outcome] | None = None) -> Diagnosis:
    """Return where each wrong case of a report was lost.

    Parameters
    ----------
    executions
        Case id to what came of running its call, from the runtime; None = nothing was run.

    A case is wrong if its tools are; or, where a tool was called or asked for and its labels say so, its
    mode, its arguments or what was asked for; or if running it failed. Unrecorded cases are counted apart.

    Raises
    ------
    ValueError
        If ``executions`` names a case that the report does not have.

    >>> from mono_router.catalog import Catalog
    >>> from mono_router.lab.evaluation import evaluate
    >>> from mono_router.records import Case, Tool
    >>> from mono_router.router import Router
    >>> cases = [Case(id="1", message="book a table", expected_tools=())]
    >>> found = diagnose(evaluate(Router(Catalog([Tool(id="book", hints=("book a table",))])), cases))
    >>> [(loss.case.id, loss.stage, loss.cause) for loss in found.losses]
    [('1', 'selection', 'false_tool')]
    """
    runs = executions or {}
    unknown = sorted(set(runs) - {case.id for case in report.cases})
    if unknown:
        raise ValueError(f"executions must name cases of the report, got {unknown[0]!r}")
    losses = []
    for row, case in enumerate(report.cases):
        if report.verdicts.outcome[row] == UNRECORDED:
            continue
        loss = loss_of(report, row, report.verdicts.verdict(row), runs.get(case.id))
        if loss is not None:
            losses.append(loss)
    return Diagnosis(report, tuple(discovery_causes(report, losses)))


@dataclass(frozen=True)
class Diagnosis:
    """Where the wrong cases of a report were lost."""

    report: Report
    losses: tuple[Loss, ...]
    """One per wrong case, in the report's order."""

    def __len__(self) -> int:
        return len(self.losses)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per wrong case: case, message, language, stage, cause, detail, got, advice."""
        import pandas as pd

        columns = ["case", "message", "language", "stage", "cause", "detail", "got", "advice"]
        rows = [
            (x.case.id, x.case.message, x.case.language, x.stage, x.cause, x.detail, x.got, x.advice)
            for x in self.losses
        ]
        return pd.DataFrame(rows, columns=columns)

    def counts(self) -> pd.DataFrame:
        """Return one row per stage and cause: n, share of all cases, advice; n adds up to the wrong cases."""
        import pandas as pd

        found = Counter((x.stage, x.cause) for x in self.losses)
        order = sorted(found, key=lambda key: (STAGES.index(key[0]), -found[key], key[1]))
        rows = [(*key, found[key], found[key] / max(1, len(self.report)), ADVICE[key[1]]) for key in order]
        return pd.DataFrame(rows, columns=["stage", "cause", "n", "share", "advice"])

    def confusions(self, most: int = 15) -> tuple[Confusion, ...]:
        """Return the pairs of tools that are taken for each other, commonest first."""
        return tuple(pair for pair in confusions(self.report) if pair.between_tools)[:most]

    @cached_property
    def attribution(self) -> pd.DataFrame:
        """What perfect stages would buy, cumulative; see :func:`~mono_router.lab.attribution.attribution`."""
        return attribution(self.report, self.losses)

    def _repr_html_(self) -> str:
        from mono_router.lab.panels import diagnosis_html

        return diagnosis_html(self)


def stage_counts(diagnosis: Diagnosis) -> Mapping[str, int]:
    """Return how many wrong cases each stage lost, zeros included."""
    found: Counter[str] = Counter(loss.stage for loss in diagnosis.losses)
    return {stage: found[stage] for stage in STAGES}
