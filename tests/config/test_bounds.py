"""Tests of texts from outside: a text that would hang or break a parser is an error with a line."""

import pytest

from modelflow.config.document import MOST_BYTES
from modelflow.config.read import read_config
from modelflow.errors import ConfigError, GraphError
from modelflow.graph.read import read_graph

LAUGHS = "a: &a0 [x]\n" + "".join(
    f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
)
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 30)
)
LEVELS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 1000))
BIG = " ".join(f"a{n}" for n in range(3000))
BIG_TOO = BIG.replace("a", "b")


def refused(text, format):  # noqa: A002
    with pytest.raises(ConfigError) as caught:
        read_config(text, format)
    (finding,) = caught.value.findings
    return finding.location.line, finding.message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (LAUGHS, 6, "stands for more than 100000 values"),
        (MERGED, 6, "stands for more than 100000 values"),
        (LEVELS, 50, "nested more than 50 deep"),
        ("a: 1\nb: &b [1, *b]\n", 2, r"*b is used inside its own value"),
        ("a: 1\nb: &b {c: *b}\n", 2, r"*b is used inside its own value"),
        ("a: 1\nb: " + "[" * 2000, 2, "nested more than 50 deep"),
        ("flow:\n  &rom: x\n", 2, "got a key without a name"),
        ("flow:\n  ? [a]\n  : x\n", 2, "got a key without a name"),
        ("flow:\n  on: x\n", 2, "got the key on, which is no text (bool); quote it"),
        ("flow:\n  name: " + "1" * 5000, 2, "got a number of 5000 characters"),
        ("flow:\n  name: 1" + ":1" * 5000, 2, "got a number of 10001 characters"),
        ("flow:\n  name: 0x" + "f" * 90, 2, "a number of more than 64 bits"),
        ("flow:\n  name: 2024-99-99\n", None, "YAML: month must be in 1..12"),
    ],
    ids=lambda value: "text" if len(str(value)) > 40 else None,
)
def test_yaml_that_is_made_to_hurt_is_refused(text, line, message):
    found = refused(text, "yaml")
    assert found[0] == line
    assert message in found[1]


def test_yaml_may_use_aliases_for_what_it_says_twice():
    text = """
node:
  - &size {name: a, flowunit: resize, width: 4, height: 4}
  - {<<: *size, name: b}
"""
    first, second = read_config(text, "yaml").nodes
    assert (first.name, second.name) == ("a", "b")
    assert first.attributes == second.attributes


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\n" + "a." * 20_000 + "a = 1", 2, "a key of more than 50 parts"),
        ("x = 1\n[" + "a . " * 20_000 + "a]", 2, "a key of more than 50 parts"),
        ('x = 1\ny = {"a".' + "a." * 20_000 + "a = 1}", 2, "a key of more than 50 parts"),
        ("x = 1\ny = " + "[" * 900 + "]" * 900, 2, "nested more than 50 deep"),
        ("x = 1\ny = " + "[" * 60 + "]" * 60, 2, "nested more than 50 deep"),
        ("x = 1\ny = " + "1" * 5000, 2, "Exceeds the limit"),
        ("[flow]\nname = 0x" + "f" * 5000, 2, "a number of more than 64 bits"),
    ],
    ids=lambda value: "text" if len(str(value)) > 40 else None,
)
def test_toml_that_is_made_to_hurt_is_refused(text, line, message):
    found = refused(text, "toml")
    assert found[0] == line
    assert message in found[1]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"x":\n' + "[" * 100_000 + "]" * 100_000 + "}", 2, "nested more than 50 deep"),
        ('{"x":\n' + "[" * 60 + "]" * 60 + "}", 2, "nested more than 50 deep"),
        ('{"x":\n' + "1" * 5000 + "}", 2, "got a number of 5000 characters"),
        ('{"x":\n\t' + "1" * 5000 + "}", 2, "got a number of 5000 characters"),
        ('{"x":\n' + "1" * 99 + "}", 1, "a number of more than 64 bits"),
    ],
    ids=lambda value: "text" if len(str(value)) > 40 else None,
)
def test_json_that_is_made_to_hurt_is_refused(text, line, message):
    found = refused(text, "json")
    assert found[0] == line
    assert message in found[1]


