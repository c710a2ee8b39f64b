"""How evaluations and sweeps ask models: several times over, with patience, behind a progress bar."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from mono_router.evidence_table import EvidenceTable
from mono_router.models.gate import patience
from mono_router.models.recorded import Repeated
from mono_router.router import Router
from mono_router.selection import ModelSelector

PATIENCE_S = 600.0
"""How much longer one answer may wait for its turn while an API limits the rate: nobody waits for it."""


class Bar:
    """A progress bar that is advanced by calling it; without a drawn one nothing is shown."""

    def __init__(self, drawn: Any = None) -> None:
        self._drawn = drawn
        self._waiting = False

    def __call__(self, n: int) -> None:
        """Advance by ``n``."""
        if self._drawn is None:
            return
        if self._waiting:
            self._waiting = False
            self._drawn.set_postfix_str("", refresh=False)
        self._drawn.update(n)

    def wait(self, seconds: float) -> None:
        """Show that the API limits the rate and everyone waits."""
        if self._drawn is not None:
            self._waiting = True
            self._drawn.set_postfix_str(f"rate limited, waiting {seconds:.1f} s")


@contextmanager
def progress_bar(total: int, *, desc: str, unit: str, shown: bool) -> Iterator[Bar]:
    """Yield what advances a bar; nothing is drawn unless ``shown``."""
    if not shown:
        yield Bar()
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc=desc, unit=unit, leave=False) as drawn:
        yield Bar(drawn)


def repeated_askings(router: Router, table: EvidenceTable, n: int) -> Iterator[tuple[Router, EvidenceTable]]:
    """Yield the router and its evidence ``n`` times: after the first, no model has answered anything yet."""
    yield router, table
    for repeat in range(1, n):
        asking = copy.copy(router)
        if router.model is not None:
            asking.model = Repeated(router.model, repeat)
        if isinstance(router.selector, ModelSelector):
            model = Repeated(router.selector.model, repeat)
            asking.selector = ModelSelector(model, settings=router.selector.settings)
        yield asking, dataclasses.replace(table, recall_answers=[], answers=[])


@contextmanager
def patient(router: Router, bar: Bar) -> Iterator[None]:
    """Let the router's models wait out a rate limit, and the bar say for how long."""
    models = {id(m): m for m in (router.model, getattr(router.selector, "model", None)) if m is not None}
    with ExitStack() as stack:
        for model in models.values():
            stack.enter_context(patience(model, PATIENCE_S, on_wait=bar.wait))
        yield
