"""The streams to measure with: plain JSON, so that they come from nobody's models, and valid for the strictest peer.

A stream is a response with one item of many small deltas, from `response.created` to `[DONE]`. Its deltas look like
those of OpenAI: an id of 54 characters, empty logprobs where there are any, and padding that is never the same,
together about 220 bytes of JSON behind an event line. `calls` has many items of few deltas instead, and `captures`
reads streams of real servers, where they are at hand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from string import ascii_letters
from typing import Any

TEXT = "response.output_text.delta"
ARGUMENTS = "response.function_call_arguments.delta"
SUMMARY = "response.reasoning_summary_text.delta"

SHARED = Path(os.environ.get("ORX_SHARED") or Path(__file__).parents[2] / "shared")
"""Where captures are, which are not part of the repository."""

_WORDS = ("The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "comes", "back", "to", "look.")
_RESPONSE_ID = "resp_" + "0a1b2c3d" * 6
_ITEM_ID = "msg_" + "0a1b2c3d4e" * 5

_Told = tuple[list[dict[str, Any]], dict[str, Any]]
"""Events, and the item that they tell."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One stream in one cutting.

    Attributes:
        name: How it is cut, for people.
        chunks: The bytes, as a socket would hand them out.
        events: How many events it holds; `[DONE]` is none.
        text: What its deltas add up to.
        delta: The type of its deltas.
        is_told: Whether the response at its end says the same text.
    """

    name: str
    chunks: tuple[bytes, ...]
    events: int
    text: str
    delta: str = TEXT
    is_told: bool = True

    @property
    def size(self) -> int:
        """The length of the stream in bytes."""
        return sum(map(len, self.chunks))

    def cut(self, size: int) -> Workload:
        """Cut it in chunks of another length."""
        return replace(self, chunks=_cut([*self.chunks], size))

    def with_crlf(self) -> Workload:
        """End its lines as HTTP does; JSON has no line ends of its own."""
        size = len(self.chunks[0])
        return replace(self, chunks=_cut([b"".join(self.chunks).replace(b"\n", b"\r\n")], size))


def workload(deltas: int, chunk_size: int | None) -> Workload:
    """Build a text stream and cut it.

    Args:
        deltas: How many text deltas it has.
        chunk_size: The length of a chunk in bytes; None for one frame a chunk.
    """
    return told(words(deltas), chunk_size)


def words(count: int) -> list[str]:
    """Make the pieces of a text."""
    return [(" " if number else "") + _WORDS[number % len(_WORDS)] for number in range(count)]


def told(pieces: Sequence[str], chunk_size: int | None, delta: str = TEXT) -> Workload:
    """Build a stream of given deltas and cut it.

    Args:
        pieces: The deltas, of 16 characters at most if they are to be padded.
        chunk_size: The length of a chunk in bytes; None for one frame a chunk.
        delta: The type of the deltas, which says what kind of item they are of.
    """
    name = f"{len(pieces):,} x {_size(chunk_size)}"
    inner, item = _ITEMS[delta](0, pieces)
    return _whole(name, inner, [item], chunk_size, "".join(pieces), delta)


def calls(count: int, chunk_size: int | None) -> Workload:
    """Build a stream of many function calls, each with one delta of arguments; all of them are in the terminal too."""
    pieces = [json.dumps({"city": f"Town number {number}", "unit": "celsius"}) for number in range(count)]
    told = [_call(number, [piece]) for number, piece in enumerate(pieces)]
    events = [event for one, _ in told for event in one]
    items = [item for _, item in told]
    return _whole(f"{count:,} calls", events, items, chunk_size, "".join(pieces), ARGUMENTS)


def heavy(size: int, chunk_size: int) -> Workload:
    """Build a stream of one delta with very much padding, so that nearly all of it is one frame.

    Args:
        size: The length of the padding in bytes.
        chunk_size: The length of a chunk in bytes.
    """
    stream = told(["Hi"], None)
    field = b'"obfuscation":"'
    body = b"".join(stream.chunks).replace(field, field + b"x" * size, 1)
    return replace(stream, name=f"{size:,} B", chunks=_cut([body], chunk_size))


def captures() -> list[Workload]:
    """Read streams of real servers, each as one chunk; none where they are not at hand."""
    return [_captured(file) for file in sorted(SHARED.glob("captures/*/*.sse"))]


def _captured(file: Path) -> Workload:
    body = file.read_bytes()
    data = [
        line.removeprefix(b"data:").strip() for line in body.replace(b"\r", b"").split(b"\n") if line[:5] == b"data:"
    ]
    events: list[dict[str, Any]] = [json.loads(one) for one in data if one != b"[DONE]"]
    text = "".join(event["delta"] for event in events if event["type"] == TEXT)
    return Workload(file.stem, (body,), len(events), text, is_told=False)


def _whole(
    name: str,
    inner: list[dict[str, Any]],
    items: list[dict[str, Any]],
    chunk_size: int | None,
    text: str,
    delta: str,
) -> Workload:
    """Put a response around the events of its items."""
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": len(inner),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12 + len(inner),
    }
    events = (
        {"type": "response.created", "response": _response("in_progress", [])},
        {"type": "response.in_progress", "response": _response("in_progress", [])},
        *inner,
        {"type": "response.completed", "response": _response("completed", items, usage)},
    )
    frames = [_frame(number, event) for number, event in enumerate(events)]
    return Workload(name, _cut([*frames, b"data: [DONE]\n\n"], chunk_size), len(frames), text, delta)


def _size(chunk_size: int | None) -> str:
    if chunk_size is None:
        return "one frame"
    return f"{chunk_size:,} B" if chunk_size % 1024 else f"{chunk_size // 1024} KiB"


def _cut(frames: list[bytes], size: int | None) -> tuple[bytes, ...]:
    if size is None:
        return tuple(frames)
    stream = b"".join(frames)
    return tuple(stream[start : start + size] for start in range(0, len(stream), size))


def _frame(number: int, event: Mapping[str, Any]) -> bytes:
    fields = {"type": event["type"], "sequence_number": number, **event}
    return f"event: {event['type']}\ndata: {json.dumps(fields, separators=(',', ':'))}\n\n".encode()


def _told(index: int, item: dict[str, Any], begun: Mapping[str, Any], inner: Iterator[dict[str, Any]]) -> _Told:
    """Tell an item: added, what is inside, done; and the item as it is in the end."""
    added = {"type": "response.output_item.added", "output_index": index, "item": begun}
    return [added, *inner, {"type": "response.output_item.done", "output_index": index, "item": item}], item


def _deltas(kind: str, place: Mapping[str, Any], pieces: Sequence[str], **more: Any) -> Iterator[dict[str, Any]]:
    padding = Random(0)
    for piece in pieces:
        noise = "".join(padding.choices(ascii_letters, k=16 - len(piece)))
        yield {"type": kind, **place, "delta": piece, **more, "obfuscation": noise}


def _message(index: int, pieces: Sequence[str]) -> _Told:
    text = "".join(pieces)
    place = {"item_id": _ITEM_ID, "output_index": index, "content_index": 0}

    def item(status: str, *content: object) -> dict[str, Any]:
        return {"id": _ITEM_ID, "type": "message", "status": status, "role": "assistant", "content": [*content]}

    def inner() -> Iterator[dict[str, Any]]:
        yield {"type": "response.content_part.added", **place, "part": _part("")}
        yield from _deltas(TEXT, place, pieces, logprobs=[])
        yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": _part(text)}

    return _told(index, item("completed", _part(text)), item("in_progress"), inner())


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(index: int, pieces: Sequence[str]) -> _Told:
    arguments = "".join(pieces)
    id_ = f"fc_{index:050}"
    place = {"item_id": id_, "output_index": index}

    def item(status: str, arguments: str) -> dict[str, Any]:
        call = {"id": id_, "type": "function_call", "status": status, "call_id": f"call_{index:024}"}
        return {**call, "name": "get_weather", "arguments": arguments}

    def inner() -> Iterator[dict[str, Any]]:
        yield from _deltas(ARGUMENTS, place, pieces)
        yield {"type": "response.function_call_arguments.done", **place, "arguments": arguments, "name": "get_weather"}

    return _told(index, item("completed", arguments), item("in_progress", ""), inner())


def _thought(index: int, pieces: Sequence[str]) -> _Told:
    text = "".join(pieces)
    id_ = "rs_" + "0a1b2c3d4e" * 5
    place = {"item_id": id_, "output_index": index, "summary_index": 0}

    def part(text: str) -> dict[str, Any]:
        return {"type": "summary_text", "text": text}

    def item(*summary: object) -> dict[str, Any]:
        return {"id": id_, "type": "reasoning", "summary": [*summary]}

    def inner() -> Iterator[dict[str, Any]]:
        yield {"type": "response.reasoning_summary_part.added", **place, "part": part("")}
        yield from _deltas(SUMMARY, place, pieces)
        yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part(text)}

    return _told(index, item(part(text)), item(), inner())


_ITEMS: Mapping[str, Callable[[int, Sequence[str]], _Told]] = {TEXT: _message, ARGUMENTS: _call, SUMMARY: _thought}
"""What tells an item, by the type of its deltas."""


def _response(status: str, output: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build a response with every field that Open Responses asks for."""
    return {
        "id": _RESPONSE_ID,
        "object": "response",
        "created_at": 1_764_180_467,
        "completed_at": None if usage is None else 1_764_180_499,
        "status": status,
        "background": False,
        "error": None,
        "frequency_penalty": 0.0,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "model": "story",
        "output": output,
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": None,
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
    }
