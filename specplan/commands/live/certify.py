"""``specplan certify``: does a server that speculates draw from the target's distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.output import progress, screen, table
from specplan.ranges import SECONDS, SEED, SHARE, WholeNumber
from specplan.show.saving import Printed, result_options

if TYPE_CHECKING:
    from specplan.live.certifying.cells import Scored
    from specplan.live.certifying.certificate import Certificate
    from specplan.live.certifying.scoring import Wanted

__all__ = ["certificate_as_json", "certificate_as_text", "command"]


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
@click.option("--tokens", type=WholeNumber(1, 1_000_000), default=2000, help="Tokens to draw.")
@click.option("--answer-tokens", type=WholeNumber(2, 100_000), default=128, help="Tokens of an answer.")
@click.option(
    "--top",
    type=WholeNumber(1, 10_000),
    default=20,
    help="Likeliest tokens to read at each position; all others count as one. vLLM: at most --max-logprobs.",
)
@click.option("--concurrency", type=WholeNumber(1, 1024), default=4, help="Requests in flight at once.")
@click.option(
    "--false-alarm",
    type=SHARE,
    default=0.05,
    help="Probability of ever naming a defect of a lossless server; limits hold with 1 minus it.",
)
@click.option("--seed", type=SEED, help="Seed of the first answer's request. Default: none is sent.")
@click.option("--api-key-env", default="", show_default=False, help="Environment variable with the servers' API key.")
@click.option("--timeout", type=SECONDS, default=120.0, help="Longest silence of a server, s.")
@result_options(verbose=False)
def command(
    url: str,
    draft: str | None,
    target: str | None,
    prompts: Path | None,
    false_alarm: float,
    api_key_env: str,
    timeout: float,
    **amounts: Any,
) -> Printed:
    """Test whether a server that speculates draws from the target's distribution, by betting on defects.

    It draws answers at temperature 1 and reads the probabilities of target and draft at each token (vLLM's
    prompt_logprobs). It names the defect that the tokens speak for, or says how much any defect may change.

    Exits 1 if a defect is named.
    """
    from calibrate.models.asking import bundled_problems
    from calibrate.running.problem import read_prompts
    from specplan.live.certifying.cells import drawn_from, noise_between
    from specplan.live.certifying.certificate import certificate
    from specplan.live.certifying.scoring import Wanted

    wanted = Wanted(**amounts)
    most = max(wanted.answers, 2)
    problems = bundled_problems(most, 0, "validation") if prompts is None else read_prompts(prompts, most)
    texts = [problem.prompt for problem in problems]
    scored = _scored(url, target, draft, texts, wanted, {"api_key_env": api_key_env, "timeout_s": timeout})
    drawn = drawn_from(scored)
    result = certificate(drawn, noise=noise_between(scored), false_alarm=false_alarm)
    notes = [f"- {len(scored)} answers; tokens beyond the {wanted.top} likeliest count as one."]
    if draft is None:
        also = " One of them may be the cause." if result.named else ""
        notes.append(f"- Without --draft, defects that involve the draft's probabilities are not examined.{also}")
    elif not drawn.shows_passes:
        notes.append("- The streams do not show passes: a bonus from the draft counts as one of the draft's tokens.")
    return certificate_as_text(result, notes), certificate_as_json(result, notes), int(bool(result.named))


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


def certificate_as_text(certificate: Certificate, notes: Sequence[str] = ()) -> str:
    """Return the certificate in 80 columns; ``notes`` say how it was measured."""
    level = f"{100.0 * (1.0 - certificate.false_alarm):g} %"
    drawn = f"{certificate.n_tokens:,} tokens"
    ranked = sorted(certificate.examined, key=lambda one: -one.log_evidence)
    head = ["defect", "evidence", f"affected at most ({level})", "changed at most"]
    rows = [
        [
            one.defect.name,
            _money(one.log_evidence),
            "all (not excluded)" if one.limit >= 1.0 else f"{100.0 * one.limit:.2g} %",
            f"{100.0 * one.changed:.2g} %",
        ]
        for one in ranked
    ]
    verdict = (
        f"No defect detected in {drawn}. With {level} confidence no defect of the list changes more than "
        f"{100.0 * certificate.changed:.2g} % of the tokens."
    )
    if named := certificate.named:
        head, rows = head[:2], [row[:2] for row in rows]  # limits compare with a lossless server, which this is not
        verdict = (
            f"Not lossless: {' or '.join(defect.name for defect in named)}. It seems that {named[0].says}. Evidence "
            f"after {drawn}: {_money(ranked[0].log_evidence)} to 1 for this defect; the alarm, at "
            f"{1.0 / certificate.false_alarm:.3g} to 1 for all of them together, came after "
            f"{certificate.alarm_at:,} tokens."
        )
    remarks = [
        f"- The probability of naming any defect of a lossless server is at most {100 * certificate.false_alarm:g} %, "
        "however long one looks.",
        f"- The target's probabilities differ between batches by up to {100 * certificate.noise:.2g} %: servers whose "
        "laws are that near to them count as lossless.",
    ]
    if (acceptance := certificate.acceptance) is not None:
        sampled, greedy = (f"{sum(ends) / 2.0:.2f}" for ends in (acceptance.sampled, acceptance.greedy))
        other = " The server drafts with another model or accepts by another rule: bets with this draft see less."
        remarks.append(
            f"- Accepted: {acceptance.seen:.2f} of {acceptance.n:,} judged drafts; by this draft {sampled} if it "
            f"samples, {greedy} if it drafts greedily.{other if acceptance.contradicts else ''}"
        )
    return screen(verdict, table(head, rows), [*remarks, *notes])


def certificate_as_json(certificate: Certificate, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the certificate as plain data."""
    named, acceptance = certificate.named, certificate.acceptance
    return {
        "schema": "specplan.certificate",
        "schema_version": 1,
        "named": [defect.name for defect in named],
        "tokens": certificate.n_tokens,
        "alarm_at": certificate.alarm_at,
        "false_alarm": certificate.false_alarm,
        "log_evidence": certificate.log_evidence,
        "changed_at_most": certificate.changed,
        "noise": certificate.noise,
        "acceptance": None if acceptance is None else {**asdict(acceptance), "contradicts": acceptance.contradicts},
        "defects": [
            {
                "name": one.defect.name,
                "says": one.defect.says,
                "log_evidence": one.log_evidence,
                "affected_at_most": one.limit,
                "changed_at_most": one.changed,
            }
            for one in certificate.examined
        ],
        "notes": list(notes),
    }


def _money(log_evidence: float) -> str:
    """The money as a number.

    >>> _money(0.0), _money(8.0), _money(1000.0)
    ('1', '3e+03', '1e+434')
    """
    if log_evidence > 700.0:
        return f"1e+{log_evidence / math.log(10.0):.0f}"
    return f"{math.exp(log_evidence):{'.2g' if log_evidence < math.log(99.0) else '.0e'}}"
