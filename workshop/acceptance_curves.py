"""Published acceptance lengths as curves: a draft on a target and a data set, by drafted tokens.

Chains and some block drafters are read from ``specbundle.csv`` and ``acceptance_lengths.csv``; others are `HEADS` and
`BLOCKS`, facts of public projects. A length of a block drafter is that of a block of so many tokens.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from specplan.worlds.prior_constants import DOMAIN_OF
from theory.block_drafting import DFLASH, DSPARK, BlockLaw, block_tokens

__all__ = ["BLOCKS", "HEADS", "LAWS", "Curve", "curves_in"]

LAWS: Final[dict[str, tuple[int, BlockLaw]]] = {"dflash": (15, DFLASH), "dspark": (7, DSPARK)}
"""Of block drafters: drafted tokens of the block that level and slope describe, and what other lengths do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Acceptance lengths of one draft on one target and data set, by drafted tokens."""

    target: str
    draft: str
    method: str
    domain: str
    lengths: dict[int, float]

    @property
    def family(self) -> str:
        """The family of the target: the word that its name begins with, such as qwen or llama."""
        return re.split("[^a-z]", self.target.lower())[0]

    @property
    def level_slope(self) -> tuple[float, float]:
        """Level and slope that reproduce a chain's lengths best (largest error on the given rows: 1 %, MTP 6 %)."""
        return self.level_slope_of(0, BlockLaw(0.0, 0.0))

    def level_slope_of(self, block: int, law: BlockLaw) -> tuple[float, float]:
        """Level and slope of blocks of so many tokens that reproduce the lengths best; 0: of a chain."""
        drafted = np.array(sorted(self.lengths))
        measured = np.array([self.lengths[k] for k in drafted])
        positions = np.log(np.arange(1, drafted.max() + 1))

        def misses(at: NDArray[np.float64]) -> NDArray[np.float64]:
            rates = 1.0 / (1.0 + np.exp(-(at[0] + at[1] * positions)))
            tokens = [float(block_tokens(rates, block or int(k), int(k), law.slope)) for k in drafted]
            return np.append(np.log(tokens / measured), 0.02 * (at[1] + 0.3))  # a slope for single points

        level, slope = least_squares(misses, [1.0, 0.0]).x
        return float(level), float(slope)


HEADS: Final = tuple(
    Curve(
        target=f"Qwen3-{size}", draft=f"AngelSlim/Qwen3-{size}_eagle3", method="eagle3", domain=DOMAIN_OF[data],
        lengths={2: length},
    )
    for size, lengths in (
        ("1.7B", (2.13, 2.20, 2.17)),
        ("4B", (2.07, 2.08, 2.07)),
        ("8B", (2.00, 1.97, 1.97)),
        ("14B", (1.87, 1.76, 1.74)),
        ("32B", (2.01, 1.86, 1.86)),
        ("30B-A3B", (2.10, 2.02, 2.01)),
    )
    for data, length in zip(("gsm8k", "humaneval", "mtbench"), lengths, strict=True)
)  # fmt: skip
"""EAGLE-3 heads of one maker, from Tencent/AngelSlim, docs/source/performance/speculative_decoding/benchmarks.md."""


def _blocks(target: str, draft: str, method: str, **lengths: dict[int, float]) -> list[Curve]:
    """Curves of a block drafter by data set."""
    return [
        Curve(target=target, draft=draft, method=method, domain=DOMAIN_OF[data], lengths=known)
        for data, known in lengths.items()
    ]


BLOCKS: Final = (
    # NVIDIA/Model-Optimizer, speculative_decoding/doc/dflash_results.md, "official eval"
    *_blocks("Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16", "dflash", gsm8k={15: 5.00}, mtbench={15: 3.28}),
    *_blocks("Qwen3-8B", "ModelOpt, block 8", "dflash", gsm8k={7: 4.08}, mtbench={7: 2.99}),
    *_blocks("Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16, SGLang", "dflash", gsm8k={15: 6.07}),  # vllm-ascend#7162
    *_blocks("Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16, vLLM", "dflash", mtbench={8: 2.93}),  # vllm#32206
    # ggml-org/llama.cpp#27342: coding, math and stem, temperature 1
    *_blocks("Muse-Glimmer-30B", "DFlash", "dflash", coding={15: 3.99}, math500={15: 3.47}, gpqa={15: 3.32}),
    # the run that theory.block_drafting was not fitted to: all of 3 positions
    *_blocks("Qwen3.5-122B-A10B", "z-lab/Qwen3.5-122B-A10B-DFlash", "dflash", gsm8k={3: 3.26}),
    # vllm-project/speculators#1135: HumanEval, math reasoning, writing
    *_blocks(
        "Llama-3.2-1B-Instruct",
        "DSpark, block 8",
        "dspark",
        humaneval={8: 4.573},
        math500={8: 4.436},
        mtbench={8: 2.636},
    ),
)
"""Acceptance lengths of block drafters that the files do not hold."""


def curves_in(folder: Path) -> list[Curve]:
    """Read the chains of both files, and add `HEADS` and `BLOCKS`."""
    found: dict[tuple[str, str, str, str], dict[int, float]] = {}
    for row in _rows(folder / "specbundle.csv"):
        if row["topk"] == "1":
            draft = row["draft"].replace("Spec for ge", "Specforge")  # a slip of the source, in one row
            key = (row["target"], draft, "eagle3", row["dataset"])
            found.setdefault(key, {})[int(row["steps"])] = float(row["accept_length"])
    for row in _rows(folder / "acceptance_lengths.csv"):
        method = next(one for one in ("mtp", "eagle3", "dspark") if one in row["file"])
        key = (row["model"], f"{row['file']} {row['mode']}", method, row["dataset"])
        found.setdefault(key, {})[int(row["num_speculative_tokens"])] = float(row["acceptance_length"])
    read = [
        Curve(target=target, draft=draft, method=method, domain=DOMAIN_OF[data], lengths=lengths)
        for (target, draft, method, data), lengths in found.items()
    ]
    return [*read, *HEADS, *BLOCKS]


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))
