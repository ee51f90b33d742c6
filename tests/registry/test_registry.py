import importlib.metadata
import sys
import types

import pytest

import modelflow.registry.registry as registry_module
from modelflow.errors import ConfigError, UnknownFlowUnitError
from modelflow.graph.read import read_graph
from modelflow.registry.registry import Registry, specs_in
from modelflow.unit.function import flowunit
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit

SPEC = FlowUnitSpec("mine", {"cpu": FlowUnit}, aliases=("my_unit",))


class Described(FlowUnit):
    SPEC = FlowUnitSpec("described", {"cpu": FlowUnit})


def test_the_built_in_units_are_found_by_name_and_alias():
    registry = Registry()
    assert registry.find("resize") is registry.find("cv_resize")
    assert not registry.broken


def test_given_units_win_over_built_in_ones():
    own = FlowUnitSpec("resize", {"cpu": FlowUnit})
    assert Registry(units=[own]).find("resize") is own
    assert Registry().find("resize") is not own


def test_units_may_be_specs_functions_classes_modules_and_lists():
    @flowunit
    def here(value):
        return value

    registry = Registry(units=[SPEC, here, Described], skip_default=True)
    assert registry.find("my_unit") is SPEC
    assert registry.find("here") is here.SPEC
    assert registry.find("described") is Described.SPEC
    assert specs_in([SPEC, [here]]) == [SPEC, here.SPEC]


def test_something_else_is_refused():
    with pytest.raises(ConfigError, match="got 5 as a flow unit; expected a function"):
        Registry(units=[5])


def test_an_unknown_unit_names_the_nearest():
    with pytest.raises(
        UnknownFlowUnitError, match="unknown flow unit 'resise'; did you mean 'resi"
    ):
        Registry().find("resise")


def test_skip_default_leaves_the_built_in_units_out_but_those_that_no_folder_has():
    registry = Registry(skip_default=True)
    assert "resize" not in [spec.name for spec in registry.specs()]
    assert registry.find("resize") is Registry().find("resize")
    assert registry.not_skipped == {"resize"}


def test_a_graph_with_skip_default_notes_the_built_in_units_that_it_uses_once():
    nodes = "i[type=input] a[flowunit=resize image_width=8 image_height=8] m[flowunit=mean mean=1]"
    edges = "b[flowunit=resize image_width=8 image_height=8] o[type=output] i -> a -> b -> m -> o"
    text = f'driver = {{skip-default = true}}\n[graph]\ngraphconf = "digraph {{ {nodes} {edges} }}"'
    note = "[driver] skip-default = true: no folder has mean, resize; the installed one runs"
    assert read_graph(text).notes == (note,)


def test_a_unit_is_found_by_its_place():
    assert Registry().find(f"{__name__}:Described") is Described.SPEC
    with pytest.raises(ConfigError, match="has no 'Describd'; did you mean 'Described'"):
        Registry().find(f"{__name__}:Describd")
    with pytest.raises(ConfigError, match=r"cannot import 'no_such_module'.*on PYTHONPATH"):
        Registry().find("no_such_module:x")


def test_the_same_name_twice_among_the_given_is_refused():
    with pytest.raises(ConfigError, match="flow unit 'mine' stands twice among the units given"):
        Registry(units=[SPEC, FlowUnitSpec("mine", {"cpu": Described})])


def test_specs_gives_every_unit_once_by_name():
    names = [spec.name for spec in Registry(units=[SPEC]).specs()]
    assert names == sorted(set(names))
    assert {"mine", "resize", "image_decoder"} <= set(names)


def test_built_in_units_are_found_where_modelflow_is_not_installed(monkeypatch):
    monkeypatch.setattr(registry_module, "find_entry_points", lambda group: ())
    assert Registry().find("resize").name == "resize"


def test_a_broken_package_is_named_and_disturbs_no_other(monkeypatch):
    broken = importlib.metadata.EntryPoint("x", "no_such_package:SPECS", registry_module.GROUP)
    monkeypatch.setattr(registry_module, "find_entry_points", lambda group: (broken,))
    registry = Registry()
    assert registry.find("resize").name == "resize"
    with pytest.raises(
        UnknownFlowUnitError,
        match=r"units of the package .* are missing: ModuleNotFoundError: No module",
    ):
        registry.find("from_that_package")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Returns a function that installs packages' entry points as pip does."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(package, code):
        (tmp_path / f"{package}.py").write_text(code)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[modelflow.flowunits]\n{package} = {package}\n")

    yield install
    for package in [name for name in sys.modules if name.startswith("installed_")]:
        del sys.modules[package]


