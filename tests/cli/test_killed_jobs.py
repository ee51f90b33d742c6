"""Tests of jobs whose process is killed repeatedly: items occur once, guilty items as errors."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys

import pytest

from tests import programs
from tests.in_process import run_here

pq = pytest.importorskip("pyarrow.parquet")

UNITS = """
import os, pathlib, signal, time, modelflow
import numpy as np

def noted(data):
    with open("tried.txt", "a") as file:
        file.write(data.get("path") + chr(10))

@modelflow.flowunit(batch_size=4, threads=2)
def size(data: modelflow.Buffer):
    "Gives the size of a text, after some work."
    time.sleep(0.004)
    if data.data.startswith(b"bad"):
        raise ValueError("is bad")
    return len(data.data)

@modelflow.flowunit(batch_size=4, threads=2)
def deadly(data: modelflow.Buffer):
    "Ends the process at some texts."
    noted(data)
    if data.data.startswith(b"poison"):
        os.kill(os.getpid(), signal.SIGSEGV)
    return len(data.data)

class Odd:
    "Has no text."
    def __repr__(self):
        raise RuntimeError("has no text")

ROUND = []
ROUND.append(ROUND)
ODD = [
    lambda: 10**5000,
    lambda: ROUND,
    Odd,
    lambda: np.array([Odd()], object),
]

@modelflow.flowunit(batch_size=4, threads=2)
def varied(data: modelflow.Buffer):
    "Gives what cannot be written, or nothing, for some texts; the process is killed once."
    kind, _, number = bytes(data.data).decode().partition(" ")
    if kind == "compute":
        raise ValueError("is bad")
    if kind == "write":
        return ODD[int(number) % len(ODD)]()
    if number == "500" and not os.path.exists("killed"):
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return int(number)
"""
TWO_OUTPUTS = """
import os, pathlib, signal, threading, time, modelflow

is_first = not os.path.exists("killed")
is_ahead = threading.Event()

@modelflow.flowunit
def quick(data: modelflow.Buffer):
    "Fails for some texts; in the first run for all behind the 150th, where the process is killed."
    number = int(data.data)
    if number == 160:
        is_ahead.set()
    if number % 50 == 3 or (is_first and number >= 150):
        raise ValueError("is bad")
    return number

@modelflow.flowunit
def slow(data: modelflow.Buffer):
    "Is killed once, `quick` being ahead of its work; fails for some texts, too."
    number = int(data.data)
    if is_first and number >= 140:
        assert is_ahead.wait(30)
        time.sleep(0.01)
    if is_first and number == 150:
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if number % 50 in (3, 4):
        raise ValueError("is bad")
    return number
