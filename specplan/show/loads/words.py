"""Words and sentences about loads of a plan, the same on every screen and in reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from sim.configuration import PLAIN
from specplan.output import by_need, percent
from specplan.planning.loads.load_plan import LoadPlan, LoadRow, NamesPlan
from specplan.planning.loads.options import pays
from specplan.planning.loads.prices import dollars_of
from specplan.planning.loads.statements import Pays, adaptive_steps, by_prompt, fixed_k, gains_by_load
from specplan.show.page import Interval, brief, interval
from specplan.worlds.beliefs import Beliefs
from specplan.worlds.drafters.naming import drafter_name
from specplan.worlds.priors import step_prior
from specplan.worlds.world import passes_of
from theory.hardware.engines import is_priced

if TYPE_CHECKING:
    from sim.configuration import Configuration
    from specplan.planning.loads.options import Option
    from specplan.worlds.request import Deployment, Load

__all__ = [
    "Assumed",
    "assumed",
    "assumed_by_plan",
    "at_load",
    "beyond_timings",
    "by_prompts",
    "costs_from",
    "depths",
    "dollars_each",
    "engine_name",
    "gain_is",
    "gain_of",
    "median_and_90th",
    "named",
    "not_considered",
    "one_k",
    "policies",
    "switch_off",
    "title",
    "unused",
    "verdict",
    "waiting",
    "widest",
]


def title(deployment: Deployment) -> str:
    """Return what is planned: models, GPUs, engine and sizes."""
    formats = deployment.target.precision
    stored = formats.weights if formats.experts in (None, formats.weights) else f"{formats.weights}, {formats.experts}"
    models = [f"{deployment.target.name} ({stored})"]
    for words, model in (
        ("draft", deployment.draft),
        (drafter_name(deployment, "eagle"), deployment.head),
        (drafter_name(deployment, "block-drafter"), deployment.block),
        ("judge", deployment.judge),
    ):
        if model is not None:
            models.append(f"{words} {'in the checkpoint' if model.facts.in_target else model.name}")
    n = f"{deployment.gpus} x " if deployment.gpus > 1 else ""
    return (
        f"Plan for {', '.join(models)} on {n}{deployment.gpu.name}, {engine_name(deployment)}: prompts of "
        f"{deployment.prompt_tokens} tokens, answers of {deployment.answer_tokens}"
    )


def engine_name(deployment: Deployment) -> str:
    """The engine with the version that was said, and with the one whose costs are taken for it."""
    engine, said = deployment.engine, deployment.engine_version
    if not deployment.engine_said:
        return f"{engine.name} (costs of {engine.version})"
    measured = "" if is_priced(engine.name, said) else f"; none after {engine.until} was measured"
    priced = "" if said == engine.version else f" (costs of {engine.version}{measured})"
    return f"{engine.name} {said}{priced}"


def median_and_90th(row: LoadRow, name: str, unit: float) -> str:
    """Return the median and the 90th percentile, in a unit."""
    known = row.served.percentiles(name)
    median, most = ("–" if math.isnan(known[p]) else brief(unit * known[p]) for p in (50, 90))
    return "–" if median == most == "–" else f"{median} / {most}"


def depths(plan: LoadPlan, configuration: Configuration) -> dict[str, int]:
    """Return the depths above 1 by name: k1, and k (drafted per round) from names, k2 (per target pass) of profiles."""
    name, own = ("k", 1) if isinstance(plan, NamesPlan) else ("k2", 0)
    numbers = {"k1": configuration.k1} if configuration.k1 > 1 else {}
    return numbers | ({name: configuration.k2 - own} if configuration.k2 > 1 else {})


def named(plan: LoadPlan, option: Option) -> str:
    """Return the name of a configuration for a reader, with its depths."""
    configuration = option.configuration
    least = "<=" if configuration.least else "="
    known = (f"{name} {least if name == 'k' else '='} {depth}" for name, depth in depths(plan, configuration).items())
    return ", ".join([plan.simulator.name_of(configuration), *known])


def _placed(plan: LoadPlan, option: Option) -> str:
    """The option's name with its arrangement, if there is a choice."""
    where = option.arrangement.text
    return named(plan, option) + (f" on {where}" if where != "–" else "")


