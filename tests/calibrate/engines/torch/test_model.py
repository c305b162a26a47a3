import json
import shutil
from contextlib import contextmanager

import pytest
import torch

from calibrate.engines.torch.model import check_model_folder, load_model, load_tokenizer, tokenizer_fingerprint
from theory.errors import CalibrationError

CPU = torch.device("cpu")


@pytest.fixture
def folder(model_folders, tmp_path):
    """A good model folder that a test may spoil."""
    return shutil.copytree(model_folders["draft"], tmp_path / "model")


@contextmanager
def refused(words):
    """An error in one line with these words."""
    with pytest.raises(CalibrationError, match=words) as error:
        yield
    assert "\n" not in str(error.value)


def test_a_good_folder_passes(folder):
    assert check_model_folder(folder)["model_type"] == "qwen3"
    assert load_model(folder, dtype=torch.float32, device=CPU).training is False


WEIGHTS, CONFIG = "model.safetensors", "config.json"


@pytest.mark.parametrize(
    ("name", "spoilt", "words"),
    [
        (WEIGHTS, lambda data: data[:-100], "corrupt: .*file not fully covered"),
        (WEIGHTS, lambda data: data[:8] + b"x" * 12 + data[20:], "corrupt"),
        (WEIGHTS, lambda data: b"\xff" * 8 + data[8:], "corrupt: .*header too large"),
        (WEIGHTS, None, "no .safetensors file"),
        (CONFIG, lambda data: b"{", "config.json cannot be read"),
        (CONFIG, lambda data: b"[]", "model_type=None"),
        (CONFIG, lambda data: data.replace(b"qwen3", b"gpt2"), "model_type='gpt2' must be one of qwen3, qwen2, llama"),
        (CONFIG, None, "config.json cannot be read"),
    ],
)
def test_a_spoilt_or_lost_file_is_named_in_one_line(folder, name, spoilt, words):
    path = folder / name
    if spoilt is None:
        path.unlink()
    else:
        path.write_bytes(spoilt(path.read_bytes()))
    with refused(f"(?=.*{folder}).*{words}"):
        check_model_folder(folder)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_hidden_layers": 2, "layer_types": None}, r"missing keys, 11, first model.layers.1"),
        ({"intermediate_size": 48}, r"does not load|mismatched"),
    ],
)
def test_weights_of_another_model_are_refused_and_none_is_random(folder, fields, words):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**config, **fields}))
    with refused(words):
        load_model(folder, dtype=torch.float32, device=CPU)


def test_tokenizers(folder, model_folders):
    path = folder / "tokenizer.json"
    assert load_tokenizer(folder).encode(" add\n\n", add_special_tokens=False).tokens == [" add", "\n\n"]
    assert tokenizer_fingerprint(folder) == tokenizer_fingerprint(model_folders["target"])
    path.write_text(path.read_text().replace(" add", " sum"))
    assert tokenizer_fingerprint(folder) != tokenizer_fingerprint(model_folders["target"])
    path.write_text("{}")
    with refused(r"tokenizer.json does not load"):
        load_tokenizer(folder)
    path.unlink()
    with refused("holds no tokenizer"):
        load_tokenizer(folder)
