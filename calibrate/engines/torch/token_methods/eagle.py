"""An EAGLE head: a single layer that drafts from the target's last hidden states, at a fraction of the target's depth.

A head predicts the target's next hidden state from the last one and the token that was generated after it, and the
target's output matrix gives the next token (Li et al. 2024, EAGLE, arXiv:2401.15077, section 3.1). It has no embedding
and no output matrix of its own, no norm at its end, and none before its first layer. Folders have the format of the
EAGLE repository, which vLLM loads too: a Llama ``config.json`` and weights named ``fc.weight`` and ``layers.0...``.

In the engine the head reads the target's hidden states of all committed text, as passes and prefills compute them, and
then drafts from its own outputs. These are dropped from its cache after each draft, since the verification computes the
target's hidden states. Drafts are verified like those of a draft model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.torch.decoder import Decoder
from calibrate.engines.torch.model import check_model_folder
from calibrate.engines.torch.token_methods.draft_model import DraftModel, text_from
from calibrate.engines.torch.token_methods.protocol import Rows, Verdict
from calibrate.engines.torch.token_pass import CHUNK, read_tokens
from theory.errors import CalibrationError

if TYPE_CHECKING:
    from torch import Tensor

    from calibrate.engines.torch.job import Job, Limits

__all__ = ["EagleHead", "HeadDecoder", "build_head", "check_head_folder", "load_head", "read_head", "save_head"]

_THEIRS: Final = ("embed_tokens.weight", "lm_head.weight")
"""Weights of the target that some folders contain too."""
_FEW: Final = 16
"""Most tokens that a row reads in a pass with other rows, which are padded; longer texts are read separately."""
_UNKNOWN: Final = -1


class EagleHead(DraftModel):
    """An EAGLE head, for all sequences that use it; the parameters are those of `DraftModel`.

    Its cache identifies slot i by the token at i + 1. The first token of a text is thus not compared when a cached
    prefix is reused: after another first token the head drafts from slightly wrong hidden states; the target verifies.
    """

    def __init__(self, decoder: HeadDecoder, limits: Limits, max_context: int) -> None:
        super().__init__(decoder, limits, max_context)
        self._features: dict[Job, Tensor] = {}
        """Hidden states of the target that the head has not read yet: those of the slots after the cached ones."""

    def join(self, job: Job, n_cached: int) -> int:
        """Assign a row to the job; prompt tokens that the target has cached but the head has not are computed again."""
        prompt = [*job.prompt[1:], _UNKNOWN]
        self.cache.reserve(len(prompt))
        known = self.cache.admit(prompt)
        self._jobs.append(job)
        self._features[job] = self._nothing()
        return min(n_cached, known)

    def read(self, job: Job, first: int, hidden: Tensor) -> None:
        """Keep the hidden states of the prompt after the end of the head's cache."""
        n = int(self.cache.length[self._jobs.index(job)]) + len(self._features[job])
        self._add(job, hidden[max(n - first, 0) :])

    def verify(self, jobs: Sequence[Job], rows: Sequence[Rows], logits: Tensor, hidden: Tensor) -> list[Verdict]:
        """Verify like drafts of a model, and keep the hidden states of committed tokens."""
        verdicts = super().verify(jobs, rows, logits, hidden)
        first = 0
        for job, seq, verdict in zip(jobs, rows, verdicts, strict=True):
            self._add(job, hidden[first : first + 1 + verdict.n_accepted])
            first += len(seq.ids)
        return verdicts

    def leave(self, job: Job) -> None:
        """End a job's row, and drop hidden states that the head has not read."""
        super().leave(job)
        self._features.pop(job, None)

    def _nothing(self) -> Tensor:
        import torch

        return torch.empty(0, self.decoder.hidden_size, dtype=self.decoder.dtype, device=self.decoder.device)

    def _add(self, job: Job, hidden: Tensor) -> None:
        import torch

        self._features[job] = torch.cat((self._features[job], hidden))

    def _write(self, wanted: Sequence[int]) -> tuple[list[list[int]], list[Tensor]]:
        if not any(wanted):
            return [[] for _ in wanted], []
        few = _FEW if len(self._jobs) > 1 else CHUNK
        for row, job in enumerate(self._jobs):
            while len(self._features[job]) > few:
                unread = self._unread(row, job)
                n = min(len(unread.ids) - 1, CHUNK)  # the draft begins after the last token
                assert unread.features is not None
                read_tokens(self.decoder, self.cache, row, unread.ids[:n], unread.features[:n])
                self._features[job] = unread.features[n:]
        drafted = super()._write(wanted)
        for row, job in enumerate(self._jobs):
            self.cache.truncate(row, len(job.prompt) + len(job.tokens) - 1)
            self._features[job] = self._nothing()
        return drafted

    def _unread(self, row: int, job: Job) -> Rows:
        """The tokens that are not in the row yet, and the hidden states before them."""
        return Rows(ids=text_from(job, int(self.cache.length[row]) + 1), features=self._features[job])

    def _drafted(self, drafts: Sequence[list[int]], ends: Tensor) -> list[Rows]:
        """The latest drafted token of each row, and the head's prediction of the hidden state before it."""
        return [Rows(ids=draft[-1:], features=ends[row : row + 1]) for row, draft in enumerate(drafts)]


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
    return HeadDecoder(read_head(folder).to(target.device, target.dtype), target, max_context)


def read_head(folder: Path) -> Any:
    """Return a head of `build_head` with the configuration and the weights of a folder.

    Raises
    ------
    CalibrationError : not a complete head.
    """
    config = check_head_folder(folder)
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
