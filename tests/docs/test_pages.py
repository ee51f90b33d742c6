"""Every block of code in the README and the docs is run, in order, in an empty folder."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference"),
]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?:file: )?(\S+\.(?:toml|py|yaml|json))\n")
# What sets up an environment is run by .ci/run, in a fresh one.
_SET_UP = ("python3 -m venv", "pip install", "make ", "modelflow new")


def _run_shell(line, folder):
    if line.startswith(_SET_UP) or not line or line.startswith("#"):
        return
    is_ours = line.startswith("modelflow") and not {">", "|"} & set(shlex.split(line))
    program = [sys.executable, "-m", *shlex.split(line)] if is_ours else None
    done = programs.run(program or ["bash", "-c", line], cwd=folder)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs_as_it_stands(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = {"__name__": "page"}
    for number, (language, text) in enumerate(_BLOCK.findall(page.read_text())):
        named = _FILE.match(text)
        if named:
            (tmp_path / named[1]).write_text(text)
        elif language == "python":
            exec(compile(text, f"{page.name}, block {number}", "exec"), names)
        elif language == "bash":
            for line in text.splitlines():
                _run_shell(line.strip(), tmp_path)


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
