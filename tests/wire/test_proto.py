import pytest

from modelflow.wire.problem import Problem
from modelflow.wire.proto import TF_SERVING, Protocol

ONE = """
syntax = "proto3";
package one;
enum Color { RED = 0; GREEN = 5; }
message Inner { Color color = 1; }
"""
TWO = """
// A file that imports another.
syntax = "proto3";
package two;
import "google/protobuf/any.proto";
import "test/one.proto";
message Outer {
  message Deep { bytes data = 1; }
  enum Kind { A = 0; B = 1; }
  one.Inner inner = 1; repeated Deep deep = 2; map<string, one.Inner> named = 3;
  oneof choice { int64 number = 4; string text = 5; }  // one of them
  optional int32 maybe = 6; Kind kind = 7; google.protobuf.Any any = 8; repeated double values = 9;
}
service Calls { rpc Ask(Outer) returns (stream one.Inner); rpc Tell(stream Outer) returns (Outer); }
"""


def protocol_of(folder, **texts):
    (folder / "test").mkdir(exist_ok=True)
    names = [f"test/{name}.proto" for name in texts]
    for name, text in zip(names, texts.values(), strict=True):
        (folder / name).write_text(text)
    return Protocol(*names, root=folder)


@pytest.fixture
def protocol(tmp_path):
    return protocol_of(tmp_path, one=ONE, two=TWO)


def test_messages_are_made_of_their_text(protocol):
    message = protocol["two.Outer"](
        inner={"color": "GREEN"}, deep=[{"data": b"x"}], number=3, maybe=0, kind=1, values=[1, 2]
    )
    message.named["a"].color = 5
    message.text = "t"
    message.any.Pack(protocol["one.Inner"](color=5))
    again = protocol.parse("two.Outer", message.SerializeToString())
    assert again == message
    assert again.WhichOneof("choice") == "text"
    assert again.HasField("maybe")
    assert not protocol["two.Outer"]().HasField("maybe")
    assert protocol.enum("one.Color") == {"RED": 0, "GREEN": 5}


def test_a_service_knows_its_methods(protocol):
    methods = protocol.methods("two.Calls")
    assert [
        (
            name,
            one.input_type.full_name,
            one.output_type.full_name,
            one.client_streaming,
            one.server_streaming,
        )
        for name, one in methods.items()
    ] == [
        ("Ask", "two.Outer", "one.Inner", False, True),
        ("Tell", "two.Outer", "two.Outer", True, False),
    ]


@pytest.mark.parametrize("symbol", ["two.Calls", "two.Calls.Ask"])
def test_a_file_is_found_by_what_it_describes(protocol, symbol):
    file = protocol.file_with(symbol)
    assert file.name == "test/two.proto"
    assert protocol.find_file(file.name).name == file.name


def test_what_no_file_describes_has_none(protocol):
    assert protocol.file_with("two.Nothing") is None
    assert protocol.file_with("") is None
    assert protocol.find_file("two.proto") is None


def test_two_protocols_with_files_of_one_name_do_not_meet(tmp_path):
    first = protocol_of(tmp_path, one=ONE, two=TWO)
    assert first["two.Outer"].DESCRIPTOR.fields_by_name["number"].number == 4
    second = protocol_of(tmp_path, one=ONE, two=TWO.replace("number = 4", "number = 40"))
    assert second["two.Outer"].DESCRIPTOR.fields_by_name["number"].number == 40


@pytest.mark.parametrize(
    "text",
    [
        "option a = 1;",
        "package a; thing B { }",
        "package a; message B [ ]",
        "package a; message B { int32 x 1; }",
    ],
)
def test_a_text_of_another_form_is_an_error(tmp_path, text):
    with pytest.raises(ValueError, match="expected"):
        _ = protocol_of(tmp_path, odd=text).pool


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05a", b"\x0f"])
def test_bytes_that_are_no_message_are_a_problem(data):
    with pytest.raises(Problem, match=r"bytes: no tensorflow\.serving\.ModelSpec"):
        TF_SERVING.parse("tensorflow.serving.ModelSpec", data)


MODELS_CONFIG = """
# Two models.
model_config_list {
  config {
    name: "a" base_path: "/models/a" model_platform: "tensorflow"
    model_version_policy { specific { versions: 1 versions: 2 } }
    version_labels { key: "stable" value: 1 }
  }
  config: { name: 'b', base_path: "/models/b" model_version_policy { all {} } }
}
"""


def test_a_models_config_is_read_as_it_is():
    config = TF_SERVING.parse_text(
        "tensorflow.serving.ModelServerConfig", MODELS_CONFIG, "models.config"
    )
    first, second = config.model_config_list.config
    assert (first.name, first.base_path, dict(first.version_labels)) == (
        "a",
        "/models/a",
        {"stable": 1},
    )
    assert list(first.model_version_policy.specific.versions) == [1, 2]
    assert second.model_version_policy.WhichOneof("policy_choice") == "all"


def test_batching_parameters_are_read_as_they_are():
    text = "max_batch_size { value: 128 } batch_timeout_micros { value: 0 } allowed_batch_sizes: 1 allowed_batch_sizes: 128"
    found = TF_SERVING.parse_text("tensorflow.serving.BatchingParameters", text, "batching.txt")
    assert found.max_batch_size.value == 128
    assert found.HasField("batch_timeout_micros")
    assert not found.HasField("num_batch_threads")
    assert list(found.allowed_batch_sizes) == [1, 128]


def test_a_mistake_in_a_text_is_named_with_its_line_and_the_nearest_field():
    with pytest.raises(
        Problem, match=r"models.config:2:1 : .*model_config_lst.*did you mean 'model_config_list'"
    ):
        TF_SERVING.parse_text(
            "tensorflow.serving.ModelServerConfig", "\nmodel_config_lst { }", "models.config"
        )
