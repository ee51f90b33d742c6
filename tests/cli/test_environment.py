"""Tests of environment variables for graphs, against command line, file and archive."""

import base64
import json
import sys
from pathlib import Path

import click
import cv2
import numpy as np
import pytest

from modelflow.cli.main import cli
from tests import programs

SIZES = """
[args.width]
default = 8
[graph]
graphconf = '''digraph {
    input  [type=input]
    decode [flowunit=image_decoder, scaled_decode=false]
    %s [flowunit=resize, image_width="$width", image_height=6]
    output [type=output]
    input -> decode -> %s -> output
}'''
"""


@pytest.fixture
def shape(modelflow_here, monkeypatch):
    """Runs the graph on a picture; returns the shape of the result, and the messages."""

    def run(*arguments, graph="small.toml", **variables):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            done = modelflow_here("run", graph, "--input", "photos/9.png", "--full", *arguments)
        if done.returncode:
            return None, done.stderr
        png = base64.b64decode(json.loads(done.stdout)["data"]["png"])
        picture = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
        return list(picture.shape[:2]), done.stderr

    return run


def test_a_variable_wins_over_the_file_and_loses_to_the_command_line(shape):
    assert shape()[0] == [6, 8]
    found, told = shape(MODELFLOW_SET="shrink.image_height=5", MODELFLOW_ARG="width=4")
    assert found == [5, 4]
    assert "note: environment: MODELFLOW_SET: shrink.image_height=5" in told
    assert "note: environment: MODELFLOW_ARG: width=4" in told
    found, told = shape(
        "--set", "shrink.image_height=3", "--arg", "width=2", "-q",
        MODELFLOW_SET="shrink.image_height=5", MODELFLOW_ARG="width=4",
    )  # fmt: skip
    assert (found, told) == ([3, 2], "")


def test_a_variable_wins_over_an_archive(shape, modelflow_here, folder, monkeypatch):
    monkeypatch.setenv("MODELFLOW_CACHE", str(folder / "cache"))
    modelflow_here(
        "pack", "small.toml", "-o", "a.mfz", "--arg", "width=7", "--set", "shrink.image_height=9",
        check=True,
    )  # fmt: skip
    assert shape(graph="a.mfz")[0] == [9, 7]
    assert shape(graph="a.mfz", MODELFLOW_SET="shrink.image_height=5")[0] == [5, 7]
    assert shape("--arg", "width=3", graph="a.mfz", MODELFLOW_ARG="width=4")[0] == [9, 3]


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("SET", "shrnk.image_height=1", "there is no node 'shrnk'; did you mean 'shrink'?"),
        ("ARG", "widht=1", "there is no argument 'widht'; did you mean 'width'?"),
        ("SET", "shrink.image_hight=1", "image_hight"),
        ("SET", "shrink.image_height=wide", "(set by MODELFLOW_SET)"),
        ("SET", "shrink", "got 'shrink'; expected NODE.KEY=VALUE"),
        ("SET__shrink__image_height", "1", "give MODELFLOW_SET='shrink.image_height=VALUE'"),
        ("ARG__width", "1", "give MODELFLOW_ARG='width=VALUE'"),
    ],
)
def test_a_variable_that_is_wrong_is_named(shape, name, value, what):
    found, told = shape(**{f"MODELFLOW_{name}": value})
    assert found is None
    error = next(line for line in told.splitlines() if not line.startswith("note:"))
    assert f"MODELFLOW_{name}" in error
    assert what in error


def test_an_option_of_the_environment_is_told(shape):
    _, told = shape(MODELFLOW_RUN_KEEP_GOING="1")
    assert "note: environment: MODELFLOW_RUN_KEEP_GOING is --keep-going" in told


