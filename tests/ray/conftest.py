"""A cluster of three simulated machines: three raylets of this machine, each with its own store."""

import contextlib

import pytest

STORE = 100 << 20  # bytes


@pytest.fixture(scope="package")
def machines():
    """Yields the cluster, to which tests may add machines; the first machine is the head."""
    pytest.importorskip("ray")
    with begun("127.0.0.2") as made:
        for place in (3, 4):
            add(made, f"127.0.0.{place}", far=2)
        yield made


@contextlib.contextmanager
def begun(address):
    """Yields a cluster of one machine."""
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
    """Adds a machine that runs only actors which ask for its resources."""
    return machines.add_node(
        num_cpus=2,
        resources=resources,
        node_ip_address=address,
        object_store_memory=STORE,
    )


@pytest.fixture(scope="package")
def cluster(machines):
    """Yields the same cluster, as modelflow's connection."""
    from modelflow.remote.ray import connect

    with connect(machines.address) as found:
        yield found
