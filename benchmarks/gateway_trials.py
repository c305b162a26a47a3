"""What a gateway's decisions cost and how often they are wrong, in virtual time, on engines like the measured ones.

    python -m benchmarks.gateway_trials --seeds 100

Clients in closed loops ask planted engines whose pace, length of answers, and holes at changes resemble what
`benchmarks.gateway_loops` measured with vLLM on two cores: short answers, and changes in which all wait for the prompts
of all, so that with eight clients a change costs more than an answer takes; the first one ever costs more. The pace of
the machine wanders, and some stalls hit whoever runs. Each scene is run with many seeds; printed are

- wrong: runs in which it was ever said that what loses gains, or that what gains loses;
- said: the median moment of the first verdict, in answers (none: in less than half of the runs there was one);
- paused: runs in which trials lost as much as they may, be it by a stall: then there are none for 220 answers;
- of plain: tokens per second; of the gain: what was had of the candidate's own, the mean over the runs;
- at most: what is had of it if the verdict comes as soon as its confidence allows, and nothing stalls;
- worst: the least pace over any 200 answers in a row beside that of plain decoding in the same time on the same
  machine, the 5 % point and the least of all runs.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

from benchmarks.by_load import helper
from sim.configuration import Configuration
from specplan.live.comparing.measured import block_answers
from specplan.live.comparing.ratio import ERROR
from specplan.live.gateway.plans import PLAIN
from specplan.output import table

virtual: Final = helper("virtual_gateways")

TOKENS, STEP = 106, 10
"""Mean tokens of an answer and of a step."""

PLAINLY: Final = virtual.Engine(pass_s=0.008, sequence_s=0.00025, switch_s=0.02, first_s=0.03, cold_s=0.015)
"""With four in flight a token takes 9 ms, with eight 10 ms. The times of a change are for each client."""

WANDERS, HOLDS_S = 0.06, 4.0
"""Standard deviation of the logarithm of the machine's pace, and for how long it holds on average, s."""

STALLS_S, STALL_S = 20.0, 0.3
"""Time between stalls on average, and their length, s."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A candidate, by what it gains between the starts and steps of answers."""

    name: str
    gain: float
    tokens: float
    """Of a pass."""
    candidate: Configuration
    after: float | None = None
    """What it gains from the middle of the run on; None: the same."""
    step: int = STEP

    def engine(self, n: int, gain: float) -> Any:
        """The engine on which it gains so much with n clients."""
        drafts_s = (self.tokens / gain - 1.0) * PLAINLY.seconds(n, 0) / n
        # A method of steps stays on the target's server, which has read the prompt; its helpers were asked before.
        server = 0.5 if self.candidate.spec.drafts_steps else 1.0
        holes = {"switch_s": server * n * PLAINLY.switch_s, "cold_s": (server == 1.0) * n * PLAINLY.cold_s}
        return replace(PLAINLY, tokens=self.tokens, drafts_s=drafts_s, **holes)


SCENES: Final = (
    Scene(name="good", gain=1.85, tokens=2.2, candidate=virtual.STREAMED),
    Scene(name="fair", gain=1.45, tokens=2.2, candidate=virtual.STREAMED),
    Scene(name="slight", gain=1.1, tokens=1.5, candidate=virtual.STREAMED),
    Scene(name="nearly", gain=1.0, tokens=1.5, candidate=virtual.STREAMED),
    Scene(name="bad", gain=0.75, tokens=1.5, candidate=virtual.SPECULATING, step=3 * STEP),
    Scene(name="hopeless", gain=0.3, tokens=1.5, candidate=virtual.SPECULATING, step=3 * STEP),
    Scene(name="slowed", gain=1.85, tokens=2.2, candidate=virtual.STREAMED, after=0.6),
)


def machine(seed: int) -> Callable[[float], float]:
    """Return the time by which passes are longer at a moment, as a factor: it wanders, and now and then stalls."""
    rng, stops = random.Random(f"machine {seed}"), random.Random(f"stalls {seed}")  # whenever it is asked
    changes, paces, stalls = [0.0], [1.0], [stops.expovariate(1.0 / STALLS_S)]

    def slower(now: float) -> float:
        while changes[-1] <= now:
            changes.append(changes[-1] + rng.expovariate(1.0 / HOLDS_S))
            paces.append(float(np.exp(rng.gauss(0.0, WANDERS))))
        while stalls[-1] + STALL_S <= now:
            stalls.append(stalls[-1] + STALL_S + stops.expovariate(1.0 / STALLS_S))
        return paces[-1] * (6.0 if stalls[-1] <= now else 1.0)

    return slower


