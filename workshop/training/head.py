"""Train an EAGLE head for the bundled target: ``python -m workshop.training.head`` writes ``weights/eagle``.

The head learns from the target's own sampled answers, on the target's hidden states, which stay as they are. At use it
drafts several tokens from its own outputs, so it is trained on them too: after the target's hidden state at a position
come its own guesses of the next ones, each seen together with the true text (as in EAGLE-3 and HASS). Seeded, float32,
one thread.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.torch.token_methods.eagle import build_head, save_head
from calibrate.pair import head_path, target_path
from calibrate.pair.task import Problem
from sim.estimate import Estimate, ratio_of_totals
from workshop.training.inference import LanguageModel, load
from workshop.training.model import replacing
from workshop.training.rendering import problem_stream
from workshop.training.train import note_training

if TYPE_CHECKING:
    import torch

__all__ = ["Drafted", "Recipe", "Text", "acceptance", "drafts", "main", "read_texts", "train_head", "written_texts"]

TEMPERATURE: Final = 0.6
_MAX_TOKENS: Final = 1000
_LOG_EVERY: Final = 50
_CHUNK: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How the head is trained."""

    n_texts: int = 640
    n_steps: int = 800
    rows: int = 8
    """Texts in a step."""
    depth: int = 4
    """Tokens that are drafted in a row in training, each but the first from the head's own output before it."""
    peak_rate: float = 2e-3
    warm_up: int = 50
    regression: float = 0.2
    """Weight of the distance between guessed and true hidden states against the cross entropy of tokens."""
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """An answer of the target with its question, and what the target's last layer made of it."""

    ids: torch.Tensor
    """(n,)"""
    hidden: torch.Tensor
    """(n, size), after the last norm."""
    n_prompt: int


def written_texts(target: LanguageModel, asked: Sequence[Problem], seed: int) -> list[tuple[str, str]]:
    """Questions as the target gets them, and its sampled answers."""
    prompts = [problem.prompt for problem in asked]
    answers = target.write(prompts, temperature=TEMPERATURE, max_tokens=_MAX_TOKENS, seed=seed)
    return list(zip(prompts, answers, strict=True))


def read_texts(target: LanguageModel, written: Sequence[tuple[str, str]]) -> list[Text]:
    """Let the target read texts, the end of each included."""
    import torch

    texts = []
    end = [target.tokenizer.eos_token_id]
    for prompt, answer in written:
        ids = torch.tensor(target.tokenizer(prompt + answer)["input_ids"] + end)
        with torch.inference_mode():
            hidden = target.network.model(input_ids=ids[None]).last_hidden_state[0]
        n_prompt = len(target.tokenizer(prompt)["input_ids"])
        texts.append(Text(ids=ids, hidden=hidden.clone(), n_prompt=n_prompt))
    return texts


