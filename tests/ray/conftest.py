"""A cluster of three machines that are none: three raylets of this one, each with its own store."""

import contextlib

import pytest

STORE = 100 << 20  # bytes


@pytest.fixture(scope="package")
def machines():
    """The cluster, to which machines may be added; the first one is the head."""
    pytest.importorskip("ray")
    with begun("127.0.0.2") as made:
        for place in (3, 4):
            add(made, f"127.0.0.{place}", far=2)
        yield made


@contextlib.contextmanager
def begun(address):
    """A cluster of one machine."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        made = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 2,
                "node_ip_address": address,
                "include_dashboard": False,
                "object_store_memory": STORE,
            },
        )
        yield made
        made.shutdown()


def add(machines, address, **resources):
    """Adds a machine, on which what asks for its resources may run, and nothing else."""
    return machines.add_node(
        num_cpus=2,
        resources=resources,
        node_ip_address=address,
        object_store_memory=STORE,
    )


@pytest.fixture(scope="package")
def cluster(machines):
    """The same, as modelflow sees it."""
    from modelflow.remote.ray import connected

    with connected(machines.address) as found:
        yield found
