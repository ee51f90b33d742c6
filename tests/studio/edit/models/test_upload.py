"""Tests of files that a page uploads, and of starters with models."""

import base64
import contextlib
import http.client
from urllib.parse import urlsplit

import pytest

from modelflow.studio.edit.editor import Editor
from modelflow.studio.edit.models.upload import MOST_FILES
from tests.programs import LIMIT
from tests.studio.edit.models.client import picture
from tests.studio.edit.test_editor import asked

UNIT = b'[base]\nname = "mine"\ntype = "python"\nentry = "mine@Mine"\n'


def sent(*names, data=b"bytes"):
    return [{"name": name, "base64": base64.b64encode(data).decode()} for name in names]


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        (["net.onnx"], ["models/net.onnx"]),
        (["net/1/net.onnx"], ["models/net/1/net.onnx"]),
        (["models/net.onnx"], ["models/net.onnx"]),
        (["a b.onnx", "c/d"], ["models/a b.onnx", "models/c/d"]),
    ],
)
def test_models_are_written_below_models(client, home, names, paths):
    assert client.ask("upload", files=sent(*names))["paths"] == paths
    for path in paths:
        assert (home / path).read_bytes() == b"bytes"


def test_a_folder_with_units_is_written_below_units(client, home):
    files = sent("mine/mine.toml", data=UNIT) + sent("mine/mine.py", "net.onnx")
    answer = client.ask("upload", files=files)
    assert answer["paths"] == ["units/mine/mine.toml", "units/mine/mine.py", "models/net.onnx"]
    assert client.ask("places")["folders"] == [{"path": "units", "units": ["mine"]}]
    assert client.ask("folder", path="units")["units"] == ["mine"]


def test_the_files_of_a_unit_without_a_folder_get_one(client):
    files = sent("mine.toml", data=UNIT) + sent("mine.py")
    paths = client.ask("upload", files=files)["paths"]
    assert paths == ["units/mine/mine.toml", "units/mine/mine.py"]


def test_a_model_is_uploaded_and_brought_in(client, home):
    data = (home / "models" / "shapes.onnx").read_bytes()
    (path,) = client.ask("upload", files=sent("net/net.onnx", data=data))["paths"]
    client.bring(path, "classify")
    (result,) = client.infer(picture(("square", 60, 60, 56), size=(120, 120)))
    assert result[0]["class"] == "square"


def test_the_same_file_is_reused_and_another_is_not_overwritten(client, home):
    client.ask("upload", files=sent("net.onnx"))
    assert client.ask("upload", files=sent("net.onnx"))["paths"] == ["models/net.onnx"]
    said = client.refuse("upload", files=sent("new.onnx") + sent("net.onnx", data=b"other"))
    assert said == (
        f"{home}/models/net.onnx: is there already with other contents; nothing was written. "
        "Remove or rename that file first"
    )
    assert not (home / "models" / "new.onnx").exists()
    assert (home / "models" / "net.onnx").read_bytes() == b"bytes"


def test_if_a_file_cannot_be_written_no_file_is(client, home):
    (home / "models" / "file").touch()
    said = client.refuse("upload", files=sent("new.onnx", "file/net.onnx"))
    assert "models/file/net.onnx: cannot be written: " in said
    assert not (home / "models" / "new.onnx").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("", "/net.onnx", "../net.onnx", "a/../../net.onnx", ".hidden", "a/.git/config"),
        *("a//b", "a/", "a\\b", "C:\\net.onnx", "a\0b", "a\nb", "x" * 101, "a/b/c/d/e/f", None, 1),
    ],
)
def test_names_that_lead_elsewhere_are_refused(client, home, name):
    before = sorted(home.rglob("*"))
    files = [*sent("good.onnx"), {"name": name, "base64": ""}]
    said = client.refuse("upload", files=files)
    assert said.startswith(f"files: name: got {name!r:.200}; expected a relative path of at most 5")
    assert sorted(home.rglob("*")) == before


