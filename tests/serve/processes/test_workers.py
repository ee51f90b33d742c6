"""Workers before a process with the models, from outside: real processes, and plain clients."""

import collections
import contextlib
import http.client
import json
import os
import signal
import threading
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest

from tests import programs
from tests.serve.certificates import Authority
from tests.serve.grpc.stub import Stub
from tests.serve.models_on_disk import write_version
from tests.serve.processes.server_processes import (
    serving,
    wait_until,
    wait_until_closed,
    write_graphs,
)
from tests.serve.processes.test_asked_together import _who

M = (("model", "m"), ("version", "1"))
GONE = "the process of the models was ended by SIGKILL; another takes its place at once"


def workers(folder, *arguments, **more):
    return serving(folder, *arguments, option="--workers", **more)


@contextlib.contextmanager
def connections(replica_group, count=4):
    """Connections to all workers, by turns."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(contextlib.closing(replica_group.connect())) for _ in range(count)
        ]


def models_process(replica_group):
    """The process id of the one that has the models."""
    return replica_group.who()


@pytest.fixture(scope="module")
def replica_group(tmp_path_factory):
    with workers(write_graphs(tmp_path_factory.mktemp("graphs")), "m.dot") as replica_group:
        yield replica_group


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One process that serves the same."""
    with serving(write_graphs(tmp_path_factory.mktemp("graphs")), "m.dot", count=1) as one:
        yield one


def test_one_process_runs_the_models_of_all_workers(replica_group):
    with connections(replica_group, 8) as all_of_them:
        (who,) = {replica_group.who(one) for one in all_of_them}
    assert who in replica_group.children()
    assert len(replica_group.children()) == 3


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
        ("/openapi.json", None),
        ("/v2/repository/index", {}),
    ],
)
def test_every_worker_says_what_one_process_says(replica_group, alone, path, document):
    with connections(replica_group) as all_of_them:
        found = [replica_group.ask(path, document, connection=one) for one in all_of_them]
    assert found == [alone.ask(path, document)] * 4


def test_requests_are_counted_once_wherever_they_come_in(tmp_path):
    with (
        workers(write_graphs(tmp_path), "m.dot") as replica_group,
        connections(replica_group) as all_of_them,
    ):
        for _ in range(3):
            for one in all_of_them:
                replica_group.who(one)
        for one in all_of_them:
            assert (
                replica_group.ask("/v1/models/m:predict", {"instances": []}, connection=one)[0]
                == 400
            )
        ok = "modelflow_requests_total", ("code", "OK"), *M
        assert replica_group.metrics()[ok] == 12
        assert (
            replica_group.metrics()[
                "modelflow_node_buffers_total", M[0], ("node", "who"), ("unit", "who"), M[1]
            ]
            == 12
        )
        for one in all_of_them:
            (stats,) = replica_group.ask("/v2/models/m/stats", connection=one)[1]["model_stats"]
            assert stats["inference_count"] == 12
            snapshot = replica_group.ask("/stats", connection=one)[1]
            assert [node["buffers"] for node in snapshot["nodes"] if node["node"] == "who"] == [12]


def test_requests_of_both_protocols_meet_in_one_process(tmp_path):
    with workers(write_graphs(tmp_path), "m.dot", "--grpc", "127.0.0.1:0") as replica_group:
        for _ in range(3):
            options = [("grpc.use_local_subchannel_pool", 1)]
            with grpc.insecure_channel(replica_group.grpc, options) as channel:
                assert int(_who(Stub(channel))) == replica_group.who()
        assert replica_group.end(signal.SIGTERM) == 143


def test_a_worker_loads_nothing_that_runs_models():
    program = """if True:
        import sys
        import modelflow.cli.main, modelflow.cli.serve.replica, modelflow.cli.serve.server_setup
        import modelflow.serve.processes.member.worker, modelflow.serve.server
        import modelflow.serve.grpc.grpcio_server
        import modelflow.http.connection
        heavy = ("runtime.scheduler", "flow", "engine", "plan", "request", "graph.graph")
        print(*[one for one in heavy if f"modelflow.{one}" in sys.modules])
    """
    assert programs.run(["python", "-c", program], check=True).stdout == "\n"


