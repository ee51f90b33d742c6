"""The kinds of models as a table. ``without`` or a comment explains each missing cell."""

import ml_dtypes  # noqa: F401 - it adds bfloat16 to NumPy
import numpy as np

from tests.models import modules
from tests.models.kind import Kind, Port

__all__ = ["DTYPES", "KINDS"]


def rows(*items, name="x"):
    return [{name: item} for item in items]


def numbers(*values, dtype="float32"):
    return np.array(values, dtype)


def text(*values):
    return np.array(values, object)


# A text that a model returns unchanged ends the process (OpenVINO 2026.4).
NO_TEXT = {"openvino": "the engine refuses texts"}


def concatenated(dtype, items, *, output="output", **more):
    """Returns a kind that appends each row to itself, which every element type supports."""
    return Kind(
        rows(*items),
        {"x": Port(dtype, (None, 3))},
        {output: Port(dtype, (None, 6))},
        tensorflow=lambda tf, _: lambda x: {output: tf.concat([x, x], 1)},
        plug_in=lambda x: np.concatenate([x, x], 1),
        **{
            "onnx": [("Concat", ["x", "x"], [output], {"axis": 1})],
            "torch": modules.Concatenated,
            **more,
        },
    )


def echoed(*items, output="output", **more):
    """Returns a kind with a text for each item; PyTorch has no texts."""
    more = {"without": NO_TEXT, **more}
    return Kind(
        rows(*(np.array(item, object) for item in items)),
        {"x": Port("object", (None,))},
        {output: Port("object", (None,))},
        onnx=[("Identity", ["x"], [output], {})],
        tensorflow=lambda tf, _: lambda x: {output: tf.identity(x)},
        plug_in=lambda x: x.copy(),
        **more,
    )


def doubled(*items, shape, **more):
    """Returns a kind that doubles numbers, which every engine can add."""
    bodies = {
        "onnx": [("Add", ["x", "x"], ["output"], {})],
        "tensorflow": lambda tf, _: lambda x: x + x,
        "torch": modules.Doubled,
        "plug_in": lambda x: x + x,
    }
    return Kind(
        rows(*items), {"x": Port(shape=shape)}, {"output": Port(shape=shape)}, **{**bodies, **more}
    )


def of_type(name):
    dtype = np.dtype(name)
    items: list[list[float]]
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        items = [[least, 0, most], [1, 2, 3]]
    elif dtype.kind in "fc":
        info = np.finfo(dtype)
        items = [[np.nan, np.inf, -0.0], [info.smallest_subnormal, info.max, 0.1]]
    else:
        items = [[True, False, True], [False, False, True]]
    more = {}
    # ONNX Runtime registers no such types; JSON and Open Inference have no form for them
    if dtype.kind == "c":
        absent = dict.fromkeys(("predict", "infer", "grpc_infer"), "no form for complex numbers")
        more = {"onnx": None, "without": absent}
    if name in ("float64", "int64", "uint32", "uint64"):
        more = {"without": {"openvino": "it computes wide types with 32 bits"}}
    return concatenated(name, [np.array(item, dtype) for item in items], **more)


