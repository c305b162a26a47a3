"""What calibrate does around a measurement: effort, precision by its sources, what is told, and profile diff."""

import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from measured_profiles import measured, with_engine
from refusals import refused
from screens import Main, refused_words

from calibrate.measuring.plan import CalibrationPlan
from calibrate.measuring.stopping import LookOutcome, Precision, Status, Stopping
from calibrate.models.local import TorchModels
from calibrate.models.servers import RemoteModels
from calibrate.pair import draft_path
from calibrate.record.engine_records import InUse
from calibrate.record.profile import Profile
from specplan import calibrating
from specplan.calibrating import Effort, conclude, resumable
from specplan.commands.calibration import calibrate as commands
from specplan.planning.planned_speedup import PlannedSpeedup
from theory.errors import CalibrationError, ParameterError, UnstableMeasurementError

# Effort


@pytest.mark.parametrize(
    ("effort", "most", "n", "rule"),
    [
        (Effort(), 60, 60, (0.05, 24, 60)),
        (Effort(named="quick"), 16, 16, (0.1, 8, 16)),
        (Effort(named="precise"), 240, 10, (0.02, 10, 10)),
        (Effort(named="precise", answers=7), 7, 100, None),
        (Effort(precision=0.03), 600, 100, (0.03, 24, 100)),
        (Effort(named="quick", answers=50, precision=0.03), 50, 40, (0.03, 8, 40)),
    ],
)
def test_an_effort_has_most_answers_and_stops_earlier(
    effort: Effort, most: int, n: int, rule: tuple[float, int, int] | None
) -> None:
    assert effort.most_answers == most
    found = effort.stopping_rule(n)
    assert (found and (found.precision, found.min_answers, found.max_answers)) == rule


def test_servers_write_texts_first_and_then_fewer_answers_are_timed() -> None:
    servers, local = RemoteModels(target="http://127.0.0.1:1/v1", draft="http://127.0.0.1:2/v1"), TorchModels()
    assert Effort().texts_of(servers) == (192, 120.0)
    assert Effort(named="quick", precision=0.2).texts_of(servers) == (48, 30.0)
    for none in (Effort().texts_of(local), Effort(answers=20).texts_of(servers), Effort(texts=0).texts_of(servers)):
        assert none == (0, math.inf)
    assert Effort(texts=7).texts_of(local) == Effort(texts=7).texts_of(servers) == (7, math.inf)
    rules = [Effort().stopping_rule(60, n) for n in (0, 23, 24, 192)]
    assert [rule.min_answers for rule in rules if rule is not None] == [24, 24, 12, 12]


test_bad_effort = refused(
    lambda answers, precision: Effort(answers=answers, precision=precision),
    (1, None, "answers=1"),
    *((*options, "precision=") for options in ((None, 0.0), (10, 1.5), (None, float("nan")))),
)


# Token-level speculation


@pytest.mark.parametrize(
    ("words", "folder"), [((), "the draft"), (("--token-draft", "none"), None), (("--token-draft", "small"), "small")]
)
def test_the_model_that_drafts_tokens_is_an_option(
    words: tuple[str, ...], folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reaches the target's engine and the methods that are measured; the measurement itself is left out."""
    seen: list[CalibrationPlan] = []
    monkeypatch.setattr(calibrating, "measured", lambda plan, _: seen.append(plan))
    monkeypatch.setattr(calibrating, "conclude", lambda *_, **__: None)
    path = str(tmp_path / "x.json")
    commands.command.main(["torch", "-n", "4", *words, "-o", path], standalone_mode=False)
    (plan,) = seen
    assert ("draft-model" in {setting.method for setting in plan.token}) == (folder is not None)
    if folder is None:
        with pytest.raises(ParameterError, match="method='draft-model' needs"):
            plan.models.speculation("draft-model", {"k2": 2})
    else:
        known = draft_path() if folder == "the draft" else Path(folder)
        assert plan.models.speculation("draft-model", {"k2": 2}).model == known


# Precision


def noisy(spread: float, seed: int = 0, pattern: tuple[bool, ...] = (True, False, True, True, True, True)) -> Profile:
    """A profile whose timings spread; its three answers are all alike."""
    rng = np.random.default_rng(seed)
    exact = measured(pattern)
    engines = {}
    for name, record in exact.engines.items():
        decode = [
            sample.model_copy(update={"seconds": sample.seconds * float(rng.lognormal(0.0, spread))})
            for sample in record.decode * 3
        ]
        engines[name] = record.model_copy(update={"decode": decode})
    return exact.model_copy(update={"engines": engines})


def mixed(spread: float) -> Profile:
    """Answers that differ, on engines that do or do not."""
    exact = noisy(spread)
    patterns = [(True,) * 8, (False,) * 8, (True, False) * 4, (True, True, True, False) * 2]
    answers = [measured(p).answers[0].model_copy(update={"problem": str(i)}) for i, p in enumerate(patterns * 2)]
    return exact.model_copy(update={"answers": answers})


def test_the_error_is_where_the_spread_was_planted() -> None:
    alike = PlannedSpeedup()(noisy(0.5))
    assert alike.timings > 0.01
    assert alike.answers < 0.1 * alike.timings
    different = PlannedSpeedup()(mixed(0.0))
    assert different.answers > 0.05
    assert different.timings < 1e-6


def test_timings_in_use_count_as_answers() -> None:
    """More answers, not more timing rounds, narrow what the work on the answers says about the engines."""
    exact, rng = mixed(0.0), np.random.default_rng(1)

    def with_use(spread: float) -> Profile:
        used = [one_use(0.1 * float(rng.lognormal(-spread * spread / 2.0, spread))) for _ in range(8)]
        return with_engine(exact, "small", in_use=used)

    steady, varied = PlannedSpeedup()(with_use(0.0)), PlannedSpeedup()(with_use(0.8))
    assert varied.answers > 1.02 * steady.answers
    assert varied.timings < 1e-6


def one_use(seconds: float) -> InUse:
    """100 iterations of one sequence."""
    return InUse(decode=[(1, 100, 10_000, seconds)], prefill=(4, 100, 1e-6), request=(4, 0.0))


# What is told


def test_time_left_and_precision_are_told() -> None:
    outcome = LookOutcome(
        n_answers=24,
        n_rounds=6,
        precision=Precision(planned="x", speedup=1.4, answers=0.05, timings=0.01),
        widened=0.072,
        seconds_left=30.0,
    )
    rule = Stopping(precision=0.05)
    status = Status(done=10, n_parts=40, seconds_left=95.4, last_look=outcome)
    assert calibrating.progress_in_words(status, rule) == "about 1:35 left, speedup ±7.2%, wanted ±5.0%"
    assert calibrating.progress_in_words(Status(done=1, n_parts=40, seconds_left=None, last_look=None), rule) == ""


def unsteady() -> Profile:
    exact = measured((True, False, True))
    sentinels = [(float(i), 0.01 * (1.0 + i / 20.0)) for i in range(40)]
    notes = ["warning: big was not steady: it became slower"]
    told = exact.model_copy(update={"provenance": exact.provenance.model_copy(update={"notes": notes})})
    return with_engine(told, "big", sentinels=sentinels)


def test_noise_is_an_error_after_the_summary_or_a_warning_where_it_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UnstableMeasurementError) as caught:
        conclude(unsteady(), Path("p.json"), allow_noise=False)
    text = str(caught.value)
    assert text.startswith("the machine was not steady: big: ")
    assert text.endswith("or accept it with --allow-noise; p.json is written, with a warning")
    out, err = capsys.readouterr()
    assert out.startswith("measured-test: 3 answers")
    assert err == ""
    conclude(unsteady(), Path("p.json"), allow_noise=True)
    assert capsys.readouterr().err == "specplan: warning: big was not steady: it became slower\n"


