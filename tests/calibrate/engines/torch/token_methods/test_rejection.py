"""Speculative rejection sampling, integrated exactly: every draft, every decision, with its exact weight.

All probabilities are quarters, so thresholds of acceptance and of the draw afterwards are multiples of 1/12, and the
midpoints of 12 equal parts of [0, 1) stand for the uniforms without any error: counts are exact, and so are the laws.
"""

from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
import torch

from calibrate.engines.torch.token_methods.draft_model import verify_drafts

PARTS = 12  # least common multiple of 1, 2, 3 and 4
UNIFORMS = [(i + 0.5) / PARTS for i in range(PARTS)]
TARGETS = [(1, 1, 1, 1), (2, 1, 1, 0), (0, 3, 1, 0), (0, 0, 0, 4), (1, 0, 2, 1)]
DRAFTS = [(1, 1, 1, 1), (0, 2, 2, 0), (3, 0, 1, 0), (2, 1, 1, 0), (0, 0, 4, 0)]


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, 4)


@pytest.mark.parametrize("p", TARGETS)
@pytest.mark.parametrize("q", DRAFTS)
def test_one_drafted_token_becomes_the_targets(p, q):
    """The first token's law is p exactly, and a draft is accepted with probability sum of min(p, q)."""
    bonus = (1, 2, 0, 1)
    drafted = [x for x in range(4) for _ in range(q[x])]  # each stands for a quarter
    cases = list(product(drafted, UNIFORMS, UNIFORMS))
    found = verify_drafts(
        tensor([p, bonus] * len(cases)),
        tensor([q] * len(cases)),
        [[x] for x, _, _ in cases],
        [[u] for _, u, _ in cases],
        [[v, v] for _, _, v in cases],
    )
    first = Counter(tokens[0] for tokens in found)
    assert [Fraction(first[x], len(cases)) for x in range(4)] == [Fraction(n, 4) for n in p]
    accepted = Counter((tokens[0], tokens[1]) for tokens in found if len(tokens) == 2)
    for x, y in product(range(4), repeat=2):
        assert Fraction(accepted[x, y], len(cases)) == Fraction(min(p[x], q[x]), 4) * Fraction(bonus[y], 4)


def test_a_chain_of_drafts_becomes_the_targets():
    """Given that a token was accepted, the next has the target's law after it; the law depends on the token."""
    p1, q1 = (2, 1, 1, 0), (1, 1, 0, 2)
    p2 = {0: (1, 1, 1, 1), 1: (0, 3, 1, 0), 2: (4, 0, 0, 0), 3: (1, 1, 1, 1)}
    q2 = {0: (2, 0, 1, 1), 1: (1, 1, 1, 1), 2: (1, 3, 0, 0), 3: (1, 1, 1, 1)}
    cases = []
    for x, y in product(range(4), repeat=2):
        decisions = product(UNIFORMS, UNIFORMS, UNIFORMS)
        cases += [(x, y, u, w, v) for u, w, v in decisions] * (q1[x] * q2[x][y])  # each stands for a sixteenth
    found = verify_drafts(
        tensor([row for x, *_ in cases for row in (p1, p2[x], (1, 1, 1, 1))]),
        tensor([row for x, *_ in cases for row in (q1, q2[x])]),
        [[x, y] for x, y, *_ in cases],
        [[u, w] for _, _, u, w, _ in cases],
        [[v, v, v] for *_, v in cases],
    )
    n = len(cases)
    first = Counter(tokens[0] for tokens in found)
    assert [Fraction(first[x], n) for x in range(4)] == [Fraction(one, 4) for one in p1]
    pairs = Counter((tokens[0], tokens[1]) for tokens in found if len(tokens) > 1)
    for x, y in product(range(4), repeat=2):
        assert Fraction(pairs[x, y], n) == Fraction(min(p1[x], q1[x]), 4) * Fraction(p2[x][y], 4)


def test_weights_need_not_be_normalised_and_drafts_may_be_missing():
    target, draft = tensor([(2, 4, 2, 0), (0, 0, 8, 0), (0, 0, 0, 3)]), tensor([(0, 5, 0, 0)])
    # p(1) = 1/2, q(1) = 1: accepted below 1/2; the second sequence has no draft and draws from its only row
    assert verify_drafts(target, draft, [[1], []], [[0.49], []], [[0.9, 0.9], [0.9]]) == [[1, 2], [3]]
    assert verify_drafts(target, draft, [[1], []], [[0.51], []], [[0.9, 0.9], [0.9]]) == [[2], [3]]
    assert verify_drafts(tensor([(0, 1, 0, 0)]), tensor([]), [[]], [[]], [[0.3]]) == [[1]]


def test_equal_laws_accept_everything():
    law = tensor([(1, 2, 1, 0)])
    found = verify_drafts(torch.cat([law, law]), law, [[1]], [[1.0 - 2.0**-52]], [[0.1, 0.1]])
    assert found == [[1, 0]]
