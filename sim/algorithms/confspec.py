"""ConfSpec (Liu, Cao, He 2025): its asynchronous pipeline, Algorithm 1 as printed, draft trees (section 4.3).

The paper runs a pipeline (Appendix B, "Asynchronous Execution"): the target starts a step as soon as its prefix is
known, and a draft is checked as soon as both texts are. That is the schedule of Lookahead Reasoning with other checks
and fallbacks, and uses the same generator.

One iteration of Algorithm 1 drafts ``k1`` steps one after the other, has the target write the ``k1`` steps to compare
them with in parallel, and then checks position by position until a rejection.

A draft is checked by the draft model first, and by the judge where the draft model is not confident (Equation 4). With
``width`` > 1 every node of the draft tree has that many children; the children of a node are checked in parallel, and
the accepted child with the highest confidence is followed (Equation 5).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, get_args

from sim.algorithms.candidates import together, written_by_target
from sim.algorithms.checks import CASCADE, CHECK_KNOBS, Check, Judging, confidence
from sim.algorithms.lookahead_async import lookahead_async
from sim.algorithms.rules import Fallback, Rules, check_counts
from sim.catalogue import Knob, Method, nodes_of_tree
from sim.operations import WAIT, Action, Algorithm, Commit, Generate, MakeAlgorithm, Outcome, Step, Verify
from sim.roles import DRAFT, GATE, JUDGE, TARGET
from theory.errors import ParameterError

__all__ = ["METHODS", "Fallback", "Schedule", "confspec"]

Schedule = Literal["async", "algorithm-1"]

_GATED: Final = Check(verifier=CASCADE)


@dataclass(slots=True, eq=False)
class _Node:
    """A prefix in the draft tree: the target's step after it, and the drafts of that step."""

    prefix: Step
    target: Generate
    drafts: list[Generate] = field(default_factory=list)
    children: dict[int, _Node] = field(default_factory=dict)
    verifies: list[Verify] = field(default_factory=list)


def confspec(root: Step, *, k1: int, width: int = 1, fallback: Fallback = "none", check: Check = _GATED) -> Algorithm:
    """Generate the answer to ``root`` by Algorithm 1.

    Parameters
    ----------
    k1 : steps drafted per iteration, >= 1; as many target steps are in flight along one path.
    width : drafts per position, >= 1; target steps in flight grow as ``width ** k1``.
    fallback : what follows a rejection.
    check : the verifier and its threshold; the paper's cascade by default.
    """
    check_counts(k1, width)
    if fallback not in get_args(Fallback):
        raise ParameterError("fallback", fallback, f"must be one of {', '.join(get_args(Fallback))}")
    last = root
    attempt = 0  # 1 where the drafts of this position were rejected before: the new drafts must differ
    while not last.final:
        nodes = yield from _draft(last, k1, width, attempt)
        yield from together([node.target for node in nodes])
        steps, rejected_at = yield from _accepted(nodes[0], check)
        if rejected_at is not None and fallback == "reuse":
            rejected_at.target.outcome = Outcome.COMMITTED
            steps.append(rejected_at.target.result)
        for operation in (one for node in nodes for one in (node.target, *node.drafts, *node.verifies)):
            if operation.outcome is Outcome.PENDING:
                operation.outcome = Outcome.DISCARDED
        if rejected_at is not None and (fallback == "regenerate" or not steps):
            steps.append((yield from written_by_target(rejected_at.prefix, rejected_at.target.branch + 1)))
        for step in steps:
            yield Commit(step)
        last = steps[-1]
        attempt = int(rejected_at is not None and last is rejected_at.prefix)


def _draft(root: Step, k1: int, width: int, attempt: int) -> Generator[Action, Any, list[_Node]]:
    """Draft ``k1`` levels, one after the other; return all nodes, the root first. Nothing follows a final step."""
    level = [_Node(root, Generate(TARGET, root, 2 * attempt))]
    nodes = list(level)
    for depth in range(k1):
        for node in level:
            first = width * attempt if depth == 0 else 0
            node.drafts = [Generate(DRAFT, node.prefix, first + branch) for branch in range(width)]
        yield from together([draft for node in level for draft in node.drafts])
        if depth == k1 - 1:
            break
        for node in level:
            node.children = {
                d.branch: _Node(d.result, Generate(TARGET, d.result)) for d in node.drafts if not d.result.final
            }
        level = [child for node in level for child in node.children.values()]
        if not level:
            break
        nodes += level
    return nodes


