"""Runs the tests of one process against a worker, with links between both."""

import sys
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).resolve().parents[3]
# Excluded: tests of a `Server`'s start, end and threads, which differ with workers.
OTHERWISE = (
    "tests/serve/test_server.py::"
    "test_a_handler_of_signals_may_stop_what_the_main_thread_is_stopping",
    "tests/serve/test_server.py::"
    "test_a_handler_of_signals_stops_a_server_whose_stop_holds_what_it_would_wait_for",
    "tests/serve/test_server.py::test_a_second_start_is_an_error_and_ends_nothing",
    "tests/serve/grpc/test_health.py::"
    "test_what_is_loading_is_not_serving_and_who_watches_is_told_when_it_does",
    "tests/serve/grpc/test_server.py::test_both_protocols_are_on_one_thread",
    "tests/serve/grpc/test_server.py::"
    "test_an_address_in_use_is_an_error_that_names_it_before_anything_is_loaded",
    "tests/serve/grpc/test_server.py::test_two_servers_do_not_share_an_address",
    "tests/serve/grpc/test_server.py::test_nobody_else_can_listen_there_while_models_are_loaded",
    # depends on the list of endpoints in this process
    "tests/serve/test_openapi.py::test_every_endpoint_is_described",
    *(
        f"tests/serve/test_repository.py::test_{name}"
        for name in (
            "while_a_model_is_loaded_it_is_503_and_told_as_loading",
            "clients_of_grpc_are_told_the_same",
            "a_stop_while_models_are_loaded_loads_no_more",
            "what_is_unloaded_while_it_is_loaded_never_answers",
            "whoever_waits_for_a_load_is_told_when_the_server_stops",
            "reloads_of_a_file_under_load_fail_no_request",
        )
    ),
)


@pytest.mark.parametrize(
    "modules",
    [
        "server generate generate_stream open_inference_rest metrics statistics configuration "
        "triton_http malformed time_limit repository request_parameters sequences "
        "shared_memory response_cache "
        "grpc/open_inference grpc/tf_serving grpc/server grpc/health grpc/real_clients",
        "limits examples openapi request_context models_without_inputs",
    ],
    ids=["arrays", "saved models"],
)
def test_what_clients_see_of_one_process_they_see_of_workers(modules):
    """Runs the tests with either gRPC server in front of the link."""
    paths = [
        str(Path("tests/serve", *folder, f"test_{name}.py"))
        for *folder, name in (module.split("/") for module in modules.split())
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-o", "addopts=", "-k", "not grpcio"]
    command += ["-p", "no:cacheprovider", "-p", "tests.serve.processes.as_workers", *paths]
    for name in OTHERWISE:
        command += ["--deselect", name]
    done = programs.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
