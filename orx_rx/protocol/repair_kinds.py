"""What can be repaired: every kind of repair with the field reports that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from orx_rx.protocol.violations import Remark

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RepairKind:
    """One kind of repair.

    Attributes:
        code: Its name, such as `part_added`.
        sentence: What is done.
        reports: The field reports that it answers.
    """

    code: str
    sentence: str
    reports: tuple[str, ...]


_ROWS: tuple[tuple[str, str, str], ...] = (
    # frames
    ("json_mended", "what is not UTF-8 is replaced, and raw control characters are read as they are", "B29 B30"),
    ("frame_finished", "a whole last event without a blank line behind it counts", "B32"),
    ("frame_dropped", "a frame without data is left out", "B28"),
    ("name_settled", "the type in the data replaces another event name", "B28"),
    ("type_added", "the event name becomes the type that the data lacks", "B28"),
    ("error_typed", "a bare error object becomes an error event", "B18 B26"),
    ("response_unfolded", "a whole response becomes the events of a stream", "B26"),
    # sequence numbers
    ("number_added", "events without a number get the next one", "B04 B22"),
    ("renumbered", "numbers that do not increase, or were taken by added events, are replaced", "B04"),
    ("repeat_dropped", "an event that comes again with the same number is left out", "B04 B21"),
    # the response
    ("created_added", "response.created is added in front of everything that needs it", "B18 B22"),
    ("created_dropped", "a second response.created of the same response is left out", "B21"),
    ("response_id_kept", "the first id of the response stays; the other one is kept as `server_id`", "B13"),
    ("output_listed", "an output that is null becomes a list", "B10"),
    ("usage_renamed", "token counts get the names of this protocol", "B46"),
    ("response_filled", "a terminal without a response gets what is known of it", "B10"),
    ("status_settled", "where event name and status disagree, the worse one counts", "B21 B46"),
    ("terminal_renamed", "an end under another name becomes the terminal of its status", "B21"),
    ("terminal_dropped", "what contradicts the first terminal is left out", "B21"),
    ("late_dropped", "content behind the terminal is left out", "B21 B22"),
    ("output_filled", "an empty terminal gets the items that were streamed", "B10"),
    ("output_completed", "an item of the terminal gets the text that was streamed of it", "B10 B24"),
    ("output_extended", "the terminal gets a streamed item that it leaves out", "B10"),
    # items
    ("item_added", "an item that was never added is added", "B01 B24"),
    ("item_done", "an item that was never done is done", "B15"),
    ("item_dropped", "an item that is added or done again, or done as null, is left out", "B15"),
    ("item_filled", "a finished item gets the text that was streamed of it", "B15"),
    ("item_id_kept", "the first id of an item stays; the other one is kept as `server_id`", "B13"),
    ("item_id_added", "an event gets the id of its item", "B03"),
    ("output_index_added", "an event gets the place of its item", "B03"),
    ("output_index_changed", "an event gets the place of the item that it names", "B03 B44"),
    # parts
    ("part_added", "a part that was never added is added", "B01 B45"),
    ("part_done", "a part that was never done is done", "B15"),
    ("part_dropped", "a part that is added or done again is left out", "B15"),
    ("part_index_added", "an event gets the place of its part", "B03"),
    ("part_emptied", "text that a part begins with becomes a delta", "B24"),
    ("delta_added", "text that only came at the end becomes one delta", "B06 B24"),
    ("text_done", "a text that was never done is done", "B15"),
    ("text_filled", "an end without text gets the text that was streamed", "B15"),
)

REPAIRS: Mapping[str, RepairKind] = MappingProxyType(
    {code: RepairKind(code, sentence, tuple(reports.split())) for code, sentence, reports in _ROWS}
)
"""Every kind of repair by its code."""


@dataclass(frozen=True, slots=True)
class Repair(Remark):
    """A change made so that a bent stream becomes a conforming one.

    What a server does in every event is recorded once for each place.

    Attributes:
        code: The code of its kind, a key of `REPAIRS`.
        message: What was expected and what came.
        sequence_number: The number that the server gave to the event that showed the need, or None.
        event_type: The type of that event, or None.
        place: The item and part, such as `output[0].content[1]`; the empty string where the stream as a whole is meant.
    """
