"""What a plan under load considers: configurations, each on the arrangements of models on GPUs that hold it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from calibrate.token_acceptance.schedule import Schedule
from sim.catalogue import Method, method
from sim.configuration import PLAIN, Configuration
from sim.roles import DRAFT, JUDGE, SCORER
from specplan.worlds.arrangements import Arrangement, Drafting, arrangements, parallel_of, splits
from specplan.worlds.drafters.naming import (
    block_kind,
    drafter_name,
    drafting_model,
    ends_a_turn,
    kind,
    layers_in_turn,
    methods_named,
)
from specplan.worlds.memory import STAGES, Room, Served, rooms_of
from specplan.worlds.running.flags import first_with, has, over_stages
from theory.errors import ParameterError
from theory.hardware.work import Parallel

if TYPE_CHECKING:
    from specplan.worlds.request import Deployment

__all__ = [
    "DEPTHS",
    "RULES",
    "Budget",
    "Considered",
    "Option",
    "Place",
    "check_named",
    "considered",
    "pays",
    "rank",
    "room_of",
]

_LEAST: Final = 0.01
"""Share by which a gain must exceed 1 to be one: simulations do not resolve smaller ones."""
Place: TypeAlias = tuple[bool, float, bool, float]
"""The place of a row in its table; smaller ones come first."""
DEPTHS: Final = (2, 3, 4, 6, 8)
"""Values of k1 to try: the gain is flat around its best."""
RULES: Final = "released-code"
"""Schedule of Lookahead Reasoning, unless an option names another."""
_DRAFT: Final = "a draft model; none of the target's family and vocabulary is small enough and reads as much (--draft)"
_NEEDS: Final[Mapping[str, tuple[str, str]]] = {
    "draft-model": ("draft", _DRAFT),
    "eagle": ("head", "a head; the target has no MTP layers, and no head for it is in the table (--eagle)"),
    "block-drafter": ("block", "a block drafter (DFlash, DSpark); none for the target is in the table (--block)"),
    "lr-async": ("draft", _DRAFT),
    "lr-sync": ("draft", _DRAFT),
}
"""Method to the model that it needs, and how to name it."""
_KNOWN: Final = ("prompt-lookup", *_NEEDS)
"""Methods about whose acceptance something is known before anything is measured."""


@dataclass(frozen=True, slots=True)
class Option:
    """A configuration on an arrangement."""

    configuration: Configuration
    arrangement: Arrangement

    @property
    def kind(self) -> str:
        """Options of a kind differ in knobs and arrangement only."""
        return kind(self.configuration)

    @property
    def text(self) -> str:
        """The option in words."""
        return f"{self.configuration.name} on {self.arrangement.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What bounds the knobs of methods."""

    max_parallel: int | None = None
    """M: positions per target pass and answer at most, its sequences times tokens per sequence, >= 1; None: no
    bound."""
    k1_max: int = DEPTHS[-1]
    """Largest k1 to try, >= 1."""
    rules: str = RULES
    """Schedule of Lookahead Reasoning."""

    @property
    def depths(self) -> tuple[int, ...]:
        """Values of k1 to try."""
        return tuple(k1 for k1 in DEPTHS if k1 <= self.k1_max)

    def allows(self, configuration: Configuration) -> bool:
        """Whether a configuration is within the budget; plain decoding always is."""
        most = configuration.most_sequences * configuration.k2
        return self.max_parallel is None or not configuration.speculates or most <= self.max_parallel

    def k(self, drafted: int) -> int:
        """Return so many drafted tokens per round, or as many as a pass may verify."""
        return drafted if self.max_parallel is None else max(min(drafted, self.max_parallel - 1), 1)


