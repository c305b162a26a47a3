"""The worker's loop in a thread, what it does when its parent falls silent; and the messages between the two."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch_jobs import random_model

from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.decoder import Decoder
from calibrate.engines.torch.framing import Frames, encode
from calibrate.engines.torch.job import Limits
from calibrate.engines.torch.worker import Worker, _ClosedError

PATIENCE_S = 60.0
"""Until a thread is taken as hanging, s: machines have much else to do."""

ASK = {"op": "submit", "max_tokens": 900, "ignore_eos": True}


@pytest.fixture
def served():
    """A worker at work in a thread: our end of its socket, its batch, the thread, and what ended it."""
    model = random_model(0, vocab_size=1000, num_hidden_layers=2, max_position_embeddings=1000)
    batch = ContinuousBatch(Decoder(model, 1000), None, frozenset(), Limits(max_batch=2, n_idle=1, max_context=1000))
    ours, theirs = socket.socketpair()
    worker = Worker(theirs)
    worker._batch = batch
    ends = []

    def serve():
        try:
            worker.run()
        except (_ClosedError, ConnectionError) as error:
            ends.append(type(error))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with ours, theirs:
        yield ours, batch, thread, ends
        ours.close()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("busy", [False, True])
def test_it_ends_when_its_parent_is_gone(served, busy):
    ours, batch, thread, ends = served
    if busy:
        ours.sendall(encode({**ASK, "id": 1}, [5, 6]))
        while not batch.work.iterations:
            pass
    ours.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(ends) == 1
    assert len(batch.work.iterations) < 899


def test_it_obeys_the_word_close_in_the_middle_of_work(served):
    ours, batch, thread, ends = served
    ours.sendall(encode({**ASK, "id": 1}, [5, 6]))
    ours.sendall(encode({"op": "close"}))
    thread.join(PATIENCE_S)
    assert ends == [_ClosedError]
    assert len(batch.work.iterations) < 899


def test_aborts_are_acknowledged_with_the_tokens_drawn(served):
    ours, batch, _, _ = served
    ours.sendall(encode({**ASK, "id": 1}, [5, 6]))
    while len(batch.work.iterations) < 5:
        pass
    ours.sendall(encode({"op": "abort", "id": 1}) + encode({"op": "abort", "id": 99}))
    frames, received = Frames(), []
    while len(received) < 2:
        received += [header for header, _ in frames.feed(ours.recv(1 << 16))]
    assert [header["id"] for header in received] == [1, 99]
    assert received[0]["n_generated"] >= 6
    assert received[1]["n_generated"] == 0


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
