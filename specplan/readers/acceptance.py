"""Token acceptance from whatever measured it; which kind a source is, its content says.

========================================  ==========================================  =============================
source                                    convention of its figures                   needs k
========================================  ==========================================  =============================
``/metrics`` of vLLM, TensorRT, llama.cpp by position, unconditional                  no
``/metrics`` of SGLang                    mean length with the bonus token            yes
``vllm bench serve`` with ``spec_decode`` by position, unconditional                  no
other benchmarks that stream              tokens per output after the first           yes: an output is a round
records of requests (vLLM)                histogram of accepted tokens                no
YAML of lengths (golden curves)           mean length with the bonus token, by k      no
``specplan acceptance``: JSON, CSV        by position, named in the file              no
========================================  ==========================================  =============================

``/metrics`` is a saved page or the address of a server; two pages cover the time between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calibrate.record.files import read_text
from calibrate.token_acceptance.curves import AcceptanceCurve, curve_in_text
from calibrate.token_acceptance.lengths import LengthTable
from calibrate.token_acceptance.metrics import curve_of_metrics
from calibrate.token_acceptance.requests import read_responses
from specplan.readers.formats import Benchmark, is_benchmark, read_benchmarks
from theory.errors import ParameterError

__all__ = ["RECORDS", "ReadAcceptance", "is_address", "read_acceptance"]

_WHAT: Final = "token acceptance"
_YAML: Final = (".yaml", ".yml")
RECORDS: Final = '"acceptance_histogram"'
"""What records of requests hold, and no other source does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAcceptance:
    """A curve, and how its source counts."""

    curve: AcceptanceCurve
    convention: str
    """What the source's figures are, in words."""
    method: str = ""
    """Method that drafts, as engines call it; empty: the source does not say."""
    counted: bool = False
    """Whether a server counted it by position."""


def is_address(source: str) -> bool:
    """Whether a source is the address of a server."""
    return source.startswith(("http://", "https://"))


def read_acceptance(
    sources: Sequence[str],
    k: int | None = None,
    *,
    form: str = "auto",
    model: str | None = None,
    mode: str | None = None,
) -> ReadAcceptance:
    """Read a curve of acceptance.

    Parameters
    ----------
    sources : a file or the address of a server; or two pages of ``/metrics`` of one server, the earlier one first.
    k : tokens drafted per round, where the source does not say.
    form : ``lengths`` or ``vllm-requests`` where the content is not to say what a file is.
    model, mode : row of a file of lengths that has several.

    Raises
    ------
    SchemaError : it cannot be read, or is none of these.
    ParameterError : impossible figures, or ``k`` missing or out of range.
    CalibrationError : a server that cannot be reached.
    """
    if len(sources) == 1 and not is_address(sources[0]):
        if form == "lengths" or (form == "auto" and sources[0].lower().endswith(_YAML)):
            return _lengths(sources[0], k, model, mode)
        if mode is None and model is None:
            return _file(sources[0], k, form)
    if model or mode:
        raise ParameterError("acceptance", f"#{mode or model}", "names a row, which only files of lengths (YAML) have")
    dumps = []
    for source in sources:
        if is_address(source):
            from calibrate.engines.http.metrics_page import metrics_page

            dumps.append((source, metrics_page(source)))
        else:
            dumps.append((source, read_text(source, _WHAT)))
    return _metrics(dumps, k)


def _file(source: str, k: int | None, form: str) -> ReadAcceptance:
    path = Path(source)
    if is_benchmark(path, _WHAT):
        return _benchmarks(read_benchmarks(path), source, k)
    text = read_text(path, _WHAT)
    if form == "vllm-requests" or RECORDS in text:
        curve = read_responses(text, source).curve()
        return ReadAcceptance(curve=curve, convention="accepted tokens of each round, from records of requests")
    known = curve_in_text(text, source)
    if known is None:
        return _metrics([(source, text)], k)
    curve, drafter = known
    return ReadAcceptance(curve=curve, convention="by position", method=drafter)


def _metrics(dumps: Sequence[tuple[str, str]], k: int | None) -> ReadAcceptance:
    curve = curve_of_metrics(dumps, k)
    if all("sglang:spec_accept_length" in text for _, text in dumps):
        length = curve.figure("length-with-bonus")
        return ReadAcceptance(curve=curve, convention=f"mean length {length:.3g} with the bonus token at k = {curve.k}")
    return ReadAcceptance(curve=curve, convention="counts by position of /metrics", counted=True)


def _lengths(source: str, k: int | None, model: str | None, mode: str | None) -> ReadAcceptance:
    if k is not None:
        raise ParameterError("acceptance", f"{source}@{k}", "must have no @k: a file of lengths names its own")
    curve, off = LengthTable.parse(read_text(source, "a file of lengths"), source).fit(model, mode)
    noise = f", fitted within {off:.2g} tokens" if off > 0.005 else ""
    return ReadAcceptance(curve=curve, convention=f"mean lengths with the bonus token, k by k{noise}")


def _benchmarks(runs: Sequence[Benchmark], source: str, k: int | None) -> ReadAcceptance:
    """By position where the tool read the server's metrics, else from the outputs of the streams."""
    speculating = [run for run in runs if run.k]
    depths = sorted({run.k for run in speculating})
    if len(depths) > 1:
        rule = f"holds runs with k = {', '.join(map(str, depths))}: give a file of the runs with one k"
        raise ParameterError("acceptance", source, rule)
    if speculating:
        drafts = sum(run.drafts for run in speculating)
        rates = [sum(run.accepted_at[j] * run.drafts for run in speculating) / drafts for j in range(depths[0])]
        curve = AcceptanceCurve.of(rates, "unconditional")
        return ReadAcceptance(curve=curve, convention=f"rates by position of {speculating[0].tool}")
    # One rate for all positions: each output after the first is a round of a server that streams round by round.
    streams = [request for run in runs for request in run.requests if request.rounds]
    if not streams:
        rule = "says neither what was accepted nor the outputs of streams (vllm bench: --save-detailed; else /metrics)"
        raise ParameterError("acceptance", source, rule)
    length = sum(one.answer_tokens - 1 for one in streams) / sum(one.rounds for one in streams)
    if k is None:
        rule = f"must be said (--k 3, or FILE@3): {source} has {length:.3g} tokens per output of its streams, and no k"
        raise ParameterError("k", None, rule)
    convention = f"{length:.3g} tokens per output of the streams of {runs[0].tool} at k = {k}, an output a round"
    return ReadAcceptance(curve=AcceptanceCurve.from_length(length, k), convention=convention)
