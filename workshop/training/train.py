"""Train the bundled pair from nothing: ``python -m workshop.training.train`` writes ``calibrate/pair/weights``.

Seeded, float32, no compiler, two processes of one thread each that average their gradients: threads inside one process
meet at every small matrix product and stall whenever anything else runs on the machine; processes meet once a step.
What a phase leaves is saved, and ``--resume`` goes on from it: the weights are those of a run from beginning to end.
Depth decides how long so small a model takes per token and size how long it trains, so the target is deep and narrow.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

from calibrate.pair import target_path
from calibrate.pair.task import JUDGE_NO, JUDGE_YES, SCORE_TOKENS
from workshop.training.batches import Batch, batches
from workshop.training.examples import (
    Example,
    drilling_examples,
    judging_examples,
    recalling_examples,
    thinned,
    writing_examples,
)
from workshop.training.model import build_network, deepen, load_network, save_network
from workshop.training.recipes import DRAFT, TARGET, Phase, Recipe
from workshop.training.rendering import problem_stream
from workshop.training.tokenizer import EOS, build_tokenizer, vocabulary

__all__ = ["Progress", "main", "note_training", "phases_done", "train"]

N_WORKERS: Final = 2
READ_AT: Final = 4
"""Layers after which the right total is read off; what compares it comes after them."""
_Kind = Literal["answers", "pairs", "recalls", "drills"]


_RECIPES: Final = (TARGET, DRAFT)
_WRITING_WEIGHT: Final[dict[_Kind, float]] = {"answers": 1.0, "pairs": 0.3, "recalls": 1.0, "drills": 1.0}
_NOTE: Final = "training.json"
_LOG_EVERY: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What one optimiser step saw on its own batch, before the step; NaN for what the phase does not learn from."""

    writing: float
    """Loss of writing, nats per weighted token."""
    score: float
    judge: float
    numbers: float
    """Share of numbers written right, given the text before them."""
    score_right: float
    judge_right: float
    recalled: float
    """Share of operands of the stories to recall that are right."""
    sums: float
    """Share of sums of the drills that are right."""
    sums_judged: float
    """Share of sums of the drills whose grade is right."""
    read: float
    """Loss of right totals read off half-way, nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Losses:
    """Losses of a batch, tensors, and the shares that are right."""

    writing: Any
    reply: Any
    hint: Any
    right_total: Any
    numbers: float
    replies: float


def _losses(network: Any, reader: Any, batch: Batch, *, tree: bool) -> _Losses:
    import torch
    from torch.nn.functional import cross_entropy

    def mean_at(logits: Any, wanted: Any) -> Any:
        return cross_entropy(logits, wanted, reduction="sum") / max(1, len(wanted))

    extra = {"position_ids": batch.positions, "attention_mask": batch.mask} if tree else {}
    output = network(input_ids=batch.ids, use_cache=False, output_hidden_states=True, **extra)
    logits = output.logits
    others = torch.full((logits.shape[-1],), -math.inf)
    others[[vocabulary()[token] for token in (*SCORE_TOKENS, JUDGE_YES, JUDGE_NO)]] = 0.0
    each = cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="none").view(batch.targets.shape)
    right = logits.detach().argmax(-1) == batch.targets
    hinted, totalled = batch.hints >= 0, batch.rights >= 0
    half_way = output.hidden_states[min(READ_AT, len(output.hidden_states) - 1)]
    read = reader(half_way[totalled]) @ network.get_input_embeddings().weight.T
    return _Losses(
        writing=(each * batch.writing).sum() / batch.writing.sum().clamp(min=1),
        reply=(each * batch.replies).sum() / batch.replies.sum().clamp(min=1),
        hint=mean_at(logits[hinted] + others, batch.hints[hinted]),
        right_total=mean_at(read, batch.rights[totalled]),
        numbers=float(right[batch.numbers].float().mean()),
        replies=float(right[batch.replies > 0].float().mean()),
    )


def _reader(recipe: Recipe) -> Any:
    """What reads the right total off the hidden state after READ_AT layers, as if it were a token to write."""
    import torch

    hidden = recipe.shape.hidden
    return torch.nn.Sequential(torch.nn.RMSNorm(hidden), torch.nn.Linear(hidden, hidden, bias=False))


def _optimizer(trained: Any, recipe: Recipe, phase: Phase) -> Any:
    import torch

    groups: tuple[list[Any], list[Any]] = ([], [])
    for name, parameter in trained.named_parameters():
        groups["embed" in name or parameter.ndim < 2].append(parameter)
    decays = (recipe.weight_decay, 0.0)
    return torch.optim.AdamW(
        [{"params": group, "weight_decay": decay} for group, decay in zip(groups, decays, strict=True)],
        lr=phase.peak_rate,
        betas=(0.9, 0.98),
        fused=True,
    )


def _rate(recipe: Recipe, phase: Phase, step: int) -> float:
    """Learning rate at a step of a phase: linear warm-up under a cosine."""
    cosine = 0.5 * (1 + math.cos(math.pi * step / (phase.horizon or phase.n_steps)))
    return phase.peak_rate * min(1.0, (step + 1) / recipe.warm_up) * (0.02 + 0.98 * cosine)


def _average_gradients(trained: Any, n_workers: int) -> None:
    import torch

    if n_workers == 1:
        return
    gradients = [p.grad for p in trained.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    torch.distributed.all_reduce(flat)
    flat /= n_workers
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def _batches(recipe: Recipe, number: int, worker: int) -> dict[_Kind, Iterator[Batch]]:
    """What a phase learns from; workers see other problems in the same order of lengths: none waits."""
    import numpy as np

    phase, seed, tokenizer = recipe.phases[number], recipe.seed + number, build_tokenizer()
    writer, judge, recaller, driller = (
        np.random.default_rng(np.random.SeedSequence([seed, worker, source])) for source in range(4)
    )
    examples: dict[_Kind, tuple[Iterator[Example], int]] = {
        "answers": (
            writing_examples(
                thinned(problem_stream(writer, "training"), writer, phase.keep_long),
                writer,
                EOS,
                phase.candidates,
            ),
            phase.n_answers,
        ),
        "pairs": (judging_examples(problem_stream(judge, "training"), judge), phase.n_pairs),
        "recalls": (recalling_examples(recaller, phase.any_wording), phase.n_recalls),
        "drills": (drilling_examples(driller, phase.far, phase.wordy), phase.n_drills),
    }
    return {
        kind: batches(stream, tokenizer, rows=rows, seed=seed + i)
        for i, (kind, (stream, rows)) in enumerate(examples.items())
        if rows
    }


def train(
    recipe: Recipe, folder: Path | None = None, *, first: int = 0, worker: int = 0, n_workers: int = 1
) -> list[Progress]:
    """Train one model; in a group of workers, this one's part.

    Parameters
    ----------
    recipe : everything that decides the weights, with `n_workers`.
    folder : where the first worker saves at the end of every phase, with a note beside it; None saves nothing.
    first : the phase to begin with; above 0, `folder` holds what the one before it left.
    worker, n_workers : this process and how many there are; above one, torch.distributed is set up already.

    Returns
    -------
    This worker's progress, one entry per step.
    """
    import torch

    torch.set_num_threads(1)
    network = load_network(folder) if first and folder else build_network(recipe.shape, recipe.seed)
    history: list[Progress] = []
    steps_before = sum(phase.n_steps for phase in recipe.phases[:first])
    seconds_before = _noted(folder).get("seconds", 0.0) if first and folder else 0.0
    start = time.monotonic()
    for number, phase in enumerate(recipe.phases[first:], start=first):
        if phase.layers != network.config.num_hidden_layers:
            network = deepen(network, recipe.shape, phase.layers, recipe.seed + 1)
        torch.manual_seed(recipe.seed + number)
        reader = _reader(recipe)
        trained = torch.nn.ModuleList([network, reader])
        optimizer = _optimizer(trained, recipe, phase)
        sources = _batches(recipe, number, worker)
        for step in range(phase.n_steps):
            for group in optimizer.param_groups:
                group["lr"] = _rate(recipe, phase, step)
            seen = {kind: next(source) for kind, source in sources.items()}
            history.append(_accumulate(network, reader, seen, phase))
            _average_gradients(trained, n_workers)
            torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            done = len(history)
            if worker == 0 and done % _LOG_EVERY == 0:
                _say(recipe, history[-_LOG_EVERY:], steps_before, done, time.monotonic() - start)
        if worker == 0 and folder:
            save_network(network, folder)
            if phase.saved_as:
                save_network(network, folder.with_name(phase.saved_as))
            seconds, steps = seconds_before + time.monotonic() - start, steps_before + len(history)
            note_training(folder, seconds=seconds, steps=steps, workers=n_workers, seed=recipe.seed)
    return history


def _accumulate(network: Any, reader: Any, kinds: Mapping[_Kind, Batch], phase: Phase) -> Progress:
    """Add the gradients of one batch of each kind."""
    seen = {field.name: float("nan") for field in fields(Progress)}
    for kind, batch in kinds.items():
        losses = _losses(network, reader, batch, tree=kind != "pairs")
        loss = _WRITING_WEIGHT[kind] * losses.writing + phase.reply_weight * losses.reply
        (loss + phase.hint_weight * losses.hint + phase.read_weight * losses.right_total).backward()
        writing, reply = losses.writing.item(), losses.reply.item()
        if kind == "answers":
            seen |= {"writing": writing, "score": reply, "numbers": losses.numbers, "score_right": losses.replies}
        elif kind == "pairs":
            seen |= {"judge": reply, "judge_right": losses.replies}
        elif kind == "recalls":
            seen |= {"recalled": losses.numbers}
        else:
            seen |= {"sums": losses.numbers, "sums_judged": losses.replies, "read": losses.right_total.item()}
    return Progress(**seen)


def _say(recipe: Recipe, recent: Sequence[Progress], before: int, done: int, seconds: float) -> None:
    left = seconds / done * (recipe.n_steps - before - done)
    means = {field.name: math.fsum(getattr(p, field.name) for p in recent) / len(recent) for field in fields(Progress)}
    known = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items() if not math.isnan(mean))
    sys.stderr.write(f"{recipe.name} {before + done}/{recipe.n_steps}, {seconds:.0f} s, left {left:.0f} s: {known}\n")


def _work(worker: int, rendezvous: str, recipe: Recipe, folder: Path, first: int) -> None:
    """One worker process."""
    import torch

    torch.distributed.init_process_group("gloo", f"file://{rendezvous}", rank=worker, world_size=N_WORKERS)
    train(recipe, folder, first=first, worker=worker, n_workers=N_WORKERS)
    torch.distributed.destroy_process_group()


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: train one model of the pair or both."""
    parser = argparse.ArgumentParser(prog="python -m workshop.training.train", description=__doc__)
    parser.add_argument("--only", choices=tuple(recipe.name for recipe in _RECIPES), help="train this one alone")
    parser.add_argument("--out", type=Path, default=target_path().parent, help="folder of the weights")
    parser.add_argument("--resume", action="store_true", help="go on after the last phase that was finished in --out")
    parser.add_argument("--steps", type=int, help="at most so many optimiser steps per phase, to try things out")
    options = parser.parse_args(arguments)
    if options.steps is not None and options.steps < 1:
        parser.error(f"--steps={options.steps} must be >= 1")
    for recipe in (_shortened(one, options.steps) for one in _RECIPES):
        if options.only in (None, recipe.name):
            folder = options.out / recipe.name
            first = phases_done(recipe, folder) if options.resume else 0
            if first is None:
                parser.error(f"--resume: {folder} was not left by a phase of this recipe; train without it")
            if first < len(recipe.phases):
                _launch(recipe, folder, first)
    return 0


