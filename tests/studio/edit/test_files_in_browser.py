"""Tests of files that are brought into the editor in a real browser: uploads, drops, folders."""

import base64
import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.browser import needs_browser
from tests.studio.edit.page import editing, said
from tests.studio.edit.test_in_browser import DOT

pytestmark = needs_browser

SHAPES = Path(__file__).resolve().parents[3] / "graphs" / "models" / "shapes"
GRAPH = f"[graph]\ngraphconf = '''{DOT}'''\n"
UNIT = '[base]\nname = "twice"\nversion = "1.0.0"\ntype = "python"\nentry = "twice@Twice"\n'
PORTS = '[input.input1]\nname = "x"\n[output.output1]\nname = "y"\n'
CODE = """import modelflow


class Twice(modelflow.FlowUnit):
    def process(self, data):
        return modelflow.Status()
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "here" / "photos.toml"
    path.parent.mkdir()
    path.write_text(GRAPH)
    return path


@pytest.fixture
def folder(tmp_path):
    """Returns a folder with a unit, which is not below the graph's folder."""
    folder = tmp_path / "elsewhere" / "twice"
    folder.mkdir(parents=True)
    (folder / "twice.toml").write_text(UNIT + PORTS)
    (folder / "twice.py").write_text(CODE)
    return folder


def _drop(page, files):
    """Drops files on the page, each a tuple of path, media type and contents."""
    packed = [(name, kind, base64.b64encode(data).decode()) for name, kind, data in files]
    page.evaluate(
        """files => {
            const data = new DataTransfer();
            for (const [name, kind, text] of files) {
                const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
                data.items.add(new File([bytes], name, { type: kind }));
            }
            const given = { bubbles: true, cancelable: true, dataTransfer: data };
            document.querySelector(".stage").dispatchEvent(new DragEvent("drop", given));
        }""",
        packed,
    )


def test_a_model_of_another_folder_is_copied_beside_the_graph(path):
    from playwright.sync_api import expect

    with editing(path) as edited:
        edited.page.keyboard.press("m")
        dialog = edited.page.get_by_role("dialog")
        dialog.locator("input[type=file]").set_input_files(SHAPES / "shapes.onnx")
        dialog.get_by_label("Only the model").check()
        dialog.get_by_role("button", name="Add to the graph").click()
        expect(edited.node("shapes")).to_be_focused()
        edited.save()
    assert (path.parent / "models" / "shapes.onnx").read_bytes() == (
        SHAPES / "shapes.onnx"
    ).read_bytes()
    assert (path.parent / "units" / "shapes" / "shapes.toml").exists()
    assert 'dir = ["units"]' in path.read_text()


def test_a_file_that_is_no_model_is_refused_with_the_reason(path):
    from playwright.sync_api import expect

    (path.parent / "bad.onnx").write_bytes(b"no model")
    with editing(path, refusals=("422",)) as edited:
        edited.page.keyboard.press("m")
        edited.page.locator("[data-model='bad.onnx']").click()
        expect(edited.page.get_by_role("dialog").get_by_role("alert")).to_contain_text("bad.onnx")
        expect(edited.page.locator("[data-model='bad.onnx']")).to_be_visible()  # choose another


def test_a_dropped_model_opens_its_settings(path):
    from playwright.sync_api import expect

    with editing(path) as edited:
        _drop(edited.page, [("shapes.onnx", "", (SHAPES / "shapes.onnx").read_bytes())])
        dialog = edited.page.get_by_role("dialog", name="Bring in models/shapes.onnx")
        expect(dialog.get_by_label("width")).to_have_value("24")


def test_dropped_pictures_are_samples_for_a_run(path):
    from playwright.sync_api import expect

    with editing(path) as edited:
        _drop(edited.page, [("a.png", "image/png", b"1"), ("b.png", "image/png", b"2")])
        dialog = edited.page.get_by_role("dialog", name="Run the graph")
        expect(dialog).to_contain_text("a.png, b.png")


def test_a_chosen_folder_of_units_is_copied_and_added(path, folder):
    from playwright.sync_api import expect

    with editing(path) as edited:
        edited.page.get_by_role("button", name="A folder of units…").click()
        dialog = edited.page.get_by_role("dialog")
        dialog.locator("input[type=file]").set_input_files(folder)
        said(edited, "twice")
        expect(edited.page.locator("[data-unit=twice]")).to_be_visible()
        edited.save()
    assert (path.parent / "units" / "twice" / "twice.py").read_text() == CODE


