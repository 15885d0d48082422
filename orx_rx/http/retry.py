"""When to send a request again, and how long to wait."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isnan
from typing import TYPE_CHECKING, Generic, TypeVar

from reactivex.disposable import SerialDisposable, SingleAssignmentDisposable
from reactivex.scheduler import CurrentThreadScheduler

from orx_rx.errors import ConnectFailed, StatusError, StreamTimeout, may_pass
from orx_rx.loops import clock_of
from orx_rx.protocol.resume import doubled
from orx_rx.reporting import Attempt, announce
from orx_rx.stream import Lifted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reactivex import Observable, abc

    from orx_rx.reporting import AttemptListener
    from orx_rx.stream import Attached

T = TypeVar("T")

_HOPELESS = frozenset({"insufficient_quota", "credit_balance_exhausted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How a request that got no answer, or a refusal that may pass, is sent again.

    Waiting begins at `first` seconds, doubles up to `most`, and is shortened by up to a quarter at random, so that
    clients that failed together do not return together. What the server asks for in `retry-after-ms` or `Retry-After`
    (seconds or a date) comes first; if it asks for more than `longest`, the request is not sent again.

    Attributes:
        attempts: How often it is sent again, at most.
        first: The first wait, in seconds.
        most: The longest wait of our own choice, in seconds.
        longest: The longest wait that a server may ask for, in seconds.

    Raises:
        ValueError: A number is negative.
    """

    attempts: int = 2
    first: float = 0.5
    most: float = 8.0
    longest: float = 120.0

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        for name in ("attempts", "first", "most", "longest"):
            if not getattr(self, name) >= 0:  # nor is NaN
                raise ValueError(f"expected {name} of at least 0, got {getattr(self, name)}")

    def delay(
        self,
        error: Exception,
        attempt: int,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = random.random,
    ) -> float | None:
        """Decide how long to wait before the request is sent again, in seconds; None: it is not.

        Args:
            error: What became of the last attempt.
            attempt: How often it was sent again already.
            now: The time, for a `Retry-After` that is a date.
            chance: A number from 0 to 1.
        """
        if attempt >= self.attempts or not may_retry(error):
            return None
        asked = _asked(error.headers, now) if isinstance(error, StatusError) else None
        if asked is not None:
            return asked if asked <= self.longest else None
        return backoff(self.first, self.most, attempt, chance)


def may_retry(error: Exception) -> bool:
    """Say whether sending the same request again may help."""
    if isinstance(error, StatusError):
        if error.code in _HOPELESS or error.type in _HOPELESS:
            return False
        told = error.headers.get("x-should-retry")
        if told in ("true", "false"):
            return told == "true"
        return may_pass(error.status)
    return isinstance(error, ConnectFailed) or (isinstance(error, StreamTimeout) and error.clock == "connect")


def backoff(first: float, most: float, attempt: int, chance: Callable[[], float] = random.random) -> float:
    """Choose a wait: doubling from `first` to `most` seconds, shortened by up to a quarter."""
    return doubled(first, most, attempt) * (1 - chance() / 4)


def _asked(headers: Mapping[str, str], now: Callable[[], datetime]) -> float | None:
    """Read how long the server asks to wait, in seconds; None if it does not, or not in a way that can be read."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            seconds = float(headers[name]) * scale
            if not isnan(seconds):
                return max(0.0, seconds)
    try:
        date = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    if date.tzinfo is None:  # the zone -0000
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - now()).total_seconds())


def retried(
    source: Observable[T],
    retry: Retry,
    *,
    on_attempt: AttemptListener | None = None,
    scheduler: abc.SchedulerBase | None = None,
) -> Observable[T]:
    """Subscribe again to a source that failed before its first element, as often as the rules allow.

    ::

        source:    #      #      --a--b--|
        retried:   --wait--wait----a--b--|

    Args:
        source: Every subscription to it is a request.
        retry: The rules.
        on_attempt: Hears of every attempt before the wait; what it raises is logged and harms nobody.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop.
    """

    def subscribe(observer: Attached[T], subscriber_scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        clock = clock_of(scheduler, subscriber_scheduler) or CurrentThreadScheduler.singleton()
        retrying = _Retrying(source, observer, retry, on_attempt, clock)
        retrying.connect()
        return retrying.subscription

    return Lifted(subscribe)


class _Retrying(Generic[T]):
    """One logical request, over as many attempts as it takes."""

    def __init__(
        self,
        source: Observable[T],
        observer: abc.ObserverBase[T],
        retry: Retry,
        on_attempt: AttemptListener | None,
        clock: abc.SchedulerBase,
    ) -> None:
        self.subscription = SerialDisposable()
        self._source = source
        self._observer = observer
        self._retry = retry
        self._listener = on_attempt
        self._clock = clock
        self._again = 0
        self._begun = False

    def connect(self, *_: object) -> None:
        """Send the request."""
        connection = SingleAssignmentDisposable()
        self.subscription.disposable = connection
        connection.disposable = self._source.subscribe(
            self._on_next, self._on_error, self._observer.on_completed, scheduler=self._clock
        )

    def _on_next(self, element: T) -> None:
        self._begun = True
        self._observer.on_next(element)

    def _on_error(self, error: Exception) -> None:
        delay = None if self._begun else self._retry.delay(error, self._again)
        if delay is None:
            self._observer.on_error(error)
            return
        self._again += 1
        announce(Attempt("retry", self._again, delay, error), self._listener)
        self.subscription.disposable = self._clock.schedule_relative(delay, self.connect)
