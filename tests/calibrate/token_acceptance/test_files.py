"""Formats of other tools: what they hold, that they survive a round trip, and that contradictions are refused."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from calibrate.record.engine_records import DecodeSample, EngineRecord
from calibrate.record.library import bundled
from calibrate.record.profile import Profile
from calibrate.record.token_records import NGramRecord
from calibrate.token_acceptance.curves import AcceptanceCurve
from calibrate.token_acceptance.lengths import LengthTable
from calibrate.token_acceptance.measured import dynamic_stats_of, pass_times
from calibrate.token_acceptance.requests import RequestAcceptance, merged, read_responses
from calibrate.token_acceptance.schedule import DynamicStats, Schedule
from theory.errors import ParameterError, SchemaError

DYNAMIC: dict[str, Any] = {
    "is_online": False,
    "max_num_speculative_tokens": 3,
    "acceptance_rate_per_pos": [0.7, 0.4, 0.2],
    "batch_stats": {
        "1": {"0": 7.0, "1": 8.0, "3": 9.0},
        "16": {"0": 8.0, "1": 10.0, "3": 16.0},
        "64": {"0": 9.0, "1": 16.0, "3": 40.0},
    },
}


def changed(**fields: Any) -> str:
    return json.dumps({**DYNAMIC, **fields})


def test_the_best_k_has_the_most_tokens_per_millisecond() -> None:
    """Batch 1: 1/7, 1.7/8, 2.1/8.5 (between 8 and 9), 2.3/9; 16: 1/8, 1.7/10, 2.1/13, 2.3/16; 64: 1/9 wins."""
    stats = DynamicStats.parse(json.dumps(DYNAMIC))
    assert stats.milliseconds(1, 2) == 8.5
    assert [stats.best(batch) for batch in (1, 16, 64)] == [3, 1, 0]
    assert stats.schedule(128).plain() == [[1, 15, 3], [16, 63, 1], [64, 128, 0]]
    assert stats.plain() == DYNAMIC
    # Half of the passes have a draft: 1.35 tokens in the mean of 7 and 8 ms at K = 1.
    half = replace(stats, curve=replace(stats.curve, hit_rate=0.5))
    assert half.milliseconds(1, 1) == 7.5
    assert half.limited(1).best(1) == 1
    assert replace(stats, curve=AcceptanceCurve(unconditional=(0.7,), hit_rate=0.0)).best(1) == 0
    with pytest.raises(ParameterError, match="must have K = 1"):
        DynamicStats(curve=stats.curve, pass_ms={1: {0: 1.0, 2: 1.2}}).plain()


test_contradictory_dynamic_statistics_are_refused = refused(
    lambda text: DynamicStats.parse(text, "file"),
    ("", "not JSON"),
    ("[1]", "must be a JSON object"),
    ('{"a": 1, "a": 2}', "a key comes twice"),
    (json.dumps({"batch_stats": {}}), "acceptance_rate_per_pos: missing"),
    (changed(max_num_speculative_tokens=4), "max_num_speculative_tokens: 4, but there are 3 rates"),
    (changed(acceptance_rate_per_pos=[0.2, 0.4, 0.1]), "are these conditional rates"),
    (changed(acceptance_rate_per_pos=["0.2", 0.1, 0.1]), "must be a finite number"),
    (changed(batch_stats={}), "must be an object with integer keys"),
    (changed(batch_stats={"one": {"0": 1.0}}), "the key 'one' must be an integer"),
    (changed(batch_stats={"1": {"1": 1.0}}), "must have K = 0"),
    (changed(batch_stats={"2": {"0": 1.0, "1": 1.0}}), "must have batch size 1"),
    (changed(batch_stats={"1": {"0": 1.0, "1": 0.0}}), "must be milliseconds > 0"),
    (changed(batch_stats={"1": {"0": 1.0, "01": 2.0, "1": 3.0}}), "the key 1 comes twice"),
    (changed(is_online="no"), "is_online: must be true or false"),
    error=(SchemaError, ParameterError),
)


@given(st.dictionaries(st.integers(2, 300), st.integers(0, 9), max_size=8), st.integers(0, 9), st.integers(300, 400))
def test_a_schedule_holds_each_measured_k_until_the_next(best: dict[int, int], first: int, top: int) -> None:
    best = {1: first, **best}
    schedule = Schedule.of(best, top)
    for batch in range(1, top + 1):
        assert schedule.at(batch) == best[max(size for size in best if size <= batch)]
    assert Schedule.parse(json.loads(json.dumps(schedule.plain()))) == schedule
    assert all(a[2] != b[2] for a, b in zip(schedule.ranges, schedule.ranges[1:], strict=False))


test_impossible_schedules_are_refused = refused(
    Schedule.parse,
    ([], "must be a list"),
    ({}, "must be a list"),
    *((wrong, "must be three integers") for wrong in ([[1, 2]], [[1, 2, 3.0]], [[True, 4, 1]])),
    *((wrong, "must start at batch size 1") for wrong in ([[2, 4, 1]], [[3, 1, 1]])),
    *((wrong, "after the end of the range before it") for wrong in ([[1, 4, 1], [4, 8, 0]], [[1, 4, -1]])),
    error=(SchemaError, ParameterError),
)


ENTRY: dict[str, Any] = {  # the numbers of vLLM's documentation
    "mean_acceptance_length": 1.2325581395348837,
    "draft_acceptance_rate": 0.07751937984496124,
    "acceptance_histogram": [39, 1, 0, 3],
    "acceptance_histogram_by_draft_length": {"3": [39, 1, 0, 3]},
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_tokens": 3,
}


def test_a_documented_entry_agrees_with_itself() -> None:
    found = RequestAcceptance.parse({"metrics": {"speculative_decoding": ENTRY}, "usage": {"completion_tokens": 64}})
    assert (found.n_steps, found.n_accepted, found.n_drafted, found.k) == (43, 10, 129, 3)
    curve = found.curve()
    assert curve.unconditional == pytest.approx((4 / 43, 3 / 43, 3 / 43))
    assert curve.figure("length-with-bonus") == pytest.approx(ENTRY["mean_acceptance_length"])
    assert curve.figure("accepted-over-drafted") == pytest.approx(ENTRY["draft_acceptance_rate"])
    assert curve.hit_rate == pytest.approx(43 / 53)  # 64 tokens, one by the prefill, ten accepted: 53 passes
    assert RequestAcceptance.parse(ENTRY).curve().hit_rate is None


test_entries_that_contradict_themselves_are_refused = refused(
    lambda field, value: RequestAcceptance.parse({**ENTRY, "draft_acceptance_rate": None, field: value}),
    ("speculative_decoding", None, "--per-request-spec-decode-metrics summary"),
    ("num_draft_tokens", 200, "200 must be between 10 accepted and 3 for each of 43 steps"),
    ("num_spec_steps", 42, "num_spec_steps: 42, but the histogram says 43"),
    ("num_accepted_draft_tokens", 11, "the histogram says 10"),
    ("num_spec_tokens", 4, "the histogram says 3"),
    ("mean_acceptance_length", 0.2325, "the histogram says 1.23256"),  # without the bonus token: another convention
    ("draft_acceptance_rate", 0.2, "the histogram says 0.0775"),
    ("num_draft_tokens", None, "must be an integer"),
    ("acceptance_histogram", [39, 1, 0, -3], "must be an integer >= 0"),
    ("acceptance_histogram", [3], "must be a list of counts"),
    error=SchemaError,
)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_requests_add_up(histograms: list[tuple[int, int, int]]) -> None:
    parts = [
        RequestAcceptance(histogram=h, n_drafted=2 * sum(h), n_tokens=1 + sum(h) + h[1] + 2 * h[2]) for h in histograms
    ]
    whole = merged(parts)
    assert (whole.n_steps, whole.n_accepted) == (sum(p.n_steps for p in parts), sum(p.n_accepted for p in parts))
    if whole.n_steps:
        assert whole.curve().hit_rate == 1.0  # every pass had a draft, in each part and so in all


def test_responses_are_read_one_or_one_to_a_line() -> None:
    line = json.dumps({"metrics": {"speculative_decoding": ENTRY}})
    assert read_responses(line, "file").n_steps == 43
    assert read_responses(json.dumps(ENTRY, indent=2), "file").n_steps == 43
    assert read_responses(f"{line}\n\n{line}\n", "file").n_steps == 86
    with pytest.raises(SchemaError, match="file:2: not JSON"):
        read_responses(f"{line}\n{line[:-9]}", "file")
    with pytest.raises(SchemaError, match="empty file"):
        read_responses("\n", "file")
    other = json.dumps({"acceptance_histogram": [1, 0], "num_draft_tokens": 1})
    with pytest.raises(ParameterError, match="all with the same num_spec_tokens"):
        read_responses(f"{line}\n{other}", "file")


YAML = """# key = num_speculative_tokens; value = acceptance length
_metadata:
  draft-model: some/head
