"""The actor of a server, on a cluster of three raylets."""

import os
import signal

import pytest

from modelflow.ray.actor import Origin
from modelflow.ray.server_actor import ServerActor

GRAPH = """[graph]
graphconf = '''digraph m {
  input [type=input]
  output [type=output]
  input -> output
}'''
"""


@pytest.fixture
def actor(cluster):
    import ray

    made = ray.remote(ServerActor).options(max_concurrency=4).remote(Origin.here("one server"))
    yield made
    ray.kill(made)


def test_what_it_is_doing_is_told_before_while_and_after_it_serves(actor, tmp_path):
    import ray

    def told():
        return ray.get(actor.figures.remote())["label"]

    assert told().startswith("serves at (not yet)")
    (tmp_path / "m.toml").write_text(GRAPH)
    words = [str(tmp_path / "m.toml"), "--http", "machine:0", "--grpc", "off"]
    address = ray.get(actor.open.remote(words, {}, str(tmp_path), 60.0))
    assert told().startswith(f"serves at {address}")
    os.kill(ray.get(actor.figures.remote())["process"], signal.SIGKILL)
    assert ray.get(actor.wait.remote()) == -signal.SIGKILL
    assert told().startswith(f"served at {address}")
