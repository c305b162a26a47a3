"""The cost fit recovers planted costs, within its own resampled error."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from measured_profiles import swept

from calibrate.costs.fit import CostFit, fit_cost, resampled_answers, slowdown_of
from calibrate.costs.sweep import fit_passes
from calibrate.record.engine_records import (
    ClientsInUse,
    DecodeSample,
    EngineRecord,
    InUse,
    IterationSums,
    PrefillSample,
    PrefillSums,
    Use,
    Work,
)
from sim.engines.costs import TableCost
from theory.errors import CalibrationError

PLANTED = TableCost(
    batches=(1, 2, 4, 8),
    seconds=(0.010, 0.0105, 0.012, 0.016),
    context_s=2e-6,
    prefill_s=0.004,
    prefill_token_s=5e-5,
    request_s=0.0007,
)


SWEPT = swept(PLANTED, 3, lambda seconds: seconds)


def test_without_noise_the_planted_cost_comes_back() -> None:
    fit = fit_cost(SWEPT)
    np.testing.assert_allclose(fit.cost.seconds, PLANTED.seconds, rtol=1e-9)
    assert fit.cost.context_s == pytest.approx(PLANTED.context_s, rel=1e-9)
    assert fit.cost.prefill(100) == pytest.approx(PLANTED.prefill(100), rel=1e-9)
    assert fit.cost.request_s == pytest.approx(PLANTED.request_s, rel=1e-9)
    assert fit.sweep.decode_error < 1e-9
    assert fit.sweep.n_decode == 36


def test_a_prefill_that_costs_little_until_it_costs_much_comes_back() -> None:
    """Half of an engine's prefills in use read 1 token, half of them 15: a line through lengths of up to 256 would take
    them for slow (by 1.3 here), and then prompts of 48 tokens for as much too slow."""
    planted = replace(PLANTED, prefill_token_s=1e-6, bends=((16.0, 1e-4), (64.0, 5e-5)))
    lengths = (1, 4, 8, 16, 32, 48, 64, 96, 128, 256)
    prefill = [PrefillSample(tokens=n, seconds=planted.prefill(n)) for n in lengths]
    used = [InUse(decode=[], prefill=PrefillSums(2, 16, planted.prefill(1) + planted.prefill(15)), request=(1, 0.0007))]
    timed = SWEPT.model_copy(update={"prefill": prefill, "in_use": used})
    fit = fit_cost(timed)
    assert [fit.cost.prefill(n) for n in (1, 20, 48, 200)] == pytest.approx(
        [planted.prefill(n) for n in (1, 20, 48, 200)]
    )
    assert fit.factors.prefill == pytest.approx(1.0, rel=1e-9)


def test_what_prefills_beside_decoding_save_comes_back() -> None:
    """Neither they nor prompts that were read together are taken for prefills alone."""
    alone = [PrefillSample(tokens=n, seconds=PLANTED.prefill(n)) for n in (4, 32, 256)]
    saved_s = 0.5 * PLANTED.prefill_s
    beside = [one.model_copy(update={"seconds": one.seconds - saved_s, "beside": 1}) for one in alone]
    together = [one.model_copy(update={"seconds": 0.1 * one.seconds, "together": 4}) for one in alone]
    timed = SWEPT.model_copy(update={"prefill": [*alone, *beside, *together]})
    fit = fit_cost(timed, use="plain")
    assert fit.cost.prefill(64) == pytest.approx(PLANTED.prefill(64))
    assert fit.shared_s == pytest.approx(saved_s)
    assert fit_cost(timed, use="steps").shared_s == 0.0  # not known how many joined: the factor has what they saved
    seconds = 2.0 * (10 * PLANTED.prefill(20) - 6 * saved_s)
    in_use = [InUse(prefill=(10, 200, seconds), joined=joined) for joined in (6.0, 0.0)]
    counted, blind = (fit_cost(timed.model_copy(update={"in_use": [one]}), use="steps") for one in in_use)
    assert (counted.factors.prefill, counted.shared_s) == pytest.approx((2.0, 2.0 * saved_s))
    assert (blind.factors.prefill, blind.shared_s) == pytest.approx((seconds / (10 * PLANTED.prefill(20)), 0.0))
    assert slowdown_of([(counted, in_use[0])]) == pytest.approx(1.0)
    assert fit_cost(timed.model_copy(update={"prefill": alone}), use="plain").shared_s == 0.0


def test_with_noise_the_bootstrap_covers_the_truth() -> None:
    # The resampled spread must be neither blind nor absurd: the truth within 5 standard deviations (false alarm below
    # 1e-5 for a normal error), and the spread below 3 % for 90 samples a cell.
    rng = np.random.default_rng(0)
    noisy = swept(PLANTED, 30, lambda seconds: float(seconds * (1.0 + 0.3 * rng.standard_exponential()) / 1.3))
    truth, cost = PLANTED.iteration(4, 1600), fit_cost(noisy).cost
    assert cost.bends == (), "a bend needs two lengths on either side"
    spread = np.std([fit_cost(noisy, np.random.default_rng(i)).cost.iteration(4, 1600) for i in range(20)], ddof=1)
    assert 0.0 < spread < 0.03 * truth
    assert abs(cost.iteration(4, 1600) - truth) < 5.0 * spread


def fitted(*in_use: InUse, use: Use = "steps", **changes: object) -> CostFit:
    """The fit of the sweep without noise and of this work."""
    return fit_cost(SWEPT.model_copy(update={"in_use": list(in_use), **changes}), use=use)


def cell(n: int, context: int, factor: float = 1.0, batch: int = 1) -> IterationSums:
    """So many iterations that took as long as planted, or longer by a factor."""
    return IterationSums(batch, n, n * context, factor * n * PLANTED.iteration(batch, context))


def prefills(n: int, tokens: int, factor: float, n_woken: int = 0, waking_s: float = 0.0) -> PrefillSums:
    seconds = n * PLANTED.prefill_s + tokens * PLANTED.prefill_token_s + n_woken * waking_s
    return PrefillSums(n, tokens, factor * seconds)


def total(*sums: tuple[float, ...]) -> Any:
    return tuple(map(sum, zip(*sums, strict=True)))


def in_company(alone: Work, both: Work, share: float | None = None) -> InUse:
    """Work of which ``both`` had company, perhaps for a share of its time only."""
    whole = total(*(one[1:] for work in (alone, both) for one in work.decode)) if both.decode else ()
    decode = [IterationSums(1, *whole)] if whole else []
    shared_s = None if share is None else share * both.seconds
    return InUse(decode=decode, prefill=total(alone.prefill, both.prefill), beside=both, shared_s=shared_s)


def company(share: float) -> InUse:
    """1.5 times the sweep's iterations and 2 times its prefills, 1.3 times that while another engine works."""
    slowing = 1.0 / (1.0 - share + share / 1.3)
    alone, both = (
        Work(decode=[cell(n, context, 1.5 * slow)], prefill=prefills(3, 60, 2.0 * slow))
        for n, context, slow in ((60, 200, 1.0), (40, 500, slowing))
    )
    return in_company(alone, both, share)


