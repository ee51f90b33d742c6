"""Tests of the ready graphs."""

import base64
import contextlib
import http.client
import importlib
import json
import re
import shutil
import socket

import cv2
import numpy as np
import pytest

from modelflow import Flow
from modelflow.graph.read import read_graph
from modelflow.starters.ready import ready_graphs
from tests import programs
from tests.in_process import run_here, run_script

pytest.importorskip("tensorflow")


def modelflow(*arguments, cwd):
    with contextlib.chdir(cwd):
        return run_here(tuple(map(str, arguments)), env={})


def test_digits_prints_ten_files_the_accuracy_and_what_to_try_next(tmp_path):
    done = modelflow("run", "digits", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for line in lines[:10]:
        name, digit, score = line.split()
        assert re.fullmatch(r"\d+_\d\.png", name)
        assert digit in "0123456789"
        assert 0 <= float(score) <= 1
    rest = re.fullmatch(r"\.\.\. and (\d+) more", lines[10])
    accuracy = re.fullmatch(r"accuracy: ([\d.]+) % \((\d+) of (\d+)\)", lines[11])
    assert float(accuracy[1]) >= 97
    assert 10 + int(rest[1]) == int(accuracy[3]) >= 200
    assert lines[12].startswith("next: modelflow ")


def test_digits_prints_as_many_files_as_it_is_asked_for(tmp_path):
    samples = ready_graphs() / "models" / "digits" / "samples" / "000*.png"
    done = modelflow(
        "run", "digits", "--set", "report.lines=2", f"--arg=samples={samples}", cwd=tmp_path
    )
    assert done.stdout.splitlines()[1:4] == [
        "0003_3.png 3 1.000",
        "... and 1 more",
        "accuracy: 100.0 % (3 of 3)",
    ]


SHAPES = ready_graphs() / "models" / "shapes"
DRAWN = {"circle": 2, "square": 1, "triangle": 0}  # the channel (BGR) of each class's boxes


def box_pixels(image):
    """Returns the pixels of each class's colour: (N, 2) rows and columns."""
    wide = image.astype(int)
    found = {}
    for name, channel in DRAWN.items():
        others = wide[..., [c for c in range(3) if c != channel]].max(axis=2)
        found[name] = np.argwhere((wide[..., channel] > 150) & (others < 110))
    return found


def test_video_boxes_draws_a_box_of_the_right_class_around_every_shape(tmp_path, monkeypatch):
    av = pytest.importorskip("av")
    monkeypatch.syspath_prepend(SHAPES)
    make_video = importlib.import_module("make_video")
    boxes = tmp_path / "boxes.mp4"
    done = modelflow("run", "video_boxes", "--arg", f"boxes={boxes}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with av.open(str(boxes)) as container:
        frames = [frame.to_ndarray(format="bgr24") for frame in container.decode(video=0)]
    assert len(frames) == 100
    for number, frame in enumerate(frames):
        _, shapes = make_video.picture(number, 320, 240)
        assert len(shapes) == 3
        found = box_pixels(frame)
        for name, x, y in shapes:
            # The box, and the text above the box, which may be cut off at the sides.
            near = np.abs(found[name] - (y, x)).max(axis=1) <= make_video.RADIUS + 4
            assert near.sum() > 60, (number, name)
            assert len(found[name]) < 900, (number, name)


@pytest.fixture(scope="module")
def classify(tmp_path_factory):
    """Returns copies of the ready graphs, the tiny stand-in of the model, and two photographs."""
    from sklearn.datasets import load_sample_images

    folder = tmp_path_factory.mktemp("classify")
    shutil.copytree(ready_graphs(), folder / "graphs")
    run_script(folder / "graphs" / "models" / "classify_infer" / "make_frozen_graph.py", "--tiny")
    for name, photo in zip(("china", "flower"), load_sample_images().images, strict=True):
        cv2.imwrite(str(folder / f"{name}.jpg"), photo[:, :, ::-1])
    return folder


def test_image_classify_names_the_devices_there_are_where_its_gpu_is_missing(classify):
    done = modelflow("check", "graphs/image_classify.toml", cwd=classify)
    assert done.returncode == 1
    assert (
        "node 'classify_infer': device cuda:1 is not on this machine; available: cpu:0"
        in done.stderr
    )


def test_image_classify_runs_on_photographs_from_the_command_line_and_from_flow(classify):
    more = ("--set", "classify_infer.device=cpu")
    assert modelflow("check", "graphs/image_classify.toml", *more, cwd=classify).returncode == 0
    done = modelflow(
        "run",
        "graphs/image_classify.toml",
        *more,
        "--input",
        "*.jpg",
        "--output",
        "out/",
        cwd=classify,
    )
    assert done.returncode == 0, done.stderr
    overrides = {"classify_infer.device": "cpu"}
    with Flow(classify / "graphs" / "image_classify.toml", overrides=overrides) as flow:
        for number, name in enumerate(("china", "flower")):
            scores = flow.infer((classify / f"{name}.jpg").read_bytes()).data
            assert scores.shape == (1000,)
            assert abs(scores.sum() - 1) < 1e-3
            assert np.allclose(
                scores, np.load(classify / "out" / f"{number:06d}_{name}.npy"), atol=1e-5
            )


def test_a_corrupt_jpeg_among_good_ones_fails_alone(classify):
    photos = classify / "photos"
    photos.mkdir()
    whole = (classify / "china.jpg").read_bytes()
    for number in range(8):
        (photos / f"{number}.jpg").write_bytes(whole[:20_000] if number == 3 else whole)
    done = modelflow(
        "run",
        "graphs/image_classify.toml",
        "--set",
        "classify_infer.device=cpu",
        "--input",
        "photos",
        "--output",
        "scores/",
        cwd=classify,
    )
    assert done.returncode == 1
    (line,) = map(json.loads, done.stdout.splitlines())
    error = line["error"]
    assert line["index"] == 3
    assert (error["node"], error["unit"]) == ("img_decoder", "image_decoder")
    assert "Premature end of JPEG" in error["message"]
    scores = [np.load(file) for file in sorted((classify / "scores").iterdir())]
    assert len(scores) == 7
    # Not exact, because the last digit depends on the batch of a photograph.
    assert all(np.allclose(found, scores[0], rtol=1e-3, atol=1e-6) for found in scores)


def test_every_ready_graph_passes_its_checks_but_for_devices(classify):
    for path in sorted((classify / "graphs").glob("*.toml")):
        args = {"boxes": "boxes.mp4"} if path.stem == "video_boxes" else {}
        assert read_graph(path, check_devices=False, args=args).nodes


def test_mnist_http_tells_digits_however_they_are_sent():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    samples = sorted((ready_graphs() / "models" / "digits" / "samples").glob("*.png"))[:20]
    args = {"endpoint": f"http://127.0.0.1:{port}/v1/digit"}
    with Flow(ready_graphs() / "mnist_http.toml", args=args):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=programs.LIMIT)

        def ask(body):
            connection.request("POST", "/v1/digit", body)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        right = 0
        for sample in samples:
            raw = sample.read_bytes()
            text = base64.b64encode(raw)
            answers = [ask(raw), ask(text), ask(json.dumps({"image_base64": text.decode()}))]
            assert [status for status, _ in answers] == [200] * 3
            assert len({json.dumps(found) for _, found in answers}) == 1
            right += str(answers[0][1][0]["class"]) == sample.stem.rpartition("_")[2]
        assert right >= 19
        for body, what in ((b"?", "no image and no base64"), (b"{}", "expected image_base64")):
            status, found = ask(body)
            assert status == 400
            assert what in found["error"]["message"]
        connection.close()
