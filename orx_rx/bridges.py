"""Bridges to asyncio code that is there already: out of an async iterable, and into an `asyncio.Queue`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from inspect import isasyncgen, isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from reactivex import abc
from reactivex.scheduler.eventloop import AsyncIOScheduler

from orx_rx.flow import Flow, current_flow, subscribing
from orx_rx.loops import run_in, running_loop
from orx_rx.owner import is_cancelled, own
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from reactivex import Observable

T = TypeVar("T")
E = TypeVar("E")


def from_async_iterable(
    iterable: AsyncIterable[T] | Callable[[], AsyncIterable[T] | Awaitable[AsyncIterable[T]]],
) -> Observable[T]:
    """Make an observable of an async iterable, such as an async generator.

    Cold: every subscription iterates it anew, in a task of its own, and nothing happens before. Disposing cancels the
    task, which closes the iterator (`aclose`, so that what is in its `finally` is done) and waits until it has. While
    the subscriber is paused, as by `iterate` and `to_queue`, it is not asked for the next element.

    A generator object can be iterated once, and so there can be one subscription; a function that makes one gives each
    subscription its own, and is the better thing to hand over::

        async def lines() -> AsyncIterator[str]:
            async with open_file() as file:
                async for line in file:
                    yield line

        from_async_iterable(lines)

    Args:
        iterable: An async iterable, or a function without arguments that makes one, or a coroutine function that does.

    Raises:
        TypeError: It is neither; to the subscriber, when the function makes something else.
        RuntimeError: To the subscriber, when there is no running event loop, and when an iterator is used up.
        Exception: To the subscriber, whatever the function or the iterable raises.
    """
    is_iterable, is_iterator = isinstance(iterable, AsyncIterable), isinstance(iterable, AsyncIterator)
    if not (is_iterable or callable(iterable)):
        raise TypeError(f"expected an async iterable, or a function that makes one, got {type(iterable).__name__}")
    make = cast("Callable[[], object]", iterable)
    begun = False

    def begin() -> object:
        nonlocal begun
        if not is_iterable:
            return make()
        if is_iterator and (begun or _is_used_up(iterable)):
            raise RuntimeError(
                f"expected an async iterable that can be iterated again, got one of {type(iterable).__name__}"
                " that was: hand over the function that makes it"
            )
        begun = True
        return iterable

    def subscribe(observer: abc.ObserverBase[T], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        loop = running_loop("iterate")
        flow = current_flow()
        if flow is not None:
            flow.heed()
        reader = _Reader(begin, observer, flow)
        with subscribing(None):  # what it reads itself is not paused along with it
            return own(
                loop,
                observer,
                reader.read,
                reader.close,
                source="from_async_iterable",
                name="orx_rx from_async_iterable",
            )

    return Stream(subscribe)


def _is_used_up(iterable: object) -> bool:
    return isasyncgen(iterable) and cast("Any", iterable).ag_frame is None


class _Reader(Generic[T]):
    """The owner of one iteration."""

    def __init__(self, begin: Callable[[], object], observer: abc.ObserverBase[T], flow: Flow | None) -> None:
        self._begin = begin
        self._observer = observer
        self._flow = flow
        self._closed = False

    def close(self) -> None:
        """Ask for no more."""
        self._closed = True

    async def read(self) -> Exception | None:
        """Hand on the elements until the end, and return what ended them too early."""
        try:
            iterator = await self._open()
        except Exception as error:
            return error
        except asyncio.CancelledError as error:
            return _foreign_cancellation(error)
        try:
            return await self._read(iterator)
        finally:
            await self._tidy_up(iterator)

    async def _open(self) -> AsyncIterator[T]:
        made = self._begin()
        if isawaitable(made):
            made = await made
        if not isinstance(made, AsyncIterable):
            raise TypeError(f"expected an async iterable, got {type(made).__name__}")
        return aiter(cast("AsyncIterable[T]", made))

    async def _read(self, iterator: AsyncIterator[T]) -> Exception | None:
        while True:
            if self._flow is not None and self._flow.is_paused:
                await self._flow.ready()
            try:
                element = await anext(iterator)
            except StopAsyncIteration:
                return None
            except Exception as error:
                return error
            except asyncio.CancelledError as error:
                return _foreign_cancellation(error)
            if not self._closed:
                self._observer.on_next(element)
            if self._closed:
                return None

    async def _tidy_up(self, iterator: AsyncIterator[T]) -> None:
        """Close the iterator, and tell the loop when that fails: the stream has ended otherwise already."""
        close: Callable[[], Awaitable[object]] | None = getattr(iterator, "aclose", None)
        if close is None:
            return
        if self._closed:  # by a subscriber, in the middle of an element: the cancellation would strike the closing
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        try:
            await close()
        except Exception as error:
            context = {"message": "an iterator of orx_rx.from_async_iterable failed to close", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)


def _foreign_cancellation(error: asyncio.CancelledError) -> Exception:
    """Make an error of a cancellation that is not one of this task: what is awaited there was cancelled by others."""
    if is_cancelled():
        raise error
    failure = RuntimeError("expected an async iterable to end or to raise an Exception, got CancelledError")
    failure.__cause__ = error
    return failure


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """What `to_queue` puts behind the last element.

    Attributes:
        error: What the observable ended with; None for completion.
    """

    error: Exception | None


@overload
async def to_queue(observable: Observable[T], queue: asyncio.Queue[T | QueueEnd]) -> None: ...


@overload
async def to_queue(
    observable: Observable[T], queue: asyncio.Queue[T | E], *, end: Callable[[Exception | None], E]
) -> None: ...


@overload
async def to_queue(observable: Observable[T], queue: asyncio.Queue[T], *, end: None) -> None: ...


async def to_queue(
    observable: Observable[T],
    queue: asyncio.Queue[Any],
    *,
    end: Callable[[Exception | None], Any] | None = QueueEnd,
) -> None:
    """Put what an observable emits into a queue, and wait until all of it is there.

    Nothing is lost, whatever the size of the queue: an element, or the end, waits until there is room, and while there
    is none the source is paused, if it is one that can be, such as a request. Run it beside what reads the queue::

        queue = asyncio.Queue[str | QueueEnd](maxsize=100)
        async with asyncio.TaskGroup() as group:
            group.create_task(to_queue(events.pipe(ops.text()), queue))
            while not isinstance(piece := await queue.get(), QueueEnd):
                print(piece)
            if piece.error is not None:
                raise piece.error

    One end is put. Of several readers, the one that gets it puts it back for the next; or, from Python 3.13 on, with
    `end=None`, whoever awaits this calls `queue.shutdown()` afterwards. Cancelling it disposes the subscription and
    puts nothing more, no end either: who cancels it tells the readers.

    Args:
        observable: What to subscribe to.
        queue: Where to put it. Unlimited, it never pauses the source.
        end: Makes what is put behind the last element, of the error or of None; such as `lambda error: None` for
            readers that expect a None. With None in its place nothing is put, and an error is raised here.

    Raises:
        TypeError: `queue` is no queue of asyncio.
        Exception: What the observable ended with, if `end` is None; what the queue raises, as when it is shut down.
    """
    if not iscoroutinefunction(getattr(queue, "put", None)):
        raise TypeError(f"expected an asyncio.Queue, got {type(queue).__module__}.{type(queue).__name__}")
    feeder = _Feeder[T](queue)
    with subscribing(feeder.flow):
        # timed operators of Rx would otherwise run in threads of their own
        subscription = observable.subscribe(feeder, scheduler=AsyncIOScheduler(asyncio.get_running_loop()))
    try:
        await feeder.feed()
    finally:
        subscription.dispose()
        feeder.let_go()
    error = feeder.take_error()
    if end is not None:
        await queue.put(end(error))
    elif error is not None:
        raise error


class _Feeder(abc.ObserverBase[T]):
    """Keeps what comes while there is no room, and pauses the source then."""

    def __init__(self, queue: asyncio.Queue[Any]) -> None:
        self.flow = Flow()
        self._queue = queue
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[T] = deque()
        self._ended = False
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._pausing = False

    def on_next(self, value: T) -> None:
        """Keep an element until it is put."""
        self._waiting.append(value)
        if not self._pausing and 0 < self._queue.maxsize < self._queue.qsize() + len(self._waiting):
            self._pausing = True
            self.flow.pause()
        self._tell()

    def on_error(self, error: Exception) -> None:
        """Keep the error until what came before it is put."""
        self._error = error
        self.on_completed()

    def on_completed(self) -> None:
        """Note the end."""
        self._ended = True
        self._tell()

    def _tell(self) -> None:
        if not self._news.is_set():
            run_in(self._loop, self._news.set)

    async def feed(self) -> None:
        """Put what comes, until the end."""
        while True:
            self._news.clear()
            while self._waiting:
                await self._queue.put(self._waiting[0])
                self._waiting.popleft()
            self.let_go()
            if self._ended and not self._waiting:
                return
            await self._news.wait()

    def let_go(self) -> None:
        """Let the source go on."""
        if self._pausing:
            self._pausing = False
            self.flow.resume()

    def take_error(self) -> Exception | None:
        """Forget the error, which knows through its traceback where it was raised, and would keep that alive."""
        error, self._error = self._error, None
        return error
