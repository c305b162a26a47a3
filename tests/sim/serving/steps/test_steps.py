"""The loop of Lookahead Reasoning against the engines of events: a load says the same, whatever is set.

Schedules of all kinds, engines on devices of their own or shared, a judge that is the target or another model, caches
that hold few answers, requests that travel, answers met under way, drafted passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.algorithms.checks import Check
from sim.algorithms.lookahead_async import lookahead_async
from sim.algorithms.lookahead_sync import lookahead_sync
from sim.algorithms.rules import EAGER, PAPER, RELEASED_CODE, Rules
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.answers.token_passes import DrawnPasses, SpeculatedAnswer
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.device import Device
from sim.operations import DRAFT, JUDGE, TARGET
from sim.serving import run
from sim.serving.answers import ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.limits import Joined, JoinLaw, ServingLimits
from sim.serving.loop import running
from sim.serving.steps.loop import loop
from sim.serving.steps.running import served_by
from sim.trial import Trial
from theory.errors import ParameterError

LONGEST = 800
"""Tokens that a text of these settings has at most, its verdicts included."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is served, and on what."""

    k1: int
    rules: Rules
    alpha: float
    mean: int
    spread: float
    steps: int
    prompt: int
    passes: bool
    placement: str
    """``own``: each engine has a device; ``shared``: all have one; ``target``: the target judges."""
    batching: str
    """Which engine reads prompts before decoding, if any; a role."""
    law: JoinLaw
    request_s: float
    waking_s: float
    limits: ServingLimits
    seed: int

    def trial(self) -> Trial:
        """A new trial of the same answers."""
        home = Device()
        devices = [home] * 3 if self.placement == "shared" else [home, Device(), Device()]
        roles = {TARGET: 1.0, DRAFT: 0.21, JUDGE: 0.7}
        if self.placement == "target":
            del roles[JUDGE]
        engines = {role: self._engine(role, roles[role], device) for role, device in zip(roles, devices, strict=False)}
        lengths = Lognormal(mean=float(self.mean), cv=self.spread) if self.spread else Fixed(self.mean)
        behaviour = SyntheticBehaviour(
            lengths=Lengths(target=lengths, draft=lengths, correlation=0.5, limit=2 * self.mean),
            acceptance=Acceptance(alpha=self.alpha),
            steps=Fixed(self.steps),
            prompt_tokens=self.prompt,
            judge_overhead_tokens=7,
            seed=self.seed,
        )
        trial = Trial.of(partial(lookahead_async, k1=self.k1, rules=self.rules), behaviour, engines)
        if not self.passes:
            return trial
        source = DrawnPasses(pmf=(0.3, 0.2, 0.15, 0.35), seed=self.seed)
        return trial.with_answers(lambda index: SpeculatedAnswer(trial.answer(index), {TARGET: source}, index))

    def _engine(self, role: str, factor: float, device: Device) -> BatchEngine:
        cost = LinearCost(
            base_s=0.0101 * factor, sequence_s=0.00073 * factor, context_s=3e-7 * factor, prefill_s=0.0017 * factor,
            prefill_token_s=2.9e-5 * factor, request_s=self.request_s * (1.0 + factor),
        )  # fmt: skip
        if role == self.batching:
            most = math.inf if self.limits.max_sequences == 64 else self.limits.max_sequences
            return BatchEngine(cost, device, waking_s=self.waking_s, max_batch=most)
        limits = self.limits if role == TARGET else ServingLimits()
        return ServingEngine(Joined(cost, self.law), device, limits=limits, waking_s=self.waking_s)


RULES = st.builds(
    Rules,
    prefetch_draft=st.booleans(),
    extra_in_flight=st.integers(0, 1),
    late_draft=st.sampled_from(["wait", "cancel", "in-order"]),
    restart=st.sampled_from(["verdict", "in-order"]),
    reject_first=st.booleans(),
    reject_after_truncation=st.booleans(),
    cancel_at_end=st.booleans(),
)
SETTINGS = st.builds(
    Setting,
    k1=st.integers(1, 5),
    rules=st.sampled_from([PAPER, RELEASED_CODE, EAGER]) | RULES,
    alpha=st.sampled_from([0.0, 0.4, 0.8, 1.0]),
    mean=st.sampled_from([3, 17, 40]),
    spread=st.sampled_from([0.4, 1.1]),
    steps=st.integers(1, 7),
    prompt=st.sampled_from([1, 40, 130]),
    passes=st.booleans(),
    placement=st.sampled_from(["own", "shared", "target"]),
    batching=st.sampled_from(["", TARGET, DRAFT, JUDGE]),
    law=st.builds(
        JoinLaw,
        outside_s=st.sampled_from([0.0, 0.0013, -0.002]),
        share=st.sampled_from([0.0, 0.37, 1.0]),
        token_s=st.sampled_from([0.0, 1.1e-5]),
    ),
    request_s=st.sampled_from([0.0, 0.00317, 0.0447]),
    waking_s=st.sampled_from([0.0, 0.0091]),
    limits=st.builds(
        ServingLimits,
        max_batched_tokens=st.sampled_from([16, 120, 8192]),
        max_sequences=st.sampled_from([1, 3, 64]),
        # No fraction of few passes, so that nobody fits just so.
        cache_tokens=st.sampled_from([LONGEST + 0.3717, 2.5 * LONGEST + 0.3717, math.inf]),
        rows=st.sampled_from([1.0, 4.0]),
        chunked=st.booleans(),
    ),
    seed=st.integers(0, 1000),
)  # fmt: skip


