"""Model folders written part by part, and all of them or none."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from calibrate.pair.widening.models import Part
from theory.errors import ParameterError

__all__ = ["check_room", "new_folder", "write_model"]

_RESERVE: Final = 256 * 2**20
"""Bytes that are to remain free on the disk."""


def check_room(folder: Path, n_bytes: int) -> None:
    """Refuse a folder on a disk with too little room for ``n_bytes``.

    Raises
    ------
    ParameterError : with the sizes that are needed and free.
    """
    free = shutil.disk_usage(folder.parent).free
    if n_bytes + _RESERVE > free:
        sizes = f"needs {n_bytes / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free there"
        remedy = "name a folder on another disk, or take a smaller shape, fewer layers or a dtype of 2 bytes"
        raise ParameterError("output", str(folder), f"{sizes}: {remedy}")


@contextmanager
def new_folder(folder: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``folder`` at the end; after an error nothing of it is left.

    Parameters
    ----------
    folder : the name of a folder that does not exist; its parent does.
    force : whether an existing folder of this name is replaced.

    Raises
    ------
    ParameterError : it exists and ``force`` is not set, it is no folder, or its parent is missing or not writable.
    """
    _check_place(folder, force=force)
    temporary = folder.with_name(f".specplan-{secrets.token_hex(6)}.part")
    try:
        temporary.mkdir()
    except OSError as error:
        raise ParameterError("output", str(folder), f"cannot be written: {error.strerror}") from None
    try:
        yield temporary
        if folder.exists():
            old = temporary.with_suffix(".old")
            folder.rename(old)
            temporary.rename(folder)
            shutil.rmtree(old)
        else:
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_place(folder: Path, *, force: bool) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ParameterError("output", str(folder), "must be the name of a folder, not of a link or a file")
    if folder.exists() and not force:
        raise ParameterError("output", str(folder), "exists; use --force to replace it, or another name")
    parent = folder.parent
    if not parent.is_dir():
        raise ParameterError("output", str(folder), f"cannot be written: there is no folder {str(parent)!r}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ParameterError("output", str(folder), f"cannot be written: the folder {str(parent)!r} is not writable")


def write_model(
    folder: Path, config: Mapping[str, Any], parts: Iterable[Part], written: Callable[[], None] = lambda: None
) -> None:
    """Write a model in the format of Hugging Face, a file of weights for each part, and an index if there are several.

    Parameters
    ----------
    folder : existing and empty.
    config : content of ``config.json``.
    parts : files and the functions that make their tensors.
    written : called after each file.
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
    if len(set(files.values())) > 1:
        index = {"metadata": {"total_size": n_bytes}, "weight_map": files}
        _write_json(folder / "model.safetensors.index.json", index)
    _write_json(folder / "config.json", config)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
