"""Predict Lookahead Reasoning's Table 1 from the models' names: ``python -m workshop.names_table``.

Nothing of the pairs' times is taken: shapes come from the names, passes from the model of two H100 for the target and
one each for draft and judge, as the paper has them. Acceptance is the table's column, and once more the prior of the
task. The baseline is plain decoding on the target's two GPUs, as in the paper, not on all four.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Final

from calibrate.record.library import bundled
from sim.configuration import PLAIN, Configuration
from specplan.output import table
from specplan.planning.loads.from_names import FromNames
from specplan.planning.loads.options import Option
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.model_files import shape_of
from specplan.worlds.request import Deployment, ServedModel
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named
from workshop.make_published import DATASETS, PAIRS

__all__ = ["rows"]

_PLACED: Final = Arrangement(tp=2, replicas=1, drafting="own", own_gpus=2)
_ALONE: Final = Arrangement(tp=2, replicas=1)
_ANSWER: Final = 4000
_CONTEXT: Final = 4200


def rows() -> list[tuple[str, float, float, float]]:
    """Return by row its name, the published speedup, and the predicted ones: given the acceptance, and by the prior."""
    found = []
    for name in (f"lr-{pair}-{dataset}" for pair in PAIRS for dataset in DATASETS):
        profile = bundled(name)
        figures = profile.published
        assert figures is not None
        assert figures.k1 is not None
        assert figures.step_speedup is not None
        models = {role: _served(record.name) for role, record in profile.models.items()}
        deployment = Deployment(
            target=models["target"],
            draft=models["draft"],
            judge=models["judge"],
            gpu=gpu_named("H100"),
            gpus=4,
            engine=engine_named("vllm", "0.11.1"),
            context=_CONTEXT,
            answer_tokens=_ANSWER,
            task=str(profile.settings["dataset"]),
            alpha1=figures.alpha1.value,
        )
        ahead = Configuration(method="lr-async", k1=figures.k1, rules="released-code")
        found.append(
            (
                name,
                figures.step_speedup.value,
                _speedup(deployment, ahead),
                _speedup(replace(deployment, alpha1=None), ahead),
            )
        )
    return found


def _served(name: str) -> ServedModel:
    return ServedModel.published(shape_of(name))


def _speedup(deployment: Deployment, configuration: Configuration) -> float:
    simulator = FromNames(deployment)
    return simulator.reported(Option(configuration, _PLACED), Option(PLAIN, _ALONE), 1)[0].value


def _error(predicted: float, published: float) -> float:
    return predicted / published - 1.0


def _cells(predicted: float, published: float) -> tuple[str, str]:
    return f"{predicted:.2f}", f"{100 * _error(predicted, published):+.0f} %"


def main() -> None:
    """Print the table."""
    found = rows()
    cells = [
        [name, f"{published:.2f}", *_cells(given, published), *_cells(prior, published)]
        for name, published, given, prior in found
    ]
    headings = ["row", "published", "acceptance given", "error", "acceptance by prior", "error"]
    print(table(headings, cells))
    for words, column in (("acceptance given", 2), ("acceptance by prior", 3)):
        errors = [abs(_error(float(row[column]), row[1])) for row in found]
        mean, largest = 100 * fmean(errors), 100 * max(errors)
        print(f"{words}: mean absolute error {mean:.1f} %, largest {largest:.0f} %, n {len(errors)}")


if __name__ == "__main__":
    main()
