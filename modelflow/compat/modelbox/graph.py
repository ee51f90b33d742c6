"""`FlowGraphDesc`: a graph built in code, in ModelBox's order of arguments."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from modelflow.compat.modelbox.adapter import FunctionUnit, UnitAdapter
from modelflow.compat.modelbox.flowunit import DataContext
from modelflow.config.in_code import FlowGraphDesc as NativeFlowGraphDesc
from modelflow.config.in_code import FlowNodeDesc, FlowPortDesc
from modelflow.unit.kind import Kind
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec

__all__ = ["FlowGraphDesc", "FlowNodeDesc", "FlowPortDesc"]


_function_numbers = itertools.count()


class FlowGraphDesc(NativeFlowGraphDesc):
    """A graph built in code, for `Flow.init`."""

    _numbered = "{}{}"

    def add_input(self, input_name: str) -> FlowNodeDesc:
        """Adds an input of the graph."""
        node = super().add_input(self._free_name(input_name))
        node.outputs = (node.name,)
        return node

    def add_output(self, output_name: str, source: Any, device: str = "cpu") -> None:
        """Adds an output of the graph."""
        super().add_output(self._free_name(output_name), source, device)

    def add_node(  # type: ignore[override]  # ModelBox's names of the arguments
        self, flowunit_name: str, device: str = "cpu", config: Any = None, source: Any = None
    ) -> FlowNodeDesc:
        """Adds a node.

        Args:
            flowunit_name: The unit.
            device: Where it runs.
            config: ``["key=value", ...]``; or the source, where no ``source`` follows.
            source: A node, ``node["port"]``, or ``{input: port}``.

        Raises:
            ConfigError: a config of another form.
        """
        return super().add_node(flowunit_name, device, config, source)

    def add_function(  # type: ignore[override]  # a function of a DataContext, not of values
        self,
        func: Callable[[DataContext], Any],
        input_name_list: Sequence[str],
        output_name_list: Sequence[str],
        source: Any = None,
    ) -> FlowNodeDesc:
        """Adds a node that calls ``func(data_context)``, which returns a `Status` or its code."""
        name = f"register_func_{next(_function_numbers)}"
        called = getattr(func, "__name__", "")
        if called.isidentifier():
            name += f"_{called}"  # so that errors say which
        spec = FlowUnitSpec(
            name,
            {"cpu": partial(_function_unit, func)},
            inputs=tuple(map(Port, input_name_list)),
            outputs=tuple(map(Port, output_name_list)),
            kind=Kind.STREAM,
            batch_size=8,
            is_shared=True,
            is_count_assumed=True,
            inherits_meta=False,
            accepts_any_option=True,
        )
        return self._add_unit(spec, source)

    def _connect(self, node: FlowNodeDesc, source: Any) -> None:
        """Connects a node given whole: each of its outputs to an input, in order."""
        if isinstance(source, FlowNodeDesc) and len(source.outputs) > 1:
            inputs = self._inputs_of(node)
            for place, port in enumerate(source.outputs):
                self._links.append((source[port], node, inputs[place] if inputs else None))
        else:
            super()._connect(node, source)

    def _inputs_of(self, node: FlowNodeDesc) -> tuple[str, ...]:
        unit = next(given.get("flowunit", "") for found, given in self._nodes if found is node)
        spec = self._units.get(unit)
        return () if spec is None else tuple(port.name for port in spec.inputs)


def _function_unit(function: Callable[[DataContext], Any]) -> UnitAdapter:
    return UnitAdapter(FunctionUnit(function))
