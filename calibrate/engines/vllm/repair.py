"""Repairs of vLLM's CPU build, for the processes that run its model.

*Sampling while speculating.* Without Triton, vLLM 0.32.0 replaces its kernels by C++ ones that work on 64-bit integers.
The kernel that repeats a request's temperature and top-p for each of its drafted tokens converts its output to
integers, writes there, and never copies back: drafted tokens are verified at an arbitrary temperature from
uninitialised memory. Greedy requests are not affected. With a temperature the text is wrong, and acceptance is far too
low (n-grams: 0).

*Chunked prompts.* Where the prompts of an iteration exceed its budget of tokens, a prompt is read in chunks, and the
token drawn after a chunk is discarded. vLLM then sets the request's random generator back by an offset, which
generators on CPUs do not have: the engine dies if the request has a seed and a temperature.

The engine is started with `EXTENSION` as its ``worker_extension_cls``, which makes the worker import
`calibrate.engines.vllm.worker`; that tests both, and replaces only broken parts. A server has the option
``--worker-extension-cls`` for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

__all__ = ["EXTENSION", "cannot_rewind", "expand", "is_broken", "repair", "rewinding"]

EXTENSION: Final = "calibrate.engines.vllm.worker.RepairedSampling"
"""Value of vLLM's ``worker_extension_cls``."""

_KERNEL: Final = "vllm.v1.sample.rejection_sampler.expand_kernel"


def expand(
    output: torch.Tensor,
    values: torch.Tensor,
    cumulated: torch.Tensor,
    replace_from: float,
    replace_to: float,
    MAX_NUM_TOKENS: int | None = None,  # noqa: N803 (vLLM passes it by this name)
) -> None:
    """Write the value of each request once for each of its tokens, with one value replaced by another.

    ``output`` (tokens,) is written to, ``values`` has a value per request, and ``cumulated`` the tokens of the requests
    up to and including each.
    """
    import torch

    counts = torch.diff(cumulated, prepend=cumulated.new_zeros(1)).to(torch.int64)
    replaced = torch.where(values == replace_from, torch.full_like(values, replace_to), values)
    output.copy_(torch.repeat_interleave(replaced, counts).to(output.dtype))


def is_broken() -> bool:
    """Whether the kernel loses numbers that are not integers. False where vLLM has another kernel (Triton, GPUs)."""
    import torch
    from vllm.triton_utils import HAS_TRITON

    if HAS_TRITON:
        return False
    from vllm.utils.cpu_triton_utils import _expand_kernel_impl

    output = torch.full((3,), -1.0)
    _expand_kernel_impl(output, torch.tensor([0.5, 2.0]), torch.tensor([2, 3]), 0, 1)
    return bool(output.tolist() != [0.5, 0.5, 2.0])


def cannot_rewind() -> bool:
    """Whether random generators on CPUs lack the offset that vLLM sets back."""
    import torch

    try:
        torch.Generator("cpu").get_offset()
    except RuntimeError:
        return True
    return False


def rewinding(bookkeeping: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap vLLM's bookkeeping after a pass, a method of its model runner, so that it never gets such a generator.

    A request whose prompt is not complete has no valid draw yet: its generator is reset. A request that was preempted
    in the middle of its text draws its first numbers again, for other tokens.
    """

    def repaired(runner: Any, *arguments: Any, **named: Any) -> Any:
        generators = runner.input_batch.generators
        thrown_away = runner.discard_request_mask.np[: runner.input_batch.num_reqs].nonzero()[0].tolist()
        held = {i: generators.pop(i) for i in thrown_away if i in generators}
        for generator in held.values():
            generator.manual_seed(generator.initial_seed())
        try:
            return bookkeeping(runner, *arguments, **named)
        finally:
            generators.update(held)

    return repaired


def repair() -> None:
    """Replace the broken parts; no effect on other devices."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    if is_broken():
        from vllm.triton_utils.dispatcher import register_kernels
        from vllm.utils import cpu_triton_utils

        cpu_triton_utils._expand_kernel_impl = expand  # for a registration that comes later
        register_kernels({_KERNEL: expand})
    if cannot_rewind():
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner

        GPUModelRunner._bookkeeping_sync = rewinding(GPUModelRunner._bookkeeping_sync)
