"""Refusals of a server: the message, and the time to wait."""

from __future__ import annotations

import json
import math
import time
from email.utils import parsedate_to_datetime

__all__ = ["retry_after", "said"]


def said(text: str) -> str:
    """Message of a server's error in any format: at most 300 characters."""
    try:
        answer = json.loads(text)
        for key in ("error", "message", "detail"):
            while isinstance(answer, dict) and key in answer:
                answer = answer[key]
        return str(answer)[:300]
    except (ValueError, RecursionError):
        return text[:300]


def retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header; None without a valid one."""
    if value is None:
        return None
    try:
        seconds = float(value)
        return None if math.isnan(seconds) else max(seconds, 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
