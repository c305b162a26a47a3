"""Predictions: exact cases, laws, and what the intervals are made of."""

import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_profiles import STEP_TOKENS, measured
from pass_laws import mean_passes

from calibrate.record.library import bundled
from calibrate.record.profile import Profile
from calibrate.replay.system import system_of
from calibrate.replay.token_level import TokenLevel, TokenModel
from calibrate.token_acceptance.curves import fitted_alpha2
from sim.configuration import RULE_NAMES, Configuration
from specplan.planning import model_error as published
from specplan.planning.model_error import PUBLISHED_RULES, compared, fit_error, measured_error, model_error, rows
from specplan.planning.predict import Predictor
from theory import f_async, f_sync, g
from theory.errors import ParameterError
from workshop.published_table import simulated_rows

ALL, NONE = [True] * 24, [False] * 24


@pytest.fixture(scope="module")
def gsm8k() -> Predictor:
    return Predictor(bundled("lr-deepseek-gsm8k"), n_answers=4)


def test_plain_decoding_is_exactly_one(gsm8k: Predictor) -> None:
    found = gsm8k.predict(Configuration(method="autoregressive"))
    assert (found.speedup.value, found.speedup.low, found.speedup.high) == (1.0, 1.0, 1.0)
    assert (found.wasted_draft, found.wasted_target, found.accepted, found.peak_sequences) == (0.0, 0.0, 0.0, 1)


WHOLE = (24 * STEP_TOKENS - 1) / (24 * (STEP_TOKENS - 1))
"""Time of plain decoding, one request for 24 steps, / that of 24 requests, whose prefills are free: 1.048."""


def test_no_draft_accepted_costs_nothing_async_and_the_drafts_sync() -> None:
    """Async drafts beside the target, sync before it: with c1 = 0.1 and one draft a cycle takes 1.1 target steps."""
    predictor = Predictor(measured(NONE), uncertainty=False)
    ahead = predictor.predict(Configuration(method="lr-async", k1=2))
    sync = predictor.predict(Configuration(method="lr-sync", k1=2))
    assert ahead.speedup.value == pytest.approx(WHOLE * float(f_async(0.0, 0.1, 2)), rel=1e-3)
    assert sync.speedup.value == pytest.approx(WHOLE * float(f_sync(0.0, 0.1, 2)), rel=1e-3)
    assert ahead.accepted == sync.accepted == 0.0


@pytest.mark.parametrize("k1", [2, 3, 4])
def test_every_draft_accepted_reaches_the_closed_form(k1: int) -> None:
    """24 steps are whole cycles of 2, 3 and 4, and the last draft of an answer ends it as the target's step would."""
    predictor = Predictor(measured(ALL), uncertainty=False)
    found = predictor.predict(Configuration(method="lr-sync", k1=k1))
    assert found.speedup.value == pytest.approx(WHOLE * float(f_sync(1.0, 0.1, k1)), rel=1e-3)
    ahead = predictor.predict(Configuration(method="lr-async", k1=k1))
    assert ahead.speedup.value == pytest.approx(WHOLE * float(f_async(1.0, 0.1, k1)), rel=0.05)  # it has an end
    assert ahead.peak_sequences == k1


def test_uncertain_timings_widen_the_interval(gsm8k: Predictor) -> None:
    configuration = Configuration(method="lr-async", k1=3)
    sure = Predictor(gsm8k.profile, n_answers=4, uncertainty=False).predict(configuration)
    unsure = gsm8k.predict(configuration)
    assert sure.errors["profile"] == 0.0 < unsure.errors["profile"]
    assert unsure.speedup.low < sure.speedup.low < sure.speedup.value == unsure.speedup.value
    assert unsure.speedup.high > sure.speedup.high
    total = math.sqrt(sum(part**2 for part in unsure.errors.values()))
    assert math.log(unsure.speedup.high / unsure.speedup.low) == pytest.approx(2.0 * total)


def test_a_model_error_that_nobody_measured_is_said_not_to_be_in_the_interval(gsm8k: Predictor) -> None:
    """Known for Lookahead Reasoning with its judge, from the other rows of its table; of nothing else."""
    known = gsm8k.predict(Configuration(method="lr-async", k1=3))
    assert known.errors["model"] > 0.0
    for text in ("prompt-lookup k2=4", "confspec k1=3 verifier=judge", "lr-async k1=3 verifier=random"):
        found = gsm8k.predict(Configuration.parse(text))
        assert "model" not in found.errors
        assert any("not measured" in note for note in found.notes)
        assert found.simulated == found.speedup.value
    own = Predictor(measured(ALL), uncertainty=False).predict(Configuration(method="lr-async", k1=3))
    assert own.errors["model"] == measured_error(own.configuration).half_width
    assert any(note.startswith("model error") and "validations" in note for note in own.notes)


# Token level


