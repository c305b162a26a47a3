"""Advice that can be pasted: exact JSON, shell words, and vLLM's own parser where it is installed."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from measured_profiles import measured, with_engine
from told_commands import told

from calibrate.engines.token_vocabulary import OF_VLLM
from calibrate.record.engine_records import DecodeSample
from calibrate.record.library import bundled
from calibrate.record.profile import Profile
from sim.configuration import Configuration
from specplan.planning.advice import advise, batch_schedule

ROOT = Path(__file__).resolve().parents[3]


def at(location: str, **settings: str) -> Profile:
    """A measured profile whose models lie at a place, with more settings."""
    profile = measured([True, False])
    models = {role: model.model_copy(update={"location": location}) for role, model in profile.models.items()}
    return profile.model_copy(update={"models": models, "settings": {**profile.settings, **settings}})


def with_passes(profile: Profile) -> Profile:
    """Passes over 3 tokens cost a tenth more at batch 1, and three times as much at batch 8."""
    extra = [DecodeSample(batch=b, context=64, tokens=3, seconds=s) for b, s in ((1, 0.011), (8, 0.030))]
    return with_engine(profile, "big", decode=[*profile.engines["big"].decode, *extra])


def test_lookahead_reasoning_with_lookup_as_published() -> None:
    configuration = Configuration(method="lr-async", k1=4, k2=4, rules="released-code")
    advice = advise(bundled("lr-deepseek-gsm8k"), configuration)
    target, draft, judge = (told(server.command) for server in advice.servers)
    expected = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 1, "prompt_lookup_min": 1}
    assert target["--speculative-config"] == draft["--speculative-config"] == expected
    assert "--speculative-config" not in judge
    assert int(target["--max-num-seqs"]) == configuration.most_sequences
    assert len({target["--port"], draft["--port"], judge["--port"]}) == 3
    assert [server.model for server in advice.servers] == [
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        "Qwen/Qwen2.5-7B-Instruct",
    ]
    assert [server["gpus"] for server in (target, draft, judge)] == [[0, 1], [2], [3]]
    assert target["--tensor-parallel-size"] == "2"
    assert "--tensor-parallel-size" not in draft
    assert advice.client["stop"] == "\n\n"
    known = {"k1": 4, "width": 1, "rules": "released-code", "max_step_tokens": 100, "threshold": 0.5}
    assert advice.client.items() >= known.items()
    assert "gamma" not in advice.client  # no gate is asked
    assert "num_speculative_tokens = k2 - 1 = 3" in " ".join(advice.notes)
    assert any("not computed" in note for note in advice.notes)


@pytest.mark.parametrize(
    ("settings", "location", "expected"),
    [
        ({}, "bundled", {"method": "eagle", "model": "calibrate/pair/weights/eagle"}),
        ({"eagle": "/heads/e"}, "/models/t", {"method": "eagle", "model": "/heads/e"}),
        (
            {"speculative": '[{"method": "ngram"}, {"method": "eagle3", "model": "/heads/three"}]', "eagle": "/e"},
            "/models/t",
            {"method": "eagle3", "model": "/heads/three"},
        ),
        ({}, "/models/t", {"method": "eagle", "model": "<EAGLE head>"}),
    ],
    ids=["bundled", "given", "of a server", "unknown"],
)
def test_the_head_is_the_one_that_was_measured(
    settings: dict[str, Any], location: str, expected: dict[str, Any]
) -> None:
    profile = at(location, **settings)
    advice = advise(profile, Configuration(method="eagle", k2=5))
    (target,) = advice.servers
    assert told(target.command)["--speculative-config"] == {**expected, "num_speculative_tokens": 4}


def test_bundled_models_are_named_in_a_way_that_holds_anywhere() -> None:
    """Relative to the installation, and the note's command finds that."""
    advice = advise(at("bundled"), Configuration(method="lr-async", k1=2))
    (note,) = (note for note in advice.notes if "bundled" in note)
    words = shlex.split(note.partition(": ")[2])
    printed = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    for server in advice.servers:
        assert not Path(server.model).is_absolute()
        assert (Path(printed.strip()) / server.model / "model.safetensors").is_file()
    assert len({server.model for server in advice.servers}) == 2


def test_an_address_is_no_model_to_serve() -> None:
    """Of servers that were measured the address is recorded, and the weights only of what speculates there."""
    speculative = '[{"server": "http://127.0.0.1:7/v1", "method": "draft_model", "model": "/models/d"}]'
    for settings, drafter in (({"speculative": speculative}, "/models/d"), ({}, "small")):
        served = at("http://127.0.0.1:9/v1", **settings)
        advice = advise(served, Configuration(method="draft-model", k2=4))
        assert advice.servers[0].model == "big"
        assert advice.servers[0].speculative_config["model"] == drafter
        assert any("names are those of the profile" in note for note in advice.notes)


def test_plain_decoding_needs_no_client() -> None:
    advice = advise(measured([True, False]), Configuration(method="autoregressive"))
    assert [server.role for server in advice.servers] == ["target"]
    assert advice.client is None
    assert advice.servers[0].speculative_config is None
    assert json.loads(json.dumps(advice.plain())) == advice.plain()


def test_the_table_by_batch_size_comes_from_measured_passes() -> None:
    """The lookup has u = 4/6, 2/6 and a hit rate of .6: at batch 1 a pass of 10 to 11 ms brings 1.6 tokens at K = 2.

    At batch 8, 1 + .6 (4/6 + 2/6) = 1.6 tokens take .4 x 10 + .6 x 30 = 22 ms, and one takes 10: no speculation.
    """
    profile = with_passes(measured([True, False], ngram=True))
    schedule, note = batch_schedule(profile, 3)
    assert schedule.plain() == [[1, 7, 2], [8, 8, 0]]
    assert "measured batch sizes 1, 8" in note
    config = advise(profile, Configuration(method="prompt-lookup", k2=3)).servers[0].speculative_config
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 7, 2], [8, 8, 0]]
    assert config["prompt_lookup_max"] == 2


def test_the_table_is_not_guessed() -> None:
    schedule, note = batch_schedule(measured([True, False], ngram=True), 3)
    assert schedule is None
    assert "were not measured" in note
    assert batch_schedule(measured([True, False]), 3)[0] is None


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what vLLM imports, if this is the first to import it
@pytest.mark.parametrize("drafter", OF_VLLM)
def test_vllm_reads_the_flags(drafter: str) -> None:
    """The command line through vLLM's own parser, and the config's fields against vLLM's own class."""
    import dataclasses

    arg_utils = pytest.importorskip("vllm.engine.arg_utils")
    from vllm.config import SpeculativeConfig
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    options: dict[str, Any] = {"max_ngram": 3} if drafter == "ngram" else {"model": "some/model"}
    table = {"num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 64, 0]]}
    config = OF_VLLM[drafter].vllm_configuration(5, **options) | table
    known = {field.name for field in dataclasses.fields(SpeculativeConfig)}
    assert set(config) <= known
    parser = arg_utils.EngineArgs.add_cli_args(FlexibleArgumentParser())
    words = ["--enable-prefix-caching", "--max-num-seqs", "8", "--speculative-config", json.dumps(config)]
    read = parser.parse_args(words)
    assert read.speculative_config == config
    assert read.max_num_seqs == 8
