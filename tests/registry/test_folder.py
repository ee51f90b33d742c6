import ast
import re
import sys

import pytest

from modelflow.errors import ConfigError, UnknownFlowUnitError
from modelflow.graph.read import read_graph
from modelflow.registry.registry import Registry
from modelflow.testing import read_unit, run_unit
from modelflow.unit.kind import Collapse, Condition, Expand, Normal, Stream

UNIT = """
[base]
name = "double"
type = "python"
entry = "double@Double"
stream = false
[config]
factor = 2
[input.input1]
name = "in/data"
type = "float"
[output.output1]
name = "out"
"""
CODE = """
import modelflow
from sibling import NAME

class Double(modelflow.FlowUnit):
    def open(self, config):
        self.factor = config.factor

    def process(self, ctx):
        ctx.emit([(NAME, buffer.data * self.factor) for buffer in ctx.input()])

class Other:
    pass
"""


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "units" / "double", "first")


def make(folder, name, unit=UNIT):
    folder.mkdir(parents=True)
    (folder / "double.toml").write_text(unit)
    (folder / "double.py").write_text(CODE)
    (folder / "sibling.py").write_text(f"NAME = {name!r}")
    return folder


def test_a_python_unit_is_found_below_a_folder_and_runs(folder):
    spec = Registry([folder.parent]).find("double")
    assert isinstance(spec.kind, Normal)
    found = run_unit(spec, {"in/data": [1, 2]}, factor="3")
    assert [buffer.data for buffer in found["out"]] == [("first", 3), ("first", 6)]


@pytest.mark.parametrize("said", [False, True])
def test_a_unit_says_in_its_file_that_it_only_computes(folder, said):
    more = "\ncompute_bound = true" if said else ""
    file = folder / "double.toml"
    file.write_text(UNIT.replace("stream = false", "stream = false" + more))
    assert read_unit(file).is_compute_bound is said


def test_config_gives_defaults_and_their_types(folder):
    spec = read_unit(folder / "double.toml")
    assert spec.configure({}).factor == 2
    with pytest.raises(ConfigError, match="'factor': got 'x'; expected a whole number"):
        spec.configure({"factor": "x"})


def test_modules_of_the_same_name_in_two_folders_do_not_meet(tmp_path):
    for name in ("one", "two"):
        spec = read_unit(make(tmp_path / name, name) / "double.toml")
        (buffer,) = run_unit(spec, {"in/data": [1]})["out"]
        assert buffer.data == (name, 2)


def test_other_toml_files_are_passed_over(folder):
    (folder / "graph.toml").write_text("[graph]\ngraphconf = 'digraph {}'")
    assert Registry([folder], skip_default=True).find("double")


