"""Tests of the models, folders of units and label files that the editor lists."""

import os
import shutil

import pytest

from modelflow.starters.ready import ready_graphs
from modelflow.studio.edit.models import places as module

UNIT = '[base]\nname = "{name}"\ntype = "python"\nentry = "{name}@X"\n'


def unit(folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(UNIT.format(name=name))


def listed(client):
    answer = client.ask("places")
    assert answer["complete"] is True
    return answer


def test_models_of_all_engines_and_label_files_are_listed(client, home):
    (home / "saved" / "variables").mkdir(parents=True)
    (home / "saved" / "saved_model.pb").write_bytes(b"12345")
    (home / "net.pt").write_bytes(b"1")
    (home / "net.xml").write_text("<net/>")
    (home / "net.bin").write_bytes(b"1")
    (home / "net.keras").write_bytes(b"1")
    (home / "notes.txt").write_text("One line only\n")
    (home / "book.txt").write_text("A title\n\nand a paragraph behind an empty line\n")
    (home / "requirements.txt").write_text("numpy\nonnx\n")
    answer = listed(client)
    models = {one["path"]: one["bytes"] for one in answer["models"]}
    assert list(models) == [
        *("models/shape_detect.onnx", "models/shapes.onnx"),
        *("net.keras", "net.pt", "net.xml", "saved"),
    ]
    assert models["saved"] == 5
    assert models["models/shapes.onnx"] == (home / "models/shapes.onnx").stat().st_size
    assert answer["labels"] == ["models/names.txt"]
    assert answer["folders"] == []


def test_the_versions_of_a_model_are_one_model(client, home):
    for number in "1", "2":
        (home / "net" / number).mkdir(parents=True)
        shutil.copy(home / "models/shapes.onnx", home / "net" / number / "model.onnx")
    assert "net" in [one["path"] for one in listed(client)["models"]]
    assert not [one for one in listed(client)["models"] if one["path"].startswith("net/")]
    assert client.bring("net", "classify")["added"][3] == "net"


def test_folders_of_units_are_listed_until_the_graph_names_them(client, home):
    unit(home / "units" / "one", "one")
    unit(home / "units" / "two", "two")
    unit(home / "more", "three")
    unit(home / "more", "four")
    (home / "other.toml").write_text("[graph]\ngraphconf = 'digraph { }'\n")
    (home / "broken.toml").write_text("[base\n")
    assert listed(client)["folders"] == [
        {"path": "more", "units": ["four", "three"]},
        {"path": "units", "units": ["one", "two"]},
    ]
    answer = client.ask("folder", path="more")
    assert answer["units"] == ["four", "three"]
    client.text = answer["text"]
    assert 'dir = ["more"]' in client.text
    assert listed(client)["folders"] == [{"path": "units", "units": ["one", "two"]}]
    client.text = client.ask("folder", path="units")["text"]
    assert 'dir = ["more", "units"]' in client.text
    for same in ("units", "units/", "more/../units", str(home / "units")):
        assert client.ask("folder", path=same)["text"] == client.text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("models", "models: has no unit; expected a folder with unit files"),
        ("..", "..: is not below"),
        ("nothing", "nothing: there is no such file or folder"),
    ],
)
def test_a_folder_without_units_is_not_added(client, path, said):
    assert client.refuse("folder", path=path).startswith(said)


