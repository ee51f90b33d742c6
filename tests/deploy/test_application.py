"""Tests of the known facts about a graph before deployment."""

import pytest

from modelflow.deploy.application import LEAVING_SECONDS, label_of, needs_of
from modelflow.errors import ConfigError
from modelflow.graph.read import read_graph
from tests.deploy.applications import application

GRAPH = """digraph g {{
    input [type=input]
    a [flowunit=resize, image_width=8, image_height=8, {a}]
    b [flowunit=mean, mean="1,2,3", {b}]
    output [type=output]
    input -> a -> b -> output
}}"""


@pytest.mark.parametrize(
    ("name", "label"),
    [("digits", "digits"), ("image_classify", "image-classify"), ("A.B__c-", "a-b-c")],
)
def test_objects_are_named_as_dns_has_it(name, label):
    assert label_of(name) == label


@pytest.mark.parametrize("name", ["", "_", "3d", "数字"])
def test_a_name_that_dns_has_no_way_to_write_is_an_error_that_says_what_to_do(name):
    with pytest.raises(ConfigError, match="give one: --name NAME"):
        label_of(name)


def test_a_long_name_leaves_room_for_what_others_add():
    assert len(label_of("x" * 200)) <= 53  # Helm's limit for a release's name


@pytest.mark.parametrize(
    ("a", "b", "gpus", "batch"),
    [
        ("device=cpu", "device=cpu", 0, 1),
        ("device=cpu, batch_size=16", 'device="cuda:0"', 1, 16),
        ('device="cuda:0,1"', 'device="cuda:1", batch_size=4', 2, 4),
    ],
)
def test_a_graph_needs_every_gpu_that_a_node_names(a, b, gpus, batch, tmp_path):
    (tmp_path / "g.dot").write_text(GRAPH.format(a=a, b=b))
    found = needs_of(read_graph(tmp_path / "g.dot", check_devices=False))
    assert (found.gpus, found.batch) == (gpus, batch)


def test_it_is_killed_later_than_it_ends_by_itself_and_leaves_before_it_ends():
    assert application(drain=120).process_seconds > 122
    assert LEAVING_SECONDS > 0


def test_it_is_killed_later_by_what_it_goes_on_for():
    late, soon = application(drain=120, delay=15), application(drain=120)
    assert late.process_seconds == soon.process_seconds + 15
    assert late.environment["MODELFLOW_SERVE_DRAIN_DELAY"] == "15"
    assert "MODELFLOW_SERVE_DRAIN_DELAY" not in soon.environment


def test_processes_have_processors_and_time_to_end():
    one, workers = application(), application(settings={"MODELFLOW_SERVE_WORKERS": "3"})
    assert (one.processors, workers.processors) == (1, 4)
    assert workers.process_seconds == one.process_seconds
    assert application(settings={"MODELFLOW_SERVE_REPLICAS": "2"}).processors == 2


def test_settings_of_ones_own_win_and_without_grpc_there_is_no_port_for_it():
    found = application(grpc_port=None, settings={"MODELFLOW_SERVE_DRAIN_TIMEOUT": "7", "A": "b"})
    assert found.environment == {"MODELFLOW_SERVE_DRAIN_TIMEOUT": "7", "A": "b"}
    assert found.ports == {"http": 8501}
    assert found.addresses("127.0.0.1")["MODELFLOW_SERVE_GRPC"] == "off"
