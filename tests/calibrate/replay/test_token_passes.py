"""From records of token-level methods to passes and their cost: exact on made-up records, nested and counted ones."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_profiles import STEP_TOKENS, measured, speculated, with_engine
from refusals import refused

from calibrate.costs.fit import slowdown_of
from calibrate.costs.sweep import fit_passes
from calibrate.record.engine_records import DecodeSample, InUse, PrefillSample
from calibrate.record.profile import Profile
from calibrate.record.token_records import TokenAnswer, TokenRecord, TokenRequest
from calibrate.replay.system import system_of
from calibrate.replay.token_level import known_settings
from calibrate.replay.token_passes import TokenModel, split_passes, token_decoding
from sim.algorithms import autoregressive, step_by_step
from sim.answers.token_passes import DrawnPasses
from sim.catalogue import methods
from sim.engines.pass_costs import PassTable, RowsAsBatch
from sim.operations import Generate, prompt
from sim.roles import TARGET
from sim.trial import session_of
from theory.errors import SchemaError
from theory.token_methods import vector_tokens

passes = st.lists(st.integers(0, 12).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d))), max_size=12)


PLAIN = measured([True] * 6)
SPECULATED = speculated(PLAIN)


def found(profile: Profile, method: str, k2: int, **settings: int) -> TokenModel | None:
    return token_decoding(profile, method, {"k2": k2, **settings}, system_of(profile).fits)


def test_a_record_gives_its_own_passes_and_seconds() -> None:
    """Passes of 12 ms, 2 ms of them drafting, replayed: 20 tokens at 3 a pass are 7 passes, the last one cut to 2."""
    decoding = found(SPECULATED, "draft-model", 3)
    assert len(decoding.source.requests) == 3 * 6
    assert decoding.tokens_per_pass == pytest.approx(3.0)
    assert decoding.source.passes(0, Generate(TARGET, prompt(8)), STEP_TOKENS - 1).tokens == (3,) * 6 + (2,)
    assert decoding.cost.iteration(1, 64.0) == pytest.approx(0.012, rel=1e-9)
    assert decoding.cost.draft_s == pytest.approx(0.002)
    assert dict(decoding.cost.rows) == {3: 1.0}
    assert decoding.settings == {"k2": 3}
    assert found(SPECULATED, "draft-model", 3, least=0) is not None
    adaptive = {"k2": 3, "least": 0.2}  # of which records of fixed drafts say nothing
    assert token_decoding(SPECULATED, "draft-model", adaptive, system_of(PLAIN).fits) is None


@pytest.mark.parametrize(("engine", "padded"), [("torch", True), ("", True), ("vllm", False), ("sglang", False)])
def test_only_the_torch_engine_pads_the_rows_of_a_batch(engine: str, *, padded: bool) -> None:
    provenance = PLAIN.provenance.model_copy(update={"engine": engine})
    decoding = found(SPECULATED.model_copy(update={"provenance": provenance}), "draft-model", 3)
    assert decoding.cost.padded == padded


def test_a_method_is_compared_with_plain_decoding_of_the_same_answers() -> None:
    """Of three answers, the machine was half as fast in the first, and only that one was recorded with the method.

    A pass took 1.2 times what a plain one took then; of all answers a plain one took 40 / 3 ms.
    """
    slow, fast = (InUse(decode=[(1, 100, 6400, 100 * s)], prefill=(1, 8, 1e-9)) for s in (0.020, 0.010))
    phased = with_engine(PLAIN, "big", plain_in_use=[slow, fast, fast])
    recorded = speculated(phased, pass_s=0.024, draft_s=0.0)
    first = recorded.token[0].model_copy(update={"answers": recorded.token[0].answers[:1]})
    decoding = found(recorded.model_copy(update={"token": [first]}), "draft-model", 3)
    assert decoding.cost.iteration(1, 64.0) == pytest.approx(1.2 * 0.040 / 3, rel=1e-6)


def test_what_is_read_again_in_every_prefill_counts() -> None:
    """A cache keeps whole blocks: 20 tokens of each prefill were read before, with the method 50, at 0.1 ms each.

    An answer had 4 requests (in an older profile), and 8 new tokens in the first one; a prefill takes 1 ms besides its
    tokens. Plain decoding and the method alone are one request all the same: 83 iterations for 84 tokens.
    """
    profile = speculated(measured([True] * 4))
    sweep = [PrefillSample(tokens=n, seconds=0.001 + 1e-4 * n) for n in (8, 64)]
    alone = InUse(decode=[(1, 80, 80 * 64, 0.8)], prefill=(4, 8 + 80, 0.0128))
    answers = [one.model_copy(update={"prefill": (4, 8 + 200, 0.0248)}) for one in profile.token[0].answers]
    token = [profile.token[0].model_copy(update={"answers": answers})]
    blocks = with_engine(profile, "big", prefill=sweep, plain_in_use=[alone] * 3).model_copy(update={"token": token})
    system = system_of(blocks).suited(methods()["autoregressive"])
    assert system.fits["steps"]["big"].reread == pytest.approx(20.0)
    session = session_of(system.trial(step_by_step, "plain"), 0)
    assert session.finished == pytest.approx(0.8 + 4 * 0.001 + 8e-4, rel=1e-6)
    session = session_of(system.trial(autoregressive, "plain"), 0)
    assert session.finished == pytest.approx(0.83 + 0.0018, rel=1e-6)
    assert slowdown_of([(system.fits["plain"]["big"], alone)]) == pytest.approx(1.0, rel=1e-9)
    decoding = found(blocks, "draft-model", 3)
    assert decoding.cost.prefill_factor == pytest.approx(0.0248 / 0.0128, rel=1e-9)
    assert decoding.cost.prefill(8) == pytest.approx(0.0018 * 0.0248 / 0.0128, rel=1e-9)


def test_a_smaller_k2_is_derived_where_drafts_are_a_line() -> None:
    profile = speculated(PLAIN, k2=6)
    decoding = found(profile, "draft-model", 3)
    assert "split" in decoding.note
    assert decoding.tokens_per_pass == pytest.approx(3.0)
    assert decoding.cost.draft_s == pytest.approx(0.002 * 2 / 5)
    assert found(profile, "draft-model", 7) is None
    other = speculated(PLAIN, "lookahead-decoding", k2=6)
    assert found(other, "lookahead-decoding", 3) is None, "its passes are no line"


def test_settings_must_agree_where_both_name_them() -> None:
    record = TokenRecord.counted(
        "prompt-lookup",
        {"k2": 3, "max_ngram": 2},
        [TokenAnswer(problem="a", requests=[TokenRequest(tokens=4, passes=[(2, 2)])])],
    )
    profile = PLAIN.model_copy(update={"token": [record]})
    assert found(profile, "prompt-lookup", 3, max_ngram=2) is not None
    assert found(profile, "prompt-lookup", 3, max_ngram=4) is None
    assert known_settings(profile, "prompt-lookup") == [{"k2": 2, "max_ngram": 2}, {"k2": 3, "max_ngram": 2}]
    assert known_settings(profile, "draft-model") == []


@pytest.mark.parametrize(
    ("imposed", "k2", "pmf"),
    [
        ({"synthetic_acceptance_length": 2.6}, 4, (0.0, 0.4, 0.6, 0.0)),
        ({"synthetic_acceptance_length": 2.6}, 2, (0.0, 1.0)),
        ({"synthetic_acceptance_rates": [0.75, 0.5, 0.25]}, 4, (0.25, 0.25, 0.25, 0.25)),
    ],
)
def test_imposed_acceptance_is_known_and_only_times_are_estimates(
    imposed: dict[str, object], k2: int, pmf: tuple[float, ...]
) -> None:
    """Recorded passes committed 4 tokens each; a resampled profile has other times, and the same passes."""
    config = {
        "method": "draft_model",
        "model": "m",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic",
    }
    speculative = json.dumps([{"method": "ngram", "num_speculative_tokens": 5}, {**config, **imposed}])
    recorded = speculated(PLAIN, k2=4)
    profile = recorded.model_copy(update={"settings": {"speculative": speculative}})
    fits = system_of(profile).fits
    for rng in (None, np.random.default_rng(1)):
        decoding = token_decoding(profile, "draft-model", {"k2": k2}, fits, rng)
        assert isinstance(decoding.source, DrawnPasses)
        assert decoding.source.pmf == pytest.approx(pmf)
        assert decoding.tokens_per_pass == pytest.approx(sum(n * p for n, p in enumerate(pmf, 1)))
        assert "imposed" in decoding.note
    measured_times = found(recorded, "draft-model", k2)
    known = found(profile, "draft-model", k2)
    assert known.cost.iteration(2, 64.0) == measured_times.cost.iteration(2, 64.0)


def test_counts_alone_give_independent_passes() -> None:
    """10 passes, 6 with drafts; 4, 2, 1 right up to each position: P(tau) = .6, .2, .1, .1; no draft is 1 row."""
    decoding = found(measured([True], ngram=True), "prompt-lookup", 4)
    assert isinstance(decoding.source, DrawnPasses)
    assert decoding.source.pmf == pytest.approx((0.6, 0.2, 0.1, 0.1))
    assert dict(decoding.cost.rows) == pytest.approx({1: 0.4, 2: 0.1, 3: 0.1, 4: 0.4})
    assert isinstance(decoding.cost.wide, RowsAsBatch)


def swept(*wide: DecodeSample) -> Profile:
    """With passes over several tokens in the sweep of the target."""
    return with_engine(SPECULATED, "big", decode=[*PLAIN.engines["big"].decode, *wide])


def test_passes_over_several_tokens_cost_what_was_timed() -> None:
    """Iterations over 3 tokens take 15 ms in the sweep, 12 - 2 ms in use: the factor is 10 / 15, at every batch."""
    wide = [DecodeSample(batch=b, context=c, tokens=3, seconds=0.015 * b) for b in (1, 2) for c in (64, 640)]
    decoding = found(swept(*wide), "draft-model", 3)
    assert isinstance(decoding.cost.wide, PassTable)
    assert decoding.cost.factor == pytest.approx(10 / 15, rel=1e-6)
    # The draft model costs the same for a batch of two here.
    assert decoding.cost.iteration(2, 0.0) == pytest.approx(0.020 + 0.002, rel=1e-6)


def test_a_method_s_own_passes_come_before_those_without_its_drafting() -> None:
    """At batch 1 its recorded passes set the level; by how much two sequences take longer is its own timing's."""
    wide = [
        DecodeSample(batch=b, context=c, tokens=3, by=by, seconds=0.015 * b**power)
        for by, power in (("", 1), ("draft-model", 2), ("eagle", 3))
        for b in (1, 2)
        for c in (64, 640)
    ]
    timed = swept(*wide)
    decoding = found(timed, "draft-model", 3)
    assert decoding.cost.iteration(1, 0.0) == pytest.approx(0.012, rel=1e-6)
    assert decoding.cost.iteration(2, 0.0) == pytest.approx(0.048, rel=1e-6)  # drafting is in it, and grows as it does
    big = timed.engines["big"]
    assert set(fit_passes(big, method="draft-model")) == {1, 3}
    others = [fit_passes(big, method=name)[3].seconds[1] for name in ("prompt-lookup", "eagle")]
    assert others == pytest.approx([0.030, 0.120], rel=1e-6)


