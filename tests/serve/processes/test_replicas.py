"""Several processes behind one port, from outside: their life, and what clients see of it."""

import collections
import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import urllib.request
from pathlib import Path

import pytest

from modelflow.serve.processes.supervisor.child import describe_exit
from tests import programs
from tests.serve.certificates import Authority
from tests.serve.processes.server_processes import (
    serving,
    wait_until,
    wait_until_closed,
    write_graphs,
)


def test_connections_are_shared_out_evenly(tmp_path):
    with serving(write_graphs(tmp_path), "m.dot") as replica_group, contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(contextlib.closing(replica_group.connect())) for _ in range(8)
        ]
        found = [replica_group.who(one) for one in connections]
        assert collections.Counter(found) == dict.fromkeys(replica_group.children(), 4)
        assert [replica_group.who(one) for one in connections] == found  # each stays where it is
        gone = found[0]
        for one, pid in zip(connections, found, strict=True):
            if pid == gone:
                one.close()
        wait_until(lambda: replica_group.who() == gone)  # that it has fewer now has been told
        again = [stack.enter_context(contextlib.closing(replica_group.connect())) for _ in range(4)]
        assert {replica_group.who(one) for one in again} == {gone}


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/readyz", None),
        ("/livez", None),
        ("/v2", None),
        ("/v1/models/m", None),
        ("/v1/models/m/metadata", None),
        ("/v2/models/m", None),
        ("/v2/models/m/config", None),
        ("/v2/models/m/stats", None),
        ("/openapi.json", None),
        ("/v2/repository/index", {}),
        ("/v2/models/m/generate", {"input": "x"}),
    ],
)
def test_every_replica_answers_everything(replica_group, path, document):
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(contextlib.closing(replica_group.connect())) for _ in range(4)
        ]
        for one in connections:
            assert replica_group.ask(path, document, connection=one)[0] == 200


@pytest.fixture(scope="module")
def replica_group(tmp_path_factory):
    with serving(write_graphs(tmp_path_factory.mktemp("graphs")), "m.dot") as replica_group:
        yield replica_group


def test_what_is_the_same_in_all_is_said_once(replica_group):
    assert sum("is served" in line for line in replica_group.said) == 1
    assert sum(line.startswith("serves m at") for line in replica_group.said) == 1


def test_the_supervisor_imports_nothing_that_runs_models():
    program = """if True:
        import sys
        import modelflow.cli.main, modelflow.cli.serve.replicas
        heavy = {"modelflow.runtime.scheduler", "modelflow.flow", "modelflow.engine"}
        heavy |= {"grpc", "uvloop", "cv2"}
        print(*heavy & set(sys.modules))
    """
    assert programs.run(["python", "-c", program], check=True).stdout == "\n"


def test_an_interrupt_of_the_whole_group_shows_no_traceback(tmp_path):
    """As a terminal does it, while the replicas are about to begin."""
    with serving(write_graphs(tmp_path), "m.dot", said="listens at") as replica_group:
        os.killpg(replica_group.process.pid, signal.SIGINT)
        assert replica_group.end() == 130
        assert not any("Traceback" in line for line in replica_group.said)


def test_requests_under_way_are_answered_before_the_end(tmp_path):
    write_graphs(tmp_path, m="stuck")
    os.mkfifo(tmp_path / "pipe")
    found = []
    with serving(tmp_path, "m.dot", count=2) as replica_group:
        threads = [
            threading.Thread(target=lambda: found.append(replica_group.who())) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(list(tmp_path.glob("entered.*"))) == 2)
        replica_group.process.send_signal(signal.SIGTERM)
        wait_until_closed(replica_group)
        children = replica_group.children()
        with (tmp_path / "pipe").open("w"):
            pass
        for thread in threads:
            thread.join()
        assert replica_group.end() == 143
    assert set(found) == set(children)


def test_a_replica_that_dies_hurts_its_own_connections_alone_and_is_replaced(tmp_path):
    with serving(write_graphs(tmp_path), "m.dot") as replica_group, contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(contextlib.closing(replica_group.connect())) for _ in range(6)
        ]
        found = {one: replica_group.who(one) for one in connections}
        victim, other = replica_group.children()
        os.kill(victim, signal.SIGKILL)
        for one, pid in found.items():
            if pid == other:
                assert replica_group.who(one) == other
            else:
                with pytest.raises((ConnectionError, OSError)):
                    replica_group.who(one)
        assert "was ended by SIGKILL; another takes its place at once" in replica_group.wait_for(
            "ended by"
        )
        wait_until(lambda: replica_group.metrics()["modelflow_replicas_up",] == 2)
        new = set(replica_group.children()) - {other}
        assert new != {victim}
        again = [stack.enter_context(contextlib.closing(replica_group.connect())) for _ in range(3)]
        assert {replica_group.who(one) for one in again} == new  # it has the fewest
        assert replica_group.end(signal.SIGTERM) == 143


