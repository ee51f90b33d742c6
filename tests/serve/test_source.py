"""Tests of the sources that a path names."""

import os
from pathlib import Path

import numpy as np
import pytest

from modelflow.errors import ConfigError
from modelflow.graph.signature import signature_of
from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.repository.source import (
    ModelConfig,
    ModelSettings,
    content_of,
    is_repository,
    is_source,
    read_policy,
)
from tests.serve.models_on_disk import GRAPH, write_model, write_version


@pytest.fixture
def folder(tmp_path):
    """Returns a folder with a graph, a model, versions, a graph's folder, and other entries."""
    (tmp_path / "upper.dot").write_text(GRAPH % "units:upper")
    write_model(tmp_path / "times.onnx", 3)
    write_version(write_version(tmp_path / "many", 2), 10)
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "graph.toml").write_text("")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "README.md").write_text("models")
    return tmp_path


def test_a_path_is_a_graph_a_model_versions_or_a_folder_of_those(folder):
    assert content_of(folder / "upper.dot") == folder / "upper.dot"
    assert content_of(folder / "times.onnx") == folder / "times.onnx"
    assert content_of(folder / "whole") == folder / "whole" / "graph.toml"
    assert content_of(folder / "README.md") is None
    assert is_source(folder / "many")
    assert not is_source(folder)
    assert is_repository(folder)
    assert not is_repository(folder / "many")
    assert not is_repository(folder / "upper.dot")


def test_a_folder_stands_for_what_is_in_it_and_names_it(folder, caplog):
    catalogue = ServeConfig(repositories=[folder])
    catalogue.check()
    assert set(catalogue.read()) == {"many", "times", "upper", "whole"}
    assert f"{folder / 'nothing'}: holds nothing to serve" in caplog.text


def test_a_name_that_no_client_could_write_is_passed_over_or_refused(folder, caplog):
    odd = os.fsdecode(os.fsencode(folder) + b"/\xff.onnx")
    (folder / "times.onnx").rename(odd)
    catalogue = ServeConfig(repositories=[folder])
    catalogue.check()
    assert set(catalogue.read()) == {"many", "upper", "whole"}
    assert "no name that is UTF-8" in caplog.text
    with pytest.raises(ConfigError, match="give it another: NAME=PATH"):
        ServeConfig({Path(odd).stem: odd}).check()
    ServeConfig({"times": odd}).check()


def test_models_come_and_go_in_a_folder(folder):
    catalogue = ServeConfig(repositories=[folder])
    before = set(catalogue.read())
    write_model(folder / "more.onnx", 1)
    (folder / "upper.dot").unlink()
    assert set(catalogue.read()) == (before | {"more"}) - {"upper"}


def numbers(path, versions):
    source = ModelConfig("m", path, ModelSettings(policy=read_policy(versions)))
    return [edition.number for edition in source.list_versions()]


def test_versions_are_those_of_the_policy_and_what_has_none_is_version_1(folder):
    assert numbers(folder / "many", "latest") == [10]
    assert numbers(folder / "many", "all") == [2, 10]
    assert numbers(folder / "many", "2,3") == [2, 3]
    assert numbers(folder / "times.onnx", "latest") == [1]


def test_an_edition_has_another_stamp_when_its_files_are_others(folder):
    source = ModelConfig("m", folder / "many")
    (before,) = source.list_versions()
    assert source.list_versions()[0].stamp == before.stamp
    (folder / "many" / "10" / "more").write_text("x")
    assert source.list_versions()[0].stamp != before.stamp


def test_a_model_is_a_graph_whose_ends_have_the_names_of_its_ports(folder):
    (edition,) = ModelConfig("m", folder / "times.onnx").list_versions()
    with edition.open() as flow:
        signature = signature_of(flow.graph, flow.scheduler)
        assert [port.name for port in signature.inputs] == ["x"]
        assert [port.name for port in signature.outputs] == ["y"]
        assert flow.infer(np.ones(2, np.float32)).data.tolist() == [3.0, 3.0]


def test_a_graph_that_takes_nothing_is_no_model(tmp_path):
    path = tmp_path / "photos.dot"
    path.write_text(
        "digraph { files [flowunit=file_source, path=x] out [type=output] files -> out }"
    )
    (edition,) = ModelConfig("m", path).list_versions()
    with pytest.raises(ConfigError, match=r"photos.dot: .* no input.*modelflow run"):
        edition.open()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("gone.toml", "gone.toml: there is no such file or folder; expected a graph file or a mod"),
        ("uper.dot", "uper.dot: there is no such file or folder; did you mean 'upper.dot'"),
        ("README.md", "README.md: neither a graph nor a model; expected a graph file, a model"),
        ("iris.pkl", "iris.pkl is a Python pickle: modelflow new model iris --for sklearn writes"),
        (
            "nothing",
            "nothing: a folder without anything to serve; expected a graph file, a model, or a",
        ),
    ],
)
def test_what_cannot_be_served_says_what_could(folder, path, text):
    (folder / "iris.pkl").touch()
    with pytest.raises(ConfigError, match=text):
        ServeConfig({"m": folder / path}).check()


def test_a_name_near_that_of_a_ready_graph_is_told_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"folder; did you mean 'detect_classify'\?; expected"):
        ServeConfig({"m": Path("detect_clasify")}).check()
    with pytest.raises(ConfigError, match="folder; expected a graph file"):
        ServeConfig({"m": tmp_path / "detect_clasify"}).check()


def test_a_folder_of_models_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ConfigError, match="gone: there is no such folder"):
        ServeConfig(repositories=[tmp_path / "gone"]).read()


def test_two_of_one_name_are_told_with_both_paths(folder):
    catalogue = ServeConfig({"times": folder / "upper.dot"}, [folder])
    with pytest.raises(ConfigError, match=r"'times': .*upper\.dot and .*times\.onnx; give one"):
        catalogue.read()


def test_a_label_of_no_model_names_the_nearest(folder):
    catalogue = ServeConfig({"many": folder / "many"}, labels={"mani": {"stable": 2}})
    with pytest.raises(ConfigError, match="'mani': there is no such model; did you mean 'many'"):
        catalogue.check()
    assert set(catalogue.read()) == {"many"}  # a model with a label may disappear
