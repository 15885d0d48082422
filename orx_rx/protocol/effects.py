"""What breaking a rule does to a client, and what else there is to be told of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from orx_rx.errors import FrameTooLarge, LifecycleViolation, ServerError, StreamTimeout
from orx_rx.protocol.violations import Rule

_OBSERVED: tuple[Rule, ...] = (
    Rule("frame_too_large", FrameTooLarge, "raise", "raise", "orx_rx", "a frame has at most max_frame_bytes"),
    Rule("error_without_terminal", ServerError, "raise", "raise", "Open Responses", "a terminal follows an error"),
    Rule("item_cut_off", LifecycleViolation, "ignore", "ignore", "orx_rx", "no item is open when a stream breaks off"),
    Rule(
        "held_back", StreamTimeout, "ignore", "ignore", "orx_rx", "events come when they are made, not all at the end"
    ),
    Rule(
        "held_in_blocks", StreamTimeout, "ignore", "ignore", "orx_rx", "events come when they are made, not in blocks"
    ),
    Rule("long_silence", StreamTimeout, "ignore", "ignore", "WHATWG", "something comes every 15 seconds or so"),
)

OBSERVATIONS: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rule in _OBSERVED})
"""What is told of a stream beyond `RULES`, by its code."""

EFFECTS: Mapping[str, str] = MappingProxyType(
    {
        "data_not_json": "The stream ends there: what the frame said is lost.",
        "empty_data": "Clients that read the data of every frame as JSON end there.",
        "unfinished_frame": "Clients that follow WHATWG drop the last frame, which may be the terminal.",
        "event_name_mismatch": "Clients that go by the event field take the event for another one.",
        "missing_done": "Clients that wait for [DONE] wait until the connection closes.",
        "not_an_object": "The stream ends there: what the frame said is lost.",
        "type_missing": "The stream ends there: nobody can tell what the event is.",
        "type_only_in_name": "Clients that go by the type in the data do not know what the event is.",
        "wrong_shape": "The stream ends there: what the event said is lost.",
        "output_null": "Clients that loop over the output fail.",
        "field_missing": "Clients that demand the field fail, such as those with generated models.",
        "sequence_missing": "The stream cannot be resumed, and events that are lost or repeated are not noticed.",
        "sequence_gap": "Events may be lost.",
        "sequence_repeated": "Clients that do not compare numbers add the event twice.",
        "sequence_backward": "The stream ends there: nobody can tell which events are lost or repeated.",
        "resume_gap": "The stream ends there: events between the two connections are lost.",
        "cursor_ahead": "The stream ends there: the place to go on from does not exist.",
        "created_not_first": "The id of the response is known late, so an early break cannot be resumed.",
        "created_twice": "Clients that begin anew at response.created forget what came before.",
        "response_id_changed": "Clients cannot tell which response to retrieve, to cancel or to continue.",
        "error_not_failed": "Clients that end at an error miss what follows, or report a failure that was none.",
        "status_mismatch": "Clients that go by the status and those that go by the event disagree about the end.",
        "second_terminal": "Clients that take the last terminal disagree with those that take the first.",
        "event_after_terminal": "What comes after the terminal is lost.",
        "missing_terminal": "The response ends as interrupted: nobody knows whether it is whole, and usage is lost.",
        "item_not_open": "Clients that build items when they are added fail or drop what belongs to it.",
        "item_added_twice": "Clients that build items when they are added forget what came before, or show it twice.",
        "place_taken": "The stream ends there: nobody can tell to which of two items the events belong.",
        "item_already_done": "Clients that act on a finished item, such as a call, act on it too early or twice.",
        "item_not_closed": "Clients that act on finished items, such as calls, never see this one.",
        "item_status_open": "Clients that wait for the item to be completed wait for ever, or leave it out.",
        "item_id_changed": "Clients that find items by id take one item for several, and lose text.",
        "item_id_conflict": "The stream ends there: id and place name different items.",
        "wrong_item_kind": "The stream ends there: the event does not fit its item.",
        "part_not_open": "Clients that build parts when they are added fail or drop the text.",
        "part_already_open": "Clients that build parts when they are added forget what came before, or show it twice.",
        "part_already_done": "Clients that show a text when it is done miss what follows.",
        "part_not_finished": "Clients that take the whole text from its done event never see it.",
        "part_not_closed": "Clients that wait for the part to be done never show it as finished.",
        "wrong_part_kind": "The stream ends there: the event does not fit its part.",
        "done_mismatch": "What was shown while it streamed differs from what is kept.",
        "terminal_output_empty": "Clients that take the output from the terminal see no output at all.",
        "terminal_mismatch": "What was streamed differs from the output of the terminal.",
        "terminal_order": "Clients that go by the place in the output mix up items.",
        "frame_too_large": "The stream ends there: a client cannot hold such a frame.",
        "error_without_terminal": "The stream ends with the error; whether anything of it is whole is not known.",
        "item_cut_off": "The item is only known in part.",
        "held_back": "Users wait for the whole answer: something between server and client buffers the stream.",
        "held_in_blocks": "The text comes in jerks: something between server and client buffers the stream.",
        "long_silence": "Proxies and clients that wait no longer than a minute hang up.",
    }
)
"""What a client suffers, by the code of what was found."""
