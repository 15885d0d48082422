"""Structured output: a type, what to ask the server for, and what the answer is as that type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, cast, get_origin

from pydantic import TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import from_json

from orx_rx.errors import IncompleteOutput, OutputParseError, Refused
from orx_rx.models.items import ResponseOutputMessage
from orx_rx.models.parse import problems
from orx_rx.models.parts import ResponseOutputRefusal, ResponseOutputText
from orx_rx.protocol.known import known_reader
from orx_rx.protocol.schemas import strict_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orx_rx.errors import OutputError
    from orx_rx.models.parts import Part
    from orx_rx.models.response import Response
    from orx_rx.models.text_events import ResponseTextDoneEvent

T = TypeVar("T")

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST_NAME = 64
_UNREAD: Any = object()


class OutputFormat(Generic[T]):
    """A type that output is to have.

    OpenAI wants an object at the root of a schema. A type of another kind, such as a list, a union or a number, is
    asked for as the `value` of an object, and read from there.

    Args:
        text_format: Whatever a pydantic `TypeAdapter` takes.

    Attributes:
        name: What it is called in the request.
        schema: Its strict JSON schema.
        adapter: What validates the text; for a type that is wrapped, as an object with a `value`.
        wrapped: Whether it is.

    Raises:
        TypeError: pydantic cannot read the type from JSON.
    """

    def __init__(self, text_format: Any) -> None:
        self.name: str = _name_of(text_format)
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(text_format)
            schema = strict_schema(adapter.json_schema())
            self.wrapped: bool = schema.get("type") != "object"
            if self.wrapped:
                adapter = TypeAdapter(create_model(self.name, value=(text_format, ...)))
                schema = strict_schema(adapter.json_schema())
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            reason = error.message.partition("\n")[0]
            raise TypeError(f"expected a type that pydantic reads from JSON, got {text_format!r}: {reason}") from None
        self.adapter: TypeAdapter[Any] = adapter
        self.schema: dict[str, Any] = schema

    @cached_property
    def known(self) -> Callable[[Any], Any]:
        """Makes an object out of the JSON value that is known of it, see `known_reader`."""
        return known_reader(self.adapter)

    @classmethod
    def of(cls, text_format: Any) -> OutputFormat[Any]:
        """Make one of a type; a format stays what it is."""
        if isinstance(text_format, OutputFormat):
            return text_format  # pyright: ignore[reportUnknownVariableType]
        return cls(text_format)

    def asked_for(self, text: object) -> dict[str, Any]:
        """Write it into the `text` of a request.

        Args:
            text: What the request has as `text` anyway, as JSON; None where it has nothing.

        Raises:
            TypeError: That is no object, or has a `format` already.
        """
        if text is not None and not isinstance(text, Mapping):
            raise TypeError(f"expected text to be an object, got {type(text).__name__}")
        fields = dict(cast("Mapping[str, Any]", text or {}))
        if fields.get("format") is not None:
            raise TypeError("expected text_format or text.format, got both")
        asked = {"type": "json_schema", "strict": True, "name": self.name, "schema": self.schema}
        return {**fields, "format": asked}

    def parse(self, text: str) -> T:
        """Read the whole text, with pydantic's rules for JSON.

        Raises:
            OutputParseError: It does not fit.
        """
        try:
            read = self.adapter.validate_json(text)
        except ValidationError as error:
            found = "; ".join(problems(error, "the text"))
            raise OutputParseError(f"expected {self.name}, got a text that does not fit: {found}", text) from None
        return cast("T", read.value if self.wrapped else read)

    def read(self, response: Response) -> T | None:
        """Read the answer of a response; None where it says nothing.

        Raises:
            OutputError: It is a refusal, it was cut off, or it does not fit.
        """
        parts = _answer(response)
        refusals = [part.refusal for part in parts if isinstance(part, ResponseOutputRefusal) and part.refusal]
        texts = [part.text for part in parts if isinstance(part, ResponseOutputText)]
        if refusals:
            raise _of(response, Refused("".join(refusals)))
        if response.status not in (None, "completed"):
            raise _of(response, IncompleteOutput(_reason(response), "".join(texts)))
        try:
            return next((read for text in texts if (read := self.parse(text)) is not None), None)
        except OutputParseError as error:
            raise _of(response, error) from None


def is_answer(phase: object) -> bool:
    """Say whether a message of a phase is an answer, and no commentary."""
    return phase in (None, "final_answer")


class ResponseReader:
    """Reads the answer of one response, once."""

    __slots__ = ("_format", "_parsed")

    def __init__(self, text_format: OutputFormat[Any]) -> None:
        self._format = text_format
        self._parsed = _UNREAD

    def fresh(self) -> ResponseReader:
        """Make one that has read nothing."""
        return ResponseReader(self._format)

    def read(self, response: Response, /) -> Any:
        """Read the answer."""
        if self._parsed is _UNREAD:
            self._parsed = self._format.read(response)
        return self._parsed


@dataclass(slots=True)
class Ending:
    """How a response ended.

    Attributes:
        response: The final response; None until the terminal.
    """

    response: Response | None = None


class TextReader:
    """Reads one text of a response, once; what is wrong with it depends on how the response ends."""

    __slots__ = ("_ending", "_format", "_parsed", "_phase")

    def __init__(self, text_format: OutputFormat[Any], phase: object, ending: Ending) -> None:
        self._format = text_format
        self._phase = phase
        self._ending = ending
        self._parsed = _UNREAD if is_answer(phase) else None

    def fresh(self) -> TextReader:
        """Make one that has read nothing."""
        return TextReader(self._format, self._phase, self._ending)

    def read(self, event: ResponseTextDoneEvent, /) -> Any:
        """Read the text; a whole one is read whatever becomes of the response."""
        if self._parsed is _UNREAD:
            try:
                self._parsed = self._format.parse(event.text)
            except OutputParseError as error:
                raise self._wrong(error) from None
        return self._parsed

    def _wrong(self, error: OutputParseError) -> OutputError:
        response = self._ending.response
        if response is None:
            return IncompleteOutput(None, error.text) if _is_cut(error.text) else error
        completed = response.status in (None, "completed")
        return _of(response, error if completed else IncompleteOutput(_reason(response), error.text))


def _answer(response: Response) -> Sequence[Part]:
    return [
        part
        for item in response.output or ()
        if isinstance(item, ResponseOutputMessage) and is_answer(item.phase)
        for part in item.content or ()
    ]


def _reason(response: Response) -> str | None:
    """Find why a response is not completed; the status where it says nothing else."""
    details, error = response.incomplete_details, response.error
    status = None if response.status == "incomplete" else response.status
    reasons = (getattr(details, "reason", None), getattr(error, "code", None), status)
    return next((reason for reason in reasons if reason and isinstance(reason, str)), None)


def _of(response: Response, error: OutputError) -> OutputError:
    error.snapshot = response
    return error


def _is_cut(text: str) -> bool:
    """Say whether a text is the beginning of JSON, and no more."""
    try:
        from_json(text)
    except ValueError as error:
        return "EOF" in str(error)
    return False


def _name_of(text_format: Any) -> str:
    if get_origin(text_format) is Annotated:
        return _name_of(text_format.__origin__)
    named = text_format if isinstance(text_format, type) else get_origin(text_format)
    name = named.__name__ if isinstance(named, type) and named.__module__ not in ("typing", "types") else ""
    return _NOT_IN_A_NAME.sub("_", name).strip("_")[:_LONGEST_NAME] or "output"
