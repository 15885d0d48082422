"""Steps and operators: the only bridge between the rules of the protocol and Rx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from orx_rx.loops import clock_of
from orx_rx.protocol.steps import Batched
from orx_rx.stream import Attached, Lifted, attach

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reactivex import Observable, abc

    from orx_rx.stream import Operator

In = TypeVar("In")
Out = TypeVar("Out")
In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)

_BATCH = 32  # items at most: more would keep more alive at a time than the garbage collector likes


class Step(Protocol[In_contra, Out_co]):
    """The logic of an operator, without Rx and without I/O.

    A step that has something to say when the source fails has a third method, see `FailingStep`. One that takes a
    single class of items may say so in a class attribute `takes`, and is not fed anything else. One that is
    `orx_rx.protocol.steps.Batched` is fed several items before what the first one completes is handed on.
    """

    def feed(self, item: In_contra, /) -> Sequence[Out_co]:
        """Take an item and return what it completes, which may be nothing; or raise what is wrong."""
        ...

    def end(self) -> Sequence[Out_co]:
        """Take the end of the source and return what is left; or raise what is missing."""
        ...


class FailingStep(Step[In_contra, Out_co], Protocol[In_contra, Out_co]):
    """A step that decides what an error of the source means."""

    def fail(self, error: Exception, /) -> Sequence[Out_co]:
        """Take an error of the source: raise it or a better one, or return what is left and complete."""
        ...


class SettlingStep(FailingStep[In_contra, Out_co], Protocol[In_contra, Out_co]):
    """A step that is `Batched` and `Settling`, see `orx_rx.protocol.steps`."""

    settling: bool
    on_settling: Callable[[], None] | None

    def feed_all(self, items: Sequence[In_contra], outputs: list[Any], /) -> None:
        """Take some items, and add what they complete to the outputs."""
        ...

    def expire(self) -> Sequence[Out_co]:
        """Take note that the source did not end in time: return what is left and complete, or raise."""
        ...


def lift(make_step: Callable[[], Step[In, Out]], *, one_by_one: bool = False) -> Operator[In, Out]:
    """Make an operator out of a step.

    Every subscription gets a fresh step. What the step raises goes to `on_error` and ends the feeding; errors of the
    source pass, unless the step has a `fail` method that says better; what a subscriber raises is neither swallowed nor
    mistaken for an error of the step.

    Args:
        make_step: Called once for each subscription.
        one_by_one: Whether what an item completes is handed on before the next one is fed, in any case: for a step that
            is `Batched`, and that somebody looks into.
    """

    def operator(source: Observable[In]) -> Observable[Out]:
        def subscribe(observer: Attached[Out], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            step = make_step()
            batches = isinstance(step, Batched) and not one_by_one
            feeding = BatchObserver(step, observer) if batches else StepObserver(step, observer)
            return attach(feeding, source, scheduler)

        return Lifted(subscribe)

    return operator


def lift_settling(
    make_step: Callable[[], SettlingStep[In, Out]], patience: float, scheduler: abc.SchedulerBase | None = None
) -> Operator[In, Out]:
    """Make an operator out of a step that settles; otherwise as `lift`.

    Args:
        make_step: Called once for each subscription.
        patience: How long a settling step waits for the end of the source, in seconds.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop. Where there is
            neither, the step waits until the source ends.
    """

    def operator(source: Observable[In]) -> Observable[Out]:
        def subscribe(
            observer: Attached[Out], subscriber_scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            clock = clock_of(scheduler, subscriber_scheduler)
            settling = _SettlingObserver(make_step(), observer, patience, clock)
            subscription = attach(settling, source, subscriber_scheduler)
            return CompositeDisposable(subscription, settling.timer)

        return Lifted(subscribe)

    return operator


class StepObserver(Attached[In]):
    """Feeds a step and hands on what it returns.

    Written against the methods that the base class offers to subclasses, because with plain callbacks a source that
    emits synchronously goes on feeding after the step raised.
    """

    def __init__(self, step: Step[In, Out], observer: Attached[Out]) -> None:
        super().__init__()
        self._step: Any = step
        self._feed: Callable[[In], Sequence[Any]] = self._feed_first
        self._observer = observer
        self._hand_on: Callable[[Sequence[Any]], None] = observer.on_batch
        self._raised: Exception | None = None  # by the subscriber, and no error of the source when it comes back as one

    def on_next(self, value: In) -> None:
        """Feed one item."""
        if self.is_stopped:
            return
        try:
            outputs = self._feed(value)
        except Exception as error:  # whatever a step raises is the error of the stream
            self.is_stopped = True
            self._observer.on_error(error)
            return
        if outputs:
            try:
                self._hand_on(outputs)
            except Exception as error:
                self._raised = error
                raise

    def _feed_first(self, value: In) -> Sequence[Any]:
        """Feed the first item, which shows whether the operators are in an order that fits."""
        self._feed = self._step.feed
        self._check_kind(value)
        return self._feed(value)

    def _check_kind(self, value: In) -> None:
        takes: type[object] = getattr(self._step, "takes", object)
        if not isinstance(value, takes):
            raise TypeError(f"expected a source of {takes.__name__} elements, got one of {type(value).__name__}")

    def _on_completed_core(self) -> None:
        self._finish(self._step.end)

    def _on_error_core(self, error: Exception) -> None:
        fail = getattr(self._step, "fail", None)
        if fail is None or error is self._raised:
            self._observer.on_error(error)
        else:
            self._finish(lambda: fail(error))

    def _finish(self, last: Callable[[], Sequence[Any]]) -> None:
        try:
            outputs = last()
        except Exception as error:
            self._observer.on_error(error)
            return
        try:
            if outputs:
                self._hand_on(outputs)
        except Exception as error:  # the source has ended, so that nobody else tells the rest of the pipeline
            self._observer.on_error(error)
            raise
        self._observer.on_completed()


class BatchObserver(StepObserver[In]):
    """Feeds a step all at once what the step in front of it returned at once.

    What a chunk of a busy stream brings goes through such steps side by side, for half of what it costs one by one.
    """

    def __init__(self, step: Step[In, Out], observer: Attached[Out]) -> None:
        super().__init__(step, observer)
        self._feed_all: Callable[[Sequence[In], list[Any]], None] = self._feed_all_first
        self._chain: tuple[BatchObserver[Any], ...] = (self,)  # with those behind it that are fed in batches, too
        self._settled: list[_SettlingObserver[Any]] = []  # those of the chain that settled in this batch
        if isinstance(observer, BatchObserver):
            self._settled = observer._settled
            self._chain = (self, *observer._chain)
            if self._step.completes == "new":
                observer._own()

    def on_next(self, value: In) -> None:
        """Feed one item."""
        self.on_batch((value,))

    def on_batch(self, values: Sequence[In]) -> None:
        """Feed what a step in front of this one returned at once."""
        if self.is_stopped:
            return
        if len(values) > _BATCH:
            for start in range(0, len(values), _BATCH):
                self.on_batch(values[start : start + _BATCH])
            return
        try:
            for stage in self._chain:  # a loop, because to call one from the other costs more than some of them do
                outputs: list[Any] = []
                try:
                    stage._feed_all(values, outputs)
                except Exception as error:  # behind what the items before it completed
                    self.is_stopped = stage.is_stopped = True
                    stage._fail_behind(outputs, error)
                    return
                if not outputs:
                    return
                values = outputs
            try:
                self._chain[-1]._hand_on(values)
            except Exception as error:
                for stage in self._chain:
                    stage._raised = error
                raise
        finally:
            if self._settled:
                self._wind()

    def _wind(self) -> None:
        """Let those wait for the end that settled, now that everything before it was handed on."""
        while self._settled:
            self._settled.pop().wait()

    def _fail_behind(self, outputs: Sequence[Any], error: Exception) -> None:
        """Hand on what came before an error, and then the error; or what a subscriber raised, which came first."""
        try:
            if outputs:
                self._hand_on(outputs)
        except Exception as raised:  # nobody else can tell the rest of the pipeline, which has stopped here
            error = raised
            raise
        finally:
            self._observer.on_error(error)

    def _own(self) -> None:
        """Let the step know that nobody else has what it is fed."""
        self._step.owns = True
        if isinstance(self._observer, BatchObserver) and self._step.completes == "same":
            self._observer._own()

    def _feed_all_first(self, values: Sequence[In], outputs: list[Any]) -> None:
        """Feed the first items, which show whether the operators are in an order that fits."""
        self._feed_all = self._step.feed_all
        self._check_kind(values[0])
        self._feed_all(values, outputs)


class _SettlingObserver(BatchObserver[In]):
    """Feeds a step that settles, and ends the stream when the source does not."""

    def __init__(
        self,
        step: SettlingStep[In, Out],
        observer: Attached[Out],
        patience: float,
        scheduler: abc.SchedulerBase | None,
    ) -> None:
        super().__init__(step, observer)
        self.timer = SerialDisposable()
        self._patience = patience
        self._scheduler = scheduler
        step.on_settling = lambda: self._settled.append(self)

    def wait(self) -> None:
        """Begin to wait for the end, or stop."""
        if not self._step.settling:
            self.timer.disposable = Disposable()  # not None, which a timer that is disposed does not take
        elif self._scheduler is not None:
            self.timer.disposable = self._scheduler.schedule_relative(self._patience, self._expire)

    def _expire(self, *_: object) -> None:
        if not self.is_stopped:
            self.is_stopped = True
            self._finish(self._step.expire)
