"""Ray's client in a process of its own: what its end means, and what it does not."""

import os
import signal
import subprocess
import sys

import pytest

from modelflow import Flow
from modelflow.ray import RayEngine, connected
from modelflow.ray.client import Client, ClusterError
from modelflow.remote import placed
from tests.ray.test_engine import text_of
from tests.serve.replicas.fleet import wait_until_ended


def test_batches_go_on_when_the_client_ends_and_it_begins_again_when_it_is_asked(machines):
    with connected(machines.address) as cluster:
        first = cluster._client._process
        with Flow(placed(text_of(), RayEngine(cluster))) as flow:
            assert flow.infer(1).data == 2
            first.send_signal(signal.SIGKILL)
            wait_until_ended([first.pid])
            assert cluster.machines()
            assert cluster._client._process.pid != first.pid


def test_who_waits_for_an_answer_is_told_that_the_client_has_ended(machines):
    with connected(machines.address) as cluster:
        asked = cluster._client.begin("end_of", "nobody", 60.0)
        os.kill(cluster._client._process.pid, signal.SIGKILL)
        with pytest.raises(ClusterError, match="cannot be reached any more"):
            asked.result(60)


def test_nothing_is_asked_of_a_cluster_that_was_left(machines):
    with connected(machines.address) as cluster:
        process = cluster._client._process
    assert process.returncode is not None
    with pytest.raises(ClusterError, match="the cluster was left"):
        cluster.machines()


def test_the_end_of_the_caller_is_that_of_the_client(machines):
    program = (
        "import os, sys; from modelflow.ray import connected\n"
        "with connected(sys.argv[1]) as cluster:\n"
        "    print(cluster._client._process.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, machines.address],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    wait_until_ended([int(done.stdout)])


def test_a_cluster_that_answers_and_is_none_is_told():
    client = Client("127.0.0.1:9/nothing")
    with pytest.raises(ClusterError, match="cannot be used"):
        client.ask("names")
