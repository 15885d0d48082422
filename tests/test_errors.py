"""The error tree: complete, public, as it is drawn, and able to cross a process border."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator

import pytest

import orx_rx
from orx_rx import (
    BadRequest,
    CassetteError,
    Conflict,
    ConnectFailed,
    ConnectionLost,
    ConsumerTooSlow,
    Cursor,
    Forbidden,
    Frame,
    FrameDecodeError,
    FrameTooLarge,
    IncompleteOutput,
    JoinedTooLate,
    LifecycleViolation,
    NotAnEventStream,
    NotFound,
    OrxError,
    OutputError,
    OutputParseError,
    ProtocolError,
    RateLimited,
    Refused,
    SchemaViolation,
    SequenceViolation,
    ServerError,
    ServerFault,
    StatusError,
    StreamInterrupted,
    StreamTimeout,
    ToolFailed,
    TooManyRounds,
    TransportError,
    Unauthorized,
    UnknownTool,
    Unprocessable,
    Violation,
    errors,
)
from orx_rx.errors import STATUS_ERRORS, status_error
from tests.chain import created, run, sse

FRAME = Frame("response.created", b'{"type": ', "7", 250)


def refused(kind: type[StatusError], status: int) -> StatusError:
    """Make an error of an HTTP status with all its fields."""
    headers = {"retry-after": "1"}
    return kind(status, "m", code="c", type="t", param="p", request_id="req", headers=headers, body="{}")


EXAMPLES: dict[type[OrxError], OrxError] = {
    type(error): error
    for error in (
        OrxError("expected a, got b"),
        TransportError("expected a, got b"),
        ConnectFailed("expected a, got b"),
        ConnectionLost("expected a, got b"),
        StreamTimeout("idle", 2.5),
        ProtocolError("expected a, got b"),
        NotAnEventStream("text/html", b"<html>"),
        FrameTooLarge(11, 10),
        FrameDecodeError("expected a, got b", FRAME),
        SchemaViolation("expected a, got b", frame=FRAME, event_type="t", sequence_number=3, problems=["p", "q"]),
        SequenceViolation("expected a, got b"),
        LifecycleViolation("expected a, got b"),
        ServerError("m", code="c", type="t", param="p", sequence_number=3),
        StreamInterrupted("expected a, got b", cursor=Cursor("resp_a", 3), resumable=True),
        OutputError("expected a, got b"),
        IncompleteOutput("max_output_tokens", "abc"),
        Refused("never"),
        OutputParseError("expected a, got b", "abc"),
        UnknownTool("f", ["g", "h"], "{}"),
        TooManyRounds(8),
        ToolFailed("f", "call_a", ValueError("abc")),
        ConsumerTooSlow(256),
        JoinedTooLate(3),
        CassetteError(3, "a", "b"),
        *(refused(kind, status) for status, kind in {**STATUS_ERRORS, 500: ServerFault, 418: StatusError}.items()),
    )
}


def tree(root: type[OrxError]) -> Iterator[type[OrxError]]:
    """Walk the classes of the library from one of them down."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def drawn() -> dict[str, str | None]:
    """Read the picture at the top of the module: the parent of each name, by indentation."""
    picture = (errors.__doc__ or "").partition("::\n\n")[2].partition("\n\n")[0]
    parents: dict[str, str | None] = {}
    open_: list[tuple[int, str]] = []
    for line in picture.splitlines():
        indent = len(line) - len(line.lstrip())
        # a class, then perhaps what it means or its status, then perhaps its siblings
        names = re.findall(r"(?:^ +|  )([A-Z][a-z]\w+)(?=$|  | \d| >=)", line)
        open_ = [(depth, name) for depth, name in open_ if depth < indent]
        for name in names:
            parents[name] = open_[-1][1] if open_ else None
        open_.append((indent, names[0]))
    return parents


def test_the_tree_is_as_it_is_drawn() -> None:
    parents = {kind: base for kind in tree(OrxError) for base in kind.__bases__}
    assert drawn() == {
        kind.__name__: base.__name__ if issubclass(base, OrxError) else None for kind, base in parents.items()
    }


@pytest.mark.parametrize("kind", list(tree(OrxError)))
def test_every_error_is_public_and_says_when_it_is_raised(kind: type[OrxError]) -> None:
    assert kind.__name__ in orx_rx.__all__
    assert getattr(orx_rx, kind.__name__) is kind
    assert (kind.__doc__ or "").startswith(("Raised when ", "Raised on ", "Base of "))


