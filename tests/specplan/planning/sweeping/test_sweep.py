"""Sweeps: the same table whatever cuts them, and wherever they run; and errors in one line."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim.answers.lengths import Fixed, Lognormal
from sim.fast.controls import controlled_mean, ideal_mean, mean_tokens
from specplan.planning.sweeping.backends import Backend
from specplan.planning.sweeping.evaluate import evaluated
from specplan.planning.sweeping.grid import Grid, read_grid
from specplan.planning.sweeping.picture import draw_heat, draw_regions, winners
from specplan.planning.sweeping.sweep import Row, read_rows, run_sweep, write_rows
from theory.errors import ParameterError, SchemaError
from theory.speedup import f_async, f_sync

TEXT = """
precision = 0.02
most_answers = 512
[fixed]
cv = 1.2
correlation = 0.6
judge = 0.1
steps = 30
[vary]
method = ["lr-async", "lr-sync", "spec-reason"]
k1 = [2, 4]
alpha1 = {from = 0.3, to = 0.9, points = 4}
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    path = tmp_path_factory.mktemp("grid") / "grid.toml"
    path.write_text(TEXT, encoding="utf-8")
    return read_grid(path)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("table") / "one.csv"


@pytest.fixture(scope="module")
def rows(grid: Grid, table: Path) -> list[Row]:
    """The grid, swept by one process into the table."""
    return run_sweep(grid, table)


def test_points_that_differ_in_a_knob_their_method_lacks_are_one(grid: Grid) -> None:
    assert [point.configuration.method for point in grid.points()].count("spec-reason") == 4
    assert len(grid.points()) == 2 * 2 * 4 + 4


def test_a_point_is_worth_the_same_alone(grid: Grid, table: Path, rows: list[Row], tmp_path: Path) -> None:
    """Seeds come from the point, not from the order."""
    points = grid.points()
    for i in (13, 2, 19):
        assert evaluated(points[i], grid, None) == rows[i]
    write_rows(rows, tmp_path / "out.parquet")
    written = read_rows(tmp_path / "out.parquet")
    assert written == [{**dict.fromkeys(written[0]), **row} for row in rows]
    assert list(table.parent.iterdir()) == [table], "no journal is left"


@pytest.mark.parametrize(
    ("backend", "client", "workers"),
    [
        ("joblib", "joblib", 2),
        pytest.param("dask", "distributed", 2, marks=pytest.mark.slow),
        pytest.param("ray", "ray", 1, marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore")]),  # Ray's own
    ],
)
def test_results_do_not_depend_on_where_points_run(
    grid: Grid, table: Path, rows: list[Row], tmp_path: Path, backend: Backend, client: str, workers: int
) -> None:
    module = pytest.importorskip(client)
    assert run_sweep(grid, tmp_path / "two.csv", backend=backend, workers=workers) == rows
    if backend == "dask":
        with module.LocalCluster(n_workers=1, dashboard_address=None, host="127.0.0.1") as running:
            there = running.scheduler_address
            assert run_sweep(grid, tmp_path / "two.csv", backend=backend, cluster=there) == rows
    assert table.read_bytes() == (tmp_path / "two.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(180)  # eleven processes of a few seconds each
def test_a_sweep_killed_ten_times_equals_one_that_ran_through(tmp_path: Path) -> None:
    """Five times soon after points were finished, and five times at any moment of the first 1.6 s."""
    told = tmp_path / "grid.toml"
    told.write_text(TEXT.replace("points = 4", "points = 400").replace("0.02", "0.004"), encoding="utf-8")
    whole = tmp_path / "whole.csv"
    n_points = len(run_sweep(read_grid(told), whole))
    cut, journal = tmp_path / "cut.csv", tmp_path / "cut.csv.part"
    command = [sys.executable, "-m", "specplan", "sweep", str(told), "-o", str(cut)]
    chance, finished = random.Random(5), []
    for i in range(10):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.getcwd()})
        before = journal.stat().st_size if journal.exists() else 0
        while i % 2 and process.poll() is None and not (journal.exists() and journal.stat().st_size > before):
            time.sleep(0.002)
        time.sleep(chance.random() * (0.05 if i % 2 else 1.6))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was through before it was killed: give it more points"
        finished.append(journal.read_bytes().count(b"\n") if journal.exists() else 0)  # but a line that was cut
    assert not cut.exists()
    assert finished == sorted(finished)  # what was finished has stayed
    assert len(set(finished)) >= 5
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert cut.read_bytes() == whole.read_bytes()
    assert n_points == 5 * 400


def test_a_profile_with_loads(tmp_path: Path) -> None:
    vary = {"k1": [2, 4], "concurrency": [1, 2], "alpha1": [0.4, 0.8]}
    told = {"profile": "lr-deepseek-gsm8k", "precision": 0.05, "vary": vary}
    rows = run_sweep(Grid.model_validate(told), tmp_path / "out.csv")
    by = {(row["k1"], row["concurrency"], row["alpha1"]): row["speedup"] for row in rows}
    assert len(by) == 8
    assert all(by[k1, n, 0.8] > by[k1, n, 0.4] for k1 in (2, 4) for n in (1, 2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("precision = 2\n[vary]\nk1 = [1]", "precision"),
        ("[vary]\nk1 = []", "needs at least one name"),
        ("[vary]\nk1 = {from = 3, to = 1}", "vary.k1"),
        ("[fixed]\nk1 = 1\n[vary]\nk1 = [1]", "both"),
        ("[vary", "not TOML"),
        ("colour = 1\n[vary]\nk1 = [1]", "colour"),
    ],
)
def test_files_of_another_form_are_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match=said) as refused:
        read_grid(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "vary", [{"colour": [1]}, {"method": ["none"]}, {"k1": [0]}, {"k1": ["x"]}, {"k1": [2], "concurrency": [2]}]
)
def test_names_and_values_that_nothing_takes_are_refused_before_the_work(vary: dict[str, list[int]]) -> None:
    with pytest.raises(ParameterError):
        Grid.model_validate({"vary": vary}).points()


