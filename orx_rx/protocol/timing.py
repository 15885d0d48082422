"""Timing: what the times at which bytes came say about what lies between a server and its client."""

from __future__ import annotations

HELD_BACK = 2.0
"""Seconds from the request to the first event above which a stream that is over at once was held back.

A server sends response.created before the model begins, so it comes long before the end. Shorter waits are ordinary.
"""

AT_ONCE = 0.05
"""The part of that wait within which such a stream is over, from its first event to its last."""

BLOCK_EVENTS, BLOCK_SPREAD, BLOCK_PAUSE = 10, 0.05, 0.5
"""What a block is: so many events within so many seconds, after a silence of so many seconds.

Models write at an even pace, up to some hundred tokens a second; a buffer that fills and empties has a pace of its own.
"""

BLOCKS, IN_BLOCKS = 3, 0.8
"""How many blocks there are, at least, and which part of the events is in them, where something buffers in blocks."""

SILENCE = 30.0
"""Seconds without a byte above which a silence is long.

WHATWG advises a comment every 15 seconds or so. Twice that leaves room for delays, and is half of the 60 seconds after
which common proxies hang up.
"""


class Times:
    """Keeps when bytes and events came.

    Args:
        started: When the request was sent, or None where that is not known.
    """

    def __init__(self, started: float | None) -> None:
        self._started = started
        self._from = started  # the beginning: the request, or the first bytes
        self._byte = self._event = started  # when the last ones came
        self._first: float | None = None  # when the first event came
        self._silence = self._wait = 0.0
        self._group = 0.0  # when the bytes that came together began to come
        self._together = 0  # events among them
        self._paused = False  # whether there was a silence before them
        self._blocks = self._in_blocks = self._all = 0

    @property
    def duration(self) -> float | None:
        """Seconds from the beginning to the last byte."""
        return None if self._from is None or self._byte is None else self._byte - self._from

    @property
    def first_event(self) -> float | None:
        """Seconds from the beginning to the first event."""
        return None if self._from is None or self._first is None else self._first - self._from

    @property
    def longest_silence(self) -> float | None:
        """The longest time without a byte, in seconds."""
        return None if self._byte is None else self._silence

    @property
    def longest_wait(self) -> float | None:
        """The longest time without an event, in seconds."""
        return None if self._byte is None else self._wait

    def take(self, at: float, events: int) -> None:
        """Take notice of bytes that came, and of the events that they completed."""
        if self._from is None:
            self._from = self._byte = self._event = self._group = at
        assert self._byte is not None
        assert self._event is not None
        silence = at - self._byte
        self._silence = max(self._silence, silence)
        self._byte = at
        if silence >= BLOCK_PAUSE or at - self._group > BLOCK_SPREAD:
            self._close_group()
            self._group, self._together, self._paused = at, 0, silence >= BLOCK_PAUSE
        self._together += events
        self._wait = max(self._wait, at - self._event)
        if events:
            self._event = at
            self._first = at if self._first is None else self._first
            self._all += events

    def observed(self, whole: bool) -> list[tuple[str, str]]:
        """Tell what is to be said of the times.

        Args:
            whole: Whether the stream has its beginning and its end.
        """
        self._close_group()
        self._together = 0
        found: list[tuple[str, str]] = []
        first, last = self._first, self._event
        if whole and self._started is not None and first is not None and last is not None and self._all > 2:
            waited, lasted = first - self._started, last - first
            if waited >= HELD_BACK and lasted <= AT_ONCE * waited:
                message = f"expected events as they are made, got all {self._all} within {lasted:.2f} s"
                found.append(("held_back", f"{message} after {waited:.1f} s"))
        if self._blocks >= BLOCKS and self._in_blocks >= IN_BLOCKS * self._all:
            message = f"expected events as they are made, got {self._in_blocks} of {self._all} in {self._blocks} blocks"
            found.append(("held_in_blocks", message))
        if self._silence > SILENCE:
            found.append(
                ("long_silence", f"expected something every 15 s or so, got nothing for {self._silence:.0f} s")
            )
        return found

    def _close_group(self) -> None:
        if self._paused and self._together >= BLOCK_EVENTS:
            self._blocks += 1
            self._in_blocks += self._together
