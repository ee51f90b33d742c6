"""Tests of the ways from an empty page to answers, by mouse alone and by keyboard alone."""

import json
import re
import shlex
import shutil
import subprocess
import urllib.request
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.browser import needs_browser
from tests.programs import started
from tests.studio.edit.page import editing, said

pytestmark = needs_browser

SHAPES = Path(__file__).resolve().parents[3] / "graphs" / "models" / "shapes"
MOST_TABS = 200
READY = re.compile(r"^serves shapes at (http://[\d.:]+)")


@pytest.fixture
def path(tmp_path):
    """Returns the path of a graph that does not exist, in a folder with two models."""
    for name in ("shapes.onnx", "shape_detect.onnx", "names.txt"):
        shutil.copy(SHAPES / name, tmp_path)
    return tmp_path / "shapes.toml"


@pytest.fixture
def pictures(tmp_path):
    """Returns a picture of a circle, and a picture of a square."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    shapes = {name: np.full((48, 48, 3), 30, np.uint8) for name in ("circle", "square")}
    cv2.circle(shapes["circle"], (24, 24), 20, (240, 200, 180), cv2.FILLED, cv2.LINE_AA)
    cv2.rectangle(shapes["square"], (5, 5), (43, 43), (120, 220, 250), cv2.FILLED)
    for name, picture in shapes.items():
        cv2.imwrite(str(folder / f"{name}.png"), picture)
    return [folder / f"{name}.png" for name in shapes]


@pytest.fixture
def scene(tmp_path):
    """Returns a picture with a circle on the left and a square on the right."""
    picture = np.full((240, 320, 3), 30, np.uint8)
    cv2.circle(picture, (80, 70), 30, (240, 200, 180), cv2.FILLED, cv2.LINE_AA)
    cv2.rectangle(picture, (190, 130), (250, 190), (120, 220, 250), cv2.FILLED, cv2.LINE_AA)
    path = tmp_path / "scene.png"
    cv2.imwrite(str(path), picture)
    return path


class Mouse:
    """A user with the mouse alone."""

    def __init__(self, page):
        self.page = page

    def press(self, locator):
        """Clicks on an element."""
        locator.click()

    def choose_files(self, locator, files):
        """Opens the chooser of a file field, and chooses files."""
        with self.page.expect_file_chooser() as chooser:
            self.press(locator)
        chooser.value.set_files(files)


class Keyboard:
    """A user with the keyboard alone."""

    def __init__(self, page):
        self.page = page

    def press(self, locator):
        """Goes to an element with Tab, and presses Enter."""
        locator.click(trial=True)  # waits until no dialog covers the element, and does not click
        for _ in range(MOST_TABS):
            if locator.evaluate("one => one.contains(document.activeElement)"):
                break
            self.page.keyboard.press("Tab")
        else:
            pytest.fail(f"no way by Tab to {locator}")
        self.page.keyboard.press("Enter")

    def choose_files(self, locator, files):
        """Opens the chooser of a file field, and chooses files."""
        with self.page.expect_file_chooser() as chooser:
            self.press(locator)
        chooser.value.set_files(files)


@pytest.fixture(params=[Mouse, Keyboard])
def hand(request):
    return request.param


def _button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def _bring(user, model):
    user.press(_button(user.page, "A model…"))
    user.press(user.page.locator(f"[data-model='{model}']"))
    user.press(_button(user.page, "Add to the graph"))
    user.page.get_by_role("dialog").wait_for(state="detached")


def _run(user, files):
    page = user.page
    user.press(_button(page, "Run"))
    dialog = page.get_by_role("dialog", name="Run the graph")
    user.choose_files(dialog.locator("input[type=file]"), files)
    user.press(dialog.get_by_role("button", name="Run", exact=True))
    page.locator("[data-run=done]").wait_for()
    user.press(_button(page, "Show results"))


def _answers(page, count):
    """Returns the shown results: the name of the file, the number of pictures, and the text."""
    from playwright.sync_api import expect

    values = page.locator(".value")
    expect(values).to_have_count(count)
    expect(values.locator("figure img")).to_have_count(count)
    return {
        value.locator("figcaption").text_content(): value.locator(".tree").first.text_content()
        for value in values.all()
    }


def test_pictures_are_classified(hand, path, pictures):
    with editing(path) as edited:
        user = hand(edited.page)
        user.press(edited.page.locator("[data-starter=empty]"))
        _bring(user, "shapes.onnx")
        _run(user, pictures)
        answers = _answers(edited.page, 2)
    for name in ("circle", "square"):
        assert re.search(r'class: "(\w+)"', answers[f"{name}.png"])[1] == name


@pytest.mark.parametrize(
    ("starter", "expected"),
    [
        ("classify", {"circle": ["circle"], "square": ["square"], "triangle": ["triangle"]}),
        ("objects", {"scene": ["circle", "square", "triangle"]}),
    ],
)
def test_a_starter_answers_for_its_own_pictures_at_once(hand, tmp_path, starter, expected):
    with editing(tmp_path / "new" / "first.toml") as edited:
        user = hand(edited.page)
        user.press(edited.page.locator(f"[data-starter={starter}]"))
        said(edited, "created pictures/")
        _run(user, sorted((tmp_path / "new" / "pictures").glob("*.png")))
        answers = _answers(edited.page, len(expected))
    for name, classes in expected.items():
        found = re.findall(r'class: "(\w+)"', answers[f"{name}.png"])
        assert (found[:1] if starter == "classify" else sorted(found)) == classes


def test_the_objects_of_a_detector_are_classified(hand, path, scene):
    with editing(path) as edited:
        user = hand(edited.page)
        user.press(edited.page.locator("[data-starter=empty]"))
        _bring(user, "shape_detect.onnx")
        _bring(user, "shapes.onnx")
        _run(user, [scene])
        (answer,) = _answers(edited.page, 1).values()
        user.press(_button(edited.page, "Save"))
        edited.page.locator("[data-said]", has_text="saved").wait_for()
    assert sorted(re.findall(r'class: "(\w+)"', answer)) == ["circle", "square"]
    boxes = [json.loads(box) for box in re.findall(r"box: (\[[^\]]+\])", answer)]
    assert sorted(round(x + w / 2, -1) for x, _, w, _ in boxes) == [80, 220]
    assert "flowunit=crop_boxes" in path.read_text()


def test_the_copied_command_serves_the_graph(hand, path, pictures, tmp_path):
    with editing(path, permissions=["clipboard-read", "clipboard-write"]) as edited:
        page = edited.page
        user = hand(page)
        user.press(page.locator("[data-starter=empty]"))
        _bring(user, "shapes.onnx")
        user.press(_button(page, "Serve…"))
        user.press(_button(page, "Save the file"))
        _button(page, "Save the file").wait_for(state="detached")
        user.press(_button(page, "Copy the command"))
        page.get_by_role("dialog").get_by_text("copied", exact=True).wait_for()
        command = page.evaluate("navigator.clipboard.readText()")
        user.press(_button(page, "Copy the request"))
        page.get_by_role("dialog").get_by_text("copied", exact=True).nth(1).wait_for()
        request = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    assert shlex.split(command) == ["modelflow", "serve", str(path)]
    assert request[:2] == ["curl", "-H"]
    free = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    streams = {"stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    with started([*shlex.split(command), *free], **streams) as process:
        address = next(found[1] for line in process.stderr if (found := READY.search(line)))
        url = address + request[-1].removeprefix("http://127.0.0.1:8501")
        header, value = request[2].split(": ")
        asked = urllib.request.Request(url, pictures[1].read_bytes(), {header: value})
        with urllib.request.urlopen(asked) as answer:
            found = json.load(answer)
    best, *_ = next(iter(found.values()))
    assert best["class"] == "square"