@pytest.mark.parametrize(
    ("work", "factors"),
    [
        (InUse(decode=[cell(40, 200, 1.5), cell(10, 400, 1.5, 2)], prefill=prefills(3, 60, 2.0)), (1.5, 2.0, None)),
        *((company(share), (1.5, 2.0, 1.3)) for share in (1.0, 0.6, 0.25)),
        # Twice as slow, with company for a twentieth of the time: whatever slowed it, it was not that.
        (in_company(Work(decode=[cell(60, 200)]), Work(decode=[cell(40, 500, 2.0)]), 0.05), (1.0, None, 8.0)),
        # Company made nothing slower, what was done without it was slow by chance: both count, as one.
        (
            in_company(
                Work(decode=[cell(10, 200, 2.0)], prefill=prefills(3, 60, 1.0)),
                Work(decode=[cell(90, 200, 1.2)], prefill=prefills(3, 60, 1.0)),
            ),
            (1.28, 1.0, 1.0),
        ),
        # One prefill of 200 had no company, and was ten times as slow: those in company tell, slowed by 1.2.
        (
            in_company(
                Work(decode=[cell(60, 200, 1.5)], prefill=prefills(1, 0, 10.0)),
                Work(decode=[cell(40, 500, 1.8)], prefill=prefills(199, 0, 3.6)),
            ),
            (1.5, (3.6 * 199 + 10.0) / (1.2 * 199 + 1.0), 1.2),
        ),
        # A judge only reads prompts: 2.5 times as slow as in the sweep, 1.6 times that beside another engine.
        (in_company(Work(prefill=prefills(30, 1800, 2.5)), Work(prefill=prefills(20, 1000, 4.0))), (None, 2.5, 1.6)),
    ],
)
def test_a_sweep_is_scaled_to_what_the_engine_took_in_use(
    work: InUse, factors: tuple[float | None, float | None, float | None]
) -> None:
    fit = fitted(work)
    decode, prefill, beside = factors
    assert decode is None or fit.factors.decode == pytest.approx(decode, rel=1e-9)
    assert prefill is None or fit.factors.prefill == pytest.approx(prefill, rel=1e-9)
    assert fit.factors.beside == (beside if beside is None else pytest.approx(beside, rel=1e-9))
    assert fit.cost.iteration(8, 100) == pytest.approx(fit.factors.decode * PLANTED.iteration(8, 100), rel=1e-9)
    assert fit.cost.prefill(100) == pytest.approx(fit.factors.prefill * PLANTED.prefill(100), rel=1e-9)
    if factors in ((1.5, 2.0, 1.3), (1.5, 2.0, None)):
        assert slowdown_of([(fit, work)]) == pytest.approx(1.0, rel=1e-9)


