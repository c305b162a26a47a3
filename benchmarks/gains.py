"""Gains of speculation that others measured, beside plans from names: ``python -m benchmarks.gains [--servers WORD]``.

Each row is a server that somebody ran with and without speculation, with what its source says; nothing is fitted to them.
Where the source has the tokens per round, a plan is made with them and one without.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final, NamedTuple

from sim.configuration import PLAIN
from specplan.api.planning import plan_models
from specplan.output import table

__all__ = ["SERVERS", "Predicted", "Server", "predicted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server with one drafter."""

    target: str
    gpu: str
    method: str
    engine: str
    source: str
    k: int | None = None
    """Drafted tokens per round; None: not published, and the best is planned."""
    prompt: int = 300
    """Tokens; ShareGPT's by default."""
    answer: int = 512
    per_round: float | None = None
    """Tokens that a round commits; None: not published."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further ones of `specplan.api.planning.plan_models`."""
    cells: dict[int, float]
    """Answers at once to gain over plain decoding on the same GPUs."""


def _speeds(*rows: tuple[float, float, float]) -> dict[int, float]:
    """Gains from answers at once, the rate of plain decoding, and that with speculation."""
    return {int(n): speculating / plain for n, plain, speculating in rows}


_QWEN38: Final = "Qwen/Qwen3.8-27B"
_FLASH: Final = "zai-org/GLM-4.7-Flash"
_GB10: Final = "gauravmm/autobench, On Speculative Decoders"
_AWS: Final = "SageMaker Managed Inference Benchmark Matrix Report, 9 March 2026"
_SHORT: Final = {"answer_spread": 0.0}

