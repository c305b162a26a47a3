"""Beam search with a process reward model, and reward-guided speculative decoding with several beams.

Sources: beam search as in Snell et al. 2025 (arXiv:2408.03314) and SPECS, section 4.1 ("Baselines"): candidates of a
step are generated concurrently, a reward model scores each, and the best are kept. Multi-beam RSD is the baseline of
SPECS after Liao et al. 2025 (arXiv:2501.19324): the draft's best candidate, or the target's where its reward is low.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from sim.algorithms.candidates import Candidate, Candidates, best
from sim.algorithms.rules import check_count, check_counts
from sim.catalogue import Knob, KnobValue, Method, built, drafts_per_position
from sim.operations import Algorithm, Outcome, Step
from sim.roles import DRAFT, REWARD, TARGET

__all__ = ["METHODS", "NOISE", "WIDTH", "beam_search", "rsd_beams", "surveyed_beams"]


def beam_search(root: Step, *, width: int, keep: int = 1, role: str = TARGET, noise: float = 0.0) -> Algorithm:
    """Generate the answer to ``root``: at every step the candidates with the best rewards are continued.

    A beam is ranked by the reward of its last step. A finished beam is kept until enough others are better; the search
    ends when all kept beams are finished. Steps are committed as soon as all beams share them. ``role`` is the model
    that generates, the other keywords are the knobs in `METHODS`; a ``width`` or ``keep`` < 1 is a `ParameterError`.
    """
    check_counts(1, width)
    check_count("keep", keep)
    tree = Candidates(root, noise)
    kept = yield from tree.grow([root], role, width)
    while True:
        kept = sorted(kept, key=lambda one: -one.reward)[:keep]
        ended = [one for one in kept if one.step.final]
        if len(ended) == len(kept):
            yield from tree.settle([kept[0].step])
            return
        yield from tree.settle([one.step for one in kept])
        kept = ended + (yield from tree.grow([one.step for one in kept if not one.step.final], role, width))


def rsd_beams(root: Step, *, width: int, threshold: float, first: int = 0, noise: float = 0.0) -> Algorithm:
    """Generate the answer to ``root``: the best of ``width`` drafts, or of ``width`` target steps if its reward is low.

    Keywords are the knobs in `METHODS` (``first``: SPECS, Table 6, "start with large model").
    """
    check_counts(1, width)
    step, tree = root, Candidates(root, noise)
    while not step.final:
        taken: Candidate | None = None
        if step.depth + 1 >= first:
            drafts = yield from tree.grow([step], DRAFT, width)
            taken = best(drafts)
            if taken.reward < threshold:
                for draft in drafts:
                    draft.become(Outcome.REJECTED)
                taken = None
        if taken is None:
            taken = best((yield from tree.grow([step], TARGET, width)))
        step = taken.step
        yield from tree.settle([step])


def surveyed_beams(root: Step, *, width: int) -> Algorithm:
    """Record candidates for test-time scaling methods: at every position ``width`` of each model, all of them scored.

    The target's candidate with the highest reward is committed. So each candidate is measured after a prefix that is
    rarely wrong, as it is before the first mistake of a method.
    """
    step, tree = root, Candidates(root)
    while not step.final:
        targets = yield from tree.grow([step], TARGET, width)
        yield from tree.grow([step], DRAFT, width, likelihood=True)
        step = best(targets).step
        yield from tree.settle([step])


WIDTH: Final = Knob(
    name="width", kind="integer", default=4, low=1, high=64, help="concurrent candidates per step (after each beam)"
)
NOISE: Final = Knob(
    name="noise", kind="number", default=0.0, low=0.0, high=10.0, help="standard deviation of noise on the rewards"
)
_KEEP: Final = Knob(name="keep", kind="integer", default=1, low=1, high=16, help="beams that are continued")
_THRESHOLD: Final = Knob(
    name="threshold", kind="number", default=0.7, low=0.0, high=1.0, help="least reward of the best draft, 0 to 1"
)
_FIRST: Final = Knob(name="first", kind="integer", default=0, low=0, help="first steps that the target writes")

EXACT: Final = "the speedup for independent candidates with lengths of any law, where context costs nothing"
MEASURED: Final = "lengths, rewards, likelihoods and truth of candidates along recorded answers; engine timings"


def _all_beams(*, width: int, keep: int, **knobs: KnobValue | None) -> int:
    """Candidates of one position: ``width`` after each of the ``keep`` beams."""
    return width * keep


def _none_in_flight(**knobs: KnobValue | None) -> int:
    return 0


_SEARCH: Final = "Snell et al. 2025 (beam search with a process reward model); SPECS, section 4.1"
_METHOD: Final = partial(Method, level="beam", exact=EXACT, measured=MEASURED)

METHODS = (
    _METHOD(
        name="beam-search",
        title="beam search, target",
        paper=_SEARCH,
        algorithm=built(beam_search, role=TARGET),
        knobs=(WIDTH, _KEEP, NOISE),
        roles=(REWARD,),
        closed_form="theory.specs.beams.beam_speedup",
        in_flight=_all_beams,
        drafts_seen=_all_beams,
    ),
    _METHOD(
        name="beam-search-draft",
        title="beam search, draft",
        paper=_SEARCH,
        algorithm=built(beam_search, role=DRAFT),
        knobs=(WIDTH, _KEEP, NOISE),
        roles=(DRAFT, REWARD),
        closed_form="theory.specs.beams.beam_speedup",
        in_flight=_none_in_flight,
        drafts_seen=_all_beams,
    ),
    _METHOD(
        name="rsd-beams",
        title="RSD, several beams",
        paper="Liao et al. 2025 (RSD), with several beams as in SPECS, section 4.1",
        algorithm=built(rsd_beams),
        knobs=(WIDTH, _THRESHOLD, _FIRST, NOISE),
        roles=(DRAFT, REWARD),
        closed_form="theory.specs.beams.rsd_beams_speedup",
        in_flight=drafts_per_position,
    ),
)
