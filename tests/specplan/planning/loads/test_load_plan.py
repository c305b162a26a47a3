"""Plans under load, on a small deployment."""

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from deployments import deployment, head_of
from screens import Main
from told_commands import told

import specplan as sp
from sim.configuration import PLAIN
from sim.serving.arrivals import Arrivals
from specplan.output import SCREEN
from specplan.planning.loads.from_options import settings_for
from specplan.planning.loads.limits import LIMITS
from specplan.planning.loads.load_plan import NamesPlan, plan_loads
from specplan.planning.loads.options import Budget, pays
from specplan.planning.loads.statements import schedule_of
from specplan.show.loads.results import LoadsPlan, plan_as_json, row_as_json
from specplan.show.loads.words import engine_name
from specplan.worlds.request import Limits, Load
from theory.errors import ParameterError

WANTED = deployment(draft="Qwen/Qwen3-0.6B", gpus=2, context=900, answer_tokens=400)
METHODS = ("prompt-lookup", "draft-model", "eagle", "lr-async", "spec-reason")
NAMES = ("--target", "Qwen/Qwen3-8B", "--context", "900", "--answer-tokens", "400")


@pytest.fixture(scope="module")
def found() -> NamesPlan:
    loads = [Load(concurrency=1), Load(concurrency=6), Load(rate=0.5)]
    return plan_loads(WANTED, loads, Limits(), METHODS)


def test_plain_decoding_is_the_measure_and_intervals_hold_the_gains(found: NamesPlan) -> None:
    for load, all_rows in found.loads:
        plain = next(row for row in all_rows if row.option.configuration == PLAIN)
        assert plain.gain.value == plain.gain.low == plain.gain.high == 1.0
        for row in all_rows:
            assert row.gain.low <= row.gain.value <= row.gain.high
            assert 0.0 <= row.prior_share <= 1.0
            assert row.limit in LIMITS
            assert row.option.arrangement.gpus <= WANTED.gpus
        assert list(all_rows) == sorted(all_rows, key=lambda row: row.place)
        assert all(earlier.gain.value >= later.gain.value - 0.01 for earlier, later in pairwise(all_rows))
        assert load.text


def test_the_curve_changes_no_row() -> None:
    loads = [Load(concurrency=6)]
    drawn, left_out = (plan_loads(WANTED, loads, Limits(), METHODS[:2], curve=curve) for curve in (True, False))
    assert drawn.loads == left_out.loads
    assert len(drawn.curve.answers) > len(left_out.curve.answers) == 1


def test_of_an_interrupted_curve_what_is_known_is_kept() -> None:
    @contextmanager
    def interrupting(what: str, _: int) -> Iterator[Callable[[], None]]:
        left = iter(range(2 if "other" in what else 100))

        def step_done() -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

        yield step_done

    plan = plan_loads(WANTED, [Load(concurrency=4)], Limits(), ["prompt-lookup"], progress=interrupting)
    assert not plan.left_out
    assert plan.interrupted
    assert plan.curve.answers == (1, 2, 4, 8, 16)


def test_what_is_printed_keeps_littles_law(found: NamesPlan) -> None:
    """Answers in flight = answers per second x mean seconds of an answer, in each row, and so say the answers seen."""
    for load, all_rows in found.loads:
        for row in all_rows if load.concurrency else ():
            data, each = row_as_json(row), row.served.seconds_per_token()
            assert data["answers_per_s"] * data["mean"]["seconds"] == pytest.approx(load.concurrency)
            assert data["mean"]["tokens"] == pytest.approx(WANTED.answer_tokens)
            chance = 4.0 * each.stderr / each.value
            assert data["tokens_per_s"] * each.value == pytest.approx(load.concurrency, rel=0.03 + chance)
            assert chance < 0.2


