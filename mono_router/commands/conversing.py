"""The command that talks: a conversation with a runtime, in a terminal or line by line from a file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mono_router.commands.options import Command

if TYPE_CHECKING:
    from mono_router.runtime.agent import AgentRuntime
    from mono_router.runtime.results import Result

HELP = "/confirm  /cancel  /up [note]  /down [note]  /quit"


def _chat(arguments: argparse.Namespace) -> None:
    with runtime_of(arguments) as runtime:
        terminal = sys.stdin.isatty()
        if terminal and not arguments.json:
            print(f"{len(runtime.catalog)} tools. {HELP}")
        last: Result | None = None
        for line in _lines(terminal and not arguments.json):
            if line.split(maxsplit=1)[0] == "/quit":
                break
            result = _answer(runtime, arguments.session, line, last)
            if result is None:
                print(f"mono-router: unknown command {line.split()[0]}: {HELP}", file=sys.stderr)
                continue
            if not line.startswith(("/up", "/down")):
                last = result
            print(result.to_json() if arguments.json else _shown(result, debug=arguments.debug), flush=True)


def runtime_of(arguments: argparse.Namespace) -> AgentRuntime:
    """Return the runtime of a folder's ``config.yml``, or of its catalog alone."""
    from mono_router.runtime.agent import AgentRuntime
    from mono_router.runtime.config import ConfigError

    given: dict[str, Any] = {
        "python_modules": arguments.python_module,
        "now": arguments.now,
        "debug": arguments.debug,
    }
    place = Path(arguments.dir)
    if not place.exists():
        raise ConfigError([f"{place}: no such file or folder"])
    config = place / "config.yml" if place.is_dir() else place
    if config.name == "config.yml" and config.is_file():
        return AgentRuntime.create(config_path=config, **given)
    # A catalog alone: its folder is where the host's modules are looked for.
    folder = place if place.is_dir() else place.parent
    return AgentRuntime.create(config={"catalog": place, "folder": folder}, **given)


def _lines(prompted: bool) -> Iterator[str]:
    while True:
        if prompted:
            print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def _answer(runtime: AgentRuntime, session_id: str, line: str, last: Result | None) -> Result | None:
    """The result of one line; None for an unknown command."""
    if not line.startswith("/"):
        return runtime.chat(session_id, line)
    name, _, note = line[1:].partition(" ")
    if name == "confirm":
        return runtime.confirm(session_id)
    if name == "cancel":
        return runtime.cancel(session_id)
    if name in ("up", "down"):
        return runtime.feedback(last.request_id if last is not None else "", name, note.strip() or None)
    return None


def _shown(result: Result, *, debug: bool) -> str:
    lines = [result.reply] if result.reply else []
    if result.error is not None:
        lines.append(f"[{result.error.code}] {result.error.message}")
    elif result.tool is not None and result.status == "completed":
        lines.append(f"[{result.tool}]")
    elif result.status == "needs_confirmation":
        lines.append("[/confirm or /cancel]")
    if debug:
        decision = result.decision
        if decision is not None:
            why = f"{decision.outcome} ({decision.reason}), confidence {decision.confidence:.2f}"
            lines.append(f"  {why}, {result.meta.duration_ms:.0f} ms, {result.meta.model_calls} model calls")
    return "\n".join(lines)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", help="folder with config.yml or a catalog, or a catalog file")
    parser.add_argument(
        "--python-module",
        action="append",
        default=[],
        metavar="NAME",
        help="a module whose functions tools may run (repeatable)",
    )
    parser.add_argument("--session", default="terminal", metavar="ID")
    parser.add_argument("--now", help="local date and time with offset, instead of the clock's")
    parser.add_argument("--debug", action="store_true", help="say how each message was decided")


COMMANDS = (Command("chat", _chat, "talk to an assistant", "mono-router chat datasets/assistant", _options),)
