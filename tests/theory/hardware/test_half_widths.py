"""Half-widths: wider where less was measured, and as conformal prediction asks."""

from dataclasses import replace

import numpy as np
import pytest
from hardware_shapes import MIXTURE, QWEN3_8B, shape_of_layers
from hypothesis import given
from hypothesis import strategies as st

from theory.hardware.formats import Precision
from theory.hardware.gpus import GPUS, gpu_named
from theory.hardware.half_widths import GAIN, HALF_WIDTHS, ITERATION, TIME_PER_TOKEN, conformal, half_width, regime
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Shape
from theory.hardware.work import Parallel, Work

DENSE, MIXED = (shape_of_layers(replace(QWEN3_8B, feed_forward=one)) for one in (QWEN3_8B.feed_forward, MIXTURE))
quantities = st.sampled_from(sorted({quantity for quantity, _ in HALF_WIDTHS}))


@given(
    quantities,
    st.sampled_from(sorted(GPUS)).map(GPUS.__getitem__),
    st.sampled_from([DENSE, MIXED]),
    st.none() | st.builds(Work, sequences=st.floats(1.0, 512.0)),
)
def test_every_quantity_has_a_half_width_under_any_load(quantity, gpu, shape, work) -> None:
    model = PassModel(gpu=gpu, shape=shape, precision=Precision())
    assert (quantity, regime(quantity, model, work)) in HALF_WIDTHS
    assert 0.0 < half_width(quantity, model, work) < 2.0


@pytest.mark.parametrize("quantity", [ITERATION, TIME_PER_TOKEN, GAIN])
def test_half_widths_are_wider_where_less_was_measured(quantity: str) -> None:
    """Served models, their operators, the data sheet."""
    widths = [half_width(quantity, PassModel(gpu=gpu_named(name), shape=DENSE)) for name in ("H100", "L40S", "L4")]
    assert widths == sorted(widths)
    assert len(set(widths)) == 3


@given(quantities, st.sampled_from([DENSE, MIXED]), st.sampled_from(["H100", "B200", "L4"]))
def test_what_no_row_measured_over_several_machines_is_at_least_as_open_as_a_gpu_known_by_its_data_sheet(
    quantity: str, shape: Shape, gpu: str
) -> None:
    one = PassModel(gpu=gpu_named(gpu), shape=shape, parallel=Parallel(tp=8))
    two = replace(one, parallel=Parallel(tp=8, pp=2))
    unfitted = replace(one, gpu=replace(one.gpu, fitted=False))
    assert half_width(quantity, two) == max(half_width(quantity, unfitted), 0.5)
    assert half_width(quantity, two) >= half_width(quantity, one)


def test_half_widths_are_wider_for_formats_whose_operators_were_not_measured() -> None:
    """fp8 is widened on A100."""
    for name, shape, weights, wider in (
        ("A100", DENSE, "bf16", False), ("A100", DENSE, "fp8", True),
        ("A100", MIXED, "fp8", True), ("A100", MIXED, "int4", False),
        ("H100", DENSE, "fp8-block", False), ("H100", DENSE, "int4", True), ("H100", MIXED, "mxfp4", False),
        ("H100", MIXED, "int8", True), ("B200", DENSE, "nvfp4", False), ("B200", MIXED, "nvfp4", False),
    ):  # fmt: skip
        model = PassModel(gpu=gpu_named(name), shape=shape, precision=Precision(weights=weights))
        in_bf16 = half_width(ITERATION, replace(model, precision=Precision()))
        assert (half_width(ITERATION, model) > in_bf16 + 0.2) == wider, (name, weights)
        assert half_width(GAIN, model) == half_width(GAIN, replace(model, precision=Precision()))


def test_half_widths_of_times_are_wider_on_gpus_whose_kernels_are_other_ones() -> None:
    """Before Ampere, on AMD's, and where those widen weights in fp4 by software; gains stay as they are."""
    made = [PassModel(gpu=gpu_named(name), shape=MIXED) for name in ("4090", "V100", "MI300X", "MI355X")]
    assert [half_width(TIME_PER_TOKEN, one) for one in made] == [0.4, 0.8, 0.8, 0.8]
    in_fp4 = [replace(one, precision=Precision(weights="mxfp4")) for one in made[2:]]
    assert [half_width(TIME_PER_TOKEN, one) for one in in_fp4] == [1.0, 0.8]
    assert len({half_width(GAIN, one) for one in (*made, *in_fp4)}) == 1


def test_gains_over_pcie_are_wider() -> None:
    for name, wide in (("A100", False), ("L40S", True), ("RTX PRO 6000", True)):
        alone = PassModel(gpu=gpu_named(name), shape=DENSE)
        split = replace(alone, parallel=Parallel(tp=4))
        assert (half_width(GAIN, split) >= 0.63) == wide
        assert (half_width(GAIN, split) > half_width(GAIN, alone)) == wide


def test_small_models_wait_for_the_host_on_blackwell_only() -> None:
    busy = Work(sequences=256.0, context=100.0)
    for name, waits in (("B200", True), ("H100", False)):
        model = PassModel(gpu=gpu_named(name), shape=DENSE)
        host = replace(model, engine=replace(model.engine, sequence_s=1e-4))
        assert ("waiting" in regime(ITERATION, host, busy)) == waits
        assert "waiting" not in regime(ITERATION, model, Work(sequences=1.0))


def test_conformal_covers_a_group_that_was_left_out() -> None:
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(400):
        errors = np.abs(rng.normal(size=40))
        covered.append(errors[-1] <= conformal(errors[:-1].tolist(), [str(i) for i in range(39)], 0.9))
    assert np.mean(covered) == pytest.approx(0.9, abs=0.04)
