"""Profiles survive a round trip, and what does not fit is refused with its place."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from measured_profiles import measured
from refusals import refused
from screens import Main

from calibrate.record.files import write_atomically
from calibrate.record.profile import ModelRecord, Profile
from theory.errors import ParameterError, SchemaError


def broken(path: str, value: Any) -> dict[str, Any]:
    """A profile with another value at a place."""
    data: dict[str, Any] = json.loads(measured([False]).to_json())
    *parents, last = path.split("/")
    place: Any = data
    for part in parents:
        place = place[int(part)] if part.isdigit() else place[part]
    place[last] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (broken("schema_version", 2), r"schema_version=2 must be 1"),
        (broken("answers/0/steps/0/draft/tokens", 0), r"answers\[0\].steps\[0\].draft.tokens: .*got '0'"),
        (broken("answers/0/steps/0/draft/seconds", -1.0), r"answers\[0\].steps\[0\].draft.seconds"),
        (broken("engines/big/decode/0/seconds", float("nan")), r"engines.big.decode\[0\].seconds"),
        (broken("engines/big/decode/0/seconds", float("inf")), r"engines.big.decode\[0\].seconds"),
        (broken("engines/big/unknown", 1), r"engines.big.unknown: extra inputs"),
        (broken("placement", {"target": "big"}), r"placement.draft must name one of the engines \['big'"),
        (broken("answers", []), r"at least one answer"),
        (broken("source", "published"), r"needs the section 'published'"),
        ([1, 2], r"schema_version=None"),
        ({"schema_version": 1, "name": "x"}, r"source: missing"),
        (broken("published", {"alpha1": {"value": math.nan}}), r"published.alpha1.value: .*finite number"),
        (b"", "empty file"),
        (b'{"a": "b', "starting at line 1, column 7"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(tmp_path: Path, data: Any, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    with pytest.raises(SchemaError, match=message) as caught:
        Profile.read(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    write_atomically(path, "old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]


def elsewhere(name: str = "elsewhere", *, seconds: float = 0.3, accepted: tuple[bool, ...] = (True, False)) -> Profile:
    """A profile of the same models, whose judge reads twice as many tokens as that of `measured`."""
    found = measured(accepted)
    answers = []
    for number, answer in enumerate(found.answers):
        baseline = [step.model_copy(update={"seconds": seconds + 0.01 * number}) for step in answer.baseline]
        verdicts = [step.verdict.model_copy(update={"prompt_tokens": 16}) for step in answer.steps]
        steps = [s.model_copy(update={"verdict": v}) for s, v in zip(answer.steps, verdicts, strict=True)]
        answers.append(answer.model_copy(update={"steps": steps, "baseline": baseline}))
    return found.model_copy(update={"name": name, "answers": answers})


def test_what_models_said_elsewhere_counts_and_its_timings_do_not() -> None:
    own = measured([True, True], ngram=True)
    pooled = own.with_answers_of([elsewhere()])
    assert pooled.answers == own.answers
    assert (pooled.engines, pooled.ngram, pooled.name) == (own.engines, own.ngram, own.name)
    assert [text.problem for text in pooled.texts] == [f"{number} (elsewhere)" for number in range(3)]
    assert [step.verdict.accepted for step in pooled.texts[0].steps] == [True, False]
    assert {step.verdict.prompt_tokens for text in pooled.texts for step in text.steps} == {8}
    assert "3 texts are of profile elsewhere" in pooled.provenance.notes[-1]
    assert Profile.parse(pooled.to_json()) == pooled
    both = own.with_answers_of([elsewhere(), elsewhere("third", seconds=0.5)])
    assert (len(both.texts), len(both.all_answers)) == (6, 9)
    for others in ([own], [elsewhere(), elsewhere()]):
        with pytest.raises(ParameterError, match="is here already"):
            own.with_answers_of(others)


OWN = measured([True, False]).model_copy(update={"settings": {"temperature": 0.6}})
OWN = OWN.model_copy(update={"models": {**OWN.models, "target": ModelRecord(name="big", sha256="a")}})

test_other_models_are_not_pooled = refused(
    lambda changes: OWN.with_answers_of([elsewhere().model_copy(update=changes)]),
    ({"settings": {"temperature": 1.0}}, "was measured with temperature = 1.0, not 0.6"),
    ({"source": "latency"}, "only measured profiles have answers"),
    ({"models": {"target": ModelRecord(name="big")}}, "has models for"),
    ({"models": {"target": ModelRecord(name="big", sha256="b"), "draft": ModelRecord(name="small")}}, "sha256 b"),
)


def test_the_command_pools_and_refuses_models_that_accept_otherwise(tmp_path: Path, run_main: Main) -> None:
    paths = {name: str(tmp_path / f"{name}.json") for name in ("own", "other", "apart", "pooled")}
    measured([True] * 40 + [False] * 40).write(paths["own"])
    elsewhere(accepted=(True, False) * 40).write(paths["other"])
    elsewhere("apart", accepted=(True, *(False,) * 79)).write(paths["apart"])
    code, _, err = run_main("profile", "pool", paths["own"], paths["apart"], "-o", paths["pooled"])
    assert code != 0
    assert "accepts 1.2% of drafts" in err.splitlines()[-1]
    assert run_main("profile", "pool", paths["own"], paths["other"], "-o", paths["pooled"])[0] == 0
    assert len(Profile.read(paths["pooled"]).all_answers) == 6
    printed = run_main("profile", "pool", paths["own"], paths["other"])[1]
    assert Profile.parse(printed) == Profile.read(paths["pooled"])
