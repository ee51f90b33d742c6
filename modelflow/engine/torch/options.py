"""The options that only PyTorch has."""

from dataclasses import dataclass
from typing import Literal

from modelflow.engine.options import ThreadOptions
from modelflow.unit.option import option


@dataclass(frozen=True)
class TorchOptions(ThreadOptions):
    """The options of a node whose model PyTorch runs."""

    precision: Literal["", "fp32", "tf32", "fp16", "bf16"] = option(
        "",
        help="What the engine calculates in; none: as the model was saved. fp16 and bf16 convert "
        "weights and inputs, outputs are float32 again.",
    )
    channels_last: bool = option(
        False, help="Weights and images with the channels last in memory; faster for convolutions."
    )
    cuda_graph: bool = option(
        False,
        help="Capture the model as a CUDA graph for each of allowed_batch_sizes, which spares the "
        "launches of its kernels; without these for 1, 2, 4, 8 ... and batch_size.",
    )

    @property
    def has_few_sizes(self) -> bool:
        """Whether CUDA graphs are captured, one for each batch size."""
        return self.cuda_graph
