"""Flags of TensorFlow Serving and Triton, and their counterparts in ``modelflow serve``."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

_ALWAYS = "nothing: it is always so"
_NONE = "nothing: it has no counterpart"
_POLL = "--poll SECONDS"
_VERSIONED = "NAME=PATH, an argument for each model"
_RETRY = "nothing: a version is loaded again when its files change, or with --allow-repository"
_LOG = "modelflow --log-level debug serve"
_CLOUD = "nothing: no interface of a cloud service; deploy the container behind its load balancer"
_TPU = "nothing: the server runs on CPU and CUDA"
_TRACE = "--otel, with the environment variables OTEL_..."
_KEYS = "--api-key-file PATH, whose groups restrict a key"
_PING = "--keepalive-timeout SECONDS; gRPC's own pings have its defaults"
_POOL = "nothing: memory grows as needed; engines have their own settings (--set model.KEY=VALUE)"
_LITE = "nothing: TensorFlow Lite files are not read; convert them to ONNX"

TENSORFLOW_SERVING: Mapping[str, str] = MappingProxyType(
    {
        "--port": "--grpc 0.0.0.0:8500",
        "--grpc_socket_path": "--grpc unix:PATH",
        "--rest_api_port": "--http 0.0.0.0:8501",
        "--rest_api_num_threads": "--workers N",
        "--rest_api_timeout_in_ms": "the header Inference-Timeout-Ms of a request",
        "--rest_api_enable_cors_support": "--cors-origin ORIGIN",
        "--enable_batching": "nothing: waiting requests are always batched",
        "--enable_per_model_batching_parameters": "--set model.KEY=VALUE, or a graph a model",
        "--batching_parameters_file": "--batching-parameters-file PATH, the same file",
        "--model_config_file": "--model-config-file PATH, the same file",
        "--model_config_file_poll_wait_seconds": _POLL,
        "--model_name": _VERSIONED,
        "--model_base_path": _VERSIONED,
        "--file_system_poll_wait_seconds": _POLL,
        "--allow_version_labels_for_unavailable_models": (
            "nothing: a label may move only to a loaded version"
        ),
        "--max_num_load_retries": _RETRY,
        "--load_retry_interval_micros": _RETRY,
        "--num_load_threads": "nothing: two versions load at a time, beside the traffic",
        "--num_unload_threads": "nothing: each version unloads beside the traffic",
        "--flush_filesystem_caches": "nothing: the system drops its caches itself",
        "--tensorflow_session_parallelism": "--set model.threads=N",
        "--tensorflow_session_config_file": "--set model.KEY=VALUE for each setting",
        "--tensorflow_intra_op_parallelism": "--set model.intra_op_threads=N",
        "--tensorflow_inter_op_parallelism": "--set model.inter_op_threads=N",
        "--platform_config_file": "--set model.KEY=VALUE for each setting",
        "--per_process_gpu_memory_fraction": "--set model.gpu_memory=0.5",
        "--saved_model_tags": "nothing: the tag is always serve",
        "--ssl_config_file": "--tls-cert, --tls-key and --tls-client-ca",
        "--use_alts_credentials": _CLOUD,
        "--grpc_channel_arguments": "--max-body, --max-streams, --keepalive-timeout",
        "--grpc_max_threads": "--max-calls N",
        "--enable_grpc_healthcheck_service": _ALWAYS,
        "--enable_serialization_as_tensor_content": (
            "nothing: replies use typed fields, which every client reads"
        ),
        "--enable_model_warmup": _ALWAYS,
        "--num_request_iterations_for_warmup": _ALWAYS,
        "--monitoring_config_file": (
            "nothing: /metrics and /monitoring/prometheus/metrics are always there"
        ),
        "--enable_profiler": "modelflow profile, doctor and top",
        "--enable_signature_method_name_check": "nothing: any signature may be classified",
        "--remove_unused_fields_from_bundle_metagraph": _ALWAYS,
        "--xla_cpu_compilation_enabled": "--set model.xla=true",
        "--mixed_precision": "--set model.precision=bf16",
        "--thread_pool_factory_config_file": "--set model.threads=N",
        "--enforce_session_run_timeout": "--request-timeout SECONDS",
        "--prefer_tflite_model": _LITE,
        "--use_tflite_model": _LITE,
        "--num_tflite_pools": _LITE,
        "--num_tflite_interpreters_per_pool": _LITE,
        "--skip_initialize_tpu": _TPU,
    }
)
"""Flag of TensorFlow Serving -> its counterpart."""

TRITON: Mapping[str, str] = MappingProxyType(
    {
        "--model_repository": "FOLDER, an argument",
        "--model_store": "FOLDER, an argument",
        "--model_control_mode": "--poll SECONDS for poll, --allow-repository for explicit",
        "--repository_poll_secs": _POLL,
        "--load_model": "NAME=PATH, an argument, with --allow-repository",
        "--model_load_thread_count": "nothing: two versions load at a time, beside the traffic",
        "--model_load_retry_count": _RETRY,
        "--model_namespacing": "NAME=PATH gives each model a name of its own",
        "--model_config_name": "nothing: config.pbtxt is not read",
        "--strict_model_config": "nothing: types and shapes come from the model file",
        "--disable_auto_complete_config": "nothing: types and shapes come from the model file",
        "--strict_readiness": (
            "nothing: /readyz needs all models; ask /v2/models/NAME/ready for one"
        ),
        "--exit_on_error": "nothing: a model that fails is named, and the others are served",
        "--exit_timeout_secs": "--drain-timeout SECONDS",
        "--id": "nothing: the metadata has name and version of modelflow",
        "--allow_http": "nothing: HTTP is always on; --http unix:/path keeps it off the network",
        "--http_port": "--http 0.0.0.0:8000",
        "--http_address": "--http HOST:PORT",
        "--http_thread_count": "--workers N",
        "--http_max_input_size": "--max-body BYTES",
        "--http_restricted_api": _KEYS,
        "--http_header_forward_pattern": (
            "nothing: units get the request id and the trace; declare [serve] parameters for more"
        ),
        "--reuse_http_port": "--replicas N, for several processes behind one port",
        "--allow_grpc": "--grpc off",
        "--grpc_port": "--grpc 0.0.0.0:8001",
        "--grpc_address": "--grpc HOST:PORT",
        "--grpc_infer_allocation_pool_size": _POOL,
        "--grpc_infer_thread_count": "--workers N",
        "--grpc_max_response_pool_size": _POOL,
        "--grpc_use_ssl": "--tls-cert and --tls-key, for both protocols",
        "--grpc_use_ssl_mutual": "--tls-client-ca",
        "--grpc_server_cert": "--tls-cert",
        "--grpc_server_key": "--tls-key",
        "--grpc_root_cert": "--tls-client-ca",
        "--grpc_infer_response_compression_level": "nothing: gRPC replies are not compressed",
        "--grpc_keepalive_time": _PING,
        "--grpc_keepalive_timeout": _PING,
        "--grpc_keepalive_permit_without_calls": _PING,
        "--grpc_http2_max_pings_without_data": _PING,
        "--grpc_http2_min_recv_ping_interval_without_data": _PING,
        "--grpc_http2_max_ping_strikes": _PING,
        "--grpc_max_connection_age": _PING,
        "--grpc_max_connection_age_grace": _PING,
        "--grpc_restricted_protocol": _KEYS,
        "--grpc_header_forward_pattern": (
            "nothing: units get the request id and the trace; declare [serve] parameters for more"
        ),
        "--reuse_grpc_port": "--replicas N, for several processes behind one port",
        "--allow_metrics": "nothing: /metrics is always there",
        "--allow_cpu_metrics": "nothing: process_* is always in /metrics",
        "--allow_gpu_metrics": "nothing: use the exporter of the GPU's vendor",
        "--metrics_port": "nothing: /metrics is at the HTTP port",
        "--metrics_address": "nothing: /metrics is at the HTTP port",
        "--metrics_interval_ms": "nothing: each scrape reads the current figures",
        "--metrics_config": "nothing: all figures are always there",
        "--trace_config": _TRACE,
        "--trace_file": _TRACE,
        "--trace_level": _TRACE,
        "--trace_rate": _TRACE,
        "--trace_count": _TRACE,
        "--trace_log_frequency": _TRACE,
        "--cache_config": "--cache [NAME=]SIZE",
        "--cache_directory": "--cache [NAME=]SIZE",
        "--response_cache_byte_size": "--cache [NAME=]SIZE",
        "--rate_limit": "--max-requests N, and limits in --api-key-file",
        "--rate_limit_resource": "--set NODE.threads=N",
        "--pinned_memory_pool_byte_size": _POOL,
        "--cuda_memory_pool_byte_size": _POOL,
        "--cuda_virtual_address_size": _POOL,
        "--min_supported_compute_capability": "nothing: each engine checks the GPU",
        "--buffer_manager_thread_count": "--set NODE.threads=N",
        "--enable_peer_access": "nothing: a model runs on one GPU",
        "--host_policy": "nothing: use taskset or numactl, or CPU sets of the container",
        "--backend_directory": "nothing: pip installs engines",
        "--backend_config": "--set model.KEY=VALUE",
        "--repoagent_directory": "nothing: sources by URL are checked by their digest",
        "--log_verbose": _LOG,
        "--log_info": _LOG,
        "--log_warning": _LOG,
        "--log_error": _LOG,
        "--log_format": "nothing: lines go to the standard error; --access-log writes JSON",
        "--log_file": "--access-log FILE for requests; the log is the standard error",
        "--allow_sagemaker": _CLOUD,
        "--sagemaker_port": _CLOUD,
        "--sagemaker_safe_port_range": _CLOUD,
        "--sagemaker_thread_count": _CLOUD,
        "--allow_vertex_ai": _CLOUD,
        "--vertex_ai_port": _CLOUD,
        "--vertex_ai_address": _CLOUD,
        "--vertex_ai_thread_count": _CLOUD,
        "--vertex_ai_default_model": _CLOUD,
    }
)
"""Flag of Triton, with underscores -> its counterpart."""

COUNTERPARTS: Mapping[str, str] = MappingProxyType({**TENSORFLOW_SERVING, **TRITON})
"""Flag of either server, with underscores -> its counterpart."""


def counterparts_of(arguments: Sequence[str]) -> str:
    """Returns a line for each argument that is a flag of another server, or an empty text."""
    flags = dict.fromkeys(argument.partition("=")[0] for argument in arguments)
    found = {flag: COUNTERPARTS.get("--" + flag[2:].replace("-", "_")) for flag in flags}
    return "".join(f"\n  {flag}: {here}" for flag, here in found.items() if here is not None)
