"""The lifecycle of a response as a table.

A response is created, works, and ends; its items are added and done; their parts are added, grow, are finished, and are
done. Each of these is a small machine. `TABLE` has an entry for every state and action: either the next state, or the
rule that the action breaks there together with the state in which it is safe to go on. So nobody has to guess after a
violation that a profile lets pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(Enum):
    """Where a response, an item or a part is."""

    ABSENT = "absent"
    OPEN = "open"
    FINISHED = "finished"
    DONE = "done"
    FAILING = "failing"
    ENDED = "ended"


class Action(Enum):
    """What an event does to a response, an item or a part."""

    CREATE = "create"
    UPDATE = "update"
    CONTENT = "content"
    ERROR = "error"
    TERMINAL = "terminal"
    ADD = "add"
    USE = "use"
    FINISH = "finish"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Broken:
    """An action that has no meaning in a state.

    Attributes:
        code: The rule that it breaks.
        then: The state to go on in, if the profile lets it pass.
    """

    code: str
    then: State


_S, _A = State, Action

TABLE: Mapping[str, Mapping[State, Mapping[Action, State | Broken]]] = {
    "response": {
        _S.ABSENT: {
            _A.CREATE: _S.OPEN,
            _A.UPDATE: Broken("created_not_first", _S.OPEN),
            _A.CONTENT: Broken("created_not_first", _S.OPEN),
            _A.ERROR: _S.FAILING,
            _A.TERMINAL: Broken("created_not_first", _S.ENDED),
        },
        _S.OPEN: {
            _A.CREATE: Broken("created_twice", _S.OPEN),
            _A.UPDATE: _S.OPEN,
            _A.CONTENT: _S.OPEN,
            _A.ERROR: _S.FAILING,
            _A.TERMINAL: _S.ENDED,
        },
        _S.FAILING: {
            _A.CREATE: Broken("error_not_failed", _S.OPEN),
            _A.UPDATE: Broken("error_not_failed", _S.OPEN),
            _A.CONTENT: Broken("error_not_failed", _S.OPEN),
            _A.ERROR: Broken("error_not_failed", _S.FAILING),
            _A.TERMINAL: _S.ENDED,
        },
        _S.ENDED: {
            _A.CREATE: Broken("event_after_terminal", _S.ENDED),
            _A.UPDATE: Broken("event_after_terminal", _S.ENDED),
            _A.CONTENT: Broken("event_after_terminal", _S.ENDED),
            _A.ERROR: Broken("event_after_terminal", _S.ENDED),
            _A.TERMINAL: Broken("second_terminal", _S.ENDED),
        },
    },
    "item": {
        _S.ABSENT: {
            _A.ADD: _S.OPEN,
            _A.USE: Broken("item_not_open", _S.OPEN),
            _A.DONE: Broken("item_not_open", _S.DONE),
        },
        _S.OPEN: {_A.ADD: Broken("item_added_twice", _S.OPEN), _A.USE: _S.OPEN, _A.DONE: _S.DONE},
        _S.DONE: {
            _A.ADD: Broken("item_added_twice", _S.DONE),
            _A.USE: Broken("item_already_done", _S.DONE),
            _A.DONE: Broken("item_already_done", _S.DONE),
        },
    },
    # parts that events open and close: of contents, of summaries
    "part": {
        _S.ABSENT: {
            _A.ADD: _S.OPEN,
            _A.USE: Broken("part_not_open", _S.OPEN),
            _A.FINISH: Broken("part_not_open", _S.FINISHED),
            _A.DONE: Broken("part_not_open", _S.DONE),
        },
        _S.OPEN: {
            _A.ADD: Broken("part_already_open", _S.OPEN),
            _A.USE: _S.OPEN,
            _A.FINISH: _S.FINISHED,
            _A.DONE: Broken("part_not_finished", _S.DONE),
        },
        _S.FINISHED: {
            _A.ADD: Broken("part_already_open", _S.FINISHED),
            _A.USE: Broken("part_already_done", _S.FINISHED),
            _A.FINISH: Broken("part_already_done", _S.FINISHED),
            _A.DONE: _S.DONE,
        },
        _S.DONE: {
            _A.ADD: Broken("part_already_open", _S.DONE),
            _A.USE: Broken("part_already_done", _S.DONE),
            _A.FINISH: Broken("part_already_done", _S.DONE),
            _A.DONE: Broken("part_already_done", _S.DONE),
        },
    },
    # shell commands, which events open, and which are done when their text is
    "command": {
        _S.ABSENT: {
            _A.ADD: _S.OPEN,
            _A.USE: Broken("part_not_open", _S.OPEN),
            _A.FINISH: Broken("part_not_open", _S.DONE),
        },
        _S.OPEN: {_A.ADD: Broken("part_already_open", _S.OPEN), _A.USE: _S.OPEN, _A.FINISH: _S.DONE},
        _S.DONE: {
            _A.ADD: Broken("part_already_open", _S.DONE),
            _A.USE: Broken("part_already_done", _S.DONE),
            _A.FINISH: Broken("part_already_done", _S.DONE),
        },
    },
    # fields of an item, which no event opens: arguments, inputs, code
    "field": {
        _S.ABSENT: {_A.USE: _S.OPEN, _A.FINISH: _S.DONE},
        _S.OPEN: {_A.USE: _S.OPEN, _A.FINISH: _S.DONE},
        _S.DONE: {
            _A.USE: Broken("part_already_done", _S.DONE),
            _A.FINISH: Broken("part_already_done", _S.DONE),
        },
    },
}
"""For each machine, each state and each action: the next state, or the rule that is broken."""
