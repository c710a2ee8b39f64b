"""Which execution mode a message asks for: a lexical head over sentences whose mode is known.

The catalog's examples speak for its tools (an example without a mode stands for "tool"), sentences of
our own for judgement and for jobs of many steps. A mode that a skill does not support is never chosen,
and a tool that writes never thinks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mono_router.catalog import Catalog
from mono_router.heads import LexicalHead, TrainingTexts
from mono_router.mode_sentences import AGENT, THINK
from mono_router.neutral import REQUESTS
from mono_router.records import MODES, Mode, Tool

PRIOR = {"tool": 0.55, "think": 0.25, "agent": 0.2}
"""Share of each mode that the logits are corrected to, however many sentences stand for it; chosen on dev
of assistant, where the true mix is near 65 / 25 / 10."""


def declares_modes(catalog: Catalog) -> bool:
    """Return whether a catalog says anything of modes; where it does not, the first mode is as good as any.

    >>> declares_modes(Catalog([Tool(id="a", description="A")]))
    False
    """
    return any(tool.modes != MODES or any(e.mode for e in tool.examples) for tool in catalog)


class ModeHead:
    """Scores execution modes.

    >>> catalog = Catalog([Tool(id="notes.list", description="List notes")])
    >>> head = ModeHead(catalog, str.lower)
    >>> head.mode("compare my notes on the two offers", catalog["notes.list"])
    'think'
    """

    def __init__(self, catalog: Catalog, prepare: Callable[[str], str]) -> None:
        said = [(e.message, MODES.index(e.mode or "tool")) for tool in catalog for e in tool.examples]
        said += [(sentence, 0) for row in REQUESTS for sentence in row]
        said += [(sentence, MODES.index("think")) for row in THINK for sentence in row]
        said += [(sentence, MODES.index("agent")) for row in AGENT for sentence in row]
        training = TrainingTexts(
            tuple(message for message, _ in said),
            np.array([place for _, place in said], dtype=np.int64),
            np.zeros(len(said), dtype=bool),
            np.zeros(len(said), dtype=np.int64),
            len(MODES),
        )
        self._head = LexicalHead(training, (), prepare, head=True)
        seen = np.bincount(training.tool, minlength=len(MODES)) / len(said)
        self._correction = np.log([PRIOR[mode] for mode in MODES]) - np.log(seen)

    def mode(self, message: str, tool: Tool) -> Mode:
        """Return the likeliest mode that a tool supports."""
        modes = [m for m in tool.modes if not (m == "think" and tool.effects == "write")] or list(tool.modes)
        if len(modes) == 1:
            return modes[0]
        logits = self._head.logits([message])[0][0][: len(MODES)] + self._correction
        return max(modes, key=lambda mode: float(logits[MODES.index(mode)]))
