"""What steps have in common: some are fed many items at once, some know how a stream ends before it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

In = TypeVar("In")
Out = TypeVar("Out")


Completes: TypeAlias = Literal["new", "same", "shared"]
"""What comes out of a step: objects of its own making, which nobody else has, those that it was fed, or any."""


class Batched(Generic[In, Out]):
    """The base of steps that take a batch of items; a subclass defines `feed_all` or `feed`.

    It is for steps that nobody looks into between two items, because what the first one completes is handed on when the
    whole batch was fed.

    Attributes:
        completes: What comes out.
        owns: Whether nobody else has the items that it is fed, so that it may finish them instead of making copies.
    """

    completes: ClassVar[Completes] = "shared"
    owns: bool = False

    def feed_all(self, items: Sequence[In], outputs: list[Out], /) -> None:
        """Take some items, and add what they complete to the outputs.

        Where one of them is wrong it raises, and the outputs have what those before it completed.
        """
        for item in items:
            outputs += self.feed(item)

    def feed(self, item: In, /) -> Sequence[Out]:
        """Take an item and return what it completes, which may be nothing; or raise what is wrong."""
        outputs: list[Out] = []
        self.feed_all((item,), outputs)
        return tuple(outputs)


class Settling:
    """The base of steps that may know how a stream ends before it does.

    Attributes:
        settling: Whether only the end of the source is missing.
        on_settling: Called when that changes, by whoever waits for the end.
    """

    settling: bool = False
    on_settling: Callable[[], None] | None = None

    def settle(self, settling: bool) -> None:
        """Take note whether only the end of the source is missing."""
        if settling is not self.settling:
            self.settling = settling
            if self.on_settling is not None:
                self.on_settling()