def gain_of(row: LoadRow) -> Interval | str:
    """Return the gain with its interval; a dash where plain decoding cannot keep up with the arrivals."""
    return interval(row.gain) if math.isfinite(row.gain.value) else "–"


def gain_is(plan: LoadPlan) -> str:
    """Return what the gain of the rows is."""
    if plan.loads[0][1][0].arriving:
        return "gain: mean seconds of an answer by plain decoding over the method's"
    return "gain: tokens per second over plain decoding"


def widest(plan: NamesPlan) -> dict[str, str]:
    """Return by what factor each source of error moves the gain of the best rows at most, the largest first."""
    parts: dict[str, float] = {}
    for _, rows in plan.loads:
        for name, part in rows[0].errors.items():
            parts[name] = max(parts.get(name, 0.0), part)
    ordered = sorted(parts.items(), key=lambda one: -one[1])
    return {name: f"a factor of {math.exp(part):.2f} either way" for name, part in ordered if part > 0.0}


def dollars_each(plan: LoadPlan, row: LoadRow) -> tuple[str, str]:
    """Return dollars per million tokens and per answer, for all GPUs of the plan; dashes without a price."""
    dollars = dollars_of(plan.deployment, row) if isinstance(plan, NamesPlan) else None
    return ("–", "–") if dollars is None else (brief(dollars.per_million_tokens), brief(dollars.per_answer, 2))


def beyond_timings(plan: LoadPlan) -> Iterator[str]:
    """Yield up to how many answers at once methods were timed that are planned for more."""
    beyond: dict[int, dict[str, None]] = {}
    for load, rows in plan.loads:
        for row in (row for row in rows if row.timed is not None and row.option.configuration != PLAIN):
            assert row.timed is not None
            if (load.concurrency or 0) > row.timed * row.option.arrangement.replicas:
                steps = row.option.configuration.spec.drafts_steps
                name = "methods that write steps" if steps else plan.simulator.name_of(row.option.configuration)
                beyond.setdefault(row.timed, {})[name] = None
    for timed, names in sorted(beyond.items()):
        text = ", ".join(names)
        yield f"{text[0].upper()}{text[1:]}: timed up to {timed} at once; beyond that, times are extrapolated."


def at_load(load: Load) -> str:
    """Return a load as a sentence names it."""
    return f"{load.text} answer{'s' if load.concurrency > 1 else ''} at once" if load.concurrency else load.text


def verdict(plan: LoadPlan, load: Load, rows: Sequence[LoadRow]) -> str:
    """Return what to do at a load, what it brings and how sure that is."""
    at = f"At {at_load(load)}"
    best = rows[0]
    if len(rows) == 1 and best.option.configuration == PLAIN and not plan.compares(load):
        return f"{at}: nothing was compared with plain decoding."
    if math.isinf(best.gain.value):
        return f"{at}: {_placed(plan, best.option)}; plain decoding cannot keep up."
    if best.option.configuration == PLAIN:
        return f"{at}: leave speculation off; nothing is expected to be faster than plain decoding."
    text = f"{at}: {_placed(plan, best.option)}"
    text += f", {best.gain.value:.2f} times plain decoding, between {best.gain.low:.2f} and {best.gain.high:.2f}"
    text += " with 95 % confidence"
    if not pays(best.gain.value):
        text += "; no faster than plain decoding, which misses the bounds"
    elif best.gain.low < 1.0:
        text += "; it may lose"
    if not best.meets:
        text += "; nothing meets the bounds"
    return text + "."


def switch_off(plan: LoadPlan) -> str:
    """Return at which loads speculation pays, and where the intervals do not exclude a loss."""
    sentence = Pays.of(gains_by_load(plan)).sentence()
    best = [(load, rows[0].gain) for load, rows in plan.loads if load.concurrency]
    unsure = [load.text for load, gain in best if pays(gain.value) and gain.low < 1.0]
    if not unsure:
        return sentence
    return f"{sentence} At {' and '.join(unsure)} the interval includes a loss: measure before you rely on it."


