"""The search for the best option of each kind, against paces that are made up."""

from specplan.planning.loads.options import DEPTHS, Considered, Option
from specplan.planning.loads.search import Best, Depth, Speed, best_of_each_kind
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


def searched(speed: Speed, answers: int, before: Best | None = None, depth: Depth = two) -> Best:
    """The best of each kind where all is simulated, and nothing adapts."""
    return best_of_each_kind(FOUND, speed, depth, answers, before or {}, lambda *_: None, lambda *_: None)


def test_it_finds_the_best_of_each_kind() -> None:
    best = searched(made_up, 2)
    assert set(best) == {"autoregressive", "prompt-lookup", "lr-async", "lr-async+prompt-lookup"}
    assert best["autoregressive"][0].arrangement == MANY
    lookup, ahead = best["prompt-lookup"][0], best["lr-async"][0]
    assert (lookup.configuration.k2, lookup.arrangement) == (3, MANY)
    assert (ahead.configuration.k1, ahead.arrangement) == (6, OWN)
    assert best["lr-async+prompt-lookup"][0].configuration.k2 == 3
    assert all(rate == made_up(option, 2) for option, rate in best.values())


def test_kinds_that_were_far_behind_are_given_up_and_depths_looked_for_nearby() -> None:
    few = searched(made_up, 2)
    many = searched(made_up, 8, few)
    assert many["lr-async"][1] < 0.8 * many["autoregressive"][1]
    more = searched(made_up, 16, many)
    assert "lr-async" not in more
    asked: list[Option] = []

    def asking(option: Option, answers: int) -> float:
        asked.append(option)
        return made_up(option, answers)

    searched(asking, 3, few)
    assert {one.configuration.k1 for one in asked if one.kind == "lr-async"} == {4, 6, 8}
    assert set(DEPTHS) > {4, 6, 8}


def test_steps_far_behind_the_best_method_are_given_up_at_more_answers() -> None:
    def heads_win(option: Option, answers: int) -> float:
        return made_up(option, answers) * (3.0 if option.kind == "prompt-lookup" else 1.0)

    few = searched(heads_win, 2)
    assert few["lr-async"][1] > few["autoregressive"][1], "steps gain, but a third of what tokens do"
    assert set(searched(heads_win, 3, few)) == {"autoregressive", "prompt-lookup"}


def test_tokens_are_drafted_as_the_schedule_says_for_the_fullest_copy() -> None:
    asked = set()

    def depth(method: str, tp: int, sequences: int) -> int:
        asked.add((method, tp, sequences))
        return 2 if sequences > 2 else 5

    best = searched(made_up, 9, depth=depth)
    assert asked == {("prompt-lookup", 4, 9), ("prompt-lookup", 1, 3)}
    assert best["prompt-lookup"][0].configuration.k2 == 3
