import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelflow.config.environment import Environment
from modelflow.config.override import apply_overrides, substitute_args
from modelflow.config.read import read_config
from modelflow.errors import ConfigError

GRAPH = """
[args.size]
default = 3
[graph]
graphconf = '''digraph g {
    input [type=input]
    "my-node" [flowunit=resize, image_width="$size", batch_size=2]
    my_node__x [flowunit=resize, batch_size=2]
    "v1.2" [flowunit=resize, batch_size=2]
    output [type=output]
    input -> "my-node" -> my_node__x -> "v1.2" -> output }'''
"""


def attributes(config):
    return {node.name: dict(node.attributes) for node in config.nodes}


@pytest.mark.parametrize(
    ("name", "override"),
    [
        ("my_node__batch_size", "my-node.batch_size"),
        ("my-node__batch_size", "my-node.batch_size"),
        ("my_node__x__batch_size", "my_node__x.batch_size"),
        ("v1_2__batch_size", "v1.2.batch_size"),
        ("v1.2__batch_size", "v1.2.batch_size"),
        ("*__batch_size", "*.batch_size"),
        ("my_node__a__b", "my-node.a__b"),
    ],
)
def test_a_variable_is_what_set_is(name, override):
    config = read_config(GRAPH)
    environment = Environment.of({f"MODELFLOW_SET__{name}": "7", "MODELFLOW_RUN_QUIET": "1"})
    assert attributes(environment.apply(config)) == attributes(
        apply_overrides(config, {override: "7"})
    )


def test_an_argument_is_what_arg_is():
    config = read_config(GRAPH)
    set_ = Environment.of({"MODELFLOW_ARG__size": "7"}).apply(config)
    assert attributes(substitute_args(set_, {})) == attributes(
        substitute_args(config, {"size": "7"})
    )
    given_too = substitute_args(set_, {"size": "8"})
    assert attributes(given_too)["my-node"]["image_width"] == "8"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("SET__my_nod__x", "MODELFLOW_SET__my_nod__x: my_nod.x: there is no node 'my_nod'; did"),
        ("SET__my_node", "MODELFLOW_SET__my_node: got no key; expected MODELFLOW_SET__NODE__KEY"),
        ("SET__", "MODELFLOW_SET__: got no node"),
        ("ARG__sise", "MODELFLOW_ARG__sise: there is no argument 'sise'; did you mean 'size'"),
    ],
)
def test_a_variable_that_fits_nothing_is_told_by_its_name(name, what):
    with pytest.raises(ConfigError) as caught:
        Environment.of({f"MODELFLOW_{name}": "7"}).apply(read_config(GRAPH))
    assert what in str(caught.value)


def test_two_nodes_that_are_spelled_alike_are_told_apart_by_their_names():
    names = ["a-b", "a.b"]
    with pytest.raises(ConfigError, match=r"may mean 'a-b' and 'a\.b'"):
        Environment.of({"MODELFLOW_SET__a_b__k": "1"}).fitting(names, ())
    exact = Environment.of({"MODELFLOW_SET__a_b__k": "1"})
    assert exact.overrides([*names, "a_b"]) == {"a_b.k": "1"}


@given(st.lists(st.from_regex(r"[a-z]([a-z_.-]{0,6}[a-z])?", fullmatch=True), unique=True))
def test_a_name_as_it_is_written_is_always_the_one_that_is_meant(names):
    for name in names:
        if any(other.startswith(f"{name}__") for other in names):
            continue
        found = Environment.of({f"MODELFLOW_SET__{name}__k": "1"}).overrides(names)
        assert found == {f"{name}.k": "1"}


def test_a_secret_is_not_told():
    told = list(
        Environment.of({"MODELFLOW_SET__a__password": "p", "MODELFLOW_ARG__x": "1"}).notes()
    )
    assert told == ["MODELFLOW_ARG__x=1", "MODELFLOW_SET__a__password=***"]
