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
        return super().subscribe(*told(on_next, on_error, on_completed), scheduler=scheduler)

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


def told(
    on_next: abc.ObserverBase[In] | Callable[[In], None] | None,
    on_error: Callable[[Exception], None] | None = None,
    on_completed: Callable[[], None] | None = None,
) -> tuple[Callable[[In], None] | None, Callable[[Exception], None] | None, Callable[[], None] | None]:
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
    """What an operator returns: what takes batches gets what comes at once as one."""

    def attach(self, observer: Attached[Out], scheduler: abc.SchedulerBase | None) -> abc.DisposableBase:
        """Subscribe an observer as it is."""
        try:
            return CompositeDisposable(observer, self._subscribe_core(observer, scheduler))
        except Exception as error:
            if not observer.fail(error):
                raise
            return Disposable()

    def subscribe(
        self,
        on_next: abc.ObserverBase[Out] | Callable[[Out], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
        on_completed: Callable[[], None] | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Subscribe an observer or functions, as to every `Stream`."""
        detaching: _Detaching[Out]
        if isinstance(on_next, TakesBatches):
            observer = cast("TakesBatches[Out]", on_next)
            detaching = _Detaching(observer.on_next, observer.on_error, observer.on_completed, observer.on_batch)
        else:
            detaching = _Detaching(*told(on_next, on_error, on_completed))

        def connect() -> None:
            detaching.subscription.disposable = self.attach(detaching, scheduler)

        on_trampoline(connect)
        return Disposable(detaching.dispose)


class _Detaching(Attached[In]):
    """Hands everything on until the end, and detaches the chain then: what Rx has its AutoDetachObserver for.

    Args:
        on_next: Called with every element.
        on_error: Called with the error, if it ends with one.
        on_completed: Called when it completes.
        on_batch: Called with elements that come at once; by default each goes to `on_next`.
    """

    def __init__(
        self,
        on_next: Callable[[In], None] | None,
        on_error: Callable[[Exception], None] | None,
        on_completed: Callable[[], None] | None,
        on_batch: Callable[[Sequence[In]], None] | None = None,
    ) -> None:
        super().__init__(on_next, on_error, on_completed)
        self.subscription = SingleAssignmentDisposable()
        self._on_next = on_next or noop
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


def attach(
    observer: abc.ObserverBase[In], source: Observable[In], scheduler: abc.SchedulerBase | None
) -> abc.DisposableBase:
    """Subscribe an observer in the shortest way that both allow."""
    if isinstance(source, Lifted) and isinstance(observer, Attached):
        return source.attach(observer, scheduler)
    return source.subscribe(observer, scheduler=scheduler)
