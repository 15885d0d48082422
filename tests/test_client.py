"""The client: where settings come from, what is sent, and how the canonical chain ends."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import logging
import math
import pickle
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import pytest
from pydantic import SecretStr
from reactivex import Observable, empty, just
from reactivex.internal.exceptions import SequenceContainsNoElementsError

from orx_rx import (
    STRICT,
    Accumulator,
    BadRequest,
    Client,
    ConnectFailed,
    ConnectionLost,
    Cursor,
    FrameTooLarge,
    LifecycleViolation,
    NotAnEventStream,
    OrxError,
    Retry,
    ServerError,
    StreamInterrupted,
    Timeouts,
    TransportError,
    Violation,
    final_response,
    operators,
)
from orx_rx.models import Event, ResponseCompletedEvent
from orx_rx.simulator import Simulator
from orx_rx.wire import Frame
from tests.chain import added, created, delta, hello, part_added, sse, terminal
from tests.servers import (
    BROKEN,
    CHUNKED,
    LAST,
    UNTIL_CLOSE,
    Ear,
    Peer,
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
from tests.servers import (
    clean_environment as clean_environment,
)

pytestmark = pytest.mark.usefixtures("clean_environment")

KEY = "sk-0123456789abcdef"

HELLO = sse(*hello())
START = sse(created(), added(), part_added(), delta("Hel"), done=False)

# settings


ONCE = Retry(attempts=0)  # what is sent again is tested in test_retry.py


def test_without_settings_the_server_is_that_of_openai() -> None:
    assert Client().base_url == "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("argument", "orx", "openai", "chosen"),
    [
        ("http://a", "http://b", "http://c", "http://a"),
        (None, "http://b", "http://c", "http://b"),
        (None, None, "http://c", "http://c"),
        (None, "", "http://c", "http://c"),
        (None, "", "", "https://api.openai.com/v1"),
    ],
)
def test_the_argument_wins_over_orx_and_orx_over_openai(
    monkeypatch: pytest.MonkeyPatch, argument: str | None, orx: str | None, openai: str | None, chosen: str
) -> None:
    for name, value in (("ORX_BASE_URL", orx), ("OPENAI_BASE_URL", openai)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert Client(base_url=argument).base_url == chosen


@pytest.mark.parametrize("lost", ["", " "])
def test_an_address_that_got_lost_is_not_that_of_openai(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    monkeypatch.setenv("ORX_BASE_URL", "http://b")
    with pytest.raises(ValueError, match=r"^expected a base URL .*, got an empty string$"):
        Client(base_url=lost)
    with pytest.raises(ValueError, match=r"got an empty string$"):
        Client(api_key="")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"timeouts": 3}, "expected Timeouts for timeouts, got int"),
        ({"retry": 3}, "expected Retry for retry, got int"),
        ({"retry": 0}, "expected Retry for retry, got int"),
        ({"base_url": 8080}, "expected str for base_url, got int"),
        ({"api_key": b"sk"}, "expected str or SecretStr for api_key, got bytes"),
        ({"headers": "X-Mine: 1"}, "expected a mapping for headers, got str"),
    ],
)
def test_a_setting_of_another_kind_is_refused_by_its_name(settings: dict[str, Any], told: str) -> None:
    makers: list[Callable[..., object]] = [Client, Client.in_thread]
    for make in makers:
        with pytest.raises(TypeError, match=f"^{told}$"):
            make(**settings)


@pytest.mark.parametrize(
    ("argument", "orx", "openai", "sent"),
    [
        ("a", "b", "c", ["Bearer a"]),
        (SecretStr("a"), "b", "c", ["Bearer a"]),
        (None, "b", "c", ["Bearer b"]),
        (None, None, "c", ["Bearer c"]),
        (None, None, None, []),
    ],
)
async def test_the_key_comes_from_the_same_places(
    monkeypatch: pytest.MonkeyPatch,
    argument: str | SecretStr | None,
    orx: str | None,
    openai: str | None,
    sent: list[str],
) -> None:
    for name, value in (("ORX_API_KEY", orx), ("OPENAI_API_KEY", openai)):
        if value is not None:
            monkeypatch.setenv(name, value)
    async with listening() as server, Client(retry=ONCE, base_url=server.url, api_key=argument) as client:
        Ear(client.chunks(model="m"))
        _, request = await server.asked()
        assert request.all("authorization") == sent


@pytest.mark.parametrize("end", ["", "/", "//", "/\n", " "])
async def test_the_end_of_the_base_url_may_be_a_slash_or_a_blank(end: str) -> None:
    async with listening() as server, Client(base_url=f" {server.url}/v1{end}") as client:
        assert client.base_url == f"{server.url}/v1"
        Ear(client.chunks(model="m"))
        _, request = await server.asked()
        assert request.target == "/v1/responses"


@pytest.mark.parametrize(
    ("url", "got"),
    [
        ("http://me:hunter2@host/v1", "one with credentials"),
        ("http://hunter2@host/v1", "one with credentials"),
        ("http://host/v1?key=hunter2", "one with a query"),
        ("http://host/v1?", "one with a query"),
        ("http://host/v1#hunter2", "one with a fragment"),
        ("/v1/hunter2", "one that is not absolute"),
        ("hunter2", "one that is not absolute"),
        ("host:8080/hunter2", "one that is not absolute"),
        ("hunter2:hunter2@host/v1", "one that is not absolute"),
        ("http:///hunter2", "one that is not absolute"),
        ("//host/hunter2", "one that is neither http nor https"),
        ("ftp://host/hunter2", "one that is neither http nor https"),
        ("hunter2://host", "one that is neither http nor https"),
        ("http://host:hunter2/v1", "one that cannot be read"),
        ("http://host:99999/hunter2", "one that cannot be read"),
        ("http://host:0/hunter2", "one that cannot be read"),
        ("http://[hunter2/v1", "one that cannot be read"),
        ("http://ho st/hunter2", "one that cannot be read"),
        ("http://host/\nhunter2", "one that cannot be read"),
    ],
)
def test_a_wrong_base_url_is_refused_without_quoting_it(monkeypatch: pytest.MonkeyPatch, url: str, got: str) -> None:
    message = rf"^expected a base URL such as 'http://127\.0\.0\.1:8080/v1', got {got}$"
    with pytest.raises(ValueError, match=message) as caught:
        Client(base_url=url)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value)[-1:])
    assert caught.value.__context__ is None
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ValueError, match=message):
        Client()


@pytest.mark.parametrize("key", ["", "hunter2\n", "hun\r\nter2", " hunter2", "hünter2", "hunter2\x00"])
def test_a_key_that_cannot_be_sent_is_refused_without_quoting_it(key: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a key of printable ASCII") as caught:
        Client(base_url="http://host", api_key=key)
    assert "hunter2" not in str(caught.value)


def test_a_key_from_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORX_API_KEY", "hunter2\n")
    with pytest.raises(ValueError, match=r"^expected a key of printable ASCII"):
        Client(base_url="http://host")


# the key stays secret


def test_a_client_does_not_show_its_key() -> None:
    client = Client(base_url="http://host/v1", api_key=KEY)
    assert repr(client) == str(client) == "Client(base_url='http://host/v1')"
    assert KEY not in str(vars(client))


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_is_neither_pickled_nor_copied(take: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="got a client, which holds a key and connections"):
        take(Client(base_url="http://host", api_key=KEY))


EXCHANGES: dict[str, tuple[bytes, Callable[[Peer], None]]] = {
    "a whole stream": (answer(HELLO), Peer.finish),
    "an error that echoes": (
        answer(b'{"error": {"message": "wrong key: %s"}}' % KEY.encode(), "401 Unauthorized", "application/json"),
        Peer.finish,
    ),
    "a page that echoes": (
        answer(b"<html><title>%s</title>" % KEY.encode(), "500 Oops", "text/html"),
        Peer.finish,
    ),
    "another media type that echoes": (
        answer(b"Authorization: Bearer %s" % KEY.encode(), content_type=None),
        Peer.finish,
    ),
    "not HTTP": (b"SSH-2.0\r\n", Peer.finish),
    "nothing": (b"", Peer.reset),
    "a cut": (CHUNKED + chunk(START), Peer.finish),
    "a reset": (CHUNKED + chunk(START), Peer.reset),
    "a stall": (CHUNKED + chunk(START), lambda _: pass_time(300)),
}


@pytest.mark.parametrize("name", EXCHANGES)
async def test_the_key_is_in_no_log_and_no_error(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    reply, end = EXCHANGES[name]
    async with (
        listening() as server,
        Client(retry=ONCE, base_url=server.url, api_key=KEY) as client,
        told() as contexts,
    ):
        ear = Ear(client.events(model="m", input="i"))
        peer, request = await server.asked()
        assert request.all("authorization") == [f"Bearer {KEY}"]
        await peer.send(reply)
        await turns()
        end(peer)
        await ear.ended()
    texts = [*(str(vars(record)) for record in caplog.records), *map(str, contexts)]
    if ear.error is not None:
        assert isinstance(ear.error, OrxError)
        texts += [*said_by(ear.error), str(pickle.dumps(ear.error)), *traceback.format_exception(ear.error)]
    assert ear.completed == (name == "a whole stream")
    assert [record for record in caplog.records if record.name == "orx_rx"] or not reply.startswith(b"HTTP")
    assert not [text for text in texts if KEY in text]


def said_by(error: BaseException) -> list[str]:
    """Say all that an error and those behind it say of themselves."""
    behind = [other for other in (error.__cause__, error.__context__) if other is not None]
    return [str(error), repr(error), str(vars(error)), *(text for other in behind for text in said_by(other))]


# requests


async def test_the_fields_are_sent_as_json_with_stream_true() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        Ear(client.events(model="story", input="Grüße 🌙\u2028", temperature=0.5, tools=[{"type": "t"}], metadata=None))
        _, request = await server.asked()
        assert json.loads(request.body) == {
            "model": "story",
            "input": "Grüße 🌙\u2028",
            "temperature": 0.5,
            "tools": [{"type": "t"}],
            "metadata": None,
            "stream": True,
        }
        assert "Grüße 🌙".encode() in request.body
        assert (request.method, request.target) == ("POST", "/responses")
        assert request.all("content-type") == ["application/json"]
        assert request.all("accept") == ["text/event-stream"]
        (agent,) = request.all("user-agent")
        assert agent.startswith("orx_rx/")


async def test_items_of_a_response_are_sent_back_as_the_server_wrote_them() -> None:
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "arguments": '{"at":"moon"}',
        "status": "completed",
        "unheard_of": [1],
    }
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        first = Ear(client.events(model="m", input="i"))
        peer, _ = await server.asked()
        await peer.send(answer(sse(created(), terminal(output=[item]))))
        (last,) = (await first.ended()).elements[1:]
        assert isinstance(last, ResponseCompletedEvent)
        output = {"type": "function_call_output", "call_id": "call_1", "output": "full"}
        Ear(client.events(model="m", input=[*(last.response.output or ()), output]))
        assert json.loads((await peer.request()).body)["input"] == [item, output]


async def test_headers_of_the_call_win_over_those_of_the_client_and_those_over_ours() -> None:
    ours = {"user-agent": "mine", "authorization": "Basic b", "X-One": "1", "X-Two": "1"}
    async with listening() as server, Client(retry=ONCE, base_url=server.url, api_key=KEY, headers=ours) as client:
        Ear(client.events(model="m", headers={"x-two": "2", "X-Three": "3", "AUTHORIZATION": "Basic c"}))
        _, request = await server.asked()
        sent = {name: request.all(name) for name in ("user-agent", "authorization", "x-one", "x-two", "x-three")}
        assert sent == {
            "user-agent": ["mine"],
            "authorization": ["Basic c"],
            "x-one": ["1"],
            "x-two": ["2"],
            "x-three": ["3"],
        }


async def test_headers_of_a_call_are_of_that_call_alone() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        Ear(client.events(model="m", headers={"X-Once": "1"}))
        await server.asked()
        Ear(client.events(model="m"))
        _, request = await server.asked()
        assert request.all("x-once") == []


@pytest.mark.parametrize("value", [True, False, None])
def test_a_field_stream_is_refused(value: bool | None) -> None:
    with pytest.raises(TypeError, match="expected no field 'stream', since it is always true, got one"):
        Client(base_url="http://host").events(model="m", stream=value)


@pytest.mark.parametrize("value", [{1}, object(), float("inf"), "\udc00"], ids=["set", "object", "inf", "surrogate"])
def test_what_is_no_json_is_refused_at_the_call(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Client(base_url="http://host").events(model="m", input=value)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (
            {"on_violations": print},
            "on_violations, got builtin_function_or_method: did you mean on_violation of events()?",
        ),
        ({"on_outputs": print}, "on_outputs, got builtin_function_or_method: did you mean on_output of run_tools()?"),
        (
            {"timeout": Timeouts()},
            "timeout, got Timeouts: did you mean timeout of run_tools() or timeouts of events() and chunks()?",
        ),
        ({"metadata": b"x"}, "metadata, got bytes"),
        ({"metadata": {("a", 1): "x"}}, "a key of metadata, got tuple"),
        ({"input": [{"content": [{"text": print}]}]}, "input[0].content[0].text, got builtin_function_or_method"),
        ({"temperature": math.inf}, "temperature, got what it cannot hold: "),
        ({"instructions": "\udc00"}, "instructions, got what it cannot hold: "),
    ],
)
def test_an_option_that_is_misspelt_is_told_by_its_name_with_the_one_that_it_resembles(
    option: dict[str, Any], told: str
) -> None:
    client = Client(base_url="http://host")
    for ask in (client.events, client.chunks):
        with pytest.raises((TypeError, ValueError)) as raised:
            ask(model="m", input="x", **option) if "input" not in option else ask(model="m", **option)
        assert str(raised.value).startswith(f"expected JSON for {told}")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"timeouts": 3}, "expected Timeouts for timeouts, got int"),
        ({"headers": ["X-Mine"]}, "expected a mapping for headers, got list"),
        ({"on_attempt": 3}, "expected a function for on_attempt, got int"),
        ({"profile": "strict"}, "expected Profile for profile, got str"),
        ({"into": []}, "expected Accumulator for into, got list"),
        ({"linger": "1"}, "expected int or float for linger, got str"),
        ({"max_frame_bytes": "1"}, "expected int for max_frame_bytes, got str"),
        ({"scheduler": 3}, "expected a scheduler for scheduler, got int"),
    ],
)
def test_an_option_of_another_kind_is_refused_by_its_name(option: dict[str, Any], told: str) -> None:
    client = Client(base_url="http://host")
    with pytest.raises(TypeError, match=f"^{told}$"):
        client.events(model="m", **option)
    with pytest.raises(TypeError, match=f"^{told}$"):
        client.resume(Cursor("resp_1", 1), **option)


@pytest.mark.parametrize("option", [{"linger": -1}, {"max_frame_bytes": 0}])
def test_options_out_of_range_are_refused_at_the_call(option: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=rf"^expected .*{next(iter(option))} of at least"):
        Client(base_url="http://host").events(model="m", **option)  # type: ignore[arg-type]


async def test_to_wait_in_the_thread_of_the_loop_is_refused_with_what_to_use() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        sources: list[Observable[Any]] = [client.events(model="m"), client.chunks(model="m").pipe(operators.frame())]
        for source in sources:
            with pytest.raises(
                RuntimeError, match=r"final_response\(\.\.\.\), read with iterate, or use Client\.in_thread"
            ):
                source.run()


async def test_a_stream_that_has_ended_needs_nobody_to_wait() -> None:
    stream: Observable[Frame] = just(b"data: a\n\ndata: b\n\n").pipe(operators.frame())
    assert stream.run().data == b"b"
    with pytest.raises(SequenceContainsNoElementsError):
        empty().pipe(operators.frame()).run()
    closed = Client(base_url="http://host")
    await closed.aclose()
    with pytest.raises(ConnectFailed):
        closed.events(model="m").run()


async def test_the_request_is_what_it_was_at_the_call() -> None:
    fields = ["a"]
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        events = client.events(model="m", input=fields)
        fields.append("b")
        Ear(events)
        _, request = await server.asked()
        assert json.loads(request.body)["input"] == ["a"]


# streams


async def test_a_whole_stream_is_typed_checked_and_accumulated() -> None:
    found: list[Violation] = []
    accumulator = Accumulator()
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ear = Ear(client.events(model="m", profile=STRICT, on_violation=found.append, into=accumulator))
        peer, _ = await server.asked()
        await peer.send(answer(HELLO))
        await ear.ended()
        assert ear.completed, ear.error
        assert [event.type for event in ear.elements] == [payload["type"] for payload in hello()]
        assert accumulator.final_response is not None
        assert accumulator.final_response.output_text == "Hello"
        assert [violation.code for violation in found if violation.code != "field_missing"] == []


async def test_the_profile_reaches_every_step() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ear = Ear(client.events(model="m", profile=STRICT))
        peer, _ = await server.asked()
        await peer.send(answer(sse(*hello(), done=False)))
        error = await ear.failed()
        assert isinstance(error, LifecycleViolation)
        assert [violation.code for violation in error.violations][-1] == "missing_done"


async def test_the_limit_of_a_frame_reaches_the_framing() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ear = Ear(client.events(model="m", max_frame_bytes=20))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(START))
        assert isinstance(await ear.failed(), FrameTooLarge)
        assert await peer.gone()


async def test_chunks_by_hand_make_the_same_stream() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        by_hand = client.chunks(model="m").pipe(
            operators.frame(),
            operators.decode(),
            operators.sequence_check(),
            operators.lifecycle_guard(),
            operators.accumulate(),
        )
        ready = Ear(client.events(model="m"))
        peer, ready_request = await server.asked()
        await peer.send(answer(HELLO))
        await ready.ended()
        hand = Ear(by_hand)
        request = await peer.request()
        for asked in (request, ready_request):  # each has a key of its own
            asked.headers[:] = [header for header in asked.headers if header[0] != "idempotency-key"]
        assert request == ready_request
        await peer.send(answer(HELLO))
        assert (await hand.ended()).elements == ready.elements


async def test_two_streams_run_at_once() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ears = [Ear(client.events(model=name)) for name in ("a", "b")]
        by_model: dict[str, Peer] = {}
        for _ in ears:
            peer, request = await server.asked()
            by_model[json.loads(request.body)["model"]] = peer
        for peer in by_model.values():
            await peer.send(CHUNKED, chunk(START))
        for ear in ears:
            await ear.heard(4)
        rest = HELLO.removeprefix(START)
        await by_model["b"].send(chunk(rest), LAST)
        assert (await ears[1].ended()).completed
        assert not ears[0].has_ended
        await by_model["a"].send(chunk(rest), LAST)
        assert (await ears[0].ended()).completed


async def test_an_empty_event_stream_is_a_missing_terminal_after_no_event() -> None:
    error = await hear(answer(b""))
    assert isinstance(error, StreamInterrupted)
    assert str(error) == "expected a terminal, got the end of the stream after no event at all"
    assert [violation.code for violation in error.violations] == ["missing_terminal"]
    assert (error.cursor, error.snapshot) == (None, None)


@pytest.mark.parametrize("name", BROKEN)
async def test_whatever_breaks_is_an_error_of_ours(name: str) -> None:
    script, end, kind, _ = BROKEN[name]
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ear = Ear(client.events(model="m"))
        peer, _ = await server.asked()
        await script(peer)
        end(peer)
        error = await ear.failed()
        assert type(error) is kind  # no event came, so nothing was interrupted
        assert isinstance(error, OrxError)
        assert error.snapshot is None


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (CHUNKED + chunk(START), Peer.finish),
        (CHUNKED + chunk(START), Peer.reset),
        (head(content_length="9999") + START, Peer.finish),
        (UNTIL_CLOSE + START, Peer.reset),
    ],
    ids=["closed", "reset", "too short", "reset without a length"],
)
async def test_a_connection_that_breaks_in_mid_stream_is_an_interruption(
    start: bytes, end: Callable[[Peer], None]
) -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ear = Ear(client.events(model="m"))
        peer, _ = await server.asked()
        await peer.send(start)
        await ear.heard(4)
        end(peer)
        error = await ear.failed()
        assert isinstance(error, StreamInterrupted)
        assert isinstance(error.__cause__, ConnectionLost)
        assert error.cursor == Cursor("resp_a", 3)
        assert error.snapshot is not None
        assert error.snapshot.output_text == "Hel"
        await turns()
        assert not server.knocks()


async def test_a_connection_that_closes_cleanly_before_the_terminal_is_an_interruption_without_a_cause() -> None:
    error = await hear(UNTIL_CLOSE + START)
    assert isinstance(error, StreamInterrupted)
    assert error.__cause__ is None
    assert error.cursor == Cursor("resp_a", 3)
    assert error.snapshot is not None
    assert error.snapshot.output_text == "Hel"
    assert [violation.code for violation in error.violations] == ["missing_terminal"]


async def test_an_error_of_the_server_in_the_stream_carries_the_snapshot() -> None:
    body = START + b'data: {"type": "error", "sequence_number": 4, "error": {"code": "c", "message": "Boom"}}\n\n'
    error = await hear(answer(body))
    assert isinstance(error, ServerError)
    assert (error.code, error.message, error.sequence_number) == ("c", "Boom", 4)
    assert error.snapshot is not None
    assert error.snapshot.output_text == "Hel"


@pytest.mark.parametrize("end", [Peer.finish, Peer.reset])
@pytest.mark.parametrize("start", [CHUNKED + chunk(HELLO), head(content_length="9999") + HELLO, UNTIL_CLOSE + HELLO])
async def test_a_connection_that_breaks_after_the_terminal_does_not_matter(
    start: bytes, end: Callable[[Peer], None]
) -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ear = Ear(client.events(model="m", linger=60))
        peer, _ = await server.asked()
        await peer.send(start)
        await ear.heard(9)
        assert not ear.has_ended
        end(peer)
        assert (await ear.ended()).completed
        assert isinstance(ear.elements[-1], ResponseCompletedEvent)


async def test_a_terminal_and_a_reset_that_come_together_are_a_whole_stream() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ear = Ear(client.events(model="m"))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(HELLO))
        peer.reset()
        await ear.ended()
        # a reset may destroy what the client's system had not read; if anything came, all of it did
        if ear.elements:
            assert ear.completed
            assert len(ear.elements) == 9
        else:
            assert isinstance(ear.error, TransportError)


# the end


async def test_a_server_that_ends_the_body_after_the_terminal_gets_the_next_request_on_the_same_connection() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        peer: Peer | None = None
        for _ in range(3):
            ear = Ear(client.events(model="m", linger=60))
            peer = peer or await server.accept()
            await peer.request()
            await peer.send(CHUNKED, chunk(HELLO), LAST)
            assert (await ear.ended()).completed
        assert len(server.peers) == 1
        assert not server.knocks()


@pytest.mark.parametrize("reply", [CHUNKED + chunk(HELLO) + LAST, answer(b"{}", "500 Oops"), CHUNKED + chunk(START)])
async def test_a_client_does_not_keep_a_stream_that_is_over(reply: bytes) -> None:
    async def use() -> weakref.ref[Ear[Event]]:
        ear = Ear(client.events(model="m"))
        peer, _ = await server.asked()
        await peer.send(reply)
        await until(lambda: len(ear.elements) >= 4 or ear.has_ended)
        ear.subscription.dispose()
        return weakref.ref(ear)

    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ref = await use()
        await until(lambda: not other_tasks())
        await turns()
        gc.collect()
        assert ref() is None


async def test_disposing_in_mid_stream_closes_the_connection_at_once() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client, told() as contexts:
        ear = Ear(client.events(model="m"))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(START))
        await ear.heard(4)
        ear.subscription.dispose()
        await asyncio.sleep(0)  # transports close in the next turn of the loop
        assert peer.is_gone()
        assert not other_tasks()
        assert not ear.has_ended
    assert not contexts


async def test_two_hundred_streams_that_are_disposed_leave_nothing() -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with listening() as server, aiohttp.ClientSession(connector=connector) as session, told() as contexts:
        client = Client(retry=ONCE, base_url=server.url, session=session)
        events, ears = client.events(model="m"), list[Ear[Event]]()
        for _ in range(200):
            ears.append(ear := Ear(events))
            peer, _ = await server.asked()
            await peer.send(CHUNKED, chunk(START))
            await ear.heard(4)
            ear.subscription.dispose()
            assert await peer.gone()
            peer.close()
        assert not other_tasks()
        await client.aclose()
        assert not [ear for ear in ears if ear.has_ended]
    assert not contexts


async def test_a_subscriber_that_raises_ends_its_stream_and_the_loop_hears_of_it_once() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client, told() as contexts:
        ear = Ear(client.events(model="m"), fail)
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(START))
        assert isinstance(await ear.failed(), ZeroDivisionError)
        assert await peer.gone()
        await until(lambda: not other_tasks())
        assert len(ear.elements) == 1
        await client.aclose()  # tells whoever is still listening, which is nobody
    assert [context["exception"] for context in contexts] == [ear.error]


def fail(_: object) -> NoReturn:
    raise ZeroDivisionError("of the subscriber")


# the session


async def test_a_session_of_its_own_is_closed_with_the_client() -> None:
    async with listening() as server, told() as contexts:
        async with Client(retry=ONCE, base_url=server.url) as client:
            ear = Ear(client.events(model="m"))
            peer, _ = await server.asked()
            await peer.send(answer(HELLO))
            await ear.ended()
        assert peer.is_gone()
        del client
        gc.collect()  # a session left open would warn now
    assert not contexts


async def test_a_client_that_was_never_used_needs_no_closing() -> None:
    async with told() as contexts:
        client = Client(base_url="http://host")
        client.events(model="m")
        del client
        gc.collect()
    assert not contexts


async def test_a_given_session_stays_open() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        async with Client(retry=ONCE, base_url=server.url, session=session) as client:
            ear = Ear(client.events(model="m"))
            peer, _ = await server.asked()
            await peer.send(answer(HELLO))
            await ear.ended()
        assert not session.closed
        async with Client(retry=ONCE, base_url=server.url, session=session) as client:
            ear = Ear(client.events(model="m"))
            await peer.request()
            await peer.send(answer(HELLO))
            assert (await ear.ended()).completed


@pytest.mark.parametrize("given", [False, True])
async def test_closing_the_client_ends_its_streams(given: bool) -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        client = Client(retry=ONCE, base_url=server.url, session=session if given else None)
        chunks = Ear(client.chunks(model="m"))
        chunks_peer, _ = await server.asked()
        await chunks_peer.send(CHUNKED, chunk(START))
        await chunks.heard(1)
        events = Ear(client.events(model="m"))
        events_peer, _ = await server.asked()
        await events_peer.send(CHUNKED, chunk(START))
        await events.heard(4)
        waiting = Ear(client.events(model="m"))
        waiting_peer, _ = await server.asked()

        await client.aclose()
        assert chunks_peer.is_gone()
        assert events_peer.is_gone()
        assert await waiting_peer.gone()
        assert not other_tasks()
        assert isinstance(chunks.error, ConnectionLost)
        assert str(chunks.error) == "expected the rest of the body, got a client that was closed"
        assert isinstance(events.error, StreamInterrupted)
        assert isinstance(events.error.__cause__, ConnectionLost)
        assert events.error.cursor == Cursor("resp_a", 3)
        assert isinstance(waiting.error, ConnectionLost)


async def test_closing_the_client_tells_all_even_if_one_of_them_raises(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as server:
        client = Client(retry=ONCE, base_url=server.url)
        client.chunks(model="m").subscribe(lambda _: None, fail)
        ear = Ear(client.chunks(model="m"))
        for _ in range(2):
            await server.asked()
        await client.aclose()
        assert isinstance(ear.error, ConnectionLost)
        assert [record.getMessage() for record in caplog.records] == [
            "a subscriber raised at the end error=ZeroDivisionError"
        ]
        await client.aclose()


async def test_a_client_that_was_closed_connects_no_more() -> None:
    async with listening() as server:
        client = Client(retry=ONCE, base_url=server.url)
        before = client.events(model="m")
        await client.aclose()
        for events in (before, client.events(model="m")):
            error = await Ear(events).failed()
            assert type(error) is ConnectFailed
            assert str(error) == "expected an open client, got one that was closed"
        assert not server.knocks()


def test_a_second_event_loop_is_refused() -> None:
    client = Client(base_url="http://127.0.0.1:1")

    async def use() -> Exception:
        return await Ear(client.events(model="m")).failed()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        assert str(first.run(use())).startswith("expected an answer, got ")
        error = second.run(use())
        first.run(client.aclose())
    assert type(error) is ConnectFailed
    assert str(error) == "expected the event loop that the client was first used in, got another one"


def test_without_a_running_loop_a_subscriber_is_told_so() -> None:
    ear = Ear(Client(base_url="http://host").events(model="m"))
    assert isinstance(ear.error, RuntimeError)
    assert str(ear.error).startswith("expected a running event loop")


# proxies and netrc


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    async with listening() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"{scheme}me:hunter2@127.0.0.1:{proxy.port}")
        async with Client(base_url="http://model.invalid:8080/v1", api_key=KEY) as client:
            ear = Ear(client.events(model="m"))
            peer, request = await proxy.asked()
            assert request.target == "http://model.invalid:8080/v1/responses"
            assert request.all("host") == ["model.invalid:8080"]
            assert request.all("proxy-authorization") == ["Basic bWU6aHVudGVyMg=="]
            assert request.all("authorization") == [f"Bearer {KEY}"]
            await peer.send(answer(HELLO))
            assert (await ear.ended()).completed


async def test_the_proxy_is_that_of_the_moment_when_the_client_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as proxy, listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        Ear(client.events(model="m"))
        await server.asked()
        assert not proxy.knocks()


@pytest.mark.parametrize("exceptions", ["127.0.0.1", "*", "localhost,127.0.0.1:{port}"])
async def test_hosts_that_need_no_proxy_get_none(monkeypatch: pytest.MonkeyPatch, exceptions: str) -> None:
    async with listening() as proxy, listening() as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", exceptions.format(port=server.port))
        async with Client(retry=ONCE, base_url=server.url) as client:
            ear = Ear(client.events(model="m"))
            peer, request = await server.asked()
            assert request.target == "/responses"
            await peer.send(answer(HELLO))
            assert (await ear.ended()).completed
            assert not proxy.knocks()


async def test_a_given_session_decides_about_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as proxy, listening() as server, aiohttp.ClientSession() as session:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        Ear(Client(retry=ONCE, base_url=server.url, session=session).events(model="m"))
        await server.asked()
        assert not proxy.knocks()


async def test_a_proxy_that_cannot_be_reached_is_a_failure_to_connect_that_does_not_tell_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with listening() as proxy:
        url = f"http://me:hunter2@127.0.0.1:{proxy.port}"
    monkeypatch.setenv("HTTP_PROXY", url)
    async with Client(retry=ONCE, base_url="http://model.invalid") as client:
        error = await Ear(client.events(model="m")).failed()
        assert type(error) is ConnectFailed
        assert not [text for text in said_by(error) if "hunter2" in text]


async def test_a_tunnel_that_the_proxy_refuses_is_a_failure_to_connect_that_does_not_tell_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with listening() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:hunter2@127.0.0.1:{proxy.port}")
        async with Client(retry=ONCE, base_url="https://model.invalid", api_key=KEY) as client:
            ear = Ear(client.events(model="m"))
            peer, request = await proxy.asked()
            assert (request.method, request.target) == ("CONNECT", "model.invalid:443")
            await peer.send(answer(b"", "403 Forbidden"))
            error = await ear.failed()
            assert type(error) is ConnectFailed
            assert str(error) == "expected an answer, got a refusal of the proxy"
            assert not [text for text in said_by(error) if "hunter2" in text or KEY in text]


@pytest.mark.parametrize(("key", "sent"), [(KEY, [f"Bearer {KEY}"]), (None, [])])
async def test_passwords_of_netrc_are_not_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str | None, sent: list[str]
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password hunter2\n", encoding="ascii")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with listening() as server, Client(retry=ONCE, base_url=server.url, api_key=key) as client:
        Ear(client.events(model="m"))
        _, request = await server.asked()
        assert request.all("authorization") == sent


# errors of the server


async def test_an_error_status_reaches_who_awaits_the_final_response() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        waiting = asyncio.ensure_future(final_response(client.events(model="m")))
        peer, _ = await server.asked()
        await peer.send(answer(b'{"error": {"message": "No such model", "code": "model_not_found"}}', "400 Bad"))
        with pytest.raises(BadRequest, match="No such model") as caught:
            await waiting
        assert caught.value.code == "model_not_found"


async def test_an_answer_of_another_media_type_reaches_the_subscriber() -> None:
    assert isinstance(await hear(answer(b"{}", content_type="application/json")), NotAnEventStream)


async def hear(reply: bytes) -> Exception:
    """Run a stream through the canonical chain, let the server close cleanly, and return the error."""
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ear: Ear[Event] = Ear(client.events(model="m"))
        peer, _ = await server.asked()
        await peer.send(reply)
        peer.finish()
        return await ear.failed()


async def test_an_error_has_the_violations_that_every_step_found() -> None:
    named = (
        b'event: response.queued\ndata: {"type": "response.created",'
        b' "response": {"id": "resp_a", "status": "in_progress", "output": []}}\n\n'
    )
    error = await hear(UNTIL_CLOSE + named)
    assert isinstance(error, StreamInterrupted)
    codes = [violation.code for violation in error.violations]
    assert codes == ["event_name_mismatch", "sequence_missing", "missing_terminal"]


async def test_a_request_of_some_megabytes_is_sent_without_a_warning() -> None:
    text = "x" * 3_000_000
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        for _ in range(2):
            assert (await final_response(client.events(model="story", input=text))).status == "completed"
        assert [request.body and request.body["input"] == text for request in simulator.requests] == [True, True]
