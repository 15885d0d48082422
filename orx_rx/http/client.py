"""The client: settings, session, and the canonical chain of operators."""

from __future__ import annotations

import asyncio
import os
import re
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NoReturn, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from pydantic import SecretStr
from reactivex import Observable
from reactivex.disposable import Disposable

from orx_rx import operators as ops
from orx_rx.errors import ConnectFailed, ConnectionLost
from orx_rx.http.source import sse_chunks, to_json
from orx_rx.http.timeouts import Timeouts, watch_events
from orx_rx.models.base import to_wire
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.sequence import SequenceChecker
from orx_rx.protocol.violations import DEFAULT, Profile
from orx_rx.reporting import judges, log
from orx_rx.step import lift, lift_settling
from orx_rx.wire import DEFAULT_MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from reactivex import abc

    from orx_rx.models.event_base import Event
    from orx_rx.reporting import ViolationListener

_BLANK = re.compile(r"[\s\x00-\x1f\x7f]")
_OPENAI = "https://api.openai.com/v1"


class Client:
    """Speaks to one server.

    Settings come from the arguments, else from `ORX_BASE_URL` and `ORX_API_KEY`, else from `OPENAI_BASE_URL` and
    `OPENAI_API_KEY`. Proxies come from `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`. Use it as
    `async with Client() as client`, or close it. A client serves one event loop.

    Args:
        base_url: The address up to and without `/responses`; by default OpenAI's.
        api_key: The key, sent as a bearer token; without one no `Authorization` header is sent.
        session: A session to use, with its own way to proxies; it stays the caller's to close. By default the client
            makes one and closes it.
        headers: Headers to send with every request.
        timeouts: The clocks of every stream.

    Raises:
        ValueError: The base URL is not absolute, is not HTTP, or has credentials, a query or a fragment; or the key
            cannot be sent in a header.
    """

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | SecretStr | None = None,
        session: aiohttp.ClientSession | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._base_url = _checked_url(base_url or _setting("BASE_URL") or _OPENAI)
        self._api_key = _checked_key(api_key if api_key is not None else _setting("API_KEY"))
        self._given = session
        self._own: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._headers = dict(headers or {})
        self._timeouts = timeouts or Timeouts()
        self._live: dict[abc.ObserverBase[bytes], abc.DisposableBase] = {}
        self._closed = False

    def __repr__(self) -> str:
        """Name the server, and never the key."""
        return f"Client(base_url={self._base_url!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied, because the key would be in the pickle."""
        raise TypeError("expected something to pickle or copy, got a client, which holds a key and connections")

    @property
    def base_url(self) -> str:
        """The address up to and without `/responses`."""
        return self._base_url

    async def __aenter__(self) -> Self:
        """Open the client; nothing is sent before a subscription."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.aclose()

    async def aclose(self) -> None:
        """End every stream that still runs with a `ConnectionLost`, and close the session if it is the client's own."""
        self._closed = True
        for observer, subscription in list(self._live.items()):
            subscription.dispose()
            try:
                observer.on_error(ConnectionLost("expected the rest of the body, got a client that was closed"))
            except (Exception, asyncio.CancelledError) as error:  # nothing awaits here, so it is the subscriber's own
                log.error("a subscriber raised at the end", error=type(error).__name__, exc_info=error)
        self._live.clear()
        if self._own is not None:
            await self._own.close()
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    def chunks(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        **request: object,
    ) -> Observable[bytes]:
        """Create a response and read the bytes of its stream, as they come from the socket.

        Cold: every subscription is a POST of its own, and a bill of its own.

        Args:
            headers: Headers to send as well.
            timeouts: The clocks, instead of those of the client; `connect` and `idle` are used.
            **request: The fields of the request, such as `model` and `input`; models are sent as their JSON, and None
                as null.

        Raises:
            TypeError: `stream` is among the fields, which is always true; or one cannot be written as JSON.
            ValueError: A field holds a number or a text that JSON cannot hold.
            RuntimeError: To the subscriber, when there is no running event loop.
            OrxError: To the subscriber, as `sse_chunks` does; a `ConnectFailed` when the client is closed.
        """
        if "stream" in request:
            raise TypeError("expected no field 'stream', since it is always true, got one")
        chunks = sse_chunks(
            self._session,
            "POST",
            f"{self._base_url}/responses",
            data=to_json({**to_wire(request), "stream": True}),
            headers={"Content-Type": "application/json", **self._all_headers(headers)},
            proxy=_proxy_of(self._base_url) if self._given is None else None,
            timeouts=timeouts or self._timeouts,
        )
        return self._tracked(chunks)

    def events(
        self,
        *,
        profile: Profile = DEFAULT,
        on_violation: ViolationListener | None = None,
        into: Accumulator | None = None,
        linger: float = 1.0,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        scheduler: abc.SchedulerBase | None = None,
        **request: object,
    ) -> Observable[Event]:
        """Create a response and read its events: typed, checked, accumulated.

        This is `chunks()` with `frame`, `decode`, `sequence_check`, `lifecycle_guard` and `accumulate` behind it. Cold:
        every subscription is a POST of its own; put `fan_out()` behind it to share one.

        Args:
            profile: What the violations of the server cost.
            on_violation: A function or an observer that hears of every reported violation.
            into: An accumulator to use, to look at the response at any moment.
            linger: How long to wait for the end of the connection after the terminal, in seconds.
            max_frame_bytes: The most bytes that a frame may have.
            headers: Headers to send as well.
            timeouts: The clocks, instead of those of the client.
            scheduler: Keeps the time; by default that of the subscriber, else the running event loop.
            **request: The fields of the request, as for `chunks`.

        Raises:
            TypeError: As for `chunks`.
            ValueError: As for `chunks`, or `linger` or `max_frame_bytes` is out of range.
            RuntimeError: To the subscriber, when there is no running event loop.
            OrxError: To the subscriber, whatever the source or an operator raises.
        """
        frames = self.chunks(headers=headers, timeouts=timeouts, **request).pipe(
            ops.frame(max_frame_bytes=max_frame_bytes)
        )
        clocks = watch_events(timeouts or self._timeouts, scheduler)
        ops.lifecycle_guard(linger=linger)  # refuses what it cannot wait for, here and not at subscription
        new_judge = judges(profile, on_violation)

        def subscribe(
            observer: abc.ObserverBase[Event], subscriber_scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            # the steps of those operators with one judge, so that an error has the violations that all of them found
            judge = new_judge()
            events = frames.pipe(
                lift(lambda: Decoder(judge)),
                clocks,
                lift(lambda: SequenceChecker(judge)),
                lift_settling(lambda: LifecycleGuard(judge), linger, scheduler),
                lift(lambda: Accumulator(judge)) if into is None else ops.accumulate(into=into),
            )
            return events.subscribe(observer, scheduler=subscriber_scheduler)

        return Observable(subscribe)

    def _all_headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        key = {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key.get_secret_value()}"}
        return {"User-Agent": f"orx_rx/{_version()}", **key, **self._headers, **(more or {})}

    async def _session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise ConnectFailed("expected an open client, got one that was closed")
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if self._own is None:
            # No limit of connections: each stream holds one as long as it lasts. And no trust_env, which means more
            # than proxies: it sends what ~/.netrc has for the host, and fails where there is a key as well.
            connector = aiohttp.TCPConnector(limit=0)
            self._own = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
            self._loop = loop
        if loop is not self._loop:
            raise ConnectFailed("expected the event loop that the client was first used in, got another one")
        return self._own

    def _tracked(self, chunks: Observable[bytes]) -> Observable[bytes]:
        """Keep the streams that run, so that closing the client ends them and tells their subscribers."""

        def subscribe(observer: abc.ObserverBase[bytes], scheduler: abc.SchedulerBase | None = None) -> Disposable:
            subscription = chunks.subscribe(observer, scheduler=scheduler)
            self._live[observer] = subscription

            def dispose() -> None:
                self._live.pop(observer, None)
                subscription.dispose()

            return Disposable(dispose)

        return Observable(subscribe)


def _setting(name: str) -> str | None:
    return os.environ.get(f"ORX_{name}") or os.environ.get(f"OPENAI_{name}") or None


def _checked_url(text: str) -> str:
    """Check a base URL; it is never in the message, because it may hold a password, or be a key in the wrong place."""
    text = text.strip()
    try:
        url, port = urlsplit(text), urlsplit(text).port
    except ValueError:
        url, port = urlsplit(""), 0
    wrong = {
        "one that cannot be read": port == 0 or _BLANK.search(text),
        "one that is not absolute": not url.hostname,
        "one that is neither http nor https": url.scheme not in ("http", "https"),
        "one with credentials": "@" in url.netloc,
        "one with a query": "?" in text,
        "one that ends in /responses, which is added to it": url.path.rstrip("/").endswith("/responses"),
        "one with a fragment": "#" in text,
    }
    for what, there in wrong.items():
        if there:
            raise ValueError(f"expected a base URL such as 'http://127.0.0.1:8080/v1', got {what}")
    return text.rstrip("/")


def _proxy_of(url: str) -> str | None:
    """Find the proxy that the environment names for a URL."""
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _checked_key(key: str | SecretStr | None) -> SecretStr | None:
    if key is None:
        return None
    secret = key if isinstance(key, SecretStr) else SecretStr(key)
    text = secret.get_secret_value()
    if not text or not text.isascii() or not text.isprintable() or text != text.strip():
        raise ValueError(
            f"expected a key of printable ASCII without blanks around it, got {len(text)} other characters"
        )
    return secret


def _version() -> str:
    try:
        return version("orx-rx")
    except PackageNotFoundError:
        return "unknown"
