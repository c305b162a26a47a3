"""``specplan plan --target``: from the names of models and a load to a plan."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, get_args

from calibrate.engines.token_vocabulary import BLOCK_DRAFTERS
from calibrate.record.json_text import parse_json
from calibrate.token_acceptance.schedule import Schedule
from sim.catalogue import choice, method
from sim.configuration import RULE_NAMES
from specplan.output import progress
from specplan.planning.loads.click_options import bounds_of, loads_of
from specplan.planning.loads.from_names import FromNames, limits_of, sequences_for
from specplan.planning.loads.load_plan import NamesPlan, Planner, plan_loads
from specplan.planning.loads.options import Budget, check_named, considered
from specplan.planning.loads.prices import prices_of
from specplan.planning.loads.simulating import SpentError, shares_of
from specplan.planning.loads.statements import schedule_of
from specplan.worlds.arrangements import splits
from specplan.worlds.drafters.finding import (
    check_draft,
    check_head,
    family_draft,
    find_block,
    find_head,
    head_named,
)
from specplan.worlds.drafters.naming import block_kind, drafters, head_kind, methods_named
from specplan.worlds.measured_operators import Operators
from specplan.worlds.memory import MOST_GPUS, MOST_TP
from specplan.worlds.model_files import block_drafter, shape_of
from specplan.worlds.prior_constants import DOMAIN_OF
from specplan.worlds.request import Deployment, Placement, ServedModel
from specplan.worlds.running.settings import settings_of
from specplan.worlds.sizes import longest_answer
from theory.errors import ParameterError
from theory.hardware.engines import BLACKWELL, engine_named
from theory.hardware.formats import FORMATS, Precision
from theory.hardware.gpus import gpu_named
from theory.hardware.shapes import LatentAttention

if TYPE_CHECKING:
    from specplan.planning.loads.options import Option
    from specplan.worlds.drafters.finding import HeadFound
    from specplan.worlds.drafters.known_acceptance import KnownAcceptance
    from specplan.worlds.model_files import ModelFacts
    from specplan.worlds.request import Limits, Load
    from specplan.worlds.running.settings import Settings
    from theory.hardware.gpu_records import Gpu

__all__ = ["deployment_plan", "deployment_plans", "settings_for"]

_CONTEXT: Final = 8192
_ANSWER_TOKENS: Final = 4096
_HAVE_DEFAULTS: Final = {"answer_spread": "answer_spread", "gpu_memory_utilization": "memory_share"}
"""Options to fields of a deployment that have defaults of their own."""
_FLUCTUATION: Final = 4.0
"""Places of an engine over the mean answers in flight, or over their root where they are few: arrivals at random should
not wait for one, as they do not in the simulation, which has `_MOST_SEQUENCES` of `FromNames`."""


def deployment_plan(options: Mapping[str, Any], names: Sequence[str]) -> NamesPlan:
    """Return the plan, the last of `deployment_plans`."""
    *_, last = deployment_plans(options, names)
    return last


def deployment_plans(options: Mapping[str, Any], names: Sequence[str]) -> Iterator[NamesPlan]:
    """Yield the plan; with a ``budget``, in seconds, plans of which each is better known than the one before.

    Parameters
    ----------
    options : those of `specplan.planning.loads.click_options`, and ``gpu``; ``fewest``: GPUs at least, default 1;
        ``max_parallel``, ``k1_max`` and ``rules``, if they are bounded.
    names : of methods to consider, in the catalogue or as engines call them; all that are proposed if there are none.

    Raises
    ------
    ParameterError : an unknown name, models that do not fit, or options that contradict each other.
    """
    loads = loads_of(options)
    trace = loads[0].trace
    if trace is not None:
        for name in ("context", "answer_tokens", "answer_spread"):
            if options[name] is not None:
                raise ParameterError(
                    name, options[name], "must not be given with --trace, which has the sizes of answers"
                )
        prompt, answer = (max(round(float(one.mean())), 1) for one in (trace.prompt_tokens, trace.answer_tokens))
        options = {**options, "answer_tokens": answer, "context": prompt + answer}
    methods = methods_named(names)
    heads = [name.strip().lower() for name in names if name.strip().lower() in ("mtp", "eagle3", *BLOCK_DRAFTERS)]
    deployment = _deployment(options, methods, heads)
    check_named(deployment, names)
    bounds = bounds_of(options)
    seconds, curve = options.get("budget"), not options.get("no_curve")
    budget = _budget(options)
    if seconds is None:
        yield plan_loads(deployment, loads, bounds, methods, budget=budget, curve=curve, progress=progress)
        return
    if bounds.binding or any(load.concurrency is None for load in loads):
        raise ParameterError(
            "budget", seconds, "is for --concurrency without bounds: mean values know no single answer"
        )
    yield from _refined(FromNames(deployment, methods, budget), loads, bounds, seconds)


def _refined(simulator: FromNames, loads: Sequence[Load], limits: Limits, seconds: float) -> Iterator[NamesPlan]:
    """Plans until the rows are those of a plan without a budget, or the time is over.

    The first has all loads by mean values. They are simulated one after the other, by the fewest replications, then by
    as many as are wanted; a load that the end cuts short keeps its row.
    """
    ends, simulator.by_means, simulator.slack = time.monotonic() + seconds, True, math.inf
    plan = NamesPlan.of(simulator, loads, limits, guide=(1,))
    plan = replace(plan, rough=tuple(load for load, _ in plan.loads), grid=())
    simulator.by_means, simulator.ends = False, ends
    yield plan
    planner = Planner(simulator, limits)
    try:
        planner.best_at(1)
        for slack in (math.inf, 1.0):
            simulator.slack = slack
            for load in loads:
                known = {**dict(plan.loads), load: planner.rows(load)}
                plan = replace(plan, loads=tuple(known.items()), rough=tuple(one for one in plan.rough if one != load))
                yield plan
    except SpentError:
        return
    except KeyboardInterrupt:
        yield replace(plan, left_out=True)


def _budget(options: Mapping[str, Any]) -> Budget:
    said = {name: options[name] for name in ("max_parallel", "k1_max", "rules") if options.get(name) is not None}
    if "rules" in said:
        said["rules"] = choice("rules", said["rules"], RULE_NAMES)
    return Budget(**said)


def _deployment(options: Mapping[str, Any], methods: Sequence[str], heads: Sequence[str]) -> Deployment:
    for lonely in ("judge", "alpha1"):
        if options[lonely] is not None and not options["draft"]:
            raise ParameterError(lonely, options[lonely], "needs --draft, whose steps it is about")
    target = _model(options["target"], options["precision"], options["cache"])
    draft = _model(options["draft"], None, options["cache"]) if options["draft"] else None
    if draft is not None:
        check_draft(target.facts, draft.facts, tokens="draft-model" in methods)
    gpu = gpu_named(options["gpu"] or "H100")
    name, _, version = (options["engine"] or "vllm").partition(":")
    if name == "trtllm" and gpu.name.startswith("AMD"):
        raise ParameterError(
            "engine", name, f"does not run on {gpu.name}: take vllm or sglang (--engine), or another --gpu"
        )
    if options["cache"] is None and name == "sglang":
        target = _usual_cache(target, gpu)
    tasks = tuple(dict.fromkeys((*DOMAIN_OF.values(), *DOMAIN_OF)))
    acceptance: Mapping[str, KnownAcceptance] = {}
    if options["acceptance"]:  # read by what only then is imported
        from specplan.worlds.drafters.known_acceptance import known_acceptances

        acceptance = known_acceptances(options["acceptance"])
    made = Deployment(
        target=target,
        draft=draft,
        judge=_model(options["judge"], None, options["cache"]) if options["judge"] else None,
        gpu=gpu,
        gpus=options["gpus"] or 1,
        tp=options["tp"],
        placement=choice("placement", options["placement"] or "any", get_args(Placement)),
        engine=engine_named(name, version or None),
        operators=choice("operators", options["operators"] or "auto", get_args(Operators)),
        engine_version=version,
        context=options["context"] or _CONTEXT,
        answer_tokens=options["answer_tokens"] or _ANSWER_TOKENS,
        task=None if options["task"] is None else choice("task", options["task"].strip().lower(), tasks),
        alpha1=options["alpha1"],
        acceptance=acceptance,
        gpu_price=prices_of(options["gpu_price"], [gpu]).get(gpu.name),
        k=_k(options["k"], methods),
        max_num_seqs=options["max_num_seqs"],
        **{field: options[name] for name, field in _HAVE_DEFAULTS.items() if options[name] is not None},
    )
    if (tp := made.tp) is not None:
        allowed = splits(target, MOST_TP)
        if tp not in allowed:
            rule = f"must be one of {', '.join(map(str, allowed))}, over which {target.name} can be split"
            raise ParameterError("tp", tp, rule)
        if tp > made.gpus:
            raise ParameterError("tp", tp, f"must be at most the {made.gpus} GPUs (--gpus)")
    sized = made if options["gpus"] is not None else _fewest(made, options.get("fewest", 1))
    return _with_drafters(sized, options, methods, heads)


def _with_drafters(
    made: Deployment, options: Mapping[str, Any], methods: Sequence[str], heads: Sequence[str]
) -> Deployment:
    """The deployment with the drafters that were named, else with those that exist for the target."""
    target = made.target
    chains, blocks = ([name for name in heads if (name in BLOCK_DRAFTERS) == of_block] for of_block in (False, True))
    heads_known, blocks_known = find_head(target.facts, chains), find_block(target.facts, blocks)
    head = _chosen(heads_known if "eagle" in methods else None, head_named, "eagle", target, options)
    block = _chosen(blocks_known if "block-drafter" in methods else None, _block_named, "block", target, options)
    kinds = [kind(one) for kind, one in ((head_kind, head), (block_kind, block)) if one is not None]
    for wanted, option in ((chains, "eagle"), (blocks, "block")):
        if wanted and not set(wanted) & set(kinds):
            have = "no such drafter known"
            if wanted == ["mtp"]:
                have = "no layers for further tokens (num_nextn_predict_layers)"
            rule = f"cannot run: {target.name} has {have}; name one: --{option}"
            raise ParameterError("methods", ",".join(wanted), rule)
    draft = made.draft
    if draft is None and {"draft-model", "lr-async", "lr-sync"} & set(methods):
        name = family_draft(target.facts, made.context)
        draft = None if name is None else _model(name, None, options["cache"])
    over = {**heads_known.passed_over, **blocks_known.passed_over}
    passed_over = {name: why for name, why in over.items() if name not in kinds}
    whole = replace(made, head=head, block=block, draft=draft, passed_over=passed_over)
    for known in made.acceptance:
        if known not in drafters(whole):
            can = ", ".join(drafters(whole))
            rule = f"is given for a method that cannot draft here; {can} can (--draft, --eagle, --block)"
            raise ParameterError("acceptance", known, rule)
    return whole


def _chosen(
    known: HeadFound | None,
    by_name: Callable[[str, ModelFacts], ModelFacts],
    option: str,
    target: ServedModel,
    options: Mapping[str, Any],
) -> ServedModel | None:
    """The head or block drafter that an option names, else the one known for the target."""
    facts = None if known is None else known.facts
    if options[option]:
        facts = by_name(options[option], target.facts)
        check_head(target.facts, facts, option)
    return None if facts is None else ServedModel.published(facts, options["cache"])


def _k(typed: int | str | None, methods: Sequence[str]) -> int | Schedule | None:
    """The k that was given, or its table by batch size, which some method has to draft.

    Gaps are refused: what vLLM drafts there is easily overlooked.
    """
    k = Schedule.parse(parse_json(typed, "--k"), "--k") if isinstance(typed, str) else typed
    for before, after in pairwise(k.ranges if isinstance(k, Schedule) else ()):
        if after.first > before.last + 1:
            whole = [before.first, after.first - 1, before.k]
            rule = f"leaves a gap before {after.first}; vLLM would draft {before.k} there: say {whole}, or another K"
            raise ParameterError("k", list(before), rule)
    if k is not None and not any(method(name).level == "token" for name in methods):
        rule = f"is for methods that draft tokens, and --methods names {', '.join(methods)}: add mtp, eagle3 or ngram"
        raise ParameterError("k", typed, rule)
    return k


def _model(name: str, precision: str | None, cache: str | None) -> ServedModel:
    """A model by its name, in other formats than published if the user says so."""
    served = ServedModel.published(shape_of(name), cache)
    if precision is None:
        return served
    weights = choice("precision", precision, tuple(FORMATS))
    return replace(served, precision=Precision(weights=weights, cache=served.precision.cache))


def _usual_cache(target: ServedModel, gpu: Gpu) -> ServedModel:
    """A model with the cache that SGLang gives it: of DeepSeek's sparse attention fp8 on Blackwell, bf16 elsewhere."""
    mixers = (group.attention for group in target.facts.shape.layers)
    if gpu.name not in BLACKWELL or not any(isinstance(one, LatentAttention) and one.selection for one in mixers):
        return target
    return replace(target, precision=replace(target.precision, cache="fp8"))


