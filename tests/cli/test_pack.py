"""Tests of the contents of ``modelflow pack``'s archives, and of runs of archives elsewhere."""

import json
import os
import shutil
import zipfile

import numpy as np
import pytest

from tests import programs

GRAPH = """
[flow]
name = "scaled"
[driver]
dir = ["units"]
[args.factor]
default = "2"
[graph]
graphconffilepath = "../shared/graph.dot"
"""
DOT = """digraph scaled {
    input [type=input]
    scale [flowunit="scaling.units:scale"]
    add   [flowunit=add, factor="$factor"]
    best  [flowunit=top_k, k=1, labels="names.txt"]
    output [type=output]
    input -> scale -> add -> best -> output
}"""
UNITS = """import modelflow
from scaling import factors
@modelflow.flowunit
def scale(row):
    return row * factors.FACTOR
"""
ADD_TOML = """[base]
name="add"
type="python"
stream=false
entry="add@Add"
[config]
factor=1
[input.input1]
name="in"
[output.output1]
name="out"
"""
ADD_PY = """import tomllib
import packaging.version
import beside
import modelflow
class Add(modelflow.FlowUnit):
    def open(self, options):
        self.factor = float(options.factor)
    def process(self, context):
        context.emit_each(lambda row: row.data + self.factor * beside.ONE)
"""


@pytest.fixture
def project(folder, monkeypatch):
    """Returns a graph with all kinds of parts, in ``project/app``; the cache is ``cache``."""
    monkeypatch.setenv("MODELFLOW_CACHE", str(folder / "cache"))
    files = {
        "app/graph.toml": GRAPH,
        "shared/graph.dot": DOT,
        "app/names.txt": "zero\none\ntwo\n",
        "app/scaling/__init__.py": "",
        "app/scaling/units.py": UNITS,
        "app/scaling/factors.py": "FACTOR = 3\n",
        "app/scaling/unused.py": "",
        "app/units/add/add.toml": ADD_TOML,
        "app/units/add/add.py": ADD_PY,
        "app/units/add/beside.py": "ONE = 1\n",
        "app/units/add/.secret": "",
        "app/units/add/__pycache__/add.pyc": "",
        "app/units/other/README.md": "",
    }
    for name, text in files.items():
        path = folder / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    np.save(folder / "row.npy", np.array([1.0, 5.0, 2.0], np.float32))
    return folder / "project"


def test_all_that_a_graph_needs_is_packed_and_runs_where_the_graph_is_not(project, modelflow_here):
    before = modelflow_here("run", "project/app/graph.toml", "--input", "row.npy", check=True)
    modelflow_here("pack", "project/app/graph.toml", "-o", "a.mfz", check=True)
    with zipfile.ZipFile("a.mfz") as archive:
        assert archive.namelist() == [
            "app/graph.toml",
            "app/names.txt",
            "app/scaling/__init__.py",
            "app/scaling/factors.py",
            "app/scaling/units.py",
            "app/units/add/add.py",
            "app/units/add/add.toml",
            "app/units/add/beside.py",
            "modelflow.json",
            "requirements.lock",
            "shared/graph.dot",
        ]
        lock = archive.read("requirements.lock").decode()
    assert "\nmodelflow-graph==" in lock
    assert "\npackaging==" in lock
    shutil.rmtree(project)
    after = modelflow_here("run", "a.mfz", "--input", "row.npy", check=True)
    assert json.loads(after.stdout) == json.loads(before.stdout)
    for command in (
        ["check"],
        ["draw", "-o", "a.svg"],
        ["profile", "--input", "row.npy", "--seconds", "0.2"],
    ):
        modelflow_here(command[0], "a.mfz", *command[1:], check=True)
    told = modelflow_here("serve", "name=a.mfz", "--describe", check=True).stdout
    assert told.startswith("name")


