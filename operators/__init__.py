"""The operators; the documented form is `from orx_rx import operators as ops`."""

from __future__ import annotations

from orx_rx.operators._accumulate import accumulate
from orx_rx.operators._decode import decode
from orx_rx.operators._encode_sse import encode_sse
from orx_rx.operators._fan_out import fan_out
from orx_rx.operators._frame import frame
from orx_rx.operators._items import items
from orx_rx.operators._lifecycle_guard import lifecycle_guard
from orx_rx.operators._map_async import map_async
from orx_rx.operators._of_type import of_type
from orx_rx.operators._partial import partial
from orx_rx.operators._reasoning import reasoning
from orx_rx.operators._record import record
from orx_rx.operators._refusals import refusals
from orx_rx.operators._repair import repair
from orx_rx.operators._resume_on_disconnect import resume_on_disconnect
from orx_rx.operators._run_tools import run_tools
from orx_rx.operators._sequence_check import sequence_check
from orx_rx.operators._text import text
from orx_rx.operators._tool_calls import tool_calls

__all__ = [
    "accumulate",
    "decode",
    "encode_sse",
    "fan_out",
    "frame",
    "items",
    "lifecycle_guard",
    "map_async",
    "of_type",
    "partial",
    "reasoning",
    "record",
    "refusals",
    "repair",
    "resume_on_disconnect",
    "run_tools",
    "sequence_check",
    "text",
    "tool_calls",
]
