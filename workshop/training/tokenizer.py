"""A word-level tokenizer whose tokens carry their own leading space, so that decoding is concatenation and exact."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate.pair.task import (
    JUDGE_NO,
    JUDGE_YES,
    SCORE_REQUEST,
    SCORE_TOKENS,
    STEP_SEPARATOR,
    judge_prompt,
    question_fragments,
)
from calibrate.pair.wording import LAST_NUMBER
from workshop.training.rendering import all_fragments

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["EOS", "PAD", "UNKNOWN", "build_tokenizer", "save_tokenizer", "vocabulary"]

EOS, PAD, UNKNOWN = "<eos>", "<pad>", "<unk>"
# A blank line, a word or number with at most one space before it, or any other single character with its space.
_SPLIT: Final = r"\n\n| ?[A-Za-z]+| ?[0-9]+| ?[^A-Za-z0-9\s]|\s"
_MODEL_LENGTH: Final = 2048


def vocabulary() -> dict[str, int]:
    """Token text to id: special tokens, the separator, the numbers, then every word of the language in sorted order.

    A word that can open a step occurs with and without its leading space; fields of templates are left out.
    """
    words: set[str] = set()
    asked = (*judge_prompt("0", "0").split(STEP_SEPARATOR), SCORE_REQUEST, JUDGE_YES, JUDGE_NO, *SCORE_TOKENS)
    for fragment in (*all_fragments(), *question_fragments(), *asked):
        text = re.sub(r"\{\w\}", "", fragment)
        words.update(re.findall(_SPLIT, text), re.findall(_SPLIT, " " + text))
    numbers = [f" {n}" for n in range(LAST_NUMBER + 1)]
    return {
        text: i for i, text in enumerate([EOS, PAD, UNKNOWN, STEP_SEPARATOR, *numbers, *sorted(words - set(numbers))])
    }


def build_tokenizer() -> Tokenizer:
    """The tokenizer as an object of the tokenizers library."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary(), unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in (EOS, PAD, UNKNOWN)])
    return tokenizer


def save_tokenizer(folder: Path) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` as transformers and vLLM read them."""
    build_tokenizer().save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": _MODEL_LENGTH,
        "eos_token": EOS,
        "pad_token": PAD,
        "unk_token": UNKNOWN,
        "clean_up_tokenization_spaces": False,
        # One message after another, then the separator: a chat endpoint serves the task without a template of its own.
        "chat_template": "{% for m in messages %}{{ m['content'] }}{{ '\\n\\n' }}{% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
