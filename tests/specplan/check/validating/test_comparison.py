"""Predictions of a validation beside stand-ins: figures by brute force, laws, simulated coverage, text and data."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_profiles import measured, speculated
from scipy import stats

from calibrate.running.interleaved import BASELINE, RealRun, Runs
from calibrate.running.interleaved import measured as summary
from sim.configuration import Configuration
from sim.estimate import proportion
from sim.timeline import Counts
from specplan.check.validating.closed_forms import closed_form
from specplan.check.validating.comparison import (
    PLAIN,
    Comparison,
    compare,
    inside,
    kendall_tau,
    resampled,
    skill,
    spearman_rho,
)
from specplan.check.validating.next_measurement import Measurements
from specplan.check.validating.validation import Row, Validation
from specplan.output import SCREEN, to_json
from specplan.planning.advice import Advice
from specplan.planning.predict import Predictor
from specplan.show.validations import Validated, first_screen

N = 12
PROFILE = speculated(measured([True, True, False, True]))
TRUE = {"lr-async k1=1": 0.9, "lr-async k1=4": 1.8, "draft-model k2=3": 1.4, "lr-async k1=4 verifier=random": 1.1}
"""Measured speedups; the last one has no closed form, as nobody recorded its verdicts."""


def validation(names: list[str]) -> Validation:
    predictor, measurements = Predictor(PROFILE, uncertainty=False), Measurements(PROFILE)
    seconds = np.random.default_rng(1).lognormal(0.0, 0.5, N)
    noise = np.random.default_rng(2)
    runs = Runs(by_name={BASELINE: [_run(s) for s in seconds]})
    for name in names:
        runs.by_name[name] = [_run(s / TRUE[name] * noise.lognormal(0.0, 0.05)) for s in seconds]
    rows = []
    for name in names:
        prediction = predictor.predict(Configuration.parse(name.replace(" verifier=random", "")))
        rows.append(
            Row(
                name=name,
                prediction=prediction,
                measured=summary(runs, name),
                expected=measurements.expected(prediction, N),
                closed_form=closed_form(PROFILE, Configuration.parse(name)),
            )
        )
    return Validation(profile="fake", rows=tuple(rows), baseline=summary(runs, BASELINE), runs=runs)


def _run(seconds: float) -> RealRun:
    return RealRun(problem="p", seconds=float(seconds), counts=Counts(), correct=None)


@pytest.fixture(scope="module")
def found() -> Validation:
    return validation(list(TRUE))


@pytest.fixture(scope="module")
def compared(found: Validation) -> Comparison:
    there = compare(found)
    assert there is not None
    return there


def test_rows_without_a_closed_form_are_left_out_of_its_figures_and_named(compared: Comparison) -> None:
    n_rows = {who: skill.n_rows for who, (skill, _) in compared.skills.items()}
    assert n_rows == {"specplan": 4, "specplan, rows with a closed form": 3, "closed forms": 3, "a constant": 4}
    assert compared.without_form == ("lr-async k1=4 verifier=random",)
    assert "Without a closed form: lr-async k1=4 verifier=random." in compared.notes()


def test_where_all_rows_have_a_form_specplan_has_one_line() -> None:
    there = compare(validation(list(TRUE)[:3]))
    assert there is not None
    assert list(there.skills) == ["specplan", "closed forms", "a constant"]
    assert compare(validation(list(TRUE)[:2])) is None


def test_what_plan_rules_out_for_its_accuracy_is_left_out_of_a_line_of_its_own(found: Validation) -> None:
    right = [0.9, 0.87, 0.5, 0.86]  # of 0.9 for plain decoding
    rows = [
        replace(row, prediction=replace(row.prediction, accuracy=proportion(round(1000 * share), 1000)))
        for row, share in zip(found.rows, right, strict=True)
    ]
    rows = [replace(r, prediction=replace(r.prediction, baseline_accuracy=proportion(900, 1000))) for r in rows]
    there = compare(replace(found, rows=tuple(rows)))
    assert there is not None
    assert there.skills["specplan, rows that plan allows"][1] == (0, 1, 3)


def test_a_constant_good_rows_and_coverage_by_hand(found: Validation, compared: Comparison) -> None:
    values = [row.prediction.speedup.value for row in found.rows]
    assert compared.constant == pytest.approx(float(np.prod(values)) ** 0.25)
    assert compared.skills["a constant"][0].kendall is None
    assert compared.choice("a constant") in ("plain decoding", "any of 4")
    inside = [row.expected.contains(row.measured.speedup.value) for row in found.rows]
    assert (compared.in_next.value, compared.in_next.n) == (sum(inside) / 4, 4)
    assert compared.in_predicted.value <= compared.in_next.value
    within = [abs(row.error) <= 0.1 for row in found.rows]
    assert [row.good for row in found.rows] == [a or b for a, b in zip(inside, within, strict=True)]


def test_text_and_data_say_the_same(found: Validation, compared: Comparison) -> None:
    advice = Advice(servers=(), client=None, notes=())
    result = Validated(validation=found, profile=PROFILE, advice=advice)
    text, data = result.text(verbose=True), json.loads(to_json(result.plain()))
    assert "How well predictions rank the 4 rows" in text
    by = data["telling_apart"]["predictions_by"]
    assert list(by) == sorted(compared.skills)
    assert by["specplan"]["chosen"] == [compared.choice("specplan")]
    assert by["closed forms"]["rows"] == list(TRUE)[:3]
    assert by["specplan"]["kendall"]["value"] == compared.skills["specplan"][0].kendall.value  # type: ignore[union-attr]
    assert data["rows"][0]["next_measurement"]["low"] == found.rows[0].expected.low


def test_the_first_screen_says_how_good_predictions_were_in_80_columns(found: Validation) -> None:
    screen = first_screen(found)
    assert max(map(len, screen.splitlines())) <= SCREEN
    first = " ".join(screen.split("\n\n")[0].split())
    good = sum(row.good for row in found.rows)
    assert first.startswith(f"{good} of 4 predictions from fake are good, measured on {N} fresh questions")
    largest = max((row.error for row in found.rows), key=abs)
    assert f"the largest {100 * largest:+.1f} %" in first
    assert "The papers' closed forms: median error" in first
    shown = [line for line in screen.splitlines() if line.startswith(tuple(TRUE))]
    assert len(shown) == 4
    assert sum(line.endswith(" off") for line in shown) == 4 - good
    assert "closed forms" not in first_screen(validation(list(TRUE)[:2]))


speedups = st.lists(st.sampled_from([0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2.0, 3.0]), min_size=3, max_size=7)
seeds = st.integers(0, 10**6)


def timed(true: Any, n: int = 40, noise: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
    """Times of rows with these speedups, and of plain decoding: lognormal questions, noise of each answer's own."""
    rng = np.random.default_rng(seed)
    question = rng.lognormal(0.0, 0.5, n)
    own = question / np.asarray(true)[:, None] * rng.lognormal(0.0, noise, (len(true), n))
    return own, question * rng.lognormal(0.0, noise, n)


