"""The source: what it sends, what it hands on, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from inspect import iscoroutine
from typing import Any, NoReturn

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver

from orx_rx import (
    BadRequest,
    Conflict,
    ConnectFailed,
    ConnectionLost,
    Forbidden,
    NotAnEventStream,
    NotFound,
    OrxError,
    RateLimited,
    ServerFault,
    StatusError,
    Unauthorized,
    Unprocessable,
    operators,
    sse_chunks,
)
from orx_rx.http.bodies import Watch
from tests.servers import (
    BROKEN,
    CHUNKED,
    LAST,
    LENGTH,
    UNTIL_CLOSE,
    Ear,
    Peer,
    Server,
    answer,
    chunk,
    head,
    listening,
    other_tasks,
    pass_time,
    told,
    turns,
    until,
)

# what is sent


async def test_nothing_is_sent_before_somebody_subscribes() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        sse_chunks(session, "POST", server.url, json={})
        await turns()
        assert not server.knocks()


async def test_every_subscription_is_one_request() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        chunks = sse_chunks(session, "POST", server.url, json={})
        for answered in (b"a", b"b"):
            ear = Ear(chunks)
            peer, _ = await server.asked()
            await peer.send(answer(answered, connection="close"))
            assert (await ear.ended()).elements == [answered]
        await turns()
        assert not server.knocks()


async def test_a_json_body_and_the_headers_are_sent_as_documented() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        Ear(sse_chunks(session, "POST", f"{server.url}/v1/responses", json={"input": "Grüße 🌙"}))
        _, request = await server.asked()
        assert (request.method, request.target) == ("POST", "/v1/responses")
        assert request.all("accept") == ["text/event-stream"]
        assert request.all("accept-encoding") == ["identity"]
        assert request.all("cache-control") == ["no-cache"]
        assert request.all("content-type") == ["application/json"]
        assert request.all("authorization") == []
        assert request.body == '{"input": "Grüße 🌙"}'.encode()


async def test_a_body_of_bytes_is_sent_as_it_is() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        Ear(sse_chunks(session, "POST", server.url, data=b"\x00{ \xff", headers={"Content-Type": "x/y"}))
        _, request = await server.asked()
        assert (request.all("content-type"), request.body) == (["x/y"], b"\x00{ \xff")


async def test_a_query_is_sent() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        Ear(sse_chunks(session, "GET", server.url, params={"stream": "true", "starting_after": "7"}))
        _, request = await server.asked()
        assert (request.method, request.target) == ("GET", "/?stream=true&starting_after=7")


async def test_a_header_of_the_caller_takes_the_place_of_ours_however_it_is_spelled() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        headers = {"accept": "a/b", "ACCEPT-ENCODING": "gzip", "content-type": "c/d", "X-Extra": "e"}
        Ear(sse_chunks(session, "POST", server.url, json={}, headers=headers))
        _, request = await server.asked()
        sent = {name: request.all(name) for name in ("accept", "accept-encoding", "content-type", "x-extra")}
        assert sent == {"accept": ["a/b"], "accept-encoding": ["gzip"], "content-type": ["c/d"], "x-extra": ["e"]}


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "\ud83d"], ids=["set", "nan", "surrogate"])
def test_what_is_no_json_is_refused_before_anything_happens(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        sse_chunks(_no_session, "POST", "http://127.0.0.1", json={"input": value})


def test_two_bodies_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one of json and data, got both"):
        sse_chunks(_no_session, "POST", "http://127.0.0.1", json={}, data=b"")


async def test_a_server_that_is_not_there_is_told_without_a_word_of_tls() -> None:
    async with aiohttp.ClientSession() as session:
        error = await Ear(sse_chunks(session, "POST", "http://127.0.0.1:9", json={})).failed()
    assert str(error).startswith("expected an answer, got ClientConnectorError: Cannot connect to host 127.0.0.1:9 [")


async def _no_session() -> NoReturn:
    raise LookupError("no session here")


# what is handed on


async def test_chunks_are_handed_on_as_they_came() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(CHUNKED)
        sent = [b"data: Gr", "ü".encode()[:1], "ü".encode()[1:] + b"\r", b"\n", b"\n", b": \xe2\x80\xa8"]
        for count, piece in enumerate(sent, 1):
            await peer.send(chunk(piece))
            await ear.heard(count)
        await peer.send(LAST)
        assert (await ear.ended()).elements == sent
        assert ear.completed


async def test_a_chunk_that_was_handed_on_is_not_kept_while_the_next_one_is_awaited() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"data: 1\n\n"))
        await ear.heard(1)
        await turns()
        assert [keeper for keeper in gc.get_referrers(ear.elements[0]) if iscoroutine(keeper)] == []


async def test_one_line_of_two_megabytes_is_one_frame() -> None:
    data = b'{"partial_image_b64":"' + b"A" * 2_000_000 + b'"}'
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}).pipe(operators.frame()))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"data: " + data + b"\n\n"), LAST)
        (frame,) = (await ear.ended()).elements
        assert frame.data == data
        assert frame.complete


async def test_a_body_of_64_megabytes_passes() -> None:
    block = b"data: " + b"x" * (1 << 20) + b"\n\n"
    async with listening() as server, aiohttp.ClientSession() as session:
        sizes = Ear(sse_chunks(session, "POST", server.url, json={}).pipe(operators.frame()))
        peer, _ = await server.asked()
        await peer.send(UNTIL_CLOSE)
        for _ in range(64):
            await peer.send(block)
        peer.finish()
        await sizes.ended()
        assert [len(frame.data) for frame in sizes.elements] == [1 << 20] * 64


@pytest.mark.parametrize(
    "content_type",
    [
        "text/event-stream",
        "text/event-stream; charset=utf-8",
        "Text/Event-Stream ;charset=UTF-8",
        " text/event-stream;",
    ],
)
async def test_every_spelling_of_the_media_type_is_accepted(content_type: str) -> None:
    ear = await hear(answer(b"data: 1\n\n", content_type=content_type))
    assert (ear.elements, ear.completed) == ([b"data: 1\n\n"], True)


async def test_an_empty_event_stream_completes_without_a_chunk() -> None:
    ear = await hear(answer(b""))
    assert (ear.elements, ear.completed) == ([], True)


async def test_any_status_in_the_200s_is_a_success() -> None:
    ear = await hear(answer(b"data: 1\n\n", status="201 Created"))
    assert (ear.elements, ear.completed) == ([b"data: 1\n\n"], True)


# error statuses


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, StatusError),
        (400, BadRequest),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (418, StatusError),
        (422, Unprocessable),
        (429, RateLimited),
        (500, ServerFault),
        (503, ServerFault),
        (599, ServerFault),
    ],
)
async def test_a_status_is_an_error_of_its_class(status: int, kind: type[StatusError]) -> None:
    body = b'{"error": {"message": "No.", "type": "t", "param": "p", "code": "c"}}'
    reply = answer(body, f"{status} Word", "application/json", x_request_id="req_1", retry_after="7", location="/else")
    error = await hear_status(reply)
    assert type(error) is kind
    assert error.status == status
    assert (error.message, error.type, error.param, error.code) == ("No.", "t", "p", "c")
    assert error.request_id == "req_1"
    assert error.headers["retry-after"] == "7"
    assert error.body == body.decode()
    assert str(error) == f"expected HTTP status 200, got {status}, code c, param p, request req_1: No."


@dataclass
class Body:
    """The body of an error, and what is found in it."""

    body: bytes
    content_type: str | None = "application/json"
    message: str = "Slow down"
    code: str | None = None
    type: str | None = None
    param: str | None = None


BODIES = {
    "nested": Body(
        b'{"error": {"message": "Slow down", "type": "rate", "param": null, "code": "slow_down"}}',
        code="slow_down",
        type="rate",
    ),
    "flat": Body(b'{"message": "Slow down", "code": 42, "type": "rate"}', code="42", type="rate"),
    "text": Body(b'{"error": "Slow down"}'),
    "text and message": Body(b'{"error": "Too Many Requests", "message": "Slow down", "code": "c"}', code="c"),
    "detail": Body(b'{"detail": "Slow down"}'),
    "list of details": Body(b'{"detail": [{"msg": "no"}]}', message='[{"msg": "no"}]'),
    "list of errors": Body(b'[{"error": {"message": "Slow down", "code": 429}}]', code="429"),
    "nested without a message": Body(b'{"error": {"code": "c"}}', message='{"error": {"code": "c"}}', code="c"),
    "no object": Body(b"[]", message="[]"),
    "null": Body(b"null", message="null"),
    "html": Body(
        b"<html><head>\n<title>\n 502  Bad\nGateway </title></head>" + b" " * 20 + b"</html>",
        "text/html; charset=utf-8",
        "an HTML page titled '502 Bad Gateway' of 81 bytes",
    ),
    "html that says it is something else": Body(b"<!DOCTYPE html><p>", None, "an HTML page of 18 bytes"),
    "plain": Body(b" Slow\n down\n", "text/plain"),
    "empty": Body(b"", message="Too Many Requests"),
    "empty html": Body(b"", "text/html", "Too Many Requests"),
    "no utf-8": Body(b"Slow down \xff", None, "Slow down \ufffd"),
    "event stream": Body(  # field report B71
        b'data: {"error": {"message": "Slow down", "type": "internal_server_error", "param": null, "code": "500"}}\n\n'
        b"data: [DONE]\n\n",
        "text/event-stream; charset=utf-8",
        code="500",
        type="internal_server_error",
    ),
    "event stream that says it is json": Body(b'event: error\ndata: {"error": "Slow down"}\n\n'),
    "json that says it is an event stream": Body(b'{"error": "Slow down"}', "text/event-stream"),
    "event stream without an error": Body(b"data: [DONE]\n\n", "text/event-stream", "data: [DONE]"),
    "broken json": Body(b'{"error": {"message": "Slow', message='{"error": {"message": "Slow'),
    "json too deep": Body(b"[" * 50_000, message="[" * 200),
}


@pytest.mark.parametrize("name", BODIES)
async def test_every_shape_of_an_error_body_is_read(name: str) -> None:
    case = BODIES[name]
    error = await hear_status(answer(case.body, "429 Too Many Requests", case.content_type))
    assert type(error) is RateLimited
    assert error.message == case.message
    assert (error.code, error.type, error.param) == (case.code, case.type, case.param)
    assert error.request_id is None
    assert error.body == case.body.decode("utf-8", "replace")[:2000]


async def test_an_error_without_a_body_or_a_word_says_so() -> None:
    error = await hear_status(answer(b"", "500 "))
    assert str(error) == "expected HTTP status 200, got 500: no message"


async def test_no_chunk_of_an_error_is_handed_on() -> None:
    ear = await hear(answer(b'data: {"type":"response.created"}\n\n', "500 Oops"))
    assert isinstance(ear.error, ServerFault)
    assert ear.elements == []


async def test_the_status_counts_more_than_the_media_type() -> None:
    assert isinstance((await hear(answer(b"<html>", "404 Not Found", "text/html"))).error, NotFound)


async def test_a_huge_error_body_is_not_read_to_its_end() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(head("500 Oops", "text/plain", content_length=str(10**12)), b"x" * 65536)
        error = await ear.failed()
        assert isinstance(error, ServerFault)
        assert (len(error.message), len(error.body)) == (200, 2000)
        assert await peer.gone()


async def test_a_huge_message_is_cut() -> None:
    error = await hear_status(answer(json.dumps({"error": "m" * 50_000}).encode(), "500 Oops"))
    assert error.message == "m" * 2000


@pytest.mark.parametrize("end", [Peer.finish, Peer.reset])
async def test_an_error_body_that_breaks_off_keeps_what_came(end: Callable[[Peer], None]) -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(head("503 Unavailable", "application/json", content_length="100"))
        await turns()
        await peer.send(b'{"error": "Slow down"}')
        await turns()
        end(peer)
        error = await ear.failed()
        assert isinstance(error, ServerFault)
        assert error.message == "Slow down"


@pytest.mark.parametrize("more", [b"", b"\n"])
async def test_an_error_body_that_stalls_or_drips_is_not_waited_for(more: bytes) -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(head("503 Unavailable", "application/json", content_length="100"), b'{"error": "Slow down"}')
        for _ in range(4):
            await turns()
            assert not ear.has_ended
            pass_time(1)
            await peer.send(more)
        await turns()
        pass_time(1)
        error = await ear.failed()
        assert isinstance(error, ServerFault)
        assert error.message == "Slow down"
        assert await peer.gone()


async def test_a_body_of_another_media_type_is_not_waited_for() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(head(content_type="text/plain", transfer_encoding="chunked"), chunk(b"data: 1\n\n"))
        await turns()
        assert not ear.has_ended
        pass_time(1)
        error = await ear.failed()
        assert isinstance(error, NotAnEventStream)
        assert error.head == b"data: 1\n\n"
        assert await peer.gone()


async def test_a_given_session_that_raises_for_status_takes_no_answer_away() -> None:
    async with listening() as server, aiohttp.ClientSession(raise_for_status=True) as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(answer(b'{"error": "Slow down"}', "429 Too Many Requests", "application/json"))
        error = await ear.failed()
        assert isinstance(error, RateLimited)
        assert error.message == "Slow down"


async def test_a_redirect_is_not_followed() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(answer(b"", "307 Temporary Redirect", location=f"{server.url}/else", connection="close"))
        error = await ear.failed()
        assert isinstance(error, StatusError)
        assert (error.status, error.headers["location"]) == (307, f"{server.url}/else")
        await turns()
        assert not server.knocks()


# other media types


@pytest.mark.parametrize(
    ("content_type", "body", "got"),
    [
        ("text/html", b"<html>gateway timeout</html>", "content type 'text/html' and a body of 28 bytes or more"),
        ("application/json", b'{"id": "resp_1"}', "content type 'application/json' and a body of 16 bytes or more"),
        ("text/event-streams", b"data: 1", "content type 'text/event-streams' and a body of 7 bytes or more"),
        ("text/html; charset=latin-1", b"", "content type 'text/html; charset=latin-1' and a body of zero bytes"),
        (None, b"data: 1\n\n", "no content type and a body of 9 bytes or more"),
        (None, b"", "no content type and a body of zero bytes"),
        ("text/plain", b"x" * 5000, "content type 'text/plain' and a body of 200 bytes or more"),
    ],
)
async def test_another_media_type_is_not_an_event_stream(content_type: str | None, body: bytes, got: str) -> None:
    ear = await hear(answer(body, content_type=content_type))
    error = ear.error
    assert isinstance(error, NotAnEventStream)
    assert str(error) == f"expected content type 'text/event-stream', got {got}"
    assert (error.content_type, error.head) == (content_type, body[:200])
    assert ear.elements == []


async def test_the_head_of_another_media_type_is_kept_when_it_comes_in_pieces_and_breaks_off() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(head(content_type="text/html", content_length="100"))
        for piece in (b"<html>", b"<p>"):
            await peer.send(piece)
            await turns()
        peer.reset()
        error = await ear.failed()
        assert isinstance(error, NotAnEventStream)
        assert error.head == b"<html><p>"


async def test_an_answer_without_content_is_not_an_event_stream() -> None:
    ear = await hear(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert isinstance(ear.error, NotAnEventStream)


# secrets that a server echoes


@pytest.mark.parametrize("header", ["Authorization", "authorization", "api-key", "X-API-Key", "Proxy-Authorization"])
@pytest.mark.parametrize(
    "reply",
    [
        answer(b'{"error": {"message": "bad key sk-123456789"}}', "401 Unauthorized", "application/json"),
        answer(b"", "401 bad key sk-123456789"),
        answer(b"no", "401 Unauthorized", x_request_id="sk-123456789"),
        answer(b"<html>bad key sk-123456789", content_type="text/html"),
        answer(b" " * 190 + b"sk-123456789", content_type="text/plain"),
    ],
)
async def test_a_key_that_the_server_echoes_is_hidden(header: str, reply: bytes) -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        scheme = "Bearer " if "auth" in header.lower() else ""
        ear = Ear(sse_chunks(session, "POST", server.url, json={}, headers={header: f"{scheme}sk-123456789"}))
        peer, _ = await server.asked()
        await peer.send(reply)
        error = await ear.failed()
        assert isinstance(error, StatusError | NotAnEventStream)
        assert "sk-1" not in f"{error} {vars(error)}"
        assert "***" in f"{error} {vars(error)}"


# how a connection fails


@pytest.mark.parametrize("name", BROKEN)
async def test_a_connection_that_breaks_is_one_of_our_errors(name: str) -> None:
    script, end, kind, elements = BROKEN[name]
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await script(peer)
        end(peer)
        error = await ear.failed()
        assert type(error) is kind
        assert isinstance(error, OrxError)
        assert str(error).startswith("expected ")
        assert ", got " in str(error)
        assert error.__cause__ is not None
        assert ear.elements == elements
        await until(lambda: not other_tasks())
        assert not server.knocks()


async def test_a_connection_that_closes_cleanly_ends_a_body_that_has_no_other_end() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(UNTIL_CLOSE, b"data: 1\n\n")
        peer.finish()
        assert (await ear.ended()).completed
        assert ear.elements == [b"data: 1\n\n"]


async def test_a_reset_right_after_the_end_of_a_body_does_not_matter() -> None:
    async with listening() as server, aiohttp.ClientSession() as session, told() as contexts:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"a"), LAST)
        peer.reset()
        assert (await ear.ended()).completed
    assert not contexts


async def test_a_reset_before_anybody_noticed_the_end_of_a_body_does_not_matter_either() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        request = asyncio.ensure_future(session.get(server.url))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"a"))
        response = await request
        with Watch(response) as watch:
            assert await response.content.readany() == b"a"
            await peer.send(LAST)
            await turns()
            peer.reset()
            await turns()
            assert watch.end() == b""


async def test_a_connection_that_dies_in_the_pool_disturbs_nobody() -> None:
    async def exchange(body: bytes) -> Peer:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(body))
        await ear.heard(1)
        await peer.send(LAST)
        assert (await ear.ended()).elements == [body]
        return peer

    async with listening() as server, aiohttp.ClientSession() as session, told() as contexts:
        peer = await exchange(b"a")
        await turns()
        peer.reset()
        await turns()
        await exchange(b"b")
    assert not contexts


async def test_a_refused_connection_is_a_failure_to_connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    async with aiohttp.ClientSession() as session:
        error = await Ear(sse_chunks(session, "POST", f"http://127.0.0.1:{port}", json={})).failed()
        assert type(error) is ConnectFailed
        assert isinstance(error.__cause__, ConnectionRefusedError)


class Resolver(AbstractResolver):
    """Resolves no name."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> NoReturn:
        raise self._error

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("wrong", [OSError("no such host"), UnicodeError("label too long")])
async def test_a_host_that_cannot_be_found_is_a_failure_to_connect(wrong: Exception) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=Resolver(wrong))) as session:
        error = await Ear(sse_chunks(session, "POST", "http://nowhere.invalid", json={})).failed()
        assert type(error) is ConnectFailed


