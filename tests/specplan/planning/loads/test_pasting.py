"""Commands in lines of a terminal are the commands that they were."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.output import SCREEN
from specplan.show.rendering import broken, json_lines

SPECULATIVE = json.dumps(
    {
        "method": "eagle3",
        "num_speculative_tokens": 5,
        "model": "RedHatAI/Qwen3-32B-speculator.eagle3",
        "num_speculative_tokens_per_batch_size": [[1, 31, 5], [32, 63, 4], [64, 127, 2], [128, 1024, 0]],
    }
)
WORDS = ["vllm", "serve", "Qwen/Qwen3-32B", "--port", "8000", "--enable-expert-parallel", "--max-model-len", "20480"]
COMMANDS = [
    shlex.join(WORDS),
    "CUDA_VISIBLE_DEVICES=0,1 " + shlex.join([*WORDS, "--speculative-config", SPECULATIVE, "--max-num-seqs", "32"]),
    shlex.join(["vllm", "serve", "<EAGLE-3 head>", "--served-model-name", "it's here", "--x", '{"a": "b, c"}']),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_shell_reads_the_same_words(command: str) -> None:
    text = broken(command)
    assert all(len(line) <= SCREEN for line in text.splitlines())
    shell = f'printf "%s\\0" {text.replace("CUDA_VISIBLE_DEVICES=0,1 ", "")}'
    read = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout
    told = shlex.split(command.replace("CUDA_VISIBLE_DEVICES=0,1 ", ""))
    for found, word in zip(read.split("\0")[:-1], told, strict=True):
        assert found == word or json.loads(found) == json.loads(word)


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=12), st.lists(st.integers() | st.text(max_size=20), max_size=5), max_size=6))
def test_json_stays_the_same_data_whatever_its_strings_hold(data: dict[str, list[int | str]]) -> None:
    lines = json_lines(json.dumps(data), 30)
    assert json.loads("\n".join(lines)) == data