def test_a_sweep_of_which_every_point_fails_is_a_failure_that_leaves_nothing(
    tmp_path: Path, run_main: Callable[..., tuple[int, str, str]]
) -> None:
    table, grid_file = tmp_path / "out.csv", tmp_path / "grid.toml"
    grid_file.write_text("[fixed]\nk2 = 3\ntoken = 'prompt-lookup'\n[vary]\nalpha1 = [0.5, 0.6]\n", encoding="utf-8")
    code, out, err = run_main("sweep", str(grid_file), "-o", str(table))
    assert (code, out) == (1, "")
    assert "none of 2 points has a speedup" in err
    assert "needs a profile" in err
    assert sorted(tmp_path.iterdir()) == [grid_file]
    grid_file.write_text("most_answers = 16\n[vary]\nc1 = [0.0, 0.1]\nalpha1 = [0.5]\n", encoding="utf-8")
    code, out, err = run_main("sweep", str(grid_file), "-o", str(table))
    assert code == 0, err
    assert "1 of 2 points have no speedup" in out


def test_pictures_of_a_table_that_is_one(rows: list[Row], tmp_path: Path) -> None:
    draw_heat(rows, tmp_path / "heat.png", "k1", "alpha1", "lr-async")
    draw_regions(rows, tmp_path / "regions.svg", "alpha1", "judge")
    assert (tmp_path / "heat.png").stat().st_size > 5000
    assert (tmp_path / "regions.svg").stat().st_size > 5000
    won = winners(rows, "alpha1", "judge")
    assert len(won) == 4
    assert won[0.9, 0.1] != "plain decoding"
    with pytest.raises(ParameterError, match="colour"):
        draw_heat(rows, tmp_path / "x.png", "colour", "alpha1")
    (tmp_path / "endless.csv").write_text("speedup\n" + "1" * 200_000 + "\n", encoding="utf-8")
    with pytest.raises(SchemaError, match="field larger than field limit"):
        read_rows(tmp_path / "endless.csv")


@pytest.mark.parametrize(("sync", "form"), [(False, f_async), (True, f_sync)])
def test_the_mean_of_the_ideal_time_tends_to_the_closed_form(sync: bool, form: object) -> None:
    """Of longer and longer answers: the gap shrinks as 1 / steps."""
    exact = float(form(0.7, 0.13, 4))  # type: ignore[operator]
    gaps = [exact * ideal_mean(0.7, 0.13, 4, n, sync=sync) / n - 1.0 for n in (200, 400, 800)]
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.01)
    assert gaps[1] / gaps[2] == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("limit", [100, None])
def test_mean_tokens_of_cut_and_rounded_lengths(limit: int | None) -> None:
    """Against a million draws, to five standard errors (false alarms: 6e-7)."""
    marginal = Lognormal(mean=40.0, cv=1.2)
    drawn = np.minimum(marginal.at(np.random.default_rng(1).standard_normal(1_000_000)), limit or np.inf)
    mean = mean_tokens(marginal, limit)
    assert mean is not None
    assert abs(drawn.mean() - mean) < 5.0 * drawn.std() / 1000.0
    assert mean_tokens(Fixed(7), None) == 7.0


def test_controls_shrink_the_error_and_keep_it_honest() -> None:
    """400 estimates: errors in units of what was reported have a spread of 1 within 4 standard errors of a spread."""
    rng, z = np.random.default_rng(7), []
    for _ in range(400):
        x = rng.standard_normal((200, 2))
        found = controlled_mean(3.0 + x @ [2.0, -1.0] + 0.5 * rng.standard_normal(200), x, np.zeros(2))
        assert found.variance_ratio > 5.0
        z.append((found.value - 3.0) / found.stderr)
    assert abs(np.mean(z)) < 4.0 / 20.0
    assert abs(np.std(z) - 1.0) < 4.0 / np.sqrt(800.0)


def test_a_controlled_speedup_agrees_with_the_plain_one(grid: Grid) -> None:
    """Both from other answers: within five of their errors in squares (false alarms: 6e-7 for each of six points)."""
    told = grid.model_dump(by_alias=True)
    chosen = [p for p in grid.points() if p.configuration.method != "spec-reason"][::3]
    fine = Grid.model_validate({**told, "precision": 0.002, "most_answers": 20_000, "seed": 11})
    plain = Grid.model_validate({**told, "precision": 0.01, "seed": 12})
    for point in chosen:
        a, b = (evaluated(point, one, None) for one in (fine, plain))
        assert abs(a["speedup"] - b["speedup"]) < 5.0 * np.hypot(a["stderr"], b["stderr"])


def test_where_nothing_varies_no_ratio_of_variances_is_told(grid: Grid) -> None:
    """Constant lengths and certain acceptance: what is left is rounding, and was once a ratio of 3e28."""
    told = grid.model_dump(by_alias=True)
    told["fixed"] = {**told["fixed"], "cv": 0.0}
    told["vary"] = {"method": ["lr-async", "lr-sync"], "k1": [2, 4], "alpha1": [1.0]}
    for point in Grid.model_validate(told).points():
        row = evaluated(point, grid, None)
        assert row["stderr"] <= 1e-9 * row["speedup"]
        assert row["variance_ratio"] is None or row["variance_ratio"] == 1.0
