"""Tests of the section ``[serve]``, which describes the graph's ends in a graph file."""

import pytest

from modelflow.config.read import read_config
from modelflow.config.write import write_config
from modelflow.errors import ConfigError

GRAPH = """
[[node]]
name = "image"
type = "input"
"""


def found(text):
    with pytest.raises(ConfigError) as caught:
        read_config(text + GRAPH, "toml")
    return [str(finding) for finding in caught.value.findings]


def test_ends_are_described_by_name():
    config = read_config(
        """
[serve]
isolate = true
[serve.input."an image"]
datatype = "UINT8"
shape = [-1, -1, 3]
batched = false
format = "NHWC"

[serve.output.scores]
labels = ["cat", "dog"]
"""
        + GRAPH,
        "toml",
    )
    (image,), (scores,) = config.serve.input.values(), config.serve.output.values()
    assert (image.datatype, image.shape, image.batched) == ("UINT8", (None, None, 3), False)
    assert (image.format, scores.format) == ("NHWC", None)
    assert str(image.location) == "<text>:4"
    assert config.serve.is_isolated
    assert not read_config(GRAPH, "toml").serve.is_isolated
    assert (scores.datatype, scores.shape, scores.batched) == (None, None, True)
    assert scores.labels == ("cat", "dog")


def test_labels_may_stand_in_a_file_beside_the_graph(tmp_path):
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    file = tmp_path / "graph.toml"
    file.write_text('[serve.output.scores]\nlabels = "names.txt"\n' + GRAPH)
    assert read_config(file).serve.output["scores"].labels == ("cat", "dog")
    (tmp_path / "names.txt").unlink()
    with pytest.raises(ConfigError, match=r"graph.toml:2: .*labels: .*there is no such file"):
        read_config(file)


def test_every_mistake_is_told_with_its_line():
    text = """[serve.inputs.image]
[serve.input.image]
datatype = "FP23"
shape = [0, 3]
labels = ["cat"]
format = "NHWC"
[serve.output.scores]
shape = "wide"
batched = 3
"""
    assert found(text) == [
        "<text>:1: [serve]: unknown key 'inputs'; did you mean 'input'? (keys: isolate, "
        "parameters, cache, input, output)",
        "<text>:3: [serve.input.image]: key 'datatype': got 'FP23'; expected one of 'BOOL', "
        "'UINT8', 'UINT16', 'UINT32', 'UINT64', 'INT8', 'INT16', 'INT32', 'INT64', 'FP16', "
        "'FP32', 'FP64', 'BYTES'; did you mean 'FP32'?",
        "<text>:4: [serve.input.image]: key 'shape': got [0, 3]; expected lengths from 1, or -1",
        "<text>:5: [serve.input.image]: unknown key 'labels' (keys: datatype, shape, batched, "
        "format)",
        "<text>:6: [serve.input.image]: key 'format': got NHWC with shape [0, 3]; expected three "
        "lengths, for an image",
        "<text>:8: [serve.output.scores]: key 'shape': got 'wide'; expected a list of values, "
        "each a whole number",
        "<text>:9: [serve.output.scores]: key 'batched': got 3; expected true or false",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("serve = 3\n", "<text>:1: [serve]: got 3; expected a section [serve]"),
        (
            "[serve]\nisolate = 3\n",
            "<text>:2: [serve]: key 'isolate': got 3; expected true or false",
        ),
        ("[serve]\ninput = 3\n", "<text>:2: [serve.input]: got 3; expected a section"),
        ("[serve.input]\nx = 3\n", "<text>:2: [serve.input.x]: got 3; expected a section"),
    ],
)
def test_what_is_no_section_is_refused(text, message):
    (only,) = found(text)
    assert only.startswith(message)


@pytest.mark.parametrize("form", ["toml", "graphviz", "yaml", "json"])
def test_it_is_written_and_read_again(form):
    text = """[serve]
isolate = true
[serve.input."an image"]
datatype = "UINT8"
shape = [3, -1, 3]
batched = false
format = "NCHW"
[serve.output.scores]
shape = []
labels = ["cat", "${HOME}"]
"""
    config = read_config(text.replace("${HOME}", "\\\\${HOME}") + GRAPH, "toml")
    again = read_config(write_config(config, form), "toml" if form == "graphviz" else form)
    assert again.serve == config.serve
    assert again.serve.output["scores"].labels[1] == "${HOME}"
