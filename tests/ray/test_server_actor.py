"""The actor of a server, on a cluster of three raylets."""

import os
import signal

import pytest

from modelflow.config.placement import PlacementConfig
from modelflow.remote.ray.server_actor import ServerActor

GRAPH = """[graph]
graphconf = '''digraph m {
  input [type=input]
  output [type=output]
  input -> output
}'''
"""


@pytest.fixture
def actor(cluster):
    made = cluster.make("one server", PlacementConfig("one"), (ServerActor,), calls=4)
    yield made
    made.kill()


def test_what_it_is_doing_is_told_before_while_and_after_it_serves(actor, tmp_path):
    def told():
        return actor.call("figures")["label"]

    assert told().startswith("serves at (not yet)")
    (tmp_path / "m.toml").write_text(GRAPH)
    words = [str(tmp_path / "m.toml"), "--http", "machine:0", "--grpc", "off"]
    address = actor.call("open", words, {}, str(tmp_path), 60.0)
    assert told().startswith(f"serves at {address}")
    os.kill(actor.call("figures")["process"], signal.SIGKILL)
    assert actor.call("wait") == -signal.SIGKILL
    assert told().startswith(f"served at {address}")
