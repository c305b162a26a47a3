"""Whether the k that ``specplan explain`` recommends is the best one measured, on vLLM servers of different k.

Start a server for each k (none busy with anything else, all on the same cores), one of them without speculation:

    python -m benchmarks.explain_on_servers 0=http://127.0.0.1:8000 3=http://127.0.0.1:8003 9=http://127.0.0.1:8009

They answer the same prompts in turns, four at once, for `--seconds`. Then every server that speculates is explained,
with the one without speculation as the baseline, and what is recommended is compared with the measured paces: at once,
and after the steps that `explain` says, each with the running k that is nearest to it.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from calibrate.models.asking import bundled_problems
from specplan.live.explaining.explanation import Explanation, explained, point_of
from specplan.live.explaining.reading import Reading, read_metrics
from specplan.live.explaining.window import Window, window

QUESTIONS: Final = 12
"""Questions of a turn."""
AT_ONCE: Final = 4
TOKENS: Final = 160
PROMPTS: Final = [one.prompt for one in bundled_problems(200, 77, "validation")]


def reading(url: str) -> Reading:
    """What the server counts now."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as page:
        return read_metrics(page.read().decode(), url)


def answer(url: str, number: int) -> None:
    """Have the only model of a server answer a question."""
    with urllib.request.urlopen(f"{url}/v1/models", timeout=60) as page:
        model = json.load(page)["data"][0]["id"]
    asked = {"model": model, "prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": TOKENS, "seed": number}
    body = json.dumps({**asked, "temperature": 0.6, "top_p": 0.95, "ignore_eos": True}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as page:
        page.read()


def measured(servers: Mapping[int, str], seconds: float) -> dict[int, list[Reading]]:
    """Readings of each server before and after every turn."""
    for url in servers.values():
        answer(url, 0)  # the first is slow
    found = {k: [reading(url)] for k, url in servers.items()}
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end or turn < 2:
        for k in sorted(servers, reverse=bool(turn % 2)):
            asked = range(turn * QUESTIONS, (turn + 1) * QUESTIONS)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(partial(answer, servers[k]), asked))
            found[k].append(reading(servers[k]))
        turn += 1
    return found


def main() -> None:
    """Measure, explain, compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("servers", nargs="+", metavar="K=URL")
    parser.add_argument("--seconds", type=float, default=240.0)
    given = parser.parse_args()
    servers = {int(one.partition("=")[0]): one.partition("=")[2].rstrip("/") for one in given.servers}
    readings = measured(servers, given.seconds)
    windows = {k: window(found[0], found[-1]) for k, found in readings.items()}
    paces = {k: one.committed / one.round_s for k, one in windows.items()}
    best = max(paces, key=lambda k: paces[k])
    print("tokens per second of an answer: " + ", ".join(f"k = {k}: {paces[k]:.1f}" for k in sorted(paces)))
    for k in sorted(set(servers) - {0}):
        asked = followed(k, readings, windows)
        depth = asked[-1][1].depth
        assert depth is not None
        said = min(paces, key=lambda one: abs(one - depth.best.value))
        print(
            f"from k = {k}: {'; '.join(_told(one, found) for one, found in asked)}. "
            f"Measured: the best is {best}, and {said} reaches {paces[said] / paces[best]:.1%} of its pace"
        )


def followed(
    start: int, readings: Mapping[int, list[Reading]], windows: Mapping[int, Window]
) -> list[tuple[int, Explanation]]:
    """Return what is said of a k and, where that is not sure, of the running ones nearest to the steps it says."""
    found: list[tuple[int, Explanation]] = []
    points, k = [point_of(windows[0])], start
    while True:
        one = explained(readings[k], baselines=points, plain_cache=windows[0].cache_tokens)
        found.append((k, one))
        depth = one.depth
        assert depth is not None
        following = min(set(readings) - {0}, key=lambda other: abs(other - depth.step))
        if depth.sure or following in [other for other, _ in found]:
            return found
        points.append(point_of(windows[k]))
        k = following


def _told(k: int, found: Explanation) -> str:
    depth = found.depth
    assert depth is not None
    causes = ", ".join(cause.name + ("" if cause.sure else " (unsure)") for cause in found.causes)
    step = "sure" if depth.sure else f"run k = {depth.step} next"
    return f"k = {k} says {depth.best.value:.0f} [{depth.best.low:.0f}, {depth.best.high:.0f}], {step} ({causes})"


if __name__ == "__main__":
    main()
