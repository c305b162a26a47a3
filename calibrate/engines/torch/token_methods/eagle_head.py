"""An EAGLE head: a single layer that drafts from the target's last hidden states, at a fraction of the target's depth.

A head predicts the target's next hidden state from the last one and the token that was generated after it, and the
target's output matrix gives the next token (Li et al. 2024, EAGLE, arXiv:2401.15077, section 3.1). It has no embedding
and no output matrix of its own, no norm at its end, and none before its first layer. Folders have the format of the
EAGLE repository, which vLLM loads too: a Llama ``config.json`` and weights named ``fc.weight`` and ``layers.0...``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrate.engines.torch.decoder import Decoder
from calibrate.engines.torch.model import check_model_folder
from theory.errors import CalibrationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

__all__ = ["HeadDecoder", "build_head", "check_head_folder", "load_head", "read_head", "save_head"]

_THEIRS = ("embed_tokens.weight", "lm_head.weight")
"""Weights of the target that some folders contain too."""


def check_head_folder(folder: Path) -> dict[str, Any]:
    """Return the parsed ``config.json`` of a folder that appears to be a complete EAGLE head.

    Raises
    ------
    CalibrationError : as `check_model_folder`; another architecture than Llama; a head of EAGLE-3, which reads other
        layers of the target.
    """
    config = check_model_folder(folder)
    if config["model_type"] != "llama":
        raise CalibrationError(f"EAGLE head {folder}: model_type={config['model_type']!r} must be 'llama'")
    if any("eagle3" in str(name).lower() for name in config.get("architectures") or ()):
        raise CalibrationError(f"EAGLE head {folder}: is of EAGLE-3, which vLLM engines run (calibrate vllm)")
    return config


def build_head(config: Mapping[str, Any]) -> Any:
    """Return a head with random weights: a transformers body without embedding and norms, and ``fc`` in front of it.

    Its state dictionary has the names of the EAGLE repository.

    Parameters
    ----------
    config : fields of a Llama configuration, e.g. from `check_head_folder`.
    """
    from torch import nn
    from transformers import LlamaConfig, LlamaModel

    body = LlamaModel(LlamaConfig.from_dict({**config, "vocab_size": 1, "pad_token_id": None}))
    body.config.vocab_size = int(config["vocab_size"])
    body.embed_tokens = None
    body.layers[0].input_layernorm = nn.Identity()
    body.norm = nn.Identity()
    size = body.config.hidden_size
    body.fc = nn.Linear(2 * size, size, bias=bool(config.get("bias", False)))
    return body


def load_head(folder: Path, target: Decoder, max_context: int) -> HeadDecoder:
    """Load a head for a target, with the target's data type and on its device.

    Raises
    ------
    CalibrationError : not a complete head, or a head for a target of other sizes.
    """
    config = check_head_folder(folder)
    for name, theirs in (("hidden_size", target.hidden_size), ("vocab_size", target.vocab_size)):
        if config.get(name) != theirs:
            rule = f"{name}={config.get(name)!r}, the target has {theirs}"
            raise CalibrationError(f"EAGLE head {folder} is not of this target: {rule}")
    return HeadDecoder(_filled(folder, config).to(target.device, target.dtype), target, max_context)


def read_head(folder: Path) -> Any:
    """Return a head of `build_head` with the weights of a folder.

    Raises
    ------
    CalibrationError : not a complete head.
    """
    return _filled(folder, check_head_folder(folder))


def _filled(folder: Path, config: Mapping[str, Any]) -> Any:
    """A head with this configuration and the weights of a folder."""
    from safetensors.torch import load_file

    stored = {name: weight for path in sorted(folder.glob("*.safetensors")) for name, weight in load_file(path).items()}
    head = build_head({**config, "bias": "fc.bias" in stored})
    wanted = head.state_dict()
    given = {name: weight for name, weight in stored.items() if name not in _THEIRS}
    for name in sorted(wanted.keys() ^ given.keys()):
        problem = "is not of a head" if name in given else "is missing"
        raise CalibrationError(f"EAGLE head {folder}: the weight {name} {problem}")
    for name, weight in given.items():
        if weight.shape != wanted[name].shape:
            shapes = f"{tuple(weight.shape)}, its configuration says {tuple(wanted[name].shape)}"
            raise CalibrationError(f"EAGLE head {folder}: the weight {name} has the shape {shapes}")
    head.load_state_dict(given)
    return head.eval()


def save_head(head: Any, folder: Path) -> None:
    """Write weights and configuration of a head into an existing folder."""
    from safetensors.torch import save_file

    head.config.architectures = ["LlamaForCausalLM"]
    head.config.save_pretrained(folder)
    save_file({name: weight.contiguous() for name, weight in head.state_dict().items()}, folder / "model.safetensors")


class HeadDecoder(Decoder):
    """A head ready to draft: a decoder that reads a hidden state with each token.

    Slot i of its cache holds the target's hidden state at position i with the token at i + 1; its output there is the
    prediction of the target's hidden state at i + 1.

    Parameters
    ----------
    head : a head of `build_head`; its projection weights are moved, not copied.
    target : model whose embedding and output matrix it uses.
    max_context : positions that the rotary tables cover.
    """

    def __init__(self, head: Any, target: Decoder, max_context: int) -> None:
        self.n_parameters = sum(p.numel() for p in head.parameters())
        self._take_body(head, max_context)
        self.padded, self.n_features = target.padded, self.hidden_size
        self._fc, self._fc_bias = head.fc.weight.detach(), None if head.fc.bias is None else head.fc.bias.detach()
        self._norm = None
        self._head, self._embedding = target._head, target._embedding

    def _enter(self, ids: Tensor, features: Tensor | None) -> Tensor:
        import torch

        assert features is not None
        both = torch.cat((torch.nn.functional.embedding(ids, self._embedding), features), -1)
        return torch.nn.functional.linear(both, self._fc, self._fc_bias)
