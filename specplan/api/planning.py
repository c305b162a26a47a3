"""Plans: of a profile, and of models by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from specplan.output import progress
from specplan.show.loads.results import GpusPlan, LoadsPlan
from specplan.show.plans import ProfilePlan

if TYPE_CHECKING:
    from calibrate.record.profile import Profile
    from specplan.worlds.request import Load

__all__ = ["GpusPlan", "LoadsPlan", "ProfilePlan", "plan", "plan_gpus", "plan_models", "profile", "profiles"]

_MOST_AT_ONCE: Final = 256
"""Answers at once for which a profile is planned."""


def profiles() -> list[str]:
    """Return the names of the profiles that come with specplan.

    >>> import specplan as sp
    >>> "lr-deepseek-gsm8k" in sp.profiles()
    True
    """
    from calibrate.record.library import names

    return names()


def profile(of: Profile | str | Path) -> Profile:
    """Read a profile by its name, or from a file; a profile is returned as it is.

    >>> import specplan as sp
    >>> sp.profile("lr-deepseek-gsm8k").name
    'lr-deepseek-gsm8k'

    Raises
    ------
    ParameterError : no profile of that name.
    SchemaError : the file cannot be read or is no profile.
    """
    from calibrate.record.library import load

    return load(str(of)) if isinstance(of, (str, Path)) else of


def plan(
    of: Profile | str | Path | None = None,
    *,
    target: str | None = None,
    concurrency: int | Sequence[int] = (),
    rate: float | Sequence[float] = (),
    burstiness: float | None = None,
    copies: int = 1,
    slo_ttft: float | None = None,
    slo_tpot: float | None = None,
    methods: Sequence[str] = (),
    max_parallel: int = 32,
    k1_max: int = 8,
    k2_max: int | None = None,
    rules: str | None = None,
    n_answers: int | None = None,
    max_accuracy_loss: float = 0.05,
    latency: str = "auto",
    gpu: str | None = None,
    latency_folder: Path | None = None,
) -> ProfilePlan:
    """Rank methods and their knobs for the models of a profile, as ``specplan plan --profile`` does.

    >>> import specplan as sp
    >>> plan = sp.plan("lr-deepseek-gsm8k", methods=["lr-async"], k1_max=4, n_answers=4)
    >>> plan.best.prediction.configuration.method
    'lr-async'
    >>> plan.speedup.low < plan.speedup.value < plan.speedup.high
    True

    Parameters
    ----------
    of : the profile, its name or its file.
    target : must not be given: models by name are planned for by `plan_models`.
    concurrency : numbers of answers at once to simulate the rows at as well, in [1, 256].
    rate, burstiness : or answers that arrive per second, and the spread of the gaps between them / their mean.
    copies : of the profile's engines, to which these answers are dealt out evenly, >= 1.
    slo_ttft, slo_tpot : bounds on the time to first token and per output token of 90 % of them, ms.
    methods : names to consider; default all but ablations.
    max_parallel : budget M: target sequences in flight x tokens per pass, at most.
    k1_max, k2_max : largest to try; ``k2_max`` defaults to what the profile knows.
    rules : schedule of LR; default released-code for published profiles, else paper.
    n_answers : answers to simulate per configuration; default all recorded ones, or 40.
    max_accuracy_loss : share of right answers that a method may cost; others come last.
    latency, gpu, latency_folder : whose timings to take, as the command's options.

    Raises
    ------
    ParameterError : an argument outside its range, or an unknown name.
    CalibrationError : the profile's timings are not enough for a cost model.
    """
    from calibrate.replay.trials import Trials
    from sim.catalogue import choice
    from sim.configuration import RULE_NAMES
    from specplan.planning import planner
    from specplan.planning.advice import advise
    from specplan.planning.candidates import Request
    from specplan.planning.latency import timed
    from specplan.planning.loads.click_options import bounds_of
    from specplan.planning.loads.from_profile import FromProfile
    from specplan.planning.loads.load_plan import LoadPlan
    from specplan.worlds.drafters.naming import methods_named
    from theory.errors import ParameterError

    if of is None or target is not None:
        rule = "is for plan_models(target, gpu=...): plan takes a profile, such as plan('lr-deepseek-gsm8k')"
        raise ParameterError("target", target, rule)
    given = profile(of)
    timings = timed(given, latency=latency, gpu=gpu, folder=latency_folder)
    request = Request(
        max_parallel=max_parallel,
        methods=methods_named(methods),
        k1_max=k1_max,
        k2_max=k2_max,
        rules=None if rules is None else choice("rules", rules, RULE_NAMES),
        n_answers=n_answers,
        max_accuracy_loss=max_accuracy_loss,
    )
    loads = _loads(concurrency, rate, burstiness)
    limits = bounds_of({"slo_ttft": slo_ttft, "slo_tpot": slo_tpot})
    if not loads and (limits.binding or copies != 1):
        unused = {"slo_ttft": slo_ttft, "slo_tpot": slo_tpot, "copies": copies if copies != 1 else None}
        name, value = next((name, value) for name, value in unused.items() if value is not None)
        raise ParameterError(name, value, "has no use without a load: give concurrency or rate too")
    ranking, under_load = planner.plan(timings.profile, request, progress=progress), None
    if loads:  # the rows that are not ruled out, under load
        planned = [row.prediction for row in ranking.rows if not row.ruled_out]
        simulator = FromProfile(Trials(timings.profile), planned, copies=copies, ends=limits.binding)
        under_load = LoadPlan.of(simulator, loads, limits, progress=progress)
    return ProfilePlan(
        ranking=ranking,
        timings=timings,
        loads=under_load,
        advice=advise(timings.profile, ranking.best.prediction.configuration),
    )


def _loads(concurrency: int | Sequence[int], rate: float | Sequence[float], burstiness: float | None) -> Sequence[Load]:
    """The loads for a profile; none if nothing was said."""
    from specplan.planning.loads.click_options import loads_of
    from theory.errors import ParameterError

    said = {"concurrency": concurrency, "rate": rate}
    options: dict[str, Any] = {
        name: ",".join(map(str, _several(values))) if values != () else None for name, values in said.items()
    }
    if burstiness is None and options["concurrency"] is options["rate"] is None:
        return ()
    loads = loads_of({**options, "trace": None, "burstiness": burstiness})
    if max(load.concurrency or 0 for load in loads) > _MOST_AT_ONCE:
        raise ParameterError("concurrency", options["concurrency"], f"must be integers in [1, {_MOST_AT_ONCE}]")
    return loads


def _several(values: float | Sequence[float]) -> Sequence[float]:
    return values if isinstance(values, Sequence) and not isinstance(values, str) else (values,)


def plan_models(
    target: str,
    *,
    gpu: str | None = None,
    concurrency: int | Sequence[int] | None = None,
    methods: Sequence[str] = (),
    max_parallel: int | None = None,
    k1_max: int = 8,
    rules: str | None = None,
    **deployment: Any,
) -> LoadsPlan:
    """Plan for models by name at each load, as ``specplan plan --target`` does.

    >>> import specplan as sp
    >>> plan = sp.plan_models("Qwen/Qwen3-32B", draft="Qwen/Qwen3-1.7B", gpus=2, answer_tokens=500,
    ...                       context=1000, concurrency=8, methods=["draft-model"])
    >>> plan.records()[0]["gain_low"] < plan.records()[0]["gain"]
    True

    Parameters
    ----------
    target : name on the hub, config.json, or its folder.
    gpu : default H100.
    concurrency : answers in flight, one load each; default 1, unless ``rate`` or ``trace`` is given.
    methods, k1_max : as for `plan`.
    max_parallel, rules : as for `plan`, but by default without bound, and released-code.
    deployment : further options of ``specplan plan --target``, as their names with underscores: draft, judge, eagle,
        gpus, tp, context, answer_tokens, alpha1, rate (one or several) and so on; acceptance as ``["mtp=0.85"]`` or
        ``{"mtp": 0.85}``.

    Raises
    ------
    ParameterError : an unknown name, models that do not fit, or options that contradict each other.
    """
    from specplan.planning.loads.from_options import deployment_plan

    budget = {"max_parallel": max_parallel, "k1_max": k1_max, "rules": rules}
    options = {**_options(target, concurrency, deployment), **budget, "gpu": gpu}
    return LoadsPlan(plan=deployment_plan(options, methods))


def plan_gpus(
    target: str,
    gpu: Sequence[str] | Mapping[str, float],
    *,
    concurrency: int | Sequence[int] | None = None,
    methods: Sequence[str] = (),
    **deployment: Any,
) -> GpusPlan:
    """Plan on several types of GPUs, by what a token costs, as ``specplan plan --target --gpu A,B`` does.

    >>> import specplan as sp
    >>> plans = sp.plan_gpus("Qwen/Qwen3-8B", {"H100": 2.5, "L40S": 1.0}, concurrency=4, methods=["ngram"],
    ...                      answer_tokens=200, context=400)
    >>> sorted(row["gpu"] for row in plans.records())
    ['NVIDIA H100 SXM', 'NVIDIA L40S']

    Parameters
    ----------
    target : name on the hub, config.json, or its folder.
    gpu : names of the types; a mapping gives the dollars of each per GPU and hour, else costs are in GPU hours.
    concurrency, methods, deployment : as for `plan_models`, but by default 1, 8 and 64 at once.

    Raises
    ------
    ParameterError : as for `plan_models`, or prices that do not fit the types.
    """
    from specplan.planning.loads.gpu_types import gpu_plans

    prices = ",".join(f"{name}={dollars}" for name, dollars in gpu.items()) if isinstance(gpu, Mapping) else None
    options = _options(target, concurrency, {**deployment, "gpu_price": prices})
    return GpusPlan(plans=gpu_plans({**options, "gpu": ",".join(gpu)}, methods))


def _options(target: str, concurrency: int | Sequence[int] | None, deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the command line hands them on."""
    from specplan.planning.loads.click_options import DEPLOYMENT, LOADS, checked
    from theory.errors import ParameterError

    options: dict[str, Any] = dict.fromkeys((*DEPLOYMENT, *LOADS))
    for name, value in deployment.items():
        if name not in options:
            raise ParameterError(name, value, f"is no option of a deployment: {', '.join(options)}")
    if not isinstance(target, str | Path):
        raise ParameterError("target", target, "must name a model")
    given = deployment.get("acceptance")
    if isinstance(given, Mapping):
        given = [f"{method}={value}" for method, value in given.items()]
    elif isinstance(given, str):
        given = [given]
    loads = {"concurrency": concurrency, "rate": deployment.get("rate")}
    listed = {name: None if of is None else ",".join(map(str, _several(of))) for name, of in loads.items()}
    said = {**deployment, **listed, "acceptance": given, "target": str(target)}
    return checked({**options, **said})
