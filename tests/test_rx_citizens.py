"""Our streams among the operators of Rx: retry, amb, merge and their like, over sockets and in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import reactivex
from reactivex import GroupedObservable, Observable, Subject, compose
from reactivex import operators as rx
from reactivex.testing import TestScheduler

from examples.existing_rx import meter, named, repaints
from orx_rx import Client, SequenceViolation, StreamInterrupted, final_response, iterate
from orx_rx import operators as ops
from orx_rx.models import Event, ResponseTextDeltaEvent
from orx_rx.simulator import Fault, Simulator
from tests import chain
from tests.marbles import cold, draw, now
from tests.servers import Ear, other_tasks, turns
from tests.servers import clean_environment as clean_environment
from tests.sources import Listener, Source

STORY = "Tell me one"
ENDED = "response.completed"
BROKEN = Fault("cut", connection=0, after_events=12, kind="fin")  # in the middle of the text


@asynccontextmanager
async def served(**manner: Any) -> AsyncGenerator[tuple[Simulator, Client]]:
    async with Simulator(**manner) as simulator, Client(base_url=simulator.base_url) as client:
        yield simulator, client


def story(client: Client, **request: Any) -> Observable[Event]:
    return client.events(model="story", input=STORY, **request)


def types(events: Sequence[Event]) -> list[str]:
    return [event.type for event in events]


def our_tasks() -> list[str]:
    return [task.get_name() for task in other_tasks() if "orx_rx" in task.get_name()]


async def all_hang_up(simulator: Simulator, count: int) -> None:
    """Wait until so many clients went away, and hold the client's side to it."""
    await simulator.wait_for(lambda s: s.disconnects == count and s.open_streams == 0)
    await turns()
    assert our_tasks() == []


# retry


async def test_retry_in_front_of_fan_out_asks_again_and_all_hear_the_broken_answer_and_then_another_one() -> None:
    async with served(faults=[BROKEN]) as (simulator, client):
        events = story(client).pipe(rx.retry(2), ops.fan_out())
        ears = [Ear(events), Ear(events)]
        await ears[0].ended()
        ears.append(Ear(events))  # a late one
        heard = [types(ear.elements) for ear in ears]
        assert heard[0] == heard[1] == heard[2]
        assert [ear.error for ear in ears] == [None] * 3
        assert heard[0].count("response.created") == 2
        assert heard[0][12] == "response.created"
        assert heard[0].count(ENDED) == 1
        assert [request.method for request in simulator.requests] == ["POST"] * 2


async def test_retry_behind_fan_out_never_asks_again_and_repeats_what_was_heard() -> None:
    async with served(faults=[BROKEN]) as (simulator, client):
        events = story(client).pipe(ops.fan_out(), rx.retry(3))
        ear = Ear(events)
        assert isinstance(await ear.failed(), StreamInterrupted)
        assert ear.elements == ear.elements[:12] * 3
        assert len(simulator.requests) == 1


async def test_retry_behind_fan_out_without_history_repeats_only_the_error() -> None:
    async with served(faults=[BROKEN]) as (simulator, client):
        ear = Ear(story(client).pipe(ops.fan_out(history=None), rx.retry(3)))
        assert isinstance(await ear.failed(), StreamInterrupted)
        assert len(ear.elements) == 12
        assert len(simulator.requests) == 1


async def test_retry_behind_what_waits_for_the_whole_answer_shows_nobody_half_of_one_and_costs_a_second_one() -> None:
    async with served(faults=[BROKEN]) as (simulator, client):
        ear = Ear(story(client).pipe(rx.to_list(), rx.retry(2), ops.fan_out()))
        await ear.ended()
        (answer,) = ear.elements
        assert types(answer).count("response.created") == types(answer).count(ENDED) == 1
        assert len(simulator.requests) == 2


