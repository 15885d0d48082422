"""Let every event know the response as of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.structured import OutputFormat
from orx_rx.protocol.violations import DEFAULT, Profile
from orx_rx.reporting import judges
from orx_rx.step import lift

if TYPE_CHECKING:
    from orx_rx.models.event_base import Event
    from orx_rx.reporting import ViolationListener
    from orx_rx.stream import Operator


def accumulate(
    *,
    into: Accumulator | None = None,
    text_format: Any = None,
    profile: Profile = DEFAULT,
    on_violation: ViolationListener | None = None,
) -> Operator[Event, Event]:
    """Let every event know the response as of itself.

    Delta events gain `snapshot`: what they add to, as it was when they were added, built when it is read. An item that
    is done, and the response of the terminal, are completed by what was streamed of them, where a server left them
    empty. Errors that pass carry the response so far as `snapshot`. An event that anybody else may have is copied and
    never changed. With a `text_format`, texts that are done gain `parsed`, and responses `output_parsed`.

    ::

        a: delta "Hel"   b: delta "lo"   x: snapshot "Hel"   y: snapshot "Hello"   t, T: the terminal

        ---a---b---t---|
        [ accumulate() ]
        ---x---y---T---|

    Args:
        into: An accumulator to use, so that its owner can look at the response at any moment. It is reset at every
            subscription, and its own judge decides instead of `profile` and `on_violation`. It knows what was handed
            on, which behind `iterate` or any other buffer is more than has been read: to save a `cursor`, feed an
            accumulator of your own with every event that you have dealt with.
        text_format: The type that the output is to have, whatever a pydantic `TypeAdapter` takes; an accumulator to
            use is given it.
        profile: What each violation costs.
        on_violation: A function or an observer that hears of every reported violation.

    Raises:
        TypeError: pydantic cannot read `text_format` from JSON.
        LifecycleViolation: To the subscriber, when what is done differs from what was streamed, and the profile does
            not let that pass.
    """
    judge = judges(profile, on_violation)
    asked = None if text_format is None else OutputFormat.of(text_format)

    def make() -> Accumulator:
        if into is None:
            return Accumulator(judge(), text_format=asked)
        into.text_format = asked or into.text_format
        into.reset()
        return into

    return lift(make, one_by_one=into is not None)
