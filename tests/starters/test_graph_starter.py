"""Graphs to begin with."""

import pytest

from modelflow.errors import ConfigError
from modelflow.graph.read import read_graph
from modelflow.starters.graph_starter import GRAPHS, dot_text, new_graph


@pytest.mark.parametrize("starter", GRAPHS)
def test_every_graph_is_right_in_both_forms(starter, tmp_path):
    (path,) = new_graph("my_graph", tmp_path, starter)
    graph = read_graph(path)
    assert graph.name == "my_graph"
    assert read_graph(dot_text("my_graph", starter)).nodes.keys() == graph.nodes.keys()


def test_one_that_there_is_not_is_named_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match="got 'vidoe'; did you mean 'video'"):
        new_graph("my_graph", tmp_path, "vidoe")


def test_what_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written: File exists"):
        new_graph("my_graph", tmp_path / "file")