def test_a_python_unit_without_stream_is_a_stream_unit_and_says_so(tmp_path):
    unit = UNIT.replace("stream = false\n", "")
    spec = read_unit(make(tmp_path / "x", "x", unit) / "double.toml")
    assert isinstance(spec.kind, Stream)
    assert "'stream' is left out" in spec.notes[0]


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ("stream = true", Stream()),
        ("condition = true", Condition()),
        ("expand = true", Expand()),
        ("collapse = true", Collapse()),
        ("expand = true\ncollapse = true", Expand()),
    ],
)
def test_flags_tell_the_kind(tmp_path, flags, kind):
    unit = UNIT.replace("stream = false", flags)
    assert read_unit(make(tmp_path / "x", "x", unit) / "double.toml").kind == kind


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "double"\n', "", "'name' is required"),
        ("entry =", "entri =", "unknown key 'entri'; did you mean 'entry'"),
        ("double@Double", "double", "expected 'file@ClassName'"),
        ("double@Double", "doubel@Double", "there is no doubel.py; did you mean 'double'"),
        ("[config]", "[conifg]", r"unknown section \[conifg\]; did you mean 'config'"),
        ("[input.input1]", "[input.input2]", "numbered from input1 without gaps"),
        ('type = "python"', 'type = "java"', "Java units are not run"),
        ('type = "python"', 'type = "resise"', "did you mean 'resize'"),
        ("stream = false", "stream = 'perhaps'", "expected true or false"),
        ("[config]", "[encryption]\nrootkey='x'\n[config]", "decryption plug-in"),
        (
            "[output",
            "[output.output2]\nname = 'out'\n[output",
            r"^[^:]*: flow unit 'double': output",
        ),
    ],
)
def test_a_wrong_unit_file_says_what_and_where(tmp_path, old, new, message):
    folder = make(tmp_path / "x", "x", UNIT.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        read_unit(folder / "double.toml")
    assert "double.toml" in str(caught.value)


def test_all_mistakes_are_listed(tmp_path):
    unit = UNIT.replace("entry =", "entri =").replace("[config]", "[conifg]")
    with pytest.raises(ConfigError) as caught:
        read_unit(make(tmp_path / "x", "x", unit) / "double.toml")
    assert len(caught.value.findings) == 2


def test_a_class_that_is_missing_is_named_before_anything_runs(tmp_path):
    folder = make(tmp_path / "x", "x", UNIT.replace("double@Double", "double@Duble"))
    with pytest.raises(
        ConfigError, match=r"double\.py has no class 'Duble'; did you mean 'Double'"
    ):
        read_unit(folder / "double.toml")


def test_a_class_that_is_no_unit_is_named(tmp_path):
    folder = make(tmp_path / "x", "x", UNIT.replace("double@Double", "double@Other"))
    with pytest.raises(ConfigError, match="'Other' is no flow unit"):
        read_unit(folder / "double.toml").create("cpu")


def test_a_mistake_in_the_python_file_is_found_with_its_line(folder):
    (folder / "double.py").write_text("class Double:\n    def (\n")
    with pytest.raises(ConfigError, match=r"double.py:2: Python: "):
        read_unit(folder / "double.toml")


def test_modules_beside_the_unit_are_found_at_any_time_and_by_every_form_of_import(folder):
    (folder / "double.py").write_text(
        "import modelflow, sibling as s, package.inner\n"
        "from package import inner\n"
        "from package.inner import WHERE\n"
        "from . import sibling as relative\n"
        "class Double(modelflow.FlowUnit):\n"
        "    def process(self, ctx):\n"
        "        import sibling\n"
        "        from late import LATE\n"
        "        assert s is sibling is relative and package.inner is inner\n"
        "        ctx.emit([(sibling.NAME, WHERE, LATE) for _ in ctx.input()])\n"
    )
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "inner.py").write_text("import sibling\nWHERE = sibling.NAME + '!'")
    (folder / "late.py").write_text(
        "import json\nfrom sibling import NAME\nLATE = json.dumps(NAME)"
    )
    path = list(sys.path)
    (buffer,) = run_unit(read_unit(folder / "double.toml"), {"in/data": [1]})["out"]
    assert buffer.data == ("first", "first!", '"first"')
    assert sys.path == path


def test_a_module_may_lie_deeper(folder):
    (folder / "code").mkdir()
    (folder / "double.py").rename(folder / "code" / "double.py")
    (folder / "double.toml").write_text(UNIT.replace("double@", "code.double@"))
    found = run_unit(read_unit(folder / "double.toml"), {"in/data": [1]})
    assert found["out"][0].data == ("first", 2)


def test_a_unit_written_for_a_gpu_runs_where_its_node_says(folder):
    text = (folder / "double.toml").read_text()
    (folder / "double.toml").write_text(text.replace("[base]", '[base]\ndevice = "cuda"', 1))
    nodes = "i[type=input] d[flowunit=double] o[type=output] i -> d -> o"
    text = f'driver = {{dir = ["{folder}"]}}\n[graph]\ngraphconf = "digraph {{ {nodes} }}"'
    there = read_graph(text, check_devices=False).nodes["d"].devices
    here = read_graph(text, overrides={"d.device": "cpu"}).nodes["d"].devices
    assert [str(device) for device in (*there, *here)] == ["cuda:0", "cpu:0"]


