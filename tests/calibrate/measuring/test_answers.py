"""Verdicts by roles that run on no engine: which of them tell how long one takes."""

from calibrate.measuring.answers import undelayed_seconds
from sim.operations import Generate, Operation, Verify, prompt
from sim.roles import DRAFT, EMBEDDING, TARGET

ROOT = prompt(3)


def done(operation: Operation, started: float, finished: float, *, cancelled: bool = False) -> Operation:
    operation.started, operation.finished, operation.cancelled = started, finished, cancelled
    return operation


def verdict(started: float, finished: float, *, cancelled: bool = False) -> Operation:
    return done(Verify(ROOT, ROOT, role=EMBEDDING), started, finished, cancelled=cancelled)


def test_verdicts_count_that_had_their_processor_to_themselves() -> None:
    """Those with the target's company; not those beside a draft, beside each other, or after an abandoned one."""
    draft, target = Generate(DRAFT, ROOT), Generate(TARGET, ROOT)
    operations = [
        done(target, 0.0, 9.0),
        verdict(1.0, 1.25),
        done(draft, 2.0, 2.5),
        verdict(2.25, 2.75),
        verdict(3.0, 3.5),
        verdict(3.25, 3.75),
        verdict(4.0, 4.125, cancelled=True),
        verdict(4.125, 4.5),
        verdict(5.0, 5.5),
        verdict(6.0, -1.0),
    ]
    assert undelayed_seconds(operations, EMBEDDING) == [0.25, 0.5]


def test_a_draft_that_has_not_ended_is_still_there() -> None:
    draft = done(Generate(DRAFT, ROOT), 1.0, -1.0)
    assert undelayed_seconds([draft, verdict(0.0, 0.5), verdict(2.0, 2.5)], EMBEDDING) == [0.5]