SERVERS: Final = (
    Server(
        target=_QWEN38, gpu="A100", engine="sglang", method="mtp", k=3, per_round=2.96,
        options={"precision": "int4", "cache": "fp8", "max_num_seqs": 32, **_SHORT},
        source="llm-stack, installing on plain k3s, 6 October 2026",
        cells=_speeds((1, 73, 123), (4, 268, 392), (8, 503, 634), (16, 856, 874), (32, 981, 936)),
    ),
    Server(
        target=_QWEN38, gpu="H20", engine="sglang", method="mtp", k=3, per_round=2.94, prompt=8192, answer=256,
        options={"gpus": 2, "tp": 2, **_SHORT}, source="Serving Qwen3.8-27B for Crux (SGLang 0.5.18)",
        cells=_speeds((1, 96.7, 77.5), (8, 88.2, 59.4), (32, 68.7, 33.3), (64, 70.2, 28.7)),
    ),
    Server(
        target=_QWEN38, gpu="H100 NVL", engine="vllm:0.28", method="mtp", k=7, answer=4000,
        options={"task": "math", "max_num_seqs": 16}, source="david-xinyuwei/david-share, 20260906-qwen38",
        cells=_speeds((1, 53.40, 113.34), (4, 190.08, 382.85), (8, 287.72, 565.24)),
    ),
    Server(
        target=_QWEN38, gpu="H100 NVL", engine="vllm:0.28", method="dflash", k=7, answer=4000,
        options={"task": "math", "max_num_seqs": 16, "block": "dflash"},
        source="david-xinyuwei/david-share, 20260906-qwen38",
        cells=_speeds((1, 53.40, 150.51), (4, 190.08, 451.74), (8, 287.72, 741.07)),
    ),
    Server(
        target="nvidia/DeepSeek-V4-Flash-NVFP4", gpu="H200", engine="sglang", method="mtp", k=3, per_round=2.0,
        prompt=1024, options={"gpus": 2, "tp": 2, **_SHORT}, source="h200-idle-proxy",
        cells=_speeds((1, 122, 207), (16, 935, 1260), (64, 1979, 2456), (256, 2297, 2181)),
    ),
    *(
        Server(
            target="deepseek-ai/DeepSeek-V4-Flash-0731", gpu="H200", engine="sglang", method="dspark",
            per_round=length, k=5, prompt=128, options={"gpus": 2, "tp": 2, **_SHORT}, source="h200-idle-proxy",
            cells=cells,
        )
        for length, cells in (
            (4.72, _speeds((1, 122, 393))), (4.31, _speeds((16, 976, 1626))),
            (4.29, _speeds((64, 2207, 2883))), (4.35, _speeds((128, 3310, 4334))),
        )
    ),
    Server(
        target="Qwen/Qwen3.5-397B-A17B", gpu="RTX PRO 6000", engine="vllm", method="mtp", k=2, per_round=2.784,
        options={"gpus": 4, "tp": 4, "precision": "nvfp4"}, source="local-inference-lab/rtx6kpro, Qwen3.5-397B",
        cells=_speeds((1, 85.8, 130.0), (2, 137.1, 212.7), (5, 234.2, 358.6), (10, 334.3, 573.5), (20, 491.5, 744.1),
                      (32, 605.9, 922.6)),
    ),
    Server(
        target="zai-org/GLM-4.7", gpu="RTX PRO 6000", engine="vllm:0.15.1", method="mtp", k=1, per_round=1.763,
        prompt=512, answer=256, options={"gpus": 4, "tp": 4, "precision": "int4", **_SHORT},
        source="GLM-4.7 AWQ Benchmark, 22 February 2026; the tokens per round are of other prompts",
        cells=_speeds((1, 68, 57), (2, 110, 101), (4, 187, 170), (8, 280, 293), (16, 438, 448)),
    ),
    Server(
        target=_FLASH, gpu="H100 PCIe", engine="sglang", method="mtp", k=1, per_round=1.65, prompt=440, answer=256,
        options=_SHORT, source="IneshReddy249, MTP vs EAGLE3 on GLM-4.7-Flash",
        cells=_speeds((1, 100.8, 131.4), (4, 271.5, 315.2), (8, 408.7, 474.8), (16, 626.5, 723.1), (32, 979.6, 1255)),
    ),
    Server(
        target=_FLASH, gpu="H100 PCIe", engine="sglang", method="mtp", k=3, per_round=1.86, prompt=440, answer=256,
        options=_SHORT, source="the same, without the overlapping scheduler",
        cells=_speeds((1, 100.8, 109), (4, 271.5, 258.7), (8, 408.7, 402.9), (16, 626.5, 629.8), (32, 979.6, 941.1)),
    ),
    Server(
        target=_FLASH, gpu="H100 PCIe", engine="sglang", method="eagle3", k=3, per_round=2.01, prompt=440, answer=256,
        options={"eagle": "trained", **_SHORT}, source="IneshReddy249, MTP vs EAGLE3 on GLM-4.7-Flash",
        cells=_speeds((1, 100.8, 135.1), (4, 271.5, 308.9), (8, 408.7, 483.1), (16, 626.5, 740.3), (32, 979.6, 1090.3)),
    ),
    Server(
        target="deepseek-ai/DeepSeek-V3", gpu="MI300X", engine="sglang", method="mtp", k=2, prompt=3200, answer=800,
        options={"gpus": 8, "tp": 8}, source="rocm.blogs.amd.com, MTP, random prompts (SGLang 0.5.0rc0)",
        cells={1: 2.11, 2: 2.04, 4: 1.84, 8: 1.70, 16: 1.53, 32: 1.44},
    ),
    Server(
        target="deepseek-ai/DeepSeek-V3", gpu="MI300X", engine="sglang", method="mtp", k=2, answer=200,
        options={"gpus": 8, "tp": 8}, source="rocm.blogs.amd.com, MTP, ShareGPT",
        cells={4: 1.80, 8: 1.75, 16: 1.58, 32: 1.51, 64: 1.36},
    ),
    *(
        Server(
            target="Qwen/Qwen3-32B", gpu=gpu, engine="vllm", method="eagle3", prompt=prompt, source=f"{_AWS}, {use}",
            options={"gpus": gpus, "tp": gpus, **_SHORT}, cells=cells,
        )
        for gpu, gpus, use, prompt, cells in (
            ("RTX PRO 6000", 1, "chat", 500, {1: 36.4 / 20.6, 32: 717 / 538}),
            ("RTX PRO 6000", 1, "tools", 500, {1: 42.8 / 20.6, 32: 26.0 / 17.3}),
            ("RTX PRO 6000", 1, "long prompts", 4000, {1: 40.2 / 20.2, 32: 20.5 / 18.2}),
            ("L40S", 4, "chat", 500, {1: 60.4 / 37.3, 32: 558 / 666}),
            ("A10G", 4, "chat", 500, {1: 36.1 / 22.7, 32: 379 / 430}),
        )
    ),
    *(
        Server(
            target=target, gpu="GB10", engine=engine, method=method, k=k, per_round=length, source=_GB10,
            options=options, cells=cells,
        )
        for target, engine, method, k, length, options, cells in (
            ("Qwen/Qwen3.6-27B", "vllm", "mtp", 3, 3.0, {"precision": "fp8"}, {32: 1.56}),
            ("Qwen/Qwen3.6-27B", "vllm", "mtp", 3, 3.0, {"precision": "nvfp4"}, {32: 1.46}),
            ("Qwen/Qwen3.6-27B", "sglang", "mtp", 3, 3.0, {"precision": "nvfp4"}, {32: 1.105}),
            ("Qwen/Qwen3.6-35B-A3B", "vllm", "mtp", 3, 3.0, {"precision": "fp8"}, {32: 1.43}),
            ("Qwen/Qwen3.6-35B-A3B", "vllm", "mtp", 3, 3.0, {"precision": "nvfp4"}, {1: 94 / 75, 32: 1.26}),
            ("Qwen/Qwen3.6-35B-A3B", "vllm", "dflash", 11, 3.7, {"precision": "nvfp4"}, {1: 100 / 75, 32: 407 / 431}),
            ("Qwen/Qwen3.5-122B-A10B", "vllm", "dflash", 5, 3.2, {"precision": "int4"}, {8: 107.4 / 85.5}),
            ("google/gemma-4-31B-it", "vllm", "eagle3", 3, 2.2, {"precision": "nvfp4", "eagle": "trained"},
             {32: 264.7 / 167}),
            ("google/gemma-4-26B-A4B-it", "vllm", "eagle3", 3, 2.2, {"precision": "nvfp4", "eagle": "trained"},
             {32: 541 / 384.1}),
            ("google/gemma-4-12B-it", "vllm", "mtp", 3, None, {"precision": "nvfp4"}, {32: 782.4 / 503.8}),
            ("google/gemma-4-12B-it", "sglang", "mtp", 3, None, {"precision": "nvfp4"}, {32: 399.8 / 386.6}),
            ("openai/gpt-oss-20b", "vllm", "eagle3", 3, 2.32, {}, {32: 686.5 / 535.3}),
            ("openai/gpt-oss-120b", "vllm", "eagle3", 3, 1.87, {}, {32: 246.7 / 252.8}),
            ("openai/gpt-oss-120b", "vllm", "eagle3", 3, 1.15, {}, {32: 138.5 / 252.8}),
        )
    ),
    *(
        Server(
            target="Qwen/Qwen3-4B", gpu="RTX 4090", engine="vllm:0.25", method="dspark", k=7, per_round=length,
            prompt=60, answer=128, options=_SHORT, source=f"DSpark and DeepSpec, {text}", cells=cells,
        )
        for text, length, cells in (
            ("a fixed prompt", 3.10, {1: 2.17}), ("English", 3.64, {1: 2.46, 4: 2.57, 8: 2.44}),
            ("Chinese", 1.845, {1: 1.33}), ("code", 6.095, {1: 4.16}), ("math", 5.77, {1: 3.99}),
            ("summary", 3.47, {1: 2.37}),
        )
    ),
    Server(
        target="Qwen/Qwen2.5-7B-Instruct", gpu="A100", engine="vllm", method="ngram", k=5, answer=256,
        source="LLM Inference Benchmarks, week 8: in own words", cells={1: 1.13, 16: 0.85},
    ),
    Server(
        target="Qwen/Qwen2.5-7B-Instruct", gpu="A100", engine="vllm", method="ngram", k=5, answer=256,
        source="the same: a passage copied", cells={1: 2.78, 16: 2.38},
    ),
    Server(
        target="nvidia/DeepSeek-R1-FP4", gpu="B200", engine="trtllm", method="mtp", k=3, prompt=1024, answer=2048,
        options={"gpus": 8, "tp": 8}, source="TensorRT-LLM, blog 2", cells={1: 2.16},
    ),
    *(
        Server(
            target="Qwen/Qwen3.6-35B-A3B", gpu="Strix Halo", engine="vllm:0.26", method="mtp", k=k, prompt=274,
            answer=256, options={"precision": "int4", **_SHORT}, cells={1: gain / 24.6},
            source="kyuz0/amd-strix-halo-vllm-toolboxes#53",
        )
        for k, gain in ((1, 28.2), (2, 30.9), (3, 29.9), (4, 31.2), (5, 27.5), (6, 26.8))
    ),
)


