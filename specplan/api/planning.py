"""Plans: of a profile, and of models by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specplan.output import progress
from specplan.show.results.plans import GpusPlan, LoadsPlan, ProfilePlan

if TYPE_CHECKING:
    from calibrate.record.profile import Profile

__all__ = ["GpusPlan", "LoadsPlan", "ProfilePlan", "plan", "plan_gpus", "plan_models", "profile", "profiles"]


def profiles() -> list[str]:
    """Return the names of the profiles that come with specplan.

    >>> import specplan as sp
    >>> "lr-deepseek-gsm8k" in sp.profiles()
    True
    """
    from calibrate.record.library import names

    return names()


def profile(name_or_path: str | Path) -> Profile:
    """Read a profile by its name, or from a file.

    >>> import specplan as sp
    >>> sp.profile("lr-deepseek-gsm8k").name
    'lr-deepseek-gsm8k'

    Raises
    ------
    ParameterError : no profile of that name.
    SchemaError : the file cannot be read or is no profile.
    """
    from calibrate.record.library import load

    return load(str(name_or_path))


def plan(
    of: Profile | str | Path | None = None,
    *,
    target: str | None = None,
    concurrency: int | Sequence[int] = (),
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
    >>> found = sp.plan("lr-deepseek-gsm8k", methods=["lr-async"], k1_max=4, n_answers=4)
    >>> found.best.prediction.configuration.method
    'lr-async'
    >>> found.speedup.low < found.speedup.value < found.speedup.high
    True

    Parameters
    ----------
    of : the profile, its name or its file.
    target : must not be given: models by name are planned for by `plan_models`.
    concurrency : numbers of answers at once to simulate the rows at as well, in [1, 256].
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
    from sim.catalogue import choice
    from sim.configuration import RULE_NAMES
    from specplan.planning import planner
    from specplan.planning.advice import advise
    from specplan.planning.crowds_text import crowds
    from specplan.planning.latency import timed
    from theory.errors import ParameterError

    if of is None or target is not None:
        rule = "is for plan_models(target, gpu=...): plan takes a profile, such as plan('lr-deepseek-gsm8k')"
        raise ParameterError("target", target, rule)
    given = profile(of) if isinstance(of, (str, Path)) else of
    timings = timed(given, latency=latency, gpu=gpu, folder=latency_folder)
    request = planner.Request(
        max_parallel=max_parallel,
        methods=planner.methods_named(methods),
        k1_max=k1_max,
        k2_max=k2_max,
        rules=None if rules is None else choice("rules", rules, RULE_NAMES),
        n_answers=n_answers,
        max_accuracy_loss=max_accuracy_loss,
    )
    counts = (concurrency,) if isinstance(concurrency, int) else tuple(concurrency)
    found = planner.plan(timings.profile, request, progress=progress)
    return ProfilePlan(
        ranking=found,
        timings=timings,
        at_once=tuple(crowds(timings.profile, found, counts)),
        advice=advise(timings.profile, found.best.prediction.configuration),
    )


def plan_models(
    target: str,
    *,
    gpu: str | None = None,
    concurrency: int | Sequence[int] = (1,),
    methods: Sequence[str] = (),
    max_accuracy_loss: float = 0.05,
    **deployment: Any,
) -> LoadsPlan:
    """Plan for models by name at each load, as ``specplan plan --target`` does.

    >>> import specplan as sp
    >>> found = sp.plan_models("Qwen/Qwen3-32B", draft="Qwen/Qwen3-1.7B", gpus=2, answer_tokens=500,
    ...                        context=1000, concurrency=8, methods=["draft-model"])
    >>> found.records()[0]["gain_low"] < found.records()[0]["gain"]
    True

    Parameters
    ----------
    target : name on the hub, config.json, or its folder.
    gpu : default H100.
    concurrency : answers in flight, one load each.
    methods, max_accuracy_loss : as for `plan`.
    deployment : further options of ``specplan plan --target``, as their names with underscores: draft, judge, eagle,
        gpus, tp, context, answer_tokens, alpha1 and so on; acceptance as ``["mtp=0.85"]`` or ``{"mtp": 0.85}``.

    Raises
    ------
    ParameterError : an unknown name, models that do not fit, or options that contradict each other.
    """
    from specplan.planning.loads.asked import deployment_plan

    asked = _asked(target, concurrency, deployment)
    return LoadsPlan(asked=deployment_plan({**asked, "gpu": gpu}, methods, max_accuracy_loss))


def plan_gpus(
    target: str,
    gpu: Sequence[str] | Mapping[str, float],
    *,
    concurrency: int | Sequence[int] = (1, 8, 64),
    methods: Sequence[str] = (),
    max_accuracy_loss: float = 0.05,
    **deployment: Any,
) -> GpusPlan:
    """Plan on several types of GPUs, by what a token costs, as ``specplan plan --target --gpu A,B`` does.

    >>> import specplan as sp
    >>> found = sp.plan_gpus("Qwen/Qwen3-8B", {"H100": 2.5, "L40S": 1.0}, concurrency=4, methods=["ngram"],
    ...                      answer_tokens=200, context=400)
    >>> sorted(row["gpu"] for row in found.records())
    ['NVIDIA H100 SXM', 'NVIDIA L40S']

    Parameters
    ----------
    target : name on the hub, config.json, or its folder.
    gpu : names of the types; a mapping gives the dollars of each per GPU and hour, else costs are in GPU hours.
    concurrency, methods, max_accuracy_loss, deployment : as for `plan_models`.

    Raises
    ------
    ParameterError : as for `plan_models`, or prices that do not fit the types.
    """
    from specplan.planning.loads.gpu_types import gpu_plans

    prices = ",".join(f"{name}={dollars}" for name, dollars in gpu.items()) if isinstance(gpu, Mapping) else None
    asked = _asked(target, concurrency, {**deployment, "gpu_price": prices})
    return GpusPlan(found=gpu_plans({**asked, "gpu": ",".join(gpu)}, methods, max_accuracy_loss))


def _asked(target: str, concurrency: int | Sequence[int], deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the command line hands them on."""
    from specplan.planning.loads.asking import DEPLOYMENT, LOADS, checked
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
    counts = concurrency if isinstance(concurrency, Sequence) and not isinstance(concurrency, str) else (concurrency,)
    said = {**deployment, "acceptance": given, "target": str(target), "concurrency": ",".join(map(str, counts))}
    return checked({**options, **said})
