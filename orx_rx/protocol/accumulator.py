"""The accumulator: the response as it stands after every event.

Per event it does work in proportion to the delta: pieces are kept, and joined when somebody reads. An event knows the
length of its text as of itself, so reading it later still gives what was there then.

Where sources say different things, the later in this order wins, if it says anything: deltas, the `*.done` events, the
item of `response.output_item.done`, the item of the terminal. Differences are violations. A stream that begins in the
middle is legal: what came before stays absent, places never shift, and the terminal settles it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from orx_rx.errors import OrxError
from orx_rx.models import argument_events as argument
from orx_rx.models import item_events as opening
from orx_rx.models import lifecycle_events as lifecycle
from orx_rx.models.event_base import Event, ItemEvent, set_end, set_growth
from orx_rx.models.item_base import StatusItem
from orx_rx.models.items import ITEM_CLASSES, UnknownItem
from orx_rx.models.progress_events import ResponseImageGenCallPartialImageEvent
from orx_rx.models.response import Response
from orx_rx.models.text_events import ResponseOutputTextAnnotationAddedEvent
from orx_rx.protocol.channels import CHANNELS, DELTA_CHANNELS, DONE_CHANNELS, ByClass, Channel, apart, part_channel
from orx_rx.protocol.cursor import REPEATABLE, Cursor
from orx_rx.protocol.holding import Grown, Held, contents, fill, item_named, names_of, overlay, said_of
from orx_rx.protocol.steps import Batched
from orx_rx.protocol.structured import Ending, OutputFormat, ResponseReader, TextReader
from orx_rx.protocol.violations import Judge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from orx_rx.models.item_base import Item
    from orx_rx.models.parts import Part


_DELTAS: ByClass[Channel] = ByClass(DELTA_CHANNELS)
_DONES: ByClass[Channel] = ByClass(DONE_CHANNELS)


class Accumulator(Batched[Event, Event]):
    """Accumulates a response; useful with and without Rx.

    Args:
        judge: Decides what differences cost.
        text_format: The type that the output is to have, whatever a pydantic `TypeAdapter` takes; or None.

    Attributes:
        text_format: The same, ready to parse; it stays when the rest is reset.
        last_sequence_number: The number of the last event, or None.
        images: Partial images in base64, by output index and partial image index.
        final_response: The finished response; None until the terminal.
    """

    takes = Event

    def __init__(self, judge: Judge | None = None, *, text_format: Any = None) -> None:
        self._judge = judge or Judge()
        self.text_format: OutputFormat[Any] | None = None if text_format is None else OutputFormat.of(text_format)
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next event begins a new response."""
        self._judge.reported.clear()
        self.last_sequence_number: int | None = None
        self.images: dict[tuple[int, int], str] = {}
        self.final_response: Response | None = None
        self._ahead = False  # what came last had no number, so that resuming would bring it again
        self._ending = Ending()
        self._numbered: Event | None = None  # the last event with a number
        self._restored = ""  # the id of the response, where a cursor told it
        self._base: Response | None = None
        self._began = self._late = False
        self._held: dict[int, Held] = {}
        self._loose: dict[str, Grown] = {}  # sound and transcript, which belong to no item
        self._last_class: type[Event] | None = None  # of deltas, where they are added
        self._last_place: object = None
        self._where: Callable[[Mapping[str, object]], object] = apart
        self._open: tuple[Held | None, Grown] = (None, _NOTHING)  # what the last delta added to

    def restore(self, cursor: Cursor) -> None:
        """Go on from the snapshot of a cursor; without one, only the response and the place in it are known."""
        self.reset()
        self._restored = cursor.response_id
        if cursor.snapshot is not None:
            snapshot = cursor.snapshot.model_copy(update={"id": cursor.response_id})
            self.feed(lifecycle.ResponseInProgressEvent(response=snapshot))
        self.last_sequence_number, self._ahead, self._numbered = cursor.sequence_number, False, None

    @property
    def response(self) -> Response | None:
        """The response so far, built when it is read; None before the first event."""
        if self.final_response is not None or not self._began:
            return self.final_response
        base = self._base or Response()
        return self._readable(base.model_copy(update={"output": list(self.items.values())}))

    @property
    def items(self) -> dict[int, Item]:
        """The items so far, by output index and in its order; indices of items that are not known are left out."""
        return {index: self._item(held) for index, held in sorted(self._held.items())}

    def known(self, index: int) -> Held | None:
        """Look up what is known of the item at an output index; None where nothing is."""
        return self._held.get(index)

    @property
    def response_id(self) -> str | None:
        """The id of the response; None until the server, or a cursor that was restored, has told it."""
        told = self._base.id if self._base is not None else ""
        return told or self._restored or None

    @property
    def cursor(self) -> Cursor | None:
        """Where to resume: behind the last event that it was fed.

        None where the id or the number that the server gave that event is not known.
        """
        if self.response_id is None or self.last_sequence_number is None or self._ahead:
            return None
        if self._numbered is not None and self._numbered.is_renumbered:
            return None
        return Cursor(self.response_id, self.last_sequence_number)

    @property
    def audio(self) -> bytes:
        """The sound so far."""
        grown = self._loose.get("audio")
        return cast("bytes", grown.growth.read(grown.growth.size)) if grown else b""

    @property
    def transcript(self) -> str:
        """What is spoken, so far."""
        grown = self._loose.get("transcript")
        return cast("str", grown.growth.read(grown.growth.size)) if grown else ""

    def feed_all(self, events: Sequence[Event], knowing: list[Event], /) -> None:
        """Add events, each of which comes out knowing its snapshot.

        Raises:
            LifecycleViolation: What one says differs from what was streamed, and the profile does not let that pass.
        """
        owns = self.owns
        for event in events:
            fields = event.__dict__
            number = fields["sequence_number"]
            if number is not None:
                self.last_sequence_number = number
                self._numbered = event
                self._ahead = False
            elif not isinstance(event, REPEATABLE):
                self._ahead = True
            if type(event) is not self._last_class or self._where(fields) != self._last_place:
                channel = _DELTAS[type(event)]
                if channel is None:
                    knowing.append(self._other(event))
                    continue
                self._open = self._find(event, channel)
                self._last_class, self._where, self._last_place = type(event), channel.where, channel.where(fields)
            held, grown = self._open
            if held is not None:
                held.snapshot = None
            if (logprobs := fields.get("logprobs")) and isinstance(logprobs, list):
                grown.logprobs += logprobs  # pyright: ignore[reportUnknownMemberType]
            growth = grown.growth
            size = growth.append(fields["delta"])
            if owns:
                set_growth(event, growth)
                set_end(event, size)
                knowing.append(event)
            else:
                knowing.append(_growing(event, growth, size))

    def end(self) -> Sequence[Event]:
        """Do nothing: whether the response is whole is not decided here."""
        return ()

    def fail(self, error: Exception) -> Sequence[Event]:
        """Pass on an error with the response so far."""
        if isinstance(error, OrxError) and error.snapshot is None:
            error.snapshot = self.response
        self._judge.throw(error)

    # deltas

    def _find(self, event: Any, channel: Channel) -> tuple[Held | None, Grown]:
        self._begin()
        if not channel.items:
            return None, self._loose.setdefault(channel.name, Grown(channel))
        held = self._hold(event.output_index, next(iter(channel.items)))
        return held, self._part(held, channel, getattr(event, channel.index) if channel.index else 0)

    def _part(self, held: Held, channel: Channel, number: int) -> Grown:
        key = (channel.place, number)
        if key not in held.grown:
            held.grown[key] = Grown(channel)
        return held.grown[key]

    def _hold(self, index: int, kind: str) -> Held:
        held = self._held.get(index)
        if held is None:
            held = self._held[index] = Held(kind, partial=self._late)
        held.kind = held.kind or kind  # an item may be added as null
        held.snapshot = None
        return held

    def _begin(self) -> None:
        if not self._began:
            self._began = self._late = True

    # other events

    def _other(self, event: Event) -> Event:
        take = self._TAKERS[type(event)]
        if take is None:
            return self._progress(event)
        self._last_class = None  # what it says may replace what grows
        try:
            return take(self, event)
        except OrxError as error:
            error.snapshot = self.response
            raise

    def _progress(self, event: Event) -> Event:
        if isinstance(event, ItemEvent):
            self._begin()
            _, kind, status = event.type.split(".")
            held = self._hold(event.output_index, kind)
            if issubclass(ITEM_CLASSES.get(held.kind, UnknownItem), StatusItem):
                held.status = _STATUSES.get(status, status)
            if isinstance(event, ResponseImageGenCallPartialImageEvent):
                self.images[event.output_index, event.partial_image_index] = event.partial_image_b64
        return event

    def _take_response(self, event: lifecycle.ResponseEvent) -> Event:
        if self.final_response is not None:
            return event
        if not self._began:
            self._began = True
            self._late = not isinstance(event, lifecycle.ResponseCreatedEvent)
        self._base = (
            event.response
            if event.response.id or self._base is None
            else event.response.model_copy(update={"id": self._base.id})
        )
        if not self._held:
            for index, item in enumerate(event.response.output or ()):
                held = self._hold(index, item.type)
                held.added, held.seeded = item, True
                for (_, number), (channel, text) in contents(item).items():
                    self._part(held, channel, number).growth.append(text)  # deltas go on from here
        return event

    def _take_terminal(self, event: lifecycle.TerminalEvent) -> Event:
        if self.final_response is not None:  # the first terminal wins
            return event
        known = self.response_id
        self._began = True
        response = event.response
        # where the event and the embedded status disagree, the worse one counts
        named, said = event.type.removeprefix("response."), response.status
        status = said if isinstance(said, str) and _severity(said) > _severity(named) else named
        output = self._settle(event, response.output or [])
        update = {"id": response.id or known or "", "status": status, "output": output}
        final = self._readable(response.model_copy(update=update))
        self._base = self.final_response = self._ending.response = final
        kind = _TERMINALS.get(status, type(event))
        if kind is type(event):
            return event.model_copy(update={"response": final})
        fields = {**event.__dict__, **(event.model_extra or {}), "type": f"response.{status}", "response": final}
        return kind.model_construct(event.model_fields_set, **fields)

    def _take_item_added(self, event: opening.ResponseOutputItemAddedEvent) -> Event:
        self._begin()
        held = self._hold(event.output_index, event.item.type if event.item else "")
        held.partial = False
        if held.seeded:  # the stream tells it from its beginning after all
            held.seeded = False
            held.grown.clear()
        if event.item is not None:
            held.kind, held.added = event.item.type, event.item
        return event

    def _take_item_done(self, event: opening.ResponseOutputItemDoneEvent) -> Event:
        self._begin()
        held = self._hold(event.output_index, event.item.type if event.item else "")
        if event.item is None:
            return event
        held.kind = event.item.type
        self._compare(held, event.item, event, "done_mismatch", f"output[{event.output_index}]")
        held.done = event.item
        whole = self._item(held)
        return event if whole is event.item else event.model_copy(update={"item": whole})

    def _take_part(self, event: opening.ResponseContentPartAddedEvent | opening.ResponseContentPartDoneEvent) -> Event:
        return self._place_part(event, "content", event.content_index)

    def _take_summary_part(
        self, event: opening.ResponseReasoningSummaryPartAddedEvent | opening.ResponseReasoningSummaryPartDoneEvent
    ) -> Event:
        return self._place_part(event, "summary", event.summary_index)

    def _place_part(self, event: Any, place: str, number: int) -> Event:
        self._begin()
        part: Part = event.part
        known = self._held.get(event.output_index)
        channel = part_channel(place, part.type, known.kind if known else "") or _OTHER_PARTS[place]
        held = self._hold(event.output_index, next(iter(channel.items)))
        grown = self._part(held, channel, number)
        text: object = getattr(part, channel.field, None)
        text = text if isinstance(text, str) else None  # a part of an unknown type may hold anything
        if event.type.endswith(".added"):
            if text and not grown.growth.size:
                grown.growth.append(text)  # a part may begin with text; deltas add to it
        else:
            if not held.partial:
                where = f"output[{event.output_index}].{place}[{number}]"
                self._differ(grown.streamed(), text, event, "done_mismatch", where)
            grown.closed = text
        grown.part = part
        return cast("Event", event)

    def _take_annotation(self, event: ResponseOutputTextAnnotationAddedEvent) -> Event:
        self._begin()
        grown = self._part(self._hold(event.output_index, "message"), _TEXT, event.content_index)
        grown.annotations[event.annotation_index] = event.annotation
        return event

    def _take_command(self, event: argument.ResponseShellCallCommandAddedEvent) -> Event:
        self._begin()
        grown = self._part(self._hold(event.output_index, "shell_call"), _COMMAND, event.command_index)
        if event.command:
            grown.growth.append(event.command)
        return event

    def _take_done(self, event: Any) -> Event:
        channel = _DONES[type(event)]
        assert channel is not None
        held, grown = self._find(event, channel)
        if held is None or not channel.told:
            return cast("Event", event)
        told = getattr(event, channel.told)
        if channel.compared and grown.growth.size and not held.partial:
            number = f"[{getattr(event, channel.index)}]" if channel.index else ""
            where = f"output[{event.output_index}].{channel.place}{number}"
            self._differ(grown.growth.read(grown.growth.size), told, event, "done_mismatch", where)
        grown.told = told
        if isinstance(logprobs := getattr(event, "logprobs", None), list) and logprobs:
            grown.logprobs = list(logprobs)  # pyright: ignore[reportUnknownArgumentType]
        if channel is _TEXT and self.text_format is not None:
            item = held.done or held.added
            return cast(
                "Event", event.parsing(TextReader(self.text_format, getattr(item, "phase", None), self._ending))
            )
        return cast("Event", event)

    # comparing

    def _compare(self, held: Held, item: Item, event: Event, code: str, where: str) -> None:
        """Compare what an item says with what was streamed of it."""
        if held.partial:
            return
        known = {
            (grown.channel.name, number): (grown.channel, grown.streamed())
            for (_, number), grown in held.grown.items()
            if grown.channel.compared
        }
        if held.done is not None:
            known |= contents(held.done)
        for (_, number), (channel, text) in known.items():
            at = f"{where}.{channel.place}[{number}]" if channel.index else f"{where}.{channel.place}"
            self._differ(text, said_of(item, channel, number), event, code, at)

    def _differ(self, streamed: Any, said: Any, event: Event, code: str, where: str) -> None:
        if streamed is None or streamed == (said or ""):
            return
        message = f"expected the {len(streamed)} characters that were streamed, got {_length(said)}"
        self._judge.found(code, message, event=event, place=where)

    # snapshots

    def _readable(self, response: Response) -> Response:
        return response if self.text_format is None else response.parsing(ResponseReader(self.text_format))

    def _item(self, held: Held) -> Item:
        if held.snapshot is None:
            base = held.done or held.added or item_named(held.kind)
            held.snapshot = overlay(base, held, prefer_item=held.done is not None)
        return held.snapshot

    def _settle(self, event: lifecycle.TerminalEvent, output: Sequence[Item]) -> list[Item]:
        """Make the final output out of what the terminal lists and what was streamed."""
        if not self._held:
            return list(output)
        if not output:
            if event.type != "response.failed":
                message = f"expected the {len(self._held)} items that were streamed, got none"
                self._judge.found("terminal_output_empty", message, event=event, place="response.output")
            return list(self.items.values())
        matches = self._match(output, event)
        final: list[Item] = []
        for place, item in enumerate(output):
            held = self._held.get(matches.get(place, -1))
            if held is None:
                final.append(item)
                continue
            self._compare(held, item, event, "terminal_mismatch", f"response.output[{place}]")
            done = held.done is not None
            final.append(fill(item, self._item(held)) if done else overlay(item, held, prefer_item=True))
        order = [matches[place] for place in sorted(matches)]
        if order != sorted(order):
            message = f"expected the items in the order of their output index, got {order}"
            self._judge.found("terminal_order", message, event=event, place="response.output")
        for index in sorted(set(self._held) - set(order)):
            message = f"expected the {self._held[index].kind or 'item'} of output index {index}, got none"
            self._judge.found("terminal_mismatch", message, event=event, place="response.output")
            final.append(self._item(self._held[index]))
        return final

    def _match(self, output: Sequence[Item], event: Event) -> dict[int, int]:
        """Find the output index of each item of the terminal: by id, else by type, and by place where that agrees."""
        names = {
            name: index
            for index, held in self._held.items()
            for item in (held.added, held.done)
            if item is not None
            for name in names_of(item)
        }
        matches: dict[int, int] = {}
        for place, item in enumerate(output):
            found = next((names[name] for name in names_of(item) if name in names), None)
            if found is not None and found not in matches.values():
                matches[place] = found
        order = sorted(self._held)
        free = sorted(set(order) - set(matches.values()))
        for place, item in enumerate(output):
            fitting = [index for index in free if self._held[index].kind in ("", item.type)]
            if place in matches or not fitting:
                continue
            index = order[place] if place < len(order) and order[place] in fitting else fitting[0]
            free.remove(index)
            matches[place] = index
            streamed = self._held[index].done or self._held[index].added
            if item.id and streamed is not None and streamed.id:
                message = f"expected item id {streamed.id}, got {item.id}"
                self._judge.found("item_id_changed", message, event=event, place=f"response.output[{place}]")
        return matches

    _BY_CLASS: ClassVar[dict[type[Event], Callable[[Any, Any], Event]]] = {
        lifecycle.ResponseCreatedEvent: _take_response,
        lifecycle.ResponseQueuedEvent: _take_response,
        lifecycle.ResponseInProgressEvent: _take_response,
        lifecycle.ResponseCompletedEvent: _take_terminal,
        lifecycle.ResponseFailedEvent: _take_terminal,
        lifecycle.ResponseIncompleteEvent: _take_terminal,
        opening.ResponseOutputItemAddedEvent: _take_item_added,
        opening.ResponseOutputItemDoneEvent: _take_item_done,
        opening.ResponseContentPartAddedEvent: _take_part,
        opening.ResponseContentPartDoneEvent: _take_part,
        opening.ResponseReasoningSummaryPartAddedEvent: _take_summary_part,
        opening.ResponseReasoningSummaryPartDoneEvent: _take_summary_part,
        ResponseOutputTextAnnotationAddedEvent: _take_annotation,
        argument.ResponseShellCallCommandAddedEvent: _take_command,
        **dict.fromkeys(DONE_CHANNELS, _take_done),
    }
    """What each class of event that is not a delta does."""

    _TAKERS: ClassVar[ByClass[Callable[[Any, Any], Event]]] = ByClass(_BY_CLASS)


_growing = Event.growing  # looked up on an event, a method is searched for among its fields first


_SEVERITY: Mapping[str, int] = {"completed": 1, "incomplete": 2, "cancelled": 3, "failed": 4}


def _severity(status: str) -> int:
    return _SEVERITY.get(status, 0)


_STATUSES: Mapping[str, str] = {"partial_image": "generating"}
"""The status that a progress event means, where its name says something else."""

_TERMINALS: Mapping[str, type[lifecycle.TerminalEvent]] = {
    "completed": lifecycle.ResponseCompletedEvent,
    "incomplete": lifecycle.ResponseIncompleteEvent,
    "failed": lifecycle.ResponseFailedEvent,
}

_TEXT, _COMMAND = (next(row for row in CHANNELS if row.name == name) for name in ("text", "command"))

_NOTHING = Grown(_TEXT)

_OTHER_PARTS: Mapping[str, Channel] = {
    place: next(channel for channel in CHANNELS if channel.place == place) for place in ("content", "summary")
}
"""Where parts of a type without a channel are kept: as parts, without a text that grows."""


def _length(said: object) -> str:
    if not said:
        return "nothing"
    return f"{len(said)} characters that differ" if isinstance(said, str) else "a value that is not text"
