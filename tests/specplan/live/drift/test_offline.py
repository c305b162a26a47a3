"""Drift from saved metrics of servers that speculate on tokens."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from measured_profiles import measured
from planted_metrics import Planted, exposition
from screens import Main

from calibrate.record.engine_records import PrefillSums, RequestSums
from calibrate.record.profile import Profile
from calibrate.record.token_records import PassSample, PassSums, TokenAnswer, TokenRecord, TokenRequest
from specplan.live.drift.offline import Drift, token_drift
from specplan.live.explaining.reading import read_metrics
from specplan.live.explaining.window import windows
from theory.errors import ParameterError

SERVER = Planted(k=3, concurrency=4)
MOMENTS = (15, 35, 55)


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


@pytest.fixture(scope="module")
def known() -> Profile:
    return profile(SERVER)


def test_a_server_as_predicted_raises_no_alarm(known: Profile) -> None:
    told = found(SERVER, known)
    assert told.moved == ()
    assert told.n_windows == len(MOMENTS) - 1
    names = [one.what for one in told.compared]
    assert names == [*(f"drafts right up to position {j}" for j in (1, 2, 3)), "slower rounds", "faster rounds"]
    assert told.compared[-1].n == pytest.approx(told.compared[0].n / SERVER.concurrency, rel=0.1)  # passes
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
def test_what_was_planted_is_what_moved(server: Planted, moved: str, known: Profile) -> None:
    names = {one.what for one in found(server, known).moved}
    assert moved in names
    assert {name.split()[-1] == "rounds" for name in names} == {moved.endswith("rounds")}


def test_the_command_says_what_moved(run_main: Main, tmp_path: Path, known: Profile) -> None:
    path, sources = tmp_path / "p.json", []
    known.write(path)
    for n in MOMENTS:
        sources.append(str(tmp_path / f"{n}.prom"))
        Path(sources[-1]).write_text(exposition(replace(SERVER, conditional=0.6), n))
    words = ("explain", *sources, "--profile", str(path))
    code, out, err = run_main(*words)
    assert (code, err) == (0, "")
    assert "Moved from the predictions of measured-test: drafts right up to position 1" in out
    assert json.loads(run_main(*words, "--json")[1])["drift"]["moved"][0] == "drafts right up to position 1"
    code, _, err = run_main(*words, "--method", "eagle")
    assert code == 2
    assert "it has: draft-model k2=4" in err


def test_records_that_do_not_fit_are_refused(known: Profile) -> None:
    both = [*known.token, *profile(SERVER, "eagle").token]
    for records, message in (([], "with k2=4, which the server runs"), (both, "--method")):
        with pytest.raises(ParameterError, match=message):
            found(SERVER, known.model_copy(update={"token": records}))
