"""Prometheus metrics of the process and its GPUs, computed when they are collected."""

import platform
import threading
from collections.abc import Iterator

import modelflow
from modelflow.errors import MissingDependencyError
from modelflow.profile.gpu import gpu_figures

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
    from prometheus_client.gc_collector import GCCollector
    from prometheus_client.process_collector import ProcessCollector
except ImportError as error:
    raise MissingDependencyError("prometheus-client", "serve", "metrics") from error

# Triton's names for the figures of a GPU.
_GPU = (
    ("nv_gpu_utilization", "Share of the time in which the GPU worked.", "utilization"),
    ("nv_gpu_memory_total_bytes", "Memory of the GPU.", "total"),
    ("nv_gpu_memory_used_bytes", "Memory of the GPU in use, by any process.", "used"),
)


def build_family() -> Metric:
    """Returns ``modelflow_build_info``, with the versions of modelflow and Python."""
    versions = {"version": modelflow.__version__, "python": platform.python_version()}
    return InfoMetricFamily("modelflow_build", "Versions of modelflow and Python.", versions)


def process_families() -> Iterator[Metric]:
    """Yields the metrics of this process, under the names of prometheus_client.

    These are memory, processor time, descriptors and garbage collection. There is also the number
    of threads and `build_family`, and the machine's GPUs if the package nvidia-ml-py is installed.
    """
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    yield build_family()
    yield from registry.collect()
    text = "Threads that Python knows."
    yield GaugeMetricFamily("process_threads", text, threading.active_count())
    yield from _gpu_families()


def _gpu_families() -> Iterator[Metric]:
    figures = gpu_figures()
    for name, text, key in _GPU if figures else ():
        family = GaugeMetricFamily(name, text, labels=("gpu_uuid",))
        for uuid, values in figures:
            family.add_metric([uuid], values[key])
        yield family
