import json

import pytest
import yaml

from modelflow.config.flow_config import PortRef
from modelflow.config.read import read_config
from modelflow.errors import ConfigError

CLASSIFY = """
[driver]
skip-default = false
dir = ["models/classify_infer"]
[profile]
profile = false
trace = false
dir = "profile"
[log]
level = "INFO"
[graph]
format = "graphviz"
graphconf = \'\'\'digraph image_classify {
    queue_size=64
    batch_size=8
    input[type=input, device=cpu]
    img_decoder[type=flowunit, flowunit=image_decoder, device=cpu, deviceid=0, batch_size=8]
    img_resize[type=flowunit, flowunit=resize, device=cpu, deviceid=0, image_height=224, image_width=224, batch_size=18]
    img_mean[type=flowunit, flowunit=mean, device=cpu, deviceid=0, mean="123.68,116.78,103.94", batch_size=8]
    classify_infer[type=flowunit, flowunit=classify_infer, device=cuda, deviceid="1", batch_size=16]
    output[type=output, device=cpu]
    input -> img_decoder:in_encoded_image
    img_decoder:out_image -> img_resize:in_image
    img_resize:out_image -> img_mean:in_data
    img_mean:out_data -> classify_infer:input
    classify_infer:"resnet_v1_101/predictions/Softmax" -> output
}\'\'\'
"""

NATIVE = {
    "flow": {"name": "small", "max_in_flight": 5},
    "graph": {"queue_size": 7},
    "args": {"width": {"default": 3, "desc": "pixels"}},
    "node": [
        {"name": "input", "type": "input"},
        {"name": "r", "flowunit": "resize", "config": {"width": "$width", "height": 2}},
        {"name": "output", "type": "output"},
    ],
    "edge": [{"from": "input", "to": "r:in_image"}, {"from": "r", "to": "output"}],
}


def found(text, **more):
    with pytest.raises(ConfigError) as caught:
        read_config(text, **more)
    return [str(finding) for finding in caught.value.findings] or [str(caught.value)]


def test_modelboxs_form_is_read_as_it_stands():
    config = read_config(CLASSIFY)
    assert config.flow["name"] == "image_classify"
    assert (config.graph["queue_size"], config.graph["batch_size"]) == (64, 8)
    assert config.driver["dir"] == ["models/classify_infer"]
    assert config.log["level"] == "INFO"
    names = [node.name for node in config.nodes]
    assert names == ["input", "img_decoder", "img_resize", "img_mean", "classify_infer", "output"]
    assert config.nodes[3].attributes["mean"] == "123.68,116.78,103.94"
    assert config.edges[-1].source.port == "resnet_v1_101/predictions/Softmax"


def test_lines_in_embedded_dot_are_those_of_the_file():
    config = read_config(CLASSIFY)
    lines = CLASSIFY.splitlines()
    for node in config.nodes:
        assert node.name in lines[node.location.line - 1]
    assert "Softmax" in lines[config.edges[-1].location.line - 1]


def same(config):
    return (
        [(node.name, dict(node.attributes)) for node in config.nodes],
        [(str(edge.source), str(edge.target)) for edge in config.edges],
        config.flow["max_in_flight"],
        config.graph["queue_size"],
        config.args["width"].default,
    )


def test_every_format_says_the_same():
    import tomlkit

    expected = same(read_config(NATIVE))
    assert expected[0][1] == ("r", {"flowunit": "resize", "width": "$width", "height": 2})
    for text in (tomlkit.dumps(NATIVE), yaml.safe_dump(NATIVE), json.dumps(NATIVE)):
        assert same(read_config(text)) == expected


@pytest.mark.parametrize("suffix", ["toml", "yaml", "yml", "json", "dot", "gv"])
def test_the_suffix_tells_the_format(tmp_path, suffix):
    texts = {
        "toml": "[[node]]\nname='a'",
        "yaml": "node:\n- name: a",
        "yml": "node:\n- name: a",
        "json": '{"node": [{"name": "a"}]}',
        "dot": "digraph { a }",
        "gv": "digraph { a }",
    }
    path = tmp_path / f"g.{suffix}"
    path.write_text(texts[suffix])
    config = read_config(path)
    assert [node.name for node in config.nodes] == ["a"]
    assert config.path == path
    assert config.nodes[0].location.file == str(path)


