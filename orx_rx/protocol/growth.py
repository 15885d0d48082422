"""What grows by pieces: texts, sounds, printed output; joined when somebody reads, and never before."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from typing import TYPE_CHECKING

from orx_rx.errors import SchemaViolation
from orx_rx.models.argument_events import ShellOutputDelta

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Text:
    """A text that grows by pieces.

    Attributes:
        size: Its length so far, in characters.
    """

    __slots__ = ("_joined", "_pieces", "size")

    def __init__(self) -> None:
        self.size: int = 0
        self._joined = ""
        self._pieces: list[str] = []

    def append(self, piece: str) -> int:
        """Add a piece and return the new length."""
        self._pieces.append(piece)
        self.size += len(piece)
        return self.size

    def read(self, end: int) -> str:
        """Read the text until a length; joins what is new since the last reading."""
        if end > len(self._joined):
            self._joined = "".join((self._joined, *self._pieces))
            self._pieces.clear()
        return self._joined if end == len(self._joined) else self._joined[:end]

    def tail(self, end: int, size: int) -> str:
        """Read the last characters until a length, without joining the rest."""
        start = max(0, end - size)
        if start < len(self._joined):
            return self.read(end)[start:]
        found: list[str] = []
        at = self.size
        for piece in reversed(self._pieces):
            if at <= start:
                break
            at -= len(piece)
            found.append(piece)
        return "".join(reversed(found))[start - at : end - at]

    @staticmethod
    def join(pieces: Sequence[str]) -> str:
        """Make one piece of several."""
        return "".join(pieces)


class Sound:
    """Sound that grows by pieces in base64."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def size(self) -> int:
        """The number of pieces so far."""
        return len(self._pieces)

    def append(self, piece: str) -> int:
        """Add a piece and return the new number of pieces."""
        self._pieces.append(piece)
        return len(self._pieces)

    def read(self, end: int) -> bytes:
        """Decode the first pieces."""
        return _sound(self._pieces[:end])

    def tail(self, end: int, size: int) -> bytes:
        """Decode the last of the first pieces."""
        return _sound(self._pieces[max(0, end - size) : end])

    @staticmethod
    def join(pieces: Sequence[str]) -> str:
        """Make one piece of several, each of which may end in padding."""
        return b64encode(_sound(pieces)).decode()


def _sound(pieces: Sequence[str]) -> bytes:
    """Decode pieces that are base64 each, or a base64 text that was cut anywhere."""
    decoded: list[bytes] = []
    text = ""
    for piece in pieces:
        text += piece
        if len(text) % 4 == 0:
            try:
                decoded.append(b64decode(text))
            except BinasciiError:
                raise SchemaViolation(f"expected sound in base64, got {len(text)} characters that are not") from None
            text = ""
    return b"".join(decoded)


class Printed:
    """What a command printed, on two streams that grow together."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[ShellOutputDelta] = []

    @property
    def size(self) -> int:
        """The number of pieces so far."""
        return len(self._pieces)

    def append(self, piece: ShellOutputDelta) -> int:
        """Add a piece and return the new number of pieces."""
        self._pieces.append(piece)
        return len(self._pieces)

    def read(self, end: int) -> ShellOutputDelta:
        """Join the first pieces."""
        return self.tail(end, end)

    def tail(self, end: int, size: int) -> ShellOutputDelta:
        """Join the last of the first pieces."""
        return self.join(self._pieces[max(0, end - size) : end])

    @staticmethod
    def join(pieces: Sequence[ShellOutputDelta]) -> ShellOutputDelta:
        """Make one piece of several."""
        stdout = "".join(piece.stdout or "" for piece in pieces)
        return ShellOutputDelta(stdout=stdout, stderr="".join(piece.stderr or "" for piece in pieces))


GROWTHS: Mapping[str, type[Sound | Printed]] = {"audio": Sound, "shell_output": Printed}
"""What a channel grows as, by its name; as `Text` where it is not named."""
