"""Refusals of the gateway: errors in the form of OpenAI's API."""

from __future__ import annotations

import math
from typing import Any, Final

from theory.errors import SpecplanError, shown

__all__ = [
    "Refusal",
    "bad_request",
    "busy_upstream",
    "stopping",
    "too_busy",
    "too_large",
    "too_slow",
    "unknown_model",
    "upstream_failed",
]

_INVALID: Final = "invalid_request_error"


class Refusal(SpecplanError):  # noqa: N818  (an answer to a client, whoever is at fault)
    """A request that is not answered: its HTTP status, and the error as JSON.

    Parameters
    ----------
    message : a line of text.
    status : HTTP status, 400 to 599.
    kind : OpenAI's error type.
    param : field of the body that caused it.
    code : OpenAI's error code.
    wait_s : seconds until the client should try again; None: not stated.
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
        """Return the error in the form of OpenAI's API."""
        return {"error": {"message": shown(str(self), 600), **self._parts}}


def bad_request(param: str, value: object, rule: str) -> Refusal:
    """Refuse a field of the body that is outside its domain."""
    return Refusal(f"{param}={shown(repr(value), 80)} {rule}", param=param)


def too_large(most_bytes: int) -> Refusal:
    """Refuse a body that is larger than allowed."""
    rule = f"the body has more than {most_bytes} bytes: shorten it, or start the gateway with a larger --max-body"
    return Refusal(rule, status=413, code="request_too_large")


def too_slow(seconds: float) -> Refusal:
    """Refuse a body that did not arrive in time."""
    return Refusal(
        f"the body took longer than {seconds:g} s to arrive: send it again", status=408, code="request_timeout"
    )


def too_busy(most: int) -> Refusal:
    """Refuse a request because the most answers are in flight."""
    rule = f"{most} answers are in flight, the most that are accepted (--max-in-flight): try again"
    return Refusal(rule, status=429, kind="rate_limit_error", code="too_many_requests", wait_s=1)


def unknown_model(requested: str, offered: str) -> Refusal:
    """Refuse a request for another model."""
    rule = f"model={shown(repr(requested), 80)} is not served here: request {offered!r}"
    return Refusal(rule, status=404, kind="not_found_error", param="model", code="model_not_found")


def upstream_failed(message: str) -> Refusal:
    """Refuse a request because the target failed."""
    return Refusal(message, status=502, kind="server_error", code="upstream_error")


def stopping() -> Refusal:
    """Break off an answer because the gateway stops."""
    rule = "the gateway is being stopped, and this answer has not ended in time (--grace): ask again"
    return Refusal(rule, status=503, kind="server_error", code="service_unavailable", wait_s=1)


def busy_upstream(message: str, wait_s: float | None) -> Refusal:
    """Refuse a request because the target's server has too many; ``wait_s``: as it asks to wait, s."""
    wait = 1 if wait_s is None else math.ceil(wait_s)
    return Refusal(message, status=429, kind="rate_limit_error", code="too_many_requests", wait_s=wait)