class Predicted(NamedTuple):
    """A cell: a gain with its interval, and the measured one."""

    server: Server
    at_once: int
    given: bool
    """Whether the tokens per round were."""
    gain: float
    low: float
    high: float
    measured: float

    @property
    def inside(self) -> bool:
        """Whether the measured gain is in the interval."""
        return self.low <= self.measured <= self.high

    @property
    def promised(self) -> bool:
        """Whether a gain was promised where a loss was measured."""
        return self.low > 1.0 > 1.01 * self.measured


def predicted(server: Server, *, given: bool) -> Iterator[Predicted]:
    """Plan a server at the answers at once of its cells, with its tokens per round or by the prior."""
    acceptance = [f"{server.method}={server.per_round}/round@{server.k}"] if given else ()
    for n, measured in server.cells.items():  # each by itself: what is far behind at one load is left out at later ones
        result = plan_models(
            server.target,
            gpu=server.gpu,
            methods=[server.method],
            engine=server.engine,
            concurrency=n,
            context=server.prompt + server.answer,
            answer_tokens=server.answer,
            acceptance=acceptance,
            no_curve=True,
            **({} if server.k is None else {"k": str(server.k)}),
            **server.options,
        )
        ((_, rows),) = result.plan.loads
        row = next((row for row in rows if row.option.configuration != PLAIN), None)
        if row is None:
            print("nothing planned:", server.target, n)
        else:
            yield Predicted(server, n, given, row.gain.value, row.gain.low, row.gain.high, measured)


