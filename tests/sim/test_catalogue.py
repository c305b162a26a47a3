"""The catalogue: knobs guard their domains, and every method in it runs, obeys the laws and is described."""

import importlib
import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import check, check_timeline
from refusals import refused
from sim_worlds import batch_engines, varied_answers

from sim.catalogue import Knob, Method, method, methods
from sim.engines.device import Device
from sim.timeline import Counts
from sim.trial import run_answer

BEHAVIOUR = varied_answers()
INTEGER = Knob(name="k", kind="integer", default=2, low=1, high=9, help="")
NUMBER = Knob(name="x", kind="number", default=0.5, low=0.0, high=1.0, help="")
CHOICE = Knob(name="who", kind="choice", default="a", choices=("a", "b"), help="")
SWITCH = Knob(name="flag", kind="switch", default=False, help="")


@pytest.mark.parametrize(
    ("knob", "text", "value"),
    [(INTEGER, "3", 3), (NUMBER, "1", 1.0), (CHOICE, "b", "b"), (SWITCH, "on", True), (SWITCH, "False", False)],
)
def test_a_knob_reads_what_a_person_types(knob: Knob, text: str, value: object) -> None:
    parsed = knob.parse(text)
    assert (type(parsed), parsed) == (type(value), value)


OUTSIDE = (
    (INTEGER, [0, 10, 2.0, True, "2"]),
    (NUMBER, [math.nan, math.inf, -0.1, True]),
    (CHOICE, ["c", 1]),
    (SWITCH, ["on", 2.5]),
)
test_a_knob_refuses_what_is_outside_its_domain = refused(
    lambda knob, value: knob.validate(value),
    *((knob, value, f"^{knob.name}=.* must be") for knob, values in OUTSIDE for value in values),
)
test_what_makes_no_sense_is_refused_with_a_suggestion = refused(
    lambda call: call(),
    (lambda: INTEGER.parse("two"), "k"),
    (lambda: INTEGER.parse("2.5"), "k"),
    (lambda: NUMBER.parse("nan"), "x"),
    (lambda: SWITCH.parse("maybe"), "flag"),
    (lambda: INTEGER.with_default(0), "k=0"),
    (lambda: Knob(name="who", kind="choice", default="a", help=""), "choices"),
    (lambda: method("lr-asinc"), "did you mean 'lr-async'"),
    (lambda: method("confspec").settings({"gama": 0.5}), "did you mean 'gamma'"),
    (lambda: method("autoregressive").settings({"k1": 2}), "which has none"),
    (lambda: method("lookahead-decoding").build(ngram=1), "ngram"),
    (lambda: method("lookahead-decoding").build(window=0), "window"),
    (lambda: method("jacobi").build(window=0), "window"),
)


@pytest.mark.parametrize(
    ("name", "knobs", "expected"),
    [
        ("lr-async", {"k1": 3, "width": 2}, 1 + 2 + 4),
        ("lr-async", {"k1": 3, "rules": "released-code"}, 4),
        ("confspec", {"k1": 2, "width": 3}, 1 + 3),
        ("spec-cot", {}, 1),
    ],
)
def test_most_sequences_counts_the_full_tree(name: str, knobs: dict[str, object], expected: int) -> None:
    assert method(name).most_sequences(**knobs) == expected


@pytest.mark.parametrize(
    ("name", "knobs", "expected"),
    [
        ("spec-cot", {"width": 3}, 3),
        ("confspec", {"width": 2}, 2),
        ("confspec", {"width": 2, "fallback": "none"}, 4),  # a rejected position is drafted once more
        ("confspec", {"width": 2, "schedule": "algorithm-1"}, 4),  # which is what it does as printed
        ("confspec", {"width": 2, "schedule": "algorithm-1", "fallback": "reuse"}, 2),
    ],
)
def test_drafts_that_a_replay_needs(name: str, knobs: dict[str, object], expected: int) -> None:
    assert method(name).drafts_seen(**method(name).settings(knobs)) == expected


def test_tokens_of_a_pass_follow_from_the_knobs() -> None:
    assert method("lookahead-decoding").most_per_pass(window=7, ngram=5, guesses=7) == 5
    assert method("jacobi").most_per_pass(window=6) == 7


@pytest.mark.parametrize("one", methods().values(), ids=methods())
def test_every_method_is_described_and_can_be_sent_to_a_worker(one: Method) -> None:
    assert all((one.title, one.paper, one.exact, one.measured))
    if one.closed_form is not None:
        module, _, name = one.closed_form.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))
    assert pickle.loads(pickle.dumps(one)) == one
    pickle.dumps(one.build())


def drawn(knob: Knob) -> st.SearchStrategy[object]:
    """Values of a knob: small counts, so that trees stay small."""
    if knob.kind == "choice":
        return st.sampled_from([c for c in knob.choices if c != "embedding"])  # has no engine here
    if knob.kind == "switch":
        return st.booleans()
    if knob.kind == "integer":
        return st.integers(int(knob.low or 0), 3)
    if knob.kind == "number" and knob.default is not None:
        return st.floats(knob.low or 0.0, knob.high or 1.0)
    return st.just(knob.default)


@pytest.mark.parametrize("level", ["step", "beam"])
@given(data=st.data(), index=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_method_obeys_the_laws_at_random_knobs(level: str, data: st.DataObject, index: int) -> None:
    one = data.draw(st.sampled_from([one for one in methods(level).values() if one.roles]))  # type: ignore[arg-type]
    knobs = {knob.name: data.draw(drawn(knob), label=knob.name) for knob in one.knobs}
    answer = BEHAVIOUR.beam_answer(index) if level == "beam" else BEHAVIOUR.answer(index)
    session = run_answer(one.build(**knobs), answer, batch_engines(Device()))
    check(session, max_targets=one.most_sequences(**knobs))
    check_timeline(session)
    counts = Counts.of(session)
    assert level == "step" or counts.graded_steps == counts.steps
