"""The pace of a stream: when its first token came, and how many come in a second."""

from __future__ import annotations


class Meter:
    """Counts pieces by the time at which they come.

    Args:
        started: When the request was sent, in seconds on any clock.
    """

    def __init__(self, started: float) -> None:
        self._started = started
        self._first: float | None = None
        self._last = started
        self._pieces = 0

    def piece(self, at: float) -> None:
        """Take notice of a piece."""
        self._first = at if self._first is None else self._first
        self._last = at
        self._pieces += 1

    def line(self, now: float, tokens: int | None = None) -> str:
        """Say the pace.

        Args:
            now: The time.
            tokens: How many tokens the server counted; without it pieces are counted, which are nearly the same.
        """
        if self._first is None:
            return f"no token for {now - self._started:.1f} s"
        count, lasted = tokens or self._pieces, self._last - self._first
        pace = f", {(count - 1) / lasted:.0f} tokens/s" if lasted > 0 else ""
        return f"first token after {self._first - self._started:.2f} s{pace}, {now - self._started:.1f} s in all"
