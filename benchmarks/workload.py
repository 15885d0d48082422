"""The streams to measure with: plain JSON, so that they come from nobody's models, and valid for the strictest peer.

A stream is a response with one message of many small text deltas, from `response.created` to `[DONE]`. Its deltas look
like those of OpenAI: an id of 54 characters, empty logprobs, and padding that is never the same, together about 220
bytes of JSON behind an event line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from string import ascii_letters
from typing import Any

_WORDS = ("The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "comes", "back", "to", "look.")
_RESPONSE_ID = "resp_" + "0a1b2c3d" * 6
_ITEM_ID = "msg_" + "0a1b2c3d4e" * 5


@dataclass(frozen=True, slots=True)
class Workload:
    """One stream in one cutting.

    Attributes:
        name: How it is cut, for people.
        chunks: The bytes, as a socket would hand them out.
        events: How many events it holds; `[DONE]` is none.
        text: What its deltas add up to.
    """

    name: str
    chunks: tuple[bytes, ...]
    events: int
    text: str

    @property
    def size(self) -> int:
        """The length of the stream in bytes."""
        return sum(map(len, self.chunks))


def workload(deltas: int, chunk_size: int | None) -> Workload:
    """Build a stream and cut it.

    Args:
        deltas: How many text deltas it has.
        chunk_size: The length of a chunk in bytes; None for one frame a chunk.
    """
    return told([(" " if number else "") + _WORDS[number % len(_WORDS)] for number in range(deltas)], chunk_size)


def told(pieces: list[str], chunk_size: int | None) -> Workload:
    """Build a stream of given deltas and cut it.

    Args:
        pieces: The text deltas, of 16 characters at most.
        chunk_size: The length of a chunk in bytes; None for one frame a chunk.
    """
    frames = [_frame(number, event) for number, event in enumerate(_events(pieces))]
    name = "one frame" if chunk_size is None else f"{chunk_size:,} B"
    if chunk_size is not None and not chunk_size % 1024:
        name = f"{chunk_size // 1024} KiB"
    chunks = _cut([*frames, b"data: [DONE]\n\n"], chunk_size)
    return Workload(f"{len(pieces):,} x {name}", chunks, len(frames), "".join(pieces))


def _cut(frames: list[bytes], size: int | None) -> tuple[bytes, ...]:
    if size is None:
        return tuple(frames)
    stream = b"".join(frames)
    return tuple(stream[start : start + size] for start in range(0, len(stream), size))


def _frame(number: int, event: Mapping[str, Any]) -> bytes:
    fields = {"type": event["type"], "sequence_number": number, **event}
    return f"event: {event['type']}\ndata: {json.dumps(fields, separators=(',', ':'))}\n\n".encode()


def _events(pieces: list[str]) -> Iterator[dict[str, Any]]:
    text = "".join(pieces)
    place = {"item_id": _ITEM_ID, "output_index": 0, "content_index": 0}
    yield {"type": "response.created", "response": _response("in_progress", [])}
    yield {"type": "response.in_progress", "response": _response("in_progress", [])}
    yield {"type": "response.output_item.added", "output_index": 0, "item": _message("in_progress", [])}
    yield {"type": "response.content_part.added", **place, "part": _part("")}
    padding = Random(0)
    for piece in pieces:
        noise = "".join(padding.choices(ascii_letters, k=16 - len(piece)))
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": [], "obfuscation": noise}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": _part(text)}
    message = _message("completed", [_part(text)])
    yield {"type": "response.output_item.done", "output_index": 0, "item": message}
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": len(pieces),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12 + len(pieces),
    }
    yield {"type": "response.completed", "response": _response("completed", [message], usage)}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": _ITEM_ID, "type": "message", "status": status, "role": "assistant", "content": content}


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
