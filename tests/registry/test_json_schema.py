"""Tests that the schemas accept the graphs that `check` accepts, and mark the others."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from modelflow.config.read import read_config
from modelflow.config.write import write_config
from modelflow.registry.json_schema import graph_schema, unit_schema
from modelflow.registry.registry import Registry

ROOT = Path(__file__).resolve().parents[2]
GRAPHS = [
    *sorted((ROOT / "graphs").glob("*.toml")),
    *sorted((ROOT / "modelflow/starters/templates").rglob("graph.toml")),
]
UNITS = sorted(
    path
    for folder in ("graphs", "modelflow/starters/templates/application")
    for path in (ROOT / folder).rglob("*.toml")
    if "[base]" in path.read_text()
)


@pytest.fixture(scope="module")
def schema():
    found = graph_schema(Registry().specs())
    jsonschema.Draft7Validator.check_schema(found)
    return jsonschema.Draft7Validator(json.loads(json.dumps(found)))


def problems(schema, text, read=tomllib.loads):
    return [error.message for error in schema.iter_errors(read(text))]


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: str(path.relative_to(ROOT)))
@pytest.mark.parametrize("form", ["as it is", "toml", "graphviz", "yaml", "json"])
def test_ready_graphs_are_as_the_schema_says_in_every_form(schema, path, form):
    text = path.read_text().replace("@NAME@", "name")
    if form != "as it is":
        text = write_config(read_config(text), form)
    read = {"yaml": yaml.safe_load, "json": json.loads}.get(form, tomllib.loads)
    assert problems(schema, text, read) == []


@pytest.mark.parametrize("path", UNITS, ids=lambda path: str(path.relative_to(ROOT)))
def test_unit_files_are_as_their_schema_says(path):
    found = unit_schema()
    jsonschema.Draft7Validator.check_schema(found)
    assert problems(jsonschema.Draft7Validator(found), path.read_text()) == []


NODE = '[[node]]\nname = "a"\nflowunit = "resize"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[grpah]", "'grpah' was unexpected"),
        ("[graph]\nbatch_sise = 1", "'batch_sise' was unexpected"),
        ("[graph]\nqueue_size = 0", "0 is less than the minimum of 1"),
        ('[graph]\nfuse = "on"', "'on' is not valid under any"),
        ('[log]\nscreen = "maybe"', "'maybe' is not valid under any"),
        ('[log]\nsize = "many"', "'many' does not match"),
        ("[[node]]\nflowunit = 'resize'", "'name' is a required property"),
        (NODE + "image_widht = 3", "'image_widht' does not match any of the regexes"),
        (NODE + "image_width = 0", "0 is less than the minimum of 1"),
        (NODE + "config = { image_widht = 3 }", "'image_widht' was unexpected"),
        (NODE + 'interpolation = "inter_liner"', "'inter_liner' is not valid"),
        ("[[edge]]\nfrom = 'a'", "'to' is a required property"),
        ("[serve]\nisolat = true", "'isolat' was unexpected"),
        ("[serve.input.a]\ndatatype = 'FP33'", "'FP33' is not valid"),
    ],
)
def test_mistakes_are_underlined(schema, text, said):
    (problem,) = problems(schema, text)
    assert said in problem


@pytest.mark.parametrize(
    "text",
    [
        '[graph]\nqueue_size = "${SIZE}"',
        NODE + 'image_width = "$width"\nimage_height = "224"\nqueue_size_in_image = 8',
        NODE + "max_batch_size = 4",
        '[[node]]\nname = "mine"\nflowunit = "units:mine"\nanything = 3',
        '[driver]\ndir = "units"\n[profile]\nperformance = true',
        "[serve]\nisolate = true\n[serve.input.a]\nshape = [3]",
        "[args]\nwidth = 224\n[args.height]\ndefault = 2\ndesc = 'how high'",
    ],
)
def test_what_check_takes_is_not_underlined(schema, text):
    assert problems(schema, text) == []


def test_a_mistake_in_a_unit_file_is_underlined():
    schema = jsonschema.Draft7Validator(unit_schema())
    text = '[base]\nname = "a"\ntype = "python"\nbatch = 3\n[input.in1]\nname = "x"'
    assert len(problems(schema, text)) == 2
