"""Asking a server: the options that every command has that does, and the request that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from orx_rx.cli.outcomes import UsageError
from orx_rx.protocol.violations import DEFAULT, STRICT, Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

ProfileName: TypeAlias = Literal["default", "strict"]

PROFILES: Mapping[str, Profile] = {"default": DEFAULT, "strict": STRICT}
"""The profiles by the names that they have here."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Asking:
    """Whom to ask, and how.

    Args:
        model: The model, without which nothing is asked.
        base_url: The address up to and without /responses; by default that of ORX_BASE_URL or OPENAI_BASE_URL, else
            OpenAI's.
        background: Let the response run in the background, so that a broken stream goes on where it broke off.
        repair: Turn the stream of a server that bends the protocol into one that conforms.
        profile: What violations of the server cost: default ends the stream at what is lost or ambiguous, strict at
            whatever Open Responses forbids.
        instructions: Instructions in front of the prompt.
        max_output_tokens: The most tokens of the answer.
    """

    model: Annotated[str | None, Parameter(env_var="ORX_MODEL")] = None
    base_url: str | None = None
    background: bool = False
    repair: bool = False
    profile: ProfileName = "default"
    instructions: str | None = None
    max_output_tokens: int | None = None

    def request(self, prompt: str) -> dict[str, Any]:
        """Make the fields of a request.

        Raises:
            UsageError: There is no model.
        """
        if not self.model:
            raise UsageError("expected --model or ORX_MODEL, got none")
        fields = {
            "background": self.background or None,
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return {"model": self.model, "input": prompt, **given}


NOTHING_SAID = Asking()
"""No option given: the server and the model of the environment."""
