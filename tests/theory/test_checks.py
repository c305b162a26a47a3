"""Every argument that a person can give is refused with its name, value and rule, or accepted unchanged."""

import inspect
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from refusals import refused

import theory
from theory import checks
from theory.errors import ParameterError, SpecplanError

GOOD = {
    "alpha": 0.5, "alpha1": 0.5, "alpha2": 0.5, "c": 0.1, "c1": 0.1, "c2": 0.1, "gamma": 3, "k1": 3, "k2": 3,
    "limit": 3, "mode": "sync", "budget": 16, "k_max": 9,
}  # fmt: skip
FUNCTIONS = {
    name: list(inspect.signature(function).parameters)
    for name in theory.__all__
    if inspect.isfunction(function := getattr(theory, name))
}
NOT_REAL = [float("nan"), float("inf"), -float("inf"), True, np.True_, "0.5", 0.5j, None, [], [0.5, True], [[0.5], []]]
NOT_REAL += [Fraction(1, 2), Decimal("0.5"), np.array([0.5, np.nan]), np.array([], dtype=float), object()]
BAD_UNIT = [-1e-300, 1.0000000000000002, 2, -1, [0.5, 1.5], np.array([-0.1])]
BAD_COUNT = [0, -1, 2.0, 2.5, np.float64(3), 2**53 + 1, 10**30, [1, 0], [1.5, 2], np.array([0])]
SCALARS_ONLY = {"g_argmax", "f_sync_argmax", "best_hybrid"}


def bad_values(parameter: str) -> list[object]:
    if parameter == "mode":
        return ["", "SYNC", "both", None, 1, True, ["sync"]]
    if parameter in ("alpha", "alpha1", "alpha2", "c", "c1", "c2"):
        return NOT_REAL + BAD_UNIT
    counts = [v for v in NOT_REAL if v is not None] + BAD_COUNT
    if parameter in ("gamma", "limit"):
        return [v for v in counts if str(v) not in ("0", "[0]", "[1, 0]")]
    return counts


def call(name: str, parameter: str, value: object) -> object:
    return getattr(theory, name)(**{p: GOOD[p] for p in FUNCTIONS[name]} | {parameter: value})


CASES = [(name, p) for name, parameters in FUNCTIONS.items() for p in parameters]


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_bad_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    call(name, parameter, GOOD[parameter])
    for value in bad_values(parameter):
        with pytest.raises(ParameterError) as caught:
            call(name, parameter, value)
        assert caught.value.name.split("[")[0] == parameter, (value, str(caught.value))
        assert "\n" not in caught.value.rule
    if name in SCALARS_ONLY and parameter != "mode":
        with pytest.raises(ParameterError, match="must be a single number"):
            call(name, parameter, [GOOD[parameter]])


test_what_is_refused_is_said_in_these_words = refused(
    lambda call: call(),
    (lambda: theory.h([0.1, 0.2], 0.1, 2, [0.1, 0.2, 0.3], 0.1, 2, "sync"), "must broadcast together"),
    (lambda: theory.regime_map([0.1, 0.2], 0.1, [0.1, 0.2, 0.3], 0.1, 4, "sync"), "must broadcast together"),
    (lambda: theory.parallel_dim(0.1, [1, 2], [1, 2, 3], "sync"), "must broadcast together"),
    (lambda: theory.parallel_dim(0.0, 2**30, 2**30, "sync"), "parallel_dim"),
    (lambda: theory.g_argmax(0.5, 0.0), "^c2=.*give k_max"),
    (lambda: theory.g_argmax(1.0, 0.5), "^alpha2=.*give k_max"),
    (lambda: theory.g_argmax(1.0, 0.0), "^c2=.*give k_max"),
    (lambda: theory.f_sync(1.2, 0.1, 2), r"^alpha1=1\.2 must be in \[0, 1\]$"),
    (lambda: theory.f_sync([[0.1], [float("nan")]], 0.1, 2), r"^alpha1\[1, 0\]=nan must be in \[0, 1\]$"),
    (lambda: theory.f_sync(0.5, 0.1, 2.5), r"^k1=2\.5 must be an integer in \[1, 2\*\*53\]$"),
    (
        lambda: theory.f_sync([0.1, 0.2], 0.1, [1, 2, 3]),
        r"^shapes='alpha1: \(2,\), c1: \(\), k1: \(3,\)' must broadcast together$",
    ),
)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64, np.int32])
def test_integer_types_are_counts(dtype: type) -> None:
    assert theory.f_sync(0.5, 0.25, dtype(2)) == 1.2
    assert np.array_equal(theory.f_sync(0.5, 0.25, np.array([2, 2], dtype=dtype)), [1.2, 1.2])


def test_results_are_float64_scalars_or_arrays() -> None:
    scalar = theory.f_async(np.float32(0.5), 0.25, 2)
    assert isinstance(scalar, np.float64)
    assert isinstance(theory.parallel_dim(0.1, 2, 3, "sync"), np.int64)
    assert theory.f_async([0.5], 0.25, 2).dtype == np.float64


@pytest.mark.parametrize(
    ("function", "least"), [(checks.positive, 5e-324), (checks.nonnegative, 0.0), (checks.at_least_one, 1.0)]
)
def test_domains_without_an_upper_end(function: Callable[..., np.ndarray], least: float) -> None:
    assert np.array_equal(function("x", [least, 1e300]), [least, 1e300])
    for value in [np.nextafter(least, -1.0), -1.0, float("nan"), float("inf"), "1", True, []]:
        with pytest.raises(ParameterError):
            function("x", value)


def test_a_parameter_error_is_ours_and_a_value_error() -> None:
    assert {SpecplanError, ValueError} <= set(ParameterError.__mro__)
