"""Plan of a calibration: models, questions, numbers of timings, and the stopping rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from calibrate.engines.protocol import Progress
from calibrate.engines.speculation import Decoding, Speculation
from calibrate.engines.torch.cuda.telemetry import GpuState
from calibrate.loads.levels import ROUNDS, LoadOptions
from calibrate.measuring.answers import Inspection, kept_texts
from calibrate.measuring.engine_timings import MeasureOptions, WarmUp
from calibrate.measuring.stopping import Stopping
from calibrate.record.engine_records import EngineRecord
from calibrate.record.journal import Journal
from calibrate.record.profile import ModelRecord
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem, Truth
from calibrate.running.wall_clock import WallClock
from sim.operations import Generate
from sim.roles import TARGET
from theory.errors import ParameterError

__all__ = ["CalibrationPlan", "MeasurableModels", "reaching"]

_CLIENTS: Final = (2, 4, 8)
"""Numbers of clients where none are named."""
_CLIENT_ROUNDS: Final = 2
"""Rounds with them where no loads are measured, with whose rounds they would take turns."""
_TOKEN_ANSWERS: Final = 40
_TOKEN_RUNS: Final = 480
_LOOKED_AT: Final = 64
"""Questions whose lengths are counted."""
_ROOM: Final = 0.7
"""Share of an engine's longest context that random prompts may fill: words are more tokens than in a text, [-]."""
_ROUNDS_PER_ANSWER: Final = 0.3
_ROUNDS: Final = (2, 6)
"""Least and largest number of rounds in which a context is timed; at least two, to estimate the variance."""


