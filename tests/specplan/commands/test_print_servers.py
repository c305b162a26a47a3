"""``specplan calibrate openai --print-servers``: the script starts what the printed command measures."""

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from screens import refused_words

from specplan.cli import cli
from specplan.commands.calibration.calibrate import openai_command

NGRAM = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}'
MODELS = ["--target", "Qwen/Qwen3-32B", "--draft", "Qwen/Qwen3-1.7B"]
REST = ["--prompts", "my questions.jsonl", "-o", "mine.json"]


def printed(*words: str) -> str:
    result = CliRunner().invoke(cli, ["calibrate", "openai", "--print-servers", *words])
    assert result.exit_code == 0, result.output
    return result.output


def started(script: str) -> list[tuple[str, list[str]]]:
    """The GPUs and the words of each server's command."""
    lines = [line.removesuffix(" &") for line in script.splitlines() if line.endswith(" &")]
    split = [shlex.split(line) for line in lines]
    return [(words[0].removeprefix("CUDA_VISIBLE_DEVICES="), words[1:]) for words in split]


def value(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_a_target_on_two_gpus_and_a_draft_on_a_third() -> None:
    script = printed(*MODELS, "--target-gpus", "0,1", "--draft-gpus", "2", "--speculative", "fast", NGRAM, *REST)
    (target, draft, fast) = started(script)
    assert [gpus for gpus, _ in (target, draft, fast)] == ["0,1", "2", "0,1"]
    assert [words[2] for _, words in (target, draft, fast)] == ["Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-32B"]
    assert [value(words, "--tensor-parallel-size") for _, words in (target, fast)] == ["2", "2"]
    assert "--tensor-parallel-size" not in draft[1]
    assert value(fast[1], "--speculative-config") == NGRAM
    assert [value(words, "--gpu-memory-utilization") for _, words in (target, draft, fast)] == ["0.45", "0.9", "0.45"]


def test_servers_of_one_gpu_share_its_memory_by_their_sizes() -> None:
    shares = [float(value(words, "--gpu-memory-utilization")) for _, words in started(printed(*MODELS, *REST))]
    assert 0.87 < sum(shares) <= 0.9
    assert shares[0] > 7.0 * shares[1]
    unknown = ["--target", "me/mine", "--draft", "me/small", "--judge", "me/judge"]
    assert [value(words, "--gpu-memory-utilization") for _, words in started(printed(*unknown, *REST))] == ["0.3"] * 3


def test_servers_of_a_gpu_start_one_after_the_other_unless_their_caches_are_given() -> None:
    """Target and draft have a GPU in common, target and judge another one."""
    words = [*MODELS, "--judge", "me/judge", "--target-gpus", "0,1", "--draft-gpus", "1", "--judge-gpus", "0", *REST]
    waits = ["answer 1 8000", "answer 2 8000", "answer 3 8000 8001 8002"]
    assert [line for line in printed(*words).splitlines() if line.startswith("answer ")] == waits
    at_once = printed(*words, "--cache-gb", "2.5")
    assert [line for line in at_once.splitlines() if line.startswith("answer ")] == waits[-1:]
    assert {value(words, "--kv-cache-memory-bytes") for _, words in started(at_once)} == {"2500000000"}


DRAFTING = '{"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": %d}'


@pytest.mark.parametrize(
    ("synthetic", "imposed", "mean"),
    [
        ("1.6", [{"synthetic_acceptance_length": 1.6}] * 2, ["1.6", "1.6"]),
        (
            "0.85,0.75,0.5",
            [{"synthetic_acceptance_rates": rates} for rates in ([0.85], [0.85, 0.75, 0.5])],
            ["1.85", "3.1"],
        ),
    ],
)
def test_acceptance_is_imposed_on_all_servers_that_speculate(
    synthetic: str, imposed: list[dict[str, object]], mean: list[str]
) -> None:
    configs = [DRAFTING % k for k in (1, 3)]
    asked = [word for config in configs for word in ("--speculative", "fast", config)]
    script = printed(*MODELS, *asked, "--synthetic", synthetic, *REST)
    wanted = [
        {**json.loads(config), "rejection_sample_method": "synthetic", **one}
        for config, one in zip(configs, imposed, strict=True)
    ]
    assert [json.loads(value(words, "--speculative-config")) for _, words in started(script)[2:]] == wanted
    calibrate, validate = (shlex.split(line) for line in script.splitlines() if line.startswith("specplan "))
    with openai_command.make_context("openai", calibrate[3:]) as context:
        assert [json.loads(config) for _, config in context.params["speculative"]] == wanted
    assert validate == [
        *("specplan", "validate", "-p", "mine.json", "--prompts", "my questions.jsonl"),
        *("--run", "draft-model k2=2", "--run", "draft-model k2=4", "--concurrency", "1,4"),
    ]
    for length in mean:
        assert f"SGLANG_SIMULATE_ACC_LEN={length} SGLANG_SIMULATE_ACC_METHOD=match-expected" in script
        assert f"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS={float(length) - 1:g}" in script


def test_the_printed_command_has_the_other_options_as_they_were_given() -> None:
    given = ["--quick", "--no-gate", "--chat", "--contexts", "64,8192", "--temperature", "0.3", "--concurrency", "1,4"]
    script = printed(*MODELS, "--speculative", "fast", NGRAM, *given, *REST)
    command = shlex.split(next(line for line in script.splitlines() if line.startswith("specplan calibrate")))
    with openai_command.make_context("openai", command[3:]) as context:
        asked = context.params
    assert asked["target"] == "http://127.0.0.1:8000/v1"
    assert asked["draft"] == "http://127.0.0.1:8001/v1"
    assert asked["speculative"] == (("http://127.0.0.1:8002/v1", NGRAM),)
    assert (asked["effort"], asked["gate"], asked["chat"], asked["temperature"]) == ("quick", False, True, 0.3)
    assert (asked["contexts"], asked["concurrency"], asked["prompts"]) == ("64,8192", "1,4", "my questions.jsonl")


VLLM = f"""#!{sys.executable}
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
if os.environ["CUDA_VISIBLE_DEVICES"] == "7":
    sys.exit("no such GPU")
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Healthy).serve_forever()
"""


def run_script(script: str, folder: Path) -> subprocess.Popen[str]:
    """Run a script with servers that only are healthy."""
    (folder / "vllm").write_text(VLLM, encoding="utf-8")
    (folder / "vllm").chmod(0o755)
    (folder / "servers.sh").write_text(script.replace("sleep 2", "sleep 0.1"), encoding="utf-8")
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    words = ["bash", str(folder / "servers.sh")]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, stdout=pipe, stderr=pipe, text=True, env={**os.environ, "PATH": path}, start_new_session=True
    )