def main() -> None:
    """Print the cells, and what they say of widths."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gains", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--servers", default="", metavar="WORD", help="only those with it in target, GPU or source")
    word = parser.parse_args().servers.lower()
    found: list[Predicted] = []
    for server in SERVERS:
        if word in f"{server.target} {server.gpu} {server.engine} {server.source}".lower():
            for given in (True, False) if server.per_round is not None else (False,):
                found += predicted(server, given=given)
    print(table(["server", "at once", "given", "predicted", "measured", "ratio", ""], list(map(_row, found))))
    for name, cells in _groups(found).items():
        print(_summary(name, cells))


def _row(cell: Predicted) -> list[str]:
    server, ratio = cell.server, cell.gain / cell.measured
    name = f"{server.target.rpartition('/')[2]}, {server.gpu}, {server.engine}, {server.method} k={server.k}"
    said = "" if cell.inside else "promised" if cell.promised else "outside"
    given = f"{server.per_round}" if cell.given else "prior"
    gain = f"{cell.gain:.2f} [{cell.low:.2f}, {cell.high:.2f}]"
    return [name, str(cell.at_once), given, gain, f"{cell.measured:.2f}", f"{ratio:.2f}", said]


def _groups(found: Sequence[Predicted]) -> dict[str, list[Predicted]]:
    groups: dict[str, list[Predicted]] = defaultdict(list)
    for cell in found:
        for name in ("given" if cell.given else "prior", f"{'given' if cell.given else 'prior'}, {cell.server.method}"):
            groups[name].append(cell)
    return groups


def _summary(name: str, cells: Sequence[Predicted]) -> str:
    logs = [math.log(cell.gain / cell.measured) for cell in cells]
    inside = sum(cell.inside for cell in cells)
    right = sum((cell.gain > 1.0) == (cell.measured > 1.0) for cell in cells)
    promised = sum(cell.promised for cell in cells)
    return (
        f"{name}: {len(cells)} cells, size of the logarithm {fmean(map(abs, logs)):.3f}, bias {fmean(logs):+.3f}, "
        f"inside {inside}, sign right {right}, gains promised and lost {promised}"
    )


if __name__ == "__main__":
    main()
