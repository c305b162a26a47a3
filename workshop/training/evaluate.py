"""Measure the bundled pair on held-out problems; ``python -m workshop.training.evaluate`` writes the card."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calibrate.engines.torch.token_methods.eagle import read_head
from calibrate.pair import head_path, model_path, target_path
from calibrate.pair.task import (
    JUDGE_NO,
    JUDGE_YES,
    MAX_STEP_TOKENS,
    SCORE_TOKENS,
    STEP_SEPARATOR,
    Problem,
    answer_is_correct,
    judge_prompt,
    problems,
    same_meaning,
    score_prompt,
    split_steps,
    step_is_correct,
)
from sim.estimate import proportion
from workshop.training.head import acceptance, read_texts, written_texts
from workshop.training.inference import LanguageModel, load

__all__ = ["area_under_curve", "evaluate", "main", "separation", "weights_hash"]

TEMPERATURE: Final = 0.6
_MAX_ANSWER_TOKENS: Final = 1000
_SEED: Final = 7_919
_HEAD_DEPTH: Final = 5
_RESAMPLES: Final = 2000
_WRITERS: Final = ("target", "draft")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One step of an answer as both models would write it after the same prefix."""

    problem: Problem
    prefix: tuple[str, ...]
    target: str
    draft: str
    draft_tokens: int
    target_tokens: int

    def is_correct(self, step: str) -> bool:
        """Ground truth of a step here."""
        return step_is_correct(self.problem.question, self.prefix, step)


def _share(flags: Iterable[bool]) -> dict[str, float | int]:
    """A proportion with its 95 % interval; of nothing, the whole unit interval."""
    seen = list(flags)
    if not seen:
        return {"n": 0, "value": 0.5, "low": 0.0, "high": 1.0}
    share = proportion(sum(seen), len(seen))
    return {"n": share.n, "value": share.value, "low": share.low, "high": share.high}


