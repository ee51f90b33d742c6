import pytest

from modelflow.config.override import apply_overrides, parse_assignment, substitute_args
from modelflow.config.read import read_config
from modelflow.errors import ConfigError

CONFIG = read_config(
    {
        "args": {"width": {"default": 3}, "must": {}},
        "node": [
            {"name": "i", "type": "input"},
            {"name": "a", "device": "cuda", "deviceid": "1", "width": "$width"},
            {"name": "a.b", "x": "y"},
        ],
    }
)


def attributes(config, name):
    return dict(next(node.attributes for node in config.nodes if node.name == name))


def test_an_attribute_of_one_node_is_replaced():
    changed = apply_overrides(CONFIG, {"a.width": 5, "a.b.x": "z"})
    assert attributes(changed, "a")["width"] == 5
    assert attributes(changed, "a.b") == {"x": "z"}
    assert attributes(CONFIG, "a")["width"] == "$width"


def test_the_device_alone_drops_the_number():
    assert "deviceid" not in attributes(apply_overrides(CONFIG, {"a.device": "cpu"}), "a")
    both = apply_overrides(CONFIG, {"a": {"device": "cuda", "deviceid": "0"}})
    assert attributes(both, "a")["deviceid"] == "0"


def test_a_star_means_every_unit_and_single_nodes_win():
    changed = apply_overrides(CONFIG, {"*.batch_size": 2, "a.batch_size": 9})
    assert attributes(changed, "a")["batch_size"] == 9
    assert attributes(changed, "a.b")["batch_size"] == 2
    assert "batch_size" not in attributes(changed, "i")


def test_unknown_nodes_are_all_named():
    with pytest.raises(ConfigError) as caught:
        apply_overrides(CONFIG, {"b.x": 1, "c.y": 2})
    assert len(caught.value.findings) == 2
    with pytest.raises(ConfigError, match="got no key"):
        apply_overrides(CONFIG, {"a": 1})


def test_arguments_are_put_in():
    assert attributes(substitute_args(CONFIG, {}), "a")["width"] == 3
    assert attributes(substitute_args(CONFIG, {"width": "8"}), "a")["width"] == "8"


def test_arguments_that_are_unknown_or_have_no_value_are_named():
    config = apply_overrides(CONFIG, {"a.x": "$must", "a.y": "$widht"})
    with pytest.raises(ConfigError) as caught:
        substitute_args(config, {"wdth": 1})
    text = str(caught.value)
    assert "there is no argument 'wdth'; did you mean 'width'" in text
    assert "x=$must: the argument has no default; give one with --arg must=VALUE" in text
    assert "y=$widht: there is no argument 'widht'; did you mean 'width'" in text


def test_an_assignment_is_parted_at_the_first_equals_sign():
    assert parse_assignment("a.x=1=2") == ("a.x", "1=2")
    for wrong in ("a.x", "=1"):
        with pytest.raises(ConfigError, match="expected KEY=VALUE"):
            parse_assignment(wrong)


def test_the_bound_of_the_whole_graph_belongs_to_no_node():
    changed = apply_overrides(CONFIG, {"max_in_flight": "8", "a.width": 5})
    assert (changed.flow["max_in_flight"], attributes(changed, "a")["width"]) == (8, 5)
    with pytest.raises(ConfigError, match="--set max_in_flight: got 0"):
        apply_overrides(CONFIG, {"max_in_flight": 0})