def test_counted_passes_take_as_long_as_the_method_s_own_at_other_settings() -> None:
    """Rows cost what as many sequences do, 10 ms here; looking n-grams up makes a recorded pass of 3 rows 12 ms.

    n-grams of up to 2 tokens were counted only.
    """
    counted = measured([True] * 6, ngram=True)
    decoding = found(counted, "prompt-lookup", 4, max_ngram=2)
    assert decoding.cost.iteration(1, 64.0) == pytest.approx(0.010, rel=1e-6)
    recorded = speculated(counted, "prompt-lookup", draft_s=0.0)
    other = recorded.token[0].model_copy(update={"settings": {"k2": 3, "max_ngram": 3}})
    decoding = found(recorded.model_copy(update={"token": [other]}), "prompt-lookup", 4, max_ngram=2)
    assert "counted" in decoding.note
    assert decoding.cost.iteration(1, 64.0) == pytest.approx(0.012, rel=1e-6)


@given(recorded=passes, k2=st.integers(2, 14))
def test_split_passes_lose_no_token(recorded: list[tuple[int, int]], k2: int) -> None:
    split = split_passes(recorded, k2, 13)
    assert sum(right + 1 for _, right in split) == sum(right + 1 for _, right in recorded)
    assert all(0 <= right <= drafted <= max(k2, 13) - 1 for drafted, right in split)
    assert split == recorded if k2 > 12 else all(drafted < k2 for drafted, _ in split)