def test_workers_and_replicas_do_not_go_together(tmp_path):
    command = ["python", "-m", "modelflow", "serve", "m.dot", "--workers", "2", "--replicas", "3"]
    done = programs.run(command, cwd=write_graphs(tmp_path))
    assert done.returncode == 2
    assert "--workers 2 and --replicas 3: give one of the two" in done.stderr


def test_the_number_may_stand_in_the_file_of_options(tmp_path):
    write_graphs(tmp_path)
    (tmp_path / "serve.toml").write_text('sources = ["m.dot"]\nworkers = 3\n')
    with workers(tmp_path, "--config", "serve.toml", count=1) as replica_group:
        assert len(replica_group.children()) == 2  # what is given as well wins


# -- what comes and goes ------------------------------------------------------------------------


def test_what_is_loaded_and_unloaded_every_worker_sees_at_once(tmp_path):
    write_graphs(tmp_path, m="who", n="who")
    arguments = "m.dot", "n.dot", "--allow-repository"
    with workers(tmp_path, *arguments) as replica_group, connections(replica_group) as all_of_them:
        first, *others = all_of_them
        for _ in range(3):
            path = "/v2/repository/models/n"
            assert replica_group.ask(f"{path}/unload", method="POST", connection=first)[0] == 200
            for one in others:
                found = replica_group.ask(
                    "/v1/models/n:predict", {"instances": ["x"]}, connection=one
                )
                assert found[0] == 404
            assert replica_group.ask(f"{path}/load", method="POST", connection=first)[0] == 200
            assert len({replica_group.who(one, "n") for one in all_of_them}) == 1
        status, found = replica_group.ask("/v2/repository/models/x/unload", method="POST")
        assert (status, "there is no such model" in found["error"]) == (404, True)


def test_a_version_takes_over_and_no_request_fails(tmp_path):
    folder = write_version(tmp_path / "times", 1)
    arguments = "times", "--versions", "latest", "--poll", "0.05"
    amiss, found, stop = [], collections.Counter(), threading.Event()

    def load(replica_group, one):
        while not stop.is_set():
            body = {"instances": [[1.0, 1.0]]}
            status, answer = replica_group.ask("/v1/models/times:predict", body, connection=one)
            if status != 200:
                amiss.append(answer)
                return
            found[answer["predictions"][0][0]] += 1

    with workers(tmp_path, *arguments) as replica_group, connections(replica_group) as all_of_them:
        threads = [threading.Thread(target=load, args=(replica_group, one)) for one in all_of_them]
        for thread in threads:
            thread.start()
        for version in (2, 3, 4):
            write_version(folder, version)
            wait_until(lambda version=version: found[version] > 20 or amiss)
        stop.set()
        for thread in threads:
            thread.join()
    assert amiss == []
    assert set(found) == {1.0, 2.0, 3.0, 4.0}


# -- crashes ------------------------------------------------------------------------------------


def test_a_worker_that_dies_hurts_its_own_connections_alone_and_is_replaced(tmp_path):
    with (
        workers(write_graphs(tmp_path), "m.dot") as replica_group,
        connections(replica_group, 6) as all_of_them,
    ):
        who = {replica_group.who(one) for one in all_of_them}
        victim = replica_group.children()[1]
        assert {victim} != who
        os.kill(victim, signal.SIGKILL)
        hurt = 0
        for one in all_of_them:
            try:
                assert {replica_group.who(one)} == who
            except (ConnectionError, http.client.HTTPException):
                hurt += 1
        assert hurt == 3
        replica_group.wait_for("was ended by SIGKILL; another takes its place at once")
        wait_until(lambda: len(replica_group.children()) == 3)
        with connections(replica_group, 6) as again:
            assert {replica_group.who(one) for one in again} == who
        assert replica_group.end(signal.SIGTERM) == 143


def test_what_a_worker_had_asked_that_dies_is_given_up(tmp_path):
    write_graphs(tmp_path, m="stuck")
    os.mkfifo(tmp_path / "pipe")
    with workers(tmp_path, "m.dot", count=1) as replica_group:
        with contextlib.closing(replica_group.connect()) as one:
            one.request("POST", "/v1/models/m:predict", json.dumps({"instances": ["x"]}))
            wait_until(lambda: list(tmp_path.glob("entered.*")))
            os.kill(replica_group.children()[1], signal.SIGKILL)
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                one.getresponse()
        cancelled = "modelflow_requests_total", ("code", "CANCELLED"), *M
        wait_until(lambda: replica_group.ask("/readyz")[0] == 200)
        wait_until(lambda: replica_group.metrics().get(cancelled) == 1)
        with (tmp_path / "pipe").open("w"):
            pass
        assert replica_group.end(signal.SIGTERM) == 143


