"""An EAGLE head in the torch engine drafts what the head that was trained drafts, from whatever the caches hold."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch_jobs import advanced, answered, bundled_prompts, decoder_of

from calibrate.engines.speculation import Speculation
from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.job import SPARE, Job, Limits
from calibrate.engines.torch.token_methods.eagle import EagleHead, build_head, load_head, read_head, save_head
from calibrate.pair import head_path, target_path
from theory.errors import CalibrationError
from workshop.training.head import Text, drafts
from workshop.training.inference import load

LIMITS = Limits(max_batch=4, n_idle=4, max_context=400)
EAGLE = Speculation(method="eagle", k2=5, model=head_path())


@pytest.fixture
def target():
    return decoder_of(target_path())


class Watched(EagleHead):
    """Keeps what it drafted: tokens of the text so far, and the draft."""

    def propose(self, jobs, room):
        found = super().propose(jobs, room)
        for job, rows in zip(jobs, found, strict=True):
            self.seen.setdefault(job.id, []).append((len(job.prompt) + len(job.tokens), rows.ids[1:]))
        return found


@pytest.fixture
def engine(target):
    head = Watched(load_head(head_path(), target, LIMITS.max_context + SPARE), LIMITS, LIMITS.max_context)
    head.seen = {}
    return ContinuousBatch(target, None, frozenset(), LIMITS, {("eagle", EAGLE.source): head}), head


@pytest.fixture(scope="module")
def prompts():
    return bundled_prompts(3, 5)


def draft(job_id, prompt, n=60, speculation=EAGLE):
    return Job(id=job_id, prompt=prompt, max_tokens=n, ignore_eos=True, speculation=speculation)


def test_drafts_are_those_of_the_trained_head(engine, prompts):
    """Each likeliest drafted token against a pass of transformers over the whole text, as far as the text agrees."""
    batch, head = engine
    jobs = [draft(i, prompt) for i, prompt in enumerate(prompts)]
    answered(batch, *jobs)
    model, trained = load(target_path()), read_head(head_path())
    compared, right = 0, 0
    for job in jobs:
        ids = torch.tensor([*job.prompt, *job.tokens])
        with torch.inference_mode():
            hidden = model.network.model(input_ids=ids[None]).last_hidden_state[0]
            text = Text(ids=ids, hidden=hidden, n_prompt=len(job.prompt))
            likeliest = [one.logits[0].argmax(-1) for one in drafts(trained, model.network, [text], EAGLE.k2 - 1)]
        for n, drafted in head.seen[job.id]:
            for depth, token in enumerate(drafted):
                assert token == likeliest[depth][n - 2]
                compared += 1
                if token != ids[n + depth]:
                    break
                right += 1
    assert compared > 60
    assert right > compared / 2


def test_what_the_target_has_cached_without_the_head_is_read_again(engine, prompts):
    """After a plain request with the same beginning, the head drafts what it drafts on its own."""
    batch, head = engine
    alone = draft(1, prompts[0])
    answered(batch, alone)
    batch.forget()
    answered(batch, draft(2, prompts[0][:-3], 3, None))
    after = draft(3, prompts[0])
    answered(batch, after)
    assert after.n_cached == 0
    assert head.seen[3] == head.seen[1]
    assert after.tokens == alone.tokens


def test_a_text_is_taken_up_again_where_the_head_left_it(engine, prompts):
    batch, head = engine
    first = draft(1, prompts[0], 30)
    answered(batch, first)
    longer = [*prompts[0], *first.tokens]
    second = draft(2, longer, 30)
    answered(batch, second)
    assert len(longer) - 2 * EAGLE.k2 <= second.n_cached < len(longer)
    batch.forget()
    fresh = draft(3, longer, 30)
    answered(batch, fresh)
    assert (second.tokens, head.seen[2]) == (fresh.tokens, head.seen[3])
    assert head.cache.n_active == 0
    assert head._features == {}


def test_a_long_prompt_beside_others_is_read_alone(engine, prompts):
    batch, head = engine
    advanced(batch, 6, *(draft(i, prompt, 50) for i, prompt in enumerate(prompts[1:], 1)))
    late = draft(9, prompts[0], 50)
    answered(batch, late)
    shared = head.seen[9]
    batch.forget()
    answered(batch, draft(10, prompts[0], 50))
    assert shared == head.seen[10]


def test_a_prompt_of_one_token_has_nothing_to_take_up(engine):
    batch, _ = engine
    plain = draft(1, [7], 12, None)
    answered(batch, plain)
    for number in (2, 3):
        one = draft(number, [7], 12)
        answered(batch, one)
        assert (one.tokens, one.n_cached) == (plain.tokens, 0)


def test_a_head_survives_its_folder(tmp_path, target):
    torch.manual_seed(0)
    config = json.loads((head_path() / "config.json").read_text())
    head = build_head({**config, "num_hidden_layers": 2, "bias": True})
    save_head(head, tmp_path)
    again = read_head(tmp_path)
    assert all(torch.equal(weight, again.state_dict()[name]) for name, weight in head.state_dict().items())
    assert load_head(tmp_path, target, 100).n_layers == 2


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(head_path(), tmp_path / "head")
    return tmp_path / "head"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model_type": "qwen3"}, "model_type='qwen3' must be 'llama'"),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, r"is of EAGLE-3, which vLLM engines run"),
        ({"hidden_size": 64}, "is not of this target: hidden_size=64, the target has 128"),
        ({"vocab_size": 99}, "is not of this target: vocab_size=99, the target has 374"),
        ({"num_hidden_layers": 2}, r"the weight layers.1.* is missing"),
        ({"intermediate_size": 64}, r"the weight layers.0.mlp.down_proj.weight has the shape \(128, 256\), its conf"),
    ],
)
def test_a_folder_of_another_head_is_refused(folder, target, fields, said):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    with pytest.raises(CalibrationError, match=said):
        load_head(folder, target, 100)


def test_other_weights_are_refused_but_not_those_of_the_target(folder, target):
    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, "lm_head.weight": torch.zeros(374, 128)}, path)
    assert load_head(folder, target, 100).vocab_size == 374
    save_file({**weights, "d2t": torch.zeros(3)}, path)
    with pytest.raises(CalibrationError, match=r"EAGLE head .*: the weight d2t is not of a head"):
        load_head(folder, target, 100)
