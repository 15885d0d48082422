"""Sending a request again: when, after how long, and never twice for the same answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from reactivex import Observable
from reactivex.disposable import Disposable
from reactivex.testing import ReactiveTest, TestScheduler

from orx_rx import (
    BadRequest,
    Client,
    ConnectFailed,
    ConnectionLost,
    RateLimited,
    ServerFault,
    StatusError,
    StreamInterrupted,
    StreamTimeout,
    final_response,
)
from orx_rx.http.retry import Retry, backoff, may_retry, retried
from orx_rx.reporting import Attempt
from orx_rx.simulator import Fault, Simulator
from tests.chain import hello, sse
from tests.servers import (
    CHUNKED,
    Ear,
    Request,
    Server,
    answer,
    chunk,
    listening,
    other_tasks,
    turns,
    until,
)
from tests.servers import (
    clean_environment as clean_environment,
)

pytestmark = pytest.mark.usefixtures("clean_environment")

AT_ONCE = Retry(first=0, most=0)
NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
HELLO = sse(*hello())


def refusal(status: int = 429, /, *, code: str | None = None, type: str | None = None, **headers: str) -> StatusError:
    """Make a refusal; `retry_after` is a header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return StatusError(status, "no", code=code, type=type, headers=named)


def delay_of(error: Exception, attempt: int = 0, retry: Retry | None = None, chance: float = 0.0) -> float | None:
    return (retry or Retry()).delay(error, attempt, now=lambda: NOW, chance=lambda: chance)


# what may be tried again


@pytest.mark.parametrize(
    ("error", "again"),
    [
        *((refusal(status), True) for status in (408, 409, 429, 500, 502, 503, 504, 529, 599)),
        *((refusal(status), False) for status in (301, 400, 401, 403, 404, 405, 413, 422, 451)),
        (ConnectFailed("no"), True),
        (StreamTimeout("connect", 1), True),
        *((StreamTimeout(clock, 1), False) for clock in ("first_event", "idle", "progress", "duration")),
        (ConnectionLost("no"), False),
        (ValueError("no"), False),
        (refusal(code="insufficient_quota"), False),
        (refusal(type="insufficient_quota"), False),
        (refusal(code="credit_balance_exhausted"), False),
        (refusal(code="insufficient_quota", x_should_retry="true"), False),
        (refusal(code="rate_limit_exceeded", type="rate_limit_error"), True),
        (refusal(400, x_should_retry="true"), True),
        (refusal(429, x_should_retry="false"), False),
        (refusal(500, x_should_retry="false"), False),
        (refusal(429, x_should_retry="perhaps"), True),
        (refusal(400, x_should_retry="perhaps"), False),
    ],
    ids=lambda value: f"{type(value).__name__} {value}"[:60],
)
def test_only_what_may_pass_is_tried_again(error: Exception, again: bool) -> None:
    assert may_retry(error) is again
    assert (delay_of(error) is not None) is again


# how long to wait


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry_after_ms": "20"}, 0.02),
        ({"retry_after_ms": "1.5"}, 0.0015),
        ({"retry_after_ms": "20", "retry_after": "7"}, 0.02),
        ({"retry_after_ms": "soon", "retry_after": "7"}, 7.0),
        ({"retry_after_ms": "nan", "retry_after": "7"}, 7.0),
        ({"retry_after": "0"}, 0.0),
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.25"}, 0.25),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "120"}, 120.0),
        ({"retry_after": "120.5"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after_ms": "120001"}, None),
        ({"retry_after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry_after": "Thu, 01 Jan 2026 13:00:30 +0100"}, 30.0),
        ({"retry_after": "Thu, 01 Jan 2026 12:00:30 -0000"}, 30.0),
        ({"retry_after": "Thu, 01 Jan 2026 11:59:00 GMT"}, 0.0),
        ({"retry_after": "Thu, 01 Jan 2026 13:00:00 GMT"}, None),
        ({"retry_after": "Fri, 31 Dec 9999 23:59:59 -0500"}, None),
        ({"retry_after": "Fri, 31 Dec 99999 23:59:59 GMT"}, 0.5),
        ({"retry_after": "soon"}, 0.5),
        ({"retry_after": "nan"}, 0.5),
        ({"retry_after": ""}, 0.5),
        ({}, 0.5),
    ],
)
def test_what_the_server_asks_for_comes_first(headers: dict[str, Any], delay: float | None) -> None:
    found = delay_of(refusal(429, **headers))
    assert found == (None if delay is None else pytest.approx(delay))


