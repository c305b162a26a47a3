"""Widened models compute what the bundled ones compute, in sizes that divide badly too, and in the published ones."""

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from screens import refused_words
from torch_jobs import answered, batch_of, job

from calibrate import pair
from calibrate.engines.protocol import Sampling
from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.job import Job, Limits
from calibrate.engines.torch.model import load_model, load_tokenizer
from calibrate.models.local import TorchModels
from calibrate.pair.widening.pair import wide_pair, widen_pair
from calibrate.pair.widening.sizes import Placement, Sizes, sizes_of_config, sizes_of_shape
from specplan.worlds.model_files import shape_of
from theory.errors import ParameterError

CPU = torch.device("cpu")
TOLERANCE = 1.5e-4
"""Of float32 logits, which are as large as 30: either model's are up to 6e-5 from those computed in float64."""

ODD = Sizes(
    name="odd", hidden=135, intermediate=300, layers=33, heads=9, kv_heads=3, head_dim=48, vocab=999, tied=False
)
"""Groups of 3 query heads where the target has 4; heads of 48 dimensions, not a multiple of its 32; a further layer."""
EVEN = Sizes(
    name="even", hidden=256, intermediate=256, layers=34, heads=8, kv_heads=4, head_dim=64, vocab=512, tied=True
)
SIZES = [ODD, EVEN]


def shallow(sizes: Sizes, layers: int) -> Sizes:
    return replace(sizes, layers=layers)


def of_all_roles(sizes: Sizes) -> dict[str, Sizes]:
    return {"target": sizes, "draft": shallow(sizes, 4), "judge": shallow(sizes, 8)}


@pytest.fixture(scope="module")
def wide_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Widened pairs in float32, by the name of their sizes."""
    base = tmp_path_factory.mktemp("wide")
    for sizes in SIZES:
        widen_pair(wide_pair(of_all_roles(sizes)), base / sizes.name, dtype="float32")
    return {sizes.name: base / sizes.name for sizes in SIZES}


def asked(role: str) -> list[list[int]]:
    """Token ids of texts that a model of the pair is asked to continue or to judge."""
    tokenizer = load_tokenizer(pair.target_path())
    texts = [problem.prompt for problem in pair.problems(3, 1)]
    if role == "judge":
        texts = [
            pair.judge_prompt("So May brings: Plus 7 is 17.", f"So May brings: Add 7 to get {n}.") for n in (17, 18)
        ]
    return [tokenizer.encode(text).ids for text in texts]


def logits(folder: Path, texts: list[list[int]], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Logits of transformers' own model."""
    model = load_model(folder, dtype=dtype, device=CPU)
    with torch.no_grad():
        return [model(torch.tensor([ids])).logits[0].double() for ids in texts]


@cache
def greedy(folder: Path, n_tokens: int) -> list[list[int]]:
    """The pair's answers to its questions, with their questions."""
    model = load_model(folder, dtype=torch.float32, device=CPU)
    questions = [torch.tensor([ids]) for ids in asked("target")]
    asked_for = {"max_new_tokens": n_tokens, "do_sample": False, "pad_token_id": 1}
    return [model.generate(ids, **asked_for)[0].tolist() for ids in questions]


def same_logits(small: Path, wide: Path, texts: list[list[int]]) -> None:
    vocab = 374
    for one, other in zip(logits(small, texts), logits(wide, texts), strict=True):
        assert other.shape[1] > vocab
        assert (one - other[:, :vocab]).abs().max() < TOLERANCE
        assert torch.equal(one.argmax(-1), other.argmax(-1))
        assert other[:, vocab:].max() < -100.0


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: sizes.name)
@pytest.mark.parametrize("role", ["target", "draft", "judge"])
def test_logits_are_those_of_the_bundled_model(role, sizes, wide_folders):
    texts = asked(role) if role == "judge" else greedy(pair.draft_path(), 60)
    same_logits(pair.model_path(role), wide_folders[sizes.name] / role, texts)


@pytest.mark.slow
@pytest.mark.parametrize(("role", "shape", "layers"), [("target", "qwen3-0.6b", 32), ("judge", "qwen3-1.7b", 9)])
def test_texts_at_published_shapes_are_those_of_the_bundled_model(role, shape, layers, tmp_path):
    """Every place of a text of the small model has the small model's likeliest token, so the texts are equal."""
    facts = shape_of(shape)
    sizes = sizes_of_shape("shape", facts.name, facts.shape, layers)
    (model,) = (one for one in wide_pair({**of_all_roles(EVEN), role: sizes}) if one.role == role)
    widen_pair([model], tmp_path / "pair", dtype="float32")
    texts = asked("judge") if role == "judge" else greedy(pair.target_path(), 60)[:1]
    same_logits(pair.model_path(role), tmp_path / "pair" / role, texts)
    shutil.rmtree(tmp_path / "pair")


