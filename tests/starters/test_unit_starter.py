import sys
from pathlib import Path

import pytest

from modelflow.errors import ConfigError
from modelflow.starters.unit_starter import UNIT_KINDS, new_unit
from modelflow.testing import read_unit
from tests import programs

SETTINGS = Path(__file__).resolve().parents[2] / "pyproject.toml"


@pytest.mark.parametrize("kind", [kind for kind in UNIT_KINDS if kind not in ("inference", "c++")])
def test_a_new_unit_works_and_passes_its_own_test_and_the_linter(kind, tmp_path):
    toml, code, test = new_unit("my_unit", kind, tmp_path)
    assert read_unit(toml).name == "my_unit"
    for command in (
        ["pytest", "-q", "-p", "no:cacheprovider", str(test)],
        ["ruff", "check", "--config", str(SETTINGS), str(code), str(test)],
    ):
        if command[0] == "ruff" and not _has_ruff():
            continue
        done = programs.run([sys.executable, "-m", *command], cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_inference_unit_reads_as_one(tmp_path):
    (toml,) = new_unit("my_model", "inference", tmp_path)
    assert read_unit(toml).is_shared


def test_a_new_native_unit_builds_by_one_command_and_passes_its_own_test(tmp_path):
    paths = new_unit("my_unit", "c++", tmp_path)
    names = [path.name for path in paths]
    assert names == ["my_unit.toml", "my_unit.cpp", "Makefile", "test_my_unit.py"]
    command = ["pytest", "-q", "-p", "no:cacheprovider", str(paths[-1])]
    done = programs.run([sys.executable, "-m", *command], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_is_overwritten(tmp_path):
    new_unit("my_unit", "normal", tmp_path)
    (tmp_path / "my_unit" / "my_unit.py").unlink()
    with pytest.raises(ConfigError, match="is there already; nothing was written"):
        new_unit("my_unit", "normal", tmp_path)
    assert not (tmp_path / "my_unit" / "my_unit.py").exists()


@pytest.mark.parametrize("name", ["", "1st", "Upper", "a-b", "../x", "class"])
def test_a_bad_name_is_refused(name, tmp_path):
    with pytest.raises(ConfigError, match="expected lower-case letters"):
        new_unit(name, "normal", tmp_path)


def test_a_bad_kind_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected one of normal"):
        new_unit("x", "norml", tmp_path)


def _has_ruff():
    import importlib.util

    return importlib.util.find_spec("ruff") is not None
