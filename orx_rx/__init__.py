"""The event stream of the OpenAI Responses API, and of every server that speaks it, as Rx observables."""

from __future__ import annotations

from orx_rx import models, operators
from orx_rx.aio import final_response, iterate
from orx_rx.bridges import QueueEnd, from_async_iterable, to_queue
from orx_rx.cassettes import read_cassette, replay
from orx_rx.errors import (
    BadRequest,
    CassetteError,
    Conflict,
    ConnectFailed,
    ConnectionLost,
    ConsumerTooSlow,
    Forbidden,
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
)
from orx_rx.http import Client, Retry, ThreadedClient, Timeouts, sse_chunks
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.calls import ToolCall, ToolOutput, Turn
from orx_rx.protocol.cassette import Cassette
from orx_rx.protocol.cursor import Cursor
from orx_rx.protocol.encoding import last_event_id
from orx_rx.protocol.repair_kinds import REPAIRS, Repair
from orx_rx.protocol.violations import DEFAULT, RULES, STRICT, Judge, Profile, Rule, Violation
from orx_rx.reporting import Attempt
from orx_rx.step import Step, lift
from orx_rx.stream import Operator
from orx_rx.tools import Tool, Toolbox, custom_tool, tool
from orx_rx.wire import Frame, FrameParser, encode_frame

__all__ = [
    "DEFAULT",
    "REPAIRS",
    "RULES",
    "STRICT",
    "Accumulator",
    "Attempt",
    "BadRequest",
    "Cassette",
    "CassetteError",
    "Client",
    "Conflict",
    "ConnectFailed",
    "ConnectionLost",
    "ConsumerTooSlow",
    "Cursor",
    "Forbidden",
    "Frame",
    "FrameDecodeError",
    "FrameParser",
    "FrameTooLarge",
    "IncompleteOutput",
    "JoinedTooLate",
    "Judge",
    "LifecycleViolation",
    "NotAnEventStream",
    "NotFound",
    "Operator",
    "OrxError",
    "OutputError",
    "OutputParseError",
    "Profile",
    "ProtocolError",
    "QueueEnd",
    "RateLimited",
    "Refused",
    "Repair",
    "Retry",
    "Rule",
    "SchemaViolation",
    "SequenceViolation",
    "ServerError",
    "ServerFault",
    "StatusError",
    "Step",
    "StreamInterrupted",
    "StreamTimeout",
    "ThreadedClient",
    "Timeouts",
    "TooManyRounds",
    "Tool",
    "ToolCall",
    "ToolFailed",
    "ToolOutput",
    "Toolbox",
    "TransportError",
    "Turn",
    "Unauthorized",
    "UnknownTool",
    "Unprocessable",
    "Violation",
    "custom_tool",
    "encode_frame",
    "final_response",
    "from_async_iterable",
    "iterate",
    "last_event_id",
    "lift",
    "models",
    "operators",
    "read_cassette",
    "replay",
    "sse_chunks",
    "to_queue",
    "tool",
]
