"""Tests of the description of a server, and of endpoints that the description omits."""

import json

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

import modelflow
from modelflow.graph.graph_port import GraphPort, Signature
from modelflow.serve.http.openapi import openapi_document
from modelflow.serve.http.schemas import item_schema, items_of
from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.repository.models import Models
from modelflow.serve.repository.source import ModelSettings, read_policy
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.tensor import TensorSpec
from tests.serve.clients import ask, send, served
from tests.serve.half_plus_two import write_saved_model
from tests.serve.models_on_disk import write_version

TWO = """
[graph]
format = "graphviz"
graphconf = '''digraph two {
    pixels [type=input]
    texts [type=input]
    pair [flowunit=pair]
    sum [type=output]
    any [type=output]
    pixels -> pair:pixels
    texts -> pair:texts
    pair:sum -> sum
    pair:any -> any
}'''
[serve.input.pixels]
datatype = "UINT8"
shape = [2, 3]
[serve.input.texts]
datatype = "BYTES"
shape = []
[serve.output.sum]
datatype = "INT64"
shape = []
"""


class Pair(modelflow.FlowUnit):
    """A unit with two inputs and two outputs, of which the second output has no type."""

    SPEC = modelflow.FlowUnitSpec(
        "pair",
        {"cpu": lambda: Pair()},
        inputs=(modelflow.Port("pixels"), modelflow.Port("texts")),
        outputs=(modelflow.Port("sum"), modelflow.Port("any")),
    )

    def process(self, ctx):
        for row in ctx.inputs["pixels"]:
            ctx.outputs["sum"].append(np.int64(row.data.sum()))
            ctx.outputs["any"].append({"a": 1})


@pytest.fixture(scope="module", params=["one", "two"])
def server(request):
    if request.param == "one":
        with served() as running:
            yield running
    else:
        flow = modelflow.Flow(TWO, units=[Pair])
        with Server({"two words": flow}, ServeOptions(http_port=0)) as running:
            yield running


@pytest.fixture(scope="module")
def document(server):
    status, found, _ = ask(server, "/openapi.json")
    assert status == 200
    return found


def test_the_description_is_valid(document):
    OpenAPIV31SpecValidator(document).validate()
    assert document["openapi"] == "3.1.0"


def posts(document):
    for path, methods in document["paths"].items():
        if "requestBody" in methods.get("post", {}):
            yield path, methods["post"]


def schema(part):
    return Draft202012Validator(part["content"]["application/json"]["schema"])


def test_each_example_is_answered_as_it_is_described(server, document):
    paths = []
    for path, operation in posts(document):
        example = operation["requestBody"]["content"]["application/json"]["example"]
        schema(operation["requestBody"]).validate(example)
        status, _, found = send(server, "POST", path, json.dumps(example))
        assert status == 200, (path, found)
        paths.append(path.rpartition("/")[2].rpartition(":")[2])
        if paths[-1] == "generate_stream":
            (kind,) = operation["responses"]["200"]["content"]
            assert (kind, found.startswith(b"data: ")) == ("text/event-stream", True)
        else:
            schema(operation["responses"]["200"]).validate(json.loads(found))
    assert paths == ["predict", "infer", "generate", "generate_stream"]


def test_everything_that_is_described_is_there(server, document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" not in operation:
                assert send(server, method.upper(), path)[0] == 200, path


# Pages for people, the description itself, a second name, and the endpoints that these two servers
# lack. The servers lack examples, an open repository and several versions.
UNDESCRIBED = (
    *("/openapi.json", "/docs", "/dashboard", "/monitoring"),
    *(":classify", ":regress", "/load", "/unload", "/stats/(?P<name>[^/]+)/versions/"),
    "sharedmemory",  # without the option
)


def test_every_endpoint_is_described(server, document):
    endpoints = server._frontend._router._endpoints
    left = [
        one.pattern.pattern
        for one in endpoints
        if not any(map(one.pattern.fullmatch, document["paths"]))
        and not any(part in one.pattern.pattern for part in UNDESCRIBED)
    ]
    assert left == []


def test_shared_memory_is_described_where_it_is_allowed():
    with served(is_memory_shared=True) as server:
        found = ask(server, "/openapi.json")[1]
    OpenAPIV31SpecValidator(found).validate()
    whole = "/v2/systemsharedmemory"
    region = f"{whole}/region/{{name}}"
    assert {
        f"{whole}/status",
        f"{whole}/unregister",
        f"{region}/status",
        f"{region}/register",
        f"{region}/unregister",
    } <= found["paths"].keys()


def test_what_is_not_of_the_types_is_not_described(document):
    for _, operation in posts(document):
        validator = schema(operation["requestBody"])
        for wrong in ({}, {"instances": []}, {"instances": 1}, {"inputs": [{"name": "x"}]}, []):
            assert not validator.is_valid(wrong)


def test_each_version_stands_under_its_own_path_and_the_newest_under_the_plain_one(tmp_path):
    folder = tmp_path / "times"
    for number in (1, 2):
        write_version(folder, number)
    settings = ModelSettings(policy=read_policy("all"))
    with Server(
        ServeConfig({"times": folder}, settings=settings), ServeOptions(http_port=0)
    ) as server:
        found = ask(server, "/openapi.json")[1]
        OpenAPIV31SpecValidator(found).validate()
        answers = [
            ask(server, path, {"instances": [[1.0, 1.0]]})[1]["predictions"][0][0]
            for path in found["paths"]
            if path.endswith(":predict")
        ]
        assert answers == [2.0, 1.0]
        assert "/v1/models/times/versions/1:predict" in found["paths"]


def port(name, dtype, shape, *, is_batched=True):
    tensor = TensorSpec(name, np.dtype(dtype), shape)
    return GraphPort(name, "", tensor, True, is_batched)


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("bool", True, 1),
        ("uint8", 255, 256),
        ("int8", -128, -129),
        ("int64", 2**63 - 1, 0.5),
        ("float32", 1.5, "1.5"),
        ("object", "text", 1),
        ("object", {"b64": "AA=="}, {"b": "AA=="}),
    ],
)
def test_an_element_is_described_by_its_type(dtype, good, bad):
    validator = Draft202012Validator(item_schema(port("x", dtype, ())))
    assert validator.is_valid(good)
    assert not validator.is_valid(bad)