@pytest.mark.parametrize(("alpha", "k2"), [(0.3, 2), (0.3, 5), (0.96, 6)])
def test_split_passes_are_those_of_the_smaller_k2(alpha: float, k2: int) -> None:
    """Of independent tokens, within 4 standard errors (false alarm 6e-5 each), and up to 2.5 % too many.

    The target's own token between two full drafts counts as right, though it was not tested. Were a full draft's line
    taken to end with it, a k2 of 6 would get 3.9 instead of 5.4 tokens at 0.96.
    """
    rng = np.random.default_rng(1)
    recorded = [(7, int(right)) for right in np.cumprod(rng.random((20_000, 7)) < alpha, axis=1).sum(axis=1)]
    split = split_passes(recorded, k2, 8)
    tokens = np.array([right + 1 for _, right in split])
    expected = float(vector_tokens(np.full(k2 - 1, alpha)))
    error = float(tokens.std() / np.sqrt(tokens.size))
    assert expected - 4.0 * error <= tokens.mean() <= 1.025 * expected + 4.0 * error


def test_a_record_counts_what_its_passes_did() -> None:
    answers = [TokenAnswer(problem="a", requests=[TokenRequest(tokens=6, passes=[(3, 2), (0, 0), (2, 0)])])]
    record = TokenRecord.counted("prompt-lookup", {"k2": 4}, answers)
    assert (record.passes, record.drafts, record.tokens) == (3, 2, 5)
    assert (record.drafted_at, record.accepted_at) == ([2, 2, 1], [1, 1, 0])
    with pytest.raises(ValueError, match="at most k2 - 1 = 1"):
        TokenRecord.counted("prompt-lookup", {"k2": 2}, answers)


def parsed(field: str, change: dict[str, object]) -> Profile:
    """A profile with a record changed."""
    data = json.loads(speculated(measured([True], ngram=True)).to_json())
    data[field][0] |= change
    return Profile.parse(json.dumps(data))


test_what_cannot_be_is_refused_with_its_place = refused(
    parsed,
    ("token", {"accepted_at": [1]}, "one entry per drafted position"),
    ("token", {"accepted_at": [999, 0]}, "no more can be accepted"),
    ("token", {"drafts": 10**6}, "no more drafts than passes"),
    ("token", {"passes": -1}, r"token\[0\]\.passes"),
    ("ngram", {"drafted_at": [6, 5]}, r"ngram\[0\]: drafted_at and accepted_at need one entry per drafted position"),
    ("ngram", {"accepted_at": [4, 2, 5]}, "no more can be accepted"),
    ("ngram", {"drafts": 11}, "no more drafts than passes"),
    error=SchemaError,
)
