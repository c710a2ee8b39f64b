"""Evaluation: a router and labelled cases in, a report out.

Cases are scored in batches, decided by the one decision code, and compared with their labels row by
row; every aggregate is derived from those rows, with n and a 95 % interval over groups. Evaluation is
teacher-forced (each case brings its own memory and time) and never reads the wall clock. A model may be
asked several times per case: the first asking is the evaluation, the others tell how far it repeats itself.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mono_router.decision import Verdict
from mono_router.decision_table import UNRECORDED, Verdicts
from mono_router.evidence_table import EvidenceTable
from mono_router.fusion import MISSED
from mono_router.lab.asking import patient, progress_bar, repeated_askings
from mono_router.lab.intervals import NOTHING, Estimate, mean_interval, resampled_interval
from mono_router.lab.metrics import (
    AGREEMENT,
    COUNTS,
    MEANS,
    WHOLE,
    Labels,
    agreement_columns,
    aurc,
    auroc,
    case_columns,
    ece,
    labels_of,
)
from mono_router.lab.provenance import provenance_of
from mono_router.lab.spreading import score_batches
from mono_router.records import OUTCOMES, Case, canonical_json, did_you_mean, fitted_on
from mono_router.router import Router
from mono_router.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

Offered = Literal["case", "catalog"]
N_WARM = 10
"""Routes before those that are timed."""
N_LATENCY = 100
"""Cases that are routed one by one to measure latency."""
_BOUNDED = {"brier", "schema_failures", "recall_rate", "model_recall_calls"} | {
    name for name, _ in MEANS[: [m for m, _ in MEANS].index("brier")]
}


def evaluate(
    router: Router,
    cases: Sequence[Case],
    *,
    offered: Offered = "case",
    jobs: int | None = None,
    repeats: int = 1,
    progress: bool | None = None,
    latency: bool = True,
) -> Report:
    """Return how a router does on labelled cases.

    Parameters
    ----------
    router
        With the settings to evaluate.
    cases
        From :func:`~mono_router.load_cases`.
    offered
        "case" restricts each case to its ``candidate_tools``, where it has them; "catalog" offers every
        tool, counts ``acceptable_tools`` as right, and drops no-tool cases that have ``candidate_tools``
        (their label holds within those alone).
    jobs
        Processes that score the cases, where there are enough of them, and threads that ask a model;
        default 1. Inside ``joblib.parallel_config`` the default is the workers that it gives, so that
        ``with joblib.parallel_config(backend="dask"): evaluate(router, cases)`` scores on a cluster; the
        report is the same. Models are asked from this process: where a model's API limits the rate, all
        threads wait and go on with fewer at once; the bar says so, and no answer is lost unless it waits
        for more than ten minutes.
    repeats
        How often each case is asked, recall included. The first asking is the evaluation; with more, the
        report has ``agreement`` (share of cases in which all decide the same tools) and
        ``pairwise_agreement`` (share of pairs of askings that do), both 1.0 where nothing is asked of a
        model. What further askings spend is in no other metric.
    progress
        Whether to show a bar; default: where there are more than 500 cases or a model is asked.
    latency
        Whether to route a seeded sample of 100 cases one by one to measure latency.

    Raises
    ------
    ValueError
        If there are no cases, a case names an unknown tool, the selector was fitted on a case, or
        ``repeats`` is below 1.

    >>> from mono_router.catalog import Catalog
    >>> from mono_router.records import Tool
    >>> router = Router(Catalog([Tool(id="a", description="book a table")]))
    >>> report = evaluate(router, [Case(id="1", message="book a table", expected_tools=("a",))])
    >>> report.metric("top1_hit").value
    1.0
    """
    if repeats < 1:
        raise ValueError(f"repeats must be >= 1, got {repeats}")
    kept, n_dropped = offered_cases(cases, offered)
    check_unseen(router, kept)
    labels = labels_of(kept, router.catalog, offered)
    asks = router.model is not None or not router.selector_scores
    shown = progress if progress is not None else (asks and len(kept) > 20) or len(kept) > 500
    n_askings = repeats if asks else 1
    with progress_bar(len(kept) * n_askings, desc="evaluate", unit="case", shown=shown) as advance:
        # Latency first: afterwards the vectors of these messages would come from the cache.
        latencies = measure_latency(router, kept, offered) if latency and not asks else None
        table = score_cases(router, kept, offered, jobs=jobs)
        with patient(router, advance):
            askings = [
                asking.decide(evidence, jobs=jobs or 1, progress=advance if asks else None)
                for asking, evidence in repeated_askings(router, table, n_askings)
            ]
        if not asks:
            advance(len(kept))
    verdicts = askings[0]
    return Report(
        router=router,
        labels=labels,
        verdicts=verdicts,
        offered=offered,
        n_dropped=n_dropped,
        latencies=_model_latencies(verdicts) if asks else latencies,
        repeats=askings[1:] or [verdicts] * (repeats - 1),
    )


def offered_cases(cases: Iterable[Case], offered: str) -> tuple[list[Case], int]:
    """Return the cases that count for an offer, and how many were dropped."""
    if offered not in ("case", "catalog"):
        raise ValueError(f"offered must be 'case' or 'catalog', got {offered!r}")
    given = list(cases)
    if not given:
        raise ValueError("cases must hold at least one case")
    if offered == "case":
        return given, 0
    kept = [case for case in given if case.expected_tools or case.candidate_tools is None]
    return kept, len(given) - len(kept)


def encoders_of(router: Router) -> list[Any]:
    """Return the encoders of the router's retriever and of its selector's, each once."""
    retrievers = (router.retriever, getattr(router.selector, "retriever", None))
    found = {id(encoder): encoder for r in retrievers if (encoder := getattr(r, "encoder", None)) is not None}
    return [*found.values()]


def check_unseen(router: Router, cases: Sequence[Case]) -> None:
    """Raise ValueError if something in the router was fitted on one of the cases."""
    for part in (router.selector, router.calibrator, *encoders_of(router)):
        seen = fitted_on(part)
        clash = next((case.id for case in cases if case.id in seen), None)
        if clash is not None:
            raise ValueError(f"{type(part).__name__} was fitted on case {clash}: evaluate on other cases")


def score_cases(
    router: Router,
    cases: Sequence[Case],
    offered: str = "case",
    widest: Sequence[Settings] = (),
    include: Sequence[Sequence[str]] | None = None,
    *,
    jobs: int | None = None,
) -> EvidenceTable:
    """Return the evidence on cases, scored in batches so that memory stays bounded by what is kept."""
    queries = [case.query for case in cases]
    within = [case.candidate_tools if offered == "case" else None for case in cases]
    parts = score_batches(router, queries, within, widest=widest, include=include, jobs=jobs)
    return parts[0] if len(parts) == 1 else joined_tables(parts)


def joined_tables(parts: Sequence[EvidenceTable]) -> EvidenceTable:
    """Return the evidence of several tables over one catalog as one, in order."""
    width = max(part.union.shape[1] for part in parts)
    fills = {"union": -1, "lexical": 0.0, "lexical_rank": MISSED, "embedding_rank": MISSED}
    values: dict[str, Any] = {}
    for item in dataclasses.fields(EvidenceTable):
        found = [getattr(part, item.name) for part in parts]
        first = found[0]
        if (
            isinstance(first, np.ndarray)
            and first.ndim == 2
            and item.name not in ("lexical_scale", "embedding_scale")
        ):
            fill = fills.get(item.name, -np.inf)
            values[item.name] = np.concatenate(
                [np.pad(a, ((0, 0), (0, width - a.shape[1])), constant_values=fill) for a in found]
            )
        elif isinstance(first, np.ndarray):
            values[item.name] = np.concatenate(found)
        elif isinstance(first, tuple) and item.name == "queries":
            values[item.name] = tuple(q for part in found for q in part)
        elif isinstance(first, list):
            values[item.name] = [entry for part in found for entry in part]
        else:
            values[item.name] = first
    return EvidenceTable(**values)


def measure_latency(
    router: Router, cases: Sequence[Case], offered: str, *, seed: int = 0
) -> NDArray[np.float64]:
    """Return the milliseconds of single routes over a seeded sample of cases.

    The first ones go twice and count once: what is loaded late is no part of a route.
    """
    picked = np.random.default_rng(seed).permutation(len(cases))[:N_LATENCY]
    found: list[float] = []
    for place, i in enumerate([*picked[:N_WARM].tolist(), *picked.tolist()]):
        started = time.perf_counter()
        router.trace(cases[i].query, within=cases[i].candidate_tools if offered == "case" else None)
        if place >= min(N_WARM, len(picked)):
            found.append((time.perf_counter() - started) * 1e3)
    return np.array(found)


def _model_latencies(verdicts: Verdicts) -> NDArray[np.float64] | None:
    """Milliseconds that models took per case; None where none was measured (scripted, simulated)."""
    found = np.array([verdicts.usage(i).latency_ms for i in range(len(verdicts))])
    return found if found.any() else None


class Report:
    """What a router did on labelled cases.

    Attributes
    ----------
    labels, verdicts
        The cases and what was decided.
    n_dropped
        Cases that the offer leaves out.
    repeats
        Verdicts of the further askings of the same cases.
    """

    def __init__(
        self,
        *,
        router: Router,
        labels: Labels,
        verdicts: Verdicts,
        offered: str,
        n_dropped: int,
        latencies: NDArray[np.float64] | None,
        repeats: Sequence[Verdicts] = (),
    ) -> None:
        self.router = router
        self.settings = router.settings
        self.labels = labels
        self.verdicts = verdicts
        self.offered = offered
        self.n_dropped = n_dropped
        self.latencies = latencies
        self.repeats = tuple(repeats)
        self.selected_on: str | None = None
        """Hash of the cases that its settings were chosen on, where they were chosen by ``pick``."""
        self.columns = case_columns(verdicts, labels)
        """Metric columns by name, float64 (n_cases,), NaN where a case does not count."""
        if self.repeats:
            self.columns |= agreement_columns((verdicts, *self.repeats))

    def __len__(self) -> int:
        return len(self.labels.cases)

    def __repr__(self) -> str:
        accuracy = self.metric("tool_accuracy")
        return f"Report({len(self)} cases, tool_accuracy {accuracy.value:.3f})"

    @property
    def cases(self) -> tuple[Case, ...]:
        """The evaluated cases, in order."""
        return self.labels.cases

    @property
    def n_unrecorded(self) -> int:
        """Cases that a recording could not answer."""
        return int((self.verdicts.outcome == UNRECORDED).sum())

    @property
    def n_without_candidates(self) -> int:
        """Cases for which no candidate was found or offered."""
        return int((self.verdicts.candidates < 0).all(axis=1).sum())

    def metric(self, name: str, mask: NDArray[np.bool_] | None = None) -> Estimate:
        """Return one metric with its interval; ``mask`` (n_cases,) restricts it to some cases.

        Raises
        ------
        ValueError
            If the metric is unknown.
        """
        groups = self.labels.groups if mask is None else self.labels.groups[mask]
        if name in WHOLE:
            return self._whole(name, mask)
        if name in ("latency_ms_p50", "latency_ms_p95"):
            return self._latency(0.5 if name.endswith("p50") else 0.95) if mask is None else NOTHING
        if name not in self.columns:
            hint = did_you_mean(name, self.metrics)
            rest = f"{';' if hint else ','} known: {', '.join(self.metrics)}"
            raise ValueError(f"unknown metric {name!r}{hint}{rest}")
        values = self.columns[name] if mask is None else self.columns[name][mask]
        return mean_interval(values, groups, share=name not in COUNTS)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of all metrics, in table order."""
        again = AGREEMENT if self.repeats else ()
        return (*(name for name, _ in (*MEANS, *again)), *WHOLE, "latency_ms_p50", "latency_ms_p95")

    def _whole(self, name: str, mask: NDArray[np.bool_] | None) -> Estimate:
        kept = self.verdicts.outcome != UNRECORDED
        if mask is not None:
            kept = kept & mask
        groups = self.labels.groups[kept]
        if name == "no_tool_auroc":
            scores, positive = self.verdicts.p_tool[kept], self.labels.wants_tool[kept]
            found = resampled_interval(lambda w: auroc(scores, positive, w), groups)
            return NOTHING if np.isnan(found.value) else found
        confidence, correct = self.verdicts.confidence[kept], self.columns["tool_accuracy"][kept]
        statistic = ece if name == "ece" else aurc
        return resampled_interval(lambda w: statistic(confidence, correct, w), groups)

    def _latency(self, quantile: float) -> Estimate:
        if self.latencies is None or not len(self.latencies):
            return NOTHING
        n = len(self.latencies)
        draws = np.random.default_rng(0).integers(0, n, size=(500, n))
        low, high = np.quantile(np.quantile(self.latencies[draws], quantile, axis=1), [0.025, 0.975])
        return Estimate(float(np.quantile(self.latencies, quantile)), float(low), float(high), n, n)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per case: labels, decision, evidence in short, and every metric column."""
        import pandas as pd

        verdicts, ids = self.verdicts, self.router.catalog.ids
        rows = []
        for i, case in enumerate(self.cases):
            code = int(verdicts.outcome[i])
            names = [ids[t] for t in verdicts.ranked[i].tolist() if t >= 0]
            called = verdicts.called(i)
            rows.append(
                {
                    "case": case.id,
                    "message": verdicts.table.queries[i].message,  # cleaned: no lone surrogates
                    "language": case.language,
                    "group": case.group,
                    "split": case.split,
                    "tags": case.tags,
                    "expected": tuple(self.router.catalog.kept_id(t) for t in case.expected_tools),
                    "outcome": "unrecorded" if code == UNRECORDED else OUTCOMES[code],
                    "tools": tuple(names[:2]) if code == OUTCOMES.index("ambiguous") else called,
                    "ranked": tuple(names),
                    "p_tool": float(verdicts.p_tool[i]),
                    "confidence": float(verdicts.confidence[i]),
                    "confident": bool(verdicts.confident[i]),
                    "recalled": bool(verdicts.recalled[i]),
                }
            )
        frame = pd.DataFrame(rows).set_index("case", drop=False)
        frame.index.name = None
        return pd.concat([frame, pd.DataFrame(self.columns, index=frame.index)], axis=1)

    def verdict(self, case_id: str) -> Verdict:
        """Return every stage's part in the decision on one case.

        Raises
        ------
        KeyError
            If there is no such case.
        """
        for i, case in enumerate(self.cases):
            if case.id == case_id:
                return self.verdicts.verdict(i)
        raise KeyError(f"unknown case {case_id!r}")

    def summary(self, metrics: Iterable[str] | None = None) -> pd.DataFrame:
        """Return one row per metric that applies to some case: value, low, high (95 %), n, n_groups.

        With unrecorded cases ``worst`` and ``best`` bound what the full set could give.
        """
        import pandas as pd

        rows = {}
        for name in metrics or self.metrics:
            found = self.metric(name)
            unknown = self.n_unrecorded if name in _BOUNDED else 0
            if found.n or unknown == len(self):
                rows[name] = dataclasses.asdict(found)
                if unknown:
                    right = found.value * found.n if found.n else 0.0
                    rows[name]["worst"] = right / (found.n + unknown)
                    rows[name]["best"] = (right + unknown) / (found.n + unknown)
        frame = pd.DataFrame.from_dict(rows, orient="index")
        frame.index.name = "metric"
        return frame

    def by(self, slice_: str, metrics: Sequence[str] = ("tool_accuracy", "top1_hit")) -> pd.DataFrame:
        """Return metrics per "language", "tag", "tool" (expected) or "mode" (expected), with intervals.

        Raises
        ------
        ValueError
            If the slice is unknown.
        """
        import pandas as pd

        values: dict[str, list[int]] = {}
        for i, case in enumerate(self.cases):
            for value in self._slice_values(case, slice_):
                values.setdefault(value, []).append(i)
        rows = []
        for value in sorted(values):
            mask = np.zeros(len(self), dtype=bool)
            mask[values[value]] = True
            for name in metrics:
                found = self.metric(name, mask)
                if found.n:
                    rows.append({slice_: value, "metric": name, **dataclasses.asdict(found)})
        columns = [slice_, "metric", "value", "low", "high", "n", "n_groups"]
        return pd.DataFrame(rows, columns=columns).set_index([slice_, "metric"])

    def _slice_values(self, case: Case, slice_: str) -> tuple[str, ...]:
        if slice_ == "language":
            return (case.language or "?",)
        if slice_ == "tag":
            return case.tags
        if slice_ == "tool":
            return case.expected_tools or ("(no tool)",)
        if slice_ == "mode":
            return (case.expected_mode,) if case.expected_mode else ()
        raise ValueError(f"slice must be language, tag, tool or mode, got {slice_!r}")

    @cached_property
    def provenance(self) -> Mapping[str, Any]:
        """What produced the report: hashes, names, versions, commit."""
        return provenance_of(self)

    def to_json(self) -> str:
        """Return canonical JSON of provenance, summary and rows; equal runs give equal bytes (no timings)."""
        names = [m for m in self.metrics if not m.startswith("latency")]
        summary = {name: dataclasses.asdict(self.metric(name)) for name in names}
        rows = self.frame.to_dict(orient="records")
        return canonical_json(_finite({"provenance": self.provenance, "summary": summary, "rows": rows}))

    def _repr_html_(self) -> str:
        from mono_router.html import report_html

        return report_html(self)


def _finite(value: Any) -> Any:
    """NaN as the text "nan": null would read as a missing figure, 0 as a measured one."""
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if np.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
