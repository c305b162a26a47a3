"""The search for the best option of each kind, against paces that are made up."""

from specplan.planning.loads.options import DEPTHS, Considered, Option
from specplan.planning.loads.search import best_of_each_kind
from specplan.worlds.arrangements import Arrangement

WIDE, MANY = Arrangement(tp=4, replicas=1), Arrangement(tp=1, replicas=4)
OWN, SHARED = (
    Arrangement(tp=2, replicas=1, drafting="own", own_gpus=1),
    Arrangement(tp=4, replicas=1, drafting="shared"),
)
FOUND = Considered(
    plain=[WIDE, MANY], tokens={"prompt-lookup": [WIDE, MANY]}, steps=[OWN, SHARED], step_methods=["lr-async"]
)


def made_up(option: Option, answers: int) -> float:
    """Paces with one best option of each kind: k2 = 3 on many copies, k1 = 6 on GPUs of its own."""
    c = option.configuration
    pace = 100.0 * answers
    if option.arrangement in (MANY, OWN):
        pace *= 1.3
    if c.k2 > 1:
        pace *= 1.5 - 0.05 * abs(c.k2 - 3)
    if c.spec.drafts_steps:
        pace *= (0.5 if answers > 4 else 1.6) - 0.02 * abs(c.k1 - 6)
    return pace


def two(method: str, tp: int, sequences: int) -> int:
    """Two drafted tokens per round, whatever the batch."""
    return 2


def test_it_finds_the_best_of_each_kind() -> None:
    best = best_of_each_kind(FOUND, made_up, two, 2)
    assert set(best) == {"autoregressive", "prompt-lookup", "lr-async", "lr-async+prompt-lookup"}
    assert best["autoregressive"][0].arrangement == MANY
    lookup, ahead = best["prompt-lookup"][0], best["lr-async"][0]
    assert (lookup.configuration.k2, lookup.arrangement) == (3, MANY)
    assert (ahead.configuration.k1, ahead.arrangement) == (6, OWN)
    assert best["lr-async+prompt-lookup"][0].configuration.k2 == 3
    assert all(rate == made_up(option, 2) for option, rate in best.values())


def test_kinds_that_were_far_behind_are_given_up_and_depths_looked_for_nearby() -> None:
    few = best_of_each_kind(FOUND, made_up, two, 2)
    many = best_of_each_kind(FOUND, made_up, two, 8, few)
    assert many["lr-async"][1] < 0.8 * many["autoregressive"][1]
    more = best_of_each_kind(FOUND, made_up, two, 16, many)
    assert "lr-async" not in more
    asked: list[Option] = []

    def asking(option: Option, answers: int) -> float:
        asked.append(option)
        return made_up(option, answers)

    best_of_each_kind(FOUND, asking, two, 3, few)
    assert {one.configuration.k1 for one in asked if one.kind == "lr-async"} == {4, 6, 8}
    assert set(DEPTHS) > {4, 6, 8}


def test_steps_far_behind_the_best_method_are_given_up_at_more_answers() -> None:
    def heads_win(option: Option, answers: int) -> float:
        return made_up(option, answers) * (3.0 if option.kind == "prompt-lookup" else 1.0)

    few = best_of_each_kind(FOUND, heads_win, two, 2)
    assert few["lr-async"][1] > few["autoregressive"][1], "steps gain, but a third of what tokens do"
    assert set(best_of_each_kind(FOUND, heads_win, two, 3, few)) == {"autoregressive", "prompt-lookup"}


def test_tokens_are_drafted_as_the_schedule_says_for_the_fullest_copy() -> None:
    asked = set()

    def depth(method: str, tp: int, sequences: int) -> int:
        asked.add((method, tp, sequences))
        return 2 if sequences > 2 else 5

    best = best_of_each_kind(FOUND, made_up, depth, 9)
    assert asked == {("prompt-lookup", 4, 9), ("prompt-lookup", 1, 3)}
    assert best["prompt-lookup"][0].configuration.k2 == 3
