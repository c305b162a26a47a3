"""From the timings of one H100's servers, the gains of a draft model by load are near those that were measured."""

import pytest

from calibrate.record.library import bundled
from sim.configuration import Configuration
from specplan.planning.loads.from_profile import FromProfile
from specplan.planning.loads.load_plan import row_at
from specplan.planning.predict import Predictor

MEASURED = {1: 2.32, 2: 2.22, 4: 1.89, 8: 1.87}
"""Answers at once -> decoding time per token of plain decoding / of 3 drafted tokens, whole answers in closed loops."""


def test_gains_by_load_are_near_those_measured() -> None:
    predictor = Predictor(bundled("h100-vllm-servers"), uncertainty=False)
    drafting = Configuration(method="draft-model", k2=4)
    alone = predictor.predict(drafting)
    simulator = FromProfile(predictor.trials, [alone])
    option = simulator.option(drafting)
    planned = {n: row_at(simulator, option, simulator.plain, n).gain.value for n in MEASURED}
    assert planned == pytest.approx(MEASURED, rel=0.12)