@cache
def answers(folder: Path, head: Path) -> list[Job]:
    """Sampled answers of the torch engine, with tokens that an EAGLE head drafts."""
    drafting = Speculation(method="eagle", model=head, k2=4)
    asking = {"sampling": Sampling(temperature=0.6, top_p=0.95), "speculation": drafting, "ignore_eos": False}
    batch = batch_of(folder, Limits(max_batch=4, n_idle=2, max_context=512), drafting)
    return answered(batch, *(job(ids, 40, seed=n, **asking) for n, ids in enumerate(asked("target"))))


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: sizes.name)
def test_the_wide_head_drafts_and_the_engine_draws_the_same_tokens(sizes, wide_folders):
    wide = wide_folders[sizes.name]
    small, large = answers(pair.target_path(), pair.head_path()), answers(wide / "target", wide / "eagle")
    assert [one.tokens for one in small] == [one.tokens for one in large]
    assert [one.passes for one in small] == [one.passes for one in large]
    assert sum(accepted for one in small for _, accepted in one.passes) > 40


def test_half_precision_is_as_near_as_the_bundled_model_in_half_precision(tmp_path):
    """Both round: the wide one is as far from float32 as the bundled one (measured: 1.0 to 1.07 times)."""
    (_, draft, *_) = wide_pair(of_all_roles(ODD))
    widen_pair([draft], tmp_path / "pair", dtype="bfloat16")
    texts, half = greedy(pair.draft_path(), 60), torch.bfloat16
    exact, small = logits(pair.draft_path(), texts), logits(pair.draft_path(), texts, half)
    wide = [one[:, :374] for one in logits(tmp_path / "pair" / "draft", texts, half)]
    off = [torch.cat([(a - b).abs().mean(-1) for a, b in zip(exact, one, strict=True)]).mean() for one in (small, wide)]
    assert off[1] < 1.25 * off[0]


def sizes_up_to(kv_heads: int, half_dim: int, hidden: int) -> st.SearchStrategy[Sizes]:
    return st.builds(
        lambda group, kv, dim: replace(ODD, hidden=hidden, heads=group * kv, kv_heads=kv, head_dim=2 * dim),
        *(st.integers(1, most) for most in (6, kv_heads, half_dim)),
    )


