"""Every error that orx_rx raises.

Our exception hierarchy::

    OrxError                     carries .violations and .snapshot
      TransportError             the connection
        ConnectFailed            no connection was made
        ConnectionLost           it broke before the body ended
        StreamTimeout            a clock ran out: .clock, .seconds
      StatusError                the HTTP status: .status, .code, .type, .param, .request_id
        BadRequest 400           Unauthorized 401       Forbidden 403    NotFound 404
        Conflict 409             Unprocessable 422      RateLimited 429  ServerFault >= 500
      ProtocolError              what came is not the protocol
        NotAnEventStream         a successful answer of another media type
        FrameTooLarge            a frame outgrew max_frame_bytes: .seen, .limit
        FrameDecodeError         the data of a frame is not JSON in UTF-8
        SchemaViolation          JSON of the wrong shape
        SequenceViolation        sequence numbers out of order
        LifecycleViolation       events in an order that has no meaning
      ServerError                the stream itself reported an error and ended: .code, .type, .param
      StreamInterrupted          it ended before a terminal: .cursor, .resumable
      OutputError                the response is whole, its output is not what was asked for
        IncompleteOutput         Refused         OutputParseError
        UnknownTool              the model called a tool that it was not given: .name
        TooManyRounds            it still called tools in the last round that was allowed: .limit
      ToolFailed               a tool raised, and that was to end the stream: .name, .call_id
      ConsumerTooSlow            a bounded buffer overflowed and the policy was to fail: .buffer
      JoinedTooLate              the history does not go back to the beginning any more: .missed
      CassetteError              a recording is damaged, cut off, or none at all: .line

Messages say what was expected and what came. Numbers and places are fields. The text of a payload is in
fields too, never in a message; what a server says of its own error is in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orx_rx.models.response import Response
    from orx_rx.protocol.cursor import Cursor
    from orx_rx.protocol.violations import Violation
    from orx_rx.wire import Frame


class OrxError(Exception):
    """Base of every error of this library.

    Attributes:
        violations: The rules that the server broke on this stream, the deciding one last.
        snapshot: The response as accumulated until the error; None where nothing accumulates or nothing came.
    """

    violations: tuple[Violation, ...] = ()
    snapshot: Response | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the fields, so that an error crosses a process border whatever its constructor takes."""
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(kind: type[OrxError], args: tuple[object, ...]) -> OrxError:
    error = kind.__new__(kind)
    error.args = args
    return error


class TransportError(OrxError):
    """Raised when the connection failed."""


class ConnectFailed(TransportError):
    """Raised when no connection could be made, or it broke before the server answered."""


class ConnectionLost(TransportError):
    """Raised when the connection broke before the body ended."""


class StreamTimeout(TransportError):
    """Raised when one of the clocks ran out.

    Args:
        clock: Which one: `connect`, `first_event`, `idle`, `progress` or `duration`.
        seconds: Its setting, in seconds.
    """

    def __init__(self, clock: str, seconds: float) -> None:
        super().__init__(f"the {clock} clock ran out: expected {_CLOCKS[clock]} within {seconds:g} s, got nothing")
        self.clock = clock
        self.seconds = seconds


_CLOCKS = {
    "connect": "a connection",
    "first_event": "a first event",
    "idle": "bytes",
    "progress": "an event that moves the response on",
    "duration": "the end of the stream",
}