"""
COUNT = 300
OUTPUTS = ("o.jsonl", "out/", "o.parquet")


@pytest.fixture
def job(folder):
    """Returns a folder with texts, some of them bad, and a graph that gives their sizes."""
    (folder / "jobs.py").write_text(UNITS)
    (folder / "texts").mkdir()
    for number in range(COUNT):
        text = "bad" if number % 50 == 3 else "x" * number
        (folder / "texts" / f"{number}.txt").write_text(text)
    write_graph(folder, "size")
    return folder


def write_graph(folder, unit):
    (folder / "job.dot").write_text(
        f'digraph {{ input [type=input] unit [flowunit="jobs:{unit}"] output [type=output] '
        "input -> unit -> output }"
    )


def command(output, *more):
    words = ["run", "job.dot", "--input", "texts", "--output", output, "--resume", "o.done", "-q"]
    return [sys.executable, "-m", "modelflow", *words, *more]


def told_again(words):
    """Returns the output of a finished job that runs again in the working folder."""
    return run_here(tuple(word for word in words[3:] if word != "-q"), env={}).stderr


def results(folder, output, errors=""):
    """Returns the results by item number, None for an error; checks that each item occurs once."""
    if output == "o.jsonl":
        lines = [json.loads(line) for line in (folder / output).read_text().splitlines()]
        found = [(line["path"], line.get("data")) for line in lines]
        assert [line["index"] for line in lines] == list(range(len(lines)))
    elif output == "o.parquet":
        rows = pq.read_table(folder / output).to_pylist()
        found = [(row["path"], row["data"]) for row in rows]
        assert all((row["data"] is None) == bool(row["error"]) for row in rows)
        assert sorted(row["index"] for row in rows) == list(range(len(rows)))
    else:
        names = [name for name in os.listdir(folder / output) if not name.startswith(".")]
        found = [
            (name.partition("_")[2], int((folder / output / name).read_text())) for name in names
        ]
        # Errors go to standard output there. The list of finished items contains them.
        for line in (folder / "o.done").read_text().splitlines()[1:]:
            said = json.loads(line)
            for (path,) in said.get("all") or ([said["done"]] if "done" in said else []):
                name = os.path.basename(path).replace(".txt", ".json")
                if name not in dict(found):
                    found.append((name, None))
    numbered = [(int(os.path.basename(path).partition(".")[0]), data) for path, data in found]
    assert len(dict(numbered)) == len(numbered), "an item is there twice"
    return dict(numbered)


@pytest.mark.slow
@pytest.mark.parametrize("output", OUTPUTS)
def test_killed_at_any_moment_each_item_is_there_once(job, output):
    chance = random.Random()
    for _ in range(4):
        with programs.started(
            command(output), cwd=job, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.2, 2.5))
            process.kill()
    done = programs.run(command(output), cwd=job)
    while "one by one" in done.stderr:
        done = programs.run(command(output), cwd=job)
    expected = {n: None if n % 50 == 3 else n for n in range(COUNT)}
    assert results(job, output) == expected
    assert f"{COUNT // 50} errors in earlier runs" in told_again(command(output))
    assert not (job / "o.done.journal").exists()


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_item_that_kills_its_process_is_an_error_after_three_deaths(job, output):
    write_graph(job, "deadly")
    guilty = (7, 130) if output == "o.jsonl" else (130,)
    for number in guilty:
        (job / "texts" / f"{number}.txt").write_text("poison")
    codes, told = [], ""
    while not codes or codes[-1] < 0:
        done = programs.run(command(output, "--errors", "bad"), cwd=job)
        codes.append(done.returncode)
        told = done.stderr
        assert len(codes) <= 3 * len(guilty) + 1, "it is tried without an end"
    assert "texts/130.txt: the process has died 3 times while it was worked on" in told
    assert codes == [-signal.SIGSEGV] * (len(codes) - 1) + [1]
    expected = {number: number for number in range(COUNT)}
    expected |= dict.fromkeys(range(3, COUNT, 50), 3)
    # no innocent item is blamed
    assert results(job, output) == {**expected, **dict.fromkeys(guilty)}
    bad = [json.loads(line)["path"] for line in (job / "bad").read_text().splitlines()]
    paths = {f"texts/{number}.txt" for number in guilty}
    assert (len(bad), set(bad)) == (len(guilty), paths), "one that was done again is told twice"
    tried = (job / "tried.txt").read_text().splitlines()
    assert {tried.count(path) for path in paths} == {3}
    # An innocent item was at most in one group with each of the guilty, and then alone. Results
    # that are not yet in a part are lost with each death.
    most = len(codes) if output == "o.parquet" else len(guilty) + 1
    innocent = expected.keys() - guilty
    assert max(tried.count(f"texts/{number}.txt") for number in innocent) <= most


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_tenth_item_fails_somewhere_and_the_job_is_killed(folder, output):
    """Tests failures in reading and writing, where no unit works: they are the item's errors."""
    (folder / "jobs.py").write_text(UNITS)
    (folder / "texts").mkdir()
    write_graph(folder, "varied")
    failing = range(3, 1000, 10)
    for number in range(1000):
        kind = ("read", "compute", "write")[number // 10 % 3] if number in failing else "fine"
        name = f"{number}.npy" if kind == "read" else f"{number}.txt"
        (folder / "texts" / name).write_text(f"{kind} {number}")
    first, then = (programs.run(command(output, "--errors", "bad"), cwd=folder) for _ in range(2))
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert then.returncode == 1, then.stderr
    found = results(folder, output)
    assert found == {n: None if n in failing else n for n in range(1000)}
    lines = [json.loads(line) for line in (folder / "bad").read_text().splitlines()]
    named = [int(os.path.basename(line["path"]).partition(".")[0]) for line in lines]
    assert sorted(named) == list(failing)
    phases = {number: line["error"]["phase"] for number, line in zip(named, lines, strict=True)}
    assert {phases[n] for n in failing} == {"read", "process", "write"}
    assert sum(phase == "write" for phase in phases.values()) == 33


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a.jsonl", "b.jsonl"),
        ("a/", "b.parquet"),
        ("a.parquet", "b/"),
    ],
)
def test_errors_of_several_outputs_are_counted_once(folder, first, second):
    (folder / "jobs.py").write_text(TWO_OUTPUTS)
    (folder / "texts").mkdir()
    for number in range(200):
        (folder / "texts" / f"{number}.txt").write_text(str(number))
    (folder / "job.dot").write_text(
        'digraph { input [type=input] quick [flowunit="jobs:quick"] slow [flowunit="jobs:slow"] '
        "a [type=output] b [type=output] input -> quick -> a input -> slow -> b }"
    )
    words = [*command(f"a={first}", "--output", f"b={second}", "--errors", "bad")]
    killed, then = programs.run(words, cwd=folder), programs.run(words, cwd=folder)
    assert (killed.returncode, then.returncode) == (-signal.SIGKILL, 1), then.stderr
    assert "8 errors in earlier runs" in told_again(words)
    lines = [json.loads(line) for line in (folder / "bad").read_text().splitlines()]
    assert sorted(int(os.path.basename(line["path"])[:-4]) for line in lines) == [
        number for number in range(200) if number % 50 in (3, 4)
    ]


def test_what_ended_in_order_is_suspected_of_nothing(job):
    def noted():
        return (job / "o.done").read_text().count("\n") if (job / "o.done").exists() else 0

    with programs.started(command("o.jsonl"), cwd=job, stderr=subprocess.PIPE) as process:
        while process.poll() is None and noted() < 2:
            os.sched_yield()
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert not (job / "o.done.journal").exists()
    programs.run(command("o.jsonl"), cwd=job)
    assert '"died"' not in (job / "o.done").read_text()
    assert results(job, "o.jsonl").keys() == set(range(COUNT))


@pytest.mark.parametrize(
    ("file", "output", "told"),
    [
        (
            "out/000007_mine.json",
            "out/",
            "000007_mine.json is there already, and the list that --resume names knows",
        ),
        ("o.done.journal", "o.jsonl", "o.done.journal is no journal of a job; remove it"),
    ],
)
def test_what_is_of_something_else_stays_and_is_refused(job, file, output, told):
    (job / "out").mkdir()
    (job / file).write_text("1")
    done = run_here(tuple(command(output)[3:]), env={})
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr
    assert (job / file).read_text() == "1"
