"""Rules by which measured rows are not trusted; no prediction has a part in them."""

from typing import Any

import pytest
from public_tables import LOADED, SERVED, SPECULATED

from specplan.check.scoreboard.doubts import doubts_of_loaded, doubts_of_speculated, in_flight, served_doubt, twins
from specplan.check.scoreboard.rows import Loaded, Served, Speculated


def loaded(*rows: dict[str, Any]) -> list[Loaded]:
    return [
        Loaded.model_validate({**LOADED, "concurrency": 4, "tpot_ms": 5.0, **row, "where": f"l:{n}"})
        for n, row in enumerate(rows)
    ]


def slow(_: Loaded) -> float | None:
    return 0.1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, None),
        ({"avg_batch": 15}, "cache is full"),
        ({"avg_output_len": 40}, "prompts are read"),
        ({"task": "gpqa"}, "the host is the limit"),
        ({"task": "gpqa", "gpu": "H100"}, None),
    ],
)
def test_served_rows(changes: dict[str, Any], says: str | None) -> None:
    doubt = served_doubt(Served.model_validate({**SERVED, "where": "s:1", "gpu": "B200", **changes}))
    assert doubt is None if says is None else says in str(doubt)


def test_requests_that_queue_and_rows_slower_than_busier_ones() -> None:
    rows = loaded(
        {"concurrency": 4}, {"concurrency": 8, "tpot_ms": 9.0}, {"concurrency": 16, "tpot_ms": 7.0},
        {"concurrency": 512, "ttft_ms": 9000, "tpot_ms": 6.0},
    )  # fmt: skip
    found = doubts_of_loaded(rows, slow)
    assert set(found) == {"l:1", "l:3"}
    assert "slower than the same server with more requests" in found["l:1"]
    assert "queue" in found["l:3"]  # and it makes no other row look slow


def test_rows_faster_than_the_same_server_under_the_same_load() -> None:
    rows = loaded(
        {"tpot_ms": 9.0}, {"tpot_ms": 6.0}, {"tpot_ms": 8.5},
        {"tpot_ms": 6.0, "concurrency": 8}, {"tpot_ms": 5.0, "tp_size": 8},
    )  # fmt: skip
    found = doubts_of_loaded(rows, slow)
    assert set(found) == {"l:0", "l:1", "l:2"}
    assert "faster than the same server under the same load" in found["l:1"]
    assert all("slower than the same server with more" in found[where] for where in ("l:0", "l:2"))


def test_a_server_whose_longer_answers_are_faster_drafts() -> None:
    long = [{"concurrency": c, "osl": 8192, "tpot_ms": 4.2} for c in (4, 8)]
    short = [{"concurrency": c, "tpot_ms": 5.0} for c in (4, 8)]
    other = [{"backend_version": "0.19.0", "concurrency": c, "osl": o} for c in (4, 8) for o in (1024, 8192)]
    found = doubts_of_loaded(loaded(*long, *short, {"concurrency": 64, "tpot_ms": 20}, *other), slow)
    assert set(found) == {"l:0", "l:1", "l:2", "l:3", "l:4"}
    assert all("drafts" in reason for reason in found.values())


def test_a_server_that_cannot_have_read_its_prompts() -> None:
    rows = loaded({"concurrency": 4}, {"concurrency": 8}, {"backend_version": "0.19.0"})
    found = doubts_of_loaded(rows, lambda row: {"l:0": 0.3, "l:1": 0.7}.get(row.where))
    assert set(found) == {"l:0", "l:1"}


def test_a_run_that_stands_in_the_table_twice() -> None:
    rows = loaded(
        {"concurrency": 32, "tp_size": 1, "attention_dp_size": 8, "moe_tp_size": 1, "moe_ep_size": 8},
        {"concurrency": 4, "tp_size": 1, "attention_dp_size": 64, "moe_tp_size": 8, "moe_ep_size": 8},
        {"concurrency": 4},
    )
    assert [in_flight(row) for row in rows] == [256, 256, 4]
    assert twins(rows) == {"l:1": "l:0"}


def test_targets_whose_rounds_are_shorter_than_plain_steps() -> None:
    def rows(target: str, *steps: float) -> list[Speculated]:
        return [
            Speculated.model_validate(
                {**SPECULATED, "target": target, "dataset": f"d{n}", "speedup": 3.0 / one, "where": f"{target}:{n}"}
            )
            for n, one in enumerate(steps)
        ]

    found = doubts_of_speculated([*rows("sound", 1.3, 0.95, 1.2), *rows("odd", 0.9, 0.8, 1.4)])
    assert set(found) == {"odd:0", "odd:1", "odd:2"}
