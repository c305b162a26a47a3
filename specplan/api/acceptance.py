"""Token acceptance: read in one format, stated in every convention, written in another."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.token_vocabulary import engines_name
from calibrate.record.files import read_text
from calibrate.token_acceptance.curves import FIGURES, SCHEMA, AcceptanceCurve, curve_as_csv
from calibrate.token_acceptance.lengths import LengthTable
from calibrate.token_acceptance.measured import curve_of, dynamic_stats_of
from calibrate.token_acceptance.schedule import DynamicStats
from sim.catalogue import choice
from specplan.api.planning import profile
from specplan.output import SCREEN, percent, table, to_json
from specplan.readers.acceptance import RECORDS, is_address, read_acceptance
from specplan.readers.formats import is_benchmark
from specplan.show.result import Result
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.record.profile import Profile

__all__ = ["FORMS", "WRITABLE", "Acceptance", "acceptance"]

FORMS: Final = ("auto", "profile", "curve", "metrics", "benchmark", "vllm-dynamic", "vllm-requests", "lengths")
"""Formats that are read; ``auto`` recognises all but vllm-dynamic by the file's content."""
WRITABLE: Final = ("csv", "vllm-dynamic", "vllm-schedule", "lengths")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Acceptance(Result):
    """Acceptance per position of a draft, and where known what passes take."""

    curve: AcceptanceCurve
    method: str = ""
    """Whose acceptance it is, as engines call the method; empty: not said."""
    stats: DynamicStats | None = None
    """Seconds of passes by batch size and K; None where the source has none."""
    convention: str = ""
    """What the figures of its source are, in words; empty: a profile, or figures by position."""

    def headline(self) -> str:
        """Return how many tokens a draft brings, and with timings the best K."""
        curve = self.curve
        text = (
            f"Of a draft of {curve.k} tokens {curve.figure('length-without-bonus'):.2f} are accepted on average, so it "
            f"makes {curve.figure('length-with-bonus'):.2f} tokens with the target's own."
        )
        if self.stats is None:
            return text
        best = self.stats.schedule().ranges[0].k
        return f"{text} For one sequence at a time K = {best} makes the most tokens per second."

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each position: its rates, and the figures of drafts that end there."""
        conditional = self.curve.conditional()
        return [
            {
                **{"k": k, "unconditional": rate, "conditional": conditional[k - 1]},
                **{name.replace("-", "_"): self.curve.figure(name, k) for name in FIGURES},
            }
            for k, rate in enumerate(self.curve.unconditional, 1)
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan acceptance --json`` prints."""
        curve, every = self.curve, range(1, self.curve.k + 1)
        return {
            "schema": "specplan.acceptance",
            "schema_version": 1,
            "method": self.method or None,
            "source": self.convention or None,
            "unconditional": list(curve.unconditional),
            "conditional": list(curve.conditional()),
            **{name: [curve.figure(name, k) for k in every] for name in FIGURES},
            "hit_rate": curve.hit_rate,
            "tokens_per_pass": None if curve.hit_rate is None else [curve.tokens_per_pass(k) for k in every],
            "schedule": None if self.stats is None else self.stats.schedule().plain(),
        }

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan acceptance`` prints, with ``verbose`` what it prints with ``-v``."""
        heads = ["K", "unconditional", "conditional", "with bonus", "without", "accepted / drafted"]
        rows = [
            ["–" if cell is None else str(cell) if name == "k" else f"{cell:.4f}" for name, cell in row.items()]
            for row in self.records()
        ]
        curve = self.curve
        below = [f"read as {self.convention}"] if self.convention else []
        if curve.hit_rate is None:
            below += ["passes without a draft: not known, so tokens per pass are at most the length with bonus"]
        else:
            tokens = ", ".join(f"{curve.tokens_per_pass(k):.3f}" for k in range(1, curve.k + 1))
            below += [f"{percent(curve.hit_rate)} of the passes have a draft; tokens per pass at each K: {tokens}"]
        if self.stats is not None:
            ranges = ", ".join(f"{first}-{last}: {k}" for first, last, k in self.stats.schedule().ranges)
            below.append(f"best K by batch size: {ranges}")
        if verbose:
            meaning = (
                "per position: unconditional, the draft is accepted up to it; conditional, given that it was up to the "
                "one before. For drafts of K tokens, per draft: mean acceptance length with and without the bonus "
                "token, accepted over drafted tokens."
            )
            below = [meaning, *below]
        else:
            below = [textwrap.fill(line, SCREEN, subsequent_indent="  ") for line in [*below, "What they mean: -v."]]
        return "\n\n".join([textwrap.fill(self.headline(), SCREEN), table(heads, rows), "\n".join(below)])

    def written(self, form: str, *, model: str = "model", mode: str = "default", max_batch: int | None = None) -> str:
        """Return it in another format: csv, vllm-dynamic, vllm-schedule or lengths.

        Parameters
        ----------
        form : the format.
        model, mode : names in a file of lengths.
        max_batch : where a schedule ends; default the largest measured batch size.

        Raises
        ------
        ParameterError : no such format, or one that needs the time of passes where they are not known.
        """
        wanted = choice("to", form, WRITABLE)
        if wanted == "csv":
            return curve_as_csv(self.curve)
        if wanted == "lengths":
            lengths = {k: self.curve.figure("length-with-bonus", k) for k in range(1, self.curve.k + 1)}
            return LengthTable({(model, mode): lengths}).to_yaml()
        if self.stats is None:
            raise ParameterError("to", wanted, "needs the time of passes over several tokens, which the source lacks")
        if wanted == "vllm-schedule":
            return to_json({"num_speculative_tokens_per_batch_size": self.stats.schedule(max_batch).plain()})
        return to_json(self.stats.plain())


def acceptance(
    of: Profile | str | Path | Sequence[float] | Sequence[str | Path],
    *,
    form: str = "auto",
    model: str | None = None,
    mode: str | None = None,
    method: str | None = None,
    k: int | None = None,
) -> Acceptance:
    """Return token acceptance in every convention, as ``specplan acceptance`` does.

    >>> import specplan as sp
    >>> accepted = sp.acceptance([0.7, 0.4])  # of the first position, of both
    >>> [round(row["length_with_bonus"], 2) for row in accepted.records()]
    [1.7, 2.1]

    Parameters
    ----------
    of : a profile, its name or its file; a file of another format; two dumps of ``/metrics``, the earlier one first; or
        the share of drafts that are accepted up to each position (unconditional), not rising.
    form : format of a file: auto, profile, curve, metrics, vllm-dynamic, vllm-requests or lengths.
    model, mode : which row of a file of lengths.
    method : whose acceptance it is, as engines call it: mtp, eagle3, ngram, draft_model, ...
    k : tokens drafted per round, where metrics do not have it (SGLang).

    Raises
    ------
    ParameterError : no such format or method, or rates that no draft has.
    SchemaError : a file that cannot be read.
    """
    result = _read(of, form, model, mode, k)
    return result if method is None else replace(result, method=engines_name(method))


def _read(of: Any, form: str, model: str | None, mode: str | None, k: int | None) -> Acceptance:
    known = choice("form", form, FORMS)
    several = isinstance(of, Sequence) and not isinstance(of, str)
    if several and not all(isinstance(one, (str, Path)) for one in of):
        return Acceptance(curve=AcceptanceCurve.of(of, "unconditional"))
    sources = [str(one) for one in of] if several else [str(of)] if isinstance(of, (str, Path)) else []
    if len(sources) > 1 and known not in ("auto", "metrics"):
        raise ParameterError("sources", ", ".join(sources), f"must be one file of the format {known}")
    if known == "auto" and (not sources or (len(sources) == 1 and _is_profile(sources[0]))):
        known = "profile"
    if known == "profile":
        given = profile(sources[0]) if sources else of
        return Acceptance(curve=curve_of(given), stats=dynamic_stats_of(given))
    if known != "vllm-dynamic":
        read = read_acceptance(sources, k, form=known, model=model, mode=mode)
        return Acceptance(curve=read.curve, method=read.method, convention=read.convention)
    stats = DynamicStats.parse(read_text(Path(sources[0]), "a file of the format vllm-dynamic"), sources[0])
    return Acceptance(curve=stats.curve, stats=stats)


def _is_profile(source: str) -> bool:
    """Whether a source is a profile, by what is in it; a name that is neither a file nor an address is one."""
    if is_address(source) or source.lower().endswith((".yaml", ".yml")):
        return False
    if source != "-" and not Path(source).is_file():
        return True
    text = read_text(source, "a profile, a curve of acceptance or a dump of /metrics")
    other = f'"{SCHEMA}"' in text or RECORDS in text or is_benchmark(Path(source), "token acceptance")
    return text.lstrip().startswith("{") and not other
