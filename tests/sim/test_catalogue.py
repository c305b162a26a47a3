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
from sim.virtual_clock import Answer, Session

BEHAVIOUR = varied_answers()
INTEGER = Knob(name="k", kind="integer", default=2, low=1, high=9, help="")
NUMBER = Knob(name="x", kind="number", default=0.5, low=0.0, high=1.0, help="")
CHOICE = Knob(name="who", kind="choice", default="a", choices=("a", "b"), help="")
SWITCH = Knob(name="flag", kind="switch", default=False, help="")
STEP_METHODS = [name for name, one in methods("step").items() if one.roles]
BEAM_METHODS = list(methods("beam"))


@pytest.mark.parametrize(
    ("knob", "text", "value"),
    [(INTEGER, "3", 3), (NUMBER, "1", 1.0), (CHOICE, "b", "b"), (SWITCH, "on", True), (SWITCH, "False", False)],
)
def test_a_knob_reads_what_a_person_types(knob: Knob, text: str, value: object) -> None:
    parsed = knob.parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


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
)


def test_most_sequences_counts_the_full_tree() -> None:
    assert method("lr-async").most_sequences(k1=3, width=2) == 1 + 2 + 4
    assert method("lr-async").most_sequences(k1=3, rules="released-code") == 4
    assert method("confspec").most_sequences(k1=2, width=3) == 1 + 3
    assert method("spec-cot").most_sequences() == 1


def test_drafts_that_a_replay_needs() -> None:
    assert method("spec-cot").drafts_seen(width=3) == 3
    one = method("confspec")
    for knobs, drafts in (
        ({}, 2),
        ({"fallback": "none"}, 4),  # a rejected position is drafted once more
        ({"schedule": "algorithm-1"}, 4),  # which is what it does as printed
        ({"schedule": "algorithm-1", "fallback": "reuse"}, 2),
    ):
        assert one.drafts_seen(**one.settings({"width": 2, **knobs})) == drafts


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


def run_at_random_knobs(data: st.DataObject, name: str, answer: Answer) -> Session:
    one = method(name)
    knobs = {knob.name: data.draw(drawn(knob), label=knob.name) for knob in one.knobs}
    session = run_answer(one.build(**knobs), answer, batch_engines(Device()))
    check(session, max_targets=one.most_sequences(**knobs))
    check_timeline(session)
    return session


@given(data=st.data(), name=st.sampled_from(STEP_METHODS), index=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_step_method_obeys_the_laws_at_random_knobs(data: st.DataObject, name: str, index: int) -> None:
    run_at_random_knobs(data, name, BEHAVIOUR.answer(index))


@given(data=st.data(), name=st.sampled_from(BEAM_METHODS), index=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_beam_method_obeys_the_laws_at_random_knobs(data: st.DataObject, name: str, index: int) -> None:
    counts = Counts.of(run_at_random_knobs(data, name, BEHAVIOUR.beam_answer(index)))
    assert counts.graded_steps == counts.steps
