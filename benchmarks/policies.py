"""What policies of verification gain by load, predicted from names and as published: ``python -m benchmarks.policies``.

Three policies under vLLM and SGLang: plain decoding, so many drafted tokens of which all are verified, and adaptive
verification. Where the tokens per round with all verified are published they are given, and gains are compared;
elsewhere the prior stands for them, and only the order of the policies counts. Of these cells the rounds of
DeepSeek-V4-Pro with 16 to 64 answers gave what a drafted token takes (`EngineConstants.of_block_s`), and what GLM-5.2
kept of its drafts gave what a drafter knows of them (`theory.adaptive.verification`); nothing else is fitted to them.
What choosing takes was measured on servers of two of the tables: gains of adaptive verification are also printed with
the other maker's. CUDA graphs are those of the command that is published, else of the version's defaults; on MI355X,
of which neither tells, as commands of plans have them.

With ``FOLDER``, public tables as for `benchmarks.league`, heads by load are added: none and fixed k of targets
left out of the fits, or of workloads and formats of the cache left out (`benchmarks.fit_coverage`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final, TypeAlias

import numpy as np

from benchmarks.fit_coverage import by_load
from benchmarks.fit_rounds import gains_left_out
from benchmarks.fit_serving import times
from sim.configuration import PLAIN, Configuration
from specplan.check.scoreboard.board import read_folder
from specplan.check.scoreboard.driven import plain_rows
from specplan.check.scoreboard.rows import TABLES, Driven, Speculated
from specplan.output import table
from specplan.planning.loads.from_names import FromNames
from specplan.planning.loads.options import Option
from specplan.worlds.arrangements import Arrangement, Split
from specplan.worlds.drafters.finding import find_block
from specplan.worlds.drafters.known_acceptance import known_acceptances
from specplan.worlds.model_files import shape_of
from specplan.worlds.request import Deployment, ServedModel
from theory.adaptive.verification import CHOOSING
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named
from theory.hardware.work import Parallel

Speeds: TypeAlias = Mapping[str, float]
"""Policy to tokens per second."""

NONE, FIXED, ADAPTIVE = POLICIES = ("none", "fixed", "adaptive")
_TOLD: Final = 7
"""Drafted tokens with which tokens per round are published, but where a server drafts more."""
CLOSE: Final = 0.05
"""Speeds nearer than this share have no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Policies of one server by load."""

    target: str
    drafter: str = ""
    """On the hub; empty: the one that is planned for the target."""
    k: int = _TOLD
    per_round: float | None = None
    """Tokens that a round commits with all of `_TOLD` or k verified, the bonus token included; None: not published."""
    gpu: str
    gpus: int = 8
    ep: int = 1
    """GPUs that whole experts are dealt out to."""
    engine: str = "vllm"
    graphs: float | None = None
    """Tokens of a pass up to which CUDA graphs were captured; None: as the engine's constants say."""
    prompt: int = 220
    """Tokens: ShareGPT's mean in vLLM's benchmark; SPEED-Bench's short questions are taken for as long."""
    answer: int = 512
    source: str
    cells: Mapping[int, Speeds]
    """Answers at once to tokens per second, or a multiple of them, of the policies that were measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed(Arrangement):
    """All GPUs share the target, whole experts dealt out to some of them."""

    ep: int

    @property
    def split(self) -> Split:
        """How they share it."""
        return Parallel(tp=self.tp, ep=self.ep)


def _cells(policies: Sequence[str], *rows: tuple[float, ...]) -> dict[int, Speeds]:
    """Cells from rows of answers at once and the speed of each policy."""
    return {int(n): dict(zip(policies, speeds, strict=True)) for n, *speeds in rows}


def _beside_pro(policies: Sequence[str], *speeds: tuple[float, ...]) -> dict[int, Speeds]:
    """Cells of DeepSeek-V4-Pro: plain decoding, and what some policies make at the same loads."""
    plain = (1, 16, 32, 64, 128, 256), (100.0, 1126.0, 1674.0, 2807.0, 4488.0, 6267.0)
    return _cells((NONE, *policies), *zip(*plain, *speeds, strict=True))


_PRO: Final = partial(
    Published,
    target="deepseek-ai/DeepSeek-V4-Pro-0813",
    per_round=3.4,
    gpu="B300",
    ep=8,
    graphs=1024.0,
    source="vLLM blog, 14 August 2026, read off the points of its figure 3",
)
_FLASH: Final = partial(Published, target="deepseek-ai/DeepSeek-V4-Flash-DSpark")
ROWS: Final = (
    _FLASH(
        per_round=3.2,  # the blog: over 70 % survive at the first position, less than 10 % at the seventh
        gpu="MI355X",
        source="vllm-project/vllm#52362",
        cells=_cells(
            POLICIES,
            (4, 381.5, 970.3, 902.4),
            (8, 729.2, 1762.6, 1616.8),
            (16, 1342.8, 2909.5, 2773.7),
            (32, 2393.0, 4756.3, 4501.1),
            (64, 4094.8, 6712.4, 7144.1),
            (128, 6340.8, 8778.9, 10356.5),
            (256, 8878.6, 7852.4, 13324.7),
        ),
    ),
    _PRO(
        cells=_beside_pro(
            (FIXED, ADAPTIVE),
            (264.0, 1968.0, 3104.0, 4759.0, 3856.0, 2963.0),
            (264.0, 2063.0, 3403.0, 5247.0, 7668.0, 8855.0),
        ),
    ),
    _PRO(k=5, cells=_beside_pro((FIXED,), (258.0, 1895.0, 3036.0, 4727.0, 5887.0, 4656.0))),
    _PRO(k=6, cells=_beside_pro((FIXED,), (270.0, 1919.0, 3040.0, 4670.0, 4943.0, 4632.0))),
    Published(
        target="nvidia/GLM-5.2-NVFP4",
        drafter="Inferact/GLM-5.2-DSpark",
        k=16,
        per_round=4.35,
        gpu="GB200",
        gpus=4,
        graphs=1024.0,
        prompt=1024,
        answer=2048,
        source="vllm-project/vllm#52992, SPEED-Bench of 1k prompts",
        cells=_cells((FIXED, ADAPTIVE), (64, 1588.8, 4508.9)),
    ),
    _FLASH(
        k=5,
        gpu="B200",
        ep=8,
        engine="sglang",
        source="sgl-project/sglang#29538, ShareGPT; loads of the middle three as its other tables have them",
        cells=_cells((NONE, FIXED), (1, 1.0, 1.84), (4, 1.0, 1.29), (8, 1.0, 1.29), (16, 1.0, 1.28), (32, 1.0, 1.35)),
    ),
    _FLASH(
        k=5,
        gpu="H20",
        ep=8,
        engine="sglang",
        prompt=1024,
        answer=1024,
        source="GPUStack, 1 July 2026, 1k prompts and answers",
        cells=_cells((NONE, FIXED), (1, 96.0, 195.0)),
    ),
    _FLASH(
        k=5,
        gpu="H20",
        ep=8,
        engine="sglang",
        prompt=65536,
        answer=3072,
        source="GPUStack, 1 July 2026, 64k prompts; the first token comes after half the time with the other image",
        cells=_cells((NONE, FIXED), (10, 198.0, 338.0)),
    ),
    _FLASH(
        k=5,
        gpu="B300",
        gpus=1,
        graphs=512.0,
        prompt=1,  # a batch: all prompts are read before the answers go on
        answer=310,
        source="vllm-project/vllm#49369: speculation about halves the throughput of 200 short questions at once",
        cells=_cells((NONE, FIXED), (200, 1.0, 0.5)),
    ),
)


def main() -> None:
    """Print the table, and what is off."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policies", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="public tables of heads by load")
    folder = parser.parse_args().folder
    rows, right = [], []
    errors: dict[str, list[float]] = {}
    for published in ROWS:
        for n, predicted in _predicted(published):
            measured = published.cells[n]
            right += _order(predicted, measured)
            ours, theirs = _gains(predicted, measured), _gains(measured, measured)
            name = f"{published.target.rpartition('/')[2]}, k = {published.k}"
            gpu = f"{published.gpus} {published.gpu}, {published.engine}"
            shown = ["" if one not in ours else f"{ours[one]:.2f} ({theirs[one]:.2f})" for one in (FIXED, ADAPTIVE)]
            rows.append([name, gpu, str(n), *shown])
            for policy, gain in () if published.per_round is None else ours.items():
                names = [policy] if published.gpu == "B300" else [policy, f"{policy}, without 8 B300"]
                for kind in names:
                    errors.setdefault(kind, []).append(gain / theirs[policy] - 1.0)
                if policy == ADAPTIVE:
                    other = gain * _choosing(published.gpu) / theirs[policy] - 1.0
                    errors.setdefault(f"{policy}, choosing as the other maker's", []).append(other)
    print(table(["target", "GPUs, engine", "at once", "all k verified", "adaptive"], rows))
    print("gains over none, over all k verified where none was not measured; published in brackets")
    for kind, found in errors.items():
        print(f"{kind}: {_error(found)}")
    print(f"order of two policies right: {sum(right)} of {len(right)} pairs that differ by more than {CLOSE:.0%}")
    for what, cells in () if folder is None else _heads(folder):
        order = [one for ours, theirs in cells for one in _order({NONE: 1.0, FIXED: ours}, {NONE: 1.0, FIXED: theirs})]
        print(f"{what}: {_error([ours / theirs - 1.0 for ours, theirs in cells])}; order {sum(order)} of {len(order)}")


