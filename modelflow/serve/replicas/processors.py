"""How the processors are shared out among replicas."""

import os
from collections.abc import Mapping

__all__ = ["with_share"]

# What libraries read that compute with threads of their own: OpenMP's (PyTorch, MKL, OpenBLAS), and
# TensorFlow's. Two replicas on two processors took 624 us of processor time a request where each
# had threads for both, 435 us where for one (graphs/sentiment.toml, 16 connections).
_VARIABLES = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def with_share(environment: Mapping[str, str], count: int) -> dict[str, str]:
    """Returns the environment of a replica: where nothing is said of threads, those for its part.

    Args:
        environment: That of this process.
        count: How many replicas there are.
    """
    share = str(max(1, len(os.sched_getaffinity(0)) // count))
    return {**dict.fromkeys(_VARIABLES, share), **environment}
