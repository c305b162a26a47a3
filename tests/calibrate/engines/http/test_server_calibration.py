"""Calibrations of servers with planted steps, acceptance and faults: complete, resumable, and noted where disturbed."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai_server import OpenAIServer, Planted, serving
from scipy import stats
from screens import Main

from calibrate.engines.http.wire import HttpConfig
from calibrate.measuring.calibration import calibrate_models
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.measuring.plan import CalibrationPlan
from calibrate.models.recorded import models_of
from calibrate.models.servers import RemoteModels
from calibrate.record.engine_records import EngineRecord
from calibrate.record.profile import Profile
from calibrate.replay.summary import acceptance
from calibrate.running.problem import Problem
from theory.errors import CalibrationError, SchemaError

pytest.importorskip("httpx")
pytestmark = pytest.mark.usefixtures("accept_late_readings")

FAST_S = 5e-4
"""Per iteration: fast, yet slow enough that requests run side by side."""
KEY = "sk-planted-4711"
OPTIONS = MeasureOptions(batches=(1, 2), contexts=(8,), iterations=4, prefills=(4, 32), repeats=2, rounds=1)

Pair = tuple[OpenAIServer, OpenAIServer]


def plan(servers: Pair, n: int = 3, n_texts: int = 0, **options: object) -> CalibrationPlan:
    problems = tuple(Problem(name=f"q{i}", prompt=f"Question {i} is?") for i in range(n + n_texts))
    return CalibrationPlan(
        models=RemoteModels(target=servers[0].url, draft=f"{servers[1].url}#small", **options),  # type: ignore[arg-type]
        problems=problems[:n],
        texts=problems[n:],
        engine=OPTIONS,
        warm_up_s=0.02,
        patience_s=0.0,
        name="remote",
    )


def carry_out(planned: CalibrationPlan, journal: Path) -> tuple[Profile, int]:
    parts: list[str] = []
    return asyncio.run(calibrate_models(planned, journal, progress=parts.append)), len(parts)


def test_planted_steps_and_acceptance_come_back(finished: tuple[Pair, bytes, Profile], tmp_path: Path) -> None:
    """Within intervals at which a right result fails once in 10,000 draws; the planted randomness is seeded."""
    servers = finished[0]
    planned = plan(servers, 2, n_texts=10)
    profile, n_parts = carry_out(planned, tmp_path / "j")
    assert n_parts == planned.n_parts
    assert Profile.parse(profile.to_json()) == profile
    z = stats.norm.isf(1e-4 / 2)
    answers = profile.all_answers
    steps = [step for answer in answers for step in answer.steps]
    alpha = acceptance(answers).alpha1
    assert abs(alpha.value - 0.7) <= z * np.sqrt(0.21 / len(steps)) < 0.3
    for lengths, mean, n_lengths in (
        ([step.target.tokens for step in steps], 8.0, 9),
        ([step.draft.tokens for step in steps], 6.0, 7),
        ([step.tokens for answer in answers for step in answer.baseline], 8.0, 9),
    ):
        margin = z * np.sqrt((n_lengths**2 - 1) / 12 / len(lengths))
        assert abs(np.mean(lengths) - mean) <= margin < 1.6
    assert {len(answer.baseline) for answer in answers} == {4}
    assert [record.tokens for record in profile.ngram] == [sum(s.tokens for a in answers for s in a.baseline) - 12] * 3
    assert profile.provenance.engine_version == "1.2.3"
    assert profile.engines["target"].device == servers[0].url.removeprefix("http://")
    assert models_of(dict(profile.settings)) == planned.models


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, bytes, Profile]]:
    """Two servers, the journal of a measurement on them, and its profile."""
    small = Planted(model="small", step_tokens=(3, 9), iteration_s=FAST_S)
    with serving(Planted(model="big", iteration_s=FAST_S)) as target, serving(small) as draft:
        journal = tmp_path_factory.mktemp("finished") / "j"
        profile, _ = carry_out(plan((target, draft)), journal)
        yield (target, draft), journal.read_bytes(), profile


@pytest.mark.parametrize("fault", ["die:2", "stall"])
def test_a_fault_loses_nothing_that_was_finished(
    finished: tuple[Pair, bytes, Profile], tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last two answers are to be made; the first of them succeeds, the second hits the fault."""
    monkeypatch.setattr("calibrate.models.servers.HttpConfig.of", partial(HttpConfig.of, backoff_s=0.001))
    servers, whole, profile = finished
    lines, journal = whole.splitlines(keepends=True), tmp_path / "j"
    journal.write_bytes(b"".join(lines[:-2]))
    servers[0].faults = AtPrompt(servers[0], "Question 2 is?", fault)
    with pytest.raises(CalibrationError, match=r"^step 0 of 'target': target at http"):
        carry_out(plan(servers, timeout_s=2.0 if fault == "stall" else 60.0), journal)
    servers[0].faults = {}
    kept = journal.read_bytes()
    assert kept.startswith(b"".join(lines[:-2]))
    assert _keys(kept) == _keys(whole)[:-1]
    resumed, n_parts = carry_out(plan(servers), journal)
    assert n_parts == plan(servers).n_parts
    assert journal.read_bytes().startswith(kept)
    assert _keys(journal.read_bytes()) == _keys(whole)
    assert _kept(resumed) == _kept(profile)
    assert [_tokens(answer) for answer in resumed.answers] == [_tokens(answer) for answer in profile.answers]


