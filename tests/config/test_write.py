from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow.config.flow_config import ArgConfig, EdgeConfig, FlowConfig, NodeConfig, PortRef
from modelflow.config.read import read_config
from modelflow.config.write import write_config

texts = (
    st.text(
        st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\\:"), min_size=1
    )
    .map(str.strip)
    .filter(lambda t: t and not t.startswith('"') and not t.endswith('"'))
)
keys = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(
    lambda k: k not in ("name", "config")
)
values = st.one_of(texts, st.integers(-(10**9), 10**9), st.booleans())
names = st.lists(texts, min_size=1, max_size=5, unique=True)


@st.composite
def configs(draw):
    found = draw(names)
    nodes = tuple(
        NodeConfig(name, draw(st.dictionaries(keys, values, max_size=4))) for name in found
    )
    ends = st.builds(PortRef, st.sampled_from(found), st.one_of(st.none(), texts))
    return FlowConfig(
        nodes=nodes,
        edges=tuple(draw(st.lists(st.builds(EdgeConfig, ends, ends), max_size=5))),
        flow={"name": draw(texts)},
        graph={"queue_size": draw(st.integers(1, 99))},
        args={"width": ArgConfig("width", draw(values), draw(texts))},
    )


def text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def shape(config, *, as_text=False):
    convert = text if as_text else (lambda value: value)
    return (
        [(n.name, {k: convert(v) for k, v in n.attributes.items()}) for n in config.nodes],
        [(edge.source, edge.target) for edge in config.edges],
        config.flow.get("name"),
        config.graph.get("queue_size"),
    )


@settings(max_examples=80, deadline=None)
@given(configs())
def test_native_formats_give_back_what_was_written(config):
    for form in ("toml", "yaml", "json"):
        again = read_config(write_config(config, form), form)
        assert shape(again) == shape(config), form
        assert again.args["width"].default == config.args["width"].default


@settings(max_examples=80, deadline=None)
@given(configs())
def test_dot_gives_back_what_was_written_as_text(config):
    for form, language in (("dot", "dot"), ("graphviz", "toml")):
        again = read_config(write_config(config, form), language)
        assert shape(again, as_text=True) == shape(config, as_text=True), form