def test_the_zone_of_the_machine_has_no_part_in_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert delay_of(refusal(retry_after="Thu, 01 Jan 2026 12:00:30 -0000")) == 30
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_date_is_compared_with_the_clock_of_the_machine() -> None:
    assert Retry().delay(refusal(retry_after="Thu, 01 Jan 1970 00:00:00 GMT"), 0) == 0


@pytest.mark.parametrize("longest", [0.0, 5.0])
def test_a_server_that_asks_for_too_long_is_left_alone(longest: float) -> None:
    assert delay_of(refusal(retry_after="5.01"), retry=Retry(longest=longest)) is None


def test_the_wait_doubles_up_to_most() -> None:
    retry = Retry(attempts=9)
    waits = [delay_of(ConnectFailed("no"), attempt, retry) for attempt in range(10)]
    assert waits == [0.5, 1, 2, 4, 8, 8, 8, 8, 8, None]


@pytest.mark.parametrize("attempt", [0, 3, 6])
def test_the_wait_is_shortened_by_a_quarter_at_most(attempt: int) -> None:
    whole = delay_of(ConnectFailed("no"), attempt, Retry(attempts=9), chance=0)
    assert whole is not None
    assert delay_of(ConnectFailed("no"), attempt, Retry(attempts=9), chance=1) == whole * 0.75
    for _ in range(50):
        found = Retry(attempts=9).delay(ConnectFailed("no"), attempt)
        assert found is not None
        assert whole * 0.75 <= found <= whole


def test_what_the_server_asks_for_is_not_shortened() -> None:
    assert delay_of(refusal(retry_after="4"), chance=1) == 4


def test_no_number_of_attempts_is_too_high_to_wait_for() -> None:
    assert backoff(0.5, 8, 5_000, lambda: 0) == 8
    assert backoff(0, 8, 5_000, lambda: 0) == 0


@pytest.mark.parametrize("attempts", [0, 1, 2, 5])
def test_attempts_are_counted(attempts: int) -> None:
    decided = [delay_of(ServerFault(500, "no"), attempt, Retry(attempts=attempts)) for attempt in range(7)]
    assert [wait is not None for wait in decided] == [attempt < attempts for attempt in range(7)]


def test_a_server_that_asks_to_come_back_is_not_asked_more_often() -> None:
    assert delay_of(refusal(retry_after="1", x_should_retry="true"), 2) is None


@pytest.mark.parametrize("name", ["attempts", "first", "most", "longest"])
@pytest.mark.parametrize("value", [-1, -0.001, math.nan])
def test_numbers_that_make_no_sense_are_refused(name: str, value: float) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"expected {name} of at least 0, got {value}"):
        Retry(**options)


# in virtual time: a subscription in 200, a tick is a second

next_, error_, done_ = ReactiveTest.on_next, ReactiveTest.on_error, ReactiveTest.on_completed
HALVES = Retry(attempts=2, longest=100)


def fails_after(scheduler: TestScheduler, *tries: tuple[Any, ...]) -> tuple[Observable[str], list[float]]:
    """Make a source that does something else with every subscription, and say when they were."""
    left, when = list(tries), list[float]()

    def subscribe(observer: Any, _: Any = None) -> Any:
        when.append(scheduler.clock)
        return scheduler.create_cold_observable(*left.pop(0)).subscribe(observer, scheduler=scheduler)

    return Observable(subscribe), when


