"""Write events as the frames of an event stream, for browsers and whoever else reads one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reactivex.disposable import CompositeDisposable, SerialDisposable

from orx_rx.errors import OrxError
from orx_rx.loops import LEAST_WAIT, clock_of, stopwatch
from orx_rx.protocol.encoding import KEEPALIVE, EventEncoder, error_event
from orx_rx.reporting import log
from orx_rx.step import lift
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reactivex import Observable, abc

    from orx_rx.models.event_base import Event
    from orx_rx.stream import Operator


def encode_sse(
    *,
    after: int | None = None,
    keepalive: float | None = 15.0,
    done: bool = False,
    scheduler: abc.SchedulerBase | None = None,
) -> Operator[Event, bytes]:
    r"""Write events as the frames of an event stream, for browsers and whoever else reads one.

    A frame has the type as `event:`, the number as `id:`, and the whole event as compact JSON in `data:`, so that
    `frame` and `decode` make equal events of it. Every element is one frame, to be sent at once.

    A browser that lost its connection comes back by itself and says in `Last-Event-ID` which number it had last. With
    that as `after`, behind a `fan_out` that keeps its history, it gets the rest: nothing is missing, nothing comes
    twice. An event without a number has no id, so nobody knows who has it, and it is sent again. Numbers say nothing
    of the response that they count in: give every stream an address of its own.

    An error of the source is told: a last `event: error` whose data has the shape of the protocol's own error event,
    with a code such as `stream_interrupted`, a sentence that fits it, and no word of the error's own text. Then the
    stream completes, as a whole one would. The error itself is logged; who needs it on this side listens in front of
    this operator. What breaks behind the terminal event is no news, and neither is a `ServerError` that an error event
    of the stream told before.

    ::

        a, b: events   A, B: their frames   k: b": keepalive\n\n"

        ---a-------------b-------|
        [ encode_sse(keepalive=5)]
        ---A----k----k---B----k--|

        a: an event   A: its frame   E: b'event: error\ndata: {"type":"error","code":...}\n\n'

        ---a----------#---
        [ encode_sse()   ]
        ---A----------(E|)

    The format is that of WHATWG HTML, section 9.2. A browser comes back for ever, after the last event too, unless the
    page calls `close()` when it sees a terminal event or an `error` with data.

    Args:
        after: The number of the last event that the reader has, see `last_event_id`; events up to it are left out.
        keepalive: After how many seconds of silence a comment is sent, so that no proxy takes the connection for dead,
            and a connection that is dead is found out; None never sends one.
        done: Whether the sentinel `[DONE]` comes last, as some clients expect; not after an error.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop. Where there is
            neither, no comment is sent.

    Raises:
        ValueError: `after` is not a number from 0, or `keepalive` is not a positive number of seconds.
        TypeError: To the subscriber, when an event holds what JSON cannot carry; none that was decoded does.
    """
    if after is not None and (type(after) is not int or after < 0):
        raise ValueError(f"expected after to be None or a number from 0, got {after!r}")
    if keepalive is not None and not 0 < keepalive < math.inf:
        raise ValueError(f"expected keepalive to be None or above 0 seconds, got {keepalive}")
    encoded = lift(lambda: _LoggingEncoder(after, done=done))

    def operator(source: Observable[Event]) -> Observable[bytes]:
        frames = encoded(source)
        return frames if keepalive is None else _kept_alive(frames, keepalive, scheduler)

    return operator


class _LoggingEncoder(EventEncoder):
    """An encoder that does not let an error get lost on this side."""

    def fail(self, error: Exception) -> Sequence[bytes]:
        written = super().fail(error)
        ours = isinstance(error, OrxError)  # else it is a bug of somebody, who needs to know where
        log.warning(
            "the source of a stream for others failed",
            error=type(error).__name__,
            code=error_event(error).code,
            exc_info=None if ours else error,
        )
        return written


def _kept_alive(frames: Observable[bytes], seconds: float, scheduler: abc.SchedulerBase | None) -> Observable[bytes]:
    """Put a comment into every silence."""

    def subscribe(
        observer: abc.ObserverBase[bytes], subscriber_scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        clock = clock_of(scheduler, subscriber_scheduler)
        if clock is None:
            return frames.subscribe(observer, scheduler=subscriber_scheduler)
        timer = SerialDisposable()
        now = stopwatch(clock)
        spoke = now()

        def on_next(frame: bytes) -> None:
            nonlocal spoke
            spoke = now()
            observer.on_next(frame)

        def wind(left: float) -> None:
            timer.disposable = clock.schedule_relative(left, expire)

        def expire(*_: object) -> None:
            left = seconds - (now() - spoke)
            if left >= LEAST_WAIT:  # a frame has come since; setting a timer for every frame would cost more
                wind(left)
            else:
                wind(seconds)
                on_next(KEEPALIVE)

        wind(seconds)
        upstream = frames.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=subscriber_scheduler)
        return CompositeDisposable(upstream, timer)

    return Stream(subscribe)
