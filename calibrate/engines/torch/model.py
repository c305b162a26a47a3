"""Load a causal language model from a local folder, or create one of a named shape with random weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.weight_files import weight_header
from calibrate.record.files import read_text
from calibrate.record.json_text import parse_json
from theory.errors import CalibrationError, SchemaError

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

__all__ = [
    "ARCHITECTURES",
    "SHAPES",
    "check_model_folder",
    "load_model",
    "load_tokenizer",
    "memory_of",
    "tokenizer_fingerprint",
]

ARCHITECTURES: Final = ("qwen3", "qwen2", "llama")
"""Values of ``model_type`` that the decoder supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a Qwen3 model."""

    hidden: int
    intermediate: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int = 128
    vocab_size: int = 151936
    tied: bool = True
    """Whether the output matrix is the embedding."""


SHAPES: Final[Mapping[str, Shape]] = {
    "qwen3-0.6b": Shape(hidden=1024, intermediate=3072, n_layers=28, n_heads=16, n_kv_heads=8),
    "qwen3-1.7b": Shape(hidden=2048, intermediate=6144, n_layers=28, n_heads=16, n_kv_heads=8),
    "qwen3-4b": Shape(hidden=2560, intermediate=9728, n_layers=36, n_heads=32, n_kv_heads=8),
    "qwen3-8b": Shape(hidden=4096, intermediate=12288, n_layers=36, n_heads=32, n_kv_heads=8, tied=False),
    "qwen3-14b": Shape(hidden=5120, intermediate=17408, n_layers=40, n_heads=40, n_kv_heads=8, tied=False),
    "qwen3-32b": Shape(hidden=5120, intermediate=25600, n_layers=64, n_heads=64, n_kv_heads=8, tied=False),
    "tiny-target": Shape(
        hidden=128, intermediate=384, n_layers=12, n_heads=2, n_kv_heads=1, head_dim=64, vocab_size=1024
    ),
    "tiny-draft": Shape(hidden=64, intermediate=192, n_layers=2, n_heads=1, n_kv_heads=1, head_dim=64, vocab_size=1024),
}
"""Shapes that latencies are measured on with random weights: sizes of the published Qwen3 models, and two tiny ones."""


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
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise CalibrationError(f"model folder {folder}: holds no .safetensors file (other formats are not read)")
    for path in weights:
        try:
            weight_header(path)
        except SchemaError as error:
            raise CalibrationError(f"a weight file is corrupt: {_one_line(error)}") from None
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
    headers = [weight_header(path) for path in folder.glob("*.safetensors")]
    n_weights = sum(prod(entry["shape"]) for header in headers for entry in header.values())
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    per_token = 2 * config["num_hidden_layers"] * config.get("num_key_value_heads", 1) * head_dim
    return n_weights * number_bytes, per_token * number_bytes


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


def random_model(
    shape: str, *, seed: int, max_context: int, dtype: torch.dtype, device: torch.device
) -> PreTrainedModel:
    """A Qwen3 model of a shape in `SHAPES` with random weights, made on its device."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    s = SHAPES[shape]
    config = Qwen3Config(
        vocab_size=s.vocab_size,
        hidden_size=s.hidden,
        intermediate_size=s.intermediate,
        num_hidden_layers=s.n_layers,
        num_attention_heads=s.n_heads,
        num_key_value_heads=s.n_kv_heads,
        head_dim=s.head_dim,
        tie_word_embeddings=s.tied,
        max_position_embeddings=max(max_context, 1024),
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )
    torch.manual_seed(seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            return Qwen3ForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


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
