"""What the fixtures of the pytest plugin are made of; of use with other test runners as well."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias
from urllib.parse import quote

from orx_rx.cassettes import read_cassette, replay
from orx_rx.errors import CassetteError
from orx_rx.operators import record
from orx_rx.protocol.cassette import path_of
from orx_rx.step import Stream

if TYPE_CHECKING:
    from reactivex import Observable, abc

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

    Args:
        path: The file of the first cassette; folders are made.
        mode: When to record: `once`, what is missing; `none`, never; `all`, always.
        fail: Called with a message when a cassette is missing, or not whole at the end; raises.
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
        if self.mode == "all" or (self.mode == "once" and not path.exists()):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._recorded.append(path)
            return source.pipe(record(path, scheduler=scheduler))
        if not path.exists():
            self._fail(f"expected a cassette at {path}, got none: record it with --orx-record=once, and commit it")
        read_cassette(path)  # damage is told here, and not to a subscriber who may not listen
        numbers = count(1)

        def subscribe(
            observer: abc.ObserverBase[bytes], subscriber_scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            played = replay(path_of(path, next(numbers)), speed=speed, scheduler=scheduler)
            return played.subscribe(observer, scheduler=subscriber_scheduler)

        return Stream(subscribe)

    def close(self) -> None:
        """Check what was recorded; a cassette that is not whole is removed, so that it is recorded again."""
        broken: list[str] = []
        for first in self._recorded:
            for path in [first, *first.parent.glob(f"{_literal(first.stem)}-*{first.suffix}")]:
                try:
                    if path.exists():
                        read_cassette(path)
                except CassetteError:
                    broken.append(path.name)
                    with suppress(OSError):  # somebody still writes to it, which on Windows keeps it
                        path.unlink()
        if broken:
            self._fail(
                f"expected every stream to have ended before the test did, got one that had not: {', '.join(broken)}"
            )


def _literal(text: str) -> str:
    """Escape a text for a glob."""
    return "".join(f"[{letter}]" if letter in "[*?" else letter for letter in text)