async def test_retry_within_the_chain_glues_two_answers_together_and_is_found_out() -> None:
    async with served(faults=[BROKEN]) as (simulator, client):
        checked = (ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.accumulate())
        chunks = client.chunks(model="story", input=STORY)
        ear = Ear(chunks.pipe(rx.retry(2), ops.frame(), *checked))
        assert isinstance(await ear.failed(), SequenceViolation)
        assert len(simulator.requests) == 2


async def test_retry_multiplies_the_attempts_of_the_client_and_asks_in_vain_as_well() -> None:
    busy = Fault("status", status=503, retry_after="0")
    async with served(faults=[busy]) as (simulator, client):
        await Ear(story(client).pipe(rx.retry(3))).failed()
        assert len(simulator.requests) == 3 * (1 + 2)
    async with served(faults=[Fault("status", status=400)]) as (simulator, client):
        await Ear(story(client).pipe(rx.retry(3))).failed()
        assert len(simulator.requests) == 3


async def test_a_client_needs_no_retry_for_what_fails_before_the_answer() -> None:
    busy = Fault("status", connection=0, status=503, retry_after="0")
    async with served(faults=[busy]) as (simulator, client):
        ear = await Ear(story(client).pipe(ops.fan_out())).ended()
        assert types(ear.elements).count("response.created") == types(ear.elements).count(ENDED) == 1
        assert len(simulator.requests) == 2


async def test_a_background_answer_needs_no_retry_for_what_breaks_and_stays_one_post() -> None:
    async with served(faults=[BROKEN]) as (simulator, client):
        async with iterate(story(client, background=True).pipe(rx.retry(3), ops.fan_out())) as reading:
            heard = [event async for event in reading]
        assert types(heard).count("response.created") == types(heard).count(ENDED) == 1
        assert [request.method for request in simulator.requests] == ["POST", "GET"]


# amb


async def test_the_loser_of_a_race_is_cancelled_and_the_winner_read_to_its_end() -> None:
    async with served(hold=3) as (quick, hare), served(hold=3) as (slow, tortoise):
        winner = story(hare).pipe(ops.fan_out())
        ear = Ear(reactivex.amb(story(tortoise).pipe(ops.text()), winner.pipe(ops.text())))
        for simulator in (quick, slow):
            await simulator.wait_for(lambda s: s.open_streams == 1)
        quick.release()
        response = await final_response(winner)
        await ear.ended()
        assert ear.error is None
        assert "".join(ear.elements) == response.output_text
        await all_hang_up(slow, 1)
        assert slow.connections == 0
        assert [(len(s.requests), s.disconnects) for s in (quick, slow)] == [(1, 0), (1, 1)]


async def test_a_race_of_whole_streams_is_decided_before_anybody_said_a_word() -> None:
    heard: list[str] = []
    async with served(hold=0) as (quick, hare), served(hold=0) as (slow, tortoise):
        loser = story(hare).pipe(rx.finally_action(lambda: heard.append("hare leaves")))
        ear = Ear(reactivex.amb(loser, story(tortoise)), lambda event: heard.append(event.type))
        for simulator in (quick, slow):
            await simulator.wait_for(lambda s: s.open_streams == 1)
        slow.release()
        await ear.ended()
        assert heard[:2] == ["hare leaves", "response.created"]
        await all_hang_up(quick, 1)


@pytest.mark.parametrize("kept_out", [False, True])
async def test_who_fails_first_wins_a_race_unless_its_errors_are_kept_out(kept_out: bool) -> None:
    breaks = Fault("cut", after_events=3, kind="fin")  # before a word
    async with served(faults=[breaks], hold=2) as (bad, failing), served(hold=2) as (slow, tortoise):
        broken: Observable[str] = story(failing).pipe(ops.text())
        if kept_out:
            broken = broken.pipe(rx.catch(reactivex.never()))
        ear = Ear(reactivex.amb(broken, story(tortoise).pipe(ops.text())))
        for simulator in (bad, slow):
            await simulator.wait_for(lambda s: s.open_streams == 1)
        bad.release()
        if kept_out:
            await bad.wait_for(lambda s: s.open_streams == 0)
            slow.release()
            await ear.ended()
            assert ear.error is None
            assert "".join(ear.elements)
        else:
            assert isinstance(await ear.failed(), StreamInterrupted)
            await all_hang_up(slow, 1)


