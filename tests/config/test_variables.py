"""Tests that no message shows the value of a variable, which may be a password."""

import pytest

from modelflow.config.read import read_config
from modelflow.errors import ConfigError, GraphError
from modelflow.graph.read import read_graph

SECRET = "hunter2-hunter2"


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("SHORT", "pw")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[flow]\nmax_in_flight = '${SECRET}'\n", "'${SECRET}'"),
        ("[flow]\nmax_in_flight = 'x-${SECRET}'\n", "'x-${SECRET}'"),
        ("[flow]\nmax_in_flight = '${SHORT}'\n", "'${SHORT}'"),
        ("[[edge]]\nfrom = 3\nto = '${SECRET}'\n", ""),
        ("[graph]\ngraphconf = 'digraph { batch_size=\"${SECRET}\" a }'\n", "'${SECRET}'"),
        ("flow = '${SECRET}'\n", "'${SECRET}'"),
    ],
)
def test_a_mistake_in_the_file_names_the_variable(text, shown):
    with pytest.raises(ConfigError) as caught:
        read_config(text)
    assert shown in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "'pw'" not in str(caught.value)


@pytest.mark.parametrize(
    "attributes",
    [
        "flowunit=resize, image_height=2, image_width='${SECRET}'",
        "flowunit=resize, image_height=2, image_width='1,${SECRET}'",
        "flowunit='${SECRET}'",
        "flowunit=resize, image_height=2, image_width=2, device='${SECRET}'",
        "flowunit=resize, image_height=2, image_width=2, batch_size='${SHORT}'",
        "flowunit=resize, image_height=2, image_width=2, '${SECRET}'=3",
    ],
)
def test_a_mistake_in_the_graph_names_the_variable(attributes):
    quoted = attributes.replace("'", '"')
    text = f"digraph {{ i [type=input] r [{quoted}] o [type=output] i -> r -> o }}"
    with pytest.raises((ConfigError, GraphError)) as caught:
        read_graph(text)
    assert "hunter2" not in str(caught.value)
    assert "'pw'" not in str(caught.value)


def test_the_value_itself_goes_into_the_graph():
    config = read_config('digraph { a [flowunit=b, password="${SECRET}"] }')
    assert config.nodes[0].attributes["password"] == SECRET
