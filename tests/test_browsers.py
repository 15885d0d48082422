"""One answer in many browsers: both servers of the examples, over real sockets, with clients of every kind."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientError, ClientResponse, ClientSession, TCPConnector, web
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable

from examples import browsers_aiohttp
from orx_rx import Client, FrameParser
from orx_rx import operators as ops
from orx_rx.models import Event
from orx_rx.protocol import Decoder, Judge
from orx_rx.protocol.encoding import encode_event
from orx_rx.protocol.violations import QUIET
from orx_rx.simulator import Fault, Script, Simulator, message, play, request_of, scenario_for
from tests.servers import PATIENCE, pass_time, until
from tests.servers import clean_environment as clean_environment

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.usefixtures("clean_environment")

HELD = 40  # events of the story that have come when the simulator holds it
LONG = 5_000  # events of a story that no buffer on the way can hold
SMALL = 16 * 1024  # bytes that a socket keeps, so that a reader that stalls is felt
CHROMIUM = os.environ.get("ORX_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# the servers


@asynccontextmanager
async def with_aiohttp(
    events: Observable[Event], listener: socket.socket, buffer: int
) -> AsyncGenerator[Callable[[], None]]:
    """Serve; what it gives breaks every connection."""
    app = browsers_aiohttp.application(events, buffer=buffer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()

    def cut() -> None:
        assert runner.server is not None
        for connection in runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    try:
        yield cut
    finally:
        await runner.cleanup()


@asynccontextmanager
async def with_starlette(
    events: Observable[Event], listener: socket.socket, buffer: int
) -> AsyncGenerator[Callable[[], None]]:
    """Serve; what it gives breaks every connection."""
    pytest.importorskip("starlette", reason="expected the package `starlette`, found none")
    uvicorn = pytest.importorskip("uvicorn", reason="expected the package `uvicorn`, found none")
    from examples import browsers_starlette

    app = browsers_starlette.application(events, buffer=buffer)
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))

    def cut() -> None:
        for connection in list(server.server_state.connections):
            connection.transport.abort()

    try:
        yield cut
    finally:
        server.should_exit = True
        await serving


Serve = Callable[[Observable[Event], socket.socket, int], AbstractAsyncContextManager[Callable[[], None]]]
SERVERS: dict[str, Serve] = {"aiohttp": with_aiohttp, "starlette": with_starlette}

both = pytest.mark.parametrize("server", SERVERS)


@dataclass
class Site:
    """What a test talks to.

    Attributes:
        simulator: Where the answer comes from.
        client: Who asks for it.
        url: The address of the page.
        cut: Breaks the connections to all browsers.
        reading: How many browsers are subscribed.
        subscriptions: How many ever were.
    """

    simulator: Simulator
    client: Client
    url: str = ""
    cut: Callable[[], None] = field(default=lambda: None)
    reading: int = 0
    subscriptions: int = 0

    def watched(self, events: Observable[Event]) -> Observable[Event]:
        """Count who subscribes and who has left."""

        def left() -> None:
            self.reading -= 1

        def subscribe(
            observer: abc.ObserverBase[Event], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            self.reading += 1
            self.subscriptions += 1
            return CompositeDisposable(events.subscribe(observer, scheduler=scheduler), Disposable(left))

        return Observable(subscribe)

    def posts(self) -> int:
        """Count the requests that were paid for."""
        return [request.method for request in self.simulator.requests].count("POST")


@asynccontextmanager
async def site(
    server: str,
    model: str = "story",
    *,
    keep_alive: bool = True,
    small: bool = False,
    buffer: int = 1_000,
    **simulated: Any,
) -> AsyncGenerator[Site]:
    """Serve one answer of a simulator."""
    async with Simulator(**simulated) as simulator, Client(base_url=simulator.base_url) as client:
        it = Site(simulator, client)
        events = it.watched(client.events(model=model, input="x").pipe(ops.fan_out(keep_alive=keep_alive)))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if small:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)  # connections inherit it
            it.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with SERVERS[server](events, listener, buffer) as it.cut:
                yield it


# the clients


class Tab:
    """A client that reads events as a browser does, and knows what it has.

    Args:
        session: Its connections.
        url: The address of the page.
    """

    def __init__(self, session: ClientSession, url: str) -> None:
        self.body = bytearray()
        self._frames = 0
        self._session = session
        self._url = f"{url}/events"
        self._task: asyncio.Task[None] | None = None

    def open(self, last: str | None = None) -> Tab:
        """Begin to read, or come back."""
        self._task = asyncio.create_task(self._read(last))
        return self

    async def close(self) -> None:
        """Leave."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def whole(self) -> bytes:
        """Read to the end."""
        assert self._task is not None
        async with asyncio.timeout(PATIENCE):
            await self._task
        return bytes(self.body)

    async def has(self, frames: int) -> None:
        """Wait for so many frames."""
        await until(lambda: self._frames >= frames)

    async def _read(self, last: str | None) -> None:
        headers = {} if last is None else {"Last-Event-ID": last}
        async with self._session.get(self._url, headers=headers) as response:
            assert response.status == 200
            async for chunk in response.content.iter_any():
                self._frames += (self.body[-1:] + chunk).count(b"\n\n")
                self.body += chunk