@given(small=sizes_up_to(3, 20, ODD.hidden), wide=sizes_up_to(12, 64, 999), base=st.floats(100.0, 1e6))
def test_heads_keep_their_keys_and_their_frequencies(small, wide, base):
    try:
        place = Placement(small, wide, "target")
    except ParameterError:
        assert (
            small.head_dim > wide.head_dim
            or small.heads > wide.heads
            or (small.kv_heads * -(-small.group // wide.group) > wide.kv_heads)
        )
        return
    keys = set(place.kv_heads)
    assert len({new for _, new in keys}) == len(keys)
    assert len({new for _, new in place.query_heads}) == small.heads
    for head, new in place.query_heads:
        assert (head // small.group, new // wide.group) in keys
    half = small.head_dim // 2
    for pair_, dimension in enumerate(place.rotated[:half]):
        assert place.rotated[half + pair_] == dimension + wide.head_dim // 2
        frequency = place.rotary_base(base) ** (-2 * dimension / wide.head_dim)
        assert frequency == pytest.approx(base ** (-2 * pair_ / small.head_dim), rel=1e-9)


test_a_shape_that_is_too_small_is_refused = refuses(
    lambda role="target", **change: wide_pair({**of_all_roles(EVEN), role: replace(EVEN, **change)}),
    ({"hidden": 128}, "^shape='even' has 128 hidden dimensions, and the bundled target needs 129 or more"),
    ({"intermediate": 255}, "^shape='even' has 255 intermediate dimensions, .* 256 or more"),
    ({"layers": 31}, "^shape='even' has 31 layers, .* 32 or more: choose a larger shape, or --layers 32"),
    ({"heads": 3, "kv_heads": 1}, "^shape='even' has 3 query heads, .* 4 or more"),
    ({"heads": 1, "kv_heads": 1}, "^shape='even' has 1 query heads, .* 4 or more"),
    ({"heads": 4, "kv_heads": 4, "head_dim": 30}, "^shape='even' has 30 dimensions of a head, .* 32 or more"),
    ({"head_dim": 33}, "^shape='even' has 33 dimensions of a head, which are not even"),
    ({"hidden": 250}, "^shape='even' has 250 hidden dimensions, not a multiple of its 8 query heads"),
    ({"vocab": 373}, "^shape='even' has 373 tokens in the vocabulary, .* 374 or more"),
    ({"role": "draft", "layers": 2}, "^draft-shape='even' has 2 layers, .* or --draft-layers 3"),
)


def test_sizes_count_the_weights_of_published_models():
    for name in ("qwen3-0.6b", "qwen3-8b", "llama-3.1-8b-instruct"):
        shape = shape_of(name).shape
        assert sizes_of_shape("shape", name, shape).parameters == shape.parameters


def test_folders_hold_what_their_size_says(wide_folders):
    for model in wide_pair(of_all_roles(ODD)):
        folder = wide_folders["odd"] / model.role
        files = list(folder.glob("*.safetensors"))
        assert len(files) == model.n_files
        written = sum(path.stat().st_size for path in files)
        assert model.n_bytes("float32") <= written < 1.02 * model.n_bytes("float32") + 100_000
        config = json.loads((folder / "config.json").read_text())
        assert replace(sizes_of_config("odd", config), tied=False) == replace(model.placement.wide, tied=False)


def test_the_seed_decides_the_random_weights(tmp_path):
    from safetensors.torch import load_file

    model = wide_pair(of_all_roles(ODD))[1]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        widen_pair([model], tmp_path / name, seed=seed)
    a, b, c = (load_file(tmp_path / name / "draft" / "layer-001.safetensors") for name in "abc")
    gate = "model.layers.1.mlp.gate_proj.weight"
    assert torch.equal(a[gate], b[gate])
    assert not torch.equal(a[gate], c[gate])
    assert torch.equal(a[gate][:128, :64], c[gate][:128, :64])


def test_a_widened_pair_is_asked_the_bundled_task(wide_folders, model_folders):
    folder = wide_folders["odd"]
    models = TorchModels(target=str(folder / "target"), draft=str(folder / "draft"), judge=str(folder / "judge"))
    assert models.is_bundled
    assert models.judge_prompt() is pair.judge_prompt
    assert models.judging == str(folder / "judge")
    other = TorchModels(target=str(model_folders["target"]), draft=str(model_folders["draft"]))
    assert not other.is_bundled
    assert other.judging == "target"


def test_an_error_while_writing_leaves_nothing(tmp_path):
    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        widen_pair(wide_pair(of_all_roles(ODD)), tmp_path / "pair", written=fail)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_only_by_force(tmp_path):
    folder, (_, draft, *_) = tmp_path / "pair", wide_pair(of_all_roles(ODD))
    folder.mkdir()
    (folder / "mine").touch()
    with pytest.raises(ParameterError, match=r"output='.*pair' exists; use --force"):
        widen_pair([draft], folder)
    assert (folder / "mine").exists()
    widen_pair([draft], folder, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "draft"]
    assert [path.name for path in tmp_path.iterdir()] == ["pair"]


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=300 * 2**20))
    facts = shape_of("qwen3-8b")
    target = sizes_of_shape("shape", facts.name, facts.shape)
    with pytest.raises(ParameterError, match=r"needs 16.\d GB, and 0.3 GB are free there: name a folder"):
        widen_pair(wide_pair({**of_all_roles(ODD), "target": target}), tmp_path / "pair")
    assert list(tmp_path.iterdir()) == []


test_the_command_refuses_in_one_line = refused_words(
    "pair widen -o pair",
    (("--shape", "qwen3-30b-a3b"), "--shape='Qwen/Qwen3-30B-A3B' must be a dense model with full attention"),
    (("--shape", "gemma-2-9b-it"), "--shape='google/gemma-2-9b-it' must be a dense model with full attention"),
    (("--shape", "qwen3-8b", "--draft-shape", "qwen"), "must be a config.json, a folder with one, or one of"),
    (("--shape", "qwen3-0.6b"), "has 28 layers, and the bundled target needs 32 or more"),
    (("--shape", "qwen3-8b", "--dtype", "int8"), "--dtype='int8' must be one of bfloat16, float16, float32"),
    (("--shape", "qwen3-8b", "--layers", "0"), "--layers=0 must be an integer in [1, 1000]"),
)


def test_the_command_makes_a_pair_of_a_shape_in_a_file(run_main, tmp_path):
    config = {
        "model_type": "llama",
        "hidden_size": 192,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 500,
        "head_dim": 32,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    shape, folder = str(tmp_path / "config.json"), tmp_path / "pair"
    shapes = ("--shape", shape, "--draft-shape", shape, "--judge-shape", shape)
    layers = ("--layers", "32", "--draft-layers", "3", "--judge-layers", "8")
    asked_for = ("--dtype", "float16", "--context", "9216")
    code, out, err = run_main("pair", "widen", *shapes, *layers, *asked_for, "-o", str(folder))
    assert (code, err) == (0, "")
    assert "target, draft, judge, eagle" in out
    written = json.loads((folder / "draft" / "config.json").read_text())
    assert (written["num_hidden_layers"], written["vocab_size"], written["dtype"]) == (3, 500, "float16")
    assert written["max_position_embeddings"] == 9216
    card = (folder / "README.md").read_text()
    assert "| target | " in card
    assert "9,216" in card
