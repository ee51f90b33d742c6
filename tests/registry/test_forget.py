import importlib
import sys

import pytest

from modelflow.registry.forget import forget_modules, users_modules
from modelflow.unit.function import list_declared

CODE = "import modelflow\n@modelflow.flowunit\ndef {name}(a):\n    return {value}\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path / "forgotten_units.py"


def declared():
    return {spec.name for spec in list_declared()}


def test_the_users_modules_are_imported_anew_and_their_old_units_are_gone(module):
    before = frozenset(sys.modules)
    module.write_text(CODE.format(name="first_of_mine", value=1))
    importlib.import_module("forgotten_units")
    assert users_modules(before) == {"forgotten_units": module}
    assert "first_of_mine" in declared()
    forget_modules(before)
    assert users_modules(before) == {}
    assert "first_of_mine" not in declared()
    module.write_text(CODE.format(name="second_of_mine", value=2))
    assert importlib.import_module("forgotten_units").second_of_mine(0) == 2
    assert {"first_of_mine", "second_of_mine"} & declared() == {"second_of_mine"}
    forget_modules(before)


def test_modules_of_packages_and_those_that_were_there_before_stay(module):
    module.write_text("")
    importlib.import_module("forgotten_units")
    before = frozenset(sys.modules)
    forget_modules(before)
    assert {"forgotten_units", "modelflow", "numpy"} <= sys.modules.keys()
    forget_modules(before - {"forgotten_units", "numpy", "modelflow"})
    assert {"modelflow", "numpy"} <= sys.modules.keys()
    assert "forgotten_units" not in sys.modules
