"""Writes a kind's model with the engine's own tools, and the graph for the model."""

import numpy as np
import onnx
import openvino
import torch

from tests.models.plug_in import named
from tests.serve.half_plus_two import tensorflow

__all__ = ["write"]

VIRTUAL_TYPES = {
    "torch script": "torch",
    "torch export": "torch",
    "plug-in": "kind",
    "python class": "kind_class:KindModel",
}


def write(folder, engine, kind, name):
    """Writes a model into a folder, with ``unit/net.toml`` and ``graph.toml``; returns its path."""
    path = WRITERS[engine](folder, kind, name)
    (folder / "unit").mkdir(exist_ok=True)
    (folder / "unit" / "net.toml").write_text(unit_text(path, engine, kind))
    (folder / "graph.toml").write_text(graph_text(folder, kind))
    return path


def unit_text(path, engine, kind):
    lines = [
        "[base]",
        'name = "net"',
        'device = "cpu"',
        'version = "1.0.0"',
        'description = "Runs a kind of model."',
        'type = "inference"',
        f'virtual_type = "{VIRTUAL_TYPES.get(engine, engine)}"',
        f'entry = "{path}"',
        *(["[config]", f'signature = "{kind.signature}"'] if kind.signature else []),
    ]
    for what, ports in (("input", kind.inputs), ("output", kind.outputs)):
        for place, (name, port) in enumerate(ports.items(), 1):
            dtype = {"object": "string"}.get(port.dtype, port.dtype)
            lines += [f"[{what}.{what}{place}]", f'name = "{name}"', f'type = "{dtype}"']
    return "\n".join(lines)


def graph_text(folder, kind):
    nodes = [f"in_{name} [type=input]" for name in kind.inputs]
    nodes += [f"out_{name} [type=output]" for name in kind.outputs]
    edges = [f"in_{name} -> net:{name}" for name in kind.inputs]
    edges += [f"net:{name} -> out_{name}" for name in kind.outputs]
    size = "batch_size=4, batch_timeout_ms=20, threads=2"
    text = "\n".join([*nodes, f"net [flowunit=net, {size}]", *edges])
    head = f'[driver]\ndir = ["{folder / "unit"}"]\n[graph]\nformat = "graphviz"\n'
    return f"{head}graphconf = '''digraph g {{\n{text}\n}}'''\n"


def write_onnx(folder, kind, _name):
    helper, path = onnx.helper, folder / "model.onnx"

    def values(ports):
        for name, port in ports.items():
            dtype = helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype))
            # The batch axis is called n in all; each free axis has its own name.
            axes = [f"{name}{place}" if n is None else n for place, n in enumerate(port.shape)]
            if port.is_batched and axes[0] == f"{name}0":
                axes[0] = "n"
            yield helper.make_tensor_value_info(name, dtype, axes)

    nodes = [helper.make_node(op, a, b, **more) for op, a, b, more in kind.onnx]
    constants = [
        onnx.numpy_helper.from_array(np.asarray(value), name)
        for name, value in kind.constants.items()
    ]
    graph = helper.make_graph(
        nodes, "net", [*values(kind.inputs)], [*values(kind.outputs)], constants
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def write_openvino(folder, kind, name):
    path = folder / "openvino" / "model.xml"
    model = openvino.Core().read_model(str(write_onnx(folder, kind, name)))
    openvino.save_model(model, path, compress_to_fp16=False)
    return path


def write_saved_model(folder, kind, _name):
    tf, path = tensorflow(), folder / "saved_model"
    module = tf.Module()
    body = kind.tensorflow(tf, module)
    specs = [
        tf.TensorSpec(port.shape, tf.string if port.dtype == "object" else port.dtype, name)
        for name, port in kind.inputs.items()
    ]

    def signature(function):
        run = tf.function(function, autograph=False)
        return run.get_concrete_function(*specs)

    found = {"serving_default": signature(lambda *x: named(kind, body(*x)))}
    if kind.signature:
        found[kind.signature] = found.pop("serving_default")
        found["serving_default"] = signature(lambda *x: {"twice": x[0] + x[0]})
    tf.saved_model.save(module, str(path), found)
    return path


def write_script(folder, kind, _name):
    path = folder / "model.pt"
    torch.jit.save(torch.jit.script(kind.torch()), str(path))
    return path


def write_program(folder, kind, _name):
    path = folder / "model.pt2"
    example, axes = [], []
    batch = torch.export.Dim("n", min=1, max=kind.most or 64)
    for name, port in kind.inputs.items():
        lengths = [2 + place if n is None else n for place, n in enumerate(port.shape)]
        tensor = torch.from_numpy(np.zeros(lengths, port.dtype))
        example.append(tensor.bfloat16() if kind.is_narrow else tensor)
        axes.append(
            {
                place: torch.export.Dim(f"{name}{place}")
                for place, n in enumerate(port.shape)
                if n is None and place
            }
        )
        if port.is_batched and port.shape[0] is None:
            axes[-1][0] = batch
    program = torch.export.export(kind.torch(), tuple(example), dynamic_shapes=tuple(axes))
    torch.export.save(program, str(path))
    return path


def write_name(folder, _kind, name):
    path = folder / "model.kind"
    path.write_text(name)
    return path


CLASS = """
import modelflow
from tests.models.kinds import KINDS
from tests.models.plug_in import function_of

KIND = KINDS[{name!r}]


def ports_of(declared):
    for name, port in declared.items():
        dtype = "string" if port.dtype == "object" else port.dtype
        axes = port.shape and "".join("?," if n is None else f"{{n}}," for n in port.shape[1:])
        yield modelflow.Port(name, dtype=dtype, shape=axes if axes is None else f"({{axes}})")


class KindModel(modelflow.PythonModel):
    inputs, outputs = tuple(ports_of(KIND.inputs)), tuple(ports_of(KIND.outputs))

    def load(self, path, device):
        self.function = function_of(KIND)

    def predict(self, batch):
        return self.function(batch if len(KIND.inputs) > 1 else {{self.inputs[0].name: batch}})
"""


def write_class(folder, kind, name):
    (folder / "unit").mkdir()
    (folder / "unit" / "kind_class.py").write_text(CLASS.format(name=name))
    return write_name(folder, kind, name)


WRITERS = {
    "onnx": write_onnx,
    "openvino": write_openvino,
    "tensorflow": write_saved_model,
    "torch script": write_script,
    "torch export": write_program,
    "plug-in": write_name,
    "python class": write_class,
}