def _batches(texts: Sequence[Text], rows: int, seed: int) -> Iterator[list[Text]]:
    """Texts of similar length together, the batches in random order, again and again."""
    import numpy as np

    rng = np.random.default_rng(seed)
    while True:
        noisy = sorted(rng.permutation(len(texts)).tolist(), key=lambda i: len(texts[i].ids))
        groups = [noisy[first : first + rows] for first in range(0, len(noisy) - rows + 1, rows)]
        for i in rng.permutation(len(groups)).tolist():
            yield [texts[j] for j in groups[i]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """The drafted tokens of one place in the draft, after every position of some texts."""

    logits: torch.Tensor
    """What the head says, (rows, n, vocabulary)."""
    wanted: torch.Tensor
    """What the target says there."""
    hidden: torch.Tensor
    """The head's outputs, (rows, n, size)."""
    wanted_hidden: torch.Tensor
    """The target's."""
    counts: torch.Tensor
    """Whether the drafted token is one of the answer, (rows, n)."""


def drafts(head: Any, network: Any, texts: Sequence[Text], depth: int) -> Iterator[Drafted]:
    """Draft ``depth`` tokens after every position of the texts at once.

    At depth d the head reads, after position i, the text's token i + 1 + d and its own output of the depth before
    (at d = 0 the target's hidden state), at position i + d. It attends to what it read of the target's up to i, and to
    its own outputs after i.
    """
    import torch
    from torch.nn.functional import pad
    from torch.nn.utils.rnn import pad_sequence
    from transformers import DynamicCache

    ids = pad_sequence([text.ids for text in texts], batch_first=True)
    hidden = pad_sequence([text.hidden for text in texts], batch_first=True)
    lengths = torch.tensor([len(text.ids) for text in texts])[:, None]
    prompts = torch.tensor([text.n_prompt for text in texts])[:, None]
    n = ids.shape[1]
    column = torch.arange(n)
    past = DynamicCache()
    blocks: list[torch.Tensor] = []
    features = hidden
    for d in range(depth):
        blocks.append(column[:, None] >= column if d == 0 else column[:, None] == column)
        seen = torch.cat(blocks, 1)
        mask = torch.zeros(seen.shape).masked_fill(~seen, -1e9)[None, None].expand(len(texts), 1, -1, -1)
        tokens = pad(ids, (0, 1 + d))[:, 1 + d :]
        inputs = head.fc(torch.cat((network.model.embed_tokens(tokens), features), -1))
        positions = (column + d)[None].expand(len(texts), -1)
        features = head(
            inputs_embeds=inputs, attention_mask=mask, position_ids=positions, past_key_values=past, use_cache=True
        ).last_hidden_state
        true = pad(hidden, (0, 0, 0, 1 + d))[:, 1 + d :]
        yield Drafted(
            logits=network.lm_head(features),
            wanted=network.lm_head(true),
            hidden=features,
            wanted_hidden=true,
            counts=(column >= prompts - 1) & (column + 2 + d < lengths),
        )


def _loss(head: Any, network: Any, texts: Sequence[Text], recipe: Recipe) -> torch.Tensor:
    """Cross entropy of the target's next tokens and distance of its hidden states, mean over the depths."""
    import torch
    from torch.nn.functional import smooth_l1_loss

    losses = []
    for draft in drafts(head, network, texts, recipe.depth):
        logits, wanted = draft.logits[draft.counts], draft.wanted[draft.counts]
        tokens = -(wanted.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()
        states = smooth_l1_loss(draft.hidden[draft.counts], draft.wanted_hidden[draft.counts])
        losses.append(tokens + recipe.regression * states)
    return torch.stack(losses).mean()


def acceptance(head: Any, network: Any, texts: Sequence[Text], depth: int, temperature: float) -> list[Estimate]:
    """Probability that a drafted token is accepted, by its place in the draft, if those before it are the text's.

    The share that the target's and the head's distributions have in common (Leviathan et al. 2023, Theorem 3.5), ratio
    of totals over the places of the answers; the interval is over texts.
    """
    import torch

    sums = torch.zeros(2, depth, len(texts))
    with torch.inference_mode():
        for i, text in enumerate(texts):
            for d, draft in enumerate(drafts(head, network, [text], depth)):
                p, q = ((x[draft.counts] / temperature).softmax(-1) for x in (draft.wanted, draft.logits))
                sums[0, d, i], sums[1, d, i] = torch.minimum(p, q).sum(), draft.counts.sum()
    common, places = sums.double().numpy()
    return [ratio_of_totals(common[d], places[d]) for d in range(depth)]


def train_head(target: LanguageModel, texts: Sequence[Text], recipe: Recipe) -> Any:
    """Train a head on texts that the target has read; `build_head` says what it is."""
    import torch

    network = target.network.requires_grad_(False)
    shape = network.config
    torch.manual_seed(recipe.seed)
    head = build_head(
        {
            "hidden_size": shape.hidden_size,
            "intermediate_size": shape.intermediate_size,
            "num_hidden_layers": 1,
            "num_attention_heads": shape.num_attention_heads,
            "num_key_value_heads": shape.num_key_value_heads,
            "head_dim": shape.head_dim,
            "vocab_size": shape.vocab_size,
            "max_position_embeddings": shape.max_position_embeddings,
            "rms_norm_eps": shape.rms_norm_eps,
            "initializer_range": shape.initializer_range,
            "bos_token_id": None,
            "eos_token_id": shape.eos_token_id,
        }
    ).train()
    optimizer = torch.optim.AdamW(head.parameters(), lr=recipe.peak_rate, betas=(0.9, 0.98), weight_decay=0.01)
    source = _batches(texts, recipe.rows, recipe.seed)
    start, recent = time.monotonic(), []
    for step in range(recipe.n_steps):
        cosine = 0.5 * (1 + math.cos(math.pi * step / recipe.n_steps))
        for group in optimizer.param_groups:
            group["lr"] = recipe.peak_rate * min(1.0, (step + 1) / recipe.warm_up) * (0.02 + 0.98 * cosine)
        loss = _loss(head, network, next(source), recipe)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        recent.append(loss.item())
        if (step + 1) % _LOG_EVERY == 0:
            seconds = time.monotonic() - start
            left = seconds / (step + 1) * (recipe.n_steps - step - 1)
            mean = math.fsum(recent[-_LOG_EVERY:]) / _LOG_EVERY
            sys.stderr.write(f"head {step + 1}/{recipe.n_steps}, {seconds:.0f} s, left {left:.0f} s: loss {mean:.3f}\n")
    return head.eval()


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: write texts, train, save; ``workshop.training.evaluate`` measures what came of it."""
    import numpy as np
    import torch

    usual = Recipe()
    parser = argparse.ArgumentParser(prog="python -m workshop.training.head", description=__doc__)
    parser.add_argument("--out", type=Path, default=head_path(), help="folder of the head")
    parser.add_argument("--texts", type=int, default=usual.n_texts, help="answers of the target to learn from")
    parser.add_argument("--steps", type=int, default=usual.n_steps, help="optimiser steps")
    options = parser.parse_args(arguments)
    for name in ("texts", "steps"):
        if getattr(options, name) < 16:
            parser.error(f"--{name}={getattr(options, name)} must be >= 16")
    torch.set_num_threads(1)
    start = time.monotonic()
    recipe = replace(usual, n_texts=options.texts, n_steps=options.steps)
    target = load(target_path())
    stream = problem_stream(np.random.default_rng(recipe.seed), "training")
    asked = [next(stream) for _ in range(recipe.n_texts)]
    texts: list[Text] = []
    for first in range(0, recipe.n_texts, _CHUNK):
        sys.stderr.write(f"head: {first} of {recipe.n_texts} texts, {time.monotonic() - start:.0f} s\n")
        texts += read_texts(target, written_texts(target, asked[first : first + _CHUNK], recipe.seed + first))
    head = train_head(target, texts, recipe)
    with replacing(options.out) as part:
        save_head(head, part)
    note_training(options.out, seconds=time.monotonic() - start, steps=recipe.n_steps, workers=1, seed=recipe.seed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
