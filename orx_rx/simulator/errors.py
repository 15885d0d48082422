"""Answers that are errors, in the shape that OpenAI gives them."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """An answer that is an error, in the shape that OpenAI gives it.

    Attributes:
        status: The HTTP status.
        message: What is wrong.
        type: The category.
        param: The parameter of the request that is to blame, or None.
        code: The machine-readable code, or None.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.param = param
        self.code = code

    @property
    def body(self) -> dict[str, Any]:
        """The JSON that says it."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def not_found(response_id: str) -> ApiError:
    """Make the error about a response that is not kept."""
    return ApiError(404, f"Response with id '{response_id}' not found.")


def expired(response_id: str) -> ApiError:
    """Make the error about a response that was kept too long ago to be streamed."""
    message = f"Response with id '{response_id}' can no longer be streamed because it is more than 5 minutes old."
    return ApiError(400, message, param="stream")