@pytest.mark.parametrize("url", ["http://me:hunter2@:80:80/", "ftp://me:hunter2@127.0.0.1/", "hunter2", "http://", ""])
async def test_a_url_that_cannot_be_requested_is_a_failure_to_connect_that_does_not_quote_it(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        error = await Ear(sse_chunks(session, "POST", url, json={})).failed()
        assert type(error) is ConnectFailed
        assert not [text for text in told_by(error) if "hunter2" in text]


async def test_headers_stay_out_of_the_errors_of_answers_that_cannot_be_read() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}, headers={"Authorization": "Bearer hunter2"}))
        peer, _ = await server.asked()
        await peer.send(b"SSH-2.0-OpenSSH_9.6\r\n")
        error = await ear.failed()
        assert not [text for text in told_by(error) if "hunter2" in text]


def told_by(error: BaseException) -> list[str]:
    """Say all that an error and those behind it say of themselves."""
    behind = [other for other in (error.__cause__, error.__context__) if other is not None]
    return [str(error), repr(error), str(vars(error)), *(text for other in behind for text in told_by(other))]


async def test_a_session_that_is_closed_is_a_failure_to_connect() -> None:
    session = aiohttp.ClientSession()
    await session.close()
    error = await Ear(sse_chunks(session, "POST", "http://127.0.0.1", json={})).failed()
    assert type(error) is ConnectFailed
    assert str(error) == "expected an answer, got RuntimeError: Session is closed"


