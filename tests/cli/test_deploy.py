"""Tests of the files that ``modelflow deploy`` writes, and of servers started from them."""

import hashlib
import json
import os
import re
import signal
import subprocess
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

import modelflow
from modelflow.archive.archive import Archive
from modelflow.cli.main import main
from modelflow.cli.release.deploy import TARGET_NAMES
from modelflow.cli.release.deploy_environment import extras_of
from modelflow.deploy.targets import TARGETS
from tests import programs
from tests.cli.test_serve import UNITS, ask

GRAPH = """
[graph]
graphconf = '''digraph upper {
    input [type=input]
    upper [flowunit="units:upper", batch_size=4]
    output [type=output]
    input -> upper -> output
}'''
"""
ROOT = Path(modelflow.__file__).parents[1]
EXTRAS = metadata("modelflow-graph").get_all("Provides-Extra") or []
OBJECTS = (
    "autoscaler",
    "configmap",
    "deployment",
    "disruption",
    "networkpolicy",
    "service",
    "serviceaccount",
)
FILES = {
    "docker": [".dockerignore", "Dockerfile"],
    "compose": [".dockerignore", "Dockerfile", "compose.yaml"],
    "kubernetes": [
        ".dockerignore",
        "Dockerfile",
        *(f"kubernetes/{name}.yaml" for name in OBJECTS),
        "monitoring/prometheus-adapter.yaml",
    ],
    "helm": [
        ".dockerignore",
        "Dockerfile",
        "chart/Chart.yaml",
        *(f"chart/templates/{name}.yaml" for name in OBJECTS),
        "chart/values.schema.json",
        "chart/values.yaml",
        "monitoring/prometheus-adapter.yaml",
    ],
}


@pytest.fixture
def graph(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "units.py").write_text(UNITS)
    path = tmp_path / "upper.toml"
    path.write_text(GRAPH)
    return path


def deploy(*words):
    """Returns the exit code of the command."""
    with pytest.raises(SystemExit) as ended:
        main(["deploy", *map(str, words)])
    return ended.value.code


def written(folder):
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def test_the_command_line_knows_every_target():
    assert tuple(TARGETS) == TARGET_NAMES == tuple(FILES)


@pytest.mark.parametrize("target", ["kuberay", "systemd"])
def test_a_target_without_files_of_its_own_names_the_page_with_files_to_copy(target, graph, capsys):
    assert deploy(target, graph, "-o", graph.parent / "out") == 2
    page = re.search(r"docs/how-to/\w+\.md", capsys.readouterr().err)[0]
    assert (ROOT / page).is_file()


@pytest.mark.parametrize("target", FILES)
def test_a_folder_has_the_archive_and_what_the_target_needs(target, graph, capsys):
    folder = graph.parent / "out"
    assert deploy(target, graph, "-o", folder) == 0
    assert written(folder) == sorted(
        [*FILES[target], "modelflow.lock", "requirements.lock", "upper.mfz"]
    )
    with Archive(folder / "upper.mfz") as archive:
        archive.verify()
        assert "serve" in archive.manifest.extras
        image = f"upper:{archive.digest[:12]}"
    said = capsys.readouterr()
    assert said.out.splitlines() == [f"{folder}/{name}" for name in written(folder)]
    next_words = said.err[said.err.index("next:") :]
    served = "inputs: input; metadata of the model: http://HOST:8501/v2/models/upper"
    assert served in said.err
    assert f"cd {folder}" in next_words
    if target != "compose":
        assert f"docker build -t {image} ." in next_words
    texts = [(folder / name).read_text() for name in FILES[target]]
    assert not [text for text in texts if re.search(r"@[a-z_]+\b", text.replace("@system-", ""))]


def test_the_wheel_of_modelflow_is_put_beside_and_installed_by_its_hash(graph):
    wheel = graph.parent / f"modelflow_graph-{modelflow.__version__}-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    folder = graph.parent / "out"
    assert deploy("docker", graph, "-o", folder, "--wheel", wheel) == 0
    assert (folder / wheel.name).read_bytes() == b"a wheel"
    digest = hashlib.sha256(b"a wheel").hexdigest()
    lock = (folder / "modelflow.lock").read_text()
    assert lock.startswith(f"./{wheel.name}[")
    assert lock.endswith(f"] --hash=sha256:{digest}\n")