def known(profile: Profile, k2: int) -> TokenModel | None:
    return TokenLevel(profile).find("prompt-lookup", {"k2": k2}, system_of(profile))


@given(alpha=st.floats(0.01, 0.99), k2=st.integers(2, 32))
def test_fitted_alpha2_inverts_g(alpha: float, k2: int) -> None:
    assert fitted_alpha2(float(g(alpha, 0.0, k2)), k2) == pytest.approx(alpha, abs=1e-9)
    assert (fitted_alpha2(0.96, k2), fitted_alpha2(float(k2), k2)) == (0.0, 1.0)


def test_published_token_speedup_is_met_where_it_was_published(gsm8k: Predictor) -> None:
    found = gsm8k.predict(Configuration(method="prompt-lookup", k2=9))
    assert found.speedup.value == pytest.approx(1.39, abs=0.002)
    assert found.speedup.low <= 1.385 + 0.002
    assert found.speedup.high >= 1.395 - 0.002
    widths = {}
    for k2 in range(2, 13):
        model = known(gsm8k.profile, k2)
        assert model.low <= model.tokens_per_pass <= model.high
        widths[k2] = model.high - model.low
    assert min(widths, key=widths.__getitem__) == 9
    assert widths[9] == pytest.approx(0.01)  # the rounding of two decimals


def test_counted_tokens_per_pass_are_the_counts() -> None:
    """10 passes, 4 accepted first and 2 accepted second tokens: 1.6 tokens per pass at k2 = 3.

    Steps have 20 tokens after their first; the mean number of passes, the last one cut, is exact by renewal. 72 steps
    of about 12.6 passes with standard deviation below 2 are known to 2 / 12.6 / sqrt(72) = 1.9 %; 5 sigma are allowed
    (false-alarm rate 6e-7 over seeds, none here: the draws are fixed).
    """
    profile = measured(ALL, ngram=True)
    model = known(profile, 3)
    assert model.tokens_per_pass == pytest.approx(1.6)
    assert known(profile, 5) is None, "counts reach three drafted tokens"
    found = Predictor(profile, uncertainty=False).predict(Configuration(method="prompt-lookup", k2=3))
    passes = mean_passes(20, [0.6, 0.2, 0.2])
    assert found.speedup.value == pytest.approx(20 / passes, rel=5 * 0.019)  # a batch costs as much as one here
    assert found.speedup.value < 1.6, "the last pass of each step is cut"


def test_profile_without_token_counts_says_so() -> None:
    with pytest.raises(ParameterError, match="k2=2' needs what profile 'measured-test' does not know: tokens"):
        Predictor(measured(ALL), uncertainty=False).predict(Configuration(method="prompt-lookup", k2=2))


# The published table


def test_own_row_never_enters_its_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: model_error(name, combined=False, rules="paper") for name in ("lr-qwen3-gpqa", "lr-qwen3-aime24")}
    changed = tuple(replace(r, step_published=9.0) if r.name == "lr-qwen3-gpqa" else r for r in rows())
    monkeypatch.setattr(published, "rows", lambda: changed)
    assert model_error("lr-qwen3-gpqa", combined=False, rules="paper") == before["lr-qwen3-gpqa"]
    assert model_error("lr-qwen3-aime24", combined=False, rules="paper").gain > before["lr-qwen3-aime24"].gain
    assert before["lr-qwen3-gpqa"].n == 13


def test_error_fit_by_hand() -> None:
    """y = x/2 + (0.01, -0.01): the gain is 0.5 + (0.1 - 0.2) 0.01 / 0.05 and the residuals follow."""
    error = fit_error([0.1, 0.2], [0.06, 0.09])
    gain = 0.5 + 0.01 * (0.1 - 0.2) / 0.05
    squares = (0.06 - gain * 0.1) ** 2 + (0.09 - gain * 0.2) ** 2
    assert error.gain == pytest.approx(gain)
    assert error.spread == pytest.approx(math.sqrt(squares))
    assert error.corrected(1.0) == 1.0


def test_intervals_of_left_out_rows_cover_what_was_published() -> None:
    """95 % intervals on 14 rows and two speedups: fewer than 23 of 28 covered has probability below 2e-3."""
    covered = 0
    for row, combined in product([row for row in rows() if row.rules == "released-code"], (False, True)):
        error = model_error(row.name, combined=combined, rules=row.rules)
        simulated, actual = compared(row, combined)
        covered += abs(math.log(actual / error.corrected(simulated))) <= error.half_width
    assert 23 <= covered <= 28


@pytest.mark.parametrize(
    "rules", [pytest.param(one, marks=() if one == PUBLISHED_RULES else pytest.mark.slow) for one in RULE_NAMES]
)
def test_committed_table_is_what_the_simulator_says(rules: str) -> None:
    assert simulated_rows(rules) == [row for row in rows() if row.rules == rules]