def test_two_packs_are_the_same_bytes_wherever_the_project_lies(project, modelflow_here, folder):
    modelflow_here("pack", "project/app/graph.toml", "-o", "a.mfz", check=True)
    shutil.move(project, folder / "moved")
    for path in sorted((folder / "moved").rglob("*"), reverse=True):
        os.utime(path)
        path.chmod(0o700)
    modelflow_here("pack", str(folder / "moved" / "app" / "graph.toml"), "-o", "b.mfz", check=True)
    assert (folder / "a.mfz").read_bytes() == (folder / "b.mfz").read_bytes()


def test_what_is_set_when_it_is_packed_holds_and_can_be_set_anew(project, modelflow_here, folder):
    (folder / "mine.txt").write_text("A\nB\nC\n")
    graph = folder / "project" / "app" / "graph.toml"
    given = ["--arg", "factor=10", "--set", "best.labels=mine.txt", "--set", "best.k=2"]
    modelflow_here("pack", str(graph), "-o", "a.mfz", *given, check=True)
    said = json.loads(modelflow_here("pack", "--check", "a.mfz", "--json", check=True).stdout)
    assert said["args"] == {"factor": "10"}
    assert said["overrides"] == {"best.labels": "../../mine.txt", "best.k": "2"}
    (folder / "mine.txt").unlink()
    found = modelflow_here("run", "a.mfz", "--input", "row.npy", check=True).stdout
    assert "B" in found
    assert "25.0" in found
    anew = modelflow_here(
        "run", "a.mfz", "--input", "row.npy", "--arg", "factor=0", "--set", "best.k=1", check=True
    ).stdout
    assert "15.0" in anew
    assert "6.0" not in anew


def test_check_runs_nothing_and_tells_a_bad_hash(project, modelflow_here, folder):
    (project / "app" / "scaling" / "units.py").write_text(UNITS + "\nprint('imported')\n")
    modelflow_here("pack", "project/app/graph.toml", "-o", "a.mfz", check=True)
    done = modelflow_here("pack", "--check", "a.mfz", check=True)
    assert "imported" not in done.stdout
    assert "all as they were packed" in done.stdout
    assert not (folder / "cache").exists() or not any((folder / "cache").rglob("*.py"))
    raw = (folder / "a.mfz").read_bytes()
    (folder / "a.mfz").write_bytes(raw.replace(b"FACTOR = 3", b"FACTOR = 4"))
    for command in (["pack", "--check"], ["run"], ["check"]):
        done = modelflow_here(*command, "a.mfz")
        assert done.returncode == 1
        assert "a.mfz: app/scaling/factors.py: " in done.stderr


@pytest.mark.parametrize(
    ("name", "old", "new", "what"),
    [
        ("shared/graph.dot", '"names.txt"', '"{folder}/names.txt"', "got the absolute path"),
        ("app/graph.toml", '"units"', '"{folder}/units"', r"\[driver\] dir: got the absolute path"),
    ],
)
def test_an_absolute_path_is_refused(project, modelflow_here, name, old, new, what):
    path = project / name
    path.write_text(path.read_text().replace(old, new.format(folder=project / "app")))
    done = modelflow_here("pack", "project/app/graph.toml", "-o", "a.mfz")
    assert done.returncode == 1
    assert what.replace("\\", "") in done.stderr


def test_more_files_and_a_list_of_ones_own_are_taken(project, modelflow_here, folder):
    (folder / "mine.lock").write_text("modelflow-graph==0.1.0 --hash=sha256:00\n")
    modelflow_here(
        "pack", "project/app/graph.toml", "-o", "a.mfz",
        "--include", "units/other/*", "--lock", "mine.lock", check=True,
    )  # fmt: skip
    with zipfile.ZipFile("a.mfz") as archive:
        assert "app/units/other/README.md" in archive.namelist()
        assert archive.read("requirements.lock") == (folder / "mine.lock").read_bytes()
    done = modelflow_here("pack", "project/app/graph.toml", "-o", "b.mfz", "--include", "*.onx")
    assert done.returncode == 1
    assert "--include *.onx: nothing in" in done.stderr


