"""Tests of the flags of other servers."""

from pathlib import Path

import click
import pytest

from modelflow.cli.main import cli, main
from modelflow.cli.serve.other_servers import COUNTERPARTS

HERE = Path(__file__).parents[2] / "docs" / "how-to"


def told_of(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(["serve", *arguments])
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_each_flag_of_tensorflow_serving_is_told_its_counterpart(capsys):
    flags = ["--model_base_path=/m", "--rest_api_port=8501", "--model_name=x", "--port=8500"]
    flags += ["--model_config_file=f", "--enable_batching", "--batching_parameters_file", "b"]
    flags += ["--monitoring_config_file=m", "--tensorflow_session_parallelism=4"]
    flags += ["--grpc_channel_arguments=a=1"]
    told = told_of(capsys, *flags)
    assert "No such option '--model_base_path'. Flags of TensorFlow Serving or Triton" in told
    for flag in (text.partition("=")[0] for text in flags if text.startswith("--")):
        assert f"\n  {flag}: {COUNTERPARTS[flag]}\n" in told


def test_flags_of_triton_have_dashes(capsys):
    told = told_of(capsys, "--model-repository=/m", "--http-port", "8000", "--poll=3")
    assert "\n  --model-repository: FOLDER, an argument\n  --http-port: --http 0.0.0.0:8000" in told
    assert "--poll" not in told


def test_another_unknown_flag_is_told_as_ever(capsys):
    told = told_of(capsys, "--max-bdy=3")
    assert "No such option '--max-bdy'. (Did you mean" in told


def test_what_is_named_as_a_counterpart_is_an_option():
    serve = cli.get_command(click.Context(cli), "serve")
    known = {name for one in (*serve.params, *cli.params) for name in one.opts}
    for flag, text in COUNTERPARTS.items():
        words = [word.strip(",") for word in text.split() if word.startswith("--")]
        assert set(words) <= known, flag


def test_each_flag_of_the_page_has_a_counterpart():
    rows = (
        (HERE / "move_from_tensorflow_serving.md")
        .read_text()
        .split("## Flags")[1]
        .split("\n## ")[0]
        .splitlines()
    )
    rows = [row for row in rows if row.startswith("| `--")]
    names = [part for row in rows for part in row.partition(" | ")[0].split("`")[1::2]]
    flags = {name.partition("=")[0] for name in names if name.startswith("--")}
    assert flags <= COUNTERPARTS.keys()
