"""A calibration on servers that break things loses nothing and counts nothing twice; giving up is one line."""

import json
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from measured_profiles import said, scores
from openai_server import OpenAIServer, Plan, Planted, without_faults
from small_plans import remote_plan
from virtual_time import on_servers

from calibrate.measuring.calibration import calibrate_models
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.models.servers import RemoteModels
from calibrate.record.profile import Profile
from theory.errors import CalibrationError

T = TypeVar("T")
OPTIONS = MeasureOptions(batches=(1, 2), contexts=(8,), iterations=4, prefills=(4,), repeats=1, rounds=2)
N_ANSWERS = 2
FAST = Planted(iteration_s=0.0005, steps=2, step_tokens=(2, 5))
# What the client says of each fault, and that it asks again after each that passes, is tested with the client.
FAULTS = {  # rates; the seeds below let each of them hit some requests
    "short": {"short:0": 0.006, "short:1": 0.007, "short:3": 0.007},
    "cut": {"cut:1": 0.01, "cut:0": 0.01},
    "die and return": {"gone:0.1": 0.02},
    "all": {"delay:0.02": 0.1, "reset": 0.03, "503": 0.03, "429:0.01": 0.03, "truncate:1": 0.005, "cut:2": 0.005},
}


def random_faults(rates: Mapping[str, float], seed: int) -> Plan:
    """Faults that come at random: rates by fault, whose sum is at most 1."""
    rng, weights = random.Random(seed), [*rates.values(), 1.0 - sum(rates.values())]
    return lambda number: rng.choices([*rates, ""], weights)[0]


def on_faulty(work: Callable[[OpenAIServer, OpenAIServer], Awaitable[T]], *plans: Plan) -> T:
    """Do something with servers of a target and a draft, in virtual time."""

    async def program(servers: list[OpenAIServer]) -> T:
        for server, plan in zip(servers, plans, strict=False):
            server.plan = plan
        return await work(*servers)

    return on_servers(program, FAST, FAST)


async def calibrated(target: OpenAIServer, draft: OpenAIServer, journal: Path, patience_s: float = 300.0) -> Profile:
    models = RemoteModels(target=target.url, draft=draft.url, timeout_s=120.0)
    return await calibrate_models(remote_plan(models, N_ANSWERS, engine=OPTIONS, patience_s=patience_s), journal)


def counts(profile: Profile) -> list[Any]:
    """How many samples of each kind were kept; how many the warm-up had is a matter of time."""
    return [(name, len(one.decode), len(one.prefill), len(one.request_s)) for name, one in profile.engines.items()]


def check_once(journal: Path) -> None:
    """Check that every part is in the journal, and once."""
    keys = [json.loads(line).get("key") for line in journal.read_bytes().splitlines()]
    assert len(keys) == len(set(keys)) == 1 + 2 * OPTIONS.rounds + N_ANSWERS


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    journal = tmp_path_factory.mktemp("calm") / "j"
    return on_faulty(lambda target, draft: calibrated(target, draft, journal))


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_changes_what_is_recorded(name: str, undisturbed: Profile, tmp_path: Path) -> None:
    """The same texts, verdicts and token counts, as many samples, every part once in the journal."""

    async def work(target: OpenAIServer, draft: OpenAIServer) -> Profile:
        profile = await calibrated(target, draft, tmp_path / "j")
        assert target.seen + draft.seen, "no fault happened: the test tests nothing"
        return profile

    profile = on_faulty(work, *(random_faults(FAULTS[name], seed) for seed in (99, 128)))
    assert said(profile) == said(undisturbed)
    assert scores(profile) == scores(undisturbed)
    assert counts(profile) == counts(undisturbed)
    check_once(tmp_path / "j")


def test_a_part_that_was_broken_off_is_noted(tmp_path: Path) -> None:
    def cut(number: int) -> str:
        return "cut:2" if number % 50 == 10 else ""

    profile = on_faulty(lambda *servers: calibrated(*servers, tmp_path / "j"), cut)
    assert any("parts were broken off" in note for note in profile.provenance.notes)


# Giving up


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("cut:1", "broke the connection in the middle of an answer"),
        ("500", "answered 500: planted"),
        ("401", r"refused a request without a key; name one with --api-key-env \(401\)"),
    ],
)
def test_a_fault_that_stays_is_told_in_one_line_and_what_was_finished_is_kept(
    fault: str, message: str, undisturbed: Profile, tmp_path: Path
) -> None:
    journal = tmp_path / "j"

    def after_an_answer(_: int) -> str:
        finished = journal.exists() and b'"answer:' in journal.read_bytes()
        return fault if finished else ""

    async def work(target: OpenAIServer, draft: OpenAIServer) -> Profile:
        target.plan = after_an_answer
        with pytest.raises(CalibrationError, match=message) as caught:
            await calibrated(target, draft, journal, patience_s=1.0)
        assert f"target at {target.url}" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert (target.seen[fault] == 1) is (fault == "401")  # what may pass is tried again
        kept = journal.read_bytes()
        target.plan = without_faults
        profile = await calibrated(target, draft, journal)
        assert journal.read_bytes().startswith(kept)
        return profile

    assert said(on_faulty(work)) == said(undisturbed)
    check_once(journal)