def area_under_curve(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """Probability that a right step outscores a wrong one, ties counted half; NaN without both kinds."""
    from scipy.stats import rankdata

    n_right = sum(positive)
    pairs = n_right * (len(positive) - n_right)
    ranks = sum(rank for rank, good in zip(rankdata(scores), positive, strict=True) if good)
    return float(ranks - n_right * (n_right + 1) / 2) / pairs if pairs else math.nan


def separation(scores: Sequence[float], positive: Sequence[bool], question: Sequence[str]) -> dict[str, float | int]:
    """The area under the curve with a 95 % interval: percentiles of a bootstrap over questions, whose steps depend."""
    import numpy as np

    by_question: dict[str, list[int]] = {}
    for i, asked in enumerate(question):
        by_question.setdefault(asked, []).append(i)
    groups, rng = list(by_question.values()), np.random.default_rng(_SEED)

    def once() -> float:
        drawn = [i for k in rng.integers(len(groups), size=len(groups)) for i in groups[k]]
        return area_under_curve([scores[i] for i in drawn], [positive[i] for i in drawn])

    low, high = np.nanquantile([once() for _ in range(_RESAMPLES)], (0.025, 0.975))
    value = area_under_curve(scores, positive)
    return {"n": len(groups), "value": value, "low": float(low), "high": float(high)}


def weights_hash(folder: Path) -> str:
    """SHA-256 over the safetensors file of a model."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def _answers(model: LanguageModel, asked: Sequence[Problem], temperature: float) -> list[tuple[str, ...]]:
    prompts = [problem.prompt for problem in asked]
    texts = model.write(prompts, temperature=temperature, max_tokens=_MAX_ANSWER_TOKENS, seed=_SEED)
    return [split_steps(text) for text in texts]


def _answer_card(asked: Sequence[Problem], answers: Sequence[Sequence[str]]) -> dict[str, Any]:
    pairs = list(zip(asked, answers, strict=True))
    steps = [(p.question, a[:i], a[i]) for p, a in pairs for i in range(len(a))]
    return {
        "answers_correct": _share(answer_is_correct(p.question, a) for p, a in pairs),
        "steps_correct": _share(step_is_correct(*step) for step in steps),
        "steps_per_answer": len(steps) / len(pairs),
    }


def _decisions(target: LanguageModel, draft: LanguageModel, asked: Sequence[Problem]) -> list[Decision]:
    """Every position of the target's own answers whose prefix is right, written once more by both models."""
    places = [
        (problem, answer[:i])
        for problem, answer in zip(asked, _answers(target, asked, TEMPERATURE), strict=True)
        for i in range(len(answer))
        if all(step_is_correct(problem.question, answer[:j], answer[j]) for j in range(i))
    ]
    prompts = [STEP_SEPARATOR.join([p.question, *prefix, ""]) for p, prefix in places]
    steps = [
        model.write(prompts, temperature=TEMPERATURE, max_tokens=MAX_STEP_TOKENS, seed=_SEED + i, stop=STEP_SEPARATOR)
        for i, model in enumerate((target, draft))
    ]
    lengths = [[len(ids) + 1 for ids in target.tokenizer(texts)["input_ids"]] for texts in steps]
    return [
        Decision(problem=p, prefix=prefix, target=t, draft=d, target_tokens=n_t, draft_tokens=n_d)
        for (p, prefix), t, d, n_t, n_d in zip(places, *steps, *lengths, strict=True)
    ]


def _judge_card(judge: LanguageModel, decisions: Sequence[Decision]) -> dict[str, Any]:
    """Confusion of the judge on real pairs of steps; accepted is P(Yes) > P(No)."""
    replies = judge.reply([judge_prompt(d.target, d.draft) for d in decisions], (JUDGE_YES, JUDGE_NO))
    yes = [p[0] > p[1] for p in replies]
    same = [same_meaning(d.target, d.draft) for d in decisions]
    on_same = [said for said, truth in zip(yes, same, strict=True) if truth]
    on_other = [said for said, truth in zip(yes, same, strict=True) if not truth]
    true_accept, false_accept = _share(on_same), _share(on_other)
    harmful = [not d.is_correct(d.draft) for d, said in zip(decisions, yes, strict=True) if said]
    return {
        "accepted": _share(yes),
        "same_meaning": _share(same),
        "true_accept": true_accept,
        "false_accept": false_accept,
        "balanced_accuracy": (true_accept["value"] + 1 - false_accept["value"]) / 2,
        "accepted_but_wrong_step": _share(harmful),
        "confusion": {
            "accepted_same": sum(on_same),
            "rejected_same": len(on_same) - sum(on_same),
            "accepted_other": sum(on_other),
            "rejected_other": len(on_other) - sum(on_other),
        },
    }


def _score_card(model: LanguageModel, decisions: Sequence[Decision]) -> dict[str, Any]:
    """How well the expected grade separates right steps from wrong ones: of both models, and of each alone."""
    asked = [(d, step) for d in decisions for step in (d.target, d.draft)]
    prompts = [score_prompt(d.problem.question, d.prefix, step) for d, step in asked]
    grades = [sum(i * p for i, p in enumerate(row)) for row in model.reply(prompts, SCORE_TOKENS)]
    right = [d.is_correct(step) for d, step in asked]
    questions = [d.problem.question for d, _ in asked]
    mean = {
        name: sum(g for g, good in zip(grades, right, strict=True) if good == kind) / max(1, right.count(kind))
        for name, kind in (("right", True), ("wrong", False))
    }
    at_least_7 = [g >= 7 for g in grades]
    return {
        "n_right": right.count(True),
        "n_wrong": right.count(False),
        "auc": separation(grades, right, questions),
        "auc_by_writer": {
            writer: separation(grades[i::2], right[i::2], questions[i::2]) for i, writer in enumerate(_WRITERS)
        },
        "mean_grade_right": mean["right"],
        "mean_grade_wrong": mean["wrong"],
        "accuracy_at_7": _share(a == b for a, b in zip(at_least_7, right, strict=True)),
    }


def _length_card(lengths: Sequence[int]) -> dict[str, float]:
    mean = sum(lengths) / len(lengths)
    spread = (sum((x - mean) ** 2 for x in lengths) / max(1, len(lengths) - 1)) ** 0.5
    return {"mean": mean, "cv": spread / mean, "min": min(lengths), "max": max(lengths)}


def _seconds_per_token(model: LanguageModel, problem: Problem, n_tokens: int = 64) -> float:
    """Wall time of decoding one token at batch 1, best of three; a figure of this machine, not of the weights."""

    def once() -> float:
        start = time.perf_counter()
        batch = model.tokenizer([problem.prompt], return_tensors="pt")
        model.network.generate(**batch, max_new_tokens=n_tokens, min_new_tokens=n_tokens, do_sample=False)
        return (time.perf_counter() - start) / n_tokens

    return min(once() for _ in range(4))


def _model_card(folder: Path, model: LanguageModel) -> dict[str, Any]:
    config = model.network.config
    return {
        "sha256": weights_hash(folder),
        "bytes": (folder / "model.safetensors").stat().st_size,
        "parameters": sum(p.numel() for p in model.network.parameters()),
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
    }


def evaluate(n_problems: int, say: Callable[[str], object]) -> dict[str, Any]:
    """Measure the models on `n_problems` of the validation split; the card's content, JSON-ready.

    Parameters
    ----------
    n_problems : problems per measurement, >= 1.
    say : receives one line of progress at a time.
    """
    import torch
    import transformers

    torch.set_num_threads(2)
    judge, *writers = (load(model_path(role)) for role in ("judge", *_WRITERS))
    models = dict(zip(_WRITERS, writers, strict=True))
    asked = problems(n_problems, _SEED)
    card: dict[str, Any] = {
        "schema_version": 1,
        "split": "validation",
        "seed": _SEED,
        "temperature": TEMPERATURE,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }
    for name, model in models.items():
        say(f"{name}: answers")
        card[name] = _model_card(model_path(name), model)
        card[name]["sampled"] = _answer_card(asked, _answers(model, asked, TEMPERATURE))
        card[name]["greedy"] = _answer_card(asked, _answers(model, asked, 0.0))
        card[name]["seconds_per_token"] = _seconds_per_token(model, asked[0])
    say("steps of both models after the same prefixes")
    decisions = _decisions(models["target"], models["draft"], asked)
    card["pair"] = _pair_card(decisions)
    for name, model in models.items():
        say(f"{name}: judge and score")
        card[name]["judge"] = _judge_card(model, decisions)
        card[name]["score"] = _score_card(model, decisions)
    say("judge")
    card["judge"] = _model_card(model_path("judge"), judge) | {"judge": _judge_card(judge, decisions)}
    say("eagle: acceptance")
    card["eagle"] = _head_card(models["target"], asked)
    return card


def _pair_card(decisions: Sequence[Decision]) -> dict[str, Any]:
    same = [same_meaning(d.target, d.draft) for d in decisions]
    followed = [
        (now, then)
        for (a, then), (b, now) in itertools.pairwise(zip(decisions, same, strict=True))
        if a.problem is b.problem
    ]
    after = {before: _share(now for now, then in followed if then == before) for before in (True, False)}
    lengths = [(math.log(d.target_tokens), math.log(d.draft_tokens)) for d in decisions]
    return {
        "same_meaning_after_same": after[True],
        "same_meaning_after_other": after[False],
        "log_length_correlation": statistics.correlation(*zip(*lengths, strict=True)),
        "decisions": len(decisions),
        "target_step_correct": _share(d.is_correct(d.target) for d in decisions),
        "draft_step_correct": _share(d.is_correct(d.draft) for d in decisions),
        "same_meaning": _share(same),
        "same_text": _share(d.target == d.draft for d in decisions),
        "target_step_tokens": _length_card([d.target_tokens for d in decisions]),
        "draft_step_tokens": _length_card([d.draft_tokens for d in decisions]),
    }


def _head_card(target: LanguageModel, asked: Sequence[Problem]) -> dict[str, Any]:
    """What the EAGLE head is, and how often its drafted tokens would be accepted, by their place in the draft."""
    head = read_head(head_path())
    texts = read_texts(target, written_texts(target, asked, _SEED))
    by_depth = acceptance(head, target.network, texts, _HEAD_DEPTH, TEMPERATURE)
    return {
        "sha256": weights_hash(head_path()),
        "bytes": (head_path() / "model.safetensors").stat().st_size,
        "parameters": sum(p.numel() for p in head.parameters()),
        "accepted_at": [{"n": e.n, "value": e.value, "low": e.low, "high": e.high} for e in by_depth],
    }


def _write_card(card: dict[str, Any], path: Path) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(card, indent=2, sort_keys=True) + "\n")
    os.replace(part, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: measure, add what the training script noted, write the card and print it."""
    parser = argparse.ArgumentParser(prog="python -m workshop.training.evaluate", description=__doc__)
    parser.add_argument("--problems", type=int, default=400, help="held-out problems (default 400)")
    parser.add_argument(
        "--only", choices=("eagle",), help="measure the EAGLE head alone, and leave the rest of the card"
    )
    options = parser.parse_args(arguments)
    if options.problems < 1:
        parser.error(f"--problems={options.problems} must be >= 1")
    path = target_path().with_name("card.json")
    note = path.with_name("training.json")
    training = json.loads(note.read_text()) if note.exists() else None
    if options.only:
        known = json.loads(path.read_text())
        card = {**known, "eagle": _head_card(load(target_path()), problems(options.problems, _SEED))}
    else:
        card = evaluate(options.problems, lambda line: sys.stderr.write(line + "\n"))
    _write_card({**card, "training": training}, path)
    sys.stdout.write(path.read_text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
