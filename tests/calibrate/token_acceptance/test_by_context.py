"""Slopes of acceptance over the text: planted ones are found, and none where passes commit as much at any length."""

import numpy as np
import pytest

from calibrate.record.engine_records import PrefillSums
from calibrate.record.token_records import PassSample, TokenAnswer, TokenRecord, TokenRequest
from calibrate.token_acceptance.measured import growth, growths

PROMPT, DRAFTED = 50, 4


def recorded(loss: float, answers: int, *, seed: int = 0, text: int = 400) -> TokenRecord:
    """Answers of ``text`` tokens whose drafted tokens are right with a probability that falls per doubling."""
    rng = np.random.default_rng(seed)

    def answer(i: int) -> TokenAnswer:
        ease, written, passes = rng.normal(0.0, 0.1), 1, []
        while written < text:
            alpha = np.clip(0.7 + ease - loss * np.log2((PROMPT + written) / PROMPT), 0.0, 1.0)
            wrong = np.flatnonzero(rng.random(DRAFTED) >= alpha)
            passes.append(PassSample(DRAFTED, int(wrong[0]) if wrong.size else DRAFTED))
            written += passes[-1].right + 1
        request = TokenRequest(tokens=written, passes=passes)
        return TokenAnswer(problem=str(i), requests=[request], prefill=PrefillSums(1, PROMPT, 0.1))

    return TokenRecord.counted("draft-model", {"k2": DRAFTED + 1}, [answer(i) for i in range(answers)])


def test_a_planted_slope_is_found_and_said() -> None:
    record = recorded(0.05, 40)
    slope = growth(record)
    assert slope is not None
    assert slope.high < 0.0
    # alpha falls from 0.7 to 0.54; right tokens, a + a^2 + a^3 + a^4, change by 3.6 to 5.2 per unit of it
    assert -0.05 * 5.2 - 3.0 * slope.stderr < slope.value < -0.05 * 3.6 + 3.0 * slope.stderr
    (line,) = growths([record])
    assert line.startswith(f"draft-model at k2 = 5 commits {slope.value:+.2f} tokens per pass [")


@pytest.mark.parametrize("answers", [40, 400])
def test_nothing_is_said_where_acceptance_does_not_depend_on_the_text(answers: int) -> None:
    """What an answer has committed does not draw its own slope down, however many answers there are."""
    record = recorded(0.0, answers, seed=1)
    slope = growth(record)
    assert slope is not None
    assert abs(slope.value) < 3.0 * slope.stderr
    assert not list(growths([record]))


def test_few_answers_and_answers_of_several_requests_tell_nothing() -> None:
    record = recorded(0.1, 8)
    assert growth(recorded(0.1, 7)) is None
    assert growth(record) is not None
    split = [one.model_copy(update={"requests": [*one.requests] * 2}) for one in record.answers]
    assert growth(record.model_copy(update={"answers": split})) is None