class MeasurableModels(Protocol):
    """A set of models, by role, that can be measured: the kinds of `calibrate.models`.

    Engines have the set's own type and are passed back to it as it opened them; they report their work.
    """

    @property
    def n_engines(self) -> int:
        """Engines that `open` opens; roles may share an engine."""

    @property
    def seed(self) -> int:
        """Seed of the sampling."""

    @property
    def is_bundled(self) -> bool:
        """Whether it is the bundled pair, whose task has ground truth."""

    @property
    def by_load(self) -> bool:
        """Whether a calibration measures the target by load by default."""

    def settings(self) -> dict[str, str | int | float | bool]:
        """Return all settings as plain data, for a profile."""

    def identity(self) -> dict[str, Any]:
        """Return the settings on which results depend."""

    def token_settings(self) -> tuple[Decoding, ...]:
        """Return the token-level methods that a calibration runs."""

    def speculation(self, method: str, knobs: Mapping[str, Any]) -> Speculation:
        """Return the options of a request that select a token-level method."""

    def inspection(self) -> Inspection:
        """Return the verdicts and scores of drafts that these models provide."""

    def open(self) -> AbstractAsyncContextManager[tuple[Mapping[str, Any], WallClock]]:
        """Open the engines; yield them by role, and a wall clock on them."""

    async def warm_up(self, engine: Any, seconds: float) -> WarmUp:
        """Warm up an engine; return the timings of the warm-up."""

    async def time_engine(self, engine: Any, options: MeasureOptions, progress: Callable[[str], None]) -> EngineRecord:
        """Measure an engine; ``progress`` is called ``options.n_parts`` times."""

    def record(self, role: str, engine: Any) -> ModelRecord:
        """Return the profile's entry for the model of a role."""

    def gpus(self) -> Sequence[GpuState]:
        """Return what the GPUs of the models say of themselves now; none where they are not of this machine."""

    async def stamp(self, engines: dict[str, Any]) -> dict[str, Any]:
        """Return fields of the provenance: engine, engine_version, and optionally device or notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlan:
    """The plan of a calibration."""

    models: MeasurableModels
    problems: tuple[Problem, ...]
    """Questions to answer; with a stopping rule the most that are answered."""
    texts: tuple[Problem, ...] = ()
    """Further questions, answered concurrently without timing: their texts cost a fraction of the time."""
    texts_s: float = math.inf
    """Time after which no further of these questions is begun, s."""
    truth: Truth | None = None
    engine: MeasureOptions = field(default_factory=MeasureOptions)
    reach: bool = False
    """Whether contexts and prompts are timed at the lengths of the questions and answers too, where these are longer
    than those of ``engine``."""
    warm_up_s: float = 1.0
    token: tuple[Decoding, ...] = ()
    """Token-level methods to run too, each with its knobs."""
    n_token_answers: int | None = None
    """Number of problems that are answered with them; None: as many as give 480 runs of all methods together, at least
    40. They are spread evenly, since machines have slow phases; with a stopping rule, which may end early, they are the
    first ones."""
    loads: LoadOptions | None = None
    """Loads at which the target is measured, plain and with every token-level method; None: none."""
    stopping: Stopping | None = None
    """When to stop; None: when all problems are answered."""
    timings_share: float | None = None
    """Without a stopping rule: part of the planned speedup's half-width that timings leave / that which answers leave
    at which timing rounds end, > 0. None: all rounds are made."""
    patience_s: float = 60.0
    """Time for which a piece is repeated after transient errors of a server, s. Other errors are raised at once."""
    name: str = "profile"
    command: str = ""

    def __post_init__(self) -> None:
        n, most = len(self.problems), None if self.stopping is None else self.stopping.max_answers
        if n < 2:
            raise ParameterError("problems", n, "must be at least 2 questions, for a standard error")
        questions = (*self.problems, *self.texts)
        if len({problem.name for problem in questions}) != len(questions):
            raise ParameterError("problems", len(questions), "must have different names")
        if most is not None and most != n:
            raise ParameterError("problems", n, f"must be {most}, the most allowed")
        if self.timings_share is not None and self.stopping is not None:
            rule = "has no use where a precision decides: leave it out"
            raise ParameterError("timings_share", self.timings_share, rule)
        if not 0.0 <= self.patience_s < float("inf"):
            raise ParameterError("patience", self.patience_s, "must be a finite number of seconds >= 0")

    def settings(self) -> dict[str, Any]:
        """Return all settings that the pieces depend on: a journal with other settings cannot be resumed.

        Questions are not among them, nor how many there are: a piece has its question's key, and one that another
        number of questions does not ask for is ignored.
        """
        stopping = {} if self.stopping is None else {f"stop_{k}": v for k, v in asdict(self.stopping).items()}
        return {
            **self.models.identity(),
            **{f"measure_{name}": value for name, value in asdict(self.engine).items()},
            **({"reach": True} if self.reach else {}),
            **stopping,
            **({"token": [setting.key for setting in self.token]} if self.token else {}),
            **({} if self.timings_share is None else {"timings_share": self.timings_share}),
            **({} if self.n_token_answers is None else {"token_answers": self.n_token_answers}),
            **({} if self.loads is None else {f"loads_{name}": value for name, value in asdict(self.loads).items()}),
            "warm_up_s": self.warm_up_s,
            "plain_answers": "one request",
        }

    @property
    def decodings(self) -> tuple[Decoding, ...]:
        """What is measured by load: plain decoding, and the token-level methods."""
        speculating = (replace(one, speculation=self.models.speculation(one.method, one.knobs)) for one in self.token)
        return () if self.loads is None else (Decoding(), *speculating)

    def takes_token_answer(self, index: int) -> bool:
        """Whether problem ``index`` is answered with the token-level methods too."""
        n, most = len(self.problems), self.n_token_answers
        if most is None:
            most = max(_TOKEN_ANSWERS, _TOKEN_RUNS // max(len(self.token), 1))
        return index < most if self.stopping is not None else (index + 1) * most // n > index * most // n

    @property
    def n_answers(self) -> int:
        """Answers in all; with a stopping rule the answers before its first look."""
        return len(self.problems) if self.stopping is None else self.stopping.min_answers

    @property
    def n_rounds(self) -> int:
        """Rounds of timing for these answers: by default three of each context for ten answers, at least 2, at most 6.

        A round may take as long as several answers, and few answers increase the error more than few timings do.
        """
        if self.engine.rounds is not None:
            return self.engine.rounds
        least, most = _ROUNDS
        return len(self.engine.contexts) * min(max(math.ceil(self.n_answers * _ROUNDS_PER_ANSWER), least), most)

    def options_of_round(self, number: int) -> MeasureOptions:
        """Options of a round, by its number: the contexts take turns if there are enough rounds for all.

        Many short rounds give a smaller error than few long ones, as a slow phase of the machine affects a whole round.
        """
        contexts = self.engine.contexts
        turn = contexts if self.n_rounds < len(contexts) else (contexts[number % len(contexts)],)
        return replace(self.engine, seed=self.engine.seed + number, contexts=turn)

    @property
    def parts_per_round(self) -> int:
        """Parts of a round of timing all engines."""
        return self.models.n_engines * self.options_of_round(0).n_parts

    @property
    def clients(self) -> tuple[int, ...]:
        """Numbers of clients that are answered step by step at a time, two questions each, where there are as many."""
        if not self.models.inspection().drafts:
            return ()
        named = () if self.loads is None else self.loads.levels
        return tuple(n for n in sorted(set(named or _CLIENTS)) if 1 < n <= self.n_answers // 2)

    @property
    def client_rounds(self) -> int:
        """Rounds with several clients, at most."""
        return _CLIENT_ROUNDS if self.loads is None else ROUNDS

    @property
    def n_parts(self) -> int:
        """Parts of the work, for a progress bar; with a stopping rule the least number, of loads the largest."""
        rounds = self.n_rounds * self.parts_per_round
        with_clients = self.client_rounds * len(self.clients)
        loops = 0 if self.loads is None else ROUNDS * len(self.loads.most_levels) * (1 + len(self.token))
        return rounds + self.models.n_engines + self.n_answers + len(self.texts) + loops + with_clients


async def reaching(plan: CalibrationPlan, clock: WallClock, journal: Journal, patiently: Patience) -> CalibrationPlan:
    """Return the plan with contexts and prompts as long as those of its questions and answers, if it asks for that."""
    if not plan.reach:
        return plan
    if "lengths" not in journal:
        journal.add("lengths", await patiently(partial(_lengths, plan, clock, kept_texts(journal, plan.texts))))
    return replace(plan, engine=plan.engine.reaching(**journal["lengths"]))


async def _lengths(plan: CalibrationPlan, clock: WallClock, texts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The arguments of `MeasureOptions.reaching`; without texts, the first two questions are answered."""
    roots = [await clock.root(problem.prompt) for problem in plan.problems[:_LOOKED_AT]]
    prompts = [root.n_tokens for root in roots]
    by_steps = (([one["target"] for one in r["steps"]], r["baseline"]) for r in (text["record"] for text in texts))
    answers = [sum(step["tokens"] for step in own or plain) for own, plain in by_steps]  # without a draft: plain ones
    if not answers:
        requests = [Generate(TARGET, root, whole=True) for root in roots[:2]]
        replies = [await clock.generate(one, f"length {i}", Progress()) for i, one in enumerate(requests)]
        answers = [reply.record.n_generated for reply in replies]
    end = max(prompts) + max(answers)
    most = clock.backend(TARGET).describe().get("max_context")
    if most:
        end = min(end, int(_ROOM * most))
    return {"shortest": min(prompts), "longest": min(max(prompts), end), "end": end}
