"""The file for Docker Compose."""

import pytest
import yaml

from modelflow.deploy.compose import compose_file
from tests.deploy.applications import application


def service(**changes):
    (found,) = yaml.safe_load(compose_file(application(**changes)))["services"].values()
    return found


@pytest.mark.parametrize(
    "changes", [{}, {"gpus": 1}, {"grpc_port": None}, {"mounts": {"tls": "/tls"}}]
)
def test_it_is_as_the_specification_says(changes):
    compose = pytest.importorskip("compose_spec", reason="needs compose-spec").PyCompose
    text = compose_file(application(**changes))
    assert compose.from_yaml(text).service_names() == ["image-classify"]
    with pytest.raises(ValueError, match="ports"):  # the check would find an error
        compose.from_yaml(text.replace("ports:\n", "ports: 3\n    x-ports:\n"))


def test_other_machines_do_not_reach_it():
    assert service(http_port=9000)["ports"] == ["127.0.0.1:9000:9000", "127.0.0.1:8500:8500"]


def test_it_is_killed_later_than_it_ends_by_itself():
    found = service(drain=100)
    assert found["environment"]["MODELFLOW_SERVE_DRAIN_TIMEOUT"] == "100"
    assert found["stop_grace_period"] == f"{application(drain=100).process_seconds}s"


def test_a_dollar_in_a_setting_is_no_variable_of_the_shell():
    assert service(settings={"A": "5$ $HOME"})["environment"]["A"] == "5$$ $$HOME"


def test_it_may_do_no_more_than_it_needs_to():
    found = service()
    assert found["read_only"] is True
    assert found["tmpfs"] == ["/tmp"]
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]


def test_gpus_are_asked_for_where_a_node_wants_them():
    (device,) = service(gpus=2)["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["count"]) == ("nvidia", 2)
    assert "deploy" not in service()
