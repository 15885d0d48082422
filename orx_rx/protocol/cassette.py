r"""Cassettes: a recorded stream as JSON Lines, chunk by chunk, with borders and times.

The first line is the header, then there is a line for each chunk, and the last one tells how the stream ended::

    {"line":1,"orx_cassette":1,"library":...,"recorded":...,"request":{...},"response":{...},"check":"8c1f0b42"}
    {"line":2,"at":0.052113,"text":"event: response.created\ndata: {\"ty","check":"03d1f5a6"}
    {"line":3,"at":0.052871,"base64":"w6nigqw=","check":"b01dfc3e"}
    {"line":4,"at":0.061,"end":"complete","chunks":2,"bytes":40,"check":"5be0a911"}

`at` is seconds since the request. A chunk is text where it is UTF-8 by itself, and base64 otherwise. `check` is the
CRC-32 of everything in front of it, in this line and in all lines before it; so damage is found in the line that it is
in. A cassette that was cut off has no last line.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from zlib import crc32

from orx_rx import errors
from orx_rx.errors import CassetteError, OrxError
from orx_rx.protocol.secrets import RESPONSE_HEADERS, Secrets, kept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FORMAT = 1
"""The version of the format."""

End: TypeAlias = Literal["complete", "error", "left", "cut"]

_TAIL = re.compile(rb',"check":"([0-9a-f]{8})"\}\Z')
_ERRORS: Mapping[str, type[OrxError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, OrxError)
}
_HEADER: Mapping[str, tuple[type[object], ...]] = {
    "library": (str,),
    "recorded": (str,),
    "request": (dict, NoneType),
    "response": (dict, NoneType),
}
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A recorded chunk.

    Attributes:
        at: When it came, in seconds since the request.
        data: Its bytes.
    """

    at: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Cassette:
    """A recorded stream.

    Attributes:
        chunks: The chunks, as they came.
        end: How it ended: `complete`; with an `error`; because its subscriber `left`; or the recording was `cut` off.
        ended: When, in seconds since the request.
        error: The error that it ended with, or None.
        request: The request as `method`, `path`, `query`, `headers` and `body`, without secrets; None where the source
            told nothing of one.
        response: The answer as `status` and `headers`; None where there was none.
        library: The version of this library that recorded it.
        recorded: When it was recorded, as ISO 8601 in UTC.
    """

    chunks: tuple[Chunk, ...]
    end: End = "complete"
    ended: float = 0.0
    error: OrxError | None = None
    request: Mapping[str, Any] | None = None
    response: Mapping[str, Any] | None = None
    library: str = ""
    recorded: str = ""

    @property
    def body(self) -> bytes:
        """All bytes."""
        return b"".join(chunk.data for chunk in self.chunks)


class CassetteWriter:
    """Writes a cassette: every method returns the lines that are to be written now.

    Secrets of the request are hidden in whatever is written, in chunks too, even where they lie across the border of
    two; a chunk that ends with what may be the beginning of one waits for the next.
    """

    def __init__(self) -> None:
        self._secrets = Secrets()
        self._waiting: list[Chunk] = []
        self._lines = 0
        self._check = 0
        self._last = 0.0
        self._chunks = 0
        self._bytes = 0

    def begin(
        self,
        *,
        library: str = "",
        recorded: str = "",
        request: Mapping[str, Any] | None = None,
        response: Mapping[str, Any] | None = None,
        secrets: Secrets | None = None,
    ) -> str:
        """Write the header.

        Args:
            library: The version of this library.
            recorded: The time, as ISO 8601 in UTC.
            request: The request, see `Cassette`.
            response: The answer, see `Cassette`.
            secrets: What must never be written.
        """
        self._secrets = secrets or self._secrets
        told = {"library": library, "recorded": recorded, "request": request, "response": response}
        return self._line({"orx_cassette": FORMAT, **self._secrets.hide_in(told)})

    def chunk(self, at: float, data: bytes) -> Sequence[str]:
        """Write a chunk.

        Args:
            at: When it came, in seconds since the request; time does not run backwards.
            data: Its bytes.
        """
        self._waiting.append(Chunk(self._time(at), data))
        return self._release(last=False)

    def end(self, at: float, end: End, error: Exception | None = None) -> Sequence[str]:
        """Write how the stream ended.

        Args:
            at: When, in seconds since the request.
            end: How.
            error: The error that it ended with.
        """
        lines = self._release(last=True)
        told = {} if error is None else {"error": self._secrets.hide_in(_written(error, self._secrets))}
        sums = {"chunks": self._chunks, "bytes": self._bytes}
        return [*lines, self._line({"at": self._time(at), "end": end, **told, **sums})]

    def _time(self, at: float) -> float:
        self._last = max(self._last, round(at, 6))
        return self._last

    def _release(self, *, last: bool) -> list[str]:
        """Write the chunks that wait, but for those in which a secret may have begun."""
        if self._secrets:
            hidden = self._secrets.hide(b"".join(chunk.data for chunk in self._waiting))
            open_from = len(hidden) - (0 if last else self._secrets.begun(hidden))
            begin, released = 0, 0
            for number, chunk in enumerate(self._waiting):
                end = begin + len(chunk.data)
                self._waiting[number] = Chunk(chunk.at, hidden[begin:end])
                released += end <= open_from
                begin = end
        else:
            released = len(self._waiting)
        ready, self._waiting = self._waiting[:released], self._waiting[released:]
        self._chunks += len(ready)
        self._bytes += sum(len(chunk.data) for chunk in ready)
        return [self._line({"at": chunk.at, **_packed(chunk.data)}) for chunk in ready]

    def _line(self, fields: Mapping[str, Any]) -> str:
        self._lines += 1
        text = _JSON.encode({"line": self._lines, **fields})[:-1]
        data = text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its JSON escape
        self._check = crc32(data, self._check)
        return f'{data.decode()},"check":"{self._check:08x}"}}\n'


