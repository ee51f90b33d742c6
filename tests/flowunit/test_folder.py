import pytest

from modelflow.errors import ConfigError
from modelflow.flowunit.registry import Registry
from modelflow.flowunit.spec import Kind
from modelflow.testing import read_unit, run_unit

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
    assert spec.kind is Kind.NORMAL
    found = run_unit(spec, {"in/data": [1, 2]}, factor="3")
    assert [buffer.data for buffer in found["out"]] == [("first", 3), ("first", 6)]


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
    assert spec.kind is Kind.STREAM
    assert "'stream' is left out" in spec.notes[0]


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ("stream = true", Kind.STREAM),
        ("condition = true", Kind.CONDITION),
        ("expand = true", Kind.EXPAND),
        ("collapse = true", Kind.COLLAPSE),
        ("expand = true\ncollapse = true", Kind.EXPAND),
    ],
)
def test_flags_tell_the_kind(tmp_path, flags, kind):
    unit = UNIT.replace("stream = false", flags)
    assert read_unit(make(tmp_path / "x", "x", unit) / "double.toml").kind is kind


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


def test_a_class_that_is_missing_or_no_unit_is_named(tmp_path):
    for name, message in (("Duble", "did you mean 'Double'"), ("Other", "is no flow unit")):
        unit = UNIT.replace("double@Double", f"double@{name}")
        spec = read_unit(make(tmp_path / name, "x", unit) / "double.toml")
        with pytest.raises(ConfigError, match=message):
            spec.create("cpu")


def test_a_configuration_only_unit_changes_the_defaults_of_a_built_in_one(tmp_path):
    (tmp_path / "small.toml").write_text(
        '[base]\nname = "small"\ntype = "resize"\n[config]\nimage_width = 7\nimage_height = 5\n'
    )
    spec = Registry([tmp_path]).find("small")
    options = spec.configure({"image_height": 9})
    assert (options.image_width, options.image_height) == (7, 9)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="there is no such folder"):
        Registry([tmp_path / "nowhere"])
