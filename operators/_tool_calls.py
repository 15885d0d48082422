"""Read the finished calls of the caller's tools, each one once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.calls import CallReader
from orx_rx.step import lift
from orx_rx.tools import Toolbox

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orx_rx.models.event_base import Event
    from orx_rx.protocol.calls import ToolCall
    from orx_rx.stream import Operator
    from orx_rx.tools import ToolLike


def tool_calls(tools: Iterable[ToolLike] | None = None) -> Operator[Event, ToolCall]:
    """Read the finished calls of the caller's tools, each one once.

    A call of a function or of a custom tool comes out when its item is done, or with the terminal if it never was; with
    calls that were written at the same time, the one that is finished first comes first. Its `arguments` are parsed
    when they are read. With `tools` they are checked, too, and what does not fit, or calls no such tool, raises there:
    `call.error` tells without raising, and `call.text` has what came. So a bad call neither ends the stream nor hides
    another.

    ::

        a, b: the items of two calls are done   x, y: the calls

        ---a--b---t----|
        [ tool_calls() ]
        ---x--y--------|

    A call that was cut off, in a response that is incomplete, is not finished, and does not come out. What the server
    runs by itself, such as a web search, and its requests to approve a call on an MCP server are items: see `items`.

    Args:
        tools: The tools of the request: functions, types, tools, dicts. Without them no call is checked.

    Raises:
        TypeError: One of the tools is nothing to make a tool of.
        ValueError: Two of them have the same name.
    """
    toolbox = None if tools is None else Toolbox(tools)
    return lift(lambda: CallReader(toolbox))
