"""Warm-up requests, which run before a model is ready: zeros, or recorded requests."""

import logging
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelflow.engine.engine import LoadedModel
from modelflow.errors import EngineError
from modelflow.wire.problem import Problem
from modelflow.wire.tensor import has_shape, shape_text

_SERVING_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
_ARRAYS_FILE = "warmup.npz"
# TensorFlow Serving's own limit on the records of a warm-up file.
_MOST_REQUESTS = 1000
_log = logging.getLogger(__name__)

Request = Mapping[str, npt.NDArray[Any]]


def synthetic_requests(model: LoadedModel, unit: str) -> Iterator[Request]:
    """Yields a request of zeros in the model's shapes; yields nothing if shapes are open."""
    unknown = []
    zeros: dict[str, npt.NDArray[Any]] = {}
    for tensor in model.inputs:
        shape = tensor.item_shape
        if shape is None or None in shape or tensor.dtype.hasobject:
            unknown.append(str(tensor))
        else:
            zeros[tensor.name] = np.zeros((1, *(extent or 0 for extent in shape)), tensor.dtype)
    if not unknown:
        yield zeros
        return
    text = "unit %r: no warm-up, the model leaves the shape of %s open"
    _log.info(text, unit, ", ".join(unknown))


def read_recorded_requests(model: LoadedModel, path: Path, file: str) -> Sequence[Request]:
    """Reads recorded requests.

    Args:
        model: The model, whose inputs the requests must have.
        path: The model's path.
        file: The file of the requests. ``""`` for the usual places.

    Returns:
        For each request an array for each port. Axis 0 is the batch.

    Raises:
        EngineError: The file does not exist or has another form, or its arrays do not fit the
            model.
    """
    found = _find(path, Path(file) if file else None)
    requests = _read_arrays(found) if found.suffix == ".npz" else _read_serving(found)
    if not requests:
        raise EngineError(f"warm-up requests {found}: there is none in it")
    for number, request in enumerate(requests):
        _check(model, request, f"warm-up requests {found}, request {number}")
    return requests


def in_sizes(request: Request, sizes: Sequence[int]) -> Iterator[Request]:
    """Yields the first item of a request as a batch of each size."""
    for size in sizes:
        yield {name: np.repeat(array[:1], size, axis=0) for name, array in request.items()}


def _find(path: Path, file: Path | None) -> Path:
    folder = path if path.is_dir() else path.parent
    places = [file] if file else [folder / _SERVING_FILE, folder / _ARRAYS_FILE]
    for place in places:
        if place.is_file():
            return place
    raise EngineError(
        "warmup=recorded: there are no requests; expected "
        f"{' or '.join(map(str, places))}, or another file as warmup_requests"
    )


def _read_arrays(path: Path) -> Sequence[Request]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise EngineError(f"warm-up requests {path}: not a .npz file of arrays: {error}") from error
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(counts.values())) > 1 or 0 in counts.values():
        raise EngineError(
            f"warm-up requests {path}: the arrays have {counts} requests; expected the same "
            "number of each, at least 1"
        )
    count = min(next(iter(counts.values()), 0), _MOST_REQUESTS)
    return [{name: a[row : row + 1] for name, a in arrays.items()} for row in range(count)]


def _read_serving(path: Path) -> Sequence[Request]:
    from modelflow.wire.tf_serving.tensor_proto import array_of_proto
    from modelflow.wire.tf_serving.warmup_records import read_records

    requests = []
    for where, log in read_records(path):
        if not log.HasField("predict_log"):
            raise EngineError(
                f"{where}: a record without a predict_log; only predict requests can be replayed"
            )
        inputs = log.predict_log.request.inputs
        try:
            requests.append({name: array_of_proto(inputs[name], where) for name in inputs})
        except Problem as problem:
            raise EngineError(str(problem)) from problem
    return requests


def _check(model: LoadedModel, request: Request, where: str) -> None:
    names = sorted(tensor.name for tensor in model.inputs)
    if sorted(request) != names:
        raise EngineError(f"{where}: it has the inputs {sorted(request)}; the model's are {names}")
    for tensor in model.inputs:
        array = request[tensor.name]
        wanted = tensor.item_shape
        fits = wanted is None or (array.ndim > 0 and has_shape(array.shape[1:], wanted))
        if array.dtype != tensor.dtype or not fits:
            raise EngineError(
                f"{where}: got {array.dtype} {shape_text(array.shape)} for the input {tensor}; "
                "expected arrays that the model takes"
            )
