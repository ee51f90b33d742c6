"""Tests of the start and the end of several processes, with models in any of the processes."""

import collections
import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests import programs
from tests.in_process import run_here
from tests.serve.certificates import Authority
from tests.serve.models_on_disk import write_version
from tests.serve.processes.server_processes import (
    is_alive,
    serving,
    wait_until,
    wait_until_closed,
    write_graphs,
)
from tests.serve.test_life import Client

OPTIONS = ("--replicas", "--workers")
ANYWHERE = ("--http", "127.0.0.1:0", "--grpc", "off")
each_option = pytest.mark.parametrize("option", OPTIONS)


@each_option
def test_no_request_is_lost_while_versions_change_nor_by_an_orderly_end(tmp_path, option):
    """Tests that connected clients get answers, and that clients after the end are refused.

    Some clients keep their connections, and others open a connection for each request.
    """
    folder = write_version(write_graphs(tmp_path, m="slow") / "times", 1)
    amiss, found = [], collections.Counter()

    def load(name, item):
        try:
            while True:
                path = f"/v1/models/{name}:predict"
                status, answer = replica_group.ask(path, {"instances": [item]})
                assert status == 200, answer
                found[str(answer["predictions"][0])] += 1
        except ConnectionRefusedError:
            pass
        except (OSError, http.client.HTTPException, AssertionError) as error:
            amiss.append(error)

    arguments = ("m.dot", "times", "--versions", "latest", "--poll", "0.05", "--drain-delay", "0.1")
    with serving(tmp_path, *arguments, option=option) as replica_group:
        children = replica_group.children()
        asked = [("m", "x"), ("times", [1.0, 1.0])] * 3
        clients = [Client(replica_group.address, {"instances": ["x"]}) for _ in range(4)]
        threads = [threading.Thread(target=load, args=one) for one in asked]
        for thread in threads:
            thread.start()
        for version in (2, 3):
            write_version(folder, version)
            answer = str([float(version)] * 2)
            wait_until(lambda answer=answer: found[answer] > 20 or amiss)
        assert replica_group.end(signal.SIGTERM) == 143
        for thread in (*threads, *clients):
            thread.join()
        assert amiss == []
        assert [client.failed for client in clients] == [[]] * 4
        assert {"[1.0, 1.0]", "[2.0, 2.0]", "[3.0, 3.0]"} < set(found)
        assert set(found) & set(map(str, children))
        assert not any(map(is_alive, children))
        assert not {"Traceback", "stopped"} & set(" ".join(replica_group.said).split())


@each_option
def test_requests_under_way_are_answered_before_the_end(tmp_path, option):
    write_graphs(tmp_path, m="stuck")
    os.mkfifo(tmp_path / "pipe")
    found = []
    with serving(tmp_path, "m.dot", option=option) as replica_group:
        children = replica_group.children()
        threads = [
            threading.Thread(target=lambda: found.append(replica_group.who())) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        under_way = "modelflow_requests_under_way", ("model", "m"), ("version", "1")
        wait_until(lambda: replica_group.metrics()[under_way] == 2)
        replica_group.process.send_signal(signal.SIGTERM)
        wait_until_closed(replica_group)
        while any(thread.is_alive() for thread in threads):
            with contextlib.suppress(OSError):  # the pipe has no reader at this moment
                os.close(os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK))
        assert replica_group.end() == 143
    assert set(found) <= set(children)
    assert len(found) == 2


