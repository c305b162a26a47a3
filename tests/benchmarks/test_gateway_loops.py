"""What the programs over real servers make of what they measured: paces, worst stretches, and texts that are not so."""

import asyncio
import signal
from itertools import pairwise

import pytest

from benchmarks.gateway_kills import STEP_TOKENS, Direct, Given
from benchmarks.gateway_loops import Run, rows, slowing


def steady(n: int, *, seconds: float = 0.5, tokens: int = 10) -> Run:
    return Run(ends=[seconds * (i + 1) for i in range(n)], tokens=[tokens] * n)


def test_paces_count_from_one_end_to_another() -> None:
    run = steady(9)
    assert run.pace() == pytest.approx(20.0)
    assert run.pace(answers=True) == pytest.approx(2.0)
    assert run.worst(9) is None
    assert run.worst(4) == pytest.approx(20.0)
    run.ends[4:] = [end + 0.5 for end in run.ends[4:]]  # a hole of half a second
    assert run.worst(4) == pytest.approx(40 / 2.5)
    assert run.pace(until=2.0) == pytest.approx(20.0)
    assert run.pace(since=3.0) == pytest.approx(20.0)


def test_the_table_compares_with_plain_decoding_at_both_ends_and_these_with_each_other() -> None:
    changed = Run(ends=[0.25 * i for i in range(8)] + [1.75 + i for i in range(1, 8)], tokens=[10] * 15, changed=1.75)
    runs = {"plain": steady(9), "slowed: gateway": changed, "plain again": steady(9, seconds=0.625)}
    found = {row[1]: row[2:] for row in rows(4, runs, 4)}
    assert found["plain"] == ["9", "20.0", "2.00", "1.250", "1.250"]
    assert found["plain again"] == ["9", "16.0", "1.60", "0.800", "0.800"]
    assert found["slowed: gateway, before"][3] == f"{40.0 * 0.5 * (1 / 20 + 1 / 16):.3f}"
    assert found["slowed: gateway, after"][0] == "7"
    assert found["slowed: gateway, after"][4] == f"{10.0 * 0.5 * (1 / 20 + 1 / 16):.3f}"
    runs["slowed: plain"] = Run(
        ends=[0.5 * i for i in range(5)] + [2.0 + i for i in range(1, 5)], tokens=[10] * 9, changed=2.0
    )
    found = {row[1]: row[2:] for row in rows(4, runs, 4)}
    assert found["slowed: plain, after"][3] == f"{10.0 * 0.5 * (1 / 20 + 1 / 16):.3f}"
    assert found["slowed: gateway, before"][3] == f"{40.0 * 0.5 * (1 / 20 + 1 / 16):.3f}"
    assert found["slowed: gateway, after"][3:] == ["1.000", "1.000"]  # beside plain decoding beside a slowed server


def test_a_slowed_server_is_stopped_in_turns_and_always_goes_on() -> None:
    class Server:
        def __init__(self) -> None:
            self.signs = list[int]()

        def signal(self, sign: int) -> None:
            self.signs.append(sign)

    server = Server()
    with slowing(server):
        pass
    assert not server.signs
    with slowing(server) as begin:
        begin()
        while len(server.signs) < 6:
            pass
    assert {pair for pair in pairwise(server.signs)} == {
        (signal.SIGSTOP, signal.SIGCONT),
        (signal.SIGCONT, signal.SIGSTOP),
    }
    assert server.signs[-1] == signal.SIGCONT


STEPS = {
    "target": ("So one is 1.\n\n", "So two is 2.\n\n", "So three is 3."),
    "draft": ("One is 1.\n\n", "So we have 2.\n\n", "All are 3."),
}
WHOLE = "".join(STEPS["target"])


class Toy(Direct):
    """Both go on with what they would have written."""

    def __init__(self) -> None:
        self._urls = dict.fromkeys(STEPS, "")

    async def says(self, role: str, prompt: str, tokens: int) -> tuple[str, bool]:
        if tokens > STEP_TOKENS:
            return WHOLE, True
        *steps, begun = prompt.removeprefix("Q").split("\n\n")
        if prompt.endswith(STEPS[role][-1]):
            return "", True
        step = STEPS[role][min(len(steps), 2)]
        return (step.removeprefix(begun), len(steps) >= 2) if step.startswith(begun) else ("?", False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (WHOLE, "the target's, whole"),
        ("One is 1.\n\nSo two is 2.\n\nAll are 3.", "of both, by steps"),
        ("So one is 1.\n\nSo we have 2.\n\nSo three is 3.", "of both, by steps"),
        ("So one is 1.\n\nSo one is 1.\n\nSo two is 2.\n\nSo three is 3.", "not as"),  # a step twice
        ("So one is 1.\n\nSo three is 3.", "not as"),  # a step lost
        ("So one is 1.\n\nSo two two is 2.\n\nSo three is 3.", "not as"),  # a token twice
        ("So one is 1.\n\nSo is 2.\n\nSo three is 3.", "not as"),  # a token lost
        ("So one is 1.\n\nSo two is 2.\n\n", "not at its end"),
        ("So one is 1.\n\nSo two is", "not at its end"),
        ("One is 1.\n\nSo two is 2.\n\nSo three is 3.So three is 3.", "not as"),
    ],
)
def test_what_is_lost_or_written_twice_is_found(text: str, found: str) -> None:
    given = Given(question="Q", stream=True, text=text, finish="stop")
    assert asyncio.run(Toy().compared(given)).startswith(found)


def test_an_answer_of_full_length_may_end_anywhere() -> None:
    given = Given(question="Q", stream=True, text="One is 1.\n\nSo two is", finish="length")
    assert asyncio.run(Toy().compared(given)) == "of both, by steps"