def _error(found: Sequence[float]) -> str:
    return f"mean error {fmean(map(abs, found)):.1%}, bias {fmean(found):+.1%}, n = {len(found)}"


def _predicted(published: Published) -> Iterator[tuple[int, Speeds]]:
    """Speeds of the policies by answers at once."""
    target = shape_of(published.target)
    block = find_block(target, named=published.drafter).facts
    assert block is not None
    told = max(published.k, _TOLD)
    given = [] if published.per_round is None else [f"dspark={published.per_round}/round@{told}"]
    engine = engine_named(published.engine)
    deployment = Deployment(
        target=ServedModel.published(target),
        block=ServedModel.published(block),
        gpu=gpu_named(published.gpu),
        gpus=published.gpus,
        engine=replace(engine, graphed_rows=published.graphs or engine.graphed_rows),
        context=published.prompt + published.answer,
        answer_tokens=published.answer,
        acceptance=known_acceptances(given),
        k=published.k,
    )
    simulator = FromNames(deployment)
    place = _Placed(tp=published.gpus, replicas=1, ep=published.ep)
    fixed, every = (
        Configuration(method="block-drafter", k2=published.k + 1, knobs={"least": least}) for least in (0.0, 1e-6)
    )
    for n in sorted(published.cells):
        adaptive = simulator.depths.adaptive("block-drafter", place.split, n) or every
        policies = {NONE: PLAIN, FIXED: fixed, ADAPTIVE: adaptive}
        yield n, {name: simulator.speed(Option(policies[name], place), n) for name in published.cells[n]}


