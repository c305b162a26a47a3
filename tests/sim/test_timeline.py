"""Timelines: lanes, counts, Perfetto files, pictures."""

import json
from functools import partial
from pathlib import Path

import pytest
from invariants import covered
from refusals import refused
from sim_worlds import batch_engines, drawn_answers, scripted, seconds_per_token

from sim.algorithms import lookahead_async
from sim.catalogue import method
from sim.engines.device import Device
from sim.gantt import draw, figure
from sim.timeline import Counts, Timeline, perfetto
from sim.trial import run_answer
from sim.virtual_clock import Session


def session(k1: int = 2) -> Session:
    """Three steps, the second draft refused; a second per token."""
    return run_answer(partial(lookahead_async, k1=k1), scripted("+-+", [2, 2, 1]).answer(0), seconds_per_token())


PAIR = [Timeline.of(session(), "simulated"), Timeline.of(session(1), "measured")]


def test_spans_and_lanes() -> None:
    """At 12 the draft of step 1 is refused: what hung on it goes, and drafting restarts after the target's step."""
    timeline = PAIR[0]
    assert timeline.duration == 22
    assert timeline.roles == ("target", "draft", "judge")
    assert [(s.role, s.depth, s.start, s.end, s.lane, s.outcome) for s in timeline.spans if s.kind == "generate"] == [
        ("target", 0, 0, 10, 0, "reference"),
        ("draft", 0, 0, 2, 0, "accepted"),
        ("target", 1, 2, 12, 1, "committed"),
        ("draft", 1, 2, 4, 0, "rejected"),
        ("target", 2, 10, 12, 0, "discarded"),
        ("draft", 2, 10, 11, 0, "discarded"),
        ("target", 2, 12, 22, 0, "reference"),
        ("draft", 2, 12, 13, 0, "accepted"),
    ]
    assert [(c.time, c.depth, c.role, c.tokens) for c in timeline.commits] == [
        (10, 0, "draft", 2),
        (12, 1, "target", 10),
        (22, 2, "draft", 1),
    ]
    assert [(s.depth, s.end, s.outcome) for s in timeline.spans if s.kind == "verify"] == [
        (0, 10, "accepted"),
        (1, 12, "rejected"),
        (2, 22, "accepted"),
    ]
    assert (timeline.n_lanes("target"), timeline.n_lanes("draft")) == (2, 1)


def test_counts() -> None:
    assert Counts.of(session()) == Counts(
        steps=3,
        committed_tokens=13,
        drafted=4,
        accepted=2,
        rejected=1,
        discarded=1,
        targets=4,
        targets_committed=1,
        targets_reference=2,
        targets_discarded=1,
        draft_tokens=2 + 2 + 1 + 1,
        target_tokens=10 + 10 + 2 + 10,  # the cancelled one had come 2 tokens far
        wasted_draft_tokens=2 + 1,
        wasted_target_tokens=10 + 2 + 10,
        peak_targets=2,
    )


def test_perfetto_trace() -> None:
    events = json.loads(json.dumps(perfetto(PAIR[0], Timeline.of(session(3), "k1 = 3"))))["traceEvents"]
    first, *others = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert 1 + len(others) == len(PAIR[0].spans)
    assert names[1, first["tid"]] == "target 1"
    assert (first["name"], first["ts"], first["dur"]) == ("generate reference 0", 0.0, 10e6)
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["simulated", "k1 = 3"]
    assert [e["ts"] for e in events if e["ph"] == "i" and e["pid"] == 1] == [10e6, 12e6, 22e6]
    for thread in names:  # slices of one thread must not overlap, or the viewer nests them
        own = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == thread]
        assert covered(own) == pytest.approx(sum(end - start for start, end in own))


@pytest.mark.parametrize(("suffix", "head"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_pictures(tmp_path: Path, suffix: str, head: bytes) -> None:
    once, again = (tmp_path / f"{name}.{suffix}" for name in ("once", "again"))
    draw(PAIR, once)
    draw(PAIR, again)
    assert once.read_bytes().startswith(head)
    assert suffix == "svg" or once.read_bytes() == again.read_bytes()


def test_picture_shows_every_span_on_one_time_axis() -> None:
    above, below = figure(PAIR).axes
    assert above.get_xlim() == below.get_xlim()
    assert above.get_xlim()[1] >= max(t.duration for t in PAIR)
    assert [len(axes.collections) for axes in (above, below)] == [len(t.spans) for t in PAIR]
    names = ["answer", "target 1", "target 2", "draft", "judge"]
    assert [label.get_text() for label in above.get_yticklabels()] == names
    assert "simulated" in above.get_title("left")


test_bad_pictures_are_refused = refused(
    lambda call: call(),
    (partial(draw, PAIR, "x.gif"), r"\.gif"),
    (partial(draw, [], "x.png"), "timelines"),
    (partial(figure, PAIR, until=0.0), "until"),
)


def test_lanes_say_which_candidate_and_who_is_asked() -> None:
    answer = drawn_answers(5, alpha=0.5, steps=6, seed=1).beam_answer(0)
    timeline = Timeline.of(run_answer(method("specs").build(width=2), answer, batch_engines(Device())))
    assert timeline.lane_name("draft", 1) == "draft, candidate 2"
    assert timeline.lane_name("likelihood", 0) == "likelihood by target, candidate 1"
    names = [label.get_text() for label in figure(timeline).axes[0].get_yticklabels()]
    assert len(set(names)) == len(names)
    assert "reward model, candidate 2" in names