class StatusError(OrxError):
    """Raised when the server answered with an HTTP status that is not in the 200s.

    Attributes:
        status: The HTTP status.
        message: What the server said, from the error object of the body where there is one.
        code: The `code` of the error object, or None.
        type: Its `type`, or None.
        param: Its `param`, or None.
        request_id: The `x-request-id` header, or None.
        headers: The headers of the answer, with lower-case names.
        body: The start of the body, as text.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        type: str | None = None,
        param: str | None = None,
        request_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: str = "",
    ) -> None:
        about = "".join(
            f", {name} {value}" for name, value in (("code", code), ("param", param), ("request", request_id)) if value
        )
        super().__init__(f"expected HTTP status 200, got {status}{about}: {message}")
        self.status = status
        self.message = message
        self.code = code
        self.type = type
        self.param = param
        self.request_id = request_id
        self.headers: dict[str, str] = dict(headers or {})
        self.body = body


class BadRequest(StatusError):
    """Raised on HTTP status 400."""


class Unauthorized(StatusError):
    """Raised on HTTP status 401."""


class Forbidden(StatusError):
    """Raised on HTTP status 403."""


class NotFound(StatusError):
    """Raised on HTTP status 404."""


class Conflict(StatusError):
    """Raised on HTTP status 409."""


class Unprocessable(StatusError):
    """Raised on HTTP status 422."""


class RateLimited(StatusError):
    """Raised on HTTP status 429."""


class ServerFault(StatusError):
    """Raised on an HTTP status of 500 and above."""


STATUS_ERRORS: dict[int, type[StatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: Unprocessable,
    429: RateLimited,
}


def status_error(status: int) -> type[StatusError]:
    """Find the error class of an HTTP status."""
    return STATUS_ERRORS.get(status, ServerFault if status >= 500 else StatusError)


def may_pass(status: int) -> bool:
    """Say whether the same request may meet another HTTP status later."""
    return status in (408, 409, 429) or status >= 500


class ProtocolError(OrxError):
    """Raised when what came is not the protocol."""


class NotAnEventStream(ProtocolError):
    """Raised when a successful answer is not `text/event-stream`.

    Args:
        content_type: The media type that came, or None where the header was missing.
        head: The first bytes of the body, at most 200.
    """

    def __init__(self, content_type: str | None, head: bytes) -> None:
        got = f"content type {content_type!r}" if content_type else "no content type"
        super().__init__(f"expected content type 'text/event-stream', got {got} and a body of {_size(head)}")
        self.content_type = content_type
        self.head = head


class FrameTooLarge(ProtocolError):
    """Raised when a frame outgrew the limit.

    Args:
        seen: How many bytes of the frame had come, at least.
        limit: The most bytes that a frame may have.
    """

    def __init__(self, seen: int, limit: int) -> None:
        super().__init__(f"expected frames of at most {limit} bytes, got {seen} bytes without an end of the frame")
        self.seen = seen
        self.limit = limit


class FrameDecodeError(ProtocolError):
    """Raised when the data of a frame is not JSON in UTF-8.

    Args:
        message: What was expected and what came.
        frame: The frame as it came; None when it was dropped before, because the stream ended in the middle of it.
    """

    def __init__(self, message: str, frame: Frame | None = None) -> None:
        super().__init__(message)
        self.frame = frame


class SchemaViolation(ProtocolError):
    """Raised when an event is JSON of the wrong shape.

    Args:
        message: What was expected and what came.
        frame: The frame as it came; None when the event did not come out of a frame.
        event_type: The type that the event claims, or None.
        sequence_number: The number that it claims, or None.
        problems: One line for every place that does not fit.
    """

    def __init__(
        self,
        message: str,
        *,
        frame: Frame | None = None,
        event_type: str | None = None,
        sequence_number: int | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.frame = frame
        self.event_type = event_type
        self.sequence_number = sequence_number
        self.problems: tuple[str, ...] = tuple(problems)


class SequenceViolation(ProtocolError):
    """Raised when sequence numbers are missing, repeated, or go backwards."""


class LifecycleViolation(ProtocolError):
    """Raised when an event has no meaning where it came."""


class ServerError(OrxError):
    """Raised when the stream reported an error and ended without a terminal.

    Args:
        message: What the server said.
        code: The machine-readable code, or None.
        type: The category, such as `server_error`, or None.
        param: The parameter of the request that is to blame, or None.
        sequence_number: The number of the error event, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        type: str | None = None,
        param: str | None = None,
        sequence_number: int | None = None,
    ) -> None:
        about = ", ".join(f"{name} {value}" for name, value in (("code", code), ("type", type)) if value)
        super().__init__(f"expected a terminal, got an error of the server ({about or 'no code'}): {message}")
        self.message = message
        self.code = code
        self.type = type
        self.param = param
        self.sequence_number = sequence_number


