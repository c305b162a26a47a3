"""Acceptance that the user knows: each convention with its range, each value for its method."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import specplan as sp
from calibrate.token_acceptance.curves import AcceptanceCurve
from specplan.output import to_json
from specplan.worlds.drafters.known_acceptance import known_acceptances
from theory.errors import ParameterError, SpecplanError

DUMP = """\
vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {drafted}
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {first}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} {second}
"""
BEFORE = DUMP.format(tokens=100, drafts=50, drafted=100, accepted=50, first=30, second=20)
AFTER = DUMP.format(tokens=1000, drafts=250, drafted=500, accepted=270, first=190, second=80)


@given(length=st.floats(1.0, 6.0), k=st.integers(1, 12))
def test_tokens_per_round_become_the_rate_that_makes_as_many(length: float, k: int) -> None:
    text = f"eagle3={length:.6f}/round@{k}"
    if length > k + 1.0 + 1e-6:
        with pytest.raises(ParameterError, match=rf"must be in \[1, {k + 1}\] tokens per round with k = {k}"):
            known_acceptances([text])
        return
    rates = known_acceptances([text])["eagle3"].first(k)
    assert AcceptanceCurve.of(rates, "conditional").figure("length-with-bonus") == pytest.approx(length, abs=2e-6)


def test_dumps_of_a_server_are_read_as_what_was_counted_between_them(tmp_path: Path) -> None:
    before, after = tmp_path / "before.prom", tmp_path / "after.prom"
    before.write_text(BEFORE, encoding="utf-8")
    after.write_text(AFTER, encoding="utf-8")
    one = known_acceptances([f"mtp={after}"])["mtp"]
    assert one.per_position == pytest.approx((190 / 250, 80 / 190))
    two = known_acceptances([f"mtp={before},{after}"])["mtp"]
    assert two.per_position == pytest.approx((160 / 200, 60 / 160))
    assert two.first(4) == two.per_position + two.per_position[-1:] * 2
    assert "measured, 2 positions of before.prom, after.prom" in two.source
    lookup = known_acceptances([f"ngram={after}"])["ngram"]  # 250 of 730 passes had a draft
    assert lookup.per_position == pytest.approx((190 / 730, 80 / 190))


@pytest.mark.parametrize("form", ["json", "csv"])
def test_what_the_command_writes_is_what_a_plan_reads(tmp_path: Path, form: str) -> None:
    (tmp_path / "after.prom").write_text(AFTER, encoding="utf-8")
    found = sp.acceptance(tmp_path / "after.prom", method="mtp")
    path = tmp_path / f"own.{form}"
    path.write_text(to_json(found.plain()) if form == "json" else found.written("csv"), encoding="utf-8")
    text = str(path) if form == "json" else f"mtp={path}"
    assert known_acceptances([text])["mtp"].per_position == pytest.approx((190 / 250, 80 / 190))
    assert sp.acceptance(path).curve.unconditional == pytest.approx(found.curve.unconditional)
    if form == "json":
        with pytest.raises(ParameterError, match="holds the acceptance of mtp, and is used for no other"):
            known_acceptances([f"eagle3={path}"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.7", "must say of which method it is"),
        ("mtp=", "must be METHOD="),
        ("mtp=1.7", r"must be a rate per token in \[0, 1\]; tokens per round are said so"),
        ("mtp=-0.1", "must be a rate per token"),
        ("mtp=nan", "must be a rate per token"),
        ("mtp=0.7@3", "must have @k with tokens per round"),
        ("mtp=0.5/round", r"must be in \[1, 4\]"),
        ("mtp=4.2/round", r"another k is said after @"),
        ("mtp=2/round@0", r"must have k in \[1, 64\]"),
        ("mpt=0.7", "did you mean 'mtp'"),
        ("suffix=0.7", "is not planned: its acceptance depends on"),
        ("mtp=no-such-file.prom", "No such file"),
    ],
)
def test_what_is_no_acceptance_is_one_line(text: str, message: str) -> None:
    with pytest.raises(SpecplanError, match=message) as caught:
        known_acceptances([text])
    assert "\n" not in str(caught.value)


def test_a_file_of_no_method_is_of_none(tmp_path: Path) -> None:
    path = tmp_path / "after.prom"
    path.write_text(AFTER, encoding="utf-8")
    with pytest.raises(ParameterError, match="does not tell of which method it is: say mtp=FILE"):
        known_acceptances([str(path)])
    path.write_text(json.dumps({"schema": "specplan.plan"}), encoding="utf-8")
    with pytest.raises(SpecplanError, match=r"schema: must be specplan\.acceptance"):
        known_acceptances([f"mtp={path}"])
    with pytest.raises(ParameterError, match="must give mtp once"):
        known_acceptances(["mtp=0.7", "nextn=0.8"])
