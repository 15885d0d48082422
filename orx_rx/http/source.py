"""The source: one subscription is one HTTP request, its elements are the chunks of the body.

aiohttp's exceptions become ours here and are seen nowhere else.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

import aiohttp

from orx_rx.errors import ConnectFailed, ConnectionLost, NotAnEventStream, OrxError, SchemaViolation, StreamTimeout
from orx_rx.exchange import current_exchange, noting
from orx_rx.flow import current_flow, subscribing
from orx_rx.http.bodies import Watch, read_start, rest_of
from orx_rx.http.failures import failure_of
from orx_rx.http.timeouts import Timeouts
from orx_rx.loops import running_loop
from orx_rx.owner import is_cancelled, own
from orx_rx.protocol.secrets import secrets_in
from orx_rx.reporting import log
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from reactivex import Observable, abc

    from orx_rx.exchange import Exchange
    from orx_rx.flow import Flow
    from orx_rx.protocol.secrets import Secrets

EVENT_STREAM = "text/event-stream"
JSON = "application/json"
_HEAD = 200  # bytes of an unexpected body that an error keeps
_HEAD_READ = 4096  # bytes of it that are read, so that no secret is cut in two and kept by half
_HEAD_LONGEST = 1.0  # seconds to wait for them: they are no more than a hint

_LARGE = 2**20  # bytes of a body that aiohttp warns of, because sending them at once would hold up the loop

# Identity, because a server that compresses a stream holds it back until a block is full.
_HEADERS = {"Accept": EVENT_STREAM, "Accept-Encoding": "identity", "Cache-Control": "no-cache"}


def sse_chunks(
    session: aiohttp.ClientSession | Callable[[], Awaitable[aiohttp.ClientSession]],
    method: str,
    url: str,
    *,
    json: object = None,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    proxy: str | None = None,
    timeouts: Timeouts | None = None,
    takes_json: bool = False,
) -> Observable[bytes]:
    """Read the body of an event stream, chunk by chunk as it comes from the socket.

    Cold: every subscription is a request of its own (a GET is sent again by aiohttp when it meets a connection of the
    pool that the server has closed; a POST never is). Disposing closes the socket; a body read to its end gives the
    connection back to the pool. Redirects are not followed, since they would carry the key elsewhere.

    ::

        POST
        ---a--b---c---d----|     chunks, wherever the network cut them
        ---a--#                  the connection broke

    Args:
        session: The session to use, or a coroutine function that gives it; it is not closed.
        method: `POST` or `GET`.
        url: Where to.
        json: A body to send as JSON.
        data: A body to send as it is.
        headers: Headers to add to, or to put in the place of, `Accept`, `Accept-Encoding` and `Cache-Control`.
        params: The query.
        proxy: The address of a proxy; by default the session decides.
        timeouts: The clocks; `connect` and `idle` are used here.
        takes_json: Whether a JSON body will do as well, for `repair` to make a stream of.

    Raises:
        TypeError: `json` holds something that JSON does not know.
        ValueError: It holds a number or a text that JSON cannot, or there is `data` as well.
        RuntimeError: To the subscriber, when there is no running event loop.
        StatusError: To the subscriber, when the status is not in the 200s; of the class of the status.
        NotAnEventStream: To the subscriber, when the media type is another.
        ConnectFailed: To the subscriber, when there was no answer.
        ConnectionLost: To the subscriber, when the connection broke.
        StreamTimeout: To the subscriber, when a clock ran out.
    """
    if json is not None and data is not None:
        raise ValueError("expected one of json and data, got both")
    return body_chunks(
        session,
        method,
        url,
        (EVENT_STREAM, JSON) if takes_json else (EVENT_STREAM,),
        body=data if json is None else to_json(json),
        # aiohttp lets a later header take the place of an earlier one, however their names are spelled
        headers={**_HEADERS, **({} if json is None else {"Content-Type": JSON}), **(headers or {})},
        params=params,
        proxy=proxy,
        timeouts=timeouts,
    )


def body_chunks(
    session: aiohttp.ClientSession | Callable[[], Awaitable[aiohttp.ClientSession]],
    method: str,
    url: str,
    media_types: Collection[str],
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    params: Mapping[str, str] | None = None,
    proxy: str | None = None,
    timeouts: Timeouts | None = None,
) -> Observable[bytes]:
    """Read a body of some media types, chunk by chunk; otherwise as `sse_chunks`.

    Args:
        session: The session to use, or a coroutine function that gives it; it is not closed.
        method: `POST` or `GET`.
        url: Where to.
        media_types: What the answer may be.
        headers: Headers to send.
        body: A body to send.
        params: The query.
        proxy: The address of a proxy; by default the session decides.
        timeouts: The clocks; `connect` and `idle` are used here.
    """
    clocks = timeouts or Timeouts()
    patience = aiohttp.ClientTimeout(
        total=None, connect=clocks.connect, sock_connect=clocks.connect, sock_read=clocks.idle
    )

    async def request(exchange: Exchange | None) -> aiohttp.ClientResponse:
        opened = await session() if callable(session) else session
        if exchange is not None:
            exchange.ask(method, url, params, headers, body)
        return await opened.request(
            method,
            url,
            data=BytesIO(body) if body is not None and len(body) > _LARGE else body,
            headers=headers,
            params=params,
            proxy=proxy,
            timeout=patience,
            allow_redirects=False,
            raise_for_status=False,
        )

    def subscribe(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        loop = running_loop("read HTTP")
        flow = current_flow()
        if flow is not None:
            flow.heed()
        reader = _Reader(
            request, observer, clocks, partial(secrets_in, url, params, headers), media_types, flow, current_exchange()
        )
        return own(loop, observer, reader.read, reader.close, source="sse_chunks", name=f"orx_rx {method}")

    return Stream(subscribe)


def to_json(value: object) -> bytes:
    """Write JSON, and nothing that is not.

    Raises:
        TypeError: There is something in it that JSON does not know.
        ValueError: There is a number or a text in it that JSON cannot hold.
    """
    return jsonlib.dumps(value, ensure_ascii=False, allow_nan=False).encode()


class _Reader:
    """The owner of one response."""

    def __init__(
        self,
        request: Callable[[Exchange | None], Awaitable[aiohttp.ClientResponse]],
        observer: abc.ObserverBase[bytes],
        timeouts: Timeouts,
        secrets: Callable[[], Secrets],
        media_types: Collection[str],
        flow: Flow | None,
        exchange: Exchange | None,
    ) -> None:
        self._request = request
        self._observer = observer
        self._timeouts = timeouts
        self._secrets = secrets
        self._expected = media_types
        self._flow = flow
        self._exchange = exchange
        self._response: aiohttp.ClientResponse | None = None

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        if self._response is not None:
            self._response.close()

    async def read(self) -> OrxError | None:
        """Hand on the chunks until the body ends, and return what ended it too early."""
        try:
            response = await self._open()
        except Exception as error:
            return self._ours(error)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            # aiohttp cancels those who wait for a connection of a session that somebody closes
            return ConnectFailed("expected an answer, got a session that was closed")
        with Watch(response) as watch:
            while True:
                failure = None
                try:
                    chunk = await response.content.readany() or watch.end()
                except Exception as error:
                    chunk, failure = rest_of(response.content), self._ours(error)
                if chunk:
                    self._observer.on_next(chunk)
                if failure or not chunk:
                    return failure
                del chunk  # which may be large, and the next one long in coming
                if self._flow is not None and self._flow.is_paused:
                    await self._flow.ready()

    async def _open(self) -> aiohttp.ClientResponse:
        # a connection outlives its stream, and would keep the context that it was made in
        with subscribing(None), noting(None):
            response = self._response = await self._request(self._exchange)
        if self._exchange is not None:
            self._exchange.answer(response.status, response.headers)
        log.debug("answer", status=response.status, request_id=response.headers.get("x-request-id"))
        if not 200 <= response.status < 300:
            raise await failure_of(response, self._secrets())
        media_type = response.headers.get("Content-Type")
        if (media_type or "").partition(";")[0].strip().lower() not in self._expected:
            head = self._secrets().hide(await read_start(response.content, _HEAD_READ, _HEAD_LONGEST))[:_HEAD]
            if EVENT_STREAM in self._expected:
                raise NotAnEventStream(media_type, head)
            raise SchemaViolation(f"expected content type {' or '.join(self._expected)!r}, got {media_type!r}")
        return response

    def _ours(self, error: Exception) -> OrxError:
        """Turn what aiohttp raised into an error of ours."""
        if isinstance(error, OrxError):
            return error
        # aiohttp raises one and the same error for every connection that somebody closes; what it knows through its
        # traceback, all our frames among it, would live as long as the program
        error.__traceback__ = None
        ours: OrxError
        clock = next((name for kind, name in _CLOCKS if isinstance(error, kind)), None)
        if clock is not None:
            ours = StreamTimeout(clock, getattr(self._timeouts, clock) or 0)
        elif self._response is None:
            ours = ConnectFailed(f"expected an answer, got {_say(error)}")
        else:
            ours = ConnectionLost(f"expected the rest of the body, got {_say(error)}")
        ours.__cause__ = error.__cause__ if isinstance(error, _TALKATIVE) else error
        return ours


_CLOCKS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ConnectionTimeoutError, "connect"),
    (aiohttp.SocketTimeoutError, "idle"),
)

# These carry the request with its headers, the proxy with its password, or a URL with credentials.
_TALKATIVE = (
    aiohttp.ClientResponseError,
    aiohttp.ClientConnectorError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
)

# The texts of these quote what the server sent, or the URL.
_SAID: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientHttpProxyError, "a refusal of the proxy"),
    (aiohttp.ClientResponseError, "an answer that cannot be read as HTTP"),
    (aiohttp.ServerDisconnectedError, "a closed connection"),
    (aiohttp.ClientPayloadError, "a body that broke off or cannot be decoded"),
    (aiohttp.InvalidURL, "a URL that cannot be requested"),
    (aiohttp.NonHttpUrlClientError, "a URL that is neither http nor https"),
)


def _say(error: Exception) -> str:
    said = next((text for kind, text in _SAID if isinstance(error, kind)), None)
    if said is not None:
        return said
    told = str(error)
    if isinstance(error, aiohttp.ClientConnectorError):  # which says so of every host, whether it speaks TLS or not
        told = told.replace(f" ssl:{'default' if error.ssl is True else error.ssl}", "", 1)
    return f"{type(error).__name__}: {told}" if told else type(error).__name__
