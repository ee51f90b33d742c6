"""Tests of the mistakes of users in their first week, with every word of the answers.

``mistakes.toml`` is the table. A mistake replaces a part of the good graph, adds files, and has a
command or the calls of a program (``sdk``). The table also has the lines of the answer, and the
exit code. Everything runs in this process, except for mistakes in the modules that a process can
import (``process``).
"""

import base64
import logging
import re
import runpy
import sys
import textwrap
import tomllib
from pathlib import Path

import cv2
import numpy as np
import pytest

from modelflow.cli.main import main
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

# The unit file of the model `model`.
UNIT = """[base]
name = "net"
type = "inference"
virtual_type = "onnx"
entry = "net.onnx"
device = "cpu"

[input.input1]
name = "x"
type = "float32"

[output.output1]
name = "y"
type = "float32"
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

# The frame of a program's calls (``sdk``).
PROGRAM = """import numpy as np

import modelflow
from modelflow import Flow, Model, Port, flowunit

try:
{}
except Exception as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""

TABLE = tomllib.loads((Path(__file__).parent / "mistakes.toml").read_text())["mistake"]

GPU = 8
"""The number of the mistake that is no mistake on a machine with a GPU."""

# Lines about a valid part of a command, not about the mistake.
_OTHER = ("advice: ", "{", "Usage: ", "Try 'modelflow", "note: large values", "g.toml: ok: ")


def model(opset=13):
    """Returns a network that flattens (3, 4, 4)."""
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Flatten", ["x"], ["y"])
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", *shape])
        for name, shape in (("x", (3, 4, 4)), ("y", (48,)))
    ]
    graph = onnx.helper.make_graph([node], "net", ends[:1], ends[1:])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
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


# The kinds of a file of the table, besides a text.
MADE = {
    "<jpeg>": of_bytes(jpeg),
    "<jpeg in base64>": of_bytes(lambda: base64.b64encode(jpeg())),
    "<cut jpeg>": of_bytes(lambda: jpeg()[:200]),
    "<huge png>": of_bytes(huge),
    "<model>": of_bytes(model),
    "<unit of the model>": of_bytes(UNIT.encode()),
    "<model of opset 99>": of_bytes(lambda: model(opset=99)),
    "<cut model>": of_bytes(lambda: model()[:60]),
    "<latin-1>": of_bytes(GOOD.replace("small", "sm\xe4ll").encode("latin-1")),
    "<uint8 (3, 4, 4)>": array("u1", 3, 4, 4),
    "<float32 (1, 3, 4, 4)>": array("f4", 1, 3, 4, 4),
    "<float32 (3, 5, 5)>": array("f4", 3, 5, 5),
    "<float32 (4, 4, 3)>": array("f4", 4, 4, 3),
}


def lay_out(mistake, folder):
    """Writes the files of a mistake."""
    text = {"good": GOOD, "net": NET}.get(mistake.get("graph", "good"), mistake.get("graph"))
    for old, new in mistake.get("replace", ()):
        assert old in text, old
        text = text.replace(old, new, 1)
    files = {"g.toml": text, **mistake.get("files", {})}
    if "sdk" in mistake:
        files["app.py"] = PROGRAM.format(textwrap.indent(mistake["sdk"].strip(), "    "))
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content in MADE:
            MADE[content](path)
        else:
            path.write_text(content)


def answer(words, folder, monkeypatch, capsys):
    """Runs a command, or a program, here; returns its output and its exit code."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    handlers, logging.root.handlers = logging.root.handlers, []  # as in a separate process
    code: object = 0
    try:
        if words[0] == "modelflow":
            main(words[1:])
        else:
            runpy.run_path(words[1], run_name="__main__")
    except SystemExit as end:
        code = end.code
    finally:
        logging.root.handlers = handlers
    said = capsys.readouterr()
    return said.out + said.err, code


def answer_of_process(words, folder):
    """Runs a command in a separate process, which has loaded nothing yet."""
    done = programs.run([sys.executable, "-m", *words], cwd=folder, text=True)
    return done.stdout + done.stderr, done.returncode


def told(said):
    """Returns the lines about the mistake, sorted where units open concurrently in any order."""
    lines = said.splitlines()
    found = [line for line in lines if not line.startswith(_OTHER) and ", 1 error, " not in line]
    return sorted(re.sub(r"(ONNX Runtime) .*", r"\1 ...", line) for line in found if line)


@pytest.mark.parametrize("mistake", TABLE, ids=lambda mistake: mistake["what"])
def test_a_mistake_is_answered_with_what_where_and_the_nearest_choice(
    mistake, tmp_path, monkeypatch, capsys
):
    if mistake["number"] == GPU and any(d.kind == "cuda" for d in available_devices()):
        pytest.skip("there is a GPU")
    lay_out(mistake, tmp_path)
    command = "python app.py" if "sdk" in mistake else "modelflow check g.toml"
    words = mistake.get("command", command).split()
    if mistake.get("process"):
        said, code = answer_of_process(words, tmp_path)
    else:
        said, code = answer(words, tmp_path, monkeypatch, capsys)
    assert told(said) == mistake["told"]
    assert code == mistake.get("code", 1)