def test_a_replica_that_is_told_to_end_loses_nothing_and_is_replaced(tmp_path):
    amiss, stop, answered = [], threading.Event(), collections.Counter()

    def load(replica_group):
        try:
            while not stop.is_set():
                answered[replica_group.who()] += 1
        except (OSError, http.client.HTTPException, AssertionError) as error:
            amiss.append(error)

    with serving(write_graphs(tmp_path), "m.dot") as replica_group:
        threads = [threading.Thread(target=load, args=(replica_group,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        first = replica_group.children()[0]
        wait_until(lambda: answered[first])
        os.kill(first, signal.SIGTERM)
        replica_group.wait_for("has ended with exit code 143; another takes its place at once")
        wait_until(lambda: len(answered) == 3)
        stop.set()
        for thread in threads:
            thread.join()
        assert amiss == []


@pytest.mark.parametrize("option", ["--http", "--grpc"])
def test_an_address_in_use_is_said(tmp_path, option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["python", "-m", "modelflow", "serve", "m.dot", "--replicas", "2"]
        addresses = {"--http": "127.0.0.1:0", "--grpc": "127.0.0.1:0", option: f"127.0.0.1:{port}"}
        for one in addresses.items():
            command += one
        done = programs.run(command, cwd=write_graphs(tmp_path))
    assert done.returncode == 1
    assert "cannot listen there" in done.stderr
    assert "give another address" in done.stderr


def test_the_number_may_stand_in_the_file_of_options(tmp_path):
    write_graphs(tmp_path)
    (tmp_path / "serve.toml").write_text('sources = ["m.dot"]\nreplicas = 3\n')
    with serving(tmp_path, "--config", "serve.toml", count=2) as replica_group:
        assert len(replica_group.children()) == 2  # what is given as well wins
    command = ["python", "-m", "modelflow", "serve", "--config", "serve.toml", "--http", "x"]
    said = programs.run(command, cwd=tmp_path).stderr
    assert "--http x: expected PORT, HOST:PORT or [HOST]:PORT" in said


def test_tls_is_spoken_by_all(tmp_path):
    authority = Authority(tmp_path / "ca")
    pair = authority.options()
    arguments = ("m.dot", "--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
    with serving(write_graphs(tmp_path), *arguments) as replica_group:
        found = set()
        for _ in range(6):
            with urllib.request.urlopen(
                f"{replica_group.address}/v1/models/m:predict",
                json.dumps({"instances": ["x"]}).encode(),
                timeout=60,
                context=authority.client(),
            ) as answer:
                found.add(json.load(answer)["predictions"][0])
        assert len(found) == 2
        assert replica_group.end(signal.SIGTERM) == 143


def _open_files(process):
    found = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            found.add(os.readlink(descriptor))
    return found


def test_the_access_log_is_of_all_and_opened_anew(tmp_path):
    with serving(write_graphs(tmp_path), "m.dot", "--access-log", "log") as replica_group:
        for _ in range(20):
            replica_group.who()
        (tmp_path / "log").rename(tmp_path / "log.1")
        replica_group.process.send_signal(signal.SIGHUP)
        wait_until((tmp_path / "log").exists)

        def is_left():
            return not any(
                str(tmp_path / "log.1") in _open_files(c) for c in replica_group.children()
            )

        wait_until(is_left)
        for _ in range(20):
            replica_group.who()
        assert replica_group.end(signal.SIGTERM) == 143
    for name in ("log.1", "log"):
        lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert [line["status"] for line in lines] == [200] * 20


def test_nothing_is_left_of_processes_that_were_replaced(tmp_path):
    with serving(write_graphs(tmp_path), "m.dot") as replica_group:
        descriptors = Path(f"/proc/{replica_group.process.pid}/fd")
        wait_until(lambda: replica_group.metrics()["modelflow_replicas_up",] == 2)
        before = len(list(descriptors.iterdir()))
        os.kill(replica_group.children()[0], signal.SIGKILL)
        replica_group.wait_for("another takes its place")
        wait_until(lambda: replica_group.metrics()["modelflow_replicas_up",] == 2)
        wait_until(lambda: len(list(descriptors.iterdir())) == before)


@pytest.mark.parametrize(
    ("code", "text"), [(3, "has ended with exit code 3"), (-9, "was ended by SIGKILL")]
)
def test_how_a_process_ended_is_said_in_words(code, text):
    assert describe_exit(code) == text
