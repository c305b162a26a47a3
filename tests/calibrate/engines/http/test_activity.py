"""What a server did is told from the arrivals of tokens: against a server that is simulated iteration by iteration."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai_server import Planted
from virtual_loops import PROMPT, TRIP_S, VirtualServer

from calibrate.engines.http.activity import activity
from calibrate.engines.http.stream import Streamed
from calibrate.engines.work import Prefill

PREFILL = 0.5


def tau(batch: int) -> float:
    return 1.0 + 0.125 * batch


def served(requests: list[tuple[float, int]], accepted: tuple[float, ...] = ()) -> tuple[VirtualServer, Counter[int]]:
    """A server that has answered requests (moment, tokens), and its iterations without a prompt by batch size."""
    per_token = PREFILL / PROMPT
    planted = Planted(
        iteration_s=1.0, sequence_s=0.125, prefill_token_s=per_token, k2=1 + len(accepted), accepted=accepted
    )
    server, plain = VirtualServer(planted), Counter[int]()
    for moment, n in requests:
        server.ask(n, moment)
    while server.coming or server.running:
        batch, n_coming = len(server.running), len(server.coming)
        server.iterate()
        plain[batch] += len(server.coming) == n_coming
    return server, +plain


REQUESTS = st.lists(
    st.tuples(st.integers(0, 160).map(lambda n: n / 8 + 1 / 64), st.integers(1, 12)), min_size=1, max_size=8
)


@given(requests=REQUESTS)
def test_iterations_and_prefills_are_those_of_the_server(requests: list[tuple[float, int]]) -> None:
    server, plain = served(requests)
    found = server.work()
    assert Counter(it.batch for it in found.iterations) == plain
    assert [it.seconds for it in found.iterations] == pytest.approx([tau(it.batch) for it in found.iterations])
    assert len(found.prefills) == len(requests)
    for prefill in found.prefills:
        assert (prefill.tokens, prefill.cached) == (PROMPT, 0)
        # Of a batch that was never seen without a prefill another one tells; nothing, where there is none.
        known = not prefill.beside or plain[prefill.beside]
        assert prefill.seconds == pytest.approx(PREFILL, abs=1e-9 if known else tau(len(requests)))
    decoded = sum(it.batch for it in found.iterations) + sum(joined.tokens for joined in found.joined)
    assert decoded == sum(n - 1 for _, n in requests), "every token but the first of each, once"


def test_alone_a_round_trip_is_not_part_of_the_prefill() -> None:
    server, _ = served([(1.0, 5)])
    server.streams[0].usage["prompt_tokens_details"] = {"cached_tokens": 3}
    found, begun = server.work(), 1.0 + TRIP_S
    assert found.prefills == (Prefill(PROMPT - 3, 3, pytest.approx(PREFILL), pytest.approx(begun + PREFILL)),)
    ends = [begun + PREFILL + i * tau(1) for i in range(1, 5)]
    assert [it.ended_s for it in found.iterations] == pytest.approx(ends)
    assert [it.context for it in found.iterations] == [PROMPT + i for i in range(1, 5)]
    assert found.busy_spans() == [(pytest.approx(begun), pytest.approx(ends[-1]))]


def test_a_prefill_is_compared_with_the_iterations_around_it() -> None:
    """From 20 s on another engine works beside, and iterations take twice as long: so do the prefills."""
    moments = [float(i) for i in range(21)] + [20.0 + 2 * i for i in range(1, 21)]
    moments = [moment + 0.5 * (moment >= 10) + 1.0 * (moment >= 40) for moment in moments]
    company = Streamed(sent=-1.0, arrivals=[(moment, 1) for moment in moments], ids=[0] * 41, reason="length")
    joined = [
        Streamed(sent=at - 0.75, arrivals=[(at, 1)], ids=[0], reason="length", usage={"prompt_tokens": 9})
        for at in (10.5, 41.5)
    ]
    _, alone, beside = activity([company, *joined], trip_s=0.0).prefills
    assert (alone.seconds, beside.seconds) == pytest.approx((0.5, 1.0))


@pytest.mark.parametrize("late", [0.1, -0.1])
def test_deliveries_of_an_iteration_that_lie_apart_are_one(late: float) -> None:
    server, _ = served([(1.0, 12), (1.0, 12)])
    second = server.streams[1]
    second.arrivals = [(moment + late, n) for moment, n in second.arrivals]
    found = server.work()
    assert Counter(it.batch for it in found.iterations) == {2: 11}


@pytest.mark.parametrize(
    ("arrivals", "k2", "seconds"),
    [
        ([(1.0, 1), (3.0, 4)], 1, [0.5] * 4),
        ([(1.0, 1), (2.0, 1), (2.0, 1), (2.5, 2)], 1, [0.5, 0.5, 0.25, 0.25]),  # two were read at once
        ([(1.0, 1), (2.0, 1), (2.0, 1), (2.5, 2)], 2, [0.5, 0.5, 0.5]),
        ([(1.0, 3), (2.0, 5)], 3, [0.5, 0.5]),
    ],
)
def test_chunks_with_more_tokens_than_a_pass_gives_are_several(
    arrivals: list[tuple[float, int]], k2: int, seconds: list[float]
) -> None:
    ids = [0] * sum(n for _, n in arrivals)
    found = activity([Streamed(sent=0.0, arrivals=arrivals, ids=ids, reason="stop")], trip_s=0.0, k2=k2)
    assert [it.seconds for it in (*found.iterations, *found.passes)] == seconds


def test_passes_of_a_server_that_speculates() -> None:
    server, _ = served([(1.0, 8)], (1.0, 1.0))
    found = server.work()
    assert found.iterations == ()
    assert [(p.batch, p.rows, p.tokens) for p in found.passes] == [(1, 3, 3), (1, 3, 3), (1, 3, 1)]
    assert [p.seconds for p in found.passes] == pytest.approx([tau(1)] * 3)
    assert server.streams[0].passes(3, always=True) == ((2, 2), (2, 2), (2, 0))
    assert server.streams[0].passes(3, always=False) == ((2, 2), (2, 2), (0, 0))
    assert Streamed(arrivals=[(1.0, 3), (2.0, 5)]).passes(3, always=True) == ((2, 1), (2, 2), (2, 1))


def test_what_was_broken_off_counts_as_far_as_it_came() -> None:
    server, _ = served([(1.0, 12)])
    server.streams[0].reason = ""
    server.streams[0].usage = {}
    found = activity([*server.streams, Streamed(sent=3.0)], trip_s=0.0)
    assert len(found.iterations) == 11


def test_where_a_server_does_not_tell_what_was_cached_it_is_what_it_was_sent_before() -> None:
    streamed = Streamed(sent=0.0, arrivals=[(1.0, 1)], usage={"prompt_tokens": 40}, read_before=0.75, reason="stop")
    assert activity([streamed], trip_s=0.0).prefills == (Prefill(10, 30, 1.0, 1.0),)


def test_a_joined_pass_has_the_tokens_and_seconds_of_all() -> None:
    """Two decode; a third joins them in a pass of 1.25 + 0.5 s, and two more in one of 1.375 + 1 s."""
    found = served([(1.0, 9), (1.0, 9), (4.0, 9), (7.0, 9), (7.0, 9)])[0].work()
    assert [(j.batch, j.n, j.joiners, j.prompt_tokens, j.rows, j.tokens) for j in found.joined] == [
        (2, 1, 1, PROMPT, 2, 2),
        (3, 1, 2, 2 * PROMPT, 3, 3),
    ]
    assert [joined.seconds for joined in found.joined] == pytest.approx([1.75, 2.375])
    assert [joined.context for joined in found.joined] == [2 * (PROMPT + 3), 2 * (PROMPT + 5) + PROMPT + 2]
    assert [(prefill.together, prefill.beside) for prefill in found.prefills] == [(2, 0)] * 2 + [(1, 2)] + [(2, 3)] * 2


def test_passes_that_read_a_prompt_in_parts_are_one_joined_pass() -> None:
    """A prompt of three parts, sent at 5.5 s: passes of 4, 4 and 3 s instead of 1 s; then its first token."""
    moments = [*map(float, range(1, 7)), 10.0, 14.0, 17.0, *map(float, range(18, 24))]
    company = Streamed(sent=0.0, arrivals=[(m, 1) for m in moments], ids=[0] * len(moments), reason="length")
    asked = Streamed(sent=5.5, arrivals=[(17.0, 1)], ids=[0], reason="length", usage={"prompt_tokens": 900})
    found = activity([company, asked], trip_s=0.0)
    assert [(j.n, j.joiners, j.prompt_tokens, j.tokens, j.seconds) for j in found.joined] == [(3, 1, 900, 3, 11.0)]
    assert {it.seconds for it in found.iterations} == {1.0}
    assert [(p.seconds, p.beside) for p in found.prefills if p.beside] == [(pytest.approx(8.0), 1)]


def test_the_tokens_of_a_pass_are_those_of_all_its_streams() -> None:
    first = Streamed(sent=0.0, arrivals=[(1.0, 1), (2.0, 3), (3.0, 1)], ids=[0] * 5, reason="stop")
    second = Streamed(sent=0.0, arrivals=[(1.05, 1), (2.05, 2), (3.05, 3)], ids=[0] * 6, reason="stop")
    found = activity([first, second], trip_s=0.0, k2=3)
    assert [(p.batch, p.rows, p.tokens) for p in found.passes] == [(2, 6, 5), (2, 6, 4)]
