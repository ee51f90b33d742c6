"""Tests that parts without need of Ray go on when the cluster's head ends."""

import os
import signal
from urllib.error import HTTPError

import pytest

from tests.ray.conftest import begun
from tests.ray.test_serve_far import folder, seen_by, text_of
from tests.served import ask, serving

__all__ = ["folder"]

LOCAL = """digraph local {
    input [type=input]
    output [type=output]
    input -> output
}"""


@pytest.fixture
def alone():
    """Yields a cluster of one machine whose head may be killed."""
    pytest.importorskip("ray")
    with begun("127.0.0.8") as made:
        yield made


def test_a_server_goes_on_without_the_head_and_says_so_of_what_needs_it(alone, folder):
    (folder / "local.dot").write_text(LOCAL)
    (folder / "far.toml").write_text(
        text_of("CPU = 1", 8_000).replace("start_t", "timeout_ms = 1000\nstart_t")
    )
    words = ("local.dot", "far.toml", "--on", alone.address, "--drain-timeout", "15")
    with serving(folder, *words) as (process, address):
        actor, _ = seen_by(address)
        alone.head_node.kill_gcs_server()
        assert seen_by(address)[0] == actor
        os.kill(actor, signal.SIGKILL)
        with pytest.raises(HTTPError) as refused:
            seen_by(address)
        with refused.value as answer:
            assert answer.code == 503
        assert ask(address, "local", 7) == 7
        process.send_signal(signal.SIGTERM)
        # 1 would mean that the wait for the restarting replica took too long
        assert process.wait(60) == 143