def frames_of(model: str = "story") -> list[bytes]:
    """Write what a browser is to get."""
    request = request_of({"model": model, "input": "x", "stream": True})
    return [encode_event(event) for event in play(scenario_for(request), Script(request))]


def read(body: bytes) -> list[Event]:
    """Read the whole frames of a body."""
    parser, decoder = FrameParser(), Decoder(Judge(QUIET))
    return [event for frame in parser.feed(body) for event in decoder.feed(frame)]


def id_of(frame: bytes) -> str:
    return frame.partition(b"\nid: ")[2].partition(b"\n")[0].decode()


STORY = frames_of()


@both
async def test_the_headers_let_nobody_on_the_way_collect_or_keep_the_stream(server: str) -> None:
    async with site(server) as it, ClientSession() as session, session.get(f"{it.url}/events") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert response.headers["Cache-Control"] == "no-cache, no-transform"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert await response.read() == b"".join(STORY)


@both
async def test_the_page_needs_nothing_but_itself(server: str) -> None:
    async with site(server) as it, ClientSession() as session, session.get(it.url) as response:
        assert response.content_type == "text/html"
        text = await response.text("utf-8")
    assert "new EventSource" in text
    assert "://" not in text
    assert "innerHTML" not in text
    assert it.posts() == 0


@both
async def test_all_browsers_get_the_same_bytes_from_one_request(server: str) -> None:
    async with site(server, hold=HELD) as it, ClientSession() as session:
        first, second = Tab(session, it.url).open(), Tab(session, it.url).open()
        await first.has(HELD)
        late = Tab(session, it.url).open()
        await late.has(HELD)
        it.simulator.release()
        assert await first.whole() == await second.whole() == await late.whole() == b"".join(STORY)
        after = await Tab(session, it.url).open().whole()
        assert after == b"".join(STORY)
        assert it.posts() == 1


@both
async def test_who_comes_back_at_any_place_gets_the_rest_once(server: str) -> None:
    async with site(server) as it, ClientSession() as session:
        await Tab(session, it.url).open().whole()
        for number, frame in enumerate(STORY):
            tab = Tab(session, it.url).open(id_of(frame))
            assert await tab.whole() == b"".join(STORY[number + 1 :])
        assert await Tab(session, it.url).open("nonsense").whole() == b"".join(STORY)
        assert (it.posts(), it.reading) == (1, 0)


@both
async def test_who_comes_back_in_the_middle_gets_the_rest_as_it_comes(server: str) -> None:
    async with site(server, hold=HELD) as it, ClientSession() as session:
        tab = Tab(session, it.url).open()
        await tab.has(HELD)
        await tab.close()
        await until(lambda: it.reading == 0)
        assert tab.body == b"".join(STORY[:HELD])
        tab.open(id_of(STORY[HELD - 1]))
        await until(lambda: it.reading == 1)
        it.simulator.release()
        assert await tab.whole() == b"".join(STORY)
        assert it.posts() == 1