def waiting(plan: LoadPlan) -> Iterator[str]:
    """Yield at which loads answers wait under the best option, for what, and what would help."""
    helps = {
        "cache full": "room in the cache; more GPUs, --cache fp8 or a smaller --context give more",
        "places": "one of the --max-num-seqs places",
    }
    for limit, what in helps.items():
        if at := [load.text for load, rows in plan.loads if rows[0].limit == limit]:
            yield f"Load {' and '.join(at)}: answers wait for {what}."


def unused(plan: NamesPlan) -> Iterator[str]:
    """Yield at which loads the best option leaves GPUs without work."""
    given = plan.deployment.gpus
    idle: dict[tuple[int, int], list[str]] = {}
    for load, rows in plan.loads:
        where = rows[0].option.arrangement
        idle.setdefault((given - where.gpus, where.gpus_of_copy), []).append(load.text)
    for (n, copy), at in idle.items():
        if n:
            does = "idles" if n == 1 else "idle"
            yield f"Load {' and '.join(at)}: {n} of the {given} GPUs {does}; a copy takes {copy}."


def one_k(plan: NamesPlan) -> str:
    """Return what one k would lose at the loads of the method that drafts first; empty where they have the same one."""
    fixed = fixed_k(plan)
    if fixed is None:
        return ""
    best = [rows[0].option.configuration for _, rows in plan.loads]
    token = next(one.token for one in best if one.spec.level == "token" and one.speculates)
    assert token is not None
    drafted = {one.k2 for one in best if one.spec.level == "token" and one.token == token}
    loses = f"loses at most {percent(fixed.loss, 0)} of what the best k at each load gives"
    if plan.deployment.k is not None:
        given = f"k = {fixed.k} at all loads" if plan.deployment.k == fixed.k else "k by batch"
        return f"{given}, as given with --k, {loses} (every k: -v)."
    if len(drafted) < 2:
        return ""
    return f"Simpler: one k = {fixed.k} wherever {drafter_name(plan.deployment, token)} is best {loses}."


def policies(plan: NamesPlan) -> str:
    """Return what the engine's adaptive policy is worth by load; empty where it has none, or none that is best."""
    steps = "; ".join(
        f"{load.text}: adaptive {own:.2f}, best fixed k {fixed:.2f}, none 1"
        for load, (own, fixed) in adaptive_steps(plan).items()
    )
    if steps:
        return f"SGLang's adaptive steps (--speculative-adaptive with its own slots), gain by load: {steps}."
    gains = []
    for load, rows in plan.loads:
        best = rows[0].option.configuration
        if best.least and math.isfinite(rows[0].gain.value):
            alike = [row.gain.value for row in rows if row.option.configuration.token == best.token][1:2]
            fixed = [f"best fixed k {gain:.2f}" for gain in alike]
            gains.append(", ".join([f"{load.text}: adaptive {rows[0].gain.value:.2f}", *fixed, "none 1"]))
    return f"Adaptive verification, gain by load: {'; '.join(gains)}." if gains else ""


def by_prompts(plan: NamesPlan, *, ending: bool = False) -> Iterator[str]:
    """Yield what the best options at the first and last load gain by prompt; ``ending``: only of those that turn."""
    for one in by_prompt(plan):
        if not one.gains or (ending and not one.turns):
            continue
        gains = ", ".join(f"{prompt // 1024}k {gain:.2f}" for prompt, gain in one.gains.items())
        advice = f"; {one.advice}" if one.turns else ""
        what = f"{named(plan, one.option)} with {one.answers} at once, reading prompts not counted"
        yield f"By prompt, on the same GPUs, {what}: {gains}{advice}."


def costs_from(plan: NamesPlan) -> Iterator[str]:
    """Return what to know of the costs of passes: whose operators they have, and what no measured row has."""
    deployment, stages = plan.deployment, plan.simulator.considered.plain[0].pp
    yield from filter(None, [passes_of(deployment, deployment.target, 1)[1]])
    if stages > 1:
        gpu = deployment.gpu
        yield (
            f"no measured row uses more than one machine: {stages} pipeline stages are modelled, between which "
            f"{gpu.network / 1e9:.0f} GB/s a GPU and {1e6 * gpu.network_s:.0f} us a message are assumed"
        )
    for what in deployment.target.facts.shape.unmeasured:
        yield f"no measured row has {what}: these are taken to cost what others of their size do"


