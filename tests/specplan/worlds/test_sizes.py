"""Lengths of answers: their mean, their spread, and where they are cut."""

import math

import numpy as np
import pytest
from deployments import deployment

from specplan.worlds.sizes import SLACK, Drawn, longest_answer


def lengths(n: int = 4096, **changed: float) -> np.ndarray:
    sizes = Drawn(**{"prompt_tokens": 100, "mean": 1000, "spread": 0.8, "longest": 4000, **changed})  # type: ignore[arg-type]
    return np.array([sizes.of(index)[1] for index in range(n)])


@pytest.mark.parametrize(("spread", "longest"), [(0.3, 4000), (0.8, 4000), (0.8, 1500), (2.0, 4000)])
def test_the_mean_is_as_asked_wherever_lengths_are_cut(spread: float, longest: int) -> None:
    drawn = lengths(spread=spread, longest=longest)
    assert drawn.max() <= longest
    assert drawn.min() >= 1
    assert drawn.mean() == pytest.approx(1000.0, rel=0.01)
    assert set(lengths(100, spread=spread, longest=1000)) == set(lengths(100, spread=0.0)) == {1000}


def test_sixteen_in_a_row_have_a_length_from_each_sixteenth() -> None:
    drawn = lengths().reshape(-1, 16)
    edges = np.quantile(drawn, np.linspace(0.0, 1.0, 17)[1:-1])
    ranks = np.sort(np.searchsorted(edges, drawn), axis=1)
    assert np.mean(ranks == np.arange(16)) > 0.95  # those at an edge may lie on either side
    means = drawn.mean(axis=1)
    assert means.std() < 0.3 * drawn.std() / math.sqrt(16), "short runs meet the whole distribution"


def test_answers_are_cut_at_what_models_read_and_caches_hold() -> None:
    wanted = deployment(context=9_000, answer_tokens=6_000)
    assert longest_answer(wanted, math.inf) == 24_000
    assert longest_answer(wanted, 20_000.0) == 20_000 - SLACK - 3_000
    assert longest_answer(wanted, 1.0) == 6_000
    assert wanted.target.facts.max_context == 40_960
    assert longest_answer(deployment(context=30_000, answer_tokens=20_000), math.inf) == 30_960
    assert longest_answer(deployment(context=9_000, answer_tokens=6_000, answer_spread=0.0), math.inf) == 6_000
