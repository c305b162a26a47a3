"""Predicts a configuration by simulation."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from calibrate.record.files import replacing, write_atomically
from sim.configuration import Configuration
from sim.timeline import Timeline, perfetto
from specplan.api.planning import profile
from specplan.output import SCREEN, percent, progress, table
from specplan.planning.candidates import Request
from specplan.planning.loads.from_profile import FromProfile
from specplan.planning.loads.load_plan import LoadRow, row_at
from specplan.planning.planner import label
from specplan.planning.predict import Prediction, Predictor
from specplan.show.loads.results import row_at_once
from specplan.show.result import Result, flat
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.record.profile import Profile

__all__ = ["Simulated", "save_timeline", "simulate"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Simulated(Result):
    """The prediction of a configuration on the models of a profile."""

    predictor: Predictor
    prediction: Prediction
    concurrency: int | None
    """Answers at once that were requested too."""
    loaded: LoadRow | None
    """Prediction with so many."""

    @property
    def profile(self) -> str:
        """Name of the profile."""
        return self.predictor.profile.name

    def timeline(self, answer: int = 0) -> Timeline:
        """Return the timeline of a simulated answer.

        Raises
        ------
        ParameterError : there is no answer of that number.
        """
        if not 0 <= answer < self.predictor.n_answers:
            rule = f"must be below {self.predictor.n_answers}, the number of answers"
            raise ParameterError("answer", answer, rule)
        return self.predictor.timeline(self.prediction.configuration, answer)

    def records(self) -> list[dict[str, Any]]:
        """Return a single row: the configuration and its prediction."""
        p = self.prediction
        c = p.configuration
        fields: dict[str, Any] = {"method": c.method, "token": c.token, "k1": c.k1, "k2": c.k2, "speedup": p.speedup}
        fields |= {"accuracy": p.accuracy, "seconds_per_answer": p.seconds_per_answer, "accepted": p.accepted}
        fields |= {"wasted_draft": p.wasted_draft, "wasted_target": p.wasted_target}
        return [flat(fields if self.loaded is None else {**fields, "speedup_at_once": self.loaded.gain})]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan simulate --json`` prints."""
        head = {"schema": "specplan.prediction", "schema_version": 1, "profile": self.profile}
        data: dict[str, Any] = {**head, **self.prediction.plain()}
        data["at_once"] = None
        if self.loaded is not None and self.concurrency is not None:
            data["at_once"] = row_at_once(self.concurrency, self.loaded)
        return data

    def text(self, *, verbose: bool = False) -> str:
        """Return the text of ``specplan simulate``, with ``verbose`` that of ``specplan simulate -v``."""
        p = self.prediction
        c, s = p.configuration, p.speedup
        rows = [
            ["speedup over plain decoding", f"{s.value:.3f}", f"95 % interval {s.low:.3f} – {s.high:.3f}"],
            ["seconds per answer", f"{p.seconds_per_answer:.4g}", f"plain decoding {p.baseline_seconds:.4g}"],
            ["draft steps in the answer", percent(p.accepted), ""],
            ["target sequences in flight", f"{p.peak_sequences}", "at the peak"],
            ["tokens per target pass", f"{p.tokens_per_pass:.3f}", ""],
            ["discarded draft tokens", f"{p.wasted_draft:.3f}", "per committed token"],
            ["discarded target tokens", f"{p.wasted_target:.3f}", "per committed token"],
            *self._loaded_rows(),
            *_accuracy(p),
        ]
        parts = ", ".join(f"{name} ±{percent(value)}" for name, value in p.errors.items())
        every = {**c.knobs, **c.token_knobs, "k2": c.k2}
        knobs = ", ".join(f"{name} = {value}" for name, value in every.items() if value is not None)
        title = textwrap.fill(f"{label(c)} on {self.profile}: {knobs}; {p.speedup.n} answers", SCREEN)
        lines = [title, "", table(["quantity", "value", ""], rows), "", f"The interval covers: {parts}."]
        if verbose:
            lines += [f"- {note}" for note in p.notes]
        elif p.notes:
            lines.append("Assumptions: -v.")
        return "\n".join(lines)

    def _loaded_rows(self) -> list[list[str]]:
        if self.loaded is None or self.concurrency is None:
            return []
        n, s, busy = self.concurrency, self.loaded.gain, self.loaded.served.busy
        seconds, busiest = n / self.loaded.answers_per_s, max(busy, key=busy.__getitem__)
        plain = f"plain decoding {seconds * s.value:.4g}; {busiest} busy {percent(busy[busiest], 0)}"
        return [
            [f"speedup with {n} answers at once", f"{s.value:.3f}", f"95 % interval {s.low:.3f} – {s.high:.3f}"],
            [f"seconds per answer, {n} at once", f"{seconds:.4g}", plain],
        ]