@dataclass(slots=True)
class Considered:
    """Arrangements that hold the models, by what drafts, and the methods that cannot be evaluated."""

    plain: list[Arrangement] = field(default_factory=list)
    """Arrangements of the target without a drafter."""
    tokens: dict[str, list[Arrangement]] = field(default_factory=dict)
    """Token-level method to the arrangements on which the target and its drafter fit."""
    steps: list[Arrangement] = field(default_factory=list)
    """Arrangements of target, draft and judge."""
    adaptive: list[str] = field(default_factory=list)
    """Token-level methods of which the engine may verify the tokens that pay."""
    step_methods: list[str] = field(default_factory=list)
    unknown: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a method to what is missing."""
    budget: Budget = field(default_factory=Budget)


def considered(deployment: Deployment, names: Sequence[str], budget: Budget | None = None) -> Considered:
    """Return what can be evaluated.

    Raises
    ------
    ParameterError : the target does not fit, even without a drafter.
    """
    plain = _plain(deployment)
    result, stages = Considered(plain=plain, budget=budget or Budget()), plain[0].pp
    for name in names:
        spec = method(name)
        if spec.level == "baseline":
            continue
        lacking = _lacking(deployment, spec) or (_one_machine(deployment, spec) if stages > 1 else ())
        if lacking:
            result.unknown[name] = lacking
        elif spec.level == "token":
            fitting = _fitting(deployment, Configuration(method=name), "none", tp=deployment.tp, stages=stages)
            if name == "draft-model" and (draft := deployment.draft) is not None:  # vLLM splits it as the target
                fitting = [one for one in fitting if one.dp == 1 and one.tp in splits(draft, one.tp)]
            result.tokens[name] = fitting
            adapts = name == "block-drafter" and stages == 1 and _adapts(deployment)  # vLLM wants one stage
            result.adaptive += [name] if adapts else []
        elif spec.level == "step":
            result.step_methods.append(name)
    if result.step_methods:
        example = Configuration(method=result.step_methods[0])
        places: tuple[Drafting, ...] = ("own", "shared")
        for drafting in places if deployment.placement == "any" else (deployment.placement,):
            result.steps += _fitting(deployment, example, drafting, tp=deployment.tp)
    for name in [name for name, fitting in result.tokens.items() if not fitting]:
        del result.tokens[name]
        result.unknown[name] = ("room for its drafter next to the target (--gpus, --tp, --precision)",)
    if not result.steps:
        for name in result.step_methods:
            result.unknown[name] = ("room for draft and judge (--gpus, --tp, --placement)",)
        result.step_methods.clear()
    return result


def check_named(deployment: Deployment, names: Sequence[str]) -> None:
    """Refuse methods, named as users type them, that lack what they need whatever the room: others are no answer.

    Raises
    ------
    ParameterError : one needs what is not there; the text says what.
    """
    for name in names:
        specs = [method(one) for one in methods_named([name])]
        lacking = [what for spec in specs if spec.level != "baseline" for what in _lacking(deployment, spec)]
        if lacking:
            raise ParameterError("methods", name, f"cannot be planned here: it needs {'; '.join(lacking)}")


def pays(gain: float) -> bool:
    """Whether a gain over plain decoding is one."""
    return gain > 1.0 + _LEAST


def rank(configuration: Configuration, *, meets: bool, gain: float, seconds: float) -> Place:
    """Return the place of a row: what meets the bounds first, then by gain; plain decoding before what is no gain.

    >>> lookup = Configuration(method="prompt-lookup")
    >>> rank(PLAIN, meets=True, gain=1.0, seconds=2.0) < rank(lookup, meets=True, gain=1.01, seconds=1.0)
    True
    """
    plain = configuration == PLAIN
    return not meets, -(1.0 + _LEAST if plain else gain), not plain, seconds


def _adapts(deployment: Deployment) -> bool:
    """Whether the engine chooses by the drafter's confidence which tokens it verifies: vLLM does of DSpark."""
    engine, option = deployment.engine.name, "enable_adaptive_verification"
    known = not deployment.engine_said or has(engine, deployment.engine_version, option)
    return engine == "vllm" and block_kind(deployment.block) == "dspark" and known


def room_of(deployment: Deployment, configuration: Configuration, arrangement: Arrangement) -> tuple[Room, ...]:
    """Return what fits on the GPUs of one copy.

    Raises
    ------
    ParameterError : the models do not fit.
    """
    return rooms_of(
        list(_models(deployment, configuration, arrangement)),
        gpu_bytes=deployment.gpu.memory,
        context=float(deployment.context),
        engine_share=deployment.memory_share,
        of_free=deployment.engine.of_free,
    )


def _models(deployment: Deployment, configuration: Configuration, arrangement: Arrangement) -> Iterator[Served]:
    target, tp = deployment.target, parallel_of(deployment.target, arrangement.split)
    yield Served(
        role="target",
        name=target.name,
        shape=target.facts.shape,
        precision=target.precision,
        parallel=tp,
        states=deployment.engine.kept_states(configuration.k2 if configuration.token is not None else 0),
        whole_windows=deployment.engine.keeps_windows_whole(target.facts.architecture),
    )
    drafter = drafting_model(deployment, configuration.token)
    if drafter is not None:
        yield Served(
            role="draft",
            name=drafter.name,
            shape=drafter.facts.shape,
            precision=drafter.precision,
            parallel=replace(tp, pp=1) if drafter.facts.shape.layers[0].attention.heads % tp.tp == 0 else Parallel(),
            same_engine=True,
        )
    if not configuration.spec.drafts_steps:
        return
    for role, model in (("draft", deployment.draft), ("judge", deployment.judge)):
        if model is not None:
            own = arrangement.own_gpus > 0
            yield Served(role=role, name=model.name, shape=model.facts.shape, precision=model.precision, own=own)