@both
async def test_a_browser_that_leaves_disturbs_nobody(server: str) -> None:
    async with site(server, hold=HELD) as it, ClientSession() as session:
        stays, leaves = Tab(session, it.url).open(), Tab(session, it.url).open()
        await stays.has(HELD)
        await leaves.has(HELD)
        assert it.reading == 2
        await leaves.close()
        await until(lambda: it.reading == 1)
        it.simulator.release()
        assert await stays.whole() == b"".join(STORY)
        assert (it.simulator.disconnects, it.posts()) == (0, 1)
        await until(lambda: it.reading == 0)


@both
async def test_the_request_outlives_its_readers_where_it_is_kept_alive(server: str) -> None:
    async with site(server, hold=HELD) as it, ClientSession() as session:
        tab = Tab(session, it.url).open()
        await tab.has(HELD)
        await tab.close()
        await until(lambda: it.reading == 0)
        assert it.simulator.open_streams == 1
        it.simulator.release()
        await it.simulator.wait_for(lambda s: s.open_streams == 0)
        assert it.simulator.disconnects == 0
        assert await Tab(session, it.url).open().whole() == b"".join(STORY)
        assert it.posts() == 1


@both
async def test_the_request_ends_with_its_last_reader_where_it_is_not(server: str) -> None:
    async with site(server, hold=HELD, keep_alive=False) as it, ClientSession() as session:
        first, second = Tab(session, it.url).open(), Tab(session, it.url).open()
        await first.has(HELD)
        await second.has(HELD)
        await first.close()
        await until(lambda: it.reading == 1)
        assert it.simulator.open_streams == 1
        await second.close()
        await it.simulator.wait_for(lambda s: s.disconnects == 1)
        back = await Tab(session, it.url).open(id_of(STORY[HELD - 1])).whole()
        assert b'"code":"stream_interrupted"' in back
        assert it.posts() == 1


@both
async def test_the_end_of_the_client_ends_the_request_and_is_told(server: str) -> None:
    async with site(server, hold=HELD) as it, ClientSession() as session:
        tab = Tab(session, it.url).open()
        await tab.has(HELD)
        await it.client.aclose()
        assert (await tab.whole()).removeprefix(b"".join(STORY[:HELD])).startswith(b"event: error\n")
        await it.simulator.wait_for(lambda s: s.disconnects == 1)


@both
async def test_an_answer_that_breaks_off_is_told_and_ends_the_stream(server: str) -> None:
    cut = Fault("cut", after_events=HELD, kind="rst")
    async with site(server, faults=[cut]) as it, ClientSession() as session:
        first, second = Tab(session, it.url).open(), Tab(session, it.url).open()
        assert await first.whole() == await second.whole()
        assert first.body.startswith(b"".join(STORY[:HELD]))
        (told,) = read(bytes(first.body).removeprefix(b"".join(STORY[:HELD])))
        assert (told.type, getattr(told, "code", None)) == ("error", "stream_interrupted")
        back = await Tab(session, it.url).open(id_of(STORY[HELD - 1])).whole()
        assert back == encode_event(told)
        assert it.posts() == 1


@both
@pytest.mark.parametrize("overflows", [False, True])
async def test_a_browser_that_stops_reading_holds_up_nobody_and_is_given_up(overflows: bool, server: str) -> None:
    story = frames_of(f"long-{LONG}")
    narrow = TCPConnector(socket_factory=_narrow_socket)
    async with (
        site(server, f"long-{LONG}", small=True, buffer=1_000 if overflows else 2 * LONG, hold=LONG) as it,
        ClientSession() as session,
        ClientSession(connector=narrow, read_bufsize=SMALL) as stalling,
    ):
        async with stalling.get(f"{it.url}/events") as stalled:
            tab = Tab(session, it.url).open()
            await tab.has(LONG)  # while the other one has not read a byte
            assert it.reading == (1 if overflows else 2)
            pass_time(60)
            await until(lambda: it.reading == 1)
            had, broken = await _rest_of(stalled)
        assert broken
        assert b"".join(story).startswith(had)
        assert len(had) < len(tab.body) / 2
        frames = had.count(b"\n\n")
        back = Tab(session, it.url).open(id_of(story[frames - 1]))
        it.simulator.release()
        assert await back.whole() == b"".join(story[frames:])
        assert await tab.whole() == b"".join(story)
        assert it.posts() == 1


