"""The command line: arguments in, tables or JSON out, and nothing else happens here.

Exit 0 = ok, 1 = a gate was missed, 2 = usage or bad input, told in one line a problem, never with a
stack trace.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

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
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        for line in str(text).splitlines() or [type(error).__name__]:
            print(f"mono-router: {line}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mono-router", description="Route messages to tools, and tune how it is done."
    )
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
