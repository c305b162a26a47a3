"""The networks of the bundled pair: standard Qwen3, built, deepened and saved."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate.pair.wording import LAST_NUMBER
from workshop.training.tokenizer import EOS, PAD, save_tokenizer, vocabulary

if TYPE_CHECKING:
    import torch

__all__ = [
    "HEAD_SIZE",
    "MAX_POSITIONS",
    "Shape",
    "build_network",
    "deepen",
    "load_network",
    "replacing",
    "save_network",
]

HEAD_SIZE: Final = 32
"""Attention head size: the smallest that vLLM's CPU kernels serve. Keys and values are what a batch costs on a core."""
MAX_POSITIONS: Final = 2048
_INIT_STD: Final = 0.05
_ROPE_THETA: Final = 1e4
_LOOK_BACK: Final = (0.45, 0.2, 0.15, 0.1, 0.06, 0.04)
"""Share of a head's score by the fastest rotations, such that it peaks at one distance and nowhere else."""
_LOOK_BACK_GAIN: Final = 2.0
_PERIODS: Final = (2.0, 4.0, 5.0, 10.0, 20.0, 25.0, 50.0, 100.0, 200.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Size of a network."""

    layers: int
    hidden: int
    intermediate: int
    heads: int = 4
    waves: bool = True
    """Whether number tokens start as waves of several periods of their value, which makes sums easy to learn."""


def build_network(shape: Shape, seed: int) -> Any:
    """A fresh network with random weights, the same for the same seed."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    ids = vocabulary()
    config = Qwen3Config(
        vocab_size=len(ids),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=1,
        head_dim=HEAD_SIZE,
        tie_word_embeddings=True,
        max_position_embeddings=MAX_POSITIONS,
        rope_theta=_ROPE_THETA,
        initializer_range=_INIT_STD,
        eos_token_id=ids[EOS],
        pad_token_id=ids[PAD],
        bos_token_id=None,
    )
    torch.manual_seed(seed)
    network = Qwen3ForCausalLM(config)
    with torch.no_grad():
        if shape.waves:
            first = ids[" 0"]
            rows = network.model.embed_tokens.weight[first : first + LAST_NUMBER + 1]
            rows.mul_(0.5).add_(_number_waves(shape.hidden))
        _look_back(network.model, shape)
    return network


def _look_back(model: Any, shape: Shape) -> None:
    """Let head h of the first layer attend to the token h + 1 places before, as from then on it may learn to.

    What a token means lies with its neighbours (which month's number it is); without this, finding that out takes as
    long as all that builds on it.
    """
    import torch

    half = HEAD_SIZE // 2
    angle = torch.arange(1, shape.heads + 1)[:, None] * _ROPE_THETA ** (-torch.arange(half) / half)
    size = torch.zeros(half)
    size[: len(_LOOK_BACK)] = torch.tensor(_LOOK_BACK).sqrt()
    common = torch.nn.functional.normalize(torch.randn(shape.hidden), dim=0)  # all tokens have it, so all keys are one
    model.embed_tokens.weight.add_(common * (0.5 * _INIT_STD * math.sqrt(shape.hidden)))
    first = model.layers[0].self_attn
    queries = torch.cat([size * angle.cos(), -size * angle.sin()], 1).flatten()
    keys = torch.cat([size, torch.zeros(half)])
    for projection, wanted in ((first.q_proj, queries), (first.k_proj, keys)):
        projection.weight.mul_(0.02).add_(torch.outer(wanted, common))
    for norm in (first.q_norm, first.k_norm):
        norm.weight.fill_(_LOOK_BACK_GAIN)


def _number_waves(hidden: int) -> torch.Tensor:
    """One row per number: cosine and sine of its value at several periods, in random orthogonal directions."""
    import torch

    angle = 2 * math.pi * torch.arange(LAST_NUMBER + 1)[:, None] / torch.tensor(_PERIODS)
    waves = torch.cat([angle.cos(), angle.sin()], 1)
    directions = torch.linalg.qr(torch.randn(hidden, waves.shape[1]))[0].T
    rows: torch.Tensor = waves @ directions
    return rows * (_INIT_STD * math.sqrt(hidden) / rows.norm(dim=1, keepdim=True))


def deepen(network: Any, shape: Shape, layers: int, seed: int) -> Any:
    """The same function with more layers: new ones start as the identity, after the old ones.

    The early part of the training, which finds the algorithm, runs on few layers and is that much cheaper. Layers after
    it read what it found: whether a number is the one that was expected can be told only once both are there.
    """
    import torch

    grown = build_network(replace(shape, layers=layers), seed)
    old = list(network.model.layers)
    with torch.no_grad():
        grown.model.embed_tokens.load_state_dict(network.model.embed_tokens.state_dict())
        grown.model.norm.load_state_dict(network.model.norm.state_dict())
        for i, layer in enumerate(grown.model.layers):
            if i < len(old):
                layer.load_state_dict(old[i].state_dict())
            else:  # both branches add nothing to the residual stream, and both get gradients
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
    return grown


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder`, in one rename, when all is written into it."""
    part, old = (folder.with_name(f"{folder.name}.{suffix}") for suffix in ("part", "old"))
    for leftover in (part, old):
        shutil.rmtree(leftover, ignore_errors=True)
    part.mkdir(parents=True)
    yield part
    for file in part.iterdir():
        file.chmod(0o644)
    if folder.exists():
        os.replace(folder, old)
    os.replace(part, folder)
    shutil.rmtree(old, ignore_errors=True)


def load_network(folder: Path) -> Any:
    """The network that was saved into `folder`, to train on."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(str(folder), dtype="float32", local_files_only=True).train()


def save_network(network: Any, folder: Path) -> None:
    """Write weights, configuration and tokenizer into `folder`, replacing what is there."""
    with replacing(folder) as part:
        network.save_pretrained(part)
        save_tokenizer(part)
