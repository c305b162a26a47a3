"""`specplan.explain`: what the command prints is what it returns, from files or their text, in 80 columns."""

from pathlib import Path

import pytest
from planted_metrics import Planted, exposition
from refusals import refused
from screens import Main, check_printed, check_screen

import specplan as sp

DEEP = Planted(k=12, conditional=0.6, row_s=2e-5)
PLANTED = {
    "k too large": DEEP,
    "full cache": Planted(k=5, cache=3200),
    "slow draft": Planted(k=3, draft_s=0.01, conditional=0.8),
}


def pages(planted: Planted) -> list[str]:
    return [exposition(planted, n) for n in (24, 96)]


def plain(planted: Planted) -> str:
    return exposition(planted.with_k(0), 64)


def test_an_explanation_is_what_the_command_prints(tmp_path: Path, run_main: Main) -> None:
    names = [str(tmp_path / name) for name in ("a.prom", "b.prom", "base.prom")]
    for name, text in zip(names, (*pages(DEEP), plain(DEEP)), strict=True):
        Path(name).write_text(text)
    found = sp.explain(names[:2], baseline=names[2])
    check_printed(run_main, ("explain", *names[:2], "--baseline", names[2]), found)
    read = sp.explain(pages(DEEP), baseline=[plain(DEEP)])
    assert (read.records(), read.headline()) == (found.records(), found.headline())


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("sure", [True, False])
def test_a_first_screen_says_why_and_which_k_in_80_columns(name: str, *, sure: bool) -> None:
    planted = PLANTED[name]
    found = sp.explain(pages(planted), baseline=plain(planted) if sure else ())
    screen, first = "\n".join(check_screen(found, most=32)), found.headline()
    assert f"{found.explanation.depth.best.value:.0f}" in first
    causes = [row["cause"] for row in found.records()]
    assert (name in first) == (name in causes)
    assert not sure or causes[0] == name
    assert all(row["saves_low"] <= row["saves"] <= row["saves_high"] for row in found.records())
    assert screen.rstrip().endswith("-v.")


def test_a_well_set_server_has_no_cause() -> None:
    well = Planted(k=6)
    found = sp.explain(pages(well), baseline=plain(well))
    assert found.records() == []
    assert "No cause stands out" in found.text()


def test_a_baseline_is_one_reading_or_two(tmp_path: Path) -> None:
    names = [tmp_path / "first.prom", tmp_path / "second.prom"]
    for path, n in zip(names, (16, 64), strict=True):
        path.write_text(exposition(DEEP.with_k(0), n))
    two, one = (sp.explain(pages(DEEP), baseline=given).plain() for given in (",".join(map(str, names)), names[1]))
    assert two["costs_from"] == "baseline"
    assert two["round"] != one["round"]


SGLANG = "\n".join(line.replace("vllm:", "sglang:") for line in plain(DEEP).splitlines() if "iteration" not in line)
UNKNOWN_K = f"{SGLANG}\nsglang:spec_accept_length 2.5\n"

test_bad_arguments_are_refused = refused(
    lambda sources, options: sp.explain(sources, **options),
    ([], {}, "must be files in order of time"),
    (["http://here", "a.prom"], {}, "not both"),
    (pages(DEEP), {"method": "eagle"}, "method='eagle' needs a profile"),
    (pages(DEEP), {"draft": "a/b"}, "draft='a/b' needs target and gpu"),
    (pages(DEEP), {"target": "a/b"}, "gpu=None must be given too"),
    (pages(DEEP), {"baseline": "a,b,c"}, "must be a file, or two"),
    (pages(DEEP), {"baseline": [SGLANG]}, "must be metrics of vllm"),
    (UNKNOWN_K, {"baseline": [UNKNOWN_K], "k": 3}, "how many tokens are drafted"),
)
