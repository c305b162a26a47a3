"""The worker's loop in a thread, and what it does when its parent falls silent."""

import json
import socket
import threading

import pytest
from torch_jobs import random_model

from calibrate.engines.torch.batch import ContinuousBatch
from calibrate.engines.torch.decoder import Decoder
from calibrate.engines.torch.job import Limits
from calibrate.engines.torch.worker import Worker, _ClosedError

PATIENCE_S = 60.0
"""Until a thread is taken as hanging, s: machines have much else to do."""

ASK = {"op": "submit", "id": 1, "prompt": [5, 6], "max_tokens": 900, "ignore_eos": True}


def encode(*messages):
    return "".join(json.dumps(message) + "\n" for message in messages).encode()


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
        ours.sendall(encode(ASK))
        while not batch.work.iterations:
            pass
    ours.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(ends) == 1
    assert len(batch.work.iterations) < 899


def test_it_obeys_the_word_close_in_the_middle_of_work(served):
    ours, batch, thread, ends = served
    ours.sendall(encode(ASK, {"op": "close"}))
    thread.join(PATIENCE_S)
    assert ends == [_ClosedError]
    assert len(batch.work.iterations) < 899


def test_aborts_are_acknowledged_with_the_tokens_drawn(served):
    ours, batch, _, _ = served
    for byte in encode(ASK):  # a message may come in any parts
        ours.sendall(bytes([byte]))
    while len(batch.work.iterations) < 5:
        pass
    ours.sendall(encode({"op": "abort", "id": 1}, {"op": "abort", "id": 99}))
    with ours.makefile("rb") as file:
        received = [json.loads(file.readline()) for _ in range(2)]
    assert [header["id"] for header in received] == [1, 99]
    assert received[0]["n_generated"] >= 6
    assert received[1]["n_generated"] == 0
