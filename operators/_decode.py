"""Decode frames to typed events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.violations import DEFAULT, Profile
from orx_rx.reporting import judges
from orx_rx.step import lift

if TYPE_CHECKING:
    from orx_rx.models.event_base import Event
    from orx_rx.reporting import ViolationListener
    from orx_rx.stream import Operator
    from orx_rx.wire import Frame


def decode(*, profile: Profile = DEFAULT, on_violation: ViolationListener | None = None) -> Operator[Frame, Event]:
    """Decode frames to typed events.

    JSON and shape are checked in one pass over the bytes. Events of an unknown type become `UnknownEvent` with every
    field kept. The sentinel `[DONE]` is framing and never an event of the stream.

    An unfinished last frame is taken if it is whole JSON and the profile lets `unfinished_frame` pass. When the source
    completes and there is something to tell about it, a sentinel or a frame that was dropped, a last `StreamEnd` tells
    it; `lifecycle_guard` consumes that.

    ::

        a: data b'{"type": "response.created", ...}'   b: data b"nonsense"   x: ResponseCreatedEvent

        ---a-----b---
        [ decode()  ]
        ---x-----#

    Args:
        profile: What each violation costs.
        on_violation: A function or an observer that hears of every reported violation.

    Raises:
        FrameDecodeError: To the subscriber, when the data is not JSON in UTF-8.
        SchemaViolation: To the subscriber, when it is not an event, or one of the wrong shape.
    """
    judge = judges(profile, on_violation)
    return lift(lambda: Decoder(judge()))
