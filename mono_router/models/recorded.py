"""Record a model once, replay it for ever: one JSON line a request.

A line holds the hash of the canonical request, the request, the reply, the model's name, the prompt's
hash and the date. A request that differs in anything that a model sees (prompt, catalog, message,
model) has another hash, so an old line never answers it. The same request may have several replies, kept
apart by the number of its ``repeat``. Lines are appended whole and flushed to the disk before the reply
is handed on; a line cut short by a crash is skipped and counted.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from mono_router.models.gate import OnWait, nobody, patience
from mono_router.records import Model, ModelReply, ModelRequest, ToolCall, Usage, digest, plain

SCHEMA = 1


class NotRecorded(LookupError):
    """A replay met a request that no line answers."""

    def __init__(self, request: ModelRequest, path: Path) -> None:
        self.case = request.case
        self.purpose = request.purpose
        again = f" (repeat {request.repeat})" if request.repeat else ""
        super().__init__(f"{path}: no {request.purpose} reply recorded for case {request.case or '?'}{again}")


class RecordedModel:
    """Replays a recording; records what is missing where a model is given.

    Parameters
    ----------
    path
        The recording, JSON lines; created when first written.
    model
        Asked for what is not recorded; None = replay alone.
    name
        Model whose lines are replayed; default: the given model's, else the one name in the file.
    requests
        What new lines hold of a request: "whole", or "messages", which leaves the system text and the
        tools out: a fraction of the size, replayed just the same, for the hash is of the whole.

    Raises
    ------
    ValueError
        If the file holds lines of several models and none was named, or lines of a newer schema, or
        ``requests`` is neither of the two.
    """

    def __init__(
        self,
        path: str | Path,
        model: Model | None = None,
        *,
        name: str | None = None,
        requests: Literal["whole", "messages"] = "whole",
    ) -> None:
        if requests not in ("whole", "messages"):
            raise ValueError(f"requests must be 'whole' or 'messages', got {requests!r}")
        self.path = Path(path)
        self._left_out = ("system", "tools", "schema") if requests == "messages" else ()
        self._model = model
        self._lock = threading.Lock()
        self._lines: dict[str, dict[str, Any]] = {}
        self._used: set[str] = set()
        self._pending: dict[str, threading.Event] = {}
        self.n_broken = 0
        """Lines that could not be read, as a crash leaves one."""
        names = self._load()
        if name is None:
            name = model.name if model is not None else None
        if name is None:
            if len(names) > 1:
                raise ValueError(
                    f"{self.path} holds several models, name must be one of {', '.join(sorted(names))}"
                )
            name = next(iter(names), "nobody")
        self._name = name

    @property
    def name(self) -> str:
        """Name of the recorded model."""
        return self._name

    @property
    def simulated(self) -> bool:
        """Whether the recorded replies are simulated."""
        return self._name.startswith("simulated")

    def __len__(self) -> int:
        return len(self._lines)

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the recorded reply, or ask the model and record its reply.

        Raises
        ------
        NotRecorded
            If there is no line and no model.
        """
        key = self._key(request)
        while True:
            with self._lock:
                self._used.add(key)
                line = self._lines.get(key)
                if line is not None:
                    return _reply(line["reply"])
                if self._model is None:
                    raise NotRecorded(request, self.path)
                waiting = self._pending.get(key)
                if waiting is None:
                    self._pending[key] = threading.Event()
                    break
            waiting.wait()  # another thread asks the very same
        try:
            reply = self._model.complete(request)
            self._write(key, request, reply)
            return reply
        finally:
            with self._lock:
                self._pending.pop(key).set()

    def stale(self) -> list[dict[str, Any]]:
        """Return the lines that no request of this object matched, each with what tells it apart.

        After a full run these are what a changed prompt, catalog or model has left behind.
        """
        with self._lock:
            return [
                {
                    "hash": key,
                    "purpose": line["request"]["purpose"],
                    "model": line["model"],
                    "prompt_hash": line["prompt_hash"],
                    "date": line["date"],
                    "repeat": line["request"].get("repeat", 0),
                }
                for key, line in self._lines.items()
                if key not in self._used
            ]

    def patience(self, seconds: float, *, on_wait: OnWait = nobody) -> AbstractContextManager[None]:
        """Make the recorded model patient, where it is asked and can be."""
        return patience(self._model, seconds, on_wait=on_wait)

    def _key(self, request: ModelRequest) -> str:
        # The first asking has the key that it had before repeats were known: old recordings still match.
        return digest([self._name, request.hash, *([request.repeat] if request.repeat else [])])

    def _load(self) -> set[str]:
        names: set[str] = set()
        if not self.path.exists():
            return names
        for number, text in enumerate(self.path.read_bytes().split(b"\n"), 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
                newer = line.get("schema", 1) > SCHEMA
                if not newer:
                    key, name = line["hash"], line["model"]
                    _reply(line["reply"])
            except (ValueError, KeyError, TypeError, AttributeError):
                self.n_broken += 1
                continue
            if newer:
                raise ValueError(f"{self.path}:{number}: schema {line['schema']} is newer than {SCHEMA}")
            self._lines[key] = line
            names.add(name)
        return names

    def _write(self, key: str, request: ModelRequest, reply: ModelReply) -> None:
        record = plain(dataclasses.replace(request, case=None))
        for name in (*self._left_out, *(() if request.repeat else ("repeat",))):
            del record[name]
        line = {
            "schema": SCHEMA,
            "hash": key,
            "model": self._name,
            "prompt_hash": request.prompt_hash,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "request": record,
            "reply": {k: v for k, v in plain(reply).items() if k != "turn" or v is not None},
        }
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # One write of a whole line to a file opened for appending; a cut line gets its end first.
            with self.path.open("ab") as opened:
                if opened.tell() and not self._ends_in_newline():
                    text = "\n" + text
                opened.write(text.encode("utf-8", "surrogatepass"))
                opened.flush()
                os.fsync(opened.fileno())
            self._lines[key] = line

    def _ends_in_newline(self) -> bool:
        with self.path.open("rb") as opened:
            opened.seek(-1, os.SEEK_END)
            return opened.read(1) == b"\n"


class Repeated:
    """A model that is asked the same once more: its requests carry the number of the asking.

    Parameters
    ----------
    model
        The model.
    repeat
        Number of the asking, >= 1; the first asking is the model itself.

    >>> from mono_router.models.scripted import ScriptedModel
    >>> model = ScriptedModel(lambda request: f"asking {request.repeat}")
    >>> Repeated(model, 2).complete(ModelRequest(purpose="recall", system="", messages=())).text
    'asking 2'
    """

    def __init__(self, model: Model, repeat: int) -> None:
        if repeat < 1:
            raise ValueError(f"repeat must be >= 1, got {repeat}")
        self._model = model
        self._repeat = repeat

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._model.name

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's reply to this asking."""
        return self._model.complete(dataclasses.replace(request, repeat=self._repeat))


def _reply(record: dict[str, Any]) -> ModelReply:
    known = {f.name for f in dataclasses.fields(ModelReply)}
    values = {key: value for key, value in record.items() if key in known}
    values["tool_calls"] = tuple(ToolCall(**call) for call in record.get("tool_calls", ()))
    values["usage"] = Usage(**record.get("usage", {}))
    return ModelReply(**values)
