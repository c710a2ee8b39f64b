"""A model that answers from a script: for tests, documentation and notebooks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mono_router.records import ModelReply, ModelRequest, ToolCall, Usage

Script = ModelReply | str | Mapping[str, Any] | ToolCall | Exception


class ScriptedModel:
    """Answers in order, or by a rule.

    Parameters
    ----------
    answers
        An iterable of answers that are given in order, or a function from a request to an answer. An
        answer is a :class:`~mono_router.records.ModelReply`, text, a mapping (sent as JSON text), a
        :class:`~mono_router.records.ToolCall`, or an exception, which is raised.

    >>> model = ScriptedModel([{"candidates": ["a"]}])
    >>> request = ModelRequest(purpose="recall", system="", messages=())
    >>> model.complete(request).text, len(model.requests)
    ('{"candidates": ["a"]}', 1)
    """

    name = "scripted"

    def __init__(self, answers: Iterable[Script] | Callable[[ModelRequest], Script]) -> None:
        self._rule = answers if callable(answers) else None
        self._answers = iter(()) if callable(answers) else iter(answers)
        self.requests: list[ModelRequest] = []
        """Every request, in order."""
        self._lock = threading.Lock()

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next answer.

        Raises
        ------
        RuntimeError
            If the script has no answer left.
        """
        with self._lock:
            self.requests.append(request)
            answer = self._rule(request) if self._rule is not None else next(self._answers, None)
        if answer is None:
            raise RuntimeError(f"ScriptedModel has no answer for request {len(self.requests)}")
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ModelReply):
            return answer
        usage = Usage(model_calls=1)
        if isinstance(answer, ToolCall):
            return ModelReply(tool_calls=(answer,), usage=usage, stop_reason="tool_use")
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return ModelReply(text=text, usage=usage)
