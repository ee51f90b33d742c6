import pytest

from modelflow.errors import ConfigError
from modelflow.graph.in_code import FlowGraphDesc
from modelflow.graph.read import read_graph


def small():
    desc = FlowGraphDesc("small", graph={"queue_size": 5, "batch_size": 2, "fuse": "off"})
    image = desc.add_input("image")
    decode = desc.add_node("image_decoder", "cpu", image)
    resize = desc.add_node("resize", "cpu", ["image_width=8", "image_height=6"], decode)
    mean = desc.add_node("mean", source=resize["out_image"], mean="1,2,3", name="my_mean")
    desc.add_output("result", mean[0])
    return desc


def test_a_graph_is_built_with_every_order_of_arguments():
    graph = read_graph(small())
    assert list(graph.nodes) == ["image", "image_decoder", "resize", "my_mean", "result"]
    assert graph.nodes["resize"].settings.queue_size == 5
    assert graph.config.graph["fuse"] == "off"
    assert graph.nodes["resize"].options["image_width"] == "8"


@pytest.mark.parametrize("suffix", ["toml", "yaml", "json", "dot"])
def test_it_is_written_and_read_again(tmp_path, suffix):
    small().save(tmp_path / f"g.{suffix}")
    assert list(read_graph(tmp_path / f"g.{suffix}").nodes) == list(read_graph(small()).nodes)


def test_several_inputs_are_given_by_name():
    desc = FlowGraphDesc()
    image, region = desc.add_input("image"), desc.add_input("region")
    crop = desc.add_node("crop", source={"in_image": image, "in_region": region})
    desc.add_output("out", crop["out_image"])
    assert len(read_graph(desc).edges) == 3


def test_two_nodes_of_one_unit_get_names_of_their_own():
    desc = FlowGraphDesc()
    first = desc.add_node("mean", source=desc.add_input("i"))
    second = desc.add_node("mean", source=first)
    desc.add_output("o", second)
    assert [first.name, second.name] == ["mean", "mean_2"]
    assert read_graph(desc).nodes


def test_settings_of_sections_are_kept():
    sections = {
        "driver": {"dir": "units", "skip-default": True},
        "profile": {"dir": "p", "trace": True},
        "log": {"level": "DEBUG"},
    }
    config = FlowGraphDesc(**sections).to_config()
    assert dict(config.driver) == {"dir": ["units"], "skip-default": True}
    assert config.profile.items() >= {"dir": "p", "trace": True}.items()
    assert config.log["level"] == "DEBUG"
    assert "digraph" in small().to_dot()
    assert "[[node]]" in small().to_toml()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda desc: desc.add_input("image"), "the name is in use"),
        (lambda desc: desc.add_node("mean", source=5), "expected a node"),
        (
            lambda desc: FlowGraphDesc(graph={"queue_siz": 5}).to_config(),
            "did you mean 'queue_size'",
        ),
        (lambda desc: desc.add_node("mean", config=["mean"]), "expected 'key=value'"),
        (lambda desc: desc.add_output("x", desc.add_node("mean")[3]), "name the output"),
    ],
)
def test_mistakes_are_said_at_once(call, message):
    with pytest.raises(ConfigError, match=message):
        call(small())