def test_a_folder_of_units_beside_the_graph_is_added_by_a_click(path, folder):
    from playwright.sync_api import expect

    shutil.copytree(folder.parent, path.parent / "mine")
    with editing(path) as edited:
        edited.page.get_by_role("button", name="A folder of units…").click()
        edited.page.locator("[data-folder=mine]").click()
        said(edited, "added the folder mine with twice")
        expect(edited.page.locator("[data-unit=twice]")).to_be_visible()
        expect(edited.source).to_have_value(GRAPH + '\n[driver]\ndir = ["mine"]\n')


def _write_units(folder):
    """Writes a folder with two units, a hidden file and a cache."""
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}.toml").write_text((UNIT + PORTS).replace("twice", name))
        (folder / name / f"{name}.py").write_text(CODE)
    (folder / ".DS_Store").write_bytes(b"1")
    (folder / "one" / "__pycache__").mkdir()
    (folder / "one" / "__pycache__" / "one.pyc").write_bytes(b"1")
    (folder / "about.md").write_text("Two units.")


def test_a_folder_of_several_units_is_added_without_its_hidden_files(path, tmp_path):
    from playwright.sync_api import expect

    _write_units(tmp_path / "mine")
    with editing(path) as edited:
        edited.page.get_by_role("button", name="A folder of units…").click()
        dialog = edited.page.get_by_role("dialog")
        dialog.locator("input[type=file]").set_input_files(tmp_path / "mine")
        said(edited, "added the folder units/mine with one, two")
        expect(edited.source).to_have_value(GRAPH + '\n[driver]\ndir = ["units/mine"]\n')
    copied = {file.name for file in (path.parent / "units").rglob("*") if file.is_file()}
    assert copied == {"about.md", "one.toml", "one.py", "two.toml", "two.py"}


def test_dropped_labels_and_a_model_open_the_model(path):
    with editing(path) as edited:
        labels = ("names.txt", "text/plain", b"a\nb\nc\n")
        _drop(edited.page, [labels, ("shapes.onnx", "", (SHAPES / "shapes.onnx").read_bytes())])
        edited.page.get_by_role("dialog", name="Bring in models/shapes.onnx").wait_for()


def test_the_dropped_files_of_a_unit_are_added(path):
    with editing(path) as edited:
        code = ("twice.py", "text/x-python", CODE.encode())
        _drop(edited.page, [code, ("twice.toml", "application/toml", (UNIT + PORTS).encode())])
        said(edited, "added the units twice")


def test_a_double_click_brings_a_model_in_once(path):
    from playwright.sync_api import expect

    shutil.copy(SHAPES / "shapes.onnx", path.parent)
    with editing(path) as edited:
        edited.page.keyboard.press("m")
        edited.page.locator("[data-model='shapes.onnx']").click()
        edited.page.get_by_label("Only the model").check()
        edited.page.get_by_role("button", name="Add to the graph").dblclick()
        expect(edited.node("shapes")).to_be_focused()
        edited.save()
        expect(edited.node("shapes_2")).to_have_count(0)


def test_the_request_of_odd_names_is_one_command(tmp_path):
    path = tmp_path / "it's a.toml"
    graph = DOT.replace("input", "\"the 'in'\"").replace("type=\"the 'in'\"", "type=input")
    path.write_text(f'[graph]\ngraphconf = """{graph}"""\n')
    with editing(path) as edited:
        edited.page.get_by_role("button", name="Serve…").click()
        serve, request = (
            shlex.split(edited.page.locator(f"[data-command={name}]").inner_text())
            for name in ("command", "request")
        )
    assert serve == ["modelflow", "serve", str(path)]
    assert json.loads(request[-2]) == {"the 'in'": "..."}
    assert request[-1] == "http://127.0.0.1:8501/v2/models/it's%20a/generate"


def test_a_conflict_waits_until_the_form_of_a_model_is_closed(path):
    from playwright.sync_api import expect

    shutil.copy(SHAPES / "shapes.onnx", path.parent)
    with editing(path) as edited:
        edited.source.fill(GRAPH + "# mine\n")
        edited.page.locator(".dirty:not(.hidden)").wait_for()
        edited.page.get_by_role("button", name="A model…").click()
        edited.page.locator("[data-model]").click()
        form = edited.page.get_by_role("dialog", name="Bring in shapes.onnx")
        form.get_by_label("width").fill("48")
        path.write_text(GRAPH + "# theirs\n")
        with edited.page.expect_response("**/api/stand*"):
            edited.page.evaluate("dispatchEvent(new Event('focus'))")
        expect(form.get_by_label("width")).to_have_value("48")
        edited.page.keyboard.press("Escape")
        expect(edited.page.get_by_role("dialog")).to_contain_text("Another program changed")
