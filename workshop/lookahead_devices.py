r"""Lookahead parallelism: the branches of a pass shared by several devices, as a cost model.

Every device has the whole model and computes some columns of the window and some of the n-grams; nothing is exchanged
during a pass, only the new tokens after it. Some work is done several times: a column needs the current token and the
oldest row up to itself, so a device whose last column is c computes c tokens of that row in addition to the N - 2 other
rows of each of its columns. The device of column W computes all W of them, so that at least W rows remain with any
number of devices: at best a pass shrinks by a factor :math:`2 (N - 1)` where G = W.
"""

from __future__ import annotations

__all__ = ["device_rows"]


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

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, section 3.4; claim LD-LP of the ledger.

    >>> [device_rows(15, 5, 15, n) for n in (1, 2, 4, 8)]
    [120, 61, 33, 21]
    """
    size = ngram - 1
    low, high = window + size - 1, (window + guesses) * size
    while low < high:
        middle = (low + high) // 2
        if _fits(middle, window, size, guesses, n_devices):
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