def path_of(path: Path, number: int) -> Path:
    """Name the file of the cassette of one subscription: `story.jsonl`, then `story-2.jsonl`.

    Args:
        path: The file of the first.
        number: Which subscription it is, from 1.
    """
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")


def write_cassette(cassette: Cassette) -> bytes:
    """Write a whole cassette, which `parse_cassette` reads; one that was cut off gets no last line."""
    writer = CassetteWriter()
    lines = [
        writer.begin(
            library=cassette.library,
            recorded=cassette.recorded,
            request=cassette.request,
            response=cassette.response,
        )
    ]
    for chunk in cassette.chunks:
        lines += writer.chunk(chunk.at, chunk.data)
    if cassette.end != "cut":
        lines += writer.end(cassette.ended, cassette.end, cassette.error)
    return "".join(lines).encode()


def parse_cassette(data: bytes, *, partial: bool = False) -> Cassette:
    """Read a cassette.

    Args:
        data: The whole file.
        partial: Whether one that was cut off will do, as a process leaves it that dies in the middle; what is damaged
            will not.

    Raises:
        CassetteError: It is none, or it is damaged or cut off; the error names the line.
    """
    reader = _Reader()
    *whole, rest = data.split(b"\n")
    for line in whole:
        reader.feed(line.removesuffix(b"\r"))
    broken = False
    if rest:  # the line end alone may be missing
        try:
            reader.feed(rest)
        except CassetteError:
            if reader.line == 1 or reader.has_ended:
                raise
            broken = True
    return reader.cassette(partial=partial, broken=broken)


