"""TensorFlow beyond the CPU's plain session: XLA, and tensors shared with PyTorch by DLPack."""

import numpy as np
import pytest

from modelflow.device import Device
from modelflow.engine import LoadRequest, engine_for, find_engine, read_model_file
from modelflow.engine.inference import inference_spec
from modelflow.engine.tensorflow import settings
from modelflow.errors import EngineError
from modelflow.testing import run_unit
from tests import torch_as_cuda
from tests.engine.conftest import expected

ITEMS = np.arange(20, dtype=np.float32).reshape(5, 4)
FORMS = ("frozen_graph", "saved_model", "version_1_model", "keras_model", "h5_model")


def load(path, device=None, **options):
    engine = find_engine(engine_for(path))
    return engine.load(LoadRequest(path, device or Device("cpu"), engine.options(**options)))


def scores(ports):
    return next(port.name for port in ports if port.name != "again")


def operations(tf, model):
    """Returns the operations that the session has run, after all its rewriting."""
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    graph = model._session.graph
    feeds = {op.outputs[0]: ITEMS for op in graph.get_operations() if op.type == "Placeholder"}
    fetch = graph.get_operations()[-1].outputs[0]
    model._session.run(fetch, feeds, options=options, run_metadata=metadata)
    return {node.op for part in metadata.partition_graphs for node in part.node}


def test_xla_compiles_the_graph(tf, frozen_graph):
    plain, compiled = load(frozen_graph), load(frozen_graph, xla=True)
    port = compiled.outputs[0].name
    found = compiled.run({compiled.inputs[0].name: ITEMS})
    np.testing.assert_allclose(found[port], expected(ITEMS), rtol=1e-5)
    assert any(name.startswith("_Xla") for name in operations(tf, compiled))
    assert not any(name.startswith("_Xla") for name in operations(tf, plain))
    for model in (plain, compiled):
        model.close()


def test_xla_is_refused_for_a_model_that_cannot_be_frozen(text_model):
    with pytest.raises(EngineError, match=r"xla=true: the model holds tables.*leave xla out"):
        load(text_model, xla=True)


@pytest.fixture
def cuda(monkeypatch):
    torch_as_cuda.install(monkeypatch)
    if not torch_as_cuda.has_gpu():
        monkeypatch.setattr(settings, "device_name", lambda _: "/device:CPU:0")
    return Device("cuda", 0)


@pytest.mark.parametrize("form", FORMS)
def test_a_model_on_a_gpu_takes_and_gives_tensors_without_a_copy(form, request, cuda, torch):
    model = load(request.getfixturevalue(form), cuda)
    assert model.memory == cuda
    whole = torch.zeros(6, 4)
    whole[1:] = torch.from_numpy(ITEMS)  # these rows are not aligned as TensorFlow requires
    for given in (whole[1:], whole[1:].clone()):
        results = model.run({spec.name: given for spec in model.inputs})
        assert all(isinstance(value, torch.Tensor) for value in results.values())
        np.testing.assert_allclose(results[scores(model.outputs)], expected(ITEMS), rtol=1e-5)
    model.close()
    with pytest.raises(EngineError, match="closed"):
        model.run({spec.name: given for spec in model.inputs})


def test_a_batch_on_a_gpu_that_fails_says_why(two_ports, cuda, torch):
    model = load(two_ports, cuda)
    given = {"a": torch.ones(2, 3), "b": torch.ones(2, 4)}
    with pytest.raises(EngineError, match=r"InvalidArgumentError.*\[2,3\] vs"):
        model.run(given)
    model.close()


@pytest.mark.parametrize("form", FORMS)
def test_the_unit_on_a_gpu(form, request, cuda):
    file = read_model_file(request.getfixturevalue(form))
    spec = inference_spec(file, "net")
    (port,) = spec.inputs
    items = [*ITEMS, np.ones(7, np.float32)]
    column = run_unit(spec, {port.name: items}, device="cuda")[scores(spec.outputs)]
    for item, buffer in zip(ITEMS, column, strict=False):
        np.testing.assert_allclose(buffer.data, expected(item), rtol=1e-5)
    assert "expected float32 (4,)" in column[-1].get_error_msg()


def test_text_stays_on_the_host(text_model, cuda):
    model = load(text_model, cuda)
    assert model.memory == Device("cpu")
    model.close()