def phases_done(recipe: Recipe, folder: Path) -> int | None:
    """How many phases of a recipe a folder has behind it by its note; None: what it holds is no phase's end."""
    ends = [0, *itertools.accumulate(phase.n_steps for phase in recipe.phases)]
    steps = _noted(folder).get("steps", 0) if folder.exists() else 0
    return ends.index(steps) if steps in ends else None


def _shortened(recipe: Recipe, n_steps: int | None) -> Recipe:
    """The recipe with every phase cut to `n_steps`."""
    if n_steps is None:
        return recipe
    return replace(recipe, phases=tuple(replace(phase, n_steps=min(phase.n_steps, n_steps)) for phase in recipe.phases))


def _launch(recipe: Recipe, folder: Path, first: int) -> None:
    """Train one model with all workers."""
    import torch

    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as scratch:
        torch.multiprocessing.spawn(_work, args=(f"{scratch}/meet", recipe, folder, first), nprocs=N_WORKERS)


def note_training(folder: Path, *, seconds: float, steps: int, workers: int, seed: int) -> None:
    """Write beside a folder of weights how they were made, for the card."""
    import torch

    note = folder.with_name(_NOTE)
    known = json.loads(note.read_text()) if note.exists() else {}
    made = {"seconds": round(seconds, 1), "steps": steps, "workers": workers, "seed": seed}
    known[folder.name] = {**made, "torch": torch.__version__}
    note.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


def _noted(folder: Path) -> dict[str, Any]:
    """The note about a folder of weights; empty if there is none."""
    note = folder.with_name(_NOTE)
    found: dict[str, Any] = json.loads(note.read_text()).get(folder.name, {}) if note.exists() else {}
    return found


if __name__ == "__main__":
    raise SystemExit(main())
