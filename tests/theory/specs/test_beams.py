"""Closed forms of test-time scaling: limits, laws, enumeration of small cases."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from theory.specs.beams import beam_speedup, rsd_beams_speedup, specs_speedup
from theory.step_methods import best_of_speedup

SWITCHES = ("once", "both-ways", "retry", "random", "never")
shares, costs = st.floats(0.0, 1.0), st.floats(0.1, 2.0)


@given(alpha=shares, n=st.integers(1, 20), draft=st.floats(0.01, 1.0), score=shares, target=costs)
def test_beams_of_rsd_are_a_path_of_as_many_drafts_that_scores_the_target_too(
    alpha: float, n: int, draft: float, score: float, target: float
) -> None:
    """In the target's candidates for the unit of time."""
    several = target * float(rsd_beams_speedup(alpha, n, (draft + score) * target, target))
    assert several == pytest.approx(float(best_of_speedup(alpha, draft, n, score)), rel=1e-12)


@given(
    n=st.integers(1, 6), p=shares, q=shares, share=shares, switch=st.sampled_from(SWITCHES), first=st.booleans(),
    target=costs, draft=costs,
)  # fmt: skip
def test_specs_speedup_by_summing_over_every_course_of_events(
    n: int, p: float, q: float, share: float, switch: str, first: bool, target: float, draft: float
) -> None:
    start = "target" if first else "draft"
    found = specs_speedup(n, p, q, target, draft, switch=switch, start=start, share=share)  # type: ignore[arg-type]
    by_target, by_draft = _by_enumeration(n, p, q, switch, start, share)
    assert found == pytest.approx(n / (by_target * target + by_draft * draft), rel=1e-12)


def _by_enumeration(n: int, p: float, q: float, switch: str, start: str, share: float) -> tuple[float, float]:
    """Every sequence of promising (or, at random, of drawn) steps, with its probability."""
    target = draft = 0.0
    for events in itertools.product((True, False), repeat=n):
        probability, role = 1.0, "draft" if switch == "retry" else start
        for happens in events:
            chance = share if switch == "random" else p if role == "target" else q
            weight = chance if happens else 1.0 - chance
            probability *= weight
            role = _next(role, happens, switch)
        role = "draft" if switch == "retry" else start
        for happens in events:
            target += probability * ((role == "target") + (switch == "retry" and not happens))
            draft += probability * (role == "draft")
            role = _next(role, happens, switch)
    return target, draft


def _next(role: str, happens: bool, switch: str) -> str:
    if switch == "random":
        return "target" if happens else "draft"
    if switch in ("never", "retry"):
        return role
    return "draft" if happens else ("target" if switch == "both-ways" else role)


test_values_outside_the_domain_are_named = refused(
    lambda call: call(),
    (lambda: beam_speedup(0.0), "step_cost"),
    (lambda: rsd_beams_speedup(1.2, 1, 1.0, 1.0), "alpha1"),
    (lambda: specs_speedup(0, 0.5, 0.5, 1.0, 1.0), "n_steps"),
    (lambda: specs_speedup(3, 0.5, 0.5, 1.0, 1.0, switch="twice"), "switch"),
    (lambda: specs_speedup(3, 0.5, 0.5, 1.0, 1.0, start="user"), "start"),
    (lambda: specs_speedup(3, 0.5, math.nan, 1.0, 1.0), "promising_draft"),
)