async def test_what_gives_the_session_may_fail() -> None:
    error = await Ear(sse_chunks(_no_session, "POST", "http://127.0.0.1")).failed()
    assert type(error) is ConnectFailed
    assert isinstance(error.__cause__, LookupError)


@pytest.mark.parametrize("start", [CHUNKED, LENGTH])
async def test_a_session_that_is_closed_under_a_stream_ends_it(start: bytes) -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(start, chunk(b"a"))
        await ear.heard(1)
        await session.close()
        assert type(await ear.failed()) is ConnectionLost


async def test_a_session_that_is_closed_before_the_answer_ends_the_stream() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        await server.asked()
        await session.close()
        assert type(await ear.failed()) is ConnectFailed


async def read_late(server: Server, end: Callable[[Peer], None], *pieces: bytes) -> Ear[bytes]:
    """Hear an answer whose connection ended before anybody read what had come of its body."""
    may_go_on = asyncio.Event()

    async def wait(*_: object) -> None:
        await may_go_on.wait()

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(wait)
    async with aiohttp.ClientSession(trace_configs=[trace]) as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        for piece in pieces:
            await peer.send(piece)
            await turns()
        end(peer)
        await turns()
        may_go_on.set()
        return await ear.ended()


@pytest.mark.parametrize("end", [Peer.finish, Peer.reset])
async def test_what_came_before_the_connection_broke_is_handed_on_first(end: Callable[[Peer], None]) -> None:
    async with listening() as server:
        ear = await read_late(server, end, CHUNKED + chunk(b"a"), chunk(b"b"))
        assert b"".join(ear.elements) == b"ab"
        assert isinstance(ear.error, ConnectionLost)


