from __future__ import annotations

import json
import shutil

import pytest
import torch

from calibrate.engines.torch.model import check_model_folder, load_model, load_tokenizer, tokenizer_fingerprint
from theory.errors import CalibrationError

CPU = torch.device("cpu")


@pytest.fixture
def folder(model_folders, tmp_path):
    """A good model folder that a test may spoil."""
    return shutil.copytree(model_folders["draft"], tmp_path / "model")


def one_line(error):
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_good_folder_passes(folder):
    assert check_model_folder(folder)["model_type"] == "qwen3"
    assert load_model(folder, dtype=torch.float32, device=CPU).training is False


def spoil_truncate(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def spoil_header(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[8:20] = b"x" * 12
    path.write_bytes(data)


def spoil_length(folder):
    path = folder / "model.safetensors"
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])


def spoil_pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def spoil_config(folder):
    (folder / "config.json").write_text("{")


def spoil_config_list(folder):
    (folder / "config.json").write_text("[]")


def spoil_no_config(folder):
    (folder / "config.json").unlink()


def spoil_kind(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (shutil.rmtree, "no such folder"),
        (spoil_truncate, "corrupt: .* bytes, its header says"),
        (spoil_header, "corrupt"),
        (spoil_length, "header is longer than the file"),
        (spoil_pickle, "no .safetensors file"),
        (spoil_config, "config.json cannot be read"),
        (spoil_config_list, "model_type=None"),
        (spoil_no_config, "config.json cannot be read"),
        (spoil_kind, "model_type='gpt2' must be one of qwen3, qwen2, llama"),
    ],
)
def test_a_spoilt_folder_is_named_in_one_line(folder, spoil, words):
    spoil(folder)
    with pytest.raises(CalibrationError, match=words) as error:
        check_model_folder(folder)
    assert str(folder) in one_line(error)


def test_missing_weights_are_not_filled_with_random_ones(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2, "layer_types": None}))
    with pytest.raises(CalibrationError, match=r"missing keys, 11, first model.layers.1") as error:
        load_model(folder, dtype=torch.float32, device=CPU)
    one_line(error)


def test_weights_of_another_shape_are_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 48}))
    with pytest.raises(CalibrationError, match=r"does not load|mismatched") as error:
        load_model(folder, dtype=torch.float32, device=CPU)
    one_line(error)


def test_tokenizers(folder, model_folders):
    assert load_tokenizer(folder).encode(" add\n\n", add_special_tokens=False).tokens == [" add", "\n\n"]
    assert tokenizer_fingerprint(folder) == tokenizer_fingerprint(model_folders["target"])
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace(" add", " sum"))
    assert tokenizer_fingerprint(folder) != tokenizer_fingerprint(model_folders["target"])
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CalibrationError, match=r"tokenizer.json does not load") as error:
        load_tokenizer(folder)
    one_line(error)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CalibrationError, match="holds no tokenizer"):
        load_tokenizer(folder)
