"""The options that only TensorFlow has."""

from dataclasses import dataclass

from modelflow.engine.options import GpuMemoryOptions
from modelflow.unit.option import option


@dataclass(frozen=True)
class TensorFlowOptions(GpuMemoryOptions):
    """The options of a node whose model TensorFlow runs."""

    signature: str = option(
        "",
        help="The signature of a SavedModel; where none is given, serving_default, else the only "
        "one.",
    )
    xla: bool = option(
        False,
        help="Compile the model with XLA, once for each size of batch: give allowed_batch_sizes.",
    )
