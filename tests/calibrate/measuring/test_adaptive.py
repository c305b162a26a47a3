"""A calibration of planted servers that stops by itself."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer, Planted
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
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem
from theory.errors import ParameterError

OPTIONS = MeasureOptions(batches=(1,), contexts=(8,), iterations=6, prefills=(4,), repeats=2, rounds=2)
NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
BRIEF = Planted(iteration_s=1e-3, steps=2, step_tokens=(2, 4), tokenizes=False)
PAIR = BRIEF, replace(BRIEF, model="small")


@pytest.fixture(autouse=True)
def few_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds with two clients, not with more: they are most of a small calibration."""
    monkeypatch.setattr("calibrate.measuring.plan._CLIENTS", (2,))


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


@pytest.mark.parametrize(
    ("rule", "left", "answers", "note"),
    [  # looks at 4, 6, 9 and 12 answers
        (Stopping(precision=0.4, min_answers=4, max_answers=12), (0.6, 0.0), {6, 9}, "precision is reached"),
        (Stopping(precision=0.3, min_answers=4, max_answers=12, max_rounds=8), (0.0, 0.4), {4}, "precision is reached"),
        (Stopping(precision=0.01, min_answers=4, max_answers=6, max_rounds=2), (1.0, 0.0), {6}, "instead of the"),
    ],
    ids=["answers", "timings", "the most"],
)
def test_it_stops_at_the_first_look_that_is_precise_enough(
    tmp_path: Path, rule: Stopping, left: tuple[float, float], answers: set[int], note: str
) -> None:
    """What is missing is added, be it answers or timings, up to the most that are allowed."""
    seen: list[Status] = []
    profile, found = calibrated(tmp_path / "j", rule.max_answers, rule, planted(*left), watch=seen.append)
    enough = (n for n in rule.looks if left[0] / math.sqrt(n) * rule.widening(n) <= rule.precision)
    expected = next(enough, rule.max_answers)
    assert expected in answers
    assert len(profile.answers) == expected
    assert (n_timings(found) > OPTIONS.rounds) is (left[1] > 0.0)
    assert len(found) == len(set(found))
    assert any(note in said for said in profile.provenance.notes)
    assert seen[-1].done == seen[-1].n_parts
    assert seen[-1].last_look is not None


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


@pytest.mark.parametrize(("alone", "words", "reached"), [(False, 1500, 1500), (True, 2, 64)])
def test_contexts_of_questions_and_answers_are_timed(tmp_path: Path, alone: bool, words: int, reached: int) -> None:
    """Engines are timed at contexts as long as long questions, and as long answers to short questions."""
    short = MeasureOptions(batches=(1,), contexts=(16,), iterations=4, repeats=1, k2=1, rounds=3)

    async def calibrated(servers: list[OpenAIServer]) -> Profile:
        target, other = (server.url for server in servers)
        models = RemoteModels(target=target, draft=other, max_step_tokens=20)
        if alone:
            models = RemoteModels(target=target, draft="", speculative=json.dumps([{"server": other, **NGRAM}]))
        problems = tuple(Problem(name=f"q{i}", prompt=f"q{i} " + "so " * words) for i in range(4))
        texts = problems[2:] if alone else ()
        plan = CalibrationPlan(models=models, problems=problems[:2], texts=texts, engine=short, reach=True)
        return await calibrate_models(replace(plan, warm_up_s=0.1), tmp_path / "journal")

    long: dict[str, Any] = {"steps": 5, "step_tokens": (11, 13)} if alone else {}
    kinds = (Planted(iteration_s=0.02, model=name, max_context=16384, **long) for name in ("big", "small"))
    record = on_servers(calibrated, *kinds).engines["target"]
    single = [sample.context for sample in record.decode if sample.batch == 1]
    assert 0.9 * reached < max(single) < 1.2 * reached
    longest = max(sample.tokens for sample in record.prefill)
    assert alone or words / 2 < longest < 2 * words
