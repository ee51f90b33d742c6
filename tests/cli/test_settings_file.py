"""The options of a command, from a file."""

import click
import pytest
from click.testing import CliRunner

from modelflow.cli.main import cli
from modelflow.cli.serve.command import serve
from modelflow.serve.options import ServeOptions
from modelflow.serve.repository.config import ServeConfig


@pytest.fixture
def values(tmp_path, monkeypatch):
    """Returns the settings that `serve` would derive from a file and a command line."""
    seen = {}

    def note(_, options):
        seen["options"] = options
        raise click.exceptions.Exit(0)

    def config(given):
        seen.update(given)
        return ServeConfig()

    monkeypatch.setattr("modelflow.serve.server.Server", note)
    monkeypatch.setattr("modelflow.cli.serve.command.build_config", config)
    monkeypatch.setattr("modelflow.cli.serve.server_setup.build_config", config)
    folder = tmp_path / "conf"
    folder.mkdir()

    def run(text, *arguments):
        path = folder / "serve.toml"
        path.write_text(text)
        seen.clear()
        done = CliRunner().invoke(cli, ["serve", "--config", str(path), *arguments])
        return seen, done.output

    return run


def test_a_file_says_what_the_options_say(values, tmp_path):
    seen, output = values(
        """
        sources = ["digits=graph.toml", "/models/resnet.onnx"]
        http = "0.0.0.0:80"
        grpc = "off"
        max_body = 100
        header_timeout = 3
        max_json_depth = 5
        allow_repository = true
        label = ["digits:stable=1"]
        tls_cert = "cert.pem"
        tls_key = "/keys/key.pem"
        cors_origin = ["*"]
        access_log = "-"
        batching_parameters_file = "batching_config.txt"
        """
    )
    assert seen, output
    options, folder = seen["options"], tmp_path / "conf"
    assert seen["sources"] == (f"digits={folder}/graph.toml", "resnet=/models/resnet.onnx")
    assert seen["labels"] == ("digits:stable=1",)
    assert seen["batching_file"] == folder / "batching_config.txt"
    assert (options.host, options.http_port, options.grpc_port) == ("0.0.0.0", 80, None)
    assert (options.max_body, options.json.depth) == (100, 5)
    assert options.connections.header_time_out == 3.0
    assert options.is_repository_open
    assert (options.tls.cert, str(options.tls.key)) == (folder / "cert.pem", "/keys/key.pem")
    assert (options.cors_origins, options.access_log) == (("*",), "-")


def test_the_command_line_wins(values):
    text = 'sources = ["a.toml"]\nmax_body = 100\nmax_headers = 7\ncors_origin = ["*"]'
    seen, _ = values(text, "b.toml", "--max-body", "5", "--cors-origin", "http://x")
    options = seen["options"]
    assert seen["sources"] == ("b=b.toml",)
    assert (options.max_body, options.connections.headers) == (5, 7)
    assert options.cors_origins == ("http://x",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_bdy = 1", "there is no key 'max_bdy'; did you mean 'max_body'?; expected one of"),
        ("config = 'x'", "there is no key 'config'"),
        ("max_body = '1'", "max_body: got '1'; expected a whole number"),
        ("max_body = true", "max_body: got True; expected a whole number"),
        ("max_body = -1", "max_body: -1 is not in the range"),
        ("header_timeout = nan", "header_timeout: nan is not a number of seconds"),
        ("header_timeout = inf", "header_timeout: inf is not in the range"),
        ("poll = 'x'", "poll: got 'x'; expected a number"),
        ("allow_repository = 1", "allow_repository: got 1; expected true or false"),
        ("cors_origin = '*'", "cors_origin: got '*'; expected a list of texts"),
        ("sources = [1]", "sources: got 1; expected a text"),
        ("http = 1", "http: got 1; expected a text"),
        ("max_body = ", "TOML: Invalid value"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(values, text, message):
    seen, output = values(text)
    assert not seen
    assert f"serve.toml:1: {message}" in output


def test_a_file_that_is_not_there_is_named():
    done = CliRunner().invoke(cli, ["serve", "--config", "gone.toml"])
    assert "gone.toml: there is no such file" in done.output
    assert done.exit_code == 1


def test_half_of_a_pair_is_refused(values):
    for text, missing in (
        ("tls_cert = 'a'", "--tls-key"),
        ("tls_key = 'a'", "--tls-cert"),
        ("tls_client_ca = 'a'", "--tls-cert"),
    ):
        seen, output = values(f"sources = ['a.toml']\n{text}")
        assert "options" not in seen
        assert f"{missing} is missing" in output


def test_the_defaults_are_those_of_a_program(values):
    seen, _ = values('sources = ["a.toml"]')
    assert seen["options"] == ServeOptions(grpc_port=8500)


def test_every_option_stands_under_a_heading_once():
    done = CliRunner().invoke(cli, ["serve", "--help"])
    for one in serve.params:
        if isinstance(one, click.Option):
            assert done.output.count(f"\n  {one.opts[-1]} ") == 1, one.opts
    for heading in (
        "Models:",
        "Limits on requests:",
        "Limits on connections:",
        "Security and logs:",
    ):
        assert heading in done.output
    chosen = done.output.partition("Models:")[2].partition("Limits on requests:")[0]
    assert "--batching-parameters-file" in chosen
