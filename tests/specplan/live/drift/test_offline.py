"""Drift from saved metrics of servers that speculate on tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from measured_profiles import measured
from planted_metrics import Planted, exposition
from scipy import stats
from screens import Main

from calibrate.record.engine_records import PrefillSums, RequestSums
from calibrate.record.profile import Profile
from calibrate.record.token_records import PassSample, PassSums, TokenAnswer, TokenRecord, TokenRequest
from specplan.live.drift.betting import Bet, MeanBets
from specplan.live.drift.offline import Drift, token_drift
from specplan.live.explaining.reading import read_metrics
from specplan.live.explaining.window import windows
from theory.errors import ParameterError

SERVER = Planted(k=3, concurrency=4)
MOMENTS = (20, 40, 60, 80)
STREAMS = 400


def profile(server: Planted, method: str = "draft-model") -> Profile:
    """What a calibration of this server would have recorded: 40 answers of 60 passes."""
    rng = np.random.default_rng(0)
    rates = np.array([1.0, *server.accepted, 0.0])
    right = rng.choice(server.k + 1, size=(40, 60), p=rates[:-1] - rates[1:])
    answers = [
        TokenAnswer(
            problem=str(i),
            requests=[TokenRequest(tokens=int(row.sum()) + 61, passes=[PassSample(server.k, int(r)) for r in row])],
            decode=[PassSums(server.concurrency, server.k + 1, 60, 6000, 60 * server.work_s, 0.0)],
            prefill=PrefillSums(0, 0, 0.0),
            request=RequestSums(0, 0.0),
        )
        for i, row in enumerate(right)
    ]
    record = TokenRecord.counted(method, {"k2": server.k + 1}, answers)
    return measured([True]).model_copy(update={"token": [record]})


def found(server: Planted, known: Profile) -> Drift:
    readings = [read_metrics(exposition(server, n), f"{n}.prom") for n in MOMENTS]
    return token_drift(windows(readings), known)


def test_a_server_as_predicted_raises_no_alarm() -> None:
    told = found(SERVER, profile(SERVER))
    assert told.moved == ()
    assert told.n_windows == len(MOMENTS) - 1
    names = [one.what for one in told.compared]
    assert names == [*(f"drafts right up to position {j}" for j in (1, 2, 3)), "slower rounds", "faster rounds"]
    for one, planted in zip(told.compared, SERVER.accepted, strict=False):
        assert one.seen == pytest.approx(planted, abs=0.03)


@pytest.mark.parametrize(
    ("server", "moved"),
    [
        (replace(SERVER, conditional=0.6), "drafts right up to position 1"),
        (replace(SERVER, conditional=0.9), "drafts right up to position 1"),
        (replace(SERVER, plain_s=0.06), "slower rounds"),
        (replace(SERVER, plain_s=0.005), "faster rounds"),
    ],
)
def test_what_was_planted_is_what_moved(server: Planted, moved: str) -> None:
    names = {one.what for one in found(server, profile(SERVER)).moved}
    assert moved in names
    assert ("drafts" in moved) == any("drafts" in name for name in names)
    assert ("rounds" in moved) == any("rounds" in name for name in names)


def test_the_command_says_what_moved(run_main: Main, tmp_path: Path) -> None:
    known, sources = tmp_path / "p.json", []
    profile(SERVER).write(known)
    for n in MOMENTS:
        sources.append(str(tmp_path / f"{n}.prom"))
        Path(sources[-1]).write_text(exposition(replace(SERVER, conditional=0.6), n))
    code, out, err = run_main("explain", *sources, "--profile", str(known))
    assert (code, err) == (0, "")
    assert "Moved from the predictions of measured-test: drafts right up to position 1" in out
    code, out, _ = run_main("explain", *sources, "--profile", str(known), "--json")
    assert json.loads(out)["drift"]["moved"][0] == "drafts right up to position 1"
    code, _, err = run_main("explain", *sources, "--profile", str(known), "--method", "eagle")
    assert code == 2
    assert "it has: draft-model k2=4" in err


def test_records_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="k2=6"):
        found(SERVER.with_k(5), profile(SERVER))
    known = profile(SERVER)
    both = known.model_copy(update={"token": [*known.token, *profile(SERVER, "eagle").token]})
    with pytest.raises(ParameterError, match="--method"):
        found(SERVER, both)


def test_a_sum_is_worth_what_its_observations_are() -> None:
    one, two = Bet(0.6, 0.1), Bet(0.6, 0.1)
    for observed in (1.0, 0.0, 1.0, 1.0):
        one.take(observed)
        two.take_sum(observed, 1)
        assert two.money == pytest.approx(one.money)
    # Whatever the order: the stake is not changed in between, and what is staked later is staked after them.
    alone = Bet(0.6, 0.1)
    alone.take_sum(7.0, 10)
    assert alone.money == pytest.approx(0.5 * alone.factor(1.0) ** 7 * alone.factor(0.0) ** 3 + 0.5)
    # Of observations between 0 and 1 it is the least.
    middle = Bet(0.6, 0.1)
    middle.take_sum(5.0, 10)
    assert middle.money <= 0.5 * middle.factor(0.5) ** 10 + 0.5


@pytest.mark.parametrize(("p", "false_alarm"), [(0.5, 0.05), (0.9, 0.05)])
def test_the_false_alarm_rate_holds_in_windows(p: float, false_alarm: float) -> None:
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(STREAMS):
        bets, raised = MeanBets(p, p, drift=0.1, false_alarm=false_alarm), False
        for total in rng.binomial(500, p, 40):
            bets.take_sum(float(total), 500)
            raised = raised or bets.evidence >= 1.0
        alarms += raised
    # Were the rate just what is stated, as few as this or fewer would come but for one time in a million.
    assert alarms <= stats.binom.isf(1e-6, STREAMS, false_alarm)
