"""ONNX Runtime's options, and the settings of a session that follow from them."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from modelflow.engine.engine import LoadRequest, import_package
from modelflow.engine.options import GpuMemoryOptions
from modelflow.errors import DeviceUnavailableError, EngineError, did_you_mean
from modelflow.unit.option import option

_SUFFIX = "ExecutionProvider"
# Names of providers without the suffix -> the device that calls them, and the package.
_PROVIDERS = {
    "CPU": ("cpu", "onnxruntime"),
    "CUDA": ("cuda", "onnxruntime-gpu"),
    "Tensorrt": ("cuda", "onnxruntime-gpu"),
    "OpenVINO": ("cpu", "onnxruntime-openvino"),
}
_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


@dataclass(frozen=True)
class OnnxOptions(GpuMemoryOptions):
    """The options of a node whose model ONNX Runtime runs."""

    providers: tuple[str, ...] = option(
        (),
        help="Execution providers, the preferred one first: cpu, cuda, tensorrt, openvino, or "
        "ONNX Runtime's full names. If empty, the provider of the node's device.",
    )
    graph_optimization: Literal["disable", "basic", "extended", "all"] = option(
        "all", help="Optimizations of the graph when the model is loaded."
    )
    spinning: int | bool = option(
        10,
        help="How long threads spin while they wait for work, in microseconds. true lets ONNX "
        "Runtime choose, and false or 0 ends spinning. Long spinning helps a single caller, and "
        "takes processors from other nodes.",
        minimum=0,
        maximum=1_000_000,
    )
    session: tuple[str, ...] = option(
        (),
        help="Entries KEY=VALUE of ONNX Runtime's session configuration, separated by commas, "
        "such as session.set_denormal_as_zero=1. They replace settings of the other options.",
    )

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: An entry of the session is not of the form KEY=VALUE, or a key comes twice;
                see also `GpuMemoryOptions`.
        """
        super().__post_init__()
        keys = [entry.partition("=")[0].strip() for entry in self.session]
        for entry, key in zip(self.session, keys, strict=True):
            if "=" not in entry or not key:
                raise ValueError(f"session: got {entry!r}; expected KEY=VALUE")
            if keys.count(key) > 1:
                raise ValueError(f"session: got two values for {key!r}; expected one")


@cache
def load_runtime() -> Any:
    """Returns the module ``onnxruntime``, which logs nothing by itself.

    Raises:
        MissingDependencyError: The package is not installed.
        EngineError: The package is installed and cannot be imported.
    """
    onnxruntime = import_package("onnxruntime", "onnx")
    onnxruntime.set_default_logger_severity(3)  # errors are raised as exceptions anyway
    return onnxruntime


def session_options(options: OnnxOptions) -> Any:
    """Returns the options of a session.

    Raises:
        EngineError: This version of ONNX Runtime cannot spin for a given time.
    """
    runtime = load_runtime()
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = options.intra_op_threads
    settings.inter_op_num_threads = options.inter_op_threads
    if options.inter_op_threads > 1:
        settings.execution_mode = runtime.ExecutionMode.ORT_PARALLEL
    level = getattr(runtime.GraphOptimizationLevel, _LEVELS[options.graph_optimization])
    settings.graph_optimization_level = level
    own = [entry.partition("=")[::2] for entry in options.session]
    for name, value in (*_spinning(options.spinning, runtime.__version__).items(), *own):
        settings.add_session_config_entry(name.strip(), value.strip())
    return settings


def _spinning(wanted: int | bool, version: str) -> dict[str, str]:
    """Returns the entries for the time that the runtime's threads spin while they wait for work."""
    # Threads that spin between two calls take the processors from the other nodes. Between the
    # operations of one call a short spin costs less than to sleep and wake. MobileNetV2 at batch 1
    # on 2 processors: 1.18x the rate, 0.88x the processor time (benchmarks/image_server.py).
    if wanted is True:
        return {}
    spinning = {"session.inter_op.allow_spinning": "0"}
    if not wanted:
        return {**spinning, "session.intra_op.allow_spinning": "0"}
    if tuple(map(int, version.split(".")[:2])) >= (1, 26):
        return {**spinning, "session.intra_op.spin_duration_us": str(wanted)}
    if wanted == OnnxOptions.spinning:  # the default asks for no certain time
        return {**spinning, "session.intra_op.allow_spinning": "0"}
    raise EngineError(
        f"spinning: got {wanted}, but ONNX Runtime {version} spins for no given time; expected "
        "true or false, or install onnxruntime 1.26 or newer"
    )


def providers(request: LoadRequest) -> list[Any]:
    """Returns the execution providers of a session, with their settings.

    Raises:
        DeviceUnavailableError: The installed package lacks a provider.
        EngineError: No provider has that name, or a provider does not run on the node's device.
    """
    runtime, device, options = load_runtime(), request.device, request.options
    available = runtime.get_available_providers()
    found: list[Any] = []
    kinds = set()
    for name in options.providers or (device.kind,):
        where = f"providers: got {name}" if options.providers else f"device {device}"
        provider = _full_name(runtime, name)
        kind, package = _PROVIDERS.get(
            provider.removesuffix(_SUFFIX), (device.kind, "a build of onnxruntime that has it")
        )
        if provider not in available:
            raise DeviceUnavailableError(
                f"{where}: ONNX Runtime {runtime.__version__} has no {provider}, only "
                f"{', '.join(available)}; install {package} in place of onnxruntime"
            )
        kinds.add(kind)
        settings: dict[str, Any] = {}
        if kind == "cuda":
            settings["device_id"] = device.index
        if provider == _full_name(runtime, "cuda") and options.gpu_memory != "growth":
            settings["gpu_mem_limit"] = options.gpu_bytes(device.index)
        found.append((provider, settings))
    odd = kinds - {device.kind, "cpu"}
    if odd or device.kind not in kinds:
        raise EngineError(
            f"providers: got {', '.join(options.providers)} on the device {device}; expected "
            f"{'providers of' if not odd else 'the device'} {device.kind if not odd else odd.pop()}"
        )
    return found


def _full_name(runtime: Any, name: str) -> str:
    known: list[str] = runtime.get_all_providers()
    for provider in known:
        if name.lower() in (provider.lower(), provider.removesuffix(_SUFFIX).lower()):
            return provider
    short = [provider.removesuffix(_SUFFIX).lower() for provider in known]
    raise EngineError(
        f"providers: got {name!r}{did_you_mean(name, [*known, *short])}; "
        f"expected some of {', '.join(short)}"
    )


def check_providers(session: Any, wanted: list[Any]) -> None:
    """Checks that ONNX Runtime has not replaced a provider that did not start by the CPU.

    Raises:
        DeviceUnavailableError: A provider did not start.
    """
    running = session.get_providers()
    for provider, _ in wanted:
        if provider not in running:
            raise DeviceUnavailableError(
                f"{provider}: ONNX Runtime could not start it and would run on "
                f"{', '.join(running)}; its libraries may be missing, or no device is there"
            )