async def test_who_leaves_a_race_before_it_is_decided_closes_all_sockets() -> None:
    async with served(hold=1) as (simulator, client):
        ear = Ear(reactivex.amb(*(story(client).pipe(ops.text()) for _ in range(3))))
        await simulator.wait_for(lambda s: s.open_streams == 3)
        ear.subscription.dispose()
        await all_hang_up(simulator, 3)


# merge


def labelled(label: str, events: Observable[Event]) -> Observable[tuple[str, Event]]:
    return events.pipe(rx.map(lambda event: (label, event)))


async def test_merged_streams_keep_their_order_and_both_complete() -> None:
    async with served(chunk_bytes=100) as (simulator, client):
        models = ("story", "reasoning")
        merged = reactivex.merge(*(labelled(model, client.events(model=model, input="x")) for model in models))
        ear = await Ear(merged).ended()
        assert ear.error is None
        for model in models:
            numbers = [event.sequence_number for label, event in ear.elements if label == model]
            assert numbers == list(range(len(numbers)))
        ends = [label for label, event in ear.elements if event.type == ENDED]
        assert sorted(ends) == sorted(models)
        assert (len(simulator.requests), simulator.disconnects) == (2, 0)


async def test_an_error_of_one_merged_stream_ends_both_and_closes_the_other_socket() -> None:
    async with served(faults=[BROKEN], hold=11) as (bad, failing), served(hold=11) as (good, held):
        ear = Ear(reactivex.merge(labelled("good", story(held)), labelled("bad", story(failing))))
        await ear.heard(22)
        bad.release()
        assert isinstance(await ear.failed(), StreamInterrupted)
        assert Counter(label for label, _ in ear.elements) == {"good": 11, "bad": 12}
        await all_hang_up(good, 1)


async def test_an_error_that_is_caught_in_front_of_a_merge_leaves_the_other_stream_alone() -> None:
    async with served(faults=[BROKEN]) as (_, failing), served() as (good, client):
        broken: Observable[Event] = story(failing).pipe(rx.catch(reactivex.empty()))
        ear = await Ear(reactivex.merge(broken, story(client))).ended()
        assert ear.error is None
        assert types(ear.elements).count(ENDED) == 1
        assert good.disconnects == 0


# who leaves closes every socket

Make = Callable[[Callable[[], Observable[Event]]], Observable[Any]]

never: Observable[Any] = reactivex.never()

# what is made of streams that do not go on, and how many are asked for
COMPOSED: dict[str, tuple[Make, int]] = {
    "timeout": (lambda ask: ask().pipe(rx.timeout(60.0, scheduler=TestScheduler())), 1),
    "take_until": (lambda ask: ask().pipe(rx.take_until(never)), 1),
    "with_latest_from": (lambda ask: ask().pipe(rx.with_latest_from(ask())), 2),
    "combine_latest": (lambda ask: ask().pipe(rx.combine_latest(ask())), 2),
    "zip": (lambda ask: ask().pipe(rx.zip(ask())), 2),
    "merge": (lambda ask: reactivex.merge(ask(), ask(), ask()), 3),
    "amb": (lambda ask: ask().pipe(rx.ignore_elements(), rx.amb(ask().pipe(rx.ignore_elements()))), 2),
    "concat": (lambda ask: reactivex.concat(ask(), ask()), 1),
    "flat_map": (lambda ask: reactivex.of(1, 2).pipe(rx.flat_map(lambda _: ask())), 2),
    "flat_map_latest": (
        lambda ask: reactivex.concat(reactivex.of(1), never).pipe(rx.flat_map_latest(lambda _: ask())),
        1,
    ),
    "window": (lambda ask: ask().pipe(rx.window_with_time(1.0, scheduler=TestScheduler()), rx.merge_all()), 1),
    "group_by": (lambda ask: regrouped(ask()), 1),
    "share": (lambda ask: ask().pipe(rx.share()), 1),
    "retry": (lambda ask: ask().pipe(rx.retry()), 1),
    "fan_out, merged with itself": (lambda ask: twice(ask().pipe(ops.fan_out())), 1),
}


