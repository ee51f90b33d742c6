"""New flow units: a working start, written into a folder."""

from pathlib import Path

from modelflow.errors import ConfigError
from modelflow.starters.native_starter import CODE, MAKE, TEST, TOML
from modelflow.starters.written import check_name, written

__all__ = ["UNIT_KINDS", "new_unit"]

UNIT_KINDS = (
    "normal",
    "stream",
    "condition",
    "expand",
    "collapse",
    "loop",
    "source",
    "sink",
    "inference",
    "c++",
)
_TOML = """\
# The flow unit {name}: what it takes and gives, and its options with their defaults.
[base]
name = "{name}"
type = "python"
entry = "{name}@{cls}"
device = "cpu"
version = "1.0.0"
description = "{description}"
{flags}

[config]
{config}
"""
_FLAGS = {
    "stream": "stream = true",
    "condition": "stream = false\ncondition = true",
    "expand": "stream = false\nexpand = true",
    "collapse": "stream = false\ncollapse = true",
    "loop": "stream = false\nloop = true",
}
_IN = '\n[input.input1]\nname = "in_data"\ndescription = "a number, or an array"\n'
_OUT = '\n[output.output1]\nname = "out_data"\ndescription = "a number, or an array"\n'
_TWO_OUT = (
    '\n[output.output1]\nname = "{}"\ndescription = "{}"\n'
    '\n[output.output2]\nname = "{}"\ndescription = "{}"\n'
)
_OUTPUTS = {
    "sink": "",
    "condition": _TWO_OUT.format("small", "below the bound", "large", "the others"),
    "loop": _TWO_OUT.format("again", "goes round: lead it back to in_data", "done", "leaves"),
}

_CLASS = '''\
"""The flow unit {name}."""

from typing import Any

import modelflow


class {cls}(modelflow.FlowUnit):
    """{description}"""

    def open(self, config: Any) -> None:
        """Stores the options; load here what the unit needs."""
        {open}

    def process(self, ctx: modelflow.Context) -> None:
        """{process_doc}"""
{process}
{more}'''

_BODIES = {
    "normal": (
        "Multiplies each value by a factor.",
        "factor = 2.0",
        "self.factor = config.factor",
        "Gives one value for each input.",
        "        ctx.emit([buffer.data * self.factor for buffer in ctx.input()])",
    ),
    "stream": (
        "Adds up a stream, and gives the sum at its end.",
        "start = 0.0",
        "self.start = config.start",
        "Is called with the buffers of one stream, in order; keeps what it needs in ctx.state.",
        "        for buffer in ctx.input():\n"
        '            ctx.state["sum"] = ctx.state.get("sum", self.start) + buffer.data',
    ),
    "condition": (
        "Sends each value one way or the other.",
        "bound = 10.0",
        "self.bound = config.bound",
        "Is called with one buffer, which leaves by exactly one output.",
        "        (buffer,) = ctx.input()\n"
        '        ctx.emit([buffer], "small" if buffer.data < self.bound else "large")',
    ),
    "expand": (
        "Makes a stream of the numbers below each number.",
        "first = 0",
        "self.first = config.first",
        "Is called with one buffer; gives any number, also none: a stream of their own.",
        "        (buffer,) = ctx.input()\n        ctx.emit(list(range(self.first, buffer.data)))",
    ),
    "collapse": (
        "Adds up what an expand has made of one buffer.",
        "start = 0.0",
        "self.start = config.start",
        "Is called with the whole stream of one expanded buffer, perhaps empty; gives one.",
        "        ctx.emit([sum((buffer.data for buffer in ctx.input()), self.start)])",
    ),
    "loop": (
        "Sends each value round until it is large enough.",
        "bound = 10.0",
        "self.bound = config.bound",
        "Is called with one buffer each time round; it leaves by exactly one output.",
        "        (buffer,) = ctx.input()\n"
        '        ctx.emit([buffer], "again" if buffer.data < self.bound else "done")',
    ),
    "source": (
        "Gives the numbers from 0 to count.",
        "count = 10",
        "self.count = config.count",
        "Gives one number a call, and says when it was the last.",
        '        number = ctx.state.get("next", 0)\n'
        '        ctx.state["next"] = number + 1\n'
        "        ctx.emit([number])\n"
        "        if number + 1 >= self.count:\n"
        "            ctx.finish()",
    ),
    "sink": (
        "Keeps a count of what arrives.",
        'title = "received"',
        "self.title, self.count = config.title, 0",
        "Counts; a sink gives nothing on.",
        "        self.count += len(ctx.input())",
    ),
}

