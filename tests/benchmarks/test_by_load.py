"""Planned gains by load beside closed loops of servers with planted passes, over real sockets in virtual time.

Calibration, plan and runs are those of the commands; `tests/specplan/planning/test_by_load.py` has more laws, without
the engines of the wire.
"""

from collections import Counter
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

import pytest
import virtual_time

import specplan as sp
from benchmarks.by_load import (
    ANSWERS,
    DRAFTED,
    LR,
    SPECULATIVE,
    Row,
    as_table,
    calibrated,
    compared,
    planted,
    questions,
    virtually,
)
from calibrate.record.profile import Profile
from sim.configuration import Configuration
from specplan.check.validating.under_load import LoadValidation, validate_under_load

BARS = {1: 0.05, 4: 0.05, 16: 0.05, 32: 0.05, 64: 0.15}
"""Largest error of a draft model's gain, [-]; 64 answers at once were not timed."""
LR_BARS = {1: 0.07, 4: 0.07}


@pytest.mark.slow
def test_planned_gains_are_those_of_servers_on_the_wire() -> None:
    rows = virtually()
    told = as_table(rows)
    assert {(row.method, row.at_once) for row in rows} == {
        *(("draft-model", load) for load in BARS),
        *((LR, load) for load in LR_BARS),
    }
    for row in rows:
        assert abs(row.error) <= (LR_BARS if row.method == LR else BARS)[row.at_once], told
        assert (row.planned.value > 1.0) == (row.measured > 1.0), told


@pytest.mark.slow
def test_servers_that_share_a_processor_are_planned_by_what_clients_met(tmp_path: Path) -> None:
    """Target and draft on one: with four clients both work at the same time more often than with one."""

    async def found() -> tuple[Profile, list[Row]]:
        async with planted(processor=Counter()) as models:
            profile = await calibrated(models, tmp_path)
            return profile, await compared(profile, models, questions(ANSWERS, first=1000), (1, 4))

    profile, rows = virtual_time.run_virtually(found())
    by_load = {row.at_once: row for row in rows if row.method == LR}
    for at_once, row in by_load.items():
        assert abs(row.error) <= LR_BARS[at_once], as_table(rows)
    unmeasured = {name: one.model_copy(update={"clients_in_use": []}) for name, one in profile.engines.items()}
    older = sp.plan(profile.model_copy(update={"engines": unmeasured}), methods=[LR], concurrency=[4]).loads
    assert older is not None
    gain = next(row.gain for row in older.loads[0][1] if row.option.configuration.method == LR)
    assert gain.value / by_load[4].measured - 1.0 > max(0.05, 1.5 * abs(by_load[4].error))


def imposing(k2: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A planted server that accepts by position at random, and the configuration by which vLLM does."""
    accepted = DRAFTED["accepted"][: k2 - 1]
    imposed = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": list(accumulate(accepted, mul))}
    config = {**SPECULATIVE, "num_speculative_tokens": k2 - 1, **imposed}
    return {**DRAFTED, "k2": k2, "accepted": accepted}, config


async def validated(folder: Path, *imposed: int) -> LoadValidation:
    """Calibrate planted servers, and validate a draft model on other questions; ``imposed``: at these k2, imposed."""
    async with planted([imposing(k2) for k2 in imposed]) as models:
        profile = await calibrated(models, folder, texts=40)
        drafting = [Configuration(method="draft-model", knobs={"k2": k2}) for k2 in imposed or (4,)]
        return await validate_under_load(profile, drafting, models, questions(64, first=1000), (1, 4), n_rounds=4)


@pytest.mark.slow
def test_imposed_acceptance_is_validated_at_any_k_and_load(tmp_path: Path) -> None:
    """Two servers of k2 = 2 and 4: with as many tokens a pass as was said, the seconds of a token are as predicted."""
    found = virtual_time.run_virtually(validated(tmp_path, 2, 4))
    drafting = [row for row in found.rows if row.name != "autoregressive"]
    assert [(row.clients, row.name) for row in drafting] == [
        (load, f"draft-model k2={k2}") for load in (1, 4) for k2 in (2, 4)
    ]
    for row in drafting:
        for name in ("tokens_per_s", "token_s"):
            assert row.predicted[name].value == pytest.approx(row.measured[name].value, rel=0.05), (row.name, name)


@pytest.mark.slow
def test_servers_under_load_are_as_fast_as_their_profile_says(tmp_path: Path) -> None:
    """What is predicted of rounds is measured, and the passes over drafts take what the profile says at each load."""
    found = virtual_time.run_virtually(validated(tmp_path))
    for load, engines in found.slowdown.items():
        assert engines["target"] == pytest.approx(1.0, abs=0.06), load
    for row in found.rows:
        for name in ("gain", "tokens_per_s", "token_s"):
            assert row.measured[name].value == pytest.approx(row.predicted[name].value, rel=0.07), (row.name, name)
    for row in found.rows:
        if row.at_pace is not None and row.name != "autoregressive":
            assert row.at_pace == pytest.approx(row.measured["gain"].value, rel=0.07)
