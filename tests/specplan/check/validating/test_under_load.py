"""``specplan validate --concurrency``: rounds simulated and run, what to choose at each load, and bad input."""

import json
import math
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from measured_profiles import measured
from screens import Main, refused_words
from told_engines import RECORDED, runs_are

from calibrate.replay.trials import Trials
from calibrate.running.closed_loop import Loaded, RealRound
from calibrate.running.interleaved import BASELINE
from calibrate.running.wall_clock import WallClock
from sim.configuration import PLAIN, Configuration
from sim.serving.rounds import Round
from sim.timeline import Counts
from specplan.check.validating.load_prediction import LoadPredictor, share_beyond, swept_batches
from specplan.check.validating.next_measurement import Measurements
from specplan.check.validating.under_load import off_from, verdict_on
from specplan.output import SCREEN

LR = Configuration(method="lr-async", k1=2)
SIDES = ("predicted", "measured")


def real(makespan: float, load: int, n: int = 4) -> RealRound:
    """A round of so many answers, each of a client's share of the time."""
    seconds = (makespan * load / n,) * n
    first, in_flight = tuple(0.1 * one for one in seconds), {"target": ((load, makespan),)}
    seen = Round(seconds=seconds, tokens=(31,) * n, first=first, makespan=makespan, in_flight=in_flight)
    return RealRound(round=seen, counts=(Counts(accepted=1, rejected=1),) * n, correct=(True,) * n)


def makespan(name: str, load: int, number: int) -> float:
    """LR gains at one client, and loses at four; rounds differ, for all alike."""
    speed = {BASELINE: 1.0}.get(name, 1.5 if load == 1 else 0.8)
    return (1.0 + number / 10) * 8.0 / load / speed


async def ran(
    clock: WallClock, rounds: Sequence[Any], methods: Any, loads: Sequence[int], *, journal: Any = None, **options: Any
) -> Loaded:
    return {
        (name, load): [real(makespan(name, load, i), load, len(one)) for i, one in enumerate(rounds)]
        for name in (BASELINE, *methods)
        for load in loads
    }


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, run_main: Main) -> Main:
    """``specplan validate --concurrency`` on a recorded profile whose engines only tell."""
    runs_are(monkeypatch, "under_load.run_under_load", ran)
    return partial(run_main, "validate", "-p", str(RECORDED), "--run", "lr-async k1=2")


def test_both_sides_of_every_load_and_what_to_choose(run: Main) -> None:
    words = ("-n", "12", "--rounds", "3", "--concurrency", "4,1,4")
    code, out, err = run(*words, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["schema"], told["questions"], told["rounds"]) == ("specplan.load-validation", 12, 3)
    rows = [(row["clients"], row["name"]) for row in told["rows"]]
    assert rows == [(load, name) for load in (1, 4) for name in (BASELINE, LR.name)]
    for row in told["rows"]:
        assert set(row["predicted"]) == set(row["measured"])
        assert all(one["low"] <= one["value"] <= one["high"] for one in row["predicted"].values())
    lr = {row["clients"]: row for row in told["rows"] if row["name"] == LR.name}
    assert [lr[load]["measured"]["gain"]["value"] for load in (1, 4)] == pytest.approx([1.5, 0.8])
    assert lr[1]["measured"]["gain"]["n"] == 3
    assert lr[4]["measured"]["answers_per_s"]["value"] == pytest.approx(12 / (3.3 * 2.0 / 0.8))
    assert lr[4]["error"] == pytest.approx(lr[4]["predicted"]["gain"]["value"] / 0.8 - 1.0)
    assert told["off_from"]["measured"] == 4
    assert told["max_batch"] == {"target": 4, "draft": 4}
    assert [verdict["best"] for verdict in told["verdicts"]] == [LR.name, BASELINE]
    assert told["effective"]["questions"]["loads"] == [1, 4]
    code, text, _ = run(*words, "-v")
    assert code == 0
    first, _, report = text.partition("\n\nValidation of ")
    assert max(map(len, text.splitlines())) <= SCREEN
    for part, said in (
        (first, "of 2 gains predicted from"),
        (first, "With 1 client it chooses plain decoding; lr-async k1=2 measured 50.0 % faster"),
        (first, "With 4 clients the plan chooses plain decoding, which measured fastest."),
        (first, "from 4 clients on (measured)"),
        (first, "measured on 12 fresh questions in 3 rounds"),
        (report, "from 4 clients on (measured)"),
        (report, f"{sum(row['inside'] for row in lr.values())} of 2 gains are inside their 95 % interval"),
        *((report, f"{100 * row['error']:+.1f} %") for row in lr.values()),
        (report, "Predicted > measured:"),
        *((report, " > ".join(f"{row[side]['answers_per_s']['value']:.2f}" for side in SIDES)) for row in lr.values()),
    ):
        assert said in " ".join(part.split())


test_bad_input_is_one_line = refused_words(
    f"validate -p {RECORDED} --run lr-async",
    ("--concurrency 0,2", "--concurrency='0,2' must be integers in [1, 4096]"),
    ("--concurrency 8 -n 12", "answers=12 must be at least 32: 4 rounds, each with a question for every"),
    ("--concurrency 1 --rounds 1", "--rounds=1 must be an integer in [2, 1000]"),
    ("--concurrency 1 --timeline a.png", "timeline='a.png' has no use with --concurrency"),
)


