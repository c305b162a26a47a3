"""What policies of verification gain by load, predicted from names and as published: ``python -m benchmarks.policies``.

DeepSeek-V4 with the DSpark drafter of its checkpoint under vLLM: plain decoding, 7 drafted tokens of which all are
verified, and adaptive verification. Of the drafter the tokens per round with all verified are given; what it knows of
its drafts is the constant of `theory.adaptive.verification`, which was fitted to another model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from sim.configuration import PLAIN, Configuration
from specplan.output import table
from specplan.planning.loads.from_names import FromNames
from specplan.planning.loads.options import Option
from specplan.planning.loads.schedule import Depths
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.drafters.finding import find_block
from specplan.worlds.drafters.known_acceptance import known_acceptances
from specplan.worlds.model_files import shape_of
from specplan.worlds.request import Deployment, ServedModel
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named

POLICIES: Final = ("none", "fixed", "adaptive")
_PROMPT: Final = 220
"""Tokens: ShareGPT's mean in vLLM's benchmark; SPEED-Bench's short questions are taken for as long."""
_ANSWER: Final = 512
CLOSE: Final = 0.05
"""Gains nearer than this share have no order."""


@dataclass(frozen=True, slots=True)
class Published:
    """Gains over plain decoding on one server, with 7 drafted tokens."""

    target: str
    per_round: float
    """Tokens that a round of 7 drafted ones commits, the bonus token included."""
    gpu: str
    source: str
    gains: dict[int, tuple[float, float]]
    """Answers at once to the gains with all verified, and adaptively."""
    ahead: tuple[int, ...] = ()
    """Answers at once at which no gain is published, but that adaptive verification is 5 % ahead or more."""


ROWS: Final = (
    Published(
        "deepseek-ai/DeepSeek-V4-Flash-DSpark",
        3.2,  # the blog: over 70 % survive at the first position, less than 10 % at the seventh
        "MI355X",
        "vllm-project/vllm#52362",
        {
            n: (fixed / plain, adaptive / plain)
            for n, plain, fixed, adaptive in (
                (4, 381.5, 970.3, 902.4),
                (8, 729.2, 1762.6, 1616.8),
                (16, 1342.8, 2909.5, 2773.7),
                (32, 2393.0, 4756.3, 4501.1),
                (64, 4094.8, 6712.4, 7144.1),
                (128, 6340.8, 8778.9, 10356.5),
                (256, 8878.6, 7852.4, 13324.7),
            )
        },
    ),
    Published(
        "deepseek-ai/DeepSeek-V4-Pro-0813",
        3.4,
        "B300",
        "vLLM blog, 14 August 2026",
        {256: (0.47, 8855 / 6267)},
        (16, 32, 64, 128),
    ),
)


def main() -> None:
    """Print the table."""
    rows, errors, right = [], [], []
    for published in ROWS:
        for n, predicted in _predicted(published):
            if n in published.ahead:
                right.append(predicted[1] > predicted[0])
                continue
            measured = published.gains[n]
            gains = [f"{ours:.2f} ({theirs:.2f})" for ours, theirs in zip(predicted, measured, strict=True)]
            errors.append([ours / theirs - 1.0 for ours, theirs in zip(predicted, measured, strict=True)])
            right += _order(predicted, measured)
            rows.append([published.target.rpartition("/")[2], published.gpu, str(n), *gains])
    print(table(["target", "GPU", "at once", "all 7 verified", "adaptive"], rows))
    for name, column in zip(POLICIES[1:], zip(*errors, strict=True), strict=True):
        print(f"{name}: mean error {fmean(map(abs, column)):.1%}, bias {fmean(column):+.1%}, n = {len(column)}")
    print(f"order of two policies right: {sum(right)} of {len(right)} pairs that differ by more than {CLOSE:.0%}")


def _predicted(published: Published) -> Iterator[tuple[int, tuple[float, float]]]:
    """Gains of both policies by answers at once."""
    target = shape_of(published.target)
    block = find_block(target).facts
    assert block is not None
    deployment = Deployment(
        target=ServedModel(facts=target, precision=target.precision),
        block=ServedModel(facts=block, precision=block.precision),
        gpu=gpu_named(published.gpu),
        gpus=8,
        engine=engine_named("vllm"),
        context=_PROMPT + _ANSWER,
        answer_tokens=_ANSWER,
        acceptance=known_acceptances([f"dspark={published.per_round}/round@7"]),
        k=7,
    )
    simulator, place = FromNames(deployment), Arrangement(tp=8, replicas=1)
    depths = Depths(simulator.world)
    fixed, every = (Configuration(method="block-drafter", k2=8, knobs={"least": least}) for least in (0.0, 1e-6))
    for n in sorted({*published.gains, *published.ahead}):
        adaptive = depths.adaptive("block-drafter", place.split, n) or every
        plain, *both = (simulator.speed(Option(one, place), n) for one in (PLAIN, fixed, adaptive))
        yield n, (both[0] / plain, both[1] / plain)


def _order(predicted: tuple[float, float], measured: tuple[float, float]) -> Iterator[bool]:
    """For each two policies that differ as measured, whether the prediction has them in the same order."""
    ours, theirs = (1.0, *predicted), (1.0, *measured)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        if abs(theirs[i] / theirs[j] - 1.0) > CLOSE:
            yield (ours[i] - ours[j]) * (theirs[i] - theirs[j]) > 0.0


if __name__ == "__main__":
    main()
