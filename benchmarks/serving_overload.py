"""Sends more requests than a model can answer, and counts answers and refusals.

python benchmarks/serving_overload.py [--pause-ms 5] [--quick]

The model takes 5 ms for a batch of up to 32 rows. A client sends requests at fixed times, whose
answers it does not wait for (`open_loop.py`). Its rate is half, once and three times the model's
capacity, with one row a request and with eight. Then requests have deadlines, and clients go away.
The program compares the server's counts with the clients' counts, and both with the unit's notes.
At last a model without a pause gets more and more connections. The cost of a request must then
stay the same.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import machine
from measure import print_table
from open_loop import request_of
from served import GRAPHS, Served
from serving_graphs.paced_unit import noted, room_for_notes

PATH = "/v1/models/paced:predict"
BATCH = 32
MOST = 256  # requests under way
CONNECTIONS = 600
FORMS = (1, 8)  # rows a request: one travels with others, several are a session
CLIENTS = (8, 64, 256, 450)  # connections that always ask
CLIENT = Path(__file__).resolve().parent / "open_loop.py"


def served(pause_ms: float, notes: Path, *more: str) -> Served:
    """Returns the server, not started."""
    room_for_notes(notes, 1 << 21)
    return Served(
        *(str(GRAPHS / "paced.toml"), "--set", f"paced.pause_ms={pause_ms}"),
        *("--set", f"paced.notes={notes}", "--max-requests", str(MOST)),
        *("--max-connections", "4000", "--max-connections-per-client", "4000", *more),
    )


def asked(
    server: Served, rate: float, seconds: float, timeout_ms: float = 0.0, rows: int = 1
) -> dict[str, float]:
    """Sends requests at a rate; returns the client's results and the server's counts."""
    before, cpu = server.counts(), server.cpu()
    command = [sys.executable, str(CLIENT), str(server.port), PATH, "--rate", str(rate)]
    command += ["--seconds", str(seconds), "--timeout-ms", str(timeout_ms)]
    command += ["--connections", str(CONNECTIONS), "--rows", str(rows)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    counted = server.counts()
    counted.subtract(before)
    names = {"200": "OK", "504": "DEADLINE_EXCEEDED"}
    seen = {names.get(name, name): count for name, count in found["outcomes"].items()}
    found["rows"] = counted.pop("rows")
    found["agree"] = seen == {name: count for name, count in counted.items() if count}
    found["counted"] = {name: count for name, count in counted.items() if count}
    found["cpu"] = (server.cpu() - cpu) / found["seconds"]
    return found


def whole_request(rows: int) -> bytes:
    """Returns a request of so many rows, sent now."""
    head, body = request_of(PATH, 0.0, rows)
    return head + body % ((time.monotonic(),) * rows)


def always_asked(port: int, file: Path, connections: int, seconds: float) -> dict[str, float]:
    """Runs a client whose connections each send the next request after an answer."""
    client = str(CLIENT.with_name("http_client.py"))
    command = [sys.executable, client, str(port), str(file), "--connections", str(connections)]
    command += ["--seconds", str(seconds)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def capacity(
    pause_ms: float, seconds: float, folder: Path, rows: int = 1
) -> list[dict[str, float]]:
    """Returns a client's results at the largest number of concurrent requests.

    The second result is for requests that cost the server next to nothing. It shows the speed of
    the
    client alone.
    """
    file = folder / "request"
    with served(pause_ms, folder / "warm") as server:
        found = []
        for request, connections in (
            (whole_request(rows), MOST),
            (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 64),
        ):
            file.write_bytes(request)
            found.append(always_asked(server.port, file, connections, seconds))
    return found


def spread(seconds: float, folder: Path) -> None:
    """Prints the cost of a request over few and many connections, for a model without a pause."""
    table: list[list[object]] = []
    file = folder / "request"
    for rows in FORMS:
        costs: list[float] = []
        for connections in CLIENTS:
            file.write_bytes(whole_request(rows))
            with served(0.0, folder / "notes", "--max-requests", "4000") as server:
                always_asked(server.port, file, connections, seconds / 4)  # warm
                before = server.cpu()
                found = always_asked(server.port, file, connections, seconds)
                costs.append((server.cpu() - before) / found["answers"] * 1e6)
            ratio = costs[-1] / costs[0]
            table.append(
                [rows, connections, found["rate"], costs[-1], f"{ratio:.2f}x", found["errors"]]
            )
    columns = ["rows", "connections", "answered/s", "CPU, us a request", "of the first", "errors"]
    print_table("Each connection always asks; the model takes no time (goal: 1.1x)", columns, table)


def overload(
    pause_ms: float, seconds: float, rounds: int, folder: Path, rows_each: int = 1
) -> None:
    """Prints the outcomes of requests at half, once and three times the capacity."""
    full, alone = capacity(pause_ms, seconds, folder, rows_each)
    most = full["rate"]
    print(f"capacity: {most:.0f} requests/s, with {MOST} always under way, p50 ", end="")
    print(f"{full['p50_us'] / 1e3:.0f} ms, p99 {full['p99_us'] / 1e3:.0f} ms; ", end="")
    ideal = BATCH / rows_each * 1e3 / pause_ms
    print(f"the ideal: {ideal:.0f}; the client alone: {alone['rate']:.0f}")
    rows: list[list[object]] = []
    for _ in range(rounds):
        with served(pause_ms, folder / "notes") as server:
            asked(server, most / 2, seconds / 2, rows=rows_each)  # warm
            for load in (0.5, 1.0, 3.0):
                found = asked(server, load * most, seconds, rows=rows_each)
                refused = {name: n for name, n in found["outcomes"].items() if name != "200"}
                said = " ".join(f"{name}:{count}" for name, count in sorted(refused.items()))
                rows.append(
                    [
                        f"{load:g}x",
                        found["sent"] / seconds,
                        found["goodput"],
                        found["p50_ms"],
                        found["p99_ms"],
                        said or "-",
                        found["without_retry"],
                        "yes" if found["agree"] else str(found["counted"]),
                        found["cpu"],
                        found["busy"],
                        found["late_ms"],
                        found["starved"],
                    ]
                )
    columns = ["load", "asked/s", "answered/s", "p50, ms", "p99, ms", "others", "no Retry-After"]
    columns += ["counters agree", "server CPU", "client CPU", "client late, ms", "starved"]
    title = f"{pause_ms:g} ms a batch of {BATCH}, {rows_each} rows a request, "
    title += f"at most {MOST} under way, Poisson arrivals"
    print_table(title, columns, rows)
    middle = {
        load: [float(np.median([row[at] for row in rows if row[0] == load])) for at in (2, 4)]
        for load in ("0.5x", "1x", "3x")
    }
    peak = max(most, *(rate for rate, _ in middle.values()))
    late = middle["3x"][1]
    print(f"\n3x: p99 is {late / middle['1x'][1]:.2f}x that at 1x, ", end="")
    print(f"{late * 1e3 / full['p99_us']:.2f}x that with {MOST} under way (goal: 1.5x); ", end="")
    print(f"goodput is {middle['3x'][0] / peak:.1%} of the peak (goal: 95 %)")


def classes(seconds: float, rounds: int, folder: Path) -> None:
    """Prints the latency of the first class alone, and while the second is at three times the load.

    The model takes 20 ms for a batch of up to 8 rows, so neither server nor client needs much of
    the processors. The first class has a fifth of the capacity.
    """
    pause_ms, size = 20.0, 8
    full = size * 1e3 / pause_ms
    rows: list[list[object]] = []
    for each in range(rounds):
        with served(pause_ms, folder / "notes", "--set", f"paced.batch_size={size}") as server:
            command = [sys.executable, str(CLIENT), str(server.port), PATH, "--rate"]
            first = [*command, str(full / 5), "--is-first", "--connections", "100"]
            first += ["--seconds", str(seconds), "--seed", str(each)]
            second = [*command, str(3 * full), "--seconds", str(seconds + 2)]
            subprocess.run([*first[:-4], "--seconds", "0.5"], check=True, capture_output=True)
            alone = json.loads(subprocess.run(first, check=True, capture_output=True).stdout)
            with subprocess.Popen(second, stdout=subprocess.PIPE) as flood:
                time.sleep(min(1.0, seconds))  # the queues are full then
                beside = json.loads(subprocess.run(first, check=True, capture_output=True).stdout)
                assert flood.stdout is not None
                others = json.loads(flood.stdout.read())
        rows.append(
            [
                alone["p50_ms"],
                alone["p99_ms"],
                beside["p50_ms"],
                beside["p99_ms"],
                f"{beside['p99_ms'] / alone['p99_ms']:.2f}x",
                beside["sent"] - beside["outcomes"].get("200", 0),
                others["goodput"],
                others["p99_ms"],
            ]
        )
    columns = ["p50 alone, ms", "p99 alone, ms", "p50 beside, ms", "p99 beside, ms", "ratio"]
    columns += ["first not answered", "second answered/s", "p99 of second, ms"]
    title = f"first class at {full / 5:.0f}/s alone, and beside the second at {3 * full:.0f}/s"
    print_table(f"{title} (capacity {full:.0f}/s; goal: 1.3x)", columns, rows)


def deadlines(pause_ms: float, seconds: float, folder: Path) -> None:
    """Prints the outcomes of requests with deadlines at three times the capacity."""
    most = capacity(pause_ms, seconds, folder)[0]["rate"]
    rows: list[list[object]] = []
    for timeout_ms in (4 * pause_ms, 8 * pause_ms, 20 * pause_ms):
        notes = folder / f"ages-{timeout_ms}"
        with served(pause_ms, notes) as server:
            found = asked(server, 3 * most, seconds, timeout_ms)
        ages = noted(notes) * 1e3
        outcomes = " ".join(f"{name}:{n}" for name, n in sorted(found["outcomes"].items()))
        answered = found["outcomes"].get("200", 0)
        rows.append(
            [
                f"{timeout_ms:g} ms",
                found["goodput"],
                found["p50_ms"],
                found["p99_ms"],
                outcomes,
                "yes" if found["agree"] else str(found["counted"]),
                len(ages),
                len(ages) - answered,
                int((ages > timeout_ms).sum()),
                float(ages.max(initial=0.0)),
            ]
        )
    columns = ["deadline", "answered/s", "p50, ms", "p99, ms", "outcomes", "counters agree"]
    columns += ["rows in the unit", "not answered", "came expired", "oldest, ms"]
    print_table("3x, each request with a deadline", columns, rows)
    print("not answered: their time ended while the unit had them; came expired: before that")


def gone(pause_ms: float, clients: int, rounds: int, folder: Path) -> None:
    """Prints the remains of clients that disconnect during their requests."""
    rows: list[list[object]] = []
    with served(20 * pause_ms, folder / "gone", "--max-requests", str(clients)) as server:
        for number in range(1, rounds + 1):
            before, request = server.counts(), whole_request(1)
            open_ones = []
            for _ in range(clients):
                one = socket.create_connection(("127.0.0.1", server.port))
                one.sendall(request)
                open_ones.append(one)
            for one in open_ones:
                one.close()
            deadline = time.monotonic() + 60
            while (now := server.counts())["under way"] and time.monotonic() < deadline:
                time.sleep(0.01)
            now.subtract(before)
            figures = [now["CANCELLED"], now["OK"], now["rows"], now["under way"]]
            rows.append([number, clients, *figures, server.resident(), server.descriptors()])
    columns = ["round", "clients gone", "cancelled", "answered", "rows in the unit", "left"]
    print_table(
        f"clients that go away, {20 * pause_ms:g} ms a batch",
        [*columns, "resident, MiB", "descriptors"],
        rows,
    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pause-ms", type=float, default=5.0, help="of the model, a batch")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--classes", action="store_true", help="only the two classes of requests")
    parser.add_argument("--quick", action="store_true", help="only show that the program runs")
    given = parser.parse_args()
    seconds, rounds = (0.3, 1) if given.quick else (given.seconds, given.rounds)
    with machine() as ran_on, tempfile.TemporaryDirectory() as folder:
        classes(seconds, rounds, Path(folder))
        for form in () if given.classes else FORMS:
            overload(given.pause_ms, seconds, rounds, Path(folder), form)
        if not given.classes:
            deadlines(given.pause_ms, seconds, Path(folder))
            spread(seconds, Path(folder))
            gone(given.pause_ms, 20 if given.quick else 1000, 2 if given.quick else 5, Path(folder))
        print(f"\n{ran_on}")


if __name__ == "__main__":
    main()
