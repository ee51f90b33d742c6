"""The options of an inference unit."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from modelflow.errors import ConfigError, did_you_mean
from modelflow.flowunit.option import option, options_of

__all__ = ["InferenceOptions", "options_with_defaults"]


@dataclass(frozen=True)
class InferenceOptions:
    """The options of an inference node; the defaults of a unit's own come from its ``[config]``."""

    warmup: Literal["none", "synthetic"] = option(
        "synthetic",
        help="What runs before the node is ready: nothing, or zeros of the model's input shapes "
        "in batches of 1 and of batch_size.",
    )
    signature: str = option(
        "",
        help="The signature of a SavedModel; where none is given, serving_default, else the only "
        "one.",
    )
    allow_cast: bool = option(
        False,
        help="Convert items of a wider or a whole-number type to the model's own "
        "(float64 to float32); without it such an item is an error.",
    )
    inter_op_threads: int = option(
        0,
        help="Operations that the engine runs at once, for the whole process; 0: its own choice.",
        minimum=0,
        maximum=4096,
    )
    intra_op_threads: int = option(
        0,
        help="Threads that share one operation, for the whole process; 0: the engine's own choice.",
        minimum=0,
        maximum=4096,
    )
    gpu_memory: Literal["growth"] | float = option(
        "growth",
        help="GPU memory of the engine, for the whole process: growth (taken as needed), a "
        "fraction of the device up to 1, or MiB above 1.",
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
            ValueError: a ModelBox plug-in, serialised settings, or a GPU memory of 0 or less.
        """
        if self.plugin:
            message = (
                f"plugin: got {self.plugin!r}; ModelBox's compiled plug-ins are not supported; "
                "put the processing in units before and after this one"
            )
            raise ValueError(message)
        if self.config_proto:
            message = (
                "config_proto: serialised TensorFlow settings are not supported; "
                "use inter_op_threads, intra_op_threads and gpu_memory"
            )
            raise ValueError(message)
        if self.gpu_memory != "growth" and not 0 < float(self.gpu_memory) < float("inf"):
            message = f"gpu_memory: got {self.gpu_memory}; expected growth, a fraction, or MiB"
            raise ValueError(message)


def options_with_defaults(defaults: Mapping[str, Any]) -> type[InferenceOptions]:
    """Returns `InferenceOptions` whose defaults are those of a unit's ``[config]``.

    Raises:
        ConfigError: an unknown key, or a value that does not fit.
    """
    if not defaults:
        return InferenceOptions
    known = {declared.name: declared for declared in options_of(InferenceOptions)}
    unknown = [name for name in defaults if name not in known]
    if unknown:
        message = (
            f"[config]: unknown option {unknown[0]!r}{did_you_mean(unknown[0], known)} "
            f"(options of an inference unit: {', '.join(known)})"
        )
        raise ConfigError(message)
    fields = [
        (
            name,
            known[name].type,
            option(
                known[name].convert(value),
                help=known[name].help,
                minimum=known[name].minimum,
                maximum=known[name].maximum,
            ),
        )
        for name, value in defaults.items()
    ]
    return dataclasses.make_dataclass(
        InferenceOptions.__name__, fields, bases=(InferenceOptions,), frozen=True
    )
