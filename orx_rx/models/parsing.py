"""What can be read as the type that the request asked for."""

from __future__ import annotations

from typing import Any, Protocol, Self, cast


class Reader(Protocol):
    """Reads structured output; what it has read it keeps."""

    def read(self, model: Any, /) -> Any:
        """Read the output of a model; raise what it is instead."""
        ...

    def fresh(self) -> Reader:
        """Make a reader that has read nothing."""
        ...


class Parsing:
    """Mixed into the models that can; they have a slot `_reader`.

    The reader is no field: it is in no comparison, not sent, and not pickled, since a pickle need not know the type.
    """

    __slots__ = ()

    def parsing(self, reader: Reader) -> Self:
        """Make a copy that is read with a reader."""
        copy: Self = cast("Any", super()).__copy__()
        object.__setattr__(copy, "_reader", reader)
        return copy

    def __copy__(self) -> Self:
        """Copy; a copy is parsed anew, since it may be told to differ."""
        return self._with_reader_of(cast("Any", super()).__copy__())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Copy; a copy is parsed anew, since it may be told to differ."""
        return self._with_reader_of(cast("Any", super()).__deepcopy__(memo))

    def _with_reader_of(self, copy: Self) -> Self:
        reader = self._known_reader()
        if reader is not None:
            object.__setattr__(copy, "_reader", reader.fresh())
        return copy

    def _known_reader(self) -> Reader | None:
        try:
            return cast("Reader", self._reader)  # type: ignore[attr-defined]
        except AttributeError:
            return None

    def _read_as_asked(self) -> Any:
        reader = self._known_reader()
        if reader is None:
            raise AttributeError(
                f"expected a {type(self).__name__} of a stream with text_format, got one without:"
                " give it to Client.events() or accumulate()"
            )
        return reader.read(self)