async def _rest_of(response: ClientResponse) -> tuple[bytes, bool]:
    """Read what is there, and say whether it breaks off."""
    body = bytearray()
    try:
        async for chunk in response.content.iter_any():
            body += chunk
    except ClientError:
        return bytes(body), True
    return bytes(body), False


def _narrow_socket(address: Any) -> socket.socket:
    family, kind, protocol, *_ = address
    narrow = socket.socket(family, kind, protocol)
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    return narrow


# a real browser


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("expected the package `playwright`, found none")
    if CHROMIUM is None:
        pytest.skip("expected chromium on the PATH or in ORX_CHROMIUM, found none")
    from playwright.async_api import async_playwright

    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS) as browser,
    ):
        yield browser


async def tabs(browser: Browser, url: str, count: int) -> Sequence[Page]:
    pages = [await browser.new_page() for _ in range(count)]
    for page in pages:
        page.set_default_timeout(PATIENCE * 1000)
        await page.goto(url)
    return pages


async def shows(page: Page, text: str, status: str) -> None:
    """Wait until a page shows a text and a status."""
    await page.wait_for_function(
        "([text, status]) => document.getElementById('text').textContent === text"
        " && document.getElementById('status').textContent === status",
        arg=[text, status],
    )


def text_of(frames: Sequence[bytes]) -> str:
    return "".join(getattr(event, "delta", "") for event in read(b"".join(frames)))


@both
async def test_three_tabs_of_a_real_browser_show_the_same_text_from_one_request(server: str) -> None:
    async with site(server, hold=HELD) as it, chromium() as browser:
        pages = await tabs(browser, it.url, 3)
        for page in pages:
            await shows(page, text_of(STORY[:HELD]), "streaming")
        await pages[1].reload()
        await shows(pages[1], text_of(STORY[:HELD]), "streaming")
        it.simulator.release()
        for page in pages:
            await shows(page, text_of(STORY), "completed")
            assert await page.evaluate("source.readyState") == 2  # closed: it does not come back
        assert (it.posts(), it.subscriptions) == (1, 4)


async def test_a_real_browser_that_lost_its_connection_comes_back_for_the_rest() -> None:
    async with site("aiohttp", hold=HELD) as it, chromium() as browser:
        (page,) = await tabs(browser, it.url, 1)
        await shows(page, text_of(STORY[:HELD]), "streaming")
        it.cut()
        await shows(page, text_of(STORY[:HELD]), "reconnecting")
        it.simulator.release()
        await shows(page, text_of(STORY), "completed")
        assert (it.posts(), it.subscriptions) == (1, 2)


async def test_a_real_browser_is_told_of_an_answer_that_breaks_off() -> None:
    cut = Fault("cut", after_events=HELD, kind="rst")
    async with site("aiohttp", faults=[cut]) as it, chromium() as browser:
        (page,) = await tabs(browser, it.url, 1)
        await shows(page, text_of(STORY[:HELD]), "failed: The answer broke off.")
        assert await page.evaluate("source.readyState") == 2
        assert (it.posts(), it.subscriptions) == (1, 1)


async def test_markup_of_a_model_stays_text() -> None:
    def markup(script: Script) -> Any:
        return message(script, ["<b id='bold'>", "bold", "</b><img src=x onerror='document.title=1'>"])

    async with site("aiohttp", "markup", scenarios={"markup": markup}) as it, chromium() as browser:
        (page,) = await tabs(browser, it.url, 1)
        await shows(page, "<b id='bold'>bold</b><img src=x onerror='document.title=1'>", "completed")
        assert await page.query_selector("#bold") is None
