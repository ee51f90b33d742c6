"""Tests of the module that a unit folder imports as ``helper``, and of its other names."""

import textwrap

import pytest

from modelflow import Flow
from modelflow.registry.forget import forget_modules, users_modules
from tests import programs

UNIT = """
[base]
name = "{name}"
type = "python"
entry = "{name}@Unit"
stream = false
[input.input1]
name = "in"
[output.output1]
name = "out"
"""
CODE = """
import modelflow
{code}
class Unit(modelflow.FlowUnit):
    def process(self, ctx):
        ctx.emit([self.value(buffer.data) for buffer in ctx.input()])
    def value(self, data):
{value}
"""


def unit(root, name, code, value, **modules):
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(UNIT.format(name=name))
    value = textwrap.indent(value, " " * 8)
    (folder / f"{name}.py").write_text(CODE.format(code=code, value=value))
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    return folder


def flow(root, *units, attributes=""):
    chain = " -> ".join(["i", *units, "o"])
    nodes = " ".join(f"{name}[flowunit={name} {attributes}]" for name in units)
    graph = f"digraph {{ i[type=input] {nodes} o[type=output] {chain} }}"
    return Flow(f'driver = {{dir = ["{root}"]}}\n[graph]\ngraphconf = "{graph}"')


def result(running, value=0):
    return running.infer(value).data


@pytest.fixture(autouse=True)
def _forgotten():
    before = set(users_modules())
    yield
    forget_modules(before)


def test_a_helper_of_one_folder_is_one_module_for_all_and_importlib_finds_it(tmp_path):
    look = "import importlib\nimport counter_h1\n"
    unit(tmp_path, "first_h1", look, "counter_h1.n += 1\nreturn data", counter_h1="n = 0")
    value = "assert importlib.import_module('counter_h1') is counter_h1\nreturn counter_h1.n"
    unit(tmp_path, "second_h1", look, value)
    with flow(tmp_path, "first_h1", "second_h1") as running:
        assert [result(running), result(running)] == [1, 2]


def test_copies_of_one_registry_are_one_module(tmp_path):
    for name in ("one_h1", "two_h1"):
        value = "copied_h1.n += 1\nreturn copied_h1.n"
        unit(tmp_path, name, "import copied_h1", value, copied_h1="n = 0")
    with flow(tmp_path, "one_h1", "two_h1") as running:
        assert result(running) == 2


def test_a_unit_unpickles_a_class_of_its_folder_also_where_it_was_pickled_elsewhere(tmp_path):
    folder = unit(
        tmp_path,
        "reader_h1",
        "import pickle, pathlib\n",
        "path = pathlib.Path(__file__).with_name('state.pkl')\n"
        "return pickle.loads(pickle.dumps(pickle.loads(path.read_bytes()))).get()",
        states_h1="class State:\n    def get(self):\n        return 'got'\n",
    )
    code = "import pickle, states_h1\npickle.dump(states_h1.State(), open('state.pkl', 'wb'))"
    programs.run(["python", "-c", code], cwd=folder, check=True)
    with flow(tmp_path, "reader_h1") as running:
        assert result(running) == "got"


@pytest.mark.parametrize("roots", [1, 2], ids=["one flow", "two flows"])
def test_helpers_of_one_name_and_other_contents_stay_apart(tmp_path, roots):
    places = [tmp_path / str(number % roots) for number in range(2)]
    for number, place in enumerate(places):
        value = "import clash_h1\nfrom . import clash_h1 as same\nassert same is clash_h1\n"
        value += "import pickle\nassert type(pickle.loads(pickle.dumps(same.C()))) is same.C\n"
        helper = f"W = {number}\nclass C: pass\n"
        unit(place, f"u{number}_h1", "", value + "return (data, clash_h1.W)", clash_h1=helper)
    if roots == 1:
        with flow(places[0], "u0_h1", "u1_h1") as running:
            assert result(running) == ((0, 0), 1)
        return
    with flow(places[0], "u0_h1") as one, flow(places[1], "u1_h1") as other:
        assert (result(one)[1], result(other)[1], result(one)[1]) == (0, 1, 0)


