"""What each process is there for, and its share of the processors."""

import os
from collections.abc import Mapping
from enum import StrEnum

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


_MODELS = "the process of the models"


class Role(StrEnum):
    """What a process is there for."""

    REPLICA = "replica"
    """It takes connections, and has all models."""
    WORKER = "worker"
    """It takes connections, and asks who has the models."""
    MODELS = "models"
    """It has the models, for the workers."""
    ISOLATED = "isolated"
    """It has one model, for all that take connections."""

    @property
    def is_asked(self) -> bool:
        """Tells whether others ask it, and no client does."""
        return self in (Role.MODELS, Role.ISOLATED)


def name_of(role: Role, number: int, isolated: Mapping[int, str]) -> str:
    """Returns what messages call a process.

    Args:
        role: What it is there for.
        number: Which of its role it is, from 1.
        isolated: The models that have a process of their own, by its number.
    """
    if role is Role.ISOLATED:
        return f"the process of model {isolated[number]!r}"
    return _MODELS if role is Role.MODELS else f"{role} {number}"