def test_all_mistakes_of_a_file_are_listed_with_line_and_suggestion():
    text = """
[graf]
[flow]
nmae = "x"
max_in_flight = 0
[log]
level = "INFOO"
[[node]]
flowunit = "resize"
[[edge]]
from = "a"
too = "b"
"""
    assert found(text) == [
        "<text>:2: unknown section 'graf'; did you mean 'graph'? "
        "(sections: driver, profile, log, flow, graph, args, serve, placement, node, edge)",
        "<text>:4: [flow]: unknown key 'nmae'; did you mean 'name'? "
        "(keys: name, desc, enable, max_in_flight)",
        "<text>:5: [flow]: key 'max_in_flight': got 0; expected a number from 1 to 1073741824",
        "<text>:7: [log]: key 'level': got 'INFOO'; expected one of 'DEBUG', 'INFO', 'NOTICE', "
        "'WARN', 'ERROR', 'FATAL', 'OFF'; did you mean 'INFO'?",
        "<text>:8: [[node]]: got the name None; expected a text",
        "<text>:10: [[edge]]: to: got None; expected 'node' or 'node:port'",
        "<text>:12: [[edge]]: unknown key 'too'; did you mean 'to'? (keys: from, to)",
    ]


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ("a = ", "toml", "<text>:1: TOML:"),
        ("x: [1\n", "yaml", "YAML:"),
        ("- a\n", "yaml", "got list at the top"),
        ('{"a": }', "json", "<text>:1: JSON: Expecting value"),
        ("[graph]\ngraphconf = '''\ndigraph {\n a ! }'''", "toml", "<text>:4: DOT: got '!'"),
        ("[graph]\nformat='graphviz'", "toml", "there is no graphconf"),
        ("[graph]\ngraphconf='digraph {a}'\n[[node]]\nname='a'", "toml", "give one"),
        ("[[node]]\nname='a'\ndevice='x'\nconfig={device='y'}", "toml", "'device' is given twice"),
        (
            "[driver]\ndir='${NO_SUCH_VARIABLE_HERE}'",
            "toml",
            "the environment has no such variable",
        ),
    ],
)
def test_a_wrong_text_is_named_with_its_line(text, form, message):
    assert any(message in line for line in found(text, format=form)), found(text, format=form)


def test_variables_of_the_environment_are_put_in(monkeypatch):
    monkeypatch.setenv("PLACE", "/data")
    config = read_config("[driver]\ndir=['${PLACE}/units', '\\${PLACE}']\n[[node]]\nname='a'")
    assert config.driver["dir"] == ["/data/units", "${PLACE}"]


def test_keys_without_effect_are_named_in_a_note():
    config = read_config("[graph]\nthread-num=4\n[[node]]\nname='a'")
    assert config.notes == (
        "[graph]: thread-num has no effect: each node has its own threads; see the node attribute "
        "'threads'",
    )


def test_graphconf_may_be_a_list_of_lines_or_a_file(tmp_path):
    assert read_config("[graph]\ngraphconf=['digraph {', 'a }']").nodes[0].name == "a"
    (tmp_path / "g.dot").write_text("digraph { b }")
    (tmp_path / "g.toml").write_text("[graph]\ngraphconffilepath='g.dot'")
    assert read_config(tmp_path / "g.toml").nodes[0].name == "b"


