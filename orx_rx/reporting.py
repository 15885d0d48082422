"""Where reported violations and repairs go: to a listener and to the log.

Logging goes through the standard logger `orx_rx`, which is silent until the application configures it, whatever the
configuration of structlog is. Records carry their fields as `extra` under the name `orx_rx`; neither content nor
secrets are among them.
"""

from __future__ import annotations

import logging
import sys
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import structlog

from orx_rx.loops import current_loop
from orx_rx.protocol.violations import DEFAULT, Judge, Profile, Remark, Violation

if TYPE_CHECKING:
    from reactivex import abc
    from structlog.typing import EventDict

    from orx_rx.protocol.repair_kinds import Repair

    ViolationListener = Callable[[Violation], object] | abc.ObserverBase[Violation]
    """Who hears of reported violations: a function or an Rx observer."""

    RepairListener = Callable[[Repair], object] | abc.ObserverBase[Repair]
    """Who hears of repairs: a function or an Rx observer."""

logging.getLogger("orx_rx").addHandler(logging.NullHandler())


def _render(_: Any, __: str, event_dict: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    fields = dict(event_dict)
    message = str(fields.pop("event"))
    exc_info = fields.pop("exc_info", None)
    told = " ".join(f"{name}={_on_one_line(value)}" for name, value in fields.items() if value not in (None, ""))
    return (f"{message} {told}".rstrip(),), {"extra": {"orx_rx": fields}, "exc_info": exc_info}


def _on_one_line(value: object) -> str:
    """Keep names that servers make up from looking like records of their own."""
    text = str(value)
    return text if text.isprintable() else repr(text)


log: structlog.stdlib.BoundLogger = structlog.wrap_logger(
    logging.getLogger("orx_rx"),
    processors=[structlog.stdlib.filter_by_level, _render],
    wrapper_class=structlog.stdlib.BoundLogger,
    context_class=dict,
    cache_logger_on_first_use=True,
)
"""The logger of the library."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A try that is about to be made because the last one failed.

    Attributes:
        kind: What is tried: to `retry` the request, which nobody has answered; to `resume` the stream of a background
            response; or to `poll` the response as a whole.
        number: Which one it is in a row, from 1.
        delay: How long to wait before, in seconds.
        error: What became of the last one; None where it ended without an error and too early.
    """

    kind: Literal["retry", "resume", "poll"]
    number: int
    delay: float
    error: Exception | None


AttemptListener: TypeAlias = Callable[[Attempt], object]
"""Who hears of attempts."""


def announce(attempt: Attempt, listener: AttemptListener | None, **fields: object) -> None:
    """Log an attempt, and tell whoever listens; what that raises is logged and harms nobody.

    Args:
        attempt: The attempt.
        listener: Hears of it.
        fields: What else to log.
    """
    error = None if attempt.error is None else type(attempt.error).__name__
    log.info(attempt.kind, attempt=attempt.number, wait=round(attempt.delay, 3), error=error, **fields)
    if listener is not None:
        try:
            listener(attempt)
        except Exception as raised:
            log.error("a listener to attempts raised", error=type(raised).__name__, exc_info=raised)


def unheard(error: BaseException) -> None:
    """Tell of an error that no subscriber took: the event loop, else whoever hears of uncaught exceptions.

    The log alone would not do, because it is silent until somebody configures it.
    """
    loop = current_loop()
    if loop is not None:
        loop.call_exception_handler({"message": "a subscriber of orx_rx did not take an error", "exception": error})
    else:
        sys.excepthook(type(error), error, error.__traceback__)


def judges(profile: Profile = DEFAULT, on_violation: ViolationListener | None = None) -> Callable[[], Judge]:
    """Make a function that makes a judge for each subscription.

    Args:
        profile: What each violation costs.
        on_violation: Hears of every reported violation; what it raises is logged and harms nobody.

    Raises:
        TypeError: One of them is of another type.
    """
    if not isinstance(profile, Profile):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected a profile, such as DEFAULT, got {profile!r}")
    report = _reporter("violation", on_violation, profile=profile.name)
    return lambda: Judge(profile, report)


def repairs(on_repair: RepairListener | None = None) -> Callable[[Repair], None]:
    """Make a function that logs every repair and tells it to whoever listens.

    Args:
        on_repair: Hears of every repair; what it raises is logged and harms nobody.

    Raises:
        TypeError: It is neither a function nor an observer.
    """
    return _reporter("repair", on_repair)


def _reporter(what: str, listener: object, **fields: object) -> Callable[[Remark], None]:
    """Make a function that logs remarks of one sort, with some more fields, and tells them to whoever listens."""
    tell = cast("Callable[[Remark], object] | None", getattr(listener, "on_next", listener))
    if tell is not None and not callable(tell):
        raise TypeError(f"expected on_{what} to be a function or an observer, got {tell!r}")

    def report(remark: Remark) -> None:
        log.warning(
            what,
            code=remark.code,
            sequence_number=remark.sequence_number,
            event_type=remark.event_type,
            place=remark.place,
            **fields,
        )
        if tell is None:
            return
        try:
            tell(remark)
        except (Exception, CancelledError):
            log.exception(f"a {what} listener raised", code=remark.code)

    return report