@pytest.mark.parametrize(
    "text",
    [
        f"digraph {{\n {{ {BIG} }} -> {{ {BIG_TOO} }}\n}}",
        f"digraph {{\n node [ {BIG} ] {BIG_TOO} }}",
        f"digraph {{\n node [ {BIG} ] {'{}' * 3000} }}",
        f"digraph {{\n edge [ {BIG} ] {'a -> b;' * 3000} }}",
        f"digraph {{\n {{ {BIG} }} [ {BIG_TOO} ] }}",
    ],
    ids=["edges", "nodes", "subgraphs", "edge attributes", "node attributes"],
)
def test_dot_that_multiplies_itself_is_refused(text):
    line, message = refused(text, "dot")
    assert line >= 2
    assert "more than 200000 edges and attributes" in message


def test_a_mapping_is_held_to_the_same():
    endless: dict[str, object] = {}
    endless["x"] = endless
    with pytest.raises(ConfigError, match="nested more than 50 deep"):
        read_config(endless)
    with pytest.raises(ConfigError, match=r"got the key None \(NoneType\)"):
        read_config({"flow": {None: 1}})


@pytest.mark.parametrize("text", ["input -> output", "x" * 5000, "a\0b", ""])
def test_a_text_whose_format_is_given_is_a_text(text):
    with pytest.raises(ConfigError, match=r"<text>:1: DOT: "):
        read_graph(text, format="dot")


def test_a_path_whose_format_is_given_stays_a_path(tmp_path):
    path = tmp_path / "graph"
    path.write_text("digraph { a }")
    assert read_config(str(path), "dot").path == path
    with pytest.raises(ConfigError, match="there is no such file"):
        read_config(str(tmp_path / "none.dot"), "dot")


@pytest.mark.parametrize("name", ["x" * 5000, "/dev/zero"])
def test_a_path_that_leads_to_no_graph_file_is_refused(name, tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read: File name too long|has more than"):
        read_config(f"{name}" if name.startswith("/") else f"{name}.toml", "toml")


def test_a_file_that_is_too_long_or_not_utf_8_is_refused(tmp_path):
    path = tmp_path / "graph.toml"
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(ConfigError, match="has more than 2097152 bytes"):
        read_config(path)
    path.write_bytes(b"# a\n# \xff")
    with pytest.raises(ConfigError, match=r"graph\.toml:2: cannot be read: .*; save it as UTF-8"):
        read_config(path)


@pytest.mark.parametrize("text", ["a = " + "1" * 5000, "a = " + "[" * 900 + "]" * 900])
def test_a_unit_file_is_held_to_the_same(text, tmp_path):
    from modelflow.testing import read_unit

    (tmp_path / "u.toml").write_text(f"[base]\nname = 'u'\n{text}\n")
    with pytest.raises(ConfigError, match=r"u\.toml"):
        read_unit(tmp_path / "u.toml")


def test_a_graph_of_many_mistakes_is_refused_in_the_time_of_few():
    nodes = [
        {"name": f"node{n}", "flowunit": "resize", "width": 1, "height": 1} for n in range(5000)
    ]
    edges = [{"from": f"nodf{n}", "to": f"nodg{n}"} for n in range(5000)]
    with pytest.raises(GraphError) as caught:
        read_graph({"node": nodes, "edge": edges})
    texts = [finding.message for finding in caught.value.findings]
    assert len(texts) < 1000
    assert "were not checked" in texts[-1] or "more" in texts[-1]
    wrong = [text for text in texts if "nodf" in text]
    assert "did you mean 'node0'" in wrong[0]
