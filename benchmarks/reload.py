"""A model reloaded 200 times under load: requests lost, and memory.

python benchmarks/reload.py [--engine onnx] [--reloads 200] [--quick]

For each reload the program adds a new version to the model's folder, removes an old version, and
calls `reload`. Meanwhile client threads send requests without a pause.
"""

import argparse
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from measure import print_table
from resnet import ITEM_SHAPES, write_small
from sessions import resident

import modelflow

CLIENTS = 2


class Load:
    """Clients that ask without a pause, and count."""

    def __init__(self, model: modelflow.Model, item: np.ndarray) -> None:
        """Starts them."""
        self.answers = 0
        self.failed: list[Exception] = []
        self.longest = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(model, item)) for _ in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, model: modelflow.Model, item: np.ndarray) -> None:
        while not self._stop.is_set():
            start = time.perf_counter()
            try:
                model.infer([item])
            except Exception as error:  # noqa: BLE001 - each is a request that failed
                self.failed.append(error)
            with self._lock:
                self.answers += 1
                self.longest = max(self.longest, time.perf_counter() - start)

    def stop(self) -> None:
        """Ends them."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=sorted(ITEM_SHAPES), default="onnx")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--reloads", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    reloads = 3 if given.quick else given.reloads
    shown = sorted({1, min(10, reloads), *range(reloads // 4, reloads + 1, max(1, reloads // 4))})
    item = np.random.default_rng(0).random(ITEM_SHAPES[given.engine], np.float32)
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "model"
        source = write_small(given.engine, Path(folder))
        _publish(source, root, 1)
        with modelflow.Model(root, batch_size=2, device=given.device, engine=given.engine) as model:
            load = Load(model, item)
            try:
                for number in range(1, reloads + 1):
                    _publish(source, root, number + 1)
                    start = time.perf_counter()
                    model.reload()
                    seconds = time.perf_counter() - start
                    if number > 1:
                        shutil.rmtree(root / str(number - 1))
                    if number in shown:
                        rows.append([number, resident(), seconds, load.answers, len(load.failed)])
            finally:
                load.stop()
    print_table(
        f"{given.engine} on {given.device}, {CLIENTS} clients",
        ["reloads", "resident, MiB", "a reload, s", "answers", "failed"],
        rows,
    )
    base = next((row for row in rows if row[0] == min(10, reloads)), rows[0])
    print(f"\nfailed requests: {len(load.failed)} of {load.answers}; ", end="")
    print(f"the longest took {load.longest:.2f} s")
    for error in load.failed[:3]:
        print(f"  {error}")
    change = float(rows[-1][1]) / float(base[1]) - 1  # type: ignore[arg-type]
    print(f"memory at the end against that after reload {base[0]}: {change:+.1%}")


def _publish(source: Path, root: Path, version: int) -> None:
    """Puts a version into the model's folder: complete at once, as reload may look any time."""
    new = root.parent / f"new-{os.getpid()}"
    new.mkdir(parents=True)
    shutil.copy(source, new)
    root.mkdir(exist_ok=True)
    new.rename(root / str(version))


if __name__ == "__main__":
    main()
