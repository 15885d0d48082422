"""The rules of the protocol, without Rx and without I/O: usable in any program.

Each step has `feed(x)`, which returns what that completes, and `end()`, which returns what is left.
"""

from __future__ import annotations

from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.calls import CallReader, Round, ToolCall, ToolOutput, Turn
from orx_rx.protocol.cassette import Cassette, CassetteWriter, parse_cassette, write_cassette
from orx_rx.protocol.conformance import Conformance, Finding, Report
from orx_rx.protocol.cursor import Cursor
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.encoding import EventEncoder, last_event_id
from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.partial import PartialReader, Tick
from orx_rx.protocol.reading import ItemReader, PieceReader
from orx_rx.protocol.repair import Repairer
from orx_rx.protocol.repair_kinds import REPAIRS, Repair, RepairKind
from orx_rx.protocol.sequence import SequenceChecker
from orx_rx.protocol.structured import OutputFormat
from orx_rx.protocol.violations import DEFAULT, QUIET, RULES, STRICT, Judge, Profile, Rule, Verdict, Violation

__all__ = [
    "DEFAULT",
    "QUIET",
    "REPAIRS",
    "RULES",
    "STRICT",
    "Accumulator",
    "CallReader",
    "Cassette",
    "CassetteWriter",
    "Conformance",
    "Cursor",
    "Decoder",
    "EventEncoder",
    "Finding",
    "ItemReader",
    "Judge",
    "LifecycleGuard",
    "OutputFormat",
    "PartialReader",
    "PieceReader",
    "Profile",
    "Repair",
    "RepairKind",
    "Repairer",
    "Report",
    "Round",
    "Rule",
    "SequenceChecker",
    "Tick",
    "ToolCall",
    "ToolOutput",
    "Turn",
    "Verdict",
    "Violation",
    "last_event_id",
    "parse_cassette",
    "write_cassette",
]
