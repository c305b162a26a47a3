"""Real vLLM servers of the bundled pair: a draft model is certified with our repair of sampling, and not without."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from screens import Main

pytest.importorskip("vllm")

from vllm_server import CORES, vllm_server

from calibrate import pair

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800), pytest.mark.long("thousands of tokens of three servers")]


SPECULATIVE = {"method": "draft_model", "num_speculative_tokens": 3, "model": str(pair.draft_path())}
UNREPAIRED = ("--worker-extension-cls", "")


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with vllm_server(pair.draft_path(), "draft", tmp_path_factory.mktemp("draft"), core=CORES[-1]) as url:
        yield url()


@pytest.mark.parametrize("more", [(), UNREPAIRED])
def test_vllm_with_a_draft_model(draft: str, more: tuple[str, ...], tmp_path: Path, run_main: Main) -> None:
    server = vllm_server(pair.target_path(), "pair", tmp_path, core=CORES[0], speculative=SPECULATIVE, more=more)
    with server as url:
        code, out, err = run_main("certify", url(), "--draft", draft, "--json")
    data = json.loads(out)
    assert err == ""
    assert (code, bool(data["named"])) == ((1, True) if more else (0, False))
    assert data["noise"] < 0.02
