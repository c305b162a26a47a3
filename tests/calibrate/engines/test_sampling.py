from functools import partial

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from scipy import stats

from calibrate.engines.protocol import GREEDY, Request, Sampling
from calibrate.engines.sampling import draw, nucleus, uniform

LOGITS = st.lists(st.floats(-8, 8), min_size=2, max_size=12)


def test_uniforms_are_uniform_and_streams_differ():
    sample = np.array([uniform(seed, i) for seed in range(40) for i in range(250)])
    assert stats.kstest(sample, "uniform").pvalue > 1e-6  # false alarm once in a million
    assert len(set(sample.tolist())) == sample.size
    across = np.array([[uniform(seed, i) for i in range(500)] for seed in (7, 8)])
    assert abs(np.corrcoef(across)[0, 1]) < 5 / np.sqrt(500)  # 5 standard errors, 6e-7


def test_frequencies_follow_the_softmax():
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0])
    n, temperature = 4000, 0.8
    rows = logits.expand(n, -1)
    tokens = draw(rows, [Sampling(temperature=temperature)] * n, [uniform(3, i) for i in range(n)])
    expected = torch.softmax(logits.double() / temperature, -1).numpy() * n
    assert stats.chisquare(np.bincount(tokens, minlength=4), expected).pvalue > 1e-6


@given(LOGITS, st.floats(0.05, 1.0))
def test_nucleus_is_the_smallest_likeliest_set(logits, top_p):
    p = torch.softmax(torch.tensor(logits, dtype=torch.float64), -1)
    kept = nucleus(p.clone(), top_p)
    inside = kept > 0
    assert torch.equal(kept[inside], p[inside])
    assert float(kept.sum()) >= top_p - 1e-12
    assert float(kept.sum() - kept[inside].min()) < top_p  # one fewer would not do
    if not bool(inside.all()):
        assert float(p[inside].min()) >= float(p[~inside].max())


@given(LOGITS, st.integers(0, 2**63), st.floats(0.1, 3.0), st.floats(0.05, 1.0))
def test_a_row_is_drawn_alike_alone_and_in_company(logits, seed, temperature, top_p):
    row = torch.tensor(logits)
    sampling = Sampling(temperature=temperature, top_p=top_p)
    u = uniform(seed, 0)
    alone = draw(row[None], [sampling], [u])
    company = draw(torch.stack([row.flip(0), row, row]), [GREEDY, sampling, GREEDY], [0.0, u, 0.0])
    assert company[1] == alone[0]
    assert company[2] == int(row.argmax())


def test_the_largest_uniform_still_names_a_token():
    probabilities = torch.zeros(1, 7)
    tokens = draw(probabilities, [Sampling(temperature=1.0)], [1.0 - 2.0**-52])
    assert tokens == [6]


test_bad_sampling_is_named = refuses(
    Sampling,
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
    ({"top_p": 0.0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
)


test_bad_request_is_named = refuses(
    partial(Request, prompt="x", max_tokens=1),
    ({"prompt": ""}, "prompt"),
    ({"prompt": ()}, "prompt"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"stop": ("",)}, "stop"),
)