def twice(events: Observable[Event]) -> Observable[Event]:
    return reactivex.merge(events, events)


def regrouped(events: Observable[Event]) -> Observable[Event]:
    def whole(group: GroupedObservable[str, Event]) -> Observable[Event]:
        return group

    groups: Observable[GroupedObservable[str, Event]] = events.pipe(rx.group_by(lambda event: event.type))
    return groups.pipe(rx.flat_map(whole))


@pytest.mark.parametrize("name", COMPOSED)
async def test_who_leaves_closes_every_socket(name: str) -> None:
    make, count = COMPOSED[name]
    async with served(hold=4) as (simulator, client):
        ear = Ear(make(lambda: story(client)))
        await simulator.wait_for(lambda s: s.open_streams == count)
        assert len(our_tasks()) == count
        assert not ear.has_ended
        ear.subscription.dispose()
        await all_hang_up(simulator, count)
        assert len(simulator.requests) == count
        assert not ear.has_ended


async def test_a_timeout_closes_the_socket() -> None:
    clock = TestScheduler()
    async with served(hold=4) as (simulator, client):
        ear = Ear(story(client).pipe(rx.timeout(60.0, scheduler=clock)))
        await ear.heard(4)
        clock.advance_by(59)
        assert not ear.has_ended
        clock.advance_by(2)
        assert ear.error is not None
        assert str(ear.error) == "Timeout"
        await all_hang_up(simulator, 1)


async def test_a_timeout_that_goes_on_with_another_model_closes_the_socket_of_the_first() -> None:
    clock = TestScheduler()
    async with served(hold=4) as (slow, tortoise), served() as (quick, hare):
        ear = Ear(story(tortoise).pipe(ops.text(), rx.timeout(60.0, story(hare).pipe(ops.text()), scheduler=clock)))
        await slow.wait_for(lambda s: s.open_streams == 1)
        assert len(quick.requests) == 0
        clock.advance_by(61)
        await ear.ended()
        assert ear.error is None
        await all_hang_up(slow, 1)
        assert (len(quick.requests), quick.disconnects) == (1, 0)


async def test_take_until_completes_and_closes_the_socket() -> None:
    stop = Subject[None]()
    async with served(hold=4) as (simulator, client):
        ear = Ear(story(client).pipe(rx.take_until(stop)))
        await ear.heard(4)
        stop.on_next(None)
        assert ear.completed
        await all_hang_up(simulator, 1)


async def test_take_closes_the_socket_at_its_last_element() -> None:
    async with served(hold=4) as (simulator, client):
        ear = await Ear(story(client).pipe(rx.take(3))).ended()
        assert len(ear.elements) == 3
        await all_hang_up(simulator, 1)


async def test_with_latest_from_closes_the_other_socket_when_its_own_stream_completes() -> None:
    async with served(hold=4) as (own, client), served(hold=4) as (other, held):
        ear: Ear[tuple[Event, Event]] = Ear(story(client).pipe(rx.with_latest_from(story(held))))
        for simulator in (own, other):
            await simulator.wait_for(lambda s: s.open_streams == 1)
        own.release()
        await ear.ended()
        assert ear.completed
        await all_hang_up(other, 1)
        assert own.disconnects == 0


