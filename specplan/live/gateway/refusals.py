"""What the gateway says when it does not answer: errors in the form that OpenAI's clients read."""

from __future__ import annotations

from typing import Any, Final

from theory.errors import SpecplanError, shown

__all__ = ["Refusal", "bad_request", "too_busy", "too_large", "too_slow", "unknown_model", "upstream_failed"]

_INVALID: Final = "invalid_request_error"


class Refusal(SpecplanError):  # noqa: N818  (what a client is told, whoever is at fault)
    """A request that is not answered: its HTTP status, and the error as JSON.

    Parameters
    ----------
    message : one line.
    status : HTTP status, 400 to 599.
    kind : OpenAI's type of error.
    param : field of the body that it is about.
    code : OpenAI's code.
    wait_s : when to try again, s; None: not said.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = _INVALID,
        param: str | None = None,
        code: str | None = None,
        wait_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.wait_s = wait_s
        self._parts = {"type": kind, "param": param, "code": code}

    def plain(self) -> dict[str, Any]:
        """The error as OpenAI's API has it."""
        return {"error": {"message": shown(str(self), 600), **self._parts}}


def bad_request(param: str, value: object, rule: str) -> Refusal:
    """A field of the body is outside its domain."""
    return Refusal(f"{param}={shown(repr(value), 80)} {rule}", param=param)


def too_large(most_bytes: int) -> Refusal:
    """The body is larger than allowed."""
    rule = f"the body has more than {most_bytes} bytes: shorten it, or start the gateway with a larger --max-body"
    return Refusal(rule, status=413, code="request_too_large")


def too_slow(seconds: float) -> Refusal:
    """The body did not come."""
    return Refusal(
        f"the body took longer than {seconds:g} s to come: send it again", status=408, code="request_timeout"
    )


def too_busy(most: int) -> Refusal:
    """As many answers are in flight as allowed."""
    rule = f"{most} answers are in flight, the most that are taken (--max-in-flight): try again"
    return Refusal(rule, status=429, kind="rate_limit_error", code="too_many_requests", wait_s=1)


def unknown_model(asked: str, offered: str) -> Refusal:
    """The client asked for another model."""
    rule = f"model={shown(repr(asked), 80)} is not served here; there is {offered!r}"
    return Refusal(rule, status=404, kind="not_found_error", param="model", code="model_not_found")


def upstream_failed(message: str) -> Refusal:
    """The target failed, without which there is no answer."""
    return Refusal(message, status=502, kind="server_error", code="upstream_error")
