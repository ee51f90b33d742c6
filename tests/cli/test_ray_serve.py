"""Tests of the files that ``modelflow ray serve`` sends to the machines of its servers."""

import pytest
from click.testing import CliRunner

from modelflow.cli.main import cli
from modelflow.cli.ray.serve import _send_files
from modelflow.errors import ConfigError

GIVEN = {"drain_delay": 5.0, "on": "processes", "share": None}


GRAPH = """digraph {{ input [type=input] mean [flowunit=mean, mean="{0},{0},{0}"]
output [type=output] input -> mean -> output }} // mean={0}
"""


def packed(folder, text):
    (folder / "app.dot").write_text(GRAPH.format(text))
    words = ["pack", str(folder / "app.dot"), "-o", str(folder / "app.mfz")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output


def test_archives_of_one_name_in_two_folders_are_two_archives(tmp_path):
    words, contents = [], {}
    for model, text in (("one", "1"), ("two", "2"), ("again", "1")):
        folder = tmp_path / model
        folder.mkdir()
        packed(folder, text)
        contents[model] = (folder / "app.mfz").read_bytes()
        words.append(f"{model}={folder / 'app.mfz'}")
    assert contents["one"] == contents["again"] != contents["two"]
    sent, archives = _send_files(words, GIVEN, "name")
    models = dict(word.split("=") for word in sent if not word.startswith("-"))
    found = {model: archives[name].read_bytes() for model, name in models.items()}
    assert found == contents


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.unlink(), "app.mfz: cannot be read: No such file or directory"),
        (lambda path: path.write_bytes(path.read_bytes()[:500]), "is cut off after 500 bytes"),
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b"mean=1", b"mean=2", 1)),
            "cannot be read (Bad CRC-32",
        ),
    ],
)
def test_an_archive_that_is_not_whole_is_told_before_a_cluster_is_asked(tmp_path, change, said):
    packed(tmp_path, "1")
    change(tmp_path / "app.mfz")
    command = ["ray", "serve", str(tmp_path / "app.mfz"), "--address", "127.0.0.1:1"]
    done = CliRunner().invoke(cli, command)
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)


def test_an_option_that_serve_has_not_is_a_wrong_use_of_this_command():
    command = ["ray", "serve", "app.mfz", "--address", "127.0.0.1:1", "--max-bdy", "3"]
    done = CliRunner().invoke(cli, command, prog_name="modelflow")
    assert done.exit_code == 2
    assert "Usage: modelflow ray serve [OPTIONS] [NAME=]SOURCE" in done.output
    assert "--max-bdy" in done.output
