"""Where reported violations go: to a listener and to the log.

Logging goes through the standard logger `orx_rx`, which is silent until the application configures it, whatever the
configuration of structlog is. Records carry their fields as `extra` under the name `orx_rx`; neither content nor
secrets are among them.
"""

from __future__ import annotations

import logging
import sys
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any, cast

import structlog

from orx_rx.protocol.violations import DEFAULT, Judge, Profile, Violation
from orx_rx.step import current_loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import abc
    from structlog.typing import EventDict

    ViolationListener = Callable[[Violation], object] | abc.ObserverBase[Violation]
    """Who hears of reported violations: a function or an Rx observer."""

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
    tell = cast("Callable[[Violation], object] | None", getattr(on_violation, "on_next", on_violation))
    if tell is not None and not callable(tell):
        raise TypeError(f"expected on_violation to be a function or an observer, got {tell!r}")

    def report(violation: Violation) -> None:
        log.warning(
            "violation",
            code=violation.code,
            sequence_number=violation.sequence_number,
            event_type=violation.event_type,
            place=violation.place,
            profile=profile.name,
        )
        if tell is None:
            return
        try:
            tell(violation)
        except (Exception, CancelledError):
            log.exception("a violation listener raised", code=violation.code)

    return lambda: Judge(profile, report)
