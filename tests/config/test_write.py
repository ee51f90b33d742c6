import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelflow.config.flow_config import ArgConfig, EdgeConfig, FlowConfig, NodeConfig, PortRef
from modelflow.config.override import apply_overrides
from modelflow.config.read import read_config
from modelflow.config.write import FORMATS, write_config
from modelflow.errors import ConfigError
from tests.example_counts import of_a_hundred

texts = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1),
    st.text(st.sampled_from('ab:"\\${}<> \n'), min_size=1),
    st.text(st.sampled_from('ab:"\\ '), min_size=1).map(lambda text: f"{text}${{HOME}}{text}"),
)


def writable(text):
    """Returns whether DOT can hold a text: in quotes, or as HTML with paired brackets."""
    try:
        write_config(FlowConfig((NodeConfig(text),), ()), "dot")
    except ConfigError:
        return False
    return True


dot_texts = texts.filter(writable)
keys = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(
    lambda k: k not in ("name", "config")
)


@st.composite
def configs(draw, texts=texts):
    values = st.one_of(texts, st.integers(-(10**9), 10**9), st.booleans())
    found = draw(st.lists(texts, min_size=1, max_size=5, unique=True))
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


@settings(max_examples=of_a_hundred(80))
@given(configs())
def test_native_formats_give_back_what_was_written(config):
    for form in ("toml", "yaml", "json"):
        again = read_config(write_config(config, form), form)
        assert shape(again) == shape(config), form
        assert again.args["width"].default == config.args["width"].default


@settings(max_examples=of_a_hundred(80))
@given(configs(dot_texts))
def test_dot_gives_back_what_was_written_as_text(config):
    for form, language in (("dot", "dot"), ("graphviz", "toml")):
        again = read_config(write_config(config, form), language)
        assert shape(again, as_text=True) == shape(config, as_text=True), form


@pytest.mark.parametrize(
    "text", ["a\\", 'a\\"b', "a\\\nb", "<b>", "node", "", 'say "so"', "${HOME}", "\\${HOME}"]
)
def test_dot_holds_what_quotes_alone_cannot(text):
    written = write_config(FlowConfig((NodeConfig("n", {"key": text}),), ()), "dot")
    assert read_config(written, "dot").nodes[0].attributes == {"key": text}


def test_a_text_that_dot_cannot_hold_is_refused():
    config = FlowConfig((NodeConfig("n", {"key": ">\\"}),), ())
    with pytest.raises(ConfigError, match="cannot be written as DOT; write toml"):
        write_config(config, "dot")


def test_values_of_the_caller_can_be_written():
    config = apply_overrides(FlowConfig((NodeConfig("n"),), ()), {"n.key": "value"})
    for form in FORMATS:
        assert "value" in write_config(config, form)


def test_an_attribute_without_a_value_is_left_out_of_dot():
    assert "key" not in write_config(FlowConfig((NodeConfig("n", {"key": None}),), ()), "dot")


def test_an_unknown_format_names_those_there_are():
    with pytest.raises(ConfigError, match=r"got 'tml'; expected one of .*; did you mean 'toml'"):
        write_config(FlowConfig((), ()), "tml")


@pytest.mark.parametrize("form", FORMATS)
def test_variables_are_written_again_not_their_values(form, monkeypatch):
    monkeypatch.setenv("PASSWORD", "hunter2xyz")
    text = """
        [args.way]
        default = "${PASSWORD}"
        [driver]
        dir = ["units/${PASSWORD}"]
        [[node]]
        name = "a"
        source = "rtsp://u:${PASSWORD}@host/$x"
        names = ["one", "${PASSWORD}"]
        plain = "\\\\${PASSWORD}"
    """
    config = read_config(text)
    written = write_config(config, form)
    assert "hunter2xyz" not in written
    again = read_config(written, format={"graphviz": "toml"}.get(form, form))
    attributes = again.nodes[0].attributes
    assert attributes["source"] == "rtsp://u:hunter2xyz@host/$x"
    assert attributes["plain"] == "${PASSWORD}"
    assert list(attributes["names"]) in (["one", "hunter2xyz"], list("one,hunter2xyz"))
    monkeypatch.setenv("PASSWORD", "another")
    again = read_config(written, format={"graphviz": "toml"}.get(form, form))
    assert again.nodes[0].attributes["source"] == "rtsp://u:another@host/$x"
