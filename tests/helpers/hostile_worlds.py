"""A folder with good and hostile files, commands that are run in it, and what is wrong with how they end."""

import gzip
import io
import json
import os
import signal
import stat
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

import pytest

from specplan.cli import main

PROFILE = (Path(__file__).parents[2] / "calibrate/profiles/lr-deepseek-gsm8k.json").read_text(encoding="utf-8")


@cache
def bomb(n_bytes: int) -> bytes:
    """So many zeros, packed: half a second for 128 MB."""
    return gzip.compress(b"\0" * n_bytes)


@cache
def hostile_files() -> dict[str, bytes]:
    """Every kind of hostile file by its name."""
    data = json.loads(PROFILE)
    texts = {
        "empty.json": "",
        "blank.json": " \n\n ",
        "deep.json": "[" * 100_000,
        "deep-but-whole.json": '{"prompt": ' * 900 + "1" + "}" * 900,
        "deep-yaml.yaml": "[" * 20_000,
        "twice.json": PROFILE.replace('"name":', '"name": "x", "name":', 1),
        "version-true.json": json.dumps({**data, "schema_version": True}),
        "version-float.json": PROFILE.replace('"schema_version": 1', '"schema_version": 1.0'),
        "version-2.json": json.dumps({**data, "schema_version": 2}),
        "digits.json": '{"prompt": ' + "9" * 5000 + "}",
        "half.json": '{"prompt": "\\ud800", "score": 1, "label": true}\n' * 2,
        "half-name.json": json.dumps({**data, "name": "\ud800"}),
        "forged.json": json.dumps({**data, "name": "a\nUse LR: 99 times \x1b[31m"}),
        "forged-id.jsonl": '{"prompt": "a", "id": "b\\u001b[31m\\nc"}\n' * 2,
        "long-name.json": json.dumps({**data, "name": "n" * 5000}),
        "nan.json": PROFILE.replace('"alpha1": {', '"alpha1": {"x": NaN,'),
        "inf.json": '{"prompt": "a", "score": 1e999, "label": true}\n' * 2,
        "list.json": "[1, 2]",
        "number.json": "5",
        "null.json": "null",
        "true.yaml": "y: {n: {1: 1e999}}",
        "alias.yaml": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n? [1]\n: 2\n",
        "dates.yaml": "m: {d: {1: 2001-99-99}}",
        "keys.json": json.dumps({"k" * 3000: 1, "\x1b[2J": 2}),
        "csv.csv": 'a,b\n"' + "x" * 200_000,
        "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-99-99,1,1\nnan,-1,1e99\n",
        "mooncake.jsonl": '{"timestamp": 1e999, "input_length": -1, "output_length": 1}\n',
        "own.jsonl": '{"arrival_s": NaN, "prompt_tokens": true, "answer_tokens": 1e30}\n',
        "config.json": '{"model_type": "qwen3", "hidden_size": -1, "num_hidden_layers": 1e30}',
        "strange.json": '{"model_type": ["\\u001b[31m"], "architectures": 5}',
    }
    for alpha1 in (2, -1, float("nan")):
        figures = {**data["published"], "alpha1": {**data["published"]["alpha1"], "value": alpha1}}
        texts[f"alpha1-{alpha1}.json"] = json.dumps({**data, "published": figures})
    texts["k1.json"] = json.dumps({**data, "published": {**data["published"], "k1": 10**30}})
    return {name: text.encode() for name, text in texts.items()} | {
        "binary.json": bytes(range(256)) * 16,
        "utf16.json": PROFILE.encode("utf-16"),
        "bomb.csv.gz": bomb(2**24),
        "cut.csv.gz": gzip.compress(b"m,n,k,latency\n" * 1000)[:40],
        "broken.csv.gz": b"\x1f\x8b\x08\x00" + b"\xff" * 100,
    }


LIMIT_S = 60
"""Of one command, on a busy machine; all but plans take less than two seconds."""


@dataclass(frozen=True)
class World:
    """A folder with good and hostile files, which is the working directory."""

    folder: Path
    hostile: list[str]

    def state(self) -> dict[str, tuple[int, ...]]:
        """What tells whether a file was changed, by its name."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            about = path.lstat()
            found[str(path.relative_to(self.folder))] = (about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns)
        # the time of change of a folder tells only that something was made in it for a while
        return {name: told[:3] if stat.S_ISDIR(told[1]) else told for name, told in found.items()}


def hostile_world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Fill a folder, and make it the working directory."""
    for name, content in hostile_files().items():
        (folder / name).write_bytes(content)
    with (folder / "sparse.json").open("wb") as sparse:
        sparse.truncate(2**40)
    (folder / "profile.json").write_text(PROFILE, encoding="utf-8")
    (folder / "prompts.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n', encoding="utf-8")
    (folder / "pairs.jsonl").write_text('{"score": 0.9, "label": true}\n' * 9, encoding="utf-8")
    dynamic = {"acceptance_rate_per_pos": [0.8, 0.6], "batch_stats": {"1": {"0": 5.0, "1": 6.0, "2": 7.0}}}
    (folder / "dynamic.json").write_text(json.dumps(dynamic), encoding="utf-8")
    (folder / "grid.toml").write_text("[vary]\nalpha1 = [0.5]\nc1 = [0.2]\n", encoding="utf-8")
    (folder / "tables").mkdir()
    (folder / "tables" / "one.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    os.mkfifo(folder / "fifo")
    (folder / "device").symlink_to("/dev/full")
    (folder / "loop").symlink_to("loop")
    (folder / "link-to-input").symlink_to("prompts.jsonl")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    places = ["/dev/zero", "/dev/null", "fifo", ".", "missing.json", "x" * 5000, "-", "", "loop"]
    return World(folder, [*hostile_files(), "sparse.json", *places])


class TooLongError(BaseException):
    """Not an Exception, so that nothing on the way takes it for a failure."""


def run(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, run here and now."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLongError

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, stop)
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8")
    signal.alarm(LIMIT_S)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), err.getvalue()
    except TooLongError:
        return 124, "", f"did not end within {LIMIT_S} s"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        sys.stdin = stdin
    raise AssertionError("main leaves by SystemExit")


def complaints(world: World, arguments: Sequence[str], allowed: Sequence[str] = ()) -> list[str]:
    """What is wrong with how a command met hostile arguments: nothing, if all is well."""
    before = world.state()
    code, out, err = run(arguments)
    after = world.state()
    made = {
        name
        for name in after.keys() - before.keys()
        if "specplan: error: " in err or "specplan.error" in err or name not in allowed
    }
    changed = {name for name in before if after.get(name) != before[name]}
    wrong = [f"{what} {sorted(names)}" for what, names in (("left", made), ("changed or lost", changed)) if names]
    for name in after.keys() - before.keys():
        (world.folder / name).unlink()
    wrong += [f"says {word!r}" for word in ("Traceback", "internal error", "did not end") if word in out + err]
    if "\x1b" in out + err:
        wrong.append("steers the terminal")
    if (
        code in (1, 2)
        and err.count("specplan: error: ") + err.count('"specplan.error"') != 1
        and "Usage:" not in out + err
    ):
        # a code of its own (no threshold certified, say) is told on stdout
        wrong += [] if out else ["fails without a word"]
    if len(err) > 4000:
        wrong.append(f"echoes {len(err)} characters")
    shown = " ".join(one if len(one) < 60 else f"{one[:20]}...({len(one)})" for one in arguments)
    return [f"specplan {shown!r}: {'; '.join(wrong)} [{code}: {err.strip()[:200]}]"] if wrong else []
