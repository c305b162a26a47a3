"""Acceptance that the user knows: each convention with its range, each value for its method."""

import json
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

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
    assert lookup.drafting == pytest.approx(250 / 730)
    assert two.drafting is None


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


test_what_is_no_acceptance_is_one_line = refused(
    lambda text: known_acceptances([text]),
    ("0.7", "must say of which method it is"),
    ("mtp=", "must be METHOD="),
    ("mtp=1.7", r"must be a rate per token in \[0, 1\]; tokens per round are written"),
    ("mtp=-0.1", "must be a rate per token"),
    ("mtp=nan", "must be a rate per token"),
    ("mtp=0.7@3", "must have @k with tokens per round"),
    ("mtp=0.5/round", r"must be in \[1, 4\]"),
    ("mtp=4.2/round", r"another k is said after @"),
    ("mtp=2/round@0", r"must have k in \[1, 64\]"),
    ("mpt=0.7", "did you mean 'mtp'"),
    ("suffix=0.7", "is not planned: its acceptance depends on"),
    ("mtp=no-such-file.prom", "there is no file 'no-such-file.prom'"),
    ("mtp=80%", "must be METHOD=0.85 .* and there is no file '80%'"),
    (f"mtp={'a' * 5000}", "there is no file 'a+ ... a+'"),
    error=SpecplanError,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server whose /metrics are those of `AFTER`."""
    (tmp_path / "metrics").write_text(AFTER, encoding="utf-8")
    pages = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), pages) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


def test_a_live_server_is_read_as_its_saved_page(server: str, tmp_path: Path) -> None:
    for address in (server, f"{server}/v1", f"{server}/metrics"):
        known = known_acceptances([f"mtp={address}"])["mtp"]
        assert known.per_position == pytest.approx((190 / 250, 80 / 190))
        assert f"{address}: counts by position of /metrics" in known.source
    (tmp_path / "before.prom").write_text(BEFORE, encoding="utf-8")
    between = known_acceptances([f"mtp={tmp_path / 'before.prom'},{server}"])["mtp"]
    assert between.per_position == pytest.approx((160 / 200, 60 / 160))
    assert sp.acceptance(server).curve.unconditional == pytest.approx((190 / 250, 80 / 250))


def bench(*rates: float, drafts: int = 100) -> dict[str, object]:
    """What vllm bench writes of a run."""
    known = {"spec_decode_per_position_acceptance_rates": list(rates)} if rates else {}
    return {"completed": 9, "total_output_tokens": 90, "spec_decode_num_drafts": drafts, **known}


STREAM = {
    "completed": 1, "total_output_tokens": 9, "input_lens": [4], "output_lens": [9], "ttfts": [0.1],
    "itls": [[0.02] * 4], "start_times": [1.0],
}  # fmt: skip
RECORD = {"metrics": {"speculative_decoding": {"acceptance_histogram": [2, 1, 1], "num_draft_tokens": 8}}}
GOLDEN = "m:\n  think:\n    1: 1.8\n    2: 2.4\n    3: 2.8\n    4: 3.25\n  plain: {1: 1.5, 2: 1.75}\n"


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "behind", "rates", "convention"),
    [
        ("bench.json", bench(0.8, 0.4), "", (0.8, 0.5), "rates by position of vllm bench"),
        ("sweep.json", [bench(0.8, 0.4), bench(0.4, 0.2, drafts=300)], "", (0.5, 0.5), "rates by position"),
        ("stream.json", STREAM, "@3", (0.543689,), "2 tokens per output of the streams of vllm bench at k = 3"),
        ("records.jsonl", RECORD, "", (0.5, 0.5), "from records of requests"),
        ("golden.yaml", GOLDEN, "#plain", (0.5, 0.5), "mean lengths with the bonus token, k by k"),
        ("golden.yaml", GOLDEN, "#m/think", (0.8, 0.745), "fitted within 0.0"),
        ("sglang.prom", "sglang:spec_accept_length 1.75\n", "@2", (0.5, 0.5), "mean length 1.75 with the bonus token"),
    ],
)
def test_each_tool_is_read_by_its_own_convention(
    tmp_path: Path, name: str, content: object, behind: str, rates: tuple[float, ...], convention: str
) -> None:
    known = known_acceptances([f"eagle3={written(tmp_path, name, content)}{behind}"])["eagle3"]
    assert known.first(len(rates)) == pytest.approx(rates, abs=0.01)
    assert convention in known.source
    assert f"of {name}" in known.source


@pytest.mark.parametrize(
    ("name", "content", "typed", "message"),
    [
        ("stream.json", STREAM, "mtp={}", r"k=None must be said \(--k 3, or FILE@3\)"),
        ("stream.json", {**STREAM, "itls": [[0.02] * 3]}, "mtp={}@1", r"must be in \[1, 2\]|k = 1"),
        ("bare.json", bench(), "mtp={}", "says neither what was accepted nor the outputs of streams"),
        (
            "sweep.json",
            [bench(0.8, 0.4), bench(0.8)],
            "mtp={}",
            "holds runs with k = 1, 2: give a file of the runs with",
        ),
        ("golden.yaml", GOLDEN, "mtp={}", "must name one of: m think, m plain.*said as FILE#MODE"),
        ("golden.yaml", GOLDEN, "mtp={}#no", "must name one of: m think, m plain"),
        ("golden.yaml", GOLDEN, "mtp={}#think@3", "must have no @k: a file of lengths names its own"),
        ("bare.json", bench(), "mtp={}#on", "names a row, which only files of lengths"),
        ("two.prom", AFTER + AFTER.replace('"m"', '"n"'), "mtp={}", "has metrics of several models"),
        ("plain.prom", "vllm:generation_tokens_total 5\n", "mtp={}", "no counts of speculative decoding"),
        ("after.prom", AFTER, "{}", "does not tell of which method it is: say mtp=FILE"),
        ("plan.json", {"schema": "specplan.plan"}, "mtp={}", r"schema: must be specplan\.acceptance"),
    ],
)
def test_sources_that_do_not_tell_acceptance_are_refused_in_one_line(
    tmp_path: Path, name: str, content: object, typed: str, message: str
) -> None:
    with pytest.raises(SpecplanError, match=message) as caught:
        known_acceptances([typed.format(written(tmp_path, name, content))])
    assert "\n" not in str(caught.value)


def test_a_method_is_given_once() -> None:
    with pytest.raises(ParameterError, match="must give mtp once"):
        known_acceptances(["mtp=0.7", "nextn=0.8"])
