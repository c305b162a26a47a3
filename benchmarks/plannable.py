"""Which configurations of a public benchmark can be planned: ``python -m benchmarks.plannable FILE``.

FILE is a list of servers as InferenceX keeps it (Apache-2.0, ``configs/nvidia-master.yaml`` of its repository; needs
PyYAML): by name, each with ``model``, ``runner`` and ``framework``. Each model is planned by its name, in the formats
that are published under it, with one answer at once on the fewest GPUs of the runner's type that hold it.
Printed are how many can be planned, and why the others cannot, one line for each reason.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import specplan as sp
from theory.errors import ParameterError, SpecplanError
from theory.hardware.gpus import gpu_named

_ENGINES: Final = {"trt": "trtllm", "trtllm": "trtllm", "vllm": "vllm", "sglang": "sglang"}


def why_not(entry: Mapping[str, Any]) -> str:
    """Return why a server of the list cannot be planned; empty: it can."""
    try:
        runner, framework = str(entry["runner"]), str(entry["framework"])
        gpu = next((word for word in re.split(r"\W", runner) if _is_gpu(word)), runner)
        engine = next((_ENGINES[word] for word in re.split(r"\W", framework) if word in _ENGINES), framework)
        return _planned(str(entry["model"]), gpu, engine)
    except KeyError as error:
        return f"the list does not say its {error.args[0]}"


@cache
def _planned(model: str, gpu: str, engine: str) -> str:
    try:
        sp.plan_models(model, gpu=gpu, engine=engine, methods=["ngram"], no_curve=True)
    except ParameterError as error:
        return f"{error.name}={error.value} {error.rule}"
    except SpecplanError as error:
        return str(error)
    return ""


def _is_gpu(word: str) -> bool:
    try:
        return bool(gpu_named(word))
    except ParameterError:
        return False


def main() -> None:
    """Print how many can be planned, and the others by reason."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plannable", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, metavar="FILE", help="the list, YAML")
    import yaml

    servers = yaml.safe_load(parser.parse_args().file.read_text(encoding="utf-8"))
    refused: dict[str, list[str]] = defaultdict(list)
    for name, entry in servers.items():
        reason = why_not(entry)
        if reason:
            refused[reason].append(name)
    left = sum(map(len, refused.values()))
    print(f"{len(servers) - left} of {len(servers)} can be planned")
    for reason, names in refused.items():
        print(f"{', '.join(names)}: {reason}")


if __name__ == "__main__":
    main()