def test_a_shape_is_described_with_the_batch_in_front():
    one = port("x", "float32", (None, 2))
    item, rows = (Draft202012Validator(make(one)) for make in (item_schema, items_of))
    assert item.is_valid([[1, 2], [3, 4]])
    assert not item.is_valid([[1, 2, 3]])
    assert rows.is_valid([[[1, 2]], []])
    assert not rows.is_valid([[1, 2]])
    whole = Draft202012Validator(items_of(port("x", "float32", (2,), is_batched=False)))
    assert whole.is_valid([1, 2])


def test_a_form_with_files_is_described(document):
    for path, operation in posts(document):
        forms = operation["requestBody"]["content"].keys() - {"application/json"}
        assert ("multipart/form-data" in forms) == ("generate" in path)


def test_every_signature_of_a_saved_model_is_described(tmp_path):
    write_saved_model(tmp_path / "m" / "1")
    requests = {
        "predict": {"instances": [[1.0]]},
        "classify": {"signature_name": "classify", "examples": [{"x": 1.0}], "context": {}},
        "regress": {"signature_name": "regress", "examples": [{"x": [1.0]}]},
    }
    with Server({"m": tmp_path / "m"}, ServeOptions(http_port=0)) as server:
        found = ask(server, "/openapi.json")[1]
        OpenAPIV31SpecValidator(found).validate()
        for verb, request in requests.items():
            operation = found["paths"][f"/v1/models/m:{verb}"]["post"]
            schema(operation["requestBody"]).validate(request)
            status, answer, _ = ask(server, f"/v1/models/m:{verb}", request)
            assert status == 200, answer
            schema(operation["responses"]["200"]).validate(answer)
    predict, classify = (
        schema(found["paths"][f"/v1/models/m:{verb}"]["post"]["requestBody"])
        for verb in ("predict", "classify")
    )
    texts = {"signature_name": "classify", "instances": ["an example"]}
    assert predict.is_valid(texts)  # a separate signature, with its own inputs
    assert not predict.is_valid({**texts, "signature_name": "serving_default"})
    assert not classify.is_valid({"examples": [{"x": 1.0}]})  # the default signature is for predict
    assert not classify.is_valid({"examples": [], "signature_name": "classify"})


def test_keys_and_the_repository_stand_in_the_description():
    found = openapi_document(Models(), has_keys=True, is_repository_open=True)
    OpenAPIV31SpecValidator(found).validate()
    assert found["security"] == [{"bearer": []}, {"key": []}]
    assert found["paths"]["/livez"]["get"]["security"] == []
    assert "/v2/repository/models/{name}/load" in found["paths"]
    found = openapi_document(Models(), has_keys=False, is_repository_open=False)
    OpenAPIV31SpecValidator(found).validate()
    assert "security" not in found
    assert "/v2/repository/models/{name}/load" not in found["paths"]


def test_a_long_example_is_left_out(server):
    model = next(iter(server._stock.models))
    kept, long = model.signature, port("x", "float32", (224, 224, 3))
    try:
        model.signature = Signature((long,), kept.outputs)
        found = openapi_document(server._stock.models, has_keys=False, is_repository_open=False)
    finally:
        model.signature = kept
    assert len(json.dumps(found)) < 20_000
    OpenAPIV31SpecValidator(found).validate()
