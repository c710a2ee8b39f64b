"""The command line: arguments in, tables or JSON out, and nothing else happens here.

Exit 0 = ok, 1 = a gate was missed, 2 = usage or bad input, told in one line a problem, never with a
stack trace.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from mono_router.commands import conversing, fetching, findings, importing, journaling, lab, routing
from mono_router.commands.options import GateMissed

COMMANDS = (
    *lab.COMMANDS,
    *findings.COMMANDS,
    *routing.COMMANDS,
    *conversing.COMMANDS,
    *importing.COMMANDS,
    *fetching.COMMANDS,
    *journaling.COMMANDS,
)

MOST_LINES = 20
"""Problems that are printed; a file of another kind has one in every line."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line, with the nearest of the choices."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message)
        if found:
            near = difflib.get_close_matches(found[1], re.findall(r"'([^']*)'", found[2]), n=1)
            hint = f", did you mean {near[0]!r}?" if near else f", choose from {found[2]}"
            message = f"{message[: found.start()]}unknown {found[1]!r}{hint}"
        self.exit(2, f"mono-router: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    >>> main(["version"])
    mono-router 0.1.0
    0
    """
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        run: Callable[[argparse.Namespace], None] = arguments.run
        run(arguments)
    except GateMissed as missed:
        print(f"mono-router: {missed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("mono-router: interrupted", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    except (ValueError, OSError, ImportError, LookupError, TypeError) as error:
        lines = _told(error).splitlines() or [type(error).__name__]
        for line in lines[:MOST_LINES]:
            print(f"mono-router: {line}", file=sys.stderr)
        if len(lines) > MOST_LINES:
            print(f"mono-router: {len(lines) - MOST_LINES} problems more", file=sys.stderr)
        return 2
    return 0


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="mono-router", description="Route messages to tools, and tune how it is done.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        made = commands.add_parser(
            command.name,
            help=command.text,
            description=command.text,
            epilog=f"example: {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run=command.run)
        made.add_argument("--json", action="store_true", help="print JSON")
        command.options(made)
    return parser
