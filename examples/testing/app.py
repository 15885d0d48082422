"""The app under test: shows an answer as it comes, and says so when it breaks off."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import Observable
from reactivex import operators as rx

from orx_rx import Client, StreamInterrupted, final_response
from orx_rx import operators as ops


async def tell(client: Client, question: str, show: Callable[[str], None]) -> str:
    """Ask, show the pieces of the answer, and return how it ended."""
    events = client.events(model="story", input=question).pipe(ops.fan_out())
    events.pipe(ops.text()).subscribe(show, lambda _: show(" [the line broke]"))
    try:
        response = await final_response(events)
    except StreamInterrupted as broken:
        return f"broken off after {len(broken.snapshot.output_text if broken.snapshot else '')} characters"
    return response.status or "unknown"


def ends_a_sentence(letter: str) -> bool:
    """Tell whether a sentence ends with a letter."""
    return letter in ".!?"


def sentences(chunks: Observable[bytes]) -> Observable[str]:
    """Cut the answer into sentences, each as soon as it is whole."""

    def cut(letters: Observable[str]) -> Observable[list[str]]:
        return letters.pipe(rx.buffer(letters.pipe(rx.filter(ends_a_sentence))))

    texts = chunks.pipe(ops.frame(), ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.text())
    return texts.pipe(rx.flat_map(list), rx.publish(cut), rx.map("".join), rx.map(str.strip))