def test_of_arrivals_what_arrives_is_certain_and_the_gain_is_one_of_times(found: NamesPlan) -> None:
    load, rows_there = found.loads[2]
    data = plan_as_json(found)["loads"][2]["rows"]
    for row, plain in zip(rows_there, data, strict=True):
        assert row.answers_per_s == load.per_second
        assert plain["tokens_per_s_interval"] == [row.tokens_per_s] * 2
        assert row.tokens_per_s == pytest.approx(load.per_second * WANTED.answer_tokens)
        assert found.rate_errors(row) == {}
    arriving = LoadsPlan(plan=replace(found, loads=found.loads[2:])).text()
    assert "tokens/s: those that arrive" in " ".join(arriving.split())
    assert "gain: mean seconds of an answer by plain decoding over the method's" in " ".join(arriving.split())
    assert "tokens/s: within a factor of" in " ".join(LoadsPlan(plan=found).text().split())


def test_of_arrivals_each_method_drafts_for_the_answers_that_itself_has_in_flight() -> None:
    wanted = deployment(head=head_of("Qwen/Qwen3-8B"), context=900, answer_tokens=400)
    plan = plan_loads(wanted, [Load(rate=8.0)], Limits(), ["eagle"], curve=False)
    head, plain = plan.loads[0][1]
    assert head.served.in_flight < 0.6 * plain.served.in_flight
    ks = {plan.depths.k("eagle", 1, round(share * head.served.in_flight)) for share in (0.7, 1.0, 1.5, 2.0)}
    assert head.option.configuration.k2 - 1 in ks
    assert head.option.configuration.k2 - 1 > plan.depths.k("eagle", 1, 2 * round(plain.served.in_flight))


def test_a_server_has_places_for_arrivals_at_random(found: NamesPlan) -> None:
    """An answer finds more than four in flight once in 600 where one is on average: with one place it would wait."""
    option = found.loads[2][1][0].option
    few = replace(found, loads=tuple((Load(rate=0.5, burstiness=c), found.loads[2][1]) for c in (1.0, 3.0)))
    mean = found.loads[2][1][0].served.in_flight
    command = settings_for(replace(few, loads=few.loads[:1]), option).commands[0].split()
    bursts = settings_for(few, option).commands[0].split()
    places, more = (int(words[words.index("--max-num-seqs") + 1]) for words in (command, bursts))
    assert places >= 4.0 * mean
    assert more == pytest.approx(3.0 * places, abs=3)


def test_an_engine_later_than_those_measured_is_said_to_be() -> None:
    shown = "vllm 0.32.0 (costs of 0.18.0; none after 0.24 was measured)"
    assert engine_name(deployment(engine_version="0.32.0")) == shown
    assert engine_name(deployment(engine_version="0.19.1")) == "vllm 0.19.1 (costs of 0.18.0)"
    assert engine_name(deployment(engine_version="0.18.0")) == "vllm 0.18.0"
    assert engine_name(deployment()) == "vllm (costs of 0.18.0)"


def test_what_names_do_not_tell_is_said(found: NamesPlan) -> None:
    assert set(found.unknown) == {"eagle", "spec-reason"}
    assert "no head for it is in the table" in found.unknown["eagle"][0]
    text = whole(found)
    assert "not considered: eagle: needs a head" in text
    assert "assumed: ngram makes" in text or "assumed: draft_model makes" in text
    assert "nan" not in text
    assert "token acceptance: a prior" in text


def test_rates_beyond_what_the_gpus_finish_are_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"rate='1000' must be below [\d.]+, the answers per second that 2 x NVIDIA H100 SXM"
    ):
        plan_loads(WANTED, [Load(rate=1000.0)], Limits(), ["prompt-lookup"])
    many = Load(trace=Arrivals.of([0.001 * i for i in range(50)], [100] * 50, [200] * 50))
    with pytest.raises(ParameterError, match=r"trace='1[0-9.]+ answers per second' must be below"):
        plan_loads(WANTED, [many], Limits(), ["prompt-lookup"])
    both = plan_loads(WANTED, [Load(rate=0.5), Load(rate=1000.0)], Limits(), [])
    assert [load.rate for load, _ in both.loads] == [0.5]
    assert "Not planned: rate='1000' must be below" in whole(both)


