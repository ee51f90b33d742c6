"""How units of folders that import ModelBox's names are made and run."""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from modelflow.compat.modelbox.adapter import UnitAdapter
from modelflow.compat.modelbox.flowunit import FlowUnit
from modelflow.compat.modelbox.source import SourceAdapter

__all__ = ["UNIT_DEFAULTS", "as_flow_unit"]

# How units written for ModelBox expect to be run: one instance a node, called by several threads
# at once; one that can be given errors is; a failing batch is not tried again; meta is passed on by
# the unit alone.
UNIT_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "is_shared": True,
        "is_per_stream": True,
        "is_exception_given": True,
        "is_batch_retried": False,
        "inherits_meta": False,
        "is_count_assumed": True,
        "threads": max(2, len(os.sched_getaffinity(0))),
    }
)


def as_flow_unit(cls: type[Any], base: Mapping[str, Any], *, is_source: bool) -> UnitAdapter | None:
    """Returns an instance of a class of a unit's file as one of modelflow's own.

    Args:
        cls: The class.
        base: The section ``[base]`` of the unit's file.
        is_source: It has no inputs.

    Returns:
        None where it is none of ModelBox's units.
    """
    if not issubclass(cls, FlowUnit):
        return None
    return SourceAdapter(cls(), base) if is_source else UnitAdapter(cls(), base)
