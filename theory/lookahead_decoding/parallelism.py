r"""Lookahead parallelism: the branches of a pass shared by several devices, as a cost model.

Every device has the whole model and computes some columns of the window and some of the n-grams; nothing is exchanged
during a pass, only the new tokens after it. Some work is done several times: a column needs the current token and the
oldest row up to itself, so a device whose last column is c computes c tokens of that row in addition to the N - 2 other
rows of each of its columns. The device of column W computes all W of them, so that at least W rows remain with any
number of devices: at best a pass shrinks by a factor :math:`2 (N - 1)` where G = W.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from theory.checks import scalar_count
from theory.errors import ParameterError

__all__ = ["device_rows", "parallel_speedup"]


def device_rows(window: int, ngram: int, guesses: int, n_devices: int) -> int:
    """Rows of the busiest device when columns and n-grams are shared as evenly as they can be.

    Parameters
    ----------
    window : W, columns, >= 1.
    ngram : N, >= 2.
    guesses : G, n-grams verified, >= 0.
    n_devices : devices, >= 1; each holds a copy of the model.

    Returns
    -------
    Tokens that it feeds, exact: the least over all ways to share. ``(W + G)(N - 1)`` on one device, never below
    ``W + N - 2``.

    Raises
    ------
    ParameterError : a count outside its range.

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, section 3.4; claim LD-LP of the ledger.

    >>> [device_rows(15, 5, 15, n) for n in (1, 2, 4, 8)]
    [120, 61, 33, 21]
    """
    w, size = scalar_count("window", window), scalar_count("ngram", ngram, minimum=2) - 1
    g, devices = scalar_count("guesses", guesses, minimum=0), scalar_count("n_devices", n_devices)
    low, high = w + size - 1, (w + g) * size
    while low < high:
        middle = (low + high) // 2
        if _fits(middle, w, size, g, devices):
            high = middle
        else:
            low = middle + 1
    return low


def _fits(limit: int, window: int, size: int, guesses: int, devices: int) -> bool:
    """Whether `devices` of `limit` rows are enough.

    The highest columns of the window are assigned to one device, the next to another: among assignments with the same
    number of columns on each device, this has the lowest last columns. The remaining rows of a device compute n-grams;
    a device without columns still computes the current token.
    """
    # best[c]: most n-grams that the devices so far can take, with columns 1 to c still to be placed
    best = {window: 0}
    for _ in range(devices):
        placed: dict[int, int] = {}
        for columns, taken in best.items():
            for block in range(columns + 1):
                load = columns + (size - 1) * block if block else 1
                if load > limit:
                    break
                left = columns - block
                placed[left] = max(placed.get(left, 0), taken + (limit - load) // size)
        best = placed
    return best.get(0, -1) >= guesses


def parallel_speedup(compression: float, rows: int, seconds: Callable[[int], float], *, exchange: float = 0.0) -> float:
    """Speedup over plain decoding on one device, of passes whose busiest device feeds ``rows`` tokens.

    Parameters
    ----------
    compression : S, tokens per pass, >= 1; sharing a pass does not change it.
    rows : of the busiest device (`device_rows`), >= 1.
    seconds : tau, the time of a pass over so many tokens on one device, s.
    exchange : time of exchanging the new tokens after a pass, s, >= 0.

    Returns
    -------
    Speedup [-].

    Raises
    ------
    ParameterError : a value outside its range, or a pass time that is not positive and finite.

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, sections 3.4 and 5.5.

    >>> parallel_speedup(2.0, 120, lambda rows: 20e-3 + rows * 20e-6)
    1.7875
    """
    if not (math.isfinite(compression) and compression >= 1.0):
        raise ParameterError("compression", compression, "must be a finite number >= 1")
    if not (math.isfinite(exchange) and exchange >= 0.0):
        raise ParameterError("exchange", exchange, "must be a finite number of seconds >= 0")
    one, many = seconds(1), seconds(scalar_count("rows", rows))
    for value in (one, many):
        if not (math.isfinite(value) and value > 0.0):
            raise ParameterError("seconds", value, "must be positive and finite at every number of rows")
    return compression * one / (many + exchange)
