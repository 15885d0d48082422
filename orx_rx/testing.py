"""What the fixtures of the pytest plugin are made of; of use with other test runners as well."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias
from urllib.parse import quote

from orx_rx.cassettes import read_cassette, replay
from orx_rx.errors import CassetteError, NotAnEventStream, StatusError
from orx_rx.operators import record
from orx_rx.protocol.cassette import path_of
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from reactivex import Observable, abc

    from orx_rx.protocol.cassette import Cassette

Mode: TypeAlias = Literal["once", "none", "all"]
"""When to record: what is missing, never, or always."""

_LONGEST = 150  # characters of the name of a file


def default_mode(environ: Mapping[str, str] = os.environ) -> Mode:
    """Choose when to record if nobody says: what is missing, and in continuous integration (`CI` is set) never."""
    return "once" if environ.get("CI", "").lower() in ("", "0", "false") else "none"


def cassette_name(test: str) -> str:
    """Make the name of a file of the name of a test; no two tests have the same."""
    name = quote(test.replace("::", "."), safe="[] ,=+@")
    if len(name) > _LONGEST:
        from hashlib import sha256

        name = f"{name[:_LONGEST]}-{sha256(test.encode()).hexdigest()[:8]}"
    return f"{name}.jsonl"


def _fail(message: str) -> NoReturn:
    raise AssertionError(message)


class CassetteDeck:
    """The cassettes of one test: records what they lack, and replays what they have.

    A test wraps the source of its pipeline ::

        chunks = deck(client.chunks(model="gpt-5", input="Tell me one"))

    The first time that is the source, and a cassette is written. From then on it is the cassette, and the source is
    never subscribed to: no network, no key, no bill, and the same bytes in the same pieces every time. Several sources
    in one test have a cassette each, in the order in which they are wrapped, and so has every subscription.

    What is recorded is kept at the end, by `close`. A stream that came to its end is kept in any case. One that broke
    off, that its subscriber left, or that the server refused is kept if the test passed, since then it is what the test
    is about. One without a chunk is never kept, unless the server refused it: that there was no server is no answer.
    What is not kept leaves an older cassette as it was.

    Args:
        path: The file of the first cassette; folders are made.
        mode: When to record: `once`, what is missing; `none`, never; `all`, always.
        fail: Called with a message when a cassette is missing, or when the test passed and there is nothing to keep;
            raises.
    """

    def __init__(self, path: Path, mode: Mode = "once", fail: Callable[[str], NoReturn] = _fail) -> None:
        self.path: Path = path
        self.mode: Mode = mode
        self._fail = fail
        self._sources = 0
        self._recorded: list[Path] = []

    def __call__(
        self,
        source: Observable[bytes],
        *,
        speed: float | None = None,
        scheduler: abc.SchedulerBase | None = None,
    ) -> Observable[bytes]:
        """Record a source, or replay what was recorded of it.

        Args:
            source: The chunks, such as `client.chunks(...)`.
            speed: How much faster than recorded it is replayed; None replays without any waiting.
            scheduler: Keeps the time of recording and replaying; by default as for `record` and `replay`.
        """
        self._sources += 1
        path = self.path if self._sources == 1 else self.path.with_suffix(f".{self._sources}{self.path.suffix}")
        # damage is told here, and not to a subscriber who may not listen
        known = self.mode != "all" and path.exists() and _answers(read_cassette(path))
        if not known and self.mode != "none":
            path.parent.mkdir(parents=True, exist_ok=True)
            self._recorded.append(path)
            for left_over in _fresh_ones(path):  # by a process that died
                left_over.unlink()
            return source.pipe(record(_fresh(path), scheduler=scheduler))
        if not known:
            got = "one without an answer" if path.exists() else "none"
            self._fail(f"expected a cassette at {path}, got {got}: record it with --orx-record=once, and commit it")
        numbers = count(1)

        def subscribe(
            observer: abc.ObserverBase[bytes], subscriber_scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            played = replay(path_of(path, next(numbers)), speed=speed, scheduler=scheduler)
            return played.subscribe(observer, scheduler=subscriber_scheduler)

        return Stream(subscribe)

    def close(self, *, passed: bool = True) -> None:
        """Keep what was recorded, or drop it, so that it is recorded again.

        Args:
            passed: Whether the test passed. If it did, and there is nothing to keep of a stream, that fails it.
        """
        lost: dict[str, list[str]] = {}
        for path in self._recorded:
            for number, recorded in enumerate(_fresh_ones(path), 1):
                kept = path_of(path, number)
                wrong = _fault_of(recorded, passed=passed)
                if wrong is None:
                    recorded.replace(kept)
                    continue
                lost.setdefault(wrong, []).append(kept.name)
                with suppress(OSError):  # somebody still writes to it, which on Windows keeps it
                    recorded.unlink()
        if lost and passed:
            self._fail("; ".join(f"{wrong}: {', '.join(names)}" for wrong, names in lost.items()))


def _fresh(path: Path) -> Path:
    """Name the file that a cassette is written to until it is known whether it is kept."""
    return path.with_name(f"{path.stem}.new{path.suffix}")


def _fresh_ones(path: Path) -> list[Path]:
    """Find what was recorded in its place, a file for each subscription."""
    return list(takewhile(Path.exists, (path_of(_fresh(path), number) for number in count(1))))


def _fault_of(path: Path, *, passed: bool) -> str | None:
    """Say what is wrong with a recording, for the message; None if it is to be kept."""
    try:
        cassette = read_cassette(path)
    except CassetteError:
        return "expected every stream to have ended before the test did, got one that had not"
    if not _answers(cassette):
        got = "none" if cassette.error is None else type(cassette.error).__name__
        return f"expected a chunk to record, got {got}"
    return None if passed or cassette.end == "complete" else "expected a whole stream of a test that failed, got a part"


def _answers(cassette: Cassette) -> bool:
    """Say whether a server answered, with chunks or a refusal; it makes no sense to replay that none was there."""
    return bool(cassette.chunks) or isinstance(cassette.error, StatusError | NotAnEventStream)
