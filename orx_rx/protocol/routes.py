"""What each class of event does to the machines of the lifecycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orx_rx.models import argument_events as argument
from orx_rx.models import item_events as item
from orx_rx.models import lifecycle_events as lifecycle
from orx_rx.models.event_base import ItemEvent
from orx_rx.models.stream_events import KeepaliveEvent, ResponseErrorEvent, StreamEnd, UnknownEvent
from orx_rx.models.text_events import ResponseOutputTextAnnotationAddedEvent
from orx_rx.protocol.channels import DELTA_CHANNELS, DONE_CHANNELS, ByClass, Channel, apart
from orx_rx.protocol.states import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orx_rx.models.event_base import Event


@dataclass(frozen=True, slots=True)
class Route:
    """What the events of one class do.

    Attributes:
        action: What they do to the response.
        item_action: What they do to their item, or None.
        items: The types of the items that they fit; empty for any.
        machine: The machine of their part: `part`, `command`, `field`, or the empty string.
        part_action: What they do to their part, or None.
        place: The field of the item that their part lives in.
        index: The field of the event that says which part.
        parts: The types of the parts that they fit, the usual one first; empty for any.
        where: Reads the place of a delta from its fields; every other event has a place of its own.
    """

    action: Action
    item_action: Action | None = None
    items: frozenset[str] = frozenset()
    machine: str = ""
    part_action: Action | None = None
    place: str = ""
    index: str = ""
    parts: tuple[str, ...] = ()
    where: Callable[[Mapping[str, object]], object] = apart


_MACHINES = {"content": "part", "summary": "part", "commands": "command"}

_FIXED: ByClass[Route] = ByClass(
    {
        lifecycle.ResponseCreatedEvent: Route(Action.CREATE),
        lifecycle.ResponseQueuedEvent: Route(Action.UPDATE),
        lifecycle.ResponseInProgressEvent: Route(Action.UPDATE),
        lifecycle.ResponseCompletedEvent: Route(Action.TERMINAL),
        lifecycle.ResponseFailedEvent: Route(Action.TERMINAL),
        lifecycle.ResponseIncompleteEvent: Route(Action.TERMINAL),
        ResponseErrorEvent: Route(Action.ERROR),
        item.ResponseOutputItemAddedEvent: Route(Action.CONTENT, Action.ADD),
        item.ResponseOutputItemDoneEvent: Route(Action.CONTENT, Action.DONE),
        item.ResponseContentPartAddedEvent: Route(
            Action.CONTENT, Action.USE, frozenset(), "part", Action.ADD, "content", "content_index"
        ),
        item.ResponseContentPartDoneEvent: Route(
            Action.CONTENT, Action.USE, frozenset(), "part", Action.DONE, "content", "content_index"
        ),
        item.ResponseReasoningSummaryPartAddedEvent: Route(
            Action.CONTENT, Action.USE, frozenset({"reasoning"}), "part", Action.ADD, "summary", "summary_index"
        ),
        item.ResponseReasoningSummaryPartDoneEvent: Route(
            Action.CONTENT, Action.USE, frozenset({"reasoning"}), "part", Action.DONE, "summary", "summary_index"
        ),
        argument.ResponseShellCallCommandAddedEvent: Route(
            Action.CONTENT, Action.USE, frozenset({"shell_call"}), "command", Action.ADD, "commands", "command_index"
        ),
        # annotations may still come when their part is done; captures of OpenAI show it
        ResponseOutputTextAnnotationAddedEvent: Route(Action.CONTENT, Action.USE, frozenset({"message"})),
    }
)


_DELTAS: ByClass[Channel] = ByClass(DELTA_CHANNELS)
_DONES: ByClass[Channel] = ByClass(DONE_CHANNELS)


def route(event: type[Event]) -> Route | None:
    """Look up what the events of a class do; None for those that take no part in the lifecycle."""
    if fixed := _FIXED[event]:
        return fixed
    for table, action in ((_DELTAS, Action.USE), (_DONES, Action.FINISH)):
        if channel := table[event]:
            if not channel.items:
                return Route(Action.CONTENT)
            machine = _MACHINES.get(channel.place, "field")
            where = channel.where if action is Action.USE else apart
            place = (channel.place, channel.index, channel.parts)
            return Route(Action.CONTENT, Action.USE, channel.items, machine, action, *place, where)
    if issubclass(event, KeepaliveEvent | UnknownEvent | StreamEnd):
        return None
    if issubclass(event, ItemEvent):  # progress of a hosted tool, whose item has the name in the middle
        return Route(Action.CONTENT, Action.USE, frozenset({str(event.model_fields["type"].default).split(".")[1]}))
    return Route(Action.CONTENT)


class _Routes(dict["type[Event]", "Route | None"]):
    """The routes of the classes that came; a dict is looked up faster than a cache is called."""

    def __missing__(self, event: type[Event]) -> Route | None:
        what = self[event] = route(event)
        return what


ROUTES = _Routes()
"""The route of each class of event; None for those that take no part in the lifecycle."""
