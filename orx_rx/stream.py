"""Observables: what every one of the library does, and how they hand on what comes at once."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from reactivex import Observable, Observer, abc
from reactivex.disposable import CompositeDisposable, Disposable, SingleAssignmentDisposable
from reactivex.internal import noop
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.subject import AsyncSubject

from orx_rx.loops import current_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

In = TypeVar("In")
Out = TypeVar("Out")

Operator: TypeAlias = Callable[[Observable[In]], Observable[Out]]
"""What turns one observable into another; the form that `pipe` takes."""

Functions: TypeAlias = tuple[Callable[[In], None] | None, Callable[[Exception], None] | None, Callable[[], None] | None]
"""What a subscriber is told with: an element, the error, completion."""


class Stream(Observable[Out]):
    """An observable that refuses what nobody would await; every observable of the library is one.

    Rx calls its subscribers and drops what they return. Of a coroutine function that is a coroutine which never runs,
    and all there is to see is a warning. What a plain operator of Rx returns is no stream, and takes it still.
    """

    def subscribe(
        self,
        on_next: abc.ObserverBase[Out] | Callable[[Out], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
        on_completed: Callable[[], None] | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Subscribe an observer or functions; otherwise as every observable.

        Args:
            on_next: Called with every element; or an observer.
            on_error: Called with the error, if it ends with one.
            on_completed: Called when it completes.
            scheduler: The default scheduler of this subscription.

        Raises:
            TypeError: One of them is a coroutine function.
        """
        functions = _functions(on_next, on_error, on_completed)
        on_batch = cast("TakesBatches[Out]", on_next).on_batch if isinstance(on_next, TakesBatches) else None
        return self._connect(functions, on_batch, scheduler)

    def _connect(
        self,
        functions: Functions[Out],
        on_batch: Callable[[Sequence[Out]], None] | None,
        scheduler: abc.SchedulerBase | None,
    ) -> abc.DisposableBase:
        """Subscribe functions; `on_batch`, where there is one, takes several elements at once."""
        return super().subscribe(*functions, scheduler=scheduler)

    def run(self, scheduler: abc.SchedulerBase | None = None) -> Out:
        """Wait for the end, and return the last element; otherwise as every observable.

        In the thread of a running event loop nothing of that loop goes on while somebody waits. So there only a stream
        that has ended by then will do, or one whose elements come from the thread of a client. An operator of plain Rx
        behind it knows nothing of this: the `run` of what that returns waits for ever.

        Args:
            scheduler: The default scheduler of this subscription.

        Raises:
            RuntimeError: An event loop runs in this thread, and the stream needs it to go on.
            SequenceContainsNoElementsError: It completed without an element.
            Exception: Whatever it ended with.
        """
        if current_loop() is None:
            return super().run(scheduler)
        moved: list[bool] = []
        token = _moving.set(moved)
        last = AsyncSubject[Out]()
        try:
            subscription = self.subscribe(last, scheduler=scheduler)
        finally:
            _moving.reset(token)
        if not last.is_stopped and not moved:
            subscription.dispose()
            raise RuntimeError(
                "expected a thread that may wait, got one whose event loop the stream needs: await final_response(...),"
                " read with iterate, or use Client.in_thread()"
            )
        return last.run()


def _functions(
    on_next: abc.ObserverBase[In] | Callable[[In], None] | None,
    on_error: Callable[[Exception], None] | None,
    on_completed: Callable[[], None] | None,
) -> Functions[In]:
    """Find the functions of a subscriber, which may be an observer.

    Raises:
        TypeError: One of them is a coroutine function.
    """
    observer: Any = on_next
    if callable(getattr(observer, "on_next", None)):
        on_next, on_error, on_completed = observer.on_next, observer.on_error, observer.on_completed
    functions: Any = {"on_next": on_next, "on_error": on_error, "on_completed": on_completed}
    for name, function in functions.items():
        if _is_asynchronous(function):
            raise TypeError(
                f"expected a function for {name}, got a coroutine function, which nobody would await:"
                " use map_async, or read with iterate"
            )
    return functions["on_next"], on_error, on_completed


