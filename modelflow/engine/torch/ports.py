"""The ports of a TorchScript module or an exported program."""

import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from modelflow.device.torch_memory import load_torch, numpy_dtypes
from modelflow.engine.engine import LoadRequest, check_ports, model_error, require_fed
from modelflow.log import LEVELS
from modelflow.wire.tensor import TensorSpec

_log = logging.getLogger(__name__)

_FLOAT = np.dtype(np.float32)


@dataclass(frozen=True)
class Ports:
    """The ports of a model in the model's order.

    Attributes:
        inputs: The inputs, in the order of ``forward``'s arguments.
        outputs: The outputs, in the order of the unit.
        places: For each output its index or key in the result. Empty if the result is the output.
        batch_range: The smallest and the largest batch that the model takes. None for no largest.
        bfloat16: The inputs to convert to bfloat16, a type that NumPy lacks.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    places: tuple[Any, ...]
    batch_range: tuple[int, int | None] = (1, None)
    bfloat16: Set[str] = frozenset()


def script_ports(request: LoadRequest, module: Any) -> Ports:
    """Returns the ports of a TorchScript module, which states names but neither shapes nor types.

    The unit declares the types, with float32 as default.

    If no port has the name of an argument of ``forward``, the ports feed the arguments in order.
    Their numbers must be equal. A line in the log reports it.

    Raises:
        EngineError: A port is no argument, no port feeds an argument, or the result is no tensor,
            tuple or dict of tensors.
    """
    arguments = module.forward.schema.arguments[1:]  # without the module itself
    wanted = [a for a in arguments if not a.has_default_value() or a.name in request.inputs]
    known = [TensorSpec(a.name, request.types.get(a.name, _FLOAT)) for a in wanted]
    odd = [a for a in wanted if str(a.type) not in ("Tensor", "Optional[Tensor]")]
    if odd:
        raise model_error(
            request.path,
            f"forward's argument {odd[0].name!r} is of type {odd[0].type}; expected Tensor",
        )
    if request.inputs and not set(request.inputs) & {spec.name for spec in known}:
        known = _by_position(request, known)
    _check_inputs(request, known)
    kind = str(module.forward.schema.returns[0].type)
    results = {name: TensorSpec(name, _FLOAT) for name in _result_names(request, kind)}
    return _ports(request, known, results, is_dict=kind.startswith("Dict["))


def read_exported_ports(request: LoadRequest, program: Any) -> Ports:
    """Returns the ports of an exported program, with shapes and types.

    Raises:
        EngineError: See `script_ports`.
    """
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    signature = program.graph_signature
    known = [_spec(request, name, name, values) for name in signature.user_inputs]
    shapes = (_axes(values[name]) for name in signature.user_inputs)
    symbols = {axes[0] for axes in shapes if axes and axes[0] is not None}
    _check_inputs(request, known)
    results = [name for name in signature.user_outputs if isinstance(name, str)]
    keys = _keys(program)
    names = keys or _number(len(results))
    outputs = {}
    for name, result in zip(names, results, strict=True):
        spec, axes = _spec(request, name, result, values), _axes(values[result])
        if axes and axes[0] is not None:
            is_batched = axes[0] in symbols and not symbols.intersection(axes[1:])
            spec = replace(spec, is_batched=is_batched)
        outputs[name] = spec
    ports = _ports(request, known, outputs, is_dict=bool(keys))
    narrow = {name for name in signature.user_inputs if _is_bfloat16(values[name])}
    return replace(ports, batch_range=_batch_range(program, symbols), bfloat16=narrow)


def _ports(
    request: LoadRequest,
    inputs: Sequence[TensorSpec],
    outputs: Mapping[str, TensorSpec],
    *,
    is_dict: bool = False,
) -> Ports:
    names = list(outputs)
    wanted = list(request.outputs) or names
    if is_dict or set(wanted) <= set(names) or len(wanted) != len(names):
        check_ports(request.path, "output", wanted, list(outputs.values()))
        places: list[Any] = [name if is_dict else names.index(name) for name in wanted]
    else:  # results have no names of their own, so the unit chooses them
        places = list(range(len(names)))
    specs = tuple(
        replace(outputs[own], name=name)
        for name, own in zip(
            wanted, (names[p] if isinstance(p, int) else p for p in places), strict=True
        )
    )
    return Ports(tuple(inputs), specs, () if names == ["output"] else tuple(places))


def _by_position(request: LoadRequest, known: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Returns the arguments under the names of the unit's ports, if both have the same number."""
    if len(known) != len(request.inputs):
        return list(known)
    pairs = ", ".join(
        f"{port} -> {spec.name}" for port, spec in zip(request.inputs, known, strict=True)
    )
    text = "model %s: no port is called as an argument of forward; by position: %s"
    _log.log(LEVELS["NOTICE"], text, request.path, pairs)
    return [TensorSpec(port, request.types.get(port, _FLOAT)) for port in request.inputs]


def _check_inputs(request: LoadRequest, known: Sequence[TensorSpec]) -> None:
    check_ports(request.path, "input", request.inputs, known)
    if request.inputs:
        require_fed(request.path, request.inputs, known)


def _result_names(request: LoadRequest, kind: str) -> list[str]:
    if kind == "Tensor":
        return ["output"]
    if kind.startswith("Tuple[") and set(kind[6:-1].split(", ")) == {"Tensor"}:
        return _number(kind.count("Tensor"))
    if kind.startswith(("List[Tensor", "Dict[str, Tensor")) and request.outputs:
        return list(request.outputs)
    raise model_error(
        request.path,
        f"forward returns {kind}; expected Tensor or a tuple of them"
        + ("; name the outputs to use" if kind.startswith(("List[T", "Dict[str, T")) else ""),
    )


def _number(count: int) -> list[str]:
    return ["output"] if count == 1 else [f"output{place}" for place in range(count)]


def _keys(program: Any) -> list[str]:
    spec = program.call_spec.out_spec
    return [str(key) for key in spec.context] if spec is not None and spec.type is dict else []


def _spec(request: LoadRequest, name: str, node: str, values: Mapping[str, Any]) -> TensorSpec:
    value: Any = values.get(node)
    dtype = numpy_dtypes().get(getattr(value, "dtype", None))
    if _is_bfloat16(value):  # the unit passes float32
        dtype = _FLOAT
    if dtype is None:
        raise model_error(
            request.path,
            f"the port {name!r} is of type "
            f"{getattr(value, 'dtype', type(value).__name__)}; expected a tensor of numbers",
        )
    shape = tuple(extent if isinstance(extent, int) else None for extent in value.shape)
    return TensorSpec(name, dtype, shape, None if shape else False)


def _is_bfloat16(value: Any) -> bool:
    return bool(getattr(value, "dtype", None) == load_torch().bfloat16)


def _axes(value: Any) -> list[str | None]:
    """Returns the symbols of the axes (``"s77"``), with None for a fixed length."""
    shape: Sequence[Any] = getattr(value, "shape", ())
    return [None if isinstance(length, int) else str(length) for length in shape]


def _batch_range(program: Any, symbols: Set[str]) -> tuple[int, int | None]:
    """Returns the limits that the program was exported with (``Dim(min=, max=)``)."""
    least, most = 1, None
    for symbol, bounds in program.range_constraints.items():
        if str(symbol) in symbols:
            least = max(least, int(bounds.lower))
            if bounds.upper.is_Integer:  # otherwise it is infinite
                most = min(most or int(bounds.upper), int(bounds.upper))
    return least, most
