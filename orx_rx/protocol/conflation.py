"""Merging: adjacent deltas of the same part become one, for readers that are slower than the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orx_rx.protocol.channels import DELTA_CHANNELS, ByClass, Channel
from orx_rx.protocol.growth import GROWTHS, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from orx_rx.models.event_base import Event

_CHANNELS: ByClass[Channel] = ByClass(DELTA_CHANNELS)


def where_of(kind: type[object]) -> Callable[[Mapping[str, object]], object] | None:
    """Find what reads the place of a delta from its fields.

    A delta continues the one directly before it when both are of one class and at one place: it is one more piece of
    the same text.

    Args:
        kind: The class of the event, or any other class.

    Returns:
        The function; None where the class is not that of a delta.
    """
    channel = _CHANNELS[kind]  # type: ignore[index]
    return None if channel is None else channel.where


def merged(deltas: Sequence[Event]) -> Event:
    """Make one delta out of several that continue each other.

    It is the last one, with the pieces of all: so its sequence number is the last that was handed on, and its snapshot
    is as of the last.

    Args:
        deltas: The deltas, each of which continues the one before it; one at least.
    """
    last = deltas[-1]
    if len(deltas) == 1:
        return last
    channel = _CHANNELS[type(last)]
    assert channel is not None
    pieces: Any = [event.delta for event in deltas]  # type: ignore[attr-defined]  # every delta has one
    update: dict[str, Any] = {"delta": GROWTHS.get(channel.name, Text).join(pieces)}
    logprobs = [each for event in deltas for each in getattr(event, "logprobs", None) or ()]
    return last.model_copy(update=update | ({"logprobs": logprobs} if logprobs else {}))
