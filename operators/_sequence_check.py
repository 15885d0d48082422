"""Check that sequence numbers increase and leave nothing out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from orx_rx.protocol.sequence import SequenceChecker
from orx_rx.protocol.violations import DEFAULT, Profile, Verdict
from orx_rx.reporting import judges
from orx_rx.step import lift

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orx_rx.models.event_base import Event
    from orx_rx.reporting import ViolationListener
    from orx_rx.stream import Operator

_GAPS: Mapping[str, Verdict] = {"allow": "ignore", "report": "report", "raise": "raise"}


def sequence_check(
    *,
    gaps: Literal["allow", "report", "raise"] | None = None,
    profile: Profile = DEFAULT,
    on_violation: ViolationListener | None = None,
) -> Operator[Event, Event]:
    """Check that sequence numbers increase and leave nothing out.

    Every event counts, keepalives and unknown ones too. A stream may begin at any number. An event that comes twice
    with the same number and the same fields is dropped where the profile lets `sequence_repeated` pass.

    ::

        1, 2, 4: events with that number

        ---1-----2-----2-----1----
        [   sequence_check()     ]
        ---1-----2-----------#

    Args:
        gaps: What a number that was left out costs; None leaves it to the profile.
        profile: What each violation costs.
        on_violation: A function or an observer that hears of every reported violation.

    Raises:
        ValueError: `gaps` is none of its words.
        SequenceViolation: To the subscriber, when the profile does not let a number pass.
    """
    if gaps is not None:
        if gaps not in _GAPS:
            raise ValueError(f"expected gaps to be 'allow', 'report' or 'raise', got {gaps!r}")
        profile = profile.but(sequence_gap=_GAPS[gaps])
    judge = judges(profile, on_violation)
    return lift(lambda: SequenceChecker(judge()))