_moving: ContextVar[list[bool] | None] = ContextVar("orx_rx_moving", default=None)


def moved() -> None:
    """Take note that the subscription which begins goes on in another thread, so that this one may wait for it."""
    moving = _moving.get()
    if moving is not None:
        moving.append(True)


def _is_asynchronous(function: object) -> bool:
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or (callable(function) and iscoroutinefunction(type(function).__call__))


class TakesBatches(abc.ObserverBase[In]):
    """An observer that takes several elements at once."""

    def on_batch(self, values: Sequence[In]) -> None:
        """Take elements that came at once: one after the other."""
        for value in values:
            self.on_next(value)


class Attached(Observer[In], TakesBatches[In]):
    """An observer that an operator is subscribed with as it is, without the one that Rx puts between any two.

    It detaches itself from what has ended, or stands in front of another that does.
    """


class Lifted(Stream[Out]):
    """What an operator returns: what takes batches gets what comes at once as one.

    Args:
        subscribe: Begins a subscription of an observer that needs no other between.
    """

    def __init__(self, subscribe: Callable[[Attached[Out], abc.SchedulerBase | None], abc.DisposableBase]) -> None:
        super().__init__(cast("Any", subscribe))  # which Rx would call with any observer, were it not for `_connect`

    def attach(self, observer: Attached[Out], scheduler: abc.SchedulerBase | None) -> abc.DisposableBase:
        """Subscribe an observer as it is."""
        try:
            return CompositeDisposable(observer, self._subscribe_core(observer, scheduler))
        except Exception as error:
            if not observer.fail(error):
                raise
            return Disposable()

    def _connect(
        self,
        functions: Functions[Out],
        on_batch: Callable[[Sequence[Out]], None] | None,
        scheduler: abc.SchedulerBase | None,
    ) -> abc.DisposableBase:
        detaching = _Detaching(functions, on_batch)

        def connect() -> None:
            detaching.subscription.disposable = self.attach(detaching, scheduler)

        on_trampoline(connect)
        return Disposable(detaching.dispose)


class _Detaching(Attached[In]):
    """Hands everything on until the end, and detaches the chain then: what Rx has its AutoDetachObserver for.

    Args:
        functions: What to hand it to.
        on_batch: Called with elements that come at once; where it is None, each goes to the first of the functions.
    """

    def __init__(self, functions: Functions[In], on_batch: Callable[[Sequence[In]], None] | None) -> None:
        super().__init__(*functions)
        self.subscription = SingleAssignmentDisposable()
        self._on_next = functions[0] or noop
        self._on_batch = on_batch

    def on_next(self, value: In) -> None:
        if not self.is_stopped:
            self._on_next(value)

    def on_batch(self, values: Sequence[In]) -> None:
        if self._on_batch is not None:
            if not self.is_stopped:
                self._on_batch(values)
            return
        on_next = self._on_next
        for value in values:
            if self.is_stopped:
                return
            on_next(value)

    def _on_error_core(self, error: Exception) -> None:
        try:
            super()._on_error_core(error)
        finally:
            self.dispose()

    def _on_completed_core(self) -> None:
        try:
            super()._on_completed_core()
        finally:
            self.dispose()

    def dispose(self) -> None:
        super().dispose()
        self.subscription.dispose()


def on_trampoline(connect: Callable[[], None]) -> None:
    """Subscribe as every observable of Rx does: what is scheduled in this thread meanwhile waits until it is done."""
    trampoline = CurrentThreadScheduler.singleton()
    if trampoline.schedule_required():
        trampoline.schedule(lambda _scheduler, _state: connect())
    else:
        connect()


def attach(observer: Attached[In], source: Observable[In], scheduler: abc.SchedulerBase | None) -> abc.DisposableBase:
    """Subscribe an observer in the shortest way that the source allows."""
    if isinstance(source, Lifted):
        return source.attach(observer, scheduler)
    return source.subscribe(observer, scheduler=scheduler)