def test_a_request_is_sent_again_after_the_wait() -> None:
    scheduler = TestScheduler()
    source, when = fails_after(
        scheduler,
        (error_(10, refusal(retry_after="20")),),
        (error_(10, refusal(retry_after="30")),),
        (next_(5, "a"), next_(6, "b"), done_(7)),
    )
    seen = scheduler.start(lambda: retried(source, HALVES, scheduler=scheduler))
    assert when == [200, 230, 270]
    assert seen.messages == [next_(275, "a"), next_(276, "b"), done_(277)]


def test_the_scheduler_of_the_subscriber_keeps_the_time() -> None:
    scheduler = TestScheduler()
    source, when = fails_after(scheduler, (error_(10, refusal(retry_after="20")),), (done_(1),))
    ended: list[float] = []
    retried(source, HALVES).subscribe(on_completed=lambda: ended.append(scheduler.clock), scheduler=scheduler)
    scheduler.start()
    assert (when, ended) == ([0, 30], [31])


def test_the_last_error_is_told_when_attempts_run_out() -> None:
    scheduler = TestScheduler()
    last = refusal(503, retry_after="1")
    first = refusal(retry_after="1")
    source, when = fails_after(scheduler, (error_(1, first),), (error_(1, first),), (error_(1, last),))
    seen = scheduler.start(lambda: retried(source, HALVES, scheduler=scheduler))
    assert when == [200, 202, 204]
    assert seen.messages == [error_(205, last)]


def test_what_will_not_pass_is_told_at_once() -> None:
    scheduler = TestScheduler()
    error = BadRequest(400, "no")
    source, when = fails_after(scheduler, (error_(10, error),))
    seen = scheduler.start(lambda: retried(source, HALVES, scheduler=scheduler))
    assert (when, seen.messages) == ([200], [error_(210, error)])


def test_nothing_is_sent_again_after_the_first_element() -> None:
    scheduler = TestScheduler()
    error = ConnectFailed("no")
    source, when = fails_after(scheduler, (error_(1, refusal(retry_after="1")),), (next_(1, "a"), error_(2, error)))
    seen = scheduler.start(lambda: retried(source, HALVES, scheduler=scheduler))
    assert when == [200, 202]
    assert seen.messages == [next_(203, "a"), error_(204, error)]


def test_a_source_that_is_empty_is_complete() -> None:
    scheduler = TestScheduler()
    source, when = fails_after(scheduler, (done_(10),))
    seen = scheduler.start(lambda: retried(source, HALVES, scheduler=scheduler))
    assert (when, seen.messages) == ([200], [done_(210)])


def test_nothing_is_sent_after_a_dispose_during_the_wait() -> None:
    scheduler = TestScheduler()
    source, when = fails_after(scheduler, (error_(10, refusal(retry_after="50")),))
    seen = scheduler.start(lambda: retried(source, HALVES, scheduler=scheduler), disposed=230)
    assert (when, seen.messages) == ([200], [])


def test_a_dispose_reaches_the_attempt_that_runs() -> None:
    scheduler = TestScheduler()
    disposed: list[float] = []

    def subscribe(observer: Any, _: Any = None) -> Any:
        if scheduler.clock == 200:
            observer.on_error(refusal(retry_after="20"))
        return Disposable(lambda: disposed.append(scheduler.clock))

    source: Observable[str] = Observable(subscribe)
    scheduler.start(lambda: retried(source, HALVES, scheduler=scheduler), disposed=250)
    assert disposed == [200, 250]


def test_a_listener_hears_of_every_attempt_before_the_wait() -> None:
    scheduler = TestScheduler()
    heard: list[tuple[float, Attempt]] = []
    errors = [refusal(retry_after="20"), refusal(503, retry_after="30")]
    source, _ = fails_after(scheduler, *((error_(10, error),) for error in errors), (done_(1),))
    scheduler.start(
        lambda: retried(source, HALVES, on_attempt=lambda a: heard.append((scheduler.clock, a)), scheduler=scheduler)
    )
    assert heard == [(210, Attempt("retry", 1, 20, errors[0])), (240, Attempt("retry", 2, 30, errors[1]))]


