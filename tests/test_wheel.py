"""Tests that the wheel holds the units and the ready graphs, and runs without the sources."""

import os
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "-q",
        "-w",
        str(folder),
        str(ROOT),
    ]
    programs.run(command, check=True)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_code_units_types_and_graphs(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "modelflow/py.typed",
        "modelflow/deploy/texts/Dockerfile",
        "modelflow/wire/grpc/health.proto",
        "modelflow/wire/grpc/reflection_v1.proto",
        "modelflow/wire/grpc/reflection_v1alpha.proto",
        "modelflow/wire/open_inference/inference.proto",
        "modelflow/wire/tf_serving/error_codes.proto",
        "modelflow/wire/tf_serving/serving.proto",
        "modelflow/wire/tf_serving/tensorflow.proto",
        "modelflow/deploy/texts/dockerignore",
        "modelflow/starters/templates/unit/c++/@NAME@.cpp",
        "modelflow/starters/templates/application/text/units/words/words.py",
        "modelflow/graphs/digits.toml",
        "modelflow/graphs/image_classify.toml",
        "flowunits/resize/cpu.py",
    } <= names
    notices = [name for name in names if name.endswith("LICENSE.preact.txt")]
    assert any(".dist-info/licenses/" in name for name in notices)
    assert "modelflow/studio/static/LICENSE.preact.txt" in notices
    assert any(name.startswith("modelflow/graphs/models/digits/saved_model/") for name in names)
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


PAGES = """
import sys; sys.path.insert(0, SITE)
import urllib.request, pathlib, modelflow
from modelflow.studio.dashboard import Dashboard
from modelflow.studio.edit.editor import Editor
assert modelflow.__file__.startswith(SITE), modelflow.__file__
def ask(url, name):
    home, _, token = url.partition("?")
    with urllib.request.urlopen(f"{home}{name}?{token}") as answer:
        return answer.read()
with Editor(pathlib.Path("new.toml")) as editor:
    assert b"edit.js" in ask(editor.url, "")
    assert len(ask(editor.url, "edit.js")) > 10000
with modelflow.Flow("digraph { a[type=input] b[type=output] a -> b }") as flow:
    with Dashboard.of(flow) as page:
        assert b"app.js" in ask(page.url, "")
        assert len(ask(page.url, "app.js")) > 10000
print("served")
"""


def test_the_wheel_serves_the_pages_without_the_sources_and_without_node(wheel, tmp_path):
    program = PAGES.replace("SITE", repr(str(tmp_path / "site")))
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    needed = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    environment = {**os.environ, "PYTHONPATH": needed, "PATH": ""}
    done = programs.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, text=True)
    assert (done.stdout, done.stderr) == ("served\n", "")


def test_the_wheel_runs_the_ready_graphs_in_an_environment_without_the_sources(wheel, tmp_path):
    # The environment has the packages that modelflow needs, and modelflow itself only from the
    # wheel.
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    needed = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    environment = {**os.environ, "PYTHONPATH": needed, "TF_CPP_MIN_LOG_LEVEL": "3"}
    program = (
        f"import sys; sys.path.insert(0, {str(site)!r}); import modelflow; "
        f"assert modelflow.__file__.startswith({str(site)!r}), modelflow.__file__; "
        "from modelflow.cli.main import main; main(['run', 'digits'])"
    )
    done = programs.run(
        [str(python), "-c", program],
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "accuracy: " in done.stdout


def test_the_installed_modelflow_packs_itself_as_the_wheel_that_it_came_from(wheel, tmp_path):
    site, again = tmp_path / "site", tmp_path / "again"
    again.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site)]
    programs.run([*pip, str(wheel)], check=True)
    program = (
        f"import sys; sys.path.insert(0, {str(site)!r}); from pathlib import Path; "
        "from modelflow.deploy.wheel import pack_wheel; "
        f"print(pack_wheel(Path({str(again)!r})))"
    )
    done = programs.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    found = Path(done.stdout.strip())
    assert found.name == wheel.name
    theirs, ours = zipfile.ZipFile(wheel), zipfile.ZipFile(found)
    assert sorted(theirs.namelist()) == sorted(ours.namelist())
    for name in ours.namelist():
        if not name.endswith("RECORD"):
            assert ours.read(name) == theirs.read(name)
    programs.run([*pip[:-1], str(tmp_path / "third"), str(found)], check=True)  # pip checks RECORD
