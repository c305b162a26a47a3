"""The wide pair: target, draft, judge and EAGLE head in one folder, with a card that says what they are."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate import pair
from calibrate.pair.widening.card import card
from calibrate.pair.widening.folder import check_room, new_folder, write_model
from calibrate.pair.widening.models import Part, Weights, head_config, head_parts, model_config, model_parts
from calibrate.pair.widening.sizes import Placement, Sizes, sizes_of_config
from calibrate.record.files import read_text
from calibrate.record.json_text import parse_json
from theory.errors import ParameterError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BUNDLED_CONTEXT", "DTYPES", "WideModel", "wide_pair", "widen_pair"]

DTYPES: Final[Mapping[str, int]] = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Data types of wide models, with the bytes of a weight."""

BUNDLED_CONTEXT: Final = 2048
"""Positions of the bundled models."""

_COPIED: Final = ("generation_config.json", "tokenizer.json", "tokenizer_config.json")
_HEAD: Final = "eagle"


@dataclass(frozen=True, slots=True, kw_only=True)
class WideModel:
    """A model of the wide pair."""

    role: str
    """``target``, ``draft``, ``judge`` or ``eagle``."""
    placement: Placement

    @property
    def source(self) -> Path:
        """Folder of the bundled model."""
        return pair.model_path(self.role)

    def n_bytes(self, dtype: str) -> int:
        """Bytes of its weights, norms left out."""
        wide = self.placement.wide
        own = wide.parameters
        if self.role == _HEAD:  # it joins two states, and has the target's embedding and output matrix
            own += 2 * wide.hidden * wide.hidden - 2 * wide.hidden * wide.vocab
        return own * DTYPES[dtype]

    @property
    def n_files(self) -> int:
        """Files of weights."""
        return 1 if self.role == _HEAD else self.placement.wide.layers + 2

    def parts(self, dtype: str, seed: int, context: int) -> tuple[dict[str, Any], Iterator[Part]]:
        """Return its ``config.json``, by which contexts end at ``context`` tokens, and the parts of its weights."""
        import torch
        from safetensors.torch import load_file

        config = {**_config_of(self.source), "max_position_embeddings": context}
        small: dict[str, Tensor] = load_file(self.source / "model.safetensors")
        weights = Weights.seeded(self.placement, config["rms_norm_eps"], getattr(torch, dtype), seed)
        if self.role == _HEAD:
            return head_config(config, weights), head_parts(small, weights)
        return model_config(config, weights), model_parts(small, weights)


def wide_pair(sizes: Mapping[str, Sizes]) -> list[WideModel]:
    """Return the models of a wide pair.

    Parameters
    ----------
    sizes : of the roles ``target``, ``draft`` and ``judge``; the EAGLE head is a layer of the target's sizes.

    Raises
    ------
    ParameterError : a shape is too small for its model.
    """
    every = {**sizes, _HEAD: replace(sizes["target"], layers=1, tied=False)}
    small = {role: sizes_of_config(f"bundled {role}", _config_of(pair.model_path(role))) for role in every}
    return [WideModel(role=role, placement=Placement(small[role], wide, role)) for role, wide in every.items()]


def widen_pair(
    models: list[WideModel],
    folder: Path,
    *,
    dtype: str = "bfloat16",
    seed: int = 0,
    context: int = BUNDLED_CONTEXT,
    force: bool = False,
    written: Callable[[], None] = lambda: None,
) -> None:
    """Write a wide pair: a folder for each model, and a README.

    Parameters
    ----------
    models : those of `wide_pair`, or some of them.
    folder : is made, all at once; its parent exists.
    dtype : one of `DTYPES`.
    seed : of the random weights.
    context : tokens at which engines end a sequence; beyond `BUNDLED_CONTEXT` texts mean nothing, but cost the same.
    force : whether an existing folder is replaced.
    written : called after each file of weights.

    Raises
    ------
    ParameterError : the folder exists, cannot be written, or its disk is too small; no such data type.
    """
    if dtype not in DTYPES:
        raise ParameterError("dtype", dtype, f"must be one of {', '.join(DTYPES)}")
    with new_folder(folder, force=force) as temporary:
        check_room(folder, sum(model.n_bytes(dtype) for model in models))
        for model in models:
            own = temporary / model.role
            own.mkdir()
            write_model(own, *model.parts(dtype, seed, context), written)
            for name in _COPIED:
                if (model.source / name).exists():
                    shutil.copy(model.source / name, own / name)
        said = card([model.placement for model in models], dtype, seed, context)
        (temporary / "README.md").write_text(said, encoding="utf-8")


def _config_of(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config: dict[str, Any] = parse_json(read_text(path, "a model's configuration"), str(path))
    return config
