"""The roles of processes, and their shares of the processors."""

import os
from collections.abc import Mapping
from enum import StrEnum

# The thread counts of libraries that compute on their own threads: OpenMP (PyTorch, MKL, OpenBLAS)
# and TensorFlow. Two replicas on two processors took 624 us of processor time a request with two
# threads each. They took 435 us with one thread each (graphs/sentiment.toml, 16 connections).
_VARIABLES = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def with_share(environment: Mapping[str, str], count: int) -> dict[str, str]:
    """Returns the environment of a replica, with a default number of threads for its share.

    Args:
        environment: The environment of this process.
        count: The number of replicas.
    """
    share = str(max(1, len(os.sched_getaffinity(0)) // count))
    return {**dict.fromkeys(_VARIABLES, share), **environment}


_MODELS = "the process of the models"


class Role(StrEnum):
    """The role of a process."""

    REPLICA = "replica"
    """A process that takes connections and has all models."""
    WORKER = "worker"
    """A process that takes connections and forwards requests to the process with the models."""
    MODELS = "models"
    """The process that has the models, for the workers."""
    ISOLATED = "isolated"
    """A process that has a single model, for all processes that take connections."""

    @property
    def is_asked(self) -> bool:
        """Tells whether only other processes send requests to the process, and no clients."""
        return self in (Role.MODELS, Role.ISOLATED)


def name_of(role: Role, number: int, isolated: Mapping[int, str]) -> str:
    """Returns the name of a process in messages.

    Args:
        role: The role of the process.
        number: The number of the process in its role, from 1.
        isolated: The models that have their own processes, by process number.
    """
    if role is Role.ISOLATED:
        return f"the process of model {isolated[number]!r}"
    return _MODELS if role is Role.MODELS else f"{role} {number}"