def loads(work: Callable[[], ServedLoad], way: Callable[..., Any] | None = loop) -> tuple[ServedLoad, ServedLoad]:
    """The load by the loop, and by the engines of events."""
    found = []
    for chosen in (way, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "loop_for", lambda trial, tokens, first, chosen=chosen: chosen)
            found.append(work())
    return found[0], found[1]


def check_alike(found: ServedLoad, expected: ServedLoad) -> None:
    """All that a load says is the same, sums of floats up to rounding."""
    for name in ("n_ended", "tokens", "preempted", "seed", "in_flight"):
        assert getattr(found, name) == getattr(expected, name), name
    for name in ("seconds", "cache_share", "waited_s", "busy", "unended_s"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9, abs=1e-9), name
    rows = ([[getattr(one, field.name) for field in fields(one)] for one in load.answers] for load in (found, expected))
    for own, other in zip(*rows, strict=True):
        assert own == pytest.approx(other, rel=1e-9, abs=1e-12)


def closed(setting: Setting, concurrency: int, *, met: bool, rounds: bool, answers: float = 3.0) -> ServedLoad:
    """The load of a closed loop."""
    tokens = max(int(answers * concurrency * setting.mean * setting.steps), 1)
    return run.closed_loop(
        setting.trial(),
        concurrency=concurrency,
        tokens=tokens,
        warmup_tokens=tokens // 4,
        met_under_way=met,
        whole_rounds=rounds,
        first=setting.seed,
    )


@settings(max_examples=150, deadline=None)
@given(setting=SETTINGS, concurrency=st.integers(1, 9), met=st.booleans(), rounds=st.booleans())
def test_a_load_says_what_it_says_with_events(setting: Setting, concurrency: int, met: bool, rounds: bool) -> None:
    assert served_by(setting.trial()) is not None
    check_alike(*loads(lambda: closed(setting, concurrency, met=met, rounds=rounds)))


BENCH = Setting(
    k1=4, rules=RELEASED_CODE, alpha=0.6, mean=40, spread=1.2, steps=20, prompt=200, passes=False, placement="own",
    batching="", law=JoinLaw(share=1.0), request_s=0.002, waking_s=0.0, limits=ServingLimits(cache_tokens=9000.4),
    seed=1,
)  # fmt: skip


def test_caches_fill_up_and_the_loop_runs_to_its_end() -> None:
    """No run of this size falls back on events."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "loop_for", lambda trial, tokens, first: loop)
        patch.setattr(run, "_Run", None)
        assert closed(BENCH, 12, met=True, rounds=True).preempted > 20


def test_what_needs_events_gets_them() -> None:
    """Other schedules and verifiers, several drafts, engines of other kinds, answers that are not drawn."""
    one = BENCH.trial()
    assert served_by(one) is not None
    for knobs in ({"width": 2}, {"rules": replace(PAPER, slot="any-target")}, {"check": Check(verifier="gate")}):
        assert served_by(replace(one, algorithm=partial(lookahead_async, k1=2, **knobs))) is None
    assert served_by(replace(one, algorithm=partial(lookahead_sync, k1=2))) is None
    assert served_by(replace(one, engines={**one.engines, DRAFT: BatchEngine(LinearCost(base_s=1.0))})) is None
    assert served_by(replace(one, engines={**one.engines, DRAFT: BatchEngine(one.engines[DRAFT].cost)})) is None
    small = ServingEngine(one.engines[DRAFT].cost, limits=ServingLimits(cache_tokens=1e6))
    assert served_by(replace(one, engines={**one.engines, DRAFT: small})) is None


def test_a_request_that_no_cache_holds_is_refused() -> None:
    with pytest.raises(ParameterError, match="must hold a request of"):
        loads(lambda: closed(replace(BENCH, limits=ServingLimits(cache_tokens=150)), 2, met=False, rounds=False))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("numba") is None, reason="needs numba: it is in the extra 'fast'")
def test_the_compiled_loop_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit: settings of each kind."""
    kinds = [
        replace(BENCH, rules=rules, placement=placement, batching=batching, passes=passes, limits=limits)
        for rules, placement, batching, passes, limits in (
            (RELEASED_CODE, "own", "", False, BENCH.limits),
            (PAPER, "shared", DRAFT, True, BENCH.limits),
            (EAGER, "target", "", False, replace(BENCH.limits, chunked=False)),
        )
    ]
    in_python = [loads(lambda one=one: closed(one, 12, met=True, rounds=True))[0] for one in kinds]
    monkeypatch.setattr(running, "WORTH_COMPILING", 0)
    assert [closed(one, 12, met=True, rounds=True) for one in kinds] == in_python