async def test_zip_pairs_two_streams_and_ends_with_the_shorter_one() -> None:
    async with served() as (_, client):
        short, long = (client.events(model=model, input="x").pipe(ops.text()) for model in ("reasoning", "story"))
        ear: Ear[tuple[str, str]] = Ear(short.pipe(rx.zip(long)))
        await ear.ended()
        assert ear.error is None
        alone = await Ear(client.events(model="reasoning", input="x").pipe(ops.text())).ended()
        assert [piece for piece, _ in ear.elements] == alone.elements
        await turns()
        assert our_tasks() == []


@pytest.mark.parametrize("latest", ["switch_latest", "flat_map_latest"])
async def test_a_newer_question_closes_the_socket_of_the_older_one(latest: str) -> None:
    questions = Subject[str]()
    async with served(hold=4) as (simulator, client):

        def ask(question: str) -> Observable[Event]:
            return client.events(model="story", input=question)

        switched = {
            "switch_latest": compose(rx.map(ask), rx.switch_latest()),
            "flat_map_latest": rx.flat_map_latest(ask),
        }
        ear: Ear[Event] = Ear(questions.pipe(switched[latest]))
        for number in range(3):
            questions.on_next(f"question {number}")
            await ear.heard(4 * number + 4)
            await simulator.wait_for(lambda s: s.open_streams == 1)
            assert simulator.disconnects == number
        simulator.release()
        questions.on_completed()
        await ear.ended()
        assert types(ear.elements)[-1] == ENDED
        assert simulator.disconnects == 2
        assert [request.body and request.body["input"] for request in simulator.requests] == [
            "question 0",
            "question 1",
            "question 2",
        ]


# virtual time: every letter is a chunk of bytes, that of a delta holds the letter as its text

_FRAMES = [
    chain.record(payload)
    for payload in chain.numbered(
        [
            chain.created(),
            chain.added(),
            chain.part_added(),
            *map(chain.delta, "abcdef"),
            chain.text_done("abcdef"),
            chain.part_done(chain.output_text("abcdef")),
            chain.finished(chain.message("abcdef")),
            chain.terminal(output=[chain.message("abcdef")]),
        ]
    )
]
CHUNKS: Mapping[str, Any] = {
    "o": b"".join(_FRAMES[:3]),
    **{letter: _FRAMES[3 + number] for number, letter in enumerate("abcdef")},
    "z": b"".join(_FRAMES[9:]) + chain.DONE,
}


def text_of(*then: Callable[[Observable[Any]], Observable[Any]]) -> Callable[[Observable[Any]], Observable[Any]]:
    """Make the whole chain from bytes to text, and what comes behind it."""
    checked = compose(ops.frame(), ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.accumulate())
    return compose(checked, ops.fan_out(), ops.text(), *then)


def joined(pieces: Sequence[str]) -> str:
    return "".join(pieces) or "."


def drawn(source: str, *then: Callable[[Observable[Any]], Observable[Any]], **options: Any) -> str:
    return draw(text_of(*then), source, CHUNKS, **options)


def lengths(window: Observable[str]) -> Observable[int]:
    return window.pipe(rx.count())


# fmt: off
def test_without_timed_operators_every_piece_comes_when_its_chunk_does() -> None:
    assert drawn(
        "o-ab--c----d--e-----------f-z|") == (
        "--ab--c----d--e-----------f--|")


def test_buffer_with_time_collects_the_pieces_of_each_span_and_the_rest_at_the_end() -> None:
    assert drawn(
        "o-ab--c----d--e-----------f-z|",
        rx.buffer_with_time(5.0), spell=joined) == (
        "-----ab---c----de---.----.---(f|)")


def test_window_with_time_counts_the_pieces_of_each_span() -> None:
    assert drawn(
        "o-ab--c----d--e-----------f-z|",
        rx.window_with_time(5.0), rx.flat_map(lengths)) == (
        "-----2----1----2----0----0---(1|)")