def test_a_file_with_a_zero_byte_is_no_python(folder):
    (folder / "double.py").write_bytes(b"class Double: \x00")
    with pytest.raises(ConfigError, match=r"double.py.*: Python: "):
        read_unit(folder / "double.toml")


def test_a_file_is_read_again_where_python_has_mixed_it_up_with_another_threads(
    folder, monkeypatch
):
    plain, calls = ast.parse, []

    def parse(*given):
        calls.append(given)
        if len(calls) % 3:
            raise SystemError("AST constructor recursion depth mismatch (before=87, after=84)")
        return plain(*given)

    monkeypatch.setattr(ast, "parse", parse)
    assert read_unit(folder / "double.toml").name == "double"
    assert len(calls) > 2


@pytest.mark.parametrize(
    ("key", "line"),
    [("entry = 'double@Doubel'", 5), ("stream = 'x'", 6), ("[input.input1]\nnam = 'x'", 10)],
)
def test_a_mistake_has_its_line(tmp_path, key, line):
    name = key.partition(" =")[0]
    lines = UNIT.splitlines()
    if name.startswith("[input"):
        lines[9] = "nam = 'in/data'"
    else:
        lines[line - 1] = key
    folder = make(tmp_path / "x", "x", "\n".join(lines))
    with pytest.raises(ConfigError) as caught:
        read_unit(folder / "double.toml")
    assert caught.value.findings[0].location.line == line


def test_a_mistake_has_its_line_also_behind_a_text_that_looks_like_it(tmp_path):
    text = """
description = '''
stream = 'said'
[base]
'''
stream = 'x'"""
    folder = make(tmp_path / "x", "x", UNIT.replace("\nstream = false", text))
    with pytest.raises(ConfigError, match=r"double.toml:10: \[base\]: key 'stream': got 'x'"):
        read_unit(folder / "double.toml")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[config]\nfactor = 2", ""),
        ('[input.input1]\nname = "in/data"\ntype = "float"', "[input]\ninput1 = 5"),
        ('[output.output1]\nname = "out"', "[output.output1]\nname = 5\n[output.output2]"),
        ('[output.output1]\nname = "out"', '[input.input2]\nname = "in/data"'),
        ('name = "double"', 'name = "a b"'),
        ('name = "double"', 'name = ""'),
    ],
)
def test_values_of_any_type_give_findings_and_no_crash(tmp_path, old, new):
    unit = UNIT.replace(old, new, 1)
    if "[config]" not in unit:
        unit = "config = 3\ninput = 4\noutput = [1]\n" + unit.split("[input")[0]
    with pytest.raises(ConfigError) as caught:
        read_unit(make(tmp_path / "x", "x", unit) / "double.toml")
    assert caught.value.findings


def test_a_unit_without_ports_is_refused(tmp_path):
    unit = UNIT.split("[input")[0]
    with pytest.raises(ConfigError, match="expected a port at least"):
        read_unit(make(tmp_path / "x", "x", unit) / "double.toml")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('type = "python"', 'type = "java"', "Java units are not run"),
        ('type = "python"', 'type = "vendor_thing"', r"expected python, c\+\+, inference, or a"),
        ('type = "python"', 'type = "inference"\nvirtual_type = "rknpu2"', "rknpu2"),
        ("[config]", "[encryption]\nrootkey='x'\n[config]", "decryption plug-in"),
    ],
)
def test_a_unit_that_cannot_run_here_disturbs_no_other(tmp_path, old, new, reason):
    make(tmp_path / "bad", "bad", UNIT.replace(old, new, 1).replace('"double"', '"bad"'))
    make(tmp_path / "good", "good")
    registry = Registry([tmp_path])
    assert registry.find("double").name == "double"
    assert "bad" not in [spec.name for spec in registry.specs()]
    with pytest.raises(ConfigError, match=reason):
        registry.find("bad")
    (problem,) = [text for text in registry.problems() if str(tmp_path) in text]
    assert "unit 'bad'" in problem
    assert "double.toml" in problem


