"""Schedules of speculation that wait for nothing: asynchronous Lookahead Reasoning, and distributed speculation (DSI).

Lookahead Reasoning: Fu et al. 2025, section 3.1, "Asynchronous Generation", and Appendix B.1.1. DSI: Timor et al. 2025,
Algorithm 1.
"""

from __future__ import annotations

from typing import Final

from sim.algorithms.checks import CHECK_KNOBS, JUDGED, Check, Judging
from sim.algorithms.lookahead_tree import Lookahead
from sim.algorithms.rules import PAPER, PRESETS, Rules, check_count, check_counts
from sim.catalogue import Knob, Method, nodes_of_tree
from sim.operations import Action, Algorithm, Cancel, Commit, Generate, Operation, Outcome, Step, Verify
from sim.roles import DRAFT, JUDGE, TARGET

__all__ = ["LOOKAHEAD_KNOBS", "METHODS", "distributed", "lookahead_async"]


def lookahead_async(root: Step, *, k1: int, width: int = 1, rules: Rules = PAPER, check: Check = JUDGED) -> Algorithm:
    """Generate the answer to ``root`` by asynchronous Lookahead Reasoning.

    Parameters
    ----------
    k1 : target steps in flight along one path, >= 1 (1 is plain decoding with drafts that are never used).
    width : drafts per position, >= 1 (the paper's W); targets in flight grow as ``width ** depth``.
    rules : scheduling rules; `PAPER`, `RELEASED_CODE` or `EAGER`, or your own.
    check : the verifier of drafts and its threshold.

    Raises
    ------
    ParameterError : ``k1`` or ``width`` is not a positive integer.
    """
    check_counts(k1, width)
    return Lookahead(root, k1 + rules.extra_in_flight, width, rules, check).run()


class _Distributed:
    """The positions after the last step that is certain; target steps of one pass start together.

    Methods append to ``actions``, as those of `Lookahead` do. The tag of an operation is its position. Decisions are
    made in order, so that a wrong draft drops all that follows it at once.
    """

    def __init__(self, root: Step, lookahead: int, servers: int, check: Check) -> None:
        self.actions: list[Action] = []
        self.lookahead, self.servers, self.check = lookahead, servers, check
        self.ended = root.final
        if not self.ended:
            self._restart(root)

    def run(self) -> Algorithm:
        """Run the algorithm: start, judge and commit after each operation that has ended."""
        actions = self.actions
        while not self.ended:
            done = yield actions
            actions.clear()
            self._on_done(done)
        yield from actions

    def _on_done(self, done: Operation) -> None:
        position: int = done.tag
        if isinstance(done, Verify):
            if (appeal := self.check.appeal(done)) is not None:
                done.outcome = Outcome.ESCALATED
                self.verifies[position] = appeal
                self.actions.append(appeal)
        else:
            if done.role == DRAFT and not done.result.final:
                self.prefixes.append(done.result)
            self._judge(position)
        self._decide()
        if not self.ended:
            self._start()

    def _restart(self, root: Step) -> None:
        self.prefixes = [root]  # of the positions that may have a target step: the drafted text so far
        self.targets: list[Generate] = []
        self.drafts: list[Generate] = []
        self.verifies: dict[int, Verify] = {}
        self.flying: list[list[Generate]] = []  # the passes that servers work on
        self.committed = 0
        self._start()

    def _start(self) -> None:
        """Start the passes that drafts and servers allow, and the next draft."""
        self.flying = [steps for steps in self.flying if any(step.result is None for step in steps)]
        while len(self.flying) < self.servers and (positions := self._next_pass()):
            steps = [Generate(TARGET, self.prefixes[i], tag=i) for i in positions]
            self.targets += steps
            self.flying.append(steps)
            self.actions += steps
        at = len(self.drafts)
        if at < len(self.prefixes) and at < self.committed + (self.servers + 1) * self.lookahead:
            self.drafts.append(Generate(DRAFT, self.prefixes[at], tag=at))
            self.actions.append(self.drafts[at])

    def _next_pass(self) -> range:
        """The positions of the next pass, none if too few are drafted; the last pass of an answer may be shorter."""
        first, known = len(self.targets), len(self.prefixes)
        end = first + (self.lookahead if first else 1)
        ends = bool(self.drafts) and self.drafts[-1].result is not None and self.drafts[-1].result.final
        return range(first, min(end, known)) if known >= end or ends else range(0)

    def _judge(self, position: int) -> None:
        """Submit a draft to the verifier once both texts exist."""
        if position < min(len(self.targets), len(self.drafts)):
            draft, target = self.drafts[position].result, self.targets[position].result
            if draft is not None and target is not None:
                verify = self.check.ask(draft, target, 0, position)
                self.verifies[position] = verify
                self.actions.append(verify)

    def _decide(self) -> None:
        """Commit what is judged, in order, up to the first wrong draft."""
        while (verify := self.verifies.get(self.committed)) is not None and verify.result is not None:
            draft, target = self.drafts[self.committed], self.targets[self.committed]
            accepted = verify.result.accepted
            verify.outcome = draft.outcome = Outcome.ACCEPTED if accepted else Outcome.REJECTED
            target.outcome = Outcome.REFERENCE if accepted else Outcome.COMMITTED
            step: Step = draft.result if accepted else target.result
            self.actions.append(Commit(step))
            self.committed += 1
            if step.final or not accepted:
                self._drop()
                self.ended = step.final
                if not self.ended:
                    self._restart(step)
                return

    def _drop(self) -> None:
        """Discard what follows the position that was committed last."""
        later = [verify for position, verify in self.verifies.items() if position >= self.committed]
        for operation in (*self.targets[self.committed :], *self.drafts[self.committed :], *later):
            operation.outcome = Outcome.DISCARDED
            if operation.result is None:
                self.actions.append(Cancel(operation))