def _block_named(name: str, target: ModelFacts) -> ModelFacts:
    """A block drafter by its name, or one of the usual size."""
    usual = [kind for kind in BLOCK_DRAFTERS if kind == name.strip().lower()]
    return block_drafter(target, usual[0]) if usual else find_block(target, named=name).facts or shape_of(name)


def _fewest(deployment: Deployment, least: int) -> Deployment:
    """The same on the fewest GPUs that hold the target, and one more for a draft."""
    gpus = 1 << (least - 1).bit_length()  # engines share a model over powers of two
    while True:
        try:
            considered(replace(deployment, gpus=gpus), ())
        except ParameterError:
            if gpus >= MOST_GPUS:
                raise
            gpus *= 2
        else:
            return replace(deployment, gpus=gpus + (deployment.draft is not None and gpus <= MOST_TP))


def settings_for(plan: NamesPlan, option: Option) -> Settings:
    """Return the commands and files that run an option, for the largest load at which it is best."""
    copies, configuration = option.arrangement.replicas, option.configuration
    answers = 1
    for load, rows in plan.loads:
        if rows[0].option == option:
            closed, mean = max(shares_of(load.concurrency or 1, copies)), rows[0].served.in_flight
            most = _FLUCTUATION * max(load.burstiness, 1.0) * max(mean, math.sqrt(mean))
            answers = max(answers, closed if load.concurrency else math.ceil(most))
    deployment = plan.deployment
    longest = longest_answer(deployment, limits_of(deployment, option, answers).cache_tokens)
    return settings_of(
        replace(deployment, context=deployment.prompt_tokens + longest),  # what its engines have to hold
        configuration,
        option.arrangement,
        sequences=sequences_for(deployment, configuration, answers),
        schedule=schedule_of(plan, option),
    )
