"""Commands of servers as their engines read them: the options with their values, and what is served where."""

import json
import shlex
from typing import Any


def told(command: str) -> dict[str, Any]:
    """The options of a command, and its `engine`, its `gpus` and the model that is `served`.

    Flags have an empty value, and a speculative configuration that of its JSON.
    """
    words = shlex.split(command)
    visible = words.pop(0).partition("=")[2] if words[0].startswith("CUDA_VISIBLE_DEVICES=") else ""
    pairs = zip(words, [*words[1:], "--"], strict=True)
    found: dict[str, Any] = {
        word: "" if value.startswith("--") else value for word, value in pairs if word.startswith("--")
    }
    engine, served = {
        "vllm": ("vllm", words[2]),
        "trtllm-serve": ("trtllm", words[1]),
        "python": ("sglang", found.get("--model-path")),
    }[words[0]]
    if "--speculative-config" in found:
        found["--speculative-config"] = json.loads(found["--speculative-config"])
    return {**found, "engine": engine, "served": served, "gpus": [int(gpu) for gpu in visible.split(",") if gpu]}
