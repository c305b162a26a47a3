"""Choice of the fast engine: it is used for every trial that it runs exactly, without an option.

It runs drawn answers on engines whose requests neither share iterations nor depend on the context:

- plain decoding, SpecReason and RSD;
- asynchronous Lookahead Reasoning at width 1 with any of the judge, an embedding model, the gate or the cascade, and
  with all schedules whose window moves with the commits; so ConfSpec's pipeline;
- synchronous Lookahead Reasoning at width 1 by Algorithm 1, with a judge or an embedding model.

Token-level speculation is part of the engines' times. All other trials run on the virtual clock, which is the
specification (`tests/sim/fast` compares the two on the same answers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.algorithms.autoregressive import autoregressive
from sim.algorithms.checks import CASCADE, JUDGED, Check
from sim.algorithms.graded import graded_drafts
from sim.algorithms.lookahead_async import lookahead_async
from sim.algorithms.lookahead_sync import lookahead_sync
from sim.algorithms.rules import PAPER, Rules
from sim.answers.drawn import Behaviour, SyntheticBehaviour
from sim.engines.fixed import FixedEngine
from sim.engines.protocol import Engine
from sim.fast.draws import Answers, blocks_of, step_seconds
from sim.fast.recursions import async_seconds, sync_seconds
from sim.operations import MakeAlgorithm
from sim.roles import DRAFT, EMBEDDING, EXACT, GATE, JUDGE, REWARD, SCORER, TARGET
from sim.virtual_clock import with_stand_ins

__all__ = ["fast_seconds"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

_TOP = {SCORER: 9.0, REWARD: 1.0}
"""Score of a drawn draft that is accepted (`sim.answers.drawn`)."""


def fast_seconds(
    algorithm: MakeAlgorithm, behaviour: Behaviour | None, engines: Mapping[str, Engine], indices: Sequence[int]
) -> Array | None:
    """Return the seconds of answers, shape (answers,); None where the virtual clock has to run them."""
    if not isinstance(behaviour, SyntheticBehaviour) or not indices:
        return None
    if behaviour.quality is not None and behaviour.quality.corruption > 0.0:
        return None
    times = _Times(engines)
    blocks = []
    for answers in blocks_of(behaviour, indices):
        seconds = _block_seconds(algorithm, answers, times)
        if seconds is None:
            return None
        blocks.append(seconds)
    return np.concatenate(blocks)


class _Times:
    """Seconds of each role's requests, where they depend on the generated tokens only."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        served = with_stand_ins(engines).items()
        self._known = {role: engine.by_tokens for role, engine in served if isinstance(engine, FixedEngine)}

    def steps(self, role: str, tokens: Array) -> Array | None:
        """Seconds of steps; None also where a step may take 0 s and results depend on the order of events."""
        known = self._known.get(role)
        return None if known is None or not known(1) > 0.0 else step_seconds(known, tokens)

    def verdict(self, role: str) -> float | None:
        known = self._known.get(role)
        return None if known is None else known(1)


def _block_seconds(algorithm: MakeAlgorithm, answers: Answers, times: _Times) -> Array | None:
    target = times.steps(TARGET, answers.target)
    if target is not None and algorithm is autoregressive:
        return _total(target, answers)
    draft = times.steps(DRAFT, answers.draft)
    if target is None or draft is None or not isinstance(algorithm, partial) or algorithm.args:
        return None
    said = dict(algorithm.keywords)
    if algorithm.func is graded_drafts:
        return _graded(target, draft, answers, times, said)
    if algorithm.func in (lookahead_async, lookahead_sync) and said.pop("width", 1) == 1:
        looked = _async if algorithm.func is lookahead_async else _sync
        return looked(target, draft, answers, times, said)
    return None


def _total(seconds: Array, answers: Answers) -> Array:
    """Sums over the steps that an answer has."""
    steps = np.arange(seconds.shape[1])
    return np.asarray(np.where(steps < answers.n_steps[:, None], seconds, 0.0).sum(axis=1))


def _graded(target: Array, draft: Array, answers: Answers, times: _Times, said: dict[str, Any]) -> Array | None:
    role, threshold, first = said.get("role", SCORER), said["threshold"], said.get("first", 0)
    score_s = times.verdict(role)
    if score_s is None or role not in _TOP:
        return None
    good = np.where(answers.accepted, _TOP[role], 0.0) >= threshold
    drafted = draft + score_s + np.where(good, 0.0, target)
    return _total(np.where(np.arange(target.shape[1]) >= first, drafted, target), answers)


def _async(target: Array, draft: Array, answers: Answers, times: _Times, said: dict[str, Any]) -> Array | None:
    rules: Rules = said.get("rules", PAPER)
    checked = _checked(said.get("check", JUDGED), answers, times)
    if checked is None or (rules.slot, rules.fallback) != (PAPER.slot, PAPER.fallback):
        return None
    accepted, verify = checked
    return async_seconds(
        target,
        draft,
        accepted,
        verify,
        answers.n_steps,
        k1=said["k1"],
        rules=rules,
        target_cut=answers.target_cut,
        draft_cut=answers.draft_cut,
    )


def _sync(target: Array, draft: Array, answers: Answers, times: _Times, said: dict[str, Any]) -> Array | None:
    rules: Rules = said.get("rules", PAPER)
    if not rules.barrier or rules.reject_first or rules.reject_after_truncation:
        return None
    checked = _checked(said.get("check", JUDGED), answers, times)
    if checked is None or np.ndim(checked[1]):
        return None
    return sync_seconds(target, draft, checked[0], answers.n_steps, k1=said["k1"], verify_s=float(checked[1]))


def _checked(check: Check, answers: Answers, times: _Times) -> tuple[Flags, Array | np.float64] | None:
    """Which drafts are accepted, and the seconds of a verdict: one number, or one for each draft."""
    role = check.verifier
    if role in (JUDGE, EMBEDDING, EXACT):
        verdict_s = times.verdict(role)
        return None if verdict_s is None else (answers.accepted, np.float64(verdict_s))
    if role not in (GATE, CASCADE):
        return None
    gate_s, quality = times.verdict(GATE), answers.behaviour.quality
    if gate_s is None:
        return None
    unsure = answers.below("gate/unsure/0", quality.escalation if quality else 0.0)
    wrong = answers.below("gate/error/0", quality.gate_error if quality else 0.0) & ~unsure
    said = answers.accepted ^ wrong
    if role == GATE:
        return said, np.float64(gate_s)
    judge_s = times.verdict(JUDGE)
    if judge_s is None:
        return None
    appealed = unsure & (check.gamma > 0.5)  # a gate that is not confident has the score 0.5
    return said, gate_s + np.where(appealed, judge_s, 0.0)
