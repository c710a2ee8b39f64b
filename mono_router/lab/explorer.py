"""Explorer: a widget over a sweep, with a slider for each swept setting.

Metrics with intervals, a curve along the slider that moved last, and the cases that flip against a
reference follow the sliders. They only replay: no message is scored and no model is asked, and what was
shown once is kept. Markup comes from :mod:`mono_router.lab.panels`; this module computes and wires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mono_router.decision_table import UNRECORDED, Verdicts
from mono_router.lab.curves import SettingScale, held_combination, held_rows, setting_key
from mono_router.lab.intervals import Estimate, mean_interval
from mono_router.lab.metrics import COUNTS, case_columns
from mono_router.lab.panels import explorer_head, figures_html, flips_html
from mono_router.markup import Line, line_chart, value_text, wrap
from mono_router.records import OUTCOMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mono_router.lab.tuning import OperatingPoint, Sweep

METRICS = (
    "tool_accuracy",
    "top1_hit",
    "candidate_recall",
    "false_tool_rate",
    "missed_tool_rate",
    "recall_rate",
    "model_recall_calls",
    "model_calls",
)
"""Metrics shown, those of models only where a model takes part."""
_ON_CURVE = ("recall_rate", "false_tool_rate", "missed_tool_rate")


def explore(sweep: Sweep, *, reference: OperatingPoint | None = None) -> Explorer:
    """Return a widget in which metrics, curve and flipped cases follow a slider per swept setting.

    Parameters
    ----------
    sweep
        What to move over; nothing of it is scored again.
    reference
        Chosen point that flips are counted against; default: the best combination by tool_accuracy. The
        button in the widget takes the current setting for it.

    Raises
    ------
    ImportError
        If ipywidgets is not installed.
    ValueError
        If the point is none of the sweep's combinations.

    >>> from mono_router.catalog import Catalog
    >>> from mono_router.lab.tuning import sweep
    >>> from mono_router.records import Case, Tool
    >>> from mono_router.router import Router
    >>> cases = [Case(id="1", message="book a table", expected_tools=("a",))]
    >>> router = Router(Catalog([Tool(id="a", description="book a table")]))
    >>> explorer = explore(sweep(router, cases, {"selection.min_confidence": [0.0, 1.0]}))
    >>> explorer.sliders["selection.min_confidence"].value = "1.0"
    >>> explorer.figures["tool_accuracy"].value, [flip.case for flip in explorer.lost]
    (0.0, ['1'])
    """
    return Explorer(sweep, reference=reference)


@dataclass(frozen=True, kw_only=True)
class Flip:
    """A case that one of two settings gets right."""

    case: str
    message: str
    expected: str
    before: str
    """What the reference decides."""
    after: str
    """What the current setting decides."""


@dataclass(frozen=True)
class _Replayed:
    """One combination, replayed."""

    verdicts: Verdicts
    correct: NDArray[np.float64]
    """1 right, 0 wrong, NaN unrecorded (n_cases,)."""
    figures: Mapping[str, Estimate]


class Explorer:
    """Sliders over a sweep; :func:`explore` makes it, JupyterLab shows it.

    Attributes
    ----------
    sliders
        Setting name to its ``SelectionSlider`` over the values as JSON writes them; settings with one
        value have none.
    widget
        The whole, an ipywidgets box.
    """

    def __init__(self, sweep: Sweep, *, reference: OperatingPoint | None = None) -> None:
        try:
            import ipywidgets as widgets
        except ImportError as error:
            raise ImportError(
                "explore needs ipywidgets: pip install 'mono-router[notebooks]'", name="ipywidgets"
            ) from error
        self.sweep = sweep
        self._kept: dict[int, _Replayed] = {}
        self._place: dict[tuple[str, ...], int] = {
            self._key(c): i for i, c in reversed(list(enumerate(sweep.combinations)))
        }
        start = held_combination(sweep, reference)
        self.reference: int = self._place[self._key(start)]
        """Number of the combination that flips are counted against."""
        wide = widgets.Layout(width="640px")
        self.sliders: dict[str, Any] = {
            name: widgets.SelectionSlider(
                # Texts, because a slider cannot stand on None.
                options=[value_text(value) for value in values],
                index=[setting_key(value) for value in values].index(setting_key(start[name])),
                description=name,
                style={"description_width": f"{max(map(len, sweep.grid)) + 1}ch"},
                layout=wide,
            )
            for name, values in sweep.grid.items()
            if len(values) > 1
        }
        self._along = next(iter(self.sliders), "")
        self.panels: dict[str, Any] = {name: widgets.HTML() for name in ("head", "figures", "curve", "flips")}
        fixed = {name: values[0] for name, values in sweep.grid.items() if len(values) == 1}
        groups = len(set(sweep.labels.groups.tolist()))
        self.panels["head"].value = explorer_head(
            len(sweep), len(sweep.labels.cases), groups, fixed, sweep.router.simulated
        )
        self.button = widgets.Button(
            description="Use as reference", tooltip="Count flips against the current setting"
        )
        self.button.on_click(self._take_reference)
        for name, slider in self.sliders.items():
            slider.observe(lambda change, name=name: self._moved(name), names="index")
        controls = widgets.VBox([*self.sliders.values(), self.button])
        beside = widgets.HBox(
            [self.panels["figures"], self.panels["curve"]], layout=widgets.Layout(flex_flow="row wrap")
        )
        self.widget = widgets.VBox([self.panels["head"], controls, beside, self.panels["flips"]])
        self._show()

    def __repr__(self) -> str:
        return f"Explorer({len(self.sweep)} settings, at {value_text(self.combination)})"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    # --- what is shown ------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """Number of the current combination in the sweep."""
        return self._place[self._key(self.combination)]

    @property
    def combination(self) -> Mapping[str, Any]:
        """Current value of every swept setting."""
        return {
            name: values[self.sliders[name].index] if name in self.sliders else values[0]
            for name, values in self.sweep.grid.items()
        }

    @property
    def figures(self) -> Mapping[str, Estimate]:
        """Metrics of the current combination, with intervals."""
        return self._replayed(self.number).figures

    @property
    def gained(self) -> tuple[Flip, ...]:
        """Cases that the current combination gets right and the reference wrong."""
        return self._flips(1.0)

    @property
    def lost(self) -> tuple[Flip, ...]:
        """Cases that the reference gets right and the current combination wrong."""
        return self._flips(0.0)

    def move(self, changes: Mapping[str, Any]) -> None:
        """Move sliders to values of their settings.

        Raises
        ------
        ValueError
            If a setting has no slider, or a value was not swept.
        """
        for name, value in changes.items():
            if name not in self.sliders:
                raise ValueError(f"setting must be one of {', '.join(self.sliders)}, got {name!r}")
            known = [setting_key(one) for one in self.sweep.grid[name]]
            if setting_key(value) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
            self.sliders[name].index = known.index(setting_key(value))

    # --- wiring -------------------------------------------------------------------------------

    def _key(self, combination: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(setting_key(combination[name]) for name in self.sweep.grid)

    def _moved(self, name: str) -> None:
        self._along = name
        self._show()

    def _take_reference(self, _button: Any) -> None:
        self.reference = self.number
        self._show()

    def _show(self) -> None:
        now, before = self._replayed(self.number), self._replayed(self.reference)
        self.panels["figures"].value = figures_html(now.figures, before.figures)
        self.panels["curve"].value = self._curve()
        unknown = int((np.isnan(now.correct) | np.isnan(before.correct)).sum())
        reference = self.sweep.combinations[self.reference]
        self.panels["flips"].value = flips_html(reference, self.gained, self.lost, unknown)

    def _curve(self) -> str:
        """The metrics along the slider that moved last, the others where they stand."""
        if not self._along:
            return ""
        rows = held_rows(self.sweep, self.combination, free=(self._along,))
        scale = SettingScale([self.sweep.combinations[i][self._along] for i in rows])
        rows = [rows[i] for i in scale.order]
        frame, lines = self.sweep.frame.iloc[rows], []
        for name in self._drawn:
            bounds = {}
            if f"{name}_low" in frame:
                bounds = {side: frame[f"{name}_{side}"].tolist() for side in ("low", "high")}
            lines.append(Line(name=name, values=frame[name].tolist(), **bounds))
        chart = line_chart(
            lines,
            places=scale.places.tolist(),
            ticks=[key[:14] for key in scale.keys],
            at=rows.index(self.number),
            joined=(len(rows) - scale.has_null) * scale.numeric,
            reach=self._reach,
            label=self._along,
        )
        return wrap(chart)

    @cached_property
    def _reach(self) -> tuple[float, float]:
        """Least and greatest value that a curve over this sweep can show."""
        bounds = [f"tool_accuracy_{side}" for side in ("low", "high")]
        values = self.sweep.frame[[*self._drawn, *bounds]].to_numpy(dtype=np.float64)
        return (
            (float(np.nanmin(values)), float(np.nanmax(values))) if np.isfinite(values).any() else (0.0, 1.0)
        )

    @cached_property
    def _drawn(self) -> tuple[str, ...]:
        """Tool accuracy, and the shares that differ somewhere in the sweep."""
        return ("tool_accuracy", *(m for m in _ON_CURVE if self.sweep.frame[m].nunique() > 1))

    # --- replay -------------------------------------------------------------------------------

    def _replayed(self, i: int) -> _Replayed:
        if i not in self._kept:
            sweep, verdicts = self.sweep, self.sweep.verdicts(i)
            columns = case_columns(verdicts, sweep.labels, arguments=False)
            frame = sweep.frame
            shown = [m for m in METRICS if not m.startswith("model_") or frame[m].any()]
            groups = sweep.labels.groups
            figures = {m: mean_interval(columns[m], groups, share=m not in COUNTS) for m in shown}
            self._kept[i] = _Replayed(verdicts, columns["tool_accuracy"], figures)
        return self._kept[i]

    def _flips(self, right: float) -> tuple[Flip, ...]:
        now, before = self._replayed(self.number), self._replayed(self.reference)
        flipped = (now.correct == right) & (before.correct == 1.0 - right)
        kept_id = self.sweep.router.catalog.kept_id
        found = []
        for row in np.flatnonzero(flipped).tolist():
            case = self.sweep.labels.cases[row]
            found.append(
                Flip(
                    case=case.id,
                    message=case.message,
                    expected=" + ".join(kept_id(tool) for tool in case.expected_tools) or "(no tool)",
                    before=_decided(before.verdicts, row),
                    after=_decided(now.verdicts, row),
                )
            )
        return tuple(found)


def _decided(verdicts: Verdicts, row: int) -> str:
    code = int(verdicts.outcome[row])
    if code == UNRECORDED:
        return "(unrecorded)"
    if OUTCOMES[code] == "ambiguous":
        return " / ".join(verdicts.table.ids[t] for t in verdicts.ranked[row, :2].tolist() if t >= 0)
    return " + ".join(verdicts.called(row)) or f"({OUTCOMES[code]})".replace("_", " ")