def loop(scene: Scene, n: int, seed: int, policy: Configuration | None, middle: float = float("inf")) -> Any:
    """A closed loop of a scene."""
    slower = machine(seed)
    engines = scene.engine(n, scene.gain), scene.engine(n, scene.after or scene.gain)

    def engine(now: float) -> Any:
        one, factor = engines[now >= middle], slower(now)
        times = {name: factor * getattr(one, name) for name in ("pass_s", "sequence_s", "drafts_s")}
        return replace(one, **times)

    return virtual.ClosedLoop(
        n, engine, seed=seed, policy=policy, tokens=TOKENS, step=scene.step, candidate=scene.candidate
    )


@cache
def pace(scene: Scene, n: int, always: bool, answers: int = 3000) -> float:
    """Tokens per second of one configuration over many answers."""
    return float(loop(scene, n, 7, scene.candidate if always else PLAIN).run(answers).speed())


def at_most(scene: Scene, n: int, gain: float, answers: int) -> float:
    """The share of a gain that is had if the candidate always runs once it is known to gain.

    Each pair at best doubles the money staked against the contrary, so that log2(1 / error) pairs are needed, with a
    change and a block of plain decoding each; before them the first answers tell how much work a block is.
    """
    engine, pairs = scene.engine(n, scene.gain), math.ceil(-math.log2(ERROR))
    answer_s = TOKENS * engine.seconds(n, 0)
    plainly = max(n, 2) + pairs * block_answers(n)
    holes = n * (pairs * engine.switch_s + engine.cold_s) / answer_s
    work = (answers - plainly) / gain + plainly + holes
    return float((answers / work - 1.0) / (gain - 1.0))


def row(scene: Scene, n: int, seeds: int, answers: int) -> list[str]:
    """A row of the table."""
    plain, fixed = pace(scene, n, False), pace(scene, n, True)
    said, paces, worst, wrong, paused = list[float](), list[float](), list[float](), 0, 0
    for seed in range(seeds):
        middle = float("inf") if scene.after is None else 0.5 * answers * TOKENS / fixed
        run = loop(scene, n, seed, None, middle).run(answers)
        lines = zip(run.said_at, run.said, strict=True)
        decided = [(number, "gains and is on" in line) for number, line in lines if "pauses" not in line]
        said.append(decided[0][0] if decided else np.inf)
        paused += any("pauses" in line for line in run.said)
        wrong += scene.after is None and any(gains != (fixed > plain) for _, gains in decided)
        paces.append(run.speed() / plain)
        beside = loop(scene, n, seed, PLAIN).run(round(1.1 * answers))
        worst.append(run.worst(lambda now, beside=beside: beside.speed(now, now + 200 * TOKENS / plain)))
    gain, median = fixed / plain, np.median(said)
    shares = (np.mean(paces) - 1.0) / (gain - 1.0), at_most(scene, n, gain, answers)
    return [
        scene.name,
        str(n),
        f"{gain:.2f}",
        f"{wrong} of {seeds}",
        f"{median:.0f}" if np.isfinite(median) else "none",
        f"{paused} of {seeds}",
        f"{np.mean(paces):.3f}",
        *(f"{share:.2f}" if gain > 1.0 and scene.after is None else "" for share in shares),
        f"{np.quantile(worst, 0.05):.3f}",
        f"{min(worst):.3f}",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--clients", default="4", help="in a closed loop, e.g. 1,4,8")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--answers", type=int, default=500)
    parser.add_argument("--scenes", default=",".join(scene.name for scene in SCENES))
    given = parser.parse_args()
    heads = ["scene", "clients", "always", "wrong", "said", "paused", "of plain", "of the gain", "at most"]
    heads += ["worst 5 %", "least"]
    clients, names = [int(n) for n in given.clients.split(",")], given.scenes.split(",")
    found = [row(one, n, given.seeds, given.answers) for one in SCENES if one.name in names for n in clients]
    print(table(heads, found))


if __name__ == "__main__":
    main()
