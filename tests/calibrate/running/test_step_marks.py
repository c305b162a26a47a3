"""Steps as marks in a text that arrives in pieces, or as a whole: nothing of it is lost, and tokens add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replies import Scripted, generated, times

from calibrate.engines.protocol import Finish, Generation
from calibrate.running.step_marks import StepMarks
from sim.operations import Step, prompt, steps_after

SEPARATOR = "\n\n"
TEXTS = st.lists(st.sampled_from(["a", "b\n", "\n", "\n\n", "c\n\nd", "\n\ne\n\n"]), min_size=1, max_size=12)


def written(text: str, n_generated: int, finish: Finish = "eos") -> Generation:
    at = times(3.0, queued=0.0, start=0.0, first=1.0)
    return generated(n_generated, at, text=text, ids=tuple(map(ord, text)), finish=finish)


def pieces(texts: list[str], n_end: int = 1) -> tuple[StepMarks, list[Step], Step]:
    root = prompt(5)
    marks = StepMarks(root, "target", SEPARATOR)
    for text in texts:
        marks.take(text, len(text))
    marks.end(written("".join(texts), sum(map(len, texts)) + n_end))
    return marks, steps_after(root, marks.last), root


def test_a_rest_may_be_the_end_alone_which_has_no_token_id() -> None:
    marks, (step,), _ = pieces([])
    assert (step.payload.text, step.n_tokens, step.final) == ("", 1, True)
    assert marks.n_tokens == 1


@given(texts=TEXTS, n_end=st.integers(0, 1))
def test_a_text_in_pieces_is_cut_after_each_separator(texts: list[str], n_end: int) -> None:
    marks, steps, root = pieces(texts, n_end)
    text = "".join(texts)
    assert "".join(step.payload.text for step in steps) == text
    assert all(step.payload.text.index(SEPARATOR) == len(step.payload.text) - 2 for step in steps[:-1])
    assert all(step.n_tokens for step in steps)
    assert [step.final for step in steps] == [False] * (len(steps) - 1) + [True]
    assert sum(step.n_tokens for step in steps) == marks.n_tokens == len(text) + n_end
    assert marks.last.context_tokens == root.n_tokens + len(text) + n_end
    assert "".join(chr(i) for step in steps for i in step.payload.token_ids) == text
    assert len(steps) in (text.count(SEPARATOR), text.count(SEPARATOR) + 1)


@given(texts=TEXTS)
@pytest.mark.parametrize("engine", [Scripted(), Scripted(tokenizer_id=None)], ids=["tokenizer", "no tokenizer"])
def test_a_text_as_a_whole_has_the_same_steps(texts: list[str], engine: Scripted) -> None:
    text, root = "".join(texts), prompt(5)
    marks = StepMarks(root, "target", SEPARATOR)
    marks.whole(written(text, len(text)), engine)  # type: ignore[arg-type]
    steps = steps_after(root, marks.last)
    assert [step.payload.text for step in steps] == [step.payload.text for step in pieces(texts, 0)[1]]
    assert sum(step.n_tokens for step in steps) == len(text)
    assert steps[-1].final
    moments = [step.payload.written_s for step in steps]
    assert moments == sorted(moments)
    assert moments[-1] == pytest.approx(3.0)
    if engine.tokenizer_id:
        assert "".join(map(chr, [i for step in steps for i in step.payload.token_ids])) == text
        assert [step.n_tokens for step in steps] == [len(step.payload.text) for step in steps]


def test_an_answer_cut_at_its_limit_says_so() -> None:
    marks = StepMarks(prompt(), "target", SEPARATOR)
    marks.take("one\n\ntw", 4)
    marks.end(written("one\n\ntw", 4, "length"))
    assert (marks.last.truncated, marks.last.final, marks.last.payload.text) == (True, True, "tw")


def test_a_step_and_what_follows_in_one_token_are_both_left_in_its_midst() -> None:
    marks = StepMarks(prompt(), "target", SEPARATOR)
    assert marks.take("one\n\n two", 1)
    marks.end_here(final=False)
    assert (marks.last.payload.text, marks.last.final, marks.n_tokens) == ("one\n\n two", False, 1)
