"""Closed loops on servers with planted passes: times come back by batch and joiners, and what disturbs is said."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from openai_server import OpenAIServer, Planted
from refusals import refuses
from replies import generated, times
from virtual_time import on_servers

from calibrate.engines.prometheus import Load, ServerCounts, SpecDecode
from calibrate.engines.protocol import Finish, Generation
from calibrate.engines.speculation import Decoding
from calibrate.engines.work import EngineStatistics, JoinedPass, Pass, Prefill
from calibrate.loads.closed_loop import Loop, Reading
from calibrate.loads.levels import LoadOptions, LoadSweep, kept_loads, load_notes
from calibrate.loads.sums import cautions, record_of, unusable
from calibrate.models.servers import RemoteModels
from calibrate.record.engine_records import JoinedSums, LoadedSums, LoadRecord
from calibrate.record.journal import Journal
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem

PLAIN = Planted(iteration_s=0.03, sequence_s=0.001, prefill_s=0.02, reading_s=0.06, step_tokens=(2, 8), counts=True)
DRAFTED = replace(PLAIN, row_s=0.0005, k2=4, accepted=(0.8, 0.9, 0.5))
SPECULATIVE = {"method": "draft_model", "model": "small", "num_speculative_tokens": 3}
OFF = 0.05
"""Relative error of what is read from arrivals: few passes, some of them the first or last of an answer."""
QUESTIONS = tuple(
    Problem(name=f"q{i}", prompt=f"{letter} is what? " + "so " * 6) for i, letter in enumerate("abcdefghijkl")
)


def swept(
    journal: Path, levels: Sequence[int], *kinds: Planted, others_s: float = 0.0, progress: list[str] | None = None
) -> tuple[list[LoadRecord], list[str], int]:
    """The records and notes of these levels, and answers asked for: on a target, and on one with a draft model."""

    async def measured(servers: list[OpenAIServer]) -> tuple[list[LoadRecord], list[str], int]:
        target, *fast = servers
        speculative = json.dumps([{"server": one.url, **SPECULATIVE} for one in fast]) if fast else ""
        models = RemoteModels(target=target.url, draft="" if fast else target.url, speculative=speculative, gate=False)
        speculating = [
            replace(one, speculation=models.speculation(one.method, one.knobs)) for one in models.token_settings()
        ]
        decodings = [Decoding(), *speculating]

        async def nothing(number: int) -> None:
            """What is measured before a round."""

        async with models.open() as (_, clock):
            with Journal(journal, {}) as pieces:
                sweep = LoadSweep(
                    options=LoadOptions(levels=tuple(levels)),
                    decodings=decodings,
                    clock=clock,
                    journal=pieces,
                    patiently=Patience(0.0),
                    progress=(progress if progress is not None else []).append,
                )
                await sweep.measure(QUESTIONS, others_s, nothing)
                asked = sum(body["max_tokens"] > 2 for body in target.bodies)
                return kept_loads(pieces, decodings), load_notes(pieces, decodings), asked

    return on_servers(measured, *kinds)


def mean_s(sums: Sequence[LoadedSums] | Sequence[JoinedSums]) -> float:
    return sum(one.seconds for one in sums) / sum(one.n for one in sums)


def test_planted_passes_come_back_by_batch_and_joiners(tmp_path: Path) -> None:
    parts: list[str] = []
    records, _, _ = swept(tmp_path / "j", (1, 6), PLAIN, DRAFTED, others_s=9.0, progress=parts)
    kinds = [(one.method, one.k2, one.at_once) for one in records]
    assert kinds == [("", 1, 1), ("draft-model", 4, 1), ("", 1, 6), ("draft-model", 4, 6)]
    assert len(parts) == 16, "four loops of each, where there is time for them"
    for record, planted in zip(records, (PLAIN, DRAFTED) * 2, strict=True):
        pass_s = planted.pass_s(record.at_once, 0, 0)
        passes = [one for one in record.passes if one.batch == record.at_once]
        assert mean_s(passes) == pytest.approx(pass_s, rel=OFF)
        joined = [one for one in record.joined if one.batch == record.at_once - 1 and one.joiners == 1]
        if record.at_once > 1:
            assert mean_s(joined) == pytest.approx(0.06, rel=OFF)
            assert not record.queued
            assert record.most == 6
            # Each prompt is new to its server: no two answers of a question share the salt of its cache.
            assert sum(one.prompt_tokens for one in joined) == 9 * sum(one.reads for one in joined)
        per_pass = sum(one.tokens for one in record.passes) / sum(one.batch * one.n for one in record.passes)
        assert per_pass == pytest.approx(planted.per_pass, abs=0.45 if record.method else 1e-9)  # the last ones are cut
        assert record.first_token_s is not None


def test_each_level_is_measured_in_several_rounds_if_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrate.loads.levels._ENOUGH_S", 1.0)
    parts: list[str] = []
    records, _, _ = swept(tmp_path / "j", (1, 2), PLAIN, others_s=8.2, progress=parts)
    loops = [f"plain decoding, {n} at once" for n in (1, 2)]
    assert parts[:4] == [*loops, f"{loops[1]}, round 2", f"{loops[0]}, round 2"]
    assert (tmp_path / "j").read_text(encoding="utf-8").count(", round ") == 2
    assert [one.at_once for one in records] == [1, 1, 2, 2]
    for record in records:
        assert record.seconds == pytest.approx(0.8 * 1.025, rel=0.1), "a window is four fifths of a loop"
        assert sum(one.seconds for one in record.passes) > 0.6
        assert record.most == record.at_once
        assert record.running == pytest.approx(record.at_once, abs=0.2)


def test_a_server_that_lets_requests_wait_counts_as_what_it_ran_and_is_not_measured_again(tmp_path: Path) -> None:
    records, notes, asked = swept(tmp_path / "j", (2, 8), replace(PLAIN, max_running=3))
    assert swept(tmp_path / "j", (2, 8), replace(PLAIN, max_running=3)) == (records, notes, 0)
    assert asked
    assert [(one.most, one.queued) for one in records] == [(2, False), (3, True)]
    assert 1.5 < records[1].running <= 3.0
    assert notes == ["plain decoding, 8 at once: the server ran 3 answers at once, the others waited"]


def test_a_level_that_is_refused_is_left_out_by_name(tmp_path: Path) -> None:
    records, (note,), _ = swept(tmp_path / "j", (2, 8, 16), replace(PLAIN, most_accepted=4))
    assert [one.at_once for one in records] == [2]
    assert note.startswith("warning: plain decoding, 8 at once is left out: ")
    assert "429" in note or "refused" in note


def answer(n: int, *, at: float = 2.0, finish: Finish = "eos", n_prompt: int = 10) -> Generation:
    return generated(n, times(at, queued=at - 1.0, start=at - 0.9, first=at - 0.5), finish=finish, n_prompt=n_prompt)


def loop(*ended: Generation, at_once: int = 2, before: ServerCounts | None = None, **counts: object) -> Loop:
    """From 0 to 10 s, passes of 1 s that decode two sequences; one of them reads a prompt beside a single one."""
    done = [Pass.plain(2, 100, 1.0, float(i)) for i in range(1, 10)]
    after = None if before is None else replace(before, **counts)  # type: ignore[arg-type]
    return Loop(
        at_once=at_once,
        ended=ended,
        work=EngineStatistics(
            iterations=tuple(done),
            passes=(Pass(2, 100, 8, 5, 0.5, 0.0, 9.5),),
            prefills=(Prefill(7, 0, 0.25, 1.5, 2, 0), Prefill(7, 0, 0.25, 1.5, 2, 0), Prefill(9, 0, 0.5, 10.0, 1, 1)),
            joined=(JoinedPass(1, 50, 1, 1, 9, 1, 1, 0.5, 10.0),),
        ),
        begun=Reading(before, 0.0, 0.0),
        opened=Reading(before, 0.0, 0.0),
        closed=Reading(after, 10.0, 10.0),
    )


def test_the_sums_of_a_record() -> None:
    record = record_of(loop(answer(7), answer(5, at=11.0)), "", {})
    assert record.passes == [LoadedSums(2, 1, 9, 900, 18, 9.0), LoadedSums(2, 4, 1, 100, 5, 0.5)]
    assert record.joined == [JoinedSums(0, 2, 1, 1, 0, 14, 0, 0.5), JoinedSums(1, 1, 1, 1, 50, 9, 1, 0.5)]
    assert (record.answers, record.ended, record.answer_tokens, record.prompt_tokens) == (1, 2, 12, 20)
    assert record.tokens == 18 + 5 + 2 + 2  # of passes, of the joined one, first tokens read apart
    assert (record.running, record.most, record.queued) == (2.0, 2, False)
    assert record.first_token_s == 0.5


COUNTS = ServerCounts(tokens=1000, load=Load(running=2, waiting=0))
SPEC = SpecDecode(tokens=1000, drafts=400, drafted=1200, accepted=600)


@pytest.mark.parametrize(
    ("ended", "before", "counts", "said"),
    [
        ([answer(5)], COUNTS, {"tokens": 1027}, []),
        ([answer(5)], COUNTS, {"tokens": 1400}, ["warning: the server counted 400 tokens, its streams had 27: "]),
        ([answer(5)], COUNTS, {"tokens": 12}, ["warning: the server's counters started anew in between"]),
        ([answer(5, finish="length"), answer(9)], None, {}, ["1 of 2 answers were cut at the limit of tokens"]),
        ([answer(1), answer(9)], None, {}, ["1 of 2 answers were empty"]),
        ([answer(9, n_prompt=0)], None, {}, ["warning: the server's streams tell no usage: a chunk counts as a token"]),
        (
            [answer(9)],
            replace(COUNTS, speculation=SPEC),
            {"tokens": 1027, "speculation": replace(SPEC, tokens=10)},
            ["warning: the server's counters started anew in between"],
        ),
        (
            [answer(9)],
            replace(COUNTS, speculation=SPEC),
            {"tokens": 1027, "speculation": replace(SPEC, tokens=4000, drafts=1400, drafted=4200, accepted=2600)},
            ["warning: the server counted 3.00 tokens per pass and answer, its streams had 1.15"],
        ),
    ],
)
def test_what_a_loop_cannot_tell_is_a_line_each(
    ended: list[Generation], before: ServerCounts | None, counts: dict[str, object], said: list[str]
) -> None:
    one = loop(*ended, before=before, **counts)
    record = record_of(one, "", {})
    assert not unusable(one, record)
    lines = list(cautions(one, record))
    assert [line[: len(begin)] for line, begin in zip(lines, said, strict=True)] == said
    assert "\n" not in "".join(lines)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (loop(answer(1), answer(0)), "all 2 answers were empty"),
        (loop(answer(9), before=COUNTS, preempted=3), "the server preempted 3 answers for want of cache"),
        (loop(answer(9), before=COUNTS, retries=2), "the server refused or broke off 2 requests"),
        (replace(loop(), work=EngineStatistics()), "no pass ended in its time"),
    ],
)
def test_a_level_without_use_says_why(one: Loop, said: str) -> None:
    assert unusable(one, record_of(one, "", {})).startswith(said)


def test_requests_that_wait_are_told_by_the_server_too() -> None:
    known = loop(answer(5), at_once=8, before=COUNTS, load=Load(running=2, waiting=6))
    record = record_of(known, "", {})
    assert record.queued
    seldom = EngineStatistics(iterations=tuple(Pass.plain(1 + (i == 5), 9, 1.0, float(i)) for i in range(1, 10)))
    record = record_of(replace(loop(answer(5), at_once=8), work=seldom), "", {})
    assert not record.queued


def test_levels_take_their_share_of_the_time() -> None:
    assert LoadOptions().plan(1200.0, 3) == ([1, 2, 4, 8, 16, 32, 64, 128, 256], pytest.approx(5.56, abs=0.01), 4)
    assert LoadOptions().plan(6000.0, 3)[1:] == (6.0, 4)
    assert LoadOptions().plan(108.0, 2) == ([1, 2, 4, 8, 16, 32, 64, 128, 256], pytest.approx(1.5), 2)
    for others_s in (3.0, 20.0, 47.0, 200.0):
        levels, seconds, n_rounds = LoadOptions().plan(others_s, 2)
        assert levels[0] == 1
        assert 2 * len(levels) * seconds * n_rounds <= max(others_s / 2.0, 2 * 2 * 1.0)
    assert LoadOptions().up_to(12).most_levels == (1, 2, 4, 8, 12)
    assert LoadOptions(levels=(4, 64)).up_to(12).most_levels == (4, 64)
    assert LoadOptions().up_to(None) == LoadOptions()
    assert LoadOptions(levels=(8, 1, 8)).plan(0.5, 4) == ([1, 8], 1.0, 1)


test_impossible_loads_are_refused = refuses(
    LoadOptions, ({"levels": (0,)}, "concurrency="), ({"most": 0}, "most="), ({"share": 1.0}, "share=")
)
