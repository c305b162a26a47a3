"""A calibration of planted servers that stops by itself; and what was planted comes back, in its intervals."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer, Planted
from scipy import stats
from small_plans import remote_plan
from virtual_time import on_servers

from calibrate.measuring.answers import ON_SERVERS, kept_texts, measure_texts
from calibrate.measuring.calibration import calibrate_models
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.measuring.plan import CalibrationPlan
from calibrate.measuring.stopping import Precision, Status, Stopping
from calibrate.models.servers import RemoteModels
from calibrate.record.journal import Journal
from calibrate.record.profile import Profile
from calibrate.replay.summary import acceptance
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem
from theory.errors import ParameterError

OPTIONS = MeasureOptions(batches=(1,), contexts=(8,), iterations=6, prefills=(4,), repeats=2, rounds=2)
ALPHA = 0.7
FALSE_FAIL = 1e-4
BRIEF = Planted(acceptance=ALPHA, iteration_s=1e-3, step_tokens=(2, 4), tokenizes=False)
PAIR = BRIEF, replace(BRIEF, model="small")


def plan(
    servers: list[OpenAIServer], n: int, stopping: Stopping | None = None, *, n_texts: int = 0, **options: Any
) -> CalibrationPlan:
    models = RemoteModels(target=servers[0].url, draft=servers[1].url, gate=False)
    return remote_plan(models, n, n_texts, stopping=stopping, **{"engine": OPTIONS, **options})


def planted(answers: float, timings: float) -> Callable[[Profile], Precision]:
    """Half-widths that fall with the square root of what was measured; per answer and per timing round."""

    def precision(profile: Profile) -> Precision:
        n_rounds = len(profile.engines["target"].prefill) / OPTIONS.repeats
        return Precision(
            planned="x", speedup=1.5, answers=answers / math.sqrt(len(profile.answers)), timings=timings / n_rounds**0.5
        )

    return precision


def calibrated(
    journal: Path, n: int, rule: Stopping | None, precision: Callable[[Profile], Precision], **options: Any
) -> tuple[Profile, list[str]]:
    """The profile of a calibration in virtual time, and the keys in its journal."""
    watch = options.pop("watch", lambda status: None)
    profile = on_servers(
        lambda servers: calibrate_models(plan(servers, n, rule, **options), journal, precision=precision, watch=watch),
        *PAIR,
    )
    return profile, keys(journal)


def keys(journal: Path) -> list[str]:
    return [json.loads(line).get("key", "") for line in journal.read_bytes().splitlines()]


def n_timings(found: list[str]) -> int:
    return sum(key.startswith("engine:target:") for key in found)


def test_it_stops_at_the_first_look_that_is_precise_enough(tmp_path: Path) -> None:
    rule = Stopping(precision=0.4, min_answers=4, max_answers=12)  # looks at 4, 6, 9 and 12 answers
    seen: list[Status] = []
    profile, _ = calibrated(tmp_path / "j", 12, rule, planted(0.6, 0.0), watch=seen.append)
    expected = next(n for n in rule.looks if 0.6 / math.sqrt(n) * rule.widening(n) <= 0.4)
    assert expected in (6, 9)
    assert len(profile.answers) == expected
    assert any("the requested precision is reached" in note for note in profile.provenance.notes)
    assert seen[-1].done == seen[-1].n_parts
    assert seen[-1].last_look is not None


def test_timings_are_added_where_they_are_what_is_missing(tmp_path: Path) -> None:
    rule = Stopping(precision=0.3, min_answers=4, max_answers=12, max_rounds=8)
    profile, found = calibrated(tmp_path / "j", 12, rule, planted(0.0, 0.4))
    assert n_timings(found) > OPTIONS.rounds
    assert len(profile.answers) == 4
    assert len(found) == len(set(found))


def test_it_ends_at_the_most_and_says_so(tmp_path: Path) -> None:
    rule = Stopping(precision=0.01, min_answers=4, max_answers=6, max_rounds=2)
    profile, _ = calibrated(tmp_path / "j", 6, rule, planted(1.0, 0.0))
    assert len(profile.answers) == 6
    assert any("instead of the requested ±1.0%" in note for note in profile.provenance.notes)


def test_after_an_interruption_the_looks_are_those_that_were_made(tmp_path: Path) -> None:
    """A look that is in the journal is not made again: the number of looks, and their correction, stay right."""
    rule = Stopping(precision=0.4, min_answers=4, max_answers=12)
    journal, cut, calls = tmp_path / "j", tmp_path / "cut", list[int]()

    def counted(profile: Profile) -> Precision:
        calls.append(len(profile.answers))
        return planted(0.6, 0.0)(profile)

    async def twice(servers: list[OpenAIServer]) -> tuple[Profile, Profile, list[int]]:
        whole = await calibrate_models(plan(servers, 12, rule), journal, precision=counted)
        lines, made = journal.read_bytes().splitlines(keepends=True), list(calls)
        after_first = next(i for i, line in enumerate(lines) if b'"after look:1"' in line)
        cut.write_bytes(b"".join(lines[: after_first + 2]))
        return whole, await calibrate_models(plan(servers, 12, rule), cut, precision=counted), made

    whole, again, made = on_servers(twice, *PAIR)
    assert calls == [*made, *made[1:]]
    assert [answer.problem for answer in again.answers] == [answer.problem for answer in whole.answers]
    assert keys(cut) == keys(journal)


def test_a_rule_needs_a_precision(tmp_path: Path) -> None:
    rule = Stopping(precision=0.1, min_answers=4, max_answers=6)
    with pytest.raises(ParameterError, match="precision"):
        on_servers(lambda servers: calibrate_models(plan(servers, 6, rule), tmp_path / "j"), *PAIR)
    with pytest.raises(ParameterError, match="must be 6, the most allowed"):
        calibrated(tmp_path / "j", 7, rule, planted(0.0, 0.0))
    with pytest.raises(ParameterError, match=r"timings_share=0.3 has no use where a precision decides"):
        calibrated(tmp_path / "j", 6, rule, planted(0.0, 0.0), timings_share=0.3)


def test_intervals_of_calibrations_cover_the_planted_acceptance(tmp_path: Path) -> None:
    """50 answers, of which two are timed, as ten calibrations of five: 95 % of the intervals contain what was planted.

    The clustered interval of five answers covers a little less than it says (0.92 in simulation): 0.90 is tested, with
    a false-alarm rate of 1e-4. All answers together must be right within four standard errors.
    """
    profile, _ = calibrated(tmp_path / "j", 2, None, planted(0.0, 0.0), n_texts=48)
    groups = [acceptance(profile.all_answers[i : i + 5]) for i in range(0, 50, 5)]
    inside = sum(group.contains(ALPHA) for group in groups)
    assert inside >= stats.binom.ppf(FALSE_FAIL, len(groups), 0.90)
    whole = acceptance(profile.all_answers)
    assert abs(whole.value - ALPHA) <= 4.0 * whole.stderr
    assert whole.half_width < 0.12


@pytest.mark.parametrize(("answers", "rounds", "made"), [(1.2, 6, 4), (0.1, 3, 3)])
def test_timing_rounds_end_where_they_leave_little_beside_the_answers(
    tmp_path: Path, answers: float, rounds: int, made: int
) -> None:
    """Timings leave 0.4 / sqrt(rounds), a third of what the answers leave at four rounds, and more of the second."""
    lean = {"engine": replace(OPTIONS, rounds=rounds), "timings_share": 0.34}
    profile, found = calibrated(tmp_path / "j", 4, None, planted(answers, 0.4), **lean)
    assert n_timings(found) == made
    assert len(profile.answers) == 4
    assert any(note.startswith("4 of 6 timing rounds") for note in profile.provenance.notes) is (made < rounds)


# Texts, and lengths of questions


def test_servers_write_many_at_once_and_begin_none_after_the_time(tmp_path: Path) -> None:
    questions = [Problem(name=f"q{i}", prompt=f"{i} apples and {3 * i} pears are how many?") for i in range(48)]

    async def written(servers: list[OpenAIServer]) -> int:
        models = RemoteModels(target=servers[0].url, draft=servers[1].url)
        async with models.open() as (_, clock):
            with Journal(tmp_path / "j", {}) as kept:
                await measure_texts(
                    clock,
                    questions,
                    kept,
                    truth=None,
                    inspection=models.inspection(),
                    patiently=Patience(1.0),
                    progress=lambda name: None,
                    within_s=0.2,
                    on_servers=True,
                )
                # those that were begun are finished
                assert ON_SERVERS <= len(kept_texts(kept, questions)) < len(questions)
                return servers[0].most_in_flight

    kinds = (Planted(iteration_s=0.02, model=name, steps=2, step_tokens=(3, 5)) for name in ("big", "small"))
    assert ON_SERVERS // 2 < on_servers(written, *kinds) <= 2 * ON_SERVERS


def test_short_questions_leave_contexts_as_they_are() -> None:
    options = MeasureOptions()
    assert options.reaching(20, 60, 400) == options
    far = options.reaching(100, 7000, 8192)
    assert far.contexts == (100, 905, 8192)
    assert far.prefills == (4, 16, 48, 128, 512, 2048, 7000)
    assert (8192, 8) in far.cells
    assert (8192, 12) not in far.cells


def test_contexts_of_the_questions_are_timed(tmp_path: Path) -> None:
    """Engines are timed at contexts and prompts as long as those of the questions and answers."""
    words = reached = 1500
    short = MeasureOptions(batches=(1, 2), iterations=4, repeats=1, k2=1, rounds=3)

    async def calibrated(servers: list[OpenAIServer]) -> Profile:
        models = RemoteModels(target=servers[0].url, draft=servers[1].url, max_step_tokens=20)
        problems = tuple(Problem(name=f"q{i}", prompt=f"q{i} " + "so " * words) for i in range(2))
        plan = CalibrationPlan(models=models, problems=problems, engine=short, reach=True, warm_up_s=0.1)
        return await calibrate_models(plan, tmp_path / "journal")

    kinds = (Planted(iteration_s=0.02, model=name, max_context=16384) for name in ("big", "small"))
    record = on_servers(calibrated, *kinds).engines["target"]
    single = [sample.context for sample in record.decode if sample.batch == 1]
    assert 0.9 * reached < max(single) < 1.2 * reached
    longest = max(sample.tokens for sample in record.prefill)
    assert words / 2 < longest < 2 * words