def test_the_same_name_in_two_folders_is_an_error_when_it_is_looked_up(tmp_path):
    make(tmp_path / "one", "one")
    make(tmp_path / "two", "two")
    registry = Registry([tmp_path])
    assert registry.find("resize")
    with pytest.raises(
        ConfigError, match=r"stands twice among the unit folders: .*one.* and .*two"
    ):
        registry.find("double")


def test_a_folder_that_is_searched_twice_gives_its_units_once(tmp_path):
    make(tmp_path / "one", "one")
    assert Registry([tmp_path, tmp_path / "one"]).find("double").name == "double"


def test_hidden_folders_and_broken_graphs_are_passed_over(folder):
    make(folder / ".venv" / "x", "x", "[base]\nnot right")
    (folder / "graph.toml").write_text("[graph\nnot right")
    assert Registry([folder], skip_default=True).find("double").name == "double"


def test_a_unit_file_that_is_not_toml_has_its_line(folder):
    (folder / "other.toml").write_text("[base]\nname = \n")
    registry = Registry([folder])
    with pytest.raises(ConfigError, match=r"other.toml:2: TOML: "):
        registry.find("other")
    assert registry.find("double").name == "double"  # the failure does not affect other units


def test_a_configuration_only_unit_changes_the_defaults_of_a_built_in_one(tmp_path):
    (tmp_path / "small.toml").write_text(
        '[base]\nname = "small"\ntype = "resize"\n[config]\nimage_width = 7\nimage_height = 5\n'
    )
    spec = Registry([tmp_path]).find("small")
    options = spec.configure({"image_height": 9})
    assert (options.image_width, options.image_height) == (7, 9)


YOLO = """
[base]
name = "find_masks"
type = "yolo_postprocess"
virtual_type = "yolov3_postprocess"
[config]
class_num = 2
strides = ["8", "16"]
anchors = "1,2,3,4,5,6,7,8"
labels = "names.txt"
[input.input1]
name = "yolo/output1"
[input.input2]
name = "yolo/output2"
[output.output1]
name = "boxes"
"""


def test_a_yolo_unit_takes_aliases_types_and_paths_from_its_config(tmp_path):
    (tmp_path / "yolo.toml").write_text(YOLO)
    spec = Registry([tmp_path]).find("find_masks")
    options = spec.configure({"input_width": 64, "input_height": "32"})
    assert (options.classes, options.strides, options.input_height) == (2, (8, 16), 32)
    assert options.labels == str(tmp_path / "names.txt")
    assert [port.name for port in spec.inputs] == ["yolo/output1", "yolo/output2"]
    with pytest.raises(ConfigError, match="'input_width' of unit 'find_masks' is required"):
        spec.configure({"input_height": 32})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "class_num",
            "clas_num",
            r"yolo.toml:7: .* no option 'clas_num'; did you mean 'class_num'",
        ),
        ("class_num = 2", "class_num = 'x'", "yolo.toml:7: .*'classes': got 'x'"),
        ("class_num = 2", "input_width=9\ninput_height=9", "multiple of the stride 8"),
    ],
)
def test_a_wrong_configuration_is_found_in_the_file(tmp_path, old, new, message):
    (tmp_path / "yolo.toml").write_text(YOLO.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        Registry([tmp_path]).find("find_masks")


def test_a_missing_folder_is_an_error_only_where_a_unit_is_missing(tmp_path):
    registry = Registry([tmp_path / "nowhere"])
    assert registry.find("resize").name == "resize"
    said = f"the folder {tmp_path / 'nowhere'} of [driver] dir is not there"
    assert said in registry.problems()
    with pytest.raises(UnknownFlowUnitError, match=rf"flow unit 'mine'.*; {re.escape(said)}"):
        registry.find("mine")
    graph = f'driver = {{dir = ["{tmp_path}/nowhere"]}}\n[graph]\ngraphconf = "digraph {{ %s }}"'
    edges = "i[type=input] r[flowunit=mean] o[type=output] i -> r -> o"
    assert read_graph(graph % edges).notes == (said,)
