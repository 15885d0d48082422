"""Plug two models into synchronous Rx code: threads and plain Rx operators, no coroutine in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import reactivex
from reactivex import operators as rx

from examples.provider import model, provider_in_thread
from orx_rx import operators as ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import Observable


def main() -> None:
    """Read one answer in a loop that waits, then two at once, a few words at a time, and wait for the last."""
    with provider_in_thread() as client:
        story = client.events(model=model(), input="Tell me a short story")
        for piece in client.iterate(story.pipe(ops.text(), rx.take(12))):
            print(piece, end="", flush=True)
        print("...\n")

        # what is shared is to be subscribed to in one thread, that of the client, which `on_loop` sees to
        moon = client.events(model=model("reasoning"), input="How far is the moon?")
        moon = client.on_loop(moon.pipe(ops.fan_out()))
        answers: Observable[list[tuple[str, str]]] = reactivex.merge(
            story.pipe(ops.text(), named("story")), moon.pipe(ops.text(), named("moon"))
        ).pipe(rx.buffer_with_time(0.25, scheduler=client.scheduler), rx.filter(bool))
        answers.pipe(rx.do_action(show)).run()
        response = client.final_response(moon)
        print(f"\n{response.status}, {response.usage.total_tokens if response.usage else 'unknown'} tokens")


def named(name: str) -> Callable[[Observable[str]], Observable[tuple[str, str]]]:
    """Say of every piece whose it is."""
    return rx.map(lambda piece: (name, piece))


def show(pieces: list[tuple[str, str]]) -> None:
    """Print what each one said since the last time."""
    for name in dict.fromkeys(name for name, _ in pieces):
        print(f"{name:>6}: {''.join(text for who, text in pieces if who == name)}")


if __name__ == "__main__":
    main()