def _gains(speeds: Speeds, measured: Speeds) -> dict[str, float]:
    """The policies' gains over plain decoding, or over all verified where that was not measured."""
    base = NONE if NONE in measured else FIXED
    return {name: speed / speeds[base] for name, speed in speeds.items() if name != base}


def _order(ours: Speeds, theirs: Speeds) -> Iterator[bool]:
    """For each two policies that differ as measured, whether the prediction has them in the same order."""
    names = list(theirs)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            if abs(theirs[one] / theirs[other] - 1.0) > CLOSE:
                yield (ours[one] - ours[other]) * (theirs[one] - theirs[other]) > 0.0


def _choosing(gpu: str) -> float:
    """What a round that chooses takes on GPUs of this maker, over what it takes on those of the other."""
    maker = gpu_named(gpu).name.partition(" ")[0]
    (other,) = set(CHOOSING) - {maker}
    return CHOOSING[maker] / CHOOSING[other]


def _heads(folder: Path) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Gains of heads over plain decoding, predicted with constants of others and measured."""
    rows = read_folder(folder, tuple(TABLES)).rows
    batches, errors, _ = gains_left_out([row for row in rows if isinstance(row, Speculated)])
    yield (
        "heads in batches of 1 and 8, targets left out",
        [(float(np.exp(log)) * row.speedup, row.speedup) for row, log in zip(batches, errors, strict=True)],
    )
    servers = [row for row in rows if isinstance(row, Driven)]
    plain = plain_rows(servers)
    gains = [row.throughput_tok_s / plain[row.where].throughput_tok_s for row in servers if row.where in plain]
    logs, _ = by_load(times(rows), servers)[1]
    yield (
        "heads by load, family, workload and cache left out",
        [(float(np.exp(log)) * gain, gain) for gain, log in zip(gains, logs, strict=True)],
    )


if __name__ == "__main__":
    main()
