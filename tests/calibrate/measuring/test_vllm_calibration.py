"""``specplan calibrate vllm`` on the bundled pair, and its predictions beside what vLLM then does."""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import wait_until_gone
from refusals import refused, refuses

from calibrate.engines.vllm.config import speculative_of
from calibrate.models.asking import bundled_problems, bundled_truth
from calibrate.models.recorded import models_of
from calibrate.models.vllm import VllmModels
from calibrate.record.profile import Profile
from theory.errors import ParameterError, SchemaError

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}


def test_the_set_is_rebuilt_from_a_profiles_settings() -> None:
    models = VllmModels(device="cuda", target_gpus="0,1", draft_gpus="2", speculative=json.dumps([NGRAM]))
    assert models.placed == {"target": (0, 1), "draft": (2,), "judge": (0,)}
    assert VllmModels(device="cuda").placed == {}
    assert models_of(dict(models.settings())) == models
    keys = ["prompt-lookup k2=4 max_ngram=3", "draft-model k2=4", "eagle k2=4"]
    assert [setting.key for setting in VllmModels().token_settings()] == keys
    assert [setting.key for setting in VllmModels(eagle="none").token_settings()] == keys[:2]


test_what_vllm_cannot_do_is_refused = refuses(
    VllmModels,
    *(({"speculative": wrong}, r"speculative|method") for wrong in ("{", "{}", '[{"method": "ngrams"}]', "[3]")),
    ({"device": "tpu"}, "device"),
    ({"draft_gpus": "1"}, "'cuda' where GPUs are named"),
    ({"device": "cuda", "target_gpus": "1,1"}, "target-gpus.*each GPU once"),
    ({"device": "cuda", "target_gpus": "1,x"}, "target-gpus.*numbers of GPUs"),
)


def test_what_was_not_configured_is_refused() -> None:
    with pytest.raises(ParameterError, match="method"):
        VllmModels().speculation("jacobi", {"window": 4})
    with pytest.raises(ParameterError, match="folder of an EAGLE head"):
        VllmModels(eagle="none").speculation("eagle", {"k2": 4})
    with pytest.raises(SchemaError, match="lack draft"):
        VllmModels.from_settings({"target": "bundled"})


def test_every_setting_of_a_configuration_reaches_the_engine(tmp_path: Path) -> None:
    """From the command's JSON to what vLLM is started with, for each configuration; k2 comes back as it went in."""
    drafting = {
        "method": "draft_model",
        "model": str(tmp_path),
        "draft_sample_method": "probabilistic",
        "max_model_len": 512,
        "parallel_drafting": False,
        "quantization": "fp8",
        "draft_tensor_parallel_size": 1,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 2.6,
    }
    head = {"method": "eagle3", "model": str(tmp_path), "num_speculative_tokens": 3, "draft_sample_method": "greedy"}
    configurations = [NGRAM, *({**drafting, "num_speculative_tokens": n} for n in (2, 5)), head]
    models = VllmModels(speculative=json.dumps(configurations))
    settings = models.token_settings()
    assert [setting.method for setting in settings] == ["prompt-lookup", "draft-model", "draft-model", "eagle"]
    speculations = [models.speculation(setting.method, setting.knobs) for setting in settings]
    assert list(map(speculative_of, speculations)) == configurations
    assert len(set(speculations)) == 4  # each has an engine of its own
    again = models_of(dict(models.settings()))
    assert isinstance(again, VllmModels)
    assert speculative_of(again.speculation("draft-model", {"k2": 6})) == configurations[2]


DRAFTING = {"method": "draft_model", "num_speculative_tokens": 3}


