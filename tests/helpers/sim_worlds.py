"""Small worlds for the simulator: engines that take what is said, and answers that are scripted."""

from collections.abc import Sequence
from typing import Any

from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour, TraceBehaviour
from sim.answers.facts import Quality
from sim.answers.lengths import Fixed, Lengths, Lognormal, Marginal
from sim.answers.traces import AnswerTrace, StepTrace
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.device import Device
from sim.engines.fixed import FixedEngine


def seconds_per_step(draft_s: float, *, judge_s: float = 0.0, **others: float) -> dict[str, FixedEngine]:
    """Engines that take a second for a step of the target, and so many for what the other roles do."""
    return {role: FixedEngine(s) for role, s in {"target": 1.0, "draft": draft_s, "judge": judge_s, **others}.items()}


def seconds_per_token(target_s: float = 1.0, draft_s: float = 1.0, *, judge_s: float = 0.0) -> dict[str, FixedEngine]:
    """Engines that take so many seconds for each generated token, and for a verdict."""
    target, draft = (FixedEngine(lambda n, p, c, s=s: s * n) for s in (target_s, draft_s))
    return {"target": target, "draft": draft, "judge": FixedEngine(judge_s)}


def batch_engines(device: Device | None) -> dict[str, BatchEngine]:
    """Engines that batch, on a device that they share or on one each; the target judges."""
    target = BatchEngine(LinearCost(base_s=0.02, sequence_s=0.002, prefill_s=0.01, request_s=0.003), device)
    return {"target": target, "draft": BatchEngine(LinearCost(base_s=0.006, prefill_s=0.005), device), "judge": target}


def drawn_answers(
    tokens: float | Marginal, *, steps: int | Marginal, alpha: float, cv: float = 0.0, **more: Any
) -> SyntheticBehaviour:
    """Draw answers whose steps are alike in length by either model; ``more``: of lengths, verdicts and answers."""
    law = tokens
    if isinstance(tokens, int | float):
        law = Lognormal(mean=tokens, cv=cv) if cv else Fixed(int(tokens))
    lengths, verdicts = (
        {name: more.pop(name) for name in names if name in more}
        for names in (("correlation", "lag1", "limit"), ("siblings", "persistence", "spread"))
    )
    return SyntheticBehaviour(
        lengths=Lengths(target=law, draft=law, **lengths),
        acceptance=Acceptance(alpha=alpha, **verdicts),
        steps=Fixed(steps) if isinstance(steps, int) else steps,
        **more,
    )


def varied_answers(**more: Any) -> SyntheticBehaviour:
    """Draw short answers in which everything varies: lengths, their number, verdicts, siblings, the truth, the gate."""
    quality = Quality(wrong_accepted=0.2, wrong_target=0.05, corruption=0.5, escalation=0.4, gate_error=0.1)
    steps = Lognormal(mean=8.0, cv=0.4)
    return drawn_answers(15.0, cv=1.0, steps=steps, alpha=0.6, siblings=0.3, limit=50, quality=quality, seed=4, **more)


def replayed(*steps: StepTrace, prompt_tokens: int = 0, **more: Any) -> TraceBehaviour:
    """Replay one answer of these steps."""
    return TraceBehaviour((AnswerTrace(prompt_tokens=prompt_tokens, steps=steps, **more),))


def scripted(accepted: str, draft: Sequence[int], target: int | Sequence[int] = 10) -> TraceBehaviour:
    """Script an answer: one letter per step, ``+`` accepted, ``-`` rejected; lengths in tokens."""
    last, targets = len(accepted) - 1, [target] * len(accepted) if isinstance(target, int) else target
    return replayed(
        *(
            StepTrace(draft_tokens=n, target_tokens=m, accepted=c == "+", draft_final=d == last, target_final=d == last)
            for d, (c, n, m) in enumerate(zip(accepted, draft, targets, strict=True))
        ),
        prompt_tokens=5,
    )
