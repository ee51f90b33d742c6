"""Tests of the command that prints versions, and of the packages that switch the lock on."""

from importlib.metadata import distribution

import pytest

from modelflow.cli.version import find_locking_packages


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Installs a distribution: its requirements lock, do not lock, or cannot be imported."""
    for name, code in {
        "locking": "import sys; sys._is_gil_enabled = lambda: True",
        "free_one": "import sys; sys._is_gil_enabled = lambda: False",
        "broken": "import sys; sys._is_gil_enabled = lambda: True; raise RuntimeError",
        "plain": "import sys; sys._is_gil_enabled = lambda: True",
    }.items():
        (tmp_path / f"{name}.py").write_text(code)
        extension = "" if name == "plain" else f"{name}_c.so,,\n"
        (tmp_path / f"{name}_c.so").touch()  # Python 3.12 and later leave out missing files
        write_metadata(tmp_path, name, f"{name}.py,,\n{extension}")
    requirements = ("Locking>=1", "free-one; extra == 'x'", "broken", "plain", "missing[a]")
    lines = "".join(f"Requires-Dist: {one}\n" for one in requirements)
    write_metadata(tmp_path, "whole", "", lines)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def write_metadata(folder, name, record, lines=""):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}")
    (info / "RECORD").write_text(record)


@pytest.mark.usefixtures("packages")
def test_the_packages_with_extensions_that_switch_the_lock_on_are_named():
    assert distribution("whole").version == "1.0"
    assert find_locking_packages("whole") == ["locking"]


def test_the_packages_of_what_is_not_installed_are_unknown():
    assert find_locking_packages("no-such-distribution") is None
