"""Closed forms of test-time scaling: limits, laws, enumeration of small cases."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from theory.specs.beams import beam_speedup, rsd_beams_speedup, specs_generations, specs_speedup
from theory.step_methods import graded_speedup

SWITCHES = ("once", "both-ways", "retry", "random", "never")
shares = st.floats(0.0, 1.0)


def test_one_beam_of_one_candidate_costs_its_score_only() -> None:
    assert float(beam_speedup(1.25)) == 0.8


@given(alpha=shares, draft=st.floats(0.01, 1.0), score=st.floats(0.0, 1.0))
def test_a_single_beam_of_rsd_is_the_single_path_that_scores_the_target_too(
    alpha: float, draft: float, score: float
) -> None:
    several = float(rsd_beams_speedup(alpha, 1, draft + score, 1.0))
    assert several == pytest.approx(float(graded_speedup(alpha, draft, score)), rel=1e-12)


@given(alpha=shares, n=st.integers(1, 20))
def test_more_beams_fail_together_less_often(alpha: float, n: int) -> None:
    assert float(rsd_beams_speedup(alpha, n + 1, 0.5, 1.0)) >= float(rsd_beams_speedup(alpha, n, 0.5, 1.0)) - 1e-12


@given(n=st.integers(1, 12), p=shares, q=shares, share=shares, switch=st.sampled_from(SWITCHES), first=st.booleans())
def test_generations_by_summing_over_every_course_of_events(
    n: int, p: float, q: float, share: float, switch: str, first: bool
) -> None:
    n = min(n, 6)
    start = "target" if first else "draft"
    found = specs_generations(n, p, q, switch=switch, start=start, share=share)  # type: ignore[arg-type]
    assert found == pytest.approx(_by_enumeration(n, p, q, switch, start, share), abs=1e-12)
    assert sum(found) == pytest.approx(n) or switch == "retry"


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


def test_specs_speedup_between_its_two_models() -> None:
    assert specs_speedup(10, 0.5, 0.5, 1.2, 0.6, switch="never") == pytest.approx(1 / 1.2)
    assert specs_speedup(10, 0.5, 0.5, 1.2, 0.6, switch="never", start="draft") == pytest.approx(1 / 0.6)
    for switch in ("once", "both-ways", "random"):
        assert 1 / 1.2 <= specs_speedup(10, 0.5, 0.5, 1.2, 0.6, switch=switch) <= 1 / 0.6
    assert specs_speedup(10, 0.0, 0.5, 1.2, 0.6) == pytest.approx(1 / 1.2)  # tau is never reached: beam search


test_values_outside_the_domain_are_named = refused(
    lambda call: call(),
    (lambda: beam_speedup(0.0), "step_cost"),
    (lambda: rsd_beams_speedup(1.2, 1, 1.0, 1.0), "alpha1"),
    (lambda: specs_generations(0, 0.5, 0.5), "n_steps"),
    (lambda: specs_generations(3, 0.5, 0.5, switch="twice"), "switch"),
    (lambda: specs_generations(3, 0.5, 0.5, start="user"), "start"),
    (lambda: specs_speedup(3, 0.5, math.nan, 1.0, 1.0), "promising_draft"),
)
