"""The commands, and how each of them may end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import MissingArgumentError, UnknownCommandError, UnknownOptionError

from orx_rx.cli.check import check
from orx_rx.cli.draw import draw
from orx_rx.cli.outcomes import CLOSED, CTRL_C, EXPECTED_ERRORS, USAGE, code_of, line_of
from orx_rx.cli.output import PROGRAM, complain, let_go, open_missing
from orx_rx.cli.record import record
from orx_rx.cli.replay import replay
from orx_rx.cli.simulate import simulate
from orx_rx.cli.stream import stream
from orx_rx.exchange import library_version

COMMANDS: Sequence[Callable[..., int]] = (stream, check, record, replay, simulate, draw)


def run(tokens: Sequence[str]) -> int:
    """Run one command.

    Args:
        tokens: Its words.

    Returns:
        The exit code.
    """
    open_missing()
    try:
        code = _app()(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        complain(_usage(error))
        return USAGE
    except BrokenPipeError:
        let_go()
        return CLOSED
    except KeyboardInterrupt:
        return CTRL_C
    except EXPECTED_ERRORS as error:
        complain(line_of(error))
        return code_of(error)
    return code if isinstance(code, int) else 0


def _app() -> App:
    app = App(
        name=PROGRAM,
        help="The event stream of the OpenAI Responses API, and of every server that speaks it.",
        version=library_version(),
        default_parameter=Parameter(negative=()),
        suppress_keyboard_interrupt=False,
        help_format="markdown",
    )
    for command in COMMANDS:
        app.command(command)
    return app


def _usage(error: CycloptsError) -> str:
    """Say what was expected of a command, in one line."""
    if isinstance(error, UnknownCommandError):
        names = ", ".join(command.__name__ for command in COMMANDS)
        return f"expected a command ({names}), got {(error.unused_tokens or ['none'])[0]!r}"
    if isinstance(error, UnknownOptionError):
        return f"expected an option of the command, got {error.token.keyword or error.token.value!r}: see --help"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return f"expected {error.argument.name}, got none: see --help"
    return f"expected a command as --help shows it, got: {error}"
