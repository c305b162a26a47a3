"""Whole hostile command lines: outputs that are inputs, options that contradict or do nothing, servers.

What `test_hostile_inputs` expects of every option and file holds here too. A line that must fail says what its error
must name; one that may succeed says nothing.
"""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hostile_worlds import World, bomb, complaints, hostile_world, run

from calibrate.engines.http import metrics_page

_FORGED = {"data": [{"id": "a\nspecplan: done \x1b[31m", "max_model_len": "x"}]}
_WHOLE = {
    "html": (200, "text/html", b"<html>log in</html>"),
    "bomb": (200, "application/json", b""),  # made when it is asked for, which takes half a second
    "redirect": (302, "text/plain", b""),
    "status-500": (500, "text/plain", b"\x1b[31mboom\nUse LR"),
    "status-401": (401, "application/json", b'{"error": {"message": "k\\u001b[31mey"}}'),
    "nothing": (204, "text/plain", b""),
    "deep": (200, "application/json", b"[" * 100_000),
    "kinds": (200, "application/json", b'{"data": [{"id": 5}, {"id": null}, 7], "object": 3}'),
    "forged": (200, "application/json", json.dumps(_FORGED).encode()),
    "many": (200, "application/json", json.dumps({"data": [{"id": f"m{i}"} for i in range(50_000)]}).encode()),
    "bytes": (200, "text/plain", b"\xff\xfe\xfa"),
}
PAGES = (*_WHOLE, "endless", "dripping", "silent")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.do_GET()

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        with suppress(OSError):
            if kind in _WHOLE:
                self._whole(*_WHOLE[kind], gzipped=kind == "bomb")
            elif kind == "endless":
                self._begin(("transfer-encoding", "chunked"))
                while True:
                    self.wfile.write(b"10000\r\n" + b"a" * 65_536 + b"\r\n")
            elif kind == "dripping":
                self._begin(("content-length", "100000"))
                for _ in range(600):
                    self.wfile.write(b"a")
                    time.sleep(0.1)
            else:
                time.sleep(60.0)

    def _begin(self, *headers: tuple[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def _whole(self, status: int, kind: str, body: bytes, *, gzipped: bool) -> None:
        body = bomb(2**27) if gzipped else body
        headers = [("content-type", kind), ("content-length", str(len(body)))]
        headers += [("content-encoding", "gzip")] if gzipped else []
        headers += [("location", "file:///etc/passwd")] if status == 302 else []
        self._begin(*headers, status=status)
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave are what these pages are for."""


@contextmanager
def hostile_pages() -> Iterator[str]:
    """Serve; yield the address, below which the pages are."""
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


pytestmark = [pytest.mark.slow, pytest.mark.long("minutes: more than a hundred commands")]

SLOW_SERVER = Path(__file__).parents[2] / "docs" / "tutorials" / "slow-server"
NOBODY = "http://127.0.0.1:1"
ROW = {
    "configuration": {"method": "lr-async", "knobs": {"k1": 2}},
    "speedup": {"value": 1.5},
    "acceptance": 0.6,
    "baseline_seconds": 1.0,
}
PLAN: dict[str, Any] = {"schema": "specplan.plan", "schema_version": 1, "profile": "x", "rows": [ROW]}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = hostile_world(tmp_path, monkeypatch)
    for name in ("before", "after", "plain"):
        shutil.copy(SLOW_SERVER / f"{name}.prom", tmp_path)
    (tmp_path / "good.plan").write_text(json.dumps(PLAN), encoding="utf-8")
    table = "alpha1,c1,method,speedup\n0.5,0.2,lr-sync,1.2\n0.6,0.3,lr-sync,1.3\n"
    (tmp_path / "good.csv").write_text(table, encoding="utf-8")
    (tmp_path / "dangling").symlink_to("nowhere/x")
    (tmp_path / "hard.json").hardlink_to(tmp_path / "profile.json")
    for number, text in enumerate(("", "{", "[]", '{"model_type": "qwen3"}', "[" * 5000)):
        (tmp_path / f"model{number}").mkdir()
        (tmp_path / f"model{number}" / "config.json").write_text(text)
        (tmp_path / f"model{number}" / "model.safetensors").write_bytes(b"\xff" * 16)
    return made


SIMULATE = "simulate -p profile.json -n 2"
PLANNED = "plan -p profile.json -n 2 --methods lr-sync --k1-max 2"
NAMED = "plan --target Qwen/Qwen3-8B --gpu H100"
EXPLAIN = "explain before.prom after.prom"
PAIRS = "thresholds --pairs pairs.jsonl --c1 0.1"
SERVE = f"serve --plan good.plan --port 0 --timeout 3 --target {NOBODY} --draft {NOBODY} --judge {NOBODY}"
OPENAI = f"calibrate openai --prompts prompts.jsonl -o out.json -n 2 --target {NOBODY} --draft {NOBODY} --patience 0"

LINES: dict[str, str] = {
    # outputs that are inputs, or each other, or cannot be
    f"{PLANNED} -o a.html --report a.html": "--report",
    f"{PLANNED} -o hard.json --force": "--profile",
    f"{PLANNED} -o tables/../profile.json --force": "--profile",
    f"{PLANNED} -o dangling": "nowhere",
    f"{PLANNED} --report -": "--report",
    f"{PLANNED} --report r.pdf": "--report",
    f"{EXPLAIN} -o after.prom --force": "SOURCES",
    f"{EXPLAIN} --baseline before.prom,plain.prom -o plain.prom --force": "--baseline",
    f"{EXPLAIN} --report plain.prom --force": "--report",
    "serve --plan good.plan --profile profile.json --replan profile.json --force": "--profile",
    "serve --plan good.plan --profile profile.json --replan good.plan --force": "--plan",
    "serve --plan good.plan --replan new.json": "--profile",
    "theorems --errata specs -o profile.json --force": "-o",
    "theorems --errata specs": "-o",
    "demo --keep profile.json": "--keep",
    "demo --keep /dev/null": "--keep",
    "demo --keep profile.json/x": "--keep",
    "validate -p profile.json --timeline same.png -o same.png": "--timeline",
    f"{SIMULATE} -o profile.json/x": "--output",
    f"{SIMULATE} --timeline /dev/stdout": "--timeline",
    "sweep run grid.toml -o grid.toml --force": "--output",
    "sweep plot good.csv -x alpha1 -y c1 -o good.csv --force": "--output",
    # options without a use, and such as contradict each other
    f"{SIMULATE} --answer 1": "--answer",
    f"{SIMULATE} --until 5": "--until",
    f"{SIMULATE} --corruption 0.5 --method autoregressive": "--corruption",
    f"{SIMULATE} --k1 2 --set k1=3": "k1",
    f"{SIMULATE} --token-set k2=3": "--token-set",
    f"{SIMULATE} --token prompt-lookup --k2 9 --token-set k2=3": "--k2",
    f"{SIMULATE} --width 64": "--width",
    f"{SIMULATE} --width 1024 --k1 1024": "--width",
    f"{SIMULATE} --set threshold=2": "threshold",
    f"{EXPLAIN} --for 5": "--for",
    f"{EXPLAIN} --tp 2": "--tp",
    f"{EXPLAIN} --false-alarm 0.1": "--false-alarm",
    f"{EXPLAIN} --k 3": "--k",
    f"{EXPLAIN} --gpu H100": "--target",
    f"{EXPLAIN} --target nope --gpu H100": "--target",
    f"{EXPLAIN} --target Qwen/Qwen3-8B --gpu H100 --draft Qwen/Qwen3-0.6B --eagle mtp": "--eagle",
    f"{EXPLAIN} --baseline ,": "--baseline",
    f"{EXPLAIN} --baseline plain.prom,": "--baseline",
    f"{EXPLAIN} --baseline before.prom,after.prom,plain.prom": "--baseline",
    f"{EXPLAIN} --baseline plain.prom --baseline plain.prom": "--baseline",
    f"{EXPLAIN} --baseline after.prom": "--baseline",
    "explain after.prom before.prom": "swapped",
    "explain after.prom after.prom": "",
    f"{NAMED} --alpha1 0.5": "--alpha1",
    f"{NAMED} --judge Qwen/Qwen3-8B": "--judge",
    f"{NAMED} --eagle mtp": "mtp",
    f"{NAMED} --eagle Qwen/Qwen3-8B": "--eagle",
    f"{NAMED} --methods mtp": "num_nextn_predict_layers",
    f"{NAMED} --methods lr-async --k 3": "add mtp, eagle3 or ngram",
    f"{NAMED} --methods dflash --k 20": "methods='dflash' cannot be planned here: it needs --k of 1 to 15",
    f"{NAMED} --methods ngram,dspark --k [[1,8,4]]": "methods='dspark' cannot be planned here: it needs one --k",
    f"{NAMED} --methods spec-reason": "specplan calibrate",
    f"{NAMED} --gpus 1 --gpu-memory-utilization 0.1": "hold too little",
    "calibrate torch --judge nope -o out.json -n 2": "model folder nope",
    f"{NAMED} --acceptance mtp=0.7": "ngram, eagle3, dspark, draft_model can",
    f"{NAMED} --acceptance ngram=profile.json": "specplan.acceptance",
    f"{NAMED} --gpu-price H100=": "--gpu-price",
    "acceptance after.prom --k 99": "--k",
    "acceptance after.prom before.prom": "earlier",
    "acceptance after.prom --method suffix": "--method",
    "plan --target /dev": "",
    "plan --target ../../etc": "--target",
    f"{PLANNED} --trace requests.jsonl": "--trace",
    f"{PLANNED} --target x": "",
    "validate -p profile.json --run nope": "--run",
    "validate -p profile.json --run rsd --method lr-sync": "--run",
    f"{PAIRS} --gate": "--c1",
    f"{PAIRS} --bound accuracy-loss": "--decisions",
    "sweep run grid.toml -o out.csv --cluster tcp://127.0.0.1:1": "--cluster",
    "sweep plot good.csv -x nope -y c1 -o out.png": "-x",
    "sweep plot good.csv -x alpha1 -y c1 --regions --method lr-sync -o out.png": "--method",
    "reproduce hardware /proc/self": "FOLDER",
    # servers
    f"{SERVE} --host 999.1.1.1": "--host",
    f"{SERVE} --host {'a' * 5000}": "--host",
    f"{SERVE} --host ::1%x": "--host",
    f"{SERVE} --speculative {'[' * 5000}": "--speculative",
    f"{SERVE} --speculative {{": "--speculative",
    f"{SERVE} --api-key-env NO_SUCH_VARIABLE": "--api-key-env",
    f"serve --plan good.plan --port 0 --target http://u:p@127.0.0.1:1 --draft {NOBODY} --judge {NOBODY}": "hidden",
    f"{OPENAI} --template-kwargs {{}}": "--template-kwargs",
    f"{OPENAI} --chat --template-kwargs {'[' * 5000}": "--template-kwargs",
    f"{OPENAI} --speculative {NOBODY} {'[' * 5000}": "--speculative",
    "calibrate openai --prompts prompts.jsonl -o out.json --target http://127.0.0.1:1": "--draft",
    **{f"explain {url} --for 1": "SOURCES" for url in (
        *("ftp://127.0.0.1", "http://", "http://[::1", "http://127.0.0.1:99999", "http://u:p@127.0.0.1:1"),
        *("file:///etc/passwd", "http://127.0.0.1:1/\x1b[31m", f"http://{'a' * 5000}", "http://127.0.0.1:1/?x"),
    )},
    **{f"calibrate torch --target model{i} --draft model{i} --prompts prompts.jsonl -o out.json": "" for i in range(5)},
}  # fmt: skip
"""Lines that must fail, and what their errors must name."""


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_cannot_be_is_refused(world: World, line: str) -> None:
    arguments = line.split(" ")
    assert not complaints(world, arguments)
    code, _, err = run(arguments)
    assert code in (1, 2), err
    assert LINES[line] in err
    assert len(err.strip().splitlines()) == 1
    assert "=None" not in err


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    with hostile_pages() as address:
        yield address


@pytest.mark.parametrize("page", PAGES)
def test_no_page_of_a_server_is_trusted(world: World, pages: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "_TIMEOUT_S", 1.0)
    url = f"{pages}/{page}"
    roles = ["--target", url, "--draft", url]
    calibration = "calibrate openai --prompts prompts.jsonl -o out.json -n 2 --timeout 1 --patience 0.1"
    for words in (
        ["explain", url, "--for", "1"],
        ["serve", "--plan", "good.plan", "--port", "0", "--timeout", "1", *roles, "--judge", url],
        [*calibration.split(" "), *roles],
    ):
        assert not complaints(world, words)
        code, _, err = run(words)
        assert code in (1, 2, 124), err
