"""The command line: exit codes, one-line errors, clean streams, JSON, files that are not overwritten."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from screens import Main, refusal, refused_words

from calibrate.record.library import bundled
from specplan.cli import COMMANDS, exit_code, main
from specplan.output import SCREEN
from theory.errors import CalibrationError, ParameterError, SchemaError, UnstableMeasurementError

PROFILE = "lr-deepseek-gsm8k"
FAST = ("--profile", PROFILE, "-n", "2")

# Help is cheap

HEAVY = ("numpy", "scipy", "sympy", "torch", "matplotlib", "pydantic", "simpy", "rich", "joblib", "transformers")


OF_PROFILES = (
    "calibrate.record.profile",
    "calibrate.replay.system",
    "calibrate.costs.fit",
    "specplan.readers.acceptance",
)


def loaded(lines: tuple[list[str], ...], names: tuple[str, ...]) -> str:
    """Which of some modules commands of one process have imported at its end."""
    code = (
        f"import sys\nfrom specplan.cli import main\nfor words in {lines!r}:\n"
        "    try:\n        main(words)\n    except SystemExit:\n        pass\n"
        f"print([name for name in {names!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.splitlines()[-1]


def test_help_imports_nothing_heavy() -> None:
    assert loaded((["--help"], ["--version"], ["profile", "--help"], ["plan", "--help"]), HEAVY) == "[]"


def test_a_plan_from_names_imports_nothing_of_profiles() -> None:
    arguments = ["plan", "--target", "Qwen/Qwen3-0.6B", "--answer-tokens", "200", "--methods", "ngram", "--no-curve"]
    assert loaded((arguments,), (*OF_PROFILES, "scipy", "rich", "joblib")) == "[]"


def cpu_seconds(command: list[str]) -> float:
    """Least CPU time of three runs: the one that others disturbed least."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, timeout=300, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(3))


def test_help_costs_little_more_than_python(console_script: list[str]) -> None:
    """The promise is 150 ms of CPU, about 40 ms measured; four times the start of Python where that is slow."""
    python = cpu_seconds([sys.executable, "-c", "pass"])
    assert cpu_seconds([*console_script, "--help"]) - python < max(0.150, 4.0 * python)


def test_help_lists_every_command_in_the_order_of_work_and_each_explains_itself(run_main: Main) -> None:
    code, out, err = run_main("--help")
    listed = [line.split()[0] for line in out.split("Commands:")[1].splitlines() if line.strip()]
    assert (code, err, listed) == (0, "", list(COMMANDS))
    for name in COMMANDS:
        code, out, err = run_main(name, "--help")
        assert (code, err, out.startswith(f"Usage: specplan {name}")) == (0, "", True)


# Good input


GOOD = {
    "specplan.plan": ("plan", *FAST, "--k1-max", "2"),
    "specplan.prediction": ("simulate", *FAST, "--k1", "2"),
    "specplan.profiles": ("profile", "list"),
    "specplan.profile-check": ("profile", "check", PROFILE),
    "specplan.methods": ("methods",),
    "specplan.method": ("methods", "lr-async"),
    "specplan.gaps": ("methods", "--gaps"),
    "specplan.theorems": ("theorems", "LR-B1"),
    "specplan.reproduction": ("reproduce", "specs"),
}
"""Schema of the JSON of a command to its words."""
WIDE = ("specplan.gaps", "specplan.theorems")
"""Tables for those who look for them, and formulas, which are not broken."""