def test_there_is_an_example_of_every_error() -> None:
    assert set(EXAMPLES) == set(tree(OrxError))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_message_says_what_was_expected_and_what_came(kind: type[OrxError]) -> None:
    assert re.search(r"expected .+, got .+", str(EXAMPLES[kind]))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_error_crosses_a_process_border_with_its_fields(kind: type[OrxError]) -> None:
    error = EXAMPLES[kind]
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is kind
    assert str(copied) == str(error)
    assert copied.args == error.args
    assert vars(copied) == vars(error)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_error_can_be_copied(kind: type[OrxError]) -> None:
    error = EXAMPLES[kind]
    for copied in (copy.copy(error), copy.deepcopy(error)):
        assert (type(copied), copied.args, vars(copied)) == (kind, error.args, vars(error))
        assert copied is not error


def test_violations_snapshot_and_cursor_cross_a_process_border_too() -> None:
    error = run(sse(created(background=True, metadata={"a": "b"}), done=False)).failure
    assert isinstance(error, StreamInterrupted)
    assert error.snapshot is not None
    copied: StreamInterrupted = pickle.loads(pickle.dumps(error))
    assert copied.violations == error.violations
    assert [type(violation) for violation in copied.violations] == [Violation] * len(error.violations)
    assert copied.snapshot == error.snapshot
    assert copied.cursor == error.cursor == Cursor("resp_a", 0)
    assert copied.resumable is True


def test_an_error_knows_nothing_of_violations_and_snapshot_until_it_is_told() -> None:
    error = OrxError("expected a, got b")
    assert (error.violations, error.snapshot) == ((), None)
    assert error.__dict__ == {}


# fields and messages


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, StatusError),
        (400, BadRequest),
        (401, Unauthorized),
        (402, StatusError),
        (403, Forbidden),
        (404, NotFound),
        (408, StatusError),
        (409, Conflict),
        (422, Unprocessable),
        (429, RateLimited),
        (499, StatusError),
        (500, ServerFault),
        (503, ServerFault),
        (999, ServerFault),
    ],
)
def test_a_status_has_its_class(status: int, kind: type[StatusError]) -> None:
    assert status_error(status) is kind


def test_a_status_error_without_details_is_short() -> None:
    error = StatusError(418, "I am a teapot")
    assert str(error) == "expected HTTP status 200, got 418: I am a teapot"
    assert (error.code, error.type, error.param, error.request_id, error.headers, error.body) == (
        None,
        None,
        None,
        None,
        {},
        "",
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (EXAMPLES[RateLimited], "expected HTTP status 200, got 429, code c, param p, request req: m"),
        (
            NotAnEventStream(None, b""),
            "expected content type 'text/event-stream', got no content type and a body of zero bytes",
        ),
        (
            NotAnEventStream("text/html", b"<html>"),
            "expected content type 'text/event-stream', got content type 'text/html' and a body of 6 bytes or more",
        ),
        (FrameTooLarge(11, 10), "expected frames of at most 10 bytes, got 11 bytes without an end of the frame"),
        (ServerError("m"), "expected a terminal, got an error of the server (no code): m"),
        (ServerError("m", code="c", type="t"), "expected a terminal, got an error of the server (code c, type t): m"),
        (IncompleteOutput(None, "abc"), "expected whole output, got 3 characters and a cut: no reason"),
        (Refused("never"), "expected output, got a refusal of 5 characters"),
        (UnknownTool("f", ["g", "h"], "{}"), "expected a call of g or h, got one of 'f'"),
        (UnknownTool("f", [], "{}"), "expected a call of no tool, got one of 'f'"),
        (TooManyRounds(8), "expected an answer within 8 rounds, got calls of tools in every one"),
        (ToolFailed("f", "call_a", ValueError("abc")), "expected a result of f, got ValueError"),
        (ConsumerTooSlow(256), "expected a consumer at most 256 elements behind, got one more"),
    ],
)
def test_messages_are_made_of_the_fields(error: OrxError, message: str) -> None:
    assert str(error) == message


@pytest.mark.parametrize(
    "error",
    [
        NotAnEventStream("text/html", b"hunter2"),
        IncompleteOutput("max_output_tokens", "hunter2"),
        Refused("hunter2"),
        OutputParseError("expected a, got b", "hunter2"),
        UnknownTool("f", [], "hunter2"),
        FrameDecodeError("expected a, got b", Frame(data=b"hunter2")),
        SchemaViolation("expected a, got b", frame=Frame(data=b"hunter2")),
    ],
)
def test_the_text_of_a_payload_is_a_field_and_not_in_the_message(error: OrxError) -> None:
    assert "hunter2" in str(vars(error))
    assert "hunter2" not in str(error)