test_what_would_get_lost_is_refused = refused(
    lambda configurations: VllmModels(speculative=json.dumps(configurations)),
    ([DRAFTING | {"num_speculative_tokens_per_batch_size": [[1, 8, 3]]}], "size=.* cannot be measured as one .* give"),
    ([DRAFTING | {"quantization": None}], "quantization=None must be one text"),
    ([DRAFTING | {"model": 3}], "model=3 must be one text"),
    ([DRAFTING | {"temperature": 1}], "'temperature' is no setting of the method draft_model"),
    ([DRAFTING, DRAFTING | {"num_speculative_tokens": 2, "model": "other"}], "model='other' is .* a profile for each"),
    (
        [DRAFTING | {"draft_sample_method": "greedy"}, DRAFTING | {"num_speculative_tokens": 2}],
        "draft_sample_method=None is 'greedy' in another configuration of draft-model: .* a profile for each",
    ),
    ([NGRAM, NGRAM], "'prompt-lookup k2=4 max_ngram=3' is given twice"),
)


def test_an_eagle_head_is_measured_or_refused(tmp_path: Path) -> None:
    head = str(tmp_path)
    keys = [setting.key for setting in VllmModels(eagle=head).token_settings()]
    assert keys == ["prompt-lookup k2=4 max_ngram=3", "draft-model k2=4", "eagle k2=4"]
    wanted = {"method": "eagle3", "num_speculative_tokens": 2}
    models = VllmModels(eagle=head, speculative=json.dumps([wanted]))
    assert speculative_of(models.speculation("eagle", {"k2": 3})) == {**wanted, "model": head}
    for others in ([NGRAM], [{**wanted, "model": "other"}]):
        with pytest.raises(ParameterError, match=r"eagle=.* must be the head of a speculative configuration"):
            VllmModels(eagle=head, speculative=json.dumps(others))
    assert [one.method for one in VllmModels(eagle="none", speculative=json.dumps([NGRAM])).token_settings()] == [
        "prompt-lookup"
    ]
    with pytest.raises(ParameterError, match="model='no-such-head' must be a local folder"):
        VllmModels(eagle="no-such-head").token_settings()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile that all tests with engines work on: interrupted, resumed, and in the end whole."""
    pytest.importorskip("vllm")
    return tmp_path_factory.mktemp("vllm") / "pair.json"


def calibrating(output: Path) -> list[str]:
    """The command; its target judges as well, which saves an engine."""
    words = ["calibrate", "vllm", "-n", "2", "--contexts", "64", "--concurrency", "2", "--judge", "target"]
    words += ["--allow-noise", "-o", str(output)]
    words += ["--speculative-config", json.dumps(NGRAM), "--speculative-config", json.dumps(DRAFTING)]
    return [sys.executable, "-m", "specplan", *words]


def pieces(output: Path) -> list[Any]:
    """The finished pieces in the journal of a calibration; its first line has the settings, its last may be cut."""
    journal = output.with_name(output.name + ".part")
    return [json.loads(line) for line in journal.read_text().split("\n")[1:-1]] if journal.exists() else []


@pytest.mark.vllm
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("number", "least"),
    [
        (signal.SIGTERM, 1),
        pytest.param(signal.SIGKILL, 2, marks=pytest.mark.long("minutes; test_plugin ends an engine with its process")),
    ],
)
def test_whatever_ends_a_calibration_ends_its_engines(output: Path, number: signal.Signals, least: int) -> None:
    """The first is told to end when it has finished a piece; the second goes on from there, and is killed.

    Both are background jobs, in which shells have SIGINT ignored, so that asyncio does not handle it either.
    """
    kept = pieces(output)
    with subprocess.Popen(["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *calibrating(output)]) as process:
        try:
            limit = time.monotonic() + 900.0
            while len(pieces(output)) < least:
                assert process.poll() is None
                assert time.monotonic() < limit
                time.sleep(0.2)
            engines = psutil.Process(process.pid).children(recursive=True)
            # Each runs its model in a process of its own.
            assert len([one for one in engines if "VLLM" in one.name()]) >= 4
            process.send_signal(number)
            assert process.wait(300.0) == (130 if number is signal.SIGTERM else -number)
        finally:
            process.kill()
    wait_until_gone(engines, 120.0)
    assert pieces(output)[: len(kept)] == kept  # measured once


@pytest.fixture(scope="module")
def profile(output: Path) -> Profile:
    """Measured by the command, in a process of its own; the rest of it, if calibrations were interrupted before."""
    done = subprocess.run(calibrating(output), capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "target" in done.stdout
    assert "VLLM" not in done.stdout + done.stderr
    return Profile.read(output)


@pytest.mark.vllm
@pytest.mark.timeout(1800)
def test_the_profile_holds_what_was_measured_and_how(profile: Profile) -> None:
    made = profile.provenance
    assert (made.engine, made.engine_version) == ("vllm", "0.32.0")
    settings = json.loads(next(note for note in made.notes if note.startswith("target: ")).removeprefix("target: "))
    assert (settings["block_size"], settings["enable_prefix_caching"]) == (32, True)
    assert profile.settings["backend"] == "vllm"
    assert len(profile.answers) == 2
    # Of an answer's target steps some find others decoding; of an answer written alone none can.
    target = profile.engines["target"]
    assert 0.0 < sum(one.joined for one in target.in_use) < sum(one.prefill.n for one in target.in_use)
    assert sum(one.joined for one in target.plain_in_use) == 0.0
    prefills = profile.engines["target"].prefill
    # One pass does both: what a short prompt adds to it is far less than a prefill alone.
    alone, beside = ([p.seconds for p in prefills if (p.tokens, p.together, p.beside) == (4, 1, k)] for k in (0, 1))
    assert statistics.median(beside) < statistics.median(alone)
    assert any((p.tokens, p.together, p.beside) == (128, 1, 1) for p in prefills)
    assert {(sample.batch, sample.tokens) for sample in profile.engines["target"].decode} >= {(1, 1), (8, 1), (1, 4)}
    assert {record.method: record.k2 for record in profile.token} == {"prompt-lookup": 4, "draft-model": 4}
    for record in profile.token:
        assert len(record.answers) == 2
        assert all(right <= drafted <= 3 for a in record.answers for r in a.requests for drafted, right in r.passes)
    # The draft is right more often than a lookup in 50 tokens; the reverse would be passes in the wrong record.
    means = {r.method: sum(r.accepted_at) / r.passes for r in profile.token}
    assert means["draft-model"] > means["prompt-lookup"] > 0.0


@pytest.mark.long("minutes: test_vllm_server validates over HTTP, and tests of torch's engines in process")
@pytest.mark.vllm
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore:Unclosed context:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_predictions_beside_real_runs(profile: Profile) -> None:
    """Token level, step level and both, interleaved in one set of engines; the figures are in VALIDATION.md."""
    from sim.configuration import Configuration
    from specplan.check.validating.validation import predict_all, validate
    from specplan.show.validations import first_screen

    configurations = [
        Configuration(method="draft-model", k2=4),
        Configuration(method="lr-async", k1=2),
        Configuration(method="lr-async", k1=2, token="draft-model", k2=4),
    ]
    predictions = predict_all(profile, configurations)
    problems = bundled_problems(3, 1, "validation")
    models = models_of(dict(profile.settings))
    found = asyncio.run(validate(profile, predictions, models, problems, truth=bundled_truth(), seed=1))
    print(first_screen(found))  # noqa: T201 (shown with -s, and when it fails)
    for row in found.rows:
        assert row.measured.n == 3
        assert row.measured.speedup.value > 0.0
    # Greedy or not, the target's own text is what token-level speculation writes: its answers are as often right.
    assert found.rows[0].measured.accuracy is not None
    # Three answers on a machine with other work are no measurement; a mix-up of units or engines would be seen.
    assert all(0.2 < 1.0 + row.error < 5.0 for row in found.rows)
    assert not [child for child in psutil.Process(os.getpid()).children() if "VLLM" in child.name()]
