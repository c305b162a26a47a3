"""The comparison of a validation's predictions with stand-ins: which rows, which figures, in text and as data."""

import json
from dataclasses import replace

import numpy as np
import pytest
from measured_profiles import measured, speculated

from calibrate.running.interleaved import BASELINE, RealRun, Runs
from calibrate.running.interleaved import measured as summary
from sim.configuration import Configuration
from sim.estimate import proportion
from sim.timeline import Counts
from specplan.check.validating.closed_forms import closed_form
from specplan.check.validating.comparison import Comparison, compare
from specplan.check.validating.next_measurement import Measurements
from specplan.check.validating.validation import Row, Validation
from specplan.output import SCREEN, to_json
from specplan.planning.advice import Advice
from specplan.planning.predict import Predictor
from specplan.show.rendering import as_text
from specplan.show.validations import first_screen, plain, validation_report

N = 12
TRUE = {"lr-async k1=1": 0.9, "lr-async k1=4": 1.8, "draft-model k2=3": 1.4, "lr-async k1=4 verifier=random": 1.1}
"""Measured speedups; the last one has no closed form, as nobody recorded its verdicts."""


def validation(names: list[str]) -> Validation:
    profile = speculated(measured([True, True, False, True]))
    predictor, measurements = Predictor(profile, uncertainty=False), Measurements(profile)
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
                closed_form=closed_form(profile, Configuration.parse(name)),
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
    report = validation_report(found, Advice(servers=(), client=None, notes=()))
    text, data = as_text(report), json.loads(to_json(plain(found)))
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
