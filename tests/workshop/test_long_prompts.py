"""What long prompts cost of acceptance: the shipped constants are fitted, and cover reports that were left out."""

import pytest

from specplan.worlds.prior_constants import SHORT, constants
from specplan.worlds.priors import long_prompt_prior, long_prompt_prior_from
from workshop.long_prompts import REPORTS, Report, fit_long_prompts


def test_the_shipped_constants_are_fitted() -> None:
    assert fit_long_prompts() == constants().long_prompts
    prior = long_prompt_prior()
    assert prior.low == 0.0, "four reports lost next to nothing"
    assert prior.quantile(0.5) == pytest.approx(constants().long_prompts.loss, abs=0.01)


def test_a_loss_is_per_doubling_beyond_what_counts_as_short() -> None:
    """Of one drafted token: odds of 3 after a short prompt and of 1 after one of 8 times `SHORT`."""
    found = Report("a", 1, (100, 1.75), (8 * SHORT, 1.5), "made up").loss
    assert found == pytest.approx(1.0986 / 3.0, abs=1e-3)
    assert Report("a", 1, (2 * SHORT, 1.75), (8 * SHORT, 1.5), "made up").loss == pytest.approx(1.5 * found)


def test_seven_of_eight_reports_are_covered_by_the_others() -> None:
    """The eighth is EAGLE-3 of Qwen3-8B: trained on short texts, without a window."""
    missed = []
    for one in REPORTS:
        prior = long_prompt_prior_from(fit_long_prompts([other for other in REPORTS if other is not one]))
        if not prior.low <= max(one.loss, 0.0) <= prior.high:
            missed.append(one.drafter)
    assert missed == ["EAGLE-3 of Qwen3-8B"]
    assert REPORTS[0].loss <= long_prompt_prior().high