# profile diff


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    one = mixed(0.05)
    decode = [s.model_copy(update={"seconds": 2 * s.seconds}) for s in one.engines["big"].decode]
    slower = with_engine(one, "big", decode=decode)
    two = slower.model_copy(update={"name": "slower", "settings": {"temperature": 0.0}})
    one.write(tmp_path / "one.json")
    two.write(tmp_path / "two.json")
    return str(tmp_path / "one.json"), str(tmp_path / "two.json")


def test_diff_tells_settings_and_what_is_more_than_noise(run_main: Main, files: tuple[str, str]) -> None:
    words = ("profile", "diff", *files, "--no-plan")
    code, out, err = run_main(*words, "--exit-code")
    assert (code, err) == (1, "")
    for said in ("measured-test -> slower", "settings.temperature", "big: iteration batch   1", "x 2.000"):
        assert said in out
    assert "small: iteration" not in out
    assert "small: iteration" in run_main(*words, "--all")[1]
    told = json.loads(run_main(*words, "--json")[1])["differences"]
    assert not any(one["quantity"].startswith("speedup") for one in told)
    assert run_main("profile", "diff", files[0], files[0], "--exit-code", "--no-plan")[0] == 0


def test_diff_compares_planned_speedups_and_tells_a_terminal_how_far_it_is(
    run_main: Main, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    for name, value in (("TERM", "xterm"), ("NO_COLOR", "1"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    code, out, _ = run_main("profile", "diff", *files, "--json")
    assert code == 0
    assert "4/4" in terminal.getvalue()
    assert "left" in terminal.getvalue()
    data = json.loads(out)
    assert data["schema"] == "specplan.profile-diff"
    named = {one["quantity"]: one for one in data["differences"]}
    assert any(name.startswith("speedup of ") for name in named)
    assert named["big: iteration batch   1"]["real"] is True
    assert named["big: iteration batch   1"]["change"] == pytest.approx(2.0)
    assert named["step acceptance alpha1"]["real"] is False


test_bad_comparisons = refused_words(
    "profile diff",
    (("lr-deepseek-gsm8k", "lr-qwen3-gsm8k"), "holds no raw samples to compare"),
    (("lr-deepseek-gsm8k", "nowhere.json"), "cannot be read as a profile"),
    (("lr-deepseek-gsm8k",), "Missing argument"),
)


def test_a_failure_says_that_what_is_finished_is_kept(tmp_path: Path) -> None:
    journal = tmp_path / "p.json.part"
    for said, expected in (
        ("it died", "it died"),
        ("it died", f"it died; what is finished is kept in {journal}: the same command goes on from there"),
        (f"{journal}: another process is measuring", f"{journal}: another process is measuring"),
    ):
        with pytest.raises(CalibrationError) as caught, resumable(journal):
            raise CalibrationError(said)
        assert str(caught.value) == expected
        journal.touch()