def _kept(profile: Profile) -> list[EngineRecord]:
    """Timings, and what came with the first answer: that of the last two was made again."""
    uses = ("sentinels", "in_use", "plain_in_use", "stepwise_in_use")
    return [e.model_copy(update={use: getattr(e, use)[:1] for use in uses}) for e in profile.engines.values()]


def _keys(journal: bytes) -> list[str | None]:
    return [json.loads(line).get("key") for line in journal.splitlines()]


def _tokens(answer: object) -> list[tuple[int, int, bool]]:
    return [(s.draft.tokens, s.target.tokens, s.verdict.accepted) for s in answer.steps]  # type: ignore[attr-defined]


class AtPrompt(dict[int, str]):
    """A fault for every generation that continues one prompt."""

    def __init__(self, server: OpenAIServer, prompt: str, fault: str) -> None:
        super().__init__()
        self._server, self._prompt, self._fault = server, prompt, fault

    def get(self, number: int, default: str = "") -> str:  # type: ignore[override]
        body = self._server.bodies[number]
        return self._fault if body["prompt"].startswith(self._prompt) and body.get("stream") else default


def test_a_measurement_may_go_on_with_more_patience_but_not_elsewhere(
    finished: tuple[Pair, bytes, Profile], tmp_path: Path
) -> None:
    servers, whole, _ = finished
    journal = tmp_path / "j"
    journal.write_bytes(whole)
    assert plan(servers, timeout_s=77.0).settings() == plan(servers).settings()
    with pytest.raises(SchemaError, match="draft"):
        carry_out(plan((servers[0], servers[0])), journal)


def test_a_busy_server_is_noted(tmp_path: Path) -> None:
    with serving(Planted(model="small", foreign_requests=3, iteration_s=FAST_S)) as server:
        profile, _ = carry_out(plan((server, server)), tmp_path / "j")
    assert any("not idle: 3 requests" in note for note in profile.provenance.notes)
    assert any("seen from outside" in note for note in profile.provenance.notes)


def test_a_draft_without_logprobs_needs_no_gate(tmp_path: Path) -> None:
    silent = Planted(model="small", logprobs=0, iteration_s=FAST_S)
    with serving(Planted(iteration_s=FAST_S)) as target, serving(silent) as draft:
        with pytest.raises(CalibrationError, match=r"draft at .* no log-probabilities"):
            carry_out(plan((target, draft)), tmp_path / "j")
        profile, _ = carry_out(plan((target, draft), gate=False), tmp_path / "k")
    assert all("gate" not in step.draft.scores for answer in profile.answers for step in answer.steps)


# The command line


@pytest.fixture
def _small_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command measures less, and does not wait long."""

    def small_plan(engine: MeasureOptions, **options: Any) -> CalibrationPlan:
        options["patience_s"] = 0.0
        return CalibrationPlan(engine=replace(OPTIONS, batches=engine.batches), warm_up_s=0.02, **options)

    monkeypatch.setattr("calibrate.measuring.plan.CalibrationPlan", small_plan)
    monkeypatch.setattr("calibrate.models.servers.HttpConfig.of", partial(HttpConfig.of, backoff_s=0.001))


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"Question {i} is?"}) + "\n" for i in range(4)), encoding="utf-8")
    return path


@pytest.mark.usefixtures("_small_plans")
def test_calibrate_and_validate_a_server(
    run_main: Main, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    profile = tmp_path / "p.json"
    big = Planted(model="big", key=KEY, iteration_s=0.001)
    with serving(big) as target, serving(Planted(model="small", key=KEY, iteration_s=FAST_S)) as draft:
        common = ("--target", target.url, "--draft", draft.url, "--api-key-env", "MY_KEY", "--concurrency", "1,2")
        code, out, err = run_main(
            "calibrate", "openai", *common, "--prompts", str(prompts), "-n", "3", "-o", str(profile)
        )
        assert code == 0, err
        # A machine that is busy with other things is told of, and of nothing else.
        assert all("read late" in line or "was left out" in line for line in err.splitlines()), err
        assert out.startswith("p: 3 answers")
        assert not profile.with_name("p.json.part").exists()
        fresh = ("--prompts", str(prompts), "-n", "2", "--k1", "1")
        code, more, err = run_main("validate", "-p", str(profile), *fresh)
        assert (code, err) == (0, "")
        assert "lr-async" in more
    written = "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    assert "MY_KEY" in written
    assert KEY not in written + out + more + caplog.text


@pytest.mark.usefixtures("_small_plans")
@pytest.mark.parametrize(
    ("fault", "code", "message"), [("", 1, "unreachable"), ("stall", 124, "silent for 0.2 s"), ("404", 1, "no longer")]
)
def test_failures_have_exit_codes_and_one_line(
    run_main: Main, prompts: Path, tmp_path: Path, fault: str, code: int, message: str
) -> None:
    output = tmp_path / "p.json"
    with serving() as server:
        server.faults = AtPrompt(server, "Question 0 is?", fault)
        target = server.url if fault else "http://127.0.0.1:1"
        timeout = "0.2" if fault == "stall" else "60"  # short, a slow machine would be taken for a silent server
        common = ("--target", target, "--draft", server.url, "--concurrency", "1", "--timeout", timeout)
        started = time.monotonic()
        found, out, err = run_main("calibrate", "openai", *common, "--prompts", str(prompts), "-o", str(output))
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert message in err
    assert not output.exists()
    assert time.monotonic() - started < 40  # it is not tried for a minute, as later faults are
