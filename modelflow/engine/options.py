"""The options of an inference unit: those of every engine here, each engine's own with the engine.

An engine declares its options as a dataclass that builds on `InferenceOptions` (`Engine.options`);
a node that names another engine's option is told so like any other unknown option.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from modelflow.device.driver import total_memory
from modelflow.errors import ConfigError, did_you_mean
from modelflow.unit.option import option, options_of, with_defaults


@dataclass(frozen=True)
class InferenceOptions:
    """The options of an inference node; the defaults of a unit's own come from its ``[config]``."""

    warmup: Literal["none", "synthetic", "recorded"] = option(
        "synthetic",
        help="What runs before the node is ready: nothing; zeros of the model's input shapes in "
        "batches of 1, of batch_size and of each allowed size; or recorded requests.",
    )
    warmup_requests: str = option(
        "",
        help="Where recorded requests are: a .npz file with an array for each input (axis 0: the "
        "requests), or TensorFlow Serving's tf_serving_warmup_requests; none: the model's own "
        "assets.extra/tf_serving_warmup_requests, or warmup.npz beside it.",
    )
    version: str = option(
        "",
        help="Where the model's folder holds versions (1/ 2/ ...): the number to serve, several "
        "('1,2': a buffer chooses by its meta model_version), or none: the newest.",
    )
    pad_variable: bool = option(
        False,
        help="Buffers of different shapes share a batch: each is filled up with zeros to the "
        "largest, on the axes that the model leaves open.",
    )
    allow_cast: bool = option(
        False,
        help="Convert items of a wider or a whole-number type to the model's own "
        "(float64 to float32); without it such an item is an error.",
    )
    plugin: str = option(
        "",
        help="A ModelBox pre- and post-processing library; accepted empty, such libraries are not "
        "supported.",
    )
    config_proto: tuple[str, ...] = option(
        (),
        help="ModelBox's serialised TensorFlow settings; accepted empty, use inter_op_threads, "
        "intra_op_threads and gpu_memory.",
    )

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: a ModelBox plug-in, or serialised settings.
        """
        if self.plugin:
            raise ValueError(
                f"plugin: got {self.plugin!r}; ModelBox's compiled plug-ins are not supported; "
                "put the processing in units before and after this one"
            )
        if self.config_proto:
            raise ValueError(
                "config_proto: serialised TensorFlow settings are not supported; "
                "use inter_op_threads, intra_op_threads and gpu_memory"
            )

    @property
    def has_few_sizes(self) -> bool:
        """Whether the engine prepares the model for each batch size, of which there may be few."""
        return False


@dataclass(frozen=True)
class ThreadOptions(InferenceOptions):
    """Of engines with threads of their own."""

    inter_op_threads: int = option(
        0,
        help="Operations that the engine runs at once, likewise; 0: its own choice.",
        minimum=0,
        maximum=4096,
    )
    intra_op_threads: int = option(
        0,
        help="Threads that share one operation (for the whole process where the engine knows no "
        "other way: tensorflow, torch); 0: the engine's own choice.",
        aliases=("engine_threads",),
        minimum=0,
        maximum=4096,
    )


@dataclass(frozen=True)
class GpuMemoryOptions(ThreadOptions):
    """Of engines that take GPU memory by themselves."""

    gpu_memory: Literal["growth"] | float = option(
        "growth",
        help="GPU memory of the engine, for the whole process: growth (taken as needed), a "
        "fraction of the device up to 1, or MiB above 1.",
    )

    def gpu_bytes(self, index: int) -> int:
        """Returns the memory that may be taken of a GPU, by its number; it is no growth."""
        memory = float(self.gpu_memory)
        return int(memory * (1 << 20) if memory > 1 else memory * total_memory(index))

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: a GPU memory of 0 or less; see `InferenceOptions`.
        """
        super().__post_init__()
        if self.gpu_memory != "growth" and not 0 < float(self.gpu_memory) < float("inf"):
            raise ValueError(
                f"gpu_memory: got {self.gpu_memory}; expected growth, a fraction, or MiB"
            )


def options_with_defaults(
    options: type[InferenceOptions], defaults: Mapping[str, Any]
) -> type[InferenceOptions]:
    """Returns the options of an engine with the defaults of a unit's ``[config]``.

    Raises:
        ConfigError: an unknown key, or a value that does not fit.
    """
    if not defaults:
        return options
    known = {declared.name: declared for declared in options_of(options)}
    unknown = [name for name in defaults if name not in known]
    if unknown:
        raise ConfigError(
            f"[config]: unknown option {unknown[0]!r}{did_you_mean(unknown[0], known)} "
            f"(options of an inference unit: {', '.join(known)})"
        )
    changed = (replace(known[name], default=known[name].convert(v)) for name, v in defaults.items())
    found: type[InferenceOptions] = with_defaults(options, tuple(changed))
    return found