class _Reader:
    """Reads a cassette line by line."""

    def __init__(self) -> None:
        self.line = 0
        self._check = 0
        self._header: dict[str, Any] = {}
        self._chunks: list[Chunk] = []
        self._end: dict[str, Any] | None = None
        self._last = 0.0

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    def feed(self, line: bytes) -> None:
        """Read a line, without its line end."""
        self.line += 1
        if self._end is not None:
            raise self._wrong("nothing after the end of the stream", "another line")
        fields = self._checked(line)
        if self.line == 1:
            self._begin(fields)
            return
        self._last = self._time(fields)
        if "end" in fields:
            self._finish(fields)
        else:
            self._chunks.append(Chunk(self._last, self._unpacked(fields)))

    def cassette(self, *, partial: bool, broken: bool) -> Cassette:
        """Put the cassette together."""
        whole_lines = self.line - broken
        if not whole_lines:
            raise CassetteError(1, "the header of a cassette", "nothing")
        if self._end is None and not partial:
            raise CassetteError(self.line + (not broken), "the end of the stream", f"a cut after line {whole_lines}")
        end = self._end or {"end": "cut", "at": self._last}
        told = {name: self._header[name] for name in ("library", "recorded", "request", "response")}
        return Cassette(tuple(self._chunks), end["end"], float(end["at"]), end.get("error"), **told)

    def _wrong(self, expected: str, got: str) -> CassetteError:
        return CassetteError(self.line, expected, got)

    def _checked(self, line: bytes) -> dict[str, Any]:
        """Read the fields of a line, and check that they are those that were written."""
        header = " of the header of a cassette" if self.line == 1 else ""
        tail = _TAIL.search(line)
        if tail is None:
            raise self._wrong(f"a line{header} that ends with its check", f"{len(line)} bytes that do not")
        body = line[: tail.start()]
        fields: object = None
        with suppress(ValueError, RecursionError):
            fields = json.loads(body + b"}")
        number = cast("dict[str, Any]", fields).get("line") if isinstance(fields, dict) else None
        if type(number) is int and number != self.line:
            raise self._wrong(f"line {self.line}", f"line {number}: a line is missing, or in another place")
        check = crc32(body, self._check)
        if tail[1].decode() != f"{check:08x}":
            raise self._wrong(f"check {check:08x}", f"{tail[1].decode()}: the line was changed")
        if type(number) is not int:
            raise self._wrong("a JSON object with its number", "none")
        self._check = check
        return cast("dict[str, Any]", fields)

    def _begin(self, fields: dict[str, Any]) -> None:
        version = fields.get("orx_cassette")
        if version != FORMAT or type(version) is not int:
            raise self._wrong(f"a cassette of format {FORMAT}", "none" if version is None else "another format")
        for name, kinds in _HEADER.items():
            if not isinstance(fields.get(name), kinds):
                raise self._wrong(f"a header with {name}", f"none, or {type(fields.get(name)).__name__}")
        self._header = fields

    def _time(self, fields: dict[str, Any]) -> float:
        at = fields.get("at")
        if type(at) not in (int, float) or not self._last <= cast("float", at) < math.inf:
            raise self._wrong(f"a time from {self._last:g} s on", "another one, or none")
        return float(cast("float", at))

    def _unpacked(self, fields: dict[str, Any]) -> bytes:
        text, packed = fields.get("text"), fields.get("base64")
        with suppress(ValueError):
            if isinstance(text, str) and packed is None:
                return text.encode()
            if isinstance(packed, str) and text is None:
                return b64decode(packed, validate=True)
        raise self._wrong("a chunk as text or base64, or an end", "neither")

    def _finish(self, fields: dict[str, Any]) -> None:
        end = fields["end"]
        if end not in ("complete", "error", "left"):
            raise self._wrong("the end to be complete, error or left", "something else")
        for name, sum_ in (
            ("chunks", len(self._chunks)),
            ("bytes", sum(len(chunk.data) for chunk in self._chunks)),
        ):
            if fields.get(name) != sum_:
                raise self._wrong(f"the end to count {sum_} {name}", "another number, or none")
        self._end = dict(fields)
        if end == "error":
            self._end["error"] = self._error(fields.get("error"))

    def _error(self, told: Any) -> OrxError:
        error = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
        kind, message, fields = (error.get(name) for name in ("kind", "message", "fields"))
        known = _ERRORS.get(str(kind))
        if known is None or not isinstance(message, str) or not isinstance(fields, dict):
            raise self._wrong("an error that this version of orx_rx knows", "another one, or none")
        made = known.__new__(known)
        made.args = (message,)
        made.__dict__.update({name: _read(value) for name, value in cast("dict[str, Any]", fields).items()})
        return made


# chunks and errors as JSON


def _packed(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _written(error: Exception, secrets: Secrets) -> dict[str, Any]:
    """Write an error; one that is not ours is told by its class alone, because nobody knows what its text repeats."""
    if not isinstance(error, OrxError) or type(error).__name__ not in _ERRORS:
        message = f"expected the rest of the stream, got {type(error).__name__}"
        return {"kind": OrxError.__name__, "message": message, "fields": {}}
    left_out = ("violations", "snapshot", "__notes__")
    fields = {name: _field(value, secrets) for name, value in vars(error).items() if name not in left_out}
    return {"kind": type(error).__name__, "message": str(error), "fields": fields}


def _field(value: object, secrets: Secrets) -> Any:
    if isinstance(value, bytes):
        return _packed(secrets.hide(value))
    if isinstance(value, tuple):
        return [item for item in cast("tuple[object, ...]", value) if isinstance(item, str)]
    if isinstance(value, dict):
        return {"headers": kept(cast("dict[str, str]", value), RESPONSE_HEADERS)}
    return value if isinstance(value, str | int | float | None) else None


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(cast("list[str]", value))
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if "headers" in fields:
        return fields["headers"]
    return fields["text"].encode() if "text" in fields else b64decode(fields.get("base64", ""))
