"""Flags of TensorFlow Serving and Triton, and their counterparts in ``modelflow serve``."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

_ALWAYS = "nothing: it is always so"
_NONE = "nothing: it has no counterpart"
_POLL = "--poll SECONDS"
_VERSIONED = "NAME=PATH, an argument for each model"

COUNTERPARTS: Mapping[str, str] = MappingProxyType(
    {
        # TensorFlow Serving
        "--port": "--grpc 0.0.0.0:8500",
        "--rest_api_port": "--http 0.0.0.0:8501",
        "--model_name": _VERSIONED,
        "--model_base_path": _VERSIONED,
        "--model_config_file": "--model-config-file PATH, the same file",
        "--model_config_file_poll_wait_seconds": _POLL,
        "--file_system_poll_wait_seconds": _POLL,
        "--enable_batching": "nothing: waiting requests are always batched",
        "--batching_parameters_file": "--batching-parameters-file PATH, the same file",
        "--monitoring_config_file": "nothing: /metrics is always there",
        "--ssl_config_file": "--tls-cert, --tls-key and --tls-client-ca",
        "--tensorflow_session_parallelism": "--set model.threads=N",
        "--tensorflow_intra_op_parallelism": "--set model.intra_op_threads=N",
        "--tensorflow_inter_op_parallelism": "--set model.inter_op_threads=N",
        "--per_process_gpu_memory_fraction": "--set model.gpu_memory=0.5",
        "--enable_model_warmup": _ALWAYS,
        "--num_request_iterations_for_warmup": _ALWAYS,
        "--rest_api_timeout_in_ms": "the header Inference-Timeout-Ms of a request",
        "--rest_api_num_threads": "--workers N",
        "--grpc_max_threads": "--max-calls N",
        "--grpc_channel_arguments": "--max-body, --max-streams, --keepalive-timeout",
        "--grpc_socket_path": "--grpc unix:PATH",
        "--allow_version_labels_for_unavailable_models": _NONE,
        "--max_num_load_retries": _NONE,
        "--load_retry_interval_micros": _NONE,
        "--num_load_threads": _NONE,
        "--num_unload_threads": _NONE,
        "--flush_filesystem_caches": _NONE,
        "--saved_model_tags": _NONE,
        # Triton
        "--model_repository": "FOLDER, an argument",
        "--model_store": "FOLDER, an argument",
        "--model_control_mode": "--poll SECONDS for poll, --allow-repository for explicit",
        "--repository_poll_secs": _POLL,
        "--load_model": "NAME=PATH, an argument, with --allow-repository",
        "--http_port": "--http 0.0.0.0:8000",
        "--http_address": "--http HOST:PORT",
        "--grpc_port": "--grpc 0.0.0.0:8001",
        "--grpc_address": "--grpc HOST:PORT",
        "--metrics_port": "nothing: /metrics is at the HTTP port",
        "--allow_metrics": "nothing: /metrics is always there",
        "--http_thread_count": "--workers N",
        "--exit_timeout_secs": "--drain-timeout SECONDS",
        "--rate_limit": "--max-requests N",
        "--log_verbose": "modelflow --log-level debug serve",
    }
)
"""Flag, with underscores -> its counterpart."""


def counterparts_of(arguments: Sequence[str]) -> str:
    """Returns a line for each argument that is a flag of another server, or an empty text."""
    flags = dict.fromkeys(argument.partition("=")[0] for argument in arguments)
    found = {flag: COUNTERPARTS.get("--" + flag[2:].replace("-", "_")) for flag in flags}
    return "".join(f"\n  {flag}: {here}" for flag, here in found.items() if here is not None)