def not_considered(plan: NamesPlan) -> Iterator[str]:
    """Yield what was not considered, with the reason, methods with one reason together."""
    for what, names in by_need(plan.unknown).items():
        yield f"{', '.join(names)}: needs {what}"
    alike: dict[str, list[str]] = {}
    for name, why in plan.deployment.passed_over.items():
        alike.setdefault(why, []).append(name)
    yield from (f"{', '.join(names)}: {why}" for why, names in alike.items())


_ENDS: Final = (-1.96, 1.96)
"""Standard normal scores of a 95 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What is assumed of one drafter."""

    drafter: str
    """As engines call the method; ``steps`` for drafted steps."""
    k: int | None
    """Tokens drafted per round; None for steps."""
    value: float
    """Tokens per round, accepted ones and one more, in [1, k + 1]; for steps the share that is accepted."""
    low: float
    high: float
    """95 % of what was published lies between; both are ``value`` where the user gave it."""
    source: str

    @property
    def text(self) -> str:
        """Return it for a reader."""
        between = "" if self.low == self.high else f" [{self.low:.2f}, {self.high:.2f}]"
        if self.k is None:
            return f"{percent(self.value, 0)} of the drafted steps are accepted{between} ({self.source})"
        per_round = f"{self.value:.2f}{between} tokens per round at k = {self.k}, the target's own included"
        return f"{self.drafter} makes {per_round} ({self.source})"

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        convention = "share of drafted steps accepted" if self.k is None else "tokens per round, accepted + 1"
        return {**asdict(self), "convention": convention}


def assumed(deployment: Deployment, configuration: Configuration) -> list[Assumed]:
    """Return what is assumed of acceptance for a configuration; empty for plain decoding."""
    beliefs = Beliefs(deployment)
    return [*_of_tokens(beliefs, deployment, configuration), *_of_steps(beliefs, deployment, configuration)]


def assumed_by_plan(plan: NamesPlan) -> list[Assumed]:
    """Return what the best speculative row of each load rests on, each drafter once, at its first load."""
    by_drafter: dict[str, Assumed] = {}
    for _, rows in plan.loads:
        best = next((row for row in rows if row.option.configuration.speculates), None)
        for one in () if best is None else assumed(plan.deployment, best.option.configuration):
            by_drafter.setdefault(one.drafter, one)
    return list(by_drafter.values())


def _of_tokens(beliefs: Beliefs, deployment: Deployment, configuration: Configuration) -> Iterator[Assumed]:
    token, k2 = configuration.token, configuration.k2
    if token is None or k2 < 2:
        return
    value = beliefs.tokens_per_pass(token, k2)
    ends = [[beliefs.tokens_per_pass(token, k2, *scores) for scores in ((z, 0.0), (0.0, z))] for z in _ENDS]
    below, above = (math.hypot(*(one - value for one in both)) for both in ends)  # errors of both beliefs, in squares
    low, high = max(value - below, 1.0), min(value + above, float(k2))
    drafter, source = drafter_name(deployment, token), beliefs.source(token)
    known = deployment.acceptance.get(drafter)
    if known is not None and known.drafted is not None and (n := len(known.per_position)) < k2 - 1:
        further = f"position {k2 - 1} is" if n == k2 - 2 else f"positions {n + 1} to {k2 - 1} are"
        source += f"; {further} assumed to be accepted as often as position {n}, without an interval for it"
    yield Assumed(drafter=drafter, k=k2 - 1, value=value, low=low, high=high, source=source)


def _of_steps(beliefs: Beliefs, deployment: Deployment, configuration: Configuration) -> Iterator[Assumed]:
    if not configuration.spec.drafts_steps:
        return
    known = deployment.alpha1 is not None
    low, high = (beliefs.alpha1(z) for z in _ENDS)
    source = "given with --alpha1" if known else f"prior: {step_prior(deployment.task).source}"
    yield Assumed(drafter="steps", k=None, value=beliefs.alpha1(), low=low, high=high, source=source)