@pytest.mark.parametrize("schema", GOOD)
def test_good_input_is_answered_on_stdout_only_in_80_columns_or_in_json_of_a_schema(
    run_main: Main, schema: str
) -> None:
    code, out, err = run_main(*GOOD[schema])
    assert (code, err) == (0, "")
    assert PROFILE in out or PROFILE not in GOOD[schema]
    assert max(map(len, out.splitlines())) <= SCREEN or schema in WIDE
    code, out, err = run_main(*GOOD[schema], "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert (data["schema"], data["schema_version"]) == (schema, 1)
    assert json.dumps(data) == json.dumps(data, sort_keys=True)


def test_a_profile_is_shown_and_its_schema_is_that_of_the_profiles(run_main: Main) -> None:
    code, out, err = run_main("profile", "show", PROFILE)
    assert (code, err) == (0, "")
    assert PROFILE in out
    assert max(map(len, out.splitlines())) <= SCREEN
    code, out, _ = run_main("profile", "schema")
    assert code == 0
    assert set(bundled(PROFILE).model_dump()) == set(json.loads(out)["properties"])


def test_a_timeline_is_written_for_perfetto(run_main: Main, tmp_path: Path) -> None:
    """As a picture it is drawn by `test_first_user`."""
    path = tmp_path / "timeline.json"
    code, _, err = run_main(*GOOD["specplan.prediction"], "--timeline", str(path))
    assert (code, err) == (0, "")
    assert {"X", "M", "i"} == {event["ph"] for event in json.loads(path.read_text())["traceEvents"]}


# Bad input


NAMED = ("--target", "Qwen/Qwen3-8B")

BAD = {
    "no file": (("plan", "-p", "missing.json"), "cannot be read as a profile: No such file"),
    "a folder": (("plan", "-p", "./"), "cannot be read as a profile: it is a folder"),
    "unknown profile": (("plan", "-p", "lr-deepseek-gsm"), "did you mean lr-deepseek-gsm8k"),
    "no profile": (("plan",), "give --profile (models that were measured) or --target"),
    "unknown command": (("plam",), "no command 'plam': did you mean 'plan'?"),
    "unknown option": (("plan", *FAST, "--K1-max", "2"), "No such option"),
    "unknown method": (("plan", *FAST, "--methods", "lr-asinc"), "did you mean 'lr-async'?"),
    "methods of nothing": (("plan", *FAST, "--methods", "prompt-lookup,,lr-sync"), "methods='' must be one of"),
    "no budget": (("plan", *FAST, "-M", "0"), "--max-parallel=0 must be an integer in [1, 4096]"),
    "k1 = 0": (("simulate", *FAST, "--k1", "0"), "--k1=0 must be an integer in [1, 1024]"),
    "one answer": (("simulate", "-p", PROFILE, "-n", "1"), "--answers=1 must be an integer in [2, 10000]"),
    "k2 of plain": (("simulate", *FAST, "--method", "autoregressive", "--k2", "3"), "k2=3 must be 1"),
    "timeline kind": (("simulate", *FAST, "--timeline", "x.bmp"), "must end in .png, .svg, .pdf or .json"),
    "until = nan": (("simulate", *FAST, "--timeline", "x.png", "--until", "nan"), "--until=nan must be a number in"),
    "output folder": (("plan", *FAST, "-o", "."), "is a folder; give the name of a file"),
    "output nowhere": (("plan", *FAST, "-o", "no/where.json"), "there is no folder 'no'"),
    "unknown latency": (("plan", *FAST, "--latency", "nope"), "--latency='nope' is neither a file nor"),
    "second of two": (("profile", "diff", PROFILE, "nope", "--all"), "SECOND='nope' is neither a file nor"),
    "both kinds": (("plan", *FAST, "--target", "Qwen/Qwen3-8B"), "give --profile or --target, not both"),
    "profile's option": (("plan", *NAMED, "--k2-max", "8"), "--k2-max needs --profile"),
    "target's option": (("plan", *FAST, "--gpus", "2"), "--gpus needs --target"),
    "unknown model": (("plan", "--target", "Qwen/Qwen3-9B"), "known models; did you mean "),
    "unmodelled": (("plan", "--target", "google/gemma-3n-E4B-it"), "is not modelled"),
    "folder without configuration": (("plan", "--target", "."), "--target='.' is a folder without config.json"),
    "unknown gpu": (("plan", *NAMED, "--gpu", "H1000"), "did you mean 'NVIDIA H100 SXM' (86 GB)?"),
    "too few gpus": (("plan", "--target", "meta-llama/Llama-3.3-70B-Instruct", "--gpus", "1"), "2 GPUs would do"),
    "no machines": (
        ("plan", "--target", "moonshotai/Kimi-K3", "--gpu", "L4"),
        "128 GPUs would do, where plans go up to 32",
    ),
    "odd split": (("plan", *NAMED, "--gpus", "4", "--tp", "3"), "--tp=3 must be one of 1, 2, 4, 8"),
    "two loads": (("plan", *NAMED, "--concurrency", "1", "--rate", "1"), "say one kind of load"),
    "no rate": (("plan", *NAMED, "--rate", "0"), "--rate='0' must be numbers in (0, 1e+06]"),
    "bursts of nothing": (("plan", *NAMED, "--burstiness", "2"), "needs --rate"),
    "no prompt": (("plan", *NAMED, "--context", "100", "--answer-tokens", "100"), "it holds prompt and answer"),
    "unknown task": (("plan", *NAMED, "--task", "gsm9k"), "did you mean 'gsm8k'?"),
    "format in capitals": (("plan", *NAMED, "--precision", "FP8"), "did you mean 'fp8'?"),
    "no table": (("plan", *NAMED, "--k", "[[1,8,4]"), "--k: not JSON"),
    "no trace": (("plan", *NAMED, "--trace", "missing.jsonl"), "missing.jsonl"),
    "nothing to check": (("profile", "check"), "Missing argument"),
}

test_bad_input_is_one_line_and_exit_code_2 = refused_words("", *BAD.values())


@pytest.mark.parametrize(
    ("arguments", "parameter", "said"),
    [
        (("plan", "-p", PROFILE, "--k1-max", "0"), "--k1-max", "[1, 64]"),
        (("plan", "--k9"), None, "--k9"),
        (("profile", "show", "none"), "profile", "specplan profile list"),
    ],
)
def test_with_json_an_error_is_one_object(
    run_main: Main, arguments: tuple[str, ...], parameter: str | None, said: str
) -> None:
    code, out, err = run_main(*arguments, "--json")
    told = json.loads(err)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (told["schema"], told["schema_version"], told["code"]) == ("specplan.error", 1, 2)
    assert told["parameter"] == parameter
    assert said in told["message"]


# Files


def test_existing_output_is_kept_and_refused_before_the_work(run_main: Main, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("mine", encoding="utf-8")
    code, _, err = run_main("plan", "-p", "no-such-profile", "-o", str(path))  # the file is looked at first
    assert code == 2
    assert "exists; use --force to overwrite it" in err
    assert path.read_text(encoding="utf-8") == "mine"


def test_force_overwrites(run_main: Main, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("mine", encoding="utf-8")
    code, out, err = run_main(*GOOD["specplan.plan"], "--json", "-o", str(path), "--force")
    assert (code, out, err) == (0, "", "")
    assert json.loads(path.read_text(encoding="utf-8"))["profile"] == PROFILE
    assert [item.name for item in tmp_path.iterdir()] == ["plan.json"], "no part of a file is left behind"


def test_unwritable_folder_is_refused_whoever_asks(
    run_main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so the system's answer is replaced."""
    monkeypatch.setattr("specplan.output.os.access", lambda path, mode: False)
    code, _, err = run_main("plan", *FAST, "-o", str(tmp_path / "x.json"))
    assert code == 2
    assert "is not writable" in err


# Failures


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ParameterError("k1", 0, "must be >= 1"), 2),
        (SchemaError("x: empty"), 2),
        (click.UsageError("no"), 2),
        (UnstableMeasurementError("noisy", spread=0.5), 3),
        (CalibrationError("engine died"), 1),
        (TimeoutError("took too long"), 124),
        (KeyboardInterrupt(), 130),
        (RuntimeError("bug"), 1),
    ],
)
def test_failures_have_their_exit_codes(
    run_main: Main, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("calibrate.record.library.names", fail)
    found, out, err = run_main("profile", "list")
    assert (found, out) == (code, "")
    assert err.strip().count("\n") == 0  # click ends the line that ^C was echoed on
    assert exit_code(error) == code
    if isinstance(error, RuntimeError):
        assert "internal error, RuntimeError: bug (SPECPLAN_DEBUG=1 shows where)" in err


def test_what_a_plain_installation_lacks_is_named_with_its_extra(
    run_main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    said = refusal(run_main, "calibrate", "torch", "-o", "out.json", code=1)
    assert said == "specplan: error: this needs tokenizers: pip install 'specplan[torch]'\n"


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECPLAN_DEBUG", "1")
    with pytest.raises(ParameterError, match="none"):
        main(["plan", "-p", "none"])


def test_a_terminal_that_is_closed_ends_it_as_ctrl_c_does(run_main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Callable[..., object]] = {}
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_DFL)
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    run_main("--version")
    assert set(handlers) == {signal.SIGTERM, signal.SIGHUP}
    (handler,) = set(handlers.values())
    with pytest.raises(KeyboardInterrupt):
        handler(signal.SIGHUP, None)


def test_no_arguments_is_help_and_exit_code_2(run_main: Main) -> None:
    code, out, err = run_main()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: specplan ")


def test_broken_pipe_is_quiet(console_script: list[str]) -> None:
    process = subprocess.Popen(
        [*console_script, "profile", "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=300) in (0, 1)