def test_of_several_served_models_those_that_it_fits_take_a_setting(
    modelflow_here, folder, monkeypatch
):
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(SIZES % (name, name))
    models = ["serve", "one.toml", "two.toml", "--describe"]
    monkeypatch.setenv("MODELFLOW_SET", "two.image_height=5")
    monkeypatch.setenv("MODELFLOW_ARG", "width=4")
    done = modelflow_here(*models, check=True)
    assert "note: environment: MODELFLOW_SET: two.image_height=5" in done.stderr
    monkeypatch.setenv("MODELFLOW_SET", "two.image_height=tall")
    wrong = modelflow_here(*models)
    assert wrong.stderr.count("(set by MODELFLOW_SET)") == 1
    monkeypatch.setenv("MODELFLOW_SET", "twi.image_height=5")
    none = modelflow_here(*models)
    assert none.returncode == 1
    assert (
        "MODELFLOW_SET: no model that is served has a node 'twi'; did you mean 'two'?"
        in none.stderr
    )


def test_what_ends_a_command_at_once_does_not_come_by_the_environment(modelflow_here, monkeypatch):
    for name in ("VERSION", "HELP", "CHECK_HELP"):
        monkeypatch.setenv(f"MODELFLOW_{name}", "1")
    done = modelflow_here("check", "small.toml")
    assert done.returncode == 0, done.stderr
    assert "small" in done.stdout
    monkeypatch.setenv("MODELFLOW_VERSION", "0.1.0")
    assert modelflow_here("check", "small.toml").returncode == 0


def options(command, words=()):
    for option in command.params:
        if isinstance(option, click.Option) and not (option.is_eager and option.is_flag):
            yield [*words, max(option.opts, key=len).lstrip("-")], option
    for name, inner in getattr(command, "commands", {}).items():
        yield from options(inner, (*words, name))


@pytest.mark.parametrize("order", [("run", "ray"), ("ray", "run")])
def test_a_command_that_has_the_options_of_another_has_variables_of_its_own(order):
    code = f"""if True:
        import click
        from modelflow.cli.main import cli
        context = click.Context(cli)
        found = dict((name, cli.get_command(context, name)) for name in {order})
        for command in (found["run"], found["ray"].commands["run"]):
            print(*next(one.envvar for one in command.params if "--set" in one.opts))
    """
    done = programs.run([sys.executable, "-c", code], check=True)
    assert done.stdout.splitlines() == ["MODELFLOW_RUN_SET", "MODELFLOW_RAY_RUN_SET"]


def test_each_option_comes_from_the_variable_of_its_longest_name():
    for words, option in options(cli):
        expected = "_".join(["MODELFLOW", *words]).upper().replace("-", "_")
        assert option.envvar in ([expected], [expected, "RAY_ADDRESS"])


def test_options_that_may_be_repeated_come_under_the_names_that_users_write(
    modelflow_here, monkeypatch
):
    monkeypatch.setenv("MODELFLOW_RUN_INPUT", "photos/9.png")
    monkeypatch.setenv("MODELFLOW_RUN_OUTPUT", "o.jsonl")
    monkeypatch.setenv("MODELFLOW_RUN_SET", "shrink.image_height=3 shrink.image_width=2")
    monkeypatch.setenv("MODELFLOW_RUN_ERRORS", "bad.jsonl")
    done = modelflow_here("run", "small.toml", check=True)
    assert "note: environment: MODELFLOW_RUN_ERRORS is --errors" in done.stderr
    assert json.loads(Path("o.jsonl").read_text())["data"]["shape"] == [3, 2, 3]
    assert Path("bad.jsonl").exists()


def test_a_variable_that_names_no_option_is_told(modelflow_here, monkeypatch):
    monkeypatch.setenv("MODELFLOW_RUN_INPUTS", "photos/9.png")
    monkeypatch.setenv("MODELFLOW_UNITS_X", "1")
    run = ["run", "small.toml", "--input", "photos"]
    note = (
        "note: environment: MODELFLOW_RUN_INPUTS names no option and has no effect; did you mean "
        "'MODELFLOW_RUN_INPUT'?\n"
    )
    done = modelflow_here(*run)
    assert note in done.stderr
    assert "UNITS_X" not in done.stderr
    assert modelflow_here(*run, "-q").stderr == ""
    assert "note: environment: MODELFLOW_UNITS_X names no option" in modelflow_here("units").stderr
