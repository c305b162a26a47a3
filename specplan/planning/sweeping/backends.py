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

Row = dict[str, Any]


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
) -> Iterator[list[tuple[str, Row]]]:
    """Evaluate points, and yield their keys and rows as batches are finished, in whatever order.

    Parameters
    ----------
    points, grid, profile : what is evaluated.
    backend : one of `BACKENDS`.
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
    batches = [list(points[i : i + size]) for i in range(0, len(points), size)]
    run = {"joblib": _by_joblib, "dask": _by_dask, "ray": _by_ray}[backend]
    return run(batches, grid, profile, cluster, workers)


def _batch(points: Sequence[Point], grid: Grid, profile: Profile | None) -> list[tuple[str, Row]]:
    return [(point.key, evaluated(point, grid, profile)) for point in points]


def _by_joblib(
    batches: list[list[Point]], grid: Grid, profile: Profile | None, cluster: str | None, workers: int
) -> Iterator[list[tuple[str, Row]]]:
    if workers == 1:
        yield from (_batch(batch, grid, profile) for batch in batches)
        return
    from joblib import Parallel, delayed

    tasks = (delayed(_batch)(batch, grid, profile) for batch in batches)
    yield from Parallel(n_jobs=workers, return_as="generator_unordered")(tasks)


def _by_dask(
    batches: list[list[Point]], grid: Grid, profile: Profile | None, cluster: str | None, workers: int
) -> Iterator[list[tuple[str, Row]]]:
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
        shared = client.scatter((grid, profile), broadcast=True)
        futures = [client.submit(_shared_batch, batch, shared, pure=False) for batch in batches]
        for future in dask.as_completed(futures):
            yield future.result()
    finally:
        client.close()
        if local is not None:
            local.close()


def _shared_batch(points: Sequence[Point], shared: tuple[Grid, Profile | None]) -> list[tuple[str, Row]]:
    return _batch(points, *shared)


def _by_ray(
    batches: list[list[Point]], grid: Grid, profile: Profile | None, cluster: str | None, workers: int
) -> Iterator[list[tuple[str, Row]]]:
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
        remote, shared = ray.remote(_shared_batch), ray.put((grid, profile))
        left = [remote.remote(batch, shared) for batch in batches]
        while left:
            done, left = ray.wait(left)
            yield ray.get(done[0])
    finally:
        ray.shutdown()
