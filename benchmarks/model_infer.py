"""`Model.infer` from many threads (P2), against the engine alone and against a naive service.

python benchmarks/model_infer.py [--engine tensorflow] [--device cpu] [--depth 50] [--quick]

The engine alone is its best case: one thread calls it with prepared batches, one after another. The
naive service has as many threads as clients, each of which calls the engine with its own image.
"""

import argparse
import contextlib
import os
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from measure import Table, clients_rate, medians
from resnet import ITEM_SHAPES, write_resnet

import modelflow
from modelflow.device import Device, host_pool, memory_of
from modelflow.engine import LoadRequest, find_engine


class Alone:
    """The engine without modelflow's batching."""

    def __init__(self, given: argparse.Namespace, path: Path, options: dict[str, object]) -> None:
        """Loads the model."""
        found, device = find_engine(given.engine), Device(given.device)
        # CUDA graphs for the sizes below, not for the naive service's batches of one.
        sizes = tuple(size for size in given.sizes if size > 1)
        request = LoadRequest(path, device, found.options(**options), batch_sizes=sizes)
        self._model = found.load(request)
        self._memory = memory_of(self._model.memory.kind)
        (self._input,) = self._model.inputs

    def call(self, items: list[np.ndarray]) -> None:
        """Runs a batch, from the host to the host."""
        where = self._model.memory
        with self._memory.running(where):
            staged = self._memory.gather(items, len(items), np.float32, where)
            self._memory.download(list(self._model.run({self._input.name: staged}).values()))

    def rate(self, item: np.ndarray, size: int, seconds: float) -> float:
        """Returns items a second with batches that lie ready on the device."""
        where = self._model.memory
        with self._memory.running(where):
            staged = {self._input.name: self._memory.gather([item] * size, size, np.float32, where)}
            calls, start = 0, time.perf_counter()
            while time.perf_counter() - start < seconds:
                self._memory.download(list(self._model.run(staged).values()))
                calls += 1
            return calls * size / (time.perf_counter() - start)

    def close(self) -> None:
        """Frees the model."""
        self._model.close()


def staging_blocks(device: str) -> int:
    """Returns how many blocks of staging memory were taken from the system so far."""
    pool = getattr(memory_of(device), "pinned", None) or host_pool()
    return pool.allocations


def measured(given: argparse.Namespace, path: Path) -> None:
    """Measures, and prints the table."""
    options: dict[str, object] = {}
    if given.precision:
        options["precision"] = given.precision
    if given.device == "cuda" and given.engine == "torch":
        options |= {"channels_last": True, "cuda_graph": given.cuda_graph}
    alone = Alone(given, path, options)
    item = np.random.default_rng(0).random(ITEM_SHAPES[given.engine], np.float32)
    clients, seconds = given.clients, given.seconds
    table = table_of(given)
    found = {}
    for size in given.sizes:
        alone.rate(item, size, seconds / 4)
        found[size] = alone.rate(item, size, seconds)
        table.add(f"engine alone, batch {size}", found[size])
    best = max(found, key=lambda size: found[size])
    if given.threads:
        options["threads"] = given.threads
    # A batch larger than there are clients would always wait for its time-out.
    sizes = [best]
    if given.device == "cuda":
        sizes = [size for size in given.sizes if size <= clients] or [clients]
    with contextlib.ExitStack() as stack:
        models = {size: stack.enter_context(model_of(given, path, size, options)) for size in sizes}
        programs = {
            size: partial(clients_rate, partial(model.infer, [item]), clients, size, seconds)
            for size, model in models.items()
        }
        for size, model in models.items():
            clients_rate(partial(model.infer, [item]), clients, size, seconds / 4)
        one_by_one = partial(alone.call, [item])
        blocks = staging_blocks(given.device)
        rates = medians(
            {
                "naive": lambda: clients_rate(one_by_one, clients, clients, seconds),
                "alone": lambda: alone.rate(item, best, seconds),
                **{str(size): program for size, program in programs.items()},
            },
            given.rounds,
        )
        blocks = staging_blocks(given.device) - blocks
        calls = {size: model.stats().figures["engine_calls"] for size, model in models.items()}
    alone.close()
    naive, bound = rates["naive"], rates["alone"]
    table.add(f"engine alone, batch {best}, again", bound, 1.0, bound / naive)
    table.add(f"naive, {clients} threads, batch 1", naive, naive / bound, 1.0)
    for size in sizes:
        rate, seen = rates[str(size)], max(calls[size], key=lambda rows: calls[size][rows])
        title = f"Model.infer, {clients} threads, batch_size {size} (most calls had {seen} rows)"
        table.add(title, rate, rate / bound, rate / naive)
    table.add("blocks of staging memory allocated while measured", blocks)
    table.close()


def model_of(
    given: argparse.Namespace, path: Path, size: int, options: dict[str, object]
) -> modelflow.Model:
    """Returns the model with batches of ``size``, to be started."""
    how = {"device": given.device, "engine": given.engine, "batch_timeout_ms": 20, **options}
    return modelflow.Model(path, batch_size=size, **how)


def table_of(given: argparse.Namespace) -> Table:
    """Returns the table, empty."""
    cores = len(os.sched_getaffinity(0))
    how = [given.engine, given.precision, "CUDA graphs" if given.cuda_graph else ""]
    title = f"ResNet-{given.depth}, {' '.join(filter(None, how))} on {given.device}"
    title += f", {cores} processors, medians"
    columns = ["what", "items/s", "of the engine alone", "of the naive service"]
    return Table(f"{title} of {given.rounds}", columns, as_json=given.json)


def main() -> None:
    """Writes the model and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=sorted(ITEM_SHAPES), default="tensorflow")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--depth", type=int, choices=[26, 50, 101], default=50, help="layers")
    parser.add_argument("--clients", type=int, default=32, help="client threads")
    parser.add_argument("--sizes", default="", help="batch sizes to try: 8,16")
    parser.add_argument("--threads", type=int, default=0, help="batches in flight; 0: the default")
    parser.add_argument("--precision", default="", help="fp32, tf32, fp16, bf16 (torch)")
    parser.add_argument("--cuda-graph", action="store_true", help="torch on cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    parser.add_argument("--json", action="store_true", help="the table as lines of JSON")
    given = parser.parse_args()
    usual = "8,16,32" if given.device == "cpu" else "8,16,32,64,128"
    if given.quick:
        given.rounds, given.seconds, usual = 1, 0.5, "1,2"
        given.depth = given.depth if given.engine == "tensorflow" else 26
    given.sizes = [int(size) for size in (given.sizes or usual).split(",")]
    with tempfile.TemporaryDirectory() as folder:
        measured(given, write_resnet(given.engine, given.depth, Path(folder)))


if __name__ == "__main__":
    main()
