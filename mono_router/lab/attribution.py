"""Attribution: what a perfect stage would buy, found by deciding again with the stage replaced.

Perfect discovery: expected tools that are missing replace the lowest candidates, the limit unchanged, and
the selector decides among them. Perfect selection: the right tools in the right mode wherever the
candidates hold them; extraction then fills that tool. Perfect extraction: the right arguments. Perfect
execution: every right call succeeds. Each stage stands on the perfect ones before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mono_router.decision import decide_among
from mono_router.decision_table import UNRECORDED, verdicts_from
from mono_router.lab.evaluation import Report, score_cases
from mono_router.lab.intervals import mean_interval
from mono_router.lab.losses import Loss, is_well_made
from mono_router.lab.metrics import correctness, labels_of
from mono_router.records import Call, Decision

if TYPE_CHECKING:
    import pandas as pd


def attribution(report: Report, losses: Sequence[Loss]) -> pd.DataFrame:
    """Return what perfect stages would buy, one row per stage, cumulative in stage order.

    Columns: right (share of cases right with this stage and those before it perfect), gain over the row
    before, low, high (95 %, paired over groups), n, unrecorded (wrong cases of which a recording or a
    model cannot tell: not counted as gained here), at_most (the gain if all of those were). From the
    share that is right as it is, the gains add up to the last ``right``.
    """
    import pandas as pd

    lost = {loss.row: loss for loss in losses}
    known = report.verdicts.outcome != UNRECORDED
    base = np.array([row not in lost for row in range(len(report))], dtype=np.float64)
    fits = report.labels.n_expected <= report.settings.candidate_limit
    found, open_discovery = _perfect_discovery(report, lost, base)
    selected, open_selection = _perfect_selection(report, lost, found, fits)
    failed = np.array([row in lost and lost[row].stage == "execution" for row in range(len(report))])
    extracted = np.where(fits & ~failed, 1.0, selected)
    executed = np.where(fits, 1.0, extracted)
    steps = (
        ("discovery", found, open_discovery),
        ("selection", selected, open_selection),
        ("extraction", extracted, 0),
        ("execution", executed, 0),
    )
    rows, groups = [], report.labels.groups[known]
    for (_, before, _), (name, after, unrecorded) in itertools.pairwise((("as it is", base, 0), *steps)):
        gain = mean_interval((after - before)[known], groups)
        rows.append(
            {
                "stage": name,
                "right": float(after[known].mean()) if known.any() else float("nan"),
                "gain": gain.value,
                "low": gain.low,
                "high": gain.high,
                "n": gain.n,
                "unrecorded": unrecorded,
                "at_most": gain.value + unrecorded / max(1, gain.n),
            }
        )
    return pd.DataFrame(rows).set_index("stage")


def with_expected(candidates: Sequence[str], expected: Sequence[str], limit: int) -> list[str]:
    """Return candidates in which the expected tools that are missing replace the lowest others.

    >>> with_expected(["a", "b", "c"], ["c", "d"], 3), with_expected(["a"], ["b"], 3)
    (['a', 'c', 'd'], ['a', 'b'])
    """
    missing = [tool for tool in expected if tool not in candidates]
    kept = list(candidates)
    for tool in reversed(candidates):
        if len(kept) + len(missing) <= limit:
            break
        if tool not in expected:
            kept.remove(tool)
    return [*kept, *missing][:limit]


def perfect_shortlists(report: Report, rows: Sequence[int]) -> list[list[str]]:
    """Return the candidates of some cases behind a perfect discovery."""
    kept_id = report.router.catalog.kept_id
    found = []
    for row in rows:
        names = [candidate.tool for candidate in report.verdicts.verdict(row).candidates]
        expected = list(dict.fromkeys(kept_id(tool) for tool in report.cases[row].expected_tools))
        found.append(with_expected(names, expected, report.settings.candidate_limit))
    return found


def _perfect_discovery(
    report: Report, lost: dict[int, Loss], base: NDArray[np.float64]
) -> tuple[NDArray[np.float64], int]:
    rows = [row for row, loss in lost.items() if loss.stage == "discovery"]
    if not rows:
        return base, 0
    router, cases = report.router, [report.cases[row] for row in rows]
    shortlists = perfect_shortlists(report, rows)
    table = score_cases(router, cases, report.offered, include=shortlists)
    verdicts = []
    for place, row in enumerate(rows):
        old = report.verdicts.verdict(row)
        answers = report.verdicts.table.answers[row]
        table.answers[place].update(answers)
        evidence = table.row(place)
        verdicts.append(
            decide_among(old, shortlists[place], evidence, report.settings, router.tools, router.calibrator)
        )
    again = verdicts_from(verdicts, table, report.settings)
    right = correctness(again, labels_of(cases, router.catalog, report.offered))
    found, unrecorded = base.copy(), 0
    for place, row in enumerate(rows):
        decision = verdicts[place].decision
        if decision is None:
            unrecorded += 1
        elif right[place]:
            found[row] = float(is_well_made(report, row, decision))
    return found, unrecorded


def _perfect_selection(
    report: Report, lost: dict[int, Loss], found: NDArray[np.float64], fits: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], int]:
    """Right cases when the right tool is chosen too: what extraction then makes of it."""
    selected, unrecorded = found.copy(), 0
    for row in np.flatnonzero((found == 0) & fits).tolist():
        if report.verdicts.outcome[row] == UNRECORDED:
            continue
        loss = lost[row]
        if loss.stage in ("extraction", "execution"):
            continue  # the right tool was chosen: choosing it again changes nothing
        right = _right_tool(report, row)
        if right is None:
            unrecorded += 1
        else:
            selected[row] = float(right)
    return selected, unrecorded


def _right_tool(report: Report, row: int) -> bool | None:
    """Whether the right tool would also be filled rightly; None where only a model could tell."""
    case = report.cases[row]
    if len(case.expected_tools) != 1:
        return True  # labels give the arguments of single calls alone
    if case.expected_arguments is None and case.missing_arguments is None:
        return True
    fill = getattr(report.router.selector, "fill", None)
    if fill is None:
        return None
    tool = report.router.catalog[report.router.catalog.kept_id(case.expected_tools[0])]
    filled = fill(report.verdicts.table.queries[row], tool)
    decision = Decision(
        outcome="ask" if filled.missing else "call",
        mode=case.expected_mode or filled.mode,
        calls=(Call(tool=tool.id, arguments=filled.arguments),),
        missing=filled.missing,
    )
    return is_well_made(report, row, decision)
