"""The client: settings, session, and the canonical chain of operators."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, cast
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass
from uuid import uuid4

import aiohttp
from pydantic import SecretStr
from reactivex import throw
from reactivex.disposable import Disposable

from orx_rx import operators as ops
from orx_rx.aio import iterate
from orx_rx.errors import BadRequest, Conflict, ConnectFailed, ConnectionLost, LifecycleViolation, OrxError
from orx_rx.exchange import library_version
from orx_rx.http.leaving import cancelled_on_dispose
from orx_rx.http.options import body_of, check_kinds
from orx_rx.http.retry import Retry, retried
from orx_rx.http.source import JSON, body_chunks, sse_chunks
from orx_rx.http.timeouts import Timeouts, watch_events
from orx_rx.loops import run_in, running_loop
from orx_rx.models.base import to_wire
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.cursor import Cursor
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.reading import WholeResponse
from orx_rx.protocol.repair import Repairer
from orx_rx.protocol.repair_bodies import BodyParser
from orx_rx.protocol.resume import FINAL, MAX_QUEUED, Behind
from orx_rx.protocol.sequence import SequenceChecker
from orx_rx.protocol.structured import OutputFormat
from orx_rx.protocol.violations import DEFAULT, Profile
from orx_rx.reporting import judges, log, repairs
from orx_rx.step import lift, lift_settling
from orx_rx.stream import Lifted, attach
from orx_rx.tools import definitions
from orx_rx.wire import DEFAULT_MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

    from reactivex import Observable, abc

    from orx_rx.http.threaded import ThreadedClient
    from orx_rx.models.event_base import Event
    from orx_rx.models.hosted_items import McpApprovalRequest
    from orx_rx.models.response import Response
    from orx_rx.operators._record import RecordTo
    from orx_rx.protocol.calls import ToolOutput, Turn
    from orx_rx.protocol.repair_kinds import Repair
    from orx_rx.reporting import AttemptListener, RepairListener, ViolationListener
    from orx_rx.stream import Attached, Operator
    from orx_rx.tools import ToolLike

T = TypeVar("T")

_BLANK = re.compile(r"[\s\x00-\x1f\x7f]")
_PATIENCE = 10.0  # seconds that closing waits for responses to be cancelled
_OPENAI = "https://api.openai.com/v1"


class Client:
    """Speaks to one server.

    Settings come from the arguments, else from `ORX_BASE_URL` and `ORX_API_KEY`, else from `OPENAI_BASE_URL` and
    `OPENAI_API_KEY`. Proxies come from `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`. The environment is read when a
    client is made, and not again. Use it as `async with Client() as client`, or close it. A client serves one event
    loop; `in_thread` makes one for code that has none.

    Args:
        base_url: The address up to and without `/responses`; by default OpenAI's.
        api_key: The key, sent as a bearer token; without one no `Authorization` header is sent.
        session: A session to use, with its own way to proxies; it stays the caller's to close. By default the client
            makes one and closes it.
        headers: Headers to send with every request.
        timeouts: The clocks of every stream.
        retry: How a request that got no answer, or a refusal that may pass, is sent again; by default twice at most.
            A request is never sent again after anything of its answer arrived.

    Raises:
        TypeError: An argument is of another kind.
        ValueError: The base URL is empty, is not absolute, is not HTTP, or has credentials, a query or a fragment; or
            the key is empty or cannot be sent in a header.
    """

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | SecretStr | None = None,
        session: aiohttp.ClientSession | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        retry: Retry | None = None,
    ) -> None:
        check_kinds(
            base_url=base_url, api_key=api_key, session=session, headers=headers, timeouts=timeouts, retry=retry
        )
        # an empty address that was given is a setting that got lost, and no wish for another server
        self._base_url = _checked_url(base_url if base_url is not None else _setting("BASE_URL") or _OPENAI)
        self._api_key = _checked_key(api_key if api_key is not None else _setting("API_KEY"))
        self._given = session
        self._proxy = _proxy_of(self._base_url) if session is None else None
        self._own: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._headers = dict(headers or {})
        self._timeouts = timeouts or Timeouts()
        self._retry = retry or Retry()
        self._live: dict[abc.ObserverBase[Any], abc.DisposableBase] = {}
        self._resuming: dict[abc.ObserverBase[Any], abc.DisposableBase] = {}  # those that have others within them
        self._cancels: set[asyncio.Task[None]] = set()  # requests that nobody awaits
        self._closed = False

    @classmethod
    def in_thread(
        cls,
        *,
        base_url: str | None = None,
        api_key: str | SecretStr | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        retry: Retry | None = None,
    ) -> ThreadedClient:
        """Make a client for code without an event loop: it has one of its own, in a thread.

        Use it as `with Client.in_thread() as client`, or close it.

        Args:
            base_url: As for `Client`.
            api_key: As for `Client`.
            headers: As for `Client`.
            timeouts: As for `Client`.
            retry: As for `Client`.

        Raises:
            TypeError: As for `Client`.
            ValueError: As for `Client`.
        """
        from orx_rx.http.threaded import ThreadedClient  # it is made of clients

        return ThreadedClient(cls(base_url=base_url, api_key=api_key, headers=headers, timeouts=timeouts, retry=retry))

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
        if self._cancels:  # while there is a session to send them with
            await asyncio.wait(self._cancels, timeout=_PATIENCE)
        self._closed = True
        # what resumes comes first, because it would take the end of its connection for a disconnect
        for observer, subscription in (*self._resuming.items(), *self._live.items()):
            try:
                observer.on_error(ConnectionLost("expected the rest of the body, got a client that was closed"))
            except (Exception, asyncio.CancelledError) as error:  # nothing awaits here, so it is the subscriber's own
                log.error("a subscriber raised at the end", error=type(error).__name__, exc_info=error)
            subscription.dispose()
        self._resuming.clear()
        self._live.clear()
        if self._own is not None:
            await self._own.close()
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    def chunks(
        self,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        on_attempt: AttemptListener | None = None,
        **request: object,
    ) -> Observable[bytes]:
        """Create a response and read the bytes of its stream, as they come from the socket.

        Cold: every subscription is a POST of its own, and a bill of its own.

        Args:
            headers: Headers to send as well.
            timeouts: The clocks, instead of those of the client; `connect` and `idle` are used.
            on_attempt: Hears of every time that the request is sent again, before the wait.
            **request: The fields of the request, such as `model` and `input`; models are sent as their JSON, and None
                as null. Functions and types among `tools` are sent as their definitions, see `orx_rx.tool`.

        Raises:
            TypeError: `stream` is among the fields, which is always true; or one cannot be written as JSON, perhaps
                because it is an option that is misspelt: then the message names the one that it resembles.
            ValueError: A field holds a number or a text that JSON cannot hold.
            RuntimeError: To the subscriber, when there is no running event loop.
            OrxError: To the subscriber, as `sse_chunks` does; a `ConnectFailed` when the client is closed.
        """
        return self._create(request, headers, timeouts, on_attempt, takes_json=False)

    def _create(
        self,
        request: Mapping[str, object],
        headers: Mapping[str, str] | None,
        timeouts: Timeouts | None,
        on_attempt: AttemptListener | None,
        *,
        takes_json: bool,
    ) -> Observable[bytes]:
        """Create a response and read the bytes of its stream; or of the response itself, if that will do."""
        check_kinds(headers=headers, timeouts=timeouts, on_attempt=on_attempt)
        if "stream" in request:
            raise TypeError("expected no field 'stream', since it is always true, got one")
        tools = {"tools": definitions(request["tools"])} if "tools" in request else {}
        methods = Client.events, Client.run_tools, Client.chunks
        body = body_of({**to_wire({**request, **tools}), "stream": True}, methods)

        def subscribe(observer: Attached[bytes], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            # one key for all attempts, so that a server that knows it makes one response of them
            key = {"Idempotency-Key": f"orx-{uuid4()}"}
            chunks = sse_chunks(
                self._session,
                "POST",
                f"{self._base_url}/responses",
                data=body,
                headers={"Content-Type": JSON, **key, **self._all_headers(headers)},
                proxy=self._proxy,
                timeouts=timeouts or self._timeouts,
                takes_json=takes_json,
            )
            return attach(observer, self._tracked(retried(chunks, self._retry, on_attempt=on_attempt)), scheduler)

        return Lifted(subscribe)

    def events(
        self,
        /,
        *,
        profile: Profile = DEFAULT,
        on_violation: ViolationListener | None = None,
        repair: bool = False,
        on_repair: RepairListener | None = None,
        into: Accumulator | None = None,
        text_format: Any = None,
        linger: float = 1.0,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        cancel_on_dispose: bool = False,
        record: RecordTo | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        on_attempt: AttemptListener | None = None,
        scheduler: abc.SchedulerBase | None = None,
        **request: object,
    ) -> Observable[Event]:
        """Create a response and read its events: typed, checked, accumulated.

        This is `chunks()` with `frame`, `decode`, `sequence_check`, `lifecycle_guard` and `accumulate` behind it. Cold:
        every subscription is a POST of its own; put `fan_out()` behind it to share one. With `background=True` among
        the fields, a stream that breaks off is resumed where it broke off, without another POST.

        Args:
            profile: What the violations of the server cost.
            on_violation: A function or an observer that hears of every reported violation.
            repair: Whether `repair` stands behind `frame`. Then a response that comes whole, as JSON, will do too. A
                stream in the background that needed a repair is not resumed when it breaks off, because its places are
                not those of the server; the response is polled instead. One that needed none is resumed as ever.
            on_repair: A function or an observer that hears of every repair.
            into: An accumulator to use, to look at the response at any moment. It knows what the stream has handed on,
                which behind `iterate`, `to_queue` or `map_async` is more than you have read. A `cursor` to save is that
                of an accumulator of your own, which you feed with every event that you have dealt with.
            text_format: The type that the output is to have: a pydantic model, a dataclass, a `TypedDict`, a list, a
                union, whatever a pydantic `TypeAdapter` takes. Its strict JSON schema is sent as `text.format`;
                `response.output_parsed`, and `parsed` of a text that is done, are of that type. What is no object
                travels as the `value` of one.
            linger: How long to wait for the end of the connection after the terminal, in seconds.
            max_frame_bytes: The most bytes that a frame may have.
            cancel_on_dispose: Whether a subscriber that leaves before the terminal cancels the response, which would
                run to its end in the background otherwise. Closing the client waits until that is sent.
            record: Where to write a cassette of each stream that is opened, as for the operator `record`.
            headers: Headers to send as well.
            timeouts: The clocks, instead of those of the client.
            on_attempt: Hears of every attempt to send the request again, to resume the stream or to poll the response,
                before the wait.
            scheduler: Keeps the time; by default that of the subscriber, else the running event loop.
            **request: The fields of the request, as for `chunks`.

        Raises:
            TypeError: As for `chunks`; or an option is of another kind, a listener is neither a function nor an
                observer, `record` is no place to write to, pydantic cannot read `text_format` from JSON, or `text` has
                a `format` too.
            ValueError: As for `chunks`; or `on_repair` is given without `repair`, `linger` or `max_frame_bytes` is out
                of range, or `cancel_on_dispose` is set for a response in the foreground, which ends with its
                connection anyway.
            RuntimeError: To the subscriber, when there is no running event loop.
            OSError: To the subscriber, when a cassette cannot be opened.
            OrxError: To the subscriber, whatever the source or an operator raises.
        """
        check_kinds(profile=profile, into=into, linger=linger, max_frame_bytes=max_frame_bytes, scheduler=scheduler)
        resumes = request.get("background") is True
        if cancel_on_dispose and not resumes:
            raise ValueError("expected background=True with cancel_on_dispose, got a response in the foreground")
        if on_repair is not None and not repair:
            raise ValueError("expected repair=True with on_repair, got a stream that nothing repairs")
        tell = repairs(on_repair) if repair else None
        asked = None if text_format is None else OutputFormat[Any](text_format)
        if asked is not None:
            request["text"] = asked.asked_for(to_wire(request.get("text")))
        chunks = self._create(request, headers, timeouts, on_attempt, takes_json=repair)
        options = _Options(
            profile,
            on_violation,
            into,
            asked,
            linger,
            max_frame_bytes,
            headers,
            timeouts or self._timeouts,
            scheduler,
            on_attempt,
            cancel_on_dispose,
            ops.record(record) if record is not None else None,
            tell,
        )
        return self._checked(chunks, options, resumes=resumes)

    def run_tools(
        self,
        /,
        *,
        tools: Sequence[ToolLike],
        max_rounds: int = 8,
        concurrency: int | None = 8,
        timeout: float | None = None,
        errors: Literal["tell", "raise"] = "tell",
        approve: Callable[[McpApprovalRequest], bool | Awaitable[bool]] | None = None,
        on_output: Callable[[ToolOutput], object] | None = None,
        stateless: bool | None = None,
        scheduler: abc.SchedulerBase | None = None,
        **request: Any,
    ) -> Observable[Event]:
        """Create a response, run the tools that it calls, and let the model go on with what they return.

        This is `events()` with `operators.run_tools` behind it, which tells how calls are run, and what becomes of
        errors. Cold: every subscription begins anew, and sends one POST for every round. The request is the same in
        every round but for its `input`; a `tool_choice` that demands a call does so in the first round alone.

        Args:
            tools: What the model may call: functions, types, tools, dicts.
            max_rounds: How many responses there may be, the first one included.
            concurrency: How many calls may run at a time; None for any number.
            timeout: How long a call may take, in seconds; None for any time. The clocks of the streams are `timeouts`.
            errors: What becomes of an error of a call: `"tell"` it to the model, or `"raise"` it and end the stream.
            approve: Decides requests to approve a call on an MCP server; a function, or a coroutine function.
            on_output: Hears of every output, as soon as it is there.
            stateless: Whether the server keeps no responses, so that every round sends the whole conversation; by
                default what `store=False` says. Otherwise a round sends `previous_response_id` and the outputs, or the
                outputs alone where there is a `conversation`. OpenAI then needs
                `include=["reasoning.encrypted_content"]`, too.
            scheduler: Keeps the time; by default that of the subscriber, else the running event loop.
            **request: The fields of the request, and the options of `events`.

        Raises:
            TypeError: As for `events`, or one of the tools is nothing to make a tool of.
            ValueError: As for `events`, or two tools have the same name, or a number is out of range.
            RuntimeError: To the subscriber, when there is no running event loop.
            OrxError: To the subscriber, as for `events` and `operators.run_tools`.
        """
        request = {**request, "tools": list(tools)}
        keeps = not (request.get("store") is False if stateless is None else stateless)
        later = {**request, **_undemanding(request)}

        def ask(turn: Turn) -> Observable[Event]:
            if not keeps:
                given: dict[str, Any] = {"input": [*_input_items(request.get("input")), *turn.history]}
            elif request.get("conversation") is not None:
                given = {"input": turn.outputs}
            else:
                given = {"input": turn.outputs, "previous_response_id": turn.response.id}
            return self.events(scheduler=scheduler, **{**later, **given})

        running = ops.run_tools(
            ask,
            tools=tools,
            max_rounds=max_rounds,
            concurrency=concurrency,
            timeout=timeout,
            errors=errors,
            approve=approve,
            on_output=on_output,
            scheduler=scheduler,
        )
        # tracked as a whole, so that closing the client ends it while calls run
        return self._tracked(self.events(scheduler=scheduler, **request).pipe(running))

    def resume(
        self,
        cursor: Cursor,
        *,
        rebuild: bool = False,
        profile: Profile = DEFAULT,
        on_violation: ViolationListener | None = None,
        into: Accumulator | None = None,
        text_format: Any = None,
        linger: float = 1.0,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        cancel_on_dispose: bool = False,
        record: RecordTo | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        on_attempt: AttemptListener | None = None,
        scheduler: abc.SchedulerBase | None = None,
    ) -> Observable[Event]:
        """Go on with the stream of a background response behind a cursor, perhaps of another process.

        Nothing is created: it only asks for the rest of the response. Like `events(background=True)` it resumes by
        itself when the connection breaks again.

        Args:
            cursor: Where to go on; from `StreamInterrupted.cursor`, or from an accumulator that was fed with the events
                that were dealt with. The one of `into` is ahead of whoever reads through a buffer, such as `iterate`,
                and what waited there would be lost.
            rebuild: Whether to read the stream from its beginning, so that every snapshot is whole; events up to the
                cursor are read and not emitted. Without it only the rest is read, and snapshots go on from the one of
                the cursor; if it has none, they hold what came since, until items are done.
            profile: What the violations of the server cost.
            on_violation: A function or an observer that hears of every reported violation.
            into: An accumulator to use, to look at the response at any moment; its `cursor` may be ahead of you, as for
                `events`.
            text_format: The type that the output was asked to have, as for `events`; nothing is sent.
            linger: How long to wait for the end of the connection after the terminal, in seconds.
            max_frame_bytes: The most bytes that a frame may have.
            cancel_on_dispose: Whether a subscriber that leaves before the terminal cancels the response.
            record: Where to write a cassette of each stream that is opened, as for the operator `record`.
            headers: Headers to send as well.
            timeouts: The clocks, instead of those of the client.
            on_attempt: Hears of every attempt to resume the stream or to poll the response, before the wait.
            scheduler: Keeps the time; by default that of the subscriber, else the running event loop.

        Raises:
            TypeError: It is no cursor; or an option is of another kind, `record` is no place to write to, or pydantic
                cannot read `text_format` from JSON.
            ValueError: The snapshot of the cursor is that of a response that was not created in the background.
            OSError: To the subscriber, as for `events`.
            OrxError: To the subscriber, as for `events`.
        """
        if not isinstance(cursor, Cursor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected a cursor, got {type(cursor).__name__}: see Cursor.from_json")
        check_kinds(headers=headers, timeouts=timeouts, on_attempt=on_attempt)
        check_kinds(profile=profile, into=into, linger=linger, max_frame_bytes=max_frame_bytes, scheduler=scheduler)
        snapshot = cursor.snapshot
        if snapshot is not None and (snapshot.background is False or snapshot.store is False):
            raise ValueError("expected a cursor of a response created in the background and stored, got another one")
        options = _Options(
            profile,
            on_violation,
            into,
            None if text_format is None else OutputFormat[Any](text_format),
            linger,
            max_frame_bytes,
            headers,
            timeouts or self._timeouts,
            scheduler,
            on_attempt,
            cancel_on_dispose,
            ops.record(record) if record is not None else None,
        )
        chunks = self._rest(cursor.response_id, None if rebuild else cursor, options)
        return self._checked(chunks, options, resumes=True, cursor=cursor, rebuild=rebuild)

    async def retrieve(self, response_id: str) -> Response:
        """Get a response as it stands.

        Args:
            response_id: Its id.

        Raises:
            OrxError: The server did not give it.
        """
        return await _only(self._whole("GET", _path_of(response_id)))

    async def cancel(self, response_id: str) -> Response:
        """Cancel a background response, and get it as it stands after that; cancelling twice changes nothing.

        A response that has ended stays as it is: a terminal that came first wins.

        Args:
            response_id: Its id.

        Raises:
            BadRequest: It was not created in the background; closing its connection ends it.
            OrxError: The server did not answer.
        """
        try:
            return await _only(self._whole("POST", f"{_path_of(response_id)}/cancel"))
        except (BadRequest, Conflict) as refusal:
            try:
                response = await self.retrieve(response_id)
            except OrxError:
                raise refusal from None
            if response.status not in FINAL or response.background is False:
                raise
            return response

    def _checked(
        self,
        chunks: Observable[bytes],
        options: _Options,
        *,
        resumes: bool,
        cursor: Cursor | None = None,
        rebuild: bool = False,
    ) -> Observable[Event]:
        """Build the canonical chain behind some chunks."""
        ops.lifecycle_guard(linger=options.linger)  # refuses what it cannot wait for, here and not at subscription
        frame = ops.frame(max_frame_bytes=options.max_frame_bytes)
        of_connection = watch_events(replace(options.timeouts, duration=None), options.scheduler)
        of_stream = watch_events(
            Timeouts(connect=None, first_event=None, idle=None, duration=options.timeouts.duration), options.scheduler
        )
        place = None if rebuild else cursor
        # behind a cursor nothing can begin with response.created
        profile = options.profile if place is None else options.profile.but(created_not_first="ignore")
        new_judge = judges(profile, options.on_violation)

        def subscribe(
            observer: Attached[Event], subscriber_scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            # the steps of the operators with one judge, so that an error has the violations that all of them found
            judge = new_judge()

            repairer = Repairer(options.on_repair) if options.on_repair is not None else None

            def taped(connection: Observable[bytes]) -> Observable[bytes]:
                return connection if options.record is None else options.record(connection)

            def events_of(connection: Observable[bytes]) -> Observable[Event]:
                return taped(connection).pipe(frame, lift(lambda: Decoder(judge)), of_connection)

            def repaired(connection: Observable[bytes], repairer: Repairer) -> Observable[Event]:
                body = lift(lambda: BodyParser(options.max_frame_bytes))
                return taped(connection).pipe(body, lift(lambda: repairer), lift(lambda: Decoder(judge)), of_connection)

            def rest(after: Cursor) -> Observable[Event]:
                if repairer is not None and repairer.repaired:  # a refusal to stream, so that it is polled
                    return throw(LifecycleViolation("expected a stream to go on with, got one that was repaired"))
                return events_of(self._rest(after.response_id, after, options))

            def accumulator() -> Accumulator:
                held = options.into or Accumulator(judge)
                held.text_format = options.text_format or held.text_format
                if place is not None:
                    held.restore(place)
                elif options.into is not None:
                    held.reset()
                return held

            events = events_of(chunks) if repairer is None else repaired(chunks, repairer)
            if resumes:
                resuming = ops.resume_on_disconnect(
                    rest,
                    poll=lambda response_id: self._whole("GET", _path_of(response_id), options.headers),
                    cursor=cursor,
                    rebuild=rebuild,
                    wait=self._retry.first,
                    longest_wait=self._retry.most,
                    max_queued=options.timeouts.progress or MAX_QUEUED,
                    profile=options.profile,
                    on_violation=options.on_violation,
                    on_attempt=options.on_attempt,
                    scheduler=options.scheduler,
                )
                # tracked as a whole, so that closing the client ends it instead of resuming
                events = self._tracked(events.pipe(resuming), self._resuming)
            checked = events.pipe(
                of_stream,
                lift(lambda: SequenceChecker(judge)),
                lift_settling(lambda: LifecycleGuard(judge), options.linger, options.scheduler),
                lift(accumulator, one_by_one=options.into is not None),
            )
            if cursor is not None and rebuild:
                checked = checked.pipe(lift(partial(Behind, cursor, judge)))
            if options.cancel_on_dispose:
                checked = cancelled_on_dispose(checked, self._canceller(), cursor.response_id if cursor else "")
            return attach(observer, checked, subscriber_scheduler)

        return Lifted(subscribe)

    def _canceller(self) -> Callable[[str], None]:
        """Make a function that cancels a response, from whatever thread, and does not wait for it."""
        loop = running_loop("read HTTP in")

        async def cancel(response_id: str) -> None:
            try:
                await self.cancel(response_id)
            except OrxError as error:  # nobody is left who could take it
                log.warning("not cancelled", response_id=response_id, error=type(error).__name__)

        def begin(response_id: str) -> None:
            task = loop.create_task(cancel(response_id), name="orx_rx cancel")
            self._cancels.add(task)
            task.add_done_callback(self._cancels.discard)

        return lambda response_id: run_in(loop, partial(begin, response_id))

    def _rest(self, response_id: str, after: Cursor | None, options: _Options) -> Observable[bytes]:
        """Read the stream of a response, from its beginning or behind a cursor."""
        params = {"stream": "true"} | ({"starting_after": str(after.sequence_number)} if after is not None else {})
        return self._tracked(
            sse_chunks(
                self._session,
                "GET",
                self._base_url + _path_of(response_id),
                headers=self._all_headers(options.headers),
                params=params,
                proxy=self._proxy,
                timeouts=options.timeouts,
            )
        )

    def _whole(self, method: str, path: str, headers: Mapping[str, str] | None = None) -> Observable[Response]:
        """Ask for a response as a whole."""
        chunks = body_chunks(
            self._session,
            method,
            self._base_url + path,
            (JSON,),
            headers={**self._all_headers(headers), "Accept": JSON},
            proxy=self._proxy,
            timeouts=self._timeouts,
        )
        return self._tracked(retried(chunks.pipe(lift(WholeResponse)), self._retry))

    def _all_headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        key = {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key.get_secret_value()}"}
        return {"User-Agent": f"orx_rx/{library_version()}", **key, **self._headers, **(more or {})}

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

    def _tracked(
        self, source: Observable[T], kept: dict[abc.ObserverBase[Any], abc.DisposableBase] | None = None
    ) -> Observable[T]:
        """Keep the streams that run, so that closing the client ends them and tells their subscribers."""
        live = self._live if kept is None else kept

        def subscribe(observer: Attached[T], scheduler: abc.SchedulerBase | None = None) -> Disposable:
            if self._closed:  # here, because a connection that failed would be tried again
                observer.on_error(ConnectFailed("expected an open client, got one that was closed"))
                return Disposable()
            subscription = attach(observer, source, scheduler)
            live[observer] = subscription

            def dispose() -> None:
                live.pop(observer, None)
                subscription.dispose()

            return Disposable(dispose)

        return Lifted(subscribe)


@dataclass(frozen=True, slots=True)
class _Options:
    """How a stream is read."""

    profile: Profile
    on_violation: ViolationListener | None
    into: Accumulator | None
    text_format: OutputFormat[Any] | None
    linger: float
    max_frame_bytes: int
    headers: Mapping[str, str] | None
    timeouts: Timeouts
    scheduler: abc.SchedulerBase | None
    on_attempt: AttemptListener | None
    cancel_on_dispose: bool
    record: Operator[bytes, bytes] | None
    on_repair: Callable[[Repair], None] | None = None


async def _only(observable: Observable[Response]) -> Response:
    async with iterate(observable) as reading:
        return await anext(reading)


def _input_items(given: object) -> list[Any]:
    """Turn the input of a request into items, behind which others can stand."""
    if isinstance(given, list | tuple):
        return list(cast("Sequence[Any]", given))
    return [] if given is None else [{"type": "message", "role": "user", "content": given}]


def _undemanding(request: Mapping[str, Any]) -> dict[str, Any]:
    """Change a `tool_choice` that demands a call, and would in every round, so that the model may answer."""
    choice = request.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":  # pyright: ignore[reportUnknownMemberType]
        return {"tool_choice": {**cast("dict[str, Any]", choice), "mode": "auto"}}
    return {"tool_choice": "auto"} if choice == "required" or isinstance(choice, dict) else {}


def _path_of(response_id: str) -> str:
    return f"/responses/{quote(response_id, safe='')}"


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
        "an empty string": not text,
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
        got = f"{len(text)} other characters" if text else "an empty string"
        raise ValueError(f"expected a key of printable ASCII without blanks around it, got {got}")
    return secret
