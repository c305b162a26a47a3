"""The shipped priors are what the fit gives, and cover targets that were left out."""

import math
import os
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from specplan.worlds.prior_constants import constants
from theory.block_drafting import DFLASH, block_tokens
from workshop.acceptance_curves import LAWS, Curve, curves_in
from workshop.fit_priors import fit, held_out, thinking_modes

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SPECPLAN_DATA", ROOT.parent / "shared" / "data")) / "speculation"

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the measured acceptance lengths are not part of the project, nor beside it (shared/data)"
)


def chain(level: float, slope: float, positions: int) -> list[float]:
    """Rates of a chain's positions."""
    return [1.0 / (1.0 + math.exp(-(level + slope * math.log(i)))) for i in range(1, positions + 1)]


def curve_of(rates: list[float], **named: str) -> Curve:
    lengths = dict(enumerate((1.0 + np.cumsum(np.cumprod(rates))).tolist(), 1))
    return Curve(**{"target": "t", "draft": "d", "method": "mtp", "domain": "code", **named}, lengths=lengths)


def test_curves_of_chains_and_blocks_give_their_level_and_slope_back() -> None:
    level, slope = 1.2, -0.3
    assert curve_of(chain(level, slope, 8)).level_slope == pytest.approx((level, slope), abs=0.01)  # it leans a little
    lengths = {k: float(block_tokens(chain(level, slope, 15), 15, k)) for k in (3, 7, 11, 15)}
    block = Curve(target="t", draft="d", method="dflash", domain="code", lengths=lengths)
    assert block.level_slope_of(15, DFLASH) == pytest.approx((level, slope), abs=0.001)
    assert block.level_slope[1] < slope - 1.0, "as a chain, what longer blocks lose looks like lost further tokens"


def test_what_thinking_does_is_told_by_the_other_targets_where_it_does_the_same_to_all() -> None:
    def curve(target: str, mode: str, level: float) -> Curve:
        return curve_of(chain(level, -0.3, 3), target=target, draft=f"d thinking_{mode}")

    levels = {"a": 0.5, "b": 1.0, "c": 1.4}
    curves = [curve(t, mode, level + 0.4 * (mode == "off")) for t, level in levels.items() for mode in ("on", "off")]
    found = thinking_modes([*curves, curve("only with it", "on", 1.0)])
    assert [one.target for one in found] == list(levels)
    assert all(one.apart == pytest.approx(0.4, abs=0.02) for one in found)
    assert all(one.shifted < 0.01 < one.unmoved for one in found)


@needs_data
def test_thinking_moves_targets_both_ways_so_that_the_prior_is_one_for_both_modes() -> None:
    found = thinking_modes(curves_in(DATA))
    assert len(found) == 4
    assert min(one.apart for one in found) < 0.0 < max(one.apart for one in found)
    assert fmean(one.shifted for one in found) > 1.3 * fmean(one.unmoved for one in found)


@needs_data
def test_the_shipped_constants_are_fitted() -> None:
    fitted, shipped = fit(curves_in(DATA)), constants()
    assert fitted.token.keys() == shipped.token.keys()
    for method, of in fitted.token.items():
        assert of.level_slope == pytest.approx(shipped.token[method].level_slope, abs=1e-3)
        assert of.covariance == pytest.approx(shipped.token[method].covariance, abs=1e-3)
        assert of.block == shipped.token[method].block
    assert fitted.lookup == shipped.lookup
    assert fitted.step == shipped.step
    assert fitted.long_prompts == shipped.long_prompts


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("domain_known", "error"), [(True, 0.2135), (False, 0.247)])
def test_intervals_cover_families_that_were_left_out(domain_known: bool, error: float) -> None:
    """The intervals are of 95 %; between 92 and 98 % is asked for, of rows that come in groups of one family."""
    held = held_out(curves_in(DATA), domain_known=domain_known)
    chains = [one for one in held if one.curve.method not in LAWS]
    assert len(chains) == 268
    assert 0.92 <= fmean(one.covered for one in chains) <= 0.98
    assert fmean(abs(one.value / one.measured - 1.0) for one in chains) == pytest.approx(error, abs=0.005)
    blocks = [one for one in held if one.curve.method in LAWS]
    assert len(blocks) == 37
    assert fmean(one.covered for one in blocks) >= 0.90, "of three targets each"