def test_a_link_that_leads_elsewhere_is_not_followed(client, home, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (home / "models" / "link").symlink_to(elsewhere)
    said = client.refuse("upload", files=sent("link/net.onnx"))
    assert said == f"models/link/net.onnx: leads out of {home} by a link"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([], "files: got 0; expected 1 to 200"),
        (sent(*(f"f{number}" for number in range(MOST_FILES + 1))), "got 201; expected 1 to 200"),
        (sent("a", "a"), "files: got a twice; expected each name once"),
        ([{"name": "a", "base64": "%"}], "a did not arrive whole"),
        ([{"name": "a"}], "a: base64: got None; expected a text"),
        ("a", "files: expected a list of objects"),
    ],
)
def test_what_is_no_upload_is_refused(client, home, files, said):
    before = sorted(home.rglob("*"))
    assert said in client.refuse("upload", files=files)
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(("task", "most"), [("upload", 256 << 20), ("run", 256 << 20)])
def test_a_body_that_is_too_long_says_where_to_put_the_file(tmp_path, task, most):
    with Editor(tmp_path / "graph.toml") as editor:
        where = urlsplit(editor.url)
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=LIMIT)
        with contextlib.closing(connection):
            connection.putrequest("POST", f"/api/{task}?{where.query}")
            connection.putheader("content-length", str(most + 1))
            connection.endheaders()
            answer = connection.getresponse()
            assert answer.status == 413
            assert (
                f"the body has more than {most} bytes; put the file into the folder of the graph "
                "file, and choose it in the list there"
            ) in answer.read().decode()


def test_a_starter_with_models_writes_its_units(tmp_path):
    with Editor(tmp_path / "new" / "graph.toml") as editor:
        _, opened = asked(editor, "open")
        assert {"classify", "objects"} <= {one["name"] for one in opened["starters"]}
        status, view = asked(editor, "begin", {"starter": "classify"})
        assert (status, view["findings"]) == (200, [])
        files = ("names.txt", "shape_infer.toml", "shapes.onnx")
        assert view["files"] == [
            *(f"pictures/{name}.png" for name in ("circle", "square", "triangle")),
            *(f"units/shape_infer/{name}" for name in files),
        ]
        assert all((tmp_path / "new" / file).is_file() for file in view["files"])
        assert not (tmp_path / "new" / "graph.toml").exists()
        _, view = asked(editor, "begin", {"starter": "objects"})
        assert (view["findings"], len(view["files"])) == ([], 3)
        assert asked(editor, "begin", {"starter": "empty"})[1]["files"] == []
        (tmp_path / "new" / "units" / "shape_infer" / "names.txt").write_text("mine\n")
        status, found = asked(editor, "begin", {"starter": "classify"})
        assert status == 422
        assert "names.txt: is there already with other contents" in found["error"]


def test_starters_with_models_are_not_offered_for_dot(tmp_path):
    with Editor(tmp_path / "graph.dot") as editor:
        starters = {one["name"] for one in asked(editor, "open")[1]["starters"]}
    assert "images" in starters
    assert not {"classify", "objects"} & starters


def test_a_starter_is_not_written_where_a_link_leads(tmp_path, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tmp_path / "units").symlink_to(elsewhere)
    with Editor(tmp_path / "new.toml") as editor:
        status, found = asked(editor, "begin", {"starter": "objects"})
    assert status == 422
    assert f"leads out of {tmp_path} by a link" in found["error"]
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ({"name": "\U0001f600" * 99, "base64": ""}, "cannot be written: File name too long"),
        ({"name": "a.onnx", "base64": "\u00e9"}, "a.onnx did not arrive whole"),
    ],
)
def test_what_cannot_be_a_file_is_refused(client, home, file, said):
    assert said in client.refuse("upload", files=[file])
    assert sorted(path.name for path in (home / "models").iterdir()) == [
        *("names.txt", "shape_detect.onnx", "shapes.onnx"),
    ]