def simulate(
    of: Profile | str | Path,
    configuration: str | Configuration,
    *,
    n_answers: int | None = None,
    concurrency: int | None = None,
    corruption: float | None = None,
    places: Mapping[str, str] = MappingProxyType({}),
) -> Simulated:
    """Predict a configuration for the models of a profile, as ``specplan simulate`` does.

    >>> import specplan as sp
    >>> simulated = sp.simulate("lr-deepseek-gsm8k", "lr-async k1=4", n_answers=4)
    >>> 1.0 < simulated.prediction.speedup.value < 2.0
    True

    Parameters
    ----------
    of : the profile, its name or its file.
    configuration : as an object; or its name as in tables, e.g. ``lr-async k1=4 rules=eager + prompt-lookup k2=4``,
        where LR's schedule defaults to released-code for published profiles, else paper.
    n_answers : answers to simulate; default all recorded ones, or 40.
    concurrency : also simulate this number of answers at once on the same engines, in [1, 256].
    corruption : share of acceptance lost after a wrong step, in [0, 1]; default as measured.
    places : role to the role on whose processor its engine runs instead, or ``own``; measured profiles only.

    Raises
    ------
    ParameterError : an unknown configuration, or an argument outside its range.
    """
    given = profile(of)
    if isinstance(configuration, str):
        configuration = Configuration.parse(configuration, rules=Request().rules_for(given))
    if places and not given.engines:
        raise ParameterError("place", given.name, "needs a profile with timings: engines of published ones are drawn")
    predictor = Predictor(given, n_answers=n_answers, corruption=corruption, places=places)
    prediction, loaded = predictor.predict(configuration), None
    if concurrency is not None:
        with progress(f"simulating {concurrency} answers at once", 1) as step_done:
            simulator = FromProfile(predictor.trials, [prediction])
            loaded = row_at(simulator, simulator.option(prediction.configuration), simulator.plain, concurrency)
            step_done()
    return Simulated(predictor=predictor, prediction=prediction, concurrency=concurrency, loaded=loaded)


def save_timeline(timeline: Timeline, path: Path, *, until: float | None = None) -> None:
    """Draw a timeline, or write it as a trace for Perfetto where the name ends in .json."""
    if path.suffix.lower() == ".json":
        write_atomically(path, json.dumps(perfetto(timeline), sort_keys=True) + "\n")
        return
    from sim.gantt import beginning, draw

    with replacing(path) as temporary:
        draw(timeline, temporary, until=beginning(timeline) if until is None else until)


def _accuracy(p: Prediction) -> list[list[str]]:
    """Rows about accuracy, where the profile's task has ground truth."""
    rows = []
    if p.false_accepts is not None:
        f = p.false_accepts
        rows.append(
            ["accepted wrong draft steps", f"{f.value:.3f}", f"per answer, {max(f.low, 0.0):.3f} – {f.high:.3f}"]
        )
    for name, a in (("right answers", p.accuracy), ("right answers, plain decoding", p.baseline_accuracy)):
        if a is not None:
            rows.append([name, f"{a.value:.3f}", f"95 % interval {a.low:.3f} – {a.high:.3f}"])
    return rows