def _accepted(node: _Node | None, check: Check) -> Generator[Action, Any, tuple[list[Step], _Node | None]]:
    """Follow the accepted drafts; return them, and the node where all drafts were rejected, if there is one."""
    steps: list[Step] = []
    while node is not None:
        winner = yield from _check(node, check)
        if winner is None:
            return steps, node
        node.target.outcome = Outcome.REFERENCE
        steps.append(winner.result)
        node = node.children.get(winner.branch)
    return steps, None


def _check(node: _Node, check: Check) -> Generator[Action, Any, Generate | None]:
    """Check the drafts of a node in parallel; return the one accepted with the highest confidence, if any."""
    by_branch = {draft.branch: draft for draft in node.drafts}
    questions = [check.ask(draft.result, node.target.result, draft.branch, None) for draft in node.drafts]
    node.verifies += questions
    yield from questions
    undecided = len(questions)
    accepted: list[Verify] = []
    while undecided:
        done: Verify = yield WAIT
        appeal = check.appeal(done)
        if appeal is not None:
            done.outcome = Outcome.ESCALATED
            node.verifies.append(appeal)
            yield appeal
            continue
        undecided -= 1
        done.outcome = by_branch[done.branch].outcome = Outcome.REJECTED
        if done.result.accepted:
            accepted.append(done)
    if not accepted:
        return None
    best = accepted[0] if len(accepted) == 1 else max(accepted, key=lambda v: (confidence(v), -v.branch))
    for verify in accepted:
        verify.outcome = by_branch[verify.branch].outcome = Outcome.DISCARDED
    best.outcome = by_branch[best.branch].outcome = Outcome.ACCEPTED
    return by_branch[best.branch]


def _fallback(schedule: Schedule, fallback: Fallback | None) -> Fallback:
    """As printed in Algorithm 1; in the pipeline the target's step exists before its draft is refused and is reused."""
    return fallback or ("none" if schedule == "algorithm-1" else "reuse")


def _drafts_seen(*, width: int, schedule: Schedule, fallback: Fallback | None, **knobs: object) -> int:
    return 2 * width if _fallback(schedule, fallback) == "none" else width


def _build(*, schedule: Schedule, fallback: Fallback | None, **knobs: Any) -> MakeAlgorithm:
    fallback = _fallback(schedule, fallback)
    if schedule == "algorithm-1":
        return Judging(confspec)(fallback=fallback, **knobs)
    rules = Rules(winner="most-confident", fallback=fallback)
    return Judging(partial(lookahead_async, rules=rules))(**knobs)


METHODS = (
    Method(
        name="confspec",
        title="ConfSpec",
        paper="Liu, Cao, He 2025 (ConfSpec), sections 4.2 and 4.3, Appendix B; Algorithm 1",
        level="step",
        algorithm=_build,
        knobs=(
            Knob(name="k1", kind="integer", default=5, low=1, high=64, help="target steps in flight along one path"),
            Knob(name="width", kind="integer", default=1, low=1, high=16, help="drafts per position (W, section 4.3)"),
            Knob(
                name="schedule",
                kind="choice",
                default="async",
                choices=get_args(Schedule),
                help="the pipeline that the paper runs, or iterations as printed",
            ),
            Knob(
                name="fallback",
                kind="choice",
                default=None,
                choices=get_args(Fallback),
                help="after a rejection: none (default of algorithm-1), regenerate (section 4.2), reuse (of async)",
            ),
            *(CHECK_KNOBS[0].with_default(CASCADE), *CHECK_KNOBS[1:]),
        ),
        roles=(DRAFT, GATE, JUDGE),
        exact="the speedup for constant step times, independent acceptance and escalation, in the pipeline with free "
        "verdicts; of algorithm-1: theory.step_methods.confspec_speedup",
        measured="step lengths, verdicts and confidence along recorded answers; engine timings",
        closed_form="theory.step_methods.confspec_pipeline_speedup",
        in_flight=nodes_of_tree,
        drafts_seen=_drafts_seen,
    ),
)