GUARD = "\nif __name__ == '__main__':\n    pass\n"


def test_a_program_beside_units_is_packed_and_what_it_imports_is_not_counted(
    project, modelflow_here, folder
):
    units = project / "app" / "units" / "add"
    (units / "train.py").write_text("import pytest\n" + GUARD)
    (units / "add.py").write_text(ADD_PY + GUARD)  # no program: imports count
    (units / "beside.py").write_text("import idna\nONE = 1\n" + GUARD)  # nor is an import
    done = modelflow_here("pack", "project/app/graph.toml", "-o", "a.mfz")
    with zipfile.ZipFile(folder / "a.mfz") as archive:
        lock = archive.read("requirements.lock").decode()
        assert any(name.endswith("add/train.py") for name in archive.namelist())
    assert "\npackaging==" in lock
    assert "\nidna==" in lock
    assert "pytest" not in lock
    assert "train.py: is a program; its imports are not counted" in done.stderr
    assert done.stderr.count("is a program") == 1


def test_a_program_has_two_versions_of_an_archive_each_with_its_own_modules(
    project, modelflow_here, folder
):
    for name, factor in (("a", 3), ("b", -3)):
        (project / "app" / "scaling" / "factors.py").write_text(f"FACTOR = {factor}\n")
        modelflow_here("pack", "project/app/graph.toml", "-o", f"{name}.mfz", check=True)
    shutil.rmtree(project)
    (folder / "use.py").write_text(
        "import modelflow, numpy as np\n"
        "row = np.float32([1, 5, 2])\n"
        "with modelflow.Flow('a.mfz') as a, modelflow.Flow('b.mfz') as b:\n"
        "    print(*(flow.infer(row).data for flow in (a, b, a)))\n"
        "with modelflow.Flow('a.mfz') as a, modelflow.Flow('b.mfz') as b:\n"
        "    print(*(flow.infer(row).data for flow in (a, b, a)))\n"
    )
    done = programs.run(["python", "use.py"], cwd=folder)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.count("one") == 2
    assert first.count("zero") == 1


def test_a_module_of_the_same_name_from_elsewhere_is_told(project, modelflow_here, folder):
    modelflow_here("pack", "project/app/graph.toml", "-o", "a.mfz", check=True)
    (folder / "use.py").write_text(
        "import sys, modelflow\n"
        "sys.path.insert(0, 'project/app')\n"
        "import scaling.units\n"
        "modelflow.Flow('a.mfz')\n"
    )
    done = programs.run(["python", "use.py"], cwd=folder)
    assert "the module 'scaling.units' of a.mfz is not the one" in done.stderr


def test_the_processes_of_a_node_find_the_modules_of_an_archive(project, modelflow_here, folder):
    modelflow_here(
        "pack", "project/app/graph.toml", "-o", "a.mfz", "--set", "scale.workers=process",
        check=True,
    )  # fmt: skip
    shutil.rmtree(project)
    found = modelflow_here("run", "a.mfz", "--input", "row.npy", check=True).stdout
    assert "one" in found


def test_what_a_sink_writes_is_where_the_archive_is_run(folder, modelflow_here, monkeypatch):
    monkeypatch.setenv("MODELFLOW_CACHE", str(folder / "cache"))
    graph = (
        'digraph { files [flowunit=file_source, path="photos"] '
        'save [flowunit=file_sink, path="out/{index}.png"] files -> save }'
    )
    (folder / "app").mkdir()
    shutil.move(folder / "photos", folder / "app" / "photos")
    (folder / "app" / "copy.dot").write_text(graph)
    modelflow_here("pack", "app/copy.dot", "-o", "a.mfz", check=True)
    shutil.rmtree(folder / "app")
    modelflow_here("run", "a.mfz", check=True)
    assert len(list((folder / "out").iterdir())) == 2
    modelflow_here("run", "a.mfz", check=True)