def test_hidden_folders_environments_and_other_disks_are_left_out(client, home, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copy(home / "models/shapes.onnx", elsewhere)
    for name in (".git", "node_modules", "__pycache__", "env/lib"):
        (home / name).mkdir(parents=True)
        shutil.copy(home / "models/shapes.onnx", home / name)
    (home / "env" / "pyvenv.cfg").touch()
    (home / "link").symlink_to(elsewhere)
    (home / "file.onnx").symlink_to(elsewhere / "shapes.onnx")
    (home / "circle").symlink_to(home)
    (home / "models" / "same").symlink_to(home / "models")
    models = [one["path"] for one in listed(client)["models"]]
    assert models == ["models/shape_detect.onnx", "models/shapes.onnx"]
    assert "is not below" in client.refuse("model", path="file.onnx")


def test_the_walk_has_limits(client, home, monkeypatch):
    deep = home / "1st" / "2nd" / "3rd" / "4th"
    deep.mkdir(parents=True)
    shutil.copy(home / "models/shapes.onnx", deep / "deep.onnx")
    shutil.copy(home / "models/shapes.onnx", deep.parent / "high.onnx")
    answer = client.ask("places")
    paths = [one["path"] for one in answer["models"]]
    assert "1st/2nd/3rd/high.onnx" in paths
    assert (any("deep" in path for path in paths), answer["complete"]) == (False, False)
    shutil.rmtree(home / "1st")
    monkeypatch.setattr(module, "MOST_RESULTS", 1)
    assert len(client.ask("places")["models"]) == 1
    monkeypatch.setattr(module, "MOST_ENTRIES", 2)
    assert client.ask("places")["complete"] is False


def test_a_graph_whose_folder_is_not_there_yet_has_no_places(tmp_path):
    from modelflow.studio.edit.editor import Editor
    from tests.studio.edit.test_editor import asked

    with Editor(tmp_path / "new" / "graph.toml") as editor:
        status, answer = asked(editor, "places", {"text": ""})
    assert status == 200
    assert answer == {"models": [], "folders": [], "labels": [], "complete": True}


def test_the_units_of_the_ready_graphs_are_one_folder(client, home):
    shutil.copytree(ready_graphs() / "models" / "shapes", home / "shapes")
    (folder,) = listed(client)["folders"]
    assert folder["path"] == "shapes"
    assert {"shape_infer", "shape_detect", "find_shapes"} <= set(folder["units"])


def test_links_pipes_and_deep_texts_do_not_disturb_the_list(client, home):
    (home / "loop").symlink_to("loop")
    for name in ("pipe.txt", "pipe.toml", "pipe.onnx"):
        os.mkfifo(home / name)
    (home / "deep.toml").write_text(f"a = {'[' * 20_000}{']' * 20_000}")
    assert [one["path"] for one in listed(client)["models"]] == [
        *("models/shape_detect.onnx", "models/shapes.onnx"),
    ]
    assert client.bring("models/shapes.onnx", "classify")["files"] == ["units/shapes/shapes.toml"]


def test_long_texts_are_read_up_to_a_limit(client, home, monkeypatch):
    for number in range(3):
        (home / f"a{number}.txt").write_text("one\ntwo\n" * 100)
    monkeypatch.setattr(module, "MOST_TEXT", 2000)
    answer = client.ask("places")
    assert answer["labels"] == ["a0.txt", "a1.txt"]
    assert answer["complete"] is False


@pytest.mark.parametrize("task", ["model", "folder", "bring"])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a\0b", "embedded null"),
        ("\ud800", "no file can have this path"),
        ("x" * 5000, "there is no such file or folder"),
        ("loop", "there is no such file or folder"),
    ],
)
def test_paths_that_no_file_has_are_refused(client, home, task, path, said):
    (home / "loop").symlink_to("loop")
    assert said in client.refuse(task, path=path, use="plain")


@pytest.mark.parametrize("folder", ["a\\u0000b", "x" * 400, "loop"])
def test_odd_folders_of_units_stop_no_task(client, home, folder):
    (home / "loop").symlink_to("loop")
    client.text = f'[driver]\ndir = ["{folder}"]\n{client.text}'
    for task in ("look", "places", "bring"):
        status, _ = client.try_task(task, path="models/shapes.onnx", use="plain")
        assert status in (200, 422)


def test_a_folder_that_is_not_readable_is_passed_over(client, home, monkeypatch):
    (home / "closed").mkdir()
    find_reader = module.find_reader

    def find(path):
        if path.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return find_reader(path)

    monkeypatch.setattr(module, "find_reader", find)
    assert len(listed(client)["models"]) == 2
