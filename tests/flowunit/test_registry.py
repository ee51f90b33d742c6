import importlib.metadata

import pytest

import modelflow.flowunit.registry as registry_module
from modelflow.errors import ConfigError, UnknownFlowUnitError
from modelflow.flowunit.function import flowunit
from modelflow.flowunit.registry import Registry, specs_in
from modelflow.flowunit.spec import FlowUnitSpec
from modelflow.flowunit.unit import FlowUnit

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


def test_skip_default_leaves_the_built_in_units_out():
    with pytest.raises(UnknownFlowUnitError):
        Registry(skip_default=True).find("resize")


def test_a_unit_is_found_by_its_place():
    assert Registry().find(f"{__name__}:Described") is Described.SPEC
    with pytest.raises(ConfigError, match="has no 'Describd'; did you mean 'Described'"):
        Registry().find(f"{__name__}:Describd")
    with pytest.raises(ConfigError, match="cannot import 'no_such_module'"):
        Registry().find("no_such_module:x")


def test_the_same_name_twice_among_the_given_is_refused():
    with pytest.raises(ConfigError, match="flow unit 'mine' stands twice among the units given"):
        Registry(units=[SPEC, FlowUnitSpec("mine", {"cpu": Described})])


def test_specs_gives_every_unit_once_by_name():
    names = [spec.name for spec in Registry(units=[SPEC]).specs()]
    assert names == sorted(set(names))
    assert {"mine", "resize", "image_decoder"} <= set(names)


def test_a_broken_package_is_named_and_disturbs_no_other(monkeypatch):
    broken = importlib.metadata.EntryPoint("x", "no_such_package:SPECS", registry_module.GROUP)
    real = importlib.metadata.entry_points
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **k: [broken, *real(**k)])
    registry = Registry()
    assert registry.find("resize").name == "resize"
    with pytest.raises(
        UnknownFlowUnitError, match=r"units of the package .* are missing: No module"
    ):
        registry.find("from_that_package")