def test_without_the_models_workers_say_to_come_again_until_they_are_back(tmp_path):
    write_graphs(tmp_path, m="stuck", n="who")
    os.mkfifo(tmp_path / "pipe")
    with (
        workers(tmp_path, "m.dot", "n.dot") as replica_group,
        connections(replica_group, 3) as all_of_them,
    ):
        who = replica_group.who(all_of_them[0], "n")
        under_way = all_of_them[1]
        under_way.request("POST", "/v1/models/m:predict", json.dumps({"instances": ["x"]}))
        wait_until(lambda: list(tmp_path.glob("entered.*")))
        os.kill(who, signal.SIGKILL)
        response = under_way.getresponse()
        assert response.status == 503
        assert response.getheader("retry-after") == "1"
        assert "another takes its place" in json.loads(response.read())["error"]
        assert replica_group.wait_for(GONE)
        for one in all_of_them:  # each worker is told by itself that they are back
            assert replica_group.who_is_back(one, "n") not in (who, *replica_group.children()[:2])
        # What was counted is counted still.
        ok = "modelflow_requests_total", ("code", "OK"), ("model", "n"), M[1]
        wait_until(lambda: replica_group.metrics().get(ok, 0) >= 3)
        assert replica_group.end(signal.SIGTERM) == 143


# -- ends ---------------------------------------------------------------------------------------


def test_requests_under_way_are_answered_before_the_end(tmp_path):
    write_graphs(tmp_path, m="stuck")
    os.mkfifo(tmp_path / "pipe")
    found = []
    with workers(tmp_path, "m.dot") as replica_group:
        threads = [
            threading.Thread(target=lambda: found.append(replica_group.who())) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: replica_group.metrics()["modelflow_requests_under_way", *M] == 2)
        replica_group.process.send_signal(signal.SIGTERM)
        wait_until_closed(replica_group)
        while any(thread.is_alive() for thread in threads):
            with contextlib.suppress(OSError):  # nobody reads it at this moment
                os.close(os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK))
        assert replica_group.end() == 143
    assert len(found) == 2


# -- guards and logs ----------------------------------------------------------------------------


def test_tls_keys_and_the_log_are_the_workers(tmp_path):
    authority = Authority(tmp_path / "ca")
    pair = authority.options()
    (tmp_path / "keys").write_text("a-secret-key-of-someone\n")
    arguments = ["m.dot", "--tls-cert", str(pair.cert), "--tls-key", str(pair.key)]
    arguments += ["--api-key-file", "keys", "--access-log", "log"]
    with workers(write_graphs(tmp_path), *arguments) as replica_group:
        for key, status in (("a-secret-key-of-someone", 200), ("another", 401)):
            request = urllib.request.Request(
                f"{replica_group.address}/v1/models/m:predict",
                json.dumps({"instances": ["x"]}).encode(),
                {"x-api-key": key, "x-request-id": f"of-{status}"},
            )
            try:
                with urllib.request.urlopen(
                    request, timeout=60, context=authority.client()
                ) as answer:
                    found = answer.status
            except urllib.error.HTTPError as error:
                found = error.code
            assert found == status
        assert replica_group.end(signal.SIGTERM) == 143
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    # Each worker writes its own lines when it has answered: of two workers either may be first.
    assert {(line["request_id"], line["status"], line["model"]) for line in lines} == {
        ("of-200", 200, "m"),
        ("of-401", 401, None),
    }
    assert len(lines) == 2


def test_nothing_is_left_of_processes_that_were_replaced(tmp_path):
    with workers(write_graphs(tmp_path), "m.dot") as replica_group:
        descriptors = Path(f"/proc/{replica_group.process.pid}/fd")
        before = len(list(descriptors.iterdir()))
        for which in (1, 0):
            who, victim = replica_group.who(), replica_group.children()[which]
            os.kill(victim, signal.SIGKILL)
            replica_group.wait_for("another takes its place", 2 - which)
            wait_until(lambda: replica_group.ask("/readyz")[0] == 200)
            wait_until(lambda: len(list(descriptors.iterdir())) == before)
            assert (replica_group.who_is_back() == who) == (victim != who)
