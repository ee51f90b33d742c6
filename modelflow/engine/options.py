"""The options that inference units of every engine share.

An engine declares its options as a dataclass derived from `InferenceOptions` (`Engine.options`). An
option of another engine is an error, as any unknown option is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from modelflow.device.driver import total_memory
from modelflow.errors import ConfigError, did_you_mean
from modelflow.unit.option import option, options_of, with_defaults


@dataclass(frozen=True)
class InferenceOptions:
    """The options of an inference node; a unit's ``[config]`` replaces their defaults."""

    warmup: Literal["none", "synthetic", "recorded"] = option(
        "synthetic",
        help="Warm-up before the node is ready: none, synthetic requests or recorded requests. "
        "Synthetic requests are zeros of the model's input shapes, in batches of 1, of batch_size "
        "and of each allowed size.",
    )
    warmup_requests: str = option(
        "",
        help="File of recorded requests: a .npz file with an array for each input (axis 0: the "
        "requests), or TensorFlow Serving's tf_serving_warmup_requests. If empty, the model's own "
        "assets.extra/tf_serving_warmup_requests, or warmup.npz next to the model.",
    )
    version: str = option(
        "",
        help="Version to serve if the model's folder contains versions (1/ 2/ ...). '1,2' serves "
        "several: the meta key model_version of a buffer selects one. If empty, the newest.",
    )
    pad_variable: bool = option(
        False,
        help="Put buffers of different shapes into one batch: each is padded with zeros to the "
        "largest, on the axes that the model leaves open.",
    )
    allow_cast: bool = option(
        False,
        help="Convert items of a wider or a whole-number type to the model's own type (float64 to "
        "float32). Without this option such an item is an error.",
    )
    plugin: str = option(
        "",
        help="A ModelBox library for pre- and post-processing. Accepted only if empty, because "
        "such libraries are not supported.",
    )
    config_proto: tuple[str, ...] = option(
        (),
        help="ModelBox's serialised TensorFlow settings. Accepted only if empty: use "
        "inter_op_threads, intra_op_threads and gpu_memory.",
    )

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: A ModelBox plug-in or serialised settings are given.
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
        """True if the engine prepares the model for each batch size, and so needs few sizes."""
        return False


@dataclass(frozen=True)
class IntraOpOptions(InferenceOptions):
    """The options of engines whose operations share threads."""

    intra_op_threads: int = option(
        0,
        help="Number of threads that share one operation. tensorflow and torch have one number for "
        "the whole process. 0 lets the engine choose.",
        aliases=("engine_threads",),
        minimum=0,
        maximum=4096,
    )


@dataclass(frozen=True)
class ThreadOptions(IntraOpOptions):
    """The options of engines that also run several operations at once."""

    inter_op_threads: int = option(
        0,
        help="Number of operations that the engine runs at once. tensorflow and torch have one "
        "number for the whole process. 0 lets the engine choose.",
        minimum=0,
        maximum=4096,
    )


@dataclass(frozen=True)
class GpuMemoryOptions(ThreadOptions):
    """The options of engines that allocate GPU memory themselves."""

    gpu_memory: Literal["growth"] | float = option(
        "growth",
        help="GPU memory of the engine, for the whole process: growth (allocated as needed), a "
        "fraction of the device up to 1, or MiB above 1.",
    )

    def gpu_bytes(self, index: int) -> int:
        """Returns the memory limit in bytes on the GPU of that number; not for ``growth``."""
        memory = float(self.gpu_memory)
        return int(memory * (1 << 20) if memory > 1 else memory * total_memory(index))

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: The GPU memory is 0 or less; see also `InferenceOptions`.
        """
        super().__post_init__()
        if self.gpu_memory != "growth" and not 0 < float(self.gpu_memory) < float("inf"):
            raise ValueError(
                f"gpu_memory: got {self.gpu_memory}; expected growth, a fraction, or MiB"
            )


def options_with_defaults(
    options: type[InferenceOptions], defaults: Mapping[str, Any]
) -> type[InferenceOptions]:
    """Returns an engine's options with the defaults of a unit's ``[config]``.

    Raises:
        ConfigError: A key is unknown, or a value does not fit.
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