def test_an_archive_is_neither_edited_nor_packed_again(project, modelflow_here):
    modelflow_here("pack", "project/app/graph.toml", "-o", "a.mfz", check=True)
    done = modelflow_here("edit", "a.mfz", "--no-browser")
    assert done.returncode == 1
    assert "is an archive, which cannot be changed" in done.stderr
    done = modelflow_here("pack", "a.mfz", "-o", "b.mfz")
    assert done.returncode == 1
    assert "is an archive already" in done.stderr


def test_secrets_are_not_printed(project, modelflow_here, monkeypatch):
    graph = project / "app" / "graph.toml"
    graph.write_text(graph.read_text().replace("[graph]", "[args.password]\ndefault = ''\n[graph]"))
    monkeypatch.setenv("MODELFLOW_ARG", "password=hush-hush")
    given = ["--set", "add.password=hush-too"]
    add = project / "app" / "units" / "add" / "add.toml"
    add.write_text(add.read_text().replace("factor=1", 'factor=1\npassword=""'))
    packed = modelflow_here("pack", str(graph), "-o", "a.mfz", *given, check=True)
    assert "note: password: its value is in the archive" in packed.stderr
    for more in ((), ("--json",)):
        checked = modelflow_here("pack", "--check", "a.mfz", *more, check=True)
        assert "password" in checked.stdout
        for done in (packed, checked):
            assert "hush" not in done.stdout + done.stderr


def test_links_are_told_and_the_archive_itself_is_left_out(project, modelflow_here, folder):
    unit = project / "app" / "units" / "add"
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "data.txt").write_text("data")
    (unit / "linked").symlink_to(folder / "elsewhere")
    (unit / ".hidden").symlink_to(folder / "elsewhere")
    (unit / "data.txt").symlink_to(folder / "elsewhere" / "data.txt")
    target = project / "app" / "c.mfz"
    pack = ["pack", "project/app/graph.toml", "--include", "*", "-o", str(target)]
    names = []
    for _ in range(2):
        done = modelflow_here(*pack, check=True)
        notes = [line for line in done.stderr.splitlines() if "is a link" in line]
        assert notes == [
            f"note: {unit}/linked: is a link to a folder, which is not packed; put the folder "
            "itself there",
            f"note: {unit}/data.txt: is a link; the content of {folder}/elsewhere/data.txt is "
            "packed under its name",
        ]
        with zipfile.ZipFile(target) as archive:
            names.append(archive.namelist())
    assert names[0] == names[1]
    assert "app/c.mfz" not in names[0]
    assert "app/units/add/data.txt" in names[0]
    assert modelflow_here(*pack, "-q", check=True).stderr == ""
    done = modelflow_here(*pack, "--include", "**", check=True)  # a pattern follows links
    assert "linked: is a link" not in done.stderr
    with zipfile.ZipFile(target) as archive:
        assert {*archive.namelist()} == {*names[0], "app/units/add/linked/data.txt"}


def test_an_end_leaves_no_draft_and_an_earlier_one_is_removed(project, modelflow_here, folder):
    (folder / ".a.mfz.0123456789ab.part").write_text("of a pack that was killed")
    (folder / ".b.mfz.0123456789ab.part").write_text("of another")
    words = ["pack", "project/app/graph.toml", "-o", "a.mfz"]
    slow = (
        "import os, signal, threading, modelflow.archive.write as write\n"
        "def ended(file, *_):\n"
        "    file.write(b'begun')\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    threading.Event().wait()\n"  # until the signal arrives
        "write._write = ended\n"
        "from modelflow.cli.main import main\n"
        f"main({words!r})\n"
    )
    done = programs.run(["python", "-c", slow], cwd=folder)
    assert done.returncode == 143, done.stderr
    parts = [name for name in os.listdir(folder) if name.endswith(".part")]
    assert parts == [".b.mfz.0123456789ab.part"]
    assert not (folder / "a.mfz").exists()
