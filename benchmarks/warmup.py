"""The first request with and without warm-up.

python benchmarks/warmup.py [--engines torch,onnx,tensorflow] [--quick]

Each measurement is a process of its own: an engine is cold only once.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from child import started
from measure import print_table
from resnet import ITEM_SHAPES, write_small

import modelflow


def measured(path: Path, engine: str, device: str, warm_up: str) -> dict[str, float]:
    """Returns the milliseconds of start, first and later requests; the process must be fresh."""
    item = np.random.default_rng(0).random(ITEM_SHAPES[engine], np.float32)
    options: dict[str, object] = {"warmup": warm_up}
    if warm_up == "recorded":
        recorded = path.parent / "recorded.npz"
        with modelflow.Model(path, engine=engine, warmup="none") as model:
            (name,) = model.inputs
        np.savez(recorded, **{name: item[None]})
        options["warmup_requests"] = str(recorded)
    start = time.perf_counter()
    model = modelflow.Model(path, batch_size=4, device=device, engine=engine, **options).start()
    moments = [time.perf_counter()]
    for _ in range(21):
        model.infer([item])
        moments.append(time.perf_counter())
    model.stop()
    times = [(after - before) * 1e3 for before, after in pairwise(moments)]
    return {
        "start": (moments[0] - start) * 1e3,
        "first": times[0],
        "later": statistics.median(times[1:]),
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", default="torch,onnx,tensorflow")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # path, engine, warm-up
    given = parser.parse_args()
    if given.one:
        path, engine, warm_up = given.one
        print(json.dumps(measured(Path(path), engine, given.device, warm_up)))
        return
    engines = ["torch"] if given.quick else given.engines.split(",")
    rounds = 1 if given.quick else given.rounds
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for engine in engines:
            path = write_small(engine, Path(folder))
            # TorchScript does not say the shape of its inputs: it takes recorded requests.
            usual = "recorded" if engine == "torch" else "synthetic"
            found: dict[str, list[dict[str, float]]] = {"none": [], usual: []}
            for _ in range(rounds):
                for warm_up, figures in found.items():
                    command = [sys.executable, __file__, "--device", given.device]
                    command += ["--one", str(path), engine, warm_up]
                    with started(command, stdout=subprocess.PIPE, text=True) as process:
                        output, _ = process.communicate()
                    if process.returncode:
                        raise subprocess.CalledProcessError(process.returncode, command)
                    figures.append(json.loads(output.splitlines()[-1]))
            for warm_up, figures in found.items():
                start, first, later = (
                    statistics.median(figure[key] for figure in figures)
                    for key in ("start", "first", "later")
                )
                rows.append([f"{engine}, {warm_up}", start, first, later, first / later])
    print_table(
        f"ResNet-26 (tensorflow: MobileNet) on {given.device}, medians of {rounds} processes",
        ["engine, warmup", "start, ms", "first request, ms", "later, ms", "first / later"],
        rows,
    )


if __name__ == "__main__":
    main()
