"""Compares the ready graph detect_classify with the same calls by hand: answers, and objects/s.

python benchmarks/detect_classify.py [--pictures 1000] [--quick]

Every box, crop and class of the graph is compared with those by hand. The rates are those of the
graph in one session, and of the graph with 16 clients. A loop by hand has batches of 8 pictures.
Two processes take one picture at a time each, as servers without batching do.
"""

import argparse
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np
from detect_by_hand import GRAPH, ByHand, differences, picture
from measure import print_table, take_turns

import modelflow

BATCH, CLIENTS = 8, 16
_WITH_CROPS = """
    keep[flowunit=gather, meta=box]
    crops[type=output]
    crop -> keep -> crops
}'''
"""


def compare(pictures: list[bytes], path: str) -> tuple[int, list[str]]:
    """Returns the number of objects by hand, and the differences of the graph's answers."""
    hand, found, count = ByHand(), [], 0
    with modelflow.Flow(path) as flow:
        for number, encoded in enumerate(pictures):
            answer = flow.infer(encoded)
            (objects,) = hand.find([encoded])
            count += len(objects)
            told = differences(objects, answer["objects"].data)
            crops = [part["value"] for part in answer["crops"].data]
            for one, crop in zip(objects, crops, strict=False):
                if not np.array_equal(one["crop"], crop):
                    told.append("another crop")
            found += [f"picture {number}: {text}" for text in told]
    return count, found


def one_session(flow: modelflow.Flow, pictures: list[bytes]) -> int:
    """Sends all pictures in one session; returns the number of objects."""
    stream = flow.create_stream_io()

    def send() -> None:
        for encoded in pictures:
            stream.send("image", encoded)
        stream.close_input()

    sender = threading.Thread(target=send)
    sender.start()
    count = sum(len(buffer.data) for buffer in stream)
    sender.join()
    return count


def by_clients(flow: modelflow.Flow, pictures: list[bytes]) -> int:
    """Asks for all pictures by several clients, each a picture at a time."""
    counts = [0] * CLIENTS

    def ask(number: int) -> None:
        for encoded in pictures[number::CLIENTS]:
            counts[number] += len(flow.infer(encoded).data)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


_own: list[ByHand] = []


def _start() -> None:
    _own.append(ByHand(threads=1))


def _count(encoded: bytes) -> int:
    (objects,) = _own[0].find([encoded])
    return len(objects)


def main() -> None:
    """Prints the comparison and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    count, rounds = (40, 1) if given.quick else (given.pictures, given.rounds)
    pictures = [picture(number) for number in range(count)]

    text = GRAPH.read_text().rstrip().removesuffix("}'''") + _WITH_CROPS
    text = text.replace('"models/', f'"{GRAPH.parent}/models/')
    objects, found = compare(pictures, text)
    print(f"{count} pictures, {objects} objects, {len(found)} differences", *found[:10], sep="\n")

    hand = ByHand()
    spawn = multiprocessing.get_context("spawn")
    with modelflow.Flow(GRAPH) as flow, spawn.Pool(2, _start) as pool:

        def loop() -> int:
            parts = (pictures[at : at + BATCH] for at in range(0, count, BATCH))
            return sum(len(one) for part in parts for one in hand.find(part))

        programs: dict[str, Callable[[], int]] = {
            "graph, one session": lambda: one_session(flow, pictures),
            f"graph, {CLIENTS} clients": lambda: by_clients(flow, pictures),
            f"loop by hand, batches of {BATCH}": loop,
            "2 processes by hand, a picture each": lambda: sum(pool.map(_count, pictures, 1)),
        }

        def rate(program: Callable[[], int]) -> float:
            start = time.perf_counter()
            assert program() == objects
            return objects / (time.perf_counter() - start)

        for program in programs.values():
            program()
        rates = take_turns({name: lambda p=p: rate(p) for name, p in programs.items()}, rounds)
    base = rates[f"loop by hand, batches of {BATCH}"]
    rows = [
        [
            name,
            statistics.median(own),
            statistics.median(a / b for a, b in zip(own, base, strict=True)),
        ]
        for name, own in rates.items()
    ]
    print_table("objects a second", ["", "objects/s", "of the loop by hand"], rows)


if __name__ == "__main__":
    main()