def test_the_script_waits_for_all_servers_and_ends_them(tmp_path: Path) -> None:
    script = printed(*MODELS, *REST).replace("800", "2871")  # ports that no outgoing connection takes
    running = run_script(script, tmp_path)
    try:
        assert running.stdout.readline() == "All servers answer. In another shell:\n"
        assert running.stdout.readline().startswith("specplan calibrate openai --target http://127.0.0.1:28710/v1")
        running.terminate()
        running.communicate(timeout=10)  # their ends of its pipes are closed: they have ended too
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


def test_the_script_ends_where_a_server_does(tmp_path: Path) -> None:
    running = run_script(printed(*MODELS, "--draft-gpus", "7", *REST).replace("800", "2872"), tmp_path)
    _, errors = running.communicate(timeout=20)
    assert running.returncode == 1
    assert "a server has ended" in errors


PRINTED = [*MODELS, *REST, "--print-servers", "--speculative", "fast"]

test_bad_input_is_a_line = refused_words(
    "calibrate openai",
    (
        ["--target", "http://127.0.0.1:8000/v1", "--draft", "d", *REST, "--print-servers"],
        "must be the name or folder of a model",
    ),
    ([*PRINTED, NGRAM, "--target-gpus", "1,1"], "must name each GPU once"),
    ([*PRINTED, "3"], "must be a JSON object"),
    ([*PRINTED, NGRAM, "--synthetic", "2.6"], "is no setting of the method ngram"),
    ([*PRINTED, DRAFTING % 1, "--synthetic", "2.6"], "must be a number in [1, 2"),
    ([*PRINTED, DRAFTING % 3, "--synthetic", "0.9,0.8"], "must be 3 numbers"),
    ([*PRINTED, DRAFTING % 2, "--synthetic", "0.8,0.9"], "none larger than the one before"),
    *(
        ([*MODELS, *REST, *words.split()], "has no use without --print-servers")
        for words in ("--draft-gpus 1", "--cache-gb 2", "--synthetic 2.6")
    ),
)
