"""Turn a bent stream into a conforming one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.repair import Repairer
from orx_rx.reporting import repairs
from orx_rx.step import lift

if TYPE_CHECKING:
    from orx_rx.reporting import RepairListener
    from orx_rx.stream import Operator
    from orx_rx.wire import Frame


def repair(*, on_repair: RepairListener | None = None) -> Operator[Frame, Frame]:
    """Turn a bent stream into a conforming one.

    It stands between `frame` and `decode`. A frame that fits is passed on as it is, the same object; every change is
    recorded. Openers and closers, places, ids, numbers, empty ends and empty terminals are put right where there is one
    way to do it. No text is withdrawn, none is added twice, and no terminal is invented: a lost answer stays an error.

    What the server never sent is marked `synthetic`. Numbers increase: behind an added event they may not be those of
    the server, which are kept as `server_sequence_number`; then there is no cursor to resume with. An end without text
    is held back until the next event, which may have the text.

    ::

        c: response.created   d: a delta of a text   t: response.completed
        i, p: response.output_item.added, response.content_part.added   x, y, z: what ends the text, its part, its item

        ---c---d-------t---------|
        [       repair()         ]
        ---c---(ipd)---(xyzt)----|

    Args:
        on_repair: A function or an observer that hears of every repair; what it raises is logged and harms nobody.

    Raises:
        TypeError: `on_repair` is neither.
        SchemaViolation: To the subscriber, when an event may mean two items or parts that are open.
        LifecycleViolation: To the subscriber, when an event contradicts what came, and there are two ways to read that.
    """
    tell = repairs(on_repair)
    return lift(lambda: Repairer(tell))
