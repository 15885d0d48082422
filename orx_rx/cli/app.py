"""The commands, and how each of them may end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from orx_rx.cli.check import check
from orx_rx.cli.draw import draw
from orx_rx.cli.outcomes import CLOSED, CTRL_C, EXPECTED_ERRORS, USAGE, UnknownOption, code_of, line_of
from orx_rx.cli.output import PROGRAM, complain, let_go, open_missing
from orx_rx.cli.record import record
from orx_rx.cli.replay import replay
from orx_rx.cli.simulate import simulate
from orx_rx.cli.stream import stream
from orx_rx.exchange import library_version

COMMANDS: Mapping[Callable[..., int], str] = {
    stream: "[PROMPT]",
    record: "PROMPT FILE",
    replay: "FILE",
    check: "TARGET",
    draw: "FILE...",
    simulate: "",
}
"""The commands, in the order of their help, and what each takes besides options."""

_HELP = """The event stream of the OpenAI Responses API, and of every server that speaks it.

The key comes from `ORX_API_KEY` or `OPENAI_API_KEY`, the base URL from `--base-url`, `ORX_BASE_URL` or
`OPENAI_BASE_URL`, the model from `--model` or `ORX_MODEL`. `orx-rx COMMAND --help` has the options of a command.

To try it without a key, let `orx-rx simulate` run in another terminal, and then

`orx-rx stream "Tell me one" --model story --base-url http://127.0.0.1:8080/v1`
"""


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
    except UnknownOption as error:
        complain(_no_option(error.word, tokens))
        return USAGE
    except CycloptsError as error:
        complain(_usage(error, tokens))
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
        help=_HELP,
        usage=f"Usage: {PROGRAM} COMMAND [OPTIONS]",
        version=library_version(),
        default_parameter=Parameter(negative=(), show_default=_shown),
        suppress_keyboard_interrupt=False,
        help_format="markdown",
    )
    for number, (command, takes) in enumerate(COMMANDS.items()):
        words = (PROGRAM, command.__name__, *takes.split(), "[OPTIONS]")
        app.command(command, usage=f"Usage: {' '.join(words)}", sort_key=number)
    return app


def _shown(default: object) -> str | None:
    """Leave out of the help what a reader expects anyway."""
    return None if default is None or default is False else f"{default}"


def _options(tokens: Sequence[str]) -> list[str]:
    """List the options of the command that some words begin with."""
    app = _app()
    _, (*_, command), _ = app.parse_commands(tokens)
    names = [name for argument in command.assemble_argument_collection() for name in argument.names]
    return [name for name in names if name.startswith("-") and not name.startswith("--no-")]  # which no command takes


def _no_option(word: str, tokens: Sequence[str]) -> str:
    """Say that a word is no option, and which one it resembles."""
    like = get_close_matches(word.partition("=")[0], _options(tokens), n=1, cutoff=_LIKE)
    return f"expected an option of the command, got {word!r}: {f'did you mean {like[0]}?' if like else 'see --help'}"


def _first_unknown(tokens: Sequence[str]) -> str | None:
    """Find a word that looks like an option and is none; a prompt may begin with a hyphen, and so may a value."""
    options = {*_options(tokens), "--help", "-h", "--version"}
    words = (word for word in tokens if word.startswith("--") and len(word.split()) == 1)
    return next((word for word in words if word.partition("=")[0] not in options), None)


def _usage(error: CycloptsError, tokens: Sequence[str]) -> str:
    """Say what was expected of a command, in one line."""
    if isinstance(error, UnknownCommandError):
        names = ", ".join(command.__name__ for command in COMMANDS)
        return f"expected a command ({names}), got {(error.unused_tokens or ['none'])[0]!r}"
    if isinstance(error, UnknownOptionError):
        return _no_option(error.token.keyword or error.token.value, tokens)
    if isinstance(error, UnusedCliTokensError):
        # of a misspelt option in front of a prompt, the option is taken for the prompt, and its value is left over
        if unknown := _first_unknown(tokens):
            return _no_option(unknown, tokens)
        return f"expected no further argument, got {(error.unused_tokens or ['one'])[0]!r}: see --help"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        what = f"a value of {error.keyword}" if error.keyword else error.argument.name
        return f"expected {what}, got none: see --help"
    if isinstance(error, CoercionError) and error.argument is not None and error.token is not None:
        choices = error.argument.get_choices()
        kind = " or ".join(choices) if choices else _KINDS.get(error.target_type, "another value")
        return f"expected {kind} for {error.token.keyword or error.argument.name}, got {error.token.value!r}"
    return f"expected a command as --help shows it, got: {error}"


_LIKE = 0.75  # how much of two options has to be the same, from 0 to 1

_KINDS: Mapping[type | None, str] = {int: "a whole number", float: "a number"}
