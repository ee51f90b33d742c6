"""Servers at Unix sockets."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import grpc
import httpx
import pytest

from modelflow.files.unix_socket import MOST_BYTES, SocketFile, bind_unix_socket
from modelflow.http.options import ConnectionLimits
from tests import programs
from tests.serve.certificates import Authority
from tests.serve.clients import of_rest, served
from tests.serve.grpc.stub import Stub, grpc_served, infer
from tests.serve.processes.server_processes import is_alive, wait_until, write_graphs

PREDICT = "http://localhost/v1/models/m:predict"
BODY = {"instances": [[1.0, 3.0]]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def predict(path, body=BODY, url=PREDICT, **more):
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path), **more)) as client:
        return client.post(url, json=body, timeout=60)


@of_rest
@pytest.mark.parametrize("place", ["{}/http", "http"], ids=["absolute", "relative"])
def test_http_answers_at_a_path_and_the_file_goes_with_the_server(grpc_server, folder, place):
    path = place.format(folder)
    with served(host=f"unix:{path}", access_log="log") as server:
        assert server.address == f"unix:{path}"
        assert predict(path).json() == {"predictions": [2.0]}
        command = ["curl", "-sS", "--unix-socket", path, "-d", '{"instances": [[4.0]]}', PREDICT]
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
        assert done.stdout == b'{"predictions":[4.0]}'
    assert not (folder / "http").exists()
    assert '"client":"unix"' in (folder / "log").read_text()


def test_grpc_answers_at_a_path_and_the_file_goes_with_the_server(grpc_server, folder):
    for address in (f"unix:{folder}/grpc", "unix:grpc"):
        with grpc_served(grpc_host=address) as server:
            assert server.grpc_address == address
            with grpc.insecure_channel(address) as channel:
                assert len(Stub(channel).oip("ModelInfer", infer()).raw_output_contents) == 1
        assert [*folder.iterdir()] == []


@of_rest
def test_tls_over_a_unix_socket(grpc_server, folder):
    authority = Authority(folder)
    with served(host="unix:http", tls=authority.options()):
        answer = predict("http", url=PREDICT.replace("http", "https"), verify=authority.client())
        assert answer.json() == {"predictions": [2.0]}


def test_a_file_without_a_server_is_replaced_and_a_server_is_not(grpc_server, folder):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind("http")
    with grpc_served(host="unix:http", grpc_host="unix:grpc"):
        assert predict("http").status_code == 200
        for options in ({"host": "unix:http"}, {"grpc_host": "unix:grpc"}):
            with pytest.raises(OSError, match="in use by another server"):
                grpc_served(**options).start()
        assert predict("http").status_code == 200
    (folder / "http").write_text("data")
    with pytest.raises(OSError, match="a file of another kind has this path"):
        served(host="unix:http").start()
    assert (folder / "http").read_text() == "data"


def test_the_file_of_another_server_stays(grpc_server, folder):
    with grpc_served(host="unix:http", grpc_host="unix:grpc"):
        for name in ("http", "grpc"):
            os.unlink(name)
        others = [bind_unix_socket(f"unix:{name}") for name in ("http", "grpc")]
    assert {one.name for one in folder.iterdir()} == {"http", "grpc"}
    for one in others:
        one.close()


def test_a_path_may_have_so_many_bytes(folder):
    fitting = "é" * 50 + "x" * (MOST_BYTES - 100)
    bind_unix_socket(f"unix:{fitting}").close()
    with pytest.raises(OSError, match="the path has 108 bytes; expected 1 to 107"):
        bind_unix_socket(f"unix:{fitting}x")
    with pytest.raises(OSError, match="No such file"):
        bind_unix_socket("unix:gone/http")


def test_the_umask_gives_the_permissions(folder):
    before = os.umask(0o077)
    try:
        bind_unix_socket("unix:http").close()
    finally:
        os.umask(before)
    assert (folder / "http").stat().st_mode & 0o777 == 0o700


def test_a_file_is_removed_once(folder):
    bind_unix_socket("unix:http").close()
    file = SocketFile("unix:http")
    file.remove()
    file.remove()
    assert [*folder.iterdir()] == []


@of_rest
def test_clients_of_a_socket_are_not_one_client(grpc_server, folder):
    limits = ConnectionLimits(connections=20, per_client=1)
    with served(host="unix:http", connections=limits), contextlib.ExitStack() as stack:
        every = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(10)]
        for one in every:
            one.connect("http")
        for one in every * 2:  # no connection makes room for another
            one.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 200")


@contextlib.contextmanager
def process(folder, *arguments):
    command = [sys.executable, "-m", "modelflow", "serve", "m.dot", *arguments]
    with programs.started(command, cwd=folder, stderr=subprocess.PIPE, text=True) as started:
        lines = iter(started.stderr.readline, "")
        next(line for line in lines if line.startswith("serves"))
        yield started


@pytest.mark.parametrize("option", [(), ("--replicas", "2"), ("--workers", "2")], ids=str)
def test_processes_answer_at_paths_until_sigterm(folder, option):
    write_graphs(folder)
    addresses = ("--http", "unix:http", "--grpc", "unix:grpc", "--grpc-server", "native")
    with process(folder, *addresses, *option) as started:
        pids = set()
        for _ in range(6):
            pids.add(predict("http", {"instances": ["x"]}).json()["predictions"][0])
        assert len(pids) == (2 if "--replicas" in option else 1)
        options = [("grpc.use_local_subchannel_pool", 1)]
        for _ in range(4):
            with grpc.insecure_channel("unix:grpc", options) as channel:
                assert Stub(channel).oip("ModelReady", name="m").ready
        if option:
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)
            wait_until(lambda: not any(is_alive(int(pid)) for pid in pids))
            wait_until(lambda: predict("http", {"instances": ["x"]}).status_code == 200)
            with grpc.insecure_channel("unix:grpc", options) as channel:
                assert Stub(channel).oip("ServerLive").live
        started.send_signal(signal.SIGTERM)
        assert started.wait(programs.LIMIT) == 143
    assert not {"http", "grpc"} & {one.name for one in folder.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("serve", "m.dot", "--grpc", "unix:g", "--replicas", "2"),
            "grpcio cannot share a Unix socket between processes",
        ),
        (("serve", "m.dot", "--http", "unix:"), "the path has 0 bytes; expected 1 to 107"),
        (("serve", "m.dot", "--http", "unix:" + "x" * 108), "the path has 108 bytes"),
        (("top", "unix:http"), "this command cannot reach a Unix socket"),
        (("load", "unix:http", "--clients", "1"), "this command cannot reach a Unix socket"),
    ],
)
def test_mistakes_are_named(folder, arguments, message):
    write_graphs(folder)
    done = programs.run([sys.executable, "-m", "modelflow", *arguments], cwd=folder)
    assert done.returncode != 0
    assert message in done.stderr + done.stdout


def test_the_description_calls_curl_with_the_socket(folder):
    write_graphs(folder)
    command = ["serve", "m.dot", "--http", "unix:http", "--describe"]
    done = programs.run([sys.executable, "-m", "modelflow", *command], cwd=folder)
    assert "--unix-socket http http://localhost/v2/models/m/" in done.stdout


def test_a_stopped_start_leaves_no_file(folder):
    with pytest.raises(OSError, match="No such file"):
        grpc_served(host="unix:http", grpc_host="unix:gone/grpc").start()
    assert [*folder.iterdir()] == []
