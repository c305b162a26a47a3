"""SGLang's adaptive steps: what its code chooses on given sequences, laws of a slot, shares of rounds.

The sequences were followed by hand through sgl-project/sglang at 015c872628e328b530880bcf95ae91222604b225
(`python/sglang/srt/speculative/adaptive_spec_params.py`, `adaptive_step_router.py`); `test_steps_in_sglang.py` runs
that code.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused, refuses

from theory.adaptive.steps import DEFAULT_SLOTS, AdaptiveSteps, Slot, SlotRule, shares_of_steps

LOW, MIDDLE, HIGH, LARGE = (DEFAULT_SLOTS[size] for size in (1, 8, 32, 64))
CANDIDATES = st.lists(st.integers(0, 9), min_size=1, max_size=5)
RULES = st.builds(
    SlotRule,
    candidate_steps=CANDIDATES.map(tuple),
    ema_alpha=st.sampled_from([0.1, 0.2, 0.7, 1.0]),
    update_interval=st.integers(1, 4),
    warmup_batches=st.integers(0, 5),
    down_hysteresis=st.sampled_from([-0.25, 0.0, 0.25]),
    up_hysteresis=st.sampled_from([0.0, 0.5]),
    ceiling_coeff=st.sampled_from([0.0, 0.8, 1.5]),
)
ACCEPTED = st.lists(st.floats(0.0, 9.0), min_size=1, max_size=40)


def chosen(rule: SlotRule, initial: int, accepted: Sequence[float]) -> dict[int, int]:
    """Rounds after which the choice changed, to the new one; a draft accepts no more than it has tokens."""
    slot, found = Slot(rule, initial), {}
    for i, tokens in enumerate(accepted, 1):
        before = slot.steps
        slot.observe(min(tokens, float(before)))
        if slot.steps != before:
            found[i] = slot.steps
    return found


@pytest.mark.parametrize(
    ("rule", "initial", "accepted", "changes"),
    [
        (LOW, 3, [0.0] * 30, {15: 1}),
        (LOW, 3, [2.4] * 30, {}),
        (LOW, 3, [3.0] * 30, {15: 5}),
        (LOW, 5, [7.0] * 30, {15: 7}),
        (LOW, 7, [7.0] * 12 + [2.0] * 18, {20: 5, 30: 3}),
        (LOW, 2, [5.0] * 15, {15: 7}),  # no candidate: the middle one, 5, is drafted at first
        (MIDDLE, 3, [0.4] * 31, {15: 0, 20: 1, 25: 0, 30: 1}),
        (MIDDLE, 3, [0.4] * 20 + [0.9] * 5, {15: 0, 20: 1, 25: 3}),
        (HIGH, 1, [0.0] * 16 + [1.0] * 14, {15: 0, 20: 1}),
        (LARGE, 7, [7.0] * 40, {}),
        (SlotRule(candidate_steps=(0, 2)), 0, [2.0] * 20, {15: 2}),
        # without a draft seen, a first one begins at its neutral mean, 3: 12 empty rounds take that below a quarter
        (SlotRule(candidate_steps=(0, 4), warmup_batches=0, update_interval=1), 0, [0.0] * 14, {1: 4, 13: 0, 14: 4}),
        (SlotRule(candidate_steps=(1, 3, 5, 7), ceiling_coeff=1.0), 7, [3.2] * 15, {15: 3}),
        (SlotRule(candidate_steps=(1, 3, 5, 7), ceiling_coeff=1.5), 7, [3.2] * 15, {15: 5}),
        (SlotRule(candidate_steps=(1, 3, 5), update_interval=2, warmup_batches=1, ema_alpha=0.5), 3, [0.0] * 5, {3: 1}),
    ],
)
def test_a_slot_chooses_what_the_code_as_read_chooses(
    rule: SlotRule, initial: int, accepted: Sequence[float], changes: Mapping[int, int]
) -> None:
    assert chosen(rule, initial, accepted) == changes


@given(rule=RULES, initial=st.integers(0, 9), accepted=ACCEPTED, more=st.floats(0.0, 3.0))
def test_after_the_same_rounds_a_better_last_one_never_drafts_less(
    rule: SlotRule, initial: int, accepted: list[float], more: float
) -> None:
    both = []
    for last in (accepted[-1], accepted[-1] + more):
        slot = Slot(rule, initial)
        for tokens in (*accepted[:-1], last):
            slot.observe(min(tokens, float(slot.steps)))
        both.append(slot.steps)
    assert both == sorted(both)


def test_each_batch_size_has_its_slot_and_learns_from_its_own_rounds() -> None:
    control = AdaptiveSteps(DEFAULT_SLOTS, 3)
    assert [control.steps(batch) for batch in (1, 7, 8, 31, 32, 64, 500)] == [3, 3, 3, 3, 1, 0, 0]
    for _ in range(15):
        control.observe([0] * 10)
    control.observe([])
    assert [control.steps(batch) for batch in (4, 10)] == [3, 0]


def test_a_batch_is_padded_to_the_next_graph() -> None:
    rules = {first: SlotRule(candidate_steps=steps) for first, steps in ((4, (2,)), (8, (1,)))}
    control = AdaptiveSteps(rules, 2, [1, 2, 6, 16])
    assert [control.steps(batch) for batch in (1, 4, 6, 7, 16, 17)] == [2, 2, 2, 1, 1, 1]


def test_shares_are_those_of_the_controller_on_sequences_drawn_alone() -> None:
    """A batch of 12 whose mean is about a threshold, so that the slot goes to and fro."""
    rates, batch, rounds = (0.62, 0.6, 0.55), 12, 12000
    rule, rng = SlotRule(candidate_steps=(1, 3), down_hysteresis=0.65), np.random.default_rng(5)
    control, drafted = AdaptiveSteps({1: rule}, 3), []
    for _ in range(rounds):
        right = np.cumprod(rng.random((batch, 3)) < rates, axis=1).sum(axis=1)
        drafted.append(control.steps(batch))
        control.observe(np.minimum(right, drafted[-1]).tolist())
    shares = shares_of_steps(rule, rates, batch)
    assert 0.1 < shares[1] < 0.9
    assert shares[1] == pytest.approx(drafted.count(1) / rounds, abs=0.06)


def test_shares_sum_to_one_and_rise_with_acceptance() -> None:
    found = [shares_of_steps(LOW, [rate] * 7, 4) for rate in (0.1, 0.4, 0.6, 0.8, 0.95)]
    drafted = [sum(k * share for k, share in shares.items()) for shares in found]
    assert all(sum(shares.values()) == pytest.approx(1.0) for shares in found)
    assert all(low <= high for low, high in pairwise(drafted))
    assert (drafted[0], drafted[-1]) == (1.0, pytest.approx(7.0, abs=0.1))
    assert shares_of_steps(MIDDLE, [0.2] * 3, 8) == {
        0: pytest.approx(0.5, abs=0.01),
        1: pytest.approx(0.5, abs=0.01),
        3: 0.0,
    }


test_impossible_slots = refuses(
    lambda **said: SlotRule(**{"candidate_steps": (1,), **said}),
    ({"candidate_steps": ()}, "candidate_steps"),
    ({"candidate_steps": (1, -1)}, "candidate_steps"),
    ({"candidate_steps": (1.5,)}, "candidate_steps"),
    ({"ema_alpha": 0.0}, "ema_alpha=0"),
    ({"ema_alpha": "much"}, "ema_alpha='much'"),
    ({"update_interval": 0}, "update_interval=0"),
    ({"warmup_batches": -1}, "warmup_batches=-1"),
    ({"up_hysteresis": float("nan")}, "up_hysteresis=nan"),
)
test_impossible_arguments = refused(
    lambda call: call(),
    (lambda: AdaptiveSteps({}, 3), "rules"),
    (lambda: AdaptiveSteps({0: LOW}, 3), "batch size=0"),
    (lambda: shares_of_steps(LOW, [0.5] * 6, 4), "7 positions"),
    (lambda: shares_of_steps(HIGH, [1.5], 4), "conditional"),
    (lambda: shares_of_steps(HIGH, [0.5], 0), "batch=0"),
)
