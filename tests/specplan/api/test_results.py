"""Results of the Python API: what they print, what the commands print of them, and their examples."""

import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from refusals import refused
from screens import Main, check_printed

import specplan as sp
from sim.catalogue import methods
from specplan.output import SCREEN
from specplan.show.plans import ProfilePlan
from specplan.show.result import Result, flat
from theory.errors import ParameterError, SchemaError


@pytest.fixture(scope="module")
def plan() -> ProfilePlan:
    return sp.plan("lr-qwen3-gsm8k", methods=["lr-async", "prompt-lookup"], k1_max=2, n_answers=4, concurrency=2)


def test_a_plan_is_what_the_command_prints(plan: ProfilePlan, run_main: Main) -> None:
    words = ("plan", "-p", "lr-qwen3-gsm8k", "--methods", "lr-async,prompt-lookup", "--k1-max", "2", "-n", "4")
    check_printed(run_main, (*words, "--concurrency", "2"), plan)
    assert repr(plan) == plan.text()
    records = plan.records()
    methods = [row.prediction.configuration.method for row in plan.ranking.rows]
    assert [r["method"] for r in records if "answers_at_once" not in r] == methods
    assert {r["answers_at_once"] for r in records if "answers_at_once" in r} == {2}


def test_a_simulation_is_what_the_command_prints(run_main: Main) -> None:
    found = sp.simulate("lr-qwen3-gsm8k", "lr-async k1=2 + prompt-lookup k2=3", n_answers=2)
    words = ("simulate", "-p", "lr-qwen3-gsm8k", "--set", "k1=2", "--token", "prompt-lookup", "--token-set", "k2=3")
    check_printed(run_main, (*words, "-n", "2"), found)
    (record,) = found.records()
    assert record["speedup_low"] < record["speedup"] < record["speedup_high"]
    assert found.timeline(1).commits
    with pytest.raises(ParameterError, match="answer=2 must be below 2"):
        found.timeline(2)


def test_a_plan_of_models_is_what_the_command_prints(run_main: Main) -> None:
    words = ("plan", "--target", "Qwen/Qwen3-32B", "--draft", "Qwen/Qwen3-1.7B", "--gpus", "2", "--context", "1000")
    words += ("--answer-tokens", "500", "--methods", "draft-model", "--concurrency", "8")
    found = sp.plan_models(
        "Qwen/Qwen3-32B",
        draft="Qwen/Qwen3-1.7B",
        gpus=2,
        context=1000,
        answer_tokens=500,
        methods=["draft-model"],
        concurrency=8,
    )
    assert run_main(*words)[1].rstrip("\n") == found.text()
    assert {record["load"] for record in found.records()} == {found.plain()["loads"][0]["load"]}
    with pytest.raises(ParameterError, match="drafts='x' is no option of a deployment"):
        sp.plan_models("Qwen/Qwen3-32B", drafts="x")
    with pytest.raises(ParameterError, match="target='Qwen/Qwen3-32B' is for plan_models"):
        sp.plan(target="Qwen/Qwen3-32B")


@pytest.mark.parametrize(
    ("engine", "concurrency", "starts"),
    [("sglang", 1, "sglang.launch_server"), ("sglang", 64, "vllm serve"), ("sglang:0.5.11", 64, "vllm serve")],
)
def test_a_first_screen_says_which_vllm_it_takes_where_the_commands_start_vllm(
    engine: str, concurrency: int, starts: str
) -> None:
    """SGLang has no DSpark with copies of attention, which are the best for many answers."""
    found = sp.plan_models(
        "deepseek-ai/DeepSeek-V3",
        gpu="H200",
        gpus=8,
        engine=engine,
        block="dspark",
        methods=["dspark"],
        k=5,
        answer_tokens=400,
        context=800,
        concurrency=concurrency,
    )
    assert starts in found.plain()["loads"][0]["settings"]["commands"][0]
    assert ("To run it: dspark needs vLLM 0.25 or later." in found.text()) == (starts == "vllm serve")


def test_frames_have_the_records(plan: ProfilePlan) -> None:
    pandas = pytest.importorskip("pandas")
    frame = plan.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["speedup"].tolist() == [record["speedup"] for record in plan.records()]


def test_without_pandas_a_frame_is_refused_with_the_remedy(plan: ProfilePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ParameterError, match="not installed: pip install pandas"):
        plan.to_frame()


class _Hostile(Result):
    def text(self, *, verbose: bool = False) -> str:
        return "<script>alert(1)</script>"

    def plain(self) -> dict[str, object]:
        return {}

    def records(self) -> list[dict[str, object]]:
        return [{"<b>": "<img src=x>", "empty": None, "nan": float("nan"), "x": 0.12345}, {"x": 2}]


