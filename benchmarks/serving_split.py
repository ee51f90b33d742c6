"""One ``:predict`` request of 700 items beside small ones, over the wire, split and not.

python benchmarks/serving_split.py [--quick]

Four connections ask for one item at a time, again and again, while another one has 700 items done,
again and again. The model is three dense layers in NumPy, in batches of up to 1000: what one call
takes grows with its items.
"""

import argparse
import http.client
import json
import threading
import time

import numpy as np
from machine import machine
from measure import print_table
from served import GRAPHS, Served

CLIENTS = 4
PATH = "/v1/models/dense:predict"


class Asking(threading.Thread):
    """Asks the same over one connection until it is told to end; notes the seconds."""

    def __init__(self, port: int, items: int, stop: threading.Event) -> None:
        """Begins."""
        super().__init__()
        row = [round(0.01 * number, 2) for number in range(64)]
        self._body = json.dumps({"instances": [row] * items})
        self._port, self._over, self._items = port, stop, items
        self.seconds: list[float] = []
        self.start()

    def run(self) -> None:
        """Asks at least once."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        while not self.seconds or not self._over.is_set():
            start = time.perf_counter()
            connection.request("POST", PATH, self._body)
            answer = connection.getresponse()
            found = json.loads(answer.read())
            self.seconds.append(time.perf_counter() - start)
            assert answer.status == 200, found
            assert len(found["predictions"]) == self._items
        connection.close()


def latencies(split_size: int, items: int, seconds: float) -> tuple[list[float], list[float]]:
    """Returns the seconds that small requests and big ones took; ``items`` 0: no big ones."""
    graph = str(GRAPHS / "dense.toml")
    with Served(graph, "--set", f"dense.split_size={split_size}") as server:
        stop = threading.Event()
        small = [Asking(server.port, 1, stop) for _ in range(CLIENTS)]
        big = [Asking(server.port, items, stop)] if items else []
        time.sleep(seconds)
        stop.set()
        for one in (*small, *big):
            one.join()
    return [s for one in small for s in one.seconds], [s for one in big for s in one.seconds]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=700, help="of the big request")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    rounds, seconds = (1, 0.2) if given.quick else (given.rounds, given.seconds)
    cases = {"no big request": (0, 0), "as they come": (0, given.items)}
    cases |= {f"split_size={size}": (size, given.items) for size in (200, 100, 32)}
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in cases}
    with machine() as ran_on:
        for _ in range(rounds):
            for name, (size, items) in cases.items():
                for known, new in zip(found[name], latencies(size, items, seconds), strict=True):
                    known.extend(new)
        rows: list[list[object]] = []
        for name, parts in found.items():
            figures = [np.percentile(part or [0.0], (50, 99)) * 1e3 for part in parts]
            cells = [float(value) for part in figures for value in part]
            rows.append([name, *cells[:2], len(parts[0]), *cells[2:], len(parts[1])])
        columns = ["", "small p50, ms", "small p99, ms", "count"]
        columns += ["big p50, ms", "big p99, ms", "count"]
        print_table(
            f"{CLIENTS} connections with one item beside one with {given.items}", columns, rows
        )
        print(f"\n{ran_on}")


if __name__ == "__main__":
    main()
