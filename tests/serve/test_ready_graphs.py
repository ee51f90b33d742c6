"""Tests of the ready graphs, served unchanged, and called in every way of a client."""

import base64
import importlib
import json
import re

import cv2
import numpy as np
import pytest

from modelflow.serve.server import ServeOptions, Server
from modelflow.starters.ready import ready_graphs
from tests.serve.clients import ask, send

pytest.importorskip("tensorflow")
DIGITS = ready_graphs() / "models" / "digits" / "samples"
SHAPES = ready_graphs() / "models" / "shapes"


@pytest.fixture(scope="module")
def server():
    names = ("digit", "detect_classify", "sentiment")
    graphs = {name: ready_graphs() / f"{name}.toml" for name in names}
    with Server(graphs, ServeOptions(http_port=0)) as running:
        yield running


def predicted(server, model, values):
    """Returns the answers to several items: JSON, as texts."""
    status, found, _ = ask(server, f"/v1/models/{model}:predict", {"instances": values})
    assert status == 200, found
    return [json.loads(text) for text in found["predictions"]]


def b64(data):
    return {"b64": base64.b64encode(data).decode()}


def test_digits_are_told_from_the_bytes_of_their_images(server):
    files = sorted(DIGITS.glob("*.png"))[:40]
    found = predicted(server, "digit", [b64(file.read_bytes()) for file in files])
    right = [
        int(file.stem[-1]) == best["class"] for file, (best,) in zip(files, found, strict=True)
    ]
    assert sum(right) >= 38


def test_one_image_may_be_posted_as_it_is_and_as_a_form(server):
    file = next(DIGITS.glob("*_7.png"))
    posted = (
        (file.read_bytes(), "image/png"),
        (
            b'--line\r\nContent-Disposition: form-data; name="file"; filename="7.png"\r\n\r\n'
            + file.read_bytes()
            + b"\r\n--line--\r\n",
            "multipart/form-data; boundary=line",
        ),
    )
    for body, kind in posted:
        path = "/v2/models/digit/generate"
        status, _, text = send(server, "POST", path, body, {"Content-Type": kind})
        (best,) = json.loads(text)["digit"]
        assert (status, best["class"]) == (200, 7)


def test_bytes_that_are_no_image_are_told_so_and_the_others_are_answered(server):
    good = next(DIGITS.glob("*_3.png")).read_bytes()
    status, found, _ = ask(
        server, "/v1/models/digit:predict", {"instances": [b64(good), b64(b"no image")]}
    )
    assert status == 400
    assert re.search(r"item 1.*image_decoder.*expected JPEG", found["error"])
    assert predicted(server, "digit", [b64(good)])[0][0]["class"] == 3


def test_a_detector_answers_with_as_many_boxes_as_there_are_shapes(server, monkeypatch):
    monkeypatch.syspath_prepend(SHAPES)
    make_video = importlib.import_module("make_video")
    image, drawn = make_video.picture(10, 320, 240)
    empty = np.full((240, 320, 3), 30, np.uint8)
    half = image.copy()
    half[:, 107:] = 30
    pictures = [b64(cv2.imencode(".png", one)[1].tobytes()) for one in (image, empty, half)]
    found = predicted(server, "detect_classify", pictures)
    assert [len(boxes) for boxes in found] == [3, 0, 1]
    for name, x, y in drawn:
        (near,) = [
            one["classes"][0]["class"]
            for one in found[0]
            if np.abs(np.add(one["box"][:2], np.divide(one["box"][2:], 2)) - (x, y)).max() <= 8
        ]
        assert near == name


def test_a_text_classifier_tells_moods(server, monkeypatch):
    monkeypatch.syspath_prepend(ready_graphs() / "models" / "sentiment")
    reviews = importlib.import_module("sentences").reviews
    texts, moods = reviews(200, seed=99)  # not the texts of the training
    found = predicted(server, "sentiment", texts)
    told = [["negative", "positive"].index(best["class"]) for best, _ in found]
    assert np.mean(np.equal(told, moods)) >= 0.97


@pytest.mark.parametrize("text", ["", "...", "wörter, die keiner kennt " * 50])
def test_any_text_has_a_mood(server, text):
    ((best, other),) = predicted(server, "sentiment", [text])
    assert best["score"] + other["score"] == pytest.approx(1, abs=1e-5)


def test_bytes_that_are_no_text_are_told_so(server):
    values = {"instances": [b64(b"\xff\xfe")]}
    status, found, _ = ask(server, "/v1/models/sentiment:predict", values)
    assert status == 400
    assert "'tokenize'" in found["error"]
    assert "utf-8" in found["error"]