def _fitting(
    deployment: Deployment, configuration: Configuration, drafting: Drafting, *, tp: int | None = None, stages: int = 1
) -> list[Arrangement]:
    """The arrangements that hold the models."""
    fitting = []
    for arrangement in arrangements(deployment, drafting, tp=tp, stages=stages):
        with suppress(ParameterError):
            room_of(deployment, configuration, arrangement)
            fitting.append(arrangement)
    return fitting


def _plain(deployment: Deployment) -> list[Arrangement]:
    """The arrangements of the target without a drafter, over the fewest machines that hold it."""
    for stages in STAGES:
        if fitting := _fitting(deployment, PLAIN, "none", stages=stages):
            return fitting
    tried = (place for stages in STAGES for place in arrangements(deployment, "none", stages=stages))
    least = min(tried, key=lambda place: next(_models(deployment, PLAIN, place)).weight_bytes)
    room_of(deployment, PLAIN, least)
    raise AssertionError(f"{least.text} holds {deployment.target.name} after all")


def _one_machine(deployment: Deployment, spec: Method) -> tuple[str, ...]:
    """What a method needs where the target is a pipeline over several machines: that it were not, or another engine."""
    if spec.level != "token":
        return ("a target on one machine: steps and a pipeline are not modelled together",)
    engine, name = deployment.engine.name, drafter_name(deployment, spec.name)
    version = deployment.engine_version if deployment.engine_said else ""
    why = over_stages(engine, version, name, deployment.target.facts.architecture)
    return (f"a target on one machine: {why}",) if why else ()


def _unserved(deployment: Deployment) -> Iterator[str]:
    """Why no engine serves the draft as a drafter of tokens."""
    target, draft = deployment.target.facts, deployment.draft
    if draft is not None and target.shape.vocab != draft.facts.shape.vocab:
        yield f"a draft with the target's vocab_size {target.shape.vocab}: {draft.name} has {draft.facts.shape.vocab}"
    engine, version = deployment.engine.name, deployment.engine_version
    if not has(engine, version, "draft_model"):
        yield f"{engine} {first_with(engine, 'draft_model')} or later: {version} has no draft models"


def _unserved_layers(deployment: Deployment) -> Iterator[str]:
    """Why the engine does not serve the head, or the target's own layers, as it is set."""
    layers, k, head = layers_in_turn(deployment), deployment.k, deployment.head
    engine, version = deployment.engine.name, deployment.engine_version
    kind = "" if head is None else head.facts.architecture
    if deployment.engine_said and not has(engine, version, kind):
        yield f"{engine} {first_with(engine, kind)} or later: {version} has no {kind}"
    for one in [k] if isinstance(k, int) else [] if k is None else [entry.k for entry in k.ranges]:
        if not ends_a_turn(one, layers):
            yield f"--k of at most {layers} or a multiple of it, not {one}: {layers} layers draft in turn"


def _unserved_blocks(deployment: Deployment) -> Iterator[str]:
    """Why the engine as it is set does not serve the block drafter."""
    block, engine = deployment.block, deployment.engine.name
    sizes = None if block is None else block.facts.block
    if isinstance(deployment.k, Schedule):
        yield "one --k for all batches: its blocks are drafted whole"
    elif sizes is not None and deployment.k is not None and not sizes.least <= deployment.k <= sizes.most:
        yield f"--k of {sizes.text}: that is what its blocks draft"
    kind = block_kind(block)
    if deployment.engine_said and not has(engine, deployment.engine_version, kind):
        yield f"{engine} {first_with(engine, kind)} or later: {deployment.engine_version} has no {kind}"


_UNSERVED: Final = {"draft-model": _unserved, "eagle": _unserved_layers, "block-drafter": _unserved_blocks}


def _lacking(deployment: Deployment, spec: Method) -> tuple[str, ...]:
    """What a method needs that names do not say."""
    if spec.name in _NEEDS:
        role, words = _NEEDS[spec.name]
        if getattr(deployment, role) is None:
            return (words,)
        unserved = _UNSERVED.get(spec.name)
        return () if unserved is None else tuple(unserved(deployment))
    if spec.name in _KNOWN:
        return ()
    if spec.level == "token":
        return ("tokens per pass, which nobody has published by method and task (specplan calibrate torch)",)
    return (f"scores of {', '.join(sorted(set(spec.roles) - {DRAFT, JUDGE})) or SCORER} (specplan calibrate)",)