@pytest.mark.parametrize(
    "name", ["a.whl", "modelflow_graph-99-py3-none-any.whl", "x-1-py3-none-any.whl"]
)
def test_a_wheel_of_something_else_is_refused(name, graph, capsys):
    (graph.parent / name).write_bytes(b"")
    assert deploy("docker", graph, "-o", graph.parent / "out", "--wheel", graph.parent / name) == 1
    assert (
        f"--wheel: got '{name}'; expected the wheel of modelflow-graph" in capsys.readouterr().err
    )


def test_the_folder_is_named_as_a_shell_reads_it(graph, capsys):
    assert deploy("compose", graph, "-o", "out ü 2") == 0
    assert "\n  cd 'out ü 2'\n" in capsys.readouterr().err


def test_the_same_graph_gives_the_same_bytes(graph):
    for name in ("one", "two"):
        assert deploy("helm", graph, "-o", graph.parent / name) == 0
    one, two = graph.parent / "one", graph.parent / "two"
    assert written(one) == written(two)
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in written(one))


def test_what_the_image_starts_serves_the_graph(graph):
    """Runs the Dockerfile's variables and command without a container."""
    folder = graph.parent / "out"
    assert deploy("docker", graph, "-o", folder, "--drain-timeout", "7") == 0
    text = (folder / "Dockerfile").read_text()
    variables = dict(re.findall(r"^(?:ENV|   ) (MODELFLOW_\w+)=(\S+)", text, re.M))
    assert variables["MODELFLOW_SERVE_DRAIN_TIMEOUT"] == "7"
    assert variables["MODELFLOW_SERVE_HTTP"] == "0.0.0.0:8501"
    assert variables["MODELFLOW_SERVE_GRPC"] == "0.0.0.0:8500"
    own = {"MODELFLOW_SERVE_HTTP": "127.0.0.1:0", "MODELFLOW_SERVE_GRPC": "off"}
    cache = {"MODELFLOW_CACHE": str(graph.parent / "cache")}
    command = json.loads(re.search(r"^ENTRYPOINT (.+)$", text, re.M)[1])
    command[-1] = command[-1].replace("/app", str(folder))
    elsewhere = graph.parent / "elsewhere"
    elsewhere.mkdir()
    with programs.started(
        ["python", "-m", *command],
        cwd=elsewhere,
        env={**os.environ, **variables, **own, **cache},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said = next(line for line in process.stderr if "serves " in line)
        assert ask(re.search(r"http://\S+", said)[0]) == {"predictions": ["A", "B"]}
        process.send_signal(signal.SIGTERM)
        assert process.wait(programs.LIMIT) == 143


def test_what_is_asked_for_stands_in_what_is_written(graph):
    folder = graph.parent / "out"
    words = ["--name", "Mine", "--image", "place/mine:2", "--http-port", "9000"]
    words += ["--grpc-port", "off", "--replicas", "2..8", "--set", "upper.batch_size=16"]
    words += ["--env", "MODELFLOW_SET=upper.threads=2"]
    assert deploy("kubernetes", graph, "-o", folder, *words) == 0
    with Archive(folder / "Mine.mfz") as archive:
        assert archive.manifest.overrides == {"upper.batch_size": "16"}
    pod = yaml.safe_load((folder / "kubernetes/deployment.yaml").read_text())["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "place/mine:2"
    assert [port["containerPort"] for port in container["ports"]] == [9000]
    settings = yaml.safe_load((folder / "kubernetes/configmap.yaml").read_text())["data"]
    assert settings["MODELFLOW_SET"] == "upper.threads=2"
    scaler = yaml.safe_load((folder / "kubernetes/autoscaler.yaml").read_text())
    assert scaler["metadata"]["name"] == "mine"
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (2, 8)
    (metric,) = scaler["spec"]["metrics"]
    assert metric["pods"]["target"]["averageValue"] == 32  # two batches


def test_a_folder_with_files_stays_as_it_is_but_by_force(graph, capsys):
    folder = graph.parent / "out"
    folder.mkdir()
    for name in ("Dockerfile", "mine"):
        (folder / name).write_text("x")
    assert deploy("docker", graph, "-o", folder) == 1
    assert written(folder) == ["Dockerfile", "mine"]
    assert "is there already; expected a new or empty folder" in capsys.readouterr().err
    assert deploy("docker", graph, "-o", folder, "--force") == 0
    assert (folder / "mine").read_text() == "x"
    assert "ENTRYPOINT" in (folder / "Dockerfile").read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_what_is_ended_in_the_middle_leaves_nothing(number, code, graph):
    os.mkfifo(graph.parent / "begun")
    wait = "import time\nopen('begun', 'w').close()\ntime.sleep(600)\n"
    (graph.parent / "units.py").write_text(wait + UNITS)
    command = ["python", "-m", "modelflow", "deploy", "docker", graph, "-o", "out"]
    with programs.started(command, cwd=graph.parent, stderr=subprocess.DEVNULL) as process:
        (graph.parent / "begun").open().close()
        process.send_signal(number)
        assert process.wait(programs.LIMIT) == code
    assert not [each.name for each in graph.parent.iterdir() if "out" in each.name]


def test_of_a_graph_with_mistakes_nothing_is_written(graph, capsys):
    graph.write_text(GRAPH.replace("units:upper", "units:uper"))
    assert deploy("docker", graph, "-o", graph.parent / "out") == 1
    assert "upper" in capsys.readouterr().err
    left = {each.name for each in graph.parent.iterdir()} - {"__pycache__"}
    assert left == {"units.py", "upper.toml"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--name", "a b"], "--name: got 'a b'"),
        (["--name", "x\nRUN evil"], "--name: got"),
        (["--image", "x\ny"], "--image: got"),
        (["--grpc-port", "x"], "--grpc-port: got 'x'; expected off, or a port from 1024 to 65535"),
        (["--grpc-port", "8501"], "other than that for HTTP (8501)"),
        (["--grpc-port", "80"], "--grpc-port: got '80'"),
        (["--env", "A B=c"], "--env: got 'A B=c'; expected NAME=VALUE on one line"),
        (["--env", "A=b\u2028c"], "--env: got 'A=b\\u2028c'; expected NAME=VALUE on one line"),
        (["--env", "A=b\x85c"], "--env: got 'A=b\\x85c'; expected NAME=VALUE on one line"),
        (["--env", "A=b\udcff"], "--env: got 'A=b\\udcff'; expected NAME=VALUE on one line"),
        (["--env", "A=b\nC=d"], "--env: got"),
        (["--env", "MODELFLOW_SERVE_DRAIN_TIMEOUT=100"], "give --drain-timeout"),
        (["--env", "MODELFLOW_SERVE_DRAIN_DELAY=5"], "give --drain-delay"),
        (["--env", "MODELFLOW_SERVE_CONFIG=/x.toml"], "the file is not part of the deployment"),
        (["--env", "MODELFLOW_SERVE_DESCRIBE=1"], "would print, end, and be started again"),
        (
            ["--env", "MODELFLOW_SERVE_TLS_CERT=/a"],
            "MODELFLOW_SERVE_TLS_CERT: needs MODELFLOW_SERVE_TLS_KEY",
        ),
        (
            ["--env", "MODELFLOW_SERVE_WORKERS=2", "--env", "MODELFLOW_SERVE_REPLICAS=2"],
            "MODELFLOW_SERVE_WORKERS=2, MODELFLOW_SERVE_REPLICAS=2: give one of them",
        ),
        (["--env", "MODELFLOW_SERVE_SHARE=x"], "expected --on with the address of a Ray cluster"),
        (["--mount", "tls"], "--mount: got 'tls'; expected NAME=/FOLDER"),
        (["--mount", "tls=/tmp/x"], "--mount: got 'tls=/tmp/x'"),
        (["--mount", "Tls=/x"], "--mount: got 'Tls=/x'"),
        (["--env", "MODELFLOW_SERVE_HTTP=0.0.0.0:9"], "give --http-port"),
        (["--env", "MODELFLOW_SERVE_GRPC=off"], "give --grpc-port"),
        (
            ["--env", "MODELFLOW_SERVE_MAX_REQEUSTS=1"],
            "has no such option; did you mean 'MODELFLOW_SERVE_MAX_REQUESTS'?",
        ),
        (
            ["--env", "MODELFLOW_SERVE_CORS_ORIGINS=x"],
            "has no such option; did you mean 'MODELFLOW_SERVE_CORS_ORIGIN'?",
        ),
        (
            ["--env", "MODELFLOW_SERVE_MAX_REQUESTS=0"],
            "--env MODELFLOW_SERVE_MAX_REQUESTS: got '0': 0 is not in the range",
        ),
        (["--env", "MODELFLOW_SERVE_OTEL=perhaps"], "got 'perhaps'"),
        (["--env", "MODELFLOW_SET=nonode.k=1"], "MODELFLOW_SET: nonode.k: there is no node"),
        (["--env", "MODELFLOW_SET=upper.no_key=1"], "(set by MODELFLOW_SET)"),
        (["--env", "MODELFLOW_SET__upper__k=1"], "give MODELFLOW_SET='upper.k=VALUE'"),
        (["--env", "MODELFLOW_ARG=none=1"], "MODELFLOW_ARG: there is no argument 'none'"),
        (["--replicas", "8..2"], "--replicas: got '8..2'; expected N or MIN..MAX"),
        (["--replicas", "many"], "--replicas: got 'many'"),
    ],
)
def test_what_would_not_be_read_as_it_is_meant_is_refused(words, text, graph, capsys):
    assert deploy("docker", graph, "-o", graph.parent / "out", *words) == 1
    assert text in capsys.readouterr().err
    assert not (graph.parent / "out").exists()


def test_an_archive_is_taken_as_it_is(graph):
    """Runs each command in its own process, because an archive has its own copies of the units."""

    def run(*words):
        return programs.run(["python", "-m", "modelflow", *words], cwd=graph.parent)

    assert run("pack", graph, "-o", "upper.mfz", "--extra", "serve").returncode == 0
    done = run("deploy", "compose", "upper.mfz", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert (graph.parent / "out/upper.mfz").read_bytes() == (
        graph.parent / "upper.mfz"
    ).read_bytes()
    done = run("deploy", "docker", "upper.mfz", "-o", "set", "--set", "upper.threads=2")
    assert "is an archive, which is deployed as it is" in done.stderr
    assert (done.returncode, (graph.parent / "set").exists()) == (1, False)


def test_what_the_environment_sets_of_an_archive_is_not_dropped_in_silence(graph):
    def run(*words, **environment):
        environment = {**os.environ, **environment}
        return programs.run(
            ["python", "-m", "modelflow", *words], cwd=graph.parent, env=environment
        )

    assert run("pack", graph, "-o", "upper.mfz", "--extra", "serve").returncode == 0
    done = run("deploy", "docker", "upper.mfz", "-o", "out", MODELFLOW_SET="upper.threads=2")
    assert "--env MODELFLOW_SET=VALUE" in done.stderr
    assert (done.returncode, (graph.parent / "out").exists()) == (1, False)


@pytest.mark.parametrize(
    "text",
    [
        "MODELFLOW_SERVE_CORS_ORIGIN=https://a.example https://b.example",
        "MODELFLOW_SERVE_OTEL=1",
        "MODELFLOW_SERVE_MAX_DECOMPRESSED=",
        "MODELFLOW_SERVE_API_KEY_FILE=/run/keys",
        "X=PLACE_0_HERE",
    ],
)
def test_variables_that_the_server_takes_are_taken(text, graph):
    assert deploy("helm", graph, "-o", graph.parent / "out", "--env", text) == 0
    name, _, value = text.partition("=")
    values = yaml.safe_load((graph.parent / "out/chart/values.yaml").read_text())
    assert values["settings"][name] == value


def test_what_pods_are_scaled_by_is_what_the_variables_make_of_the_graph(graph):
    folder, variable = graph.parent / "out", "MODELFLOW_SET=upper.batch_size=64"
    assert deploy("kubernetes", graph, "-o", folder, "--env", variable) == 0
    scaler = yaml.safe_load((folder / "kubernetes/autoscaler.yaml").read_text())
    assert scaler["spec"]["metrics"][0]["pods"]["target"]["averageValue"] == 128


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("DB_PASSWORD", True),
        ("DB_NAME", False),
        ("MODELFLOW_SERVE_API_KEY_FILE", False),
    ],
)
def test_a_secret_that_is_written_for_all_to_read_is_told(name, is_told, graph, capsys):
    assert deploy("kubernetes", graph, "-o", graph.parent / "out", "--env", f"{name}=x") == 0
    assert (f"--env {name}: may be a secret" in capsys.readouterr().err) is is_told


