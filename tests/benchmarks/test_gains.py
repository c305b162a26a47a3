"""Gains that others measured: what the speculating server admits."""

from typing import Any

import pytest

from benchmarks.gains import Server, predicted, servers


def _gain(at_once: int, **changed: Any) -> float:
    server = Server(
        target="Qwen/Qwen3-8B",
        gpu="H100",
        engine="sglang",
        method="eagle3",
        k=3,
        per_round=2.2,
        prompt=100,
        answer=200,
        cells={at_once: 1.0},
        source="none",
        **changed,
    )
    (cell,) = predicted(server, given=True)
    assert cell.low < cell.gain < cell.high
    return cell.gain


def test_answers_beyond_those_that_are_admitted_wait() -> None:
    assert _gain(64, admitted=48) < 0.95 * _gain(64)
    assert _gain(32, admitted=48) == pytest.approx(_gain(32))


def test_rows_are_told_apart() -> None:
    rows = [server.model_dump_json() for server in servers()]
    assert len(rows) == len(set(rows))