def test_notebooks_show_a_table_and_escape_what_is_hostile(plan: ProfilePlan) -> None:
    tags = re.findall(r"<(\w+)", _Hostile()._repr_html_())
    assert set(tags) == {"table", "thead", "tr", "th", "tbody", "td", "details", "summary", "pre"}
    assert tags.count("td") == 2 * 4
    shown = plan._repr_html_()
    assert shown.count("<tr>") == 1 + len(plan.records())
    assert "lr-async" in shown


def test_estimates_become_three_fields(plan: ProfilePlan) -> None:
    own = {"a": plan.speedup.value, "a_low": plan.speedup.low, "a_high": plan.speedup.high}
    assert flat({"a": plan.speedup, "b": 1, "d": {"e": 1}, "f": None}) == {**own, "b": 1, "d": {"e": 1}, "f": None}
    assert flat({"c": {"value": 1, "low": 0, "high": 2}}) == {"c": 1, "c_low": 0, "c_high": 2}


def test_the_import_is_light_and_names_are_found() -> None:
    code = "import sys, specplan; print([m for m in ('numpy', 'click', 'pydantic', 'simpy') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
    assert set(sp.__all__) <= set(dir(sp))
    assert all(getattr(sp, name).__doc__ for name in sp.__all__ if name != "__version__")
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        sp.plans  # noqa: B018


test_bad_arguments_are_refused = refused(
    lambda call: call(),
    (lambda: sp.plan("nobody"), "profile='nobody'"),
    (lambda: sp.plan("lr-qwen3-gsm8k", methods=["nothing"]), "methods='nothing'"),
    (lambda: sp.plan("lr-qwen3-gsm8k", concurrency=0, methods=["prompt-lookup"]), "concurrency"),
    (lambda: sp.plan("lr-qwen3-gsm8k", k1_max=0), "k1_max"),
    (lambda: sp.simulate("lr-qwen3-gsm8k", "lr-async k1=x"), "k1"),
    (lambda: sp.simulate("lr-qwen3-gsm8k", "lr-async", n_answers=0), "n_answers"),
)


test_arguments_of_plans_from_names_are_checked_as_options_are = refused(
    lambda options: sp.plan_models(**{"target": "Qwen/Qwen3-8B", **options}),
    ({"target": None}, "target=None must name a model"),
    ({"gpus": float("nan")}, "--gpus"),
    ({"gpus": float("inf")}, "--gpus"),
    ({"context": "8k"}, "--context"),
    ({"context": [8]}, "--context"),
    ({"concurrency": "many"}, "--concurrency"),
    ({"alpha1": object()}, "--alpha1"),
    ({"acceptance": {"mtp": 1.5}}, "acceptance='mtp=1.5' must be a rate per token"),
    ({"acceptance": "mtp"}, "there is no file"),
    ({"alpha2": 0.7}, "is no option of a deployment"),
    error=(ParameterError, SchemaError),
)


def test_every_method_of_the_catalogue_is_listed_and_described() -> None:
    found = sp.methods()
    assert max(map(len, found.text().splitlines())) <= SCREEN
    assert [one["name"] for one in found.plain()["methods"]] == list(methods())
    for name, one in methods().items():
        assert name in found.text()
        assert one.paper in found.text(verbose=True)
        described = sp.methods(name).text()
        assert max(map(len, described.splitlines())) <= SCREEN
        assert one.paper in " ".join(described.split())
        assert all(knob.name in described for knob in one.knobs)
    with pytest.raises(ParameterError, match="did you mean 'lr-async'"):
        sp.methods("lr-asink")


@pytest.mark.parametrize("words", [(), ("lr-async",), ("--gaps",)])
def test_methods_are_what_the_command_prints(run_main: Main, words: tuple[str, ...]) -> None:
    found = sp.gaps() if words == ("--gaps",) else sp.methods(*words)
    check_printed(run_main, ("methods", *words), found)
    assert found.records()


ROOT = Path(__file__).parents[3]
NAMES = [name for name in sp.__all__ if name != "__version__"]


def examples(name: str) -> doctest.DocTest:
    (found,) = doctest.DocTestFinder(recurse=False).find(getattr(sp, name), name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_with_a_result(name: str, pytestconfig: pytest.Config) -> None:
    told = examples(name).examples
    assert getattr(sp, name).__module__.split(".")[0] in pytestconfig.getini("testpaths"), "no doctest runs it"
    prefix = "" if getattr(sp, name).__module__.startswith("theory.") else "sp."  # closed forms have their own package
    assert any(f"{prefix}{name}(" in one.source for one in told)
    assert any(one.want for one in told)


def test_the_reference_has_every_name() -> None:
    text = (ROOT / "docs" / "reference" / "python-api.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`sp.{name}`" not in text] == []
    for result in set(re.findall(r"`(specplan\.api\.\w+\.\w+)`", text)):
        module, _, kind = result.rpartition(".")
        assert issubclass(getattr(import_module(module), kind), Result)
        assert f"autoclass:: {result}\n" in text