def test_files_that_are_not_in_the_image_are_mounted_and_probes_speak_tls(graph, capsys):
    words = ["--mount", "tls=/etc/tls", "--mount", "keys=/etc/keys"]
    for name in ("cert", "key"):
        words += ["--env", f"MODELFLOW_SERVE_TLS_{name.upper()}=/etc/tls/{name}.pem"]
    said = ""
    for target in ("kubernetes", "compose", "docker"):
        assert deploy(target, graph, "-o", graph.parent / target, *words) == 0
        said = capsys.readouterr().err
        assert "metadata of the model: https://HOST:8501/" in said
    assert '-v "$PWD/tls:/etc/tls:ro" -v "$PWD/keys:/etc/keys:ro"' in said
    path = graph.parent / "kubernetes/kubernetes/deployment.yaml"
    pod = yaml.safe_load(path.read_text())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {volume["name"]: volume.get("secret") for volume in pod["volumes"]} == {
        "tmp": None,
        "secret-0": {"secretName": "tls"},
        "secret-1": {"secretName": "keys"},
    }
    assert [one["mountPath"] for one in container["volumeMounts"]] == [
        "/tmp",
        "/etc/tls",
        "/etc/keys",
    ]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    compose = yaml.safe_load((graph.parent / "compose/compose.yaml").read_text())
    (service,) = compose["services"].values()
    assert service["volumes"] == ["./tls:/etc/tls:ro", "./keys:/etc/keys:ro"]


