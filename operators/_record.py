"""Write a cassette of the chunks that pass."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from reactivex.disposable import CompositeDisposable, Disposable

from orx_rx.exchange import Exchange, library_version, noting
from orx_rx.loops import clock_of, stopwatch
from orx_rx.protocol.cassette import CassetteWriter, path_of
from orx_rx.reporting import log
from orx_rx.step import lift
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reactivex import Observable, abc

    from orx_rx.protocol.cassette import End
    from orx_rx.stream import Operator

RecordTo: TypeAlias = str | os.PathLike[str] | Callable[[], TextIO]
"""Where to write: a path, or a function that opens a text file for each subscription."""


def record(to: RecordTo, *, scheduler: abc.SchedulerBase | None = None) -> Operator[bytes, bytes]:
    """Write a cassette of the chunks that pass.

    The chunks go on as they are. The cassette is JSON Lines: a header with the request and the head of the answer, if
    the source is one of this library; a line for each chunk, with its time and its exact bytes; a last line that tells
    how the stream ended. `replay` makes the same stream of it again. Every line is written as it comes, so that a
    process that dies leaves a cassette that is cut off, which reading it tells.

    ::

        a, b: chunks, which are in the cassette too, with their times

        ---a-----b-------|
        [   record(to)   ]
        ---a-----b-------|

    No secret is written: of headers and query only what is known to be harmless, of the body no fields that hold keys.
    What the request holds besides is hidden wherever else it turns up, behind asterisks, which is the one thing that
    differs from the chunks as they came.

    When the disk is full, or writing fails in any other way, that is logged and the recording ends; the stream does
    not. Where a cassette cannot even be opened, nothing is subscribed to.

    Args:
        to: A path, whose file is replaced; or a function that opens a text file for each subscription, which is closed
            at the end. A second subscription does not write over the first: `story.jsonl` is followed by
            `story-2.jsonl`.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop, else the system.

    Raises:
        TypeError: `to` is neither a path nor a function.
        OSError: To the subscriber, when the file cannot be opened.
    """
    if not callable(to) and not isinstance(to, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected a path, or a function that opens a file, got {type(to).__name__}")
    numbers = count(1)

    def operator(source: Observable[bytes]) -> Observable[bytes]:
        def subscribe(
            observer: abc.ObserverBase[bytes], subscriber_scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            clock = clock_of(scheduler, subscriber_scheduler)
            exchange = Exchange(monotonic if clock is None else stopwatch(clock))
            recorder = _Recorder(_opened(to, next(numbers)), exchange)
            leaving = Disposable(recorder.leave)
            try:
                with noting(exchange):
                    recorded = lift(lambda: recorder)(source)
                    return CompositeDisposable(recorded.subscribe(observer, scheduler=subscriber_scheduler), leaving)
            except BaseException:
                leaving.dispose()
                raise

        return Stream(subscribe)

    return operator


def _opened(to: RecordTo, number: int) -> TextIO:
    if callable(to):
        return to()
    return path_of(Path(to), number).open("w", encoding="utf-8", newline="\n")


class _Recorder:
    """A step that hands on what it writes down, from whatever thread."""

    takes = bytes

    def __init__(self, file: TextIO, exchange: Exchange) -> None:
        self._file: TextIO | None = file
        self._exchange = exchange
        self._writer = CassetteWriter()
        self._recorded = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._begun = False
        self._ended = False
        self._lock = RLock()

    def feed(self, chunk: bytes) -> Sequence[bytes]:
        with self._lock:
            self._write(lambda at: self._writer.chunk(at, chunk))
        return (chunk,)

    def end(self) -> Sequence[bytes]:
        self._end("complete")
        return ()

    def fail(self, error: Exception) -> Sequence[bytes]:
        self._end("error", error)
        raise error

    def leave(self) -> None:
        """Take note that the subscriber left, unless the stream had ended."""
        self._end("left")

    def _end(self, end: End, error: Exception | None = None) -> None:
        with self._lock:
            if not self._ended:
                self._ended = True
                self._write(lambda at: self._writer.end(at, end, error))
                self._close()

    def _write(self, lines: Callable[[float], Iterable[str]]) -> None:
        file = self._file
        if file is None:
            return
        try:
            if not self._begun:  # not before, because now the answer has begun
                self._begun = True
                file.write(self._head())
            file.write("".join(lines(self._exchange.age)))
            file.flush()
        except Exception as error:  # a recording is worth less than the stream
            log.warning("recording stopped", error=type(error).__name__, name=str(getattr(file, "name", "")))
            self._close()

    def _head(self) -> str:
        exchange = self._exchange
        exchange.seal()
        told: dict[str, Any] = {"request": exchange.request, "response": exchange.response}
        return self._writer.begin(library=library_version(), recorded=self._recorded, secrets=exchange.secrets, **told)

    def _close(self) -> None:
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except Exception as error:  # it flushes once more
            log.warning("a recording was not closed", error=type(error).__name__)
