"""Limits of waits, in virtual time: when they end, and what is a cancellation of its own."""

import asyncio

import pytest
from virtual_time import run_virtually

from calibrate.engines.http.waits import Wait, Waits


async def waited(waits: Waits, *pauses: float, unlimited: bool = False) -> str:
    """Wait several times, in one `Wait` that begins anew before each; say how it ended, and when."""
    loop, moment = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    try:
        with Wait(waits) as wait:
            for seconds in pauses:
                wait.pause() if unlimited else wait.again()
                await asyncio.sleep(seconds)
        how = "whole"
    except TimeoutError:
        how = "late"
    return f"{how} after {loop.time() - moment:.1f}"


def test_each_wait_ends_after_its_own_limit() -> None:
    async def program() -> list[str]:
        waits = Waits(10.0)
        one = asyncio.create_task(waited(waits, 100.0))
        await asyncio.sleep(4.0)
        others = waited(waits, 9.0), waited(waits, 100.0), waited(waits, 9.0, 9.0, 9.0), waited(waits, 9.0, 100.0)
        return await asyncio.gather(one, *others, waited(waits, 50.0, unlimited=True))

    first, short, late, renewed, silent, paused = run_virtually(program())
    assert (short, renewed, paused) == ("whole after 9.0", "whole after 27.0", "whole after 50.0")
    for seen, limit in ((first, 10.0), (late, 10.0), (silent, 19.0)):
        how, _, after = seen.partition(" after ")
        assert how == "late"
        assert limit <= float(after) <= limit + 1.1


def test_a_task_that_is_cancelled_is_not_late() -> None:
    async def program() -> tuple[bool, str, int]:
        waits = Waits(10.0)
        waiting = asyncio.create_task(waited(waits, 100.0))
        await asyncio.sleep(1.0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        later = await waited(waits, 100.0)  # its timer runs anew
        current = asyncio.current_task()
        assert current is not None
        return waiting.cancelled(), later.partition(" ")[0], current.cancelling()

    assert run_virtually(program()) == (True, "late", 0)
