"""Laws of loads, on random ones of every method: Little's, conservation of tokens, busy time, what a round commits."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from random_loads import METHODS, random_load

from sim.configuration import PLAIN
from sim.roles import TARGET
from sim.serving.answers import ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.run import arriving, closed_loop
from sim.virtual_clock import Session, VirtualClock

PARTS = [range(first, first + 52) for first in range(0, 520, 52)]
"""Random loads of the whole check, in parts."""
FEW = [
    next(number for number in range(place, 10**6, len(METHODS)) if random_load(number).concurrency <= 6)
    for place in range(len(METHODS))
]
"""A load of each method that takes no time."""
WHOLE = [number for number in range(90) if random_load(number).is_whole][:4]


@cache
def served(number: int, few: bool, plain: bool = False) -> ServedLoad:
    load = random_load(number)
    configuration = PLAIN if plain else None
    return (load.run(configuration, lives=2.0, answers=24) if few else load.run(configuration)).run(1)[0]


def check_laws(numbers: Sequence[int], *, few: bool) -> None:
    """Hold loads to Little's law: throughput x mean seconds / mean tokens of an answer = answers in flight."""
    differences, errors = [], []
    for number in numbers:
        load, one = random_load(number), served(number, few)
        each = one.seconds_per_token()
        differences.append(one.tokens_per_s * each.value / load.concurrency - 1.0)
        errors.append(each.stderr / each.value)
        assert abs(differences[-1]) <= 0.03 + 4.0 * errors[-1], load
        assert all(0.0 <= share <= 1.0 + 1e-9 for share in one.busy.values()), load
    # Chance goes either way, so that an estimator which is off shows in the mean.
    assert abs(np.mean(differences)) <= 4.0 * np.std(differences, ddof=1) / len(numbers) ** 0.5 + 0.003
    assert np.median(np.abs(differences)) <= 0.03
    assert np.median(errors) <= (0.1 if few else 0.05), "chance would hide a wrong estimator"


def check_gains(numbers: Sequence[int], *, few: bool) -> None:
    """No method gains more than its rounds can commit; a draft that writes instead of the target has no such bound."""
    for number in numbers:
        load = random_load(number)
        configuration = load.configuration
        if load.is_whole or configuration.method in ("lr-async", "lr-sync"):
            most = configuration.k2 if load.is_whole else configuration.k1 + 1.0
            plain = served(number, few, plain=True)
            assert served(number, few).tokens_per_s <= 1.03 * most * plain.tokens_per_s, load


def test_a_load_of_each_method_keeps_the_laws() -> None:
    check_laws(FEW, few=True)
    check_gains(FEW, few=True)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_five_hundred_random_loads_keep_the_laws(part: range) -> None:
    check_laws(part, few=False)
    check_gains(part, few=False)


@pytest.mark.parametrize("number", WHOLE)
def test_tokens_of_arrivals_are_those_of_their_answers(number: int) -> None:
    """Tokens in = tokens out over the life of all answers, whoever lost a place in the cache meanwhile."""
    load = random_load(number)
    seen = arriving(load.trial(load.configuration), [0.05 * i for i in range(24)])
    assert seen.tokens == sum(answer.tokens for answer in seen.answers)
    assert len(seen.answers) == seen.n_ended == 24


@pytest.mark.parametrize("number", WHOLE)
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
        committed = sum(step.n_tokens for session in sessions for step in session.committed)
        assert committed + target.written() >= before
        before = committed + target.written()
    assert before == committed
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
