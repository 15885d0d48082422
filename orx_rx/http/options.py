"""What a client is given: options of the right kind, and fields that are JSON, or an error that says which is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
from itertools import chain
from typing import TYPE_CHECKING, Any

from aiohttp import ClientSession
from pydantic import SecretStr
from reactivex import abc

from orx_rx.http.retry import Retry
from orx_rx.http.source import to_json
from orx_rx.http.timeouts import Timeouts
from orx_rx.models.base import not_json
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.violations import Profile

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = (int, float)

_KINDS: Mapping[str, tuple[Any, ...]] = {
    "base_url": (str,),
    "api_key": (str, SecretStr),
    "session": (ClientSession,),
    "headers": (Mapping,),
    "timeouts": (Timeouts,),
    "retry": (Retry,),
    "profile": (Profile,),
    "into": (Accumulator,),
    "linger": _NUMBER,
    "max_frame_bytes": (int,),
    "on_attempt": (Callable,),
    "scheduler": (abc.SchedulerBase,),
}

_LIKE = 0.75  # how much of two names has to be the same, from 0 to 1; `input` and `into` are not that alike


def check_kinds(**given: object) -> None:
    """Refuse options that would fail later, where nobody knows any more whose they are; None is the default of most.

    Args:
        **given: The options by their names.

    Raises:
        TypeError: One is of another kind.
    """
    for name, value in given.items():
        kinds = _KINDS[name]
        if value is not None and not isinstance(value, kinds):
            raise TypeError(f"expected {' or '.join(map(_name, kinds))} for {name}, got {type(value).__name__}")


def body_of(fields: Mapping[str, object], methods: Sequence[Callable[..., object]]) -> bytes:
    """Write the fields of a request as JSON.

    Args:
        fields: The fields, without models. A misspelt option is one of them, and most often no JSON.
        methods: Those that have options.

    Raises:
        TypeError: One is not JSON; the message says which, and what option it resembles.
        ValueError: One holds a number or a text that JSON cannot hold.
    """
    try:
        return to_json(fields)
    except (TypeError, ValueError):
        for name, value in fields.items():
            _check_field(name, value, methods)
        raise


def _check_field(name: str, value: object, methods: Sequence[Callable[..., object]]) -> None:
    try:
        to_json(value)
    except TypeError:
        place, odd = next(not_json(value, name), (name, value))
        like = _option_like(name, methods) if place == name else ""
        raise TypeError(f"expected JSON for {place}, got {type(odd).__name__}{like}") from None
    except ValueError as error:
        raise ValueError(f"expected JSON for {name}, got what it cannot hold: {error}") from None


def _option_like(name: str, methods: Sequence[Callable[..., object]]) -> str:
    """Find the options that a field was perhaps meant to be, and say which methods have them."""
    options = {
        method.__name__: [
            option for option, what in signature(method).parameters.items() if what.kind is Parameter.KEYWORD_ONLY
        ]
        for method in methods
    }
    like = get_close_matches(name, sorted({*chain(*options.values())}), n=2, cutoff=_LIKE)
    having = {option: [f"{method}()" for method, its in options.items() if option in its] for option in like}
    told = " or ".join(f"{option} of {' and '.join(its)}" for option, its in having.items())
    return f": did you mean {told}?" if told else ""


def _name(kind: type[object]) -> str:
    return _NAMES.get(kind.__name__, kind.__name__)


_NAMES = {"Callable": "a function", "Mapping": "a mapping", "SchedulerBase": "a scheduler"}