@pytest.mark.parametrize("end", [Peer.finish, Peer.reset])
async def test_what_came_of_an_error_before_the_connection_broke_is_read(end: Callable[[Peer], None]) -> None:
    async with listening() as server:
        ear = await read_late(server, end, head("500 Oops", content_length="99"), b'{"error": "Slow down"}')
        assert isinstance(ear.error, ServerFault)
        assert ear.error.message == "Slow down"


# disposal


async def test_disposing_closes_the_connection_at_once() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"a"))
        await ear.heard(1)
        ear.subscription.dispose()
        await asyncio.sleep(0)  # transports close in the next turn of the loop
        assert peer.is_gone()
        assert not other_tasks()
        ear.subscription.dispose()
        with suppress(ConnectionError):
            await peer.send(chunk(b"more"))
        await turns()
        assert (ear.elements, ear.has_ended) == ([b"a"], False)


async def test_disposing_frees_the_place_in_the_pool() -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with listening() as server, aiohttp.ClientSession(connector=connector) as session:
        for _ in range(3):
            ear = Ear(sse_chunks(session, "POST", server.url, json={}))
            peer, _ = await server.asked()
            await peer.send(CHUNKED, chunk(b"a"))
            await ear.heard(1)
            ear.subscription.dispose()
        assert len(server.peers) == 3


