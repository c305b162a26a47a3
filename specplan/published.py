"""How well the simulator predicts the published table, and what that says about a prediction for one of its rows.

``python -m specplan.published`` predicts every row of Lookahead Reasoning's Table 1 from its acceptance column and
prints predicted beside published; ``--write`` renews ``table1.json``, from which `model_error` reads. For a row, the
error is measured on the *other* rows: its own published speedup never enters its prediction.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean

__all__ = ["ModelError", "Row", "model_error", "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell pair of the table: simulated and published."""

    name: str
    """Profile."""
    rules: str
    """Schedule that was simulated."""
    closed_form: float
    """f_async of the published acceptance and c1, [-]."""
    step_simulated: float
    """Speedup of LR alone, simulated, [-]."""
    step_published: float
    """The paper's."""
    token_published: float
    """Speedup of token-level speculation alone, published, [-]; the simulation of both levels is fitted to it."""
    combined_simulated: float
    """Speedup of both levels, simulated, [-]."""
    combined_published: float
    """The paper's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelError:
    """log(published) = gain log(simulated) + error, on the rows other than the one in question.

    A line through the origin: where nothing is speculated there is nothing to correct.
    """

    gain: float
    """Slope, [-]; below 1 where the simulator promises too much."""

    spread: float
    """Standard deviation of the error of one row, [-]."""

    n: int
    """Rows it was measured on."""

    @property
    def half_width(self) -> float:
        """Half-width of a 95 % prediction interval for the logarithm of one more row, [-]; 0 without rows."""
        if self.n < 2:
            return 0.0
        from sim.estimate import student_quantile

        return student_quantile(0.95, self.n - 1) * self.spread * math.sqrt(1.0 + 1.0 / self.n)

    def corrected(self, simulated: float) -> float:
        """The speedup to expect where ``simulated`` was simulated."""
        return math.exp(self.gain * math.log(simulated))


@cache
def rows() -> tuple[Row, ...]:
    """The committed comparison."""
    text = (files("specplan") / "table1.json").read_text(encoding="utf-8")
    return tuple(Row(**record) for record in json.loads(text)["rows"])


def model_error(name: str, *, combined: bool, rules: str) -> ModelError:
    """Error of the simulator on the rows of the table other than ``name``.

    Parameters
    ----------
    name : profile to leave out.
    combined : whether of both levels together, or of LR alone.
    rules : schedule that is simulated.
    """
    others = [row for row in rows() if row.rules == rules and row.name != name]
    pairs = [_pair(row, combined) for row in others]
    return fit_error([math.log(simulated) for simulated, _ in pairs], [math.log(published) for _, published in pairs])


def fit_error(simulated: list[float], published: list[float]) -> ModelError:
    """Least squares through the origin, on logarithms.

    >>> fit_error([0.1, 0.2, 0.3], [0.05, 0.1, 0.15]).gain
    0.5
    """
    n = len(simulated)
    gain = sum(x * y for x, y in zip(simulated, published, strict=True)) / sum(x * x for x in simulated)
    squares = sum((y - gain * x) ** 2 for x, y in zip(simulated, published, strict=True))
    return ModelError(gain=round(gain, 12), spread=math.sqrt(squares / (n - 1)), n=n)


def _pair(row: Row, combined: bool) -> tuple[float, float]:
    return (row.combined_simulated, row.combined_published) if combined else (row.step_simulated, row.step_published)


def simulated_rows(rules: str, n_answers: int = 60) -> list[Row]:
    """Simulate every row of the table at its published k1 and k2."""
    from calibrate import profiles
    from calibrate.profiles.make_published import DATASETS, PAIRS
    from specplan.predict import Configuration, Predictor
    from theory.speedup import f_async

    found = []
    for name in (f"lr-{pair}-{dataset}" for pair in PAIRS for dataset in DATASETS):
        profile = profiles.bundled(name)
        figures = profile.published
        assert figures is not None
        assert figures.k1 is not None
        assert figures.token_k2 is not None
        assert figures.step_speedup is not None
        assert figures.token_speedup is not None
        assert figures.combined_speedup is not None
        predictor = Predictor(profile, n_answers=n_answers, uncertainty=False)
        step = Configuration(method="lr-async", k1=figures.k1, rules=rules)  # type: ignore[arg-type]
        both = Configuration(method="lr-async", k1=figures.k1, k2=figures.token_k2, rules=rules)  # type: ignore[arg-type]
        found.append(
            Row(
                name=name,
                rules=rules,
                closed_form=round(float(f_async(figures.alpha1.value, figures.c1.value, figures.k1)), 4),
                step_simulated=round(predictor.screen(step, n_answers=n_answers), 4),
                step_published=figures.step_speedup.value,
                token_published=figures.token_speedup.value,
                combined_simulated=round(predictor.screen(both, n_answers=n_answers), 4),
                combined_published=figures.combined_speedup.value,
            )
        )
    return found


def report(found: list[Row]) -> str:
    """The table, predicted beside published, with the mean errors below it."""
    from specplan.output import table

    lines = []
    for row in found:
        step, both = (_left_out(found, row, combined) for combined in (False, True))
        cells = [row.closed_form, row.step_simulated, step, row.step_published]
        cells += [row.combined_simulated, both, row.combined_published]
        lines.append([row.name, *(f"{cell:.2f}" for cell in cells)])
    head = ["profile", "closed form", "LR: simulated", "corrected", "published"]
    head += ["LR+SD: simulated", "corrected", "published"]
    return table(head, lines) + "\n\n" + "\n".join(_summary(found))


def _left_out(found: list[Row], row: Row, combined: bool) -> float:
    """The prediction for a row, corrected by what the other rows say."""
    pairs = [_pair(other, combined) for other in found if other.name != row.name]
    error = fit_error([math.log(x) for x, _ in pairs], [math.log(y) for _, y in pairs])
    return error.corrected(_pair(row, combined)[0])


def _summary(found: list[Row]) -> list[str]:
    def mean_error(predicted: list[float], published: list[float]) -> str:
        return f"{100 * fmean(abs(p / q - 1.0) for p, q in zip(predicted, published, strict=True)):.1f} %"

    step = [row.step_published for row in found]
    both = [row.combined_published for row in found]
    product = [100 * (row.step_published * row.token_published / row.combined_published - 1.0) for row in found]
    return [
        f"Mean error over {len(found)} rows, schedule {found[0].rules!r}, at k1 = 6:",
        f"  LR alone: closed form {mean_error([row.closed_form for row in found], step)}, "
        f"simulated {mean_error([row.step_simulated for row in found], step)}, "
        f"corrected by the other rows {mean_error([_left_out(found, row, False) for row in found], step)}",
        f"  LR with token speculation: simulated {mean_error([row.combined_simulated for row in found], both)}, "
        f"corrected by the other rows {mean_error([_left_out(found, row, True) for row in found], both)}",
        f"  The product of the published separate speedups overshoots the published combined one by "
        f"{min(product):.0f} to {max(product):.0f} %",
    ]


def main() -> None:
    """Print the comparison; ``--write`` also renews table1.json."""
    import sys
    from pathlib import Path

    from calibrate.profile import write_atomically
    from specplan.predict import RULES

    by_rules = {rules: simulated_rows(rules) for rules in RULES}
    if "--write" in sys.argv[1:]:
        records = [asdict(row) for found in by_rules.values() for row in found]
        text = json.dumps({"schema_version": 1, "rows": records}, indent=1, sort_keys=True) + "\n"
        write_atomically(Path(__file__).with_name("table1.json"), text)
    print("\n\n".join(report(found) for found in by_rules.values()))  # noqa: T201 - a script


if __name__ == "__main__":
    main()
