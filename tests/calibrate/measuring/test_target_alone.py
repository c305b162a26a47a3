"""A target measured alone, for token-level methods, and questions asked as turns of a chat."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from openai_server import OpenAIServer, Planted, serving
from screens import Main, refusal

from calibrate.record.profile import Profile

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
FAST = Planted(iteration_s=2e-3, chats=True)

pytestmark = pytest.mark.usefixtures("small_plans")


@pytest.fixture
def questions(tmp_path: Path) -> str:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"prompt": "one two three"}\n{"prompt": "four three two"}\n')
    return str(path)


@contextmanager
def servers() -> Iterator[tuple[OpenAIServer, OpenAIServer]]:
    """A target, and the same target with n-grams."""
    with serving(FAST) as target, serving(replace(FAST, k2=4)) as fast:
        yield target, fast


def calibrate(
    run_main: Main, asked: tuple[OpenAIServer, OpenAIServer], questions: str, output: Path, *more: str
) -> None:
    words = ["calibrate", "openai", "--target", asked[0].url, "--speculative", asked[1].url, json.dumps(NGRAM)]
    words += ["--prompts", questions, "-n", "2", "--concurrency", "1", "--allow-noise", "-o", str(output)]
    code, out, err = run_main(*words, *more)
    assert code == 0, err
    assert "2 answers, 0 judged steps" in out
    assert "token   prompt-lookup k2=4" in out


def test_a_target_alone_is_planned_at_the_token_level(run_main: Main, questions: str, tmp_path: Path) -> None:
    output = tmp_path / "alone.json"
    with servers() as asked:
        calibrate(run_main, asked, questions, output)
    profile = Profile.read(output)
    assert set(profile.models) == {"target"}
    assert set(profile.placement.values()) == set(profile.engines) == {"target"}
    assert all(not answer.steps and answer.baseline for answer in profile.answers)
    code, out, err = run_main("plan", "--profile", str(output), "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert [row["configuration"]["method"] for row in plan["rows"]] == ["prompt-lookup", "autoregressive"]
    # A pass gives 1 to 4 tokens, the last one of a step cut: 2.5 without the cut.
    assert 1.5 < plan["rows"][0]["speedup"]["value"] < 2.6
    code, _, err = run_main("simulate", "--profile", str(output), "--method", "lr-async")
    assert code == 2
    assert "0 are recorded" in err


def test_a_validation_asks_by_the_chat_template_as_the_calibration_did(
    run_main: Main, questions: str, tmp_path: Path
) -> None:
    """A profile remembers that questions are turns of a chat; plain decoding and the method are both asked so."""
    profile = tmp_path / "chat.json"
    with servers() as (target, fast):
        more = ("--chat", "--template-kwargs", '{"enable_thinking": false}')
        calibrate(run_main, (target, fast), questions, profile, *more)
        assert Profile.read(profile).settings["chat"] is True
        answers = {body["prompt"] for body in fast.bodies if "one two three" in body["prompt"]}
        assert answers
        assert all(prompt.startswith(" so one two three thus hence") for prompt in answers)
        seen = len(target.bodies), len(fast.bodies)
        words = ["validate", "-p", str(profile), "--prompts", questions, "-n", "2", "--run", "prompt-lookup k2=4"]
        code, out, err = run_main(*words)
        assert code == 0, err
        asked = [body["prompt"] for body in (*target.bodies[seen[0] :], *fast.bodies[seen[1] :])]
    assert "prompt-lookup k2=4" in out
    asked = [prompt for prompt in asked if "three" in prompt]
    assert len(asked) >= 4
    assert all(prompt.startswith(" so ") for prompt in asked)
    with servers() as (there, fast_there):
        moved = {target.url: there.url, fast.url: fast_there.url}
        code, out, err = run_main(
            *words, *(word for old, new in moved.items() for word in ("--server", f"{old}={new}"))
        )
        assert code == 0, err
        assert there.bodies
        assert fast_there.bodies
    assert "prompt-lookup k2=4" in out
    for pair, said in (("http://a=http://b", "must be one of these models'"), ("http://a", "must be OLD=NEW")):
        assert said in refusal(run_main, *words, "--server", pair)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--draft='' must be named"),
        (["--judge", "http://127.0.0.1:9"], "needs a draft"),
        (["--draft", "http://127.0.0.1:9", "--template-kwargs", "{}"], "belongs to --chat"),
        (["--draft", "http://127.0.0.1:9", "--chat", "--template-kwargs", "["], "must be JSON: Expecting value"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    run_main: Main, questions: str, tmp_path: Path, more: list[str], said: str
) -> None:
    words = ["calibrate", "openai", "--target", "http://127.0.0.1:9", "--prompts", questions]
    assert said in refusal(run_main, *words, "-o", str(tmp_path / "x.json"), *more)


def test_a_server_without_a_template_says_so(run_main: Main, questions: str, tmp_path: Path) -> None:
    with serving(Planted()) as target, serving(Planted(k2=4)) as fast:
        words = ["calibrate", "openai", "--target", target.url, "--speculative", fast.url, json.dumps(NGRAM)]
        words += ["--prompts", questions, "-n", "2", "--concurrency", "1", "-o", str(tmp_path / "x.json"), "--chat"]
        code, _, err = run_main(*words)
    assert code == 1
    assert "renders no chats" in err
    assert "leave --chat out" in err
