"""Laws of loads, on random ones of every method: Little's, conservation of tokens, busy time, what a round commits."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from random_loads import METHODS, RandomLoad, random_load

from sim.configuration import Configuration
from sim.roles import TARGET
from sim.serving.answers import ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.run import arriving, closed_loop
from sim.virtual_clock import Session, VirtualClock

PLAIN = Configuration(method="autoregressive")
PARTS = [range(first, first + 52) for first in range(0, 520, 52)]
"""Random loads of the whole check, in parts."""
FEW = [
    next(number for number in range(place, 10**6, len(METHODS)) if random_load(number).concurrency <= 6)
    for place in range(len(METHODS))
]
"""A load of each method that takes no time."""
Loads = Sequence[int]


@cache
def served(number: int, few: bool) -> ServedLoad:
    load = random_load(number)
    return (load.run(lives=2.0, answers=24) if few else load.run()).run(1)[0]


def little(number: int, few: bool) -> tuple[float, float]:
    """Throughput x mean seconds / mean tokens of an answer / answers in flight - 1, and its standard error."""
    load = served(number, few)
    each = load.seconds_per_token()
    return load.tokens_per_s * each.value / random_load(number).concurrency - 1.0, each.stderr / each.value


def check_laws(number: int, few: bool) -> None:
    difference, error = little(number, few)
    assert abs(difference) <= 0.03 + 4.0 * error, random_load(number)
    load = served(number, few)
    assert all(0.0 <= share <= 1.0 + 1e-9 for share in load.busy.values()), random_load(number)


def check_all(numbers: Loads, *, few: bool) -> None:
    for number in numbers:
        check_laws(number, few)
    differences, errors = np.array([little(number, few) for number in numbers]).T
    # Chance goes either way, so that an estimator which is off shows in the mean.
    assert abs(differences.mean()) <= 4.0 * differences.std(ddof=1) / len(numbers) ** 0.5 + 0.003
    assert np.median(np.abs(differences)) <= 0.03
    assert np.median(errors) <= (0.1 if few else 0.05), "chance would hide a wrong estimator"


def test_a_load_of_each_method_keeps_the_laws() -> None:
    check_all(FEW, few=True)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_five_hundred_random_loads_keep_the_laws(part: range) -> None:
    check_all(part, few=False)
    check_gains(part, few=False)


def most_committed(load: RandomLoad) -> float:
    """Tokens per iteration of the target, or steps in flight, over those of plain decoding."""
    configuration = load.configuration
    return configuration.k2 if load.is_whole else configuration.k1 + 1.0


def check_gains(numbers: Loads, *, few: bool) -> None:
    """No method gains more than its rounds can commit; a draft that writes instead of the target has no such bound."""
    for number in numbers:
        load = random_load(number)
        if not load.is_whole and load.configuration.method not in ("lr-async", "lr-sync"):
            continue
        plain = (load.run(PLAIN, lives=2.0, answers=24) if few else load.run(PLAIN)).run(1)[0]
        assert served(number, few).tokens_per_s <= 1.03 * most_committed(load) * plain.tokens_per_s, load


def test_no_gain_is_above_what_a_round_commits() -> None:
    check_gains(FEW, few=True)


@pytest.mark.parametrize("number", [n for n in range(90) if random_load(n).is_whole][:4])
def test_tokens_of_arrivals_are_those_of_their_answers(number: int) -> None:
    """Tokens in = tokens out over the life of all answers, whoever lost a place in the cache meanwhile."""
    load = random_load(number)
    seen = arriving(load.trial(load.configuration), [0.05 * i for i in range(24)])
    assert seen.tokens == sum(answer.tokens for answer in seen.answers)
    assert len(seen.answers) == seen.n_ended == 24


@pytest.mark.parametrize("number", [n for n in range(90) if random_load(n).is_whole][:4])
def test_an_engine_never_takes_back_what_it_has_written(number: int) -> None:
    """After each event of a full cache: tokens of the ended answers and of those in flight grow, and by whole ones."""
    load = random_load(number)
    trial = load.trial(load.configuration)
    clock = VirtualClock(trial.engines, record=False)
    sessions = [Session(clock, trial.algorithm(answer.root), answer) for answer in map(trial.answer, range(12))]
    for session in sessions:
        session.resume()
    target, before = clock.engines[TARGET], 0
    assert isinstance(target, ServingEngine)
    while any(session.finished is None for session in sessions):
        clock.env.step()
        now = sum(step.n_tokens for session in sessions for step in session.committed) + target.written()
        assert now >= before
        before = now
    assert before == sum(step.n_tokens for session in sessions for step in session.committed)
    assert target.written() == 0


@pytest.mark.parametrize("number", range(0, 60, 15))
def test_windows_that_follow_each_other_count_each_token_once(number: int) -> None:
    load = random_load(number)
    cuts = [0, 40 * load.concurrency, 95 * load.concurrency]

    def tokens(begin: int, end: int) -> int:
        trial = load.trial(load.configuration)
        loop = closed_loop(trial, concurrency=load.concurrency, tokens=end, warmup_tokens=begin, met_under_way=True)
        return loop.tokens

    assert tokens(0, cuts[1]) + tokens(cuts[1], cuts[2]) == tokens(0, cuts[2])
