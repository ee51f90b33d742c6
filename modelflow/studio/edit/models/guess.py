"""The use of a model and the settings of its nodes, as far as its ports tell. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from modelflow.unit.port import Port
from modelflow.wire.tensor import shape_text

CLASSIFY, DETECT, PLAIN, OBJECTS = "classify", "detect", "plain", "classify_objects"
"""The uses of a model. `OBJECTS` classifies each object of a detector."""

Shape = tuple[int | None, ...]
_STRIDES = (4, 8, 16, 32, 64)
_USUAL_STRIDES = (8, 16, 32)
# The most boxes of a detector with queries: RT-DETR has 300, DETR 100. The prior boxes of an SSD
# are more: 1917 to 8732.
_MOST_QUERIES = 1000
_IMAGE_TYPES = ("float32", "float16", "float64", "float")


@dataclass
class Guess:
    """The use and the settings that a model's ports tell, with the reasons.

    Attributes:
        use: `CLASSIFY`, `DETECT` or `PLAIN`.
        settings: The settings by name. None stands for an unknown value.
        why: The reasons, one sentence each.
        tensors: The outputs that the next node reads, in its order.
        is_open: Whether shapes are unknown, which excludes no use.
    """

    use: str = PLAIN
    settings: dict[str, Any] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)
    tensors: tuple[str, ...] = ()
    is_open: bool = False

    @property
    def uses(self) -> list[str]:
        """The uses that fit the ports, the guessed one first."""
        return [*dict.fromkeys([self.use, *((CLASSIFY, DETECT) if self.is_open else ()), PLAIN])]

    def document(self) -> dict[str, Any]:
        """Returns the guess as JSON values."""
        return {"use": self.use, **self.settings, "why": self.why}


def guess_use(inputs: Sequence[Port], outputs: Sequence[Port]) -> Guess:
    """Returns the guess for a model with these ports."""
    settings: dict[str, Any] = dict.fromkeys(
        ("width", "height", "layout", "channels", "colours", "range", "classes", "head", "labels")
    )
    guess = Guess(settings=settings)
    shape = _shape(inputs[0]) if len(inputs) == 1 else None
    if len(inputs) != 1:
        guess.why.append(f"The model has {len(inputs)} inputs; an image model has one.")
        return guess
    if shape is None and inputs[0].shape is None and inputs[0].dtype in (None, *_IMAGE_TYPES):
        guess.is_open = True
        guess.why.append("The file does not say the shape of the input; choose the use.")
        return guess
    if shape is None or len(shape) != 3 or inputs[0].dtype not in _IMAGE_TYPES:
        found = f"{inputs[0].dtype or 'any type'} {inputs[0].shape or 'of any shape'}"
        guess.why.append(
            f"The input is {found}; an image of floats has three axes without the batch."
        )
        return guess
    _guess_image(guess, shape)
    shapes = {port.name: _shape(port) for port in outputs}
    if not _guess_classes(guess, shapes):
        _guess_boxes(guess, shapes)
    if guess.use == PLAIN and any(one is None or None in one for one in shapes.values()):
        guess.is_open = True
        guess.why.append("The file does not say the shapes of the outputs; choose the use.")
    elif guess.use == PLAIN:
        guess.why.append("The outputs have neither the form of class scores nor that of boxes.")
    return guess


def _shape(port: Port) -> Shape | None:
    return None if port.tensor is None else port.tensor.shape


def _guess_image(guess: Guess, shape: Shape) -> None:
    first, last = shape[0] in (1, 3), shape[2] in (1, 3)
    if first == last:
        guess.why.append("The input's shape does not say the layout; choose hwc or chw.")
        return
    layout = "chw" if first else "hwc"
    channels, (height, width) = (shape[0], shape[1:]) if first else (shape[2], shape[:2])
    colours = "gray" if channels == 1 else None
    guess.settings |= {"layout": layout, "channels": channels, "colours": colours}
    guess.settings |= {"width": width, "height": height}
    guess.why.append(f"The input {shape_text(shape)} is an image in the layout {layout}.")
    if None in (width, height):
        guess.why.append("The model takes images of any size; give the size of its training.")


def _guess_classes(guess: Guess, shapes: dict[str, Shape | None]) -> bool:
    """Fills in the settings of a classifier, and tells whether the model is a classifier."""
    scores = {name: shape for name, shape in shapes.items() if _is_scores(shape)}
    if len(shapes) != 1 or not scores:
        return False
    ((name, shape),) = scores.items()
    assert shape is not None
    guess.use, guess.tensors = CLASSIFY, (name,)
    guess.settings["classes"] = shape[0]
    number = f"{shape[0]} classes" if shape[0] else "any number of classes"
    guess.why.append(f"The output {shape_text(shape)} has scores of {number}.")
    guess.why.append("The file does not say the range of the values; 0 to 1 is usual.")
    return True


def _is_scores(shape: Shape | None) -> bool:
    return shape is not None and len(shape) > 0 and shape[0] != 1 and all(n == 1 for n in shape[1:])


def _guess_boxes(guess: Guess, shapes: dict[str, Shape | None]) -> None:
    """Fills in the settings of a detector, if the model is a detector."""
    sizes = [shape for shape in shapes.values() if shape is not None]
    if len(sizes) != len(shapes):
        return
    head: tuple[str, int | None] | None = None
    tensors = tuple(shapes)
    if len(sizes) == 1 and len(sizes[0]) == 2:
        head = _guess_one(guess, sizes[0])
    elif len(sizes) == 2 and all(len(shape) == 2 for shape in sizes):
        tensors = tuple(sorted(shapes, key=lambda name: shapes[name] != (sizes[0][0], 4)))
        boxes, scores = (shapes[name] or () for name in tensors)
        if boxes[1] == 4 and boxes[0] == scores[0] and (boxes[0] or 0) <= _MOST_QUERIES:
            guess.settings["logits"] = "logits" in tensors[1]
            head = "rtdetr", scores[1]
    elif len(sizes) == 3 and all(len(shape) == 3 for shape in sizes):
        rows = {shape[0] for shape in sizes}
        count = sizes[0][0]
        if len(rows) == 1 and count and count % 3 == 0 and count > 15:
            tensors = tuple(sorted(shapes, key=lambda name: -((shapes[name] or (0, 0))[1] or 0)))
            head = "v5", count // 3 - 5
    if head is None:
        return
    guess.use, guess.tensors = DETECT, tensors
    is_raw = head[0] == "x"
    guess.settings |= {"head": head[0], "classes": head[1], "range": "raw" if is_raw else "unit"}
    if guess.settings["channels"] == 3:
        guess.settings["colours"] = "bgr" if is_raw else "rgb"
    forms = " and ".join(map(shape_text, sizes))
    guess.why.append(f"The output {forms} has the form of a detector with head={head[0]}.")
    values = "BGR values from 0 to 255" if is_raw else "RGB values from 0 to 1"
    guess.why.append(f"Most detectors of this form are trained on {values}.")


def _guess_one(guess: Guess, shape: Shape) -> tuple[str, int | None] | None:
    """Returns the head and the number of classes of a detector with one tensor."""
    rows, columns = shape
    cells = _cells(guess, _USUAL_STRIDES)
    if cells and rows == 3 * cells and columns is not None and columns > 5:
        return "v5", columns - 5
    if cells and rows == cells and columns in (6, 85):
        guess.why.append(f"A row of {columns} numbers for each cell is the form of YOLOX.")
        return "x", columns - 5
    if columns == 6:
        return "v8", None
    if rows is not None and rows > 4 and (columns is None or columns > rows):
        return ("v8", rows - 4) if _is_grid(guess, columns) else None
    if columns is None or columns < 5 or rows is None or rows <= columns:
        return None
    return ("v8", columns - 4) if _is_grid(guess, rows) else None


def _cells(guess: Guess, strides: Sequence[int]) -> int:
    """Returns the number of cells of the grids with these strides; 0 if the size is unknown."""
    width, height = guess.settings["width"], guess.settings["height"]
    return sum((width // s) * (height // s) for s in strides) if width and height else 0


def _is_grid(guess: Guess, count: int | None) -> bool:
    """Tells whether a detector may have so many boxes, which are the cells of successive strides.

    A reader of text has an output of two axes as well: its characters, for each step.
    """
    numbers = range(len(_STRIDES))
    sizes = {_cells(guess, _STRIDES[i : j + 1]) for i in numbers for j in numbers[i:]}
    return count is None or sizes == {0} or count in sizes
