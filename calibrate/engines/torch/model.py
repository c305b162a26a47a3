"""Load a causal language model from a local folder."""

from __future__ import annotations

import hashlib
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate.record.files import read_text
from calibrate.record.json_text import parse_json
from theory.errors import CalibrationError, SchemaError

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

__all__ = ["ARCHITECTURES", "check_model_folder", "load_model", "load_tokenizer", "memory_of", "tokenizer_fingerprint"]

ARCHITECTURES: Final = ("qwen3", "qwen2", "llama")
"""Values of ``model_type`` that the decoder supports."""


def check_model_folder(folder: Path) -> dict[str, Any]:
    """Return the parsed ``config.json`` of a model folder that appears complete, without importing torch.

    Raises
    ------
    CalibrationError : no such folder, no readable ``config.json``, an architecture that the decoder does not support,
        no safetensors file, or one whose size does not match its header.
    """
    if not folder.is_dir():
        raise CalibrationError(f"model folder {folder}: no such folder")
    try:
        config = parse_json(read_text(folder / "config.json", "a model's config.json"), "config.json")
    except SchemaError as error:
        raise CalibrationError(f"model folder {folder}: config.json cannot be read ({_one_line(error)})") from None
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind not in ARCHITECTURES:
        raise CalibrationError(f"model folder {folder}: model_type={kind!r} must be one of {', '.join(ARCHITECTURES)}")
    weights = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    if not weights:
        raise CalibrationError(f"model folder {folder}: holds no .safetensors file (other formats are not read)")
    for path in weights:
        _tensor_shapes(path)
    return dict(config)


def memory_of(folder: Path, number_bytes: int) -> tuple[int, int]:
    """Return the bytes of a model's weights, and of the keys and values of a token, from its files' headers.

    Parameters
    ----------
    folder : a model folder, or one of an EAGLE head.
    number_bytes : of a number in the data type that it is loaded in.

    Raises
    ------
    CalibrationError : as `check_model_folder`.
    """
    config = check_model_folder(folder)
    n_weights = sum(prod(shape) for path in folder.glob("*.safetensors") for shape in _tensor_shapes(path))
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    per_token = 2 * config["num_hidden_layers"] * config.get("num_key_value_heads", 1) * head_dim
    return n_weights * number_bytes, per_token * number_bytes


def _tensor_shapes(path: Path) -> list[list[int]]:
    """The shapes of the tensors in a safetensors file, by its header; the file's size must be what the header says."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 (it is no mapping)
    except (OSError, SafetensorError) as error:
        raise CalibrationError(f"a weight file is corrupt: {path}: {_one_line(error)}") from None


def load_model(folder: Path, *, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """Load a model; every weight must be in the file.

    Raises
    ------
    CalibrationError : the folder is not a complete model of a supported architecture, or does not load.
    """
    check_model_folder(folder)
    from transformers import AutoModelForCausalLM

    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise CalibrationError(f"model folder {folder} does not load: {_one_line(error)}") from None
    for what in ("missing_keys", "mismatched_keys"):  # transformers would fill them with random numbers and a warning
        if info.get(what):
            first = sorted(map(str, info[what]))[0]
            raise CalibrationError(f"model folder {folder}: {what.replace('_', ' ')}, {len(info[what])}, first {first}")
    return model.to(device).eval()


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in ``tokenizer.json``.

    Raises
    ------
    CalibrationError : no such file, or it does not load.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CalibrationError(f"model folder {folder}: holds no tokenizer.json")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for a malformed file
        raise CalibrationError(f"tokenizer {path} does not load: {_one_line(error)}") from None


def tokenizer_fingerprint(folder: Path) -> str:
    """Hash of ``tokenizer.json``: models with the same hash have the same token ids."""
    return hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()[:16]


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:300]
