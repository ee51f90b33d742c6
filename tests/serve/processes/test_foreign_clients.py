"""Tests with Triton's clients of state between requests, for each way to share the work."""

import os

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests.serve.processes.server_processes import serving, wait_until

GRAPH = """
[graph]
format = "graphviz"
graphconf = '''digraph {name} {{
    input [type=input]
    work [flowunit="units:{unit}"]
    output [type=output]
    input -> work -> output
}}'''
[serve]
cache = "{cache}"
[serve.input.input]
datatype = "INT64"
shape = [1]
[serve.output.output]
datatype = "INT64"
shape = [1]
"""
UNITS = """
import numpy as np

import modelflow

calls = 0


@modelflow.flowunit
def count(value):
    global calls
    calls += 1
    return np.int64([calls])


class Total(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "Total",
        {"cpu": lambda: Total()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        kind=modelflow.Stream(modelflow.Count.SAME),
    )

    def process(self, ctx):
        for buffer in ctx.input():
            ctx.state["total"] = ctx.state.get("total", 0) + buffer.data
            ctx.emit([np.int64(ctx.state["total"])])
"""
WAYS = {
    "one process": ("--replicas", 1, ()),
    "replicas": ("--replicas", 2, ()),
    "workers": ("--workers", 2, ()),
    "isolated": ("--replicas", 2, ("--isolate", "total", "--isolate", "count")),
}


@pytest.fixture(scope="module", params=[*WAYS.values()], ids=[*WAYS])
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "units.py").write_text(UNITS)
    for name, unit, cache in (("total", "Total", "0B"), ("count", "count", "1MiB")):
        (folder / f"{name}.toml").write_text(GRAPH.format(name=name, unit=unit, cache=cache))
    option, count, more = request.param
    arguments = ("total.toml", "count.toml", "--grpc", "127.0.0.1:0", "--allow-shared-memory")
    with serving(folder, *arguments, *more, count=count, option=option) as found:
        wait_until(lambda: found.ask("/readyz")[0] == 200)
        yield found


@pytest.fixture(params=["http", "grpc"])
def triton(request, server):
    """Yields the module of a client, and a function that connects a new client."""
    module = over_http if request.param == "http" else over_grpc
    address = server.address.partition("//")[2] if request.param == "http" else server.grpc

    def connect():
        options = {"channel_args": [("grpc.use_local_subchannel_pool", 1)]}
        return module.InferenceServerClient(address, **(options if module is over_grpc else {}))

    return module, connect


def ask(module, client, model, value, **more):
    tensor = module.InferInput("input", [1, 1], "INT64")
    tensor.set_data_from_numpy(np.int64([[value]]))
    return client.infer(model, [tensor], **more).as_numpy("output").item()


def test_sequences_keep_their_state_over_changing_connections(server, triton):
    module, connect = triton
    clients = [connect() for _ in range(4)]
    names = [*range(1, 7), *(f"{module.__name__} {n}" for n in range(6))]
    wait_until(lambda: is_linked(module, clients[0]))
    for step in range(5):
        for place, name in enumerate(names):
            found = ask(
                *(module, clients[(place + step) % 4], "total", 10 + place),
                sequence_id=name,
                sequence_start=step == 0,
                sequence_end=step == 4,
            )
            assert found == (10 + place) * (step + 1)
    for client in clients:
        client.close()


def is_linked(module, client):
    """Tells whether the replicas have their links, right after a start."""
    try:
        for name in range(100, 110):
            ask(
                module, client, "total", 1, sequence_id=name, sequence_start=True, sequence_end=True
            )
    except InferenceServerException as error:
        if "try again" not in str(error):
            raise
        return False
    return True


def test_tensors_are_in_shared_memory(server, triton):
    module, connect = triton
    clients = [connect() for _ in range(4)]
    key = f"/modelflow_{module.__name__}_{os.getpid()}_{server.process.pid}"
    region = shm.create_shared_memory_region("both", key, 64)
    try:
        clients[0].register_system_shared_memory("both", key, 64)
        for place, client in enumerate(clients):
            shm.set_shared_memory_region(region, [np.int64([[place + 5]])])
            tensor = module.InferInput("input", [1, 1], "INT64")
            tensor.set_shared_memory("both", 8)
            output = module.InferRequestedOutput("output")
            output.set_shared_memory("both", 8, offset=32)
            client.infer("total", [tensor], outputs=[output])
            assert shm.get_contents_as_numpy(region, np.int64, [8])[4] == place + 5
        clients[-1].unregister_system_shared_memory("both")
        for client in clients:
            status = client.get_system_shared_memory_status()
            assert not (status if isinstance(status, list) else status.regions)
            client.close()
    finally:
        shm.destroy_shared_memory_region(region)


def test_equal_inputs_are_answered_from_memory(server, triton):
    module, connect = triton
    with connect() as client:
        value = 1 if module is over_http else 2
        first = ask(module, client, "count", value)
        assert {ask(module, client, "count", value) for _ in range(5)} <= {first, *range(first)}
        repeated = [ask(module, client, "count", value, priority=1) for _ in range(5)]
    assert len({*repeated}) == 1
    hits = server.metrics()[
        "modelflow_cache_lookups_total", ("model", "count"), ("result", "hit"), ("version", "1")
    ]
    assert hits >= 5


def test_both_classes_are_answered(server, triton):
    module, connect = triton
    with connect() as client:
        assert [ask(module, client, "total", 3, priority=n) for n in (0, 1, 2)] == [3, 3, 3]
