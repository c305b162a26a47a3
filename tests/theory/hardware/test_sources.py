"""A pass is made of its source's operators, whichever source it is, and of nothing else that depends on the GPU."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hardware_shapes import LATENT, MIXTURE, QWEN3_8B, shape_of_layers

from theory.hardware.formats import Precision
from theory.hardware.gpus import gpu_named, unmeasured
from theory.hardware.half_widths import ITERATION, half_width
from theory.hardware.passes import PassModel
from theory.hardware.rounds import head_round
from theory.hardware.shapes import Layers, Shape
from theory.hardware.sources import FittedOperators
from theory.hardware.work import Parallel, Work

SHAPE = shape_of_layers(
    replace(QWEN3_8B, count=3), Layers(count=5, attention=LATENT, feed_forward=replace(MIXTURE, shared=768))
)
WORKS = (Work(sequences=7.5, context=900.0), Work(sequences=4.0, tokens=4.0, context=10.0, prefill_tokens=300.0))


class Counting:
    """Every operator takes a second, and is counted."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        def seconds(*_: object, **__: object) -> float:
            self.counts[name] += 1
            return 1.0

        return seconds


@pytest.mark.parametrize("gpu", ["H100", "B200", "L4", "MI355X"])
@pytest.mark.parametrize("work", WORKS, ids=["decoding", "verifying and reading"])
def test_the_fitted_constants_are_a_source_like_any_other(gpu: str, work: Work) -> None:
    passes = PassModel(gpu=gpu_named(gpu), shape=SHAPE, parallel=Parallel(tp=4), precision=Precision(cache="fp8"))
    source = FittedOperators(passes.gpu, **passes.engine.kernels(passes.gpu.name))
    assert replace(passes, measured=source).parts(work) == passes.parts(work)


def test_every_operator_of_a_pass_comes_from_its_source() -> None:
    source = Counting()
    passes = PassModel(gpu=gpu_named("H100"), shape=SHAPE, parallel=Parallel(tp=2), measured=source)
    parts = passes.parts(WORKS[0])
    # A dense layer: queries, keys and values; outputs; up; down. Latent attention has its own projections, and experts
    # a router and the shared expert's two. A group of layers is priced once, residual streams with all layers.
    assert source.counts == {"product": 4 + 3 + 1, "attention": 1, "latent": 1, "experts": 1, "sums": 2, "streams": 1}
    assert (parts.products, parts.experts, parts.attention, parts.sums, parts.head) == (3 * 4 + 5 * 3, 5, 8, 16, 1)


def test_a_head_drafts_on_its_targets_source() -> None:
    source = Counting()
    target = PassModel(gpu=gpu_named("H100"), shape=SHAPE, measured=source)
    head = Shape(hidden=4096, vocab=32000, layers=(replace(SHAPE.layers[0], count=1),))
    drafting = head_round(target, head).parts(8.0, 3.0, 500.0).drafting
    assert drafting >= 2 * (4 + 1 + 1)  # passes of the head with four products, attention, and the scores of tokens


def test_a_gpu_left_out_is_scaled_and_less_sure() -> None:
    for name in ("H100", "H200", "B200", "A100", "L40S"):
        gpu = gpu_named(name)
        scaled = unmeasured(gpu)
        assert (gpu.fitted, scaled.fitted, scaled.sheet) == (True, False, gpu.sheet)
        known, guessed = (PassModel(gpu=one, shape=SHAPE) for one in (gpu, scaled))
        assert half_width(ITERATION, guessed, WORKS[0]) > half_width(ITERATION, known, WORKS[0])
        measured = replace(guessed, measured=FittedOperators(gpu))
        assert half_width(ITERATION, measured, WORKS[0]) < half_width(ITERATION, guessed, WORKS[0])