UNITS = """
import modelflow

@modelflow.flowunit(name="{name}")
def work(value):
    return value
"""


def test_an_installed_package_is_searched_after_the_import_of_nothing(installed):
    installed("installed_one", UNITS.format(name="from_package"))
    registry = Registry()
    assert "installed_one" not in sys.modules, "packages are loaded when first needed"
    assert registry.find("from_package").location is not None
    assert "from_package" in [spec.name for spec in registry.specs()]


def test_a_package_that_is_installed_later_is_found_by_the_next_registry(installed):
    with pytest.raises(UnknownFlowUnitError):
        Registry().find("from_package")
    installed("installed_later", UNITS.format(name="from_package"))
    assert Registry().find("from_package").name == "from_package"


def test_a_package_that_fails_in_any_way_is_named_and_disturbs_no_other(installed):
    installed("installed_bad", "raise RuntimeError('no licence')")
    registry = Registry()
    assert registry.find("resize")
    problems = [problem for problem in registry.problems() if "installed_bad" in problem]
    assert len(problems) == 1
    assert "'installed_bad' are missing: RuntimeError: no licence" in problems[0]
    with pytest.raises(UnknownFlowUnitError, match="RuntimeError: no licence"):
        registry.find("its_unit")


def test_two_packages_with_one_name_are_an_error_of_that_name_alone(installed):
    installed("installed_two", UNITS.format(name="in_both"))
    installed("installed_three", UNITS.format(name="in_both"))
    registry = Registry()
    assert registry.find("resize")
    for _ in range(2):  # that their functions are already declared makes no difference
        with pytest.raises(ConfigError, match=r"twice among installed packages: .*installed_t"):
            registry.find("in_both")


def test_a_package_with_the_name_of_a_built_in_unit_is_an_error_of_that_name_alone(installed):
    installed("installed_four", UNITS.format(name="resize"))
    registry = Registry()
    assert registry.find("crop")
    with pytest.raises(ConfigError, match="'resize' stands twice among installed packages"):
        registry.find("resize")


def test_a_decorated_function_wins_over_the_built_in_unit_of_its_name():
    exec(UNITS.format(name="crop"), {"__name__": "module_of_crop"})
    assert Registry().find("crop").location is not None
    assert Registry(skip_default=True).find("resize").name == "resize"


def test_a_module_gives_the_units_that_it_defines(monkeypatch):
    module = types.ModuleType("own_units")
    exec(
        "import modelflow\nfrom modelflow import FlowUnit\n"
        + "class C(FlowUnit):\n    SPEC = modelflow.FlowUnitSpec('c', {'cpu': 'own_units:C'})\n"
        + UNITS.format(name="f"),
        vars(module),
    )
    assert [spec.name for spec in specs_in(module)] == ["c", "f"]
    with pytest.raises(ConfigError, match="as a flow unit; expected a function"):
        specs_in(types.ModuleType("empty"))


def test_the_same_function_name_in_two_modules_is_an_error_when_it_is_looked_up():
    for number in range(2):
        code = compile(UNITS.format(name="twice_declared"), f"file{number}.py", "exec")
        exec(code, {"__name__": f"module{number}"})
    registry = Registry()
    assert registry.find("resize")
    with pytest.raises(ConfigError, match=r"file0.py:4 and file1.py:4; rename"):
        registry.find("twice_declared")


def test_an_unknown_unit_says_where_was_searched(tmp_path):
    with pytest.raises(
        UnknownFlowUnitError, match=r"folder .* \(holds no unit\), the built-in and"
    ):
        Registry([tmp_path]).find("zzzzzz")


def test_a_module_that_fails_in_any_way_is_named(installed):
    installed("installed_four", "nothing_here")
    with pytest.raises(ConfigError, match=r"import 'installed_four': NameError: .*four.py:1\)$"):
        Registry(skip_default=True).find("installed_four:unit")


def test_of_two_units_of_one_name_the_list_shows_the_one_that_is_used():
    own = FlowUnitSpec("resize", {"cpu": FlowUnit})
    registry = Registry(units=[own])
    shown = [spec for spec in registry.specs() if spec.name == "resize"]
    assert shown == [registry.find("resize")]
    assert shown[0] is own
