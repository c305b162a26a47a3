"""Files that no reader should trust: broken, endless, forged, or of another kind."""

import gzip
import json
from pathlib import Path


def hostile_files(folder: Path) -> list[str]:
    """Write every kind of hostile file; return their names, and those of places that are no files."""
    profile = (Path(__file__).parents[2] / "calibrate/profiles/lr-deepseek-gsm8k.json").read_text(encoding="utf-8")
    data = json.loads(profile)
    texts = {
        "empty.json": "",
        "blank.json": " \n\n ",
        "deep.json": "[" * 100_000,
        "deep-but-whole.json": '{"prompt": ' * 900 + "1" + "}" * 900,
        "deep-yaml.yaml": "[" * 20_000,
        "twice.json": profile.replace('"name":', '"name": "x", "name":', 1),
        "version-true.json": json.dumps({**data, "schema_version": True}),
        "version-float.json": profile.replace('"schema_version": 1', '"schema_version": 1.0'),
        "version-2.json": json.dumps({**data, "schema_version": 2}),
        "digits.json": '{"prompt": ' + "9" * 5000 + "}",
        "half.json": '{"prompt": "\\ud800", "score": 1, "label": true}\n' * 2,
        "half-name.json": json.dumps({**data, "name": "\ud800"}),
        "forged.json": json.dumps({**data, "name": "a\nUse LR: 99 times \x1b[31m"}),
        "forged-id.jsonl": '{"prompt": "a", "id": "b\\u001b[31m\\nc"}\n' * 2,
        "long-name.json": json.dumps({**data, "name": "n" * 5000}),
        "nan.json": profile.replace('"alpha1": {', '"alpha1": {"x": NaN,'),
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
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "binary.json").write_bytes(bytes(range(256)) * 16)
    (folder / "utf16.json").write_bytes(profile.encode("utf-16"))
    (folder / "bomb.csv.gz").write_bytes(gzip.compress(b"\0" * 2**24))
    (folder / "cut.csv.gz").write_bytes(gzip.compress(b"m,n,k,latency\n" * 1000)[:40])
    (folder / "broken.csv.gz").write_bytes(b"\x1f\x8b\x08\x00" + b"\xff" * 100)
    with (folder / "sparse.json").open("wb") as sparse:
        sparse.truncate(2**40)
    places = ["/dev/zero", "/dev/null", "fifo", ".", "missing.json", "x" * 5000, "-", "", "loop"]
    return [*texts, "binary.json", "utf16.json", "bomb.csv.gz", "cut.csv.gz", "broken.csv.gz", "sparse.json", *places]