model-3:
  thinking_on:
    1: 1.86
    2: 2.55
    3: 3.08
  thinking_off:
    7: 4.10
"""


def test_lengths_are_read_and_give_rates_per_position() -> None:
    table = LengthTable.parse(YAML)
    assert table.rows["model-3", "thinking_off"] == {7: 4.1}
    curve, off = table.fit("model-3", "thinking_on")
    assert curve.unconditional == pytest.approx((0.86, 0.69, 0.53), abs=1e-9)
    assert off < 1e-9
    alone, _ = table.fit(mode="thinking_off")  # one length: one rate for all positions
    assert alone.figure("length-with-bonus", 7) == pytest.approx(4.1)
    assert len({round(rate or 0.0, 9) for rate in alone.conditional()}) == 1
    assert LengthTable.parse(table.to_yaml()) == table
    with pytest.raises(ParameterError, match="without a gap"):
        LengthTable({("m", "x"): {1: 1.5, 3: 2.0}}).fit()
    with pytest.raises(ParameterError, match="must name one of"):
        table.fit("model-3")


NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1).filter(lambda name: name[0] != "_")


@given(NAMES | st.sampled_from(["on", "No", "null", "3.5", "1e5", "a: b", "- x", "#", "with space"]))
@settings(max_examples=40)
def test_any_name_survives_the_round_trip(name: str) -> None:
    table = LengthTable({(name, "on"): {1: 1.5}})
    assert LengthTable.parse(table.to_yaml()) == table


test_bad_length_files_are_refused = refused(
    lambda text: LengthTable.parse(text, "file"),
    ("a: [", "not YAML"),
    ("a", "must map models"),
    ("_only: {}", "holds no model"),
    ("a: {b: {1: 1.5}}\na: {b: {1: 1.6}}", "line 1: the key 'a' comes twice"),
    ("a: {b: {1: 1.5, 1: 1.6}}", "the key 1 comes twice"),
    ("a: {on: {1: 1.5}}", "the key True must be text"),
    ("a: {b: {x: 1.5}}", "the key 'x' must be an integer"),
    ("a: {b: {1: fast}}", "must be a finite number"),
    ("a: {b: {1: 0.86}}", r"a.b.1=0.86 must be in \[1, 2\]"),  # without the bonus token: another convention
    ("a: {b: {1: 2.5}}", r"must be in \[1, 2\]"),
    ("a: !!python/object/apply:os.getcwd []", "not YAML"),
    error=(SchemaError, ParameterError),
)


def profile_with(samples: list[DecodeSample]) -> Profile:
    ngram = NGramRecord(
        max_ngram=2, n_speculative=2, passes=100, drafts=80, tokens=180, drafted_at=[80, 70], accepted_at=[50, 30]
    )
    engine = EngineRecord(device="d", decode=samples, prefill=[], request_s=[])
    return bundled("lr-deepseek-gsm8k").model_copy(
        update={"published": None, "engines": {"t": engine}, "placement": {"target": "t"}, "ngram": [ngram]}
    )


def test_pass_times_are_means_of_cells_in_milliseconds() -> None:
    cells = [(1, 1, 0.010), (1, 1, 0.012), (1, 3, 0.013), (4, 1, 0.012), (4, 3, 0.030), (8, 1, 0.020)]
    profile = profile_with([DecodeSample(batch=b, context=9, tokens=q, seconds=s) for b, q, s in cells])
    assert pass_times(profile)[1] == pytest.approx({0: 11.0, 2: 13.0})
    stats = dynamic_stats_of(profile)
    assert stats.curve.unconditional == (0.625, 0.375)
    assert stats.curve.hit_rate == 0.8
    assert sorted(stats.pass_ms) == [1, 4]  # batch 8 was measured without speculation only
    assert stats.schedule().plain() == [[1, 3, 2], [4, 4, 0]]
    assert dynamic_stats_of(profile_with([DecodeSample(batch=1, context=9, seconds=0.01)])) is None
    assert pass_times(bundled("lr-deepseek-gsm8k")) == {}