def test_a_listener_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def raises(_: Attempt) -> None:
        raise RuntimeError("boom")

    scheduler = TestScheduler()
    source, when = fails_after(scheduler, (error_(10, refusal(retry_after="20")),), (next_(1, "a"), done_(2)))
    seen = scheduler.start(lambda: retried(source, HALVES, on_attempt=raises, scheduler=scheduler))
    assert when == [200, 230]
    assert seen.messages == [next_(231, "a"), done_(232)]
    assert "a listener to attempts raised error=RuntimeError" in caplog.text


def test_every_subscription_has_attempts_of_its_own() -> None:
    scheduler = TestScheduler()
    error = refusal(retry_after="0")
    source, when = fails_after(scheduler, *[(error_(1, error),)] * 6)
    both = retried(source, HALVES, scheduler=scheduler)
    ended: list[Exception] = []
    for _ in range(2):
        both.subscribe(on_error=ended.append, scheduler=scheduler)
    scheduler.start()
    assert (len(when), ended) == (6, [error, error])


# over the network


@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", request=0, status=429, retry_after="0"),
        Fault("status", request=0, status=429, retry_after="Thu, 01 Jan 1970 00:00:00 GMT"),
        Fault("status", request=0, status=408, retry_after_ms="0"),
        Fault("status", request=0, status=409),
        Fault("status", request=0, status=500),
        Fault("status", request=0, status=400, headers={"x-should-retry": "true"}),
        Fault("refuse", request=0, kind="fin"),
        Fault("refuse", request=0, kind="rst"),
    ],
)
async def test_one_failure_costs_an_attempt_and_nothing_else(fault: Fault) -> None:
    attempts: list[Attempt] = []
    async with Simulator(faults=[fault]) as simulator, Client(base_url=simulator.base_url, retry=AT_ONCE) as client:
        response = await final_response(client.events(model="story", input="x", on_attempt=attempts.append))
        posts = [request for request in simulator.requests if request.method == "POST"]
    assert response.status == "completed"
    assert ([attempt.number for attempt in attempts], len(posts)) == ([1], 2)
    assert posts[0].body == posts[1].body


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_that_stays_is_told_after_one_request(status: int) -> None:
    fault = Fault("status", status=status)
    async with Simulator(faults=[fault]) as simulator, Client(base_url=simulator.base_url, retry=AT_ONCE) as client:
        with pytest.raises(StatusError) as caught:
            await final_response(client.events(model="story", input="x"))
        assert len(simulator.requests) == 1
    assert caught.value.status == status


@pytest.mark.parametrize("attempts", [0, 1, 3])
async def test_a_server_that_stays_busy_is_asked_so_often(attempts: int) -> None:
    fault = Fault("status", status=429, retry_after="0")
    retry = Retry(attempts=attempts)
    async with Simulator(faults=[fault]) as simulator, Client(base_url=simulator.base_url, retry=retry) as client:
        with pytest.raises(RateLimited):
            await final_response(client.events(model="story", input="x"))
        assert len(simulator.requests) == attempts + 1


async def test_a_server_that_asks_for_an_hour_is_asked_once() -> None:
    fault = Fault("status", status=429, retry_after="3600")
    async with Simulator(faults=[fault]) as simulator, Client(base_url=simulator.base_url) as client:
        with pytest.raises(RateLimited):
            await final_response(client.events(model="story", input="x"))
        assert len(simulator.requests) == 1


async def test_what_is_spent_stays_spent() -> None:
    body = {"error": {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}}
    fault = Fault("status", status=429, body=body)
    async with Simulator(faults=[fault]) as simulator, Client(base_url=simulator.base_url, retry=AT_ONCE) as client:
        with pytest.raises(RateLimited):
            await final_response(client.events(model="story", input="x"))
        assert len(simulator.requests) == 1


async def busy_once(server: Server) -> list[Request]:
    """Refuse a request, and answer the next one."""
    found: list[Request] = []
    for reply in (answer(b"{}", "503 Busy", "application/json", connection="close"), answer(HELLO, connection="close")):
        peer, request = await server.asked()
        found.append(request)
        await peer.send(reply)
        peer.finish()
    return found