def test_predictions_have_the_closed_forms_of_engines_that_batch_for_nothing() -> None:
    """Iterations of 10 ms whatever the batch: 4 clients are 4 times as fast, and LR gains as it does alone."""
    profile = measured([True] * 6)
    expected = LoadPredictor(Trials(profile), [8, 8], {})
    alone, four = (expected.expected(PLAIN, load) for load in (1, 4))
    assert alone["answers_per_s"].value == pytest.approx(1.0 / 1.25, rel=1e-3)  # one request of 126 tokens
    assert four["answers_per_s"].value == pytest.approx(4.0 / 1.25, rel=1e-3)
    assert four["p90_s"].value == pytest.approx(alone["p50_s"].value, rel=1e-3)
    gains = [expected.expected(LR, load)["gain"].value for load in (1, 4)]
    assert gains[0] == pytest.approx(gains[1], rel=0.02)
    assert gains[0] > 1.5


def test_an_engine_without_places_for_all_makes_requests_wait() -> None:
    profile = measured([True] * 6)
    free, full = (LoadPredictor(Trials(profile), [8, 8], most) for most in ({}, {"target": 4, "draft": 4}))
    assert full.expected(PLAIN, 4)["p50_s"].value == pytest.approx(free.expected(PLAIN, 4)["p50_s"].value)
    paces = [one.expected(PLAIN, 8)["answers_per_s"].value for one in (free, full)]
    assert paces[0] == pytest.approx(2.0 * paces[1], rel=1e-3)


def test_the_interval_of_a_gain_has_the_noise_that_one_of_single_answers_has() -> None:
    """The pace from one answer to the next, of both; and nothing else is changed by it."""
    even = measured([True] * 6)
    slow = even.answers[1].model_copy(
        update={"baseline": [s.model_copy(update={"seconds": 1.5 * s.seconds}) for s in even.answers[1].baseline]}
    )
    uneven = even.model_copy(update={"answers": [even.answers[0], slow, even.answers[2]]})
    before, after = (LoadPredictor(Trials(one), [8, 8], {}).expected(LR, 4) for one in (even, uneven))
    halves = [math.log(one["gain"].high / one["gain"].value) for one in (before, after)]
    noise = 1.96 * math.sqrt(2.0) * Measurements(uneven).time_noise / math.sqrt(16)
    assert noise > 0.1
    assert halves[1] == pytest.approx(math.hypot(halves[0], noise), rel=1e-9)
    assert after["gain"].value == before["gain"].value
    assert {name: one for name, one in after.items() if name != "gain"} == {
        name: one for name, one in before.items() if name != "gain"
    }
    assert LoadPredictor(Trials(uneven), [8, 8], {}).expected(PLAIN, 4)["gain"].high == 1.0


def test_batches_that_were_not_timed_are_told() -> None:
    profile = measured([True] * 6)
    swept = swept_batches(profile)
    assert swept == {"target": 8, "draft": 8}
    expected = LoadPredictor(Trials(profile), [12, 12], {})
    assert {share_beyond(expected.rounds(LR, 2), role, most) for role, most in swept.items()} == {0.0}
    assert share_beyond(expected.rounds(LR, 12), "target", swept["target"]) > 0.5
    in_flight = {"target": ((3, 1.0), (9, 3.0))}
    rounds = [Round(seconds=(1.0,), tokens=(1,), first=(1.0,), makespan=4.0, in_flight=in_flight)]
    assert [share_beyond(rounds, "target", most) for most in (2, 3, 8, 9)] == [1.0, 0.75, 0.75, 0.0]


def test_the_regret_of_a_choice_and_where_nothing_gains() -> None:
    """Chosen 1.2 times as fast as plain decoding, the best 1.5 times; the rounds agree on it."""

    def row(name: str, clients: int, predicted: float, seen: float) -> Any:  # only what is read
        gains = [{"gain": SimpleNamespace(value=value)} for value in (predicted, seen)]
        seconds = tuple(x / seen for x in (1.0, 2.0, 3.0))
        return SimpleNamespace(name=name, clients=clients, predicted=gains[0], measured=gains[1], seconds=seconds)

    rows = [row(BASELINE, 1, 1.0, 1.0), row("a", 1, 1.4, 1.2), row("b", 1, 1.3, 1.5)]
    found = verdict_on(rows)
    assert (found.clients, found.chosen, found.best) == (1, "a", "b")
    assert found.regret.value == pytest.approx(0.25)
    assert (found.regret.low, found.regret.high) == (pytest.approx(0.25), pytest.approx(0.25))
    rows += [row(BASELINE, 4, 1.0, 1.0), row("a", 4, 0.9, 1.1), row("b", 4, 0.8, 0.7)]
    rows += [row(BASELINE, 8, 1.0, 1.0), row("a", 8, 0.9, 0.9), row("b", 8, 0.8, 0.7)]
    assert [off_from(rows, side) for side in ("predicted", "measured")] == [4, 8]
    assert off_from(rows[:3], "measured") is None
