"""ConfSpec's functions beyond the ledger's statements (`test_numeric_functions`): an inverse, limits, refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from theory import cascade


@given(st.floats(0.0, 1.0, allow_subnormal=False), st.integers(1, 1000))
def test_tolerable_disagreement_inverts_the_bound(loss: float, n: int) -> None:
    d = float(cascade.tolerable_disagreement(loss, n))
    assert float(cascade.accuracy_loss_bound(d, n)) == pytest.approx(loss, rel=1e-9, abs=1e-300)


def test_the_bound_at_its_limits_and_a_break_even_of_equal_and_of_all_costs() -> None:
    assert cascade.accuracy_loss_bound([0.0, 1.0, 0.5], [[0], [2]]).tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 0.75]]
    assert cascade.break_even_escalation([1.0, 2.0, 1e-300], [1.0 + 2**-40, 1.0, 1e300]).tolist() == [
        pytest.approx(2**-40, rel=1e-11),
        0.0,
        1.0,
    ]


test_bad_input_names_the_parameter = refused(
    lambda call: call(),
    (lambda: cascade.expected_verification_cost(1.5, 1.0, 2.0), "^escalation="),
    (lambda: cascade.expected_verification_cost(0.5, 0.0, 2.0), "^draft_cost="),
    (lambda: cascade.break_even_escalation(1.0, float("inf")), "^target_cost="),
    (lambda: cascade.accuracy_loss_bound(0.1, -1), "^n_decisions="),
    (lambda: cascade.tolerable_disagreement(0.1, 0), "^n_decisions="),
)