DTYPES = {
    name: of_type(name)
    for name in (
        "bool",
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}

MANY = {
    "b": np.array([True, False]),
    "i": np.array([np.iinfo("i8").min, np.iinfo("i8").max]),
    "u": np.array([0, np.iinfo("u8").max], "u8"),
    "h": np.array([0.1, -0.0], "f2"),
    "d": np.array([0.1, 5e-324]),
}
NUMBERS = [numbers(1, -2, 3), numbers(4, 5, -6), numbers(0, 0, 0)]
HITS = rows(numbers(1, 0, 0, 1), numbers(0, 0, 0, 0), numbers(0, 1, 0, 1))
FREE = (None, None)
TABLE = numbers(10, 20, 30)
FAR = np.arange(500_000.0)
OUT_OF_TABLE = {
    "onnx": "out of data bounds",
    "tensorflow": "is not in [0, 3)",
    "torch": "out of",  # "index out of range", "out of bounds"
    "plug-in": "out of bounds",
    "python": "out of bounds",
}
TWO = {"output0": Port(), "output1": Port()}

KINDS = {
    **DTYPES,
    "many types": Kind(
        [MANY, {name: value[::-1].copy() for name, value in MANY.items()}],
        {name: Port(value.dtype.name, (None, 2)) for name, value in MANY.items()},
        {f"{name}2": Port(value.dtype.name, (None, 4)) for name, value in MANY.items()},
        onnx=[("Concat", [name, name], [f"{name}2"], {"axis": 1}) for name in MANY],
        tensorflow=lambda tf, _: (
            lambda *given: {
                f"{name}2": tf.concat([x, x], 1) for name, x in zip(MANY, given, strict=True)
            }
        ),
        torch=modules.Many,
        without={"openvino": "it computes wide types with 32 bits"},
        plug_in=lambda *given: {
            f"{name}2": np.concatenate([x, x], 1) for name, x in zip(MANY, given, strict=True)
        },
    ),
    "bfloat16": Kind(
        rows(*(np.array(row, "bfloat16") for row in ([1, 2, -0.5], [np.inf, 0.1, 3]))),
        {"x": Port("bfloat16")},
        {"output": Port("bfloat16")},
        tensorflow=lambda tf, _: lambda x: x / 3,
        without={"run": "NumPy's files have no such type"},
    ),
    "bfloat16 as float32": Kind(
        rows(numbers(1, 2, -0.5), numbers(np.inf, 5, 3)),
        torch=modules.Third,
        is_narrow=True,
        without={"torch script": "its file says no types", "run": "JSON lines have no Infinity"},
    ),
    "text": concatenated(
        "object",
        [text("caf\u00e9", "", "\u65e5\u672c"), text("a\0", "b\n", '"'), text("x", "y", "z")],
        torch=None,  # PyTorch has no text
        without={**NO_TEXT, "run": "NumPy's files hold no text of any length"},
    ),
    "one text": echoed("caf\u00e9", "", "\u65e5\u672c\n"),
    "bytes": echoed(
        b"a",
        b"\xff\0",
        b"d\0",
        # TensorFlow Serving's rule: outputs with such a name are bytes in JSON, not text
        output="output_bytes",
        errors={1: dict.fromkeys(("onnx", "python"), "bytes that are no UTF-8 (byte 0xff at 0)")},
    ),
    "scalar items": doubled(*map(np.float32, (1, 2, 3)), shape=(None,)),
    "threshold": Kind(
        [
            {"x": x, "k": np.float32(k)}
            for x, k in zip(NUMBERS * 2, (0, 1, 0, 2, 4, 1), strict=True)
        ],
        {"x": Port(), "k": Port(shape=(), is_batched=False)},
        {"output": Port("bool")},
        onnx=[("Greater", ["x", "k"], ["output"], {})],
        tensorflow=lambda tf, _: lambda x, k: x > k,
        torch=modules.Above,
        plug_in=lambda x, k: x > k,
        without={"torch script": "its file says neither types nor shapes: which are scalars"},
    ),
    "empty items": Kind(
        rows(numbers(), numbers(1, 2), numbers()),
        {"x": Port(shape=FREE)},
        {"output": Port(shape=FREE)},
        onnx=[("Concat", ["x", "x"], ["output"], {"axis": 1})],
        tensorflow=lambda tf, _: lambda x: tf.concat([x, x], 1),
        torch=modules.Concatenated,
        plug_in=lambda x: np.concatenate([x, x], 1),
        without={"torch export": "PyTorch takes lengths of 0 and 1 as fixed"},
    ),
    "ragged": Kind(
        rows(numbers(1, 2, 3), numbers(4, 5), numbers(6, 7, 8, 9), numbers(1, 1)),
        {"x": Port(shape=FREE)},
        {"output": Port(shape=FREE), "first": Port(shape=(None,))},
        onnx=[
            ("Concat", ["x", "x"], ["output"], {"axis": 1}),
            ("ReduceMax", ["x"], ["first"], {"axes": [1], "keepdims": 0}),
        ],
        tensorflow=lambda tf, _: (
            lambda x: {
                "output": tf.concat([x, x], 1),
                "first": tf.reduce_max(x, 1),
            }
        ),
        torch=modules.Ragged,
        plug_in=lambda x: {"output": np.concatenate([x, x], 1), "first": x.max(1)},
    ),
    "any shape": doubled(
        *(np.float32(1), numbers(2, 3), numbers([4, 5], [6, 7]), np.float32(8)),
        shape=None,
        onnx=None,  # ports of ONNX files have a fixed number of axes
        without={"torch export": "an exported program has so many axes"},
    ),
    "dict": Kind(
        rows(*NUMBERS),
        outputs={"half": Port(), "double": Port()},
        onnx=[("Mul", ["x", "h"], ["half"], {}), ("Add", ["x", "x"], ["double"], {})],
        constants={"h": np.float32(0.5)},
        tensorflow=lambda tf, _: lambda x: {"half": x / 2, "double": x + x},
        torch=modules.Named,
        plug_in=lambda x: {"half": x / np.float32(2), "double": x + x},
    ),
    "tuple": Kind(
        rows(*NUMBERS),
        outputs=TWO,
        torch=modules.Both,  # the other engines' results have names
    ),
    "no batch axis": Kind(
        HITS,
        {"x": Port(shape=(None, 4))},
        {"output": Port("int64", (None, 2), is_batched=False)},
        onnx=[
            ("NonZero", ["x"], ["found"], {}),
            ("Transpose", ["found"], ["output"], {"perm": [1, 0]}),
        ],
        tensorflow=lambda tf, _: lambda x: tf.where(x != 0),
        torch=modules.Found,
        plug_in=np.argwhere,
        is_joined=False,
    ),
    "one without batch axis": Kind(
        HITS,
        {"x": Port(shape=(None, 4))},
        {"output0": Port(shape=(None, 4)), "output1": Port(shape=(), is_batched=False)},
        onnx=[
            ("Add", ["x", "x"], ["output0"], {}),
            ("ReduceSum", ["x"], ["output1"], {"keepdims": 0}),
        ],
        tensorflow=lambda tf, _: lambda x: {"output0": x + x, "output1": tf.reduce_sum(x)},
        torch=modules.DoubledAndSum,
        plug_in=lambda x: {"output0": x + x, "output1": x.sum()},
        is_joined=False,
    ),
    "constant": Kind(
        rows(*NUMBERS),
        outputs={"output0": Port(), "output1": Port(shape=(3,), is_batched=False)},
        onnx=[("Add", ["x", "x"], ["output0"], {}), ("Identity", ["t"], ["output1"], {})],
        constants={"t": TABLE},
        tensorflow=lambda tf, _: lambda x: {"output0": x + x, "output1": tf.constant(TABLE)},
        torch=modules.DoubledAndTable,
        plug_in=lambda x: {"output0": x + x, "output1": TABLE},
        is_joined=False,
    ),
    "no inputs": Kind(
        [{}, {}],
        inputs={},
        outputs={"output": Port(shape=(3,), is_batched=False)},
        onnx=[("Identity", ["t"], ["output"], {})],
        constants={"t": TABLE},
        tensorflow=lambda tf, _: lambda: tf.constant(TABLE),
        torch=modules.Table,
        plug_in=lambda: TABLE,
        without=dict.fromkeys(("flow", "run"), "a graph has an input, which is no model's"),
        is_joined=False,
    ),
    "own buffer": Kind(
        rows(*NUMBERS),
        onnx=None,  # such models keep no state between calls
        torch=modules.OwnBuffer,
        plug_in=modules.OwnArray,
        most=4,
    ),
    "assigns a variable": Kind(
        rows(*NUMBERS),
        tensorflow=modules.counting,
        torch=modules.Counting,
    ),
    "several signatures": Kind(
        rows(*NUMBERS),
        tensorflow=lambda tf, _: lambda x: -x,
        signature="negative",
        without=dict.fromkeys(("infer", "grpc_infer"), "Open Inference knows no signatures"),
    ),
    "fixed batch": doubled(
        *(*NUMBERS, numbers(7, 8, 9)),
        shape=(3, 3),
        without={"torch script": "its file says no shapes"},
    ),
    "bounded batch": doubled(
        *NUMBERS,
        shape=(None, 3),
        onnx=None,  # ONNX and TensorFlow have no bounds
        tensorflow=None,
        most=2,
        without={"torch script": "its file says no bounds"},
    ),
    "huge results": Kind(
        rows(np.float64(1), np.float64(2), np.float64(-3)),
        {"x": Port("float64", (None,))},
        {"output": Port("float64", (None, len(FAR)))},
        onnx=[
            ("Unsqueeze", ["x", "one"], ["column"], {}),
            ("Add", ["column", "far"], ["output"], {}),
        ],
        constants={"one": np.array([1]), "far": FAR},
        tensorflow=lambda tf, _: lambda x: x[:, None] + FAR,
        torch=modules.Huge,
        plug_in=lambda x: x[:, None] + FAR,
    ),
    "writes to its input": Kind(
        rows(*NUMBERS),
        torch=modules.Writing,  # a plug-in must not write; the others cannot
    ),
    "raises for a row": Kind(
        rows(*(np.int64(place) for place in (0, 9, 2, 1))),
        {"x": Port("int64", (None,))},
        {"output": Port(shape=(None,))},
        onnx=[("Gather", ["t", "x"], ["output"], {})],
        constants={"t": TABLE},
        tensorflow=lambda tf, _: lambda x: tf.gather(tf.constant(TABLE), x),
        torch=modules.LookedUp,
        plug_in=lambda x: TABLE[x],
        without={"openvino": "it answers 0 for a place outside of the table"},
        errors={1: OUT_OF_TABLE},
    ),
    "not re-entrant": Kind(
        rows(*(np.full(100_000, value, np.float32) for value in (1, 2, 3))),
        {"x": Port(shape=(None, 100_000))},
        {"output": Port(shape=(None, 100_000))},
        # several threads call a plug-in at once, which the plug-in must expect
        torch=modules.NotReentrant,
        most=4,
    ),
}
