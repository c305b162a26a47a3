from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.engines.torch.framing import Frames, encode

IDS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20)
TEXT = st.text('a{}",\\\n\0é€😀', max_size=9)
HEADERS = st.dictionaries(TEXT, st.one_of(st.integers(), TEXT, st.booleans()), max_size=4)


@given(st.lists(st.tuples(HEADERS, IDS), max_size=5), st.lists(st.integers(1, 50), min_size=1))
def test_messages_survive_any_chopping(messages, cuts):
    stream = b"".join(encode(header, ids) for header, ids in messages)
    frames, received, at = Frames(), [], 0
    while at < len(stream):
        size = cuts[at % len(cuts)]
        received += [(header, ids.tolist()) for header, ids in frames.feed(stream[at : at + size])]
        at += size
    assert received == [(header, ids) for header, ids in messages]


def test_header_that_is_no_object_is_refused():
    data = encode({})
    with pytest.raises(ValueError, match="not a JSON object"):
        list(Frames().feed(data.replace(b"{}", b"[]")))
