"""Validation of arguments of `theory`: every public function converts its arguments to float64 or int64 arrays here.

A value that passes is finite, of the right kind and inside its domain; anything else raises `ParameterError`, which
names the argument (with the index of the first bad element where it is an array), the value and the rule.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.errors import ParameterError

__all__ = [
    "MAX_COUNT",
    "FloatArray",
    "IntArray",
    "Mode",
    "at_least_one",
    "broadcast_shape",
    "count",
    "level",
    "mode",
    "nonnegative",
    "positive",
    "probability",
    "ratio",
    "scalar_count",
    "scalar_probability",
    "scalar_ratio",
    "single",
    "unwrap",
]

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Mode: TypeAlias = Literal["sync", "async"]

MAX_COUNT: Final = 2**53
"""Largest count accepted: up to here every integer is a float64, so no formula rounds its k."""

_INTEGER_RULE: Final = "must be an integer"


def probability(name: str, value: ArrayLike) -> FloatArray:
    """Acceptance probabilities, [-], any shape, in [0, 1]; both ends are allowed and mean never and always."""
    return _within(name, value, 0.0, 1.0, "must be in [0, 1]")


def ratio(name: str, value: ArrayLike) -> FloatArray:
    """Cost ratios draft/target, [-], any shape, in [0, 1].

    0 is the limit of a free draft, 1 a draft as slow as the target. The paper's formulas assume c < 1; beyond it their
    schedules do not apply.
    """
    return _within(name, value, 0.0, 1.0, "must be in [0, 1] (draft time / target time)")


def positive(name: str, value: ArrayLike) -> FloatArray:
    """Finite values above zero, any shape."""
    return _within(name, value, np.nextafter(0.0, 1.0), np.finfo(np.float64).max, "must be finite and > 0")


def at_least_one(name: str, value: ArrayLike) -> FloatArray:
    """Finite values of one or more, any shape."""
    return _within(name, value, 1.0, np.finfo(np.float64).max, "must be finite and >= 1")


def nonnegative(name: str, value: ArrayLike) -> FloatArray:
    """Finite values of zero or more, any shape."""
    return _within(name, value, 0.0, np.finfo(np.float64).max, "must be finite and >= 0")


def count(name: str, value: ArrayLike, *, minimum: int = 1, maximum: int = MAX_COUNT) -> IntArray:
    """Integers in [minimum, maximum], any shape. Integer types only: 4.0 is refused, because 4.5 would follow it."""
    rule = f"{_INTEGER_RULE} in [{minimum}, {_power_of_two(maximum)}]"
    array = _array(name, value, rule)
    if array.dtype.kind not in "iu":
        raise ParameterError(name, value, rule)
    _refuse_first(name, array, ~((array >= minimum) & (array <= maximum)), rule)
    return array.astype(np.int64)


def mode(name: str, value: str) -> Mode:
    """The schedule of Lookahead Reasoning: ``"sync"`` (Algorithm 1) or ``"async"`` (Appendix B.1.1)."""
    if not isinstance(value, str) or value not in ("sync", "async"):
        raise ParameterError(name, value, "must be 'sync' or 'async'")
    return cast(Mode, value)


def single(name: str, array: FloatArray | IntArray, value: object) -> float:
    """The one number of an array that passed its check; ``value`` is what was given, for the error."""
    if array.ndim:
        raise ParameterError(name, value, "must be a single number")
    return float(array)


def scalar_probability(name: str, value: float) -> float:
    """One probability in [0, 1] as a Python float."""
    return single(name, probability(name, value), value)


def scalar_ratio(name: str, value: float) -> float:
    """One cost ratio in [0, 1] as a Python float."""
    return single(name, ratio(name, value), value)


def scalar_count(name: str, value: int, *, minimum: int = 1, maximum: int = MAX_COUNT) -> int:
    """One integer in [minimum, maximum] as a Python int."""
    return int(single(name, count(name, value, minimum=minimum, maximum=maximum), value))


def broadcast_shape(**arrays: FloatArray | IntArray) -> tuple[int, ...]:
    """The common shape of the named arrays, or a `ParameterError` that lists their shapes."""
    try:
        return np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name}: {a.shape}" for name, a in arrays.items())
        raise ParameterError("shapes", shapes, "must broadcast together") from None


def level(which: str, alpha: ArrayLike, c: ArrayLike, k: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Checked alpha, c and k of level "1" (steps) or "2" (tokens); k as float64, exact up to 2**53."""
    a = probability(f"alpha{which}", alpha)
    cost = ratio(f"c{which}", c)
    n = count(f"k{which}", k)
    k_float = n.astype(np.float64)
    broadcast_shape(**{f"alpha{which}": a, f"c{which}": cost, f"k{which}": k_float})
    return a, cost, k_float


def unwrap(array: FloatArray) -> FloatArray:
    """A 0-d array becomes a numpy scalar (it prints, hashes and formats like a number); others stay as they are."""
    return array[()]


def _within(name: str, value: ArrayLike, low: float, high: float, rule: str) -> FloatArray:
    array = _array(name, value, rule)
    if array.dtype.kind not in "iuf":
        raise ParameterError(name, value, rule)
    # The negated form also refuses NaN, which compares false with everything.
    _refuse_first(name, array, ~((array >= low) & (array <= high)), rule)
    return array.astype(np.float64)


def _array(name: str, value: ArrayLike, rule: str) -> NDArray[Any]:
    if _holds_bool(value):
        raise ParameterError(name, value, f"{rule}, not a boolean")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise ParameterError(name, value, f"{rule}, scalar or rectangular array") from None
    if array.size == 0:
        raise ParameterError(name, value, "must not be empty")
    return array


def _holds_bool(value: object) -> bool:
    """Whether a list contains a boolean: numpy would convert [True, 0.5] to an array of floats silently."""
    if isinstance(value, (list, tuple)):
        return any(_holds_bool(item) for item in value)
    return isinstance(value, (bool, np.bool_))


def _refuse_first(name: str, array: NDArray[Any], bad: NDArray[np.bool_], rule: str) -> None:
    if not bad.any():
        return
    if array.ndim == 0:
        raise ParameterError(name, array.item(), rule)
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    raise ParameterError(f"{name}[{', '.join(map(str, where))}]", array[where].item(), rule)


def _power_of_two(value: int) -> str:
    bits = value.bit_length() - 1
    return f"2**{bits}" if bits > 20 and value == 1 << bits else str(value)
