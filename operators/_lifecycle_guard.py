"""Hold a stream to the lifecycle of a response, and to exactly one terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.violations import DEFAULT, Profile
from orx_rx.reporting import judges
from orx_rx.step import lift_settling

if TYPE_CHECKING:
    from reactivex import abc

    from orx_rx.models.event_base import Event
    from orx_rx.reporting import ViolationListener
    from orx_rx.stream import Operator


def lifecycle_guard(
    *,
    linger: float = 1.0,
    profile: Profile = DEFAULT,
    on_violation: ViolationListener | None = None,
    scheduler: abc.SchedulerBase | None = None,
) -> Operator[Event, Event]:
    """Hold a stream to the lifecycle of a response, and to exactly one terminal.

    The stream ends when the connection ends. After the terminal the guard waits for that, so that a body read to its
    end gives its connection back, but no longer than `linger`: a server that holds the connection open hangs nobody.
    An `error` event passes, and waits as long for its `response.failed`; without one it ends in a `ServerError`.
    What follows a terminal is dropped, except for keepalives and unknown events.

    ::

        c: response.created   d: a delta   t: response.completed

        ---c---d---t----------------
        [ lifecycle_guard(linger=5)]
        ---c---d---t----|

        ---c---d------------|
        [ lifecycle_guard() ]
        ---c---d------------#

    Args:
        linger: How long to wait for the end of the connection, in seconds.
        profile: What each violation costs.
        on_violation: A function or an observer that hears of every reported violation.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop. Where there is
            neither, the guard waits until the source ends.

    Raises:
        ValueError: `linger` is negative, or not a number.
        LifecycleViolation: To the subscriber, when the profile does not let an event pass.
        StreamInterrupted: To the subscriber, when the stream ends before a terminal.
        ServerError: To the subscriber, when the stream reports an error and ends without a terminal.
    """
    if not linger >= 0:  # which NaN is not, either
        raise ValueError(f"expected linger of at least 0 seconds, got {linger}")
    judge = judges(profile, on_violation)
    return lift_settling(lambda: LifecycleGuard(judge()), linger, scheduler)
