"""Tests that a server over REST alone needs no package of gRPC."""

import subprocess
import sys

SERVER = """
import importlib.abc, json, sys, urllib.request

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "grpc" or name.startswith("google.protobuf"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import modelflow
from modelflow.serve.server import ServeOptions, Server

@modelflow.flowunit(name="work")
def work(item):
    return item

GRAPH = "digraph m { input [type=input]; work; output [type=output]; input -> work -> output }"

def ask(path, document=None):
    body = None if document is None else json.dumps(document).encode()
    with urllib.request.urlopen(server.address + path, body) as found:
        return json.loads(found.read())

with Server({"m": modelflow.Flow(GRAPH, units=[work])}, ServeOptions(http_port=0)) as server:
    assert ask("/v1/models/m:predict", {"instances": [3]}) == {"predictions": [3]}
    assert ask("/v2/models/m/generate", {"input": 3}) == {"output": 3}
    assert ask("/v1/models/m/metadata")["model_spec"]["name"] == "m"
    assert ask("/v2/models/m")["name"] == "m"
    assert ask("/v2")["name"] == "modelflow"
    assert not [name for name in sys.modules if name.startswith("google.protobuf")]

flow = modelflow.Flow(GRAPH, units=[work])
try:
    Server({"m": flow}, ServeOptions(http_port=0, grpc_port=0)).start()
except modelflow.MissingDependencyError as error:
    print(error)
"""


def test_a_server_without_grpc_needs_no_protobuf_and_one_with_it_says_so():
    done = subprocess.run(
        [sys.executable, "-c", SERVER], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr
    assert "gRPC needs the package 'grpcio'" in done.stdout
