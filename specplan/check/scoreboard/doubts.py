"""Which measured rows are not to be trusted, by rules that look at measurements only, never at a prediction.

Which servers to look at, predictions had a say in: docs/scoreboard.md has the errors without the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median
from typing import Final

from specplan.check.scoreboard.rows import Loaded, Served, Speculated

__all__ = ["doubts_of_loaded", "doubts_of_speculated", "in_flight", "served_doubt", "server_of", "twins"]

_FULL: Final = 0.95  # of max_num_seqs: below, sequences wait for cache
_PROMPTS: Final = 0.35  # requests per answer token: above, more than a third of iterations read a prompt
_RUNNING: Final = 0.8  # of its time that a request decodes: below, it queues
_SLOWER: Final = 1.1  # than the same server with more requests
_FEW: Final = 8  # requests, of which prompts hardly slow each other's answers
_LONG: Final = 1000.0  # tokens of an answer, after which prompts hardly weigh
_FASTER: Final = 0.9  # of the time per token, with answers at least twice as long
_REACHED: Final = 0.6  # of a data sheet's rate: no server's prompts have been seen to reach it


def served_doubt(row: Served) -> str | None:
    """Known defects of the ML.ENERGY table."""
    if row.avg_batch < _FULL * row.max_num_seqs:
        return f"cache is full: fewer than {_FULL:.0%} of max_num_seqs run"
    if row.avg_batch / row.avg_output_len > _PROMPTS:
        return "prompts are read in the median iteration"
    if row.task == "gpqa" and row.gpu.upper().startswith("B200"):
        return "the host is the limit (gpqa on B200)"
    return None


def in_flight(row: Loaded) -> float:
    """Requests in flight over all copies of the attention.

    The table counts them per copy: a run that stands in it both ways has ``attention_dp_size`` times fewer.
    """
    return row.concurrency * row.attention_dp_size


def doubts_of_loaded(rows: Iterable[Loaded], rate: Callable[[Loaded], float | None]) -> dict[str, str]:
    """Return ``where`` of each row not to be trusted, with the reason.

    Parameters
    ----------
    rows : of any servers.
    rate : share of the data sheet's arithmetic that reading all tokens would have taken; None where it is not known.
    """
    rows = tuple(rows)
    doubts = {**_slower_than_busier(rows), **_faster_than_alike(rows)}
    steady = [row for row in rows if row.where not in doubts]
    hidden = "its tokens come faster in longer answers: it drafts, which the table does not say"
    unread = f"its server would need over {_REACHED:.0%} of the data sheet's rate"
    fast = {server_of(row) for row in steady if (rate(row) or 0.0) > _REACHED}
    for servers, reason in ((_hidden_drafts(steady), hidden), (fast, unread)):
        doubts |= {row.where: reason for row in rows if server_of(row) in servers and row.where not in doubts}
    return doubts


def _slower_than_busier(rows: Iterable[Loaded]) -> dict[str, str]:
    """Rows in which requests queue, or that are slower than the same server under more load."""
    reasons: dict[str, str] = {}
    series: dict[tuple[object, ...], list[Loaded]] = defaultdict(list)
    for row in rows:
        answer = row.osl * row.tpot_ms
        if answer / (answer + row.ttft_ms) < _RUNNING:
            reasons[row.where] = f"requests queue: they decode less than {_RUNNING:.0%} of their time"
        else:
            series[_deployment(row)].append(row)
    for alike in series.values():
        for row in alike:
            faster = min((o.tpot_ms for o in alike if in_flight(o) > in_flight(row)), default=row.tpot_ms)
            if row.tpot_ms > _SLOWER * faster:
                reasons[row.where] = f"over {_SLOWER - 1:.0%} slower than the same server with more requests"
    return reasons


def _faster_than_alike(rows: Iterable[Loaded]) -> dict[str, str]:
    """Rows that are faster than another one of the same server under the same load."""
    alike: dict[tuple[object, ...], list[Loaded]] = defaultdict(list)
    for row in rows:
        alike[*_deployment(row), in_flight(row)].append(row)
    return {
        row.where: f"over {_SLOWER - 1:.0%} faster than the same server under the same load: its settings differ"
        for group in alike.values()
        for row in group
        if _SLOWER * row.tpot_ms < max(other.tpot_ms for other in group)
    }


def _hidden_drafts(rows: Iterable[Loaded]) -> set[tuple[str, ...]]:
    """`server_of` rows that must have drafted, though the table does not say so.

    With longer answers contexts grow, so plain tokens take as long or longer, while drafts of a text that goes on
    and on are accepted more often.
    """
    times: dict[tuple[str, ...], dict[tuple[object, ...], dict[float, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in rows:
        if in_flight(row) <= _FEW and row.osl >= _LONG:
            alike = (_deployment(row)[9:], row.isl, in_flight(row))
            times[server_of(row)][alike][row.osl].append(row.tpot_ms)
    drafting = set()
    for server, alike_rows in times.items():
        ratios = [
            median(by_length[long]) / median(by_length[short])
            for by_length in alike_rows.values()
            for short in by_length
            for long in by_length
            if long >= 2.0 * short
        ]
        if ratios and median(ratios) < _FASTER:
            drafting.add(server)
    return drafting


def server_of(row: Loaded) -> tuple[str, ...]:
    """What rows of one server have in common, whatever its load and its GPUs."""
    return (row.model_path, row.system, row.precision, row.backend, row.backend_version)


def twins(rows: Iterable[Loaded]) -> dict[str, str]:
    """``where`` of rows that repeat a measurement -> ``where`` of the first."""
    first: dict[tuple[object, ...], str] = {}
    repeated: dict[str, str] = {}
    for row in rows:
        key = (row.model_path, row.system, row.backend, row.isl, row.osl, in_flight(row), row.tpot_ms, row.ttft_ms)
        if key in first:
            repeated[row.where] = first[key]
        else:
            first[key] = row.where
    return repeated


def doubts_of_speculated(rows: Iterable[Speculated]) -> dict[str, str]:
    """``where`` of the rows of targets whose plain decoding contradicts their rounds, with the reason.

    A round verifies several tokens of each sequence and drafts besides; it cannot take less time than a plain step.
    Where it does on most data sets, the plain decoding of that target was measured on another server.
    """
    rows = tuple(rows)
    shortest: dict[tuple[str, str], float] = defaultdict(lambda: float("inf"))
    for row in rows:
        key = (row.target, row.dataset)
        shortest[key] = min(shortest[key], row.accept_length / row.speedup)
    shorter: dict[str, list[bool]] = defaultdict(list)
    for (target, _), steps in shortest.items():
        shorter[target].append(steps < 1.0)
    return {
        row.where: "its rounds take less time than plain steps on most data sets: another server's baseline"
        for row in rows
        if sum(shorter[row.target]) > 0.5 * len(shorter[row.target])
    }


def _deployment(row: Loaded) -> tuple[object, ...]:
    return (
        row.model_path, row.system, row.backend, row.backend_version, row.precision, row.gemm_quant_mode,
        row.moe_quant_mode, row.isl, row.osl, row.tp_size, row.attention_dp_size, row.moe_tp_size, row.moe_ep_size,
    )  # fmt: skip
