"""Makes INT8 models from a Keras or ONNX model, and measures whether they pay.

python quantise.py MODEL EXAMPLES.npz [--folder int8] [--threads 8] [--seconds 3]

EXAMPLES.npz holds an array for each input of the model (axis 0: the examples, as the model gets
them), and perhaps ``labels`` (the right classes). Examples of the first half calibrate, and the
other half tests. The program needs modelflow-graph[onnx] and onnx, for Keras models tensorflow and
tf2onnx, and for OpenVINO's INT8 openvino and nncf.
"""

import argparse
import contextlib
import importlib.util
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import modelflow

# ONNX Runtime keeps the outputs of all layers for all examples: 45 MB each for a ResNet-50.
MOST_CALIBRATION = 32
# Share of the values of a layer, in percent, that its range holds. The largest value alone as the
# range costs MobileNetV2 a sixth of its answers (benchmarks/engines.py).
PERCENTILE = 99.99
LEAST_GAIN, LEAST_AGREEMENT = 1.2, 0.99

Examples = Mapping[str, np.ndarray]


def convert_keras(path: Path, target: Path) -> Path:
    """Writes a Keras model as an ONNX file."""
    import keras

    model = keras.models.load_model(path)
    zeros = [np.zeros((1, *tensor.shape[1:]), tensor.dtype) for tensor in model.inputs]
    model(zeros if len(zeros) > 1 else zeros[0])  # Keras exports no model that was never called
    model.export(target, format="onnx", verbose=False)
    return target


def quantise_onnx(path: Path, target: Path, examples: Examples) -> Path:
    """Writes the INT8 form of an ONNX file, by ONNX Runtime's static quantisation."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._rows = rows_of(examples)

        def get_next(self) -> Examples | None:
            return next(self._rows, None)

    prepared = target.with_suffix(".prepared.onnx")
    quant_pre_process(path, prepared)  # folds constants and batch normalisation
    with contextlib.redirect_stdout(sys.stderr):  # it prints its steps
        quantize_static(
            prepared,
            target,
            Reader(),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.Percentile,
            extra_options={"CalibPercentile": PERCENTILE},
        )
    prepared.unlink()
    return target


def quantise_openvino(path: Path, target: Path, examples: Examples) -> Path:
    """Writes the INT8 form of an ONNX file as OpenVINO's .xml and .bin, by NNCF."""
    import nncf
    import openvino

    rows = list(rows_of(examples))
    model = openvino.Core().read_model(path)
    quantised = nncf.quantize(model, nncf.Dataset(rows), subset_size=len(rows))
    openvino.save_model(quantised, target, compress_to_fp16=False)
    return target


def rows_of(examples: Examples) -> Iterator[dict[str, np.ndarray]]:
    """Yields each example as a batch of its own."""
    count = len(next(iter(examples.values())))
    for row in range(count):
        yield {name: values[row : row + 1] for name, values in examples.items()}


def classes_of(model: modelflow.Model, examples: Examples, threads: int) -> np.ndarray:
    """Returns the class with the highest score for each example."""
    items = zip(*(examples[name] for name in model.inputs), strict=True)
    with ThreadPoolExecutor(threads) as pool:
        return np.array([scores[0].data.argmax() for scores in pool.map(model.infer, items)])


def rate_of(model: modelflow.Model, examples: Examples, threads: int, seconds: float) -> float:
    """Returns answers a second for clients that each wait for their answer."""
    item = [examples[name][0] for name in model.inputs]
    counts, stop = [0] * threads, time.perf_counter() + seconds

    def ask(place: int) -> None:
        while time.perf_counter() < stop:
            model.infer(item)
            counts[place] += 1

    clients = [threading.Thread(target=ask, args=(place,)) for place in range(threads)]
    start = time.perf_counter()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return sum(counts) / (time.perf_counter() - start)


def candidates(path: Path, folder: Path, examples: Examples) -> dict[str, modelflow.Model]:
    """Makes the quantised files, and returns the models by name, the unchanged one first."""
    onnx = path if path.suffix == ".onnx" else convert_keras(path, folder / f"{path.stem}.onnx")
    how = {"batch_size": 8, "batch_timeout_ms": 2}
    found = {"fp32, onnx": modelflow.Model(onnx, **how)}
    inputs = found["fp32, onnx"].inputs
    if set(inputs) != set(examples):
        raise SystemExit(
            f"the examples have the arrays {sorted(examples)}; expected one for each input of the "
            f"model: {sorted(inputs)}"
        )
    quantised = quantise_onnx(onnx, folder / f"{path.stem}.int8.onnx", examples)
    found["int8, onnx"] = modelflow.Model(quantised, **how)
    if all(map(importlib.util.find_spec, ("openvino", "nncf"))):
        found["fp32, openvino"] = modelflow.Model(onnx, engine="openvino", **how)
        quantised = quantise_openvino(onnx, folder / f"{path.stem}.int8.xml", examples)
        found["int8, openvino"] = modelflow.Model(quantised, **how)
    return found


def verdict(name: str, gain: float, agreement: float) -> str:
    """Says in one sentence whether the quantised model pays."""
    pays = gain >= LEAST_GAIN and agreement >= LEAST_AGREEMENT
    return (
        f"{name} {'pays' if pays else 'does not pay'}: {gain:.2f} times the rate of fp32, onnx, "
        f"and {agreement:.1%} of its answers."
    )


def main() -> None:
    """Makes the models, measures, and prints the table and a sentence for each INT8 model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help=".keras or .onnx")
    parser.add_argument("examples", type=Path, help="a .npz file")
    parser.add_argument("--folder", type=Path, default=Path("int8"), help="for the new files")
    parser.add_argument("--threads", type=int, default=8, help="clients at once")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    arrays = dict(np.load(given.examples))
    labels = arrays.pop("labels", None)
    counts = {name: len(values) for name, values in arrays.items()}
    counts |= {} if labels is None else {"labels": len(labels)}
    if len(set(counts.values())) != 1 or min(counts.values()) < 2:
        parser.error(f"got rows {counts}; expected at least 2, and as many in each array")
    middle = len(next(iter(arrays.values()))) // 2
    step = -(-middle // MOST_CALIBRATION)
    calibration = {name: values[:middle:step] for name, values in arrays.items()}
    tested = {name: values[middle:] for name, values in arrays.items()}
    given.folder.mkdir(parents=True, exist_ok=True)
    models = candidates(given.model, given.folder, calibration)
    for model in models.values():
        model.start()
    answers = {name: classes_of(model, tested, given.threads) for name, model in models.items()}
    rates: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(given.rounds):  # rounds, because other programs change the speed of a machine
        for name, model in models.items():
            rates[name].append(rate_of(model, tested, given.threads, given.seconds))
    for model in models.values():
        model.stop()
    first = "fp32, onnx"
    print(f"{'model':16}{'items/s':>10}{'ratio':>8}{'as fp32':>10}{'right':>8}")
    sentences = []
    for name in models:
        gain = statistics.median(rates[name]) / statistics.median(rates[first])
        agreement = float((answers[name] == answers[first]).mean())
        right = "" if labels is None else f"{(answers[name] == labels[middle:]).mean():.1%}"
        rate = statistics.median(rates[name])
        print(f"{name:16}{rate:10.0f}{gain:8.2f}{agreement:10.1%}{right:>8}")
        if name.startswith("int8"):
            sentences.append(verdict(name, gain, agreement))
    print("\n".join(sentences))


if __name__ == "__main__":
    main()