async def test_disposing_before_the_loop_turns_sends_nothing() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        ear.subscription.dispose()
        await turns()
        assert not server.knocks()
        assert not other_tasks()


@pytest.mark.parametrize("count", range(12))
async def test_disposing_after_any_turn_of_the_loop_leaves_nothing(count: int) -> None:
    async with listening() as server, aiohttp.ClientSession() as session, told() as contexts:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        await turns(count)
        ear.subscription.dispose()
        await until(lambda: not other_tasks())
        if server.knocks():
            peer = await server.accept()
            while not await peer.gone():  # a byte of the request
                pass
        assert (ear.elements, ear.has_ended) == ([], False)
    assert not contexts


async def test_disposing_while_the_answer_is_awaited_closes_the_connection() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        ear.subscription.dispose()
        assert await peer.gone()
        await until(lambda: not other_tasks())
        assert not ear.has_ended


async def test_disposing_inside_on_next_is_the_last_that_a_subscriber_hears() -> None:
    async with listening() as server, aiohttp.ClientSession() as session, told() as contexts:
        ear = Ear[bytes](sse_chunks(session, "POST", server.url, json={}), lambda _: ear.subscription.dispose())
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"a"), chunk(b"b"))
        await ear.heard(1)
        assert await peer.gone()
        await until(lambda: not other_tasks())
        assert (len(ear.elements), ear.has_ended) == (1, False)
    assert not contexts