class StreamInterrupted(OrxError):
    """Raised when the stream ended before a terminal.

    Attributes:
        cursor: Where it broke off, enough to resume; None where no response id was seen.
        resumable: Whether the server can be asked to go on from there.
    """

    def __init__(self, message: str, *, cursor: Cursor | None = None, resumable: bool = False) -> None:
        super().__init__(message)
        self.cursor = cursor
        self.resumable = resumable


class OutputError(OrxError):
    """Raised when a response is whole and its output is not what was asked for."""


class IncompleteOutput(OutputError):
    """Raised when structured output was cut off.

    Args:
        reason: The reason that the server gave, such as `max_output_tokens`, or None.
        partial_text: The text until the cut.
    """

    def __init__(self, reason: str | None, partial_text: str) -> None:
        super().__init__(
            f"expected whole output, got {len(partial_text)} characters and a cut: {reason or 'no reason'}"
        )
        self.reason = reason
        self.partial_text = partial_text


class Refused(OutputError):
    """Raised when the model refused to answer.

    Args:
        text: The refusal.
    """

    def __init__(self, text: str) -> None:
        super().__init__(f"expected output, got a refusal of {len(text)} characters")
        self.text = text


class OutputParseError(OutputError):
    """Raised when whole output does not fit the type that was asked for.

    Args:
        message: What was expected and what came.
        text: The output.
    """

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


class UnknownTool(OutputError):
    """Raised when the model called a tool that it was not given.

    Args:
        name: The name that it called.
        known: The names that there are.
        text: The arguments, as text.
    """

    def __init__(self, name: str, known: Sequence[str], text: str) -> None:
        super().__init__(f"expected a call of {' or '.join(known) or 'no tool'}, got one of {name!r}")
        self.name = name
        self.known: tuple[str, ...] = tuple(known)
        self.text = text


class TooManyRounds(OutputError):
    """Raised when the model still called tools in the last round that was allowed; `snapshot` is that response.

    Args:
        limit: How many rounds were allowed.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"expected an answer within {limit} rounds, got calls of tools in every one")
        self.limit = limit


class ToolFailed(OrxError):
    """Raised when a tool raised, and its errors are not told to the model; the cause is what it raised.

    Args:
        name: The name of the tool.
        call_id: The id of the call.
        error: What it raised.
    """

    def __init__(self, name: str, call_id: str, error: BaseException) -> None:
        super().__init__(f"expected a result of {name}, got {type(error).__name__}")
        self.name = name
        self.call_id = call_id


class ConsumerTooSlow(OrxError):
    """Raised when a consumer fell behind by more than its buffer and its policy is to fail.

    Args:
        buffer: How many elements the buffer holds.
    """

    def __init__(self, buffer: int) -> None:
        super().__init__(f"expected a consumer at most {buffer} elements behind, got one more")
        self.buffer = buffer


class JoinedTooLate(OrxError):
    """Raised when a subscriber comes to a shared stream whose bounded history has lost its beginning.

    Args:
        missed: How many elements came before those that are kept.
    """

    def __init__(self, missed: int) -> None:
        super().__init__(f"expected a history from the first element on, got one without its first {missed}")
        self.missed = missed


class CassetteError(OrxError):
    """Raised when a recording cannot be read, because it is damaged, cut off, or none at all.

    Args:
        line: The line, from 1.
        expected: What it was expected to be.
        got: What it is.
    """

    def __init__(self, line: int, expected: str, got: str) -> None:
        super().__init__(f"line {line} of a cassette: expected {expected}, got {got}")
        self.line = line


def _size(data: bytes) -> str:
    return "zero bytes" if not data else f"{len(data)} bytes or more"
