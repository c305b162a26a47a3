"""A tiny random target in the process of the tests: its passes take a sixth of the time of the bundled target's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from calibrate.engines.torch.decoder import Decoder

FIRST_WORD = 7
"""The id of the first token that is a word."""


@pytest.fixture(scope="session")
def target(model_folders: dict[str, Path]) -> tuple[Decoder, Tokenizer, list[list[int]]]:
    """The decoder, for contexts of 1,024 tokens, its tokenizer, and four prompts: some answers end, others run on."""
    import torch

    from calibrate.engines.torch.decoder import Decoder
    from calibrate.engines.torch.job import SPARE
    from calibrate.engines.torch.model import load_model, load_tokenizer

    folder = model_folders["target"]
    model = load_model(folder, dtype=torch.float32, device=torch.device("cpu"))
    rng = np.random.default_rng(0)
    prompts = [rng.integers(FIRST_WORD, model.config.vocab_size, 12).tolist() for _ in range(4)]
    return Decoder(model, 1024 + SPARE), load_tokenizer(folder), prompts