async def test_disposing_after_the_end_does_nothing() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(answer(b"a"))
        await ear.ended()
        ear.subscription.dispose()
        await turns()
        again = Ear(sse_chunks(session, "POST", server.url, json={}))
        await peer.request()
        await peer.send(answer(b"b"))
        assert (await again.ended()).elements == [b"b"]


async def test_whoever_else_cancels_the_task_closes_the_connection() -> None:
    # asyncio.run does that at its end, to all tasks that are left
    async with listening() as server, aiohttp.ClientSession() as session, told() as contexts:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"a"))
        await ear.heard(1)
        (task,) = other_tasks()
        task.cancel()
        assert await peer.gone()
        assert task.cancelled()
    assert not contexts


async def test_two_hundred_subscriptions_that_are_disposed_leave_nothing() -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with listening() as server, aiohttp.ClientSession(connector=connector) as session, told() as contexts:
        chunks = sse_chunks(session, "POST", server.url, json={})
        for _ in range(200):
            ear = Ear(chunks)
            peer, _ = await server.asked()
            await peer.send(CHUNKED, chunk(b"a"))
            await ear.heard(1)
            ear.subscription.dispose()
            assert await peer.gone()
            peer.close()
        assert not other_tasks()
    assert not contexts


# the pool


async def test_a_body_that_was_read_to_its_end_gives_its_connection_back() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        peer: Peer | None = None
        for body in (b"a", b"b", b"c"):
            ear = Ear(sse_chunks(session, "POST", server.url, json={}))
            peer = peer or await server.accept()
            await peer.request()
            await peer.send(CHUNKED, chunk(body), LAST)
            assert (await ear.ended()).elements == [body]
        assert len(server.peers) == 1
        assert not server.knocks()


