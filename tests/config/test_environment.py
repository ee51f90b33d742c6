import pytest

from modelflow.config.override import Environment, apply_overrides, substitute_args
from modelflow.config.read import read_config
from modelflow.errors import ConfigError

GRAPH = """
[args.size]
default = 3
[graph]
graphconf = '''digraph g {
    input [type=input]
    "my-node" [flowunit=resize, image_width="$size", batch_size=2]
    "v1.2" [flowunit=resize, batch_size=2]
    output [type=output]
    input -> "my-node" -> "v1.2" -> output }'''
"""


def attributes(config):
    return {node.name: dict(node.attributes) for node in config.nodes}


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("my-node.batch_size=7", {"my-node.batch_size": "7"}),
        ("v1.2.batch_size=7  *.queue_size=9", {"v1.2.batch_size": "7", "*.queue_size": "9"}),
        (
            "my-node.k='a b=c' my-node.batch_size=4",
            {"my-node.k": "a b=c", "my-node.batch_size": "4"},
        ),
        ("", {}),
    ],
)
def test_a_variable_is_what_set_is(text, overrides):
    config = read_config(GRAPH)
    environment = Environment.of({"MODELFLOW_SET": text, "MODELFLOW_RUN_QUIET": "1"})
    assert attributes(environment.apply(config)) == attributes(apply_overrides(config, overrides))


def test_an_argument_is_what_arg_is():
    config = read_config(GRAPH)
    changed = Environment.of({"MODELFLOW_ARG": "size=7"}).apply(config)
    assert attributes(substitute_args(changed, {})) == attributes(
        substitute_args(config, {"size": "7"})
    )
    given_too = substitute_args(changed, {"size": "8"})
    assert attributes(given_too)["my-node"]["image_width"] == "8"


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("SET", "my_nod.x=1", "MODELFLOW_SET: my_nod.x: there is no node 'my_nod'; did you mean"),
        ("SET", "a.b=1 c", "MODELFLOW_SET: got 'c'; expected NODE.KEY=VALUE"),
        ("SET", "a=1", "MODELFLOW_SET: got 'a=1'; expected NODE.KEY=VALUE"),
        ("SET", "a.b='1", "MODELFLOW_SET: No closing quotation; expected NODE.KEY=VALUE"),
        ("ARG", "sise=1", "MODELFLOW_ARG: there is no argument 'sise'; did you mean 'size'"),
        ("ARG", "=1", "MODELFLOW_ARG: got '=1'; expected NAME=VALUE"),
        (
            "SET__a__b__c",
            "1",
            "MODELFLOW_SET__a__b__c: is not read any more; give MODELFLOW_SET='a.b",
        ),
        ("ARG__size", "1", "MODELFLOW_ARG__size: is not read any more; give MODELFLOW_ARG='size="),
    ],
)
def test_a_variable_that_is_wrong_is_told_by_its_name(name, value, what):
    with pytest.raises(ConfigError) as caught:
        Environment.of({f"MODELFLOW_{name}": value}).apply(read_config(GRAPH))
    assert what in str(caught.value)


def test_settings_are_given_to_what_they_fit():
    environment = Environment.of(
        {"MODELFLOW_SET": "a.k=1 a.b.k=2 *.k=3", "MODELFLOW_ARG": "x=1 y=2"}
    )
    assert environment.fitting(["a"], ["y"]) == Environment(
        {"a.k": "1", "a.b.k": "2", "*.k": "3"}, {"y": "2"}
    )
    assert environment.fitting(["a.b"], []).overrides == {"a.b.k": "2", "*.k": "3"}


def test_a_secret_is_not_told():
    environment = Environment.of({"MODELFLOW_SET": "a.password=p", "MODELFLOW_ARG": "x=1"})
    assert list(environment.notes()) == ["MODELFLOW_SET: a.password=***", "MODELFLOW_ARG: x=1"]
