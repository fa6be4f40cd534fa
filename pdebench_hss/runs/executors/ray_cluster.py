"""The cluster itself: joining it, and checking before anything starts that every node can do the work.

A plugin that is missing on a node would fail hours later, and another version of it would give other numbers under the
same key. So the versions of core, plugins, torch and the files given by ``--plugin`` are compared.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import PdebenchError, UsageError
from ...contract.registry import Registry
from ...contract.resources import Resources
from ..config import RunConfig

PREFLIGHT_SECONDS = 120.0
LOCAL_STORE_BYTES = 256 << 20  # a local Ray transfers records only; its nodes share the data cache


class ClusterError(PdebenchError):
    """The cluster can't be reached, or can't do what is asked."""


def connect(config: RunConfig) -> bool:
    """Join the cluster, or start one here that only this machine can reach; returns whether to leave it at the end."""
    ray = import_ray()
    if ray.is_initialized():  # in a notebook that has already joined a cluster
        return False
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if config.ray_address:
            _knock(config.ray_address)
            ray.init(address=config.ray_address, **quiet)
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            cpus = max(config.ddp, config.n_jobs) * config.threads
            with _on_loopback(ray):
                ray.init(
                    "local", num_cpus=cpus, include_dashboard=False, object_store_memory=LOCAL_STORE_BYTES, **quiet
                )
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        if not config.ray_address:
            raise ClusterError(f"can't start a local Ray ({reason})") from None
        token = " If it requires a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN." if "timeout" in reason else ""
        raise ClusterError(
            f"no Ray cluster at {config.ray_address} ({reason}). Start one with: ray start --head.{token}"
        ) from None
    return True


@contextlib.contextmanager
def _on_loopback(ray: Any) -> Iterator[None]:
    """Ray processes started in this block listen on 127.0.0.1: anybody who can reach their ports can run code.

    Ray looks up its own address instead of accepting one, unless it believes that this machine can't be in a cluster.
    It reads that from a variable when it is imported, and so do the processes that it starts.
    """
    constants = ray._private.ray_constants
    before, variable = constants.ENABLE_RAY_CLUSTER, constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    constants.ENABLE_RAY_CLUSTER = False
    with _environment(variable, "0"):
        try:
            yield
        finally:
            constants.ENABLE_RAY_CLUSTER = before
    # Ray prints the log of a raylet that died, whatever its log settings. The run's own message is enough.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def local_note() -> str:
    """Where a local Ray listens, as reported by Ray."""
    addresses = sorted({node["NodeManagerAddress"] for node in import_ray().nodes() if node["Alive"]})
    if addresses == ["127.0.0.1"]:
        return "a local Ray was started; it listens on 127.0.0.1 only"
    return f"a local Ray was started; it can be reached from outside at {', '.join(addresses)}"


def _knock(address: str) -> None:
    """Check that a server listens there: Ray would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10.0).close()


def import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError("--executor ray needs Ray: pip install 'pdebench-hss[ray]'") from None
    return ray


def nodes() -> dict[str, Resources]:
    """The nodes that are alive and can run trials, by Ray's id."""
    found = {}
    for node in import_ray().nodes():
        has = node["Resources"]
        if node["Alive"] and has.get("CPU", 0) > 0:
            found[node["NodeID"]] = Resources(has["CPU"], has.get("GPU", 0.0), has.get("memory", 0.0))
    return found


def slots(needs: Resources) -> int:
    """How many trials with these needs fit in the cluster at once."""
    return sum(_times(needs, node) for node in nodes().values())


def _times(needs: Resources, node: Resources) -> int:
    pairs = [(needs.cpus, node.cpus), (needs.gpus, node.gpus), (needs.memory, node.memory)]
    return min((int(has / need) for need, has in pairs if need > 0), default=1)


def check_room(needs: Sequence[Resources], peers: int = 1) -> None:
    """Refuse what would wait for ever: a trial larger than any node, or more peers than the cluster holds."""
    alive = nodes()
    if not alive:
        raise ClusterError("the cluster has no node with CPUs; add one with: ray start --address=HEAD:6379")
    for need in needs:
        if not any(need.fits_in(node) for node in alive.values()):
            largest = max(alive.values(), key=lambda node: (node.gpus, node.cpus, node.memory))
            raise ClusterError(f"a trial needs {need}, the largest node has {largest}. Request less with --resources.")
        if slots(need) < peers:
            raise ClusterError(f"--ddp {peers} needs {peers} times {need} at once, the cluster holds {slots(need)}")


def check_nodes(registry: Registry, plugin_files: Sequence[str]) -> None:
    """Compare every node with the driver; the error names all that differ."""
    ray = import_ray()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    packages = ["pdebench-hss", "torch", "numpy", *(o.distribution for o in registry.plugins if o.distribution)]
    installed = [name for name in dict.fromkeys(packages) if name not in {Path(f).name for f in plugin_files}]
    look = make_probe(installed, [os.path.abspath(file) for file in plugin_files])
    probe = ray.remote(num_cpus=0, max_retries=0)(look)
    asked = {
        node: probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()
        for node in nodes()
    }
    expected, faults = look(), []
    for node, answer in asked.items():
        try:
            found = ray.get(answer, timeout=PREFLIGHT_SECONDS)
        except ray.exceptions.RayError as error:
            faults.append(f"node {node[:8]} does not answer ({type(error).__name__})")
            continue
        faults += differences(f"node {found['host']} ({node[:8]})", expected["has"], found["has"])
    if faults:
        raise ClusterError(
            f"{'; '.join(faults)}. Install the same versions on every node and run the same command again."
        )


def make_probe(packages: Sequence[str], files: Sequence[str]) -> Callable[[], dict[str, Any]]:
    """A function that lists what a node has. It is sent as code, because this package may be what is missing."""

    def look() -> dict[str, Any]:
        import hashlib
        import importlib.metadata
        import pathlib
        import socket

        has: dict[str, str | None] = {}
        for package in packages:
            try:
                has[f"package {package}"] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                has[f"package {package}"] = None
        for file in files:
            path = pathlib.Path(file)
            has[f"file {file}"] = hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.is_file() else None
        return {"host": socket.gethostname(), "has": has}

    return look


def differences(node: str, expected: Mapping[str, str | None], found: Mapping[str, str | None]) -> list[str]:
    faults = []
    for thing, version in expected.items():
        if found[thing] is None and version is not None:
            faults.append(f"{node} has no {thing} (the driver has {version})")
        elif found[thing] != version:
            faults.append(f"{node} has {thing} {found[thing]}, the driver {version or 'none'}")
    return faults
