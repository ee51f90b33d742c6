"""Every block of code in the README and the docs is run, in order, in an empty folder."""

import re
import shlex
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests import programs
from tests.console import run_session, sessions
from tests.in_process import run_here, run_script
from tests.prose import is_generated

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    # The blocks of generated pages show calls, not programs.
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if not is_generated(path)),
]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# file: (\S+\.(?:toml|py|yaml|json))\n")
# .ci/run runs the commands that set up an environment, in a fresh environment.
_SET_UP = ("python3 -m venv", "pip install", "make ", "modelflow new")

HERE = Path(__file__).with_name("presupposed")
SHAPES = ("shapes.onnx", "shapes.py", "train.py")
# The prerequisites of a page's sessions: files of this folder, photos, another page's files.
PRESUPPOSED = {
    "find_the_bottleneck.md": (HERE / "thumbnails.toml", ROOT / "graphs", "photos"),
    "tune_a_graph.md": (HERE / "thumbnails.toml", "photos"),
    "write_a_graph.md": (HERE / "watched", "photos"),
    "edit_a_graph.md": (ROOT / "graphs",),
    "watch_a_flow.md": (HERE / "graphs",),
    "quantise_a_model.md": (
        ROOT / "examples" / "quantise" / "quantise.py",
        *(ROOT / "graphs" / "models" / "shapes" / name for name in SHAPES),
    ),
    "serve_a_chat.md": (ROOT / "examples" / "openai",),
    "put_load_on_it.md": (ROOT / "docs" / "how-to" / "serve_a_graph.md",),
}
VARIABLES = {"watch_a_flow.md": {"MODELFLOW_RUN_ARG": "endpoint=http://127.0.0.1:0/v1/digit"}}


def _presuppose(what, folder):
    if what == "photos":
        (folder / "photos").mkdir()
        noise = np.random.default_rng(0).integers(0, 255, (480, 640, 3), np.uint8)
        for number in range(8):
            cv2.imwrite(str(folder / "photos" / f"{number}.jpg"), noise)
    elif what.suffix == ".md":
        for _, text in _BLOCK.findall(what.read_text()):
            if named := _FILE.match(text):
                (folder / named[1]).write_text(text)
    elif what.name == "graphs":
        (folder / "graphs").symlink_to(what)
    elif what.is_dir():
        shutil.copytree(what, folder, dirs_exist_ok=True)
    else:
        shutil.copy(what, folder)


def _run_shell(line, folder):
    if line.startswith(_SET_UP) or not line or line.startswith("#"):
        return
    is_ours = line.startswith("modelflow") and not {">", "|"} & set(shlex.split(line))
    if is_ours:
        done = run_here(tuple(shlex.split(line)[1:]), env={"MODELFLOW_LOAD_WARM_UP": "0.1"})
    elif program := re.fullmatch(r"python (\S+\.py)", line):
        run_script(folder / program[1])
        return
    else:
        done = programs.run(["bash", "-c", line], cwd=folder)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs_as_it_stands(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for what in PRESUPPOSED.get(page.name, ()):
        _presuppose(what, tmp_path)
    names = {"__name__": "page"}
    for number, (language, text) in enumerate(_BLOCK.findall(page.read_text())):
        named = _FILE.match(text)
        if named:
            (tmp_path / named[1]).write_text(text)
        elif language == "console":
            run_session(text, tmp_path, VARIABLES.get(page.name))
        elif language == "python":
            exec(compile(text, f"{page.name}, block {number}", "exec"), names)
        elif language == "bash":
            for line in text.splitlines():
                _run_shell(line.strip(), tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_keep_the_conventions_of_the_pages(page):
    for language, text in _BLOCK.findall(page.read_text()):
        first = text.split("\n")[0]
        if first.startswith("$ "):
            assert language == "console", (
                f"{first}: a session is a block of 'console', which is run"
            )
        if re.fullmatch(r"# \S+\.\w+", first):
            pytest.fail(f"{first}: a file's name is written '# file: NAME'")


def test_sessions_of_examples_run(tmp_path):
    for page in sorted(ROOT.glob("examples/*/README.md")):
        folder = shutil.copytree(page.parent, tmp_path / page.parent.name)
        for session in sessions(page.read_text()):
            run_session(session, folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_links_to_what_exists(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_what_is_guaranteed_is_held_by_tests_that_exist():
    page = (ROOT / "docs" / "how-to" / "data_guarantees.md").read_text()
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", page)
    rows = [line for line in page.splitlines() if line.startswith("| ") and "`tests/" in line]
    assert len(rows) == page.count("\n| ") - page.count("\n| modelflow")
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"
