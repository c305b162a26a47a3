"""Measurement of token-level speculation on real engines: the passes of each answer, and their times.

An answer is one request, as users ask for it; the passes of its steps serve configurations that have the method below
steps. With prompt lookup the text is that of plain decoding, token for token
(see `calibrate.engines.torch.token_methods.protocol.OneHot`), so its passes at a smaller k2 could be derived from the
text; with a draft model they could not: the end of a pass depends on k2, and so does the distribution that a token is
drawn from. Every setting is therefore run. A pass's acceptance up to a position depends on the number of tokens drafted
after it only through the positions at which passes begin.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Final

from calibrate.engines.protocol import Generation, MeasuredEngine, Request
from calibrate.engines.speculation import Decoding, Speculation
from calibrate.engines.work import sums_by
from calibrate.measuring.answers import outside_seconds
from calibrate.measuring.engine_work import prefill_sums
from calibrate.record.engine_records import RequestSums
from calibrate.record.token_records import PassSample, PassSums, TokenAnswer, TokenRequest
from calibrate.running.problem import Problem
from calibrate.running.wall_clock import WallClock
from sim.algorithms import autoregressive
from sim.roles import TARGET

__all__ = ["TOKEN_SETTINGS", "measure_token_answer"]

TOKEN_SETTINGS: Final = (
    *(Decoding(method="prompt-lookup", knobs={"k2": k2, "max_ngram": 3}) for k2 in (2, 4, 8)),
    *(Decoding(method="draft-model", knobs={"k2": k2}) for k2 in (2, 3, 4, 6)),
    *(Decoding(method="eagle", knobs={"k2": k2}) for k2 in (4, 8)),
    Decoding(method="lookahead-decoding", knobs={"k2": 3, "window": 5, "ngram": 3, "guesses": 5}),
    Decoding(method="jacobi", knobs={"k2": 5, "window": 4}),
)
"""Default settings of a calibration."""
_WARM_UP: Final = Request(prompt="1 2 3", max_tokens=2)
"""Request that is not recorded: it starts engines that have to start for a method, as vLLM's do."""


async def measure_token_answer(clock: WallClock, problem: Problem, speculation: Speculation) -> TokenAnswer:
    """Answer a problem by one request to the target, which decodes with a token-level method."""
    engine: MeasuredEngine = clock.backend(TARGET)  # type: ignore[assignment]  # a model set's engines keep statistics
    await engine.generate(replace(_WARM_UP, speculation=speculation))
    await clock.fresh()
    await engine.stats(clear=True)
    root = await clock.root(problem.prompt)
    session = await clock.run(autoregressive(root), stream=problem.name, speculation={TARGET: speculation})
    statistics = await engine.stats(clear=True)
    generations = [operation.job for operation in session.operations if isinstance(operation.job, Generation)]
    outside = outside_seconds(session, clock).get(TARGET, [])
    rows = ((p.batch, p.rows // p.batch, 1, p.context, p.seconds, p.drafting_s) for p in statistics.passes)
    return TokenAnswer(
        problem=problem.name,
        requests=[
            TokenRequest(
                tokens=text.n_generated,
                passes=[PassSample(*each) for each in text.passes],
                steps=list(accumulate(step.n_tokens for step in session.committed)),
            )
            for text in generations
        ],
        decode=[PassSums(*row) for row in sums_by(2, rows)],
        prefill=prefill_sums(statistics.prefills),
        request=RequestSums(len(outside), sum(outside)),
    )
