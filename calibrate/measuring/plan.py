"""What a calibration measures: which models, on which questions, how much of each, and when it stops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Protocol

from calibrate.measuring.answers import Inspection
from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.measuring.stopping import Stopping
from calibrate.measuring.token_methods import Speculating, TokenSetting
from calibrate.record.engine_records import EngineRecord
from calibrate.record.journal import digest
from calibrate.record.profile import ModelRecord
from calibrate.running.problem import Problem, Truth
from calibrate.running.wall_clock import WallClock
from theory.errors import ParameterError

__all__ = ["CalibrationPlan", "MeasurableModels"]

_TOKEN_ANSWERS: Final = 40
_TOKEN_RUNS: Final = 480
_ROUNDS_PER_ANSWER: Final = 0.3
_ROUNDS: Final = (2, 6)
"""Fewest and most in which a context is timed; of one alone nobody could tell how well it is known."""


class MeasurableModels(Speculating, Protocol):
    """Models in their roles that can be measured: the kinds of `calibrate.models`.

    Engines are of the set's own kind, handed back to it as it opened them; they report what they do.
    """

    @property
    def n_engines(self) -> int:
        """Engines that `open` opens: roles may share one."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the sampling."""
        ...

    @property
    def is_bundled(self) -> bool:
        """Whether it is the bundled pair, whose task has ground truth."""
        ...

    def settings(self) -> dict[str, str | int | float | bool]:
        """Return everything as plain settings, for a profile."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return the settings on which results depend."""
        ...

    def token_settings(self) -> tuple[TokenSetting, ...]:
        """Return the token-level methods that a calibration runs."""
        ...

    def inspection(self) -> Inspection:
        """Return what these models can be asked about drafts."""
        ...

    def open(self) -> AbstractAsyncContextManager[tuple[Mapping[str, Any], WallClock]]:
        """Open the engines; yield them by role, and a wall clock on them."""
        ...

    async def warm_up(self, engine: Any, seconds: float) -> Any:
        """Get an engine over its first, slow work; return the record of that, for `time_engine`."""
        ...

    async def time_engine(
        self, engine: Any, options: MeasureOptions, *, warmup: Any, progress: Callable[[str], None]
    ) -> EngineRecord:
        """Measure an engine; ``progress`` is called ``options.n_parts`` times."""
        ...

    def record(self, role: str, engine: Any) -> ModelRecord:
        """Return what is known about the model of a role."""
        ...

    async def stamp(self, engines: dict[str, Any]) -> dict[str, Any]:
        """Return fields of the provenance: engine, engine_version, and device or notes where there are any."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlan:
    """What to measure."""

    models: MeasurableModels
    problems: tuple[Problem, ...]
    """With a stopping rule as many as are answered at most."""

    texts: tuple[Problem, ...] = ()
    """Further questions, answered several at a time: they show what is said, at a fraction of the price, not when."""

    truth: Truth | None = None
    engine: MeasureOptions = field(default_factory=MeasureOptions)
    warm_up_s: float = 1.0
    token: tuple[TokenSetting, ...] = ()
    """Token-level methods to run besides, each with its knobs."""

    n_token_answers: int | None = None
    """How many of the problems are answered with them; None: so many that all methods together make 480 runs, 40 at
    least. They are spread evenly, since machines have slow phases; with a stopping rule, which may come early, they are
    the first ones."""

    stopping: Stopping | None = None
    """When to stop; None: when all problems are answered."""

    patience_s: float = 60.0
    """How long a piece is tried again that a server breaks off, s. A piece that cannot succeed is not tried again."""

    name: str = "profile"
    command: str = ""

    def __post_init__(self) -> None:
        if len(self.problems) < 2:
            raise ParameterError("problems", len(self.problems), "must be at least 2 questions, for a standard error")
        asked = (*self.problems, *self.texts)
        if len({problem.name for problem in asked}) != len(asked):
            raise ParameterError("problems", len(asked), "must have different names")
        if self.stopping is not None and self.stopping.max_answers != len(self.problems):
            raise ParameterError(
                "problems", len(self.problems), f"must be {self.stopping.max_answers}, the most allowed"
            )
        if not 0.0 <= self.patience_s < float("inf"):
            raise ParameterError("patience", self.patience_s, "must be a finite number of seconds >= 0")

    def settings(self) -> dict[str, Any]:
        """Return everything that the pieces depend on: a journal made with other settings cannot be resumed."""
        stopping = {} if self.stopping is None else {f"stop_{k}": v for k, v in asdict(self.stopping).items()}
        return {
            **self.models.identity(),
            **{f"measure_{name}": value for name, value in asdict(self.engine).items()},
            "measure_rounds": self.n_rounds,
            **stopping,
            **({"token": [setting.key for setting in self.token]} if self.token else {}),
            **({} if self.n_token_answers is None else {"token_answers": self.n_token_answers}),
            **({"texts_sha256": digest(*(text.prompt for text in self.texts))} if self.texts else {}),
            "warm_up_s": self.warm_up_s,
            "problems_sha256": digest(*(problem.prompt for problem in self.problems)),
        }

    def takes_token_answer(self, index: int) -> bool:
        """Whether the problem of that index is answered with the token-level methods too."""
        n, most = len(self.problems), self.n_token_answers
        if most is None:
            most = max(_TOKEN_ANSWERS, _TOKEN_RUNS // max(len(self.token), 1))
        return index < most if self.stopping is not None else (index + 1) * most // n > index * most // n

    @property
    def n_answers(self) -> int:
        """Answers in all; with a stopping rule those before its first look."""
        return len(self.problems) if self.stopping is None else self.stopping.min_answers

    @property
    def n_rounds(self) -> int:
        """Rounds of timing beside these answers: unless it is said, three of each context for ten answers, 2 to 6.

        A round may take as long as several answers, and few answers leave more open than few timings do.
        """
        if self.engine.rounds is not None:
            return self.engine.rounds
        least, most = _ROUNDS
        return len(self.engine.contexts) * min(max(math.ceil(self.n_answers * _ROUNDS_PER_ANSWER), least), most)

    def options_of_round(self, number: int) -> MeasureOptions:
        """What the round of that number measures: the contexts take turns, if there are rounds enough for all.

        Many short rounds tell more than few long ones: what a machine's slow phase does to one, it does to all of it.
        """
        contexts = self.engine.contexts
        turn = contexts if self.n_rounds < len(contexts) else (contexts[number % len(contexts)],)
        return replace(self.engine, seed=self.engine.seed + number, contexts=turn)

    @property
    def parts_per_round(self) -> int:
        """Parts of a round of timing all engines."""
        return self.models.n_engines * self.options_of_round(0).n_parts

    @property
    def n_parts(self) -> int:
        """Parts of the work, for a progress bar; with a stopping rule the least."""
        return self.n_rounds * self.parts_per_round + self.models.n_engines + self.n_answers + len(self.texts)
