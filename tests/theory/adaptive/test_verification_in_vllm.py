"""The rule of adaptive verification chooses what the installed vLLM's own code chooses, on the same draws."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from theory.adaptive.verification import best_budget, survival
from theory.checks import FloatArray

pytest.importorskip("vllm")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # of what vLLM imports
]

POSITIONS = 7


def chosen_by_vllm(conditional: NDArray[np.float32], draft_ms: FloatArray, verify_ms: FloatArray) -> int:
    """The draft budget of `get_num_tokens` for sequences with these confidences, by position, shape (N, positions)."""
    from vllm.v1.worker.gpu.spec_decode.adaptive_verification import AdaptiveVerificationManager

    n = len(conditional)
    names = [str(i) for i in range(n)]
    manager = AdaptiveVerificationManager.__new__(AdaptiveVerificationManager)
    manager.num_speculative_steps = POSITIONS
    manager.num_bonus_tokens = 1
    manager._max_total_logits = 10**9
    manager.cost_tables = (draft_ms, verify_ms)
    manager._stale_idx = 0
    manager._stale_confidences = [SimpleNamespace(np=conditional)]
    manager.req_states = SimpleNamespace(
        req_id_to_index={name: i for i, name in enumerate(names)},
        num_computed_tokens_np=np.full(n, 100),
        prefill_len=SimpleNamespace(np=np.full(n, 50)),
    )
    drafts = {name: [0] * POSITIONS for name in names}
    return int(manager.get_num_tokens(dict.fromkeys(names, 1 + POSITIONS), drafts)) - n


@pytest.mark.parametrize("n", [1, 4, 16, 64, 256])
def test_the_budget_is_the_one_that_vllm_chooses(n: int) -> None:
    """Rounds of one drafter, at batch sizes where all, some and none of the drafted tokens pay."""
    rng, rates = np.random.default_rng(n), (0.72, 0.72, 0.75, 0.78, 0.8, 0.81, 0.82)
    every, found = survival(rates), set()
    for slope in (0.0, 0.002, 0.01, 0.03, 0.3):
        alive = every[rng.integers(len(every), size=n)]
        conditional = np.exp(np.diff(np.log(np.column_stack([np.ones(n), alive])), axis=1)).astype(np.float32)
        draft, verify = np.full(n + 1, 0.4), 5.0 + slope * np.arange(n * (POSITIONS + 1) + 1.0) ** 1.2
        told = np.cumprod(conditional.astype(float), axis=1)
        ours = best_budget(told, lambda tokens, verify=verify: 0.4 + verify[tokens.astype(int)])
        assert ours == chosen_by_vllm(conditional, draft, verify)
        found.add(ours)
    assert max(found) > 0.95 * n * POSITIONS, "all but drafts whose survival is lost in the sum of the others"
    assert len(found) >= 2
