"""Cassettes as files, and as sources: what `record` wrote comes again, as it came."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from reactivex.disposable import SerialDisposable
from reactivex.scheduler import CurrentThreadScheduler

from orx_rx.errors import CassetteError, ConnectionLost, OrxError
from orx_rx.loops import clock_of, stopwatch
from orx_rx.protocol.cassette import Cassette, parse_cassette
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from reactivex import Observable, abc


def read_cassette(path: str | os.PathLike[str], *, partial: bool = False) -> Cassette:
    """Read a cassette.

    Args:
        path: The file.
        partial: Whether one that was cut off will do, as a process leaves it that dies in the middle; what is damaged
            will not.

    Raises:
        CassetteError: It is none, or it is damaged or cut off; the error names the line.
        OSError: The file cannot be read.
    """
    try:
        return parse_cassette(Path(path).read_bytes(), partial=partial)
    except CassetteError as error:
        error.add_note(f"in {os.fspath(path)}")
        raise


def replay(
    cassette: Cassette | str | os.PathLike[str],
    *,
    speed: float | None = 1.0,
    partial: bool = False,
    scheduler: abc.SchedulerBase | None = None,
) -> Observable[bytes]:
    """Play a cassette: the same chunks with the same borders, in the same time, with the same end.

    An error that the stream ended with comes again, as an error of its class with its fields. What is not on the
    cassette nobody knows: behind a recording that was cut off, or whose subscriber left, comes a `ConnectionLost`,
    which does not matter to `lifecycle_guard` if the response was whole.

    Cold: every subscription plays it from its beginning. No network is used, and no key is needed.

    Args:
        cassette: A path, or what `read_cassette` read.
        speed: How much faster than recorded, such as 10; None plays it without any waiting.
        partial: As for `read_cassette`.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop. Where there is
            neither, the thread that subscribes waits.

    Raises:
        ValueError: `speed` is not above 0.
        CassetteError: As for `read_cassette`.
        OSError: As for `read_cassette`.
    """
    if speed is not None and not 0 < speed < math.inf:
        raise ValueError(f"expected speed to be None or above 0, got {speed}")
    tape = cassette if isinstance(cassette, Cassette) else read_cassette(cassette, partial=partial)

    def subscribe(
        observer: abc.ObserverBase[bytes], subscriber_scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        clock = clock_of(scheduler, subscriber_scheduler) or CurrentThreadScheduler.singleton()
        player = _Player(tape, speed, observer, clock)
        player.wait()
        return player.timer

    return Stream(subscribe)


def error_of(cassette: Cassette) -> OrxError | None:
    """Make the error that a cassette ends with; None where it completes."""
    if cassette.end in ("left", "cut"):
        what = "a recording that was cut off" if cassette.end == "cut" else "a recording whose subscriber left"
        return ConnectionLost(f"expected the rest of the body, got the end of {what}")
    if cassette.error is None:
        return None
    made = type(cassette.error).__new__(type(cassette.error))  # a fresh one, because errors collect tracebacks
    made.args = cassette.error.args
    made.__dict__.update(cassette.error.__dict__)
    return made


class _Player:
    """Plays a cassette once."""

    def __init__(
        self, tape: Cassette, speed: float | None, observer: abc.ObserverBase[bytes], clock: abc.SchedulerBase
    ) -> None:
        self.timer = SerialDisposable()
        self._times = [*(chunk.at for chunk in tape.chunks), tape.ended]
        self._tape = tape
        self._speed = speed
        self._observer = observer
        self._clock = clock
        self._now = stopwatch(clock)
        self._began = self._now()
        self._next = 0

    def wait(self) -> None:
        """Wait for what comes next."""
        left = 0.0
        if self._speed is not None:
            # from the beginning on, so that delays do not add up
            left = round(self._times[self._next] / self._speed - (self._now() - self._began), 6)
        self.timer.disposable = self._clock.schedule_relative(max(0.0, left), self._play)

    def _play(self, *_: object) -> None:
        chunks = self._tape.chunks
        if self._next < len(chunks):
            self._next += 1
            self._observer.on_next(chunks[self._next - 1].data)
            self.wait()
        elif error := error_of(self._tape):
            self._observer.on_error(error)
        else:
            self._observer.on_completed()
