"""A simulated router LLM: a seeded stand-in that knows the labels and errs like a model under load.

It is no model and says so in its name: what it shows is simulated. Its accuracy falls with the number
of tools that it is shown and with how much the wrong ones resemble the right one, so that recall calls,
limits and distraction can be studied without a key. The same seed, case and candidates always give the
same answer, whatever ran before; asked again (``repeat``), it draws anew.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from typing import Any

from mono_router.catalog import NO_TOOL, wire_name
from mono_router.prompting import message_of
from mono_router.records import Case, ModelReply, ModelRequest, ToolCall, Usage, canonical_json
from mono_router.text import words


class SimulatedModel:
    """Answers recall and selection requests about known cases.

    Parameters
    ----------
    cases
        Labelled cases; a message that is in none is answered with no tool.
    seed
        Seed of all draws.
    accuracy
        Chance of a right choice between one tool and no tool, in (0, 1].
    per_doubling
        Loss of accuracy for each doubling of the number of tools, >= 0.
    per_likeness
        Further loss at full likeness of the nearest wrong tool, >= 0.

    Notes
    -----
    p(right) = accuracy - per_doubling * log2(n) - per_likeness * likeness, at least 0.05, where
    likeness is the largest Jaccard index of words between the right tool's text and a wrong one's. The
    defaults are guesses, not measurements of any model.
    """

    simulated = True

    def __init__(
        self,
        cases: Iterable[Case],
        *,
        seed: int = 0,
        accuracy: float = 0.98,
        per_doubling: float = 0.02,
        per_likeness: float = 0.25,
    ) -> None:
        if not 0 < accuracy <= 1:
            raise ValueError(f"accuracy must be in (0, 1], got {accuracy}")
        if per_doubling < 0 or per_likeness < 0:
            raise ValueError("per_doubling and per_likeness must be >= 0")
        self._cases = {case.message: case for case in cases}
        self._seed = seed
        self._accuracy = accuracy
        self._per_doubling = per_doubling
        self._per_likeness = per_likeness

    @property
    def name(self) -> str:
        """ "simulated" with everything that shapes its answers."""
        return (
            f"simulated(seed={self._seed}, accuracy={self._accuracy}, per_doubling={self._per_doubling}, "
            f"per_likeness={self._per_likeness})"
        )

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the simulated answer to a recall or selection request."""
        case = self._cases.get(message_of(request))
        calls: tuple[ToolCall, ...] = ()
        if request.purpose == "recall":
            text = self._recall(request, case)
        elif request.purpose == "selection":
            text, calls = "", (self._select(request, case),)
        else:
            text = "This reply is simulated; no model was asked."
        sent = request.system + canonical_json([request.messages, request.tools])
        answered = text or canonical_json(calls)
        usage = Usage(
            model_calls=1,
            input_tokens=math.ceil(len(sent.encode("utf-8", "replace")) / 4),
            output_tokens=math.ceil(len(answered.encode("utf-8", "replace")) / 4),
        )
        return ModelReply(text=text, tool_calls=calls, usage=usage, stop_reason="end_turn")

    def _draws(self, case: Case | None, shown: Iterable[str], repeat: int) -> random.Random:
        again = [repeat] if repeat else []
        return random.Random(canonical_json([self._seed, case.id if case else None, sorted(shown), *again]))

    def _p_right(self, right: str, texts: dict[str, str]) -> float:
        likeness = max(
            (_jaccard(texts[right], text) for name, text in texts.items() if name != right), default=0.0
        )
        loss = self._per_doubling * math.log2(len(texts)) + self._per_likeness * likeness
        return max(0.05, self._accuracy - loss)

    def _recall(self, request: ModelRequest, case: Case | None) -> str:
        body = request.system.split("<catalog>\n", 1)[-1].rsplit("\n</catalog>", 1)[0]
        entries = [json.loads(line) for line in body.splitlines() if line]
        texts = {entry["id"]: _entry_text(entry) for entry in entries}
        draws = self._draws(case, texts, request.repeat)
        expected = [] if case is None else [tool for tool in case.expected_tools if tool in texts]
        found: list[str] = []
        for tool in expected:
            # A ranked list forgives more than a single choice: half of the misses stay in it, lower down.
            p_right = self._p_right(tool, texts)
            draw = draws.random()
            if draw < p_right:
                found.insert(0, tool)
            elif draw < p_right + (1 - p_right) / 2:
                found.append(tool)
        anchor = expected[0] if expected else None
        near = sorted(
            (name for name in texts if name not in expected),
            key=lambda name: (-_jaccard(texts[anchor], texts[name]) if anchor else draws.random(), name),
        )
        n_noise = draws.choice((1, 2, 3)) if expected else draws.choice((0, 0, 0, 1))
        late = [tool for tool in found if draws.random() > 0.9]
        ranked = [t for t in found if t not in late] + near[:n_noise] + late
        return json.dumps({"candidates": ranked}, ensure_ascii=False)

    def _select(self, request: ModelRequest, case: Case | None) -> ToolCall:
        texts = {tool.name: tool.description for tool in request.tools if tool.name != NO_TOOL}
        draws = self._draws(case, texts, request.repeat)
        names = {wire_name(tool): tool for tool in case.expected_tools} if case else {}
        right = next((name for name in names if name in texts), None)
        if right is None:
            # The right tool is not there: some models name a neighbour all the same.
            if texts and draws.random() > self._accuracy - self._per_doubling * math.log2(len(texts)) - 0.05:
                wrong = draws.choice(sorted(texts))
                return _call(request, wrong, {}, draws.uniform(0.4, 0.8), case)
            return ToolCall(name=NO_TOOL, arguments={"confidence": round(draws.uniform(0.7, 0.99), 3)})
        if draws.random() < self._p_right(right, texts):
            arguments = _known_arguments(request, right, case, names[right])
            return _call(request, right, arguments, draws.uniform(0.75, 0.99), case)
        others = sorted(name for name in texts if name != right)
        if not others or draws.random() < 0.3:
            return ToolCall(name=NO_TOOL, arguments={"confidence": round(draws.uniform(0.5, 0.9), 3)})
        likest = max(others, key=lambda name: (_jaccard(texts[right], texts[name]), name))
        return _call(request, likest, {}, draws.uniform(0.4, 0.9), case)


def _jaccard(one: str, two: str) -> float:
    first, second = set(words(one)), set(words(two))
    return len(first & second) / len(first | second) if first | second else 0.0


def _entry_text(entry: dict[str, Any]) -> str:
    return f"{entry.get('title', '')} {entry.get('description', '')}"


def _known_arguments(request: ModelRequest, name: str, case: Case | None, tool: str) -> dict[str, Any]:
    """The case's own arguments, as far as the shown schema declares them."""
    assert case is not None
    schema = next(t.schema for t in request.tools if t.name == name)
    declared = schema["properties"]["arguments"].get("properties", {})
    given = case.expected_arguments
    if given is None and case.expected_calls:
        given = next((call.arguments for call in case.expected_calls if call.tool == tool), {})
    return {key: value for key, value in (given or {}).items() if key in declared}


def _call(
    request: ModelRequest, name: str, arguments: dict[str, Any], confidence: float, case: Case | None
) -> ToolCall:
    modes = next(t.schema for t in request.tools if t.name == name)["properties"]["mode"]["enum"]
    wanted = case.expected_mode if case is not None else None
    mode = wanted if wanted in modes else modes[0]
    wrapped = {"mode": mode, "confidence": round(confidence, 3), "arguments": arguments}
    return ToolCall(name=name, arguments=wrapped)