async def test_all_attempts_have_one_idempotency_key_and_every_subscription_another() -> None:
    async with listening() as server, Client(base_url=server.url, retry=AT_ONCE) as client:
        events = client.events(model="m", input="x")
        keys: list[list[str]] = []
        for _ in range(2):
            ear = Ear(events)
            keys.append([key for request in await busy_once(server) for key in request.all("idempotency-key")])
            assert (await ear.ended()).completed
    assert [len(of_one) for of_one in keys] == [2, 2]
    assert [len(set(of_one)) for of_one in keys] == [1, 1]
    assert len({key for of_one in keys for key in of_one}) == 2


async def test_the_key_of_the_caller_wins() -> None:
    async with listening() as server, Client(base_url=server.url, retry=AT_ONCE) as client:
        ear = Ear(client.events(model="m", input="x", headers={"Idempotency-Key": "mine"}))
        assert [request.all("idempotency-key") for request in await busy_once(server)] == [["mine"], ["mine"]]
        await ear.ended()


@pytest.mark.parametrize("data", [b"", b": hi\n\n", HELLO[:30]])
@pytest.mark.parametrize("background", [False, True])
async def test_an_answer_that_began_is_never_asked_for_again(data: bytes, background: bool) -> None:
    async with listening() as server, Client(base_url=server.url, retry=AT_ONCE) as client:
        ear = Ear(client.events(model="m", input="x", background=background))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(data) if data else b"")
        await turns()
        peer.finish()
        assert isinstance(await ear.failed(), StreamInterrupted | ConnectionLost)
        await turns()
        assert not server.knocks()


async def test_a_client_that_is_closed_during_the_wait_tells_its_subscribers() -> None:
    fault = Fault("status", status=429, retry_after="100")
    attempts: list[Attempt] = []
    async with Simulator(faults=[fault]) as simulator:
        client = Client(base_url=simulator.base_url)
        ear = Ear(client.events(model="story", input="x", on_attempt=attempts.append))
        await until(lambda: bool(attempts))
        await client.aclose()
        assert isinstance(ear.error, ConnectionLost | StreamInterrupted)
        await simulator.wait_for(lambda s: s.connections == 0)
        assert len(simulator.requests) == 1


async def test_a_closed_client_does_not_try_again() -> None:
    client = Client(base_url="http://127.0.0.1:9")
    await client.aclose()
    attempts: list[Attempt] = []
    error = await Ear(client.events(model="m", input="x", on_attempt=attempts.append)).failed()
    assert isinstance(error, ConnectFailed)
    assert attempts == []


async def test_leaving_during_the_wait_leaves_nothing() -> None:
    fault = Fault("status", status=429, retry_after="100")
    attempts: list[Attempt] = []
    async with Simulator(faults=[fault]) as simulator:
        before = other_tasks()
        async with Client(base_url=simulator.base_url) as client:
            ear = Ear(client.events(model="story", input="x", on_attempt=attempts.append))
            await until(lambda: bool(attempts))
            ear.subscription.dispose()
        await simulator.wait_for(lambda s: s.connections == 0)
        await until(lambda: other_tasks() <= before)
        assert len(simulator.requests) == 1
    assert (ear.elements, ear.has_ended) == ([], False)


@pytest.mark.parametrize("ask", [Client.retrieve, Client.cancel])
async def test_a_question_about_a_response_is_asked_again(ask: Callable[[Client, str], Any]) -> None:
    fault = Fault("status", request=1, status=503, retry_after="0")
    async with (
        Simulator(hold=3, faults=[fault]) as simulator,
        Client(base_url=simulator.base_url, retry=AT_ONCE) as client,
    ):
        ear = await Ear(client.events(model="long-3", input="x", background=True)).heard(3)
        response = await ask(client, "resp_0001")
        assert response.id == "resp_0001"
        assert len(simulator.requests) == 3
        ear.subscription.dispose()
