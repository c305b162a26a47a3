"""Timelines: lanes, counts, Perfetto files, pictures."""

import json
from functools import partial
from pathlib import Path

import pytest
from invariants import covered
from sim_worlds import batch_engines, drawn_answers, scripted, seconds_per_token

from sim.algorithms import lookahead_async
from sim.catalogue import method
from sim.engines.device import Device
from sim.gantt import draw, figure
from sim.timeline import Counts, Timeline, perfetto
from sim.trial import run_answer
from sim.virtual_clock import Session
from theory.errors import ParameterError


def session(k1: int = 2) -> Session:
    """Three steps, the second draft refused; a second per token."""
    return run_answer(partial(lookahead_async, k1=k1), scripted("+-+", [2, 2, 1]).answer(0), seconds_per_token())


def test_spans_and_lanes() -> None:
    """At 12 the draft of step 1 is refused: what hung on it goes, and drafting restarts after the target's step."""
    timeline = Timeline.of(session())
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
    timeline = Timeline.of(session())
    trace = json.loads(json.dumps(perfetto(timeline, Timeline.of(session(3), "k1 = 3"))))
    events = trace["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    assert len(slices) == len(timeline.spans)
    assert names[slices[0]["pid"], slices[0]["tid"]] == timeline.lane_name("target", 0) == "target 1"
    assert (slices[0]["name"], slices[0]["ts"], slices[0]["dur"]) == ("generate reference 0", 0.0, 10e6)
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["simulated", "k1 = 3"]
    assert [e["ts"] for e in events if e["ph"] == "i" and e["pid"] == 1] == [10e6, 12e6, 22e6]
    by_thread: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for e in (e for e in events if e["ph"] == "X"):  # slices of one thread must not overlap, or the viewer nests them
        by_thread.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for intervals in by_thread.values():
        assert covered(intervals) == pytest.approx(sum(end - start for start, end in intervals))


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"timeline.{suffix}"
    pair = [Timeline.of(session(), "simulated"), Timeline.of(session(1), "measured")]
    draw(pair, path)
    head = path.read_bytes()[:300]
    assert head.startswith(b"\x89PNG") if suffix == "png" else b"<?xml" in head
    again = tmp_path / f"again.{suffix}"
    draw(pair, again)
    if suffix == "png":
        assert path.read_bytes() == again.read_bytes()


def test_picture_shows_every_span_on_one_time_axis() -> None:
    pair = [Timeline.of(session(), "simulated"), Timeline.of(session(1), "measured")]
    chart = figure(pair)
    above, below = chart.axes
    assert above.get_xlim() == below.get_xlim()
    assert above.get_xlim()[1] >= max(t.duration for t in pair)
    assert [len(axes.collections) for axes in (above, below)] == [len(t.spans) for t in pair]
    assert [label.get_text() for label in above.get_yticklabels()] == [
        "answer",
        "target 1",
        "target 2",
        "draft",
        "judge",
    ]
    assert "simulated" in above.get_title("left")


def test_bad_pictures(tmp_path: Path) -> None:
    timeline = Timeline.of(session())
    with pytest.raises(ParameterError, match=r"\.gif"):
        draw(timeline, tmp_path / "x.gif")
    with pytest.raises(ParameterError, match="timelines"):
        draw([], tmp_path / "x.png")
    with pytest.raises(ParameterError, match="until"):
        figure(timeline, until=0.0)


def test_lanes_say_which_candidate_and_who_is_asked() -> None:
    behaviour = drawn_answers(5, alpha=0.5, steps=6, seed=1)
    run = run_answer(method("specs").build(width=2), behaviour.beam_answer(0), batch_engines(Device()))
    timeline = Timeline.of(run)
    assert timeline.lane_name("draft", 1) == "draft, candidate 2"
    assert timeline.lane_name("likelihood", 0) == "likelihood by target, candidate 1"
    names = [label.get_text() for label in figure(timeline).axes[0].get_yticklabels()]
    assert len(set(names)) == len(names)
    assert "reward model, candidate 2" in names
    assert Timeline.of(session()).lane_name("target", 1) == "target 2"