PLACING = GRAPH.replace("[graph]", "[placement.far]\nresources = { GPU = 1, CPU = 3 }\n[graph]")
PLACING = PLACING.replace("batch_size=4", "placement=far")


def test_where_what_a_graph_places_runs_is_told_and_settings_of_it_go_with_the_graph(graph, capsys):
    folder = graph.parent / "out"
    assert deploy("docker", graph, "-o", folder, "--env", "MODELFLOW_SERVE_ON=processes") == 1
    assert "MODELFLOW_SERVE_ON=processes: the graph places no node" in capsys.readouterr().err
    graph.write_text(PLACING)
    assert deploy("docker", graph, "-o", folder) == 0
    told = "upper: placed elsewhere by the graph, but the deployed server runs it itself"
    assert told in capsys.readouterr().err
    words = ["--env", "MODELFLOW_SERVE_ON=processes", "--force"]
    assert deploy("docker", graph, "-o", folder, *words) == 0
    assert told not in capsys.readouterr().err


def test_a_server_on_our_own_http2_needs_its_extra():
    assert extras_of({"MODELFLOW_SERVE_GRPC_SERVER": "native"}) == ("serve-fast",)
    assert extras_of({"MODELFLOW_SERVE_GRPC_SERVER": "auto"}) == ()


