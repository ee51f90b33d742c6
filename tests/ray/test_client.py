"""Tests of Ray's client in a separate process, and of the effects of the client's end."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from modelflow import Flow
from modelflow.remote import place_nodes
from modelflow.remote.ray import RayEngine, connect
from modelflow.remote.ray.client import Client, ClusterError
from tests.ray.test_engine import text_of
from tests.serve.processes.server_processes import wait_until_ended


def process_of(cluster):
    """Returns the id of the client's process."""
    return cluster._client.ask("process")


def test_batches_go_on_when_the_client_ends_and_it_begins_again_when_it_is_asked(machines):
    with connect(machines.address) as cluster:
        first = process_of(cluster)
        with Flow(place_nodes(text_of(), RayEngine(cluster))) as flow:
            assert flow.infer(1).data == 2
            os.kill(first, signal.SIGKILL)
            wait_until_ended([first])
            assert cluster.machines()
            assert process_of(cluster) != first
            assert flow.infer(2).data == 4


def test_who_waits_for_an_answer_is_told_that_the_client_has_ended(machines):
    with connect(machines.address) as cluster:
        process = process_of(cluster)
        os.kill(process, signal.SIGSTOP)
        asked = cluster._client.begin("machines")
        os.kill(process, signal.SIGKILL)
        with pytest.raises(ClusterError, match="cannot be reached any more"):
            asked.result(60)


def test_nothing_is_asked_of_a_cluster_that_was_left(machines):
    with connect(machines.address) as cluster:
        process = process_of(cluster)
    wait_until_ended([process])
    with pytest.raises(ClusterError, match="the cluster was left"):
        cluster.machines()


def test_the_end_of_the_caller_is_that_of_the_client(machines):
    program = (
        "import os, sys; from modelflow.remote.ray import connect\n"
        "with connect(sys.argv[1]) as cluster:\n"
        "    print(cluster._client.ask('process'), flush=True)\n"
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


def test_it_outlives_the_thread_that_asked_first(machines):
    client, found = Client(machines.address), []
    thread = threading.Thread(target=lambda: found.append(client.ask("process")))
    thread.start()
    thread.join()
    assert client.ask("process") == found[0]
    client.close()


@pytest.fixture
def silent():
    """Yields the address of a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield "127.0.0.1:{1}".format(*listening.getsockname())


def test_who_asks_of_a_cluster_that_says_nothing_waits_no_longer_than_it_wants_to(silent):
    client = Client(silent)
    asked = [client.begin("machines") for _ in range(3)]
    with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
        client.ask("machines", timeout=0.2)
    client.close()
    for one in asked:
        with pytest.raises(ClusterError, match="cannot be"):
            one.result(0)