def test_a_helper_of_another_flows_folder_is_not_found(tmp_path):
    unit(tmp_path / "a", "owner_h1", "import own_h1", "return own_h1.X", own_h1="X = 1")
    value = "try:\n    import own_h1\nexcept ImportError as error:\n    return error.name"
    unit(tmp_path / "b", "other_h1", "", value)
    with flow(tmp_path / "a", "owner_h1") as one, flow(tmp_path / "b", "other_h1") as other:
        assert (result(one), result(other)) == (1, "own_h1")


@pytest.mark.parametrize("name", ["types", "utils", "wave", "numpy"])
def test_a_helper_may_bear_the_name_of_a_module_that_is_installed(tmp_path, name):
    unit(tmp_path, f"shadow_{name}", f"import {name} as own", "return own.X", **{name: "X = 5"})
    with flow(tmp_path, f"shadow_{name}") as running:
        assert result(running) == 5
    code = f"import {name}; print(getattr({name}, 'X', 0))"
    if name in ("types", "wave", "numpy"):
        assert not hasattr(__import__(name), "X"), code


def test_helpers_import_one_another_and_packages_have_relative_imports(tmp_path):
    folder = unit(
        tmp_path, "deep_h1", "import pack_h1.inner", "return pack_h1.inner.X", base_h1="X = 7"
    )
    (folder / "pack_h1").mkdir()
    (folder / "pack_h1" / "__init__.py").write_text("from .inner import X\n")
    (folder / "pack_h1" / "inner.py").write_text("from .last import X\n")
    (folder / "pack_h1" / "last.py").write_text("from base_h1 import X\n")
    with flow(tmp_path, "deep_h1") as running:
        assert result(running) == 7


def test_folders_that_are_one_by_a_symlink_have_one_helper(tmp_path):
    common = tmp_path / "common_h1.py"
    common.write_text("n = 0")
    for number in (1, 2):
        value = "common_h1.n += 1\nreturn common_h1.n"
        folder = unit(tmp_path / str(number), f"linked{number}_h1", "import common_h1", value)
        (folder / "common_h1.py").symlink_to(common)
    with flow(tmp_path / "1", "linked1_h1") as one, flow(tmp_path / "2", "linked2_h1") as two:
        assert (result(one), result(two), result(one)) == (1, 2, 3)


def test_a_new_flow_sees_edited_files_and_one_that_runs_keeps_the_old(tmp_path):
    value = "import edited_h1\nreturn (middle_h1.X, edited_h1.X)"
    modules = {"edited_h1": "X = 1", "middle_h1": "from edited_h1 import X"}
    folder = unit(tmp_path, "watched_h1", "import middle_h1", value, **modules)
    with flow(tmp_path, "watched_h1") as old:
        assert result(old) == (1, 1)
        (folder / "edited_h1.py").write_text("X = 2")
        with flow(tmp_path, "watched_h1") as new:
            assert (result(new), result(old)) == ((2, 2), (1, 1))


@pytest.mark.parametrize("clash", [False, True])
def test_a_units_process_and_the_flow_name_classes_alike(tmp_path, clash):
    if clash:
        unit(tmp_path / "a", "taker_h1", "import sent_h1", "return sent_h1.X", sent_h1="X = 1")
        with flow(tmp_path / "a", "taker_h1") as running:
            assert result(running) == 1
    sent = "class Sent:\n    where = 'mine'\n"
    unit(tmp_path / "b", "maker_h1", "from sent_h1 import Sent", "return Sent()", sent_h1=sent)
    unit(tmp_path / "b", "asker_h1", "", "from sent_h1 import Sent\nreturn type(data) is Sent")
    with flow(tmp_path / "b", "maker_h1", "asker_h1", attributes="workers=process") as running:
        assert result(running) is True
