"""Which operators serve, what is noted about it, and laws of the package's tables where it is installed."""

import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from itertools import pairwise

import pytest

from specplan.worlds import measured_operators as measured
from specplan.worlds.measured_operators import with_operators
from specplan.worlds.model_files import draft_head, shape_of
from theory.errors import ParameterError
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named
from theory.hardware.half_widths import ITERATION, half_width
from theory.hardware.passes import PassModel
from theory.hardware.rounds import head_round
from theory.hardware.work import Parallel, Work


def installed(test: Callable[..., None]) -> Callable[..., None]:
    """Reading an engine's tables takes 2 to 3 s of a silent core."""
    absent = importlib.util.find_spec("aiconfigurator_core") is None
    skip = pytest.mark.skipif(absent, reason="needs the extra silicon (aiconfigurator-core)")
    return pytest.mark.slow(skip(test))


def passes(model: str = "Qwen/Qwen3-8B", gpu: str = "B300", engine: str = "vllm", tp: int = 1) -> PassModel:
    facts = shape_of(model)
    return PassModel(
        gpu=gpu_named(gpu),
        shape=facts.shape,
        precision=facts.precision,
        parallel=Parallel(tp=tp),
        engine=replace(engine_named("vllm"), name=engine),
    )


@pytest.fixture
def fresh_tables() -> Iterator[None]:
    measured._tables.cache_clear()
    yield
    measured._tables.cache_clear()


def test_fitted_gpus_keep_their_constants_and_nothing_is_said() -> None:
    for gpu in ("H100", "H200", "B200", "A100", "L40S"):
        fitted = passes(gpu=gpu)
        assert with_operators(fitted) == (fitted, None)
    scaled = passes(gpu="B300")
    assert with_operators(scaled, "fitted") == (scaled, None)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"^operators='silicon' must be one of auto, fitted, measured$"):
        with_operators(passes(), "silicon")  # type: ignore[arg-type]


@pytest.mark.usefixtures("fresh_tables")
@pytest.mark.parametrize(
    ("installed", "lacking"),
    [
        (None, "aiconfigurator-core is not installed (pip install 'specplan[silicon]')"),
        ("0.11.4", "aiconfigurator-core 0.11.4 is installed, 0.12.x is needed"),
        ("0.13.0", "aiconfigurator-core 0.13.0 is installed, 0.12.x is needed"),
    ],
)
def test_without_the_version_whose_tables_are_known_constants_serve_and_the_note_says_so(
    monkeypatch: pytest.MonkeyPatch, installed: str | None, lacking: str
) -> None:
    def version(_: str) -> str:
        if installed is None:
            raise PackageNotFoundError
        return installed

    monkeypatch.setattr(measured, "version", version)
    fitted = passes()
    served, note = with_operators(fitted)
    assert served is fitted
    assert note == f"operators by constants of NVIDIA B300 SXM, not measured ones: {lacking}"


@installed
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_tables_serve_a_gpu_that_is_not_fitted_and_are_near_its_constants(engine: str) -> None:
    fitted = passes(engine=engine)
    served, note = with_operators(fitted)
    assert served.measured is not None
    assert note.startswith("operators measured: aiconfigurator-core 0.12.")
    for work in (Work(sequences=1.0, context=500.0), Work(sequences=96.0, context=3000.0, prefill_tokens=2048.0)):
        # two independent ways to a time: constants scaled from the B200's, and the B300's own operators
        assert abs(math.log(served.seconds(work) / fitted.seconds(work))) < 0.4
        assert half_width(ITERATION, served, work) < half_width(ITERATION, fitted, work)


@installed
@pytest.mark.parametrize(
    ("told", "lacking"),
    [
        ({"gpu": "L4"}, "aiconfigurator-core has no tables of it"),
        ({"gpu": "A100", "engine": "nobody"}, "aiconfigurator-core has no tables of nobody on it (ValueError)"),
        ({"model": "deepseek-ai/DeepSeek-R1", "gpu": "H200"}, "latent attention with its projections"),
        ({"model": "Qwen/Qwen3-30B-A3B-FP8", "gpu": "H200"}, "products in fp8-block"),
    ],
)
def test_what_tables_do_not_hold_is_named_and_constants_serve(told: dict[str, str], lacking: str) -> None:
    fitted = passes(**told)
    served, note = with_operators(fitted, "measured")
    assert served is fitted
    assert lacking in note


@installed
def test_more_work_takes_no_less_time_and_amounts_between_whole_ones_lie_between() -> None:
    served, _ = with_operators(passes("openai/gpt-oss-20b", "H100"), "measured")
    assert served.measured is not None

    def seconds(**changes: float) -> float:
        given: dict[str, float] = {"sequences": 8.0, "context": 1000.0, **changes}
        return served.seconds(Work(**given))

    for name, values in (
        ("sequences", (1.0, 8.0, 64.0, 256.0)),
        ("tokens", (1.0, 4.0, 8.0)),
        ("context", (0.0, 1000.0, 8000.0)),
        ("prefill_tokens", (0.0, 512.0, 4096.0)),
    ):
        times = [seconds(**{name: value}) for value in values]
        # measured tables have noise: a doubling of little work may be a few per cent faster
        assert all(later > 0.95 * earlier for earlier, later in pairwise(times)), (name, times)
        assert times[-1] > times[0]
    assert min(seconds(), seconds(sequences=9.0)) <= seconds(sequences=8.5) <= max(seconds(), seconds(sequences=9.0))


@installed
def test_verifying_reads_the_cache_once_and_experts_of_alike_tokens_cost_less() -> None:
    served, _ = with_operators(passes("openai/gpt-oss-120b", "H100"), "measured")
    plain, wide = (served.parts(Work(sequences=16.0, tokens=n, context=4000.0)) for n in (1.0, 4.0))
    assert plain.attention <= wide.attention < 4.0 * plain.attention
    apart = served.parts(Work(sequences=64.0, context=4000.0))
    assert plain.experts < wide.experts < apart.experts  # 64 tokens either way, in 16 texts or in 64


@installed
def test_a_head_drafts_on_tables_too() -> None:
    facts = shape_of("Qwen/Qwen3-8B")
    target, _ = with_operators(passes(), "measured")
    head = draft_head(facts, "eagle3").shape
    fitted = head_round(passes(), head).parts(8.0, 4.0, 1000.0)
    tables = head_round(target, head).parts(8.0, 4.0, 1000.0)
    assert abs(math.log(tables.drafting / fitted.drafting)) < 0.7
    assert tables.engine == fitted.engine