def test_an_interrupt_of_the_whole_group_shows_no_traceback(tmp_path):
    """Interrupts the process group as a terminal does, while the replicas start."""
    with serving(write_graphs(tmp_path), "m.dot", said="listens at") as replica_group:
        os.killpg(replica_group.process.pid, signal.SIGINT)
        assert replica_group.end() == 130
        assert not any("Traceback" in line for line in replica_group.said)


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(("bad.dot",), "--replicas"), (("m.dot", "--api-key-file", "gone"), "--workers")],
)
def test_what_cannot_begin_says_what_one_process_would_say(
    tmp_path, monkeypatch, arguments, option
):
    monkeypatch.chdir(write_graphs(tmp_path, m="who", bad="nobody"))
    words = ("--log-level", "FATAL", "serve", *arguments, *ANYWHERE)
    one = run_here(words, env={})
    several = programs.run(["python", "-m", "modelflow", *words, option, "2"])
    assert one.returncode == 1
    assert (several.returncode, several.stderr) == (one.returncode, one.stderr)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("m.dot", "--label", "x"), 2, "x"),
        (("m.dot", "--tls-cert", "gone.pem", "--tls-key", "gone.key"), 1, "gone.pem"),
        (("m.dot", "m=m.dot"), 2, "m.dot"),
        (("who=m.dot", "--isolate", "wo"), 2, "no such model; did you mean 'who'? (models: who)"),
    ],
)
def test_what_is_wrong_before_any_process_is_started_is_said_likewise(
    tmp_path, monkeypatch, arguments, code, message
):
    monkeypatch.chdir(write_graphs(tmp_path))
    many = [("--isolate", "who")] if "--isolate" in arguments else [(one, "3") for one in OPTIONS]
    done = [run_here(("serve", *arguments, *ANYWHERE, *more), env={}) for more in [(), *many]]
    assert {one.returncode for one in done} == {code}
    assert message in done[0].stderr
    assert {one.stderr for one in done} == {done[0].stderr}


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("m.dot", "--workers", "2", "--replicas", "3"), "2 and --replicas 3: give one of the two"),
        (("--config", "serve.toml", "--http", "x"), "x: expected PORT, HOST:PORT or [HOST]:PORT"),
    ],
)
def test_numbers_and_addresses_are_looked_at_first(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(write_graphs(tmp_path))
    (tmp_path / "serve.toml").write_text('sources = ["m.dot"]\nreplicas = 3\n')
    done = run_here(("serve", *words), env={})
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def _open_files(process):
    found = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor has just been closed
            found.add(os.readlink(descriptor))
    return found


@each_option
def test_the_files_that_options_name_hold_for_all_until_an_interrupt(tmp_path, option):
    """Tests options (command line before file), keys, TLS, and the log."""
    authority = Authority(tmp_path / "ca")
    pair = authority.options()
    (tmp_path / "keys").write_text("a-secret-key-of-someone\n")
    (tmp_path / "serve.toml").write_text(f'sources = ["m.dot", "times"]\n{option[2:]} = 3\n')
    write_version(write_graphs(tmp_path) / "times", 1)
    arguments = ("--config", "serve.toml", "--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
    more = ("--api-key-file", "keys", "--access-log", "log")

    def ask(path, document, key="a-secret-key-of-someone"):
        request = urllib.request.Request(
            f"{replica_group.address}{path}", json.dumps(document).encode(), {"x-api-key": key}
        )
        client = authority.client()
        try:
            with urllib.request.urlopen(request, timeout=60, context=client) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code, None

    def predicted(name, item):
        return ask(f"/v1/models/{name}:predict", {"instances": [item]})[1]["predictions"][0]

    def is_left():
        return any(str(tmp_path / "log.1") in _open_files(one) for one in replica_group.children())

    with serving(tmp_path, *arguments, *more, option=option) as replica_group:
        children = replica_group.children()
        assert len(children) == (2 if option == "--replicas" else 3)
        found = {predicted("m", "x") for _ in range(6)}
        assert found <= set(map(str, children))
        assert len(found) == (2 if option == "--replicas" else 1)
        assert [ask("/v1/models/m:predict", {}, "another")[0] for _ in range(2)] == [401] * 2
        assert ask("/v2/repository/models/m/unload", {})[0] == 403
        assert predicted("m", "x") in found

        (tmp_path / "log").rename(tmp_path / "log.1")
        write_version(tmp_path / "times", 2)
        replica_group.process.send_signal(signal.SIGHUP)
        wait_until((tmp_path / "log").exists)
        wait_until(lambda: not is_left())
        wait_until(lambda: {predicted("times", [1.0, 1.0])[0] for _ in range(4)} == {2.0})
        assert replica_group.end(signal.SIGINT) == 130
        assert not any(map(is_alive, children))
        assert not any("Traceback" in line for line in replica_group.said)
        assert replica_group.said.count("stopped\n") == 1
    first, second = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("log.1", "log")
    )
    told = collections.Counter((line["status"], line["model"]) for line in first)
    assert told == {(200, "m"): 7, (401, None): 2, (403, None): 1}
    assert {(line["status"], line["model"]) for line in second} == {(200, "times")}