def test_a_budget_bounds_k1_and_the_positions_in_flight() -> None:
    budget = Budget(max_parallel=4, k1_max=3, rules="paper")
    bounded = plan_loads(WANTED, [Load(concurrency=1)], Limits(), METHODS, budget=budget)
    chosen = [option.configuration for some in bounded.curve.options.values() for option in some if option is not None]
    assert {"prompt-lookup", "draft-model", "lr-async"} <= {one.method for one in chosen}
    assert all(one.most_sequences * one.k2 <= 4 and one.k1 <= 3 for one in chosen)
    assert {one.rules for one in chosen if one.spec.drafts_steps} == {"paper"}
    without = plan_loads(WANTED, [Load(concurrency=1)], Limits(), ["lr-async"], budget=Budget(k1_max=1))
    assert without.curve.gains == {}


def test_a_plan_its_table_and_its_schedule_draft_the_same_number_of_tokens(found: NamesPlan) -> None:
    compared = 0
    for load, all_rows in found.loads:
        for row in all_rows:
            if load.concurrency is None or row.option.configuration.spec.level != "token":
                continue
            schedule = schedule_of(found, row.option)
            if schedule is None:
                continue
            k = schedule.at(-(-load.concurrency // row.option.arrangement.replicas))
            assert k in (0, row.option.configuration.k2 - 1)
            assert k or not pays(all_rows[0].gain.value) or all_rows[0].option.configuration == PLAIN
            compared += 1
    assert compared >= 4


def test_the_command_prints_the_plan_and_commands_that_parse(run_main: Main) -> None:
    words = ("plan", *NAMES, "--methods", "draft_model", "--gpus", "1", "--concurrency", "1,4")
    code, screen, _ = run_main(*words)
    assert code == 0
    assert max(map(len, screen.splitlines())) <= SCREEN
    assert screen.startswith("At 1 answer at once: ")
    assert "At 4 answers at once: " in screen
    assert "vllm serve" not in screen
    code, out, _ = run_main(*words, "-v")
    assert code == 0
    assert "speculation" in out.lower()
    assert max(map(len, out.splitlines())) <= SCREEN
    commands = re.split(r"\n(?=\S|  \S|\n|$)", out.replace("\\\n", " "))
    configs = [told(command).get("--speculative-config") for command in commands if "vllm serve" in command]
    assert configs
    for config in filter(None, configs):
        assert config["num_speculative_tokens"] >= 1
        assert "num_speculative_tokens_per_batch_size" not in config, "vLLM 0.18.0 has no such field"


def test_layers_for_further_tokens_are_found_and_what_is_known_of_them_moves_nothing_else() -> None:
    def gains(**known: Any) -> dict[str, dict[str, Any]]:
        asked = {"context": 500, "answer_tokens": 250, "methods": ["mtp", "ngram"], "concurrency": 2, **known}
        found = sp.plan_models("deepseek-ai/DeepSeek-R1", gpu="H200", gpus=8, **asked)
        return {row["method"]: row for row in found.plain()["loads"][0]["rows"]}

    prior, known = gains(), gains(acceptance={"mtp": 0.85})
    assert next(iter(prior)) == "mtp", "the best method is in the checkpoint"
    assert known["mtp"]["gain"]["value"] > 1.05 * prior["mtp"]["gain"]["value"]
    assert known["ngram"] == prior["ngram"]
    (assumed,) = known["mtp"]["assumed"]
    assert assumed["source"] == "given as 0.85 per token"
    assert assumed["low"] == assumed["value"] == pytest.approx(sum(0.85**i for i in range(known["mtp"]["k"] + 1)))
    (of_prior,) = prior["mtp"]["assumed"]
    assert of_prior["low"] < of_prior["value"] < of_prior["high"]
    assert of_prior["source"].startswith("prior: ")


def test_the_plan_as_data(run_main: Main) -> None:
    code, out, _ = run_main("plan", *NAMES, "--methods", "prompt-lookup", "--gpu-price", "2", "--json")
    assert code == 0
    data = json.loads(out)
    assert data["schema"] == "specplan.load-plan"
    row = data["loads"][0]["rows"][0]
    cost = 2.0 * data["gpus"] / 3600.0
    assert row["dollars_per_million_tokens"] == pytest.approx(1e6 * cost / row["tokens_per_s"])
    assert row["dollars_per_answer"] == pytest.approx(cost / row["answers_per_s"])
    assert row["gain"]["low"] <= row["gain"]["value"] <= row["gain"]["high"]
    low, high = row["tokens_per_s_interval"]
    assert low * high == pytest.approx(row["tokens_per_s"] ** 2)
    assert math.log(high / low) > math.log(row["gain"]["high"] / row["gain"]["low"]), "a ratio is known better"


def test_an_interval_that_includes_a_loss_is_said_where_speculation_pays() -> None:
    sizes = {"context": 2048, "answer_tokens": 512, "methods": ["eagle"], "no_curve": True, "gpu": "H100"}
    for accepted, unsure in (("eagle3=0.9", False), ("eagle3=0.2", True)):
        plan = sp.plan_models("Qwen/Qwen3-8B", concurrency=8, acceptance=(accepted,), **sizes)
        text = " ".join(plan.text().split())
        gain = plan.plain()["loads"][0]["rows"][0]["gain"]
        assert (gain["low"] < 1.0 < gain["value"]) == unsure, gain
        assert ("At 8 the interval includes a loss: measure before you rely on it." in text) == unsure
        factor = float(re.search(r"tokens/s: within a factor of ([\d.]+) \(95 %", text)[1])
        low, high = plan.plain()["loads"][0]["rows"][0]["tokens_per_s_interval"]
        assert factor == pytest.approx((high / low) ** 0.5, abs=0.005)


def test_what_no_machine_holds_is_planned_over_two_and_says_that_nobody_measured_it(run_main: Main) -> None:
    """DeepSeek-R1 on H100: by itself, and on three machines with an engine that does not speculate over stages."""
    asked = {"context": 300, "answer_tokens": 200, "no_curve": True}
    found = sp.plan_models("deepseek-ai/DeepSeek-R1", gpu="H100", methods=["ngram"], **asked)
    data, text = found.plain(), " ".join(found.text().split())
    assert data["gpus"] == 16
    assert [(row["arrangement"]["tp"], row["arrangement"]["pp"]) for row in data["loads"][0]["rows"]] == 2 * [(8, 2)]
    assert "No measured row uses more than one machine: 2 pipeline stages are modelled" in text
    assert data["operators"].startswith("no measured row uses more than one machine")
    assert "of which no measured row tells" in " ".join(found.text(verbose=True).split())
    words = ("plan", "--target", "deepseek-ai/DeepSeek-R1", "--context", "300", "--answer-tokens", "200", "--no-curve")
    code, out, _ = run_main(*words, "--gpus", "24", "--engine", "sglang", "--methods", "mtp", "-v")
    assert code == 0
    assert "needs a target on one machine: sglang does not speculate over pipeline stages" in " ".join(out.split())
    assert "python -m sglang" not in out
    code, _, err = run_main(*words, "--gpus", "8")
    assert code == 2
    assert "16 GPUs would do or int4 weights would do" in err


def test_a_trace_is_planned_with_its_own_sizes(run_main: Main, tmp_path: Path) -> None:
    lines = [{"timestamp": 800 * i, "input_length": 100 + 10 * i, "output_length": 60} for i in range(40)]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    words = ("plan", "--target", "Qwen/Qwen3-8B", "--methods", "prompt-lookup", "--trace", str(path))
    code, out, _ = run_main(*words)
    assert code == 0
    assert "prompts of 295 tokens, answers of 60" in " ".join(out.split())
    code, _, err = run_main(*words, "--context", "500")
    assert code == 2
    assert "must not be given with --trace" in err


def whole(plan: NamesPlan) -> str:
    """What is printed with -v."""
    return LoadsPlan(plan=plan).text(verbose=True)
