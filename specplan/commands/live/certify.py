"""``specplan certify``: does a server that speculates draw from the target's distribution."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.output import check_output, deliver, json_option, output_options, progress, to_json
from specplan.ranges import SECONDS, SEED, SHARE, WholeNumber

if TYPE_CHECKING:
    from specplan.live.certifying.cells import Scored
    from specplan.live.certifying.scoring import Wanted

__all__ = ["command"]


@click.command(name="certify")
@click.argument("url", metavar="URL[#MODEL]")
@click.option("--draft", metavar="URL[#MODEL]", help="A server of the draft model. Without it defects that involve the "
    "draft's probabilities are not examined.")  # fmt: skip
@click.option(
    "--target", metavar="URL[#MODEL]", help="A server of the plain target. Default: the server under test itself."
)
@click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    help='JSONL file with one {"prompt": ...} a line. Default: arithmetic questions.',
)
@click.option("--tokens", type=WholeNumber(1, 1_000_000), default=2000, show_default=True, help="Tokens to draw.")
@click.option(
    "--answer-tokens", type=WholeNumber(2, 100_000), default=128, show_default=True, help="Tokens of an answer."
)
@click.option(
    "--top",
    type=WholeNumber(1, 10_000),
    default=20,
    show_default=True,
    help="Likeliest tokens to read at each position; all others count as one. vLLM: at most --max-logprobs.",
)
@click.option(
    "--concurrency", type=WholeNumber(1, 1024), default=4, show_default=True, help="Requests in flight at once."
)
@click.option(
    "--false-alarm",
    type=SHARE,
    default=0.05,
    show_default=True,
    help="Probability of ever naming a defect of a lossless server; limits hold with 1 minus it.",
)
@click.option("--seed", type=SEED, help="Seed of the first answer's request. Default: none is sent.")
@click.option("--api-key-env", default="", show_default=False, help="Environment variable with the servers' API key.")
@click.option("--timeout", type=SECONDS, default=120.0, show_default=True, help="Longest silence of a server, s.")
@json_option
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    url: str,
    draft: str | None,
    target: str | None,
    prompts: Path | None,
    false_alarm: float,
    api_key_env: str,
    timeout: float,
    as_json: bool,
    output: Path | None,
    force: bool,
    **amounts: Any,
) -> None:
    """Test whether a server that speculates draws from the target's distribution, by betting on defects.

    It draws answers at temperature 1 and reads the probabilities of target and draft at each token (vLLM's
    prompt_logprobs). It names the defect that the tokens speak for, or says how much any defect may change.

    Exits 1 if a defect is named.
    """
    check_output(output, force=force)
    from specplan.live.certifying.cells import drawn_from, noise_between
    from specplan.live.certifying.certificate import certificate
    from specplan.live.certifying.scoring import Wanted
    from specplan.live.certifying.text import certificate_as_json, certificate_as_text

    wanted = Wanted(**amounts)
    texts = _prompts(prompts, wanted.answers)
    scored = _scored(url, target, draft, texts, wanted, {"api_key_env": api_key_env, "timeout_s": timeout})
    drawn = drawn_from(scored)
    result = certificate(drawn, noise=noise_between(scored), false_alarm=false_alarm)
    notes = [f"- {len(scored)} answers; tokens beyond the {wanted.top} likeliest count as one."]
    if draft is None:
        notes.append("- Without --draft, defects that involve the draft's probabilities are not examined.")
    elif not drawn.shows_passes:
        notes.append("- The streams do not show passes: a bonus from the draft counts as one of the draft's tokens.")
    shown = certificate_as_json(result, notes)
    deliver(to_json(shown) if as_json else certificate_as_text(result, notes), output)
    if result.named:
        ctx.exit(1)


def _prompts(path: Path | None, n: int) -> list[str]:
    """The texts that are continued, two at least."""
    from calibrate.models.asking import bundled_problems
    from specplan.prompts import read_prompts

    most = max(n, 2)
    problems = bundled_problems(most, 0, "validation") if path is None else read_prompts(path, most)
    return [problem.prompt for problem in problems]


def _scored(
    url: str, target: str | None, draft: str | None, texts: list[str], wanted: Wanted, options: dict[str, object]
) -> list[Scored]:
    import asyncio

    from specplan.live.certifying.scoring import N_SCORINGS, opened, scored_answers

    async def run() -> list[Scored]:
        async with opened(url, target, draft, **options) as servers:
            total = wanted.answers * (N_SCORINGS + (draft is not None))
            with progress("drawing and scoring answers", total) as report:
                return await scored_answers(servers, texts, wanted, report)

    return asyncio.run(run())