async def test_an_error_that_was_read_to_its_end_gives_its_connection_back() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        peer: Peer | None = None
        for _ in range(2):
            ear = Ear(sse_chunks(session, "POST", server.url, json={}))
            peer = peer or await server.accept()
            await peer.request()
            await peer.send(answer(b"{}", "429 Too Many Requests"))
            await ear.failed()
        assert len(server.peers) == 1


async def test_a_given_session_stays_open() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        for reply in (answer(b"a", connection="close"), answer(b"a", "500 Oops", connection="close")):
            ear = Ear(sse_chunks(session, "POST", server.url, json={}))
            peer, _ = await server.asked()
            await peer.send(reply)
            await ear.ended()
        assert not session.closed


# subscribers that raise


def fail(_: object) -> NoReturn:
    raise ZeroDivisionError("of the subscriber")


def fail_with_ours(_: object) -> NoReturn:
    raise ConnectionLost("of the subscriber")


@pytest.mark.parametrize("raising", [fail, fail_with_ours])
async def test_a_subscriber_that_raises_ends_its_stream_and_the_loop_hears_of_it_once(
    raising: Callable[[object], NoReturn],
) -> None:
    async with listening() as server, aiohttp.ClientSession() as session, told() as contexts:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}), raising)
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"a"))
        await ear.heard(1)
        assert await peer.gone()
        await until(lambda: not other_tasks())
        assert str(ear.error) == "of the subscriber"
        assert ear.elements == [b"a"]
    (context,) = contexts
    assert context["exception"] is ear.error
    assert context["message"] == "a subscriber of orx_rx.sse_chunks raised"