_MORE = {
    "stream": '''
    def stream_end(self, ctx: modelflow.Context) -> None:
        """Gives the sum, behind the last buffer."""
        ctx.emit([ctx.state.get("sum", self.start)])
'''
}

_TESTS = {
    "stream": '    outputs = run_unit(SPEC, {"in_data": [1, 2]}, start=3)\n'
    '    assert [buffer.data for buffer in outputs["out_data"]] == [6]',
    "condition": '    outputs = run_unit(SPEC, {"in_data": [1, 20]})\n'
    '    assert [buffer.data for buffer in outputs["small"]] == [1]\n'
    '    assert [buffer.data for buffer in outputs["large"]] == [20]',
    "expand": '    outputs = run_unit(SPEC, {"in_data": [2, 0, 1]})\n'
    '    assert [buffer.data for buffer in outputs["out_data"]] == [0, 1, 0]',
    "collapse": '    outputs = run_unit(SPEC, {"in_data": [1, 2]}, start=3)\n'
    '    assert [buffer.data for buffer in outputs["out_data"]] == [6]',
    "loop": '    outputs = run_unit(SPEC, {"in_data": [1, 20]})\n'
    '    assert [buffer.data for buffer in outputs["again"]] == [1]\n'
    '    assert [buffer.data for buffer in outputs["done"]] == [20]',
    "normal": '    outputs = run_unit(SPEC, {"in_data": [1, 2]}, factor=3)\n'
    '    assert [buffer.data for buffer in outputs["out_data"]] == [3, 6]',
    "source": "    outputs = run_unit(SPEC, count=3)\n"
    '    assert [buffer.data for buffer in outputs["out_data"]] == [0, 1, 2]',
    "sink": '    assert run_unit(SPEC, {"in_data": [1, 2]}) == {"errors": []}',
}

_TEST = '''\
"""Tests of the flow unit {name}."""

from pathlib import Path

from modelflow.testing import read_unit, run_unit

SPEC = read_unit(Path(__file__).with_name("{name}.toml"))


def test_{name}() -> None:
    """Runs the unit once, as a graph would."""
{body}
'''

_INFERENCE = """\
# A model as a flow unit: put the model beside this file and name it in entry.
# `modelflow check` compares the ports with the model's own names.
[base]
name = "{name}"
type = "inference"
virtual_type = "tensorflow"
entry = "model"
device = "cpu"
version = "1.0.0"
description = "Runs a model."

[input.input1]
name = "input"
type = "float"

[output.output1]
name = "output"
type = "float"
"""


def new_unit(name: str, kind: str, folder: Path) -> list[Path]:
    """Writes a working flow unit with a test into ``folder/name``.

    Args:
        name: Lower-case letters, digits and ``_``.
        kind: One of `UNIT_KINDS`.
        folder: Where its folder is made.

    Returns:
        The files written.

    Raises:
        ConfigError: a bad name or kind, or a file of that name is there.
    """
    check_name(name)
    if kind not in UNIT_KINDS:
        message = f"kind: got {kind!r}; expected one of {', '.join(UNIT_KINDS)}"
        raise ConfigError(message)
    place = folder / name
    if kind == "inference":
        return written({place / f"{name}.toml": _INFERENCE.format(name=name)})
    if kind == "c++":
        texts = {
            f"{name}.toml": TOML,
            f"{name}.cpp": CODE,
            "Makefile": MAKE,
            f"test_{name}.py": TEST,
        }
        return written({place / file: t.replace("@NAME@", name) for file, t in texts.items()})
    description, config, store, process_doc, process = _BODIES[kind]
    cls = "".join(part.capitalize() for part in name.split("_"))
    ports = (_IN if kind != "source" else "") + _OUTPUTS.get(kind, _OUT)
    filled = {"name": name, "cls": cls, "description": description}
    return written(
        {
            place / f"{name}.toml": _TOML.format(
                config=config, flags=_FLAGS.get(kind, "stream = false"), **filled
            )
            + ports,
            place / f"{name}.py": _CLASS.format(
                open=store,
                process_doc=process_doc,
                process=process,
                more=_MORE.get(kind, ""),
                **filled,
            ),
            place / f"test_{name}.py": _TEST.format(name=name, body=_TESTS[kind]),
        }
    )