def test_what_waking_costs_is_told_apart() -> None:
    """Prefills take twice as long as in the sweep, and 6 ms more after a rest: for both, whatever their share is."""
    for n_woken in (5, 18):
        waking = prefills(n_woken, 4 * n_woken, 2.0, n_woken, 0.003)
        others = prefills(20 - n_woken, 9 * (20 - n_woken), 2.0)
        one = InUse(decode=[cell(40, 200)], prefill=total(waking, others), waking=waking, request=(4, 0.012))
        fit = fitted(one)
        assert fit.waking_s == pytest.approx(0.006, rel=1e-9)
        assert fit.cost.request_s == pytest.approx(0.003, rel=1e-9), "requests take as long as in use"
        assert fit.factors.prefill == pytest.approx(2.0, rel=1e-9)
        assert slowdown_of([(fit, one)]) == pytest.approx(1.0, rel=1e-9)


def test_clients_slow_an_engine_by_what_was_measured_with_them() -> None:
    """Work took 1.1 times as long with 2 answers in flight and 1.7 times with 8; in between by the logarithm."""

    def work(slower: float) -> dict[str, Any]:
        return {"decode": [cell(40, 200, slower)], "prefill": prefills(5, 45, slower)}

    rounds = ((8, 8.0, 1.6), (8, 8.0, 1.8), (2, 2.0, 1.1))
    many = [ClientsInUse(clients=n, in_flight=flying, **work(slower)) for n, flying, slower in rounds]
    known = SWEPT.model_copy(update={"in_use": [InUse(**work(1.0))], "clients_in_use": many})
    fit = fit_cost(known)
    assert [fit.slowdown(n) for n in (1.0, 2.0, 4.0, 8.0, 64.0)] == pytest.approx([1.0, 1.1, 1.4, 1.7, 1.7], rel=1e-9)
    one_round = {round(fit_cost(known, np.random.default_rng(i)).slowdown(8.0), 2) for i in range(20)}
    assert min(one_round) < 1.61
    assert max(one_round) > 1.79
    assert fit_cost(known, use="plain").slowdown(8.0) == 1.0
    together = ClientsInUse(clients=8, in_flight=8.0, **work(0.8))  # prompts read together, which the load run knows
    assert fit_cost(known.model_copy(update={"clients_in_use": [together]})).slowdown(8.0) == 1.0