async def test_a_subscriber_that_raises_cancelled_error_has_failed_like_any_other() -> None:
    def cancel(_: object) -> NoReturn:
        raise asyncio.CancelledError

    async with listening() as server, aiohttp.ClientSession() as session, told() as contexts:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}), cancel)
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"a"))
        error = await ear.failed()
        assert await peer.gone()
        assert str(error) == "a subscriber raised CancelledError"
    assert [context["exception"] for context in contexts] == [error]


@pytest.mark.parametrize("reply", [answer(b""), answer(b"", "500 Oops")], ids=["on_completed", "on_error"])
async def test_the_loop_hears_of_a_subscriber_that_raises_at_the_end(reply: bytes) -> None:
    async with listening() as server, aiohttp.ClientSession() as session, told() as contexts:
        chunks = sse_chunks(session, "POST", server.url, json={})
        chunks.subscribe(lambda _: None, fail, lambda: fail(None))
        peer, _ = await server.asked()
        await peer.send(reply)
        await until(lambda: not other_tasks())
    assert [type(context["exception"]) for context in contexts] == [ZeroDivisionError]


async def test_the_loop_hears_of_an_error_that_nobody_handles() -> None:
    async with listening() as server, aiohttp.ClientSession() as session, told() as contexts:
        sse_chunks(session, "POST", server.url, json={}).subscribe(lambda _: None)
        peer, _ = await server.asked()
        await peer.send(answer(b"", "500 Oops"))
        await until(lambda: not other_tasks())
    assert [type(context["exception"]) for context in contexts] == [ServerFault]


def test_without_a_running_loop_a_subscriber_is_told_so() -> None:
    ear = Ear(sse_chunks(_no_session, "POST", "http://127.0.0.1"))
    assert isinstance(ear.error, RuntimeError)
    assert str(ear.error).startswith("expected a running event loop")


# helpers


async def hear(reply: bytes) -> Ear[bytes]:
    """Subscribe, let a server reply and close, and hear how the stream ends."""
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, json={}))
        peer, _ = await server.asked()
        await peer.send(reply)
        peer.finish()
        return await ear.ended()


async def hear_status(reply: bytes) -> StatusError:
    """Hear a stream that ends with an error status."""
    error = (await hear(reply)).error
    assert isinstance(error, StatusError)
    return error


async def test_disposing_in_another_thread_closes_the_socket() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"data: 1\n\n"))
        await ear.heard(1)
        await asyncio.to_thread(ear.subscription.dispose)  # as rx.timeout does
        assert await peer.gone()


async def test_a_session_that_is_closed_before_there_is_a_connection_is_a_failure_to_connect() -> None:
    async with listening() as server:
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1))
        first = Ear(sse_chunks(session, "POST", server.url))
        await server.asked()
        second = Ear(sse_chunks(session, "POST", server.url))
        await turns()
        await session.close()
        assert isinstance(await second.failed(), ConnectFailed)
        await first.failed()
