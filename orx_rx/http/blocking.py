"""Read an observable with `for`, in a thread that waits."""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING, Any, Self, TypeVar

from reactivex.disposable import SingleAssignmentDisposable

from orx_rx.inbox import Reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from reactivex import Observable

    from orx_rx.inbox import Inbox

T = TypeVar("T")

GLANCE = 0.2  # seconds after which a thread that waits looks up, since on Windows Ctrl-C does not interrupt a wait


class BlockingIteration(Reading[T]):
    """The reading of one observable by a thread that waits; made by `ThreadedClient.iterate`.

    Args:
        observable: What to read. It has to emit in another thread, and to be subscribed to there within the inbox.
        inbox: Where it waits to be read.
        may_wait: Raises in a thread that must not wait.
    """

    # The subscription leads to the inbox and not to the iteration, so that an iteration that is dropped is collected
    # while the stream runs, and ends it.

    def __init__(self, observable: Observable[T], inbox: Inbox[T], may_wait: Callable[[], None]) -> None:
        self._call = _Call()
        super().__init__(inbox, self._call.answer)
        self._observable = observable
        self._may_wait = may_wait
        self._begun = False
        self._over = False
        self._subscription = SingleAssignmentDisposable()

    def __iter__(self) -> Self:
        """Begin to read, or go on.

        Raises:
            RuntimeError: The reading has ended.
        """
        if self._over:
            raise RuntimeError(
                "expected an iteration that has not ended, got one that has: iterate the observable anew"
            )
        return self

    def __next__(self) -> T:
        """Wait for the next element.

        Raises:
            RuntimeError: This is the thread of the event loop, which would wait for itself.
        """
        self._may_wait()
        try:
            if not self._begun:
                self._begin()
            if self._inbox.is_empty:
                self._inbox.was_read()
                self._call.wait(self._inbox)
            if self._inbox.elements:
                return self._inbox.take()
            raise self._inbox.take_end() or StopIteration
        except BaseException:  # the end, an error, or Ctrl-C
            self.close()
            raise

    def __enter__(self) -> Self:
        """Begin to read."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop reading."""
        self.close()

    def close(self) -> None:
        """Stop reading: dispose the subscription and forget what was not read; from any thread."""
        self._over = True
        self._inbox.clear()
        self._subscription.dispose()

    def __del__(self) -> None:
        """Dispose the subscription of a loop that was left by `break`."""
        self.close()

    def _begin(self) -> None:
        self._begun = True
        if not self._over:
            self._subscription.disposable = self._observable.subscribe(self._inbox)
            self._inbox.subscribed(self._subscription)


class _Call:
    """What a reader waits for, in its thread; the inbox knows nothing else of the reader."""

    def __init__(self) -> None:
        self._news = Condition()

    def wait(self, inbox: Inbox[Any]) -> None:
        """Wait until there is something in an inbox, or the end."""
        with self._news:
            while inbox.is_empty:
                self._news.wait(GLANCE)

    def answer(self) -> None:
        """Wake whoever waits."""
        with self._news:
            self._news.notify_all()
