"""A timeline: the same answer by plain decoding and by Lookahead Reasoning, sync and async."""

from __future__ import annotations

from dataclasses import replace

from _common import save

from calibrate.record.library import bundled
from sim.configuration import Configuration
from sim.gantt import figure
from specplan.planning.predict import Predictor

PROFILE, ANSWER, UNTIL = "lr-deepseek-gsm8k", 0, 4.0
CONFIGURATIONS = (
    (Configuration(method="autoregressive"), "plain decoding"),
    (Configuration(method="lr-sync", k1=3), "Lookahead Reasoning, sync, $k_1$ = 3"),
    (Configuration(method="lr-async", k1=4), "Lookahead Reasoning, async, $k_1$ = 4"),
)


def main() -> None:
    """Simulate the three, draw their beginnings one below the other, and check the order."""
    predictor = Predictor(bundled(PROFILE), n_answers=2, uncertainty=False)
    timelines = [replace(predictor.timeline(c, ANSWER), label=label) for c, label in CONFIGURATIONS]
    plain, sync, ahead = timelines
    assert ahead.duration < min(sync.duration, plain.duration), "the caption says who is first"
    done = [sum(commit.time <= UNTIL for commit in timeline.commits) for timeline in timelines]
    caption = (
        f"In the first {UNTIL:g} s plain decoding writes {done[0]} steps, sync {done[1]}, async {done[2]}; "
        "async is also the first to finish the whole answer."
    )
    save(figure(timelines, until=UNTIL), "timeline", seed=0, caption=caption)


if __name__ == "__main__":
    main()