def test_files_that_cannot_be_read_say_why(tmp_path):
    (tmp_path / "graph.toml").write_text("")
    (tmp_path / "g.txt").write_text("")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    for name, message in (
        ("grap.toml", "there is no such file; did you mean 'graph.toml'"),
        ("g.txt", "got the suffix '.txt'; expected one of .toml"),
        ("bad.toml", "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_config(tmp_path / name)
    with pytest.raises(ConfigError, match="is a folder; expected a graph file"):
        read_config(tmp_path)
    with pytest.raises(ConfigError, match="format: got 'tml'; expected one of"):
        read_config("", "tml")


def test_an_escaped_variable_stands_for_itself_in_every_form(monkeypatch):
    monkeypatch.setenv("FOLDER", "there")
    native = "[[node]]\nname = 'a'\npath = '\\${FOLDER}'\n"
    embedded = "[graph]\ngraphconf = '''digraph { a [path=\"\\${FOLDER}\"] }'''\n"
    for text in (native, embedded, 'digraph { a [path="\\${FOLDER}"] }'):
        assert read_config(text).nodes[0].attributes == {"path": "${FOLDER}"}


def test_variables_stand_in_names_ports_and_graph_attributes_of_dot(monkeypatch):
    monkeypatch.setenv("UNIT", 'a "b"')
    monkeypatch.setenv("SIZE", "7")
    config = read_config(
        'digraph { queue_size=${SIZE} n${SIZE} [size=${SIZE}] n${SIZE}:"${UNIT}" -> x }'
    )
    assert config.graph["queue_size"] == 7
    assert config.nodes[0].name == "n7"
    assert config.nodes[0].attributes == {"size": "7"}
    assert config.edges[0].source == PortRef("n7", 'a "b"')


def test_a_comment_may_hold_anything():
    text = "[graph]\ngraphconf = '''digraph { a // ${NOT_THERE}\n }'''\n"
    assert read_config(text).nodes[0].name == "a"


def test_each_absent_variable_is_named_once_with_its_line_beside_other_mistakes(monkeypatch):
    monkeypatch.delenv("NOT_THERE", raising=False)
    monkeypatch.delenv("NOR_THERE", raising=False)
    text = "[flwo]\n[flow]\nname = '${NOT_THERE}'\n[graph]\ngraphconf = '''digraph {\n"
    with pytest.raises(ConfigError) as caught:
        read_config(text + 'a\nb [path="${NOR_THERE}", x="${NOR_THERE}${NOT_THERE}"] }\'\'\'\n')
    lines = [str(finding) for finding in caught.value.findings]
    assert len(lines) == 3
    assert "<text>:1: unknown section 'flwo'" in lines[0]
    assert "<text>:3: ${NOT_THERE}: the environment has no such variable" in lines[1]
    assert "<text>:7: node 'b': path: ${NOR_THERE}: the environment has no" in lines[2]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a", PortRef("a")),
        ("a:out", PortRef("a", "out")),
        (" a : out ", PortRef("a", "out")),
        ("a:x:0", PortRef("a", "x:0")),
        ('a:"x:0"', PortRef("a", "x:0")),
        ('"a:b":" x "', PortRef("a:b", " x ")),
        (r'"a\"b"', PortRef('a"b')),
        ('a"b:c', PortRef('a"b', "c")),
    ],
)
def test_ends_of_native_edges_may_be_quoted(written, expected):
    config = read_config({"node": [{"name": "b"}], "edge": [{"from": written, "to": "b"}]})
    assert config.edges[0].source == expected


def test_a_mistake_in_a_table_of_a_node_is_named_with_the_line_of_that_table():
    text = """[[node]]
name = "a"
flowunit = "resize"

[node.config]
image_width = 4

[[node]]
name = "b"
flowunit = "resize"

[node.config]
flowunit = "crop"
"""
    assert found(text) == ["<text>:12: node 'b': 'flowunit' is given twice; give one"]


def test_a_wrong_way_to_fuse_is_told_with_the_right_ones_wherever_it_stands():
    expected = "got 'atuo'; expected one of 'auto', 'off'; did you mean 'auto'?"
    assert found("[graph]\nfuse = 'atuo'\n") == [f"<text>:2: [graph]: key 'fuse': {expected}"]
    (line,) = found("digraph { fuse=atuo a }")
    assert line.endswith(f"graph attribute 'fuse': {expected}")


def test_a_dot_graph_may_say_that_its_neighbours_are_not_fused():
    assert read_config("digraph { fuse=off a }").graph["fuse"] == "off"
    assert read_config("digraph { graph [fuse=off] a }").graph["fuse"] == "off"
    assert read_config("digraph { a }").graph["fuse"] == "auto"


@pytest.mark.parametrize(
    "value",
    [
        '"""a\\""""',
        '"""\n[x]\na = 1\n\\""" [ \n"""',
        "'''\n[x] \"\n'''",
        '"a [ \\" # { "  # [ {',
        "'a [ # { \"'",
        '["""\n]""", \'[\',\n"]"]',
        "{ a = \"}\", b = '{' }",
    ],
)
def test_what_stands_in_a_text_moves_no_line_behind_it(value):
    text = f'[args]\na = {value}\n[[node]]\nname = "n"\n[[nodes]]\n'
    with pytest.raises(ConfigError) as caught:
        read_config(text)
    assert f":{text.count(chr(10), 0, text.index('[[nodes]]')) + 1}" in str(caught.value)


@pytest.mark.parametrize(
    ("begin", "end", "line"),
    [
        ("'''", "'''", 2),
        ('"""', '"""', 2),
        ("'", "'", 2),
        ("'''\n", "'''", 3),
        ('"""\n', '"""', 3),
        ("'''\n", "\n'''", 3),
    ],
)
def test_a_node_is_at_its_line_of_the_file(tmp_path, begin, end, line):
    path = tmp_path / "graph.toml"
    path.write_text(f"[graph]\ngraphconf = {begin}digraph g {{ a }}{end}\n")
    (node,) = read_config(path).nodes
    assert node.location.line == line