def distributed(root: Step, *, lookahead: int, servers: int, check: Check = JUDGED) -> Algorithm:
    """Generate the answer to ``root`` by distributed speculation: target passes while the drafter works.

    The paper's steps are tokens, and what it calls a target pass are the target's steps at all positions that the pass
    adds: they start together, on one server.

    Parameters
    ----------
    lookahead : drafts between passes, >= 1 (the paper's lookahead).
    servers : passes in flight at most, >= 1 (its speculation parallelism).
    check : the verifier of drafts and its threshold.

    Raises
    ------
    ParameterError : ``lookahead`` or ``servers`` is not a positive integer.
    """
    check_count("lookahead", lookahead)
    check_count("servers", servers)
    return _Distributed(root, lookahead, servers, check).run()


def _in_flight(*, k1: int, width: int, rules: str, **knobs: object) -> int:
    return nodes_of_tree(k1=k1 + PRESETS[rules].extra_in_flight, width=width)


def _most_distributed(*, lookahead: int, servers: int, **knobs: object) -> int:
    return lookahead * servers


LOOKAHEAD_KNOBS: Final = (
    Knob(name="k1", kind="integer", default=4, low=1, high=1024, help="target steps in flight along one path"),
    Knob(name="width", kind="integer", default=1, low=1, high=1024, help="drafts per position (W)"),
    Knob(name="rules", kind="choice", default="paper", choices=tuple(PRESETS), help="schedule"),
    *CHECK_KNOBS,
)

METHODS = (
    Method(
        name="lr-async",
        title="LR async",
        paper="Fu et al. 2025 (Lookahead Reasoning), section 3.1 and Appendix B.1.1; Theorem 2",
        level="step",
        algorithm=Judging(lookahead_async),
        knobs=LOOKAHEAD_KNOBS,
        roles=(DRAFT, JUDGE),
        exact="Theorem 2 for constant step times, independent acceptance and free verdicts",
        measured="step lengths, acceptance and scores along recorded answers; engine timings",
        closed_form="theory.speedup.f_async",
        in_flight=_in_flight,
    ),
    Method(
        name="dsi",
        title="DSI",
        paper="Timor et al. 2025 (Distributed Speculative Inference), Algorithm 1",
        level="step",
        algorithm=Judging(distributed),
        knobs=(
            Knob(name="lookahead", kind="integer", default=2, low=1, high=1024, help="drafts between passes"),
            Knob(name="servers", kind="integer", default=4, low=1, high=1024, help="target passes in flight"),
            *CHECK_KNOBS,
        ),
        roles=(DRAFT, JUDGE),
        exact="its closed form for constant step times, independent acceptance and free verdicts; the paper's steps "
        "are tokens",
        measured="step lengths, acceptance and scores along recorded answers; engine timings",
        closed_form="theory.drafting.distributed.dsi_speedup",
        in_flight=_most_distributed,
        ablation=True,  # over steps it is LR async whose target steps wait for each other: for comparison
    ),
)
