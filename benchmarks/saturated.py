"""Measures the size of batches before a saturated model, with and without hand-overs and fusing.

Neither hand-overs nor fusing may make the batches smaller.

python benchmarks/saturated.py [--quick]

Small JPEGs are decoded, resized and scaled before a ResNet-26, in batches of at most
16 images. The load is 32 clients that each wait for their answer, or one session. Hand-overs let a
thread go on with the next stage. Fusing makes neighbours one stage. The combinations take turns in
every round.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
from image_pipeline import client_rate, photograph
from machine import machine
from measure import print_table, session_rate
from resnet import write_resnet

import modelflow
from modelflow.runtime import worker_slot as slot
from modelflow.testing import read_unit

CLIENTS = 32
BATCH = 16
SIDE = 64
GRAPH = """digraph classify {{
    fuse={fuse}
    input [type=input]
    decode [flowunit=image_decoder]
    resize [image_width={side}, image_height={side}]
    scale [flowunit=image_preprocess, standard_deviation_inverse="0.0039", output_layout=chw]
    infer [flowunit=resnet, batch_size={batch}]
    output [type=output]
    input -> decode -> resize -> scale -> infer -> output
}}"""
UNIT = """[base]
name = "resnet"
device = "cpu"
entry = "{entry}"
type = "inference"
virtual_type = "onnx"
[input.input1]
name = "image"
type = "float"
[output.output1]
name = "scores"
"""
# Whether neighbours are one stage, and the time below which a call is handed over.
SETTINGS = {
    "stages apart, no hand-overs": ("off", 0.0),
    "stages apart": ("off", slot.CHEAP),
    "as it is": ("auto", slot.CHEAP),
}
BASE = "stages apart, no hand-overs"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few images: to see that it runs")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    given = parser.parse_args()
    rounds, count = (1, 2 * CLIENTS) if given.quick else (given.rounds, 20 * CLIENTS)
    cv2.setNumThreads(1)
    jpeg, rows = photograph(200, 150), []
    forms: dict[str, Callable[[modelflow.Flow], float]] = {
        f"{CLIENTS} clients": lambda flow: client_rate(lambda: flow.infer(jpeg), count, CLIENTS),
        "one session": lambda flow: session_rate(flow, jpeg, count),
    }
    with tempfile.TemporaryDirectory() as folder, machine() as ran_on:
        path = write_resnet("onnx", 26, Path(folder), SIDE)
        file = Path(folder) / "resnet.toml"
        file.write_text(UNIT.format(entry=path))
        unit = read_unit(file)
        for form, rate_of in forms.items():
            rates, sizes = _measured(unit, rate_of, rounds)
            rate, size = rates[BASE], sizes[BASE]
            rows += [
                (
                    f"{form}, {name}",
                    rates[name],
                    rates[name] / rate,
                    sizes[name],
                    sizes[name] / size,
                )
                for name in SETTINGS
            ]
    print_table(
        f"ResNet-26 in batches of {BATCH}, medians of {rounds}; ratios to the first",
        ("what", "img/s", "of it", "rows a call", "of it"),
        rows,
    )
    print(ran_on)


def _measured(
    unit: modelflow.FlowUnitSpec, rate_of: Callable[[modelflow.Flow], float], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Runs all settings in alternating rounds; returns rates, and rows a call of the model."""
    rates: dict[str, list[float]] = {name: [] for name in SETTINGS}
    sizes: dict[str, list[float]] = {name: [] for name in SETTINGS}
    usual = slot.CHEAP
    try:
        for _ in range(rounds):
            for name, (fuse, slot.CHEAP) in SETTINGS.items():
                graph = GRAPH.format(fuse=fuse, side=SIDE, batch=BATCH)
                with modelflow.Flow(graph, units=[unit]) as flow:
                    rates[name].append(rate_of(flow))
                    sizes[name].append(flow.stats()["infer"].mean_batch_size)
    finally:
        slot.CHEAP = usual
    return (
        {name: statistics.median(found) for name, found in rates.items()},
        {name: statistics.median(found) for name, found in sizes.items()},
    )


if __name__ == "__main__":
    main()
