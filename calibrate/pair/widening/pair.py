"""The wide pair: target, draft, judge and EAGLE head in one folder, with a card that says what they are."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate import pair
from calibrate.pair.widening.models import Part, Weights, head_weights, model_parts, wide_config
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
_RESERVE: Final = 256 * 2**20
"""Bytes that are to remain free on the disk."""
_CARD: Final = """# The bundled pair, widened

specplan made these models from its bundled pair: they write the same texts and cost what their shapes cost.

| model | shape | layers | hidden | intermediate | heads | of | vocabulary | weights |
|---|---|---|---|---|---|---|---|---|
{rows}

The weights are in {dtype}, random ones of the seed {seed}. Each bundled model fills the first rows and columns; the
rest is random, except for what a layer adds to the residual stream, which is zero there. Ids from {vocab} on pad the
vocabulary: their logits are below -150, so that they are never drawn.

## Use

```
specplan calibrate torch --target FOLDER/target --draft FOLDER/draft --judge FOLDER/judge --eagle FOLDER/eagle \\
    --device cuda:0 --dtype {dtype} -o wide.json
vllm serve FOLDER/target --dtype {dtype}
python -m sglang.launch_server --model-path FOLDER/target --dtype {dtype}
```

Without `--prompts`, specplan asks the questions of the bundled task, as it recognises the tokenizer; of servers it asks
them with `specplan calibrate openai --prompts bundled`.

## What differs

- float32: nothing but rounding. Logits differ from the bundled model's by about 1e-4 at most.
- float16 and bfloat16: the bundled models round there too, and logits of both are equally far from those of float32,
  0.005 on average in float16 and 0.035 in bfloat16. They round differently, since products sum in another order, and
  norms have factors that are not powers of two. Where two tokens are almost equally likely, texts may part: of 122
  places, none did in float16 and 3 in bfloat16 (8B shape, on one GPU).
- Matrices that write to the residual stream are mostly zeros. A product takes as long with zeros, but a GPU draws less
  power on them, and may keep higher clocks than with trained weights.
- Acceptance is that of the bundled models, whatever the shapes.
- Texts are those of the bundled models up to 2,048 tokens. Engines go on to {context:,}, at the right cost.
- Epsilon of the norms of queries and keys is smaller than the bundled models', by less than the rounding of float32.
"""


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
        weights = Weights(self.placement, config["rms_norm_eps"], getattr(torch, dtype), seed)
        if self.role == _HEAD:
            parts = iter([("model", lambda: head_weights(small, weights))])
        else:
            parts = model_parts(small, weights)
        return wide_config(config, weights, of_head=self.role == _HEAD), parts


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
    with _new_folder(folder, force=force) as temporary:
        _check_room(folder, sum(model.n_bytes(dtype) for model in models))
        for model in models:
            own = temporary / model.role
            own.mkdir()
            _write_model(own, *model.parts(dtype, seed, context), written)
            for name in _COPIED:
                if (model.source / name).exists():
                    shutil.copy(model.source / name, own / name)
        rows = "\n".join(_row(model.placement) for model in models)
        vocab = models[0].placement.small.vocab
        said = _CARD.format(rows=rows, dtype=dtype, seed=seed, context=context, vocab=vocab)
        (temporary / "README.md").write_text(said, encoding="utf-8")


def _config_of(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config: dict[str, Any] = parse_json(read_text(path, "a model's configuration"), str(path))
    return config


def _row(place: Placement) -> str:
    wide = place.wide
    layers = f"{wide.layers} (bundled: {place.small.layers})"
    heads = f"{wide.heads}, {wide.kv_heads} for keys and values"
    weights = f"{wide.parameters / 1e9:.2f} billion"
    cells = (place.role, wide.name, layers, wide.hidden, wide.intermediate, heads, wide.head_dim, wide.vocab, weights)
    return f"| {' | '.join(map(str, cells))} |"


def _check_room(folder: Path, n_bytes: int) -> None:
    """Refuse a folder on a disk with too little room for ``n_bytes``."""
    free = shutil.disk_usage(folder.parent).free
    if n_bytes + _RESERVE > free:
        sizes = f"needs {n_bytes / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free there"
        remedy = "name a folder on another disk, or take a smaller shape, fewer layers or a dtype of 2 bytes"
        raise ParameterError("output", str(folder), f"{sizes}: {remedy}")


@contextmanager
def _new_folder(folder: Path, *, force: bool) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``folder`` at the end; after an error nothing of it is left."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ParameterError("output", str(folder), "must be the name of a folder, not of a link or a file")
    if folder.exists() and not force:
        raise ParameterError("output", str(folder), "exists; use --force to replace it, or another name")
    parent = folder.parent
    if not parent.is_dir():
        raise ParameterError("output", str(folder), f"cannot be written: there is no folder {str(parent)!r}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ParameterError("output", str(folder), f"cannot be written: the folder {str(parent)!r} is not writable")
    temporary = folder.with_name(f".specplan-{secrets.token_hex(6)}.part")
    try:
        temporary.mkdir()
    except OSError as error:
        raise ParameterError("output", str(folder), f"cannot be written: {error.strerror}") from None
    try:
        yield temporary
        old = temporary.with_suffix(".old")
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_model(folder: Path, config: Mapping[str, Any], parts: Iterable[Part], written: Callable[[], None]) -> None:
    """Write a model in the format of Hugging Face, a file of weights for each part, and an index if there are several.

    Parameters
    ----------
    config : content of ``config.json``.
    parts : files and the functions that make their tensors; ``written`` is called after each.
    """
    from safetensors.torch import save_file

    files: dict[str, str] = {}
    n_bytes = 0
    for name, make in parts:
        tensors = make()
        file = f"{name}.safetensors"
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / file, {"format": "pt"})
        files.update(dict.fromkeys(tensors, file))
        n_bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        written()
    described = {"config.json": config}
    if len(set(files.values())) > 1:
        described["model.safetensors.index.json"] = {"metadata": {"total_size": n_bytes}, "weight_map": files}
    for file, content in described.items():
        (folder / file).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