def test_packages_of_what_settings_ask_for_are_in_the_lock(graph):
    if "otel" not in EXTRAS:
        pytest.skip("modelflow is installed without the extra")
    words = ["--env", "MODELFLOW_SERVE_OTEL=1"]
    assert deploy("docker", graph, "-o", graph.parent / "out", *words) == 0
    with Archive(graph.parent / "out/upper.mfz") as archive:
        assert "otel" in archive.manifest.extras


def test_replicas_of_what_is_one_server_are_told_to_do_nothing(graph, capsys):
    assert deploy("docker", graph, "-o", graph.parent / "out", "--replicas", "3") == 0
    assert "--replicas does nothing for docker: it is one server" in capsys.readouterr().err


def test_an_archive_that_lacks_what_serving_needs_is_refused(graph, capsys):
    packed = graph.parent / "upper.mfz"
    with pytest.raises(SystemExit):
        main(["pack", str(graph), "-o", str(packed)])
    assert deploy("docker", packed, "-o", graph.parent / "out") == 1
    assert "made without the extra 'serve'" in capsys.readouterr().err
    assert not (graph.parent / "out").exists()


def test_an_archive_that_was_damaged_is_refused(graph):
    packed = graph.parent / "upper.mfz"
    with pytest.raises(SystemExit):
        main(["pack", str(graph), "-o", str(packed), "--extra", "serve"])
    packed.write_bytes(packed.read_bytes().replace(b"text.upper()", b"text.lower()"))
    done = programs.run(
        ["python", "-m", "modelflow", "deploy", "docker", "upper.mfz", "-o", "out"],
        cwd=graph.parent,
    )
    assert done.returncode == 1
    assert "upper.mfz: units.py" in done.stderr
    assert not (graph.parent / "out").exists()


def test_a_node_on_a_gpu_has_the_pods_ask_for_one(graph):
    graph.write_text(
        "digraph g { a [type=input] m [flowunit=mean, device=cuda, mean=1] b [type=output] "
        "a -> m -> b }"
    )
    folder = graph.parent / "out"
    assert deploy("compose", graph.rename(graph.with_suffix(".dot")), "-o", folder) == 0
    (service,) = yaml.safe_load((folder / "compose.yaml").read_text())["services"].values()
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["count"] == 1


@pytest.mark.parametrize(
    ("target", "words", "message"),
    [
        ("docker", ["--base-image", "python:3.11"], "expected NAME@sha256:DIGEST with 64"),
        ("kubernetes", ["--keda", "prometheus"], "--keda: got 'prometheus'; expected the URL"),
        ("helm", ["--kserve"], "--kserve: got the target helm; expected kubernetes"),
    ],
)
def test_options_of_operators_and_base_are_checked(graph, capsys, target, words, message):
    assert deploy(target, graph, "-o", graph.parent / "out", *words) != 0
    assert message in capsys.readouterr().err