@settings(max_examples=30)
@given(speedups, seeds)
def test_correlations_are_those_of_scipy(true: list[float], seed: int) -> None:
    x = np.asarray(true)
    y = np.random.default_rng(seed).choice([1.0, 2.0, 3.0], (5, x.size))
    for ours, theirs in ((kendall_tau, stats.kendalltau), (spearman_rho, stats.spearmanr)):
        for found, row in zip(ours(x, y), y, strict=True):
            if np.ptp(x) == 0.0 or np.ptp(row) == 0.0:
                assert math.isnan(found)
            else:
                assert found == pytest.approx(theirs(x, row).statistic, abs=1e-12)


@settings(max_examples=30)
@given(speedups, seeds)
def test_figures_are_those_of_brute_force(predicted: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, plain = timed(rng.uniform(0.5, 2.0, len(predicted)), seed=seed)
    found = skill(predicted, resampled(own, plain))
    real = [float(plain.sum() / row.sum()) for row in own]
    errors = [abs(p / m - 1.0) for p, m in zip(predicted, real, strict=True)]
    chosen = [m for p, m in zip([1.0, *predicted], [1.0, *real], strict=True) if p == max([1.0, *predicted])]
    regret = max([1.0, *real]) / math.prod(chosen) ** (1 / len(chosen)) - 1.0
    assert found.regret.value == pytest.approx(regret, abs=1e-12)
    assert found.regret.low <= found.regret.value <= found.regret.high
    assert (found.mean_error, found.median_error) == pytest.approx((np.mean(errors), np.median(errors)))
    assert abs(found.largest_error) == pytest.approx(max(errors))
    assert found.n_ordered <= found.n_pairs <= math.comb(len(predicted) + 1, 2)
    assert found.best == int(np.argmax([1.0, *real])) - 1


def test_the_right_order_has_no_regret_and_the_wrong_one_has_the_most() -> None:
    true = [0.5, 0.8, 1.2, 1.5]
    own = 1.0 / np.asarray(true)[:, None] * np.linspace(0.5, 1.5, 20)  # no noise but the questions' own
    measured = resampled(own, np.linspace(0.5, 1.5, 20))
    right, wrong = skill(true, measured), skill(true[::-1], measured)
    assert right.kendall is not None
    assert (right.kendall.value, right.kendall.low, right.n_ordered, right.n_pairs) == (1.0, 1.0, 10, 10)
    assert (right.regret.value, right.regret.high) == pytest.approx((0.0, 0.0))
    assert (wrong.regret.value, wrong.regret.low) == pytest.approx((2.0, 2.0))
    tied = resampled(1.0 / np.array([0.5, 1.2, 1.2, 2.0])[:, None] * np.ones(10), np.ones(10))
    mixed = skill([0.6, 1.1, 0.9, 0.8], tied)  # of ten pairs, with plain decoding's, one is tied
    assert (mixed.n_ordered, mixed.n_pairs) == (5, 9)
    assert np.array_equal(tied.only([3, 0, 1]).resamples, tied.resamples[:, [3, 0, 1]])


def test_a_constant_ranks_nothing_and_chooses_anything() -> None:
    own, plain = timed([1.2, 1.5, 2.0], noise=0.0)
    above, below = (skill([value] * 3, resampled(own, plain)) for value in (1.4, 0.7))
    assert (above.kendall, above.spearman, above.chosen, below.chosen) == (None, None, (0, 1, 2), (PLAIN,))
    assert above.regret.value == pytest.approx(2.0 / (1.2 * 1.5 * 2.0) ** (1 / 3) - 1.0)
    assert below.regret.value == pytest.approx(1.0)


ROWS = np.exp(0.05 * np.arange(12.0) - 0.3)
GUESSED = ROWS * np.exp(np.random.default_rng(0).normal(0.0, 0.08, 12))
INTERVALS: dict[str, tuple[Any, Any, dict[str, float], dict[str, Any]]] = {
    "no regret, however large the measured one": ([1.5] * 8, [1.6, *[1.5] * 7], {"regret": 1e-12}, {}),
    "a regret of 10 %": ([1.0, 1.05, 1.1, 0.9], [1.3, 1.2, 1.1, 1.0], {"regret": 0.1}, {}),
    "correlations with the true speedups": (
        *(ROWS, GUESSED),
        {"kendall": float(kendall_tau(GUESSED, ROWS)), "spearman": float(spearman_rho(GUESSED, ROWS))},
        {"n": 60, "noise": 0.25},
    ),
}
"""True and predicted speedups, the exact figures, and how the worlds are drawn."""


@pytest.mark.parametrize("name", INTERVALS)
def test_intervals_hold(name: str) -> None:
    """Of 60 worlds at most 5 % may leave [low, high]: more than 9 come by chance with probability below 1e-3."""
    true, predicted, exact, drawn = INTERVALS[name]
    found = [skill(predicted, resampled(*timed(true, seed=seed, **drawn))) for seed in range(60)]
    for figure, value in exact.items():
        ends = [getattr(one, figure) for one in found]
        assert sum(not one.low <= value <= one.high for one in ends) <= 9, figure


@given(st.integers(1, 40), st.data())
def test_coverage_has_the_exact_interval(n: int, data: st.DataObject) -> None:
    """Clopper and Pearson: at the limits the tail has probability 2.5 %."""
    k = data.draw(st.integers(0, n))
    found = inside([0.0] * n, [1.0] * n, [0.5] * k + [2.0] * (n - k))
    assert (found.value, found.n) == (k / n, n)
    if k:
        assert stats.binom.sf(k - 1, n, found.low) == pytest.approx(0.025, rel=1e-6)
    if k < n:
        assert stats.binom.cdf(k, n, found.high) == pytest.approx(0.025, rel=1e-6)
