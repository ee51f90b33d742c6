"""What users get wrong in their first week, and every word that they are told.

``mistakes.toml`` is the table. A mistake is the good graph with something replaced, files beside
it, a command, the lines that it answers with, and its exit code.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

import cv2
import numpy as np
import pytest

from modelflow.device import available_devices
from tests import programs

GOOD = """[flow]
name = "small"

[graph]
format = "graphviz"
graphconf = '''digraph small {
    input  [type=input]
    decode [flowunit=image_decoder, device=cpu, scaled_decode=false]
    shrink [flowunit=resize, image_width=32, image_height=32]
    encode [flowunit=image_encoder, format=png]
    output [type=output]
    input -> decode -> shrink -> encode -> output
}'''
"""

# A graph around a model, in the folder "units/net".
NET = """[driver]
dir = ["units"]

[graph]
graphconf = '''digraph net {
    input [type=input]
    net
    output [type=output]
    input -> net -> output
}'''
"""

TABLE = tomllib.loads((Path(__file__).parent / "mistakes.toml").read_text())["mistake"]

GPU = 8
"""The number of the mistake that is none where there is a GPU."""

# Lines that answer a good part of a command, not the mistake in it.
_OTHER = ("advice: ", "{", "Usage: ", "Try 'modelflow", "note: large values", "g.toml: ok: ")


def model():
    """A network that flattens (3, 4, 4)."""
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Flatten", ["x"], ["y"])
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", *shape])
        for name, shape in (("x", (3, 4, 4)), ("y", (48,)))
    ]
    graph = onnx.helper.make_graph([node], "net", ends[:1], ends[1:])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    made.ir_version = 8
    return made.SerializeToString()


def array(dtype, *shape):
    def write(path):
        np.save(path, np.zeros(shape, dtype))

    return write


def of_bytes(data):
    return lambda path: path.write_bytes(data() if callable(data) else data)


def huge():
    size = (60000).to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + 2 * size + b"\x08\x02\0\0\0" + bytes(50)


def jpeg():
    return cv2.imencode(".jpg", np.full((40, 60, 3), 7, np.uint8))[1].tobytes()


# What a file of the table may be, beside a text.
MADE = {
    "<jpeg>": of_bytes(jpeg),
    "<cut jpeg>": of_bytes(lambda: jpeg()[:200]),
    "<huge png>": of_bytes(huge),
    "<model>": of_bytes(model),
    "<cut model>": of_bytes(lambda: model()[:60]),
    "<latin-1>": of_bytes(GOOD.replace("small", "sm\xe4ll").encode("latin-1")),
    "<uint8 (3, 4, 4)>": array("u1", 3, 4, 4),
    "<float32 (1, 3, 4, 4)>": array("f4", 1, 3, 4, 4),
    "<float32 (3, 5, 5)>": array("f4", 3, 5, 5),
}


def lay_out(mistake, folder):
    """Writes the files of a mistake."""
    text = {"good": GOOD, "net": NET}.get(mistake.get("graph", "good"), mistake.get("graph"))
    for old, new in mistake.get("replace", ()):
        assert old in text, old
        text = text.replace(old, new, 1)
    for name, content in {"g.toml": text, **mistake.get("files", {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content in MADE:
            MADE[content](path)
        else:
            path.write_text(content)


def told(done):
    """The lines that tell of the mistake; units open side by side, in any order."""
    lines = (done.stdout + done.stderr).splitlines()
    found = [line for line in lines if not line.startswith(_OTHER) and ", 1 error, " not in line]
    return sorted(re.sub(r"(ONNX Runtime) .*", r"\1 ...", line) for line in found if line)


@pytest.mark.parametrize("mistake", TABLE, ids=lambda mistake: mistake["what"])
def test_a_mistake_is_answered_with_what_where_and_the_nearest_choice(mistake, tmp_path):
    if mistake["number"] == GPU and any(d.kind == "cuda" for d in available_devices()):
        pytest.skip("there is a GPU")
    lay_out(mistake, tmp_path)
    words = mistake.get("command", "modelflow check g.toml").split()
    done = programs.run(
        [sys.executable, *(["-m", "modelflow"] if words[0] == "modelflow" else []), *words[1:]],
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        text=True,
    )
    assert told(done) == mistake["told"]
    assert done.returncode == mistake.get("code", 1)
