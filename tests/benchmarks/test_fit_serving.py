"""The committed constants of engines are what the fit gives, and half-widths are what families left out ask for."""

from dataclasses import replace

import numpy as np
import pytest
from evidence import Shared
from public_tables import public_tables

from benchmarks import fit_serving as fit
from specplan.check.scoreboard.board import read_folder
from theory.hardware.engines import ENGINES
from theory.hardware.half_widths import HALF_WIDTHS, ITERATION, TIME_PER_TOKEN, conformal

TAKEN = {
    ("vllm 0.12.0", "norm_s"), ("vllm 0.16.0", "norm_s"), ("vllm 0.17.0", "norm_s"), ("trtllm 0.21.0", "norm_s"),
    ("trtllm 1.2.0", "norm_s"), ("trtllm 1.2.0", "sequence_s"), ("trtllm 1.2.0", "ungraphed_s"),
    ("trtllm 1.2.0 Blackwell", "norm_s"), ("sglang 0.5.6", "norm_s"), ("sglang 0.5.6", "expert_norm_s"),
    ("sglang 0.5.6", "ungraphed_s"), ("sglang 0.5.9", "norm_s"), ("sglang 0.5.9", "expert_norm_s"),
    ("sglang 0.5.9", "sequence_s"), ("sglang 0.5.9", "ungraphed_s"),
}  # fmt: skip
"""Constants that no row of the version tells, taken from another version as `theory.hardware.engines` says;
TensorRT-LLM's on Hopper, per sequence and outside graphs, from Blackwell; and SGLang's, of which rounds tell more, and
each version was measured with one model."""


@pytest.fixture(scope="module")
def table(shared: Shared) -> fit.Times:
    """All rows at all constants: some ten seconds, for all workers."""
    folder = public_tables()
    return shared.get("serving times", lambda: fit.times(read_folder(folder, fit.KINDS).rows))


@pytest.fixture(scope="module")
def left_out(table: fit.Times) -> np.ndarray:
    """Logarithms of predicted / measured of the rows, each family's predicted by the others."""
    return fit.left_out(table)


@pytest.mark.slow
def test_the_committed_engines_are_those_of_the_fit(table: fit.Times) -> None:
    fitted = fit.constants(table)
    later = {("trtllm", "1.4.0"), ("sglang", "0.5.11")}  # which differ from those before by what no row tells
    assert {" ".join(name.split()[:2]) for name in fitted} == {" ".join(key) for key in ENGINES if key not in later}
    for name, values in fitted.items():
        engine = ENGINES[tuple(name.split()[:2])]
        share = engine.blackwell if name.endswith("Blackwell") else 1.0
        for constant, value in zip(fit.NAMES, values, strict=True):
            committed = getattr(engine, constant) * (share if "norm" in constant else 1.0)
            if (name, constant) in TAKEN or (constant.startswith("untuned") and not committed):
                continue
            # two or three digits are committed; what is below a microsecond is taken for nothing
            assert value == pytest.approx(committed, rel=0.06, abs=6e-7), (name, constant)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ITERATION, TIME_PER_TOKEN])
def test_half_widths_are_those_that_families_left_out_ask_for(
    table: fit.Times, left_out: np.ndarray, kind: str
) -> None:
    out = np.abs(left_out)
    for (quantity, regime), committed in HALF_WIDTHS.items():
        here = (table.kind == kind) & (table.regime == regime)
        if quantity != kind or not here.any():
            continue
        needed = conformal(out[here].tolist(), table.family[here].tolist())
        assert committed == pytest.approx(needed, rel=0.15), regime
        assert 0.92 <= np.mean(out[here] <= committed) <= 0.98, regime


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "start", "most"),
    [
        *[("group", gpu, most) for gpu, most in (("H100", 0.06), ("H200", 0.075), ("B200", 0.085))],
        *[("engine", engine, most) for engine, most in (("vllm", 0.08), ("sglang", 0.085), ("trtllm", 0.08))],
    ],
)
def test_time_per_token_of_families_left_out(
    table: fit.Times, left_out: np.ndarray, column: str, start: str, most: float
) -> None:
    here = (table.kind == TIME_PER_TOKEN) & np.char.startswith(getattr(table, column), start)
    assert np.abs(np.expm1(left_out[here])).mean() < most


def _made(constants: np.ndarray, families: list[str]) -> fit.Times:
    rng = np.random.default_rng(0)
    n = len(families)
    slopes = np.column_stack(
        (rng.integers(60, 200, n), rng.integers(60, 200, n), rng.integers(1, 128, n), rng.random(n),
         5e-3 * rng.random(n), 5e-3 * rng.random(n))
    )  # fmt: skip
    base, names = rng.uniform(2e-3, 2e-2, n), np.array(families)
    same = np.array(["vllm 1"] * n)
    return fit.Times(
        base=base, slopes=slopes, measured=base + slopes @ constants, half_width=np.full(n, 0.1), engine=same,
        family=names, kind=np.array([ITERATION] * n), group=same, regime=same, usual=np.full(n, True),
    )  # fmt: skip


def test_a_family_left_out_is_predicted_by_the_others() -> None:
    truth = np.array([9e-6, 1.2e-5, 5e-5, 4e-3, 0.7, 0.4])
    table = _made(truth, ["a"] * 400 + ["b"] * 400)
    np.testing.assert_allclose(table.fitted(table.usual), truth, rtol=0.02)
    strange = replace(table, measured=np.where(table.family == "b", 2 * table.measured, table.measured))
    errors = fit.left_out(strange)
    # nothing of b leaks into its own prediction, and what is read of a is fitted to b only
    np.testing.assert_allclose(errors[400:], np.log(0.5), atol=5e-3)
    assert np.median(np.abs(errors[:400])) > 0.1
    # rows of other models change no constant of the family left out
    unused = replace(table, usual=table.family == "a")
    odd = replace(unused, measured=np.where(table.family == "b", 3 * table.measured, table.measured))
    np.testing.assert_allclose(odd.fitted(odd.usual), unused.fitted(unused.usual))
