"""Options of ``specplan acceptance --from vllm-live``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from specplan.ranges import ANSWERS, SEED, TEMPERATURE, TOKENS, TOP_P

__all__ = ["LIVE", "live_options"]

LIVE: Final = "vllm-live"
"""Names this source."""

F = TypeVar("F", bound=Callable[..., Any])


def live_options(command: F) -> F:
    """Give a command the options of a measurement on vLLM."""
    options = (
        click.option("--speculative-config", "speculative", metavar="JSON", help="vllm-live: as for vLLM."),
        click.option("--prompts", type=click.Path(path_type=Path), help="vllm-live: JSONL file of questions."),
        click.option(
            "-n", "--requests", type=ANSWERS, default=6, show_default=True, help="vllm-live: how many requests."
        ),
        click.option("--max-tokens", type=TOKENS, default=500, show_default=True, help="vllm-live: tokens of each."),
        click.option(
            "--temperature", type=TEMPERATURE, default=0.6, show_default=True, help="vllm-live: of the sampling."
        ),
        click.option("--top-p", type=TOP_P, default=0.95, show_default=True, help="vllm-live: of the sampling."),
        click.option("--seed", type=SEED, default=0, show_default=True, help="vllm-live: of questions and sampling."),
        click.option("--device", default="cpu", show_default=True, help="vllm-live: cpu or cuda, as vLLM was built."),
    )
    for option in reversed(options):
        command = option(command)
    return command