def test_throttle_first_passes_a_piece_and_then_none_for_a_while() -> None:
    assert drawn(
        "o-ab--c----d--e-----------f-z|",
        rx.throttle_first(4.0)) == (
        "--a---c----d--------------f--|")


def test_sample_passes_the_newest_piece_of_each_span_and_completes_at_the_end_of_one() -> None:
    assert drawn(
        "o-ab--c----d--e-----------f-z|",
        rx.sample(5.0)) == (
        "-----b----c----e--------------(f|)")


def test_debounce_passes_a_piece_that_none_followed_for_a_while() -> None:
    assert drawn(
        "o-ab--c----d--e-----------f-z|",
        rx.debounce(2.0)) == (
        "-----b--c----d--e-----------f|")


def test_who_joins_late_gets_the_history_within_its_first_span() -> None:
    assert drawn(
        "o-ab--c----d--e-----------f-z|",
        rx.buffer_with_time(5.0), joins=[0, 8], spell=joined) == (
        "-----ab---c----de---.----.---(f|)\n"
        "        -----abcd-e----.----f(.|)")
# fmt: on


def test_the_screen_and_the_meter_of_the_example_keep_virtual_time() -> None:
    clock = TestScheduler()
    painted: list[tuple[int, str]] = []
    counted: list[tuple[int, int]] = []
    pictures = {
        "story": "o-ab--------------c--def-z|",
        "moon": "o--------a---b-----------cde-fz|",
    }
    streams = [cold(picture, CHUNKS).pipe(text_of(), named(name)) for name, picture in pictures.items()]
    pieces = reactivex.merge(*streams).pipe(ops.fan_out())

    def paint(batch: list[tuple[str, str]]) -> None:
        painted.append((now(clock), " ".join(f"{name[0]}{text}" for name, text in batch)))

    pieces.pipe(repaints(4.0, clock)).subscribe(paint, scheduler=clock)
    pieces.pipe(meter(10.0, clock)).subscribe(lambda count: counted.append((now(clock), count)))
    clock.start()
    assert painted == [
        (4, "sa sb"),
        (12, "ma"),
        (16, "mb"),
        (20, "sc"),
        (24, "sd se sf"),
        (28, "mc md me"),
        (31, "mf"),
    ]
    assert counted == [(10, 3), (20, 2), (30, 7), (31, 0)]


# without time


def replayed(*then: Callable[[Observable[Any]], Observable[Any]]) -> Listener[Any]:
    source = Source[bytes]()
    chained = source.observable.pipe(
        ops.frame(), ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.accumulate()
    )
    listener = Listener[Any](chained.pipe(*then))
    source.push(*CHUNKS.values())
    source.complete()
    assert listener.ends == [None]
    return listener


def test_group_by_type_makes_a_stream_of_each_type_in_order() -> None:
    def counted(group: GroupedObservable[str, Event]) -> Observable[tuple[str, int]]:
        return group.pipe(rx.count(), rx.map(lambda count: (group.key, count)))

    events = replayed().heard
    groups = replayed(rx.group_by(lambda event: event.type), rx.flat_map(counted)).heard
    assert dict(groups) == Counter(types(events))
    assert list(dict(groups)) == list(dict.fromkeys(types(events)))


def test_scan_over_the_text_is_the_snapshot_of_every_delta() -> None:
    def add(text: str, piece: str) -> str:
        return text + piece

    deltas: list[ResponseTextDeltaEvent] = replayed(ops.of_type(ResponseTextDeltaEvent)).heard
    assert replayed(ops.text(), rx.scan(add)).heard == [delta.snapshot for delta in deltas]


def test_reduce_over_the_text_is_the_text_of_the_response() -> None:
    def add(text: str, piece: str) -> str:
        return text + piece

    terminal = replayed(rx.last()).heard[0]
    assert replayed(ops.text(), rx.reduce(add, "")).heard == [terminal.response.output_text] == ["abcdef"]
