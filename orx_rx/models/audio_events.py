"""Events of spoken answers, which belong to the response as a whole."""

from __future__ import annotations

from typing import Literal

from orx_rx.models.event_base import DeltaEvent, Event


class ResponseAudioDeltaEvent(Event, frozen=True):
    """A piece of sound, in base64."""

    type: Literal["response.audio.delta"] = "response.audio.delta"
    delta: str

    @property
    def snapshot(self) -> bytes:
        """The sound as of this event, decoded; built when it is read.

        Raises:
            AttributeError: The event did not go through `accumulate`.
        """
        growth, end = self._grown()
        sound: bytes = growth.read(end)
        return sound


class ResponseAudioDoneEvent(Event, frozen=True):
    """The sound is whole."""

    type: Literal["response.audio.done"] = "response.audio.done"


class ResponseAudioTranscriptDeltaEvent(DeltaEvent, frozen=True):
    """A piece of what is spoken, as text."""

    type: Literal["response.audio.transcript.delta"] = "response.audio.transcript.delta"


class ResponseAudioTranscriptDoneEvent(Event, frozen=True):
    """The transcript is whole."""

    type: Literal["response.audio.transcript.done"] = "response.audio.transcript.done"
