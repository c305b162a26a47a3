"""Where the points of a sweep are evaluated: processes of this machine, a Dask cluster, or a Ray cluster.

What a point is worth does not depend on where it runs, so backends differ in speed only. Points travel in pieces of up
to half a second of work, so that messages cost little and an interruption loses little.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final, Literal, get_args

from calibrate.record.profile import Profile
from specplan.planning.sweeping.evaluate import evaluated
from specplan.planning.sweeping.grid import Grid, Point
from theory.errors import ParameterError, SpecplanError

__all__ = ["BACKENDS", "Backend", "results"]

Backend = Literal["joblib", "dask", "ray"]
BACKENDS: Final = get_args(Backend)

_PIECE: Final = {"world": 64, "profile": 8}
"""Points that travel together, at most: those of a profile take ten times as long."""
_DASK: Final = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 25,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.preload": ["from signal import SIG_IGN, SIGINT, signal\nsignal(SIGINT, SIG_IGN)"],
}
"""How workers that are started here differ from Dask's own, which give freed memory back at once: the pages of every
array are then faulted in anew, which takes half as long as the work. Nobody sees their profile either. Ctrl-C, which
a terminal sends to all of them, is for the process that ends them."""

_Pieces = list[list[Point]]
_Shared = tuple[Grid, Profile | None]
_Batches = Iterator[list[tuple[str, dict[str, Any]]]]


class ClusterError(SpecplanError):
    """A cluster cannot be reached, or its client is not installed."""


def results(
    points: Sequence[Point],
    grid: Grid,
    profile: Profile | None,
    *,
    backend: Backend = "joblib",
    cluster: str | None = None,
    workers: int = 1,
) -> _Batches:
    """Evaluate points, and yield their keys and rows as batches are finished, in whatever order.

    Parameters
    ----------
    cluster : address of a running Dask or Ray cluster; without one, one of ``workers`` processes is started here.
    workers : processes on this machine, >= 1.

    Raises
    ------
    ParameterError : a cluster for joblib.
    ClusterError : the cluster does not answer, or the backend is not installed.
    """
    if backend == "joblib" and cluster is not None:
        raise ParameterError("cluster", cluster, "needs --backend dask or ray")
    most = _PIECE["world" if profile is None else "profile"]
    size = max(min(most, len(points) // (4 * workers)), 1)
    pieces = [list(points[i : i + size]) for i in range(0, len(points), size)]
    run = {"joblib": _by_joblib, "dask": _by_dask, "ray": _by_ray}[backend]
    return run(pieces, (grid, profile), cluster, workers)


def _evaluated(points: Sequence[Point], shared: _Shared) -> list[tuple[str, dict[str, Any]]]:
    return [(point.key, evaluated(point, *shared)) for point in points]


def _by_joblib(pieces: _Pieces, shared: _Shared, cluster: str | None, workers: int) -> _Batches:
    if workers == 1:
        yield from (_evaluated(piece, shared) for piece in pieces)
        return
    from joblib import Parallel, delayed

    tasks = (delayed(_evaluated)(piece, shared) for piece in pieces)
    yield from Parallel(n_jobs=workers, return_as="generator_unordered")(tasks)


def _by_dask(pieces: _Pieces, shared: _Shared, cluster: str | None, workers: int) -> _Batches:
    try:
        dask: Any = import_module("distributed")
    except ImportError:
        raise ClusterError("dask is not installed: pip install 'specplan[dask]'") from None
    local = None
    try:
        if cluster is None:
            with import_module("dask").config.set(_DASK):
                local = dask.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    dashboard_address=None,
                    host="127.0.0.1",
                    silence_logs=logging.CRITICAL,
                )
        client = dask.Client(cluster if local is None else local, timeout=20)
    except (OSError, ValueError, TimeoutError) as error:
        if local is not None:
            local.close()
        raise ClusterError(f"cluster {cluster or 'on this machine'}: {error or 'no answer within 20 s'}") from None
    try:
        there = client.scatter(shared, broadcast=True)
        futures = [client.submit(_evaluated, piece, there, pure=False) for piece in pieces]
        for future in dask.as_completed(futures):
            yield future.result()
    finally:
        client.close()
        if local is not None:
            local.close()


def _by_ray(pieces: _Pieces, shared: _Shared, cluster: str | None, workers: int) -> _Batches:
    try:
        import ray
    except ImportError:
        raise ClusterError("ray is not installed: pip install 'specplan[ray]'") from None
    try:
        where = {"num_cpus": workers, "include_dashboard": False} if cluster is None else {"address": cluster}
        ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **where)
    except (OSError, ValueError, RuntimeError) as error:
        raise ClusterError(f"cluster {cluster or 'on this machine'}: {str(error).splitlines()[0]}") from None
    try:
        remote, there = ray.remote(_evaluated), ray.put(shared)
        left = [remote.remote(piece, there) for piece in pieces]
        while left:
            done, left = ray.wait(left)
            yield ray.get(done[0])
    finally:
        ray.shutdown()
