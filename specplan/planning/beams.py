"""Methods that choose among candidates, in a plan: a small grid of their knobs, as far as candidates are recorded.

Width, beams kept, and the rewards at which a draft stands or takes over trade accuracy for time. So unlike k1 they
cannot be chosen by time alone: a plan takes the fastest setting that costs no more accuracy than is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from types import MappingProxyType
from typing import Final

from calibrate.record.profile import Profile
from calibrate.replay.traces import candidates_known
from sim.catalogue import Method
from sim.configuration import Configuration
from sim.operations import DRAFT, REWARD

__all__ = ["GRID", "beam_configurations", "knobs_in_words"]

GRID: Final[Mapping[str, tuple[int | float, ...]]] = MappingProxyType(
    {"width": (2, 4), "keep": (1, 2), "threshold": (0.7, 0.9), "tau": (0.8, 0.95)}
)
"""Values to try of the knobs that trade accuracy for time; the others stay at their defaults. Of a width of 1 nothing
would be chosen."""


def beam_configurations(profile: Profile, spec: Method, max_parallel: int) -> Iterator[Configuration]:
    """Settings of a method of the beam level that a profile can replay and a budget allows.

    Parameters
    ----------
    profile : nothing is proposed unless every answer has recorded candidates with the scores that the method asks for.
    spec : the method.
    max_parallel : target sequences in flight at most.
    """
    known = candidates_known(profile.answers) if _is_scored(profile, spec) else 0
    names = [name for name in GRID if spec.has(name)]
    for values in product(*(GRID[name] for name in names)):
        knobs = dict(zip(names, values, strict=True))
        configuration = Configuration(method=spec.name, knobs=knobs)
        needed = spec.drafts_seen(**configuration.knobs)
        if needed <= known and configuration.most_sequences <= max_parallel:
            yield configuration


def knobs_in_words(configuration: Configuration) -> str:
    """The knobs that the plan has chosen, e.g. ``width 4, tau 0.8``."""
    return ", ".join(f"{name} {value:g}" for name, value in configuration.knobs.items() if name in GRID)


def _is_scored(profile: Profile, spec: Method) -> bool:
    """Whether rewards of all candidates are recorded, and of drafts what else the method asks for."""
    others = set(spec.roles) - {DRAFT}
    positions = [position for answer in profile.answers for position in answer.beams]
    return all(others <= one.drafts.scores.keys() and REWARD in one.targets.scores for one in positions)