def test_what_an_engine_never_did_alone_it_takes_as_in_an_answer_of_its_own() -> None:
    """A draft always has the target's company in Lookahead Reasoning, but not in Algorithm 1 of ConfSpec."""
    in_use = in_company(Work(), Work(decode=[cell(60, 200, 1.8)], prefill=prefills(6, 60, 1.8)), 1.0)
    alone = InUse(decode=[cell(50, 100, 1.2)], prefill=prefills(5, 30, 1.2), beside=Work(), shared_s=0.0)
    fit = fitted(in_use)
    assert (fit.factors.decode, fit.factors.beside) == pytest.approx((1.8, 1.0), rel=1e-9)
    assert slowdown_of([]) is None
    idle = InUse(beside=Work(), shared_s=0.0)  # of the draft, while the target answers step by step without it
    fit = fitted(in_use, plain_in_use=[alone], stepwise_in_use=[idle])
    assert (fit.factors.decode, fit.factors.prefill) == pytest.approx((1.2, 1.2), rel=1e-9)
    assert fit.factors.beside == pytest.approx(1.5, rel=1e-9)


def test_passes_grow_as_plain_iterations_beyond_the_batches_that_were_timed_often() -> None:
    """Passes of 3 rows take 1.4 times as long; twice three sequences got full drafts at once, and slow ones so."""
    wide = [
        DecodeSample(batch=b, context=0, tokens=3, by="prompt-lookup", seconds=factor * PLANTED.iteration(b, 0))
        for b, n, factor in ((1, 12, 1.4), (2, 6, 1.4), (4, 2, 3.0))
        for _ in range(n)
    ]
    timed = SWEPT.model_copy(update={"decode": [*SWEPT.decode, *wide]})
    table = fit_passes(timed, method="prompt-lookup")[3]
    assert table.batches == (1, 2, 4, 8)
    assert table.seconds == pytest.approx([1.4 * s for s in PLANTED.seconds], rel=1e-9)


def test_context_costs_passes_what_it_costs_iterations_where_their_texts_are_of_one_length() -> None:
    """Else the size of the batches would tell it: four texts of 40 tokens take longer than one for both reasons."""
    wide = [
        DecodeSample(
            batch=b, context=40 * b + i, tokens=4, by="eagle", seconds=1.5 * PLANTED.iteration(b, 0) + 0.001 * b
        )
        for b in (1, 2, 4)
        for i in range(12)
    ]
    tables = fit_passes(SWEPT.model_copy(update={"decode": [*SWEPT.decode, *wide]}), method="eagle")
    assert tables[4].context_s == tables[1].context_s > 0.0
    for b in (1, 2, 4):
        assert tables[4].iteration(b, 45 * b) == pytest.approx(1.5 * PLANTED.iteration(b, 0) + 0.001 * b, rel=0.02)


@pytest.mark.parametrize("n", [1, 7, 50])
def test_every_answer_is_resampled_equally_often_with_its_neighbours(n: int) -> None:
    rng, counts = np.random.default_rng(5), np.zeros(n)
    draws, length = 4_000 // n, max(round(n**0.5), 1)
    for _ in range(draws):
        indices = resampled_answers(n, rng)
        assert len(indices) == n
        steps = np.diff(indices) % n  # neighbours stay together: machines have slow phases
        assert all(step == 1 % n for i, step in enumerate(steps, 1) if i % length)
        counts += np.bincount(indices, minlength=n)
    # An answer is in a resample once, give or take sqrt(length of a block) at most; 5 standard errors.
    assert counts / draws == pytest.approx(np.ones(n), abs=5.0 * (n**0.5 / draws) ** 0.5)


def test_costs_are_never_negative() -> None:
    flat = EngineRecord(
        device="cpu",
        decode=[DecodeSample(batch=1, context=c, seconds=s) for c, s in ((10, 0.02), (500, 0.01), (900, 0.005))],
        prefill=[PrefillSample(tokens=t, seconds=s) for t, s in ((4, 0.02), (64, 0.01))],
        request_s=[],
    )
    cost = fit_cost(flat).cost
    assert cost.context_s == cost.prefill_token_s == cost.request_s == 0.0
    assert cost.iteration(1, 0) > 0.0
    with pytest.raises(CalibrationError, match="decode samples at batch 1"):
        fit_cost(flat.model_copy(update={"decode": [DecodeSample(batch=2, context=1, seconds=1.0)]}))
