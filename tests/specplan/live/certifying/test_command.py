"""``specplan certify`` over HTTP: our engine with the bundled pair, right and with each defect, and bad servers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from certified_pair import PLANTED, CertifiedServer, served
from openai_server import Planted, serving
from screens import Main, refusal, refused_words

from calibrate.engines.torch.token_methods.draft_model import DraftModel
from calibrate.pair import draft_path, target_path


@pytest.fixture(scope="module")
def draft() -> Iterator[str]:
    with served(CertifiedServer(draft_path())) as url:
        yield url


@pytest.fixture(scope="module")
def lossless() -> Iterator[str]:
    with served(CertifiedServer(target_path(), DraftModel)) as url:
        yield url


SMALL = ("residual from p", "target's temperature")
"""Defects that change one of a hundred tokens of this pair: their alarms come at 2,191 and 3,385 tokens."""
LOOKS_LIKE = {"stale cache": "draft's tokens"}
"""The stale entry is the rejected draft's: after it the target writes what the draft would."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_defects_of_our_engine_are_named(name: str, draft: str, run_main: Main) -> None:
    """Seven of nine within 2,048 tokens, the default."""
    tokens = 4096 if name in SMALL else 2048
    with served(CertifiedServer(target_path(), *PLANTED[name])) as url:
        code, out, err = run_main("certify", url, "--draft", draft, "--json", "--tokens", str(tokens))
    assert code == 1
    assert all(line.startswith("drawing and scoring answers:") for line in err.splitlines())  # each 15 s
    data = json.loads(out)
    assert LOOKS_LIKE.get(name, name) in data["named"]
    assert data["alarm_at"] <= data["tokens"] <= tokens


@pytest.mark.slow
def test_our_engine_is_certified(draft: str, lossless: str, run_main: Main) -> None:
    code, out, err = run_main("certify", lossless, "--draft", draft)
    assert code == 0
    assert all(line.startswith("drawing and scoring answers:") for line in err.splitlines())
    assert out.startswith("No defect detected in 2,048 tokens.")
    data = json.loads(run_main("certify", lossless, "--draft", draft, "--json")[1])
    assert data["named"] == []
    assert not data["acceptance"]["contradicts"]
    assert data["noise"] < 0.01
    assert data["changed_at_most"] < 0.2


def test_without_a_draft_and_without_passes_less_is_examined(draft: str, run_main: Main, tmp_path: Path) -> None:
    few = ("--tokens", "40", "--answer-tokens", "20", "--top", "8")
    server = CertifiedServer(target_path(), DraftModel, shows_passes=False)
    with served(server) as url:
        code, out, err = run_main("certify", url, *few)
        assert (code, err) == (0, "")
        assert "Without --draft" in " ".join(out.split())
        assert "residual from p" not in out
        output = tmp_path / "certificate.json"
        words = ("certify", url, "--draft", draft, *few, "--json", "-o", str(output), "--seed", "3")
        assert run_main(*words) == (0, "", "")
    names = {one["name"] for one in json.loads(output.read_text())["defects"]}
    assert "residual from p" in names
    assert "bonus from draft" not in names
    assert "do not show passes" in output.read_text()
    sent = [body for body in server.bodies if body.get("stream") and body["max_tokens"] == 20]
    assert [body.get("seed") for body in sent] == [None, None, 3, 4]
    assert all((body["temperature"], body["top_p"], body["top_k"]) == (1.0, 1.0, -1) for body in sent)


def test_servers_that_lack_something_are_refused_in_one_line(lossless: str, run_main: Main) -> None:
    few = ("--tokens", "8", "--answer-tokens", "4")

    def error(*words: str, code: int = 1) -> str:
        return refusal(run_main, "certify", *words, *few, code=code)

    with served(CertifiedServer(target_path(), lists=False)) as url:
        assert "gives no prompt_logprobs: name a server that does with --target" in error(url)
        assert "with --draft" in error(lossless, "--draft", url)
    assert "give a smaller --top, or start it with a larger --max-logprobs" in error(lossless, "--top", "50")
    with serving(Planted(tells_ids=False)) as server:
        assert "gives no token ids (return_token_ids)" in error(server.url)
    with serving(Planted(tokenizes=False)) as server:
        assert "has no /tokenize" in error(server.url)
    with serving() as server:
        assert "must have the tokenizer of the server under test" in error(lossless, "--draft", server.url, code=2)
    assert "unreachable" in error("http://127.0.0.1:9")


test_bad_input_is_one_line = refused_words(
    "certify",
    (("localhost:8000",), "='localhost:8000' must be http://HOST"),
    (("http://127.0.0.1:9", "--answer-tokens", "1"), "--answer-tokens=1 must be an integer in [2"),
    (("http://127.0.0.1:9", "--prompts", "missing.jsonl"), "missing.jsonl"),
    (("http://127.0.0.1:9", "--false-alarm", "0"), "--false-alarm=0.0 must be a number in (0, 1)"),
)
