"""The tokenizer: exact round trip on the language, one token where the project relies on one, prefix-stable."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from calibrate import pair
from calibrate.pair.wording import LAST_NUMBER
from workshop.training.examples import judge_example
from workshop.training.rendering import answer_meanings, word_step
from workshop.training.tokenizer import EOS, UNKNOWN, build_tokenizer, vocabulary

TOKENIZER = build_tokenizer()
FEW = settings(max_examples=40, deadline=None)


def _text(seed: int) -> str:
    (problem,) = pair.problems(1, seed)
    rng = np.random.default_rng(seed)
    answer = pair.STEP_SEPARATOR.join(word_step(problem, meaning, rng) for meaning in answer_meanings(problem))
    return problem.prompt + answer + pair.STEP_SEPARATOR + judge_example(problem, rng).text


@FEW
@given(st.integers(0, 10**6))
def test_round_trip_is_exact_and_knows_every_word(seed: int) -> None:
    text = _text(seed)
    ids = TOKENIZER.encode(text).ids
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text
    assert vocabulary()[UNKNOWN] not in ids


@FEW
@given(st.integers(0, 10**6))
def test_text_in_pieces_has_the_tokens_of_the_whole(seed: int) -> None:
    """Engines extend prompts step by step: a step's tokens must not depend on what stands before the separator."""
    text = _text(seed)
    pieces = text.split(pair.STEP_SEPARATOR)
    separator = TOKENIZER.encode(pair.STEP_SEPARATOR).ids
    joined = TOKENIZER.encode(pieces[0]).ids
    for piece in pieces[1:]:
        joined = joined + separator + TOKENIZER.encode(piece).ids
    assert joined == TOKENIZER.encode(text).ids


def test_what_counts_as_one_token_is_one_and_foreign_words_are_unknown() -> None:
    single = [pair.STEP_SEPARATOR, pair.JUDGE_YES, pair.JUDGE_NO, *pair.SCORE_TOKENS, EOS]
    for text in [*single, *(f" {n}" for n in range(LAST_NUMBER + 1))]:
        ids = TOKENIZER.encode(text).ids
        assert len(ids) == 1
        assert TOKENIZER.decode(ids, skip_special_tokens=False) == text
    assert TOKENIZER.encode("zebra apples 1234 \u00e9").ids.count(vocabulary()[UNKNOWN]) == 3


@pytest.mark.parametrize("folder", [pair.target_path(), pair.draft_path(), pair.judge_path()])
def test_the_files_beside_the_weights_are_this_tokenizer(folder: object) -> None:
    stored = Tokenizer.from_file(f"{folder}/tokenizer.json")
    assert stored.to_str() == TOKENIZER.to_str()
