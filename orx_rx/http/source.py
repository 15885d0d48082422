"""The source: one subscription is one HTTP request, its elements are the chunks of the body.

aiohttp's exceptions become ours here and are seen nowhere else.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp
from reactivex import Observable
from reactivex.disposable import Disposable

from orx_rx.errors import ConnectFailed, ConnectionLost, NotAnEventStream, OrxError, StreamTimeout
from orx_rx.http.failures import failure_of
from orx_rx.http.timeouts import Timeouts
from orx_rx.reporting import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from reactivex import abc

EVENT_STREAM = "text/event-stream"
_HEAD = 200  # bytes of an unexpected body that an error keeps

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
    timeouts: Timeouts | None = None,
) -> Observable[bytes]:
    """Read the body of an event stream, chunk by chunk as it comes from the socket.

    Cold: every subscription is a request of its own. Disposing closes the socket; a body read to its end gives the
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
        timeouts: The clocks; `connect` and `idle` are used here.

    Raises:
        RuntimeError: There is no running event loop at subscription.
        StatusError: To the subscriber, when the status is not in the 200s; of the class of the status.
        NotAnEventStream: To the subscriber, when the media type is another.
        ConnectFailed: To the subscriber, when there was no answer.
        ConnectionLost: To the subscriber, when the connection broke.
        StreamTimeout: To the subscriber, when a clock ran out.
    """
    clocks = timeouts or Timeouts()
    patience = aiohttp.ClientTimeout(
        total=None, connect=clocks.connect, sock_connect=clocks.connect, sock_read=clocks.idle
    )

    async def request() -> aiohttp.ClientResponse:
        opened = await session() if callable(session) else session
        return await opened.request(
            method,
            url,
            json=json,
            data=data,
            headers={**_HEADERS, **(headers or {})},
            params=params,
            timeout=patience,
            allow_redirects=False,
        )

    def subscribe(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "expected a running event loop to read HTTP in, got none: subscribe inside a coroutine"
            ) from None
        reader = _Reader(request, observer, clocks)
        task = loop.create_task(reader.run(), name=f"orx_rx {method}")
        task.add_done_callback(_tell_loop)

        def dispose() -> None:
            reader.close()
            task.cancel()

        return Disposable(dispose)

    return Observable(subscribe)


def _tell_loop(task: asyncio.Task[None]) -> None:
    """Report what a subscriber raised; there is nobody else who could take it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        context = {"message": "a subscriber of orx_rx.sse_chunks raised", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)


class _Reader:
    """The owner of one response."""

    def __init__(
        self,
        request: Callable[[], Awaitable[aiohttp.ClientResponse]],
        observer: abc.ObserverBase[bytes],
        timeouts: Timeouts,
    ) -> None:
        self._request = request
        self._observer = observer
        self._timeouts = timeouts
        self._response: aiohttp.ClientResponse | None = None

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        if self._response is not None:
            self._response.close()

    async def run(self) -> None:
        """Read the response to its end."""
        try:
            response = await self._open()
            while True:
                with self._translated():
                    chunk = await response.content.readany()
                if not chunk:
                    break
                self._observer.on_next(chunk)
        except OrxError as error:
            self.close()
            self._observer.on_error(error)
        except BaseException:
            self.close()
            raise
        else:
            response.release()
            self._observer.on_completed()

    async def _open(self) -> aiohttp.ClientResponse:
        with self._translated():
            response = self._response = await self._request()
        log.debug("answer", status=response.status, request_id=response.headers.get("x-request-id"))
        if not 200 <= response.status < 300:
            raise await failure_of(response)
        media_type = response.headers.get("Content-Type")
        if (media_type or "").partition(";")[0].strip().lower() != EVENT_STREAM:
            with self._translated():
                head = await response.content.read(_HEAD)
            raise NotAnEventStream(media_type, head)
        return response

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except aiohttp.ConnectionTimeoutError as error:
            raise StreamTimeout("connect", self._timeouts.connect or 0) from error
        except TimeoutError as error:
            clock, seconds = (
                ("idle", self._timeouts.idle) if self._timeouts.idle else ("connect", self._timeouts.connect)
            )
            raise StreamTimeout(clock, seconds or 0) from error
        except (aiohttp.ClientError, OSError) as error:
            if self._response is None:
                raise ConnectFailed(f"expected an answer, got {_say(error)}") from error
            raise ConnectionLost(f"expected the rest of the body, got {_say(error)}") from error


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
